//! EXEC of a transaction over several shards (`--transactions=per-shard`): a transaction for each part, and one reply.
//!
//! A part has the commands for one shard, or in a cluster for one slot, since a node's transaction is limited to one
//! slot.
//!
//! ```text
//!   no key is watched:   all parts in the turn of EXEC ──────────────► those that others wait for ─► one reply
//!   keys are watched:    guards ─► check ─► a part that watches ─► the next one ─► all others ─► …
//!                           │        │         │ nil, or no result                      ▲
//!                           └────────┴─────────┴──► nothing else is sent ───────────────┘
//! ```
//!
//! **Sending.** Before anything is sent, every part must have a link that takes requests. Parts that are sent
//! together leave in one turn. A part is one piece, MULTI to EXEC, on the link that its shard's clients share, so it
//! is atomic there.
//!
//! **Watched keys** have a held link for each part. EXEC may return nil only if nothing has run. So all that can
//! return nil goes first, one after the other:
//!
//! - guards: parts with watched keys and without commands. Their empty transactions change nothing;
//! - a check, if two or more parts watch and have commands: `CLIENT INFO` shows (`flags=d`) whether EXEC would fail,
//!   and leaves the keys watched. A node that does not know or permit CLIENT INFO is not checked;
//! - the parts that watch, one by one. If one of them does not run, nothing else is sent;
//! - the parts that do not watch, together;
//! - last, the parts with elements that other clients may wait for ([`command::Command::may_end_a_wait`]). A worker
//!   of RQ pops the name of a job and reads the job from another shard at once, so the job must be there. RQ silently
//!   drops a job that is missing.
//!
//! So a transaction with at most one part that watches and has commands fails as a whole, or runs. With two such
//! parts, a key of the second may change between the check and its part (a round trip for each part before). Then the
//! parts before have run, and the reply says so ([`crate::transaction::results`]).
//!
//! **Order.** No later request of the client runs before EXEC is answered. With watched keys, or if nodes may decline
//! requests, EXEC waits until all earlier requests are answered.
//!
//! **Failures.** A part that its node declines (MOVED, LOADING …) is sent again as a whole, like any transaction. A
//! part that watches is not: its keys count as changed. If the client leaves, EXEC still goes on to its end.
//!
//! **Limits.** [`crate::Limits::transaction_parts_max`] parts, [`crate::Limits::transaction_bytes_max`] bytes.
//! Results count as memory until the last one is there.
//!
//! The tickets of the parts name the execution and not the client, so the execution outlives its client.

use crate::ConnId;
use crate::context::Context;
use crate::errors::Lost;
use crate::features::{Asked, Owed, Owner, Session, TaskId, TaskKind, Ticket};
use crate::held;
use crate::held::fan;
use crate::link::kept::Kept;
use crate::link::{LinkIx, ProfileId};
use crate::outcome::{Effect, Outcome, TaskEnd};
use crate::peers::{Peer, Peers};
use crate::redirect::declined::Aim;
use crate::session::Reason;
use crate::transaction;
use crate::transaction::Execs;
use crate::transaction::divided::{PartRequests, Piece};
use crate::transaction::queued::{EXEC, Held, MULTI, Replay};
use crate::transaction::results::{self, Answered, PartResult};
use command::Number;
use resp::reply;
use std::ops::Range;
use stdx::Id;
use topology::ShardId;

/// An EXEC until it is answered.
#[derive(Debug)]
pub(crate) struct Execution {
    conn: ConnId,
    /// The place in the client's order.
    place: u32,
    resp3: bool,
    profile: ProfileId,
    /// The command and the instant of the request, for the statistics.
    command: Number,
    asked_us: u32,
    /// The inlays for the reply, if there are any.
    mixture: Option<Id>,
    pieces: Vec<Piece>,
    /// Parts with commands, as `pieces` name them, and behind these the guards.
    parts: Vec<Part>,
    /// The parts in the order in which they are sent.
    order: Vec<u32>,
    /// The number of parts in `order` that were sent.
    sent: usize,
    /// The number of answers to come.
    left: usize,
    check: Check,
    result_bytes: usize,
    counted_bytes: usize,
}

