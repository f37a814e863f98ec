//! Topics that have moved to another shard: their slot has moved, or shards have come or gone.
//!
//! ```text
//!   a newer topology ─────────────────────────────────────┐
//!   sunsubscribe, unasked: the slot has left that node ───┼─► subscribed at the shard that has it
//!   MOVED in answer to SSUBSCRIBE ────────────────────────┘
//!     to an unknown node ─────────────► parked until the next topology ──► subscribed at the shard that it names
//!   CLUSTERDOWN and similar errors ───► parked, and tried again
//! ```
//!
//! A client of Redis Cluster must do this itself. Behind shardis it stays subscribed. Messages that were published
//! while no node had the subscription are lost, as they are for a client of Redis Cluster. Only shard channels belong
//! to a slot. Other messages of a cluster reach all its nodes, and each topic takes them from one
//! ([`Subscriptions::heard`]).

use crate::context::Context;
use crate::errors;
use crate::features::Ticket;
use crate::link::LinkIx;
use crate::peers::{Peer, Peers};
use crate::pubsub;
use crate::pubsub::subscriptions::{Moved, Origin, Setback};
use crate::pubsub::{Leaving, Subscriptions, is_notification};
use crate::redirect::declined::Declined;
use command::Topic as Kind;
use resp::reply::{as_bulk, elements};
use std::sync::Arc;
use stdx::{Id, Instant};
use topology::ShardId;

/// Number of shards at which a topic is tried in a row before the clients that wait get an error. Requests are
/// redirected as often.
const MOVES_MAX: u8 = 5;
impl Subscriptions {
    /// Subscribes at the right shards after the topology has changed.
    pub(crate) fn follow_topics(&mut self, cx: &mut Context) {
        for id in self.topics.ids() {
            let Some(topic) = self.topics.get_mut(id) else { continue };
            if cx.engine.topology.shard(topic.speaker).is_gone() {
                topic.speaker = cx.engine.topology.shard_of(&topic.name);
            }
            let home = topic
                .home()
                .filter(|home| topic.kind == Kind::ShardChannel || cx.engine.topology.shard(*home).is_gone());
            if home.is_some() {
                let shard = cx.engine.topology.shard_of(&topic.name);
                self.move_topic(cx, id, shard);
            }
            self.ask_where_possible(cx, id);
        }
    }

    /// Moves a topic to `shard`.
    fn move_topic(&mut self, cx: &mut Context, id: Id, shard: ShardId) {
        let Some(moved) = self.topics.move_home(id, shard) else { return };
        let Moved { kind, name, from, asked, confirmed } = moved;
        if confirmed {
            cx.board.audience.remove_node(pubsub::ear(cx, from.profile), kind, &name, from.shard);
        }
        if asked && self.has_source(from) {
            let leaving = self.begin_to_leave(Leaving::of(from.profile, kind, &name, 1));
            self.say_unsubscribed(cx, from, kind, &name, leaving);
        }
    }

    /// Subscribes to a topic at its shards that were not asked yet and have a primary.
    fn ask_where_possible(&mut self, cx: &mut Context, id: Id) {
        let Some(topic) = self.topics.get(id) else { return };
        let unasked: Vec<ShardId> = topic.unasked().collect();
        for shard in unasked {
            match cx.engine.topology.shard(shard).primary {
                Some(_) => self.ask_for(cx, id, shard),
                None => {
                    let until = cx.engine.now + cx.engine.limits.request_timeout;
                    self.set_topic_back(cx, id, until, errors::NO_PRIMARY.to_owned());
                }
            }
        }
    }

    /// Notes that no node can be asked for a topic now. Clients wait for it until `until` at most.
    fn set_topic_back(&mut self, cx: &mut Context, id: Id, until: Instant, reason: String) {
        let Some(topic) = self.topics.get_mut(id) else { return };
        let due_at = topic.set_back(until, reason, cx.engine.now);
        self.set_back.insert(id);
        cx.retry_queue.due_at = cx.retry_queue.due_at.min(due_at);
    }

