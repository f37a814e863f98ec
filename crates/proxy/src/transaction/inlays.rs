//! Commands of a transaction that the proxy answers itself, at their places among the node's replies.
//!
//! ```text
//!   MULTI, GET a, CLIENT ID, GET b, EXEC ─► MULTI, GET a, GET b, EXEC ─► node ─► *2 1 2
//!                    └─► kept here ─────────────────────────────────────► *3 1 (client's number) 2
//! ```
//!
//! They are carried out when the node has said that it has run the others, and not at all if it has not: CLIENT SETNAME
//! within a transaction that fails sets no name. Nothing of the client that stands behind EXEC is carried out before.
//!
//! INFO, CLIENT LIST, and over several shards DBSIZE, KEYS, SCAN and RANDOMKEY are *asked*: they are carried out as without a
//! transaction, when all before them has been passed on. The reply to EXEC is interrupted for that and goes on behind the answer.
//! So they see what all commands of the transaction have done, those behind them too.
//!
//! An answer of ours may be much longer than its request: COMMAND takes 14 bytes and is answered with 190 KB. So each is made
//! when it has room in the client's output ([`engine::limits::Limits::relay_bytes_max`]), and in one turn no more than that and than
//! [`LAID_IN_MAX`] are. What is kept meanwhile are the requests, and what the node has said.
//!
//! SELECT goes to the node, since what follows it must run in the other database. The connection is the client's own
//! then, and is closed afterwards; the client goes on in the profile of that database.

use crate::core::Core;
use crate::errors;
use crate::features::{Owed, Session, TaskId};
#[cfg(doc)]
use crate::limits::Limits;
use crate::limits::SCRATCH_BYTES_KEPT;
use crate::link::profiles::Profile;
use crate::requests::Step;
use crate::requests::route::Scratch;
use crate::session::Reason;
use command::{Carry, Resolved, Within};
use resp::reply::{elements, elements_left};
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, Span, encode};
use std::vec;
use stdx::{Id, append};

/// Replies of one transaction that are laid in or passed on in one turn: some milliseconds.
const LAID_IN_MAX: usize = 4096;

/// The commands of one transaction that are not only the node's.
#[derive(Debug, Default)]
pub(crate) struct Inlays {
    inlays: Vec<Inlay>,
    /// Commands that are answered here.
    here: u32,
    /// Bytes of their requests.
    bytes: usize,
}

#[derive(Debug)]
struct Inlay {
    /// So many commands of the node stand before it.
    behind: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    /// This request is answered here, or asked.
    Here(Box<[u8]>),
    /// The node is told to use this database.
    Select(u16),
}

impl Inlays {
    /// Whether the node answers all, and nothing of it needs a look.
    pub(crate) fn is_empty(&self) -> bool {
        self.inlays.is_empty()
    }

    /// How many commands are answered here.
    pub(crate) fn here(&self) -> u32 {
        self.here
    }

    /// Whether the transaction ends in another database, perhaps.
    pub(crate) fn selects(&self) -> bool {
        self.inlays.iter().any(|inlay| matches!(inlay.what, What::Select(_)))
    }

    /// Bytes of the requests that are answered here.
    pub(crate) fn request_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.inlays.capacity() * size_of::<Inlay>() + self.bytes
    }

    /// `request` is answered here, behind `behind` commands of the node.
    pub(crate) fn add(&mut self, behind: u32, request: &[u8]) {
        self.here += 1;
        self.bytes += request.len();
        self.inlays.push(Inlay { behind, what: What::Here(request.into()) });
    }

    /// The node's command behind `behind` others chooses `database`.
    pub(crate) fn add_select(&mut self, behind: u32, database: u16) {
        self.inlays.push(Inlay { behind, what: What::Select(database) });
    }
}

/// What a client waits for whose transaction has inlays.
#[derive(Debug)]
pub(crate) struct Mixture {
    inlays: Inlays,
    /// How many commands its node runs.
    commands: u32,
    stage: Stage,
    /// Bytes of memory that the inlays hold.
    inlay_bytes: usize,
    /// What it holds, as it was counted last.
    counted_bytes: usize,
}

