//! Made-up nodes.

use crate::checks::{Setup, Source};
use crate::facts::{Facts, Kind, Member};
use crate::watch::{Peer, Watch};
use std::collections::HashMap;
use std::sync::Arc;
use topology::discovery::Answer;
use topology::{Address, TopologySpec, parse_nodes};

/// The answers to the five CONFIG GET. `|` stands for CR LF.
pub(crate) const CONFIG: &str = "*2|$7|timeout|$1|0|*2|$9|maxmemory|$1|0|*2|$16|maxmemory-policy|$10|noeviction|\
     *2|$9|databases|$2|16|*2|$10|maxclients|$5|10000|";

pub(crate) fn place(address: &str) -> Address {
    parse_nodes(address).expect("valid").remove(0).address
}

pub(crate) fn member(address: &str, shard: usize) -> Member {
    Member { shard, is_here: false, ..Member::new(place(address), Kind::Node) }
}

/// Two nodes.
pub(crate) fn setup() -> Setup {
    let nodes = parse_nodes("10.0.0.1:6379,10.0.0.2:6379").expect("valid");
    Setup {
        spec: TopologySpec { nodes, ..TopologySpec::default() },
        databases: 16,
        clients_max: 100,
        conns_per_node: 100,
        ..Setup::default()
    }
}

/// Two nodes that are well.
pub(crate) fn well() -> Vec<Facts> {
    (0..2).map(|number| healthy(member(&format!("10.0.0.{}:6379", number + 1), number))).collect()
}

/// A node that is well.
fn healthy(member: Member) -> Facts {
    let run_id = format!("run of {}", member.address);
    let mut facts = Facts::new(member);
    for (name, value) in [
        ("redis_version", "7.0.15"),
        ("run_id", &run_id),
        ("role", "master"),
        ("cluster_enabled", "0"),
        ("loading", "0"),
        ("used_memory", "1000"),
    ] {
        facts.info.insert(name.to_owned(), value.to_owned());
    }
    for (name, value) in [
        ("timeout", "0"),
        ("maxmemory", "1000000"),
        ("maxmemory-policy", "allkeys-lru"),
        ("databases", "16"),
        ("maxclients", "10000"),
    ] {
        facts.config.insert(name.to_owned(), value.to_owned());
    }
    (facts.user, facts.tells_rights) = (Some("default".to_owned()), true);
    (facts.clock_ahead_us, facts.pings_us) = (Some(50), vec![200; 100]);
    facts
}

/// A cluster of two primaries, `a` and `b`, and their replicas, `c` and `d`.
pub(crate) fn cluster() -> (Setup, Vec<Facts>) {
    let node = |(number, id): (usize, &str)| topology::discovery::Member {
        id: id.to_owned(),
        address: Some(place(&format!("10.0.0.{}:7000", number + 1))),
        primary: (number >= 2).then(|| ["a", "b"][number - 2].to_owned()),
        epoch: 5,
        slots: match number {
            0 => vec![0..=8191],
            1 => vec![8192..=16383],
            _ => Vec::new(),
        },
        ..topology::discovery::Member::default()
    };
    let nodes: Vec<_> = ["a", "b", "c", "d"].into_iter().enumerate().map(node).collect();
    let facts = |number: usize| {
        let place = place(&format!("10.0.0.{}:7000", number + 1));
        let mut facts = healthy(Member::new(place, Kind::ClusterNode { is_tls: false }));
        facts.info.insert("cluster_enabled".to_owned(), "1".to_owned());
        for name in ["cluster-require-full-coverage", "cluster-allow-reads-when-down"] {
            facts.config.insert(name.to_owned(), "no".to_owned());
        }
        facts.cluster = Some(Ok(Answer { epoch: 5, is_ok: true, nodes: nodes.clone(), handshakes: 0 }));
        facts
    };
    let setup = Setup { spec: TopologySpec::default(), source: Source::Cluster, databases: 1, ..setup() };
    (setup, (0..4).map(facts).collect())
}

/// Three sentinels of the primary `one`, the primary and its replica.
pub(crate) fn sentinels() -> (Setup, Vec<Facts>) {
    let names: Arc<[String]> = Arc::new(["one".to_owned()]);
    let [primary, replica] = ["10.0.0.1:6379", "10.0.0.2:6379"].map(place);
    let all = ["10.0.0.11:26379", "10.0.0.12:26379", "10.0.0.13:26379"].map(place);
    let fields = [
        ("flags", "master"),
        ("quorum", "2"),
        ("down-after-milliseconds", "5000"),
        ("failover-timeout", "180000"),
    ];
    let fields: HashMap<String, String> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let peer = |address: &Address| Peer { address: address.clone(), is_down: false };
    let sentinel = |place: &Address| {
        let kind = Kind::Sentinel { names: Arc::clone(&names) };
        let mut facts = Facts::new(Member::new(place.clone(), kind));
        facts.info.insert("run_id".to_owned(), format!("run of {place}"));
        facts.watches.push(Watch {
            primary: Some(primary.clone()),
            fields: fields.clone(),
            replicas: vec![peer(&replica)],
            fellows: all.iter().filter(|other| *other != place).map(peer).collect(),
            ..Watch::of("one")
        });
        facts
    };
    let mut facts: Vec<Facts> = all.iter().map(sentinel).collect();
    facts.push(healthy(Member::new(primary, Kind::Node)));
    let mut second = healthy(Member { is_replica: true, ..Member::new(replica, Kind::Node) });
    second.info.insert("role".to_owned(), "slave".to_owned());
    facts.push(second);
    let spec =
        TopologySpec { nodes: parse_nodes("10.0.0.1:6379").expect("valid"), ..TopologySpec::default() };
    (Setup { spec, source: Source::Sentinels(all.to_vec()), ..setup() }, facts)
}
