//! Members of a topology: nodes and shards, by ids that stay the same from one epoch to the next.
//!
//! ```text
//!   epoch 7: shard 0 = node 0, replica 3    epoch 8: shard 0 = node 3, replica 0   (promoted)
//!            shard 1 = node 1, replica 4             shard 1 = node 1, replica 4
//!            shard 2 = node 2                        shard 2 gone, node 2 gone     (all slots moved away)
//! ```
//!
//! Workers name connections by node and divide requests by shard. So a successor keeps the id of every node that it still has
//! (known by its address). It also keeps the id of every shard that goes on (known by its nodes, or else by its name). A
//! removed member leaves an empty entry, which is reused only when no worker can remember it.

use crate::{Address, NODES_MAX, NodeSpec, TopologyError};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A shard of one line of topologies: its entry among [`crate::Topology::shards`].
///
/// At first, shards are numbered as they were given: how a distribution sorts its nodes does not show here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// A node of one line of topologies: its entry among [`crate::Topology::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// One process at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where it listens.
    pub address: Address,
    /// Whose primary or replica it is; `None` if it is not in this topology any more.
    pub shard: Option<ShardId>,
    /// The zone in which it is, if that is known.
    pub zone: Option<String>,
    /// Its id in the cluster, if known.
    pub identity: Option<Arc<str>>,
    gone_at: u64,
}

/// A part of the keyspace and the nodes that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The given name, or else the first node's address.
    pub name: String,
    /// Share of the keys in relation to the others.
    pub weight: u32,
    /// The node that takes writes; `None` while there is none, or if the shard is gone.
    pub primary: Option<NodeId>,
    /// The nodes that follow it.
    pub replicas: Vec<NodeId>,
    /// The epoch from which on it has neither nodes nor keys.
    gone_at: Option<u64>,
}

impl Shard {
    /// Whether it is an empty entry: no node, no key. "All shards" passes over it.
    pub fn is_gone(&self) -> bool {
        self.gone_at.is_some()
    }

    /// Its nodes, the primary first.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.primary.into_iter().chain(self.replicas.iter().copied())
    }
}

/// One shard as discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSpec {
    /// Its name.
    pub name: String,
    /// The node that takes writes, if there is one.
    pub primary: Option<NodeSpec>,
    /// Its replicas.
    pub replicas: Vec<NodeSpec>,
    /// The slots that it owns; empty outside of a cluster.
    pub slots: Vec<RangeInclusive<u16>>,
}

impl ShardSpec {
    fn nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.primary.iter().chain(&self.replicas)
    }
}

/// All nodes and shards of one topology.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    pub nodes: Vec<Node>,
    pub shards: Vec<Shard>,
    by_address: HashMap<Address, NodeId>,
}

/// Epochs after which an empty entry is reused. By then no request of its time is in flight, even if epochs follow each
/// other by 50 ms.
const FORGOTTEN_AFTER: u64 = 1024;

impl Members {
    /// Each node is the primary of a shard of its own, which it has together with its replicas. Primaries have the numbers
    /// of their shards.
    pub(crate) fn of_primaries(specs: &[NodeSpec]) -> Members {
        let mut members = Members::default();
        for (spec, id) in specs.iter().zip(0..) {
            let (name, weight, replicas) = (spec.label(), spec.weight, Vec::new());
            members.shards.push(Shard { name, weight, primary: None, replicas, gone_at: None });
            members.shards[id as usize].primary = members.take_node(spec, ShardId(id), 0);
        }
        for (spec, id) in specs.iter().zip(0..) {
            for replica in &spec.replicas {
                let node = members.take_node(replica, ShardId(id), 0);
                members.shards[id as usize].replicas.extend(node);
            }
        }
        members
    }

    /// One shard of which only the name is known.
    pub(crate) fn of_unknown(name: &str) -> Members {
        let (name, replicas) = (name.to_owned(), Vec::new());
        let shards = vec![Shard { name, weight: 1, primary: None, replicas, gone_at: None }];
        Members { shards, ..Members::default() }
    }

    /// The same shards without their nodes.
    pub(crate) fn without_nodes(self) -> Members {
        let shards = self.shards.into_iter();
        let shards = shards.map(|shard| Shard { primary: None, replicas: Vec::new(), ..shard });
        Members { shards: shards.collect(), ..Members::default() }
    }

