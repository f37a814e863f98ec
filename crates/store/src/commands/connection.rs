//! Commands on the state of a connection. They use no keys.

use resp::Request;
use resp::integer::parse_i64;

use crate::args::{integer, is, shown};
use crate::caller_id::CallerId;
use crate::channels::Kind;
use crate::commands::generic::database;
use crate::commands::info::REDIS_VERSION;
use crate::commands::transactions;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::store::Store;

type Done = Result<(), Error>;

pub(crate) fn ping(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let state = store.callers.running(caller);
    if state.is_subscribed() && !state.is_resp3 && request.len() <= 2 {
        // A connection that is subscribed in RESP2 gets nothing but pushes.
        out.array(2);
        out.bulk(b"pong");
        out.bulk(request.get(1).unwrap_or_default());
        return Ok(());
    }
    match (request.get(1), request.len()) {
        (None, _) => out.simple(b"PONG"),
        (Some(message), 2) => out.bulk(message),
        _ => return Err(Error::Arity("ping".to_owned())),
    }
    Ok(())
}

pub(crate) fn echo(_: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Result<(), Error> {
    out.bulk(request.arg(1));
    Ok(())
}

pub(crate) fn select(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    store.callers.running(caller).database = database(request.arg(1))?;
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn hello(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let state = store.callers.running(caller);
    let mut is_resp3 = state.is_resp3;
    if let Some(version) = request.get(1) {
        is_resp3 = match parse_i64(version).ok_or(Error::PROTOCOL_NUMBER)? {
            2 => false,
            3 => true,
            _ => return Err(Error::PROTOCOL),
        };
    }
    let mut at = 2;
    while let Some(word) = request.get(at) {
        match (request.get(at + 1), request.get(at + 2)) {
            // The only user has no password, so any password is accepted.
            (Some(user), Some(_)) if is(word, "AUTH") => {
                if user != b"default" {
                    return Err(Error::WRONG_PASSWORD);
                }
                at += 2;
            }
            (Some(name), _) if is(word, "SETNAME") => {
                // The name stays even if a later argument is wrong.
                state.name = valid_name(name)?.to_vec();
                at += 1;
            }
            _ => return Err(Error::hello_option(word)),
        }
        at += 1;
    }
    (state.is_resp3, out.is_resp3) = (is_resp3, is_resp3);
    let number = state.number;
    out.map(7);
    let texts = [("server", "redis"), ("version", REDIS_VERSION)];
    texts.iter().for_each(|(field, text)| write_field(field, text, out));
    out.bulk(b"proto");
    out.integer(if is_resp3 { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(number as i64);
    let texts = [("mode", "standalone"), ("role", "master")];
    texts.iter().for_each(|(field, text)| write_field(field, text, out));
    out.bulk(b"modules");
    out.array(0);
    Ok(())
}

fn write_field(field: &str, text: &str, out: &mut Reply) {
    out.bulk(field.as_bytes());
    out.bulk(text.as_bytes());
}

/// Ends the connection's subscriptions, watches and transaction.
pub(crate) fn leave(store: &mut Store, caller: CallerId) {
    store.end_wait(caller);
    store.keyspace.audience.track(caller, false);
    transactions::abandon(store, caller);
    let state = store.callers.running(caller);
    let Some(extras) = state.extras.take() else { return };
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        extras.subscriptions.names(kind).for_each(|name| store.channels.remove(kind, name, caller));
    }
}

/// RESET: gives the connection the state of a new one.
pub(crate) fn reset(store: &mut Store, caller: CallerId, _: &Request<'_>, out: &mut Reply) -> Done {
    leave(store, caller);
    let state = store.callers.running(caller);
    (state.database, state.is_resp3) = (0, false);
    state.name.clear();
    out.is_resp3 = false;
    out.simple(b"RESET");
    Ok(())
}

/// CLIENT: information about one connection, and its settings.
pub(crate) fn client(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let subcommands = [("id", 2), ("getname", 2), ("setname", 3), ("no-evict", 3)];
    let word = request.arg(1);
    if is(word, "UNBLOCK") {
        return unblock(store, request, out);
    }
    if is(word, "TRACKING") {
        return track(store, caller, request, out);
    }
    if is(word, "INFO") {
        write_info(store, caller, out);
        return Ok(());
    }
    let found = subcommands.iter().find(|(name, _)| is(word, name));
    let (name, arity) = found.ok_or_else(|| Error::UnknownSubcommand(shown(word), "CLIENT"))?;
    if request.len() != *arity {
        return Err(Error::Arity(format!("client|{name}")));
    }
    let state = store.callers.running(caller);
    match *name {
        "id" => out.integer(state.number as i64),
        "getname" => out.bulk_or_nil(Some(&*state.name).filter(|name| !name.is_empty())),
        "setname" => {
            state.name = valid_name(request.arg(2))?.to_vec();
            out.simple(b"OK");
        }
        // The store closes no connection for want of memory, so there is nothing to do.
        _ if is(request.arg(2), "ON") || is(request.arg(2), "OFF") => out.simple(b"OK"),
        _ => return Err(Error::Syntax),
    }
    Ok(())
}

/// CLIENT INFO: the fields that a shardis reads. Flag `d` says that EXEC would find a watched key changed.
fn write_info(store: &mut Store, caller: CallerId, out: &mut Reply) {
    let flags = if transactions::is_watched_changed(store, caller) { "d" } else { "N" };
    let state = store.callers.running(caller);
    let (number, database) = (state.number, state.database);
    let name = String::from_utf8_lossy(&state.name);
    out.bulk(format!("id={number} name={name} flags={flags} db={database}\n").as_bytes());
}

/// CLIENT TRACKING: only the form in which a shardis asks its shards to report every changed key.
fn track(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    if request.len() < 3 {
        return Err(Error::Arity("client|tracking".to_owned()));
    }
    let is_on = match (request.arg(2), request.get(3), request.len()) {
        (word, Some(mode), 4) if is(word, "ON") && is(mode, "BCAST") => true,
        (word, None, _) if is(word, "OFF") => false,
        _ => return Err(Error::Syntax),
    };
    store.keyspace.audience.track(caller, is_on);
    out.simple(b"OK");
    Ok(())
}

/// CLIENT UNBLOCK: ends the wait of another connection.
fn unblock(store: &mut Store, request: &Request<'_>, out: &mut Reply) -> Done {
    if request.len() < 3 {
        return Err(Error::Arity("client|unblock".to_owned()));
    }
    let is_error = match request.get(3) {
        None => false,
        Some(word) if is(word, "TIMEOUT") => false,
        Some(word) if is(word, "ERROR") => true,
        Some(_) => return Err(Error::UNBLOCK_REASON),
    };
    let caller = store.callers.with_number(integer(request.arg(2))?);
    let is_waiting = caller.is_some_and(|caller| match is_error {
        true => store.answer_wait(caller, |reply| reply.error(&Error::UNBLOCKED)),
        false => store.time_out(caller),
    });
    out.integer(i64::from(is_waiting));
    Ok(())
}

/// Redis lists names separated by blanks.
fn valid_name(name: &[u8]) -> Result<&[u8], Error> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) { Ok(name) } else { Err(Error::CLIENT_NAME) }
}

#[cfg(test)]
mod tests {
    use crate::testing::World;
    use crate::{EvictionPolicy, StoreSettings};

    #[test]
    fn client_info_tells_whether_a_watched_key_has_changed() {
        let mut world = World::new(StoreSettings::default());
        let (one, other) = (world.store.admit(), world.store.admit());
        for (caller, line, reply) in [
            (one, "WATCH k", "+OK"),
            (one, "CLIENT INFO", "$24 id=2 name= flags=N db=0"),
            (other, "SET k changed", "+OK"),
            (one, "CLIENT INFO", "$24 id=2 name= flags=d db=0"),
            (one, "UNWATCH", "+OK"),
            (one, "CLIENT INFO", "$24 id=2 name= flags=N db=0"),
        ] {
            assert_eq!(world.ask_as(caller, line), reply, "{line}");
        }
    }

    #[test]
    fn each_connection_has_a_database_and_a_protocol_of_its_own() {
        let mut world = World::new(StoreSettings::default());
        let (one, other) = (world.store.admit(), world.store.admit());
        for (caller, line, reply) in [
            (one, "SELECT 3", "+OK"),
            (one, "SET k in-three", "+OK"),
            (other, "GET k", "$-1"),
            (other, "SELECT 16", "-ERR DB index is out of range"),
            (other, "SET k in-zero", "+OK"),
            (one, "GET k", "$8 in-three"),
            (one, "CLIENT ID", ":2"),
            (one, "CLIENT SETNAME first", "+OK"),
            (one, "DBSIZE", ":1"),
            (one, "COPY k copy DB 0", ":1"),
            (other, "DBSIZE", ":2"),
            (other, "MOVE copy 3", ":1"),
            (other, "MOVE k 3", ":0"),
            (one, "FLUSHDB", "+OK"),
            (other, "GET k", "$7 in-zero"),
            (other, "SWAPDB 0 3", "+OK"),
            (one, "GET k", "$7 in-zero"),
            (one, "RESET", "+RESET"),
            (one, "GET k", "$-1"),
            (one, "CLIENT GETNAME", "$-1"),
        ] {
            assert_eq!(world.ask_as(caller, line), reply, "{line}");
        }
        assert!(world.ask_as(one, "HELLO 3 SETNAME me").starts_with("%7 $6 server $5 redis "));
        assert_eq!(world.ask_as(one, "GET k"), "_");
        assert_eq!(world.ask_as(other, "GET k"), "$-1");
        assert_eq!(world.ask_as(one, "CLIENT GETNAME"), "$2 me");
        assert!(world.ask_as(one, "HELLO 2").starts_with("*14 $6 server "));
    }

    #[test]
    fn nothing_of_a_connection_is_left_for_the_next_one() {
        let mut world = World::new(StoreSettings::default());
        let gone = world.store.admit();
        world.ask_as(gone, "SELECT 5");
        world.ask_as(gone, "HELLO 3");
        world.store.dismiss(gone);
        let next = world.store.admit();
        assert_eq!(world.ask_as(next, "SET k v"), "+OK");
        assert_eq!(world.ask("GET k"), "$1 v");
        assert_eq!(world.ask_as(next, "GET missing"), "$-1");
        assert_eq!(world.ask_as(gone, "GET k"), "", "nobody is there to be answered");
    }

    #[test]
    fn keys_expire_and_are_evicted_in_every_database() {
        let settings =
            StoreSettings { seed: 7, memory_max: Some(30_000), policy: EvictionPolicy::AllKeysLru };
        let mut world = World::new(settings);
        for number in 0..900 {
            world.ask(&format!("SELECT {}", number % 3));
            assert_eq!(world.ask(&format!("SET k{number} v PX {}", 1_000 + number)), "+OK");
        }
        let keyspace = world.ask("INFO keyspace");
        assert!(["db0:", "db1:", "db2:"].iter().all(|db| keyspace.contains(db)), "{keyspace}");
        assert!(world.store.memory_used() <= 30_500);
        world.now_ms += 2_000;
        while world.store.work(world.now_ms) {}
        assert_eq!((world.store.len(), world.store.memory_used()), (0, 0));
    }
}
