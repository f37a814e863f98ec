//! The hints of one rack: the keys that it has missed, each with the first write that it missed.
//!
//! A hint names a key and not a command. The outcome of a command that was in flight when a copy was lost is unknown, and a
//! second INCR would count twice. To copy the key as another rack has it is right in either case.

use crate::class::Key;
use std::collections::{BTreeSet, HashMap};
use stdx::Instant;

/// Bytes of memory and of the log that a hint takes beside its key.
pub(crate) const HINT_BYTES: usize = 64;

/// A key that a rack has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The number of the first write that it missed.
    pub since: u64,
    /// Time of that write.
    pub at: Instant,
    /// The batch of the journal that has it.
    pub batch: u64,
}

/// The hints of one rack.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    by_key: HashMap<Key, Hint>,
    order: BTreeSet<(u64, Key)>,
    bytes: usize,
}

impl Hints {
    /// Adds a hint. A key that is there keeps its older one.
    pub(crate) fn add(&mut self, key: &Key, hint: Hint) {
        if !self.by_key.contains_key(key) {
            self.bytes += key.len() + HINT_BYTES;
            self.order.insert((hint.since, Key::clone(key)));
            self.by_key.insert(Key::clone(key), hint);
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Hint> {
        self.by_key.get(key).copied()
    }

    /// Removes a hint. Returns whether it was there.
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let Some(hint) = self.by_key.remove(key) else { return false };
        self.order.remove(&(hint.since, Key::clone(key)));
        self.bytes -= key.len() + HINT_BYTES;
        true
    }

    pub(crate) fn clear(&mut self) {
        *self = Hints::default();
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The hints, the oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = &Key> {
        self.order.iter().map(|(_, key)| key)
    }

    /// The time of the oldest.
    pub(crate) fn oldest_at(&self) -> Option<Instant> {
        let key = self.oldest_first().next()?;
        self.get(key).map(|hint| hint.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(since: u64) -> Hint {
        Hint { since, at: Instant::from_nanos(since), batch: 0 }
    }

    #[test]
    fn hints_are_played_back_in_the_order_of_the_first_miss() {
        let (mut hints, [a, b]) = (Hints::default(), [b"aa", b"bb"].map(|key| Key::from(&key[..])));
        hints.add(&b, hint(3));
        hints.add(&a, hint(5));
        hints.add(&b, hint(7));
        assert_eq!(hints.oldest_first().collect::<Vec<_>>(), [&b, &a]);
        assert_eq!((hints.len(), hints.bytes()), (2, 2 * (2 + HINT_BYTES)));
        assert_eq!(hints.oldest_at(), Some(Instant::from_nanos(3)));
        assert!(hints.remove(&b) && !hints.remove(&b));
        assert_eq!((hints.get(&a), hints.get(&b)), (Some(hint(5)), None));
        hints.remove(&a);
        assert!(hints.is_empty() && hints.bytes() == 0);
    }
}
