//! Commands on the groups of streams.

use std::ops::Bound;

use resp::Request;

use crate::args::{integer, is, shown};
use crate::audience::Class;
use crate::commands::help;
use crate::commands::streams::{
    Reading, parse_from, parse_id, parse_ids, parse_to, write_all, write_found, write_id, write_streams,
};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::group::{Group, Pending};
use crate::values::stream::{Id, Stream};
use crate::values::value::Kind;

type Done = Result<(), Error>;

pub(crate) fn xgroup(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let subcommands: [(&str, i32, crate::rows::OnKeys); 5] = [
        ("create", -5, create),
        ("setid", -5, setid),
        ("destroy", 4, destroy),
        ("createconsumer", 5, createconsumer),
        ("delconsumer", 5, delconsumer),
    ];
    if is(request.arg(1), "HELP") {
        return help::write(request, "XGROUP", help::XGROUP, out);
    }
    let found = subcommands.iter().find(|(name, ..)| is(request.arg(1), name));
    let Some((name, arity, run)) = found else {
        return Err(Error::UnknownSubcommand(shown(request.arg(1)), "XGROUP"));
    };
    let (least, len) = (arity.unsigned_abs() as usize, request.len());
    if len < least || (*arity > 0 && len > least) {
        return Err(Error::Arity(format!("xgroup|{name}")));
    }
    run(keyspace, request, out)
}

/// The options of CREATE and SETID.
fn parse_options(request: &Request<'_>, is_create: bool) -> Result<(bool, Option<u64>), Error> {
    let (mut makes_stream, mut read, mut at) = (false, None, 5);
    while let Some(word) = request.get(at) {
        match request.get(at + 1) {
            _ if is_create && is(word, "MKSTREAM") => makes_stream = true,
            Some(number) if is(word, "ENTRIESREAD") => {
                let number = integer(number)?;
                if number < -1 {
                    return Err(Error::GROUP_READ);
                }
                read = u64::try_from(number).ok();
                at += 1;
            }
            _ => return Err(Error::SubcommandSyntax(shown(request.arg(1)), "XGROUP")),
        }
        at += 1;
    }
    Ok((makes_stream, read))
}

/// The stream of a subcommand, which must exist.
fn stream<'k>(keyspace: &'k mut Keyspace, request: &Request<'_>) -> Result<&'k Stream, Error> {
    keyspace.read::<Stream>(request.arg(2))?.ok_or(Error::GROUP_NEEDS_KEY)
}

/// Checks that stream and group of a subcommand exist.
fn check_group(keyspace: &mut Keyspace, request: &Request<'_>) -> Done {
    let (key, group) = (request.arg(2), request.arg(3));
    stream(keyspace, request)?.group(group).map(drop).ok_or_else(|| Error::no_group_of(group, key))
}

fn create(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (makes_stream, read) = parse_options(request, true)?;
    let last = keyspace.read::<Stream>(request.arg(2))?.map(|stream| stream.last_id);
    if last.is_none() && !makes_stream {
        return Err(Error::GROUP_NEEDS_KEY);
    }
    if request.len() > 8 {
        return Err(Error::SubcommandSyntax(shown(request.arg(1)), "XGROUP"));
    }
    let id = match request.arg(4) {
        b"$" => last.unwrap_or_default(),
        id => parse_id(id, 0)?,
    };
    let is_new = keyspace.edit_or_create(request.arg(2), |stream: &mut Stream| {
        stream.add_group(request.arg(3), Group::new(id, read))
    })?;
    if !is_new {
        return Err(Error::GROUP_EXISTS);
    }
    if last.is_none() {
        keyspace.touched(request.arg(2));
    }
    keyspace.noted(Class::Stream, "xgroup-create", request.arg(2));
    out.simple(b"OK");
    Ok(())
}

fn setid(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (_, read) = parse_options(request, false)?;
    check_group(keyspace, request)?;
    if ![5, 7].contains(&request.len()) {
        return Err(Error::SubcommandSyntax(shown(request.arg(1)), "XGROUP"));
    }
    let last = stream(keyspace, request)?.last_id;
    let id = match request.arg(4) {
        b"$" => last,
        b"-" => Id::MIN,
        b"+" => Id::MAX,
        id => parse_id(id, 0)?,
    };
    edit(keyspace, request.arg(2), request.arg(3), |group, _| (group.last_id, group.read) = (id, read))?;
    keyspace.noted(Class::Stream, "xgroup-setid", request.arg(2));
    out.simple(b"OK");
    Ok(())
}

