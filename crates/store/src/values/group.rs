//! A consumer group of a stream: its position, and its consumers' unacknowledged entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::values::stream::{Id, Stream};

/// Readers that share the entries of a stream.
#[derive(Clone, Default)]
pub(crate) struct Group {
    pub(crate) last_id: Id,
    /// Number of entries of the stream that the group has read; `None` if unknown.
    pub(crate) read: Option<u64>,
    pending: BTreeMap<Id, Pending>,
    consumers: BTreeMap<Arc<[u8]>, Consumer>,
    bytes: usize,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone)]
pub(crate) struct Pending {
    pub(crate) consumer: Arc<[u8]>,
    pub(crate) delivered_ms: u64,
    pub(crate) deliveries: u64,
}

/// One reader.
#[derive(Clone, Default)]
pub(crate) struct Consumer {
    pub(crate) seen_ms: u64,
    pending: BTreeSet<Id>,
}

impl Consumer {
    pub(crate) fn pending(&self) -> &BTreeSet<Id> {
        &self.pending
    }
}

impl Group {
    pub(crate) fn new(last_id: Id, read: Option<u64>) -> Group {
        Group { last_id, read, ..Group::default() }
    }

    pub(crate) fn memory(&self) -> usize {
        GROUP_BYTES + self.bytes
    }

    pub(crate) fn pending(&self) -> &BTreeMap<Id, Pending> {
        &self.pending
    }

    pub(crate) fn consumers(&self) -> &BTreeMap<Arc<[u8]>, Consumer> {
        &self.consumers
    }

    pub(crate) fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    /// Returns false if a consumer of this name exists.
    pub(crate) fn add_consumer(&mut self, name: &[u8], seen_ms: u64) -> bool {
        if self.consumers.contains_key(name) {
            return false;
        }
        self.bytes += CONSUMER_BYTES + name.len();
        self.consumers.insert(name.into(), Consumer { seen_ms, pending: BTreeSet::new() });
        true
    }

    /// The name as the group keeps it. The consumer counts as seen now, and is created if it does not exist.
    pub(crate) fn see_consumer(&mut self, name: &[u8], now_ms: u64) -> Arc<[u8]> {
        self.add_consumer(name, now_ms);
        let (name, _) = self.consumers.get_key_value(name).expect("it was just made or was there");
        let name = name.clone();
        if let Some(consumer) = self.consumers.get_mut(&name) {
            consumer.seen_ms = now_ms;
        }
        name
    }

    /// Removes a consumer with all its pending entries. Returns their number; `None` without such a consumer.
    pub(crate) fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        self.bytes -= CONSUMER_BYTES + name.len();
        consumer.pending.iter().for_each(|id| self.forget(*id));
        Some(consumer.pending.len())
    }

    fn forget(&mut self, id: Id) {
        if self.pending.remove(&id).is_some() {
            self.bytes -= PENDING_BYTES;
        }
    }

    /// Makes an entry pending for the consumer that `pending` names, and takes it from any other.
    pub(crate) fn assign(&mut self, id: Id, pending: Pending) {
        let consumer = pending.consumer.clone();
        match self.pending.insert(id, pending) {
            Some(old) => _ = self.consumers.get_mut(&old.consumer).map(|old| old.pending.remove(&id)),
            None => self.bytes += PENDING_BYTES,
        }
        self.consumers.get_mut(&consumer).map(|consumer| consumer.pending.insert(id));
    }

    /// Returns true if it was pending.
    pub(crate) fn acknowledge(&mut self, id: Id) -> bool {
        let Some(pending) = self.pending.get(&id) else { return false };
        self.consumers.get_mut(&pending.consumer).map(|consumer| consumer.pending.remove(&id));
        self.forget(id);
        true
    }

    /// Records that the entry `id` of `stream` was read: as the last one, and in the count if that is known.
    pub(crate) fn advance(&mut self, stream: &Stream, id: Id) {
        if id <= self.last_id {
            return;
        }
        match self.read {
            Some(read) if !has_tombstones(stream, id) => self.read = Some(read.wrapping_add(1)),
            _ if stream.added > 0 => self.read = read_until(stream, id),
            _ => {}
        }
        self.last_id = id;
    }

    /// Number of unread entries of `stream`, if known.
    pub(crate) fn lag(&self, stream: &Stream) -> Option<i64> {
        if stream.added == 0 {
            return Some(0);
        }
        let known = self.read.filter(|_| !has_tombstones(stream, self.last_id));
        let read = known.or_else(|| read_until(stream, self.last_id))?;
        Some((stream.added as i64).wrapping_sub(read as i64))
    }

    /// Takes out a bounded part of a group that is being freed.
    pub(crate) fn dismantle(&mut self) -> bool {
        for _ in 0..PENDING_PER_STEP {
            let Some((id, pending)) = self.pending.pop_first() else { return false };
            self.bytes -= PENDING_BYTES;
            self.consumers.get_mut(&pending.consumer).map(|consumer| consumer.pending.remove(&id));
        }
        true
    }
}

/// Whether an entry behind `from` may have been deleted.
fn has_tombstones(stream: &Stream, from: Id) -> bool {
    let deleted = stream.max_deleted_id;
    stream.len() > 0 && deleted != Id::MIN && from <= deleted && stream.first_id() <= deleted
}

/// The number of the entry `id` among all that `stream` ever had, if known.
pub(crate) fn read_until(stream: &Stream, id: Id) -> Option<u64> {
    if stream.added == 0 {
        return Some(0);
    }
    if (stream.len() == 0 && id <= stream.last_id) || id == stream.last_id {
        return Some(stream.added);
    }
    let first = stream.first_id();
    let is_whole = stream.max_deleted_id == Id::MIN || stream.max_deleted_id < first;
    let before = stream.added.wrapping_sub(stream.len() as u64);
    match id {
        _ if id > stream.last_id || !is_whole || id > first => None,
        _ if id == first => Some(before.wrapping_add(1)),
        _ => Some(before),
    }
}

/// A group in a tree that is two thirds full.
const GROUP_BYTES: usize = 200;

/// A consumer in a tree that is two thirds full, and the allocation of its name.
const CONSUMER_BYTES: usize = 120;

/// An id with its owner in the tree of the group, and an id in that of the consumer.
const PENDING_BYTES: usize = 112;

/// Pending entries that are freed in one step.
const PENDING_PER_STEP: usize = 100;
