//! Options of the slow log.

use ::proxy::Slowlog;
use clap::Args;
use std::num::NonZeroU64;

/// The requests that PROXY SLOWLOG shows.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SlowlogArgs {
    /// Microseconds from which on a request is slow, for PROXY SLOWLOG: from the instant when it is queued for its node
    /// to the reply. 0 notes all, -1 none
    #[arg(long, value_name = "US", default_value_t = 10_000, value_parser = clap::value_parser!(i64).range(-1..=600_000_000), allow_hyphen_values = true)]
    slowlog_log_slower_than: i64,

    /// Slow requests that PROXY SLOWLOG keeps
    #[arg(long, value_name = "NUMBER", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    slowlog_max_len: u64,

    /// Requests from one sample to the next, which PROXY SLOWLOG shows beside the slow ones; 0 for no samples
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    slowlog_sample: u64,
}

impl SlowlogArgs {
    /// As the core takes them.
    pub(crate) fn slowlog(&self) -> Slowlog {
        Slowlog {
            slower_than_us: u32::try_from(self.slowlog_log_slower_than).ok(),
            one_in: NonZeroU64::new(self.slowlog_sample),
            len_max: self.slowlog_max_len as usize,
        }
    }
}
