//! Shared parts of the commands' unit tests: a store that takes requests as lines.

use resp::{Request, Span, encode};

use crate::{CallerId, EvictionPolicy, Store, StoreSettings};

/// A store and its clock.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) now_ms: u64,
    caller: CallerId,
}

impl World {
    pub(crate) fn new(settings: StoreSettings) -> World {
        let mut store = Store::new(settings);
        let caller = store.admit();
        World { store, now_ms: 1_000_000, caller }
    }

    pub(crate) fn with(memory_max: Option<usize>, policy: EvictionPolicy) -> World {
        World::new(StoreSettings { seed: 7, memory_max, policy })
    }

    /// A store whose memory has no limit.
    pub(crate) fn unlimited() -> World {
        World::with(None, EvictionPolicy::NoEviction)
    }

    /// Does all housekeeping that is due, and returns the number of pieces that left more to do.
    pub(crate) fn work_off(&mut self) -> usize {
        (0..).take_while(|_| self.store.work(self.now_ms)).count()
    }

    /// The reply to a line of words, with blanks for line ends.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.ask_as(self.caller, line)
    }

    /// The same over another connection.
    pub(crate) fn ask_as(&mut self, caller: CallerId, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.run(caller, &words)).trim_end().replace("\r\n", " ")
    }

    /// Deliveries to other connections since the last call, in order.
    pub(crate) fn delivered(&mut self) -> Vec<(CallerId, String)> {
        let next = || self.store.next_delivery();
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().replace("\r\n", " ");
        std::iter::from_fn(next).map(|delivery| (delivery.to, shown(&delivery.bytes))).collect()
    }

    /// The unchanged reply.
    pub(crate) fn ask_raw(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.run(self.caller, words)
    }

    fn run(&mut self, caller: CallerId, words: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut spans, mut out) = (Vec::new(), Vec::new(), Vec::new());
        encode::array_header(&mut bytes, words.len());
        for word in words {
            encode::bulk(&mut bytes, word);
            spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        self.store.run(caller, &Request::new(&bytes, &spans), self.now_ms, &mut out);
        out
    }
}
