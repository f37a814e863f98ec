//! What one client is subscribed to.

use crate::tracking::Tracking;
use command::Topic as Kind;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::{Id, Instant};

/// What comes to one client beside replies: what it is subscribed to, and whether it monitors or tracks keys.
#[derive(Debug, Default)]
pub(crate) struct Subscribed {
    /// By kind and name. A client that has become another user stays subscribed to what another profile is for, as in Redis.
    pub topics: [BTreeMap<Arc<[u8]>, Id>; Kind::COUNT],
    /// The last place in its order for a confirmation that is still to come, or was.
    pub awaits: Option<u32>,
    /// It sees the requests of all.
    pub monitors: bool,
    /// Of which keys it wants to know that they have changed.
    pub tracking: Option<Box<Tracking>>,
    /// Since when more waits for it than the soft limit allows.
    pub slow_since: Option<Instant>,
}

impl Subscribed {
    pub(crate) fn insert(&mut self, kind: Kind, name: &Arc<[u8]>, id: Id) {
        self.topics[kind as usize].insert(Arc::clone(name), id);
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) {
        self.topics[kind as usize].remove(name);
    }

    pub(crate) fn find(&self, kind: Kind, name: &[u8]) -> Option<Id> {
        self.topics[kind as usize].get(name).copied()
    }

    pub(crate) fn has_topics(&self) -> bool {
        !self.topics.iter().all(BTreeMap::is_empty)
    }

    /// Whether nothing comes for it any more but replies.
    pub(crate) fn is_silent(&self) -> bool {
        !self.has_topics() && !self.monitors && self.tracking.is_none()
    }

    /// The topics of `kind`, by name.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = Id> {
        self.topics[kind as usize].values().copied()
    }

    /// How many topics of `kind`.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.topics[kind as usize].len()
    }

    /// How many subscriptions a client is told to have: channels and patterns together, shard channels by themselves.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::ShardChannel => self.len(Kind::ShardChannel),
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
        }
    }
}
