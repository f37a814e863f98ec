//! What a process is to serve: requests of Redis, bytes, or both.

use super::ProxyArgs;
use crate::listeners::CannotListen;
use crate::tcp::TcpArgs;
use anyhow::anyhow;
use std::time::Duration;

/// What a process is to serve, and how.
#[derive(Debug)]
pub(crate) struct Serving {
    /// At listeners of Redis, if there are any.
    pub redis: Option<Box<ProxyArgs>>,
    /// At listeners of mode tcp, each for itself.
    pub tcp: Vec<TcpArgs>,
    /// Threads of each of them.
    pub workers: usize,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// What to log.
    pub log_level: tracing::Level,
}

impl Serving {
    /// Requests of Redis alone.
    pub(super) fn redis(args: ProxyArgs) -> Serving {
        let (workers, drain_timeout, log_level) = (args.workers(), args.drain_timeout(), args.log_level);
        Serving { redis: Some(Box::new(args)), tcp: Vec::new(), workers, drain_timeout, log_level }
    }

    /// Bytes of one listener alone.
    pub(super) fn tcp(args: TcpArgs) -> Serving {
        let (workers, drain_timeout, log_level) = (args.workers(), args.drain_timeout(), args.log_level);
        Serving { redis: None, tcp: vec![args], workers, drain_timeout, log_level }
    }

    /// What is to be said of a listener that cannot be.
    pub(crate) fn explain(&self, error: &CannotListen) -> anyhow::Error {
        anyhow!("{error}")
    }
}
