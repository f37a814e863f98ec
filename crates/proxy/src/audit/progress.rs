//! Checks that every waiting client has an event to wait for. Such an event is a reply in flight, a client that takes
//! bytes again, or a permit that another client has. The checks change nothing.

use crate::ConnId;
use crate::core::Core;
use crate::features::{Link, Owed, Owner, Session, TaskId, TaskKind, Ticket};
use crate::link::Use;
use crate::peers::sessions;
use crate::proxy::Proxy;
use crate::session::pinning::Pinning;
use crate::session::{Phase, Reason};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Id;

/// The events for which a session can wait.
#[derive(Debug, Default)]
struct Coming {
    /// Places in clients' orders that will be filled.
    places: BTreeSet<(ConnId, u32)>,
    /// For each client, the number of events that its next request waits for.
    barriers: BTreeMap<ConnId, u32>,
    /// For each command over several shards, the answers to its questions.
    answers: BTreeMap<Id, usize>,
    /// For each transaction over several shards, the results of its parts.
    results: BTreeMap<Id, usize>,
    /// Clients whose next request waits for the answer of a node.
    lessons: BTreeSet<ConnId>,
}

/// The error names a client that waits without an event to wait for, or an effect that was left over.
pub(super) fn check(proxy: &Proxy) -> Result<(), String> {
    let core = &proxy.core;
    if let Some(effect) = core.cx.effects.front() {
        return Err(format!("an effect was left: {effect:?}"));
    }
    let coming = core.coming();
    for session in sessions(&proxy.peers) {
        if let Some(what) = core.why_stuck(session, &coming) {
            return Err(format!("client {} {what}: {session:?}", session.origin.client));
        }
    }
    core.check_tasks(&coming)?;
    core.check_links()
}

impl Coming {
    fn add_ticket(&mut self, link: &Link, ticket: &Ticket) {
        match ticket.owner {
            Owner::Client => _ = self.places.insert((ticket.conn, ticket.place)),
            Owner::Task(TaskKind::Emulation) => *self.answers.entry(ticket.conn).or_default() += 1,
            Owner::Task(TaskKind::Execution) => *self.results.entry(ticket.conn).or_default() += 1,
            Owner::Task(TaskKind::DefaultUser) => _ = self.lessons.insert(ticket.conn),
            _ => {}
        }
        let has_barrier = link.used_by.has_barriers() || link.used_by == Use::Held;
        if has_barrier && ticket.is_of_client() {
            self.raise_barrier(ticket.conn);
        }
    }

    fn add_stray(&mut self, ticket: &Ticket) {
        match ticket.owner {
            Owner::Client => _ = self.places.insert((ticket.conn, ticket.place)),
            Owner::Task(TaskKind::Emulation) => *self.answers.entry(ticket.conn).or_default() += 1,
            Owner::Task(TaskKind::Execution) => *self.results.entry(ticket.conn).or_default() += 1,
            _ => {}
        }
        if ticket.is_of_client() {
            self.raise_barrier(ticket.conn);
        }
    }

    /// Adds a task that will fill a place. Nothing behind the place is read until then.
    fn add_task(&mut self, (conn, place): (ConnId, u32)) {
        self.places.insert((conn, place));
        self.raise_barrier(conn);
    }

    fn raise_barrier(&mut self, conn: ConnId) {
        *self.barriers.entry(conn).or_default() += 1;
    }
}

impl Core {
    /// Whether `place` will be filled. A reply that is passed on in pieces may be here completely: it waits for the
    /// client or for the next turn.
    fn will_come(&self, session: &Session, place: u32, coming: &Coming) -> bool {
        let goes_on = !session.replies.output().is_empty() || self.is_of_next_turn(session);
        let is_passed_on = (session.replies.is_relaying() || self.execs.is_laying_in(session)) && goes_on;
        // The rest follows when the reply before has come.
        let is_rest = place != session.replies.front()
            && session.replies.owed(place).is_some_and(|owed| self.execs.is_laid_in(owed));
        is_rest
            || place == session.replies.front() && is_passed_on
            || coming.places.contains(&(session.conn, place))
    }

    fn is_of_next_turn(&self, session: &Session) -> bool {
        self.cx.engine.todo.clients_of_next_turn.contains(&session.conn)
    }

    fn coming(&self) -> Coming {
        let mut coming = Coming::default();
        for link in &self.cx.engine.links {
            link.tickets().for_each(|ticket| coming.add_ticket(link, ticket));
        }
        self.cx.retry_queue.tickets().for_each(|ticket| coming.add_stray(ticket));
        coming.places.extend(self.cx.pins.refetched());
        coming.places.extend(self.subscriptions.awaited());
        coming.lessons.extend(self.cx.parsing.learner.waiting());
        self.emulations.slab.iter().for_each(|(_, emulation)| coming.add_task(emulation.recipient()));
        self.fans.slab.iter().for_each(|(_, fan)| coming.add_task(fan.recipient()));
        self.execs.executions.iter().for_each(|(_, execution)| coming.add_task(execution.recipient()));
        self.invalidations.awaited().for_each(|place| coming.add_task(place));
        for (place, has_barrier) in self.cx.inquiries.awaited() {
            coming.places.insert(place);
            if has_barrier {
                coming.raise_barrier(place.0);
            }
        }
        coming
    }

