//! Refused clients: the log reports their number, once per interval.

use std::time::{Duration, Instant};

/// Shortest time between two log lines.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// The number of refusals, and the time of the last log line about them.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    total: u64,
    told: u64,
    told_at: Option<Instant>,
}

impl Refused {
    /// One more.
    pub(crate) fn note(&mut self) {
        self.total += 1;
    }

    /// Notes the `total` so far.
    pub(crate) fn note_total(&mut self, total: u64) {
        self.total = self.total.max(total);
    }

    /// Number of refusals to report now, if any.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<u64> {
        let untold = self.total - self.told;
        if untold == 0 || self.told_at.is_some_and(|at| now.duration_since(at) < LOGGED_EVERY) {
            return None;
        }
        (self.told, self.told_at) = (self.total, Some(now));
        Some(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_are_logged_in_one_line() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        assert_eq!(refused.poll(now), None);
        refused.note();
        assert_eq!(refused.poll(now), Some(1), "the first at once");
        refused.note();
        refused.note_total(5);
        assert_eq!(refused.poll(now + LOGGED_EVERY / 2), None);
        assert_eq!(refused.poll(now + LOGGED_EVERY), Some(4));
        refused.note_total(5);
        assert_eq!(refused.poll(now + LOGGED_EVERY * 3), None);
    }
}
