//! What the unit tests of commands share: a store that is spoken to in lines.

use resp::{Request, Span, encode};

use crate::{Store, StoreSettings};

/// A store and its clock.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) now_ms: u64,
}

impl World {
    pub(crate) fn new(settings: StoreSettings) -> World {
        World { store: Store::new(settings), now_ms: 1_000_000 }
    }

    /// The reply to a line of words, with blanks for line ends.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let (mut bytes, mut spans, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let words: Vec<&str> = line.split(' ').collect();
        encode::array_header(&mut bytes, words.len());
        for word in words {
            encode::bulk(&mut bytes, word.as_bytes());
            spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        self.store.run(&Request::new(&bytes, &spans), self.now_ms, &mut out);
        String::from_utf8_lossy(&out).trim_end().replace("\r\n", " ")
    }
}
