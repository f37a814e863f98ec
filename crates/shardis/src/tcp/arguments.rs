//! What `shardis tcp` is told.

use super::core::Limits;
use super::nodes::{Balance, Patience};
use super::probes::{Check, Kind};
use super::targets::Targets;
use crate::args::{ProxyArgs, parse_busy_poll, parse_level, parse_switch};
use crate::control::plural;
use crate::listeners::{CannotListen, Listener, Mode};
use clap::{ArgAction, Args};
use driver::{HeaderVersion, header};
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;
use topology::{NodeSpec, parse_nodes};

/// What `shardis tcp` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  shardis tcp --listen=127.0.0.1:6380 --nodes=127.0.0.1:6381,127.0.0.1:6382
  shardis tcp --listen=0.0.0.0:6380 --nodes=replica-a:6379:2,replica-b:6379 --balance=round-robin --check=ping
  shardis tcp --listen='[::]:6380' --nodes=a:6379,b:6379 --balance=source-hash --send-proxy=v2 --idle-timeout=0")]
pub(crate) struct TcpArgs {
    /// Address and port to listen on
    #[arg(long, alias = "listener", value_name = "ADDR:PORT", default_value = "127.0.0.1:6380")]
    listen: String,

    /// The nodes, separated by commas: host:port, [v6]:port or unix:/path, then if wanted :weight and, behind a blank, a name.
    /// Each client gets one of them. Names of hosts are looked up at the start, and again every 5 seconds while clients come
    #[arg(long, value_name = "NODE,NODE,…")]
    nodes: String,

    /// Who gets the next client: least-conn, round-robin, or source-hash (by the client's address)
    #[arg(long, value_name = "HOW", default_value = "least-conn", value_parser = Balance::from_str)]
    balance: Balance,

    /// How nodes are looked at between clients: off, tcp (they accept), or ping (they answer PING)
    #[arg(long, value_name = "HOW", default_value = "tcp", value_parser = Kind::from_str)]
    check: Kind,

    /// How often
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..))]
    check_interval_ms: u32,

    /// Connections in a row that must fail until a node gets no clients for --fail-timeout; 0 is never
    #[arg(long, value_name = "FAILURES", default_value_t = 1)]
    max_fails: u32,

    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    fail_timeout: u32,

    /// Give a node up, and try the next, if it has not taken a connection after so many milliseconds. Where many clients come at
    /// once, its queue may be full; then the kernel asks again after 1000
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..))]
    connect_timeout_ms: u32,

    /// Close clients on whose connection nothing moved in either direction for so many seconds; 0 never
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    idle_timeout: u32,

    /// Clients at most; others are closed at once
    #[arg(long, value_name = "CLIENTS", default_value_t = 10_000)]
    pub(super) maxclients: usize,

    /// Threads that pass bytes; 0 means one per core
    #[arg(long, default_value_t = 0)]
    workers: usize,

    /// Look for so many microseconds whether something has come before a worker sleeps (docs/benchmarks.md); 0: sleep at once
    #[arg(long, value_name = "US", default_value = "0", value_parser = parse_busy_poll)]
    pub(super) busy_poll: Duration,

    /// Let several processes listen on the same port
    #[arg(
        long,
        alias = "SO_REUSEPORT",
        value_name = "0|1",
        default_value = "0",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = parse_switch,
        action = ArgAction::Set
    )]
    pub(super) reuse_port: bool,

    /// Expect a PROXY header (version 1 or 2) before all else, and believe it. Only where nobody but the load balancer can
    /// connect
    #[arg(long)]
    pub(super) proxy_protocol: bool,

    /// Tell nodes of each client by a PROXY header of this version
    #[arg(long, value_name = "v1|v2", value_parser = parse_version)]
    pub(super) send_proxy: Option<HeaderVersion>,

    /// After SIGTERM, wait at most so many seconds for clients to leave
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain_timeout: u32,

    /// What to log to stderr: error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_level)]
    pub(crate) log_level: tracing::Level,
}

fn parse_version(text: &str) -> Result<HeaderVersion, String> {
    match text {
        "v1" => Ok(HeaderVersion::V1),
        "v2" => Ok(HeaderVersion::V2),
        _ => Err("write v1 or v2".to_owned()),
    }
}

/// Far above what one machine has, far below what breaks it.
const WORKERS_MAX: usize = 1024;

impl TcpArgs {
    /// Refuses what single options cannot see.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.workers > WORKERS_MAX {
            return Err(format!("--workers {}: at most {WORKERS_MAX}; 0 means one per core", self.workers));
        }
        if self.maxclients == 0 {
            return Err("--maxclients 0: at least 1".to_owned());
        }
        self.node_specs()?;
        self.listen_addr().map(|_| ())
    }

    /// With what is of the process as `above` says.
    pub(crate) fn within(self, above: &ProxyArgs) -> TcpArgs {
        TcpArgs {
            workers: above.workers(),
            reuse_port: self.reuse_port || above.reuse_port,
            log_level: above.log_level,
            ..self
        }
    }

    pub(crate) fn listen_addr(&self) -> Result<SocketAddr, String> {
        let listen = &self.listen;
        let resolved = listen.to_socket_addrs().ok().and_then(|mut addrs| addrs.next());
        resolved
            .ok_or_else(|| format!("--listen {listen}: write an address and a port, as in 127.0.0.1:6380"))
    }

    pub(crate) fn node_specs(&self) -> Result<Vec<NodeSpec>, String> {
        let nodes = parse_nodes(&self.nodes).map_err(|error| format!("--nodes: {error}"))?;
        match nodes.iter().find(|node| !node.replicas.is_empty()) {
            Some(node) => {
                Err(format!("--nodes: {}: whoever it is that copies whom, write a comma", node.label()))
            }
            None => Ok(nodes),
        }
    }

    /// The listener, which clients can connect to from now on.
    pub(super) fn open(&self) -> Result<Listener, CannotListen> {
        let addr = self.listen_addr().map_err(CannotListen::Unknown)?;
        Listener::tcp(addr, "--listen", self.reuse_port, Mode::Tcp)
    }

    /// What it does with clients that come to `place`, for whoever started it.
    pub(crate) fn describe(&self, place: &str, nodes: &[NodeSpec]) -> String {
        let names: Vec<String> = nodes.iter().map(NodeSpec::label).collect();
        let count = names.len();
        format!("passes bytes from {place} to {count} node{}: {}", plural(count), names.join(" "))
    }

    /// Where the nodes are.
    pub(crate) fn targets(&self) -> Result<Targets, String> {
        Targets::of(&self.node_specs()?)
    }

    pub(super) fn balance(&self) -> Balance {
        self.balance
    }

    pub(super) fn patience(&self) -> Patience {
        let fail_timeout = Duration::from_secs(self.fail_timeout.into());
        Patience { fails_max: self.max_fails, fail_timeout }
    }

    /// How nodes are looked at.
    pub(super) fn probe(&self) -> Check {
        let mut question = self.send_proxy.map(|version| header(version, None)).unwrap_or_default();
        question.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
        let every = Duration::from_millis(self.check_interval_ms.into());
        Check { kind: self.check, every, question }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            connect_timeout: Duration::from_millis(self.connect_timeout_ms.into()),
            idle_timeout: Duration::from_secs(self.idle_timeout.into()),
        }
    }

    /// How many workers there are to be.
    pub(crate) fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }

    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.drain_timeout.into())
    }
}
