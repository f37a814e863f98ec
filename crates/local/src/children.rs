//! The processes of a topology: started, watched, and ended with all their own children.

use super::Event;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fmt;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Processes that end with this value, the last started first.
#[derive(Debug, Default)]
pub(super) struct Children {
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    name: String,
    port: u16,
    /// Where it writes to; without one, to where we do.
    log: Option<PathBuf>,
    child: Child,
}

/// A child that has ended without an order.
#[derive(Debug)]
pub(super) struct Ended {
    name: String,
    port: u16,
    status: ExitStatus,
    log: Option<PathBuf>,
    last_lines: String,
}

/// Lines of a log that are shown when its process has ended.
const LINES_SHOWN: usize = 5;
/// Time for nodes that keep data to write it.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Redis does not end while it writes its first append-only file, and forgets the order to end.
const TELL_AGAIN_EVERY: Duration = Duration::from_millis(200);

impl Children {
    /// Starts `command` as `name`, which will listen on `port`. Must be called by a thread that lives as long as this process.
    pub(super) fn start(
        &mut self,
        name: &str,
        port: u16,
        mut command: Command,
        log: Option<PathBuf>,
    ) -> Result<()> {
        if let Some(log) = &log {
            let file = File::options().create(true).append(true).open(log)?;
            command.stdout(file.try_clone()?).stderr(file);
        } else {
            // Our own stdout is for addresses.
            command.stdout(Stdio::null());
        }
        // A process group of its own: Ctrl-C reaches only the supervisor, and processes that the child forks end with it.
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        self.running.push(Running { name: name.to_owned(), port, log, child });
        Ok(())
    }

    /// The process that is called so, if it still runs.
    pub(super) fn pid(&self, name: &str) -> Option<u32> {
        self.running.iter().find(|running| running.name == name).map(|running| running.child.id())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes out those that have ended.
    pub(super) fn reap(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        let mut index = 0;
        while index < self.running.len() {
            if self.running[index].has_ended() {
                ended.extend(self.running.remove(index).end());
            } else {
                index += 1;
            }
        }
        ended
    }

    /// Orders all of them to save their data and to end. `events` reports when one has ended.
    pub(super) fn stop(&mut self, events: &Receiver<Event>) {
        for running in self.running.iter().rev() {
            running.signal(Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while !self.running.is_empty() {
            self.reap();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // All sides of the channel are threads of this process: it cannot be cut.
            if !self.running.is_empty() && events.recv_timeout(left.min(TELL_AGAIN_EVERY)).is_err() {
                // The proxy, which has no log here, gets no second signal: it would not wait for requests in flight then.
                let nodes = self.running.iter().filter(|running| running.log.is_some());
                nodes.for_each(|running| running.signal(Signal::TERM));
            }
        }
    }
}

impl Running {
    /// Whether it has ended. It is not reaped yet, so that its process id is not reused.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    /// Tells it, and all that it started.
    fn signal(&self, signal: Signal) {
        // Fails only if none of them is left.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Ends it with all its own children. `None` if the kernel does not know it, which cannot be.
    fn end(mut self) -> Option<Ended> {
        self.signal(Signal::KILL);
        let status = self.child.wait().ok()?;
        let last_lines = self.log.as_deref().map(last_lines).unwrap_or_default();
        Some(Ended { name: self.name, port: self.port, status, log: self.log, last_lines })
    }
}

fn last_lines(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n  ")
}

impl Drop for Children {
    fn drop(&mut self) {
        while let Some(running) = self.running.pop() {
            running.end();
        }
    }
}

impl Ended {
    /// Whether it ended because another process has its port.
    pub(super) fn found_port_taken(&self) -> bool {
        self.last_lines.contains("Address already in use") || self.last_lines.contains("the port is in use")
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (127.0.0.1:{}) has ended: {}", self.name, self.port, self.status)?;
        match &self.log {
            Some(log) => write!(out, "; its log, {}, ends with\n  {}", log.display(), self.last_lines),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::mpsc::channel;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn an_ended_child_is_reported_once_with_its_last_line() {
        let log = std::env::temp_dir().join(format!("shardis-children-{}", std::process::id()));
        let mut children = Children::default();
        children
            .start("node-0", 7000, shell("echo; echo Address already in use; exit 3"), Some(log.clone()))
            .expect("there is a shell");
        children.running[0].child.wait().expect("it ends");
        let ended = children.reap();
        assert_eq!(ended.len(), 1);
        assert!(ended[0].found_port_taken());
        assert!(ended[0].to_string().starts_with("node-0 (127.0.0.1:7000) has ended: "), "{}", ended[0]);
        assert!(children.is_empty() && children.reap().is_empty());
        std::fs::remove_file(log).expect("it was written");
    }

    #[test]
    fn a_child_that_does_not_stop_is_killed_with_its_group() {
        let mut children = Children::default();
        let (mut said, says) = std::io::pipe().expect("there are descriptors");
        let mut command = shell("(echo started; sleep 20; echo left) >&2 & wait");
        command.stderr(says);
        children.start("node-0", 7000, command, None).expect("there is a shell");
        let mut first = [0; 8];
        said.read_exact(&mut first).expect("it has started another");
        drop(children);
        // The pipe ends with the last of them: ended processes keep their number until init has reaped them.
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("a pipe can be read");
        assert_eq!(rest, "", "somebody was left");
    }

    #[test]
    fn a_child_that_missed_the_signal_gets_another() {
        let log = std::env::temp_dir().join(format!("shardis-children-forgets-{}", std::process::id()));
        let mut children = Children::default();
        let script = "trap 'trap - TERM' TERM; echo ready; while true; do sleep 20; done";
        children.start("node-0", 7000, shell(script), Some(log.clone())).expect("there is a shell");
        while !std::fs::read_to_string(&log).is_ok_and(|said| said.contains("ready")) {
            std::thread::yield_now();
        }
        let (_silent, events) = channel();
        children.stop(&events);
        assert!(children.is_empty());
        std::fs::remove_file(log).expect("it was written");
    }

    #[test]
    fn a_child_may_stop_on_request() {
        let mut children = Children::default();
        children.start("node-0", 7000, shell("true"), None).expect("there is a shell");
        let (sender, events) = channel();
        #[expect(clippy::disallowed_methods, reason = "somebody has to tell that it ended")]
        std::thread::spawn(move || while sender.send(Event::ChildEnded).is_ok() {});
        children.stop(&events);
        assert!(children.is_empty());
    }
}
