//! The way up: from a node's bytes to the replies that clients wait for.

pub(crate) mod held;
pub(crate) mod link_end;
pub(crate) mod merge;
pub(crate) mod relay;
pub(crate) mod reports;
mod tasks;

use crate::ConnId;
use crate::context::{Alike, Context};
use crate::errors::{self, Lost};
use crate::event::{CloseReason, Notice};
use crate::features::{Owed, Owner, Session, TaskId, TaskKind, Ticket};
use crate::held::{acknowledged, fan};
use crate::hot;
use crate::limits::SCRATCH_BYTES_KEPT;
use crate::link::inspection::is_inspected;
use crate::link::node_memory::absorb_memory;
use crate::link::retire::is_abandoned;
use crate::link::{LinkIx, Reported, Unfinished, Use, retire};
use crate::login::passing;
use crate::outcome::{Effect, Fault, Outcome, TaskEnd, unasked_push, unexpected_reply};
use crate::peers::Peer;
use crate::proxy::Proxy;
use crate::reading::replicas;
use crate::replies::relay::Garbled;
use crate::replies::tasks::Made;
use crate::scripts;
use crate::session::Reason;
use crate::session::pinning::Pinning;
use crate::slow;
use crate::walk;
use command::Number;
use resp::reply::plain_len;
use topology::{NodeId, ShardId};

/// The receiver of a reply: the part of a [`Ticket`] that delivery needs. The ticket was written in pieces, so
/// copying it whole stalled store forwarding in the processor: 3 % of a GET.
#[derive(Clone, Copy)]
struct Recipient {
    conn: ConnId,
    place: u32,
    part: u32,
    command: Number,
    queued_us: u32,
}

impl Recipient {
    #[inline(always)]
    fn of(ticket: &Ticket) -> Recipient {
        let &Ticket { conn, place, part, command, queued_us, .. } = ticket;
        Recipient { conn, place, part, command, queued_us }
    }

    #[inline(always)]
    fn alike(&self, node: NodeId) -> Alike {
        Alike { node, command: self.command, queued_us: self.queued_us, count: 1 }
    }
}

/// The next step for a client that has got a reply.
#[derive(Clone, Copy)]
enum Next {
    Nothing,
    /// The client has more pending output than it may have.
    CloseOverfull,
    /// The client has muted the reply, so no later write would notice that the client has finished.
    CloseIfFinished,
}

/// Looks at a reply that is late or a sample, or an error of a node. Returns whether the request of the error is sent again.
/// The reply is the first `len` of `bytes`.
#[cold]
#[inline(never)]
fn is_sent_again(proxy: &mut Proxy, ix: LinkIx, bytes: &[u8], len: usize) -> bool {
    let cx = &mut proxy.core.cx;
    let reply = &bytes[..len];
    let queued_us = cx.engine.links[ix].front().map(|ticket| ticket.queued_us);
    if queued_us.is_some_and(|queued_us| cx.slow.looks_at(queued_us, cx.engine.now_us)) {
        slow::look_at_replies(cx, &proxy.peers, ix, bytes);
    }
    resp::reply::is_error(reply)
        && (scripts::send_again(&mut proxy.core.cx, &mut proxy.peers, ix, reply)
            || proxy.core.cx.engine.keeps.is_kept() && proxy.redirect(ix, reply))
}

impl Proxy {
    /// Reads the replies in `bytes`, which came from `ix`.
    pub(crate) fn handle_replies(&mut self, ix: LinkIx, bytes: &[u8]) {
        walk::enter("handle_replies");
        let core = &mut self.core;
        core.cx.stats.counters.node_bytes_in += bytes.len() as u64;
        let link = &mut core.cx.engine.links[ix];
        link.traffic.bytes_in += bytes.len() as u64;
        link.handle_progress(core.cx.engine.now);
        match link.used_by {
            Use::Pinned if link.is_ready() => self.handle_pinned_bytes(ix, bytes),
            Use::Subscription if link.is_ready() => self.handle_subscription_bytes(ix, bytes),
            _ if link.incoming.unfinished == Unfinished::Skipped => self.pass_over(ix, bytes),
            _ => self.handle_shared_bytes(ix, bytes),
        }
        retire::reuse_retired(&mut self.core.cx, &mut self.peers, ix);
        self.core.cx.engine.recount_link(ix);
    }

