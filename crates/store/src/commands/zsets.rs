//! Commands on one sorted set, except for ranges.

use resp::Request;
use stdx::Prng;

use crate::args::{Multipop, float, is, positive, signed_count};
use crate::audience::Class;
use crate::commands::sets::{Drawn, check_pairs, check_repeats, sample};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::value::Kind;
use crate::values::zset::{Scored, Zset};

type Done = Result<(), Error>;

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) if_absent: bool,
    pub(crate) if_present: bool,
    if_greater: bool,
    if_less: bool,
    pub(crate) counts_changed: bool,
    increments: bool,
}

impl Options {
    /// The options, and the index of the first score.
    fn parse(request: &Request<'_>) -> (Options, usize) {
        let mut options = Options::default();
        for (at, word) in request.args().enumerate().skip(2) {
            let flag = match word {
                _ if is(word, "NX") => &mut options.if_absent,
                _ if is(word, "XX") => &mut options.if_present,
                _ if is(word, "CH") => &mut options.counts_changed,
                _ if is(word, "INCR") => &mut options.increments,
                _ if is(word, "GT") => &mut options.if_greater,
                _ if is(word, "LT") => &mut options.if_less,
                _ => return (options, at),
            };
            *flag = true;
        }
        (options, request.len())
    }

    fn check(self, args: usize) -> Done {
        if args == 0 || !args.is_multiple_of(2) {
            return Err(Error::Syntax);
        }
        if self.if_absent && self.if_present {
            return Err(Error::ZaddNxAndXx);
        }
        let compares = [self.if_absent, self.if_greater, self.if_less];
        if compares.iter().filter(|is_set| **is_set).count() > 1 {
            return Err(Error::ZaddGtLtNx);
        }
        if self.increments && args > 2 {
            return Err(Error::ZaddIncrPairs);
        }
        Ok(())
    }

    /// The new score of the member; `None` if it does not change.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Error> {
        let Some(old) = old else { return Ok((!self.if_present).then_some(given)) };
        if self.if_absent {
            return Ok(None);
        }
        let score = if self.increments { old + given } else { given };
        if score.is_nan() {
            return Err(Error::ScoreNotANumber);
        }
        let stays = (self.if_less && score >= old) || (self.if_greater && score <= old);
        Ok((!stays).then_some(score))
    }
}

/// Result of ZADD for one member.
#[derive(Default)]
pub(crate) struct Added {
    pub(crate) new: i64,
    pub(crate) changed: i64,
    last_score: Option<f64>,
}

pub(crate) fn zadd(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (options, first) = Options::parse(request);
    options.check(request.len() - first)?;
    let pairs = (first..request.len()).step_by(2);
    let pairs: Vec<(f64, &[u8])> =
        pairs.map(|at| Ok((float(request.arg(at))?, request.arg(at + 1)))).collect::<Result<_, Error>>()?;
    let added = add(keyspace, request.arg(1), options, &pairs)?;
    match added.last_score {
        Some(score) if options.increments => out.double(score),
        None if options.increments => out.nil(),
        _ if options.counts_changed => out.integer(added.new + added.changed),
        _ => out.integer(added.new),
    }
    Ok(())
}

pub(crate) fn zincrby(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let options = Options { increments: true, ..Options::default() };
    let added = add(keyspace, request.arg(1), options, &[(float(request.arg(2))?, request.arg(3))])?;
    out.double(added.last_score.unwrap_or_default());
    Ok(())
}

pub(crate) fn add(
    keyspace: &mut Keyspace,
    key: &[u8],
    options: Options,
    pairs: &[(f64, &[u8])],
) -> Result<Added, Error> {
    let added = keyspace.edit_or_create(key, |zset: &mut Zset| {
        let mut added = Added::default();
        for &(given, member) in pairs {
            let old = zset.score(member);
            let Some(score) = options.score(old, given)? else { continue };
            added.last_score = Some(score);
            added.new += i64::from(old.is_none());
            added.changed += i64::from(old.is_some_and(|old| old != score));
            if old != Some(score) {
                zset.set(member, score);
            }
        }
        Ok::<_, Error>(added)
    })??;
    if added.new + added.changed > 0 {
        keyspace.changed(Class::Zset, if options.increments { "zincr" } else { "zadd" }, key);
    }
    Ok(added)
}

pub(crate) fn zrem(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let removed = keyspace.edit(request.arg(1), |zset: &mut Zset| {
        request.args().skip(2).filter(|member| zset.remove(member)).count()
    })?;
    let removed = removed.unwrap_or_default();
    if removed > 0 {
        keyspace.shrunk(Class::Zset, "zrem", request.arg(1));
    }
    out.integer(removed as i64);
    Ok(())
}

pub(crate) fn zscore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    write_score(zset.and_then(|zset| zset.score(request.arg(2))), out);
    Ok(())
}

pub(crate) fn zmscore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    out.array(request.len() - 2);
    let scores = request.args().skip(2).map(|member| zset.and_then(|zset| zset.score(member)));
    scores.for_each(|score| write_score(score, out));
    Ok(())
}

fn write_score(score: Option<f64>, out: &mut Reply) {
    match score {
        Some(score) => out.double(score),
        None => out.nil(),
    }
}

pub(crate) fn zcard(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(keyspace.read::<Zset>(request.arg(1))?.map_or(0, Zset::len) as i64);
    Ok(())
}

pub(crate) fn zrank(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    write_rank(zset.and_then(|zset| zset.rank(request.arg(2))), out);
    Ok(())
}

