//! Made-up nodes.

use crate::checks::Setup;
use crate::facts::{Facts, Member};
use topology::{TopologySpec, parse_nodes};

/// The answers to the five CONFIG GET. `|` stands for CR LF.
pub(crate) const CONFIG: &str = "*2|$7|timeout|$1|0|*2|$9|maxmemory|$1|0|*2|$16|maxmemory-policy|$10|noeviction|\
     *2|$9|databases|$2|16|*2|$10|maxclients|$5|10000|";

pub(crate) fn member(address: &str, shard: usize) -> Member {
    Member { address: address.to_owned(), shard, is_replica: false, is_here: false }
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
    let facts = |number: usize| {
        let mut facts = Facts::new(member(&format!("10.0.0.{}:6379", number + 1), number));
        for (name, value) in [
            ("redis_version", "7.0.15"),
            ("run_id", &format!("run{number}")),
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
    };
    vec![facts(0), facts(1)]
}
