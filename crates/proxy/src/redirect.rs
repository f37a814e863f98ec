//! Requests that a node has declined, because the keys are elsewhere or cannot be reached at the moment. shardis
//! sends them to the node with the keys, or tries again. Clients never see MOVED or ASK.
//!
//! ```text
//!   MOVED to a known node ─────────► sent there                               ┐ and shardis asks discovery
//!   ASK ───────────────────────────► sent there, behind ASKING                │ for a newer topology
//!   MOVED to an unknown node ──────► retry queue, until the next topology     ┘
//!   TRYAGAIN, CLUSTERDOWN, LOADING, READONLY … ──► retry queue: tried every few ms, and with the next topology
//!   link is given up before the request is sent ─► retry queue: sent with the next topology that has its primary
//!   time is up, or too many redirects ───────────► TRYAGAIN: the request did not run and may be repeated
//! ```
//!
//! All of these errors say that the request did not run, so shardis may repeat writes too. The link keeps the bytes
//! of a request until it is answered ([`engine::link::kept::Kept`]). Only a script may return such an error after it
//! has run. Such a script runs again, a few times. A new topology may have no use for a link (`topology_update.rs`).
//! Requests that wait for such a link have not run either, and go the same way.
//!
//! Requests of one client stay in order: the node declines those of one slot one after the other. shardis sends them
//! again in that order. A node may decline one request and run the next ([`Behind`]): it gets its slot back, or becomes a
//! primary again. So the first one waits for the replies to the later ones that are in flight to this node. It is refused
//! if one of them may have run. While a request waits in the retry queue, the worker
//! reads nothing more from its client.
//!
//! A request is refused after five redirects, when its time is up (`TRYAGAIN`), or when its bytes cannot be kept. A
//! demoted primary declines a write (READONLY) but answers reads with its old data. So the write is repeated only if
//! no read is behind it.
//!
//! A transaction is kept as a whole (`Replay`). If it is discarded because a command of it was declined, it is sent
//! again. With watched keys it is not sent again: EXEC says that they have changed. A request that waits for an
//! element waits again at the slot's new node. A script is loaded where it goes. Large requests are held until they
//! are complete, since half a request cannot be sent again.
//!
//! A cluster wants all keys of a request in one slot. shardis splits requests by slots and not by shards, gathers the
//! parts in one write for each node, and merges the replies as usual. A request that cannot be split gets
//! `CROSSSLOT`, even if one node has both slots. [`topology::Topology::division_of`] is the slot in a cluster and the
//! shard elsewhere.

pub(crate) mod declined;
pub(crate) mod in_flight;
pub(crate) mod kept;
pub(crate) mod notes;
pub(crate) mod queue;

use crate::ConnId;
use crate::context::Context;
use crate::core::Core;
use crate::errors::{self, Lost};
use crate::features::{Asked, Link, Owed, Owner, Retry, Session, TaskId, TaskKind, Ticket};
use crate::held;
use crate::held::watch::Watch;
use crate::link::{LinkIx, Use, retire};
use crate::outcome::Outcome;
use crate::peers::{Peer, Peers};
use crate::proxy::Proxy;
use crate::reading::replicas::{is_turned_away, note_sent_elsewhere};
use crate::redirect::declined::{ASKING, Aim, Behind, Declined, Effect};
use crate::redirect::in_flight::Found;
use crate::redirect::notes::Notes;
use crate::redirect::queue::{PARKED_BYTES_MAX, RETRY_AFTER, Stray, is_ahead};
use crate::scripts;
use crate::session::pinning::Pinning;
use crate::session::{Phase, Reason, is_behind};
use crate::transaction::queued::Held;
use crate::walk;
use engine::retry::Why;
use resp::encode;
use std::collections::BTreeSet;
use stdx::{Id, Instant};
use topology::discovery::Wish;
use topology::{Address, NodeId, ShardId};

/// The fate of the later requests of a declined one.
enum Fate {
    /// All were declined as well, or failed.
    Declined,
    /// Some are in flight.
    Open,
    /// At least one may have run.
    Run,
}

