//! Commands over several shards that no node can carry out: SUNION, RENAME, BITOP and similar ones. If the operator
//! wants (`--cross-shard=emulate`), the worker carries them out.
//!
//! ```text
//!   session ─► emulate ─► plan ─► questions to shards ─┐
//!                          ▲                           ▼
//!                          └──── all were answered ◄───┘ ─► reply ─► the client's place
//! ```
//!
//! A plan ([`gather`], [`moves`]) decides and asks; it knows no connection. It takes its next step once all questions
//! of the last one were answered or lost. Each question has the time of a request. A plan has at most four steps, and
//! one more to undo its changes.
//!
//! A plan begins once all earlier requests of its client are answered. An earlier request with a large reply may be
//! sent again, and would then see the effect of the plan. Later requests are read once the plan has ended, as they
//! would wait for the command in a single Redis. A plan that has begun to write is completed even if its client leaves.
//!
//! The command table names the plan of each command ([`command::Across`]). Most use [`gather`]. `SMOVE` and `LMOVE` use
//! [`moves`], which transfers only one element. `BLPOP` and similar commands use [`pops`], and `XREADGROUP` uses
//! [`group_reads`]. Clients of the last two may wait: [`waits`] wakes the longest wait when a node reports a changed
//! key. docs/cross-shard.md tells users what to expect.

mod gather;
mod group_reads;
mod moves;
mod pops;
pub(crate) mod waits;

use crate::ConnId;
use crate::context::Context;
use crate::cross_slot;
use crate::cross_slot::remedy::Remedy;
use crate::emulate::waits::Waits;
use crate::errors::{self, Lost};
use crate::features::{Asked, Owed, Owner, Session, TaskId, TaskKind};
use crate::held;
use crate::limits::{CrossShard, Settings};
use crate::link::ProfileId;
use crate::link::kept::Kept;
use crate::link::profile::Profile;
use crate::outcome::{Effect, Outcome, Step, TaskEnd};
use crate::peers::{Peer, Peers};
use crate::requests::route::Keys;
use crate::session::Reason;
use command::{Across, Command, Number};
use gather::{Gather, Runs};
use group_reads::GroupRead;
use moves::{Journal, Move};
use pops::Pop;
use resp::{Request, encode};
use std::borrow::Cow;
use std::time::Duration;
use stdx::Slab;
use stdx::{Id, Instant};
use topology::{ShardId, TagRule, slot_of};
use waits::{Key, KeyWait};

/// One command over several shards, until it is answered.
#[derive(Debug)]
pub(crate) struct Emulation {
    conn: ConnId,
    /// The place in the client's order.
    place: u32,
    /// The profile of the links for its questions.
    profile: ProfileId,
    /// The command and the instant of the request, for the statistics.
    command: Number,
    asked_us: u32,
    plan: Plan,
    /// Answers to the questions of the present step.
    answers: Vec<Option<Answer>>,
    /// Questions without an answer yet.
    left: usize,
    /// Bytes of the answers so far.
    answered_bytes: usize,
    /// Bytes that the plan holds meanwhile.
    planned_bytes: usize,
    /// Memory in use, as it was counted last.
    counted_bytes: usize,
}

/// The plan of a command.
#[derive(Debug)]
enum Plan {
    Gather(Gather),
    Move(Move),
    Pop(Pop),
    GroupRead(GroupRead),
}

/// A request of a plan to one shard.
#[derive(Debug)]
struct Question {
    shard: ShardId,
    /// The database, if it is not that of the session.
    database: Option<u16>,
    request: Vec<u8>,
}

impl Question {
    fn new(shard: ShardId, args: &[&[u8]]) -> Question {
        let mut request = Vec::new();
        encode::request(&mut request, args);
        Question { shard, database: None, request }
    }
}

