//! The named bounds of one worker, and what it is told at start.
//!
//! A client whose answers the proxy makes itself goes on in the next turn once it has read some, so that others have their share of
//! this one. Requests that ask all shards or all workers for a list (KEYS, SLOWLOG GET, CLIENT LIST) are carried out one by one.

use crate::link::profile::DATABASES_MAX;
use crate::login::credentials::Credentials;
use crate::reading::Reading;
use crate::topology_update::ejection::Ejecting;
use command::NewEvaluator;
use engine::limits::SPARE_BUFFER_BYTES_MAX;
use std::sync::Arc;
use std::time::Duration;
use users::Registry;

/// Every queue, wait and retry of the core has its bound here.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Those of clients and links, whatever the features.
    pub engine: engine::limits::Limits,
    /// Bytes of all commands of one transaction. The one that does not fit is refused, and EXEC then fails.
    pub transaction_bytes_max: usize,
    /// Shards, or slots of a cluster, that one transaction may have keys of. The command that names one more is refused, and
    /// EXEC then fails.
    pub transaction_parts_max: usize,
    /// Shards, or slots of a cluster, of which one client may watch keys: each takes a connection. A WATCH that would need
    /// one more is refused.
    pub watched_parts_max: usize,
    /// Clients of all workers together. More are told so and closed, with Redis's words.
    pub clients_max: usize,
    /// The same as `output_bytes_max` for a client that is subscribed to something: Redis's
    /// `client-output-buffer-limit pubsub`, hard. One single message may be larger.
    pub subscriber_bytes_max: usize,
    /// The soft limit: a subscriber for whom more than this has waited for `subscriber_patience` without a pause is
    /// closed.
    pub subscriber_bytes_soft: usize,
    /// See `subscriber_bytes_soft`.
    pub subscriber_patience: Duration,
    /// Bytes that the subscriptions of all clients of one worker are counted for: names, and some hundred bytes for each
    /// topic and each subscription. Above it no more are taken.
    pub subscription_bytes_max: usize,
    /// Bytes of a pattern by which channels are matched here (PSUBSCRIBE, PUBSUB CHANNELS). A longer one is refused: a
    /// comparison takes steps by the product of the lengths of pattern and channel.
    pub pattern_bytes_max: usize,
    /// Bytes that keys which clients have read that track (CLIENT TRACKING), of one worker, are counted for. Above it some
    /// are forgotten, and the clients are told as if they had changed.
    pub tracked_bytes_max: usize,
    /// Bytes of the beginnings of keys that one client names with CLIENT TRACKING … PREFIX. With more, it is refused.
    pub prefix_bytes_max: usize,
    /// Bytes of all scripts that a process keeps, and of all libraries of functions. The oldest scripts go first; a library that
    /// does not fit is not kept: a node that loses it is not given it again.
    pub script_bytes_max: usize,
    /// Bytes of the names and rules of all users. An ACL SETUSER that makes them more is refused. An ACL file may have more.
    pub user_bytes_max: usize,
    /// Questions that wait for other workers, for all nodes or for time (CLIENT LIST, INFO, WAIT), of all clients of one
    /// worker. Above it such requests are refused at once.
    pub inquiries_max: usize,
    /// Names or numbers of which one request may ask for more bytes than they have: COMMAND INFO, CLIENT LIST ID. With
    /// more it is refused.
    pub names_max: usize,
    /// Bytes of what is kept of one worker's finished MGETs for the next ones.
    pub spare_values_bytes_max: usize,
    /// Connections that clients of one worker may hold: while they watch keys, and while they wait for elements. With
    /// more, such requests are refused at once.
    pub held_conns_max: usize,
    /// The connections of a profile that no client was in for so long are closed.
    pub profile_idle: Duration,
    /// Connections of all profiles of a worker but the first: enough for four nodes and 128 databases in both versions of
    /// the protocol. Requests that would need more are refused at once.
    pub profile_nodes_max: usize,
    /// Where the nodes decide who clients are: users and passwords that clients of one worker may be logged in by at once.
    /// Who would be one more is refused.
    pub identities_max: usize,
    /// Named nodes are asked for their roles so often.
    pub inspect_every: Duration,
    /// How often a primary and its replicas are asked how far they are, while somebody reads.
    pub replica_poll_every: Duration,
    /// The same while somebody waits for a replica to have what he wrote.
    pub replica_poll_soon: Duration,
    /// The same while nobody reads.
    pub replica_poll_idle: Duration,
    /// A replica that has not answered that, and from which nothing else has come, for so long is not read from.
    pub replica_silence_max: Duration,
    /// For so long a client reads from the primary what it wrote there, if nodes do not tell how far they are.
    pub own_write_patience: Duration,
    /// So long it takes until a node that comes back has its share again: of the keys, if it was left out; of reads, if it is
    /// a replica that was lost. None: it has it at once.
    pub slow_start: Duration,
    /// Idle clients are closed after this; zero for never. Redis's `timeout`.
    pub idle_timeout: Duration,
    /// Bytes of values that one command over several shards may gather, both by the nodes' estimate (MEMORY USAGE) and as
    /// they come. Above it the command is refused. It bounds how long a worker's other clients wait for it.
    pub cross_shard_bytes_max: usize,
    /// Keys of one command over several shards whose values are gathered. With more it is refused. Each of them is two
    /// requests at once to one node, which takes [`engine::limits::Limits::in_flight_max`] of all clients.
    pub cross_shard_keys_max: usize,
    /// Commands learnt from nodes that are remembered.
    pub learned_max: usize,
    /// How long a command that no node knows is remembered as such.
    pub unknown_for: Duration,
}

