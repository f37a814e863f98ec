//! A set: the value of SADD and its relatives. One of few integers keeps them sorted, as Redis's intsets do.

use resp::integer::parse_i64;
use stdx::Prng;

use crate::table::{Keyed, Table};
use crate::values::value::COLLECTION_BYTES;

/// Members, with their size.
pub(crate) struct Set {
    form: Form,
    bytes: usize,
    seed: u64,
}

/// A set begins with integers. As in Redis, one that had another member or too many stays large.
enum Form {
    /// In ascending order.
    Integers(Vec<Integer>),
    Large(Table<Member>),
}

/// A number, and the same as text.
struct Integer {
    number: i64,
    text: Box<[u8]>,
}

/// One member.
pub(crate) struct Member(Box<[u8]>);

impl Keyed for Member {
    fn key(&self) -> &[u8] {
        &self.0
    }
}

impl Set {
    pub(crate) fn new(seed: u64) -> Set {
        Set { form: Form::Integers(Vec::new()), bytes: 0, seed }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.len(),
            Form::Large(members) => members.len(),
        }
    }

    pub(crate) fn memory(&self) -> usize {
        COLLECTION_BYTES + self.bytes
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Integers(integers) => {
                parse_i64(member).is_some_and(|number| place(integers, number).is_ok())
            }
            Form::Large(members) => members.find(members.hash(member), member).is_some(),
        }
    }

    /// Returns true if the member is new.
    pub(crate) fn insert(&mut self, member: &[u8]) -> bool {
        let is_new = match (&mut self.form, parse_i64(member)) {
            (Form::Integers(integers), Some(number)) => insert_integer(integers, number, member),
            (Form::Integers(_), None) => {
                self.enlarge();
                return self.insert(member);
            }
            (Form::Large(members), _) => {
                let hash = members.hash(member);
                let is_new = members.find(hash, member).is_none();
                if is_new {
                    members.insert(hash, Member(member.into()));
                }
                is_new
            }
        };
        if is_new {
            self.bytes += member.len() + MEMBER_BYTES;
        }
        if matches!(&self.form, Form::Integers(integers) if integers.len() > INTEGERS_MAX) {
            self.enlarge();
        }
        is_new
    }

    /// The members as a table. Integers are converted.
    fn enlarge(&mut self) -> &mut Table<Member> {
        if let Form::Integers(integers) = &mut self.form {
            let mut table = Table::new(self.seed);
            for integer in std::mem::take(integers) {
                table.insert(table.hash(&integer.text), Member(integer.text));
            }
            self.form = Form::Large(table);
        }
        match &mut self.form {
            Form::Large(members) => members,
            Form::Integers(_) => unreachable!("it was made large just now"),
        }
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let is_removed = match &mut self.form {
            Form::Integers(integers) => {
                let place = parse_i64(member).and_then(|number| place(integers, number).ok());
                place.map(|at| integers.remove(at)).is_some()
            }
            Form::Large(members) => members.remove(members.hash(member), member).is_some(),
        };
        if is_removed {
            self.bytes -= member.len() + MEMBER_BYTES;
        }
        is_removed
    }

    /// All members: few integers in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (integers, members) = match &self.form {
            Form::Integers(integers) => (Some(integers), None),
            Form::Large(members) => (None, Some(members)),
        };
        let integers = integers.into_iter().flatten().map(|integer| &*integer.text);
        integers.chain(members.into_iter().flat_map(Table::iter).map(Keyed::key))
    }

    /// A page from `cursor` on; of few integers always all.
    pub(crate) fn scan<'s>(&'s self, cursor: u64, count: usize, mut found: impl FnMut(&'s [u8])) -> u64 {
        match &self.form {
            Form::Integers(integers) => {
                integers.iter().for_each(|integer| found(&integer.text));
                0
            }
            Form::Large(members) => members.scan(cursor, count, |member| found(member.key())),
        }
    }

    pub(crate) fn random(&self, prng: &mut Prng) -> Option<&[u8]> {
        match &self.form {
            Form::Integers(integers) => {
                integers.get(prng.below(integers.len() as u64) as usize).map(|integer| &*integer.text)
            }
            Form::Large(members) => members.random(prng).map(Keyed::key),
        }
    }

    pub(crate) fn copied(&self, seed: u64) -> Set {
        let mut copy = Set::new(seed);
        if matches!(self.form, Form::Large(_)) {
            copy.enlarge();
        }
        self.iter().for_each(|member| _ = copy.insert(member));
        copy
    }

    pub(crate) fn dismantle(&mut self) -> bool {
        let Some(members) = self.enlarge().dismantle() else { return false };
        self.bytes -= members.map(|member| member.0.len() + MEMBER_BYTES).sum::<usize>();
        true
    }

    /// Redis 7.0 has no small form for sets of texts.
    pub(crate) fn encoding(&self) -> &'static str {
        if matches!(self.form, Form::Integers(_)) { "intset" } else { "hashtable" }
    }
}

/// Position of `number`, or the position to insert it.
fn place(integers: &[Integer], number: i64) -> Result<usize, usize> {
    integers.binary_search_by_key(&number, |integer| integer.number)
}

/// Returns true if the number is new.
fn insert_integer(integers: &mut Vec<Integer>, number: i64, text: &[u8]) -> bool {
    let place = place(integers, number);
    if let Err(at) = place {
        integers.insert(at, Integer { number, text: text.into() });
    }
    place.is_err()
}

/// A pointer with a length in a table that is two thirds full, and the allocation.
pub(crate) const MEMBER_BYTES: usize = 48;

/// Redis's `set-max-intset-entries`.
const INTEGERS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn members(set: &Set) -> Vec<String> {
        set.iter().map(|member| String::from_utf8_lossy(member).into_owned()).collect()
    }

    #[test]
    fn few_integers_are_in_the_order_of_their_size() {
        let mut set = Set::new(1);
        for member in ["10", "9", "-3", "9223372036854775807", "9", "0"] {
            set.insert(member.as_bytes());
        }
        assert!(set.remove(b"0") && !set.remove(b"0") && !set.remove(b"x") && !set.contains(b"010"));
        assert_eq!(members(&set), ["-3", "9", "10", "9223372036854775807"]);
        assert_eq!(members(&set.copied(2)), members(&set));
        let mut page = Vec::new();
        assert_eq!(set.scan(77, 1, |member| page.push(member)), 0, "everything, wherever it begins");
        assert_eq!(page.len(), 4);
    }

    #[test]
    fn a_set_that_was_large_stays_large() {
        let mut set = Set::new(1);
        for number in 0..=INTEGERS_MAX {
            assert_eq!(set.encoding(), "intset");
            set.insert(number.to_string().as_bytes());
        }
        assert_eq!((set.encoding(), set.len()), ("hashtable", INTEGERS_MAX + 1));
        assert!((1..=INTEGERS_MAX).all(|number| set.remove(number.to_string().as_bytes())));
        assert_eq!((set.encoding(), set.contains(b"0")), ("hashtable", true));
        let mut texts = Set::new(1);
        assert!(texts.insert(b"5") && texts.insert(b"05") && !texts.insert(b"5"));
        assert_eq!((texts.encoding(), texts.len()), ("hashtable", 2));
        assert!(texts.dismantle() && !texts.dismantle());
        assert_eq!(texts.memory(), COLLECTION_BYTES);
    }
}
