//! The state of discovery, for INFO. The discovery shows it on the board.

use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};
use stdx::Instant;

/// Results of the discovery so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The epoch of the last topology that workers got.
    pub epoch: u64,
    /// Usable answers.
    pub answers: u64,
    /// Questions without an answer.
    pub failures: u64,
    /// Answers of nodes that know less than shardis does, or belong to another cluster.
    pub refusals: u64,
    /// Shards whose primary became another node.
    pub failovers: u64,
    /// The time of the last usable answer.
    pub answered_at: Option<Instant>,
}

/// The place where discovery shows its state. Without discovery, it is empty.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryBoard(Mutex<Option<Discovered>>);

impl DiscoveryBoard {
    pub(crate) fn show(&self, discovered: Discovered) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(discovered);
    }

    /// The state as shown last; `None` without discovery.
    pub(crate) fn shown(&self) -> Option<Discovered> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of INFO, as of `now`.
    pub(crate) fn write(&self, now: Instant, out: &mut String) -> fmt::Result {
        let Some(Discovered { epoch, answers, failures, refusals, answered_at, .. }) = self.shown() else {
            return Ok(());
        };
        write!(out, "discovery_epoch:{epoch}\r\ndiscovery_answers:{answers}\r\n")?;
        write!(out, "discovery_failures:{failures}\r\ndiscovery_refusals:{refusals}\r\n")?;
        match answered_at {
            Some(at) => write!(out, "discovery_last_answer_ms_ago:{}\r\n", now.since(at).as_millis()),
            None => write!(out, "discovery_last_answer_ms_ago:-1\r\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_shows_the_state_of_discovery_if_there_is_one() {
        let (board, mut text) = (DiscoveryBoard::default(), String::new());
        board.write(Instant::ZERO, &mut text).expect("a string takes all");
        assert_eq!(text, "");
        board.show(Discovered { epoch: 2, answers: 3, failures: 4, refusals: 5, ..Discovered::default() });
        board.write(Instant::ZERO, &mut text).expect("a string takes all");
        let expected = "discovery_epoch:2\r\ndiscovery_answers:3\r\ndiscovery_failures:4\r\n\
            discovery_refusals:5\r\ndiscovery_last_answer_ms_ago:-1\r\n";
        assert_eq!(text, expected);
        board.show(Discovered { answered_at: Some(Instant::from_nanos(1_000_000)), ..Discovered::default() });
        text.clear();
        board.write(Instant::from_nanos(8_500_000), &mut text).expect("a string takes all");
        assert!(text.ends_with("discovery_last_answer_ms_ago:7\r\n"), "{text}");
    }
}
