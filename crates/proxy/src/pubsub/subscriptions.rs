//! The tables of subscriptions: of one worker and of one client, with the nodes that know of them. This module sends no
//! bytes; `pubsub.rs` does.
//!
//! ```text
//!   client ──► its topics ◄──► topic: its clients, and the shards whose nodes were asked and have confirmed
//! ```
//!
//! A topic lives on one shard. If its messages may come from any node (a pattern, a keyspace notification), it lives on
//! all. A client's subscription waits until all nodes of its topic have confirmed.
//!
//! A topic belongs to one profile. With users of the nodes (`passing.rs`), a node decides which messages a user may
//! get. So clients share a topic only with clients of the same user.
//!
//! **Guarantees for clients.** Messages of a channel keep their order. They never interrupt a reply, and never overtake
//! the confirmation of their subscription. As in Redis, they may overtake replies that are still to come from nodes.
//!
//! - A transaction may publish to channels of its own shard. A message of a script comes from the shard on which the
//!   script runs. It reaches the subscribers only if this is also the channel's shard: give both a hash tag.
//! - If a node of a topic is down, the error `TRYAGAIN` takes the place of the confirmation. The client is then not
//!   subscribed to the channel.
//! - When a link for messages is lost, clients stay subscribed, and the next link subscribes again. Messages that were
//!   published meanwhile are lost. The log reports it, and `total_message_gaps` of `INFO stats` counts it. A silent
//!   link gets a PING after 5 seconds.
//! - A subscriber with more than 32 MiB waiting for it, or 8 MiB for a minute, is closed, as by Redis's
//!   `client-output-buffer-limit pubsub`. If memory fills because subscribers do not read, they are closed before any
//!   other client waits. The subscriptions of a worker may take 64 MiB; beyond that `SUBSCRIBE` is an error.

use crate::ConnId;
use crate::features::Ticket;
use crate::link::ProfileId;
use command::Topic as Kind;
use engine::memory::Charge;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Id, Instant, Slab};
use topology::{ShardId, Topology};

/// All topics to which clients of a worker are subscribed.
#[derive(Debug)]
pub(crate) struct Topics {
    topics: Slab<Topic>,
    /// By profile, for profiles with topics, and by kind.
    by_name: BTreeMap<ProfileId, Names>,
    /// Number of topics by origin, for origins with topics.
    at_origin: BTreeMap<Origin, usize>,
    /// The present shards.
    shards: Vec<ShardId>,
    charge: Charge,
}

/// For lookups only, since the order in a hash table is arbitrary.
type Names = [HashMap<Arc<[u8]>, Id>; Kind::COUNT];

/// The origin of messages: a shard's node, over the link with the profile's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub shard: ShardId,
    pub profile: ProfileId,
}

impl Origin {
    /// All origins of `shard`, whatever their profile.
    pub(crate) fn all_of(shard: ShardId) -> RangeInclusive<Origin> {
        Origin { shard, profile: ProfileId::FIRST }..=Origin { shard, profile: ProfileId::NONE }
    }
}

/// A channel or pattern with subscribers.
#[derive(Debug)]
pub(crate) struct Topic {
    /// The profile to which it belongs.
    pub profile: ProfileId,
    pub kind: Kind,
    pub name: Arc<[u8]>,
    /// The shard from which its messages come; `None` for every shard.
    home: Option<ShardId>,
    /// The shard whose copy counts if all nodes of a cluster pass a message on. It stays the same as long as that shard
    /// exists. After a change, a message that only one of the two nodes has passed on so far would come twice, or
    /// never.
    pub speaker: ShardId,
    /// Number of moves since a node last confirmed.
    moves: u8,
    /// Number of times that nodes were asked for it.
    questions: u32,
    /// Shards whose node has not confirmed, or whose link was lost since.
    lacking: Vec<Lack>,
    subscribers: BTreeMap<ConnId, Subscription>,
    /// Set if a node has declined, or there was none to ask, and none has confirmed since.
    pub setback: Option<Setback>,
}

/// Why a topic is not available at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setback {
    /// The instant at which clients that wait get an error; never if none waits.
    pub until: Instant,
    /// The instant of the next attempt, unless a newer topology comes before; never if a node was asked.
    pub retry_at: Instant,
    /// The error for clients that wait.
    pub reason: String,
}

/// A node that has to confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lack {
    shard: ShardId,
    /// The number of the topic's question on the present link; `None` if the node was not asked.
    asked: Option<u32>,
}

