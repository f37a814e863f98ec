//! The bytes of a string: room to grow without a copy, and bit operations by words.
//!
//! A string may have half a gigabyte. An operation on all of it has to be near the speed of memory, and a small change must not
//! move all of it.

/// Bytes that a string counts for, with its spare room. Room beyond [`SPARE_BYTES_COUNTED_MAX`] was never written to, so the
/// system has given no memory for it.
pub(crate) fn memory(text: &Vec<u8>) -> usize {
    text.len() + (text.capacity() - text.len()).min(SPARE_BYTES_COUNTED_MAX)
}

/// Appends `tail`.
pub(crate) fn append(text: &mut Vec<u8>, tail: &[u8]) {
    reserve(text, text.len() + tail.len());
    text.extend_from_slice(tail);
}

/// Appends zeros up to `len`. If zeros are most of the string, the system provides them, and they cost nothing until they are
/// written to.
pub(crate) fn grow(text: &mut Vec<u8>, len: usize) {
    if len <= text.len() {
        return;
    }
    if len > text.capacity() && text.len() < len / 2 {
        let mut grown = zeros(room(text, len), len);
        grown[..text.len()].copy_from_slice(text);
        *text = grown;
        return;
    }
    reserve(text, len);
    text.resize(len, 0);
}

/// `len` zeros with room for more.
fn zeros(room: usize, len: usize) -> Vec<u8> {
    let mut zeros = vec![0; room];
    zeros.truncate(len);
    zeros
}

/// Makes room for `len` bytes. A huge string moves once, and never again.
fn reserve(text: &mut Vec<u8>, len: usize) {
    if len <= text.capacity() {
        return;
    }
    if len < HUGE_BYTES_MIN {
        return text.reserve(len - text.len());
    }
    let mut larger = Vec::with_capacity(room(text, len));
    larger.extend_from_slice(text);
    *text = larger;
}

/// The capacity for a string that grows to `len` bytes: twice the old one. A huge string gets the maximum if the system has the
/// address space. Addresses are no memory.
fn room(text: &[u8], len: usize) -> usize {
    match len {
        _ if len < HUGE_BYTES_MIN => len.max(2 * text.len()),
        _ if Vec::<u8>::new().try_reserve_exact(TEXT_BYTES_MAX).is_ok() => len.max(TEXT_BYTES_MAX),
        _ => len,
    }
}

/// Number of set bits.
pub(crate) fn ones(text: &[u8]) -> usize {
    let (blocks, rest) = text.as_chunks::<128>();
    let mut counter = Counter::default();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        counter.add(&std::array::from_fn(|at| u64::from_ne_bytes(words[at])));
    }
    counter.total() + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
}

/// Counts bits of sixteen words at once by adding them at every bit position (Harley and Seal). It sums words of single bits,
/// of pairs and so on, and counts only the highest. A count for each word takes three times as long.
#[derive(Default)]
struct Counter {
    ones: u64,
    twos: u64,
    fours: u64,
    eights: u64,
    sixteens: usize,
}

impl Counter {
    #[inline]
    fn add(&mut self, words: &[u64; 16]) {
        let carries = [self.add_eight(&words[..8]), self.add_eight(&words[8..])];
        let carry = add(&mut self.eights, carries[0], carries[1]);
        self.sixteens += carry.count_ones() as usize;
    }

    #[inline]
    fn add_eight(&mut self, words: &[u64]) -> u64 {
        let carries = [self.add_four(&words[..4]), self.add_four(&words[4..])];
        add(&mut self.fours, carries[0], carries[1])
    }

    #[inline]
    fn add_four(&mut self, words: &[u64]) -> u64 {
        let carries = [add(&mut self.ones, words[0], words[1]), add(&mut self.ones, words[2], words[3])];
        add(&mut self.twos, carries[0], carries[1])
    }

    fn total(&self) -> usize {
        let places = [(self.eights, 8), (self.fours, 4), (self.twos, 2), (self.ones, 1)];
        let rest: usize = places.iter().map(|(word, weight)| word.count_ones() as usize * weight).sum();
        self.sixteens * 16 + rest
    }
}

/// Adds two words to `sum` at every bit position and returns the carry.
#[inline]
fn add(sum: &mut u64, one: u64, other: u64) -> u64 {
    let both = one ^ other;
    let carry = (one & other) | (both & *sum);
    *sum ^= both;
    carry
}

/// The first byte that is not `filler`.
pub(crate) fn first_other(text: &[u8], filler: u8) -> Option<usize> {
    // No branch for each byte, so that many bytes are compared at once.
    let differs = |block: &[u8]| block.iter().fold(0, |bits, byte| bits | (byte ^ filler)) != 0;
    let block = text.chunks(BLOCK_BYTES).position(differs)?;
    let from = block * BLOCK_BYTES;
    Some(from + text[from..].iter().position(|&byte| byte != filler)?)
}

/// Operation of BITOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bitwise {
    And,
    Or,
    Xor,
    Not,
}

impl Bitwise {
    /// The result for at least one source; behind the end of a source there are zeros.
    pub(crate) fn of(self, sources: &[&[u8]]) -> Vec<u8> {
        match self {
            Bitwise::Not => {
                let mut result = Vec::with_capacity(room(&[], sources[0].len()));
                result.extend(sources[0].iter().map(|byte| !byte));
                result
            }
            Bitwise::And => all_of(sources),
            Bitwise::Or => combined(sources, |one, other| one | other),
            Bitwise::Xor => combined(sources, |one, other| one ^ other),
        }
    }
}

