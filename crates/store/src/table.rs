//! A hash table that never moves more than one segment's entries at a time (extendible hashing).
//!
//! ```text
//! order of a key (48 bits of its hash) ─ first `depth` bits ─► directory ─► segment: a small hash table
//! ```
//!
//! A segment holds the keys of one interval of orders. When it is full it is split in the middle of its interval; its
//! neighbours do not change.
//!
//! A scan walks the orders upwards. An entry's order never changes, so the scan meets every entry that stays, exactly once,
//! even if the table grows in between. The table merges no segments, except when it becomes empty.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use stdx::Prng;

/// An entry that a table finds by its key.
pub(crate) trait Keyed {
    /// The bytes that are hashed and compared.
    fn key(&self) -> &[u8];
}

/// Entries by key.
pub(crate) struct Table<E> {
    hasher: FixedState,
    /// Bits of an order by which the directory is indexed.
    depth: u32,
    /// 2^depth places of segments; empty at depth 0, when there is one segment at most.
    directory: Vec<u32>,
    segments: Vec<Segment<E>>,
    len: usize,
}

struct Segment<E> {
    entries: HashTable<E>,
    /// Number of leading bits of the order that all its keys share.
    depth: u32,
    /// Lowest order of its interval.
    first: u64,
}

impl<E: Keyed> Table<E> {
    /// An empty table. It allocates nothing before the first entry.
    pub(crate) fn new(seed: u64) -> Table<E> {
        Table {
            hasher: FixedState::with_seed(seed),
            depth: 0,
            directory: Vec::new(),
            segments: Vec::new(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The hash of a key, as the other methods take it.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_of(&self.hasher, key)
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<&E> {
        self.segments.get(self.segment_of(hash))?.entries.find(hash, |entry| entry.key() == key)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut E> {
        let at = self.segment_of(hash);
        self.segments.get_mut(at)?.entries.find_mut(hash, |entry| entry.key() == key)
    }

    /// An entry whose key has this hash and of which `is_it` is true; for indexes that do not keep keys.
    pub(crate) fn find_hash(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&E> {
        let entries = &self.segments.get(self.segment_of(hash))?.entries;
        entries.find(hash, |entry| self.hash(entry.key()) == hash && is_it(entry))
    }

    /// Inserts an entry whose key is not in the table.
    pub(crate) fn insert(&mut self, hash: u64, entry: E) {
        if self.segments.is_empty() {
            self.segments.push(Segment { entries: HashTable::new(), depth: 0, first: 0 });
        }
        let at = self.segment_with_room(hash);
        let hasher = &self.hasher;
        self.segments[at].entries.insert_unique(hash, entry, |entry| hash_of(hasher, entry.key()));
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<E> {
        let at = self.segment_of(hash);
        let entries = &mut self.segments.get_mut(at)?.entries;
        let (entry, _) = entries.find_entry(hash, |entry| entry.key() == key).ok()?.remove();
        if entries.len() * SHRINK_BELOW < entries.num_buckets() {
            let hasher = &self.hasher;
            entries.shrink_to(entries.len() * 2, |entry| hash_of(hasher, entry.key()));
        }
        self.len -= 1;
        if self.len == 0 {
            *self = Table { hasher: self.hasher.clone(), ..Table::new(0) };
        }
        Some(entry)
    }

    /// All entries in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.segments.iter().flat_map(|segment| segment.entries.iter())
    }

    /// One entry at random, all with the same probability unless the table is nearly empty for its size.
    pub(crate) fn random(&self, prng: &mut Prng) -> Option<&E> {
        let places = match &self.segments[..] {
            [] => return None,
            [only] => only.entries.num_buckets(),
            _ => SEGMENT_PLACES,
        };
        for _ in 0..RANDOM_TRIES {
            let segment = prng.pick(&self.segments);
            let place = prng.below(places as u64) as usize;
            if place < segment.entries.num_buckets()
                && let Some(entry) = segment.entries.get_bucket(place)
            {
                return Some(entry);
            }
        }
        let from = prng.below(self.segments.len() as u64) as usize;
        let (before, behind) = self.segments.split_at(from);
        let segment = behind.iter().chain(before).find(|segment| !segment.entries.is_empty())?;
        segment.entries.iter().nth(prng.below(segment.entries.len() as u64) as usize)
    }

    /// Passes about `count` entries from `cursor` on (0 to begin) to `found`. Returns the cursor of the rest, 0 at the end.
    /// Cursors are below 2^48.
    pub(crate) fn scan<'e>(&'e self, cursor: u64, count: usize, mut found: impl FnMut(&'e E)) -> u64 {
        let (mut cursor, mut left) = (cursor, count);
        // Redis looks at ten empty places for each wanted entry, and then returns early.
        for _ in 0..count.saturating_mul(10) {
            let Some(segment) = self.segments.get(self.segment_at(cursor)).filter(|_| cursor < ORDERS) else {
                return 0;
            };
            let mut page: Vec<(u64, &E)> = segment
                .entries
                .iter()
                .map(|entry| (order(self.hash(entry.key())), entry))
                .filter(|(order, _)| *order >= cursor)
                .collect();
            if page.len() > left {
                page.sort_unstable_by_key(|(order, _)| *order);
                let last = page[left - 1].0;
                page.iter().take_while(|(order, _)| *order <= last).for_each(|(_, entry)| found(entry));
                match page.iter().find(|(order, _)| *order > last) {
                    Some((next, _)) => return *next,
                    None => page.clear(),
                }
                left = 0;
            }
            page.iter().for_each(|(_, entry)| found(entry));
            left = left.saturating_sub(page.len());
            cursor = segment.first + (ORDERS >> segment.depth);
            if left == 0 {
                break;
            }
        }
        if cursor < ORDERS { cursor } else { 0 }
    }

    /// Takes out one segment's entries. The table can only be freed afterwards.
    pub(crate) fn dismantle(&mut self) -> Option<impl Iterator<Item = E> + use<E>> {
        let segment = self.segments.pop()?;
        self.len -= segment.entries.len();
        Some(segment.entries.into_iter())
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        self.segment_at(order(hash))
    }

    #[inline]
    fn segment_at(&self, order: u64) -> usize {
        match self.depth {
            0 => 0,
            depth => self
                .directory
                .get((order >> (ORDER_BITS - depth)) as usize)
                .map_or(usize::MAX, |&at| at as usize),
        }
    }

    /// The segment for a new entry. Splits until there is room: a split may leave everything on one side.
    #[inline]
    fn segment_with_room(&mut self, hash: u64) -> usize {
        loop {
            let at = self.segment_of(hash);
            let segment = &self.segments[at];
            if segment.entries.len() < SEGMENT_ENTRIES_MAX || segment.depth == DEPTH_MAX {
                return at;
            }
            self.split(at);
        }
    }

    /// Moves the upper half of a segment's interval to a new segment.
    #[cold]
    fn split(&mut self, at: usize) {
        if self.segments[at].depth == self.depth {
            self.double_directory();
        }
        let segment = &mut self.segments[at];
        segment.depth += 1;
        let (depth, half) = (segment.depth, ORDERS >> segment.depth);
        let upper_first = segment.first + half;
        let all = std::mem::take(&mut segment.entries);
        let (mut lower, mut upper) = (HashTable::with_capacity(all.len() / 2), HashTable::new());
        let hasher = &self.hasher;
        for entry in all {
            let hash = hash_of(hasher, entry.key());
            let side = if order(hash) < upper_first { &mut lower } else { &mut upper };
            side.insert_unique(hash, entry, |entry| hash_of(hasher, entry.key()));
        }
        segment.entries = lower;
        let place = u32::try_from(self.segments.len()).expect("at most 2^DEPTH_MAX segments");
        self.segments.push(Segment { entries: upper, depth, first: upper_first });
        let from = (upper_first >> (ORDER_BITS - self.depth)) as usize;
        self.directory[from..from + (1 << (self.depth - depth))].fill(place);
    }

    fn double_directory(&mut self) {
        self.directory = match self.depth {
            0 => vec![0, 0],
            _ => self.directory.iter().flat_map(|&at| [at, at]).collect(),
        };
        self.depth += 1;
    }
}

#[inline]
fn hash_of(hasher: &FixedState, key: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// The position of a hash in the order of scans. It uses the bits that the table within a segment does not (that takes the
/// highest seven and the lowest eight).
#[inline]
fn order(hash: u64) -> u64 {
    (hash << 7) >> (64 - ORDER_BITS)
}

/// A cursor must leave the proxy 16 bits for the number of the shard.
const ORDER_BITS: u32 = 48;
const ORDERS: u64 = 1 << ORDER_BITS;

/// Entries at which a segment is split: the capacity of 256 places. To move them takes a few dozen microseconds when all of
/// them miss the cache.
pub(crate) const SEGMENT_ENTRIES_MAX: usize = 224;
const SEGMENT_PLACES: usize = 256;

/// 2^24 segments of 112 to 224 entries: above two billion entries segments grow beyond this. Clients cannot force it, because
/// the seed is secret.
const DEPTH_MAX: u32 = 24;

/// A segment shrinks when less than one place in eight is used.
const SHRINK_BELOW: usize = 8;

/// Draws of a random entry before the next best is taken. At a quarter full, one draw in 10^8 reaches this limit.
const RANDOM_TRIES: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    impl Keyed for Box<[u8]> {
        fn key(&self) -> &[u8] {
            self
        }
    }

    fn insert(table: &mut Table<Box<[u8]>>, number: usize) {
        let key = format!("key:{number}").into_bytes().into_boxed_slice();
        table.insert(table.hash(&key), key);
    }

    fn remove(table: &mut Table<Box<[u8]>>, number: usize) -> bool {
        let key = format!("key:{number}").into_bytes();
        table.remove(table.hash(&key), &key).is_some()
    }

    fn table_of(numbers: std::ops::Range<usize>) -> Table<Box<[u8]>> {
        let mut table = Table::new(7);
        numbers.for_each(|number| insert(&mut table, number));
        table
    }

    #[test]
    fn entries_are_found_until_they_are_removed() {
        let mut table = table_of(0..20_000);
        assert_eq!(table.len(), 20_000);
        assert!((0..20_000).step_by(2).all(|number| remove(&mut table, number)));
        assert!(!remove(&mut table, 0));
        assert_eq!(table.iter().count(), 10_000);
        assert!((1..20_000).step_by(2).all(|number| {
            let key = format!("key:{number}").into_bytes();
            table.find(table.hash(&key), &key).is_some()
        }));
    }

    #[test]
    fn scan_meets_each_lasting_entry_once_while_resizing() {
        let mut table = table_of(0..5_000);
        let (mut cursor, mut added, mut seen) = (0, 5_000, Vec::new());
        loop {
            let mut page = Vec::new();
            cursor = table.scan(cursor, 10, |key| page.push(key.clone()));
            seen.append(&mut page);
            if cursor == 0 {
                break;
            }
            assert!(cursor < 1 << 48);
            (added..added + 8).for_each(|number| insert(&mut table, number));
            added += 8;
            assert!(remove(&mut table, added - 1));
        }
        let all: BTreeSet<_> = seen.iter().collect();
        assert_eq!(all.len(), seen.len(), "nothing twice");
        assert!(
            (0..5_000).all(|number| all.contains(&format!("key:{number}").into_bytes().into_boxed_slice()))
        );
    }

    #[test]
    fn random_entries_are_all_equally_likely() {
        let table = table_of(0..1_000);
        let mut prng = Prng::new(3);
        let mut drawn = std::collections::BTreeMap::new();
        for _ in 0..100_000 {
            *drawn.entry(table.random(&mut prng).cloned()).or_insert(0) += 1;
        }
        assert_eq!(drawn.len(), 1_000);
        assert!(drawn.values().all(|&times| (50..160).contains(&times)), "about a hundred times each");
    }

    #[test]
    fn an_emptied_table_is_as_new() {
        let mut table = table_of(0..5_000);
        assert!((0..5_000).all(|number| remove(&mut table, number)));
        assert!(table.segments.is_empty() && table.directory.is_empty());
        assert_eq!(table.random(&mut Prng::new(1)), None);
        assert_eq!(table.scan(0, 10, |_| panic!("empty")), 0);
    }
}