/// One client's part in a topic. It is confirmed if no place waits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// The client's places that wait for a confirmation. Several, if it subscribes again before the first reply.
    pub waits: Vec<Wait>,
}

/// A place in a client's order that waits for a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub place: u32,
    /// The number of subscriptions in the confirmation.
    pub count: usize,
    /// Whether the client spoke RESP3 when it asked.
    pub resp3: bool,
}

/// The rest of a topic without subscribers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deserted {
    pub profile: ProfileId,
    pub kind: Kind,
    pub name: Arc<[u8]>,
    /// Shards whose nodes were asked, and whether they have confirmed. They must get the unsubscription.
    pub asked: Vec<(ShardId, bool)>,
}

/// A topic that has left its shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub kind: Kind,
    pub name: Arc<[u8]>,
    /// The old origin.
    pub from: Origin,
    /// Whether the node there was asked, and must get the unsubscription.
    pub asked: bool,
    /// Whether that node has confirmed.
    pub confirmed: bool,
}

/// The effect of a lost link on the topics of its shard.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Topics that the node had confirmed.
    pub confirmed: Vec<Id>,
    /// Topics for which clients wait.
    pub waited_for: Vec<Id>,
}

/// Time until the next attempt for a topic that was declined and for which a client waits. It is longer than for
/// requests, since there may be thousands of topics.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The same if no client waits. Messages are missed meanwhile.
const IDLE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Memory that a topic counts for, beside its name, with its entries in tables.
const TOPIC_BYTES: usize = 300;
/// Memory that one client's subscription counts for, on both sides.
const SUBSCRIPTION_BYTES: usize = 120;

impl Topics {
    pub(crate) fn new(shards: usize, charge: Charge) -> Topics {
        Topics {
            topics: Slab::default(),
            by_name: BTreeMap::new(),
            at_origin: BTreeMap::new(),
            shards: (0..shards as u32).map(ShardId).collect(),
            charge,
        }
    }

    /// Adapts to the number of shards.
    pub(crate) fn fit(&mut self, topology: &Topology) {
        let before = std::mem::replace(&mut self.shards, topology.all_shards().collect());
        let came = self.shards.iter().copied().filter(|shard| !before.contains(shard));
        let went = before.iter().copied().filter(|shard| !self.shards.contains(shard));
        let (came, went): (Vec<ShardId>, Vec<ShardId>) = (came.collect(), went.collect());
        for id in self.ids() {
            let Some(topic) = self.topics.get_mut(id).filter(|topic| topic.home.is_none()) else { continue };
            topic.lacking.retain(|lack| !went.contains(&lack.shard));
            topic.lacking.extend(came.iter().map(|&shard| Lack { shard, asked: None }));
            let profile = topic.profile;
            came.iter().for_each(|&shard| self.count_in(Origin { shard, profile }));
            went.iter().for_each(|&shard| self.count_out(Origin { shard, profile }));
        }
    }

    /// All topics.
    pub(crate) fn ids(&self) -> Vec<Id> {
        (0..self.topics.places()).filter_map(|index| self.topics.id_at(index)).collect()
    }

    /// Moves a topic with one home to `shard`, whose node was not asked yet. `None` if this is its home already.
    pub(crate) fn move_home(&mut self, id: Id, shard: ShardId) -> Option<Moved> {
        let topic = self.topics.get_mut(id)?;
        let from = topic.home.filter(|home| *home != shard)?;
        let lack = topic.lacking.first().copied();
        (topic.home, topic.lacking) = (Some(shard), vec![Lack { shard, asked: None }]);
        let (profile, kind, name) = (topic.profile, topic.kind, Arc::clone(&topic.name));
        let from = Origin { shard: from, profile };
        self.count_out(from);
        self.count_in(Origin { shard, profile });
        let (asked, confirmed) = (lack.is_none_or(|lack| lack.asked.is_some()), lack.is_none());
        Some(Moved { kind, name, from, asked, confirmed })
    }

    fn count_in(&mut self, origin: Origin) {
        *self.at_origin.entry(origin).or_default() += 1;
    }

    fn count_out(&mut self, origin: Origin) {
        if let Entry::Occupied(mut topics) = self.at_origin.entry(origin) {
            *topics.get_mut() -= 1;
            if *topics.get() == 0 {
                topics.remove();
            }
        }
    }

    pub(crate) fn find(&self, profile: ProfileId, kind: Kind, name: &[u8]) -> Option<Id> {
        self.by_name.get(&profile)?[kind as usize].get(name).copied()
    }

