//! The keys of all databases: look-up, change, expiry, eviction and freeing, with an account of every byte.
//!
//! All changes of a value go through [`Keyspace::edit`], [`Keyspace::edit_or_create`] and [`Keyspace::set`]. They keep the
//! account and the index of expiries, and remove empty collections.
//!
//! A large value is not dropped at once but becomes garbage. [`Keyspace::free_step`] frees it in steps; until then it counts as
//! used memory.

use std::cell::RefCell;
use std::collections::BTreeSet;

use stdx::Prng;

use crate::audience::{Audience, Class};
use crate::database::{DATABASES, Database, Entry, NEVER};
use crate::error::Error;
use crate::policy::EvictionPolicy;
use crate::stats::Stats;
use crate::table::Table;
use crate::values::value::{Kind, Value};

/// Keys of one shard.
pub(crate) struct Keyspace {
    /// Unix time of the request that runs, in milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) prng: Prng,
    /// Limit for the bytes of all keys. It also bounds a string that a short request could make long.
    pub(crate) memory_max: usize,
    /// Eviction policy for full memory.
    pub(crate) policy: EvictionPolicy,
    pub(crate) stats: Stats,
    /// Observers of changes.
    pub(crate) audience: Audience,
    /// Expired keys of the selected database that were found through a shared borrow of the keyspace.
    overdue: RefCell<Vec<Box<[u8]>>>,
    /// The selected database. It is stored here directly, so that a request needs no look-up.
    database: Database,
    selected: u8,
    /// The other databases, each at its number. The entry of the selected one is empty and unused.
    resting: Vec<Database>,
    /// The database from which a key was evicted last.
    evicted_from: u8,
    garbage: Vec<Garbage>,
    memory_used: usize,
    seed: u64,
}

