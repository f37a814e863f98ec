//! The process as the admin listener sees it.

use crate::racked::Racks;
use proxy::{
    Board, Counters, Discovered, NodeReport, NodeReports, Page, ReloadOrder, ReloadOutcome, Tally, Usage,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Instant;
use topology::Topology;

/// A process that serves, as far as an operator may see it.
pub trait Subject: Send + Sync {
    /// The counts that its workers publish.
    fn board(&self) -> &Board;
    /// The version, with the commit if it is known.
    fn version(&self) -> &str;
    /// Seconds from 1970 to its start.
    fn started_s(&self) -> f64;
    /// Whether it accepts no more clients because it will end.
    fn is_draining(&self) -> bool;
    /// Each worker's turns and busy time.
    fn workers(&self) -> Vec<WorkerFacts>;
    /// The descriptors of the process.
    fn descriptors(&self) -> Descriptors;
    /// The state of its mirror, if it has one.
    fn mirror(&self) -> Option<&mirror::Status>;
    /// Its racks, if it has any.
    fn racks(&self) -> Option<Racks>;
    /// A line for each client, as CLIENT LIST shows it. A worker that is too busy to answer leaves its lines out.
    fn clients(&self) -> String;
    /// The effective settings; secrets are masked.
    fn settings(&self) -> Vec<Setting>;
    /// The last lines of the log.
    fn events(&self) -> Vec<Event>;
    /// The level of the log: error, warn, info or debug.
    fn log_level(&self) -> String;
    /// Changes the level of the log. False if there is no such level.
    fn set_log_level(&self, level: &str) -> bool;
    /// Has the control thread carry out an order about the configuration. Waits for the outcome, up to a limit.
    fn reload(&self, order: ReloadOrder) -> ReloadOutcome;
    /// The last configurations, the newest first.
    fn configurations(&self) -> Vec<Configuration>;
}

/// One of the configurations that the process has followed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Configuration {
    /// A number of its own; later ones have larger ones.
    pub number: u64,
    /// Seconds from 1970 to the reload that read it, or to the start.
    pub time_s: f64,
    /// The keys that it changed; empty for that of the start.
    pub changes: Vec<String>,
    /// The number of the configuration that held before.
    pub before: Option<u64>,
    /// Whether it holds now.
    pub is_present: bool,
}

/// The load of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WorkerFacts {
    /// Turns of its event loop.
    pub turns: u64,
    /// Time in which it did not wait for events, in seconds.
    pub busy_s: f64,
    /// Waits for more requests before it wrote.
    pub batching_waits: u64,
    /// The sum of these waits, in seconds.
    pub batching_waited_s: f64,
    /// The wait that the next turns may have, in seconds; 0 for none.
    pub batching_wait_s: f64,
}

/// File descriptors of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// Number of open ones; `None` if the system does not tell.
    pub open: Option<u64>,
    /// Limit of their number; `None` without one.
    pub max: Option<u64>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The flag, without its dashes.
    pub name: String,
    /// Its value as text.
    pub value: String,
    /// Its source: `default`, `file`, `command line`, or `kept` if the file says otherwise.
    pub source: &'static str,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// A number of its own; later lines have larger ones.
    pub id: u64,
    /// Seconds since 1970.
    pub time_s: f64,
    /// The level: ERROR, WARN or INFO.
    pub level: &'static str,
    /// The stable name.
    pub name: &'static str,
    /// The rest, as key=value.
    pub details: String,
    /// The event or condition that the name stands for.
    pub meaning: &'static str,
    /// Advice to an operator; empty if nothing is to be done.
    pub cure: &'static str,
}

/// Everything that metrics and JSON are made from, as of one moment.
pub struct Facts {
    /// Sums of all workers.
    pub counters: Counters,
    /// The same for each worker.
    pub by_worker: Vec<Counters>,
    /// Each worker's load.
    pub workers: Vec<WorkerFacts>,
    /// Counts by command and by error.
    pub tally: Tally,
    /// All nodes of the topology.
    pub nodes: Vec<NodeReport>,
    /// The newest topology by which a worker goes; `None` in the first second.
    pub topology: Option<Arc<Topology>>,
    /// The last change of the topology, in seconds since 1970. Before the first, the start of the process.
    pub topology_changed_s: f64,
    /// The state of the discovery; `None` without discovery.
    pub discovered: Option<Discovered>,
    /// Its last usable answer, in seconds since 1970.
    pub discovery_answered_s: Option<f64>,
    /// Clients that are shaking hands.
    pub clients_pending: usize,
    /// Slow requests that were noted, by command.
    pub slow: BTreeMap<&'static str, u64>,
    /// Slow requests that were not noted, since there were too many at once.
    pub slow_left_out: u64,
    /// The counts of the mirror, if there is one.
    pub mirror: Option<mirror::Totals>,
    /// The racks, if there are any.
    pub racks: Option<Racks>,
    /// Resources of the process.
    pub usage: Usage,
    /// Its descriptors.
    pub descriptors: Descriptors,
    /// See [`Subject::version`].
    pub version: String,
    /// See [`Subject::started_s`].
    pub started_s: f64,
    /// See [`Subject::is_draining`].
    pub is_draining: bool,
}

impl Facts {
    /// The facts about `subject`.
    pub fn of(subject: &dyn Subject) -> Facts {
        let board = subject.board();
        let Page { tally, nodes: NodeReports { topology, nodes } } = board.page();
        // Instants count from the start. Times of day follow the wall clock.
        let unix_s = |at: Instant| {
            subject.started_s() + at.as_nanos() as f64 / 1e9 + board.clock_step_us() as f64 / 1e6
        };
        let discovered = board.discovered();
        Facts {
            counters: board.sum(),
            by_worker: (0..board.workers()).map(|worker| board.of_worker(worker)).collect(),
            workers: subject.workers(),
            tally,
            nodes,
            topology,
            topology_changed_s: unix_s(board.topology_changed_at()),
            discovered,
            discovery_answered_s: discovered.and_then(|discovered| discovered.answered_at).map(unix_s),
            clients_pending: board.clients_pending(),
            slow: board.slow.by_command(),
            slow_left_out: board.slow.totals().1,
            mirror: subject.mirror().map(mirror::Status::totals),
            racks: subject.racks(),
            usage: board.usage(),
            descriptors: subject.descriptors(),
            version: subject.version().to_owned(),
            started_s: subject.started_s(),
            is_draining: subject.is_draining(),
        }
    }
}
