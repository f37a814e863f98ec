//! The end of a reply, and readers of its content.
//!
//! [`Scanner`] finds the end of one reply of RESP2 or RESP3, resumable, without recursion: it counts the missing
//! values, so nesting costs nothing. The small readers below take complete replies apart for merging.

use crate::integer::{parse_i64, short_header};

/// Bounds of the sizes that one reply may announce or occupy.
#[derive(Clone, Copy, Debug)]
pub struct ReplyLimits {
    /// Bytes of one bulk. A node may have a larger `proto-max-bulk-len` than we grant clients.
    pub bulk_bytes_max: i64,
    /// Values announced and not yet seen, over all levels.
    pub values_max: i64,
    /// Bytes of a header line or a simple string.
    pub line_bytes_max: usize,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        ReplyLimits { bulk_bytes_max: 1 << 32, values_max: 1 << 32, line_bytes_max: 1024 * 1024 }
    }
}

/// The bytes are no reply: the peer at the node's address does not speak RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// A byte that starts no type.
    #[error("unknown reply type 0x{0:02x}")]
    Type(u8),
    /// A length that is none, or above the limit.
    #[error("invalid length in reply")]
    Len,
    /// CR without LF, or a body that does not end in CR LF.
    #[error("expected CRLF in reply")]
    ExpectedCrlf,
    /// A line without end.
    #[error("too long line in reply")]
    LineTooLong,
}

/// The result of [`Scanner::pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Bytes that belong to it.
    pub len: usize,
    /// Whether it ends behind them.
    pub complete: bool,
}

impl Passed {
    /// The part of `bytes` that was scanned, up to `at`, and the present part of a body that begins there. `body`
    /// becomes the missing bytes, without the line end.
    pub(crate) fn part(at: usize, body: &mut Option<usize>, bytes: &[u8]) -> Passed {
        let came = body.map_or(0, |left| left.min(bytes.len() - at));
        *body = body.map(|left| left - came);
        Passed { len: at + came, complete: false }
    }
}

/// Finds the end of the first reply; remembers how far it came.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    /// Everything before this offset was looked at.
    at: usize,
    /// Values still to come, this one included; 0 between replies.
    values_left: i64,
    /// Bytes of body, line end included, behind `at` that need no look except at their end.
    body: Option<usize>,
}

impl Scanner {
    /// The length of the first reply in `bytes`, or `None` while it is incomplete. The same bytes, and more, must then be given
    /// to the next call. Inlined into the loop over a node's replies, so that results need not go through memory.
    #[inline(always)]
    pub fn scan(&mut self, bytes: &[u8], limits: &ReplyLimits) -> Result<Option<usize>, ReplyError> {
        if self.values_left == 0
            && let Some(len) = plain_len(bytes, limits)
        {
            return Ok(Some(len));
        }
        self.scan_closely(bytes, limits)
    }

    /// As [`Scanner::scan`], for nested or incomplete values.
    #[inline(never)]
    fn scan_closely(&mut self, bytes: &[u8], limits: &ReplyLimits) -> Result<Option<usize>, ReplyError> {
        self.values_left = self.values_left.max(1);
        while self.values_left > 0 {
            let done = match self.body {
                Some(len) => self.skip_body(bytes, len)?,
                None => self.skip_plain(bytes, limits) || self.scan_header(bytes, limits)?,
            };
            if !done {
                return Ok(None);
            }
        }
        let len = self.at;
        *self = Scanner::default();
        Ok(Some(len))
    }

    /// Skips a value if it is plain, as nearly all are. `None` says nothing about it.
    #[inline]
    fn skip_plain(&mut self, bytes: &[u8], limits: &ReplyLimits) -> bool {
        let Some(len) = bytes.get(self.at..).and_then(|value| plain_len(value, limits)) else { return false };
        self.at += len;
        self.values_left -= 1;
        true
    }

    /// The number of missing bytes of the first reply that are certain, by its headers in an unfinished [`Scanner::scan`].
    pub fn bytes_announced(&self) -> usize {
        self.at + self.body.map_or(0, |len| len + 2)
    }

    /// As [`Scanner::scan`], for callers that relay bytes and keep none. Returns the number of `bytes` that belong to the
    /// reply, and whether it ends there. The next call must get the bytes that follow them. Only an unfinished header line
    /// stays behind.
    pub fn pass(&mut self, bytes: &[u8], limits: &ReplyLimits) -> Result<Passed, ReplyError> {
        if let Some(len) = self.scan(bytes, limits)? {
            return Ok(Passed { len, complete: true });
        }
        Ok(Passed::part(std::mem::take(&mut self.at), &mut self.body, bytes))
    }

