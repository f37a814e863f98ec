//! The bytes of requests on one connection to a node: unsent bytes, and sent bytes of requests that may be sent again.
//!
//! ```text
//!    sent as a whole         being sent             waiting        the last buffer
//!   ┌──────────┬──────┐   ┌────────┬────────┐   ┌───────────┐   ┌──────────┐
//!   │ answered │ kept │ … │ kept   │ unsent │ … │ unsent    │   │ unsent   │◄── requests are appended
//!   └──────────┴──────┘   └────────┴────────┘   └───────────┘   └──────────┘
//!              ▲                   ▲                                       ▲
//!              kept from           written                                 end      offsets in all bytes ever queued
//! ```
//!
//! Sent bytes stay in place until their request is answered. They are not copied, since nearly no request is ever sent
//! again. If no request may be sent again, sent bytes are dropped at once.
//!
//! Buffers do not grow beyond the size of the pool's pieces, unless one request is larger. So a burst is not copied
//! again and again while it grows, and leaves no large buffers behind.

use std::collections::VecDeque;
use stdx::{BufferPool, make_room};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Buffers before the last, from the oldest on.
    full: VecDeque<Vec<u8>>,
    /// Number of buffers in `full` that are sent as a whole.
    full_sent: usize,
    /// Sent bytes of the next buffer in `full`.
    full_part: usize,
    /// Unsent bytes of `full`.
    full_unsent: usize,
    last: Vec<u8>,
    /// Sent bytes of `last`.
    sent: usize,
    /// Bytes of the oldest buffer that were dropped.
    forgotten: usize,
    /// Kept bytes.
    kept: usize,
    /// Bytes that were ever sent.
    written: u64,
}

impl Outbox {
    /// The buffer for `len` more bytes, with room for them. The caller may only append: the bytes in the buffer must
    /// not change.
    #[inline]
    pub(super) fn tail(&mut self, len: usize, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.sent == self.last.len() || self.last.capacity() - self.last.len() < len {
            self.begin(len, pool);
        }
        &mut self.last
    }

    /// Makes room if nothing waits to be sent (once a turn), or if the last buffer is full.
    #[inline(never)]
    fn begin(&mut self, len: usize, pool: &mut BufferPool) {
        let (used, is_sent) = (self.last.len(), self.sent == self.last.len());
        // A buffer that is half full of kept bytes does not grow, since growing would copy them.
        let is_left = used + len > pool.piece_bytes_max() || is_sent && used > self.last.capacity() / 2;
        if used > 0 && is_left {
            if self.full_unsent == 0 {
                self.full_part = self.sent;
            }
            self.full_unsent += used - self.sent;
            self.full.push_back(std::mem::take(&mut self.last));
            self.sent = 0;
            self.pass_sent();
        }
        if self.last.capacity() == 0 {
            self.last = pool.take();
        }
        make_room(&mut self.last, len);
    }

    /// Counts a buffer that is sent as a whole.
    fn pass_sent(&mut self) {
        if self.full.get(self.full_sent).is_some_and(|buffer| buffer.len() == self.full_part) {
            self.full_sent += 1;
            self.full_part = 0;
        }
    }

