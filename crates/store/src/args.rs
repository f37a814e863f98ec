//! Reading arguments: numbers, option words, ranges.

use resp::Request;
use resp::integer::parse_i64;

use crate::error::Error;
use crate::formats::double;
use crate::formats::extended::Extended;

/// Whether `arg` is this option; case is ignored.
pub(crate) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

pub(crate) fn integer(arg: &[u8]) -> Result<i64, Error> {
    parse_i64(arg).ok_or(Error::NotInteger)
}

/// A number whose sign can be inverted: a rank or a count of which the sign selects a direction.
pub(crate) fn signed_count(arg: &[u8]) -> Result<i64, Error> {
    let count = integer(arg)?;
    if count == i64::MIN { Err(Error::NotNegatable) } else { Ok(count) }
}

/// A count that must not be negative, in Redis's words for LPOP, SPOP and ZPOPMIN.
pub(crate) fn positive(arg: &[u8]) -> Result<usize, Error> {
    parse_i64(arg).and_then(|count| usize::try_from(count).ok()).ok_or(Error::NotPositive)
}

/// A wait in milliseconds; 0 waits without end.
pub(crate) fn timeout_ms(arg: &[u8]) -> Result<i64, Error> {
    let timeout = parse_i64(arg).ok_or(Error::TIMEOUT)?;
    if timeout < 0 { Err(Error::TIMEOUT_NEGATIVE) } else { Ok(timeout) }
}

pub(crate) fn float(arg: &[u8]) -> Result<f64, Error> {
    double::parse(arg).ok_or(Error::NotFloat)
}

/// A number for INCRBYFLOAT.
pub(crate) fn float_text(arg: &[u8]) -> Result<Extended, Error> {
    Extended::parse(arg).ok_or(Error::NotFloat)
}

/// The elements from `start` to `stop` (inclusive, negative from the end) of `len`, as a half-open range; `None` if
/// there are none.
pub(crate) fn range(start: i64, stop: i64, len: usize) -> Option<(usize, usize)> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    // A stop before the first element stays before it.
    let stop = if stop < 0 { stop.saturating_add(len) } else { stop.min(len - 1) };
    let start = from_end(start);
    (start <= stop && start < len).then(|| (start as usize, stop as usize + 1))
}

/// Index `index` (negative from the end) of `len`, if there is one.
pub(crate) fn index(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let index = if index < 0 { index.checked_add(len)? } else { index };
    usize::try_from(index).ok().filter(|_| index < len)
}

/// The arguments of LMPOP and ZMPOP: keys, of which the first that exists is used, an end, and a count.
pub(crate) struct Multipop {
    first: usize,
    keys: usize,
    /// Whether the request named the second of the two ends.
    pub(crate) from_second: bool,
    pub(crate) count: usize,
}

impl Multipop {
    /// `at` is the index of the number of keys.
    pub(crate) fn parse(request: &Request<'_>, at: usize, ends: [&str; 2]) -> Result<Multipop, Error> {
        let natural = |arg, error| {
            let number = parse_i64(arg).and_then(|number| usize::try_from(number).ok());
            number.filter(|&number| number > 0).ok_or(error)
        };
        let keys = natural(request.arg(at), Error::Numkeys)?;
        let end_at = keys.saturating_add(at + 1);
        let end = request.get(end_at).ok_or(Error::Syntax)?;
        let end = ends.iter().position(|name| is(end, name)).ok_or(Error::Syntax)?;
        let count = match (request.get(end_at + 1), request.get(end_at + 2)) {
            (None, _) => 1,
            (Some(word), Some(count)) if is(word, "COUNT") => natural(count, Error::COUNT_POSITIVE)?,
            _ => return Err(Error::Syntax),
        };
        if request.len() > end_at + 3 {
            return Err(Error::Syntax);
        }
        Ok(Multipop { first: at + 1, keys, from_second: end == 1, count })
    }

    pub(crate) fn keys<'a>(&self, request: &Request<'a>) -> impl Iterator<Item = &'a [u8]> {
        request.args().skip(self.first).take(self.keys)
    }
}

/// Bytes as text for an error: up to the first NUL, as Redis shows them, and at most 128 of them.
pub(crate) fn shown(arg: &[u8]) -> String {
    let arg = arg.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(&arg[..arg.len().min(SHOWN_BYTES_MAX)]).into_owned()
}

/// Bytes that Redis shows of an unknown command or subcommand.
const SHOWN_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_from_both_ends() {
        assert_eq!(range(0, -1, 3), Some((0, 3)));
        assert_eq!(range(-2, -1, 3), Some((1, 3)));
        assert_eq!(range(-100, 100, 3), Some((0, 3)));
        assert_eq!(range(2, 1, 3), None);
        assert_eq!(range(0, -4, 3), None);
        assert_eq!(range(3, 5, 3), None);
        assert_eq!(range(0, -1, 0), None);
        assert_eq!(range(i64::MIN, i64::MAX, 2), Some((0, 2)));
        assert_eq!((index(-1, 3), index(3, 3), index(-4, 3)), (Some(2), None, None));
    }
}
