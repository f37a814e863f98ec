//! CROSSSLOT: what a client is told whose keys live on several shards, and what the log is told of it.
//!
//! The error begins with Redis's words, since programs look for them. It ends with what would help: one hash tag for the keys,
//! and the option of shardis, if there is one.

use command::{Across, Command};

use crate::core::Core;
use crate::errors;
use crate::event::Notice;
use crate::features::Session;

/// What would make a refused request work, beside a hash tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing: scripts, and commands that no option carries out over several shards.
    HashTag,
    /// `--cross-shard=emulate`.
    Emulation,
    /// `--transactions=per-shard`.
    PerShard,
}

impl Remedy {
    /// What would help outside transactions.
    pub(crate) fn of(command: &Command) -> Remedy {
        match command.across {
            Across::Refused => Remedy::HashTag,
            _ => Remedy::Emulation,
        }
    }

    /// The option that would help.
    fn option(self) -> Option<&'static str> {
        match self {
            Remedy::HashTag => None,
            Remedy::Emulation => Some("--cross-shard=emulate"),
            Remedy::PerShard => Some("--transactions=per-shard"),
        }
    }

    /// The whole error. `example` shows two keys with one hash tag, where keys can have one.
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

impl Core {
    /// Refuses a request since its keys live on several shards. The log is told of the first one of each client.
    #[cold]
    pub(crate) fn refuse_cross_slot(&mut self, session: &mut Session, remedy: Remedy) {
        self.note_cross_slot(session, remedy);
        let example = self.engine.topology.tagged_keys();
        self.refuse(session, &remedy.text(example.as_deref()));
    }

    fn note_cross_slot(&mut self, session: &mut Session, remedy: Remedy) {
        if std::mem::replace(&mut session.features.is_cross_slot_told, true) {
            return;
        }
        let (client, peer) = (session.origin.client, session.origin.peer.to_string());
        let (command, option) = (self.engine.asking.name().unwrap_or("unknown"), remedy.option());
        self.notice(Notice::CrossSlot { client, peer, command, option });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_ends_with_what_would_help() {
        let text = |remedy: Remedy, example| remedy.text(example).replace(errors::CROSS_SLOT, "…");
        let example = Some("a{tag}, b{tag}");
        assert_eq!(
            text(Remedy::HashTag, example),
            "…. To make it work, give the keys one hash tag (a{tag}, b{tag})"
        );
        assert_eq!(
            text(Remedy::Emulation, example),
            "…. To make it work, give the keys one hash tag (a{tag}, b{tag}), or start shardis with --cross-shard=emulate"
        );
        assert_eq!(
            text(Remedy::PerShard, None),
            "…. To make it work, start shardis with --transactions=per-shard"
        );
        assert_eq!(text(Remedy::HashTag, None), "…");
    }
}
