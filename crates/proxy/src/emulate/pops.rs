//! Takes elements from the first of several keys that has any: LMPOP and ZMPOP. Also BLPOP, BRPOP, BLMPOP, BZPOPMIN,
//! BZPOPMAX and BZMPOP, which wait for an element.
//!
//! ```text
//!   look ─► pop ─► reply
//!    ▲       └─ nothing left ─► pop the next key … ─► none has any ─► null, or wait
//!    └───────────── the client waits, a key has changed: pop that key ◄──────────┘
//! ```
//!
//! The plan first asks for the type of every key. Then it pops one key after the other, in the order of the request,
//! until one has an element. So the client never gets two elements, and no element is in our memory while another pop
//! is in flight. [`super::waits`] tells the plan which keys have changed while it waits.
//!
//! If the client leaves while a pop is in flight, the plan puts the element back at the end from which it came. If
//! other clients have popped in between, its position in the order changes. If a pop is lost with its link, the client
//! gets the error for an unknown outcome, as for any write.

use super::waits::{Changed, Key, KeyWait, Kind};
use super::{Answer, Next, Question};
use crate::errors;
use command::Command;
use resp::reply::{as_bulk, elements, is_error, is_null};
use resp::{Request, encode};
use std::collections::VecDeque;
use topology::ShardId;

/// A command that takes elements from the first key that has any.
#[derive(Debug)]
pub(super) struct Pop {
    how: How,
    pub wait: KeyWait,
    stage: Stage,
    /// Keys to pop next, by their position in the request.
    untried: VecDeque<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Looking,
    /// The key at this position is popped.
    Popping(usize),
    Waiting,
    /// The elements of the key at this position are put back.
    Returning(usize),
}

/// The type of value from which elements are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    List,
    SortedSet,
}

/// The way in which elements are taken.
#[derive(Debug)]
struct How {
    value: Value,
    /// Whether from the left end of a list, or from the lowest scores of a sorted set.
    from_start: bool,
    /// The number of elements, for commands that take several. Their own replies name the key.
    count: Option<Box<[u8]>>,
}

impl How {
    /// Reads `request`, which must have arguments that Redis accepts. `last_key` is the position of its last key.
    fn of(command: &Command, request: &Request<'_>, last_key: usize) -> How {
        let word = request.get(last_key + 1).unwrap_or_default();
        let says = |expected: &[u8]| word.eq_ignore_ascii_case(expected);
        let count = || Some(request.get(last_key + 3).unwrap_or(b"1").into());
        let (value, from_start, count) = match &*command.name {
            "blpop" => (Value::List, true, None),
            "brpop" => (Value::List, false, None),
            "bzpopmin" => (Value::SortedSet, true, None),
            "bzpopmax" => (Value::SortedSet, false, None),
            "lmpop" | "blmpop" => (Value::List, says(b"LEFT"), count()),
            _ => (Value::SortedSet, says(b"MIN"), count()),
        };
        How { value, from_start, count }
    }

    /// The request that takes elements from `key` without waiting.
    fn pop(&self, key: &Key) -> Question {
        let name: &[u8] = &key.name;
        let (several, one, from): (&[u8], &[u8], &[u8]) = match (self.value, self.from_start) {
            (Value::List, true) => (b"LMPOP", b"LPOP", b"LEFT"),
            (Value::List, false) => (b"LMPOP", b"RPOP", b"RIGHT"),
            (Value::SortedSet, true) => (b"ZMPOP", b"ZPOPMIN", b"MIN"),
            (Value::SortedSet, false) => (b"ZMPOP", b"ZPOPMAX", b"MAX"),
        };
        match &self.count {
            None => Question::new(key.shard, &[one, name]),
            Some(count) => Question::new(key.shard, &[several, b"1", name, from, b"COUNT", count]),
        }
    }

