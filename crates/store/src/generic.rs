//! Commands on keys of any type.

use resp::{Request, encode};

use crate::args::{integer, is, shown};
use crate::error::Error;
use crate::keyspace::Keyspace;
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
    let may = keyspace.find(from).is_some() && (replaces || keyspace.find(to).is_none());
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
    let names = ["encoding", "refcount", "idletime"];
    let name = names.into_iter().find(|name| is(subcommand, name));
    let name = name.ok_or_else(|| Error::UnknownSubcommand(shown(subcommand), "OBJECT"))?;
    let (Some(key), 3) = (request.get(2), request.len()) else {
        return Err(Error::Arity(format!("object|{name}")));
    };
    match (name, keyspace.peek(key)) {
        (_, None) => encode::nil(out),
        ("encoding", Some(entry)) => encode::bulk(out, entry.value.encoding().as_bytes()),
        ("refcount", Some(_)) => encode::integer(out, 1),
        _ => encode::integer(out, (keyspace.idle_ms(key).unwrap_or_default() / 1_000) as i64),
    }
    Ok(())
}
