//! Policies for reads, and the commands that may go to a replica at all.

use command::{Carry, Command, Flags};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use topology::{NodeId, Topology};

/// The nodes that answer the reads of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The primary. If it is down, reads are refused.
    #[default]
    Primary,
    /// The primary, and while it is down, a replica.
    PreferPrimary,
    /// A replica. If none is fit, reads are refused.
    Replica,
    /// A replica, and while none is fit, the primary.
    PreferReplica,
    /// The primary and its replicas alike.
    Any,
    /// The node that answers soonest.
    Nearest,
    /// A replica in the zone of shardis; else the primary, if it is in the zone; else as [`ReadFrom::PreferReplica`].
    Zone,
}

impl ReadFrom {
    /// Names of the policies in the configuration, in the order of the variants.
    pub(crate) const WORDS: [(&'static str, ReadFrom); 7] = [
        ("primary", ReadFrom::Primary),
        ("prefer-primary", ReadFrom::PreferPrimary),
        ("replica", ReadFrom::Replica),
        ("prefer-replica", ReadFrom::PreferReplica),
        ("any", ReadFrom::Any),
        ("nearest", ReadFrom::Nearest),
        ("zone", ReadFrom::Zone),
    ];
}

impl FromStr for ReadFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = ReadFrom::WORDS.iter().find(|(word, _)| *word == text);
        known.map(|&(_, from)| from).ok_or_else(|| {
            let words: Vec<&str> = ReadFrom::WORDS.iter().map(|(word, _)| *word).collect();
            format!("write one of {}", words.join(", "))
        })
    }
}

impl fmt::Display for ReadFrom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = ReadFrom::WORDS.iter().find(|(_, from)| from == self).map_or("", |(word, _)| word);
        formatter.write_str(word)
    }
}

/// The operator's settings for reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The policy, unless the listener or the client (READONLY) chooses another.
    pub from: ReadFrom,
    /// Policies of listeners that have their own, by the listener's number.
    pub of_listeners: BTreeMap<u16, ReadFrom>,
    /// The zone of shardis.
    pub zone: Option<String>,
    /// The largest lag of a replica that is read from, in bytes of the replication stream.
    pub lag_bytes_max: Option<u64>,
    /// Whether replicas answer reads while their primary is down, whatever [`Reading::from`] says and whatever writes
    /// they lack.
    pub covers_for_primary: bool,
}

impl ReadFrom {
    /// Whether a replica answers while all nodes are well.
    pub(super) fn wants_replica(self) -> bool {
        !matches!(self, ReadFrom::Primary | ReadFrom::PreferPrimary)
    }

    /// Whether the primary may answer.
    pub(super) fn takes_primary(self) -> bool {
        self != ReadFrom::Replica
    }
}

impl Reading {
    /// The policy for clients of `listener`.
    pub(super) fn of(&self, listener: u16) -> ReadFrom {
        self.of_listeners.get(&listener).copied().unwrap_or(self.from)
    }

    /// Whether the policy `from` may send reads to replicas without a request of the client.
    pub(super) fn may_leave_primary(&self, from: ReadFrom) -> bool {
        from != ReadFrom::Primary || self.covers_for_primary
    }

    /// Whether the policy of any listener may send reads to replicas.
    pub(super) fn needs_replicas(&self) -> bool {
        self.policies().any(|from| self.may_leave_primary(from))
    }

    /// Whether `node` is in the zone of shardis, if the operator has said where the node is.
    pub(super) fn is_ours(&self, topology: &Topology, node: NodeId) -> Option<bool> {
        let zone = topology.node(node).zone.as_ref()?;
        Some(self.zone.as_ref() == Some(zone))
    }

    /// Whether the policy of some listener depends on zones.
    pub(super) fn uses_zones(&self) -> bool {
        self.policies().any(|from| from == ReadFrom::Zone)
    }

    fn policies(&self) -> impl Iterator<Item = ReadFrom> {
        self.of_listeners.values().copied().chain([self.from])
    }
}

/// Whether a replica may answer `command`: it only reads, does not wait, and returns the same on every node with the
/// same data. Cursors and details of storage differ from node to node, and PFCOUNT may write.
pub(crate) fn may_read_replica(command: &Command) -> bool {
    let is_carried =
        matches!(command.carry, Carry::Shard | Carry::ShardIf(_) | Carry::Split(_) | Carry::Script(_));
    is_carried
        && command.flags.contains(Flags::READONLY)
        && !command.flags.contains(Flags::BLOCKING)
        && !command.may_write()
        && !command.name.starts_with("object|")
        && !matches!(&*command.name, "hscan" | "sscan" | "zscan" | "touch" | "memory|usage")
}
