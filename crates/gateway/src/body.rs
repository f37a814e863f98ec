//! The body of an HTTP request, with a length or in chunks.

use crate::answer::{Refusal, Status};
use crate::head::Framing;
use crate::limits::BODY_BYTES_MAX;

/// Bytes of the line before a chunk, and of each trailer.
const LINE_BYTES_MAX: usize = 1024;

/// A body that is being read.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Bytes(usize),
    ChunkLine,
    /// Bytes of a chunk to come.
    Chunk(usize),
    /// CR LF behind a chunk.
    ChunkEnd,
    Trailers,
    Done,
}

impl Body {
    pub(crate) fn new(framing: Framing) -> Body {
        let state = match framing {
            Framing::Bytes(0) => State::Done,
            Framing::Bytes(bytes) => State::Bytes(bytes),
            Framing::Chunked => State::ChunkLine,
        };
        Body { bytes: Vec::new(), state }
    }

    /// Reads from `bytes`. Returns the number of bytes that belong to the body.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut rest = bytes;
        while self.state != State::Done {
            let len = self.step(rest)?;
            if len == 0 {
                break;
            }
            rest = &rest[len..];
        }
        Ok(bytes.len() - rest.len())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes that are held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// One step. Returns its number of bytes, or 0 if more are needed.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        match self.state {
            State::Bytes(left) | State::Chunk(left) => Ok(self.take(bytes, left)),
            State::ChunkLine => self.begin_chunk(bytes),
            State::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = State::ChunkLine;
                    Ok(2)
                }
                [] | [b'\r'] => Ok(0),
                _ => Err(broken()),
            },
            State::Trailers => {
                let Some(len) = line_len(bytes)? else { return Ok(0) };
                if len == 2 {
                    self.state = State::Done;
                }
                Ok(len)
            }
            State::Done => Ok(0),
        }
    }

    fn take(&mut self, bytes: &[u8], left: usize) -> usize {
        let len = left.min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..len]);
        self.state = match (self.state, left - len) {
            (State::Bytes(_), 0) => State::Done,
            (State::Bytes(_), left) => State::Bytes(left),
            (_, 0) => State::ChunkEnd,
            (_, left) => State::Chunk(left),
        };
        len
    }

    fn begin_chunk(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let Some(len) = line_len(bytes)? else { return Ok(0) };
        let Ok(httparse::Status::Complete((len, size))) = httparse::parse_chunk_size(&bytes[..len]) else {
            return Err(broken());
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > BODY_BYTES_MAX - self.bytes.len() {
            return Err(Refusal::body_too_large());
        }
        self.state = if size == 0 { State::Trailers } else { State::Chunk(size) };
        Ok(len)
    }
}

/// The length of the line at the beginning of `bytes`, with CR LF.
fn line_len(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if end > 0 && bytes[end - 1] == b'\r' && end < LINE_BYTES_MAX => Ok(Some(end + 1)),
        None if bytes.len() < LINE_BYTES_MAX => Ok(None),
        _ => Err(broken()),
    }
}

fn broken() -> Refusal {
    Refusal::new(Status::BadRequest, "a chunk of the body is broken")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of `text`, read in pieces of `size` bytes, and the bytes behind it.
    fn read(framing: Framing, text: &str, size: usize) -> Result<(String, String), Refusal> {
        let (mut body, mut input, mut behind) = (Body::new(framing), Vec::new(), Vec::new());
        for piece in text.replace('|', "\r\n").as_bytes().chunks(size) {
            input.extend_from_slice(piece);
            let len = body.read(&input)?;
            input.drain(..len);
            if body.is_complete() {
                behind.append(&mut input);
            }
        }
        assert!(body.is_complete(), "{text}");
        let text = |bytes| String::from_utf8(bytes).expect("ASCII");
        Ok((text(body.into_bytes()), text(behind)))
    }

    #[test]
    fn bodies_are_the_same_in_pieces_of_any_size() {
        let both = |body: &str, rest: &str| Ok((body.to_owned(), rest.to_owned()));
        for size in 1..40 {
            assert_eq!(read(Framing::Bytes(5), "helloGET", size), both("hello", "GET"));
            let chunks = "5;x=y|hello|1| |A|0123456789|0|Trailer: x||GET";
            assert_eq!(read(Framing::Chunked, chunks, size), both("hello 0123456789", "GET"));
        }
        assert_eq!(Body::new(Framing::Bytes(0)).read(b"GET"), Ok(0));
    }

    #[test]
    fn broken_chunks_are_refused() {
        for text in ["x|", "5|helloXX", "-1|", "5\nhello", "ffffffffffffffffff|", &"1".repeat(2000)] {
            assert_eq!(read(Framing::Chunked, text, 7).expect_err(text).status, Status::BadRequest);
        }
        let large = read(Framing::Chunked, "ffffffff|", 100).expect_err("4 GiB");
        assert_eq!(large.status, Status::BodyTooLarge);
        let mut body = Body::new(Framing::Chunked);
        let chunk = [b"fffff0\r\n".as_slice(), &vec![b'x'; 0x00ff_fff0]].concat();
        let _ = body.read(&chunk);
        assert_eq!(body.read(b"\r\n1000\r\n").map_err(|refusal| refusal.status), Err(Status::BodyTooLarge));
    }
}