/// One shard's part.
#[derive(Debug)]
struct Part {
    shard: ShardId,
    commands: u32,
    /// Whether other clients may wait for elements of one of the commands.
    is_waited_for: bool,
    /// The requests of the part, until it is answered.
    replay: Id,
    /// The link on which the part's keys are watched.
    watches_on: Option<LinkIx>,
    result: PartResult,
}

/// The step in which a part is sent. A step begins when the parts of earlier steps have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The part has no commands and only shows whether its keys have changed.
    Guard,
    /// The part watches keys and is sent alone.
    Watching,
    Other,
    /// Other clients may wait for elements of the part.
    Last,
}

/// The check of watched keys before parts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The check comes before the first part that watches and has commands.
    Due,
    /// The keys were checked, or need not be.
    Done,
}

/// The next action.
enum Next {
    /// Check whether the watched keys of these parts have changed.
    Check(Vec<u32>),
    Send(Vec<u32>),
    Reply,
}

/// Watched keys: their link and their division.
pub(crate) type Watched = (LinkIx, u32);

/// The [`Ticket::place`] of a check.
const OF_CHECK: u32 = 1;
const OF_EXEC: u32 = 0;

const CLIENT_INFO: &[u8] = b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n";

impl Part {
    fn is_guard(&self) -> bool {
        self.commands == 0
    }

    /// Whether the part has commands, and its watched keys may still turn out to have changed.
    fn is_watching(&self) -> bool {
        self.watches_on.is_some() && !self.is_guard()
    }

    fn step(&self) -> Step {
        match self {
            part if part.is_guard() => Step::Guard,
            part if part.is_watching() => Step::Watching,
            part if part.is_waited_for => Step::Last,
            _ => Step::Other,
        }
    }
}

impl Execution {
    /// The next action when all requests so far are answered.
    fn next(&mut self) -> Next {
        let is_going_on = |part: &Part| matches!(part.result, PartResult::Ran(_) | PartResult::Unsent);
        if self.sent == self.order.len() || !self.parts.iter().all(is_going_on) {
            return Next::Reply;
        }
        let watching = self.parts.iter().filter(|part| part.is_watching()).count();
        let first = &self.parts[self.order[self.sent] as usize];
        if self.check == Check::Due && !first.is_guard() {
            self.check = Check::Done;
            if watching > 1 {
                let asked = (0..).zip(&self.parts).filter(|(_, part)| part.is_watching());
                return Next::Check(asked.map(|(part, _)| part).collect());
            }
        }
        let sent = self.next_to_send();
        Next::Send(self.order[sent].to_vec())
    }

    /// The parts that are sent together next.
    fn next_to_send(&mut self) -> Range<usize> {
        let start = self.sent;
        let step_at = |place: usize| self.parts[self.order[place] as usize].step();
        let step = step_at(start);
        let alike = (start..self.order.len()).take_while(|&place| step_at(place) == step).count();
        self.sent = start + if step == Step::Watching { 1 } else { alike };
        start..self.sent
    }

    fn set_result(&mut self, part: u32, result: PartResult) {
        self.result_bytes += result.held_bytes();
        self.parts[part as usize].result = result;
    }

    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.held_bytes())
    }

    /// The client that waits, and the place of its reply.
    pub(crate) fn recipient(&self) -> (ConnId, u32) {
        (self.conn, self.place)
    }

    /// Whether the reply has inlays.
    pub(crate) fn has_mixture(&self) -> bool {
        self.mixture.is_some()
    }

    /// The number of answers to come.
    pub(crate) fn results_left(&self) -> usize {
        self.left
    }

    fn held_bytes(&self) -> usize {
        self.result_bytes
            + self.pieces.capacity() * size_of::<Piece>()
            + self.parts.capacity() * (size_of::<Part>() + size_of::<u32>())
    }
}

impl Execs {
    /// Begins EXEC of `parts`, which take over the watched keys.
    pub(crate) fn begin_execution(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        (pieces, parts): (Vec<Piece>, Vec<PartRequests>),
        watched: &[Watched],
        mixture: Option<Id>,
    ) {
        cx.stats.counters.fragments += parts.len() as u64;
        let parts = self.parts(cx, parts, watched);
        let mut order: Vec<u32> = (0..parts.len() as u32).collect();
        order.sort_by_key(|&part| parts[part as usize].step());
        let id = self.executions.insert(Execution {
            conn: session.conn,
            place: session.replies.next_place(),
            resp3: session.resp3,
            profile: session.profile,
            command: cx.engine.asking,
            asked_us: cx.engine.now_us,
            mixture,
            pieces,
            parts,
            order,
            sent: 0,
            left: 0,
            check: Check::Due,
            result_bytes: 0,
            counted_bytes: 0,
        });
        session.replies.reserve(Owed::Task(TaskId::Execution(id)));
        session.hold.add(Reason::Order);
        // All parts of the first step were admitted, so none is answered at once.
        self.go_on_executing(cx, id);
    }

