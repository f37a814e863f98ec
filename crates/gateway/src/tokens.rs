//! RESP2 replies as tokens, piece by piece.

use crate::limits::{DEPTH_MAX, LINE_BYTES_MAX};
use resp::integer::parse_i64;

/// A part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A status, such as `OK`.
    Status(&'a [u8]),
    /// An error.
    Error(&'a [u8]),
    Integer(i64),
    Null,
    /// The beginning of a string. Its parts follow, then [`Token::StringEnd`].
    String,
    Part(&'a [u8]),
    StringEnd,
    /// The beginning of an array. Its elements follow, then [`Token::ArrayEnd`].
    Array(usize),
    ArrayEnd,
}

/// The bytes are no RESP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// A reader of one reply after another.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    state: State,
    line: Vec<u8>,
    /// For each array that is open, the number of elements to come.
    open: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Line,
    /// Bytes of a string to come, with CR LF.
    String(usize),
}

impl Tokens {
    /// Gives `each` the tokens in `bytes`, up to the end of one reply. Returns the number of bytes that were read, and whether the
    /// reply is complete.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Token<'_>),
    ) -> Result<(usize, bool), Broken> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (len, ends_value) = match self.state {
                State::Line => self.read_line(rest, &mut each)?,
                State::String(left) => self.read_string(rest, left, &mut each)?,
            };
            rest = &rest[len..];
            if ends_value && self.end_value(&mut each) {
                return Ok((bytes.len() - rest.len(), true));
            }
        }
        Ok((bytes.len(), false))
    }

    fn read_line(&mut self, bytes: &[u8], each: &mut impl FnMut(Token<'_>)) -> Result<(usize, bool), Broken> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let len = end.map_or(bytes.len(), |end| end + 1);
        if self.line.len() + len > LINE_BYTES_MAX {
            return Err(Broken);
        }
        self.line.extend_from_slice(&bytes[..len]);
        if end.is_none() {
            return Ok((len, false));
        }
        let line = std::mem::take(&mut self.line);
        let ends_value = self.understand(&line, each)?;
        self.line = line;
        self.line.clear();
        Ok((len, ends_value))
    }

    /// Gives out the token of a line. Returns whether a value ends with it.
    fn understand(&mut self, line: &[u8], each: &mut impl FnMut(Token<'_>)) -> Result<bool, Broken> {
        let (kind, text) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first).ok_or(Broken)?;
        let len = || parse_i64(text).ok_or(Broken);
        match kind {
            b'+' => each(Token::Status(text)),
            b'-' => each(Token::Error(text)),
            b':' => each(Token::Integer(len()?)),
            b'$' | b'*' if len()? == -1 => each(Token::Null),
            b'$' => {
                let bytes = usize::try_from(len()?).map_err(|_| Broken)?;
                each(Token::String);
                self.state = State::String(bytes.checked_add(2).ok_or(Broken)?);
                return Ok(false);
            }
            b'*' => {
                let elements = usize::try_from(len()?).map_err(|_| Broken)?;
                if self.open.len() == DEPTH_MAX {
                    return Err(Broken);
                }
                each(Token::Array(elements));
                if elements > 0 {
                    self.open.push(elements);
                    return Ok(false);
                }
                each(Token::ArrayEnd);
            }
            _ => return Err(Broken),
        }
        Ok(true)
    }

    fn read_string(
        &mut self,
        bytes: &[u8],
        left: usize,
        each: &mut impl FnMut(Token<'_>),
    ) -> Result<(usize, bool), Broken> {
        let len = left.min(bytes.len());
        let body = len.min(left.saturating_sub(2));
        if body > 0 {
            each(Token::Part(&bytes[..body]));
        }
        self.state = State::String(left - len);
        if len < left {
            return Ok((len, false));
        }
        self.state = State::Line;
        each(Token::StringEnd);
        Ok((len, true))
    }

    /// Ends the arrays that a value completes. Returns whether the reply is complete.
    fn end_value(&mut self, each: &mut impl FnMut(Token<'_>)) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
            each(Token::ArrayEnd);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of `reply`, read in pieces of `size` bytes. Parts are joined.
    fn tokens(reply: &str, size: usize) -> Result<String, Broken> {
        let (mut tokens, mut text, mut is_done) = (Tokens::default(), String::new(), false);
        for piece in reply.replace('|', "\r\n").as_bytes().chunks(size) {
            assert!(!is_done, "the reply has ended");
            let write = |token: Token<'_>| match token {
                Token::Part(part) => text.push_str(&String::from_utf8_lossy(part)),
                Token::Status(status) => text.push_str(&format!("+{} ", String::from_utf8_lossy(status))),
                Token::Error(error) => text.push_str(&format!("-{} ", String::from_utf8_lossy(error))),
                Token::Integer(number) => text.push_str(&format!("{number} ")),
                Token::Null => text.push_str("null "),
                Token::String => text.push('"'),
                Token::StringEnd => text.push_str("\" "),
                Token::Array(len) => text.push_str(&format!("{len}[ ")),
                Token::ArrayEnd => text.push_str("] "),
            };
            is_done = tokens.read(piece, write)?.1;
        }
        assert!(is_done, "{reply} is complete");
        Ok(text.trim().to_owned())
    }

    #[test]
    fn replies_are_the_same_in_pieces_of_any_size() {
        let reply = "*5|$5|a\r\nbc|:-7|*0|*2|$-1|*1|+OK|$0||";
        for size in 1..reply.len() + 10 {
            let expected = "5[ \"a\r\nbc\" -7 0[ ] 2[ null 1[ +OK ] ] \"\" ]";
            assert_eq!(tokens(reply, size).as_deref(), Ok(expected));
        }
        assert_eq!(tokens("-ERR no|", 100).as_deref(), Ok("-ERR no"));
        assert_eq!(tokens("*-1|", 1).as_deref(), Ok("null"));
    }

    #[test]
    fn bytes_behind_a_reply_are_not_read() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.read(b"+OK\r\n:1\r\n", |_| {}), Ok((5, true)));
        assert_eq!(tokens.read(b":1\r\n", |_| {}), Ok((4, true)));
    }

    #[test]
    fn other_bytes_are_broken() {
        for reply in ["x|", "$x|", "$-2|", "*-3|", ":|", "\n", "%1|", &"*1|".repeat(DEPTH_MAX + 1)] {
            assert_eq!(tokens(reply, 1000), Err(Broken), "{reply}");
        }
        let line = vec![b'+'; LINE_BYTES_MAX + 1];
        assert_eq!(Tokens::default().read(&line, |_| {}), Err(Broken));
    }
}
