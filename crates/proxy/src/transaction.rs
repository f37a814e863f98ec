//! MULTI, EXEC and DISCARD, without a connection of the client's own; with WATCH, over the one that watches ([`crate::held`]).
//!
//! ```text
//! client:   MULTI    SET a 1    INCR b      EXEC
//!            +OK     +QUEUED    +QUEUED      │         the node's n + 2 replies: n + 1 for nobody,
//!              └────────┴──────────┴─────────┴──► MULTI, SET a 1, INCR b, EXEC ──► the last for the client
//! ```
//!
//! Commands are checked when they come, as Redis checks them, and kept here. With EXEC all of them go out in one piece
//! over the connection that all clients share, so that nothing of another client can get between. All keys must be on
//! one shard: the first command that does not fit is refused, and EXEC then says so, as after every refused command.
//! What a node could not answer truthfully for all shards is refused the same way ([`command::Within`] says what); what
//! the proxy answers itself is laid in ([`crate::transaction::inlays`]).
//!
//! With `--transactions=per-shard` the keys may be on several shards: [`crate::transaction::divided`] and
//! [`crate::transaction::execution`].
//!
//! A node that loses the connection before it has read EXEC runs nothing. So what is told of a lost transaction hangs
//! on whether a byte of EXEC was written.
//!
//! A transaction that chooses a database has a link of its own. If a byte of EXEC was written before the node lost the connection,
//! the client is told "outcome unknown"; else `EXECABORT`.

pub(crate) mod divided;
pub(crate) mod execution;
pub(crate) mod inlays;
pub(crate) mod results;

use crate::core::Core;
use crate::cross_slot::Remedy;
use crate::errors;
use crate::features::{Asked, Owed, Owner, Session, TaskId, Ticket};
use crate::held::Watch;
use crate::limits::Transactions;
use crate::link::LinkIx;
use crate::login::passing;
use crate::redirect::{self, Aim, Declined};
use crate::requests::Step;
use crate::requests::route::{self, Keys, Route};
use crate::scripts::Named;
use crate::tracking::KeyList;
use crate::transaction::divided::{Divided, Piece};
use crate::transaction::execution::{Watched, text_of};
use crate::transaction::inlays::Inlays;
use command::{Carry, Command, Guard, Local, Naming, Refusal, Topic, Transaction as Act, Within};
use resp::{Request, encode};
use stdx::{BufferPool, Id, append};
use topology::ShardId;

/// What a client has begun with MULTI.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// MULTI and the commands behind it, as they will be sent.
    requests: Vec<u8>,
    /// How many commands.
    commands: u32,
    /// Where the keys are; `None` if no command has named one yet.
    shard: Option<ShardId>,
    /// The division that all of them are in; `None` if no command has named one yet.
    division: Option<u32>,
    /// How its keys are divided, once they are in several divisions.
    divided: Option<Box<Divided>>,
    /// Scripts and functions that commands name, as long as it is not divided.
    named: Vec<Named>,
    /// A command may write.
    may_write: bool,
    /// Other clients may wait for what a command brings.
    is_waited_for: bool,
    /// A command was refused: EXEC will say so, and nothing is kept any more.
    is_spoilt: bool,
    /// What is not, or not only, the node's.
    inlays: Inlays,
    /// Keys that its client reads with EXEC, and wants to be told of.
    pub reads: KeyList,
    /// What it holds, as it was counted last.
    counted_bytes: usize,
}

/// Why a command does not fit into a transaction.
enum Misfit {
    /// Its keys live elsewhere.
    CrossSlot(Remedy),
    /// A limit, in the words of an error.
    Limit(&'static str),
}

/// A transaction that was sent, until it is answered: its node may decline it.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// MULTI and the commands behind it.
    requests: Vec<u8>,
    commands: u32,
    named: Vec<Named>,
    /// Whose keys it is about.
    pub aim: Aim,
    /// What is added to its reply here.
    mixture: Option<Id>,
    /// It went over a connection of its client's own: it is not sent again elsewhere.
    pub held: Option<Held>,
    /// Why a command of it was declined, so that EXEC discards it.
    pub declined: Option<Declined>,
    /// Why a command of it was refused, if it is a part of a transaction over several shards.
    pub refused: Option<Vec<u8>>,
    counted_bytes: usize,
}

