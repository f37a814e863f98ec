//! Writer of replies, in the protocol that the connection chose with HELLO.
//!
//! Types that RESP2 lacks are written as Redis 7.0 writes them. A map becomes an array of twice the length, a set an array, a
//! double or a verbatim text a bulk. There are two kinds of nil. Doubles have as many digits as [`Doubles`] says.

use resp::encode;

use crate::error::Error;
use crate::formats::double::Doubles;

/// Room for nearly every double.
const DOUBLE_BYTES: usize = 24;

/// A reply under construction.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    pub(crate) is_resp3: bool,
    doubles: Doubles,
}

impl Reply {
    /// A reply that is appended to `bytes`.
    #[inline]
    pub(crate) fn new(bytes: Vec<u8>, is_resp3: bool) -> Reply {
        Reply { bytes, is_resp3, doubles: Doubles::default() }
    }

    /// The same reply with doubles in another format.
    #[inline]
    pub(crate) fn with(self, doubles: Doubles) -> Reply {
        Reply { doubles, ..self }
    }

    #[inline]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// An empty reply in the same protocol, for items whose header is known only at the end.
    pub(crate) fn part(&self) -> Reply {
        Reply { bytes: Vec::new(), ..*self }
    }

    #[inline]
    pub(crate) fn append(&mut self, part: &Reply) {
        self.bytes.extend_from_slice(&part.bytes);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all bytes behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    #[inline]
    pub(crate) fn bulk(&mut self, body: &[u8]) {
        encode::bulk(&mut self.bytes, body);
    }

    #[inline]
    pub(crate) fn simple(&mut self, text: &[u8]) {
        encode::simple(&mut self.bytes, text);
    }

    #[inline]
    pub(crate) fn integer(&mut self, value: i64) {
        encode::integer(&mut self.bytes, value);
    }

    #[cold]
    pub(crate) fn error(&mut self, error: &Error) {
        error.write(&mut self.bytes);
    }

    /// The nil of replies that are otherwise bulks.
    #[inline]
    pub(crate) fn nil(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// The nil of replies that are otherwise arrays.
    pub(crate) fn nil_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    #[inline]
    pub(crate) fn bulk_or_nil(&mut self, item: Option<&[u8]>) {
        match item {
            Some(item) => self.bulk(item),
            None => self.nil(),
        }
    }

    #[inline]
    pub(crate) fn array(&mut self, len: usize) {
        encode::array_header(&mut self.bytes, len);
    }

    /// The header of a map with this number of pairs.
    pub(crate) fn map(&mut self, pairs: usize) {
        let in_resp2 = 2 * pairs;
        self.header(b'%', pairs, in_resp2);
    }

    pub(crate) fn set(&mut self, len: usize) {
        self.header(b'~', len, len);
    }

    /// The header of a push, which is no reply to a request.
    pub(crate) fn push(&mut self, len: usize) {
        self.header(b'>', len, len);
    }

    /// The header of a list of pairs, which is flat in RESP2 and has an array for each pair in RESP3. Call [`Reply::pair`]
    /// before each pair.
    pub(crate) fn pairs(&mut self, pairs: usize) {
        self.array(if self.is_resp3 { pairs } else { 2 * pairs });
    }

    pub(crate) fn pair(&mut self) {
        if self.is_resp3 {
            self.array(2);
        }
    }

    /// The header of a list of named values: an array of arrays in RESP2, a map in RESP3. Call [`Reply::named`] before each.
    pub(crate) fn named_list(&mut self, len: usize) {
        self.header(b'%', len, len);
    }

    pub(crate) fn named(&mut self) {
        if !self.is_resp3 {
            self.array(2);
        }
    }

    pub(crate) fn double(&mut self, value: f64) {
        if self.is_resp3 {
            self.bytes.push(b',');
            self.doubles.write(&mut self.bytes, value);
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.double_text(value);
        }
    }

    /// A double that is a bulk in both protocols.
    pub(crate) fn double_text(&mut self, value: f64) {
        let mut text = Vec::with_capacity(DOUBLE_BYTES);
        self.doubles.write(&mut text, value);
        self.bulk(&text);
    }

    /// A double whose text has a format of its own in Redis.
    pub(crate) fn double_as(&mut self, text: &[u8]) {
        if self.is_resp3 {
            self.bytes.push(b',');
            self.bytes.extend_from_slice(text);
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// Text for people.
    pub(crate) fn verbatim(&mut self, text: &[u8]) {
        if self.is_resp3 {
            self.bytes.push(b'=');
            self.bytes.extend_from_slice(itoa::Buffer::new().format(text.len() + 4).as_bytes());
            self.bytes.extend_from_slice(b"\r\ntxt:");
            self.bytes.extend_from_slice(text);
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    fn header(&mut self, kind: u8, len: usize, len_in_resp2: usize) {
        let start = self.bytes.len();
        encode::array_header(&mut self.bytes, if self.is_resp3 { len } else { len_in_resp2 });
        if self.is_resp3 {
            self.bytes[start] = kind;
        }
    }
}
