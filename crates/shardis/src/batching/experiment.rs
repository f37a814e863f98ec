//! Measures whether waiting pays, since latency alone does not show it.
//!
//! In a closed loop, each client sends its next request after its last reply. If the nodes are the limit there, waiting
//! raises throughput. In an open loop, requests also queue at times, but waiting only costs latency and brings no more
//! requests.
//!
//! So the worker waits during one step of some windows, does not wait during another, and compares their requests. It
//! keeps the better way until the next experiment, which begins after a while or once the load has changed.
//!
//! ```text
//!   step    not   wait  wait   not    not   wait  wait   not …
//!   window  -+++  -+++  -+++  -+++    …            - not counted: the window still shows the step before
//! ```
//!
//! Two steps are a pair. The gain of a pair is one sample of [`Evidence`]. The spread of the samples decides how many
//! are enough. Bursty clients, such as 500 requests of 16 KiB or thousands of clients once in 100 ms, spread them more.
//! They are measured for longer than steady clients.

use std::time::Duration;
use stdx::Instant;

/// Windows per step. With steps of one window, 50 clients at -P 10 sent 500 requests of 16 KiB in one window. Their
/// replies came in the next. Waiting then looked 17 % worse than it was. Steps of 8 and 12 windows spread as much in
/// the same time.
const STEP: u32 = 4;
/// Pairs of steps that an experiment needs at least. The evidence is judged after every second pair.
const PAIRS_MIN: f64 = 4.0;
/// Pairs that end an experiment, whatever their spread: 1.3 seconds. A steady load is clear after 8 pairs. With 500
/// requests of 16 KiB, the standard error is 8 % after 8 pairs and 4 % after 32.
const PAIRS_MAX: f64 = 32.0;
/// Requests per client before the evidence may speak against waiting. With 5,000 clients, 16 steps contain four waves
/// of requests, and two waves may fall on the wrong side.
const ASKED_MIN: u64 = 8;
/// Gain from which waiting pays. Where nodes are the limit, the gain is 0.15 to 0.6; with 500 requests of 16 KiB, 0.08.
const GAIN_MIN: f64 = 0.03;
/// Waiting clearly pays if the gain is this many standard errors above zero. The value is higher than usual because the
/// evidence is judged up to 15 times.
const ERRORS_PAYING: f64 = 2.5;
/// Waiting clearly does not pay if the gain is this many standard errors below [`GAIN_MIN`].
const ERRORS_NOT_PAYING: f64 = 1.5;
/// Windows for which a result holds at least: a second of a busy load, with or without pauses.
const HOLD_MIN: u32 = 200;
/// Windows for which a result holds at most if waiting pays. Each result that confirms the last one doubles the time.
const HOLD_MAX: u32 = 1600;
/// The same if waiting does not pay: half a minute. An experiment then costs time, and at a steady rate gains nothing.
const HOLD_MAX_LOSS: u32 = 6400;
/// A result holds at least this many times as long as its experiment took. Half of that time went the wrong way.
const HOLD_BY_TRIED: u32 = 4;
/// After a pause of this length a new pair begins, because the load may have changed.
const PAUSE: Duration = Duration::from_millis(200);
/// A longer window also counts as a pause, since hardly a request came in it. Between two waves, 5,000 clients are
/// silent for up to 35 ms.
const LULL_MAX: Duration = Duration::from_millis(50);
/// The load has changed if this many windows bring twice or half as many requests as the windows of the experiment.
const WINDOWS_OTHER: u32 = 16;

/// The state of the experiment and its last result.
#[derive(Debug)]
pub(crate) struct Experiment {
    stage: Stage,
    /// The result of the last experiment with this load.
    pays: Option<bool>,
    hold: u32,
    /// Samples so far. They survive a pause. Half of them survive an experiment without a clear result, so that the
    /// next experiment may reach one.
    evidence: Evidence,
    /// The end of the last window.
    noted_at: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Steps with and without waits take turns. `pairs` have passed, and `windows` of the next pair.
    Trying { pairs: u32, windows: u32, pair: Sides, all: Sides },
    /// The last result holds for `left` more windows, as long as the load stays like `came`, the load of the
    /// experiment.
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

    /// Requests per second.
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

/// Samples from pairs of steps. Each pair gives two rates per second: the additional requests with waits, and the mean.
/// The sums of both and of their products give the gain and its standard error.
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

    /// Additional requests with waits, as a share of the mean.
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

    /// Whether the evidence is clear: waiting pays, or does not.
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

    /// Ends the current pair at a pause, since its steps cannot be compared with later ones.
    fn cut_off(&mut self) {
        match self {
            Stage::Trying { windows, pair, .. } => (*windows, *pair) = (0, Sides::ZERO),
            Stage::Settled { lately, .. } => *lately = Came::ZERO,
        }
    }
}

