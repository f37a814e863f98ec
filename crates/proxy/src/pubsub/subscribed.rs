//! The subscriptions of one client.

use crate::tracking::Tracking;
use command::Topic as Kind;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::{Id, Instant};

/// One client's output beside replies: its subscriptions, MONITOR, and tracking.
#[derive(Debug, Default)]
pub(crate) struct Subscribed {
    /// Topics by kind and name. As in Redis, a client that logs in as another user keeps its subscriptions, although
    /// they belong to another profile.
    pub topics: [BTreeMap<Arc<[u8]>, Id>; Kind::COUNT],
    /// The last place in its order for a confirmation, which may have come.
    pub awaits: Option<u32>,
    /// Whether it gets the requests of all clients (MONITOR).
    pub monitors: bool,
    /// The keys whose changes it gets.
    pub tracking: Option<Box<Tracking>>,
    /// The instant since which more waits for it than the soft limit allows.
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

    /// Whether it gets no other output than replies.
    pub(crate) fn is_silent(&self) -> bool {
        !self.has_topics() && !self.monitors && self.tracking.is_none()
    }

    /// The topics of `kind`, by name.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = Id> {
        self.topics[kind as usize].values().copied()
    }

    /// The number of topics of `kind`.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.topics[kind as usize].len()
    }

    /// The number of subscriptions in confirmations of `kind`: channels and patterns together, shard channels alone.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::ShardChannel => self.len(Kind::ShardChannel),
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
        }
    }
}
