//! The named limits of one worker, and its settings at start.
//!
//! If the proxy itself makes the replies for a client, the client gets some of them in this turn and continues in the
//! next. So other clients get their share of this turn. Requests that ask all shards or all workers for a list (KEYS,
//! SLOWLOG GET, CLIENT LIST) are carried out one by one.

use crate::link::profile::DATABASES_MAX;
use crate::login::credentials::Credentials;
use crate::namespace::{Namespaces, Routed};
use crate::policy::Policies;
use crate::reading::Reading;
use crate::topology_update::ejection::Ejecting;
use command::NewEvaluator;
use engine::limits::SPARE_BUFFER_BYTES_MAX;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use users::Registry;

/// Every queue, wait and retry of the core has its bound here.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Limits of clients and links, whatever the features.
    pub engine: engine::limits::Limits,
    /// Bytes of all commands of one transaction. A command that does not fit is refused, and EXEC then fails.
    pub transaction_bytes_max: usize,
    /// Shards, or slots of a cluster, of the keys of one transaction. A command that names one more is refused, and
    /// EXEC then fails.
    pub transaction_parts_max: usize,
    /// Shards, or slots of a cluster, of the keys that one client watches: each takes a link. A WATCH that would need
    /// one more is refused.
    pub watched_parts_max: usize,
    /// Clients of all workers. Further ones get Redis's error and are closed.
    pub clients_max: usize,
    /// Like `output_bytes_max`, for a client with subscriptions: Redis's hard `client-output-buffer-limit pubsub`. A
    /// single message may be larger.
    pub subscriber_bytes_max: usize,
    /// The soft limit: a subscriber with more bytes waiting for all of `subscriber_patience` is closed.
    pub subscriber_bytes_soft: usize,
    /// See `subscriber_bytes_soft`.
    pub subscriber_patience: Duration,
    /// Bytes for the subscriptions of all clients of one worker: their names, and some hundred bytes for each topic and
    /// each subscription. Further ones are refused.
    pub subscription_bytes_max: usize,
    /// Bytes of a pattern that is matched here (PSUBSCRIBE, PUBSUB CHANNELS). A longer one is refused: the steps of a
    /// comparison grow with the product of the lengths of pattern and channel.
    pub pattern_bytes_max: usize,
    /// Bytes for the keys that the clients of one worker track (CLIENT TRACKING). Above it, some keys are dropped, and
    /// their clients are notified as if the keys had changed.
    pub tracked_bytes_max: usize,
    /// Bytes of the prefixes that one client names with CLIENT TRACKING … PREFIX. With more, it is refused.
    pub prefix_bytes_max: usize,
    /// Bytes of all scripts that a process keeps, and of all libraries of functions. The oldest scripts are dropped
    /// first. A library that does not fit is not kept, and not restored on a node that loses it.
    pub script_bytes_max: usize,
    /// Bytes of the names and rules of all users. An ACL SETUSER beyond it is refused. An ACL file may have more.
    pub user_bytes_max: usize,
    /// Inquiries of all clients of one worker that wait for other workers, for all nodes or for time (CLIENT LIST,
    /// INFO, WAIT). Further ones are refused at once.
    pub inquiries_max: usize,
    /// Names or numbers in one request whose replies may be larger than themselves: COMMAND INFO, CLIENT LIST ID. With
    /// more, the request is refused.
    pub names_max: usize,
    /// Bytes of buffers of one worker's finished MGETs that are kept for later ones.
    pub spare_values_bytes_max: usize,
    /// Links that the clients of one worker may hold while they watch keys or wait for elements. Further such requests
    /// are refused at once.
    pub held_conns_max: usize,
    /// Time after which the links of a profile without clients are closed.
    pub profile_idle: Duration,
    /// Links of all profiles of a worker but the first: enough for four nodes and 128 databases in both versions of the
    /// protocol. Requests that need more are refused at once.
    pub profile_nodes_max: usize,
    /// With identities from the nodes: users and passwords with which clients of one worker may be logged in at the
    /// same time. A login beyond it is refused.
    pub identities_max: usize,
    /// Time between two inspections of a node's role.
    pub inspect_every: Duration,
    /// Time between two questions for the replication offsets of a primary and its replicas, while clients read.
    pub replica_poll_every: Duration,
    /// The same while a client waits for its own writes at a replica.
    pub replica_poll_soon: Duration,
    /// The same while no client reads.
    pub replica_poll_idle: Duration,
    /// Time after which a replica is not read from if it has neither answered this question nor sent anything else.
    pub replica_silence_max: Duration,
    /// Time for which a client reads its own writes from the primary, if nodes do not tell their offsets.
    pub own_write_patience: Duration,
    /// Time until a node that comes back has its share again: of keys after an ejection, or of reads after a replica
    /// was lost. Zero: at once.
    pub slow_start: Duration,
    /// Time after which idle clients are closed; zero for never. Redis's `timeout`.
    pub idle_timeout: Duration,
    /// Bytes of values that one command over several shards may gather, both by the nodes' estimate (MEMORY USAGE) and
    /// as they come. Above it, the command is refused. This bounds how long the worker's other clients wait for it.
    pub cross_shard_bytes_max: usize,
    /// Keys whose values one command over several shards may gather. With more, it is refused. Each key takes two
    /// requests in flight to one node, which takes [`engine::limits::Limits::in_flight_max`] of all clients.
    pub cross_shard_keys_max: usize,
    /// Commands that are remembered after a node has described them.
    pub learned_max: usize,
    /// Time for which a command that no node knows is remembered as such.
    pub unknown_for: Duration,
}

