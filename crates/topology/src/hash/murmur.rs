//! Austin Appleby's MurmurHash2 (public domain) with the seed that libmemcached gave it.

/// The multiplier and the shift of MurmurHash2, found by its author by search.
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// twemproxy's `murmur`: little-endian words, seed 0xdeadbeef times the length.
pub(super) fn murmur(key: &[u8]) -> u32 {
    let len = key.len() as u32;
    murmur2(key, len.wrapping_mul(0xdead_beef))
}

/// MurmurHash2 as published.
fn murmur2(key: &[u8], seed: u32) -> u32 {
    let (words, tail) = key.as_chunks::<4>();
    let mut hash = words.iter().fold(seed ^ key.len() as u32, |hash, word| {
        let word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        hash.wrapping_mul(MULTIPLIER) ^ (word ^ (word >> SHIFT)).wrapping_mul(MULTIPLIER)
    });
    if !tail.is_empty() {
        let word = tail.iter().rev().fold(0, |word, byte| (word << 8) | u32::from(*byte));
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}
