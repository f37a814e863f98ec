//! The table for hashes of keys, and the slow start of ejected shards.
//!
//! ```text
//!   shard 1 is out ───────────► all tenths of the keys: as if shard 1 had not been given
//!   shard 1 has 3 tenths ─────► tenths 0, 1, 2: as if it had never been out; 3 … 9: as if it were out yet
//! ```
//!
//! Which tenth a key is in its tag decides, and nothing else. So a key comes home once and stays there, all keys of a tag
//! together.

use crate::ketama::Ring;
use crate::members::ShardId;
use crate::modulo::Modulo;
use crate::routes::Routes;
use crate::slots::{Slots, slot_of};
use crate::{Distribution, HashFunction, NodeSpec, SLOTS};
use std::sync::Arc;
use stdx::Prng;

/// A shard that was left out and has a part of its keys again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    /// Which.
    pub shard: ShardId,
    /// Tenths of its keys that it has.
    pub tenths: u8,
}

impl Returning {
    /// All of them: the slow start is finished.
    pub const ALL_TENTHS: u8 = 10;
}

/// The table for hashes.
#[derive(Clone)]
pub(crate) enum Table {
    Modulo(Modulo),
    Ring(Ring),
    Slots(Slots),
    /// Another one for each tenth of the keys.
    SlowStart(Box<SlowStart>),
    /// The beginnings of keys decide.
    Routes(Arc<Routes>),
}

/// The tables for the tenths of the keys; those that are alike are shared.
#[derive(Clone)]
pub(crate) struct SlowStart {
    by_tenth: [Arc<Part>; Returning::ALL_TENTHS as usize],
}

/// A table and the ejected shards.
struct Part {
    out: Vec<ShardId>,
    table: Table,
}

impl Table {
    /// The table over the shards of `nodes` that are not in `out`, of which there is one at least.
    pub(crate) fn new(distribution: Distribution, nodes: &[NodeSpec], out: &[ShardId]) -> Table {
        let mut order = match distribution {
            Distribution::Modulo | Distribution::Slots | Distribution::Tokens => as_given(nodes),
            Distribution::Modula | Distribution::Ketama => sorted_by_name(nodes),
        };
        order.retain(|shard| !out.contains(shard));
        match distribution {
            Distribution::Modulo | Distribution::Modula => Table::Modulo(Modulo::new(nodes, &order)),
            Distribution::Ketama => Table::Ring(Ring::new(nodes, &order)),
            Distribution::Slots => Table::Slots(Slots::new(nodes.len() as u32)),
            Distribution::Tokens => Table::Ring(Ring::of_tokens(nodes, &order)),
        }
    }

    /// The table without the shards of `out`, while those of `returning` have a part of their keys. Parts that this table has
    /// already, since it left out `out_before`, are not built again: a ring takes long.
    pub(crate) fn without(
        &self,
        out_before: &[ShardId],
        (out, returning): (&[ShardId], &[Returning]),
        (distribution, nodes): (Distribution, &[NodeSpec]),
    ) -> Table {
        let mut ready: Vec<Arc<Part>> = match self {
            Table::SlowStart(slow_start) => slow_start.by_tenth.to_vec(),
            table => vec![Arc::new(Part { out: out_before.to_vec(), table: table.clone() })],
        };
        let mut part = |out: Vec<ShardId>| {
            if let Some(known) = ready.iter().find(|part| part.out == out) {
                return Arc::clone(known);
            }
            let table = Table::new(distribution, nodes, &out);
            ready.push(Arc::new(Part { out, table }));
            Arc::clone(&ready[ready.len() - 1])
        };
        if returning.is_empty() {
            return part(out.to_vec()).table.clone();
        }
        let by_tenth = std::array::from_fn(|tenth| part(out_for(tenth, out, returning, nodes.len())));
        Table::SlowStart(Box::new(SlowStart { by_tenth }))
    }

