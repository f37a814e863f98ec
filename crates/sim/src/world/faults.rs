//! Execution of faults at their times.

use super::nodes::load;
use super::{Link, What, Who, World};
use crate::keyspace::unix_ms;
use crate::plan::Fault;
use crate::sentinels::Host;
use proxy::{ConnId, Event};
use std::time::Duration;
use topology::ShardId;

/// Time after which the kernel itself finds that a connection is dead.
const KEEPALIVE: Duration = Duration::from_secs(15);

impl World<'_> {
    pub(super) fn strike(&mut self, fault: Fault) {
        // Moves of slots are no excuse: clients must not notice them.
        self.troubled |= fault != Fault::Migrate;
        if let Fault::Kill { .. } | Fault::Freeze { .. } | Fault::Reset { .. } = fault {
            self.wake_clients();
        }
        self.deaf_until = self.deaf_until.max(self.now + fault.deafens_for());
        match (fault, &self.cluster) {
            // All nodes of a cluster get a message, and the proxy gets it from one of them.
            (Fault::Migrate, _) => {}
            (_, Some(_)) => self.ledger.radio.disturb(None, self.now),
            (_, None) if self.watch.is_some() => self.ledger.radio.disturb(None, self.now),
            (_, None) => self.ledger.radio.disturb(fault.shard(), self.now),
        }
        self.report.faults += 1;
        if self.trace {
            println!("{:>12} us  {fault:?}", self.now.as_nanos() / 1000);
        }
        match fault {
            Fault::Freeze { shard, lasts } => {
                let node = shard as usize;
                self.nodes[node].frozen_until = self.now + lasts;
                self.plan_at(self.now + lasts, What::Thaw(node));
            }
            Fault::Kill { shard, lasts, loading, forgets } => {
                let node = shard as usize;
                self.nodes[node].down = true;
                self.nodes[node].loading_until = self.now + lasts + loading;
                self.nodes[node].die();
                self.unlink(node);
                self.reset_links(node);
                if self.watch.is_some() {
                    self.hang_up(Host::Node(node));
                } else {
                    self.forget_as_replica(node);
                }
                if forgets {
                    self.nodes[node].keyspace.ask(&[b"FLUSHALL"], self.now);
                    load(&mut self.nodes[node], &self.topology, self.now);
                    self.ledger.shard_lost(ShardId(shard), unix_ms(self.now));
                }
                self.plan_at(self.now + lasts, What::Revive(node));
            }
            Fault::Reset { shard } => self.reset_some_links(shard as usize),
            Fault::Vanish { shard } => self.lose_links(shard as usize, Some(KEEPALIVE)),
            Fault::Garbage { shard } => {
                for conn in self.links_of(shard as usize) {
                    self.with_link(conn, |link| link.to_proxy.put_all(b"HTTP/1.1 400 Bad Request\r\n"));
                    self.plan_delivery_to_proxy(conn);
                }
            }
            Fault::Unasked { shard } => self.send_unasked(shard as usize),
            Fault::CutOff { shard, lasts } if self.watch.is_some() => self.split(shard as usize, lasts),
            Fault::CutOff { shard, lasts } => self.cut_off(shard as usize, lasts),
            Fault::Order { shard, sentinel } => self.order_failover(shard as usize, sentinel),
            Fault::Strand { shard, sentinel } => self.strand(shard as usize, sentinel),
            Fault::Sentinel { sentinel, trouble, lasts } => self.trouble_sentinel(sentinel, trouble, lasts),
            Fault::Mistake { shard, lasts } => self.mistake(shard as usize, lasts),
            Fault::SetUp => self.set_sentinels_up(),
            Fault::Unlink { shard, lasts } => self.break_link(shard as usize, lasts),
            Fault::Migrate => self.begin_migration(),
            Fault::Promote { shard, .. } if self.prng.one_in(2) => self.hang(shard as usize),
            Fault::Promote { shard, lasts } => self.promote(shard as usize, lasts),
            Fault::Full { shard, lasts } => {
                let node = shard as usize;
                self.nodes[node].full = true;
                self.reset_some_links(node);
                self.plan_at(self.now + lasts, What::Revive(node));
            }
        }
    }

    /// The live connections to a node.
    pub(super) fn links_of(&self, node: usize) -> Vec<ConnId> {
        let of_node = |link: &Link| {
            link.who == Who::Node(node) && link.connected && !link.closed_by_proxy && !link.dead
        };
        self.links.iter().filter(|(_, link)| of_node(link)).map(|(conn, _)| *conn).collect()
    }

    /// Resets a node's connections, or some of them.
    fn reset_some_links(&mut self, node: usize) {
        let mut links = self.links_of(node);
        if self.prng.one_in(2) {
            links.retain(|_| self.prng.one_in(2));
        }
        self.lose(node, &links, None);
    }

    /// Resets a node's connections; any part of the bytes under way may still arrive.
    pub(super) fn reset_links(&mut self, node: usize) {
        self.lose_links(node, None);
    }

    /// Ends a node's connections without further bytes. The proxy learns of it soon, or `after` a while.
    pub(super) fn lose_links(&mut self, node: usize, after: Option<Duration>) {
        // Bytes that the proxy sent before it closed a connection are lost as well.
        for link in self.links.values_mut().filter(|link| link.who == Who::Node(node) && link.closed_by_proxy)
        {
            link.dead = true;
        }
        let links = self.links_of(node);
        self.lose(node, &links, after);
    }

    /// The same of these.
    fn lose(&mut self, node: usize, links: &[ConnId], after: Option<Duration>) {
        for &conn in links {
            self.nodes[node].forget(conn);
            let Some(link) = self.links.get_mut(&conn) else { continue };
            let keep = self.prng.below(link.to_proxy.len() as u64 + 1) as usize;
            link.to_proxy.cut(if after.is_some() { 0 } else { keep });
            link.to_proxy.ended = true;
            link.reset = true;
            link.dead = true;
            match after {
                None => self.plan_delivery_to_proxy(conn),
                Some(after) => {
                    link.to_proxy.planned = true;
                    self.plan_at(self.now + after, What::ToProxy(conn));
                }
            }
        }
    }

    /// Sends a reply without a request, at a moment without any bytes under way.
    fn send_unasked(&mut self, node: usize) {
        for conn in self.links_of(node) {
            let Some(link) = self.links.get(&conn) else { continue };
            let quiet = link.to_proxy.is_empty() && link.to_peer.is_empty() && !link.wants_writable;
            let clients_wait = self.clients.iter().any(|client| client.waiting() > 0);
            if quiet && !clients_wait && self.nodes[node].busy_conns().is_empty() {
                self.proxy.handle_event(Event::Received { conn, bytes: b"$7\r\nforeign\r\n" }, self.now);
            }
        }
    }
}
