//! A hash: what HSET and its kin work on.

use stdx::Prng;

use crate::table::{Keyed, Table};
use crate::values::value::{COLLECTION_BYTES, SMALL_BYTES_MAX};

/// Values by field, with their size.
pub(crate) struct Hash {
    fields: Table<Field>,
    bytes: usize,
}

/// One field and its value.
pub(crate) struct Field {
    pub(crate) name: Box<[u8]>,
    pub(crate) value: Box<[u8]>,
}

impl Keyed for Field {
    fn key(&self) -> &[u8] {
        &self.name
    }
}

impl Hash {
    pub(crate) fn new(seed: u64) -> Hash {
        Hash { fields: Table::new(seed), bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn memory(&self) -> usize {
        COLLECTION_BYTES + self.bytes
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields.find(self.fields.hash(name), name).map(|field| &*field.value)
    }

    /// True if the field is new.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) -> bool {
        let hash = self.fields.hash(name);
        if let Some(field) = self.fields.find_mut(hash, name) {
            self.bytes = self.bytes + value.len() - field.value.len();
            field.value = value.into();
            return false;
        }
        let field = Field { name: name.into(), value: value.into() };
        self.bytes += field.cost();
        self.fields.insert(hash, field);
        true
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(field) = self.fields.remove(self.fields.hash(name), name) else { return false };
        self.bytes -= field.cost();
        true
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter()
    }

    pub(crate) fn scan<'h>(&'h self, cursor: u64, count: usize, found: impl FnMut(&'h Field)) -> u64 {
        self.fields.scan(cursor, count, found)
    }

    pub(crate) fn random(&self, prng: &mut Prng) -> Option<&Field> {
        self.fields.random(prng)
    }

    pub(crate) fn copied(&self, seed: u64) -> Hash {
        let mut copy = Hash::new(seed);
        self.iter().for_each(|field| _ = copy.set(&field.name, &field.value));
        copy
    }

    pub(crate) fn dismantle(&mut self) -> bool {
        let Some(fields) = self.fields.dismantle() else { return false };
        self.bytes -= fields.map(|field| field.cost()).sum::<usize>();
        true
    }

    pub(crate) fn encoding(&self) -> &'static str {
        let is_short = |field: &Field| field.name.len().max(field.value.len()) <= SMALL_BYTES_MAX;
        if self.len() <= LISTPACK_ENTRIES_MAX && self.iter().all(is_short) { "listpack" } else { "hashtable" }
    }
}

impl Field {
    fn cost(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_BYTES
    }
}

/// Redis's `hash-max-listpack-entries`: up to here a hash counts as small.
pub(crate) const LISTPACK_ENTRIES_MAX: usize = 512;

/// Two pointers with lengths in a table that is two thirds full, and two allocations.
pub(crate) const FIELD_BYTES: usize = 80;
