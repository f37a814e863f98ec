//! Held links, which one client uses alone: while it watches keys for a transaction, and while it waits for an element.
//!
//! ```text
//!   WATCH ─► watching ── EXEC ──► the transaction goes out on it ── its reply ─┐
//!               ├── UNWATCH, DISCARD, RESET ──► UNWATCH goes out on it ── OK ──┼─► another client's
//!   BLPOP ─► waiting ── an element, the time is up, CLIENT UNBLOCK ────────────┘
//!               └── the client leaves ──► closed at once
//! ```
//!
//! A request on a held link must neither overtake the client's other requests nor be overtaken by them. Two connections
//! have no order between them. So the request is sent once all earlier ones are answered, and later ones are read once
//! it is answered. The worker still reads from a client that waits, so that it sees the client's end.
//!
//! If the client leaves while it waits, the link is closed at once and not used again: a late element must stay at its
//! node. If a link with watched keys is lost, the keys may have changed: EXEC is answered as if they had.
//!
//! A link goes to the next client only after all its requests are answered, with `UNWATCH` where keys may still be
//! watched.
//!
//! `CLIENT UNBLOCK` reaches the client's worker by mail. The worker asks the node by the node's number for the
//! connection. The node answers the waiting request over that connection, so an element that comes at the same moment
//! is not lost. The connection is closed afterwards, since a late CLIENT UNBLOCK would meet another client.

pub(crate) mod acknowledged;
pub(crate) mod entries;
pub(crate) mod fan;
pub(crate) mod losses;
pub(crate) mod streams;
pub(crate) mod watch;
pub(crate) mod watches;

use crate::context::Context;
use crate::errors::Lost;
use crate::features::{Asked, Owed, Owner, Session, TaskKind, Ticket};
use crate::held::fan::Fans;
use crate::held::watch::{Asking, Watch};
use crate::link::profile::Who;
use crate::link::{LinkIx, ProfileId, Use};
use crate::peers::{Peer, Peers};
use crate::redirect::declined::Aim;
use crate::session::Reason;
use crate::session::pinning::Pinning;
use resp::encode;
use std::time::Duration;
use topology::{NodeId, ShardId};

const CLIENT_ID: &[u8] = b"*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n";
const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";

impl Fans {
    /// Sends a declined request again to the node `id`, over another link for the session alone.
    pub(crate) fn hold_again(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        (aim, id): (Aim, NodeId),
        watches: bool,
        asks: bool,
        (request, ticket): (&[u8], Ticket),
    ) -> Result<(), Lost> {
        let ix = hold_on(cx, session, id)?;
        if let Aim::Slot(slot) = aim {
            cx.engine.links[ix].features.watched_slot = Some(slot);
        }
        match watches {
            true => session.features.watch = std::mem::take(&mut session.features.watch).add(ix),
            false => ask_name(cx, ix),
        }
        let request = if watches { request.into() } else { cx.shortened(request, ticket.deadline) };
        cx.enqueue_again(ix, asks, &request, ticket);
        match ticket.owner {
            // The whole request has a barrier already.
            Owner::Task(TaskKind::Fan) => self.note_part_sent(ticket.conn, ticket.part, ix),
            _ => session.hold.add(Reason::Order),
        }
        if !watches {
            set_waiting(cx, session, Some(ix));
            cx.engine.set_deadline(ix, ticket.deadline);
        }
        Ok(())
    }
}

/// Whether a request that must run alone may be sent now. If not, it is read again later.
pub(crate) fn is_alone(session: &mut Session) -> bool {
    if session.replies.is_pending() {
        debug_assert_eq!(session.pinning, Pinning::No, "who is pinned has one request pending at most");
        session.turn();
    }
    !session.replies.is_pending()
}

/// A link to `shard` for the session alone.
pub(crate) fn hold(cx: &mut Context, session: &Session, shard: ShardId) -> Result<LinkIx, Lost> {
    if cx.holders.conns >= cx.limits.held_conns_max {
        return Err(cx.engine.not_sent(shard, "too many clients hold a link of their own"));
    }
    let id = cx.primary_of(shard)?;
    hold_on(cx, session, id)
}

/// The same, to the node `id`.
fn hold_on(cx: &mut Context, session: &Session, id: NodeId) -> Result<LinkIx, Lost> {
    let ix = cx.own_link(session.profile, id)?;
    let shard = cx.shard_of_node(id);
    let link = &mut cx.engine.links[ix];
    link.used_by = Use::Held;
    link.features.held_by = Some(session.conn);
    (link.shard, link.features.watched_slot) = (shard, None);
    cx.holders.conns += 1;
    Ok(ix)
}

