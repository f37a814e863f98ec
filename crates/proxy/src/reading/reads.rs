//! The policy and the recent requests of one client whose reads may go to replicas.

use crate::reading::{ReadFrom, Written};
use topology::ShardId;

/// State of a client whose reads may go to replicas.
#[derive(Debug)]
pub(crate) struct Reads {
    /// The policy of the client's listener.
    pub own: ReadFrom,
    /// The policy in use.
    pub from: ReadFrom,
    /// Shards that the client uses: few enough for a linear search.
    pub shards: Vec<OfShard>,
}

/// Earlier requests to a shard that limit where the next one may go.
#[derive(Debug)]
pub(crate) struct OfShard {
    pub shard: ShardId,
    /// The place of the last read that went to a replica.
    pub read_at: Option<u32>,
    pub own_write: OwnWrite,
}

/// A client's last write, which some replicas may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnWrite {
    No,
    /// The write was sent. Its place is not known to be filled.
    Sent(u32),
    /// The write was answered by then.
    Answered(Written),
}

impl Reads {
    /// State of a client whose listener has the policy `own`.
    pub(crate) fn new(own: ReadFrom) -> Reads {
        Reads { own, from: own, shards: Vec::new() }
    }

    pub(crate) fn of_shard(&mut self, shard: ShardId) -> &mut OfShard {
        let known = self.shards.iter().position(|of_shard| of_shard.shard == shard);
        let at = known.unwrap_or_else(|| {
            self.shards.push(OfShard { shard, read_at: None, own_write: OwnWrite::No });
            self.shards.len() - 1
        });
        &mut self.shards[at]
    }
}
