//! One worker's proxy: events in, actions out, and the clock between them.
//!
//! `requests.rs` is the way down, and `replies.rs` is the way up.

pub(crate) mod face;

use crate::ConnId;
use crate::EngineLimits;
use crate::context::Context;
use crate::core::Core;
use crate::counters::{Board, Rates};
use crate::emulate::waits;
use crate::errors;
use crate::event::{Action, Arrival, CloseReason, Event, Notice};
use crate::features::{Asked, Link, Owed, Owner, Session, TaskId, TaskKind};
use crate::held;
use crate::limits::{Limits, Settings};
use crate::link::kept::Kept;
use crate::link::node_memory::ask_for_memory;
use crate::link::{Due, LinkIx, State, Use, inspection, suspect};
use crate::local::inquiry;
use crate::login::{self, admission, passing};
use crate::outcome::{Fault, Outcome};
use crate::pause;
use crate::peers::{Peer, Peers};
use crate::pubsub::is_slow_subscriber;
use crate::reading::reads::Reads;
use crate::reading::replicas;
use crate::session::pinning::Pinning;
use crate::session::{Phase, Reason};
use crate::topology_update;
use crate::transaction;
use crate::walk;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, append};
use topology::Topology;

/// The core of one worker. The crate's documentation shows how to drive it.
#[derive(Debug)]
pub struct Proxy {
    pub(crate) peers: Peers,
    pub(crate) core: Core,
    /// The instant of the next sweep.
    sweep_at: Instant,
    rates: Rates,
    /// Whether the worker accepts no more clients. Present clients are closed when they have finished.
    draining: bool,
}

