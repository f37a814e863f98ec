//! One numbered database: its keys, and the order in which they expire.

use std::collections::BTreeSet;

use stdx::Prng;

use crate::policy::EvictionPolicy;
use crate::table::{Keyed, Table};
use crate::values::value::{ALLOCATION_BYTES, Value};

/// Keys of one name space. Code that changes them keeps the account in `keyspace`.
pub(crate) struct Database {
    pub(crate) entries: Table<Entry>,
    /// Expiries, each with the hash of its key. Two keys with the same hash and the same expiry share an entry. The second is
    /// not expired actively, but no request sees it after its expiry.
    pub(crate) expiries: BTreeSet<(u64, u64)>,
    /// Number of keys that expire, and the sum of their expiries.
    volatile: usize,
    expiries_sum: u128,
}

/// One key with its value.
pub(crate) struct Entry {
    pub(crate) key: Box<[u8]>,
    pub(crate) value: Value,
    /// Unix time in milliseconds after which the key has expired; [`NEVER`] without expiry.
    pub(crate) expires_at: u64,
    /// Time of last use, in units of the keyspace's clock.
    pub(crate) touched: u32,
}

/// The expiry of a key that never expires.
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

    /// Whether `policy` evicts it before `other`. Always false for the random policies.
    pub(crate) fn goes_before(&self, other: &Entry, policy: EvictionPolicy, clock: u32) -> bool {
        match policy {
            EvictionPolicy::VolatileTtl => self.expires_at < other.expires_at,
            _ if policy.is_lru() => clock.wrapping_sub(self.touched) > clock.wrapping_sub(other.touched),
            _ => false,
        }
    }
}

impl Database {
    pub(crate) fn new(seed: u64) -> Database {
        Database { entries: Table::new(seed), expiries: BTreeSet::new(), volatile: 0, expiries_sum: 0 }
    }

    /// Number of keys, with expired ones that were not removed yet.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of keys that expire, and the average of their remaining milliseconds.
    pub(crate) fn volatile(&self, now_ms: u64) -> (usize, u64) {
        let average = self.expiries_sum.checked_div(self.volatile as u128).unwrap_or_default();
        (self.volatile, u64::try_from(average).unwrap_or(u64::MAX).saturating_sub(now_ms))
    }

    /// Whether a key has expired.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.expiries.first().is_some_and(|&(expires_at, _)| expires_at < now_ms)
    }

    /// Whether `key` exists, expired or not.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// Whether `key` exists but has expired.
    pub(crate) fn is_over(&self, key: &[u8], now_ms: u64) -> bool {
        self.find(key).is_some_and(|entry| entry.expires_at < now_ms)
    }

    pub(crate) fn is_stream(&self, key: &[u8]) -> bool {
        self.find(key).is_some_and(|entry| matches!(entry.value, Value::Stream(_)))
    }

    fn find(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.find(self.entries.hash(key), key)
    }

    /// The entry at a position of the index of expiries.
    pub(crate) fn expiring(&self, expires_at: u64, hash: u64) -> Option<&Entry> {
        self.entries.find_hash(hash, |entry| entry.expires_at == expires_at)
    }

    /// Moves a key with this hash from one expiry to another.
    #[inline]
    pub(crate) fn index_expiry(&mut self, hash: u64, old: u64, new: u64) {
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

    /// The key that `policy` evicts first.
    pub(crate) fn victim(&self, policy: EvictionPolicy, clock: u32, prng: &mut Prng) -> Option<&Entry> {
        if self.len() == 0 || (policy.is_volatile() && self.expiries.is_empty()) {
            return None;
        }
        let samples = match policy {
            EvictionPolicy::NoEviction => return None,
            EvictionPolicy::VolatileTtl => 0,
            EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => 1,
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru => LRU_SAMPLES,
        };
        let draws = if policy.is_volatile() { samples * DRAWS_PER_VOLATILE } else { samples };
        let oldest = (0..draws)
            .filter_map(|_| self.entries.random(prng))
            .filter(|entry| !policy.is_volatile() || entry.expires_at != NEVER)
            .take(samples)
            .max_by_key(|entry| clock.wrapping_sub(entry.touched));
        // No sampled key expires, or the policy goes by the order of expiry.
        let first_to_expire = || {
            let &(expires_at, hash) = self.expiries.first()?;
            self.expiring(expires_at, hash)
        };
        if policy.is_volatile() { oldest.or_else(first_to_expire) } else { oldest }
    }
}

/// Number of databases of a store: Redis's default for `databases`.
pub const DATABASES: u8 = 16;

/// An entry in a table that is two thirds full.
pub(crate) const ENTRY_BYTES: usize = std::mem::size_of::<Entry>() * 3 / 2 + 2;

/// An instant and a hash in the index of expiries, whose nodes are two thirds full.
pub(crate) const EXPIRY_BYTES: usize = 32;

/// Redis's `maxmemory-samples`.
pub(crate) const LRU_SAMPLES: usize = 5;

/// Draws to find a key that expires. If all fail, the key that expires first is taken.
const DRAWS_PER_VOLATILE: usize = 16;
