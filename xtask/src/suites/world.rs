//! Fresh nodes and a proxy in front of them, for one part of a suite.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::command;

/// As many as `cargo xtask demo` has.
const NODES: usize = 4;

/// How long a process may take until it listens, on a loaded machine.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Ports are chosen and taken one world after the other, so that none is given twice.
static STARTING: Mutex<()> = Mutex::new(());

/// Where what they print is kept.
pub(super) fn logs() -> PathBuf {
    super::fetch::folder().join("logs")
}

/// Nodes and a proxy, which end with it.
pub(super) struct World {
    /// Where a suite connects to.
    pub(super) port: u16,
    /// The ports of the nodes.
    pub(super) nodes: Vec<u16>,
    /// The file that the suite's output goes to.
    pub(super) log: PathBuf,
    children: Vec<Child>,
}

impl World {
    /// Starts four nodes and `proxy`, or one node alone; what a suite talks to listens on `port` if that is given.
    pub(super) fn start(name: &str, proxy: Option<&Path>, port: Option<u16>) -> Result<World> {
        let _starting = STARTING.lock().expect("nothing panics while it holds this");
        let folder = logs().join(name);
        std::fs::create_dir_all(&folder)?;
        File::create(folder.join("suite.log"))?;
        let (front, mut nodes) = (port.map_or_else(free_port, Ok)?, Vec::new());
        if TcpListener::bind((Ipv4Addr::LOCALHOST, front)).is_err() {
            bail!("port {front} is taken, and the suite has it written in");
        }
        let mut world =
            World { port: front, nodes: Vec::new(), log: folder.join("suite.log"), children: Vec::new() };
        let count = if proxy.is_some() { NODES } else { 1 };
        for _ in 0..count {
            let port = if proxy.is_some() { free_port()? } else { front };
            world.launch(node(port), port, &folder.join(format!("node-{}.log", nodes.len())))?;
            nodes.push(port);
        }
        world.nodes = nodes;
        if let Some(proxy) = proxy {
            world.launch(proxy_command(proxy, front, &world.nodes), front, &folder.join("proxy.log"))?;
        }
        Ok(world)
    }

    /// Runs `command`, kills it after `limit`, and gives what it printed.
    pub(super) fn output(&self, command: &Command, limit: Duration) -> Result<String> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let before = log.metadata()?.len();
        let mut limited = super::world::command("timeout");
        limited.args(["--kill-after=5", &limit.as_secs().to_string()]).arg(command.get_program());
        limited.args(command.get_args()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        if let Some(folder) = command.get_current_dir() {
            limited.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        // How it ended is no matter: what it printed says more.
        limited.status().context("cannot run `timeout`, of coreutils")?;
        let text = std::fs::read(&self.log)?;
        let before = usize::try_from(before).expect("a log fits into memory");
        Ok(String::from_utf8_lossy(&text[before..]).into_owned())
    }

    /// Starts `command` and waits until it listens on `port`.
    fn launch(&mut self, mut command: Command, port: u16, log: &Path) -> Result<()> {
        let log = File::create(log)?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        self.children.push(child.with_context(|| format!("cannot start {:?}", command.get_program()))?);
        let deadline = Instant::now() + READY_TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline {
                bail!("nothing listens on port {port} after {} s", READY_TIMEOUT.as_secs());
            }
            // tidy: allow(sleep): between two attempts to connect
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
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

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A redis-server that keeps nothing and lets tests do to it what they like.
fn node(port: u16) -> Command {
    let mut node = command("redis-server");
    node.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    node.args(["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]);
    node.current_dir(std::env::temp_dir());
    node
}

fn proxy_command(binary: &Path, port: u16, nodes: &[u16]) -> Command {
    let nodes = nodes.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let mut proxy = command(binary);
    proxy.args(["proxy", &format!("--nodes={nodes}"), &format!("--port={port}"), "--tag-rule=redis"]);
    // Suites stop nodes for seconds (DEBUG SLEEP, scripts that do not end) and expect their requests to wait.
    proxy.args(["--allow-admin", "--request-timeout-ms=30000"]);
    proxy
}
