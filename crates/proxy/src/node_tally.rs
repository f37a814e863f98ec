//! Counts of a worker for each node, and the view of its nodes that a worker publishes.

use crate::context::Context;
use crate::features::Link;
use crate::latency::{Latency, Time};
use crate::link::node_memory::NodeMemory;
use crate::link::{State, Use};
use crate::reading::Readers;
use crate::sampling::whole::WholeTimes;
use engine::link::Traffic;
use std::sync::Arc;
use topology::{NodeId, Topology};

/// Counts of one node.
#[derive(Clone, Debug, Default)]
pub struct NodeCounts {
    /// Replies that were errors.
    pub errors: u64,
    /// Bytes that came from the node.
    pub bytes_in: u64,
    /// Bytes that the node took.
    pub bytes_out: u64,
    /// Writes that gave the node bytes, with those that it took none of.
    pub writes: u64,
    /// Connections that were opened.
    pub connects: u64,
    /// Connections that were lost or could not be opened.
    pub failures: u64,
    /// Slow starts that began.
    pub slow_starts: u64,
    /// Times from queueing to reply, for each reply, with those to requests of shardis itself. Replies that are passed
    /// on while they come count at their first byte.
    pub times: Latency,
    /// Whole times of sampled requests that were first sent to the node; `None` before the first.
    pub whole: Option<Box<WholeTimes>>,
}

impl NodeCounts {
    fn add(&mut self, other: &NodeCounts) {
        self.errors += other.errors;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.writes += other.writes;
        self.connects += other.connects;
        self.failures += other.failures;
        self.slow_starts += other.slow_starts;
        self.times.add(&other.times);
        if let Some(whole) = &other.whole {
            self.whole.get_or_insert_default().add(whole);
        }
    }
}

/// One worker's counts of all nodes, by [`NodeId`].
#[derive(Debug, Default)]
pub(crate) struct NodeTally {
    rows: Vec<NodeCounts>,
}

impl NodeTally {
    /// The counts of `node`.
    #[inline]
    pub(crate) fn row(&mut self, node: NodeId) -> &mut NodeCounts {
        let index = node.0 as usize;
        if index >= self.rows.len() {
            self.grow(index);
        }
        &mut self.rows[index]
    }

    /// Counts the bytes that went over `link` since the last call.
    pub(crate) fn take_traffic(&mut self, link: &mut Link) {
        let Traffic { bytes_in, bytes_out, writes } = std::mem::take(&mut link.traffic);
        let row = self.row(link.node);
        row.bytes_in += bytes_in;
        row.bytes_out += bytes_out;
        row.writes += writes;
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.rows.resize_with(index + 1, NodeCounts::default);
    }

    /// Counts a reply of `node` that came at `now_us` to a request that was queued at `queued_us`.
    #[inline]
    pub(crate) fn count_reply(&mut self, node: NodeId, queued_us: u32, now_us: u32, reply: &[u8]) {
        self.count_times(node, Time::between(queued_us, now_us), 1);
        self.row(node).errors += u64::from(resp::reply::is_error(reply));
    }

    /// Counts `times` replies of `node` that came this `time` after their requests were queued.
    #[inline(always)]
    pub(crate) fn count_times(&mut self, node: NodeId, time: Time, times: u64) {
        self.row(node).times.count(time, times);
    }
}

/// Whether a node takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// No: there is no connection.
    Down,
    /// Not yet: a connection is being made.
    Connecting,
    /// Yes.
    Up,
}

impl NodeState {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Down => "down",
            NodeState::Connecting => "connecting",
            NodeState::Up => "up",
        }
    }

    fn of(link: &Link) -> NodeState {
        match link.state {
            State::Ready { .. } => NodeState::Up,
            State::Connecting { .. } | State::Probing { .. } => NodeState::Connecting,
            State::Waiting { .. } => NodeState::Down,
        }
    }
}