/// Sends a request on a link that the session holds. Nothing behind it is read before it is answered.
pub(crate) fn send_held(cx: &mut Context, session: &mut Session, ix: LinkIx, bytes: &[u8], owed: Owed) {
    let place = session.replies.reserve(owed);
    cx.engine.enqueue_on(ix, bytes, Asked::by_client(session.conn, place));
    session.hold.add(Reason::Order);
}

/// Sends a request to one shard. The reply may come `patience` later than others.
pub(crate) fn wait_on(
    cx: &mut Context,
    session: &mut Session,
    shard: ShardId,
    bytes: &[u8],
    patience: Duration,
) {
    let node = match hold(cx, session, shard) {
        Ok(node) => node,
        Err(lost) => return cx.refuse(session, &lost.text()),
    };
    // A waiting client must not have a permit for large transfers.
    cx.unpin(session);
    ask_name(cx, node);
    send_held(cx, session, node, bytes, Owed::Node);
    set_waiting(cx, session, Some(node));
    cx.engine.set_deadline(node, cx.engine.now + cx.engine.limits.request_timeout + patience);
}

/// Asks the node for its number of the connection, in one write with the request behind it. The reply tells how to
/// unblock that request. It also shows that the node has the request: users who see a client blocked rely on it.
pub(crate) fn ask_name(cx: &mut Context, ix: LinkIx) {
    let asked = Asked { owner: Owner::Task(TaskKind::Name), ..Asked::by_nobody() };
    cx.engine.links[ix].features.name.ask();
    cx.engine.enqueue_on(ix, CLIENT_ID, asked);
}

/// Ends the watch of the session's keys. Its transaction, if there is one, is dropped.
pub(crate) fn end_watch(cx: &mut Context, session: &mut Session) {
    match std::mem::take(&mut session.features.watch) {
        Watch::On(node) => unwatch_on(cx, node),
        Watch::Several(watches) => watches.all().for_each(|node| unwatch_on(cx, node)),
        Watch::No | Watch::Asked(_) | Watch::Ending(_) | Watch::Lost => {}
    }
}

/// Ends the watch on the link. No client holds the link any more.
pub(crate) fn unwatch_on(cx: &mut Context, ix: LinkIx) {
    cx.engine.links[ix].features.held_by = None;
    cx.engine.enqueue_on(ix, UNWATCH, Asked::by_nobody());
}

/// Closes the links that a client holds, since it leaves.
pub(crate) fn let_holds_go(cx: &mut Context, session: &mut Session) {
    let watching = match std::mem::take(&mut session.features.watch) {
        Watch::Asked(node) | Watch::On(node) | Watch::Ending(node) => Some(node),
        Watch::Several(watches) => {
            cx.pins.doomed.extend(watches.all());
            None
        }
        Watch::No | Watch::Lost => None,
    };
    let waiting = session.wait.on;
    set_waiting(cx, session, None);
    cx.pins.doomed.extend(watching.into_iter().chain(waiting));
}

/// Sets or ends the session's wait.
pub(crate) fn set_waiting(cx: &mut Context, session: &mut Session, node: Option<LinkIx>) {
    session.wait.on = node;
    if std::mem::take(&mut session.wait.is_seen) {
        cx.stats.counters.clients_blocked -= 1;
        cx.board.publish_clients(cx.settings.worker, &cx.stats.counters);
    }
}

/// Shows that the session waits, since the node has its request.
pub(crate) fn show_waiting(cx: &mut Context, session: &mut Session) {
    if !std::mem::replace(&mut session.wait.is_seen, true) {
        cx.stats.counters.clients_blocked += 1;
        cx.board.publish_clients(cx.settings.worker, &cx.stats.counters);
    }
    if session.paused {
        // Reading stopped when its keys were looked at first. Its end must be seen, or it would take an element.
        cx.engine.todo.clients_to_resume.push(session.conn);
    }
}

/// Unblocks the client that waits on link `ix`: its request is answered as after a timeout. Does nothing if the node
/// has not yet reported its number for the connection.
pub(crate) fn end_wait(cx: &mut Context, ix: LinkIx) {
    let link = &mut cx.engine.links[ix];
    let (profile, id) = (link.profile, link.node);
    let Some(name) = link.features.name.known() else { return };
    if ask_to_unblock(cx, (profile, id), name, false, Asked::by_nobody()) {
        cx.engine.links[ix].features.is_sought = true;
    }
}

