//! Gathers values, runs the command on them in a keyspace of its own, and writes the results.
//!
//! ```text
//!   weigh ─► gather ─► run ─► write ─► remove ─► reply
//!     │        │        └─ nothing to write ──────► reply
//!     └────────┴─ too much, or a shard is away ───► error, and nothing was changed
//! ```
//!
//! Results are written before the old values are removed. So after a failure in between, a value may exist twice but is
//! never lost. Writes of other clients between gathering and writing are not seen: the command is not atomic.

use super::{Answer, Conditions, Next, Question};
use crate::errors::{self, Lost};
use command::{Across, Command, Evaluator, KeyFlags, Naming, NewEvaluator};
use resp::integer::parse_i64;
use resp::{Request, Span, encode, reply};
use std::borrow::Cow;
use std::collections::HashMap;
use topology::ShardId;

/// A command that is carried out on gathered values.
#[derive(Debug)]
pub(super) struct Gather {
    request: Copy,
    /// Whether values are only passed on, so that their content does not matter. Marks then stand for them in the
    /// command.
    carries: bool,
    runs: Runs,
    keys: Vec<Key>,
    stage: Stage,
}

/// The way in which the command is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    pub(super) new_evaluator: NewEvaluator,
    /// The protocol of the reply.
    pub(super) resp3: bool,
}

#[derive(Debug)]
enum Stage {
    Weighing,
    /// The sum of the values' sizes, as estimated by the nodes.
    Gathering {
        weight: usize,
    },
    Writing {
        reply: Vec<u8>,
        removals: Vec<usize>,
    },
    Removing {
        reply: Vec<u8>,
    },
}

/// A copy of the client's request.
#[derive(Debug)]
struct Copy {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Copy {
    /// The whole `request`. For COPY, without its well-formed DB options: here it runs in one database.
    fn of(request: &Request<'_>, without_databases: bool) -> Copy {
        let (mut args, mut at) = (Vec::with_capacity(request.len()), 0);
        while let Some(arg) = request.get(at) {
            let is_option = without_databases && at > COPY_TARGET && arg.eq_ignore_ascii_case(b"DB");
            match is_option && request.get(at + 1).and_then(parse_i64).is_some() {
                true => at += 2,
                false => {
                    args.push(arg);
                    at += 1;
                }
            }
        }
        let mut bytes = Vec::with_capacity(request.bytes.len());
        let mut spans = Vec::with_capacity(args.len());
        encode::array_header(&mut bytes, args.len());
        for arg in args {
            encode::bulk(&mut bytes, arg);
            spans.push(Span { start: bytes.len() - 2 - arg.len(), len: arg.len() });
        }
        Copy { bytes, spans }
    }

    fn as_request(&self) -> Request<'_> {
        Request::new(&self.bytes, &self.spans)
    }
}

/// One key of the request, whatever its position.
#[derive(Debug)]
struct Key {
    /// The first argument that names the key.
    arg: usize,
    shard: ShardId,
    /// The database, if it is not that of the session.
    database: Option<u16>,
    roles: Roles,
    /// The number of arguments that name the key. The command reads its value as many times.
    uses: usize,
    /// Whether the key exists, once known.
    is_there: bool,
    payload: Vec<u8>,
    expires_at_ms: Option<u64>,
}

/// The effects of a command on a key.
#[derive(Clone, Copy, Debug, Default)]
struct Roles {
    /// The command reads its value.
    is_source: bool,
    /// The command checks whether it exists.
    is_checked: bool,
    /// The command may change or remove its value.
    is_written: bool,
    /// The command writes it only if it does not exist.
    is_fresh: bool,
}

