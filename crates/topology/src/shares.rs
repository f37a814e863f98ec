//! Shares of the keyspace, for people who look at a topology.

use crate::{Distribution, SLOTS, ShardId, Topology};

/// Keys of which the owner is looked up where keys do not go by slots: the shares are then right to about a hundredth.
const SAMPLES: u32 = 10_000;

impl Topology {
    /// The share of the keys of each entry of [`Topology::shards`], from 0 to 1: exact if keys go by slots, else
    /// estimated from keys.
    pub fn shares(&self) -> Vec<f64> {
        let mut counts = vec![0u32; self.shard_count()];
        let owners: Vec<ShardId> = match self.distribution() {
            // The names of keys decide, which nothing is known of.
            _ if self.is_routes() => return vec![0.0; self.shard_count()],
            Distribution::Slots => (0..SLOTS).map(|slot| self.shard_at(slot)).collect(),
            _ => (0..SAMPLES).map(|key| self.shard_of(format!("key:{key}").as_bytes())).collect(),
        };
        owners.iter().for_each(|owner| counts[owner.0 as usize] += 1);
        counts.into_iter().map(|count| f64::from(count) / owners.len() as f64).collect()
    }

    /// The share of the keys of each entry of [`Topology::shards`], if every value of the hash is as frequent as any other. It
    /// follows from the slots, the arcs of the ring, or the weights. A hash that leaves values out, as crc16 does on a ring, gives other
    /// shares: see [`Topology::shares`].
    pub fn ideal_shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.shard_count()];
        self.table().add_shares(1.0, &mut shares);
        shares
    }

    /// The slots that `shard` owns, as first and last ones of ranges. Empty if keys do not go by slots.
    pub fn slot_ranges(&self, shard: ShardId) -> Vec<(u16, u16)> {
        if self.distribution() != Distribution::Slots {
            return Vec::new();
        }
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in (0..SLOTS).filter(|&slot| self.shard_at(slot) == shard) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use crate::{Returning, ShardId, Topology, TopologySpec, parse_nodes};

    fn topology(list: &str, distribution: &str) -> Topology {
        let nodes = parse_nodes(list).expect("valid");
        let distribution = distribution.parse().expect("valid");
        Topology::new(1, &TopologySpec { nodes, distribution, ..TopologySpec::default() }).expect("valid")
    }

    #[test]
    fn slots_are_counted_exactly() {
        let slots = topology("a:1,b:1,c:1", "slots");
        assert_eq!(slots.slot_ranges(ShardId(0)), [(0, 5460)]);
        assert_eq!(slots.slot_ranges(ShardId(2)), [(10923, 16383)]);
        assert_eq!(slots.shares()[0], 5461.0 / 16384.0);
    }

    #[test]
    fn ideal_shares_are_those_of_slots_arcs_and_weights() {
        let near = |list, distribution, expected: &[f64]| {
            let shares = topology(list, distribution).ideal_shares();
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
            shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 0.06)
        };
        assert!(near("a:1,b:1,c:1", "slots", &[5461.0 / 16384.0, 5462.0 / 16384.0, 5461.0 / 16384.0]));
        assert!(near("a:1:3,b:1:1", "modulo", &[0.75, 0.25]));
        assert!(near("b:1:3,a:1:1", "modula", &[0.75, 0.25]));
        assert!(near("a:1:3,b:1:1", "ketama", &[0.75, 0.25]));
        let ring = topology("a:1,b:1,c:1", "ketama");
        let sampled = ring.shares();
        assert!(ring.ideal_shares().iter().zip(sampled).all(|(ideal, share)| (ideal - share).abs() < 0.02));
    }

    #[test]
    fn ideal_shares_follow_a_slow_start() {
        let all = topology("a:1,b:1", "modulo");
        let now =
            all.without(2, &[ShardId(0)], &[]).without(3, &[], &[Returning { shard: ShardId(0), tenths: 4 }]);
        assert!(
            now.ideal_shares()
                .iter()
                .zip([0.2, 0.8])
                .all(|(share, expected)| (share - expected).abs() < 1e-9)
        );
    }

    #[test]
    fn other_shares_follow_the_weights() {
        let ring = topology("a:1:3,b:1:1", "ketama");
        assert!((ring.shares()[0] - 0.75).abs() < 0.08, "{:?}", ring.shares());
        assert_eq!(ring.slot_ranges(ShardId(0)), []);
        assert_eq!(topology("a:1", "modulo").shares(), [1.0]);
    }
}
