//! SORT and SORT_RO: the elements of a list, a set or a sorted set. Other keys may give the order.
//!
//! Patterns (`BY weight_*`, `GET object_*->name`) are looked up in this store alone.

use std::cmp::Ordering;

use resp::Request;

use crate::args::{integer, is};
use crate::audience::Class;
use crate::error::Error;
use crate::formats::double;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::list::{End, List};
use crate::values::value::{Kind, Value};

type Done = Result<(), Error>;

pub(crate) fn sort(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = Query::parse(request, true)?;
    let Some(target) = query.target else { return show(keyspace, &query, request.arg(1), out) };
    let mut list = List::default();
    for element in query.run(keyspace, request.arg(1))? {
        query.each_column(keyspace, element, |value| list.push(End::Right, value.unwrap_or_default()));
    }
    out.integer(list.len() as i64);
    keyspace.set_result(target, list.into_value(), Class::List, "sortstore");
    Ok(())
}

pub(crate) fn sort_ro(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, &Query::parse(request, false)?, request.arg(1), out)
}

fn show(keyspace: &Keyspace, query: &Query<'_>, key: &[u8], out: &mut Reply) -> Done {
    let elements = query.run(keyspace, key)?;
    out.array(elements.len() * query.columns.len().max(1));
    for element in elements {
        query.each_column(keyspace, element, |value| out.bulk_or_nil(value));
    }
    Ok(())
}

/// The parsed options.
struct Query<'a> {
    descends: bool,
    by_bytes: bool,
    /// Cleared if a BY without an asterisk disables sorting.
    is_sorted: bool,
    by: Option<&'a [u8]>,
    offset: i64,
    count: i64,
    /// Patterns of GET, whose values are returned instead of the element.
    columns: Vec<&'a [u8]>,
    target: Option<&'a [u8]>,
}

