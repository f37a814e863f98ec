//! A client and its connection to a node, from the choice of the node to the end of both.
//!
//! ```text
//!     accepted ──► connecting ──► open ──────────────────────────────► closed, when both sides have ended,
//!                   ▲      │       │ the node is lost             ▲            the client is lost,
//!                   └──────┘       └──► parting: what the node ───┘            or nothing moved for too long
//!      the next node, each once         has said goes out
//! ```

use crate::core::{Action, Core, Notice, Side};
use crate::nodes::Nodes;
use std::net::SocketAddr;
use std::time::Duration;
use stdx::{BufferPool, ByteQueue, Id, Instant};

/// The name of no connection.
const NOBODY: Id = Id { index: u32::MAX, generation: 0 };
/// Time for a client to close after its node is gone. If shardis closed at once and the client had sent more, TCP would
/// reset the connection, and the client would lose the node's last bytes.
const PART_TIMEOUT: Duration = Duration::from_secs(5);

/// One client with its connection to a node.
#[derive(Debug)]
pub(crate) struct Pair {
    source: SocketAddr,
    client: Id,
    /// The connection to the node.
    node_conn: Id,
    node: usize,
    state: State,
    /// From the client to the node.
    up: Way,
    /// From the node to the client.
    down: Way,
    /// When something was last read or written.
    active_at: Instant,
    /// Its entry among the deadlines.
    deadline: Instant,
}

#[derive(Debug)]
enum State {
    /// The pair connects to `node`; earlier ones refused.
    Connecting {
        tried: Vec<usize>,
    },
    Open,
    /// The node is lost: its bytes are under way, and the client's bytes are dropped.
    Parting,
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    /// Bytes that the target did not take. Their source is not read from meanwhile.
    waiting: ByteQueue,
    /// The source will send no more.
    ended: bool,
    /// The end was passed on to the target.
    finished: bool,
    /// There is no target any more.
    dropped: bool,
}

impl Core {
    /// Accepts a client that comes from `source` and chooses a node for it, which gets `header` first. Returns an id for the
    /// client's connection.
    pub fn accept(&mut self, source: SocketAddr, header: &[u8], nodes: &mut Nodes, now: Instant) -> Id {
        let mut up = Way::default();
        up.waiting.push(header, &mut self.pool);
        let pair = self.pairs.insert(Pair {
            source,
            client: NOBODY,
            node_conn: NOBODY,
            node: 0,
            state: State::Connecting { tried: Vec::new() },
            up,
            down: Way::default(),
            active_at: now,
            deadline: Instant::NEVER,
        });
        let client = self.conns.insert(Side::Client(pair));
        if let Some(entry) = self.pairs.get_mut(pair) {
            entry.client = client;
        }
        // Its bytes wait in its socket until there is a node for them.
        self.actions.push_back(Action::Pause { conn: client });
        self.try_next(pair, "no node is configured", nodes, now);
        client
    }

    /// Connects to the next node, or ends the pair.
    fn try_next(&mut self, pair: Id, reason: &str, nodes: &mut Nodes, now: Instant) {
        let Some(entry) = self.pairs.get_mut(pair) else { return };
        let State::Connecting { tried } = &entry.state else { return };
        let Some(node) = nodes.choose(entry.source.ip(), tried, now) else {
            let client = entry.source.to_string();
            self.notices.push_back(Notice::NoNode { client, reason: reason.to_owned() });
            return self.remove(pair);
        };
        let conn = self.conns.insert(Side::Node(pair));
        (entry.node, entry.node_conn) = (node, conn);
        self.actions.push_back(Action::Connect { conn, node });
        self.set_deadline(pair, now + self.limits.connect_timeout);
    }

    /// The node is connected: the client's bytes go to it from now on.
    pub fn open(&mut self, pair: Id, nodes: &mut Nodes, now: Instant) {
        let Some(entry) = self.pairs.get_mut(pair) else { return };
        (entry.state, entry.active_at) = (State::Open, now);
        let (client, node_conn, node) = (entry.client, entry.node_conn, entry.node);
        if entry.up.waiting.is_empty() {
            self.actions.push_back(Action::Resume { conn: client });
        } else {
            self.actions.push_back(Action::Send { conn: node_conn });
        }
        let verdict = nodes.note_connected(node);
        self.note(verdict);
        self.set_deadline(pair, self.idle_at(now));
    }