fn destroy(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    stream(keyspace, request)?;
    let rest = keyspace.edit(request.arg(2), |stream: &mut Stream| stream.remove_group(request.arg(3)))?;
    let rest = rest.flatten();
    out.integer(i64::from(rest.is_some()));
    if rest.is_some() {
        keyspace.noted(Class::Stream, "xgroup-destroy", request.arg(2));
        // Waiting members of the group get an error.
        keyspace.signal(request.arg(2));
    }
    // A group may have many pending entries, so they are freed in steps.
    rest.into_iter().for_each(|rest| keyspace.discard(rest.into_value()));
    Ok(())
}

fn createconsumer(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    check_group(keyspace, request)?;
    let now_ms = keyspace.now_ms;
    let is_new = edit(keyspace, request.arg(2), request.arg(3), |group, _| {
        group.add_consumer(request.arg(4), now_ms)
    })?;
    let is_new = is_new.unwrap_or_default();
    if is_new {
        keyspace.noted(Class::Stream, "xgroup-createconsumer", request.arg(2));
    }
    out.integer(i64::from(is_new));
    Ok(())
}

fn delconsumer(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    check_group(keyspace, request)?;
    let pending =
        edit(keyspace, request.arg(2), request.arg(3), |group, _| group.remove_consumer(request.arg(4)))?;
    let pending = pending.flatten();
    if pending.is_some() {
        keyspace.noted(Class::Stream, "xgroup-delconsumer", request.arg(2));
    }
    out.integer(pending.unwrap_or_default() as i64);
    Ok(())
}

/// Changes a group if it exists.
fn edit<R>(
    keyspace: &mut Keyspace,
    key: &[u8],
    group: &[u8],
    change: impl FnOnce(&mut Group, &Stream) -> R,
) -> Result<Option<R>, Error> {
    Ok(keyspace.edit(key, |stream: &mut Stream| stream.edit_group(group, change))?.flatten())
}

/// Start of a consumer's read.
#[derive(Clone, Copy)]
enum From {
    /// `>`: entries that no consumer of the group has read.
    New,
    /// The consumer's pending entries behind an id.
    Pending(Id),
}

/// XREADGROUP without its wait. Returns false and writes nothing if only new entries were wanted and there are none.
pub(crate) fn read_group(
    keyspace: &mut Keyspace,
    reading: &Reading<'_>,
    request: &Request<'_>,
    out: &mut Reply,
) -> Result<bool, Error> {
    let (group, consumer) = reading.group.ok_or(Error::XREADGROUP_NEEDS_GROUP)?;
    let mut all_from = Vec::with_capacity(reading.streams);
    for at in 0..reading.streams {
        let (key, id) = reading.pair(request, at);
        let stream = keyspace.read::<Stream>(key)?;
        stream.and_then(|stream| stream.group(group)).ok_or_else(|| Error::no_group_to_read(key, group))?;
        all_from.push(match id {
            b"$" => return Err(Error::XREADGROUP_LAST),
            b">" => From::New,
            _ => match parse_id(id, 0)? {
                Id::MAX => From::New,
                id => From::Pending(id),
            },
        });
    }
    let (mut body, mut len, now_ms) = (out.part(), 0, keyspace.now_ms);
    for (key, from) in reading.keys(request).zip(all_from) {
        // Redis looks the key up again, which counts in its statistics.
        keyspace.find(key);
        let shown = edit(keyspace, key, group, |group, stream| {
            let wants_new = matches!(from, From::New);
            if wants_new && (stream.len() == 0 || stream.last_live_id() <= group.last_id) {
                return (false, false);
            }
            let is_new = group.add_consumer(consumer, now_ms);
            let name = group.see_consumer(consumer, now_ms);
            body.named();
            body.bulk(key);
            let pending = Pending { consumer: name, delivered_ms: now_ms, deliveries: 1 };
            match from {
                From::Pending(id) => write_pending(group, stream, &pending, id, reading.count(), &mut body),
                From::New => {
                    let pending = Some(&pending).filter(|_| !reading.needs_no_ack);
                    write_news(group, stream, pending, reading.count(), &mut body);
                }
            }
            (true, is_new)
        })?;
        let (is_shown, is_new) = shown.unwrap_or_default();
        len += usize::from(is_shown);
        if is_new {
            keyspace.noted(Class::Stream, "xgroup-createconsumer", key);
        }
    }
    if len > 0 {
        write_streams(len, &body, out);
    }
    Ok(len > 0)
}

/// The reader of a waiting XREAD or XREADGROUP.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) count: usize,
    pub(crate) membership: Option<Membership>,
}

/// The consumer and its group.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) group: Box<[u8]>,
    pub(crate) consumer: Box<[u8]>,
    pub(crate) needs_no_ack: bool,
}