/// Unreachable memory that is still to be freed.
enum Garbage {
    Value(Value),
    Entries(Table<Entry>),
    Expiries(BTreeSet<(u64, u64)>),
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
            audience: Audience::default(),
            overdue: RefCell::default(),
            database: Database::new(seed),
            selected: 0,
            resting: (0..DATABASES).map(|_| Database::new(seed)).collect(),
            evicted_from: 0,
            garbage: Vec::new(),
            memory_used: 0,
            seed,
        }
    }

    /// Selects a database for all that follows.
    #[inline]
    pub(crate) fn select(&mut self, number: u8) {
        if number != self.selected {
            std::mem::swap(&mut self.database, &mut self.resting[usize::from(self.selected)]);
            std::mem::swap(&mut self.database, &mut self.resting[usize::from(number)]);
            self.selected = number;
        }
    }

    pub(crate) fn selected(&self) -> u8 {
        self.selected
    }

    /// All databases with their numbers.
    pub(crate) fn databases(&self) -> impl Iterator<Item = (u8, &Database)> {
        (0..DATABASES).map(|number| (number, self.database(number)))
    }

    fn database(&self, number: u8) -> &Database {
        if number == self.selected { &self.database } else { &self.resting[usize::from(number)] }
    }

    /// Two databases exchange all that they have.
    pub(crate) fn swap(&mut self, one: u8, other: u8) {
        if one == other {
            return;
        }
        if self.audience.is_there() {
            self.tell_exchange(one, Some(other));
            self.tell_exchange(other, Some(one));
        }
        let selected = self.selected;
        self.select(one);
        std::mem::swap(&mut self.database, &mut self.resting[usize::from(other)]);
        self.select(selected);
        if self.audience.is_there() {
            self.signal_all(one);
            self.signal_all(other);
        }
    }

    /// Runs a closure in another database.
    pub(crate) fn within<R>(&mut self, number: u8, act: impl FnOnce(&mut Keyspace) -> R) -> R {
        let selected = self.selected;
        self.select(number);
        let result = act(self);
        self.select(selected);
        result
    }

    /// The value of `key` without any side effect.
    pub(crate) fn glance(&self, key: &[u8]) -> Option<&Value> {
        let entry = self.database.entries.find(self.database.entries.hash(key), key);
        entry.filter(|entry| self.now_ms <= entry.expires_at).map(|entry| &entry.value)
    }

    /// Bytes of `key`, expired or not.
    pub(crate) fn memory_of(&self, key: &[u8]) -> Option<usize> {
        self.database.entries.find(self.database.entries.hash(key), key).map(Entry::memory)
    }

    /// Keys of the selected database, with expired ones that were not removed yet.
    pub(crate) fn len(&self) -> usize {
        self.database.len()
    }

    /// Keys of all databases.
    pub(crate) fn len_of_all(&self) -> usize {
        self.databases().map(|(_, database)| database.len()).sum()
    }

    pub(crate) fn memory_used(&self) -> usize {
        self.memory_used
    }

    /// The entry of `key`. The access counts as its last use.
    #[inline]
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<&Entry> {
        let clock = self.clock();
        let hash = self.live_hash(key);
        let entry = self.stats.looked_up(self.database.entries.find_mut(hash, key))?;
        entry.touched = clock;
        Some(entry)
    }

    /// The entry of `key`, without counting as use, for commands that look at several keys at once.
    /// [`Keyspace::expire_overdue`] removes an expired key.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<&Entry> {
        let entry = self.database.entries.find(self.database.entries.hash(key), key);
        self.stats.looked_up(entry.filter(|entry| self.is_live(entry)))
    }

    /// Whether `entry` has not expired. If it has, [`Keyspace::expire_overdue`] removes the key.
    fn is_live(&self, entry: &Entry) -> bool {
        let is_live = self.now_ms <= entry.expires_at;
        if !is_live {
            self.overdue.borrow_mut().push(entry.key.clone());
        }
        is_live
    }

    /// Removes the expired keys that [`Keyspace::peek`] found. Call it before another database is selected.
    #[inline]
    pub(crate) fn expire_overdue(&mut self) {
        if !self.overdue.get_mut().is_empty() {
            self.expire_all_overdue();
        }
    }

    #[cold]
    fn expire_all_overdue(&mut self) {
        for key in std::mem::take(self.overdue.get_mut()) {
            self.live_hash(&key);
        }
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

    /// Changes the value of `key`, if there is one. A collection that becomes empty is removed with its key.
    pub(crate) fn edit<K: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> R,
    ) -> Result<Option<R>, Error> {
        let clock = self.clock();
        let hash = self.live_hash(key);
        let Some(entry) = self.database.entries.find_mut(hash, key) else { return Ok(None) };
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

    /// As [`Keyspace::edit`], but creates an empty value first if there is none.
    pub(crate) fn edit_or_create<K: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> R,
    ) -> Result<R, Error> {
        let hash = self.live_hash(key);
        if self.database.entries.find(hash, key).is_none() {
            self.insert(hash, key, K::empty(self.seed).into_value(), NEVER);
        }
        // The entry exists: it was just inserted or found.
        self.edit(key, change).map(|result| result.expect("the key is there"))
    }

    /// Stores a value under `key` and replaces any other.
    #[inline]
    pub(crate) fn set(&mut self, key: &[u8], value: Value, expires_at: u64) {
        let (clock, now_ms) = (self.clock(), self.now_ms);
        let hash = self.database.entries.hash(key);
        let found = self.database.entries.find_mut(hash, key);
        let Some(entry) = found.filter(|entry| now_ms <= entry.expires_at) else {
            self.live_hash(key);
            return self.insert(hash, key, value, expires_at);
        };
        let before = entry.memory();
        let old_value = std::mem::replace(&mut entry.value, value);
        let old_expiry = std::mem::replace(&mut entry.expires_at, expires_at);
        entry.touched = clock;
        self.memory_used = self.memory_used + entry.memory() - before;
        self.database.index_expiry(hash, old_expiry, expires_at);
        self.signal_if_stream(key, &old_value);
        self.discard(old_value);
    }

    /// As [`Keyspace::set`] for the result of the command that `event` names; an empty one removes the key.
    pub(crate) fn set_result(&mut self, key: &[u8], value: Value, class: Class, event: &'static str) {
        if !value.is_gone() {
            self.set(key, value, NEVER);
            self.changed(class, event, key);
        } else if self.delete(key) {
            self.changed(Class::Generic, "del", key);
        }
    }

    /// Reports a change of `key` to its observers. As in Redis, every command that changes a key reports it once. A command
    /// that changes nothing must not: a transaction that watches the key would fail.
    #[inline]
    pub(crate) fn changed(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.audience.is_there() {
            self.tell(class, event, key);
        }
    }

    /// As [`Keyspace::changed`], for a change that may have removed the last element and the key with it.
    #[inline]
    pub(crate) fn shrunk(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.audience.is_there() {
            self.tell(class, event, key);
            if !self.exists(key) {
                self.audience.note(self.selected, Class::Generic, "del", key);
            }
        }
    }

    /// As [`Keyspace::changed`], for a change that only WATCH observes.
    pub(crate) fn touched(&mut self, key: &[u8]) {
        if self.audience.is_there() {
            self.audience.touch(self.selected, key, self.exists(key));
        }
    }

    /// As [`Keyspace::changed`], for an event that WATCH ignores.
    pub(crate) fn noted(&mut self, class: Class, event: &'static str, key: &[u8]) {
        self.audience.note(self.selected, class, event, key);
    }

    #[cold]
    fn tell(&mut self, class: Class, event: &'static str, key: &[u8]) {
        // Expiries before the change are reported before it.
        self.expire_overdue();
        self.audience.touch(self.selected, key, self.exists(key));
        self.audience.note(self.selected, class, event, key);
    }

    /// Whether `key` exists, expired or not.
    pub(crate) fn exists(&self, key: &[u8]) -> bool {
        self.database.has(key)
    }

    /// Whether `key` exists but has expired.
    pub(crate) fn is_over(&self, key: &[u8]) -> bool {
        self.database.is_over(key, self.now_ms)
    }

    /// Marks `key` as ready: its waiting connections may find what they need.
    #[inline]
    pub(crate) fn signal(&mut self, key: &[u8]) {
        if self.audience.is_there() {
            self.audience.signal(self.selected, key);
        }
    }

    /// When a stream is removed, waiting members of its groups get an error.
    #[inline]
    fn signal_if_stream(&mut self, key: &[u8], old: &Value) {
        if self.audience.is_there() && matches!(old, Value::Stream(_)) {
            self.audience.signal(self.selected, key);
        }
    }

    /// All keys of `database` are about to be removed, or exchanged for those of `other`.
    #[cold]
    fn tell_exchange(&mut self, number: u8, other: Option<u8>) {
        let Keyspace { audience, database, selected, resting, now_ms, .. } = self;
        let find = |number: u8| if number == *selected { &*database } else { &resting[usize::from(number)] };
        let (old, new) = (find(number), other.map(find));
        let is_there = |key: &[u8]| new.is_some_and(|new| new.has(key));
        let is_over = |key: &[u8]| new.is_some_and(|new| new.is_over(key, *now_ms));
        audience.touch_all(number, |key| old.has(key), is_there, is_over);
        let is_lost = |key: &&[u8]| old.is_stream(key) && !new.is_some_and(|new| new.is_stream(key));
        let lost: Vec<Box<[u8]>> = audience.waited_for(number).filter(is_lost).map(Box::from).collect();
        lost.iter().for_each(|key| audience.signal(number, key));
    }

    /// Marks all waited-for keys of a database as ready.
    #[cold]
    fn signal_all(&mut self, number: u8) {
        let is_there = |key: &&[u8]| self.database(number).has(key);
        let keys: Vec<Box<[u8]>> = self.audience.waited_for(number).filter(is_there).map(Box::from).collect();
        keys.iter().for_each(|key| self.audience.signal(number, key));
    }

    /// Returns true if the key existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some((value, _)) = self.take(key) else { return false };
        self.discard(value);
        true
    }

    /// As [`Keyspace::remove`], but an expired key counts as an existing one. Commands that empty their target need this.
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        self.expire_overdue();
        let taken = self.take_hashed(self.database.entries.hash(key), key);
        let is_taken = taken.is_some();
        taken.into_iter().for_each(|(value, _)| self.discard(value));
        is_taken
    }

    /// Takes the value of `key` out, with its expiry.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<(Value, u64)> {
        let hash = self.live_hash(key);
        self.take_hashed(hash, key)
    }

    /// Sets the expiry of `key`, which must exist.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires_at: u64) {
        let hash = self.database.entries.hash(key);
        let Some(entry) = self.database.entries.find_mut(hash, key) else { return };
        let before = entry.memory();
        let old_expiry = std::mem::replace(&mut entry.expires_at, expires_at);
        self.memory_used = self.memory_used + entry.memory() - before;
        self.database.index_expiry(hash, old_expiry, expires_at);
    }

    /// A copy of the value of `key`, and its expiry.
    pub(crate) fn copy(&mut self, key: &[u8]) -> Option<(Value, u64)> {
        let seed = self.seed;
        self.find(key).map(|entry| (entry.value.copied(seed), entry.expires_at))
    }

    /// An empty collection for a result that is built before it is stored.
    pub(crate) fn empty<K: Kind>(&self) -> K {
        K::empty(self.seed)
    }

    /// A random generator for a closure that changes a value while the keyspace is borrowed.
    pub(crate) fn fork_prng(&mut self) -> Prng {
        Prng::new(self.prng.next_u64())
    }

    /// Sets the idle time of `key`.
    pub(crate) fn set_idle(&mut self, key: &[u8], idle_s: u64) {
        let clock = (self.now_ms.saturating_sub(idle_s.saturating_mul(1_000)) / CLOCK_MS) as u32;
        let hash = self.database.entries.hash(key);
        if let Some(entry) = self.database.entries.find_mut(hash, key) {
            entry.touched = clock;
        }
    }

    /// Idle time of `entry` in milliseconds.
    pub(crate) fn idle_ms(&self, entry: &Entry) -> u64 {
        u64::from(self.clock().wrapping_sub(entry.touched)) * CLOCK_MS
    }

    /// All keys that are not expired.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Value)> {
        let live = self.database.entries.iter().filter(|entry| self.now_ms <= entry.expires_at);
        live.map(|entry| (&*entry.key, &entry.value))
    }

    /// Walks the keys; see [`Table::scan`]. Expired keys that match are removed, as by [`Keyspace::peek`].
    pub(crate) fn scan<'k>(
        &'k self,
        cursor: u64,
        count: usize,
        is_wanted: impl Fn(&Entry) -> bool,
        mut found: impl FnMut(&'k [u8]),
    ) -> u64 {
        self.database.entries.scan(cursor, count, |entry| {
            if is_wanted(entry) && self.is_live(entry) {
                found(&entry.key);
            }
        })
    }

    /// A key at random.
    pub(crate) fn random_key(&mut self) -> Option<Box<[u8]>> {
        for _ in 0..RANDOM_KEY_TRIES {
            let entry = self.database.entries.random(&mut self.prng)?;
            let (key, expires_at) = (entry.key.clone(), entry.expires_at);
            if self.now_ms <= expires_at {
                return Some(key);
            }
            self.expire(self.database.entries.hash(&key), &key);
        }
        // Expired keys come first in the index, so more draws would not help.
        self.iter().next().map(|(key, _)| key.into())
    }

    /// Removes all keys of the selected database and frees them later.
    pub(crate) fn clear(&mut self) {
        if self.database.len() == 0 {
            return;
        }
        if self.audience.is_there() {
            self.tell_exchange(self.selected, None);
        }
        let database = std::mem::replace(&mut self.database, Database::new(self.seed));
        self.garbage.push(Garbage::Entries(database.entries));
        self.garbage.push(Garbage::Expiries(database.expiries));
    }

    /// Frees a value: at once if it is small, in steps otherwise.
    pub(crate) fn discard(&mut self, value: Value) {
        if value.elements() > ELEMENTS_AT_ONCE_MAX {
            self.memory_used += value.memory();
            self.garbage.push(Garbage::Value(value));
        }
    }

    /// Removes one expired key, in any database, and selects its database. Returns false if there is none.
    pub(crate) fn expire_one(&mut self) -> bool {
        if !self.database.is_due(self.now_ms) {
            let due = self.databases().find(|(_, database)| database.is_due(self.now_ms));
            let Some((number, _)) = due else { return false };
            self.select(number);
        }
        let Some(&(expires_at, hash)) = self.database.expiries.first() else { return false };
        match self.database.expiring(expires_at, hash).map(|entry| entry.key.clone()) {
            Some(key) => self.expire(hash, &key),
            None => _ = self.database.expiries.pop_first(),
        }
        true
    }

    /// Frees about a hundred elements of garbage. Returns false if there is none.
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

    /// Removes the key that `policy` chooses among all databases. Returns false if no key may be evicted.
    pub(crate) fn evict_one(&mut self, policy: EvictionPolicy) -> bool {
        let Some((number, key)) = self.choose_victim(policy) else { return false };
        self.evicted_from = number;
        self.within(number, |keyspace| {
            keyspace.remove_hashed(keyspace.database.entries.hash(&key), &key);
            keyspace.changed(Class::Evicted, "evicted", &key);
        });
        self.stats.evicted += 1;
        true
    }

    /// Each database that has keys proposes one. With a random policy, the databases take turns.
    fn choose_victim(&mut self, policy: EvictionPolicy) -> Option<(u8, Box<[u8]>)> {
        let clock = self.clock();
        let mut chosen: Option<(u8, &Entry)> = None;
        for step in 1..=DATABASES {
            let number = (self.evicted_from + step) % DATABASES;
            let database =
                if number == self.selected { &self.database } else { &self.resting[usize::from(number)] };
            let Some(entry) = database.victim(policy, clock, &mut self.prng) else { continue };
            if chosen.is_none_or(|(_, other)| entry.goes_before(other, policy, clock)) {
                chosen = Some((number, entry));
            }
        }
        chosen.map(|(number, entry)| (number, entry.key.clone()))
    }

    /// The hash of `key`. If the key has expired, it is removed.
    #[inline]
    fn live_hash(&mut self, key: &[u8]) -> u64 {
        let hash = self.database.entries.hash(key);
        // Two look-ups instead of one, but only if the database has keys that expire.
        if !self.database.expiries.is_empty()
            && self.database.entries.find(hash, key).is_some_and(|entry| entry.expires_at < self.now_ms)
        {
            self.expire(hash, key);
        }
        hash
    }

    fn expire(&mut self, hash: u64, key: &[u8]) {
        self.remove_hashed(hash, key);
        self.stats.expired += 1;
        self.changed(Class::Expired, "expired", key);
    }

    fn insert(&mut self, hash: u64, key: &[u8], value: Value, expires_at: u64) {
        let entry = Entry { key: key.into(), value, expires_at, touched: self.clock() };
        self.memory_used += entry.memory();
        self.database.entries.insert(hash, entry);
        self.database.index_expiry(hash, NEVER, expires_at);
        if self.audience.is_there() {
            self.audience.note(self.selected, Class::New, "new", key);
            self.audience.signal(self.selected, key);
        }
    }

    fn remove_hashed(&mut self, hash: u64, key: &[u8]) {
        if let Some((value, _)) = self.take_hashed(hash, key) {
            self.discard(value);
        }
    }

    fn take_hashed(&mut self, hash: u64, key: &[u8]) -> Option<(Value, u64)> {
        let entry = self.database.entries.remove(hash, key)?;
        self.memory_used -= entry.memory();
        self.database.index_expiry(hash, entry.expires_at, NEVER);
        self.signal_if_stream(key, &entry.value);
        Some((entry.value, entry.expires_at))
    }

    #[inline]
    fn clock(&self) -> u32 {
        (self.now_ms / CLOCK_MS) as u32
    }
}

