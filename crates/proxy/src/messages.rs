//! Input of links for messages: messages for subscribers, and changes of keys for clients that track keys or wait for
//! elements.

use crate::features::{Owner, TaskKind};
use crate::link::LinkIx;
use crate::login::attempts::is_denial;
use crate::outcome::Fault;
use crate::proxy::Proxy;
use crate::pubsub::{message_of, origin_of};
use crate::tracking::invalidations::changes_of;
use resp::reply::is_error;
use std::sync::Arc;
use topology::ShardId;

impl Proxy {
    /// Reads the input of a link for messages.
    pub(crate) fn handle_subscription_bytes(&mut self, ix: LinkIx, bytes: &[u8]) {
        let link = &mut self.core.cx.engine.links[ix];
        match link.take_input(bytes) {
            None => {
                let Ok(consumed) = self.read_messages(ix, bytes) else { return };
                let core = &mut self.core;
                core.cx.engine.links[ix].keep_input(&bytes[consumed..], &mut core.cx.engine.pool);
            }
            Some(input) => {
                let Ok(consumed) = self.read_messages(ix, &input) else { return };
                let core = &mut self.core;
                core.cx.engine.links[ix].restore_input(input, consumed, &mut core.cx.engine.pool);
            }
        }
        self.check_reply_size(ix);
    }

    /// Delivers every complete message and reply. Returns their length in bytes. An error if the link was closed.
    fn read_messages(&mut self, ix: LinkIx, bytes: &[u8]) -> Result<usize, ()> {
        let mut at = 0;
        loop {
            let core = &mut self.core;
            let next = core.cx.engine.links[ix].next_reply(&bytes[at..], &core.cx.engine.limits);
            let handled = match next {
                Ok(None) => return Ok(at),
                Ok(Some(len)) => {
                    at += len;
                    self.handle_said(ix, &bytes[at - len..at])
                }
                Err(error) => Err(Fault::Garbled(error.to_string())),
            };
            if let Err(fault) = handled {
                self.core.cx.fail_link(ix, fault);
                return Err(());
            }
        }
    }

