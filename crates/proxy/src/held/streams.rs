//! XREAD of streams on several shards: each shard is asked for its own, and what they have becomes one reply.
//!
//! ```text
//!   XREAD COUNT 2 STREAMS a b c 0 $ 0 ─┬─► XREAD COUNT 2 STREAMS a c 0 0 ─► a: …, c: … ─┬─► a: …, b: …, c: …
//!                                      └─► XREAD COUNT 2 STREAMS b $     ─► b: …        ┘
//! ```
//!
//! What it reads it does not take, so nothing is lost whatever becomes of a part. `$` is resolved by the shard that has
//! the stream. With BLOCK, [`crate::held::fan`] waits for the parts.

use crate::core::Core;
use crate::features::Session;
use crate::held::fan::Answers;
use crate::link::kept::Kept;
use crate::replies::merge::Merge;
use crate::requests::route::Keys;
use resp::reply::{as_bulk, elements, first_len, is_null};
use resp::{Request, encode};
use std::time::Duration;
use stdx::append;
use topology::ShardId;

/// What several shards have read, as it comes.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The streams in the order of the request: which part each belongs to, and its key.
    keys: Vec<(u32, Box<[u8]>)>,
    /// What each part has read: names and entries, as they came.
    parts: Vec<Vec<u8>>,
}

impl Streams {
    /// Those of `request`, of which nothing was read yet.
    pub(crate) fn new(request: &Request<'_>, keys: &Keys) -> Streams {
        let names = keys.positions.iter().map(|&position| request.arg(position).into());
        Streams {
            keys: keys.part_of_key.iter().copied().zip(names).collect(),
            parts: vec![Vec::new(); keys.parts.len()],
        }
    }

    /// Takes in the reply of `part`. `None` if it is not one to XREAD.
    pub(crate) fn absorb(&mut self, part: u32, reply: &[u8]) -> Option<()> {
        if !is_null(reply) {
            append(&mut self.parts[part as usize], elements(reply)?.rest());
        }
        Some(())
    }

    /// Whether any part has read something.
    pub(crate) fn has_any(&self) -> bool {
        self.parts.iter().any(|part| !part.is_empty())
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let names: usize = self.keys.iter().map(|(_, key)| key.len()).sum();
        names + self.parts.iter().map(Vec::len).sum::<usize>()
    }

    /// Appends what was read, in the order of the request's keys. `None` if a part has read what it was not asked for.
    pub(crate) fn write(&self, out: &mut Vec<u8>, resp3: bool) -> Option<()> {
        let mut rests: Vec<&[u8]> = self.parts.iter().map(Vec::as_slice).collect();
        let mut read = Vec::new();
        for (part, key) in &self.keys {
            let rest = &mut rests[*part as usize];
            let len = if resp3 { pair_len(rest) } else { first_len(rest) };
            let name = match resp3 {
                true => rest.get(..first_len(rest)),
                false => elements(rest).and_then(|mut pair| pair.next()),
            };
            if name.and_then(as_bulk) == Some(key) {
                read.push(&rest[..len]);
                *rest = &rest[len..];
            }
        }
        match read.len() {
            _ if rests.iter().any(|rest| !rest.is_empty()) => return None,
            0 => encode::null_array(out, resp3),
            count if resp3 => encode::map_header(out, count, resp3),
            count => encode::array_header(out, count),
        }
        read.iter().for_each(|bytes| append(out, bytes));
        Some(())
    }
}

/// The length of a name and what stands behind it.
fn pair_len(values: &[u8]) -> usize {
    let name = first_len(values);
    name + first_len(&values[name..])
}

/// Whether `request`, whose keys are `keys`, has an id for each of them. If not, Redis refuses it: forward it whole.
pub(crate) fn is_complete(request: &Request<'_>, keys: &Keys) -> bool {
    let ids_end = keys.positions.first().map(|first| first + 2 * keys.positions.len());
    ids_end == Some(request.len())
}

/// Appends what of `request` belongs to `part`, which must be [complete](is_complete).
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

impl Core {
    /// XREAD with BLOCK, which is [complete](is_complete), of streams on several shards.
    pub(crate) fn wait_for_entries(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        keys: &Keys,
        patience: Duration,
    ) {
        let shards: Vec<ShardId> = keys.parts.iter().map(|part| part.shard).collect();
        let answers = Answers::Streams(Streams::new(request, keys));
        let write_part = |out: &mut Vec<u8>, part| write_part(out, request, keys, part);
        self.wait_on_several(session, &shards, answers, patience, write_part);
    }

    /// XREAD without BLOCK, of streams on several shards. All shards must take their part, else none is asked.
    pub(crate) fn read_streams(&mut self, session: &mut Session, request: &Request<'_>, keys: &mut Keys) {
        if self.refuse_unless_admitted(session, &mut keys.parts) {
            return;
        }
        for part in 0..keys.parts.len() {
            let (tail, start) =
                self.engine.links[keys.parts[part].link].tail(request.bytes.len(), &mut self.engine.pool);
            write_part(tail, request, keys, part as u32);
            keys.parts[part].start = start;
        }
        let merge = Merge::of_streams(Streams::new(request, keys), keys.parts.len() as u32);
        self.expect_merge(session, merge.in_profile(self.profiles.kind(session.profile)), keys, Kept::NO);
    }
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
    fn nothing_new_is_said_as_each_protocol_says_it() {
        let mut none = streams(&[(0, "a"), (1, "b")], 2);
        none.absorb(0, b"*-1\r\n").expect("fits");
        none.absorb(1, b"_\r\n").expect("fits");
        assert_eq!(written(&none, false).as_deref(), Some("*-1|"));
        assert_eq!(written(&none, true).as_deref(), Some("_|"));
    }

    #[test]
    fn what_was_not_asked_for_is_not_passed_on() {
        let mut odd = streams(&[(0, "a"), (1, "b")], 2);
        assert_eq!(odd.absorb(0, b"+OK\r\n"), None);
        odd.absorb(0, b"*1\r\n*2\r\n$1\r\nx\r\n*0\r\n").expect("an array");
        assert_eq!(written(&odd, false), None);
        let mut garbled = streams(&[(0, "a")], 1);
        garbled.absorb(0, b"*2\r\n+x\r\n:1\r\n").expect("an array");
        assert_eq!((written(&garbled, false), written(&garbled, true)), (None, None));
    }
}