impl Gather {
    /// The plan and its first questions. The error text is for requests that cannot be carried out.
    pub(super) fn begin(
        command: &Command,
        request: &Request<'_>,
        shard_of: impl Fn(&[u8]) -> ShardId,
        runs: Runs,
    ) -> Result<(Gather, Vec<Question>), &'static str> {
        let is_copy = command.name == "copy";
        let options = || (3..request.len()).map(|at| request.arg(at));
        let database = if is_copy { Naming::Option.databases(request).pop() } else { None };
        let database = database.and_then(|database| u16::try_from(database).ok());
        let replaces = !is_copy || options().any(|option| option.eq_ignore_ascii_case(b"REPLACE"));
        let carries = command.across == Across::Carried;
        let (mut keys, mut places) = (Vec::<Key>::new(), HashMap::new());
        let found = command.each_key(request, &mut |at, flags| {
            let index = *places.entry(request.arg(at)).or_insert(keys.len());
            if index == keys.len() {
                keys.push(Key::new(at, shard_of(request.arg(at))));
            }
            keys[index].roles.add(flags, carries, replaces);
            keys[index].uses += 1;
            if is_copy && at == COPY_TARGET {
                keys[index].database = database;
            }
        });
        found.map_err(|_| errors::CROSS_SLOT)?;
        let request = Copy::of(request, database.is_some());
        let mut gather = Gather { request, carries, runs, keys, stage: Stage::Weighing };
        let mut questions = gather.weigh();
        if questions.is_empty() {
            questions = gather.gather(0);
        }
        Ok((gather, questions))
    }

    pub(super) fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Weighing | Stage::Gathering { .. })
    }

    pub(super) fn held_bytes(&self) -> usize {
        let payloads = self.keys.iter().map(|key| key.payload.len()).sum::<usize>();
        let expected = match self.stage {
            Stage::Gathering { weight } => weight,
            _ => 0,
        };
        self.request.bytes.len() + payloads.max(expected)
    }

    pub(super) fn next(&mut self, answers: Vec<Answer>, conditions: &Conditions) -> Next {
        match &mut self.stage {
            Stage::Weighing => match self.weight(answers) {
                Err(error) => Next::Reply(error),
                Ok(weight) if weight > conditions.bytes_max => {
                    Next::error(&errors::gathers_too_much(conditions.bytes_max))
                }
                Ok(weight) if weight > conditions.bytes_free => Next::error(errors::GATHERED_MEMORY),
                Ok(weight) => Next::Ask(self.gather(weight)),
            },
            Stage::Gathering { .. } => match self.absorb_values(answers, conditions) {
                Err(error) => Next::Reply(error),
                Ok(()) => self.run(conditions),
            },
            Stage::Writing { reply, removals } => {
                let (reply, removals) = (std::mem::take(reply), std::mem::take(removals));
                match written(answers) {
                    Err(error) => Next::Reply(error),
                    Ok(()) if removals.is_empty() => Next::Reply(reply),
                    Ok(()) => Next::Ask(self.remove(removals, reply)),
                }
            }
            Stage::Removing { reply } => match failure(&answers) {
                Some(failure) => Next::error(&errors::not_removed(&failure)),
                None => Next::Reply(std::mem::take(reply)),
            },
        }
    }

    fn name(&self, key: &Key) -> &[u8] {
        self.request.as_request().arg(key.arg)
    }

    /// Asks for the sizes of the values.
    fn weigh(&self) -> Vec<Question> {
        let sources = self.keys.iter().filter(|key| key.roles.is_source);
        sources.map(|key| key.ask(&[b"MEMORY", b"USAGE", self.name(key)])).collect()
    }

    /// The sum of the sizes of all values, each as often as it is read. If a node does not tell, the value counts as
    /// small; the bytes that come count as well.
    fn weight(&self, answers: Vec<Answer>) -> Result<usize, Vec<u8>> {
        let sources = self.keys.iter().filter(|key| key.roles.is_source);
        answers.into_iter().zip(sources).try_fold(0_usize, |sum, (answer, key)| match answer {
            Answer::Reply { bytes, .. } => {
                let weight = reply::as_integer(&bytes).and_then(|weight| usize::try_from(weight).ok());
                Ok(sum.saturating_add(weight.unwrap_or(0).saturating_mul(key.uses)))
            }
            Answer::Lost(lost) => Err(errors::reply(&lost.of_gathering().text())),
            Answer::TooLarge => Ok(sum),
        })
    }

    fn gather(&mut self, weight: usize) -> Vec<Question> {
        self.stage = Stage::Gathering { weight };
        let mut questions = Vec::new();
        for key in &self.keys {
            let name = self.name(key);
            if key.roles.is_source {
                questions.push(key.ask(&[b"PTTL", name]));
                questions.push(key.ask(&[b"DUMP", name]));
            } else if key.roles.is_checked {
                questions.push(key.ask(&[b"EXISTS", name]));
            }
        }
        questions
    }

    /// Takes the answers to [`Gather::gather`]. The error is for the client, if an answer is missing.
    fn absorb_values(&mut self, answers: Vec<Answer>, conditions: &Conditions) -> Result<(), Vec<u8>> {
        let too_much = || errors::reply(&errors::gathers_too_much(conditions.bytes_max));
        let mut answers = answers.into_iter().map(|answer| match answer {
            Answer::Reply { bytes, at_ms } if !reply::is_error(&bytes) => Ok((bytes, at_ms)),
            Answer::Reply { bytes, .. } => Err(bytes),
            Answer::Lost(lost) => Err(errors::reply(&lost.of_gathering().text())),
            Answer::TooLarge => Err(too_much()),
        });
        let mut next = || answers.next().unwrap_or_else(|| Err(errors::reply(errors::MERGE_FAILED)));
        let mut looked_at = 0_usize;
        for key in &mut self.keys {
            if key.roles.is_source {
                let (left, at_ms) = next()?;
                if let Some(payload) = into_bulk(next()?.0) {
                    looked_at = looked_at.saturating_add(payload.len().saturating_mul(key.uses));
                    if looked_at > conditions.bytes_max {
                        return Err(too_much());
                    }
                    key.is_there = true;
                    key.payload = payload;
                    key.expires_at_ms = expiry(&left, at_ms);
                }
            } else if key.roles.is_checked {
                key.is_there = next()?.0 == b":1\r\n";
            }
        }
        Ok(())
    }

    /// Runs the command on the gathered values.
    fn run(&mut self, conditions: &Conditions) -> Next {
        let mut evaluator = (self.runs.new_evaluator)(conditions.seed, conditions.now_ms);
        for (index, key) in self.keys.iter().enumerate().filter(|(_, key)| key.is_there) {
            let name = self.name(key);
            if self.carries || !key.roles.is_source {
                evaluator.put_text(name, &mark(index), key.expires_at_ms);
            } else if !evaluator.load(name, &key.payload, key.expires_at_ms) {
                return Next::error(errors::UNREADABLE_VALUE);
            }
        }
        let mut reply = Vec::new();
        evaluator.run(&self.request.as_request(), self.runs.resp3, &mut reply);
        if reply::is_error(&reply) {
            return Next::Reply(reply);
        }
        let questions = self.write(&*evaluator, conditions.now_ms);
        let is_left = |key: &Key| {
            self.carries && key.roles.is_written && key.roles.is_source && !evaluator.has(self.name(key))
        };
        let removals = (0..self.keys.len()).filter(|&index| is_left(&self.keys[index])).collect();
        for key in &mut self.keys {
            key.payload = Vec::new();
        }
        if questions.is_empty() {
            return Next::Reply(reply);
        }
        self.stage = Stage::Writing { reply, removals };
        Next::Ask(questions)
    }

    /// The writes that turn the nodes' values into those of `evaluator`.
    fn write(&self, evaluator: &dyn Evaluator, now_ms: u64) -> Vec<Question> {
        let mut questions = Vec::new();
        for (index, key) in self.keys.iter().enumerate().filter(|(_, key)| key.roles.is_written) {
            let name = self.name(key);
            // If a mark is still in its place, the command has not changed the key.
            let is_untouched = key.roles.is_checked
                && match key.is_there {
                    true => evaluator.text(name) == Some(&mark(index)[..]),
                    false => !evaluator.has(name),
                };
            if is_untouched || (self.carries && key.roles.is_source) {
                continue;
            }
            let payload = match self.carries {
                true => evaluator.text(name).and_then(|mark| self.marked(mark)).map(Cow::Borrowed),
                false => evaluator.dump(name).map(Cow::Owned),
            };
            questions.push(match payload {
                Some(payload) => {
                    // 0 would mean no expiry.
                    let left = evaluator.expires_at_ms(name).map_or(0, |at| at.saturating_sub(now_ms).max(1));
                    restore(key, name, &payload, left)
                }
                None => key.ask(&[b"UNLINK", name]),
            });
        }
        questions
    }

    /// The value for which `mark` stands.
    fn marked(&self, mark: &[u8]) -> Option<&[u8]> {
        let index = u64::from_le_bytes(mark.try_into().ok()?);
        self.keys.get(usize::try_from(index).ok()?).map(|key| &*key.payload)
    }

    fn remove(&mut self, removals: Vec<usize>, reply: Vec<u8>) -> Vec<Question> {
        self.stage = Stage::Removing { reply };
        let keys = removals.into_iter().map(|index| &self.keys[index]);
        keys.map(|key| key.ask(&[b"UNLINK", self.name(key)])).collect()
    }
}

