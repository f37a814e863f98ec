//! Faults of a configured topology. Every text names the fault, its place, and the remedy.

use crate::hash::HashFunction;
use crate::node::{NODES_MAX, TEXT_BYTES_MAX, UNIX_PATH_BYTES_MAX, WEIGHT_MAX, ZONE_BYTES_MAX};

/// Why there is no topology. All of it is the operator's to mend: in the list of nodes or in the options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A hash function that does not exist.
    #[error("hash {name:?}: must be one of {}", hash_names())]
    HashFunction {
        /// The configured text.
        name: String,
    },
    /// A distribution that does not exist.
    #[error("distribution {name:?}: must be modulo, modula, ketama or slots")]
    Distribution {
        /// The configured text.
        name: String,
    },
    /// twemproxy's `random`.
    #[error(
        "distribution \"random\" is not offered, because a key would live anywhere; \
         write modulo, modula, ketama or slots"
    )]
    RandomDistribution,
    /// A tag rule that does not exist.
    #[error(
        "tag rule {text:?}: must be sml, perl, redis, codis, none, or two ASCII characters such as {{}} or <>"
    )]
    TagRule {
        /// The configured text.
        text: String,
    },
    /// Slots with another hash than Redis's.
    #[error(
        "hash {hash}: slots are always made with crc16-redis; leave the hash out, or choose another distribution"
    )]
    HashWithSlots {
        /// The function that was asked for.
        hash: HashFunction,
    },
    /// Slots with weights.
    #[error(
        "node {node:?}: slots are divided evenly; leave the weight {weight} out, or choose another distribution"
    )]
    WeightWithSlots {
        /// The node's name or address.
        node: String,
        /// Its weight, which is not 1.
        weight: u32,
    },

    /// A ring of tokens on which a node has none.
    #[error("node {node:?}: the others have tokens, so it needs one as well")]
    NoToken {
        /// The node's name or address.
        node: String,
    },
    /// A token of two nodes.
    #[error("token {token}: two nodes have it; each needs its own")]
    SameToken {
        /// Which.
        token: u32,
    },
    /// A slot that two shards own, or that does not exist.
    #[error("slot {slot}: a slot must be below 16384 and have one owner")]
    Slot {
        /// Which.
        slot: u16,
    },
    /// Discovery found a shard without a configured name.
    #[error("shard {name:?}: the topology has no shard of this name")]
    UnknownShard {
        /// Its name.
        name: String,
    },

    /// An empty list.
    #[error("no nodes; write at least one, as in 127.0.0.1:6379,127.0.0.1:6380")]
    NoNodes,
    /// Two commas in a row, or one at an end.
    #[error("node {position} of the list is empty; remove a comma, or write the node, as in 127.0.0.1:6379")]
    NodeEmpty {
        /// Which one, counted from 1.
        position: usize,
    },
    /// More nodes than a topology can have.
    #[error("{count} nodes; at most {NODES_MAX} are possible")]
    TooManyNodes {
        /// Number of nodes.
        count: usize,
    },
    /// Two nodes at one address.
    #[error("node {node:?}: the address is already that of node {first:?}; every node needs its own")]
    DuplicateAddress {
        /// The later node's name or address.
        node: String,
        /// The earlier one's.
        first: String,
    },
    /// Two nodes of one name. twemproxy refuses that as well: the name is what places a node.
    #[error("node {node:?}: the name {name:?} is already that of node {first:?}; every node needs its own")]
    DuplicateName {
        /// The later node's address.
        node: String,
        /// The earlier one's.
        first: String,
        /// The name of both.
        name: String,
    },

    /// A URL. It may contain a password, so it is not shown.
    #[error(
        "node \"{scheme}://…\": a node is host:port, as in 127.0.0.1:6379, and no URL; its password and TLS are options of their own"
    )]
    Url {
        /// The part before `://`.
        scheme: String,
    },
    /// A TCP address without a port.
    #[error("node {node:?}: the port is missing; write host:port, as in 127.0.0.1:6379")]
    PortMissing {
        /// The configured text.
        node: String,
    },
    /// A port that is none.
    #[error("node {node:?}: port must be 1 to 65535, as in 127.0.0.1:6379")]
    Port {
        /// The configured text.
        node: String,
    },
    /// Nothing before the port, or nothing that can be a host's name.
    #[error(
        "node {node:?}: host must be an address or a name of letters, digits, dots, hyphens and underscores, \
         of at most {TEXT_BYTES_MAX} bytes, as in 127.0.0.1:6379 or redis-1.example.org:6379"
    )]
    Host {
        /// The configured text.
        node: String,
    },
    /// Digits and dots that are no IPv4 address.
    #[error(
        "node {node:?}: the host is no IPv4 address; write four numbers from 0 to 255, as in 127.0.0.1:6379"
    )]
    Ipv4 {
        /// The configured text.
        node: String,
    },
    /// An IPv6 address in no brackets, or something else in brackets.
    #[error("node {node:?}: an IPv6 address stands in brackets before its port, as in [::1]:6379")]
    Ipv6 {
        /// The configured text.
        node: String,
    },
    /// A unix socket whose path is relative or too long.
    #[error(
        "node {node:?}: the path of a unix socket must be absolute and have at most {UNIX_PATH_BYTES_MAX} bytes, \
         as in unix:/run/redis.sock"
    )]
    UnixPath {
        /// The configured text.
        node: String,
    },
    /// A weight that is none.
    #[error(
        "node {node:?}: weight must be 1 to {WEIGHT_MAX}, as in 127.0.0.1:6379:2 or unix:/run/redis.sock:2"
    )]
    Weight {
        /// The configured text.
        node: String,
    },
    /// A zone that is none.
    #[error(
        "node {node:?}: a zone is a word of letters, digits, dots, hyphens and underscores, of at most \
         {ZONE_BYTES_MAX} bytes, as in 127.0.0.1:6379@zone-a"
    )]
    Zone {
        /// The configured text.
        node: String,
    },
    /// Nothing behind a `|`.
    #[error(
        "node {node:?}: a replica of this node is empty; remove a |, or write the replica, as in a:6379|b:6379"
    )]
    ReplicaEmpty {
        /// The primary's name or address.
        node: String,
    },
    /// A replica with a weight.
    #[error("node {node:?}: a replica takes no keys of its own; leave the weight {weight} out")]
    ReplicaWeight {
        /// The replica's name or address.
        node: String,
        /// Its weight, which is not 1.
        weight: u32,
    },
    /// A name with blanks or control characters in it, or too long.
    #[error(
        "node {node:?}: a name is one word of at most {TEXT_BYTES_MAX} bytes behind the address and a blank, \
         as in 127.0.0.1:6379:1 shard-a"
    )]
    Name {
        /// The configured text.
        node: String,
    },
}

/// All hash functions, for the text of an error.
fn hash_names() -> String {
    HashFunction::names().collect::<Vec<_>>().join(", ")
}
