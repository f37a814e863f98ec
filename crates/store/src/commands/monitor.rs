//! Questions of people and tools about the server itself. A store has no slow log and no latency monitor. Its
//! replies are those of a Redis without entries.

use resp::Request;

use crate::args::{is, shown};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;

type Done = Result<(), Error>;

/// SLOWLOG: always empty.
pub(crate) fn slowlog(_: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    match request.arg(1) {
        word if is(word, "GET") => out.array(0),
        word if is(word, "LEN") => out.integer(0),
        word if is(word, "RESET") => out.simple(b"OK"),
        word => return Err(Error::UnknownSubcommand(shown(word), "SLOWLOG")),
    }
    Ok(())
}

/// LATENCY: always empty.
pub(crate) fn latency(_: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    match request.arg(1) {
        word if is(word, "HISTOGRAM") => out.map(0),
        word if ["LATEST", "HISTORY"].iter().any(|name| is(word, name)) => {
            out.array(0);
        }
        word if is(word, "RESET") => out.integer(0),
        word if is(word, "DOCTOR") => out.verbatim(b"Dave, the embedded store does not watch its latency.\n"),
        word if is(word, "GRAPH") => {
            return Err(Error::NoSamples(shown(request.get(2).unwrap_or_default())));
        }
        word => return Err(Error::UnknownSubcommand(shown(word), "LATENCY")),
    }
    Ok(())
}

/// MEMORY without USAGE, which is about a key.
pub(crate) fn memory(keyspace: &Keyspace, subcommand: &[u8], out: &mut Reply) -> Done {
    match subcommand {
        word if is(word, "DOCTOR") => {
            out.verbatim(b"Sam, every byte of the embedded store is accounted for: see INFO memory.\n");
        }
        word if is(word, "PURGE") => out.simple(b"OK"),
        word if is(word, "STATS") => stats(keyspace, out),
        word => return Err(Error::UnknownSubcommand(shown(word), "MEMORY")),
    }
    Ok(())
}

/// The fields of Redis that the store has.
fn stats(keyspace: &Keyspace, out: &mut Reply) {
    let (bytes, keys) = (keyspace.memory_used(), keyspace.len_of_all());
    let figures = [
        ("total.allocated", bytes),
        ("keys.count", keys),
        ("keys.bytes-per-key", bytes / keys.max(1)),
        ("dataset.bytes", bytes),
    ];
    out.map(figures.len());
    for (name, figure) in figures {
        out.bulk(name.as_bytes());
        out.integer(figure as i64);
    }
}

/// TIME, for scripts and transactions: the time of the request, as exactly as the store knows it.
pub(crate) fn time(keyspace: &mut Keyspace, _: &Request<'_>, out: &mut Reply) -> Done {
    out.array(2);
    out.bulk(itoa::Buffer::new().format(keyspace.now_ms / 1_000).as_bytes());
    out.bulk(itoa::Buffer::new().format(keyspace.now_ms % 1_000 * 1_000).as_bytes());
    Ok(())
}

/// MODULE LIST.
pub(crate) fn module(_: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    if !is(request.arg(1), "LIST") {
        return Err(Error::UnknownSubcommand(shown(request.arg(1)), "MODULE"));
    }
    out.array(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::StoreSettings;
    use crate::testing::World;

    #[test]
    fn a_store_says_that_there_is_nothing_to_tell() {
        let mut world = World::new(StoreSettings::default());
        let cases = [
            ("SLOWLOG GET 10", "*0"),
            ("slowlog len", ":0"),
            ("SLOWLOG RESET", "+OK"),
            ("LATENCY LATEST", "*0"),
            ("LATENCY RESET a", ":0"),
            ("LATENCY GRAPH a", "-ERR No samples available for event 'a'"),
            ("SCRIPT EXISTS a b", "*2 :0 :0"),
            ("SCRIPT FLUSH", "+OK"),
            ("FUNCTION LIST", "*0"),
            ("TIME", "*2 $4 1000 $1 0"),
            ("MODULE LIST", "*0"),
            ("MEMORY PURGE", "+OK"),
            ("MEMORY nosuch", "-ERR unknown subcommand 'nosuch'. Try MEMORY HELP."),
        ];
        for (request, reply) in cases {
            assert_eq!(world.ask(request), reply, "{request}");
        }
        let refusal = world.ask("SCRIPT LOAD x");
        assert!(refusal.starts_with("-ERR command 'script|load' is not in the embedded store"), "{refusal}");
    }

    #[test]
    fn memory_stats_show_the_account() {
        let mut world = World::new(StoreSettings::default());
        world.ask("SET a 1");
        let used = world.store.memory_used();
        let stats = world.ask("MEMORY STATS");
        assert!(stats.contains(&format!("$15 total.allocated :{used} $10 keys.count :1 ")), "{stats}");
    }
}
