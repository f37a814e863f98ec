//! This machine: the core of a process, its CPU time and memory by the kernel's account, and the machine's name. Linux only;
//! nothing here starts or judges anything.

use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use programs::process::{self, command};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::record::Machine;

/// Where processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The proxy's core.
    Proxy,
    /// The core of the nodes and the load.
    Load,
    /// Wherever the kernel puts it.
    Anywhere,
}

impl Place {
    fn core(self) -> Option<usize> {
        match self {
            _ if cores() < 2 => None,
            Place::Proxy => Some(0),
            Place::Load => Some(1),
            Place::Anywhere => None,
        }
    }
}

/// Cores that we may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// `program` at `place`. It gets SIGTERM when this process ends for any reason.
pub(super) fn placed(place: Place, program: &Path) -> Command {
    let mut placed = command("setpriv");
    placed.args(["--pdeathsig", "TERM"]);
    if let Some(core) = place.core() {
        placed.args(["taskset", "-c", &core.to_string()]);
    }
    placed.arg(program);
    placed
}

/// Raises the number of open files to the permitted one; started processes inherit it. Returns that number.
pub(super) fn raise_open_files() -> Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("cannot raise the limit of open files")?;
    Ok(limit.current.unwrap_or(u64::MAX))
}

/// `id` and the processes that it started: nginx has a worker that serves the clients.
pub(super) fn family(id: u32) -> Vec<u32> {
    let path = format!("/proc/{id}/task/{id}/children");
    let children = read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(family);
    std::iter::once(id).chain(children).collect()
}

/// CPU time that all threads of `family` have taken, in nanoseconds.
pub(super) fn cpu_ns(family: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for id in family {
        let folder = format!("/proc/{id}/task");
        let threads = std::fs::read_dir(&folder).with_context(|| format!("{folder}: has it ended?"))?;
        for thread in threads {
            // A thread that ended meanwhile takes its figure with it; none of the measured programs ends threads.
            let text = read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
            sum += first_number(&text).unwrap_or(0);
        }
    }
    Ok(sum)
}

/// Resident bytes of `family` now, and the most there ever were.
pub(super) fn resident_bytes(family: &[u32]) -> Result<(u64, u64)> {
    let (mut now, mut peak) = (0, 0);
    for id in family {
        let path = format!("/proc/{id}/status");
        let text = read_to_string(&path).with_context(|| format!("{path}: has it ended?"))?;
        now += kibibytes(&text, "VmRSS:") * 1024;
        peak += kibibytes(&text, "VmHWM:") * 1024;
    }
    Ok((now, peak))
}

/// Times of a core since the machine started, in steps of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CoreTimes {
    pub(super) busy: u64,
    pub(super) total: u64,
}

/// The times of core `core`.
pub(super) fn core_times(core: usize) -> Result<CoreTimes> {
    let text = read_to_string("/proc/stat").context("/proc/stat: is this Linux?")?;
    parse_core_times(&text, core).with_context(|| format!("/proc/stat has no core {core}"))
}

/// user nice system idle iowait irq softirq steal guest guest_nice; the guests' are part of user and nice.
fn parse_core_times(text: &str, core: usize) -> Option<CoreTimes> {
    let name = format!("cpu{core} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
    let times: Vec<u64> = line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let total = times.iter().sum();
    let idle = times.get(3)? + times.get(4)?;
    Some(CoreTimes { busy: total - idle, total })
}

/// The name, the kernel and the state of this machine, without its owner.
pub(super) fn describe() -> Result<Machine> {
    ensure!(cfg!(target_os = "linux"), "CPU times come from /proc: this needs Linux");
    let text = read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let model = field(&text, "model name").unwrap_or(std::env::consts::ARCH).to_string();
    let memory = kibibytes(&read_to_string("/proc/meminfo")?, "MemTotal:") * 1024;
    let pinning = match cores() {
        1 => "one core: the proxy, the nodes and the load share it, so that throughput says nothing".into(),
        count => format!("{count} cores: the proxy on core 0, nodes and load on core 1"),
    };
    Ok(Machine {
        cores: cores(),
        kernel: process::read(command("uname").arg("-sr"))?.trim().into(),
        memory_bytes: memory,
        load_average: read_to_string("/proc/loadavg")?.split_whitespace().next().unwrap_or_default().into(),
        open_files_max: raise_open_files()?,
        congestion_control: read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?.trim().into(),
        model,
        pinning,
    })
}

/// A CPU model as part of a file's name.
pub(super) fn short_name(model: &str) -> String {
    const NOISE: [&str; 6] = ["(R)", "(TM)", "(r)", "(tm)", " CPU", " Processor"];
    let model = model.split('@').next().unwrap_or_default();
    let model = NOISE.iter().fold(model.to_string(), |model, noise| model.replace(noise, ""));
    let words = model.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The value behind `name` and a colon in a file like /proc/cpuinfo.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

/// The value behind `name` in a file like /proc/PID/status.
fn kibibytes(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)).and_then(first_number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_shortened_to_a_name_of_a_file() {
        assert_eq!(short_name("Intel(R) Xeon(R) Processor"), "intel-xeon");
        assert_eq!(short_name("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz"), "intel-core-i7-8650u");
        assert_eq!(short_name("AMD EPYC 7B13"), "amd-epyc-7b13");
    }

    #[test]
    fn idle_and_waiting_for_disks_is_not_busy() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 10 20 4 5 6 7 8\ncpu1 1 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(parse_core_times(text, 0), Some(CoreTimes { busy: 21, total: 51 }));
        assert_eq!(parse_core_times(text, 1), Some(CoreTimes { busy: 1, total: 1 }));
        assert_eq!(parse_core_times(text, 2), None);
    }

    #[test]
    fn we_have_used_time_and_memory() {
        let us = family(std::process::id());
        assert!(cpu_ns(&us).expect("we run") > 0);
        let (now, peak) = resident_bytes(&us).expect("we run");
        assert!(0 < now && now <= peak);
    }
}
