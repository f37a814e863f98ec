//! Where requests end, without keeping a byte of them. Pure.
//!
//! Canned nodes and the echo run beside the measured proxy and must cost less than it does. `resp` finds every argument and
//! refuses requests as Redis does. This module only follows the announced lengths, and keeps the name and the number of
//! arguments of a request. A test compares the two.

use resp::integer::parse_i64;
use std::fmt;

/// A complete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The command's name as [`name`] packs it; 0 for a name of more than eight bytes.
    pub name: u64,
    /// Arguments, the name included.
    pub args: usize,
}

/// The name of a command as one word, in upper case; 0 if it does not fit.
pub const fn name(text: &[u8]) -> u64 {
    let (mut word, mut at) = (0, 0);
    if text.len() > NAME_BYTES_MAX {
        return 0;
    }
    while at < text.len() {
        word |= (text[at] as u64) << (8 * at);
        at += 1;
    }
    word & UPPER_CASE
}

/// Names longer than a word are all alike to us.
const NAME_BYTES_MAX: usize = 8;
/// Clears the bit that makes ASCII letters small.
const UPPER_CASE: u64 = 0xdfdf_dfdf_dfdf_dfdf;
/// A header line: a type, at most 19 digits and CR LF.
const HEADER_BYTES_MAX: usize = 24;

/// The bytes are no RESP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a request in RESP form")
    }
}

impl std::error::Error for Malformed {}

/// Finds the ends of one connection's requests, however they are cut.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    /// Arguments that the request announced.
    args: usize,
    /// Arguments that are not over.
    args_left: usize,
    /// Bytes of the argument, its line end included, that are missing.
    body_left: usize,
    /// The request's name as far as it came.
    name: u64,
    name_len: usize,
    /// A header line that was cut, as far as it came.
    cut: [u8; HEADER_BYTES_MAX],
    cut_len: usize,
}

impl Framer {
    /// Takes the next bytes and calls `each` for every request that they complete.
    pub fn feed(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Head)) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                bytes = self.skip_body(bytes, each);
                continue;
            }
            let kind = if self.args_left == 0 { b'*' } else { b'$' };
            let whole = if self.cut_len == 0 { header(bytes, kind)? } else { None };
            let found = if whole.is_some() { whole } else { self.mend_header(bytes, kind)? };
            let Some((number, len)) = found else { return Ok(()) };
            bytes = &bytes[len..];
            self.begin(kind, number)?;
        }
        Ok(())
    }

    /// A request or an argument begins.
    fn begin(&mut self, kind: u8, number: usize) -> Result<(), Malformed> {
        if kind == b'$' {
            self.body_left = number + 2;
            return Ok(());
        }
        if number == 0 {
            return Err(Malformed);
        }
        (self.args, self.args_left) = (number, number);
        (self.name, self.name_len) = (0, 0);
        Ok(())
    }

    /// Skips the available part of an argument and returns the rest.
    fn skip_body<'a>(&mut self, bytes: &'a [u8], each: &mut impl FnMut(Head)) -> &'a [u8] {
        let (body, rest) = bytes.split_at(self.body_left.min(bytes.len()));
        if self.args_left == self.args {
            self.note_name(body);
        }
        self.body_left -= body.len();
        if self.body_left == 0 {
            self.args_left -= 1;
            if self.args_left == 0 {
                each(Head { name: self.name & UPPER_CASE, args: self.args });
            }
        }
        rest
    }

    /// Takes a piece of the first argument, which is the name.
    fn note_name(&mut self, body: &[u8]) {
        let letters = body.len().min(self.body_left.saturating_sub(2));
        for &letter in &body[..letters] {
            if self.name_len == NAME_BYTES_MAX {
                // Too long: like no name that we know.
                self.name = 0;
                return;
            }
            self.name |= u64::from(letter) << (8 * self.name_len);
            self.name_len += 1;
        }
    }

    /// Reads a header line of which a part came before, or comes later. Returns the number, and how many of `bytes` the line
    /// took.
    fn mend_header(&mut self, bytes: &[u8], kind: u8) -> Result<Option<(usize, usize)>, Malformed> {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.cut_len == HEADER_BYTES_MAX {
                return Err(Malformed);
            }
            self.cut[self.cut_len] = byte;
            self.cut_len += 1;
            if byte == b'\n' {
                let line = self.cut;
                let found = header(&line[..self.cut_len], kind)?;
                self.cut_len = 0;
                return found.map(|(number, _)| Some((number, at + 1))).ok_or(Malformed);
            }
        }
        Ok(None)
    }
}