/// Whether this window of a pair belongs to a step with waits. In every two pairs, the first and the last step have
/// none. So a growing or falling load favours neither kind, and a short burst is over before the first wait.
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

    /// Whether the worker waits in the next window.
    pub(crate) fn waits(&self) -> bool {
        match self.stage {
            Stage::Trying { pairs, windows, .. } => is_step_with_waits(pairs, windows),
            Stage::Settled { .. } => self.pays == Some(true),
        }
    }

    /// Adds a window that ended at `now` and in which the worker might have waited. The window was `length` long and
    /// brought `requests`. `clients` includes idle ones.
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

    /// Ends the experiment if the evidence is sufficient for `all` requests of `clients`.
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

    /// Runs windows until the experiment settles and returns their number. Windows with waits bring `with` requests,
    /// others `without`.
    fn settle(experiment: &mut Experiment, with: u64, without: u64) -> u32 {
        settle_by(experiment, |waits| (if waits { with } else { without }, WINDOW))
    }

    /// The same; `window` gets whether the window has waits, and returns its requests and its length.
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

    /// Of 200 experiments, the number that find that waiting pays, and their mean length in windows. Waiting brings
    /// `gain` more; the requests of steps vary by `spread` (standard deviation).
    fn experiments(gain: f64, spread: f64) -> (u32, u32) {
        let mut prng = Prng::new(7);
        let (mut paying, mut windows) = (0, 0);
        for _ in 0..200 {
            let mut experiment = Experiment::new();
            windows += settle_by(&mut experiment, |waits| {
                // The sum of twelve evenly distributed numbers is about normally distributed.
                let normal = (0..12).map(|_| prng.below(1_000) as f64 / 1e3).sum::<f64>() - 6.0;
                let mean = if waits { 1.0 + gain } else { 1.0 };
                let part = mean + normal * spread * f64::from(STEP - 1).sqrt();
                ((10_000.0 * part.max(0.0)) as u64, WINDOW)
            });
            paying += u32::from(experiment.waits());
        }
        (paying, windows / 200)
    }

    /// Runs windows with `came` requests until the next experiment begins. Returns their number.
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
    fn waiting_is_kept_if_it_brings_more_requests() {
        let mut experiment = Experiment::new();
        assert_eq!(settle(&mut experiment, 415, 400), 2 * STEP * PAIRS_MIN as u32);
        assert!(experiment.waits());
        hold(&mut experiment, 415);
        settle(&mut experiment, 400, 400);
        assert!(!experiment.waits(), "it does not pay any more");
    }

    #[test]
    fn samples_with_more_spread_are_measured_for_longer() {
        // Gain and spread of steps; range of the experiments of 200 that find that waiting pays; range of windows.
        for (gain, spread, found, windows) in [
            (0.5, 0.06, 199..=200, 32..=34),    // 50 clients at -P 1
            (0.25, 0.08, 195..=200, 32..=45),   // 1 KiB at -P 10
            (0.08, 0.16, 130..=190, 100..=250), // 16 KiB at -P 10
            (0.0, 0.03, 0..=20, 32..=100),      // 18,000 a second, each alone
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
    fn single_requests_are_not_waited_for() {
        let mut experiment = Experiment::new();
        assert_eq!(settle(&mut experiment, 405, 400), 2 * STEP * PAIRS_MIN as u32);
        assert!(!experiment.waits());
    }

    #[test]
    fn unclear_evidence_is_kept_by_half() {
        let mut experiment = Experiment::new();
        // One of two pairs speaks for waiting and one against.
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
    fn a_growing_load_favours_neither_side() {
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
    fn requests_delayed_by_the_step_before_are_not_counted() {
        let mut experiment = Experiment::new();
        let mut waited = false;
        settle_by(&mut experiment, |waits| {
            // The first window after waits also brings the requests that the waits have delayed.
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

    /// 5,000 clients, which send nothing for half of each 90 to 110 ms. With waits, half as many requests more come.
    #[test]
    fn waves_of_clients_do_not_change_the_result() {
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
    fn rates_are_compared_not_counts() {
        let mut experiment = Experiment::new();
        settle_by(&mut experiment, |waits| if waits { (790, 2 * WINDOW) } else { (400, WINDOW) });
        assert!(!experiment.waits(), "longer windows bring more");
    }

    #[test]
    fn windows_without_requests_show_no_gain() {
        let mut experiment = Experiment::new();
        settle(&mut experiment, 0, 0);
        assert!(!experiment.waits());
    }

    #[test]
    fn a_changed_load_begins_a_new_experiment() {
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
                // The pair that the pause interrupts is dropped.
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

    /// A run of a load generator, a pause of 0.3 s with a few requests, and the next run.
    #[test]
    fn a_pause_does_not_count_as_a_changed_load() {
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

    /// Each burst is long enough for one pair, but not for two.
    #[test]
    fn bursts_with_pauses_reach_a_result() {
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
    fn a_confirmed_result_is_checked_less_often() {
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
