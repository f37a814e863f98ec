//! Commands about when keys expire.

use resp::Request;

use crate::args::{integer, is, shown};
use crate::audience::Class;
use crate::database::NEVER;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;

type Done = Result<(), Error>;

/// Unit of an expiry, and whether it is relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Seconds,
    Millis,
    /// Unix time in seconds.
    AtSeconds,
    /// Unix time in milliseconds.
    AtMillis,
}

impl Span {
    /// The option of SET and GETEX.
    pub(crate) fn parse(word: &[u8]) -> Option<Span> {
        let words = [
            ("EX", Span::Seconds),
            ("PX", Span::Millis),
            ("EXAT", Span::AtSeconds),
            ("PXAT", Span::AtMillis),
        ];
        words.into_iter().find(|(name, _)| is(word, name)).map(|(_, span)| span)
    }

    /// Unix time in milliseconds; `None` if it does not fit.
    fn to_unix_ms(self, number: i64, now_ms: u64) -> Option<i64> {
        let is_seconds = matches!(self, Span::Seconds | Span::AtSeconds);
        let millis = if is_seconds { number.checked_mul(1_000)? } else { number };
        let is_relative = matches!(self, Span::Seconds | Span::Millis);
        if is_relative { millis.checked_add(i64::try_from(now_ms).ok()?) } else { Some(millis) }
    }
}

/// The expiry of SET and its relatives, which must be positive.
pub(crate) fn expiry_at(span: Span, arg: &[u8], now_ms: u64, name: &'static str) -> Result<u64, Error> {
    let number = integer(arg)?;
    let at = (number > 0).then(|| span.to_unix_ms(number, now_ms)).flatten();
    at.and_then(|at| u64::try_from(at).ok()).ok_or(Error::ExpireTime(name))
}

pub(crate) fn expire(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    change(keyspace, request, Span::Seconds, "expire", out)
}

pub(crate) fn pexpire(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    change(keyspace, request, Span::Millis, "pexpire", out)
}

pub(crate) fn expireat(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    change(keyspace, request, Span::AtSeconds, "expireat", out)
}

pub(crate) fn pexpireat(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    change(keyspace, request, Span::AtMillis, "pexpireat", out)
}

/// Condition under which EXPIRE changes anything.
#[derive(Default)]
struct Condition {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Condition {
    fn parse(request: &Request<'_>) -> Result<Condition, Error> {
        let mut condition = Condition::default();
        for word in request.args().skip(3) {
            let flag = match word {
                _ if is(word, "NX") => &mut condition.if_none,
                _ if is(word, "XX") => &mut condition.if_any,
                _ if is(word, "GT") => &mut condition.if_later,
                _ if is(word, "LT") => &mut condition.if_earlier,
                _ => return Err(Error::UnsupportedOption(shown(word))),
            };
            *flag = true;
        }
        if condition.if_none && (condition.if_any || condition.if_later || condition.if_earlier) {
            return Err(Error::ExpireNxAndOthers);
        }
        if condition.if_later && condition.if_earlier {
            return Err(Error::ExpireGtAndLt);
        }
        Ok(condition)
    }

    /// A key without expiry counts as one that expires later than any other.
    fn holds(&self, old: u64, new: i64) -> bool {
        let is_later = old != NEVER && new > i64::try_from(old).unwrap_or(i64::MAX);
        let is_earlier = old == NEVER || new < i64::try_from(old).unwrap_or(i64::MAX);
        let (stays, expires) = (old == NEVER, old != NEVER);
        (!self.if_none || stays)
            && (!self.if_any || expires)
            && (!self.if_later || is_later)
            && (!self.if_earlier || is_earlier)
    }
}

fn change(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    span: Span,
    name: &'static str,
    out: &mut Reply,
) -> Done {
    let key = request.arg(1);
    let condition = Condition::parse(request)?;
    let new = span.to_unix_ms(integer(request.arg(2))?, keyspace.now_ms).ok_or(Error::ExpireTime(name))?;
    let old = keyspace.find(key).map(|entry| entry.expires_at);
    let changes = old.is_some_and(|old| condition.holds(old, new));
    if changes {
        match u64::try_from(new) {
            Ok(at) if at > keyspace.now_ms => {
                keyspace.set_expiry(key, at);
                keyspace.changed(Class::Generic, "expire", key);
            }
            _ => {
                keyspace.remove(key);
                keyspace.changed(Class::Generic, "del", key);
            }
        }
    }
    out.integer(i64::from(changes));
    Ok(())
}

pub(crate) fn ttl(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let now_ms = keyspace.now_ms;
    show(keyspace, request, |at| (at.saturating_sub(now_ms) + 500) / 1_000, out)
}

pub(crate) fn pttl(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let now_ms = keyspace.now_ms;
    show(keyspace, request, |at| at.saturating_sub(now_ms), out)
}

pub(crate) fn expiretime(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, |at| (at + 500) / 1_000, out)
}

pub(crate) fn pexpiretime(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    show(keyspace, request, |at| at, out)
}

fn show(keyspace: &mut Keyspace, request: &Request<'_>, shape: impl Fn(u64) -> u64, out: &mut Reply) -> Done {
    let shown = match keyspace.find(request.arg(1)).map(|entry| entry.expires_at) {
        None => -2,
        Some(NEVER) => -1,
        Some(at) => i64::try_from(shape(at)).unwrap_or(i64::MAX),
    };
    out.integer(shown);
    Ok(())
}

pub(crate) fn persist(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    out.integer(i64::from(remove(keyspace, request.arg(1))));
    Ok(())
}

/// Removes the expiry of `key`. Returns false if it has none or does not exist.
pub(crate) fn remove(keyspace: &mut Keyspace, key: &[u8]) -> bool {
    // GETEX has counted its look-up already.
    keyspace.stats.count(false);
    let expires = keyspace.find(key).is_some_and(|entry| entry.expires_at != NEVER);
    if expires {
        keyspace.set_expiry(key, NEVER);
        keyspace.changed(Class::Generic, "persist", key);
    }
    expires
}