/// The answer to a question.
#[derive(Debug)]
enum Answer {
    /// The node's reply, and the unix time of its arrival.
    Reply { bytes: Vec<u8>, at_ms: u64 },
    /// There is no reply.
    Lost(Lost),
    /// The reply was larger than the limit of gathered bytes.
    TooLarge,
}

/// The next action of a plan.
#[derive(Debug)]
enum Next {
    Ask(Vec<Question>),
    /// Nothing until a key has changed.
    Wait,
    /// The plan has ended with this reply for the client.
    Reply(Vec<u8>),
}

/// The answer of a step that asks one question.
fn first(answers: Vec<Answer>) -> Answer {
    answers.into_iter().next().expect("a step asks at least one question, and all were answered")
}

impl Next {
    /// The plan has ended with this error.
    fn error(text: &str) -> Next {
        Next::Reply(errors::reply(text))
    }
}

/// Facts about the outside that a plan needs for its next step.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    /// Unix time.
    now_ms: u64,
    /// The seed for commands that are random.
    seed: u64,
    /// Limit of bytes that one command may gather.
    bytes_max: usize,
    /// Bytes that the command may use now.
    bytes_free: usize,
}

impl Plan {
    fn next(&mut self, answers: Vec<Answer>, conditions: &Conditions) -> Next {
        match self {
            Plan::Gather(gather) => gather.next(answers, conditions),
            Plan::Move(moving) => moving.next(answers),
            Plan::Pop(pop) => pop.next(answers),
            Plan::GroupRead(read) => read.next(answers),
        }
    }

    /// Whether the plan has changed nothing so far, and no question in flight could change anything.
    fn is_reading(&self) -> bool {
        match self {
            Plan::Gather(gather) => gather.is_reading(),
            Plan::Move(moving) => moving.is_reading(),
            Plan::Pop(pop) => pop.is_reading(),
            Plan::GroupRead(read) => read.is_reading(),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Plan::Gather(gather) => gather.held_bytes(),
            Plan::Move(moving) => moving.held_bytes(),
            Plan::Pop(pop) => pop.wait.held_bytes(),
            Plan::GroupRead(read) => read.held_bytes(),
        }
    }

    /// The keys for which the plan may wait.
    fn wait(&self) -> Option<&KeyWait> {
        match self {
            Plan::Gather(_) | Plan::Move(_) => None,
            Plan::Pop(pop) => Some(&pop.wait),
            Plan::GroupRead(read) => Some(&read.wait),
        }
    }

    fn wait_mut(&mut self) -> Option<&mut KeyWait> {
        match self {
            Plan::Gather(_) | Plan::Move(_) => None,
            Plan::Pop(pop) => Some(&mut pop.wait),
            Plan::GroupRead(read) => Some(&mut read.wait),
        }
    }

    /// Whether the client waits and no question is in flight.
    fn is_waiting(&self) -> bool {
        match self {
            Plan::Gather(_) | Plan::Move(_) => false,
            Plan::Pop(pop) => pop.is_waiting(),
            Plan::GroupRead(read) => read.is_waiting(),
        }
    }

    /// Questions about the changed keys for which the plan waits.
    fn look_again(&mut self) -> Option<Vec<Question>> {
        match self {
            Plan::Gather(_) | Plan::Move(_) => None,
            Plan::Pop(pop) => pop.look_again(),
            Plan::GroupRead(read) => read.look_again(),
        }
    }

    /// Keys from which the plan is about to take elements, by their places.
    fn in_hand(&self) -> Vec<usize> {
        match self {
            Plan::Gather(_) | Plan::Move(_) => Vec::new(),
            Plan::Pop(pop) => pop.in_hand(),
            Plan::GroupRead(read) => read.in_hand(),
        }
    }

    /// Whether replies of the present step may have any length: elements that were taken exist nowhere else.
    fn takes_any_length(&self) -> bool {
        match self {
            Plan::Gather(_) | Plan::Move(_) => false,
            Plan::Pop(pop) => pop.takes_any_length(),
            Plan::GroupRead(read) => !read.is_reading(),
        }
    }
}

