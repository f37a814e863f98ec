//! A proxy over nodes that all are there, one client of it, and what they say to each other. Nothing here allocates or
//! copies between the events: what is counted is the proxy.

use std::sync::Arc;

use proxy::{Action, Arrival, Board, ConnId, Event, Limits, Proxy, Settings};
use resp::encode;
use stdx::Instant;
use topology::{
    Distribution, NodeSpec, ShardId, ShardSpec, Topology, TopologySpec, parse_nodes, slot_ranges,
};

/// As many nodes as `bench/compare.py` has.
const SHARDS: usize = 4;

/// Rounds before the one that counts: buffers have grown by then, and queues have gone around.
const ROUNDS_BEFORE: usize = 3;
/// Small replies that a client gets before anything is counted.
const REPLIES_BEFORE: usize = 40;

/// The request of the blank-separated `words`.
pub(crate) fn request_of(words: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    encode::request(&mut bytes, &words);
    bytes
}

/// Who owns what: the defaults of everything.
pub(crate) fn topology() -> Topology {
    plain(Distribution::default())
}

/// The same, with the slots of a Redis Cluster over plain nodes.
pub(crate) fn by_slots() -> Topology {
    plain(Distribution::Slots)
}

fn plain(distribution: Distribution) -> Topology {
    Topology::new(1, &TopologySpec { nodes: nodes(), distribution, ..TopologySpec::default() })
        .expect("valid")
}

/// The same slots on the same nodes, which are those of a Redis Cluster.
pub(crate) fn cluster() -> Topology {
    let shards = nodes().into_iter().zip(slot_ranges(SHARDS as u32)).map(|(node, slots)| ShardSpec {
        primary: Some(node),
        slots: vec![slots.start..=slots.end - 1],
        ..ShardSpec::default()
    });
    Topology::of_cluster(None, 1, &shards.collect::<Vec<_>>()).expect("valid")
}

fn nodes() -> Vec<NodeSpec> {
    let nodes: Vec<String> = (0..SHARDS).map(|shard| format!("127.0.0.1:{}", 7000 + shard)).collect();
    parse_nodes(&nodes.join(",")).expect("valid")
}

/// The first `count` of such keys that live on each shard in turn.
fn keys(topology: &Topology, count: usize) -> Vec<String> {
    let mut numbers = 0..;
    let mut key_on = |shard| {
        numbers
            .by_ref()
            .map(|number| format!("key:{number:06}"))
            .find(|key| topology.shard_of(key.as_bytes()) == ShardId(shard))
            .expect("every shard has keys")
    };
    (0..count).map(|at| key_on((at % SHARDS) as u32)).collect()
}

/// A proxy, its nodes and one client.
struct World {
    proxy: Proxy,
    client: ConnId,
    /// The shards of the connections to nodes.
    nodes: Vec<(ConnId, ShardId)>,
    /// The connections to nodes that were sent something, in that order.
    asked: Vec<ConnId>,
    /// Bytes that the client was sent.
    answered_bytes: usize,
}

impl World {
    fn new(topology: Topology) -> World {
        let now = Instant::ZERO;
        let board = Arc::new(Board::new(1));
        let first = keys(&topology, 1).remove(0);
        let mut proxy = Proxy::new(Limits::default(), Settings::default(), Arc::new(topology), board, now);
        proxy.handle_timeouts(now);
        let client = proxy.accept(&Arrival::of("127.0.0.1:50000"), now).expect("not full");
        let (nodes, asked) = (Vec::new(), Vec::with_capacity(SHARDS));
        let mut world = World { proxy, client, nodes, asked, answered_bytes: 0 };
        world.perform();
        for (conn, _) in world.nodes.clone() {
            world.event(Event::Connected { conn });
            world.event(Event::Received { conn, bytes: b"+PONG\r\n" });
        }
        world.show_small_replies(&first);
        world
    }

    /// The client's replies are seen to be small, so that it may have as many requests pending as it likes.
    fn show_small_replies(&mut self, key: &str) {
        let get = request_of(&format!("GET {key}"));
        for _ in 0..REPLIES_BEFORE {
            self.asked.clear();
            self.event(Event::Received { conn: self.client, bytes: &get });
            let conn = self.asked[0];
            self.event(Event::Received { conn, bytes: b"$3\r\nxxx\r\n" });
        }
    }

    /// Tells the proxy what happened and does what it asks for, until it is content.
    fn event(&mut self, event: Event<'_>) {
        self.proxy.handle_event(event, Instant::ZERO);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(action) = self.proxy.poll_action() {
            match action {
                // At first, shards and nodes have the same numbers.
                Action::Connect { conn, node } => self.nodes.push((conn, ShardId(node.0))),
                Action::Send { conn, bytes } => {
                    let taken = bytes.len();
                    match conn == self.client {
                        true => self.answered_bytes += taken,
                        false => self.asked.push(conn),
                    }
                    self.proxy.handle_sent(conn, taken);
                }
                Action::Close { .. } => panic!("nobody did wrong"),
                Action::Pause { .. } | Action::Resume { .. } | Action::Finish { .. } => {}
            }
        }
    }

