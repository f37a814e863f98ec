//! The end of a link to a node: each request in flight gets its true outcome, and the next attempt is planned.
//!
//! ```text
//!   request not written at all ──► not sent (or denied, if the node refused the login of the client)
//!   reply that is no protocol ───► garbled: the request may have run
//!   anything else ───────────────► broken: the request may have run
//! ```

use crate::context::Context;
use crate::errors::Lost;
use crate::event::Notice;
use crate::features::Ticket;
use crate::link::{LinkIx, Reported, Use, retire, suspect};
use crate::outcome::{Fault, Outcome};
use crate::peers::Peers;
use crate::proxy::Proxy;
use crate::reading::replicas;
use stdx::Instant;
use topology::ShardId;

/// A link at its end.
struct Ended {
    ix: LinkIx,
    used_by: Use,
    shard: ShardId,
    /// Whether the state of the node is known from this link.
    is_node: bool,
    was_ready: bool,
    fault: Fault,
    reason: String,
}

impl Ended {
    fn new(cx: &Context, ix: LinkIx, fault: Fault) -> Ended {
        let link = &cx.engine.links[ix];
        let (is_node, was_ready, reason) = (link.stands_for_node(), link.is_ready(), fault.reason());
        Ended { ix, used_by: link.used_by, shard: link.shard, is_node, was_ready, fault, reason }
    }

    /// The outcome of a request that was in flight. Its shard is called `shard`; `written` bytes were sent on the link.
    fn outcome_of(&self, ticket: &Ticket, written: u64, shard: String, is_denied: bool) -> Lost {
        // Half of a large request is never carried out.
        let is_half = self.used_by == Use::Pinned && ticket.deadline == Instant::NEVER;
        let is_unsent = ticket.start >= written || is_half;
        match &self.fault {
            _ if is_unsent && is_denied => Lost::Denied { shard, error: self.reason.clone() },
            _ if is_unsent => Lost::NotSent { shard, reason: self.reason.clone() },
            Fault::Garbled(_) => Lost::Garbled { shard },
            Fault::Gone(_) | Fault::Refused(_) => Lost::Broken { shard },
        }
    }
}

impl Proxy {
    /// Gives a link up: each request in flight gets its true outcome, and the next attempt is planned.
    pub(crate) fn fail_link(&mut self, ix: LinkIx, fault: Fault) {
        let cx = &mut self.core.cx;
        cx.note_inspection_ended(ix, &fault);
        disconnect(cx, &mut self.peers, ix);
        let ended = Ended::new(cx, ix, fault);
        cx.stats.counters.nodes_up -= u64::from(ended.is_node && ended.was_ready);
        cx.stats.counters.node_failures += 1;
        cx.stats.nodes.row(cx.engine.links[ix].node).failures += 1;
        let rescued = replicas::rescue_reads(cx, ix);
        let repeats = match &ended.fault {
            Fault::Gone(_) if ended.used_by == Use::Shared => {
                suspect::take_reads_of_ended(cx, &mut self.peers, ix)
            }
            Fault::Gone(_) | Fault::Refused(_) | Fault::Garbled(_) => Vec::new(),
        };
        if ended.used_by == Use::Replica {
            self.core.readers.suspect(ended.shard, cx.engine.links[ix].node);
        }
        let (held_by, profile) = (cx.engine.links[ix].features.held_by, cx.engine.links[ix].profile);
        let (tickets, written) = cx.engine.fail_link(ix, ended.reason.clone());
        let is_denied = cx.is_denied(profile, &ended.reason);
        cx.report(&ended);
        cx.plan_next_attempt(&ended);
        if ended.used_by == Use::Held {
            self.note_held_loss(ix, held_by, &tickets);
        }
        let cx = &mut self.core.cx;
        suspect::ask_again(cx, repeats, ix);
        let shard = cx.engine.shard_name(ended.shard).to_owned();
        let lost = |ticket: &Ticket| ended.outcome_of(ticket, written, shard.clone(), is_denied);
        deliver_losses(self, ended.used_by, tickets, lost);
        if ended.used_by == Use::Subscription {
            self.handle_source_lost(ended.shard, ix, &ended.reason);
        }
        replicas::ask_primary(&mut self.core.cx, rescued);
        if ended.is_node {
            replicas::note_node_failure(&mut self.core.cx, ended.shard);
        }
    }

    /// Closes a link that is of no use any more. Requests in flight on it are lost.
    pub(crate) fn let_go(&mut self, ix: LinkIx) {
        let cx = &mut self.core.cx;
        disconnect(cx, &mut self.peers, ix);
        let (shard, used_by) = (cx.engine.links[ix].shard, cx.engine.links[ix].used_by);
        let (tickets, _) = cx.engine.fail_link(ix, String::new());
        cx.vacate(ix);
        let shard = cx.engine.shard_name(shard).to_owned();
        deliver_losses(self, used_by, tickets, |_| Lost::Broken { shard: shard.clone() });
    }
}

/// Delivers the loss of each request that was in flight on a link of the kind `used_by`.
fn deliver_losses(
    proxy: &mut Proxy,
    used_by: Use,
    tickets: impl IntoIterator<Item = Ticket>,
    lost: impl Fn(&Ticket) -> Lost,
) {
    for ticket in tickets {
        if used_by.has_barriers() {
            retire::lift_barrier(&mut proxy.core.cx, &mut proxy.peers, ticket);
        }
        proxy.deliver(ticket, Outcome::Lost(lost(&ticket)));
    }
}

/// Closes the connection of the link `ix`, if there is one.
pub(crate) fn disconnect(cx: &mut Context, peers: &mut Peers, ix: LinkIx) {
    if let Some(conn) = cx.engine.links[ix].conn() {
        cx.engine.close(conn);
        peers.remove(conn);
    }
}

impl Context {
    /// A link that is made again has its next attempt; any other leaves its place.
    fn plan_next_attempt(&mut self, ended: &Ended) {
        match ended.used_by {
            Use::Shared | Use::Replica | Use::Subscription => {
                let deadline = self.engine.links[ended.ix].deadline(&self.engine.limits);
                self.engine.check_at = self.engine.check_at.min(deadline);
            }
            Use::Pinned | Use::Held | Use::Retired | Use::Draining | Use::Standby => self.vacate(ended.ix),
        }
    }

    /// Lets discovery and the log know.
    fn report(&mut self, ended: &Ended) {
        self.engine.recount_link(ended.ix);
        if !ended.is_node {
            // The loss of another connection says little: if the node is down, that of the first profile will tell.
            return;
        }
        self.wish(None);
        if ended.was_ready {
            self.holders.losses.note(self.engine.now);
        }
        let (shard, reason) = (self.engine.shard_name(ended.shard).to_owned(), ended.reason.clone());
        let (known, notice) = match ended.fault {
            Fault::Refused(_) => (Reported::Refused, Notice::NodeRefused { shard, reason }),
            Fault::Gone(_) | Fault::Garbled(_) => (Reported::Down, Notice::NodeDown { shard, reason }),
        };
        let reported = &mut self.engine.links[ended.ix].attempts.reported;
        if *reported < known {
            *reported = known;
            self.notice(notice);
        }
    }
}
