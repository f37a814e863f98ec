//! INFO and CONFIG GET: what is true of the proxy, in Redis's words and sections.

use crate::backend::State;
use crate::core::Core;
use crate::counters::Counters;
use std::fmt::Write;
use topology::ShardId;

/// The Redis whose commands we have; libraries choose their own by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// Writes the lines of one section.
type Writer = fn(&Core, &Counters, &mut String);

/// The sections in their order.
const SECTIONS: [(&str, Writer); 6] = [
    ("Server", server),
    ("Clients", clients),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
    ("Nodes", nodes),
];

/// The report over all workers; the section `Nodes` is the view of the worker that answers. `wanted` names sections
/// as Redis's INFO takes them; none, `default`, `all` and `everything` mean all.
pub(crate) fn report(core: &Core, wanted: &[&[u8]]) -> String {
    let any = wanted.is_empty()
        || wanted.iter().any(|name| {
            [&b"default"[..], b"all", b"everything"].iter().any(|all| name.eq_ignore_ascii_case(all))
        });
    let counters = core.board.sum();
    let mut text = String::new();
    for (name, write_section) in SECTIONS {
        if !any && !wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes())) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        push(&mut text, format_args!("# {name}"));
        write_section(core, &counters, &mut text);
    }
    text
}

/// Appends a line.
fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{line}\r\n");
}

fn server(core: &Core, _: &Counters, text: &mut String) {
    let uptime_s = core.now.since(core.started_at).as_secs();
    push(text, format_args!("redis_version:{REDIS_VERSION}"));
    push(text, format_args!("redis_mode:standalone"));
    push(text, format_args!("shardis_version:{}", env!("CARGO_PKG_VERSION")));
    push(text, format_args!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH));
    push(text, format_args!("arch_bits:{}", usize::BITS));
    push(text, format_args!("process_id:{}", core.settings.process_id));
    push(text, format_args!("tcp_port:{}", core.settings.port));
    push(text, format_args!("workers:{}", core.settings.workers));
    push(text, format_args!("uptime_in_seconds:{uptime_s}"));
    push(text, format_args!("uptime_in_days:{}", uptime_s / 86_400));
}

fn clients(core: &Core, counters: &Counters, text: &mut String) {
    push(text, format_args!("connected_clients:{}", counters.clients));
    push(text, format_args!("maxclients:{}", core.limits.clients_max * core.settings.workers));
    push(text, format_args!("blocked_clients:0"));
}

fn stats(_: &Core, counters: &Counters, text: &mut String) {
    push(text, format_args!("total_connections_received:{}", counters.clients_total));
    push(text, format_args!("total_commands_processed:{}", counters.requests));
    push(text, format_args!("total_net_input_bytes:{}", counters.client_bytes_in));
    push(text, format_args!("total_net_output_bytes:{}", counters.client_bytes_out));
    push(text, format_args!("rejected_connections:{}", counters.clients_refused));
    push(text, format_args!("closed_connections:{}", counters.clients_closed));
    push(text, format_args!("total_fragments:{}", counters.fragments));
    push(text, format_args!("total_error_replies:{}", counters.errors));
    push(text, format_args!("total_timeouts:{}", counters.timeouts));
    push(text, format_args!("total_node_failures:{}", counters.node_failures));
    push(text, format_args!("total_node_input_bytes:{}", counters.node_bytes_in));
    push(text, format_args!("total_node_output_bytes:{}", counters.node_bytes_out));
}

fn replication(_: &Core, _: &Counters, text: &mut String) {
    // Redis's own word on the wire.
    push(text, format_args!("role:master"));
    push(text, format_args!("connected_slaves:0"));
}

fn cluster(_: &Core, _: &Counters, text: &mut String) {
    push(text, format_args!("cluster_enabled:0"));
}

fn nodes(core: &Core, _: &Counters, text: &mut String) {
    push(text, format_args!("shards:{}", core.topology.shard_count()));
    push(text, format_args!("distribution:{}", core.topology.describe()));
    for (index, backend) in core.backends.iter().enumerate() {
        let state = match backend.state {
            State::Ready { .. } => "up",
            State::Connecting { .. } | State::Probing { .. } => "connecting",
            State::Waiting { .. } => "down",
        };
        let shard = core.topology.shard(ShardId(index as u32));
        let in_flight = backend.in_flight();
        push(
            text,
            format_args!(
                "node{index}:name={},address={},state={state},in_flight={in_flight}",
                shard.name, shard.address
            ),
        );
    }
}

/// The parameters that CONFIG GET knows, in alphabetical order: what tools ask for (redis-benchmark wants to print
/// `save` and `appendonly`), answered with what holds here.
pub(crate) fn parameters(core: &Core) -> Vec<(&'static str, String)> {
    let limits = &core.limits;
    vec![
        ("appendonly", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("maxclients", (limits.clients_max * core.settings.workers).to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", core.settings.port.to_string()),
        ("proto-max-bulk-len", limits.request.bulk_bytes_max.to_string()),
        ("save", String::new()),
        ("timeout", limits.idle_timeout.as_secs().to_string()),
    ]
}
