//! PROXY TOPOLOGY and PROXY INFO.

use crate::context::Context;
use resp::encode;
use std::fmt::Write as _;
use topology::{ShardId, Topology};

/// Answers PROXY TOPOLOGY: the rules for keys, and the shards with their nodes.
pub(crate) fn write_topology(topology: &Topology, resp3: bool, out: &mut Vec<u8>) {
    encode::map_header(out, 3, resp3);
    encode::integers(out, &[("epoch", topology.epoch() as i64)]);
    encode::texts(out, &[("distribution", &topology.describe())]);
    let (shards, shares) = (topology.all_shards(), topology.shares());
    encode::bulk(out, b"shards");
    encode::array_header(out, shards.clone().count());
    for shard in shards {
        write_shard(topology, shard, shares[shard.0 as usize], resp3, out);
    }
}

fn write_shard(topology: &Topology, id: ShardId, share: f64, resp3: bool, out: &mut Vec<u8>) {
    let shard = topology.shard(id);
    let primary = topology.primary_address(id).map(ToString::to_string).unwrap_or_default();
    encode::map_header(out, 5, resp3);
    encode::texts(out, &[("shard", &shard.name), ("primary", &primary)]);
    encode::bulk(out, b"replicas");
    encode::array_header(out, shard.replicas.len());
    for &replica in &shard.replicas {
        encode::bulk(out, topology.node(replica).address.to_string().as_bytes());
    }
    encode::texts(out, &[("share", &format!("{:.2} %", share * 100.0))]);
    encode::bulk(out, b"slots");
    let ranges = topology.slot_ranges(id);
    encode::array_header(out, ranges.len());
    for (first, last) in ranges {
        encode::bulk(out, format!("{first}-{last}").as_bytes());
    }
}

/// The text of PROXY INFO: a line for each fact, as INFO has them. Counts are sums over all workers since the start.
pub(crate) fn info(cx: &Context) -> String {
    let counters = cx.board.sum();
    let tally = cx.board.page().tally;
    let mut text = String::from("# Proxy\r\n");
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(text, "{name}:{value}\r\n");
    };
    line("version", &env!("CARGO_PKG_VERSION"));
    line("process_id", &cx.settings.process.id);
    line("config_file", &cx.settings.process.config_file);
    line("workers", &cx.settings.workers);
    line("topology_epoch", &cx.engine.topology.epoch());
    line("distribution", &cx.engine.topology.describe());
    line("shards", &cx.engine.topology.shard_count());
    line("read_from", &cx.settings.reading.from);
    line("cross_shard", &cx.settings.cross_shard);
    line("transactions", &cx.settings.transactions);
    let (slow, left_out) = cx.board.slow.totals();
    let counts = [
        ("clients", counters.clients),
        ("clients_total", counters.clients_total),
        ("requests", counters.requests),
        ("fragments", counters.fragments),
        ("emulations", counters.emulations),
        ("redirects", counters.redirects),
        ("reads_repeated", counters.reads_repeated),
        ("replica_reads", counters.replica_reads),
        ("timeouts", counters.timeouts),
        ("node_failures", counters.node_failures),
        ("held_bytes", counters.held_bytes),
        ("memory_full", counters.memory_full),
        ("slow_requests", slow),
        ("slow_requests_left_out", left_out),
    ];
    counts.iter().for_each(|(name, count)| line(name, count));
    for (cause, count) in tally.causes() {
        line(&format!("errors_{}", cause.name()), &count);
    }
    text
}
