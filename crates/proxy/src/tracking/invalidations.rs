//! Invalidations: clients that cache learn which keys have changed on any node.
//!
//! ```text
//!   client: CLIENT TRACKING ON ─► its worker, to each node: HELLO 3, CLIENT TRACKING ON BCAST
//!   client: GET k ─► k is noted ─► node
//!   node: k has changed ─► who has read k? ─► `invalidate k` behind the replies that are to come
//! ```
//!
//! A worker with tracking clients has one more link to each node. Over this link the node reports every changed key,
//! and the worker finds the clients that get the invalidation. As with messages, a client is answered when all nodes
//! have confirmed. While a node is lost, any key there may change. So all tracking clients invalidate everything,
//! once when the node is lost and once when it is back. One FLUSHALL flushes all nodes, and the clients get one
//! invalidation for it.
//!
//! Nodes know shardis, and not the client that asked. [`crate::tracking::noloop`] suppresses the invalidations of a
//! client's own writes.

use crate::ConnId;
use crate::context::Context;
use crate::errors::{self, Lost};
use crate::features::{Asked, Owed, Owner, Session, SessionFeatures, TaskId, TaskKind};
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::link::profile::Profile;
use crate::local::gathered::{Gathered, Question};
use crate::local::inquiry;
use crate::peers::{Peer, Peers};
use crate::pubsub;
use crate::session::Reason;
use crate::tracking::noloop::Check;
use crate::tracking::{self, Mode, Readers, Redirect, Tracking, Wish, noloop};
use command::{Carry, ClientTask, Command, Flags, Local, Number, Transaction as Act};
use engine::memory::Charge;
use resp::reply::{as_bulk, elements};
use resp::{Request, encode};
use std::collections::BTreeSet;
use std::sync::Arc;
use stdx::{Id, Slab};
use topology::{ShardId, Topology};

/// Tracking state of a worker.
#[derive(Debug)]
pub(crate) struct Invalidations {
    /// The links over which nodes report changes, by shard.
    sources: Vec<Source>,
    /// Clients that track, or will once nodes have confirmed.
    clients: BTreeSet<ConnId>,
    pub readers: Readers,
    /// Keys that are read again for NOLOOP.
    pub checks: Slab<Check>,
    /// Clients that wait for the confirmations of nodes.
    waiting: Slab<Waiting>,
}

/// A place in a client's order that waits for the confirmations of nodes.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    place: u32,
    /// The number of nodes that have not confirmed.
    left: usize,
    /// The future options. Until then, and if a node cannot confirm, the present ones stay, if any.
    tracking: Box<Tracking>,
}

/// The source of a shard's changes.
#[derive(Clone, Debug, Default)]
struct Source {
    link: Option<LinkIx>,
    /// Whether the node has confirmed.
    is_confirmed: bool,
    /// Whether changes may have been missed.
    has_gap: bool,
}

/// An id that no waiting client has.
const NOBODY: Id = Id { index: u32::MAX, generation: 0 };
/// The request to a node. Repeating it does no harm.
const TRACK: &[u8] = b"*4\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nBCAST\r\n";

impl Invalidations {
    pub(crate) fn new(shards: usize, charge: Charge) -> Invalidations {
        let sources = vec![Source::default(); shards];
        let (clients, readers, waiting) = (BTreeSet::new(), Readers::new(charge), Slab::default());
        Invalidations { sources, clients, readers, checks: Slab::default(), waiting }
    }

    /// Adapts the list of sources to the shards of `topology`.
    pub(crate) fn fit(&mut self, topology: &Topology) {
        self.sources.resize(topology.shard_count(), Source::default());
    }

    /// The link over which changes of `shard` come.
    pub(crate) fn link(&self, shard: ShardId) -> Option<LinkIx> {
        self.sources[shard.0 as usize].link
    }

    /// Whether changes of `shard` come over the link `ix`.
    pub(crate) fn is_source(&self, shard: ShardId, ix: LinkIx) -> bool {
        self.sources[shard.0 as usize].link == Some(ix)
    }