/// How far a mixture has come.
#[derive(Debug)]
enum Stage {
    /// Its node has not answered yet.
    Waiting,
    /// Its client gets the replies one by one.
    Laying(Laying),
}

/// The replies of a mixture that were not written yet.
#[derive(Debug)]
struct Laying {
    /// How many there are in all, if nothing was written.
    header: Option<usize>,
    /// Commands that are answered here, or that choose a database.
    inlays: vec::IntoIter<Inlay>,
    /// What the node has said to all its commands, and how much of that was passed on.
    replies: Vec<u8>,
    passed_bytes: usize,
    /// How many of them were passed on, and how many were not.
    passed: u32,
    left: usize,
    /// The database that the last SELECT has chosen.
    database: Option<u16>,
}

/// How far the replies of a mixture were written.
enum Laid {
    /// There are no more.
    All,
    /// Others have no room yet.
    Some,
    /// All before this request, which is to be carried out now.
    Until(Box<[u8]>),
}

/// What comes next of a mixture.
enum Piece {
    Header(usize),
    /// A reply of the node, of so many bytes.
    Passed(usize),
    /// This request is answered here, or asked.
    Here(Box<[u8]>),
    End,
}

impl Mixture {
    /// What it was counted for, and what it holds.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.held_bytes())
    }
}

impl Mixture {
    fn new(inlays: Inlays, commands: u32) -> Mixture {
        let inlay_bytes = inlays.held_bytes();
        Mixture { inlays, commands, stage: Stage::Waiting, inlay_bytes, counted_bytes: 0 }
    }

    /// Bytes of memory that it holds.
    fn held_bytes(&self) -> usize {
        let replies = match &self.stage {
            Stage::Waiting => 0,
            Stage::Laying(laying) => laying.replies.capacity(),
        };
        self.inlay_bytes + replies
    }

    /// The node has answered `reply`. False if that is not one reply to each command.
    fn begin(&mut self, reply: &[u8]) -> bool {
        let Some(replies) = elements(reply).filter(|replies| replies.len() == self.commands as usize) else {
            return false;
        };
        let left = replies.len();
        self.stage = Stage::Laying(Laying {
            header: Some(left + self.inlays.here as usize),
            inlays: std::mem::take(&mut self.inlays.inlays).into_iter(),
            replies: replies.rest().to_vec(),
            passed_bytes: 0,
            passed: 0,
            left,
            database: None,
        });
        true
    }
}

impl Laying {
    fn next(&mut self) -> Piece {
        if let Some(count) = self.header.take() {
            return Piece::Header(count);
        }
        let chosen = match self.inlays.as_slice().first() {
            Some(inlay) if inlay.behind == self.passed => match self.inlays.next().map(|inlay| inlay.what) {
                Some(What::Here(request)) => return Piece::Here(request),
                Some(What::Select(database)) => Some(database),
                None => None,
            },
            _ => None,
        };
        let Some(reply) = elements_left(&self.replies[self.passed_bytes..], self.left).next() else {
            return Piece::End;
        };
        if reply == b"+OK\r\n" {
            self.database = chosen.or(self.database);
        }
        let len = reply.len();
        (self.passed, self.left) = (self.passed + 1, self.left - 1);
        Piece::Passed(len)
    }

    /// The next `len` bytes that the node has said.
    fn pass(&mut self, len: usize) -> &[u8] {
        let start = self.passed_bytes;
        self.passed_bytes += len;
        &self.replies[start..self.passed_bytes]
    }
}

impl Core {
    /// Reserves what the reply to EXEC is for a transaction of `commands` commands of the node and `inlays`. Nothing behind
    /// it is carried out before it was answered, and nothing is pending before it.
    pub(crate) fn expect_mixture(&mut self, session: &mut Session, inlays: Inlays, commands: u32) -> Owed {
        session.hold.add(Reason::Order);
        let id = self.tasks.mixtures.insert(Mixture::new(inlays, commands));
        self.recount_mixture(id);
        Owed::Task(TaskId::Mixture(id))
    }

