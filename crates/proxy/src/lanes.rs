//! Lanes: clients that have chosen another database, or RESP3, share connections of their own.
//!
//! A lane is the shared connections, one to each shard, for one database and one version of the protocol: what a node
//! remembers of a connection is the same for all who use it. Lane 0 (database 0, RESP2) is there from the start. The
//! connections of any other are made when the first request needs them, and closed when no client has been in the lane
//! for a while.
//!
//! ```text
//!   session ─ lane 0 ──────────────────► backend of the shard
//!           └ SELECT 3 ─► lane 5 ─ first request ─► greeting: SELECT 3, PING ─► a backend more
//! ```
//!
//! SELECT costs no round trip: it is answered here. But what follows it takes another connection than what went before,
//! so it is held back until all of that was answered ([`Session::turn`]): nothing of one client overtakes.

use crate::backend::{Backend, Use};
use crate::core::Core;
use crate::credentials::Credentials;
use crate::errors::{self, Lost};
use crate::event::Notice;
use crate::limits::Limits;
use crate::session::Session;
use command::Naming;
use resp::{Request, encode};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stdx::Instant;
use topology::{NodeId, ShardId};

/// Names a lane of this worker, as long as the worker lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneId(u16);

impl LaneId {
    /// That of database 0 and RESP2, in which every client begins.
    pub(crate) const FIRST: LaneId = LaneId(0);
}

/// What all who use a connection have chosen alike. There are as many lanes at most as there are values of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LaneKind {
    /// Below [`DATABASES_MAX`].
    pub database: u16,
    /// Replies are of RESP3.
    pub resp3: bool,
}

/// More databases cannot be had: the lanes of all must have a number.
pub(crate) const DATABASES_MAX: u16 = 16 * 1024;

/// What a connection begins with, before any request: it makes the connection what its lane wants, and ends with a PING.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    bytes: Arc<[u8]>,
    requests: usize,
}

impl Greeting {
    /// That of a connection for `kind`, of whom `credentials` tell who it is.
    pub(crate) fn of(kind: LaneKind, credentials: &Credentials) -> Greeting {
        Greeting::of_reader(kind, credentials, false)
    }

    /// The same; a node of a cluster `is_told` with it that what comes may be read though it is a replica.
    fn of_reader(kind: LaneKind, credentials: &Credentials, is_told: bool) -> Greeting {
        let database = itoa::Buffer::new().format(kind.database).to_owned();
        let mut requests: Vec<&[&[u8]]> = Vec::new();
        let select: &[&[u8]] = &[b"SELECT", database.as_bytes()];
        if kind.resp3 {
            requests.push(&[b"HELLO", b"3"]);
        }
        if kind.database > 0 {
            requests.push(select);
        }
        if is_told {
            requests.push(&[b"READONLY"]);
        }
        requests.push(&[b"PING"]);
        // Before all others: nodes answer nothing else until they know who asks.
        let mut bytes = credentials.request().unwrap_or_default().to_vec();
        requests.iter().for_each(|request| encode::request(&mut bytes, request));
        let requests = requests.len() + usize::from(credentials.request().is_some());
        Greeting { bytes: bytes.into(), requests }
    }

    /// Its wire bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many replies answer it. The last is a PONG.
    pub(crate) fn replies(&self) -> usize {
        self.requests
    }
}

/// One lane.
#[derive(Debug)]
struct Lane {
    kind: LaneKind,
    greeting: Greeting,
    /// By node: the connection, or [`NO_NODE`]. Empty as long as there is none.
    nodes: Vec<u32>,
    /// How many clients are in it.
    clients: usize,
    /// When the last of them went.
    left_at: Instant,
    /// Shards whose node has refused its connections, and has taken none since.
    refused_by: BTreeSet<ShardId>,
}

const NO_NODE: u32 = u32::MAX;

/// All lanes of a worker.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    by_kind: HashMap<LaneKind, LaneId>,
    /// By shard: the first lane's connection to its primary, or [`NO_NODE`].
    primaries: Vec<u32>,
    credentials: Credentials,
    /// How many connections there are of all but the first.
    nodes: usize,
}

impl Lanes {
    /// The first one alone.
    pub(crate) fn new(credentials: Credentials) -> Lanes {
        let (lanes, by_kind, primaries) = (Vec::new(), HashMap::new(), Vec::new());
        let mut lanes = Lanes { lanes, by_kind, primaries, credentials, nodes: 0 };
        lanes.of_kind(LaneKind::default());
        lanes
    }

