//! The store: settings, state, housekeeping. The way of one request is in `requests.rs`.

use std::collections::VecDeque;

use resp::Request;

use crate::caller_id::CallerId;
use crate::callers::Callers;
use crate::channels::Channels;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::policy::EvictionPolicy;
use crate::replies::Reply;
use crate::rows::{Index, Row, Run};
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
    pub(crate) index: Index,
}

impl Store {
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

    /// Runs a request whose name and arity were checked.
    pub(crate) fn execute(
        &mut self,
        caller: CallerId,
        request: &Request<'_>,
        out: &mut Reply,
    ) -> Result<(), Error> {
        let row: &Row = self.index.find(request.arg(0)).ok_or_else(|| Error::not_here(request.arg(0)))?;
        self.keyspace.stats.begin(row.reads);
        self.run_row(row, caller, request, out)
    }

    /// Runs a request after all checks that are common to all commands.
    #[inline(always)]
    pub(crate) fn run_row(
        &mut self,
        row: &Row,
        caller: CallerId,
        request: &Request<'_>,
        out: &mut Reply,
    ) -> Result<(), Error> {
        let done = match row.run {
            Run::OnKeys(run) => run(&mut self.keyspace, request, out),
            Run::OnStore(run) => run(self, caller, request, out),
        };
        self.keyspace.expire_overdue();
        done
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
