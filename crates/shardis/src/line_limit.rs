//! Limit of log lines about single clients. Any peer that can connect causes such lines, and could fill a disk with them.

use crate::refused::Refused;
use std::time::{Duration, Instant};

/// Lines of one burst: more than usual faults cause.
const LINES_AT_ONCE: u32 = 4096;
/// Interval of further lines: some hundred megabytes in a day.
const LINE_EVERY: Duration = Duration::from_millis(50);

/// The rest of the allowance, and the count of dropped lines.
#[derive(Debug, Default)]
pub(crate) struct LineLimit {
    /// The allowance is whole again then.
    whole_at: Option<Instant>,
    left_out: Refused,
}

impl LineLimit {
    /// Whether the log may have one line more at `now`.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        let whole_at = self.whole_at.map_or(now, |at| at.max(now)) + LINE_EVERY;
        let fits = whole_at.duration_since(now) <= LINE_EVERY * LINES_AT_ONCE;
        if fits {
            self.whole_at = Some(whole_at);
        } else {
            self.left_out.note();
        }
        fits
    }

    /// Number of left-out lines that the log has no line about, if such a line is due.
    pub(crate) fn poll_left_out(&mut self, now: Instant) -> Option<u64> {
        self.left_out.poll(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_limit_admits_a_burst_then_a_rate_and_counts_the_rest() {
        let (mut limit, began) = (LineLimit::default(), Instant::now());
        let admitted = |limit: &mut LineLimit, now| (0..10_000).filter(|_| limit.admits(now)).count();
        assert_eq!(admitted(&mut limit, began), 4096);
        assert_eq!(limit.poll_left_out(began), Some(10_000 - 4096));
        assert_eq!(limit.poll_left_out(began + Duration::from_secs(9)), None);
        assert_eq!(admitted(&mut limit, began + Duration::from_secs(10)), 200);
        assert_eq!(admitted(&mut limit, began + Duration::from_secs(10_000)), 4096, "all is as at first");
    }
}
