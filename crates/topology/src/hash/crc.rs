//! The cyclic redundancy checks: Redis's crc16, twemproxy's crc16 without a mask, zlib's crc32 and a slice of it.

use std::sync::LazyLock;

/// Remainders of one byte for the polynomial 0x1021 (CRC-16/XMODEM, which Redis and twemproxy share).
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            remainder = (remainder << 1) ^ if remainder & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// Redis's `crc16`, the base of its slots.
pub(crate) fn crc16_redis(key: &[u8]) -> u16 {
    key.iter().fold(0, |crc, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

/// twemproxy's `crc16`: the same steps in a 32-bit register that is never masked.
pub(super) fn crc16(key: &[u8]) -> u32 {
    key.iter().fold(0, |crc: u32, byte| (crc << 8) ^ u32::from(CRC16[usize::from((crc >> 8) as u8 ^ byte)]))
}

/// What this processor does it with. `crc32fast::hash` finds that out for each key, a third of what a short one costs.
static CRC32: LazyLock<crc32fast::Hasher> = LazyLock::new(crc32fast::Hasher::new);

/// zlib's CRC-32.
pub(super) fn crc32a(key: &[u8]) -> u32 {
    let mut hasher = CRC32.clone();
    hasher.update(key);
    hasher.finalize()
}

/// Bits 16 to 30 of the CRC-32, as libmemcached takes them: 15 bits, so more than 32,768 entries of a modulo table
/// cannot all be reached, and on a ring all keys land in the first 1/131,072 of it: on very few nodes.
pub(super) fn crc32(key: &[u8]) -> u32 {
    (crc32a(key) >> 16) & 0x7fff
}