    /// The lane of `kind`.
    pub(crate) fn of_kind(&mut self, kind: LaneKind) -> LaneId {
        *self.by_kind.entry(kind).or_insert_with(|| {
            let (greeting, left_at) = (Greeting::of(kind, &self.credentials), Instant::ZERO);
            let (nodes, refused_by) = (Vec::new(), BTreeSet::new());
            self.lanes.push(Lane { kind, greeting, nodes, clients: 0, left_at, refused_by });
            LaneId(self.lanes.len() as u16 - 1)
        })
    }

    /// What its clients have chosen.
    pub(crate) fn kind(&self, lane: LaneId) -> LaneKind {
        self.lanes[usize::from(lane.0)].kind
    }

    /// What its connections begin with.
    pub(crate) fn greeting(&self, lane: LaneId) -> &Greeting {
        &self.lanes[usize::from(lane.0)].greeting
    }

    /// What its connections to replicas of a cluster begin with.
    pub(crate) fn greeting_of_replica(&self, lane: LaneId) -> Greeting {
        Greeting::of_reader(self.kind(lane), &self.credentials, true)
    }

    /// The first lane's connection to the primary of `shard`, if it has one.
    #[inline]
    pub(crate) fn primary(&self, shard: ShardId) -> Option<u32> {
        let node = self.primaries[shard.0 as usize];
        (node != NO_NODE).then_some(node)
    }

    /// The connection of `lane` to the node `id`, if there is one.
    pub(crate) fn node(&self, lane: LaneId, id: NodeId) -> Option<u32> {
        let node = self.lanes[usize::from(lane.0)].nodes.get(id.0 as usize).copied()?;
        (node != NO_NODE).then_some(node)
    }

    fn set_node(&mut self, lane: LaneId, id: NodeId, node: u32) {
        let nodes = &mut self.lanes[usize::from(lane.0)].nodes;
        if nodes.len() <= id.0 as usize {
            nodes.resize(id.0 as usize + 1, NO_NODE);
        }
        nodes[id.0 as usize] = node;
        self.nodes += usize::from(lane != LaneId::FIRST);
    }

    /// The primaries of all shards are reached over these connections of the first lane, as far as there are any.
    fn set_primaries(&mut self, nodes: impl Iterator<Item = Option<u32>>) {
        self.primaries.clear();
        self.primaries.extend(nodes.map(|node| node.unwrap_or(NO_NODE)));
    }

    /// The connection `node` of `lane` to the node `id` is gone, if it was one of these.
    pub(crate) fn forget(&mut self, lane: LaneId, id: NodeId, node: u32) {
        if self.node(lane, id) == Some(node) {
            self.lanes[usize::from(lane.0)].nodes[id.0 as usize] = NO_NODE;
            self.nodes -= usize::from(lane != LaneId::FIRST);
        }
    }

    /// The node of `shard` has taken a connection of `lane`.
    pub(crate) fn note_taken(&mut self, lane: LaneId, shard: ShardId) {
        self.lanes[usize::from(lane.0)].refused_by.remove(&shard);
    }

    /// A client of `lane` is not in it any more.
    pub(crate) fn leave(&mut self, lane: LaneId, now: Instant) {
        if lane != LaneId::FIRST {
            let lane = &mut self.lanes[usize::from(lane.0)];
            lane.clients -= 1;
            lane.left_at = now;
        }
    }

    fn enter(&mut self, lane: LaneId) {
        if lane != LaneId::FIRST {
            self.lanes[usize::from(lane.0)].clients += 1;
        }
    }

    /// Connections of lanes that no client was in for `lane_idle`.
    fn unused<'a>(&'a self, limits: &'a Limits, now: Instant) -> impl Iterator<Item = u32> + 'a {
        let empty = move |lane: &&Lane| lane.clients == 0 && now.since(lane.left_at) >= limits.lane_idle;
        let nodes = self.lanes.iter().skip(1).filter(empty).flat_map(|lane| &lane.nodes);
        nodes.copied().filter(|&node| node != NO_NODE)
    }
}