    /// Answers EXEC of `inlays` alone.
    pub(crate) fn answer_here_alone(&mut self, session: &mut Session, inlays: Inlays) {
        let owed = self.expect_mixture(session, inlays, 0);
        session.replies.reserve(owed);
        if let Owed::Task(TaskId::Mixture(id)) = owed {
            self.answer_mixture(session, id, b"*0\r\n", &mut Vec::new());
        }
    }

    /// The node has said nothing to EXEC, and will not.
    pub(crate) fn lose_mixture(&mut self, session: &mut Session, id: Id) {
        self.forget_mixture(id);
        session.features.end_caching();
        self.lift_mixture_barrier(session);
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget_mixture(&mut self, id: Id) {
        if let Some(mut mixture) = self.tasks.mixtures.remove(id) {
            self.engine.memory.recount(&mut mixture.counted_bytes, 0);
        }
    }

    fn recount_mixture(&mut self, id: Id) {
        if let Some(mixture) = self.tasks.mixtures.get_mut(id) {
            let holds = mixture.held_bytes();
            self.engine.memory.recount(&mut mixture.counted_bytes, holds);
        }
    }

    fn lift_mixture_barrier(&mut self, session: &mut Session) {
        session.hold.remove(Reason::Order);
        self.engine.todo.clients_to_resume.push(session.conn);
    }

    /// The node has answered EXEC with `reply`. True if `out` is what the client gets; else that is laid in.
    pub(crate) fn answer_mixture(
        &mut self,
        session: &mut Session,
        id: Id,
        reply: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(mixture) = self.tasks.mixtures.get_mut(id) else { return false };
        if mixture.begin(reply) {
            self.recount_mixture(id);
            self.engine.todo.clients_to_resume.push(session.conn);
            return false;
        }
        match elements(reply) {
            Some(_) => errors::write(out, errors::MERGE_FAILED),
            None => append(out, reply),
        }
        self.lose_mixture(session, id);
        true
    }

    /// Bytes that are held for the reply to the session's EXEC.
    pub(crate) fn mixture_bytes(&self, session: &Session) -> usize {
        let bytes = |owed| match owed {
            Owed::Task(TaskId::Mixture(id)) => {
                self.tasks.mixtures.get(id).map_or(0, |mixture| mixture.counted_bytes)
            }
            _ => 0,
        };
        session.replies.owed_to_it().map(bytes).sum()
    }

    /// Whether the session gets the replies of its transaction one by one, and has not got all.
    pub(crate) fn is_laying_in(&self, session: &Session) -> bool {
        session.replies.front_owed().is_some_and(|owed| self.is_laid_in(owed))
    }

    /// Whether `owed` is a transaction whose replies its client gets one by one.
    pub(crate) fn is_laid_in(&self, owed: Owed) -> bool {
        let Owed::Task(TaskId::Mixture(id)) = owed else { return false };
        self.tasks.mixtures.get(id).is_some_and(|mixture| matches!(mixture.stage, Stage::Laying(_)))
    }

    /// Writes the next replies of the session's transaction, as many as have room.
    pub(crate) fn lay_in(&mut self, session: &mut Session) {
        if !session.hold.has(Reason::Order) || !self.is_laying_in(session) {
            return;
        }
        let Some(Owed::Task(TaskId::Mixture(id))) = session.replies.front_owed() else { return };
        let Some(mixture) = self.tasks.mixtures.get_mut(id) else { return };
        let Stage::Laying(mut laying) = std::mem::replace(&mut mixture.stage, Stage::Waiting) else { return };
        match self.lay_in_some(session, &mut laying) {
            Laid::All => {
                self.forget_mixture(id);
                session.features.end_caching();
                session.replies.finish_relay(&mut self.engine.pool);
                self.lift_mixture_barrier(session);
                self.use_database(session, &laying);
                self.note_settled(session, 0);
                return;
            }
            Laid::Some => {}
            Laid::Until(request) => {
                self.use_database(session, &laying);
                self.carry_out_inlay(session, &request, Owed::Task(TaskId::Mixture(id)));
            }
        }
        if let Some(mixture) = self.tasks.mixtures.get_mut(id) {
            mixture.stage = Stage::Laying(laying);
        }
        if session.replies.output().len() < self.engine.limits.relay_bytes_max {
            self.engine.todo.clients_of_next_turn.push(session.conn);
        }
        self.engine.list_client(session);
    }

    /// The session goes on in the database that the last SELECT has chosen.
    fn use_database(&mut self, session: &mut Session, laying: &Laying) {
        if let Some(database) = laying.database {
            self.change_profile(session, Profile { database, ..self.profiles.kind(session.profile) });
        }
    }

    fn lay_in_some(&mut self, session: &mut Session, laying: &mut Laying) -> Laid {
        let mut scratch = std::mem::take(&mut self.parsing.scratch);
        let mut laid = Laid::Some;
        for _ in 0..LAID_IN_MAX {
            if session.replies.output().len() >= self.engine.limits.relay_bytes_max {
                break;
            }
            scratch.reply.clear();
            match laying.next() {
                Piece::Header(count) => encode::array_header(&mut scratch.reply, count),
                Piece::Passed(len) => session.replies.relay(laying.pass(len), &mut self.engine.pool),
                Piece::Here(request) if self.write_inlay(session, &request, &mut scratch) => {}
                Piece::Here(request) => {
                    laid = Laid::Until(request);
                    break;
                }
                Piece::End => {
                    laid = Laid::All;
                    break;
                }
            }
            session.replies.relay(&scratch.reply, &mut self.engine.pool);
        }
        scratch.reply.clear();
        scratch.reply.shrink_to(SCRATCH_BYTES_KEPT);
        self.parsing.scratch = scratch;
        laid
    }

    /// Carries out `request`, which was checked when it was kept, and writes its reply. False if others are to be asked.
    fn write_inlay(&mut self, session: &mut Session, request: &[u8], scratch: &mut Scratch) -> bool {
        let request = scan(request, &mut scratch.args, &mut scratch.inline);
        let (resolved, number) = command::resolve_numbered(&request);
        let Resolved::Command(command) = resolved else { return false };
        let Carry::Here(local) = command.carry else { return false };
        if command.within_transaction() == Within::Asked {
            return false;
        }
        let asking = std::mem::replace(&mut self.engine.asking, number);
        self.compose(session, local, command, &request, &mut scratch.reply);
        debug_assert!(!scratch.reply.is_empty(), "what is answered later is asked");
        if resp::reply::is_error(&scratch.reply) {
            self.stats.tally.count_failed(self.engine.asking, &scratch.reply);
        }
        self.engine.asking = asking;
        true
    }

    /// Carries out `request` as without a transaction. `rest` goes on behind its reply.
    fn carry_out_inlay(&mut self, session: &mut Session, request: &[u8], rest: Owed) {
        let interrupted = session.replies.interrupt_relay(&mut self.engine.pool);
        let mut scratch = std::mem::take(&mut self.parsing.scratch);
        let request = scan(request, &mut scratch.args, &mut scratch.inline);
        let (resolved, number) = command::resolve_numbered(&request);
        let asking = std::mem::replace(&mut self.engine.asking, number);
        if let Resolved::Command(command) = resolved {
            let (keys, reply) = (&mut scratch.keys, &mut scratch.reply);
            let step = self.carry_out_admitted(session, command, &request, keys, reply);
            debug_assert_eq!(step, Step::Done, "nothing is pending before it");
        }
        self.engine.asking = asking;
        self.parsing.scratch = scratch;
        session.replies.resume_relay(interrupted, rest, &mut self.engine.pool);
    }

    /// The session waits for a transaction, and one of its places was filled: the rest may be at the front now.
    #[cold]
    pub(crate) fn lay_in_next(&mut self, session: &Session) {
        if self.is_laying_in(session) {
            self.engine.todo.clients_to_resume.push(session.conn);
        }
    }
}

/// `request`, which was scanned before it was kept.
fn scan<'a>(request: &'a [u8], args: &'a mut Vec<Span>, inline: &mut Vec<u8>) -> Request<'a> {
    let scanned = Scanner::default().scan(request, &RequestLimits::default(), args, inline);
    debug_assert!(matches!(scanned, Ok(Scanned::Request { .. })), "it was scanned before");
    Request::new(request, args)
}