/// The interval of checks for idle clients, incomplete requests and silent nodes. It is the precision of those
/// timeouts.
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
            peers: Peers::default(),
            core: Core::new(limits, settings, topology, board, now),
            sweep_at: now + SWEEP_EVERY,
            rates: Rates::new(now),
            draining: false,
        }
    }

    /// Accepts a client and returns the id of its connection. A refused client gets the returned bytes before it is
    /// closed.
    pub fn accept(&mut self, arrival: &Arrival<'_>, now: Instant) -> Result<ConnId, Vec<u8>> {
        if let Some(text) = admission::refusal_of(&mut self.core.cx, arrival, self.draining) {
            return Err(errors::reply(text));
        }
        let (counters, settings) = (&mut self.core.cx.stats.counters, &self.core.cx.settings);
        let before = self.core.cx.board.clients_before() + counters.clients_total;
        let client = before * settings.workers as u64 + settings.worker as u64 + 1;
        counters.clients += 1;
        self.core.cx.board.publish_clients(settings.worker, counters);
        counters.clients_total += 1;
        let unnamed = ConnId { index: 0, generation: 0 };
        let conn = self.peers.insert(Peer::Client(Session::new(unnamed, client, arrival, now)));
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            session.conn = conn;
            session.features.login.listener = arrival.listener;
            login::set_login(&self.core.cx, session, passing::newcomer(&self.core.cx));
            let from = self.core.readers.policy_of(arrival.listener);
            if self.core.readers.are_wanted_by(from) {
                session.features.reads = Some(Box::new(Reads::new(from)));
            }
        }
        Ok(conn)
    }

    /// The number of clients that may still come, apart from the pending clients of all workers.
    pub fn clients_left(&self) -> usize {
        self.core.cx.board.seats_left(self.core.cx.limits.clients_max)
    }

    /// Notes the number of this worker's pending clients.
    pub fn handle_pending_clients(&mut self, pending_clients: usize) {
        self.core.cx.board.show_pending_clients(self.core.cx.settings.worker, pending_clients);
    }

    /// Notes that a pending client is to be accepted, or has failed; then with its address and the reason.
    pub fn handle_handshake(&mut self, outcome: Result<(), (String, String)>) {
        match outcome {
            Ok(()) => self.core.cx.stats.counters.handshakes += 1,
            Err((peer, reason)) => {
                self.core.cx.stats.counters.handshakes_failed += 1;
                self.core.cx.notice(Notice::HandshakeFailed { peer, reason });
            }
        }
    }

    /// Handles an event at `now`. Events of connections that are gone are ignored.
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
                    let node = self.core.cx.engine.links[ix].node;
                    self.core.cx.stats.nodes.row(node).connects += 1;
                    let proof = self.core.cx.proof_of(node);
                    self.core.cx.engine.links[ix].handle_connected(proof);
                    self.core.cx.engine.list_link(ix);
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

    /// Runs the complete requests in a client's bytes, as far as the client may send them.
    fn handle_client_bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        walk::enter("handle_client_bytes");
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        let core = &mut self.core;
        core.cx.stats.counters.client_bytes_in += bytes.len() as u64;
        core.cx.engine.rounds.note(core.cx.engine.now.since(session.active_at));
        session.active_at = core.cx.engine.now;
        if matches!(session.phase, Phase::Closing { .. } | Phase::Lingering { .. }) {
            return;
        }
        if session.input.bytes.is_empty() {
            let consumed = core.handle_requests(session, bytes);
            if consumed < bytes.len() {
                // This buffer is not from the pool. Usually it holds the beginning of one request, perhaps for long.
                append(&mut session.input.bytes, &bytes[consumed..]);
                if session.input.has_unread {
                    session.input.begin_wait(core.cx.engine.now);
                }
            }
        } else {
            append(&mut session.input.bytes, bytes);
            handle_input(core, session);
        }
        after_reading(core, session);
        self.close_if_finished(conn);
    }

    /// Handles a client's end of stream. Its requests are answered first.
    fn handle_client_end(&mut self, conn: ConnId) {
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        match session.phase {
            // The rest of the large request will never come.
            Phase::Open | Phase::Ending if self.core.cx.is_uploading(session) => {
                return self.close_client(conn);
            }
            Phase::Open | Phase::Ending if session.is_blocked() => self.core.abandon(session),
            Phase::Open | Phase::Ending => session.phase = Phase::Ending,
            Phase::Closing { .. } => session.phase = Phase::Closing { linger: false },
            Phase::Lingering { .. } => return self.close_client(conn),
        }
        self.close_if_finished(conn);
    }

    /// Handles a connection that takes bytes again.
    fn handle_writable(&mut self, conn: ConnId) {
        match self.peers.get_mut(conn) {
            Some(Peer::Client(session)) => {
                session.replies.output.blocked = false;
                self.core.cx.engine.list_client(session);
            }
            Some(&mut Peer::Link(ix)) => {
                let link = &mut self.core.cx.engine.links[ix];
                link.outgoing.blocked = false;
                link.outgoing.freed_at = self.core.cx.engine.now;
                link.handle_progress(self.core.cx.engine.now);
                self.core.cx.engine.list_link(ix);
            }
            None => {}
        }
    }

    /// Notes that the driver took `count` bytes of the last [`Action::Send`] on `conn`.
    pub fn handle_sent(&mut self, conn: ConnId, count: usize) {
        let core = &mut self.core;
        match self.peers.get_mut(conn) {
            Some(Peer::Client(session)) => {
                core.cx.stats.counters.client_bytes_out += count as u64;
                session.handle_sent(count, core.cx.engine.now, &mut core.cx.engine.pool);
                if !core.cx.slow.deliveries.is_empty() {
                    core.cx.slow.deliveries.note_taken(conn, count);
                }
                if !core.cx.stats.sampling.followed.is_empty() {
                    core.cx.stats.sampling.followed.note_taken(conn, count);
                }
                core.cx.engine.recount_client(session);
                core.resume_next_turn(session);
                if session.pinning != Pinning::No {
                    core.cx.pins.to_relay.push(conn);
                }
                self.close_if_finished(conn);
                self.follow_up();
            }
            Some(&mut Peer::Link(ix)) => {
                core.cx.stats.counters.node_bytes_out += count as u64;
                let link = &mut core.cx.engine.links[ix];
                link.traffic.bytes_out += count as u64;
                link.traffic.writes += 1;
                link.handle_sent(count, &mut core.cx.engine.pool);
                if link.outgoing.blocked {
                    link.note_blocked(core.cx.engine.now);
                    core.cx.engine.check_at =
                        core.cx.engine.check_at.min(link.deadline(&core.cx.engine.limits));
                }
                if link.queued_bytes() > 0 {
                    link.list(ix, &mut core.cx.engine.todo.links_to_send);
                }
                core.cx.engine.recount_link(ix);
                let link = &core.cx.engine.links[ix];
                if link.used_by == Use::Pinned
                    && link.queued_bytes() <= core.cx.engine.limits.relay_bytes_max / 2
                    && let Some(ticket) = link.tickets().last()
                {
                    core.cx.engine.todo.clients_to_resume.push(ticket.conn);
                    self.follow_up();
                }
            }
            None => {}
        }
    }

    /// Does the work that follows from an event: resumes paused clients and asks the questions of all clients.
    pub(crate) fn follow_up(&mut self) {
        if self.core.monitor.has_lines() {
            self.core.monitor.flush_monitors(&mut self.core.cx, &mut self.peers);
        }
        self.core.invalidations.forget_surplus(&mut self.core.cx, &mut self.peers);
        self.remap_if_changed();
        loop {
            if !self.core.cx.effects.is_empty() {
                self.carry_out_effects();
            }
            self.watch_memory();
            if self.core.cx.pins.has_work(self.core.cx.engine.limits.pinned_clients_max) {
                self.relay_replies();
            }
            // A resumed client may have released a permit or a link for which others wait.
            let has_resumed = !self.core.cx.engine.todo.clients_to_resume.is_empty();
            if has_resumed {
                self.resume_clients();
            }
            // During CLIENT PAUSE, no element is popped.
            let serves = !self.core.pause.is_on()
                && self.core.emulations.serve_woken(&mut self.core.cx, &mut self.peers);
            let asks = !self.core.cx.inquiries.questions.is_empty();
            if asks {
                self.put_question();
            }
            let is_done = self.core.cx.pins.to_relay.is_empty() && self.core.cx.effects.is_empty();
            if !asks && !serves && !has_resumed && is_done {
                return;
            }
        }
    }

    /// Relays large replies as far as possible, closes unneeded links, and gives out permits.
    #[inline(never)]
    fn relay_replies(&mut self) {
        while let Some(conn) = self.core.cx.pins.to_relay.pop() {
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            match self.core.relay(session) {
                Ok(()) => self.close_if_finished(conn),
                Err(garbled) => self.fail_link(garbled.link, garbled.fault),
            }
        }
        while let Some(node) = self.core.cx.pins.to_read.pop() {
            self.read_held_back(node);
        }
        while let Some(node) = self.core.cx.pins.doomed.pop() {
            self.let_go(node);
        }
        while let Some(conn) = self.core.cx.next_to_pin() {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                let lost = self.core.cx.handle_pinned(session);
                self.deliver_losses(lost);
            }
        }
    }

    /// Reads the requests of clients that were paused.
    #[inline(never)]
    fn resume_clients(&mut self) {
        while let Some(conn) = self.core.cx.engine.todo.clients_to_resume.pop() {
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            let core = &mut self.core;
            core.lay_in(session);
            handle_input(core, session);
            if session.paused && core.cx.may_receive(session) {
                session.paused = false;
                core.cx.engine.pace(conn, false);
            }
            after_reading(core, session);
            self.close_if_finished(conn);
        }
    }

    /// Whether clients wait for the next turn. Then it must begin at once.
    pub fn has_postponed(&self) -> bool {
        !self.core.cx.engine.todo.clients_of_next_turn.is_empty()
            || inquiry::has_listing_to_put(&self.core.cx)
    }

    /// Resumes the clients that have had their share of the last turn. The caller does this after a turn's events and
    /// before its actions.
    pub fn resume_postponed(&mut self, now: Instant) {
        self.core.cx.inquiries.begin_turn();
        if self.has_postponed() {
            self.core.begin(now);
            self.core
                .cx
                .engine
                .todo
                .clients_to_resume
                .append(&mut self.core.cx.engine.todo.clients_of_next_turn);
            self.put_listing();
            self.follow_up();
        }
    }

    /// Closes a client that will neither send nor get anything more.
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
                    Phase::Lingering { until: self.core.cx.engine.now + self.core.cx.engine.limits.linger };
                self.core.cx.engine.todo.controls.push_back(Action::Finish { conn });
                // A paused client is read again, so that its end of stream is seen.
                self.core.cx.engine.pace(conn, false);
            }
            Phase::Ending | Phase::Closing { linger: false } => self.close_client(conn),
        }
    }

    /// Forgets a client and closes its connection. Its tickets stay in flight, and their replies will be dropped.
    pub(crate) fn close_client(&mut self, conn: ConnId) {
        let Some(Peer::Client(mut session)) = self.peers.remove(conn) else { return };
        let core = &mut self.core;
        core.cx.unpin(&mut session);
        core.subscriptions.unsubscribe_from_all(&mut core.cx, &mut session);
        core.monitor.end_to_monitor(&mut core.cx, &mut session);
        core.invalidations.end_tracking(&mut core.cx, &mut session);
        core.cx.profiles.leave(session.profile, core.cx.engine.now);
        held::let_holds_go(&mut core.cx, &mut session);
        pause::forget_held_back(&mut core.cx, &mut session);
        transaction::end_transaction(&mut core.cx, &mut session);
        core.cx.engine.memory.recount(&mut session.counted.bytes, 0);
        core.cx.engine.memory.recount_unread(&mut session.counted.unread_bytes, 0);
        core.cx.stats.counters.clients -= 1;
        core.cx.board.leave_seat();
        core.cx.board.publish_clients(core.cx.settings.worker, &core.cx.stats.counters);
        core.cx.engine.clients_waiting -= usize::from(session.is_counted_waiting);
        for owed in session.dismantle(&mut core.cx.engine.pool) {
            match owed {
                Owed::Node
                | Owed::Task(TaskId::Exec)
                | Owed::Task(TaskId::Subscription)
                | Owed::Task(TaskId::Receivers(_)) => {}
                Owed::Task(TaskId::Merge(merge)) => {
                    if let Some(mut merge) = core.cx.merges.remove(merge) {
                        core.cx.engine.memory.recount(&mut merge.counted_bytes, 0);
                    }
                }
                Owed::Task(TaskId::Inquiry(inquiry)) => drop(core.cx.inquiries.remove(inquiry)),
                Owed::Task(TaskId::Login(attempt)) => drop(core.cx.logins.passing.attempts.remove(attempt)),
                Owed::Task(TaskId::Judged(judged)) => drop(passing::forget_judgement(&mut core.cx, judged)),
                Owed::Task(TaskId::Execution(execution)) => {
                    core.execs.leave_execution(&mut core.cx, execution)
                }
                Owed::Task(TaskId::Replay(replay)) => {
                    if let Owed::Task(TaskId::Mixture(mixture)) =
                        core.execs.forget_replay(&mut core.cx, replay)
                    {
                        core.execs.forget_mixture(&mut core.cx, mixture);
                    }
                }
                Owed::Task(TaskId::Scan(scan)) => core.scans.forget_scan(&mut core.cx, scan),
                Owed::Task(TaskId::Emulation(emulation)) => {
                    core.emulations.leave_emulation(&mut core.cx, emulation)
                }
                Owed::Task(TaskId::Fan(fan)) => core.fans.leave_fan(&mut core.cx, fan),
                Owed::Task(TaskId::Mixture(mixture)) => core.execs.forget_mixture(&mut core.cx, mixture),
            }
        }
        core.cx.engine.close(conn);
    }

    /// The next action; `None` when all is done for this turn. Nodes come before clients, so that they can start.
    pub fn poll_action(&mut self) -> Option<Action<'_>> {
        if let Some(control) = self.core.cx.engine.todo.controls.pop_front() {
            return Some(control);
        }
        while let Some(ix) = self.core.cx.engine.todo.links_to_send.pop() {
            let link = &mut self.core.cx.engine.links[ix];
            link.outgoing.listed = false;
            if let Some(conn) = link.conn()
                && !link.outgoing.blocked
                && !link.output().is_empty()
            {
                return Some(Action::Send { conn, bytes: self.core.cx.engine.links[ix].output() });
            }
            // The link is counted when it is sent; the output stays.
            self.core.cx.engine.recount_link(ix);
        }
        self.poll_reply()
    }

    /// The next action that sends to a client, for a driver that delays the requests to nodes.
    pub fn poll_reply(&mut self) -> Option<Action<'_>> {
        let conn = self.next_client_to_send()?;
        match self.peers.get(conn) {
            Some(Peer::Client(session)) => Some(Action::Send { conn, bytes: session.replies.output() }),
            _ => None,
        }
    }

    /// The next client with output.
    fn next_client_to_send(&mut self) -> Option<ConnId> {
        while let Some(conn) = self.core.cx.engine.todo.clients_to_send.pop() {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                session.replies.output.listed = false;
                self.core.cx.engine.recount_client(session);
                if !session.replies.output().is_empty() && !self.core.cx.engine.cork.hold(session) {
                    return Some(conn);
                }
            }
        }
        None
    }

    /// The instant at which [`Proxy::handle_timeouts`] must be called at the latest.
    pub fn poll_deadline(&self) -> Instant {
        let soon = self.sweep_at.min(self.core.cx.engine.check_at);
        let soon = soon.min(self.core.cx.inquiries.deadline()).min(self.core.pause.until);
        let soon =
            soon.min(self.core.readers.deadline()).min(topology_update::ejection_deadline(&self.core.cx));
        soon.min(self.core.cx.retry_queue.due_at).min(self.core.emulations.waits.deadline())
    }

    /// Handles timeouts at `now`. The caller does this after the turn's events, so that a reply that has arrived is
    /// not late.
    pub fn handle_timeouts(&mut self, now: Instant) {
        self.core.begin(now);
        if self.core.cx.engine.check_at <= now {
            self.check_nodes();
        }
        if self.core.cx.retry_queue.due_at <= now {
            self.retry_parked(false);
        }
        if self.sweep_at <= now {
            self.sweep_at = now + SWEEP_EVERY;
            self.sweep();
        }
        if self.core.readers.deadline() <= now {
            self.core.readers.poll_readers(&mut self.core.cx);
        }
        if let Some(ejection) = &mut self.core.cx.node_health.ejection {
            ejection.take_back(now);
        }
        self.conclude_late();
        self.core.pause.end_pause_in_time(&mut self.core.cx, &mut self.peers);
        self.core.emulations.end_late_waits(&mut self.core.cx, &mut self.peers);
        self.follow_up();
    }

    /// Connects links, gives up links, and fails late requests.
    fn check_nodes(&mut self) {
        let now = self.core.cx.engine.now;
        for ix in self.core.cx.engine.links.indexes() {
            loop {
                let link = &mut self.core.cx.engine.links[ix];
                match link.due(now, &self.core.cx.engine.limits) {
                    Due::Nothing => break,
                    Due::Connect => connect(&mut self.core.cx, &mut self.peers, ix),
                    Due::Fail(reason) => self.fail_link(ix, Fault::Gone(reason.to_owned())),
                    Due::Suspect => suspect::suspect(&mut self.core.cx, ix),
                    Due::Expire if link.used_by == Use::Replica => {
                        replicas::expire_read(&mut self.core.cx, ix)
                    }
                    Due::Expire => match link.expire() {
                        Some(ticket) => {
                            let is_given_up = link.is_given_up_when_late();
                            let lost = self.core.cx.time_out(ix, &ticket);
                            self.deliver(ticket, Outcome::Lost(lost));
                            if is_given_up {
                                self.fail_link(ix, Fault::Gone("no reply in time".to_owned()));
                            }
                        }
                        None => self.fail_link(ix, Fault::Gone("the node does not read".to_owned())),
                    },
                }
            }
        }
        let limits = &self.core.cx.engine.limits;
        let deadlines = self.core.cx.engine.links.iter().map(|link| link.deadline(limits));
        self.core.cx.engine.check_at = deadlines.min().unwrap_or(Instant::NEVER);
    }

    /// Does the work of each second: closes overdue clients, probes silent nodes, and publishes counts.
    fn sweep(&mut self) {
        let now = self.core.cx.engine.now;
        self.core.cx.retry_queue.in_flight.forget_before(now - SWEEP_EVERY);
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            self.sweep_client(conn);
        }
        while let Some(ix) = self.core.cx.next_unused_link(self.core.cx.engine.now) {
            self.let_go(ix);
        }
        // Silent links are probed later, since the replies to probes would make unneeded links look used.
        while let Some(ix) = self
            .core
            .cx
            .next_stale(self.core.cx.engine.now)
            .or_else(|| self.core.subscriptions.next_deserted(&mut self.core.cx))
            .or_else(|| self.core.invalidations.next_untracked(!self.core.emulations.waits.is_empty()))
        {
            self.let_go(ix);
        }
        for ix in self.core.cx.engine.links.indexes() {
            self.core.cx.engine.links[ix].incoming.passed_over_bytes = 0;
            self.core.cx.engine.links[ix].shrink();
            if self.core.cx.engine.links[ix].wants_probe(self.core.cx.engine.now, &self.core.cx.engine.limits)
            {
                let conn = ConnId { index: 0, generation: 0 };
                let asked =
                    Asked { conn, place: 0, part: 0, owner: Owner::Task(TaskKind::Probe), kept: Kept::NO };
                let probe = self.core.cx.engine.links[ix].probe();
                self.core.cx.engine.enqueue_on(ix, probe, asked);
            }
        }
        self.core.forget_profiles();
        inspection::inspect_nodes(&mut self.core.cx);
        ask_for_memory(&mut self.core.cx);
        self.relieve_memory();
        self.rates.measure(&mut self.core.cx.stats.counters, self.core.cx.engine.now);
        self.core.invalidations.count_prefixes(&mut self.core.cx, &mut self.peers);
        self.core.end_second();
        self.core.publish();
    }

    /// Closes a client that is overdue; takes back spare memory of an idle one.
    fn sweep_client(&mut self, conn: ConnId) {
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        let (now, limits) = (self.core.cx.engine.now, &self.core.cx.engine.limits);
        let idle_timeout = self.core.cx.limits.idle_timeout;
        let is_slow = is_slow_subscriber(session, 0, now, &self.core.cx.limits);
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
            self.core.cx.note_closed(session, reason);
            return self.close_client(conn);
        }
        if session.replies.is_quiet() && now.since(session.active_at) >= SWEEP_EVERY {
            session.shrink();
        }
    }

    /// Accepts no more clients, and closes each present client as soon as its requests are answered.
    pub fn drain(&mut self, now: Instant) {
        self.core.begin(now);
        self.draining = true;
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn)
                && session.phase == Phase::Open
            {
                session.phase = Phase::Ending;
                let pop = waits::waiting_pop(session);
                if let Some(node) = session.wait.on {
                    held::end_wait(&mut self.core.cx, node);
                }
                if let Some(pop) = pop {
                    self.core.emulations.end_wait_for_key(&mut self.core.cx, &mut self.peers, pop, None);
                }
                self.close_if_finished(conn);
            }
        }
        self.follow_up();
    }
}

