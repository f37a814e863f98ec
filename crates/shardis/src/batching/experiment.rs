//! Measures whether waiting pays; latency alone does not tell.
//!
//! In a closed loop, where clients send their next request after their last reply and nodes are the limit, waiting
//! raises throughput. In an open loop, requests queue at times as well, but waiting brings no more of them and only
//! costs latency. So the worker waits for a step of some windows, does not wait for another, and compares the requests
//! of both. It keeps the better way until the next experiment: after a while, or once the load has changed.
//!
//! ```text
//!   step    not   wait  wait   not    not   wait  wait   not …
//!   window  -+++  -+++  -+++  -+++    …                          - not counted: still an effect of the step before
//! ```
//!
//! Two steps are a pair. Its gain is one sample of [`Evidence`], and the spread of the samples decides when they are
//! enough. Bursty clients (500 requests of 16 KiB, or thousands of clients once in 100 ms) spread them more, and are
//! measured for longer than steady ones.

use std::time::Duration;
use stdx::Instant;

/// Windows per step. With steps of one window, 500 requests of 16 KiB that came in one and were answered in the next
/// (50 clients at -P 10) made waiting look 17 % worse than it was. (Steps of 8 and 12 spread as much in the same time.)
const STEP: u32 = 4;
/// Pairs of steps that an experiment needs at least. The evidence is judged after each two.
const PAIRS_MIN: f64 = 4.0;
/// Pairs that end an experiment, whatever their spread: 1.3 seconds. A steady load is clear after 8; with 500 requests of
/// 16 KiB, the standard error is 8 % after 8 pairs and 4 % after 32.
const PAIRS_MAX: f64 = 32.0;
/// Requests per client before the evidence may speak against waiting. (Of 5,000 clients, 16 steps see four waves, and
/// two may fall on the wrong side.)
const ASKED_MIN: u64 = 8;
/// Gain from which waiting pays. Where nodes are the limit it is 0.15 to 0.6, with 500 requests of 16 KiB 0.08.
const GAIN_MIN: f64 = 0.03;
/// Waiting clearly pays if the gain is this many standard errors above zero. (More than usual, since it is judged up to
/// 15 times.)
const ERRORS_PAYING: f64 = 2.5;
/// Waiting clearly does not pay if the gain is this many standard errors below [`GAIN_MIN`].
const ERRORS_NOT_PAYING: f64 = 1.5;
/// Windows for which a result holds: a second of such a load, with or without pauses.
const HOLD_MIN: u32 = 200;
/// The bound of it: each result that confirms the last one doubles it, up to this where waiting pays.
const HOLD_MAX: u32 = 1600;
/// Up to this where it does not: half a minute. An experiment costs time then, and at a steady rate brings nothing for it.
const HOLD_MAX_LOSS: u32 = 6400;
/// A result holds at least this many times as long as its experiment took, half of which went the wrong way.
const HOLD_BY_TRIED: u32 = 4;
/// After a pause of this length a new pair begins, since the load may be another.
const PAUSE: Duration = Duration::from_millis(200);
/// A longer window is such a pause as well, in which hardly anything came. (Between two waves, 5,000 clients are silent for up
/// to 35 ms.)
const LULL_MAX: Duration = Duration::from_millis(50);
/// The load has changed if this many windows bring twice or half as many requests as the experiment's did.
const WINDOWS_OTHER: u32 = 16;

/// The state of the experiment and its last result.
#[derive(Debug)]
pub(crate) struct Experiment {
    stage: Stage,
    /// What the last experiment of this load brought.
    pays: Option<bool>,
    hold: u32,
    /// Outlives a pause, and half of it an experiment in which nothing was plain: the next one may come to an end with it.
    evidence: Evidence,
    /// When the last window ended.
    noted_at: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Steps with and without waits take turns. `pairs` of them have passed, and `windows` of the next one.
    Trying { pairs: u32, windows: u32, pair: Sides, all: Sides },
    /// The last result holds for `left` more windows, as long as the load is like that which `came` in it.
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

    /// How many came in a second.
    fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.ns.max(1) as f64
    }

    fn is_like(&self, other: &Came) -> bool {
        self.rate() < 2.0 * other.rate() && other.rate() < 2.0 * self.rate()
    }
}

/// Requests of windows with waits, and of those without.
#[derive(Clone, Copy, Debug)]
struct Sides {
    waiting: Came,
    not_waiting: Came,
}