    /// Places in clients' orders that wait for confirmations.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (ConnId, u32)> {
        self.waiting.iter().map(|(_, waiting)| (waiting.conn, waiting.place))
    }

    /// For each waiting client, the bytes that are charged and the bytes in use.
    pub(crate) fn accounts_of_waiting(&self) -> impl Iterator<Item = (usize, usize)> {
        self.waiting.iter().map(|(_, waiting)| waiting.tracking.account())
    }

    /// The waiting entries of `conn`, or all.
    fn waiting_of(&self, conn: Option<ConnId>) -> Vec<Id> {
        let ids = (0..self.waiting.places()).filter_map(|index| self.waiting.id_at(index));
        let is_its = |id: &Id| {
            self.waiting.get(*id).is_some_and(|waiting| conn.is_none_or(|conn| conn == waiting.conn))
        };
        ids.filter(is_its).collect()
    }

    /// Runs CLIENT TRACKING.
    pub(crate) fn track(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        match Wish::parse(request, session.features.tracking(), cx.limits.prefix_bytes_max) {
            Err(text) => encode::error(reply, &text),
            Ok(Wish::Off) => {
                self.end_tracking(cx, session);
                encode::simple(reply, b"OK");
            }
            Ok(Wish::On { redirect: None, tracking }) => {
                let place = session.replies.next_place();
                match self.begin_tracking(cx, session, place, counted(cx, tracking)) {
                    Err(lost) => cx.refuse(session, &lost.text()),
                    Ok(()) => {
                        session.replies.reserve(Owed::Task(TaskId::Subscription));
                        session.hold.add(Reason::Order);
                    }
                }
            }
            Ok(Wish::On { redirect: Some(client), tracking }) => {
                let gathered = Gathered::Redirect { found: None, tracking: counted(cx, tracking) };
                let is_asked = inquiry::ask_workers(cx, session, Question::Find { client }, gathered);
                if is_asked {
                    session.hold.add(Reason::Order);
                }
            }
        }
    }

    /// Continues CLIENT TRACKING after the search for the client to redirect to. Returns false if the session is
    /// answered later.
    pub(crate) fn begin_redirected(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        place: u32,
        found: Option<Redirect>,
        mut tracking: Box<Tracking>,
        reply: &mut Vec<u8>,
    ) -> bool {
        tracking.redirect = found;
        let begun = match tracking.redirect {
            Some(_) => self.begin_tracking(cx, session, place, tracking).map_err(|lost| lost.text()),
            None => Err(tracking::NO_REDIRECT.to_owned()),
        };
        match begun {
            Ok(()) => session.replies.expect(place, Owed::Task(TaskId::Subscription)),
            Err(text) => {
                errors::write(reply, &text);
                lift_barrier_of_tracking(cx, session);
            }
        }
        !reply.is_empty()
    }

    /// Starts tracking for the session. When all nodes have confirmed, tracking begins and `place` is answered.
    /// Earlier changes do not concern the client: its next requests are not read until then.
    fn begin_tracking(
        &mut self,
        cx: &mut Context,
        session: &Session,
        place: u32,
        tracking: Box<Tracking>,
    ) -> Result<(), Lost> {
        let shards: Vec<ShardId> = cx.engine.topology.all_shards().collect();
        for &shard in &shards {
            cx.admit(shard)?;
        }
        let waiting = Waiting { conn: session.conn, place, left: shards.len(), tracking };
        let id = self.waiting.insert(waiting);
        shards.into_iter().for_each(|shard| self.ask_for_changes(cx, shard, id));
        self.clients.insert(session.conn);
        self.count_trackers(cx);
        Ok(())
    }

    /// Asks the node of `shard` to report changes. `id` names the waiting entry.
    fn ask_for_changes(&mut self, cx: &mut Context, shard: ShardId, id: Id) {
        let ix = self.source_of_changes(cx, shard);
        // The waiting entry takes the place of a client.
        let asked =
            Asked { conn: id, place: 0, part: shard.0, owner: Owner::Task(TaskKind::Track), kept: Kept::NO };
        cx.engine.enqueue_on(ix, TRACK, asked);
    }

    /// Makes the nodes of `shards` report changes, for clients that wait for keys there. Returns true if all do so
    /// already. Otherwise all clients that wait are woken when they do.
    pub(crate) fn hear_of_changes(&mut self, cx: &mut Context, shards: BTreeSet<ShardId>) -> bool {
        let mut all_tell = true;
        for shard in shards {
            let source = &mut self.sources[shard.0 as usize];
            if source.is_confirmed {
                continue;
            }
            (all_tell, source.has_gap) = (false, true);
            if source.link.is_none() && cx.engine.topology.shard(shard).primary.is_some() {
                self.ask_for_changes(cx, shard, NOBODY);
            }
        }
        all_tell
    }

    /// The link over which changes of `shard` come; it is made if needed.
    fn source_of_changes(&mut self, cx: &mut Context, shard: ShardId) -> LinkIx {
        let profile = cx.profiles.of_kind(Profile { resp3: true, ..Profile::default() }, cx.engine.now);
        let link = pubsub::source_on(cx, self.sources[shard.0 as usize].link, profile, shard);
        self.sources[shard.0 as usize].link = Some(link);
        link
    }

    /// Gives up the link for the changes of `shard`. Returns the waiting entries whose requests on it are not
    /// answered.
    fn leave_source_of_changes(&mut self, cx: &mut Context, shard: ShardId) -> Vec<Id> {
        let source = std::mem::take(&mut self.sources[shard.0 as usize]);
        let Some(ix) = source.link else { return Vec::new() };
        cx.pins.doomed.push(ix);
        let tickets = cx.engine.links[ix].tickets();
        tickets
            .filter(|ticket| ticket.owner == Owner::Task(TaskKind::Track))
            .map(|ticket| ticket.conn)
            .collect()
    }

    /// Ends tracking of the session: it asked for that, or has gone.
    pub(crate) fn end_tracking(&mut self, cx: &mut Context, session: &mut Session) {
        if session.hold.has(Reason::Order) {
            // The session has gone, and may wait for confirmations.
            for id in self.waiting_of(Some(session.conn)) {
                self.waiting.remove(id);
            }
        }
        if let Some(subscribed) = &mut session.features.subscribed {
            subscribed.tracking = None;
            session.features.forget_if_silent();
        }
        self.forget_tracker(cx, session.conn);
    }

    /// Forgets the client `conn`, which does not track.
    fn forget_tracker(&mut self, cx: &mut Context, conn: ConnId) {
        if !self.clients.remove(&conn) {
            return;
        }
        self.count_trackers(cx);
        if self.clients.is_empty() {
            self.readers.clear();
        }
    }

    fn count_trackers(&mut self, cx: &mut Context) {
        cx.stats.counters.trackers = self.clients.len() as u64;
    }

    /// Notes the keys that `request` of a tracking session reads. EXEC reads the keys of a transaction.
    pub(crate) fn note_read(&mut self, session: &mut Session, command: &Command, request: &Request<'_>) {
        self.note_keys(session, command, request);
        session.features.tracking_mut().into_iter().for_each(Tracking::recount);
    }

    fn note_keys(&mut self, session: &mut Session, command: &Command, request: &Request<'_>) {
        let Session { conn, profile, features: SessionFeatures { subscribed, transaction, .. }, .. } =
            session;
        let tracking = subscribed.as_mut().and_then(|subscribed| subscribed.tracking.as_deref_mut());
        let Some(tracking) = tracking else { return };
        tracking.begin_request();
        if tracking.noloop {
            tracking.own.note(*profile, command, request, transaction.is_some());
        }
        let reads = command.flags.contains(Flags::READONLY) || matches!(command.carry, Carry::Script(_));
        let readers = &mut self.readers;
        if reads && tracking.begin_to_read() {
            let mut positions = Vec::new();
            // If the keys cannot be found, the request reads none.
            let _ = command.keys(request, &mut positions);
            for key in positions.into_iter().map(|at| request.arg(at)) {
                match transaction {
                    // EXEC will read nothing.
                    Some(transaction) if transaction.is_spoilt() => {}
                    Some(transaction) => transaction.reads.push(key),
                    None => readers.add(key, *conn),
                }
            }
        }
        match (command.carry, transaction) {
            // If EXEC has to wait for its turn, the keys are noted twice.
            (Carry::Transaction(Act::Execute), Some(transaction)) => {
                tracking.begin_to_read();
                transaction.reads.iter().for_each(|key| readers.add(key, *conn));
                if transaction.has_inlays() {
                    // A command of the transaction may ask for CLIENT CACHING's state, and nothing else runs before.
                    return;
                }
            }
            (Carry::Transaction(Act::Discard), _) => {}
            // Redis runs CLIENT CACHING with EXEC. Before EXEC, the difference cannot be seen.
            (Carry::Here(Local::Client(ClientTask::Caching)), Some(_)) => {
                _ = tracking.set_caching(request.arg(2));
                return;
            }
            (Carry::Transaction(Act::Begin), _) | (_, Some(_)) => return,
            (_, None) if is_of_client(&command.name) => return,
            (_, None) => {}
        }
        tracking.use_caching_word();
    }

    /// Whether changes are needed: by a client that tracks, or one that waits for keys (`has_waits`).
    fn are_changes_wanted(&self, has_waits: bool) -> bool {
        has_waits || !self.clients.is_empty()
    }

    /// Asks the nodes of new shards to report changes, if they are needed.
    fn ask_newcomers_for_changes(&mut self, cx: &mut Context, has_waits: bool) {
        if !self.are_changes_wanted(has_waits) {
            return;
        }
        for shard in cx.engine.topology.all_shards().collect::<Vec<_>>() {
            let source = &mut self.sources[shard.0 as usize];
            if source.link.is_none() && cx.engine.topology.shard(shard).primary.is_some() {
                // Earlier changes on this shard are unknown.
                source.has_gap = true;
                self.ask_for_changes(cx, shard, NOBODY);
            }
        }
    }

    /// The next link over which a node reports changes that are not needed.
    pub(crate) fn next_untracked(&mut self, has_waits: bool) -> Option<LinkIx> {
        if self.are_changes_wanted(has_waits) {
            return None;
        }
        let source = self.sources.iter_mut().find(|source| source.link.is_some())?;
        std::mem::take(source).link
    }
}

