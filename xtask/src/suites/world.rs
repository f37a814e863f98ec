//! Fresh nodes and a proxy in front of them, for one part of a suite.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use programs::process::command;

use crate::speed;

/// As many as `cargo xtask demo` has.
const NODES: usize = 4;

/// Time within which a process must listen, on a loaded machine.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time of a node for a request.
const NODE_TIMEOUT: Duration = Duration::from_secs(30);

/// Worlds choose and take their ports one after the other, so that no port is given twice.
static STARTING: Mutex<()> = Mutex::new(());

/// The folder of their output.
pub(super) fn logs() -> PathBuf {
    super::fetch::folder().join("logs")
}

/// The server that a suite tests.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    /// shardis in front of nodes, with these flags more.
    Proxy(&'a Path, &'a [&'a str]),
    /// shardis with one store of its own: most suites expect one Redis.
    Stores(&'a Path),
    /// One redis-server.
    Node,
}

/// Processes, which end with it.
pub(super) struct World {
    /// Where a suite connects to.
    pub(super) port: u16,
    /// The file that the suite's output goes to.
    pub(super) log: PathBuf,
    children: Vec<Child>,
}

impl World {
    /// Starts `subject`. The server for the suite listens on `port` if that is given.
    pub(super) fn start(name: &str, subject: Subject<'_>, port: Option<u16>) -> Result<World> {
        let _starting = STARTING.lock().expect("nothing panics while it holds this");
        let folder = logs().join(name);
        std::fs::create_dir_all(&folder)?;
        File::create(folder.join("suite.log"))?;
        let mut world = World { port: 0, log: folder.join("suite.log"), children: Vec::new() };
        world.port = match subject {
            Subject::Node => world.launch(&folder.join("node.log"), port, node)?,
            Subject::Stores(binary) => world.launch(&folder.join("proxy.log"), port, |port| {
                proxy(binary, port, &[], &["--store-shards=1"])
            })?,
            Subject::Proxy(binary, flags) => {
                let nodes = (0..NODES)
                    .map(|index| world.launch(&folder.join(format!("node-{index}.log")), None, node))
                    .collect::<Result<Vec<_>>>()?;
                world.launch(&folder.join("proxy.log"), port, |port| proxy(binary, port, &nodes, flags))?
            }
        };
        Ok(world)
    }

    /// Runs `suite`, kills it after `limit` (longer on a slow machine), and returns its output.
    pub(super) fn output(&self, suite: &Command, limit: Duration) -> Result<String> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let before = log.metadata()?.len();
        let mut limited = command("timeout");
        limited
            .args(["--kill-after=5", &speed::stretched(limit).as_secs().to_string()])
            .arg(suite.get_program());
        limited.args(suite.get_args()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        if let Some(folder) = suite.get_current_dir() {
            limited.current_dir(folder);
        }
        for (name, value) in suite.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        // The exit status is ignored: the output says more.
        limited.status().context("cannot run `timeout`, of coreutils")?;
        let text = std::fs::read(&self.log)?;
        let before = usize::try_from(before).expect("a log fits into memory");
        Ok(String::from_utf8_lossy(&text[before..]).into_owned())
    }

    /// Starts the program of `command` with a port, and waits until it listens there: on `port` if that is given, else on a
    /// free one.
    fn launch(
        &mut self,
        log_path: &Path,
        port: Option<u16>,
        command: impl Fn(u16) -> Command,
    ) -> Result<u16> {
        if let Some(port) = port {
            if is_listening(port) {
                bail!("port {port} is taken, and the suite has it written in");
            }
            return self.launch_on(port, command(port), log_path).map(|()| port);
        }
        // Another process may take the port after the check. And another thread may have just forked a process, which holds the
        // checking socket until it becomes another program.
        let mut failed = None;
        for _ in 0..5 {
            let port = free_port()?;
            match self.launch_on(port, command(port), log_path) {
                Ok(()) => return Ok(port),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.expect("it was tried")).context("five free ports were tried")
    }

    /// Starts `command` and waits until it listens on `port`.
    fn launch_on(&mut self, port: u16, mut command: Command, log_path: &Path) -> Result<()> {
        let log = File::create(log_path)?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        self.children.push(child.with_context(|| format!("cannot start {:?}", command.get_program()))?);
        let deadline = Instant::now() + READY_TIMEOUT;
        while !is_listening(port) {
            let child = self.children.last_mut().expect("it was just started");
            if let Some(status) = child.try_wait()? {
                self.children.pop();
                bail!("{:?} ended with {status}; see {}", command.get_program(), log_path.display());
            }
            if Instant::now() > deadline {
                bail!("nothing listens on port {port} after {} s", READY_TIMEOUT.as_secs());
            }
            // tidy: allow(sleep): between two attempts to connect
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Whether a process listens on `port`.
fn is_listening(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

impl Drop for World {
    fn drop(&mut self) {
        while let Some(mut child) = self.children.pop() {
            // SIGKILL: none of them has anything to lose.
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("cannot stop {}: {error}", child.id());
            }
        }
    }
}

/// A free port that no other world of this process gets. It is below the kernel's range for outgoing connections, of which
/// suites make thousands until the last process of a world listens. The tests of whole processes, which may run at the same
/// time, use other ports: they restart nodes on their ports.
fn free_port() -> Result<u16> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    const PORTS: Range<u16> = 3_000..5_000;
    let len = u32::from(PORTS.end - PORTS.start);
    let next = || PORTS.start + (TAKEN.fetch_add(1, Ordering::Relaxed) % len) as u16;
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let mut ports = std::iter::repeat_with(next).take(PORTS.len());
    ports.find(is_free).with_context(|| format!("there is no free port from {} on", PORTS.start))
}

/// A redis-server without persistence that permits all test commands.
fn node(port: u16) -> Command {
    let mut node = command("redis-server");
    node.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    node.args(["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]);
    node.current_dir(std::env::temp_dir());
    node
}

/// shardis in front of `nodes`, or with stores of its own if there are none.
fn proxy(binary: &Path, port: u16, nodes: &[u16], flags: &[&str]) -> Command {
    let mut proxy = command(binary);
    proxy.args(["proxy", &format!("--port={port}"), "--tag-rule=redis"]).args(flags);
    if !nodes.is_empty() {
        let nodes = nodes.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
        // Suites stop nodes for seconds (DEBUG SLEEP, scripts that do not end). They expect their requests to wait, even those
        // of a worker that was not connected yet. On a slow machine a node also computes for half a minute.
        proxy.args([&format!("--nodes={nodes}"), "--allow-admin"]);
        let limit = speed::stretched(NODE_TIMEOUT).as_millis();
        proxy.args([&format!("--request-timeout-ms={limit}"), &format!("--connect-timeout-ms={limit}")]);
    }
    proxy
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world without processes, and the file for their output.
    fn world(name: &str) -> (World, PathBuf) {
        let log = std::env::temp_dir().join(format!("xtask-world-{name}-{}.log", std::process::id()));
        (World { port: 0, log: log.clone(), children: Vec::new() }, log)
    }

    #[test]
    fn a_port_that_was_taken_behind_our_back_is_not_the_end() {
        let (mut world, log) = world("taken");
        let (tries, holder) = (AtomicU32::new(0), Mutex::new(None));
        let port = world.launch(&log, None, |port| {
            if tries.fetch_add(1, Ordering::Relaxed) == 2 {
                *holder.lock().expect("one thread") = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
            }
            command("false")
        });
        let held = holder.into_inner().expect("one thread").expect("it was free");
        assert_eq!(port.expect("it listens"), held.local_addr().expect("it is bound").port());
        assert_eq!((tries.into_inner(), world.children.len()), (3, 1));
        std::fs::remove_file(log).expect("it was written");
    }

    #[test]
    fn a_process_that_never_listens_is_reported() {
        let (mut world, log) = world("never");
        let error = world.launch(&log, None, |_| command("false")).expect_err("it ends at once");
        assert!(format!("{error:#}").contains("\"false\" ended with exit status: 1; see "), "{error:#}");
        assert!(world.children.is_empty());
        std::fs::remove_file(log).expect("it was written");
    }

    #[test]
    fn a_port_that_is_written_in_is_said_to_be_taken() {
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = holder.local_addr().expect("it is bound").port();
        let (mut world, log) = world("written-in");
        let error = world.launch(&log, Some(port), |_| command("false")).expect_err("it is taken");
        assert_eq!(error.to_string(), format!("port {port} is taken, and the suite has it written in"));
    }
}
