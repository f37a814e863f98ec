//! When requests in flight on a connection are late. The duration of the node's silence decides.
//!
//! ```text
//!   sent ── bytes ── bytes ── nothing for --request-timeout-ms ───────────► late: the outcome is unknown
//!     └──── bytes, again and again, for ten times as long ────────────────► late as well
//! ```
//!
//! A node that keeps sending is not late, whichever request the bytes answer. So a request is late when it was queued a
//! timeout ago, and for a timeout nothing has come on its connection. A request behind a slow one is not late with it,
//! since it has a timeout of its own. These events count like bytes that come:
//!
//! - The connection was just made. Requests that waited for it were not sent before.
//! - The node takes more bytes after it had no room.
//! - Bytes have come that the worker has not read yet, or the worker itself was stopped: see [`Link::handle_stall`].
//!
//! While the worker does not read a large reply because its client does not, no request is late.
//!
//! The second bound, [`Limits::request_timeouts_max`], is for a request behind a reply that does not end. It is also
//! for a node that answers all requests but this one.

use crate::features::Features;
use crate::limits::Limits;
use crate::link::{Link, State, Ticket, Use};
use std::time::Duration;
use stdx::Instant;

/// The action that is due on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Try to connect.
    Connect,
    /// Close the connection.
    Fail(&'static str),
    /// Take the first late ticket with [`Link::expire`].
    Expire,
    /// Suspect the link: nothing has come for a good part of a request's time. See `suspect.rs`.
    Suspect,
}

impl<F: Features> Link<F> {
    /// Notes progress: the silence begins anew.
    pub fn handle_progress(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// The instant of the last progress.
    pub fn moved_at(&self) -> Instant {
        self.moved_at
    }

    /// Limits the time of all requests in flight, and of an attempt to connect, to `late_at`.
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

    /// The next instant at which [`Link::due`] may return another action.
    pub fn deadline(&self, limits: &Limits) -> Instant {
        match self.state {
            State::Waiting { until } => until,
            State::Connecting { deadline, .. } | State::Probing { deadline, .. } => deadline,
            State::Ready { .. } => {
                self.late_at(limits).min(self.hopeless_at(limits)).min(self.suspect_at(limits))
            }
        }
    }

    /// The action that is due at `now`.
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

    /// The instant at which the next ticket expires.
    fn late_at(&self, limits: &Limits) -> Instant {
        let Some(ticket) = self.in_flight.tickets.get(self.in_flight.expired) else { return Instant::NEVER };
        match self.used_by {
            // A slow client delays only its own replies.
            Use::Pinned if self.incoming.paused => Instant::NEVER,
            // No client waits behind a bulk transfer, and all subscriptions are sent at once.
            Use::Pinned | Use::Subscription => self.silent_at(ticket, limits),
            _ => self.silent_at(ticket, limits).min(self.over_at(ticket, limits)).min(self.late_at_most),
        }
    }

    /// The instant at which the node will have been silent for a whole timeout of `ticket`. While the request is
    /// incomplete, the node only owes that it takes the bytes.
    fn silent_at(&self, ticket: &Ticket<F>, limits: &Limits) -> Instant {
        let silent_at = self.moved_at + self.silence_max(limits);
        match ticket.deadline {
            Instant::NEVER if self.outgoing.blocked => silent_at,
            deadline => deadline.max(silent_at),
        }
    }

    /// The instant at which `ticket` has used all its timeouts. Bytes of its reply, or of the one before, extend it.
    fn over_at(&self, ticket: &Ticket<F>, limits: &Limits) -> Instant {
        limits.over_at(ticket.deadline, self.silence_max(limits))
            + limits.transfer_time(self.incoming.bytes.len())
    }

    /// The time for which the node may be silent.
    pub fn silence_max(&self, limits: &Limits) -> Duration {
        match self.used_by {
            Use::Shared | Use::Replica | Use::Held | Use::Subscription | Use::Draining | Use::Standby => {
                limits.request_timeout
            }
            Use::Pinned | Use::Retired => limits.transfer_timeout,
        }
    }

    /// The time that the ticket that is late at `now` has waited, for the error: one timeout of silence, or all its
    /// timeouts.
    pub fn waited(&self, now: Instant, limits: &Limits) -> Duration {
        let silence_max = self.silence_max(limits);
        match self.is_silent_for(silence_max, now) || self.late_at_most <= now {
            true => silence_max,
            false => limits.request_timeout + silence_max * limits.request_timeouts_max.saturating_sub(1),
        }
    }

    /// The instant at which a connection with late replies is closed: another timeout after the first reply was late,
    /// if nothing came meanwhile.
    fn hopeless_at(&self, limits: &Limits) -> Instant {
        match self.in_flight.tickets.front() {
            Some(ticket) if self.in_flight.expired > 0 => {
                self.silent_at(ticket, limits) + limits.request_timeout
            }
            _ => Instant::NEVER,
        }
    }

    /// The instant at which the link becomes suspect: once in each silence, but not while the link is new. Otherwise
    /// the link would be replaced again and again if a node delays requests on purpose (CLIENT PAUSE).
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

    /// Whether nothing has come since the link became suspect.
    pub fn is_suspect(&self) -> bool {
        self.suspected_at > self.moved_at
    }

    /// Makes the link suspect.
    pub fn suspect(&mut self, now: Instant) {
        self.suspected_at = now;
    }

    /// Notes that the node has no room for more bytes.
    #[cold]
    pub fn note_blocked(&mut self, now: Instant) {
        // The node was not asked for anything before, so its earlier silence means nothing.
        if self.in_flight.tickets.back().is_some_and(|ticket| ticket.deadline == Instant::NEVER) {
            self.handle_progress(now);
        }
    }

    /// Makes a tombstone of the first late ticket and returns the ticket. `None` if the connection did not take all
    /// bytes of the request. The connection must then be closed, so that all its clients get the right error.
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

    /// Notes that the worker was stopped for `late`, until `now`. Whatever nodes did meanwhile was not seen, and the time
    /// does not count for requests in flight.
    pub fn handle_stall(&mut self, late: Duration, now: Instant, limits: &Limits) {
        for ticket in self.in_flight.tickets.iter_mut().filter(|ticket| ticket.deadline != Instant::NEVER) {
            ticket.deadline += late;
        }
        match &mut self.state {
            State::Waiting { .. } => {}
            State::Connecting { deadline, .. } | State::Probing { deadline, .. } => {
                *deadline = now + limits.connect_timeout;
            }
            State::Ready { .. } if self.in_flight.tickets.is_empty() => {}
            State::Ready { .. } => self.handle_progress(now),
        }
    }

    /// Whether the first late reply closes the connection. This holds if only one client waits for its replies, or if
    /// its node answers on another connection meanwhile. It also holds if nothing more is sent on it before that reply.
    pub fn is_given_up_when_late(&self) -> bool {
        match self.used_by {
            Use::Pinned | Use::Held | Use::Subscription => true,
            Use::Draining => self.is_suspect(),
            Use::Shared => self.is_serial(),
            Use::Replica | Use::Retired | Use::Standby => false,
        }
    }
}