    fn shard_of(&self, conn: ConnId) -> ShardId {
        let found = self.nodes.iter().find(|(node, _)| *node == conn);
        found.expect("a connection that was asked for").1
    }
}

/// What a client asks at once and what the nodes answer to it.
pub(crate) struct Round {
    world: World,
    request: Vec<u8>,
    /// What the node of each shard answers to all that it was asked.
    answers: [Vec<u8>; SHARDS],
    /// The length of all that the client gets.
    answer_bytes: usize,
}

impl Round {
    /// `count` GETs of 3 bytes each.
    pub(crate) fn get(count: usize) -> Round {
        Round::get_in(topology(), count)
    }

    /// The same with that topology.
    pub(crate) fn get_in(topology: Topology, count: usize) -> Round {
        Round::gets(topology, count, b"$3\r\nxxx\r\n")
    }

    /// `count` GETs of keys that are not there.
    pub(crate) fn miss(count: usize) -> Round {
        Round::gets(topology(), count, b"$-1\r\n")
    }

    fn gets(topology: Topology, count: usize, answer: &[u8]) -> Round {
        let request =
            keys(&topology, count).iter().flat_map(|key| request_of(&format!("GET {key}"))).collect();
        Round::of_single_keys(topology, request, count, answer)
    }

    /// `count` SETs of `len` bytes each.
    pub(crate) fn set(count: usize, len: usize) -> Round {
        Round::set_in(topology(), count, len)
    }

    /// The same with that topology.
    pub(crate) fn set_in(topology: Topology, count: usize, len: usize) -> Round {
        let value = "x".repeat(len);
        let request =
            keys(&topology, count).iter().flat_map(|key| request_of(&format!("SET {key} {value}"))).collect();
        Round::of_single_keys(topology, request, count, b"+OK\r\n")
    }

    /// An MGET of `count` keys, two or more on each shard.
    pub(crate) fn mget(count: usize) -> Round {
        let topology = topology();
        let request = request_of(&format!("MGET {}", keys(&topology, count).join(" ")));
        let array = |values: usize| format!("*{values}\r\n{}", "$3\r\nxxx\r\n".repeat(values)).into_bytes();
        let answers = std::array::from_fn(|shard| array(keys_on(shard, count)));
        Round::new(topology, request, answers, array(count).len())
    }

    /// An MSET of `count` keys, two or more on each shard.
    pub(crate) fn mset(count: usize) -> Round {
        let topology = topology();
        let request = request_of(&format!("MSET {} xxx", keys(&topology, count).join(" xxx ")));
        Round::new(topology, request, std::array::from_fn(|_| b"+OK\r\n".to_vec()), b"+OK\r\n".len())
    }

    fn of_single_keys(topology: Topology, request: Vec<u8>, count: usize, answer: &[u8]) -> Round {
        let answers = std::array::from_fn(|shard| answer.repeat(keys_on(shard, count)));
        Round::new(topology, request, answers, answer.len() * count)
    }

    fn new(topology: Topology, request: Vec<u8>, answers: [Vec<u8>; SHARDS], answer_bytes: usize) -> Round {
        let mut round = Round { world: World::new(topology), request, answers, answer_bytes };
        for _ in 0..ROUNDS_BEFORE {
            round = round.asked();
            round.answer();
            round.assert_answered();
        }
        round.begin();
        round
    }

    /// Forgets the round before.
    fn begin(&mut self) {
        self.world.asked.clear();
        self.world.answered_bytes = 0;
    }

    /// The client has asked, and no node has answered.
    pub(crate) fn asked(mut self) -> Round {
        self.begin();
        self.ask();
        self
    }

    /// The client asks.
    pub(crate) fn ask(&mut self) {
        self.world.event(Event::Received { conn: self.world.client, bytes: &self.request });
    }

    /// The nodes answer in the order in which they were asked.
    pub(crate) fn answer(&mut self) {
        for at in 0..self.world.asked.len() {
            self.answer_of(at);
        }
    }

    /// The nodes answer in the opposite order.
    pub(crate) fn answer_backwards(&mut self) {
        for at in (0..self.world.asked.len()).rev() {
            self.answer_of(at);
        }
    }

    fn answer_of(&mut self, at: usize) {
        let conn = self.world.asked[at];
        let shard = self.world.shard_of(conn);
        self.world.event(Event::Received { conn, bytes: &self.answers[shard.0 as usize] });
    }

    /// The client got all that it asked for.
    pub(crate) fn assert_answered(&self) {
        assert_eq!(self.world.answered_bytes, self.answer_bytes, "the client has its replies");
    }

    /// Each node was asked.
    pub(crate) fn assert_split(&self) {
        assert_eq!(self.world.asked.len(), SHARDS, "each node has its fragment");
    }
}

/// How many of the first `count` [`keys`] live on `shard`.
fn keys_on(shard: usize, count: usize) -> usize {
    (count + SHARDS - 1 - shard) / SHARDS
}
