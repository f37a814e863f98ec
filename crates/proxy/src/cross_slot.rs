//! CROSSSLOT: the error for keys on several shards, for the client and for the log.
//!
//! The error begins with Redis's words, since programs look for them. It ends with the remedy: one hash tag for the
//! keys, and an option of shardis, if there is one.

pub(crate) mod remedy;

use crate::context::Context;
use crate::cross_slot::remedy::Remedy;

use crate::event::Notice;
use crate::features::Session;

/// Refuses a request whose keys are on several shards. The log gets the first such request of each client.
#[cold]
pub(crate) fn refuse_cross_slot(cx: &mut Context, session: &mut Session, remedy: Remedy) {
    note_cross_slot(cx, session, remedy);
    let example = cx.engine.topology.tagged_keys();
    cx.refuse(session, &remedy.text(example.as_deref()));
}

fn note_cross_slot(cx: &mut Context, session: &mut Session, remedy: Remedy) {
    if std::mem::replace(&mut session.features.is_cross_slot_told, true) {
        return;
    }
    let (client, peer) = (session.origin.client, session.origin.peer.to_string());
    let (command, option) = (cx.engine.asking.name().unwrap_or("unknown"), remedy.option());
    cx.notice(Notice::CrossSlot { client, peer, command, option });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors;

    #[test]
    fn the_error_ends_with_the_remedy() {
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
