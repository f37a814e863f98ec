//! System calls per request: a short pass of its own, since counting disturbs the measurement.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use programs::process::{self, command};
use rustix::process::{Pid, Signal, kill_process};

use super::load::output;
use super::machine::{self, Place};

/// Time for strace to attach.
const ATTACH_PAUSE: Duration = Duration::from_millis(300);

/// System calls of the processes `family` while `words` run on the core of the load; `None` if no tool here can count them. The
/// tool is perf, or else strace. strace slows the processes: a busy proxy then has fuller turns, and fewer calls.
pub(super) fn count(family: &[u32], words: &[String], folder: &Path) -> Result<Option<u64>> {
    let ids: Vec<String> = family.iter().map(u32::to_string).collect();
    let probe = ["stat", "-e", "raw_syscalls:sys_enter", "true"];
    if process::succeeds(command("perf").args(probe)) {
        with_perf(&ids.join(","), words, folder).map(Some)
    } else if process::succeeds(command("strace").args(["-c", "-o", "/dev/null", "true"])) {
        with_strace(&ids, words, folder).map(Some)
    } else {
        Ok(None)
    }
}

fn with_perf(ids: &str, words: &[String], folder: &Path) -> Result<u64> {
    let report = folder.join("perf.csv");
    let mut perf = machine::placed(Place::Load, Path::new("perf"));
    perf.args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", ids, "-o"]).arg(&report).arg("--");
    output(perf.args(words))?;
    let text = std::fs::read_to_string(report)?;
    parse_perf(&text).with_context(|| format!("perf said: {text}"))
}

/// `12345,,raw_syscalls:sys_enter,…` below some comments.
fn parse_perf(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("sys_enter"))?;
    line.split(',').next()?.parse().ok()
}

fn with_strace(ids: &[String], words: &[String], folder: &Path) -> Result<u64> {
    let report = folder.join("strace.txt");
    let mut strace = command("strace");
    strace.args(["-c", "-f", "-qq", "-o"]).arg(&report);
    for id in ids {
        strace.args(["-p", id]);
    }
    let mut strace = strace.spawn().context("cannot run strace")?;
    // tidy: allow(sleep): strace does not say when it has attached
    std::thread::sleep(ATTACH_PAUSE);
    let mut load = machine::placed(Place::Load, Path::new(&words[0]));
    let outcome = output(load.args(&words[1..]));
    if let Some(pid) = Pid::from_raw(strace.id().cast_signed()) {
        // strace writes its table when it is interrupted.
        let _ = kill_process(pid, Signal::INT);
    }
    strace.wait()?;
    outcome?;
    let text = std::fs::read_to_string(report)?;
    parse_strace(&text).with_context(|| format!("strace said: {text}"))
}

/// `100.00 0.001 5 12345 67 total`: calls are the fourth word, and errors, which may be missing, the fifth.
fn parse_strace(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// `program` and `words`, pinned to the core of the load.
pub(super) fn command_words(program: &str, words: Vec<String>) -> Vec<String> {
    let placed: Command = machine::placed(Place::Load, Path::new(program));
    let placed = std::iter::once(placed.get_program()).chain(placed.get_args());
    placed.map(|word| word.to_string_lossy().into_owned()).chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_perfs_output() {
        let text =
            "# started on Sat Nov 21 14:00:00 2026\n\n12345,,raw_syscalls:sys_enter,1005000,100.00,,\n";
        assert_eq!(parse_perf(text), Some(12_345));
        assert_eq!(parse_perf("<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n"), None);
    }

    #[test]
    fn calls_are_read_from_straces_output() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    60.00    0.000600           3       200           epoll_wait\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.001000           3       321        12 total\n";
        assert_eq!(parse_strace(text), Some(321));
    }
}
