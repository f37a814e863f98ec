//! What a driver takes from the proxy and sees of it, beside events and actions.

use super::Proxy;
use crate::ConnId;
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

    /// How many split requests wait for replies; 0 once no client is left.
    pub fn merges_pending(&self) -> usize {
        self.core.cx.merges.len()
    }

    /// How many questions over all workers, shards or time wait for their answers; 0 once no client is left.
    pub fn inquiries_pending(&self) -> usize {
        self.core.cx.inquiries.len()
    }

    /// How many commands over several shards are being carried out; 0 once no client is left and nodes have answered.
    pub fn emulations_pending(&self) -> usize {
        self.core.emulations.slab.len()
    }

    /// How many transactions over several shards are being carried out; 0 once no client is left and nodes have answered.
    pub fn executions_pending(&self) -> usize {
        self.core.execs.executions.len()
    }

    /// How many clients are pinned for large transfers, or wait to be; 0 once no client is left.
    pub fn pins_pending(&self) -> usize {
        self.core.cx.pins.len()
    }

    /// How many connections clients hold to watch keys or to wait for elements; 0 once no client is left.
    pub fn conns_held(&self) -> usize {
        self.core.cx.holders.conns
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

    /// How many requests wait for a newer topology or for a while; 0 once no client is left.
    pub fn requests_parked(&self) -> usize {
        self.core.cx.retry_queue.len()
    }

    /// What is to be done with the ACL file next.
    pub fn poll_job(&mut self) -> Option<ControlJob> {
        self.core.cx.outside.jobs.pop_front()
    }

    /// How many channels and patterns clients are subscribed to; 0 once no client is left.
    pub fn topics(&self) -> usize {
        self.core.subscriptions.topics.len()
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

    /// How many keys clients have read that track; 0 once no client is left.
    pub fn tracked_keys(&self) -> usize {
        self.core.invalidations.readers.len()
    }

    /// What is to be delivered to another worker: which, and what. If that worker has stopped, the sender is to be
    /// handed [`Mail::undelivered`].
    pub fn poll_mail(&mut self) -> Option<(usize, Mail)> {
        self.core.cx.outside.mail.pop_front()
    }
}