/// Zeros behind the end of the shortest source.
fn all_of(sources: &[&[u8]]) -> Vec<u8> {
    let lens = sources.iter().map(|source| source.len());
    let (shortest, longest) = lens.fold((usize::MAX, 0), |(min, max), len| (len.min(min), len.max(max)));
    let mut result = zeros(room(&[], longest), longest);
    let (common, _) = result.split_at_mut(shortest);
    common.copy_from_slice(&sources[0][..shortest]);
    for source in &sources[1..] {
        common.iter_mut().zip(*source).for_each(|(one, other)| *one &= other);
    }
    result
}

/// Behind the end of a source, the longest one stays unchanged.
fn combined(sources: &[&[u8]], combine: impl Fn(u8, u8) -> u8) -> Vec<u8> {
    let (longest, _) =
        sources.iter().enumerate().max_by_key(|(_, source)| source.len()).expect("at least one source");
    let mut result = Vec::with_capacity(room(&[], sources[longest].len()));
    result.extend_from_slice(sources[longest]);
    for (_, source) in sources.iter().enumerate().filter(|(at, _)| *at != longest) {
        result.iter_mut().zip(*source).for_each(|(one, other)| *one = combine(*one, *other));
    }
    result
}

/// Redis's `proto-max-bulk-len`.
pub(crate) const TEXT_BYTES_MAX: usize = 512 * 1024 * 1024;

/// A string that grows beyond this reserves addresses for the longest string: to move it takes ten milliseconds.
const HUGE_BYTES_MIN: usize = 32 * 1024 * 1024;

/// Spare room that counts as memory. An allocator may have used a little of it before.
const SPARE_BYTES_COUNTED_MAX: usize = 1024 * 1024;

/// Bytes that are compared at once.
const BLOCK_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use stdx::Prng;

    use super::*;

    fn random(prng: &mut Prng, len: usize) -> Vec<u8> {
        (0..len).map(|_| prng.next_u64() as u8).collect()
    }

    #[test]
    fn bits_are_counted_as_one_by_one() {
        let mut prng = Prng::new(1);
        for len in (0..600).chain([4_096, 5_001]) {
            let text = random(&mut prng, len);
            let bits: usize = text.iter().map(|byte| byte.count_ones() as usize).sum();
            assert_eq!(ones(&text), bits, "{len} bytes");
            assert_eq!(ones(&vec![0xff; len]), len * 8);
        }
    }

    #[test]
    fn the_first_other_byte_is_found_in_every_place() {
        for at in 0..600 {
            let mut text = vec![0xff; 600];
            assert_eq!(first_other(&text[..at], 0xff), None);
            text[at] = 0xfe;
            assert_eq!(first_other(&text, 0xff), Some(at));
        }
    }

    #[test]
    fn bitop_works_as_on_single_bytes() {
        let mut prng = Prng::new(2);
        for lens in [[0, 0, 0], [1, 0, 3], [100, 257, 31], [7, 7, 7], [300, 5, 299]] {
            let texts: Vec<Vec<u8>> = lens.iter().map(|&len| random(&mut prng, len)).collect();
            let sources: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            let byte = |source: usize, at: usize| texts[source].get(at).copied().unwrap_or_default();
            let expected = |combine: fn(u8, u8) -> u8| -> Vec<u8> {
                let len = lens.into_iter().max().unwrap_or_default();
                (0..len).map(|at| combine(combine(byte(0, at), byte(1, at)), byte(2, at))).collect()
            };
            assert_eq!(Bitwise::And.of(&sources), expected(|one, other| one & other), "{lens:?}");
            assert_eq!(Bitwise::Or.of(&sources), expected(|one, other| one | other), "{lens:?}");
            assert_eq!(Bitwise::Xor.of(&sources), expected(|one, other| one ^ other), "{lens:?}");
            assert_eq!(Bitwise::Not.of(&sources), texts[0].iter().map(|byte| !byte).collect::<Vec<_>>());
        }
    }

    #[test]
    fn appending_does_not_move_a_huge_string() {
        let mut text = Vec::new();
        grow(&mut text, HUGE_BYTES_MIN);
        let place = text.as_ptr();
        append(&mut text, b"x");
        grow(&mut text, HUGE_BYTES_MIN * 2);
        grow(&mut text, TEXT_BYTES_MAX);
        assert_eq!((text.as_ptr(), text.len(), text[HUGE_BYTES_MIN]), (place, TEXT_BYTES_MAX, b'x'));
    }

    #[test]
    fn appending_does_not_move_a_huge_result() {
        let source = vec![0xf0; HUGE_BYTES_MIN];
        for bitwise in [Bitwise::Not, Bitwise::And, Bitwise::Or, Bitwise::Xor] {
            let mut result = bitwise.of(&[&source]);
            let place = result.as_ptr();
            append(&mut result, b"x");
            assert_eq!((result.as_ptr(), result.len()), (place, HUGE_BYTES_MIN + 1), "{bitwise:?}");
        }
    }

    #[test]
    fn room_that_was_never_written_to_costs_little() {
        let mut text = Vec::new();
        grow(&mut text, HUGE_BYTES_MIN);
        assert!(memory(&text) <= HUGE_BYTES_MIN + SPARE_BYTES_COUNTED_MAX);
        text = b"abc".to_vec();
        append(&mut text, b"defg");
        assert_eq!((memory(&text), text), (8, b"abcdefg".to_vec()));
    }

    #[test]
    fn growth_keeps_bytes_and_adds_zeros() {
        for (old, new) in [(0, 1), (3, 4), (3, 100), (100, 100), (100, 5), (1_000_000, 1_500_000)] {
            let mut text = vec![b'x'; old];
            grow(&mut text, new);
            let zeros = new.saturating_sub(old);
            assert_eq!(text, [vec![b'x'; old], vec![0; zeros]].concat(), "{old} to {new}");
        }
    }
}
