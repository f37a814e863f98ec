//! A proxy over connected nodes, one client, and their bytes. Nothing here allocates or copies between the events, so
//! the count is that of the proxy.

use std::sync::Arc;

use proxy::{Action, Arrival, Board, ConnId, Event, Limits, Proxy, Settings};
use resp::encode;
use stdx::Instant;
use topology::{
    Distribution, NodeSpec, ShardId, ShardSpec, Topology, TopologySpec, parse_nodes, slot_ranges,
};

/// The number of nodes, as in `bench/compare.py`.
const SHARDS: usize = 4;

/// Rounds before the counted one. By then buffers have grown, and ring buffers have wrapped around.
const ROUNDS_BEFORE: usize = 3;
/// Small replies that a client gets before the counted round.
const REPLIES_BEFORE: usize = 40;

/// The request of the blank-separated `words`.
pub(crate) fn request_of(words: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    encode::request(&mut bytes, &words);
    bytes
}

/// A topology with default settings.
pub(crate) fn topology() -> Topology {
    plain(Distribution::default())
}

/// A topology like [`topology`], with the slots of a Redis Cluster over plain nodes.
pub(crate) fn by_slots() -> Topology {
    plain(Distribution::Slots)
}

fn plain(distribution: Distribution) -> Topology {
    Topology::new(1, &TopologySpec { nodes: nodes(), distribution, ..TopologySpec::default() })
        .expect("valid")
}

/// The same slots on the same nodes, as those of a Redis Cluster.
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

/// The first `count` keys of a sequence that goes from shard to shard.
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
    /// The links to nodes, with their shards.
    nodes: Vec<(ConnId, ShardId)>,
    /// The links that got requests, in that order.
    asked: Vec<ConnId>,
    /// The number of bytes that the client got.
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

    /// Gives the client small replies, so that the proxy lets it have any number of requests pending.
    fn show_small_replies(&mut self, key: &str) {
        let get = request_of(&format!("GET {key}"));
        for _ in 0..REPLIES_BEFORE {
            self.asked.clear();
            self.event(Event::Received { conn: self.client, bytes: &get });
            let conn = self.asked[0];
            self.event(Event::Received { conn, bytes: b"$3\r\nxxx\r\n" });
        }
    }

    /// Reports an event to the proxy and carries out its actions, until there are none.
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

/// The requests of a client, sent at once, and the nodes' replies.
pub(crate) struct Round {
    /// Boxed, since a part takes and returns the round. To copy a proxy costs 800 to 8,000 instructions, by its place on the
    /// stack.
    world: Box<World>,
    request: Vec<u8>,
    /// The replies of each shard's node to all its requests.
    answers: [Vec<u8>; SHARDS],
    /// The length of all replies to the client.
    answer_bytes: usize,
    /// The replies of the nodes that the slots have moved to.
    moved: Option<[Vec<u8>; SHARDS]>,
}

impl Round {
    /// `count` GETs of 3 bytes each.
    pub(crate) fn get(count: usize) -> Round {
        Round::get_in(topology(), count)
    }

    /// `count` GETs of 3 bytes each, with that topology.
    pub(crate) fn get_in(topology: Topology, count: usize) -> Round {
        Round::gets(topology, count, b"$3\r\nxxx\r\n")
    }

    /// `count` GETs of missing keys.
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

    /// `count` SETs of `len` bytes each, with that topology.
    pub(crate) fn set_in(topology: Topology, count: usize, len: usize) -> Round {
        let value = "x".repeat(len);
        let request =
            keys(&topology, count).iter().flat_map(|key| request_of(&format!("SET {key} {value}"))).collect();
        Round::of_single_keys(topology, request, count, b"+OK\r\n")
    }

    /// `count` GETs whose slots have all moved, each to the node after that which the topology names.
    pub(crate) fn moved(count: usize) -> Round {
        let mut round = Round::get_in(cluster(), count).asked();
        let topology = cluster();
        let mut errors: [Vec<u8>; SHARDS] = std::array::from_fn(|_| Vec::new());
        let mut replies: [Vec<u8>; SHARDS] = std::array::from_fn(|_| Vec::new());
        for key in keys(&topology, count) {
            let (slot, shard) = topology.division_of(key.as_bytes());
            let next = (shard.0 as usize + 1) % SHARDS;
            let error = format!("-MOVED {slot} 127.0.0.1:{}\r\n", 7000 + next);
            errors[shard.0 as usize].extend_from_slice(error.as_bytes());
            replies[next].extend_from_slice(b"$3\r\nxxx\r\n");
        }
        round.moved = Some(replies);
        round.answers = errors;
        round
    }

    /// Sends the errors of nodes that have not the slots, and then the replies of those that have them.
    pub(crate) fn follow(&mut self) {
        let nodes = self.world.nodes.clone();
        for (conn, shard) in &nodes {
            self.world.event(Event::Received { conn: *conn, bytes: &self.answers[shard.0 as usize] });
        }
        let replies = self.moved.take().expect("the slots have moved");
        for (conn, shard) in &nodes {
            self.world.event(Event::Received { conn: *conn, bytes: &replies[shard.0 as usize] });
        }
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
        let mut round =
            Round { world: Box::new(World::new(topology)), request, answers, answer_bytes, moved: None };
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

    /// The round after the client's requests and before the nodes' replies.
    pub(crate) fn asked(mut self) -> Round {
        self.begin();
        self.ask();
        self
    }

    /// Sends the client's requests.
    pub(crate) fn ask(&mut self) {
        self.world.event(Event::Received { conn: self.world.client, bytes: &self.request });
    }

    /// Sends the nodes' replies, in the order of the requests.
    pub(crate) fn answer(&mut self) {
        for at in 0..self.world.asked.len() {
            self.answer_of(at);
        }
    }

    /// Sends the nodes' replies in the opposite order.
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

    /// Checks that the client got all replies.
    pub(crate) fn assert_answered(&self) {
        assert_eq!(self.world.answered_bytes, self.answer_bytes, "the client has its replies");
    }

    /// Checks that each node got a request.
    pub(crate) fn assert_split(&self) {
        assert_eq!(self.world.asked.len(), SHARDS, "each node has its fragment");
    }
}

/// The number of keys on `shard` among the first `count` [`keys`].
fn keys_on(shard: usize, count: usize) -> usize {
    (count + SHARDS - 1 - shard) / SHARDS
}
