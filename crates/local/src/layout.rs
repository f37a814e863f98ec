//! The parts of a topology, as plain values: the members, their primaries, and the configuration of each.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// The topologies that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    /// Nodes that know nothing of each other.
    Nodes { nodes: u16 },
    /// Primaries with replicas; `nodes` counts those of one set.
    Sets { sets: u16, nodes: u16, sentinel: bool },
    /// A Redis Cluster.
    Cluster { nodes: u16 },
}

/// The role of a process at its start. A failover may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Primary {
        shard: usize,
    },
    /// `primary` is the index of the node that it copies.
    Replica {
        shard: usize,
        primary: usize,
    },
    Sentinel,
}

/// One process of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Its name, and that of its folder.
    pub(super) name: String,
    pub(super) job: Job,
}

/// Sentinels agree by majority: three bear the loss of one.
const SENTINELS: usize = 3;
/// Fewer primaries could not agree on a failover.
const CLUSTER_PRIMARIES_MIN: usize = 3;
/// Slots of a Redis Cluster.
const SLOTS: usize = 16_384;

impl Shape {
    /// All processes: nodes in their order, primaries before their replicas, then sentinels.
    pub(super) fn members(self) -> Vec<Member> {
        let nodes = self.jobs().into_iter().enumerate();
        let nodes = nodes.map(|(number, job)| Member { name: format!("node-{number}"), job });
        let sentinels = if self.has_sentinels() { SENTINELS } else { 0 };
        let sentinels =
            (0..sentinels).map(|number| Member { name: format!("sentinel-{number}"), job: Job::Sentinel });
        nodes.chain(sentinels).collect()
    }

    fn jobs(self) -> Vec<Job> {
        match self {
            Shape::Nodes { nodes } => (0..usize::from(nodes)).map(|shard| Job::Primary { shard }).collect(),
            Shape::Sets { sets, nodes, .. } => (0..usize::from(sets) * usize::from(nodes))
                .map(|number| {
                    let (shard, copy) = (number / usize::from(nodes), number % usize::from(nodes));
                    let primary = number - copy;
                    if copy == 0 { Job::Primary { shard } } else { Job::Replica { shard, primary } }
                })
                .collect(),
            Shape::Cluster { nodes } => {
                let primaries = cluster_primaries(nodes);
                (0..usize::from(nodes))
                    .map(|number| match number % primaries {
                        shard if number == shard => Job::Primary { shard },
                        shard => Job::Replica { shard, primary: shard },
                    })
                    .collect()
            }
        }
    }

    pub(super) fn has_sentinels(self) -> bool {
        matches!(self, Shape::Sets { sentinel: true, .. })
    }

    pub(super) fn is_cluster(self) -> bool {
        matches!(self, Shape::Cluster { .. })
    }

    /// Number of shards that share the keys.
    pub(super) fn shards(self) -> usize {
        match self {
            Shape::Nodes { nodes } => usize::from(nodes),
            Shape::Sets { sets, .. } => usize::from(sets),
            Shape::Cluster { nodes } => cluster_primaries(nodes),
        }
    }

    /// The slots of `shard` in a cluster.
    pub(super) fn slots(self, shard: usize) -> RangeInclusive<usize> {
        let first = |shard: usize| shard * SLOTS / self.shards();
        first(shard)..=first(shard + 1) - 1
    }
}

fn cluster_primaries(nodes: u16) -> usize {
    (usize::from(nodes) / 2).max(CLUSTER_PRIMARIES_MIN)
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Nodes { nodes } => write!(out, "--nodes={nodes}"),
            Shape::Sets { sets, nodes, sentinel } => {
                write!(
                    out,
                    "--sets={sets} --replication={nodes}{}",
                    if *sentinel { " --sentinel" } else { "" }
                )
            }
            Shape::Cluster { nodes } => write!(out, "--cluster={nodes}"),
        }
    }
}

/// The name of a set for sentinels.
pub(super) fn set_name(shard: usize) -> String {
    format!("set-{shard}")
}

/// A topology with its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    /// Of the members of `shape`, in their order.
    pub(super) ports: Vec<u16>,
}

/// Settings that all members share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Whether data is kept on disk.
    pub(super) persistent: bool,
    /// See `--failover-ms`.
    pub(super) failover_ms: u32,
}

