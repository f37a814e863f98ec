//! Shards of a pool with racks: each is a thread of this process, behind which a node in each rack has a copy.
//!
//! A worker reaches it as it reaches a store of this process (embedded.rs). The thread has a [`Machine`], which decides, and
//! the sockets to the nodes. The hint log is in a file that all shards of the pool share.

mod hint_log;
mod thread;

use crate::embedded::Embedded;
use crate::resolver::Question;
use crate::transport::NodeTls;
use anyhow::Result;
use racks::{Machine, Settings, Status};
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use topology::Address;
use tracing::Span;

/// The racks of a pool, before they are served.
#[derive(Clone, Debug)]
pub(crate) struct RackPool {
    /// The settings of each shard's machine.
    pub settings: Settings,
    /// The nodes of each shard, one in each rack.
    pub shards: Vec<Vec<Address>>,
    /// The folder of the hint log.
    pub hint_log: PathBuf,
}

/// Everything that the shards need beside the racks.
pub(crate) struct Surroundings {
    pub resolver: mpsc::Sender<Question>,
    pub node_tls: Option<Arc<NodeTls>>,
    /// The pool in the log.
    pub span: Span,
}

/// The state of all shards of a pool with racks, for operators.
pub(crate) struct RackStatus {
    /// The names of the racks.
    names: Vec<String>,
    shards: Vec<Arc<Mutex<Status>>>,
}

impl RackStatus {
    /// The names of the racks.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The state of each shard.
    pub(crate) fn shards(&self) -> Vec<Status> {
        let status =
            |shard: &Arc<Mutex<Status>>| shard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.shards.iter().map(status).collect()
    }
}

/// Starts the threads of all shards. Returns the ways to them, and their state.
pub(crate) fn start(pool: &RackPool, surroundings: &Surroundings) -> Result<(Embedded, Arc<RackStatus>)> {
    let racks = &pool.settings.racks;
    let name = |nodes: &Vec<Address>| {
        racks.iter().zip(nodes).map(|(rack, node)| format!("{rack} {node}")).collect::<Vec<String>>()
    };
    let opened = hint_log::open(&pool.hint_log, pool.shards.iter().map(name).collect())?;
    let (mut doors, mut shards) = (Vec::new(), Vec::new());
    for ((shard, nodes), kept) in pool.shards.iter().enumerate().zip(opened.kept) {
        let clock = thread::Clock::start();
        let machine = Machine::new(pool.settings.clone(), kept, clock.now());
        let status = Arc::new(Mutex::new(machine.status()));
        let shard = thread::Shard {
            number: shard,
            nodes: nodes.clone(),
            racks: racks.iter().map(ToString::to_string).collect(),
            log: opened.log.clone(),
            status: Arc::clone(&status),
        };
        doors.push(thread::start(shard, machine, clock, surroundings)?);
        shards.push(status);
    }
    let names = racks.iter().map(ToString::to_string).collect();
    Ok((Embedded::of_doors(doors), Arc::new(RackStatus { names, shards })))
}
