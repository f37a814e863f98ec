//! Reads that replicas answer. shardis sends them there and keeps them in order with the writes of the same client.
//! If a replica fails, shardis asks the primary. `reading.rs` chooses the node.
//!
//! ```text
//!   GET a ─► replica 2            INFO replication ─► primary and replicas, every 100 ms while clients read
//!   SET a ─► waits for GET a's reply, then goes to the primary
//!   GET a ─► primary, until a replica has the SET
//! ```
//!
//! Commands of one client to one shard run in the order sent, though they go over two links. A possible write waits
//! until the client's reads in flight at replicas are answered. A read behind a write goes to the primary as the
//! write did.
//!
//! shardis sends INFO replication every 100 ms, and every 10 ms while a client waits for its own write.
//!
//! Links to replicas have a use of their own (`Use::Replica`). Their replies take the slow path, where shardis sees a
//! refusal and asks the primary. Only reads whose bytes are kept are asked again, and possible writes never are.
//! These links belong to profiles as others do, and begin with `READONLY` in a cluster.
//!
//! When a replica is promoted, shardis makes a new link to it. After a link is lost, its replica is read from only
//! once it has reported its state: the replica may have restarted without data.

use crate::ConnId;
use crate::context::Context;
use crate::errors::Lost;
use crate::event::Notice;
use crate::features::{Asked, Link, Owner, Retry, Session, TaskKind, Ticket};
use crate::held::watch::Watch;
use crate::link::kept::Kept;
use crate::link::{LinkIx, ProfileId, Use};
use crate::outcome::{Effect, Fault, Outcome};
use crate::reading::reads::{OwnWrite, Reads};
use crate::reading::{Asker, Choice, ReadFrom, Readers, Report, Written, may_read_replica, zone_in};
use crate::requests::route::{self, Keys, Part, Route};
use command::{Carry, Command, Number};
use engine::retry::Why;
use resp::Request;
use stdx::Instant;
use topology::{NodeId, ShardId};

/// The request for a node's zone and offset. Nodes before 7.0 take only one section name, so the request has none.
const INFO: &[u8] = b"*1\r\n$4\r\nINFO\r\n";
/// The request for a node's offset.
const INFO_REPLICATION: &[u8] = b"*2\r\n$4\r\nINFO\r\n$11\r\nREPLICATION\r\n";

/// Whether a command changes data that reads return. Then no read may overtake the command or miss its effect.
pub(crate) fn may_change(command: &Command) -> bool {
    match command.carry {
        // Messages are not data.
        Carry::Publish(_) | Carry::Here(_) | Carry::Refused(_) => false,
        Carry::Transaction(act) => act == command::Transaction::Execute,
        Carry::Admin(..) => true,
        _ => command.may_write(),
    }
}

impl Readers {
    /// Makes the session's reads follow READONLY (`asked`) or the policy of its listener.
    pub(crate) fn set_reads(&mut self, cx: &mut Context, session: &mut Session, asked: bool) {
        let has_replicas = cx.engine.topology.shards().iter().any(|shard| !shard.replicas.is_empty());
        if !has_replicas && !cx.engine.topology.is_discovered() {
            // Libraries for Redis Cluster always send READONLY. Without replicas, nothing is watched for it.
            return;
        }
        // A client with a policy other than the primary's has had its state from the beginning.
        let own = session.features.reads.as_ref().map_or(ReadFrom::Primary, |reads| reads.own);
        let from = match own {
            ReadFrom::Primary | ReadFrom::PreferPrimary if asked => ReadFrom::PreferReplica,
            from => from,
        };
        if !asked && !self.are_wanted_by(from) {
            // The next requests must not overtake those in flight at replicas.
            if session.features.reads.take().is_some() {
                session.turn();
            }
            return;
        }
        self.watch_readers(cx);
        session.features.reads.get_or_insert_with(|| Box::new(Reads::new(own))).from = from;
    }

    /// Begins to watch replicas, if they are not watched yet.
    pub(crate) fn watch_readers(&mut self, cx: &mut Context) {
        if !self.are_watched() {
            self.follow(&cx.engine.topology, cx.engine.now);
            cx.engine.check_at = cx.engine.now;
        }
    }

    /// Chooses the node for each part. `None` if all parts go to primaries, as without replicas.
    pub(crate) fn choose_readers(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        parts: &mut [Part],
    ) -> Option<Result<(), Lost>> {
        let mut any = false;
        for part in parts.iter_mut() {
            let chosen = match self.choose_reader(cx, session, part.shard) {
                Choice::Replica(id) => reader_link(cx, session.profile, id),
                Choice::Nowhere => return Some(Err(self.no_replica(cx, part.shard))),
                Choice::Primary | Choice::Fallback | Choice::OwnWrite => None,
            };
            any |= chosen.is_some();
            part.link = match chosen {
                Some(node) => {
                    note_replica_read(session, part.shard);
                    node
                }
                None => match cx.shared_link(session.profile, part.shard) {
                    Ok(node) => node,
                    Err(lost) => return Some(Err(lost)),
                },
            };
        }
        any.then_some(Ok(()))
    }