impl<'a> Query<'a> {
    fn parse(request: &Request<'a>, may_store: bool) -> Result<Query<'a>, Error> {
        let mut query = Query {
            descends: false,
            by_bytes: false,
            is_sorted: true,
            by: None,
            offset: 0,
            count: -1,
            columns: Vec::new(),
            target: None,
        };
        let mut at = 2;
        while let Some(word) = request.get(at) {
            at += match (request.get(at + 1), request.get(at + 2)) {
                _ if is(word, "ASC") => {
                    query.descends = false;
                    1
                }
                _ if is(word, "DESC") => {
                    query.descends = true;
                    1
                }
                _ if is(word, "ALPHA") => {
                    query.by_bytes = true;
                    1
                }
                (Some(offset), Some(count)) if is(word, "LIMIT") => {
                    (query.offset, query.count) = (integer(offset)?, integer(count)?);
                    3
                }
                (Some(target), _) if may_store && is(word, "STORE") => {
                    query.target = Some(target);
                    2
                }
                (Some(pattern), _) if is(word, "BY") => {
                    query.by = Some(pattern);
                    query.is_sorted &= asterisk(pattern).is_some();
                    2
                }
                (Some(pattern), _) if is(word, "GET") => {
                    query.columns.push(pattern);
                    2
                }
                _ => return Err(Error::Syntax),
            };
        }
        Ok(query)
    }

    /// The elements in their order, within the limit.
    fn run<'k>(&self, keyspace: &'k Keyspace, key: &[u8]) -> Result<Vec<&'k [u8]>, Error> {
        let value = keyspace.peek(key).map(|entry| &entry.value);
        let mut elements: Vec<&[u8]> = match value {
            None => Vec::new(),
            Some(Value::List(list)) => list.iter().collect(),
            Some(Value::Set(set)) => set.iter().collect(),
            Some(Value::Zset(zset)) => zset.iter().map(|scored| &*scored.member).collect(),
            Some(_) => return Err(Error::WrongType),
        };
        if self.is_sorted {
            elements = self.sorted(keyspace, elements)?;
        } else if self.target.is_some() && matches!(value, Some(Value::Set(_))) {
            // A set has no order of its own, but a stored result must not depend on chance.
            elements.sort_unstable();
            self.turn(&mut elements);
        } else {
            self.turn(&mut elements);
        }
        let len = i64::try_from(elements.len()).unwrap_or(i64::MAX);
        let offset = self.offset.clamp(0, len);
        let count = if self.count < 0 { len } else { self.count.min(len) };
        let end = offset.saturating_add(count).min(len);
        Ok(elements[offset as usize..end as usize].to_vec())
    }

    fn turn(&self, elements: &mut [&[u8]]) {
        if self.descends {
            elements.reverse();
        }
    }

    fn sorted<'k>(&self, keyspace: &'k Keyspace, elements: Vec<&'k [u8]>) -> Result<Vec<&'k [u8]>, Error> {
        let weight = |element: &'k [u8]| match self.by {
            Some(pattern) => lookup(keyspace, pattern, element),
            None => Some(element),
        };
        let weighted: Vec<_> = elements.into_iter().map(|element| (weight(element), element)).collect();
        if self.by_bytes {
            // Without STORE, Redis compares C strings, up to the first NUL.
            let compared = |bytes: &'k [u8]| if self.target.is_some() { bytes } else { until_nul(bytes) };
            let weighted = weighted.into_iter().map(|(weight, element)| (weight.map(compared), element));
            return Ok(self.in_order(weighted.collect(), |one, other| one.0.cmp(&other.0)));
        }
        let score = |weight: Option<&[u8]>| match weight {
            Some(text) => double::parse_in_range(text).ok_or(Error::SORT_SCORES),
            None => Ok(0.0),
        };
        let weighted = weighted.into_iter().map(|(weight, element)| Ok((score(weight)?, element)));
        Ok(self.in_order(weighted.collect::<Result<_, _>>()?, |one: &(f64, &[u8]), other| {
            one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal).then_with(|| one.1.cmp(other.1))
        }))
    }

    fn in_order<'k, W>(
        &self,
        mut weighted: Vec<(W, &'k [u8])>,
        compare: impl Fn(&(W, &'k [u8]), &(W, &'k [u8])) -> Ordering,
    ) -> Vec<&'k [u8]> {
        weighted.sort_by(|one, other| {
            let order = compare(one, other);
            if self.descends { order.reverse() } else { order }
        });
        weighted.into_iter().map(|(_, element)| element).collect()
    }

    /// Passes each returned value of one element to `found`.
    fn each_column(&self, keyspace: &Keyspace, element: &[u8], mut found: impl FnMut(Option<&[u8]>)) {
        if self.columns.is_empty() {
            return found(Some(element));
        }
        self.columns.iter().for_each(|pattern| found(lookup(keyspace, pattern, element)));
    }
}

/// The value of `pattern` with `element` in the place of the asterisk. `#` gives the element, another pattern a string. With
/// `->` after the asterisk the value is a field of a hash.
fn lookup<'k>(keyspace: &'k Keyspace, pattern: &[u8], element: &'k [u8]) -> Option<&'k [u8]> {
    if pattern == b"#" {
        return Some(element);
    }
    let star = asterisk(pattern)?;
    let (prefix, rest) = (&pattern[..star], &pattern[star + 1..]);
    let (postfix, field) = match until_nul(rest).windows(2).position(|pair| pair == b"->") {
        Some(arrow) if arrow + 2 < rest.len() => (&rest[..arrow], Some(&rest[arrow + 2..])),
        _ => (rest, None),
    };
    let entry = keyspace.peek(&[prefix, element, postfix].concat())?;
    match (&entry.value, field) {
        (Value::Text(text), None) => Some(text),
        (Value::Hash(hash), Some(field)) => hash.get(field),
        _ => None,
    }
}

/// Position of the asterisk. Redis searches as C does, up to the first NUL.
fn asterisk(pattern: &[u8]) -> Option<usize> {
    until_nul(pattern).iter().position(|&byte| byte == b'*')
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
