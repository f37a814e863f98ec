//! Consistent hashing as libmemcached and twemproxy do it.
//!
//! ```text
//!     "10.0.0.1:6379-0" ─md5─► 16 bytes ─► 4 points of that node, and so on for -1, -2, … -39
//!
//!     0 ──•A──•B───•B──•A────•C──•A──•C──•B── 2^32        a hash belongs to the first point at or after it,
//!               ▲hash                                     behind the last one to the first one
//! ```
//!
//! Two details of twemproxy cannot be copied. It prints `<name>-<index>` into 86 bytes of its stack, and hashes the bytes
//! behind them if that is not enough. Names up to 78 bytes are safe. And it takes failed nodes off the ring, where their keys
//! find no data. Here a topology does not change by itself: see [`crate::Topology::without`].

use crate::{NodeSpec, ShardId};
use md5::{Digest, Md5};

/// Points that a node of average weight gets: twemproxy's KETAMA_POINTS_PER_SERVER.
const POINTS_PER_NODE: f32 = 160.0;

/// Points that one digest of 16 bytes yields.
const POINTS_PER_DIGEST: u32 = 4;

/// The ring: points in ascending order, and an index into them.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// All points, and the first one again at the very end of the circle, so that no search runs past the end.
    points: Box<[Point]>,
    /// For every value of a hash's upper bits, the index in `points` at which its part of the circle begins. There are as many
    /// parts as points or more, so a search that starts there takes a step or two. A binary search over the 4,000 points of 25
    /// nodes takes twelve.
    starts: Box<[u32]>,
    /// Shift that leaves the upper bits: 32 minus their number.
    shift: u32,
}

/// One point of the ring.
#[derive(Clone, Copy, Debug)]
struct Point {
    value: u32,
    shard: ShardId,
}

impl Ring {
    /// The ring of those of `nodes` that are in `order`, of which there is one at least. Others do not count, as if they
    /// had not been given.
    ///
    /// Points of the same value stay in the order of `order` (sorted as twemproxy sorts its nodes). So does twemproxy with
    /// glibc's `qsort`, which is a merge sort.
    pub(crate) fn new(nodes: &[NodeSpec], order: &[ShardId]) -> Ring {
        let weight_total = order.iter().map(|shard| nodes[shard.0 as usize].weight).sum();
        let mut points = Vec::new();
        for shard in order {
            let node = &nodes[shard.0 as usize];
            let count = ring_points(node.weight, weight_total, order.len() as u32);
            let name = node.ring_name();
            points.extend(point_values(&name, count).map(|value| Point { value, shard: *shard }));
        }
        Ring::of_points(points)
    }

    /// The ring of the tokens of those of `nodes` that are in `order`, of which there is one at least.
    pub(crate) fn of_tokens(nodes: &[NodeSpec], order: &[ShardId]) -> Ring {
        let of_node = |&shard: &ShardId| {
            nodes[shard.0 as usize].tokens.iter().map(move |&value| Point { value, shard })
        };
        Ring::of_points(order.iter().flat_map(of_node).collect())
    }

    fn of_points(mut points: Vec<Point>) -> Ring {
        points.sort_by_key(|point| point.value);
        points.extend(points.first().map(|first| Point { value: u32::MAX, ..*first }));
        let shift = 32 - points.len().next_power_of_two().trailing_zeros();
        let starts = (0..1u32 << (32 - shift))
            .map(|part| points.partition_point(|point| point.value < part << shift) as u32)
            .collect();
        Ring { points: points.into(), starts, shift }
    }

    /// The owner of `hash`: the first point at or after it.
    #[inline]
    pub(crate) fn shard_at(&self, hash: u32) -> ShardId {
        let mut at = self.starts[(hash >> self.shift) as usize] as usize;
        while self.points[at].value < hash {
            at += 1;
        }
        self.points[at].shard
    }

    /// The parts of the ring: the shard of each point, with the number of hashes that fall to it.
    pub(crate) fn arcs(&self) -> impl Iterator<Item = (ShardId, u64)> {
        let ends = self.points.iter().map(|point| u64::from(point.value) + 1);
        let begins = std::iter::once(0).chain(ends.clone());
        self.points.iter().zip(ends.zip(begins)).map(|(point, (end, begin))| (point.shard, end - begin))
    }

    /// Whether `shard` owns any part of the ring.
    pub(crate) fn has(&self, shard: ShardId) -> bool {
        self.points.iter().any(|point| point.shard == shard)
    }
}