impl Proxy {
    /// Handles `reply`, an error, if it declines the first request on the link `ix`. Returns whether it does.
    #[cold]
    pub(crate) fn redirect(&mut self, ix: LinkIx, reply: &[u8]) -> bool {
        walk::enter("redirect");
        let core = &mut self.core;
        let Some(&ticket) = core.cx.engine.links[ix].front() else { return false };
        if core.cx.engine.links[ix].used_by == Use::Replica && is_turned_away(&ticket, reply) {
            // The primary is asked: see `replicas.rs`.
            return false;
        }
        let declined = core.cx.declined_by(ix, reply);
        match ticket.owner {
            Owner::Queued => {
                // EXEC will say only that the transaction was discarded. The reason is needed then.
                if let (Some(replay), Some(declined)) = (core.execs.replays.get_mut(ticket.conn), declined) {
                    replay.declined.get_or_insert(declined);
                }
                return false;
            }
            Owner::Task(TaskKind::Fan) if core.fans.needs_each_node(ticket.conn) => {
                declined.iter().for_each(|declined| core.cx.note_declined(declined));
                return false;
            }
            Owner::Client
            | Owner::Task(TaskKind::Emulation)
            | Owner::Task(TaskKind::Fan)
            | Owner::Task(TaskKind::Execution) => {}
            _ => return false,
        }
        let owed = match self.peers.get(ticket.conn) {
            Some(Peer::Client(session)) if ticket.owner == Owner::Client => {
                session.replies.owed(ticket.place)
            }
            _ => core.execs.replay_of_part(&ticket).map(TaskId::Replay).map(Owed::Task),
        };
        let declined = match owed {
            Some(Owed::Task(TaskId::Replay(id))) => {
                let of_exec = core.execs.replays.get_mut(id).and_then(|replay| replay.declined.take());
                declined.or(of_exec.filter(|_| reply.starts_with(b"-EXECABORT ")))
            }
            _ => declined,
        };
        let Some(declined) = declined else {
            note_failed(&mut core.cx, ix, &ticket);
            return false;
        };
        if matches!(ticket.owner, Owner::Client | Owner::Task(TaskKind::Execution)) && owed.is_none() {
            return false;
        }
        core.cx.note_declined(&declined);
        if let Declined::Moved { slot, .. } | Declined::Ask { slot, .. } = declined {
            // A key that did not exist is not touched when its slot moves, so the node would still call it unchanged.
            let node = core.cx.engine.links[ix].node;
            let is_of_slot = |link: &Link| link.node == node && link.features.watched_slot == Some(slot);
            self.end_watches(|other, link| other != ix && is_of_slot(link));
        }
        let core = &mut self.core;
        if let Some(Owed::Task(TaskId::Replay(id))) = owed
            && let Some(held) = core.execs.replays.get(id).and_then(|replay| replay.held)
        {
            self.answer_held(ix, ticket, held, reply);
            return true;
        }
        let stray = self.take_stray(ix, ticket, owed, reply, &declined);
        match stray {
            Ok(stray) => self.redirect_stray(stray, declined),
            Err(reason) => {
                let shard = self.core.cx.engine.links[ix].shard;
                let lost = self.core.cx.engine.not_sent(shard, &reason);
                self.deliver(ticket, Outcome::Lost(lost));
            }
        }
        true
    }

    /// Answers a declined transaction that went over a held link. With watched keys, nobody knows whether they have
    /// changed, so EXEC returns null as if they had. Else the client gets an error.
    fn answer_held(&mut self, ix: LinkIx, ticket: Ticket, held: Held, reply: &[u8]) {
        let lost = self.core.cx.engine.not_sent(self.core.cx.engine.links[ix].shard, errors::REDIRECTED);
        self.core.cx.engine.links[ix].pop();
        if held == Held::Altered {
            held::note_held_reply(&mut self.core.cx, &mut self.peers, ix, &ticket, reply);
            return self.deliver(ticket, Outcome::Lost(lost));
        }
        let resp3 = match self.peers.get(ticket.conn) {
            Some(Peer::Client(session)) if ticket.owner == Owner::Client => session.resp3,
            _ => false,
        };
        let mut reply = Vec::new();
        encode::null_array(&mut reply, resp3);
        let reply = &reply[..];
        held::note_held_reply(&mut self.core.cx, &mut self.peers, ix, &ticket, reply);
        self.deliver(ticket, Outcome::Reply(reply));
    }

    /// Takes a declined request off its link. Returns an error if it cannot be sent again.
    fn take_stray(
        &mut self,
        ix: LinkIx,
        ticket: Ticket,
        owed: Option<Owed>,
        reply: &[u8],
        declined: &Declined,
    ) -> Result<Stray, String> {
        let core = &mut self.core;
        let link = &core.cx.engine.links[ix];
        let (profile, shard, used_by) = (link.profile, link.shard, link.used_by);
        let (request, aim) = core.request_again((ix, 0), owed);
        let aim = match declined {
            Declined::Moved { slot, .. } | Declined::Ask { slot, .. } => Aim::Slot(*slot),
            Declined::Later | Declined::NoPrimary => aim,
        };
        let node = link.node;
        let effect = request.as_ref().map_or(Effect::Unknown, |request| core.cx.effect_of(request));
        let later = match declined.behind() {
            Behind::OtherKeys => Some(0),
            Behind::Nothing => Some(later_on(&mut core.cx, (&ticket, effect), node, aim)),
            behind => core.cx.later_to_decline(&ticket, aim, behind),
        };
        core.cx.engine.links[ix].pop();
        let mut watches = false;
        match used_by {
            Use::Retired | Use::Draining => retire::lift_barrier(&mut self.core.cx, &mut self.peers, ticket),
            Use::Held if ticket.owner == Owner::Task(TaskKind::Fan) => {
                self.core.fans.park_part(&mut self.core.cx, &mut self.peers, ticket.conn, ticket.part)
            }
            Use::Held => {
                watches = watches_on(&self.peers, ix, ticket.conn);
                held::note_held_reply(&mut self.core.cx, &mut self.peers, ix, &ticket, reply);
            }
            Use::Shared | Use::Replica | Use::Pinned | Use::Subscription | Use::Standby => {}
        }
        // EXEC says only that the transaction was discarded. The reason is in the reply to one of its commands.
        let refused = match owed {
            Some(Owed::Task(TaskId::Replay(id))) => {
                self.core.execs.replays.get_mut(id).and_then(|replay| replay.refused.take())
            }
            _ => None,
        };
        let reason = declined.reason(refused.as_deref().unwrap_or(reply));
        match (request, later) {
            (Some(request), Some(later)) => {
                let retry_at = Instant::NEVER;
                let retry = Retry { ticket, request, profile, shard };
                Ok(Stray { retry, used_by, watches, aim, later, to: None, reason, retry_at })
            }
            _ => Err(reason),
        }
    }