    /// The reason why `session` can never continue, if there is one.
    fn why_stuck(&self, session: &Session, coming: &Coming) -> Option<&'static str> {
        let is_open = matches!(session.phase, Phase::Open | Phase::Ending);
        let barriers =
            coming.barriers.get(&session.conn).copied().unwrap_or_default() + self.own_barriers(session);
        let has_future = session.replies.is_pending()
            || !session.replies.output().is_empty()
            || self.is_of_next_turn(session);
        match () {
            () if session.replies.awaited().any(|place| !self.will_come(session, place, coming)) => {
                Some("waits for a reply that nobody will bring")
            }
            () if session.replies.front_is_ready() => Some("has a reply that does not leave"),
            () if !session.replies.output().is_empty()
                && !session.replies.output.blocked
                && !session.replies.output.is_corked =>
            {
                Some("is not sent what waits for it")
            }
            () if session.hold.order() != barriers => Some("waits for something that is not there"),
            () if session.hold.has(Reason::Question) && !coming.lessons.contains(&session.conn) => {
                Some("waits for the meaning of a command that nobody asks for")
            }
            () if session.hold.has(Reason::Pause) && !self.pause.is_on() => {
                Some("waits for a pause that has ended")
            }
            () if session.held_up && !self.cx.engine.memory.is_full() => {
                Some("waits for memory that is there")
            }
            () if self.pin_is_missing(session) => Some("waits for a transfer that does not come"),
            () if !session.replies.is_pending() && session.pinning == Pinning::Turning => {
                Some("waits for its own replies")
            }
            () if is_open && !has_future && session.paused && self.cx.may_receive(session) => {
                Some("is not read from without a cause")
            }
            () if session.is_blocked() && session.paused && self.cx.may_receive(session) => {
                Some("waits, and its end would not be seen")
            }
            () if is_open && !has_future && session.input.has_unread && self.may_read_on(session) => {
                Some("has a request that is not read without a cause")
            }
            () if self.should_be_closed(session) => Some("should have been closed"),
            () => None,
        }
    }

    /// The number of pending tasks of `session` for which its next request waits.
    fn own_barriers(&self, session: &Session) -> u32 {
        let is_barrier = |owed: &Owed| match *owed {
            Owed::Task(TaskId::Mixture(_)) | Owed::Task(TaskId::Login(_)) => true,
            Owed::Task(TaskId::Execution(id)) => {
                self.execs.executions.get(id).is_some_and(|execution| execution.has_mixture())
            }
            Owed::Task(TaskId::Replay(id)) => {
                self.execs.replays.get(id).is_some_and(|replay| replay.has_mixture())
            }
            _ => false,
        };
        session.replies.owed_to_it().filter(is_barrier).count() as u32
    }

    fn may_read_on(&self, session: &Session) -> bool {
        session.may_read(&self.cx.engine.limits) && !self.cx.engine.memory.is_full()
    }

    /// Whether `session` waits for a permit or has one, but the permit is not registered.
    fn pin_is_missing(&self, session: &Session) -> bool {
        let Some(id) = session.pinning.id() else { return false };
        let Some(pin) = self.cx.pins.get(id) else { return true };
        match session.pinning {
            Pinning::Waiting(_) => {
                !self.cx.pins.is_in_line(id)
                    || self.cx.pins.granted() < self.cx.engine.limits.pinned_clients_max
            }
            Pinning::Busy(_) => !session.replies.is_pending() && pin.upload.is_none(),
            Pinning::Ready(_) | Pinning::Turning | Pinning::No => false,
        }
    }

    fn should_be_closed(&self, session: &Session) -> bool {
        let is_over = match session.phase {
            Phase::Ending => !session.paused && !session.hold.has(Reason::Question),
            Phase::Closing { .. } => true,
            Phase::Open | Phase::Lingering { .. } => false,
        };
        is_over && session.replies.is_quiet()
    }

    /// Checks that each task waits for as many answers as are in flight.
    fn check_tasks(&self, coming: &Coming) -> Result<(), String> {
        for (id, emulation) in self.emulations.slab.iter() {
            let answers = coming.answers.get(&id).copied().unwrap_or_default();
            if emulation.questions_left() != answers {
                return Err(format!("{answers} answers are on their way to {emulation:?}"));
            }
        }
        for (id, execution) in self.execs.executions.iter() {
            let results = coming.results.get(&id).copied().unwrap_or_default();
            if execution.results_left() != results {
                return Err(format!("{results} results are on their way to {execution:?}"));
            }
        }
        Ok(())
    }

    /// Checks that bytes for nodes are sent when the nodes take them.
    fn check_links(&self) -> Result<(), String> {
        let links = &self.cx.engine.links;
        let uploads =
            self.cx.pins.pins.iter().filter_map(|(_, pin)| Some(&links[pin.upload.as_ref()?.link?]));
        let kept = uploads.filter(|link| link.keeps()).map(|link| ("keeps a part of a request", link));
        let stuck = links.iter().filter_map(|link| Some((why_link_stuck(link)?, link)));
        kept.chain(stuck).next().map_or(Ok(()), |(what, link)| Err(format!("a connection {what}: {link:?}")))
    }
}

/// The reason why a link can never continue, if there is one.
fn why_link_stuck(link: &Link) -> Option<&'static str> {
    match () {
        () if !link.output().is_empty() && !link.outgoing.blocked => Some("is not sent what waits for it"),
        // Reading resumes when the input was passed on.
        () if link.is_ready() && link.incoming.paused && link.input_len() == 0 => {
            Some("is not read from without a cause")
        }
        () => None,
    }
}
