//! When nodes were lost: WAIT counts nothing that was written before.

use crate::features::Session;
use std::collections::BTreeSet;
use stdx::Instant;

/// Who may have lost writes with a primary.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// When a primary was lost or replaced last, or the connection to it.
    pub last_at: Option<Instant>,
    /// The clients that were there then and have been told since, by their numbers.
    pub told: BTreeSet<u64>,
}

impl Losses {
    /// A primary was lost or replaced, or the connection to it.
    pub(crate) fn note(&mut self, now: Instant) {
        self.last_at = Some(now);
        self.told.clear();
    }

    /// Whether the client of `session` is to be told; then it counts as told.
    pub(crate) fn concern(&mut self, session: &Session) -> bool {
        self.last_at.is_some_and(|last_at| session.origin.created_at <= last_at)
            && self.told.insert(session.origin.client)
    }
}
