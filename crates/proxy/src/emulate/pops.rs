//! Elements are taken from the first of several keys that has any: LMPOP, ZMPOP, and the commands that wait for one, BLPOP,
//! BRPOP, BLMPOP, BZPOPMIN, BZPOPMAX, BZMPOP.
//!
//! ```text
//!   look ─► pop ─► reply
//!    ▲       └─ nothing left ─► pop the next key … ─► none has any ─► null, or wait
//!    └───────────── the client waits, a key has changed: pop that key ◄──────────┘
//! ```
//!
//! Nothing is popped on suspicion. The plan first asks for the type of every key, and then pops one key after the other, in
//! the order of the request, until one gives an element. So the client never gets two elements, and no element is in our
//! memory while another pop is in flight. [`super::waits`] tells the plan which keys have changed while it waits.
//!
//! If the client leaves while a pop is in flight, the plan puts the element back at the end from which it came. Other clients
//! may have popped in between; then its place in the order is another. If a pop is lost with its link, the client is told
//! that the outcome is unknown, as for any write.

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
    /// Keys that are popped next, by their place in the request.
    untried: VecDeque<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Looking,
    /// The key at this place.
    Popping(usize),
    Waiting,
    /// What the key at this place had.
    Returning(usize),
}

/// The kind of value that elements are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    List,
    SortedSet,
}

/// How elements are taken.
#[derive(Debug)]
struct How {
    value: Value,
    /// The left end of a list, the least scores of a sorted set.
    from_start: bool,
    /// The number of elements, of the commands that take several: they name the key in their reply themselves.
    count: Option<Box<[u8]>>,
}

impl How {
    /// Of `request`, which Redis does not refuse, and whose last key stands at `last_key`.
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

    /// The answer of TYPE for a key that can have elements.
    fn type_reply(&self) -> &'static [u8] {
        match self.value {
            Value::List => b"+list\r\n",
            Value::SortedSet => b"+zset\r\n",
        }
    }

    /// The client's reply, if a node has answered the pop of `key` with `popped`; `None` if the key had nothing.
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

    /// The request that puts back what the pop of `key` has brought.
    fn give_back(&self, key: &Key, popped: &[u8]) -> Option<Question> {
        let values = match self.count {
            None => vec![popped],
            // The key and its elements.
            Some(_) => elements(popped)?.nth(1).and_then(elements)?.collect(),
        };
        let mut args: Vec<&[u8]> = match (self.value, self.from_start) {
            (Value::List, true) => vec![b"LPUSH", &key.name],
            (Value::List, false) => vec![b"RPUSH", &key.name],
            // A member that somebody has added again in between keeps its new score.
            (Value::SortedSet, _) => vec![b"ZADD", &key.name, b"NX"],
        };
        match self.value {
            // The one that was taken last goes back first.
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

/// A member and its score, of an array of both.
fn pair_of(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut pair = elements(pair)?;
    let (member, score) = (as_bulk(pair.next()?)?, pair.next()?);
    // RESP3 has doubles.
    let double = || score.strip_prefix(b",")?.strip_suffix(b"\r\n");
    Some((member, as_bulk(score).or_else(double)?))
}

impl Pop {
    /// The plan, and what it asks first. `request` is one that Redis does not refuse for its arguments. The last key of `wait`
    /// stands at `last_key`.
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

    /// Whether nothing was changed so far, and nothing that was sent could change anything.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Looking | Stage::Waiting)
    }

    /// Whether the reply of the present step is taken however long it is: what was popped is nowhere else.
    pub(super) fn takes_any_length(&self) -> bool {
        matches!(self.stage, Stage::Popping(_))
    }

    /// Whether the client waits, and no question is in flight.
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

    /// Keys that it was about to pop, or is popping: another client may get what they have.
    pub(super) fn in_hand(&self) -> Vec<usize> {
        let in_flight = match self.stage {
            Stage::Popping(at) => Some(at),
            _ => None,
        };
        self.untried.iter().copied().chain(in_flight).collect()
    }

    /// What is asked since keys have changed. `None` if none has, or if the plan does not wait.
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

    /// Pops the keys that can have elements. A key of another type ends the search, as in Redis, if the client has not yet
    /// waited; a shard without an answer is passed over, since the others can serve the client.
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

    /// Takes in what came of the pop of the key at `at`.
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

    /// Pops the next key; without one, the client waits.
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