impl Emulation {
    /// The client of the plan, and the place in its order.
    pub(crate) fn recipient(&self) -> (ConnId, u32) {
        (self.conn, self.place)
    }

    /// Questions without an answer yet.
    pub(crate) fn questions_left(&self) -> usize {
        self.left
    }

    /// Bytes as counted, and as held now.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.plan.held_bytes().max(self.answered_bytes))
    }

    /// Whether `bytes` more may be gathered.
    fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.plan.takes_any_length() || self.answered_bytes + bytes <= bytes_max
    }
}

/// Limit of a request that is checked for another error when its keys are on several shards. The check must cost no
/// more than a request.
const OBJECTED_TO_BYTES_MAX: usize = 4 << 10;
/// Beginnings of errors that depend on the content of the keyspace, or on commands that nodes have and the store lacks.
const NO_OBJECTIONS: [&[u8]; 2] = [b"-ERR no such key", b"-ERR command '"];

/// Whether Redis refuses `request` whatever its keys hold. If so, appends the error to `reply`.
fn objects_to(settings: &Settings, request: &Request<'_>, now_ms: u64, reply: &mut Vec<u8>) -> bool {
    let Some(new_evaluator) = settings.evaluator else { return false };
    new_evaluator(0, now_ms).run(request, false, reply);
    // Other errors, such as that of a missing group, depend on the values of keys.
    reply.starts_with(b"-ERR ") && !NO_OBJECTIONS.iter().any(|error| reply.starts_with(error))
}

/// A hash tag that lies in the slot of `source`.
fn tag_beside(source: &[u8]) -> Cow<'_, [u8]> {
    let tag = TagRule::Redis.tag(source);
    if !tag.is_empty() && !tag.contains(&b'}') {
        return Cow::Borrowed(tag);
    }
    // Such a name cannot stand in braces. One number in 16,384 lies in the slot; to find one takes half a millisecond.
    let slot = slot_of(tag);
    let mut numbers = (0_u32..).map(|number| number.to_string().into_bytes());
    Cow::Owned(numbers.find(|number| slot_of(number) == slot).unwrap_or_default())
}

/// The commands over several shards in progress.
#[derive(Debug, Default)]
pub(crate) struct Emulations {
    pub slab: Slab<Emulation>,
    /// The commands that wait for an element.
    pub waits: Waits,
}

impl Emulations {
    /// Sends the questions of a step. A question that cannot be sent is lost at once.
    fn ask(&mut self, cx: &mut Context, id: Id, questions: Vec<Question>) {
        let Some(emulation) = self.slab.get_mut(id) else { return };
        let profile = emulation.profile;
        emulation.answered_bytes = 0;
        // A plan may have thousands of keys: their bytes are summed up once per step and not per answer.
        emulation.planned_bytes = emulation.plan.held_bytes();
        emulation.left = questions.len();
        emulation.answers = (0..questions.len()).map(|_| None).collect();
        for (part, question) in questions.into_iter().enumerate() {
            let profile = match question.database {
                None => profile,
                Some(database) => {
                    let kind = Profile { database, ..cx.profiles.kind(profile) };
                    cx.profiles.of_kind(kind, cx.engine.now)
                }
            };
            match cx.shared_link(profile, question.shard) {
                Ok(ix) => {
                    // An emulation outlives its client: its own id stands in place of the client's.
                    let (part, owner) = (part as u32, Owner::Task(TaskKind::Emulation));
                    let asked = Asked { conn: id, place: 0, part, owner, kept: Kept::NO };
                    cx.engine.enqueue_on(ix, &question.request, asked);
                }
                Err(lost) => self.take_answer(id, part as u32, Answer::Lost(lost)),
            }
        }
        self.recount_emulation(cx, id);
    }

