//! One world: events in order of time, the proxy's own loop, and the checks.

mod clients;
mod discovery;
mod faults;
mod nodes;
mod replicas;
mod resharding;
mod sentinels;
mod upgrade;
mod wires;

use crate::client::{Client, Tally};
use crate::cluster::{Cluster, node_at};
use crate::keyspace::unix_ms;
use crate::ledger::Ledger;
use crate::network::Pipe;
use crate::node::Node;
use crate::plan::Plan;
use crate::program::{LASTING_KEYS, Program, STAMPED_KEYS, lasting_key};
use crate::sentinels::Watch;
use crate::tenants::Rights;
use discovery::Scout;
use nodes::load;
use proxy::{Action, Board, CloseReason, ConnId, CrossShard, Event, Notice, Proxy, Settings, Transactions};
use replicas::pair;
use sentinels::Patrol;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Id, Instant, Prng};
use store::Scratch;
use topology::{ShardId, Topology};
use users::Registry;

/// A deliberate fault between nodes and proxy. The checks must find it: it tests the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saboteur {
    /// Two replies change places.
    Swap,
    /// A reply does not arrive.
    Drop,
    /// A reply arrives twice.
    Duplicate,
    /// A request runs twice.
    RunTwice,
    /// One byte of a value is another.
    Corrupt,
    /// A node repeats its earlier reply to the same request.
    AnswerOlder,
    /// A node loses acknowledged writes.
    Forget,
}

/// Counts of a finished world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that clients sent.
    pub requests: u64,
    /// Replies of clients.
    pub tally: Tally,
    /// Parts of split requests.
    pub fragments: u64,
    /// Requests whose time was up.
    pub timeouts: u64,
    /// Requests that nodes declined and that the proxy retried.
    pub redirects: u64,
    /// Replies that the model knew, byte for byte.
    pub judged: u64,
    /// Replies that could not be judged, because too little was known of their keys after a fault.
    pub unjudged: u64,
    /// Commands over several shards that were carried out.
    pub emulations: u64,
    /// Messages that listeners heard.
    pub messages: u64,
    /// Cached values, and those of them that an invalidation dropped.
    pub kept: u64,
    /// See there.
    pub dropped: u64,
    /// Topologies that the proxy's discovery found.
    pub maps: u64,
    /// Replicas that took the places of their primaries.
    pub successors: u64,
    /// Reads that replicas answered.
    pub replica_reads: u64,
    /// Clients that were handed over.
    pub handed_over: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Events that happened.
    pub events: u64,
    /// Hash over all events in order, with the bytes that arrived: two runs of one seed have the same.
    pub fingerprint: u64,
}

/// The checks found a contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which world.
    pub seed: u64,
    /// When, in microseconds of its time.
    pub at_us: u64,
    /// The violation.
    pub what: String,
}

/// Runs the world of `plan` to its end. With `trace`, prints every event.
pub fn run(plan: &Plan, saboteur: Option<Saboteur>, trace: bool) -> Result<Report, Violation> {
    let mut world = World::new(plan, saboteur, trace);
    let outcome = world.run();
    let at_us = world.now.as_nanos() / 1000;
    let violation = outcome.err().or_else(|| world.ledger.violation.take());
    match violation {
        Some(what) => Err(Violation { seed: plan.seed, at_us, what }),
        None => Ok(world.report()),
    }
}

/// An event that is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A client does something.
    Step(usize),
    /// A client does something since it is awake.
    Wake(usize),
    /// Bytes arrive at the proxy.
    ToProxy(ConnId),
    /// Bytes arrive at the client or node.
    ToPeer(ConnId),
    /// The proxy may send again.
    Writable(ConnId),
    /// An attempt to connect ends.
    Connect(ConnId),
    /// A node runs the requests that arrived.
    Run(ConnId),
    /// The plan's fault of this number strikes.
    Strike(usize),
    /// A node goes on after it was frozen.
    Thaw(usize),
    /// A node comes back.
    Revive(usize),
    /// A replica applies pending changes.
    Replicate(usize),
    /// On a node a wait may have ended.
    Due(usize),
    /// The next key of a migrating slot moves.
    MoveKey,
    /// The proxy receives the current map of slots.
    Map,
    /// The discovery's question or its answer arrives.
    Talk(Id),
    /// A node of a cluster receives the knowledge of the others.
    Gossip(usize),
    /// A node that is cut off notices that.
    Isolate(usize),
    /// The others put its replica in its place.
    Elect(usize),
    /// The isolation of a node ends.
    Heal(usize),
    /// A sentinel looks at everything.
    Tend(usize),
    /// A sentinel dies, so that another is left alone.
    Fell(usize),
    /// A sentinel comes back.
    ReviveSentinel(usize),
    /// The network is whole again.
    Unite,
    /// An operator puts right what he did to a node.
    Correct(usize),
    /// Checks whether the proxy knows the primaries that it should know.
    Patrol,
    /// The replica of a primary that hangs takes its place.
    Succeed(usize),
    /// The proxy is told to drain.
    Drain,
    /// The caches of clients are compared with the stores.
    Compare,
    /// Somebody's rights change.
    ChangeUsers,
}