    /// Queues requests for a retry that waited for a link to the node `left`, which is gone. Requests that cannot be
    /// sent elsewhere are `lost`.
    pub(crate) fn park_unsent(&mut self, left: NodeId, unsent: Vec<(Ticket, Option<Stray>)>, lost: &Lost) {
        let busy = if unsent.is_empty() { BTreeSet::new() } else { self.core.cx.clients_in_flight() };
        for (ticket, stray) in unsent {
            // Requests of the client behind this one, for the same slot, are declined by their node and redirected to
            // `left`. A request that went anywhere else would be overtaken by them.
            let is_overtaken = |core: &mut Core, stray: &Stray| {
                core.cx.owner_of(stray.aim) != Some(left)
                    && busy.contains(&ticket.conn)
                    && core.cx.later_to_decline(&ticket, stray.aim, Behind::Anything).is_none()
            };
            match stray {
                Some(stray) if !is_overtaken(&mut self.core, &stray) => self.park(stray),
                _ => self.deliver(ticket, Outcome::Lost(lost.clone())),
            }
        }
    }

    /// Sends a request to the node of its keys, or queues it for a retry.
    fn redirect_stray(&mut self, mut stray: Stray, declined: Declined) {
        let core = &self.core;
        if stray.retry.ticket.owner == Owner::Task(TaskKind::Fan)
            && core.client_of(&stray.retry.ticket).is_none()
        {
            // Other parts were answered, so this one is not needed any more.
            return self.give_up(stray);
        }
        let (address, asks) = match &declined {
            Declined::Moved { address, .. } => (Some(address), false),
            Declined::Ask { address, .. } => (Some(address), true),
            Declined::Later | Declined::NoPrimary => (None, false),
        };
        let Some(address) = address else {
            stray.retry_at = core.cx.engine.now + RETRY_AFTER;
            return self.park(stray);
        };
        let Some(kept) = Why::NotRun.next(stray.retry.ticket.kept) else { return self.give_up(stray) };
        stray.retry.ticket.kept = kept;
        if stray.retry.ticket.deadline <= core.cx.engine.now {
            // The node was slow but not silent. The request has used its time there, and gets the same time for each
            // redirect.
            stray.retry.ticket.deadline = core.cx.engine.now + core.cx.engine.limits.request_timeout;
        }
        let id = core.cx.engine.topology.node_at(address);
        if stray.later > 0 && id.is_some() {
            stray.to = id;
            stray.retry_at = core.cx.engine.now + RETRY_AFTER;
            return self.park(stray);
        }
        let (ticket, aim) = (stray.retry.ticket, stray.aim);
        self.send_in_turn(stray, id, asks);
        self.core.cx.retry_queue.hasten(&ticket, aim, self.core.cx.engine.now);
    }

    /// Sends `stray` to the node `id`. The request waits in the retry queue until earlier ones are answered. Without
    /// a known node, it waits for a newer topology.
    fn send_in_turn(&mut self, stray: Stray, id: Option<NodeId>, asks: bool) {
        match id {
            Some(id) if would_overtake(&mut self.core.cx, &self.peers, &stray, id) => {
                let retry_at = self.core.cx.engine.now + RETRY_AFTER;
                self.park(Stray { retry_at, to: (!asks).then_some(id), ..stray });
            }
            Some(id) => self.send_stray(stray, id, asks),
            None => self.park(Stray { retry_at: Instant::NEVER, ..stray }),
        }
    }

    /// Queues a request for a retry. Meanwhile the worker does not read the next requests of its client.
    fn park(&mut self, stray: Stray) {
        let core = &mut self.core;
        if core.cx.retry_queue.bytes + stray.retry.request.len() > PARKED_BYTES_MAX {
            return self.give_up(stray);
        }
        if let Some(Peer::Client(session)) = self.peers.get_mut(stray.retry.ticket.conn)
            && stray.retry.ticket.is_of_client()
        {
            session.hold.add(Reason::Order);
        }
        core.cx.retry_queue.add(stray);
        core.cx.recount_parked();
    }

