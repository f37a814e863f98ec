//! Services of a process: requests of Redis, bytes, or both.

use super::{LogFormat, ProxyArgs, ServiceArgs};
use crate::config::Origin;
use crate::control::plural;
use crate::listeners::{CannotListen, Mode};
use crate::tcp::TcpArgs;
use ::admin::Setting;
use std::time::Duration;

/// The services of a process and their settings.
#[derive(Debug)]
pub(crate) struct Serving {
    /// At listeners of Redis, if there are any.
    pub redis: Option<Box<ProxyArgs>>,
    /// At listeners of mode tcp, each for itself.
    pub tcp: Vec<TcpArgs>,
    /// Threads of each of them.
    pub workers: usize,
    /// The longest time of a drain.
    pub drain_timeout: Duration,
    /// Level and form of the log.
    pub log: (tracing::Level, LogFormat),
    /// The effective settings of the Redis service, for the operator.
    pub settings: Vec<Setting>,
    /// The file that says so, if it was one.
    pub origin: Option<Origin>,
}

impl Serving {
    /// Requests of Redis alone.
    pub(crate) fn redis(args: ProxyArgs) -> Serving {
        let (workers, drain_timeout, log) = of_process(&args.service);
        let (redis, tcp) = (Some(Box::new(args)), Vec::new());
        Serving { redis, tcp, workers, drain_timeout, log, settings: Vec::new(), origin: None }
    }

    /// Bytes of one listener alone.
    pub(super) fn tcp(args: TcpArgs) -> Serving {
        let (workers, drain_timeout, log) = of_process(&args.service);
        let (redis, tcp) = (None, vec![args]);
        Serving { redis, tcp, workers, drain_timeout, log, settings: Vec::new(), origin: None }
    }

    /// The error for a listener that cannot be opened.
    pub(crate) fn explain(&self, error: &CannotListen) -> String {
        self.origin.as_ref().map_or_else(|| error.to_string(), |origin| origin.explain(error))
    }

    /// The line that announces the listeners; `places` are all of them.
    pub(crate) fn announcement(&self, places: &[String]) -> String {
        let workers = self.workers;
        let each = if self.tcp.len() + usize::from(self.redis.is_some()) > 1 { " each" } else { "" };
        format!("listens on {} ({workers} worker{}{each})", places.join(", "), plural(workers))
    }

    /// A summary in the lines that a start prints.
    pub(crate) fn summary(&self) -> String {
        let (mut places, mut lines) = (Vec::new(), Vec::new());
        if let Some(args) = &self.redis {
            let ways = args.ways_in().unwrap_or_default();
            places.extend(ways.iter().map(|way| {
                let mode = Mode::Redis { is_tls: way.is_tls, read_from: way.read_from };
                format!("{}{mode}", way.place)
            }));
            let topology = args.topology();
            lines.extend(topology.as_ref().map(|topology| args.describe(topology)).unwrap_or_default());
            lines.push(args.reading.describe());
            let remarks = topology.map(|topology| args.remarks(&topology)).unwrap_or_default();
            lines.extend(remarks.into_iter().map(|remark| format!("note: {remark}")));
        }
        for args in &self.tcp {
            let place = args.listen_addr().map_or_else(|error| error, |addr| addr.to_string());
            places.push(format!("{place}{}", Mode::Tcp));
            lines.push(args.describe(&place, &args.node_specs().unwrap_or_default()));
        }
        lines.insert(0, self.announcement(&places));
        lines.join("\n")
    }
}

fn of_process(args: &ServiceArgs) -> (usize, Duration, (tracing::Level, LogFormat)) {
    (args.workers(), args.drain_timeout(), (args.log_level, args.log_format))
}