impl Limits {
    /// These limits for one of `workers` workers of a process that may use `process_bytes`. Everything that is held
    /// must fit. Buffers grow by doubling, so half of the memory is left to them.
    pub fn within_memory(self, process_bytes: usize, workers: usize) -> Limits {
        let shared = process_bytes / 32;
        let script_bytes_max = self.script_bytes_max.min(shared);
        let user_bytes_max = self.user_bytes_max.min(shared);
        // Scripts, libraries of functions and users exist once for all workers.
        let shared = PROCESS_BYTES + 2 * script_bytes_max + user_bytes_max;
        let memory = process_bytes.saturating_sub(shared) / workers / 2;
        let limits = self.engine;
        let engine = engine::limits::Limits {
            memory_bytes_max: memory,
            request_bytes_max: limits.request_bytes_max.min(memory),
            reply_bytes_max: limits.reply_bytes_max.min(memory),
            output_bytes_max: limits.output_bytes_max.min(memory / 2),
            output_bytes_soft: limits.output_bytes_soft.min(memory / 4),
            link_output_bytes_max: limits.link_output_bytes_max.min(memory),
            // A share for each of some dozens of busy clients.
            pending_bytes_max: limits.pending_bytes_max.min(memory / 128),
            large_bytes: limits.large_bytes.min((memory / 128).max(LARGE_BYTES_MIN)),
            pinned_clients_max: limits.pinned_clients_max.min((memory / 4 / PINNED_CLIENT_BYTES).max(1)),
            spare_buffers_max: limits.spare_buffers_max.min(memory / 8 / SPARE_BUFFER_BYTES_MAX),
            // The sizes of buffers are powers of two.
            piece_bytes_max: limits
                .piece_bytes_max
                .min(1 << (memory / 64).max(SPARE_BUFFER_BYTES_MAX).ilog2()),
            ..limits
        };
        Limits {
            engine,
            // Below the limit that closes the client, so that the client gets the error.
            transaction_bytes_max: self.transaction_bytes_max.min(memory / 4),
            subscriber_bytes_max: self.subscriber_bytes_max.min(memory / 4),
            subscriber_bytes_soft: self.subscriber_bytes_soft.min(memory / 8),
            subscription_bytes_max: self.subscription_bytes_max.min(memory / 8),
            tracked_bytes_max: self.tracked_bytes_max.min(memory / 8),
            prefix_bytes_max: self.prefix_bytes_max.min(memory / 64),
            script_bytes_max,
            user_bytes_max,
            cross_shard_bytes_max: self.cross_shard_bytes_max.min(memory / 8),
            spare_values_bytes_max: self.spare_values_bytes_max.min(memory / 16),
            ..self
        }
    }
}