    /// Chooses the destination of a read of `shard`, and counts the choice.
    pub(crate) fn choose_reader(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        shard: ShardId,
    ) -> Choice {
        let Some((from, written)) = own_write(session, shard, self.polls(shard), cx.engine.now) else {
            let from = session.features.reads.as_ref().map_or(ReadFrom::Primary, |reads| reads.from);
            return count_choice(cx, from, Choice::OwnWrite);
        };
        let asker = Asker { from, client: session.origin.client, written, now: cx.engine.now };
        let (profiles, links, limits) = (&cx.profiles, &cx.engine.links, &cx.limits);
        let primary = cx.engine.topology.shard(shard).primary;
        let link = |id: NodeId| profiles.link(ProfileId::FIRST, id).map(|ix| &links[ix]);
        let admits = |id: NodeId| {
            // A primary whose link is being replaced is not down: requests wait for the new link.
            link(id)
                .is_some_and(|it| it.is_ready() || Some(id) == primary && it.admit(&cx.engine.limits).is_ok())
        };
        let mut choice = self.choose(shard, asker, limits, admits);
        if matches!(choice, Choice::Fallback | Choice::Nowhere)
            && self.note_heard(shard, |id| link(id).map(Link::moved_at))
        {
            choice = self.choose(shard, asker, limits, admits);
        }
        self.tell_of_fitness(cx, shard, choice);
        count_choice(cx, from, choice)
    }

    /// Logs when reads of `shard` begin to find no fit replica, and when they find one again.
    fn tell_of_fitness(&mut self, cx: &mut Context, shard: ShardId, choice: Choice) {
        let is_fit = match choice {
            Choice::Replica(_) => true,
            Choice::Fallback | Choice::Nowhere => false,
            Choice::Primary | Choice::OwnWrite => return,
        };
        let Some(reason) = self.note_fitness(shard, is_fit, &cx.limits, cx.engine.now) else {
            return;
        };
        let shard = cx.engine.shard_name(shard).to_owned();
        cx.notice(match is_fit {
            true => Notice::ReplicaFit { shard },
            false => Notice::NoReplicaFit { shard, reason: reason.to_owned() },
        });
    }

    pub(crate) fn no_replica(&self, cx: &Context, shard: ShardId) -> Lost {
        let reason = self.unfit_because(shard, &cx.limits, cx.engine.now);
        cx.engine.not_sent(shard, &format!("no replica is readable: {reason}"))
    }

    /// Sends the polls that are due.
    pub(crate) fn poll_readers(&mut self, cx: &mut Context) {
        cx.engine.asking = Number::NONE;
        while let Some((shard, nodes)) = self.next_to_poll(&cx.limits, cx.engine.now) {
            for id in nodes {
                let Ok(ix) = cx.link_in(ProfileId::FIRST, id) else { continue };
                let link = &cx.engine.links[ix];
                if !link.is_ready() || link.admit(&cx.engine.limits).is_err() {
                    self.absorb((shard, id), 0, None, cx.engine.now);
                    continue;
                }
                let poll = self.note_asked(shard, id, cx.engine.now);
                let conn = ConnId { index: poll as u32, generation: (poll >> 32) as u32 };
                let (place, part, owner) = (id.0, shard.0, Owner::Task(TaskKind::Poll));
                let question = if self.wants_zone_of((shard, id)) { INFO } else { INFO_REPLICATION };
                cx.engine.enqueue_on(ix, question, Asked { conn, place, part, owner, kept: Kept::NO });
            }
        }
    }

    /// Takes the answer to a poll, or its loss.
    pub(crate) fn absorb_poll(&mut self, cx: &mut Context, ticket: Ticket, outcome: &Outcome<'_>) {
        let poll = u64::from(ticket.conn.generation) << 32 | u64::from(ticket.conn.index);
        let who = (ShardId(ticket.part), NodeId(ticket.place));
        let report = match outcome {
            Outcome::Reply(reply) => {
                if self.wants_zone_of(who)
                    && let Some(zone) = zone_in(reply)
                {
                    self.note_zone(who, &zone);
                }
                Some(Report::parse(reply))
            }
            Outcome::Lost(_) => None,
        };
        if self.absorb(who, poll, report, cx.engine.now) && !cx.limits.slow_start.is_zero() {
            cx.stats.nodes.row(who.1).slow_starts += 1;
        }
    }
}

