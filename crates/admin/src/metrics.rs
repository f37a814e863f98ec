//! The table of all metrics. The answer to `/metrics` and docs/metrics.md are made from it.
//!
//! Names and units are Prometheus': base units, `_total` for counters. Labels are bounded: commands of the table, causes of the
//! error contract, nodes of the topology, workers. Never keys, nor names of clients.

mod text;

use crate::facts::Facts;
use crate::racked::Racks;
use crate::statsd;
use proxy::{Counters, Discovered, NodeMemory, NodeReport, NodeState};
pub(crate) use text::Format;
use text::{Kind, Text, seconds};

/// One family of samples.
struct Metric {
    name: &'static str,
    kind: Kind,
    /// The labels, as the page shows them.
    labels: &'static str,
    help: &'static str,
    write: fn(&Facts, &mut Text),
}

/// A metric without labels whose only value `$value` is.
macro_rules! plain {
    ($name:literal, $kind:ident, $help:literal, $value:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: "",
            help: $help,
            write: |facts, text| {
                let value: fn(&Facts) -> _ = $value;
                text.sample(&[], value(facts));
            },
        }
    };
}

/// A metric with one label that has these values.
macro_rules! by {
    ($name:literal, $kind:ident, $label:literal, $help:literal, [$($word:literal => $value:expr),* $(,)?]) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: concat!($label, "=", $($word, " ",)*),
            help: $help,
            write: |facts, text| {
                $({
                    let value: fn(&Counters) -> u64 = $value;
                    text.sample(&[($label, $word)], value(&facts.counters));
                })*
            },
        }
    };
}

/// A metric of each node.
macro_rules! by_node {
    ($name:literal, $kind:ident, $help:literal, $value:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: "shard, node, role",
            help: $help,
            write: |facts, text| {
                let value: fn(&NodeReport) -> _ = $value;
                facts.nodes.iter().for_each(|node| text.sample(&labels_of(node), value(node)));
            },
        }
    };
}

/// A figure of each node's own memory, as far as known.
macro_rules! node_memory {
    ($name:literal, $help:literal, $value:expr) => {
        Metric {
            name: $name,
            kind: Kind::Gauge,
            labels: "shard, node, role",
            help: $help,
            write: |facts, text| {
                let value: fn(&NodeMemory) -> u64 = $value;
                for node in &facts.nodes {
                    node.memory.iter().for_each(|memory| text.sample(&labels_of(node), value(memory)));
                }
            },
        }
    };
}

/// A metric of a part of a pool, which is absent without it.
macro_rules! of_part {
    ($part:ident, $type:ty, $name:literal, $kind:ident, $labels:literal, $help:literal, $write:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: $labels,
            help: $help,
            write: |facts, text| {
                let write: fn(&$type, &mut Text) = $write;
                facts.$part.iter().for_each(|part| write(part, text));
            },
        }
    };
}

/// A metric of the mirror.
macro_rules! mirror {
    ($($rest:tt)*) => { of_part!(mirror, mirror::Totals, $($rest)*) };
}

/// A metric of racks.
macro_rules! racks {
    ($($rest:tt)*) => { of_part!(racks, Racks, $($rest)*) };
}

/// A metric of the discovery, which is absent without one.
macro_rules! discovery {
    ($name:literal, $kind:ident, $labels:literal, $help:literal, $write:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: $labels,
            help: $help,
            write: |facts, text| {
                let write: fn(&Facts, &Discovered, &mut Text) = $write;
                facts.discovered.iter().for_each(|discovered| write(facts, discovered, text));
            },
        }
    };
}

/// A metric of each worker.
macro_rules! by_worker {
    ($name:literal, $kind:ident, $help:literal, $value:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: "worker",
            help: $help,
            write: |facts, text| {
                let value: fn(&Facts, usize) -> Option<_> = $value;
                for worker in 0..facts.by_worker.len() {
                    if let Some(value) = value(facts, worker) {
                        text.sample(&[("worker", &worker.to_string())], value);
                    }
                }
            },
        }
    };
}

