//! MULTI, EXEC and WATCH.

use resp::Request;

use crate::caller_id::CallerId;
use crate::callers::Transaction;
use crate::error::Error;
use crate::replies::Reply;
use crate::store::Store;

type Done = Result<(), Error>;

pub(crate) fn multi(store: &mut Store, caller: CallerId, _: &Request<'_>, out: &mut Reply) -> Done {
    let state = store.callers.running(caller);
    if state.transaction().is_some() {
        return Err(Error::MULTI_NESTED);
    }
    state.extras().transaction = Some(Transaction::default());
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn discard(store: &mut Store, caller: CallerId, _: &Request<'_>, out: &mut Reply) -> Done {
    store.callers.running(caller).transaction().ok_or(Error::DISCARD_WITHOUT_MULTI)?;
    abandon(store, caller);
    out.simple(b"OK");
    Ok(())
}

/// Ends a transaction and its watches. Returns the transaction, if there was one.
pub(crate) fn abandon(store: &mut Store, caller: CallerId) -> Option<Transaction> {
    let transaction = store.callers.running(caller).extras.as_mut()?.transaction.take();
    forget_watched(store, caller);
    transaction
}

pub(crate) fn exec(store: &mut Store, caller: CallerId, _: &Request<'_>, out: &mut Reply) -> Done {
    let state = store.callers.running(caller);
    let is_broken = state.transaction().ok_or(Error::EXEC_WITHOUT_MULTI)?.is_broken;
    let is_changed = is_watched_changed(store, caller);
    let requests = abandon(store, caller).unwrap_or_default().requests;
    if is_broken {
        return Err(Error::EXEC_ABORTED);
    }
    if is_changed {
        out.nil_array();
        return Ok(());
    }
    store.is_in_transaction = true;
    out.array(requests.len());
    for queued in &requests {
        let database = store.callers.running(caller).database;
        store.keyspace.select(database);
        let start = out.len();
        if let Err(error) = store.execute(caller, &queued.request(), out) {
            out.truncate(start);
            out.error(&error);
        }
    }
    store.is_in_transaction = false;
    Ok(())
}

/// Whether a watched key changed or expired.
pub(crate) fn is_watched_changed(store: &mut Store, caller: CallerId) -> bool {
    let Some(extras) = store.callers.running(caller).extras.as_ref() else { return false };
    let keyspace = &mut store.keyspace;
    keyspace.audience.is_touched(caller)
        || extras.watched.iter().any(|place| {
            let is_over = keyspace.within(place.0, |keyspace| keyspace.is_over(&place.1));
            is_over && !keyspace.audience.was_expired(caller, place)
        })
}

pub(crate) fn watch(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let state = store.callers.running(caller);
    if state.transaction().is_some() {
        return Err(Error::WATCH_IN_MULTI);
    }
    let database = state.database;
    for key in request.args().skip(1) {
        let is_over = store.keyspace.is_over(key);
        if store.keyspace.audience.watch(caller, database, key, is_over) {
            state.extras().watched.push((database, key.into()));
        }
    }
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn unwatch(store: &mut Store, caller: CallerId, _: &Request<'_>, out: &mut Reply) -> Done {
    forget_watched(store, caller);
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn forget_watched(store: &mut Store, caller: CallerId) {
    let state = store.callers.running(caller);
    if let Some(extras) = state.extras.as_mut() {
        let watched = std::mem::take(&mut extras.watched);
        if !watched.is_empty() {
            store.keyspace.audience.unwatch(caller, &watched);
        }
    }
    state.settle();
}

#[cfg(test)]
mod tests {
    use crate::testing::World;
    use crate::{EvictionPolicy, StoreSettings};

    /// Requests, and the expected reply to EXEC.
    struct Case {
        /// Sent by the connection with the transaction.
        before: &'static [&'static str],
        /// Sent by another connection.
        between: &'static [&'static str],
        exec: &'static str,
    }

    #[test]
    fn exec_runs_all_or_nothing() {
        let cases = [
            Case { before: &[], between: &[], exec: "-ERR EXEC without MULTI" },
            Case { before: &["MULTI"], between: &[], exec: "*0" },
            Case { before: &["MULTI", "INCR n", "GET n"], between: &[], exec: "*2 :1 $1 1" },
            Case {
                before: &["MULTI", "INCR n", "NOSUCH"],
                between: &[],
                exec: "-EXECABORT Transaction discarded because of previous errors.",
            },
            Case {
                before: &["MULTI", "SET n x", "INCR n", "SET n 1"],
                between: &[],
                exec: "*3 +OK -ERR value is not an integer or out of range +OK",
            },
            Case { before: &["WATCH n", "MULTI", "INCR n"], between: &["SET n 5"], exec: "*-1" },
            Case { before: &["WATCH n", "UNWATCH", "MULTI"], between: &["SET n 5"], exec: "*0" },
            Case { before: &["WATCH n", "MULTI"], between: &["SET other 5"], exec: "*0" },
            Case { before: &["WATCH s", "MULTI"], between: &["SREM s nobody"], exec: "*0" },
            Case { before: &["WATCH n", "SET n 1", "MULTI"], between: &[], exec: "*-1" },
            Case { before: &["WATCH n", "MULTI"], between: &["SELECT 1", "SET n 1"], exec: "*0" },
            Case { before: &["SET n 1", "WATCH n", "MULTI"], between: &["FLUSHALL"], exec: "*-1" },
            Case { before: &["WATCH n", "MULTI"], between: &["FLUSHALL"], exec: "*0" },
            Case { before: &["WATCH n", "MULTI"], between: &["SET n 1", "DEL n"], exec: "*-1" },
            Case {
                before: &["MULTI", "BLPOP l 0", "BLMOVE l m LEFT LEFT 0"],
                between: &[],
                exec: "*2 *-1 $-1",
            },
            // Changes of groups are no changes of the stream. A new cached cardinality is a change of the string.
            Case {
                before: &["XGROUP CREATE x g 0 MKSTREAM", "WATCH x", "MULTI"],
                between: &[
                    "XGROUP SETID x g 5-5",
                    "XGROUP CREATE x h 0",
                    "XGROUP DESTROY x g",
                    "XSETID x 7-7",
                ],
                exec: "*0",
            },
            Case { before: &["PFADD p a", "WATCH p", "MULTI"], between: &["PFCOUNT p"], exec: "*-1" },
            Case { before: &["WATCH n", "RESET", "MULTI"], between: &["SET n 1"], exec: "*0" },
        ];
        for case in cases {
            let mut world = World::new(StoreSettings::default());
            let (ours, other) = (world.store.admit(), world.store.admit());
            case.before.iter().for_each(|line| _ = world.ask_as(ours, line));
            case.between.iter().for_each(|line| _ = world.ask_as(other, line));
            assert_eq!(world.ask_as(ours, "EXEC"), case.exec, "{:?}, {:?}", case.before, case.between);
            assert_eq!(world.ask_as(ours, "EXEC"), "-ERR EXEC without MULTI");
            assert!(!world.store.keyspace.audience.is_there(), "nobody watches: {:?}", case.before);
        }
    }

    #[test]
    fn expiry_of_a_watched_key_is_a_change_only_if_it_lived() {
        let mut world = World::new(StoreSettings::default());
        let ours = world.store.admit();
        for (line, later_ms, exec) in [("SET k v PX 100", 101, "*-1"), ("SET k v PX 100", 100, "*0")] {
            world.ask(line);
            world.ask_as(ours, "WATCH k");
            world.ask_as(ours, "MULTI");
            world.now_ms += later_ms;
            assert_eq!(world.ask_as(ours, "EXEC"), exec, "{later_ms}");
        }
        world.now_ms += 1_000;
        world.ask_as(ours, "WATCH k");
        world.ask_as(ours, "MULTI");
        world.work_off();
        assert_eq!(world.store.len(), 0);
        assert_eq!(world.ask_as(ours, "EXEC"), "*0");
    }

    #[test]
    fn full_memory_refuses_queued_writes_and_their_exec() {
        let settings = StoreSettings { seed: 7, memory_max: Some(5_000), policy: EvictionPolicy::NoEviction };
        let mut world = World::new(settings);
        let (ours, broken) = (world.store.admit(), world.store.admit());
        world.ask_as(ours, "MULTI");
        assert_eq!(world.ask_as(ours, "SET k v"), "+QUEUED");
        while world.ask(&format!("APPEND long {}", "x".repeat(500))).starts_with(':') {}
        let reason = "OOM command not allowed when used memory > 'maxmemory'.";
        let aborted = format!("-EXECABORT Transaction discarded because of: {reason}");
        assert_eq!(world.ask_as(ours, "EXEC"), aborted);
        world.ask_as(broken, "MULTI");
        assert_eq!(world.ask_as(broken, "GET k"), format!("-{reason}"), "even what only reads");
        let aborted = "-EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(world.ask_as(broken, "EXEC"), aborted);
    }
}
