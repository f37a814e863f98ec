//! Commands that make one set of several.

use resp::Request;

use crate::args::{integer, is};
use crate::audience::Class;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::set::Set;
use crate::values::value::Kind;

type Done = Result<(), Error>;

/// Operation that combines sets.
#[derive(Clone, Copy)]
enum Join {
    Inter,
    Union,
    Diff,
}

impl Join {
    /// Passes each member of the result to `found` until that ends the walk.
    fn each<'s>(self, sets: &[Option<&'s Set>], found: &mut dyn FnMut(&'s [u8]) -> bool) {
        let Some((Some(first), others)) = sets.split_first() else { return };
        let is_in = |set: &Option<&Set>, member: &[u8]| set.is_some_and(|set| set.contains(member));
        match self {
            // The smallest set is walked.
            Join::Inter => {
                let Some(least) = sets.iter().map(|set| set.map_or(0, Set::len)).min() else { return };
                let least = sets.iter().flatten().find(|set| set.len() == least).unwrap_or(first);
                let mut all = least.iter().filter(|member| sets.iter().all(|set| is_in(set, member)));
                _ = all.all(found);
            }
            Join::Diff => {
                let mut all = first.iter().filter(|member| !others.iter().any(|set| is_in(set, member)));
                _ = all.all(found);
            }
            Join::Union => {}
        }
    }

    fn collect(self, sets: &[Option<&Set>], mut result: Set) -> Set {
        match self {
            Join::Union => {
                sets.iter().flatten().flat_map(|set| set.iter()).for_each(|member| _ = result.insert(member));
            }
            Join::Inter | Join::Diff => self.each(sets, &mut |member| {
                result.insert(member);
                true
            }),
        }
        result
    }
}

pub(crate) fn sinter(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Join::Inter, out)
}

pub(crate) fn sunion(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Join::Union, out)
}

pub(crate) fn sdiff(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, Join::Diff, out)
}

fn show(keyspace: &mut Keyspace, request: &Request<'_>, join: Join, out: &mut Reply) -> Done {
    let result = join.collect(&sets(keyspace, request.args().skip(1))?, keyspace.empty());
    out.set(result.len());
    result.iter().for_each(|member| out.bulk(member));
    Ok(())
}

pub(crate) fn sinterstore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    store(keyspace, request, Join::Inter, "sinterstore", out)
}

pub(crate) fn sunionstore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    store(keyspace, request, Join::Union, "sunionstore", out)
}

pub(crate) fn sdiffstore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    store(keyspace, request, Join::Diff, "sdiffstore", out)
}

fn store(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    join: Join,
    name: &'static str,
    out: &mut Reply,
) -> Done {
    let result = join.collect(&sets(keyspace, request.args().skip(2))?, keyspace.empty());
    out.integer(result.len() as i64);
    keyspace.set_result(request.arg(1), result.into_value(), Class::Set, name);
    Ok(())
}

pub(crate) fn sintercard(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let count = integer(request.arg(1)).ok().filter(|&count| count > 0).ok_or(Error::Numkeys)?;
    let count = usize::try_from(count).map_err(|_| Error::Numkeys)?;
    if count > request.len() - 2 {
        return Err(Error::NumkeysTooMany);
    }
    let mut count_max = 0;
    for at in (2 + count..request.len()).step_by(2) {
        let value = request.get(at + 1).filter(|_| is(request.arg(at), "LIMIT")).ok_or(Error::Syntax)?;
        count_max = integer(value).ok().and_then(|limit| usize::try_from(limit).ok()).ok_or(Error::Limit)?;
    }
    let sets = sets(keyspace, request.args().skip(2).take(count))?;
    let mut found = 0;
    Join::Inter.each(&sets, &mut |_| {
        found += 1;
        found != count_max
    });
    out.integer(found as i64);
    Ok(())
}

/// The sets of all keys; an error if one has another type.
fn sets<'k, 'r>(
    keyspace: &'k Keyspace,
    keys: impl Iterator<Item = &'r [u8]>,
) -> Result<Vec<Option<&'k Set>>, Error> {
    keys.map(|key| keyspace.peek_at::<Set>(key)).collect()
}