    /// Sends the requests that are due, or all if there is a new topology. A request whose time is up gets an error.
    /// Also retries the topics (`homes.rs`) that are due.
    pub(crate) fn retry_parked(&mut self, all: bool) {
        let now = self.core.cx.engine.now;
        let is_due = |stray: &Stray| all || stray.retry_at <= now || stray.retry.ticket.deadline <= now;
        let fates = fates(&mut self.core.cx, is_due);
        for (stray, fate) in self.core.cx.retry_queue.take_all().zip(fates) {
            let Some(fate) = fate else {
                self.core.cx.retry_queue.add(stray);
                continue;
            };
            if stray.retry.ticket.is_of_client() {
                retire::lift_barrier(&mut self.core.cx, &mut self.peers, stray.retry.ticket);
            }
            // Nodes do not stay where they are in a new topology.
            let to = stray.to.filter(|_| !all).or_else(|| self.core.cx.owner_of(stray.aim));
            if stray.retry.ticket.deadline <= now {
                self.give_up_unless_it_waits(stray, to);
                continue;
            }
            match fate {
                Fate::Declined => self.send_in_turn(stray, to, false),
                Fate::Open => self.park(Stray { retry_at: now + RETRY_AFTER, ..stray }),
                Fate::Run => self.give_up(Stray { reason: errors::OVERTAKEN.to_owned(), ..stray }),
            }
        }
        let topics_due_at = self.core.subscriptions.retry_topics(&mut self.core.cx, &mut self.peers);
        self.core.cx.retry_queue.due_at = self.core.cx.retry_queue.due_at.min(topics_due_at);
        self.core.cx.recount_parked();
    }

    /// Gives up a request whose time is over. Its time begins again if it waits for an earlier request. The client may read
    /// the earlier reply slowly.
    fn give_up_unless_it_waits(&mut self, mut stray: Stray, to: Option<NodeId>) {
        let now = self.core.cx.engine.now;
        match to {
            Some(id) if is_behind_unanswered(&mut self.core.cx, &self.peers, &stray, id) => {
                stray.retry.ticket.deadline = now + self.core.cx.engine.limits.request_timeout;
                self.park(Stray { retry_at: now + RETRY_AFTER, ..stray });
            }
            _ => self.give_up(stray),
        }
    }

    /// Answers that the request did not run.
    fn give_up(&mut self, stray: Stray) {
        let core = &self.core;
        let shard = core.cx.shard_of(stray.aim);
        let lost = core.cx.engine.not_sent(shard, &stray.reason);
        self.core.cx.stats.counters.timeouts +=
            u64::from(stray.retry.ticket.deadline <= self.core.cx.engine.now);
        self.deliver(stray.retry.ticket, Outcome::Lost(lost));
    }

    /// Sends a request to the node `id`, in its place in the client's order.
    fn send_stray(&mut self, stray: Stray, id: NodeId, asks: bool) {
        let ticket = stray.retry.ticket;
        if let Err(lost) = self.try_to_send(&stray, id, asks) {
            self.deliver(ticket, Outcome::Lost(lost));
        }
        self.core.cx.engine.pool.give(stray.retry.request);
    }

    fn try_to_send(&mut self, stray: &Stray, id: NodeId, asks: bool) -> Result<(), Lost> {
        let core = &mut self.core;
        let Retry { ticket, profile, .. } = stray.retry;
        let mut session = match core.client_of(&ticket).and_then(|conn| self.peers.get_mut(conn)) {
            Some(Peer::Client(session)) => Some(session),
            // The client has gone.
            _ if matches!(ticket.owner, Owner::Client | Owner::Task(TaskKind::Fan)) => return Ok(()),
            _ => None,
        };
        let owed = match &session {
            Some(session) => session.replies.owed(ticket.place),
            None => core.execs.replay_of_part(&ticket).map(TaskId::Replay).map(Owed::Task),
        };
        if let Some(session) = &mut session {
            note_sent_elsewhere(session, core.cx.shard_of_node(id), ticket.place);
        }
        let node = match (stray.used_by, session) {
            (Use::Held, Some(session)) => {
                // A client that has gone or is being drained must not begin to wait again.
                let may_hold =
                    session.phase == Phase::Open || stray.watches && session.phase == Phase::Ending;
                if !may_hold {
                    return Err(core.cx.engine.not_sent(core.cx.shard_of_node(id), &stray.reason));
                }
                if stray.watches && session.features.watch == Watch::Lost {
                    // EXEC will fail regardless of these keys.
                    self.deliver(ticket, Outcome::Reply(b"+OK\r\n"));
                    return Ok(());
                }
                return core.fans.hold_again(
                    &mut core.cx,
                    session,
                    (stray.aim, id),
                    stray.watches,
                    asks,
                    (&stray.retry.request, ticket),
                );
            }
            (Use::Pinned, Some(session)) => match session.pinning {
                Pinning::Ready(pin) | Pinning::Busy(pin) => {
                    core.cx.pinned_to(pin, profile, id, Some(ticket.place))?
                }
                _ => core.cx.link_in(profile, id)?,
            },
            _ => core.cx.link_in(profile, id)?,
        };
        core.cx.admit_on(node)?;
        match owed {
            Some(Owed::Task(TaskId::Replay(replay))) => {
                core.execs.send_replay(&mut core.cx, node, replay, asks, ticket);
                return Ok(());
            }
            Some(Owed::Task(TaskId::Merge(merge))) if stray.used_by == Use::Pinned => {
                core.cx.take_whole(ticket.conn, merge)
            }
            _ => {}
        }
        if let Some(named) = core.cx.named_in(&stray.retry.request) {
            scripts::bring_along(&mut core.cx, node, &named);
        }
        core.cx.enqueue_again(node, asks, &stray.retry.request, ticket);
        Ok(())
    }
}

