//! When requests in flight on a connection are late: what counts is how long their node is silent.
//!
//! ```text
//!   sent ── bytes ── bytes ── nothing for --request-timeout-ms ───────────► late: the outcome is unknown
//!     └──── bytes, again and again, for ten times as long ────────────────► late as well
//! ```
//!
//! A node that keeps sending is not late, for whomever it sends. So a request is late when two things are true: it was queued a
//! timeout ago, and for a timeout nothing has come on its connection. A request behind a slow one is not late with it: it has a
//! timeout of its own. These count like bytes that come:
//!
//! - The connection was made a moment ago. What waited for that was not sent.
//! - The node takes more of what it had no room for.
//! - Bytes have come that the worker has not read yet, or the worker itself was stopped: see [`Link::handle_stall`].
//!
//! While the worker does not read, since the client of a large reply does not, nothing is late.
//!
//! The second bound, [`Limits::request_timeouts_max`], is for a request behind a reply that does not end, or on a connection
//! whose node answers everything but this.

use crate::features::Features;
use crate::limits::Limits;
use crate::link::{Link, State, Ticket, Use};
use std::time::Duration;
use stdx::Instant;

/// What the time asks of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Try to connect.
    Connect,
    /// Give the connection up.
    Fail(&'static str),
    /// The ticket at the front of those not yet expired is late: take it with [`Link::expire`].
    Expire,
    /// Nothing has come for a good part of a request's time: see `suspect.rs`.
    Suspect,
}

