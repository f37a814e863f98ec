//! INFO of one store, in Redis's words and sections.

use std::fmt::Write;

use resp::Request;

use crate::args::is;
use crate::caller_id::CallerId;
use crate::channels::Kind;
use crate::error::Error;
use crate::replies::Reply;
use crate::store::Store;

/// Writes the lines of one section.
type Writer = fn(&Store, &mut String);

/// The sections in their order.
const SECTIONS: [(&str, Writer); 6] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Stats", stats),
    ("Replication", replication),
    ("Keyspace", databases),
];

pub(crate) fn info(
    store: &mut Store,
    _: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Result<(), Error> {
    let names_all = |word: &[u8]| ["default", "all", "everything"].iter().any(|all| is(word, all));
    let wants_all = request.len() == 1 || request.args().skip(1).any(names_all);
    let mut text = String::new();
    for (name, write_section) in SECTIONS {
        if !wants_all && !request.args().skip(1).any(|word| is(word, name)) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        push(&mut text, format_args!("# {name}"));
        write_section(store, &mut text);
    }
    out.verbatim(text.as_bytes());
    Ok(())
}

/// Appends a line.
fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{line}\r\n");
}

fn server(store: &Store, text: &mut String) {
    push(text, format_args!("redis_version:{REDIS_VERSION}"));
    push(text, format_args!("redis_mode:standalone"));
    push(text, format_args!("shardis_version:{}", env!("CARGO_PKG_VERSION")));
    push(text, format_args!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH));
    push(text, format_args!("arch_bits:{}", usize::BITS));
    push(text, format_args!("server_time_usec:{}", store.keyspace.now_ms.saturating_mul(1_000)));
}

fn clients(store: &Store, text: &mut String) {
    push(text, format_args!("connected_clients:{}", store.callers.len()));
    push(text, format_args!("blocked_clients:{}", store.callers.waiting()));
}

fn memory(store: &Store, text: &mut String) {
    let keyspace = &store.keyspace;
    // As in Redis, 0 means no limit.
    let memory_max = Some(keyspace.memory_max).filter(|&bytes| bytes != usize::MAX).unwrap_or_default();
    push(text, format_args!("used_memory:{}", keyspace.memory_used()));
    push(text, format_args!("maxmemory:{memory_max}"));
    push(text, format_args!("maxmemory_policy:{}", keyspace.policy.name()));
    let scripts = &store.scripts;
    let used = scripts.interpreter.as_ref().map_or(0, |interpreter| interpreter.memory_used());
    push(text, format_args!("used_memory_lua:{used}"));
    push(text, format_args!("number_of_cached_scripts:{}", scripts.len()));
    push(text, format_args!("number_of_functions:{}", scripts.libraries.functions()));
    push(text, format_args!("number_of_libraries:{}", scripts.libraries.len()));
}

fn stats(store: &Store, text: &mut String) {
    let stats = &store.keyspace.stats;
    push(text, format_args!("total_commands_processed:{}", stats.requests));
    push(text, format_args!("expired_keys:{}", stats.expired));
    push(text, format_args!("evicted_keys:{}", stats.evicted));
    push(text, format_args!("keyspace_hits:{}", stats.hits()));
    push(text, format_args!("keyspace_misses:{}", stats.misses()));
    for (field, kind) in CHANNELS {
        push(text, format_args!("{field}:{}", store.channels.names(kind, None).len()));
    }
}

/// The store acts as a primary without replicas.
fn replication(_: &Store, text: &mut String) {
    push(text, format_args!("role:master"));
}

/// As in Redis, an empty database is not listed.
fn databases(store: &Store, text: &mut String) {
    let keyspace = &store.keyspace;
    for (number, database) in keyspace.databases().filter(|(_, database)| database.len() > 0) {
        let (keys, (expires, average_ms)) = (database.len(), database.volatile(keyspace.now_ms));
        push(text, format_args!("db{number}:keys={keys},expires={expires},avg_ttl={average_ms}"));
    }
}

/// The counts of subscriptions.
const CHANNELS: [(&str, Kind); 3] = [
    ("pubsub_channels", Kind::Channel),
    ("pubsub_patterns", Kind::Pattern),
    ("pubsubshard_channels", Kind::Shard),
];

/// The Redis version whose commands the store has. Client libraries adapt to it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";
