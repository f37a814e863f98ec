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
//! Which reads may be asked again, `suspect.rs` says. A client with a request in flight on a retired connection is not read
//! from until that was answered: what it sends next must not overtake it.
//!
//! A link is retired if a reply of more than 1 MiB comes on it, or if more than that had to be passed over within a second
//! ([`engine::limits::Limits::pass_over_bytes_max`]). `INFO stats` counts `total_conns_retired`. A read that is asked again gets as much time again. Writes
//! are never sent twice, and a client that usually gets large replies is not asked for twice. For their sake the large reply is passed
//! over first, and its value is asked for again afterwards.

use crate::ConnId;
use crate::errors::Lost;
use crate::features::{Link, Owner, TaskKind, Ticket};
use crate::link::pinned::Refetch;
use crate::link::{LinkIx, Use};
use crate::proxy::{Peer, Proxy};
use crate::replies::Outcome;
use crate::session::{Reason, is_behind};
use crate::walk;
use engine::retry::Why;

impl Proxy {
    /// Retires the connection `ix` if many share it and what comes on it for one of them would keep the others for too
    /// long. Closes it then, if nobody waits for anything on it.
    pub(crate) fn unclog(&mut self, ix: LinkIx) {
        let place = self.retire_if_clogged(ix);
        self.close_if_abandoned(place);
    }

