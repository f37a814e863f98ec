//! Settings of the copies of one shard.

use crate::level::{Level, RackSet};
use command::NewEvaluator;
use std::time::Duration;

/// A rack: a whole copy of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rack {
    /// The name of its data centre.
    pub dc: String,
    /// Its own name, which is unique in its data centre.
    pub name: String,
}

impl std::fmt::Display for Rack {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.dc, self.name)
    }
}

/// The request AUTH, which no log shows.
#[derive(Clone)]
pub struct Login(pub Vec<u8>);

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Login")
    }
}

/// Settings of a [`Machine`](crate::Machine).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The racks, at most [`RACKS_MAX`](crate::RACKS_MAX).
    pub racks: Vec<Rack>,
    /// The local rack, by its place in the list.
    pub local: usize,
    /// The level of reads.
    pub read: Level,
    /// The level of writes.
    pub write: Level,
    /// Time without progress after which a copy counts as lost.
    pub timeout: Duration,
    /// Bytes of the hints of one rack, above which it becomes stale.
    pub hint_bytes_max: usize,
    /// The login at the nodes.
    pub login: Option<Login>,
    /// Makes a keyspace in which values are compared.
    pub evaluator: NewEvaluator,
    /// Keys that the background comparison looks at in a second.
    pub compared_per_second: u32,
}

impl Settings {
    /// The racks in the order in which one is chosen: the local one, those of its data centre, others.
    pub(crate) fn preference(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.racks.len()).collect();
        order.sort_by_key(|&rack| (rack != self.local, self.racks[rack].dc != self.racks[self.local].dc));
        order
    }

    /// The racks of the data centre `dc`.
    pub(crate) fn racks_of(&self, dc: &str) -> RackSet {
        (0..self.racks.len()).filter(|&rack| self.racks[rack].dc == dc).collect()
    }

    /// The data centres whose quorums decide at `level`.
    pub(crate) fn centres(&self, level: Level) -> Vec<RackSet> {
        let local = &self.racks[self.local].dc;
        let mut names = vec![local];
        if level == Level::EachSafeQuorum {
            for rack in &self.racks {
                if !names.contains(&&rack.dc) {
                    names.push(&rack.dc);
                }
            }
        }
        names.into_iter().map(|dc| self.racks_of(dc)).collect()
    }
}