    /// Whether there is a topic of `profile`.
    pub(crate) fn has_profile(&self, profile: ProfileId) -> bool {
        self.by_name.contains_key(&profile)
    }

    /// The present setback of a topic.
    pub(crate) fn setback_of(&self, id: Id) -> Option<Setback> {
        self.get(id)?.setback.clone()
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Topic> {
        self.topics.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Topic> {
        self.topics.get_mut(id)
    }

    /// Adds a topic of `profile`, on the shard `home` or on all. It has no subscribers, and no node was asked.
    pub(crate) fn insert(
        &mut self,
        profile: ProfileId,
        (kind, name): (Kind, &[u8]),
        home: Option<ShardId>,
        speaker: ShardId,
    ) -> Id {
        let name: Arc<[u8]> = name.into();
        self.charge.add(TOPIC_BYTES + name.len());
        let lacking = self.homes(home).map(|shard| Lack { shard, asked: None }).collect();
        let subscribers = BTreeMap::new();
        let topic = Topic {
            profile,
            kind,
            name: Arc::clone(&name),
            home,
            speaker,
            moves: 0,
            questions: 0,
            lacking,
            subscribers,
            setback: None,
        };
        self.homes(home).for_each(|shard| self.count_in(Origin { shard, profile }));
        let id = self.topics.insert(topic);
        self.by_name.entry(profile).or_default()[kind as usize].insert(name, id);
        id
    }

    /// The shards of `home`.
    pub(crate) fn homes(&self, home: Option<ShardId>) -> impl Iterator<Item = ShardId> + use<> {
        home.map_or_else(|| self.shards.clone(), |shard| vec![shard]).into_iter()
    }

    /// Subscribes `conn`, which is not subscribed yet. Returns whether all nodes have confirmed before.
    pub(crate) fn join(&mut self, id: Id, conn: ConnId) -> bool {
        let Some(topic) = self.topics.get_mut(id) else { return false };
        self.charge.add(SUBSCRIPTION_BYTES);
        topic.subscribers.insert(conn, Subscription::default());
        topic.lacking.is_empty()
    }

    /// Ends the subscription of `conn`. Returns the subscription, and the rest of the topic if it was the last.
    pub(crate) fn leave(&mut self, id: Id, conn: ConnId) -> Option<(Subscription, Option<Deserted>)> {
        let topic = self.topics.get_mut(id)?;
        let subscription = topic.subscribers.remove(&conn)?;
        self.charge.take(SUBSCRIPTION_BYTES);
        let deserted = if topic.subscribers.is_empty() { self.remove(id) } else { None };
        Some((subscription, deserted))
    }

    fn remove(&mut self, id: Id) -> Option<Deserted> {
        let topic = self.topics.remove(id)?;
        let profile = topic.profile;
        if let Entry::Occupied(mut names) = self.by_name.entry(profile) {
            names.get_mut()[topic.kind as usize].remove(&topic.name);
            if names.get().iter().all(HashMap::is_empty) {
                names.remove();
            }
        }
        self.charge.take(TOPIC_BYTES + topic.name.len());
        let mut asked = Vec::new();
        for shard in self.homes(topic.home) {
            self.count_out(Origin { shard, profile });
            match topic.lacking.iter().find(|lack| lack.shard == shard) {
                None => asked.push((shard, true)),
                Some(Lack { asked: Some(_), .. }) => asked.push((shard, false)),
                Some(_) => {}
            }
        }
        Some(Deserted { profile, kind: topic.kind, name: topic.name, asked })
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Places in clients' orders that wait for a confirmation.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (ConnId, u32)> {
        let subscribers = self.topics.iter().flat_map(|(_, topic)| &topic.subscribers);
        subscribers.flat_map(|(conn, subscription)| subscription.waits.iter().map(|wait| (*conn, wait.place)))
    }

    /// Memory as counted, and summed up anew.
    pub(crate) fn account(&self) -> (usize, usize) {
        let bytes = self
            .topics
            .iter()
            .map(|(_, topic)| TOPIC_BYTES + topic.name.len() + SUBSCRIPTION_BYTES * topic.subscribers.len());
        (self.charge.bytes(), bytes.sum())
    }

    /// Number of topics; 0 once no client is left.
    pub(crate) fn len(&self) -> usize {
        self.topics.len()
    }

    /// Number of topics whose messages come from `origin`.
    pub(crate) fn at(&self, origin: Origin) -> usize {
        self.at_origin.get(&origin).copied().unwrap_or_default()
    }

    /// The topics whose messages come from `origin`.
    pub(crate) fn ids_at(&self, Origin { shard, profile }: Origin) -> impl Iterator<Item = Id> {
        let ids = (0..self.topics.places()).filter_map(|index| self.topics.id_at(index));
        let comes_from_there = move |topic: &Topic| topic.profile == profile && topic.lives_on(shard);
        ids.filter(move |id| self.topics.get(*id).is_some_and(comes_from_there))
    }

    /// Handles the loss of the link to `origin`, whose node has forgotten all subscriptions. Looks at every topic.
    pub(crate) fn lose(&mut self, origin: Origin) -> Loss {
        let ids: Vec<Id> = self.ids_at(origin).collect();
        let shard = origin.shard;
        let is_there = self.shards.contains(&shard);
        let mut loss = Loss::default();
        for id in ids {
            let Some(topic) = self.topics.get_mut(id) else { continue };
            match topic.lacking.iter_mut().find(|lack| lack.shard == shard) {
                Some(lack) => lack.asked = None,
                None => {
                    loss.confirmed.push(id);
                    topic.lacking.extend(is_there.then_some(Lack { shard, asked: None }));
                }
            }
            if topic.is_waited_for() && is_there && !topic.is_parked() {
                loss.waited_for.push(id);
            }
        }
        loss
    }

    /// Whether the answer of the node of `shard` to the question of `ticket` is still awaited.
    pub(crate) fn awaits(&self, ticket: &Ticket, shard: ShardId) -> bool {
        self.topics.get(ticket.conn).is_some_and(|topic| topic.awaits(shard, ticket.place))
    }

    /// The topics to ask for at `origin`, now that there is a link: see [`Topic::ask`].
    pub(crate) fn unasked(&self, origin: Origin) -> Vec<Id> {
        let unasked = Lack { shard: origin.shard, asked: None };
        let lacks = |id: &Id| self.topics.get(*id).is_some_and(|topic| topic.lacking.contains(&unasked));
        self.ids_at(origin).filter(lacks).collect()
    }
}

impl Topic {
    /// Whether its messages come from `shard`.
    pub(crate) fn lives_on(&self, shard: ShardId) -> bool {
        self.home.is_none_or(|home| home == shard)
    }

    /// The shard from which its messages come; `None` for every shard.
    pub(crate) fn home(&self) -> Option<ShardId> {
        self.home
    }

    /// Whether all its nodes have confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.lacking.is_empty()
    }

    /// Counts a move. Returns the number of moves in a row.
    pub(crate) fn count_move(&mut self) -> u8 {
        self.moves = self.moves.saturating_add(1);
        self.moves
    }

    /// Notes that no node can be asked now. Clients wait until `until` at most. Returns the next instant at which to
    /// look again.
    pub(crate) fn set_back(&mut self, until: Instant, reason: String, now: Instant) -> Instant {
        let retry_at = match self.is_waited_for() {
            true => now + RETRY_AFTER,
            false => now + IDLE_RETRY_AFTER,
        };
        let before = self.setback.take().map_or(Instant::NEVER, |setback| setback.until);
        let until = if self.is_waited_for() { until.min(before) } else { Instant::NEVER };
        self.setback = Some(Setback { until, retry_at, reason });
        until.min(retry_at)
    }

    /// Whether it will be asked for again after a time.
    pub(crate) fn is_parked(&self) -> bool {
        self.setback.as_ref().is_some_and(|setback| setback.retry_at != Instant::NEVER)
    }

    /// Notes that the node of `shard` has ended the subscription. Returns false if there was none.
    pub(crate) fn drop_at(&mut self, shard: ShardId) -> bool {
        let was_there = self.lives_on(shard) && self.lacking.iter().all(|lack| lack.shard != shard);
        if was_there {
            self.lacking.push(Lack { shard, asked: None });
        }
        was_there
    }

    /// Shards whose node was not asked yet.
    pub(crate) fn unasked(&self) -> impl Iterator<Item = ShardId> {
        self.lacking.iter().filter(|lack| lack.asked.is_none()).map(|lack| lack.shard)
    }

    /// Shards whose node has not confirmed.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = ShardId> {
        self.lacking.iter().map(|lack| lack.shard)
    }

