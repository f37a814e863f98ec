//! Distributions of times, in microseconds.

use histogram::Histogram;

/// Bits that tell neighbouring ranges apart: a time is known to an eighth.
const GROUPING_POWER: u8 = 3;
/// Times are 32 bits of microseconds, 71 minutes.
const VALUE_POWER_MAX: u8 = 32;
/// Number of ranges of the `histogram` crate for these settings.
const RANGES: usize = 240;

/// A distribution of times: counts by ranges that are exact at the powers of two.
///
/// Counting costs ten instructions, where the `histogram` crate takes forty. So only the range of a time is found here;
/// the crate knows the rest.
#[derive(Clone, Debug)]
pub struct Latency {
    /// The last ones stay 0: with as many, no index has to be checked.
    counts: [u64; 256],
    sum_us: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { counts: [0; 256], sum_us: 0 }
    }
}

/// One time, and the range in which it counts.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    us: u32,
    range: u8,
}

impl Time {
    /// From one instant to another, of which the low bits of the microseconds are given.
    #[inline(always)]
    pub(crate) fn between(from_us: u32, to_us: u32) -> Time {
        Time::of(to_us.wrapping_sub(from_us))
    }

    /// The ranges are linear below 16, then there are eight for each power of two.
    #[inline(always)]
    fn of(us: u32) -> Time {
        let shift = (us | 8).ilog2() - u32::from(GROUPING_POWER);
        Time { us, range: ((shift << GROUPING_POWER) + (us >> shift)) as u8 }
    }
}

impl Latency {
    /// Counts a time `times` times.
    #[inline(always)]
    pub(crate) fn count(&mut self, time: Time, times: u64) {
        self.sum_us += u64::from(time.us) * times;
        self.counts[usize::from(time.range)] += times;
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Latency) {
        self.sum_us += other.sum_us;
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
    }

    /// Sum of all times, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Number of times.
    pub fn count_all(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn histogram(&self) -> Histogram {
        let counts = self.counts[..RANGES].to_vec();
        let histogram = Histogram::from_buckets(GROUPING_POWER, VALUE_POWER_MAX, counts);
        histogram.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// For each of `bounds`, which ascend, the number of times below it. It is exact if the bound is a power of two.
    pub fn counts_below(&self, bounds: &[u64]) -> Vec<u64> {
        let histogram = self.histogram();
        let mut ranges = histogram.iter().peekable();
        let mut sum = 0;
        let below = |&bound: &u64| {
            while let Some(range) = ranges.next_if(|range| range.end() < bound) {
                sum += range.count();
            }
            sum
        };
        bounds.iter().map(below).collect()
    }

    /// The time below which a share of `quantile` of all times are, in microseconds: the end of its range. 0 without
    /// any.
    pub fn quantile_us(&self, quantile: f64) -> u64 {
        let histogram = self.histogram();
        let range = histogram.quantile_bucket(quantile).ok().flatten();
        range.map_or(0, |range| range.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(times: &[u32]) -> Latency {
        let mut latency = Latency::default();
        times.iter().for_each(|&us| latency.count(Time::of(us), 1));
        latency
    }

    #[test]
    fn each_time_counts_where_the_crate_counts_it() {
        let around = |power: u32| {
            let at = 1u32.checked_shl(power).unwrap_or(u32::MAX);
            [at.saturating_sub(1), at, at.saturating_add(1), at.saturating_add(at / 3)]
        };
        for us in (0..=32).flat_map(around).chain(0..5000) {
            let mut theirs = Histogram::new(GROUPING_POWER, VALUE_POWER_MAX).expect("valid settings");
            assert_eq!(theirs.as_slice().len(), RANGES);
            theirs.increment(u64::from(us)).expect("in range");
            assert_eq!(theirs.as_slice(), &latency(&[us]).counts[..RANGES], "{us}");
        }
    }

    #[test]
    fn counts_at_powers_of_two_are_exact() {
        let latency = latency(&[0, 1, 63, 64, 65, 127, 128, 1000, u32::MAX]);
        assert_eq!(latency.counts_below(&[1, 64, 128, 1 << 32]), [1, 3, 6, 9]);
        assert_eq!((latency.count_all(), latency.sum_us()), (9, 1448 + u64::from(u32::MAX)));
    }

    #[test]
    fn quantiles_are_right_to_an_eighth() {
        let times: Vec<u32> = (1..=1000).collect();
        let latency = latency(&times);
        for (quantile, us) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = latency.quantile_us(quantile) as f64;
            assert!(found >= us && found <= us * 1.125 + 1.0, "{quantile}: {found}");
        }
        assert_eq!(Latency::default().quantile_us(0.5), 0);
    }

    #[test]
    fn times_of_workers_are_added() {
        let mut sum = latency(&[5, 70]);
        sum.add(&latency(&[5]));
        assert_eq!((sum.count_all(), sum.sum_us()), (3, 80));
    }
}