    /// Target of the bytes of `conn`, if they can go at once; else [`Core::keep`] takes them.
    pub fn target_of(&mut self, conn: Id, now: Instant) -> Option<Id> {
        let (pair, is_client) = match *self.conns.get(conn)? {
            Side::Client(pair) => (pair, true),
            Side::Node(pair) => (pair, false),
            Side::Probe(_) => return None,
        };
        let pair = self.pairs.get_mut(pair)?;
        pair.active_at = now;
        let (way, target) = if is_client { (&pair.up, pair.node_conn) } else { (&pair.down, pair.client) };
        (matches!(pair.state, State::Open) && way.waiting.is_empty()).then_some(target)
    }

    /// Keeps bytes of `conn` that its target did not take; `conn` is not read from until it takes them.
    pub fn keep(&mut self, conn: Id, bytes: &[u8], nodes: &mut Nodes, now: Instant) {
        let Some(&side) = self.conns.get(conn) else { return };
        if let Side::Probe(node) = side {
            return self.judge_probe(node, bytes, nodes, now);
        }
        if let Some((_, way, pool)) = self.way_from(side).filter(|(_, way, _)| !way.dropped) {
            way.waiting.push(bytes, pool);
            self.actions.push_back(Action::Pause { conn });
        }
    }

    /// The way that begins at `side`, and its target.
    fn way_from(&mut self, side: Side) -> Option<(Id, &mut Way, &mut BufferPool)> {
        match side {
            Side::Client(pair) => {
                self.pairs.get_mut(pair).map(|pair| (pair.node_conn, &mut pair.up, &mut self.pool))
            }
            Side::Node(pair) => {
                self.pairs.get_mut(pair).map(|pair| (pair.client, &mut pair.down, &mut self.pool))
            }
            Side::Probe(_) => None,
        }
    }

    /// `conn` takes bytes again.
    pub fn handle_writable(&mut self, conn: Id) {
        // A probe asks once, over a socket that takes all of its question.
        let is_probe = matches!(self.conns.get(conn), Some(Side::Probe(_)));
        if !is_probe && !self.waiting(conn).is_empty() {
            self.actions.push_back(Action::Send { conn });
        }
    }

    /// Bytes that wait for `conn` to take them.
    pub fn waiting(&self, conn: Id) -> &[u8] {
        let way = match self.conns.get(conn) {
            Some(&Side::Client(pair)) => self.pairs.get(pair).map(|pair| &pair.down),
            Some(&Side::Node(pair)) => self.pairs.get(pair).map(|pair| &pair.up),
            Some(&Side::Probe(node)) => return self.question(node),
            None => None,
        };
        way.map_or(&[], |way| way.waiting.as_slice())
    }

    /// `conn` took `sent` of the bytes that waited for it.
    pub fn handle_sent(&mut self, conn: Id, sent: usize, nodes: &mut Nodes, now: Instant) {
        let (pair, from) = match self.conns.get(conn) {
            Some(&Side::Client(pair)) => (pair, Side::Node(pair)),
            Some(&Side::Node(pair)) => (pair, Side::Client(pair)),
            Some(Side::Probe(_)) | None => return,
        };
        let Some(entry) = self.pairs.get_mut(pair) else { return };
        entry.active_at = now;
        let (way, source) = match from {
            Side::Client(_) => (&mut entry.up, entry.client),
            _ => (&mut entry.down, entry.node_conn),
        };
        way.waiting.consume(sent, &mut self.pool);
        if !way.waiting.is_empty() {
            return;
        }
        if way.ended {
            self.finish_way(from, nodes);
        } else {
            self.actions.push_back(Action::Resume { conn: source });
        }
    }

