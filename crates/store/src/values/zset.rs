//! A sorted set: scores by member, and the members in the order of their scores.

use std::cmp::Ordering;
use std::sync::Arc;

use stdx::Prng;

use crate::table::{Keyed, Table};
use crate::values::sequence::{Place, Sequence};
use crate::values::value::{COLLECTION_BYTES, SMALL_BYTES_MAX, SMALL_ENTRIES_MAX};

/// Members with scores, found by member and by rank, with their size.
pub(crate) struct Zset {
    by_member: Table<Scored>,
    /// By score, then by the bytes of the member. Order and table share the bytes.
    in_order: Sequence<Scored>,
    bytes: usize,
    /// Small by Redis's measure since it was created.
    is_small: bool,
}

/// One member and its score.
#[derive(Clone)]
pub(crate) struct Scored {
    pub(crate) score: f64,
    pub(crate) member: Arc<[u8]>,
}

impl Keyed for Scored {
    fn key(&self) -> &[u8] {
        &self.member
    }
}

impl Scored {
    /// Redis's order. Scores are never NaN.
    fn compare(&self, score: f64, member: &[u8]) -> Ordering {
        self.score.partial_cmp(&score).unwrap_or(Ordering::Equal).then_with(|| (*self.member).cmp(member))
    }
}

impl Zset {
    pub(crate) fn new(seed: u64) -> Zset {
        Zset { by_member: Table::new(seed), in_order: Sequence::default(), bytes: 0, is_small: true }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_member.len()
    }

    pub(crate) fn memory(&self) -> usize {
        COLLECTION_BYTES + self.bytes
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.by_member.find(self.by_member.hash(member), member).map(|scored| scored.score)
    }

    /// Inserts `member` or changes its score.
    pub(crate) fn set(&mut self, member: &[u8], score: f64) {
        // A small sorted set of Redis keeps no sign of a zero; one zero is enough for us as well.
        let score = score + 0.0;
        let hash = self.by_member.hash(member);
        let scored = match self.by_member.find_mut(hash, member) {
            Some(scored) => {
                let old = std::mem::replace(&mut scored.score, score);
                let scored = scored.clone();
                self.in_order.remove(self.place(old, member));
                scored
            }
            None => {
                let scored = Scored { score, member: member.into() };
                self.by_member.insert(hash, scored.clone());
                self.bytes += member.len() + SCORED_BYTES;
                scored
            }
        };
        self.in_order.insert(self.place(score, member), scored);
        self.is_small &= self.len() <= SMALL_ENTRIES_MAX && member.len() <= SMALL_BYTES_MAX;
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(scored) = self.by_member.remove(self.by_member.hash(member), member) else { return false };
        self.in_order.remove(self.place(scored.score, member));
        self.bytes -= member.len() + SCORED_BYTES;
        true
    }

    /// Removes the members of the half-open range of ranks.
    pub(crate) fn remove_range(&mut self, from: usize, to: usize) -> usize {
        let members: Vec<_> = self.range(from, to).map(|scored| scored.member.clone()).collect();
        members.iter().filter(|member| self.remove(member)).count()
    }

    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.in_order.index(self.place(score, member)))
    }

    /// Number of members before the first for which `is_before` is false.
    pub(crate) fn rank_where(&self, is_before: impl Fn(&Scored) -> bool) -> usize {
        self.in_order.index(self.in_order.place_where(is_before))
    }

    pub(crate) fn at(&self, rank: usize) -> Option<&Scored> {
        self.in_order.get(rank)
    }

    pub(crate) fn range(&self, from: usize, to: usize) -> impl Iterator<Item = &Scored> {
        self.in_order.range(from, to)
    }

    pub(crate) fn range_back(&self, from: usize, to: usize) -> impl Iterator<Item = &Scored> {
        self.in_order.range_back(from, to)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Scored> {
        self.in_order.iter()
    }

    /// A page from `cursor` on; of a small sorted set always everything, in order.
    pub(crate) fn scan<'z>(&'z self, cursor: u64, count: usize, found: impl FnMut(&'z Scored)) -> u64 {
        if self.is_small {
            self.iter().for_each(found);
            return 0;
        }
        self.by_member.scan(cursor, count, found)
    }

    pub(crate) fn random(&self, prng: &mut Prng) -> Option<&Scored> {
        self.by_member.random(prng)
    }

    pub(crate) fn copied(&self, seed: u64) -> Zset {
        let mut copy = Zset { is_small: self.is_small, ..Zset::new(seed) };
        self.iter().for_each(|scored| copy.set(&scored.member, scored.score));
        copy
    }

    /// First the order, then the table: the last owner of the bytes counts them.
    pub(crate) fn dismantle(&mut self) -> bool {
        if self.in_order.dismantle().is_some() {
            return true;
        }
        let Some(members) = self.by_member.dismantle() else { return false };
        self.bytes -= members.map(|scored| scored.member.len() + SCORED_BYTES).sum::<usize>();
        true
    }

    pub(crate) fn encoding(&self) -> &'static str {
        if self.is_small { "listpack" } else { "skiplist" }
    }

    fn place(&self, score: f64, member: &[u8]) -> Place {
        self.in_order.place_where(|other| other.compare(score, member) == Ordering::Less)
    }
}

/// A score and a pointer with a length, in the table and in the order, and the allocation with its counts of owners.
pub(crate) const SCORED_BYTES: usize = 112;
