//! Latencies of all rounds of a kind together, beside quiet times before and after each.
//!
//! A 99th percentile below a millisecond is noisy over one second on a machine that the clients share. Two quiet seconds differ
//! by more than a quarter. So the requests of many rounds are taken together. So are the quiet times on both sides of each, so
//! that a drift weighs on both alike.
//!
//! Drawing the rounds anew, with repetition, shows how far the ratio can be trusted. Requests of one round are not independent
//! of each other, and rounds are.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use stdx::prng::Prng;

use super::ledger::PACE;

/// Latencies of some time, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Times(Histogram<u64>);

/// Latencies of one round: in the quiet times, and during the fault.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) quiet: Times,
    pub(super) during: Times,
}

/// One quantile of all rounds together.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Compared {
    /// In percent.
    pub(super) percentile: f64,
    pub(super) quiet_us: f64,
    pub(super) during_us: f64,
    pub(super) ratio: f64,
    /// 95 of 100 draws of the rounds have a ratio between these.
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Some rounds together.
#[derive(Debug, Serialize)]
pub(super) struct Pool {
    pub(super) what: String,
    pub(super) rounds: usize,
    pub(super) requests_quiet: u64,
    pub(super) requests_during: u64,
    pub(super) compared: Vec<Compared>,
}

/// The slowest latency: clients give up earlier.
const SLOWEST: Duration = Duration::from_secs(10);
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];
/// Number of times that the rounds are drawn anew: the ends of the interval then rest on 25 draws each.
const DRAWS: usize = 1000;
/// The same for each run, so that reports on kept rounds do not change.
const SEED: u64 = 1;

impl Times {
    pub(super) fn none() -> Times {
        let bounds = Histogram::new_with_bounds(100, SLOWEST.as_nanos() as u64, 3);
        Times(bounds.expect("100 ns is less than half of ten seconds"))
    }

    /// Of requests that came as they came.
    pub(super) fn of(times: impl Iterator<Item = Duration>) -> Times {
        let mut all = Times::none();
        times.for_each(|time| all.0.saturating_record(time.as_nanos() as u64));
        all
    }

    /// The times of clients that send one request each [`PACE`] and none before the last was answered. Requests that a waiting
    /// client did not send count as sent. Each counts with the rest of the wait, if that is at least [`PACE`].
    pub(super) fn at_pace(times: impl Iterator<Item = Duration>) -> Times {
        let mut all = Times::none();
        for time in times {
            let nanos = time.min(SLOWEST).as_nanos() as u64;
            all.0.record_correct(nanos, PACE.as_nanos() as u64).expect("it is no more than the bound");
        }
        all
    }

    pub(super) fn and(mut self, other: &Times) -> Times {
        self.add(other);
        self
    }

    fn add(&mut self, other: &Times) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    fn us(&self, percentile: f64) -> f64 {
        self.0.value_at_percentile(percentile) as f64 / 1000.0
    }
}

impl Pool {
    /// All of `rounds`; `None` if there are none.
    pub(super) fn of(what: String, rounds: &[&Sides]) -> Option<Pool> {
        let all = merged(rounds.iter().copied());
        if all.quiet.0.is_empty() || all.during.0.is_empty() {
            return None;
        }
        let drawn = draw(rounds);
        let compared = PERCENTILES.iter().zip(drawn).map(|(&percentile, ratios)| {
            let (least, most) = middle(ratios);
            Compared {
                percentile,
                quiet_us: all.quiet.us(percentile),
                during_us: all.during.us(percentile),
                ratio: all.ratio(percentile),
                least,
                most,
            }
        });
        Some(Pool {
            what,
            rounds: rounds.len(),
            requests_quiet: all.quiet.0.len(),
            requests_during: all.during.0.len(),
            compared: compared.collect(),
        })
    }

    /// In a line.
    pub(super) fn line(&self) -> String {
        let compared = self.compared.iter().map(|compared| {
            let Compared { percentile, quiet_us, during_us, ratio, least, most } = compared;
            format!("p{percentile} {ratio:.2} [{least:.2} to {most:.2}] ({quiet_us:.0} -> {during_us:.0} us)")
        });
        let compared: Vec<String> = compared.collect();
        let Pool { what, rounds, requests_quiet, requests_during, .. } = self;
        format!(
            "{what}, {rounds} rounds ({requests_quiet} requests in quiet times, {requests_during} during): {}",
            compared.join(", ")
        )
    }
}

