//! What the core is told and what it asks for: the whole border between it and the world.

use crate::ConnId;
use topology::NodeId;

/// A client that has just arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Its address.
    pub peer: &'a str,
    /// The address of the load balancer that has told `peer` in a PROXY header; empty without a header.
    pub named_by: &'a str,
    /// The address at which it reached us, `ip:port`; clients of Redis Cluster are told to come back to it. Of a unix
    /// socket, its path and `:0`. Empty if it is not known.
    pub local: &'a str,
    /// The number of its socket, for CLIENT LIST; -1 if it has none.
    pub descriptor: i32,
    /// The number of the listener by which it came: features may have a policy for it.
    pub listener: u16,
}

impl<'a> Arrival<'a> {
    /// A client of which nothing is known but its address.
    pub fn of(peer: &'a str) -> Arrival<'a> {
        Arrival { peer, named_by: "", local: "", descriptor: -1, listener: 0 }
    }
}

/// What happened on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The connection that an [`Action::Connect`] asked for is there.
    Connected {
        /// Which.
        conn: ConnId,
    },
    /// Bytes arrived.
    Received {
        /// Where.
        conn: ConnId,
        /// At least one.
        bytes: &'a [u8],
    },
    /// A connection that took less than it was offered takes bytes again.
    Writable {
        /// Which.
        conn: ConnId,
    },
    /// The other side will send no more; it may still read.
    Ended {
        /// Which.
        conn: ConnId,
    },
    /// The connection is gone, or was never made. The driver has forgotten it.
    Closed {
        /// Which.
        conn: ConnId,
        /// Why, for logs and error replies.
        reason: &'a str,
    },
}

/// What is to be done now. The order matters only within one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Open a connection to `node` and call it `conn`; answered by `Connected` or `Closed`.
    Connect {
        /// Its name from now on.
        conn: ConnId,
        /// Where to.
        node: NodeId,
    },
    /// Offer `bytes`; how many were taken goes to the core before anything else does.
    Send {
        /// Where.
        conn: ConnId,
        /// What waits to leave; begins with the bytes that were not taken the last time.
        bytes: &'a [u8],
    },
    /// Stop reading from the connection until `Resume`.
    Pause {
        /// Which.
        conn: ConnId,
    },
    /// Read again.
    Resume {
        /// Which.
        conn: ConnId,
    },
    /// Tell the other side that nothing more will come (shut down the sending half); go on reading.
    Finish {
        /// Which.
        conn: ConnId,
    },
    /// Close it. No event of it may follow.
    Close {
        /// Which.
        conn: ConnId,
    },
}
