//! Passwords, of which only the hash is kept.

use sha2::{Digest, Sha256};
use std::fmt;

#[cfg(test)]
thread_local! {
    /// Number of passwords that this thread has hashed.
    pub(crate) static HASHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// SHA-256 of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    /// Of a password in clear.
    pub(crate) fn of(password: &[u8]) -> Hash {
        #[cfg(test)]
        HASHED.with(|count| count.set(count.get() + 1));
        Hash(Sha256::digest(password).into())
    }

    /// From 64 hexadecimal digits in lower case, the only form that Redis takes.
    pub(crate) fn from_hex(text: &[u8]) -> Option<Hash> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(Hash(bytes))
    }

    /// As Redis prints it.
    pub(crate) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether both are equal, in a time that does not depend on the first difference.
    pub(crate) fn is_same(self, other: Hash) -> bool {
        let differs = self.0.iter().zip(other.0).fold(0, |differs, (one, other)| differs | (one ^ other));
        std::hint::black_box(differs) == 0
    }
}

/// Hashes of weak passwords can be guessed: no log may have them either.
impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(hidden)")
    }
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_fips_180_and_shows_as_it_is_written() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = Hash::of(b"abc");
        assert_eq!(hash.to_hex(), text);
        assert_eq!(Hash::from_hex(text.as_bytes()), Some(hash));
        assert!(hash.is_same(hash) && !hash.is_same(Hash::of(b"abd")));
        assert_eq!(format!("{hash:?}"), "(hidden)");
    }

    #[test]
    fn other_texts_are_no_hashes() {
        let text = Hash::of(b"abc").to_hex();
        for wrong in [&text[1..], &text.to_uppercase(), &format!("{}g", &text[1..]), ""] {
            assert_eq!(Hash::from_hex(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
