//! Hash modulo: the nodes in a row, each as often as it weighs.

use crate::{NodeSpec, ShardId};

/// The row of nodes. It is kept as the end of each node's run, so that weights cost no memory. Weights in megabytes, as
/// libmemcached's users write them, would make a row of millions.
#[derive(Clone, Debug)]
pub(crate) struct Modulo {
    /// The shards in the order of the row.
    shards: Box<[ShardId]>,
    /// For each of them the first place behind its run; empty if every run is one place long.
    ends: Box<[u32]>,
    /// Number of places: the divisor of the hash.
    places: u32,
}

impl Modulo {
    /// The row of those of `nodes` that are in `order`, which holds each shard at most once.
    ///
    /// The weights are valid, at most [`crate::WEIGHT_MAX`]: so the sum fits.
    pub(crate) fn new(nodes: &[NodeSpec], order: &[ShardId]) -> Modulo {
        let mut places = 0;
        let ends = order.iter().map(|shard| {
            places += nodes[shard.0 as usize].weight;
            places
        });
        let ends: Box<[u32]> = ends.collect();
        let all_of_weight_1 = places as usize == order.len();
        Modulo { shards: order.into(), ends: if all_of_weight_1 { Box::default() } else { ends }, places }
    }

    /// The divisor of hashes; not 0.
    #[inline]
    pub(crate) fn places(&self) -> u32 {
        self.places
    }

    /// Each shard of the row, with the number of its places.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (ShardId, u32)> {
        (0..).zip(&self.shards).map(|(at, shard)| match self.ends.get(at) {
            Some(end) => (*shard, end - at.checked_sub(1).map_or(0, |before| self.ends[before])),
            None => (*shard, 1),
        })
    }

    /// The shard at `place`, which is below [`Modulo::places`].
    #[inline(always)]
    pub(crate) fn shard_at(&self, place: u32) -> ShardId {
        if self.ends.is_empty() {
            return self.shards[place as usize];
        }
        self.shards[self.ends.partition_point(|end| *end <= place)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row that `weights` make, the shards in this order.
    fn row(weights: &[u32], order: &[u32]) -> Vec<u32> {
        let node = |weight: &u32| NodeSpec { weight: *weight, ..NodeSpec::tcp("a", 1) };
        let nodes: Vec<_> = weights.iter().map(node).collect();
        let order: Vec<_> = order.iter().copied().map(ShardId).collect();
        let modulo = Modulo::new(&nodes, &order);
        (0..modulo.places()).map(|place| modulo.shard_at(place).0).collect()
    }

    #[test]
    fn a_node_stands_in_the_row_as_often_as_it_weighs() {
        assert_eq!(row(&[1, 1, 1], &[0, 1, 2]), [0, 1, 2]);
        assert_eq!(row(&[1, 1, 1], &[2, 0, 1]), [2, 0, 1]);
        assert_eq!(row(&[2, 1, 3], &[0, 1, 2]), [0, 0, 1, 2, 2, 2]);
        assert_eq!(row(&[2, 1, 3], &[1, 2, 0]), [1, 2, 2, 2, 0, 0]);
    }

    #[test]
    fn the_heaviest_row_fits() {
        let node = NodeSpec { weight: crate::WEIGHT_MAX, ..NodeSpec::tcp("a", 1) };
        let nodes = vec![node; crate::NODES_MAX];
        let order: Vec<_> = (0..crate::NODES_MAX as u32).map(ShardId).collect();
        let modulo = Modulo::new(&nodes, &order);
        assert_eq!(modulo.places(), 4_096_000_000);
        assert_eq!(modulo.shard_at(modulo.places() - 1), ShardId(4095));
    }
}
