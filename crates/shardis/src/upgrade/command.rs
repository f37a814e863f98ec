//! `shardis upgrade`: asks a running shardis to start the binary on disk in its place.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `shardis upgrade`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardis upgrade --pid-file=/run/shardis.pid
  shardis upgrade --pid=4711

The process gets SIGUSR2 and starts its binary again, by the same path and flags. Clients stay connected. With --pid-file, the
command waits until the new process serves; with --pid, the log says what becomes of it. Exit code: 0 if the new process serves
(or the signal was sent, with --pid), 1 if not; then the old one serves as before (docs/upgrade.md)")]
pub(crate) struct UpgradeArgs {
    /// File with the number of the process, as of shardis proxy --pid-file
    #[arg(long, value_name = "FILE", required_unless_present = "pid", conflicts_with = "pid")]
    pid_file: Option<PathBuf>,

    /// Number of the process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,

    /// Time in which the new process must serve
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Interval of the looks at the file.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Sends the signal, and waits for the new process if there is a file to see it by.
pub(crate) fn run(args: &UpgradeArgs) -> Result<ExitCode> {
    let old = match (&args.pid_file, args.pid) {
        (Some(file), _) => read(file)?,
        (None, Some(number)) => Pid::from_raw(number).context("--pid: 0 is no process")?,
        (None, None) => bail!("write --pid-file or --pid"),
    };
    check_handles(old)?;
    let number = old.as_raw_nonzero();
    kill_process(old, Signal::USR2).map_err(|error| refusal(old, error))?;
    let said = match &args.pid_file {
        Some(file) => {
            let new = wait_for_new(file, old, Duration::from_secs(args.timeout))?;
            format!("process {new} serves in the place of process {number}")
        }
        None => format!("process {number} has the signal; its log says what becomes of the upgrade"),
    };
    // A closed stdout changes nothing.
    let _ = writeln!(std::io::stdout(), "{said}");
    Ok(ExitCode::SUCCESS)
}

/// The number in `file`.
fn read(file: &Path) -> Result<Pid> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let number = text.trim().parse().ok().filter(|&number: &i32| number > 0).and_then(Pid::from_raw);
    number.ok_or_else(|| anyhow!("{}: no number of a process", file.display()))
}

/// Refuses a process that the signal would end, because it does not handle it.
fn check_handles(pid: Pid) -> Result<()> {
    test_kill_process(pid).map_err(|error| refusal(pid, error))?;
    // Other systems than Linux do not tell.
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())) else {
        return Ok(());
    };
    match handles(&status, Signal::USR2) {
        Some(false) => {
            bail!("process {} does not handle SIGUSR2, so no shardis serves there", pid.as_raw_nonzero())
        }
        Some(true) | None => Ok(()),
    }
}

/// Whether a process with this `status` of Linux handles `signal`; `None` if unknown.
fn handles(status: &str, signal: Signal) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal.as_raw() - 1) & 1 == 1)
}

fn refusal(pid: Pid, error: rustix::io::Errno) -> anyhow::Error {
    anyhow!("process {}: {}", pid.as_raw_nonzero(), std::io::Error::from(error))
}

/// The process that has written its number to `file` in the place of `old`.
fn wait_for_new(file: &Path, old: Pid, timeout: Duration) -> Result<i32> {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        // While it is written, the file may be empty.
        if let Ok(new) = read(file)
            && new != old
        {
            return Ok(new.as_raw_nonzero().get());
        }
        // tidy: allow(sleep): the pause between two looks at a file.
        std::thread::sleep(LOOK_EVERY);
    }
    let number = old.as_raw_nonzero();
    bail!(
        "no new process serves within {} s; process {number} goes on, and its log says why",
        timeout.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handled_signals_are_read_from_the_status() {
        let status = "Name:\tx\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000800\n";
        assert_eq!(handles(status, Signal::USR2), Some(true));
        assert_eq!(handles(status, Signal::PIPE), Some(false));
        assert_eq!(handles("Name:\tx\n", Signal::USR2), None);
    }
}
