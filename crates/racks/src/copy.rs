//! One copy of the shard: its connection, what it has missed, and how it stands.

use crate::class::{Key, Work};
use crate::hints::{Hint, Hints};
use crate::journal::{Kept, Session, Stale};
use crate::link::Link;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use stdx::Instant;

/// Standing of the keys of a copy.
#[derive(Debug)]
pub(crate) enum Standing {
    /// All keys without a hint are as they should be.
    Current,
    /// More was missed than the hints say.
    Stale(Stale),
    /// Keys are compared one by one, since the copy was stale. All writes meanwhile become hints.
    Repairing(Repair),
}

/// The repair of a stale copy.
#[derive(Debug)]
pub(crate) struct Repair {
    pub number: u64,
    /// As the copy stood before.
    pub stale: Stale,
    /// The copy that it is compared with.
    pub source: usize,
    pub phase: Phase,
    /// Keys that were scanned and not looked at.
    pub queue: VecDeque<Key>,
    /// Looks and scans in flight.
    pub in_flight: usize,
}

/// The keys that a repair reads now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Keys of the source, from this cursor on.
    OfSource(Vec<u8>),
    /// Keys of the copy itself.
    OfCopy(Vec<u8>),
    /// All were read.
    Read,
}

impl Phase {
    pub(crate) fn first() -> Phase {
        Phase::OfSource(b"0".to_vec())
    }

    /// The phase behind a scan that ended with `cursor`.
    pub(crate) fn next(&self, cursor: &[u8]) -> Phase {
        match (self, cursor) {
            (Phase::OfSource(_), b"0") => Phase::OfCopy(b"0".to_vec()),
            (Phase::OfCopy(_) | Phase::Read, b"0") => Phase::Read,
            (Phase::OfSource(_), cursor) => Phase::OfSource(cursor.to_vec()),
            (_, cursor) => Phase::OfCopy(cursor.to_vec()),
        }
    }
}

/// The way of a write to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Sent to the copy.
    Send,
    /// Its keys become hints.
    Hint,
    /// The copy is stale: all of its keys are compared later.
    Leave,
    /// The copy becomes stale.
    Outdate,
}

/// One copy.
#[derive(Debug)]
pub(crate) struct Copy {
    pub link: Link,
    pub standing: Standing,
    pub hints: Hints,
    /// The batch of records that says that the copy is stale. A write that it misses is acknowledged once this is durable.
    pub stale_batch: u64,
    /// Keys of a stale copy that all others have missed, so that it is the only one to take them from.
    pub keeps: BTreeSet<Key>,
    /// Keys of writes in flight that have a record in case they are lost, with their numbers.
    pub insured: HashMap<Key, u32>,
    pub session: Option<Session>,
    /// No repair begins before.
    pub repair_at: Instant,
    /// Whether operators know that it is up.
    pub was_up: bool,
}

/// The pause after a repair that failed.
pub(crate) const REPAIR_PAUSE: Duration = Duration::from_secs(1);

impl Copy {
    pub(crate) fn new(kept: Kept, now: Instant) -> Copy {
        let mut hints = Hints::default();
        let is_stale = kept.stale != Stale::No;
        for hint in kept.hints.iter().filter(|_| !is_stale) {
            let at = Instant::from_nanos(hint.at_ms * 1_000_000);
            hints.add(&hint.key, Hint { since: hint.since, at, batch: 0 });
        }
        Copy {
            link: Link::new(now),
            standing: if is_stale { Standing::Stale(kept.stale) } else { Standing::Current },
            hints,
            stale_batch: 0,
            keeps: kept.keys.into_iter().collect(),
            insured: HashMap::new(),
            session: kept.session,
            repair_at: Instant::ZERO,
            was_up: false,
        }
    }

    /// Whether it is as good as any, so that it is read from and counts.
    pub(crate) fn is_up(&self) -> bool {
        self.link.is_open() && self.is_current() && self.hints.is_empty()
    }

    /// Whether all keys without a hint are as they should be.
    pub(crate) fn is_current(&self) -> bool {
        matches!(self.standing, Standing::Current)
    }

    /// The way of `work`, which writes.
    pub(crate) fn way(&self, work: &Work) -> Way {
        let writes_all = matches!(work.class, crate::class::Class::Flush);
        match (&self.standing, self.link.is_open()) {
            (Standing::Stale(_), _) => Way::Leave,
            (Standing::Repairing(_), _) if writes_all => Way::Outdate,
            (Standing::Repairing(_), _) => Way::Hint,
            (Standing::Current, _) if writes_all => {
                if self.is_up() {
                    Way::Send
                } else {
                    Way::Outdate
                }
            }
            (Standing::Current, true) if !work.keys.iter().any(|key| self.hints.get(key).is_some()) => {
                Way::Send
            }
            (Standing::Current, _) => Way::Hint,
        }
    }

    /// The number of the first write of `key` that it missed; the largest number if it has all. `None` if nobody knows.
    pub(crate) fn missed_since(&self, key: &Key) -> Option<u64> {
        match self.is_current() {
            true => Some(self.hints.get(key).map_or(u64::MAX, |hint| hint.since)),
            false => self.keeps.contains(key).then_some(u64::MAX - 1),
        }
    }

    /// Whether it may lack a write of `key` that the copy `other` has.
    pub(crate) fn may_lack(&self, key: &Key, other: &Copy) -> bool {
        let own = if self.insured.contains_key(key) { Some(0) } else { self.missed_since(key) };
        own < other.missed_since(key)
    }
}
