//! Requests that were declined and wait, and the wish for a newer topology.

use crate::features::{Owner, Retry, Ticket};
use crate::link::Use;
use crate::redirect::declined::Aim;
use crate::session::is_behind;
use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;
use topology::discovery::Wish;

/// A request that is declined for a while is tried again so often: often enough to be through soon after the cluster
/// is, and few requests beside those that are served meanwhile.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(15);

/// Discovery is asked so often at most: more would tell it nothing new.
pub(crate) const WISH_EVERY: Duration = Duration::from_millis(20);

/// So many bytes of parked requests are held; what is declined beyond that fails at once.
pub(crate) const PARKED_BYTES_MAX: usize = 32 << 20;

/// A request that was declined, or not sent, and is on no connection.
#[derive(Debug)]
pub(crate) struct Stray {
    pub retry: Retry,
    /// Over which kind of connection it goes.
    pub used_by: Use,
    /// It watches keys, or else waits for an element, if it goes over a connection of its client's own.
    pub watches: bool,
    pub aim: Aim,
    /// What the client is told if its time is up.
    pub reason: String,
    pub retry_at: Instant,
}

/// Requests that wait for a newer topology, or for a while.
#[derive(Debug)]
pub(crate) struct RetryQueue {
    pub strays: VecDeque<Stray>,
    pub bytes: usize,
    pub counted_bytes: usize,
    /// The first of them, or of the topics that have had a setback, is tried again, or told that its time is up.
    pub due_at: Instant,
}

impl RetryQueue {
    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.strays.len()
    }

    /// What is known of each request that waits.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.strays.iter().map(|stray| &stray.retry.ticket)
    }

    /// What it was counted for, and what it holds.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.strays.iter().map(|stray| stray.retry.request.len()).sum())
    }

    /// Adds `stray`, in its client's order, of whom more may be here if `has_more`.
    pub(crate) fn add(&mut self, stray: Stray, has_more: bool) {
        let is_later = |other: &Stray| is_ahead(&stray.retry.ticket, &other.retry.ticket);
        let later = if has_more { self.strays.iter().position(is_later) } else { None };
        self.strays.insert(later.unwrap_or(self.strays.len()), stray);
    }
}

/// Whether `one` is a request of the client of `other`, and was sent ahead of it.
pub(crate) fn is_ahead(one: &Ticket, other: &Ticket) -> bool {
    let are_of_clients = one.owner == Owner::Client && other.owner == Owner::Client;
    are_of_clients && one.conn == other.conn && is_behind(other.place, one.place)
}

impl Default for RetryQueue {
    fn default() -> RetryQueue {
        RetryQueue { strays: VecDeque::new(), bytes: 0, counted_bytes: 0, due_at: Instant::NEVER }
    }
}

/// When a newer topology was wished for.
#[derive(Debug)]
pub(crate) struct Wishes {
    pub wish: Option<Wish>,
    pub not_before: Instant,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes { wish: None, not_before: Instant::ZERO }
    }
}

impl Wishes {
    /// The wish, if there is one and the last was long enough ago.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Wish> {
        if self.not_before > now {
            return None;
        }
        let wish = self.wish.take()?;
        self.not_before = now + WISH_EVERY;
        Some(wish)
    }
}
