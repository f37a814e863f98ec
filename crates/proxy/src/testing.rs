//! A core with hands, which drives the tests of this crate. There is no network and no clock; the test writes the
//! replies of nodes.

use crate::cross_slot::remedy::Remedy;
use crate::link::profile::Profile;
use crate::link::{LinkIx, State};
use crate::peers::Peer;
use crate::{Action, Arrival, Authority, Board, ConnId, Credentials, Event, Limits, Notice, Proxy, Settings};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;
use store::Scratch;
use topology::{NodeSpec, ShardId, ShardSpec, Topology, TopologySpec, parse_nodes};
use users::{Registry, Users};

/// A proxy and all its output.
pub(crate) struct Rig {
    pub proxy: Proxy,
    pub now: Instant,
    /// Bytes sent to each connection that the test has not taken yet.
    sent: BTreeMap<ConnId, Vec<u8>>,
    /// The shared link to each node, once the core asked for it. At first, shards and nodes have the same numbers.
    nodes: BTreeMap<u32, ConnId>,
    /// Further links in the order in which the core asked for them, with their nodes.
    pinned: Vec<(u32, ConnId)>,
    /// Connections that the core closed.
    closed: Vec<ConnId>,
    paused: Vec<ConnId>,
    /// Connections that take no bytes.
    stuck: Vec<ConnId>,
    /// The number of clients so far. Their ports are counted from [`FIRST_PORT`].
    clients: u16,
}

/// The port of the first client.
const FIRST_PORT: u16 = 50_000;
/// The address that all clients connect to.
const LOCAL: &str = "127.0.0.1:6379";

impl Rig {
    /// A rig over `shards` shards, whose nodes have not answered yet. The keys `0`, `1`, … of [`Rig::key`] belong to
    /// these shards.
    pub(crate) fn connecting(shards: usize, limits: Limits) -> Rig {
        Rig::of_worker(shards, limits, Settings::default(), &Arc::new(Board::new(1)))
    }

    fn of_worker(shards: usize, limits: Limits, settings: Settings, board: &Arc<Board>) -> Rig {
        let nodes: Vec<String> = (0..shards).map(|shard| format!("127.0.0.1:{}", 7000 + shard)).collect();
        Rig::over(&nodes.join(","), limits, settings, board)
    }

    /// A rig over the nodes of `list`, none of which has answered yet.
    pub(crate) fn over(list: &str, limits: Limits, settings: Settings, board: &Arc<Board>) -> Rig {
        let nodes = parse_nodes(list).expect("valid");
        let topology = Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid");
        Rig::of_topology(topology, limits, settings, board)
    }

    fn of_topology(topology: Topology, limits: Limits, settings: Settings, board: &Arc<Board>) -> Rig {
        let now = Instant::ZERO;
        let clients = FIRST_PORT + 100 * settings.worker as u16;
        let settings = Settings { evaluator: Some(Scratch::boxed), ..settings };
        let proxy = Proxy::new(limits, settings, Arc::new(topology), Arc::clone(board), now);
        let (sent, nodes) = (BTreeMap::new(), BTreeMap::new());
        let (closed, paused, stuck) = (Vec::new(), Vec::new(), Vec::new());
        let pinned = Vec::new();
        let mut rig = Rig { proxy, now, sent, nodes, pinned, closed, paused, stuck, clients };
        rig.proxy.handle_timeouts(now);
        rig.perform();
        rig
    }

    /// A rig over `shards` shards whose nodes have said PONG.
    pub(crate) fn ready(shards: usize) -> Rig {
        Rig::ready_with(shards, Limits::default())
    }

    pub(crate) fn ready_with(shards: usize, limits: Limits) -> Rig {
        let mut rig = Rig::connecting(shards, limits);
        (0..shards as u32).for_each(|shard| rig.bring_up(shard));
        rig
    }

    /// A rig like [`Rig::ready`], for an operator who may administer the nodes.
    pub(crate) fn ready_for_admin(shards: usize) -> Rig {
        let settings = Settings { allow_admin: true, ..Settings::default() };
        Rig::ready_as(shards, Limits::default(), settings)
    }

    /// A rig like [`Rig::ready`], with other limits and settings.
    pub(crate) fn ready_as(shards: usize, limits: Limits, settings: Settings) -> Rig {
        let mut rig = Rig::of_worker(shards, limits, settings, &Arc::new(Board::new(1)));
        (0..shards as u32).for_each(|shard| rig.bring_up(shard));
        rig
    }

