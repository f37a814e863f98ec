//! The events that the core receives and the actions that it asks for. This is its whole interface.

use crate::ConnId;
use topology::NodeId;

/// A client that has just connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The client's address.
    pub peer: &'a str,
    /// The address of the load balancer that named `peer` in a PROXY header; empty without a header.
    pub named_by: &'a str,
    /// The local address of the connection, `ip:port`. Clients of Redis Cluster are told to connect to it. For a unix
    /// socket, its path and `:0`. Empty if unknown.
    pub local: &'a str,
    /// The number of the socket, for CLIENT LIST; -1 if there is none.
    pub descriptor: i32,
    /// The number of the listener. Features may have a policy for it.
    pub listener: u16,
}

impl<'a> Arrival<'a> {
    /// A client of which only the address is known.
    pub fn of(peer: &'a str) -> Arrival<'a> {
        Arrival { peer, named_by: "", local: "", descriptor: -1, listener: 0 }
    }
}

/// A change of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A connection that [`Action::Connect`] asked for is open.
    Connected {
        /// The connection.
        conn: ConnId,
    },
    /// Bytes arrived.
    Received {
        /// The connection.
        conn: ConnId,
        /// At least one.
        bytes: &'a [u8],
    },
    /// A connection that took fewer bytes than offered is ready for more.
    Writable {
        /// The connection.
        conn: ConnId,
    },
    /// The other side has closed its sending half; it may still read.
    Ended {
        /// The connection.
        conn: ConnId,
    },
    /// The connection is gone, or could not be opened. The driver has forgotten it.
    Closed {
        /// The connection.
        conn: ConnId,
        /// The reason, for logs and error replies.
        reason: &'a str,
    },
}

/// A step for the driver to take now. Order matters only within one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Open a connection to `node` and call it `conn`; answered by `Connected` or `Closed`.
    Connect {
        /// The name of the new connection.
        conn: ConnId,
        /// The node.
        node: NodeId,
    },
    /// Offer `bytes` to the socket. The core learns how many were taken before it does anything else.
    Send {
        /// The connection.
        conn: ConnId,
        /// Bytes to send, beginning with those that were not taken last time.
        bytes: &'a [u8],
    },
    /// Stop reading from the connection until `Resume`.
    Pause {
        /// The connection.
        conn: ConnId,
    },
    /// Resume reading.
    Resume {
        /// The connection.
        conn: ConnId,
    },
    /// Close the sending half (shutdown) and go on reading.
    Finish {
        /// The connection.
        conn: ConnId,
    },
    /// Close the connection. No event of it may follow.
    Close {
        /// The connection.
        conn: ConnId,
    },
}
