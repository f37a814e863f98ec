//! Duration of clients' rounds.

use std::time::Duration;

/// Durations of rounds, over all clients. A round lasts from one request of a client to its next. If the client sends a
/// request after each reply, this is the whole time that a request takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Number of rounds that have ended.
    pub count: u64,
    /// Their total duration in ns. A round counts for at most [`Rounds::TIME_MAX`].
    pub ns: u64,
}

impl Rounds {
    /// A longer round counts as this long: a client that was silent for a minute must not outweigh all others.
    pub const TIME_MAX: Duration = Duration::from_millis(10);

    /// Adds a round.
    #[inline]
    pub fn note(&mut self, time: Duration) {
        self.count += 1;
        self.ns += (time.as_nanos() as u64).min(Self::TIME_MAX.as_nanos() as u64);
    }

    /// Mean duration of the rounds since `earlier`; zero if there were none.
    #[inline]
    pub fn mean_since(&self, earlier: &Rounds) -> Duration {
        Duration::from_nanos((self.ns - earlier.ns).checked_div(self.count - earlier.count).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_sends_often_counts_for_more() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.mean_since(&Rounds::default()), Duration::ZERO);
        rounds.note(Duration::from_secs(60));
        assert_eq!(rounds.mean_since(&Rounds::default()), Rounds::TIME_MAX);
        let before = rounds;
        (0..9).for_each(|_| rounds.note(Duration::from_millis(1)));
        assert_eq!(rounds.mean_since(&before), Duration::from_millis(1));
        rounds.note(Duration::from_secs(1));
        assert_eq!(rounds.mean_since(&before), Duration::from_micros(1_900));
    }
}
