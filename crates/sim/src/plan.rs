//! The choices of a seed before a world begins: its size, its topology, and its faults with their times.

use crate::cluster::Cluster;
use crate::sentinels::name_of;
use proxy::{CrossShard, Ejecting, EngineLimits, Limits, ReadFrom, Reading, Transactions};
use std::time::Duration;
use stdx::{Instant, Prng};
use topology::{Distribution, HashFunction, TagRule, Topology, TopologySpec, parse_nodes};

/// A fault. Nodes have the numbers of their shards, and replicas those behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The node reads nothing for a while, then everything.
    Freeze {
        /// Whose node.
        shard: u32,
        /// For how long.
        lasts: Duration,
    },
    /// The node's process dies and comes back later.
    Kill {
        /// Whose node.
        shard: u32,
        /// For how long it is away.
        lasts: Duration,
        /// Duration of loading after that.
        loading: Duration,
        /// Whether it comes back with the data of the world's beginning.
        forgets: bool,
    },
    /// Its connections are reset, at any byte in both directions.
    Reset {
        /// Whose node.
        shard: u32,
    },
    /// Its connections are dead without notice; new ones work.
    Vanish {
        /// Whose node.
        shard: u32,
    },
    /// The node sends bytes that are no reply.
    Garbage {
        /// Whose node.
        shard: u32,
    },
    /// The node sends an unexpected reply, on a connection on which nothing is in flight.
    Unasked {
        /// Whose node.
        shard: u32,
    },
    /// A replica loses its link to its primary.
    Unlink {
        /// Which node; a primary has none.
        shard: u32,
        /// For how long.
        lasts: Duration,
    },
    /// A primary does not hear the other nodes any more; they may replace it. Where there are sentinels, the network is
    /// partitioned, with this primary or without it on the smaller side.
    CutOff {
        /// Whose primary.
        shard: u32,
        /// For how long.
        lasts: Duration,
    },
    /// A slot of a cluster begins to move.
    Migrate,
    /// A primary of a cluster dies and its replica replaces it. The old one comes back later, as a replica.
    Promote {
        /// Whose primary.
        shard: u32,
        /// For how long it is away.
        lasts: Duration,
    },
    /// An operator tells a sentinel to replace a primary.
    Order {
        /// Whose primary.
        shard: u32,
        /// Which sentinel.
        sentinel: usize,
    },
    /// One sentinel alone stays with a primary. The others replace the primary, and then die for longer than any doubt lasts.
    Strand {
        /// Whose primary.
        shard: u32,
        /// Which sentinel.
        sentinel: usize,
    },
    /// Something happens to a sentinel.
    Sentinel {
        /// Which.
        sentinel: usize,
        /// The kind of fault.
        trouble: Trouble,
        /// For how long.
        lasts: Duration,
    },
    /// An operator promotes a replica by hand, or has a primary follow an unknown node.
    Mistake {
        /// Which node.
        shard: u32,
        /// Time after which such a primary is one again.
        lasts: Duration,
    },
    /// Sentinels are set up anew: epochs begin at 0.
    SetUp,
    /// The node has too many clients, refuses new ones, and resets the old.
    Full {
        /// Whose node.
        shard: u32,
        /// For how long.
        lasts: Duration,
    },
}

impl Fault {
    /// Whose node it strikes; `None`: topics of any may move.
    pub fn shard(&self) -> Option<u32> {
        match *self {
            Fault::Freeze { shard, .. }
            | Fault::Kill { shard, .. }
            | Fault::Reset { shard }
            | Fault::Vanish { shard }
            | Fault::Garbage { shard }
            | Fault::Unasked { shard }
            | Fault::Full { shard, .. } => Some(shard),
            Fault::Migrate | Fault::Promote { .. } | Fault::Unlink { .. } | Fault::CutOff { .. } => None,
            Fault::Order { .. } | Fault::Strand { .. } | Fault::Sentinel { .. } => None,
            Fault::Mistake { .. } | Fault::SetUp => None,
        }
    }