    /// TYPE's reply for a key that can have elements.
    fn type_reply(&self) -> &'static [u8] {
        match self.value {
            Value::List => b"+list\r\n",
            Value::SortedSet => b"+zset\r\n",
        }
    }

    /// The client's reply to the pop of `key`, for which the node has returned `popped`. `None` if the key had no
    /// element.
    fn reply(&self, key: &Key, popped: &[u8]) -> Option<Vec<u8>> {
        let taken = elements(popped);
        let is_empty = is_null(popped) || taken.as_ref().is_some_and(|taken| taken.len() == 0);
        if is_empty {
            return None;
        }
        let mut reply = Vec::with_capacity(popped.len() + key.name.len() + 32);
        match (&self.count, self.value) {
            (Some(_), _) => reply.extend_from_slice(popped),
            (None, Value::List) => {
                encode::array_header(&mut reply, 2);
                encode::bulk(&mut reply, &key.name);
                reply.extend_from_slice(popped);
            }
            (None, Value::SortedSet) => {
                encode::array_header(&mut reply, 3);
                encode::bulk(&mut reply, &key.name);
                reply.extend_from_slice(taken?.rest());
            }
        }
        Some(reply)
    }

    /// The request that puts back the elements of the pop of `key`.
    fn give_back(&self, key: &Key, popped: &[u8]) -> Option<Question> {
        let values = match self.count {
            None => vec![popped],
            // The reply holds the key and its elements.
            Some(_) => elements(popped)?.nth(1).and_then(elements)?.collect(),
        };
        let mut args: Vec<&[u8]> = match (self.value, self.from_start) {
            (Value::List, true) => vec![b"LPUSH", &key.name],
            (Value::List, false) => vec![b"RPUSH", &key.name],
            // A member that was added again in between keeps its new score.
            (Value::SortedSet, _) => vec![b"ZADD", &key.name, b"NX"],
        };
        match self.value {
            // The element that was taken last goes back first.
            Value::List => args.extend(values.into_iter().rev().filter_map(as_bulk)),
            Value::SortedSet => {
                for pair in values {
                    let (member, score) = pair_of(pair)?;
                    args.extend([score, member]);
                }
            }
        }
        Some(Question::new(key.shard, &args))
    }
}

/// The member and its score in an array of both.
fn pair_of(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut pair = elements(pair)?;
    let (member, score) = (as_bulk(pair.next()?)?, pair.next()?);
    // RESP3 has doubles.
    let double = || score.strip_prefix(b",")?.strip_suffix(b"\r\n");
    Some((member, as_bulk(score).or_else(double)?))
}

impl Pop {
    /// The plan and its first questions. `request` must have arguments that Redis accepts. `last_key` is the position
    /// of the last key of `wait`.
    pub(super) fn begin(
        command: &Command,
        request: &Request<'_>,
        last_key: usize,
        mut wait: KeyWait,
    ) -> (Pop, Vec<Question>) {
        let how = How::of(command, request, last_key);
        wait.kind = match how.value {
            Value::List => Kind::List,
            Value::SortedSet => Kind::SortedSet,
        };
        let pop = Pop { how, wait, stage: Stage::Looking, untried: VecDeque::new() };
        let questions = pop.look();
        (pop, questions)
    }

