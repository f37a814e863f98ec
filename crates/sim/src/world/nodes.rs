//! Actions of nodes: they accept connections, run requests, and reply; some of them falsely.

use super::{Link, Saboteur, What, Who, World};
use crate::node::{Node, Sabotage};
use crate::program::{LASTING_KEYS, lasting_key, lasting_value};
use proxy::{ConnId, Event};
use resp::reply;
use stdx::Instant;
use topology::Topology;

impl World<'_> {
    pub(super) fn finish_connect(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let Who::Node(node) = link.who else { return };
        if link.closed_by_proxy {
            self.links.remove(&conn);
            return;
        }
        if self.nodes[node].down {
            self.links.remove(&conn);
            return self.proxy.handle_event(Event::Closed { conn, reason: "connection refused" }, self.now);
        }
        link.connected = true;
        if self.nodes[node].full {
            link.to_proxy.put_all(b"-ERR max number of clients reached\r\n");
            link.to_proxy.ended = true;
        }
        self.proxy.handle_event(Event::Connected { conn }, self.now);
        self.plan_delivery_to_proxy(conn);
    }

    pub(super) fn run_node(&mut self, conn: ConnId) {
        if let Some(&Link { who: Who::Node(node), .. }) = self.links.get(&conn) {
            self.run_on_node(node, conn);
        }
    }

    /// The node runs what `conn` sent and answers.
    pub(super) fn run_on_node(&mut self, node: usize, conn: ConnId) {
        if self.nodes[node].frozen_until > self.now {
            return;
        }
        let sabotage = match self.saboteur {
            Some(Saboteur::RunTwice) if self.prng.one_in(20) => Sabotage::RunTwice,
            Some(Saboteur::AnswerOlder) if self.prng.one_in(20) => Sabotage::AnswerOlder,
            Some(Saboteur::Forget) if self.prng.one_in(400) => {
                self.nodes[node].keyspace.ask(&[b"FLUSHALL"], self.now);
                load(&mut self.nodes[node], &self.topology, self.now);
                Sabotage::Nothing
            }
            _ => Sabotage::Nothing,
        };
        self.ledger.looks_at = node;
        self.ledger.unfit = self.unfit(node);
        let cluster = self.cluster.as_ref().map(|cluster| (cluster, node));
        let place = self.nodes[node].log.len();
        let mut replies = self.nodes[node].run(conn, self.now, sabotage, cluster, &mut self.ledger);
        self.note_vain_writes(node, place);
        self.sabotage(&mut replies);
        self.say_to_proxy(conn, &replies);
        self.deliver_from_node(node);
        self.pass_on(node);
        self.plan_followers(node);
        self.acknowledge(node);
    }

    /// A node's bytes arrive some time later, if its connection still exists.
    pub(super) fn say_to_proxy(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        if !link.dead && !link.to_proxy.ended {
            link.to_proxy.put_all(bytes);
            self.plan_delivery_to_proxy(conn);
        }
    }

    /// In a cluster, all nodes deliver messages that one of them received.
    fn pass_on(&mut self, node: usize) {
        let published = std::mem::take(&mut self.nodes[node].published);
        if self.cluster.is_none() {
            return;
        }
        let cut: Vec<usize> = self.cluster.iter().flat_map(|cluster| cluster.cut.iter().copied()).collect();
        if cut.contains(&node) {
            return;
        }
        for message in published {
            let fellows = (0..self.nodes.len()).filter(|fellow| *fellow != node && !cut.contains(fellow));
            for fellow in fellows {
                self.nodes[fellow].hear(message.clone(), self.now);
                self.deliver_from_node(fellow);
            }
        }
    }

    /// A frozen node continues: first with the other nodes' bytes, then with the proxy's, most often in that order.
    pub(super) fn thaw(&mut self, node: usize) {
        if self.nodes[node].frozen_until > self.now {
            return;
        }
        for message in std::mem::take(&mut self.nodes[node].overheard) {
            self.nodes[node].hear(message, self.now);
        }
        self.deliver_from_node(node);
        let mut conns = self.nodes[node].busy_conns();
        if self.prng.one_in(2) {
            conns.reverse();
        }
        conns.into_iter().for_each(|conn| self.run_on_node(node, conn));
    }

    /// Sends bytes for other connections that a request caused. Connections whose waits ended run their next requests.
    pub(super) fn deliver_from_node(&mut self, node: usize) {
        while let Some((conn, bytes, ends_wait)) = self.nodes[node].next_delivery() {
            self.say_to_proxy(conn, &bytes);
            if ends_wait {
                self.plan_in_up_to(self.plan.delay_max, What::Run(conn));
            }
        }
        let due_at = self.nodes[node].keyspace.next_deadline();
        if let Some(at) = due_at.filter(|_| due_at != self.nodes[node].due_at) {
            self.plan_at(at.max(self.now), What::Due(node));
        }
        self.nodes[node].due_at = due_at;
    }

    /// Answers waits that have ended, unless the node is frozen.
    pub(super) fn end_waits(&mut self, node: usize) {
        let frozen_until = self.nodes[node].frozen_until;
        if frozen_until > self.now {
            return self.plan_at(frozen_until, What::Due(node));
        }
        self.nodes[node].keyspace.work(self.now);
        self.deliver_from_node(node);
        self.acknowledge(node);
    }

    /// Falsifies replies, to see whether anybody notices.
    fn sabotage(&mut self, replies: &mut Vec<u8>) {
        let Some(saboteur) = self.saboteur else { return };
        if !self.prng.one_in(20) {
            return;
        }
        let first = reply::first_len(replies);
        let second = if first > 0 { reply::first_len(&replies[first..]) } else { 0 };
        if first == 0 || replies.starts_with(b"+PONG") {
            return;
        }
        match saboteur {
            Saboteur::Swap => replies[..first + second].rotate_left(first),
            Saboteur::Drop => drop(replies.drain(..first)),
            Saboteur::Duplicate => {
                let copy = replies[..first].to_vec();
                replies.splice(..0, copy);
            }
            Saboteur::Corrupt => corrupt(&mut replies[..first]),
            // Strike in the node.
            Saboteur::RunTwice | Saboteur::AnswerOlder | Saboteur::Forget => {}
        }
    }
}

/// Loads a node with the keys that exist from the beginning.
pub(super) fn load(node: &mut Node, topology: &Topology, now: Instant) {
    for number in 0..LASTING_KEYS {
        let key = lasting_key(number);
        if topology.shard_of(&key) == node.shard {
            node.keyspace.ask(&[b"SET", &key, &lasting_value(number)], now);
        }
    }
}

/// Changes the last byte of a reply that is a value or a number.
fn corrupt(reply: &mut [u8]) {
    let Some(end) = reply.len().checked_sub(3) else { return };
    let line = reply[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let is_value = !matches!(reply[line], b'$' | b'*' | b'+' | b'-');
    if is_value && reply[end].is_ascii_alphanumeric() {
        reply[end] ^= 1;
    }
}
