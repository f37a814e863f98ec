//! A long sequence in chunks: cheap at both ends and in the middle, and never moved as a whole.
//!
//! The sequence holds lists and the order of sorted sets. With a million elements an index costs a walk over at most some ten
//! thousand chunk lengths (ten microseconds). An insertion moves one chunk.

use std::collections::VecDeque;

/// Elements in order.
pub(crate) struct Sequence<T> {
    /// None of them is empty.
    chunks: VecDeque<VecDeque<T>>,
    len: usize,
}

/// Position of an element, or of the end. Valid until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    chunk: usize,
    at: usize,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Sequence { chunks: VecDeque::new(), len: 0 }
    }
}

impl<T> Sequence<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push_back(&mut self, item: T) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK_MAX => chunk.push_back(item),
            _ => self.chunks.push_back(VecDeque::from([item])),
        }
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, item: T) {
        match self.chunks.front_mut() {
            Some(chunk) if chunk.len() < CHUNK_MAX => chunk.push_front(item),
            _ => self.chunks.push_front(VecDeque::from([item])),
        }
        self.len += 1;
    }

    pub(crate) fn pop_back(&mut self) -> Option<T> {
        let chunk = self.chunks.back_mut()?;
        let item = chunk.pop_back();
        if chunk.is_empty() {
            self.chunks.pop_back();
        }
        self.len -= 1;
        item
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let chunk = self.chunks.front_mut()?;
        let item = chunk.pop_front();
        if chunk.is_empty() {
            self.chunks.pop_front();
        }
        self.len -= 1;
        item
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.at(self.place(index))
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let place = self.place(index);
        self.chunks.get_mut(place.chunk)?.get_mut(place.at)
    }

    /// Position of element `index`; the end if the sequence is shorter.
    pub(crate) fn place(&self, index: usize) -> Place {
        if index >= self.len {
            return Place { chunk: self.chunks.len(), at: 0 };
        }
        if index > self.len / 2 { self.place_from_back(index) } else { self.place_from_front(index) }
    }

    fn place_from_front(&self, index: usize) -> Place {
        let (mut chunk, mut at) = (0, index);
        while at >= self.chunks[chunk].len() {
            at -= self.chunks[chunk].len();
            chunk += 1;
        }
        Place { chunk, at }
    }

    fn place_from_back(&self, index: usize) -> Place {
        let (mut chunk, mut start) = (self.chunks.len(), self.len);
        while index < start {
            chunk -= 1;
            start -= self.chunks[chunk].len();
        }
        Place { chunk, at: index - start }
    }

    /// The first position whose element `is_before` is false of. All elements for which it is true must come first.
    pub(crate) fn place_where(&self, is_before: impl Fn(&T) -> bool) -> Place {
        let chunk = self.chunks.partition_point(|chunk| chunk.back().is_some_and(&is_before));
        Place { chunk, at: self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(&is_before)) }
    }

    /// The index of a position.
    pub(crate) fn index(&self, place: Place) -> usize {
        if place.chunk > self.chunks.len() / 2 {
            let behind: usize = self.chunks.range(place.chunk..).map(VecDeque::len).sum();
            return self.len - behind + place.at;
        }
        self.chunks.range(..place.chunk).map(VecDeque::len).sum::<usize>() + place.at
    }

    /// The element at a position.
    pub(crate) fn at(&self, place: Place) -> Option<&T> {
        self.chunks.get(place.chunk)?.get(place.at)
    }

    /// Inserts `item` in front of the element at `place`.
    pub(crate) fn insert(&mut self, place: Place, item: T) {
        let Some(chunk) = self.chunks.get_mut(place.chunk) else { return self.push_back(item) };
        chunk.insert(place.at, item);
        self.len += 1;
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(place.chunk + 1, upper);
        }
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let chunk = self.chunks.get_mut(place.chunk)?;
        let item = chunk.remove(place.at)?;
        let len = chunk.len();
        self.len -= 1;
        if len == 0 {
            self.chunks.remove(place.chunk);
        } else if self.chunks.get(place.chunk + 1).is_some_and(|next| len + next.len() <= CHUNK_MAX / 2)
            && let Some(mut next) = self.chunks.remove(place.chunk + 1)
        {
            self.chunks[place.chunk].append(&mut next);
        }
        Some(item)
    }

    /// Takes off the first `count` elements. It moves whole chunks, so it is cheap.
    pub(crate) fn take_front(&mut self, count: usize) -> Sequence<T> {
        let mut taken = Sequence::default();
        while let Some(chunk) = self.chunks.front_mut()
            && taken.len < count
        {
            let rest = chunk.split_off((count - taken.len).min(chunk.len()));
            let front =
                if rest.is_empty() { self.chunks.pop_front() } else { Some(std::mem::replace(chunk, rest)) };
            let front = front.unwrap_or_default();
            self.len -= front.len();
            taken.len += front.len();
            taken.chunks.push_back(front);
        }
        taken
    }

    /// Takes off everything behind the first `count` elements.
    pub(crate) fn take_behind(&mut self, count: usize) -> Sequence<T> {
        let front = self.take_front(count);
        std::mem::replace(self, front)
    }

    /// Keeps the elements of which `keep` is true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.chunks.iter_mut().for_each(|chunk| chunk.retain(&mut keep));
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.len = self.chunks.iter().map(VecDeque::len).sum();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Elements of the half-open range, in order.
    pub(crate) fn range(&self, from: usize, to: usize) -> impl Iterator<Item = &T> {
        let place = self.place(from);
        self.chunks
            .range(place.chunk.min(self.chunks.len())..)
            .flatten()
            .skip(place.at)
            .take(to.min(self.len).saturating_sub(from))
    }

    /// The same elements as [`Sequence::range`] in reverse order.
    pub(crate) fn range_back(&self, from: usize, to: usize) -> impl Iterator<Item = &T> {
        let to = to.min(self.len);
        let end = self.place(to);
        let inside =
            self.chunks.get(end.chunk).into_iter().flat_map(move |chunk| chunk.range(..end.at).rev());
        let before =
            self.chunks.range(..end.chunk.min(self.chunks.len())).rev().flat_map(|chunk| chunk.iter().rev());
        inside.chain(before).take(to.saturating_sub(from))
    }

    /// Takes out one chunk of a sequence that is being freed.
    pub(crate) fn dismantle(&mut self) -> Option<VecDeque<T>> {
        let chunk = self.chunks.pop_back()?;
        self.len -= chunk.len();
        Some(chunk)
    }
}