    /// Notes that the node of `shard` is asked now. Returns the number of the question.
    pub(crate) fn ask(&mut self, shard: ShardId) -> u32 {
        if let Some(setback) = &mut self.setback {
            setback.retry_at = Instant::NEVER;
        }
        self.questions = self.questions.wrapping_add(1);
        for lack in self.lacking.iter_mut().filter(|lack| lack.shard == shard) {
            lack.asked = Some(self.questions);
        }
        self.questions
    }

    /// Whether this question to the node of `shard` was the last one. If not, the topic has left the shard since, and
    /// may have returned.
    fn awaits(&self, shard: ShardId, question: u32) -> bool {
        self.lacking.contains(&Lack { shard, asked: Some(question) })
    }

    /// Notes that the node of `shard` refuses. It may be asked again.
    pub(crate) fn refuse(&mut self, shard: ShardId) {
        for lack in self.lacking.iter_mut().filter(|lack| lack.shard == shard) {
            lack.asked = None;
        }
    }

    /// Notes that the node of `shard` has confirmed. Returns whether all have.
    pub(crate) fn confirm(&mut self, shard: ShardId) -> bool {
        self.lacking.retain(|lack| lack.shard != shard);
        (self.moves, self.setback) = (0, None);
        self.lacking.is_empty()
    }

