//! One worker's proxy: the events that come in, the actions that go out, and the clock between them.
//!
//! The work is done elsewhere: `requests.rs` is the way down, `replies.rs` the way up.

use crate::ConnId;
use crate::EngineLimits;
use crate::core::Core;
use crate::counters::{Board, Counters};
use crate::errors::{self, Lost};
use crate::event::{Action, Arrival, CloseReason, Event, Notice};
use crate::features::{Asked, Link, Owed, Owner, Session, TaskId, TaskKind};
use crate::limits::{Limits, Settings};
use crate::link::kept::Kept;
use crate::link::{Due, LinkIx, State, Use};
use crate::pubsub::is_slow_subscriber;
use crate::reading::replicas::Reads;
use crate::replies::{Fault, Outcome};
use crate::session::pinning::Pinning;
use crate::session::{Phase, Reason};
use crate::walk;
use engine::rounds::Rounds;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Slab, append};
use topology::Topology;

/// The core of one worker. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Proxy {
    pub(crate) peers: Slab<Peer>,
    pub(crate) core: Core,
    /// Housekeeping is due then.
    sweep_at: Instant,
    /// When it was done last, and how many requests had come by then.
    swept_at: Instant,
    counters_swept: Counters,
    /// No client is accepted any more; those that are here are let go as they finish.
    draining: bool,
}

/// Who is at the other end of a connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are clients, and a box would cost each request a cache miss"
)]
pub(crate) enum Peer {
    /// A client.
    Client(Session),
    /// The node of this link.
    Link(LinkIx),
}