    /// Passes over a body and the CR LF behind it. False while it is not all there.
    fn skip_body(&mut self, bytes: &[u8], len: usize) -> Result<bool, ReplyError> {
        let end = self.at + len;
        match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => {}
            None | Some([] | [b'\r']) => return Ok(false),
            Some(_) => return Err(ReplyError::ExpectedCrlf),
        }
        self.at = end + 2;
        self.body = None;
        self.values_left -= 1;
        Ok(true)
    }

    /// Reads one line and decides what follows it. False while it is not all there.
    #[inline(never)]
    fn scan_header(&mut self, bytes: &[u8], limits: &ReplyLimits) -> Result<bool, ReplyError> {
        let Some(&kind) = bytes.get(self.at) else { return Ok(false) };
        if !is_type(kind) {
            return Err(ReplyError::Type(kind));
        }
        let Some((text, end)) = line(bytes, self.at + 1, limits)? else { return Ok(false) };
        match kind {
            b'$' | b'!' | b'=' => {
                let len =
                    parse_i64(text).filter(|&len| len <= limits.bulk_bytes_max).ok_or(ReplyError::Len)?;
                match len {
                    -1 if kind == b'$' => self.values_left -= 1,
                    _ => self.body = Some(usize::try_from(len).map_err(|_| ReplyError::Len)?),
                }
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => self.enter(kind, text, limits)?,
            _ => self.values_left -= 1,
        }
        self.at = end;
        Ok(true)
    }

    /// Counts the values inside an aggregate.
    fn enter(&mut self, kind: u8, text: &[u8], limits: &ReplyLimits) -> Result<(), ReplyError> {
        let len = parse_i64(text).ok_or(ReplyError::Len)?;
        let inside = match (kind, len) {
            (b'*', -1) => 0,
            (_, ..0) => return Err(ReplyError::Len),
            (b'%', _) => len.checked_mul(2).ok_or(ReplyError::Len)?,
            // Attributes stand in front of a value and are none themselves: one more than their pairs.
            (b'|', _) => len.checked_mul(2).and_then(|len| len.checked_add(1)).ok_or(ReplyError::Len)?,
            _ => len,
        };
        let left = (self.values_left - 1).checked_add(inside).ok_or(ReplyError::Len)?;
        if left > limits.values_max {
            return Err(ReplyError::Len);
        }
        self.values_left = left;
        Ok(())
    }
}

/// The length of the first of `values` if it is complete and of a short form. Short forms are a bulk or an integer with a short
/// header, a null of RESP2, and an OK. An error or a push is never one.
///
/// The function is fast only where it is inlined, and the compiler does not inline it for two callers: 10 % of a scan.
#[inline(always)]
pub fn plain_len(values: &[u8], limits: &ReplyLimits) -> Option<usize> {
    match values {
        [b'$', text @ ..] => {
            let Some(header) = short_header(text) else {
                // The reply to a GET of a missing key.
                return matches!(text, [b'-', b'1', b'\r', b'\n', ..]).then_some(5);
            };
            if header.number() as i64 > limits.bulk_bytes_max {
                return None;
            }
            let end = header.end() + header.number();
            matches!(text.get(end..), Some([b'\r', b'\n', ..])).then_some(1 + end + 2)
        }
        // The reply to every SET.
        [b'+', b'O', b'K', b'\r', b'\n', ..] => Some(5),
        [b':', text @ ..] => short_header(text).map(|header| 1 + header.end()),
        _ => None,
    }
}

/// Whether `byte` begins a value of RESP2 or RESP3.
#[inline]
fn is_type(byte: u8) -> bool {
    // A `match` becomes a test of one bit; a search in a string of them does not.
    matches!(
        byte,
        b'+' | b'-'
            | b':'
            | b'$'
            | b'*'
            | b'_'
            | b','
            | b'#'
            | b'!'
            | b'='
            | b'('
            | b'%'
            | b'~'
            | b'>'
            | b'|'
    )
}

