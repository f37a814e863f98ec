//! The one reply to EXEC of a transaction over several shards, made of what its parts answered.
//!
//! If no part may have run, the reply is the error (or nil) that one Redis would give: the client may repeat the whole. Else
//! it is the array that Redis gives, in the client's order. The commands of a part that has no results have an error in their
//! places, which says whether they may have run. A single error instead would be taken for "nothing has run", and
//! applications repeat a transaction then.
//!
//! Of each such part only the first command has the whole text, so that the reply stays as short as the requests were.

use crate::errors::{self, Lost};
use crate::replies::merge::{Merge, SpareValues};
use crate::transaction::divided::{Piece, Split};
use resp::encode;
use resp::reply::{self, Elements};
use stdx::{Prng, append};

/// What became of one part.
#[derive(Debug)]
pub(crate) enum PartResult {
    /// It was not sent.
    Unsent,
    /// It was, and is not answered.
    Sent,
    /// It has run: the node's reply, an array.
    Ran(Vec<u8>),
    /// A key that is watched has changed.
    Changed,
    /// The node has refused it, for this reason.
    Refused(Vec<u8>),
    /// It was not sent, since that could not be.
    NotSent(Lost),
    /// It may have run.
    Unknown(Lost),
}

impl PartResult {
    /// Whether something of it may have been carried out.
    fn may_have_run(&self) -> bool {
        matches!(self, PartResult::Ran(_) | PartResult::Unknown(_))
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            PartResult::Ran(bytes) | PartResult::Refused(bytes) => bytes.capacity(),
            _ => 0,
        }
    }
}

/// What is needed of a part for the reply.
pub(crate) struct Answered<'a> {
    /// The name of its shard.
    pub shard: &'a str,
    /// How many commands it has. One without any only asks whether keys have changed.
    pub commands: u32,
    pub result: &'a PartResult,
}

/// Appends the reply to EXEC.
pub(crate) fn write(
    pieces: &[Piece],
    parts: &[Answered<'_>],
    resp3: bool,
    (spare, prng): (&mut SpareValues, &mut Prng),
    out: &mut Vec<u8>,
) {
    let has_failed = parts.iter().any(|part| !matches!(part.result, PartResult::Ran(_)));
    if has_failed && !parts.iter().any(|part| part.commands > 0 && part.result.may_have_run()) {
        return write_failure(parts, resp3, out);
    }
    let mut cursors: Vec<Cursor<'_>> = parts.iter().map(Cursor::new).collect();
    encode::array_header(out, pieces.iter().map(Piece::commands).sum());
    for piece in pieces {
        match piece {
            Piece::Whole { part, commands, .. } => {
                let cursor = &mut cursors[*part as usize];
                (0..*commands).for_each(|_| cursor.write_next(out));
            }
            Piece::Split(split) => write_split(split, &mut cursors, (spare, prng), out),
        }
    }
}

/// Nothing has run.
fn write_failure(parts: &[Answered<'_>], resp3: bool, out: &mut Vec<u8>) {
    if parts.iter().any(|part| matches!(part.result, PartResult::Changed)) {
        return encode::null_array(out, resp3);
    }
    let error = parts.iter().find_map(|part| match part.result {
        PartResult::Refused(reason) => Some(errors::discarded(part.shard, reason)),
        PartResult::NotSent(lost) | PartResult::Unknown(lost) => Some(errors::text_of_exec(lost)),
        _ => None,
    });
    errors::write(out, &error.unwrap_or_else(|| errors::MERGE_FAILED.to_owned()));
}

/// Appends the reply of a command that several parts share.
fn write_split(
    split: &Split,
    cursors: &mut [Cursor<'_>],
    (spare, prng): (&mut SpareValues, &mut Prng),
    out: &mut Vec<u8>,
) {
    let shares = split.shares.len() as u32;
    let mut merge = Merge::new(split.merge, shares, &split.share_of_key, split.reads, None, spare, prng);
    let mut failure = None;
    for (share, &(part, _)) in (0..).zip(&split.shares) {
        match cursors[part as usize].next() {
            Ok(reply) => _ = merge.absorb(share, reply),
            Err(text) => _ = failure.get_or_insert(text),
        }
    }
    match failure {
        None => drop(merge.finish(out, spare)),
        Some(text) => {
            merge.give_values(spare);
            let text = if split.reads { text } else { errors::written_in_part(&text) };
            errors::write(out, &text);
        }
    }
}

/// How far the reply of a part was read.
enum Cursor<'a> {
    Ran(Elements<'a>),
    /// There is none.
    Failed {
        part: &'a Answered<'a>,
        /// A command of it was told the whole text.
        is_told: bool,
    },
}

impl<'a> Cursor<'a> {
    fn new(part: &'a Answered<'a>) -> Cursor<'a> {
        match part.result {
            PartResult::Ran(reply) => reply::elements(reply),
            _ => None,
        }
        .map_or(Cursor::Failed { part, is_told: false }, Cursor::Ran)
    }

    /// The reply to its next command, or the text of an error.
    fn next(&mut self) -> Result<&'a [u8], String> {
        match self {
            Cursor::Ran(replies) => replies.next().ok_or_else(|| errors::MERGE_FAILED.to_owned()),
            Cursor::Failed { part, is_told } => {
                Err(if std::mem::replace(is_told, true) { part.short_text() } else { part.text() })
            }
        }
    }

    fn write_next(&mut self, out: &mut Vec<u8>) {
        match self.next() {
            Ok(reply) => append(out, reply),
            Err(text) => errors::write(out, &text),
        }
    }
}

impl Answered<'_> {
    /// Why its commands have no replies, where others of the transaction have run.
    fn text(&self) -> String {
        let reason = match self.result {
            PartResult::Unknown(lost) => return lost.text(),
            PartResult::Changed => "a watched key has changed".into(),
            PartResult::Refused(reason) => String::from_utf8_lossy(reason),
            PartResult::NotSent(lost) => lost.reason().into(),
            PartResult::Unsent | PartResult::Sent => "the transaction ended with an earlier part".into(),
            PartResult::Ran(_) => return errors::MERGE_FAILED.to_owned(),
        };
        errors::not_run(self.shard, &reason)
    }

    /// The same without the reason.
    fn short_text(&self) -> String {
        match self.result {
            PartResult::Unknown(_) => errors::outcome_unknown(self.shard),
            _ => errors::not_run_either(self.shard),
        }
    }
}

impl Piece {
    /// How many replies the client gets for it.
    pub(crate) fn commands(&self) -> usize {
        match self {
            Piece::Whole { commands, .. } => *commands as usize,
            Piece::Split(_) => 1,
        }
    }
}
