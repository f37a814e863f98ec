//! XREAD that waits for entries of streams on several shards.
//!
//! ```text
//!                 ┌─► shard 0: XREAD BLOCK 0 STREAMS a $ ── entries ─────────────────────┐
//!   session ─► fan┼─► shard 1: XREAD BLOCK 0 STREAMS b $ ─┐                              ├─► the client's place
//!                 └─► shard 2: XREAD BLOCK 0 STREAMS c $ ─┴─ CLIENT UNBLOCK ── nothing, ─┘
//!                                                           or what came meanwhile
//! ```
//!
//! The client holds a connection to each shard ([`crate::held`]). As soon as one of them has something, the others are let
//! go, and the client gets what all have answered: so nothing that a shard has given is kept from it, also not with `$`,
//! which each shard resolves once, when it begins to wait. A shard that does not let go in time is not waited for: XREAD
//! takes nothing, so what it would have said is still there.
//!
//! A connection goes to the next client when both XREAD and CLIENT UNBLOCK were answered: else the latter might yet come
//! and meet that client.

use crate::ConnId;
use crate::backend::Purpose;
use crate::core::{Asked, Core};
use crate::errors::{self, Lost};
use crate::event::CloseReason;
use crate::held::HeldNode;
use crate::proxy::{Peer, Proxy};
use crate::redirect::Kept;
use crate::replies::Outcome;
use crate::route::Keys;
use crate::session::{Owed, Session};
use crate::streams::{self, Streams};
use command::Number;
use resp::Request;
use std::time::Duration;
use stdx::Id;

/// One XREAD over several shards, until it is answered.
#[derive(Debug)]
pub(crate) struct Fan {
    conn: ConnId,
    /// In the client's order.
    place: u32,
    resp3: bool,
    /// What was asked, and when, for the statistics.
    command: Number,
    asked_us: u32,
    /// Those that still wait.
    parts: Vec<Option<Part>>,
    /// The parts are being let go.
    is_ending: bool,
    streams: Streams,
    /// A node's error.
    error: Option<Vec<u8>>,
    /// What is told if nothing was read.
    failure: Option<Vec<u8>>,
    /// What it holds, as it was counted last.
    counted_bytes: usize,
}

/// A part that waits.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// On this connection.
    node: HeldNode,
    /// Its node has shown that it has it: only then CLIENT UNBLOCK comes behind it.
    is_seen: bool,
}

/// What other shards may have to add is waited for so long: far more than a round trip, and not so long that a shard
/// that hangs would keep the entries of others back.
const ENDING: Duration = Duration::from_millis(100);

impl Fan {
    /// Takes in what came of `part`. Whether that is a reason to end.
    fn absorb(&mut self, part: u32, outcome: Outcome<'_>) -> bool {
        let reply = match outcome {
            Outcome::Reply(reply) => reply,
            // Another shard has something, and this one was too late.
            Outcome::Lost(_) if self.is_ending => return true,
            Outcome::Lost(lost) => {
                self.failure = Some(written(&lost.of_gathering().text()));
                return true;
            }
        };
        if reply.starts_with(b"-UNBLOCKED ") {
            self.failure = Some(reply.to_vec());
        } else if resp::reply::is_error(reply) {
            self.error.get_or_insert_with(|| reply.to_vec());
        } else if self.streams.absorb(part, reply).is_none() {
            self.error.get_or_insert_with(|| written(errors::MERGE_FAILED));
        }
        self.error.is_some() || self.failure.is_some() || self.streams.has_any()
    }

    /// The reply, once all parts have ended. What was read is told before what went wrong with other parts, but not in
    /// place of an error: then the request was wrong.
    fn write(&self, out: &mut Vec<u8>) {
        match (&self.error, &self.failure) {
            (Some(error), _) => out.extend_from_slice(error),
            (None, Some(failure)) if !self.streams.has_any() => out.extend_from_slice(failure),
            _ if self.streams.write(out, self.resp3).is_some() => {}
            _ => errors::write(out, errors::MERGE_FAILED),
        }
    }
}

fn written(text: &str) -> Vec<u8> {
    let mut error = Vec::new();
    errors::write(&mut error, text);
    error
}

impl Core {
    /// Sends each part of an XREAD, which is [complete](streams::is_complete), to its shard; it may be answered `patience`
    /// later than other requests. If a shard is down, nothing is sent.
    pub(crate) fn wait_on_several(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        keys: &Keys,
        patience: Duration,
    ) {
        let nodes = match self.hold_all(session, keys) {
            Ok(nodes) => nodes,
            Err(lost) => return self.refuse(session, &lost.text()),
        };
        // As for one who waits on one shard.
        self.unpin(session);
        let id = self.fans.insert(Fan {
            conn: session.conn,
            place: session.next_place(),
            resp3: session.resp3,
            command: self.asking,
            asked_us: self.now_us,
            parts: nodes.iter().map(|&node| Some(Part { node, is_seen: false })).collect(),
            is_ending: false,
            streams: Streams::new(request, keys),
            error: None,
            failure: None,
            counted_bytes: 0,
        });
        let mut bytes = self.pool.take();
        for (part, &node) in (0..).zip(&nodes) {
            self.ask_name(node);
            bytes.clear();
            streams::write_part(&mut bytes, request, keys, part);
            let asked = Asked { conn: id, place: 0, part, purpose: Purpose::Fan, kept: Kept::NO };
            self.enqueue_on(node.get(), &bytes, asked);
            self.set_deadline(node.get(), self.now + self.limits.request_timeout + patience);
        }
        self.pool.give(bytes);
        session.reserve(Owed::Fan(id));
        session.fences += 1;
        self.set_waiting(session, nodes.first().copied());
    }