/// Notes that `ticket`, the first on the link `ix`, has failed at its node: it has changed nothing.
fn note_failed(cx: &mut Context, ix: LinkIx, ticket: &Ticket) {
    if cx.retry_queue.len() > 0
        && let Some(aim) = cx.aim_of_kept(&cx.engine.links[ix], 0)
    {
        cx.retry_queue.note_failed(ticket, aim);
    }
}

/// Whether the client that holds the link `ix` watches keys there.
fn watches_on(peers: &Peers, ix: LinkIx, conn: ConnId) -> bool {
    match peers.get(conn) {
        Some(Peer::Client(session)) => session.wait.on != Some(ix),
        _ => false,
    }
}

/// Whether `stray`, sent to the node `id`, could arrive before earlier requests of its client for the same keys. It waits
/// for every one of them that is in the retry queue or on another connection. A slot that moves twice is at three nodes,
/// and each names another.
fn would_overtake(cx: &mut Context, peers: &Peers, stray: &Stray, id: NodeId) -> bool {
    let is_behind_parked = match waiting_behind(peers, stray) {
        Some(session) => session.hold.has(Reason::Order) && cx.is_behind_parked(stray),
        None => false,
    };
    is_behind_parked || is_behind_unanswered(cx, peers, stray, id)
}

/// Whether an earlier request of the client for the same keys is on another connection than that to the node `id`.
fn is_behind_unanswered(cx: &mut Context, peers: &Peers, stray: &Stray, id: NodeId) -> bool {
    waiting_behind(peers, stray)
        .is_some_and(|session| is_behind_refetch(cx, session, stray) || cx.is_behind_in_flight(stray, id))
}

/// The session of a request's client, if it waits for replies to earlier requests.
fn waiting_behind<'a>(peers: &'a Peers, stray: &Stray) -> Option<&'a Session> {
    let ticket = &stray.retry.ticket;
    match peers.get(ticket.conn) {
        Some(Peer::Client(session)) if ticket.owner == Owner::Client => {
            (session.replies.front() != ticket.place).then_some(session)
        }
        _ => None,
    }
}

/// Whether an earlier request of the client waits to be sent again over a pinned link, since its reply is large.
fn is_behind_refetch(cx: &Context, session: &Session, stray: &Stray) -> bool {
    let Some(pin) = session.pinning.id().and_then(|id| cx.pins.get(id)) else { return false };
    let mut places = pin.refetches.iter().map(|refetch| refetch.retry.ticket.place);
    places.any(|place| is_behind(stray.retry.ticket.place, place))
}

/// The fates of the later requests of those that wait, in the order of [`RetryQueue::take_all`]. Those that are not due are
/// not looked at.
///
/// [`RetryQueue::take_all`]: queue::RetryQueue::take_all
fn fates(cx: &mut Context, is_due: impl Fn(&Stray) -> bool) -> Vec<Option<Fate>> {
    in_flight::with(cx, |cx, notes| {
        let fate = |stray: &Stray| is_due(stray).then(|| fate_of_later(cx, notes, stray));
        cx.retry_queue.strays().map(fate).collect()
    })
}

/// The fate of the later requests of `stray`. A node can become a primary again before it has read them. Then it runs
/// them, and `stray` would run behind them.
fn fate_of_later(cx: &Context, notes: &mut Notes, stray: &Stray) -> Fate {
    if stray.later == 0 {
        return Fate::Declined;
    }
    let ticket = &stray.retry.ticket;
    let is_later =
        |other: &Found<'_>| is_ahead(ticket, other.ticket) && (stray.to.is_none() || is_awaited(other));
    if in_flight::any(cx, notes, ticket.conn, stray.aim, is_later) {
        return Fate::Open;
    }
    let declined = cx.parked_behind(ticket, stray.aim).count();
    if declined < stray.later { Fate::Run } else { Fate::Declined }
}

