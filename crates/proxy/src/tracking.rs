//! CLIENT TRACKING: what one client wants to be told of keys that it may have cached, and which keys a worker's clients
//! have read. Nothing here sends; `invalidations.rs` does.
//!
//! All modes work over links that clients share, and nodes need no table of keys: the worker sorts out which client wants to know.
//!
//! - What comes behind `CLIENT TRACKING ON` is read when all nodes have confirmed. Nobody would tell of a change between a read and that.
//! - A read is noted when it is sent, a read of a transaction with EXEC. `CLIENT CACHING` right before `MULTI` is of the whole
//!   transaction.
//! - A change is told behind all replies that are still to come: one of them may be the value before the change. Clients to which
//!   invalidations are redirected are told at once, on whatever worker.
//! - Keys that were read are counted for, 64 MiB in a worker at most. Above that some are forgotten, as if they had changed.

pub(crate) mod invalidations;
pub(crate) mod noloop;

use crate::ConnId;
use crate::errors;
use crate::tracking::noloop::OwnWrites;
use engine::memory::Charge;
use resp::integer::parse_i64;
use resp::{Request, encode};
use std::collections::{BTreeMap, BTreeSet};
use topology::ShardId;

/// What one client wants to be told.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    pub mode: Mode,
    /// Another client is told instead.
    pub redirect: Option<Redirect>,
    /// That client has gone.
    pub is_broken: bool,
    /// Keys that it changes itself are of no interest to it.
    pub noloop: bool,
    /// What it has written itself, if [`Tracking::noloop`].
    pub own: OwnWrites,
    /// CLIENT CACHING came before: its word is of the next command or transaction.
    has_caching_word: bool,
    /// The same before the request that is carried out now, if it was noted: it may have to be read again.
    before: Option<bool>,
    /// Of [`Mode::Broadcast`]: beginnings of the keys that it wants to know of.
    prefixes: Vec<Box<[u8]>>,
    /// Bytes of those.
    prefix_bytes: usize,
    /// Shards whose flush it knows of, if it has read nothing since.
    flushed: Vec<ShardId>,
    /// For all this.
    pub charge: Charge,
}

/// Of which keys a client is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those that it has read.
    #[default]
    Read,
    /// Those that it has read right behind CLIENT CACHING YES.
    OptIn,
    /// Those that it has read, but not right behind CLIENT CACHING NO.
    OptOut,
    /// All that begin so.
    Broadcast,
}

/// Who is told instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Its number.
    pub client: u64,
    /// The worker that serves it.
    pub worker: usize,
    /// Its connection there.
    pub conn: ConnId,
}

/// What CLIENT TRACKING asks for.
#[derive(Debug)]
pub(crate) enum Wish {
    Off,
    On {
        /// The number of the client to be told.
        redirect: Option<u64>,
        tracking: Tracking,
    },
}

const REDIRECTS: &str = "ERR A client can only redirect to a single other client";
const PREFIX_ALONE: &str = "ERR PREFIX option requires BCAST mode to be enabled";
const OTHER_BROADCAST: &str = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
     re-enabling it with a different mode.";
const OPT_BROADCAST: &str = "ERR OPTIN and OPTOUT are not compatible with BCAST";
const BOTH_OPTS: &str = "ERR You can't specify both OPTIN mode and OPTOUT mode";
const OTHER_OPT: &str = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
     re-enabling it with a different mode.";
const NOT_OPTIN: &str = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
const NOT_OPTOUT: &str = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
/// Redis's word for a client that has gone.
pub(crate) const NO_REDIRECT: &str = "ERR The client ID you want redirect to does not exist";