impl Sides {
    const ZERO: Sides = Sides { waiting: Came::ZERO, not_waiting: Came::ZERO };

    fn side(&mut self, waits: bool) -> &mut Came {
        if waits { &mut self.waiting } else { &mut self.not_waiting }
    }
}

/// What pairs of steps have said: of each by how much more came with waits than without, and how much came in the mean, per
/// second. Their sums, and those of their products, from which gain and error of a ratio follow.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    pairs: f64,
    more: f64,
    came: f64,
    more_more: f64,
    more_came: f64,
    came_came: f64,
}

impl Evidence {
    const NONE: Evidence =
        Evidence { pairs: 0.0, more: 0.0, came: 0.0, more_more: 0.0, more_came: 0.0, came_came: 0.0 };

    fn add(&mut self, pair: &Sides) {
        let (with, without) = (pair.waiting.rate(), pair.not_waiting.rate());
        let (more, came) = (with - without, (with + without) / 2.0);
        self.pairs += 1.0;
        self.more += more;
        self.came += came;
        self.more_more += more * more;
        self.more_came += more * came;
        self.came_came += came * came;
    }

    fn half(&self) -> Evidence {
        Evidence {
            pairs: self.pairs / 2.0,
            more: self.more / 2.0,
            came: self.came / 2.0,
            more_more: self.more_more / 2.0,
            more_came: self.more_came / 2.0,
            came_came: self.came_came / 2.0,
        }
    }

    /// By what part of their mean more came with waits than without.
    fn gain(&self) -> f64 {
        if self.came > 0.0 { self.more / self.came } else { 0.0 }
    }

    /// The standard error of the gain.
    fn error(&self) -> f64 {
        let gain = self.gain();
        let squares = self.more_more - 2.0 * gain * self.more_came + gain * gain * self.came_came;
        let variance = squares.max(0.0) / (self.pairs - 1.0);
        (variance * self.pairs).sqrt() / self.came.max(1.0)
    }

    /// Whether it is plain that waiting pays, or that it does not.
    fn plain(&self) -> Option<bool> {
        let (gain, error) = (self.gain(), self.error());
        if self.pairs < PAIRS_MIN {
            None
        } else if gain >= GAIN_MIN && gain > ERRORS_PAYING * error {
            Some(true)
        } else if gain + ERRORS_NOT_PAYING * error < GAIN_MIN {
            Some(false)
        } else {
            None
        }
    }

    /// The more probable result, when the time for evidence is over.
    fn probable(&self) -> bool {
        self.gain() >= GAIN_MIN.max(self.error())
    }
}

impl Stage {
    const NEW: Stage = Stage::Trying { pairs: 0, windows: 0, pair: Sides::ZERO, all: Sides::ZERO };

    /// Ends the current pair at a pause: its steps are not compared with later ones.
    fn cut_off(&mut self) {
        match self {
            Stage::Trying { windows, pair, .. } => (*windows, *pair) = (0, Sides::ZERO),
            Stage::Settled { lately, .. } => *lately = Came::ZERO,
        }
    }
}

/// Whether the step to which this window of a pair belongs is one with waits. Of two pairs the first step and the last
/// are not: so a growing or falling load favours neither kind, and a short burst is over before the first wait.
fn is_step_with_waits(pairs: u32, window: u32) -> bool {
    (window >= STEP) == pairs.is_multiple_of(2)
}

impl Experiment {
    pub(crate) fn new() -> Experiment {
        Experiment {
            stage: Stage::NEW,
            pays: None,
            hold: HOLD_MIN,
            evidence: Evidence::NONE,
            noted_at: Instant::ZERO,
        }
    }

    /// Whether the next window is one with waits.
    pub(crate) fn waits(&self) -> bool {
        match self.stage {
            Stage::Trying { pairs, windows, .. } => is_step_with_waits(pairs, windows),
            Stage::Settled { .. } => self.pays == Some(true),
        }
    }

