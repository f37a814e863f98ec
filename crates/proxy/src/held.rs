//! Connections that a client holds alone: while it watches keys for its transaction, and while it waits for an element.
//!
//! ```text
//!   WATCH ─► watching ── EXEC ──► the transaction goes out on it ── its reply ─┐
//!               ├── UNWATCH, DISCARD, RESET ──► UNWATCH goes out on it ── OK ──┼─► another client's
//!   BLPOP ─► waiting ── an element, the time is up, CLIENT UNBLOCK ────────────┘
//!               └── the client leaves ──► closed at once
//! ```
//!
//! What goes over such a connection must neither overtake the client's other requests nor be overtaken by them. So it is
//! sent when all earlier ones were answered, and nothing behind it is read before it was answered itself.
//!
//! A connection whose client leaves while it waits is closed at once and not used again: an element that comes then must
//! stay where it is. If a connection that watches is lost, nobody knows whether the keys have changed: EXEC is answered
//! as if they had.
//!
//! Two connections have no order among them; that is the reason for both waits. A client that waits is still read from, so that its end
//! is seen. A link goes to the next client only when all on it was answered, with `UNWATCH` where keys may still be watched.
//!
//! `CLIENT UNBLOCK` finds the client's worker by mail, and asks its node by the number that the node gave to the connection. The
//! waiting request is answered over that connection, so that an element that came at the same moment is not lost. The connection is
//! closed afterwards: CLIENT UNBLOCK might come late and would meet another client.

pub(crate) mod acknowledged;
pub(crate) mod fan;
pub(crate) mod streams;
pub(crate) mod watches;

use crate::ConnId;
use crate::core::Core;
use crate::errors::Lost;
use crate::features::{Asked, NodeName, Owed, Owner, Session, TaskId, TaskKind, Ticket};
use crate::held::watches::{Asking, Watches};
use crate::link::profiles::Who;
use crate::link::{LinkIx, ProfileId, Use};
use crate::proxy::{Peer, Proxy};
use crate::redirect::Aim;
use crate::requests::Step;
use crate::requests::route::{self, Keys, Route};
use crate::session::pinning::Pinning;
use crate::session::{Phase, Reason};
use command::{Command, Wait};
use resp::integer::parse_i64;
use resp::{Request, encode};
use std::time::Duration;
use stdx::Instant;
use topology::{NodeId, ShardId};

/// Whether keys are watched for a client's transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    /// None.
    #[default]
    No,
    /// On this connection.
    On(LinkIx),
    /// On several, or they will be.
    Several(Box<Watches>),
    /// The first WATCH is in flight on this connection.
    Asked(LinkIx),
    /// They were, and EXEC is in flight on this connection: its reply ends the watch.
    Ending(LinkIx),
    /// They were, on a connection that was lost.
    Lost,
}

const CLIENT_ID: &[u8] = b"*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n";
const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";

impl Core {
    /// Whether a request that must go by itself may be sent now. If not, it is read again when it may.
    pub(crate) fn is_alone(&mut self, session: &mut Session) -> bool {
        if session.replies.is_pending() {
            debug_assert_eq!(session.pinning, Pinning::No, "who is pinned has one request pending at most");
            session.turn();
        }
        !session.replies.is_pending()
    }

    /// A connection to `shard` for the session alone.
    pub(crate) fn hold(&mut self, session: &Session, shard: ShardId) -> Result<LinkIx, Lost> {
        if self.holders.conns >= self.limits.held_conns_max {
            return Err(self.engine.not_sent(shard, "too many clients hold a link of their own"));
        }
        let id = self.primary_of(shard)?;
        self.hold_on(session, id)
    }

    /// The same, to the node `id`.
    fn hold_on(&mut self, session: &Session, id: NodeId) -> Result<LinkIx, Lost> {
        let ix = self.own_link(session.profile, id)?;
        let shard = self.shard_of_node(id);
        let link = &mut self.engine.links[ix];
        link.used_by = Use::Held;
        link.features.held_by = Some(session.conn);
        (link.shard, link.features.watched_slot) = (shard, None);
        link.late_at_most = Instant::NEVER;
        self.holders.conns += 1;
        Ok(ix)
    }

    /// Sends a request on a connection that the session holds. Nothing behind it is read before it was answered.
    pub(crate) fn send_held(&mut self, session: &mut Session, ix: LinkIx, bytes: &[u8], owed: Owed) {
        let place = session.replies.reserve(owed);
        self.engine.enqueue_on(ix, bytes, Asked::by_client(session.conn, place));
        session.hold.add(Reason::Order);
    }

