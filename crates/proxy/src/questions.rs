//! Questions to all workers: this worker's answers, and the combined answer for the client.

use crate::ConnId;
use crate::core::Core;
use crate::emulate::waits;
use crate::errors;
use crate::event::CloseReason;
use crate::features::{NodeName, Session};
use crate::link::LinkIx;
use crate::local::gathered::{Content, Findings, Gathered, Mail, Question, Seeker, bytes_of};
use crate::local::inquiry::{has_listing_to_put, post};
use crate::local::{clients, line};
use crate::login::job::Task;
use crate::outcome::Outcome;
use crate::peers::{Peer, Peers, sessions};
use crate::proxy::Proxy;
use crate::tracking::{Redirect, invalidations};
use resp::encode;
use std::sync::Arc;
use stdx::{Id, Instant};
use topology::ShardId;

impl Proxy {
    /// Takes a message of another worker's core.
    pub fn handle_mail(&mut self, mail: Mail, now: Instant) {
        self.core.begin(now);
        match mail.content {
            Content::Question { from, inquiry, question } => self.answer_question(from, inquiry, &question),
            Content::Answer { inquiry, findings } => self.absorb_findings(inquiry, findings),
            Content::Carried(lines) => {
                self.core.monitor.show_lines(&mut self.core.cx, &mut self.peers, &lines)
            }
            Content::Changes { worker, from, to, changes } => {
                if !invalidations::handle_redirected(&mut self.core.cx, &mut self.peers, to, &changes) {
                    post(&mut self.core.cx, worker, Content::Broken { from });
                }
            }
            Content::Broken { from } => {
                invalidations::break_redirect(&mut self.core.cx, &mut self.peers, from)
            }
        }
        self.follow_up();
    }

    /// Sends the first question to the other workers, and answers it for this one.
    #[cold]
    pub(crate) fn put_question(&mut self) {
        let Some((inquiry, question)) = self.core.cx.inquiries.questions.pop_front() else { return };
        if matches!(*question, Question::List { .. }) {
            self.core.cx.inquiries.listings.push_back((inquiry, question));
            return self.put_listing();
        }
        self.put(inquiry, question);
    }

    /// Asks all workers for the lines of their clients, for the client that has waited longest for them. The lines may
    /// be many, so a worker has one such question in progress, and begins at most one per turn.
    pub(crate) fn put_listing(&mut self) {
        while self.core.cx.engine.has_memory()
            && has_listing_to_put(&self.core.cx)
            && !self.core.cx.inquiries.has_listed
        {
            let Some((inquiry, question)) = self.core.cx.inquiries.listings.pop_front() else { return };
            if self.core.cx.inquiries.pending.get(inquiry).is_none() {
                // The client has gone.
                continue;
            }
            let deadline = self.core.cx.engine.now + self.core.cx.engine.limits.request_timeout;
            self.core.cx.inquiries.set_deadline(inquiry, deadline);
            (self.core.cx.inquiries.listing, self.core.cx.inquiries.has_listed) = (Some(inquiry), true);
            self.put(inquiry, question);
        }
    }

    pub(crate) fn put(&mut self, inquiry: Id, question: Arc<Question>) {
        let from = self.core.cx.settings.worker;
        for worker in (0..self.core.cx.settings.workers).filter(|&worker| worker != from) {
            let question = Arc::clone(&question);
            post(&mut self.core.cx, worker, Content::Question { from, inquiry, question });
        }
        self.answer_question(from, inquiry, &question);
    }

    /// Answers the question of worker `from`, now or when the answer is known.
    pub(crate) fn answer_question(&mut self, from: usize, inquiry: Id, question: &Question) {
        let findings = self.find_out(question);
        let link = match findings {
            Findings::WaitsSomewhere(link) => link,
            findings => return self.send_findings(from, inquiry, findings),
        };
        self.core.cx.holders.seekers.push(Seeker { link, worker: from, inquiry });
        self.answer_seekers(link);
    }

    pub(crate) fn send_findings(&mut self, to: usize, inquiry: Id, findings: Findings) {
        if to == self.core.cx.settings.worker {
            self.absorb_findings(inquiry, findings);
        } else {
            post(&mut self.core.cx, to, Content::Answer { inquiry, findings });
        }
    }