    /// Reads replies for all clients of a link.
    fn handle_shared_bytes(&mut self, ix: LinkIx, bytes: &[u8]) {
        let link = &mut self.core.cx.engine.links[ix];
        match link.take_input(bytes) {
            None => {
                let Ok(consumed) = self.read_replies(ix, bytes) else { return };
                let core = &mut self.core;
                core.cx.engine.links[ix].keep_input(&bytes[consumed..], &mut core.cx.engine.pool);
            }
            Some(input) => {
                let Ok(consumed) = self.read_replies(ix, &input) else { return };
                let core = &mut self.core;
                core.cx.engine.links[ix].restore_input(input, consumed, &mut core.cx.engine.pool);
            }
        }
        let core = &mut self.core;
        if core.cx.engine.links[ix].is_serial() {
            core.cx.engine.list_link(ix);
        }
        let link = &mut core.cx.engine.links[ix];
        link.forget_answered(&mut core.cx.engine.pool);
        // A reply to the greeting has no ticket: the front ticket waits for the reply behind it.
        let is_large = link.bytes_announced() > core.cx.engine.limits.large_bytes && link.is_ready();
        if is_large && !link.holds_reply() {
            self.avoid_large_reply(ix);
        } else if is_large {
            retire::unclog(&mut self.core.cx, &mut self.peers, ix);
        }
        self.check_reply_size(ix);
    }

    /// Handles the beginning of a large reply on a shared link. If no client waits for the reply, or if it can be
    /// fetched again on a pinned link, its bytes are dropped. Otherwise the reply is held until it is complete. A
    /// pinned link does the same for replies that are not relayed.
    fn avoid_large_reply(&mut self, ix: LinkIx) {
        walk::enter("avoid_large_reply");
        let core = &mut self.core;
        let link = &mut core.cx.engine.links[ix];
        if link.is_pushed_to() {
            return self.fail_link(ix, unasked_push());
        }
        let Some(ticket) = link.front().copied() else { return };
        // The decision for this reply is final.
        link.incoming.unfinished = Unfinished::Held(ticket.start);
        let announced = link.bytes_announced();
        hot::note_large_reply(&mut core.cx, ix, announced);
        let link = &mut core.cx.engine.links[ix];
        let is_its_own = link.used_by == Use::Pinned;
        match (ticket.owner, self.peers.get(ticket.conn)) {
            (Owner::Client, Some(Peer::Client(_))) if is_its_own => {}
            (Owner::Client, Some(Peer::Client(session))) if session.replies.owed(ticket.place).is_some() => {
                if let Some(refetches) = core.cx.refetches(session, ix) {
                    return retire::refetch(&mut self.core.cx, &mut self.peers, ix, refetches);
                }
            }
            // This includes a part of a reply that has failed already.
            (Owner::Client | Owner::Late | Owner::Nobody, _) => {
                link.tickets_mut().take(1).for_each(Ticket::discard);
                link.pass_over(&mut core.cx.engine.pool);
            }
            (Owner::Task(TaskKind::Emulation), _)
                if !core.emulations.may_gather(
                    &core.cx,
                    ticket.conn,
                    core.cx.engine.links[ix].bytes_announced(),
                ) =>
            {
                // The value is refused as too large, so the reply has no owner any more.
                let link = &mut core.cx.engine.links[ix];
                link.tickets_mut().take(1).for_each(Ticket::discard);
                link.pass_over(&mut core.cx.engine.pool);
                core.emulations.refuse_answer(&mut core.cx, &mut self.peers, ticket.conn, ticket.part);
            }
            (_, _) => {}
        }
        retire::unclog(&mut self.core.cx, &mut self.peers, ix);
    }

    /// Fails requests that could not be sent.
    pub(crate) fn deliver_losses(&mut self, lost: Vec<(Ticket, Lost)>) {
        for (ticket, lost) in lost {
            self.deliver(ticket, Outcome::Lost(lost));
        }
    }