    /// The topic of a message from `origin`, if the message counts. The topic must still have subscribers and must not
    /// have moved: messages of the old shard could come behind those of the new. In a cluster, every node passes on all
    /// published messages, but only the events of its own keys.
    pub(crate) fn heard(
        &self,
        cx: &Context,
        origin: Origin,
        kind: Kind,
        name: &[u8],
        message: &[u8],
    ) -> Option<Id> {
        let Origin { shard, profile } = origin;
        let id = self.topics.find(profile, kind, name)?;
        let topic = self.topics.get(id).filter(|topic| topic.lives_on(shard))?;
        let is_told_by_all = || {
            let channel = elements(message).and_then(|mut fields| fields.nth(2)).and_then(as_bulk);
            !channel.is_none_or(is_notification)
        };
        let is_echo = kind == Kind::Pattern
            && cx.engine.topology.is_cluster()
            && shard != topic.speaker
            && is_told_by_all();
        (!is_echo).then_some(id)
    }

    /// Notes that the node at `origin` has ended our subscription to the shard channel `name`: its slot has moved.
    pub(crate) fn handle_dropped(
        &mut self,
        cx: &mut Context,
        Origin { shard, profile }: Origin,
        name: &[u8],
    ) {
        cx.wish(None);
        let topics = &mut self.topics;
        let Some(id) = topics.find(profile, Kind::ShardChannel, name) else { return };
        let Some(topic) = topics.get_mut(id).filter(|topic| topic.home() == Some(shard)) else { return };
        if !topic.drop_at(shard) {
            return;
        }
        let name = Arc::clone(&topic.name);
        cx.board.audience.remove_node(pubsub::ear(cx, profile), Kind::ShardChannel, &name, shard);
        // The node will answer with the place of the slot.
        self.ask_where_possible(cx, id);
    }

    /// Handles a redirect or refusal of the subscription of `ticket` on link `ix`. Returns true if it is sent
    /// elsewhere, or later.
    pub(crate) fn redirect_topic(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        ticket: &Ticket,
        ix: LinkIx,
        reply: &[u8],
    ) -> bool {
        let (id, until) = (ticket.conn, ticket.deadline);
        let Some(declined) = cx.declined_by(ix, reply) else { return false };
        cx.note_declined(&declined);
        let target = match &declined {
            Declined::Moved { address, .. } => cx.engine.topology.node_at(address),
            Declined::Ask { .. } | Declined::Later | Declined::NoPrimary => None,
        };
        let reason = declined.reason(reply);
        self.set_topic_back(cx, id, until, reason.clone());
        let Some(topic) = self.topics.get_mut(id) else { return true };
        match target {
            Some(target) if topic.count_move() <= MOVES_MAX => {
                self.move_topic(cx, id, cx.shard_of_node(target));
                self.ask_where_possible(cx, id);
            }
            Some(_) => self.deny_late(cx, peers, id, &reason),
            None => {}
        }
        true
    }

    /// Refuses the clients that wait for a topic, because they have waited too long.
    fn deny_late(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, reason: &str) {
        let Some(topic) = self.topics.get(id) else { return };
        let shard = topic.home().unwrap_or(topic.speaker);
        let error = errors::reply(&cx.engine.not_sent(shard, reason).text());
        self.deny(cx, peers, id, &error);
    }

    /// Confirms the subscriptions that wait for a topic, if all nodes have confirmed it.
    pub(crate) fn conclude_subscription(&mut self, cx: &mut Context, peers: &mut Peers, id: Id) {
        let Some(topic) = self.topics.get_mut(id) else { return };
        if !topic.is_confirmed() {
            return;
        }
        let (kind, name, waits) = (topic.kind, Arc::clone(&topic.name), topic.take_waits());
        let ear = (cx.settings.worker, topic.profile);
        for (conn, waits) in waits {
            let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
            cx.board.audience.add_client(ear, kind, &name);
            pubsub::confirm_waits(cx, session, kind, &name, waits);
        }
    }

    /// Subscribes again to topics with a setback whose time has come, and refuses clients that have waited too long.
    /// Returns the next instant at which to do so.
    pub(crate) fn retry_topics(&mut self, cx: &mut Context, peers: &mut Peers) -> Instant {
        let now = cx.engine.now;
        let mut due_at = Instant::NEVER;
        for id in std::mem::take(&mut self.set_back) {
            let Some(Setback { until, retry_at, reason }) = self.topics.setback_of(id) else {
                continue;
            };
            if until <= now {
                self.deny_late(cx, peers, id, &reason);
            }
            if retry_at <= now {
                self.ask_where_possible(cx, id);
            }
            let Some(Setback { until, retry_at, .. }) = self.topics.setback_of(id) else {
                continue;
            };
            self.set_back.insert(id);
            due_at = due_at.min(until).min(retry_at);
        }
        due_at
    }
}
