//! A command as `COMMAND INFO` shows it.

use resp::encode;

use crate::command::Command;
use crate::keys::{Begin, Find, KeySpec, Keys};

/// Writes the ten-element entry of `COMMAND INFO` in RESP2, as Redis 7.0 does, subcommands included. The members of sets
/// come in the order of this crate's lists, where Redis's order is that of a hash table.
pub fn write_info(out: &mut Vec<u8>, command: &Command) {
    encode::array_header(out, 10);
    encode::bulk(out, command.name.as_bytes());
    encode::integer(out, command.arity.into());
    write_words(out, command.flags.words());
    for place in legacy_range(&command.keys) {
        encode::integer(out, place);
    }
    let acl = command.acl.words();
    encode::array_header(out, acl.clone().count());
    for word in acl {
        encode::simple(out, format!("@{word}").as_bytes());
    }
    let tips = command.tips.words();
    encode::array_header(out, tips.clone().count());
    for word in tips {
        encode::bulk(out, word.as_bytes());
    }
    encode::array_header(out, command.keys.specs.len());
    for spec in command.keys.specs.iter() {
        write_spec(out, spec);
    }
    let listed = command.subcommands.iter().filter(|command| !command.is_hidden());
    encode::array_header(out, listed.clone().count());
    for subcommand in listed {
        write_info(out, subcommand);
    }
}

pub(crate) fn write_words(out: &mut Vec<u8>, words: impl Iterator<Item = &'static str> + Clone) {
    encode::array_header(out, words.clone().count());
    for word in words {
        encode::simple(out, word.as_bytes());
    }
}

fn write_spec(out: &mut Vec<u8>, spec: &KeySpec) {
    encode::array_header(out, if spec.note.is_some() { 8 } else { 6 });
    if let Some(note) = spec.note {
        encode::bulk(out, b"notes");
        encode::bulk(out, note.as_bytes());
    }
    encode::bulk(out, b"flags");
    write_words(out, spec.flags.words());
    encode::bulk(out, b"begin_search");
    match spec.begin {
        Begin::Index(at) => write_step(out, "index", &[("index", at as i64)]),
        Begin::Unknown => write_step(out, "unknown", &[]),
        Begin::Keyword { word, from } => {
            write_type(out, "keyword", 2);
            encode::bulk(out, b"keyword");
            encode::bulk(out, word.as_bytes());
            write_fields(out, &[("startfrom", from.into())]);
        }
    }
    encode::bulk(out, b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let fields = [("lastkey", last.into()), ("keystep", step as i64), ("limit", limit as i64)];
            write_step(out, "range", &fields);
        }
        Find::Num { at, first, step } => {
            let fields = [("keynumidx", at as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            write_step(out, "keynum", &fields);
        }
        Find::Unknown => write_step(out, "unknown", &[]),
    }
}

/// One of the two steps of a key spec: its type and its numbers.
fn write_step(out: &mut Vec<u8>, kind: &str, fields: &[(&str, i64)]) {
    write_type(out, kind, fields.len());
    write_fields(out, fields);
}

/// The beginning of a step, up to its `fields` fields.
fn write_type(out: &mut Vec<u8>, kind: &str, fields: usize) {
    encode::array_header(out, 4);
    encode::bulk(out, b"type");
    encode::bulk(out, kind.as_bytes());
    encode::bulk(out, b"spec");
    encode::array_header(out, 2 * fields);
}

fn write_fields(out: &mut Vec<u8>, fields: &[(&str, i64)]) {
    for (name, value) in fields {
        encode::bulk(out, name.as_bytes());
        encode::integer(out, *value);
    }
}

/// First key, last key and step as Redis told them before it had key specs: of the ranges that continue one another
/// from the first on, as far as they begin at a fixed place; zeros if there is none.
fn legacy_range(keys: &Keys) -> [i64; 3] {
    if let [KeySpec { begin: Begin::Index(at), find: Find::Range { last, step, .. }, .. }] = *keys.specs {
        return [at as i64, end_of_range(at, last), step as i64];
    }
    let mut range: Option<(i64, i64)> = None;
    for spec in keys.specs.iter() {
        let (Begin::Index(at), Find::Range { last, step: 1, .. }) = (spec.begin, spec.find) else { continue };
        let last = end_of_range(at, last);
        range = match range {
            None => Some((at as i64, last)),
            // A negative end, counted from the other side, is behind all others.
            Some((first, before)) if before == at as i64 - 1 => Some((first, last)),
            Some(range) => Some(range),
        };
    }
    range.map_or([0; 3], |(first, last)| [first, last, 1])
}

fn end_of_range(first: usize, last: i32) -> i64 {
    if last < 0 { last.into() } else { first as i64 + i64::from(last) }
}