/// Writes the new entries of one stream: those behind `after`, or behind the group's last id. Returns false if there are none.
pub(crate) fn show_news(
    keyspace: &mut Keyspace,
    key: &[u8],
    reader: &Reader,
    after: Id,
    out: &mut Reply,
) -> Result<bool, Error> {
    let Some(membership) = &reader.membership else {
        let stream = keyspace.read::<Stream>(key)?;
        let Some((stream, from)) =
            stream.filter(|stream| stream.last_id > after).and_then(|stream| Some((stream, after.next()?)))
        else {
            return Ok(false);
        };
        write_header(key, out);
        write_all(stream.range(from, Id::MAX), reader.count, out);
        return Ok(true);
    };
    let now_ms = keyspace.now_ms;
    let shown = edit(keyspace, key, &membership.group, |group, stream| {
        if stream.last_id <= group.last_id {
            return (false, false);
        }
        let is_new = group.add_consumer(&membership.consumer, now_ms);
        let consumer = group.see_consumer(&membership.consumer, now_ms);
        let pending = Pending { consumer, delivered_ms: now_ms, deliveries: 1 };
        write_header(key, out);
        write_news(group, stream, Some(&pending).filter(|_| !membership.needs_no_ack), reader.count, out);
        (true, is_new)
    })?;
    let (is_shown, is_new) = shown.ok_or(Error::GROUP_GONE)?;
    if is_new {
        keyspace.noted(Class::Stream, "xgroup-createconsumer", key);
    }
    Ok(is_shown)
}

/// Writes the header of a reply with one stream.
fn write_header(key: &[u8], out: &mut Reply) {
    out.named_list(1);
    out.named();
    out.bulk(key);
}

/// Writes the group's new entries and makes them pending, except with NOACK.
fn write_news(group: &mut Group, stream: &Stream, pending: Option<&Pending>, count: usize, out: &mut Reply) {
    let from = group.last_id.next().unwrap_or(Id::MAX);
    write_all(stream.range(from, Id::MAX), count, out);
    for found in stream.range(from, Id::MAX).take(count) {
        group.advance(stream, found.id);
        pending.into_iter().for_each(|pending| group.assign(found.id, pending.clone()));
    }
}

/// Writes a consumer's pending entries behind an id again. A deleted entry has no fields.
fn write_pending(
    group: &mut Group,
    stream: &Stream,
    delivery: &Pending,
    behind: Id,
    count: usize,
    out: &mut Reply,
) {
    let Some(consumer) = group.consumer(&delivery.consumer) else { return };
    let ids = consumer.pending().range((Bound::Excluded(behind), Bound::Unbounded)).take(count);
    let ids: Vec<Id> = ids.copied().collect();
    out.array(ids.len());
    for id in ids {
        let deliveries = group.pending().get(&id).map_or(0, |pending| pending.deliveries);
        match stream.range(id, id).next() {
            Some(found) => {
                write_found(&found, out);
                group.assign(id, Pending { deliveries: deliveries.wrapping_add(1), ..delivery.clone() });
            }
            None => {
                out.array(2);
                write_id(id, out);
                out.nil_array();
            }
        }
    }
}

pub(crate) fn xack(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let stream = keyspace.read::<Stream>(request.arg(1))?;
    if stream.and_then(|stream| stream.group(request.arg(2))).is_none() {
        out.integer(0);
        return Ok(());
    }
    let ids = parse_ids(request.args().skip(3))?;
    let acknowledged = edit(keyspace, request.arg(1), request.arg(2), |group, _| {
        ids.iter().filter(|&&id| group.acknowledge(id)).count()
    })?;
    out.integer(acknowledged.unwrap_or_default() as i64);
    Ok(())
}

/// The long form of XPENDING.
struct PendingQuery<'a> {
    idle_min_ms: i64,
    from: Id,
    to: Id,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingQuery<'a> {
    fn parse(request: &Request<'a>) -> Result<Option<PendingQuery<'a>>, Error> {
        if request.len() == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&request.len()) {
            return Err(Error::Syntax);
        }
        let (mut idle_min_ms, mut at) = (0, 3);
        if is(request.arg(3), "IDLE") {
            idle_min_ms = integer(request.arg(4))?;
            at = 5;
            if request.len() < 8 {
                return Err(Error::Syntax);
            }
        }
        let count = usize::try_from(integer(request.arg(at + 2))?).unwrap_or_default();
        let (from, to) = (parse_from(request.arg(at))?, parse_to(request.arg(at + 1))?);
        Ok(Some(PendingQuery { idle_min_ms, from, to, count, consumer: request.get(at + 3) }))
    }
}