impl Replay {
    /// Whether something is added to its reply here.
    pub(crate) fn has_mixture(&self) -> bool {
        self.mixture.is_some()
    }

    /// What it was counted for, and what it holds.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.requests.capacity())
    }
}

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Why a transaction goes over a connection of its client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Keys are watched there.
    Watched,
    /// It leaves the connection other than it was.
    Altered,
}

/// No transaction has this name.
const NO_REPLAY: Id = Id { index: u32::MAX, generation: 0 };

/// Where a command of a transaction may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// There, for its keys, which are in this division.
    At(ShardId, u32),
    /// Wherever the others do.
    Anywhere,
    /// The same; those behind it run in this database.
    Selects(u16),
    /// It does not: it is answered by the proxy, or asked of all.
    Here,
}

impl Transaction {
    fn new(pool: &mut BufferPool) -> Transaction {
        let mut requests = pool.take();
        append(&mut requests, MULTI);
        Transaction {
            requests,
            commands: 0,
            shard: None,
            division: None,
            divided: None,
            named: Vec::new(),
            may_write: false,
            is_waited_for: false,
            is_spoilt: false,
            inlays: Inlays::default(),
            reads: KeyList::default(),
            counted_bytes: 0,
        }
    }

    /// How many commands wait for EXEC.
    pub(crate) fn commands(&self) -> u32 {
        self.commands + self.inlays.here()
    }

    /// Whether one of them may write.
    pub(crate) fn may_write(&self) -> bool {
        self.may_write
    }

    /// Whether the proxy has a part in the reply.
    pub(crate) fn has_inlays(&self) -> bool {
        !self.inlays.is_empty()
    }

    /// Bytes of its requests.
    fn request_bytes(&self) -> usize {
        self.requests.len() + self.inlays.request_bytes()
    }

    /// Whether it will not be carried out.
    pub(crate) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// What it was counted for.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let divided = self.divided.as_ref().map_or(0, |divided| divided.held_bytes());
        let named = self.named.capacity() * size_of::<Named>();
        self.requests.capacity() + named + self.inlays.held_bytes() + self.reads.held_bytes() + divided
    }

    /// How many parts it has.
    fn parts(&self) -> usize {
        self.divided.as_ref().map_or(usize::from(self.division.is_some()), |divided| divided.len())
    }

    /// Whether keys of `division` were named.
    fn has(&self, division: u32) -> bool {
        self.division == Some(division) || self.divided.as_ref().is_some_and(|divided| divided.has(division))
    }

    /// Adds a command with keys at `place`, for which there is room.
    fn keep(
        &mut self,
        command: &Command,
        (request, keys): (&Request<'_>, &Keys),
        place: Option<Place>,
        named: Option<Named>,
    ) {
        let bytes = request.bytes.len();
        let own = match place {
            Some(Place::Here) => return self.inlays.add(self.commands, request.bytes),
            Some(Place::At(shard, division)) => Some((division, shard)),
            _ => None,
        };
        if let Some(Place::Selects(database)) = place {
            self.inlays.add_select(self.commands, database);
        }
        match (place, command.carry) {
            (None, Carry::Split(merge)) => {
                self.divide();
                if let Some(divided) = &mut self.divided {
                    divided.add_split(command, merge, (request, keys), &mut self.requests);
                }
            }
            (Some(Place::At(_, division)), _) if self.division.is_some_and(|own| own != division) => {
                self.divide().add(command, own, bytes, named);
                append(&mut self.requests, request.bytes);
            }
            _ => {
                match &mut self.divided {
                    Some(divided) => divided.add(command, own, bytes, named),
                    None => self.named.extend(named),
                }
                append(&mut self.requests, request.bytes);
            }
        }
        if let (Some((division, shard)), None) = (own, self.division) {
            (self.division, self.shard) = (Some(division), Some(shard));
        }
        self.commands += 1;
        self.is_waited_for |= command.may_end_a_wait();
    }

    /// How its keys are divided. Until it is asked they were in one division.
    fn divide(&mut self) -> &mut Divided {
        let begin = || {
            let bytes = self.requests.len() - MULTI.len();
            let (commands, is_waited_for) = (self.commands, self.is_waited_for);
            let first = Piece::Whole { part: 0, commands, bytes, is_waited_for };
            let place = self.division.zip(self.shard);
            let first = (commands > 0).then_some(first);
            Box::new(Divided::begin(place, first, std::mem::take(&mut self.named)))
        };
        self.divided.get_or_insert_with(begin)
    }
}

