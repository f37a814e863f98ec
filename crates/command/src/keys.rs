//! Where the keys are in the arguments of a request.
//!
//! One way for all commands, those of the table and those learnt from a node: the key specs of Redis 7.0. They are evaluated as
//! Redis's own `getKeysUsingKeySpecs` (db.c) does it. Some specs are incomplete, and Redis falls back on code. That code is
//! here too ([`ByHand`]).
//!
//! Keywords are compared as Redis does it: as C strings, without case and up to the first NUL byte. Another comparison would
//! find other keys than the node does.

use std::borrow::Cow;

use resp::Request;
use resp::integer::parse_i64;

use crate::sets::KeyFlags;

/// The longest keyword that a key spec can have; Redis's longest is `STOREDIST`.
const KEYWORD_BYTES_MAX: usize = 16;

/// One rule that finds some of a command's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Where to begin.
    pub begin: Begin,
    /// Which arguments from there on are keys.
    pub find: Find,
    /// Effect of the command on the keys.
    pub flags: KeyFlags,
    /// Redis's remark on this spec, shown by `COMMAND INFO`.
    pub note: Option<&'static str>,
}

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument; 0 is the command's name.
    Index(usize),
    /// Behind the first argument that is this word. The search starts at `from` and goes up, or, if that is negative,
    /// counts from the end and goes down. No such argument, no keys.
    Keyword {
        /// The word.
        word: Keyword,
        /// Where the search starts.
        from: i32,
    },
    /// A spec cannot tell.
    Unknown,
}

/// Which arguments are keys, counted from where the spec begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`th argument up to `last`.
    Range {
        /// The last one: relative to the first if not negative, from the end of the arguments if negative.
        last: i32,
        /// Distance between keys, at least 1.
        step: usize,
        /// With `last` -1: only the first 1/`limit` of the remaining arguments; 0 and 1 stand for all.
        limit: usize,
    },
    /// As many as an argument says.
    Num {
        /// Where the number is.
        at: usize,
        /// Where the first key is.
        first: usize,
        /// Distance between keys, at least 1.
        step: usize,
    },
    /// A spec cannot tell.
    Unknown,
}

/// A word in the arguments behind which keys stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyword {
    bytes: [u8; KEYWORD_BYTES_MAX],
    len: usize,
}

impl Keyword {
    /// `None` if the word is empty or longer than 16 bytes.
    pub const fn new(word: &[u8]) -> Option<Keyword> {
        if word.is_empty() || word.len() > KEYWORD_BYTES_MAX {
            return None;
        }
        let mut bytes = [0; KEYWORD_BYTES_MAX];
        bytes.split_at_mut(word.len()).0.copy_from_slice(word);
        Some(Keyword { bytes, len: word.len() })
    }

    /// The word as Redis writes it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Commands whose specs are incomplete, so that Redis finds their keys in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByHand {
    /// SORT: the key, and the argument behind the last STORE.
    Sort,
    /// SORT_RO: the key.
    SortRo,
    /// MIGRATE: the key, or all behind KEYS.
    Migrate,
    /// SET: the spec finds the key; the GET option decides whether it is read too.
    SetFlags,
    /// BITFIELD: the spec finds the key; its operations decide whether it is written.
    BitfieldFlags,
}

/// The arguments do not fit the key specs. Redis answers such a request with an error, so any shard can take it and will name
/// the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysError;

/// Rules that find the keys of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Redis's specs, in Redis's order.
    pub specs: Cow<'static, [KeySpec]>,
    /// Keys that the specs do not cover.
    pub by_hand: Option<ByHand>,
    /// The only key, if it always stands at one place.
    single: Option<usize>,
}

/// The arguments from one on: those of a request, or of the one that `COMMAND GETKEYS` asks about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    request: Request<'a>,
    skipped: usize,
}

