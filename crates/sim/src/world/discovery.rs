//! The proxy's own discovery in a world: it asks nodes, each of which replies with its own knowledge. The resulting topology is
//! compared with the truth.
//!
//! ```text
//!   truth ─ gossip, some time later ─► what a node knows ─► its answers, late ─► the machine ─► a topology ─► the proxy
//!     └──────────── no slot goes back to whom it had before, and in the end all are where they are ──────────┘
//! ```

use super::sentinels::label;
use super::{What, World};
use crate::cluster::{address, node_at};
use crate::plan::Plan;
use crate::replication::role;
use crate::sentinels::words::SUBSCRIBED;
use crate::sentinels::{Host, host_at};
use crate::views::answer;
use proxy::Notice;
use resp::Request;
use resp::request::{RequestLimits, Scanned, Scanner};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Id, Instant};
use topology::discovery::{Action, ClusterDiscovery, ClusterSettings, Discovery, Event, View, Wish};
use topology::{SLOTS, Topology};

/// The discovery and its connections.
pub(super) struct Scout {
    machine: Discovery,
    talks: BTreeMap<Id, Talk>,
    /// By slot of a cluster: the oldest of all true maps so far that agrees with the last discovered one.
    agrees_with: Vec<usize>,
}

/// One conversation.
#[derive(Debug)]
struct Talk {
    host: Host,
    is_connected: bool,
    asked: Vec<u8>,
    /// Bytes that are under way to the discovery.
    said: Vec<u8>,
    /// A sentinel publishes events on it.
    listens: bool,
    /// The other side is gone.
    is_ended: bool,
    /// Whether the connection is dead without notice.
    is_lost: bool,
}

/// Without wishes it looks this often: some times in a world.
const PERIOD: Duration = Duration::from_secs(2);
/// Time after which a primary without contact to a majority declines requests (cluster-node-timeout).
const PATIENCE: Duration = Duration::from_millis(300);
/// Time by which the other primaries have voted for its replica.
const VOTED_AFTER: Duration = Duration::from_millis(1_500);

impl Scout {
    pub(super) fn new(machine: Discovery) -> Scout {
        Scout { machine, talks: BTreeMap::new(), agrees_with: vec![0; usize::from(SLOTS)] }
    }

    /// The discovery of the cluster of `plan`. Its seeds are the nodes that belong to the cluster from the start.
    pub(super) fn of_cluster(plan: &Plan) -> Scout {
        let seeds = (0..plan.joined).flat_map(|shard| [shard, plan.shards + shard]);
        let seeds = seeds.map(|node| address(node).address).collect();
        let settings =
            ClusterSettings { seeds, period: PERIOD, is_tls: false, greeting: None, seed: plan.seed };
        Scout::new(Discovery::Cluster(Box::new(ClusterDiscovery::new(settings))))
    }

    pub(super) fn deadline(&self) -> Instant {
        self.machine.poll_deadline()
    }
}

