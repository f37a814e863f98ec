//! The stats port of twemproxy's nutcracker 0.5.0: JSON over plain TCP, without HTTP, for exporters that exist.
//!
//! ```text
//!   Subject of each pool ─► Facts ─► JSON ─► each connection, which ends then
//!   on a thread of its own (`nutcracker/server.rs`)
//! ```
//!
//! Names and places of all figures are nutcracker's. A figure that shardis does not count is 0; docs/migration.md lists those.
//! There is one such port for the process, and no key, value or password goes out by it.

mod server;

use crate::facts::{Facts, Subject};
use proxy::{Cause, NodeReport};
use serde_json::{Map, Value, json};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use topology::NodeSpec;

/// A pool under the name that nutcracker would show.
pub struct ShownPool {
    /// The name.
    pub name: String,
    /// The service of the pool.
    pub subject: Arc<dyn Subject>,
}

/// The process at its stats port.
pub struct NutcrackerStats {
    /// The name of the machine.
    pub source: String,
    /// The version, with the commit if it is known.
    pub version: String,
    /// Seconds from 1970 to the start of the process.
    pub started_s: f64,
    /// Open listeners for clients, which nutcracker counts among its connections.
    pub listeners: usize,
    /// All pools.
    pub pools: Vec<ShownPool>,
}

impl NutcrackerStats {
    /// The text for one connection.
    fn text(&self) -> String {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let facts = self.pools.iter().map(|pool| (pool.name.clone(), Facts::of(&*pool.subject)));
        format!("{}\n", self.answer(&facts.collect::<Vec<_>>(), now_s))
    }

    /// The answer about the pools at `now_s`, in seconds since 1970.
    fn answer(&self, pools: &[(String, Facts)], now_s: u64) -> Value {
        let listeners = self.listeners as u64;
        let (mut total, mut current) = (listeners, listeners);
        let mut answer = Map::new();
        for (name, facts) in pools {
            let opened: u64 = facts.nodes.iter().map(|node| node.counts.connects).sum();
            let open: usize = facts.nodes.iter().map(|node| node.links).sum();
            total += facts.counters.clients_total + opened;
            current += facts.counters.clients + open as u64;
            answer.insert(name.clone(), pool(facts));
        }
        let top = json!({
            "service": "nutcracker",
            "source": self.source,
            "version": self.version,
            "uptime": now_s.saturating_sub(self.started_s as u64),
            "timestamp": now_s,
            "total_connections": total,
            "curr_connections": current,
        });
        // A pool with the name of a figure must not hide it from exporters.
        if let Value::Object(top) = top {
            answer.extend(top);
        }
        Value::Object(answer)
    }
}

/// A pool and its servers.
fn pool(facts: &Facts) -> Value {
    let counters = &facts.counters;
    let gone = counters.clients_total.saturating_sub(counters.clients);
    let not_sent = facts.tally.causes().find(|(cause, _)| *cause == Cause::NotSent);
    let mut answer: Map<String, Value> =
        facts.nodes.iter().map(|node| (server_name(node), server(node))).collect();
    let own = json!({
        "client_eof": gone.saturating_sub(counters.clients_closed),
        "client_err": counters.clients_closed,
        "client_connections": counters.clients,
        "server_ejects": counters.ejections,
        "forward_error": not_sent.map_or(0, |(_, count)| count),
        "fragments": counters.fragments,
    });
    if let Value::Object(own) = own {
        answer.extend(own);
    }
    Value::Object(answer)
}

/// The name as nutcracker shows it. A replica, which nutcracker does not have, goes by its address.
fn server_name(node: &NodeReport) -> String {
    if !node.is_primary {
        return node.address.clone();
    }
    let has_own_name = node.shard != node.address;
    let spec = NodeSpec::from_str(&node.address).ok().filter(|_| !has_own_name);
    spec.map_or_else(|| node.shard.clone(), |spec| spec.ring_name())
}

fn server(node: &NodeReport) -> Value {
    let counts = &node.counts;
    let replies = counts.times.count_all();
    json!({
        "server_eof": 0,
        "server_err": counts.failures,
        "server_timedout": 0,
        "server_connections": node.links,
        "server_ejected_at": 0,
        "requests": replies + node.in_flight as u64,
        "request_bytes": counts.bytes_out,
        "responses": replies,
        "response_bytes": counts.bytes_in,
        "in_queue": 0,
        "in_queue_bytes": node.queued_bytes,
        "out_queue": node.in_flight,
        "out_queue_bytes": 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy::{Board, Counters, NodeCounts};

    fn node(shard: &str, address: &str, is_primary: bool) -> NodeReport {
        NodeReport {
            address: address.to_owned(),
            shard: shard.to_owned(),
            is_primary,
            state: None,
            reason: String::new(),
            links: 2,
            in_flight: 3,
            queued_bytes: 40,
            lag_bytes: None,
            starts_slowly: false,
            memory: None,
            counts: NodeCounts { connects: 5, failures: 1, ..NodeCounts::default() },
        }
    }

    fn facts(counters: Counters, nodes: Vec<NodeReport>) -> Facts {
        let page = Board::new(1).page();
        Facts {
            counters,
            by_worker: Vec::new(),
            workers: Vec::new(),
            tally: page.tally,
            nodes,
            topology: None,
            topology_changed_s: 0.0,
            discovered: None,
            discovery_answered_s: None,
            clients_pending: 0,
            slow: std::collections::BTreeMap::new(),
            slow_left_out: 0,
            mirror: None,
            racks: None,
            usage: proxy::Usage::default(),
            descriptors: crate::facts::Descriptors::default(),
            version: String::new(),
            started_s: 0.0,
            is_draining: false,
        }
    }

    #[test]
    fn servers_have_the_names_that_nutcracker_gives_them() {
        for (shard, address, is_primary, name) in [
            ("one", "10.0.0.1:6379", true, "one"),
            ("10.0.0.1:6379", "10.0.0.1:6379", true, "10.0.0.1:6379"),
            ("10.0.0.1:11211", "10.0.0.1:11211", true, "10.0.0.1"),
            ("unix:/tmp/a.sock", "unix:/tmp/a.sock", true, "/tmp/a.sock:"),
            ("one", "10.0.0.2:6379", false, "10.0.0.2:6379"),
        ] {
            assert_eq!(server_name(&node(shard, address, is_primary)), name);
        }
    }

    #[test]
    fn connections_of_all_pools_and_listeners_are_summed() {
        let counters = Counters { clients: 2, clients_total: 9, clients_closed: 3, ..Counters::default() };
        let stats = NutcrackerStats {
            source: "m".to_owned(),
            version: "1".to_owned(),
            started_s: 90.5,
            listeners: 2,
            pools: Vec::new(),
        };
        let a = facts(counters, vec![node("a:1", "a:1", true), node("b:1", "b:1", true)]);
        let pools = [("a".to_owned(), a), ("uptime".to_owned(), facts(counters, Vec::new()))];
        let answer = stats.answer(&pools, 100);
        let of = |path: &str| answer.pointer(path).and_then(Value::as_u64);
        assert_eq!((of("/total_connections"), of("/curr_connections")), (Some(2 + 9 + 10 + 9), Some(10)));
        assert_eq!((of("/uptime"), of("/timestamp")), (Some(10), Some(100)));
        assert_eq!((of("/a/client_eof"), of("/a/client_err")), (Some(4), Some(3)));
        assert_eq!((of("/a/b:1/requests"), of("/a/b:1/responses")), (Some(3), Some(0)));
    }
}
