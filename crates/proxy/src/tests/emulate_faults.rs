//! Commands over several shards while links are cut and nodes freeze at random. No element is lost, and every reply
//! is true. The nodes are real keyspaces.

use crate::testing::Rig;
use crate::{ConnId, CrossShard, Event, Limits, Settings};
use command::Evaluator;
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, Span, encode};
use std::time::Duration;
use stdx::Prng;
use store::Scratch;

/// The number of commands; each takes some milliseconds.
const COMMANDS: u64 = 4_000;

/// A proxy over two nodes, one client, and random faults.
struct World {
    rig: Rig,
    nodes: [Scratch; 2],
    client: ConnId,
    prng: Prng,
    faults: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let settings = Settings { cross_shard: CrossShard::Emulate, ..Settings::default() };
        let mut rig = Rig::ready_as(2, Limits::default(), settings);
        let client = rig.client();
        let nodes = [1, 2].map(|seed| Scratch::new(seed, 1));
        World { rig, nodes, client, prng: Prng::new(seed), faults: 0 }
    }

    /// Sends a request straight to the node of `shard`.
    fn ask(&mut self, shard: u32, line: &str) -> String {
        let (mut bytes, mut spans, mut reply) = (Vec::new(), Vec::new(), Vec::new());
        for word in line.split(' ') {
            encode::bulk(&mut bytes, word.as_bytes());
            spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        self.nodes[shard as usize].run(&Request::new(&bytes, &spans), false, &mut reply);
        String::from_utf8_lossy(&reply).replace("\r\n", "|")
    }

    /// Sends `line` from the client, and lets the nodes answer it or not. Returns the client's reply.
    fn tell(&mut self, line: &str) -> String {
        self.rig.client_sends(self.client, &format!("{line}|"));
        for _ in 0..200 {
            let told = self.rig.taken(self.client);
            if !told.is_empty() {
                self.calm();
                return told;
            }
            let shard = self.prng.below(2) as u32;
            self.turn(shard);
        }
        panic!("no reply to {line}");
    }

    /// Lets the node of `shard` run its requests, perhaps with a fault.
    fn turn(&mut self, shard: u32) {
        let requests = self.requests(shard);
        let done = match self.prng.below(12) {
            0 | 1 if self.faults > 0 => self.prng.below(requests.len() as u64 + 1) as usize,
            _ => requests.len(),
        };
        let mut replies = Vec::new();
        for request in &requests[..done] {
            run(&mut self.nodes[shard as usize], request, &mut replies);
        }
        match self.prng.below(12) {
            0 if self.faults > 0 && !requests.is_empty() => self.cut(shard),
            1 if self.faults > 0 && done == requests.len() => {
                self.faults -= 1;
                self.rig.pass(Duration::from_millis(1_100));
                self.reply(shard, &replies);
            }
            _ if done < requests.len() => self.cut(shard),
            _ => self.reply(shard, &replies),
        }
    }

    fn reply(&mut self, shard: u32, replies: &[u8]) {
        if !replies.is_empty() {
            let conn = self.rig.node(shard);
            self.rig.event(Event::Received { conn, bytes: replies });
        }
    }

    /// Cuts the link to `shard`. Sometimes the link is there again before the next step.
    fn cut(&mut self, shard: u32) {
        self.faults -= 1;
        let conn = self.rig.node(shard);
        self.rig.event(Event::Ended { conn });
        self.rig.pass(Duration::from_millis(1 + self.prng.below(30)));
        if self.prng.one_in(2) {
            self.repair(shard);
        }
    }

    fn repair(&mut self, shard: u32) {
        while !self.rig.is_connecting(shard) {
            self.rig.pass(Duration::from_millis(10));
        }
        self.rig.bring_up(shard);
    }

    /// Ends all requests and connects both nodes again.
    fn calm(&mut self) {
        self.faults = 0;
        for _ in 0..10 {
            (0..2).for_each(|shard| self.turn(shard));
        }
        for shard in 0..2 {
            if !self.rig.is_up(shard) {
                self.repair(shard);
            }
        }
        for _ in 0..4 {
            (0..2).for_each(|shard| self.turn(shard));
        }
        self.rig.pass(Duration::from_secs(1));
        (0..2).for_each(|shard| self.turn(shard));
        assert_eq!(self.rig.proxy.pending().emulations, 0);
    }

    /// The requests that the node of `shard` got since the last call.
    fn requests(&mut self, shard: u32) -> Vec<Vec<u8>> {
        let bytes = self.rig.taken_bytes(self.rig.node(shard));
        let (mut at, mut requests) = (0, Vec::new());
        while at < bytes.len() {
            let mut scanner = Scanner::default();
            let scanned =
                scanner.scan(&bytes[at..], &RequestLimits::default(), &mut Vec::new(), &mut Vec::new());
            let Ok(Scanned::Request { len }) = scanned else { panic!("{scanned:?}") };
            requests.push(bytes[at..at + len].to_vec());
            at += len;
        }
        requests
    }

    /// The number of elements `e` in `key` of `shard`, a list or a set.
    fn count(&mut self, shard: u32, key: &str) -> usize {
        let kind = self.ask(shard, &format!("TYPE {key}"));
        let all = match kind.as_str() {
            "+list|" => self.ask(shard, &format!("LRANGE {key} 0 -1")),
            "+set|" => self.ask(shard, &format!("SMEMBERS {key}")),
            _ => String::new(),
        };
        all.matches("|e|").count()
    }

    /// The journals that were left behind.
    fn journals(&mut self) -> Vec<String> {
        let keys = self.ask(0, "KEYS shardis:moving:*");
        keys.split('|').filter(|word| word.starts_with("shardis:")).map(str::to_owned).collect()
    }
}