    /// A window in which the worker might have waited ended at `now`: it was `length` long and brought `requests`.
    /// `clients` counts idle ones too.
    pub(crate) fn note_window(&mut self, requests: u64, length: Duration, clients: u64, now: Instant) {
        let since = now.since(std::mem::replace(&mut self.noted_at, now));
        if since > PAUSE || length > LULL_MAX {
            self.stage.cut_off();
        }
        if length > LULL_MAX {
            return;
        }
        match &mut self.stage {
            Stage::Trying { pairs, windows, pair, all } => {
                let waits = is_step_with_waits(*pairs, *windows);
                if !windows.is_multiple_of(STEP) {
                    pair.side(waits).add(requests, length);
                    all.side(waits).add(requests, length);
                }
                *windows += 1;
                if *windows == 2 * STEP {
                    self.evidence.add(pair);
                    (*pairs, *windows, *pair) = (*pairs + 1, 0, Sides::ZERO);
                    if pairs.is_multiple_of(2) {
                        let all = *all;
                        self.judge(all, clients);
                    }
                }
            }
            Stage::Settled { left, came, lately } => {
                *left -= 1;
                lately.add(requests, length);
                let is_other = lately.windows == WINDOWS_OTHER && !lately.is_like(came);
                if is_other {
                    (self.pays, self.evidence) = (None, Evidence::NONE);
                }
                if is_other || *left == 0 {
                    self.stage = Stage::NEW;
                } else if lately.windows == WINDOWS_OTHER {
                    *lately = Came::ZERO;
                }
            }
        }
    }

