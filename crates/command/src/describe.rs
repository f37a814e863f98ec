//! A command as `COMMAND INFO` shows it.

use resp::encode;

use crate::command::Command;
use crate::keys::{Begin, Find, KeySpec, Keys};

/// Writes the ten-element entry of `COMMAND INFO`, as Redis 7.0 does, subcommands included. The members of sets come in
/// the order of this crate's lists, where Redis's order is that of a hash table.
pub fn write_info(out: &mut Vec<u8>, command: &Command, resp3: bool) {
    encode::array_header(out, 10);
    encode::bulk(out, command.name.as_bytes());
    encode::integer(out, command.arity.into());
    write_words(out, command.flags.words(), resp3);
    for place in legacy_range(&command.keys) {
        encode::integer(out, place);
    }
    let acl = command.acl.words();
    encode::set_header(out, acl.clone().count(), resp3);
    for word in acl {
        encode::simple(out, format!("@{word}").as_bytes());
    }
    let tips = command.tips.words();
    encode::set_header(out, tips.clone().count(), resp3);
    for word in tips {
        encode::bulk(out, word.as_bytes());
    }
    encode::set_header(out, command.keys.specs.len(), resp3);
    for spec in command.keys.specs.iter() {
        write_spec(out, spec, resp3);
    }
    let listed = command.subcommands.iter().filter(|command| !command.is_hidden());
    encode::set_header(out, listed.clone().count(), resp3);
    for subcommand in listed {
        write_info(out, subcommand, resp3);
    }
}

pub(crate) fn write_words(out: &mut Vec<u8>, words: impl Iterator<Item = &'static str> + Clone, resp3: bool) {
    encode::set_header(out, words.clone().count(), resp3);
    for word in words {
        encode::simple(out, word.as_bytes());
    }
}

fn write_spec(out: &mut Vec<u8>, spec: &KeySpec, resp3: bool) {
    encode::map_header(out, if spec.note.is_some() { 4 } else { 3 }, resp3);
    if let Some(note) = spec.note {
        encode::bulk(out, b"notes");
        encode::bulk(out, note.as_bytes());
    }
    encode::bulk(out, b"flags");
    write_words(out, spec.flags.words(), resp3);
    encode::bulk(out, b"begin_search");
    match spec.begin {
        Begin::Index(at) => write_step(out, "index", &[("index", at as i64)], resp3),
        Begin::Unknown => write_step(out, "unknown", &[], resp3),
        Begin::Keyword { word, from } => {
            write_type(out, "keyword", 2, resp3);
            encode::bulk(out, b"keyword");
            encode::bulk(out, word.as_bytes());
            encode::integers(out, &[("startfrom", from.into())]);
        }
    }
    encode::bulk(out, b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let fields = [("lastkey", last.into()), ("keystep", step as i64), ("limit", limit as i64)];
            write_step(out, "range", &fields, resp3);
        }
        Find::Num { at, first, step } => {
            let fields = [("keynumidx", at as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            write_step(out, "keynum", &fields, resp3);
        }
        Find::Unknown => write_step(out, "unknown", &[], resp3),
    }
}

/// One of the two steps of a key spec: its type and its numbers.
fn write_step(out: &mut Vec<u8>, kind: &str, fields: &[(&str, i64)], resp3: bool) {
    write_type(out, kind, fields.len(), resp3);
    encode::integers(out, fields);
}

/// The beginning of a step, up to its `fields` fields.
fn write_type(out: &mut Vec<u8>, kind: &str, fields: usize, resp3: bool) {
    encode::map_header(out, 2, resp3);
    encode::bulk(out, b"type");
    encode::bulk(out, kind.as_bytes());
    encode::bulk(out, b"spec");
    encode::map_header(out, fields, resp3);
}

/// First key, last key and step in the form that Redis used before key specs. They cover the ranges that continue one another
/// from the first on, as far as they begin at a fixed position. Zeros if there is none.
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
