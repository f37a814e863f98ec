//! Links that may be dead without a sign: a firewall has forgotten the connection, or a cable was pulled. Requests on
//! such a link get no reply, although the node would reply on another link.
//!
//! ```text
//!   requests are in flight, and nothing has come for a quarter of their time
//!     └─► suspect ─► a fresh link ─► PONG ─► takes its place, and the reads in flight are sent again there
//!            └─ bytes come, or the fresh link fails: no change
//! ```
//!
//! The old link is not closed before one of its replies is late. A node may delay writes on purpose (CLIENT PAUSE, a
//! manual failover) and then answers there. Requests that the node may have carried out are never sent again. Only
//! reads are, once, and only of clients with nothing but reads in flight there. So no read sees less or more than its
//! place in the client's order allows. The same applies to reads whose link ended, if it was healthy.
//!
//! A client with a request that is sent again waits for the reply, so that nothing overtakes it. A link younger than a
//! second is not suspect. So a node gets at most one new link per second and worker for this reason.

use crate::ConnId;
use crate::context::Context;
use crate::event::Notice;
use crate::features::{Link, Owed, Owner, Retry, Session, TaskId, Ticket};
use crate::link::{LinkIx, Use, retire};
use crate::peers::{Peer, Peers};
use engine::retry::Why;
use std::collections::BTreeSet;

/// Makes a standby link to find out whether the node of the silent link `ix` lives.
pub(crate) fn suspect(cx: &mut Context, ix: LinkIx) {
    cx.engine.links[ix].suspect(cx.engine.now);
    let Link { shard, profile, node: id, .. } = cx.engine.links[ix];
    let greeting = cx.profiles.greeting(profile);
    cx.engine.add_link(Link::new((shard, id), Use::Standby, profile, greeting));
}

/// Puts the standby link `place`, on which the node has answered, in place of the suspect link, unless that one has
/// received bytes meanwhile.
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

/// Takes the reads that may be sent again from link `ix`, which has ended, if the next attempt to connect is made at
/// once.
pub(crate) fn take_reads_of_ended(cx: &mut Context, peers: &mut Peers, ix: LinkIx) -> Vec<Retry> {
    match cx.engine.links[ix].was_healthy(cx.engine.now, &cx.engine.limits) {
        true => take_reads(cx, peers, ix, Why::LinkFailed, |_| true),
        false => Vec::new(),
    }
}

/// Takes the reads that may be sent again for this reason from the shared link `ix`. Only those of clients that are
/// `fit`.
pub(crate) fn take_reads(
    cx: &mut Context,
    peers: &mut Peers,
    ix: LinkIx,
    why: Why,
    fit: impl Fn(&Session) -> bool,
) -> Vec<Retry> {
    let link = &cx.engine.links[ix];
    // The places of a client that has gone belong to nobody.
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
        // Not a tombstone of the client: its later requests need not wait.
        ticket.owner = Owner::Nobody;
    }
    reads
}

/// Whether the request of `ticket`, in flight on link `ix` for the place `owed`, may be sent again.
fn may_ask_again(cx: &Context, ix: LinkIx, ticket: &Ticket, owed: Owed) -> bool {
    ticket.owner == Owner::Client
        && Why::LinkFailed.next(ticket.kept).is_some()
        && cx.engine.links[ix].is_kept(ticket)
        && cx.engine.limits.over_at(ticket.deadline, cx.engine.limits.request_timeout) > cx.engine.now
        && matches!(owed, Owed::Node | Owed::Task(TaskId::Merge(_)))
}

/// Sends `reads` on link `ix`, which has just replaced theirs. They were admitted there.
pub(crate) fn ask_again(cx: &mut Context, reads: Vec<Retry>, ix: LinkIx) {
    for Retry { ticket, request, .. } in reads {
        cx.stats.counters.reads_repeated += 1;
        cx.enqueue_again(ix, false, &request, ticket);
    }
}