    /// A rig like [`Rig::ready`], with the users of the ACL file `users`.
    pub(crate) fn ready_with_users(shards: usize, users: &str) -> Rig {
        let settings = Settings { registry: registry(users), ..Settings::default() };
        let mut rig = Rig::of_worker(shards, Limits::default(), settings, &Arc::new(Board::new(1)));
        (0..shards as u32).for_each(|shard| rig.bring_up(shard));
        rig
    }

    /// Rigs like [`Rig::workers`], with the users of the ACL file `users`.
    pub(crate) fn workers_with_users(workers: usize, users: &str) -> (Vec<Rig>, Arc<Registry>) {
        let (board, registry) = (Arc::new(Board::new(workers)), registry(users));
        let settings =
            |worker| Settings { worker, workers, registry: Arc::clone(&registry), ..Settings::default() };
        let of_worker = |worker| Rig::of_worker(1, Limits::default(), settings(worker), &board);
        let mut rigs: Vec<Rig> = (0..workers).map(of_worker).collect();
        rigs.iter_mut().for_each(|rig| rig.bring_up(0));
        (rigs, registry)
    }

    /// A rig over one shard, whose node gets `credentials` and has not answered yet.
    pub(crate) fn connecting_as(credentials: Credentials) -> Rig {
        let settings = Settings { credentials, ..Settings::default() };
        Rig::of_worker(1, Limits::default(), settings, &Arc::new(Board::new(1)))
    }

    /// A rig over `shards` shards, whose nodes authenticate the clients. The nodes get `credentials` and have not
    /// answered yet.
    pub(crate) fn passing(shards: usize, limits: Limits, credentials: Credentials) -> Rig {
        let settings = Settings { authority: Authority::Nodes, credentials, ..Settings::default() };
        Rig::of_worker(shards, limits, settings, &Arc::new(Board::new(1)))
    }

    /// All links that the core asked for and that still exist, with their nodes.
    pub(crate) fn conns(&self) -> Vec<(u32, ConnId)> {
        let shared = self.nodes.iter().map(|(node, conn)| (*node, *conn));
        shared.chain(self.pinned.iter().copied()).filter(|(_, conn)| !self.closed.contains(conn)).collect()
    }

    /// `workers` workers of one process over `shards` shards, whose nodes have said PONG to all of them.
    pub(crate) fn workers(workers: usize, shards: usize) -> Vec<Rig> {
        let board = Arc::new(Board::new(workers));
        let settings = |worker| Settings { worker, workers, ..Settings::default() };
        let mut rigs: Vec<Rig> = (0..workers)
            .map(|worker| Rig::of_worker(shards, Limits::default(), settings(worker), &board))
            .collect();
        rigs.iter_mut().for_each(|rig| (0..shards as u32).for_each(|shard| rig.bring_up(shard)));
        rigs
    }

    /// A rig over a cluster of `shards` shards, whose nodes have said PONG. Slots are divided evenly; the nodes
    /// listen at ports 7000, 7001, …
    pub(crate) fn cluster(shards: usize) -> Rig {
        Rig::cluster_as(shards, Settings::default())
    }

    pub(crate) fn cluster_as(shards: usize, settings: Settings) -> Rig {
        let board = Arc::new(Board::new(1));
        let mut rig = Rig::of_topology(cluster(None, 1, &even(shards)), Limits::default(), settings, &board);
        (0..shards as u32).for_each(|shard| rig.bring_up(shard));
        rig
    }

    /// Replaces the cluster's map. A primary is given by the offset of its port from 7000, and by its slots.
    pub(crate) fn remap(&mut self, primaries: &[(u32, Vec<RangeInclusive<u16>>)]) {
        let present = &self.proxy.core.cx.engine.topology;
        self.adopt(cluster(Some(present), present.epoch() + 1, primaries));
    }

    /// Connects the link to the node of `shard`; the node says PONG.
    pub(crate) fn bring_up(&mut self, shard: u32) {
        let conn = self.nodes[&shard];
        self.event(Event::Connected { conn });
        assert_eq!(self.taken(conn), "*1|$4|PING|");
        self.event(Event::Received { conn, bytes: b"+PONG\r\n" });
        self.show_role(conn);
    }

