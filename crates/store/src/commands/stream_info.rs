//! XINFO: information about a stream, its groups and their consumers.

use resp::Request;

use crate::args::{integer, is, shown};
use crate::commands::help;
use crate::commands::streams::{write_all, write_found, write_id};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::group::Group;
use crate::values::stream::{Id, Stream};

type Done = Result<(), Error>;

pub(crate) fn xinfo(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let subcommands = [("stream", 3, usize::MAX), ("groups", 3, 3), ("consumers", 4, 4)];
    if is(request.arg(1), "HELP") {
        return help::write(request, "XINFO", help::XINFO, out);
    }
    let found = subcommands.iter().find(|(name, ..)| is(request.arg(1), name));
    let Some((name, least, most)) = found else {
        return Err(Error::UnknownSubcommand(shown(request.arg(1)), "XINFO"));
    };
    if !(*least..=*most).contains(&request.len()) {
        return Err(Error::Arity(format!("xinfo|{name}")));
    }
    let now_ms = keyspace.now_ms;
    let stream = keyspace.read::<Stream>(request.arg(2))?.ok_or(Error::NoSuchKey)?;
    match *name {
        "stream" => write_stream(stream, full_count(request)?, out),
        "groups" => write_groups(stream, out),
        _ => {
            let (key, name) = (request.arg(2), request.arg(3));
            let group = stream.group(name).ok_or_else(|| Error::no_group_of(name, key))?;
            write_consumers(group, now_ms, out);
        }
    }
    Ok(())
}

/// The count of FULL, if FULL is given.
fn full_count(request: &Request<'_>) -> Result<Option<usize>, Error> {
    let wrong = || Error::SubcommandSyntax(shown(request.arg(1)), "XINFO");
    let is_full = request.get(3).is_some_and(|word| is(word, "FULL"));
    match request.len() {
        3 => Ok(None),
        4 if is_full => Ok(Some(FULL_COUNT)),
        6 if is_full && is(request.arg(4), "COUNT") => {
            let count = usize::try_from(integer(request.arg(5))?).unwrap_or(FULL_COUNT);
            Ok(Some(if count == 0 { usize::MAX } else { count }))
        }
        _ => Err(wrong()),
    }
}

/// Default count of FULL.
const FULL_COUNT: usize = 10;

fn write_stream(stream: &Stream, full: Option<usize>, out: &mut Reply) {
    out.map(if full.is_some() { 9 } else { 10 });
    let keys = stream.node_keys();
    write_number("length", stream.len(), out);
    write_number("radix-tree-keys", keys.len(), out);
    write_number("radix-tree-nodes", tree_nodes(&keys, 0), out);
    out.bulk(b"last-generated-id");
    write_id(stream.last_id, out);
    out.bulk(b"max-deleted-entry-id");
    write_id(stream.max_deleted_id, out);
    out.bulk(b"entries-added");
    out.integer(stream.added as i64);
    out.bulk(b"recorded-first-entry-id");
    write_id(stream.first_id(), out);
    let Some(count) = full else {
        write_number("groups", stream.groups().len(), out);
        for (name, found) in [
            ("first-entry", stream.range(Id::MIN, Id::MAX).next()),
            ("last-entry", stream.range_back(Id::MIN, Id::MAX).next()),
        ] {
            out.bulk(name.as_bytes());
            match found {
                Some(found) => write_found(&found, out),
                None => out.nil(),
            }
        }
        return;
    };
    out.bulk(b"entries");
    write_all(stream.range(Id::MIN, Id::MAX), count, out);
    out.bulk(b"groups");
    out.array(stream.groups().len());
    stream.groups().for_each(|(name, group)| write_full_group(stream, name, group, count, out));
}

fn write_number(name: &str, number: usize, out: &mut Reply) {
    out.bulk(name.as_bytes());
    out.integer(number as i64);
}

fn write_name(name: &[u8], out: &mut Reply) {
    out.bulk(b"name");
    out.bulk(name);
}

/// Progress of a group.
fn write_progress(stream: &Stream, group: &Group, out: &mut Reply) {
    out.bulk(b"last-delivered-id");
    write_id(group.last_id, out);
    for (name, number) in [("entries-read", group.read.map(|read| read as i64)), ("lag", group.lag(stream))] {
        out.bulk(name.as_bytes());
        match number {
            Some(number) => out.integer(number),
            None => out.nil(),
        }
    }
}

fn write_groups(stream: &Stream, out: &mut Reply) {
    out.array(stream.groups().len());
    for (name, group) in stream.groups() {
        out.map(6);
        write_name(name, out);
        write_number("consumers", group.consumers().len(), out);
        write_number("pending", group.pending().len(), out);
        write_progress(stream, group, out);
    }
}

fn write_consumers(group: &Group, now_ms: u64, out: &mut Reply) {
    out.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        out.map(3);
        write_name(name, out);
        write_number("pending", consumer.pending().len(), out);
        out.bulk(b"idle");
        out.integer(now_ms.saturating_sub(consumer.seen_ms) as i64);
    }
}

fn write_full_group(stream: &Stream, name: &[u8], group: &Group, count: usize, out: &mut Reply) {
    out.map(7);
    write_name(name, out);
    write_progress(stream, group, out);
    write_number("pel-count", group.pending().len(), out);
    out.bulk(b"pending");
    out.array(group.pending().len().min(count));
    for (id, pending) in group.pending().iter().take(count) {
        out.array(4);
        write_id(*id, out);
        out.bulk(&pending.consumer);
        out.integer(pending.delivered_ms as i64);
        out.integer(pending.deliveries as i64);
    }
    out.bulk(b"consumers");
    out.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        out.map(4);
        write_name(name, out);
        out.bulk(b"seen-time");
        out.integer(consumer.seen_ms as i64);
        write_number("pel-count", consumer.pending().len(), out);
        out.bulk(b"pending");
        out.array(consumer.pending().len().min(count));
        for id in consumer.pending().iter().take(count) {
            let pending = group.pending().get(id);
            out.array(3);
            write_id(*id, out);
            out.integer(pending.map_or(0, |pending| pending.delivered_ms) as i64);
            out.integer(pending.map_or(0, |pending| pending.deliveries) as i64);
        }
    }
}

/// Nodes of the radix tree in which Redis would keep `keys`. The keys are in order and share their first `depth` bytes. A node
/// stands for shared bytes, for a fork, and for the end of each key.
fn tree_nodes(keys: &[[u8; 16]], depth: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 1 };
    let shared = first[depth..].iter().zip(&last[depth..]).take_while(|(one, other)| one == other).count();
    let fork = depth + shared;
    let before = usize::from(shared > 0);
    if fork == first.len() {
        return before + 1;
    }
    let branches = keys.chunk_by(|one, other| one[fork] == other[fork]);
    before + 1 + branches.map(|branch| tree_nodes(branch, fork + 1)).sum::<usize>()
}