/// Number of points of a node with this weight on a ring of `nodes` nodes that weigh `weight_total` together.
///
/// The arithmetic is twemproxy's (`ketama_update` in nc_ketama.c), in the same order and the same single precision. That
/// matters. With 25 equal nodes, and with 18 other counts up to 200, the product falls just short of 40. Every node then gets
/// 156 points instead of 160. A node that weighs too little gets none.
pub fn ring_points(weight: u32, weight_total: u32, nodes: u32) -> u32 {
    let share = weight as f32 / weight_total as f32;
    let digests = share * POINTS_PER_NODE / POINTS_PER_DIGEST as f32 * nodes as f32;
    // twemproxy adds 1e-10 before it cuts the fraction off. Below any whole number a float's neighbours are more than
    // 5e-8 apart, so that never lifts one over it.
    digests.floor() as u32 * POINTS_PER_DIGEST
}

/// The first `count` points of the node called `name`: four from each digest of `name-0`, `name-1`, …
fn point_values(name: &str, count: u32) -> impl Iterator<Item = u32> + '_ {
    (0..count / POINTS_PER_DIGEST).flat_map(move |index| {
        let digest: [u8; 16] = Md5::digest(format!("{name}-{index}")).into();
        let (words, _) = digest.as_chunks::<4>();
        [words[0], words[1], words[2], words[3]].map(u32::from_le_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` nodes of weight 1 and the ring they make.
    fn ring(count: u32) -> Ring {
        let nodes: Vec<_> = (0..count).map(|nth| NodeSpec::tcp("10.0.0.1", 1000 + nth as u16)).collect();
        let order: Vec<_> = (0..count).map(ShardId).collect();
        Ring::new(&nodes, &order)
    }

    #[test]
    fn single_precision_gives_156_points_for_some_node_counts() {
        let traps: Vec<u32> = (1..=200).filter(|&nodes| ring_points(1, nodes, nodes) == 156).collect();
        let expected =
            [25, 47, 50, 55, 61, 71, 94, 100, 107, 109, 110, 115, 122, 142, 159, 163, 188, 193, 200];
        assert_eq!(traps, expected);
        assert!((1..=200).all(|nodes| [156, 160].contains(&ring_points(1, nodes, nodes))));
    }

    #[test]
    fn points_follow_the_weight_and_can_be_none() {
        assert_eq!(ring_points(1, 4, 2), 80);
        assert_eq!(ring_points(3, 4, 2), 240);
        assert_eq!(ring_points(1, 1001, 2), 0);
        assert_eq!(ring_points(1000, 1001, 2), 316);
    }

    #[test]
    fn points_are_the_words_of_the_digest() {
        // `printf 10.0.0.1:6379-0 | md5sum` says 9808bed57b0e2c4dfe5c6a25715962ad,
        // with -1 at the end 52d2ecd3b1458408dd477c098a0741a2.
        let values: Vec<u32> = point_values("10.0.0.1:6379", 8).collect();
        assert_eq!(values[..4], [0xd5be_0898, 0x4d2c_0e7b, 0x256a_5cfe, 0xad62_5971]);
        assert_eq!(values[4..], [0xd3ec_d252, 0x0884_45b1, 0x097c_47dd, 0xa241_078a]);
    }

    #[test]
    fn the_index_agrees_with_a_search_over_all_points() {
        for count in [1, 2, 3, 25, 300] {
            let ring = ring(count);
            let points = &ring.points[..ring.points.len() - 1];
            let owner =
                |hash: u32| points.iter().find(|point| point.value >= hash).unwrap_or(&points[0]).shard;
            let near =
                |point: &Point| [point.value.wrapping_sub(1), point.value, point.value.wrapping_add(1)];
            let step = (points.len() / 160).max(1);
            let edges = [0, 1, u32::MAX - 1, u32::MAX];
            for hash in points.iter().step_by(step).flat_map(near).chain(edges) {
                assert_eq!(ring.shard_at(hash), owner(hash), "{count} nodes, hash {hash}");
            }
        }
    }

    #[test]
    fn a_point_at_the_end_of_the_circle_owns_its_hash() {
        let end = Point { value: u32::MAX, shard: ShardId(1) };
        let begin = Point { value: 7, shard: ShardId(0) };
        let again = Point { value: u32::MAX, ..begin };
        let points = [begin, end, again].into();
        let ring = Ring { points, starts: [0, 1, 1, 1].into(), shift: 30 };
        assert_eq!([0, 7, 8, u32::MAX].map(|hash| ring.shard_at(hash).0), [0, 0, 1, 1]);
    }
}