    /// Drops bytes of a large reply that no client waits for here.
    fn pass_over(&mut self, ix: LinkIx, bytes: &[u8]) {
        let core = &mut self.core;
        let link = &mut core.cx.engine.links[ix];
        let input = link.take_input(bytes);
        match link.pass(input.as_deref().unwrap_or(bytes), &core.cx.engine.limits) {
            Ok(passed) => {
                match input {
                    None => link.keep_input(&bytes[passed.len..], &mut core.cx.engine.pool),
                    Some(input) => link.restore_input(input, passed.len, &mut core.cx.engine.pool),
                }
                link.incoming.passed_over_bytes += passed.len;
                if !passed.complete {
                    return retire::unclog(&mut self.core.cx, &mut self.peers, ix);
                }
                link.incoming.unfinished = Unfinished::Waits;
                let (ticket, used_by) = (link.front().copied(), link.used_by);
                link.pop();
                if let Some(ticket) = ticket.filter(|_| used_by.has_barriers()) {
                    retire::lift_barrier(&mut self.core.cx, &mut self.peers, ticket);
                }
                self.handle_shared_bytes(ix, &[]);
            }
            Err(error) => self.fail_link(ix, Fault::Garbled(error.to_string())),
        }
    }

    /// Reads held bytes of a pinned link, if their reply is not relayed. The bytes were held back, or came with the
    /// reply before.
    pub(crate) fn read_held_back(&mut self, ix: LinkIx) {
        let link = &self.core.cx.engine.links[ix];
        let Some(ticket) = link.front() else { return };
        let is_relayed = match self.peers.get(ticket.conn) {
            Some(Peer::Client(session)) => self.core.cx.is_relayed(session, ticket),
            _ => true,
        };
        match () {
            () if ticket.owner == Owner::Nobody => self.handle_pinned_bytes(ix, &[]),
            () if link.begins_with_error() || !is_relayed => self.handle_shared_bytes(ix, &[]),
            () => return,
        }
        self.core.cx.engine.recount_link(ix);
        // The pin of the client may have ended, and then nothing else would resume reading.
        self.core.cx.pace_pinned(ix);
    }

