//! The store: settings, state, housekeeping. The way of one request is in `requests.rs`.

use std::collections::VecDeque;

use crate::caller_id::CallerId;
use crate::callers::Callers;
use crate::channels::Channels;
use crate::commands::compiled::Scripts;
use crate::formats::double::Doubles;
use crate::keyspace::Keyspace;
use crate::policy::EvictionPolicy;
use crate::rows::{Index, Row};
use crate::waiting::Delivery;

/// Settings of a new store.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    /// Seed of hashes and of every random choice. A store that serves strangers needs one that they cannot know: otherwise they
    /// can choose keys whose hashes collide.
    pub seed: u64,
    /// Bytes of keys and values by the store's own account, at which it evicts or refuses. The account estimates what tables
    /// and the allocator add. A single request may exceed the limit by its own size.
    pub memory_max: Option<usize>,
    /// Eviction policy for full memory.
    pub policy: EvictionPolicy,
}

/// Result of [`Store::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The reply was appended.
    Answered,
    /// The reply comes later, as a [`Delivery`]. No other request of this connection may run before it.
    Waits,
}

/// The keyspace of one shard.
pub struct Store {
    pub(crate) keyspace: Keyspace,
    pub(crate) callers: Callers,
    pub(crate) channels: Channels,
    /// Replies and pushes for other connections.
    pub(crate) deliveries: VecDeque<Delivery>,
    /// EXEC runs queued requests: none of them can wait.
    pub(crate) is_in_transaction: bool,
    /// Format of doubles in replies.
    pub(crate) doubles: Doubles,
    pub(crate) index: Index,
    pub(crate) scripts: Scripts,
    /// A script runs: messages to its own client follow its reply.
    pub(crate) is_in_script: bool,
}

impl Store {
    /// An empty store that knows the commands `rows`.
    pub(crate) fn with_rows(settings: StoreSettings, rows: &'static [Row]) -> Store {
        let mut keyspace = Keyspace::new(settings.seed);
        keyspace.memory_max = settings.memory_max.unwrap_or(usize::MAX);
        keyspace.policy = settings.policy;
        Store {
            keyspace,
            callers: Callers::default(),
            channels: Channels::default(),
            deliveries: VecDeque::new(),
            is_in_transaction: false,
            doubles: Doubles::default(),
            index: Index::new(rows, settings.seed),
            scripts: Scripts::default(),
            is_in_script: false,
        }
    }

    /// Begins a connection, in database 0 and in RESP2.
    pub fn admit(&mut self) -> CallerId {
        self.callers.admit()
    }

    /// The next replies or pushes for another connection, in the order of their causes. Call it after every [`Store::run`] and
    /// [`Store::work`] until it returns `None`.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        if self.deliveries.is_empty() {
            self.tell_trackers();
        }
        self.deliveries.pop_front()
    }

    /// The unix time in milliseconds at which the next wait ends. [`Store::work`] should be called then.
    pub fn next_deadline(&self) -> Option<u64> {
        self.callers.next_deadline()
    }

    /// Adjusts waits after the clock behind `now_ms` was set by `step_ms`. Waits keep their duration. Keys expire at a time of
    /// day, and so earlier or later.
    pub fn shift_waits(&mut self, step_ms: i64) {
        self.callers.shift_deadlines(step_ms);
    }

    /// A bounded piece of housekeeping, some hundred microseconds at most. It removes expired keys, frees garbage and evicts.
    /// Call it between requests, about a hundred times a second. Returns true if there is more to do.
    pub fn work(&mut self, now_ms: u64) -> bool {
        self.keyspace.now_ms = now_ms;
        self.end_waits(now_ms);
        let expired_all = (0..EXPIRED_PER_WORK).any(|_| !self.keyspace.expire_one());
        let freed_all = (0..STEPS_PER_WORK).any(|_| !self.keyspace.free_step());
        let has_room = self.keyspace.policy == EvictionPolicy::NoEviction || self.make_room(EVICTED_PER_WORK);
        if self.keyspace.audience.is_there() {
            self.tell_audience(None);
        }
        !(expired_all && freed_all && has_room)
    }

    /// Bytes by the store's own account, with garbage that was not freed yet.
    pub fn memory_used(&self) -> usize {
        self.keyspace.memory_used()
    }

    /// Keys of all databases, with expired ones that were not removed yet.
    pub fn len(&self) -> usize {
        self.keyspace.len_of_all()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees and evicts until memory is below its limit. Returns false if no key may be evicted, or `effort` is used up. The
    /// request is then refused instead of delayed, and the next one finds more room.
    #[inline]
    pub(crate) fn make_room(&mut self, effort: usize) -> bool {
        let mut effort = effort;
        while self.keyspace.memory_used() > self.keyspace.memory_max {
            let cost = if self.keyspace.free_step() { STEP_EFFORT } else { 1 };
            if effort < cost || (cost == 1 && !self.keyspace.evict_one(self.keyspace.policy)) {
                return false;
            }
            effort -= cost;
        }
        true
    }
}

