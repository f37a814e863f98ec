//! Answers to questions over all workers or all shards.

use crate::ConnId;
use crate::link::LinkIx;
use crate::local::filter::{Filter, Listing};
use crate::local::info::survey::Survey;
use crate::login::job::Task;
use crate::pause::order::Order;
use crate::tracking::{Redirect, Tracking};
use command::Number;
use engine::memory::Charge;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use stdx::{Id, Instant, Slab};
use topology::NodeId;
use users::Users;

/// A message from one worker's core to another's. [`Proxy::poll_mail`](crate::Proxy::poll_mail) returns it, and
/// [`Proxy::handle_mail`](crate::Proxy::handle_mail) takes it. Nothing in between reads it.
#[derive(Debug)]
pub struct Mail {
    pub(crate) content: Content,
    /// Counts at the sender until the receiver has taken the message.
    pub(crate) charge: Charge,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// A question of the worker `from`.
    Question {
        from: usize,
        inquiry: Id,
        question: Arc<Question>,
    },
    Answer {
        inquiry: Id,
        findings: Findings,
    },
    /// Commands that were carried out there, for clients with MONITOR.
    Carried(Arc<[u8]>),
    /// Changed keys for the client `to`, to which `from` of that worker redirects.
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
    /// The answer to the sender if the receiver has stopped: nothing was found there.
    pub fn undelivered(self) -> Option<Mail> {
        let content = match self.content {
            Content::Question { inquiry, .. } => Content::Answer { inquiry, findings: Findings::Nothing },
            Content::Changes { from, .. } => Content::Broken { from },
            Content::Answer { .. } | Content::Carried(_) | Content::Broken { .. } => return None,
        };
        Some(Mail { content, charge: Charge::default() })
    }

    /// Bytes as counted.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.charge.bytes()
    }
}

impl Content {
    /// Bytes as held. A message to several workers counts for each of them.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Content::Answer { findings: Findings::Lines(lines), .. } => bytes_of(lines),
            Content::Carried(lines) => lines.len(),
            Content::Changes { changes, .. } => changes.len(),
            Content::Question { .. } | Content::Answer { .. } | Content::Broken { .. } => 0,
        }
    }
}

/// A question to each worker.
#[derive(Debug)]
pub(crate) enum Question {
    /// The lines of its clients, without that of the client that asks. If a user is named, only clients of this user.
    List { asker: u64, listing: Listing, user: Option<Box<[u8]>> },
    /// Close matching clients, except the one that asks.
    Kill { asker: u64, filter: Filter },
    /// Reset the counters.
    ResetStatistics,
    /// Pause clients, or end the pause.
    Pause(Option<Order>),
    /// The link on which this client waits, if it is a client of `user` or none is named. If it waits without a node,
    /// unblock it at once.
    Seek { client: u64, user: Option<Box<[u8]>>, by_error: bool },
    /// Whether this client is here, for redirection to it.
    Find { client: u64 },
    /// Use these users from now on.
    Users(Arc<Users>),
}

/// The answer of one worker.
#[derive(Debug)]
pub(crate) enum Findings {
    Nothing,
    /// Lines by client.
    Lines(Vec<(u64, String)>),
    Count(u64),
    /// The waiting client was unblocked.
    LetGo,
    /// The client is here.
    Client(Redirect),
    /// The client waits on this link.
    WaitsSomewhere(LinkIx),
    /// The client waits at this node, on the connection with the node's number.
    Waits {
        id: NodeId,
        name: i64,
    },
}

/// An inquiry about the client that waits on `link`.
#[derive(Debug)]
pub(crate) struct Seeker {
    pub link: LinkIx,
    pub worker: usize,
    pub inquiry: Id,
}

/// One question of a client, and the answers so far.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub conn: ConnId,
    /// The place in the client's order.
    pub place: u32,
    /// Answers that are still to come.
    pub left: usize,
    pub deadline: Instant,
    /// The command and the instant of the request, for the statistics.
    pub command: Number,
    pub asked_us: u32,
    /// Whether the client spoke RESP3 when it asked.
    pub resp3: bool,
    pub gathered: Gathered,
}