    /// Says that the node at the other end of `conn` is a primary, if the core asked.
    fn show_role(&mut self, conn: ConnId) {
        if self.sent.get(&conn).is_some_and(|sent| sent == b"*1\r\n$4\r\nROLE\r\n") {
            self.sent.remove(&conn);
            self.sends(conn, "*3|$6|master|:0|*0|");
        }
    }

    /// Connects the newest link beside the shared ones, which goes to `shard`; the node says PONG.
    pub(crate) fn bring_up_pinned(&mut self, shard: u32) -> ConnId {
        self.bring_up_greeted(shard, "*1|$4|PING|", "+PONG|")
    }

    /// Connects a link like [`Rig::bring_up_pinned`]. The link begins with `greeting`, which its node answers with
    /// `replies`.
    pub(crate) fn bring_up_greeted(&mut self, shard: u32, greeting: &str, replies: &str) -> ConnId {
        self.pass(Duration::ZERO);
        self.proxy.handle_timeouts(self.now);
        self.perform();
        let of_shard = self.pinned.iter().rfind(|(its_shard, _)| *its_shard == shard);
        let &(_, conn) = of_shard.expect("a connection was asked for");
        self.event(Event::Connected { conn });
        assert_eq!(self.taken(conn), greeting);
        self.sends(conn, replies);
        self.show_role(conn);
        conn
    }

    /// Connects all links beside the shared ones, in the order in which the core asked for them; the nodes say PONG.
    pub(crate) fn bring_up_all_pinned(&mut self) -> Vec<ConnId> {
        self.proxy.handle_timeouts(self.now);
        self.perform();
        let conns: Vec<ConnId> = self.pinned.iter().map(|(_, conn)| *conn).collect();
        for &conn in &conns {
            self.event(Event::Connected { conn });
            assert_eq!(self.taken(conn), "*1|$4|PING|");
            self.sends(conn, "+PONG|");
        }
        conns
    }

    /// The newest link beside the shared ones, if it still exists.
    pub(crate) fn last_pinned(&self) -> Option<ConnId> {
        self.pinned.last().map(|(_, conn)| *conn).filter(|conn| !self.closed.contains(conn))
    }

    /// Whether the core sent bytes to `conn` that the test has not taken.
    pub(crate) fn has_sent(&self, conn: ConnId) -> bool {
        self.sent.get(&conn).is_some_and(|bytes| !bytes.is_empty())
    }

    /// The pinned link that has just got bytes: an existing one, or a new one, which is connected.
    pub(crate) fn pinned_now(&mut self) -> ConnId {
        let used = self.pinned.iter().map(|(_, conn)| *conn).find(|conn| self.has_sent(*conn));
        used.unwrap_or_else(|| {
            let shard = {
                self.proxy.handle_timeouts(self.now);
                self.perform();
                self.pinned.last().expect("a connection was asked for").0
            };
            self.bring_up_pinned(shard)
        })
    }

    /// The link to `shard` that is used instead of `old`.
    pub(crate) fn idle_or_new(&mut self, shard: u32, old: ConnId) -> ConnId {
        let used =
            self.pinned.iter().map(|(_, conn)| *conn).find(|conn| *conn != old && self.has_sent(*conn));
        used.unwrap_or_else(|| self.bring_up_pinned(shard))
    }

    /// Sends `text` from `conn`, a client or a node. In the text, `|` stands for CR LF.
    pub(crate) fn sends(&mut self, conn: ConnId, text: &str) {
        let bytes = text.replace('|', "\r\n");
        self.event(Event::Received { conn, bytes: bytes.as_bytes() });
    }

    /// Lets `conn` take bytes again.
    pub(crate) fn unstick(&mut self, conn: ConnId) {
        self.stuck.retain(|stuck| *stuck != conn);
        self.event(Event::Writable { conn });
    }

    /// A key that belongs to `shard`.
    pub(crate) fn key(&self, shard: u32) -> String {
        let topology = &self.proxy.core.cx.engine.topology;
        (0..)
            .map(|number| format!("k{number}"))
            .find(|key| topology.shard_of(key.as_bytes()) == ShardId(shard))
            .expect("found")
    }

    /// The shard of `key`.
    pub(crate) fn shard_of(&self, key: &str) -> u32 {
        self.proxy.core.cx.engine.topology.shard_of(key.as_bytes()).0
    }

    pub(crate) fn client(&mut self) -> ConnId {
        self.client_at(0)
    }