/// How often idle clients, half requests and silent nodes are looked for: the precision of those timeouts.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl Proxy {
    /// A proxy that shards over `topology`, with nothing connected. `board` has a row for each worker.
    pub fn new(
        limits: Limits,
        settings: Settings,
        topology: Arc<Topology>,
        board: Arc<Board>,
        now: Instant,
    ) -> Proxy {
        Proxy {
            peers: Slab::default(),
            core: Core::new(limits, settings, topology, board, now),
            sweep_at: now + SWEEP_EVERY,
            swept_at: now,
            counters_swept: Counters::default(),
            draining: false,
        }
    }

    /// A client has arrived: its connection's name, or, if it is refused, the bytes to send it before it is closed.
    pub fn accept(&mut self, arrival: &Arrival<'_>, now: Instant) -> Result<ConnId, Vec<u8>> {
        if let Some(text) = self.core.refusal_of(arrival, self.draining) {
            return Err(errors::reply(text));
        }
        let (counters, settings) = (&mut self.core.stats.counters, &self.core.settings);
        let client = counters.clients_total * settings.workers as u64 + settings.worker as u64 + 1;
        counters.clients += 1;
        self.core.board.publish_clients(settings.worker, counters);
        counters.clients_total += 1;
        let unnamed = ConnId { index: 0, generation: 0 };
        let conn = self.peers.insert(Peer::Client(Session::new(unnamed, client, arrival, now)));
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            session.conn = conn;
            session.features.login = self.core.newcomer();
            let from = self.core.readers.policy_of(arrival.listener);
            if self.core.readers.are_wanted_by(from) {
                session.features.reads = Some(Box::new(Reads::new(from)));
            }
        }
        Ok(conn)
    }

    /// All clients, in the order of their places.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.peers.iter().filter_map(|(_, peer)| match peer {
            Peer::Client(session) => Some(session),
            Peer::Link(_) => None,
        })
    }

    /// How many clients more may come, beside those of all workers that have yet to shake hands.
    pub fn clients_left(&self) -> usize {
        self.core.board.seats_left(self.core.limits.clients_max)
    }

    /// So many who came to this worker have yet to do what their listener asks for.
    pub fn handle_pending_clients(&mut self, pending_clients: usize) {
        self.core.board.show_pending_clients(self.core.settings.worker, pending_clients);
    }

    /// Somebody has done what its listener asks for and is to be accepted; or has not, by its address and the reason.
    pub fn handle_handshake(&mut self, outcome: Result<(), (String, String)>) {
        match outcome {
            Ok(()) => self.core.stats.counters.handshakes += 1,
            Err((peer, reason)) => {
                self.core.stats.counters.handshakes_failed += 1;
                self.core.notice(Notice::HandshakeFailed { peer, reason });
            }
        }
    }

    /// Something happened at `now`. Events of connections that are gone are ignored.
    pub fn handle_event(&mut self, event: Event<'_>, now: Instant) {
        self.core.begin(now);
        match event {
            Event::Received { conn, bytes } => match self.peers.get(conn) {
                Some(Peer::Client(_)) => self.handle_client_bytes(conn, bytes),
                Some(&Peer::Link(ix)) => self.handle_replies(ix, bytes),
                None => {}
            },
            Event::Writable { conn } => self.handle_writable(conn),
            Event::Connected { conn } => {
                if let Some(&Peer::Link(ix)) = self.peers.get(conn) {
                    let proof = self.core.proof_of(self.core.engine.links[ix].node);
                    self.core.engine.links[ix].handle_connected(proof);
                    self.core.engine.list_link(ix);
                }
            }
            Event::Ended { conn } => match self.peers.get(conn) {
                Some(Peer::Client(_)) => self.handle_client_end(conn),
                Some(&Peer::Link(ix)) => {
                    self.fail_link(ix, Fault::Gone("connection closed by the node".to_owned()))
                }
                None => {}
            },
            Event::Closed { conn, reason } => match self.peers.get(conn) {
                Some(Peer::Client(_)) => self.close_client(conn),
                Some(&Peer::Link(ix)) => self.fail_link(ix, Fault::Gone(reason.to_owned())),
                None => {}
            },
        }
        self.follow_up();
    }

    /// Bytes of a client: requests, as far as they are complete and it may send them.
    fn handle_client_bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        walk::enter("handle_client_bytes");
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        let core = &mut self.core;
        core.stats.counters.client_bytes_in += bytes.len() as u64;
        core.engine.rounds.note(core.engine.now.since(session.active_at));
        session.active_at = core.engine.now;
        if matches!(session.phase, Phase::Closing { .. } | Phase::Lingering { .. }) {
            return;
        }
        if session.input.bytes.is_empty() {
            let consumed = core.handle_requests(session, bytes);
            if consumed < bytes.len() {
                // Not one of the pool's: mostly the beginning of one request is left, which may have to stay for long.
                append(&mut session.input.bytes, &bytes[consumed..]);
            }
        } else {
            append(&mut session.input.bytes, bytes);
            handle_input(core, session);
        }
        after_reading(core, session);
        self.close_if_finished(conn);
    }

    /// The client will send no more. What it sent is answered first.
    fn handle_client_end(&mut self, conn: ConnId) {
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        match session.phase {
            // The rest of its request will never come.
            Phase::Open | Phase::Ending if self.core.is_uploading(session) => return self.close_client(conn),
            Phase::Open | Phase::Ending if session.is_blocked() => self.core.abandon(session),
            Phase::Open | Phase::Ending => session.phase = Phase::Ending,
            Phase::Closing { .. } => session.phase = Phase::Closing { linger: false },
            Phase::Lingering { .. } => return self.close_client(conn),
        }
        self.close_if_finished(conn);
    }

    /// A connection takes bytes again.
    fn handle_writable(&mut self, conn: ConnId) {
        match self.peers.get_mut(conn) {
            Some(Peer::Client(session)) => {
                session.replies.output.blocked = false;
                self.core.engine.list_client(session);
            }
            Some(&mut Peer::Link(ix)) => {
                let link = &mut self.core.engine.links[ix];
                link.outgoing.blocked = false;
                link.handle_progress(self.core.engine.now);
                self.core.engine.list_link(ix);
            }
            None => {}
        }
    }

    /// The driver took `count` bytes of the last [`Action::Send`] on `conn`.
    pub fn handle_sent(&mut self, conn: ConnId, count: usize) {
        let core = &mut self.core;
        match self.peers.get_mut(conn) {
            Some(Peer::Client(session)) => {
                core.stats.counters.client_bytes_out += count as u64;
                session.handle_sent(count, core.engine.now, &mut core.engine.pool);
                core.engine.recount_client(session);
                core.resume_next_turn(session);
                if session.pinning != Pinning::No {
                    core.pins.to_relay.push(conn);
                }
                self.close_if_finished(conn);
                self.follow_up();
            }
            Some(&mut Peer::Link(ix)) => {
                core.stats.counters.node_bytes_out += count as u64;
                let link = &mut core.engine.links[ix];
                link.handle_sent(count, &mut core.engine.pool);
                if link.outgoing.blocked {
                    link.note_blocked(core.engine.now);
                    core.engine.check_at = core.engine.check_at.min(link.deadline(&core.engine.limits));
                }
                if link.queued_bytes() > 0 {
                    link.list(ix, &mut core.engine.todo.links_to_send);
                }
                core.engine.recount_link(ix);
                let link = &core.engine.links[ix];
                if link.used_by == Use::Pinned
                    && link.queued_bytes() <= core.engine.limits.relay_bytes_max / 2
                    && let Some(ticket) = link.tickets().last()
                {
                    core.engine.todo.clients_to_resume.push(ticket.conn);
                    self.follow_up();
                }
            }
            None => {}
        }
    }

    /// What follows from an event: clients that had been paused go on, and what was asked over all clients is answered.
    pub(crate) fn follow_up(&mut self) {
        if self.core.monitor.has_lines() {
            self.flush_monitors();
        }
        self.forget_surplus();
        self.remap_if_changed();
        loop {
            self.watch_memory();
            if self.core.pins.has_work(self.core.engine.limits.pinned_clients_max) {
                self.relay_replies();
            }
            // Who was resumed may have given up a permit for which others wait, or a connection.
            let has_resumed = !self.core.engine.todo.clients_to_resume.is_empty();
            if has_resumed {
                self.resume_clients();
            }
            let serves = self.serve_woken();
            let asks = !self.core.tasks.questions.is_empty();
            if asks {
                self.put_question();
            }
            if !asks && !serves && !has_resumed && self.core.pins.to_relay.is_empty() {
                return;
            }
        }
    }

    /// Passes on what can be of large replies, closes connections that are of no use, and gives permits away.
    #[inline(never)]
    fn relay_replies(&mut self) {
        while let Some(conn) = self.core.pins.to_relay.pop() {
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            match self.core.relay(session) {
                Ok(()) => self.close_if_finished(conn),
                Err(garbled) => self.fail_link(garbled.link, garbled.fault),
            }
        }
        while let Some(node) = self.core.pins.to_read.pop() {
            self.read_held_back(node);
        }
        while let Some(node) = self.core.pins.doomed.pop() {
            self.let_go(node);
        }
        while let Some(conn) = self.core.next_to_pin() {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                let lost = self.core.handle_pinned(session);
                self.deliver_losses(lost);
            }
        }
    }

    /// Closes a connection that is of no use any more; what is in flight on it is lost.
    pub(crate) fn let_go(&mut self, ix: LinkIx) {
        let core = &mut self.core;
        if let Some(conn) = core.engine.links[ix].conn() {
            core.engine.close(conn);
            self.peers.remove(conn);
        }
        let link = &mut core.engine.links[ix];
        let (reason, shard, used_by) = (String::new(), link.shard, link.used_by);
        let (tickets, _) = link.fail(
            reason,
            core.engine.now,
            &core.engine.limits,
            &mut core.engine.prng,
            &mut core.engine.pool,
        );
        core.vacate(ix);
        let shard = core.engine.shard_name(shard).to_owned();
        for ticket in tickets {
            if used_by.has_barriers() {
                self.lift_barrier(ticket);
            }
            self.deliver(ticket, Outcome::Lost(Lost::Broken { shard: shard.clone() }));
        }
    }

    /// Reads on for clients that had been paused.
    #[inline(never)]
    fn resume_clients(&mut self) {
        while let Some(conn) = self.core.engine.todo.clients_to_resume.pop() {
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            let core = &mut self.core;
            core.lay_in(session);
            handle_input(core, session);
            if session.paused && core.may_receive(session) {
                session.paused = false;
                core.engine.pace(conn, false);
            }
            after_reading(core, session);
            self.close_if_finished(conn);
        }
    }

    /// Whether clients wait for the next turn, which must begin at once then.
    pub fn has_postponed(&self) -> bool {
        !self.core.engine.todo.clients_of_next_turn.is_empty() || self.core.has_listing_to_put()
    }

    /// Goes on with the clients that have had their share of the last turn. To be called after a turn's events and before
    /// its actions.
    pub fn resume_postponed(&mut self, now: Instant) {
        self.core.tasks.inquiries.begin_turn();
        if self.has_postponed() {
            self.core.begin(now);
            self.core.engine.todo.clients_to_resume.append(&mut self.core.engine.todo.clients_of_next_turn);
            self.put_listing();
            self.follow_up();
        }
    }

    /// Closes a client that has nothing more to say or to hear.
    pub(crate) fn close_if_finished(&mut self, conn: ConnId) {
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        if !session.replies.is_quiet() {
            return;
        }
        match session.phase {
            Phase::Open | Phase::Lingering { .. } => {}
            Phase::Ending if session.paused || session.hold.has(Reason::Question) => {}
            Phase::Closing { linger: true } => {
                session.phase =
                    Phase::Lingering { until: self.core.engine.now + self.core.engine.limits.linger };
                self.core.engine.todo.controls.push_back(Action::Finish { conn });
                // A paused client is read again, to see its end.
                self.core.engine.pace(conn, false);
            }
            Phase::Ending | Phase::Closing { linger: false } => self.close_client(conn),
        }
    }

    /// Forgets a client and closes its connection. Its tickets stay in flight, for nobody.
    pub(crate) fn close_client(&mut self, conn: ConnId) {
        let Some(Peer::Client(mut session)) = self.peers.remove(conn) else { return };
        let core = &mut self.core;
        core.unpin(&mut session);
        core.unsubscribe_from_all(&mut session);
        core.end_to_monitor(&mut session);
        core.end_tracking(&mut session);
        core.profiles.leave(session.profile, core.engine.now);
        core.let_holds_go(&mut session);
        core.forget_held_back(&mut session);
        core.end_transaction(&mut session);
        core.engine.memory.recount(&mut session.counted.bytes, 0);
        core.engine.memory.recount_unread(&mut session.counted.unread_bytes, 0);
        core.stats.counters.clients -= 1;
        core.board.leave_seat();
        core.board.publish_clients(core.settings.worker, &core.stats.counters);
        core.engine.clients_waiting -= usize::from(session.is_counted_waiting);
        for owed in session.dismantle(&mut core.engine.pool) {
            match owed {
                Owed::Node
                | Owed::Task(TaskId::Exec)
                | Owed::Task(TaskId::Subscription)
                | Owed::Task(TaskId::Receivers(_)) => {}
                Owed::Task(TaskId::Merge(merge)) => {
                    if let Some(mut merge) = core.tasks.merges.remove(merge) {
                        core.engine.memory.recount(&mut merge.counted_bytes, 0);
                    }
                }
                Owed::Task(TaskId::Inquiry(inquiry)) => drop(core.tasks.inquiries.remove(inquiry)),
                Owed::Task(TaskId::Login(attempt)) => drop(core.logins.passing.attempts.remove(attempt)),
                Owed::Task(TaskId::Judged(judged)) => drop(core.forget_judgement(judged)),
                Owed::Task(TaskId::Execution(execution)) => core.leave_execution(execution),
                Owed::Task(TaskId::Replay(replay)) => {
                    if let Owed::Task(TaskId::Mixture(mixture)) = core.forget_replay(replay) {
                        core.forget_mixture(mixture);
                    }
                }
                Owed::Task(TaskId::Repeat(repeat)) => core.forget_repeat(repeat),
                Owed::Task(TaskId::Scan(scan)) => core.forget_scan(scan),
                Owed::Task(TaskId::Emulation(emulation)) => core.leave_emulation(emulation),
                Owed::Task(TaskId::Fan(fan)) => core.leave_fan(fan),
                Owed::Task(TaskId::Mixture(mixture)) => core.forget_mixture(mixture),
            }
        }
        core.engine.close(conn);
    }

    /// What to do next; `None` when all is done for this turn. Nodes come before clients, so that they can start.
    pub fn poll_action(&mut self) -> Option<Action<'_>> {
        if let Some(control) = self.core.engine.todo.controls.pop_front() {
            return Some(control);
        }
        while let Some(ix) = self.core.engine.todo.links_to_send.pop() {
            let link = &mut self.core.engine.links[ix];
            link.outgoing.listed = false;
            if let Some(conn) = link.conn()
                && !link.outgoing.blocked
                && !link.output().is_empty()
            {
                return Some(Action::Send { conn, bytes: self.core.engine.links[ix].output() });
            }
            // It is counted when it is sent; this stays.
            self.core.engine.recount_link(ix);
        }
        self.poll_reply()
    }

    /// The same, but only what is to be sent to clients: for who waits before anything is sent to nodes.
    pub fn poll_reply(&mut self) -> Option<Action<'_>> {
        let conn = self.next_client_to_send()?;
        match self.peers.get(conn) {
            Some(Peer::Client(session)) => Some(Action::Send { conn, bytes: session.replies.output() }),
            _ => None,
        }
    }

    /// The next client that has something to send.
    fn next_client_to_send(&mut self) -> Option<ConnId> {
        while let Some(conn) = self.core.engine.todo.clients_to_send.pop() {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                session.replies.output.listed = false;
                self.core.engine.recount_client(session);
                if !session.replies.output().is_empty() && !self.core.engine.cork.hold(session) {
                    return Some(conn);
                }
            }
        }
        None
    }

    /// When [`Proxy::handle_timeouts`] must be called at the latest.
    pub fn poll_deadline(&self) -> Instant {
        let soon = self.sweep_at.min(self.core.engine.check_at);
        let soon = soon.min(self.core.tasks.inquiries.deadline()).min(self.core.pause.until);
        let soon = soon.min(self.core.readers.deadline()).min(self.core.ejection_deadline());
        soon.min(self.core.retry_queue.due_at).min(self.core.tasks.waits.deadline())
    }

    /// It is `now`. To be called after the turn's events, so that a reply that has arrived is not called late.
    pub fn handle_timeouts(&mut self, now: Instant) {
        self.core.begin(now);
        if self.core.engine.check_at <= now {
            self.check_nodes();
        }
        if self.core.retry_queue.due_at <= now {
            self.retry_parked(false);
        }
        if self.sweep_at <= now {
            self.sweep_at = now + SWEEP_EVERY;
            self.sweep();
        }
        if self.core.readers.deadline() <= now {
            self.core.poll_readers();
        }
        if let Some(ejection) = &mut self.core.node_health.ejection {
            ejection.take_back(now);
        }
        self.conclude_late();
        self.end_pause_in_time();
        self.end_late_waits();
        self.follow_up();
    }

    /// Connects, gives up, and tells those whose time is up.
    fn check_nodes(&mut self) {
        let now = self.core.engine.now;
        for ix in self.core.engine.links.indexes() {
            loop {
                let link = &mut self.core.engine.links[ix];
                match link.due(now, &self.core.engine.limits) {
                    Due::Nothing => break,
                    Due::Connect => self.connect(ix),
                    Due::Fail(reason) => self.fail_link(ix, Fault::Gone(reason.to_owned())),
                    Due::Suspect => self.suspect(ix),
                    Due::Expire if link.used_by == Use::Replica => self.expire_read(ix),
                    Due::Expire => match link.expire() {
                        Some(ticket) if link.is_given_up_when_late() => {
                            self.deliver_timeout(ix, ticket);
                            self.fail_link(ix, Fault::Gone("no reply in time".to_owned()));
                        }
                        Some(ticket) => self.deliver_timeout(ix, ticket),
                        None => self.fail_link(ix, Fault::Gone("the node does not read".to_owned())),
                    },
                }
            }
        }
        let limits = &self.core.engine.limits;
        let deadlines = self.core.engine.links.iter().map(|link| link.deadline(limits));
        self.core.engine.check_at = deadlines.min().unwrap_or(Instant::NEVER);
    }

    /// Asks for a connection to the node.
    fn connect(&mut self, ix: LinkIx) {
        let conn = self.peers.insert(Peer::Link(ix));
        let deadline = self.core.engine.now + self.core.engine.limits.connect_timeout;
        self.core.engine.links[ix].state = State::Connecting { conn, deadline };
        let id = self.core.engine.links[ix].node;
        self.core.engine.todo.controls.push_back(Action::Connect { conn, node: id });
    }

    /// Once a second: clients that overstay, nodes that are silent, counts for the others.
    fn sweep(&mut self) {
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            self.sweep_client(conn);
        }
        while let Some(ix) = self.core.next_unused_link(self.core.engine.now) {
            self.let_go(ix);
        }
        // Before those that are silent are asked whether they live: their answers would make them look as if they were used.
        while let Some(ix) = self
            .core
            .next_stale(self.core.engine.now)
            .or_else(|| self.core.next_deserted())
            .or_else(|| self.core.next_untracked())
        {
            self.let_go(ix);
        }
        for ix in self.core.engine.links.indexes() {
            self.core.engine.links[ix].incoming.passed_over_bytes = 0;
            self.core.engine.links[ix].shrink();
            if self.core.engine.links[ix].wants_probe(self.core.engine.now, &self.core.engine.limits) {
                let conn = ConnId { index: 0, generation: 0 };
                let asked =
                    Asked { conn, place: 0, part: 0, owner: Owner::Task(TaskKind::Probe), kept: Kept::NO };
                let probe = self.core.engine.links[ix].probe();
                self.core.engine.enqueue_on(ix, probe, asked);
            }
        }
        self.core.forget_profiles();
        self.inspect_nodes();
        self.relieve_memory();
        self.measure_rates();
        self.count_prefixes();
        self.core.publish();
    }

    /// What came and went since the last sweep, for a second.
    fn measure_rates(&mut self) {
        let core = &mut self.core;
        let nanos = core.engine.now.since(self.swept_at).as_nanos().max(1);
        let rate = |count: u64, earlier: u64| (u128::from(count - earlier) * 1_000_000_000 / nanos) as u64;
        let (counters, swept) = (&mut core.stats.counters, &self.counters_swept);
        counters.requests_per_s = rate(counters.requests, swept.requests);
        counters.bytes_in_per_s = rate(counters.client_bytes_in, swept.client_bytes_in);
        counters.bytes_out_per_s = rate(counters.client_bytes_out, swept.client_bytes_out);
        (self.swept_at, self.counters_swept) = (core.engine.now, core.stats.counters);
    }

    /// Closes a client that overstays; takes back what an idle one does not need.
    fn sweep_client(&mut self, conn: ConnId) {
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        let (now, limits) = (self.core.engine.now, &self.core.engine.limits);
        let idle_timeout = self.core.limits.idle_timeout;
        let is_slow = is_slow_subscriber(session, 0, now, &self.core.limits);
        let reason = match session.phase {
            Phase::Lingering { until } if until <= now => return self.close_client(conn),
            Phase::Lingering { .. } => return,
            _ if session.is_stalled(now, limits) => Some(CloseReason::OutputLimit),
            _ if is_slow => Some(CloseReason::SlowSubscriber),
            _ if half_request_is_late(session, now, limits) => Some(CloseReason::HalfRequest),
            _ if !idle_timeout.is_zero()
                && session.replies.is_quiet()
                && !session.features.is_listening()
                && now.since(session.active_at) >= idle_timeout =>
            {
                Some(CloseReason::Idle)
            }
            _ => None,
        };
        if let Some(reason) = reason {
            self.core.note_closed(session, reason);
            return self.close_client(conn);
        }
        if session.replies.is_quiet() && now.since(session.active_at) >= SWEEP_EVERY {
            session.shrink();
        }
    }

    /// Takes no more clients and lets those that are here go as soon as what they sent is answered.
    pub fn drain(&mut self, now: Instant) {
        self.core.begin(now);
        self.draining = true;
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn)
                && session.phase == Phase::Open
            {
                session.phase = Phase::Ending;
                let pop = self.core.waiting_pop(session);
                if let Some(node) = session.wait.on {
                    self.core.end_wait(node);
                }
                if let Some(pop) = pop {
                    self.end_wait_for_key(pop, None);
                }
                self.close_if_finished(conn);
            }
        }
    }

    /// Whether every client has gone, and what they left half done is done.
    pub fn is_drained(&self) -> bool {
        self.core.stats.counters.clients == 0
            && self.core.tasks.emulations.is_empty()
            && self.core.tasks.executions.is_empty()
    }

    /// How long clients' rounds were, since the proxy began.
    pub fn rounds(&self) -> Rounds {
        self.core.engine.rounds
    }

    /// How many clients have requests pending.
    pub fn clients_waiting(&self) -> usize {
        self.core.engine.clients_waiting
    }

    /// How many requests and parts of requests are in flight over the connections that clients share. Looks at each
    /// connection.
    pub fn in_flight(&self) -> usize {
        let is_shared = |link: &&Link| matches!(link.used_by, Use::Shared | Use::Replica);
        let shared = self.core.engine.links.iter().filter(is_shared);
        shared.map(Link::in_flight).sum()
    }

    /// How many split requests wait for replies; 0 once no client is left.
    pub fn merges_pending(&self) -> usize {
        self.core.tasks.merges.len()
    }

    /// How many questions over all workers, shards or time wait for their answers; 0 once no client is left.
    pub fn inquiries_pending(&self) -> usize {
        self.core.tasks.inquiries.len()
    }

    /// How many commands over several shards are being carried out; 0 once no client is left and nodes have answered.
    pub fn emulations_pending(&self) -> usize {
        self.core.tasks.emulations.len()
    }

    /// How many transactions over several shards are being carried out; 0 once no client is left and nodes have answered.
    pub fn executions_pending(&self) -> usize {
        self.core.tasks.executions.len()
    }

    /// How many clients are pinned for large transfers, or wait to be; 0 once no client is left.
    pub fn pins_pending(&self) -> usize {
        self.core.pins.len()
    }

    /// How many connections clients hold to watch keys or to wait for elements; 0 once no client is left.
    pub fn conns_held(&self) -> usize {
        self.core.holders.conns
    }

    /// Bytes of requests and replies that are held; 0 once no client is left and nodes have answered.
    pub fn held_bytes(&self) -> usize {
        self.core.engine.memory.held_bytes()
    }

    /// What is to be logged.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.core.outside.notices.pop_front()
    }

    /// How long a connection to a node may take until it is given up.
    pub fn connect_timeout(&self) -> Duration {
        self.core.engine.limits.connect_timeout
    }

    /// This worker's counts.
    pub fn counters(&self) -> &Counters {
        &self.core.stats.counters
    }
}