    /// Whether the plan has changed nothing so far, and no question in flight could change anything.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Looking | Stage::Waiting)
    }

    /// Whether replies of the present step may have any length: popped elements exist nowhere else.
    pub(super) fn takes_any_length(&self) -> bool {
        matches!(self.stage, Stage::Popping(_))
    }

    /// Whether the client waits and no question is in flight.
    pub(super) fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// The shard to which an element is being put back.
    pub(super) fn returns_to(&self) -> Option<ShardId> {
        match self.stage {
            Stage::Returning(at) => Some(self.wait.keys[at].shard),
            _ => None,
        }
    }

    /// Keys that are being popped, or are next. Another client may get their elements.
    pub(super) fn in_hand(&self) -> Vec<usize> {
        let in_flight = match self.stage {
            Stage::Popping(at) => Some(at),
            _ => None,
        };
        self.untried.iter().copied().chain(in_flight).collect()
    }

    /// Questions about changed keys. `None` if none has changed, or if the plan does not wait.
    pub(super) fn look_again(&mut self) -> Option<Vec<Question>> {
        if self.stage != Stage::Waiting {
            return None;
        }
        match self.wait.take_changes() {
            Changed::All => {
                self.stage = Stage::Looking;
                Some(self.look())
            }
            Changed::Keys(changed) => {
                self.untried = changed.into_iter().collect();
                self.pop_next()
            }
        }
    }

    pub(super) fn next(&mut self, answers: Vec<Answer>) -> Next {
        match self.stage {
            Stage::Looking => self.absorb_types(answers),
            Stage::Popping(at) => self.absorb_popped(at, super::first(answers)),
            Stage::Returning(_) => match super::first(answers) {
                Answer::Reply { bytes, .. } if !is_error(&bytes) => Next::Reply(bytes),
                Answer::Reply { .. } | Answer::TooLarge | Answer::Lost(_) => {
                    Next::error(errors::ELEMENT_NOT_RETURNED)
                }
            },
            Stage::Waiting => Next::Wait,
        }
    }

    /// Asks for the types of all keys.
    fn look(&self) -> Vec<Question> {
        self.wait.keys.iter().map(|key| Question::new(key.shard, &[b"TYPE", &key.name])).collect()
    }

    /// Lists the keys that can have elements. As in Redis, a key of another type ends the search, unless the client has
    /// waited already. A shard without an answer is skipped, since the others can serve the client.
    fn absorb_types(&mut self, answers: Vec<Answer>) -> Next {
        self.untried.clear();
        let mut refusal = None;
        for (at, answer) in answers.into_iter().enumerate() {
            match answer {
                Answer::Reply { bytes, .. } if bytes == self.how.type_reply() => self.untried.push_back(at),
                Answer::Reply { bytes, .. } if bytes == b"+none\r\n" => {}
                Answer::Reply { bytes, .. } if is_error(&bytes) => {
                    refusal.get_or_insert(bytes);
                }
                Answer::Reply { .. } | Answer::TooLarge => {
                    refusal.get_or_insert_with(|| errors::reply(errors::WRONG_TYPE));
                    break;
                }
                Answer::Lost(lost) => {
                    refusal.get_or_insert_with(|| errors::reply(&lost.of_gathering().text()));
                }
            }
        }
        if !self.wait.has_waited {
            self.wait.verdict = self.wait.verdict.take().or(refusal);
        }
        self.go_on()
    }

    /// Takes the answer to the pop of the key at `at`.
    fn absorb_popped(&mut self, at: usize, answer: Answer) -> Next {
        match answer {
            Answer::Reply { bytes, .. } if is_error(&bytes) => {
                let is_of_other_type = bytes.starts_with(b"-WRONGTYPE ");
                match self.wait.has_waited && is_of_other_type {
                    true => self.go_on(),
                    false => Next::Reply(bytes),
                }
            }
            Answer::Reply { bytes, .. } => match self.how.reply(&self.wait.keys[at], &bytes) {
                None => self.go_on(),
                Some(_) if self.wait.client_left => self.put_back(at, &bytes),
                Some(reply) => Next::Reply(reply),
            },
            Answer::Lost(lost) if lost.is_not_sent() && self.wait.has_waited => self.go_on(),
            Answer::Lost(lost) => Next::Reply(errors::reply(&lost.text())),
            Answer::TooLarge => Next::Reply(errors::reply(errors::MERGE_FAILED)),
        }
    }

    /// Pops the next key. If there is none, the client waits.
    fn go_on(&mut self) -> Next {
        if self.wait.client_left {
            return Next::Reply(Vec::new());
        }
        if let Some(questions) = self.pop_next() {
            return Next::Ask(questions);
        }
        match self.wait.verdict.take() {
            Some(verdict) => Next::Reply(verdict),
            None => {
                (self.stage, self.wait.has_waited) = (Stage::Waiting, true);
                Next::Wait
            }
        }
    }

    fn pop_next(&mut self) -> Option<Vec<Question>> {
        let at = self.untried.pop_front()?;
        self.stage = Stage::Popping(at);
        Some(vec![self.how.pop(&self.wait.keys[at])])
    }

    fn put_back(&mut self, at: usize, popped: &[u8]) -> Next {
        self.stage = Stage::Returning(at);
        match self.how.give_back(&self.wait.keys[at], popped) {
            Some(question) => Next::Ask(vec![question]),
            None => Next::error(errors::ELEMENT_NOT_RETURNED),
        }
    }
}
