//! Commands on streams without groups.

use resp::Request;

use crate::args::{integer, is, timeout_ms};
use crate::audience::Class;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::stream::{Found, Id, Keep, NODE_ENTRIES_MAX, Stream, Trim};

type Done = Result<(), Error>;

/// A complete id, or one whose second number is `missing_seq`.
pub(crate) fn parse_id(arg: &[u8], missing_seq: u64) -> Result<Id, Error> {
    let (ms, seq) = match arg.iter().position(|&byte| byte == b'-') {
        Some(at) => (&arg[..at], Some(&arg[at + 1..])),
        None => (arg, None),
    };
    let seq = seq.map_or(Some(missing_seq), natural);
    natural(ms).zip(seq).map(|(ms, seq)| Id { ms, seq }).ok_or(Error::STREAM_ID)
}

/// A number as `strtoull` reads it.
fn natural(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.trim_ascii_start()).ok()?.parse().ok()
}

/// The lower bound of a range; a parenthesis excludes the id.
pub(crate) fn parse_from(arg: &[u8]) -> Result<Id, Error> {
    match arg {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        [b'(', id @ ..] if !id.is_empty() => parse_id(id, 0)?.next().ok_or(Error::STREAM_RANGE_START),
        _ => parse_id(arg, 0),
    }
}

/// The upper bound of a range; a parenthesis excludes the id.
pub(crate) fn parse_to(arg: &[u8]) -> Result<Id, Error> {
    match arg {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        [b'(', id @ ..] if !id.is_empty() => {
            parse_id(id, u64::MAX)?.previous().ok_or(Error::STREAM_RANGE_END)
        }
        _ => parse_id(arg, u64::MAX),
    }
}

pub(crate) fn write_id(id: Id, out: &mut Reply) {
    out.bulk(&id.to_text());
}

pub(crate) fn write_found(found: &Found<'_>, out: &mut Reply) {
    out.array(2);
    write_id(found.id, out);
    out.array(found.len());
    found.each(|field| out.bulk(field));
}

/// Writes an array of at most `count` entries.
pub(crate) fn write_all<'s>(all: impl Iterator<Item = Found<'s>>, count: usize, out: &mut Reply) {
    let found: Vec<Found<'_>> = all.take(count).collect();
    out.array(found.len());
    found.iter().for_each(|found| write_found(found, out));
}

/// The id argument of XADD.
#[derive(Clone, Copy)]
enum Wanted {
    Now,
    Ms(u64),
    Exactly(Id),
}

impl Wanted {
    fn parse(arg: &[u8]) -> Result<Wanted, Error> {
        match arg.strip_suffix(b"-*") {
            Some(ms) => natural(ms).map(Wanted::Ms).ok_or(Error::STREAM_ID),
            None => parse_id(arg, 0).map(Wanted::Exactly),
        }
    }

    /// The id of the next entry of a stream whose last one is `last`.
    fn id(self, last: Id, now_ms: u64) -> Result<Id, Error> {
        let id = match self {
            Wanted::Now if now_ms > last.ms => Some(Id { ms: now_ms, seq: 0 }),
            Wanted::Now => last.next(),
            Wanted::Ms(ms) if ms == last.ms => last.seq.checked_add(1).map(|seq| Id { ms, seq }),
            Wanted::Ms(ms) => Some(Id { ms, seq: 0 }),
            Wanted::Exactly(id) => Some(id),
        };
        id.filter(|&id| id > last).ok_or(Error::STREAM_ID_TOO_SMALL)
    }
}

/// The options in front of the id of XADD, and behind the key of XTRIM.
struct Options {
    trim: Option<Trim>,
    makes_no_stream: bool,
    /// Index of the id, or of the end.
    end: usize,
    wanted: Wanted,
}

