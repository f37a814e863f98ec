//! Commands on one set.

use std::collections::BTreeSet;

use resp::Request;
use stdx::Prng;

use crate::args::{positive, signed_count};
use crate::audience::Class;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::set::Set;

type Done = Result<(), Error>;

pub(crate) fn sadd(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let added = keyspace.edit_or_create(request.arg(1), |set: &mut Set| {
        request.args().skip(2).filter(|member| set.insert(member)).count()
    })?;
    if added > 0 {
        keyspace.changed(Class::Set, "sadd", request.arg(1));
    }
    out.integer(added as i64);
    Ok(())
}

pub(crate) fn srem(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let removed = keyspace.edit(request.arg(1), |set: &mut Set| {
        request.args().skip(2).filter(|member| set.remove(member)).count()
    })?;
    let removed = removed.unwrap_or_default();
    if removed > 0 {
        keyspace.shrunk(Class::Set, "srem", request.arg(1));
    }
    out.integer(removed as i64);
    Ok(())
}

pub(crate) fn sismember(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let set = keyspace.read::<Set>(request.arg(1))?;
    out.integer(i64::from(set.is_some_and(|set| set.contains(request.arg(2)))));
    Ok(())
}

pub(crate) fn smismember(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let set = keyspace.read::<Set>(request.arg(1))?;
    out.array(request.len() - 2);
    for member in request.args().skip(2) {
        out.integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

pub(crate) fn smembers(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let set = keyspace.read::<Set>(request.arg(1))?;
    out.set(set.map_or(0, Set::len));
    set.into_iter().flat_map(Set::iter).for_each(|member| out.bulk(member));
    Ok(())
}

pub(crate) fn scard(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(keyspace.read::<Set>(request.arg(1))?.map_or(0, Set::len) as i64);
    Ok(())
}

pub(crate) fn spop(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    if request.len() > 3 {
        return Err(Error::Syntax);
    }
    let count = request.get(2).map(positive).transpose()?;
    let mut prng = keyspace.fork_prng();
    let popped =
        keyspace.edit(request.arg(1), |set: &mut Set| pop_some(set, count.unwrap_or(1), &mut prng))?;
    let popped = popped.unwrap_or_default();
    if count.is_some() && !popped.is_empty() && keyspace.peek(request.arg(1)).is_none() {
        // For an SPOP that takes everything, Redis computes a union of the one set. That counts as a look-up.
        keyspace.stats.hit();
    }
    if !popped.is_empty() {
        keyspace.shrunk(Class::Set, "spop", request.arg(1));
    }
    match (count, popped.first()) {
        (Some(_), _) => {
            out.set(popped.len());
            popped.iter().for_each(|member| out.bulk(member));
        }
        (None, Some(member)) => out.bulk(member),
        (None, None) => out.nil(),
    }
    Ok(())
}

fn pop_some(set: &mut Set, count: usize, prng: &mut Prng) -> Vec<Box<[u8]>> {
    let mut popped = Vec::new();
    while popped.len() < count
        && let Some(member) = set.random(prng).map(Box::from)
    {
        set.remove(&member);
        popped.push(member);
    }
    popped
}

pub(crate) fn srandmember(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    if request.len() > 3 {
        return Err(Error::Syntax);
    }
    let mut prng = keyspace.fork_prng();
    let count = request.get(2).map(signed_count).transpose()?;
    let set = keyspace.read::<Set>(request.arg(1))?;
    let Some(count) = count else {
        match set.and_then(|set| set.random(&mut prng)) {
            Some(member) => out.bulk(member),
            None => out.nil(),
        }
        return Ok(());
    };
    let Some(set) = set else {
        out.array(0);
        return Ok(());
    };
    check_repeats(Some(count))?;
    if count < 0 {
        let shown = count.unsigned_abs() as usize;
        out.array(shown);
        (0..shown).filter_map(|_| set.random(&mut prng)).for_each(|member| out.bulk(member));
    } else {
        let shown = set.len().min(count as usize);
        out.array(shown);
        let draw = |prng: &mut Prng| set.random(prng);
        let members =
            sample(Drawn { len: set.len(), wanted: shown }, set.iter(), draw, |member| member, &mut prng);
        members.into_iter().for_each(|member| out.bulk(member));
    }
    Ok(())
}

pub(crate) fn smove(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (source, target, member) = (request.arg(1), request.arg(2), request.arg(3));
    let target_type = keyspace.read::<Set>(target).map(|_| ());
    let Some(is_there) = keyspace.read::<Set>(source)?.map(|set| set.contains(member)) else {
        out.integer(0);
        return Ok(());
    };
    target_type?;
    if is_there && source != target {
        keyspace.edit(source, |set: &mut Set| set.remove(member))?;
        keyspace.shrunk(Class::Set, "srem", source);
        if keyspace.edit_or_create(target, |set: &mut Set| set.insert(member))? {
            keyspace.changed(Class::Set, "sadd", target);
        }
    }
    out.integer(i64::from(is_there));
    Ok(())
}

/// Number of items, and number of wanted ones.
#[derive(Clone, Copy)]
pub(crate) struct Drawn {
    pub(crate) len: usize,
    pub(crate) wanted: usize,
}

/// Draws different items with equal probability. A few of many are drawn one by one; otherwise one pass over all chooses them.
pub(crate) fn sample<'c, T>(
    drawn: Drawn,
    items: impl Iterator<Item = T>,
    draw: impl Fn(&mut Prng) -> Option<T>,
    key: impl Fn(&T) -> &'c [u8],
    prng: &mut Prng,
) -> Vec<T> {
    if drawn.wanted.saturating_mul(FEW_FACTOR) > drawn.len {
        return choose(drawn, items, prng).collect();
    }
    let (mut seen, mut chosen) = (BTreeSet::new(), Vec::with_capacity(drawn.wanted));
    while chosen.len() < drawn.wanted
        && let Some(item) = draw(prng)
    {
        if seen.insert(key(&item)) {
            chosen.push(item);
        }
    }
    chosen
}

/// One pass over all items (Knuth's algorithm S).
fn choose<T>(drawn: Drawn, items: impl Iterator<Item = T>, prng: &mut Prng) -> impl Iterator<Item = T> {
    let (mut left, mut wanted) = (drawn.len as u64, drawn.wanted as u64);
    items.filter(move |_| {
        let is_chosen = prng.below(left) < wanted;
        left = left.saturating_sub(1);
        wanted -= u64::from(is_chosen);
        is_chosen
    })
}

/// Redis's `SRANDMEMBER_SUB_STRATEGY_MUL`: less than one item in three is drawn one by one.
const FEW_FACTOR: usize = 3;

/// Checks a count of pairs. Redis refuses one whose double does not fit, whether or not the key exists.
pub(crate) fn check_pairs(count: Option<i64>) -> Done {
    let is_excessive = count.is_some_and(|count| count.unsigned_abs() > PAIRS_MAX);
    if is_excessive { Err(Error::OutOfRange) } else { Ok(()) }
}

/// Checks the number of repeated draws from an existing key.
pub(crate) fn check_repeats(count: Option<i64>) -> Done {
    let is_excessive = count.is_some_and(|count| count < -REPEATS_MAX);
    if is_excessive { Err(Error::OutOfRange) } else { Ok(()) }
}

/// Redis's bound on a count whose double must fit.
const PAIRS_MAX: u64 = i64::MAX as u64 / 2;

/// A negative count returns members repeatedly. This bound is above any useful count; Redis would fill its memory with the
/// reply.
pub(crate) const REPEATS_MAX: i64 = 1_000_000;
