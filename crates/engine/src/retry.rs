//! Requests that are sent again. A request that a node may have run is sent again only if it changes nothing.
//!
//! | why | writes | where to | how often | order of the client's requests |
//! | --- | --- | --- | --- | --- |
//! | the link failed, is suspect or clogged | no | the link that takes its place | once | only if all requests of the client in flight there are such reads |
//! | a replica did not answer | no | the primary of its shard | once for each replica | later writes of the client wait for its reads |
//! | its reply is large | no | a pinned link to the same shard | once | with all requests of the client in flight there |
//! | its node lacks the script that it names | yes | the shard of its keys, behind the script | once | only if it is the client's last |
//! | a node declined it, or it was not sent | yes | the node that is named, or the shard's primary | five times | requests for one slot keep their order; else the client waits |

use crate::features::Features;
use crate::link::kept::Kept;
use crate::link::profile::ProfileId;
use crate::link::{Link, Ticket};
use topology::ShardId;

/// A request that is to be sent again, and is in flight on no link.
#[derive(Debug)]
pub struct Retry<F: Features> {
    /// The owner and kind of the request.
    pub ticket: Ticket<F>,
    /// The bytes of the request.
    pub request: Vec<u8>,
    /// The profile of the links that it may use.
    pub profile: ProfileId,
    /// The shard that it was sent to.
    pub shard: ShardId,
}

impl<F: Features> Retry<F> {
    /// The `request` of `ticket`, which is or was in flight on `link`; `None` if it may not be sent again.
    pub fn new(why: Why, link: &Link<F>, ticket: Ticket<F>, request: Vec<u8>) -> Option<Retry<F>> {
        let kept = why.next(ticket.kept)?;
        let ticket = Ticket { kept, ..ticket };
        Some(Retry { ticket, request, profile: link.profile, shard: link.shard })
    }
}

/// Why a request is sent again: see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its link failed, is suspect or clogged.
    LinkFailed,
    /// A replica did not answer it.
    ReplicaFailed,
    /// Its reply is large.
    LargeReply,
    /// Its node lacks the script or the function that it names.
    ScriptMissing,
    /// A node declined it, or it was not sent.
    NotRun,
}

impl Why {
    /// The next state of `kept` for a request that is sent again; `None` if it may not be.
    pub fn next(self, kept: Kept) -> Option<Kept> {
        match self {
            Why::LinkFailed => kept.may_be_repeated().then(|| kept.repeated()),
            Why::ReplicaFailed => kept.is_kept().then_some(Kept::READ),
            Why::LargeReply => kept.is_read().then_some(Kept::NO),
            Why::ScriptMissing => (kept.is_kept() && !kept.was_repeated()).then(|| kept.repeated()),
            Why::NotRun => kept.redirected(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_sent_again_only_if_not_run() {
        assert!(Why::NotRun.next(Kept::UNTIL_RUN).is_some());
        for why in [Why::LinkFailed, Why::LargeReply] {
            assert_eq!(why.next(Kept::UNTIL_RUN), None, "{why:?}");
            assert!(why.next(Kept::READ).is_some(), "{why:?}");
        }
    }

    #[test]
    fn a_request_is_sent_again_once_for_its_script() {
        for kept in [Kept::UNTIL_RUN, Kept::READ] {
            let again = Why::ScriptMissing.next(kept).expect("it is kept");
            assert_eq!(Why::ScriptMissing.next(again), None);
            assert!(Why::NotRun.next(again).is_some(), "its node may still decline it");
        }
        assert_eq!(Why::ScriptMissing.next(Kept::NO), None);
    }

    #[test]
    fn a_read_is_sent_again_once_for_its_link() {
        let again = Why::LinkFailed.next(Kept::READ).expect("it is a read");
        assert_eq!(Why::LinkFailed.next(again), None);
        assert_eq!(Why::LargeReply.next(again), Some(Kept::NO));
        assert_eq!(Why::LargeReply.next(Kept::NO), None);
    }
}
