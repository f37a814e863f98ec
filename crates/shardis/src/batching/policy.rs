//! The batching policy: when a busy worker waits a moment for more requests before it writes.
//!
//! A fast proxy makes small batches: it wakes for every request, and each write wakes a node for one request. If the
//! worker lets a few more requests arrive, one write serves several of them, here and at the node. Only requests wait.
//! Each reply needs a system call of its own in any case, since each client has its own connection.
//!
//! A wait costs latency, so it is a tenth of a client's round ([`Rounds`]). A round is the time from one request of a
//! client to its next. It includes the way to the node and back, the queue at the node, and the client's own queue of
//! replies.
//!
//! A worker waits where requests queue, which shows in their latency:
//!
//! ```text
//!   requests in flight × their time in flight
//!   ───────────────────────────────────────── = latency of a request   (Little's law)
//!              requests that came
//! ```
//!
//! Where the nodes or the clients are the limit, latency is high, and a wait shortens the queue and pays off. An
//! experiment checks this from time to time ([`super::experiment`]): in an open loop a wait does not pay. Without a
//! queue, latency is low, and the worker does not wait, however busy it is. Nor does the worker wait if turns are full
//! anyway, if it expects no other request, or for a lone client.
//!
//! A worker with time to spare writes replies after each event and not at the end of the turn. So no client waits for
//! later events. Requests leave at the end of the turn: one write takes several and wakes their node once.

use super::experiment::Experiment;
use proxy::Rounds;
use std::str::FromStr;
use std::time::Duration;
use stdx::Instant;

/// The operator's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batching {
    /// Never wait.
    Off,
    /// Wait where it pays.
    Auto,
    /// Wait this long whenever several clients have sent requests.
    Fixed(Duration),
}

/// A wait is this part of a client's round. A request waits at most twice: on its way to the node, and on its way back
/// until a wait for other requests is over. At worst this is a fifth of the round, which includes it.
///
/// Requests per second, measured with four nodes on one core:
///
/// | clients at -P 1 | round | no wait | 50 µs | 100 µs | 200 µs |
/// | --- | --- | --- | --- | --- | --- |
/// | 50 | 0.55 ms | 60,000 | 96,000 | 90,000 | |
/// | 500 | 5 ms | 51,000 | 85,000 | 97,000 | 109,000 |
const PART_OF_ROUND: u32 = 10;
/// A shorter wait does not pay for its two system calls and the timer.
const WAIT_MIN: Duration = Duration::from_micros(20);
/// Faster requests do not queue. Without a queue, requests take 11 to 32 µs; where the nodes are the limit, 66 µs and
/// more.
const LATENCY_MIN: Duration = Duration::from_micros(40);
/// `auto` waits at most this long, or for this part of a request's latency at the nodes if that is longer.
///
/// Measured beside 500 clients: a lone client that asks now and then gets its reply after 160 µs without waits. It
/// takes 600 µs with these waits, and 840 µs with waits of 400 µs, which would give the 500 clients 6 % more
/// throughput. One in ten of its requests takes 0.8 to 1 ms without waits and 1.4 ms with them. One in a hundred takes
/// 4 ms in any case.
const AUTO_WAIT: Duration = Duration::from_micros(200);
const AUTO_PART_OF_LATENCY: u32 = 4;
/// Users would notice longer waits. Values of 16 KiB at -P 10 take 5 ms. Waits of 400 µs let 10 % more of them through
/// than waits of 100 µs.
const AUTO_WAIT_MAX: Duration = Duration::from_micros(400);
/// Events of a full turn, or half of the events expected during a wait, if that is more. In a full turn, a wait only
/// lets the worker idle. With this limit, a worker that is the bottleneck hardly ever waits. A wait in each turn cost a
/// third of its throughput. With 500 clients, which bring 50 events in 200 µs, a fixed limit of 16 events cost a tenth.
const EVENTS_ENOUGH: usize = 16;
/// Requests of a full turn: with deep pipelines, few events are much work. At -P 100 over canned nodes, a worker that
/// never waited did 8.4 million SETs a second. One that waited in full turns did 7.1 million.
const REQUESTS_ENOUGH: u64 = 64;
/// Users would notice a longer wait, whatever it saves.
const WAIT_MAX_US: u64 = 1000;
/// Length of a window, the time over which load and latency are measured.
const WINDOW: Duration = Duration::from_millis(5);
/// Windows that are remembered. The median of their latencies counts. So a window in which the process was stopped or a
/// node forked does not count as a queue. A window between two waves of clients does not end a queue.
const WINDOWS: usize = 8;
/// The worker waits if it is busy for more than this share of a window, in thousandths. Without waits, a worker whose
/// nodes are the limit is busy for 40 to 60 % at -P 1. At a steady third of that load, a wait would only cost latency.
/// The worker is then busy for 27 %, at times for 37 %.
const BUSY_FROM: u128 = 390;
/// The same limit where requests take at least [`LINE`], since a latency this long is no accident. With SETs of 1 KiB
/// at -P 10, the worker is busy for 34 % without waits. Waits bring 19 % more requests.
const BUSY_FROM_IN_LINE: u128 = 280;
/// Latency of a queue that lasts. At a steady third of the nodes' capacity, requests take 70 to 90 µs. Where pipelines
/// of ten wait for nodes, they take a millisecond.
const LINE: Duration = Duration::from_micros(200);
/// The same limit for a window with waits, because waits save time. Each window is compared with its own limit. So
/// waiting that began with a short crowd ends with the crowd and not only after an experiment.
const BUSY_FROM_WAITING: u128 = 220;
/// If the worker is busy for less than this and does not wait, it writes replies after each event. At a steady 36,000
/// GET/s (busy for 45 %) this takes 30 of 176 µs off the median. A worker that is the bottleneck has full turns:
/// writing after each event cost it 22 % of its requests at -P 10.
const PROMPT_UNTIL: u128 = 700;