    /// The node at `address`, however that is spelled.
    pub(crate) fn node_at(&self, address: &Address) -> Option<NodeId> {
        let known = self.by_address.get(&address.canonical()).copied();
        known.filter(|id| self.nodes[id.0 as usize].shard.is_some())
    }

    /// The members as of `epoch`, when `specs` are all shards that there are. Which shard each of `specs` has become
    /// follows from the nodes of the shards before.
    pub(crate) fn followed_by(
        &self,
        epoch: u64,
        specs: &[ShardSpec],
    ) -> Result<(Members, Vec<ShardId>), TopologyError> {
        check(specs)?;
        let ids = self.match_by_nodes(specs);
        let mut members = self.clone();
        for shard in members.shards.iter_mut().filter(|shard| !shard.is_gone()) {
            (shard.primary, shard.gone_at) = (None, Some(epoch));
            shard.replicas.clear();
        }
        members.release_nodes(epoch);
        let ids = specs.iter().zip(ids).map(|(spec, id)| {
            let id = id.unwrap_or_else(|| members.free_shard(epoch));
            members.set(id, spec, epoch);
            id
        });
        let ids = ids.collect();
        Ok((members, ids))
    }

    /// The members as of `epoch`, when the shards that `specs` name have these nodes, and the others those that they had.
    pub(crate) fn replaced_by(&self, epoch: u64, specs: &[ShardSpec]) -> Result<Members, TopologyError> {
        let mut members = self.clone();
        for spec in specs {
            let is_it = |shard: &Shard| !shard.is_gone() && shard.name == spec.name;
            let Some(id) = self.shards.iter().position(is_it) else {
                return Err(TopologyError::UnknownShard { name: spec.name.clone() });
            };
            members.shards[id].primary = None;
            members.shards[id].replicas.clear();
        }
        members.release_nodes(epoch);
        for spec in specs {
            let id = self.shards.iter().position(|shard| shard.name == spec.name).unwrap_or_default();
            members.set(ShardId(id as u32), spec, epoch);
        }
        Ok(members)
    }

    /// Nodes that no shard has any more are gone as of `epoch`, unless a shard takes them.
    fn release_nodes(&mut self, epoch: u64) {
        let mut is_used = vec![false; self.nodes.len()];
        let used = self.shards.iter().flat_map(Shard::nodes);
        used.for_each(|node| is_used[node.0 as usize] = true);
        for (node, is_used) in self.nodes.iter_mut().zip(is_used) {
            if !is_used && node.shard.take().is_some() {
                node.gone_at = epoch;
            }
        }
    }

    /// Makes shard `id` what `spec` says. A node that `spec` names twice, or that another shard has, stays where it was
    /// named first.
    fn set(&mut self, id: ShardId, spec: &ShardSpec, epoch: u64) {
        let primary = spec.primary.as_ref().and_then(|node| self.take_node(node, id, epoch));
        let replicas = spec.replicas.iter().filter_map(|node| self.take_node(node, id, epoch)).collect();
        let weight = self.shards[id.0 as usize].weight;
        self.shards[id.0 as usize] =
            Shard { name: spec.name.clone(), weight, primary, replicas, gone_at: None };
    }

    fn take_node(&mut self, spec: &NodeSpec, shard: ShardId, epoch: u64) -> Option<NodeId> {
        let known = self.by_address.get(&spec.address.canonical()).copied();
        let id = known.unwrap_or_else(|| self.add_node(spec, epoch));
        let node = &mut self.nodes[id.0 as usize];
        if node.shard.is_some() {
            return None;
        }
        node.shard = Some(shard);
        // A source without a zone does not mean that there is none.
        node.zone = spec.zone.clone().or(node.zone.take());
        node.identity.clone_from(&spec.identity);
        Some(id)
    }

