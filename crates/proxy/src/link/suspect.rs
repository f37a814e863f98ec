//! Connections to nodes that may be dead without anybody having said so: a firewall forgot them, a cable was pulled. Who
//! asks something on one gets no answer, though the node would give one to somebody else.
//!
//! ```text
//!   something is in flight, and nothing has come for a quarter of its time
//!     └─► suspected ─► a fresh connection ─► PONG ─► takes its place, and the reads that were in flight are asked there
//!            └─ it speaks, or the fresh one fails: all stays as it was
//! ```
//!
//! The old connection is not closed before one of its replies is late: a node may leave writes waiting on purpose (CLIENT
//! PAUSE, a failover by hand), and then answers there. What the node may have carried out is never sent again: only reads
//! are, once, and of clients that have nothing but reads in flight there, so that none of them sees
//! less or more than its place in the client's order allows. The same is done with reads whose connection ended, if it had
//! been healthy.
//!
//! A client with a request that is asked again waits for it, so nothing overtakes. A link that is younger than a second is not
//! suspect: one new link a second and worker is the most that a node gets by this.

use crate::ConnId;
use crate::context::Context;
use crate::event::Notice;
use crate::features::{Link, Owed, Owner, Retry, Session, TaskId, Ticket};
use crate::link::{LinkIx, Use, retire};
use crate::peers::{Peer, Peers};
use engine::retry::Why;
use std::collections::BTreeSet;

/// Nothing comes on the shared connection `ix`: another is made, to find out whether its node is there.
pub(crate) fn suspect(cx: &mut Context, ix: LinkIx) {
    cx.engine.links[ix].suspect(cx.engine.now);
    let Link { shard, profile, node: id, .. } = cx.engine.links[ix];
    let greeting = cx.profiles.greeting(profile);
    cx.engine.add_link(Link::new((shard, id), Use::Standby, profile, greeting));
}

/// The node has answered on the fresh connection `place`, which takes the place of the one that is suspect, unless that
/// has spoken meanwhile.
pub(crate) fn use_standby(cx: &mut Context, peers: &mut Peers, place: LinkIx) {
    let Link { profile, node: id, .. } = cx.engine.links[place];
    let shared = cx.profiles.link(profile, id).filter(|&ix| {
        let link = &cx.engine.links[ix];
        link.used_by == Use::Shared && link.is_ready() && link.is_suspect()
    });
    let Some(ix) = shared else {
        cx.engine.links[place].used_by = Use::Pinned;
        return cx.give_back(place);
    };
    let reads = take_reads(cx, peers, ix, Why::LinkFailed, |_| true);
    retire::replace(cx, peers, ix, place, Use::Draining);
    cx.stats.counters.conns_replaced += 1;
    let shard = cx.engine.shard_name(cx.engine.links[ix].shard).to_owned();
    cx.notice(Notice::ConnReplaced { shard });
    ask_again(cx, reads, ix);
    cx.engine.recount_link(ix);
}

/// The connection `ix` has ended: takes the reads away from it that may be asked again on the next, if that is tried
/// at once.
pub(crate) fn take_reads_of_ended(cx: &mut Context, peers: &mut Peers, ix: LinkIx) -> Vec<Retry> {
    match cx.engine.links[ix].was_healthy(cx.engine.now, &cx.engine.limits) {
        true => take_reads(cx, peers, ix, Why::LinkFailed, |_| true),
        false => Vec::new(),
    }
}

/// Takes the reads in flight on the shared connection `ix` away from it that may be asked again, for this reason, of
/// clients that are `fit` for it.
pub(crate) fn take_reads(
    cx: &mut Context,
    peers: &mut Peers,
    ix: LinkIx,
    why: Why,
    fit: impl Fn(&Session) -> bool,
) -> Vec<Retry> {
    let link = &cx.engine.links[ix];
    // The places of one that has gone are nobody's.
    let awaited = link.tickets().enumerate().filter_map(|(number, &ticket)| match peers.get(ticket.conn) {
        Some(Peer::Client(session)) if ticket.is_of_client() => {
            let owed = session.replies.owed(ticket.place)?;
            Some((number, ticket, fit(session) && may_ask_again(cx, ix, &ticket, owed)))
        }
        _ => None,
    });
    let awaited: Vec<_> = awaited.collect();
    let bound: BTreeSet<ConnId> =
        awaited.iter().filter(|(_, _, may)| !may).map(|(_, ticket, _)| ticket.conn).collect();
    let free = awaited.iter().filter(|(_, ticket, _)| !bound.contains(&ticket.conn));
    let reads =
        free.filter_map(|&(number, ticket, _)| Retry::new(why, link, ticket, link.kept_request(number)?));
    let reads: Vec<Retry> = reads.collect();
    let starts: BTreeSet<u64> = reads.iter().map(|read| read.ticket.start).collect();
    let link = &mut cx.engine.links[ix];
    for ticket in link.tickets_mut().filter(|ticket| starts.contains(&ticket.start)) {
        // No tombstone of the client's: nothing that it sends need wait for it.
        ticket.owner = Owner::Nobody;
    }
    reads
}

/// Whether the request of `ticket`, in flight on the connection `ix` for what is `owed`, may be asked again.
fn may_ask_again(cx: &Context, ix: LinkIx, ticket: &Ticket, owed: Owed) -> bool {
    ticket.owner == Owner::Client
        && Why::LinkFailed.next(ticket.kept).is_some()
        && cx.engine.links[ix].is_kept(ticket)
        && cx.engine.limits.over_at(ticket.deadline, cx.engine.limits.request_timeout) > cx.engine.now
        && matches!(owed, Owed::Node | Owed::Task(TaskId::Merge(_)))
}

/// Asks `reads` on the connection `ix`, which has just taken the place of theirs. They had been admitted there.
pub(crate) fn ask_again(cx: &mut Context, reads: Vec<Retry>, ix: LinkIx) {
    for Retry { ticket, request, .. } in reads {
        cx.stats.counters.reads_repeated += 1;
        cx.enqueue_again(ix, false, &request, ticket);
    }
}
