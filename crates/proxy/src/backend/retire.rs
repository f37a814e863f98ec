//! A shared connection on which too much had to be passed over is retired: new requests go over a fresh one, and do not
//! wait for the large replies that are still to come on the old. What is in flight there is answered there. A client
//! with a request in flight on a retired connection is not read from until that was answered: what it sends next must
//! not overtake it.

use crate::backend::{Backend, Ticket, Use};
use crate::proxy::{Peer, Proxy};

impl Proxy {
    /// Retires the shared connection `node` if passing over what comes on it would keep others for too long.
    pub(crate) fn retire_if_clogged(&mut self, node: u32) {
        let core = &self.core;
        let backend = &core.backends[node as usize];
        if backend.used_by == Use::Shared
            && backend.passes_over
            && backend.passed_over_bytes + backend.bytes_announced() > core.limits.pass_over_bytes_max
        {
            self.retire(node);
        }
    }

    fn retire(&mut self, node: u32) {
        let core = &mut self.core;
        let Backend { lane, node: id, .. } = core.backends[node as usize];
        let place = core.unused_node(lane, id);
        self.replace(node, place, Use::Retired);
        self.core.counters.retirements += 1;
    }

    /// The connection at `place` takes the place of the shared one `node`, and that, which is left to `heirs`, its own.
    pub(crate) fn replace(&mut self, node: u32, place: u32, heirs: Use) {
        let core = &mut self.core;
        core.backends.swap(node as usize, place as usize);
        let old = &mut core.backends[place as usize];
        old.used_by = heirs;
        let (reported_down, loaded) = (old.reported_down, std::mem::take(&mut old.loaded));
        let fresh = &mut core.backends[node as usize];
        fresh.used_by = Use::Shared;
        (fresh.reported_down, fresh.loaded) = (reported_down, loaded);
        core.counters.nodes_up -= u64::from(fresh.stands_for_node() && !fresh.is_ready());
        core.backends[place as usize].listed = false;
        core.backends[node as usize].listed = false;
        for index in [node, place] {
            if let Some(conn) = core.backends[index as usize].conn()
                && let Some(peer) = self.peers.get_mut(conn)
            {
                *peer = Peer::Node(index);
            }
            core.list_node(index);
        }
        self.raise_fences(place);
        self.core.check_at = self.core.now;
    }

    /// Nothing overtakes the requests that are in flight on connection `node`.
    pub(crate) fn raise_fences(&mut self, node: u32) {
        for ticket in self.core.backends[node as usize].tickets().filter(|ticket| ticket.is_of_client()) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn) {
                session.fences += 1;
            }
        }
    }

    /// The request of `ticket`, which was in flight on a retired connection, is done.
    pub(crate) fn lift_fence(&mut self, ticket: Ticket) {
        if ticket.is_of_client()
            && let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn)
        {
            session.fences -= 1;
            if session.fences == 0 {
                self.core.clients_to_resume.push(ticket.conn);
            }
        }
    }

    /// A retired connection on which nothing is in flight any more can serve large transfers, unless its node has lost
    /// its task. A fresh one whose node has answered relieves the one that is doubted.
    pub(crate) fn reuse_retired(&mut self, node: u32) {
        let backend = &mut self.core.backends[node as usize];
        match backend.used_by {
            Use::Retired if backend.is_clean() => {
                backend.used_by = Use::Pinned;
                self.core.give_back(node);
            }
            Use::Draining if backend.is_clean() => self.core.pins.doomed.push(node),
            Use::Relief if backend.is_ready() => self.relieve(node),
            _ => {}
        }
    }
}