    /// An entry for the node that `spec` means, which has none.
    fn add_node(&mut self, spec: &NodeSpec, epoch: u64) -> NodeId {
        let address = &spec.address;
        let node = Node { address: address.clone(), shard: None, zone: None, identity: None, gone_at: epoch };
        let is_free = |node: &Node| node.shard.is_none() && node.gone_at + FORGOTTEN_AFTER <= epoch;
        let id = match self.nodes.iter().position(is_free) {
            Some(free) => {
                self.by_address.remove(&self.nodes[free].address.canonical());
                self.nodes[free] = node;
                NodeId(free as u32)
            }
            None => {
                self.nodes.push(node);
                NodeId(self.nodes.len() as u32 - 1)
            }
        };
        self.by_address.insert(address.canonical(), id);
        id
    }

    /// An entry for a shard that was not there before.
    fn free_shard(&mut self, epoch: u64) -> ShardId {
        let is_free = |shard: &Shard| shard.gone_at.is_some_and(|gone_at| gone_at + FORGOTTEN_AFTER <= epoch);
        let free = self.shards.iter().position(is_free).unwrap_or_else(|| {
            let (name, primary, replicas) = (String::new(), None, Vec::new());
            self.shards.push(Shard { name, weight: 1, primary, replicas, gone_at: None });
            self.shards.len() - 1
        });
        ShardId(free as u32)
    }

    /// Which of these shards each of `specs` goes on from. The strongest signs first: the same primary; a primary that
    /// was a replica; a replica that was the primary; the name.
    fn match_by_nodes(&self, specs: &[ShardSpec]) -> Vec<Option<ShardId>> {
        let mut ids = vec![None; specs.len()];
        let mut is_taken: Vec<bool> = self.shards.iter().map(Shard::is_gone).collect();
        let node_of = |spec: &NodeSpec| self.node_at(&spec.address);
        let signs: [&IsSign<'_>; 4] = [
            &|spec, shard| {
                shard.primary.is_some() && spec.primary.as_ref().and_then(node_of) == shard.primary
            },
            &|spec, shard| {
                let primary = spec.primary.as_ref().and_then(node_of);
                primary.is_some_and(|primary| shard.replicas.contains(&primary))
            },
            &|spec, shard| {
                let mut replicas = spec.replicas.iter().filter_map(node_of);
                replicas.any(|replica| shard.primary == Some(replica))
            },
            &|spec, shard| shard.name == spec.name,
        ];
        for is_sign in signs {
            for (spec, id) in specs.iter().zip(&mut ids).filter(|(_, id)| id.is_none()) {
                let fits = |at: &usize| !is_taken[*at] && is_sign(spec, &self.shards[*at]);
                if let Some(at) = (0..self.shards.len()).find(fits) {
                    is_taken[at] = true;
                    *id = Some(ShardId(at as u32));
                }
            }
        }
        ids
    }
}

/// Whether a shard's description is of this shard, by one sign.
type IsSign<'a> = dyn Fn(&ShardSpec, &Shard) -> bool + 'a;

