//! Clients that cache are told which keys have changed, whichever node has them.
//!
//! ```text
//!   client: CLIENT TRACKING ON ─► its worker, to each node: HELLO 3, CLIENT TRACKING ON BCAST
//!   client: GET k ─► k is noted ─► node
//!   node: k has changed ─► who has read k? ─► `invalidate k` behind the replies that are to come
//! ```
//!
//! A worker with clients that track has one connection more to each node, over which it hears of every key that changes
//! there, and sorts out here who wants to know. As with messages, a client is answered when all nodes have confirmed. A
//! node that is lost may have changed anything: all clients that track are told to forget all they have, once when it is
//! lost and once when it is back. All nodes are flushed by one FLUSHALL, which the clients are told of once.
//!
//! Nodes know us, and not who asked: what a client has written itself, and does not want to hear of, is sorted out in
//! [`crate::tracking::noloop`].

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

/// What a worker knows of its clients that track.
#[derive(Debug)]
pub(crate) struct Invalidations {
    /// The connections over which nodes tell of changes, by shard.
    sources: Vec<Source>,
    /// Clients that track, or are about to.
    clients: BTreeSet<ConnId>,
    pub readers: Readers,
    /// What is being looked at again.
    pub checks: Slab<Check>,
    /// Clients that are to be told that they track.
    waiting: Slab<Waiting>,
}

/// A place in a client's order that waits to be told that it tracks.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    place: u32,
    /// Nodes that have not confirmed.
    left: usize,
    /// How it tracks then. Until then, and if a node cannot confirm, it tracks as before, if at all.
    tracking: Box<Tracking>,
}

/// Where the changes of a shard come from.
#[derive(Clone, Debug, Default)]
struct Source {
    link: Option<LinkIx>,
    /// The node has confirmed.
    is_confirmed: bool,
    /// It had before the connection was lost.
    has_gap: bool,
}

/// No client waits by this name.
const NOBODY: Id = Id { index: u32::MAX, generation: 0 };
/// What a node is asked for. To ask again does no harm.
const TRACK: &[u8] = b"*4\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nBCAST\r\n";

impl Invalidations {
    pub(crate) fn new(shards: usize, charge: Charge) -> Invalidations {
        let sources = vec![Source::default(); shards];
        let (clients, readers, waiting) = (BTreeSet::new(), Readers::new(charge), Slab::default());
        Invalidations { sources, clients, readers, checks: Slab::default(), waiting }
    }

    /// There may be shards more, or less.
    pub(crate) fn fit(&mut self, topology: &Topology) {
        self.sources.resize(topology.shard_count(), Source::default());
    }

    /// The connection over which changes of `shard` come.
    pub(crate) fn link(&self, shard: ShardId) -> Option<LinkIx> {
        self.sources[shard.0 as usize].link
    }

    /// Whether `ix` is the connection over which changes of `shard` come.
    pub(crate) fn is_source(&self, shard: ShardId, ix: LinkIx) -> bool {
        self.sources[shard.0 as usize].link == Some(ix)
    }

