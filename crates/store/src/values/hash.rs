//! A hash: the value of HSET and its relatives. A small one keeps its fields in the order of insertion, as Redis's listpacks
//! do.

use stdx::Prng;

use crate::table::{Keyed, Table};
use crate::values::value::{COLLECTION_BYTES, SMALL_BYTES_MAX};

/// Values by field, with their size.
pub(crate) struct Hash {
    form: Form,
    bytes: usize,
    seed: u64,
}

/// A hash begins small. As in Redis, one that grew too large stays large.
enum Form {
    Small(Small),
    Large(Table<Field>),
}

/// A few fields, in the order of insertion.
#[derive(Default)]
struct Small {
    fields: Vec<Field>,
    /// One byte of each name, which excludes most other fields.
    tags: Vec<u8>,
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

impl Small {
    fn find(&self, name: &[u8]) -> Option<usize> {
        let tag = tag(name);
        let mut places = self.tags.iter().enumerate().filter(|(_, other)| **other == tag).map(|(at, _)| at);
        places.find(|&at| *self.fields[at].name == *name)
    }

    fn push(&mut self, field: Field) {
        self.tags.push(tag(&field.name));
        self.fields.push(field);
    }

    fn remove(&mut self, at: usize) -> Field {
        self.tags.remove(at);
        self.fields.remove(at)
    }
}

/// A hash of all bytes of a name in one byte.
fn tag(name: &[u8]) -> u8 {
    name.iter().fold(0, |tag: u8, byte| tag.wrapping_mul(TAG_FACTOR) ^ byte)
}

impl Hash {
    pub(crate) fn new(seed: u64) -> Hash {
        Hash { form: Form::Small(Small::default()), bytes: 0, seed }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.form {
            Form::Small(small) => small.fields.len(),
            Form::Large(fields) => fields.len(),
        }
    }

    pub(crate) fn memory(&self) -> usize {
        COLLECTION_BYTES + self.bytes
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let field = match &self.form {
            Form::Small(small) => small.find(name).map(|at| &small.fields[at]),
            Form::Large(fields) => fields.find(fields.hash(name), name),
        };
        field.map(|field| &*field.value)
    }

    /// Returns true if the field is new. An existing field keeps its place.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) -> bool {
        if name.len().max(value.len()) > SMALL_BYTES_MAX {
            self.enlarge();
        }
        let old = match &mut self.form {
            Form::Small(small) => small.find(name).map(|at| &mut small.fields[at]),
            Form::Large(fields) => fields.find_mut(fields.hash(name), name),
        };
        if let Some(field) = old {
            self.bytes = self.bytes + value.len() - field.value.len();
            field.value = value.into();
            return false;
        }
        let field = Field { name: name.into(), value: value.into() };
        self.bytes += field.cost();
        match &mut self.form {
            Form::Small(small) => small.push(field),
            Form::Large(fields) => fields.insert(fields.hash(name), field),
        }
        if self.len() > LISTPACK_ENTRIES_MAX {
            self.enlarge();
        }
        true
    }

    fn enlarge(&mut self) {
        if let Form::Small(small) = &mut self.form {
            let mut table = Table::new(self.seed);
            for field in std::mem::take(&mut small.fields) {
                table.insert(table.hash(&field.name), field);
            }
            self.form = Form::Large(table);
        }
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let removed = match &mut self.form {
            Form::Small(small) => small.find(name).map(|at| small.remove(at)),
            Form::Large(fields) => fields.remove(fields.hash(name), name),
        };
        self.bytes -= removed.as_ref().map_or(0, Field::cost);
        removed.is_some()
    }

