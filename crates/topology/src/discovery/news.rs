//! News for operators: nodes found, changes, rejected answers and their reasons.

use crate::{Address, NodeSpec, SLOTS, ShardSpec};
use std::collections::BTreeMap;

/// One thing that an operator wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The first view: requests can be served from now on.
    Found {
        /// The node that gave it.
        by: Address,
        /// Number of shards.
        shards: usize,
        /// Number of nodes with replicas.
        nodes: usize,
    },
    /// Something is other than before, in words.
    Changed(String),
    /// No node gives a usable answer; reported once for each address and reason.
    NoAnswer {
        /// The address asked.
        address: Address,
        /// The cause.
        reason: String,
    },
    /// A supposed node of a cluster is none.
    NoCluster {
        /// The address asked.
        address: Address,
    },
    /// A supposed sentinel is none.
    NoSentinel {
        /// The address asked.
        address: Address,
    },
    /// The node at an address of ours belongs to another cluster: it is not believed. An alarm.
    Stranger {
        /// The address asked.
        address: Address,
    },
    /// A sentinel does not know a name that it should.
    UnknownName {
        /// The sentinel.
        address: Address,
        /// The name.
        name: String,
    },
    /// A sentinel says that this node is the primary now, and the node says that it is not.
    NotPrimary {
        /// The shard's name.
        name: String,
        /// The node.
        address: Address,
        /// Its answer.
        reason: String,
    },
}

/// Limit of lines about one change; the others are counted.
const LINES_MAX: usize = 16;

/// The differences of `after` from `before`, in words. Shards are matched by their slots, or without slots by their
/// names.
pub fn changes(before: &[ShardSpec], after: &[ShardSpec]) -> Vec<String> {
    let mut lines = slot_changes(before, after);
    lines.extend(primary_changes(before, after));
    lines.extend(replica_changes(before, after));
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more changes"));
    }
    lines
}

/// Moved slots, one line for each source and target.
fn slot_changes(before: &[ShardSpec], after: &[ShardSpec]) -> Vec<String> {
    let (before, after) = (owners(before), owners(after));
    let mut moved: BTreeMap<(&str, &str), (usize, u16)> = BTreeMap::new();
    for slot in 0..usize::from(SLOTS) {
        if before[slot] != after[slot] {
            moved.entry((before[slot], after[slot])).or_insert((0, slot as u16)).0 += 1;
        }
    }
    let line = |((from, to), (count, first)): ((&str, &str), (usize, u16))| match count {
        1 => format!("slot {first} moved from {from} to {to}"),
        count => format!("{count} slots (the first is {first}) moved from {from} to {to}"),
    };
    moved.into_iter().map(line).collect()
}

/// The owner of each slot.
fn owners(shards: &[ShardSpec]) -> Vec<&str> {
    let mut owners = vec!["nobody"; usize::from(SLOTS)];
    for shard in shards {
        for slot in shard.slots.iter().cloned().flatten() {
            owners[usize::from(slot)] = &shard.name;
        }
    }
    owners
}

/// Shards of the same name with another primary: those of sentinels. A cluster's are named after their primaries.
fn primary_changes(before: &[ShardSpec], after: &[ShardSpec]) -> Vec<String> {
    let label = |primary: &Option<NodeSpec>| primary.as_ref().map_or("nobody".to_owned(), NodeSpec::label);
    let pairs = after.iter().filter_map(|shard| Some((same(before, shard)?, shard)));
    pairs
        .filter(|(old, new)| address_of(&old.primary) != address_of(&new.primary))
        .map(|(old, new)| {
            format!("shard {}: primary was {}, is {}", new.name, label(&old.primary), label(&new.primary))
        })
        .collect()
}

/// Replicas that came and went, of shards that stayed.
fn replica_changes(before: &[ShardSpec], after: &[ShardSpec]) -> Vec<String> {
    let mut lines = Vec::new();
    for new in after {
        let Some(old) = same(before, new) else { continue };
        let missing = |from: &ShardSpec, there: &ShardSpec| -> Vec<String> {
            let is_missing =
                |node: &&NodeSpec| !there.replicas.iter().any(|other| other.address == node.address);
            from.replicas.iter().filter(is_missing).map(NodeSpec::label).collect()
        };
        let line = |label: String, what: &str| format!("shard {}: replica {label} {what}", new.name);
        lines.extend(missing(new, old).into_iter().map(|label| line(label, "has come")));
        lines.extend(missing(old, new).into_iter().map(|label| line(label, "is gone")));
    }
    lines
}

fn address_of(node: &Option<NodeSpec>) -> Option<&Address> {
    node.as_ref().map(|node| &node.address)
}

fn same<'a>(shards: &'a [ShardSpec], like: &ShardSpec) -> Option<&'a ShardSpec> {
    shards.iter().find(|shard| shard.name == like.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(name: &str, replicas: &[&str], slots: std::ops::RangeInclusive<u16>) -> ShardSpec {
        let node = |text: &str| text.parse::<NodeSpec>().expect("a node");
        ShardSpec {
            name: name.to_owned(),
            primary: Some(node(name)),
            replicas: replicas.iter().map(|text| node(text)).collect(),
            slots: vec![slots],
        }
    }

    #[test]
    fn changes_name_moved_slots_and_changed_nodes() {
        let before = [shard("a:1", &["a:3"], 0..=99), shard("b:1", &["b:2"], 100..=16383)];
        assert_eq!(changes(&before, &before), Vec::<String>::new());
        let after = [shard("a:3", &[], 0..=99), shard("b:1", &["b:4"], 100..=16382)];
        let lines = [
            "100 slots (the first is 0) moved from a:1 to a:3",
            "slot 16383 moved from b:1 to nobody",
            "shard b:1: replica b:4 has come",
            "shard b:1: replica b:2 is gone",
        ];
        assert_eq!(changes(&before, &after), lines);
    }

    #[test]
    fn a_shard_with_a_name_of_its_own_changes_its_primary() {
        let named = |primary: &str| ShardSpec {
            name: "one".to_owned(),
            primary: primary.parse().ok(),
            ..ShardSpec::default()
        };
        assert_eq!(changes(&[named("a:1")], &[named("a:2")]), ["shard one: primary was a:1, is a:2"]);
        assert_eq!(changes(&[named("a:1")], &[named("")]), ["shard one: primary was a:1, is nobody"]);
    }

    #[test]
    fn a_change_of_everything_does_not_flood_the_log() {
        let many = |port: u16| -> Vec<ShardSpec> {
            (0..100).map(|n| shard(&format!("h{n}:{port}"), &[], n * 100..=n * 100 + 99)).collect()
        };
        let lines = changes(&many(1), &many(2));
        assert_eq!((lines.len(), lines[16].as_str()), (17, "and 84 more changes"));
    }
}