    /// A client that comes by another listener.
    pub(crate) fn client_at(&mut self, listener: u16) -> ConnId {
        let peer = format!("127.0.0.1:{}", self.clients);
        self.clients += 1;
        let arrival = Arrival { peer: &peer, named_by: "", local: LOCAL, descriptor: 9, listener };
        self.proxy.accept(&arrival, self.now).expect("not full")
    }

    /// Changes the profile of the client.
    pub(crate) fn change_profile(&mut self, conn: ConnId, kind: Profile) {
        let Some(Peer::Client(session)) = self.proxy.peers.get_mut(conn) else { panic!("a client") };
        self.proxy.core.cx.change_profile(session, kind);
    }

    /// Sends `text` from the client. In the text, `|` stands for CR LF.
    pub(crate) fn client_sends(&mut self, conn: ConnId, text: &str) {
        let bytes = text.replace('|', "\r\n");
        self.event(Event::Received { conn, bytes: bytes.as_bytes() });
    }

    /// Makes the node at port 7000 + `node` the primary of `shard`. The former primary may be its replica.
    pub(crate) fn promote(&mut self, shard: u32, node: u32) {
        let present = &self.proxy.core.cx.engine.topology;
        let spec = |node| NodeSpec::tcp("127.0.0.1", 7000 + node as u16);
        let replicas = present.shard(ShardId(shard)).primary.map(|id| spec(id.0)).into_iter().collect();
        let name = present.shard(ShardId(shard)).name.clone();
        let spec = ShardSpec { name, primary: Some(spec(node)), replicas, slots: Vec::new() };
        let next = present.succeed(present.epoch() + 1, &[spec]).expect("valid");
        self.adopt(next);
    }

    /// Replaces the topology.
    pub(crate) fn adopt(&mut self, topology: Topology) {
        self.proxy.handle_topology(Arc::new(topology), self.now);
        self.perform();
        self.proxy.handle_timeouts(self.now);
        self.perform();
    }

    /// Sends `text` from the node of `shard`. In the text, `|` stands for CR LF.
    pub(crate) fn node_sends(&mut self, shard: u32, text: &str) {
        let bytes = text.replace('|', "\r\n");
        let conn = self.nodes[&shard];
        self.event(Event::Received { conn, bytes: bytes.as_bytes() });
    }

    pub(crate) fn event(&mut self, event: Event<'_>) {
        self.proxy.handle_event(event, self.now);
        self.perform();
    }