impl Core {
    /// Carries out MULTI and what belongs to it, for a client that has no transaction begun.
    pub(crate) fn transact(
        &mut self,
        session: &mut Session,
        command: &Command,
        act: Act,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        match act {
            Act::Begin => {
                let mut transaction = Transaction::new(&mut self.engine.pool);
                if let Watch::On(node) = session.features.watch
                    && self.settings.transactions == Transactions::OneShard
                {
                    transaction.shard = Some(self.watched_shard(node));
                }
                self.recount_transaction(&mut transaction);
                session.features.transaction = Some(Box::new(transaction));
                self.engine.answer(session, OK);
            }
            Act::Execute => self.refuse(session, errors::EXEC_WITHOUT_MULTI),
            Act::Discard => self.refuse(session, errors::DISCARD_WITHOUT_MULTI),
            Act::Watch => return self.watch(session, command, request, keys),
            Act::Unwatch => {
                self.end_watch(session);
                self.engine.answer(session, OK);
            }
        }
        Step::Done
    }

    /// WATCH, on a connection of the client's own.
    fn watch(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        if !self.is_alone(session) {
            return self.read_again();
        }
        if self.runs_per_shard() {
            return self.watch_parts(session, command, request, keys);
        }
        let Route::One(shard) = route::route(command, request, &self.engine.topology, keys) else {
            self.refuse_cross_slot(session, Remedy::PerShard);
            return Step::Done;
        };
        match session.features.watch {
            Watch::On(ix) if self.watched_shard(ix) != shard => {
                self.refuse_cross_slot(session, Remedy::PerShard);
            }
            Watch::On(ix) if self.engine.links[ix].profile != session.profile => {
                self.refuse(session, errors::WATCH_ELSEWHERE);
            }
            Watch::On(ix) => self.send_held(session, ix, request.bytes, Owed::Node),
            // EXEC will fail whatever becomes of these keys.
            Watch::Lost => self.engine.answer(session, OK),
            Watch::No | Watch::Asked(_) | Watch::Ending(_) | Watch::Several(_) => {
                match self.hold(session, shard) {
                    Ok(ix) => {
                        let first = keys.positions.first().map(|&at| self.aim_at(request.arg(at)));
                        if let Some(Aim::Slot(slot)) = first {
                            self.engine.links[ix].features.watched_slot = Some(slot);
                        }
                        session.features.watch = Watch::Asked(ix);
                        self.send_held(session, ix, request.bytes, Owed::Node);
                    }
                    Err(lost) => self.refuse(session, &lost.text()),
                }
            }
        }
        Step::Done
    }

    /// The shard of the keys that are watched on the connection `ix`.
    pub(crate) fn watched_shard(&self, ix: LinkIx) -> ShardId {
        let link = &self.engine.links[ix];
        link.features.watched_slot.map_or(link.shard, |slot| self.engine.topology.shard_at(slot))
    }

    /// Carries out or keeps `command`, of a client that has sent MULTI.
    pub(crate) fn carry_out_in_transaction(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        match command.carry {
            Carry::Transaction(Act::Begin) => self.complain(session, errors::NESTED_MULTI),
            Carry::Transaction(Act::Watch) => self.complain(session, errors::WATCH_IN_MULTI),
            Carry::Transaction(Act::Execute) => return self.execute(session),
            Carry::Transaction(Act::Discard) => {
                self.end_transaction(session);
                self.engine.answer(session, OK);
            }
            Carry::Here(local @ (Local::Quit | Local::Reset)) => {
                self.answer_here(session, local, command, request, reply);
            }
            _ if command.within_transaction() == Within::NotInRedis => {
                self.refuse(session, errors::NOT_IN_MULTI);
            }
            _ => self.keep_for_exec(session, command, request, keys),
        }
        Step::Done
    }