impl Limits {
    /// These limits for one of `workers` workers of a process that may have `process_bytes` of memory: nothing may be
    /// held that does not fit. Buffers grow by doubling, so half of the memory is left to them.
    pub fn within_memory(self, process_bytes: usize, workers: usize) -> Limits {
        let shared = process_bytes / 32;
        let script_bytes_max = self.script_bytes_max.min(shared);
        let user_bytes_max = self.user_bytes_max.min(shared);
        // Scripts, libraries of functions, and users are there once for all workers.
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
            // Buffers have sizes that are powers of two.
            piece_bytes_max: limits
                .piece_bytes_max
                .min(1 << (memory / 64).max(SPARE_BUFFER_BYTES_MAX).ilog2()),
            ..limits
        };
        Limits {
            engine,
            // Below what closes the client: it is to hear why.
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

/// What the process needs for itself: 8 to 9 MB are resident once all of its code has run, and the allocator is slow to give
/// back what it has.
const PROCESS_BYTES: usize = 10 << 20;
/// What is smaller than this is never treated as large.
const LARGE_BYTES_MIN: usize = 20 << 10;
/// What a client with connections of its own holds: a piece from each of some nodes, and one for itself.
const PINNED_CLIENT_BYTES: usize = 512 << 10;
/// Capacity that the scratch space for replies of ours and merged ones keeps.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 256 << 10;
/// Longer names of clients are refused. A listing of all of them is as large as they are.
pub(crate) const CLIENT_NAME_BYTES_MAX: usize = 1024;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            engine: engine::limits::Limits::default(),
            // A pipeline of a million small commands that a client library wraps up in MULTI and EXEC.
            transaction_bytes_max: 64 << 20,
            // Each is a few µs of a turn in which nobody else is served.
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
            // Ten times as many commands as there are. Their descriptions are 2 MB and take some milliseconds.
            names_max: 4096,
            spare_values_bytes_max: 16 << 20,
            // A node takes 10,000 clients as Redis comes; four workers and what else they need stay below.
            held_conns_max: 2048,
            profile_idle: Duration::from_secs(5),
            profile_nodes_max: 1024,
            // As many as there may be connections of theirs.
            identities_max: 1024,
            inspect_every: Duration::from_secs(10),
            // An answer takes a node some 10 µs: for 16 workers this is a fiftieth of its time, and the one below a sixth.
            replica_poll_every: Duration::from_millis(100),
            replica_poll_soon: Duration::from_millis(10),
            replica_poll_idle: Duration::from_secs(1),
            replica_silence_max: Duration::from_millis(300),
            own_write_patience: Duration::from_secs(1),
            // A tenth each second: enough to see a node fail again, and what is behind a cache is asked for a tenth of what
            // the node misses in the same second.
            slow_start: Duration::from_secs(10),
            idle_timeout: Duration::ZERO,
            // 70,000 members of sets or half as many of sorted sets, which took 50 ms to 70 ms.
            cross_shard_bytes_max: 4 << 20,
            cross_shard_keys_max: 4096,
            learned_max: 1024,
            unknown_for: Duration::from_secs(10),
        }
    }
}