/// The link of `profile` to the replica `id`, if it takes requests.
pub(crate) fn reader_link(cx: &mut Context, profile: ProfileId, id: NodeId) -> Option<LinkIx> {
    let node = cx.link_in(profile, id).ok()?;
    cx.admit_on(node).ok().map(|()| node)
}

fn count_choice(cx: &mut Context, from: ReadFrom, choice: Choice) -> Choice {
    let row = cx.stats.tally.reads_from(from);
    match choice {
        Choice::Primary => row.primary += 1,
        Choice::Replica(_) => {
            row.replica += 1;
            cx.stats.counters.replica_reads += 1;
        }
        Choice::OwnWrite => {
            row.own_write += 1;
            cx.stats.counters.own_write_reads += 1;
        }
        Choice::Fallback | Choice::Nowhere => {
            row.fallback += 1;
            cx.stats.counters.replica_fallbacks += 1;
        }
    }
    choice
}

/// Notes a possible write of the session: its next reads of that shard must see the write. If the shard is unknown,
/// this holds for all shards.
pub(crate) fn note_write(
    cx: &mut Context,
    session: &mut Session,
    command: &Command,
    request: &Request<'_>,
    keys: &mut Keys,
) {
    let has_one_key = matches!(command.carry, Carry::Shard | Carry::ShardIf(_) | Carry::Split(_));
    match has_one_key.then(|| route::route(command, request, &cx.engine.topology, keys)) {
        Some(Route::One(shard)) => note_own_write(session, shard),
        Some(Route::Parts) | None => note_own_writes(cx, session),
    }
}

/// Notes possible writes of the session to all shards.
pub(crate) fn note_own_writes(cx: &mut Context, session: &mut Session) {
    if session.features.reads.is_some() {
        cx.engine.topology.all_shards().for_each(|shard| note_own_write(session, shard));
    }
}

/// Takes the reads in flight off the link `ix`, if it goes to a replica and their bytes are kept. The primary can
/// answer them too.
pub(crate) fn rescue_reads(cx: &mut Context, ix: LinkIx) -> Vec<Retry> {
    let link = &mut cx.engine.links[ix];
    if link.used_by != Use::Replica {
        return Vec::new();
    }
    let rescued = link.tickets().enumerate().filter(|(_, ticket)| is_read_of_client(ticket)).filter_map(
        |(number, &ticket)| Retry::new(Why::ReplicaFailed, link, ticket, link.kept_request(number)?),
    );
    let rescued: Vec<Retry> = rescued.collect();
    let starts: Vec<u64> = rescued.iter().map(|read| read.ticket.start).collect();
    let taken = link.tickets_mut().filter(|ticket| starts.binary_search(&ticket.start).is_ok());
    taken.for_each(Ticket::discard);
    rescued
}

/// Notes that the primary of `shard` has failed.
pub(crate) fn note_node_failure(cx: &mut Context, shard: ShardId) {
    if let Some(ejection) = &mut cx.node_health.ejection {
        ejection.note_failure(shard, cx.engine.now);
    }
}

/// Notes that the primary of `shard` has answered.
pub(crate) fn note_node_answer(cx: &mut Context, shard: ShardId) {
    if let Some(ejection) = &mut cx.node_health.ejection {
        ejection.note_answer(shard, cx.engine.now);
    }
}

/// Whether `ticket` is of a client's read. Other requests may be in flight to a replica that is about to become a
/// primary. A possible write is never asked again.
fn is_read_of_client(ticket: &Ticket) -> bool {
    let is_it = |&(number, _): &(Number, &Command)| number.index() == ticket.command.index();
    let reads = || command::numbered().find(is_it).is_some_and(|(_, command)| may_read_replica(command));
    ticket.owner == Owner::Client && ticket.kept.is_kept() && reads()
}

/// Whether a replica's reply to a client's read says that the replica cannot answer. `redirect.rs` handles writes,
/// which go to a node that is about to become a primary.
pub(crate) fn is_turned_away(ticket: &Ticket, reply: &[u8]) -> bool {
    let words = [&b"-LOADING "[..], b"-MASTERDOWN ", b"-MOVED ", b"-CLUSTERDOWN "];
    words.iter().any(|word| reply.starts_with(word)) && is_read_of_client(ticket)
}

impl Readers {
    /// Whether the reply on the link `ix` says that this replica cannot answer. Then the primary is asked, and the
    /// replica gets no reads until it has reported its state.
    pub(crate) fn handle_turned_away(
        &mut self,
        cx: &mut Context,
        ix: LinkIx,
        ticket: &Ticket,
        reply: &[u8],
    ) -> bool {
        if !is_turned_away(ticket, reply) {
            return false;
        }
        let link = &cx.engine.links[ix];
        let request = link.kept_request_of(ticket);
        let read = request.and_then(|request| Retry::new(Why::ReplicaFailed, link, *ticket, request));
        let Some(read) = read else { return false };
        let (shard, id) = (link.shard, link.node);
        self.suspect(shard, id);
        // The node may not be a replica of this shard any more.
        cx.wish(None);
        ask_primary(cx, vec![read]);
        true
    }
}