impl Keys {
    /// `arity` is the command's: a place is certain only where the arity guarantees the argument.
    pub(crate) const fn new(specs: Cow<'static, [KeySpec]>, arity: i32) -> Keys {
        let single = match &specs {
            Cow::Borrowed(specs) => single(specs, arity),
            Cow::Owned(specs) => single(specs.as_slice(), arity),
        };
        Keys { specs, by_hand: None, single }
    }

    /// The place of the only key, if it is the same in all requests of the command.
    #[inline]
    pub fn single(&self) -> Option<usize> {
        self.single
    }

    /// Whether a request of this command can name keys.
    pub fn has_any(&self) -> bool {
        self.specs.iter().any(|spec| !spec.flags.contains(KeyFlags::NOT_KEY))
    }

    /// Calls `found` with the place and the flags of each key, in the order of the specs. Before an error it may have been
    /// called.
    pub(crate) fn visit(
        &self,
        args: &Args<'_>,
        found: &mut impl FnMut(usize, KeyFlags),
    ) -> Result<(), KeysError> {
        match self.by_hand {
            Some(ByHand::Sort) => visit_sort(args, found),
            Some(ByHand::SortRo) => found(1, READ),
            Some(ByHand::Migrate) => visit_migrate(args, found),
            Some(ByHand::SetFlags) => found(1, set_flags(args)),
            Some(ByHand::BitfieldFlags) => found(1, bitfield_flags(args)),
            None => return self.visit_specs(args, found),
        }
        Ok(())
    }

    fn visit_specs(&self, args: &Args<'_>, found: &mut impl FnMut(usize, KeyFlags)) -> Result<(), KeysError> {
        for spec in self.specs.iter() {
            if spec.flags.contains(KeyFlags::NOT_KEY) {
                continue;
            }
            let Some(first) = spec.begin.first(args)? else { continue };
            let Some((first, last, step)) = spec.find.range(first, args)? else { continue };
            for at in (first..=last).step_by(step.max(1)) {
                found(at, spec.flags);
            }
            if spec.flags.contains(KeyFlags::INCOMPLETE) {
                return Err(KeysError);
            }
        }
        Ok(())
    }
}

/// The place of the only key that `specs` find, if the arity guarantees it.
const fn single(specs: &[KeySpec], arity: i32) -> Option<usize> {
    let [spec] = specs else { return None };
    let (Begin::Index(at), Find::Range { last: 0, .. }) = (spec.begin, spec.find) else { return None };
    let is_whole = !spec.flags.intersects(KeyFlags::NOT_KEY.and(KeyFlags::INCOMPLETE));
    if is_whole && at < arity.unsigned_abs() as usize { Some(at) } else { None }
}

impl Begin {
    /// The first argument of the search; `None` if the keyword is missing.
    fn first(&self, args: &Args<'_>) -> Result<Option<usize>, KeysError> {
        match *self {
            Begin::Index(at) => Ok(Some(at)),
            Begin::Keyword { word, from } => Ok(behind_keyword(word.as_bytes(), from, args)),
            Begin::Unknown => Err(KeysError),
        }
    }
}

/// The position behind `word`. As in Redis, the search upwards leaves out the last argument, which has none behind it. The
/// search downwards leaves out the first.
fn behind_keyword(word: &[u8], from: i32, args: &Args<'_>) -> Option<usize> {
    let is_word = |at: &usize| is_word(args.arg(*at), word);
    let distance = usize::try_from(from.unsigned_abs()).ok()?;
    let at = match from {
        1.. => (distance..args.len().saturating_sub(1)).find(is_word),
        _ => (2..=args.len().checked_sub(distance)?.min(args.len() - 1)).rev().find(is_word),
    };
    at.map(|at| at + 1)
}