/// `tracking`, charged as memory from now on.
fn counted(cx: &Context, tracking: Tracking) -> Box<Tracking> {
    let charge = cx.engine.memory.charge(tracking.held_bytes());
    Box::new(Tracking { charge, ..tracking })
}

/// Reads the next requests of a client whose CLIENT TRACKING ON was answered. Without this barrier, a read could be
/// sent before all nodes report changes, and a change right behind it would be missed. Also OFF must not run before
/// ON.
fn lift_barrier_of_tracking(cx: &mut Context, session: &mut Session) {
    session.hold.remove(Reason::Order);
    cx.engine.todo.clients_to_resume.push(session.conn);
}

/// Answers CLIENT CACHING.
pub(crate) fn set_caching(session: &mut Session, word: &[u8], reply: &mut Vec<u8>) {
    let tracking = session.features.tracking_mut();
    match tracking.ok_or(errors::NOT_TRACKING).and_then(|tracking| tracking.set_caching(word)) {
        Ok(()) => encode::simple(reply, b"OK"),
        Err(text) => errors::write(reply, text),
    }
}

impl Invalidations {
    /// Starts the reports of changes of `shard` on its link, which is connected.
    pub(crate) fn handle_changes_source(&mut self, cx: &mut Context, shard: ShardId, ix: LinkIx) {
        // The link was made again, and the waiting clients were answered long ago.
        if cx.engine.links[ix].in_flight() == 0 {
            self.ask_for_changes(cx, shard, NOBODY);
        }
    }

