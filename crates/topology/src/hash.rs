//! From the bytes that count to 32 bits: twemproxy's twelve hash functions, Redis's crc16 and predixy's atol.
//!
//! Written from the behaviour of the programs and checked against the running nutcracker 0.5.0 (`tests/nutcracker.rs`). Where C
//! reads a key as `char`, a byte from 0x80 up is negative here as it is on x86, on every platform. nutcracker built for ARM,
//! where `char` is unsigned, places such keys elsewhere.

mod crc;
mod fnv;
mod hsieh;
mod jenkins;
mod murmur;

pub(crate) use crc::crc16_redis;

use crate::TopologyError;
use md5::{Digest, Md5};
use std::fmt;
use std::str::FromStr;

/// A way to make 32 bits of the bytes that count of a key.
///
/// Changing it moves nearly all keys. `crc32a` is the default and the fastest; it is also what redis-sharding uses.
/// The others exist to take over data that another proxy has placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashFunction {
    /// Bob Jenkins's one-at-a-time, over signed bytes. twemproxy's `one_at_a_time`.
    OneAtATime,
    /// The first four bytes of the MD5 digest, little-endian. twemproxy's `md5`; the slowest by far.
    Md5,
    /// CRC-16/XMODEM whose 32-bit register is never cut to 16 bits, so that garbage from earlier bytes stays in the
    /// upper half. twemproxy's `crc16`; its remainders are not those of a true crc16.
    Crc16,
    /// Redis's own crc16 (CRC-16/XMODEM, 16 bits), as the slots of a Redis Cluster and predixy's `crc16` use it.
    Crc16Redis,
    /// libmemcached's idea of CRC-32: bits 16 to 30 of it, 15 bits in all. twemproxy's `crc32`.
    Crc32,
    /// CRC-32 as in zlib and Ethernet. twemproxy's `crc32a`, redis-sharding's and codis's only one.
    Crc32a,
    /// The lower half of 64-bit FNV-1, over signed bytes. twemproxy's `fnv1_64`.
    Fnv1x64,
    /// The lower half of 64-bit FNV-1a, over signed bytes. twemproxy's `fnv1a_64` and its default; short keys that
    /// differ in their last byte spread badly.
    Fnv1ax64,
    /// 32-bit FNV-1, over signed bytes. twemproxy's `fnv1_32`.
    Fnv1x32,
    /// 32-bit FNV-1a, over signed bytes. twemproxy's `fnv1a_32`.
    Fnv1ax32,
    /// Paul Hsieh's SuperFastHash, started at 0. twemproxy's `hsieh`.
    Hsieh,
    /// Austin Appleby's MurmurHash2, seeded with the length. twemproxy's `murmur`.
    Murmur,
    /// Bob Jenkins's lookup3 (`hashlittle`), started at 13. twemproxy's `jenkins`.
    Jenkins,
    /// The decimal number at the start of the key, 0 without one. predixy's `atol`, for keys that are numbers.
    Atol,
}

/// Every function by the name that users write: twemproxy's names where twemproxy has one.
const NAMES: [(&str, HashFunction); 14] = [
    ("crc32a", HashFunction::Crc32a),
    ("crc32", HashFunction::Crc32),
    ("crc16", HashFunction::Crc16),
    ("crc16-redis", HashFunction::Crc16Redis),
    ("fnv1_64", HashFunction::Fnv1x64),
    ("fnv1a_64", HashFunction::Fnv1ax64),
    ("fnv1_32", HashFunction::Fnv1x32),
    ("fnv1a_32", HashFunction::Fnv1ax32),
    ("murmur", HashFunction::Murmur),
    ("jenkins", HashFunction::Jenkins),
    ("hsieh", HashFunction::Hsieh),
    ("one_at_a_time", HashFunction::OneAtATime),
    ("md5", HashFunction::Md5),
    ("atol", HashFunction::Atol),
];

impl HashFunction {
    /// The 32 bits of `key`. An empty key is 0 in every function: twemproxy does not call the function for it.
    ///
    /// Of [`HashFunction::Atol`] these are the lower 32 bits of 64.
    #[inline]
    pub fn hash(self, key: &[u8]) -> u32 {
        if self == HashFunction::Crc32a {
            return crc::crc32a(key);
        }
        self.other_hash(key)
    }

    /// As [`HashFunction::hash`]. Apart, so that the way of the default, which few leave, is inlined and short.
    #[inline(never)]
    fn other_hash(self, key: &[u8]) -> u32 {
        if key.is_empty() {
            return 0;
        }
        match self {
            HashFunction::Crc32a => crc::crc32a(key),
            HashFunction::Crc32 => crc::crc32(key),
            HashFunction::Crc16 => crc::crc16(key),
            HashFunction::Crc16Redis => u32::from(crc::crc16_redis(key)),
            HashFunction::Fnv1x64 => fnv::fnv1_64(key),
            HashFunction::Fnv1ax64 => fnv::fnv1a_64(key),
            HashFunction::Fnv1x32 => fnv::fnv1_32(key),
            HashFunction::Fnv1ax32 => fnv::fnv1a_32(key),
            HashFunction::Murmur => murmur::murmur(key),
            HashFunction::Jenkins => jenkins::lookup3(key),
            HashFunction::Hsieh => hsieh::hsieh(key),
            HashFunction::OneAtATime => jenkins::one_at_a_time(key),
            HashFunction::Md5 => md5_word(key),
            HashFunction::Atol => atol(key) as u32,
        }
    }