/// Runs `request` as a node does.
fn run(node: &mut Scratch, request: &[u8], replies: &mut Vec<u8>) {
    let mut spans = Vec::new();
    let scanned = Scanner::default().scan(request, &RequestLimits::default(), &mut spans, &mut Vec::new());
    assert!(scanned.is_ok());
    let request = Request::new(request, &spans);
    match request.arg(0) {
        b"PING" => replies.extend_from_slice(b"+PONG\r\n"),
        _ => node.run(&request, false, replies),
    }
}

#[test]
fn no_fault_loses_a_renamed_value() {
    let mut outcomes = [0; 3];
    for seed in 0..COMMANDS {
        let mut world = World::new(seed);
        let (a, b) = (world.rig.key(0), world.rig.key(1));
        world.ask(0, &format!("RPUSH {a} 1 2 3"));
        world.faults = 1 + world.prng.below(2) as u32;
        let told = world.tell(&format!("rename {a} {b}"));
        let left = (world.ask(0, &format!("LLEN {a}")), world.ask(1, &format!("LLEN {b}")));
        let (there, gone) = (":3|".to_owned(), ":0|".to_owned());
        match &told {
            _ if told == "+OK|" => assert_eq!(left, (gone, there), "seed {seed}"),
            _ if told.starts_with("-TRYAGAIN ") => assert_eq!(left, (there, gone), "seed {seed}: {told}"),
            _ => assert!(left.0 == there || left.1 == there, "seed {seed}: {told} {left:?}"),
        }
        outcomes[usize::from(told.starts_with("-TRYAGAIN")) + 2 * usize::from(told.starts_with("-ERR"))] += 1;
    }
    assert!(outcomes.iter().all(|&seen| seen > COMMANDS / 50), "all is seen: {outcomes:?}");
}

#[test]
fn no_fault_loses_a_moved_element() {
    let mut outcomes = [0; 3];
    for seed in 0..COMMANDS {
        let mut world = World::new(seed);
        let (a, b) = (world.rig.key(0), world.rig.key(1));
        let (fill, line) = match seed % 2 {
            0 => ("RPUSH", format!("lmove {a} {b} right left")),
            _ => ("SADD", format!("smove {a} {b} e")),
        };
        world.ask(0, &format!("{fill} {a} x e"));
        world.faults = 1 + world.prng.below(2) as u32;
        let told = world.tell(&line);
        let journals = world.journals();
        let in_journals: usize = journals.iter().map(|journal| world.count(0, journal)).sum();
        let left = (world.count(0, &a), in_journals, world.count(1, &b));
        match &told {
            _ if told == "$1|e|" || told == ":1|" => {
                // A journal that could not be deleted is a copy.
                assert_eq!((left.0, left.2), (0, 1), "seed {seed}: {told}");
            }
            _ if told.starts_with("-TRYAGAIN ") => assert_eq!(left, (1, 0, 0), "seed {seed}: {told}"),
            _ => {
                assert!(left.0 + left.1 + left.2 > 0, "seed {seed}: {told} {left:?}");
                let is_named = journals.iter().all(|journal| told.contains(journal));
                assert!(is_named, "seed {seed}: {told} {journals:?}");
            }
        }
        outcomes[usize::from(told.starts_with("-TRYAGAIN")) + 2 * usize::from(told.starts_with("-ERR"))] += 1;
    }
    assert!(outcomes.iter().all(|&seen| seen > COMMANDS / 50), "all is seen: {outcomes:?}");
}
