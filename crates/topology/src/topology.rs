//! One immutable answer to the question who owns which key.

use crate::members::{Members, Node, NodeId, Shard, ShardId, ShardSpec};
use crate::node::check_nodes;
use crate::routes::Routes;
use crate::slots::{Slots, slot_of};
use crate::table::{Returning, Table};
use crate::{Address, Distribution, HashFunction, NodeSpec, SLOTS, TagRule, TopologyError};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The parts of a topology. The defaults are those of redis-sharding: modulo, crc32a, tag rule sml.
#[derive(Clone, Debug, Default)]
pub struct TopologySpec {
    /// The nodes; their order matters for modulo and slots.
    pub nodes: Vec<NodeSpec>,
    /// Rule by which a hash chooses a node.
    pub distribution: Distribution,
    /// Hash function of keys; crc32a if left out. Slots take crc16-redis and nothing else.
    pub hash: Option<HashFunction>,
    /// The hash tag rule. If left out: sml for modulo, none for twemproxy's ketama and modula, redis for slots.
    pub tag_rule: Option<TagRule>,
}

/// The owners of all keys, as of one epoch. It never changes: another list of nodes is another topology.
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
    members: Members,
    distribution: Distribution,
    tag_rule: TagRule,
    hash: HashFunction,
    table: Table,
    /// The nodes of the table; empty for a cluster.
    placed: Arc<[NodeSpec]>,
    /// Shards that own no keys for now.
    out: Arc<[ShardId]>,
    /// Shards that own only a part of their keys for now.
    returning: Arc<[Returning]>,
    is_cluster: bool,
    is_discovered: bool,
    keyless: ShardId,
}

impl Topology {
    /// The topology that `spec` asks for, with the version `epoch`.
    ///
    /// A ring of n nodes costs 160 n digests, some 20 ms for a thousand nodes.
    pub fn new(epoch: u64, spec: &TopologySpec) -> Result<Topology, TopologyError> {
        check_nodes(&spec.nodes)?;
        if spec.distribution == Distribution::Tokens {
            check_tokens(&spec.nodes)?;
        }
        let default = HashFunction::Crc32a;
        let (hash, tag_rule) = match spec.distribution {
            Distribution::Slots => (hash_of_slots(spec)?, TagRule::Redis),
            // twemproxy's words come with twemproxy's rule: without hash_tag it hashes whole keys.
            Distribution::Ketama | Distribution::Modula => (spec.hash.unwrap_or(default), TagRule::None),
            Distribution::Modulo => (spec.hash.unwrap_or(default), TagRule::default()),
            Distribution::Tokens => (spec.hash.unwrap_or(HashFunction::Murmur), TagRule::None),
        };
        Ok(Topology {
            epoch,
            members: Members::of_primaries(&spec.nodes),
            distribution: spec.distribution,
            tag_rule: spec.tag_rule.unwrap_or(tag_rule),
            hash,
            table: Table::new(spec.distribution, &spec.nodes, &[]),
            placed: spec.nodes.as_slice().into(),
            out: Arc::default(),
            returning: Arc::default(),
            is_cluster: false,
            is_discovered: false,
            keyless: ShardId(0),
        })
    }

    /// The topology of a Redis Cluster as of `epoch`. `shards` are all its shards, and slots go by its map. Nodes and shards
    /// that were there `before` keep their ids.
    ///
    /// A slot without owner goes to a node, which answers in the cluster's own words.
    pub fn of_cluster(
        before: Option<&Topology>,
        epoch: u64,
        shards: &[ShardSpec],
    ) -> Result<Topology, TopologyError> {
        let nobody = Members::default();
        let (members, ids) = before.map_or(&nobody, |before| &before.members).followed_by(epoch, shards)?;
        let keyless = keyless(&members);
        let mut slots = Slots::of(keyless);
        let mut is_taken = vec![false; usize::from(SLOTS)];
        for (spec, id) in shards.iter().zip(ids) {
            for slot in spec.slots.iter().cloned().flatten() {
                match is_taken.get_mut(usize::from(slot)) {
                    Some(is_taken) if !*is_taken => *is_taken = true,
                    _ => return Err(TopologyError::Slot { slot }),
                }
                slots.give(slot, id);
            }
        }
        Ok(Topology {
            epoch,
            members,
            distribution: Distribution::Slots,
            tag_rule: TagRule::Redis,
            hash: HashFunction::Crc16Redis,
            table: Table::Slots(slots),
            placed: Arc::default(),
            out: Arc::default(),
            returning: Arc::default(),
            is_cluster: true,
            is_discovered: true,
            keyless,
        })
    }

