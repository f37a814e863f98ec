//! The work of tasks on a reply, or its loss, for one place of a client.

use super::Recipient;
use crate::context::Context;
use crate::core::Core;
use crate::errors::{self, Lost};
use crate::features::{Asked, Session, TaskId};
use crate::login::passing;
use crate::pubsub;

/// The client's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made<'a> {
    /// No reply yet: the task has sent a request, or another task fills the place.
    Nothing,
    /// The node's reply.
    AsItIs(&'a [u8]),
    /// The reply was written to `out`.
    Written,
}

impl Made<'_> {
    /// `Written` if `is_written`, or else `Nothing`.
    pub(super) fn written_if(is_written: bool) -> Self {
        if is_written { Made::Written } else { Made::Nothing }
    }
}

impl Context {
    /// Writes the error `text` for the client.
    pub(super) fn write_loss<'a>(&mut self, text: &str, out: &mut Vec<u8>) -> Made<'a> {
        self.stats.counters.errors += 1;
        errors::write(out, text);
        Made::Written
    }
}

impl Core {
    /// Gives `reply` to `task`.
    pub(super) fn make_of_reply<'a>(
        &mut self,
        session: &mut Session,
        task: TaskId,
        recipient: Recipient,
        reply: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Made<'a> {
        match task {
            TaskId::Exec => return Made::AsItIs(reply),
            TaskId::Mixture(mixture) => {
                let is_answered = self.execs.answer_mixture(&mut self.cx, session, mixture, reply, out);
                if !is_answered {
                    let (command, queued_us) = (recipient.command, recipient.queued_us);
                    self.cx.stats.tally.count_reply(command, queued_us, self.cx.engine.now_us, reply);
                }
                return Made::written_if(is_answered);
            }
            TaskId::Scan(scan) => {
                let asked = Asked::by_client(recipient.conn, recipient.place);
                return Made::written_if(self.scans.absorb_page(&mut self.cx, scan, asked, reply, out));
            }
            TaskId::Login(attempt) => passing::end_attempt(&mut self.cx, session, attempt, reply, out),
            TaskId::Judged(judged) => passing::end_judgement(&mut self.cx, judged, reply, out),
            TaskId::Receivers(receivers) => pubsub::write_receivers(reply, receivers, out),
            // Tickets of these tasks name the task and not a place. A merge handles losses as well.
            TaskId::Inquiry(_)
            | TaskId::Subscription
            | TaskId::Emulation(_)
            | TaskId::Fan(_)
            | TaskId::Execution(_)
            | TaskId::Replay(_)
            | TaskId::Merge(_) => return Made::Nothing,
        }
        Made::Written
    }

    /// Tells `task` that it gets no reply.
    pub(super) fn make_of_loss<'a>(
        &mut self,
        session: &mut Session,
        task: TaskId,
        lost: &Lost,
        out: &mut Vec<u8>,
    ) -> Made<'a> {
        let text = match task {
            TaskId::Exec | TaskId::Mixture(_) => errors::text_of_exec(lost),
            _ => lost.text(),
        };
        match task {
            TaskId::Exec | TaskId::Receivers(_) => {}
            TaskId::Mixture(mixture) => self.execs.lose_mixture(&mut self.cx, session, mixture),
            TaskId::Login(attempt) => drop(passing::lose_attempt(&mut self.cx, session, attempt)),
            TaskId::Judged(judged) => drop(passing::forget_judgement(&mut self.cx, judged)),
            TaskId::Scan(scan) => {
                let error = errors::reply(&text);
                self.cx.stats.counters.errors +=
                    u64::from(self.scans.end_scan(&mut self.cx, scan, &error, out));
                return Made::Written;
            }
            TaskId::Inquiry(_)
            | TaskId::Subscription
            | TaskId::Emulation(_)
            | TaskId::Fan(_)
            | TaskId::Execution(_)
            | TaskId::Replay(_)
            | TaskId::Merge(_) => return Made::Nothing,
        }
        self.cx.write_loss(&text, out)
    }
}