    /// Notes a node's confirmation for the waiting entry `id`.
    fn note_confirmed(&mut self, cx: &mut Context, peers: &mut Peers, id: Id) {
        let Some(waiting) = self.waiting.get_mut(id) else { return };
        waiting.left -= 1;
        if waiting.left > 0 {
            return;
        }
        let Some(waiting) = self.waiting.remove(id) else { return };
        let Waiting { conn, place, tracking, .. } = waiting;
        if let Some(Peer::Client(session)) = peers.get_mut(conn) {
            let tracks = &mut session.features.subscribed.get_or_insert_default().tracking;
            let before = tracks.take();
            let now = tracks.insert(tracking);
            before.iter().for_each(|before| now.succeed(before));
            lift_barrier_of_tracking(cx, session);
            cx.settle(session, place, b"+OK\r\n");
        }
        self.count_prefixes(cx, peers);
    }

    /// Counts the prefixes of all clients.
    pub(crate) fn count_prefixes(&mut self, cx: &mut Context, peers: &mut Peers) {
        let clients = self.clients.iter();
        let prefixes = clients.filter_map(|&conn| match peers.get(conn) {
            Some(Peer::Client(session)) => session.features.tracking().map(Tracking::prefixes),
            _ => None,
        });
        cx.stats.counters.tracked_prefixes = prefixes.sum::<usize>() as u64;
    }

