//! The state of one worker of `shardis tcp`, and its border: events and time in, actions out. Touches no socket and no
//! clock.
//!
//! ```text
//!     client ══ bytes ══► up ══► node          each way has at most one read's bytes waiting: while there are any, its
//!     client ◄══ down ◄══ bytes ══ node        source is not read from
//! ```
//!
//! Bytes go out from the buffer into which they were read: [`Core::target_of`] names their target. Only bytes that the target
//! did not take are kept here ([`Core::keep`]).

use crate::nodes::{Nodes, Verdict};
use crate::pairs::Pair;
use crate::probes::{Check, Probe};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use stdx::{BufferPool, Id, Instant, Slab};

/// Bounds of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Timeout of a connection to a node, and of a probe's reply.
    pub connect_timeout: Duration,
    /// Idle time after which a client is closed; zero is never.
    pub idle_timeout: Duration,
}

/// Buffers that are kept for the next slow receiver, and how large they may be.
const SPARE_BUFFERS_MAX: usize = 64;

/// An action for the worker. The order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to a node; answered by [`Core::handle_connected`] or [`Core::handle_closed`].
    Connect {
        /// The connection's name.
        conn: Id,
        /// Which of the nodes.
        node: usize,
    },
    /// Send [`Core::waiting`]; report the number of taken bytes to [`Core::handle_sent`] before anything else.
    Send {
        /// Over this connection.
        conn: Id,
    },
    /// Stop reading until `Resume`.
    Pause {
        /// From this connection.
        conn: Id,
    },
    /// Read again.
    Resume {
        /// From this connection.
        conn: Id,
    },
    /// Tell the other side that no more will come.
    Finish {
        /// Of this connection.
        conn: Id,
    },
    /// Forget the connection. It must cause no further event.
    Close {
        /// This connection.
        conn: Id,
    },
}

/// For the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A node has changed.
    Node(Verdict),
    /// No node took this client.
    NoNode {
        /// Its address.
        client: String,
        /// Why the last node did not.
        reason: String,
    },
    /// The client had no PROXY header.
    Refused {
        /// Its address.
        client: String,
        /// The fault of its header.
        reason: String,
    },
    /// Nothing moved for too long.
    Idle {
        /// Its address.
        client: String,
    },
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client's of a pair.
    Client(Id),
    /// The node's of a pair.
    Node(Id),
    /// The connection of a node's probe.
    Probe(usize),
}

/// One worker's clients, each with its connection to a node.
#[derive(Debug)]
pub struct Core {
    pub(crate) limits: Limits,
    pub(crate) pairs: Slab<Pair>,
    pub(crate) conns: Slab<Side>,
    pub(crate) pool: BufferPool,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) notices: VecDeque<Notice>,
    /// Deadlines with their pairs: one entry for each pair that has a deadline.
    pub(crate) deadlines: BTreeSet<(Instant, Id)>,
    /// Empty where another worker looks after nodes.
    pub(crate) probes: Vec<Probe>,
    pub(crate) check: Check,
    /// Pairs that there were.
    pub(crate) gone: usize,
}

impl Core {
    /// Without clients. `reads_max` is what one read brings at most.
    pub fn new(limits: Limits, reads_max: usize) -> Core {
        Core {
            limits,
            pairs: Slab::default(),
            conns: Slab::default(),
            pool: BufferPool::new(SPARE_BUFFERS_MAX, reads_max),
            actions: VecDeque::new(),
            notices: VecDeque::new(),
            deadlines: BTreeSet::new(),
            probes: Vec::new(),
            check: Check::default(),
            gone: 0,
        }
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Notices for the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Clients that have left.
    pub fn clients_gone(&self) -> usize {
        self.gone
    }

    /// Whether a client is left.
    pub fn has_clients(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// The longest time to connect to a node.
    pub fn connect_timeout(&self) -> Duration {
        self.limits.connect_timeout
    }

    /// When [`Core::handle_timeouts`] has something to do.
    pub fn poll_deadline(&self) -> Instant {
        let pair = self.deadlines.first().map_or(Instant::NEVER, |(at, _)| *at);
        self.probes.iter().map(Probe::deadline).fold(pair, Instant::min)
    }

    /// A connection that was asked for is there.
    pub fn handle_connected(&mut self, conn: Id, nodes: &mut Nodes, now: Instant) {
        match self.conns.get(conn) {
            Some(&Side::Node(pair)) => self.open(pair, nodes, now),
            Some(&Side::Probe(node)) => self.advance_probe(node, nodes, now),
            Some(Side::Client(_)) | None => {}
        }
    }

    /// The other side of `conn` will send no more.
    pub fn handle_ended(&mut self, conn: Id, nodes: &mut Nodes, now: Instant) {
        match self.conns.get(conn) {
            Some(&side @ (Side::Client(_) | Side::Node(_))) => self.end_way(side, nodes),
            Some(&Side::Probe(node)) => {
                self.end_probe(node, Err("the node closed the probe's connection"), nodes, now)
            }
            None => {}
        }
    }

    /// `conn` is gone, and forgotten below.
    pub fn handle_closed(&mut self, conn: Id, reason: &str, nodes: &mut Nodes, now: Instant) {
        match self.conns.remove(conn) {
            Some(Side::Client(pair)) => self.lose_client(pair, nodes),
            Some(Side::Node(pair)) => self.lose_node(pair, reason, nodes, now),
            Some(Side::Probe(node)) => self.lose_probe(node, reason, nodes, now),
            None => {}
        }
    }

    /// Does what it is time for.
    pub fn handle_timeouts(&mut self, nodes: &mut Nodes, now: Instant) {
        while let Some(&(at, pair)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            self.handle_pair_timeout(pair, nodes, now);
        }
        self.handle_probe_timeouts(nodes, now);
    }

    /// Closes a connection of our own accord.
    pub fn close(&mut self, conn: Id) {
        if self.conns.remove(conn).is_some() {
            self.actions.push_back(Action::Close { conn });
        }
    }

    pub(crate) fn note(&mut self, verdict: Option<Verdict>) {
        self.notices.extend(verdict.map(Notice::Node));
    }
}
