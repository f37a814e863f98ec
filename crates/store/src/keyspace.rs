//! The keys: found, changed, expired, evicted and freed, and every byte of them accounted for.
//!
//! All changes of a value go through [`Keyspace::edit`], [`Keyspace::edit_or_create`] and [`Keyspace::set`], which keep
//! the account, the index of expiries and the rule that there are no empty collections. What is large is not dropped at
//! once but put among the garbage, which [`Keyspace::free_step`] takes apart piece by piece; until then it counts.

use std::collections::BTreeSet;

use stdx::Prng;

use crate::error::Error;
use crate::policy::EvictionPolicy;
use crate::stats::Stats;
use crate::table::{Keyed, Table};
use crate::values::value::{ALLOCATION_BYTES, Kind, Value};

/// Keys of one shard.
pub(crate) struct Keyspace {
    /// Unix time of the request that runs, in milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) prng: Prng,
    /// Bytes that all keys may have together, and so one string where a short request could make it long.
    pub(crate) memory_max: usize,
    /// What goes when memory is full.
    pub(crate) policy: EvictionPolicy,
    pub(crate) stats: Stats,
    entries: Table<Entry>,
    /// When keys expire, with the hash of the key. Two keys of one hash and one instant share a place here: the second
    /// is then not expired actively, but still never seen after its time.
    expiries: BTreeSet<(u64, u64)>,
    /// Keys that expire, and the sum of their instants.
    volatile: usize,
    expiries_sum: u128,
    garbage: Vec<Garbage>,
    memory_used: usize,
    seed: u64,
}

/// One key with its value.
pub(crate) struct Entry {
    key: Box<[u8]>,
    pub(crate) value: Value,
    /// Unix time in milliseconds after which the key is gone; [`NEVER`] if it stays.
    pub(crate) expires_at: u64,
    /// When it was last used, in units of [`CLOCK_MS`].
    touched: u32,
}

/// What nobody can reach any more.
enum Garbage {
    Value(Value),
    Entries(Table<Entry>),
    Expiries(BTreeSet<(u64, u64)>),
}

/// The expiry of a key that stays.
pub(crate) const NEVER: u64 = u64::MAX;

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Entry {
    /// Bytes by our own accounting.
    pub(crate) fn memory(&self) -> usize {
        let expiry = if self.expires_at == NEVER { 0 } else { EXPIRY_BYTES };
        ENTRY_BYTES + self.key.len() + ALLOCATION_BYTES + self.value.memory() + expiry
    }
}

impl Keyspace {
    pub(crate) fn new(seed: u64) -> Keyspace {
        let mut prng = Prng::new(seed);
        let seed = prng.next_u64();
        Keyspace {
            now_ms: 0,
            prng,
            memory_max: usize::MAX,
            policy: EvictionPolicy::default(),
            stats: Stats::default(),
            entries: Table::new(seed),
            expiries: BTreeSet::new(),
            volatile: 0,
            expiries_sum: 0,
            garbage: Vec::new(),
            memory_used: 0,
            seed,
        }
    }