pub(crate) fn xpending(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let query = PendingQuery::parse(request)?;
    let (key, name, now_ms) = (request.arg(1), request.arg(2), keyspace.now_ms);
    let stream = keyspace.read::<Stream>(key)?;
    let group = stream.and_then(|stream| stream.group(name)).ok_or_else(|| Error::no_group(key, name))?;
    let Some(query) = query else {
        write_summary(group, out);
        return Ok(());
    };
    let is_idle = |pending: &Pending| {
        query.idle_min_ms == 0 || idle_ms(now_ms, pending.delivered_ms) >= query.idle_min_ms
    };
    let found: Vec<(&Id, &Pending)> = match query.consumer {
        // Other consumers' entries are not read: there may be many more.
        Some(name) => {
            let ids =
                group.consumer(name).into_iter().flat_map(|consumer| consumer.pending().range(query.from..));
            let all = ids.filter_map(|id| group.pending().get_key_value(id));
            all.take_while(|(id, _)| **id <= query.to)
                .filter(|(_, one)| is_idle(one))
                .take(query.count)
                .collect()
        }
        None => {
            let all = group.pending().range(query.from..).take_while(|(id, _)| **id <= query.to);
            all.filter(|(_, one)| is_idle(one)).take(query.count).collect()
        }
    };
    out.array(found.len());
    for (id, pending) in found {
        out.array(4);
        write_id(*id, out);
        out.bulk(&pending.consumer);
        out.integer(now_ms.saturating_sub(pending.delivered_ms) as i64);
        out.integer(pending.deliveries as i64);
    }
    Ok(())
}

/// Negative if the clock was set back. Clients and dumps can name any instant.
fn idle_ms(now_ms: u64, delivered_ms: u64) -> i64 {
    (now_ms as i64).wrapping_sub(delivered_ms as i64)
}

/// Writes the number of pending entries, their first and last id, and the consumers.
fn write_summary(group: &Group, out: &mut Reply) {
    out.array(4);
    out.integer(group.pending().len() as i64);
    let (Some((first, _)), Some((last, _))) =
        (group.pending().first_key_value(), group.pending().last_key_value())
    else {
        out.nil();
        out.nil();
        return out.nil_array();
    };
    write_id(*first, out);
    write_id(*last, out);
    let busy: Vec<_> =
        group.consumers().iter().filter(|(_, consumer)| !consumer.pending().is_empty()).collect();
    out.array(busy.len());
    for (name, consumer) in busy {
        out.array(2);
        out.bulk(name);
        out.bulk(itoa::Buffer::new().format(consumer.pending().len()).as_bytes());
    }
}

/// The options of XCLAIM behind the ids.
struct Claim {
    ids: Vec<Id>,
    delivered_ms: u64,
    deliveries: Option<u64>,
    is_forced: bool,
    just_ids: bool,
    last_id: Id,
}

impl Claim {
    fn parse(request: &Request<'_>, now_ms: u64) -> Result<Claim, Error> {
        let ids: Vec<Id> = request.args().skip(5).map_while(|arg| parse_id(arg, 0).ok()).collect();
        let now = now_ms as i64;
        let (mut delivered, mut deliveries, mut at) = (-1, -1, 5 + ids.len());
        let mut claim = Claim {
            ids,
            delivered_ms: now_ms,
            deliveries: None,
            is_forced: false,
            just_ids: false,
            last_id: Id::MIN,
        };
        while let Some(word) = request.get(at) {
            at += 1;
            let value = request.get(at);
            let number = |error: Error| value.and_then(resp::integer::parse_i64).ok_or(error);
            match value {
                _ if is(word, "FORCE") => claim.is_forced = true,
                _ if is(word, "JUSTID") => claim.just_ids = true,
                Some(_) if is(word, "IDLE") => delivered = now.wrapping_sub(number(Error::CLAIM_IDLE)?),
                Some(_) if is(word, "TIME") => delivered = number(Error::CLAIM_TIME)?,
                Some(_) if is(word, "RETRYCOUNT") => deliveries = number(Error::CLAIM_RETRYCOUNT)?,
                Some(id) if is(word, "LASTID") => claim.last_id = parse_id(id, 0)?,
                _ => return Err(Error::unknown_claim_option(word)),
            }
            at += usize::from(!is(word, "FORCE") && !is(word, "JUSTID"));
        }
        // A negative time, or one in the future, counts as now.
        claim.delivered_ms = if (0..=now).contains(&delivered) { delivered as u64 } else { now_ms };
        claim.deliveries = u64::try_from(deliveries).ok();
        Ok(claim)
    }
}

