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
        let (mut bytes, mut args) = (Vec::new(), Vec::with_capacity(len));
        encode::array_header(&mut bytes, len);
        for word in words {
            encode::bulk(&mut bytes, word);
            args.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        debug_assert_eq!(args.len(), len, "the caller knows how many words there are");
        Rewritten { bytes, args }
    }

    /// The request.
    pub(crate) fn request(&self) -> Request<'_> {
        Request::new(&self.bytes, &self.args)
    }
}
