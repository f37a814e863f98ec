//! Retires a shared link on which too many bytes were skipped. New requests use a fresh link. They do not wait for the
//! large replies that are still to come on the old one.
//!
//! ```text
//!   a reply that is too large begins, or the last of many ──► retired: a fresh link takes its place
//!     ├─ reads in flight behind it, of clients that usually get small replies ──► sent again on the fresh one, once;
//!     │                                                                   reads of a replica, to its primary
//!     ├─ no other client waits for a reply on it then ──► it becomes the pinned link of the large reply's client, or
//!     │                                               is closed, if that client has gone or there is no permit
//!     └─ else ──► the bytes are skipped as fast as they come, and the others are answered there;
//!                 the large reply is fetched again afterwards, since both would share the node and the network
//! ```
//!
//! `suspect.rs` decides which reads may be sent again. The worker does not read from a client with a request in flight
//! on a retired link: its next request must not overtake.
//!
//! A link is retired if a reply of more than 1 MiB comes on it. It is also retired if more than that was skipped within
//! a second ([`engine::limits::Limits::pass_over_bytes_max`]). `INFO stats` counts `total_conns_retired`.
//!
//! A read that is sent again gets a new timeout. Writes are never sent twice. Nor are reads of a client that usually
//! gets large replies. For their sake, the large reply is skipped first and fetched again afterwards.

use crate::ConnId;
use crate::context::Context;
use crate::errors::Lost;
use crate::features::{Link, Owner, TaskKind, Ticket};
use crate::link::pins::Refetch;
use crate::link::{LinkIx, Unfinished, Use, suspect};
use crate::outcome::Effect;
use crate::peers::{Peer, Peers};
use crate::reading::replicas;
use crate::session::{Reason, is_behind};
use crate::walk;
use engine::retry::Why;

/// Retires link `ix` if many share it and replies for one client would delay the others for too long. If no client
/// waits for a reply on it, it is then closed.
pub(crate) fn unclog(cx: &mut Context, peers: &mut Peers, ix: LinkIx) {
    let place = retire_if_clogged(cx, peers, ix);
    close_if_abandoned(cx, place);
}

/// Handles a large reply for a client on link `ix`. The client's requests there, `refetches`, are sent again on a
/// pinned link, and the replies here are skipped. If no other client waits on the retired link, it becomes the pinned
/// link itself.
pub(crate) fn refetch(cx: &mut Context, peers: &mut Peers, ix: LinkIx, refetches: Vec<Refetch>) {
    walk::enter("refetch");
    let Some(conn) = refetches.first().map(|refetch| refetch.retry.ticket.conn) else { return };
    let is_ours = |ticket: &&mut Ticket| ticket.conn == conn && ticket.owner == Owner::Client;
    cx.engine.links[ix].tickets_mut().filter(is_ours).for_each(Ticket::discard);
    let place = retire_if_clogged(cx, peers, ix);
    if leave_to_client(cx, peers, place, conn, &refetches) {
        return;
    }
    if let Some(Peer::Client(session)) = peers.get_mut(conn) {
        cx.add_refetches(session, refetches);
    }
    cx.engine.links[place].pass_over(&mut cx.engine.pool);
    close_if_abandoned(cx, place);
    send_refetches_of(cx, peers, conn);
}

/// Makes the retired link `ix` the pinned link of client `conn`, which waits for `refetches`. Their replies must come
/// first there, and no client may wait for others.
fn leave_to_client(
    cx: &mut Context,
    peers: &mut Peers,
    ix: LinkIx,
    conn: ConnId,
    refetches: &[Refetch],
) -> bool {
    let link = &cx.engine.links[ix];
    let is_ours = |ticket: &&Ticket| ticket.conn == conn && ticket.is_of_client();
    let starts = link.tickets().take_while(is_ours).map(|ticket| ticket.start);
    let come_first = starts.eq(refetches.iter().map(|refetch| refetch.retry.ticket.start))
        && link.tickets().filter(is_ours).count() == refetches.len();
    // A redirect may have brought parts of one request together, which are passed on side by side.
    let are_in_order =
        refetches.windows(2).all(|pair| is_behind(pair[1].retry.ticket.place, pair[0].retry.ticket.place));
    if link.used_by != Use::Retired || !come_first || !are_in_order || !is_abandoned(link) {
        return false;
    }
    let tickets: Vec<Ticket> = link.tickets().copied().collect();
    let shard = cx.engine.shard_name(link.shard).to_owned();
    let Some(Peer::Client(session)) = peers.get_mut(conn) else { return false };
    if !cx.leave_to(session, ix) {
        return false;
    }
    let link = &mut cx.engine.links[ix];
    link.take_for_one();
    for (number, ticket) in link.tickets_mut().enumerate() {
        ticket.owner = refetches.get(number).map_or(Owner::Nobody, |_| Owner::Client);
    }
    for ticket in tickets {
        lift_barrier(cx, peers, ticket);
        if ticket.owner == Owner::Task(TaskKind::Poll) {
            let lost = Lost::Broken { shard: shard.clone() };
            cx.effects.push_back(Effect::Lose(ticket, lost));
        }
    }
    true
}

