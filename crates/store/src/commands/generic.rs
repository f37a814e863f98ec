//! Commands on keys of any type.

use resp::Request;

use crate::args::{integer, is, shown};
use crate::audience::Class;
use crate::commands::help;
use crate::commands::monitor;
use crate::database::DATABASES;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::value::Value;
use resp::integer::parse_i64;
use stdx::glob;

type Done = Result<(), Error>;

pub(crate) fn del(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let mut removed = 0;
    for key in request.args().skip(1) {
        if keyspace.remove(key) {
            keyspace.changed(Class::Generic, "del", key);
            removed += 1;
        }
    }
    out.integer(removed);
    Ok(())
}

pub(crate) fn exists(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let found = request.args().skip(1).filter(|key| keyspace.find(key).is_some()).count();
    out.integer(found as i64);
    Ok(())
}

pub(crate) fn kind(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let name = keyspace.find(request.arg(1)).map_or("none", |entry| entry.value.type_name());
    out.simple(name.as_bytes());
    Ok(())
}

pub(crate) fn keys(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let pattern = request.arg(1);
    let found: Vec<&[u8]> =
        keyspace.iter().map(|(key, _)| key).filter(|key| glob::matches(pattern, key)).collect();
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(())
}

pub(crate) fn randomkey(keyspace: &mut Keyspace, _: &Request<'_>, out: &mut Reply) -> Done {
    match keyspace.random_key() {
        Some(key) => out.bulk(&key),
        None => out.nil(),
    }
    Ok(())
}

pub(crate) fn rename(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let taken = keyspace.take(request.arg(1)).ok_or(Error::NoSuchKey)?;
    put_renamed(keyspace, request, taken);
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn renamenx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    keyspace.find(request.arg(1)).ok_or(Error::NoSuchKey)?;
    let is_free = keyspace.find(request.arg(2)).is_none();
    if is_free && let Some(taken) = keyspace.take(request.arg(1)) {
        put_renamed(keyspace, request, taken);
    }
    out.integer(i64::from(is_free));
    Ok(())
}

/// Stores the value and expiry of the first key under the second. An old value of the second key is removed first. Waiting
/// clients therefore see a new key.
fn put_renamed(keyspace: &mut Keyspace, request: &Request<'_>, (value, expires_at): (Value, u64)) {
    let (from, to) = (request.arg(1), request.arg(2));
    keyspace.remove(to);
    keyspace.set(to, value, expires_at);
    if from != to {
        keyspace.changed(Class::Generic, "rename_from", from);
        keyspace.changed(Class::Generic, "rename_to", to);
    }
}

pub(crate) fn copy(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (from, to) = (request.arg(1), request.arg(2));
    let (mut replaces, mut at) = (false, 3);
    let source = keyspace.selected();
    let mut target = source;
    while let Some(word) = request.get(at) {
        match request.get(at + 1) {
            _ if is(word, "REPLACE") => replaces = true,
            Some(db) if is(word, "DB") => {
                target = database(db)?;
                at += 1;
            }
            _ => return Err(Error::Syntax),
        }
        at += 1;
    }
    if from == to && source == target {
        return Err(Error::SameKey);
    }
    let copied = keyspace.copy(from);
    keyspace.stats.count(false);
    let is_copied = copied.is_some_and(|(value, expires_at)| {
        keyspace.within(target, |keyspace| {
            let may = replaces || keyspace.find(to).is_none();
            if may {
                keyspace.remove(to);
                keyspace.set(to, value, expires_at);
                keyspace.changed(Class::Generic, "copy_to", to);
            }
            may
        })
    });
    out.integer(i64::from(is_copied));
    Ok(())
}

/// MOVE, to another database.
pub(crate) fn shift(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (key, target) = (request.arg(1), database(request.arg(2))?);
    if target == keyspace.selected() {
        return Err(Error::SameKey);
    }
    let may =
        keyspace.find(key).is_some() && keyspace.within(target, |keyspace| keyspace.find(key).is_none());
    if may && let Some((value, expires_at)) = keyspace.take(key) {
        keyspace.changed(Class::Generic, "move_from", key);
        keyspace.within(target, |keyspace| {
            keyspace.set(key, value, expires_at);
            keyspace.changed(Class::Generic, "move_to", key);
        });
    }
    out.integer(i64::from(may));
    Ok(())
}