    /// Delivers a message, or the reply to the first request in flight.
    fn handle_said(&mut self, ix: LinkIx, reply: &[u8]) -> Result<(), Fault> {
        if let Some((kind, name)) = message_of(reply) {
            if let Some(id) =
                self.core.subscriptions.heard(&self.core.cx, origin_of(&self.core.cx, ix), kind, name, reply)
            {
                self.core.subscriptions.distribute(&mut self.core.cx, &mut self.peers, id, reply);
            }
            return Ok(());
        }
        if self.core.subscriptions.is_dropped(&mut self.core.cx, ix, reply) {
            return Ok(());
        }
        if let Some(keys) = changes_of(reply) {
            if !self.core.emulations.waits.is_empty() {
                keys.iter().flatten().for_each(|key| self.core.emulations.wake(key));
            }
            let core = &mut self.core;
            let shard = core.cx.engine.links[ix].shard;
            core.invalidations.handle_changes(&mut core.cx, &mut self.peers, shard, keys);
            return Ok(());
        }
        if self.core.subscriptions.is_second_answer(&mut self.core.cx, ix, reply) {
            return Ok(());
        }
        let link = &mut self.core.cx.engine.links[ix];
        let Some(&ticket) = link.front() else {
            return Err(Fault::Garbled("unexpected reply".to_owned()));
        };
        let shard = link.shard;
        link.pop();
        match ticket.owner {
            // If no subscriber is left, or the topic has moved since, an unsubscription is in flight behind this
            // request.
            Owner::Task(TaskKind::Subscribe | TaskKind::SubscribeShard)
                if !self.core.subscriptions.topics.awaits(&ticket, shard) => {}
            Owner::Task(TaskKind::Subscribe | TaskKind::SubscribeShard) if is_error(reply) => {
                if let Some(topic) = self.core.subscriptions.topics.get_mut(ticket.conn) {
                    topic.refuse(shard);
                }
                if !self.core.subscriptions.redirect_topic(
                    &mut self.core.cx,
                    &mut self.peers,
                    &ticket,
                    ix,
                    reply,
                ) {
                    self.core.subscriptions.deny(&mut self.core.cx, &mut self.peers, ticket.conn, reply);
                    if is_denial(&String::from_utf8_lossy(&reply[1..])) {
                        self.core.subscriptions.evict(&mut self.core.cx, &mut self.peers, ticket.conn);
                    }
                }
            }
            Owner::Task(TaskKind::Subscribe | TaskKind::SubscribeShard) => {
                return self.core.subscriptions.handle_subscribed(
                    &mut self.core.cx,
                    &mut self.peers,
                    ticket.conn,
                    shard,
                    reply,
                );
            }
            Owner::Task(TaskKind::Unsubscribe | TaskKind::UnsubscribeShard) => {
                self.core.subscriptions.note_ended(&mut self.core.cx, ix, &ticket, reply);
                self.core.subscriptions.handle_unsubscribed(&mut self.core.cx, &mut self.peers, ticket);
            }
            Owner::Task(TaskKind::Track) if is_error(reply) => {
                let text = String::from_utf8_lossy(reply);
                return Err(Fault::Gone(text.trim_matches(['-', '\r', '\n']).to_owned()));
            }
            Owner::Task(TaskKind::Track) => {
                let core = &mut self.core;
                if core.invalidations.handle_tracked(&mut core.cx, &mut self.peers, shard, ticket.conn) {
                    core.emulations.wake_all();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends all subscriptions of the new link for messages of `shard`.
    pub(crate) fn handle_source(&mut self, shard: ShardId, ix: LinkIx) {
        let core = &mut self.core;
        match core.invalidations.is_source(shard, ix) {
            true => core.invalidations.handle_changes_source(&mut core.cx, shard, ix),
            false => self.core.subscriptions.ask_for_topics(&mut self.core.cx, shard, ix),
        }
    }

    /// Handles the loss of the link for messages of `shard`.
    pub(crate) fn handle_source_lost(&mut self, shard: ShardId, ix: LinkIx, reason: &str) {
        match self.core.invalidations.is_source(shard, ix) {
            true => self.handle_source_of_changes_lost(shard, reason),
            false => self.core.subscriptions.handle_link_lost(
                &mut self.core.cx,
                &mut self.peers,
                shard,
                ix,
                reason,
            ),
        }
    }

    /// Moves topics and changes of keys to their shards in the newest topology. Waits for shards that have gone end.
    pub(crate) fn follow_topology(&mut self) {
        self.core.subscriptions.follow_topics(&mut self.core.cx);
        let topology = Arc::clone(&self.core.cx.engine.topology);
        let gone = topology.shards().iter().zip((0..).map(ShardId)).filter(|(shard, _)| shard.is_gone());
        for ix in gone.flat_map(|(_, id)| self.core.subscriptions.links(id)).collect::<Vec<_>>() {
            self.core.cx.fail_link(ix, Fault::Gone("its shard was removed".to_owned()));
        }
        for id in self.core.subscriptions.topics.ids() {
            self.core.subscriptions.conclude_subscription(&mut self.core.cx, &mut self.peers, id);
        }
        let has_waits = !self.core.emulations.waits.is_empty();
        self.core.invalidations.follow_changes(&mut self.core.cx, &mut self.peers, has_waits);
        let shards = self.core.emulations.follow_keys(&mut self.core.cx);
        self.core.invalidations.hear_of_changes(&mut self.core.cx, shards);
    }

    /// Handles the loss of the link for changes of `shard`, for clients that track keys and for clients that wait for
    /// keys.
    fn handle_source_of_changes_lost(&mut self, shard: ShardId, reason: &str) {
        if !self.core.invalidations.handle_changes_lost(&mut self.core.cx, &mut self.peers, shard, reason) {
            self.core.emulations.end_waits_for(&mut self.core.cx, &mut self.peers, shard, reason);
        }
        let has_waits = !self.core.emulations.waits.is_empty();
        self.core.invalidations.leave_if_unwanted(&mut self.core.cx, shard, has_waits);
    }
}
