//! The last file descriptors of the process are for links that all clients share. New clients and links of single
//! clients do not get them, so that shardis can connect to a node that comes back.
//!
//! Pending clients of all workers count towards `--maxclients` like clients (`Board::seats_left`). Descriptors for
//! nodes are kept free by that sum.

use crate::link::Use;
use crate::peers::Peer;
use crate::proxy::Proxy;
use crate::{ConnId, errors};

/// Whether the connection `conn` may have one of the last descriptors: all clients share it, or are about to.
pub fn may_have_last(proxy: &Proxy, conn: ConnId) -> bool {
    let Some(&Peer::Link(ix)) = proxy.peers.get(conn) else { return false };
    let link = &proxy.core.cx.engine.links[ix];
    link.stands_for_node() || matches!(link.used_by, Use::Replica | Use::Standby)
}

/// Refuses a client for which no descriptor is left. Returns the bytes to send before the close.
pub fn refuse_client(proxy: &mut Proxy) -> Vec<u8> {
    proxy.core.cx.stats.counters.clients_refused += 1;
    errors::reply(errors::CLIENTS_MAX)
}