impl Core {
    /// The connection to `shard` that the clients of `lane` share, if it takes a request now.
    #[inline]
    pub(crate) fn shared_node(&mut self, lane: LaneId, shard: ShardId) -> Result<u32, Lost> {
        let node = match self.lanes.primary(shard) {
            Some(node) if lane == LaneId::FIRST => node,
            _ => {
                let id = self.primary_of(shard)?;
                self.node_in(lane, id)?
            }
        };
        self.admit_on(node).map(|()| node)
    }

    /// The node of `shard` has refused a connection of `lane`, for this `reason`: the log is told once. Of the first lane it
    /// is told otherwise: if that is refused, the node is down.
    pub(crate) fn note_refused(&mut self, lane: LaneId, shard: ShardId, reason: &str) {
        let LaneKind { database, resp3 } = self.lanes.kind(lane);
        if lane == LaneId::FIRST || !self.lanes.lanes[usize::from(lane.0)].refused_by.insert(shard) {
            return;
        }
        let (shard, reason) = (self.shard_name(shard).to_owned(), reason.to_owned());
        self.notice(Notice::KindRefused { shard, database, protocol: if resp3 { 3 } else { 2 }, reason });
    }

    /// The primary of `shard`.
    #[cold]
    pub(crate) fn primary_of(&self, shard: ShardId) -> Result<NodeId, Lost> {
        let primary = self.topology.shard(shard).primary;
        primary.ok_or_else(|| self.not_sent(shard, errors::NO_PRIMARY))
    }

    /// The connection to the node `id` that the clients of `lane` share; it is made if there is none.
    pub(crate) fn node_in(&mut self, lane: LaneId, id: NodeId) -> Result<u32, Lost> {
        match self.lanes.node(lane, id) {
            Some(node) => Ok(node),
            None => self.open_node(lane, id),
        }
    }

    /// Makes the connection of `lane` to the node `id`.
    fn open_node(&mut self, lane: LaneId, id: NodeId) -> Result<u32, Lost> {
        if lane != LaneId::FIRST && self.lanes.nodes >= self.limits.lane_nodes_max {
            return Err(self.not_sent(self.shard_of_node(id), errors::LANE_NODES_MAX));
        }
        let node = self.unused_node(lane, id);
        self.backends[node as usize].used_by = if self.is_replica(id) { Use::Replica } else { Use::Shared };
        self.lanes.set_node(lane, id, node);
        Ok(node)
    }

    /// Finds, or makes, the first lane's connections to all primaries of the present topology.
    pub(crate) fn connect_primaries(&mut self) {
        let topology = Arc::clone(&self.topology);
        let primaries = topology.shards().iter().map(|shard| {
            // The first lane's connections have no limit.
            shard.primary.and_then(|id| self.node_in(LaneId::FIRST, id).ok())
        });
        let primaries: Vec<_> = primaries.collect();
        self.lanes.set_primaries(primaries.into_iter());
    }

    /// From now on the session's requests go over the lane of `kind`, once all before them were answered.
    pub(crate) fn change_lane(&mut self, session: &mut Session, kind: LaneKind) {
        let lane = self.lanes.of_kind(kind);
        if lane == session.lane {
            return;
        }
        self.lanes.leave(session.lane, self.now);
        self.lanes.enter(lane);
        (session.lane, session.resp3) = (lane, kind.resp3);
        session.turn();
    }

    /// Whether `request` names a database that clients may not choose. Its node may have more of them; what is not even
    /// a number for a database, it refuses itself.
    pub(crate) fn lacks_database(&self, naming: Naming, request: &Request<'_>) -> bool {
        let databases = i64::from(self.settings.databases);
        let is_missing = |&database: &i64| database >= databases && i32::try_from(database).is_ok();
        naming.databases(request).iter().any(is_missing)
    }

    /// A connection of a lane that no client needs any more, and on which nothing is in flight.
    pub(crate) fn next_unused_node(&self, now: Instant) -> Option<u32> {
        let is_quiet = |backend: &Backend| backend.in_flight() == 0;
        self.lanes.unused(&self.limits, now).find(|&node| is_quiet(&self.backends[node as usize]))
    }

    /// A place for `backend` among the connections.
    pub(crate) fn add_node(&mut self, mut backend: Backend) -> u32 {
        backend.keeps_all = self.keeps.is_kept();
        self.check_at = self.now;
        match self.vacant.pop() {
            Some(node) => {
                self.backends[node as usize] = backend;
                node
            }
            None => {
                self.backends.push(backend);
                self.backends.len() as u32 - 1
            }
        }
    }
}
