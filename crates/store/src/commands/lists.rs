//! Commands on lists.

use resp::Request;
use resp::integer::parse_i64;

use crate::args::{Multipop, index, integer, is, positive, range};
use crate::audience::Class;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::list::{End, List};
use crate::values::value::Kind;

type Done = Result<(), Error>;

pub(crate) fn lpush(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    push(keyspace, request, End::Left, out)
}

pub(crate) fn rpush(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    push(keyspace, request, End::Right, out)
}

fn push(keyspace: &mut Keyspace, request: &Request<'_>, end: End, out: &mut Reply) -> Done {
    let len = keyspace.edit_or_create(request.arg(1), |list| push_all(list, request, end))?;
    keyspace.changed(Class::List, end.push_event(), request.arg(1));
    out.integer(len as i64);
    Ok(())
}

pub(crate) fn lpushx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    pushx(keyspace, request, End::Left, out)
}

pub(crate) fn rpushx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    pushx(keyspace, request, End::Right, out)
}

fn pushx(keyspace: &mut Keyspace, request: &Request<'_>, end: End, out: &mut Reply) -> Done {
    let len = keyspace.edit(request.arg(1), |list| push_all(list, request, end))?;
    if len.is_some() {
        keyspace.changed(Class::List, end.push_event(), request.arg(1));
    }
    out.integer(len.unwrap_or_default() as i64);
    Ok(())
}

fn push_all(list: &mut List, request: &Request<'_>, end: End) -> usize {
    request.args().skip(2).for_each(|item| list.push(end, item));
    list.len()
}

pub(crate) fn lpop(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(keyspace, request, End::Left, "lpop", out)
}

pub(crate) fn rpop(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(keyspace, request, End::Right, "rpop", out)
}

fn pop(keyspace: &mut Keyspace, request: &Request<'_>, end: End, name: &str, out: &mut Reply) -> Done {
    if request.len() > 3 {
        return Err(Error::Arity(name.to_owned()));
    }
    let count = request.get(2).map(positive).transpose()?;
    let found = keyspace.edit(request.arg(1), |list: &mut List| match count {
        None => out.bulk_or_nil(list.pop(end).as_deref()),
        Some(count) => {
            let len = count.min(list.len());
            out.array(len);
            (0..len).filter_map(|_| list.pop(end)).for_each(|item| out.bulk(&item));
        }
    })?;
    match (found, count) {
        (Some(()), Some(0)) => {}
        (Some(()), _) => keyspace.shrunk(Class::List, end.pop_event(), request.arg(1)),
        (None, None) => out.nil(),
        (None, Some(_)) => out.nil_array(),
    }
    Ok(())
}

pub(crate) fn lmpop(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = Multipop::parse(request, 1, ["LEFT", "RIGHT"])?;
    for key in query.keys(request) {
        if show_popped(keyspace, key, End::of(query.from_second), Some(query.count), out)? {
            return Ok(());
        }
    }
    out.nil_array();
    Ok(())
}

/// The reply of LMPOP, with a count, and that of BLPOP without one. False if there is no such key.
pub(crate) fn show_popped(
    keyspace: &mut Keyspace,
    key: &[u8],
    end: End,
    count: Option<usize>,
    out: &mut Reply,
) -> Result<bool, Error> {
    let popped = keyspace.edit(key, |list: &mut List| {
        out.array(2);
        out.bulk(key);
        let len = count.unwrap_or(1).min(list.len());
        if count.is_some() {
            out.array(len);
        }
        (0..len).filter_map(|_| list.pop(end)).for_each(|item| out.bulk(&item));
    })?;
    if popped.is_some() {
        keyspace.shrunk(Class::List, end.pop_event(), key);
    }
    Ok(popped.is_some())
}

pub(crate) fn llen(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(keyspace.read::<List>(request.arg(1))?.map_or(0, List::len) as i64);
    Ok(())
}

pub(crate) fn lrange(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (start, stop) = (integer(request.arg(2))?, integer(request.arg(3))?);
    let list = keyspace.read::<List>(request.arg(1))?;
    match list.and_then(|list| Some((list, range(start, stop, list.len())?))) {
        Some((list, (from, to))) => {
            out.array(to - from);
            list.range(from, to).for_each(|item| out.bulk(item));
        }
        None => out.array(0),
    }
    Ok(())
}

pub(crate) fn lindex(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let Some(list) = keyspace.read::<List>(request.arg(1))? else {
        out.nil();
        return Ok(());
    };
    let place = index(integer(request.arg(2))?, list.len());
    out.bulk_or_nil(place.and_then(|place| list.get(place)));
    Ok(())
}

