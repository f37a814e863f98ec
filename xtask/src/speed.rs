//! Present speed of this machine. Limits of real time for other projects' tests are stretched by it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use stdx::Prng;

/// Count of random numbers that each thread draws.
const NUMBERS: u64 = 40_000_000;

/// Time of the threads on the machine for which limits are written: two quiet cores of 2.5 GHz.
const USUAL: Duration = Duration::from_millis(250);

/// `limit`, longer by the factor to which this machine is slower than usual. A faster machine changes nothing.
pub(crate) fn stretched(limit: Duration) -> Duration {
    static SLOWNESS: OnceLock<f64> = OnceLock::new();
    let slowness = *SLOWNESS.get_or_init(|| {
        let slowness = slowness(measure());
        println!("speed: time limits are stretched by {slowness:.1}");
        slowness
    });
    limit.mul_f64(slowness)
}

/// Factor to the usual time.
fn slowness(took: Duration) -> f64 {
    (took.as_secs_f64() / USUAL.as_secs_f64()).max(1.0)
}

/// Time of as many threads as run parts of suites.
fn measure() -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for seed in 0..threads() as u64 {
            scope.spawn(move || {
                let mut prng = Prng::new(seed);
                std::hint::black_box((0..NUMBERS).fold(0, |sum, _| sum ^ prng.below(u64::MAX)))
            });
        }
    });
    start.elapsed()
}

/// Number of parts of suites, or tests, that run at the same time: most of them wait most of the time.
pub(crate) fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(2, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_machine_stretches_and_a_fast_one_does_not_shrink() {
        assert_eq!(slowness(USUAL * 3), 3.0);
        assert_eq!(slowness(USUAL / 2), 1.0);
        assert!(stretched(Duration::from_secs(2)) >= Duration::from_secs(2));
    }
}
