//! Slow start of a replica that was lost and is back: it gets its share of reads step by step. A node that has
//! restarted is slow at first. A node that will fail again fails for few clients.
//!
//! Slow start needs no timer: each read computes the share.

use std::time::Duration;
use stdx::{Instant, Prng};
use topology::NodeId;

/// The state of a reader's slow start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Comeback {
    /// The reader was never fit. It will get its whole share at once.
    #[default]
    New,
    /// The reader has its whole share.
    Whole,
    /// The reader was fit and is not known to be fit now.
    Lost,
    /// The reader has been fit again since then.
    Since(Instant),
}

impl Comeback {
    /// Notes that the last report of the reader is in doubt.
    pub(super) fn lose(&mut self) {
        if *self != Comeback::New {
            *self = Comeback::Lost;
        }
    }

    /// Notes that the reader is fit, by its report. Returns whether a slow start begins.
    pub(super) fn note_fit(&mut self, now: Instant) -> bool {
        let was_lost = *self == Comeback::Lost;
        *self = match *self {
            Comeback::New => Comeback::Whole,
            Comeback::Lost => Comeback::Since(now),
            Comeback::Whole | Comeback::Since(_) => *self,
        };
        was_lost
    }

    /// The share of the reader at `now`, in thousandths of the share that it has after `slow_start`.
    pub(super) fn share(self, slow_start: Duration, now: Instant) -> u64 {
        let Comeback::Since(since) = self else { return WHOLE };
        let permille = now.since(since).as_nanos() * u128::from(WHOLE);
        permille.checked_div(slow_start.as_nanos()).map_or(WHOLE, |share| share.min(u128::from(WHOLE)) as u64)
    }

    /// Whether reads of `client` may go to `node`, which is the reader, at `now`. Once admitted, a client stays
    /// admitted.
    pub(super) fn admits(self, node: NodeId, client: u64, slow_start: Duration, now: Instant) -> bool {
        let share = self.share(slow_start, now);
        // The order of clients differs by node, so that the first ones are not always the same.
        share == WHOLE || Prng::new(client << 20 ^ u64::from(node.0)).below(WHOLE) < share
    }
}

/// The whole share, in thousandths.
pub(super) const WHOLE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW_START: Duration = Duration::from_secs(10);
    const NODE: NodeId = NodeId(2);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn only_a_fit_reader_that_was_lost_starts_slowly() {
        let mut comeback = Comeback::default();
        comeback.lose();
        comeback.note_fit(at(0));
        assert_eq!(comeback.share(SLOW_START, at(0)), WHOLE, "it was never lost");
        comeback.lose();
        comeback.lose();
        comeback.note_fit(at(1000));
        comeback.note_fit(at(5000));
        let shares = [1000, 2000, 6000, 10_999, 11_000, 50_000].map(|ms| comeback.share(SLOW_START, at(ms)));
        assert_eq!(shares, [0, 100, 500, 999, 1000, 1000]);
        assert_eq!(comeback.share(Duration::ZERO, at(1000)), WHOLE);
        comeback.lose();
        comeback.note_fit(at(60_000));
        assert_eq!(comeback.share(SLOW_START, at(61_000)), 100, "from the beginning");
    }

    #[test]
    fn clients_join_one_after_the_other_and_none_leaves() {
        let comeback = Comeback::Since(at(0));
        let joined = |ms: u64| -> Vec<u64> {
            (0..1000).filter(|client| comeback.admits(NODE, client * 4 + 1, SLOW_START, at(ms))).collect()
        };
        let mut before = joined(0);
        assert_eq!(before, []);
        for second in 1..=10 {
            let now = joined(second * 1000);
            assert!(before.iter().all(|client| now.contains(client)));
            assert!(now.len().abs_diff(second as usize * 100) < 40, "{} after {second} s", now.len());
            before = now;
        }
        assert_eq!(before.len(), 1000);
    }
}