    /// Time after the fault during which clients may miss invalidations.
    pub(crate) fn deafens_for(&self) -> Duration {
        match *self {
            Fault::Migrate | Fault::Unlink { .. } => Duration::ZERO,
            // A connection for invalidations gets a PING after 5 s of silence, and fails after 2 s more.
            Fault::Vanish { .. } => Duration::from_secs(9),
            Fault::Promote { lasts, .. } | Fault::CutOff { lasts, .. } => lasts + Duration::from_secs(9),
            Fault::Order { .. } | Fault::SetUp => Duration::from_secs(9),
            Fault::Strand { .. } => STRANDED_FOR + Duration::from_secs(9),
            Fault::Sentinel { lasts, .. } | Fault::Mistake { lasts, .. } => lasts + Duration::from_secs(9),
            Fault::Kill { lasts, loading, .. } => lasts + loading + RECONNECTS_WITHIN,
            Fault::Freeze { lasts, .. } | Fault::Full { lasts, .. } => lasts + RECONNECTS_WITHIN,
            Fault::Reset { .. } | Fault::Garbage { .. } | Fault::Unasked { .. } => RECONNECTS_WITHIN,
        }
    }
}

/// Faults of a sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The sentinel does nothing for a while.
    Freeze,
    /// Its process dies and comes back.
    Kill,
    /// Its connections are closed.
    Reset,
    /// Its connections are dead without notice.
    Vanish,
    /// Another sentinel, of other primaries, takes its address for a while. If the proxy was configured with the address, it
    /// would have to believe that one: in that case nothing answers there.
    Replace,
}

impl Trouble {
    const ALL: [Trouble; 5] =
        [Trouble::Freeze, Trouble::Kill, Trouble::Reset, Trouble::Vanish, Trouble::Replace];
}

/// Sentinels that watch the primaries.
#[derive(Clone, Debug)]
pub struct Watching {
    /// By sentinel: it answers so late. The first does at once.
    pub slowness: Vec<Duration>,
    /// Number of sentinels in the proxy's configuration.
    pub named: usize,
    /// Number of sentinels that must find a primary down.
    pub quorum: usize,
    /// Replicas of each primary.
    pub replicas: usize,
}

/// Which kind of nodes a world has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each by itself, with replicas or without.
    Plain,
    /// Worlds with a Redis Cluster.
    Cluster,
    /// Primaries that sentinels watch.
    Sentinel,
}
/// Time after which all lost connections exist again: the proxy tries each node once a second or more often.
const RECONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// A world before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed, which decides everything else.
    pub seed: u64,
    /// Number of shards.
    pub shards: usize,
    /// Number of clients.
    pub clients: usize,
    /// Faults and their times, in order.
    pub faults: Vec<(Instant, Fault)>,
    /// Clients begin nothing new after this.
    pub quiet_at: Instant,
    /// Time at which the proxy is told to drain.
    pub drain_at: Option<Instant>,
    /// The slowest delivery.
    pub delay_max: Duration,
    /// The bounds that the proxy is given.
    pub limits: Limits,
    /// The proxy's treatment of commands over several shards.
    pub cross_shard: CrossShard,
    /// Where the keys of one transaction may be.
    pub transactions: Transactions,
    /// Clients are users with rights.
    pub has_users: bool,
    /// The nodes are a Redis Cluster.
    pub is_cluster: bool,
    /// Number of shards that have slots from the beginning. The others join later.
    pub joined: usize,
    /// Whether the proxy's own discovery finds changes.
    pub discovers: bool,
    /// Nodes that are none have replicas.
    pub is_replicated: bool,
    /// Sentinels that decide which node is the primary, if any.
    pub watching: Option<Watching>,
    /// Where reads go.
    pub reading: Reading,
    /// Each client has a key that it uses most of the time.
    pub has_favourites: bool,
    /// The nodes are a cache: a failing node is ejected for a while, and the others take its keys.
    pub ejecting: Option<Ejecting>,
    /// Delays of replicas, one of these at a time.
    pub lags: Vec<Duration>,
    /// Bandwidth of each node, over all its connections; `None` for no limit.
    pub node_bytes_per_s: Option<u64>,
    /// The worker is stopped now and then.
    pub has_stalls: bool,
    /// Clients are handed over now and then, as to the next process of an upgrade.
    pub hands_over: bool,
    topology: TopologySpec,
}

impl Plan {
    /// The same world, in which clients are handed over as in an upgrade.
    pub fn handing_over(self) -> Plan {
        Plan { hands_over: true, ..self }
    }

