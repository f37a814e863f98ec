//! The reply to EXEC of a transaction over several shards, made of the results of its parts.
//!
//! If no part may have run, the reply is the error (or nil) that one Redis would give: the client may repeat the
//! transaction. Otherwise the reply is the array that Redis gives, in the client's order. For a part without results,
//! each command has an error in its place, which says whether the command may have run. A single error instead would
//! mean "nothing has run", and applications repeat a transaction then.
//!
//! Of each such part only the first command gets the whole text, so that the reply is not much longer than the
//! requests.

use crate::errors::{self, Lost};
use crate::replies::merge::{Merge, SpareValues};
use crate::transaction::divided::{Piece, Split};
use resp::encode;
use resp::reply::{self, Elements};
use stdx::{Prng, append};

/// The result of one part.
#[derive(Debug)]
pub(crate) enum PartResult {
    /// The part was not sent.
    Unsent,
    /// The part was sent and is not answered.
    Sent,
    /// The part has run. This is the node's reply, an array.
    Ran(Vec<u8>),
    /// A watched key has changed.
    Changed,
    /// The node has refused the part, for this reason.
    Refused(Vec<u8>),
    /// The part could not be sent.
    NotSent(Lost),
    /// The part may have run.
    Unknown(Lost),
}

impl PartResult {
    /// Whether commands of the part may have run.
    fn may_have_run(&self) -> bool {
        matches!(self, PartResult::Ran(_) | PartResult::Unknown(_))
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            PartResult::Ran(bytes) | PartResult::Refused(bytes) => bytes.capacity(),
            _ => 0,
        }
    }
}

/// A part, as the reply needs it.
pub(crate) struct Answered<'a> {
    /// The name of the part's shard.
    pub shard: &'a str,
    /// The number of commands. A part without any is a guard.
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

/// Appends the reply if nothing has run.
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
    let mut failed = Vec::new();
    for (share, &(part, _)) in (0..).zip(&split.shares) {
        let cursor = &mut cursors[part as usize];
        match cursor.next_reply() {
            Some(reply) => _ = merge.absorb(share, reply),
            None => failed.push((cursor.tells_little(), part)),
        }
    }
    let failure = failed.into_iter().min().map(|(_, part)| cursors[part as usize].next_text());
    match failure {
        None => drop(merge.finish(out, spare)),
        Some(text) => {
            merge.give_values(spare);
            let text = if split.reads { text } else { errors::written_in_part(&text) };
            errors::write(out, &text);
        }
    }
}

/// The position in the reply of a part.
enum Cursor<'a> {
    Ran(Elements<'a>),
    /// The part has no reply.
    Failed {
        part: &'a Answered<'a>,
        /// Whether an earlier command got the whole text.
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

    /// The reply to the next command, if the part has one.
    fn next_reply(&mut self) -> Option<&'a [u8]> {
        match self {
            Cursor::Ran(replies) => replies.next(),
            Cursor::Failed { .. } => None,
        }
    }

    /// The text of the error for the next command, if the part has no reply.
    fn next_text(&mut self) -> String {
        match self {
            Cursor::Ran(_) => errors::MERGE_FAILED.to_owned(),
            Cursor::Failed { part, is_told } if *is_told => part.short_text(),
            Cursor::Failed { part, is_told } => {
                *is_told = true;
                part.text()
            }
        }
    }

    /// Whether another part that has failed should be named instead. An earlier command has named this one, or it was not
    /// sent, since another part ended the transaction.
    fn tells_little(&self) -> (bool, bool) {
        match self {
            Cursor::Ran(_) => (false, false),
            Cursor::Failed { part, is_told } => (*is_told, matches!(part.result, PartResult::Unsent)),
        }
    }

    fn write_next(&mut self, out: &mut Vec<u8>) {
        match self.next_reply() {
            Some(reply) => append(out, reply),
            None => errors::write(out, &self.next_text()),
        }
    }
}

impl Answered<'_> {
    /// The reason why the part has no replies though others have run.
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

    /// The text without the reason.
    fn short_text(&self) -> String {
        match self.result {
            PartResult::Unknown(_) => errors::outcome_unknown(self.shard),
            _ => errors::not_run_either(self.shard),
        }
    }
}

impl Piece {
    /// The number of replies that the client gets for the piece.
    pub(crate) fn commands(&self) -> usize {
        match self {
            Piece::Whole { commands, .. } => *commands as usize,
            Piece::Split(_) => 1,
        }
    }
}
