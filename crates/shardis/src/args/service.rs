//! Options of every subcommand that serves clients: one name, one meaning and one help for all of them.

use super::serving::UpgradeTimes;
use super::{parse_busy_poll, parse_level, parse_switch};
use clap::{ArgAction, Args};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments that `shardis proxy` and `shardis tcp` share.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServiceArgs {
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,

    /// Port to listen on; 0 takes a free one, or none if another listener is named [default: 6380]
    #[arg(long)]
    port: Option<u16>,

    /// Port sharing with other processes (SO_REUSEPORT): 1 or 0
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

    /// PROXY header (version 1 or 2), required of each TCP client before all else, and trusted. Only for listeners that
    /// nothing but the load balancer can reach
    #[arg(long)]
    pub(crate) proxy_protocol: bool,

    /// Worker threads; 0 means one per core
    #[arg(long, alias = "N", default_value_t = 0)]
    workers: usize,

    /// Client limit of all workers together. Clients above it are closed; shardis proxy sends them an error first
    #[arg(long, value_name = "CLIENTS", default_value_t = 10_000)]
    pub(crate) maxclients: usize,

    /// Idle timeout of clients; 0 means none [default: 0; 600 in shardis tcp]
    #[arg(long, alias = "idle-timeout", value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Polling time before a worker sleeps; 0 means none. It saves the wake-up latency of virtual machines, and costs
    /// one core per worker under load (docs/benchmarks.md)
    #[arg(long, value_name = "US", default_value = "0", value_parser = parse_busy_poll)]
    pub(crate) busy_poll: Duration,

    /// Drain timeout after SIGTERM, in which clients may finish and leave
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain_timeout: u64,

    /// Time in which the new process of an upgrade must be ready; after it, the old one goes on (docs/upgrade.md)
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    upgrade_timeout: u64,

    /// Drain timeout after an upgrade, for clients that cannot move to the new process, such as subscribers; 0 means none
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    upgrade_drain_timeout: u64,

    /// File for the number of the process, removed at its end [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,

    /// Log level: error, warn, info or debug. The log goes to stderr
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_level)]
    pub(crate) log_level: tracing::Level,

    /// Log format: text (a name, then key=value) or json (an object in each line, with the key `name`)
    #[arg(long, value_name = "text|json", default_value = "text", value_parser = parse_log_format)]
    pub(crate) log_format: LogFormat,
}

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("write text or json".to_owned()),
    }
}

/// Far above the cores of one machine, and far below a number that breaks it.
const WORKERS_MAX: usize = 1024;

impl ServiceArgs {
    /// Refuses counts that cannot be.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.workers > WORKERS_MAX {
            return Err(format!(
                "--workers {}: must be at most {WORKERS_MAX}; 0 means one per core",
                self.workers
            ));
        }
        match self.maxclients {
            0 => Err("--maxclients 0: must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }

    /// With the options of the whole process from `above`.
    pub(crate) fn within(self, above: &ServiceArgs) -> ServiceArgs {
        ServiceArgs {
            workers: above.workers(),
            reuse_port: self.reuse_port || above.reuse_port,
            drain_timeout: above.drain_timeout,
            upgrade_timeout: above.upgrade_timeout,
            upgrade_drain_timeout: above.upgrade_drain_timeout,
            pid_file: above.pid_file.clone(),
            log_level: above.log_level,
            log_format: above.log_format,
            ..self
        }
    }

    /// With those settings of `other` that a running process follows.
    pub(crate) fn with_live_settings_of(self, other: &ServiceArgs) -> ServiceArgs {
        ServiceArgs {
            drain_timeout: other.drain_timeout,
            upgrade_timeout: other.upgrade_timeout,
            upgrade_drain_timeout: other.upgrade_drain_timeout,
            log_level: other.log_level,
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

    /// Seconds until an idle client is closed: by the flag, or else `timeout`; 0 never.
    pub(crate) fn timeout(&self, timeout: u64) -> u64 {
        self.timeout.unwrap_or(timeout)
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }

    /// Times of an upgrade.
    pub(crate) fn upgrade_times(&self) -> UpgradeTimes {
        UpgradeTimes {
            ready_within: Duration::from_secs(self.upgrade_timeout),
            drain_timeout: Duration::from_secs(self.upgrade_drain_timeout),
        }
    }

    /// The longest time of a drain.
    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.drain_timeout)
    }
}