/// Unit of the time of last use: 32 bits last for eight years.
const CLOCK_MS: u64 = 64;

/// A larger value is freed in steps. To free this many elements takes some ten microseconds.
pub(crate) const ELEMENTS_AT_ONCE_MAX: usize = 256;
const EXPIRIES_PER_STEP: usize = 200;

/// Redis tries as often to find a key that has not expired.
const RANDOM_KEY_TRIES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Value {
        Value::Text(bytes.to_vec())
    }

    /// The expected value of the account.
    fn memory_counted(keyspace: &Keyspace) -> usize {
        keyspace.database.entries.iter().map(Entry::memory).sum()
    }

    #[test]
    fn expired_key_is_absent_and_removed_on_access() {
        let mut keyspace = Keyspace::new(1);
        keyspace.set(b"k", text(b"v"), 100);
        keyspace.now_ms = 100;
        assert!(keyspace.find(b"k").is_some(), "its last millisecond");
        keyspace.now_ms = 101;
        assert!(keyspace.peek(b"k").is_none());
        assert_eq!(keyspace.len(), 1);
        assert!(keyspace.find(b"k").is_none());
        assert_eq!((keyspace.len(), keyspace.memory_used(), keyspace.database.expiries.len()), (0, 0, 0));
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
        let volatile = keyspace.database.entries.iter().filter(|entry| entry.expires_at != NEVER).count();
        assert_eq!(keyspace.database.expiries.len(), volatile);
    }

    #[test]
    fn cleared_keyspace_is_empty_at_once_and_freed_later() {
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
    fn the_longest_unused_key_is_evicted_first() {
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
