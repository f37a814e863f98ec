//! Discovery of topologies that change: it asks the nodes of a Redis Cluster, or sentinels.
//!
//! ```text
//!     time, a worker's wish ─► whom to ask ─► Action::Connect, Send ─► (the discovery thread)
//!     Event::Received ─► an answer ─► is it newer than what we know? ─► a view: Vec<ShardSpec>
//! ```
//!
//! Two machines, [`ClusterDiscovery`] and [`SentinelDiscovery`], behind one [`Discovery`]. They decide everything and touch
//! nothing: bytes and instants come in, actions go out, and a seed decides random choices. An answer does not count as newer
//! because it came later.
//!
//! Both machines use `talk.rs` (connections), `cluster_answer.rs` and `sentinel_answer.rs` (parsed replies). `cluster_map.rs`
//! joins the answers of a cluster's nodes slot by slot.
//!
//! A test generates hundreds of clusters by seeds whose nodes lag behind or are cut off. Both machines are in simulated worlds
//! too: among nodes of a cluster that gossip, and among sentinels that elect, promote and demote. There, each answers with its
//! own knowledge.

mod cluster;
mod cluster_answer;
mod cluster_map;
mod findings;
mod news;
mod reach;
mod schedule;
mod sentinel;
mod sentinel_answer;
mod sentinel_shard;
mod talk;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod sentinel_failover_tests;
#[cfg(test)]
mod sentinel_testing;
#[cfg(test)]
mod sentinel_tests;
#[cfg(test)]
mod testing;

pub use cluster::{ClusterDiscovery, ClusterSettings};
pub use cluster_answer::{Answer, Asked, Member, Replies, is_no_cluster};
pub use news::{News, changes};
pub use sentinel::{SentinelDiscovery, SentinelSettings};
pub use sentinel_answer::{fields as sentinel_fields, parse_address, place as sentinel_place};
pub use talk::{Action, Event, Greetings, Party};

use crate::{Address, ShardSpec};
use std::time::Duration;
use stdx::Instant;

/// A hint of a worker that the topology may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A node redirected a request to this address, which most likely knows better.
    Redirected(Address),
    /// A node does not behave as the topology says (READONLY, CLUSTERDOWN).
    Look,
    /// The node at this address cannot be used.
    Down(Address),
    /// Workers can use the node again.
    Up(Address),
}

/// All shards as known now, newer than the view before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The newest of the cluster's (the sentinels') own epochs in it.
    pub epoch: u64,
    /// The shards. Those of sentinels keep the order of their names.
    pub shards: Vec<ShardSpec>,
}

/// Statistics so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers that could be used.
    pub answers: u64,
    /// Questions without answer: no node there, no answer in time, an error.
    pub failures: u64,
    /// Answers of nodes with older knowledge, or of another cluster.
    pub refusals: u64,
    /// When the last usable answer came.
    pub answered_at: Option<Instant>,
}

/// Either machine.
#[derive(Debug)]
pub enum Discovery {
    /// Asks the nodes of a Redis Cluster.
    Cluster(Box<ClusterDiscovery>),
    /// Asks sentinels.
    Sentinel(Box<SentinelDiscovery>),
}

macro_rules! either {
    ($self:expr, $machine:ident => $call:expr) => {
        match $self {
            Discovery::Cluster($machine) => $call,
            Discovery::Sentinel($machine) => $call,
        }
    };
}

impl Discovery {
    /// Something happened on a connection.
    pub fn handle_event(&mut self, event: Event<'_>, now: Instant) {
        either!(self, machine => machine.handle_event(event, now));
    }

    /// A worker noticed something.
    pub fn handle_wish(&mut self, wish: Wish, now: Instant) {
        either!(self, machine => machine.handle_wish(wish, now));
    }

    /// Has the connections to come begin with `greetings`.
    pub fn renew(&mut self, greetings: Greetings) {
        either!(self, machine => machine.talks.renew(greetings));
    }

    /// The time of [`Discovery::poll_deadline`] has come.
    pub fn handle_time(&mut self, now: Instant) {
        either!(self, machine => machine.handle_time(now));
    }

    /// When [`Discovery::handle_time`] must be called at the latest.
    pub fn poll_deadline(&self) -> Instant {
        either!(self, machine => machine.poll_deadline())
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        either!(self, machine => machine.talks.poll_action())
    }

    /// The current view, if it is newer than that of the last call.
    pub fn poll_view(&mut self) -> Option<View> {
        either!(self, machine => machine.findings.poll_view())
    }

    /// Something that an operator wants to know.
    pub fn poll_news(&mut self) -> Option<News> {
        either!(self, machine => machine.findings.poll_news())
    }

    /// Statistics so far.
    pub fn tally(&self) -> Tally {
        either!(self, machine => machine.findings.tally())
    }
}

/// Timeout of a question. A handshake over continents takes a third of it.
const PATIENCE: Duration = Duration::from_secs(1);