    /// All parts with the links that watch for them, and a guard for each further link.
    fn parts(&mut self, cx: &mut Context, parts: Vec<PartRequests>, watched: &[Watched]) -> Vec<Part> {
        let of_division = |division: u32| watched.iter().find(|(_, own)| *own == division);
        let mut all: Vec<Part> = parts
            .into_iter()
            .map(|part| {
                let watches_on = of_division(part.division).map(|(node, _)| *node);
                self.part(cx, part, watches_on)
            })
            .collect();
        for &(node, division) in watched {
            if all.iter().all(|part| part.watches_on != Some(node)) {
                let shard = transaction::watched_shard(cx, node);
                let (requests, named) = (MULTI.to_vec(), Vec::new());
                let guard =
                    PartRequests { division, shard, requests, commands: 0, is_waited_for: false, named };
                all.push(self.part(cx, guard, Some(node)));
            }
        }
        all
    }

    /// The state of a part until it is answered.
    fn part(&mut self, cx: &mut Context, part: PartRequests, watches_on: Option<LinkIx>) -> Part {
        let PartRequests { division, shard, requests, commands, is_waited_for, named } = part;
        let aim = match cx.engine.topology.is_cluster() {
            true => Aim::Slot(division as u16),
            false => Aim::Shard(shard),
        };
        let held = watches_on.map(|_| Held::Watched);
        let mut replay = Replay { requests, commands, named, aim, held, ..Replay::default() };
        let holds = replay.requests.capacity();
        cx.engine.memory.recount(&mut replay.counted_bytes, holds);
        let replay = self.replays.insert(replay);
        Part { shard, commands, is_waited_for, replay, watches_on, result: PartResult::Unsent }
    }

    /// Sends the next parts. Returns the execution once all are answered.
    fn go_on_executing(&mut self, cx: &mut Context, id: Id) -> Option<Execution> {
        while self.executions.get(id)?.left == 0 {
            match self.executions.get_mut(id)?.next() {
                Next::Check(parts) => {
                    parts.into_iter().for_each(|part| self.ask_whether_changed(cx, id, part))
                }
                Next::Send(parts) => parts.into_iter().for_each(|part| self.send_part(cx, id, part)),
                Next::Reply => return self.end_execution(cx, id),
            }
        }
        let execution = self.executions.get_mut(id)?;
        let holds = execution.held_bytes();
        cx.engine.memory.recount(&mut execution.counted_bytes, holds);
        None
    }

    fn ask_whether_changed(&mut self, cx: &mut Context, id: Id, part: u32) {
        let Some(execution) = self.executions.get_mut(id) else { return };
        let Some(ix) = execution.parts[part as usize].watches_on else { return };
        execution.left += 1;
        let asked = Asked {
            conn: id,
            place: OF_CHECK,
            part,
            owner: Owner::Task(TaskKind::Execution),
            kept: Kept::NO,
        };
        cx.engine.enqueue_on(ix, CLIENT_INFO, asked);
    }

    /// Sends one part, or notes why it cannot be sent.
    fn send_part(&mut self, cx: &mut Context, id: Id, part: u32) {
        let Some(execution) = self.executions.get(id) else { return };
        let profile = execution.profile;
        let Part { replay, watches_on, shard, .. } = execution.parts[part as usize];
        let shard = self.replays.get(replay).map_or(shard, |replay| cx.shard_of(replay.aim));
        let ix = match watches_on {
            Some(ix) => Ok(ix),
            None => cx.shared_link(profile, shard),
        };
        let (result, ix) = match ix {
            Ok(ix) => (PartResult::Sent, Some(ix)),
            Err(lost) => (PartResult::NotSent(lost), None),
        };
        if let Some(execution) = self.executions.get_mut(id) {
            execution.left += usize::from(ix.is_some());
            execution.parts[part as usize].shard = shard;
            execution.set_result(part, result);
        }
        if let Some(ix) = ix {
            self.queue_kept(cx, ix, replay, false);
            let asked = Asked {
                conn: id,
                place: OF_EXEC,
                part,
                owner: Owner::Task(TaskKind::Execution),
                kept: Kept::NO,
            };
            cx.engine.enqueue_on(ix, EXEC, asked);
            self.release_unless_kept(cx, replay);
        }
    }