    /// The world of `seed`. One in four has no faults: it permits no error at all.
    pub fn new(seed: u64) -> Plan {
        let mut prng = Prng::new(seed);
        let shards = 1 + prng.below(6) as usize;
        let clients = 1 + prng.below(6) as usize;
        let fault_count = if prng.one_in(4) { 0 } else { 1 + prng.below(6) };
        let mut faults: Vec<_> =
            (0..fault_count).map(|_| (at(&mut prng, 8000), fault(&mut prng, shards))).collect();
        faults.sort_by_key(|(at, _)| *at);
        let quiet_at = Instant::ZERO + Duration::from_millis(2000 + prng.below(8000));
        let drain_at = prng.one_in(10).then(|| at(&mut prng, 6000));
        // In a world without errors, no delay may exceed a request's timeout.
        let delays: &[u64] = if fault_count == 0 { &[50, 500] } else { &[50, 500, 5_000, 50_000] };
        let delay_max = Duration::from_micros(*prng.pick(delays));
        let mut topology = topology(&mut prng, shards);
        let mut limits = limits(&mut prng, delay_max);
        // Gathered values may exceed a small memory limit. The judge could not tell that from a fault.
        let is_roomy = limits.engine.memory_bytes_max == Limits::default().engine.memory_bytes_max;
        let cross_shard = if is_roomy && prng.one_in(2) { CrossShard::Emulate } else { CrossShard::Refuse };
        let has_users = prng.one_in(4);
        let is_cluster = prng.one_in(3);
        if is_cluster {
            make_cluster(&mut faults, shards, &mut prng);
        }
        let watching = watching(seed).filter(|_| !is_cluster);
        let is_replicated = !is_cluster && prng.one_in(4) || watching.is_some();
        if is_replicated {
            let replicas = watching.as_ref().map_or(1, |watching| watching.replicas);
            add_replicas(&mut topology, &mut faults, (shards, replicas), watching.is_some());
        }
        let reading = match is_cluster && prng.one_in(2) || is_replicated {
            true => reading(&mut prng),
            false => Reading::default(),
        };
        let discovers = is_cluster && prng.one_in(2);
        if discovers && faults.iter().any(|(_, fault)| *fault != Fault::Migrate) {
            for _ in 0..prng.below(4) {
                let shard = prng.below(shards as u64) as u32;
                faults.push((at(&mut prng, 8000), Fault::CutOff { shard, lasts: lasts(&mut prng) }));
            }
        }
        if is_cluster || is_replicated {
            fault_replicas(&mut faults, shards, &mut prng);
        }
        if reading != Reading::default() {
            restart_replicas(&mut faults, shards, &mut prng);
        }
        if let Some(watching) = &watching {
            trouble_sentinels(&mut faults, shards, watching, &mut prng);
        }
        let lags = [0, 1, 20, 300, 2_000, 6_000].map(Duration::from_millis);
        // Reads from replicas are more interesting the longer replicas lag.
        let few = if reading != Reading::default() && prng.one_in(2) { 4 } else { 1 };
        let lags = lags[..few + prng.below(7 - few as u64) as usize].to_vec();
        let is_plain = !is_cluster && !is_replicated && cross_shard == CrossShard::Refuse;
        let ejecting = (is_plain && shards > 1 && prng.one_in(3)).then(|| ejecting(&mut prng));
        if ejecting.is_some() {
            if prng.one_in(2) {
                // A client with a pinned link sends one request at a time, which nothing overtakes.
                limits.engine.large_bytes = Limits::default().engine.large_bytes;
            }
            leave_often(&mut faults, shards, &mut prng);
            limits.slow_start = Duration::from_millis(*prng.pick(&[0, 0, 500, 5_000]));
        }
        let has_favourites = is_cluster || ejecting.is_some() || reading != Reading::default();
        if has_favourites && limits.engine.memory_bytes_max == SOME_MEMORY {
            // A client that asks for one large value all the time soon needs more memory than a low limit has.
            limits.engine.memory_bytes_max = Limits::default().engine.memory_bytes_max;
        }
        let may_join = is_cluster && shards > 1 && !faults.is_empty();
        let has_newcomer = may_join && (discovers || prng.one_in(2));
        let is_quiet = faults.is_empty() && watching.is_none() && delay_max < SLOW;
        let (node_bytes_per_s, has_stalls) = if is_quiet { burdens(seed) } else { (None, false) };
        Plan {
            seed,
            shards,
            joined: shards - usize::from(has_newcomer),
            clients,
            faults,
            quiet_at,
            drain_at,
            delay_max,
            limits,
            is_cluster,
            cross_shard,
            // Not drawn: other worlds stay as they were.
            transactions: if seed % 4 == 1 { Transactions::PerShard } else { Transactions::OneShard },
            has_users,
            discovers,
            is_replicated,
            watching,
            reading,
            has_favourites,
            ejecting,
            lags,
            node_bytes_per_s,
            has_stalls,
            hands_over: false,
            topology,
        }
    }

