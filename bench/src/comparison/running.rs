//! Processes that are measured or give the load, and that end with this one.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use programs::process;
use rustix::process::{Pid, Signal, kill_process};

use super::cells::NODES;
use super::load;
use super::machine::{self, Place};

/// Time within which a process must listen: milliseconds are usual.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Time within which a process must end before it is killed: it has nothing to lose.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two looks at a process.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A process. It is ended when this is dropped.
pub(super) struct Child {
    name: String,
    log: PathBuf,
    child: std::process::Child,
}

impl Child {
    /// Starts `command` under `name`; its output goes to `log`.
    pub(super) fn start(name: &str, command: &mut Command, log: &Path) -> Result<Child> {
        let file = File::create(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Child { name: name.into(), log: log.into(), child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `port` accepts connections.
    pub(super) fn await_port(&self, port: u16) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
            // The state stands behind the name in parentheses; Z has ended and was not waited for yet.
            if stat.is_empty() || stat.contains(") Z ") {
                bail!("{} has ended: {}", self.name, self.last_words());
            }
            if Instant::now() > deadline {
                bail!("{} does not listen on port {port}: {}", self.name, self.last_words());
            }
            // tidy: allow(sleep): between two looks; other programs do not say when they are ready
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// The last line that it printed.
    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().last().unwrap_or("it printed nothing").into()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SIGTERM first, so that a program can end its own processes.
        if let Some(pid) = Pid::from_raw(self.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("cannot stop {}: {error}", self.name);
        }
    }
}

/// A load generator with canned nodes of its own, whose addresses are its first output.
pub(super) struct Generator {
    child: std::process::Child,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Generator {
    /// Starts it and waits until its nodes listen.
    pub(super) fn start(command: &mut Command) -> Result<Generator> {
        let name = process::line(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run `{name}`"))?;
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        output.read_line(&mut String::new())?;
        Ok(Generator { child, output, name })
    }

    /// Its output until it ends.
    pub(super) fn finish(mut self) -> Result<String> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let mut complaints = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut complaints)?;
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "`{}` ended with {status}: {}", self.name, complaints.trim());
        Ok(text)
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // The process has ended, unless its report was never asked for.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Real nodes, which keep nothing.
pub(super) struct Nodes {
    children: Vec<(u16, Child)>,
}

impl Nodes {
    /// Starts them on the core of the load.
    pub(super) fn start(folder: &Path) -> Result<Nodes> {
        let mut children = Vec::new();
        for port in free_ports::<NODES>()? {
            let mut command = machine::placed(Place::Load, Path::new("redis-server"));
            command.args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
            ]);
            let name = format!("node-{port}");
            let child =
                Child::start(&name, command.current_dir(folder), &folder.join(format!("{name}.log")))?;
            child.await_port(port)?;
            children.push((port, child));
        }
        Ok(Nodes { children })
    }

    /// Empties all of them.
    pub(super) fn flush(&self) -> Result<()> {
        self.children.iter().try_for_each(|&(port, _)| load::flush(port))
    }

    /// Number of commands that all of them have carried out.
    pub(super) fn commands_processed(&self) -> Result<u64> {
        self.children.iter().map(|&(port, _)| load::commands_processed(port)).sum()
    }

    /// Whether busy nodes interrupt the generator, with which they share a core, or run when it is idle. For the former the
    /// kernel sends a core an interrupt, and on a virtual machine that takes 40 µs.
    pub(super) fn set_interrupting(&self, interrupting: bool) -> Result<()> {
        let policy = if interrupting { "--other" } else { "--batch" };
        self.children.iter().try_for_each(|(_, child)| {
            process::run(process::command("chrt").args([policy, "--pid", "0", &child.id().to_string()]))
        })
    }

    /// Ports and process ids.
    pub(super) fn addresses(&self) -> Vec<(u16, u32)> {
        self.children.iter().map(|(port, child)| (*port, child.id())).collect()
    }
}

/// Ports without a listener. Another program may take one before its use; the started program then reports that and ends.
pub(super) fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    let mut ports = [0; COUNT];
    // All are held before the first is let go, so that none is given twice.
    let mut listeners = Vec::with_capacity(COUNT);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_process_end_is_reported_with_its_output() {
        let log = std::env::temp_dir().join(format!("bench-suite-{}.log", std::process::id()));
        let mut command = Command::new("sh");
        let child = Child::start("short", command.args(["-c", "echo no such option; exit 1"]), &log)
            .expect("sh is there");
        let [port] = free_ports().expect("there is one");
        let error = child.await_port(port).expect_err("it does not listen");
        assert_eq!(error.to_string(), "short has ended: no such option");
        std::fs::remove_file(log).expect("it was written");
    }

    #[test]
    fn a_process_ends_with_its_owner() {
        let log = std::env::temp_dir().join(format!("bench-suite-{}-sleep.log", std::process::id()));
        let child = Child::start("sleep", Command::new("sleep").arg("600"), &log).expect("sleep is there");
        let stat = format!("/proc/{}/stat", child.id());
        assert!(Path::new(&stat).exists());
        drop(child);
        assert!(!Path::new(&stat).exists());
        std::fs::remove_file(log).expect("it was written");
    }
}