    /// Takes bytes for one client, which are relayed as the client reads.
    fn handle_pinned_bytes(&mut self, ix: LinkIx, bytes: &[u8]) {
        walk::enter("handle_pinned_bytes");
        let core = &mut self.core;
        let link = &mut core.cx.engine.links[ix];
        let Some(&ticket) = link.front() else {
            return self.fail_link(ix, unexpected_reply());
        };
        if ticket.owner == Owner::Nobody {
            return match is_abandoned(link) {
                // The ticket is that of another client, from the time when the link was shared.
                true => core.cx.pins.doomed.push(ix),
                false => self.skip_answer(ix, bytes),
            };
        }
        let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn) else { return };
        if core.cx.is_relayed(session, &ticket) {
            let link = &mut core.cx.engine.links[ix];
            link.extend_input(bytes, &mut core.cx.engine.pool);
            match core.waits_for_others(session, ix) {
                Ok(true) => {}
                Ok(false) => core.cx.pins.to_relay.push(ticket.conn),
                Err(Garbled { link, fault }) => self.fail_link(link, fault),
            }
        } else {
            self.handle_shared_bytes(ix, bytes);
        }
    }

    /// Skips the reply to a request ahead of a client's (ASKING, or the loading of a script). The reply has no owner.
    fn skip_answer(&mut self, ix: LinkIx, bytes: &[u8]) {
        walk::enter("skip_answer");
        let core = &mut self.core;
        let link = &mut core.cx.engine.links[ix];
        link.extend_input(bytes, &mut core.cx.engine.pool);
        let input = link.lend_input();
        match link.next_reply(&input, &core.cx.engine.limits) {
            Ok(None) => {
                // Relaying takes no part of this reply, so reading must not wait for the client.
                link.incoming.starved = true;
                link.restore_input(input, 0, &mut core.cx.engine.pool);
            }
            Ok(Some(len)) => {
                link.restore_input(input, len, &mut core.cx.engine.pool);
                link.pop();
                if link.input_len() > 0 {
                    self.handle_pinned_bytes(ix, &[]);
                }
            }
            Err(error) => self.fail_link(ix, Fault::Garbled(error.to_string())),
        }
    }

    /// Hands out every complete reply. Returns the number of bytes used, or an error if the link was given up.
    fn read_replies(&mut self, ix: LinkIx, bytes: &[u8]) -> Result<usize, ()> {
        walk::enter("read_replies");
        let mut at = 0;
        loop {
            let core = &mut self.core;
            match core.cx.engine.links[ix].next_reply(&bytes[at..], &core.cx.engine.limits) {
                Ok(None) => return Ok(at),
                Ok(Some(len)) => {
                    match self.handle_reply(ix, &bytes[at..], len) {
                        // Nearly every read ends with a reply. To look for another one would cost as much as that one did.
                        Ok(more) if len + more == bytes.len() - at => return Ok(bytes.len()),
                        Ok(more) => at += len + more,
                        Err(fault) => {
                            self.fail_link(ix, fault);
                            return Err(());
                        }
                    }
                }
                Err(error) => {
                    self.fail_link(ix, Fault::Garbled(error.to_string()));
                    return Err(());
                }
            }
        }
    }

    /// Gives up a link whose incomplete reply exceeds the limit.
    pub(crate) fn check_reply_size(&mut self, ix: LinkIx) {
        let core = &self.core;
        if core.cx.engine.links[ix].input_len() > core.cx.engine.limits.reply_bytes_max {
            self.fail_link(ix, Fault::Garbled("reply larger than the limit".to_owned()));
        }
    }

    /// Hands out a reply to the owner of the first ticket, unless the reply declines the request. The reply is the first
    /// `len` of `bytes`. Returns the number of bytes behind it that were handed out as well.
    #[inline(always)]
    fn handle_reply(&mut self, ix: LinkIx, bytes: &[u8], len: usize) -> Result<usize, Fault> {
        let (reply, rest) = bytes.split_at(len);
        let cx = &mut self.core.cx;
        let link = &mut cx.engine.links[ix];
        if !link.is_ready() {
            return self.handle_probe_reply(ix, reply).map(|()| 0);
        }
        if resp::reply::is_push(reply) {
            return Err(unasked_push());
        }
        let Some(ticket) = link.front() else { return Err(unexpected_reply()) };
        let may_decline = resp::reply::is_error(reply) && cx.engine.keeps.max(ticket.kept).is_kept();
        let is_special = may_decline || cx.slow.looks_at(ticket.queued_us, cx.engine.now_us);
        if is_special && is_sent_again(self, ix, bytes, len) {
            return Ok(0);
        }
        let link = &mut self.core.cx.engine.links[ix];
        let Some(ticket) = link.front() else { return Err(unexpected_reply()) };
        let is_usual = matches!(link.used_by, Use::Shared | Use::Pinned | Use::Subscription);
        if is_usual && ticket.owner == Owner::Client {
            let recipient = Recipient::of(ticket);
            link.pop();
            return Ok(self.deliver_run(ix, recipient, reply, rest));
        }
        self.handle_unusual_reply(ix, reply);
        Ok(0)
    }

    /// Handles a rare kind of reply. It is not inlined, because it would make the usual ones slower.
    #[inline(never)]
    fn handle_unusual_reply(&mut self, ix: LinkIx, reply: &[u8]) {
        let link = &mut self.core.cx.engine.links[ix];
        let Some(&ticket) = link.front() else { return };
        link.pop();
        let (used_by, node) = (self.core.cx.engine.links[ix].used_by, self.core.cx.engine.links[ix].node);
        self.core.cx.stats.nodes.count_reply(node, ticket.queued_us, self.core.cx.engine.now_us, reply);
        match used_by {
            Use::Shared | Use::Pinned | Use::Subscription | Use::Standby => {}
            Use::Retired | Use::Draining => retire::lift_barrier(&mut self.core.cx, &mut self.peers, ticket),
            Use::Held => crate::held::note_held_reply(&mut self.core.cx, &mut self.peers, ix, &ticket, reply),
            Use::Replica if self.core.readers.handle_turned_away(&mut self.core.cx, ix, &ticket, reply) => {
                return;
            }
            Use::Replica => {}
        }
        if ticket.owner == Owner::Queued && resp::reply::is_error(reply) {
            self.core.execs.note_refused_command(ticket.conn, reply);
        }
        match ticket.owner {
            Owner::Client => self.deliver_reply(Recipient::of(&ticket), reply),
            Owner::Queued if ticket.part > 0 => {
                self.core.cx.engine.links[ix].put_back(Ticket { part: ticket.part - 1, ..ticket });
            }
            Owner::Task(TaskKind::Name) => self.note_name(ix, reply),
            Owner::Task(TaskKind::Waitaof) => acknowledged::note_waitaof(&mut self.core.cx, ix, reply),
            Owner::Task(TaskKind::Mark) => {
                self.core.fans.note_mark(&mut self.core.cx, ix, ticket.conn, reply)
            }
            _ => self.deliver(ticket, Outcome::Reply(reply)),
        }
    }

    /// Handles a reply to the greeting of a new link.
    #[cold]
    fn handle_probe_reply(&mut self, ix: LinkIx, reply: &[u8]) -> Result<(), Fault> {
        let core = &mut self.core;
        core.cx.note_inspected(ix, reply);
        let link = &mut core.cx.engine.links[ix];
        let (shard, profile, was_inspected) = (link.shard, link.profile, is_inspected(link));
        match link.handle_probe_reply(reply, core.cx.engine.now) {
            Ok(false) => {
                // The greeting may go on with another request.
                core.cx.engine.list_link(ix);
                return Ok(());
            }
            Ok(true) => core.cx.profiles.note_taken(profile, shard),
            Err(reason) => {
                core.cx.note_refused(profile, shard, &reason);
                return Err(if was_inspected { Fault::Refused(reason) } else { Fault::Gone(reason) });
            }
        }
        passing::note_default_user(&mut self.core.cx, &mut self.peers, ix, reply);
        let core = &mut self.core;
        let link = &mut core.cx.engine.links[ix];
        let (shard, used_by) = (link.shard, link.used_by);
        let reported = std::mem::take(&mut link.attempts.reported);
        core.cx.stats.counters.nodes_up += u64::from(link.stands_for_node());
        if reported != Reported::Nothing {
            let shard = core.cx.engine.shard_name(shard).to_owned();
            core.cx.notice(Notice::NodeUp { shard });
        }
        // Each request that waited keeps its own deadline.
        core.cx.engine.check_at =
            core.cx.engine.check_at.min(core.cx.engine.links[ix].deadline(&core.cx.engine.limits));
        core.cx.engine.list_link(ix);
        match used_by {
            Use::Subscription => self.handle_source(shard, ix),
            Use::Replica => core.readers.hurry(shard, core.cx.engine.now),
            _ if core.cx.engine.links[ix].stands_for_node() => {
                replicas::note_node_answer(&mut core.cx, shard)
            }
            _ => {}
        }
        Ok(())
    }

    /// Delivers a reply, and the plain replies in `rest` for the same client, so that the client is checked only
    /// once. Returns the number of bytes of `rest` that were used.
    #[inline(always)]
    fn deliver_run(&mut self, ix: LinkIx, first: Recipient, reply: &[u8], rest: &[u8]) -> usize {
        walk::enter("deliver_run");
        let (mut recipient, mut reply, mut used) = (first, reply, 0);
        let Some(Peer::Client(session)) = self.peers.get_mut(first.conn) else { return 0 };
        if session.pinning != Pinning::No {
            self.deliver_reply(first, reply);
            return 0;
        }
        let core = &mut self.core;
        if !session.replies.settle_as_it_is(first.place, reply, &mut core.cx.engine.pool) {
            self.deliver_in_part(first, Outcome::Reply(reply));
            return 0;
        }
        let (node, now_us) = (core.cx.engine.links[ix].node, core.cx.engine.now_us);
        let mut alike = recipient.alike(node);
        loop {
            if resp::reply::is_error(reply) {
                core.cx.stats.count_error(node, recipient.command, reply);
            }
            let link = &mut core.cx.engine.links[ix];
            let Some(ticket) = link.front() else { break };
            if ticket.conn != first.conn || ticket.owner != Owner::Client {
                break;
            }
            let Some(len) = plain_len(&rest[used..], &core.cx.engine.limits.reply) else { break };
            let next = &rest[used..used + len];
            if !session.replies.settle_as_it_is(ticket.place, next, &mut core.cx.engine.pool) {
                break;
            }
            (recipient, reply) = (Recipient::of(ticket), next);
            link.pop();
            used += len;
            if (recipient.command, recipient.queued_us) == (alike.command, alike.queued_us) {
                alike.count += 1;
            } else {
                core.cx.stats.count_replies_apart(&alike, now_us);
                alike = recipient.alike(node);
            }
        }
        core.cx.stats.count_replies(&alike, now_us);
        let next = core.cx.after_settling(session, reply.len());
        self.go_on(first.conn, next);
        used
    }

    /// Fills the client's place with a reply, or adds the reply to the task that waits there.
    fn deliver_reply(&mut self, recipient: Recipient, reply: &[u8]) {
        // The client may have gone, and its id names no other client.
        let Some(Peer::Client(session)) = self.peers.get_mut(recipient.conn) else { return };
        if session.pinning != Pinning::No {
            self.core.cx.pins.to_relay.push(recipient.conn);
        }
        if session.replies.owed(recipient.place) == Some(Owed::Node) {
            let next = self.core.cx.settle_recipient(session, recipient, reply);
            self.go_on(recipient.conn, next);
        } else {
            self.deliver_in_part(recipient, Outcome::Reply(reply));
        }
    }

    /// Fills the client's place with its reply.
    fn settle(&mut self, recipient: Recipient, reply: &[u8]) {
        let Some(Peer::Client(session)) = self.peers.get_mut(recipient.conn) else { return };
        let next = self.core.cx.settle_recipient(session, recipient, reply);
        self.go_on(recipient.conn, next);
    }

    /// Carries out the effects that features have left.
    #[cold]
    pub(crate) fn carry_out_effects(&mut self) {
        while let Some(effect) = self.core.cx.effects.pop_front() {
            match effect {
                Effect::Close(conn) => self.close_client(conn),
                Effect::Fail(ix, fault) => self.fail_link(ix, fault),
                Effect::Lose(ticket, lost) => self.deliver(ticket, Outcome::Lost(lost)),
                Effect::End(end) => self.end_task(end),
                Effect::HearOfChanges(id, shards) => {
                    if self.core.invalidations.hear_of_changes(&mut self.core.cx, shards) {
                        self.core.emulations.waits.woken.push_back(id);
                    }
                }
                Effect::RelieveOfSubscribers => self.relieve_of_subscribers(),
            }
        }
    }

    /// Ends a task of a client, which has its reply.
    fn end_task(&mut self, end: TaskEnd) {
        let TaskEnd { conn, place, command, asked_us, reply } = end;
        let core = &mut self.core;
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            core.cx.stats.tally.count_reply(command, asked_us, core.cx.engine.now_us, &reply);
            core.cx.stats.counters.errors += u64::from(resp::reply::is_error(&reply));
            session.hold.remove(Reason::Order);
            core.cx.engine.todo.clients_to_resume.push(conn);
            if core.cx.settle(session, place, &reply) {
                core.cx.note_closed(session, CloseReason::OutputLimit);
                self.close_client(conn);
            } else {
                self.close_if_finished(conn);
            }
        }
        self.core.cx.engine.pool.give(reply);
    }

    /// Takes the next step for a client that has got a reply.
    #[inline(always)]
    fn go_on(&mut self, conn: ConnId, next: Next) {
        match next {
            Next::Nothing => {}
            Next::CloseOverfull => self.close_overfull(conn),
            Next::CloseIfFinished => self.close_if_finished(conn),
        }
    }

    /// Closes a client with too much pending output.
    #[cold]
    fn close_overfull(&mut self, conn: ConnId) {
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            self.core.cx.note_closed(session, CloseReason::OutputLimit);
        }
        self.close_client(conn);
    }

    /// Delivers an outcome to the owner of `ticket`.
    pub(crate) fn deliver(&mut self, ticket: Ticket, outcome: Outcome<'_>) {
        match ticket.owner {
            Owner::Client => match outcome {
                Outcome::Reply(reply) => self.deliver_reply(Recipient::of(&ticket), reply),
                Outcome::Lost(lost) => self.deliver_loss(Recipient::of(&ticket), lost),
            },
            Owner::Task(TaskKind::Learn) => {
                let core = &mut self.core;
                let waiting = match outcome {
                    Outcome::Reply(reply) => core.cx.parsing.learner.absorb(
                        ticket.conn,
                        reply,
                        core.cx.engine.now,
                        &core.cx.limits,
                    ),
                    Outcome::Lost(lost) => {
                        let text = errors::of_question(lost).text();
                        core.cx.parsing.learner.absorb_loss(ticket.conn, text, core.cx.engine.now)
                    }
                };
                for conn in waiting {
                    if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                        session.hold.remove(Reason::Question);
                        self.core.cx.engine.todo.clients_to_resume.push(conn);
                    }
                }
            }
            Owner::Task(TaskKind::DefaultUser) => {
                passing::end_question_for_default_user(&mut self.core.cx, &mut self.peers, ticket.conn)
            }
            Owner::Task(TaskKind::Poll) => self.core.readers.absorb_poll(&mut self.core.cx, ticket, &outcome),
            Owner::Task(TaskKind::Role) => self.core.cx.absorb_role(&ticket, &outcome),
            Owner::Task(TaskKind::Memory) => absorb_memory(&mut self.core.cx, &ticket, &outcome),
            Owner::Task(TaskKind::Inquiry) => self.absorb_report(ticket.conn, ShardId(ticket.part), &outcome),
            Owner::Task(TaskKind::Emulation) => self.core.emulations.absorb_answer(
                &mut self.core.cx,
                &mut self.peers,
                ticket.conn,
                ticket.part,
                outcome,
            ),
            Owner::Task(TaskKind::Check) => {
                self.core.invalidations.end_check(&mut self.core.cx, &mut self.peers, ticket.conn, &outcome)
            }
            Owner::Task(TaskKind::Fan) => self.core.fans.absorb_part(
                &mut self.core.cx,
                &mut self.peers,
                ticket.conn,
                ticket.part,
                outcome,
            ),
            Owner::Task(TaskKind::Execution) => {
                self.core.execs.absorb_result(&mut self.core.cx, &mut self.peers, &ticket, outcome)
            }
            Owner::Task(TaskKind::Unblock) => {
                fan::end_unblock(&mut self.core.cx, ticket.conn, LinkIx::from_u32(ticket.part), &outcome)
            }
            Owner::Task(TaskKind::Unsubscribe | TaskKind::UnsubscribeShard) => {
                self.core.subscriptions.handle_unsubscribed(&mut self.core.cx, &mut self.peers, ticket)
            }
            // All topics of a lost link are handled at once: see [`Proxy::handle_source_lost`].
            Owner::Task(TaskKind::Subscribe | TaskKind::SubscribeShard) | Owner::Task(TaskKind::Track) => {}
            Owner::Task(TaskKind::Probe)
            | Owner::Task(TaskKind::Name)
            | Owner::Task(TaskKind::Waitaof)
            | Owner::Task(TaskKind::Mark) => {}
            Owner::Queued | Owner::Late | Owner::Nobody => {}
        }
    }

    /// Fills the client's place with an error, or adds the loss to the task that waits there.
    fn deliver_loss(&mut self, recipient: Recipient, lost: Lost) {
        let Some(Peer::Client(session)) = self.peers.get_mut(recipient.conn) else { return };
        let core = &mut self.core;
        if session.pinning != Pinning::No {
            core.cx.pins.to_relay.push(recipient.conn);
            if session.replies.front() == recipient.place && session.replies.is_relaying() {
                // The client has a part of the reply already, so an error cannot follow.
                core.cx.note_closed(session, CloseReason::HalfReply);
                return self.close_client(recipient.conn);
            }
        }
        self.deliver_in_part(recipient, Outcome::Lost(lost));
    }

    /// Delivers an outcome to a place that a task may own. The task may merge replies, or send the request again.
    fn deliver_in_part(&mut self, recipient: Recipient, outcome: Outcome<'_>) {
        walk::enter("deliver_in_part");
        let Some(Peer::Client(session)) = self.peers.get_mut(recipient.conn) else { return };
        let core = &mut self.core;
        let mut scratch = std::mem::take(&mut core.cx.parsing.scratch.reply);
        scratch.clear();
        if let Some(Owed::Task(TaskId::Replay(replay))) = session.replies.owed(recipient.place) {
            session.replies.expect(recipient.place, core.execs.forget_replay(&mut core.cx, replay));
        }
        let made = match (session.replies.owed(recipient.place), outcome) {
            (None, _) => Made::Nothing,
            (Some(Owed::Node), Outcome::Reply(reply)) => Made::AsItIs(reply),
            (Some(Owed::Node), Outcome::Lost(lost)) => core.cx.write_loss(&lost.text(), &mut scratch),
            (Some(Owed::Task(TaskId::Merge(merge))), outcome) => {
                Made::written_if(core.cx.absorb(merge, recipient.part, outcome, &mut scratch))
            }
            (Some(Owed::Task(task)), Outcome::Reply(reply)) => {
                core.make_of_reply(session, task, recipient, reply, &mut scratch)
            }
            (Some(Owed::Task(task)), Outcome::Lost(lost)) => {
                core.make_of_loss(session, task, &lost, &mut scratch)
            }
        };
        match made {
            Made::Nothing => {}
            Made::AsItIs(reply) => self.settle(recipient, reply),
            Made::Written => self.settle(recipient, &scratch),
        }
        // The memory of a very large merged reply is given back.
        scratch.clear();
        scratch.shrink_to(SCRATCH_BYTES_KEPT);
        self.core.cx.parsing.scratch.reply = scratch;
    }
}