    /// A connection to the shard of each part, or none at all.
    fn hold_all(&mut self, session: &Session, keys: &Keys) -> Result<Vec<HeldNode>, Lost> {
        let mut nodes = Vec::with_capacity(keys.parts.len());
        for part in &keys.parts {
            match self.hold(session, part.shard) {
                Ok(node) => nodes.push(node),
                Err(lost) => {
                    nodes.into_iter().for_each(|node| self.let_go_of(node));
                    return Err(lost);
                }
            }
        }
        Ok(nodes)
    }

    /// The connection is not held any more.
    fn let_go_of(&mut self, node: HeldNode) {
        self.backends[node.get() as usize].held_by = None;
        self.return_held(node.get());
    }

    /// The node at the end of the connection `node` has its part of `session`'s XREAD.
    pub(crate) fn note_part_waits(&mut self, session: &mut Session, id: Id, node: u32) {
        let Some(fan) = self.fans.get_mut(id) else { return };
        let (mut seen, mut all_are_seen) = (None, true);
        for part in fan.parts.iter_mut().flatten() {
            if part.node.get() == node {
                part.is_seen = true;
                seen = Some(*part);
            }
            all_are_seen &= part.is_seen;
        }
        let is_ending = fan.is_ending;
        if all_are_seen {
            self.show_waiting(session);
        }
        if let Some(part) = seen.filter(|_| is_ending) {
            self.end_part(part);
        }
    }

    /// The client has gone: what it held is closed, and nothing else can come of it.
    pub(crate) fn leave_fan(&mut self, id: Id) {
        let Some(mut fan) = self.fans.remove(id) else { return };
        self.memory.recount(&mut fan.counted_bytes, 0);
        self.pins.doomed.extend(fan.parts.into_iter().flatten().map(|part| part.node.get()));
    }

    /// All parts are let go that still wait.
    fn end_fan(&mut self, id: Id) {
        let Some(fan) = self.fans.get_mut(id) else { return };
        if std::mem::replace(&mut fan.is_ending, true) {
            return;
        }
        for part in fan.parts.clone().into_iter().flatten() {
            let late_at = self.now + ENDING;
            self.backends[part.node.get() as usize].hurry(late_at);
            self.check_at = self.check_at.min(late_at);
            if part.is_seen {
                self.end_part(part);
            }
        }
    }

    /// Lets a part go, if its node has said how it calls the connection.
    fn end_part(&mut self, part: Part) {
        let node = part.node.get();
        let backend = &self.backends[node as usize];
        let (id, Some(name), Some(conn)) = (backend.node, backend.name, backend.conn()) else { return };
        let asked = Asked { conn, place: 0, part: node, purpose: Purpose::Unblock, kept: Kept::NO };
        if self.ask_to_unblock(id, name, false, asked) {
            self.backends[node as usize].is_unblocked = true;
        }
    }

    /// The node has said what came of our CLIENT UNBLOCK for `conn`, the connection `node`; or nobody knows.
    pub(crate) fn end_unblock(&mut self, conn: ConnId, node: u32, outcome: &Outcome<'_>) {
        let backend = &mut self.backends[node as usize];
        if backend.conn() != Some(conn) {
            return;
        }
        if let Outcome::Lost(_) = outcome {
            return self.pins.doomed.push(node);
        }
        backend.is_unblocked = false;
        if backend.held_by.is_none() {
            self.return_held(node);
        }
    }

    /// What came of `part`. True if it was the last.
    fn take_part(&mut self, id: Id, part: u32, outcome: Outcome<'_>) -> bool {
        let is_lost = matches!(outcome, Outcome::Lost(_));
        let Some(fan) = self.fans.get_mut(id) else { return false };
        let Some(Part { node, .. }) = fan.parts.get_mut(part as usize).and_then(Option::take) else {
            return false;
        };
        // Who was unblocked there by another client, or by us at the end, waits no more at all.
        let was_sought = self.backends[node.get() as usize].is_sought;
        let ends = fan.absorb(part, outcome) | was_sought;
        let (is_last, holds) = (fan.parts.iter().all(Option::is_none), fan.streams.held_bytes());
        self.memory.recount(&mut fan.counted_bytes, holds);
        // A lost connection is given up by whoever found that out.
        if !is_lost {
            self.let_go_of(node);
        }
        if ends {
            self.end_fan(id);
        }
        is_last
    }
}

impl Proxy {
    /// What came of part `part` of an XREAD.
    pub(crate) fn absorb_read(&mut self, id: Id, part: u32, outcome: Outcome<'_>) {
        let is_last = self.core.take_part(id, part, outcome);
        let core = &mut self.core;
        let Some(fan) = core.fans.get(id) else { return };
        let Some(Peer::Client(session)) = self.peers.get_mut(fan.conn) else { return };
        if !is_last {
            // It is sought on a connection on which it still waits.
            session.waits_on = fan.parts.iter().flatten().next().map(|part| part.node);
            return;
        }
        let Some(mut fan) = core.fans.remove(id) else { return };
        core.memory.recount(&mut fan.counted_bytes, 0);
        core.set_waiting(session, None);
        let mut reply = core.pool.take();
        fan.write(&mut reply);
        core.tally.count_reply(fan.command, fan.asked_us, core.now_us, &reply);
        core.counters.errors += u64::from(resp::reply::is_error(&reply));
        session.fences -= 1;
        core.clients_to_resume.push(fan.conn);
        let is_overfull = core.settle(session, fan.place, &reply);
        core.pool.give(reply);
        if is_overfull {
            core.note_closed(session, CloseReason::OutputLimit);
            self.close_client(fan.conn);
        } else {
            self.close_if_finished(fan.conn);
        }
    }
}
