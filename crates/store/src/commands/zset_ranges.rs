//! Commands on ranges of sorted sets: by rank, by score, by the bytes of the members.
//!
//! Every range becomes a half-open range of ranks. The commands then work on ranks alone.

use resp::Request;

use crate::args::{integer, is, range};
use crate::audience::Class;
use crate::commands::zsets::{store, write_list};
use crate::error::Error;
use crate::formats::double;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::zset::{Scored, Zset};

type Done = Result<(), Error>;

/// The members of a range, without order and limit.
enum Range<'a> {
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Lex(LexBound<'a>, LexBound<'a>),
}

/// An inclusive or exclusive bound.
struct Bound<T> {
    value: T,
    is_outside: bool,
}

/// A bound by bytes: `-`, `+`, `[a` or `(a`.
enum LexBound<'a> {
    Lowest,
    Highest,
    Member(Bound<&'a [u8]>),
}

impl<'a> Range<'a> {
    fn by_rank(start: &[u8], stop: &[u8]) -> Result<Range<'a>, Error> {
        Ok(Range::Rank(integer(start)?, integer(stop)?))
    }

    fn by_score(min: &[u8], max: &[u8]) -> Result<Range<'a>, Error> {
        Ok(Range::Score(score_bound(min)?, score_bound(max)?))
    }

    fn by_lex(min: &'a [u8], max: &'a [u8]) -> Result<Range<'a>, Error> {
        Ok(Range::Lex(lex_bound(min)?, lex_bound(max)?))
    }

    /// The half-open range of ranks; ranks count from the highest if `reversed`.
    fn ranks(&self, zset: &Zset, reversed: bool) -> (usize, usize) {
        let (from, to) = match self {
            Range::Rank(start, stop) => {
                let (from, to) = range(*start, *stop, zset.len()).unwrap_or_default();
                return if reversed { (zset.len() - to, zset.len() - from) } else { (from, to) };
            }
            Range::Score(min, max) => {
                let before = |scored: &Scored| {
                    scored.score < min.value || (min.is_outside && scored.score == min.value)
                };
                let not_behind = |scored: &Scored| {
                    scored.score < max.value || (!max.is_outside && scored.score == max.value)
                };
                (zset.rank_where(before), zset.rank_where(not_behind))
            }
            Range::Lex(min, max) => (
                zset.rank_where(|scored| min.is_behind(&scored.member, true)),
                zset.rank_where(|scored| max.is_behind(&scored.member, false)),
            ),
        };
        (from, to.max(from))
    }
}

impl LexBound<'_> {
    /// Whether `member` is before this bound, as the lower or the upper bound of a range.
    fn is_behind(&self, member: &[u8], is_lower: bool) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Member(bound) => {
                member < bound.value || (bound.is_outside == is_lower && member == bound.value)
            }
        }
    }
}

fn score_bound(arg: &[u8]) -> Result<Bound<f64>, Error> {
    let (text, is_outside) = match arg {
        [b'(', rest @ ..] => (rest, true),
        _ => (arg, false),
    };
    Ok(Bound { value: double::parse_loosely(text).ok_or(Error::ScoreRange)?, is_outside })
}

fn lex_bound(arg: &[u8]) -> Result<LexBound<'_>, Error> {
    match arg {
        b"-" => Ok(LexBound::Lowest),
        b"+" => Ok(LexBound::Highest),
        [b'[', value @ ..] => Ok(LexBound::Member(Bound { value, is_outside: false })),
        [b'(', value @ ..] => Ok(LexBound::Member(Bound { value, is_outside: true })),
        _ => Err(Error::LexRange),
    }
}

/// Unit of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A parsed ZRANGE: members, order and limit.
struct Query<'a> {
    range: Range<'a>,
    reversed: bool,
    offset: i64,
    /// Negative for no limit.
    limit: i64,
    with_scores: bool,
}

/// The options that an old command implies by its name.
#[derive(Clone, Copy)]
struct Form {
    by: By,
    reversed: bool,
    /// Index of the first bound.
    first: usize,
    takes_form: bool,
    takes_scores: bool,
}

