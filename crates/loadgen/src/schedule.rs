//! Start times of the requests of an open loop, without regard to earlier requests. Pure.

use std::time::Duration;
use stdx::Prng;

/// Gaps between starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent gaps of exponential distribution, as with many independent users. Evenly spaced starts would never meet,
    /// and so hide the effects of requests that do.
    Poisson,
    /// Gaps of one length, as in wrk2.
    Even,
}

/// Intended starts. A seed names the whole schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    prng: Prng,
    arrivals: Arrivals,
    gap_mean_ns: f64,
    /// Time in which the rate grows evenly from zero.
    growth_ns: f64,
    /// Starts so far, in mean gaps, as fractions. Rounding therefore does not change the rate.
    count: f64,
}

impl Schedule {
    /// A Poisson process of `rate` starts per second on average; must be above zero.
    pub fn new(rate: f64, seed: u64) -> Schedule {
        debug_assert!(rate > 0.0, "a schedule without starts has no end");
        Schedule {
            prng: Prng::new(seed),
            arrivals: Arrivals::Poisson,
            gap_mean_ns: 1e9 / rate,
            growth_ns: 0.0,
            count: 0.0,
        }
    }

    /// The same with gaps of one length. The first start comes after `phase` gaps, so that several schedules can alternate.
    pub fn even(rate: f64, phase: f64) -> Schedule {
        Schedule { arrivals: Arrivals::Even, count: phase - 1.0, ..Schedule::new(rate, 0) }
    }

    /// The same schedule, with a rate that grows evenly from zero during the first `growth`.
    pub fn growing_for(self, growth: Duration) -> Schedule {
        Schedule { growth_ns: growth.as_nanos() as f64, ..self }
    }

    /// The next start, counted from the beginning of the schedule.
    pub fn next_start(&mut self) -> Duration {
        self.count += match self.arrivals {
            Arrivals::Even => 1.0,
            Arrivals::Poisson => {
                // In (0, 1]: the logarithm of zero would be a gap without end.
                let even = ((self.prng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                -even.ln()
            }
        };
        Duration::from_nanos(self.time_of(self.count) as u64)
    }

    /// The time by which `count` mean gaps have passed. While the rate grows, the starts so far grow with the square of time.
    fn time_of(&self, count: f64) -> f64 {
        let linear = count * self.gap_mean_ns;
        if linear < self.growth_ns / 2.0 {
            (2.0 * linear * self.growth_ns).sqrt()
        } else {
            linear + self.growth_ns / 2.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(rate: f64, seed: u64, count: usize) -> Vec<Duration> {
        let mut schedule = Schedule::new(rate, seed);
        (0..count).map(|_| schedule.next_start()).collect()
    }

    #[test]
    fn a_seed_names_the_schedule() {
        assert_eq!(starts(1000.0, 1, 100), starts(1000.0, 1, 100));
        assert_ne!(starts(1000.0, 1, 100), starts(1000.0, 2, 100));
    }

    #[test]
    fn starts_never_go_back_and_keep_the_rate() {
        let starts = starts(50_000.0, 7, 100_000);
        assert!(starts.is_sorted());
        // The deviation of the sum of n gaps is 1/sqrt(n): 0.3 % here.
        let rate = starts.len() as f64 / starts[starts.len() - 1].as_secs_f64();
        assert!((rate / 50_000.0 - 1.0).abs() < 0.02, "{rate}");
    }

    #[test]
    fn gaps_are_exponential() {
        let starts = starts(1000.0, 3, 100_000);
        let long = starts.windows(2).filter(|pair| pair[1] - pair[0] > Duration::from_millis(1)).count();
        // Longer than the mean are 1/e of them.
        assert!((long as f64 / 1e5 - 0.3679).abs() < 0.01, "{long}");
    }

    #[test]
    fn even_starts_alternate_by_their_phases() {
        let starts = |phase| {
            let mut schedule = Schedule::even(1000.0, phase);
            [(); 3].map(|()| schedule.next_start().as_micros())
        };
        assert_eq!(starts(0.0), [0, 1000, 2000]);
        assert_eq!(starts(0.5), [500, 1500, 2500]);
    }

    #[test]
    fn a_growing_rate_reaches_its_end_and_keeps_it() {
        let mut schedule = Schedule::even(1000.0, 0.0).growing_for(Duration::from_secs(2));
        let starts: Vec<_> = (0..3000).map(|_| schedule.next_start().as_secs_f64()).collect();
        let within = |from: f64, to: f64| starts.iter().filter(|at| (from..to).contains(*at)).count();
        // The triangle below the rate's line: a quarter of the first second's half, and the rest of it.
        assert_eq!([within(0.0, 1.0), within(1.0, 2.0), within(2.0, 3.0)], [250, 750, 1000]);
    }
}
