//! The answers in JSON: the state of the process, and its topology.
//!
//! Counts are sums since the start, so that any number of viewers can compute rates of their own.

use crate::facts::{Facts, WorkerFacts};
use proxy::{Latency, NodeReport, WholeTimes};
use serde::Serialize;
use topology::Topology;

/// The answer to `/status`: everything that the page and `shardis top` show.
#[derive(Serialize)]
pub(crate) struct Status<'a> {
    version: &'a str,
    started_s: f64,
    now_s: f64,
    is_draining: bool,
    layout: String,
    epoch: u64,
    totals: Totals,
    memory: Memory,
    workers: Vec<Worker>,
    nodes: Vec<Node<'a>>,
    commands: Vec<CommandRow>,
    errors: Vec<ErrorRow>,
}

/// Sums of all workers.
#[derive(Serialize)]
struct Totals {
    requests: u64,
    requests_per_s: u64,
    clients: u64,
    clients_blocked: u64,
    subscribers: u64,
    clients_total: u64,
    clients_refused: u64,
    bytes_in: u64,
    bytes_out: u64,
    timeouts: u64,
    redirects: u64,
    node_failures: u64,
}

#[derive(Serialize)]
struct Memory {
    resident_bytes: u64,
    held_bytes: u64,
    cpu_s: f64,
}

#[derive(Serialize)]
struct Worker {
    requests: u64,
    clients: u64,
    held_bytes: u64,
    #[serde(flatten)]
    load: WorkerFacts,
}

#[derive(Serialize)]
struct Node<'a> {
    address: &'a str,
    shard: &'a str,
    role: &'static str,
    state: &'static str,
    reason: &'a str,
    connections: usize,
    in_flight: usize,
    queued_bytes: usize,
    /// Its own memory; null if unknown.
    used_memory_bytes: Option<u64>,
    /// 0 without a limit.
    maxmemory_bytes: Option<u64>,
    bytes_in: u64,
    bytes_out: u64,
    errors: u64,
    failures: u64,
    /// Of the keys, as far as the layout tells.
    share: f64,
    times: Times,
    sampled: Option<Sampled>,
}

#[derive(Serialize)]
struct CommandRow {
    name: &'static str,
    calls: u64,
    refused: u64,
    failed: u64,
    times: Times,
    sampled: Option<Sampled>,
}

/// Quantiles of sampled requests since the start.
#[derive(Serialize)]
struct Sampled {
    whole: Quantiles,
    proxy: Quantiles,
}

#[derive(Serialize)]
struct Quantiles {
    count: u64,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
}

impl Sampled {
    fn of(times: &WholeTimes) -> Sampled {
        Sampled { whole: Quantiles::of(&times.whole), proxy: Quantiles::of(&times.proxy) }
    }
}

impl Quantiles {
    fn of(times: &Latency) -> Quantiles {
        Quantiles {
            count: times.count_all(),
            p50_us: times.quantile_us(0.5),
            p99_us: times.quantile_us(0.99),
            p999_us: times.quantile_us(0.999),
        }
    }
}

#[derive(Serialize)]
struct ErrorRow {
    cause: &'static str,
    count: u64,
}

/// A distribution: counts by bounds, so that a viewer can compute quantiles of any period.
#[derive(Serialize)]
struct Times {
    count: u64,
    sum_us: u64,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    /// The counts below the bounds 1, 2, 4, … microseconds.
    below: Vec<u64>,
}

impl Times {
    fn of(times: &Latency) -> Times {
        let bounds: Vec<u64> = (0..=28).map(|power| 1 << power).collect();
        Times {
            count: times.count_all(),
            sum_us: times.sum_us(),
            p50_us: times.quantile_us(0.5),
            p99_us: times.quantile_us(0.99),
            p999_us: times.quantile_us(0.999),
            below: times.counts_below(&bounds),
        }
    }
}