impl World<'_> {
    /// The discovery thread's turn.
    pub(super) fn scout_turn(&mut self) {
        let now = self.now;
        let wish = self.proxy.poll_wish(now);
        let Some(scout) = &mut self.scout else {
            if wish.is_some() {
                self.plan_in_up_to(super::resharding::MAP_DELAY_MAX, What::Map);
            }
            return;
        };
        wish.into_iter().for_each(|wish| scout.machine.handle_wish(wish, now));
        if scout.machine.poll_deadline() <= now {
            scout.machine.handle_time(now);
        }
        while let Some(action) = self.scout.as_mut().and_then(|scout| scout.machine.poll_action()) {
            self.do_for_scout(action);
        }
        let view = self.scout.as_mut().and_then(|scout| scout.machine.poll_view());
        view.into_iter().for_each(|view| self.adopt(&view));
    }

    fn do_for_scout(&mut self, action: Action) {
        let Some(scout) = &mut self.scout else { return };
        let conn = match action {
            Action::Connect { conn, address, .. } => {
                scout.talks.insert(conn, Talk::to(host_at(&address)));
                conn
            }
            Action::Send { conn, bytes } => {
                if let Some(talk) = scout.talks.get_mut(&conn) {
                    talk.asked.extend(bytes);
                }
                conn
            }
            Action::Close { conn } => {
                scout.talks.remove(&conn);
                return;
            }
        };
        let slowness = self.watch.as_ref().and_then(|watch| match scout.talks.get(&conn)?.host {
            Host::Sentinel(sentinel) => Some(watch.sentinels[sentinel].slowness),
            Host::Node(_) => Some(Duration::ZERO),
        });
        let late = match slowness {
            Some(slowness) => slowness + self.plan.delay_max,
            None if self.prng.one_in(20) => Duration::from_secs(2),
            None => self.plan.delay_max,
        };
        self.plan_in_up_to(late, What::Talk(conn));
    }

    /// Makes the next step of a connection: it is established, gets a reply, or gets bytes without a request.
    pub(super) fn go_on_talking(&mut self, conn: Id) {
        let now = self.now;
        let Some(scout) = &mut self.scout else { return };
        let Some(talk) = scout.talks.get_mut(&conn).filter(|talk| !talk.is_lost) else { return };
        let (is_down, frozen_until) = match (talk.host, &self.watch) {
            (Host::Sentinel(sentinel), Some(watch)) => {
                let its = &watch.sentinels[sentinel];
                (its.is_down && !its.is_replaced, its.frozen_until)
            }
            (Host::Node(node), _) => (self.nodes[node].down, self.nodes[node].frozen_until),
            (Host::Sentinel(_), None) => return,
        };
        if frozen_until > now && !talk.is_ended {
            return self.plan_at(frozen_until, What::Talk(conn));
        }
        if is_down || talk.is_ended {
            scout.talks.remove(&conn);
            return scout.machine.handle_event(Event::Closed { conn, reason: "connection refused" }, now);
        }
        if !std::mem::replace(&mut talk.is_connected, true) {
            return scout.machine.handle_event(Event::Connected { conn }, now);
        }
        let asked = std::mem::take(&mut talk.asked);
        let mut reply = std::mem::take(&mut talk.said);
        match (talk.host, &self.watch, &self.cluster) {
            (Host::Sentinel(sentinel), Some(watch), _) => {
                let answers = answers(&asked, |request| Some(watch.answer(sentinel, request, now)));
                talk.listens |= answers == SUBSCRIBED;
                if sentinel < watch.named && has_asked_for_others(&asked) {
                    self.patrol.note_others();
                }
                reply.extend(answers);
            }
            (Host::Node(node), _, Some(_)) if self.nodes[node].loading_until > now => {
                reply.extend_from_slice(LOADING);
            }
            (Host::Node(node), _, Some(cluster)) => {
                let eye = cluster.eye_of(node, self.plan.seed.is_multiple_of(3));
                reply.extend(answers(&asked, |request| answer(eye, request)));
            }
            (Host::Node(node), ..) => {
                if !asked.is_empty() {
                    self.patrol.note_role(node, self.nodes[node].follower.is_none(), now);
                }
                let node = &self.nodes[node];
                let role = || role(node.follows, node.follower.as_ref(), node.log.offset());
                reply.extend(answers(&asked, |request| (request.arg(0) == b"ROLE").then(role)));
            }
            (Host::Sentinel(_), None, _) => {}
        }
        if !reply.is_empty() {
            scout.machine.handle_event(Event::Received { conn, bytes: &reply }, now);
        }
    }

    /// A sentinel sends bytes to the discovery's subscription.
    pub(super) fn say_to_scout(&mut self, sentinel: usize, bytes: &[u8]) {
        for conn in self.talks_with(Host::Sentinel(sentinel)) {
            let Some(talk) = self.scout.as_mut().and_then(|scout| scout.talks.get_mut(&conn)) else {
                continue;
            };
            if talk.listens {
                talk.said.extend_from_slice(bytes);
                self.plan_in_up_to(self.plan.delay_max, What::Talk(conn));
            }
        }
    }

    /// All conversations with `host` end.
    pub(super) fn hang_up(&mut self, host: Host) {
        for conn in self.talks_with(host) {
            if let Some(talk) = self.scout.as_mut().and_then(|scout| scout.talks.get_mut(&conn)) {
                talk.is_ended = true;
                self.plan_in_up_to(self.plan.delay_max, What::Talk(conn));
            }
        }
    }

    /// Kills the discovery's connections to a sentinel, without notice.
    pub(super) fn lose_talks(&mut self, sentinel: usize) {
        for conn in self.talks_with(Host::Sentinel(sentinel)) {
            if let Some(talk) = self.scout.as_mut().and_then(|scout| scout.talks.get_mut(&conn)) {
                talk.is_lost = true;
            }
        }
    }

    fn talks_with(&self, host: Host) -> Vec<Id> {
        let talks = self.scout.iter().flat_map(|scout| &scout.talks);
        talks.filter(|(_, talk)| talk.host == host).map(|(conn, _)| *conn).collect()
    }

    /// The proxy receives the discovered topology.
    fn adopt(&mut self, view: &View) {
        let epoch = self.known.epoch() + 1;
        let made = match self.plan.watching {
            Some(_) => self.known.succeed(epoch, &label(&view.shards, self.plan.shards)),
            None => Topology::of_cluster(Some(&self.known), epoch, &view.shards),
        };
        match made {
            Ok(topology) => self.known = Arc::new(topology),
            Err(error) => return self.ledger.violate(format!("what was discovered is no topology: {error}")),
        }
        self.report.maps += 1;
        self.check_nothing_goes_back();
        self.check_successors();
        self.note_known();
        self.proxy.handle_topology(Arc::clone(&self.known), self.now);
        self.perform();
    }

    /// Checks that the discovered owner of each slot is at least as new as the one before.
    fn check_nothing_goes_back(&mut self) {
        let (Some(cluster), Some(scout)) = (&self.cluster, &mut self.scout) else { return };
        for slot in 0..SLOTS {
            let primary = self.known.shard(self.known.shard_at(slot)).primary;
            let node = primary.map(|id| node_at(&self.known.node(id).address));
            let since = &mut scout.agrees_with[usize::from(slot)];
            match node.map(|node| cluster.owned_by(slot, node, *since)) {
                Some(Some(found)) => *since = found,
                Some(None) => {
                    let what =
                        format!("slot {slot} was discovered at node {node:?}, which had lost it before");
                    return self.ledger.violate(what);
                }
                None => {}
            }
        }
    }

    /// The proxy has learned where slots are. From now on, it must not write to nodes that are no primaries any more.
    pub(super) fn note_known(&mut self) {
        if let Some(cluster) = &self.cluster {
            let known = &self.known;
            let primary = |slot: u16| known.shard(known.shard_at(slot)).primary;
            self.ledger.proxy_knows(|slot| {
                primary(slot)
                    .is_some_and(|id| known.node(id).address == address(cluster.primary_at(slot)).address)
            });
        }
        for node in 0..self.nodes.len() {
            let id = self.known.node_at(&address(node).address);
            let is_primary = id.is_some_and(|id| {
                let shard = self.known.node(id).shard;
                shard.is_some_and(|shard| self.known.shard(shard).primary == Some(id))
            });
            self.ledger.is_primary(node, is_primary, self.now);
        }
    }

    /// A worker noticed that a primary is down, or up again.
    pub(super) fn tell_scout(&mut self, notice: &Notice) {
        let Some(scout) = &mut self.scout else { return };
        let known = &self.known;
        let address = |name: &str| {
            let shard = known.all_shards().find(|id| known.shard(*id).name == name)?;
            known.primary_address(shard).cloned()
        };
        let wish = match notice {
            Notice::NodeDown { shard, .. } => address(shard).map(Wish::Down),
            Notice::NodeUp { shard } => address(shard).map(Wish::Up),
            _ => None,
        };
        wish.into_iter().for_each(|wish| scout.machine.handle_wish(wish, self.now));
    }

    // The cluster among itself.

    /// The true map has changed: all nodes learn of it, each at its own time.
    pub(super) fn spread_news(&mut self) {
        if self.scout.is_none() {
            return;
        }
        for node in 0..self.nodes.len() {
            let late = Duration::from_millis(*self.prng.pick(&[0, 1, 50, 500]));
            self.plan_in_up_to(late, What::Gossip(node));
        }
    }

    /// A node receives the knowledge of the other nodes, unless it is isolated.
    pub(super) fn gossip(&mut self, node: usize) {
        let frozen_until = self.nodes[node].frozen_until;
        if frozen_until > self.now {
            return self.plan_at(frozen_until, What::Gossip(node));
        }
        let Some(cluster) = &mut self.cluster else { return };
        if self.nodes[node].down || cluster.cut.contains(&node) {
            return;
        }
        let was_primary = cluster.believes_to_be_primary(node);
        cluster.learns(node);
        let has_lost_all = was_primary && !cluster.believes_to_be_primary(node);
        if cluster.has_failed(node, false, node) {
            self.spread_news();
        }
        if has_lost_all {
            // The node begins anew as a replica, and ends all waits for elements: the keys belong to another node now.
            self.nodes[node].die();
            self.reset_links(node);
            self.nodes[node].due_at = None;
        }
    }

    /// A primary and the other nodes do not hear each other for a while; the proxy reaches all of them.
    pub(super) fn cut_off(&mut self, shard: usize, lasts: Duration) {
        if self.scout.is_none() || !self.end_migration() {
            return;
        }
        let Some(cluster) = &mut self.cluster else { return };
        let [primary, replica] = cluster.nodes_of(shard);
        if !cluster.has_joined(shard) || !cluster.cut.insert(primary) {
            return;
        }
        self.break_link(replica, lasts);
        self.plan_at(self.now + PATIENCE, What::Isolate(primary));
        let votes_at =
            self.now + PATIENCE + Duration::from_nanos(self.prng.below(VOTED_AFTER.as_nanos() as u64));
        // A majority of primaries is needed.
        if self.plan.shards >= 3 && votes_at < self.now + lasts {
            self.plan_at(votes_at, What::Elect(primary));
        }
        self.plan_at(self.now + lasts, What::Heal(primary));
    }

    /// The node has had no contact to the others for too long.
    pub(super) fn isolate(&mut self, node: usize) {
        if let Some(cluster) = self.cluster.as_mut().filter(|cluster| cluster.cut.contains(&node)) {
            cluster.isolated.insert(node);
            if !self.prng.one_in(4) {
                cluster.vain_votes.insert(node, 1 + self.prng.below(50));
            }
        }
    }

    /// The others make the replica of `node` a primary.
    pub(super) fn elect(&mut self, node: usize) {
        let Some(cluster) = &self.cluster else { return };
        let shard = cluster.shard_of_primary(node).filter(|_| cluster.cut.contains(&node));
        let voters = cluster.voters();
        let others = voters.iter().filter(|shard| {
            let [primary, _] = cluster.nodes_of(**shard);
            !self.nodes[primary].down && !cluster.cut.contains(&primary)
        });
        if let Some(shard) = shard.filter(|_| 2 * others.count() > voters.len()) {
            self.replace_primary(shard);
        }
    }

    /// The node hears the others again.
    pub(super) fn heal(&mut self, node: usize) {
        if let Some(cluster) = &mut self.cluster {
            cluster.cut.remove(&node);
            self.plan_in_up_to(Duration::from_millis(100), What::Gossip(node));
            self.plan_replication(node);
            self.plan_followers(node);
        }
    }

    /// No node is isolated and every node knows everything: the proxy must find out by itself.
    pub(crate) fn check_discovered(&self) -> Result<(), String> {
        let (Some(cluster), Some(_)) = (&self.cluster, &self.scout) else { return Ok(()) };
        for slot in 0..SLOTS {
            let primary = self.known.shard(self.known.shard_at(slot)).primary;
            let node = primary.map(|id| node_at(&self.known.node(id).address));
            let owner = cluster.primary_at(slot);
            if node != Some(owner) {
                return Err(format!("slot {slot} is at node {owner}, and the proxy believes {node:?}"));
            }
        }
        Ok(())
    }
}