/// Asks the driver for a connection to the node of the link `ix`.
fn connect(cx: &mut Context, peers: &mut Peers, ix: LinkIx) {
    let conn = peers.insert(Peer::Link(ix));
    if cx.profiles.is_renewed {
        let Link { profile, node, .. } = cx.engine.links[ix];
        cx.engine.links[ix].handshake.greeting = cx.greeting_at(profile, node);
    }
    let deadline = cx.engine.now + cx.engine.limits.connect_timeout;
    let link = &mut cx.engine.links[ix];
    link.state = State::Connecting { conn, deadline };
    let node = link.node;
    cx.engine.todo.controls.push_back(Action::Connect { conn, node });
}

/// Runs the requests in the session's input.
fn handle_input(core: &mut Core, session: &mut Session) {
    let mut input = std::mem::take(&mut session.input.bytes);
    let first = session.replies.next_place();
    let consumed = core.handle_requests(session, &input);
    let read = (first, session.replies.next_place());
    session.input.note_read(read, core.cx.engine.now);
    if consumed > 0 && session.input.began != Instant::NEVER {
        // The rest belongs to another request, which has just begun.
        session.input.began = core.cx.engine.now;
    }
    let rest = input.len() - consumed;
    if rest > 0 && rest > input.capacity() / 4 {
        input.drain(..consumed);
        session.input.bytes = input;
        return;
    }
    // A large buffer does not stay with the client for the beginning of a request.
    if rest > 0 {
        append(&mut session.input.bytes, &input[consumed..]);
    }
    core.cx.engine.pool.give(input);
}