    /// Answers all waiting clients with `error`. They track as before, if at all.
    fn deny_trackers(&mut self, cx: &mut Context, peers: &mut Peers, error: &[u8]) {
        for id in self.waiting_of(None) {
            let Some(Waiting { conn, place, .. }) = self.waiting.remove(id) else {
                continue;
            };
            let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
            if session.features.tracking().is_none() {
                self.forget_tracker(cx, conn);
            }
            cx.stats.counters.errors += 1;
            lift_barrier_of_tracking(cx, session);
            cx.settle(session, place, error);
        }
    }

    /// Follows a change of shards. No client waits for a shard that is gone: its keys now belong to other shards,
    /// which report changes.
    pub(crate) fn follow_changes(&mut self, cx: &mut Context, peers: &mut Peers, has_waits: bool) {
        let topology = Arc::clone(&cx.engine.topology);
        let gone = topology.shards().iter().zip((0..).map(ShardId)).filter(|(shard, _)| shard.is_gone());
        for (_, shard) in gone {
            for id in self.leave_source_of_changes(cx, shard) {
                self.note_confirmed(cx, peers, id);
            }
        }
        self.ask_newcomers_for_changes(cx, has_waits);
    }

    /// Notes that the node of `shard` reports changes from now on. Returns true if changes were missed.
    pub(crate) fn handle_tracked(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        shard: ShardId,
        id: Id,
    ) -> bool {
        let source = &mut self.sources[shard.0 as usize];
        source.is_confirmed = true;
        let had_gap = std::mem::take(&mut source.has_gap);
        if had_gap {
            // These changes were missed.
            self.forget_all(cx, peers);
        }
        self.note_confirmed(cx, peers, id);
        had_gap
    }

    /// Notes the loss of the link for the changes of `shard`. Returns true if the node had confirmed.
    pub(crate) fn handle_changes_lost(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        shard: ShardId,
        reason: &str,
    ) -> bool {
        let source = &mut self.sources[shard.0 as usize];
        let was_confirmed = std::mem::take(&mut source.is_confirmed);
        source.has_gap |= was_confirmed;
        let name = cx.engine.shard_name(shard).to_owned();
        let error = errors::reply(&Lost::NotSent { shard: name, reason: reason.to_owned() }.text());
        self.deny_trackers(cx, peers, &error);
        if was_confirmed {
            cx.stats.counters.message_gaps += 1;
            self.forget_all(cx, peers);
        }
        was_confirmed
    }

    /// Gives back the link for the changes of `shard`, if they are not needed.
    pub(crate) fn leave_if_unwanted(&mut self, cx: &mut Context, shard: ShardId, has_waits: bool) {
        if !self.are_changes_wanted(has_waits) {
            let source = std::mem::take(&mut self.sources[shard.0 as usize]);
            source.link.into_iter().for_each(|ix| cx.vacate(ix));
        }
    }

    /// Makes all tracking clients invalidate everything.
    fn forget_all(&mut self, cx: &mut Context, peers: &mut Peers) {
        self.readers.clear();
        for conn in self.clients.clone() {
            tell_changed(cx, peers, conn, None);
        }
    }