impl Wish {
    /// `CLIENT TRACKING ON|OFF [option …]` of a client that has wished for `now` before.
    pub(crate) fn parse(
        request: &Request<'_>,
        now: Option<&Tracking>,
        prefix_bytes_max: usize,
    ) -> Result<Wish, Vec<u8>> {
        let (mut redirect, mut prefixes): (Option<i64>, Vec<&[u8]>) = (None, Vec::new());
        let [mut broadcast, mut optin, mut optout, mut noloop] = [false; 4];
        let mut at = 3;
        while let Some(word) = request.get(at) {
            let value = request.get(at + 1);
            match (word.to_ascii_lowercase().as_slice(), value) {
                (b"redirect", Some(_)) if redirect.is_some() => return Err(REDIRECTS.into()),
                (b"redirect", Some(id)) => {
                    // 0 is nobody.
                    redirect = Some(parse_i64(id).ok_or(errors::NOT_AN_INTEGER)?).filter(|&id| id != 0);
                    at += 1;
                }
                (b"prefix", Some(prefix)) => {
                    prefixes.push(prefix);
                    at += 1;
                }
                (b"bcast", _) => broadcast = true,
                (b"optin", _) => optin = true,
                (b"optout", _) => optout = true,
                (b"noloop", _) => noloop = true,
                _ => return Err(errors::SYNTAX.into()),
            }
            at += 1;
        }
        match request.arg(2).to_ascii_lowercase().as_slice() {
            b"on" => {}
            b"off" => return Ok(Wish::Off),
            _ => return Err(errors::SYNTAX.into()),
        }
        let was = now.map(|tracking| tracking.mode);
        let refusal = match () {
            () if !broadcast && !prefixes.is_empty() => Some(PREFIX_ALONE),
            () if was.is_some_and(|was| (was == Mode::Broadcast) != broadcast) => Some(OTHER_BROADCAST),
            () if broadcast && (optin || optout) => Some(OPT_BROADCAST),
            () if optin && optout => Some(BOTH_OPTS),
            () if optin && was == Some(Mode::OptOut) || optout && was == Some(Mode::OptIn) => Some(OTHER_OPT),
            () => None,
        };
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        let mut tracking = Tracking { noloop, ..Tracking::default() };
        tracking.mode = match () {
            () if broadcast => Mode::Broadcast,
            () if optin => Mode::OptIn,
            () if optout => Mode::OptOut,
            () => Mode::Read,
        };
        if broadcast {
            let named: usize = prefixes.iter().map(|prefix| size_of::<Box<[u8]>>() + prefix.len()).sum();
            let known = now.map_or(0, |now| now.prefix_bytes);
            if named + known > prefix_bytes_max {
                return Err(errors::PREFIXES_TOO_LONG.into());
            }
            tracking.prefixes = now.map(|now| now.prefixes.clone()).unwrap_or_default();
            check_prefixes(&tracking.prefixes, &prefixes)?;
            let added = if prefixes.is_empty() { vec![&b""[..]] } else { prefixes };
            tracking.prefixes.extend(added.into_iter().map(Into::into));
            tracking.prefixes.sort();
            // All keys may be asked for again.
            tracking.prefixes.dedup();
            tracking.prefix_bytes =
                tracking.prefixes.iter().map(|prefix| size_of::<Box<[u8]>>() + prefix.len()).sum();
        }
        // A negative number is nobody's.
        let redirect = redirect.map(|id| u64::try_from(id).unwrap_or(0));
        Ok(Wish::On { redirect, tracking })
    }
}

/// A key must not be told of twice.
fn check_prefixes(existing: &[Box<[u8]>], added: &[&[u8]]) -> Result<(), Vec<u8>> {
    let Some(at) = first_overlapping(existing, added) else { return Ok(()) };
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refusal = |one: &[u8], what: &str, other: &[u8]| {
        let parts: [&[u8]; 7] = [
            b"ERR Prefix '",
            one,
            b"' overlaps with ",
            what.as_bytes(),
            b" prefix '",
            other,
            b"'. Prefixes for a single client must not overlap.",
        ];
        parts.concat()
    };
    let prefix = added[at];
    if let Some(own) = existing.iter().find(|own| overlap(own, prefix)) {
        return Err(refusal(prefix, "an existing", own));
    }
    match added[at + 1..].iter().find(|other| overlap(other, prefix)) {
        Some(other) => Err(refusal(prefix, "another provided", other)),
        None => Ok(()),
    }
}