    /// Answers inquiries about the client that waits on link `ix`, if the answer is known by now, or if the link is
    /// gone.
    pub(crate) fn answer_seekers(&mut self, ix: LinkIx) {
        let link = &mut self.core.cx.engine.links[ix];
        if link.features.name == NodeName::Asked {
            return;
        }
        let (sought, others) = std::mem::take(&mut self.core.cx.holders.seekers)
            .into_iter()
            .partition(|seeker| seeker.link == ix);
        self.core.cx.holders.seekers = others;
        let sought: Vec<Seeker> = sought;
        for Seeker { worker, inquiry, .. } in sought {
            let link = &mut self.core.cx.engine.links[ix];
            let findings = match link.features.name {
                NodeName::Known(name) if link.features.held_by.is_some() => {
                    link.features.is_sought = true;
                    Findings::Waits { id: link.node, name }
                }
                _ => Findings::Nothing,
            };
            self.send_findings(worker, inquiry, findings);
        }
    }

    /// The answer of this worker.
    pub(crate) fn find_out(&mut self, question: &Question) -> Findings {
        match question {
            Question::Find { client } => {
                let worker = self.core.cx.settings.worker;
                let found = sessions(&self.peers).find(|session| session.origin.client == *client);
                let found = found.map(|session| Redirect { client: *client, worker, conn: session.conn });
                found.map_or(Findings::Nothing, Findings::Client)
            }
            Question::Seek { client, user, by_error } => {
                match where_waits(&self.peers, *client, user.as_deref()) {
                    (Some(node), _) => Findings::WaitsSomewhere(node),
                    (None, Some(pop)) => {
                        self.core.emulations.end_wait_for_key(
                            &mut self.core.cx,
                            &mut self.peers,
                            pop,
                            by_error.then_some(errors::UNBLOCKED),
                        );
                        Findings::LetGo
                    }
                    (None, None) => Findings::Nothing,
                }
            }
            Question::List { asker, listing, user } => {
                let lines = sessions(&self.peers).filter(|session| session.origin.client != *asker);
                let lines = lines.filter(|session| session.features.is_of(user.as_deref()));
                let lines = lines.filter(|session| listing.takes(session));
                Findings::Lines(
                    lines
                        .map(|session| (session.origin.client, line::client_line(&self.core.cx, session)))
                        .collect(),
                )
            }
            Question::Kill { asker, filter } => {
                let killed = sessions(&self.peers).filter(|session| session.origin.client != *asker);
                let killed: Vec<ConnId> =
                    killed.filter(|session| filter.takes(session)).map(|session| session.conn).collect();
                killed.iter().for_each(|&conn| self.close_client(conn));
                Findings::Count(killed.len() as u64)
            }
            Question::Pause(order) => {
                self.core.pause.pause(&mut self.core.cx, &mut self.peers, *order);
                Findings::Nothing
            }
            Question::ResetStatistics => {
                self.core.reset_statistics();
                Findings::Nothing
            }
            Question::Users(users) => {
                self.adopt_users(users);
                Findings::Nothing
            }
        }
    }

    pub(crate) fn absorb_findings(&mut self, id: Id, findings: Findings) {
        // The client may have gone, or the inquiry may have timed out.
        let Some(inquiry) = self.core.cx.inquiries.pending.get_mut(id) else { return };
        inquiry.gathered.absorb(findings);
        if inquiry.count_answer() {
            self.conclude(id);
        }
    }

    /// Takes the outcome of a question to one shard.
    pub(crate) fn absorb_report(&mut self, id: Id, shard: ShardId, outcome: &Outcome<'_>) {
        let Some(inquiry) = self.core.cx.inquiries.pending.get_mut(id) else { return };
        if let Gathered::Survey(survey) = &mut inquiry.gathered {
            survey.absorb(shard, outcome);
        }
        if inquiry.count_answer() {
            self.conclude(id);
        }
    }

    /// Ends the inquiries that have timed out.
    pub(crate) fn conclude_late(&mut self) {
        while let Some(&(deadline, id)) = self.core.cx.inquiries.deadlines.first() {
            if deadline > self.core.cx.engine.now {
                return;
            }
            self.conclude(id);
        }
    }