    fn take_answer(&mut self, id: Id, part: u32, answer: Answer) {
        let Some(emulation) = self.slab.get_mut(id) else { return };
        if let Some(place @ None) = emulation.answers.get_mut(part as usize) {
            *place = Some(answer);
            emulation.left -= 1;
        }
    }

    fn recount_emulation(&mut self, cx: &mut Context, id: Id) {
        if let Some(emulation) = self.slab.get_mut(id) {
            let holds = emulation.planned_bytes.max(emulation.answered_bytes);
            cx.engine.memory.recount(&mut emulation.counted_bytes, holds);
        }
    }

    fn forget_emulation(&mut self, cx: &mut Context, id: Id) -> Option<Emulation> {
        let mut emulation = self.slab.remove(id)?;
        self.leave_waits(id, &emulation.plan);
        cx.engine.memory.recount(&mut emulation.counted_bytes, 0);
        Some(emulation)
    }

    /// Notes that the client has gone. A plan that has begun to write is completed.
    pub(crate) fn leave_emulation(&mut self, cx: &mut Context, id: Id) {
        if self.slab.get(id).is_some_and(|emulation| emulation.plan.is_reading()) {
            self.forget_emulation(cx, id);
        } else if let Some(wait) = self.slab.get_mut(id).and_then(|emulation| emulation.plan.wait_mut()) {
            wait.client_left = true;
        }
    }

    /// Whether a reply of `bytes` to a question of emulation `id` may be held.
    pub(crate) fn may_gather(&self, cx: &Context, id: Id, bytes: usize) -> bool {
        let bytes_max = cx.limits.cross_shard_bytes_max;
        self.slab.get(id).is_some_and(|emulation| emulation.has_room(bytes, bytes_max))
    }

    /// Carries out a request whose keys are on several shards, if the operator wants it and a plan exists.
    pub(crate) fn emulate(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &Keys,
    ) -> Step {
        if cx.settings.cross_shard == CrossShard::Refuse || command.across == Across::Refused {
            refuse_across(cx, session, command, request);
            return Step::Done;
        }
        if !held::is_alone(session) {
            return cx.read_again();
        }
        match self.begin_emulation(cx, session, command, request, keys, cx.engine.now) {
            Ok(()) => {}
            Err(text) => cx.refuse(session, &text),
        }
        Step::Done
    }

    /// Takes an element for a request whose keys are on several shards, or waits until `deadline`, if the operator
    /// wants it.
    pub(crate) fn emulate_waiting(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &Keys,
        patience: Duration,
    ) {
        if cx.settings.cross_shard == CrossShard::Refuse || command.across == Across::Refused {
            return refuse_across(cx, session, command, request);
        }
        // A waiting client must not have a permit for large transfers.
        cx.unpin(session);
        if let Err(text) = self.begin_emulation(cx, session, command, request, keys, cx.engine.now + patience)
        {
            cx.refuse(session, &text);
        }
    }

    /// Asks the first questions. If this fails, no question is asked, and the error is for the client.
    fn begin_emulation(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &Keys,
        deadline: Instant,
    ) -> Result<(), String> {
        if keys.positions.len() > cx.limits.cross_shard_keys_max {
            return Err(errors::CROSS_SHARD_KEYS_MAX.to_owned());
        }
        let (plan, questions) = plan(cx, session, command, request, deadline)?;
        for part in &keys.parts {
            cx.shared_link(session.profile, part.shard).map_err(|lost| lost.text())?;
        }
        let id = self.slab.insert(Emulation {
            conn: session.conn,
            place: session.replies.next_place(),
            profile: session.profile,
            command: cx.engine.asking,
            asked_us: cx.engine.now_us,
            plan,
            answers: Vec::new(),
            left: 0,
            answered_bytes: 0,
            planned_bytes: 0,
            counted_bytes: 0,
        });
        let place = session.replies.reserve(Owed::Task(TaskId::Emulation(id)));
        session.hold.add(Reason::Order);
        cx.stats.counters.emulations += 1;
        self.ask(cx, id, questions);
        if let Some((_, reply)) = self.go_on(cx, id) {
            session.hold.remove(Reason::Order);
            cx.settle(session, place, &reply);
        }
        Ok(())
    }

