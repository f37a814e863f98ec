//! Inquiries: questions that wait for several answers which are not nodes' replies to a client's request. They go to
//! the clients of all workers (CLIENT LIST and KILL) or to all shards (INFO).
//!
//! ```text
//!   session ─► inquire ─► question ─► our own clients ───────────────┐
//!                            └──────► mail ─► worker ─► mail ─► answer ─┴─► conclude ─► the client's place
//! ```
//!
//! The client's reply waits at its place in order, like that of a split request. An inquiry ends when all answers are
//! here, or at its deadline with the answers so far. So a worker that has stopped blocks no client for ever.

use crate::ConnId;
use crate::context::Context;
use crate::errors;
use crate::features::{Asked, Owed, Owner, Session, TaskId, TaskKind};
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::local::gathered::{Content, Gathered, Inquiry, Mail, Question};
use crate::local::info::survey::Survey;
use crate::tracking::Redirect;
use std::sync::Arc;
use stdx::{Id, Instant};
use topology::ShardId;

/// Reserves the client's place for the result of `gathered`, which ends after `left` answers or at `deadline`. If too
/// many inquiries wait already, the client gets an error.
pub(crate) fn inquire(
    cx: &mut Context,
    session: &mut Session,
    gathered: Gathered,
    left: usize,
    deadline: Instant,
) -> Option<Id> {
    if cx.inquiries.len() >= cx.limits.inquiries_max {
        cx.refuse(session, errors::INQUIRIES_MAX);
        return None;
    }
    let (conn, place) = (session.conn, session.replies.next_place());
    let (command, asked_us) = (cx.engine.asking, cx.engine.now_us);
    let resp3 = session.resp3;
    let inquiry = Inquiry { conn, place, left, deadline, command, asked_us, resp3, gathered };
    let id = cx.inquiries.insert(inquiry);
    session.replies.reserve(Owed::Task(TaskId::Inquiry(id)));
    Some(id)
}

/// Asks all workers, including this one, once the session that asks is released. Returns false if this was refused.
pub(crate) fn ask_workers(
    cx: &mut Context,
    session: &mut Session,
    question: Question,
    gathered: Gathered,
) -> bool {
    let deadline = match question {
        // Its time begins when it is sent.
        Question::List { .. } => Instant::NEVER,
        _ => cx.engine.now + cx.engine.limits.request_timeout,
    };
    let inquiry = inquire(cx, session, gathered, cx.settings.workers, deadline);
    cx.inquiries.questions.extend(inquiry.map(|inquiry| (inquiry, Arc::new(question))));
    inquiry.is_some()
}

/// Sends `request` to all shards over these links. `survey` already knows the other shards and why they cannot be
/// asked.
pub(crate) fn ask_shards(
    cx: &mut Context,
    session: &mut Session,
    request: &[u8],
    shards: &[(ShardId, LinkIx)],
    survey: Survey,
) {
    // Every ticket gets an outcome in time, at least a loss. So no deadline is needed.
    let survey = Gathered::Survey(survey);
    let Some(inquiry) = inquire(cx, session, survey, shards.len(), Instant::NEVER) else { return };
    for &(shard, ix) in shards {
        // An inquiry has no connection: its own id stands in place of one.
        let asked = Asked {
            conn: inquiry,
            place: 0,
            part: shard.0,
            owner: Owner::Task(TaskKind::Inquiry),
            kept: Kept::NO,
        };
        cx.engine.enqueue_on(ix, request, asked);
    }
}

/// Whether a client waits for the lines of all clients and may get them: no other listing is in progress, and memory is
/// free.
pub(crate) fn has_listing_to_put(cx: &Context) -> bool {
    let inquiries = &cx.inquiries;
    let is_asking = inquiries.listing.is_some_and(|id| inquiries.pending.get(id).is_some());
    !(inquiries.listings.is_empty() || is_asking || cx.engine.memory.is_full())
}

/// Tells another worker which commands were carried out here.
pub(crate) fn mail_lines(cx: &mut Context, worker: usize, lines: Arc<[u8]>) {
    post(cx, worker, Content::Carried(lines));
}

/// Sends changed keys to the worker of the client to which `from` redirects.
pub(crate) fn mail_changes(cx: &mut Context, from: ConnId, redirect: Redirect, changes: Arc<[u8]>) {
    let (worker, to) = (cx.settings.worker, redirect.conn);
    post(cx, redirect.worker, Content::Changes { worker, from, to, changes });
}

pub(crate) fn post(cx: &mut Context, worker: usize, content: Content) {
    let charge = cx.engine.memory.charge_gathered(content.held_bytes());
    cx.outside.mail.push_back((worker, Mail { content, charge }));
}

/// Changes what the inquiry waits for.
pub(crate) fn replace_gathered(cx: &mut Context, id: Id, gathered: Gathered) {
    if let Some(inquiry) = cx.inquiries.pending.get_mut(id) {
        inquiry.gathered = gathered;
    }
}