impl Context {
    /// Counts the reply and fills the client's place with it.
    #[inline(always)]
    fn settle_recipient(&mut self, session: &mut Session, recipient: Recipient, reply: &[u8]) -> Next {
        self.stats.tally.count_reply(recipient.command, recipient.queued_us, self.engine.now_us, reply);
        session.replies.settle(recipient.place, reply, &mut self.engine.pool);
        self.after_settling(session, reply.len())
    }

    /// The next step for the session after places were filled. `newest_reply` is the length of the last reply.
    #[inline(always)]
    fn after_settling(&mut self, session: &mut Session, newest_reply: usize) -> Next {
        match self.note_settled(session, newest_reply) {
            true => Next::CloseOverfull,
            false if session.replies.is_quiet() => Next::CloseIfFinished,
            false => Next::Nothing,
        }
    }

    /// Adds a part's outcome to its merge. Returns true if it was the last: then `out` has the merged reply.
    fn absorb(&mut self, id: stdx::Id, part: u32, outcome: Outcome<'_>, out: &mut Vec<u8>) -> bool {
        let Some(merge) = self.merges.get_mut(id) else { return false };
        merge.first_us.get_or_insert(self.engine.now_us);
        let complete = match outcome {
            Outcome::Reply(reply) => merge.absorb(part, reply),
            Outcome::Lost(lost) => merge.absorb_loss(part, lost),
        };
        let holds = if complete { 0 } else { merge.held_bytes() };
        self.engine.memory.recount(&mut merge.counted_bytes, holds);
        if complete
            && let Some(merge) = self.merges.remove(id)
            && let Some(library) = merge.finish(out, &mut self.spare_values)
        {
            let kept = self.board.scripts.keep_library(library, self.limits.script_bytes_max);
            if let Err(library) = kept {
                self.notice(Notice::LibraryNotKept { library });
            }
        }
        complete
    }
}
