//! Large values that are never held whole: any piece can be produced, and checked, at any time. Pure.

use crate::replies::difference;
use anyhow::{Result, bail};
use resp::encode;
use stdx::Prng;

/// Endless random bytes, in which each value begins at another place.
#[derive(Clone, Debug)]
pub struct Pattern {
    block: Vec<u8>,
}

/// The largest prime below 2^16: pieces that went astray by a power of two, as buffers would have it, do not fit.
const BLOCK_BYTES: usize = 65_521;
/// Distance between the beginnings of two values in the block; prime too.
const STEP: u64 = 7919;

impl Pattern {
    /// The pattern that `seed` names.
    pub fn new(seed: u64) -> Pattern {
        let mut prng = Prng::new(seed);
        Pattern { block: (0..BLOCK_BYTES).map(|_| prng.next_u64() as u8).collect() }
    }

    /// A piece of value `number` from byte `at` on, of `len` bytes at most and at least one.
    fn piece(&self, number: u64, at: usize, len: usize) -> &[u8] {
        let from = ((number * STEP) as usize + at) % self.block.len();
        &self.block[from..self.block.len().min(from + len)]
    }
}

/// A part of a stream.
#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    Value { number: u64, bytes: usize },
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Value { bytes, .. } => *bytes,
        }
    }
}

/// A request to send, or a reply to check, with values out of a [`Pattern`].
#[derive(Clone, Debug, Default)]
pub struct Stream {
    parts: Vec<Part>,
    /// The current part, and how much of it is done.
    part: usize,
    at: usize,
}

impl Stream {
    /// `SET key value`, with value `number` of `bytes` bytes.
    pub fn set(key: &str, number: u64, bytes: usize) -> Stream {
        let mut stream = Stream::default();
        let mut head = Vec::new();
        encode::array_header(&mut head, 3);
        encode::bulk(&mut head, b"SET");
        encode::bulk(&mut head, key.as_bytes());
        stream.parts.push(Part::Text(head));
        stream.push_bulk(number, bytes);
        stream
    }

    /// The reply to a GET of that value.
    pub fn bulk(number: u64, bytes: usize) -> Stream {
        let mut stream = Stream::default();
        stream.push_bulk(number, bytes);
        stream
    }

    /// The reply to an MGET of the values 0 to `count` - 1 of `bytes` bytes each.
    pub fn array(count: u64, bytes: usize) -> Stream {
        let mut stream = Stream::default();
        let mut head = Vec::new();
        encode::array_header(&mut head, count as usize);
        stream.parts.push(Part::Text(head));
        (0..count).for_each(|number| stream.push_bulk(number, bytes));
        stream
    }

    fn push_bulk(&mut self, number: u64, bytes: usize) {
        self.parts.push(Part::Text(format!("${bytes}\r\n").into_bytes()));
        self.parts.push(Part::Value { number, bytes });
        self.parts.push(Part::Text(b"\r\n".to_vec()));
    }

    /// Some of the next bytes; none if all are done.
    pub fn piece<'a>(&'a self, pattern: &'a Pattern) -> &'a [u8] {
        match self.parts.get(self.part) {
            None => &[],
            Some(Part::Text(text)) => &text[self.at..],
            Some(&Part::Value { number, bytes }) => pattern.piece(number, self.at, bytes - self.at),
        }
    }

    /// `count` bytes more are done, of the piece at most.
    pub fn advance(&mut self, count: usize) {
        self.at += count;
        while self.parts.get(self.part).is_some_and(|part| self.at == part.len()) {
            self.part += 1;
            self.at = 0;
        }
    }

    /// Whether a byte of it is done.
    pub fn has_begun(&self) -> bool {
        (self.part, self.at) != (0, 0)
    }

    /// Whether all is done.
    pub fn is_done(&self) -> bool {
        self.part == self.parts.len()
    }

    /// Checks `bytes` as the next ones; an error if they differ.
    pub fn check(&mut self, pattern: &Pattern, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let expected = self.piece(pattern);
            let len = expected.len().min(bytes.len());
            if len == 0 {
                bail!("more bytes than the reply has: \"{}\"", bytes[..bytes.len().min(60)].escape_ascii());
            }
            if expected[..len] != bytes[..len] {
                let part = self.part;
                bail!("a wrong reply, in part {part}: {}", difference(&expected[..len], &bytes[..len]));
            }
            self.advance(len);
            bytes = &bytes[len..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(mut stream: Stream, pattern: &Pattern) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !stream.is_done() {
            let piece = stream.piece(pattern).to_vec();
            stream.advance(piece.len());
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    #[test]
    fn a_value_reads_as_it_was_written() {
        let pattern = Pattern::new(1);
        let set = whole(Stream::set("k", 3, 200_000), &pattern);
        let get = whole(Stream::bulk(3, 200_000), &pattern);
        assert_eq!(set, [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n"[..], &get].concat());
        assert_eq!(get.len(), 200_000 + "$200000\r\n\r\n".len());
    }

    #[test]
    fn an_array_holds_its_values_in_order() {
        let pattern = Pattern::new(1);
        let values: Vec<Vec<u8>> = (0..3).map(|number| whole(Stream::bulk(number, 5), &pattern)).collect();
        assert_eq!(whole(Stream::array(3, 5), &pattern), [&b"*3\r\n"[..], &values.concat()].concat());
        assert_ne!(values[0], values[1]);
    }

    #[test]
    fn replies_are_checked_however_they_are_cut() {
        let pattern = Pattern::new(1);
        let reply = whole(Stream::array(3, 70_000), &pattern);
        for cut in [1, 7, 65_521, 100_000, reply.len()] {
            let mut stream = Stream::array(3, 70_000);
            for bytes in reply.chunks(cut) {
                assert!(!stream.is_done());
                stream.check(&pattern, bytes).expect("right");
            }
            assert!(stream.is_done(), "pieces of {cut}");
            assert!(stream.check(&pattern, b"x").is_err(), "what comes behind the end is wrong");
        }
    }

    #[test]
    fn wrong_bytes_and_misplaced_values_are_found() {
        let pattern = Pattern::new(1);
        let reply = whole(Stream::array(2, 50), &pattern);
        for at in 0..reply.len() {
            let mut wrong = reply.clone();
            wrong[at] ^= 1;
            assert!(Stream::array(2, 50).check(&pattern, &wrong).is_err(), "byte {at}");
        }
        assert!(Stream::bulk(0, 50).check(&pattern, &whole(Stream::bulk(1, 50), &pattern)).is_err());
    }

    #[test]
    fn an_empty_value_has_no_piece() {
        let pattern = Pattern::new(1);
        assert_eq!(whole(Stream::bulk(0, 0), &pattern), b"$0\r\n\r\n");
    }
}
