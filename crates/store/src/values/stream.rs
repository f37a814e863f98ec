//! A stream: entries by the time of their arrival, in Redis's own nodes.
//!
//! A node is a listpack of up to a hundred entries, as in Redis. The ends of nodes determine how far XTRIM with `~` trims, and
//! a dump consists of nodes. A deleted entry is only marked until its whole node is removed.

use std::collections::BTreeMap;

use crate::formats::listpack::{self, Entry};
use crate::values::group::Group;
use crate::values::value::{ALLOCATION_BYTES, COLLECTION_BYTES};

/// Milliseconds of unix time, and a sequence number within the millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) ms: u64,
    pub(crate) seq: u64,
}

impl Id {
    pub(crate) const MIN: Id = Id { ms: 0, seq: 0 };
    pub(crate) const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    pub(crate) fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    pub(crate) fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    pub(crate) fn to_text(self) -> Vec<u8> {
        format!("{}-{}", self.ms, self.seq).into_bytes()
    }

    /// The bytes of the key in Redis's index.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Id {
        let bits = u128::from_be_bytes(bytes);
        Id { ms: (bits >> 64) as u64, seq: bits as u64 }
    }
}

/// Entries in the order of their ids, and the groups that read them.
#[derive(Clone, Default)]
pub(crate) struct Stream {
    /// Keyed by the id of the first entry that was added.
    nodes: BTreeMap<Id, Node>,
    groups: BTreeMap<Box<[u8]>, Group>,
    len: usize,
    pub(crate) last_id: Id,
    pub(crate) max_deleted_id: Id,
    /// Number of entries that were ever added.
    pub(crate) added: u64,
    bytes: usize,
}

/// A listpack of entries.
#[derive(Clone)]
struct Node {
    live: usize,
    deleted: usize,
    /// The names of the first entry: their number, the names, a zero. Entries with the same names do not repeat them.
    head: Vec<u8>,
    body: Vec<u8>,
}

/// Position of an entry in a node.
#[derive(Clone, Copy)]
struct Record {
    id: Id,
    is_deleted: bool,
    has_names_of_head: bool,
    pairs: usize,
    /// Position of its flags.
    at: usize,
    /// Position of its first name, or of its first value if it has no names.
    fields_at: usize,
}

/// An entry of a search.
pub(crate) struct Found<'s> {
    pub(crate) id: Id,
    node: &'s Node,
    record: Record,
}

/// Bound of XADD and XTRIM for the entries that stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trim {
    pub(crate) keep: Keep,
    /// Whether only whole nodes are removed.
    pub(crate) is_rough: bool,
    /// Maximum of removed entries; 0 for no limit.
    pub(crate) limit: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    Len(usize),
    From(Id),
}

const IS_DELETED: u8 = 1;
const HAS_NAMES_OF_HEAD: u8 = 2;

/// Redis's `stream-node-max-bytes` and `stream-node-max-entries`.
const NODE_BYTES_MAX: usize = 4_096;
pub(crate) const NODE_ENTRIES_MAX: usize = 100;

impl Stream {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory(&self) -> usize {
        COLLECTION_BYTES + self.bytes
    }

    /// Approximate number of its allocations.
    pub(crate) fn elements(&self) -> usize {
        self.bytes / NODE_BYTES
    }

    pub(crate) fn first_id(&self) -> Id {
        self.range(Id::MIN, Id::MAX).next().map_or(Id::MIN, |found| found.id)
    }

    /// The id of the last entry.
    pub(crate) fn last_live_id(&self) -> Id {
        self.range_back(Id::MIN, Id::MAX).next().map_or(Id::MIN, |found| found.id)
    }

    /// Adds an entry whose id is above all others. `fields` alternates names and values.
    pub(crate) fn push(&mut self, id: Id, fields: &[&[u8]]) {
        let size: usize = fields.iter().map(|field| field.len()).sum();
        let is_full = |node: &Node| {
            node.size() + size >= NODE_BYTES_MAX || node.live + node.deleted >= NODE_ENTRIES_MAX
        };
        let is_new = self.nodes.last_entry().is_none_or(|node| is_full(node.get()));
        if is_new {
            if let Some(mut full) = self.nodes.last_entry() {
                full.get_mut().body.shrink_to_fit();
            }
            self.nodes.insert(id, Node::new(fields));
        }
        let mut last = self.nodes.last_entry().expect("one was just put in or had room");
        let (first_id, node) = (*last.key(), last.get_mut());
        let before = if is_new { 0 } else { node.memory() };
        node.push(first_id, id, fields);
        self.bytes = self.bytes + node.memory() - before;
        self.len += 1;
        self.added = self.added.wrapping_add(1);
        self.last_id = id;
    }

