//! Declined requests that wait, and the wish for a newer topology.

use crate::ConnId;
use crate::features::{Owner, Retry, Ticket};
use crate::link::Use;
use crate::redirect::declined::Aim;
use crate::redirect::notes::Notes;
use crate::session::is_behind;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Instant;
use topology::NodeId;
use topology::discovery::Wish;

/// The interval between attempts for a declined request. A short one ends the wait soon after the cluster has
/// recovered. A long one keeps repeated requests few beside the others.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(15);

/// The smallest interval between wishes for a topology: more of them would bring no news.
pub(crate) const WISH_EVERY: Duration = Duration::from_millis(20);

/// The limit of bytes in the retry queue. A request that is declined beyond it fails at once.
pub(crate) const PARKED_BYTES_MAX: usize = 32 << 20;

/// A request that was declined, or not sent, and is on no link.
#[derive(Debug)]
pub(crate) struct Stray {
    pub retry: Retry,
    /// The kind of link that the request needs.
    pub used_by: Use,
    /// Whether a request on a held link watches keys, or else waits for an element.
    pub watches: bool,
    pub aim: Aim,
    /// The number of later requests of the client, for the same keys, that the node must decline too. They were in flight
    /// when this one was declined.
    pub later: usize,
    /// The node that has the keys, by the node that declined the request. `None` if it is the topology's.
    pub to: Option<NodeId>,
    /// The client's error if the time is up.
    pub reason: String,
    pub retry_at: Instant,
}

/// Requests that wait for a newer topology, or for a while.
#[derive(Debug)]
pub(crate) struct RetryQueue {
    /// The requests of each client, in its order. Those of tasks are under `None`.
    strays: BTreeMap<Option<ConnId>, VecDeque<Stray>>,
    len: usize,
    /// Other requests in flight, for the order of a client's requests.
    pub in_flight: Notes,
    pub bytes: usize,
    pub counted_bytes: usize,
    /// The instant at which the first request, or the first topic that has failed, is due for a retry or times out.
    pub due_at: Instant,
}

impl RetryQueue {
    /// The number of requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The tickets of the requests that wait.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.strays.values().flatten().map(|stray| &stray.retry.ticket)
    }

    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.counted_bytes, self.strays.values().flatten().map(|stray| stray.retry.request.len()).sum())
    }

    /// The requests that wait of the client of `ticket`.
    pub(crate) fn of_client(&self, ticket: &Ticket) -> impl Iterator<Item = &Stray> {
        self.strays.get(&group(ticket)).into_iter().flatten()
    }

    /// Adds `stray` in the order of its client.
    pub(crate) fn add(&mut self, stray: Stray) {
        self.bytes += stray.retry.request.len();
        self.due_at = self.due_at.min(stray.retry_at).min(stray.retry.ticket.deadline);
        self.len += 1;
        let strays = self.strays.entry(group(&stray.retry.ticket)).or_default();
        // Nearly always, the last one is ahead.
        let ahead = strays.iter().rposition(|other| !is_ahead(&stray.retry.ticket, &other.retry.ticket));
        strays.insert(ahead.map_or(0, |ahead| ahead + 1), stray);
    }

    /// Makes the redirected requests for `aim` due, of the client of `ticket`. The last one that they waited for was declined.
    pub(crate) fn hasten(&mut self, ticket: &Ticket, aim: Aim, now: Instant) {
        let strays = self.strays.get_mut(&group(ticket)).into_iter().flatten();
        for stray in strays.filter(|stray| stray.to.is_some() && stray.aim == aim) {
            stray.retry_at = now;
            self.due_at = now;
        }
    }

    /// Notes that a later request for `aim`, that of `ticket`, has failed. So nobody waits for it to be declined.
    pub(crate) fn note_failed(&mut self, ticket: &Ticket, aim: Aim) {
        let strays = self.strays.get_mut(&group(ticket)).into_iter().flatten();
        let waits =
            |stray: &&mut Stray| stray.later > 0 && stray.aim == aim && is_ahead(&stray.retry.ticket, ticket);
        strays.filter(waits).for_each(|stray| stray.later -= 1);
    }

    /// Takes all requests out.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Stray> + use<> {
        (self.bytes, self.len, self.due_at) = (0, 0, Instant::NEVER);
        std::mem::take(&mut self.strays).into_values().flatten()
    }

    /// All requests that wait.
    pub(crate) fn strays(&self) -> impl Iterator<Item = &Stray> {
        self.strays.values().flatten()
    }
}

/// The key of the requests that must keep their order with that of `ticket`.
fn group(ticket: &Ticket) -> Option<ConnId> {
    (ticket.owner == Owner::Client).then_some(ticket.conn)
}

/// Whether `one` is a request of the client of `other`, and was sent ahead of it.
pub(crate) fn is_ahead(one: &Ticket, other: &Ticket) -> bool {
    let are_of_clients = one.owner == Owner::Client && other.owner == Owner::Client;
    are_of_clients && one.conn == other.conn && is_behind(other.place, one.place)
}

impl Default for RetryQueue {
    fn default() -> RetryQueue {
        RetryQueue {
            strays: BTreeMap::new(),
            len: 0,
            in_flight: Notes::default(),
            bytes: 0,
            counted_bytes: 0,
            due_at: Instant::NEVER,
        }
    }
}

/// The wish for a newer topology.
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
    /// The wish, if there is one and the last one is long enough ago.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Wish> {
        if self.not_before > now {
            return None;
        }
        let wish = self.wish.take()?;
        self.not_before = now + WISH_EVERY;
        Some(wish)
    }
}