/// The number in the header line that `bytes` begin with, and the length of the line; `None` while it has no end.
#[inline]
fn header(bytes: &[u8], kind: u8) -> Result<Option<(usize, usize)>, Malformed> {
    match *bytes {
        // Nearly all headers announce less than a hundred.
        [first, one @ b'0'..=b'9', b'\r', b'\n', ..] if first == kind => {
            Ok(Some((usize::from(one - b'0'), 4)))
        }
        [first, ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] if first == kind => {
            Ok(Some((usize::from(ten - b'0') * 10 + usize::from(one - b'0'), 5)))
        }
        _ => long_header(bytes, kind),
    }
}

fn long_header(bytes: &[u8], kind: u8) -> Result<Option<(usize, usize)>, Malformed> {
    let line = &bytes[..bytes.len().min(HEADER_BYTES_MAX)];
    let Some(end) = line.iter().position(|&byte| byte == b'\n') else {
        return if line.len() == HEADER_BYTES_MAX { Err(Malformed) } else { Ok(None) };
    };
    let number = match &line[..end] {
        [first, digits @ .., b'\r'] if *first == kind => parse_i64(digits),
        _ => None,
    };
    let number = number.and_then(|number| usize::try_from(number).ok()).ok_or(Malformed)?;
    Ok(Some((number, end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::encode;
    use resp::request::{RequestLimits, Scanned, Scanner};

    fn heads(pieces: &[&[u8]]) -> Result<Vec<Head>, Malformed> {
        let (mut framer, mut heads) = (Framer::default(), Vec::new());
        for piece in pieces {
            framer.feed(piece, &mut |head| heads.push(head))?;
        }
        Ok(heads)
    }

    /// The heads that `resp` finds in the same bytes.
    fn scanned(mut bytes: &[u8]) -> Vec<Head> {
        let (mut args, mut inline, mut heads) = (Vec::new(), Vec::new(), Vec::new());
        while !bytes.is_empty() {
            let scanned = Scanner::default()
                .scan(bytes, &RequestLimits::default(), &mut args, &mut inline)
                .expect("RESP");
            let Scanned::Request { len } = scanned else { panic!("whole requests only: {scanned:?}") };
            heads.push(Head { name: name(&bytes[args[0].start..][..args[0].len]), args: args.len() });
            bytes = &bytes[len..];
        }
        heads
    }

    /// Requests of every kind of length: short and long names, bodies of 0, 3, 12 and 345 bytes that hold line ends.
    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        let long = "\r\n*1\r\n$".repeat(50);
        encode::request(&mut bytes, &[b"get", b"key:000000000001"]);
        encode::request(&mut bytes, &[b"SET", b"\r\n", &long.as_bytes()[..345]]);
        encode::request(&mut bytes, &[b"BGREWRITEAOF"]);
        encode::request(&mut bytes, &[b"MGET", b"", b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"]);
        encode::request(&mut bytes, &[b"FLUSHALL"]);
        bytes
    }

    #[test]
    fn requests_are_found_where_the_proxys_own_scanner_finds_them() {
        let bytes = stream();
        let expected = scanned(&bytes);
        assert_eq!(expected.len(), 5);
        assert_eq!(heads(&[&bytes]), Ok(expected));
    }

    #[test]
    fn cutting_twice_anywhere_changes_nothing() {
        let bytes = stream();
        let expected = scanned(&bytes);
        for first in 0..bytes.len() {
            for second in first..bytes.len().min(first + 40) {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(heads(&pieces), Ok(expected.clone()), "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn names_are_known_in_any_case_and_long_ones_are_all_alike() {
        assert_eq!(name(b"mGet"), name(b"MGET"));
        assert_ne!(name(b"GET"), name(b"SET"));
        assert_eq!(name(b"BGREWRITEAOF"), 0);
    }

    #[test]
    fn invalid_requests_are_refused() {
        for bytes in ["PING\r\n", "*0\r\n", "*-1\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*1\n$4\nPING\n"] {
            assert_eq!(heads(&[bytes.as_bytes()]), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(heads(&[&[b'1'; HEADER_BYTES_MAX + 1]]), Err(Malformed));
        assert_eq!(heads(&[b"*", &[b'1'; HEADER_BYTES_MAX]]), Err(Malformed));
    }
}
