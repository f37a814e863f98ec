//! One immutable answer to the question who owns which key.

use crate::ketama::Ring;
use crate::modulo::Modulo;
use crate::node::check_nodes;
use crate::slots::{Slots, slot_of};
use crate::{Address, Distribution, HashFunction, NodeSpec, TagRule, TopologyError};
use std::fmt;

/// A shard of one topology: its place in the list of nodes as it was given, from 0.
///
/// How a distribution sorts its nodes does not show here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// A part of the keyspace and the node that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The node's given name, or else its address.
    pub name: String,
    /// Where the node listens.
    pub address: Address,
    /// How much of the keys it takes in relation to the others.
    pub weight: u32,
}

/// What a topology is made from. What is left out is what redis-sharding does: modulo, crc32a, tag rule sml.
#[derive(Clone, Debug, Default)]
pub struct TopologySpec {
    /// The nodes; their order matters for modulo and slots.
    pub nodes: Vec<NodeSpec>,
    /// How a hash chooses a node.
    pub distribution: Distribution,
    /// How a key becomes a hash; crc32a if left out. Slots take crc16-redis and nothing else.
    pub hash: Option<HashFunction>,
    /// What counts of a key; sml if left out, redis for slots.
    pub tag_rule: Option<TagRule>,
}

/// Who owns which key, as of one epoch. It never changes: another list of nodes is another topology.
///
/// ```
/// use topology::{ShardId, Topology, TopologySpec, parse_nodes};
///
/// let nodes = parse_nodes("127.0.0.1:6379,127.0.0.1:6380")?;
/// let topology = Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() })?;
/// assert_eq!(topology.describe(), "modulo, crc32a, tag rule sml");
/// assert_eq!(topology.shard_of(b"user{42}"), topology.shard_of(b"cart{42}"));
/// assert_eq!(topology.shard_of(b""), ShardId(0));
/// # Ok::<(), topology::TopologyError>(())
/// ```
#[derive(Clone)]
pub struct Topology {
    epoch: u64,
    shards: Box<[Shard]>,
    distribution: Distribution,
    tag_rule: TagRule,
    hash: HashFunction,
    table: Table,
}

/// What a hash is looked up in.
#[derive(Clone)]
enum Table {
    Modulo(Modulo),
    Ring(Ring),
    Slots(Slots),
}

impl Topology {
    /// The topology that `spec` asks for, with the version `epoch`.
    ///
    /// A ring of n nodes costs 160 n digests, some 20 ms for a thousand nodes.
    pub fn new(epoch: u64, spec: &TopologySpec) -> Result<Topology, TopologyError> {
        check_nodes(&spec.nodes)?;
        let default = HashFunction::Crc32a;
        let (hash, tag_rule) = match spec.distribution {
            Distribution::Slots => (hash_of_slots(spec)?, TagRule::Redis),
            _ => (spec.hash.unwrap_or(default), TagRule::default()),
        };
        Ok(Topology {
            epoch,
            shards: spec.nodes.iter().map(shard_at).collect(),
            distribution: spec.distribution,
            tag_rule: spec.tag_rule.unwrap_or(tag_rule),
            hash,
            table: table(spec),
        })
    }

    /// The owner of `key`. Costs the hash and a few nanoseconds; with one shard, nothing.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        if self.shards.len() == 1 {
            return ShardId(0);
        }
        let tag = self.tag_rule.tag(key);
        match &self.table {
            Table::Modulo(modulo) => modulo.shard_at(self.hash.remainder(tag, modulo.places())),
            Table::Ring(ring) => ring.shard_at(self.hash.hash(tag)),
            Table::Slots(slots) => slots.shard_at(slot_of(tag)),
        }
    }

    /// How many shards there are: at least one.
    #[inline]
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// All shards, in the order in which their nodes were given: [`ShardId`] counts through them.
    #[inline]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard `id`, which must be one of this topology. Panics if it is one of a larger topology.
    #[inline]
    pub fn shard(&self, id: ShardId) -> &Shard {
        &self.shards[id.0 as usize]
    }

    /// The version of this topology.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How keys are placed, in one line: `modulo, crc32a, tag rule sml`.
    pub fn describe(&self) -> String {
        format!("{}, {}, tag rule {}", self.distribution, self.hash, self.tag_rule)
    }

    /// Shards that can own no key, because on a ring they weigh too little beside the others for a single point.
    /// twemproxy starts with such a list and says nothing; whoever starts with one should say so.
    pub fn shards_without_keys(&self) -> Vec<ShardId> {
        let all = (0..self.shards.len() as u32).map(ShardId);
        match &self.table {
            Table::Ring(ring) => all.filter(|id| !ring.has(*id)).collect(),
            Table::Modulo(_) | Table::Slots(_) => Vec::new(),
        }
    }
}

