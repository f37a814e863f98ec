//! Counts and differences, for operators.

use crate::compare::Verdict;
use crate::shadow::{Compared, Counts};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Differences that are kept; older ones are dropped.
const DIFFERENCES_MAX: usize = 100;
/// Bytes of a reply that a difference shows.
const SHOWN_BYTES_MAX: usize = 200;

/// The counts of all mirrors of a pool since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Clients that are mirrored now.
    pub clients: u64,
    /// Clients that are not mirrored any more, since they use something that cannot be mirrored.
    pub clients_left: u64,
    /// Clients that are not mirrored any more, since the mirror's memory was full.
    pub clients_lost: u64,
    /// Requests that were sent to the other pool.
    pub sent: u64,
    /// Requests that were left out, since the other pool failed or was slow.
    pub unsent: u64,
    /// Requests without a reply of the other pool.
    pub unanswered: u64,
    /// Pairs of replies that are the same.
    pub same: u64,
    /// Pairs of replies that are too long to compare.
    pub uncompared: u64,
    /// Pairs of replies that differ, by command.
    pub different: BTreeMap<&'static str, u64>,
    /// Connections to the other pool that failed or could not be made.
    pub failures: u64,
    /// Bytes in memory.
    pub held_bytes: u64,
}

/// Two replies that differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Seconds since 1970.
    pub time_s: f64,
    /// The command.
    pub command: &'static str,
    /// The beginning of the first key, printable.
    pub key: String,
    /// The beginning of the reply of this pool, printable.
    pub ours: String,
    /// The same of the other pool.
    pub theirs: String,
}

/// Everything that operators see of a pool's mirror. Workers change only numbers that need no lock.
#[derive(Debug, Default)]
pub struct Status {
    kept: Mutex<Kept>,
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) clients_lost: AtomicU64,
}

/// The counts and differences that the mirror's thread changes.
#[derive(Debug, Default)]
struct Kept {
    totals: Totals,
    differences: VecDeque<Difference>,
}

impl Status {
    /// The counts.
    pub fn totals(&self) -> Totals {
        Totals {
            clients_lost: self.clients_lost.load(Ordering::Relaxed),
            held_bytes: self.held_bytes.load(Ordering::Relaxed) as u64,
            ..self.kept().totals.clone()
        }
    }

    /// The last differences, the oldest first.
    pub fn differences(&self) -> Vec<Difference> {
        self.kept().differences.iter().cloned().collect()
    }

    /// Has `change` change the counts, from the mirror's thread.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.kept().totals);
    }

    /// Adds what one mirror has counted and compared.
    pub(crate) fn add(&self, counts: Counts, compared: &mut Vec<Compared>) {
        if counts == Counts::default() && compared.is_empty() {
            return;
        }
        let mut kept = self.kept();
        let totals = &mut kept.totals;
        totals.sent += counts.sent;
        totals.unsent += counts.unsent;
        totals.unanswered += counts.unanswered;
        for pair in compared.drain(..) {
            match pair.verdict {
                Verdict::Same => kept.totals.same += 1,
                Verdict::Uncompared => kept.totals.uncompared += 1,
                Verdict::Different => kept.note_difference(&pair),
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn note_difference(&mut self, pair: &Compared) {
        let time_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        *self.totals.different.entry(pair.command).or_default() += 1;
        if self.differences.len() == DIFFERENCES_MAX {
            self.differences.pop_front();
        }
        self.differences.push_back(Difference {
            time_s: time_s.as_secs_f64(),
            command: pair.command,
            key: shown(&pair.key),
            ours: shown(pair.ours.bytes()),
            theirs: shown(pair.theirs.bytes()),
        });
    }
}

/// The beginning of `bytes`, printable.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replies::Reply;

    #[test]
    fn the_last_differences_are_kept_and_all_are_counted() {
        let status = Status::default();
        for number in 0..DIFFERENCES_MAX + 5 {
            let reply = |text: String| Reply::Whole(text.into_bytes());
            let (ours, theirs) = (reply(format!(":{number}\r\n")), reply("x".repeat(10_000)));
            let pair =
                Compared { command: "get", key: b"k\n".to_vec(), verdict: Verdict::Different, ours, theirs };
            status.add(Counts { sent: 1, ..Counts::default() }, &mut vec![pair]);
        }
        let (totals, differences) = (status.totals(), status.differences());
        assert_eq!((totals.sent, totals.different["get"]), (105, 105));
        assert_eq!((differences.len(), &*differences[0].ours), (DIFFERENCES_MAX, ":5\\r\\n"));
        assert_eq!((&*differences[0].key, differences[0].theirs.len()), ("k\\n", SHOWN_BYTES_MAX));
    }
}