    /// Half-close: the sender at `side` has ended. Its target gets the end behind the waiting bytes.
    pub fn end_way(&mut self, side: Side, nodes: &mut Nodes) {
        let Some((_, way, _)) = self.way_from(side) else { return };
        way.ended = true;
        if way.waiting.is_empty() {
            self.finish_way(side, nodes);
        }
    }

    fn finish_way(&mut self, side: Side, nodes: &mut Nodes) {
        let Some((target, way, _)) = self.way_from(side) else { return };
        way.finished = true;
        let (Side::Client(pair) | Side::Node(pair)) = side else { return };
        let Some(entry) = self.pairs.get(pair) else { return };
        if entry.up.finished && entry.down.finished {
            self.part(pair, nodes);
        } else {
            self.actions.push_back(Action::Finish { conn: target });
        }
    }

    /// The client is gone: the node's bytes have no reader.
    pub fn lose_client(&mut self, pair: Id, nodes: &mut Nodes) {
        self.part(pair, nodes);
    }

    /// The connection to the node is gone, or never was.
    pub fn lose_node(&mut self, pair: Id, reason: &str, nodes: &mut Nodes, now: Instant) {
        let Some(entry) = self.pairs.get_mut(pair) else { return };
        match &mut entry.state {
            State::Connecting { tried } => {
                tried.push(entry.node);
                let node = entry.node;
                nodes.release(node);
                let verdict = nodes.note_failed(node, reason, now);
                self.note(verdict);
                self.try_next(pair, reason, nodes, now);
            }
            State::Open | State::Parting => {
                entry.state = State::Parting;
                let (client, up) = (entry.client, &mut entry.up);
                (up.dropped, up.finished) = (true, up.ended);
                up.waiting.clear(&mut self.pool);
                self.actions.push_back(Action::Resume { conn: client });
                self.set_deadline(pair, now + PART_TIMEOUT);
                self.end_way(Side::Node(pair), nodes);
            }
        }
    }

    pub(crate) fn handle_pair_timeout(&mut self, pair: Id, nodes: &mut Nodes, now: Instant) {
        let idle_at = self.pairs.get(pair).map_or(now, |pair| self.idle_at(pair.active_at));
        let Some(entry) = self.pairs.get_mut(pair) else { return };
        entry.deadline = Instant::NEVER;
        match entry.state {
            State::Connecting { .. } => {
                let node_conn = entry.node_conn;
                self.close(node_conn);
                self.lose_node(pair, "no connection in time", nodes, now);
            }
            State::Parting => self.part(pair, nodes),
            State::Open if idle_at <= now => {
                let client = entry.source.to_string();
                self.notices.push_back(Notice::Idle { client });
                self.part(pair, nodes);
            }
            State::Open => self.set_deadline(pair, idle_at),
        }
    }

    /// Deadline of an idle pair whose last byte moved at `active_at`.
    fn idle_at(&self, active_at: Instant) -> Instant {
        match self.limits.idle_timeout {
            timeout if timeout.is_zero() => Instant::NEVER,
            timeout => active_at + timeout,
        }
    }

    fn set_deadline(&mut self, id: Id, deadline: Instant) {
        let Some(pair) = self.pairs.get_mut(id) else { return };
        let before = std::mem::replace(&mut pair.deadline, deadline);
        if before != Instant::NEVER {
            self.deadlines.remove(&(before, id));
        }
        if deadline != Instant::NEVER {
            self.deadlines.insert((deadline, id));
        }
    }

    /// Closes both connections of a pair that has a node.
    fn part(&mut self, pair: Id, nodes: &mut Nodes) {
        if let Some(entry) = self.pairs.get(pair) {
            nodes.release(entry.node);
        }
        self.remove(pair);
    }

    fn remove(&mut self, pair: Id) {
        self.set_deadline(pair, Instant::NEVER);
        let Some(mut entry) = self.pairs.remove(pair) else { return };
        entry.up.waiting.clear(&mut self.pool);
        entry.down.waiting.clear(&mut self.pool);
        self.gone += 1;
        self.close(entry.client);
        self.close(entry.node_conn);
    }
}