impl FromStr for Batching {
    type Err = String;

    fn from_str(text: &str) -> Result<Batching, String> {
        match (text, text.parse::<u64>()) {
            ("auto", _) => Ok(Batching::Auto),
            ("off", _) | (_, Ok(0)) => Ok(Batching::Off),
            (_, Ok(us)) if us <= WAIT_MAX_US => Ok(Batching::Fixed(Duration::from_micros(us))),
            _ => Err(format!("write auto, off, or microseconds up to {WAIT_MAX_US}")),
        }
    }
}

/// Decides for each turn whether to wait, from how busy the worker was and from the recent latency of requests.
#[derive(Debug)]
pub(crate) struct Policy {
    batching: Batching,
    window: Window,
    /// Whether the worker writes replies after each event.
    is_prompt: bool,
    /// Latency in each of the last windows.
    latencies: [Duration; WINDOWS],
    /// Share of each window for which the worker was busy, in thousandths.
    busy: [u128; WINDOWS],
    /// For each window, the share from which the worker counted as busy.
    busy_from: [u128; WINDOWS],
    /// Mean round of clients in each window.
    rounds: [Duration; WINDOWS],
    /// The wait that the last window would allow; zero for none.
    possible: Duration,
    /// Events from which a turn is full, so that the worker does not wait.
    enough: usize,
    experiment: Experiment,
    /// The present wait; zero for none.
    wait: Duration,
    /// Requests that had been sent when the last turn ended.
    asked: u64,
}

/// The facts about a turn, up to the moment at which the worker may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The beginning of the turn.
    pub now: Instant,
    /// Number of events.
    pub events: usize,
    /// Number of clients, idle ones included.
    pub connected: u64,
    /// Number of clients that wait for replies.
    pub clients: usize,
    /// Number of requests and fragments in flight to nodes.
    pub in_flight: usize,
    /// Approximate number of requests that were ever sent, including those answered here.
    pub asked: u64,
    /// Rounds of clients since the worker began.
    pub rounds: Rounds,
}