/// SWAPDB: connections that selected one of the two databases see the other's keys from now on.
pub(crate) fn swapdb(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let number =
        |arg, error: Error| parse_i64(arg).filter(|number| i32::try_from(*number).is_ok()).ok_or(error);
    let one = number(request.arg(1), Error::SWAPDB_FIRST)?;
    let other = number(request.arg(2), Error::SWAPDB_SECOND)?;
    keyspace.swap(valid(one)?, valid(other)?);
    out.simple(b"OK");
    Ok(())
}

/// The database that the argument names.
pub(crate) fn database(arg: &[u8]) -> Result<u8, Error> {
    let number = integer(arg)?;
    if i32::try_from(number).is_err() {
        return Err(Error::NotInt);
    }
    valid(number)
}

fn valid(number: i64) -> Result<u8, Error> {
    u8::try_from(number).ok().filter(|&number| number < DATABASES).ok_or(Error::DbIndex)
}

pub(crate) fn dbsize(keyspace: &mut Keyspace, _: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(keyspace.len() as i64);
    Ok(())
}

pub(crate) fn flushdb(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    check_flush(request)?;
    keyspace.audience.flush();
    keyspace.clear();
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn flushall(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    check_flush(request)?;
    keyspace.audience.flush();
    (0..DATABASES).for_each(|number| keyspace.within(number, Keyspace::clear));
    out.simple(b"OK");
    Ok(())
}

/// Checks the option. ASYNC and SYNC act alike: flushed keys vanish at once and are freed later.
fn check_flush(request: &Request<'_>) -> Done {
    match request.get(1) {
        None => Ok(()),
        Some(word) if request.len() == 2 && (is(word, "ASYNC") || is(word, "SYNC")) => Ok(()),
        Some(_) => Err(Error::Syntax),
    }
}

pub(crate) fn object(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
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
        (_, None) => out.nil(),
        ("encoding", Some(entry)) => out.bulk(entry.value.encoding().as_bytes()),
        ("freq", Some(_)) => return Err(Error::NO_FREQUENCY),
        ("refcount", Some(entry)) => out.integer(refcount(keyspace, &entry.value)),
        (_, Some(entry)) => out.integer((keyspace.idle_ms(entry) / 1_000) as i64),
    }
    Ok(())
}

/// Redis shares small integers between keys unless it needs each key's time of last use.
fn refcount(keyspace: &Keyspace, value: &Value) -> i64 {
    let is_small = |text: &[u8]| parse_i64(text).is_some_and(|number| (0..SHARED_INTEGERS).contains(&number));
    match value {
        Value::Text(text) if is_small(text) && !keyspace.policy.is_lru() => i64::from(i32::MAX),
        _ => 1,
    }
}

const SHARED_INTEGERS: i64 = 10_000;

/// MEMORY USAGE: the key's size in the store's own account. The figure differs from Redis's.
pub(crate) fn memory(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    if is(request.arg(1), "HELP") {
        return help::write(request, "MEMORY", help::MEMORY, out);
    }
    if !is(request.arg(1), "USAGE") {
        return monitor::memory(keyspace, request.arg(1), out);
    }
    let key = request.get(2).ok_or_else(|| Error::Arity("memory|usage".to_owned()))?;
    for at in (3..request.len()).step_by(2) {
        let samples = request.get(at + 1).filter(|_| is(request.arg(at), "SAMPLES")).ok_or(Error::Syntax)?;
        // The account is exact, so nothing is sampled.
        if integer(samples)? < 0 {
            return Err(Error::Syntax);
        }
    }
    match keyspace.memory_of(key) {
        Some(bytes) => out.integer(bytes as i64),
        None => out.nil(),
    }
    Ok(())
}
