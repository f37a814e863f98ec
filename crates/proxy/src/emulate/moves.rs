//! Moves one element from a key to another: SMOVE, LMOVE, RPOPLPUSH. Only the element is transferred, however large the
//! keys are.
//!
//! ```text
//!   look ─► claim ─► add ─► drop ─► reply
//!                     └─ refused ─► undo ─► error
//! ```
//!
//! The node of the source moves the element to a key of ours, the journal, in one step. If several clients want the
//! element, one gets it. The element leaves the journal only when the target has it. So it is never in our memory
//! alone. If shardis or the target's node fails in between, the journal still has the element, and the error names the
//! journal.

use super::{Answer, Next, Question, first};
use crate::errors::{self, Lost};
use command::Command;
use resp::{Request, encode, reply};
use topology::ShardId;

/// A command that moves one element.
#[derive(Debug)]
pub(super) struct Move {
    source: Place,
    target: Place,
    journal: Journal,
    /// The protocol of the reply.
    resp3: bool,
    element: Element,
    stage: Stage,
}

/// The key that holds an element during the move.
#[derive(Debug)]
pub(super) struct Journal {
    pub name: Vec<u8>,
    /// The name of the journal's shard, which is the shard of the source.
    pub shard: String,
}

#[derive(Debug)]
struct Place {
    key: Vec<u8>,
    shard: ShardId,
}

/// The element that is moved.
#[derive(Debug)]
enum Element {
    /// This member of a set.
    Member(Vec<u8>),
    /// The element at one end of a list, once it is known.
    AtEnd { from: End, to: End, value: Vec<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

#[derive(Debug)]
enum Stage {
    Looking,
    Claiming,
    Adding,
    Dropping,
    /// The client gets this error.
    Undoing {
        error: String,
    },
}

impl End {
    fn parse(arg: &[u8]) -> Result<End, &'static str> {
        match () {
            () if arg.eq_ignore_ascii_case(b"LEFT") => Ok(End::Left),
            () if arg.eq_ignore_ascii_case(b"RIGHT") => Ok(End::Right),
            () => Err(errors::SYNTAX),
        }
    }

    fn word(self) -> &'static [u8] {
        match self {
            End::Left => b"LEFT",
            End::Right => b"RIGHT",
        }
    }
}

impl Element {
    fn of(command: &Command, request: &Request<'_>) -> Result<Element, &'static str> {
        let (from, to) = match &*command.name {
            "smove" => return Ok(Element::Member(request.arg(3).to_vec())),
            "lmove" => (End::parse(request.arg(3))?, End::parse(request.arg(4))?),
            _ => (End::Right, End::Left),
        };
        Ok(Element::AtEnd { from, to, value: Vec::new() })
    }

    /// TYPE's reply for a key that can have the element.
    fn kind(&self) -> &'static [u8] {
        match self {
            Element::Member(_) => b"+set\r\n",
            Element::AtEnd { .. } => b"+list\r\n",
        }
    }

    /// The reply if there is no element to move.
    fn nothing(&self, resp3: bool) -> Next {
        let mut reply = Vec::new();
        match self {
            Element::Member(_) => encode::integer(&mut reply, 0),
            Element::AtEnd { .. } => encode::null(&mut reply, resp3),
        }
        Next::Reply(reply)
    }

    /// The reply after the move.
    fn moved(&self) -> Next {
        let mut reply = Vec::new();
        match self {
            Element::Member(_) => encode::integer(&mut reply, 1),
            Element::AtEnd { value, .. } => encode::bulk(&mut reply, value),
        }
        Next::Reply(reply)
    }
}