    /// An error that leaves the transaction as it is.
    fn complain(&mut self, session: &mut Session, text: &str) {
        let mut reply = self.engine.pool.take();
        errors::write(&mut reply, text);
        self.stats.tally.count_failed(self.engine.asking, &reply);
        self.engine.answer(session, &reply);
        self.engine.pool.give(reply);
    }

    /// Keeps a command until EXEC, if it can be a part of the transaction.
    fn keep_for_exec(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        let place = match self.place_in_transaction(command, request, keys) {
            Ok(place) => place,
            Err(refusal) => return self.refuse_command(session, command, refusal, request),
        };
        let fits = match self.settings.transactions {
            Transactions::OneShard => self.fits_one_shard(session, command, place),
            Transactions::PerShard => self.fits_parts(session, command, keys, place),
        };
        let bytes = bytes_to_keep(request, keys, place);
        let Some(transaction) = &mut session.features.transaction else { return };
        if transaction.is_spoilt {
            return self.engine.answer(session, QUEUED);
        }
        let misfit = match fits {
            Ok(()) if transaction.request_bytes() + bytes > self.limits.transaction_bytes_max => {
                Some(Misfit::Limit(errors::TRANSACTION_TOO_LARGE))
            }
            fits => fits.err(),
        };
        match misfit {
            Some(Misfit::CrossSlot(remedy)) => return self.refuse_cross_slot(session, remedy),
            Some(Misfit::Limit(text)) => return self.refuse(session, text),
            None => {}
        }
        transaction.may_write |= command.may_write();
        let named = match command.carry {
            Carry::Script(script) => self.board.scripts.named(script, request, self.limits.script_bytes_max),
            _ => None,
        };
        transaction.keep(command, (request, keys), place, named);
        self.recount_transaction(transaction);
        self.engine.answer(session, QUEUED);
    }

    /// Whether a command with keys at `place` may be added to a transaction on one shard.
    fn fits_one_shard(
        &self,
        session: &Session,
        command: &Command,
        place: Option<Place>,
    ) -> Result<(), Misfit> {
        // In a cluster the slot has perhaps another owner by now.
        let (is_cluster, watched) = match session.features.watch {
            Watch::On(node) => (self.engine.topology.is_cluster(), Some(self.watched_shard(node))),
            _ => (self.engine.topology.is_cluster(), None),
        };
        let (shard, division) =
            session.features.transaction.as_ref().map_or((None, None), |it| (it.shard, it.division));
        match (place, if is_cluster { watched } else { shard }) {
            (Some(Place::At(shard, own)), all)
                if all.is_none_or(|all| shard == all) && division.is_none_or(|all| own == all) => {}
            (Some(Place::Anywhere | Place::Selects(_) | Place::Here), _) => {}
            (Some(Place::At(..)), _) => return Err(Misfit::CrossSlot(Remedy::PerShard)),
            (None, _) if matches!(command.carry, Carry::Split(_)) => {
                return Err(Misfit::CrossSlot(Remedy::PerShard));
            }
            (None, _) => return Err(Misfit::CrossSlot(Remedy::HashTag)),
        }
        Ok(())
    }

