//! Actions of clients: they connect, send, cache values, and leave in one of several ways.

use super::{COMPARE_EVERY, Link, TROUBLE_MAX, What, Who, World, tell};
use crate::ledger::Told;
use crate::program::Expect;
use proxy::{Arrival, ConnId};
use resp::reply;
use std::time::Duration;

/// Time for which clients send all the time after a fault.
const EAGER_FOR: Duration = Duration::from_millis(100);
/// The longest pause between their requests during that time.
const EAGER_PAUSE_MAX: Duration = Duration::from_millis(10);

impl World<'_> {
    /// Compares caches with the stores. A fault may delay invalidations for some time.
    pub(super) fn compare(&mut self) {
        if self.now >= self.plan.quiet_at {
            return;
        }
        self.plan_at(self.now + COMPARE_EVERY, What::Compare);
        if self.prng.one_in(4) {
            // SCRIPT FLUSH of a client that uses the node without the proxy.
            let node = self.prng.below(self.nodes.len() as u64) as usize;
            self.nodes[node].keyspace.scripts.forget();
            self.ledger.scripts.forgotten_at = Some(self.now);
        }
        let is_deaf = !self.plan.is_fast() || self.now < self.deaf_until;
        let patience = if is_deaf { TROUBLE_MAX } else { 2 * COMPARE_EVERY };
        if let Err(what) = self.check_caches(patience) {
            self.ledger.violate(what);
        }
    }

    /// Checks that no cached value has been out of date for `patience`.
    pub(crate) fn check_caches(&mut self, patience: Duration) -> Result<(), String> {
        let World { clients, nodes, ledger, topology, cluster, watch, links, now, .. } = self;
        let is_behind = |client: usize| {
            let Some(client) = clients.get(client) else { return false };
            let link = client.conn.and_then(|conn| links.get(&conn));
            client.reads_at > *now
                || client.is_held_up(*now)
                || link.is_none_or(|link| !link.to_peer.is_empty())
        };
        let is_writing =
            |client: usize, key: &[u8]| clients.get(client).is_some_and(|client| client.is_writing(key));
        ledger.caches.check(*now, patience, is_behind, is_writing, |key| {
            let shard = || topology.shard_of(key).0 as usize;
            let holders = match (&cluster, &watch) {
                (Some(cluster), _) => cluster.holders(key),
                (None, Some(watch)) => vec![watch.primary_of(shard())],
                (None, None) => vec![shard()],
            };
            holders.into_iter().find_map(|node| {
                let reply = nodes[node].keyspace.ask(&[b"GET", key], *now);
                reply::as_bulk(&reply).map(<[u8]>::to_vec)
            })
        })
    }

    /// A client connects, sends, or leaves, and plans its next step.
    pub(super) fn step(&mut self, client: usize) {
        if self.now >= self.plan.quiet_at {
            return;
        }
        let pause = Duration::from_micros(*self.prng.pick(&[0, 100, 3_000, 50_000, 400_000]));
        self.act(client);
        self.plan_in_up_to(pause + Duration::from_micros(10), What::Step(client));
    }

    /// Has clients send all the time for a while after a fault, so that its effects are seen.
    pub(super) fn wake_clients(&mut self) {
        let are_awake = self.now < self.eager_until;
        self.eager_until = self.now + EAGER_FOR;
        for client in (0..self.clients.len()).filter(|_| !are_awake) {
            self.plan_in_up_to(EAGER_PAUSE_MAX, What::Wake(client));
        }
    }

    /// A client that is awake does something, and again soon.
    pub(super) fn stay_awake(&mut self, client: usize) {
        if self.now < self.eager_until.min(self.plan.quiet_at) {
            self.act(client);
            self.plan_in_up_to(EAGER_PAUSE_MAX, What::Wake(client));
        }
    }

    fn act(&mut self, client: usize) {
        match self.clients[client].conn {
            None => _ = self.arrive(client),
            Some(_) if self.clients[client].ending => {}
            // With many open requests, a client mostly waits for their replies.
            Some(_) if self.clients[client].waiting() > 300 => {}
            Some(conn) => self.send_requests(client, conn),
        }
    }

    /// The client connects. False if it was not let in.
    pub(crate) fn arrive(&mut self, client: usize) -> bool {
        let Ok(conn) = self.proxy.accept(&Arrival::of("simulated"), self.now) else { return false };
        self.admitted += 1;
        self.links.insert(conn, Link::new(Who::Client(client), true));
        self.clients[client].arrive(conn, self.admitted);
        self.note(3, conn, client);
        true
    }

    /// Sends a pipeline, and sometimes ends the connection in one of several ways.
    fn send_requests(&mut self, client: usize, conn: ConnId) {
        let count = match self.prng.below(10) {
            _ if self.now < self.eager_until => 1,
            0 => 1 + self.prng.below(200),
            1..=4 => 1 + self.prng.below(10),
            _ => 1,
        };
        let mut bytes = Vec::new();
        for _ in 0..count {
            let client = &mut self.clients[client];
            let sent = client.program.next(self.now, &mut self.prng, &mut self.ledger);
            tell(self.trace, ("client", client.program.client), "sends", &sent.bytes);
            bytes.extend_from_slice(&sent.bytes);
            if let Some(expect) = sent.expect {
                client.expect(expect, self.now);
                self.report.requests += 1;
            }
        }
        let stays = if self.clients[client].program.reads_most { 600 } else { 60 };
        match self.prng.below(stays) {
            0 => self.end_with(client, &mut bytes, b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n", b"+OK\r\n"),
            1 => self.end_with(
                client,
                &mut bytes,
                b"*1\r\n$4\r\nPINGXX",
                b"-ERR Protocol error: expected CRLF\r\n",
            ),
            2 => self.end_with(
                client,
                &mut bytes,
                b"*1\r\n:1\r\n",
                b"-ERR Protocol error: expected '$', got ':'\r\n",
            ),
            3 => {
                self.clients[client].ending = true;
                self.with_link(conn, |link| link.to_proxy.ended = true);
            }
            4 => return self.vanish(client, conn, &bytes),
            5 | 6 => {
                let sleeps = Duration::from_millis(self.prng.below(3000));
                self.clients[client].reads_at = self.now + sleeps;
            }
            _ => {}
        }
        self.with_link(conn, |link| link.to_proxy.put_all(&bytes));
        self.note(4, conn, bytes.len());
        self.plan_delivery_to_proxy(conn);
    }

    /// The last request of a connection, after which no reply comes.
    fn end_with(&mut self, client: usize, bytes: &mut Vec<u8>, last: &[u8], reply: &[u8]) {
        bytes.extend_from_slice(last);
        self.report.requests += 1;
        self.clients[client].expect(Expect::Exactly(reply.to_vec()), self.now);
        self.clients[client].ending = true;
    }

    /// The client vanishes at once. A part of its bytes may arrive before its reset.
    fn vanish(&mut self, client: usize, conn: ConnId, bytes: &[u8]) {
        let piece = self.prng.below(bytes.len() as u64 + 1) as usize;
        self.with_link(conn, |link| {
            link.to_proxy.put_all(&bytes[..piece]);
            link.to_proxy.ended = true;
            link.reset = true;
            link.dead = true;
        });
        self.clients[client].disconnect(Told::Unknown, &mut self.ledger);
        self.plan_delivery_to_proxy(conn);
    }
}