/// The text from `start` to its CR LF, and the offset behind them; `None` while it is not all there.
fn line<'a>(
    bytes: &'a [u8],
    start: usize,
    limits: &ReplyLimits,
) -> Result<Option<(&'a [u8], usize)>, ReplyError> {
    let rest = &bytes[start..];
    // Nearly all lines are a few bytes long, for which a byte loop beats the set-up of a vector search.
    let short = &rest[..rest.len().min(16)];
    let cr = short
        .iter()
        .position(|&byte| byte == b'\r')
        .or_else(|| memchr::memchr(b'\r', &rest[short.len()..]).map(|at| at + short.len()));
    let Some(len) = cr else {
        return if rest.len() > limits.line_bytes_max { Err(ReplyError::LineTooLong) } else { Ok(None) };
    };
    match rest.get(len + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((&rest[..len], start + len + 2))),
        Some(_) => Err(ReplyError::ExpectedCrlf),
    }
}

/// The number of elements of the array that `bytes` begin with, and the length of its header; `None` while that is not
/// all there. Nil is no array.
pub fn array_header(bytes: &[u8], limits: &ReplyLimits) -> Result<Option<(usize, usize)>, ReplyError> {
    if bytes.first() != Some(&b'*') {
        return if bytes.is_empty() { Ok(None) } else { Err(ReplyError::Type(bytes[0])) };
    }
    let Some((text, end)) = line(bytes, 1, limits)? else { return Ok(None) };
    let elements = parse_i64(text).and_then(|len| usize::try_from(len).ok()).ok_or(ReplyError::Len)?;
    Ok(Some((elements, end)))
}

/// The integer that `reply`, a complete reply, is.
pub fn as_integer(reply: &[u8]) -> Option<i64> {
    parse_i64(reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?)
}

/// The body of a complete bulk reply, or the text of a verbatim one; `None` for nil and for everything else.
pub fn as_bulk(reply: &[u8]) -> Option<&[u8]> {
    let mut elements = Elements { bytes: reply, left: 1 };
    let element = elements.next()?;
    let header_end = element.iter().position(|&byte| byte == b'\n')? + 1;
    let start = match element.first() {
        Some(b'$') => header_end,
        // Three letters say what kind of text it is.
        Some(b'=') => header_end + b"txt:".len(),
        _ => return None,
    };
    element.get(start..element.len() - 2)
}

/// Whether a complete reply is one of the three ways to say that there is nothing.
pub fn is_null(reply: &[u8]) -> bool {
    matches!(reply, b"$-1\r\n" | b"_\r\n" | b"*-1\r\n")
}

/// Whether a complete reply is a push, which answers no request.
#[inline]
pub fn is_push(reply: &[u8]) -> bool {
    reply.first() == Some(&b'>')
}

/// The length of the first of several complete values. 0 if there is none, which cannot happen behind a reply that was
/// scanned as a whole.
pub fn first_len(values: &[u8]) -> usize {
    let limits = ReplyLimits::default();
    let long_way = || Scanner::default().scan(values, &limits).ok().flatten();
    plain_len(values, &limits).or_else(long_way).unwrap_or_default()
}

/// Whether `reply` is an error.
pub fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!'))
}

/// The elements of a complete array or set, each as its wire bytes, or the names and values of a map in turn. `None` if it is
/// none of these (nil included).
pub fn elements(reply: &[u8]) -> Option<Elements<'_>> {
    let each = match reply.first()? {
        b'*' | b'~' => 1,
        b'%' => 2,
        _ => return None,
    };
    let end = memchr::memchr(b'\n', reply)? + 1;
    let len = usize::try_from(parse_i64(&reply[1..end - 2])?).ok()?;
    Some(Elements { bytes: &reply[end..], left: len.checked_mul(each)? })
}

/// The first `left` replies of `bytes`, all of them complete: elements of an array whose beginning was taken before.
pub fn elements_left(bytes: &[u8], left: usize) -> Elements<'_> {
    Elements { bytes, left }
}

