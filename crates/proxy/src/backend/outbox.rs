//! The bytes of requests on one connection to a node: what waits to be sent, and what was sent and may be asked again.
//!
//! ```text
//!    full buffers, all of it sent        the last buffer
//!   ┌──────────┬─────────────────┐   ┌─────────────┬──────────┐
//!   │ answered │ kept            │ … │ kept        │ unsent   │◄── requests are appended
//!   └──────────┴─────────────────┘   └─────────────┴──────────┘
//!              ▲                                   ▲          ▲
//!              kept from                           written    end      offsets in all that was ever queued
//! ```
//!
//! What is sent stays where it is until it is answered. It is not copied for that: nearly no request is ever asked again.
//! If nobody may ask again, it is forgotten at once.

use std::collections::VecDeque;
use stdx::BufferPool;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Buffers of kept bytes, from the oldest on.
    full: VecDeque<Vec<u8>>,
    last: Vec<u8>,
    /// So many bytes of `last` are sent.
    sent: usize,
    /// So many bytes of the oldest buffer are forgotten.
    forgotten: usize,
    /// How many bytes are kept.
    kept: usize,
    /// How many bytes were ever sent.
    written: u64,
}

impl Outbox {
    /// The place to append to. Take care to append only; what is there already must stay as it is.
    #[inline]
    pub(super) fn tail(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.sent == self.last.len() {
            self.begin(pool);
        } else if self.forgotten > MOVE_BYTES_MIN {
            self.reclaim();
        }
        &mut self.last
    }

    /// Finds room where nothing waits to be sent: once a turn.
    #[inline(never)]
    fn begin(&mut self, pool: &mut BufferPool) {
        // A buffer that is half full is not grown: what is kept there would be copied.
        if self.sent > self.last.capacity() / 2 {
            self.full.push_back(std::mem::take(&mut self.last));
            self.sent = 0;
        }
        if self.last.capacity() == 0 {
            self.last = pool.take();
        }
    }

    /// Moves what is left of the only buffer to its front, if that is less than what is forgotten before it.
    #[cold]
    fn reclaim(&mut self) {
        if self.full.is_empty() && self.forgotten > self.last.len() / 2 {
            self.last.drain(..self.forgotten);
            self.sent -= self.forgotten;
            self.forgotten = 0;
        }
    }

    /// What waits to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.last[self.sent..]
    }

    pub(super) fn unsent_len(&self) -> usize {
        self.last.len() - self.sent
    }

    pub(super) fn kept_len(&self) -> usize {
        self.kept
    }

    /// Offset of the first byte that is kept, or else of what is sent next.
    pub(super) fn kept_from(&self) -> u64 {
        self.written - self.kept as u64
    }

    /// Offset of what is sent next.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Offset of what is appended next.
    pub(super) fn end(&self) -> u64 {
        self.written + self.unsent_len() as u64
    }

    /// The first `count` of the unsent bytes are sent. They are kept.
    pub(super) fn handle_sent(&mut self, count: usize) {
        self.sent += count;
        self.kept += count;
        self.written += count as u64;
    }

    /// Forgets what is kept before the offset `until`.
    pub(super) fn forget(&mut self, until: u64, pool: &mut BufferPool) {
        if until >= self.written {
            return self.forget_all(pool);
        }
        let mut count = until.saturating_sub(self.kept_from()) as usize;
        self.kept -= count;
        while let Some(oldest) = self.full.front()
            && self.forgotten + count >= oldest.len()
        {
            count -= oldest.len() - self.forgotten;
            self.forgotten = 0;
            if let Some(buffer) = self.full.pop_front() {
                pool.give(buffer);
            }
        }
        self.forgotten += count;
    }

    /// Forgets all that was sent. Without anything unsent, no buffer is held.
    fn forget_all(&mut self, pool: &mut BufferPool) {
        self.kept = 0;
        while let Some(buffer) = self.full.pop_front() {
            pool.give(buffer);
        }
        if self.sent == self.last.len() {
            self.sent = 0;
            pool.give(std::mem::take(&mut self.last));
        }
        self.forgotten = self.sent;
    }

    /// A copy of the bytes from offset `start` to `end`, which must be kept or unsent.
    pub(super) fn copy(&self, start: u64, end: u64) -> Vec<u8> {
        let len = (end - start) as usize;
        let mut before = self.forgotten + (start - self.kept_from()) as usize;
        let mut bytes = Vec::with_capacity(len);
        for buffer in self.full.iter().chain([&self.last]) {
            let rest = buffer.get(before..).unwrap_or_default();
            bytes.extend_from_slice(&rest[..rest.len().min(len - bytes.len())]);
            before = before.saturating_sub(buffer.len());
        }
        bytes
    }

    /// Drops everything and gives the buffers back. Offsets begin anew.
    pub(super) fn clear(&mut self, pool: &mut BufferPool) {
        self.last.truncate(self.sent);
        self.forget_all(pool);
        self.written = 0;
    }

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.full.iter().chain([&self.last]).map(Vec::capacity).sum()
    }
}

/// Less than this is not worth being moved: what is there is answered soon.
const MOVE_BYTES_MIN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    fn pool() -> BufferPool {
        BufferPool::new(4, 1 << 20)
    }

    /// Appends `count` bytes that say at which offset they are.
    fn push(outbox: &mut Outbox, count: usize, pool: &mut BufferPool) {
        let start = outbox.end();
        outbox.tail(pool).extend((start..start + count as u64).map(said_at));
    }

    fn said_at(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    #[test]
    fn what_nobody_asks_for_again_leaves_no_buffer() {
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
    fn what_is_kept_is_never_copied_while_more_is_sent() {
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
    fn consumed_space_is_reclaimed_while_bytes_keep_coming() {
        let (mut outbox, mut pool) = (Outbox::default(), pool());
        for _ in 0..1000 {
            push(&mut outbox, 1000, &mut pool);
            outbox.handle_sent(outbox.unsent_len() - 1);
            outbox.forget(outbox.written(), &mut pool);
        }
        assert_eq!(outbox.unsent().len(), 1);
        assert!(outbox.capacity() < 64 * 1024, "{}", outbox.capacity());
    }

    #[test]
    fn random_steps_lose_no_byte_and_hold_little_more_than_those() {
        for seed in 0..200 {
            let (mut outbox, mut pool, mut prng) = (Outbox::default(), pool(), Prng::new(seed));
            for step in 0..300 {
                match prng.below(4) {
                    0 | 1 => push(&mut outbox, prng.below(3000) as usize, &mut pool),
                    2 => outbox.handle_sent(prng.below(outbox.unsent_len() as u64 + 1) as usize),
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
                assert_eq!(outbox.copy(start, stop), bytes, "seed {seed}, step {step}");
                let unsent: Vec<u8> = (outbox.written()..end).map(said_at).collect();
                assert_eq!(outbox.unsent(), unsent, "seed {seed}, step {step}");
            }
            outbox.handle_sent(outbox.unsent_len());
            outbox.forget(outbox.end(), &mut pool);
            assert_eq!((outbox.capacity(), outbox.kept_len()), (0, 0), "seed {seed}");
        }
    }
}