    /// Sends a request that its node may be long in answering.
    pub(crate) fn forward_waiting(
        &mut self,
        session: &mut Session,
        command: &Command,
        wait: Wait,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        let Some(patience) = wait.patience(request) else {
            return self.read_at_once(session, command, wait, request, keys);
        };
        if !self.is_alone(session) {
            return self.read_again();
        }
        if session.phase == Phase::Ending {
            // It has ended, or we drain: it must not begin to wait.
            self.abandon(session);
            return Step::Done;
        }
        if wait == Wait::Replicas {
            self.wait_for_replicas(session, request, patience);
            return Step::Done;
        }
        match route::route(command, request, &self.engine.topology, keys) {
            Route::Parts if wait != Wait::BlockAcross => {
                self.emulate_waiting(session, command, request, keys, patience);
            }
            Route::Parts if streams::is_complete(request, keys) => {
                self.wait_for_entries(session, request, keys, patience);
            }
            Route::Parts => self.wait_on(session, self.engine.topology.keyless(), request.bytes, patience),
            Route::One(shard) => self.wait_on(session, shard, request.bytes, patience),
        }
        Step::Done
    }

    /// Sends a request that could wait and does not.
    fn read_at_once(
        &mut self,
        session: &mut Session,
        command: &Command,
        wait: Wait,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        if wait != Wait::BlockAcross {
            return self.forward(session, command, request, keys);
        }
        match route::route(command, request, &self.engine.topology, keys) {
            Route::One(shard) => self.send(session, command, shard, request.bytes),
            Route::Parts if streams::is_complete(request, keys) => self.read_streams(session, request, keys),
            Route::Parts => self.send(session, command, self.engine.topology.keyless(), request.bytes),
        }
        Step::Done
    }

    /// Sends a request to one shard that may be answered `patience` later than others.
    fn wait_on(&mut self, session: &mut Session, shard: ShardId, bytes: &[u8], patience: Duration) {
        let node = match self.hold(session, shard) {
            Ok(node) => node,
            Err(lost) => return self.refuse(session, &lost.text()),
        };
        // A permit for large transfers is not for those who wait.
        self.unpin(session);
        self.ask_name(node);
        self.send_held(session, node, bytes, Owed::Node);
        self.set_waiting(session, Some(node));
        self.engine.set_deadline(node, self.engine.now + self.engine.limits.request_timeout + patience);
    }

    /// Asks which number the node gave to the connection. The answer tells how to unblock what is sent behind it, and that
    /// the node has that too, which is in the same write: who sees that a client is blocked may rely on it.
    pub(crate) fn ask_name(&mut self, ix: LinkIx) {
        let asked = Asked { owner: Owner::Task(TaskKind::Name), ..Asked::by_nobody() };
        self.engine.links[ix].features.name.ask();
        self.engine.enqueue_on(ix, CLIENT_ID, asked);
    }

    /// Sends a request that a node has declined again, to the node `id`, over another connection for the session alone.
    pub(crate) fn hold_again(
        &mut self,
        session: &mut Session,
        (aim, id): (Aim, NodeId),
        watches: bool,
        asks: bool,
        request: &[u8],
        ticket: Ticket,
    ) -> Result<(), Lost> {
        let ix = self.hold_on(session, id)?;
        if let Aim::Slot(slot) = aim {
            self.engine.links[ix].features.watched_slot = Some(slot);
        }
        match watches {
            true => session.features.watch = std::mem::take(&mut session.features.watch).add(ix),
            false => self.ask_name(ix),
        }
        let request = if watches { request.into() } else { self.shortened(request, ticket.deadline) };
        self.enqueue_again(ix, asks, &request, ticket);
        match ticket.owner {
            // The whole of which it is a part has its barrier.
            Owner::Task(TaskKind::Fan) => self.note_part_sent(ticket.conn, ticket.part, ix),
            _ => session.hold.add(Reason::Order),
        }
        if !watches {
            self.set_waiting(session, Some(ix));
            self.engine.set_deadline(ix, ticket.deadline);
        }
        Ok(())
    }

    /// The session watches no keys any more, and its transaction, if there is one, is not carried out.
    pub(crate) fn end_watch(&mut self, session: &mut Session) {
        match std::mem::take(&mut session.features.watch) {
            Watch::On(node) => self.unwatch_on(node),
            Watch::Several(watches) => watches.all().for_each(|node| self.unwatch_on(node)),
            Watch::No | Watch::Asked(_) | Watch::Ending(_) | Watch::Lost => {}
        }
    }

