//! Options of every subcommand that serves clients: one name, one meaning and one help for all of them.

use super::{parse_busy_poll, parse_level, parse_switch};
use clap::{ArgAction, Args};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// What `shardis proxy` and `shardis tcp` are told in the same words.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServiceArgs {
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,

    /// Port to listen on; 0 takes a free one, or none where another listener is named [default: 6380]
    #[arg(long)]
    port: Option<u16>,

    /// Processes may share the port (1) or not (0)
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
    pub(crate) reuse_port: bool,

    /// PROXY header (version 1 or 2) that each client must send before all else over TCP, and that is believed. Only where
    /// nobody but the load balancer can connect
    #[arg(long)]
    pub(crate) proxy_protocol: bool,

    /// Threads that serve clients; 0 means one per core
    #[arg(long, alias = "N", default_value_t = 0)]
    workers: usize,

    /// Limit of clients, all workers together. More are closed at once; where requests are read, they get an error first
    #[arg(long, value_name = "CLIENTS", default_value_t = 10_000)]
    pub(crate) maxclients: usize,

    /// Seconds after which an idle client is closed; 0 never [default: 0; for bytes that are passed on unread: 600]
    #[arg(long, alias = "idle-timeout", value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Microseconds for which a worker looks for events before it sleeps; 0 lets it sleep at once. Nobody then has to wake it,
    /// which takes tens of microseconds on virtual machines. The price is a core for each worker while requests come more often
    /// than that (docs/benchmarks.md)
    #[arg(long, value_name = "US", default_value = "0", value_parser = parse_busy_poll)]
    pub(crate) busy_poll: Duration,

    /// Seconds that a drain may take: after SIGTERM, clients have so long to finish or to leave
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain_timeout: u64,

    /// Level of the log, which goes to stderr: error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_level)]
    pub(crate) log_level: tracing::Level,
}

/// Far above what one machine has, far below what breaks it.
const WORKERS_MAX: usize = 1024;

impl ServiceArgs {
    /// Refuses counts that cannot be.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.workers > WORKERS_MAX {
            return Err(format!("--workers {}: at most {WORKERS_MAX}; 0 means one per core", self.workers));
        }
        match self.maxclients {
            0 => Err("--maxclients 0: at least 1".to_owned()),
            _ => Ok(()),
        }
    }

    /// With what is of the process as `above` says.
    pub(crate) fn within(self, above: &ServiceArgs) -> ServiceArgs {
        ServiceArgs {
            workers: above.workers(),
            reuse_port: self.reuse_port || above.reuse_port,
            drain_timeout: above.drain_timeout,
            log_level: above.log_level,
            ..self
        }
    }

    /// Where to listen, on `host` if nothing else is said.
    pub(crate) fn listen_addr(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        let host = self.host.as_deref().unwrap_or(host);
        // As it stands in a list of nodes.
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let resolved = (bare, self.port(port)).to_socket_addrs().ok();
        resolved.and_then(|mut addrs| addrs.next()).ok_or_else(|| {
            format!("--host {host}: no such address; write one of this machine, as in 127.0.0.1 or 0.0.0.0")
        })
    }

    /// The port, which is `port` if nothing else is said.
    pub(crate) fn port(&self, port: u16) -> u16 {
        self.port.unwrap_or(port)
    }

    /// Seconds until an idle client is closed, which are `timeout` if nothing else is said; 0 never.
    pub(crate) fn timeout(&self, timeout: u64) -> u64 {
        self.timeout.unwrap_or(timeout)
    }

    /// How many workers there are to be.
    pub(crate) fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }

    /// How long a drain may take.
    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.drain_timeout)
    }
}
