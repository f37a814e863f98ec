//! Questions that wait for several answers which are no replies of nodes to a client's request: over the clients of all
//! workers (CLIENT LIST and KILL), or over all shards (INFO).
//!
//! ```text
//!   session ─► inquire ─► question ─► our own clients ───────────────┐
//!                            └──────► mail ─► worker ─► mail ─► answer ─┴─► conclude ─► the client's place
//! ```
//!
//! The client's reply waits at its place in order, as that of a split request. An inquiry ends when all have answered
//! or at its deadline, with what is known then: a worker that has stopped must not make anybody wait for ever.

use crate::ConnId;
use crate::core::Core;
use crate::errors;
use crate::event::CloseReason;
use crate::features::{Asked, NodeName, Owed, Owner, Session, TaskId, TaskKind};
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::local::clients::{Filter, Listing};
use crate::local::info::Survey;
use crate::login::Task;
use crate::pause::Order;
use crate::proxy::{Peer, Proxy};
use crate::replies::Outcome;
use crate::tracking::{Redirect, Tracking};
use command::Number;
use engine::memory::Charge;
use resp::encode;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use stdx::{Id, Instant, Slab};
use topology::{NodeId, ShardId};
use users::Users;

/// What one worker's core says to another's. [`Proxy::poll_mail`] gives it, [`Proxy::handle_mail`] takes it; nobody
/// between them looks inside.
#[derive(Debug)]
pub struct Mail {
    content: Content,
    /// Counts at the sender until the receiver has taken it in.
    charge: Charge,
}

#[derive(Debug)]
enum Content {
    /// To be found out, for the worker `from`.
    Question {
        from: usize,
        inquiry: Id,
        question: Arc<Question>,
    },
    Answer {
        inquiry: Id,
        findings: Findings,
    },
    /// What was carried out there, for those who monitor.
    Carried(Arc<[u8]>),
    /// What has changed, for the client `to`; `from` of that worker redirects to it.
    Changes {
        worker: usize,
        from: ConnId,
        to: ConnId,
        changes: Arc<[u8]>,
    },
    /// The client to which `from` redirects has gone.
    Broken {
        from: ConnId,
    },
}

impl Mail {
    /// What the sender is to be told if the receiver has stopped: that nothing was found there.
    pub fn undelivered(self) -> Option<Mail> {
        let content = match self.content {
            Content::Question { inquiry, .. } => Content::Answer { inquiry, findings: Findings::Nothing },
            Content::Changes { from, .. } => Content::Broken { from },
            Content::Answer { .. } | Content::Carried(_) | Content::Broken { .. } => return None,
        };
        Some(Mail { content, charge: Charge::default() })
    }

    /// Bytes that it is counted for.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.charge.bytes()
    }
}

impl Content {
    /// Bytes that it holds. What several workers are told counts for each of them.
    fn held_bytes(&self) -> usize {
        match self {
            Content::Answer { findings: Findings::Lines(lines), .. } => bytes_of(lines),
            Content::Carried(lines) => lines.len(),
            Content::Changes { changes, .. } => changes.len(),
            Content::Question { .. } | Content::Answer { .. } | Content::Broken { .. } => 0,
        }
    }
}

/// What each worker is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// The lines of its clients, but for that of the client who asks; of this user's, if that is said.
    List { asker: u64, listing: Listing, user: Option<Box<[u8]>> },
    /// Close its clients that match, but not the one who asks.
    Kill { asker: u64, filter: Filter },
    /// Begin to count anew.
    ResetStatistics,
    /// Pause clients, or go on with them.
    Pause(Option<Order>),
    /// On which connection this client waits, if it is this user's, if that is said. If it waits for no node, it is let go at
    /// once.
    Seek { client: u64, user: Option<Box<[u8]>>, by_error: bool },
    /// Whether this client is here, to redirect to it.
    Find { client: u64 },
    /// Take these users for those that there are.
    Users(Arc<Users>),
}

