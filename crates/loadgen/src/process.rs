//! CPU time and memory of a measured process, from /proc: on Linux only. On other systems the functions return an error.

use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// A process that is measured.
#[derive(Clone, Debug)]
pub struct Process {
    folder: PathBuf,
}

/// Times of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// On a core, in the kernel and outside.
    pub cpu_ns: u64,
    /// Time in which the process was ready to run, while others had the core: noise of the machine.
    pub waiting_ns: u64,
}

impl Process {
    /// The process `pid`, which must live.
    pub fn new(pid: u32) -> Result<Process> {
        let process = Process { folder: PathBuf::from(format!("/proc/{pid}")) };
        process.times().with_context(|| format!("cannot measure process {pid}"))?;
        Ok(process)
    }

    /// Times of all its threads. `stat` has them in steps of 10 ms only.
    pub fn times(&self) -> Result<Times> {
        let mut total = Times::default();
        for thread in fs::read_dir(self.folder.join("task"))? {
            // A thread that ends between the two calls takes its time with it; those of proxies do not.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            let mut numbers = text.split_whitespace().map_while(|number| number.parse::<u64>().ok());
            total.cpu_ns += numbers.next().context("schedstat has no CPU time")?;
            total.waiting_ns += numbers.next().context("schedstat has no waiting time")?;
        }
        Ok(total)
    }

    /// Resident bytes now.
    pub fn rss_bytes(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// The most there ever were, or since [`Process::reset_peak`].
    pub fn rss_peak_bytes(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// Forgets the peak. An error where that is not permitted.
    pub fn reset_peak(&self) -> Result<()> {
        fs::write(self.folder.join("clear_refs"), "5").context("cannot reset the peak of resident memory")
    }

    fn status(&self, field: &str) -> Result<u64> {
        let text = fs::read_to_string(self.folder.join("status"))?;
        kilobytes(&text, field).with_context(|| format!("no {field} in status"))
    }
}

/// The bytes that the line `field` of a status file tells in kB.
fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(rest.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_the_kernel_writes_them() {
        let status = "Name:\tshardis\nVmHWM:\t    9876 kB\nVmRSS:\t    5432 kB\n";
        assert_eq!(kilobytes(status, "VmHWM:"), Some(9876 * 1024));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_can_be_measured() {
        let process = Process::new(std::process::id()).expect("it lives");
        assert!(process.rss_bytes().expect("status") <= process.rss_peak_bytes().expect("status"));
        let before = process.times().expect("schedstat");
        assert!(process.times().expect("schedstat").cpu_ns >= before.cpu_ns);
        assert!(Process::new(u32::MAX).is_err());
    }
}