/// Which of `added` is the first that overlaps another of them or one of `existing`. Those that overlap a prefix stand behind
/// it once all are sorted, so that each is compared with one.
fn first_overlapping(existing: &[Box<[u8]>], added: &[&[u8]]) -> Option<usize> {
    let owned = existing.iter().map(|own| (&**own, None));
    let mut all: Vec<(&[u8], Option<usize>)> =
        owned.chain(added.iter().enumerate().map(|(at, prefix)| (*prefix, Some(at)))).collect();
    all.sort_unstable();
    let (mut shortest, mut first): ((&[u8], Option<usize>), Option<usize>) = (*all.first()?, None);
    for &(prefix, at) in &all[1..] {
        if prefix.starts_with(shortest.0) {
            first = [first, at, shortest.1].into_iter().flatten().min();
        } else {
            shortest = (prefix, at);
        }
    }
    first
}

impl Tracking {
    /// CLIENT CACHING.
    pub(crate) fn set_caching(&mut self, word: &[u8]) -> Result<(), &'static str> {
        match (word.to_ascii_lowercase().as_slice(), self.mode) {
            (b"yes", Mode::OptIn) | (b"no", Mode::OptOut) => {}
            (b"yes", Mode::OptOut) => return Err(NOT_OPTIN),
            (b"no", Mode::OptIn) => return Err(NOT_OPTOUT),
            (_, Mode::Read | Mode::Broadcast) => return Err(errors::NOT_TRACKING),
            _ => return Err(errors::SYNTAX),
        }
        self.has_caching_word = true;
        Ok(())
    }

    /// The client reads something now. Whether it is to be told of the keys.
    pub(crate) fn begin_to_read(&mut self) -> bool {
        self.flushed.clear();
        match self.mode {
            Mode::Read => true,
            Mode::OptIn => self.has_caching_word,
            Mode::OptOut => !self.has_caching_word,
            Mode::Broadcast => false,
        }
    }

    /// A request is about to be carried out.
    fn begin_request(&mut self) {
        self.before = Some(self.has_caching_word);
    }

    /// CLIENT CACHING's word was of the command or transaction that ends.
    fn use_caching_word(&mut self) {
        self.has_caching_word = false;
    }

    /// The request was carried out.
    fn end_request(&mut self) {
        self.before = None;
    }

    /// The request was not carried out yet and will be read again.
    pub(crate) fn postpone(&mut self) {
        self.has_caching_word = self.before.take().unwrap_or(self.has_caching_word);
    }

    /// Takes over what outlasts another CLIENT TRACKING ON.
    fn succeed(&mut self, before: &Tracking) {
        self.has_caching_word = before.has_caching_word;
    }

    /// How many beginnings it has named.
    pub(crate) fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.prefix_bytes + self.own.held_bytes()
    }

    /// Counts them, if they may have become others.
    pub(crate) fn recount(&mut self) {
        self.charge.set(self.held_bytes());
    }

    /// What it is counted for, and what it holds.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.charge.bytes(), self.held_bytes())
    }

    /// All keys of `shard` are gone. Whether the client is to be told: not, if it was told so of another shard and has
    /// read nothing since.
    pub(crate) fn note_flush(&mut self, shard: ShardId) -> bool {
        let is_known = !self.flushed.is_empty() && !self.flushed.contains(&shard);
        if !is_known {
            self.flushed.clear();
        }
        self.flushed.push(shard);
        !is_known
    }

    /// Those of `keys` that the client wants to know of without having read them: by the beginnings that it named, for
    /// Redis tells of each by itself.
    pub(crate) fn wanted<'a>(&self, keys: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
        let mut wanted = BTreeMap::<usize, Vec<&'a [u8]>>::new();
        for &key in keys {
            for at in self.prefixes_of(key).into_iter().flatten() {
                wanted.entry(at).or_default().push(key);
            }
        }
        wanted.into_values().collect()
    }

    /// The places of the prefixes with which `key` begins: they are sorted and do not overlap, but for the empty one, which
    /// may be wished for beside others.
    fn prefixes_of(&self, key: &[u8]) -> [Option<usize>; 2] {
        let begins = |at: &usize| key.starts_with(&self.prefixes[*at]);
        let last = self.prefixes.partition_point(|prefix| **prefix <= *key).checked_sub(1).filter(begins);
        let empty = self.prefixes.first().filter(|prefix| prefix.is_empty()).map(|_| 0);
        [empty.filter(|_| last != Some(0)), last]
    }
}