    /// Whether a client may be closed because too much is held for it.
    pub fn is_short_of_memory(&self) -> bool {
        self.limits.engine.memory_bytes_max == LITTLE_MEMORY
    }

    /// Whether the worker is overloaded, so that it holds incomplete answers for a turn: in every third world.
    pub fn is_pressed(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// Whether the network is so fast that no request can time out.
    pub fn is_fast(&self) -> bool {
        self.delay_max < SLOW
    }

    /// Whether the world permits no error of the contract and no closed connection.
    pub fn is_calm(&self) -> bool {
        let is_roomy =
            !(self.is_short_of_memory() || self.has_little_patience() || self.has_few_subscriptions());
        self.faults.is_empty() && self.drain_at.is_none() && self.is_fast() && is_roomy
    }

    /// Whether subscribers that do not read may be closed.
    pub fn has_little_patience(&self) -> bool {
        self.limits.subscriber_bytes_max == LITTLE_PATIENCE
    }

    /// Whether clients may be refused to subscribe to more.
    pub fn has_few_subscriptions(&self) -> bool {
        self.limits.subscription_bytes_max == FEW_SUBSCRIPTIONS
    }

    /// Which kind of nodes it has.
    pub fn kind(&self) -> Kind {
        match &self.watching {
            Some(_) => Kind::Sentinel,
            None if self.is_cluster => Kind::Cluster,
            None => Kind::Plain,
        }
    }

    /// Replicas of each primary.
    pub fn replicas(&self) -> usize {
        match &self.watching {
            Some(watching) => watching.replicas,
            None => usize::from(self.has_replicas()),
        }
    }

    /// Number of nodes, primaries and replicas.
    pub fn nodes(&self) -> usize {
        self.shards * (1 + self.replicas())
    }

    /// Whether each primary has a replica.
    pub fn has_replicas(&self) -> bool {
        self.is_cluster || self.is_replicated
    }

    /// Errors of the contract that are permitted even without faults.
    pub fn excuses(&self) -> &'static [&'static str] {
        match (self.is_cluster, self.reading.from) {
            // Before the replicas have reported their state.
            (false, ReadFrom::Replica) => &["no replica is readable"],
            // Several keys cannot be read while some of them have moved. The request is only retried if none follows it.
            // A node may get a slot between two requests of a client.
            (true, ReadFrom::Replica) => &["no replica is readable", "Multiple keys request", OVERTAKEN],
            (true, _) => &["Multiple keys request", OVERTAKEN],
            (false, _) => &[],
        }
    }

    /// Whether clients' reads may go to replicas.
    pub fn reads_replicas(&self) -> bool {
        self.reading != Reading::default()
    }

    /// The most bytes of a node that may arrive at once: those of a fiftieth of a second.
    pub fn piece_bytes_max(&self) -> usize {
        self.node_bytes_per_s.map_or(usize::MAX, |bytes| bytes as usize / 50)
    }

    /// The initial topology of this world.
    pub fn topology(&self) -> Topology {
        if self.is_cluster {
            return Cluster::new(self.shards, self.joined, false).topology(None);
        }
        Topology::new(1, &self.topology).expect("the plan's nodes are valid")
    }
}

/// The error for a declined request whose node has run a later one.
const OVERTAKEN: &str = "it was declined, and a later request of this client has run";