    /// What is watched on the connection is not any more, and nobody holds it.
    pub(crate) fn unwatch_on(&mut self, ix: LinkIx) {
        self.engine.links[ix].features.held_by = None;
        self.engine.enqueue_on(ix, UNWATCH, Asked::by_nobody());
    }

    /// A client goes: what it holds is closed.
    pub(crate) fn let_holds_go(&mut self, session: &mut Session) {
        let watching = match std::mem::take(&mut session.features.watch) {
            Watch::Asked(node) | Watch::On(node) | Watch::Ending(node) => Some(node),
            Watch::Several(watches) => {
                self.pins.doomed.extend(watches.all());
                None
            }
            Watch::No | Watch::Lost => None,
        };
        let waiting = session.wait.on;
        self.set_waiting(session, None);
        self.pins.doomed.extend(watching.into_iter().chain(waiting));
    }

    /// The session waits from now on, or does not any more.
    pub(crate) fn set_waiting(&mut self, session: &mut Session, node: Option<LinkIx>) {
        session.wait.on = node;
        if std::mem::take(&mut session.wait.is_seen) {
            self.stats.counters.clients_blocked -= 1;
            self.board.publish_clients(self.settings.worker, &self.stats.counters);
        }
    }

    /// The node has the request for whose answer the session waits: from now on all can see that.
    pub(crate) fn show_waiting(&mut self, session: &mut Session) {
        if !std::mem::replace(&mut session.wait.is_seen, true) {
            self.stats.counters.clients_blocked += 1;
            self.board.publish_clients(self.settings.worker, &self.stats.counters);
        }
        if session.paused {
            // It was paused when its keys were looked at first. Its end must be seen: else it would take an element.
            self.engine.todo.clients_to_resume.push(session.conn);
        }
    }

    /// A client that is blocked will send no more. As in Redis it does not go on waiting: what comes for it must not be
    /// taken from others. It still gets what it was answered before.
    pub(crate) fn abandon(&mut self, session: &mut Session) {
        self.forget_held_back(session);
        if let Some(Owed::Task(TaskId::Fan(fan))) = session.replies.front_owed() {
            self.leave_fan(fan);
        }
        if let Some(pop) = self.waiting_pop(session) {
            self.abandon_pop(session, pop);
        }
        if let Some(node) = session.wait.on {
            self.set_waiting(session, None);
            self.pins.doomed.push(node);
            session.hold.remove(Reason::Order);
            session.replies.forget_pending();
            self.count_waiting(session);
        }
        session.phase = Phase::Closing { linger: false };
        self.engine.pool.give(std::mem::take(&mut session.input.bytes));
        self.engine.recount_client(session);
    }

    /// Lets the client go that waits on the connection `ix`: it is answered as if its time were up. Not if the node has
    /// not yet said how it calls the connection.
    pub(crate) fn end_wait(&mut self, ix: LinkIx) {
        let link = &mut self.engine.links[ix];
        let (profile, id) = (link.profile, link.node);
        let Some(name) = link.features.name.known() else { return };
        if self.ask_to_unblock((profile, id), name, false, Asked::by_nobody()) {
            self.engine.links[ix].features.is_sought = true;
        }
    }

    /// Asks the node `id` to let the client go that waits on the connection which it calls `name`; as whoever is in `profile`,
    /// where the nodes decide who may. False if it cannot be asked.
    pub(crate) fn ask_to_unblock(
        &mut self,
        (profile, id): (ProfileId, NodeId),
        name: i64,
        by_error: bool,
        asked: Asked,
    ) -> bool {
        let shared = match self.profiles.kind(profile).who {
            Who::Client(_) => self.link_in(profile, id).ok(),
            Who::Pool | Who::Nobody => self.profiles.link(ProfileId::FIRST, id),
        };
        let Some(ix) = shared.filter(|&ix| self.admit_on(ix).is_ok()) else { return false };
        let reason: &[u8] = if by_error { b"ERROR" } else { b"TIMEOUT" };
        let mut digits = itoa::Buffer::new();
        let mut bytes = self.engine.pool.take();
        encode::request(&mut bytes, &[b"CLIENT", b"UNBLOCK", digits.format(name).as_bytes(), reason]);
        self.engine.enqueue_on(ix, &bytes, asked);
        self.engine.pool.give(bytes);
        true
    }

