//! Where reads are wanted to go, and which may go to a replica at all.

use command::{Carry, Command, Flags};
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
    pub(super) const WORDS: [(&'static str, ReadFrom); 7] = [
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
    /// Where they go, unless the client says otherwise (READONLY).
    pub from: ReadFrom,
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
}

impl Reading {
    /// Whether `node` is in our zone.
    pub(super) fn is_ours(&self, topology: &Topology, node: NodeId) -> bool {
        self.zone.is_some() && topology.node(node).zone == self.zone
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
