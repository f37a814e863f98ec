//! Publish and subscribe.

use resp::Request;

use crate::args::{is, shown};
use crate::caller_id::CallerId;
use crate::channels::Kind;
use crate::commands::help;
use crate::error::Error;
use crate::replies::Reply;
use crate::store::Store;

type Done = Result<(), Error>;

pub(crate) fn subscribe(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    begin(store, caller, request, Kind::Channel, out)
}

pub(crate) fn psubscribe(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    begin(store, caller, request, Kind::Pattern, out)
}

pub(crate) fn ssubscribe(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    if store.is_in_transaction {
        return Err(Error::SSUBSCRIBE_IN_EXEC);
    }
    begin(store, caller, request, Kind::Shard, out)
}

/// Writes a push for each name, even if the subscription exists already.
fn begin(store: &mut Store, caller: CallerId, request: &Request<'_>, kind: Kind, out: &mut Reply) -> Done {
    for name in request.args().skip(1) {
        let subscriptions = &mut store.callers.running(caller).extras().subscriptions;
        if subscriptions.add(kind, name) {
            store.channels.add(kind, name, caller);
        }
        write_change(kind.words().0, Some(name), subscriptions.count(kind), out);
    }
    Ok(())
}

pub(crate) fn unsubscribe(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    end(store, caller, request, Kind::Channel, out)
}

pub(crate) fn punsubscribe(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    end(store, caller, request, Kind::Pattern, out)
}

pub(crate) fn sunsubscribe(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    end(store, caller, request, Kind::Shard, out)
}

/// Ends the named subscriptions, or all. One push is written even if there is none.
fn end(store: &mut Store, caller: CallerId, request: &Request<'_>, kind: Kind, out: &mut Reply) -> Done {
    let subscriptions = &mut store.callers.running(caller).extras().subscriptions;
    let names: Vec<Box<[u8]>> = match request.len() {
        1 => subscriptions.names(kind).map(Box::from).collect(),
        _ => request.args().skip(1).map(Box::from).collect(),
    };
    for name in &names {
        if subscriptions.remove(kind, name) {
            store.channels.remove(kind, name, caller);
        }
        write_change(kind.words().1, Some(name), subscriptions.count(kind), out);
    }
    if names.is_empty() {
        write_change(kind.words().1, None, subscriptions.count(kind), out);
    }
    store.callers.running(caller).settle();
    Ok(())
}

fn write_change(word: &str, name: Option<&[u8]>, count: usize, out: &mut Reply) {
    out.push(3);
    out.bulk(word.as_bytes());
    out.bulk_or_nil(name);
    out.integer(count as i64);
}

pub(crate) fn publish(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let running = (!store.is_in_script).then_some((caller, &mut *out));
    let receivers = store.publish(running, Kind::Channel, request.arg(1), request.arg(2));
    out.integer(receivers as i64);
    Ok(())
}

pub(crate) fn spublish(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let receivers = store.publish(Some((caller, out)), Kind::Shard, request.arg(1), request.arg(2));
    out.integer(receivers as i64);
    Ok(())
}

/// PUBSUB: information about subscriptions.
pub(crate) fn pubsub(store: &mut Store, _: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let word = request.arg(1);
    match word {
        _ if is(word, "HELP") => return help::write(request, "PUBSUB", help::PUBSUB, out),
        _ if is(word, "CHANNELS") && request.len() <= 3 => write_names(store, request, Kind::Channel, out),
        _ if is(word, "SHARDCHANNELS") && request.len() <= 3 => write_names(store, request, Kind::Shard, out),
        _ if is(word, "NUMSUB") => write_counts(store, request, Kind::Channel, out),
        _ if is(word, "SHARDNUMSUB") => write_counts(store, request, Kind::Shard, out),
        _ if is(word, "NUMPAT") && request.len() > 2 => return Err(Error::Arity("pubsub|numpat".to_owned())),
        _ if is(word, "NUMPAT") => out.integer(store.channels.names(Kind::Pattern, None).len() as i64),
        _ if is(word, "CHANNELS") || is(word, "SHARDCHANNELS") => {
            return Err(Error::SubcommandSyntax(shown(word), "PUBSUB"));
        }
        _ => return Err(Error::UnknownSubcommand(shown(word), "PUBSUB")),
    }
    Ok(())
}

fn write_names(store: &Store, request: &Request<'_>, kind: Kind, out: &mut Reply) {
    let names = store.channels.names(kind, request.get(2));
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name));
}

fn write_counts(store: &Store, request: &Request<'_>, kind: Kind, out: &mut Reply) {
    out.array(2 * (request.len() - 2));
    for name in request.args().skip(2) {
        out.bulk(name);
        out.integer(store.channels.subscribers(kind, name) as i64);
    }
}