/// What one worker answers.
#[derive(Debug)]
pub(crate) enum Findings {
    Nothing,
    /// By client.
    Lines(Vec<(u64, String)>),
    Count(u64),
    /// The client that waited was let go.
    LetGo,
    /// It is here.
    Client(Redirect),
    /// It waits on this connection of ours.
    WaitsSomewhere(LinkIx),
    /// It waits there, on the connection to which the node gave this number.
    Waits {
        id: NodeId,
        name: i64,
    },
}

/// Who seeks the client that waits on the connection `link`.
#[derive(Debug)]
pub(crate) struct Seeker {
    link: LinkIx,
    worker: usize,
    inquiry: Id,
}

/// One question of one client, and what was answered so far.
#[derive(Debug)]
pub(crate) struct Inquiry {
    conn: ConnId,
    /// In the client's order.
    place: u32,
    /// Answers that are still to come.
    left: usize,
    deadline: Instant,
    /// What was asked, and when, for the statistics.
    command: Number,
    asked_us: u32,
    /// What the client spoke when it asked.
    resp3: bool,
    gathered: Gathered,
}

/// What has come so far, and what is to be made of it.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// CLIENT LIST.
    Lines { listing: Listing, lines: Vec<(u64, String)>, charge: Charge },
    /// CLIENT KILL; by address alone, it is an error if nobody was there.
    Killed { count: u64, by_address: bool },
    /// That all have done what they were told.
    Done,
    /// INFO.
    Survey(Survey),
    /// CLIENT UNBLOCK: where the client waits, if it does, and whether it is to get an error.
    Unblocked { waits: Option<(NodeId, i64)>, by_error: bool },
    /// CLIENT UNBLOCK: the client waited for no node, and was let go.
    LetGo,
    /// CLIENT TRACKING with REDIRECT: the client that is to be told, and what.
    Redirect { found: Option<Redirect>, tracking: Box<Tracking> },
    /// ACL LOAD and SAVE, before it was done.
    ControlJob(Task),
    /// All workers are to know new users: ACL LOAD and SETUSER; or how many there are less: DELUSER.
    Users { deleted: Option<usize> },
    /// It cannot be done.
    Refused(String),
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct Inquiries {
    pending: Slab<Inquiry>,
    /// Those with a deadline.
    deadlines: BTreeSet<(Instant, Id)>,
    /// Questions for the lines of all clients that were not put yet.
    listings: VecDeque<(Id, Arc<Question>)>,
    /// The one that was put last.
    listing: Option<Id>,
    /// It was put in this turn.
    has_listed: bool,
}

impl Inquiries {
    fn insert(&mut self, inquiry: Inquiry) -> Id {
        let deadline = inquiry.deadline;
        let id = self.pending.insert(inquiry);
        if deadline != Instant::NEVER {
            self.deadlines.insert((deadline, id));
        }
        id
    }

    /// Forgets an inquiry; answers that come later find nothing.
    pub(crate) fn remove(&mut self, id: Id) -> Option<Inquiry> {
        let inquiry = self.pending.remove(id)?;
        self.deadlines.remove(&(inquiry.deadline, id));
        Some(inquiry)
    }

    /// It ends at `deadline`.
    fn set_deadline(&mut self, id: Id, deadline: Instant) {
        if let Some(inquiry) = self.pending.get_mut(id) {
            self.deadlines.remove(&(inquiry.deadline, id));
            inquiry.deadline = deadline;
            self.deadlines.insert((deadline, id));
        }
    }

    /// A turn begins, in which one listing may be put.
    pub(crate) fn begin_turn(&mut self) {
        self.has_listed = false;
    }