    /// Handles the report of the node of `shard` that `keys` have changed. Without keys, all are gone.
    pub(crate) fn handle_changes(
        &mut self,
        cx: &mut Context,
        peers: &mut Peers,
        shard: ShardId,
        keys: Option<Vec<&[u8]>>,
    ) {
        let Some(keys) = keys else { return self.handle_flush(cx, peers, shard) };
        for conn in self.clients.clone() {
            let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
            let Some(tracking) = session.features.tracking_mut() else { continue };
            for wanted in tracking.wanted(&keys) {
                let (own, others): (Vec<&[u8]>, Vec<&[u8]>) =
                    wanted.into_iter().partition(|key| noloop::is_own_write(peers, conn, key));
                own.into_iter().for_each(|key| self.check_own_write(cx, peers, conn, shard, key));
                if !others.is_empty() {
                    tell_changed(cx, peers, conn, Some(&others));
                }
            }
        }
        for key in keys {
            for conn in self.readers.take(key) {
                match wants_what_it_read(peers, conn) {
                    true if noloop::is_own_write(peers, conn, key) => {
                        self.check_own_write(cx, peers, conn, shard, key)
                    }
                    true => tell_changed(cx, peers, conn, Some(&[key])),
                    false => {}
                }
            }
        }
    }

    fn handle_flush(&mut self, cx: &mut Context, peers: &mut Peers, shard: ShardId) {
        self.readers.clear();
        for conn in self.clients.clone() {
            let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
            if session.features.tracking_mut().is_some_and(|tracking| tracking.note_flush(shard)) {
                tell_changed(cx, peers, conn, None);
            }
        }
    }

    /// Invalidates and forgets keys while the table is too large.
    pub(crate) fn forget_surplus(&mut self, cx: &mut Context, peers: &mut Peers) {
        let max = cx.limits.tracked_bytes_max;
        while let Some(key) = self.readers.surplus(max) {
            for conn in self.readers.take(&key) {
                if wants_what_it_read(peers, conn) {
                    tell_changed(cx, peers, conn, Some(&[&key]));
                }
            }
        }
    }
}

/// Sends an invalidation of `keys` to the client `conn`, or to the client it redirects to. Without keys, everything
/// is invalid.
pub(crate) fn tell_changed(cx: &mut Context, peers: &mut Peers, conn: ConnId, keys: Option<&[&[u8]]>) {
    let Some(Peer::Client(session)) = peers.get(conn) else { return };
    let Some(tracking) = session.features.tracking() else { return };
    let mut changes = Vec::new();
    match keys {
        None => encode::null(&mut changes, session.resp3),
        Some(keys) => match routed_names(session, keys) {
            Some(names) if names.is_empty() => return,
            Some(names) => write_keys(names.iter().map(Vec::as_slice), &mut changes),
            None => write_keys(keys.iter().copied(), &mut changes),
        },
    }
    let own = cx.settings.worker;
    match tracking.redirect {
        None if !session.resp3 => {}
        None => push_changes(cx, peers, conn, &changes, false),
        Some(redirect) if redirect.worker == own => {
            match peers.get(redirect.conn) {
                Some(Peer::Client(_)) => push_changes(cx, peers, redirect.conn, &changes, true),
                _ => break_redirect(cx, peers, conn),
            };
        }
        Some(redirect) => inquiry::mail_changes(cx, conn, redirect, changes.into()),
    }
}

/// The names of `keys` for a client that is another pool; those without a name are left out. `None` for other clients.
fn routed_names(session: &Session, keys: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let namespace = &session.features.namespace.as_ref()?.namespace;
    namespace.route()?;
    let name = |key: &&[u8]| namespace.of_client(key).map(|(head, tail)| [head, tail].concat());
    Some(keys.iter().filter_map(name).collect())
}

fn write_keys<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>, out: &mut Vec<u8>) {
    encode::array_header(out, keys.len());
    keys.for_each(|key| encode::bulk(out, key));
}

/// Sends an invalidation of another worker's client to `to`, a client of this worker. Returns false if that client
/// has gone.
pub(crate) fn handle_redirected(
    cx: &mut Context,
    peers: &mut Peers,
    to: ConnId,
    changes: &Arc<[u8]>,
) -> bool {
    let is_there = matches!(peers.get(to), Some(Peer::Client(_)));
    if is_there {
        push_changes(cx, peers, to, changes, true);
    }
    is_there
}

