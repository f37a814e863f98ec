//! Requests that wait on several shards together: XREAD for entries of streams, WAIT for replicas.
//!
//! ```text
//!                 ┌─► shard 0: XREAD BLOCK 0 STREAMS a $ ── entries ─────────────────────┐
//!   session ─► fan┼─► shard 1: XREAD BLOCK 0 STREAMS b $ ─┐                              ├─► the client's place
//!                 └─► shard 2: XREAD BLOCK 0 STREAMS c $ ─┴─ CLIENT UNBLOCK ── nothing, ─┘
//!                                                           or entries that came meanwhile
//! ```
//!
//! The client holds a link to each shard ([`crate::held`]). As soon as one shard has entries, the others are unblocked,
//! and the client gets the entries of all. So the client gets all entries that a shard has returned, also with `$`,
//! which each shard resolves once, when it begins to wait.
//!
//! The fan does not wait for a shard that does not end in time: XREAD removes nothing, so its entries are still there.
//! For replicas ([`crate::held::acknowledged`]), all shards must answer.
//!
//! A part that its node declines goes over another link to the node of its keys ([`crate::redirect`]). A part that
//! counts replicas does not, because another node knows nothing of the client's writes to the first.
//!
//! A link goes to the next client when both its part and CLIENT UNBLOCK are answered. Otherwise a late CLIENT UNBLOCK
//! would meet that client.

use crate::ConnId;
use crate::context::Context;
use crate::errors::{self, Lost};
use crate::features::{Asked, Owed, Owner, Session, TaskId, TaskKind};
use crate::held;
use crate::held::acknowledged;
use crate::held::acknowledged::Acknowledged;
use crate::held::entries::Streams;
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::outcome::{Effect, Outcome, TaskEnd};
use crate::peers::{Peer, Peers};
use crate::session::Reason;
use command::Number;
use resp::reply::is_error;
use std::time::Duration;
use stdx::Id;
use stdx::Slab;
use topology::ShardId;

/// One request over several shards, until it is answered.
#[derive(Debug)]
pub(crate) struct Fan {
    conn: ConnId,
    /// The place in the client's order.
    place: u32,
    resp3: bool,
    /// The command and the instant of the request, for the statistics.
    command: Number,
    asked_us: u32,
    parts: Vec<Part>,
    /// Whether the parts are being unblocked.
    is_ending: bool,
    answers: Answers,
    /// A node's error.
    error: Option<Vec<u8>>,
    /// The error for insufficient answers.
    failure: Option<Vec<u8>>,
    /// Memory in use, as it was counted last.
    counted_bytes: usize,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The part waits on this link. Once `is_seen`, its node has shown that it has the part. CLIENT UNBLOCK is sent
    /// only then.
    Waits { link: LinkIx, is_seen: bool },
    /// The node has declined the part, and the part was not sent again yet.
    Parked,
    /// The part was answered, or will not be.
    Ended,
}

impl Part {
    /// The link on which the part waits.
    fn link(self) -> Option<LinkIx> {
        match self {
            Part::Waits { link, .. } => Some(link),
            Part::Parked | Part::Ended => None,
        }
    }
}

/// The replies of parts so far.
#[derive(Debug)]
pub(crate) enum Answers {
    /// Entries.
    Streams(Streams),
    /// Numbers of replicas.
    Replicas(Acknowledged),
}

impl Answers {
    /// Takes the reply of `part`. `None` if it does not fit.
    fn absorb(&mut self, part: u32, reply: &[u8]) -> Option<()> {
        match self {
            Answers::Streams(streams) => streams.absorb(part, reply),
            Answers::Replicas(acknowledged) => acknowledged.absorb(reply),
        }
    }

    /// Whether the replies suffice before all parts are answered.
    fn suffice(&self) -> bool {
        matches!(self, Answers::Streams(streams) if streams.has_any())
    }

    /// Whether each node must answer for itself, and no reply may be missing.
    fn are_of_each_node(&self) -> bool {
        matches!(self, Answers::Replicas(_))
    }

    /// Memory in use by the replies.
    fn held_bytes(&self) -> usize {
        match self {
            Answers::Streams(streams) => streams.held_bytes(),
            Answers::Replicas(_) => 0,
        }
    }

