//! A list: the value of LPUSH and its relatives.

use crate::values::sequence::{Place, Sequence};
use crate::values::value::COLLECTION_BYTES;

/// Elements in order, with their size.
#[derive(Default)]
pub(crate) struct List {
    items: Sequence<Box<[u8]>>,
    bytes: usize,
}

/// An end of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

impl End {
    pub(crate) fn of(from_second: bool) -> End {
        if from_second { End::Right } else { End::Left }
    }

    /// Name of a push to this end in keyspace notifications.
    pub(crate) fn push_event(self) -> &'static str {
        if self == End::Left { "lpush" } else { "rpush" }
    }

    /// Name of a pop from this end.
    pub(crate) fn pop_event(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn memory(&self) -> usize {
        COLLECTION_BYTES + self.bytes
    }

    pub(crate) fn push(&mut self, end: End, item: &[u8]) {
        self.bytes += cost(item);
        match end {
            End::Left => self.items.push_front(item.into()),
            End::Right => self.items.push_back(item.into()),
        }
    }

    pub(crate) fn pop(&mut self, end: End) -> Option<Box<[u8]>> {
        let item = match end {
            End::Left => self.items.pop_front(),
            End::Right => self.items.pop_back(),
        }?;
        self.bytes -= cost(&item);
        Some(item)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.items.get(index).map(|item| &**item)
    }

    pub(crate) fn set(&mut self, index: usize, item: &[u8]) {
        if let Some(old) = self.items.get_mut(index) {
            self.bytes = self.bytes + cost(item) - cost(old);
            *old = item.into();
        }
    }

    /// Inserts `item` before or behind the first `pivot`. Returns false if there is none.
    pub(crate) fn insert(&mut self, pivot: &[u8], behind: bool, item: &[u8]) -> bool {
        let Some(index) = self.items.iter().position(|other| **other == *pivot) else { return false };
        let place: Place = self.items.place(index + usize::from(behind));
        self.bytes += cost(item);
        self.items.insert(place, item.into());
        true
    }

    /// Removes up to `count` elements equal to `item`, from the given end on. Returns their number.
    pub(crate) fn remove(&mut self, item: &[u8], count: usize, end: End) -> usize {
        let matches = self.items.iter().filter(|other| ***other == *item).count();
        let removed = matches.min(count);
        let kept_before = if end == End::Right { matches - removed } else { 0 };
        let mut met = 0;
        self.items.retain(|other| {
            let is_match = **other == *item;
            met += usize::from(is_match);
            !(is_match && (kept_before + 1..=kept_before + removed).contains(&met))
        });
        self.bytes -= removed * cost(item);
        removed
    }

    /// Keeps the elements of the half-open range and gives the others, for freeing.
    pub(crate) fn trim(&mut self, from: usize, to: usize) -> [List; 2] {
        let behind = List::of(self.items.take_behind(to));
        let before = List::of(self.items.take_front(from));
        self.bytes -= behind.bytes + before.bytes;
        [before, behind]
    }

    fn of(items: Sequence<Box<[u8]>>) -> List {
        let bytes = items.iter().map(|item| cost(item)).sum();
        List { items, bytes }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.items.iter().map(|item| &**item)
    }

    pub(crate) fn range(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        self.items.range(from, to).map(|item| &**item)
    }

    pub(crate) fn copied(&self) -> List {
        let mut copy = List::default();
        self.iter().for_each(|item| copy.push(End::Right, item));
        copy
    }

    pub(crate) fn dismantle(&mut self) -> bool {
        let Some(chunk) = self.items.dismantle() else { return false };
        self.bytes -= chunk.iter().map(|item| cost(item)).sum::<usize>();
        true
    }

    /// Redis keeps eight kilobytes in a node, and reports the same encoding for lists of any length.
    pub(crate) fn encoding(&self) -> &'static str {
        "quicklist"
    }
}

fn cost(item: &[u8]) -> usize {
    item.len() + ELEMENT_BYTES
}

/// A pointer and a length in a chunk that is three quarters full, and the allocation.
pub(crate) const ELEMENT_BYTES: usize = 40;