    /// Lets time pass, and timeouts with it.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.now = self.proxy.poll_deadline().max(self.now).min(until);
            if self.proxy.poll_deadline() <= self.now {
                self.proxy.handle_timeouts(self.now);
                self.perform();
            }
        }
    }

    /// The bytes that `conn` was sent since the last call, with `|` for CR LF.
    pub(crate) fn taken(&mut self, conn: ConnId) -> String {
        String::from_utf8_lossy(&self.taken_bytes(conn)).replace("\r\n", "|")
    }

    /// The bytes that `conn` was sent since the last call, unchanged.
    pub(crate) fn taken_bytes(&mut self, conn: ConnId) -> Vec<u8> {
        self.sent.remove(&conn).unwrap_or_default()
    }

    /// Whether the core asked for a link to the node of `shard` that is not connected yet.
    pub(crate) fn is_connecting(&self, shard: u32) -> bool {
        matches!(self.proxy.core.cx.engine.links[LinkIx::from_u32(shard)].state, State::Connecting { .. })
    }

    /// Whether requests flow to the node of `shard`.
    pub(crate) fn is_up(&self, shard: u32) -> bool {
        self.proxy.core.cx.engine.links[LinkIx::from_u32(shard)].is_ready()
    }

    /// The bytes that the node of `shard` was sent since the last call.
    pub(crate) fn node_got(&mut self, shard: u32) -> String {
        self.taken(self.nodes[&shard])
    }

    /// Whether the core asked for a link to `node`.
    pub(crate) fn is_asked_for(&self, node: u32) -> bool {
        self.nodes.contains_key(&node)
    }

    pub(crate) fn node(&self, shard: u32) -> ConnId {
        self.nodes[&shard]
    }

    pub(crate) fn is_closed(&self, conn: ConnId) -> bool {
        self.closed.contains(&conn)
    }

    pub(crate) fn is_paused(&self, conn: ConnId) -> bool {
        self.paused.contains(&conn)
    }

    /// Lets `conn` take no more bytes.
    pub(crate) fn stick(&mut self, conn: ConnId) {
        self.stuck.push(conn);
    }

    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.proxy.poll_notice()).collect()
    }

    /// Forgets closed connections and the bytes sent over them.
    pub(crate) fn forget_closed(&mut self) {
        self.sent.retain(|conn, _| !self.closed.contains(conn));
        self.pinned.retain(|(_, conn)| !self.closed.contains(conn));
        self.closed.retain(|conn| self.nodes.values().any(|shared| shared == conn));
    }

    /// Takes all output and forgets it, without allocating. Returns the number of bytes for the last connection.
    pub(crate) fn drop_sent(&mut self) -> usize {
        let mut last = 0;
        while let Some(action) = self.proxy.poll_action() {
            if let Action::Send { conn, bytes } = action {
                last = bytes.len();
                self.proxy.handle_sent(conn, last);
            }
        }
        last
    }

    /// Carries out all actions, but takes at most `bytes` of a connection's output at a time.
    pub(crate) fn send_partly(&mut self, bytes: usize) {
        self.perform_with(bytes);
    }

    pub(crate) fn perform(&mut self) {
        self.perform_with(usize::MAX);
    }

    fn perform_with(&mut self, bytes_max: usize) {
        self.perform_turn(bytes_max);
        while self.proxy.has_postponed() {
            self.proxy.resume_postponed(self.now);
            self.perform_turn(bytes_max);
        }
    }

    /// Carries out the actions of one turn.
    fn perform_turn(&mut self, bytes_max: usize) {
        while let Some(action) = self.proxy.poll_action() {
            match action {
                Action::Connect { conn, node } => match self.nodes.get(&node.0) {
                    Some(shared) if !self.closed.contains(shared) => self.pinned.push((node.0, conn)),
                    _ => drop(self.nodes.insert(node.0, conn)),
                },
                Action::Send { conn, bytes } => {
                    let taken = if self.stuck.contains(&conn) { 0 } else { bytes.len().min(bytes_max) };
                    self.sent.entry(conn).or_default().extend_from_slice(&bytes[..taken]);
                    self.proxy.handle_sent(conn, taken);
                }
                Action::Pause { conn } => self.paused.push(conn),
                Action::Resume { conn } => self.paused.retain(|paused| *paused != conn),
                Action::Finish { .. } => {}
                Action::Close { conn } => self.closed.push(conn),
            }
        }
        crate::end_turn(&mut self.proxy, self.now);
        self.proxy.audit().expect("nothing is lost between turns");
    }
}

/// The slots of `shards` shards whose nodes are numbered in order.
pub(crate) fn even(shards: usize) -> Vec<(u32, Vec<RangeInclusive<u16>>)> {
    let ranges = topology::slot_ranges(shards as u32);
    ranges.zip(0..).map(|(range, node)| (node, vec![range.start..=range.end - 1])).collect()
}

fn cluster(before: Option<&Topology>, epoch: u64, primaries: &[(u32, Vec<RangeInclusive<u16>>)]) -> Topology {
    let specs = primaries.iter().map(|(node, slots)| {
        let (name, port) = (format!("s{node}"), 7000 + *node as u16);
        let primary = Some(NodeSpec::tcp("127.0.0.1", port));
        ShardSpec { name, primary, replicas: Vec::new(), slots: slots.clone() }
    });
    Topology::of_cluster(before, epoch, &specs.collect::<Vec<_>>()).expect("valid")
}

/// The users of the ACL file `users`.
pub(crate) fn registry(users: &str) -> Arc<Registry> {
    let users = Users::parse("users.acl", users.as_bytes()).expect("valid");
    Arc::new(Registry::new(users, [7; 32], true))
}

/// Carries the mail between workers until none is left.
pub(crate) fn deliver_mail(rigs: &mut [Rig]) {
    while let Some((worker, mail)) = rigs.iter_mut().find_map(|rig| rig.proxy.poll_mail()) {
        let rig = &mut rigs[worker];
        rig.proxy.handle_mail(mail, rig.now);
        rig.perform();
    }
}

/// The error for keys of several shards.
pub(crate) fn crossed(remedy: Remedy) -> String {
    format!("-{}|", remedy.text(Some("a{tag}, b{tag}")))
}