    /// The topology of an unknown Redis Cluster as of `epoch`: one shard has all slots and no node.
    pub fn of_unknown_cluster(epoch: u64) -> Topology {
        let all = ShardId(0);
        Topology {
            epoch,
            members: Members::of_unknown("of the cluster"),
            distribution: Distribution::Slots,
            tag_rule: TagRule::Redis,
            hash: HashFunction::Crc16Redis,
            table: Table::Slots(Slots::of(all)),
            placed: Arc::default(),
            out: Arc::default(),
            returning: Arc::default(),
            is_cluster: true,
            is_discovered: true,
            keyless: all,
        }
    }

    /// The topology of routes: `nodes` are the ways to other pools, in the order of the shards of `routes`.
    pub fn of_routes(epoch: u64, nodes: &[NodeSpec], routes: Routes) -> Result<Topology, TopologyError> {
        check_nodes(nodes)?;
        Ok(Topology {
            epoch,
            members: Members::of_primaries(nodes),
            distribution: Distribution::Modulo,
            tag_rule: TagRule::None,
            hash: HashFunction::Crc32a,
            table: Table::Routes(Arc::new(routes)),
            placed: Arc::default(),
            out: Arc::default(),
            returning: Arc::default(),
            is_cluster: false,
            is_discovered: false,
            keyless: ShardId(0),
        })
    }

    /// Whether the shards are routes to other pools.
    pub fn is_routes(&self) -> bool {
        matches!(self.table, Table::Routes(_))
    }