    /// When the first of them ends at the latest.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadlines.first().map_or(Instant::NEVER, |(deadline, _)| *deadline)
    }

    /// Places in clients' orders that wait, and whether nothing behind is read until then.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = ((ConnId, u32), bool)> {
        self.pending.iter().map(|(_, inquiry)| {
            let has_barrier = matches!(inquiry.gathered, Gathered::Redirect { .. });
            ((inquiry.conn, inquiry.place), has_barrier)
        })
    }

    /// What those who list clients are counted for, and what they hold.
    pub(crate) fn accounts_of_lines(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pending.iter().filter_map(|(_, inquiry)| match &inquiry.gathered {
            Gathered::Lines { lines, charge, .. } => Some((charge.bytes(), bytes_of(lines))),
            _ => None,
        })
    }

    /// The same of those who are about to redirect what they track.
    pub(crate) fn accounts_of_redirects(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pending.iter().filter_map(|(_, inquiry)| match &inquiry.gathered {
            Gathered::Redirect { tracking, .. } => Some(tracking.account()),
            _ => None,
        })
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }
}

impl Core {
    /// Reserves the client's place for what comes of `gathered`, which ends after `left` answers or at `deadline`. If
    /// too many wait already, the client is told so.
    pub(crate) fn inquire(
        &mut self,
        session: &mut Session,
        gathered: Gathered,
        left: usize,
        deadline: Instant,
    ) -> Option<Id> {
        if self.tasks.inquiries.len() >= self.limits.inquiries_max {
            self.refuse(session, errors::INQUIRIES_MAX);
            return None;
        }
        let (conn, place) = (session.conn, session.replies.next_place());
        let (command, asked_us) = (self.engine.asking, self.engine.now_us);
        let resp3 = session.resp3;
        let inquiry = Inquiry { conn, place, left, deadline, command, asked_us, resp3, gathered };
        let id = self.tasks.inquiries.insert(inquiry);
        session.replies.reserve(Owed::Task(TaskId::Inquiry(id)));
        Some(id)
    }

    /// Asks all workers, this one too: as soon as the session that asks is out of hand. False if that was refused.
    pub(crate) fn ask_workers(
        &mut self,
        session: &mut Session,
        question: Question,
        gathered: Gathered,
    ) -> bool {
        let deadline = match question {
            // Its time begins when it is put.
            Question::List { .. } => Instant::NEVER,
            _ => self.engine.now + self.engine.limits.request_timeout,
        };
        let inquiry = self.inquire(session, gathered, self.settings.workers, deadline);
        self.tasks.questions.extend(inquiry.map(|inquiry| (inquiry, Arc::new(question))));
        inquiry.is_some()
    }

    /// Asks all shards that can be asked with `request`, over these connections. `survey` knows of the others why they
    /// cannot.
    pub(crate) fn ask_shards(
        &mut self,
        session: &mut Session,
        request: &[u8],
        shards: &[(ShardId, LinkIx)],
        survey: Survey,
    ) {
        // Every ticket is answered in its time, if only with the loss of its request: no deadline is needed.
        let survey = Gathered::Survey(survey);
        let Some(inquiry) = self.inquire(session, survey, shards.len(), Instant::NEVER) else { return };
        for &(shard, ix) in shards {
            // An inquiry has no client of its own: its number takes the place of one.
            let asked = Asked {
                conn: inquiry,
                place: 0,
                part: shard.0,
                owner: Owner::Task(TaskKind::Inquiry),
                kept: Kept::NO,
            };
            self.engine.enqueue_on(ix, request, asked);
        }
    }
}

impl Core {
    /// Whether a client waits for the lines of all clients and may have them: none are on the way, and there is memory.
    pub(crate) fn has_listing_to_put(&self) -> bool {
        let inquiries = &self.tasks.inquiries;
        let is_asking = inquiries.listing.is_some_and(|id| inquiries.pending.get(id).is_some());
        !(inquiries.listings.is_empty() || is_asking || self.engine.memory.is_full())
    }

    /// Tells another worker what was carried out here.
    pub(crate) fn mail_lines(&mut self, worker: usize, lines: Arc<[u8]>) {
        self.post(worker, Content::Carried(lines));
    }

