//! A primary and two replicas, and clients that each write keys of their own. The replicas lag, stop, and lose their
//! links, connections and data, as a seed decides. Each client always reads its own last write, in order, and gets no
//! error.

use crate::testing::Rig;
use crate::{Board, ConnId, Event, Limits, ReadFrom, Reading, Settings};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stdx::Prng;

const LIST: &str = "127.0.0.1:7000@a|127.0.0.1:7001@b|127.0.0.1:7002@c";
const CLIENTS: usize = 3;
const STEPS: usize = 400;

/// One node: the primary, which is node 0, or a replica.
#[derive(Default)]
struct Node {
    conn: Option<ConnId>,
    /// Requests that came and have not run yet.
    requests: VecDeque<Vec<String>>,
    unread: Vec<u8>,
    /// The length of the prefix of the primary's log that the node has.
    applied: usize,
    /// The node has no data yet, or its replication link is down.
    unlinked: bool,
    loading: bool,
    frozen: bool,
}

struct Client {
    conn: ConnId,
    /// The client's last write to each of its keys.
    values: HashMap<String, u64>,
    /// The replies that are still to come.
    expected: VecDeque<String>,
    got: String,
}

struct World {
    rig: Rig,
    prng: Prng,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    /// The writes that the primary has run.
    log: Vec<(String, u64)>,
    written: u64,
    seed: u64,
}

impl World {
    fn new(seed: u64, from: ReadFrom) -> World {
        let reading = Reading { from, zone: Some("b".to_owned()), ..Reading::default() };
        let settings = Settings { reading, seed, ..Settings::default() };
        // Worlds are short. A replica that returns has its share at once, or after a time that fits into the world.
        let slow_start = Duration::from_millis(seed % 3 * 50);
        let limits = Limits { slow_start, ..Limits::default() };
        let mut rig = Rig::over(LIST, limits, settings, &Arc::new(Board::new(1)));
        let client = |rig: &mut Rig| Client {
            conn: rig.client(),
            values: HashMap::new(),
            expected: VecDeque::new(),
            got: String::new(),
        };
        let clients = (0..CLIENTS).map(|_| client(&mut rig)).collect();
        let nodes = (0..3).map(|_| Node::default()).collect();
        World { rig, prng: Prng::new(seed), nodes, clients, log: Vec::new(), written: 0, seed }
    }

    fn step(&mut self) {
        match self.prng.below(30) {
            0..=6 => self.ask(),
            7..=16 => self.serve(),
            17..=23 => self.replicate(),
            24..=28 => {
                let ms = [1, 5, 20, 120][self.prng.below(4) as usize];
                self.rig.pass(Duration::from_millis(ms));
            }
            _ => self.disturb(),
        }
        self.connect();
    }

    /// Sends some requests of a client in one write.
    fn ask(&mut self) {
        let number = self.prng.below(CLIENTS as u64) as usize;
        let mut text = String::new();
        for _ in 0..=self.prng.below(4) {
            let key = format!("c{number}:{}", self.prng.below(2));
            let client = &mut self.clients[number];
            if self.prng.below(8) == 0 {
                self.written += 1;
                client.values.insert(key.clone(), self.written);
                client.expected.push_back("+OK|".to_owned());
                text.push_str(&format!("set {key} {}|", self.written));
            } else {
                client.expected.push_back(bulk(client.values.get(&key).copied()));
                text.push_str(&format!("get {key}|"));
            }
        }
        let conn = self.clients[number].conn;
        self.rig.client_sends(conn, &text);
    }

    /// Connects the links that the core asks for, and delivers its output to the nodes.
    fn connect(&mut self) {
        for number in 0..self.nodes.len() {
            if !self.rig.is_asked_for(number as u32) {
                continue;
            }
            let conn = self.rig.node(number as u32);
            let node = &mut self.nodes[number];
            if node.conn != Some(conn) {
                *node = Node {
                    conn: Some(conn),
                    requests: VecDeque::new(),
                    unread: Vec::new(),
                    ..std::mem::take(node)
                };
                self.rig.event(Event::Connected { conn });
            }
            let bytes = self.rig.taken_bytes(conn);
            let node = &mut self.nodes[number];
            node.unread.extend(bytes);
            while let Some((request, len)) = parse(&node.unread) {
                node.unread.drain(..len);
                node.requests.push_back(request);
            }
        }
    }

    /// Lets the nodes run some of their requests.
    fn serve(&mut self) {
        (0..3).for_each(|number| self.serve_at(number));
    }

    fn serve_at(&mut self, number: usize) {
        for _ in 0..=self.prng.below(12) {
            if self.nodes[number].frozen {
                return;
            }
            let Some(request) = self.nodes[number].requests.pop_front() else { return };
            let reply = self.carry_out(number, &request);
            if let Some(conn) = self.nodes[number].conn.filter(|conn| !self.rig.is_closed(*conn)) {
                self.rig.sends(conn, &reply);
            }
            self.connect();
        }
    }