/// The answers so far, by the kind of question.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// CLIENT LIST.
    Lines { listing: Listing, lines: Vec<(u64, String)>, charge: Charge },
    /// CLIENT KILL. If it selects by address alone, no match is an error.
    Killed { count: u64, by_address: bool },
    /// All have carried out the request.
    Done,
    /// INFO.
    Survey(Survey),
    /// CLIENT UNBLOCK: the node and number of the client's link, if it waits, and whether it gets an error.
    Unblocked { waits: Option<(NodeId, i64)>, by_error: bool },
    /// CLIENT UNBLOCK: the client waited without a node and was unblocked.
    LetGo,
    /// CLIENT TRACKING with REDIRECT: the client to notify, and the settings.
    Redirect { found: Option<Redirect>, tracking: Box<Tracking> },
    /// ACL LOAD, ACL SAVE and PROXY RELOAD, not carried out yet.
    ControlJob(Task),
    /// New users for all workers, by ACL LOAD and SETUSER, or by DELUSER with the number of deleted users.
    Users { deleted: Option<usize> },
    /// Refused with this error.
    Refused(String),
    /// PROXY RELOAD: this reply.
    Written(Vec<u8>),
}

/// All inquiries.
#[derive(Debug, Default)]
pub(crate) struct Inquiries {
    pub pending: Slab<Inquiry>,
    /// Questions to all workers, to be sent once the session that asks is released.
    pub questions: VecDeque<(Id, Arc<Question>)>,
    /// The deadlines of inquiries that have one.
    pub deadlines: BTreeSet<(Instant, Id)>,
    /// Questions for the lines of all clients that were not sent yet.
    pub listings: VecDeque<(Id, Arc<Question>)>,
    /// The one that was sent last.
    pub listing: Option<Id>,
    /// Whether one was sent in this turn.
    pub has_listed: bool,
}

impl Inquiry {
    /// Counts an answer. Returns whether it was the last one.
    pub(crate) fn count_answer(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }
}

impl Inquiries {
    pub(crate) fn insert(&mut self, inquiry: Inquiry) -> Id {
        let deadline = inquiry.deadline;
        let id = self.pending.insert(inquiry);
        if deadline != Instant::NEVER {
            self.deadlines.insert((deadline, id));
        }
        id
    }

    /// Removes an inquiry. Later answers are dropped.
    pub(crate) fn remove(&mut self, id: Id) -> Option<Inquiry> {
        let inquiry = self.pending.remove(id)?;
        self.deadlines.remove(&(inquiry.deadline, id));
        Some(inquiry)
    }

    /// Sets the deadline of an inquiry.
    pub(crate) fn set_deadline(&mut self, id: Id, deadline: Instant) {
        if let Some(inquiry) = self.pending.get_mut(id) {
            self.deadlines.remove(&(inquiry.deadline, id));
            inquiry.deadline = deadline;
            self.deadlines.insert((deadline, id));
        }
    }

    /// Begins a turn, in which one listing may be sent.
    pub(crate) fn begin_turn(&mut self) {
        self.has_listed = false;
    }

    /// The first deadline.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadlines.first().map_or(Instant::NEVER, |(deadline, _)| *deadline)
    }

    /// The places in clients' orders that wait, and whether no request behind them is read.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = ((ConnId, u32), bool)> {
        self.pending.iter().map(|(_, inquiry)| {
            let has_barrier = matches!(inquiry.gathered, Gathered::Redirect { .. });
            ((inquiry.conn, inquiry.place), has_barrier)
        })
    }

    /// Bytes of listings as counted, and as held now.
    pub(crate) fn accounts_of_lines(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pending.iter().filter_map(|(_, inquiry)| match &inquiry.gathered {
            Gathered::Lines { lines, charge, .. } => Some((charge.bytes(), bytes_of(lines))),
            _ => None,
        })
    }

    /// The same for redirections that are being set up.
    pub(crate) fn accounts_of_redirects(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pending.iter().filter_map(|(_, inquiry)| match &inquiry.gathered {
            Gathered::Redirect { tracking, .. } => Some(tracking.account()),
            _ => None,
        })
    }

    /// Number of inquiries.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }
}

/// Memory in use by the lines of clients.
pub(crate) fn bytes_of(lines: &[(u64, String)]) -> usize {
    size_of_val(lines) + lines.iter().map(|(_, line)| line.len()).sum::<usize>()
}