pub(crate) fn zrevrank(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    let rank = zset.and_then(|zset| Some(zset.len() - 1 - zset.rank(request.arg(2))?));
    write_rank(rank, out);
    Ok(())
}

fn write_rank(rank: Option<usize>, out: &mut Reply) {
    match rank {
        Some(rank) => out.integer(rank as i64),
        None => out.nil(),
    }
}

pub(crate) fn zpopmin(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(keyspace, request, Side::Lowest, out)
}

pub(crate) fn zpopmax(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(keyspace, request, Side::Highest, out)
}

/// Side from which the next member is popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Lowest,
    Highest,
}

impl Side {
    pub(crate) fn of(from_second: bool) -> Side {
        if from_second { Side::Highest } else { Side::Lowest }
    }

    fn event(self) -> &'static str {
        if self == Side::Lowest { "zpopmin" } else { "zpopmax" }
    }

    fn next(self, zset: &Zset) -> Option<&Scored> {
        match self {
            Side::Lowest => zset.at(0),
            Side::Highest => zset.at(zset.len().checked_sub(1)?),
        }
    }
}

fn pop(keyspace: &mut Keyspace, request: &Request<'_>, side: Side, out: &mut Reply) -> Done {
    if request.len() > 3 {
        return Err(Error::Syntax);
    }
    let count = request.get(2).map_or(Ok(1), positive)?;
    let popped = take(keyspace, request.arg(1), side, count)?.unwrap_or_default();
    // In RESP3 a reply without count is one flat pair too.
    if request.len() == 2 {
        out.array(2 * popped.len());
        popped.iter().for_each(|scored| write_flat(scored, out));
    } else {
        write_list(popped.iter(), popped.len(), true, out);
    }
    Ok(())
}

/// Takes members out; `None` if there is no such key.
fn take(keyspace: &mut Keyspace, key: &[u8], side: Side, count: usize) -> Result<Option<Vec<Scored>>, Error> {
    let taken = keyspace.edit(key, |zset: &mut Zset| {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(scored) = side.next(zset).cloned()
        {
            zset.remove(&scored.member);
            taken.push(scored);
        }
        taken
    })?;
    if taken.as_ref().is_some_and(|taken| !taken.is_empty()) {
        keyspace.shrunk(Class::Zset, side.event(), key);
    }
    Ok(taken)
}

/// The reply of ZMPOP, with a count, and that of BZPOPMIN without one. False if there is no such key.
pub(crate) fn show_popped(
    keyspace: &mut Keyspace,
    key: &[u8],
    side: Side,
    count: Option<usize>,
    out: &mut Reply,
) -> Result<bool, Error> {
    let Some(popped) = take(keyspace, key, side, count.unwrap_or(1))? else { return Ok(false) };
    out.array(if count.is_some() { 2 } else { 3 });
    out.bulk(key);
    if count.is_some() {
        out.array(popped.len());
    }
    for scored in &popped {
        if count.is_some() {
            out.array(2);
        }
        write_flat(scored, out);
    }
    Ok(true)
}

pub(crate) fn zmpop(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = Multipop::parse(request, 1, ["MIN", "MAX"])?;
    for key in query.keys(request) {
        if show_popped(keyspace, key, Side::of(query.from_second), Some(query.count), out)? {
            return Ok(());
        }
    }
    out.nil_array();
    Ok(())
}

pub(crate) fn zrandmember(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let mut prng = keyspace.fork_prng();
    let count = request.get(2).map(signed_count).transpose()?;
    let with_scores = match (request.get(3), request.len()) {
        (None, _) => false,
        (Some(word), 4) if is(word, "WITHSCORES") => true,
        _ => return Err(Error::Syntax),
    };
    if with_scores {
        check_pairs(count)?;
    }
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    zset.map_or(Ok(()), |_| check_repeats(count))?;
    let Some(count) = count else {
        match zset.and_then(|zset| zset.random(&mut prng)) {
            Some(scored) => out.bulk(&scored.member),
            None => out.nil(),
        }
        return Ok(());
    };
    let len = zset.map_or(0, Zset::len);
    let shown =
        if count < 0 && len > 0 { count.unsigned_abs() as usize } else { len.min(count.max(0) as usize) };
    let Some(zset) = zset else {
        out.array(0);
        return Ok(());
    };
    if count < 0 {
        write_list((0..shown).filter_map(|_| zset.random(&mut prng)), shown, with_scores, out);
    } else {
        let draw = |prng: &mut Prng| zset.random(prng);
        let drawn = Drawn { len, wanted: shown };
        // Redis walks from the highest score down.
        let members = sample(drawn, zset.iter().rev(), draw, |scored| &*scored.member, &mut prng);
        write_list(members.into_iter(), shown, with_scores, out);
    }
    Ok(())
}

/// Members, of which there are `len`.
pub(crate) fn write_list<'z>(
    members: impl Iterator<Item = &'z Scored>,
    len: usize,
    with_scores: bool,
    out: &mut Reply,
) {
    if !with_scores {
        out.array(len);
        return members.for_each(|scored| out.bulk(&scored.member));
    }
    out.pairs(len);
    for scored in members {
        out.pair();
        write_flat(scored, out);
    }
}

/// A member and its score.
pub(crate) fn write_flat(scored: &Scored, out: &mut Reply) {
    out.bulk(&scored.member);
    out.double(scored.score);
}

/// Stores the result of a command and writes its length. An empty result removes the key.
pub(crate) fn store(keyspace: &mut Keyspace, key: &[u8], zset: Zset, name: &'static str, out: &mut Reply) {
    out.integer(zset.len() as i64);
    keyspace.set_result(key, zset.into_value(), Class::Zset, name);
}
