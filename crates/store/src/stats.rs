//! Counters of a store, for INFO.

use std::cell::Cell;

/// Counts since the store began.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) requests: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
    /// Cells, because commands that look at several keys at once only borrow the keyspace.
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// Whether look-ups of the running command count.
    reads: bool,
}

impl Stats {
    /// Called when a request begins.
    #[inline]
    pub(crate) fn begin(&mut self, reads: bool) {
        self.requests += 1;
        self.reads = reads;
    }

    /// For a command of which only some look-ups count.
    pub(crate) fn count(&mut self, reads: bool) {
        self.reads = reads;
    }

    /// Counts a look-up as a hit or a miss and returns `found`.
    #[inline]
    pub(crate) fn looked_up<T>(&self, found: Option<T>) -> Option<T> {
        if self.reads {
            let counter = if found.is_some() { &self.hits } else { &self.misses };
            counter.set(counter.get() + 1);
        }
        found
    }

    /// Counts a hit.
    pub(crate) fn hit(&mut self) {
        self.hits.set(self.hits.get() + 1);
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.get()
    }

    pub(crate) fn misses(&self) -> u64 {
        self.misses.get()
    }
}
