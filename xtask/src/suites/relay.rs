//! A substitute for the redis-server that a suite starts. It empties the nodes, listens where that server would, and passes all
//! bytes on to the proxy. So the suite's own code stays unchanged.
//!
//! A server whose settings fit no proxy (a replica, a Sentinel, one with a password) is a real one.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use programs::process::command;

use super::tcl::write_program;
use super::world::READY_TIMEOUT;
use super::{World, fetch};

/// Variables by which a relay learns of its world.
const PROXY: &str = "SHARDIS_RELAY_PROXY";
const SERVER: &str = "SHARDIS_RELAY_SERVER";

/// Options of a server that a proxy cannot stand in for.
const REAL: [&str; 11] = [
    "requirepass",
    "maxclients",
    "replicaof",
    "slaveof",
    "tls-port",
    "sentinel",
    "user",
    "aclfile",
    "cluster-enabled",
    "loadmodule",
    "version",
];

/// Interval at which a relay checks whether the suite that started it still exists.
const ORPHAN_INTERVAL: Duration = Duration::from_millis(200);

/// Arguments of redis-server.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Options {
    /// Arguments as for redis-server
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// A program that a suite can start as redis-server.
pub(super) fn program() -> Result<PathBuf> {
    let program = fetch::folder().join("relay");
    let xtask = std::env::current_exe()?;
    write_program(&program, &format!("#!/bin/sh\nexec '{}' relay -- \"$@\"\n", xtask.display()))?;
    Ok(program)
}

/// Has relays that `suite` starts stand in front of `world`.
pub(super) fn aim(suite: &mut Command, world: &World) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let server =
        std::env::split_paths(&path).map(|folder| folder.join("redis-server")).find(|path| path.is_file());
    suite.env(SERVER, server.context("there is no redis-server in PATH")?);
    suite.env(PROXY, world.port.to_string());
    Ok(())
}

/// A relay that ends with this.
pub(super) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("cannot stop a relay: {error}");
        }
    }
}

/// Starts a relay on a unix socket.
pub(super) fn start_on(socket: &Path, world: &World) -> Result<Running> {
    let mut relay = command(program()?);
    aim(&mut relay, world)?;
    relay.args(["--port", "0", "--unixsocket"]).arg(socket).stdin(Stdio::null());
    let running = Running(relay.spawn()?);
    let deadline = Instant::now() + READY_TIMEOUT;
    while UnixStream::connect(socket).is_err() {
        ensure!(Instant::now() < deadline, "the relay does not listen");
        // tidy: allow(sleep): between two attempts to connect, and between two looks at the parent
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(running)
}

/// Runs the relay until it gets SHUTDOWN, is killed, or is left alone.
pub(crate) fn run(options: &Options) -> Result<()> {
    let settings = settings(&options.args)?;
    let variable = |name| std::env::var(name).with_context(|| format!("{name} is not set"));
    if REAL.iter().any(|name| settings.contains_key(*name)) {
        return Err(command(variable(SERVER)?).args(&options.args).exec().into());
    }
    let proxy: u16 = variable(PROXY)?.parse()?;
    empty(proxy)?;
    let parent = parent_id();
    let port: u16 = settings.get("port").map_or(Ok(6379), |port| port.parse())?;
    if port != 0 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                relay(Stream::Tcp(client), proxy);
            }
        });
    }
    if let Some(path) = settings.get("unixsocket") {
        // The suite may have made a file of that name before.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                relay(Stream::Unix(client), proxy);
            }
        });
    }
    while parent_id() == parent {
        std::thread::sleep(ORPHAN_INTERVAL);
    }
    Ok(())
}

/// Settings of redis-server: from a file, then from arguments such as `--port 1234`.
fn settings(args: &[String]) -> Result<HashMap<String, String>> {
    let mut settings = HashMap::new();
    let mut put = |words: &str| {
        let (name, value) = words.trim().split_once(' ').unwrap_or((words.trim(), ""));
        settings.insert(name.to_lowercase(), value.trim().to_string());
    };
    let mut args = args;
    if let Some((file, rest)) = args.split_first()
        && !file.starts_with("--")
    {
        std::fs::read_to_string(file).with_context(|| file.clone())?.lines().for_each(&mut put);
        args = rest;
    }
    let mut words = String::new();
    for arg in args {
        match arg.strip_prefix("--") {
            Some(name) => put(&std::mem::replace(&mut words, name.to_string())),
            None => words = words + " " + arg,
        }
    }
    put(&words);
    settings.remove("");
    Ok(settings)
}

/// Makes all nodes as they were at their start.
fn empty(proxy: u16) -> Result<()> {
    let mut proxy = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy))?;
    for request in ["FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH"] {
        proxy.write_all(format!("{request}\r\n").as_bytes())?;
        let mut reply = [0; 64];
        let len = proxy.read(&mut reply)?;
        ensure!(reply.starts_with(b"+OK"), "{request}: {}", String::from_utf8_lossy(&reply[..len]));
    }
    // A suite may count clients at once. The proxy closes the connection behind QUIT, and counts the client no more.
    proxy.write_all(b"QUIT\r\n")?;
    proxy.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A client's connection.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn try_clone(&self) -> std::io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
        }
    }

    fn shutdown(&self) {
        // Shutting down fails only if the other side was faster.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }
}

/// Passes the bytes of `client` on, and those that come back. A connection that cannot be made is closed.
fn relay(client: Stream, proxy: u16) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy)) else { return };
    for stream in [Some(&server), if let Stream::Tcp(client) = &client { Some(client) } else { None }]
        .into_iter()
        .flatten()
    {
        // Without it the kernel delays small writes. It fails only on a connection that is gone.
        let _ = stream.set_nodelay(true);
    }
    let server = Stream::Tcp(server);
    let (Ok(client_again), Ok(server_again)) = (client.try_clone(), server.try_clone()) else { return };
    std::thread::spawn(move || pass(client_again, server_again, true));
    std::thread::spawn(move || pass(server, client, false));
}

/// Passes bytes on until one side closes; then both are closed.
fn pass(mut from: Stream, mut to: Stream, requests: bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if requests && is_shutdown(&buffer[..len]) {
            // A proxy must refuse it, and the suite waits for the end of its server.
            std::process::exit(0);
        }
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    from.shutdown();
    to.shutdown();
}

/// Whether `bytes` begin with the request SHUTDOWN. No suite sends it behind another request.
fn is_shutdown(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(32)]).to_lowercase();
    let mut lines = text.split("\r\n");
    lines.next().is_some_and(|line| line.starts_with('*')) && lines.nth(1) == Some("shutdown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_settings() {
        let args = ["--port", "1234", "--save", "", "--user", "a", "on"].map(String::from);
        let settings = settings(&args).expect("there is no file to read");
        assert_eq!(settings["port"], "1234");
        assert_eq!(settings["user"], "a on");
        assert_eq!(settings.len(), 3);
    }

    #[test]
    fn only_the_command_shutdown_is_taken_for_it() {
        assert!(is_shutdown(b"*1\r\n$8\r\nSHUTDOWN\r\n"));
        assert!(is_shutdown(b"*2\r\n$8\r\nshutdown\r\n$6\r\nNOSAVE\r\n"));
        assert!(!is_shutdown(b"*2\r\n$3\r\nGET\r\n$8\r\nshutdown\r\n"));
    }
}
