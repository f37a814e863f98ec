//! Losses of nodes: WAIT does not count writes before a loss.

use crate::features::Session;
use std::collections::BTreeSet;
use stdx::Instant;

/// The last loss, and the clients that may have lost writes by it.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The instant at which a primary, or the link to it, was last lost or replaced.
    pub last_at: Option<Instant>,
    /// Numbers of the clients that were connected then and got the error since.
    pub told: BTreeSet<u64>,
}

impl Losses {
    /// Notes that a primary, or the link to it, was lost or replaced.
    pub(crate) fn note(&mut self, now: Instant) {
        self.last_at = Some(now);
        self.told.clear();
    }

    /// Whether the client of `session` must get the error. If so, notes that it gets it.
    pub(crate) fn concern(&mut self, session: &Session) -> bool {
        self.last_at.is_some_and(|last_at| session.origin.created_at <= last_at)
            && self.told.insert(session.origin.client)
    }
}