    /// Appends the reply. `None` if the replies do not make one.
    fn write(&self, out: &mut Vec<u8>, resp3: bool) -> Option<()> {
        match self {
            Answers::Streams(streams) => streams.write(out, resp3),
            Answers::Replicas(acknowledged) => acknowledged.write(out),
        }
    }
}

/// Time for entries of other shards. It is far more than a round trip, and so short that a shard without an answer does
/// not delay the entries of others. Where no reply may be missing, each shard has the time of any request.
const ENDING: Duration = Duration::from_millis(100);

impl Fan {
    /// The client of the fan, and the place in its order.
    pub(crate) fn recipient(&self) -> (ConnId, u32) {
        (self.conn, self.place)
    }

    /// Bytes as counted, and as held now.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.answers.held_bytes())
    }

    /// Takes the outcome of `part`. Returns whether the fan must end.
    fn absorb(&mut self, part: u32, outcome: Outcome<'_>) -> bool {
        let reply = match outcome {
            Outcome::Reply(reply) => reply,
            Outcome::Lost(lost) if self.answers.are_of_each_node() => {
                self.failure.get_or_insert_with(|| errors::reply(&lost.text()));
                return true;
            }
            // Another shard has entries, and this one was too late.
            Outcome::Lost(_) if self.is_ending => return true,
            Outcome::Lost(lost) => {
                self.failure = Some(errors::reply(&lost.of_gathering().text()));
                return true;
            }
        };
        if reply.starts_with(b"-UNBLOCKED ") {
            self.failure = Some(reply.to_vec());
        } else if resp::reply::is_error(reply) {
            self.error.get_or_insert_with(|| reply.to_vec());
        } else if self.answers.absorb(part, reply).is_none() {
            self.error.get_or_insert_with(|| errors::reply(errors::MERGE_FAILED));
        }
        self.error.is_some() || self.failure.is_some() || self.answers.suffice()
    }

    /// Writes the reply once all parts have ended. Entries take precedence over lost parts. An error takes precedence
    /// over entries, since the request was then wrong.
    fn write(&self, out: &mut Vec<u8>) {
        match (&self.error, &self.failure) {
            (Some(error), _) => out.extend_from_slice(error),
            (None, Some(failure)) if !self.answers.suffice() => out.extend_from_slice(failure),
            _ if self.answers.write(out, self.resp3).is_some() => {}
            _ => errors::write(out, errors::MERGE_FAILED),
        }
    }

    /// Whether the reply still depends on every shard.
    fn needs_all(&self) -> bool {
        self.answers.are_of_each_node() && self.error.is_none() && self.failure.is_none()
    }

    /// The first link on which a part waits.
    fn first_node(&self) -> Option<LinkIx> {
        self.parts.iter().find_map(|part| part.link())
    }
}

/// The commands that wait on several shards.
#[derive(Debug, Default)]
pub(crate) struct Fans {
    pub slab: Slab<Fan>,
}

impl Fans {
    /// Sends each of `shards` its part, which `write_part` appends. Replies may come `patience` later than others. If a
    /// shard is down, no part is sent.
    pub(crate) fn wait_on_several(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        shards: &[ShardId],
        answers: Answers,
        patience: Duration,
        write_part: impl Fn(&mut Vec<u8>, u32),
    ) {
        let nodes = match hold_all(cx, session, shards) {
            Ok(nodes) => nodes,
            Err(lost) => return cx.refuse(session, &lost.text()),
        };
        let needs_marks = answers.are_of_each_node();
        // As for a client that waits on one shard.
        cx.unpin(session);
        let id = self.slab.insert(Fan {
            conn: session.conn,
            place: session.replies.next_place(),
            resp3: session.resp3,
            command: cx.engine.asking,
            asked_us: cx.engine.now_us,
            parts: nodes.iter().map(|&ix| Part::Waits { link: ix, is_seen: false }).collect(),
            is_ending: false,
            answers,
            error: None,
            failure: None,
            counted_bytes: 0,
        });
        let mut bytes = cx.engine.pool.take();
        for (part, &ix) in (0..).zip(&nodes) {
            held::ask_name(cx, ix);
            if needs_marks {
                acknowledged::ask_mark(cx, ix, id, part);
            }
            bytes.clear();
            write_part(&mut bytes, part);
            let asked = Asked { conn: id, place: 0, part, owner: Owner::Task(TaskKind::Fan), kept: Kept::NO };
            cx.engine.enqueue_on(ix, &bytes, asked);
            cx.engine.set_deadline(ix, cx.engine.now + cx.engine.limits.request_timeout + patience);
        }
        cx.engine.pool.give(bytes);
        self.recount_fan(cx, id);
        session.replies.reserve(Owed::Task(TaskId::Fan(id)));
        session.hold.add(Reason::Order);
        held::set_waiting(cx, session, nodes.first().copied());
    }

