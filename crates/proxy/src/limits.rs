//! The named bounds of one worker, and what it is told at start.

use crate::link::profiles;
use crate::login::credentials::Credentials;
use crate::reading::Reading;
use crate::topology_update::ejection::Ejecting;
use command::NewEvaluator;
use resp::reply::ReplyLimits;
use resp::request::RequestLimits;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;
use users::Registry;

/// Every queue, wait and retry of the core has its bound here.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bounds on one request.
    pub request: RequestLimits,
    /// Bounds on one reply.
    pub reply: ReplyLimits,
    /// Bytes of one request as a whole. More is a protocol error.
    pub request_bytes_max: usize,
    /// Bytes of all commands of one transaction. The one that does not fit is refused, and EXEC then fails.
    pub transaction_bytes_max: usize,
    /// Shards, or slots of a cluster, that one transaction may have keys of. The command that names one more is refused, and
    /// EXEC then fails.
    pub transaction_parts_max: usize,
    /// Shards, or slots of a cluster, of which one client may watch keys: each takes a connection. A WATCH that would need
    /// one more is refused.
    pub watched_parts_max: usize,
    /// Bytes of one reply as a whole. More closes the connection to the node.
    pub reply_bytes_max: usize,
    /// Clients of all workers together. More are told so and closed, with Redis's words.
    pub clients_max: usize,
    /// Requests of one client that may be pending at once. Above it the client is not read from. The core lowers it
    /// while several clients wait: see `pending_shared`.
    pub pending_max: usize,
    /// Requests of all clients together that may be pending before those with deep pipelines get less than
    /// `pending_max`: a node works through what is in flight in order, so that each of them makes all others wait.
    pub pending_shared: usize,
    /// But so many of each client may always be pending: fewer would cost throughput.
    pub pending_min: usize,
    /// Bytes of replies that one client may have on the way, estimated from the size of its last replies. Above it
    /// the client is not read from. A single reply may be larger.
    pub pending_bytes_max: usize,
    /// Replies that wait for one client in bytes. Above it the client is closed: Redis's
    /// `client-output-buffer-limit normal`, hard. One single reply may be larger.
    pub output_bytes_max: usize,
    /// The soft limit: with more than this waiting, a client that takes not one byte for `output_stall` is closed.
    pub output_bytes_soft: usize,
    /// See `output_bytes_soft`.
    pub output_stall: Duration,
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
    /// Requests in flight to one node over one connection. Above it requests are refused at once.
    pub in_flight_max: usize,
    /// Questions that wait for other workers, for all nodes or for time (CLIENT LIST, INFO, WAIT), of all clients of one
    /// worker. Above it such requests are refused at once.
    pub inquiries_max: usize,
    /// Names or numbers of which one request may ask for more bytes than they have: COMMAND INFO, CLIENT LIST ID. With
    /// more it is refused.
    pub names_max: usize,
    /// Bytes that wait to be sent to one node. Above it requests are refused at once.
    pub link_output_bytes_max: usize,
    /// Bytes of requests and replies that one worker may hold. Above half of it requests are not read.
    pub memory_bytes_max: usize,
    /// While requests are not read since too much is held, a client that has not moved what it holds for so long may be
    /// closed.
    pub memory_patience: Duration,
    /// Buffers that a worker keeps for its next connections: enough for a burst.
    pub spare_buffers_max: usize,
    /// Bytes of what is kept of one worker's finished MGETs for the next ones.
    pub spare_values_bytes_max: usize,
    /// Requests that wait for one node, or that it may be asked again, lie in pieces of so many bytes: a buffer that
    /// doubles for more would be copied, and leave as much as it holds behind.
    pub piece_bytes_max: usize,
    /// A request or reply of more bytes, of which not all have come, is large: it gets a connection of its own.
    pub large_bytes: usize,
    /// Clients of one worker that may have connections of their own at once. More wait in line.
    pub pinned_clients_max: usize,
    /// Connections that clients of one worker may hold: while they watch keys, and while they wait for elements. With
    /// more, such requests are refused at once.
    pub held_conns_max: usize,
    /// Bytes that a client may send behind a request that waits for an element. With more, it is not read from: only then
    /// its end is not seen before it was answered.
    pub waiting_input_bytes_max: usize,
    /// Bytes of a large transfer that may wait for its receiver: above it no more is read from its sender.
    pub relay_bytes_max: usize,
    /// Bytes of large replies that may be passed over on a shared connection within a second or so; with more to come,
    /// another takes its place. It bounds how long others wait behind large replies that nobody expected.
    pub pass_over_bytes_max: usize,
    /// The same as `request_timeout` on a connection of a client's own. Nobody else waits behind it, and a node that puts a
    /// large reply together is silent for long.
    pub transfer_timeout: Duration,
    /// A pinned connection that nobody has used for so long is closed.
    pub pinned_idle: Duration,
    /// The connections of a profile that no client was in for so long are closed.
    pub profile_idle: Duration,
    /// Connections of all profiles of a worker but the first: enough for four nodes and 128 databases in both versions of
    /// the protocol. Requests that would need more are refused at once.
    pub profile_nodes_max: usize,
    /// Where the nodes decide who clients are: users and passwords that clients of one worker may be logged in by at once.
    /// Who would be one more is refused.
    pub identities_max: usize,
    /// From the wish to connect to a node to its PONG.
    pub connect_timeout: Duration,
    /// How long a node may be silent on a connection on which something is in flight. Then what was sent so long ago is
    /// late: its outcome is unknown.
    pub request_timeout: Duration,
    /// A request that was sent is late after so many timeouts, however much its node sends meanwhile.
    pub request_timeouts_max: u32,
    /// The slowest reply for which that is put off: one of so many bytes gets a second more.
    pub transfer_bytes_per_s_min: u64,
    /// A connection to a node that was silent for this long is asked for a PONG.
    pub probe_after: Duration,
    /// Named nodes are asked for their roles so often.
    pub inspect_every: Duration,
    /// First wait after a failed attempt to connect to a node; doubles up to `backoff_max`, with full jitter.
    pub backoff_min: Duration,
    /// See `backoff_min`.
    pub backoff_max: Duration,
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
    /// Time for a request that has begun to arrive, plus a second for each KiB of it.
    pub half_request_timeout: Duration,
    /// How long a client that was told of its error may still send before the connection goes away; closing at once
    /// would destroy the error text on its way.
    pub linger: Duration,
    /// Idle clients are closed after this; zero for never. Redis's `timeout`.
    pub idle_timeout: Duration,
    /// Bytes of values that one command over several shards may gather, both by the nodes' estimate (MEMORY USAGE) and as
    /// they come. Above it the command is refused. It bounds how long a worker's other clients wait for it.
    pub cross_shard_bytes_max: usize,
    /// Keys of one command over several shards whose values are gathered. With more it is refused. Each of them is two
    /// requests at once to one node, which takes [`Limits::in_flight_max`] of all clients.
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
        Limits {
            memory_bytes_max: memory,
            request_bytes_max: self.request_bytes_max.min(memory),
            // Below what closes the client: it is to hear why.
            transaction_bytes_max: self.transaction_bytes_max.min(memory / 4),
            reply_bytes_max: self.reply_bytes_max.min(memory),
            output_bytes_max: self.output_bytes_max.min(memory / 2),
            output_bytes_soft: self.output_bytes_soft.min(memory / 4),
            subscriber_bytes_max: self.subscriber_bytes_max.min(memory / 4),
            subscriber_bytes_soft: self.subscriber_bytes_soft.min(memory / 8),
            subscription_bytes_max: self.subscription_bytes_max.min(memory / 8),
            tracked_bytes_max: self.tracked_bytes_max.min(memory / 8),
            prefix_bytes_max: self.prefix_bytes_max.min(memory / 64),
            script_bytes_max,
            user_bytes_max,
            link_output_bytes_max: self.link_output_bytes_max.min(memory),
            // A share for each of some dozens of busy clients.
            pending_bytes_max: self.pending_bytes_max.min(memory / 128),
            large_bytes: self.large_bytes.min((memory / 128).max(LARGE_BYTES_MIN)),
            pinned_clients_max: self.pinned_clients_max.min((memory / 4 / PINNED_CLIENT_BYTES).max(1)),
            cross_shard_bytes_max: self.cross_shard_bytes_max.min(memory / 8),
            spare_buffers_max: self.spare_buffers_max.min(memory / 8 / SPARE_BUFFER_BYTES_MAX),
            spare_values_bytes_max: self.spare_values_bytes_max.min(memory / 16),
            // Buffers have sizes that are powers of two.
            piece_bytes_max: self.piece_bytes_max.min(1 << (memory / 64).max(SPARE_BUFFER_BYTES_MAX).ilog2()),
            ..self
        }
    }

    /// After a silence of this a connection with something in flight is suspect. A quarter of a request's time leaves the
    /// others to find out and to ask again.
    pub(crate) fn suspect_after(&self) -> Duration {
        self.request_timeout / 4
    }

    /// When a request that is not late before `deadline` is late, whatever comes, if its node may be silent for `silence_max`.
    pub(crate) fn over_at(&self, deadline: Instant, silence_max: Duration) -> Instant {
        deadline + silence_max.saturating_mul(self.request_timeouts_max.saturating_sub(1))
    }

    /// A worker that comes so much later to its turn than it wished was itself stopped, or had too much to do: what it did not
    /// see meanwhile says nothing about nodes.
    pub(crate) fn stall_min(&self) -> Duration {
        self.request_timeout / 10
    }

    /// How much longer than others a transfer of `bytes` may take.
    pub(crate) fn transfer_time(&self, bytes: usize) -> Duration {
        // In 64 bits: 18 GB are more than is held.
        Duration::from_nanos(
            (bytes as u64).saturating_mul(1_000_000_000) / self.transfer_bytes_per_s_min.max(1),
        )
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
/// Larger buffers are freed and not kept for the next.
pub(crate) const SPARE_BUFFER_BYTES_MAX: usize = 64 << 10;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request: RequestLimits::default(),
            reply: ReplyLimits::default(),
            request_bytes_max: 1 << 30,
            // A pipeline of a million small commands that a client library wraps up in MULTI and EXEC.
            transaction_bytes_max: 64 << 20,
            // Each is a few µs of a turn in which nobody else is served.
            transaction_parts_max: 4096,
            watched_parts_max: 64,
            reply_bytes_max: 1 << 30,
            clients_max: 10_000,
            pending_max: 1024,
            pending_shared: 1024,
            pending_min: 128,
            pending_bytes_max: 1 << 20,
            output_bytes_max: 64 << 20,
            output_bytes_soft: 16 << 20,
            output_stall: Duration::from_secs(30),
            subscriber_bytes_max: 32 << 20,
            subscriber_bytes_soft: 8 << 20,
            subscriber_patience: Duration::from_secs(60),
            subscription_bytes_max: 64 << 20,
            pattern_bytes_max: 1 << 10,
            tracked_bytes_max: 64 << 20,
            prefix_bytes_max: 1 << 20,
            script_bytes_max: 16 << 20,
            user_bytes_max: 16 << 20,
            in_flight_max: 1 << 16,
            inquiries_max: 1 << 16,
            // Ten times as many commands as there are. Their descriptions are 2 MB and take some milliseconds.
            names_max: 4096,
            link_output_bytes_max: 64 << 20,
            memory_bytes_max: 1 << 30,
            memory_patience: Duration::from_secs(2),
            spare_buffers_max: 256,
            spare_values_bytes_max: 16 << 20,
            // Each is one system call, for which the node wakes.
            piece_bytes_max: 1 << 20,
            large_bytes: 64 << 10,
            pinned_clients_max: 32,
            // A node takes 10,000 clients as Redis comes; four workers and what else they need stay below.
            held_conns_max: 2048,
            // A few requests, and no more than 32 MiB for all who wait.
            waiting_input_bytes_max: 16 << 10,
            relay_bytes_max: 128 << 10,
            pass_over_bytes_max: 1 << 20,
            transfer_timeout: Duration::from_secs(10),
            pinned_idle: Duration::from_secs(5),
            profile_idle: Duration::from_secs(5),
            profile_nodes_max: 1024,
            // As many as there may be connections of theirs.
            identities_max: 1024,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(1),
            request_timeouts_max: 10,
            transfer_bytes_per_s_min: 16 << 20,
            probe_after: Duration::from_secs(5),
            inspect_every: Duration::from_secs(10),
            backoff_min: Duration::from_millis(10),
            backoff_max: Duration::from_secs(1),
            // An answer takes a node some 10 µs: for 16 workers this is a fiftieth of its time, and the one below a sixth.
            replica_poll_every: Duration::from_millis(100),
            replica_poll_soon: Duration::from_millis(10),
            replica_poll_idle: Duration::from_secs(1),
            replica_silence_max: Duration::from_millis(300),
            own_write_patience: Duration::from_secs(1),
            // A tenth each second: enough to see a node fail again, and what is behind a cache is asked for a tenth of what
            // the node misses in the same second.
            slow_start: Duration::from_secs(10),
            half_request_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(1),
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
    pub const DATABASES_MAX: u16 = profiles::DATABASES_MAX;
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