impl Move {
    /// The plan and its first questions. If Redis refuses the request, the error is Redis's text.
    pub(super) fn begin(
        command: &Command,
        request: &Request<'_>,
        shard_of: impl Fn(&[u8]) -> ShardId,
        journal: Journal,
        resp3: bool,
    ) -> Result<(Move, Vec<Question>), &'static str> {
        let place = |at: usize| Place { key: request.arg(at).to_vec(), shard: shard_of(request.arg(at)) };
        let moving = Move {
            source: place(1),
            target: place(2),
            journal,
            resp3,
            element: Element::of(command, request)?,
            stage: Stage::Looking,
        };
        let look = |place: &Place| Question::new(place.shard, &[b"TYPE", &place.key]);
        let questions = vec![look(&moving.source), look(&moving.target)];
        Ok((moving, questions))
    }

    pub(super) fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Looking)
    }

    pub(super) fn held_bytes(&self) -> usize {
        let element = match &self.element {
            Element::Member(element) | Element::AtEnd { value: element, .. } => element.len(),
        };
        self.source.key.len() + self.target.key.len() + element
    }

    pub(super) fn next(&mut self, answers: Vec<Answer>) -> Next {
        match &self.stage {
            Stage::Looking => self.absorb_types(answers),
            Stage::Claiming => self.absorb_claim(first(answers)),
            Stage::Adding => match first(answers) {
                Answer::Reply { bytes, .. } if reply::is_error(&bytes) => self.undo(said(&bytes)),
                Answer::Reply { .. } | Answer::TooLarge => self.drop_journal(),
                Answer::Lost(lost @ Lost::NotSent { .. }) => self.undo(lost.text()),
                Answer::Lost(lost) => Next::error(&self.kept_in_journal(&lost.text())),
            },
            // The element is in the target, whatever happened to the journal.
            Stage::Dropping => self.element.moved(),
            Stage::Undoing { error } => match first(answers) {
                Answer::Reply { bytes, .. } if !reply::is_error(&bytes) => Next::error(error),
                _ => Next::error(&self.kept_in_journal(error)),
            },
        }
    }

    /// Checks in Redis's order: first whether the source exists, then both types.
    fn absorb_types(&mut self, answers: Vec<Answer>) -> Next {
        let mut types = Vec::new();
        for answer in answers {
            match answer {
                Answer::Reply { bytes, .. } if reply::is_error(&bytes) => return Next::Reply(bytes),
                Answer::Reply { bytes, .. } => types.push(bytes),
                Answer::Lost(lost) => return Next::error(&lost.of_gathering().text()),
                Answer::TooLarge => return Next::error(errors::MERGE_FAILED),
            }
        }
        let (kind, none) = (self.element.kind(), &b"+none\r\n"[..]);
        match types.as_slice() {
            [source, _] if source == none => self.element.nothing(self.resp3),
            [source, target] if source == kind && (target == kind || target == none) => self.claim(),
            _ => Next::error(errors::WRONG_TYPE),
        }
    }

    fn claim(&mut self) -> Next {
        self.stage = Stage::Claiming;
        let (source, journal) = (&*self.source.key, &*self.journal.name);
        Next::Ask(vec![match &self.element {
            Element::Member(member) => self.at_source(&[b"SMOVE", source, journal, member]),
            Element::AtEnd { from, .. } => self.at_source(&[b"LMOVE", source, journal, from.word(), b"LEFT"]),
        }])
    }

    fn absorb_claim(&mut self, answer: Answer) -> Next {
        let bytes = match answer {
            Answer::Reply { bytes, .. } => bytes,
            Answer::Lost(lost @ Lost::NotSent { .. }) => return Next::error(&lost.text()),
            // Follows the claim on the same link, in case the claim is still carried out.
            Answer::Lost(lost) => return self.undo(lost.text()),
            Answer::TooLarge => return self.undo(errors::ELEMENT_TOO_LARGE.to_owned()),
        };
        if reply::is_error(&bytes) {
            return Next::Reply(bytes);
        }
        match &mut self.element {
            Element::Member(_) if bytes == b":1\r\n" => self.add(),
            Element::Member(_) => self.element.nothing(self.resp3),
            Element::AtEnd { value, .. } => match reply::as_bulk(&bytes) {
                Some(element) => {
                    *value = element.to_vec();
                    self.add()
                }
                None => self.element.nothing(self.resp3),
            },
        }
    }

    fn add(&mut self) -> Next {
        self.stage = Stage::Adding;
        let key = &*self.target.key;
        let question = |args: &[&[u8]]| Question::new(self.target.shard, args);
        Next::Ask(vec![match &self.element {
            Element::Member(member) => question(&[b"SADD", key, member]),
            Element::AtEnd { to: End::Left, value, .. } => question(&[b"LPUSH", key, value]),
            Element::AtEnd { to: End::Right, value, .. } => question(&[b"RPUSH", key, value]),
        }])
    }

    fn drop_journal(&mut self) -> Next {
        self.stage = Stage::Dropping;
        Next::Ask(vec![self.at_source(&[b"UNLINK", &self.journal.name])])
    }

    /// Puts back the element if it was claimed. The client then gets `error`.
    fn undo(&mut self, error: String) -> Next {
        self.stage = Stage::Undoing { error };
        let (source, journal) = (&*self.source.key, &*self.journal.name);
        Next::Ask(vec![match &self.element {
            Element::Member(member) => self.at_source(&[b"SMOVE", journal, source, member]),
            Element::AtEnd { from, .. } => self.at_source(&[b"LMOVE", journal, source, b"LEFT", from.word()]),
        }])
    }

    fn at_source(&self, args: &[&[u8]]) -> Question {
        Question::new(self.source.shard, args)
    }

    fn kept_in_journal(&self, error: &str) -> String {
        errors::kept_in_journal(error, &self.journal.name, &self.journal.shard)
    }
}

/// The text of an error reply.
pub(super) fn said(error: &[u8]) -> String {
    String::from_utf8_lossy(&error[1..]).trim_end().to_owned()
}
