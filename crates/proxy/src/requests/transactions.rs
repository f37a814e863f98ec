//! Commands within MULTI, and the replies of EXEC that shardis makes itself.

use crate::core::Core;
use crate::errors;
use crate::features::{Owed, Session, TaskId};
use crate::limits::SCRATCH_BYTES_KEPT;
use crate::login::passing::OK;
use crate::outcome::Step;
use crate::requests::route::{Keys, Scratch};
use crate::session::Reason;
use crate::transaction::inlays::{LAID_IN_MAX, lift_mixture_barrier, use_database};
use crate::transaction::spliced::{Laid, Laying, Piece, Stage, scan};
use crate::transaction::{complain, end_transaction, keep_for_exec};
use command::Resolved;
use command::{Carry, Command, Local, Transaction as Act, Within};
use resp::{Request, encode};

impl Core {
    /// Runs or queues `command` of a client that has sent MULTI.
    pub(crate) fn carry_out_in_transaction(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        match command.carry {
            Carry::Transaction(Act::Begin) => complain(&mut self.cx, session, errors::NESTED_MULTI),
            Carry::Transaction(Act::Watch) => complain(&mut self.cx, session, errors::WATCH_IN_MULTI),
            Carry::Transaction(Act::Execute) => return self.execs.execute(&mut self.cx, session),
            Carry::Transaction(Act::Discard) => {
                end_transaction(&mut self.cx, session);
                self.cx.engine.answer(session, OK);
            }
            Carry::Here(local @ (Local::Quit | Local::Reset)) => {
                self.answer_here(session, local, command, request, reply);
            }
            _ if command.within_transaction() == Within::NotInRedis => {
                self.cx.refuse(session, errors::NOT_IN_MULTI);
            }
            _ => keep_for_exec(&mut self.cx, session, command, request, keys),
        }
        Step::Done
    }

    /// Writes the next replies of the session's transaction, as many as have room.
    pub(crate) fn lay_in(&mut self, session: &mut Session) {
        if !session.hold.has(Reason::Order) || !self.execs.is_laying_in(session) {
            return;
        }
        let Some(Owed::Task(TaskId::Mixture(id))) = session.replies.front_owed() else { return };
        let Some(mixture) = self.execs.mixtures.get_mut(id) else { return };
        let Stage::Laying(mut laying) = std::mem::replace(&mut mixture.stage, Stage::Waiting) else { return };
        match self.lay_in_some(session, &mut laying) {
            Laid::All => {
                self.execs.forget_mixture(&mut self.cx, id);
                session.features.end_caching();
                session.replies.finish_relay(&mut self.cx.engine.pool);
                lift_mixture_barrier(&mut self.cx, session);
                use_database(&mut self.cx, session, &laying);
                self.cx.note_settled(session, 0);
                return;
            }
            Laid::Some => {}
            Laid::Until(request) => {
                use_database(&mut self.cx, session, &laying);
                self.carry_out_inlay(session, &request, Owed::Task(TaskId::Mixture(id)));
            }
        }
        if let Some(mixture) = self.execs.mixtures.get_mut(id) {
            mixture.stage = Stage::Laying(laying);
        }
        if session.replies.output().len() < self.cx.engine.limits.relay_bytes_max {
            self.cx.engine.todo.clients_of_next_turn.push(session.conn);
        }
        self.cx.engine.list_client(session);
    }

    pub(crate) fn lay_in_some(&mut self, session: &mut Session, laying: &mut Laying) -> Laid {
        let mut scratch = std::mem::take(&mut self.cx.parsing.scratch);
        let mut laid = Laid::Some;
        for _ in 0..LAID_IN_MAX {
            if session.replies.output().len() >= self.cx.engine.limits.relay_bytes_max {
                break;
            }
            scratch.reply.clear();
            match laying.next() {
                Piece::Header(count) => encode::array_header(&mut scratch.reply, count),
                Piece::Passed(len) => session.replies.relay(laying.pass(len), &mut self.cx.engine.pool),
                Piece::Here(request) if self.write_inlay(session, &request, &mut scratch) => {}
                Piece::Here(request) => {
                    laid = Laid::Until(request);
                    break;
                }
                Piece::End => {
                    laid = Laid::All;
                    break;
                }
            }
            session.replies.relay(&scratch.reply, &mut self.cx.engine.pool);
        }
        scratch.reply.clear();
        scratch.reply.shrink_to(SCRATCH_BYTES_KEPT);
        self.cx.parsing.scratch = scratch;
        laid
    }

    /// Runs `request`, which was checked when it was queued, and writes its reply. Returns false if nodes or other
    /// workers must be asked first.
    pub(crate) fn write_inlay(
        &mut self,
        session: &mut Session,
        request: &[u8],
        scratch: &mut Scratch,
    ) -> bool {
        let request = scan(request, &mut scratch.args, &mut scratch.inline);
        let (resolved, number) = command::resolve_numbered(&request);
        let Resolved::Command(command) = resolved else { return false };
        let Carry::Here(local) = command.carry else { return false };
        if command.within_transaction() == Within::Asked {
            return false;
        }
        let asking = std::mem::replace(&mut self.cx.engine.asking, number);
        self.compose(session, local, command, &request, &mut scratch.reply);
        debug_assert!(!scratch.reply.is_empty(), "what is answered later is asked");
        if resp::reply::is_error(&scratch.reply) {
            self.cx.stats.tally.count_failed(self.cx.engine.asking, &scratch.reply);
        }
        self.cx.engine.asking = asking;
        true
    }

    /// Runs `request` as without a transaction. `rest` follows its reply.
    pub(crate) fn carry_out_inlay(&mut self, session: &mut Session, request: &[u8], rest: Owed) {
        let interrupted = session.replies.interrupt_relay(&mut self.cx.engine.pool);
        let mut scratch = std::mem::take(&mut self.cx.parsing.scratch);
        let request = scan(request, &mut scratch.args, &mut scratch.inline);
        let (resolved, number) = command::resolve_numbered(&request);
        let asking = std::mem::replace(&mut self.cx.engine.asking, number);
        if let Resolved::Command(command) = resolved {
            let (keys, reply) = (&mut scratch.keys, &mut scratch.reply);
            let step = self.carry_out_admitted(session, command, &request, keys, reply);
            debug_assert_eq!(step, Step::Done, "nothing is pending before it");
        }
        self.cx.engine.asking = asking;
        self.cx.parsing.scratch = scratch;
        session.replies.resume_relay(interrupted, rest, &mut self.cx.engine.pool);
    }
}