    fn carry_out(&mut self, number: usize, request: &[String]) -> String {
        let node = &self.nodes[number];
        let has = if number == 0 { self.log.len() } else { node.applied };
        match request.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["PING"] if node.loading => "-LOADING Redis is loading|".to_owned(),
            ["PING"] => "+PONG|".to_owned(),
            ["INFO", _] => report(number, node, has),
            ["set", key, value] => {
                assert_eq!(number, 0, "a write comes to a replica");
                self.log.push(((*key).to_owned(), value.parse().expect("a number")));
                "+OK|".to_owned()
            }
            ["get", _] if node.loading => "-LOADING Redis is loading|".to_owned(),
            ["get", key] => bulk(self.log[..has].iter().rfind(|(of, _)| of == key).map(|(_, value)| *value)),
            other => panic!("node {number} was asked {other:?}"),
        }
    }

    /// Lets replicas catch up a little.
    fn replicate(&mut self) {
        for number in 1..3 {
            let more = self.prng.below(4) as usize;
            let node = &mut self.nodes[number];
            if !node.unlinked && !node.frozen {
                node.applied = (node.applied + more).min(self.log.len());
            }
        }
    }

    /// Disturbs a replica.
    fn disturb(&mut self) {
        let number = 1 + self.prng.below(2) as usize;
        let log = self.log.len();
        let node = &mut self.nodes[number];
        match self.prng.below(6) {
            0 => node.frozen = !node.frozen,
            1 => node.unlinked = !node.unlinked,
            // The replica is linked again only when its first synchronisation is complete.
            2 => (node.loading, node.unlinked, node.applied) = (false, false, log),
            3 => (node.loading, node.unlinked) = (true, true),
            4 => self.lose(number),
            _ => {
                (node.applied, node.unlinked, node.frozen) = (0, true, false);
                self.lose(number);
            }
        }
    }

    fn lose(&mut self, number: usize) {
        if let Some(conn) = self.nodes[number].conn.take().filter(|conn| !self.rig.is_closed(*conn)) {
            self.rig.event(Event::Closed { conn, reason: "reset" });
        }
    }

    fn check(&mut self) {
        let seed = self.seed;
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.got.push_str(&self.rig.taken(client.conn));
            while let Some(expected) = client.expected.front() {
                if client.got.len() < expected.len() && expected.starts_with(&client.got) {
                    break;
                }
                assert!(
                    client.got.starts_with(expected),
                    "seed {seed}, client {number}: {} for {expected}",
                    client.got
                );
                client.got.drain(..expected.len());
                client.expected.pop_front();
            }
        }
    }

    /// Heals all nodes and lets them answer, until every client has its replies.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "seed {}: a reply never comes", self.seed);
            for node in &mut self.nodes[1..] {
                (node.loading, node.unlinked, node.frozen, node.applied) =
                    (false, false, false, self.log.len());
            }
            self.serve();
            self.rig.pass(Duration::from_millis(2));
            self.connect();
            self.check();
            let is_over = self.clients.iter().all(|client| client.expected.is_empty());
            if is_over && self.nodes.iter().all(|node| node.requests.is_empty()) {
                return;
            }
        }
    }
}

/// A node's report of its replication.
fn report(number: usize, node: &Node, has: usize) -> String {
    let history = "a".repeat(40);
    let text = match number {
        0 => format!("role:master|master_replid:{history}|master_repl_offset:{has}|"),
        _ => {
            let link = if node.unlinked { "down" } else { "up" };
            format!("role:slave|master_link_status:{link}|slave_repl_offset:{has}|master_replid:{history}|")
        }
    };
    format!("${}|{text}|", text.replace('|', "\r\n").len())
}

fn bulk(value: Option<u64>) -> String {
    value.map_or("$-1|".to_owned(), |value| format!("${}|{value}|", value.to_string().len()))
}

/// The first request in `bytes`, an array of bulk strings, and its length, if it is complete.
fn parse(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let mut at = 0;
    let mut args = Vec::new();
    for _ in 0..parse_number(bytes, &mut at, b'*')? {
        let len = parse_number(bytes, &mut at, b'$')?;
        let arg = bytes.get(at..at + len + 2)?;
        args.push(String::from_utf8_lossy(&arg[..len]).into_owned());
        at += len + 2;
    }
    Some((args, at))
}

/// The number in the line of this kind at `at`, which moves behind the line.
fn parse_number(bytes: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let end = *at + bytes[*at..].windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(bytes[*at], kind);
    let text = String::from_utf8_lossy(&bytes[*at + 1..end]);
    *at = end + 2;
    Some(text.parse().expect("a number"))
}

#[test]
fn clients_read_their_writes_despite_replica_faults() {
    let seeds = std::env::var("SHARDIS_SEEDS").map_or(300, |seeds| seeds.parse().expect("a number"));
    let policies = [ReadFrom::PreferReplica, ReadFrom::Any, ReadFrom::Nearest, ReadFrom::Zone];
    let (mut from_replicas, mut own_writes, mut retries) = (0, 0, 0);
    for seed in 0..seeds {
        let mut world = World::new(seed, policies[(seed % 4) as usize]);
        for _ in 0..STEPS {
            world.step();
            world.check();
        }
        world.settle();
        let counters = world.rig.proxy.counters();
        assert_eq!(counters.errors, 0, "seed {seed}");
        assert_eq!(world.rig.proxy.pending().merges, 0);
        from_replicas += counters.replica_reads;
        own_writes += counters.own_write_reads;
        retries += counters.replica_retries;
    }
    // Otherwise the worlds would prove nothing.
    assert!(
        from_replicas > 20 * seeds && own_writes > 20 * seeds && retries > seeds,
        "{from_replicas} {own_writes} {retries}"
    );
}