    /// Drops the requests of a part that was sent, if no node may decline it.
    fn release_unless_kept(&mut self, cx: &mut Context, replay: Id) {
        if let Some(replay) = self.replays.get_mut(replay).filter(|_| !cx.engine.keeps.is_kept()) {
            cx.engine.pool.give(std::mem::take(&mut replay.requests));
            cx.engine.memory.recount(&mut replay.counted_bytes, 0);
        }
    }

    /// The transaction of the ticket, if it is one over several shards.
    pub(crate) fn replay_of_part(&self, ticket: &Ticket) -> Option<Id> {
        if ticket.owner != Owner::Task(TaskKind::Execution) || ticket.place != OF_EXEC {
            return None;
        }
        self.executions.get(ticket.conn).map(|execution| execution.parts[ticket.part as usize].replay)
    }

    /// Takes the result of a part, or of its check.
    fn take_result(&mut self, cx: &mut Context, ticket: &Ticket, outcome: Outcome<'_>) {
        let (id, part) = (ticket.conn, ticket.part);
        let Some(execution) = self.executions.get_mut(id) else { return };
        execution.left -= 1;
        let of_part = &mut execution.parts[part as usize];
        if ticket.place == OF_CHECK {
            match outcome {
                Outcome::Reply(reply) if !says_changed(reply) => return,
                Outcome::Reply(_) => {}
                // The link was given up, and with it the watch.
                Outcome::Lost(_) => of_part.watches_on = None,
            }
            return execution.set_result(part, PartResult::Changed);
        }
        let (watches_on, commands, replay) = (of_part.watches_on.take(), of_part.commands, of_part.replay);
        let refused = self.replays.get_mut(replay).and_then(|replay| replay.refused.take());
        self.forget_replay(cx, replay);
        if let (Some(node), Outcome::Reply(reply)) = (watches_on, &outcome) {
            end_of_watched_part(cx, node, reply);
        }
        let result = match outcome {
            Outcome::Reply(reply) if reply::is_error(reply) => {
                PartResult::Refused(refused.unwrap_or_else(|| text_of(reply)))
            }
            Outcome::Reply(reply) if reply::is_null(reply) => PartResult::Changed,
            Outcome::Reply(reply) if has_elements(reply, commands) => PartResult::Ran(reply.to_vec()),
            Outcome::Reply(_) => {
                PartResult::Unknown(Lost::Garbled { shard: self.name_of_part(cx, id, part) })
            }
            // No command of the part has run, and nobody knows whether the keys have changed.
            Outcome::Lost(lost) if watches_on.is_some() && (commands == 0 || lost.is_not_sent()) => {
                PartResult::Changed
            }
            Outcome::Lost(lost) if lost.is_not_sent() => PartResult::NotSent(lost),
            Outcome::Lost(lost) => PartResult::Unknown(lost),
        };
        if let Some(execution) = self.executions.get_mut(id) {
            execution.set_result(part, result);
        }
    }

    fn name_of_part(&self, cx: &Context, id: Id, part: u32) -> String {
        let shard = self.executions.get(id).map(|execution| execution.parts[part as usize].shard);
        shard.map_or_else(String::new, |shard| cx.engine.shard_name(shard).to_owned())
    }

    /// Notes that the link `ix` is gone, on which keys of an execution may be watched.
    pub(crate) fn note_watch_lost(&mut self, ix: LinkIx) {
        for index in 0..self.executions.places() {
            let Some(id) = self.executions.id_at(index) else { continue };
            let Some(execution) = self.executions.get_mut(id) else { continue };
            let of_node = (0..).zip(&mut execution.parts).find(|(_, part)| part.watches_on == Some(ix));
            match of_node {
                // The part is in flight: its ticket brings the loss.
                Some((_, Part { result: PartResult::Sent, .. })) | None => {}
                Some((part, of_part)) => {
                    of_part.watches_on = None;
                    if matches!(of_part.result, PartResult::Unsent) {
                        execution.set_result(part, PartResult::Changed);
                    }
                }
            }
        }
    }