    /// Answers the client with the answers so far.
    pub(crate) fn conclude(&mut self, id: Id) {
        let Some(inquiry) = self.core.cx.inquiries.remove(id) else { return };
        if let Gathered::Unblocked { waits: Some((node, name)), by_error } = inquiry.gathered
            && let Some(Peer::Client(session)) = self.peers.get_mut(inquiry.conn)
            && clients::unblock(&mut self.core.cx, session, inquiry.place, node, name, by_error)
        {
            return;
        }
        let mut reply = self.core.cx.engine.pool.take();
        match (inquiry.gathered, self.peers.get_mut(inquiry.conn)) {
            (Gathered::Redirect { found, tracking }, Some(Peer::Client(session))) => {
                if !self.core.invalidations.begin_redirected(
                    &mut self.core.cx,
                    session,
                    inquiry.place,
                    found,
                    tracking,
                    &mut reply,
                ) {
                    return;
                }
            }
            (gathered, _) => gathered.write(&mut self.core, inquiry.resp3, &mut reply),
        }
        if let Some(Peer::Client(session)) = self.peers.get_mut(inquiry.conn) {
            let core = &mut self.core;
            core.cx.stats.tally.count_reply(inquiry.command, inquiry.asked_us, core.cx.engine.now_us, &reply);
            let overfull = core.cx.settle(session, inquiry.place, &reply);
            core.cx.engine.recount_client(session);
            if overfull {
                self.core.cx.note_closed(session, CloseReason::OutputLimit);
                self.close_client(inquiry.conn);
            } else {
                self.close_if_finished(inquiry.conn);
            }
        }
        self.core.cx.engine.pool.give(reply);
    }
}

/// The link or the plan that this client waits for. With `user`, only a client of that user counts.
fn where_waits(peers: &Peers, client: u64, user: Option<&[u8]>) -> (Option<LinkIx>, Option<Id>) {
    let is_sought = |session: &&Session| session.origin.client == client && session.features.is_of(user);
    let sought = sessions(peers).find(is_sought);
    sought.map_or((None, None), |session| (session.wait.on, waits::waiting_pop(session)))
}

impl Gathered {
    /// Adds the answer of one worker.
    fn absorb(&mut self, findings: Findings) {
        match (&mut *self, findings) {
            (Gathered::Lines { lines, charge, .. }, Findings::Lines(found)) => {
                charge.add(bytes_of(&found));
                lines.extend(found);
            }
            (Gathered::Killed { count, .. }, Findings::Count(found)) => *count += found,
            (Gathered::Redirect { found, .. }, Findings::Client(redirect)) => *found = Some(redirect),
            (Gathered::Unblocked { waits, .. }, Findings::Waits { id, name }) => *waits = Some((id, name)),
            (Gathered::Unblocked { .. }, Findings::LetGo) => *self = Gathered::LetGo,
            _ => {}
        }
    }

    pub(crate) fn write(self, core: &mut Core, resp3: bool, out: &mut Vec<u8>) {
        match self {
            Gathered::Lines { listing, lines, .. } => listing.write(lines, resp3, out),
            Gathered::Killed { count: 0, by_address: true } => errors::write(out, errors::NO_SUCH_CLIENT),
            Gathered::Killed { by_address: true, .. }
            | Gathered::Done
            | Gathered::Users { deleted: None } => encode::simple(out, b"OK"),
            Gathered::Users { deleted: Some(deleted) } => encode::integer(out, deleted as i64),
            // The client has gone.
            Gathered::Redirect { .. } => {}
            Gathered::ControlJob(Task::LoadUsers) => errors::write(out, errors::USERS_LATE_LOADED),
            Gathered::ControlJob(Task::SaveUsers) => errors::write(out, errors::USERS_LATE_SAVED),
            Gathered::ControlJob(Task::Reload(_)) => errors::write(out, errors::RELOAD_LATE),
            Gathered::Refused(text) => errors::write(out, &text),
            Gathered::Written(reply) => out.extend_from_slice(&reply),
            Gathered::Killed { count, by_address: false } => encode::integer(out, count as i64),
            Gathered::Unblocked { .. } => encode::integer(out, 0),
            Gathered::LetGo => encode::integer(out, 1),
            Gathered::Survey(survey) => core.write_survey(&survey, resp3, out),
        }
    }
}
