//! Paul Hsieh's SuperFastHash as twemproxy starts it: at 0 instead of the length.

use super::signed;

/// twemproxy's `hsieh`.
pub(super) fn hsieh(key: &[u8]) -> u32 {
    let (words, tail) = key.as_chunks::<4>();
    let hash = words.iter().fold(0, |hash, word| mix(hash, *word));
    avalanche(absorb_tail(hash, tail))
}

/// One step over four bytes.
fn mix(hash: u32, [a, b, c, d]: [u8; 4]) -> u32 {
    let hash = hash.wrapping_add(pair(a, b));
    let hash = (hash << 16) ^ (pair(c, d) << 11) ^ hash;
    hash.wrapping_add(hash >> 11)
}

/// The last one to three bytes. Only the third of three counts as signed; a single one does not.
fn absorb_tail(hash: u32, tail: &[u8]) -> u32 {
    match *tail {
        [a, b, c] => {
            let hash = hash.wrapping_add(pair(a, b));
            let hash = hash ^ (hash << 16) ^ (signed(c) << 18);
            hash.wrapping_add(hash >> 11)
        }
        [a, b] => {
            let hash = hash.wrapping_add(pair(a, b));
            let hash = hash ^ (hash << 11);
            hash.wrapping_add(hash >> 17)
        }
        [a] => {
            let hash = hash.wrapping_add(u32::from(a));
            let hash = hash ^ (hash << 10);
            hash.wrapping_add(hash >> 1)
        }
        _ => hash,
    }
}

/// Spreads the last bits.
fn avalanche(hash: u32) -> u32 {
    let hash = hash ^ (hash << 3);
    let hash = hash.wrapping_add(hash >> 5);
    let hash = hash ^ (hash << 4);
    let hash = hash.wrapping_add(hash >> 17);
    let hash = hash ^ (hash << 25);
    hash.wrapping_add(hash >> 6)
}

/// Two bytes, little-endian.
fn pair(low: u8, high: u8) -> u32 {
    u32::from(u16::from_le_bytes([low, high]))
}
