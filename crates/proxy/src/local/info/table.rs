//! The fields of INFO, with their sources and remarks. docs/info.md is generated from this table.
//!
//! Every field of Redis 7.0 is here, in its section and order. Figures of the data combine the nodes' figures. Figures
//! of a process are those of shardis.

use super::lines;
use super::survey::{Combine, Combined};
use super::{Facts, Human};
use crate::login::hello::REDIS_VERSION;
use command::Topic;
use std::sync::LazyLock;

/// One field, or lines of one kind.
pub(super) struct Field {
    pub name: &'static str,
    pub from: From,
    /// The remark in docs/info.md; empty where Redis's documentation suffices.
    pub about: &'static str,
}

/// The source of a field.
#[derive(Clone, Copy)]
pub(super) enum From {
    /// A figure of shardis.
    Count(fn(&Facts<'_>) -> u64),
    /// A word of shardis, or a value computed from other fields.
    Text(fn(&Facts<'_>) -> String),
    /// The same for every shardis.
    Fixed(&'static str),
    /// The combined figures of the nodes.
    Nodes(Combine),
    /// The same, left out if no node has it.
    SomeNodes(Combine),
    /// The combined figures of the nodes, corrected by this function.
    Adjusted(Combine, fn(&Facts<'_>, i64) -> i64),
    /// This field in readable units.
    Human(&'static str),
    /// Any number of lines.
    Lines(fn(&Facts<'_>, &mut String)),
}

impl From {
    /// The way in which the nodes' figures are combined, if they are.
    pub(super) fn combine(self) -> Option<Combine> {
        match self {
            From::Nodes(combine) | From::SomeNodes(combine) | From::Adjusted(combine, _) => Some(combine),
            _ => None,
        }
    }
}

const fn field(name: &'static str, from: From, about: &'static str) -> Field {
    Field { name, from, about }
}

/// The sum over the nodes.
const fn sum(name: &'static str) -> Field {
    field(name, From::Nodes(Combine::Sum), "")
}

/// The largest of the nodes.
const fn largest(name: &'static str) -> Field {
    field(name, From::Nodes(Combine::Largest), "")
}

/// The longest of the nodes.
const fn longest(name: &'static str) -> Field {
    field(name, From::Nodes(Combine::Longest), "")
}

/// A status of the nodes.
const fn status(name: &'static str) -> Field {
    field(name, From::Nodes(Combine::Status), "")
}

/// The sum over the nodes that have the field.
const fn some(name: &'static str) -> Field {
    field(name, From::SomeNodes(Combine::Sum), "")
}

/// `field` in units.
const fn human(name: &'static str, of: &'static str) -> Field {
    field(name, From::Human(of), "")
}

const NO_SUCH: &str = "shardis has no such thing";
const NOT_MEASURED: &str = "shardis does not measure it";
const NO_REPLICATION: &str = "nobody replicates from shardis; see INFO of the nodes, and section Nodes";

pub(super) const SERVER: &[Field] = &[
    field("redis_version", From::Fixed(REDIS_VERSION), "the Redis whose commands and replies shardis has"),
    field("redis_git_sha1", From::Fixed("00000000"), ""),
    field("redis_git_dirty", From::Fixed("0"), ""),
    field("redis_build_id", From::Fixed("0000000000000000"), ""),
    field("redis_mode", From::Fixed("standalone"), "also in front of a Redis Cluster: clients see one Redis"),
    field("shardis_version", From::Fixed(env!("CARGO_PKG_VERSION")), "only shardis has it"),
    field(
        "shardis_behind",
        From::Text(|facts| facts.cx.node_health.inspection.behind()),
        "run ids of the shardis processes that are nodes of this one, and of those behind them, with commas between; only shardis has it",
    ),
    field("os", From::Text(|_| format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)), ""),
    field("arch_bits", From::Count(|_| u64::from(usize::BITS)), ""),
    field("monotonic_clock", From::Fixed("POSIX clock_gettime"), ""),
    field("multiplexing_api", From::Fixed(if cfg!(target_os = "linux") { "epoll" } else { "kqueue" }), ""),
    field("atomicvar_api", From::Fixed("std"), "the atomics of Rust's standard library"),
    field("gcc_version", From::Fixed("0.0.0"), "Redis's word for another compiler"),
    field("process_id", From::Count(|facts| u64::from(facts.cx.settings.process.id)), ""),
    field("process_supervised", From::Fixed("no"), ""),
    field("run_id", From::Text(|facts| facts.cx.run_id.clone()), ""),
    field(
        "tcp_port",
        From::Count(|facts| u64::from(facts.cx.settings.port)),
        "of the first listener; 0 without one",
    ),
    field("server_time_usec", From::Count(|facts| facts.cx.unix_time_us()), ""),
    field("workers", From::Count(|facts| facts.cx.settings.workers as u64), "only shardis has it"),
    field("uptime_in_seconds", From::Count(|facts| facts.uptime_s()), ""),
    field("uptime_in_days", From::Count(|facts| facts.uptime_s() / 86_400), ""),
    field("hz", From::Fixed("10"), "Redis's default; shardis has no such timer"),
    field("configured_hz", From::Fixed("10"), "as `hz`"),
    field("lru_clock", From::Count(|facts| (facts.cx.unix_time_us() / 1_000_000) & LRU_CLOCK_MAX), ""),
    field("executable", From::Text(|facts| facts.cx.settings.process.executable.to_string()), ""),
    field(
        "config_file",
        From::Text(|facts| facts.cx.settings.process.config_file.to_string()),
        "empty without `--config`",
    ),
    field("io_threads_active", From::Fixed("0"), "each worker reads and writes itself"),
];

/// Redis keeps 24 bits of a clock of seconds.
const LRU_CLOCK_MAX: u64 = (1 << 24) - 1;

pub(super) const CLIENTS: &[Field] = &[
    field("connected_clients", From::Count(|facts| facts.counters.clients), "of all workers"),
    field("cluster_connections", From::Fixed("0"), NO_SUCH),
    field("maxclients", From::Count(|facts| facts.cx.limits.clients_max as u64), ""),
    field("client_recent_max_input_buffer", From::Fixed("0"), NOT_MEASURED),
    field("client_recent_max_output_buffer", From::Fixed("0"), NOT_MEASURED),
    field("blocked_clients", From::Count(|facts| facts.counters.clients_blocked), ""),
    field("tracking_clients", From::Count(|facts| facts.counters.trackers), ""),
    field(
        "clients_in_timeout_table",
        From::Count(|facts| facts.counters.clients_blocked),
        "as `blocked_clients`: shardis does not tell those with a timeout apart",
    ),
    field("pubsub_clients", From::Count(|facts| facts.counters.subscribers), "Redis has it since 7.4"),
];

pub(super) const MEMORY: &[Field] = &[
    field("used_memory", From::Nodes(Combine::Sum), "memory of the data, not that of shardis"),
    human("used_memory_human", "used_memory"),
    field(
        "used_memory_rss",
        From::Adjusted(Combine::Sum, |facts, told| if told == 0 { facts.resident() } else { told }),
        "over the embedded store: that of this process",
    ),
    human("used_memory_rss_human", "used_memory_rss"),
    field(
        "used_memory_peak",
        From::Adjusted(Combine::Sum, |facts, told| told.max(facts.number("used_memory"))),
        "an upper bound: nodes have their peaks at different times. The embedded store does not measure it: as `used_memory`",
    ),
    human("used_memory_peak_human", "used_memory_peak"),
    field(
        "used_memory_peak_perc",
        From::Text(|facts| facts.percent("used_memory", "used_memory_peak")),
        "`used_memory` in percent of `used_memory_peak`",
    ),
    sum("used_memory_overhead"),
    sum("used_memory_startup"),
    field(
        "used_memory_dataset",
        From::Adjusted(Combine::Sum, |facts, told| {
            if told == 0 { facts.number("used_memory") - facts.number("used_memory_overhead") } else { told }
        }),
        "",
    ),
    field(
        "used_memory_dataset_perc",
        From::Text(|facts| facts.dataset_percent()),
        "`used_memory_dataset` in percent of `used_memory` without `used_memory_startup`",
    ),
    sum("allocator_allocated"),
    sum("allocator_active"),
    sum("allocator_resident"),
    field(
        "total_system_memory",
        From::Count(|facts| facts.usage.machine_bytes),
        "of the machine that shardis runs on",
    ),
    human("total_system_memory_human", "total_system_memory"),
    sum("used_memory_lua"),
    sum("used_memory_vm_eval"),
    human("used_memory_lua_human", "used_memory_lua"),
    sum("used_memory_scripts_eval"),
    largest("number_of_cached_scripts"),
    largest("number_of_functions"),
    largest("number_of_libraries"),
    sum("used_memory_vm_functions"),
    sum("used_memory_vm_total"),
    human("used_memory_vm_total_human", "used_memory_vm_total"),
    sum("used_memory_functions"),
    sum("used_memory_scripts"),
    human("used_memory_scripts_human", "used_memory_scripts"),
    field("maxmemory", From::Nodes(Combine::SumOfBounds), ""),
    human("maxmemory_human", "maxmemory"),
    field("maxmemory_policy", From::Nodes(Combine::Common("noeviction")), ""),
    field(
        "allocator_frag_ratio",
        From::Text(|facts| facts.ratio("allocator_active", "allocator_allocated")),
        "`allocator_active` to `allocator_allocated`; 1.00 if no node tells",
    ),
    sum("allocator_frag_bytes"),
    field(
        "allocator_rss_ratio",
        From::Text(|facts| facts.ratio("allocator_resident", "allocator_active")),
        "`allocator_resident` to `allocator_active`; 1.00 if no node tells",
    ),
    sum("allocator_rss_bytes"),
    field(
        "rss_overhead_ratio",
        From::Text(|facts| facts.ratio("used_memory_rss", "allocator_resident")),
        "`used_memory_rss` to `allocator_resident`; 1.00 if no node tells",
    ),
    sum("rss_overhead_bytes"),
    field(
        "mem_fragmentation_ratio",
        From::Text(|facts| two_decimals(facts.number("used_memory_rss") as f64 / facts.accounted())),
        "`used_memory_rss` to `used_memory`. Over the embedded store, what the process took before the first request counts \
         as used",
    ),
    field(
        "mem_fragmentation_bytes",
        From::Adjusted(Combine::Sum, |facts, told| {
            if facts.has_resident() { told } else { facts.resident() - facts.accounted() as i64 }
        }),
        "",
    ),
    sum("mem_not_counted_for_evict"),
    sum("mem_replication_backlog"),
    sum("mem_total_replication_buffers"),
    sum("mem_clients_slaves"),
    field(
        "mem_clients_normal",
        From::Nodes(Combine::Sum),
        "clients of the nodes: shardis, and others beside it",
    ),
    sum("mem_cluster_links"),
    sum("mem_aof_buffer"),
    field("mem_allocator", From::Nodes(Combine::Common("libc")), ""),
    largest("active_defrag_running"),
    sum("lazyfree_pending_objects"),
    sum("lazyfreed_objects"),
    field(
        "proxy_memory_rss",
        From::Count(|facts| facts.usage.resident_bytes),
        "only shardis has it: memory of this process",
    ),
    human("proxy_memory_rss_human", "proxy_memory_rss"),
    field(
        "proxy_memory_used",
        From::Count(|facts| facts.counters.held_bytes),
        "only shardis has it: what counts for `--memory-max`",
    ),
    field(
        "proxy_memory_max",
        From::Count(|facts| facts.memory_max()),
        "only shardis has it: of `--memory-max`, without the part of the embedded store; 0 without a bound",
    ),
];

pub(super) const PERSISTENCE: &[Field] = &[
    largest("loading"),
    largest("async_loading"),
    sum("current_cow_peak"),
    sum("current_cow_size"),
    largest("current_cow_size_age"),
    field("current_fork_perc", From::Nodes(Combine::LargestShare), ""),
    sum("current_save_keys_processed"),
    sum("current_save_keys_total"),
    sum("rdb_changes_since_last_save"),
    largest("rdb_bgsave_in_progress"),
    field("rdb_last_save_time", From::Nodes(Combine::Oldest), ""),
    status("rdb_last_bgsave_status"),
    longest("rdb_last_bgsave_time_sec"),
    longest("rdb_current_bgsave_time_sec"),
    sum("rdb_saves"),
    sum("rdb_last_cow_size"),
    sum("rdb_last_load_keys_expired"),
    sum("rdb_last_load_keys_loaded"),
    field("aof_enabled", From::Nodes(Combine::Largest), "1 if one node has it"),
    largest("aof_rewrite_in_progress"),
    largest("aof_rewrite_scheduled"),
    longest("aof_last_rewrite_time_sec"),
    longest("aof_current_rewrite_time_sec"),
    status("aof_last_bgrewrite_status"),
    sum("aof_rewrites"),
    largest("aof_rewrites_consecutive_failures"),
    status("aof_last_write_status"),
    sum("aof_last_cow_size"),
    largest("module_fork_in_progress"),
    sum("module_fork_last_cow_size"),
    some("aof_current_size"),
    some("aof_base_size"),
    field("aof_pending_rewrite", From::SomeNodes(Combine::Largest), ""),
    some("aof_buffer_length"),
    some("aof_pending_bio_fsync"),
    some("aof_delayed_fsync"),
    field("loading_start_time", From::SomeNodes(Combine::Oldest), ""),
    some("loading_total_bytes"),
    some("loading_rdb_used_mem"),
    some("loading_loaded_bytes"),
    field("loading_loaded_perc", From::SomeNodes(Combine::LargestShare), ""),
    field("loading_eta_seconds", From::SomeNodes(Combine::Largest), ""),
];

pub(super) const STATS: &[Field] = &[
    field("total_connections_received", From::Count(|facts| facts.counters.clients_total), ""),
    field("total_commands_processed", From::Count(|facts| facts.counters.requests), "requests of clients"),
    field("instantaneous_ops_per_sec", From::Count(|facts| facts.counters.requests_per_s), ""),
    field("total_net_input_bytes", From::Count(|facts| facts.counters.client_bytes_in), "from clients"),
    field("total_net_output_bytes", From::Count(|facts| facts.counters.client_bytes_out), "to clients"),
    sum("total_net_repl_input_bytes"),
    sum("total_net_repl_output_bytes"),
    field("instantaneous_input_kbps", From::Text(|facts| kib(facts.counters.bytes_in_per_s)), "from clients"),
    field("instantaneous_output_kbps", From::Text(|facts| kib(facts.counters.bytes_out_per_s)), "to clients"),
    field("instantaneous_input_repl_kbps", From::Nodes(Combine::SumOfRates), ""),
    field("instantaneous_output_repl_kbps", From::Nodes(Combine::SumOfRates), ""),
    field("rejected_connections", From::Count(|facts| facts.counters.clients_refused), ""),
    field(
        "closed_connections",
        From::Count(|facts| facts.counters.clients_closed),
        "only shardis has it: clients closed for a fault of theirs",
    ),
    field(
        "total_handshakes",
        From::Count(|facts| facts.counters.handshakes),
        "only shardis has it: TLS, or a PROXY header",
    ),
    field(
        "total_handshakes_failed",
        From::Count(|facts| facts.counters.handshakes_failed),
        "only shardis has it",
    ),
    sum("sync_full"),
    sum("sync_partial_ok"),
    sum("sync_partial_err"),
    sum("expired_keys"),
    field("expired_stale_perc", From::Nodes(Combine::LargestShare), ""),
    sum("expired_time_cap_reached_count"),
    sum("expire_cycle_cpu_milliseconds"),
    sum("evicted_keys"),
    sum("evicted_clients"),
    sum("total_eviction_exceeded_time"),
    largest("current_eviction_exceeded_time"),
    sum("keyspace_hits"),
    sum("keyspace_misses"),
    field("pubsub_channels", From::Count(|facts| facts.topics(Topic::Channel)), "of clients of shardis"),
    field("pubsub_patterns", From::Count(|facts| facts.topics(Topic::Pattern)), "of clients of shardis"),
    field(
        "pubsubshard_channels",
        From::Count(|facts| facts.topics(Topic::ShardChannel)),
        "of clients of shardis",
    ),
    largest("latest_fork_usec"),
    sum("total_forks"),
    sum("migrate_cached_sockets"),
    sum("slave_expires_tracked_keys"),
    sum("active_defrag_hits"),
    sum("active_defrag_misses"),
    sum("active_defrag_key_hits"),
    sum("active_defrag_key_misses"),
    sum("total_active_defrag_time"),
    largest("current_active_defrag_time"),
    field("tracking_total_keys", From::Count(|facts| facts.counters.tracked_keys), "sum over the workers"),
    field("tracking_total_items", From::Count(|facts| facts.counters.tracked_items), "sum over the workers"),
    field(
        "tracking_total_prefixes",
        From::Count(|facts| facts.counters.tracked_prefixes),
        "sum over the clients",
    ),
    sum("unexpected_error_replies"),
    field("total_error_replies", From::Count(|facts| facts.tally.errors_total()), "errors that clients got"),
    sum("dump_payload_sanitizations"),
    sum("total_reads_processed"),
    sum("total_writes_processed"),
    sum("io_threaded_reads_processed"),
    sum("io_threaded_writes_processed"),
    sum("reply_buffer_shrinks"),
    sum("reply_buffer_expands"),
    ours("total_messages", |facts| facts.counters.messages, "messages passed on to subscribers"),
    ours(
        "total_message_gaps",
        |facts| facts.counters.message_gaps,
        "times that messages may have been missed",
    ),
    ours(
        "total_redirects",
        |facts| facts.counters.redirects,
        "requests that a node declined and that were sent again",
    ),
    ours("total_fragments", |facts| facts.counters.fragments, "parts that requests were split into"),
    ours(
        "total_replica_reads",
        |facts| facts.counters.replica_reads,
        "[replicas](replicas.md), as those below",
    ),
    ours("total_replica_fallbacks", |facts| facts.counters.replica_fallbacks, "no replica was fit"),
    ours(
        "total_own_write_reads",
        |facts| facts.counters.own_write_reads,
        "no replica had the client's own write",
    ),
    ours(
        "total_replica_retries",
        |facts| facts.counters.replica_retries,
        "the primary was asked after a replica failed",
    ),
    ours(
        "total_conns_replaced",
        |facts| facts.counters.conns_replaced,
        "connections to nodes that were silent",
    ),
    ours(
        "total_conns_retired",
        |facts| facts.counters.retirements,
        "connections to nodes with a large reply on them",
    ),
    ours("total_reads_repeated", |facts| facts.counters.reads_repeated, "reads that were sent again"),
    ours(
        "total_remaps",
        |facts| facts.counters.remaps,
        "times that keys went to other shards, since nodes failed or came back",
    ),
    ours(
        "total_ejections",
        |facts| facts.counters.ejections,
        "shards that lost their keys since their nodes failed",
    ),
    field("reads_from_*", From::Lines(lines::reads), "only shardis has it: reads by policy"),
    ours("total_proxy_errors", |facts| facts.counters.errors, "errors of shardis, not of a node"),
    ours("total_timeouts", |facts| facts.counters.timeouts, "requests whose reply did not come in time"),
    ours(
        "total_node_failures",
        |facts| facts.counters.node_failures,
        "connections to nodes that were lost or could not be made",
    ),
    ours("total_node_input_bytes", |facts| facts.counters.node_bytes_in, "from nodes"),
    ours("total_node_output_bytes", |facts| facts.counters.node_bytes_out, "to nodes"),
];

/// A field that only shardis has.
const fn ours(name: &'static str, count: fn(&Facts<'_>) -> u64, about: &'static str) -> Field {
    Field { name, from: From::Count(count), about }
}

pub(super) const REPLICATION: &[Field] = &[
    // Redis's own word in the protocol.
    field("role", From::Fixed("master"), "so libraries write to it"),
    field("connected_slaves", From::Fixed("0"), NO_REPLICATION),
    field("master_failover_state", From::Fixed("no-failover"), NO_REPLICATION),
    field("master_replid", From::Text(|facts| facts.cx.run_id.clone()), "as `run_id`"),
    field("master_replid2", From::Fixed("0000000000000000000000000000000000000000"), ""),
    field("master_repl_offset", From::Fixed("0"), NO_REPLICATION),
    field("second_repl_offset", From::Fixed("-1"), ""),
    field("repl_backlog_active", From::Fixed("0"), NO_REPLICATION),
    field("repl_backlog_size", From::Fixed("0"), NO_REPLICATION),
    field("repl_backlog_first_byte_offset", From::Fixed("0"), NO_REPLICATION),
    field("repl_backlog_histlen", From::Fixed("0"), NO_REPLICATION),
];

pub(super) const CPU: &[Field] = &[
    field(
        "used_cpu_sys",
        From::Text(|facts| seconds(facts.usage.cpu_system_us)),
        "of this process, all workers",
    ),
    field(
        "used_cpu_user",
        From::Text(|facts| seconds(facts.usage.cpu_user_us)),
        "of this process, all workers",
    ),
    field("used_cpu_sys_children", From::Fixed("0.000000"), ""),
    field("used_cpu_user_children", From::Fixed("0.000000"), ""),
    field(
        "used_cpu_sys_main_thread",
        From::Text(|facts| seconds(facts.usage.cpu_system_us)),
        "as `used_cpu_sys`: workers are what Redis's main thread is",
    ),
    field(
        "used_cpu_user_main_thread",
        From::Text(|facts| seconds(facts.usage.cpu_user_us)),
        "as `used_cpu_user`",
    ),
];

pub(super) const COMMANDSTATS: &[Field] = &[field(
    "cmdstat_*",
    From::Lines(lines::commands),
    "commands of clients; `usec` is the time from the request's way to a node to its reply",
)];

pub(super) const ERRORSTATS: &[Field] =
    &[field("errorstat_*", From::Lines(lines::errors), "errors that clients got, of nodes and of shardis")];

pub(super) const LATENCYSTATS: &[Field] = &[field(
    "latency_percentiles_usec_*",
    From::Lines(lines::latencies),
    "largest of the nodes for each percentile: that of all requests together is not above it. The time is that within \
     the node; the embedded store does not measure it",
)];

pub(super) const CLUSTER: &[Field] = &[field("cluster_enabled", From::Fixed("0"), "clients see one Redis")];

pub(super) const KEYSPACE: &[Field] = &[field(
    "db*",
    From::Lines(lines::keyspace),
    "`keys` and `expires`: sums over the nodes; `avg_ttl`: mean over all keys that expire",
)];

pub(super) const NODES: &[Field] = &[
    field(
        "shards",
        From::Count(|facts| facts.cx.engine.topology.all_shards().count() as u64),
        "as all of this section, only shardis has it",
    ),
    field("distribution", From::Text(|facts| facts.cx.engine.topology.describe().to_string()), ""),
    field("topology_epoch", From::Count(|facts| facts.cx.engine.topology.epoch()), "counts the changes"),
    field(
        "discovery_*",
        From::Lines(lines::discovery),
        "with `--cluster` or `--sentinel`: [cluster](cluster.md)",
    ),
    field(
        "node*",
        From::Lines(lines::nodes),
        "a line for each shard, as the worker sees it that answers, and for each of its [replicas](replicas.md)",
    ),
];

fn seconds(us: u64) -> String {
    format!("{:.6}", us as f64 / 1e6)
}

/// Bytes in Redis's unit of rates.
fn kib(bytes: u64) -> String {
    two_decimals(bytes as f64 / 1024.0)
}

fn two_decimals(number: f64) -> String {
    format!("{number:.2}")
}

impl Facts<'_> {
    fn uptime_s(&self) -> u64 {
        self.cx.engine.now.since(self.cx.engine.started_at).as_secs()
    }

    fn topics(&self, kind: Topic) -> u64 {
        self.cx.board.audience.count(kind) as u64
    }

    /// `--memory-max`.
    fn memory_max(&self) -> u64 {
        match self.cx.engine.limits.memory_bytes_max {
            usize::MAX => 0,
            share => (share as u64).saturating_mul(self.cx.settings.workers as u64),
        }
    }

    /// Memory of this process.
    fn resident(&self) -> i64 {
        self.usage.resident_bytes as i64
    }

    /// Whether a node reports its resident memory. The stores of this process do not.
    fn has_resident(&self) -> bool {
        self.survey.number("used_memory_rss").is_some_and(|bytes| bytes > 0)
    }

    /// Bytes whose purpose is known.
    fn accounted(&self) -> f64 {
        let startup = if self.has_resident() { 0 } else { self.usage.resident_bytes_at_start as i64 };
        (self.number("used_memory") + startup).max(1) as f64
    }

    fn dataset_percent(&self) -> String {
        let whole = self.number("used_memory") - self.number("used_memory_startup");
        percent(self.number("used_memory_dataset"), whole)
    }

    fn percent(&self, part: &str, whole: &str) -> String {
        percent(self.number(part), self.number(whole))
    }

    /// The ratio of one field to another; 1.00 if one of them is unknown.
    fn ratio(&self, part: &str, whole: &str) -> String {
        let (part, whole) = (self.number(part), self.number(whole));
        two_decimals(if part > 0 && whole > 0 { part as f64 / whole as f64 } else { 1.0 })
    }

    /// The value of the numeric field `name`.
    pub(super) fn number(&self, name: &str) -> i64 {
        let field = MEMORY.iter().find(|field| field.name == name);
        debug_assert!(field.is_some(), "{name} is a field of this section");
        field.map_or(0, |field| self.number_of(field))
    }

    fn number_of(&self, field: &Field) -> i64 {
        let told = || self.survey.number(field.name).unwrap_or(0);
        match field.from {
            From::Count(count) => count(self) as i64,
            From::Adjusted(_, adjust) => adjust(self, told()),
            _ => told(),
        }
    }

    /// Appends the lines of `field`.
    pub(super) fn write(&self, field: &Field, text: &mut String) {
        let name = field.name;
        match field.from {
            From::Lines(write) => write(self, text),
            From::Text(make) => super::push(text, format_args!("{name}:{}", make(self))),
            From::Fixed(value) => super::push(text, format_args!("{name}:{value}")),
            From::Human(of) => {
                super::push(text, format_args!("{name}:{}", Human(self.number(of).max(0) as u64)))
            }
            From::Count(_) | From::Adjusted(..) => {
                super::push(text, format_args!("{name}:{}", self.number_of(field)));
            }
            From::SomeNodes(_) if !self.survey.has(name) => {}
            From::Nodes(_) | From::SomeNodes(_) => self.survey.write(name, text),
        }
    }
}

fn percent(part: i64, whole: i64) -> String {
    format!("{}%", two_decimals(part as f64 * 100.0 / whole.max(1) as f64))
}

/// The fields from nodes' figures, by name, with their indexes.
pub(super) static COMBINED: LazyLock<Combined> = LazyLock::new(|| {
    let fields = [MEMORY, PERSISTENCE, STATS].into_iter().flatten();
    let fields = fields.filter_map(|field| Some((field.name, field.from.combine()?)));
    fields.enumerate().map(|(at, (name, combine))| (name, (at, combine))).collect()
});
