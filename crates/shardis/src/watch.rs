//! Watch for stuck workers. The control thread looks at each now and then. If one has been busy with the same turn for long,
//! the log gets a line. Its clients wait meanwhile, and no other line would say why. The watch changes nothing.
//!
//! The watch counts looks and not time: when the whole process was stopped, no worker is to blame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A worker's sign of life: odd while it is busy with a turn, and even while it waits for events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Marks the begin or the end of a turn. Only the worker calls it.
    pub(crate) fn beat(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The workers and the time of the next look.
#[derive(Debug)]
pub(crate) struct Watch {
    look_at: Instant,
    workers: Vec<Watched>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    beats: u64,
    /// Looks in a row that found the same turn.
    looks: u32,
}

/// A finding about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The worker has been in the same turn for this time at least.
    Stuck(usize, Duration),
    /// The worker has resumed; the turn took about this time.
    GoesOn(usize, Duration),
}

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A turn takes some milliseconds at most. A second is worth a log line, and a busy machine alone does not cause it.
const LOOKS_MAX: u32 = 10;

impl Watch {
    pub(crate) fn new(now: Instant) -> Watch {
        Watch { look_at: now, workers: Vec::new() }
    }

    /// Looks at all workers, unless the last look was a moment ago. `beats` are theirs, in the order of their numbers.
    pub(crate) fn look(&mut self, beats: impl ExactSizeIterator<Item = u64>, now: Instant) -> Vec<Finding> {
        if now < self.look_at {
            return Vec::new();
        }
        self.look_at = now + LOOK_EVERY;
        self.workers.resize(beats.len(), Watched::default());
        let each = self.workers.iter_mut().zip(beats).enumerate();
        each.filter_map(|(number, (worker, beats))| worker.find(number, beats)).collect()
    }
}

impl Watched {
    fn find(&mut self, number: usize, beats: u64) -> Option<Finding> {
        let was = std::mem::replace(&mut self.beats, beats);
        if beats % 2 == 1 && was == beats {
            self.looks = self.looks.saturating_add(1);
            return (self.looks == LOOKS_MAX).then_some(Finding::Stuck(number, LOOK_EVERY * LOOKS_MAX));
        }
        let looks = std::mem::take(&mut self.looks);
        (looks >= LOOKS_MAX).then_some(Finding::GoesOn(number, LOOK_EVERY * looks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of `looks` at workers with these beats.
    fn found(watch: &mut Watch, now: &mut Instant, looks: usize, beats: [u64; 2]) -> Vec<Finding> {
        let mut all = Vec::new();
        for _ in 0..looks {
            all.extend(watch.look(beats.into_iter(), *now));
            *now += LOOK_EVERY;
        }
        all
    }

    #[test]
    fn stalled_worker_is_reported_once_and_again_when_it_resumes() {
        let mut now = Instant::now();
        let mut watch = Watch::new(now);
        assert_eq!(found(&mut watch, &mut now, 10, [1, 2]), []);
        let second = Duration::from_secs(1);
        assert_eq!(found(&mut watch, &mut now, 25, [1, 2]), [Finding::Stuck(0, second)]);
        assert_eq!(found(&mut watch, &mut now, 2, [2, 2]), [Finding::GoesOn(0, second * 34 / 10)]);
    }

    #[test]
    fn a_waiting_or_turning_worker_is_not_stuck() {
        let mut now = Instant::now();
        let mut watch = Watch::new(now);
        for turn in 0..40 {
            assert_eq!(found(&mut watch, &mut now, 1, [2 * turn + 1, 2]), []);
        }
    }

    #[test]
    fn a_stopped_process_reports_no_stuck_worker() {
        let mut now = Instant::now();
        let mut watch = Watch::new(now);
        assert_eq!(found(&mut watch, &mut now, 3, [1, 1]), []);
        now += Duration::from_secs(3600);
        assert_eq!(found(&mut watch, &mut now, 3, [1, 1]), []);
        assert_eq!(found(&mut watch, &mut now, 3, [3, 2]), []);
        // Nor are many looks at the same time more than one.
        let looks = (0..100).flat_map(|_| watch.look([3, 2].into_iter(), now)).count();
        assert_eq!(looks, 0);
    }

    #[test]
    fn a_turn_that_begins_and_ends_leaves_a_worker_at_rest() {
        let pulse = Pulse::default();
        let seen = pulse.clone();
        pulse.beat();
        assert_eq!(seen.beats(), 1);
        pulse.beat();
        assert_eq!(seen.beats(), 2);
    }
}