/// Keys that one call of [`Store::work`] expires: some hundred microseconds.
pub(crate) const EXPIRED_PER_WORK: usize = 200;

/// Steps of freeing in one call of [`Store::work`], each of a hundred elements.
const STEPS_PER_WORK: usize = 8;

/// Keys that one request evicts: a microsecond each when they are not in the cache.
const EVICTED_PER_WORK: usize = 100;
pub(crate) const EVICTED_PER_REQUEST: usize = 1_000;

/// Cost of a step of freeing, in evictions.
const STEP_EFFORT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    #[test]
    fn work_removes_expired_keys_without_a_request() {
        let mut world = World::unlimited();
        for number in 0..1_000 {
            world.ask(&format!("SET key:{number} v PX 100"));
        }
        assert!(!world.store.work(world.now_ms), "nothing is due");
        world.now_ms += 101;
        let calls = world.work_off();
        assert_eq!(calls, 1_000 / EXPIRED_PER_WORK);
        assert_eq!((world.store.len(), world.store.memory_used()), (0, 0));
    }

    #[test]
    fn big_values_are_freed_in_steps() {
        let mut world = World::unlimited();
        let items = vec!["item"; 1_000].join(" ");
        (0..50).for_each(|_| _ = world.ask(&format!("RPUSH list {items}")));
        let before = world.store.memory_used();
        assert_eq!(world.ask("DEL list"), ":1");
        assert!(world.store.is_empty());
        assert!(world.store.memory_used() > before / 2, "not at once");
        let calls = world.work_off();
        assert!(calls > 10, "{calls} calls");
        assert_eq!(world.store.memory_used(), 0);
    }

    #[test]
    fn streams_and_pending_entries_are_freed_in_steps() {
        let mut world = World::unlimited();
        for number in 0..20_000 {
            world.ask(&format!("XADD s {number}-1 field {number}"));
        }
        let entries = world.store.memory_used();
        world.ask("XGROUP CREATE s g 0");
        world.ask("XREADGROUP GROUP g consumer STREAMS s >");
        let before = world.store.memory_used();
        assert!(before > entries * 2, "pending entries count: {entries}, {before}");
        assert_eq!(world.ask("XGROUP DESTROY s g"), ":1");
        let calls = world.work_off();
        assert!(calls > 10, "{calls} calls");
        assert_eq!(world.store.memory_used(), entries);
        assert_eq!(world.ask("DEL s"), ":1");
        assert!(world.store.memory_used() > 0, "not at once");
        world.work_off();
        assert_eq!(world.store.memory_used(), 0);
    }

    #[test]
    fn memory_stays_below_its_limit_where_keys_are_evicted() {
        for policy in [EvictionPolicy::AllKeysLru, EvictionPolicy::AllKeysRandom] {
            let mut world = World::with(Some(100_000), policy);
            for number in 0..5_000 {
                assert_eq!(world.ask(&format!("SET k{number} value")), "+OK");
                assert!(world.store.memory_used() < 100_500);
            }
            assert!(world.store.len() > 400);
        }
    }

    #[test]
    fn volatile_policies_spare_the_keys_that_stay() {
        for policy in
            [EvictionPolicy::VolatileLru, EvictionPolicy::VolatileRandom, EvictionPolicy::VolatileTtl]
        {
            let mut world = World::with(Some(50_000), policy);
            (0..50).for_each(|number| _ = world.ask(&format!("SET stays{number} v")));
            (0..2_000).for_each(|number| assert_eq!(world.ask(&format!("SET k{number} v EX 100")), "+OK"));
            assert!((0..50).all(|number| world.ask(&format!("EXISTS stays{number}")) == ":1"), "{policy:?}");
        }
    }

    #[test]
    fn a_flushed_store_is_empty_at_once_and_freed_later() {
        let mut world = World::unlimited();
        (0..2_000).for_each(|number| _ = world.ask(&format!("SET k{number} v EX 100")));
        assert_eq!(world.ask("FLUSHALL"), "+OK");
        assert_eq!((world.ask("DBSIZE"), world.ask("RANDOMKEY")), (":0".to_owned(), "$-1".to_owned()));
        assert_eq!(world.ask("SET k0 new"), "+OK");
        world.work_off();
        assert_eq!(world.store.len(), 1);
        world.ask("DEL k0");
        assert_eq!(world.store.memory_used(), 0);
    }
}
