//! The number of subscribers of each topic, over all workers, and the number of our own connections that nodes count
//! for it.
//!
//! A node counts the connections that are subscribed. A worker has one connection for all its clients of a user. So the
//! node's number of receivers is corrected: our connections are subtracted, and our clients added. Subscribers that
//! connect to the node in other ways stay in the node's number.
//!
//! Within a transaction or a script, the reply to `PUBLISH` is the node's own number. `PUBSUB` answers for the clients
//! of this process. It does not include a client that subscribes at a node directly or through another shardis.

use crate::link::ProfileId;
use command::Topic as Kind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use stdx::glob;
use topology::ShardId;

/// The subscribers of all workers.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    /// Number of topics. While there is none, no lookup is needed.
    topics: AtomicUsize,
    by_name: RwLock<Names>,
}

/// Subscribers by kind and name.
type Names = [BTreeMap<Arc<[u8]>, Figures>; Kind::COUNT];

/// The subscribers of one topic, by worker and profile.
#[derive(Debug, Default)]
struct Figures(Vec<Listeners>);

/// A worker, and the profile of the link over which it gets a topic's messages. A node counts each.
pub(crate) type Ear = (usize, ProfileId);

/// The subscribers of one ear.
#[derive(Debug)]
struct Listeners {
    ear: Ear,
    /// Number of our clients.
    clients: usize,
    /// Shards whose node counts the link.
    nodes: Vec<ShardId>,
}

/// The receivers of a message behind shardis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receivers {
    /// Number of our links, each once per matching topic, as the node counts them.
    connections: u32,
    /// Number of our clients, each once per matching topic, as Redis counts them.
    clients: u32,
}

impl Receivers {
    /// No receivers.
    pub(crate) const NONE: Receivers = Receivers { connections: 0, clients: 0 };

    /// Redis's number of receivers where a node answers `counted`. The node may already not count a client that has
    /// just left. The other clients get the message nevertheless.
    pub(crate) fn among(self, counted: i64) -> i64 {
        (counted - i64::from(self.connections)).max(0) + i64::from(self.clients)
    }

    fn and(self, others: Receivers) -> Receivers {
        Receivers {
            connections: self.connections.saturating_add(others.connections),
            clients: self.clients.saturating_add(others.clients),
        }
    }
}

impl Figures {
    /// The subscribers that the node of `shard` reaches. Clients of a worker that has just lost its link get no
    /// message.
    fn receivers(&self, shard: ShardId) -> Receivers {
        let reached = self.0.iter().filter(|listeners| listeners.nodes.contains(&shard));
        let one = |listeners: &Listeners| Receivers { connections: 1, clients: listeners.clients as u32 };
        reached.map(one).fold(Receivers::NONE, Receivers::and)
    }

    fn clients(&self) -> usize {
        self.0.iter().map(|listeners| listeners.clients).sum()
    }