    /// Adds the part of `whole` that each shard has, if hashes are even.
    pub(crate) fn add_shares(&self, whole: f64, shares: &mut [f64]) {
        match self {
            Table::Modulo(modulo) => modulo.runs().for_each(|(shard, places)| {
                shares[shard.0 as usize] += whole * f64::from(places) / f64::from(modulo.places());
            }),
            Table::Ring(ring) => ring.arcs().for_each(|(shard, arc)| {
                shares[shard.0 as usize] += whole * arc as f64 / (1u64 << 32) as f64;
            }),
            Table::Slots(slots) => slots.owners().for_each(|shard| {
                shares[shard.0 as usize] += whole / f64::from(SLOTS);
            }),
            Table::SlowStart(slow_start) => {
                let part = whole / slow_start.by_tenth.len() as f64;
                slow_start.by_tenth.iter().for_each(|tenth| tenth.table.add_shares(part, shares));
            }
            // The names of keys decide, which nothing is known of.
            Table::Routes(_) => {}
        }
    }

    /// The owner of the keys of `tag`.
    #[inline]
    pub(crate) fn shard_of(&self, hash: HashFunction, tag: &[u8]) -> ShardId {
        match self {
            Table::Modulo(modulo) => modulo.shard_at(hash.remainder(tag, modulo.places())),
            Table::Ring(ring) => ring.shard_at(hash.hash(tag)),
            Table::Slots(slots) => slots.shard_at(slot_of(tag)),
            Table::SlowStart(slow_start) => slow_start.shard_of(hash, tag),
            Table::Routes(routes) => routes.shard_of(tag),
        }
    }
}

impl SlowStart {
    #[cold]
    fn shard_of(&self, hash: HashFunction, tag: &[u8]) -> ShardId {
        self.by_tenth[tenth_of(tag)].table.shard_of(hash, tag)
    }
}

/// Which tenth of the keys those of `tag` are in. Mixed well, so that it says nothing about where a distribution puts them.
fn tenth_of(tag: &[u8]) -> usize {
    let hash = HashFunction::Crc32a.hash(tag);
    Prng::new(u64::from(hash)).below(u64::from(Returning::ALL_TENTHS)) as usize
}

/// Shards that are ejected for the keys of `tenth`. If that would be all, those in slow start are not.
fn out_for(tenth: usize, out: &[ShardId], returning: &[Returning], shards: usize) -> Vec<ShardId> {
    let away = returning.iter().filter(|back| usize::from(back.tenths) <= tenth).map(|back| back.shard);
    let mut all: Vec<ShardId> = out.iter().copied().chain(away).collect();
    all.sort();
    all.dedup();
    if all.len() < shards { all } else { out.to_vec() }
}

/// All shards in order.
fn as_given(nodes: &[NodeSpec]) -> Vec<ShardId> {
    (0..nodes.len() as u32).map(ShardId).collect()
}

