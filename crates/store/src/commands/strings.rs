//! Commands on strings.

use resp::Request;
use resp::integer::parse_i64;

use crate::args::{float_text, integer, is};
use crate::audience::Class;
use crate::commands::expiry::{self, Span, expiry_at};
use crate::database::NEVER;
use crate::error::Error;
use crate::formats::extended::Extended;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::text::{self, TEXT_BYTES_MAX, grow};
use crate::values::value::Value;

type Done = Result<(), Error>;
type Text = Vec<u8>;

pub(crate) fn get(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    write_text(keyspace.read::<Text>(request.arg(1))?, out);
    Ok(())
}

/// The options of SET and GETEX.
#[derive(Default)]
struct Options<'a> {
    condition: Condition,
    /// GET: the reply is the old value.
    reads: bool,
    expiry: Expiry<'a>,
}

/// The condition of a SET.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    None,
    /// NX.
    IfAbsent,
    /// XX.
    IfPresent,
}

/// The words on the expiry of a key.
#[derive(Clone, Copy, Default)]
enum Expiry<'a> {
    #[default]
    Unsaid,
    /// KEEPTTL.
    Kept,
    /// PERSIST.
    Removed,
    /// EX and its like, with their number.
    At(Span, &'a [u8]),
}

impl Condition {
    fn is_met(self, exists: bool) -> bool {
        match self {
            Condition::None => true,
            Condition::IfAbsent => !exists,
            Condition::IfPresent => exists,
        }
    }
}

impl Expiry<'_> {
    /// The instant at which the key of `command` expires, if one was given.
    fn at_ms(self, now_ms: u64, command: &'static str) -> Result<Option<u64>, Error> {
        match self {
            Expiry::At(span, number) => expiry_at(span, number, now_ms, command).map(Some),
            Expiry::Removed => Ok(Some(NEVER)),
            Expiry::Unsaid | Expiry::Kept => Ok(None),
        }
    }
}

impl<'a> Options<'a> {
    fn parse(request: &Request<'a>, from: usize, is_set: bool) -> Result<Options<'a>, Error> {
        let mut options = Options::default();
        let mut at = from;
        while let Some(word) = request.get(at) {
            at += 1;
            if is_set && is(word, "NX") && options.condition != Condition::IfPresent {
                options.condition = Condition::IfAbsent;
            } else if is_set && is(word, "XX") && options.condition != Condition::IfAbsent {
                options.condition = Condition::IfPresent;
            } else if is_set && is(word, "GET") {
                options.reads = true;
            } else if is_set && is(word, "KEEPTTL") && matches!(options.expiry, Expiry::Unsaid | Expiry::Kept)
            {
                options.expiry = Expiry::Kept;
            } else if !is_set
                && is(word, "PERSIST")
                && matches!(options.expiry, Expiry::Unsaid | Expiry::Removed)
            {
                options.expiry = Expiry::Removed;
            } else {
                let span = Span::parse(word).ok_or(Error::Syntax)?;
                match options.expiry {
                    Expiry::Unsaid => {}
                    Expiry::At(earlier, _) if earlier == span => {}
                    _ => return Err(Error::Syntax),
                }
                options.expiry = Expiry::At(span, request.get(at).ok_or(Error::Syntax)?);
                at += 1;
            }
        }
        Ok(options)
    }
}

pub(crate) fn set(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (key, value) = (request.arg(1), request.arg(2));
    if request.len() == 3 {
        set_text(keyspace, key, value);
        out.simple(b"OK");
        return Ok(());
    }
    let options = Options::parse(request, 3, true)?;
    let expires_at = options.expiry.at_ms(keyspace.now_ms, "set")?;
    if options.reads {
        keyspace.stats.count(true);
        write_text(keyspace.read::<Text>(key)?, out);
        keyspace.stats.count(false);
    }
    let old_expiry = keyspace.find(key).map(|entry| entry.expires_at);
    if !options.condition.is_met(old_expiry.is_some()) {
        if !options.reads {
            out.nil();
        }
        return Ok(());
    }
    let kept = old_expiry.filter(|_| matches!(options.expiry, Expiry::Kept));
    keyspace.set(key, Value::Text(value.to_vec()), expires_at.or(kept).unwrap_or(NEVER));
    keyspace.changed(Class::Text, "set", key);
    if expires_at.is_some() {
        keyspace.changed(Class::Generic, "expire", key);
    }
    if !options.reads {
        out.simple(b"OK");
    }
    Ok(())
}

/// Stores a text without expiry.
#[inline]
fn set_text(keyspace: &mut Keyspace, key: &[u8], text: &[u8]) {
    keyspace.set(key, Value::Text(text.to_vec()), NEVER);
    keyspace.changed(Class::Text, "set", key);
}

pub(crate) fn setnx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let is_new = keyspace.find(request.arg(1)).is_none();
    if is_new {
        set_text(keyspace, request.arg(1), request.arg(2));
    }
    out.integer(i64::from(is_new));
    Ok(())
}