impl Sides {
    fn ratio(&self, percentile: f64) -> f64 {
        // Quiet times have requests, and none takes less than a tenth of a microsecond.
        self.during.us(percentile) / self.quiet.us(percentile).max(0.1)
    }
}

fn merged<'a>(rounds: impl Iterator<Item = &'a Sides>) -> Sides {
    let mut all = Sides { quiet: Times::none(), during: Times::none() };
    for round in rounds {
        all.quiet.add(&round.quiet);
        all.during.add(&round.during);
    }
    all
}

/// The ratios of each percentile, as many as [`DRAWS`].
fn draw(rounds: &[&Sides]) -> [Vec<f64>; PERCENTILES.len()] {
    let mut prng = Prng::new(SEED);
    let mut ratios: [Vec<f64>; PERCENTILES.len()] = Default::default();
    for _ in 0..DRAWS {
        let drawn = merged((0..rounds.len()).map(|_| *prng.pick(rounds)));
        for (percentile, ratios) in PERCENTILES.iter().zip(&mut ratios) {
            ratios.push(drawn.ratio(*percentile));
        }
    }
    ratios
}

/// Between which values 95 of 100 lie.
fn middle(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let outside = values.len() / 40;
    (values[outside], values[values.len() - 1 - outside])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(us: impl IntoIterator<Item = u64>) -> Times {
        Times::of(us.into_iter().map(Duration::from_micros))
    }

    fn is_about(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 0.002
    }

    #[test]
    fn rounds_weigh_as_much_as_they_have_requests() {
        // Of 300 during, the slowest three are the 99th percentile's place and above; alone, the short round would have 1.0.
        let short = Sides { quiet: times(1..=100), during: times(1..=100) };
        let long = Sides { quiet: times(1..=100), during: times((1..=200).map(|us| us * 2)) };
        let pool = Pool::of("some".to_owned(), &[&short, &long]).expect("there are requests");
        assert_eq!((pool.rounds, pool.requests_quiet, pool.requests_during), (2, 200, 300));
        let p99 = &pool.compared[1];
        assert!(is_about(p99.quiet_us, 99.0), "{p99:?}");
        assert!(is_about(p99.during_us, 394.0), "{p99:?}");
        assert!(is_about(p99.ratio, 394.0 / 99.0), "{p99:?}");
    }

    #[test]
    fn rounds_that_are_alike_are_certain() {
        let same = Sides { quiet: times([100; 50]), during: times([120; 50]) };
        let pool = Pool::of("same".to_owned(), &[&same, &same, &same]).expect("there are requests");
        for compared in &pool.compared {
            assert_eq!((compared.least, compared.most), (compared.ratio, compared.ratio), "{compared:?}");
            assert!(is_about(compared.ratio, 1.2), "{compared:?}");
        }
        let slow = Sides { quiet: times([100; 50]), during: times([200; 50]) };
        let pool = Pool::of("mixed".to_owned(), &[&same, &slow]).expect("there are requests");
        let p99 = &pool.compared[1];
        assert!(is_about(p99.least, 1.2) && is_about(p99.most, 2.0), "{p99:?}");
    }

    #[test]
    fn requests_that_could_not_be_sent_count_as_well() {
        // Sent each 2 ms, and one was answered after 9: of the four that were due meanwhile, three would have waited 7, 5 and 3.
        let waited = Times::at_pace([Duration::from_millis(9), Duration::from_millis(1)].into_iter());
        assert_eq!(waited.0.len(), 5);
        assert!(is_about(waited.us(50.0), 5000.0), "{}", waited.us(50.0));
        assert_eq!(Times::of([Duration::from_millis(9)].into_iter()).0.len(), 1);
    }

    #[test]
    fn without_requests_there_is_no_pool() {
        assert!(Pool::of("none".to_owned(), &[]).is_none());
        let empty = Sides { quiet: times([1]), during: Times::none() };
        assert!(Pool::of("none".to_owned(), &[&empty]).is_none());
    }

    #[test]
    fn the_middle_leaves_out_as_many_at_both_ends() {
        let values = (0..1000).rev().map(f64::from).collect();
        assert_eq!(middle(values), (25.0, 974.0));
    }
}