    /// Places in clients' orders that wait to be told that their clients track.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (ConnId, u32)> {
        self.waiting.iter().map(|(_, waiting)| (waiting.conn, waiting.place))
    }

    /// What those who wait are counted for, and what they hold.
    pub(crate) fn accounts_of_waiting(&self) -> impl Iterator<Item = (usize, usize)> {
        self.waiting.iter().map(|(_, waiting)| waiting.tracking.account())
    }

    /// Those of `conn` who wait, or all.
    fn waiting_of(&self, conn: Option<ConnId>) -> Vec<Id> {
        let ids = (0..self.waiting.places()).filter_map(|index| self.waiting.id_at(index));
        let is_its = |id: &Id| {
            self.waiting.get(*id).is_some_and(|waiting| conn.is_none_or(|conn| conn == waiting.conn))
        };
        ids.filter(is_its).collect()
    }

    /// CLIENT TRACKING.
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

    /// The client that is to be told instead was looked for. False if the session is answered later.
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

    /// The session is to track. It does, and is told so at `place`, when all nodes have confirmed; what they told before
    /// was of changes that it need not know of. What is behind is not read until then.
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

    /// Asks the node of `shard` to tell of changes, for those who wait by the name of `id`.
    fn ask_for_changes(&mut self, cx: &mut Context, shard: ShardId, id: Id) {
        let ix = self.source_of_changes(cx, shard);
        // Who waits takes the place of a client.
        let asked =
            Asked { conn: id, place: 0, part: shard.0, owner: Owner::Task(TaskKind::Track), kept: Kept::NO };
        cx.engine.enqueue_on(ix, TRACK, asked);
    }

    /// Clients wait for keys of `shards`: their nodes are to tell of changes. True if all do so already; else all clients
    /// that wait are woken when they do.
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

    /// The connection over which changes of `shard` come; it is made, if there is none, and at once.
    fn source_of_changes(&mut self, cx: &mut Context, shard: ShardId) -> LinkIx {
        let profile = cx.profiles.of_kind(Profile { resp3: true, ..Profile::default() }, cx.engine.now);
        let link = pubsub::source_on(cx, self.sources[shard.0 as usize].link, profile, shard);
        self.sources[shard.0 as usize].link = Some(link);
        link
    }

    /// Gives the connection over which the changes of `shard` came up. Who had asked over it, and was not answered.
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

    /// The session tracks no more: it has said so, or is gone.
    pub(crate) fn end_tracking(&mut self, cx: &mut Context, session: &mut Session) {
        if session.hold.has(Reason::Order) {
            // It is gone, and may have been about to.
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

    /// The client `conn` does not track.
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

    /// Notes the keys that `request` of a session that tracks reads. What a transaction names is read by EXEC.
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
            // A request without keys that can be found reads none.
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
            // It may have to wait for its turn: then the keys are noted once more.
            (Carry::Transaction(Act::Execute), Some(transaction)) => {
                tracking.begin_to_read();
                transaction.reads.iter().for_each(|key| readers.add(key, *conn));
                if transaction.has_inlays() {
                    // One of them may ask for the word, and nothing else is carried out before they are.
                    return;
                }
            }
            (Carry::Transaction(Act::Discard), _) => {}
            // Redis carries it out with EXEC: nobody can tell the difference before.
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

    /// Whether anybody wants to know of changes: a client that tracks, or one that waits for keys, if it `has_waits`.
    fn are_changes_wanted(&self, has_waits: bool) -> bool {
        has_waits || !self.clients.is_empty()
    }

    /// Shards may have come: all that are there are to tell of changes, if anybody wants to know.
    fn ask_newcomers_for_changes(&mut self, cx: &mut Context, has_waits: bool) {
        if !self.are_changes_wanted(has_waits) {
            return;
        }
        for shard in cx.engine.topology.all_shards().collect::<Vec<_>>() {
            let source = &mut self.sources[shard.0 as usize];
            if source.link.is_none() && cx.engine.topology.shard(shard).primary.is_some() {
                // What has changed there so far nobody knows.
                source.has_gap = true;
                self.ask_for_changes(cx, shard, NOBODY);
            }
        }
    }

    /// Connections over which nodes tell of changes that nobody wants to know of.
    pub(crate) fn next_untracked(&mut self, has_waits: bool) -> Option<LinkIx> {
        if self.are_changes_wanted(has_waits) {
            return None;
        }
        let source = self.sources.iter_mut().find(|source| source.link.is_some())?;
        std::mem::take(source).link
    }
}

/// `tracking`, which counts as held from now on.
fn counted(cx: &Context, tracking: Tracking) -> Box<Tracking> {
    let charge = cx.engine.memory.charge(tracking.held_bytes());
    Box::new(Tracking { charge, ..tracking })
}

/// CLIENT TRACKING ON was answered: what its client sent behind it is read now. A read that was sent on before all
/// nodes tell of changes could find what has changed by then, and nobody would say so; and OFF must not come first.
fn lift_barrier_of_tracking(cx: &mut Context, session: &mut Session) {
    session.hold.remove(Reason::Order);
    cx.engine.todo.clients_to_resume.push(session.conn);
}

/// CLIENT CACHING.
pub(crate) fn set_caching(session: &mut Session, word: &[u8], reply: &mut Vec<u8>) {
    let tracking = session.features.tracking_mut();
    match tracking.ok_or(errors::NOT_TRACKING).and_then(|tracking| tracking.set_caching(word)) {
        Ok(()) => encode::simple(reply, b"OK"),
        Err(text) => errors::write(reply, text),
    }
}

impl Invalidations {
    /// The connection over which changes of `shard` come is there.
    pub(crate) fn handle_changes_source(&mut self, cx: &mut Context, shard: ShardId, ix: LinkIx) {
        // Made again: those who track have been answered long ago.
        if cx.engine.links[ix].in_flight() == 0 {
            self.ask_for_changes(cx, shard, NOBODY);
        }
    }

    /// One node less is to confirm for those who wait by the name of `id`.
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

    /// Counts what clients have named to be told of.
    pub(crate) fn count_prefixes(&mut self, cx: &mut Context, peers: &mut Peers) {
        let clients = self.clients.iter();
        let prefixes = clients.filter_map(|&conn| match peers.get(conn) {
            Some(Peer::Client(session)) => session.features.tracking().map(Tracking::prefixes),
            _ => None,
        });
        cx.stats.counters.tracked_prefixes = prefixes.sum::<usize>() as u64;
    }

    /// Who waits for nodes to confirm is told `error`, and tracks as before, if at all.
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

    /// Shards may have come or gone. Nobody waits for what is gone: what it had, others have, who tell of it.
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

    /// The node of `shard` will tell of changes. True if some were missed.
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
            // What changed while nobody told us.
            self.forget_all(cx, peers);
        }
        self.note_confirmed(cx, peers, id);
        had_gap
    }

    /// The connection over which changes of `shard` come is gone. True if it told of changes.
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

    /// Gives the connection over which changes of `shard` come back, if nobody wants to know of them.
    pub(crate) fn leave_if_unwanted(&mut self, cx: &mut Context, shard: ShardId, has_waits: bool) {
        if !self.are_changes_wanted(has_waits) {
            let source = std::mem::take(&mut self.sources[shard.0 as usize]);
            source.link.into_iter().for_each(|ix| cx.vacate(ix));
        }
    }

    /// All clients that track are told to forget all that they have.
    fn forget_all(&mut self, cx: &mut Context, peers: &mut Peers) {
        self.readers.clear();
        for conn in self.clients.clone() {
            tell_changed(cx, peers, conn, None);
        }
    }

    /// The node of `shard` says that `keys` have changed; without keys, that all are gone.
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

    /// Forgets keys of which too many are known, as if they had changed.
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