    /// Returns true if the entry existed.
    pub(crate) fn remove(&mut self, id: Id) -> bool {
        let Some((&first_id, node)) = self.nodes.range_mut(..=id).next_back() else { return false };
        let is_it = |record: &Record| record.id == id && !record.is_deleted;
        let Some(record) = node.records(first_id).into_iter().find(is_it) else { return false };
        if node.live == 1 {
            self.remove_node(first_id);
        } else {
            node.mark_deleted(record);
            self.len -= 1;
        }
        true
    }

    /// Returns the number of removed entries.
    pub(crate) fn trim(&mut self, trim: Trim) -> usize {
        let mut removed = 0;
        while let Some((&first_id, node)) = self.nodes.first_key_value() {
            let live = node.live;
            if matches!(trim.keep, Keep::Len(len) if self.len <= len)
                || (trim.limit > 0 && removed + live > trim.limit)
            {
                break;
            }
            let goes_whole = match trim.keep {
                Keep::Len(len) => self.len - live >= len,
                Keep::From(id) => node.records(first_id).last().is_none_or(|last| last.id < id),
            };
            if !goes_whole {
                return removed + if trim.is_rough { 0 } else { self.trim_within(first_id, trim.keep) };
            }
            self.remove_node(first_id);
            removed += live;
        }
        removed
    }

    fn trim_within(&mut self, first_id: Id, keep: Keep) -> usize {
        let Some(node) = self.nodes.get_mut(&first_id) else { return 0 };
        let mut removed = 0;
        for record in node.records(first_id) {
            let is_enough = match keep {
                Keep::Len(len) => self.len <= len,
                Keep::From(id) => record.id >= id,
            };
            if is_enough {
                break;
            }
            if !record.is_deleted {
                node.mark_deleted(record);
                self.len -= 1;
                removed += 1;
            }
        }
        removed
    }

    fn remove_node(&mut self, first_id: Id) {
        if let Some(node) = self.nodes.remove(&first_id) {
            self.bytes -= node.memory();
            self.len -= node.live;
        }
    }

    pub(crate) fn contains(&self, id: Id) -> bool {
        self.range(id, id).next().is_some()
    }

    /// The entries from `from` to `to`, both included.
    pub(crate) fn range(&self, from: Id, to: Id) -> impl Iterator<Item = Found<'_>> {
        let first = self.nodes.range(..=from).next_back().map_or(from, |(&first_id, _)| first_id);
        let nodes = (first <= to).then(|| self.nodes.range(first..=to)).into_iter().flatten();
        let all = nodes.flat_map(|(&first_id, node)| found(node, node.records(first_id)));
        all.skip_while(move |found| found.id < from).take_while(move |found| found.id <= to)
    }

    /// The same from the last to the first.
    pub(crate) fn range_back(&self, from: Id, to: Id) -> impl Iterator<Item = Found<'_>> {
        let nodes = self.nodes.range(..=to).rev();
        let all = nodes
            .flat_map(|(&first_id, node)| found(node, node.records(first_id).into_iter().rev().collect()));
        all.skip_while(move |found| found.id > to).take_while(move |found| found.id >= from)
    }

    pub(crate) fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    pub(crate) fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// Returns false if a group of this name exists.
    pub(crate) fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.bytes += group.memory() + name.len();
        self.groups.insert(name.into(), group);
        true
    }

    /// A stream with nothing but the removed group, for freeing.
    pub(crate) fn remove_group(&mut self, name: &[u8]) -> Option<Stream> {
        let group = self.groups.remove(name)?;
        self.bytes -= group.memory() + name.len();
        let mut rest = Stream::default();
        rest.add_group(name, group);
        Some(rest)
    }

    /// Changes a group with access to the stream.
    pub(crate) fn edit_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut Group, &Stream) -> R,
    ) -> Option<R> {
        let (name, mut group) = self.groups.remove_entry(name)?;
        let before = group.memory();
        let result = change(&mut group, self);
        self.bytes = self.bytes + group.memory() - before;
        self.groups.insert(name, group);
        Some(result)
    }

    /// Takes out a bounded part of a stream that is being freed.
    pub(crate) fn dismantle(&mut self) -> bool {
        for _ in 0..NODES_PER_STEP {
            let Some((first_id, _)) = self.nodes.first_key_value() else { break };
            self.remove_node(*first_id);
        }
        if !self.nodes.is_empty() {
            return true;
        }
        let Some(mut first) = self.groups.first_entry() else { return false };
        let before = first.get().memory();
        let is_more = first.get_mut().dismantle();
        self.bytes = self.bytes + first.get().memory() - before;
        if !is_more {
            let (name, group) = first.remove_entry();
            self.bytes -= group.memory() + name.len();
        }
        true
    }

    /// The nodes as listpacks, by the ids of their first entries.
    pub(crate) fn listpacks(&self) -> impl ExactSizeIterator<Item = (Id, Vec<u8>)> {
        self.nodes.iter().map(|(&first_id, node)| (first_id, node.to_listpack(first_id)))
    }

    /// Appends a node from a dump. `None` if it is invalid or does not follow the existing ones.
    pub(crate) fn push_listpack(&mut self, first_id: Id, bytes: &[u8]) -> Option<()> {
        let node = Node::from_listpack(first_id, bytes)?;
        let last = self.nodes.last_key_value().and_then(|(&id, node)| node.records(id).last().copied());
        if last.is_some_and(|last| last.id >= first_id) {
            return None;
        }
        self.len += node.live;
        self.bytes += node.memory();
        self.nodes.insert(first_id, node);
        Some(())
    }

    /// The ids of the nodes, as Redis's index has them.
    pub(crate) fn node_keys(&self) -> Vec<[u8; 16]> {
        self.nodes.keys().map(|id| id.to_bytes()).collect()
    }
}

