//! A shared connection on which too much had to be passed over is retired: new requests go over a fresh one, and do not
//! wait for the large replies that are still to come on the old.
//!
//! ```text
//!   a reply that is too large begins, or the last of many ──► retired: a fresh connection takes its place
//!     ├─ reads in flight behind it, of clients that usually get little ──► asked again on the fresh one, once each;
//!     │                                                                   those of a replica, of its primary
//!     ├─ nobody else waits for anything on it then ──► it is the connection of the large reply's client from now on, or
//!     │                                               closed, if nobody wants that or there is no permit for it
//!     └─ else ──► what comes is passed over as fast as it does, and the others are answered there;
//!                 the large reply is asked for again once that is done, since both would share the node and the way
//! ```
//!
//! Which reads may be asked again, `doubt.rs` says. A client with a request in flight on a retired connection is not read
//! from until that was answered: what it sends next must not overtake it.

use crate::ConnId;
use crate::backend::pinned::Refetch;
use crate::backend::{Backend, Purpose, Ticket, Use};
use crate::errors::Lost;
use crate::proxy::{Peer, Proxy};
use crate::replies::Outcome;
use crate::session::{Session, is_behind};

impl Proxy {
    /// Retires the connection `node` if many share it and what comes on it for one of them would keep the others for too
    /// long. Closes it then, if nobody waits for anything on it.
    pub(crate) fn unclog(&mut self, node: u32) {
        let place = self.retire_if_clogged(node);
        self.close_if_abandoned(place);
    }

    /// The reply that comes on the connection `node` for a client is large. `refetches`, all that it waits for there, is asked
    /// again on a connection of its own, and what comes here is passed over; or, if nobody else waits for anything here and
    /// this is retired, it is that connection.
    pub(crate) fn refetch(&mut self, node: u32, refetches: Vec<Refetch>) {
        let Some(conn) = refetches.first().map(|refetch| refetch.ticket.conn) else { return };
        let is_ours = |ticket: &&mut Ticket| ticket.conn == conn && ticket.purpose == Purpose::Client;
        self.core.backends[node as usize].tickets_mut().filter(is_ours).for_each(Ticket::bury);
        let place = self.retire_if_clogged(node);
        if self.leave_to_client(place, conn, &refetches) {
            return;
        }
        let core = &mut self.core;
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            core.add_refetches(session, refetches);
        }
        core.backends[place as usize].pass_over(&mut core.pool);
        self.close_if_abandoned(place);
        self.send_refetches_of(conn);
    }

    /// Leaves the retired connection `node` to the client `conn`, who waits for `refetches`, if these come first there and
    /// nobody waits for anything else.
    fn leave_to_client(&mut self, node: u32, conn: ConnId, refetches: &[Refetch]) -> bool {
        let core = &mut self.core;
        let backend = &core.backends[node as usize];
        let is_ours = |ticket: &&Ticket| ticket.conn == conn && ticket.is_of_client();
        let starts = backend.tickets().take_while(is_ours).map(|ticket| ticket.start);
        let come_first = starts.eq(refetches.iter().map(|refetch| refetch.ticket.start))
            && backend.tickets().filter(is_ours).count() == refetches.len();
        // A redirect may have brought parts of one request together, which are passed on side by side.
        let are_in_order =
            refetches.windows(2).all(|pair| is_behind(pair[1].ticket.place, pair[0].ticket.place));
        if backend.used_by != Use::Retired || !come_first || !are_in_order || !backend.is_abandoned() {
            return false;
        }
        let tickets: Vec<Ticket> = backend.tickets().copied().collect();
        let shard = core.shard_name(backend.shard).to_owned();
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return false };
        if !core.leave_to(session, node) {
            return false;
        }
        let backend = &mut core.backends[node as usize];
        backend.take_for_one();
        for (number, ticket) in backend.tickets_mut().enumerate() {
            ticket.purpose = refetches.get(number).map_or(Purpose::Nobody, |_| Purpose::Client);
        }
        for ticket in tickets {
            self.lift_fence(ticket);
            if ticket.purpose == Purpose::Poll {
                self.deliver(ticket, Outcome::Lost(Lost::Broken { shard: shard.clone() }));
            }
        }
        true
    }

    /// Retires the connection `node` if it is clogged. Returns where it is then.
    fn retire_if_clogged(&mut self, node: u32) -> u32 {
        let core = &self.core;
        let backend = &core.backends[node as usize];
        let bytes = match () {
            () if backend.passes_over => backend.passed_over_bytes + backend.bytes_announced(),
            () if backend.holds_reply => backend.bytes_announced(),
            () => 0,
        };
        let is_shared = matches!(backend.used_by, Use::Shared | Use::Replica);
        if is_shared && bytes > core.limits.pass_over_bytes_max { self.retire(node) } else { node }
    }

    fn retire(&mut self, node: u32) -> u32 {
        // What others ask for may be as large: the node would do all of it twice.
        let mut reads = self.take_reads(node, Session::expects_little);
        let core = &mut self.core;
        // The node was at work for another, and may be for a while.
        let deadline = core.now + core.limits.request_timeout;
        reads.iter_mut().for_each(|read| read.ticket.deadline = deadline);
        let Backend { lane, node: id, shard, used_by, .. } = core.backends[node as usize];
        let place = core.unused_node(lane, id);
        self.replace(node, place, Use::Retired);
        self.core.counters.retirements += 1;
        match used_by {
            // The replica was fit for them when they came; when it takes another connection, it may not be.
            Use::Replica => self.ask_primary(reads.into_iter().map(|read| read.of(lane, shard)).collect()),
            _ => self.ask_again(reads, node),
        }
        self.core.recount_node(node);
        place
    }

    /// Closes the retired connection `node` if nobody waits for anything on it.
    fn close_if_abandoned(&mut self, node: u32) {
        let core = &mut self.core;
        let backend = &core.backends[node as usize];
        if backend.used_by == Use::Retired && backend.is_abandoned() {
            core.pins.doomed.push(node);
        }
    }

    /// The connection at `place` takes the place of `node`, which many share, and that, which is left to `heirs`, its own.
    pub(crate) fn replace(&mut self, node: u32, place: u32, heirs: Use) {
        let core = &mut self.core;
        core.backends.swap(node as usize, place as usize);
        let old = &mut core.backends[place as usize];
        let used_by = std::mem::replace(&mut old.used_by, heirs);
        let (reported, loaded) = (old.reported, std::mem::take(&mut old.loaded));
        let fresh = &mut core.backends[node as usize];
        fresh.used_by = used_by;
        (fresh.reported, fresh.loaded) = (reported, loaded);
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

    /// The request of `ticket`, which was in flight on a retired connection, is done. If what came for it was passed over,
    /// it is asked again now.
    pub(crate) fn lift_fence(&mut self, ticket: Ticket) {
        if ticket.is_of_client()
            && let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn)
        {
            session.fences -= 1;
            if session.fences == 0 {
                self.core.clients_to_resume.push(ticket.conn);
            }
            self.send_refetches_of(ticket.conn);
        }
    }

    /// Asks again what `conn` is to ask again, if it may.
    pub(crate) fn send_refetches_of(&mut self, conn: ConnId) {
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            let lost = self.core.send_refetches(session);
            self.deliver_losses(lost);
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

impl Backend {
    /// Whether nobody waits for what is in flight on it, and none of that changes anything.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.tickets().all(|ticket| match ticket.purpose {
            Purpose::Late | Purpose::Nobody => ticket.kept.is_read(),
            // It will be asked once more.
            Purpose::Poll => true,
            _ => false,
        })
    }
}
