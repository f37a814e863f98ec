//! Checks and counts replies that are known beforehand, byte by byte, at the price of a comparison of memory. Pure.

use anyhow::{Result, bail};

/// A stream in which one reply follows itself.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The reply, repeated to make comparisons long.
    repeated: Vec<u8>,
    /// Bytes of one reply.
    reply_bytes: usize,
}

/// Limit of bytes compared at once: both sides fit into the first-level cache.
const REPEATED_BYTES: usize = 16 * 1024;

impl Replies {
    /// Every reply is `reply`, which must not be empty.
    pub fn new(reply: &[u8]) -> Replies {
        Replies { repeated: reply.repeat((REPEATED_BYTES / reply.len()).max(1)), reply_bytes: reply.len() }
    }

    /// Bytes of one reply.
    pub fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// Compares the next `bytes` of a stream of which the last reply has come up to byte `at`. Returns the new `at`.
    pub fn check(&self, mut at: usize, mut bytes: &[u8]) -> Result<usize> {
        while !bytes.is_empty() {
            let expected = &self.repeated[at..];
            let len = expected.len().min(bytes.len());
            if expected[..len] != bytes[..len] {
                bail!("a wrong reply: {}", difference(&expected[..len], &bytes[..len]));
            }
            at = (at + len) % self.reply_bytes;
            bytes = &bytes[len..];
        }
        Ok(at)
    }
}

/// Shows where two pieces of the same length differ first.
pub(crate) fn difference(expected: &[u8], found: &[u8]) -> String {
    let same = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
    let around = |bytes: &[u8]| {
        let shown = &bytes[same.saturating_sub(10)..bytes.len().min(same + 60)];
        shown.escape_ascii().to_string()
    };
    format!("expected \"{}\", got \"{}\"", around(expected), around(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_followed_however_they_are_cut() {
        let reply = b"$3\r\nabc\r\n";
        let replies = Replies::new(reply);
        let stream = reply.repeat(5000);
        for cut in [1, 2, 7, 8, 9, 10, 1000, REPEATED_BYTES + 3] {
            let mut at = 0;
            for piece in stream.chunks(cut) {
                at = replies.check(at, piece).expect("right");
            }
            assert_eq!(at, 0, "pieces of {cut}");
        }
        assert_eq!(replies.check(0, &stream[..13]).expect("right"), 4);
    }

    #[test]
    fn a_reply_above_one_comparison_is_followed() {
        let reply = vec![b'y'; REPEATED_BYTES * 3 + 1];
        let replies = Replies::new(&reply);
        assert_eq!(replies.check(1, &reply).expect("right"), 1);
    }

    #[test]
    fn one_wrong_byte_is_found_and_shown() {
        let replies = Replies::new(b"+OK\r\n");
        let error = replies.check(2, b"K\r\n+OK\r\n-ERR no\r\n").expect_err("wrong");
        let expected = r#"a wrong reply: expected "K\r\n+OK\r\n+OK\r\n+OK\r", got "K\r\n+OK\r\n-ERR no\r\n""#;
        assert_eq!(error.to_string(), expected);
    }
}