    /// Takes the steps that are ready. Returns the ended plan and the client's reply.
    fn go_on(&mut self, cx: &mut Context, id: Id) -> Option<(Emulation, Vec<u8>)> {
        while self.slab.get(id)?.left == 0 {
            let conditions = conditions(cx);
            let emulation = self.slab.get_mut(id)?;
            let answers = std::mem::take(&mut emulation.answers);
            match emulation.plan.next(answers.into_iter().flatten().collect(), &conditions) {
                Next::Ask(questions) => self.ask(cx, id, questions),
                Next::Wait if self.wait_on_keys(cx, id) => {
                    if let Some(emulation) = self.slab.get_mut(id) {
                        emulation.planned_bytes = emulation.plan.held_bytes();
                    }
                    self.recount_emulation(cx, id);
                    return None;
                }
                Next::Wait => {
                    let emulation = self.forget_emulation(cx, id)?;
                    let reply = emulation.plan.wait()?.nothing();
                    return Some((emulation, reply));
                }
                Next::Reply(reply) => {
                    let emulation = self.forget_emulation(cx, id)?;
                    return Some((emulation, reply));
                }
            }
        }
        None
    }
}

/// Refuses a request whose keys are on several shards. Redis checks all arguments before keys, so faults of arguments
/// are reported first. A cluster checks the slots before.
#[cold]
pub(crate) fn refuse_across(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    request: &Request<'_>,
) {
    let is_looked_at = !cx.engine.topology.is_cluster() && request.bytes.len() <= OBJECTED_TO_BYTES_MAX;
    let mut reply = cx.engine.pool.take();
    if is_looked_at && objects_to(&cx.settings, request, unix_ms(cx), &mut reply) {
        cx.answer_error(session, &reply);
    } else {
        cross_slot::refuse_cross_slot(cx, session, Remedy::of(command));
    }
    cx.engine.pool.give(reply);
}

/// The plan for `request` and its first questions.
fn plan(
    cx: &mut Context,
    session: &Session,
    command: &Command,
    request: &Request<'_>,
    deadline: Instant,
) -> Result<(Plan, Vec<Question>), String> {
    let new_evaluator = cx.settings.evaluator.ok_or(errors::CROSS_SLOT)?;
    let topology = &cx.engine.topology;
    let shard_of = |key: &[u8]| topology.shard_of(key);
    match command.across {
        Across::Refused => Err(errors::CROSS_SLOT.to_owned()),
        Across::Gathered | Across::Carried => {
            let runs = Runs { new_evaluator, resp3: session.resp3 };
            let (gather, questions) = Gather::begin(command, request, shard_of, runs)?;
            Ok((Plan::Gather(gather), questions))
        }
        Across::Moved => {
            let source_name = cx.engine.shard_name(shard_of(request.arg(1))).to_owned();
            let journal = Journal { name: journal_name(cx, request.arg(1)), shard: source_name };
            let (moving, questions) = Move::begin(command, request, shard_of, journal, session.resp3)?;
            Ok((Plan::Move(moving), questions))
        }
        Across::Popped | Across::ReadByGroup => {
            check_arguments(cx, request)?;
            let mut positions = Vec::new();
            command.keys(request, &mut positions).map_err(|_| errors::CROSS_SLOT)?;
            let key = |&at: &usize| Key { name: request.arg(at).into(), shard: shard_of(request.arg(at)) };
            let wait = KeyWait::new(positions.iter().map(key).collect(), deadline, session.resp3);
            let [first_key, .., last_key] = positions[..] else {
                return Err(errors::CROSS_SLOT.to_owned());
            };
            if command.across == Across::ReadByGroup {
                let (read, questions) = GroupRead::begin(request, first_key, wait);
                return Ok((Plan::GroupRead(read), questions));
            }
            let (pop, questions) = Pop::begin(command, request, last_key, wait);
            Ok((Plan::Pop(pop), questions))
        }
    }
}

