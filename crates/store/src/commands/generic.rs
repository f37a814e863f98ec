//! Commands on keys of any type.

use resp::{Request, encode};

use crate::args::{integer, is, shown};
use crate::commands::help;
use crate::commands::monitor;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::values::value::Value;
use resp::integer::parse_i64;
use stdx::glob;

type Done = Result<(), Error>;

pub(crate) fn del(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let removed = request.args().skip(1).filter(|key| keyspace.remove(key)).count();
    encode::integer(out, removed as i64);
    Ok(())
}

pub(crate) fn exists(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let found = request.args().skip(1).filter(|key| keyspace.find(key).is_some()).count();
    encode::integer(out, found as i64);
    Ok(())
}

pub(crate) fn kind(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let name = keyspace.find(request.arg(1)).map_or("none", |entry| entry.value.type_name());
    encode::simple(out, name.as_bytes());
    Ok(())
}

pub(crate) fn keys(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let pattern = request.arg(1);
    let found: Vec<&[u8]> =
        keyspace.iter().map(|(key, _)| key).filter(|key| glob::matches(pattern, key)).collect();
    encode::array_header(out, found.len());
    found.iter().for_each(|key| encode::bulk(out, key));
    Ok(())
}

pub(crate) fn randomkey(keyspace: &mut Keyspace, _: &Request<'_>, out: &mut Vec<u8>) -> Done {
    match keyspace.random_key() {
        Some(key) => encode::bulk(out, &key),
        None => encode::nil(out),
    }
    Ok(())
}

pub(crate) fn rename(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let (value, expires_at) = keyspace.take(request.arg(1)).ok_or(Error::NoSuchKey)?;
    keyspace.set(request.arg(2), value, expires_at);
    encode::simple(out, b"OK");
    Ok(())
}

pub(crate) fn renamenx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    keyspace.find(request.arg(1)).ok_or(Error::NoSuchKey)?;
    let is_free = keyspace.find(request.arg(2)).is_none();
    if is_free && let Some((value, expires_at)) = keyspace.take(request.arg(1)) {
        keyspace.set(request.arg(2), value, expires_at);
    }
    encode::integer(out, i64::from(is_free));
    Ok(())
}

pub(crate) fn copy(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let (from, to) = (request.arg(1), request.arg(2));
    let (mut replaces, mut at) = (false, 3);
    while let Some(word) = request.get(at) {
        match request.get(at + 1) {
            _ if is(word, "REPLACE") => replaces = true,
            Some(db) if is(word, "DB") => {
                // There is one database.
                if integer(db)? != 0 {
                    return Err(Error::DbIndex);
                }
                at += 1;
            }
            _ => return Err(Error::Syntax),
        }
        at += 1;
    }
    if from == to {
        return Err(Error::SameKey);
    }
    let is_there = keyspace.find(from).is_some();
    keyspace.stats.count(false);
    let may = is_there && (replaces || keyspace.find(to).is_none());
    encode::integer(out, i64::from(may && keyspace.copy(from, to)));
    Ok(())
}

pub(crate) fn dbsize(keyspace: &mut Keyspace, _: &Request<'_>, out: &mut Vec<u8>) -> Done {
    encode::integer(out, keyspace.len() as i64);
    Ok(())
}

/// FLUSHDB and FLUSHALL, which are the same where there is one database.
pub(crate) fn flush(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    match request.get(1) {
        None => {}
        Some(word) if request.len() == 2 && (is(word, "ASYNC") || is(word, "SYNC")) => {}
        Some(_) => return Err(Error::Syntax),
    }
    keyspace.clear();
    encode::simple(out, b"OK");
    Ok(())
}

pub(crate) fn object(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let subcommand = request.arg(1);
    if is(subcommand, "HELP") {
        return help::write(request, "OBJECT", help::OBJECT, out);
    }
    let names = ["encoding", "refcount", "idletime", "freq"];
    let name = names.into_iter().find(|name| is(subcommand, name));
    let name = name.ok_or_else(|| Error::UnknownSubcommand(shown(subcommand), "OBJECT"))?;
    let (Some(key), 3) = (request.get(2), request.len()) else {
        return Err(Error::Arity(format!("object|{name}")));
    };
    match (name, keyspace.peek(key)) {
        (_, None) => encode::nil(out),
        ("encoding", Some(entry)) => encode::bulk(out, entry.value.encoding().as_bytes()),
        ("freq", Some(_)) => return Err(Error::NO_FREQUENCY),
        ("refcount", Some(entry)) => encode::integer(out, refcount(keyspace, &entry.value)),
        (_, Some(entry)) => encode::integer(out, (keyspace.idle_ms(entry) / 1_000) as i64),
    }
    Ok(())
}

/// Redis shares the small integers between all keys, unless it needs the time of last use of each.
fn refcount(keyspace: &Keyspace, value: &Value) -> i64 {
    let is_small = |text: &[u8]| parse_i64(text).is_some_and(|number| (0..SHARED_INTEGERS).contains(&number));
    match value {
        Value::Text(text) if is_small(text) && !keyspace.policy.is_lru() => i64::from(i32::MAX),
        _ => 1,
    }
}

const SHARED_INTEGERS: i64 = 10_000;

/// MEMORY USAGE: what the key counts for in our own account, which is not what it would cost Redis.
pub(crate) fn memory(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    if is(request.arg(1), "HELP") {
        return help::write(request, "MEMORY", help::MEMORY, out);
    }
    if !is(request.arg(1), "USAGE") {
        return monitor::memory(keyspace, request.arg(1), out);
    }
    let key = request.get(2).ok_or_else(|| Error::Arity("memory|usage".to_owned()))?;
    for at in (3..request.len()).step_by(2) {
        let samples = request.get(at + 1).filter(|_| is(request.arg(at), "SAMPLES")).ok_or(Error::Syntax)?;
        // Our account is exact, so that nothing needs to be sampled.
        if integer(samples)? < 0 {
            return Err(Error::Syntax);
        }
    }
    match keyspace.peek(key) {
        Some(entry) => encode::integer(out, entry.memory() as i64),
        None => encode::nil(out),
    }
    Ok(())
}