    /// Ends the experiment if its evidence is enough for `all` requests of `clients`.
    fn judge(&mut self, mut all: Sides, clients: u64) {
        let evidence = self.evidence;
        let is_last = evidence.pairs >= PAIRS_MAX;
        let have_all_asked = all.waiting.requests + all.not_waiting.requests >= clients * ASKED_MIN;
        let (pays, left_over) = match evidence.plain() {
            Some(pays) if pays || have_all_asked || is_last => (pays, Evidence::NONE),
            None if is_last => (evidence.probable(), evidence.half()),
            _ => return,
        };
        self.evidence = left_over;
        let hold_min = HOLD_MIN.max(HOLD_BY_TRIED * 2 * STEP * evidence.pairs as u32);
        let hold_max = if pays { HOLD_MAX } else { HOLD_MAX_LOSS };
        let hold = if self.pays == Some(pays) { self.hold * 2 } else { HOLD_MIN };
        self.hold = hold.clamp(hold_min, hold_max);
        self.pays = Some(pays);
        self.stage = Stage::Settled { left: self.hold, came: *all.side(pays), lately: Came::ZERO };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    const WINDOW: Duration = Duration::from_millis(5);

    /// Windows until the experiment settles, of which those with waits bring `with` requests and others `without`. Returns how many.
    fn settle(experiment: &mut Experiment, with: u64, without: u64) -> u32 {
        settle_by(experiment, |waits| (if waits { with } else { without }, WINDOW))
    }

    /// The same; `window` gets whether it is one with waits, and gives its requests and its length.
    fn settle_by(experiment: &mut Experiment, window: impl FnMut(bool) -> (u64, Duration)) -> u32 {
        settle_clients(experiment, 50, window)
    }

    /// The same with `clients`.
    fn settle_clients(
        experiment: &mut Experiment,
        clients: u64,
        mut window: impl FnMut(bool) -> (u64, Duration),
    ) -> u32 {
        let mut windows = 0;
        while matches!(experiment.stage, Stage::Trying { .. }) {
            let (came, length) = window(experiment.waits());
            let now = experiment.noted_at + length;
            experiment.note_window(came, length, clients, now);
            windows += 1;
        }
        windows
    }

    /// How many of 200 experiments find that waiting pays, and how many windows they take on average. Waiting brings
    /// `gain` more; the requests of steps vary by `spread` (standard deviation).
    fn experiments(gain: f64, spread: f64) -> (u32, u32) {
        let mut prng = Prng::new(7);
        let (mut paying, mut windows) = (0, 0);
        for _ in 0..200 {
            let mut experiment = Experiment::new();
            windows += settle_by(&mut experiment, |waits| {
                // Twelve evenly spread numbers are a normal one.
                let normal = (0..12).map(|_| prng.below(1_000) as f64 / 1e3).sum::<f64>() - 6.0;
                let mean = if waits { 1.0 + gain } else { 1.0 };
                let part = mean + normal * spread * f64::from(STEP - 1).sqrt();
                ((10_000.0 * part.max(0.0)) as u64, WINDOW)
            });
            paying += u32::from(experiment.waits());
        }
        (paying, windows / 200)
    }

    /// Windows with `came` requests until the next experiment begins. Returns how many.
    fn hold(experiment: &mut Experiment, came: u64) -> u32 {
        let mut windows = 0;
        while matches!(experiment.stage, Stage::Settled { .. }) {
            let now = experiment.noted_at + WINDOW;
            experiment.note_window(came, WINDOW, 50, now);
            windows += 1;
        }
        windows
    }

    #[test]
    fn waiting_is_kept_where_more_requests_come_for_it() {
        let mut experiment = Experiment::new();
        assert_eq!(settle(&mut experiment, 415, 400), 2 * STEP * PAIRS_MIN as u32);
        assert!(experiment.waits());
        hold(&mut experiment, 415);
        settle(&mut experiment, 400, 400);
        assert!(!experiment.waits(), "it does not pay any more");
    }

    #[test]
    fn the_more_it_spreads_the_longer_it_is_watched() {
        // Gain and spread of steps; how many of 200 experiments find that it pays, at least and at most; windows.
        for (gain, spread, found, windows) in [
            (0.5, 0.06, 199..=200, 32..=34),    // 50 clients at -P 1
            (0.25, 0.08, 195..=200, 32..=45),   // 1 KiB at -P 10
            (0.08, 0.16, 130..=190, 100..=250), // 16 KiB at -P 10
            (0.0, 0.03, 0..=20, 32..=100),      // 18,000 a second, each by itself
            (0.0, 0.01, 0..=2, 32..=50),        // 90,000
            (0.0, 0.1, 0..=50, 32..=200),       // 18,000 in bursts of ten
            (-0.1, 0.08, 0..=5, 32..=40),
        ] {
            let (paying, took) = experiments(gain, spread);
            assert!(found.contains(&paying), "{gain} +- {spread}: {paying} of 200");
            assert!(windows.contains(&took), "{gain} +- {spread}: {took} windows");
        }
    }

    #[test]
    fn requests_that_come_by_themselves_are_not_waited_for() {
        let mut experiment = Experiment::new();
        assert_eq!(settle(&mut experiment, 405, 400), 2 * STEP * PAIRS_MIN as u32);
        assert!(!experiment.waits());
    }

    #[test]
    fn what_was_not_plain_is_remembered_by_half() {
        let mut experiment = Experiment::new();
        // Of two pairs one speaks for waiting and one against it.
        let mut seen = 0;
        let mut unclear = |waits: bool| {
            let (pair, _) = (seen / STEP / 2, seen += 1);
            (if waits { [500, 350][pair as usize % 2] } else { 400 }, WINDOW)
        };
        let windows = 2 * STEP * PAIRS_MAX as u32;
        assert_eq!(settle_by(&mut experiment, &mut unclear), windows);
        let left = hold(&mut experiment, 400);
        assert_eq!((left, settle_by(&mut experiment, &mut unclear)), (HOLD_BY_TRIED * windows, windows / 2));
        hold(&mut experiment, 2_000);
        assert_eq!(experiment.evidence.pairs, 0.0, "another load");
    }

    #[test]
    fn a_load_that_grows_speaks_for_neither() {
        let mut experiment = Experiment::new();
        let mut came = 400;
        settle_by(&mut experiment, |_| {
            came += 40;
            (came - 40, WINDOW)
        });
        assert!(!experiment.waits());
        let mut experiment = Experiment::new();
        settle_by(&mut experiment, |_| {
            came -= 40;
            (came + 40, WINDOW)
        });
        assert!(!experiment.waits());
    }

    #[test]
    fn what_a_step_leaves_to_the_next_is_not_counted() {
        let mut experiment = Experiment::new();
        let mut waited = false;
        settle_by(&mut experiment, |waits| {
            // The first window after waits gets what they have held up.
            let came = match (std::mem::replace(&mut waited, waits), waits) {
                (false, true) => 0,
                (true, false) => 1200,
                _ => 400,
            };
            (came, WINDOW)
        });
        let Stage::Settled { came, .. } = experiment.stage else { unreachable!() };
        assert_eq!((came.requests / u64::from(came.windows), experiment.waits()), (400, false));
    }

    /// 5,000 clients, of whom nothing comes for half of each 90 to 110 ms, and half as much again with waits.
    #[test]
    fn waves_are_seen_through() {
        for wave in [18, 19, 20, 21, 22] {
            for begins_at in 0..wave {
                let (mut experiment, mut at) = (Experiment::new(), begins_at);
                settle_clients(&mut experiment, 5_000, |waits| {
                    at += 1;
                    let came = if waits { 750 } else { 500 };
                    (if at % wave < 10 { came } else { 0 }, WINDOW)
                });
                assert!(experiment.waits(), "of {wave}, from {begins_at} on");
            }
        }
    }

    #[test]
    fn idle_clients_are_not_waited_for_long() {
        let windows = settle_clients(&mut Experiment::new(), 1_000_000, |_| (400, WINDOW));
        assert_eq!(windows, 2 * STEP * PAIRS_MAX as u32);
    }

    #[test]
    fn rates_are_compared_and_not_numbers() {
        let mut experiment = Experiment::new();
        settle_by(&mut experiment, |waits| if waits { (790, 2 * WINDOW) } else { (400, WINDOW) });
        assert!(!experiment.waits(), "longer windows bring more");
    }

    #[test]
    fn nothing_that_came_is_no_gain() {
        let mut experiment = Experiment::new();
        settle(&mut experiment, 0, 0);
        assert!(!experiment.waits());
    }

    #[test]
    fn another_load_is_tried_anew() {
        let mut experiment = Experiment::new();
        settle(&mut experiment, 500, 400);
        assert_eq!(hold(&mut experiment, 1_100), WINDOWS_OTHER);
        settle(&mut experiment, 500, 400);
        assert_eq!(hold(&mut experiment, 240), WINDOWS_OTHER);
        settle(&mut experiment, 500, 400);
        assert_eq!(hold(&mut experiment, 900), HOLD_MIN, "not that much more");
    }

    #[test]
    fn experiment_resumes_after_a_pause_and_keeps_its_result() {
        let (mut experiment, long) = (Experiment::new(), PAUSE + WINDOW);
        for window in 0..6 * STEP - 1 {
            let came = match (window < 4 * STEP, experiment.waits()) {
                (true, true) => 500,
                (true, false) => 400,
                // The pair that the pause cuts off is forgotten.
                (false, _) => 10,
            };
            let now = experiment.noted_at + WINDOW;
            experiment.note_window(came, WINDOW, 50, now);
        }
        let now = experiment.noted_at + long;
        experiment.note_window(400, WINDOW, 50, now);
        assert_eq!(settle(&mut experiment, 500, 400), 4 * STEP - 1, "one window has passed");
        assert!(experiment.waits());
        let now = experiment.noted_at + long;
        experiment.note_window(500, WINDOW, 50, now);
        assert_eq!((experiment.waits(), hold(&mut experiment, 500)), (true, HOLD_MIN - 1));
    }

    /// A run of a load generator, a pause of 0.3 s in which something is asked now and then, and the next run.
    #[test]
    fn a_pause_makes_no_other_load() {
        let mut experiment = Experiment::new();
        settle(&mut experiment, 500, 400);
        for _ in 0..10 {
            let Stage::Settled { left, .. } = experiment.stage else { panic!("it is tried again") };
            let pause = [LULL_MAX * 2; 3].map(|length| (1, length));
            for (came, length) in pause.into_iter().chain([(500, WINDOW); 8]) {
                let now = experiment.noted_at + length;
                experiment.note_window(came, length, 50, now);
            }
            let Stage::Settled { left: after, .. } = experiment.stage else {
                panic!("taken for another load")
            };
            assert_eq!(left - after, 8, "a pause is no time in which it holds");
        }
    }

    /// Each burst is long enough for one pair, and not for two.
    #[test]
    fn bursts_with_pauses_between_them_come_to_a_result() {
        for with in [500, 400, 340] {
            let mut experiment = Experiment::new();
            let mut bursts = 0;
            while matches!(experiment.stage, Stage::Trying { .. }) {
                bursts += 1;
                assert!(bursts <= PAIRS_MAX as u32, "{bursts} bursts");
                for length in [WINDOW; 2 * STEP as usize + 2].into_iter().chain([LULL_MAX * 2]) {
                    let now = experiment.noted_at + length;
                    experiment.note_window(if experiment.waits() { with } else { 400 }, length, 50, now);
                }
            }
            assert_eq!(experiment.waits(), with > 400);
        }
    }

    #[test]
    fn what_was_confirmed_is_tried_less_often() {
        let mut experiment = Experiment::new();
        settle(&mut experiment, 500, 400);
        assert_eq!(hold(&mut experiment, 500), HOLD_MIN);
        settle(&mut experiment, 500, 400);
        assert_eq!(hold(&mut experiment, 500), 2 * HOLD_MIN);
        for _ in 0..5 {
            settle(&mut experiment, 500, 400);
            hold(&mut experiment, 500);
        }
        assert_eq!(experiment.hold, HOLD_MAX);
        settle(&mut experiment, 400, 400);
        assert_eq!(experiment.hold, HOLD_MIN, "things have changed");
    }
}
