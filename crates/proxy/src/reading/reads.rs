//! Where the reads of one client go.

use crate::reading::{ReadFrom, Written};
use topology::ShardId;

/// What is remembered of a client whose reads may go to replicas.
#[derive(Debug)]
pub(crate) struct Reads {
    /// Where they go unless it says otherwise: the policy of its listener.
    pub own: ReadFrom,
    /// Where they go.
    pub from: ReadFrom,
    /// Shards that it has to do with: few of them, so that they are looked through.
    pub shards: Vec<OfShard>,
}

/// What of its requests concerns the order of the next one to a shard.
#[derive(Debug)]
pub(crate) struct OfShard {
    pub shard: ShardId,
    /// The place of its last read that went to a replica.
    pub read_at: Option<u32>,
    pub own_write: OwnWrite,
}

/// What a client wrote that not every replica may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnWrite {
    No,
    /// Its place is not filled yet, as far as is known.
    Sent(u32),
    /// It was answered by then.
    Answered(Written),
}

impl Reads {
    /// Of a client whose listener has the policy `own`.
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
