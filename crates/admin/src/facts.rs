//! The process as the admin listener sees it.

use proxy::{Board, Counters, NodeReport, NodeReports, Page, Tally, Usage};
use serde::Serialize;
use std::sync::Arc;
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
}

/// The load of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WorkerFacts {
    /// Turns of its event loop.
    pub turns: u64,
    /// Time in which it did not wait for events, in seconds.
    pub busy_s: f64,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The flag, without its dashes.
    pub name: String,
    /// Its value as text.
    pub value: String,
    /// Its source: `default`, `file` or `command line`.
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
    /// Resources of the process.
    pub usage: Usage,
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
        Facts {
            counters: board.sum(),
            by_worker: (0..board.workers()).map(|worker| board.of_worker(worker)).collect(),
            workers: subject.workers(),
            tally,
            nodes,
            topology,
            usage: board.usage(),
            version: subject.version().to_owned(),
            started_s: subject.started_s(),
            is_draining: subject.is_draining(),
        }
    }
}
