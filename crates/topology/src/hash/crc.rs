//! The cyclic redundancy checks: Redis's crc16, twemproxy's crc16 without a mask, zlib's crc32 and a slice of it.

use std::sync::LazyLock;

/// Rows for the polynomial 0x1021 (CRC-16/XMODEM, which Redis and twemproxy share). A row has the remainder of each byte,
/// followed by as many zero bytes as the row's index.
static CRC16: [[u16; 256]; 8] = {
    let mut rows = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 * rows.len() {
            remainder = (remainder << 1) ^ if remainder & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
            if bit % 8 == 0 {
                rows[bit / 8 - 1][byte] = remainder;
            }
        }
        byte += 1;
    }
    rows
};

/// Redis's `crc16`, the base of its slots.
pub(crate) fn crc16_redis(key: &[u8]) -> u16 {
    let (eights, rest) = key.as_chunks::<8>();
    let (fours, rest) = rest.as_chunks::<4>();
    let crc = fours.iter().fold(eights.iter().fold(0, slice), slice);
    rest.iter().fold(crc, |crc, &byte| (crc << 8) ^ CRC16[0][usize::from((crc >> 8) as u8 ^ byte)])
}

/// Several bytes at once: the lookups do not depend on each other.
fn slice<const N: usize>(crc: u16, bytes: &[u8; N]) -> u16 {
    let mut bytes = *bytes;
    bytes[0] ^= (crc >> 8) as u8;
    bytes[1] ^= crc as u8;
    let rows = CRC16[..N].iter().rev();
    rows.zip(bytes).fold(0, |crc, (row, byte)| crc ^ row[usize::from(byte)])
}

/// twemproxy's `crc16`: the same steps in a 32-bit register that is never masked.
pub(super) fn crc16(key: &[u8]) -> u32 {
    key.iter()
        .fold(0, |crc: u32, byte| (crc << 8) ^ u32::from(CRC16[0][usize::from((crc >> 8) as u8 ^ byte)]))
}

/// The implementation for this processor. `crc32fast::hash` chooses it anew for each key, which is a third of the cost of a
/// short one.
static CRC32: LazyLock<crc32fast::Hasher> = LazyLock::new(crc32fast::Hasher::new);

/// zlib's CRC-32.
pub(super) fn crc32a(key: &[u8]) -> u32 {
    let mut hasher = CRC32.clone();
    hasher.update(key);
    hasher.finalize()
}

/// Bits 16 to 30 of the CRC-32, as libmemcached takes them. They are 15 bits, so more than 32,768 entries of a modulo table
/// cannot all be reached. On a ring all keys land in the first 1/131,072 of it: on very few nodes.
pub(super) fn crc32(key: &[u8]) -> u32 {
    (crc32a(key) >> 16) & 0x7fff
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    #[test]
    fn several_bytes_at_once_are_the_same_as_one_after_the_other() {
        let mut prng = Prng::new(16);
        for len in 0..64 {
            let key: Vec<u8> = (0..len).map(|_| prng.below(256) as u8).collect();
            // twemproxy's register is wider; its lower half is the same.
            assert_eq!(crc16_redis(&key), crc16(&key) as u16, "{key:?}");
        }
    }
}