/// The current window.
#[derive(Debug)]
struct Window {
    began: Instant,
    /// Time in which the worker was idle.
    idle: Duration,
    /// Sum over requests of their time in flight, in ns.
    flight_ns: u64,
    /// The instant up to which `flight_ns` is complete.
    flight_until: Instant,
    /// Requests in flight since then.
    in_flight: usize,
    events: usize,
    /// Requests that had been sent when the window began.
    asked: u64,
    /// Rounds of clients up to the window.
    rounds: Rounds,
}

impl Window {
    fn new(began: Instant, in_flight: usize, asked: u64, rounds: Rounds) -> Window {
        Window {
            began,
            idle: Duration::ZERO,
            flight_ns: 0,
            flight_until: began,
            in_flight,
            events: 0,
            asked,
            rounds,
        }
    }

    /// The mean time from the arrival of a request here until its reply was read. Our own waits are excluded: they
    /// would otherwise justify longer waits.
    fn latency(&self, asked: u64) -> Duration {
        Duration::from_nanos(self.flight_ns / (asked - self.asked).max(1))
    }
}

impl Policy {
    pub(crate) fn new(batching: Batching, now: Instant) -> Policy {
        Policy {
            batching,
            window: Window::new(now, 0, 0, Rounds::default()),
            is_prompt: !matches!(batching, Batching::Fixed(_)),
            latencies: [Duration::ZERO; WINDOWS],
            busy: [0; WINDOWS],
            busy_from: [BUSY_FROM; WINDOWS],
            rounds: [Duration::ZERO; WINDOWS],
            possible: Duration::ZERO,
            enough: EVENTS_ENOUGH,
            experiment: Experiment::new(),
            wait: Duration::ZERO,
            asked: 0,
        }
    }

    /// Counts the time from `from` to `until` as idle.
    pub(crate) fn note_idle(&mut self, from: Instant, until: Instant) {
        self.window.idle += until.since(from);
    }

    /// Counts the time from `from` to `until` as a wait for more requests.
    pub(crate) fn note_wait(&mut self, from: Instant, until: Instant) {
        self.note_idle(from, until);
        self.window.flight_until = until;
    }

    /// Ends a turn; about `asked` requests were ever sent.
    pub(crate) fn note_turn(&mut self, asked: u64) {
        self.asked = asked;
    }

    /// The wait that the next turns may have; zero if they have none.
    pub(crate) fn possible_wait(&self) -> Duration {
        match self.batching {
            Batching::Off => Duration::ZERO,
            Batching::Fixed(wait) => wait,
            Batching::Auto => self.wait,
        }
    }

    /// Whether to write replies after each event of a turn instead of at its end.
    pub(crate) fn is_prompt(&self) -> bool {
        self.is_prompt
    }

    /// Whether the worker has more work than time, so that saving writes pays.
    pub(crate) fn is_pressed(&self) -> bool {
        self.batching != Batching::Off && !self.is_prompt
    }

    /// The wait for more requests before this turn's work is done.
    pub(crate) fn wait(&mut self, turn: &Turn) -> Option<Duration> {
        self.measure(turn);
        match self.batching {
            Batching::Off => None,
            Batching::Fixed(wait) => (turn.events >= 2 && turn.clients >= 2).then_some(wait),
            Batching::Auto => {
                let came = turn.asked.saturating_sub(self.asked);
                let is_full = turn.events >= self.enough || came >= REQUESTS_ENOUGH;
                let is_open = turn.clients >= 2 && !is_full;
                (is_open && !self.wait.is_zero()).then_some(self.wait)
            }
        }
    }

