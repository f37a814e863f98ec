//! Where reads are wanted to go, and which may go to a replica at all.

use command::{Carry, Command, Flags};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use topology::{NodeId, Topology};

/// Where the reads of a client go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// To the primary. If it is down, they are refused.
    #[default]
    Primary,
    /// To the primary, and while it is down, to a replica.
    PreferPrimary,
    /// To a replica. If none is fit, they are refused.
    Replica,
    /// To a replica, and while none is fit, to the primary.
    PreferReplica,
    /// To the primary and its replicas alike.
    Any,
    /// To whoever answers soonest.
    Nearest,
    /// To a replica of our own zone; else to the primary, if it is there; else as [`ReadFrom::PreferReplica`].
    Zone,
}

impl ReadFrom {
    /// As operators write them, in the order of the variants.
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

/// What the operator wants of reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Where they go, unless the listener or the client (READONLY) says otherwise.
    pub from: ReadFrom,
    /// Where those of clients go that came by a listener with a policy of its own, by its number.
    pub of_listeners: BTreeMap<u16, ReadFrom>,
    /// The zone in which we are.
    pub zone: Option<String>,
    /// A replica that lacks more bytes of the stream of changes is not read from.
    pub lag_bytes_max: Option<u64>,
    /// While a primary is down, its replicas are read from, whatever [`Reading::from`] says and whatever they lack.
    pub covers_for_primary: bool,
}

impl ReadFrom {
    /// Whether a replica is to answer while all are well.
    pub(super) fn wants_replica(self) -> bool {
        !matches!(self, ReadFrom::Primary | ReadFrom::PreferPrimary)
    }

    /// Whether the primary may answer.
    pub(super) fn takes_primary(self) -> bool {
        self != ReadFrom::Replica
    }
}

impl Reading {
    /// Where reads of clients go that came by `listener`.
    pub(super) fn of(&self, listener: u16) -> ReadFrom {
        self.of_listeners.get(&listener).copied().unwrap_or(self.from)
    }

    /// Whether reads of clients with the policy `from` may go to replicas though no client asks for it.
    pub(super) fn may_leave_primary(&self, from: ReadFrom) -> bool {
        from != ReadFrom::Primary || self.covers_for_primary
    }

    /// Whether those of any listener's clients may.
    pub(super) fn needs_replicas(&self) -> bool {
        self.policies().any(|from| self.may_leave_primary(from))
    }

    /// Whether `node` is in our zone, if the operator has said where it is.
    pub(super) fn is_ours(&self, topology: &Topology, node: NodeId) -> Option<bool> {
        let zone = topology.node(node).zone.as_ref()?;
        Some(self.zone.as_ref() == Some(zone))
    }

    /// Whether it matters to some listener's clients where nodes are.
    pub(super) fn uses_zones(&self) -> bool {
        self.policies().any(|from| from == ReadFrom::Zone)
    }

    fn policies(&self) -> impl Iterator<Item = ReadFrom> {
        self.of_listeners.values().copied().chain([self.from])
    }
}

/// Whether a replica may answer `command`: it only reads, gives the same on every node with the same data, and does not
/// wait. Cursors are a node's own, as is what it tells of how it keeps a value; PFCOUNT may write.
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