/// Retires link `ix` if it is clogged. Returns its new index.
fn retire_if_clogged(cx: &mut Context, peers: &mut Peers, ix: LinkIx) -> LinkIx {
    let link = &cx.engine.links[ix];
    let bytes = match link.incoming.unfinished {
        Unfinished::Skipped => link.incoming.passed_over_bytes + link.bytes_announced(),
        Unfinished::Held(_) if link.holds_reply() => link.bytes_announced(),
        Unfinished::Held(_) | Unfinished::Waits | Unfinished::Elements(_) => 0,
    };
    let is_shared = matches!(link.used_by, Use::Shared | Use::Replica);
    if is_shared && bytes > cx.engine.limits.pass_over_bytes_max { retire(cx, peers, ix) } else { ix }
}

fn retire(cx: &mut Context, peers: &mut Peers, ix: LinkIx) -> LinkIx {
    // The replica was fit when the reads came. It may not be fit when it takes another connection.
    let why = match cx.engine.links[ix].used_by {
        Use::Replica => Why::ReplicaFailed,
        _ => Why::LinkFailed,
    };
    // Other clients' replies may be as large, and the node would do all of the work twice.
    let mut reads = suspect::take_reads(cx, peers, ix, why, |session| session.replies.expects_little());
    // The node worked for another client, and may do so for a while.
    let deadline = cx.engine.now + cx.engine.limits.request_timeout;
    reads.iter_mut().for_each(|read| read.ticket.deadline = deadline);
    let Link { profile, node: id, .. } = cx.engine.links[ix];
    let place = cx.unused_link(profile, id);
    replace(cx, peers, ix, place, Use::Retired);
    cx.stats.counters.retirements += 1;
    match why {
        Why::ReplicaFailed => replicas::ask_primary(cx, reads),
        _ => suspect::ask_again(cx, reads, ix),
    }
    cx.engine.recount_link(ix);
    place
}

/// Ends the barrier of `ticket`, which was in flight on a retired link. If its reply was skipped, the request is sent
/// again now.
pub(crate) fn lift_barrier(cx: &mut Context, peers: &mut Peers, ticket: Ticket) {
    if ticket.is_of_client()
        && let Some(Peer::Client(session)) = peers.get_mut(ticket.conn)
    {
        session.hold.remove(Reason::Order);
        if !session.hold.has(Reason::Order) {
            cx.engine.todo.clients_to_resume.push(ticket.conn);
        }
        send_refetches_of(cx, peers, ticket.conn);
    }
}

/// Sends the refetches of `conn`, if it may.
pub(crate) fn send_refetches_of(cx: &mut Context, peers: &mut Peers, conn: ConnId) {
    if let Some(Peer::Client(session)) = peers.get_mut(conn) {
        let lost = cx.send_refetches(session);
        cx.effects.extend(lost.into_iter().map(|(ticket, lost)| Effect::Lose(ticket, lost)));
    }
}

/// Closes the retired link `ix` if no client waits for a reply on it.
fn close_if_abandoned(cx: &mut Context, ix: LinkIx) {
    let link = &cx.engine.links[ix];
    if link.used_by == Use::Retired && is_abandoned(link) {
        cx.pins.doomed.push(ix);
    }
}

/// Swaps the shared link `ix` with the one at `place`. The use of the old one becomes `heirs`.
pub(crate) fn replace(cx: &mut Context, peers: &mut Peers, ix: LinkIx, place: LinkIx, heirs: Use) {
    cx.engine.links.swap(ix, place);
    let old = &mut cx.engine.links[place];
    let used_by = std::mem::replace(&mut old.used_by, heirs);
    let (reported, loaded) = (old.attempts.reported, std::mem::take(&mut old.features.loaded));
    let fresh = &mut cx.engine.links[ix];
    fresh.used_by = used_by;
    (fresh.attempts.reported, fresh.features.loaded) = (reported, loaded);
    cx.stats.counters.nodes_up -= u64::from(fresh.stands_for_node() && !fresh.is_ready());
    cx.engine.links[place].outgoing.listed = false;
    cx.engine.links[ix].outgoing.listed = false;
    for index in [ix, place] {
        if let Some(conn) = cx.engine.links[index].conn()
            && let Some(peer) = peers.get_mut(conn)
        {
            *peer = Peer::Link(index);
        }
        cx.engine.list_link(index);
    }
    raise_barriers(cx, peers, place);
    cx.engine.check_at = cx.engine.now;
}

/// Keeps the clients of requests in flight on link `ix` from overtaking them.
pub(crate) fn raise_barriers(cx: &mut Context, peers: &mut Peers, ix: LinkIx) {
    for ticket in cx.engine.links[ix].tickets().filter(|ticket| ticket.is_of_client()) {
        if let Some(Peer::Client(session)) = peers.get_mut(ticket.conn) {
            session.hold.add(Reason::Order);
        }
    }
}

/// Puts a link without requests in flight to another use. A retired link can serve large transfers, unless its node has
/// lost its role. A standby link whose node has answered replaces the suspect one.
pub(crate) fn reuse_retired(cx: &mut Context, peers: &mut Peers, ix: LinkIx) {
    let link = &mut cx.engine.links[ix];
    match link.used_by {
        Use::Retired if link.is_clean() => {
            link.used_by = Use::Pinned;
            cx.give_back(ix);
        }
        Use::Draining if link.is_clean() => cx.pins.doomed.push(ix),
        Use::Standby if link.is_ready() => suspect::use_standby(cx, peers, ix),
        _ => {}
    }
}

/// Whether every request in flight on it is a read whose reply will be dropped.
pub(crate) fn is_abandoned(link: &Link) -> bool {
    link.tickets().all(|ticket| match ticket.owner {
        Owner::Late | Owner::Nobody => ticket.kept.is_read(),
        // The question is asked again later.
        Owner::Task(TaskKind::Poll) => true,
        _ => false,
    })
}