    /// Adds a turn to the window. At the end of the window, decides about the next one.
    fn measure(&mut self, turn: &Turn) {
        let window = &mut self.window;
        let since = turn.now.since(window.flight_until).as_nanos() as u64;
        window.flight_ns = window.flight_ns.saturating_add(since.saturating_mul(window.in_flight as u64));
        (window.flight_until, window.in_flight) = (turn.now, turn.in_flight);
        window.events += turn.events;
        let length = turn.now.since(window.began);
        if length < WINDOW {
            return;
        }
        self.busy.rotate_left(1);
        self.busy[WINDOWS - 1] = length.saturating_sub(window.idle).as_nanos() * 1000 / length.as_nanos();
        self.latencies.rotate_left(1);
        self.latencies[WINDOWS - 1] = window.latency(turn.asked);
        let latency = median(self.latencies);
        self.busy_from.rotate_left(1);
        self.busy_from[WINDOWS - 1] = match self.wait.is_zero() {
            true if latency >= LINE => BUSY_FROM_IN_LINE,
            true => BUSY_FROM,
            false => BUSY_FROM_WAITING,
        };
        let busy = self.busy.iter().sum::<u128>() / WINDOWS as u128;
        let is_busy = busy > self.busy_from.iter().sum::<u128>() / WINDOWS as u128;
        if !self.possible.is_zero() {
            self.experiment.note_window(turn.asked - window.asked, length, turn.connected, turn.now);
        }
        self.rounds.rotate_left(1);
        self.rounds[WINDOWS - 1] = turn.rounds.mean_since(&window.rounds);
        let enough = (latency / AUTO_PART_OF_LATENCY).clamp(AUTO_WAIT, AUTO_WAIT_MAX);
        let wait = (mean(&self.rounds) / PART_OF_ROUND).min(enough);
        // Assumes that events arrive at the same rate.
        let expected = window.events as u128 * wait.as_nanos() / length.as_nanos();
        self.enough = EVENTS_ENOUGH.max(expected as usize / 2);
        let stands_in_line = latency >= LATENCY_MIN;
        let is_possible = is_busy && stands_in_line && wait >= WAIT_MIN && expected > 0;
        self.possible = if is_possible { wait } else { Duration::ZERO };
        self.wait = if self.experiment.waits() { self.possible } else { Duration::ZERO };
        let would_wait = match self.batching {
            Batching::Off => false,
            Batching::Auto => !self.wait.is_zero(),
            Batching::Fixed(_) => true,
        };
        self.is_prompt = busy < PROMPT_UNTIL && !would_wait;
        self.window = Window::new(turn.now, turn.in_flight, turn.asked, turn.rounds);
    }
}

fn mean(times: &[Duration; WINDOWS]) -> Duration {
    times.iter().sum::<Duration>() / WINDOWS as u32
}

