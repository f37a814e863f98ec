//! The connections of a worker by name, with the peer at the other end of each.

use crate::features::Session;
use crate::link::LinkIx;
use stdx::Slab;

/// All connections.
pub(crate) type Peers = Slab<Peer>;

/// The peer at the other end of a connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are clients, and a box would cost each request a cache miss"
)]
pub(crate) enum Peer {
    /// A client.
    Client(Session),
    /// The node of this link.
    Link(LinkIx),
}

/// All clients, in the order of their indexes.
pub(crate) fn sessions(peers: &Peers) -> impl Iterator<Item = &Session> {
    peers.iter().filter_map(|(_, peer)| match peer {
        Peer::Client(session) => Some(session),
        Peer::Link(_) => None,
    })
}
