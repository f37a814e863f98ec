//! MULTI, EXEC and DISCARD on the links that clients share. With WATCH, they use the held link that watches
//! ([`crate::held`]).
//!
//! ```text
//! client:   MULTI    SET a 1    INCR b      EXEC
//!            +OK     +QUEUED    +QUEUED      │         the node's n + 2 replies: n + 1 are discarded,
//!              └────────┴──────────┴─────────┴──► MULTI, SET a 1, INCR b, EXEC ──► the last for the client
//! ```
//!
//! shardis checks commands when they come, as Redis does, and queues them itself. EXEC sends all of them in one write
//! over the shared link, so no request of another client can come between. All keys must be on one shard. The first
//! command that does not fit is refused, and EXEC then fails, as after every refused command.
//!
//! A command is refused as well if one node's reply would be wrong for all shards ([`command::Within`]). The commands
//! that shardis answers itself are inlays ([`crate::transaction::inlays`]).
//!
//! With `--transactions=per-shard` the keys may be on several shards: see [`crate::transaction::divided`] and
//! [`crate::transaction::execution`].
//!
//! A node that loses the connection before it has read EXEC runs nothing. So the error for a lost transaction depends
//! on whether a byte of EXEC was written.
//!
//! A transaction that chooses a database has a link of its own. If the node loses that link after a byte of EXEC was
//! written, the client gets "outcome unknown"; else `EXECABORT`.

pub(crate) mod divided;
pub(crate) mod execution;
pub(crate) mod inlays;
pub(crate) mod queued;
pub(crate) mod results;
pub(crate) mod spliced;

use crate::context::Context;
use crate::cross_slot;
use crate::cross_slot::remedy::Remedy;
use crate::errors;
use crate::features::{Asked, Owed, Owner, Session, TaskId, Ticket};
use crate::held;
use crate::held::watch::Watch;
use crate::held::watches;
use crate::limits::Transactions;
use crate::link::{LinkIx, profiles};
use crate::login::passing;
use crate::outcome::Step;
use crate::redirect::declined::{ASKING, Aim};
use crate::requests::objection::Objection;
use crate::requests::route::{self, Keys, Route};
use crate::scripts;
use crate::tracking::KeyList;
use crate::transaction::execution::{Execution, Watched, text_of};
use crate::transaction::queued::{
    EXEC, Held, MULTI, Misfit, NO_REPLAY, Place, Replay, Transaction, bytes_to_keep,
};
use crate::transaction::spliced::{Inlays, Mixture};
use command::{Carry, Command, Local, Refusal, Topic, Transaction as Act, Within};
use resp::{Request, encode};
use stdx::Id;
use stdx::Slab;
use topology::ShardId;

/// The transactions that nodes run.
#[derive(Debug, Default)]
pub(crate) struct Execs {
    /// Transactions whose reply has results of nodes and of shardis.
    pub mixtures: Slab<Mixture>,
    /// Transactions that may have to be sent again.
    pub replays: Slab<Replay>,
    /// Transactions over several shards.
    pub executions: Slab<Execution>,
}

