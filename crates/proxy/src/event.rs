//! What the core is told and what it asks for, and what it tells operators.

pub use engine::event::{Action, Arrival, Event};

/// Something that an operator wants to know; goes to the log. Holds no client data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A node that was reported down answered its PING: requests flow again.
    NodeUp {
        /// Name of its shard.
        shard: String,
    },
    /// A node cannot be used; reported once until it is back.
    NodeDown {
        /// Name of its shard.
        shard: String,
        /// What went wrong.
        reason: String,
    },
    /// A node is none that can be meant by --nodes; reported once until it is back.
    NodeRefused {
        /// Name of its shard.
        shard: String,
        /// What it is, and what to do.
        reason: String,
    },
    /// A node that is named as a primary is a replica.
    NodeIsReplica {
        /// Name of its shard.
        shard: String,
        /// Whose: host and port.
        primary: String,
    },
    /// It is a primary again.
    NodeIsPrimary {
        /// Name of its shard.
        shard: String,
    },
    /// Nothing came on a connection to a node, which answered on another: that has taken its place.
    ConnReplaced {
        /// Name of its shard.
        shard: String,
    },
    /// A node does not take connections of a kind that clients have chosen, though it takes others; reported once until it
    /// does.
    KindRefused {
        /// Name of its shard.
        shard: String,
        /// The database.
        database: u16,
        /// The version of the protocol.
        protocol: u8,
        /// What the node says.
        reason: String,
    },
    /// Reads that replicas should answer go to the primary, or are refused; reported once until a replica is fit.
    NoReplicaFit {
        /// Name of the shard.
        shard: String,
        /// What is wrong with the first replica.
        reason: String,
    },
    /// They go to a replica again.
    ReplicaFit {
        /// Name of the shard.
        shard: String,
    },
    /// Keys go to other shards than before, since nodes failed or came back.
    Remapped {
        /// Names of the shards that own no keys for now.
        out: Vec<String>,
        /// Names of those that get their keys back step by step.
        returning: Vec<String>,
    },
    /// Somebody wanted to be a client and did not do what its listener asks for: TLS, a PROXY header.
    HandshakeFailed {
        /// Its address.
        peer: String,
        /// What went wrong.
        reason: String,
    },
    /// The connection over which a node's messages come was lost: those published until it is back are missed.
    MessagesMissed {
        /// Name of its shard.
        shard: String,
        /// How many channels and patterns of how many clients whatsoever.
        topics: usize,
        /// What went wrong.
        reason: String,
    },
    /// It is back, and what clients are subscribed to was asked for again.
    SubscribedAgain {
        /// Name of its shard.
        shard: String,
        /// How many channels and patterns.
        topics: usize,
    },
    /// A client left while a pop for it was in flight, and the element that came could not be put back.
    ElementNotReturned {
        /// Name of the key's shard.
        shard: String,
    },
    /// All shards have loaded a library, for which shardis has no room: it cannot load it again on a node that loses it.
    LibraryNotKept {
        /// Its name: letters, digits and underscores.
        library: String,
    },
    /// A client's first request that was refused since its keys live on several shards.
    CrossSlot {
        /// Its number, as CLIENT ID tells it.
        client: u64,
        /// Its address.
        peer: String,
        /// The name of the command.
        command: &'static str,
        /// The option that carries such requests out, if there is one.
        option: Option<&'static str>,
    },
    /// A client was closed by us.
    ClientClosed {
        /// Its number, as CLIENT ID tells it.
        client: u64,
        /// Its address.
        peer: String,
        /// Why.
        reason: CloseReason,
    },
}

/// Why we closed a client that did not ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It sent what is not RESP.
    Protocol,
    /// It spoke HTTP: most likely somebody's browser was tricked into sending requests here.
    CrossProtocol,
    /// It does not read its replies.
    OutputLimit,
    /// It does not read the messages that it is subscribed to.
    SlowSubscriber,
    /// The most was held for it when memory was full.
    MemoryLimit,
    /// It began a request and did not go on.
    HalfRequest,
    /// It had got a part of a large reply when the node was lost.
    HalfReply,
    /// It was idle for longer than `--timeout`.
    Idle,
    /// The nodes do not let its user have any more what it is subscribed to.
    Denied,
}