    fn of(&mut self, ear: Ear) -> &mut Listeners {
        let at = self.0.iter().position(|listeners| listeners.ear == ear).unwrap_or_else(|| {
            self.0.push(Listeners { ear, clients: 0, nodes: Vec::new() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl Audience {
    fn read(&self) -> RwLockReadGuard<'_, Names> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Names> {
        self.by_name.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the subscribers of a topic at `ear`. Without any, the entry is removed.
    fn change(&self, ear: Ear, kind: Kind, name: &Arc<[u8]>, change: impl FnOnce(&mut Listeners)) {
        let mut names = self.write();
        let names = &mut names[kind as usize];
        let before = names.len();
        let figures = names.entry(Arc::clone(name)).or_default();
        change(figures.of(ear));
        figures.0.retain(|listeners| listeners.clients > 0 || !listeners.nodes.is_empty());
        if figures.0.is_empty() {
            names.remove(name);
        }
        match names.len() {
            after if after > before => drop(self.topics.fetch_add(1, Ordering::Release)),
            after if after < before => drop(self.topics.fetch_sub(1, Ordering::Release)),
            _ => {}
        }
    }

    /// Adds a client at `ear`.
    pub(crate) fn add_client(&self, ear: Ear, kind: Kind, name: &Arc<[u8]>) {
        self.change(ear, kind, name, |listeners| listeners.clients += 1);
    }

    /// Removes a client at `ear`.
    pub(crate) fn remove_client(&self, ear: Ear, kind: Kind, name: &Arc<[u8]>) {
        self.change(ear, kind, name, |listeners| {
            debug_assert!(listeners.clients > 0, "a client was added before");
            listeners.clients = listeners.clients.saturating_sub(1);
        });
    }

    /// Adds the link of `ear` to the node of `shard`, which is subscribed.
    pub(crate) fn add_link(&self, ear: Ear, kind: Kind, name: &Arc<[u8]>, shard: ShardId) {
        self.change(ear, kind, name, |listeners| {
            debug_assert!(!listeners.nodes.contains(&shard), "it leaves before it is added again");
            listeners.nodes.push(shard);
        });
    }

    /// Removes the link of `ear` to the node of `shard`.
    pub(crate) fn remove_node(&self, ear: Ear, kind: Kind, name: &Arc<[u8]>, shard: ShardId) {
        self.change(ear, kind, name, |listeners| listeners.nodes.retain(|node| *node != shard));
    }

    /// The receivers of a message to `channel` at the node of `shard`. With patterns this takes a comparison with each,
    /// as at the node.
    #[inline]
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8], shard: ShardId) -> Receivers {
        if self.topics.load(Ordering::Acquire) == 0 {
            return Receivers::NONE;
        }
        self.receivers_of(kind, channel, shard)
    }

    fn receivers_of(&self, kind: Kind, channel: &[u8], shard: ShardId) -> Receivers {
        let names = self.read();
        let figures = names[kind as usize].get(channel);
        let own = figures.map_or(Receivers::NONE, |figures| figures.receivers(shard));
        if kind == Kind::ShardChannel {
            return own;
        }
        let patterns = names[Kind::Pattern as usize].iter();
        let matching = patterns.filter(|(pattern, _)| glob::matches(pattern, channel));
        matching.map(|(_, figures)| figures.receivers(shard)).fold(own, Receivers::and)
    }

    /// The topics of `kind` that have clients and whose names match `pattern`, by name.
    pub(crate) fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let names = self.read();
        let heard = names[kind as usize].iter().filter(|(_, figures)| figures.clients() > 0);
        let wanted = heard.filter(|(name, _)| pattern.is_none_or(|pattern| glob::matches(pattern, name)));
        wanted.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// The number of clients that are subscribed to a topic.
    pub(crate) fn clients(&self, kind: Kind, name: &[u8]) -> usize {
        self.read()[kind as usize].get(name).map_or(0, Figures::clients)
    }

    /// The number of topics of `kind` with clients.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.read()[kind as usize].values().filter(|figures| figures.clients() > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ear of a worker whose clients all have the same user.
    fn ear(worker: usize) -> Ear {
        (worker, ProfileId::FIRST)
    }

    fn name(text: &str) -> Arc<[u8]> {
        text.as_bytes().into()
    }

    #[test]
    fn a_node_counts_connections_where_redis_counts_clients() {
        let (audience, news, all) = (Audience::default(), name("news"), name("n*"));
        // The corrected number of receivers where a node counts `counted`.
        let receivers =
            |channel: &[u8], counted| audience.receivers(Kind::Channel, channel, ShardId(0)).among(counted);
        assert_eq!(receivers(b"news", 0), 0);
        // Two workers with three clients in total.
        (0..2).for_each(|worker| audience.add_link(ear(worker), Kind::Channel, &news, ShardId(0)));
        [0, 0, 1].into_iter().for_each(|worker| audience.add_client(ear(worker), Kind::Channel, &news));
        assert_eq!((receivers(b"news", 2), receivers(b"sports", 0)), (3, 0));
        // A pattern of two clients of one worker.
        (0..2).for_each(|shard| audience.add_link(ear(0), Kind::Pattern, &all, ShardId(shard)));
        (0..2).for_each(|_| audience.add_client(ear(0), Kind::Pattern, &all));
        assert_eq!((receivers(b"news", 3), receivers(b"none", 1), receivers(b"sports", 0)), (5, 2, 0));
        assert_eq!(receivers(b"news", 3 + 4), 5 + 4, "four have come to the node by other ways");
        assert_eq!(audience.receivers(Kind::ShardChannel, b"news", ShardId(0)), Receivers::NONE);
        // The last clients have left, but the node does not know yet.
        [0, 0, 1].into_iter().for_each(|worker| audience.remove_client(ear(worker), Kind::Channel, &news));
        assert_eq!(receivers(b"news", 3), 2);
    }

    #[test]
    fn a_client_counts_though_another_has_just_left() {
        let (audience, news) = (Audience::default(), name("news"));
        (0..2).for_each(|worker| audience.add_link(ear(worker), Kind::Channel, &news, ShardId(0)));
        (0..2).for_each(|worker| audience.add_client(ear(worker), Kind::Channel, &news));
        audience.remove_client(ear(0), Kind::Channel, &news);
        let receivers = audience.receivers(Kind::Channel, b"news", ShardId(0));
        assert_eq!((receivers.among(2), receivers.among(1)), (1, 1), "whether the node knows of it or not");
    }

    #[test]
    fn each_user_of_the_nodes_has_a_link_for_messages() {
        let (audience, news) = (Audience::default(), name("news"));
        let ears = [(0, ProfileId::FIRST), (0, ProfileId::NONE)];
        ears.into_iter().for_each(|ear| audience.add_link(ear, Kind::Channel, &news, ShardId(0)));
        [ears[0], ears[1], ears[1]]
            .into_iter()
            .for_each(|ear| audience.add_client(ear, Kind::Channel, &news));
        let receivers = audience.receivers(Kind::Channel, b"news", ShardId(0));
        assert_eq!((receivers.among(2), audience.clients(Kind::Channel, b"news")), (3, 3));
    }

    #[test]
    fn an_unreachable_client_is_no_receiver() {
        let (audience, news) = (Audience::default(), name("news"));
        let receivers = |counted| audience.receivers(Kind::Channel, b"news", ShardId(0)).among(counted);
        (0..2).for_each(|worker| audience.add_link(ear(worker), Kind::Channel, &news, ShardId(0)));
        [0, 0, 1, 1, 1].into_iter().for_each(|worker| audience.add_client(ear(worker), Kind::Channel, &news));
        assert_eq!(receivers(2), 5);
        audience.remove_node(ear(1), Kind::Channel, &news, ShardId(0));
        assert_eq!((receivers(1), audience.clients(Kind::Channel, b"news")), (2, 5));
    }

    #[test]
    fn a_topic_without_subscribers_is_forgotten() {
        let (audience, news) = (Audience::default(), name("news"));
        audience.add_link(ear(0), Kind::Channel, &news, ShardId(1));
        assert_eq!(audience.names(Kind::Channel, None), [], "no client has been told");
        audience.add_client(ear(0), Kind::Channel, &news);
        assert_eq!(audience.names(Kind::Channel, Some(b"n?ws")), [Arc::clone(&news)]);
        assert_eq!(audience.names(Kind::Channel, Some(b"s*")), []);
        assert_eq!((audience.clients(Kind::Channel, b"news"), audience.count(Kind::Channel)), (1, 1));
        audience.remove_client(ear(0), Kind::Channel, &news);
        audience.remove_node(ear(0), Kind::Channel, &news, ShardId(1));
        assert_eq!(audience.topics.load(Ordering::Acquire), 0);
        assert_eq!((audience.clients(Kind::Channel, b"news"), audience.count(Kind::Channel)), (0, 0));
    }
}
