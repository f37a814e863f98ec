//! What questions over all workers, or over all shards, have been answered.

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

/// What one worker's core says to another's. [`Proxy::poll_mail`](crate::Proxy::poll_mail) gives it, [`Proxy::handle_mail`](crate::Proxy::handle_mail) takes it; nobody
/// between them looks inside.
#[derive(Debug)]
pub struct Mail {
    pub(crate) content: Content,
    /// Counts at the sender until the receiver has taken it in.
    pub(crate) charge: Charge,
}

#[derive(Debug)]
pub(crate) enum Content {
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
    pub(crate) fn held_bytes(&self) -> usize {
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
    pub link: LinkIx,
    pub worker: usize,
    pub inquiry: Id,
}

/// One question of one client, and what was answered so far.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub conn: ConnId,
    /// In the client's order.
    pub place: u32,
    /// Answers that are still to come.
    pub left: usize,
    pub deadline: Instant,
    /// What was asked, and when, for the statistics.
    pub command: Number,
    pub asked_us: u32,
    /// What the client spoke when it asked.
    pub resp3: bool,
    pub gathered: Gathered,
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
    pub pending: Slab<Inquiry>,
    /// Questions to all workers that are to be put once the session that asks is out of hand.
    pub questions: VecDeque<(Id, Arc<Question>)>,
    /// Those with a deadline.
    pub deadlines: BTreeSet<(Instant, Id)>,
    /// Questions for the lines of all clients that were not put yet.
    pub listings: VecDeque<(Id, Arc<Question>)>,
    /// The one that was put last.
    pub listing: Option<Id>,
    /// It was put in this turn.
    pub has_listed: bool,
}

impl Inquiry {
    /// Counts an answer. Whether no other is expected.
    pub(crate) fn is_last_answer(&mut self) -> bool {
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

    /// Forgets an inquiry; answers that come later find nothing.
    pub(crate) fn remove(&mut self, id: Id) -> Option<Inquiry> {
        let inquiry = self.pending.remove(id)?;
        self.deadlines.remove(&(inquiry.deadline, id));
        Some(inquiry)
    }

    /// It ends at `deadline`.
    pub(crate) fn set_deadline(&mut self, id: Id, deadline: Instant) {
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

/// Bytes that the lines of clients hold.
pub(crate) fn bytes_of(lines: &[(u64, String)]) -> usize {
    size_of_val(lines) + lines.iter().map(|(_, line)| line.len()).sum::<usize>()
}