    /// Tells the worker of the client to which `from` redirects what has changed.
    pub(crate) fn mail_changes(&mut self, from: ConnId, redirect: Redirect, changes: Arc<[u8]>) {
        let (worker, to) = (self.settings.worker, redirect.conn);
        self.post(redirect.worker, Content::Changes { worker, from, to, changes });
    }

    fn post(&mut self, worker: usize, content: Content) {
        let charge = self.engine.memory.charge_gathered(content.held_bytes());
        self.outside.mail.push_back((worker, Mail { content, charge }));
    }
}

impl Proxy {
    /// What is to be delivered to another worker: which, and what. If that worker has stopped, the sender is to be
    /// handed [`Mail::undelivered`].
    pub fn poll_mail(&mut self) -> Option<(usize, Mail)> {
        self.core.outside.mail.pop_front()
    }

    /// Another worker's core said something.
    pub fn handle_mail(&mut self, mail: Mail, now: Instant) {
        self.core.begin(now);
        match mail.content {
            Content::Question { from, inquiry, question } => self.answer_question(from, inquiry, &question),
            Content::Answer { inquiry, findings } => self.absorb_findings(inquiry, findings),
            Content::Carried(lines) => self.show_lines(&lines),
            Content::Changes { worker, from, to, changes } => {
                if !self.handle_redirected(to, &changes) {
                    self.core.post(worker, Content::Broken { from });
                }
            }
            Content::Broken { from } => self.break_redirect(from),
        }
        self.follow_up();
    }

    /// Asks the other workers what is to be asked first, and answers for this one.
    #[cold]
    pub(crate) fn put_question(&mut self) {
        let Some((inquiry, question)) = self.core.tasks.questions.pop_front() else { return };
        if matches!(*question, Question::List { .. }) {
            self.core.tasks.inquiries.listings.push_back((inquiry, question));
            return self.put_listing();
        }
        self.put(inquiry, question);
    }

    /// Asks all workers for the lines of their clients, on behalf of the client that has waited longest for them. The lines
    /// may be many: a worker has one such question on the way, and asks one in a turn.
    pub(crate) fn put_listing(&mut self) {
        while self.core.engine.has_memory()
            && self.core.has_listing_to_put()
            && !self.core.tasks.inquiries.has_listed
        {
            let Some((inquiry, question)) = self.core.tasks.inquiries.listings.pop_front() else { return };
            if self.core.tasks.inquiries.pending.get(inquiry).is_none() {
                // Its client has gone.
                continue;
            }
            let deadline = self.core.engine.now + self.core.engine.limits.request_timeout;
            self.core.tasks.inquiries.set_deadline(inquiry, deadline);
            (self.core.tasks.inquiries.listing, self.core.tasks.inquiries.has_listed) = (Some(inquiry), true);
            self.put(inquiry, question);
        }
    }

    fn put(&mut self, inquiry: Id, question: Arc<Question>) {
        let from = self.core.settings.worker;
        for worker in (0..self.core.settings.workers).filter(|&worker| worker != from) {
            let question = Arc::clone(&question);
            self.core.post(worker, Content::Question { from, inquiry, question });
        }
        self.answer_question(from, inquiry, &question);
    }

    /// Answers what the worker `from` asks, now or when it is known.
    fn answer_question(&mut self, from: usize, inquiry: Id, question: &Question) {
        let findings = self.find_out(question);
        let link = match findings {
            Findings::WaitsSomewhere(link) => link,
            findings => return self.send_findings(from, inquiry, findings),
        };
        self.core.holders.seekers.push(Seeker { link, worker: from, inquiry });
        self.answer_seekers(link);
    }

    fn send_findings(&mut self, to: usize, inquiry: Id, findings: Findings) {
        if to == self.core.settings.worker {
            self.absorb_findings(inquiry, findings);
        } else {
            self.core.post(to, Content::Answer { inquiry, findings });
        }
    }