/// Pauses a client that may not send more now, and sets the timeout of its incomplete request.
fn after_reading(core: &mut Core, session: &mut Session) {
    if matches!(session.phase, Phase::Closing { .. }) {
        core.cx.engine.pool.give(std::mem::take(&mut session.input.bytes));
    } else if session.input.bytes.len() > core.cx.engine.limits.request_bytes_max {
        let mark = session.mark();
        core.cx.refuse(session, errors::REQUEST_TOO_BIG);
        session.silence(mark, &mut core.cx.engine.pool);
        session.phase = Phase::Closing { linger: true };
        core.cx.note_closed(session, CloseReason::Protocol);
    }
    core.cx.engine.recount_client(session);
    let must_wait = match session.phase {
        Phase::Open => !core.cx.may_receive(session),
        // The client has more requests, so it resumes like a paused one. The rest of a large request may still come.
        Phase::Ending => {
            session.input.has_unread && !(core.cx.is_uploading(session) && core.cx.may_receive(session))
        }
        Phase::Closing { .. } | Phase::Lingering { .. } => false,
    };
    if must_wait && !session.paused {
        session.paused = true;
        core.cx.engine.pace(session.conn, true);
    }
    session.input.began = match session.input.began {
        _ if session.paused || session.is_blocked() => Instant::NEVER,
        // During an upload, every piece of the request counts as a beginning.
        began if core.cx.is_uploading(session) => began,
        _ if session.input.bytes.is_empty() => Instant::NEVER,
        Instant::NEVER => core.cx.engine.now,
        began => began,
    };
}

/// Whether a request is incomplete after its timeout. A large request gets a second more for each KiB.
fn half_request_is_late(session: &Session, now: Instant, limits: &EngineLimits) -> bool {
    let allowed = limits.half_request_timeout + Duration::from_secs(session.input.bytes.len() as u64 / 1024);
    !session.paused && now.since(session.input.began) > allowed
}