    fn recount_fan(&mut self, cx: &mut Context, id: Id) {
        if let Some(fan) = self.slab.get_mut(id) {
            let holds = fan.answers.held_bytes();
            cx.engine.memory.recount(&mut fan.counted_bytes, holds);
        }
    }

    /// Notes that the node of link `at` has its part of `session`'s request.
    pub(crate) fn note_part_waits(&mut self, cx: &mut Context, session: &mut Session, id: Id, at: LinkIx) {
        let Some(fan) = self.slab.get_mut(id) else { return };
        for part in &mut fan.parts {
            if let Part::Waits { link, is_seen } = part {
                *is_seen |= *link == at;
            }
        }
        let is_seen = |part: &Part| matches!(part, Part::Waits { is_seen: true, .. } | Part::Ended);
        let (all_are_seen, is_ending) = (fan.parts.iter().all(is_seen), fan.is_ending);
        if all_are_seen {
            held::show_waiting(cx, session);
        }
        if is_ending {
            end_part(cx, at);
        }
    }

    /// Whether no other node can answer for a node of the fan.
    pub(crate) fn needs_each_node(&self, id: Id) -> bool {
        self.slab.get(id).is_some_and(|fan| fan.answers.are_of_each_node())
    }

    /// The client whose request has `part`, which is to be sent again to another node.
    pub(crate) fn client_of_parked(&self, id: Id, part: u32) -> Option<ConnId> {
        let fan = self.slab.get(id)?;
        (fan.parts[part as usize] == Part::Parked && !fan.is_ending).then_some(fan.conn)
    }

    /// Notes that the part was sent again, on link `ix`.
    pub(crate) fn note_part_sent(&mut self, id: Id, part: u32, ix: LinkIx) {
        if let Some(fan) = self.slab.get_mut(id) {
            fan.parts[part as usize] = Part::Waits { link: ix, is_seen: false };
        }
    }

    /// Ends the fan of a client that has gone. Its links are closed.
    pub(crate) fn leave_fan(&mut self, cx: &mut Context, id: Id) {
        let Some(mut fan) = self.slab.remove(id) else { return };
        cx.engine.memory.recount(&mut fan.counted_bytes, 0);
        cx.pins.doomed.extend(fan.parts.into_iter().filter_map(Part::link));
    }

    /// Has the fan answer `error`, since a correct reply is no longer possible.
    pub(crate) fn fail_fan(&mut self, cx: &mut Context, id: Id, error: &str) {
        if let Some(fan) = self.slab.get_mut(id) {
            fan.error.get_or_insert_with(|| errors::reply(error));
            self.end_fan(cx, id);
        }
    }

    /// Unblocks all parts that still wait.
    fn end_fan(&mut self, cx: &mut Context, id: Id) {
        let Some(fan) = self.slab.get_mut(id) else { return };
        if std::mem::replace(&mut fan.is_ending, true) {
            return;
        }
        for part in &mut fan.parts {
            if *part == Part::Parked {
                *part = Part::Ended;
            }
        }
        let late_at = cx.engine.now + if fan.needs_all() { cx.engine.limits.request_timeout } else { ENDING };
        for part in fan.parts.clone() {
            let Part::Waits { link: ix, is_seen } = part else { continue };
            cx.engine.links[ix].hurry(late_at);
            cx.engine.check_at = cx.engine.check_at.min(late_at);
            if is_seen {
                end_part(cx, ix);
            }
        }
    }

