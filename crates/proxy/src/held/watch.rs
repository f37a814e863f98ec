//! Whether keys are watched for a client, and on which links.

use crate::link::LinkIx;

/// Whether keys are watched for a client's transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    /// None.
    #[default]
    No,
    /// On this connection.
    On(LinkIx),
    /// On several, or they will be.
    Several(Box<Watches>),
    /// The first WATCH is in flight on this connection.
    Asked(LinkIx),
    /// They were, and EXEC is in flight on this connection: its reply ends the watch.
    Ending(LinkIx),
    /// They were, on a connection that was lost.
    Lost,
}

/// The connections of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watches {
    /// Keys are watched there.
    pub on: Vec<LinkIx>,
    /// The first WATCH is in flight there.
    pub asked: Vec<LinkIx>,
}

impl Watches {
    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = LinkIx> {
        self.on.iter().chain(&self.asked).copied()
    }

    /// What is watched, if there is less than several connections.
    pub(crate) fn settle(self) -> Watch {
        match (self.on.as_slice(), self.asked.as_slice()) {
            ([], []) => Watch::No,
            (&[node], []) => Watch::On(node),
            _ => Watch::Several(Box::new(self)),
        }
    }
}

/// What became of the first WATCH on a connection.
pub(crate) enum Asking {
    /// It was that connection's: what is watched now, and whether the connection may be used again, if it is not held.
    Ended(Watch, Option<bool>),
    /// It was not.
    NotIt(Watch),
}

impl Watch {
    /// Keys are to be watched on one connection more.
    pub(crate) fn add(self, ix: LinkIx) -> Watch {
        let mut watches = match self {
            Watch::On(first) => Watches { on: vec![first], asked: Vec::new() },
            Watch::Asked(first) => Watches { on: Vec::new(), asked: vec![first] },
            Watch::Several(watches) => *watches,
            other => {
                debug_assert_eq!(
                    other,
                    Watch::No,
                    "a lost watch is not forgotten, and none begins while EXEC ends one"
                );
                return Watch::Asked(ix);
            }
        };
        watches.asked.push(ix);
        Watch::Several(Box::new(watches))
    }

    /// The first WATCH on `ix` has failed, or not; meanwhile its keys may have gone elsewhere.
    pub(crate) fn end_asking(self, ix: LinkIx, failed: bool, has_lost_keys: bool) -> Asking {
        let Watch::Several(mut watches) = self else { return Asking::NotIt(self) };
        let Some(at) = watches.asked.iter().position(|&asked| asked == ix) else {
            return Asking::NotIt(Watch::Several(watches));
        };
        watches.asked.remove(at);
        let left = match (failed, has_lost_keys) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => {
                watches.on.push(ix);
                None
            }
        };
        Asking::Ended(watches.settle(), left)
    }

    /// Whether keys are watched on `ix`, among others.
    pub(crate) fn is_on(&self, ix: LinkIx) -> bool {
        match self {
            Watch::On(own) => *own == ix,
            Watch::Several(watches) => watches.on.contains(&ix),
            _ => false,
        }
    }
}
