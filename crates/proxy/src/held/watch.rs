//! Whether keys are watched for a client, and on which links.

use crate::link::LinkIx;

/// Whether keys are watched for a client's transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    /// No keys are watched.
    #[default]
    No,
    /// Keys are watched on this link.
    On(LinkIx),
    /// Keys are watched on several links, or will be.
    Several(Box<Watches>),
    /// The first WATCH is in flight on this link.
    Asked(LinkIx),
    /// EXEC is in flight on this link, where keys are watched: its reply ends the watch.
    Ending(LinkIx),
    /// Keys were watched on a link that was lost.
    Lost,
}

/// The links of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watches {
    /// Links on which keys are watched.
    pub on: Vec<LinkIx>,
    /// Links on which the first WATCH is in flight.
    pub asked: Vec<LinkIx>,
}

impl Watches {
    /// All links.
    pub(crate) fn all(&self) -> impl Iterator<Item = LinkIx> {
        self.on.iter().chain(&self.asked).copied()
    }

    /// The watch, in the simpler form if there are fewer than two links.
    pub(crate) fn settle(self) -> Watch {
        match (self.on.as_slice(), self.asked.as_slice()) {
            ([], []) => Watch::No,
            (&[node], []) => Watch::On(node),
            _ => Watch::Several(Box::new(self)),
        }
    }
}

/// The effect of a reply on the first WATCH.
pub(crate) enum Asking {
    /// The reply was to the first WATCH. The new watch, and, if the link is not held, whether it may be used again.
    Ended(Watch, Option<bool>),
    /// The reply was to another request.
    NotIt(Watch),
}

impl Watch {
    /// Adds a link on which keys are to be watched.
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

    /// Ends the first WATCH on `ix`, which may have `failed`. Its keys may have moved to another node meanwhile.
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

    /// Whether keys are watched on `ix`, perhaps among other links.
    pub(crate) fn is_on(&self, ix: LinkIx) -> bool {
        match self {
            Watch::On(own) => *own == ix,
            Watch::Several(watches) => watches.on.contains(&ix),
            _ => false,
        }
    }
}