/// All shards in the order in which twemproxy sorts its nodes (`conf_validate_server` in nc_conf.c, whose strings
/// compare by length first).
fn sorted_by_name(nodes: &[NodeSpec]) -> Vec<ShardId> {
    let mut order = as_given(nodes);
    order.sort_by_cached_key(|shard| {
        let name = nodes[shard.0 as usize].ring_name();
        (name.len(), name)
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Topology, TopologySpec, parse_nodes};

    const KEYS: usize = 2000;

    fn topology(list: &str, distribution: Distribution) -> Topology {
        let spec = TopologySpec {
            nodes: parse_nodes(list).expect("valid"),
            distribution,
            ..TopologySpec::default()
        };
        Topology::new(1, &spec).expect("valid")
    }

    /// The owners of a number of keys.
    fn owners(topology: &Topology) -> Vec<u32> {
        (0..KEYS).map(|number| topology.shard_of(format!("key{number}:x").as_bytes()).0).collect()
    }

    fn back(shard: u32, tenths: u8) -> Returning {
        Returning { shard: ShardId(shard), tenths }
    }

    #[test]
    fn keys_come_home_a_tenth_at_a_time_and_stay() {
        for distribution in [Distribution::Ketama, Distribution::Modula, Distribution::Modulo] {
            let all = topology("a:1,b:1,c:1,d:1", distribution);
            let mut now = all.without(2, &[ShardId(1)], &[]);
            let (home, away) = (owners(&all), owners(&now));
            let abroad =
                |owners: &[u32]| (0..KEYS).filter(|&key| owners[key] != home[key]).collect::<Vec<_>>();
            let mut before = abroad(&away);
            let first = before.len();
            for tenths in 1..Returning::ALL_TENTHS {
                now = now.without(2 + u64::from(tenths), &[], &[back(1, tenths)]);
                let owners = owners(&now);
                let after = abroad(&owners);
                assert!(after.iter().all(|key| before.contains(key)), "{distribution}: a key has left again");
                assert!(after.iter().all(|&key| owners[key] == away[key]), "{distribution}: a third place");
                let expected = first * usize::from(10 - tenths) / 10;
                assert!(
                    after.len().abs_diff(expected) < first / 15,
                    "{distribution}: {} of {first} are abroad with {tenths} tenths",
                    after.len()
                );
                before = after;
            }
            assert_eq!(owners(&now.without(12, &[], &[])), home);
            assert_eq!(owners(&now.without(12, &[ShardId(1)], &[])), away, "and back, if it fails again");
        }
    }

    #[test]
    fn an_earlier_return_has_more_keys() {
        let all = topology("a:1,b:1,c:1,d:1", Distribution::Ketama);
        let out = all.without(2, &[ShardId(1), ShardId(2)], &[]);
        let (home, away) = (owners(&all), owners(&out));
        let now = out.without(3, &[], &[back(1, 7), back(2, 2)]);
        let owners = owners(&now);
        let share = |shard: u32| {
            let of_shard = |owners: &[u32]| owners.iter().filter(|&&owner| owner == shard).count();
            of_shard(&owners) * 100 / of_shard(&home)
        };
        assert!((60..=85).contains(&share(1)) && (12..=28).contains(&share(2)), "{} {}", share(1), share(2));
        // Keys of shards that were never ejected have not moved.
        let stays = |key: &usize| [0, 3].contains(&home[*key]);
        assert!((0..KEYS).filter(stays).all(|key| owners[key] == home[key] && away[key] == home[key]));
    }

    #[test]
    fn keys_of_one_tag_come_home_together() {
        let spec = TopologySpec {
            nodes: parse_nodes("a:1,b:1").expect("valid"),
            tag_rule: Some(crate::TagRule::Redis),
            ..TopologySpec::default()
        };
        let all = Topology::new(1, &spec).expect("valid");
        let now = all.without(2, &[ShardId(0)], &[]).without(3, &[], &[back(0, 5)]);
        for tag in 0..100 {
            let owner = |rest: &str| now.shard_of(format!("{{{tag}}}{rest}").as_bytes());
            assert_eq!(owner("a"), owner("b"));
        }
    }

    #[test]
    fn a_step_makes_no_table_anew() {
        let nodes = parse_nodes("a:1,b:1,c:1").expect("valid");
        let spec = (Distribution::Ketama, nodes.as_slice());
        let full = Table::new(spec.0, spec.1, &[]);
        let first = full.without(&[], (&[], &[back(1, 1)]), spec);
        let second = first.without(&[], (&[], &[back(1, 2)]), spec);
        let (Table::SlowStart(first), Table::SlowStart(second)) = (first, second) else {
            panic!("both are in slow start")
        };
        assert!(Arc::ptr_eq(&first.by_tenth[0], &second.by_tenth[1]));
        assert!(Arc::ptr_eq(&first.by_tenth[9], &second.by_tenth[9]));
    }

    #[test]
    fn each_key_always_has_an_owner() {
        let all = topology("a:1,b:1", Distribution::Ketama);
        let now = all.without(2, &[ShardId(0)], &[back(1, 3)]);
        assert!(owners(&now).iter().all(|&owner| owner == 1));
        let both = all.without(2, &[], &[back(0, 3), back(1, 5)]);
        assert!([0, 1].iter().all(|shard| owners(&both).contains(shard)));
    }
}
