//! Replies in a stream of bytes.

use resp::reply::{self, ReplyError, ReplyLimits, Scanner};

/// The longest reply that is kept for a comparison. A longer one is skipped as it comes.
pub(crate) const REPLY_BYTES_MAX: usize = 256 << 10;
/// Bytes in front of the next reply that may stay in the buffer.
const SPENT_BYTES_MAX: usize = 64 << 10;

/// A complete reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Its bytes.
    Whole(Vec<u8>),
    /// A reply that is too long to be kept.
    TooLong,
}

impl Reply {
    /// Its bytes, if they were kept.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Reply::Whole(bytes) => bytes,
            Reply::TooLong => &[],
        }
    }
}

/// The replies of one connection.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    /// Bytes of replies that were taken.
    spent: usize,
    scanner: Scanner,
    /// Set while a long reply is skipped: whether it is a push.
    skipped: Option<bool>,
}

impl Replies {
    /// Appends bytes that came.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        if self.spent == self.bytes.len() || self.spent > SPENT_BYTES_MAX {
            self.bytes.drain(..self.spent);
            self.spent = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The next reply, if it is complete. Pushes answer no request and are left out.
    pub(crate) fn next(&mut self) -> Result<Option<Reply>, ReplyError> {
        let limits = ReplyLimits::default();
        loop {
            let rest = &self.bytes[self.spent..];
            if let Some(is_push) = self.skipped {
                let passed = self.scanner.pass(rest, &limits)?;
                self.spent += passed.len;
                if !passed.complete {
                    return Ok(None);
                }
                self.skipped = None;
                if !is_push {
                    return Ok(Some(Reply::TooLong));
                }
                continue;
            }
            match self.scanner.scan(rest, &limits)? {
                Some(len) => {
                    let whole = &rest[..len];
                    self.spent += len;
                    if !reply::is_push(whole) {
                        return Ok(Some(Reply::Whole(whole.to_vec())));
                    }
                }
                None if self.scanner.bytes_announced().max(rest.len()) > REPLY_BYTES_MAX => {
                    self.scanner = Scanner::default();
                    self.skipped = Some(reply::is_push(rest));
                }
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<Reply> {
        Some(Reply::Whole(text.as_bytes().to_vec()))
    }

    #[test]
    fn replies_are_found_however_they_are_cut() {
        let text = "+OK\r\n$3\r\nabc\r\n>2\r\n+a\r\n+b\r\n*2\r\n:1\r\n:2\r\n";
        for step in 1..text.len() {
            let (mut replies, mut found) = (Replies::default(), Vec::new());
            for piece in text.as_bytes().chunks(step) {
                replies.extend(piece);
                found.extend(std::iter::from_fn(|| replies.next().expect("valid")));
            }
            let expected = ["+OK\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n:2\r\n"];
            assert_eq!(found, expected.map(|text| whole(text).expect("it is whole")), "{step}");
        }
    }

    #[test]
    fn a_long_reply_is_skipped_and_the_next_is_found() {
        let mut replies = Replies::default();
        let long = format!("${}\r\n{}\r\n", REPLY_BYTES_MAX, "x".repeat(REPLY_BYTES_MAX));
        let mut found = Vec::new();
        for piece in (long + "+OK\r\n").as_bytes().chunks(1000) {
            replies.extend(piece);
            assert!(replies.held_bytes() <= REPLY_BYTES_MAX + SPENT_BYTES_MAX + 2000);
            found.extend(std::iter::from_fn(|| replies.next().expect("valid")));
        }
        assert_eq!(found, [Reply::TooLong, whole("+OK\r\n").expect("it is whole")]);
    }
}