    /// The same of a transaction whose keys may be on several shards.
    fn fits_parts(
        &self,
        session: &Session,
        command: &Command,
        keys: &Keys,
        place: Option<Place>,
    ) -> Result<(), Misfit> {
        let Some(transaction) = &session.features.transaction else { return Ok(()) };
        let more = match place {
            Some(Place::At(_, division)) => usize::from(!transaction.has(division)),
            Some(Place::Selects(_)) if transaction.divided.is_some() => {
                return Err(Misfit::Limit(errors::SELECT_IN_PARTS));
            }
            Some(Place::Anywhere | Place::Selects(_) | Place::Here) => 0,
            None if !matches!(command.carry, Carry::Split(_)) => {
                return Err(Misfit::CrossSlot(Remedy::HashTag));
            }
            None => keys.parts.iter().filter(|part| !transaction.has(part.division)).count(),
        };
        let parts = transaction.parts() + more;
        match () {
            () if parts > self.limits.transaction_parts_max => Err(Misfit::Limit(errors::TRANSACTION_PARTS)),
            () if parts > 1 && transaction.inlays.selects() => Err(Misfit::Limit(errors::SELECT_IN_PARTS)),
            () => Ok(()),
        }
    }

    fn recount_transaction(&mut self, transaction: &mut Transaction) {
        let holds = transaction.held_bytes();
        self.engine.memory.recount_unread(&mut transaction.counted_bytes, holds);
    }

