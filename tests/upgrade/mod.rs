//! Upgrades of a running shardis: clients, listeners and files go on in a new process, and a new process that fails changes nothing.

mod clients;
mod failures;
mod forced;
mod listeners;
mod load;

use crate::harness::certificates::{Directory, text};
use crate::harness::processes::{Process, send_signal, shardis_binary};
use crate::harness::{Client, RedisServer, kernel, poll_until};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// A shardis that may be upgraded many times. It is started by a link, so that another program can take its place.
struct Generations {
    folder: Directory,
    /// The first of them; later ones write to the same output.
    first: Process,
    port: u16,
}

impl Generations {
    /// `shardis` with `args`, which begin with the subcommand.
    fn start(args: &[&str]) -> Generations {
        Generations::start_with(args, &[])
    }

    /// The same with further variables in its environment.
    fn start_with(args: &[&str], environment: &[(&str, &str)]) -> Generations {
        let folder = Directory::new();
        symlink(shardis_binary().get_program(), folder.path("shardis")).expect("a free name");
        let mut command = Command::new(folder.path("shardis"));
        command.args(args).arg(format!("--pid-file={}", text(&folder.path("pid"))));
        command.envs(environment.iter().copied());
        let mut first = Process::spawn(command, "shardis");
        let port = poll_until("the line that says where it listens", || {
            let said = first.output();
            assert!(first.ended().is_none(), "it ended instead: {said}");
            let (_, rest) = said.split_once(" listens on ")?;
            let (line, _) = rest.split_once('\n')?;
            Some(line.split([' ', ',']).next()?.rsplit_once(':')?.1.parse().unwrap_or(0))
        });
        let generations = Generations { folder, first, port };
        poll_until("the pid file", || generations.read_pid());
        generations
    }

    /// A proxy over `nodes` at a free port.
    fn over(nodes: &[RedisServer], flags: &[&str]) -> Generations {
        let addrs: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let nodes = format!("--nodes={}", addrs.join(","));
        let usual = ["proxy", &nodes, "--port=0", "--workers=2", "--request-timeout-ms=30000"];
        Generations::start(&[&usual, flags].concat())
    }

    fn program(&self) -> PathBuf {
        self.folder.path("shardis")
    }

    /// Puts a link to `program` in the place of the present one.
    fn exchange_program(&self, program: &str) {
        std::fs::remove_file(self.program()).expect("the link is ours");
        symlink(program, self.program()).expect("a free name");
    }

    fn read_pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder.path("pid")).ok()?.parse().ok()
    }

    /// The process that serves.
    fn pid(&self) -> u32 {
        poll_until("a number in the pid file", || self.read_pid())
    }

    /// Begins an upgrade.
    fn begin(&self) {
        send_signal(self.pid(), "USR2");
    }

    /// Upgrades, and waits until the new process serves. Returns the old one and the new one.
    #[track_caller]
    fn upgrade(&self) -> (u32, u32) {
        let old = self.pid();
        self.begin();
        let new = poll_until("a new process", || self.read_pid().filter(|&pid| pid != old));
        (old, new)
    }

    fn output(&self) -> String {
        self.first.output()
    }

    /// The lines of the log with `text`.
    fn lines(&self, text: &str) -> Vec<String> {
        self.output().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }

    #[track_caller]
    fn expect_lines(&self, text: &str, count: usize) -> Vec<String> {
        poll_until(&format!("{count} lines with {text:?}"), || {
            let lines = self.lines(text);
            (lines.len() >= count).then_some(lines)
        })
    }

    /// Waits until the process `pid`, an old one, has ended.
    #[track_caller]
    fn expect_end_of(&mut self, pid: u32) {
        if pid == self.first.pid() {
            let status = poll_until("the end of the first process", || self.first.ended());
            assert!(status.success(), "{status}");
        } else {
            poll_until("the end of an old process", || kernel::has_ended(pid).then_some(()));
        }
    }

    fn connect(&self) -> Client {
        Client::connect(self.port)
    }

    /// All processes that were started here, by their own words.
    fn all(&self) -> Vec<u32> {
        let pid_of = |line: String| line.split_once("pid=")?.1.split(' ').next()?.parse().ok();
        self.lines("upgrade started").into_iter().filter_map(pid_of).collect()
    }
}

impl Drop for Generations {
    fn drop(&mut self) {
        for pid in self.all() {
            // Numbers are used again: a process of another program stays.
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&words).contains(text(&self.folder.path(""))) {
                send_signal(pid, "KILL");
            }
        }
    }
}
