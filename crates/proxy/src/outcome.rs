//! What came of a request or of a connection, and what a feature has the proxy do about others.

use crate::ConnId;
use crate::errors::Lost;
use crate::features::Ticket;
use crate::link::LinkIx;
use command::Number;
use std::collections::BTreeSet;
use stdx::Id;
use topology::ShardId;

/// What came of a request: the reply's bytes, or why there are none.
pub(crate) enum Outcome<'a> {
    Reply(&'a [u8]),
    Lost(Lost),
}

/// Why a connection to a node is given up.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It ended, or never began.
    Gone(String),
    /// Its node is none that can be meant.
    Refused(String),
    /// It said what is no reply, or what nobody asked for.
    Garbled(String),
}

/// Nobody subscribes to anything on a connection that replies come on. What looks like a push there may be meant as a
/// reply, so it cannot be left out either.
#[cold]
pub(crate) fn unasked_push() -> Fault {
    Fault::Garbled("unexpected push".to_owned())
}

/// What a feature cannot do itself, since it concerns other features too: the proxy does it as soon as the feature is done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The client is closed.
    Close(ConnId),
    /// The link is given up.
    Fail(LinkIx, Fault),
    /// The owner of the ticket gets the loss.
    Lose(Ticket, Lost),
    /// The client gets the reply of its task.
    End(TaskEnd),
    /// The nodes of these shards are to tell of changes, since an emulation waits for keys there.
    HearOfChanges(Id, BTreeSet<ShardId>),
    /// Subscribers that do not read hold much.
    RelieveOfSubscribers,
}

/// A task that has its reply: nothing that its client sent behind it was carried out meanwhile.
#[derive(Debug)]
pub(crate) struct TaskEnd {
    pub conn: ConnId,
    pub place: u32,
    /// What was asked, and when, for the statistics.
    pub command: Number,
    pub asked_us: u32,
    pub reply: Vec<u8>,
}

/// Whether a request was carried out or has to be read again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was answered, queued or refused.
    Done,
    /// It needs a command that is being learnt, or has to go by itself.
    Later,
}