/// Tells the client `conn`, or whom it redirects to, that `keys` have changed; without keys, that all may have.
pub(crate) fn tell_changed(cx: &mut Context, peers: &mut Peers, conn: ConnId, keys: Option<&[&[u8]]>) {
    let Some(Peer::Client(session)) = peers.get(conn) else { return };
    let Some(tracking) = session.features.tracking() else { return };
    let mut changes = Vec::new();
    match keys {
        None => encode::null(&mut changes, session.resp3),
        Some(keys) => {
            encode::array_header(&mut changes, keys.len());
            keys.iter().for_each(|key| encode::bulk(&mut changes, key));
        }
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

/// Another worker's client redirects to `to`, one of ours. False if that has gone.
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

/// Appends to the output of `conn` what has changed: as a push, or as the message that Redis makes of it for who is
/// subscribed and speaks RESP2.
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
    // A value that is still to come may be the one before the change.
    session.push_behind(&[beginning, changes].concat(), &mut cx.engine.pool);
    pubsub::after_push(cx, peers, conn, beginning.len() + changes.len());
}

/// Whom the client `conn` redirects to has gone.
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

/// Whether the client, which has read something, is to be told of it: it may have gone over to broadcasts since.
fn wants_what_it_read(peers: &Peers, conn: ConnId) -> bool {
    let Some(Peer::Client(session)) = peers.get(conn) else { return false };
    session.features.tracking().is_some_and(|tracking| tracking.mode != Mode::Broadcast)
}

impl SessionFeatures {
    /// The number of the client that is told instead: 0 if none is, -1 if it does not track.
    pub(crate) fn redirect_number(&self) -> i64 {
        tracking::redirect_number(self.tracking())
    }

    /// Its request, which asked for `command`, was refused: what CLIENT CACHING said was of that one.
    pub(crate) fn forget_caching(&mut self, command: Number) {
        let is_of_client = command.name().is_some_and(is_of_client);
        let is_used_up = self.transaction.is_none() && !is_of_client;
        if let Some(tracking) = self.tracking_mut().filter(|_| is_used_up) {
            tracking.use_caching_word();
        }
    }

    /// A transaction with commands that were answered here has ended.
    pub(crate) fn end_caching(&mut self) {
        self.tracking_mut().into_iter().for_each(Tracking::use_caching_word);
    }

    /// The request that was read last was carried out.
    #[cold]
    pub(crate) fn end_noted_request(&mut self) {
        self.tracking_mut().into_iter().for_each(Tracking::end_request);
    }

    pub(crate) fn tracking_mut(&mut self) -> Option<&mut Tracking> {
        self.subscribed.as_mut()?.tracking.as_deref_mut()
    }

    /// What it wants to be told of keys, if anything.
    pub(crate) fn tracking(&self) -> Option<&Tracking> {
        self.subscribed.as_ref()?.tracking.as_deref()
    }
}

/// CLIENT's subcommands, CACHING itself among them, leave its word to what comes behind them.
fn is_of_client(name: &str) -> bool {
    name.starts_with("client|")
}

/// The keys that `reply`, a push, says have changed, or that all are gone; `None` if it is no such push.
pub(crate) fn changes_of(reply: &[u8]) -> Option<Option<Vec<&[u8]>>> {
    let keys = reply.strip_prefix(b">2\r\n$10\r\ninvalidate\r\n")?;
    Some(elements(keys).map(|keys| keys.filter_map(as_bulk).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_of_changes_are_told_from_replies() {
        let keys = b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$2\r\nbc\r\n";
        assert_eq!(changes_of(keys), Some(Some(vec![&b"a"[..], b"bc"])));
        assert_eq!(changes_of(b">2\r\n$10\r\ninvalidate\r\n_\r\n"), Some(None));
        assert_eq!(changes_of(b"+OK\r\n"), None);
    }
}
