//! Byte pipes: bytes come out later, in order, cut anywhere.

use std::collections::VecDeque;
use stdx::Prng;

/// One direction of a connection, with the kernel's buffers.
#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    /// More than this does not fit.
    capacity: usize,
    /// A delivery is planned.
    pub planned: bool,
    /// No more bytes will be put in. The end is reported once the pipe is empty.
    pub ended: bool,
    /// The end was reported.
    pub end_told: bool,
}

impl Pipe {
    pub(crate) fn new(capacity: usize) -> Pipe {
        Pipe { bytes: VecDeque::new(), capacity, planned: false, ended: false, end_told: false }
    }

    /// Takes as many of `bytes` as fit.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.capacity.saturating_sub(self.bytes.len()));
        self.bytes.extend(&bytes[..taken]);
        taken
    }

    /// Takes all of `bytes`, as for a program that waits until its socket has taken them.
    pub(crate) fn put_all(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Takes the next bytes: all that are under way, or a part of at most `bytes_max`.
    pub(crate) fn take(&mut self, prng: &mut Prng, bytes_max: usize) -> Vec<u8> {
        let len = self.bytes.len();
        let piece = match prng.below(8) {
            0 => 1 + prng.below(3) as usize,
            1 | 2 => 1 + prng.below(len as u64) as usize,
            _ => len,
        };
        self.bytes.drain(..piece.min(len).min(bytes_max)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Drops bytes that are under way.
    pub(crate) fn cut(&mut self, keep: usize) {
        self.bytes.truncate(keep);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}
