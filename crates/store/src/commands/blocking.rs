//! Commands that wait. Each tries at once. If nothing is there, it leaves a [`Wanted`], with which `waiting` tries again when
//! one of its keys is ready.

use resp::Request;

use crate::args::{Multipop, float_text, integer, timeout_ms};
use crate::caller_id::CallerId;
use crate::callers::Wait;
use crate::commands::lists;
use crate::commands::stream_groups::{Membership, Reader, read_group};
use crate::commands::streams::{Reading, read_new};
use crate::commands::wanted::Wanted;
use crate::commands::zsets::Side;
use crate::error::Error;
use crate::replies::Reply;
use crate::store::Store;
use crate::values::list::End;
use crate::values::stream::Id;

type Done = Result<(), Error>;

pub(crate) fn blpop(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(store, caller, request, Wanted::Element { end: End::Left, count: None }, out)
}

pub(crate) fn brpop(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(store, caller, request, Wanted::Element { end: End::Right, count: None }, out)
}

pub(crate) fn bzpopmin(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(store, caller, request, Wanted::Member { side: Side::Lowest, count: None }, out)
}

pub(crate) fn bzpopmax(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    pop(store, caller, request, Wanted::Member { side: Side::Highest, count: None }, out)
}

fn pop(store: &mut Store, caller: CallerId, request: &Request<'_>, wanted: Wanted, out: &mut Reply) -> Done {
    let last = request.len() - 1;
    let timeout = timeout_s(request.arg(last))?;
    let keys = request.args().take(last).skip(1).collect();
    try_or_wait(store, caller, keys, wanted, timeout, out)
}

pub(crate) fn blmpop(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = Multipop::parse(request, 2, ["LEFT", "RIGHT"])?;
    let wanted = Wanted::Element { end: End::of(query.from_second), count: Some(query.count) };
    try_or_wait(store, caller, query.keys(request).collect(), wanted, timeout_s(request.arg(1))?, out)
}

pub(crate) fn bzmpop(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = Multipop::parse(request, 2, ["MIN", "MAX"])?;
    let wanted = Wanted::Member { side: Side::of(query.from_second), count: Some(query.count) };
    try_or_wait(store, caller, query.keys(request).collect(), wanted, timeout_s(request.arg(1))?, out)
}

pub(crate) fn blmove(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let ends = (lists::parse_end(request.arg(3))?, lists::parse_end(request.arg(4))?);
    shift(store, caller, request, ends, out)
}

pub(crate) fn brpoplpush(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    shift(store, caller, request, (End::Right, End::Left), out)
}

fn shift(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    ends: (End, End),
    out: &mut Reply,
) -> Done {
    let timeout = timeout_s(request.arg(request.len() - 1))?;
    let wanted = Wanted::Shift { ends, target: request.arg(2).into() };
    try_or_wait(store, caller, vec![request.arg(1)], wanted, timeout, out)
}

/// Pops from the first key that has an element, or waits.
fn try_or_wait(
    store: &mut Store,
    caller: CallerId,
    keys: Vec<&[u8]>,
    wanted: Wanted,
    timeout_ms: i64,
    out: &mut Reply,
) -> Done {
    // The timeout is checked before an element is taken.
    let deadline = deadline(timeout_ms, store.keyspace.now_ms)?;
    for (at, key) in keys.iter().enumerate() {
        if wanted.take(&mut store.keyspace, key, at, out)? {
            return Ok(());
        }
    }
    begin_wait(store, caller, keys, wanted, deadline, out);
    Ok(())
}

pub(crate) fn xread(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let reading = Reading::parse(request, false)?;
    let Some(after) = read_new(&mut store.keyspace, &reading, request, out)? else { return Ok(()) };
    wait_for_entries(store, caller, &reading, request, after, out)
}

pub(crate) fn xreadgroup(
    store: &mut Store,
    caller: CallerId,
    request: &Request<'_>,
    out: &mut Reply,
) -> Done {
    let reading = Reading::parse(request, true)?;
    if read_group(&mut store.keyspace, &reading, request, out)? {
        return Ok(());
    }
    wait_for_entries(store, caller, &reading, request, Vec::new(), out)
}

fn wait_for_entries(
    store: &mut Store,
    caller: CallerId,
    reading: &Reading<'_>,
    request: &Request<'_>,
    after: Vec<Id>,
    out: &mut Reply,
) -> Done {
    let Some(timeout_ms) = reading.block_ms else {
        out.nil_array();
        return Ok(());
    };
    let membership = reading.group.map(|(group, consumer)| Membership {
        group: group.into(),
        consumer: consumer.into(),
        needs_no_ack: reading.needs_no_ack,
    });
    let reader = Reader { count: reading.count_after_wait(), membership };
    let deadline = deadline(timeout_ms, store.keyspace.now_ms)?;
    let keys = reading.keys(request).collect();
    begin_wait(store, caller, keys, Wanted::Entries { reader, after }, deadline, out);
    Ok(())
}

/// WAIT. There are no replicas, so a count above 0 is never reached.
pub(crate) fn wait(store: &mut Store, caller: CallerId, request: &Request<'_>, out: &mut Reply) -> Done {
    let replicas = integer(request.arg(1))?;
    let deadline = deadline(timeout_ms(request.arg(2))?, store.keyspace.now_ms)?;
    match replicas <= 0 || store.is_in_transaction {
        true => out.integer(0),
        false => begin_wait(store, caller, Vec::new(), Wanted::Replicas, deadline, out),
    }
    Ok(())
}

/// Puts the caller at the end of each key's queue. In a transaction the wait times out at once.
fn begin_wait(
    store: &mut Store,
    caller: CallerId,
    keys: Vec<&[u8]>,
    wanted: Wanted,
    deadline: Option<u64>,
    out: &mut Reply,
) {
    if store.is_in_transaction {
        return match wanted {
            Wanted::Shift { .. } => out.nil(),
            _ => out.nil_array(),
        };
    }
    let database = store.keyspace.selected();
    let keys: Vec<Box<[u8]>> = keys.into_iter().map(Box::from).collect();
    for (at, key) in keys.iter().enumerate() {
        // A key that is named twice gets one place in its queue.
        if !keys[..at].contains(key) {
            store.keyspace.audience.enqueue(caller, database, key);
        }
    }
    store.callers.begin_wait(caller, Wait { database, keys, wanted, deadline });
}

/// A timeout in seconds, with a fraction, as milliseconds.
fn timeout_s(arg: &[u8]) -> Result<i64, Error> {
    let seconds = float_text(arg).map_err(|_| Error::WAIT_NOT_FLOAT)?;
    let millis = (seconds.to_f64() * 1_000.0).ceil();
    // A value that does not fit wraps in Redis and is negative.
    let is_too_much = millis >= i64::MAX as f64;
    if is_too_much || millis < 0.0 { Err(Error::TIMEOUT_NEGATIVE) } else { Ok(millis as i64) }
}

/// The deadline of a wait. One millisecond is added because the clock drops fractions, so that the wait is never too short.
fn deadline(timeout_ms: i64, now_ms: u64) -> Result<Option<u64>, Error> {
    if timeout_ms == 0 {
        return Ok(None);
    }
    let now = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let at = now.checked_add(timeout_ms).ok_or(Error::WAIT_TOO_LONG)?;
    Ok(Some(u64::try_from(at).unwrap_or_default().saturating_add(1)))
}