/// One node as its workers see it: levels, and counts since the process began.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// Host and port.
    pub address: String,
    /// The name of its shard.
    pub shard: String,
    /// Whether it is the shard's primary.
    pub is_primary: bool,
    /// By the shared connection: the worst of all workers. `None` without such a connection.
    pub state: Option<NodeState>,
    /// Why the last attempt to connect failed; empty if it is up.
    pub reason: String,
    /// Connections of all uses.
    pub links: usize,
    /// Requests that wait for their replies.
    pub in_flight: usize,
    /// Bytes that wait to be sent.
    pub queued_bytes: usize,
    /// Bytes of the replication stream that a replica lacks, by the last reports; `None` if unknown. The largest of
    /// all workers.
    pub lag_bytes: Option<u64>,
    /// Whether a worker gives the node only a part of its requests, since it was lost and is back.
    pub starts_slowly: bool,
    /// Its own memory, by its last answer; `None` if unknown.
    pub memory: Option<NodeMemory>,
    /// Sums since the process began.
    pub counts: NodeCounts,
}

impl NodeReport {
    fn of(topology: &Topology, id: NodeId, counts: NodeCounts) -> Option<NodeReport> {
        let node = topology.node(id);
        let shard = topology.shard(node.shard?);
        Some(NodeReport {
            address: node.address.to_string(),
            shard: shard.name.clone(),
            is_primary: shard.primary == Some(id),
            state: None,
            reason: String::new(),
            links: 0,
            in_flight: 0,
            queued_bytes: 0,
            lag_bytes: None,
            starts_slowly: false,
            memory: None,
            counts,
        })
    }

    fn note_link(&mut self, link: &Link) {
        self.links += usize::from(link.conn().is_some());
        self.in_flight += link.in_flight();
        self.queued_bytes += link.queued_bytes();
        if link.stands_for_node() || (!self.is_primary && link.used_by == Use::Replica) {
            let state = NodeState::of(link);
            self.state = Some(state);
            if state != NodeState::Up {
                self.reason.clone_from(&link.attempts.reason);
            }
        }
    }

    /// Adds another worker's view of the same node.
    fn add(&mut self, other: &NodeReport) {
        self.state = self.state.into_iter().chain(other.state).min();
        if self.reason.is_empty() {
            self.reason.clone_from(&other.reason);
        }
        self.links += other.links;
        self.in_flight += other.in_flight;
        self.queued_bytes += other.queued_bytes;
        self.lag_bytes = self.lag_bytes.max(other.lag_bytes);
        self.starts_slowly |= other.starts_slowly;
        self.memory = self.memory.or(other.memory);
        self.counts.add(&other.counts);
    }
}

/// One worker's view of the topology and its nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeReports {
    /// The topology by which the worker goes; `None` before its first second.
    pub topology: Option<Arc<Topology>>,
    /// The nodes of this topology.
    pub nodes: Vec<NodeReport>,
}

impl NodeReports {
    fn epoch(&self) -> Option<u64> {
        self.topology.as_ref().map(|topology| topology.epoch())
    }
}

/// This worker's view of all nodes.
pub(crate) fn report(cx: &mut Context, readers: &Readers) -> NodeReports {
    let topology = Arc::clone(&cx.engine.topology);
    let ids = (0..topology.nodes().len() as u32).map(NodeId);
    let (rows, mut nodes) = (&mut cx.stats.nodes, Vec::new());
    cx.engine.links.iter_mut().for_each(|link| rows.take_traffic(link));
    for id in ids {
        nodes.push(NodeReport::of(&topology, id, rows.row(id).clone()));
    }
    for link in cx.engine.links.iter() {
        if let Some(Some(node)) = nodes.get_mut(link.node.0 as usize) {
            node.note_link(link);
        }
    }
    for (id, node) in (0..).map(NodeId).zip(&mut nodes) {
        let up = node.iter_mut().filter(|node| node.state == Some(NodeState::Up));
        up.for_each(|node| node.memory = cx.node_health.memories.of(id, cx.engine.now));
    }
    for (id, seen) in readers.seen(cx.limits.slow_start, cx.engine.now) {
        if let Some(Some(node)) = nodes.get_mut(id.0 as usize) {
            (node.lag_bytes, node.starts_slowly) = (seen.lag_bytes, seen.starts_slowly);
        }
    }
    for back in topology.returning() {
        let primary = topology.shard(back.shard).primary;
        if let Some(Some(node)) = primary.and_then(|id| nodes.get_mut(id.0 as usize)) {
            node.starts_slowly = true;
        }
    }
    NodeReports { topology: Some(topology), nodes: nodes.into_iter().flatten().collect() }
}

