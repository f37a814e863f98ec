//! Whether waiting pays: tried out, since it cannot be told from what requests take.
//!
//! Where clients send their next request behind their last reply, and nodes are the limit, waiting lets more requests
//! through. Where they come at a rate of their own, requests stand in line at times as well, but no more of them come for
//! being waited for: then waiting only costs them time. So a worker that might wait does so for a step of some windows and
//! then not for another, compares what came in both, and then does what was better until it tries again: after a while, or
//! once the load is another.
//!
//! ```text
//!   step    wait   not   not   wait   wait   not   not   wait …
//!   window  -+++   -+++  -+++  -+++   …                          - not counted: the step before brought about what comes
//! ```

use std::time::Duration;
use stdx::Instant;

/// So many windows are a step. With steps of one window, 500 requests of 16 KiB that came in one and were answered in the
/// next (50 clients at -P 10) made waiting look 17 % worse than it was.
const STEP: u32 = 4;
/// So many steps are compared, half of them with waits. Requests that come by themselves vary with the root of their
/// number: 1 % of what 24 windows of 5 ms bring at 90,000 a second.
const STEPS: u32 = 16;
/// After so many the result is clear if it is beyond [`CLEAR_GAIN`].
const STEPS_MIN: u32 = 4;
/// After so many, if it is beyond [`CLEAR_LOSS`]. (5,000 clients come in waves of 100 ms: one trial in twenty found after
/// four steps that waits cost a tenth, which bring two fifths.)
const STEPS_MIN_LOSS: u32 = 8;
/// Waiting pays if so many more requests came, in thousandths. Where nodes are the limit it is 150 to 300.
const GAIN_MIN: i64 = 60;
/// So many more make it plain.
const CLEAR_GAIN: i64 = 150;
/// So many fewer make it plain that it does not.
const CLEAR_LOSS: i64 = -100;
/// What a trial brought holds for so long.
const HOLD_MIN: Duration = Duration::from_secs(2);
/// The same for one that brought what was known: each of these doubles it, up to this.
const HOLD_MAX: Duration = Duration::from_secs(8);
/// The load is another if so many windows bring twice or half as many requests as the trial's did.
const WINDOWS_OTHER: u32 = 16;

/// What was found out, and what is being tried.
#[derive(Debug)]
pub(crate) struct Trial {
    stage: Stage,
    pays: bool,
    hold: Duration,
}

#[derive(Debug)]
enum Stage {
    /// Steps with and without waits take turns. `windows` have passed.
    Trying { windows: u32, waiting: Came, not_waiting: Came },
    /// The last trial's result counts, as long as what comes is like what `came` in it.
    Settled { until: Instant, came: Came, lately: Came },
}

/// Requests that came in some windows.
#[derive(Clone, Copy, Debug)]
struct Came {
    windows: u32,
    requests: u64,
    ns: u64,
}

impl Came {
    const ZERO: Came = Came { windows: 0, requests: 0, ns: 0 };

    fn add(&mut self, requests: u64, length: Duration) {
        self.windows += 1;
        self.requests += requests;
        self.ns += length.as_nanos() as u64;
    }

    /// By how much more came in the same time than in `other`, in thousandths.
    fn gain_over(&self, other: &Came) -> i64 {
        let ours = u128::from(self.requests) * u128::from(other.ns) * 1000;
        let theirs = u128::from(other.requests) * u128::from(self.ns);
        ours.checked_div(theirs).map_or(0, |thousandths| thousandths as i64 - 1000)
    }

    fn is_like(&self, other: &Came) -> bool {
        self.gain_over(other) < 1000 && other.gain_over(self) < 1000
    }
}

impl Stage {
    const NEW: Stage = Stage::Trying { windows: 0, waiting: Came::ZERO, not_waiting: Came::ZERO };
}

/// Whether the step to which this window of a trial belongs is one with waits. Of four the first and the last are: a load
/// that grows or falls speaks for neither kind.
fn is_step_with_waits(window: u32) -> bool {
    matches!(window / STEP % 4, 0 | 3)
}

impl Trial {
    pub(crate) fn new() -> Trial {
        Trial { stage: Stage::NEW, pays: false, hold: HOLD_MIN }
    }

    /// Whether the next window is one with waits.
    pub(crate) fn waits(&self) -> bool {
        match self.stage {
            Stage::Trying { windows, .. } => is_step_with_waits(windows),
            Stage::Settled { .. } => self.pays,
        }
    }

    /// A window in which the worker might have waited ended at `now`: it was `length` long and brought so many requests.
    pub(crate) fn note_window(&mut self, requests: u64, length: Duration, now: Instant) {
        match &mut self.stage {
            Stage::Trying { windows, waiting, not_waiting } => {
                let came = if is_step_with_waits(*windows) { &mut *waiting } else { &mut *not_waiting };
                if !windows.is_multiple_of(STEP) {
                    came.add(requests, length);
                }
                *windows += 1;
                let (windows, waiting, not_waiting) = (*windows, *waiting, *not_waiting);
                if windows.is_multiple_of(STEP * STEPS_MIN) {
                    let gain = waiting.gain_over(&not_waiting);
                    let is_loss = gain < CLEAR_LOSS && windows >= STEP * STEPS_MIN_LOSS;
                    if windows >= STEP * STEPS || gain >= CLEAR_GAIN || is_loss {
                        self.settle(gain, waiting, not_waiting, now);
                    }
                }
            }
            Stage::Settled { until, came, lately } => {
                lately.add(requests, length);
                let is_other = lately.windows == WINDOWS_OTHER && !lately.is_like(came);
                if is_other {
                    self.hold = HOLD_MIN;
                }
                if is_other || now >= *until {
                    self.stage = Stage::NEW;
                } else if lately.windows == WINDOWS_OTHER {
                    *lately = Came::ZERO;
                }
            }
        }
    }