impl Key {
    fn new(arg: usize, shard: ShardId) -> Key {
        let (payload, roles) = (Vec::new(), Roles::default());
        Key { arg, shard, database: None, roles, uses: 0, is_there: false, payload, expires_at_ms: None }
    }

    /// A question to the key's shard, in the key's database.
    fn ask(&self, args: &[&[u8]]) -> Question {
        Question { database: self.database, ..Question::new(self.shard, args) }
    }
}

impl Roles {
    /// Adds the `flags` of one argument that names the key.
    fn add(&mut self, flags: KeyFlags, carries: bool, replaces: bool) {
        let changes = KeyFlags::INSERT.and(KeyFlags::UPDATE).and(KeyFlags::DELETE);
        let inserts = flags.contains(KeyFlags::INSERT);
        self.is_written |= flags.intersects(changes);
        if flags.contains(KeyFlags::ACCESS) {
            self.is_source = true;
        } else {
            self.is_checked |= carries || inserts;
            self.is_fresh |= inserts || !replaces;
        }
    }
}

/// The argument of COPY that names the new key.
const COPY_TARGET: usize = 2;

/// The mark for the value of key `index`.
fn mark(index: usize) -> [u8; 8] {
    (index as u64).to_le_bytes()
}

/// The instant at which a key expires for which PTTL returned `left` at `at_ms`.
fn expiry(left: &[u8], at_ms: u64) -> Option<u64> {
    let left = reply::as_integer(left).and_then(|left| u64::try_from(left).ok())?;
    Some(at_ms.saturating_add(left))
}

