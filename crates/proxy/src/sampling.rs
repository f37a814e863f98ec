//! Samples of requests: for whole times, hot keys and the slow log.
//!
//! Requests of a worker have numbers. The worker knows the next number that one of the three wants, so nearly all requests
//! cost nothing here. A run of requests ends there. After any other request one comparison is made.

pub(crate) mod take;
pub(crate) mod way;
pub(crate) mod whole;

use crate::sampling::whole::Followed;
use stdx::Prng;

/// One request in this many has its whole time measured, on average: the distances vary, so that samples do not keep step with
/// the load.
pub const LATENCY_SAMPLE_ONE_IN: u64 = 64;

/// The samples of a worker.
#[derive(Debug)]
pub(crate) struct Sampling {
    /// The number of requests at which the last one is a sample. More were never read, except while one is taken.
    due_at: u64,
    /// The number of the next request whose whole time is measured. The first request has the number 0.
    time_at: u64,
    prng: Prng,
    pub followed: Followed,
}

impl Sampling {
    pub(crate) fn new(seed: u64) -> Sampling {
        let mut prng = Prng::new(seed);
        let time_at = prng.below(LATENCY_SAMPLE_ONE_IN);
        Sampling { due_at: 0, time_at, prng, followed: Followed::default() }
    }

    /// The number of requests up to the next sample and with it, if `requests` were read.
    #[inline(always)]
    pub(crate) fn distance(&self, requests: u64) -> usize {
        self.due_at.wrapping_sub(requests) as usize
    }

    /// Whether the last of `requests` is a sample.
    #[inline(always)]
    pub(crate) fn is_due(&self, requests: u64) -> bool {
        requests >= self.due_at
    }

    /// Whether the whole time of the last of `requests` is measured. It is asked once for each sample.
    fn takes_time(&mut self, requests: u64) -> bool {
        let is_due = requests > self.time_at;
        if is_due {
            self.time_at = requests + self.prng.below(2 * LATENCY_SAMPLE_ONE_IN - 1);
        }
        is_due
    }

    /// Finds the next sample after `requests`, if other kinds want the number `others_at`.
    fn plan(&mut self, requests: u64, others_at: u64) {
        self.due_at = self.time_at.min(others_at).max(requests) + 1;
    }
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling::new(0)
    }
}
