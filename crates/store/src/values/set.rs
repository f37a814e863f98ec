//! A set: what SADD and its kin work on.

use stdx::Prng;

use crate::table::{Keyed, Table};
use crate::values::value::COLLECTION_BYTES;

/// Members, with their size.
pub(crate) struct Set {
    members: Table<Member>,
    bytes: usize,
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
        Set { members: Table::new(seed), bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn memory(&self) -> usize {
        COLLECTION_BYTES + self.bytes
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        self.members.find(self.members.hash(member), member).is_some()
    }

    /// True if the member is new.
    pub(crate) fn insert(&mut self, member: &[u8]) -> bool {
        let hash = self.members.hash(member);
        if self.members.find(hash, member).is_some() {
            return false;
        }
        self.bytes += member.len() + MEMBER_BYTES;
        self.members.insert(hash, Member(member.into()));
        true
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let removed = self.members.remove(self.members.hash(member), member).is_some();
        if removed {
            self.bytes -= member.len() + MEMBER_BYTES;
        }
        removed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(Keyed::key)
    }

    pub(crate) fn scan<'s>(&'s self, cursor: u64, count: usize, mut found: impl FnMut(&'s [u8])) -> u64 {
        self.members.scan(cursor, count, |member| found(member.key()))
    }

    pub(crate) fn random(&self, prng: &mut Prng) -> Option<&[u8]> {
        self.members.random(prng).map(Keyed::key)
    }

    pub(crate) fn copied(&self, seed: u64) -> Set {
        let mut copy = Set::new(seed);
        self.iter().for_each(|member| _ = copy.insert(member));
        copy
    }

    pub(crate) fn dismantle(&mut self) -> bool {
        let Some(members) = self.members.dismantle() else { return false };
        self.bytes -= members.map(|member| member.0.len() + MEMBER_BYTES).sum::<usize>();
        true
    }

    /// Redis 7.0 has no small form for sets of texts.
    pub(crate) fn encoding(&self) -> &'static str {
        let all_integers = || self.iter().all(|member| resp::integer::parse_i64(member).is_some());
        if self.len() <= INTEGERS_MAX && all_integers() { "intset" } else { "hashtable" }
    }
}

/// A pointer with a length in a table that is two thirds full, and the allocation.
pub(crate) const MEMBER_BYTES: usize = 48;

/// Redis's `set-max-intset-entries`.
const INTEGERS_MAX: usize = 512;
