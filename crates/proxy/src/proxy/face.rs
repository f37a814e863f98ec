//! What a driver takes from the proxy and sees of it, beside events and actions.

use super::Proxy;
use crate::ConnId;
use crate::core::Core;
use crate::counters::Counters;
use crate::event::Notice;
use crate::features::Link;
use crate::link::Use;
use crate::local::gathered::Mail;
use crate::login::job::ControlJob;
use crate::memory;
use crate::peers::Peer;
use engine::rounds::Rounds;
use std::time::Duration;
use stdx::Instant;
use topology::discovery::Wish;

/// Unfinished work of a worker. Each count is 0 once no client is left and nodes have answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Split requests that wait for replies.
    pub merges: usize,
    /// Questions to all workers, all shards or the control thread that wait for their answers.
    pub inquiries: usize,
    /// Commands over several shards that are being carried out.
    pub emulations: usize,
    /// Transactions over several shards that are being carried out.
    pub executions: usize,
    /// Clients that are pinned for large transfers, or wait to be.
    pub pins: usize,
    /// Connections that clients hold to watch keys or to wait for elements.
    pub conns_held: usize,
    /// Requests that wait for a newer topology, or for their next try.
    pub requests_parked: usize,
    /// Channels and patterns to which clients are subscribed.
    pub topics: usize,
    /// Keys that were read by clients with CLIENT TRACKING.
    pub tracked_keys: usize,
}

impl Proxy {
    /// Whether every client has gone, and what they left half done is done.
    pub fn is_drained(&self) -> bool {
        self.core.cx.stats.counters.clients == 0
            && self.core.emulations.slab.is_empty()
            && self.core.execs.executions.is_empty()
    }

    /// How long clients' rounds were, since the proxy began.
    pub fn rounds(&self) -> Rounds {
        self.core.cx.engine.rounds
    }

    /// How many clients have requests pending.
    pub fn clients_waiting(&self) -> usize {
        self.core.cx.engine.clients_waiting
    }

    /// How many requests and parts of requests are in flight over the connections that clients share. Looks at each
    /// connection.
    pub fn in_flight(&self) -> usize {
        let is_shared = |link: &&Link| matches!(link.used_by, Use::Shared | Use::Replica);
        let shared = self.core.cx.engine.links.iter().filter(is_shared);
        shared.map(Link::in_flight).sum()
    }

    /// How much work is unfinished, by kind.
    pub fn pending(&self) -> Pending {
        let Core { cx, subscriptions, invalidations, emulations, execs, .. } = &self.core;
        Pending {
            merges: cx.merges.len(),
            inquiries: cx.inquiries.len(),
            emulations: emulations.slab.len(),
            executions: execs.executions.len(),
            pins: cx.pins.len(),
            conns_held: cx.holders.conns,
            requests_parked: cx.retry_queue.len(),
            topics: subscriptions.topics.len(),
            tracked_keys: invalidations.readers.len(),
        }
    }

    /// Bytes of requests and replies that are held; 0 once no client is left and nodes have answered.
    pub fn held_bytes(&self) -> usize {
        self.core.cx.engine.memory.held_bytes()
    }

    /// What is to be logged.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.core.cx.outside.notices.pop_front()
    }

    /// How long a connection to a node may take until it is given up.
    pub fn connect_timeout(&self) -> Duration {
        self.core.cx.engine.limits.connect_timeout
    }

    /// This worker's counts.
    pub fn counters(&self) -> &Counters {
        &self.core.cx.stats.counters
    }

    /// That nodes seem to have other tasks than the topology says: discovery is to look. At most one in 20 ms, so to
    /// be asked for in each turn.
    pub fn poll_wish(&mut self, now: Instant) -> Option<Wish> {
        self.core.cx.outside.wishes.take(now)
    }

    /// What is to be done with the ACL file next.
    pub fn poll_job(&mut self) -> Option<ControlJob> {
        self.core.cx.outside.jobs.pop_front()
    }

    /// Whether replies may wait for others: to be said where the worker has more to do than time.
    pub fn cork(&mut self, holds: bool) {
        self.core.cx.engine.cork.holds = holds;
    }

    /// Whether some do: then the next turn must begin at once.
    pub fn has_corked(&self) -> bool {
        !self.core.cx.engine.cork.held.is_empty()
    }

    /// What was held in the last turn goes out with this one. To be called after a turn's events and before its actions.
    pub fn uncork(&mut self) {
        let mut held = std::mem::take(&mut self.core.cx.engine.cork.held);
        for conn in held.drain(..) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                self.core.cx.engine.list_client(session);
            }
        }
        self.core.cx.engine.cork.held = held;
    }

    /// The worker came `late` to its turn at `now`: it was stopped, others had its core, or the turn before took so long. What
    /// nodes did meanwhile could not be seen, or what was sent had not left.
    pub fn handle_lateness(&mut self, late: Duration, now: Instant) {
        let core = &mut self.core;
        if late >= core.cx.engine.limits.stall_min() {
            core.cx.engine.links.iter_mut().for_each(|link| link.handle_stall(now, &core.cx.engine.limits));
        }
    }

    /// Bytes of `conn` have come and are not read yet.
    pub fn handle_unread(&mut self, conn: ConnId, now: Instant) {
        if let Some(&Peer::Link(ix)) = self.peers.get(conn) {
            self.core.cx.engine.links[ix].handle_progress(now);
        }
    }

    /// How many bytes an event may bring at most: as much as may be kept of each client, if all have sent much at once.
    pub fn read_bytes_max(&self) -> usize {
        memory::read_bytes_max(&self.core.cx)
    }

    /// What is to be delivered to another worker: which, and what. If that worker has stopped, the sender is to be
    /// handed [`Mail::undelivered`].
    pub fn poll_mail(&mut self) -> Option<(usize, Mail)> {
        self.core.cx.outside.mail.pop_front()
    }
}
