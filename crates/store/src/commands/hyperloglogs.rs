//! Commands on HyperLogLogs, which are strings.

use resp::Request;

use crate::audience::Class;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::hyperloglog::{self, Corrupt, REGISTERS};

type Done = Result<(), Error>;
type Text = Vec<u8>;

/// As in Redis, elements before the fault in a corrupt value stay added.
pub(crate) fn pfadd(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let is_new = open(keyspace, request.arg(1))?;
    let is_changed = keyspace.edit_or_create(request.arg(1), |text: &mut Text| {
        if is_new {
            *text = hyperloglog::empty();
        }
        let mut is_changed = is_new;
        for element in request.args().skip(2) {
            is_changed |= hyperloglog::add(text, element)?;
        }
        if is_changed {
            hyperloglog::invalidate(text);
        }
        Ok(is_changed)
    })?;
    let is_changed = is_changed.map_err(corrupt)?;
    if is_changed {
        keyspace.changed(Class::Text, "pfadd", request.arg(1));
    }
    out.integer(i64::from(is_changed));
    Ok(())
}

pub(crate) fn pfcount(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    if request.len() > 2 {
        let (registers, _) = union(keyspace, request)?;
        out.integer(hyperloglog::count_merged(&registers) as i64);
        return Ok(());
    }
    if open(keyspace, request.arg(1))? {
        out.integer(0);
        return Ok(());
    }
    // The cardinality is cached in the value, though the request only reads.
    let count = keyspace.edit(request.arg(1), |text: &mut Text| match hyperloglog::cached(text) {
        Some(count) => Ok((count, false)),
        None => {
            let count = hyperloglog::count(text)?;
            hyperloglog::set_cached(text, count);
            Ok((count, true))
        }
    })?;
    let (count, is_changed) = count.unwrap_or(Ok((0, false))).map_err(corrupt)?;
    if is_changed {
        keyspace.touched(request.arg(1));
    }
    out.integer(count as i64);
    Ok(())
}

pub(crate) fn pfmerge(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (registers, any_dense) = union(keyspace, request)?;
    keyspace.stats.count(false);
    keyspace
        .edit_or_create(request.arg(1), |text: &mut Text| {
            if text.is_empty() {
                *text = hyperloglog::empty();
            }
            if any_dense {
                hyperloglog::make_dense(text)?;
            }
            for (index, &value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
                hyperloglog::raise(text, index, value)?;
            }
            hyperloglog::invalidate(text);
            Ok(())
        })?
        .map_err(corrupt)?;
    keyspace.changed(Class::Text, "pfadd", request.arg(1));
    out.simple(b"OK");
    Ok(())
}

/// The highest value of each register over all keys, and whether any key is dense.
fn union(keyspace: &mut Keyspace, request: &Request<'_>) -> Result<(Box<[u8; REGISTERS]>, bool), Error> {
    let (mut registers, mut any_dense) = (Box::new([0; REGISTERS]), false);
    for key in request.args().skip(1) {
        let Some(text) = keyspace.read::<Text>(key)? else { continue };
        if !hyperloglog::is_valid(text) {
            return Err(Error::NOT_HYPERLOGLOG);
        }
        any_dense |= hyperloglog::is_dense(text);
        hyperloglog::merge(&mut registers, text).map_err(corrupt)?;
    }
    Ok((registers, any_dense))
}

/// Returns true if there is no such key, an error if it has another type.
fn open(keyspace: &mut Keyspace, key: &[u8]) -> Result<bool, Error> {
    match keyspace.read::<Text>(key)? {
        None => Ok(true),
        Some(text) if hyperloglog::is_valid(text) => Ok(false),
        Some(_) => Err(Error::NOT_HYPERLOGLOG),
    }
}

fn corrupt(_: Corrupt) -> Error {
    Error::CORRUPT_HYPERLOGLOG
}
