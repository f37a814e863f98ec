//! LZF, in which Redis compresses strings in dumps: repeated bytes are references to earlier ones.
//!
//! A control byte below 32 is the number of literal bytes that follow, less one. Any other holds a length of three bits and the
//! upper five bits of a distance. Another length byte follows if the three bits are all set.

/// Compressor that finds earlier bytes by the hash of three. It is large, so one serves many texts.
#[derive(Default)]
pub(crate) struct Compressor {
    /// The last position of each hash of three bytes, with the number of the text in the bits above it.
    places: Vec<u64>,
    text: u64,
}

impl Compressor {
    /// The compressed form, if it saves four bytes or more. The bytes are those that Redis makes.
    pub(crate) fn compress(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.len() <= SAVED_MIN || u32::try_from(bytes.len()).is_err() {
            return None;
        }
        self.places.resize(1 << HASH_BITS, 0);
        self.text += 1;
        let (mut out, mut literals_from, mut at) = (Vec::new(), 0, 0);
        let len_max = bytes.len() - SAVED_MIN;
        // Three bytes are needed for a hash.
        while at + 2 < bytes.len() {
            let Some(from) = self.meet(bytes, at).filter(|&from| is_match(bytes, from, at)) else {
                at += 1;
                continue;
            };
            let literals = at - literals_from;
            let is_run_open = !literals.is_multiple_of(usize::from(LITERAL_MAX));
            if end(&out, literals) + 3 + usize::from(is_run_open) >= len_max {
                return None;
            }
            write_literals(&bytes[literals_from..at], &mut out);
            let len = match_len(bytes, from, at);
            write_match(at - from - 1, len, &mut out);
            at += len;
            literals_from = at;
            if at + 2 < bytes.len() {
                // Of a match, only the last two positions are stored.
                self.meet(bytes, at - 2);
                self.meet(bytes, at - 1);
            }
        }
        if end(&out, at - literals_from) + 3 > len_max {
            return None;
        }
        write_literals(&bytes[literals_from..], &mut out);
        Some(out)
    }

    /// The last position of three bytes with the hash of those at `at`. The position becomes `at`.
    fn meet(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let three = bytes[at..at + 3].iter().fold(0_u32, |three, &byte| three << 8 | u32::from(byte));
        let hash = (three >> (24 - HASH_BITS)).wrapping_sub(three.wrapping_mul(5)) & ((1 << HASH_BITS) - 1);
        let place = &mut self.places[hash as usize];
        let old = std::mem::replace(place, self.text << 32 | at as u64);
        (old >> 32 == self.text).then_some(old as u32 as usize)
    }
}

/// The end of `out` after this number of literals and the control byte of the next run. LZF gives up a little before the room
/// ends.
fn end(out: &[u8], literals: usize) -> usize {
    out.len() + literals + literals / usize::from(LITERAL_MAX) + 1
}

/// Redis never refers to the very first byte: its position is the mark of an empty entry.
fn is_match(bytes: &[u8], from: usize, at: usize) -> bool {
    from > 0 && at - from <= DISTANCE_MAX && bytes[from..from + 3] == bytes[at..at + 3]
}

fn match_len(bytes: &[u8], from: usize, at: usize) -> usize {
    // A match ends before the last two bytes. LZF compares at least three bytes, or 19 if there are enough.
    let len_max = match bytes.len() - at - 2 {
        left @ 0..=16 => left.max(3),
        left => left.clamp(19, MATCH_MAX),
    };
    (3..len_max).find(|&len| bytes[from + len] != bytes[at + len]).unwrap_or(len_max)
}

fn write_literals(literals: &[u8], out: &mut Vec<u8>) {
    for run in literals.chunks(usize::from(LITERAL_MAX)) {
        out.push((run.len() - 1) as u8);
        out.extend_from_slice(run);
    }
}

fn write_match(distance: usize, len: usize, out: &mut Vec<u8>) {
    let (high, len) = ((distance >> 8) as u8, len - 2);
    if len < 7 {
        out.push(high | (len as u8) << 5);
    } else {
        out.extend_from_slice(&[high | 7 << 5, (len - 7) as u8]);
    }
    out.push(distance as u8);
}

/// Decompresses `bytes`, which must make exactly `len`. `None` if they do not.
pub(crate) fn decompress(bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    // An announced length allocates nothing before it is checked.
    if len / EXPANSION_MAX > bytes.len() {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    let mut at = 0;
    while let Some(&control) = bytes.get(at) {
        at += 1;
        if control < LITERAL_MAX {
            let end = at + usize::from(control) + 1;
            out.extend_from_slice(bytes.get(at..end)?);
            at = end;
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                count += usize::from(*bytes.get(at)?);
                at += 1;
            }
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(*bytes.get(at)?)) + 1;
            at += 1;
            let from = out.len().checked_sub(distance)?;
            // A reference may overlap the bytes that it produces.
            (from..from + count + 2).for_each(|place| out.push(out[place]));
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

const LITERAL_MAX: u8 = 32;

/// Bounds by the bits of a length and of a distance.
const MATCH_MAX: usize = 264;
const DISTANCE_MAX: usize = 1 << 13;

const HASH_BITS: u32 = 16;

/// Redis does not use the compressed form to save less.
const SAVED_MIN: usize = 4;

/// Three bytes produce at most 264.
const EXPANSION_MAX: usize = 88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_came_before_are_repeated() {
        assert_eq!(decompress(b"\x02abc\x60\x02", 8).as_deref(), Some(&b"abcabcab"[..]));
        assert_eq!(decompress(b"\x00a\xe0\x02\x00", 12).as_deref(), Some(&b"aaaaaaaaaaaa"[..]));
    }

    #[test]
    fn decompression_inverts_compression() {
        let (mut prng, mut compressor) = (stdx::Prng::new(1), Compressor::default());
        let mut compressed = 0;
        for _ in 0..2_000 {
            let (letters, len) = (1 + prng.below(20), prng.below(1_000));
            let text: Vec<u8> = (0..len).map(|_| prng.below(letters) as u8).collect();
            if let Some(bytes) = compressor.compress(&text) {
                assert!(bytes.len() + SAVED_MIN <= text.len());
                assert_eq!(decompress(&bytes, text.len()), Some(text));
                compressed += 1;
            }
        }
        assert!(compressed > 500, "{compressed}");
        let long: Vec<u8> = (0..100_000_u32).flat_map(|number| (number / 9).to_le_bytes()).collect();
        let bytes = compressor.compress(&long).expect("shorter");
        assert_eq!(decompress(&bytes, long.len()), Some(long));
    }

    #[test]
    fn lzf_that_does_not_fit_is_none() {
        for (bytes, len) in [
            (&b"\x02abc"[..], 4),
            (b"\x02abc", 2),
            (b"\x05abc", 6),
            (b"\x20\x00", 3),
            (b"\x00a\xe0", 10),
            (b"\x00a", 1 << 40),
        ] {
            assert_eq!(decompress(bytes, len), None, "{bytes:?}");
        }
    }
}