/// The peer of a connection of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Client(usize),
    Node(usize),
}

/// One connection of the proxy.
#[derive(Debug)]
pub(crate) struct Link {
    who: Who,
    pub to_proxy: Pipe,
    to_peer: Pipe,
    connected: bool,
    /// The proxy does not read.
    paused: bool,
    /// The proxy knows that its bytes did not all fit.
    wants_writable: bool,
    /// The proxy has closed it; bytes that it sent before still arrive.
    closed_by_proxy: bool,
    /// The peer is gone: bytes for it are lost.
    dead: bool,
    /// The proxy sees the end as a reset.
    reset: bool,
}

/// All there is.
pub(crate) struct World<'p> {
    pub plan: &'p Plan,
    /// As the world began.
    pub topology: Arc<Topology>,
    /// The true state of the nodes, if they are a cluster, and the part of it that the proxy knows.
    pub cluster: Option<Cluster>,
    /// The sentinels, if they decide which node is a primary.
    pub watch: Option<Watch>,
    patrol: Patrol,
    scout: Option<Scout>,
    known: Arc<Topology>,
    pub proxy: Proxy,
    prng: Prng,
    pub now: Instant,
    agenda: BinaryHeap<Reverse<(Instant, u64, What)>>,
    planned: u64,
    pub links: BTreeMap<ConnId, Link>,
    pub clients: Vec<Client>,
    pub nodes: Vec<Node>,
    pub ledger: Ledger,
    registry: Arc<Registry>,
    saboteur: Option<Saboteur>,
    trace: bool,
    /// A fault has happened by now, or a drain has begun: errors of the contract are allowed.
    troubled: bool,
    report: Report,
    /// Until then clients send little at a time and often, because a fault has happened.
    eager_until: Instant,
    /// Until then a fault may explain missing invalidations.
    deaf_until: Instant,
    /// Pauses of the worker: their ends and lengths.
    stalls: Vec<(Instant, Duration)>,
    /// Number of histories of nodes so far.
    histories: u64,
    /// Number of clients that the proxy has accepted so far: it numbers them so.
    admitted: u64,
}

/// Bytes that the kernel takes before a send is cut short.
const PIPE_BYTES: usize = 64 * 1024;
/// The first sentinel answers at once, and so do the primaries that it names.
const FOUND_WITHIN: Duration = Duration::from_millis(800);
/// Rights change once within this time.
const CHANGE_USERS_WITHIN: Duration = Duration::from_millis(500);
/// Interval of the checks of caches.
const COMPARE_EVERY: Duration = Duration::from_millis(200);
/// The longest time for which a fault may delay invalidations. A connection for invalidations gets a PING after 5 s of silence,
/// and fails after 2 s more.
const TROUBLE_MAX: Duration = Duration::from_secs(9);
/// Faults are over, and clients begin nothing new. After this every client must have all replies.
const SETTLE: Duration = Duration::from_secs(40);
/// Eighths of that time that are enough for all bytes of slow nodes.
const PAUSES_MAX: usize = 80;