impl Execs {
    /// Runs EXEC.
    pub(crate) fn execute(&mut self, cx: &mut Context, session: &mut Session) -> Step {
        let begun = session.features.transaction.as_ref();
        let (selects, has_inlays) = begun.map_or((false, false), |transaction| {
            (transaction.inlays.selects(), !transaction.inlays.is_empty())
        });
        // The parts may be sent after the reply to another part, or again. Earlier reads may be sent again too, if
        // they are large or redirected. Neither may overtake a pending request.
        let is_divided = begun.is_some_and(|transaction| transaction.divided.is_some());
        // Requests on a held link must not overtake earlier ones of the client. Inlays are written straight to the
        // client's output.
        let is_watching = matches!(session.features.watch, Watch::On(_) | Watch::Several(_));
        if (has_inlays || is_divided || is_watching) && !held::is_alone(session) {
            return cx.read_again();
        }
        let Some(mut transaction) = take_transaction(cx, session) else { return Step::Done };
        if let Some(slot) = transaction.division.filter(|_| cx.engine.topology.is_cluster()) {
            transaction.shard = Some(cx.engine.topology.shard_at(slot as u16));
        }
        let shard = transaction.shard.unwrap_or_else(|| cx.engine.topology.keyless());
        match session.features.watch {
            _ if transaction.is_spoilt => {
                held::end_watch(cx, session);
                cx.refuse(session, errors::EXEC_ABORT);
            }
            Watch::Lost => {
                held::end_watch(cx, session);
                session.features.end_caching();
                let mut reply = cx.engine.pool.take();
                encode::null_array(&mut reply, session.resp3);
                cx.engine.answer(session, &reply);
                cx.engine.pool.give(reply);
            }
            _ if watches_in_other_profile(cx, session) => {
                held::end_watch(cx, session);
                cx.refuse(session, errors::EXEC_ELSEWHERE);
            }
            // The parts would not all use the new database.
            _ if selects && is_in_parts(cx, session, &transaction) => {
                held::end_watch(cx, session);
                cx.refuse(session, errors::EXEC_SELECTS);
            }
            _ if is_in_parts(cx, session, &transaction) => {
                self.execute_in_parts(cx, session, &mut transaction)
            }
            Watch::On(ix) => self.execute_held(cx, session, ix, &mut transaction, true),
            _ if selects => match held::hold(cx, session, shard) {
                Ok(ix) => self.execute_held(cx, session, ix, &mut transaction, false),
                Err(lost) => cx.refuse(session, &errors::text_of_exec(&lost)),
            },
            _ if transaction.commands == 0 => self.execute_here(cx, session, &mut transaction),
            _ => match cx.shared_link(session.profile, shard) {
                Ok(ix) => {
                    let owed = self.queue_transaction(cx, session, ix, &mut transaction, None);
                    let place = session.replies.reserve(owed);
                    cx.engine.enqueue_on(ix, EXEC, Asked::by_client(session.conn, place));
                }
                Err(lost) => cx.refuse(session, &errors::text_of_exec(&lost)),
            },
        }
        cx.engine.pool.give(transaction.requests);
        Step::Done
    }

    /// Runs EXEC of a transaction over several shards. Nothing is sent if a shard is known to be down.
    fn execute_in_parts(&mut self, cx: &mut Context, session: &mut Session, transaction: &mut Transaction) {
        let watched = watches::watched(cx, session);
        if let (0, Some(&(node, division))) = (transaction.parts(), watched.first()) {
            // Without a key, the transaction may run on any link that watches keys.
            (transaction.division, transaction.shard) = (Some(division), Some(watched_shard(cx, node)));
        }
        transaction.divide();
        let requests = std::mem::take(&mut transaction.requests);
        let divided = transaction.divided.take().unwrap_or_default();
        let (pieces, mut parts) = divided.finish(MULTI, &requests);
        cx.engine.pool.give(requests);
        for part in &mut parts {
            if cx.engine.topology.is_cluster() {
                part.shard = cx.engine.topology.shard_at(part.division as u16);
            }
            let is_watched = watched.iter().any(|(_, division)| *division == part.division);
            let admitted =
                if is_watched { Ok(()) } else { cx.shared_link(session.profile, part.shard).map(|_| ()) };
            if let Err(lost) = admitted {
                held::end_watch(cx, session);
                return cx.refuse(session, &errors::text_of_exec(&lost));
            }
        }
        session.features.watch = Watch::No;
        let mixture = match self.expect_exec(cx, session, transaction) {
            Owed::Task(TaskId::Mixture(mixture)) => Some(mixture),
            _ => None,
        };
        self.begin_execution(cx, session, (pieces, parts), &watched, mixture);
    }

    /// Runs EXEC over a held link, which is released with the reply.
    fn execute_held(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        ix: LinkIx,
        transaction: &mut Transaction,
        is_watched: bool,
    ) {
        session.features.watch = Watch::Ending(ix);
        cx.engine.links[ix].features.is_altered |= transaction.inlays.selects();
        let held = if is_watched { Held::Watched } else { Held::Altered };
        let owed = self.queue_transaction(cx, session, ix, transaction, Some(held));
        held::send_held(cx, session, ix, EXEC, owed);
    }

