//! Makes the allocator return memory to the system after a burst. Never decides about single allocations.
//!
//! mimalloc returns memory that was free for a while, but only during its other work. A worker that is idle after a burst gives
//! it none. 64 MiB stayed resident after 16 clients had sent a `DEL` of a million keys each.
//!
//! After every 10,000 allocations that are not small, mimalloc walks through the memory of the thread and returns free pages.
//! To ask it directly needs `unsafe`; the allocations take half a millisecond.

use std::hint::black_box;
use std::time::Duration;
use stdx::Instant;

/// Decides when a worker's allocator returns free memory.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// The most that the worker held since `looked_at`.
    held_bytes_most: usize,
    looked_at: Instant,
    /// Rounds left after a burst. The first one does not return memory that was freed a moment ago.
    rounds_left: u32,
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// If less was freed since the last look, the next burst may as well find it.
const FREED_BYTES_MIN: usize = 4 << 20;
/// The first round frees the memory that holds the free parts together, the second returns it.
const ROUNDS: u32 = 2;
/// mimalloc's `generic_collect`.
const ALLOCATIONS: usize = 10_000;
/// More than the 1,024 bytes of a small allocation.
const ALLOCATION_BYTES: usize = 2048;

impl Allocator {
    pub(crate) fn new(now: Instant) -> Allocator {
        Allocator { held_bytes_most: 0, looked_at: now, rounds_left: 0 }
    }

    /// Records the end of a turn; the worker holds `held_bytes` then.
    pub(crate) fn note_turn(&mut self, held_bytes: usize, now: Instant) {
        if self.is_due(held_bytes, now) {
            (0..ALLOCATIONS).for_each(|_| drop(black_box(Vec::<u8>::with_capacity(ALLOCATION_BYTES))));
        }
    }

    fn is_due(&mut self, held_bytes: usize, now: Instant) -> bool {
        self.held_bytes_most = self.held_bytes_most.max(held_bytes);
        if now.since(self.looked_at) < LOOK_EVERY {
            return false;
        }
        let freed_bytes = self.held_bytes_most - held_bytes;
        (self.held_bytes_most, self.looked_at) = (held_bytes, now);
        let is_due = self.rounds_left > 0;
        self.rounds_left =
            if freed_bytes >= FREED_BYTES_MIN { ROUNDS } else { self.rounds_left.saturating_sub(1) };
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_returned_within_seconds() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut allocator = Allocator::new(at(0));
        let mut due = |held, ms| allocator.is_due(held, at(ms));
        assert!(!due(9 << 20, 10) && !due(0, 20), "it is not looked at yet");
        assert!(!due(0, 1000), "what was just freed is not given back yet");
        assert_eq!([1999, 2000, 3000, 4000].map(|ms| due(0, ms)), [false, true, true, false]);
        assert!(!due(FREED_BYTES_MIN - 1, 4001) && !due(0, 5000) && !due(0, 6000), "little is not worth it");
    }
}