/// The nodes of `plan` as they begin: primaries, and behind them their replicas.
fn nodes_of(plan: &Plan, topology: &Topology, remembers: bool, now: Instant) -> Vec<Node> {
    let mut nodes: Vec<Node> =
        (0..plan.shards as u32).map(|shard| Node::new(ShardId(shard), remembers)).collect();
    nodes.iter_mut().for_each(|node| load(node, topology, now));
    for number in plan.shards..plan.nodes() {
        let shard = number % plan.shards;
        // Nodes of a cluster are known by their own numbers.
        let place = if plan.is_cluster { number } else { shard };
        let mut replica = Node::new(ShardId(place as u32), remembers);
        replica.follows = Some(shard);
        pair(&mut nodes[shard], &mut replica, now);
        nodes.push(replica);
    }
    nodes.iter_mut().for_each(|node| node.keeps_log = plan.has_replicas());
    nodes
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan, saboteur: Option<Saboteur>, trace: bool) -> World<'p> {
        let topology = Arc::new(plan.topology());
        let mut prng = Prng::new(plan.seed ^ 0x5eed);
        let (unix_epoch_us, cross_shard) = (unix_ms(Instant::ZERO) * 1000, plan.cross_shard);
        let rights = if plan.has_users { Rights::draw(plan.clients, &mut prng) } else { Rights::default() };
        let registry = if plan.has_users { rights.registry() } else { Arc::default() };
        let settings = Settings {
            seed: prng.next_u64(),
            unix_epoch_us,
            cross_shard,
            evaluator: Some(Scratch::boxed),
            transactions: plan.transactions,
            registry: Arc::clone(&registry),
            reading: plan.reading.clone(),
            ejecting: plan.ejecting,
            inspects_nodes: plan.seed.is_multiple_of(4),
            ..Settings::default()
        };
        let board = Arc::new(Board::new(1));
        let now = Instant::ZERO;
        let known = match plan.watching {
            Some(_) => Arc::new(plan.topology().without_nodes()),
            None => Arc::clone(&topology),
        };
        let proxy = Proxy::new(plan.limits.clone(), settings, Arc::clone(&known), board, now);
        let filling_max = *prng.pick(&[100, 5_000, 100_000]);
        let mut ledger = Ledger::new(Arc::clone(&topology), plan.nodes());
        (0..LASTING_KEYS).for_each(|number| ledger.name(lasting_key(number)));
        let clients = (0..plan.clients)
            .map(|client| Program::new(client, plan.clients, filling_max, &mut ledger))
            .map(|program| {
                let reads_most = plan.reads_replicas() && prng.one_in(2);
                let program = program.reading_most(reads_most);
                let program = program.preferring(plan.has_favourites.then(|| prng.below(STAMPED_KEYS)));
                match plan.ejecting {
                    Some(_) => Client::new(program.with_account(&rights, &mut prng)),
                    None => Client::new(program.with_role(plan.is_calm(), &rights, &mut prng)),
                }
            })
            .collect();
        ledger.rights = rights;
        if !plan.is_fast() {
            ledger.radio.disturb_all();
        }
        ledger.model.carries_across = plan.cross_shard == CrossShard::Emulate;
        ledger.is_per_shard = plan.transactions == Transactions::PerShard;
        ledger.is_gossiping = plan.discovers;
        ledger.wants_primaries = plan.watching.is_some() && !plan.reads_replicas();
        ledger.is_cache = plan.ejecting.is_some();
        ledger.reads_replicas = plan.reads_replicas();
        ledger.reads_anything = plan.reading.covers_for_primary && !plan.faults.is_empty();
        ledger.radio.is_bounded = plan.has_few_subscriptions();
        if plan.node_bytes_per_s.is_some() {
            ledger.radio.slow_down();
        }
        let remembers = saboteur == Some(Saboteur::AnswerOlder);
        let cluster = plan.is_cluster.then(|| Cluster::new(plan.shards, plan.joined, plan.discovers));
        let watch = plan
            .watching
            .as_ref()
            .map(|it| Watch::new(&it.slowness, (it.named, it.quorum), (plan.shards, plan.nodes())));
        let scout = match &plan.watching {
            Some(watching) => Some(sentinels::scout(watching.named, plan.shards, plan.seed)),
            None => plan.discovers.then(|| Scout::of_cluster(plan)),
        };
        let nodes = nodes_of(plan, &topology, remembers, now);
        World {
            plan,
            ledger,
            known,
            topology,
            cluster,
            watch,
            patrol: Patrol::new(plan),
            scout,
            proxy,
            prng,
            now,
            agenda: BinaryHeap::new(),
            planned: 0,
            links: BTreeMap::new(),
            clients,
            nodes,
            registry,
            saboteur,
            trace,
            // On a slow network with large values, requests may time out.
            troubled: !plan.is_fast(),
            report: Report::default(),
            eager_until: Instant::ZERO,
            deaf_until: Instant::ZERO,
            stalls: Vec::new(),
            histories: 0,
            admitted: 0,
        }
    }

    fn report(&self) -> Report {
        let counters = self.proxy.counters();
        Report {
            fragments: counters.fragments,
            timeouts: counters.timeouts,
            redirects: counters.redirects,
            judged: self.ledger.model.judged,
            unjudged: self.ledger.model.unjudged,
            emulations: counters.emulations,
            replica_reads: counters.replica_reads,
            messages: counters.messages,
            kept: self.ledger.caches.kept,
            dropped: self.ledger.caches.dropped,
            ..self.report
        }
    }

    /// Runs all of it and then checks the result.
    fn run(&mut self) -> Result<(), String> {
        for number in 0..self.plan.faults.len() {
            self.plan_at(self.plan.faults[number].0, What::Strike(number));
        }
        if let Some(at) = self.plan.drain_at {
            self.plan_at(at, What::Drain);
        }
        self.plan_sentinels();
        if self.watch.is_some() {
            // Before the primaries are known, all requests are refused.
            self.turn_until(self.now + FOUND_WITHIN)?;
        }
        for client in 0..self.clients.len() {
            self.plan_in_up_to(Duration::from_millis(20), What::Step(client));
        }
        self.plan_at(self.now + COMPARE_EVERY, What::Compare);
        if self.plan.has_users {
            self.plan_in_up_to(CHANGE_USERS_WITHIN, What::ChangeUsers);
        }
        let last_fault = self.plan.faults.last().map_or(Instant::ZERO, |(at, _)| *at);
        let end = self.plan.quiet_at.max(last_fault) + SETTLE;
        self.turn_until(end - SETTLE / 2)?;
        self.settle_cluster();
        self.turn_until(end)?;
        self.let_all_finish()?;
        self.check_nobody_waits()?;
        self.audit()
    }

    /// Waits longer for a client whose requests depend on each other, each with several slow round trips, as long as it makes
    /// progress. A reply of slow nodes is progress while its bytes come.
    fn let_all_finish(&mut self) -> Result<(), String> {
        let (mut waiting, mut pauses) = (usize::MAX, 0);
        loop {
            let coming = self.bytes_of_slow_nodes();
            let left = self.clients.iter().map(Client::waiting).sum::<usize>() + coming;
            let is_stuck = left >= waiting && (coming == 0 || pauses == PAUSES_MAX);
            if left == 0 || is_stuck {
                return Ok(());
            }
            waiting = left;
            pauses += 1;
            self.turn_until(self.now + SETTLE / 8)?;
        }
    }

    /// Bytes of slow nodes that are on their way. Without their clients, they still go before the replies to others.
    fn bytes_of_slow_nodes(&self) -> usize {
        let is_slow = |link: &&Link| self.plan.node_bytes_per_s.is_some() && matches!(link.who, Who::Node(_));
        self.links.values().filter(is_slow).map(|link| link.to_proxy.len()).sum()
    }

    /// Turns until `end`, or until a check fails.
    pub(crate) fn turn_until(&mut self, end: Instant) -> Result<(), String> {
        loop {
            let next = self.agenda.peek().map_or(Instant::NEVER, |Reverse((at, _, _))| *at);
            // A worker that holds replies back does not wait, nor does one with postponed work.
            let is_due = self.proxy.has_corked() || self.proxy.has_postponed();
            let now = if is_due { self.now } else { Instant::NEVER };
            let scout_at = self.scout.as_ref().map_or(Instant::NEVER, Scout::deadline);
            let at = next.min(self.proxy.poll_deadline()).min(now).min(scout_at);
            if at > end {
                self.now = end;
                return Ok(());
            }
            self.now = self.now.max(at);
            self.ledger.now = self.now;
            self.turn();
            if let Some(what) = self.ledger.violation.take() {
                return Err(what);
            }
        }
    }

    /// One turn of a worker's loop: events, due times, actions. Sometimes several events happen in one turn.
    fn turn(&mut self) {
        self.stall();
        let burst = *self.prng.pick(&[1, 1, 1, 2, 5, 20]);
        let until = self.now + Duration::from_micros(if burst > 1 { 200 } else { 0 });
        for _ in 0..burst {
            let Some(&Reverse((at, _, what))) = self.agenda.peek() else { break };
            if at > until {
                break;
            }
            self.agenda.pop();
            self.now = self.now.max(at);
            self.happen(what);
        }
        if self.proxy.poll_deadline() <= self.now {
            self.proxy.handle_timeouts(self.now);
        }
        self.proxy.cork(self.plan.is_pressed());
        self.proxy.uncork();
        self.proxy.resume_postponed(self.now);
        self.perform();
        self.hand_over();
        self.scout_turn();
        while let Some(notice) = self.proxy.poll_notice() {
            self.tell_scout(&notice);
            let Notice::ClientClosed { client: number, reason, .. } = notice else { continue };
            let has_cause = match reason {
                CloseReason::HalfReply => self.troubled,
                CloseReason::MemoryLimit => self.plan.is_short_of_memory(),
                CloseReason::SlowSubscriber => self.plan.has_little_patience(),
                _ => continue,
            };
            if let Some(client) = self.clients.iter_mut().find(|client| client.number == number) {
                client.is_closed = true;
            }
            if !has_cause {
                self.ledger.violate(format!("a client was closed without a cause: {reason:?}"));
            }
        }
        if let Err(what) = self.proxy.audit() {
            self.ledger.violate(what);
        }
    }

    /// Now and then the worker pauses before its turn, as when other processes have its core.
    fn stall(&mut self) {
        if !self.plan.has_stalls || self.now > self.plan.quiet_at || !self.prng.one_in(500) {
            return;
        }
        let late = Duration::from_millis(*self.prng.pick(&[50, 300, 900, 3_000]));
        self.now += late;
        self.stalls.push((self.now, late));
        self.ledger.radio.note_pause(self.now, late);
        self.ledger.now = self.now;
        // Clients received nothing meanwhile.
        self.deaf_until = self.deaf_until.max(self.now + 2 * COMPARE_EVERY);
        self.proxy.handle_lateness(late, self.now);
    }

    /// The instant since which the worker has run for `time`, its pauses not counted.
    fn has_run_since(&self, time: Duration) -> Instant {
        let back = |at: Instant, by: Duration| Instant::ZERO + at.since(Instant::ZERO + by);
        let late = self.stalls.iter().rev();
        late.fold(back(self.now, time), |then, &(end, late)| if end > then { back(then, late) } else { then })
    }

    /// Carries out the proxy's actions.
    fn perform(&mut self) {
        while let Some(action) = self.proxy.poll_action() {
            match action {
                Action::Send { conn, bytes } => {
                    let Some(link) = self.links.get_mut(&conn) else { continue };
                    if link.to_peer.ended {
                        self.ledger.violate("the proxy sends behind its own end".to_owned());
                    }
                    let taken = if link.dead { bytes.len() } else { link.to_peer.put(bytes) };
                    link.wants_writable = taken < bytes.len();
                    self.proxy.handle_sent(conn, taken);
                    self.note(1, conn, taken);
                    self.plan_delivery_to_peer(conn);
                }
                Action::Connect { conn, node } => {
                    self.links
                        .insert(conn, Link::new(Who::Node(node_at(&self.known.node(node).address)), false));
                    self.plan_in_up_to(self.plan.delay_max, What::Connect(conn));
                }
                Action::Pause { conn } => self.with_link(conn, |link| link.paused = true),
                Action::Resume { conn } => {
                    self.with_link(conn, |link| link.paused = false);
                    self.plan_delivery_to_proxy(conn);
                }
                Action::Finish { conn } => {
                    self.with_link(conn, |link| link.to_peer.ended = true);
                    self.plan_delivery_to_peer(conn);
                }
                Action::Close { conn } => {
                    self.note(2, conn, 0);
                    self.with_link(conn, |link| {
                        link.closed_by_proxy = true;
                        link.to_peer.ended = true;
                    });
                    self.plan_delivery_to_peer(conn);
                }
            }
        }
    }

    pub(crate) fn with_link(&mut self, conn: ConnId, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.links.get_mut(&conn) {
            change(link);
        }
    }

    /// Something planned happens.
    fn happen(&mut self, what: What) {
        self.report.events += 1;
        match what {
            What::Step(client) => self.step(client),
            What::Wake(client) => self.stay_awake(client),
            What::ToProxy(conn) => self.deliver_to_proxy(conn),
            What::ToPeer(conn) => self.deliver_to_peer(conn),
            What::Writable(conn) => {
                if self.links.get(&conn).is_some_and(|link| !link.closed_by_proxy) {
                    self.proxy.handle_event(Event::Writable { conn }, self.now);
                }
            }
            What::Connect(conn) => self.finish_connect(conn),
            What::Run(conn) => self.run_node(conn),
            What::Strike(number) => self.strike(self.plan.faults[number].1),
            What::Thaw(node) => self.thaw(node),
            What::Revive(node) => self.revive(node),
            What::Replicate(node) => self.replicate(node),
            What::Due(node) => self.end_waits(node),
            What::Compare => self.compare(),
            What::ChangeUsers => {
                let users = self.ledger.rights.change(&self.registry, self.now, &mut self.prng);
                self.proxy.handle_users(&users, self.now);
                if self.now < self.plan.quiet_at {
                    self.plan_in_up_to(CHANGE_USERS_WITHIN, What::ChangeUsers);
                }
            }
            What::MoveKey => _ = self.move_key(),
            What::Map => self.tell_map(),
            What::Talk(conn) => self.go_on_talking(conn),
            What::Gossip(node) => self.gossip(node),
            What::Isolate(node) => self.isolate(node),
            What::Elect(node) => self.elect(node),
            What::Heal(node) => self.heal(node),
            What::Tend(sentinel) => self.tend(sentinel),
            What::Fell(sentinel) => self.fell(sentinel),
            What::ReviveSentinel(sentinel) => self.revive_sentinel(sentinel),
            What::Unite => self.unite(),
            What::Correct(node) => self.correct(node),
            What::Patrol => self.patrol(),
            What::Succeed(node) => self.succeed(node),
            What::Drain => {
                self.troubled = true;
                self.proxy.drain(self.now);
            }
        }
    }

    fn plan_at(&mut self, at: Instant, what: What) {
        self.planned += 1;
        self.agenda.push(Reverse((at, self.planned, what)));
    }

    fn plan_in_up_to(&mut self, delay_max: Duration, what: What) {
        let delay = Duration::from_nanos(self.prng.below(delay_max.as_nanos() as u64 + 1));
        self.plan_at(self.now + delay, what);
    }

    /// Mixes `bytes`, which arrived, into the fingerprint.
    fn mix(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|&word| self.mix_word(u64::from_le_bytes(word)));
        rest.iter().for_each(|&byte| self.mix_word(byte.into()));
    }

    fn mix_word(&mut self, word: u64) {
        let mixed = (self.report.fingerprint ^ word).wrapping_mul(0x100_0000_01b3);
        // The low bits of a product depend on no high bits of a factor.
        self.report.fingerprint = mixed.rotate_left(29);
    }

    /// Mixes an event into the fingerprint, and prints it if tracing is on.
    fn note(&mut self, kind: u64, conn: ConnId, count: usize) {
        self.mix_word(
            self.now.as_nanos() ^ kind << 56 ^ conn.to_u64().rotate_left(17) ^ (count as u64) << 20,
        );
        if self.trace {
            const KINDS: [&str; 8] = [
                "",
                "proxy sends",
                "proxy closes",
                "client arrives",
                "client sends",
                "end at proxy",
                "at proxy",
                "at peer",
            ];
            let who = self.links.get(&conn).map(|link| link.who);
            let at_us = self.now.as_nanos() / 1000;
            println!(
                "{at_us:>12} us  {} {count} on {}/{} {who:?}",
                KINDS[kind as usize], conn.index, conn.generation
            );
        }
    }
}

/// Prints the beginning of the bytes that a client or a node sends or receives.
fn tell(trace: bool, (kind, number): (&str, usize), does: &str, bytes: &[u8]) {
    if trace {
        println!("              {kind} {number} {does} {}", bytes[..bytes.len().min(300)].escape_ascii());
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Violation { seed, at_us, what } = self;
        write!(formatter, "world {seed} at {at_us} us: {what}")
    }
}