pub(crate) fn xclaim(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (key, name, now_ms) = (request.arg(1), request.arg(2), keyspace.now_ms);
    let stream = keyspace.read::<Stream>(key)?;
    stream.and_then(|stream| stream.group(name)).ok_or_else(|| Error::no_group(key, name))?;
    let idle_min_ms = resp::integer::parse_i64(request.arg(4)).ok_or(Error::CLAIM_MIN_IDLE)?.max(0);
    let claim = Claim::parse(request, now_ms)?;
    let claimed = edit(keyspace, key, name, |group, stream| {
        group.last_id = group.last_id.max(claim.last_id);
        let mut claimed = Vec::new();
        for &id in &claim.ids {
            if !stream.contains(id) {
                group.acknowledge(id);
                continue;
            }
            let old = group.pending().get(&id).map(|pending| (pending.delivered_ms, pending.deliveries));
            let deliveries = match old {
                Some((delivered_ms, _)) if idle_ms(now_ms, delivered_ms) < idle_min_ms => continue,
                Some((_, deliveries)) => deliveries,
                None if claim.is_forced => 1,
                None => continue,
            };
            let consumer = group.see_consumer(request.arg(3), now_ms);
            let deliveries = claim.deliveries.unwrap_or(deliveries.wrapping_add(u64::from(!claim.just_ids)));
            group.assign(id, Pending { consumer, delivered_ms: claim.delivered_ms, deliveries });
            claimed.push(id);
        }
        write_claimed(stream, &claimed, claim.just_ids, out);
    })?;
    debug_assert!(claimed.is_some());
    Ok(())
}

fn write_claimed(stream: &Stream, ids: &[Id], just_ids: bool, out: &mut Reply) {
    out.array(ids.len());
    for &id in ids {
        if just_ids {
            write_id(id, out);
        } else {
            stream.range(id, id).for_each(|found| write_found(&found, out));
        }
    }
}

pub(crate) fn xautoclaim(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (key, name, now_ms) = (request.arg(1), request.arg(2), keyspace.now_ms);
    // Redis looks the key up first and reports a wrong type last.
    keyspace.find(key);
    keyspace.stats.count(false);
    let idle_min_ms = resp::integer::parse_i64(request.arg(4)).ok_or(Error::AUTOCLAIM_MIN_IDLE)?.max(0);
    let from = parse_from(request.arg(5))?;
    let (mut count, mut just_ids, mut at) = (100, false, 6);
    while let Some(word) = request.get(at) {
        match request.get(at + 1) {
            Some(number) if is(word, "COUNT") => {
                let number = resp::integer::parse_i64(number);
                let number = number.filter(|number| (1..=i64::MAX / 16).contains(number));
                count = number.ok_or(Error::AUTOCLAIM_COUNT)? as usize;
                at += 1;
            }
            _ if is(word, "JUSTID") => just_ids = true,
            _ => return Err(Error::Syntax),
        }
        at += 1;
    }
    let stream = keyspace.read::<Stream>(key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(Error::no_group(key, name));
    }
    edit(keyspace, key, name, |group, stream| {
        let (mut claimed, mut deleted) = (Vec::new(), Vec::new());
        let mut looked_at: Vec<Id> = Vec::new();
        // As in Redis, at most ten times the count of entries are read.
        let ids: Vec<Id> = group.pending().range(from..).map(|(id, _)| *id).take(count * 10).collect();
        for id in ids {
            if claimed.len() + deleted.len() == count {
                break;
            }
            looked_at.push(id);
            if !stream.contains(id) {
                group.acknowledge(id);
                deleted.push(id);
                continue;
            }
            let old = group.pending().get(&id).map(|pending| (pending.delivered_ms, pending.deliveries));
            let Some((delivered_ms, deliveries)) = old else { continue };
            if idle_ms(now_ms, delivered_ms) < idle_min_ms {
                continue;
            }
            let consumer = group.see_consumer(request.arg(3), now_ms);
            let deliveries = deliveries.wrapping_add(u64::from(!just_ids));
            group.assign(id, Pending { consumer, delivered_ms: now_ms, deliveries });
            claimed.push(id);
        }
        let behind = looked_at.last().map_or(Bound::Included(from), |&id| Bound::Excluded(id));
        let next = group.pending().range((behind, Bound::Unbounded)).next();
        out.array(3);
        write_id(next.map_or(Id::MIN, |(id, _)| *id), out);
        write_claimed(stream, &claimed, just_ids, out);
        out.array(deleted.len());
        deleted.iter().for_each(|&id| write_id(id, out));
    })?;
    Ok(())
}