impl<'a> Status<'a> {
    /// The state at `now_s`, in seconds since 1970.
    pub(crate) fn of(facts: &'a Facts, now_s: f64) -> Status<'a> {
        let counters = &facts.counters;
        let topology = facts.topology.as_deref();
        let shares = topology.map(Topology::shares).unwrap_or_default();
        let share_of = |node: &NodeReport| {
            let shards = topology.map(Topology::shards).unwrap_or_default();
            let found = shards.iter().position(|shard| shard.name == node.shard);
            found.and_then(|shard| shares.get(shard)).copied().unwrap_or_default()
        };
        Status {
            version: &facts.version,
            started_s: facts.started_s,
            now_s,
            is_draining: facts.is_draining,
            layout: topology.map(Topology::describe).unwrap_or_default(),
            epoch: topology.map(Topology::epoch).unwrap_or_default(),
            totals: Totals {
                requests: counters.requests,
                requests_per_s: counters.requests_per_s,
                clients: counters.clients,
                clients_blocked: counters.clients_blocked,
                subscribers: counters.subscribers,
                clients_total: counters.clients_total,
                clients_refused: counters.clients_refused,
                bytes_in: counters.client_bytes_in,
                bytes_out: counters.client_bytes_out,
                timeouts: counters.timeouts,
                redirects: counters.redirects,
                node_failures: counters.node_failures,
            },
            memory: Memory {
                resident_bytes: facts.usage.resident_bytes,
                held_bytes: counters.held_bytes,
                cpu_s: (facts.usage.cpu_user_us + facts.usage.cpu_system_us) as f64 / 1e6,
            },
            workers: facts
                .by_worker
                .iter()
                .zip(&facts.workers)
                .map(|(counters, &load)| Worker {
                    requests: counters.requests,
                    clients: counters.clients,
                    held_bytes: counters.held_bytes,
                    load,
                })
                .collect(),
            nodes: facts.nodes.iter().map(|node| Node::of(node, share_of(node))).collect(),
            commands: facts
                .tally
                .commands()
                .map(|(name, row)| CommandRow {
                    name,
                    calls: row.calls,
                    refused: row.rejected,
                    failed: row.failed,
                    times: Times::of(row.times.as_deref().unwrap_or(&Latency::default())),
                    sampled: row.whole.as_deref().map(Sampled::of),
                })
                .collect(),
            errors: facts
                .tally
                .causes()
                .map(|(cause, count)| ErrorRow { cause: cause.name(), count })
                .collect(),
        }
    }
}

impl<'a> Node<'a> {
    fn of(node: &'a NodeReport, share: f64) -> Node<'a> {
        Node {
            address: &node.address,
            shard: &node.shard,
            role: if node.is_primary { "primary" } else { "replica" },
            state: node.state.map_or("unused", |state| state.name()),
            reason: &node.reason,
            connections: node.links,
            in_flight: node.in_flight,
            queued_bytes: node.queued_bytes,
            used_memory_bytes: node.memory.map(|memory| memory.used_bytes),
            maxmemory_bytes: node.memory.map(|memory| memory.max_bytes),
            bytes_in: node.counts.bytes_in,
            bytes_out: node.counts.bytes_out,
            errors: node.counts.errors,
            failures: node.counts.failures,
            share: if node.is_primary { share } else { 0.0 },
            times: Times::of(&node.counts.times),
            sampled: node.counts.whole.as_deref().map(Sampled::of),
        }
    }
}

/// The answer to `/topology`.
#[derive(Default, Serialize)]
pub(crate) struct TopologyAnswer {
    epoch: u64,
    layout: String,
    shards: Vec<ShardRow>,
}

#[derive(Serialize)]
struct ShardRow {
    name: String,
    weight: u32,
    /// Of the keys, from 0 to 1.
    share: f64,
    /// Ranges of slots, first and last; empty without slots.
    slots: Vec<(u16, u16)>,
    primary: Option<String>,
    replicas: Vec<String>,
}

impl TopologyAnswer {
    pub(crate) fn of(facts: &Facts) -> TopologyAnswer {
        let Some(topology) = &facts.topology else { return TopologyAnswer::default() };
        let address = |id| topology.node(id).address.to_string();
        let shares = topology.shares();
        let shards = topology.all_shards().map(|id| {
            let shard = topology.shard(id);
            ShardRow {
                name: shard.name.clone(),
                weight: shard.weight,
                share: shares.get(id.0 as usize).copied().unwrap_or_default(),
                slots: topology.slot_ranges(id),
                primary: shard.primary.map(address),
                replicas: shard.replicas.iter().copied().map(address).collect(),
            }
        });
        TopologyAnswer { epoch: topology.epoch(), layout: topology.describe(), shards: shards.collect() }
    }
}
