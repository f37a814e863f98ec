//! Redis Cluster's slots: divided evenly over nodes that need not be a cluster, or as a cluster gives them.

use crate::{ShardId, hash};
use std::ops::Range;

/// Number of slots, as fixed by the Redis Cluster specification.
pub const SLOTS: u16 = 16_384;

/// The slot of the hashed part of a key (see [`crate::TagRule::tag`]): Redis's crc16 modulo [`SLOTS`].
#[inline]
pub fn slot_of(tag: &[u8]) -> u16 {
    hash::crc16_redis(tag) % SLOTS
}

/// Which slots each of `shards` shards gets, in order, as `redis-cli --cluster create` divides them.
///
/// redis-cli (`clusterManagerCommandCreate` of Redis 7.0) adds up the share of a node as a `float` and rounds where each range
/// ends, halves upwards. Ranges differ by one slot at most for usual sizes of clusters, and the last one takes the rest.
pub fn slot_ranges(shards: u32) -> impl Iterator<Item = Range<u16>> {
    let share = f32::from(SLOTS) / shards as f32;
    let mut first = 0;
    let mut cursor = 0.0f32;
    (1..=shards).map(move |nth| {
        let last = f64::from(cursor + share - 1.0).round() as u16;
        let end = if nth == shards { SLOTS } else { (last.max(first) + 1).min(SLOTS) };
        let range = first..end;
        first = end;
        cursor += share;
        range
    })
}

/// Which shard owns which slot.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// One entry for each slot. Shards fit 16 bits; the whole table is 32 KiB, a first-level cache.
    owners: Box<[u16]>,
}

impl Slots {
    /// All slots, divided over `shards` shards (at most [`crate::NODES_MAX`]).
    pub(crate) fn new(shards: u32) -> Slots {
        let owners = slot_ranges(shards).zip(0..).flat_map(|(range, shard)| range.map(move |_| shard));
        Slots { owners: owners.collect() }
    }

    /// All slots of one shard.
    pub(crate) fn of(shard: ShardId) -> Slots {
        Slots { owners: vec![shard.0 as u16; usize::from(SLOTS)].into() }
    }

    /// From now on `shard` owns `slot`, which is below [`SLOTS`].
    pub(crate) fn give(&mut self, slot: u16, shard: ShardId) {
        self.owners[usize::from(slot)] = shard.0 as u16;
    }

    /// The owners of all slots in their order.
    pub(crate) fn owners(&self) -> impl Iterator<Item = ShardId> {
        self.owners.iter().map(|&shard| ShardId(u32::from(shard)))
    }

    /// The owner of `slot`, which is below [`SLOTS`].
    #[inline]
    pub(crate) fn shard_at(&self, slot: u16) -> ShardId {
        ShardId(u32::from(self.owners[usize::from(slot)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TagRule;

    /// The last slot of every shard.
    fn lasts(shards: u32) -> Vec<u16> {
        slot_ranges(shards).map(|range| range.end - 1).collect()
    }

    #[test]
    fn slots_equal_redis_slots() {
        // The vector of the Redis Cluster specification, then what `CLUSTER KEYSLOT` of Redis 7.0.15 answers.
        assert_eq!(slot_of(b"123456789"), 12739);
        let cases: [(&[u8], u16); 12] = [
            (b"", 0),
            (b"a", 15495),
            (b"foo", 12182),
            (b"{user1000}.following", 3443),
            (b"{user1000}.followers", 3443),
            (b"foo{}{bar}", 8363),
            (b"foo{{bar}}zap", 4015),
            (b"foo{bar}{zap}", 5061),
            (b"{}", 15257),
            (b"x}", 11978),
            (b"\xff\x00\x80", 7915),
            (b"a key that is longer than any other in this list, and has blanks", 9090),
        ];
        for (key, slot) in cases {
            assert_eq!(slot_of(TagRule::Redis.tag(key)), slot, "{:?}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn ranges_end_where_redis_cli_ends_them() {
        // Read off `redis-cli --cluster create` of Redis 7.0.15.
        assert_eq!(lasts(1), [16383]);
        assert_eq!(lasts(3), [5460, 10922, 16383]);
        assert_eq!(lasts(5), [3276, 6553, 9829, 13106, 16383]);
        assert_eq!(lasts(6), [2730, 5460, 8191, 10922, 13652, 16383]);
        assert_eq!(lasts(7), [2340, 4680, 7021, 9361, 11702, 14042, 16383]);
        let eleven = [1488, 2978, 4467, 5957, 7446, 8936, 10425, 11915, 13404, 14894, 16383];
        assert_eq!(lasts(11), eleven);
        let thirteen = [1259, 2520, 3780, 5040, 6301, 7561, 8821, 10081, 11342, 12602, 13862, 15123, 16383];
        assert_eq!(lasts(13), thirteen);
        let of_29 = lasts(29);
        assert_eq!(of_29[..6], [564, 1129, 1694, 2259, 2824, 3389]);
        assert_eq!(of_29[11..16], [6779, 7344, 7909, 8473, 9038]);
    }

    #[test]
    fn every_slot_has_one_owner_and_every_shard_some_slots() {
        for shards in 1..=4096 {
            let mut next = 0;
            for range in slot_ranges(shards) {
                assert_eq!(range.start, next, "{shards} shards");
                let len = u32::from(range.end - range.start);
                let even = u32::from(SLOTS) / shards;
                assert!(len.abs_diff(even) <= 2, "{shards} shards, {range:?}");
                next = range.end;
            }
            assert_eq!(next, SLOTS, "{shards} shards");
        }
        assert_eq!(Slots::new(3).owners.len(), 16384);
    }
}
