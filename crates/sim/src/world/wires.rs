//! The network: bytes under way between the proxy and its peers, and their arrival.

use super::{Link, PIPE_BYTES, What, Who, World, tell};
use crate::client::Moment;
use crate::ledger::Told;
use crate::network::Pipe;
use proxy::{ConnId, Event};
use std::time::Duration;
use stdx::Instant;

impl World<'_> {
    pub(crate) fn plan_delivery_to_proxy(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let something = !link.to_proxy.is_empty() || link.to_proxy.ended && !link.to_proxy.end_told;
        if something && !link.to_proxy.planned && !link.paused && link.connected && !link.closed_by_proxy {
            link.to_proxy.planned = true;
            self.plan_in_up_to(self.plan.delay_max, What::ToProxy(conn));
        }
    }

    /// Time at which the wire from this end is free for more.
    fn free_at(&self, who: Who) -> Instant {
        match who {
            Who::Client(_) => Instant::ZERO,
            Who::Node(node) => self.nodes[node].wire_free_at,
        }
    }

    /// Occupies the wire from this end for this number of bytes.
    fn take_wire(&mut self, who: Who, bytes: usize) {
        if let (Who::Node(node), Some(bytes_per_s)) = (who, self.plan.node_bytes_per_s) {
            let takes = Duration::from_nanos(bytes as u64 * 1_000_000_000 / bytes_per_s);
            self.nodes[node].wire_free_at = self.now + takes;
        }
    }

    pub(super) fn plan_delivery_to_peer(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let something = !link.to_peer.is_empty() || link.to_peer.ended && !link.to_peer.end_told;
        if something && !link.to_peer.planned {
            link.to_peer.planned = true;
            self.plan_in_up_to(self.plan.delay_max, What::ToPeer(conn));
        }
    }

    /// A piece of bytes reaches the proxy, or the end behind the last one.
    pub(super) fn deliver_to_proxy(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.to_proxy.planned = false;
        if link.paused || link.closed_by_proxy {
            return;
        }
        if link.to_proxy.is_empty() {
            if link.to_proxy.ended && !link.to_proxy.end_told {
                link.to_proxy.end_told = true;
                let reset = link.reset;
                if reset {
                    self.links.remove(&conn);
                }
                self.note(5, conn, usize::from(reset));
                let reason = "connection reset by peer";
                let event = if reset { Event::Closed { conn, reason } } else { Event::Ended { conn } };
                self.proxy.handle_event(event, self.now);
            }
            return;
        }
        let who = link.who;
        let free_at = self.free_at(who);
        if free_at > self.now {
            self.with_link(conn, |link| link.to_proxy.planned = true);
            return self.plan_at(free_at, What::ToProxy(conn));
        }
        let piece_max = self.plan.piece_bytes_max();
        let Some(link) = self.links.get_mut(&conn) else { return };
        let bytes = link.to_proxy.take(&mut self.prng, piece_max);
        self.take_wire(who, bytes.len());
        self.note(6, conn, bytes.len());
        self.mix(&bytes);
        if let Who::Node(node) = who {
            tell(self.trace, ("node", node), "answers", &bytes);
        }
        self.proxy.handle_event(Event::Received { conn, bytes: &bytes }, self.now);
        self.plan_delivery_to_proxy(conn);
    }

    /// A piece arrives at the client or node.
    pub(super) fn deliver_to_peer(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.to_peer.planned = false;
        let who = link.who;
        if let Who::Client(client) = who
            && self.clients[client].reads_at > self.now
            && !link.dead
        {
            let at = self.clients[client].reads_at;
            link.to_peer.planned = true;
            return self.plan_at(at, What::ToPeer(conn));
        }
        if link.to_peer.is_empty() {
            if link.to_peer.ended && !link.to_peer.end_told {
                link.to_peer.end_told = true;
                self.tell_end_to_peer(conn, who);
            }
            return;
        }
        let bytes = link.to_peer.take(&mut self.prng, usize::MAX);
        let dead = link.dead;
        if std::mem::take(&mut link.wants_writable) && !link.closed_by_proxy {
            self.plan_in_up_to(self.plan.delay_max, What::Writable(conn));
        }
        self.note(7, conn, bytes.len());
        self.mix(&bytes);
        match who {
            _ if dead => {}
            Who::Client(client) => {
                tell(self.trace, ("client", client), "gets", &bytes);
                let moment = Moment {
                    now: self.now,
                    troubled: self.troubled,
                    excuses: self.plan.excuses(),
                    is_slow: self.plan.node_bytes_per_s.is_some(),
                };
                self.clients[client].receive(&bytes, moment, &mut self.ledger, &mut self.report.tally);
                self.check_acknowledged();
            }
            Who::Node(node) => {
                tell(self.trace, ("node", node), "gets", &bytes);
                self.nodes[node].receive(conn, &bytes);
                let slow = if self.prng.one_in(20) { 20 } else { 1 };
                self.plan_in_up_to(self.plan.delay_max * slow / 10, What::Run(conn));
            }
        }
        self.plan_delivery_to_peer(conn);
    }

    /// The client or node sees that the proxy will send no more.
    fn tell_end_to_peer(&mut self, conn: ConnId, who: Who) {
        let closed = self.links.get(&conn).is_some_and(|link| link.closed_by_proxy);
        match who {
            Who::Client(client) if self.clients[client].conn == Some(conn) => {
                let (ending, troubled) =
                    (self.clients[client].ending, self.plan.drain_at.is_some_and(|at| at <= self.now));
                // As in Redis, a client that has closed its sending side stops waiting.
                let gave_up = ending && self.clients[client].is_kept_waiting();
                // Requests behind the wait were not read, unless the connection was closed for another reason.
                let was_closed = self.clients[client].is_closed;
                let behind = if gave_up && !was_closed { Told::NotSent } else { Told::Unknown };
                let missing = self.clients[client].disconnect(behind, &mut self.ledger);
                if was_closed || troubled || gave_up {
                    // The proxy could report the reason only by closing the connection.
                } else if missing > 0 {
                    self.ledger.violate(format!("client {client} was closed and misses {missing} replies"));
                } else if !ending {
                    self.ledger.violate(format!("client {client} was closed for no reason"));
                }
                self.with_link(conn, |link| link.to_proxy.ended = true);
                self.plan_delivery_to_proxy(conn);
            }
            Who::Client(_) => {}
            Who::Node(node) => {
                self.run_on_node(node, conn);
                self.nodes[node].forget(conn);
            }
        }
        if closed {
            self.links.remove(&conn);
        }
    }
}

impl Link {
    pub(crate) fn new(who: Who, connected: bool) -> Link {
        Link {
            who,
            to_proxy: Pipe::new(usize::MAX),
            to_peer: Pipe::new(PIPE_BYTES),
            connected,
            paused: false,
            wants_writable: false,
            closed_by_proxy: false,
            dead: false,
            reset: false,
        }
    }
}