/// Asks the primary for reads that a replica did not answer.
pub(crate) fn ask_primary(cx: &mut Context, reads: Vec<Retry>) {
    for Retry { profile, shard, ticket, request } in reads {
        let Ticket { conn, place, part, owner, command, kept, .. } = ticket;
        match cx.shared_link(profile, shard) {
            Ok(ix) => {
                cx.stats.counters.replica_retries += 1;
                cx.engine.asking = command;
                cx.engine.enqueue_on(ix, &request, Asked { conn, place, part, owner, kept });
            }
            Err(lost) => cx.effects.push_back(Effect::Lose(ticket, lost)),
        }
    }
}

/// Ends a late request on the link `ix`, which goes to a replica. A read is sent to the primary, and the replica's
/// late reply to it is discarded.
pub(crate) fn expire_read(cx: &mut Context, ix: LinkIx) {
    let link = &mut cx.engine.links[ix];
    let request = link.kept_late_request();
    let Some(ticket) = link.expire() else {
        return cx.fail_link(ix, Fault::Gone("the node does not read".to_owned()));
    };
    let read = request.filter(|_| is_read_of_client(&ticket));
    match read.and_then(|request| Retry::new(Why::ReplicaFailed, link, ticket, request)) {
        Some(read) => ask_primary(cx, vec![read]),
        None => {
            let lost = cx.time_out(ix, &ticket);
            cx.effects.push_back(Effect::Lose(ticket, lost));
        }
    }
}

/// Whether the session's reads must go to primaries:
///
/// * its transaction depends on them,
/// * shardis notifies it when the data change, or
/// * it reads over a link of its own.
pub(crate) fn reads_must_be_fresh(session: &Session) -> bool {
    let is_tracking =
        session.features.subscribed.as_ref().is_some_and(|subscribed| subscribed.tracking.is_some());
    session.features.watch != Watch::No || is_tracking || session.pinning.id().is_some()
}

/// Whether a reply from a replica is still to come.
pub(crate) fn has_reads_in_flight(session: &Session) -> bool {
    let reads = session.features.reads.iter().flat_map(|reads| &reads.shards);
    reads.filter_map(|of_shard| of_shard.read_at).any(|place| session.replies.has_place(place))
}

/// Notes that the present request reads from a replica of `shard`.
pub(crate) fn note_replica_read(session: &mut Session, shard: ShardId) {
    let place = session.replies.next_place();
    if let Some(reads) = &mut session.features.reads {
        reads.of_shard(shard).read_at = Some(place);
    }
}

/// Notes that the present request may write to `shard`.
fn note_own_write(session: &mut Session, shard: ShardId) {
    let place = session.replies.next_place();
    if let Some(reads) = &mut session.features.reads {
        reads.of_shard(shard).own_write = OwnWrite::Sent(place);
    }
}

/// Notes that the request at `place` goes to `shard` unexpectedly, and may write there.
pub(crate) fn note_sent_elsewhere(session: &mut Session, shard: ShardId, place: u32) {
    let Some(mut reads) = session.features.reads.take() else { return };
    let own_write = &mut reads.of_shard(shard).own_write;
    let behind = |place: u32| place.wrapping_sub(session.replies.front());
    let is_last = !matches!(*own_write, OwnWrite::Sent(last) if session.replies.has_place(last) && behind(last) > behind(place));
    if is_last {
        *own_write = OwnWrite::Sent(place);
    }
    session.features.reads = Some(reads);
}

/// The policy of the client, and its last write to `shard`. `None` while a write of it is in flight there. `polls` is
/// the number of polls of the primary.
fn own_write(
    session: &mut Session,
    shard: ShardId,
    polls: u64,
    now: Instant,
) -> Option<(ReadFrom, Option<Written>)> {
    let mut reads = session.features.reads.take()?;
    let from = reads.from;
    let of_shard = reads.of_shard(shard);
    if let OwnWrite::Sent(place) = of_shard.own_write
        && !session.replies.has_place(place)
    {
        of_shard.own_write = OwnWrite::Answered(Written { poll: polls, at: now });
    }
    let own_write = of_shard.own_write;
    session.features.reads = Some(reads);
    match own_write {
        OwnWrite::No => Some((from, None)),
        OwnWrite::Sent(_) => None,
        OwnWrite::Answered(written) => Some((from, Some(written))),
    }
}
