//! Whether everybody who waits waits for something that will come: a reply that is on its way, a client that takes bytes again,
//! a permit that somebody else has. Nothing here changes anything.

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

/// What will come, as far as a session can wait for it.
#[derive(Debug, Default)]
struct Coming {
    /// Places in clients' orders that something will be brought to.
    places: BTreeSet<(ConnId, u32)>,
    /// By client: how often its next request waits until something has ended.
    barriers: BTreeMap<ConnId, u32>,
    /// By command over several shards: answers to its questions.
    answers: BTreeMap<Id, usize>,
    /// By transaction over several shards: results of its parts.
    results: BTreeMap<Id, usize>,
    /// Clients whose next request waits for what a node says.
    lessons: BTreeSet<ConnId>,
}

/// An error names somebody who waits for nothing that will come, or an effect that was left over.
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

    /// A task will fill a place; until then nothing behind that is read.
    fn add_task(&mut self, (conn, place): (ConnId, u32)) {
        self.places.insert((conn, place));
        self.raise_barrier(conn);
    }

    fn raise_barrier(&mut self, conn: ConnId) {
        *self.barriers.entry(conn).or_default() += 1;
    }
}

impl Core {
    /// Whether something will be brought to `place`. What is passed on piece by piece may all be here, and waits for the client
    /// or for the next turn.
    fn will_come(&self, session: &Session, place: u32, coming: &Coming) -> bool {
        let goes_on = !session.replies.output().is_empty() || self.is_of_next_turn(session);
        let is_passed_on = (session.replies.is_relaying() || self.execs.is_laying_in(session)) && goes_on;
        // It goes on when the reply before it has come.
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

    /// What keeps `session` from going on for ever, if something does.
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

    /// How often the next request of `session` waits for what it waits for itself.
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

    /// Whether `session` waits for a permit or has one, and nobody knows.
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

    /// Whether each task waits for as many answers as are on their way.
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

    /// Whether what waits to be sent to nodes is sent when they take it.
    fn check_links(&self) -> Result<(), String> {
        let stuck = self.cx.engine.links.iter().find_map(|link| Some((why_link_stuck(link)?, link)));
        stuck.map_or(Ok(()), |(what, link)| Err(format!("a connection {what}: {link:?}")))
    }
}

/// What keeps a connection to a node from going on for ever, if something does.
fn why_link_stuck(link: &Link) -> Option<&'static str> {
    match () {
        () if !link.output().is_empty() && !link.outgoing.blocked => Some("is not sent what waits for it"),
        // It is read again when what has come was passed on.
        () if link.is_ready() && link.incoming.paused && link.input_len() == 0 => {
            Some("is not read from without a cause")
        }
        () => None,
    }
}