/// Appends an invalidation to the output of `conn`: as a push, or as a message for a subscribed client that speaks
/// RESP2, like Redis.
fn push_changes(cx: &mut Context, peers: &mut Peers, conn: ConnId, changes: &[u8], is_redirected: bool) {
    let Some(Peer::Client(session)) = peers.get_mut(conn) else { return };
    let beginning: &[u8] = match () {
        () if !session.may_be_told() => return,
        () if session.resp3 => b">2\r\n$10\r\ninvalidate\r\n",
        () if is_redirected && session.features.has_topics() => {
            b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
        }
        () => return,
    };
    // A pending reply may have the value before the change.
    session.push_behind(&[beginning, changes].concat(), &mut cx.engine.pool);
    pubsub::after_push(cx, peers, conn, beginning.len() + changes.len());
}

/// Notifies the client `conn` that the client to which it redirects has gone.
pub(crate) fn break_redirect(cx: &mut Context, peers: &mut Peers, conn: ConnId) {
    let Some(Peer::Client(session)) = peers.get_mut(conn) else { return };
    let Some(tracking) = session.features.tracking_mut() else { return };
    tracking.is_broken = true;
    let client = tracking.redirect.map_or(0, |redirect| redirect.client);
    if session.resp3 && session.may_be_told() {
        let text = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{client}\r\n");
        session.push_behind(text.as_bytes(), &mut cx.engine.pool);
        pubsub::after_push(cx, peers, conn, text.len());
    }
}

/// Whether the client still gets invalidations for keys that it has read. It may use broadcasts by now.
fn wants_what_it_read(peers: &Peers, conn: ConnId) -> bool {
    let Some(Peer::Client(session)) = peers.get(conn) else { return false };
    session.features.tracking().is_some_and(|tracking| tracking.mode != Mode::Broadcast)
}

impl SessionFeatures {
    /// The number of the client that gets the invalidations instead: 0 for none, -1 without tracking.
    pub(crate) fn redirect_number(&self) -> i64 {
        tracking::redirect_number(self.tracking())
    }

    /// Forgets CLIENT CACHING, which applied to the refused request of `command`.
    pub(crate) fn forget_caching(&mut self, command: Number) {
        let is_of_client = command.name().is_some_and(is_of_client);
        let is_used_up = self.transaction.is_none() && !is_of_client;
        if let Some(tracking) = self.tracking_mut().filter(|_| is_used_up) {
            tracking.use_caching_word();
        }
    }

    /// Forgets CLIENT CACHING after a transaction whose replies shardis made in part.
    pub(crate) fn end_caching(&mut self) {
        self.tracking_mut().into_iter().for_each(Tracking::use_caching_word);
    }

    /// Notes that the last request has run.
    #[cold]
    pub(crate) fn end_noted_request(&mut self) {
        self.tracking_mut().into_iter().for_each(Tracking::end_request);
    }

    pub(crate) fn tracking_mut(&mut self) -> Option<&mut Tracking> {
        self.subscribed.as_mut()?.tracking.as_deref_mut()
    }

    /// The client's options for invalidations, if it tracks.
    pub(crate) fn tracking(&self) -> Option<&Tracking> {
        self.subscribed.as_ref()?.tracking.as_deref()
    }
}

/// Whether the command is a subcommand of CLIENT: CLIENT CACHING applies to the command behind it.
fn is_of_client(name: &str) -> bool {
    name.starts_with("client|")
}

/// The keys that `reply`, a push, reports as changed, or all. `None` if it is another push.
pub(crate) fn changes_of(reply: &[u8]) -> Option<Option<Vec<&[u8]>>> {
    let keys = reply.strip_prefix(b">2\r\n$10\r\ninvalidate\r\n")?;
    Some(elements(keys).map(|keys| keys.filter_map(as_bulk).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_of_changes_are_no_replies() {
        let keys = b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$2\r\nbc\r\n";
        assert_eq!(changes_of(keys), Some(Some(vec![&b"a"[..], b"bc"])));
        assert_eq!(changes_of(b">2\r\n$10\r\ninvalidate\r\n_\r\n"), Some(None));
        assert_eq!(changes_of(b"+OK\r\n"), None);
    }
}
