//! Records that have to be durable: they gather in batches, and one batch is written at a time.

use crate::class::Key;
use std::time::Duration;
use stdx::Instant;

/// A change that outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A rack has missed writes of a key.
    Hint {
        /// Which rack.
        rack: usize,
        /// The key.
        key: Key,
        /// The number of the first write that it missed.
        since: u64,
        /// Unix time of that write, in milliseconds.
        at_ms: u64,
    },
    /// A stale rack has what all others have missed of the key.
    Keep {
        /// Which rack.
        rack: usize,
        /// The key.
        key: Key,
    },
    /// The hint for the key, or that it is kept, is void.
    Settled {
        /// Which rack.
        rack: usize,
        /// The key.
        key: Key,
    },
    /// All records of keys of a rack are void, and this is how it stands.
    Standing {
        /// Which rack.
        rack: usize,
        /// Whether its keys have to be compared one by one.
        stale: Stale,
    },
    /// The run of the rack's node, and our connection to it.
    Session {
        /// Which rack.
        rack: usize,
        /// Both.
        session: Session,
    },
}

/// Whether a rack is stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stale {
    /// Hints name all that it missed.
    #[default]
    No,
    /// More than the hints say.
    Missed,
    /// A rack that is new here, and may have keys of its own.
    New,
}

/// A run of a node, and our last connection to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The node's `run_id`.
    pub run_id: String,
    /// The number of the connection at the node.
    pub client: i64,
}

/// A hint as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHint {
    /// The key.
    pub key: Key,
    /// The number of the first write that the rack missed.
    pub since: u64,
    /// Unix time of that write, in milliseconds.
    pub at_ms: u64,
}

/// Records of one rack from earlier runs of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Whether there is any record of it.
    pub is_known: bool,
    /// Its hints.
    pub hints: Vec<KeptHint>,
    /// The keys of a stale rack that all others have missed.
    pub keys: Vec<Key>,
    /// Whether it is stale.
    pub stale: Stale,
    /// Its node's run; `None` for a rack that was never reached.
    pub session: Option<Session>,
}

/// The longest time until records that nobody waits for are written.
const LAZY: Duration = Duration::from_millis(100);
/// Records of this kind that are written at once.
const LAZY_MAX: usize = 1000;
/// Time after a failed write.
const PAUSE: Duration = Duration::from_millis(200);

/// Records on their way to the disk.
#[derive(Debug)]
pub(crate) struct Journal {
    pending: Vec<Record>,
    /// The number of the batch that gathers.
    filling: u64,
    /// The batch that is being written.
    writing: Option<(u64, Vec<Record>)>,
    /// All batches up to this one are durable.
    durable: u64,
    is_urgent: bool,
    not_before: Instant,
    lazy_since: Option<Instant>,
}

impl Default for Journal {
    fn default() -> Journal {
        let (pending, not_before) = (Vec::new(), Instant::ZERO);
        let (writing, lazy_since) = (None, None);
        Journal { pending, filling: 1, writing, durable: 0, is_urgent: false, not_before, lazy_since }
    }
}

impl Journal {
    /// Adds a record that somebody waits for. Returns its batch.
    pub(crate) fn push(&mut self, record: Record) -> u64 {
        self.pending.push(record);
        self.is_urgent = true;
        self.filling
    }

    /// The batch that gathers.
    pub(crate) fn batch(&self) -> u64 {
        self.filling
    }

    /// Adds a record that may be lost: work is done again then.
    pub(crate) fn push_lazily(&mut self, record: Record, now: Instant) {
        self.pending.push(record);
        self.lazy_since.get_or_insert(now);
    }

    pub(crate) fn is_durable(&self, batch: u64) -> bool {
        batch <= self.durable
    }

    /// The next batch to write.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(u64, Vec<Record>)> {
        if self.writing.is_some() || self.pending.is_empty() || now < self.due_at() {
            return None;
        }
        let batch = (self.filling, std::mem::take(&mut self.pending));
        self.filling += 1;
        (self.is_urgent, self.lazy_since) = (false, None);
        self.writing = Some(batch.clone());
        Some(batch)
    }

    /// When the next batch is to be written; never while one is.
    pub(crate) fn deadline(&self) -> Instant {
        if self.writing.is_some() || self.pending.is_empty() { Instant::NEVER } else { self.due_at() }
    }

    fn due_at(&self) -> Instant {
        let is_due = self.is_urgent || self.pending.len() >= LAZY_MAX;
        let lazy_at = self.lazy_since.map_or(Instant::ZERO, |since| since + LAZY);
        self.not_before.max(if is_due { Instant::ZERO } else { lazy_at })
    }

    /// Notes that `batch` is durable.
    pub(crate) fn written(&mut self, batch: u64) {
        if self.writing.take_if(|(number, _)| *number == batch).is_some() {
            self.durable = batch;
        }
    }

    /// Notes that `batch` could not be written. Its records are written again.
    pub(crate) fn failed(&mut self, batch: u64, now: Instant) {
        if let Some((_, mut records)) = self.writing.take_if(|(number, _)| *number == batch) {
            records.append(&mut self.pending);
            self.pending = records;
            self.is_urgent = true;
            self.not_before = now + PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rack: usize) -> Record {
        Record::Standing { rack, stale: Stale::Missed }
    }

    #[test]
    fn records_of_a_failed_write_are_written_again_in_order() {
        let (mut journal, now) = (Journal::default(), Instant::ZERO);
        assert_eq!(journal.push(record(1)), 1);
        assert_eq!(journal.poll(now), Some((1, vec![record(1)])));
        assert_eq!((journal.push(record(2)), journal.poll(now)), (2, None));
        journal.failed(1, now);
        assert!(journal.poll(now).is_none() && !journal.is_durable(1));
        assert_eq!(journal.poll(journal.deadline()), Some((2, vec![record(1), record(2)])));
        journal.written(2);
        assert!(journal.is_durable(2) && journal.deadline() == Instant::NEVER);
    }

    #[test]
    fn records_without_a_waiting_reply_gather() {
        let (mut journal, now) = (Journal::default(), Instant::from_nanos(1));
        journal.push_lazily(record(1), now);
        assert!(journal.poll(now).is_none());
        assert_eq!(journal.deadline(), now + LAZY);
        journal.push(record(2));
        assert_eq!(journal.poll(now).map(|(_, records)| records.len()), Some(2));
    }
}