    /// All fields: of a small hash in the order of insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Field> {
        let (small, large) = match &self.form {
            Form::Small(small) => (Some(small), None),
            Form::Large(fields) => (None, Some(fields)),
        };
        small.into_iter().flat_map(|small| &small.fields).chain(large.into_iter().flat_map(Table::iter))
    }

    /// A page from `cursor` on; of a small hash always all fields.
    pub(crate) fn scan<'h>(&'h self, cursor: u64, count: usize, found: impl FnMut(&'h Field)) -> u64 {
        match &self.form {
            Form::Small(small) => {
                small.fields.iter().for_each(found);
                0
            }
            Form::Large(fields) => fields.scan(cursor, count, found),
        }
    }

    pub(crate) fn random(&self, prng: &mut Prng) -> Option<&Field> {
        match &self.form {
            Form::Small(small) => small.fields.get(prng.below(small.fields.len() as u64) as usize),
            Form::Large(fields) => fields.random(prng),
        }
    }

    pub(crate) fn copied(&self, seed: u64) -> Hash {
        let mut copy = Hash::new(seed);
        if matches!(self.form, Form::Large(_)) {
            copy.enlarge();
        }
        self.iter().for_each(|field| _ = copy.set(&field.name, &field.value));
        copy
    }

    pub(crate) fn dismantle(&mut self) -> bool {
        self.enlarge();
        let Form::Large(table) = &mut self.form else { return false };
        let Some(fields) = table.dismantle() else { return false };
        self.bytes -= fields.map(|field| field.cost()).sum::<usize>();
        true
    }

    pub(crate) fn encoding(&self) -> &'static str {
        if matches!(self.form, Form::Small(_)) { "listpack" } else { "hashtable" }
    }
}

impl Field {
    fn cost(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_BYTES
    }
}

/// Any odd number that mixes bits.
const TAG_FACTOR: u8 = 0x9b;

/// Redis's `hash-max-listpack-entries`: a hash with more is not small.
pub(crate) const LISTPACK_ENTRIES_MAX: usize = 512;

/// Two pointers with lengths in a table that is two thirds full, and two allocations.
pub(crate) const FIELD_BYTES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hash: &Hash) -> Vec<String> {
        hash.iter().map(|field| String::from_utf8_lossy(&field.name).into_owned()).collect()
    }

    #[test]
    fn a_small_hash_keeps_the_order_of_its_fields() {
        let mut hash = Hash::new(1);
        for name in ["b", "c", "a", "d", "c"] {
            hash.set(name.as_bytes(), b"1");
        }
        assert!(hash.remove(b"a") && !hash.remove(b"a"));
        hash.set(b"a", b"2");
        assert_eq!(names(&hash), ["b", "c", "d", "a"]);
        assert_eq!(names(&hash.copied(2)), names(&hash));
        assert_eq!((hash.get(b"a"), hash.get(b"x")), (Some(&b"2"[..]), None));
        let mut page = Vec::new();
        assert_eq!(
            hash.scan(77, 1, |field| page.push(field.name.clone())),
            0,
            "everything, wherever it begins"
        );
        assert_eq!(page.len(), 4);
    }

    #[test]
    fn a_hash_that_was_large_stays_large() {
        let mut hash = Hash::new(1);
        for number in 0..=LISTPACK_ENTRIES_MAX {
            assert_eq!(hash.encoding(), "listpack");
            hash.set(number.to_string().as_bytes(), b"v");
        }
        assert_eq!((hash.encoding(), hash.len()), ("hashtable", LISTPACK_ENTRIES_MAX + 1));
        assert!((1..=LISTPACK_ENTRIES_MAX).all(|number| hash.remove(number.to_string().as_bytes())));
        assert_eq!((hash.encoding(), hash.get(b"0")), ("hashtable", Some(&b"v"[..])));
        assert_eq!(hash.copied(2).encoding(), "hashtable");
        let mut long = Hash::new(1);
        long.set(b"f", &[b'x'; SMALL_BYTES_MAX]);
        assert_eq!(long.encoding(), "listpack");
        long.set(b"f", &[b'x'; SMALL_BYTES_MAX + 1]);
        assert_eq!(long.encoding(), "hashtable");
        assert!(long.dismantle() && !long.dismantle());
        assert_eq!(long.memory(), COLLECTION_BYTES);
    }
}
