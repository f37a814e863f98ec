//! Requests that the proxy writes anew from one of a client.

use resp::{Request, Span, encode};

/// A request of the proxy's own words.
#[derive(Debug)]
pub(crate) struct Rewritten {
    bytes: Vec<u8>,
    args: Vec<Span>,
}

impl Rewritten {
    /// The request of `words`, of which there are `len`.
    pub(crate) fn of<'w>(words: impl Iterator<Item = &'w [u8]>, len: usize) -> Rewritten {
        let mut rewritten = Rewritten::begin(len);
        words.for_each(|word| rewritten.push(b"", word));
        debug_assert_eq!(rewritten.args.len(), len, "the caller knows how many words there are");
        rewritten
    }

    /// The begin of a request of `len` words.
    pub(crate) fn begin(len: usize) -> Rewritten {
        let mut bytes = Vec::new();
        encode::array_header(&mut bytes, len);
        Rewritten { bytes, args: Vec::with_capacity(len) }
    }

    /// Appends the word that is `prefix` and `word`.
    pub(crate) fn push(&mut self, prefix: &[u8], word: &[u8]) {
        let len = prefix.len() + word.len();
        self.bytes.push(b'$');
        self.bytes.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
        self.args.push(Span { start: self.bytes.len(), len });
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(word);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The request.
    pub(crate) fn request(&self) -> Request<'_> {
        Request::new(&self.bytes, &self.args)
    }
}