/// Whether an earlier request waits for this one after MOVED. The replies on a pinned link are read only when the earlier
/// ones are answered. A redirected request may come behind ASKING, so a node runs it that has not got the slot yet.
fn is_awaited(other: &Found<'_>) -> bool {
    other.link.used_by != Use::Pinned && !other.ticket.kept.was_redirected()
}

/// The number of later requests of the client, for the same slot, that wait or are in flight to `node`. It has lost the
/// slot, and may get it back before it reads them. The order of two reads does not matter.
fn later_on(cx: &mut Context, (ticket, effect): (&Ticket, Effect), node: NodeId, aim: Aim) -> usize {
    let mut count = 0;
    let count_later = |other: &Found<'_>| {
        let is_later = is_ahead(ticket, other.ticket) && other.aim == Some(aim);
        let are_reads = (effect, other.effect) == (Effect::Reads, Effect::Reads);
        let matters = !are_reads && is_awaited(other);
        count += usize::from(is_later && other.link.node == node && matters);
        false
    };
    in_flight::with(cx, |cx, notes| in_flight::any(cx, notes, ticket.conn, aim, count_later));
    match count {
        0 => 0,
        count => count + cx.parked_behind(ticket, aim).count(),
    }
}

impl Context {
    /// The meaning of `reply`, which came over the link `ix`, if it says that the request did not run.
    pub(crate) fn declined_by(&self, ix: LinkIx, reply: &[u8]) -> Option<Declined> {
        if !self.engine.keeps.is_kept() {
            return None;
        }
        let from = &self.engine.topology.node(self.engine.links[ix].node).address;
        Declined::parse(reply, from, self.engine.topology.is_cluster())
    }

    /// Counts a declined request, and wishes for a newer topology.
    pub(crate) fn note_declined(&mut self, declined: &Declined) {
        let counters = &mut self.stats.counters;
        counters.redirects += 1;
        match declined {
            Declined::Moved { .. } => counters.redirects_moved += 1,
            Declined::Ask { .. } => counters.redirects_ask += 1,
            Declined::Later => counters.redirects_later += 1,
            Declined::NoPrimary => {}
        }
        match declined {
            Declined::Moved { address, .. } => self.wish(Some(address.clone())),
            // The topology is right: a slot or a node is being moved.
            Declined::Ask { address, .. } if self.engine.topology.node_at(address).is_some() => {}
            Declined::Ask { address, .. } => self.wish(Some(address.clone())),
            Declined::Later | Declined::NoPrimary => self.wish(None),
        }
    }

    /// Clients with requests on any link, sent or not.
    fn clients_in_flight(&self) -> BTreeSet<ConnId> {
        let tickets = self.engine.links.iter().flat_map(|link| link.tickets());
        tickets.filter(|ticket| ticket.owner == Owner::Client).map(|ticket| ticket.conn).collect()
    }

    /// Wishes for a newer topology.
    pub(crate) fn wish(&mut self, hint: Option<Address>) {
        if self.engine.topology.is_discovered() {
            let hint = hint.map(Wish::Redirected);
            // The node that has the keys knows more than others.
            self.outside.wishes.wish = hint.or(self.outside.wishes.wish.take()).or(Some(Wish::Look));
        }
    }