/// See [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Elements<'a> {
    /// The wire bytes of all elements that were not taken yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 {
            return None;
        }
        let (element, rest) = self.bytes.split_at(first_len(self.bytes));
        self.bytes = rest;
        self.left -= 1;
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[&[u8]] = &[
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-12\r\n",
        b"$0\r\n\r\n",
        b"$5\r\na\r\nbc\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n+x\r\n",
        b"%2\r\n+a\r\n:1\r\n+b\r\n%0\r\n",
        b"~2\r\n_\r\n#t\r\n",
        b">2\r\n+message\r\n,1.5\r\n",
        b"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"!5\r\nERR x\r\n",
        b"(3492890328409238509324850943850943825024385\r\n",
    ];

    #[test]
    fn every_type_ends_where_it_ends_however_it_is_cut() {
        for reply in WHOLE {
            let longer = [reply, &b"+next\r\n"[..]].concat();
            assert_eq!(Scanner::default().scan(&longer, &ReplyLimits::default()), Ok(Some(reply.len())));
            let mut scanner = Scanner::default();
            for end in 0..reply.len() {
                assert_eq!(
                    scanner.scan(&reply[..end], &ReplyLimits::default()),
                    Ok(None),
                    "{reply:?} to {end}"
                );
                assert!(scanner.at <= end, "{reply:?} to {end}");
            }
            assert_eq!(scanner.scan(reply, &ReplyLimits::default()), Ok(Some(reply.len())), "{reply:?}");
        }
    }

    #[test]
    fn absurd_lengths_are_refused_and_cost_nothing() {
        let cases: &[&[u8]] = &[
            b"$18446744073709551617\r\n",
            b"$-2\r\n",
            b"*-2\r\n",
            b"*4294967297\r\n",
            b"%4611686018427387904\r\n",
            b"%9223372036854775807\r\n",
            b"|9223372036854775807\r\n",
            b"=-1\r\n",
            b"$+1\r\n",
            b"*2\r\n*4294967296\r\n",
        ];
        for bytes in cases {
            assert_eq!(
                Scanner::default().scan(bytes, &ReplyLimits::default()),
                Err(ReplyError::Len),
                "{bytes:?}"
            );
        }
        assert_eq!(
            Scanner::default().scan(b"HTTP/1.1", &ReplyLimits::default()),
            Err(ReplyError::Type(b'H'))
        );
        assert_eq!(
            Scanner::default().scan(b"$1\r\nab\r\n", &ReplyLimits::default()),
            Err(ReplyError::ExpectedCrlf)
        );
    }

    #[test]
    fn a_million_levels_are_counted_not_climbed() {
        let mut deep = b"*1\r\n".repeat(1_000_000);
        deep.extend_from_slice(b":1\r\n");
        assert_eq!(Scanner::default().scan(&deep, &ReplyLimits::default()), Ok(Some(deep.len())));
    }

    #[test]
    fn a_reply_in_pieces_is_passed_on_exactly() {
        for reply in WHOLE {
            let longer = [reply, &b"+next\r\n"[..]].concat();
            for step in 1..longer.len() {
                let (mut scanner, mut passed, mut held) = (Scanner::default(), Vec::new(), Vec::new());
                let mut pieces = longer.chunks(step);
                let complete = loop {
                    held.extend_from_slice(pieces.next().expect("the reply ends"));
                    let found = scanner.pass(&held, &ReplyLimits::default()).expect("valid");
                    passed.extend(held.drain(..found.len));
                    if found.complete {
                        break true;
                    }
                    assert!(held.len() < 64, "only a line's beginning is held back: {held:?}");
                };
                assert!(complete && passed == *reply, "{reply:?} in steps of {step}: {passed:?}");
            }
        }
    }

    #[test]
    fn a_large_body_is_known_before_it_comes() {
        let mut scanner = Scanner::default();
        assert_eq!(scanner.scan(b"*2\r\n$3\r\nabc\r\n$100000\r\nx", &ReplyLimits::default()), Ok(None));
        assert_eq!(scanner.bytes_announced(), 13 + 9 + 100_002);
    }

    #[test]
    fn elements_are_the_wire_bytes() {
        let reply = b"*3\r\n$1\r\na\r\n*1\r\n:1\r\n$-1\r\n";
        let parts: Vec<_> = elements(reply).expect("an array").collect();
        assert_eq!(parts, [&b"$1\r\na\r\n"[..], b"*1\r\n:1\r\n", b"$-1\r\n"]);
        assert!(elements(b"*-1\r\n").is_none());
        assert!(elements(b"+OK\r\n").is_none());
        assert_eq!(as_integer(b":42\r\n"), Some(42));
        assert_eq!(as_bulk(b"$2\r\nab\r\n"), Some(&b"ab"[..]));
        assert_eq!(as_bulk(b"$0\r\n\r\n"), Some(&b""[..]));
        assert_eq!(as_bulk(b"$-1\r\n"), None);
        assert_eq!(as_bulk(b"=6\r\ntxt:ab\r\n"), Some(&b"ab"[..]));
        let map: Vec<_> = elements(b"%1\r\n+a\r\n~2\r\n,1.5\r\n#t\r\n").expect("a map").collect();
        assert_eq!(map, [&b"+a\r\n"[..], b"~2\r\n,1.5\r\n#t\r\n"]);
        assert_eq!([&b"_\r\n"[..], b"*-1\r\n", b"*0\r\n"].map(is_null), [true, true, false]);
    }
}