    fn settle(&mut self, gain: i64, waiting: Came, not_waiting: Came, now: Instant) {
        let pays = gain >= GAIN_MIN;
        self.hold = if pays == self.pays { (self.hold * 2).min(HOLD_MAX) } else { HOLD_MIN };
        self.pays = pays;
        let came = if pays { waiting } else { not_waiting };
        self.stage = Stage::Settled { until: now + self.hold, came, lately: Came::ZERO };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(5);

    /// Windows until the trial settles, of which those with waits bring `with` requests and others `without`. Returns how many.
    fn settle(trial: &mut Trial, now: &mut Instant, with: u64, without: u64) -> u32 {
        settle_by(trial, now, |waits| (if waits { with } else { without }, WINDOW))
    }

    /// The same, of which each brings so many requests and is so long as `window` says, who is told whether it is one with waits.
    fn settle_by(
        trial: &mut Trial,
        now: &mut Instant,
        mut window: impl FnMut(bool) -> (u64, Duration),
    ) -> u32 {
        let mut windows = 0;
        while matches!(trial.stage, Stage::Trying { .. }) {
            let (came, length) = window(trial.waits());
            *now += length;
            trial.note_window(came, length, *now);
            windows += 1;
        }
        windows
    }

    /// Windows with `came` requests until the next trial begins. Returns how many.
    fn hold(trial: &mut Trial, now: &mut Instant, came: u64) -> u32 {
        let mut windows = 0;
        while matches!(trial.stage, Stage::Settled { .. }) {
            *now += WINDOW;
            trial.note_window(came, WINDOW, *now);
            windows += 1;
        }
        windows
    }

    fn windows(hold: Duration) -> u32 {
        (hold.as_millis() / WINDOW.as_millis()) as u32
    }

    #[test]
    fn waiting_is_kept_where_more_requests_come_for_it() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        assert_eq!(settle(&mut trial, &mut now, 430, 400), STEP * STEPS);
        assert!(trial.waits());
        hold(&mut trial, &mut now, 430);
        settle(&mut trial, &mut now, 400, 400);
        assert!(!trial.waits(), "it does not pay any more");
    }

    #[test]
    fn what_is_plain_is_settled_early() {
        for (with, pays, steps) in [(500, true, STEPS_MIN), (340, false, STEPS_MIN_LOSS)] {
            let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
            assert_eq!(settle(&mut trial, &mut now, with, 400), STEP * steps);
            assert_eq!(trial.waits(), pays);
        }
    }

    #[test]
    fn requests_that_come_by_themselves_are_not_waited_for() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle(&mut trial, &mut now, 405, 400);
        assert!(!trial.waits());
    }

    #[test]
    fn a_load_that_grows_speaks_for_neither() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        let mut came = 400;
        settle_by(&mut trial, &mut now, |_| {
            came += 40;
            (came - 40, WINDOW)
        });
        assert!(!trial.waits());
        let mut trial = Trial::new();
        settle_by(&mut trial, &mut now, |_| {
            came -= 40;
            (came + 40, WINDOW)
        });
        assert!(!trial.waits());
    }

    #[test]
    fn what_a_step_leaves_to_the_next_is_not_counted() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        let mut waited = false;
        settle_by(&mut trial, &mut now, |waits| {
            // The first window after waits gets what they have held up.
            let came = match (std::mem::replace(&mut waited, waits), waits) {
                (false, true) => 0,
                (true, false) => 1200,
                _ => 400,
            };
            (came, WINDOW)
        });
        let Stage::Settled { came, .. } = trial.stage else { unreachable!() };
        assert_eq!((came.requests / u64::from(came.windows), trial.waits()), (400, false));
    }

    #[test]
    fn rates_are_compared_and_not_numbers() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle_by(&mut trial, &mut now, |waits| if waits { (790, 2 * WINDOW) } else { (400, WINDOW) });
        assert!(!trial.waits(), "longer windows bring more");
    }

    #[test]
    fn nothing_that_came_is_no_gain() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle(&mut trial, &mut now, 0, 0);
        assert!(!trial.waits());
    }

    #[test]
    fn another_load_is_tried_anew() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle(&mut trial, &mut now, 500, 400);
        assert_eq!(hold(&mut trial, &mut now, 1_100), WINDOWS_OTHER);
        settle(&mut trial, &mut now, 500, 400);
        assert_eq!(hold(&mut trial, &mut now, 240), WINDOWS_OTHER);
        settle(&mut trial, &mut now, 500, 400);
        assert_eq!(hold(&mut trial, &mut now, 900), windows(2 * HOLD_MIN), "not that much more");
    }

    #[test]
    fn what_was_confirmed_is_tried_less_often() {
        let (mut trial, mut now) = (Trial::new(), Instant::ZERO);
        settle(&mut trial, &mut now, 500, 400);
        assert_eq!(hold(&mut trial, &mut now, 500), windows(HOLD_MIN));
        settle(&mut trial, &mut now, 500, 400);
        assert_eq!(hold(&mut trial, &mut now, 500), windows(2 * HOLD_MIN));
        for _ in 0..5 {
            settle(&mut trial, &mut now, 500, 400);
            hold(&mut trial, &mut now, 500);
        }
        assert_eq!(trial.hold, HOLD_MAX);
        settle(&mut trial, &mut now, 400, 400);
        assert_eq!(trial.hold, HOLD_MIN, "things have changed");
    }
}