    /// The number of later requests of the client, for the same keys, that must be declined too before `ticket` is sent
    /// again. `None` if one of them may run before. `behind` says which ones the node may run. All links count, since a
    /// slot that is being moved is at two nodes.
    fn later_to_decline(&mut self, ticket: &Ticket, aim: Aim, behind: Behind) -> Option<usize> {
        if self.parked_behind(ticket, aim).next().is_some() {
            return None;
        }
        let mut count = 0;
        let may_run_before = |other: &Found<'_>| {
            if !is_ahead(ticket, other.ticket) {
                return false;
            }
            count += 1;
            other.aim.is_none() || behind == Behind::Anything || other.effect != Effect::Writes
        };
        let may_run_before =
            in_flight::with(self, |cx, notes| in_flight::any(cx, notes, ticket.conn, aim, may_run_before));
        (!may_run_before).then_some(count)
    }

    /// Later requests of the client of `ticket`, for the same keys, that wait in the retry queue.
    fn parked_behind(&self, ticket: &Ticket, aim: Aim) -> impl Iterator<Item = &Stray> {
        let is_later =
            move |other: &&Stray| is_ahead(ticket, &other.retry.ticket) && self.overlap(other.aim, aim);
        self.retry_queue.of_client(ticket).filter(is_later)
    }

    /// Whether an earlier request of the client of `stray`, for the same keys, waits in the retry queue.
    fn is_behind_parked(&self, stray: &Stray) -> bool {
        let is_it = |other: &Stray| {
            is_ahead(&other.retry.ticket, &stray.retry.ticket) && self.overlap(other.aim, stray.aim)
        };
        self.retry_queue.of_client(&stray.retry.ticket).any(is_it)
    }

    /// Whether an earlier request of the client of `stray`, for the same keys, is in flight on another connection.
    /// `stray` would be sent over the one to the node `id`.
    fn is_behind_in_flight(&mut self, stray: &Stray, id: NodeId) -> bool {
        let used_by = match stray.used_by {
            Use::Pinned | Use::Held => stray.used_by,
            _ => Use::Shared,
        };
        let ticket = &stray.retry.ticket;
        let is_earlier_elsewhere = |other: &Found<'_>| {
            let Found { link, .. } = other;
            (link.node, link.used_by, link.profile) != (id, used_by, stray.retry.profile)
                && is_ahead(other.ticket, ticket)
        };
        in_flight::with(self, |cx, notes| {
            in_flight::any(cx, notes, ticket.conn, stray.aim, is_earlier_elsewhere)
        })
    }

    /// The slot or shard of the request that is `number` behind the front of `link`. `None` if its bytes are not
    /// kept.
    fn aim_of_kept(&self, link: &Link, number: usize) -> Option<Aim> {
        link.kept_request(number).map(|request| self.aim_of(&request, link.shard))
    }

    /// Whether two requests may have common keys. A request for a shard may use each of its slots.
    pub(crate) fn overlap(&self, one: Aim, other: Aim) -> bool {
        match (one, other) {
            (Aim::Shard(_), Aim::Slot(_)) | (Aim::Slot(_), Aim::Shard(_)) => {
                self.shard_of(one) == self.shard_of(other)
            }
            _ => one == other,
        }
    }

    /// Stops relaying parts of a request of `conn` side by side: from now on, they may come over one link, one behind
    /// the other.
    pub(crate) fn take_whole(&mut self, conn: ConnId, id: Id) {
        match self.merges.get_mut(id) {
            Some(merge) if merge.is_relayed() => merge.take_whole(),
            _ => return,
        }
        // Replies that waited for their turn do not wait any more.
        self.pins.to_relay.push(conn);
        for ix in self.engine.links.indexes() {
            let link = &mut self.engine.links[ix];
            if link.used_by == Use::Pinned && link.front().is_some_and(|ticket| ticket.conn == conn) {
                link.rewind();
                self.pins.to_read.push(ix);
            }
        }
    }

    /// The slot or shard of `key`.
    pub(crate) fn aim_at(&self, key: &[u8]) -> Aim {
        match self.engine.topology.division_of(key) {
            (slot, _) if self.engine.topology.is_cluster() => Aim::Slot(slot as u16),
            (_, shard) => Aim::Shard(shard),
        }
    }

    /// The shard that has the keys now.
    pub(crate) fn shard_of(&self, aim: Aim) -> ShardId {
        match aim {
            Aim::Slot(slot) => self.engine.topology.shard_at(slot),
            Aim::Shard(shard) => shard,
        }
    }

    /// The primary of the shard that has the keys now.
    fn owner_of(&self, aim: Aim) -> Option<NodeId> {
        let shard = self.shard_of(aim);
        self.engine.topology.shards().get(shard.0 as usize).and_then(|shard| shard.primary)
    }

    /// Queues on the link `ix` a request that was declined elsewhere. With `asks`, its keys are being moved there,
    /// and ASKING goes in front of it. The request keeps its deadline.
    pub(crate) fn enqueue_again(&mut self, ix: LinkIx, asks: bool, request: &[u8], ticket: Ticket) {
        walk::enter("enqueue_again");
        if asks {
            self.engine.enqueue_on(ix, ASKING, Asked::by_nobody());
        }
        let asking = std::mem::replace(&mut self.engine.asking, ticket.command);
        let Ticket { conn, place, part, owner, kept, .. } = ticket;
        self.engine.enqueue_on(ix, request, Asked { conn, place, part, owner, kept });
        self.engine.asking = asking;
        let link = &mut self.engine.links[ix];
        if kept.was_redirected() {
            link.note_redirected();
        }
        if let Some(last) = link.tickets_mut().last() {
            last.queued_us = ticket.queued_us;
            last.deadline = last.deadline.min(ticket.deadline);
            self.engine.check_at = self.engine.check_at.min(last.deadline);
        }
    }

    fn recount_parked(&mut self) {
        let bytes = self.retry_queue.bytes;
        self.engine.memory.recount(&mut self.retry_queue.counted_bytes, bytes);
    }
}