    /// Keys, those counted that expired and were not found out yet.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn memory_used(&self) -> usize {
        self.memory_used
    }

    /// How many keys expire, and the average of the milliseconds that are left to them.
    pub(crate) fn volatile(&self) -> (usize, u64) {
        let average = self.expiries_sum.checked_div(self.volatile as u128).unwrap_or_default();
        (self.volatile, u64::try_from(average).unwrap_or(u64::MAX).saturating_sub(self.now_ms))
    }

    /// The entry of `key`, which counts as used now.
    #[inline]
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<&Entry> {
        let clock = self.clock();
        let hash = self.live_hash(key);
        let entry = self.stats.looked_up(self.entries.find_mut(hash, key))?;
        entry.touched = clock;
        Some(entry)
    }

    /// The entry of `key`, without counting as use. For commands that look at several keys at once.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<&Entry> {
        let entry = self.entries.find(self.entries.hash(key), key);
        self.stats.looked_up(entry.filter(|entry| self.now_ms <= entry.expires_at))
    }

    /// The value of `key` as one type.
    #[inline]
    pub(crate) fn read<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Error> {
        self.find(key).map(|entry| K::of(&entry.value).ok_or(Error::WrongType)).transpose()
    }

    /// As [`Keyspace::read`], without counting as use.
    pub(crate) fn peek_at<K: Kind>(&self, key: &[u8]) -> Result<Option<&K>, Error> {
        self.peek(key).map(|entry| K::of(&entry.value).ok_or(Error::WrongType)).transpose()
    }

    /// Changes the value of `key`, if there is one. A collection that is empty afterwards is removed with its key.
    pub(crate) fn edit<K: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> R,
    ) -> Result<Option<R>, Error> {
        let clock = self.clock();
        let hash = self.live_hash(key);
        let Some(entry) = self.entries.find_mut(hash, key) else { return Ok(None) };
        let before = entry.value.memory();
        let result = change(K::of_mut(&mut entry.value).ok_or(Error::WrongType)?);
        entry.touched = clock;
        let (after, is_gone) = (entry.value.memory(), entry.value.is_gone());
        self.memory_used = self.memory_used + after - before;
        if is_gone {
            self.remove_hashed(hash, key);
        }
        Ok(Some(result))
    }

    /// As [`Keyspace::edit`], with an empty value if there is none.
    pub(crate) fn edit_or_create<K: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> R,
    ) -> Result<R, Error> {
        let hash = self.live_hash(key);
        if self.entries.find(hash, key).is_none() {
            self.insert(hash, key, K::empty(self.seed).into_value(), NEVER);
        }
        // It is there: one way or the other, it was just put in or found.
        self.edit(key, change).map(|result| result.expect("the key is there"))
    }

    /// Gives `key` a value, whatever it had.
    #[inline]
    pub(crate) fn set(&mut self, key: &[u8], value: Value, expires_at: u64) {
        let clock = self.clock();
        let hash = self.entries.hash(key);
        let Some(entry) = self.entries.find_mut(hash, key) else {
            return self.insert(hash, key, value, expires_at);
        };
        let before = entry.memory();
        let old_value = std::mem::replace(&mut entry.value, value);
        let old_expiry = std::mem::replace(&mut entry.expires_at, expires_at);
        entry.touched = clock;
        self.memory_used = self.memory_used + entry.memory() - before;
        self.index_expiry(hash, old_expiry, expires_at);
        self.discard(old_value);
    }

    /// As [`Keyspace::set`] for a collection; an empty one removes the key.
    pub(crate) fn set_collection(&mut self, key: &[u8], value: Value) {
        if value.is_gone() {
            self.remove(key);
        } else {
            self.set(key, value, NEVER);
        }
    }

    /// True if there was such a key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some((value, _)) = self.take(key) else { return false };
        self.discard(value);
        true
    }

    /// Takes the value of `key` out, with its expiry.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<(Value, u64)> {
        let hash = self.live_hash(key);
        self.take_hashed(hash, key)
    }

    /// Gives `key`, which must exist, another expiry.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires_at: u64) {
        let hash = self.entries.hash(key);
        let Some(entry) = self.entries.find_mut(hash, key) else { return };
        let before = entry.memory();
        let old_expiry = std::mem::replace(&mut entry.expires_at, expires_at);
        self.memory_used = self.memory_used + entry.memory() - before;
        self.index_expiry(hash, old_expiry, expires_at);
    }

    /// Copies the value of `from`, with its expiry.
    pub(crate) fn copy(&mut self, from: &[u8], to: &[u8]) -> bool {
        let seed = self.seed;
        let Some((value, expires_at)) =
            self.find(from).map(|entry| (entry.value.copied(seed), entry.expires_at))
        else {
            return false;
        };
        self.set(to, value, expires_at);
        true
    }

    /// An empty collection for a result that is put together before it is stored.
    pub(crate) fn empty<K: Kind>(&self) -> K {
        K::empty(self.seed)
    }

    /// A generator for a closure that changes a value while the keyspace is borrowed.
    pub(crate) fn fork_prng(&mut self) -> Prng {
        Prng::new(self.prng.next_u64())
    }

    /// Makes `key` look as if it was not used for so long.
    pub(crate) fn set_idle(&mut self, key: &[u8], idle_s: u64) {
        let clock = (self.now_ms.saturating_sub(idle_s.saturating_mul(1_000)) / CLOCK_MS) as u32;
        let hash = self.entries.hash(key);
        if let Some(entry) = self.entries.find_mut(hash, key) {
            entry.touched = clock;
        }
    }

    /// How long `entry` was not used, in milliseconds.
    pub(crate) fn idle_ms(&self, entry: &Entry) -> u64 {
        u64::from(self.clock().wrapping_sub(entry.touched)) * CLOCK_MS
    }

    /// All keys that are not expired.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Value)> {
        let live = self.entries.iter().filter(|entry| self.now_ms <= entry.expires_at);
        live.map(|entry| (&*entry.key, &entry.value))
    }

    /// Walks the keys; see [`Table::scan`].
    pub(crate) fn scan<'k>(
        &'k self,
        cursor: u64,
        count: usize,
        mut found: impl FnMut(&'k [u8], &'k Value),
    ) -> u64 {
        self.entries.scan(cursor, count, |entry| {
            if self.now_ms <= entry.expires_at {
                found(&entry.key, &entry.value);
            }
        })
    }

    /// A key at random.
    pub(crate) fn random_key(&mut self) -> Option<Box<[u8]>> {
        for _ in 0..RANDOM_KEY_TRIES {
            let entry = self.entries.random(&mut self.prng)?;
            let (key, expires_at) = (entry.key.clone(), entry.expires_at);
            if self.now_ms <= expires_at {
                return Some(key);
            }
            self.expire(self.entries.hash(&key), &key);
        }
        // Expired keys come first in the index, so what is left of them is not worth more tries.
        self.iter().next().map(|(key, _)| key.into())
    }

    /// Removes all keys. They are freed later.
    pub(crate) fn clear(&mut self) {
        let entries = std::mem::replace(&mut self.entries, Table::new(self.seed));
        self.garbage.push(Garbage::Entries(entries));
        self.garbage.push(Garbage::Expiries(std::mem::take(&mut self.expiries)));
        (self.volatile, self.expiries_sum) = (0, 0);
    }

    /// Frees a value: at once if it is small, in steps otherwise.
    pub(crate) fn discard(&mut self, value: Value) {
        if value.elements() > ELEMENTS_AT_ONCE_MAX {
            self.memory_used += value.memory();
            self.garbage.push(Garbage::Value(value));
        }
    }

    /// Removes one key whose time is over. False if there is none.
    pub(crate) fn expire_one(&mut self) -> bool {
        let Some(&(expires_at, hash)) = self.expiries.first() else { return false };
        if expires_at >= self.now_ms {
            return false;
        }
        let is_it = |entry: &Entry| entry.expires_at == expires_at;
        match self.entries.find_hash(hash, is_it).map(|entry| entry.key.clone()) {
            Some(key) => self.expire(hash, &key),
            None => _ = self.expiries.pop_first(),
        }
        true
    }

    /// Frees about a hundred elements of what is garbage. False if there is none.
    pub(crate) fn free_step(&mut self) -> bool {
        let Some(garbage) = self.garbage.pop() else { return false };
        match garbage {
            Garbage::Value(mut value) => {
                let before = value.memory();
                let is_more = value.dismantle();
                self.memory_used -= before - value.memory();
                if is_more {
                    self.garbage.push(Garbage::Value(value));
                } else {
                    self.memory_used -= value.memory();
                }
            }
            Garbage::Entries(mut entries) => {
                let Some(segment) = entries.dismantle() else { return true };
                self.garbage.push(Garbage::Entries(entries));
                for entry in segment {
                    self.memory_used -= entry.memory();
                    self.discard(entry.value);
                }
            }
            Garbage::Expiries(mut expiries) => {
                if (0..EXPIRIES_PER_STEP).all(|_| expiries.pop_first().is_some()) {
                    self.garbage.push(Garbage::Expiries(expiries));
                }
            }
        }
        true
    }

    /// Removes the key that `policy` chooses. False if there is none that may go.
    pub(crate) fn evict_one(&mut self, policy: EvictionPolicy) -> bool {
        let Some(key) = self.choose_victim(policy) else { return false };
        self.remove_hashed(self.entries.hash(&key), &key);
        self.stats.evicted += 1;
        true
    }

    fn choose_victim(&mut self, policy: EvictionPolicy) -> Option<Box<[u8]>> {
        if policy.is_volatile() && self.expiries.is_empty() {
            return None;
        }
        let samples = match policy {
            EvictionPolicy::NoEviction => return None,
            EvictionPolicy::VolatileTtl => 0,
            EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => 1,
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru => LRU_SAMPLES,
        };
        let draws = if policy.is_volatile() { samples * DRAWS_PER_VOLATILE } else { samples };
        let (entries, prng) = (&self.entries, &mut self.prng);
        let clock = (self.now_ms / CLOCK_MS) as u32;
        let oldest = (0..draws)
            .filter_map(|_| entries.random(prng))
            .filter(|entry| !policy.is_volatile() || entry.expires_at != NEVER)
            .take(samples)
            .max_by_key(|entry| clock.wrapping_sub(entry.touched));
        // Keys that expire are so rare that none was drawn, or the order of expiry is what counts.
        let first_to_expire = || {
            let &(expires_at, hash) = self.expiries.first()?;
            self.entries.find_hash(hash, |entry| entry.expires_at == expires_at)
        };
        let victim = if policy.is_volatile() { oldest.or_else(first_to_expire) } else { oldest };
        victim.map(|entry| entry.key.clone())
    }

    /// The hash of `key`, which is not expired any more: if it was, it is gone.
    #[inline]
    fn live_hash(&mut self, key: &[u8]) -> u64 {
        let hash = self.entries.hash(key);
        // Two look-ups instead of one, but only where anything expires at all.
        if !self.expiries.is_empty()
            && self.entries.find(hash, key).is_some_and(|entry| entry.expires_at < self.now_ms)
        {
            self.expire(hash, key);
        }
        hash
    }

    fn expire(&mut self, hash: u64, key: &[u8]) {
        self.remove_hashed(hash, key);
        self.stats.expired += 1;
    }

    fn insert(&mut self, hash: u64, key: &[u8], value: Value, expires_at: u64) {
        let entry = Entry { key: key.into(), value, expires_at, touched: self.clock() };
        self.memory_used += entry.memory();
        self.entries.insert(hash, entry);
        self.index_expiry(hash, NEVER, expires_at);
    }

    fn remove_hashed(&mut self, hash: u64, key: &[u8]) {
        if let Some((value, _)) = self.take_hashed(hash, key) {
            self.discard(value);
        }
    }

    fn take_hashed(&mut self, hash: u64, key: &[u8]) -> Option<(Value, u64)> {
        let entry = self.entries.remove(hash, key)?;
        self.memory_used -= entry.memory();
        self.index_expiry(hash, entry.expires_at, NEVER);
        Some((entry.value, entry.expires_at))
    }

    #[inline]
    fn index_expiry(&mut self, hash: u64, old: u64, new: u64) {
        if old == new {
            return;
        }
        if old != NEVER {
            self.expiries.remove(&(old, hash));
            self.volatile -= 1;
            self.expiries_sum -= u128::from(old);
        }
        if new != NEVER {
            self.expiries.insert((new, hash));
            self.volatile += 1;
            self.expiries_sum += u128::from(new);
        }
    }

    #[inline]
    fn clock(&self) -> u32 {
        (self.now_ms / CLOCK_MS) as u32
    }
}

