//! Commands on hashes.

use resp::Request;
use resp::integer::parse_i64;
use stdx::Prng;

use crate::args::{float_text, integer, is, signed_count};
use crate::audience::Class;
use crate::commands::sets::{Drawn, check_pairs, check_repeats, sample};
use crate::error::Error;
use crate::formats::extended::Extended;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::hash::{Field, Hash};

type Done = Result<(), Error>;

pub(crate) fn hset(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let added = set_pairs(keyspace, request, "hset")?;
    out.integer(added);
    Ok(())
}

pub(crate) fn hmset(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    set_pairs(keyspace, request, "hmset")?;
    out.simple(b"OK");
    Ok(())
}

fn set_pairs(keyspace: &mut Keyspace, request: &Request<'_>, name: &str) -> Result<i64, Error> {
    if !request.len().is_multiple_of(2) {
        return Err(Error::Arity(name.to_owned()));
    }
    let added = keyspace.edit_or_create(request.arg(1), |hash: &mut Hash| {
        let places = (2..request.len()).step_by(2);
        places.filter(|&at| hash.set(request.arg(at), request.arg(at + 1))).count() as i64
    })?;
    keyspace.changed(Class::Hash, "hset", request.arg(1));
    Ok(added)
}

pub(crate) fn hsetnx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let is_new = keyspace.edit_or_create(request.arg(1), |hash: &mut Hash| {
        hash.get(request.arg(2)).is_none() && hash.set(request.arg(2), request.arg(3))
    })?;
    if is_new {
        keyspace.changed(Class::Hash, "hset", request.arg(1));
    }
    out.integer(i64::from(is_new));
    Ok(())
}

pub(crate) fn hget(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    write_value(hash, request.arg(2), out);
    Ok(())
}

pub(crate) fn hmget(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    out.array(request.len() - 2);
    request.args().skip(2).for_each(|name| write_value(hash, name, out));
    Ok(())
}

fn write_value(hash: Option<&Hash>, name: &[u8], out: &mut Reply) {
    match hash.and_then(|hash| hash.get(name)) {
        Some(value) => out.bulk(value),
        None => out.nil(),
    }
}

pub(crate) fn hgetall(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    write_all(keyspace, request, true, true, out)
}

pub(crate) fn hkeys(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    write_all(keyspace, request, true, false, out)
}

pub(crate) fn hvals(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    write_all(keyspace, request, false, true, out)
}

fn write_all(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    names: bool,
    values: bool,
    out: &mut Reply,
) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    let len = hash.map_or(0, Hash::len);
    if names && values {
        out.map(len);
    } else {
        out.array(len);
    }
    hash.into_iter().flat_map(Hash::iter).for_each(|field| write_field(field, names, values, out));
    Ok(())
}

fn write_field(field: &Field, name: bool, value: bool, out: &mut Reply) {
    if name {
        out.bulk(&field.name);
    }
    if value {
        out.bulk(&field.value);
    }
}

fn write_drawn(field: &Field, with_value: bool, out: &mut Reply) {
    if with_value {
        out.pair();
    }
    write_field(field, true, with_value, out);
}

pub(crate) fn hlen(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(keyspace.read::<Hash>(request.arg(1))?.map_or(0, Hash::len) as i64);
    Ok(())
}

pub(crate) fn hdel(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let removed = keyspace.edit(request.arg(1), |hash: &mut Hash| {
        request.args().skip(2).filter(|name| hash.remove(name)).count()
    })?;
    let removed = removed.unwrap_or_default();
    if removed > 0 {
        keyspace.shrunk(Class::Hash, "hdel", request.arg(1));
    }
    out.integer(removed as i64);
    Ok(())
}

pub(crate) fn hexists(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    out.integer(i64::from(hash.is_some_and(|hash| hash.get(request.arg(2)).is_some())));
    Ok(())
}

pub(crate) fn hstrlen(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    let len = hash.and_then(|hash| hash.get(request.arg(2))).map_or(0, <[u8]>::len);
    out.integer(len as i64);
    Ok(())
}

pub(crate) fn hincrby(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let increment = integer(request.arg(3))?;
    let value = keyspace.edit_or_create(request.arg(1), |hash: &mut Hash| {
        let old = hash.get(request.arg(2)).map_or(Some(0), parse_i64).ok_or(Error::HashNotInteger)?;
        let value = old.checked_add(increment).ok_or(Error::Overflow)?;
        hash.set(request.arg(2), itoa::Buffer::new().format(value).as_bytes());
        Ok(value)
    })??;
    keyspace.changed(Class::Hash, "hincrby", request.arg(1));
    out.integer(value);
    Ok(())
}

pub(crate) fn hincrbyfloat(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
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
    keyspace.changed(Class::Hash, "hincrbyfloat", request.arg(1));
    out.bulk(sum.as_bytes());
    Ok(())
}

pub(crate) fn hrandfield(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let mut prng = keyspace.fork_prng();
    let count = request.get(2).map(signed_count).transpose()?;
    let with_values = match (request.get(3), request.len()) {
        (None, _) => false,
        (Some(word), 4) if is(word, "WITHVALUES") => true,
        _ => return Err(Error::Syntax),
    };
    if with_values {
        check_pairs(count)?;
    }
    let hash = keyspace.read::<Hash>(request.arg(1))?;
    hash.map_or(Ok(()), |_| check_repeats(count))?;
    let Some(count) = count else {
        match hash.and_then(|hash| hash.random(&mut prng)) {
            Some(field) => out.bulk(&field.name),
            None => out.nil(),
        }
        return Ok(());
    };
    let len = hash.map_or(0, Hash::len);
    let shown =
        if count < 0 && len > 0 { count.unsigned_abs() as usize } else { len.min(count.max(0) as usize) };
    if with_values {
        out.pairs(shown);
    } else {
        out.array(shown);
    }
    let Some(hash) = hash else { return Ok(()) };
    if count < 0 {
        let fields = (0..shown).filter_map(|_| hash.random(&mut prng));
        fields.for_each(|field| write_drawn(field, with_values, out));
    } else {
        let draw = |prng: &mut Prng| hash.random(prng);
        let fields = sample(Drawn { len, wanted: shown }, hash.iter(), draw, |field| &*field.name, &mut prng);
        fields.into_iter().for_each(|field| write_drawn(field, with_values, out));
    }
    Ok(())
}