pub(crate) fn setex(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    set_for(keyspace, request, Span::Seconds, "setex", out)
}

pub(crate) fn psetex(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    set_for(keyspace, request, Span::Millis, "psetex", out)
}

fn set_for(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    span: Span,
    name: &'static str,
    out: &mut Reply,
) -> Done {
    let expires_at = expiry_at(span, request.arg(2), keyspace.now_ms, name)?;
    keyspace.set(request.arg(1), Value::Text(request.arg(3).to_vec()), expires_at);
    keyspace.changed(Class::Text, "set", request.arg(1));
    keyspace.changed(Class::Generic, "expire", request.arg(1));
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn getset(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    write_text(keyspace.read::<Text>(request.arg(1))?, out);
    set_text(keyspace, request.arg(1), request.arg(2));
    Ok(())
}

pub(crate) fn getdel(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    write_text(keyspace.read::<Text>(request.arg(1))?, out);
    if keyspace.remove(request.arg(1)) {
        keyspace.changed(Class::Generic, "del", request.arg(1));
    }
    Ok(())
}

pub(crate) fn getex(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let options = Options::parse(request, 2, false)?;
    let now_ms = keyspace.now_ms;
    let key = request.arg(1);
    let Some(text) = keyspace.read::<Text>(key)? else {
        out.nil();
        return Ok(());
    };
    let expires_at = options.expiry.at_ms(now_ms, "getex")?;
    out.bulk(text);
    match expires_at {
        Some(at) if at <= now_ms => {
            keyspace.remove(key);
            keyspace.changed(Class::Generic, "del", key);
        }
        Some(NEVER) => _ = expiry::remove(keyspace, key),
        Some(at) => {
            keyspace.set_expiry(key, at);
            keyspace.changed(Class::Generic, "expire", key);
        }
        None => {}
    }
    Ok(())
}

pub(crate) fn mget(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.array(request.len() - 1);
    for key in request.args().skip(1) {
        // A key of another type counts as nil.
        write_text(keyspace.read::<Text>(key).unwrap_or_default(), out);
    }
    Ok(())
}

pub(crate) fn mset(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    set_pairs(keyspace, request, "mset")?;
    out.simple(b"OK");
    Ok(())
}

pub(crate) fn msetnx(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    if request.len().is_multiple_of(2) {
        return Err(Error::Arity("msetnx".to_owned()));
    }
    let any_exists = (1..request.len()).step_by(2).any(|at| keyspace.find(request.arg(at)).is_some());
    if !any_exists {
        set_pairs(keyspace, request, "msetnx")?;
    }
    out.integer(i64::from(!any_exists));
    Ok(())
}

fn set_pairs(keyspace: &mut Keyspace, request: &Request<'_>, name: &str) -> Done {
    if request.len().is_multiple_of(2) {
        return Err(Error::Arity(name.to_owned()));
    }
    for at in (1..request.len()).step_by(2) {
        set_text(keyspace, request.arg(at), request.arg(at + 1));
    }
    Ok(())
}

pub(crate) fn append(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let tail = request.arg(2);
    let len = keyspace.read::<Text>(request.arg(1))?.map_or(0, Vec::len);
    check_len(len.saturating_add(tail.len()))?;
    let len = keyspace.edit_or_create(request.arg(1), |text: &mut Text| {
        text::append(text, tail);
        text.len()
    })?;
    keyspace.changed(Class::Text, "append", request.arg(1));
    out.integer(len as i64);
    Ok(())
}

pub(crate) fn strlen(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(keyspace.read::<Text>(request.arg(1))?.map_or(0, Vec::len) as i64);
    Ok(())
}

pub(crate) fn getrange(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (start, end) = (integer(request.arg(2))?, integer(request.arg(3))?);
    let text = keyspace.read::<Text>(request.arg(1))?.map_or(&[][..], Vec::as_slice);
    let (from, to) = byte_range(start, end, text.len()).unwrap_or_default();
    out.bulk(&text[from..to]);
    Ok(())
}

pub(crate) fn setrange(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (key, part) = (request.arg(1), request.arg(3));
    let offset = usize::try_from(integer(request.arg(2))?).map_err(|_| Error::OffsetOutOfRange)?;
    let len = keyspace.read::<Text>(key)?.map_or(0, Vec::len);
    if part.is_empty() {
        out.integer(len as i64);
        return Ok(());
    }
    let end = offset.saturating_add(part.len());
    check_len(end)?;
    if end > keyspace.memory_max {
        return Err(Error::OutOfMemory);
    }
    let len = keyspace.edit_or_create(key, |text: &mut Text| {
        grow(text, end);
        text[offset..end].copy_from_slice(part);
        text.len()
    })?;
    keyspace.changed(Class::Text, "setrange", key);
    out.integer(len as i64);
    Ok(())
}

pub(crate) fn incr(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    add(keyspace, request.arg(1), 1, out)
}

pub(crate) fn decr(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    add(keyspace, request.arg(1), -1, out)
}

pub(crate) fn incrby(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    add(keyspace, request.arg(1), integer(request.arg(2))?, out)
}

pub(crate) fn decrby(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let decrement = integer(request.arg(2))?;
    add(keyspace, request.arg(1), decrement.checked_neg().ok_or(Error::DecrementOverflow)?, out)
}

fn add(keyspace: &mut Keyspace, key: &[u8], increment: i64, out: &mut Reply) -> Done {
    let sum = |old: i64| old.checked_add(increment).ok_or(Error::Overflow);
    let changed = keyspace.edit(key, |text: &mut Text| {
        let value = sum(parse_i64(text).ok_or(Error::NotInteger)?)?;
        text.clear();
        text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        Ok(value)
    })?;
    let value = match changed {
        Some(value) => value?,
        None => {
            keyspace.set(key, Value::Text(increment.to_string().into_bytes()), NEVER);
            increment
        }
    };
    keyspace.changed(Class::Text, "incrby", key);
    out.integer(value);
    Ok(())
}

pub(crate) fn incrbyfloat(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (old, expires_at) = match keyspace.find(request.arg(1)) {
        None => (Extended::default(), NEVER),
        Some(entry) => match &entry.value {
            Value::Text(text) => (float_text(text)?, entry.expires_at),
            _ => return Err(Error::WrongType),
        },
    };
    let sum = old.plus(float_text(request.arg(2))?).ok_or(Error::NotANumber)?.to_string().into_bytes();
    out.bulk(&sum);
    keyspace.set(request.arg(1), Value::Text(sum), expires_at);
    keyspace.changed(Class::Text, "incrbyfloat", request.arg(1));
    Ok(())
}

fn write_text(text: Option<&Text>, out: &mut Reply) {
    match text {
        Some(text) => out.bulk(text),
        None => out.nil(),
    }
}

/// The bytes from `start` to `end`, by the rules of strings: an end before the first byte means the first byte.
pub(crate) fn byte_range(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    if start < 0 && end < 0 && start > end { None } else { clamped_range(start, end, len) }
}

/// As [`byte_range`], but bounds in the wrong order may meet at the first byte. Only BITPOS needs this.
pub(crate) fn clamped_range(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    let len = i64::try_from(len).ok()?;
    let clamp = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (clamp(start), clamp(end).min(len - 1));
    (start <= end && len > 0).then(|| (start as usize, end as usize + 1))
}

fn check_len(len: usize) -> Done {
    if len > TEXT_BYTES_MAX { Err(Error::StringTooLong) } else { Ok(()) }
}
