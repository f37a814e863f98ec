//! The events and actions of the core, and its notices for operators.

pub use engine::event::{Action, Arrival, Event};

/// A notice for operators, which goes to the log. It holds no client data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A node that was reported down has answered its PING: requests flow again.
    NodeUp {
        /// The name of its shard.
        shard: String,
    },
    /// A node cannot be used. Reported once until it is back.
    NodeDown {
        /// The name of its shard.
        shard: String,
        /// The cause.
        reason: String,
    },
    /// A node cannot be one of `--nodes`. Reported once until it is back.
    NodeRefused {
        /// The name of its shard.
        shard: String,
        /// The kind of the node, and the remedy.
        reason: String,
    },
    /// A node that is named as a primary is a replica.
    NodeIsReplica {
        /// The name of its shard.
        shard: String,
        /// Host and port of its primary.
        primary: String,
    },
    /// The node is a primary again.
    NodeIsPrimary {
        /// The name of its shard.
        shard: String,
    },
    /// A silent link was replaced: the node answered on another one.
    ConnReplaced {
        /// The name of its shard.
        shard: String,
    },
    /// A node refuses connections with a profile of clients, but accepts others. Reported once until the node accepts
    /// them.
    KindRefused {
        /// The name of its shard.
        shard: String,
        /// The database.
        database: u16,
        /// The version of the protocol.
        protocol: u8,
        /// The node's error.
        reason: String,
    },
    /// Reads for replicas go to the primary, or are refused. Reported once until a replica is fit.
    NoReplicaFit {
        /// The name of the shard.
        shard: String,
        /// The fault of the first replica.
        reason: String,
    },
    /// Reads go to a replica again.
    ReplicaFit {
        /// The name of the shard.
        shard: String,
    },
    /// Keys have changed their shards because nodes failed or came back.
    Remapped {
        /// The names of the shards that own no keys for now.
        out: Vec<String>,
        /// The names of the shards that get their keys back step by step.
        returning: Vec<String>,
    },
    /// A pending client failed to meet the requirements of its listener: TLS or a PROXY header.
    HandshakeFailed {
        /// The client's address.
        peer: String,
        /// The cause.
        reason: String,
    },
    /// The link for a node's messages was lost. Messages until it is back are missed.
    MessagesMissed {
        /// The name of its shard.
        shard: String,
        /// Number of channels and patterns with subscribers.
        topics: usize,
        /// The cause.
        reason: String,
    },
    /// The link is back, and the subscriptions were made again.
    SubscribedAgain {
        /// The name of its shard.
        shard: String,
        /// Number of channels and patterns.
        topics: usize,
    },
    /// A client left while a pop for it was in flight, and its element could not be put back.
    ElementNotReturned {
        /// The name of the key's shard.
        shard: String,
    },
    /// All shards have loaded a library for which shardis has no memory. shardis cannot load it again on a node that
    /// loses it.
    LibraryNotKept {
        /// The library's name: letters, digits and underscores.
        library: String,
    },
    /// The first request of a client that was refused because its keys are on several shards.
    CrossSlot {
        /// The client's number, as in CLIENT ID.
        client: u64,
        /// The client's address.
        peer: String,
        /// The name of the command.
        command: &'static str,
        /// The option with which shardis carries out such requests, if there is one.
        option: Option<&'static str>,
    },
    /// shardis closed a client.
    ClientClosed {
        /// The client's number, as in CLIENT ID.
        client: u64,
        /// The client's address.
        peer: String,
        /// The reason.
        reason: CloseReason,
    },
}

/// Why shardis closed a client that did not ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client sent bytes that are not RESP.
    Protocol,
    /// The client spoke HTTP. Most likely a browser was tricked into sending requests here.
    CrossProtocol,
    /// The client does not read its replies.
    OutputLimit,
    /// The client does not read the messages of its subscriptions.
    SlowSubscriber,
    /// Memory was full, and this client held the most.
    MemoryLimit,
    /// The client did not complete a request in time.
    HalfRequest,
    /// The node was lost when the client had got a part of a large reply.
    HalfReply,
    /// The client was idle for longer than `--timeout`.
    Idle,
    /// The nodes no longer permit the subscriptions of the client's user.
    Denied,
}