    /// Ends an execution: nothing else is sent, and the remaining watches end.
    fn end_execution(&mut self, cx: &mut Context, id: Id) -> Option<Execution> {
        let mut execution = self.executions.remove(id)?;
        cx.engine.memory.recount(&mut execution.counted_bytes, 0);
        for part in &mut execution.parts {
            if let Some(node) = part.watches_on.take() {
                held::unwatch_on(cx, node);
            }
            self.forget_replay(cx, part.replay);
        }
        Some(execution)
    }

    /// Notes that the client has gone. EXEC goes on, but its reply gets no inlays.
    pub(crate) fn leave_execution(&mut self, cx: &mut Context, id: Id) {
        let mixture = self.executions.get_mut(id).and_then(|execution| execution.mixture.take());
        mixture.into_iter().for_each(|mixture| self.forget_mixture(cx, mixture));
    }
}

/// Releases the link `ix`, whose part was answered. An EXEC that failed without being discarded has left the keys
/// watched.
fn end_of_watched_part(cx: &mut Context, ix: LinkIx, reply: &[u8]) {
    if reply::is_error(reply) && !reply.starts_with(b"-EXECABORT ") {
        return cx.pins.doomed.push(ix);
    }
    fan::let_go_of(cx, ix);
}

/// Appends the reply.
fn write_execution(cx: &mut Context, execution: &Execution, out: &mut Vec<u8>) {
    let Execution { pieces, parts, resp3, .. } = execution;
    let names = parts.iter().map(|part| (cx.engine.topology.shard(part.shard).name.as_str(), part));
    let answered: Vec<Answered<'_>> = names
        .map(|(shard, part)| Answered { shard, commands: part.commands, result: &part.result })
        .collect();
    results::write(pieces, &answered, *resp3, (&mut cx.spare_values, &mut cx.engine.prng), out);
}

impl Execs {
    /// Takes the result of a part, or of its check, and goes on.
    pub(crate) fn absorb_result(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        ticket: &Ticket,
        outcome: Outcome<'_>,
    ) {
        self.take_result(cx, ticket, outcome);
        let Some(execution) = self.go_on_executing(cx, ticket.conn) else { return };
        let mut merged = cx.engine.pool.take();
        write_execution(cx, &execution, &mut merged);
        // The client may have gone.
        let Some(Peer::Client(session)) = peers.get_mut(execution.conn) else {
            return cx.engine.pool.give(merged);
        };
        let reply = match execution.mixture {
            None => merged,
            Some(mixture) => {
                let mut reply = cx.engine.pool.take();
                // The client's place waits for the inlays.
                session.replies.expect(execution.place, Owed::Task(TaskId::Mixture(mixture)));
                let is_answered = self.answer_mixture(cx, session, mixture, &merged, &mut reply);
                if !is_answered {
                    let (command, asked_us) = (execution.command, execution.asked_us);
                    cx.stats.tally.count_reply(command, asked_us, cx.engine.now_us, &merged);
                }
                cx.engine.pool.give(merged);
                if !is_answered {
                    session.hold.remove(Reason::Order);
                    return cx.engine.pool.give(reply);
                }
                reply
            }
        };
        let Execution { conn, place, command, asked_us, .. } = execution;
        cx.effects.push_back(Effect::End(TaskEnd { conn, place, command, asked_us, reply }));
    }
}

/// Whether a node's reply to CLIENT INFO shows that a watched key of the link has changed. An error shows nothing.
fn says_changed(reply: &[u8]) -> bool {
    let line = reply::as_bulk(reply).unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace());
    words.find_map(|word| word.strip_prefix(b"flags=")).is_some_and(|flags| flags.contains(&b'd'))
}

fn has_elements(reply: &[u8], count: u32) -> bool {
    reply::elements(reply).is_some_and(|elements| elements.len() == count as usize)
}

/// The text of an error's line.
pub(crate) fn text_of(error: &[u8]) -> Vec<u8> {
    let line = error.strip_prefix(b"-").unwrap_or(error);
    line.strip_suffix(b"\r\n").unwrap_or(line).to_vec()
}
