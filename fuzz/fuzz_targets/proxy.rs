//! Any bytes of clients and nodes, in any order: the core neither panics nor exceeds its memory limit.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use proxy::{Action, Arrival, Board, CrossShard, Event, Limits, Proxy, Settings};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Id, Instant};
use store::Scratch;
use topology::{Topology, TopologySpec, parse_nodes};

/// The next event.
#[derive(Arbitrary, Debug)]
enum Step {
    Accept,
    /// A connection (by its place in the list of open ones) receives bytes.
    Receive(u8, Vec<u8>),
    /// A node's connection receives a reply that is well formed.
    Reply(u8, u8),
    Connect(u8),
    End(u8),
    Close(u8),
    Writable(u8),
    /// This number of milliseconds passes.
    Pass(u16),
    /// From now on, sockets take this number of bytes at once.
    Take(u8),
    Drain,
}

const REPLIES: [&[u8]; 8] =
    [b"+PONG\r\n", b"+OK\r\n", b":1\r\n", b"$-1\r\n", b"*1\r\n$1\r\na\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n", b"-ERR\r\n", b"*0\r\n"];

/// The world's side: open connections.
struct World {
    proxy: Proxy,
    conns: Vec<Id>,
    now: Instant,
    take: usize,
}

impl World {
    fn perform(&mut self) {
        while let Some(action) = self.proxy.poll_action() {
            match action {
                Action::Connect { conn, .. } => self.conns.push(conn),
                Action::Send { conn, bytes } => {
                    assert!(!bytes.is_empty());
                    let taken = bytes.len().min(self.take);
                    self.proxy.handle_sent(conn, taken);
                }
                Action::Close { conn } => self.conns.retain(|open| *open != conn),
                Action::Pause { .. } | Action::Resume { .. } | Action::Finish { .. } => {}
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let pick = |place: u8| (!self.conns.is_empty()).then(|| self.conns[usize::from(place) % self.conns.len()]);
        let event = match step {
            Step::Accept => {
                self.conns.extend(self.proxy.accept(&Arrival::of("fuzz"), self.now));
                None
            }
            Step::Pass(ms) => {
                self.now += Duration::from_millis(u64::from(*ms));
                self.proxy.handle_timeouts(self.now);
                None
            }
            Step::Take(take) => {
                self.take = usize::from(*take);
                None
            }
            Step::Drain => {
                self.proxy.drain(self.now);
                None
            }
            Step::Receive(_, bytes) if bytes.is_empty() => None,
            Step::Receive(place, bytes) => pick(*place).map(|conn| Event::Received { conn, bytes }),
            Step::Reply(place, reply) => {
                let bytes = REPLIES[usize::from(*reply) % REPLIES.len()];
                pick(*place).map(|conn| Event::Received { conn, bytes })
            }
            Step::Connect(place) => pick(*place).map(|conn| Event::Connected { conn }),
            Step::End(place) => pick(*place).map(|conn| Event::Ended { conn }),
            Step::Close(place) => pick(*place).map(|conn| Event::Closed { conn, reason: "fuzz" }),
            Step::Writable(place) => pick(*place).map(|conn| Event::Writable { conn }),
        };
        if let Some(event) = event {
            if let Event::Closed { conn, .. } = event {
                self.conns.retain(|open| *open != conn);
            }
            self.proxy.handle_event(event, self.now);
        }
        self.perform();
        while self.proxy.poll_notice().is_some() {}
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let nodes = parse_nodes("127.0.0.1:1,127.0.0.1:2").expect("valid");
    let topology = Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid");
    let limits = Limits { clients_max: 8, ..Limits::default() };
    let (topology, board) = (Arc::new(topology), Arc::new(Board::new(1)));
    let now = Instant::ZERO;
    let settings = Settings {
        cross_shard: CrossShard::Emulate,
        evaluator: Some(Scratch::boxed),
        ..Settings::default()
    };
    let proxy = Proxy::new(limits, settings, topology, board, now);
    let mut world = World { proxy, conns: Vec::new(), now, take: usize::MAX };
    world.proxy.handle_timeouts(now);
    world.perform();
    for step in &steps {
        world.step(step);
    }
});
