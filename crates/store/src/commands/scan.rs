//! SCAN and its relatives: one page of a walk. The walk returns every element that exists throughout it.

use resp::Request;

use crate::args::{integer, is};
use crate::database::Entry;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::hash::Hash;
use crate::values::set::Set;
use crate::values::value::Kind;
use crate::values::zset::Zset;
use stdx::glob;

type Done = Result<(), Error>;

/// The arguments behind the cursor.
struct Options<'a> {
    pattern: &'a [u8],
    count: usize,
    type_name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(request: &Request<'a>, from: usize, takes_type: bool) -> Result<Options<'a>, Error> {
        let mut options = Options { pattern: b"*", count: COUNT, type_name: None };
        for at in (from..request.len()).step_by(2) {
            let (word, value) = (request.arg(at), request.get(at + 1).ok_or(Error::Syntax)?);
            if is(word, "MATCH") {
                options.pattern = value;
            } else if is(word, "COUNT") {
                let count = usize::try_from(integer(value)?).map_err(|_| Error::Syntax)?;
                options.count = if count == 0 { return Err(Error::Syntax) } else { count };
            } else if takes_type && is(word, "TYPE") {
                options.type_name = Some(value);
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }

    fn matches(&self, name: &[u8]) -> bool {
        self.pattern == b"*" || glob::matches(self.pattern, name)
    }
}

pub(crate) fn scan(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let cursor = cursor(request.arg(1))?;
    let options = Options::parse(request, 2, true)?;
    let mut page = Page::default();
    let is_wanted = |entry: &Entry| {
        let has_type = options.type_name.is_none_or(|name| is(name, entry.value.type_name()));
        has_type && options.matches(&entry.key)
    };
    let next = keyspace.scan(cursor, options.count, is_wanted, |key| page.add(key));
    page.write(next, out);
    Ok(())
}

pub(crate) fn hscan(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    scan_collection(keyspace, request, out, |hash: &Hash, cursor, options, page| {
        hash.scan(cursor, options.count, |field| {
            if options.matches(&field.name) {
                page.add(&field.name);
                page.add(&field.value);
            }
        })
    })
}

pub(crate) fn sscan(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    scan_collection(keyspace, request, out, |set: &Set, cursor, options, page| {
        set.scan(cursor, options.count, |member| {
            if options.matches(member) {
                page.add(member);
            }
        })
    })
}

pub(crate) fn zscan(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    scan_collection(keyspace, request, out, |zset: &Zset, cursor, options, page| {
        zset.scan(cursor, options.count, |scored| {
            if options.matches(&scored.member) {
                page.add(&scored.member);
                page.len += 1;
                page.items.double_text(scored.score);
            }
        })
    })
}

fn scan_collection<K: Kind>(
    keyspace: &mut Keyspace,
    request: &Request<'_>,
    out: &mut Reply,
    walk: impl FnOnce(&K, u64, &Options<'_>, &mut Page) -> u64,
) -> Done {
    let cursor = cursor(request.arg(2))?;
    let mut page = Page::default();
    let next = match keyspace.read::<K>(request.arg(1))? {
        Some(collection) => walk(collection, cursor, &Options::parse(request, 3, false)?, &mut page),
        None => 0,
    };
    page.write(next, out);
    Ok(())
}

/// The encoded items of a page. Their number is known only at the end.
#[derive(Default)]
struct Page {
    /// All items are bulks, which are the same in both protocols.
    items: Reply,
    len: usize,
}

impl Page {
    fn add(&mut self, item: &[u8]) {
        self.items.bulk(item);
        self.len += 1;
    }

    fn write(&self, cursor: u64, out: &mut Reply) {
        out.array(2);
        out.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        out.array(self.len);
        out.append(&self.items);
    }
}

/// Reads a cursor as `strtoul` does: up to a NUL, with a sign that negates the number, and no digits are a zero. Redis allows
/// no blanks in front.
fn cursor(arg: &[u8]) -> Result<u64, Error> {
    let text = arg.split(|&byte| byte == 0).next().unwrap_or_default();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    let add = |sum: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    let is_nothing = digits.is_empty() && !text.is_empty();
    let number = if is_nothing { None } else { digits.iter().try_fold(0, add) };
    let number = number.ok_or(Error::InvalidCursor)?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// Entries in a page without COUNT.
pub(crate) const COUNT: usize = 10;
