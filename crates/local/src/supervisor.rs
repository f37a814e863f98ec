//! The process that people start. It holds one end of a pipe, and closes it to end the other process. It clears up if the
//! process at the other end could not.

use super::arguments::LocalArgs;
use super::{Event, folder, tell_of_signals};
use anyhow::{Context, Result, anyhow};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Runs the other process to its end.
pub(super) fn run(args: &LocalArgs) -> Result<ExitCode> {
    adopt_orphans();
    let (sender, events) = channel();
    tell_of_signals(sender)?;
    let folder = match args.keep() {
        Some(folder) => Data::Kept(folder.to_owned()),
        None => Data::Temporary(folder::make_temporary()?),
    };
    let mut child = start(folder.path())?;
    let status = supervise(&mut child, &events);
    end_orphans();
    drop(folder);
    let status = status?;
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        None => Err(anyhow!("the process that ran the nodes has ended: {status}")),
    }
}

/// The folder for data. A temporary one is removed with this value.
enum Data {
    Kept(PathBuf),
    Temporary(PathBuf),
}

impl Data {
    fn path(&self) -> &Path {
        match self {
            Data::Kept(path) | Data::Temporary(path) => path,
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Data::Temporary(path) = self {
            folder::remove(path);
        }
    }
}

/// Starts this program again with the same arguments, which stand behind the subcommand.
fn start(folder: &Path) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("local").arg("--supervised").arg(folder).args(std::env::args_os().skip(2));
    // A group of its own: Ctrl-C reaches this process alone.
    let child = command.stdin(Stdio::piped()).process_group(0).spawn();
    child.context("cannot start the process that runs the nodes")
}

/// Waits for the end of `child`. A signal to end is passed on; the end takes some seconds at most.
fn supervise(child: &mut Child, events: &Receiver<Event>) -> Result<ExitStatus> {
    loop {
        // Its signal may have come before there was a handler.
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match events.recv().context("the thread that waits for signals is gone")? {
            Event::ChildEnded => {}
            Event::End => drop(child.stdin.take()),
        }
    }
}

/// Orphans of our child become our children, so that we can end them.
fn adopt_orphans() {
    // Without it the kernel still ends the nodes; only processes that they forked would live on for a while.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all children. There are none unless the other process was killed.
#[cfg(target_os = "linux")]
fn end_orphans() {
    use rustix::process::{Signal, WaitOptions, kill_process, wait};
    loop {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            // The child is ours and was not reaped, so its process id is not reused.
            let _ = kill_process(child, Signal::KILL);
        }
        if wait(WaitOptions::empty()).is_err() {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn end_orphans() {}

/// The processes whose parent we are.
#[cfg(target_os = "linux")]
fn children() -> Vec<rustix::process::Pid> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name, in parentheses, may hold anything; behind it: state, parent.
            let parent: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            (parent == own).then_some(pid).and_then(rustix::process::Pid::from_raw)
        })
        .collect()
}