impl<F: Features> Link<F> {
    /// Something came, or counts as if it had: the silence begins anew.
    pub fn handle_progress(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// When something last came.
    pub fn moved_at(&self) -> Instant {
        self.moved_at
    }

    /// What is in flight is late from `late_at` on at the latest, and so is the connection, if it is being made.
    pub fn hurry(&mut self, late_at: Instant) {
        match &mut self.state {
            State::Connecting { deadline, .. } | State::Probing { deadline, .. } => {
                *deadline = late_at.min(*deadline)
            }
            State::Waiting { .. } | State::Ready { .. } => {}
        }
        self.late_at_most = self.late_at_most.min(late_at);
    }

    /// Whether nothing has come for `time`.
    pub fn is_silent_for(&self, time: Duration, now: Instant) -> bool {
        now.since(self.moved_at) >= time
    }

    /// When [`Link::due`] may say something else than now.
    pub fn deadline(&self, limits: &Limits) -> Instant {
        match self.state {
            State::Waiting { until } => until,
            State::Connecting { deadline, .. } | State::Probing { deadline, .. } => deadline,
            State::Ready { .. } => {
                self.late_at(limits).min(self.hopeless_at(limits)).min(self.suspect_at(limits))
            }
        }
    }

    /// What `now` asks for.
    pub fn due(&self, now: Instant, limits: &Limits) -> Due {
        match self.state {
            State::Waiting { until } if until <= now => Due::Connect,
            State::Connecting { deadline, .. } if deadline <= now => Due::Fail("no connection in time"),
            State::Probing { deadline, .. } if deadline <= now => Due::Fail("no answer to PING in time"),
            State::Ready { .. } if self.hopeless_at(limits) <= now => Due::Fail("no reply in time"),
            State::Ready { .. } if self.late_at(limits) <= now => Due::Expire,
            State::Ready { .. } if self.suspect_at(limits) <= now => Due::Suspect,
            _ => Due::Nothing,
        }
    }

    /// When the first ticket that is not yet expired will be.
    fn late_at(&self, limits: &Limits) -> Instant {
        let Some(ticket) = self.in_flight.tickets.get(self.in_flight.expired) else { return Instant::NEVER };
        match self.used_by {
            // A slow client makes its own replies late, and only those.
            Use::Pinned if self.incoming.paused => Instant::NEVER,
            // Nobody waits behind a bulk transfer, and all that is subscribed to is asked for at once.
            Use::Pinned | Use::Subscription => self.silent_at(ticket, limits),
            _ => self.silent_at(ticket, limits).min(self.over_at(ticket, limits)).min(self.late_at_most),
        }
    }

    /// When the node will have been silent for a whole timeout of `ticket`. Of a request that is not all there it owes nothing
    /// but to take what there is.
    fn silent_at(&self, ticket: &Ticket<F>, limits: &Limits) -> Instant {
        let silent_at = self.moved_at + self.silence_max(limits);
        match ticket.deadline {
            Instant::NEVER if self.outgoing.blocked => silent_at,
            deadline => deadline.max(silent_at),
        }
    }

    /// When `ticket` has had as many timeouts as a request may have. What is here of its reply, or of the one before it, gets
    /// its time.
    fn over_at(&self, ticket: &Ticket<F>, limits: &Limits) -> Instant {
        limits.over_at(ticket.deadline, self.silence_max(limits))
            + limits.transfer_time(self.incoming.bytes.len())
    }

    /// How long the node may be silent.
    pub fn silence_max(&self, limits: &Limits) -> Duration {
        match self.used_by {
            Use::Shared | Use::Replica | Use::Held | Use::Subscription | Use::Draining | Use::Standby => {
                limits.request_timeout
            }
            Use::Pinned | Use::Retired => limits.transfer_timeout,
        }
    }

    /// How long the ticket that is late at `now` has waited, for the error: a whole timeout of silence, or all that it may.
    pub fn waited(&self, now: Instant, limits: &Limits) -> Duration {
        let silence_max = self.silence_max(limits);
        match self.is_silent_for(silence_max, now) || self.late_at_most <= now {
            true => silence_max,
            false => silence_max * limits.request_timeouts_max,
        }
    }

    /// When a connection with late replies is given up: another timeout after the first reply was late, if nothing
    /// came meanwhile.
    fn hopeless_at(&self, limits: &Limits) -> Instant {
        match self.in_flight.tickets.front() {
            Some(ticket) if self.in_flight.expired > 0 => {
                self.silent_at(ticket, limits) + limits.request_timeout
            }
            _ => Instant::NEVER,
        }
    }

    /// When it is to be suspected that what is sent still arrives: once in each silence, and not while it is new, so that it
    /// is not replaced again and again where a node leaves some requests waiting on purpose (CLIENT PAUSE).
    fn suspect_at(&self, limits: &Limits) -> Instant {
        match (self.state, self.in_flight.tickets.front()) {
            (State::Ready { since, .. }, Some(first))
                if self.used_by == Use::Shared && self.in_flight.expired == 0 && !self.is_suspect() =>
            {
                let asked_at = first.deadline - limits.request_timeout;
                asked_at.max(self.moved_at).max(since + limits.backoff_max) + limits.suspect_after()
            }
            _ => Instant::NEVER,
        }
    }

    /// Whether nothing has come since it was suspected.
    pub fn is_suspect(&self) -> bool {
        self.suspected_at > self.moved_at
    }

    /// It is suspect from now on.
    pub fn suspect(&mut self, now: Instant) {
        self.suspected_at = now;
    }

    /// The node has no room for more of what is sent.
    #[cold]
    pub fn note_blocked(&mut self, now: Instant) {
        // It was not asked for anything yet, so that its silence means nothing before.
        if self.in_flight.tickets.back().is_some_and(|ticket| ticket.deadline == Instant::NEVER) {
            self.handle_progress(now);
        }
    }

    /// Makes a tombstone of the first ticket that is late and returns what it was. `None` if a connection would not
    /// take all of its bytes: then the connection is to be given up instead, which tells everybody the truth.
    pub fn expire(&mut self) -> Option<Ticket<F>> {
        let written = self.outgoing.outbox.written();
        let ticket = self.in_flight.tickets.get_mut(self.in_flight.expired)?;
        if ticket.start >= written || self.used_by == Use::Pinned && ticket.deadline == Instant::NEVER {
            return None;
        }
        let late = *ticket;
        ticket.discard();
        self.in_flight.expired += 1;
        Some(late)
    }

    /// The worker was stopped until `now`: nothing that its node may have done meanwhile was seen.
    pub fn handle_stall(&mut self, now: Instant, limits: &Limits) {
        match &mut self.state {
            State::Waiting { .. } => {}
            State::Connecting { deadline, .. } | State::Probing { deadline, .. } => {
                *deadline = now + limits.connect_timeout;
            }
            State::Ready { .. } if self.in_flight.tickets.is_empty() => {}
            State::Ready { .. } => self.handle_progress(now),
        }
    }

    /// Whether the first late reply is the end of the connection: only one client waits for what comes on it, its node
    /// answers on another meanwhile, or nothing more is sent on it before that reply has come.
    pub fn is_given_up_when_late(&self) -> bool {
        match self.used_by {
            Use::Pinned | Use::Held | Use::Subscription => true,
            Use::Draining => self.is_suspect(),
            Use::Shared => self.is_serial(),
            Use::Replica | Use::Retired | Use::Standby => false,
        }
    }
}