/// Memory of the process itself. 8 to 9 MB are resident once all of its code has run, and the allocator returns memory
/// slowly.
const PROCESS_BYTES: usize = 10 << 20;
/// A smaller size never counts as large.
const LARGE_BYTES_MIN: usize = 20 << 10;
/// Memory of a pinned client: a piece from each of some nodes, and one for itself.
const PINNED_CLIENT_BYTES: usize = 512 << 10;
/// Capacity that the scratch space for our own and merged replies keeps.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 256 << 10;
/// A longer client name is refused. A list of all names is as large as they are.
pub(crate) const CLIENT_NAME_BYTES_MAX: usize = 1024;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            engine: engine::limits::Limits::default(),
            // A pipeline of a million small commands that a client library sends between MULTI and EXEC.
            transaction_bytes_max: 64 << 20,
            // Each takes a few µs of a turn in which no other client is served.
            transaction_parts_max: 4096,
            watched_parts_max: 64,
            clients_max: 10_000,
            subscriber_bytes_max: 32 << 20,
            subscriber_bytes_soft: 8 << 20,
            subscriber_patience: Duration::from_secs(60),
            subscription_bytes_max: 64 << 20,
            pattern_bytes_max: 1 << 10,
            tracked_bytes_max: 64 << 20,
            prefix_bytes_max: 1 << 20,
            script_bytes_max: 16 << 20,
            user_bytes_max: 16 << 20,
            inquiries_max: 1 << 16,
            // Ten times the number of commands. Their descriptions are 2 MB and take some milliseconds.
            names_max: 4096,
            spare_values_bytes_max: 16 << 20,
            // A node accepts 10,000 clients by default. Four workers with all their other links stay below.
            held_conns_max: 2048,
            profile_idle: Duration::from_secs(5),
            profile_nodes_max: 1024,
            // As many as there may be links of such users.
            identities_max: 1024,
            inspect_every: Duration::from_secs(10),
            // An answer takes a node some 10 µs. For 16 workers this is a fiftieth of its time, with the next value a
            // sixth.
            replica_poll_every: Duration::from_millis(100),
            replica_poll_soon: Duration::from_millis(10),
            replica_poll_idle: Duration::from_secs(1),
            replica_silence_max: Duration::from_millis(300),
            own_write_patience: Duration::from_secs(1),
            // A tenth each second. This is slow enough to see a node fail again. A database behind a cache gets a tenth
            // of the requests that miss in the same second.
            slow_start: Duration::from_secs(10),
            idle_timeout: Duration::ZERO,
            // 70,000 members of sets, or half as many of sorted sets. They took 50 to 70 ms.
            cross_shard_bytes_max: 4 << 20,
            cross_shard_keys_max: 4096,
            learned_max: 1024,
            unknown_for: Duration::from_secs(10),
        }
    }
}

/// The treatment of commands that cannot be split and whose keys are on several shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossShard {
    /// The command is refused, as by Redis Cluster.
    #[default]
    Refuse,
    /// Values are gathered and results written, where there is a plan for the command. Not atomic.
    Emulate,
}

impl fmt::Display for CrossShard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            CrossShard::Refuse => "refuse",
            CrossShard::Emulate => "emulate",
        })
    }
}

impl fmt::Display for Transactions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Transactions::OneShard => "one-shard",
            Transactions::PerShard => "per-shard",
        })
    }
}

/// The keys that one transaction may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transactions {
    /// Keys of one shard, in a cluster of one slot. The transaction is atomic.
    #[default]
    OneShard,
    /// Any keys. Each shard gets a transaction of its own, which is atomic; the whole is not.
    PerShard,
}

/// The requests that are noted in PROXY SLOWLOG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowlog {
    /// Microseconds from which on a request is slow; `None` for none.
    pub slower_than_us: Option<u32>,
    /// A request is a sample after this number of others; `None` for no samples.
    pub one_in: Option<NonZeroU64>,
    /// Number of slow requests that are kept.
    pub len_max: usize,
}

