//! Remedies for CROSSSLOT.

use crate::errors;
use command::{Across, Command};

/// The remedy for a refused request, beside a hash tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// None: the request is a script, or a command that no option carries out over several shards.
    HashTag,
    /// `--cross-shard=emulate`.
    Emulation,
    /// `--transactions=per-shard`.
    PerShard,
}

impl Remedy {
    /// The remedy outside transactions.
    pub(crate) fn of(command: &Command) -> Remedy {
        match command.across {
            Across::Refused => Remedy::HashTag,
            _ => Remedy::Emulation,
        }
    }

    /// The option of the remedy.
    pub(crate) fn option(self) -> Option<&'static str> {
        match self {
            Remedy::HashTag => None,
            Remedy::Emulation => Some("--cross-shard=emulate"),
            Remedy::PerShard => Some("--transactions=per-shard"),
        }
    }

    /// The whole error. `example` shows two keys with one hash tag, if the keys can have one.
    pub(crate) fn text(self, example: Option<&str>) -> String {
        let tag = example.map(|example| format!("give the keys one hash tag ({example})"));
        let option = self.option().map(|option| format!("start shardis with {option}"));
        let ways: Vec<String> = tag.into_iter().chain(option).collect();
        match ways.is_empty() {
            true => errors::CROSS_SLOT.to_owned(),
            false => format!("{}. To make it work, {}", errors::CROSS_SLOT, ways.join(", or ")),
        }
    }
}
