//! Start times of the requests of an open loop, without regard to earlier requests. Pure.

use std::time::Duration;
use stdx::Prng;

/// Intended starts of a Poisson process: gaps are independent and distributed exponentially, as with many independent users.
/// Evenly spaced starts would never meet, and so hide the effects of requests that do. A seed names the whole schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    prng: Prng,
    gap_mean_ns: f64,
    /// In fractions, so that rounding does not change the rate.
    next_ns: f64,
}

impl Schedule {
    /// `rate` starts per second on average; must be above zero.
    pub fn new(rate: f64, seed: u64) -> Schedule {
        debug_assert!(rate > 0.0, "a schedule without starts has no end");
        Schedule { prng: Prng::new(seed), gap_mean_ns: 1e9 / rate, next_ns: 0.0 }
    }

    /// The next start, counted from the beginning of the schedule.
    pub fn next_start(&mut self) -> Duration {
        // In (0, 1]: the logarithm of zero would be a gap without end.
        let even = ((self.prng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.next_ns -= even.ln() * self.gap_mean_ns;
        Duration::from_nanos(self.next_ns as u64)
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
}