impl Slowlog {
    /// No request takes so long: the longest time that the clock of tickets can tell.
    const NEVER_US: u32 = u32::MAX;

    /// The shortest time of a slow request.
    pub(crate) fn slow_us(self) -> u32 {
        self.slower_than_us.unwrap_or(Slowlog::NEVER_US)
    }

    /// Whether requests are kept until they are answered.
    pub(crate) fn is_on(self) -> bool {
        self.slower_than_us.is_some() || self.one_in.is_some()
    }
}

impl Default for Slowlog {
    fn default() -> Slowlog {
        Slowlog { slower_than_us: Some(10_000), one_in: None, len_max: 128 }
    }
}

/// The authority for identities and permissions of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authority {
    /// The proxy, by [`Settings::registry`].
    #[default]
    Proxy,
    /// The nodes: they get the client's AUTH, and its requests use links of its own user.
    Nodes,
}

/// Facts about the process for INFO.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The number of the process.
    pub id: u32,
    /// The program's file.
    pub executable: Arc<str>,
    /// The configuration file; empty without one.
    pub config_file: Arc<str>,
}

/// Settings of one worker's core at start, beside its limits and topology.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of this worker, from 0.
    pub worker: usize,
    /// The number of workers. Client ids are unique among all of them.
    pub workers: usize,
    /// The seed for jitter and RANDOMKEY.
    pub seed: u64,
    /// The seed of the run id, which all workers of a process share.
    pub process_seed: u64,
    /// Microseconds from 1970 to `Instant::ZERO`.
    pub unix_epoch_us: u64,
    /// Facts about the process for INFO.
    pub process: Process,
    /// Port of the listener, for INFO and CONFIG GET; 0 if it has none.
    pub port: u16,
    /// Number of databases, up to [`Settings::DATABASES_MAX`]. Nodes must have as many.
    pub databases: u16,
    /// Whether clients may change the nodes: CONFIG SET, DEBUG, and further commands that the command table then
    /// permits.
    pub allow_admin: bool,
    /// See [`CrossShard`].
    pub cross_shard: CrossShard,
    /// Runs commands on values that were gathered from several shards. Without one, such commands are refused, and
    /// their arguments are not checked.
    pub evaluator: Option<NewEvaluator>,
    /// See [`Transactions`].
    pub transactions: Transactions,
    /// See [`Slowlog`].
    pub slowlog: Slowlog,
    /// The policy for reads.
    pub reading: Reading,
    /// The rule for the ejection of nodes that fail; `None` for no ejection.
    pub ejecting: Option<Ejecting>,
    /// See [`Authority`].
    pub authority: Authority,
    /// Whether named nodes are inspected: see `link/inspection.rs`.
    pub inspects_nodes: bool,
    /// See [`Access`].
    pub access: Access,
    /// Users and their permissions, which all workers of a process share.
    pub registry: Arc<Registry>,
    /// Our credentials at the nodes.
    pub credentials: Credentials,
}

/// The rules for clients beside the permissions of their users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether clients from other machines are refused while the default user has no password, as by Redis.
    pub protected_mode: bool,
    /// The policies of listeners.
    pub policies: Policies,
    /// The namespaces of users.
    pub namespaces: Namespaces,
    /// Whether a password alone says who a client is.
    pub by_password: bool,
    /// The routes of other pools of this process.
    pub routed: Routed,
}

impl Settings {
    /// The limit of databases: the links of each need a profile number.
    pub const DATABASES_MAX: u16 = DATABASES_MAX;
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            worker: 0,
            workers: 1,
            seed: 0,
            process_seed: 0,
            unix_epoch_us: 0,
            process: Process::default(),
            port: 0,
            databases: 16,
            allow_admin: false,
            cross_shard: CrossShard::Refuse,
            evaluator: None,
            transactions: Transactions::default(),
            slowlog: Slowlog::default(),
            reading: Reading::default(),
            ejecting: None,
            authority: Authority::default(),
            inspects_nodes: false,
            access: Access::default(),
            registry: Arc::default(),
            credentials: Credentials::default(),
        }
    }
}