/// A metric of each command.
macro_rules! by_command {
    ($name:literal, $help:literal, $value:ident) => {
        Metric {
            name: $name,
            kind: Kind::Counter,
            labels: "command",
            help: $help,
            write: |facts, text| {
                facts.tally.commands().for_each(|(name, row)| text.sample(&[("command", name)], row.$value));
            },
        }
    };
}

/// Times of sampled requests, by command.
macro_rules! whole_times {
    ($name:literal, $help:literal, $part:ident) => {
        Metric {
            name: $name,
            kind: Kind::Histogram,
            labels: "command",
            help: $help,
            write: |facts, text| {
                for (name, row) in facts.tally.commands() {
                    row.whole.iter().for_each(|times| text.histogram(&[("command", name)], &times.$part));
                }
            },
        }
    };
}

/// Times of sampled requests, by node.
macro_rules! node_whole_times {
    ($name:literal, $help:literal, $part:ident) => {
        Metric {
            name: $name,
            kind: Kind::Histogram,
            labels: "shard, node, role",
            help: $help,
            write: |facts, text| {
                for node in &facts.nodes {
                    let times = node.counts.whole.iter();
                    times.for_each(|times| text.histogram(&labels_of(node), &times.$part));
                }
            },
        }
    };
}

fn labels_of(node: &NodeReport) -> [(&'static str, &str); 3] {
    let role = if node.is_primary { "primary" } else { "replica" };
    [("shard", &node.shard), ("node", &node.address), ("role", role)]
}

/// All metrics, in the order of the page.
const METRICS: &[Metric] = &[
    Metric {
        name: "shardis_build_info",
        kind: Kind::Gauge,
        labels: "version",
        help: "Always 1; the version is the label.",
        write: |facts, text| text.sample(&[("version", &facts.version)], 1),
    },
    by_command!("shardis_requests_total", "Requests that were answered here or sent to a node.", calls),
    by_command!("shardis_requests_refused_total", "Requests that shardis refused.", rejected),
    by_command!("shardis_requests_failed_total", "Requests that ran and got an error as the reply.", failed),
    Metric {
        name: "shardis_request_duration_seconds",
        kind: Kind::Histogram,
        labels: "command",
        help: "Time from queueing a request for its node to the reply, to shardis and not to the client.",
        write: |facts, text| {
            for (name, row) in facts.tally.commands() {
                row.times.iter().for_each(|times| text.histogram(&[("command", name)], times));
            }
        },
    },
    whole_times!(
        "shardis_request_whole_duration_seconds",
        "Time from a request's arrival until its client's socket has the reply. Of sampled requests: see shardis_latency_sample_one_in.",
        whole
    ),
    whole_times!(
        "shardis_request_proxy_duration_seconds",
        "The part of the whole time of sampled requests that was not at the node: in shardis, and in the socket of a client that reads late.",
        proxy
    ),
    plain!(
        "shardis_latency_sample_one_in",
        Gauge,
        "One request in this many has its whole time measured, picked by chance. To count requests, use shardis_requests_total.",
        |_| proxy::LATENCY_SAMPLE_ONE_IN
    ),
    plain!(
        "shardis_latency_samples_left_out_total",
        Counter,
        "Picked requests whose whole time was not measured: a worker had 256 of them in flight.",
        |facts| facts.counters.latency_samples_left_out
    ),
    Metric {
        name: "shardis_errors_total",
        kind: Kind::Counter,
        labels: "cause=not_sent discarded connection_lost timeout protocol_error refused node",
        help: "Errors that clients got, by cause; with connection_lost, timeout and protocol_error the request may have run.",
        write: |facts, text| {
            facts.tally.causes().for_each(|(cause, count)| text.sample(&[("cause", cause.name())], count));
        },
    },
    plain!("shardis_fragments_total", Counter, "Fragments of split requests.", |facts| facts
        .counters
        .fragments),
    plain!(
        "shardis_emulated_requests_total",
        Counter,
        "Requests over several shards that shardis carried out itself.",
        |facts| facts.counters.emulations
    ),
    by!("shardis_retries_total", Counter, "reason", "Requests that were sent again, by reason.", [
        "declined" => |counters| counters.redirects,
        "large_reply" => |counters| counters.refetches,
        "link_lost" => |counters| counters.reads_repeated,
        "replica_failed" => |counters| counters.replica_retries,
    ]),
    by!(
        "shardis_redirects_total",
        Counter,
        "kind",
        "Requests that a node did not run and that were sent again: by its error MOVED, by ASK, by LOADING, TRYAGAIN or CLUSTERDOWN, by READONLY or MASTERDOWN.",
        [
            "moved" => |counters| counters.redirects_moved,
            "ask" => |counters| counters.redirects_ask,
            "unavailable" => |counters| counters.redirects_later,
            "not_primary" => |counters| {
                let others = counters.redirects_moved + counters.redirects_ask + counters.redirects_later;
                counters.redirects.saturating_sub(others)
            },
        ]
    ),
    plain!("shardis_timeouts_total", Counter, "Requests whose reply did not come in time.", |facts| facts
        .counters
        .timeouts),
    Metric {
        name: "shardis_reads_total",
        kind: Kind::Counter,
        labels: "policy, target=replica primary own_write fallback",
        help: "Reads by policy and by the kind of node that they went to.",
        write: |facts, text| {
            for (policy, row) in facts.tally.reads() {
                let targets = [
                    ("replica", row.replica),
                    ("primary", row.primary),
                    ("own_write", row.own_write),
                    ("fallback", row.fallback),
                ];
                for (target, count) in targets {
                    text.sample(&[("policy", policy), ("target", target)], count);
                }
            }
        },
    },
    by!("shardis_clients", Gauge, "state", "Clients now. One client can be in several states.", [
        "connected" => |counters| counters.clients,
        "blocked" => |counters| counters.clients_blocked,
        "subscribed" => |counters| counters.subscribers,
        "tracking" => |counters| counters.trackers,
        "waiting" => |counters| counters.clients_waiting,
    ]),
    plain!(
        "shardis_clients_pending",
        Gauge,
        "Clients whose TLS handshake or PROXY header is not complete.",
        |facts| { facts.clients_pending }
    ),
    plain!("shardis_client_connections_total", Counter, "Clients that ever connected.", |facts| facts
        .counters
        .clients_total),
    by!("shardis_clients_refused_total", Counter, "reason", "Clients that were refused.", [
        "maxclients" => |counters| counters.clients_refused.saturating_sub(counters.clients_denied),
        "protected_mode" => |counters| counters.clients_denied,
    ]),
    by!("shardis_logins_refused_total", Counter, "command", "Logins of clients that failed, with AUTH or HELLO.", [
        "auth" => |counters| counters.logins_refused_auth,
        "hello" => |counters| counters.logins_refused_hello,
    ]),
    plain!(
        "shardis_clients_closed_total",
        Counter,
        "Clients that shardis closed for a fault of theirs.",
        |facts| { facts.counters.clients_closed }
    ),
    by!("shardis_handshakes_total", Counter, "result", "TLS handshakes and PROXY headers of clients.", [
        "completed" => |counters| counters.handshakes,
        "failed" => |counters| counters.handshakes_failed,
    ]),
    by!("shardis_client_bytes_total", Counter, "direction", "Bytes from and to clients.", [
        "in" => |counters| counters.client_bytes_in,
        "out" => |counters| counters.client_bytes_out,
    ]),
    by_node!("shardis_node_up", Gauge, "1 if the node takes requests of all workers.", |node| u64::from(
        node.state == Some(NodeState::Up)
    )),
    Metric {
        name: "shardis_node_request_duration_seconds",
        kind: Kind::Histogram,
        labels: "shard, node, role",
        help: "Time from queueing a request for the node to its reply. The count is the number of replies.",
        write: |facts, text| {
            facts.nodes.iter().for_each(|node| text.histogram(&labels_of(node), &node.counts.times));
        },
    },
    node_whole_times!(
        "shardis_node_request_whole_duration_seconds",
        "As shardis_request_whole_duration_seconds, by the node that the request was first sent to. Requests over several shards are left out.",
        whole
    ),
    node_whole_times!(
        "shardis_node_request_proxy_duration_seconds",
        "As shardis_request_proxy_duration_seconds, by the node that the request was first sent to.",
        proxy
    ),
    by_node!("shardis_node_errors_total", Counter, "Replies of the node that were errors.", |node| node
        .counts
        .errors),
    by_node!(
        "shardis_node_failures_total",
        Counter,
        "Connections that were lost or could not be opened.",
        |node| node.counts.failures
    ),
    by_node!(
        "shardis_node_connections_opened_total",
        Counter,
        "Connections that were opened, of all workers and uses: above the number of connections they are reconnects.",
        |node| node.counts.connects
    ),
    by_node!(
        "shardis_node_connections",
        Gauge,
        "Connections to the node, of all workers and uses.",
        |node| node.links
    ),
    by_node!("shardis_node_requests_in_flight", Gauge, "Requests that wait for their replies.", |node| node
        .in_flight),
    by_node!("shardis_node_queued_bytes", Gauge, "Bytes that wait to be sent to the node.", |node| node
        .queued_bytes),
    by_node!("shardis_node_received_bytes_total", Counter, "Bytes from the node.", |node| node
        .counts
        .bytes_in),
    by_node!("shardis_node_sent_bytes_total", Counter, "Bytes to the node.", |node| node.counts.bytes_out),
    by_node!(
        "shardis_node_writes_total",
        Counter,
        "Writes to the node. Requests by writes is how well batching works.",
        |node| node.counts.writes
    ),
    node_memory!(
        "shardis_node_used_memory_bytes",
        "used_memory of the node by INFO, which the first worker asks for every 10 s. Absent if the node does not tell, or is down.",
        |memory| memory.used_bytes
    ),
    node_memory!(
        "shardis_node_maxmemory_bytes",
        "maxmemory of the node by INFO; 0 without a limit. Absent as used_memory is.",
        |memory| memory.max_bytes
    ),
    Metric {
        name: "shardis_node_replication_lag_bytes",
        kind: Kind::Gauge,
        labels: "shard, node, role",
        help: "Bytes of the replication stream that a replica lacks, by its last report. Only of replicas that clients may read from.",
        write: |facts, text| {
            for node in &facts.nodes {
                node.lag_bytes.into_iter().for_each(|lag| text.sample(&labels_of(node), lag));
            }
        },
    },
    by_node!(
        "shardis_node_slow_start",
        Gauge,
        "1 if a worker gives the node only a part of its requests, since it was lost and is back.",
        |node| u64::from(node.starts_slowly)
    ),
    by_node!(
        "shardis_node_slow_starts_total",
        Counter,
        "Slow starts that began; each worker counts its own.",
        |node| node.counts.slow_starts
    ),
    by!("shardis_links_replaced_total", Counter, "reason", "Shared connections to nodes that were replaced.", [
        "large_reply" => |counters| counters.retirements,
        "silent" => |counters| counters.conns_replaced,
    ]),
    mirror!(
        "shardis_mirror_requests_total",
        Counter,
        "outcome=sent unsent unanswered",
        "Requests for the mirror: sent, left out since it failed or was slow, or sent without a reply. Only with --mirror.",
        |totals, text| {
            text.sample(&[("outcome", "sent")], totals.sent);
            text.sample(&[("outcome", "unsent")], totals.unsent);
            text.sample(&[("outcome", "unanswered")], totals.unanswered);
        }
    ),
    mirror!(
        "shardis_mirror_replies_total",
        Counter,
        "result=same uncompared",
        "Replies of the mirror that are the same as those of the pool, or too long to compare.",
        |totals, text| {
            text.sample(&[("result", "same")], totals.same);
            text.sample(&[("result", "uncompared")], totals.uncompared);
        }
    ),
    mirror!(
        "shardis_mirror_differences_total",
        Counter,
        "command",
        "Replies of the mirror that differ from those of the pool. /mirror shows the last hundred.",
        |totals, text| {
            totals.different.iter().for_each(|(command, count)| text.sample(&[("command", command)], *count));
        }
    ),
    mirror!("shardis_mirror_clients", Gauge, "", "Clients that are mirrored.", |totals, text| text
        .sample(&[], totals.clients)),
    mirror!(
        "shardis_mirror_clients_left_total",
        Counter,
        "reason=command memory",
        "Clients that are not mirrored any more: they subscribe or the like, or the mirror's memory was full.",
        |totals, text| {
            text.sample(&[("reason", "command")], totals.clients_left);
            text.sample(&[("reason", "memory")], totals.clients_lost);
        }
    ),
    mirror!(
        "shardis_mirror_failures_total",
        Counter,
        "",
        "Connections to the mirror that failed or could not be made.",
        |totals, text| text.sample(&[], totals.failures)
    ),
    mirror!(
        "shardis_mirror_held_bytes",
        Gauge,
        "",
        "Memory of the mirror: requests and replies that wait.",
        |totals, text| text.sample(&[], totals.held_bytes)
    ),
    racks!(
        "shardis_rack_shards",
        Gauge,
        "rack, state=up down catching-up stale repairing",
        "Shards of a rack by the state of its copy. Only with --rack (docs/racks.md).",
        |racks, text| racks
            .each_state(|rack, state, count| text.sample(&[("rack", rack), ("state", state)], count))
    ),
    racks!(
        "shardis_rack_hints",
        Gauge,
        "rack",
        "Keys that a rack has missed, and that are not copied to it yet.",
        |racks, text| racks.each_lag(|rack, hints, _, _| text.sample(&[("rack", rack)], hints))
    ),
    racks!("shardis_rack_hint_bytes", Gauge, "rack", "Bytes of these hints.", |racks, text| racks
        .each_lag(|rack, _, bytes, _| text.sample(&[("rack", rack)], bytes))),
    racks!("shardis_rack_lag_seconds", Gauge, "rack", "Age of the oldest hint of a rack.", |racks, text| {
        racks.each_lag(|rack, _, _, lag_s| text.sample(&[("rack", rack)], lag_s))
    }),
    racks!(
        "shardis_rack_requests_missed_total",
        Counter,
        "kind=read write",
        "Requests that missed their consistency level, or were refused since too few racks were up.",
        |racks, text| {
            text.sample(&[("kind", "read")], racks.sum(|counts| counts.reads_missed));
            text.sample(&[("kind", "write")], racks.sum(|counts| counts.writes_missed));
        }
    ),
    racks!(
        "shardis_rack_losses_total",
        Counter,
        "",
        "Connections to copies that were lost.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.losses))
    ),
    racks!("shardis_rack_hints_made_total", Counter, "", "Keys that racks have missed.", |racks, text| text
        .sample(&[], racks.sum(|counts| counts.hints))),
    racks!(
        "shardis_rack_hints_played_back_total",
        Counter,
        "",
        "Missed keys that were copied later.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.played_back))
    ),
    racks!(
        "shardis_rack_stale_total",
        Counter,
        "",
        "Copies that became stale, since their hints reached the limit or their node started anew.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.outdated))
    ),
    racks!(
        "shardis_rack_keys_compared_total",
        Counter,
        "",
        "Keys that were compared between racks, in the background or in a repair.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.compared))
    ),
    racks!(
        "shardis_rack_keys_different_total",
        Counter,
        "",
        "Keys that differed between racks in two looks.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.different))
    ),
    racks!(
        "shardis_rack_replies_different_total",
        Counter,
        "",
        "Requests to which racks gave different replies; their keys are compared.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.replies_different))
    ),
    racks!(
        "shardis_rack_keys_repaired_total",
        Counter,
        "",
        "Keys that were copied because they differed.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.repaired))
    ),
    racks!(
        "shardis_rack_hint_log_failures_total",
        Counter,
        "",
        "Writes of the hint log that failed.",
        |racks, text| text.sample(&[], racks.sum(|counts| counts.log_failures))
    ),
    plain!("shardis_topology_epoch", Gauge, "Version of the topology; it rises with each change.", |facts| {
        facts.topology.as_ref().map_or(0, |topology| topology.epoch())
    }),
    plain!(
        "shardis_topology_changed_timestamp_seconds",
        Gauge,
        "Last change of the topology, in seconds since 1970; at first the start. time() minus this is its age.",
        |facts| facts.topology_changed_s
    ),
    discovery!(
        "shardis_discovery_answered_timestamp_seconds",
        Gauge,
        "",
        "Last usable answer to the discovery, in seconds since 1970. Only with --cluster or --sentinel.",
        |facts, _, text| facts.discovery_answered_s.into_iter().for_each(|at| text.sample(&[], at))
    ),
    discovery!(
        "shardis_discovery_answers_total",
        Counter,
        "result=usable none refused",
        "Questions of the discovery by their answers: refused are those of nodes that know less, or of another cluster.",
        |_, discovered, text| {
            text.sample(&[("result", "usable")], discovered.answers);
            text.sample(&[("result", "none")], discovered.failures);
            text.sample(&[("result", "refused")], discovered.refusals);
        }
    ),
    discovery!(
        "shardis_failovers_total",
        Counter,
        "",
        "Shards whose primary became another node, as the discovery saw.",
        |_, discovered, text| text.sample(&[], discovered.failovers)
    ),
    plain!("shardis_shards", Gauge, "Shards that own keys.", |facts| facts
        .topology
        .as_ref()
        .map_or(0, |topology| topology.owners().len())),
    plain!(
        "shardis_remaps_total",
        Counter,
        "Changes of the shards of keys because nodes failed or came back.",
        |facts| facts.counters.remaps
    ),
    plain!(
        "shardis_ejections_total",
        Counter,
        "Shards that lost their keys for a time because their nodes failed (--on-node-down=remap); each worker counts its own.",
        |facts| facts.counters.ejections
    ),
    plain!(
        "shardis_messages_total",
        Counter,
        "Messages passed on to subscribers; each receiver counts.",
        |facts| { facts.counters.messages }
    ),
    plain!(
        "shardis_message_gaps_total",
        Counter,
        "Times that messages may have been missed because their connection was lost.",
        |facts| facts.counters.message_gaps
    ),
    plain!("shardis_tracked_keys", Gauge, "Keys that at least one client tracks.", |facts| facts
        .counters
        .tracked_keys),
    by!(
        "shardis_memory_held_bytes",
        Gauge,
        "kind",
        "Memory that counts towards --memory-max; the sum is what counts.",
        [
            "transfers" => |counters| counters
                .held_bytes
                .saturating_sub(counters.unread_bytes + counters.gathered_bytes + counters.left_bytes),
            "unread_requests" => |counters| counters.unread_bytes,
            "gathered_answers" => |counters| counters.gathered_bytes,
            "left_behind" => |counters| counters.left_bytes,
        ]
    ),
    plain!(
        "shardis_memory_full_total",
        Counter,
        "Times that a worker stopped to read requests for lack of memory.",
        |facts| facts.counters.memory_full
    ),
    by_worker!(
        "shardis_worker_requests_total",
        Counter,
        "Requests that the worker has read.",
        |facts, worker| { facts.by_worker.get(worker).map(|counters| counters.requests) }
    ),
    by_worker!("shardis_worker_clients", Gauge, "Clients of the worker.", |facts, worker| {
        facts.by_worker.get(worker).map(|counters| counters.clients)
    }),
    by_worker!(
        "shardis_worker_turns_total",
        Counter,
        "Turns of the worker's event loop.",
        |facts, worker| { facts.workers.get(worker).map(|load| load.turns) }
    ),
    by_worker!(
        "shardis_worker_busy_seconds_total",
        Counter,
        "Time in which the worker did not wait for events; its rate is the share of time in use.",
        |facts, worker| facts.workers.get(worker).map(|load| load.busy_s)
    ),
    by_worker!(
        "shardis_worker_batching_waits_total",
        Counter,
        "Turns in which the worker waited for more requests before it wrote (--batching).",
        |facts, worker| facts.workers.get(worker).map(|load| load.batching_waits)
    ),
    by_worker!(
        "shardis_worker_batching_waited_seconds_total",
        Counter,
        "Sum of these waits.",
        |facts, worker| facts.workers.get(worker).map(|load| load.batching_waited_s)
    ),
    by_worker!(
        "shardis_worker_batching_wait_seconds",
        Gauge,
        "Wait that the worker's next turns may have; 0 if it does not wait.",
        |facts, worker| facts.workers.get(worker).map(|load| load.batching_wait_s)
    ),
    Metric {
        name: "shardis_slow_requests_total",
        kind: Kind::Counter,
        labels: "command",
        help: "Slow requests that PROXY SLOWLOG noted.",
        write: |facts, text| {
            facts.slow.iter().for_each(|(name, count)| text.sample(&[("command", name)], count));
        },
    },
    plain!(
        "shardis_slow_requests_left_out_total",
        Counter,
        "Slow requests that were not noted, since there were too many at once.",
        |facts| facts.slow_left_out
    ),
    Metric {
        name: "process_cpu_seconds_total",
        kind: Kind::Counter,
        labels: "",
        help: "CPU time of the process, in user and kernel mode.",
        write: |facts, text| text.sample(&[], seconds(facts.usage.cpu_user_us + facts.usage.cpu_system_us)),
    },
    plain!("process_resident_memory_bytes", Gauge, "Memory of the process.", |facts| facts
        .usage
        .resident_bytes),
    Metric {
        name: "process_open_fds",
        kind: Kind::Gauge,
        labels: "",
        help: "File descriptors that are open: clients, nodes, files. Only on Linux.",
        write: |facts, text| facts.descriptors.open.iter().for_each(|open| text.sample(&[], open)),
    },
    Metric {
        name: "process_max_fds",
        kind: Kind::Gauge,
        labels: "",
        help: "Limit of file descriptors.",
        write: |facts, text| facts.descriptors.max.iter().for_each(|max| text.sample(&[], max)),
    },
    plain!("process_start_time_seconds", Gauge, "Start of the process, in seconds since 1970.", |facts| {
        facts.started_s
    }),
];

/// The answer to `/metrics`.
pub(crate) fn write(pools: &[(Option<&str>, Facts)], format: Format) -> String {
    let mut text = Text::new(format);
    for metric in METRICS {
        text.begin(metric.name, metric.kind, metric.help);
        for (pool, facts) in pools {
            text.of_pool(*pool);
            (metric.write)(facts, &mut text);
        }
    }
    text.finish()
}

/// docs/metrics.md.
pub fn metrics_reference() -> String {
    let rows = METRICS.iter().map(|metric| {
        let labels = metric.labels.trim_end();
        format!("| `{}` | {} | {labels} | {} |\n", metric.name, metric.kind.name(), metric.help)
    });
    let (head, rows) = (include_str!("metrics/head.txt"), rows.collect::<String>());
    format!("{head}{rows}{}", statsd::NAMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_name_metrics_that_exist() {
        let examples = [
            include_str!("../../../examples/monitoring/grafana.json"),
            include_str!("../../../examples/monitoring/shardis.rules.yml"),
        ];
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        for word in examples.iter().flat_map(|text| text.split(|letter| !is_of_name(letter))) {
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            let name = name.unwrap_or(word);
            if name.starts_with("shardis_") || name.starts_with("process_") {
                assert!(METRICS.iter().any(|metric| metric.name == name), "{name}");
            }
        }
    }

    #[test]
    fn names_follow_prometheus_conventions() {
        for metric in METRICS {
            let name = metric.name;
            assert!(name.starts_with("shardis_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
            assert!(metric.kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
            assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
            assert_eq!(METRICS.iter().filter(|other| other.name == name).count(), 1, "{name}");
        }
    }
}
