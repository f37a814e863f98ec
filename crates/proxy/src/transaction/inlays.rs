//! Inlays: commands of a transaction that shardis answers itself, at their places among the node's replies.
//!
//! ```text
//!   MULTI, GET a, CLIENT ID, GET b, EXEC ─► MULTI, GET a, GET b, EXEC ─► node ─► *2 1 2
//!                    └─► kept here ─────────────────────────────────────► *3 1 (client's number) 2
//! ```
//!
//! Inlays run when the node has reported that the other commands have run, and only then. CLIENT SETNAME within a
//! transaction that fails sets no name. No request of the client behind EXEC runs before.
//!
//! INFO, CLIENT LIST, and over several shards DBSIZE, KEYS, SCAN and RANDOMKEY are *asked*. They run as without a
//! transaction, when all replies before them have been relayed. The reply to EXEC is interrupted for that, and goes
//! on behind the answer. So they see the effects of all commands of the transaction, even of later ones.
//!
//! The reply to an inlay may be much longer than its request: COMMAND takes 14 bytes and returns 190 KB. So each
//! reply is made when the client's output has room ([`engine::limits::Limits::relay_bytes_max`]). One turn makes no
//! more than that, and at most [`LAID_IN_MAX`] replies. Meanwhile only the requests and the node's replies are kept.
//!
//! SELECT goes to the node, since later commands must run in the other database. The transaction then has a held
//! link, which is closed afterwards. The client goes on in the profile of that database.

use crate::context::Context;
use crate::errors;
use crate::features::{Owed, Session, TaskId};
#[cfg(doc)]
use crate::limits::Limits;
use crate::link::profile::Profile;
use crate::session::Reason;
use crate::transaction::Execs;
use crate::transaction::spliced::{Inlays, Laying, Mixture, Stage};
use resp::reply::elements;
use stdx::{Id, append};

/// The limit of replies of one transaction that are made or relayed in one turn: some milliseconds.
pub(crate) const LAID_IN_MAX: usize = 4096;

impl Execs {
    /// Reserves the reply to EXEC of a transaction with `commands` commands of the node and with `inlays`. Nothing is
    /// pending before, and no later request runs until it is answered.
    pub(crate) fn expect_mixture(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        inlays: Inlays,
        commands: u32,
    ) -> Owed {
        session.hold.add(Reason::Order);
        let id = self.mixtures.insert(Mixture::new(inlays, commands));
        self.recount_mixture(cx, id);
        Owed::Task(TaskId::Mixture(id))
    }

    /// Answers EXEC of a transaction that consists of `inlays`.
    pub(crate) fn answer_here_alone(&mut self, cx: &mut Context, session: &mut Session, inlays: Inlays) {
        let owed = self.expect_mixture(cx, session, inlays, 0);
        session.replies.reserve(owed);
        if let Owed::Task(TaskId::Mixture(id)) = owed {
            self.answer_mixture(cx, session, id, b"*0\r\n", &mut Vec::new());
        }
    }

    /// Ends a mixture whose node will not answer EXEC.
    pub(crate) fn lose_mixture(&mut self, cx: &mut Context, session: &mut Session, id: Id) {
        self.forget_mixture(cx, id);
        session.features.end_caching();
        lift_mixture_barrier(cx, session);
    }

    /// Forgets a mixture whose client has gone.
    pub(crate) fn forget_mixture(&mut self, cx: &mut Context, id: Id) {
        if let Some(mut mixture) = self.mixtures.remove(id) {
            cx.engine.memory.recount(&mut mixture.counted_bytes, 0);
        }
    }

    fn recount_mixture(&mut self, cx: &mut Context, id: Id) {
        if let Some(mixture) = self.mixtures.get_mut(id) {
            let holds = mixture.held_bytes();
            cx.engine.memory.recount(&mut mixture.counted_bytes, holds);
        }
    }

    /// Takes the node's `reply` to EXEC. If it returns true, the client gets `out`; else the replies follow one by
    /// one.
    pub(crate) fn answer_mixture(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        id: Id,
        reply: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(mixture) = self.mixtures.get_mut(id) else { return false };
        if mixture.begin(reply) {
            self.recount_mixture(cx, id);
            cx.engine.todo.clients_to_resume.push(session.conn);
            return false;
        }
        match elements(reply) {
            Some(_) => errors::write(out, errors::MERGE_FAILED),
            None => append(out, reply),
        }
        self.lose_mixture(cx, session, id);
        true
    }

    /// Memory in use for the reply to the session's EXEC.
    pub(crate) fn mixture_bytes(&self, session: &Session) -> usize {
        let bytes = |owed| match owed {
            Owed::Task(TaskId::Mixture(id)) => {
                self.mixtures.get(id).map_or(0, |mixture| mixture.counted_bytes)
            }
            _ => 0,
        };
        session.replies.owed_to_it().map(bytes).sum()
    }

    /// Whether the session is getting the replies of its transaction one by one.
    pub(crate) fn is_laying_in(&self, session: &Session) -> bool {
        session.replies.front_owed().is_some_and(|owed| self.is_laid_in(owed))
    }

    /// Whether `owed` is a transaction whose client gets the replies one by one.
    pub(crate) fn is_laid_in(&self, owed: Owed) -> bool {
        let Owed::Task(TaskId::Mixture(id)) = owed else { return false };
        self.mixtures.get(id).is_some_and(|mixture| matches!(mixture.stage, Stage::Laying(_)))
    }
}

pub(crate) fn lift_mixture_barrier(cx: &mut Context, session: &mut Session) {
    session.hold.remove(Reason::Order);
    cx.engine.todo.clients_to_resume.push(session.conn);
}

/// Lets the session go on in the database of the last SELECT.
pub(crate) fn use_database(cx: &mut Context, session: &mut Session, laying: &Laying) {
    if let Some(database) = laying.database {
        cx.change_profile(session, Profile { database, ..cx.profiles.kind(session.profile) });
    }
}
