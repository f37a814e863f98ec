//! Fowler, Noll and Vo's hashes over signed bytes.
//!
//! twemproxy returns the lower 32 bits of its 64-bit variants. No step carries downwards and the lower half of the
//! 64-bit prime 0x100000001b3 is 0x1b3, so all of it can be computed in 32 bits. (twemproxy itself does so for
//! `fnv1a_64` and not for `fnv1_64`; the results show no difference.)

use super::signed;

/// Where the 32-bit variants start, and their prime.
const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

/// The lower halves of the 64-bit offset 0xcbf29ce484222325 and prime.
const OFFSET_64: u32 = 0x8422_2325;
const PRIME_64: u32 = 0x0000_01b3;

/// twemproxy's `fnv1_64`.
pub(super) fn fnv1_64(key: &[u8]) -> u32 {
    fnv1(key, OFFSET_64, PRIME_64)
}

/// twemproxy's `fnv1a_64`.
pub(super) fn fnv1a_64(key: &[u8]) -> u32 {
    fnv1a(key, OFFSET_64, PRIME_64)
}

/// twemproxy's `fnv1_32`.
pub(super) fn fnv1_32(key: &[u8]) -> u32 {
    fnv1(key, OFFSET_32, PRIME_32)
}

/// twemproxy's `fnv1a_32`.
pub(super) fn fnv1a_32(key: &[u8]) -> u32 {
    fnv1a(key, OFFSET_32, PRIME_32)
}

/// Multiplies, then mixes the byte in.
fn fnv1(key: &[u8], offset: u32, prime: u32) -> u32 {
    key.iter().fold(offset, |hash, byte| hash.wrapping_mul(prime) ^ signed(*byte))
}

/// Mixes the byte in, then multiplies.
fn fnv1a(key: &[u8], offset: u32, prime: u32) -> u32 {
    key.iter().fold(offset, |hash, byte| (hash ^ signed(*byte)).wrapping_mul(prime))
}
