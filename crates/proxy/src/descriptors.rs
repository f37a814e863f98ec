//! Who gets the last descriptors of the process: links that all clients share. New clients and links of single clients do not,
//! so that a shard whose node comes back can be connected to.
//!
//! Pending clients of all workers, whose TLS handshake or PROXY header is not complete, count towards `--maxclients` as clients do
//! (`Board::seats_left`): descriptors are kept free for nodes by that sum.

use crate::link::Use;
use crate::peers::Peer;
use crate::proxy::Proxy;
use crate::{ConnId, errors};

/// Whether the connection `conn` may have one of the last: all clients share it, or are about to.
pub fn may_have_last(proxy: &Proxy, conn: ConnId) -> bool {
    let Some(&Peer::Link(ix)) = proxy.peers.get(conn) else { return false };
    let link = &proxy.core.cx.engine.links[ix];
    link.stands_for_node() || matches!(link.used_by, Use::Replica | Use::Standby)
}

/// A client has arrived for which none is left: the bytes to send it before it is closed.
pub fn refuse_client(proxy: &mut Proxy) -> Vec<u8> {
    proxy.core.cx.stats.counters.clients_refused += 1;
    errors::reply(errors::CLIENTS_MAX)
}