fn found(node: &Node, records: Vec<Record>) -> impl Iterator<Item = Found<'_>> {
    let live = records.into_iter().filter(|record| !record.is_deleted);
    live.map(move |record| Found { id: record.id, node, record })
}

impl Found<'_> {
    /// Number of names and values.
    pub(crate) fn len(&self) -> usize {
        self.record.pairs * 2
    }

    /// Passes names and values alternately.
    pub(crate) fn each(&self, mut show: impl FnMut(&[u8])) {
        let (mut names_at, mut at) = (self.node.names_at(), self.record.fields_at);
        for _ in 0..self.record.pairs {
            let name = match self.record.has_names_of_head {
                true => listpack::next(&self.node.head, &mut names_at),
                false => listpack::next(&self.node.body, &mut at),
            };
            let value = listpack::next(&self.node.body, &mut at);
            [name, value].into_iter().flatten().for_each(|entry| match entry {
                Entry::Text(text) => show(text),
                Entry::Integer(number) => show(itoa::Buffer::new().format(number).as_bytes()),
            });
        }
    }
}

impl Node {
    /// A node without entries; `fields` are those of the first one.
    fn new(fields: &[&[u8]]) -> Node {
        let mut head = Vec::new();
        listpack::write_integer((fields.len() / 2) as i64, &mut head);
        fields.iter().step_by(2).for_each(|name| listpack::write(name, &mut head));
        listpack::write_integer(0, &mut head);
        Node { live: 0, deleted: 0, head, body: Vec::new() }
    }

    fn push(&mut self, first_id: Id, id: Id, fields: &[&[u8]]) {
        let (pairs, has_names_of_head) = (fields.len() / 2, self.has_names(fields));
        let out = &mut self.body;
        out.push(if has_names_of_head { HAS_NAMES_OF_HEAD } else { 0 });
        out.push(1);
        listpack::write_integer(id.ms.wrapping_sub(first_id.ms) as i64, out);
        listpack::write_integer(id.seq.wrapping_sub(first_id.seq) as i64, out);
        let mut entries = 3 + pairs;
        if has_names_of_head {
            fields.iter().skip(1).step_by(2).for_each(|value| listpack::write(value, out));
        } else {
            listpack::write_integer(pairs as i64, out);
            fields.iter().for_each(|field| listpack::write(field, out));
            entries += pairs + 1;
        }
        listpack::write_integer(entries as i64, out);
        self.live += 1;
    }

    fn has_names(&self, fields: &[&[u8]]) -> bool {
        let mut at = 0;
        let pairs = listpack::next(&self.head, &mut at).and_then(Entry::integer);
        pairs == Some((fields.len() / 2) as i64)
            && fields
                .iter()
                .step_by(2)
                .all(|name| listpack::next(&self.head, &mut at).is_some_and(|entry| entry.to_text() == *name))
    }