fn median(mut times: [Duration; WINDOWS]) -> Duration {
    times.sort_unstable();
    times[WINDOWS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Load of a worker, applied ten times per window, for as many windows as are remembered.
    #[derive(Clone, Copy, Debug)]
    struct Load {
        /// Per window of 5 ms.
        idle_us: u64,
        in_flight: usize,
        requests_per_s: u64,
        events_per_request: usize,
        /// Clients' rounds.
        round_us: u64,
    }

    /// 50 clients, each of which sends its next request after its last reply. The nodes are the limit.
    const IN_LINE: Load =
        Load { idle_us: 2_000, in_flight: 6, requests_per_s: 60_000, events_per_request: 2, round_us: 800 };

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    /// Two of 50 clients wait for replies.
    fn turn(now: Instant, events: usize) -> Turn {
        let rounds = Rounds::default();
        Turn { now, events, connected: 50, clients: 2, in_flight: 2, asked: 0, rounds }
    }

    /// The possible wait after `loads`.
    fn wait_after(loads: &[Load]) -> Option<Duration> {
        let mut policy = Policy::new(Batching::Auto, at(0));
        follow(&mut policy, loads);
        (!policy.possible.is_zero()).then_some(policy.possible)
    }

    /// Applies `loads`, which do not depend on the waits.
    fn follow(policy: &mut Policy, loads: &[Load]) {
        follow_on(policy, 0, loads);
    }

    /// The same from `now_us` on.
    fn follow_on(policy: &mut Policy, mut now_us: u64, loads: &[Load]) {
        for load in loads {
            follow_windows(policy, now_us, WINDOWS, *load);
            now_us += WINDOWS as u64 * 5_000;
        }
    }

    /// Applies `load` for `windows`.
    fn follow_windows(policy: &mut Policy, mut now_us: u64, windows: usize, load: Load) {
        let (mut asked, mut rounds) = (policy.asked, policy.window.rounds);
        for _ in 0..10 * windows {
            policy.note_idle(at(now_us), at(now_us + load.idle_us / 10));
            now_us += 500;
            let came = load.requests_per_s / 2_000;
            asked += came;
            rounds = Rounds { count: rounds.count + came, ns: rounds.ns + came * load.round_us * 1000 };
            let events = came as usize * load.events_per_request;
            let in_flight = load.in_flight;
            policy.wait(&Turn {
                now: at(now_us),
                events,
                connected: 50,
                clients: in_flight,
                in_flight,
                asked,
                rounds,
            });
            policy.note_turn(asked);
        }
    }

    #[test]
    fn queued_requests_wait_a_tenth_of_a_client_round() {
        let waits = |round_us| wait_after(&[Load { round_us, ..IN_LINE }]);
        assert_eq!(waits(500), Some(Duration::from_micros(50)));
        assert_eq!(waits(1_500), Some(Duration::from_micros(150)));
        assert_eq!(waits(60_000), Some(AUTO_WAIT));
        assert_eq!(waits(190), None, "not worth a call");
        // 72 in flight at 60,000/s: 1.2 ms; 240: 4 ms.
        let waits = |in_flight| wait_after(&[Load { round_us: 60_000, in_flight, ..IN_LINE }]);
        assert_eq!(waits(72), Some(Duration::from_micros(300)), "a quarter of 1.2 ms");
        assert_eq!(waits(240), Some(AUTO_WAIT_MAX));
    }

    #[test]
    fn a_long_queue_lowers_the_busy_limit() {
        let load = Load { idle_us: 3_300, requests_per_s: 230_000, round_us: 2_100, ..IN_LINE };
        let pipelines = Load { in_flight: 300, ..load };
        assert!(wait_after(&[pipelines; 2]).is_some(), "34 % and 1.3 ms");
        let steady = Load { in_flight: 18, ..load };
        assert_eq!(wait_after(&[steady; 2]), None, "34 % and 78 us");
        let at_leisure = Load { idle_us: 3_700, ..pipelines };
        assert_eq!(wait_after(&[at_leisure; 2]), None, "26 %");
    }

    #[test]
    fn waves_of_clients_count_as_a_queue() {
        let mut policy = Policy::new(Batching::Auto, at(0));
        let wave = Load { idle_us: 500, in_flight: 30, round_us: 60_000, ..IN_LINE };
        let trough = Load { idle_us: 4_500, in_flight: 1, requests_per_s: 4_000, ..wave };
        let mut now_us = 0;
        for window in 0..WINDOWS * 4 {
            follow_windows(&mut policy, now_us, 1, if window % 3 == 2 { trough } else { wave });
            now_us += 5_000;
            assert!(window < WINDOWS || policy.possible == AUTO_WAIT, "in window {window}");
        }
    }

    #[test]
    fn the_worker_does_not_wait_if_it_costs_more_than_it_brings() {
        let quick = Load { in_flight: 2, ..IN_LINE };
        assert_eq!(wait_after(&[quick]), None, "33 us a request: nobody stands in line");
        let seldom = Load { in_flight: 3, requests_per_s: 6_000, events_per_request: 1, ..IN_LINE };
        assert_eq!(wait_after(&[seldom]), None, "nobody else comes within 100 us");
        let at_leisure = Load { idle_us: 4_000, ..IN_LINE };
        assert_eq!(wait_after(&[at_leisure]), None, "the worker has time");
        let none = Load { requests_per_s: 0, in_flight: 0, ..IN_LINE };
        assert_eq!(wait_after(&[none]), None);
    }

    #[test]
    fn a_wait_that_does_not_pay_is_tried_and_dropped() {
        let mut policy = Policy::new(Batching::Auto, at(0));
        follow(&mut policy, &[IN_LINE; 2]);
        let first = policy.experiment.waits();
        assert_eq!(!policy.wait.is_zero(), first);
        follow_on(&mut policy, 2 * WINDOWS as u64 * 5_000, &[IN_LINE; 8]);
        assert!(!policy.possible.is_zero() && policy.wait.is_zero(), "no more requests come for it");
    }

    #[test]
    fn stalls_and_our_own_waits_do_not_count_as_a_queue() {
        let mut policy = Policy::new(Batching::Auto, at(0));
        let mut turn = turn(at(0), 300);
        for window in 1..=WINDOWS as u64 * 2 {
            // 2 in flight and 400 in 6 ms: 30 µs. In every third window, 50 make no progress.
            turn.in_flight = if window % 3 == 0 { 50 } else { 2 };
            let began = at(window * 6_000 - 5_500);
            (turn.now, turn.asked) = (began, turn.asked + 400);
            policy.wait(&turn);
            turn.now = at(window * 6_000);
            policy.wait(&turn);
            assert_eq!(policy.possible, Duration::ZERO, "in window {window}");
        }
        let flight_ns = policy.window.flight_ns;
        let until = turn.now + Duration::from_millis(1);
        policy.note_wait(turn.now, until);
        policy.wait(&Turn { now: until, ..turn });
        assert_eq!(policy.window.flight_ns, flight_ns);
    }

    #[test]
    fn a_lone_client_and_a_full_turn_never_wait() {
        let mut policy = Policy::new(Batching::Auto, at(0));
        policy.wait = WAIT_MIN;
        let turn = turn(at(10), 2);
        assert_eq!(policy.wait(&turn), Some(WAIT_MIN));
        assert_eq!(policy.wait(&Turn { clients: 1, ..turn }), None);
        assert_eq!(policy.wait(&Turn { events: EVENTS_ENOUGH, ..turn }), None);
        assert_eq!(policy.wait(&Turn { asked: REQUESTS_ENOUGH, ..turn }), None, "one deep pipeline");
        policy.note_turn(1);
        assert_eq!(policy.wait(&Turn { asked: REQUESTS_ENOUGH, ..turn }), Some(WAIT_MIN));
    }

    /// Applies `load` for `windows` from `now_us` on, and `saved` in windows in which the worker waits. Returns the
    /// number of windows with waits.
    fn follow_saving(policy: &mut Policy, now_us: &mut u64, windows: u32, load: Load, saved: Load) -> u32 {
        let mut waited = 0;
        for _ in 0..windows {
            let waits = !policy.wait.is_zero();
            waited += u32::from(waits);
            follow_windows(policy, *now_us, 1, if waits { saved } else { load });
            *now_us += 5_000;
        }
        waited
    }

    #[test]
    fn time_saved_by_waiting_does_not_end_the_waiting() {
        let (mut policy, mut now_us) = (Policy::new(Batching::Auto, at(0)), 0);
        let saved = Load { idle_us: 3_700, requests_per_s: 80_000, ..IN_LINE };
        follow_saving(&mut policy, &mut now_us, 50, IN_LINE, saved);
        assert_eq!(follow_saving(&mut policy, &mut now_us, 100, IN_LINE, saved), 100);
        let idle = Load { idle_us: 4_000, ..saved };
        follow_saving(&mut policy, &mut now_us, WINDOWS as u32, idle, idle);
        let waited = follow_saving(&mut policy, &mut now_us, 100, saved, saved);
        assert_eq!(waited, 0, "and it does not begin again at once");
    }

    #[test]
    fn waiting_ends_with_the_crowd_that_caused_it() {
        let (mut policy, mut now_us) = (Policy::new(Batching::Auto, at(0)), 0);
        let steady = Load { idle_us: 3_650, in_flight: 2, requests_per_s: 18_000, ..IN_LINE };
        let crowd = Load { idle_us: 2_000, in_flight: 3, ..steady };
        let mut follow = |windows, load| follow_saving(&mut policy, &mut now_us, windows, load, load);
        for _ in 0..20 {
            let waited = follow(WINDOWS as u32 / 2, crowd) + follow(80, steady);
            assert!(waited <= WINDOWS as u32, "{waited}: longer than it is remembered");
        }
        // By then an experiment over all these moments has ended. Its result holds for 200 windows.
        assert!(follow(240, crowd) > 0, "one that stays is waited for");
    }

    #[test]
    fn a_worker_with_time_writes_replies_after_each_event() {
        let prompt_after = |batching, load: Load| {
            let mut policy = Policy::new(batching, at(0));
            follow(&mut policy, &[load]);
            policy.is_prompt()
        };
        let at_leisure = Load { idle_us: 4_000, ..IN_LINE };
        let busy = Load { idle_us: 1_000, in_flight: 2, ..IN_LINE };
        assert!(prompt_after(Batching::Auto, at_leisure) && prompt_after(Batching::Off, at_leisure));
        assert!(!prompt_after(Batching::Auto, busy) && !prompt_after(Batching::Off, busy));
        assert!(
            !prompt_after(Batching::Fixed(WAIT_MIN), at_leisure),
            "what is written at once waits for nobody"
        );
        assert!(Policy::new(Batching::Auto, at(0)).is_prompt());
    }

    #[test]
    fn a_worker_that_waits_writes_replies_at_the_end_of_the_turn() {
        let mut policy = Policy::new(Batching::Auto, at(0));
        let saved = Load { idle_us: 3_200, ..IN_LINE };
        follow(&mut policy, &[IN_LINE, saved]);
        let mut waits = 0;
        for window in 2 * WINDOWS as u64..3 * WINDOWS as u64 {
            follow_windows(&mut policy, window * 5_000, 1, saved);
            assert_eq!(policy.is_prompt(), policy.wait.is_zero(), "in window {window}");
            waits += usize::from(!policy.is_prompt());
        }
        assert!((1..WINDOWS).contains(&waits), "{waits} of the windows of an experiment are with waits");
    }

    #[test]
    fn a_fixed_wait_needs_two_clients() {
        let wait = Duration::from_micros(5);
        let mut policy = Policy::new(Batching::Fixed(wait), at(0));
        let turn = turn(at(1), 2);
        assert_eq!(policy.wait(&turn), Some(wait));
        assert_eq!(policy.wait(&Turn { events: 1, clients: 50, ..turn }), None);
        assert_eq!(
            policy.wait(&Turn { events: 4, clients: 1, ..turn }),
            None,
            "a split request is one client"
        );
        assert_eq!(Policy::new(Batching::Off, at(0)).wait(&Turn { events: 9, clients: 9, ..turn }), None);
    }

    #[test]
    fn an_invalid_option_lists_the_valid_values() {
        assert_eq!("auto".parse(), Ok(Batching::Auto));
        assert_eq!("off".parse(), Ok(Batching::Off));
        assert_eq!("0".parse(), Ok(Batching::Off));
        assert_eq!("50".parse(), Ok(Batching::Fixed(Duration::from_micros(50))));
        for text in ["", "-1", "1001", "always", "5us"] {
            assert!(text.parse::<Batching>().is_err(), "{text}");
        }
    }
}