pub(crate) fn lset(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let set = |list: &mut List| {
        let place = index(integer(request.arg(2))?, list.len()).ok_or(Error::IndexOutOfRange)?;
        list.set(place, request.arg(3));
        Ok(())
    };
    keyspace.edit(request.arg(1), set)?.ok_or(Error::NoSuchKey)??;
    keyspace.changed(Class::List, "lset", request.arg(1));
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn linsert(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let behind = match request.arg(2) {
        word if is(word, "BEFORE") => false,
        word if is(word, "AFTER") => true,
        _ => return Err(Error::Syntax),
    };
    let len = keyspace.edit(request.arg(1), |list: &mut List| {
        let found = list.insert(request.arg(3), behind, request.arg(4));
        if found { list.len() as i64 } else { -1 }
    })?;
    if len.is_some_and(|len| len > 0) {
        keyspace.changed(Class::List, "linsert", request.arg(1));
    }
    out.integer(len.unwrap_or_default());
    Ok(())
}

pub(crate) fn lrem(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let count = integer(request.arg(2))?;
    let end = if count < 0 { End::Right } else { End::Left };
    let count_max = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let removed =
        keyspace.edit(request.arg(1), |list: &mut List| list.remove(request.arg(3), count_max, end))?;
    let removed = removed.unwrap_or_default();
    if removed > 0 {
        keyspace.shrunk(Class::List, "lrem", request.arg(1));
    }
    out.integer(removed as i64);
    Ok(())
}

pub(crate) fn ltrim(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (start, stop) = (integer(request.arg(2))?, integer(request.arg(3))?);
    let cut = keyspace.edit(request.arg(1), |list: &mut List| {
        let (from, to) = range(start, stop, list.len()).unwrap_or_default();
        list.trim(from, to)
    })?;
    if cut.is_some() {
        keyspace.shrunk(Class::List, "ltrim", request.arg(1));
    }
    cut.into_iter().flatten().for_each(|list| keyspace.discard(list.into_value()));
    out.simple(b"OK");
    Ok(())
}

/// The options of LPOS.
struct Search {
    rank: i64,
    /// Number of wanted positions; `None` for one, which is not put into an array.
    count: Option<usize>,
    /// Number of elements that are compared; 0 for all.
    len_max: usize,
}

impl Search {
    fn parse(request: &Request<'_>) -> Result<Search, Error> {
        let mut search = Search { rank: 1, count: None, len_max: 0 };
        for at in (3..request.len()).step_by(2) {
            let (word, value) = (request.arg(at), request.get(at + 1).ok_or(Error::Syntax)?);
            let natural =
                |error: Error| parse_i64(value).and_then(|number| usize::try_from(number).ok()).ok_or(error);
            if is(word, "RANK") {
                search.rank = integer(value)?;
                if search.rank == 0 {
                    return Err(Error::PosRank);
                }
            } else if is(word, "COUNT") {
                search.count = Some(natural(Error::PosCount)?);
            } else if is(word, "MAXLEN") {
                search.len_max = natural(Error::PosMaxlen)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(search)
    }

    fn find(&self, list: &List, item: &[u8]) -> Vec<usize> {
        let len_max = if self.len_max == 0 { usize::MAX } else { self.len_max };
        let count = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => count,
        };
        // The negation of the lowest rank overflows in Redis, which then counts from the first match without end.
        let (skipped, count) = match self.rank {
            i64::MIN => (0, self.count.map_or(1, |_| usize::MAX)),
            rank => (rank.unsigned_abs() as usize - 1, count),
        };
        let is_match = |(_, other): &(usize, &[u8])| *other == item;
        if self.rank > 0 {
            let all = list.iter().enumerate().take(len_max).filter(is_match);
            all.skip(skipped).take(count).map(|(at, _)| at).collect()
        } else {
            let all = list.iter().rev().enumerate().take(len_max).filter(is_match);
            all.skip(skipped).take(count).map(|(at, _)| list.len() - 1 - at).collect()
        }
    }
}

pub(crate) fn lpos(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let search = Search::parse(request)?;
    let list = keyspace.read::<List>(request.arg(1))?;
    let found = list.map(|list| search.find(list, request.arg(2))).unwrap_or_default();
    match (search.count, found.first()) {
        (Some(_), _) => {
            out.array(found.len());
            found.iter().for_each(|&place| out.integer(place as i64));
        }
        (None, Some(&place)) => out.integer(place as i64),
        (None, None) => out.nil(),
    }
    Ok(())
}

pub(crate) fn lmove(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let ends = (parse_end(request.arg(3))?, parse_end(request.arg(4))?);
    show_shifted(keyspace, request, ends, out)
}

pub(crate) fn rpoplpush(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show_shifted(keyspace, request, (End::Right, End::Left), out)
}

pub(crate) fn parse_end(word: &[u8]) -> Result<End, Error> {
    match word {
        _ if is(word, "LEFT") => Ok(End::Left),
        _ if is(word, "RIGHT") => Ok(End::Right),
        _ => Err(Error::Syntax),
    }
}

fn show_shifted(keyspace: &mut Keyspace, request: &Request<'_>, ends: (End, End), out: &mut Reply) -> Done {
    if !shift(keyspace, request.arg(1), request.arg(2), ends, out)? {
        out.nil();
    }
    Ok(())
}

/// Moves an element from an end of one list to an end of another, or of the same. Returns false if the first does not exist.
pub(crate) fn shift(
    keyspace: &mut Keyspace,
    source: &[u8],
    target: &[u8],
    (from, to): (End, End),
    out: &mut Reply,
) -> Result<bool, Error> {
    if keyspace.read::<List>(source)?.is_none() {
        return Ok(false);
    }
    keyspace.read::<List>(target)?;
    let item = if source == target {
        let turned = keyspace.edit(source, |list: &mut List| {
            let item = list.pop(from)?;
            list.push(to, &item);
            Some(item)
        })?;
        turned.flatten()
    } else {
        let item = keyspace.edit(source, |list: &mut List| list.pop(from))?.flatten();
        if let Some(item) = &item {
            keyspace.edit_or_create(target, |list: &mut List| list.push(to, item))?;
        }
        item
    };
    keyspace.changed(Class::List, to.push_event(), target);
    keyspace.shrunk(Class::List, from.pop_event(), source);
    out.bulk_or_nil(item.as_deref());
    Ok(true)
}
