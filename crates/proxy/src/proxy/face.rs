//! Methods for a driver, beside events and actions.

use super::Proxy;
use crate::ConnId;
use crate::core::Core;
use crate::counters::Counters;
use crate::event::Notice;
use crate::features::Link;
use crate::link::Use;
use crate::local::gathered::Mail;
use crate::local::line;
use crate::login::job::ControlJob;
use crate::memory;
use crate::peers::{Peer, sessions};
use crate::sampling::take;
use engine::engine::low_us;
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
    /// Emulations of commands over several shards.
    pub emulations: usize,
    /// Transactions over several shards.
    pub executions: usize,
    /// Clients that are pinned for large transfers, or wait for a permit.
    pub pins: usize,
    /// Held links: their clients watch keys, or wait for elements.
    pub conns_held: usize,
    /// Requests that wait for a newer topology, or for their next try.
    pub requests_parked: usize,
    /// Channels and patterns to which clients are subscribed.
    pub topics: usize,
    /// Keys that were read by clients with CLIENT TRACKING.
    pub tracked_keys: usize,
}

impl Proxy {
    /// Whether every client has gone, and no work of theirs is left.
    pub fn is_drained(&self) -> bool {
        self.core.cx.stats.counters.clients == 0
            && self.core.emulations.slab.is_empty()
            && self.core.execs.executions.is_empty()
    }

    /// The lengths of clients' rounds since the proxy began.
    pub fn rounds(&self) -> Rounds {
        self.core.cx.engine.rounds
    }

    /// The number of clients with pending requests.
    pub fn clients_waiting(&self) -> usize {
        self.core.cx.engine.clients_waiting
    }

    /// The number of requests and fragments in flight on shared links. Its cost grows with the number of links.
    pub fn in_flight(&self) -> usize {
        let is_shared = |link: &&Link| matches!(link.used_by, Use::Shared | Use::Replica);
        let shared = self.core.cx.engine.links.iter().filter(is_shared);
        shared.map(Link::in_flight).sum()
    }

    /// The amount of unfinished work, by kind.
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

    /// Bytes of requests and replies in memory; 0 once no client is left and nodes have answered.
    pub fn held_bytes(&self) -> usize {
        self.core.cx.engine.memory.held_bytes()
    }

    /// The next notice for the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.core.cx.outside.notices.pop_front()
    }

    /// The time after which an attempt to connect to a node is given up.
    pub fn connect_timeout(&self) -> Duration {
        self.core.cx.engine.limits.connect_timeout
    }

    /// This worker's counts.
    pub fn counters(&self) -> &Counters {
        &self.core.cx.stats.counters
    }

    /// The wish for a newer topology, if nodes seem to have other roles than the present one says. There is at most
    /// one wish in 20 ms, so the caller asks in each turn.
    pub fn poll_wish(&mut self, now: Instant) -> Option<Wish> {
        self.core.cx.outside.wishes.take(now)
    }

    /// The next job for the control thread, such as one with the ACL file.
    pub fn poll_job(&mut self) -> Option<ControlJob> {
        self.core.cx.outside.jobs.pop_front()
    }

    /// Sets whether replies may wait for others of their client, which pays under load.
    pub fn cork(&mut self, holds: bool) {
        self.core.cx.engine.cork.holds = holds;
    }

    /// Whether some replies wait for others. Then the next turn must begin at once.
    pub fn has_corked(&self) -> bool {
        !self.core.cx.engine.cork.held.is_empty()
    }

    /// Releases the replies that were held in the last turn. The caller does this after a turn's events and before
    /// its actions.
    pub fn uncork(&mut self) {
        let mut held = std::mem::take(&mut self.core.cx.engine.cork.held);
        for conn in held.drain(..) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                self.core.cx.engine.list_client(session);
            }
        }
        self.core.cx.engine.cork.held = held;
    }

    /// Notes that the worker came `late` to its turn at `now`: it was stopped, had no core, or had a long turn
    /// before. Meanwhile the worker saw no replies, and sent no requests.
    pub fn handle_lateness(&mut self, late: Duration, now: Instant) {
        let core = &mut self.core;
        if late >= core.cx.engine.limits.stall_min() {
            let limits = &core.cx.engine.limits;
            core.cx.engine.links.iter_mut().for_each(|link| link.handle_stall(late, now, limits));
        }
    }

    /// Notes that bytes of `conn` have arrived and are not read yet.
    pub fn handle_unread(&mut self, conn: ConnId, now: Instant) {
        if let Some(&Peer::Link(ix)) = self.peers.get(conn) {
            self.core.cx.engine.links[ix].handle_progress(now);
        }
    }

    /// The limit of bytes in an event: the memory for each client if all have sent much at once.
    pub fn read_bytes_max(&self) -> usize {
        memory::read_bytes_max(&self.core.cx)
    }

    /// The next mail, with the number of its receiver. If that worker has stopped, the caller returns
    /// [`Mail::undelivered`] to this worker.
    pub fn poll_mail(&mut self) -> Option<(usize, Mail)> {
        self.core.cx.outside.mail.pop_front()
    }
}

/// Ends a turn of `proxy` at `now`. The caller does this after its actions, so that reports can tell which replies clients
/// have taken.
#[inline]
pub fn end_turn(proxy: &mut Proxy, now: Instant) {
    let cx = &mut proxy.core.cx;
    if !cx.slow.deliveries.is_empty() {
        cx.slow.deliveries.end_turn(&proxy.peers, &cx.board.slow, cx.engine.now_us);
    }
    if !cx.stats.sampling.followed.is_empty() {
        take::end_turn(cx, &proxy.peers, low_us(now));
    }
}

/// Publishes the counts of a worker on the board at once. Otherwise that happens once a second.
pub fn publish(proxy: &mut Proxy) {
    proxy.core.publish();
}

/// A line for each client of a worker, as CLIENT LIST shows it.
pub fn client_lines(proxy: &Proxy) -> String {
    sessions(&proxy.peers).map(|session| line::client_line(&proxy.core.cx, session)).collect()
}
