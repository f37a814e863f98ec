//! How long clients' rounds are.

use std::time::Duration;

/// Times from what a client has sent to what the same client sent next, over all clients: for one that sends its next
/// request behind its last reply, all that it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// How many have ended.
    pub count: u64,
    /// How long they were together, in ns; of each no more than [`Rounds::TIME_MAX`] counts.
    pub ns: u64,
}

impl Rounds {
    /// A longer round counts as one of this: a client that was silent for a minute must not outweigh all others.
    pub const TIME_MAX: Duration = Duration::from_millis(10);

    /// One has ended.
    #[inline]
    pub fn note(&mut self, time: Duration) {
        self.count += 1;
        self.ns += (time.as_nanos() as u64).min(Self::TIME_MAX.as_nanos() as u64);
    }

    /// How long those were on average that have ended since they were `earlier`; zero if there were none.
    #[inline]
    pub fn mean_since(&self, earlier: &Rounds) -> Duration {
        Duration::from_nanos((self.ns - earlier.ns).checked_div(self.count - earlier.count).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_often_counts_for_more() {
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