    /// Where `command` may run as a part of a transaction; `None` if its keys are on several shards.
    fn place_in_transaction(
        &mut self,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Result<Option<Place>, Refusal> {
        let has_one_shard = self.engine.topology.is_undivided();
        match command.carry {
            Carry::Admin(why, _) if !self.settings.allow_admin => return Err(Refusal::Admin(why)),
            // Elsewhere those who are subscribed to the channel would not hear of it.
            Carry::Publish(kind) if kind != Topic::ShardChannel && self.engine.topology.is_cluster() => {
                // All nodes of a cluster pass it on.
                return Ok(Some(Place::Anywhere));
            }
            Carry::Publish(_) => return Ok(Some(self.place_of(request.arg(1)))),
            Carry::ShardIf(Guard::Patterns) if has_one_shard => {}
            Carry::ShardIf(Guard::Database(naming)) if self.lacks_database(naming, request) => {
                return Err(Refusal::Never(MISSING_DATABASE));
            }
            Carry::ShardIf(guard) => guard.check(request)?,
            Carry::OnlyShard(why) if !has_one_shard => return Err(Refusal::Never(why)),
            Carry::OnlyShard(_) if self.lacks_database(Naming::Both, request) => {
                return Err(Refusal::Never(MISSING_DATABASE));
            }
            _ => {}
        }
        match self.within_transaction(command) {
            Within::Kept => {}
            Within::KeptByOneShard | Within::KeptByOneShardOrAsked if has_one_shard => {
                // What it does to scripts is noted now: to load one that is there already does no harm.
                self.note_scripts(command, request, &[]);
                return Ok(Some(Place::Anywhere));
            }
            Within::KeptByOneShard => return Err(Within::NEEDS_ALL_SHARDS),
            Within::Here | Within::Asked | Within::KeptByOneShardOrAsked => return Ok(Some(Place::Here)),
            // An error is an answer too, and ours: the node may have more databases.
            Within::Select => {
                let database = self.database(request.arg(1));
                return Ok(Some(database.map_or(Place::Here, Place::Selects)));
            }
            Within::Refused(refusal) => return Err(refusal),
            Within::AtOnce | Within::NotInRedis => {
                debug_assert!(false, "it was carried out or refused before");
            }
        }
        Ok(match route::route(command, request, &self.engine.topology, keys) {
            // A key without its value: the node that gets all of it refuses it.
            Route::Parts if self.runs_per_shard() && !command.splits_evenly(request.len()) => {
                Some(Place::Anywhere)
            }
            Route::Parts => None,
            Route::One(_) if command.single_key().is_none() && keys.positions.is_empty() => {
                Some(Place::Anywhere)
            }
            Route::One(_) => {
                let first = command.single_key().or_else(|| keys.positions.first().copied());
                let key = first.and_then(|at| request.get(at));
                Some(key.map_or(Place::Anywhere, |key| self.place_of(key)))
            }
        })
    }

    fn place_of(&self, key: &[u8]) -> Place {
        let (division, shard) = self.engine.topology.division_of(key);
        Place::At(shard, division)
    }

    /// EXEC.
    fn execute(&mut self, session: &mut Session) -> Step {
        let begun = session.features.transaction.as_ref();
        let (selects, has_inlays) = begun.map_or((false, false), |transaction| {
            (transaction.inlays.selects(), !transaction.inlays.is_empty())
        });
        // Its parts may be sent after a part was answered, or again. Earlier reads may be asked again too, if they bring what is large
        // or are redirected. Nothing may be pending that either could overtake.
        let is_divided = begun.is_some_and(|transaction| transaction.divided.is_some());
        // What goes over a connection of the client's own must not overtake what it has sent before. What is laid in is
        // written straight to the client.
        let is_watching = matches!(session.features.watch, Watch::On(_) | Watch::Several(_));
        if (has_inlays || is_divided || is_watching) && !self.is_alone(session) {
            return self.read_again();
        }
        let Some(mut transaction) = self.take_transaction(session) else { return Step::Done };
        if let Some(slot) = transaction.division.filter(|_| self.engine.topology.is_cluster()) {
            transaction.shard = Some(self.engine.topology.shard_at(slot as u16));
        }
        let shard = transaction.shard.unwrap_or_else(|| self.engine.topology.keyless());
        match session.features.watch {
            _ if transaction.is_spoilt => {
                self.end_watch(session);
                self.refuse(session, errors::EXEC_ABORT);
            }
            Watch::Lost => {
                self.end_watch(session);
                session.features.end_caching();
                let mut reply = self.engine.pool.take();
                encode::null_array(&mut reply, session.resp3);
                self.engine.answer(session, &reply);
                self.engine.pool.give(reply);
            }
            _ if self.watches_in_other_profile(session) => {
                self.end_watch(session);
                self.refuse(session, errors::EXEC_ELSEWHERE);
            }
            // The database would be that of one part only.
            _ if selects && self.is_in_parts(session, &transaction) => {
                self.end_watch(session);
                self.refuse(session, errors::EXEC_SELECTS);
            }
            _ if self.is_in_parts(session, &transaction) => self.execute_in_parts(session, &mut transaction),
            Watch::On(ix) => self.execute_held(session, ix, &mut transaction, true),
            _ if selects => match self.hold(session, shard) {
                Ok(ix) => self.execute_held(session, ix, &mut transaction, false),
                Err(lost) => self.refuse(session, &errors::text_of_exec(&lost)),
            },
            _ if transaction.commands == 0 => self.execute_here(session, &mut transaction),
            _ => match self.shared_link(session.profile, shard) {
                Ok(ix) => {
                    let owed = self.queue_transaction(session, ix, &mut transaction, None);
                    let place = session.replies.reserve(owed);
                    self.engine.enqueue_on(ix, EXEC, Asked::by_client(session.conn, place));
                }
                Err(lost) => self.refuse(session, &errors::text_of_exec(&lost)),
            },
        }
        self.engine.pool.give(transaction.requests);
        Step::Done
    }

    /// Whether keys of a transaction may be on several shards.
    fn runs_per_shard(&self) -> bool {
        self.settings.transactions == Transactions::PerShard
    }

    /// Whether the transaction, or what is watched for it, is in several divisions.
    fn is_in_parts(&self, session: &Session, transaction: &Transaction) -> bool {
        let is_elsewhere = |&(_, own): &Watched| transaction.division.is_some_and(|division| division != own);
        transaction.divided.is_some()
            || matches!(session.features.watch, Watch::Several(_))
            || self.runs_per_shard() && self.watched(session).iter().any(is_elsewhere)
    }

    /// Whether keys are watched in another database, or by another protocol.
    fn watches_in_other_profile(&self, session: &Session) -> bool {
        self.watched(session).first().is_some_and(|&(ix, _)| self.engine.links[ix].profile != session.profile)
    }

    /// EXEC of a transaction over several shards. Nothing is sent if a shard is known to be down.
    fn execute_in_parts(&mut self, session: &mut Session, transaction: &mut Transaction) {
        let watched = self.watched(session);
        if let (0, Some(&(node, division))) = (transaction.parts(), watched.first()) {
            // Without a key it may run wherever keys are watched.
            (transaction.division, transaction.shard) = (Some(division), Some(self.watched_shard(node)));
        }
        transaction.divide();
        let requests = std::mem::take(&mut transaction.requests);
        let divided = transaction.divided.take().unwrap_or_default();
        let (pieces, mut parts) = divided.finish(MULTI, &requests);
        self.engine.pool.give(requests);
        for part in &mut parts {
            if self.engine.topology.is_cluster() {
                part.shard = self.engine.topology.shard_at(part.division as u16);
            }
            let is_watched = watched.iter().any(|(_, division)| *division == part.division);
            let admitted =
                if is_watched { Ok(()) } else { self.shared_link(session.profile, part.shard).map(|_| ()) };
            if let Err(lost) = admitted {
                self.end_watch(session);
                return self.refuse(session, &errors::text_of_exec(&lost));
            }
        }
        session.features.watch = Watch::No;
        let mixture = match self.expect_exec(session, transaction) {
            Owed::Task(TaskId::Mixture(mixture)) => Some(mixture),
            _ => None,
        };
        self.begin_execution(session, (pieces, parts), &watched, mixture);
    }

    /// EXEC over a connection that the session holds, and does not any more when it was answered.
    fn execute_held(
        &mut self,
        session: &mut Session,
        ix: LinkIx,
        transaction: &mut Transaction,
        is_watched: bool,
    ) {
        session.features.watch = Watch::Ending(ix);
        self.engine.links[ix].features.is_altered |= transaction.inlays.selects();
        let held = if is_watched { Held::Watched } else { Held::Altered };
        let owed = self.queue_transaction(session, ix, transaction, Some(held));
        self.send_held(session, ix, EXEC, owed);
    }

    /// EXEC of what needs no node.
    fn execute_here(&mut self, session: &mut Session, transaction: &mut Transaction) {
        match std::mem::take(&mut transaction.inlays) {
            inlays if inlays.is_empty() => {
                session.features.end_caching();
                self.engine.answer(session, b"*0\r\n");
            }
            inlays => self.answer_here_alone(session, inlays),
        }
    }

    /// What the client waits for with EXEC.
    fn expect_exec(&mut self, session: &mut Session, transaction: &mut Transaction) -> Owed {
        match std::mem::take(&mut transaction.inlays) {
            inlays if inlays.is_empty() => Owed::Task(TaskId::Exec),
            inlays => self.expect_mixture(session, inlays, transaction.commands),
        }
    }

    /// What becomes of `command` in a transaction, as things are here.
    fn within_transaction(&self, command: &Command) -> Within {
        match command.carry {
            Carry::Here(Local::ConfigGet) if self.settings.allow_admin => Within::KeptByOneShard,
            Carry::Here(local) if self.has_users_of_nodes() => passing::within_transaction(local, command),
            _ => command.within_transaction(),
        }
    }

    /// Queues all of it but EXEC, which must follow at once. If its node may decline it, it is kept until it is answered.
    fn queue_transaction(
        &mut self,
        session: &mut Session,
        ix: LinkIx,
        transaction: &mut Transaction,
        held: Option<Held>,
    ) -> Owed {
        let owed = self.expect_exec(session, transaction);
        let shard = transaction.shard.unwrap_or_else(|| self.engine.topology.keyless());
        let mut replay = Replay {
            requests: std::mem::take(&mut transaction.requests),
            commands: transaction.commands,
            named: std::mem::take(&mut transaction.named),
            mixture: if let Owed::Task(TaskId::Mixture(id)) = owed { Some(id) } else { None },
            aim: Aim::Shard(shard),
            held,
            declined: None,
            refused: None,
            counted_bytes: 0,
        };
        if !self.engine.keeps.is_kept() {
            self.queue_replay(ix, &replay, NO_REPLAY, false);
            self.engine.pool.give(replay.requests);
            return owed;
        }
        if let Some(slot) = transaction.division.filter(|_| self.engine.topology.is_cluster()) {
            replay.aim = Aim::Slot(slot as u16);
        }
        let holds = replay.requests.capacity();
        self.engine.memory.recount(&mut replay.counted_bytes, holds);
        let id = self.tasks.replays.insert(replay);
        self.queue_kept(ix, id, false);
        Owed::Task(TaskId::Replay(id))
    }

    fn queue_replay(&mut self, ix: LinkIx, replay: &Replay, id: Id, asks: bool) {
        for named in &replay.named {
            self.bring_along(ix, named);
        }
        if asks {
            self.engine.enqueue_on(ix, redirect::ASKING, Asked::by_nobody());
        }
        // One ticket stands for the replies to MULTI and to all commands: they say QUEUED, or else EXEC says more.
        let queued = Asked { conn: id, part: replay.commands, owner: Owner::Queued, ..Asked::by_nobody() };
        self.engine.enqueue_on(ix, &replay.requests, queued);
    }

    fn queue_kept(&mut self, ix: LinkIx, id: Id, asks: bool) {
        let Some(replay) = self.tasks.replays.get_mut(id) else { return };
        let lent = std::mem::take(replay);
        self.queue_replay(ix, &lent, id, asks);
        if let Some(replay) = self.tasks.replays.get_mut(id) {
            *replay = lent;
        }
    }

    /// Sends a transaction that a node has declined again, over the connection `ix`; `ticket` is that of its EXEC.
    pub(crate) fn send_replay(&mut self, ix: LinkIx, id: Id, asks: bool, ticket: Ticket) {
        self.queue_kept(ix, id, asks);
        self.enqueue_again(ix, false, EXEC, ticket);
    }

    /// A transaction is not sent again any more. What its client waits for now.
    pub(crate) fn forget_replay(&mut self, id: Id) -> Owed {
        let Some(mut replay) = self.tasks.replays.remove(id) else { return Owed::Task(TaskId::Exec) };
        self.engine.memory.recount(&mut replay.counted_bytes, 0);
        self.engine.pool.give(replay.requests);
        Owed::Task(replay.mixture.map_or(TaskId::Exec, TaskId::Mixture))
    }

    /// A node has refused a command of the transaction `id`.
    pub(crate) fn note_refused_command(&mut self, id: Id, error: &[u8]) {
        if let Some(replay) = self.tasks.replays.get_mut(id) {
            replay.refused.get_or_insert_with(|| text_of(error));
        }
    }

    /// A command was refused: if it belongs to a transaction, that will not be carried out.
    pub(crate) fn spoil_transaction(&mut self, session: &mut Session) {
        if let Some(transaction) = &mut session.features.transaction {
            transaction.is_spoilt = true;
            self.engine.pool.give(std::mem::take(&mut transaction.requests));
            transaction.named = Vec::new();
            transaction.divided = None;
            transaction.inlays = Inlays::default();
            transaction.reads = KeyList::default();
            self.engine.memory.recount_unread(&mut transaction.counted_bytes, 0);
        }
    }

    /// The transaction ends without being carried out, and what was watched for it is not any more.
    pub(crate) fn end_transaction(&mut self, session: &mut Session) {
        self.end_watch(session);
        if let Some(transaction) = self.take_transaction(session) {
            self.engine.pool.give(transaction.requests);
        }
    }

    fn take_transaction(&mut self, session: &mut Session) -> Option<Box<Transaction>> {
        let mut transaction = session.features.transaction.take()?;
        self.engine.memory.recount_unread(&mut transaction.counted_bytes, 0);
        Some(transaction)
    }
}

/// The bytes of a command in a transaction: one that is split has its name in each share.
fn bytes_to_keep(request: &Request<'_>, keys: &Keys, place: Option<Place>) -> usize {
    let shares = if place.is_none() { keys.parts.len() } else { 0 };
    request.bytes.len() + shares * (HEADER_BYTES_MAX + request.raw_arg(0).len())
}

/// Of a command with as many arguments as there may be.
const HEADER_BYTES_MAX: usize = b"*1048576\r\n".len();
const OK: &[u8] = b"+OK\r\n";
const QUEUED: &[u8] = b"+QUEUED\r\n";
const MISSING_DATABASE: &str = "DB index is out of range";
