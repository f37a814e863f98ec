//! Whether waiting pays: tried out, since it cannot be told from what requests take.
//!
//! Where clients send their next request behind their last reply, and nodes are the limit, waiting lets more requests
//! through. Where they come at a rate of their own, requests stand in line at times as well, but no more of them come for
//! being waited for: then waiting only costs them time. So a worker that might wait does so in every other window for a
//! while, compares what came in both, and then does what was better until it tries again.

use std::time::Duration;
use stdx::Instant;

/// So many windows with waits and as many without are compared. Requests that come by themselves vary with the root of
/// their number: 1.2 % of what 16 windows of 5 ms bring at 90,000 a second.
const WINDOWS: u32 = 16;
/// Waiting pays if so many more requests came, in thousandths. Where nodes are the limit it is 150 to 300.
const GAIN_MIN: u128 = 60;
/// What a trial brought holds for so long.
const HOLD_MIN: Duration = Duration::from_secs(1);
/// The same for one that brought what was known: each of these doubles it, up to this.
const HOLD_MAX: Duration = Duration::from_secs(8);

/// What was found out, and what is being tried.
#[derive(Debug)]
pub(crate) struct Trial {
    stage: Stage,
    pays: bool,
    hold: Duration,
}

#[derive(Debug)]
enum Stage {
    /// Windows with and without waits take turns; one with waits is the first.
    Trying { waiting: Came, not_waiting: Came },
    /// The last trial's result counts.
    Settled { until: Instant },
}

/// Requests that came in some windows.
#[derive(Clone, Copy, Debug)]
struct Came {
    windows: u32,
    requests: u64,
    ns: u128,
}

impl Came {
    const ZERO: Came = Came { windows: 0, requests: 0, ns: 0 };

    fn add(&mut self, requests: u64, length: Duration) {
        self.windows += 1;
        self.requests += requests;
        self.ns += length.as_nanos();
    }
}

impl Stage {
    const NEW: Stage = Stage::Trying { waiting: Came::ZERO, not_waiting: Came::ZERO };
}

impl Trial {
    pub(crate) fn new() -> Trial {
        Trial { stage: Stage::NEW, pays: false, hold: HOLD_MIN }
    }

    /// Whether the next window is one with waits.
    pub(crate) fn waits(&self) -> bool {
        match self.stage {
            Stage::Trying { waiting, not_waiting } => waiting.windows == not_waiting.windows,
            Stage::Settled { .. } => self.pays,
        }
    }

    /// A window in which the worker might have waited ended at `now`: it was `length` long and brought so many requests.
    pub(crate) fn note_window(&mut self, requests: u64, length: Duration, now: Instant) {
        let waited = self.waits();
        match &mut self.stage {
            Stage::Trying { waiting, not_waiting } => {
                if waited { &mut *waiting } else { &mut *not_waiting }.add(requests, length);
                if not_waiting.windows >= WINDOWS {
                    let (waiting, not_waiting) = (*waiting, *not_waiting);
                    self.settle(waiting, not_waiting, now);
                }
            }
            Stage::Settled { until } if now >= *until => self.stage = Stage::NEW,
            Stage::Settled { .. } => {}
        }
    }

    fn settle(&mut self, waiting: Came, not_waiting: Came, now: Instant) {
        let with = u128::from(waiting.requests) * not_waiting.ns * 1000;
        let without = u128::from(not_waiting.requests) * waiting.ns * (1000 + GAIN_MIN);
        let pays = with >= without;
        self.hold = if pays == self.pays { (self.hold * 2).min(HOLD_MAX) } else { HOLD_MIN };
        self.pays = pays;
        self.stage = Stage::Settled { until: now + self.hold };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(5);

    /// Windows until the trial settles, of which those with waits bring `with` requests and others `without`.
    fn settle(trial: &mut Trial, now: &mut Instant, with: u64, without: u64) {
        for _ in 0..2 * WINDOWS {
            let came = if trial.waits() { with } else { without };
            *now += WINDOW;
            trial.note_window(came, WINDOW, *now);
        }
        assert!(matches!(trial.stage, Stage::Settled { .. }));
    }

    /// Windows until the next trial begins. Returns how many.
    fn hold(trial: &mut Trial, now: &mut Instant) -> u32 {
        let mut windows = 0;
        while matches!(trial.stage, Stage::Settled { .. }) {
            *now += WINDOW;
            trial.note_window(1, WINDOW, *now);
            windows += 1;
        }
        windows
    }

    #[test]
    fn waiting_is_kept_where_more_requests_come_for_it() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle(&mut trial, &mut now, 500, 400);
        assert!(trial.waits());
        hold(&mut trial, &mut now);
        settle(&mut trial, &mut now, 400, 400);
        assert!(!trial.waits(), "it does not pay any more");
    }

    #[test]
    fn requests_that_come_by_themselves_are_not_waited_for() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle(&mut trial, &mut now, 405, 400);
        assert!(!trial.waits());
    }

    #[test]
    fn rates_are_compared_and_not_numbers() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        for _ in 0..2 * WINDOWS {
            let length = if trial.waits() { 2 * WINDOW } else { WINDOW };
            now += length;
            let came = if trial.waits() { 790 } else { 400 };
            trial.note_window(came, length, now);
        }
        assert!(!trial.waits(), "longer windows bring more");
    }

    #[test]
    fn what_was_confirmed_is_tried_less_often() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle(&mut trial, &mut now, 500, 400);
        let windows = |hold: Duration| (hold.as_millis() / WINDOW.as_millis()) as u32;
        assert_eq!(hold(&mut trial, &mut now), windows(HOLD_MIN));
        settle(&mut trial, &mut now, 500, 400);
        assert_eq!(hold(&mut trial, &mut now), windows(2 * HOLD_MIN));
        for _ in 0..5 {
            settle(&mut trial, &mut now, 500, 400);
            hold(&mut trial, &mut now);
        }
        assert_eq!(trial.hold, HOLD_MAX);
        settle(&mut trial, &mut now, 400, 400);
        assert_eq!(trial.hold, HOLD_MIN, "things have changed");
    }
}