/// The content of a bulk reply, in the same memory.
fn into_bulk(mut bulk: Vec<u8>) -> Option<Vec<u8>> {
    let len = reply::as_bulk(&bulk)?.len();
    bulk.truncate(bulk.len() - 2);
    bulk.drain(..bulk.len() - len);
    Some(bulk)
}

fn restore(key: &Key, name: &[u8], payload: &[u8], left_ms: u64) -> Question {
    let mut left = itoa::Buffer::new();
    let left = left.format(left_ms).as_bytes();
    let args = [&b"RESTORE"[..], name, left, payload, b"REPLACE"];
    key.ask(&args[..args.len() - usize::from(key.roles.is_fresh)])
}

/// The first failure of a write or a removal: the error without its type byte.
fn failure(answers: &[Answer]) -> Option<String> {
    answers.iter().find_map(|answer| match answer {
        Answer::Reply { bytes, .. } if reply::is_error(bytes) => {
            Some(String::from_utf8_lossy(&bytes[1..]).trim_end().to_owned())
        }
        Answer::Lost(lost) => Some(lost.text()),
        Answer::Reply { .. } | Answer::TooLarge => None,
    })
}

/// Whether all values were written. The error is for the client.
fn written(answers: Vec<Answer>) -> Result<(), Vec<u8>> {
    let is_busy = |answer: &Answer| matches!(answer, Answer::Reply { bytes, .. } if bytes.starts_with(BUSY));
    let may_have_run = |answer: &Answer| match answer {
        Answer::Reply { bytes, .. } => !reply::is_error(bytes),
        Answer::Lost(lost) => !matches!(lost, Lost::NotSent { .. }),
        Answer::TooLarge => true,
    };
    if answers.iter().all(is_busy) {
        // Another client was faster: the result is as if the command had come later.
        return Err(b":0\r\n".to_vec());
    }
    let Some(failure) = failure(&answers) else { return Ok(()) };
    let is_alone = answers.len() == 1 || !answers.iter().any(may_have_run);
    Err(errors::reply(&if is_alone { failure } else { errors::written_in_part(&failure) }))
}

/// RESTORE's error for a key that exists and may not be replaced.
const BUSY: &[u8] = b"-BUSYKEY ";