    /// The reply that comes on the connection `ix` for a client is large. `refetches`, all that it waits for there, is asked
    /// again on a connection of its own, and what comes here is passed over; or, if nobody else waits for anything here and
    /// this is retired, it is that connection.
    pub(crate) fn refetch(&mut self, ix: LinkIx, refetches: Vec<Refetch>) {
        walk::enter("refetch");
        let Some(conn) = refetches.first().map(|refetch| refetch.retry.ticket.conn) else { return };
        let is_ours = |ticket: &&mut Ticket| ticket.conn == conn && ticket.owner == Owner::Client;
        self.core.engine.links[ix].tickets_mut().filter(is_ours).for_each(Ticket::discard);
        let place = self.retire_if_clogged(ix);
        if self.leave_to_client(place, conn, &refetches) {
            return;
        }
        let core = &mut self.core;
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            core.add_refetches(session, refetches);
        }
        core.engine.links[place].pass_over(&mut core.engine.pool);
        self.close_if_abandoned(place);
        self.send_refetches_of(conn);
    }

    /// Leaves the retired connection `ix` to the client `conn`, who waits for `refetches`, if these come first there and
    /// nobody waits for anything else.
    fn leave_to_client(&mut self, ix: LinkIx, conn: ConnId, refetches: &[Refetch]) -> bool {
        let core = &mut self.core;
        let link = &core.engine.links[ix];
        let is_ours = |ticket: &&Ticket| ticket.conn == conn && ticket.is_of_client();
        let starts = link.tickets().take_while(is_ours).map(|ticket| ticket.start);
        let come_first = starts.eq(refetches.iter().map(|refetch| refetch.retry.ticket.start))
            && link.tickets().filter(is_ours).count() == refetches.len();
        // A redirect may have brought parts of one request together, which are passed on side by side.
        let are_in_order = refetches
            .windows(2)
            .all(|pair| is_behind(pair[1].retry.ticket.place, pair[0].retry.ticket.place));
        if link.used_by != Use::Retired || !come_first || !are_in_order || !is_abandoned(link) {
            return false;
        }
        let tickets: Vec<Ticket> = link.tickets().copied().collect();
        let shard = core.engine.shard_name(link.shard).to_owned();
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return false };
        if !core.leave_to(session, ix) {
            return false;
        }
        let link = &mut core.engine.links[ix];
        link.take_for_one();
        for (number, ticket) in link.tickets_mut().enumerate() {
            ticket.owner = refetches.get(number).map_or(Owner::Nobody, |_| Owner::Client);
        }
        for ticket in tickets {
            self.lift_barrier(ticket);
            if ticket.owner == Owner::Task(TaskKind::Poll) {
                self.deliver(ticket, Outcome::Lost(Lost::Broken { shard: shard.clone() }));
            }
        }
        true
    }

    /// Retires the connection `ix` if it is clogged. Returns where it is then.
    fn retire_if_clogged(&mut self, ix: LinkIx) -> LinkIx {
        let core = &self.core;
        let link = &core.engine.links[ix];
        let bytes = match () {
            () if link.incoming.passes_over => link.incoming.passed_over_bytes + link.bytes_announced(),
            () if link.incoming.holds_reply => link.bytes_announced(),
            () => 0,
        };
        let is_shared = matches!(link.used_by, Use::Shared | Use::Replica);
        if is_shared && bytes > core.engine.limits.pass_over_bytes_max { self.retire(ix) } else { ix }
    }

    fn retire(&mut self, ix: LinkIx) -> LinkIx {
        // The replica was fit for them when they came; when it takes another connection, it may not be.
        let why = match self.core.engine.links[ix].used_by {
            Use::Replica => Why::ReplicaFailed,
            _ => Why::LinkFailed,
        };
        // What others ask for may be as large: the node would do all of it twice.
        let mut reads = self.take_reads(ix, why, |session| session.replies.expects_little());
        let core = &mut self.core;
        // The node was at work for another, and may be for a while.
        let deadline = core.engine.now + core.engine.limits.request_timeout;
        reads.iter_mut().for_each(|read| read.ticket.deadline = deadline);
        let Link { profile, node: id, .. } = core.engine.links[ix];
        let place = core.unused_link(profile, id);
        self.replace(ix, place, Use::Retired);
        self.core.stats.counters.retirements += 1;
        match why {
            Why::ReplicaFailed => self.ask_primary(reads),
            _ => self.ask_again(reads, ix),
        }
        self.core.engine.recount_link(ix);
        place
    }

    /// Closes the retired connection `ix` if nobody waits for anything on it.
    fn close_if_abandoned(&mut self, ix: LinkIx) {
        let core = &mut self.core;
        let link = &core.engine.links[ix];
        if link.used_by == Use::Retired && is_abandoned(link) {
            core.pins.doomed.push(ix);
        }
    }

    /// The connection at `place` takes the place of `ix`, which many share, and that, which is left to `heirs`, its own.
    pub(crate) fn replace(&mut self, ix: LinkIx, place: LinkIx, heirs: Use) {
        let core = &mut self.core;
        core.engine.links.swap(ix, place);
        let old = &mut core.engine.links[place];
        let used_by = std::mem::replace(&mut old.used_by, heirs);
        let (reported, loaded) = (old.attempts.reported, std::mem::take(&mut old.features.loaded));
        let fresh = &mut core.engine.links[ix];
        fresh.used_by = used_by;
        (fresh.attempts.reported, fresh.features.loaded) = (reported, loaded);
        core.stats.counters.nodes_up -= u64::from(fresh.stands_for_node() && !fresh.is_ready());
        core.engine.links[place].outgoing.listed = false;
        core.engine.links[ix].outgoing.listed = false;
        for index in [ix, place] {
            if let Some(conn) = core.engine.links[index].conn()
                && let Some(peer) = self.peers.get_mut(conn)
            {
                *peer = Peer::Link(index);
            }
            core.engine.list_link(index);
        }
        self.raise_barriers(place);
        self.core.engine.check_at = self.core.engine.now;
    }

    /// Nothing overtakes the requests that are in flight on connection `ix`.
    pub(crate) fn raise_barriers(&mut self, ix: LinkIx) {
        for ticket in self.core.engine.links[ix].tickets().filter(|ticket| ticket.is_of_client()) {
            if let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn) {
                session.hold.add(Reason::Order);
            }
        }
    }

    /// The request of `ticket`, which was in flight on a retired connection, is done. If what came for it was passed over,
    /// it is asked again now.
    pub(crate) fn lift_barrier(&mut self, ticket: Ticket) {
        if ticket.is_of_client()
            && let Some(Peer::Client(session)) = self.peers.get_mut(ticket.conn)
        {
            session.hold.remove(Reason::Order);
            if !session.hold.has(Reason::Order) {
                self.core.engine.todo.clients_to_resume.push(ticket.conn);
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
    /// its task. A fresh one whose node has answered relieves the one that is suspect.
    pub(crate) fn reuse_retired(&mut self, ix: LinkIx) {
        let link = &mut self.core.engine.links[ix];
        match link.used_by {
            Use::Retired if link.is_clean() => {
                link.used_by = Use::Pinned;
                self.core.give_back(ix);
            }
            Use::Draining if link.is_clean() => self.core.pins.doomed.push(ix),
            Use::Standby if link.is_ready() => self.use_standby(ix),
            _ => {}
        }
    }
}

/// Whether nobody waits for what is in flight on it, and none of that changes anything.
pub(crate) fn is_abandoned(link: &Link) -> bool {
    link.tickets().all(|ticket| match ticket.owner {
        Owner::Late | Owner::Nobody => ticket.kept.is_read(),
        // It will be asked once more.
        Owner::Task(TaskKind::Poll) => true,
        _ => false,
    })
}