impl Layout {
    /// The members with their ports.
    pub(super) fn members(&self) -> impl Iterator<Item = (Member, u16)> {
        self.shape.members().into_iter().zip(self.ports.iter().copied())
    }

    /// The configuration file of a member.
    pub(super) fn config(&self, job: Job, port: u16, habits: Habits) -> String {
        let mut text = format!("port {port}\nbind 127.0.0.1\ndaemonize no\n");
        match job {
            Job::Sentinel => self.append_sentinel(&mut text, habits),
            Job::Primary { .. } | Job::Replica { .. } => self.append_node(&mut text, job, habits),
        }
        text
    }

    fn append_node(&self, text: &mut String, job: Job, habits: Habits) {
        let appendonly = if habits.persistent { "yes" } else { "no" };
        // A replica is ready at once, instead of after five seconds in which others might join.
        let _ = writeln!(text, "save \"\"\nappendonly {appendonly}\nrepl-diskless-sync-delay 0");
        if self.shape.is_cluster() {
            let _ = writeln!(text, "cluster-enabled yes\ncluster-config-file nodes.conf");
            let _ =
                writeln!(text, "cluster-node-timeout {}\ncluster-announce-ip 127.0.0.1", habits.failover_ms);
        } else if let Job::Replica { primary, .. } = job {
            let _ = writeln!(text, "replicaof 127.0.0.1 {}", self.ports[primary]);
        }
    }

    fn append_sentinel(&self, text: &mut String, habits: Habits) {
        let quorum = SENTINELS / 2 + 1;
        for (member, port) in self.members() {
            let Job::Primary { shard } = member.job else { continue };
            let (name, ms) = (set_name(shard), habits.failover_ms);
            let _ = writeln!(text, "sentinel monitor {name} 127.0.0.1 {port} {quorum}");
            let _ = writeln!(text, "sentinel down-after-milliseconds {name} {ms}");
            // Time after which a failover that is stuck is tried again; the shortest pause between two is twice as long.
            let _ = writeln!(text, "sentinel failover-timeout {name} {}", u64::from(ms) * 3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(shape: Shape) -> Vec<String> {
        let show = |member: Member| match member.job {
            Job::Primary { shard } => format!("{} {shard}", member.name),
            Job::Replica { shard, primary } => format!("{} {shard} of {primary}", member.name),
            Job::Sentinel => member.name,
        };
        shape.members().into_iter().map(show).collect()
    }

    #[test]
    fn every_shape_has_its_members() {
        assert_eq!(jobs(Shape::Nodes { nodes: 2 }), ["node-0 0", "node-1 1"]);
        assert_eq!(
            jobs(Shape::Sets { sets: 2, nodes: 2, sentinel: true }),
            [
                "node-0 0",
                "node-1 0 of 0",
                "node-2 1",
                "node-3 1 of 2",
                "sentinel-0",
                "sentinel-1",
                "sentinel-2"
            ]
        );
        assert_eq!(
            jobs(Shape::Cluster { nodes: 6 }),
            ["node-0 0", "node-1 1", "node-2 2", "node-3 0 of 0", "node-4 1 of 1", "node-5 2 of 2"]
        );
    }

    #[test]
    fn a_cluster_has_three_primaries_at_least() {
        let shards = |nodes| Shape::Cluster { nodes }.shards();
        assert_eq!([3, 4, 6, 7, 8].map(shards), [3, 3, 3, 3, 4]);
    }

    #[test]
    fn the_slots_of_a_cluster_are_given_away_without_gap_or_overlap() {
        for nodes in [3, 6, 10, 14] {
            let shape = Shape::Cluster { nodes };
            let slots: Vec<usize> = (0..shape.shards()).flat_map(|shard| shape.slots(shard)).collect();
            assert!(slots.iter().copied().eq(0..SLOTS), "{nodes}");
        }
    }

    #[test]
    fn sentinels_watch_every_set() {
        let shape = Shape::Sets { sets: 2, nodes: 2, sentinel: true };
        let layout = Layout { shape, ports: (7000..7007).collect() };
        let config = layout.config(Job::Sentinel, 7004, Habits { persistent: false, failover_ms: 1500 });
        assert!(config.contains("sentinel monitor set-1 127.0.0.1 7002 2\n"), "{config}");
        assert!(config.contains("sentinel down-after-milliseconds set-0 1500\n"), "{config}");
    }
}
