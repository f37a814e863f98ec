//! Two hashes by Bob Jenkins: one-at-a-time (1997) and lookup3 (2006), both in the public domain.

use super::signed;

/// twemproxy's `initval` for lookup3; any number would have done.
const START: u32 = 13;

/// twemproxy's `one_at_a_time`, over signed bytes.
pub(super) fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = 0u32;
    for byte in key {
        hash = hash.wrapping_add(signed(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// twemproxy's `jenkins`: `hashlittle` of lookup3. An empty key is not its business.
///
/// The last block has 1 to 12 bytes and is not mixed but finished; missing bytes count as 0.
pub(super) fn lookup3(key: &[u8]) -> u32 {
    let mut state = [0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(START); 3];
    let mut rest = key;
    while rest.len() > 12 {
        let (block, behind) = rest.split_at(12);
        state = mix(add(state, block));
        rest = behind;
    }
    finish(add(state, rest))
}

/// Adds up to 12 bytes, three little-endian words.
fn add(mut state: [u32; 3], block: &[u8]) -> [u32; 3] {
    for (at, byte) in block.iter().enumerate() {
        let word = &mut state[at / 4];
        *word = word.wrapping_add(u32::from(*byte) << (8 * (at % 4)));
    }
    state
}

/// lookup3's `mix`.
fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for (first, second, third) in [(4, 6, 8), (16, 19, 4)] {
        a = a.wrapping_sub(c) ^ c.rotate_left(first);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(second);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(third);
        b = b.wrapping_add(a);
    }
    [a, b, c]
}

/// lookup3's `final`, of which only `c` is wanted.
fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}
