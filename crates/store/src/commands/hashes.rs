//! Commands on hashes.

use resp::integer::parse_i64;
use resp::{Request, encode};

use crate::args::{float_text, integer, is, signed_count};
use crate::commands::sets::REPEATS_MAX;
use crate::error::Error;
use crate::formats::extended::Extended;
use crate::keyspace::Keyspace;
use crate::values::hash::{Field, Hash};

type Done = Result<(), Error>;

pub(crate) fn hset(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let added = set_pairs(keyspace, request, "hset")?;
    encode::integer(out, added);
    Ok(())
}

pub(crate) fn hmset(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    set_pairs(keyspace, request, "hmset")?;
    encode::simple(out, b"OK");
    Ok(())
}

fn set_pairs(keyspace: &mut Keyspace, request: &Request<'_>, name: &str) -> Result<i64, Error> {
    if !request.len().is_multiple_of(2) {
        return Err(Error::Arity(name.to_owned()));
    }
    keyspace.edit_or_create(request.arg(1), |hash: &mut Hash| {
        let places = (2..request.len()).step_by(2);
        places.filter(|&at| hash.set(request.arg(at), request.arg(at + 1))).count() as i64
    })
}

pub(crate) fn hsetnx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let is_new = keyspace.edit_or_create(request.arg(1), |hash: &mut Hash| {
        hash.get(request.arg(2)).is_none() && hash.set(request.arg(2), request.arg(3))
    })?;
    encode::integer(out, i64::from(is_new));
    Ok(())
}

pub(crate) fn hget(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    write_value(hash, request.arg(2), out);
    Ok(())
}

pub(crate) fn hmget(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    encode::array_header(out, request.len() - 2);
    request.args().skip(2).for_each(|name| write_value(hash, name, out));
    Ok(())
}

fn write_value(hash: Option<&Hash>, name: &[u8], out: &mut Vec<u8>) {
    match hash.and_then(|hash| hash.get(name)) {
        Some(value) => encode::bulk(out, value),
        None => encode::nil(out),
    }
}

pub(crate) fn hgetall(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    write_all(keyspace, request, true, true, out)
}

pub(crate) fn hkeys(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    write_all(keyspace, request, true, false, out)
}

pub(crate) fn hvals(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    write_all(keyspace, request, false, true, out)
}

fn write_all(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    names: bool,
    values: bool,
    out: &mut Vec<u8>,
) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    let len = hash.map_or(0, Hash::len);
    encode::array_header(out, len * (usize::from(names) + usize::from(values)));
    hash.into_iter().flat_map(Hash::iter).for_each(|field| write_field(field, names, values, out));
    Ok(())
}

fn write_field(field: &Field, name: bool, value: bool, out: &mut Vec<u8>) {
    if name {
        encode::bulk(out, &field.name);
    }
    if value {
        encode::bulk(out, &field.value);
    }
}

pub(crate) fn hlen(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    encode::integer(out, keyspace.read::<Hash>(request.arg(1))?.map_or(0, Hash::len) as i64);
    Ok(())
}

pub(crate) fn hdel(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let removed = keyspace.edit(request.arg(1), |hash: &mut Hash| {
        request.args().skip(2).filter(|name| hash.remove(name)).count()
    })?;
    encode::integer(out, removed.unwrap_or_default() as i64);
    Ok(())
}

pub(crate) fn hexists(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    encode::integer(out, i64::from(hash.is_some_and(|hash| hash.get(request.arg(2)).is_some())));
    Ok(())
}

pub(crate) fn hstrlen(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    let len = hash.and_then(|hash| hash.get(request.arg(2))).map_or(0, <[u8]>::len);
    encode::integer(out, len as i64);
    Ok(())
}

pub(crate) fn hincrby(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let increment = integer(request.arg(3))?;
    let value = keyspace.edit_or_create(request.arg(1), |hash: &mut Hash| {
        let old = hash.get(request.arg(2)).map_or(Some(0), parse_i64).ok_or(Error::HashNotInteger)?;
        let value = old.checked_add(increment).ok_or(Error::Overflow)?;
        hash.set(request.arg(2), itoa::Buffer::new().format(value).as_bytes());
        Ok(value)
    })??;
    encode::integer(out, value);
    Ok(())
}

pub(crate) fn hincrbyfloat(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let increment = float_text(request.arg(3))?;
    if increment.is_infinite() {
        return Err(Error::IncrementInfinite);
    }
    let sum = keyspace.edit_or_create(request.arg(1), |hash: &mut Hash| {
        let old = hash.get(request.arg(2)).map_or(Some(Extended::default()), Extended::parse);
        let sum = old.ok_or(Error::HashNotFloat)?.plus(increment).ok_or(Error::NotANumber)?.to_string();
        hash.set(request.arg(2), sum.as_bytes());
        Ok(sum)
    })??;
    encode::bulk(out, sum.as_bytes());
    Ok(())
}

pub(crate) fn hrandfield(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Vec<u8>) -> Done {
    let mut prng = keyspace.fork_prng();
    let count = request.get(2).map(signed_count).transpose()?;
    let with_values = match (request.get(3), request.len()) {
        (None, _) => false,
        (Some(word), 4) if is(word, "WITHVALUES") => true,
        _ => return Err(Error::Syntax),
    };
    if count.is_some_and(|count| count < -REPEATS_MAX || (with_values && count > i64::MAX / 2)) {
        return Err(Error::OutOfRange);
    }
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    let Some(count) = count else {
        match hash.and_then(|hash| hash.random(&mut prng)) {
            Some(field) => encode::bulk(out, &field.name),
            None => encode::nil(out),
        }
        return Ok(());
    };
    let len = hash.map_or(0, Hash::len);
    let shown =
        if count < 0 && len > 0 { count.unsigned_abs() as usize } else { len.min(count.max(0) as usize) };
    encode::array_header(out, shown * (1 + usize::from(with_values)));
    let Some(hash) = hash else { return Ok(()) };
    if count < 0 {
        let fields = (0..shown).filter_map(|_| hash.random(&mut prng));
        fields.for_each(|field| write_field(field, true, with_values, out));
    } else {
        let fields = crate::commands::sets::sample(hash.iter(), len, shown, &mut prng);
        fields.for_each(|field| write_field(field, true, with_values, out));
    }
    Ok(())
}