/// Adds a cluster's own faults: slots move, and replicas are promoted. No node forgets its data there.
fn make_cluster(faults: &mut Vec<(Instant, Fault)>, shards: usize, prng: &mut Prng) {
    for (_, fault) in faults.iter_mut() {
        if let Fault::Kill { forgets, .. } = fault {
            *forgets = false;
        }
    }
    if !faults.is_empty() {
        if prng.one_in(4) {
            // Nothing but slots that move.
            faults.clear();
            faults.push((at(prng, 1000), Fault::Migrate));
        }
        let is_all = faults[0].1 == Fault::Migrate;
        let moves = prng.below(60);
        faults.extend((0..moves).map(|_| (at(prng, 8000), Fault::Migrate)));
        let promotions = if is_all { 0 } else { prng.below(4) };
        for _ in 0..promotions {
            let shard = prng.below(shards as u64) as u32;
            faults.push((at(prng, 8000), Fault::Promote { shard, lasts: lasts(prng) }));
        }
        faults.sort_by_key(|(at, _)| *at);
    }
}

/// Each shard's primary has replicas, in another zone. Primaries lose no data, since their replicas would still have it.
fn add_replicas(
    topology: &mut TopologySpec,
    faults: &mut [(Instant, Fault)],
    (shards, replicas): (usize, usize),
    is_named: bool,
) {
    let node = |shard: usize| {
        let replica = |number: usize| format!("|10.0.0.{}:6379@b", number * shards + shard + 1);
        let replicas: String = (1..=replicas).map(replica).collect();
        format!("10.0.0.{}:6379@a{replicas}", shard + 1)
    };
    let nodes: Vec<String> = (0..shards).map(node).collect();
    topology.nodes = parse_nodes(&nodes.join(",")).expect("addresses as they should be");
    for (shard, node) in topology.nodes.iter_mut().enumerate().filter(|_| is_named) {
        node.name = Some(name_of(shard));
    }
    for (_, fault) in faults {
        if let Fault::Kill { forgets, .. } = fault {
            *forgets = false;
        }
    }
}

/// Faults strike replicas as well, and links.
fn fault_replicas(faults: &mut Vec<(Instant, Fault)>, shards: usize, prng: &mut Prng) {
    for (_, fault) in faults.iter_mut() {
        let strikes_replica = prng.one_in(2);
        if let Fault::Freeze { shard, .. }
        | Fault::Kill { shard, .. }
        | Fault::Reset { shard }
        | Fault::Garbage { shard }
        | Fault::Unasked { shard }
        | Fault::Full { shard, .. } = fault
        {
            *shard += if strikes_replica { shards as u32 } else { 0 };
        }
    }
    if faults.iter().any(|(_, fault)| *fault != Fault::Migrate) {
        for _ in 0..prng.below(4) {
            let shard = prng.below(2 * shards as u64) as u32;
            faults.push((at(prng, 8000), Fault::Unlink { shard, lasts: lasts(prng) }));
        }
        faults.sort_by_key(|(at, _)| *at);
    }
}

/// Replicas that serve reads restart so soon that they may not be missed.
fn restart_replicas(faults: &mut Vec<(Instant, Fault)>, shards: usize, prng: &mut Prng) {
    if faults.iter().all(|(_, fault)| *fault == Fault::Migrate) {
        return;
    }
    for _ in 0..prng.below(8) {
        let shard = (shards as u64 + prng.below(shards as u64)) as u32;
        let lasts = Duration::from_millis(*prng.pick(&[1, 20]));
        faults.push((at(prng, 8000), Fault::Kill { shard, lasts, loading: Duration::ZERO, forgets: false }));
    }
    faults.sort_by_key(|(at, _)| *at);
}

/// Whether sentinels decide, in every fifth world. These draws affect no other world.
fn watching(seed: u64) -> Option<Watching> {
    let mut prng = Prng::new(seed ^ 0x0005_e417_1ae1);
    if !prng.one_in(3) {
        return None;
    }
    let count = *prng.pick(&[1, 2, 3, 3, 3, 3, 4, 5]);
    let slow = |number: usize, prng: &mut Prng| match number > 0 && prng.one_in(6) {
        true => Duration::from_millis(*prng.pick(&[100, 600, 1_500])),
        false => Duration::ZERO,
    };
    let slowness = (0..count).map(|number| slow(number, &mut prng)).collect();
    let named = if prng.one_in(3) { 1 + prng.below(count as u64) as usize } else { count };
    let quorum = if prng.one_in(4) { 1 } else { count / 2 + 1 };
    Some(Watching { slowness, named, quorum, replicas: 1 + prng.below(2) as usize })
}

/// Bound of the delivery delay above which a network is slow.
const SLOW: Duration = Duration::from_millis(5);