/// What becomes of a command whose keys live on several shards and that cannot be split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossShard {
    /// It is refused, as Redis Cluster does.
    #[default]
    Refuse,
    /// Its values are gathered and what comes of them is written, where there is a way; not atomic.
    Emulate,
}

/// Where the keys of one transaction may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transactions {
    /// On one shard, in a cluster in one slot: it is atomic.
    #[default]
    OneShard,
    /// Anywhere: each shard gets a transaction of its own, which is atomic, and the whole is not.
    PerShard,
}

/// Who decides who a client is and what it may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authority {
    /// The proxy, by [`Settings::registry`].
    #[default]
    Proxy,
    /// The nodes: what a client says in AUTH is said to them, and its requests go over connections of its own user.
    Nodes,
}

/// What INFO says of the process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// The program's file.
    pub executable: Arc<str>,
    /// The configuration file; empty without one.
    pub config_file: Arc<str>,
}

/// What one worker's core is told at start beside its limits and topology.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which worker this is, from 0.
    pub worker: usize,
    /// How many there are. Client ids are unique over all of them.
    pub workers: usize,
    /// Decides jitter and RANDOMKEY.
    pub seed: u64,
    /// Decides the run id; the same for all workers of a process.
    pub process_seed: u64,
    /// Microseconds from 1970 to `Instant::ZERO`.
    pub unix_epoch_us: u64,
    /// What INFO says of the process.
    pub process: Process,
    /// Port of the listener, for INFO and CONFIG GET; 0 if it has none.
    pub port: u16,
    /// How many databases clients may choose from, up to [`Settings::DATABASES_MAX`]. Nodes must have as many.
    pub databases: u16,
    /// Whether clients may change the nodes: CONFIG SET, DEBUG, and what else the command table lets through then.
    pub allow_admin: bool,
    /// See there.
    pub cross_shard: CrossShard,
    /// Runs commands over values that were gathered from several shards. Without one, such commands are refused, and their
    /// arguments are not checked.
    pub evaluator: Option<NewEvaluator>,
    /// See there.
    pub transactions: Transactions,
    /// Where reads go.
    pub reading: Reading,
    /// When a node that fails is left out, so that its keys go to others.
    pub ejecting: Option<Ejecting>,
    /// See there.
    pub authority: Authority,
    /// Whether nodes that are named are asked what they are: see `link/inspection.rs`.
    pub inspects_nodes: bool,
    /// Whether clients from other machines are denied as long as user default has no password, as by Redis.
    pub protected_mode: bool,
    /// Who may do what; the same for all workers of a process.
    pub registry: Arc<Registry>,
    /// Who we are to the nodes.
    pub credentials: Credentials,
}

impl Settings {
    /// More databases cannot be had: there is a number for the connections of each.
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
            reading: Reading::default(),
            ejecting: None,
            authority: Authority::default(),
            inspects_nodes: false,
            protected_mode: false,
            registry: Arc::default(),
            credentials: Credentials::default(),
        }
    }
}
