//! CLIENT PAUSE: requests of all clients, or those that may write, are not carried out for a while.
//!
//! ```text
//!   request ─► held back ── the time is up, CLIENT UNPAUSE ──► read again
//!                  └── its client leaves ──► never carried out
//! ```
//!
//! As in Redis, what is held back is known as a command that makes sense; with ALL it may be CLIENT UNPAUSE itself.

use crate::ConnId;
use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::local::inquiry::{Gathered, Question};
use crate::proxy::{Peer, Proxy};
use crate::requests::Step;
use crate::session::Reason;
use crate::transaction::Transaction;
use command::{Carry, Command, Local, Transaction as Act};
use resp::Request;
use resp::integer::parse_i64;
use std::time::Duration;
use stdx::Instant;

/// What is held back on this worker.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Until then; [`Instant::NEVER`] if nothing is.
    pub until: Instant,
    /// Whether that concerns what only reads, too.
    all: bool,
    /// Whose requests are.
    held_back: Vec<ConnId>,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { until: Instant::NEVER, all: false, held_back: Vec::new() }
    }
}

impl Pause {
    /// Whether anything may be held back.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.until != Instant::NEVER
    }

    /// Whether `command` is.
    fn concerns(&self, command: &Command, session: &Session) -> bool {
        let executes = command.carry == Carry::Transaction(Act::Execute);
        let kept_writes = session.features.transaction.as_deref().is_some_and(Transaction::may_write);
        let leaves = command.carry == Carry::Here(Local::Quit);
        self.is_on() && !leaves && (self.all || command.may_write() || executes && kept_writes)
    }
}

/// What CLIENT PAUSE asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    time: Duration,
    all: bool,
}

impl Order {
    /// `CLIENT PAUSE milliseconds [WRITE|ALL]`; else an error is written.
    fn parse(request: &Request<'_>, reply: &mut Vec<u8>) -> Option<Order> {
        let all = match request.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
            _ if request.len() > 4 => {
                errors::write_subcommand_syntax(reply, request);
                return None;
            }
            None | Some(b"all") => true,
            Some(b"write") => false,
            Some(_) => {
                errors::write(reply, errors::PAUSE_MODE);
                return None;
            }
        };
        match parse_i64(request.arg(2)).map(u64::try_from) {
            Some(Ok(millis)) => return Some(Order { time: Duration::from_millis(millis), all }),
            Some(Err(_)) => errors::write(reply, errors::TIMEOUT_NEGATIVE),
            None => errors::write(reply, errors::TIMEOUT_NOT_AN_INTEGER),
        }
        None
    }
}

impl Core {
    /// CLIENT PAUSE.
    pub(crate) fn pause_clients(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        if let Some(order) = Order::parse(request, reply) {
            self.order_all(session, Question::Pause(Some(order)));
        }
    }

    /// CLIENT UNPAUSE.
    pub(crate) fn unpause_clients(&mut self, session: &mut Session) {
        self.order_all(session, Question::Pause(None));
    }

    /// All workers do it, and what the client has sent behind comes after it.
    fn order_all(&mut self, session: &mut Session, question: Question) {
        self.ask_workers(session, question, Gathered::Done);
        session.turn();
    }

    /// Holds the request back, if clients are paused. `None` if they are not, as far as it is concerned.
    pub(crate) fn hold_back(&mut self, session: &mut Session, command: &Command) -> Option<Step> {
        if !self.pause.concerns(command, session) {
            return None;
        }
        session.hold.add(Reason::Pause);
        self.pause.held_back.push(session.conn);
        self.stats.counters.clients_blocked += 1;
        self.board.publish_clients(self.settings.worker, &self.stats.counters);
        Some(self.read_again())
    }

    /// A client goes: its request is not carried out.
    pub(crate) fn forget_held_back(&mut self, session: &mut Session) {
        self.stats.counters.clients_blocked -= u64::from(session.hold.remove(Reason::Pause));
    }
}

impl Proxy {
    /// Begins a pause, or makes it longer or wider; without an order it ends.
    pub(crate) fn pause(&mut self, order: Option<Order>) {
        let core = &mut self.core;
        match order {
            None => core.pause.until = core.engine.now,
            Some(Order { time, all }) => {
                let began = std::mem::replace(&mut core.pause.until, core.engine.now + time);
                if began != Instant::NEVER {
                    core.pause.until = core.pause.until.max(began);
                }
                core.pause.all |= all;
            }
        }
        self.end_pause_in_time();
    }

    /// Ends the pause, if its time is up.
    pub(crate) fn end_pause_in_time(&mut self) {
        let core = &mut self.core;
        if core.pause.until > core.engine.now {
            return;
        }
        for conn in std::mem::take(&mut core.pause).held_back {
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                core.forget_held_back(session);
                core.engine.todo.clients_to_resume.push(conn);
            }
        }
        core.board.publish_clients(core.settings.worker, &core.stats.counters);
    }
}