impl Options {
    fn parse(request: &Request<'_>, is_add: bool) -> Result<Options, Error> {
        let (mut keep, mut is_rough, mut limit) = (None, false, None);
        let mut options = Options { trim: None, makes_no_stream: false, end: 2, wanted: Wanted::Now };
        while let Some(word) = request.get(options.end) {
            let value = request.get(options.end + 1);
            match value {
                _ if is_add && word == b"*" => break,
                Some(value) if is(word, "MAXLEN") || is(word, "MINID") => {
                    if keep.is_some() {
                        return Err(Error::STREAM_TRIM_TWICE);
                    }
                    let has_sign = (value == b"~" || value == b"=") && request.len() > options.end + 2;
                    is_rough = has_sign && value == b"~";
                    options.end += 1 + usize::from(has_sign);
                    keep = Some(parse_keep(request.arg(options.end), is(word, "MAXLEN"))?);
                }
                Some(value) if is(word, "LIMIT") => {
                    let number = usize::try_from(integer(value)?).map_err(|_| Error::STREAM_LIMIT)?;
                    limit = Some(number);
                    options.end += 1;
                }
                _ if is_add && is(word, "NOMKSTREAM") => options.makes_no_stream = true,
                _ if is_add => {
                    options.wanted = Wanted::parse(word)?;
                    break;
                }
                _ => return Err(Error::Syntax),
            }
            options.end += 1;
        }
        if limit.is_some_and(|limit| limit > 0) && keep.is_none() {
            return Err(Error::STREAM_LIMIT_ALONE);
        }
        if !is_add && keep.is_none() {
            return Err(Error::STREAM_TRIM_HOW);
        }
        if limit.is_some() && !is_rough {
            return Err(Error::STREAM_LIMIT_EXACT);
        }
        let limit = limit.unwrap_or(if is_rough { 100 * NODE_ENTRIES_MAX } else { 0 });
        options.trim = keep.map(|keep| Trim { keep, is_rough, limit });
        Ok(options)
    }
}

fn parse_keep(arg: &[u8], is_len: bool) -> Result<Keep, Error> {
    if !is_len {
        return parse_id(arg, 0).map(Keep::From);
    }
    usize::try_from(integer(arg)?).map(Keep::Len).map_err(|_| Error::STREAM_MAXLEN)
}

pub(crate) fn xadd(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let options = Options::parse(request, true)?;
    let fields: Vec<&[u8]> = request.args().skip(options.end + 1).collect();
    if fields.len() < 2 || !fields.len().is_multiple_of(2) {
        return Err(Error::Arity("xadd".to_owned()));
    }
    if matches!(options.wanted, Wanted::Exactly(Id::MIN)) {
        return Err(Error::STREAM_ID_ZERO);
    }
    let last = keyspace.read::<Stream>(request.arg(1))?.map(|stream| stream.last_id);
    if last.is_none() && options.makes_no_stream {
        out.nil();
        return Ok(());
    }
    if last == Some(Id::MAX) {
        return Err(Error::STREAM_FULL);
    }
    let id = options.wanted.id(last.unwrap_or_default(), keyspace.now_ms)?;
    if fields.iter().map(|field| field.len()).sum::<usize>() > ENTRY_BYTES_MAX {
        return Err(Error::STREAM_ENTRY_TOO_LARGE);
    }
    let trimmed = keyspace.edit_or_create(request.arg(1), |stream: &mut Stream| {
        stream.push(id, &fields);
        options.trim.map_or(0, |trim| stream.trim(trim))
    })?;
    keyspace.changed(Class::Stream, "xadd", request.arg(1));
    if trimmed > 0 {
        keyspace.changed(Class::Stream, "xtrim", request.arg(1));
    }
    keyspace.signal(request.arg(1));
    write_id(id, out);
    Ok(())
}

pub(crate) fn xtrim(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let options = Options::parse(request, false)?;
    let removed = keyspace
        .edit(request.arg(1), |stream: &mut Stream| options.trim.map_or(0, |trim| stream.trim(trim)))?;
    let removed = removed.unwrap_or_default();
    if removed > 0 {
        keyspace.changed(Class::Stream, "xtrim", request.arg(1));
    }
    out.integer(removed as i64);
    Ok(())
}

pub(crate) fn xlen(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(keyspace.read::<Stream>(request.arg(1))?.map_or(0, Stream::len) as i64);
    Ok(())
}

pub(crate) fn xrange(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let from = parse_from(request.arg(2))?;
    show(keyspace, request, (from, parse_to(request.arg(3))?), false, out)
}