impl Find {
    /// First and last key and the distance between keys. All of them are arguments that exist.
    fn range(&self, first: usize, args: &Args<'_>) -> Result<Option<(usize, usize, usize)>, KeysError> {
        let (first, last, step) = match *self {
            // All the rest, and there is no rest: `PFMERGE key`. Redis's specs call it an error, its cluster does not.
            Find::Range { last: ..0, .. } if first == args.len() => return Ok(None),
            Find::Range { last, step, limit } => (first, last_of_range(first, last, limit, args), step),
            Find::Num { at, first: offset, step } => {
                let number = args.get(first.saturating_add(at)).and_then(parse_i64).ok_or(KeysError)?;
                let keys = usize::try_from(number).map_err(|_| KeysError)?;
                let first = first.saturating_add(offset);
                // As in Redis, the number and not the step says where the last one is.
                (first, first.saturating_add(keys).checked_sub(1), step)
            }
            Find::Unknown => return Err(KeysError),
        };
        match last {
            Some(last) if first <= last && last < args.len() => Ok(Some((first, last, step))),
            _ => Err(KeysError),
        }
    }
}

/// The last key of a range.
fn last_of_range(first: usize, last: i32, limit: usize, args: &Args<'_>) -> Option<usize> {
    let offset = isize::try_from(last).ok()?;
    match last {
        0.. => first.checked_add_signed(offset),
        _ if limit == 0 => args.len().checked_add_signed(offset),
        _ => first.checked_add(args.len().checked_sub(first)? / limit)?.checked_add_signed(offset),
    }
}

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const READ_AND_UPDATE: KeyFlags = KeyFlags::of("RW access update");

/// The key, and the argument behind the last STORE. An argument of another option is no STORE.
fn visit_sort(args: &Args<'_>, found: &mut impl FnMut(usize, KeyFlags)) {
    let mut store = None;
    let mut at = 2;
    while at < args.len() {
        let word = args.arg(at);
        if is_word(word, b"limit") {
            at += 2;
        } else if is_word(word, b"get") || is_word(word, b"by") {
            at += 1;
        } else if is_word(word, b"store") && at + 1 < args.len() {
            store = Some(at + 1);
        }
        at += 1;
    }
    found(1, READ);
    if let Some(at) = store {
        found(at, KeyFlags::OW.and(KeyFlags::UPDATE));
    }
}

/// The key at its place, or all keys behind KEYS; both is an error without keys. Redis uses this only if its specs see a KEYS
/// that is not the last argument.
fn visit_migrate(args: &Args<'_>, found: &mut impl FnMut(usize, KeyFlags)) {
    const FLAGS: KeyFlags = KeyFlags::of("RW access delete");
    let mut at = if behind_keyword(b"keys", -2, args).is_some() { 6 } else { args.len() };
    while at < args.len() {
        let word = args.arg(at);
        at += match () {
            () if is_word(word, b"keys") && args.arg(3).is_empty() => {
                return (at + 1..args.len()).for_each(|at| found(at, FLAGS));
            }
            () if is_word(word, b"keys") => return,
            () if is_word(word, b"auth") => 2,
            () if is_word(word, b"auth2") => 3,
            () => 1,
        };
    }
    found(3, FLAGS);
}

/// SET reads the old value if GET is among its options.
fn set_flags(args: &Args<'_>) -> KeyFlags {
    match (3..args.len()).any(|at| is_word(args.arg(at), b"get")) {
        true => READ_AND_UPDATE,
        false => KeyFlags::OW.and(KeyFlags::UPDATE),
    }
}

/// BITFIELD writes nothing if it does nothing but GET.
fn bitfield_flags(args: &Args<'_>) -> KeyFlags {
    let mut at = 2;
    while at < args.len() {
        let behind = args.len() - at - 1;
        let word = args.arg(at);
        at += match () {
            () if is_word(word, b"get") && behind >= 2 => 3,
            () if is_word(word, b"overflow") && behind >= 1 => 2,
            () => return READ_AND_UPDATE,
        };
    }
    READ
}

/// Whether Redis takes `arg` for `word`.
pub fn is_word(arg: &[u8], word: &[u8]) -> bool {
    // Nearly always decided by the first byte.
    match (arg.first(), word.first()) {
        (Some(left), Some(right)) if left.eq_ignore_ascii_case(right) => {
            let end = arg.iter().position(|&byte| byte == 0).unwrap_or(arg.len());
            arg[..end].eq_ignore_ascii_case(word)
        }
        _ => false,
    }
}

