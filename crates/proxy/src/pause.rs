//! CLIENT PAUSE: for a while, no requests are carried out, or none that may write.
//!
//! ```text
//!   request ─► held back ── the time is up, CLIENT UNPAUSE ──► read again
//!                  └── its client leaves ──► never carried out
//! ```
//!
//! As in Redis, a request is checked before it is held back. With ALL, CLIENT UNPAUSE itself may be held back.

pub(crate) mod order;

use crate::ConnId;
use crate::context::Context;
use crate::features::Session;
use crate::local::gathered::{Gathered, Question};
use crate::local::inquiry;
use crate::outcome::Step;
use crate::pause::order::Order;
use crate::peers::{Peer, Peers};
use crate::session::Reason;
use crate::transaction::queued::Transaction;
use command::{Carry, Command, Local, Transaction as Act};
use resp::Request;
use stdx::Instant;

/// Requests that are held back on this worker.
#[derive(Debug)]
pub(crate) struct Pause {
    /// The end of the pause; [`Instant::NEVER`] without a pause.
    pub until: Instant,
    /// Whether the pause includes reads.
    all: bool,
    /// Clients with a request that is held back.
    held_back: Vec<ConnId>,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { until: Instant::NEVER, all: false, held_back: Vec::new() }
    }
}

impl Pause {
    /// Whether there is a pause.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.until != Instant::NEVER
    }

    /// Whether the pause includes `command`.
    fn concerns(&self, command: &Command, session: &Session) -> bool {
        let executes = command.carry == Carry::Transaction(Act::Execute);
        let kept_writes = session.features.transaction.as_deref().is_some_and(Transaction::may_write);
        let leaves = command.carry == Carry::Here(Local::Quit);
        self.is_on() && !leaves && (self.all || command.may_write() || executes && kept_writes)
    }

    /// Holds the request back if the pause includes it, else returns `None`.
    pub(crate) fn hold_back(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        command: &Command,
    ) -> Option<Step> {
        if !self.concerns(command, session) {
            return None;
        }
        session.hold.add(Reason::Pause);
        self.held_back.push(session.conn);
        cx.stats.counters.clients_blocked += 1;
        cx.board.publish_clients(cx.settings.worker, &cx.stats.counters);
        Some(cx.read_again())
    }
}

/// CLIENT PAUSE.
pub(crate) fn pause_clients(
    cx: &mut Context,
    session: &mut Session,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) {
    if let Some(order) = Order::parse(request, reply) {
        order_all(cx, session, Question::Pause(Some(order)));
    }
}

/// CLIENT UNPAUSE.
pub(crate) fn unpause_clients(cx: &mut Context, session: &mut Session) {
    order_all(cx, session, Question::Pause(None));
}

/// Sends the question to all workers. Later requests of the client come after it.
fn order_all(cx: &mut Context, session: &mut Session, question: Question) {
    inquiry::ask_workers(cx, session, question, Gathered::Done);
    session.turn();
}

/// Drops the held-back request of a client that leaves.
pub(crate) fn forget_held_back(cx: &mut Context, session: &mut Session) {
    cx.stats.counters.clients_blocked -= u64::from(session.hold.remove(Reason::Pause));
}

impl Pause {
    /// Begins, extends or widens a pause; without an order, ends it.
    pub(crate) fn pause(&mut self, cx: &mut Context, peers: &mut Peers, order: Option<Order>) {
        match order {
            None => self.until = cx.engine.now,
            Some(Order { time, all }) => {
                let began = std::mem::replace(&mut self.until, cx.engine.now + time);
                if began != Instant::NEVER {
                    self.until = self.until.max(began);
                }
                self.all |= all;
            }
        }
        self.end_pause_in_time(cx, peers);
    }

    /// Ends the pause when its time is up.
    pub(crate) fn end_pause_in_time(&mut self, cx: &mut Context, peers: &mut Peers) {
        if self.until > cx.engine.now {
            return;
        }
        for conn in std::mem::take(self).held_back {
            if let Some(Peer::Client(session)) = peers.get_mut(conn) {
                forget_held_back(cx, session);
                cx.engine.todo.clients_to_resume.push(conn);
            }
        }
        cx.board.publish_clients(cx.settings.worker, &cx.stats.counters);
    }
}