pub(crate) fn xrevrange(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let from = parse_from(request.arg(3))?;
    show(keyspace, request, (from, parse_to(request.arg(2))?), true, out)
}

fn show(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    (from, to): (Id, Id),
    reversed: bool,
    out: &mut Reply,
) -> Done {
    let mut count = None;
    for at in (4..request.len()).step_by(2) {
        let value = request.get(at + 1).filter(|_| is(request.arg(at), "COUNT")).ok_or(Error::Syntax)?;
        // Redis uses -1 for a missing COUNT, but turns a negative one into 0.
        count = Some(usize::try_from(integer(value)?).unwrap_or_default());
    }
    let Some(stream) = keyspace.read::<Stream>(request.arg(1))? else {
        out.array(0);
        return Ok(());
    };
    match count {
        Some(0) => out.nil_array(),
        _ if reversed => write_all(stream.range_back(from, to), count.unwrap_or(usize::MAX), out),
        _ => write_all(stream.range(from, to), count.unwrap_or(usize::MAX), out),
    }
    Ok(())
}

pub(crate) fn xdel(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    if keyspace.read::<Stream>(request.arg(1))?.is_none() {
        out.integer(0);
        return Ok(());
    }
    let ids = parse_ids(request.args().skip(2))?;
    let removed = keyspace.edit(request.arg(1), |stream: &mut Stream| {
        let mut removed = 0;
        for &id in &ids {
            if stream.remove(id) {
                stream.max_deleted_id = stream.max_deleted_id.max(id);
                removed += 1;
            }
        }
        removed
    })?;
    let removed = removed.unwrap_or_default();
    if removed > 0 {
        keyspace.changed(Class::Stream, "xdel", request.arg(1));
    }
    out.integer(removed);
    Ok(())
}

/// All ids; an error if one is invalid.
pub(crate) fn parse_ids<'a>(args: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Id>, Error> {
    args.map(|arg| parse_id(arg, 0)).collect()
}

pub(crate) fn xsetid(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let id = parse_id(request.arg(2), 0)?;
    let (mut added, mut max_deleted) = (None, Id::MIN);
    for at in (3..request.len()).step_by(2) {
        let (word, value) = (request.arg(at), request.get(at + 1).ok_or(Error::Syntax)?);
        if is(word, "ENTRIESADDED") {
            added = Some(u64::try_from(integer(value)?).map_err(|_| Error::STREAM_ADDED_NEGATIVE)?);
        } else if is(word, "MAXDELETEDID") {
            max_deleted = parse_id(value, 0)?;
            if id < max_deleted {
                return Err(Error::STREAM_ID_BELOW_GIVEN);
            }
        } else {
            return Err(Error::Syntax);
        }
    }
    let set = |stream: &mut Stream| {
        if stream.len() > 0 && id < stream.last_live_id() {
            return Err(Error::STREAM_ID_BELOW_LAST);
        }
        if stream.len() > 0 && added.is_some_and(|added| added < stream.len() as u64) {
            return Err(Error::STREAM_ADDED_BELOW_LEN);
        }
        stream.last_id = id;
        stream.added = added.unwrap_or(stream.added);
        if max_deleted != Id::MIN {
            stream.max_deleted_id = max_deleted;
        }
        Ok(())
    };
    keyspace.edit(request.arg(1), set)?.ok_or(Error::NoSuchKey)??;
    keyspace.noted(Class::Stream, "xsetid", request.arg(1));
    out.simple(b"OK");
    Ok(())
}

/// The options in front of the keys of XREAD and XREADGROUP.
#[derive(Default)]
pub(crate) struct Reading<'a> {
    /// Timeout in milliseconds: 0 waits without end. Without it there is no wait.
    pub(crate) block_ms: Option<i64>,
    /// 0 for no limit.
    count: usize,
    /// Index of the first key.
    first: usize,
    pub(crate) streams: usize,
    pub(crate) group: Option<(&'a [u8], &'a [u8])>,
    pub(crate) needs_no_ack: bool,
}

