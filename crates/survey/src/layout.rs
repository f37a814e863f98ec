//! A topology as people name its nodes.

use topology::{ShardId, Topology};

/// The owner of each key, by the names of nodes.
#[derive(Debug)]
pub struct Layout {
    topology: Topology,
    /// The address of the primary of each shard; its name if it has none.
    nodes: Vec<String>,
}

impl Layout {
    /// The layout of `topology`.
    pub fn new(topology: Topology) -> Layout {
        let address = |(id, name): (u32, &String)| {
            topology.primary_address(ShardId(id)).map_or_else(|| name.clone(), ToString::to_string)
        };
        let names = topology.shards().iter().map(|shard| &shard.name);
        let nodes = (0..).zip(names).map(address).collect();
        Layout { topology, nodes }
    }

    /// The owner of `key`.
    pub fn owner(&self, key: &[u8]) -> ShardId {
        self.topology.shard_of(key)
    }

    /// The node of `shard`, which must be one of this layout.
    pub fn node(&self, shard: ShardId) -> &str {
        &self.nodes[shard.0 as usize]
    }

    /// The nodes of all shards, in their order.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The share of each node, if hashes are even.
    pub(crate) fn theory(&self) -> Vec<f64> {
        self.topology.ideal_shares()
    }

    /// The layout in one line.
    pub(crate) fn describe(&self) -> String {
        let count = self.nodes.len();
        format!("{count} node{} by {}", if count == 1 { "" } else { "s" }, self.topology.describe())
    }
}
