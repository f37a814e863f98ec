//! Whether waiting pays: tried out, since it cannot be told from what requests take.
//!
//! Where clients send their next request behind their last reply, and nodes are the limit, waiting lets more requests
//! through. Where they come at a rate of their own, requests stand in line at times as well, but no more of them come for
//! being waited for: then waiting only costs them time. So a worker that might wait does so for a step of some windows and
//! then not for another, compares what came in both, and then does what was better until it tries again: after a while, or
//! once the load is another.
//!
//! ```text
//!   step    not   wait  wait   not    not   wait  wait   not …
//!   window  -+++  -+++  -+++  -+++    …                          - not counted: the step before brought about what comes
//! ```
//!
//! Thousands of clients come in waves, each of them once in a wave, of 100 ms for instance. Steps are short against that, and
//! nothing is given up before some waves were seen.

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
/// After so many, if it is beyond [`CLEAR_LOSS`].
const STEPS_MIN_LOSS: u32 = 8;
/// Before each client could ask so often, nothing speaks against waiting. (Of 5,000 clients, 16 steps see four waves: by a
/// simulation one trial in four finds that waits do not pay which bring half as much again; after eight waves, one in 200.)
const ASKED_MIN: u64 = 8;
/// No trial takes more steps, however many clients there are: most of them may be idle.
const STEPS_MAX: u32 = 64;
/// Waiting pays if so many more requests came, in thousandths. Where nodes are the limit it is 150 to 300.
const GAIN_MIN: i64 = 60;
/// So many more make it plain.
const CLEAR_GAIN: i64 = 150;
/// So many fewer make it plain that it does not.
const CLEAR_LOSS: i64 = -100;
/// What a trial brought holds for so many windows: a second of such a load, with or without pauses.
const HOLD_MIN: u32 = 200;
/// The same for one that brought what was known: each of these doubles it, up to this where waiting pays.
const HOLD_MAX: u32 = 1600;
/// Up to this where it does not: half a minute. A trial costs time then, and at a steady rate brings nothing for it.
const HOLD_MAX_LOSS: u32 = 6400;
/// A trial begins anew if there was no window for so long: what came then is of another load.
const PAUSE: Duration = Duration::from_millis(200);
/// The load is another if so many windows bring twice or half as many requests as the trial's did.
const WINDOWS_OTHER: u32 = 16;

/// What was found out, and what is being tried.
#[derive(Debug)]
pub(crate) struct Trial {
    stage: Stage,
    /// What the last trial of this load brought.
    pays: Option<bool>,
    hold: u32,
    /// When the last window ended.
    noted_at: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Steps with and without waits take turns. `windows` have passed.
    Trying { windows: u32, waiting: Came, not_waiting: Came },
    /// The last trial's result counts for `left` windows more, as long as what comes is like what `came` in it.
    Settled { left: u32, came: Came, lately: Came },
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

/// Whether the step to which this window of a trial belongs is one with waits. Of four the first and the last are not: a
/// load that grows or falls speaks for neither kind, and what was only a moment's crowd is over before anybody waits.
fn is_step_with_waits(window: u32) -> bool {
    matches!(window / STEP % 4, 1 | 2)
}

impl Trial {
    pub(crate) fn new() -> Trial {
        Trial { stage: Stage::NEW, pays: None, hold: HOLD_MIN, noted_at: Instant::ZERO }
    }

    /// Whether the next window is one with waits.
    pub(crate) fn waits(&self) -> bool {
        match self.stage {
            Stage::Trying { windows, .. } => is_step_with_waits(windows),
            Stage::Settled { .. } => self.pays == Some(true),
        }
    }