    /// Tells those who seek the client that waits on the connection `ix` all of it, if it is known by now, or if the
    /// connection is gone.
    pub(crate) fn answer_seekers(&mut self, ix: LinkIx) {
        let link = &mut self.core.engine.links[ix];
        if link.features.name == NodeName::Asked {
            return;
        }
        let (sought, others) =
            std::mem::take(&mut self.core.holders.seekers).into_iter().partition(|seeker| seeker.link == ix);
        self.core.holders.seekers = others;
        let sought: Vec<Seeker> = sought;
        for Seeker { worker, inquiry, .. } in sought {
            let link = &mut self.core.engine.links[ix];
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

    /// Answers for this worker.
    fn find_out(&mut self, question: &Question) -> Findings {
        match question {
            Question::Find { client } => {
                let worker = self.core.settings.worker;
                let found = self.sessions().find(|session| session.origin.client == *client);
                let found = found.map(|session| Redirect { client: *client, worker, conn: session.conn });
                found.map_or(Findings::Nothing, Findings::Client)
            }
            Question::Seek { client, user, by_error } => match self.where_waits(*client, user.as_deref()) {
                (Some(node), _) => Findings::WaitsSomewhere(node),
                (None, Some(pop)) => {
                    self.end_wait_for_key(pop, by_error.then_some(errors::UNBLOCKED));
                    Findings::LetGo
                }
                (None, None) => Findings::Nothing,
            },
            Question::List { asker, listing, user } => {
                let lines = self.sessions().filter(|session| session.origin.client != *asker);
                let lines = lines.filter(|session| session.features.is_of(user.as_deref()));
                let lines = lines.filter(|session| listing.takes(session));
                Findings::Lines(
                    lines.map(|session| (session.origin.client, self.core.client_line(session))).collect(),
                )
            }
            Question::Kill { asker, filter } => {
                let killed = self.sessions().filter(|session| session.origin.client != *asker);
                let killed: Vec<ConnId> =
                    killed.filter(|session| filter.takes(session)).map(|session| session.conn).collect();
                killed.iter().for_each(|&conn| self.close_client(conn));
                Findings::Count(killed.len() as u64)
            }
            Question::Pause(order) => {
                self.pause(*order);
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

    /// The connection or the plan that this client waits for, if it is this user's, if that is said.
    fn where_waits(&self, client: u64, user: Option<&[u8]>) -> (Option<LinkIx>, Option<Id>) {
        let is_sought = |session: &&Session| session.origin.client == client && session.features.is_of(user);
        let sought = self.sessions().find(is_sought);
        sought.map_or((None, None), |session| (session.wait.on, self.core.waiting_pop(session)))
    }

    fn absorb_findings(&mut self, id: Id, findings: Findings) {
        // The client may have gone, or its time have been up.
        let Some(inquiry) = self.core.tasks.inquiries.pending.get_mut(id) else { return };
        match (&mut inquiry.gathered, findings) {
            (Gathered::Lines { lines, charge, .. }, Findings::Lines(found)) => {
                charge.add(bytes_of(&found));
                lines.extend(found);
            }
            (Gathered::Killed { count, .. }, Findings::Count(found)) => *count += found,
            (Gathered::Redirect { found, .. }, Findings::Client(redirect)) => *found = Some(redirect),
            (Gathered::Unblocked { waits, .. }, Findings::Waits { id, name }) => {
                *waits = Some((id, name));
            }
            (gathered @ Gathered::Unblocked { .. }, Findings::LetGo) => *gathered = Gathered::LetGo,
            _ => {}
        }
        self.absorbed(id);
    }

    /// What is waited for has become something else.
    pub(crate) fn replace_gathered(&mut self, id: Id, gathered: Gathered) {
        if let Some(inquiry) = self.core.tasks.inquiries.pending.get_mut(id) {
            inquiry.gathered = gathered;
        }
    }

    /// What came of the question to one shard.
    pub(crate) fn absorb_report(&mut self, id: Id, shard: ShardId, outcome: &Outcome<'_>) {
        let Some(inquiry) = self.core.tasks.inquiries.pending.get_mut(id) else { return };
        if let Gathered::Survey(survey) = &mut inquiry.gathered {
            survey.absorb(shard, outcome);
        }
        self.absorbed(id);
    }

    /// One answer more is there.
    fn absorbed(&mut self, id: Id) {
        let Some(inquiry) = self.core.tasks.inquiries.pending.get_mut(id) else { return };
        inquiry.left = inquiry.left.saturating_sub(1);
        if inquiry.left == 0 {
            self.conclude(id);
        }
    }

    /// Ends the inquiries whose time is up.
    pub(crate) fn conclude_late(&mut self) {
        while let Some(&(deadline, id)) = self.core.tasks.inquiries.deadlines.first() {
            if deadline > self.core.engine.now {
                return;
            }
            self.conclude(id);
        }
    }

    /// Answers the client with what is known.
    pub(crate) fn conclude(&mut self, id: Id) {
        let Some(inquiry) = self.core.tasks.inquiries.remove(id) else { return };
        if let Gathered::Unblocked { waits: Some((node, name)), by_error } = inquiry.gathered
            && let Some(Peer::Client(session)) = self.peers.get_mut(inquiry.conn)
            && self.core.unblock(session, inquiry.place, node, name, by_error)
        {
            return;
        }
        let mut reply = self.core.engine.pool.take();
        match (inquiry.gathered, self.peers.get_mut(inquiry.conn)) {
            (Gathered::Redirect { found, tracking }, Some(Peer::Client(session))) => {
                if !self.core.begin_redirected(session, inquiry.place, found, tracking, &mut reply) {
                    return;
                }
            }
            (gathered, _) => gathered.write(&mut self.core, inquiry.resp3, &mut reply),
        }
        if let Some(Peer::Client(session)) = self.peers.get_mut(inquiry.conn) {
            let core = &mut self.core;
            core.stats.tally.count_reply(inquiry.command, inquiry.asked_us, core.engine.now_us, &reply);
            let overfull = core.settle(session, inquiry.place, &reply);
            core.engine.recount_client(session);
            if overfull {
                self.core.note_closed(session, CloseReason::OutputLimit);
                self.close_client(inquiry.conn);
            } else {
                self.close_if_finished(inquiry.conn);
            }
        }
        self.core.engine.pool.give(reply);
    }
}

impl Gathered {
    fn write(self, core: &mut Core, resp3: bool, out: &mut Vec<u8>) {
        match self {
            Gathered::Lines { listing, lines, .. } => listing.write(lines, resp3, out),
            Gathered::Killed { count: 0, by_address: true } => errors::write(out, errors::NO_SUCH_CLIENT),
            Gathered::Killed { by_address: true, .. }
            | Gathered::Done
            | Gathered::Users { deleted: None } => encode::simple(out, b"OK"),
            Gathered::Users { deleted: Some(deleted) } => encode::integer(out, deleted as i64),
            // Its client has gone.
            Gathered::Redirect { .. } => {}
            Gathered::ControlJob(Task::LoadUsers) => errors::write(out, errors::USERS_LATE_LOADED),
            Gathered::ControlJob(Task::SaveUsers) => errors::write(out, errors::USERS_LATE_SAVED),
            Gathered::Refused(text) => errors::write(out, &text),
            Gathered::Killed { count, by_address: false } => encode::integer(out, count as i64),
            Gathered::Unblocked { .. } => encode::integer(out, 0),
            Gathered::LetGo => encode::integer(out, 1),
            Gathered::Survey(survey) => core.write_survey(&survey, resp3, out),
        }
    }
}

/// Bytes that the lines of clients hold.
pub(crate) fn bytes_of(lines: &[(u64, String)]) -> usize {
    size_of_val(lines) + lines.iter().map(|(_, line)| line.len()).sum::<usize>()
}