    /// Runs EXEC of a transaction that needs no node.
    fn execute_here(&mut self, cx: &mut Context, session: &mut Session, transaction: &mut Transaction) {
        match std::mem::take(&mut transaction.inlays) {
            inlays if inlays.is_empty() => {
                session.features.end_caching();
                cx.engine.answer(session, b"*0\r\n");
            }
            inlays => self.answer_here_alone(cx, session, inlays),
        }
    }

    /// The source of the reply to EXEC.
    fn expect_exec(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        transaction: &mut Transaction,
    ) -> Owed {
        match std::mem::take(&mut transaction.inlays) {
            inlays if inlays.is_empty() => Owed::Task(TaskId::Exec),
            inlays => self.expect_mixture(cx, session, inlays, transaction.commands),
        }
    }

    /// Queues all of a transaction except EXEC, which must follow at once. If the node may decline the transaction,
    /// it is kept until it is answered.
    fn queue_transaction(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        ix: LinkIx,
        transaction: &mut Transaction,
        held: Option<Held>,
    ) -> Owed {
        let owed = self.expect_exec(cx, session, transaction);
        let shard = transaction.shard.unwrap_or_else(|| cx.engine.topology.keyless());
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
        if !cx.engine.keeps.is_kept() {
            queue_replay(cx, ix, &replay, NO_REPLAY, false);
            cx.engine.pool.give(replay.requests);
            return owed;
        }
        if let Some(slot) = transaction.division.filter(|_| cx.engine.topology.is_cluster()) {
            replay.aim = Aim::Slot(slot as u16);
        }
        let holds = replay.requests.capacity();
        cx.engine.memory.recount(&mut replay.counted_bytes, holds);
        let id = self.replays.insert(replay);
        self.queue_kept(cx, ix, id, false);
        Owed::Task(TaskId::Replay(id))
    }

    fn queue_kept(&mut self, cx: &mut Context, ix: LinkIx, id: Id, asks: bool) {
        let Some(replay) = self.replays.get_mut(id) else { return };
        let lent = std::mem::take(replay);
        queue_replay(cx, ix, &lent, id, asks);
        if let Some(replay) = self.replays.get_mut(id) {
            *replay = lent;
        }
    }

    /// Sends a transaction that a node has declined again, over the link `ix`. `ticket` is that of its EXEC.
    pub(crate) fn send_replay(&mut self, cx: &mut Context, ix: LinkIx, id: Id, asks: bool, ticket: Ticket) {
        self.queue_kept(cx, ix, id, asks);
        cx.enqueue_again(ix, false, EXEC, ticket);
    }

    /// Forgets a transaction that is not sent again any more. Returns the source of the client's reply.
    pub(crate) fn forget_replay(&mut self, cx: &mut Context, id: Id) -> Owed {
        let Some(mut replay) = self.replays.remove(id) else { return Owed::Task(TaskId::Exec) };
        cx.engine.memory.recount(&mut replay.counted_bytes, 0);
        cx.engine.pool.give(replay.requests);
        Owed::Task(replay.mixture.map_or(TaskId::Exec, TaskId::Mixture))
    }

    /// Notes that a node has refused a command of the transaction `id`.
    pub(crate) fn note_refused_command(&mut self, id: Id, error: &[u8]) {
        if let Some(replay) = self.replays.get_mut(id) {
            replay.refused.get_or_insert_with(|| text_of(error));
        }
    }
}