    /// A window in which the worker might have waited ended at `now`: it was `length` long and brought so many requests.
    /// `clients` are there, idle ones too.
    pub(crate) fn note_window(&mut self, requests: u64, length: Duration, clients: u64, now: Instant) {
        let is_after_pause = now.since(std::mem::replace(&mut self.noted_at, now)) > PAUSE;
        if is_after_pause && matches!(self.stage, Stage::Trying { .. }) {
            self.stage = Stage::NEW;
        }
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
                    let requests = waiting.requests + not_waiting.requests;
                    let is_enough = requests >= clients * ASKED_MIN || windows >= STEP * STEPS_MAX;
                    let is_loss = gain < CLEAR_LOSS && windows >= STEP * STEPS_MIN_LOSS;
                    if gain >= CLEAR_GAIN || is_enough && (is_loss || windows >= STEP * STEPS) {
                        self.settle(gain, waiting, not_waiting);
                    }
                }
            }
            Stage::Settled { left, came, lately } => {
                *left -= 1;
                lately.add(requests, length);
                let is_other = lately.windows == WINDOWS_OTHER && !lately.is_like(came);
                if is_other {
                    self.pays = None;
                }
                if is_other || *left == 0 {
                    self.stage = Stage::NEW;
                } else if lately.windows == WINDOWS_OTHER {
                    *lately = Came::ZERO;
                }
            }
        }
    }

    fn settle(&mut self, gain: i64, waiting: Came, not_waiting: Came) {
        let pays = gain >= GAIN_MIN;
        let hold_max = if pays { HOLD_MAX } else { HOLD_MAX_LOSS };
        self.hold = if self.pays == Some(pays) { (self.hold * 2).min(hold_max) } else { HOLD_MIN };
        self.pays = Some(pays);
        let came = if pays { waiting } else { not_waiting };
        self.stage = Stage::Settled { left: self.hold, came, lately: Came::ZERO };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(5);

    /// Windows until the trial settles, of which those with waits bring `with` requests and others `without`. Returns how many.
    fn settle(trial: &mut Trial, with: u64, without: u64) -> u32 {
        settle_by(trial, |waits| (if waits { with } else { without }, WINDOW))
    }

    /// The same, of which each brings so many requests and is so long as `window` says, who is told whether it is one with waits.
    fn settle_by(trial: &mut Trial, window: impl FnMut(bool) -> (u64, Duration)) -> u32 {
        settle_clients(trial, 50, window)
    }

    /// The same with so many clients.
    fn settle_clients(
        trial: &mut Trial,
        clients: u64,
        mut window: impl FnMut(bool) -> (u64, Duration),
    ) -> u32 {
        let mut windows = 0;
        while matches!(trial.stage, Stage::Trying { .. }) {
            let (came, length) = window(trial.waits());
            let now = trial.noted_at + length;
            trial.note_window(came, length, clients, now);
            windows += 1;
        }
        windows
    }

    /// Windows with `came` requests until the next trial begins. Returns how many.
    fn hold(trial: &mut Trial, came: u64) -> u32 {
        let mut windows = 0;
        while matches!(trial.stage, Stage::Settled { .. }) {
            let now = trial.noted_at + WINDOW;
            trial.note_window(came, WINDOW, 50, now);
            windows += 1;
        }
        windows
    }

    #[test]
    fn waiting_is_kept_where_more_requests_come_for_it() {
        let mut trial = Trial::new();
        assert_eq!(settle(&mut trial, 430, 400), STEP * STEPS);
        assert!(trial.waits());
        hold(&mut trial, 430);
        settle(&mut trial, 400, 400);
        assert!(!trial.waits(), "it does not pay any more");
    }

    #[test]
    fn what_is_plain_is_settled_early() {
        for (with, pays, steps) in [(500, true, STEPS_MIN), (340, false, STEPS_MIN_LOSS)] {
            let mut trial = Trial::new();
            assert_eq!(settle(&mut trial, with, 400), STEP * steps);
            assert_eq!(trial.waits(), pays);
        }
    }

    #[test]
    fn requests_that_come_by_themselves_are_not_waited_for() {
        let mut trial = Trial::new();
        settle(&mut trial, 405, 400);
        assert!(!trial.waits());
    }

    #[test]
    fn a_load_that_grows_speaks_for_neither() {
        let mut trial = Trial::new();
        let mut came = 400;
        settle_by(&mut trial, |_| {
            came += 40;
            (came - 40, WINDOW)
        });
        assert!(!trial.waits());
        let mut trial = Trial::new();
        settle_by(&mut trial, |_| {
            came -= 40;
            (came + 40, WINDOW)
        });
        assert!(!trial.waits());
    }

    #[test]
    fn what_a_step_leaves_to_the_next_is_not_counted() {
        let mut trial = Trial::new();
        let mut waited = false;
        settle_by(&mut trial, |waits| {
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

    /// 5,000 clients, of whom nothing comes for half of each 90 to 110 ms, and half as much again with waits.
    #[test]
    fn waves_are_seen_through() {
        for wave in [18, 19, 20, 21, 22] {
            for begins_at in 0..wave {
                let (mut trial, mut at) = (Trial::new(), begins_at);
                settle_clients(&mut trial, 5_000, |waits| {
                    at += 1;
                    let came = if waits { 750 } else { 500 };
                    (if at % wave < 10 { came } else { 0 }, WINDOW)
                });
                assert!(trial.waits(), "of {wave}, from {begins_at} on");
            }
        }
    }

    #[test]
    fn idle_clients_are_not_waited_for_long() {
        let windows = settle_clients(&mut Trial::new(), 1_000_000, |_| (400, WINDOW));
        assert_eq!(windows, STEP * STEPS_MAX);
    }

    #[test]
    fn rates_are_compared_and_not_numbers() {
        let mut trial = Trial::new();
        settle_by(&mut trial, |waits| if waits { (790, 2 * WINDOW) } else { (400, WINDOW) });
        assert!(!trial.waits(), "longer windows bring more");
    }

    #[test]
    fn nothing_that_came_is_no_gain() {
        let mut trial = Trial::new();
        settle(&mut trial, 0, 0);
        assert!(!trial.waits());
    }

    #[test]
    fn another_load_is_tried_anew() {
        let mut trial = Trial::new();
        settle(&mut trial, 500, 400);
        assert_eq!(hold(&mut trial, 1_100), WINDOWS_OTHER);
        settle(&mut trial, 500, 400);
        assert_eq!(hold(&mut trial, 240), WINDOWS_OTHER);
        settle(&mut trial, 500, 400);
        assert_eq!(hold(&mut trial, 900), HOLD_MIN, "not that much more");
    }

    #[test]
    fn a_trial_after_a_pause_begins_anew_and_a_result_outlives_it() {
        let (mut trial, long) = (Trial::new(), PAUSE + WINDOW);
        for _ in 0..STEP * STEPS_MIN - 1 {
            let now = trial.noted_at + WINDOW;
            trial.note_window(if trial.waits() { 100 } else { 400 }, WINDOW, 50, now);
        }
        let now = trial.noted_at + long;
        trial.note_window(400, WINDOW, 50, now);
        assert_eq!(settle(&mut trial, 500, 400), STEP * STEPS_MIN - 1, "one window has passed");
        assert!(trial.waits());
        let now = trial.noted_at + long;
        trial.note_window(500, WINDOW, 50, now);
        assert_eq!((trial.waits(), hold(&mut trial, 500)), (true, HOLD_MIN - 1));
    }

    #[test]
    fn what_was_confirmed_is_tried_less_often() {
        let mut trial = Trial::new();
        settle(&mut trial, 500, 400);
        assert_eq!(hold(&mut trial, 500), HOLD_MIN);
        settle(&mut trial, 500, 400);
        assert_eq!(hold(&mut trial, 500), 2 * HOLD_MIN);
        for _ in 0..5 {
            settle(&mut trial, 500, 400);
            hold(&mut trial, 500);
        }
        assert_eq!(trial.hold, HOLD_MAX);
        settle(&mut trial, 400, 400);
        assert_eq!(trial.hold, HOLD_MIN, "things have changed");
    }
}