impl<'a> Args<'a> {
    /// The arguments behind the first `skipped`.
    pub(crate) fn behind(request: &Request<'a>, skipped: usize) -> Args<'a> {
        Args { request: *request, skipped: skipped.min(request.len()) }
    }

    /// Number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.request.len() - self.skipped
    }

    /// Argument `at`. Panics past the end.
    pub(crate) fn arg(&self, at: usize) -> &'a [u8] {
        self.request.arg(self.skipped + at)
    }

    /// Argument `at`, if there is one.
    pub(crate) fn get(&self, at: usize) -> Option<&'a [u8]> {
        self.request.get(self.skipped.saturating_add(at))
    }
}

impl<'a> From<&Request<'a>> for Args<'a> {
    fn from(request: &Request<'a>) -> Args<'a> {
        Args { request: *request, skipped: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;

    /// Possible values of a hostile or broken node, and ordinary ones.
    const NUMBERS: [i32; 9] = [i32::MIN, -7, -2, -1, 0, 1, 2, 7, i32::MAX];

    fn keys_of(spec: KeySpec, line: &str) -> Result<Vec<usize>, KeysError> {
        let mut found = Vec::new();
        let keys = Keys::new(Cow::Owned(vec![spec]), -1);
        with_request(line, |request| keys.visit(&Args::from(request), &mut |at, _| found.push(at)))?;
        Ok(found)
    }

    #[test]
    fn no_spec_exceeds_the_arguments_or_takes_long() {
        let keyword = Keyword::new(b"KEYS").expect("short");
        let places = NUMBERS.map(|number| number.unsigned_abs() as usize);
        let begins = NUMBERS.map(|from| Begin::Keyword { word: keyword, from }).into_iter();
        for begin in begins.chain(places.map(Begin::Index)) {
            let ranges = NUMBERS.iter().flat_map(|&last| {
                places.map(|number| Find::Range { last, step: number.max(1), limit: number })
            });
            let counts =
                places.iter().flat_map(|&at| places.map(|first| Find::Num { at, first, step: first }));
            for find in ranges.chain(counts) {
                let spec = KeySpec { begin, find, flags: KeyFlags::default(), note: None };
                for line in ["X", "X KEYS", "X KEYS 2 a b", "X a KEYS 9223372036854775807 b KEYS c -1"] {
                    let found = keys_of(spec, line).unwrap_or_default();
                    let len = line.split(' ').count();
                    assert!(
                        found.len() <= len && found.iter().all(|&at| at < len),
                        "{spec:?} in {line}: {found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn keywords_are_c_strings_without_case() {
        assert!(is_word(b"StoRe", b"store") && is_word(b"STORE\0x", b"store"));
        assert!(
            !is_word(b"stor", b"store") && !is_word(b"stores", b"store") && !is_word(b"\0store", b"store")
        );
        assert!(!is_word(b"", b"store"));
        assert_eq!(Keyword::new(b""), None);
        assert_eq!(Keyword::new(&[b'A'; 17]), None);
    }

    #[test]
    fn a_keyword_is_looked_for_from_either_end() {
        let word = Keyword::new(b"KEYS").expect("short");
        let find = Find::Range { last: -1, step: 1, limit: 0 };
        let keys = |from| KeySpec {
            begin: Begin::Keyword { word, from },
            find,
            flags: KeyFlags::default(),
            note: None,
        };
        assert_eq!(keys_of(keys(1), "X KEYS a KEYS b"), Ok(vec![2, 3, 4]));
        assert_eq!(keys_of(keys(2), "X KEYS a KEYS b"), Ok(vec![4]));
        assert_eq!(keys_of(keys(-1), "X KEYS a KEYS b"), Ok(vec![4]));
        assert_eq!(keys_of(keys(1), "X a KEYS"), Ok(vec![]));
    }
}