/// Slow large replies of nodes, and pauses of the worker, in some of the worlds without faults. Every request still gets its
/// reply there. These draws affect no other world.
fn burdens(seed: u64) -> (Option<u64>, bool) {
    let mut prng = Prng::new(seed ^ 0x0b0e_de25);
    let bytes_per_s = prng.one_in(2).then(|| *prng.pick(&[300_000, 1_000_000, 5_000_000]));
    (bytes_per_s, prng.one_in(4))
}

/// A time after which statements of sentinels are out of date.
const LONG: Duration = Duration::from_secs(14);
/// Time during which one sentinel alone is with a primary.
pub(crate) const STRANDED_FOR: Duration = Duration::from_secs(16);

/// Adds the faults of sentinels to the usual ones.
fn trouble_sentinels(
    faults: &mut Vec<(Instant, Fault)>,
    shards: usize,
    watching: &Watching,
    prng: &mut Prng,
) {
    if faults.is_empty() {
        return;
    }
    let mut troubles = Vec::new();
    for _ in 0..prng.below(10) {
        let shard = prng.below(shards as u64) as u32;
        let node = prng.below((shards * (1 + watching.replicas)) as u64) as u32;
        let sentinel = prng.below(watching.slowness.len() as u64) as usize;
        let trouble = *prng.pick(&Trouble::ALL);
        let (at, lasts) = (at(prng, 8000), lasts(prng));
        let fault = match prng.below(12) {
            0..=2 => {
                // The sentinel that carries out a failover may die during it, and return only after the others have decided.
                let (trouble, lasts) = if prng.one_in(3) { (Trouble::Kill, LONG) } else { (trouble, lasts) };
                if prng.one_in(2) {
                    let at = at + Duration::from_millis(prng.below(1_200));
                    troubles.push((at, Fault::Sentinel { sentinel, trouble, lasts }));
                }
                Fault::Order { shard, sentinel }
            }
            3..=5 => Fault::CutOff { shard, lasts },
            6..=8 => Fault::Sentinel { sentinel, trouble, lasts },
            9 => Fault::Mistake { shard: node, lasts },
            10 => Fault::Kill { shard, lasts, loading: Duration::ZERO, forgets: false },
            _ if prng.one_in(4) => Fault::SetUp,
            _ => Fault::Freeze { shard, lasts },
        };
        troubles.push((at, fault));
    }
    if watching.named > 1 && watching.slowness.len() > 2 && prng.one_in(4) {
        let shard = prng.below(shards as u64) as u32;
        let sentinel = prng.below(watching.slowness.len() as u64) as usize;
        troubles.push((at(prng, 6000), Fault::Strand { shard, sentinel }));
    }
    faults.extend(troubles);
    faults.sort_by_key(|(at, _)| *at);
}

/// The read policy of a world: one of those that use replicas.
fn reading(prng: &mut Prng) -> Reading {
    use ReadFrom::{Any, Nearest, PreferPrimary, PreferReplica, Primary, Replica, Zone};
    let from = *prng.pick(&[Any, Nearest, PreferPrimary, PreferReplica, Primary, Replica, Zone]);
    Reading {
        from,
        zone: Some("b".to_owned()),
        lag_bytes_max: *prng.pick(&[None, None, Some(300), Some(5_000)]),
        covers_for_primary: prng.one_in(4),
        ..Reading::default()
    }
}

/// Ejection with few failures and at least this time.
fn ejecting(prng: &mut Prng) -> Ejecting {
    let retry_after = Duration::from_millis(*prng.pick(&[20, 300, 2_000]));
    Ejecting { failures_max: 1 + prng.below(3) as u32, retry_after }
}

/// Nodes leave and return while others hang, so that requests are in flight to nodes that have keys for a while.
fn leave_often(faults: &mut Vec<(Instant, Fault)>, shards: usize, prng: &mut Prng) {
    if faults.is_empty() {
        return;
    }
    for _ in 0..15 * shards {
        let shard = prng.below(shards as u64) as u32;
        let lasts = Duration::from_millis(*prng.pick(&[100, 300]));
        let fault = match prng.below(4) {
            0 => Fault::Kill { shard, lasts, loading: Duration::ZERO, forgets: false },
            _ => Fault::Freeze { shard, lasts },
        };
        faults.push((at(prng, 8000), fault));
    }
    faults.sort_by_key(|(at, _)| *at);
}