/// CLIENT TRACKINGINFO, of a client that tracks or not.
pub(crate) fn write_state(tracking: Option<&Tracking>, resp3: bool, reply: &mut Vec<u8>) {
    let off = Tracking::default();
    let is_on = tracking.is_some();
    let Tracking { mode, is_broken, noloop, has_caching_word, prefixes, .. } = tracking.unwrap_or(&off);
    let flags = [
        (if is_on { "on" } else { "off" }, true),
        ("bcast", *mode == Mode::Broadcast),
        ("optin", *mode == Mode::OptIn),
        ("caching-yes", *mode == Mode::OptIn && *has_caching_word),
        ("optout", *mode == Mode::OptOut),
        ("caching-no", *mode == Mode::OptOut && *has_caching_word),
        ("noloop", *noloop),
        ("broken_redirect", *is_broken),
    ];
    encode::map_header(reply, 3, resp3);
    encode::bulk(reply, b"flags");
    encode::set_header(reply, flags.iter().filter(|(_, is_set)| *is_set).count(), resp3);
    flags.iter().filter(|(_, is_set)| *is_set).for_each(|(flag, _)| encode::bulk(reply, flag.as_bytes()));
    encode::bulk(reply, b"redirect");
    encode::integer(reply, redirect_number(tracking));
    encode::bulk(reply, b"prefixes");
    encode::array_header(reply, prefixes.len());
    prefixes.iter().for_each(|prefix| encode::bulk(reply, prefix));
}

/// The client to which is redirected: 0 if none is, -1 if nothing is tracked.
pub(crate) fn redirect_number(tracking: Option<&Tracking>) -> i64 {
    tracking.map_or(-1, |tracking| tracking.redirect.map_or(0, |redirect| redirect.client as i64))
}

/// Keys, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct KeyList(Vec<u8>);

impl KeyList {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.0.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.0.extend_from_slice(key);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_first_chunk()?;
            let (key, behind) = behind.split_at(u32::from_le_bytes(*len) as usize);
            rest = behind;
            Some(key)
        })
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.0.capacity()
    }
}

/// Which clients of a worker have read which keys, and are to be told once of the next change.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    keys: BTreeMap<Box<[u8]>, BTreeSet<ConnId>>,
    /// All readers of all keys.
    items: usize,
    charge: Charge,
}

/// What a key is counted for beside its own bytes, with its place in the table.
const KEY_BYTES: usize = 150;
/// The same for one reader of it.
const READER_BYTES: usize = 20;

impl Readers {
    /// None, for which `charge` is.
    pub(crate) fn new(charge: Charge) -> Readers {
        Readers { keys: BTreeMap::new(), charge, items: 0 }
    }

    /// `conn` reads `key`.
    pub(crate) fn add(&mut self, key: &[u8], conn: ConnId) {
        let readers = match self.keys.get_mut(key) {
            Some(readers) => readers,
            None => {
                self.charge.add(KEY_BYTES + key.len());
                self.keys.entry(key.into()).or_default()
            }
        };
        let is_new = usize::from(readers.insert(conn));
        self.items += is_new;
        self.charge.add(READER_BYTES * is_new);
    }

    /// Takes out who has read `key`.
    pub(crate) fn take(&mut self, key: &[u8]) -> BTreeSet<ConnId> {
        let Some(readers) = self.keys.remove(key) else { return BTreeSet::new() };
        self.items -= readers.len();
        self.charge.take(KEY_BYTES + key.len() + READER_BYTES * readers.len());
        readers
    }