    /// Takes the outcome of `part`. Returns true if it was the last one.
    fn take_part(&mut self, cx: &mut Context, id: Id, part: u32, outcome: Outcome<'_>) -> bool {
        let is_lost = matches!(outcome, Outcome::Lost(_));
        let Some(fan) = self.slab.get_mut(id) else { return false };
        let was = std::mem::replace(&mut fan.parts[part as usize], Part::Ended);
        if was == Part::Ended {
            return false;
        }
        // A part that was unblocked, by another client or by us, ends the whole wait.
        let was_sought = was.link().is_some_and(|ix| cx.engine.links[ix].features.is_sought);
        let ends = fan.absorb(part, outcome) | was_sought;
        let holds = fan.answers.held_bytes();
        cx.engine.memory.recount(&mut fan.counted_bytes, holds);
        // A lost link is closed elsewhere.
        if let Some(ix) = was.link().filter(|_| !is_lost) {
            let_go_of(cx, ix);
        }
        if ends {
            self.end_fan(cx, id);
        }
        self.slab.get(id).is_some_and(|fan| fan.parts.iter().all(|part| *part == Part::Ended))
    }
}

/// A link to each of `shards`, or an error.
fn hold_all(cx: &mut Context, session: &Session, shards: &[ShardId]) -> Result<Vec<LinkIx>, Lost> {
    let mut nodes = Vec::with_capacity(shards.len());
    for &shard in shards {
        match held::hold(cx, session, shard) {
            Ok(node) => nodes.push(node),
            Err(lost) => {
                nodes.into_iter().for_each(|node| let_go_of(cx, node));
                return Err(lost);
            }
        }
    }
    Ok(nodes)
}

/// Ends the hold on the link.
pub(crate) fn let_go_of(cx: &mut Context, ix: LinkIx) {
    cx.engine.links[ix].features.held_by = None;
    held::return_held(cx, ix);
}

/// Unblocks the part on link `ix`, if its node has reported its number for the connection.
fn end_part(cx: &mut Context, ix: LinkIx) {
    let link = &cx.engine.links[ix];
    let (profile, id) = (link.profile, link.node);
    let (Some(name), Some(conn)) = (link.features.name.known(), link.conn()) else { return };
    let asked =
        Asked { conn, place: 0, part: ix.to_u32(), owner: Owner::Task(TaskKind::Unblock), kept: Kept::NO };
    if held::ask_to_unblock(cx, (profile, id), name, false, asked) {
        cx.engine.links[ix].features.is_unblocked = true;
    }
}

/// Notes the outcome of our CLIENT UNBLOCK for `conn`, the connection of link `ix`.
pub(crate) fn end_unblock(cx: &mut Context, conn: ConnId, ix: LinkIx, outcome: &Outcome<'_>) {
    let link = &mut cx.engine.links[ix];
    if link.conn() != Some(conn) {
        return;
    }
    // A user of the nodes may not have the permission.
    if matches!(outcome, Outcome::Lost(_)) || matches!(outcome, Outcome::Reply(reply) if is_error(reply)) {
        return cx.pins.doomed.push(ix);
    }
    link.features.is_unblocked = false;
    if link.features.held_by.is_none() {
        held::return_held(cx, ix);
    }
}

impl Fans {
    /// Notes that part `part` was declined: it waits to be sent again. Its link goes to the next client.
    pub(crate) fn park_part(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, part: u32) {
        let Some(fan) = self.slab.get_mut(id) else { return };
        let was = std::mem::replace(&mut fan.parts[part as usize], Part::Parked);
        let (conn, first) = (fan.conn, fan.first_node());
        if let Some(ix) = was.link() {
            let_go_of(cx, ix);
        }
        if let Some(Peer::Client(session)) = peers.get_mut(conn) {
            held::set_waiting(cx, session, first);
        }
    }

    /// Takes the outcome of part `part`.
    pub(crate) fn absorb_part(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        id: Id,
        part: u32,
        outcome: Outcome<'_>,
    ) {
        let is_last = self.take_part(cx, id, part, outcome);
        let Some(fan) = self.slab.get(id) else { return };
        let Some(Peer::Client(session)) = peers.get_mut(fan.conn) else { return };
        if !is_last {
            // CLIENT UNBLOCK must find a link on which the client still waits.
            session.wait.on = fan.first_node();
            return;
        }
        let Some(mut fan) = self.slab.remove(id) else { return };
        cx.engine.memory.recount(&mut fan.counted_bytes, 0);
        held::set_waiting(cx, session, None);
        let mut reply = cx.engine.pool.take();
        fan.write(&mut reply);
        let Fan { conn, place, command, asked_us, .. } = fan;
        cx.effects.push_back(Effect::End(TaskEnd { conn, place, command, asked_us, reply }));
    }
}