    /// The prefix by which `key` finds its route; empty without routes.
    pub fn route_of<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        match &self.table {
            Table::Routes(routes) => routes.prefix_of(key),
            Table::Modulo(_) | Table::Ring(_) | Table::Slots(_) | Table::SlowStart(_) => b"",
        }
    }

    /// The same keys in the same shards, before it is known which nodes have them: [`Topology::succeed`] tells.
    pub fn without_nodes(self) -> Topology {
        Topology { members: self.members.without_nodes(), is_discovered: true, ..self }
    }

    /// The same keys in the same shards, some of them on other nodes as of `epoch`. `shards` are found by their names, and
    /// shards that are not named stay unchanged.
    pub fn succeed(&self, epoch: u64, shards: &[ShardSpec]) -> Result<Topology, TopologyError> {
        self.with_nodes(epoch, shards).map(Topology::to_be_followed)
    }

    /// As [`Topology::succeed`], for nodes that an operator names: nobody discovers others.
    pub fn with_nodes(&self, epoch: u64, shards: &[ShardSpec]) -> Result<Topology, TopologyError> {
        let members = self.members.replaced_by(epoch, shards)?;
        let keyless = keyless(&members);
        Ok(Topology { epoch, members, keyless, ..self.clone() })
    }

    /// The same shards, of which those in `out` own no keys as of `epoch`. Their keys fall to the others just as if the nodes
    /// of `out` had not been given; twemproxy does so with ejected ones. Those of `returning` own a part of their keys; the
    /// others are where they are while these are out. Not all may be out. A cluster never has any out.
    pub fn without(&self, epoch: u64, out: &[ShardId], returning: &[Returning]) -> Topology {
        if self.placed.is_empty() || out.len() >= self.placed.len() {
            return Topology { epoch, ..self.clone() };
        }
        let table = self.table.without(&self.out, (out, returning), (self.distribution, &self.placed));
        Topology { epoch, table, out: out.into(), returning: returning.into(), ..self.clone() }
    }

    /// Shards that own no keys for now.
    pub fn out(&self) -> &[ShardId] {
        &self.out
    }

    /// Shards that own only a part of their keys for now.
    pub fn returning(&self) -> &[Returning] {
        &self.returning
    }

    /// This topology, of which the nodes may be replaced by others while the process runs.
    pub fn to_be_followed(self) -> Topology {
        Topology { is_discovered: true, ..self }
    }

    /// The owner of `key`. Costs the hash and a few nanoseconds; with one shard, nothing.
    #[inline(always)]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        if self.members.shards.len() == 1 {
            return ShardId(0);
        }
        self.table.shard_of(self.hash, self.tag_rule.tag(key))
    }

    /// The table that gives hashes to shards.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The owner of `slot`, which is below [`SLOTS`], where keys go by slots; else the shard of no key.
    pub fn shard_at(&self, slot: u16) -> ShardId {
        match &self.table {
            Table::Slots(slots) => slots.shard_at(slot),
            Table::Modulo(_) | Table::Ring(_) | Table::SlowStart(_) | Table::Routes(_) => self.keyless,
        }
    }

    /// The slot of `key`, if keys go by slots.
    pub fn slot_of_key(&self, key: &[u8]) -> Option<u16> {
        match &self.table {
            Table::Slots(_) => Some(slot_of(self.tag_rule.tag(key))),
            Table::Modulo(_) | Table::Ring(_) | Table::SlowStart(_) | Table::Routes(_) => None,
        }
    }

    /// The owner of `key`, and which of [`Topology::divisions`] it is in: keys of one division may be in one request.
    #[inline]
    pub fn division_of(&self, key: &[u8]) -> (u32, ShardId) {
        match &self.table {
            Table::Slots(slots) if self.is_cluster => {
                let slot = slot_of(self.tag_rule.tag(key));
                (u32::from(slot), slots.shard_at(slot))
            }
            _ => {
                let shard = self.shard_of(key);
                (shard.0, shard)
            }
        }
    }

    /// Number of parts of the keyspace of which no request may touch two: slots in a cluster, else shards.
    pub fn divisions(&self) -> usize {
        if self.is_cluster { usize::from(SLOTS) } else { self.members.shards.len() }
    }

    /// Whether its nodes are a Redis Cluster, which know the owner of each slot and refuse keys of others.
    #[inline]
    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// Whether other nodes may take the places of these while the process runs.
    #[inline]
    pub fn is_discovered(&self) -> bool {
        self.is_discovered
    }

    /// Number of entries of [`Topology::shards`]: at least one. Some may be gone.
    #[inline]
    pub fn shard_count(&self) -> usize {
        self.members.shards.len()
    }

    /// All entries of shards: [`ShardId`] counts through them.
    #[inline]
    pub fn shards(&self) -> &[Shard] {
        &self.members.shards
    }

    /// The shards that are there, in their order.
    pub fn all_shards(&self) -> impl Iterator<Item = ShardId> + Clone {
        let there = self.members.shards.iter().zip(0..).filter(|(shard, _)| !shard.is_gone());
        there.map(|(_, id)| ShardId(id))
    }

    /// The shards that own keys: in a cluster, those with slots.
    pub fn owners(&self) -> Vec<ShardId> {
        let Table::Slots(slots) = &self.table else { return self.all_shards().collect() };
        let mut owns = vec![false; self.members.shards.len()];
        slots.owners().for_each(|shard| owns[shard.0 as usize] = true);
        self.all_shards().filter(|shard| owns[shard.0 as usize]).collect()
    }

    /// Whether all keys are in one division, and so on one shard.
    pub fn is_undivided(&self) -> bool {
        self.divisions() == 1
    }

    /// The shard `id`, which must be one of this topology. Panics if it is one of a larger topology.
    #[inline]
    pub fn shard(&self, id: ShardId) -> &Shard {
        &self.members.shards[id.0 as usize]
    }

    /// The shard for requests without keys: always the same, while it exists.
    #[inline]
    pub fn keyless(&self) -> ShardId {
        self.keyless
    }

    /// All entries of nodes: [`NodeId`] counts through them. Some may be gone.
    pub fn nodes(&self) -> &[Node] {
        &self.members.nodes
    }

    /// The node `id`, which must be one of this topology or of one before it.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.members.nodes[id.0 as usize]
    }

    /// The node at `address`, if it is one of this topology.
    pub fn node_at(&self, address: &Address) -> Option<NodeId> {
        self.members.node_at(address)
    }

    /// Where the primary of shard `id` listens, if it has one.
    pub fn primary_address(&self, id: ShardId) -> Option<&Address> {
        self.shard(id).primary.map(|node| &self.node(node).address)
    }

    /// The primaries of this topology that have lost keys to others in the one that follows.
    pub fn losers(&self, after: &Topology) -> BTreeSet<NodeId> {
        let primary = Topology::primary_of;
        let owners: Vec<(ShardId, ShardId)> = match (&self.table, &after.table) {
            (Table::Slots(before), Table::Slots(after)) => before.owners().zip(after.owners()).collect(),
            // Where others are left out than before, every shard may have lost keys to one that came back.
            _ if self.out != after.out || self.returning != after.returning => {
                return self.all_shards().filter_map(|id| primary(self, id)).collect();
            }
            _ => self.all_shards().map(|id| (id, id)).collect(),
        };
        let lost = owners.into_iter().filter_map(|(owner, heir)| {
            let node = primary(self, owner)?;
            (primary(after, heir) != Some(node)).then_some(node)
        });
        lost.collect()
    }

    /// Whether a primary of this topology is not that of its shard any more in the one that follows. One that has given all its
    /// slots to others is not lost: its keys were moved.
    pub fn loses_primary(&self, after: &Topology) -> bool {
        self.all_shards().any(|id| {
            let primary = self.primary_of(id);
            primary.is_some() && after.primary_of(id) != primary && !self.gives_all_away(id, after)
        })
    }

    /// Whether the shard `id` is not there in the topology that follows, and its slots are those of primaries that were there.
    fn gives_all_away(&self, id: ShardId, after: &Topology) -> bool {
        let (Table::Slots(before), Table::Slots(now)) = (&self.table, &after.table) else { return false };
        let mut heirs = before.owners().zip(now.owners()).filter(|(owner, _)| *owner == id);
        after.primary_of(id).is_none()
            && heirs.all(|(_, heir)| {
                let primary = self.primary_of(heir);
                primary.is_some() && after.primary_of(heir) == primary
            })
    }

    /// The primary of a shard that may not be there.
    fn primary_of(&self, id: ShardId) -> Option<NodeId> {
        self.members.shards.get(id.0 as usize).and_then(|shard| shard.primary)
    }

    /// The shards that have got slots from others in the topology of a cluster that follows.
    pub fn gainers(&self, after: &Topology) -> BTreeSet<ShardId> {
        let (Table::Slots(before), Table::Slots(now)) = (&self.table, &after.table) else {
            return BTreeSet::new();
        };
        let owners = before.owners().zip(now.owners());
        owners.filter(|(owner, heir)| owner != heir).map(|(_, heir)| heir).collect()
    }

    /// The version of this topology.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Rule by which a hash chooses a shard.
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// Two keys that live on one shard by a hash tag, as an example for users; none if the rule knows no tags.
    pub fn tagged_keys(&self) -> Option<String> {
        let (open, close) = self.tag_rule.characters()?;
        Some(format!("a{open}tag{close}, b{open}tag{close}"))
    }

    /// The rules for keys in one line: `modulo, crc32a, tag rule sml`.
    pub fn describe(&self) -> String {
        if self.is_cluster {
            return "slots as the cluster gives them".to_owned();
        }
        if self.is_routes() {
            return "by prefixes".to_owned();
        }
        format!("{}, {}, tag rule {}", self.distribution, self.hash, self.tag_rule)
    }

    /// Shards that can own no key, because on a ring they weigh too little beside the others for a single point.
    /// twemproxy starts with such a list and says nothing; shardis logs a warning.
    pub fn shards_without_keys(&self) -> Vec<ShardId> {
        let all = (0..self.shard_count() as u32).map(ShardId);
        match &self.table {
            Table::Ring(ring) => all.filter(|id| !ring.has(*id)).collect(),
            Table::Modulo(_) | Table::Slots(_) | Table::SlowStart(_) | Table::Routes(_) => Vec::new(),
        }
    }
}