/// Refuses requests that Redis refuses whatever their keys hold.
fn check_arguments(cx: &Context, request: &Request<'_>) -> Result<(), String> {
    let mut reply = Vec::new();
    match objects_to(&cx.settings, request, unix_ms(cx), &mut reply) {
        true => Err(moves::said(&reply)),
        false => Ok(()),
    }
}

/// The name of a key that no other client uses. In a cluster it lies in the slot of `source`, since one command uses
/// both; over routes it takes the route of `source`.
fn journal_name(cx: &Context, source: &[u8]) -> Vec<u8> {
    let (worker, number) = (cx.settings.worker, cx.stats.counters.emulations);
    let name = format!("shardis:moving:{}:{worker}:{number}", cx.run_id).into_bytes();
    match cx.engine.topology.is_cluster() {
        true => [&name[..], b":{", &tag_beside(source), b"}"].concat(),
        false => [cx.engine.topology.route_of(source), &name].concat(),
    }
}

fn conditions(cx: &mut Context) -> Conditions {
    Conditions {
        now_ms: unix_ms(cx),
        seed: cx.engine.prng.next_u64(),
        bytes_max: cx.limits.cross_shard_bytes_max,
        bytes_free: (cx.engine.limits.memory_bytes_max / 2).saturating_sub(cx.engine.memory.held_bytes()),
    }
}

fn unix_ms(cx: &Context) -> u64 {
    cx.unix_time_us() / 1_000
}

impl Emulations {
    /// Takes the answer to question `part` of the present step.
    pub(crate) fn absorb_answer(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        id: Id,
        part: u32,
        outcome: Outcome<'_>,
    ) {
        let at_ms = unix_ms(cx);
        let bytes_max = cx.limits.cross_shard_bytes_max;
        // The emulation may have ended with its client.
        let Some(emulation) = self.slab.get_mut(id) else { return };
        let answer = match outcome {
            Outcome::Lost(lost) => Answer::Lost(lost),
            Outcome::Reply(reply) if emulation.has_room(reply.len(), bytes_max) => {
                emulation.answered_bytes += reply.len();
                Answer::Reply { bytes: reply.to_vec(), at_ms }
            }
            Outcome::Reply(_) => Answer::TooLarge,
        };
        self.take_answer(id, part, answer);
        self.recount_emulation(cx, id);
        self.advance_emulation(cx, peers, id);
    }

    /// Skips the reply to question `part`, which is too large.
    pub(crate) fn refuse_answer(&mut self, cx: &mut Context, peers: &mut Peers, id: Id, part: u32) {
        self.take_answer(id, part, Answer::TooLarge);
        self.advance_emulation(cx, peers, id);
    }

    fn advance_emulation(&mut self, cx: &mut Context, peers: &mut Peers, id: Id) {
        match self.go_on(cx, id) {
            Some((emulation, reply)) => answer_emulation(cx, peers, emulation, reply),
            None => self.show_wait_for_key(cx, peers, id),
        }
    }
}

/// Ends the plan. Its client gets `reply`, if it is still there.
pub(super) fn answer_emulation(cx: &mut Context, peers: &mut Peers, emulation: Emulation, reply: Vec<u8>) {
    let Some(Peer::Client(session)) = peers.get_mut(emulation.conn) else {
        return waits::note_unreturned(cx, &emulation, &reply);
    };
    held::set_waiting(cx, session, None);
    let Emulation { conn, place, command, asked_us, .. } = emulation;
    cx.effects.push_back(Effect::End(TaskEnd { conn, place, command, asked_us, reply }));
}