const LOADING: &[u8] = b"-LOADING Redis is loading the dataset in memory\r\n";

impl Talk {
    fn to(host: Host) -> Talk {
        let (asked, said) = (Vec::new(), Vec::new());
        Talk { host, is_connected: false, asked, said, listens: false, is_ended: false, is_lost: false }
    }
}

/// Whether `asked` is a question for the other sentinels.
fn has_asked_for_others(asked: &[u8]) -> bool {
    const QUESTION: &[u8] = b"SENTINELS";
    asked.windows(QUESTION.len()).any(|window| window == QUESTION)
}

/// The replies to `asked`, one request behind the other.
fn answers(asked: &[u8], answer: impl Fn(&Request<'_>) -> Option<Vec<u8>>) -> Vec<u8> {
    let (mut scanner, mut args, mut inline) = (Scanner::default(), Vec::new(), Vec::new());
    let (mut replies, mut at) = (Vec::new(), 0);
    while let Ok(Scanned::Request { len }) =
        scanner.scan(&asked[at..], &RequestLimits::default(), &mut args, &mut inline)
    {
        let request = Request::new(&asked[at..at + len], &args);
        replies.extend(answer(&request).unwrap_or_else(|| b"-ERR unknown subcommand\r\n".to_vec()));
        at += len;
    }
    replies
}