/// Elements of a chunk. An insertion moves as many: two kilobytes for a list.
const CHUNK_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use stdx::Prng;

    use super::*;

    #[test]
    fn a_sequence_behaves_like_a_vector() {
        let mut prng = Prng::new(5);
        let (mut sequence, mut model) = (Sequence::default(), Vec::new());
        for step in 0..20_000_u64 {
            let index = prng.below(model.len() as u64 + 1) as usize;
            match prng.below(if step < 10_000 { 8 } else { 14 }) {
                0..=2 => {
                    sequence.insert(sequence.place(index), step);
                    model.insert(index, step);
                }
                3 => {
                    sequence.push_back(step);
                    model.push(step);
                }
                4 => {
                    sequence.push_front(step);
                    model.insert(0, step);
                }
                5 => assert_eq!(sequence.pop_back(), model.pop()),
                _ => {
                    let removed = (index < model.len()).then(|| model.remove(index));
                    assert_eq!(sequence.remove(sequence.place(index)), removed);
                }
            }
            assert_eq!(sequence.len(), model.len());
            assert_eq!(sequence.get(index), model.get(index));
            assert_eq!(sequence.index(sequence.place(index)), index.min(model.len()));
        }
        assert!(sequence.iter().eq(model.iter()));
    }

    #[test]
    fn ranges_equal_a_slices_ranges_in_both_directions() {
        let mut sequence = Sequence::default();
        (0..1_000).for_each(|number| sequence.push_back(number));
        for (from, to) in [(0, 1_000), (0, 0), (5, 130), (127, 129), (999, 2_000), (1_000, 1_000), (700, 600)]
        {
            let model: Vec<i32> = (0..1_000).skip(from).take(to.max(from) - from).collect();
            assert!(sequence.range(from, to).eq(model.iter()), "{from}..{to}");
            assert!(sequence.range_back(from, to).eq(model.iter().rev()), "{from}..{to} back");
        }
    }

    #[test]
    fn ends_are_taken_off_whole() {
        for count in [0, 1, 127, 128, 129, 999, 1_000, 2_000] {
            let mut sequence = Sequence::default();
            (0..1_000).for_each(|number| sequence.push_back(number));
            let front = sequence.take_front(count);
            assert!(front.iter().copied().eq(0..count.min(1_000)), "{count}");
            assert!(sequence.iter().copied().eq(count.min(1_000)..1_000), "{count}");
            assert_eq!(front.len() + sequence.len(), 1_000);
        }
    }

    #[test]
    fn places_are_found_by_order() {
        let mut sequence = Sequence::default();
        (0..1_000).for_each(|number| sequence.push_back(number * 2));
        assert_eq!(sequence.index(sequence.place_where(|&number| number < 501)), 251);
        assert_eq!(sequence.index(sequence.place_where(|_| true)), 1_000);
        assert_eq!(sequence.index(sequence.place_where(|_| false)), 0);
    }
}