    /// A key to be forgotten, since more is held than `bytes_max`: its readers are to be told as if it had changed.
    pub(crate) fn surplus(&self, bytes_max: usize) -> Option<Box<[u8]>> {
        let first = || self.keys.first_key_value().map(|(key, _)| key.clone());
        (self.charge.bytes() > bytes_max).then(first).flatten()
    }

    /// Nothing is cached anywhere.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.items = 0;
        self.charge.set(0);
    }

    /// What all this is counted for, and what is there.
    pub(crate) fn account(&self) -> (usize, usize) {
        let bytes =
            self.keys.iter().map(|(key, readers)| KEY_BYTES + key.len() + READER_BYTES * readers.len());
        (self.charge.bytes(), bytes.sum())
    }

    /// How many keys there are; 0 once no client tracks.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many clients are to be told of how many keys.
    pub(crate) fn items(&self) -> usize {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_of_all_shards_is_told_once() {
        let mut tracking = Tracking::default();
        let shards = [0, 1, 2, 3].map(ShardId);
        assert_eq!(shards.map(|shard| tracking.note_flush(shard)), [true, false, false, false]);
        assert_eq!(shards.map(|shard| tracking.note_flush(shard)), [true, false, false, false]);
        assert!(!Tracking::note_flush(&mut tracking, ShardId(9)));
        tracking.begin_to_read();
        assert!(tracking.note_flush(ShardId(5)), "what it has read since may be cached");
    }

    #[test]
    fn the_first_prefix_that_overlaps_is_found() {
        let boxed = |list: &[&str]| list.iter().map(|own| own.as_bytes().into()).collect::<Vec<Box<[u8]>>>();
        let first = |existing: &[&str], added: &[&str]| {
            let added: Vec<&[u8]> = added.iter().map(|prefix| prefix.as_bytes()).collect();
            first_overlapping(&boxed(existing), &added)
        };
        assert_eq!(first(&[], &[]), None);
        assert_eq!(first(&["a", "c"], &["b", "ca", "d"]), Some(1));
        assert_eq!(first(&["ab"], &["x", "a"]), Some(1));
        assert_eq!(first(&[], &["x", "ab", "b", "abc", "a", "x"]), Some(0));
        assert_eq!(first(&[], &["ab", "b", "a"]), Some(0));
        assert_eq!(first(&[], &["", "b"]), Some(0));
        assert_eq!(first(&["a", "ab!"], &["ac", "b"]), Some(0));
    }

    #[test]
    fn a_key_is_wanted_by_the_prefixes_with_which_it_begins() {
        let prefixes = ["", "a", "b:", "b;"].map(|prefix| prefix.as_bytes().into()).to_vec();
        let tracking = Tracking { prefixes, ..Tracking::default() };
        let keys: [&[u8]; 4] = [b"b:1", b"a", b"b", b"b:2"];
        let wanted = tracking.wanted(&keys);
        assert_eq!(wanted, [vec![&b"b:1"[..], b"a", b"b", b"b:2"], vec![b"a"], vec![b"b:1", b"b:2"]]);
    }

    #[test]
    fn readers_are_told_once_and_cost_what_they_hold() {
        let mut readers = Readers::default();
        let conns = [1, 2].map(|index| ConnId { index, generation: 0 });
        conns.iter().for_each(|&conn| readers.add(b"b", conn));
        readers.add(b"b", conns[0]);
        readers.add(b"a", conns[0]);
        assert_eq!(readers.surplus(KEY_BYTES * 2), Some(b"a"[..].into()));
        assert_eq!((readers.len(), readers.items()), (2, 3));
        assert_eq!(readers.take(b"b"), BTreeSet::from(conns));
        assert_eq!(readers.take(b"b"), BTreeSet::new());
        assert_eq!(readers.take(b"a").len(), 1);
        assert_eq!((readers.charge.bytes(), readers.len(), readers.items()), (0, 0, 0));
    }
}