/// An entry in a table that is two thirds full.
pub(crate) const ENTRY_BYTES: usize = std::mem::size_of::<Entry>() * 3 / 2 + 2;

/// An instant and a hash in the index of expiries, whose nodes are two thirds full.
pub(crate) const EXPIRY_BYTES: usize = 32;

/// Grain of the time of last use: 32 bits of it last for eight years.
const CLOCK_MS: u64 = 64;

/// A value of more elements is freed in steps: so many take some ten microseconds.
pub(crate) const ELEMENTS_AT_ONCE_MAX: usize = 256;
const EXPIRIES_PER_STEP: usize = 200;

/// Redis's `maxmemory-samples`.
pub(crate) const LRU_SAMPLES: usize = 5;

/// Draws until a key that expires is found. If they are rarer, the one that expires first is taken.
const DRAWS_PER_VOLATILE: usize = 16;

/// Redis tries as often to find a key that is not expired.
const RANDOM_KEY_TRIES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Value {
        Value::Text(bytes.to_vec())
    }

    /// What the account should say.
    fn memory_counted(keyspace: &Keyspace) -> usize {
        keyspace.entries.iter().map(Entry::memory).sum()
    }

    #[test]
    fn an_expired_key_is_not_there_and_is_removed_when_somebody_looks() {
        let mut keyspace = Keyspace::new(1);
        keyspace.set(b"k", text(b"v"), 100);
        keyspace.now_ms = 100;
        assert!(keyspace.find(b"k").is_some(), "its last millisecond");
        keyspace.now_ms = 101;
        assert!(keyspace.peek(b"k").is_none());
        assert_eq!(keyspace.len(), 1);
        assert!(keyspace.find(b"k").is_none());
        assert_eq!((keyspace.len(), keyspace.memory_used(), keyspace.expiries.len()), (0, 0, 0));
    }

    #[test]
    fn expired_keys_go_in_the_order_of_their_time() {
        let mut keyspace = Keyspace::new(1);
        (0..100_u64).for_each(|at| keyspace.set(format!("k{at}").as_bytes(), text(b"v"), 1_000 + at));
        keyspace.now_ms = 1_050;
        let mut expired = 0;
        while keyspace.expire_one() {
            expired += 1;
        }
        assert_eq!((expired, keyspace.len()), (50, 50));
    }

    #[test]
    fn the_account_is_exact_after_any_changes() {
        let mut keyspace = Keyspace::new(1);
        let mut prng = Prng::new(9);
        for step in 0..20_000_u64 {
            let key = format!("k{}", prng.below(200)).into_bytes();
            let bytes = vec![b'x'; prng.below(100) as usize];
            match prng.below(5) {
                0 => keyspace.set(&key, text(&bytes), if step % 2 == 0 { NEVER } else { 50_000 + step }),
                1 => _ = keyspace.remove(&key),
                2 => _ = keyspace.edit::<Vec<u8>, _>(&key, |text| text.extend_from_slice(b"more")),
                3 => keyspace.set_expiry(&key, 60_000 + step),
                _ => _ = keyspace.take(&key),
            }
        }
        assert_eq!(keyspace.memory_used(), memory_counted(&keyspace));
        let volatile = keyspace.entries.iter().filter(|entry| entry.expires_at != NEVER).count();
        assert_eq!(keyspace.expiries.len(), volatile);
    }

    #[test]
    fn a_cleared_keyspace_is_empty_at_once_and_costs_nothing_in_the_end() {
        let mut keyspace = Keyspace::new(1);
        (0..10_000_u64).for_each(|at| keyspace.set(format!("k{at}").as_bytes(), text(b"v"), 1_000 + at));
        keyspace.clear();
        assert_eq!(keyspace.len(), 0);
        assert!(keyspace.memory_used() > 0, "still to be freed");
        while keyspace.free_step() {}
        assert_eq!(keyspace.memory_used(), 0);
    }

    #[test]
    fn the_key_that_expires_first_is_evicted_first() {
        let mut keyspace = Keyspace::new(1);
        keyspace.set(b"stays", text(b"v"), NEVER);
        keyspace.set(b"later", text(b"v"), 2_000);
        keyspace.set(b"soon", text(b"v"), 1_000);
        assert!(keyspace.evict_one(EvictionPolicy::VolatileTtl));
        assert!(keyspace.peek(b"soon").is_none());
        assert!(keyspace.evict_one(EvictionPolicy::VolatileLru));
        assert!(keyspace.peek(b"later").is_none());
        assert!(!keyspace.evict_one(EvictionPolicy::VolatileRandom), "the last one does not expire");
        assert!(!keyspace.evict_one(EvictionPolicy::NoEviction));
        assert!(keyspace.evict_one(EvictionPolicy::AllKeysRandom));
        assert_eq!(keyspace.len(), 0);
    }

    #[test]
    fn what_was_not_used_for_longest_is_evicted_before_what_was() {
        let mut keyspace = Keyspace::new(1);
        for at in 0..1_000_u64 {
            keyspace.now_ms = at * 1_000;
            keyspace.set(format!("k{at}").as_bytes(), text(b"v"), NEVER);
        }
        (0..500).for_each(|_| assert!(keyspace.evict_one(EvictionPolicy::AllKeysLru)));
        let old = keyspace.iter().filter(|(key, _)| key.len() < 4 || key[1] < b'5').count();
        assert!(old < 100, "{old} of the older half are left");
    }
}
