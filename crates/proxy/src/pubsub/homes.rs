//! Topics whose messages come from another shard from now on: their slot has moved, or shards have come or gone.
//!
//! ```text
//!   a newer topology ─────────────────────────────────────┐
//!   sunsubscribe, unasked: the slot has left that node ───┼─► asked for at the shard that has it
//!   MOVED in answer to SSUBSCRIBE ────────────────────────┘
//!     to a node that we do not know ──► parked until the next topology ──► asked for where that says
//!   CLUSTERDOWN and its like ─────────► parked, and asked for again
//! ```
//!
//! What a client of Redis Cluster must do by itself is done here: it stays subscribed. Messages that were published while
//! no node was subscribed to are lost, as they are for that client. Only shard channels belong to a slot; other messages
//! of a cluster come to all of its nodes, and each topic takes them from one ([`Subscriptions::heard`]).

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

/// A topic is asked for at so many shards one after the other at most, before who waits for it is told that it cannot be
/// had: as often as a request is redirected.
const MOVES_MAX: u8 = 5;
impl Subscriptions {
    /// Asks for what there is to ask for after the topology has changed.
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

    /// The messages of a topic come from `shard` from now on.
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

    /// Asks the shards of a topic that were not asked yet, if they have a primary.
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

    /// Nobody can be asked for a topic now. Who waits for it does so until then at the latest.
    fn set_topic_back(&mut self, cx: &mut Context, id: Id, until: Instant, reason: String) {
        let Some(topic) = self.topics.get_mut(id) else { return };
        let due_at = topic.set_back(until, reason, cx.engine.now);
        self.set_back.insert(id);
        cx.retry_queue.due_at = cx.retry_queue.due_at.min(due_at);
    }

    /// The topic of a message that comes from `origin`, if it counts: somebody is still subscribed, and the topic has not
    /// moved since, of which what is said here last could come behind what is said there first. In a cluster, every node
    /// passes on what was published to any, and each only what happens to its own keys.
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

    /// The node at `origin` says that it has ended our subscription to the shard channel `name`: its slot has moved.
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
        // It will say where the slot is.
        self.ask_where_possible(cx, id);
    }

    /// The node of the connection `ix` has declined what `ticket` asks for. True if it is asked for elsewhere, or later.
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

    /// Those who wait for a topic have waited too long.
    fn deny_late(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, reason: &str) {
        let Some(topic) = self.topics.get(id) else { return };
        let shard = topic.home().unwrap_or(topic.speaker);
        let error = errors::reply(&cx.engine.not_sent(shard, reason).text());
        self.deny(cx, peers, id, &error);
    }

    /// Tells those who wait for a topic of which all nodes have confirmed by now.
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

    /// Asks again for topics that have had a setback, if their time has come, and tells those who have waited too long. When
    /// to look again.
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