impl<'a> Query<'a> {
    fn parse(request: &Request<'a>, form: Form) -> Result<Query<'a>, Error> {
        let Form { mut by, mut reversed, first, .. } = form;
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut at = first + 2;
        while let Some(word) = request.get(at) {
            if form.takes_scores && is(word, "WITHSCORES") {
                with_scores = true;
            } else if is(word, "LIMIT")
                && let (Some(skipped), Some(count)) = (request.get(at + 1), request.get(at + 2))
            {
                (offset, limit) = (integer(skipped)?, integer(count)?);
                at += 2;
            } else if form.takes_form && is(word, "REV") {
                reversed = true;
            } else if form.takes_form && by != By::Lex && is(word, "BYSCORE") {
                by = By::Score;
            } else if form.takes_form && by != By::Score && is(word, "BYLEX") {
                by = By::Lex;
            } else {
                return Err(Error::Syntax);
            }
            at += 1;
        }
        if limit != -1 && by == By::Rank {
            return Err(Error::LimitWithoutBy);
        }
        if with_scores && by == By::Lex {
            return Err(Error::WithscoresBylex);
        }
        let (one, other) = (request.arg(first), request.arg(first + 1));
        let range = match (by, reversed) {
            (By::Rank, _) => Range::by_rank(one, other)?,
            (By::Score, false) => Range::by_score(one, other)?,
            (By::Score, true) => Range::by_score(other, one)?,
            (By::Lex, false) => Range::by_lex(one, other)?,
            (By::Lex, true) => Range::by_lex(other, one)?,
        };
        Ok(Query { range, reversed, offset, limit, with_scores })
    }

    /// The half-open range of ranks within the limit.
    fn ranks(&self, zset: &Zset) -> (usize, usize) {
        let (from, to) = self.range.ranks(zset, self.reversed);
        let Ok(offset) = usize::try_from(self.offset) else { return (0, 0) };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if self.reversed {
            let to = to.saturating_sub(offset).max(from);
            (from.max(to.saturating_sub(limit)), to)
        } else {
            let from = from.saturating_add(offset).min(to);
            (from, to.min(from.saturating_add(limit)))
        }
    }
}

const RANGE: Form = Form { by: By::Rank, reversed: false, first: 2, takes_form: true, takes_scores: true };

pub(crate) fn zrange(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, RANGE, out)
}

pub(crate) fn zrevrange(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Form { reversed: true, takes_form: false, ..RANGE }, out)
}

pub(crate) fn zrangebyscore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Form { by: By::Score, takes_form: false, ..RANGE }, out)
}

pub(crate) fn zrevrangebyscore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Form { by: By::Score, reversed: true, takes_form: false, ..RANGE }, out)
}

pub(crate) fn zrangebylex(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Form { by: By::Lex, takes_form: false, ..RANGE }, out)
}

pub(crate) fn zrevrangebylex(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Form { by: By::Lex, reversed: true, takes_form: false, ..RANGE }, out)
}

fn show(keyspace: &mut Keyspace, request: &Request<'_>, form: Form, out: &mut Reply) -> Done {
    let query = Query::parse(request, form)?;
    let Some(zset) = keyspace.read::<Zset>(request.arg(1))? else {
        out.array(0);
        return Ok(());
    };
    let (from, to) = query.ranks(zset);
    if query.reversed {
        write_list(zset.range_back(from, to), to - from, query.with_scores, out);
    } else {
        write_list(zset.range(from, to), to - from, query.with_scores, out);
    }
    Ok(())
}

pub(crate) fn zrangestore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = Query::parse(request, Form { first: 3, takes_scores: false, ..RANGE })?;
    let mut result: Zset = keyspace.empty();
    if let Some(zset) = keyspace.read::<Zset>(request.arg(2))? {
        let (from, to) = query.ranks(zset);
        zset.range(from, to).for_each(|scored| result.set(&scored.member, scored.score));
    }
    store(keyspace, request.arg(1), result, "zrangestore", out);
    Ok(())
}

pub(crate) fn zcount(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    count(keyspace, request, Range::by_score(request.arg(2), request.arg(3))?, out)
}

pub(crate) fn zlexcount(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    count(keyspace, request, Range::by_lex(request.arg(2), request.arg(3))?, out)
}

fn count(keyspace: &mut Keyspace, request: &Request<'_>, range: Range<'_>, out: &mut Reply) -> Done {
    let ranks = keyspace.read::<Zset>(request.arg(1))?.map(|zset| range.ranks(zset, false));
    out.integer(ranks.map_or(0, |(from, to)| to - from) as i64);
    Ok(())
}

pub(crate) fn zremrangebyrank(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    remove(keyspace, request, Range::by_rank(request.arg(2), request.arg(3))?, "zremrangebyrank", out)
}

pub(crate) fn zremrangebyscore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    remove(keyspace, request, Range::by_score(request.arg(2), request.arg(3))?, "zremrangebyscore", out)
}

pub(crate) fn zremrangebylex(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    remove(keyspace, request, Range::by_lex(request.arg(2), request.arg(3))?, "zremrangebylex", out)
}

fn remove(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    range: Range<'_>,
    name: &'static str,
    out: &mut Reply,
) -> Done {
    let removed = keyspace.edit(request.arg(1), |zset: &mut Zset| {
        let (from, to) = range.ranks(zset, false);
        zset.remove_range(from, to)
    })?;
    let removed = removed.unwrap_or_default();
    if removed > 0 {
        keyspace.shrunk(Class::Zset, name, request.arg(1));
    }
    out.integer(removed as i64);
    Ok(())
}