/// The views of all workers as one: the nodes of the newest topology.
pub(crate) fn combine<'a>(views: impl Iterator<Item = &'a NodeReports>) -> NodeReports {
    let mut views: Vec<&NodeReports> = views.collect();
    views.sort_by_key(|view| std::cmp::Reverse(view.epoch()));
    let Some((newest, others)) = views.split_first() else { return NodeReports::default() };
    let mut sum = (*newest).clone();
    for other in others.iter().flat_map(|view| &view.nodes) {
        if let Some(node) = sum.nodes.iter_mut().find(|node| node.address == other.address) {
            node.add(other);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, deliver_mail};
    use std::time::Duration;

    #[test]
    fn the_board_has_the_sums_of_all_workers_for_each_node() {
        let mut rigs = Rig::workers(2, 2);
        for rig in &mut rigs {
            let (client, key) = (rig.client(), rig.key(1));
            rig.client_sends(client, &format!("get {key}|"));
            rig.pass(Duration::from_millis(3));
            rig.node_sends(1, "-ERR no|");
            rig.pass(Duration::from_secs(2));
        }
        deliver_mail(&mut rigs);
        let nodes = rigs[0].proxy.core.cx.board.page().nodes.nodes;
        let [idle, busy] = &nodes[..] else { panic!("two nodes: {nodes:?}") };
        assert_eq!((idle.counts.errors, idle.state, idle.links), (0, Some(NodeState::Up), 2));
        assert_eq!((busy.counts.errors, busy.is_primary), (2, true));
        assert!(busy.counts.times.sum_us() >= 6000, "{:?}", busy.counts.times.sum_us());
        assert_eq!(busy.counts.bytes_in - idle.counts.bytes_in, 2 * 9);
    }

    #[test]
    fn a_write_takes_all_requests_of_a_turn() {
        let mut rig = Rig::ready(1);
        let client = rig.client();
        let counts = |rig: &mut Rig| {
            rig.proxy.core.publish();
            let nodes = rig.proxy.core.cx.board.page().nodes.nodes;
            (nodes[0].counts.writes, nodes[0].counts.connects)
        };
        let (writes, connects) = counts(&mut rig);
        assert_eq!(connects, 1);
        rig.client_sends(client, "get a|get b|get c|");
        assert_eq!(counts(&mut rig), (writes + 1, 1));
        rig.node_sends(0, "$-1|$-1|$-1|");
        rig.client_sends(client, "get a|");
        assert_eq!(counts(&mut rig), (writes + 2, 1));
    }

    #[test]
    fn a_node_is_as_bad_as_its_worst_worker_says() {
        let mut rigs = Rig::workers(2, 2);
        let conn = rigs[1].node(1);
        rigs[1].event(crate::Event::Closed { conn, reason: "connection refused" });
        rigs.iter_mut().for_each(|rig| rig.proxy.core.publish());
        let nodes = rigs[0].proxy.core.cx.board.page().nodes.nodes;
        assert_eq!(nodes[0].state, Some(NodeState::Up));
        assert!(nodes[1].state < Some(NodeState::Up), "{nodes:?}");
        assert_eq!((nodes[1].reason.as_str(), nodes[1].counts.failures), ("connection refused", 1));
    }
}
