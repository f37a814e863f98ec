//! A count of failovers: shards whose primary became another node.

use topology::{NodeId, Topology};

/// The count, and the last known primary of each shard.
#[derive(Debug, Default)]
pub(crate) struct Failovers {
    /// By the shards' numbers. A shard without a primary keeps the last one.
    primaries: Vec<Option<NodeId>>,
    count: u64,
}

impl Failovers {
    /// Notes a topology that follows those before.
    pub(crate) fn note(&mut self, topology: &Topology) {
        if self.primaries.len() < topology.shard_count() {
            self.primaries.resize(topology.shard_count(), None);
        }
        for id in topology.all_shards() {
            let Some(primary) = topology.shard(id).primary else { continue };
            let before = self.primaries[id.0 as usize].replace(primary);
            self.count += u64::from(before.is_some_and(|before| before != primary));
        }
    }

    /// Failovers so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{NodeSpec, ShardSpec};

    /// A cluster with these primaries, by their ports; 0 for none.
    fn cluster(before: Option<&Topology>, epoch: u64, ports: &[u16]) -> Topology {
        let ranges = topology::slot_ranges(ports.len() as u32);
        let shards = ports.iter().zip(ranges).enumerate().map(|(number, (&port, slots))| ShardSpec {
            name: format!("s{number}"),
            primary: (port > 0).then(|| NodeSpec::tcp("127.0.0.1", port)),
            replicas: Vec::new(),
            slots: vec![slots.start..=slots.end - 1],
        });
        Topology::of_cluster(before, epoch, &shards.collect::<Vec<_>>()).expect("valid")
    }

    #[test]
    fn a_shard_with_another_primary_has_failed_over() {
        let mut failovers = Failovers::default();
        let mut last = None;
        let mut counts = Vec::new();
        for (epoch, ports) in (1..).zip([[1, 2], [1, 2], [0, 2], [3, 2], [3, 0], [3, 2], [1, 4]]) {
            let topology = cluster(last.as_ref(), epoch, &ports);
            failovers.note(&topology);
            counts.push(failovers.count());
            last = Some(topology);
        }
        assert_eq!(counts, [0, 0, 0, 1, 1, 1, 3]);
    }
}