/// Carries out what waits in the session's input.
fn handle_input(core: &mut Core, session: &mut Session) {
    let mut input = std::mem::take(&mut session.input.bytes);
    let consumed = core.handle_requests(session, &input);
    if consumed > 0 && session.input.began.is_some() {
        // The rest belongs to another request, which has just begun.
        session.input.began = Some(core.engine.now);
    }
    let rest = input.len() - consumed;
    if rest > 0 && rest > input.capacity() / 4 {
        input.drain(..consumed);
        session.input.bytes = input;
        return;
    }
    // As above: a large buffer does not stay with the client for the beginning of a request.
    if rest > 0 {
        append(&mut session.input.bytes, &input[consumed..]);
    }
    core.engine.pool.give(input);
}

/// Pauses a client that may not send more now, and watches over its unfinished request.
fn after_reading(core: &mut Core, session: &mut Session) {
    if matches!(session.phase, Phase::Closing { .. }) {
        core.engine.pool.give(std::mem::take(&mut session.input.bytes));
    } else if session.input.bytes.len() > core.engine.limits.request_bytes_max {
        let mark = session.mark();
        core.refuse(session, errors::REQUEST_TOO_BIG);
        session.silence(mark, &mut core.engine.pool);
        session.phase = Phase::Closing { linger: true };
        core.note_closed(session, CloseReason::Protocol);
    }
    core.engine.recount_client(session);
    let must_wait = match session.phase {
        Phase::Open => !core.may_receive(session),
        // It is not finished: it goes on as one that was paused does. The rest of a large request may yet have to come.
        Phase::Ending => {
            session.input.has_unread && !(core.is_uploading(session) && core.may_receive(session))
        }
        Phase::Closing { .. } | Phase::Lingering { .. } => false,
    };
    if must_wait && !session.paused {
        session.paused = true;
        core.engine.pace(session.conn, true);
    }
    session.input.began = match session.input.began {
        _ if session.paused || session.is_blocked() => None,
        // While a large request is passed on, every piece of it counts as a beginning.
        began if core.is_uploading(session) => began,
        _ if session.input.bytes.is_empty() => None,
        None => Some(core.engine.now),
        began => began,
    };
}

/// Whether a request began to arrive long ago and still is not all there. A large one gets a second more for each KiB.
fn half_request_is_late(session: &Session, now: Instant, limits: &EngineLimits) -> bool {
    let allowed = limits.half_request_timeout + Duration::from_secs(session.input.bytes.len() as u64 / 1024);
    !session.paused && session.input.began.is_some_and(|began| now.since(began) > allowed)
}