    /// Adds a place of the subscriber `conn` that waits.
    pub(crate) fn wait(&mut self, conn: ConnId, wait: Wait) {
        if let Some(subscription) = self.subscribers.get_mut(&conn) {
            subscription.waits.push(wait);
        }
    }

    /// Whether the subscriber `conn` waits.
    pub(crate) fn waits(&self, conn: ConnId) -> bool {
        self.subscribers.get(&conn).is_some_and(|subscription| !subscription.waits.is_empty())
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.subscribers.values().any(|subscription| !subscription.waits.is_empty())
    }

    /// Takes all waits. Their subscribers are confirmed, or are to leave.
    pub(crate) fn take_waits(&mut self) -> Vec<(ConnId, Vec<Wait>)> {
        self.moves = 0;
        if let Some(setback) = &mut self.setback {
            setback.until = Instant::NEVER;
        }
        let waiting = self.subscribers.iter_mut().filter(|(_, subscription)| !subscription.waits.is_empty());
        waiting.map(|(conn, subscription)| (*conn, std::mem::take(&mut subscription.waits))).collect()
    }

    /// The subscribers that get messages: all confirmed ones.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = ConnId> {
        let confirmed = self.subscribers.iter().filter(|(_, subscription)| subscription.waits.is_empty());
        confirmed.map(|(conn, _)| *conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::subscribed::Subscribed;

    const ONE: ConnId = ConnId { index: 1, generation: 0 };
    const OTHER: ConnId = ConnId { index: 2, generation: 0 };
    const WAIT: Wait = Wait { place: 3, count: 1, resp3: false };

    fn at(shard: u32) -> Origin {
        Origin { shard: ShardId(shard), profile: ProfileId::FIRST }
    }

    /// Topics of two shards, with one topic to which `ONE` is subscribed and whose nodes were asked.
    fn asked(kind: Kind, home: Option<ShardId>) -> (Topics, Id) {
        let mut topics = Topics::new(2, Charge::default());
        let id = topics.insert(ProfileId::FIRST, (kind, b"news"), home, ShardId(0));
        assert!(!topics.join(id, ONE), "no node has confirmed");
        let topic = topics.get_mut(id).expect("it is there");
        topic.wait(ONE, WAIT);
        let homes: Vec<ShardId> = topic.unasked().collect();
        let questions: Vec<u32> = homes.into_iter().map(|shard| topic.ask(shard)).collect();
        assert!(questions.is_sorted(), "each has a number of its own");
        (topics, id)
    }

    #[test]
    fn a_topic_on_all_shards_is_confirmed_once_all_nodes_are() {
        let (mut topics, id) = asked(Kind::Pattern, None);
        assert_eq!([0, 1].map(|shard| topics.at(at(shard))), [1, 1]);
        let topic = topics.get_mut(id).expect("it is there");
        assert_eq!(topic.unasked().count(), 0);
        assert!(!topic.confirm(ShardId(1)));
        assert_eq!(topic.listeners().count(), 0, "who waits gets no messages");
        assert!(topic.confirm(ShardId(0)));
        assert_eq!(topic.take_waits(), [(ONE, vec![WAIT])]);
        assert_eq!(topic.listeners().collect::<Vec<_>>(), [ONE]);
        assert!(topics.join(id, OTHER), "nobody need be asked again");
    }

    #[test]
    fn the_last_subscriber_that_leaves_removes_the_topic() {
        let (mut topics, id) = asked(Kind::Channel, Some(ShardId(1)));
        let find = |topics: &Topics, profile, kind| topics.find(profile, kind, b"news");
        assert_eq!(find(&topics, ProfileId::FIRST, Kind::Channel), Some(id));
        assert_eq!(
            find(&topics, ProfileId::FIRST, Kind::ShardChannel),
            None,
            "kinds have names of their own"
        );
        assert_eq!(find(&topics, ProfileId::NONE, Kind::Channel), None, "and so have profiles");
        topics.join(id, OTHER);
        topics.get_mut(id).expect("it is there").confirm(ShardId(1));
        assert_eq!(topics.leave(id, ONE), Some((Subscription { waits: vec![WAIT] }, None)));
        assert_eq!(topics.leave(id, ONE), None);
        let (subscription, deserted) = topics.leave(id, OTHER).expect("it was there");
        let name: Arc<[u8]> = b"news"[..].into();
        assert_eq!(subscription, Subscription::default());
        let asked = vec![(ShardId(1), true)];
        let expected = Deserted { profile: ProfileId::FIRST, kind: Kind::Channel, name, asked };
        assert_eq!(deserted, Some(expected));
        assert_eq!((topics.len(), topics.held_bytes(), topics.at(at(1))), (0, 0, 0));
        assert_eq!(find(&topics, ProfileId::FIRST, Kind::Channel), None);
        assert!(!topics.has_profile(ProfileId::FIRST));
    }

    #[test]
    fn only_asked_nodes_get_the_unsubscription() {
        let (mut topics, id) = asked(Kind::Pattern, None);
        topics.get_mut(id).expect("it is there").confirm(ShardId(0));
        topics.lose(at(0));
        let (_, deserted) = topics.leave(id, ONE).expect("it was there");
        assert_eq!(deserted.map(|topic| topic.asked), Some(vec![(ShardId(1), false)]));
    }

    #[test]
    fn topics_of_a_lost_node_are_asked_for_again() {
        let (mut topics, id) = asked(Kind::Channel, Some(ShardId(0)));
        let home = Some(ShardId(1));
        let elsewhere = topics.insert(ProfileId::FIRST, (Kind::Channel, b"sports"), home, ShardId(1));
        assert_eq!(topics.lose(at(0)), Loss { confirmed: vec![], waited_for: vec![id] });
        assert_eq!(topics.unasked(at(0)), [id]);
        topics.get_mut(id).expect("it is there").confirm(ShardId(0));
        topics.get_mut(id).expect("it is there").take_waits();
        assert_eq!(topics.lose(at(0)), Loss { confirmed: vec![id], waited_for: vec![] });
        let topic = topics.get_mut(id).expect("it is there");
        assert_eq!(topic.listeners().count(), 1, "who was confirmed stays");
        topic.ask(ShardId(0));
        assert_eq!(topics.unasked(at(0)), []);
        assert_eq!(topics.unasked(at(1)), [elsewhere]);
        let others = Origin { shard: ShardId(1), profile: ProfileId::NONE };
        assert_eq!((topics.unasked(others), topics.lose(others)), (vec![], Loss::default()), "not theirs");
    }

    #[test]
    fn confirmations_count_as_by_redis() {
        let mut subscribed = Subscribed::default();
        let names: [Arc<[u8]>; 4] = [b"a", b"b", b"c", b"d"].map(|name| Arc::from(&name[..]));
        let ids = [0, 1, 2, 3].map(|index| Id { index, generation: 0 });
        let kinds = [Kind::Channel, Kind::Channel, Kind::Pattern, Kind::ShardChannel];
        for ((id, kind), name) in ids.into_iter().zip(kinds).zip(&names) {
            subscribed.insert(kind, name, id);
        }
        let counts = |subscribed: &Subscribed| {
            [Kind::Channel, Kind::Pattern, Kind::ShardChannel].map(|kind| subscribed.count(kind))
        };
        assert_eq!(counts(&subscribed), [3, 3, 1]);
        subscribed.remove(Kind::Channel, b"a");
        assert_eq!(counts(&subscribed), [2, 2, 1]);
        assert_eq!([b"a", b"b"].map(|name| subscribed.find(Kind::Channel, name)), [None, Some(ids[1])]);
        kinds.into_iter().zip(&names).for_each(|(kind, name)| subscribed.remove(kind, name));
        assert!(subscribed.is_silent());
    }
}
