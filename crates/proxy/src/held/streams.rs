//! XREAD of streams on several shards. Each shard gets its own streams, and their entries become one reply.
//!
//! ```text
//!   XREAD COUNT 2 STREAMS a b c 0 $ 0 ─┬─► XREAD COUNT 2 STREAMS a c 0 0 ─► a: …, c: … ─┬─► a: …, b: …, c: …
//!                                      └─► XREAD COUNT 2 STREAMS b $     ─► b: …        ┘
//! ```
//!
//! XREAD removes nothing, so a lost part loses no entries. `$` is resolved by the shard that has the stream. With
//! BLOCK, [`crate::held::fan`] waits for the parts.

use crate::context::Context;
use crate::features::Session;
use crate::held::entries::Streams;
use crate::held::fan::{Answers, Fans};
use crate::link::kept::Kept;
use crate::replies::merge::Merge;
use crate::requests::route::Keys;
use resp::{Request, encode};
use std::time::Duration;
use stdx::append;
use topology::ShardId;

/// Whether `request` has an ID for each of `keys`. If not, Redis refuses it, and it is forwarded whole.
pub(crate) fn is_complete(request: &Request<'_>, keys: &Keys) -> bool {
    let ids_end = keys.positions.first().map(|first| first + 2 * keys.positions.len());
    ids_end == Some(request.len())
}

/// Appends the arguments of `request` for `part`. The request must be [complete](is_complete).
pub(crate) fn write_part(out: &mut Vec<u8>, request: &Request<'_>, keys: &Keys, part: u32) {
    let (first, count) = (keys.positions[0], keys.positions.len());
    encode::array_header(out, first + 2 * keys.parts[part as usize].keys);
    append(out, request.raw_args(0, first));
    for distance in [0, count] {
        for (&position, _) in keys.positions.iter().zip(&keys.part_of_key).filter(|(_, its)| **its == part) {
            append(out, request.raw_arg(position + distance));
        }
    }
}

impl Fans {
    /// Carries out XREAD with BLOCK over several shards. The request must be [complete](is_complete).
    pub(crate) fn wait_for_entries(
        &mut self,
        cx: &mut Context,
        session: &mut Session,
        request: &Request<'_>,
        keys: &Keys,
        patience: Duration,
    ) {
        let shards: Vec<ShardId> = keys.parts.iter().map(|part| part.shard).collect();
        let answers = Answers::Streams(Streams::new(request, keys));
        let write_part = |out: &mut Vec<u8>, part| write_part(out, request, keys, part);
        self.wait_on_several(cx, session, &shards, answers, patience, write_part);
    }
}

/// Carries out XREAD without BLOCK over several shards. If one shard does not take its part, no part is sent.
pub(crate) fn read_streams(cx: &mut Context, session: &mut Session, request: &Request<'_>, keys: &mut Keys) {
    if cx.refuse_unless_admitted(session, &mut keys.parts) {
        return;
    }
    for part in 0..keys.parts.len() {
        let (tail, start) =
            cx.engine.links[keys.parts[part].link].tail(request.bytes.len(), &mut cx.engine.pool);
        write_part(tail, request, keys, part as u32);
        keys.parts[part].start = start;
    }
    let merge = Merge::of_streams(Streams::new(request, keys), keys.parts.len() as u32);
    cx.expect_merge(session, merge.in_profile(cx.profiles.kind(session.profile)), keys, Kept::NO);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(keys: &[(u32, &str)], parts: usize) -> Streams {
        let keys = keys.iter().map(|(part, key)| (*part, key.as_bytes().into())).collect();
        Streams { keys, parts: vec![Vec::new(); parts] }
    }

    fn written(streams: &Streams, resp3: bool) -> Option<String> {
        let mut out = Vec::new();
        streams.write(&mut out, resp3)?;
        Some(String::from_utf8(out).expect("text").replace("\r\n", "|"))
    }

    #[test]
    fn streams_follow_key_order_without_empty_ones() {
        let mut both = streams(&[(0, "a"), (1, "b"), (0, "c")], 2);
        both.absorb(1, b"*1\r\n*2\r\n$1\r\nb\r\n*0\r\n").expect("fits");
        both.absorb(0, b"*1\r\n*2\r\n$1\r\nc\r\n*0\r\n").expect("fits");
        assert_eq!(written(&both, false).as_deref(), Some("*2|*2|$1|b|*0|*2|$1|c|*0|"));
        let mut maps = streams(&[(0, "a"), (1, "b"), (0, "a")], 2);
        maps.absorb(1, b"%1\r\n$1\r\nb\r\n*0\r\n").expect("fits");
        maps.absorb(0, b"%2\r\n$1\r\na\r\n*0\r\n$1\r\na\r\n*0\r\n").expect("fits");
        assert_eq!(written(&maps, true).as_deref(), Some("%3|$1|a|*0|$1|b|*0|$1|a|*0|"));
    }

    #[test]
    fn an_empty_reply_has_the_form_of_its_protocol() {
        let mut none = streams(&[(0, "a"), (1, "b")], 2);
        none.absorb(0, b"*-1\r\n").expect("fits");
        none.absorb(1, b"_\r\n").expect("fits");
        assert_eq!(written(&none, false).as_deref(), Some("*-1|"));
        assert_eq!(written(&none, true).as_deref(), Some("_|"));
    }

    #[test]
    fn streams_that_were_not_asked_for_are_not_passed_on() {
        let mut odd = streams(&[(0, "a"), (1, "b")], 2);
        assert_eq!(odd.absorb(0, b"+OK\r\n"), None);
        odd.absorb(0, b"*1\r\n*2\r\n$1\r\nx\r\n*0\r\n").expect("an array");
        assert_eq!(written(&odd, false), None);
        let mut garbled = streams(&[(0, "a")], 1);
        garbled.absorb(0, b"*2\r\n+x\r\n:1\r\n").expect("an array");
        assert_eq!((written(&garbled, false), written(&garbled, true)), (None, None));
    }
}