/// Asks the node `id` to unblock the client on the connection that the node calls `name`. If the nodes decide about
/// users, it is asked as the user of `profile`. Returns false if it cannot be asked.
pub(crate) fn ask_to_unblock(
    cx: &mut Context,
    (profile, id): (ProfileId, NodeId),
    name: i64,
    by_error: bool,
    asked: Asked,
) -> bool {
    let shared = match cx.profiles.kind(profile).who {
        Who::Client(_) => cx.link_in(profile, id).ok(),
        Who::Pool | Who::Nobody => cx.profiles.link(ProfileId::FIRST, id),
    };
    let Some(ix) = shared.filter(|&ix| cx.admit_on(ix).is_ok()) else { return false };
    let reason: &[u8] = if by_error { b"ERROR" } else { b"TIMEOUT" };
    let mut digits = itoa::Buffer::new();
    let mut bytes = cx.engine.pool.take();
    encode::request(&mut bytes, &[b"CLIENT", b"UNBLOCK", digits.format(name).as_bytes(), reason]);
    cx.engine.enqueue_on(ix, &bytes, asked);
    cx.engine.pool.give(bytes);
    true
}

/// Ends the request of `session` on link `ix`, which was answered with `reply`, or lost. `None` if the session goes on
/// holding the link. Else whether another client may have it.
pub(crate) fn end_request(
    cx: &mut Context,
    session: &mut Session,
    ix: LinkIx,
    reply: Option<&[u8]>,
) -> Option<bool> {
    session.hold.remove(Reason::Order);
    cx.engine.todo.clients_to_resume.push(session.conn);
    if session.wait.on == Some(ix) {
        set_waiting(cx, session, None);
        return Some(true);
    }
    let failed = reply.is_none_or(resp::reply::is_error);
    let has_lost_keys = cx.engine.links[ix].features.has_lost_keys;
    let watch = match std::mem::take(&mut session.features.watch).end_asking(ix, failed, has_lost_keys) {
        Asking::NotIt(watch) => watch,
        Asking::Ended(watch, left) => {
            session.features.watch = watch;
            if left == Some(false) {
                watches::lose_watches(cx, session, ix);
            }
            return left;
        }
    };
    let (watch, left) = match watch {
        Watch::Asked(held) if held == ix && failed => (Watch::No, Some(true)),
        Watch::Asked(held) if held == ix && has_lost_keys => (Watch::Lost, Some(false)),
        Watch::Asked(held) if held == ix => (Watch::On(ix), None),
        // Keys stay watched after an EXEC that was not even discarded.
        Watch::Ending(held) if held == ix => {
            let ended = !failed || reply.is_some_and(|reply| reply.starts_with(b"-EXECABORT "));
            (Watch::No, Some(ended))
        }
        watch => (watch, None),
    };
    session.features.watch = watch;
    left
}

/// Returns a held link. If all its requests are answered, the next client may have it, else it is closed.
pub(crate) fn return_held(cx: &mut Context, ix: LinkIx) {
    let link = &mut cx.engine.links[ix];
    if link.features.is_unblocked {
        // The link waits for that reply.
        return;
    }
    if !link.is_clean() || link.features.is_sought || link.features.is_altered {
        return cx.pins.doomed.push(ix);
    }
    link.used_by = Use::Pinned;
    link.features.has_lost_keys = false;
    cx.holders.conns -= 1;
    cx.give_back(ix);
}

/// Notes `reply` to `ticket` on the held link `ix`. To be called before delivery.
pub(crate) fn note_held_reply(
    cx: &mut Context,
    peers: &mut Peers,
    ix: LinkIx,
    ticket: &Ticket,
    reply: &[u8],
) {
    if ticket.is_of_client() {
        let Some(Peer::Client(session)) = peers.get_mut(ticket.conn) else { return };
        match end_request(cx, session, ix, Some(reply)) {
            None => return,
            Some(true) => cx.engine.links[ix].features.held_by = None,
            Some(false) => return cx.pins.doomed.push(ix),
        }
    }
    // No client waits for the reply to UNWATCH. But if the reply is an error, keys may still be watched.
    let link = &mut cx.engine.links[ix];
    if link.features.held_by.is_none() {
        link.features.is_altered |= resp::reply::is_error(reply) && !ticket.is_of_client();
        // A client may still wait for a reply: WATCH was sent behind ASKING, and then another watch was lost.
        if link.in_flight() == 0 {
            return_held(cx, ix);
        }
    }
}