/// Runs MULTI, WATCH and related commands for a client without an open transaction.
pub(crate) fn transact(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    act: Act,
    request: &Request<'_>,
    keys: &mut Keys,
) -> Step {
    match act {
        Act::Begin => {
            let mut transaction = Transaction::new(&mut cx.engine.pool);
            if let Watch::On(node) = session.features.watch
                && cx.settings.transactions == Transactions::OneShard
            {
                transaction.shard = Some(watched_shard(cx, node));
            }
            recount_transaction(cx, &mut transaction);
            session.features.transaction = Some(Box::new(transaction));
            cx.engine.answer(session, OK);
        }
        Act::Execute => cx.refuse(session, errors::EXEC_WITHOUT_MULTI),
        Act::Discard => cx.refuse(session, errors::DISCARD_WITHOUT_MULTI),
        Act::Watch => return watch(cx, session, command, request, keys),
        Act::Unwatch => {
            held::end_watch(cx, session);
            cx.engine.answer(session, OK);
        }
    }
    Step::Done
}

/// Runs WATCH on a held link.
fn watch(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    request: &Request<'_>,
    keys: &mut Keys,
) -> Step {
    if !held::is_alone(session) {
        return cx.read_again();
    }
    if runs_per_shard(cx) {
        return watches::watch_parts(cx, session, command, request, keys);
    }
    let Route::One(shard) = route::route(command, request, &cx.engine.topology, keys) else {
        cross_slot::refuse_cross_slot(cx, session, Remedy::PerShard);
        return Step::Done;
    };
    match session.features.watch {
        Watch::On(ix) if watched_shard(cx, ix) != shard => {
            cross_slot::refuse_cross_slot(cx, session, Remedy::PerShard);
        }
        Watch::On(ix) if cx.engine.links[ix].profile != session.profile => {
            cx.refuse(session, errors::WATCH_ELSEWHERE);
        }
        Watch::On(ix) => held::send_held(cx, session, ix, request.bytes, Owed::Node),
        // EXEC will fail regardless of these keys.
        Watch::Lost => cx.engine.answer(session, OK),
        Watch::No | Watch::Asked(_) | Watch::Ending(_) | Watch::Several(_) => {
            match held::hold(cx, session, shard) {
                Ok(ix) => {
                    let first = keys.positions.first().map(|&at| cx.aim_at(request.arg(at)));
                    if let Some(Aim::Slot(slot)) = first {
                        cx.engine.links[ix].features.watched_slot = Some(slot);
                    }
                    session.features.watch = Watch::Asked(ix);
                    held::send_held(cx, session, ix, request.bytes, Owed::Node);
                }
                Err(lost) => cx.refuse(session, &lost.text()),
            }
        }
    }
    Step::Done
}

/// The shard of the keys that are watched on the link `ix`.
pub(crate) fn watched_shard(cx: &Context, ix: LinkIx) -> ShardId {
    let link = &cx.engine.links[ix];
    link.features.watched_slot.map_or(link.shard, |slot| cx.engine.topology.shard_at(slot))
}

/// Answers with an error that leaves the transaction as it is.
pub(crate) fn complain(cx: &mut Context, session: &mut Session, text: &str) {
    let mut reply = cx.engine.pool.take();
    errors::write(&mut reply, text);
    cx.stats.tally.count_failed(cx.engine.asking, &reply);
    cx.engine.answer(session, &reply);
    cx.engine.pool.give(reply);
}

/// Queues a command until EXEC, if it can be a part of the transaction.
pub(crate) fn keep_for_exec(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    request: &Request<'_>,
    keys: &mut Keys,
) {
    let place = match place_in_transaction(cx, command, request, keys) {
        Ok(place) => place,
        Err(refusal) => return cx.refuse_command(session, command, refusal, request),
    };
    let fits = match cx.settings.transactions {
        Transactions::OneShard => fits_one_shard(cx, session, command, place),
        Transactions::PerShard => fits_parts(cx, session, command, keys, place),
    };
    let bytes = bytes_to_keep(request, keys, place);
    let Some(transaction) = &mut session.features.transaction else { return };
    if transaction.is_spoilt {
        return cx.engine.answer(session, QUEUED);
    }
    let misfit = match fits {
        Ok(()) if transaction.request_bytes() + bytes > cx.limits.transaction_bytes_max => {
            Some(Misfit::Limit(errors::TRANSACTION_TOO_LARGE))
        }
        fits => fits.err(),
    };
    match misfit {
        Some(Misfit::CrossSlot(remedy)) => return cross_slot::refuse_cross_slot(cx, session, remedy),
        Some(Misfit::Limit(text)) => return cx.refuse(session, text),
        None => {}
    }
    transaction.may_write |= command.may_write();
    let named = match command.carry {
        Carry::Script(script) => cx.board.scripts.named(script, request, cx.limits.script_bytes_max),
        _ => None,
    };
    transaction.keep(command, (request, keys), place, named);
    recount_transaction(cx, transaction);
    cx.engine.answer(session, QUEUED);
}