    /// The remainder of the hash of `key` divided by `divisor`, which must not be 0.
    ///
    /// Not the same as dividing [`HashFunction::hash`]: predixy divides all 64 bits that `atol` has.
    #[inline]
    pub fn remainder(self, key: &[u8], divisor: u32) -> u32 {
        match self {
            HashFunction::Atol => (atol(key) % u64::from(divisor)) as u32,
            _ => self.hash(key) % divisor,
        }
    }

    /// The names of all functions, best first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for HashFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, function)| function == self).map_or("", |(name, _)| name);
        formatter.write_str(name)
    }
}

impl FromStr for HashFunction {
    type Err = TopologyError;

    /// Reads a name as [`HashFunction::names`] has it; `crc32-zlib` is `crc32a` for those who wonder which it is.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = if text == "crc32-zlib" { "crc32a" } else { text };
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, function)| *function)
            .ok_or_else(|| TopologyError::HashFunction { name: text.to_owned() })
    }
}

/// The first four bytes of the digest, little-endian.
fn md5_word(key: &[u8]) -> u32 {
    let digest = Md5::digest(key);
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// The leading decimal number, with one sign at most and no blanks before it. predixy (`HashFunc.cpp`) computes in
/// `long` and lets it overflow, then meets an unsigned divisor: so a negative number is taken modulo 2^64.
fn atol(key: &[u8]) -> u64 {
    let (negative, digits) = match key {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let number = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0u64, |number, byte| number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')));
    if negative { number.wrapping_neg() } else { number }
}

/// `byte` as C's signed `char` becomes a 32-bit number: 0x80 and up come out as 0xffffff80 and up.
fn signed(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs of the vectors below: every length of a last block, one byte and three, bytes from 0x80 up.
    const KEYS: [&[u8]; 12] = [
        b"a",
        b"ab",
        b"abc",
        b"user:1000",
        b"twelve bytes",
        b"thirteen byte",
        b"\xff",
        b"\xc3\xa9",
        b"key\x80\xfe\xff",
        b"\xe9\xe8\xe7",
        b"a key of forty-one bytes, high one: \xff\x80\x7f\x81!",
        b"123456789",
    ];

    /// Calculated in C as twemproxy's sources do it, with signed `char`; `md5` by Python.
    #[rustfmt::skip]
    const VECTORS: [(HashFunction, [u32; 12]); 12] = [
        (HashFunction::OneAtATime, [
            0xca2e9442, 0x45e61e58, 0xed131f5b, 0xb563b74f, 0x9c1aa369, 0xb36453ad,
            0xae65a494, 0x019148ae, 0xcd050976, 0x05c5cb57, 0x70f384c6, 0xc66b58c5,
        ]),
        (HashFunction::Md5, [
            0xb975c10c, 0x43f47e18, 0x98500190, 0x2e986207, 0x4ea91fc9, 0xd2826b7c,
            0xd44f5900, 0x97cddd66, 0x0cf76d5b, 0x68810b63, 0x823ee965, 0x94e7f925,
        ]),
        (HashFunction::Crc16, [
            0x00007c87, 0x007c74ff, 0x7c749dd6, 0xe1644671, 0xf00142d5, 0x7237bcb7,
            0x00001ef0, 0x00e967c4, 0x14430257, 0x6cd62a72, 0xb62d758c, 0x869031c3,
        ]),
        (HashFunction::Crc32, [
            0x000068b7, 0x00001e83, 0x00003524, 0x00001f74, 0x000045bf, 0x00002133,
            0x00007f00, 0x00000e04, 0x0000521c, 0x000071bb, 0x000057f1, 0x00004bf4,
        ]),
        (HashFunction::Crc32a, [
            0xe8b7be43, 0x9e83486d, 0x352441c2, 0x9f7417e3, 0xc5bfcca0, 0x2133ec66,
            0xff000000, 0x0e048d3e, 0xd21c712f, 0xf1bb3c02, 0xd7f1fd8a, 0xcbf43926,
        ]),
        (HashFunction::Fnv1x64, [
            0x8601b7be, 0xb4eb37b8, 0x6bafadcb, 0xd39e3d21, 0x73c7a79b, 0xe4fa57f6,
            0x79fe4820, 0xb4eb783d, 0xc3dc929b, 0x942d94b9, 0xfbb0c7d0, 0x2bf916d6,
        ]),
        (HashFunction::Fnv1ax64, [
            0x8601ec8c, 0xb545986a, 0x0541574b, 0xae7b4289, 0xce75b4bf, 0x6e2e56e8,
            0x79fe466e, 0xb4cc3001, 0x1132d9c3, 0x4a86ec59, 0xb98635da, 0x23c6cdfc,
        ]),
        (HashFunction::Fnv1x32, [
            0x050c5d7e, 0x70772d38, 0x439c2f4b, 0xa6affca1, 0xa7e9c29b, 0x662e2216,
            0xfaf3a2e0, 0x16769ffd, 0xef749fbb, 0xe7833279, 0xa79372f0, 0x24148816,
        ]),
        (HashFunction::Fnv1ax32, [
            0xe40c292c, 0x4d2505ca, 0x1a47e90b, 0x507c1d89, 0x1cbad0bf, 0xc1155ba8,
            0xf9f3a14e, 0x3cfa68c1, 0xf7c55963, 0x4cf20619, 0x1c56275a, 0xbb86b11c,
        ]),
        (HashFunction::Hsieh, [
            0x93642e87, 0x5b8c0ec3, 0xe5186b3a, 0xddec1969, 0x6fac6958, 0x003493fc,
            0x02a6dba8, 0xbeea177b, 0x98a8f93f, 0x65f352a7, 0x5a732670, 0xe4fc1670,
        ]),
        (HashFunction::Murmur, [
            0x4b41757c, 0xe3b54dfb, 0x7b0cc428, 0x8e24aec7, 0x3a2c84d5, 0xe40a0ae3,
            0xdb530a9c, 0x7ddc1147, 0x5e193f63, 0xebd8df0e, 0xe95bd3d4, 0xb7760690,
        ]),
        (HashFunction::Jenkins, [
            0xe0a38690, 0xc1b5695b, 0x8f415600, 0x048c4d84, 0x79f83762, 0x5afd934a,
            0xe1964da8, 0x37ac74de, 0x9f020b03, 0x80b66ab9, 0x643c767c, 0x19777af6,
        ]),
    ];

    #[test]
    fn the_functions_of_twemproxy_are_bit_exact() {
        for (function, hashes) in VECTORS {
            for (key, hash) in KEYS.iter().zip(hashes) {
                assert_eq!(function.hash(key), hash, "{function} of {:?}", String::from_utf8_lossy(key));
            }
        }
    }

    #[test]
    fn published_vectors_hold() {
        // CRC-16/XMODEM and CRC-32 of the check string (Redis Cluster specification, RFC 3720 and others), Noll's
        // FNV-1a of "foobar", Jenkins's one-at-a-time as on Wikipedia.
        assert_eq!(HashFunction::Crc16Redis.hash(b"123456789"), 0x31c3);
        assert_eq!(HashFunction::Crc32a.hash(b"123456789"), 0xcbf4_3926);
        assert_eq!(HashFunction::Fnv1ax32.hash(b"foobar"), 0xbf9c_f968);
        assert_eq!(HashFunction::Fnv1ax64.hash(b"foobar"), 0x8594_4171_f739_67e8_u64 as u32);
        let pangram = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(HashFunction::OneAtATime.hash(pangram), 0x519e_91f5);
        assert_eq!(HashFunction::Crc32a.hash(pangram), 0x414f_a339);
    }

    #[test]
    fn twemproxy_s_crc16_ends_in_the_one_of_redis() {
        for key in KEYS {
            assert_eq!(HashFunction::Crc16.hash(key) & 0xffff, HashFunction::Crc16Redis.hash(key));
        }
    }

    #[test]
    fn an_empty_key_is_0_everywhere() {
        for (name, function) in NAMES {
            assert_eq!((function.hash(b""), function.remainder(b"", 7)), (0, 0), "{name}");
        }
    }

    #[test]
    fn atol_reads_the_number_in_front() {
        let cases: [(&[u8], u64); 12] = [
            (b"0", 0),
            (b"12", 12),
            (b"12:x", 12),
            (b"+7", 7),
            (b"-1", u64::MAX),
            (b"-", 0),
            (b"--1", 0),
            (b" 1", 0),
            (b"x1", 0),
            (b"007", 7),
            (b"4294967296", 1 << 32),
            // Behind the largest u64; long wraps, and so does this.
            (b"18446744073709551618", 2),
        ];
        for (key, number) in cases {
            assert_eq!(atol(key), number, "{:?}", String::from_utf8_lossy(key));
        }
        assert_eq!(HashFunction::Atol.hash(b"4294967297"), 1);
        assert_eq!(HashFunction::Atol.remainder(b"4294967297", 7), 5);
    }

    #[test]
    fn functions_print_as_they_are_written() {
        for (name, function) in NAMES {
            assert_eq!(name.parse(), Ok(function));
            assert_eq!(function.to_string(), name);
        }
        assert_eq!("crc32-zlib".parse(), Ok(HashFunction::Crc32a));
    }

    #[test]
    fn an_unknown_function_is_refused_with_the_names_of_all() {
        for name in ["", "CRC32a", "sha1"] {
            let error = name.parse::<HashFunction>().expect_err(name).to_string();
            assert!(
                error.starts_with(&format!("hash {name:?}: must be one of crc32a, crc32, crc16, ")),
                "{error}"
            );
        }
    }
}
