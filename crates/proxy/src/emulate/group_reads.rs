//! XREADGROUP of streams on several shards: each stream is read alone, and their entries become one reply.
//!
//! ```text
//!   check ─► read ─► reply
//!     │       └─ nothing ─► wait ─ a stream has changed ─► read that one ─► reply, or wait on
//!     └─ a stream or its group does not exist ─► error, and nothing was read
//! ```
//!
//! Entries that a node gives to a consumer stay in its list of pending entries until the consumer acknowledges them. So
//! an entry that the client does not get can be claimed, as in Redis.
//!
//! The check comes first, so that a wrong name does not move entries of other streams to that list. Entries that were
//! read are returned, whatever happens to other streams.

use super::waits::{Changed, KeyWait, Kind};
use super::{Answer, Next, Question};
use crate::errors;
use resp::reply::{elements, is_error, is_null};
use resp::{Request, encode};

/// Streams that are read for a group.
#[derive(Debug)]
pub(super) struct GroupRead {
    /// The request up to the word STREAMS, without BLOCK.
    options: Vec<Box<[u8]>>,
    /// The ID from which each stream is read.
    ids: Vec<Box<[u8]>>,
    pub wait: KeyWait,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Checking,
    /// The streams at these places are being read.
    Reading(Vec<usize>),
    Waiting,
}

/// Redis's error for a stream that is deleted while a group waits for its entries.
const STREAM_GONE: &str = "UNBLOCKED the stream key no longer exists";

impl GroupRead {
    /// The plan and its first questions. `request` must have arguments that Redis accepts. `first_key` is the position
    /// of the first key of `wait`.
    pub(super) fn begin(
        request: &Request<'_>,
        first_key: usize,
        mut wait: KeyWait,
    ) -> (GroupRead, Vec<Question>) {
        let options = options(request, first_key - 1);
        let group = options.get(2).cloned().unwrap_or_default();
        let ids =
            (0..wait.keys.len()).map(|at| request.arg(first_key + wait.keys.len() + at).into()).collect();
        let check = |key: &super::waits::Key| Question::new(key.shard, &[b"XPENDING", &key.name, &group]);
        let questions = wait.keys.iter().map(check).collect();
        wait.kind = Kind::Group(group);
        (GroupRead { options, ids, wait, stage: Stage::Checking }, questions)
    }

    pub(super) fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Checking | Stage::Waiting)
    }

    pub(super) fn held_bytes(&self) -> usize {
        let words = self.options.iter().chain(&self.ids);
        self.wait.held_bytes() + words.map(|word| size_of::<Box<[u8]>>() + word.len()).sum::<usize>()
    }

    /// Whether the client waits and no question is in flight.
    pub(super) fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// Streams that are being read. Another client of the group may get their entries.
    pub(super) fn in_hand(&self) -> Vec<usize> {
        match &self.stage {
            Stage::Reading(places) => places.clone(),
            _ => Vec::new(),
        }
    }

    /// Questions about changed streams. `None` if none has changed, or if the plan does not wait.
    pub(super) fn look_again(&mut self) -> Option<Vec<Question>> {
        if self.stage != Stage::Waiting {
            return None;
        }
        match self.wait.take_changes() {
            Changed::All => Some(self.read((0..self.ids.len()).collect())),
            Changed::Keys(changed) if changed.is_empty() => None,
            Changed::Keys(changed) => Some(self.read(changed.into_iter().collect())),
        }
    }

    pub(super) fn next(&mut self, answers: Vec<Answer>) -> Next {
        match self.stage {
            Stage::Checking => match answers.into_iter().find_map(objection) {
                Some(refusal) => Next::Reply(refusal),
                None => Next::Ask(self.read((0..self.ids.len()).collect())),
            },
            Stage::Reading(_) => self.absorb_entries(answers),
            Stage::Waiting => Next::Wait,
        }
    }

    fn read(&mut self, places: Vec<usize>) -> Vec<Question> {
        let options = || self.options.iter().map(|word| &**word);
        let question = |&at: &usize| {
            let key = &self.wait.keys[at];
            let args: Vec<&[u8]> = options().chain([&b"STREAMS"[..], &key.name, &self.ids[at]]).collect();
            Question::new(key.shard, &args)
        };
        let questions = places.iter().map(question).collect();
        self.stage = Stage::Reading(places);
        questions
    }

    /// Entries precede errors of other streams.
    fn absorb_entries(&mut self, answers: Vec<Answer>) -> Next {
        let (mut entries, mut streams, mut error) = (Vec::new(), 0, None);
        for answer in answers {
            match answer {
                Answer::Reply { bytes, .. } if is_null(&bytes) => {}
                Answer::Reply { bytes, .. } => match elements(&bytes).filter(|_| !is_error(&bytes)) {
                    Some(stream) => {
                        streams += 1;
                        entries.extend_from_slice(stream.rest());
                    }
                    None => error = error.or(Some(bytes)),
                },
                Answer::Lost(lost) if lost.is_not_sent() && self.wait.has_waited => {}
                Answer::Lost(lost) => error = error.or_else(|| Some(errors::reply(&lost.text()))),
                Answer::TooLarge => error = error.or_else(|| Some(errors::reply(errors::MERGE_FAILED))),
            }
        }
        if streams > 0 {
            let mut reply = Vec::with_capacity(entries.len() + 16);
            match self.wait.resp3 {
                true => encode::map_header(&mut reply, streams, true),
                false => encode::array_header(&mut reply, streams),
            }
            reply.extend(entries);
            return Next::Reply(reply);
        }
        match error.or_else(|| self.wait.verdict.take()) {
            Some(error) if self.wait.has_waited && error.starts_with(b"-NOGROUP ") => {
                Next::error(STREAM_GONE)
            }
            Some(error) => Next::Reply(error),
            None if self.wait.client_left => Next::Reply(Vec::new()),
            None => {
                (self.stage, self.wait.has_waited) = (Stage::Waiting, true);
                Next::Wait
            }
        }
    }
}

/// The arguments of `request` before the word STREAMS, which is argument `streams`, without BLOCK and its time.
fn options(request: &Request<'_>, streams: usize) -> Vec<Box<[u8]>> {
    let (mut options, mut at) = (vec![request.arg(0).into()], 1);
    while at < streams {
        let word = request.arg(at);
        let (len, is_kept) = match () {
            () if word.eq_ignore_ascii_case(b"BLOCK") => (2, false),
            () if word.eq_ignore_ascii_case(b"COUNT") => (2, true),
            () if word.eq_ignore_ascii_case(b"GROUP") => (3, true),
            () => (1, true),
        };
        if is_kept {
            options.extend((at..streams.min(at + len)).map(|at| request.arg(at).into()));
        }
        at += len;
    }
    options
}

/// The reason why a stream cannot be read, in the words of XREADGROUP.
fn objection(answer: Answer) -> Option<Vec<u8>> {
    match answer {
        Answer::Reply { bytes, .. } => {
            let error = bytes.strip_suffix(b"\r\n").filter(|_| is_error(&bytes))?;
            let rest: &[u8] = match error.starts_with(b"-NOGROUP ") {
                true => b" in XREADGROUP with GROUP option\r\n",
                false => b"\r\n",
            };
            Some([error, rest].concat())
        }
        Answer::Lost(lost) => Some(errors::reply(&lost.of_gathering().text())),
        Answer::TooLarge => None,
    }
}