/// The largest values and their copies do not fit into it.
const LITTLE_MEMORY: usize = 300_000;
/// All that is usually on the way does.
const SOME_MEMORY: usize = 30 * LITTLE_MEMORY;

/// More may wait for a subscriber that is asleep.
const LITTLE_PATIENCE: usize = 20_000;
/// Some clients may subscribe to some topics.
const FEW_SUBSCRIPTIONS: usize = 2_000;
/// A limit of tracked keys so low that keys must be forgotten.
const FEW_TRACKED: usize = 1_500;

/// In most worlds nearly everything counts as large, few clients may have pinned links, and few bytes may wait for a receiver.
fn limits(prng: &mut Prng, delay_max: Duration) -> Limits {
    let defaults = Limits::default();
    // Large values are transferred one at a time. On a slow network that could take longer than a world lasts.
    let large_bytes: &[usize] = match delay_max < SLOW {
        true => &[30, 200, 2_000, defaults.engine.large_bytes],
        false => &[5_000, defaults.engine.large_bytes],
    };
    let large_bytes = *prng.pick(large_bytes);
    let pinned_clients_max = *prng.pick(&[1, 2, defaults.engine.pinned_clients_max]);
    let relay_bytes_max = *prng.pick(&[1, 100, defaults.engine.relay_bytes_max]);
    let memory_bytes_max = *prng.pick(&[LITTLE_MEMORY, SOME_MEMORY, defaults.engine.memory_bytes_max]);
    let pass_over_bytes_max = *prng.pick(&[1, 10_000, defaults.engine.pass_over_bytes_max]);
    let subscriber_bytes_max = *prng.pick(&[LITTLE_PATIENCE, defaults.subscriber_bytes_max]);
    let has_few = prng.one_in(8);
    let subscription_bytes_max = if has_few { FEW_SUBSCRIPTIONS } else { defaults.subscription_bytes_max };
    let tracked_bytes_max = *prng.pick(&[FEW_TRACKED, defaults.tracked_bytes_max]);
    let engine = EngineLimits {
        large_bytes,
        // A request in several pieces, or each in one of its own.
        piece_bytes_max: if large_bytes < 1_000 { large_bytes } else { defaults.engine.piece_bytes_max },
        pinned_clients_max,
        relay_bytes_max,
        memory_bytes_max,
        pass_over_bytes_max,
        pinned_idle: *prng.pick(&[Duration::from_millis(1), defaults.engine.pinned_idle]),
        ..defaults.engine
    };
    Limits { engine, subscriber_bytes_max, subscription_bytes_max, tracked_bytes_max, ..defaults }
}

fn at(prng: &mut Prng, ms_max: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(prng.below(ms_max * 1000))
}

fn lasts(prng: &mut Prng) -> Duration {
    Duration::from_millis(*prng.pick(&[1, 20, 300, 900, 1100, 2500, 4000]))
}

fn fault(prng: &mut Prng, shards: usize) -> Fault {
    let shard = prng.below(shards as u64) as u32;
    match prng.below(8) {
        0 | 1 => Fault::Freeze { shard, lasts: lasts(prng) },
        2 | 3 => {
            let loading = if prng.one_in(2) { lasts(prng) } else { Duration::ZERO };
            Fault::Kill { shard, lasts: lasts(prng), loading, forgets: prng.one_in(4) }
        }
        4 => Fault::Reset { shard },
        5 => Fault::Vanish { shard },
        6 if prng.one_in(2) => Fault::Garbage { shard },
        6 => Fault::Unasked { shard },
        _ => Fault::Full { shard, lasts: lasts(prng) },
    }
}

fn topology(prng: &mut Prng, shards: usize) -> TopologySpec {
    let nodes: Vec<String> = (0..shards).map(|shard| format!("10.0.0.{}:6379", shard + 1)).collect();
    let nodes = parse_nodes(&nodes.join(",")).expect("addresses as they should be");
    let distribution = *prng.pick(&[Distribution::Modulo, Distribution::Ketama, Distribution::Slots]);
    let hash = match distribution {
        Distribution::Slots => None,
        _ => Some(*prng.pick(&[HashFunction::Crc32a, HashFunction::Fnv1ax64, HashFunction::Murmur])),
    };
    let tag_rule = Some(*prng.pick(&[TagRule::Sml, TagRule::Redis, TagRule::None]));
    TopologySpec { nodes, distribution, hash, tag_rule }
}
