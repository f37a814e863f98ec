//! Outcomes of requests and links, and the effects that features have on others.

use crate::ConnId;
use crate::errors::Lost;
use crate::features::Ticket;
use crate::link::LinkIx;
use command::Number;
use std::collections::BTreeSet;
use stdx::Id;
use topology::ShardId;

/// The outcome of a request: the reply's bytes, or the loss.
pub(crate) enum Outcome<'a> {
    Reply(&'a [u8]),
    Lost(Lost),
}

/// Why a link is closed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection ended, or could not be opened.
    Gone(String),
    /// The node cannot be the one that the topology means.
    Refused(String),
    /// The node sent bytes that are not a reply, or a reply without a request.
    Garbled(String),
}

impl Fault {
    /// The reason for the log and for clients.
    pub(crate) fn reason(&self) -> String {
        match self {
            Fault::Gone(reason) | Fault::Refused(reason) => reason.clone(),
            Fault::Garbled(error) => format!("protocol error: {error}"),
        }
    }
}

/// The fault of a reply without a request.
#[cold]
pub(crate) fn unexpected_reply() -> Fault {
    Fault::Garbled("unexpected reply".to_owned())
}

/// The fault of a link for replies on which a push comes. No subscription uses such a link. The push may be meant as a
/// reply, so it cannot be skipped either.
#[cold]
pub(crate) fn unasked_push() -> Fault {
    Fault::Garbled("unexpected push".to_owned())
}

/// An action of the proxy for a feature that concerns other features too. The proxy takes it as soon as the feature is
/// done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Close the client.
    Close(ConnId),
    /// Close the link.
    Fail(LinkIx, Fault),
    /// Deliver the loss to the owner of the ticket.
    Lose(Ticket, Lost),
    /// Deliver the reply of a task to its client.
    End(TaskEnd),
    /// Have the nodes of these shards report changes, since an emulation waits for keys there.
    HearOfChanges(Id, BTreeSet<ShardId>),
    /// Close subscribers that do not read and hold much.
    RelieveOfSubscribers,
}

/// The end of a task. No request behind it was carried out meanwhile.
#[derive(Debug)]
pub(crate) struct TaskEnd {
    pub conn: ConnId,
    pub place: u32,
    /// The command and the instant of the request, for the statistics.
    pub command: Number,
    pub asked_us: u32,
    pub reply: Vec<u8>,
}

/// Whether a request was carried out or has to be read again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The request was answered, queued or refused.
    Done,
    /// The request must run alone, or its command is not known yet.
    Later,
}
