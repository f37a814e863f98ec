//! `cargo xtask demo`: nodes on this machine and a proxy in front of them, until Ctrl-C.
//!
//! ```text
//!     redis-cli ─► shardis proxy :6380 ─┬─► redis-server on a free port
//!                                       ├─► redis-server …
//! ```
//!
//! Whatever ends it, nothing that it started stays behind, unless it is killed with SIGKILL itself.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::value_parser;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::needs;
use crate::process::{self, cargo, command, target_dir};

/// How long a process may take until it listens. Milliseconds are usual; a loaded machine gets some more.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two attempts to connect. A signal is noticed at once, whatever this is.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// Size of the demo.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Nodes to start
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Port of the proxy
    #[arg(long, default_value_t = 6380)]
    port: u16,
}

/// Starts everything, says what to type, and waits for the end.
pub(crate) fn run(options: &Options) -> Result<()> {
    needs::install(&[needs::REDIS_SERVER, needs::REDIS_CLI])?;
    process::run(&mut cargo(["build", "--release", "--package", "shardis"]))?;
    let events = listen_for_events()?;
    let mut running = Running::default();
    let Some(ports) = start(options, &mut running, &events)? else { return Ok(()) };
    print_what_next(options.port, &ports);
    loop {
        match events.recv().context("the thread that waits for signals is gone")? {
            Event::Interrupted => return Ok(()),
            Event::ChildEnded => running.check()?,
        }
    }
}

/// Starts the nodes and the proxy. Gives the ports of the nodes, or `None` if interrupted.
fn start(options: &Options, running: &mut Running, events: &Receiver<Event>) -> Result<Option<Vec<u16>>> {
    // Somebody else's listener would be taken for ours when we connect to see whether it is ready.
    if TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).is_err() {
        bail!("port {} is taken; choose another with --port", options.port);
    }
    let folder = target_dir().join("demo");
    std::fs::create_dir_all(&folder)?;
    let ports = free_ports(options.nodes)?;
    for &port in &ports {
        running.start(&format!("node-{port}"), node(port, &folder)?)?;
    }
    for &port in &ports {
        if wait_until_listening(port, running, events)?.is_none() {
            return Ok(None);
        }
    }
    running.start("proxy", proxy(options.port, &ports))?;
    Ok(wait_until_listening(options.port, running, events)?.map(|()| ports))
}

/// Ports that nobody listens on. Another program can take one before the node does; then the node says so and ends.
fn free_ports(count: u16) -> Result<Vec<u16>> {
    // All are held before the first is let go, so that none is given twice.
    let listeners =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// A redis-server that keeps nothing.
fn node(port: u16, folder: &Path) -> Result<Command> {
    let log = File::create(folder.join(format!("node-{port}.log")))?;
    let mut node = command("redis-server");
    node.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    node.arg("--dir").arg(folder).stdout(log.try_clone()?).stderr(log);
    Ok(node)
}

/// The proxy; what it logs is shown.
fn proxy(port: u16, nodes: &[u16]) -> Command {
    let nodes = nodes.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let mut proxy = command(target_dir().join("release/shardis"));
    proxy.args(["proxy", &format!("--nodes={nodes}"), &format!("--port={port}")]);
    proxy
}

/// Waits until `port` accepts connections; `None` if interrupted.
fn wait_until_listening(port: u16, running: &mut Running, events: &Receiver<Event>) -> Result<Option<()>> {
    let deadline = Instant::now() + READY_TIMEOUT;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        match events.recv_timeout(CONNECT_INTERVAL) {
            Ok(Event::Interrupted) => return Ok(None),
            Ok(Event::ChildEnded) => running.check()?,
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => bail!("nothing listens on port {port} after {} s", READY_TIMEOUT.as_secs()),
        }
    }
    Ok(Some(()))
}

fn print_what_next(port: u16, nodes: &[u16]) {
    println!(
        "\n{} nodes, on ports {nodes:?}; their logs are in {}.",
        nodes.len(),
        target_dir().join("demo").display()
    );
    println!("The proxy listens on port {port}. In another terminal:\n");
    for words in ["set greeting hello", "get greeting", "mset a 1 b 2 c 3 d 4", "mget a b c d"] {
        println!("    redis-cli -p {port} {words}");
    }
    println!("    redis-cli -p {} dbsize      # what the first node holds of it", nodes[0]);
    println!("\nCtrl-C stops all of it.");
}

/// What can happen while we wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Interrupted,
    ChildEnded,
}

/// Turns signals into events.
fn listen_for_events() -> Result<Receiver<Event>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD])?;
    let (sender, events) = channel();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let event = if signal == SIGCHLD { Event::ChildEnded } else { Event::Interrupted };
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    Ok(events)
}

/// Processes that end with us, the last started first: the proxy before its nodes.
#[derive(Default)]
struct Running {
    children: Vec<(String, Child)>,
}

impl Running {
    /// Starts `command` under `name`.
    fn start(&mut self, name: &str, mut command: Command) -> Result<()> {
        // A process group of its own: Ctrl-C reaches us alone, and we decide on the order.
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        self.children.push((name.into(), child.with_context(|| format!("cannot start {name}"))?));
        Ok(())
    }

    /// An error if one of them has ended: the rest is of no use then.
    fn check(&mut self) -> Result<()> {
        for (name, child) in &mut self.children {
            if let Some(status) = child.try_wait()? {
                let folder = target_dir().join("demo");
                bail!("{name} ended with {status}; the nodes' logs are in {}", folder.display());
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        while let Some((name, mut child)) = self.children.pop() {
            // SIGKILL: none of them has anything to lose.
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("cannot stop {name}: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_all_different() {
        let mut ports = free_ports(8).expect("there are eight");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 8);
    }

    #[test]
    fn a_child_that_ended_is_an_error() {
        let mut running = Running::default();
        running.start("short", command("false")).expect("false can be run");
        running.children[0].1.wait().expect("it ends");
        assert!(
            running.check().expect_err("it ended").to_string().starts_with("short ended with exit status: 1")
        );
    }

    #[test]
    fn children_are_stopped_on_drop() {
        let mut running = Running::default();
        let mut sleeper = command("sleep");
        sleeper.arg("600");
        running.start("sleeper", sleeper).expect("sleep can be run");
        let id = running.children[0].1.id().to_string();
        running.check().expect("it still runs");
        drop(running);
        assert!(!process::succeeds(command("kill").args(["-0", &id])));
    }

    #[test]
    fn the_proxy_is_told_its_nodes() {
        let proxy = proxy(6380, &[7001, 7002]);
        let args: Vec<_> = proxy.get_args().collect();
        assert_eq!(args, ["proxy", "--nodes=127.0.0.1:7001,127.0.0.1:7002", "--port=6380"]);
    }
}