    /// Bytes to send next. If they are fewer than [`Outbox::unsent_len`], more follow.
    #[inline]
    pub(super) fn unsent(&self) -> &[u8] {
        if self.full_unsent == 0 {
            return &self.last[self.sent..];
        }
        &self.full[self.full_sent][self.full_part..]
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(super) fn unsent_len(&self) -> usize {
        self.full_unsent + self.last.len() - self.sent
    }

    /// Bytes that count as unsent or kept, and the bytes that the buffers hold for them.
    pub(super) fn account(&self) -> (usize, usize) {
        let held: usize = self.full.iter().chain([&self.last]).map(Vec::len).sum();
        (self.unsent_len() + self.kept, held - self.forgotten)
    }

    pub(super) fn kept_len(&self) -> usize {
        self.kept
    }

    /// Offset of the first kept byte, or else of the first unsent one.
    pub(super) fn kept_from(&self) -> u64 {
        self.written - self.kept as u64
    }

    /// Offset of the first unsent byte.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Offset of the next byte to be appended.
    pub(super) fn end(&self) -> u64 {
        self.written + self.unsent_len() as u64
    }

    /// Notes that the first `count` bytes of [`Outbox::unsent`] are sent. They are kept.
    pub(super) fn handle_sent(&mut self, count: usize) {
        self.kept += count;
        self.written += count as u64;
        if self.full_unsent == 0 {
            self.sent += count;
            return;
        }
        self.full_unsent -= count;
        self.full_part += count;
        self.pass_sent();
    }

    /// Drops kept bytes before the offset `until`.
    pub(super) fn forget(&mut self, until: u64, pool: &mut BufferPool) {
        let mut count = (until.min(self.written)).saturating_sub(self.kept_from()) as usize;
        self.kept -= count;
        while self.full_sent > 0
            && let Some(oldest) = self.full.front()
            && self.forgotten + count >= oldest.len()
        {
            count -= oldest.len() - self.forgotten;
            self.forgotten = 0;
            self.full_sent -= 1;
            if let Some(buffer) = self.full.pop_front() {
                pool.give(buffer);
            }
        }
        self.forgotten += count;
        // Without bytes to send or to keep, no buffer is held.
        if self.full.is_empty() && self.forgotten == self.last.len() {
            (self.sent, self.forgotten) = (0, 0);
            pool.give(std::mem::take(&mut self.last));
        }
    }

    /// Copies the bytes from offset `start` to `end`, all of which must be kept or unsent, to `bytes`, which is empty.
    pub(super) fn copy(&self, start: u64, end: u64, bytes: &mut Vec<u8>) {
        let len = (end - start) as usize;
        bytes.reserve(len);
        let mut before = self.forgotten + (start - self.kept_from()) as usize;
        for buffer in self.full.iter().chain([&self.last]) {
            let rest = buffer.get(before..).unwrap_or_default();
            bytes.extend_from_slice(&rest[..rest.len().min(len - bytes.len())]);
            before = before.saturating_sub(buffer.len());
        }
    }

    /// Drops all bytes and gives the buffers back. Offsets begin anew.
    pub(super) fn clear(&mut self, pool: &mut BufferPool) {
        let gone = std::mem::take(self);
        for buffer in gone.full.into_iter().chain([gone.last]) {
            pool.give(buffer);
        }
    }

    /// Memory in use by the buffers.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.full.iter().chain([&self.last]).map(Vec::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    const PIECE_BYTES: usize = 64 << 10;

    fn pool() -> BufferPool {
        BufferPool::new(4, PIECE_BYTES)
    }

    /// Appends `count` bytes whose values encode their offsets.
    fn push(outbox: &mut Outbox, count: usize, pool: &mut BufferPool) {
        let start = outbox.end();
        let bytes: Vec<u8> = (start..start + count as u64).map(said_at).collect();
        outbox.tail(count, pool).extend_from_slice(&bytes);
    }

    fn said_at(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    #[test]
    fn bytes_that_are_not_kept_leave_no_buffer() {
        let (mut outbox, mut pool) = (Outbox::default(), pool());
        push(&mut outbox, 10, &mut pool);
        outbox.handle_sent(4);
        outbox.forget(4, &mut pool);
        assert_eq!((outbox.unsent(), outbox.kept_len()), (&[4, 5, 6, 7, 8, 9][..], 0));
        outbox.handle_sent(6);
        outbox.forget(10, &mut pool);
        assert_eq!((outbox.capacity(), outbox.written(), outbox.end()), (0, 10, 10));
    }

    #[test]
    fn kept_bytes_are_never_copied_while_more_is_sent() {
        let (mut outbox, mut pool) = (Outbox::default(), pool());
        let mut places = Vec::new();
        for _ in 0..8 {
            push(&mut outbox, 1000, &mut pool);
            outbox.handle_sent(1000);
            places.push(outbox.full.back().map(|buffer| buffer.as_ptr()));
        }
        for (at, buffer) in outbox.full.iter().enumerate() {
            assert!(places.contains(&Some(buffer.as_ptr())), "buffer {at} is where it was");
        }
        assert_eq!(outbox.kept_len(), 8000);
        assert!(outbox.capacity() <= 2 * 8000 + 1000, "{}", outbox.capacity());
    }

    #[test]
    fn sent_bytes_leave_while_bytes_keep_coming() {
        let (mut outbox, mut pool) = (Outbox::default(), pool());
        for _ in 0..1000 {
            push(&mut outbox, 1000, &mut pool);
            while outbox.unsent_len() > 1 {
                outbox.handle_sent(outbox.unsent().len().min(outbox.unsent_len() - 1));
            }
            outbox.forget(outbox.written(), &mut pool);
        }
        assert_eq!(outbox.unsent().len(), 1);
        assert!(outbox.capacity() <= 2 * PIECE_BYTES, "{}", outbox.capacity());
    }

    /// A buffer that doubled for a burst would leave as much memory behind, for which the allocator has no use.
    #[test]
    fn a_burst_is_queued_in_buffers_that_the_pool_keeps() {
        let (mut outbox, mut pool) = (Outbox::default(), BufferPool::new(1000, PIECE_BYTES));
        for _ in 0..2000 {
            push(&mut outbox, 5000, &mut pool);
        }
        let held = outbox.capacity();
        assert!(held <= 10_000_000 * 10 / 9, "{held}");
        while !outbox.unsent().is_empty() {
            outbox.handle_sent(outbox.unsent().len());
        }
        assert_eq!((outbox.kept_len(), outbox.unsent_len()), (10_000_000, 0));
        outbox.forget(outbox.end(), &mut pool);
        let kept: usize =
            std::iter::repeat_with(|| pool.take().capacity()).take_while(|&bytes| bytes > 0).sum();
        assert_eq!((outbox.capacity(), kept), (0, held));
    }

    #[test]
    fn random_steps_lose_no_byte_and_hold_little_more() {
        for seed in 0..40 {
            let (mut outbox, mut pool, mut prng) = (Outbox::default(), pool(), Prng::new(seed));
            for step in 0..300 {
                match prng.below(4) {
                    0 | 1 => {
                        let bits = prng.below(18);
                        push(&mut outbox, prng.below(1 << bits) as usize, &mut pool);
                    }
                    2 => outbox.handle_sent(prng.below(outbox.unsent().len() as u64 + 1) as usize),
                    _ => {
                        let until = outbox.kept_from() + prng.below(outbox.kept_len() as u64 + 1);
                        outbox.forget(until, &mut pool);
                        assert_eq!(outbox.kept_from(), until, "seed {seed}, step {step}");
                    }
                }
                let (from, end) = (outbox.kept_from(), outbox.end());
                let start = from + prng.below(end - from + 1);
                let stop = start + prng.below(end - start + 1);
                let bytes: Vec<u8> = (start..stop).map(said_at).collect();
                let mut copied = Vec::new();
                outbox.copy(start, stop, &mut copied);
                assert_eq!(copied, bytes, "seed {seed}, step {step}");
                let unsent: Vec<u8> = (outbox.written()..end).map(said_at).collect();
                assert!(unsent.starts_with(outbox.unsent()), "seed {seed}, step {step}");
                let len = outbox.unsent_len();
                assert_eq!(
                    (len, outbox.unsent().is_empty()),
                    (unsent.len(), len == 0),
                    "seed {seed}, step {step}"
                );
            }
            while !outbox.unsent().is_empty() {
                outbox.handle_sent(outbox.unsent().len());
            }
            outbox.forget(outbox.end(), &mut pool);
            assert_eq!((outbox.capacity(), outbox.kept_len()), (0, 0), "seed {seed}");
        }
    }
}
