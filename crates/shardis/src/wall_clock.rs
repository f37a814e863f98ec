//! Changes of the wall clock since the start. Deadlines follow the monotonic clock. This clock is for replies that name the
//! time of day, and for waits of a store, which uses the time of day.
//!
//! The core gets instants of the monotonic clock, and decides by these alone. The time of day is the process's start, plus such
//! an instant, plus the steps of the wall clock since. The control thread checks for a step once a second.
//!
//! A store uses the time of day, by which keys expire; its waits are shifted with each step.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Both clocks, and their difference at the last look.
#[derive(Debug)]
pub(crate) struct WallClock {
    origin: Instant,
    /// Microseconds from 1970 to `origin`, as the clock was set then.
    epoch_us: i64,
    /// By how much it was set since.
    step_us: i64,
}

/// One look at both clocks.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Monotonic times since `origin`, before the wall clock was read and after.
    before: Duration,
    after: Duration,
    unix_us: i64,
}

/// Smaller differences are no step: two clocks cannot be read at once.
const STEP_US_MIN: u64 = 10_000;
/// A look that took longer shows nothing: the thread was not running in between.
const LOOK_MAX: Duration = Duration::from_millis(1);
const LOOKS_MAX: usize = 3;

impl WallClock {
    /// The clock of a process that began at `origin`, which was `epoch_us` microseconds after 1970.
    pub(crate) fn new(origin: Instant, epoch_us: u64) -> WallClock {
        WallClock { origin, epoch_us: epoch_us as i64, step_us: 0 }
    }

    /// A clock that starts now.
    pub(crate) fn start() -> WallClock {
        WallClock::new(Instant::now(), unix_us())
    }

    /// Microseconds by which the clock was set since the beginning.
    pub(crate) fn step_us(&self) -> i64 {
        self.step_us
    }

    /// Milliseconds since 1970, and the step of the clock since the last call.
    pub(crate) fn read_ms(&mut self) -> (u64, i64) {
        for _ in 0..LOOKS_MAX {
            let look = self.look();
            if let Some(step_us) = self.note(look) {
                return ((look.unix_us / 1000) as u64, step_us / 1000);
            }
        }
        (unix_ms(), 0)
    }

    fn look(&self) -> Look {
        let before = self.origin.elapsed();
        let unix_us = unix_us() as i64;
        Look { before, after: self.origin.elapsed(), unix_us }
    }

    /// The step of the clock since the last look; `None` if `look` does not show it.
    fn note(&mut self, look: Look) -> Option<i64> {
        if look.after - look.before > LOOK_MAX {
            return None;
        }
        let step_us = look.unix_us - self.epoch_us - look.before.as_micros() as i64;
        let more_us = step_us - self.step_us;
        if more_us.unsigned_abs() < STEP_US_MIN {
            return Some(0);
        }
        self.step_us = step_us;
        Some(more_us)
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    unix_us() / 1000
}

/// Microseconds since 1970; 0 before that.
pub(crate) fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_US: i64 = 1_700_000_000_000_000;
    const HOUR_US: i64 = 3_600_000_000;

    /// A clock that `set_us` was added to, `at_us` after the beginning.
    fn look(at_us: u64, set_us: i64) -> Look {
        let before = Duration::from_micros(at_us);
        Look { before, after: before, unix_us: EPOCH_US + at_us as i64 + set_us }
    }

    #[test]
    fn each_step_of_the_wall_clock_is_reported_once() {
        let mut clock = WallClock::new(Instant::now(), EPOCH_US as u64);
        assert_eq!(clock.note(look(5_000_000, 0)), Some(0));
        assert_eq!(clock.note(look(6_000_000, HOUR_US)), Some(HOUR_US));
        assert_eq!((clock.note(look(7_000_000, HOUR_US)), clock.step_us()), (Some(0), HOUR_US));
        assert_eq!((clock.note(look(8_000_000, -HOUR_US)), clock.step_us()), (Some(-2 * HOUR_US), -HOUR_US));
    }

    #[test]
    fn a_look_that_took_long_shows_no_step() {
        let mut clock = WallClock::new(Instant::now(), EPOCH_US as u64);
        let away = Look { after: Duration::from_secs(9), ..look(1_000_000, 8_000_000) };
        assert_eq!((clock.note(away), clock.step_us()), (None, 0), "the process was stopped");
        assert_eq!(
            clock.note(look(2_000_000, STEP_US_MIN as i64 - 1)),
            Some(0),
            "as one read after the other"
        );
    }
}
