//! Commands that make one sorted set of several. Plain sets count as sorted sets whose scores are all 1.

use resp::Request;
use resp::integer::parse_i64;

use crate::args::{integer, is};
use crate::commands::zsets::{store, write_list};
use crate::error::Error;
use crate::formats::double;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::value::Value;
use crate::values::zset::Zset;

type Done = Result<(), Error>;

/// Operation that selects the members of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Inter,
    Union,
    Diff,
}

/// Operation that combines two scores of one member.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs cancel out, as Redis has it.
            Aggregate::Sum => not_nan(one + other),
            Aggregate::Min => one.min(other),
            Aggregate::Max => one.max(other),
        }
    }
}

/// A parsed request.
struct Query<'k> {
    sources: Vec<Source<'k>>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Count at which ZINTERCARD stops.
    limit: usize,
}

impl<'k> Query<'k> {
    /// `first` is the index of the number of keys.
    fn parse(
        keyspace: &'k Keyspace,
        request: &Request<'_>,
        first: usize,
        join: Join,
        name: &'static str,
    ) -> Result<Query<'k>, Error> {
        let count = integer(request.arg(first))?;
        let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Error::NoInputKey(name))?;
        if count > request.len() - first - 1 {
            return Err(Error::Syntax);
        }
        // Checked before the options, so that a request with two errors gets the same one as from Redis.
        let keys = request.args().skip(first + 1).take(count);
        let mut query = Query {
            sources: keys.map(|key| Source::of(keyspace, key)).collect::<Result<_, _>>()?,
            weights: vec![1.0; count],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        };
        let mut at = first + 1 + count;
        while let Some(word) = request.get(at) {
            at += 1;
            let (is_counted, has_scores) = (name == ZINTERCARD, join != Join::Diff && name != ZINTERCARD);
            if has_scores && is(word, "WEIGHTS") && request.len() - at >= count {
                for (place, weight) in query.weights.iter_mut().enumerate() {
                    *weight = double::parse(request.arg(at + place)).ok_or(Error::WeightNotFloat)?;
                }
                at += count;
            } else if has_scores
                && is(word, "AGGREGATE")
                && let Some(how) = request.get(at)
            {
                query.aggregate = match how {
                    _ if is(how, "SUM") => Aggregate::Sum,
                    _ if is(how, "MIN") => Aggregate::Min,
                    _ if is(how, "MAX") => Aggregate::Max,
                    _ => return Err(Error::Syntax),
                };
                at += 1;
            } else if first == 1 && !is_counted && is(word, "WITHSCORES") {
                query.with_scores = true;
            } else if is_counted
                && is(word, "LIMIT")
                && let Some(limit) = request.get(at)
            {
                let limit = parse_i64(limit).and_then(|limit| usize::try_from(limit).ok());
                query.limit = limit.ok_or(Error::Limit)?;
                at += 1;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(query)
    }

    fn run(&self, keyspace: &Keyspace, join: Join) -> Zset {
        let mut weighted: Vec<(&Source<'_>, f64)> =
            self.sources.iter().zip(self.weights.iter().copied()).collect();
        if join != Join::Diff {
            // The smallest set comes first, as in Redis: the order determines how sums are rounded.
            weighted.sort_by_key(|(source, _)| source.len());
        }
        let (first, others) = weighted.split_first().expect("there is at least one key");
        let mut result: Zset = keyspace.empty();
        match join {
            Join::Union => weighted.iter().for_each(|source| self.add(source, &mut result)),
            Join::Inter => first.0.each(&mut |member, score| {
                // Only the first product is checked for NaN here. Redis checks its sums.
                let joined = others.iter().try_fold(not_nan(score * first.1), |joined, (source, weight)| {
                    Some(self.aggregate.of(joined, source.score(member)? * weight))
                });
                joined.into_iter().for_each(|score| result.set(member, score));
            }),
            Join::Diff => first.0.each(&mut |member, score| {
                if others.iter().all(|(source, _)| source.score(member).is_none()) {
                    result.set(member, score);
                }
            }),
        }
        result
    }

    /// One operand of a union.
    fn add(&self, (source, weight): &(&Source<'_>, f64), result: &mut Zset) {
        source.each(&mut |member, score| {
            let score = not_nan(score * weight);
            let old = result.score(member);
            result.set(member, old.map_or(score, |old| self.aggregate.of(old, score)));
        });
    }
}

/// The value of one operand.
enum Source<'k> {
    Nothing,
    Set(&'k crate::values::set::Set),
    Zset(&'k Zset),
}

impl<'k> Source<'k> {
    fn of(keyspace: &'k Keyspace, key: &[u8]) -> Result<Source<'k>, Error> {
        match keyspace.peek(key).map(|entry| &entry.value) {
            None => Ok(Source::Nothing),
            Some(Value::Set(set)) => Ok(Source::Set(set)),
            Some(Value::Zset(zset)) => Ok(Source::Zset(zset)),
            Some(_) => Err(Error::WrongType),
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Nothing => 0,
            Source::Set(set) => set.len(),
            Source::Zset(zset) => zset.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Nothing => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::Zset(zset) => zset.score(member),
        }
    }

    fn each(&self, found: &mut dyn FnMut(&[u8], f64)) {
        match self {
            Source::Nothing => {}
            Source::Set(set) => set.iter().for_each(|member| found(member, 1.0)),
            Source::Zset(zset) => zset.iter().for_each(|scored| found(&scored.member, scored.score)),
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

pub(crate) fn zunionstore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    join_and_store(keyspace, request, Join::Union, "zunionstore", out)
}

pub(crate) fn zinterstore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    join_and_store(keyspace, request, Join::Inter, "zinterstore", out)
}

pub(crate) fn zdiffstore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    join_and_store(keyspace, request, Join::Diff, "zdiffstore", out)
}

fn join_and_store(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    join: Join,
    name: &'static str,
    out: &mut Reply,
) -> Done {
    let result = Query::parse(keyspace, request, 2, join, name)?.run(keyspace, join);
    store(keyspace, request.arg(1), result, name, out);
    Ok(())
}

pub(crate) fn zunion(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    join_and_show(keyspace, request, Join::Union, "zunion", out)
}

pub(crate) fn zinter(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    join_and_show(keyspace, request, Join::Inter, "zinter", out)
}

pub(crate) fn zdiff(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    join_and_show(keyspace, request, Join::Diff, "zdiff", out)
}

fn join_and_show(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    join: Join,
    name: &'static str,
    out: &mut Reply,
) -> Done {
    let query = Query::parse(keyspace, request, 1, join, name)?;
    let result = query.run(keyspace, join);
    write_list(result.iter(), result.len(), query.with_scores, out);
    Ok(())
}

pub(crate) fn zintercard(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = Query::parse(keyspace, request, 1, Join::Inter, ZINTERCARD)?;
    let least = query.sources.iter().min_by_key(|source| source.len()).expect("there is at least one key");
    let limit = if query.limit == 0 { usize::MAX } else { query.limit };
    let mut found = 0;
    least.each(&mut |member, _| {
        let is_common = found < limit && query.sources.iter().all(|source| source.score(member).is_some());
        found += usize::from(is_common);
    });
    out.integer(found as i64);
    Ok(())
}

const ZINTERCARD: &str = "zintercard";
