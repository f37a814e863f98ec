//! Services of a process: requests of Redis, bytes, or both.

use super::{AdminArgs, LogFormat, ProxyArgs, ServiceArgs};
use crate::config::{Faults, Origin};
use crate::control::plural;
use crate::listeners::{CannotListen, Mode};
use crate::tcp::TcpArgs;
use ::admin::Setting;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The services of a process and their settings.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    /// At listeners of Redis: pools, each for itself.
    pub pools: Vec<Pool>,
    /// At listeners of mode tcp, each for itself.
    pub tcp: Vec<TcpArgs>,
    /// Threads of each of them.
    pub workers: usize,
    /// The longest time of a drain.
    pub drain_timeout: Duration,
    /// Times of an upgrade.
    pub upgrade: UpgradeTimes,
    /// Level and form of the log.
    pub log: (tracing::Level, LogFormat),
    /// Options of another program's file that are not carried over, each with its place and the reason.
    pub left_out: Vec<String>,
    /// The name of the only pool in another program's file.
    pub only_pool: Option<String>,
    /// The admin listener of all pools.
    pub admin: Option<Box<AdminArgs>>,
    /// The stats port of nutcracker.
    pub nutcracker_stats: Option<SocketAddr>,
    /// Files of the process itself.
    pub files: ProcessFiles,
    /// The file that says so, if it was one.
    pub origin: Option<Origin>,
}

/// Times of an upgrade.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpgradeTimes {
    /// Time in which the new process must be ready.
    pub ready_within: Duration,
    /// Time in which clients that cannot move to it may finish and leave; zero means any.
    pub drain_timeout: Duration,
}

/// Files that a process keeps while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessFiles {
    /// The log, instead of stderr.
    pub log: Option<PathBuf>,
    /// The number of the process.
    pub pid: Option<PathBuf>,
}

/// One service of Redis's protocol: nodes, a distribution, and listeners.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Its name, if the configuration has pools.
    pub name: Option<String>,
    /// Its arguments.
    pub args: Box<ProxyArgs>,
    /// The effective settings, for the operator.
    pub settings: Vec<Setting>,
}

impl Serving {
    /// Requests of Redis in one pool.
    pub(crate) fn redis(args: ProxyArgs) -> Serving {
        let pool = Pool { name: None, args: Box::new(args), settings: Vec::new() };
        let nutcracker_stats = pool.args.admin.nutcracker_stats;
        let serving = of_process(&pool.args.service);
        Serving { pools: vec![pool], nutcracker_stats, ..serving }
    }

    /// The same with the effective settings of the only pool.
    pub(crate) fn with_settings(mut self, settings: Vec<Setting>) -> Serving {
        self.pools.iter_mut().for_each(|pool| pool.settings.clone_from(&settings));
        self
    }

    /// The arguments of the only pool, for a command that concerns one.
    pub(crate) fn only_pool(self) -> Result<Box<ProxyArgs>, String> {
        let names: Vec<String> = self.pools.iter().filter_map(|pool| pool.name.clone()).collect();
        match <[Pool; 1]>::try_from(self.pools) {
            Ok([pool]) => Ok(pool.args),
            Err(pools) if pools.is_empty() => Err("the file has no listener for Redis's protocol".to_owned()),
            Err(_) => Err(format!("the file has pools; name one with --pool=NAME: {}", names.join(", "))),
        }
    }

    /// Bytes of one listener alone.
    pub(super) fn tcp(args: TcpArgs) -> Serving {
        let serving = of_process(&args.service);
        Serving { tcp: vec![args], ..serving }
    }

    /// The names of all services, as an upgrade knows them: those of the pools, then one for each listener of mode tcp.
    pub(crate) fn service_names(&self) -> Vec<String> {
        let pools = self.pools.iter().map(|pool| pool.name.clone().unwrap_or_default());
        pools.chain(self.tcp.iter().map(|_| "(tcp)".to_owned())).collect()
    }

    /// The services by the present text of the configuration file; `None` without one.
    pub(crate) fn read_again(&self) -> Option<Result<Serving, Faults>> {
        self.origin.as_ref().map(Origin::read_again)
    }

    /// The error for a listener that cannot be opened.
    pub(crate) fn explain(&self, error: &CannotListen) -> String {
        self.origin.as_ref().map_or_else(|| error.to_string(), |origin| origin.explain(error))
    }

    /// The line that announces the listeners; `places` are all of them.
    pub(crate) fn announcement(&self, places: &[String]) -> String {
        let workers = self.workers;
        let each = if self.tcp.len() + self.pools.len() > 1 { " each" } else { "" };
        format!("listens on {} ({workers} worker{}{each})", places.join(", "), plural(workers))
    }

    /// A summary in the lines that a start prints.
    pub(crate) fn summary(&self) -> String {
        let (mut places, mut lines) = (Vec::new(), Vec::new());
        for pool in &self.pools {
            let ways = pool.args.ways_in().unwrap_or_default();
            places.extend(ways.iter().map(|way| {
                let mode = Mode::Redis { is_tls: way.is_tls, http: way.http, read_from: way.read_from };
                format!("{}{mode}", way.place)
            }));
            lines.extend(pool.summary());
        }
        for args in &self.tcp {
            let place = args.listen_addr().map_or_else(|error| error, |addr| addr.to_string());
            places.push(format!("{place}{}", Mode::Tcp));
            lines.push(args.describe(&place, &args.node_specs().unwrap_or_default()));
        }
        lines.insert(0, self.announcement(&places));
        let admin = self.admin.as_ref().and_then(|admin| admin.place(false));
        lines.extend(admin.map(|place| format!("admin of all pools at {place}")));
        lines.extend(self.left_out.iter().map(|option| format!("not carried over: {option}")));
        lines.join("\n")
    }
}

impl Pool {
    /// A summary in the lines that a start prints.
    fn summary(&self) -> Vec<String> {
        let topology = self.args.topology();
        let mut lines = topology.as_ref().map(|topology| self.args.describe(topology)).unwrap_or_default();
        lines.push(self.args.reading.describe());
        let remarks = topology.map(|topology| self.args.remarks(&topology)).unwrap_or_default();
        lines.extend(remarks.into_iter().map(|remark| format!("note: {remark}")));
        lines.iter().map(|line| of_pool(self.name.as_deref(), line)).collect()
    }
}

/// A line about the pool `name`, if there are pools.
pub(crate) fn of_pool(name: Option<&str>, line: &str) -> String {
    name.map_or_else(|| line.to_owned(), |name| format!("pool {name}: {line}"))
}

/// A process without services.
fn of_process(args: &ServiceArgs) -> Serving {
    Serving {
        pools: Vec::new(),
        tcp: Vec::new(),
        workers: args.workers(),
        drain_timeout: args.drain_timeout(),
        upgrade: args.upgrade_times(),
        log: (args.log_level, args.log_format),
        left_out: Vec::new(),
        only_pool: None,
        admin: None,
        nutcracker_stats: None,
        files: ProcessFiles { pid: args.pid_file.clone(), log: None },
        origin: None,
    }
}