impl Core {
    /// The requests that wait on the link `ix`, on which nothing was sent yet. Each comes with its form for another
    /// link, if it can be sent again. `reason` is the error for a client whose time is up.
    pub(crate) fn unsent_on(&self, peers: &Peers, ix: LinkIx, reason: &str) -> Vec<(Ticket, Option<Stray>)> {
        let link = &self.cx.engine.links[ix];
        let stray = |(number, &ticket): (usize, &Ticket)| {
            let owed = match peers.get(ticket.conn) {
                Some(Peer::Client(session)) if ticket.owner == Owner::Client => {
                    Some(session.replies.owed(ticket.place)?)
                }
                _ if ticket.owner == Owner::Task(TaskKind::Emulation) => None,
                _ => Some(Owed::Task(TaskId::Replay(self.execs.replay_of_part(&ticket)?))),
            };
            let (request, aim) = self.request_again((ix, number), owed);
            let retry = Retry::new(Why::NotRun, link, ticket, request?)?;
            let (reason, retry_at) = (reason.to_owned(), Instant::NEVER);
            let used_by = link.used_by;
            Some(Stray { retry, used_by, watches: false, aim, later: 0, to: None, reason, retry_at })
        };
        let waiting = link.tickets().enumerate();
        waiting.map(|(number, ticket)| (*ticket, stray((number, ticket)))).collect()
    }

    /// The client that waits for a declined request, if a client does.
    fn client_of(&self, ticket: &Ticket) -> Option<ConnId> {
        match ticket.owner {
            Owner::Client => Some(ticket.conn),
            Owner::Task(TaskKind::Fan) => self.fans.client_of_parked(ticket.conn, ticket.part),
            _ => None,
        }
    }

    /// The kept bytes of the request that is `number` behind the front of the link `ix`, and its slot or shard.
    /// `owed` is the source of its reply.
    fn request_again(&self, (ix, number): (LinkIx, usize), owed: Option<Owed>) -> (Option<Vec<u8>>, Aim) {
        let link = &self.cx.engine.links[ix];
        let shard = link.shard;
        if let Some(Owed::Task(TaskId::Replay(id))) = owed {
            // The whole transaction is kept elsewhere.
            return (
                Some(Vec::new()),
                self.execs.replays.get(id).map_or(Aim::Shard(shard), |replay| replay.aim),
            );
        }
        let request = link.kept_request(number);
        let aim = request.as_ref().map_or(Aim::Shard(shard), |request| self.cx.aim_of(request, shard));
        (request, aim)
    }

    /// The requests that were redirected to `link`, though the topology gives their keys to another node.
    pub(crate) fn off_the_map<'b>(&'b self, link: &'b Link) -> impl Iterator<Item = &'b Ticket> {
        let is_elsewhere = |aim| self.cx.owner_of(aim) != Some(link.node);
        let redirected = link.redirected();
        redirected
            .filter(move |(number, _)| self.cx.aim_of_kept(link, *number).is_none_or(is_elsewhere))
            .map(|(_, ticket)| ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn errors_that_decline_differ_from_other_errors() {
        let parse = |text: &str| Declined::parse(format!("-{text}\r\n").as_bytes(), &at("10.0.0.1", 1), true);
        let moved = |address| Some(Declined::Moved { slot: 3999, address });
        assert_eq!(parse("MOVED 3999 127.0.0.1:6381"), moved(at("127.0.0.1", 6381)));
        assert_eq!(parse("MOVED 3999 ::1:6381"), moved(at("::1", 6381)));
        assert_eq!(parse("MOVED 3999 redis-1.example.org:6381"), moved(at("redis-1.example.org", 6381)));
        // The host is that of the node that answers, or unknown (cluster-preferred-endpoint-type).
        assert_eq!(parse("MOVED 3999 :6381"), moved(at("10.0.0.1", 6381)));
        assert_eq!(parse("MOVED 3999 ?:6381"), moved(at("10.0.0.1", 6381)));
        assert_eq!(parse("ASK 0 h:1"), Some(Declined::Ask { slot: 0, address: at("h", 1) }));
        assert_eq!(parse("TRYAGAIN Multiple keys request during rehashing of slot"), Some(Declined::Later));
        assert_eq!(parse("CLUSTERDOWN The cluster is down"), Some(Declined::Later));
        assert_eq!(parse("READONLY You can't write against a read only replica."), Some(Declined::NoPrimary));
        assert_eq!(parse("UNBLOCKED the stream key no longer exists"), Some(Declined::NoPrimary));
        assert_eq!(parse("UNBLOCKED client unblocked via CLIENT UNBLOCK"), None);
        let others = [
            "MOVED",
            "MOVED 3999",
            "MOVED 16384 h:1",
            "MOVED x h:1",
            "ASK 1 h",
            "ASK 1 h:0",
            "ERR MOVED 1 h:1",
        ];
        assert_eq!(others.map(parse), [const { None }; 7]);
    }

    #[test]
    fn a_single_server_has_no_slots() {
        let parse = |text: &str| Declined::parse(text.as_bytes(), &at("h", 1), false);
        assert_eq!(parse("-LOADING Redis is loading the dataset in memory\r\n"), Some(Declined::Later));
        for text in ["-MOVED 1 h:1\r\n", "-ASK 1 h:1\r\n", "-CLUSTERDOWN x\r\n", "-TRYAGAIN x\r\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