    /// The request of `session` on the connection `ix` was answered with `reply`, or is lost. `None` if the session
    /// goes on holding the connection; else whether another client may have it.
    fn end_request(&mut self, session: &mut Session, ix: LinkIx, reply: Option<&[u8]>) -> Option<bool> {
        session.hold.remove(Reason::Order);
        self.engine.todo.clients_to_resume.push(session.conn);
        if session.wait.on == Some(ix) {
            self.set_waiting(session, None);
            return Some(true);
        }
        let failed = reply.is_none_or(resp::reply::is_error);
        let has_lost_keys = self.engine.links[ix].features.has_lost_keys;
        let watch = match std::mem::take(&mut session.features.watch).end_asking(ix, failed, has_lost_keys) {
            Asking::NotIt(watch) => watch,
            Asking::Ended(watch, left) => {
                session.features.watch = watch;
                if left == Some(false) {
                    self.lose_watches(session, ix);
                }
                return left;
            }
        };
        let (watch, left) = match watch {
            Watch::Asked(held) if held == ix && failed => (Watch::No, Some(true)),
            Watch::Asked(held) if held == ix && has_lost_keys => (Watch::Lost, Some(false)),
            Watch::Asked(held) if held == ix => (Watch::On(ix), None),
            // An EXEC that was not even discarded has left the keys watched.
            Watch::Ending(held) if held == ix => {
                let ended = !failed || reply.is_some_and(|reply| reply.starts_with(b"-EXECABORT "));
                (Watch::No, Some(ended))
            }
            watch => (watch, None),
        };
        session.features.watch = watch;
        left
    }

    /// Nobody holds the connection `ix` any more: it is the next client's if all on it was answered, and else closed.
    pub(crate) fn return_held(&mut self, ix: LinkIx) {
        let link = &mut self.engine.links[ix];
        if link.features.is_unblocked {
            // Until that was answered.
            return;
        }
        if !link.is_clean() || link.features.is_sought || link.features.is_altered {
            return self.pins.doomed.push(ix);
        }
        link.used_by = Use::Pinned;
        link.features.has_lost_keys = false;
        self.holders.conns -= 1;
        self.give_back(ix);
    }
}

impl Proxy {
    /// The connection `ix`, which one client holds, brought `reply` to `ticket`. Called before it is delivered.
    pub(crate) fn note_held_reply(&mut self, ix: LinkIx, ticket: &Ticket, reply: &[u8]) {
        let core = &mut self.core;
        if ticket.is_of_client() {
            let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn) else { return };
            match core.end_request(session, ix, Some(reply)) {
                None => return,
                Some(true) => core.engine.links[ix].features.held_by = None,
                Some(false) => return core.pins.doomed.push(ix),
            }
        }
        // The answer to UNWATCH is for nobody; but if the node has refused that, keys may still be watched.
        if core.engine.links[ix].features.held_by.is_none() {
            core.engine.links[ix].features.is_altered |=
                resp::reply::is_error(reply) && !ticket.is_of_client();
            core.return_held(ix);
        }
    }

    /// The connection `ix`, which `holder` holds if anybody does, is gone, and so are `tickets`, which were in flight on it.
    pub(crate) fn note_held_loss<'a>(
        &mut self,
        ix: LinkIx,
        holder: Option<ConnId>,
        tickets: impl IntoIterator<Item = &'a Ticket>,
    ) {
        if holder.is_some() {
            self.core.note_watch_lost(ix);
        }
        // A client that has let the connection go may have a request in flight there.
        for ticket in tickets.into_iter().filter(|ticket| ticket.is_of_client()) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn) {
                self.core.end_request(session, ix, None);
            }
        }
        let Some(Peer::Client(session)) = holder.and_then(|conn| self.peers.get_mut(conn)) else { return };
        if session.features.watch.is_on(ix) {
            self.core.lose_watches(session, ix);
        }
        self.answer_seekers(ix);
    }

    /// The node has said which number it gave to the connection `ix`: those who seek who waits there are told.
    pub(crate) fn note_name(&mut self, ix: LinkIx, reply: &[u8]) {
        let digits = reply.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b"\r\n"));
        let name = digits.and_then(parse_i64);
        let link = &mut self.core.engine.links[ix];
        link.features.name = name.map_or(NodeName::Hidden, NodeName::Known);
        if let Some(holder) = link.features.held_by
            && let Some(Peer::Client(session)) = self.peers.get_mut(holder)
        {
            match session.replies.front_owed() {
                Some(Owed::Task(TaskId::Fan(fan))) => self.core.note_part_waits(session, fan, ix),
                _ if session.wait.on == Some(ix) => {
                    self.core.show_waiting(session);
                }
                _ => {}
            }
        }
        self.answer_seekers(ix);
    }
}