/// Refuses what cannot be a list of shards.
fn check(specs: &[ShardSpec]) -> Result<(), TopologyError> {
    if specs.is_empty() {
        return Err(TopologyError::NoNodes);
    }
    match specs.iter().flat_map(ShardSpec::nodes).count() {
        0 => Err(TopologyError::NoNodes),
        count if count > NODES_MAX => Err(TopologyError::TooManyNodes { count }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16) -> NodeSpec {
        NodeSpec::tcp("h", port)
    }

    /// A shard whose first port is the primary's.
    fn shard(name: &str, ports: &[u16]) -> ShardSpec {
        let (primary, replicas) = ports.split_first().expect("a primary");
        ShardSpec {
            name: name.to_owned(),
            primary: Some(node(*primary)),
            replicas: replicas.iter().map(|port| node(*port)).collect(),
            slots: Vec::new(),
        }
    }

    fn after(before: &Members, epoch: u64, specs: &[ShardSpec]) -> (Members, Vec<u32>) {
        let (members, ids) = before.followed_by(epoch, specs).expect("valid");
        (members, ids.into_iter().map(|id| id.0).collect())
    }

    fn nodes_of(members: &Members, shard: usize) -> Vec<u32> {
        members.shards[shard].nodes().map(|id| id.0).collect()
    }

    #[test]
    fn a_promoted_replica_keeps_its_id_and_that_of_its_shard() {
        let (before, ids) = after(&Members::default(), 1, &[shard("a", &[1, 3]), shard("b", &[2, 4])]);
        assert_eq!(ids, [0, 1]);
        assert_eq!((nodes_of(&before, 0), nodes_of(&before, 1)), (vec![0, 1], vec![2, 3]));
        // In another order, under other names, and the old primary is not heard of.
        let (now, ids) = after(&before, 2, &[shard("x", &[4, 2]), shard("y", &[3])]);
        assert_eq!(ids, [1, 0]);
        assert_eq!((nodes_of(&now, 0), nodes_of(&now, 1)), (vec![1], vec![3, 2]));
        assert_eq!((now.nodes[0].shard, now.node_at(&node(1).address)), (None, None));
        let (back, ids) = after(&now, 3, &[shard("x", &[4, 2]), shard("y", &[3, 1])]);
        assert_eq!((ids, nodes_of(&back, 0)), (vec![1, 0], vec![1, 0]), "it comes back as who it was");
    }

    #[test]
    fn removed_shard_keeps_its_entry_and_a_new_one_gets_its_own() {
        let (before, _) = after(&Members::default(), 1, &[shard("a", &[1]), shard("b", &[2])]);
        let (now, ids) = after(&before, 2, &[shard("b", &[2]), shard("c", &[3])]);
        assert_eq!(ids, [1, 2]);
        assert!(now.shards[0].is_gone() && nodes_of(&now, 0).is_empty());
        let (later, ids) = after(&now, 2 + FORGOTTEN_AFTER, &[shard("b", &[2]), shard("d", &[4])]);
        assert_eq!(ids, [1, 0], "nobody remembers shard 0 by now");
        assert_eq!(nodes_of(&later, 0), [0], "nor its node");
        assert_eq!(later.node_at(&node(1).address), None);
        assert_eq!(later.node_at(&node(4).address), Some(NodeId(0)));
    }

    #[test]
    fn a_replica_keeps_its_id_under_another_primary() {
        let (before, _) = after(&Members::default(), 1, &[shard("a", &[1, 3, 4]), shard("b", &[2])]);
        let (now, ids) = after(&before, 2, &[shard("a", &[1, 3]), shard("b", &[2, 4])]);
        assert_eq!(ids, [0, 1]);
        assert_eq!((nodes_of(&now, 0), nodes_of(&now, 1)), (vec![0, 1], vec![3, 2]));
        assert_eq!(now.nodes[2].shard, Some(ShardId(1)));
    }

    #[test]
    fn shard_without_primary_is_known_by_replicas_and_name() {
        let (before, _) = after(&Members::default(), 1, &[shard("a", &[1, 3]), shard("b", &[2])]);
        let headless = ShardSpec { primary: None, ..shard("a", &[1, 3]) };
        let (now, ids) = after(&before, 2, &[shard("b", &[2]), headless]);
        assert_eq!(ids, [1, 0]);
        assert_eq!((now.shards[0].primary, now.shards[0].is_gone()), (None, false));
    }

    #[test]
    fn names_find_shards_whose_keys_stay_where_they_are() {
        let before = Members::of_primaries(&[
            NodeSpec { name: Some("a".into()), weight: 3, ..node(1) },
            NodeSpec { name: Some("b".into()), ..node(2) },
        ]);
        let now = before.replaced_by(2, &[shard("a", &[3, 1])]).expect("valid");
        assert_eq!((nodes_of(&now, 0), nodes_of(&now, 1)), (vec![2, 0], vec![1]));
        assert_eq!(now.shards[0].weight, 3, "weights are the distribution's, not discovery's");
        let error = before.replaced_by(2, &[shard("c", &[3])]).expect_err("refused");
        assert_eq!(error, TopologyError::UnknownShard { name: "c".into() });
    }

    #[test]
    fn no_node_is_of_two_shards() {
        let (now, _) = after(&Members::default(), 1, &[shard("a", &[1, 1]), shard("b", &[2, 1])]);
        assert_eq!((nodes_of(&now, 0), nodes_of(&now, 1)), (vec![0], vec![1]));
        assert_eq!(Members::default().followed_by(1, &[]).expect_err("refused"), TopologyError::NoNodes);
    }
}
