//! Commands of a transaction that the proxy answers itself, at their places among the node's replies.
//!
//! ```text
//!   MULTI, GET a, CLIENT ID, GET b, EXEC ─► MULTI, GET a, GET b, EXEC ─► node ─► *2 1 2
//!                    └─► kept here ─────────────────────────────────────► *3 1 (client's number) 2
//! ```
//!
//! They are carried out when the node has said that it has run the others, and not at all if it has not: CLIENT SETNAME
//! within a transaction that fails sets no name. Nothing of the client that stands behind EXEC is carried out before.
//!
//! INFO, CLIENT LIST, and over several shards DBSIZE, KEYS, SCAN and RANDOMKEY are *asked*: they are carried out as without a
//! transaction, when all before them has been passed on. The reply to EXEC is interrupted for that and goes on behind the answer.
//! So they see what all commands of the transaction have done, those behind them too.
//!
//! An answer of ours may be much longer than its request: COMMAND takes 14 bytes and is answered with 190 KB. So each is made
//! when it has room in the client's output ([`engine::limits::Limits::relay_bytes_max`]), and in one turn no more than that and than
//! [`LAID_IN_MAX`] are. What is kept meanwhile are the requests, and what the node has said.
//!
//! SELECT goes to the node, since what follows it must run in the other database. The connection is the client's own
//! then, and is closed afterwards; the client goes on in the profile of that database.

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

/// Replies of one transaction that are laid in or passed on in one turn: some milliseconds.
pub(crate) const LAID_IN_MAX: usize = 4096;

impl Execs {
    /// Reserves what the reply to EXEC is for a transaction of `commands` commands of the node and `inlays`. Nothing behind
    /// it is carried out before it was answered, and nothing is pending before it.
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

    /// Answers EXEC of `inlays` alone.
    pub(crate) fn answer_here_alone(&mut self, cx: &mut Context, session: &mut Session, inlays: Inlays) {
        let owed = self.expect_mixture(cx, session, inlays, 0);
        session.replies.reserve(owed);
        if let Owed::Task(TaskId::Mixture(id)) = owed {
            self.answer_mixture(cx, session, id, b"*0\r\n", &mut Vec::new());
        }
    }

    /// The node has said nothing to EXEC, and will not.
    pub(crate) fn lose_mixture(&mut self, cx: &mut Context, session: &mut Session, id: Id) {
        self.forget_mixture(cx, id);
        session.features.end_caching();
        lift_mixture_barrier(cx, session);
    }

    /// Nobody waits for it any more.
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

    /// The node has answered EXEC with `reply`. True if `out` is what the client gets; else that is laid in.
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

    /// Bytes that are held for the reply to the session's EXEC.
    pub(crate) fn mixture_bytes(&self, session: &Session) -> usize {
        let bytes = |owed| match owed {
            Owed::Task(TaskId::Mixture(id)) => {
                self.mixtures.get(id).map_or(0, |mixture| mixture.counted_bytes)
            }
            _ => 0,
        };
        session.replies.owed_to_it().map(bytes).sum()
    }

    /// Whether the session gets the replies of its transaction one by one, and has not got all.
    pub(crate) fn is_laying_in(&self, session: &Session) -> bool {
        session.replies.front_owed().is_some_and(|owed| self.is_laid_in(owed))
    }

    /// Whether `owed` is a transaction whose replies its client gets one by one.
    pub(crate) fn is_laid_in(&self, owed: Owed) -> bool {
        let Owed::Task(TaskId::Mixture(id)) = owed else { return false };
        self.mixtures.get(id).is_some_and(|mixture| matches!(mixture.stage, Stage::Laying(_)))
    }
}

pub(crate) fn lift_mixture_barrier(cx: &mut Context, session: &mut Session) {
    session.hold.remove(Reason::Order);
    cx.engine.todo.clients_to_resume.push(session.conn);
}

/// The session goes on in the database that the last SELECT has chosen.
pub(crate) fn use_database(cx: &mut Context, session: &mut Session, laying: &Laying) {
    if let Some(database) = laying.database {
        cx.change_profile(session, Profile { database, ..cx.profiles.kind(session.profile) });
    }
}