    fn names_at(&self) -> usize {
        let mut at = 0;
        let _ = listpack::next(&self.head, &mut at);
        at
    }

    /// The flags are an entry of two bytes.
    fn mark_deleted(&mut self, record: Record) {
        self.body[record.at] |= IS_DELETED;
        self.live -= 1;
        self.deleted += 1;
    }

    fn records(&self, first_id: Id) -> Vec<Record> {
        self.read_records(first_id).expect("what was put in or read from a dump is in order")
    }

    fn read_records(&self, first_id: Id) -> Option<Vec<Record>> {
        let mut names_at = 0;
        let names = usize::try_from(listpack::next(&self.head, &mut names_at)?.integer()?).ok()?;
        let (mut records, mut at) = (Vec::with_capacity(NODE_ENTRIES_MAX), 0);
        while at < self.body.len() {
            let start = at;
            let mut integer = || listpack::next(&self.body, &mut at)?.integer();
            let flags = integer()?;
            let (ms, seq) = (integer()?, integer()?);
            let has_names_of_head = flags & i64::from(HAS_NAMES_OF_HEAD) != 0;
            let pairs = if has_names_of_head { names } else { usize::try_from(integer()?).ok()? };
            let fields_at = at;
            for _ in 0..if has_names_of_head { pairs } else { pairs.checked_mul(2)? } {
                listpack::next(&self.body, &mut at)?;
            }
            // The number of entries, for walking backwards.
            listpack::next(&self.body, &mut at)?.integer()?;
            let id =
                Id { ms: first_id.ms.wrapping_add(ms as u64), seq: first_id.seq.wrapping_add(seq as u64) };
            let is_deleted = flags & i64::from(IS_DELETED) != 0;
            // Flags are changed in place, so their encoding must have a fixed length.
            ((0..=3).contains(&flags) && i64::from(self.body[start]) == flags).then_some(())?;
            records.push(Record { id, is_deleted, has_names_of_head, pairs, at: start, fields_at });
        }
        Some(records)
    }

    fn counters(&self) -> Vec<u8> {
        let mut counters = Vec::with_capacity(8);
        listpack::write_integer(self.live as i64, &mut counters);
        listpack::write_integer(self.deleted as i64, &mut counters);
        counters
    }

    /// Bytes of the listpack.
    fn size(&self) -> usize {
        LISTPACK_BYTES + self.counters().len() + self.head.len() + self.body.len()
    }

    fn memory(&self) -> usize {
        NODE_BYTES + self.head.len() + self.body.len()
    }

    fn to_listpack(&self, first_id: Id) -> Vec<u8> {
        let mut pack = listpack::Listpack::new();
        pack.push_written(&self.counters(), 2);
        for part in [&self.head, &self.body] {
            let (mut at, mut len) = (0, 0);
            while listpack::next(part, &mut at).is_some() {
                len += 1;
            }
            pack.push_written(part, len);
        }
        debug_assert!(self.read_records(first_id).is_some());
        pack.finish()
    }

    fn from_listpack(first_id: Id, bytes: &[u8]) -> Option<Node> {
        let (body, _) = listpack::body(bytes)?;
        let mut at = 0;
        let mut count = || usize::try_from(listpack::next(body, &mut at)?.integer()?).ok();
        let (live, deleted) = (count()?, count()?);
        let head_at = at;
        let names = usize::try_from(listpack::next(body, &mut at)?.integer()?).ok()?;
        for _ in 0..names {
            listpack::next(body, &mut at)?;
        }
        (listpack::next(body, &mut at)?.integer()? == 0).then_some(())?;
        let (head, body) = (body[head_at..at].to_vec(), body[at..].to_vec());
        let node = Node { live, deleted, head, body };
        let records = node.read_records(first_id)?;
        let is_counted = records.iter().filter(|record| !record.is_deleted).count() == live
            && records.len() == live.checked_add(deleted)?;
        let is_sorted = records.windows(2).all(|pair| pair[0].id < pair[1].id)
            && records.first().is_some_and(|first| first.id >= first_id);
        (is_counted && is_sorted && live > 0).then_some(node)
    }
}

/// Bytes of a listpack around its entries.
const LISTPACK_BYTES: usize = 7;

/// A node in a tree that is two thirds full, and its allocations.
const NODE_BYTES: usize = (size_of::<Node>() + size_of::<Id>()) * 3 / 2 + 2 * ALLOCATION_BYTES;

/// Nodes that are freed in one step.
const NODES_PER_STEP: usize = 50;