/// Whether a command with keys at `place` fits into a transaction on one shard.
fn fits_one_shard(
    cx: &Context,
    session: &Session,
    command: &Command,
    place: Option<Place>,
) -> Result<(), Misfit> {
    // In a cluster, the slot may have another owner by now.
    let (is_cluster, watched) = match session.features.watch {
        Watch::On(node) => (cx.engine.topology.is_cluster(), Some(watched_shard(cx, node))),
        _ => (cx.engine.topology.is_cluster(), None),
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

/// Whether a command with keys at `place` fits into a transaction that may use several shards.
fn fits_parts(
    cx: &Context,
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
        () if parts > cx.limits.transaction_parts_max => Err(Misfit::Limit(errors::TRANSACTION_PARTS)),
        () if parts > 1 && transaction.inlays.selects() => Err(Misfit::Limit(errors::SELECT_IN_PARTS)),
        () => Ok(()),
    }
}

fn recount_transaction(cx: &mut Context, transaction: &mut Transaction) {
    let holds = transaction.held_bytes();
    cx.engine.memory.recount_unread(&mut transaction.counted_bytes, holds);
}

/// The place where `command` may run as a part of a transaction. `None` if its keys are on several shards.
fn place_in_transaction(
    cx: &mut Context,
    command: &Command,
    request: &Request<'_>,
    keys: &mut Keys,
) -> Result<Option<Place>, Refusal> {
    let has_one_shard = cx.engine.topology.is_undivided();
    match command.carry {
        Carry::Admin(why, _) if !cx.settings.allow_admin => return Err(Refusal::Admin(why)),
        // On another node, the subscribers of the channel would miss the message.
        Carry::Publish(kind) if kind != Topic::ShardChannel && cx.engine.topology.is_cluster() => {
            // All nodes of a cluster forward the message.
            return Ok(Some(Place::Anywhere));
        }
        Carry::Publish(_) => return Ok(Some(place_of(cx, request.arg(1)))),
        Carry::ShardIf(_) | Carry::OnlyShard(_) => {
            match Objection::to(command, request, &cx.engine.topology, cx.settings.databases) {
                Some(Objection::Refusal(refusal)) => return Err(refusal),
                Some(Objection::MissingDatabase) => return Err(Refusal::Never(MISSING_DATABASE)),
                None => {}
            }
        }
        _ => {}
    }
    match within_transaction(cx, command) {
        Within::Kept => {}
        Within::KeptByOneShard | Within::KeptByOneShardOrAsked if has_one_shard => {
            // The effect on scripts is noted now: loading a script that is already there does no harm.
            scripts::note_scripts(cx, command, request, &[]);
            return Ok(Some(Place::Anywhere));
        }
        Within::KeptByOneShard => return Err(Within::NEEDS_ALL_SHARDS),
        Within::Here | Within::Asked | Within::KeptByOneShardOrAsked => return Ok(Some(Place::Here)),
        // shardis itself answers with the error: the node may have more databases.
        Within::Select => {
            let database = profiles::database(cx, request.arg(1));
            return Ok(Some(database.map_or(Place::Here, Place::Selects)));
        }
        Within::Refused(refusal) => return Err(refusal),
        Within::AtOnce | Within::NotInRedis => {
            debug_assert!(false, "it was carried out or refused before");
        }
    }
    Ok(match route::route(command, request, &cx.engine.topology, keys) {
        // A key lacks its value. The node that gets the whole command refuses it.
        Route::Parts if runs_per_shard(cx) && !command.splits_evenly(request.len()) => Some(Place::Anywhere),
        Route::Parts => None,
        Route::One(_) if command.single_key().is_none() && keys.positions.is_empty() => Some(Place::Anywhere),
        Route::One(_) => {
            let first = command.single_key().or_else(|| keys.positions.first().copied());
            let key = first.and_then(|at| request.get(at));
            Some(key.map_or(Place::Anywhere, |key| place_of(cx, key)))
        }
    })
}

fn place_of(cx: &Context, key: &[u8]) -> Place {
    let (division, shard) = cx.engine.topology.division_of(key);
    Place::At(shard, division)
}

/// Whether the keys of a transaction may be on several shards.
fn runs_per_shard(cx: &Context) -> bool {
    cx.settings.transactions == Transactions::PerShard
}

/// Whether the keys of the transaction and its watched keys are in several divisions.
fn is_in_parts(cx: &Context, session: &Session, transaction: &Transaction) -> bool {
    let is_elsewhere = |&(_, own): &Watched| transaction.division.is_some_and(|division| division != own);
    transaction.divided.is_some()
        || matches!(session.features.watch, Watch::Several(_))
        || runs_per_shard(cx) && watches::watched(cx, session).iter().any(is_elsewhere)
}

/// Whether keys are watched in another database, or with another protocol.
fn watches_in_other_profile(cx: &Context, session: &Session) -> bool {
    watches::watched(cx, session)
        .first()
        .is_some_and(|&(ix, _)| cx.engine.links[ix].profile != session.profile)
}

/// The treatment of `command` in a transaction, with the present topology and settings.
fn within_transaction(cx: &Context, command: &Command) -> Within {
    match command.carry {
        Carry::Here(Local::ConfigGet) if cx.settings.allow_admin => Within::KeptByOneShard,
        Carry::Here(local) if passing::has_users_of_nodes(cx) => passing::within_transaction(local, command),
        _ => command.within_transaction(),
    }
}

fn queue_replay(cx: &mut Context, ix: LinkIx, replay: &Replay, id: Id, asks: bool) {
    for named in &replay.named {
        scripts::bring_along(cx, ix, named);
    }
    if asks {
        cx.engine.enqueue_on(ix, ASKING, Asked::by_nobody());
    }
    // One ticket stands for the replies to MULTI and to all commands. Each says QUEUED, or else EXEC reports the
    // failure.
    let queued = Asked { conn: id, part: replay.commands, owner: Owner::Queued, ..Asked::by_nobody() };
    cx.engine.enqueue_on(ix, &replay.requests, queued);
}

/// Notes that a command was refused: its transaction, if any, will not run.
pub(crate) fn spoil_transaction(cx: &mut Context, session: &mut Session) {
    if let Some(transaction) = &mut session.features.transaction {
        transaction.is_spoilt = true;
        cx.engine.pool.give(std::mem::take(&mut transaction.requests));
        transaction.named = Vec::new();
        transaction.divided = None;
        transaction.inlays = Inlays::default();
        transaction.reads = KeyList::default();
        cx.engine.memory.recount_unread(&mut transaction.counted_bytes, 0);
    }
}

/// Ends the transaction without running it, and ends its watches.
pub(crate) fn end_transaction(cx: &mut Context, session: &mut Session) {
    held::end_watch(cx, session);
    if let Some(transaction) = take_transaction(cx, session) {
        cx.engine.pool.give(transaction.requests);
    }
}

fn take_transaction(cx: &mut Context, session: &mut Session) -> Option<Box<Transaction>> {
    let mut transaction = session.features.transaction.take()?;
    cx.engine.memory.recount_unread(&mut transaction.counted_bytes, 0);
    Some(transaction)
}

const OK: &[u8] = b"+OK\r\n";
const QUEUED: &[u8] = b"+QUEUED\r\n";
const MISSING_DATABASE: &str = "DB index is out of range";