impl fmt::Debug for Topology {
    /// Leaves out the table, which has thousands of entries.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Topology")
            .field("epoch", &self.epoch)
            .field("shards", &self.members.shards)
            .field("distribution", &self.describe())
            .finish_non_exhaustive()
    }
}

/// Refuses a ring on which a node has no point, or shares one.
fn check_tokens(nodes: &[NodeSpec]) -> Result<(), TopologyError> {
    let mut seen = BTreeSet::new();
    for node in nodes {
        if node.tokens.is_empty() {
            return Err(TopologyError::NoToken { node: node.label() });
        }
        if let Some(&token) = node.tokens.iter().find(|&&token| !seen.insert(token)) {
            return Err(TopologyError::SameToken { token });
        }
    }
    Ok(())
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

/// The first shard that has a primary, or else that is there.
fn keyless(members: &Members) -> ShardId {
    let first = |fits: &dyn Fn(&Shard) -> bool| members.shards.iter().position(fits);
    let there = first(&|shard| shard.primary.is_some()).or_else(|| first(&|shard| !shard.is_gone()));
    ShardId(there.unwrap_or_default() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_nodes;

    /// The topology of `list` and the options; an empty option is left out.
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

    /// The owners of `keys`.
    fn owners<const N: usize>(topology: &Topology, keys: [&str; N]) -> [u32; N] {
        keys.map(|key| topology.shard_of(key.as_bytes()).0)
    }

    const FOUR: &str = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4";

    #[test]
    fn the_default_equals_redis_sharding() {
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
        assert_eq!(describe("slots", "", ""), Ok("slots, crc16-redis, tag rule redis".to_owned()));
        assert_eq!(
            describe("slots", "crc16-redis", "sml"),
            Ok("slots, crc16-redis, tag rule sml".to_owned())
        );
    }

    #[test]
    fn each_distribution_has_the_tag_rule_of_its_program() {
        for (distribution, rule) in
            [("modulo", "sml"), ("ketama", "none"), ("modula", "none"), ("slots", "redis")]
        {
            let described = topology(FOUR, distribution, "", "").map(|made| made.describe());
            assert!(described.expect("valid").ends_with(&format!("tag rule {rule}")), "{distribution}");
        }
    }

    #[test]
    fn the_example_of_tagged_keys_holds_for_each_rule() {
        for rule in ["sml", "perl", "redis", "codis", "$$", "<>"] {
            let made = topology(FOUR, "modulo", "", rule).expect("valid");
            let example = made.tagged_keys().expect("the rule knows tags");
            let (first, second) = example.split_once(", ").expect("two keys");
            // Each of many tags keeps its two keys together.
            for tag in 0..50 {
                let key = |key: &str| key.replace("tag", &tag.to_string()).into_bytes();
                assert_eq!(made.shard_of(&key(first)), made.shard_of(&key(second)), "{rule}: {example}");
            }
        }
        assert_eq!(topology(FOUR, "modulo", "", "none").expect("valid").tagged_keys(), None);
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

    fn cluster_shard(
        name: &str,
        port: u16,
        replica: u16,
        slots: &[std::ops::RangeInclusive<u16>],
    ) -> ShardSpec {
        ShardSpec {
            name: name.to_owned(),
            primary: Some(NodeSpec::tcp("h", port)),
            replicas: vec![NodeSpec::tcp("h", replica)],
            slots: slots.to_vec(),
        }
    }

    #[test]
    fn a_cluster_decides_the_owners_of_slots() {
        let shards =
            [cluster_shard("a", 1, 3, &[0..=100, 15495..=15495]), cluster_shard("b", 2, 4, &[101..=15494])];
        let before = Topology::of_cluster(None, 7, &shards).expect("valid");
        assert_eq!(owners(&before, ["a", "foo", "123456789"]), [0, 1, 1]);
        assert_eq!(before.division_of(b"foo"), (12182, ShardId(1)));
        assert_eq!((before.divisions(), before.is_cluster(), before.is_discovered()), (16384, true, true));
        assert_eq!(before.describe(), "slots as the cluster gives them");
        // A replica is promoted, and a slot goes to a shard that was not there before.
        let shards = [
            cluster_shard("b", 4, 2, &[101..=15494]),
            cluster_shard("a", 1, 3, &[0..=100]),
            cluster_shard("c", 5, 6, &[15495..=15495]),
        ];
        let after = Topology::of_cluster(Some(&before), 8, &shards).expect("valid");
        assert_eq!(owners(&after, ["a", "foo"]), [2, 1]);
        assert_eq!(after.shard(ShardId(1)).primary, Some(NodeId(3)));
        assert_eq!(after.node_at(&"h:5".parse::<NodeSpec>().expect("a node").address), Some(NodeId(4)));
        assert_eq!(before.losers(&after), [NodeId(0), NodeId(2)].into());
        assert_eq!(after.losers(&after), [].into());
        // One shard is merged into another. A slot without an owner goes to a shard that claims it.
        let last = Topology::of_cluster(Some(&after), 9, &shards[..1]).expect("valid");
        assert_eq!((last.keyless(), last.all_shards().collect::<Vec<_>>()), (ShardId(1), vec![ShardId(1)]));
        assert_eq!((owners(&last, ["a"]), last.is_undivided()), ([1], false));
    }

    #[test]
    fn a_primary_without_slots_is_there_and_may_become_a_replica() {
        let newcomer = ShardSpec { replicas: Vec::new(), ..cluster_shard("b", 5, 6, &[]) };
        let shards = [cluster_shard("a", 1, 3, &[0..=16383]), newcomer];
        let before = Topology::of_cluster(None, 7, &shards).expect("valid");
        assert_eq!(before.all_shards().collect::<Vec<_>>(), [ShardId(0), ShardId(1)]);
        assert_eq!((before.owners(), owners(&before, ["a"])), (vec![ShardId(0)], [0]));
        let adopted = ShardSpec { replicas: vec![NodeSpec::tcp("h", 5)], ..shards[0].clone() };
        let after = Topology::of_cluster(Some(&before), 8, &[adopted]).expect("valid");
        assert_eq!(after.all_shards().collect::<Vec<_>>(), [ShardId(0)]);
        let id = before.shard(ShardId(1)).primary.expect("it is one");
        assert_eq!(
            (&after.shard(ShardId(0)).replicas[..], after.node(id).shard),
            (&[id][..], Some(ShardId(0)))
        );
    }

    #[test]
    fn a_slot_has_one_owner_at_most() {
        let twice = [cluster_shard("a", 1, 3, &[0..=100]), cluster_shard("b", 2, 4, &[100..=101])];
        let error = Topology::of_cluster(None, 1, &twice).expect_err("refused");
        assert_eq!(error, TopologyError::Slot { slot: 100 });
        let beyond = [cluster_shard("a", 1, 3, &[16383..=16384])];
        let error = Topology::of_cluster(None, 1, &beyond).expect_err("refused");
        assert_eq!(error, TopologyError::Slot { slot: 16384 });
    }

    #[test]
    fn keys_stay_in_their_shards_when_these_move() {
        let before = topology("h:1 a,h:2 b", "ketama", "", "").expect("valid");
        let after = before.succeed(8, &[cluster_shard("b", 3, 2, &[])]).expect("valid");
        let keys = ["1", "2", "3", "4", "5", "6", "7", "8"];
        assert_eq!(owners(&before, keys), owners(&after, keys));
        assert_eq!(before.losers(&after), [NodeId(1)].into());
        let address = |id| after.primary_address(ShardId(id)).map(ToString::to_string);
        assert_eq!((address(0).as_deref(), address(1).as_deref()), (Some("h:1"), Some("h:3")));
        assert!(after.is_discovered() && !before.is_discovered() && !after.is_cluster());
        assert_eq!((after.epoch(), after.describe()), (8, before.describe()));
    }

    #[test]
    fn shards_can_be_there_before_their_nodes_are_known() {
        let known = topology("h:1 a,h:2 b", "modulo", "", "").expect("valid");
        let unknown = known.clone().without_nodes();
        let keys = ["1", "2", "3", "4"];
        assert_eq!(owners(&unknown, keys), owners(&known, keys));
        assert_eq!((unknown.nodes().len(), unknown.primary_address(ShardId(0))), (0, None));
        let found = unknown.succeed(8, &[cluster_shard("b", 3, 2, &[])]).expect("valid");
        let address = |id| found.primary_address(ShardId(id)).map(ToString::to_string);
        assert_eq!((address(0), address(1).as_deref()), (None, Some("h:3")));
        let cluster = Topology::of_unknown_cluster(0);
        assert_eq!(
            (cluster.is_cluster(), cluster.shard_of(b"a"), cluster.keyless()),
            (true, ShardId(0), ShardId(0))
        );
        let found = Topology::of_cluster(Some(&cluster), 1, &[cluster_shard("b", 3, 2, &[0..=16383])])
            .expect("valid");
        assert_eq!((found.shard_of(b"a"), found.shard(ShardId(0)).is_gone()), (ShardId(1), true));
    }

    #[test]
    fn ejected_shard_maps_keys_as_if_it_were_absent() {
        let list = ["h:1:2 bbb", "h:2 aaaa", "h:3:3 cc", "h:4 d"];
        let keys: Vec<String> = (0..500).map(|number| format!("key{number}")).collect();
        for distribution in ["modulo", "modula", "ketama"] {
            let all = topology(&list.join(","), distribution, "murmur", "none").expect("valid");
            let without = all.without(8, &[ShardId(1), ShardId(3)], &[]);
            let others =
                topology(&[list[0], list[2]].join(","), distribution, "murmur", "none").expect("valid");
            for key in &keys {
                let expected = [ShardId(0), ShardId(2)][others.shard_of(key.as_bytes()).0 as usize];
                assert_eq!(without.shard_of(key.as_bytes()), expected, "{distribution} {key}");
            }
            assert_eq!((without.epoch(), without.shard_count()), (8, 4));
            assert_eq!(all.losers(&without).len(), 4);
            assert_eq!(all.losers(&all.without(8, &[], &[])).len(), 0);
            let back = without.without(9, &[], &[]);
            assert!(keys.iter().all(|key| back.shard_of(key.as_bytes()) == all.shard_of(key.as_bytes())));
        }
        let two = topology("h:1,h:2", "ketama", "", "").expect("valid");
        let one = two.without(2, &[ShardId(0)], &[]);
        assert!(keys.iter().all(|key| one.shard_of(key.as_bytes()) == ShardId(1)));
        // Where that cannot be, nothing changes.
        let slots = topology("h:1,h:2", "slots", "", "").expect("valid");
        for (all, out) in [(two, vec![ShardId(0), ShardId(1)]), (slots, vec![])] {
            let without = all.without(2, &out, &[]);
            assert!(keys.iter().all(|key| without.shard_of(key.as_bytes()) == all.shard_of(key.as_bytes())));
        }
    }

    #[test]
    fn a_hash_belongs_to_the_first_token_at_or_after_it() {
        let node = |name: &str, tokens: &[u32]| NodeSpec {
            name: Some(name.to_owned()),
            tokens: tokens.to_vec(),
            ..NodeSpec::tcp(name, 1)
        };
        let ring = |nodes: Vec<NodeSpec>| {
            let distribution = Distribution::Tokens;
            Topology::new(1, &TopologySpec { nodes, distribution, ..TopologySpec::default() })
        };
        let topology = ring(vec![node("a", &[1 << 30]), node("b", &[3 << 30, u32::MAX])]).expect("valid");
        assert_eq!(topology.describe(), "tokens, murmur, tag rule none");
        let owner = |hash: u32| match &topology.table {
            Table::Ring(ring) => ring.shard_at(hash).0,
            _ => panic!("tokens are points of a ring"),
        };
        let hashes = [0, 1 << 30, (1 << 30) + 1, 3 << 30, (3 << 30) + 1, u32::MAX];
        assert_eq!(hashes.map(owner), [0, 0, 1, 1, 1, 1]);
        let wrapped = ring(vec![node("a", &[7]), node("b", &[9])]).expect("valid");
        assert!(wrapped.shares()[0] > 0.99, "hashes behind the last token belong to the first");
        let none = ring(vec![node("a", &[7]), node("b", &[])]).expect_err("b has no token");
        assert_eq!(none.to_string(), "node \"b\": the others have tokens, so it needs one as well");
        assert!(ring(vec![node("a", &[7]), node("b", &[7])]).is_err());
    }

    #[test]
    fn replicas_are_nodes_of_their_primarys_shard_and_own_no_keys() {
        let with = topology("a:1|b:1@z,c:1|d:1|e:1", "ketama", "", "").expect("valid");
        let without = topology("a:1,c:1", "ketama", "", "").expect("valid");
        for key in 0..500 {
            let key = format!("key{key}");
            assert_eq!(with.shard_of(key.as_bytes()), without.shard_of(key.as_bytes()));
        }
        let nodes = |shard: u32| with.shard(ShardId(shard)).nodes().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!((nodes(0), nodes(1)), (vec![0, 2], vec![1, 3, 4]), "primaries have the first numbers");
        assert_eq!(with.node(NodeId(2)).zone.as_deref(), Some("z"));
        assert_eq!(with.node(NodeId(4)).shard, Some(ShardId(1)));
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