impl fmt::Debug for Topology {
    /// Leaves out the table, which has thousands of entries.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Topology")
            .field("epoch", &self.epoch)
            .field("shards", &self.shards)
            .field("distribution", &self.describe())
            .finish_non_exhaustive()
    }
}

/// The hash of slots, if `spec` asks for nothing that slots do not have.
fn hash_of_slots(spec: &TopologySpec) -> Result<HashFunction, TopologyError> {
    if let Some(hash) = spec.hash.filter(|hash| *hash != HashFunction::Crc16Redis) {
        return Err(TopologyError::HashWithSlots { hash });
    }
    if let Some(node) = spec.nodes.iter().find(|node| node.weight != 1) {
        return Err(TopologyError::WeightWithSlots { node: node.label(), weight: node.weight });
    }
    Ok(HashFunction::Crc16Redis)
}

/// The shard that `node` has.
fn shard_at(node: &NodeSpec) -> Shard {
    Shard { name: node.label(), address: node.address.clone(), weight: node.weight }
}

/// The table that `spec` asks for.
fn table(spec: &TopologySpec) -> Table {
    let nodes = &spec.nodes;
    match spec.distribution {
        Distribution::Modulo => Table::Modulo(Modulo::new(nodes, &as_given(nodes))),
        Distribution::Modula => Table::Modulo(Modulo::new(nodes, &sorted_by_name(nodes))),
        Distribution::Ketama => Table::Ring(Ring::new(nodes, &sorted_by_name(nodes))),
        Distribution::Slots => Table::Slots(Slots::new(nodes.len() as u32)),
    }
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
    use crate::parse_nodes;

    /// What `list` and the options ask for; an empty option is left out.
    fn topology(
        list: &str,
        distribution: &str,
        hash: &str,
        tag_rule: &str,
    ) -> Result<Topology, TopologyError> {
        let spec = TopologySpec {
            nodes: parse_nodes(list)?,
            distribution: distribution.parse()?,
            hash: Some(hash).filter(|hash| !hash.is_empty()).map(str::parse).transpose()?,
            tag_rule: Some(tag_rule).filter(|rule| !rule.is_empty()).map(str::parse).transpose()?,
        };
        Topology::new(7, &spec)
    }

    /// Who owns each of `keys`.
    fn owners<const N: usize>(topology: &Topology, keys: [&str; N]) -> [u32; N] {
        keys.map(|key| topology.shard_of(key.as_bytes()).0)
    }

    const FOUR: &str = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4";

    #[test]
    fn the_default_is_what_redis_sharding_does() {
        let nodes = parse_nodes(FOUR).expect("four nodes");
        let topology = Topology::new(0, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid");
        assert_eq!(topology.describe(), "modulo, crc32a, tag rule sml");
        // zlib.crc32 of Python: "a" 0xe8b7be43, "b" 0x71beeff9, "c" 0x06b9df6f, "123456789" 0xcbf43926.
        assert_eq!(owners(&topology, ["a", "b", "c", "123456789", "x{a}", ""]), [3, 1, 3, 2, 3, 0]);
    }

    #[test]
    fn options_that_are_given_are_taken() {
        let describe =
            |distribution, hash, rule| topology(FOUR, distribution, hash, rule).map(|made| made.describe());
        assert_eq!(describe("ketama", "fnv1a_64", "{}"), Ok("ketama, fnv1a_64, tag rule {}".to_owned()));
        assert_eq!(describe("modula", "", ""), Ok("modula, crc32a, tag rule sml".to_owned()));
        assert_eq!(describe("slots", "", ""), Ok("slots, crc16-redis, tag rule redis".to_owned()));
        assert_eq!(
            describe("slots", "crc16-redis", "sml"),
            Ok("slots, crc16-redis, tag rule sml".to_owned())
        );
    }

    #[test]
    fn slots_refuse_other_hashes_and_weights() {
        let refusal = |list, hash| topology(list, "slots", hash, "").expect_err("refused").to_string();
        assert_eq!(
            refusal(FOUR, "crc32a"),
            "hash crc32a: slots are always made with crc16-redis; leave the hash out, or choose another distribution"
        );
        assert_eq!(
            refusal("a:1,b:1:3", ""),
            "node \"b:1\": slots are divided evenly; leave the weight 3 out, or choose another distribution"
        );
    }

    #[test]
    fn shards_are_numbered_as_given_however_they_are_sorted() {
        for distribution in ["modulo", "modula", "ketama"] {
            let topology =
                topology("h:1 bbb,h:2 aaaa,h:3:2 cc", distribution, "atol", "none").expect("valid");
            let names: Vec<_> = topology.shards().iter().map(|shard| shard.name.as_str()).collect();
            assert_eq!(names, ["bbb", "aaaa", "cc"], "{distribution}");
            assert_eq!(topology.shard(ShardId(2)).weight, 2);
            assert_eq!((topology.shard_count(), topology.epoch()), (3, 7));
        }
    }

    #[test]
    fn modula_sorts_by_length_of_name_and_modulo_does_not_sort() {
        let keys = ["0", "1", "2", "3", "4"];
        let list = "h:1 bbb,h:2 aaaa,h:3:2 cc";
        let modulo = topology(list, "modulo", "atol", "none").expect("valid");
        assert_eq!(owners(&modulo, keys), [0, 1, 2, 2, 0]);
        let modula = topology(list, "modula", "atol", "none").expect("valid");
        assert_eq!(owners(&modula, keys), [2, 2, 0, 1, 2]);
    }

    #[test]
    fn predixy_divides_all_64_bits_of_a_number() {
        // −1 becomes 2^64 − 1, and 2^64 is 2 modulo 7.
        let topology = topology("h:1,h:2,h:3,h:4,h:5,h:6,h:7", "modulo", "atol", "none").expect("valid");
        assert_eq!(owners(&topology, ["-1", "+9", "12x", "x", "4294967296", "-"]), [1, 2, 5, 0, 4, 0]);
    }

    #[test]
    fn one_shard_owns_everything() {
        for distribution in ["modulo", "modula", "ketama", "slots"] {
            let topology = topology("h:1", distribution, "", "").expect("valid");
            assert_eq!(owners(&topology, ["", "a", "{b}"]), [0, 0, 0]);
        }
    }

    #[test]
    fn slots_are_divided_in_the_order_given() {
        let topology = topology("h:3,h:1,h:2", "slots", "", "").expect("valid");
        // Slots 12739, 15495, 3443, 8363 of 5461 to a shard.
        assert_eq!(owners(&topology, ["123456789", "a", "{user1000}.following", "foo{}{bar}"]), [2, 2, 0, 1]);
    }

    #[test]
    fn a_node_too_light_for_the_ring_is_reported() {
        let topology = topology("h:1:1,h:2:1000", "ketama", "", "").expect("valid");
        assert_eq!(topology.shards_without_keys(), [ShardId(0)]);
        assert_eq!(self::topology(FOUR, "ketama", "", "").expect("valid").shards_without_keys(), []);
    }

    #[test]
    fn weights_that_no_text_has_are_refused() {
        for weight in [0, crate::WEIGHT_MAX + 1] {
            let nodes = vec![NodeSpec { weight, ..NodeSpec::tcp("a", 1) }];
            let spec = TopologySpec { nodes, ..TopologySpec::default() };
            let error = Topology::new(0, &spec).expect_err("refused");
            assert_eq!(error, TopologyError::Weight { node: "a:1".to_owned() });
        }
        assert_eq!(Topology::new(0, &TopologySpec::default()).expect_err("refused"), TopologyError::NoNodes);
    }
}