impl<'a> Reading<'a> {
    pub(crate) fn parse(request: &Request<'a>, by_group: bool) -> Result<Reading<'a>, Error> {
        let (mut reading, mut at) = (Reading::default(), 1);
        while let Some(word) = request.get(at) {
            match (request.get(at + 1), request.get(at + 2)) {
                (Some(timeout), _) if is(word, "BLOCK") => {
                    reading.block_ms = Some(timeout_ms(timeout)?);
                    at += 1;
                }
                (Some(count), _) if is(word, "COUNT") => {
                    reading.count = usize::try_from(integer(count)?).unwrap_or_default();
                    at += 1;
                }
                (Some(_), _) if is(word, "STREAMS") => {
                    reading.first = at + 1;
                    break;
                }
                (Some(group), Some(consumer)) if is(word, "GROUP") => {
                    if !by_group {
                        return Err(Error::XREAD_GROUP);
                    }
                    reading.group = Some((group, consumer));
                    at += 2;
                }
                _ if is(word, "NOACK") => {
                    if !by_group {
                        return Err(Error::XREAD_NOACK);
                    }
                    reading.needs_no_ack = true;
                }
                _ => return Err(Error::Syntax),
            }
            at += 1;
        }
        if reading.first == 0 {
            return Err(Error::Syntax);
        }
        let words = request.len() - reading.first;
        if !words.is_multiple_of(2) {
            return Err(Error::XREAD_UNBALANCED);
        }
        reading.streams = words / 2;
        if by_group && reading.group.is_none() { Err(Error::XREADGROUP_NEEDS_GROUP) } else { Ok(reading) }
    }

    /// Each key with its id.
    pub(crate) fn pair<'r>(&self, request: &Request<'r>, at: usize) -> (&'r [u8], &'r [u8]) {
        let place = self.first + at;
        (request.arg(place), request.arg(place + self.streams))
    }

    /// The keys.
    pub(crate) fn keys<'r>(&self, request: &Request<'r>) -> impl Iterator<Item = &'r [u8]> {
        request.args().skip(self.first).take(self.streams)
    }

    pub(crate) fn count(&self) -> usize {
        if self.count == 0 { usize::MAX } else { self.count }
    }

    /// The count after a wait. It is limited, so that an id that was too low does not return a whole stream.
    pub(crate) fn count_after_wait(&self) -> usize {
        if self.count == 0 { COUNT_AFTER_WAIT } else { self.count }
    }
}

/// XREAD without its wait. If there is no new entry, it writes nothing and returns the ids behind which it waits.
pub(crate) fn read_new(
    keyspace: &mut Keyspace,
    reading: &Reading<'_>,
    request: &Request<'_>,
    out: &mut Reply,
) -> Result<Option<Vec<Id>>, Error> {
    let mut all_after = Vec::with_capacity(reading.streams);
    for at in 0..reading.streams {
        let (key, id) = reading.pair(request, at);
        let last = keyspace.read::<Stream>(key)?.map_or(Id::MIN, |stream| stream.last_id);
        all_after.push(match id {
            b"$" => last,
            b">" => return Err(Error::XREAD_NEWER),
            _ => parse_id(id, 0)?,
        });
    }
    let (mut body, mut len) = (out.part(), 0);
    for (at, after) in all_after.iter().enumerate() {
        let (key, _) = reading.pair(request, at);
        let Some(stream) = keyspace.read::<Stream>(key)? else { continue };
        let Some(from) = after.next().filter(|_| stream.len() > 0 && stream.last_live_id() > *after) else {
            continue;
        };
        len += 1;
        body.named();
        body.bulk(key);
        write_all(stream.range(from, Id::MAX), reading.count(), &mut body);
    }
    if len == 0 {
        return Ok(Some(all_after));
    }
    write_streams(len, &body, out);
    Ok(None)
}

/// The reply of XREAD and XREADGROUP.
pub(crate) fn write_streams(len: usize, body: &Reply, out: &mut Reply) {
    out.named_list(len);
    out.append(body);
}

/// Redis's `XREAD_BLOCKED_DEFAULT_COUNT`.
const COUNT_AFTER_WAIT: usize = 1_000;

/// Redis's `STREAM_LISTPACK_MAX_SIZE`.
const ENTRY_BYTES_MAX: usize = 1 << 30;
