//! CLIENT TRACKING: the options of each client that caches, and the keys that a worker's clients have read. This
//! module sends nothing; `invalidations.rs` does.
//!
//! All modes work over links that clients share. Nodes need no table of keys: the worker finds the clients that get
//! an invalidation.
//!
//! - The worker reads the requests behind `CLIENT TRACKING ON` only once all nodes have confirmed. Otherwise nobody
//!   would report a change between a read and the confirmation.
//! - A read is noted when it is sent; a read of a transaction, with EXEC. `CLIENT CACHING` right before `MULTI`
//!   applies to the whole transaction.
//! - An invalidation goes behind all pending replies, since one of them may have the value before the change. A
//!   client that gets invalidations by redirection gets them at once, on any worker.
//! - Noted keys count as memory, at most 64 MiB in a worker. Above that, some keys are invalidated and forgotten.

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

/// Options of one client for its invalidations.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    pub mode: Mode,
    /// The client that gets the invalidations instead.
    pub redirect: Option<Redirect>,
    /// Whether the other client has gone.
    pub is_broken: bool,
    /// Whether the client gets no invalidations for its own writes.
    pub noloop: bool,
    /// The client's own writes, if [`Tracking::noloop`].
    pub own: OwnWrites,
    /// Whether CLIENT CACHING came before. It applies to the next command or transaction.
    has_caching_word: bool,
    /// The value of `has_caching_word` before the present request, if that was noted: the request may have to be read
    /// again.
    before: Option<bool>,
    /// The prefixes of keys that the client asked for, with [`Mode::Broadcast`].
    prefixes: Vec<Box<[u8]>>,
    /// Bytes of the prefixes.
    prefix_bytes: usize,
    /// Shards whose flush the client knows of, if it has read nothing since.
    flushed: Vec<ShardId>,
    /// The charge for all this.
    pub charge: Charge,
}

/// The keys whose changes a client gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Keys that the client has read.
    #[default]
    Read,
    /// Keys that the client has read right behind CLIENT CACHING YES.
    OptIn,
    /// Keys that the client has read, but not right behind CLIENT CACHING NO.
    OptOut,
    /// All keys with certain prefixes.
    Broadcast,
}

/// The client that gets the invalidations of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// The client's number.
    pub client: u64,
    /// The client's worker.
    pub worker: usize,
    /// The client's connection at that worker.
    pub conn: ConnId,
}

/// The request of a CLIENT TRACKING.
#[derive(Debug)]
pub(crate) enum Wish {
    Off,
    On {
        /// The number of the client that gets the invalidations.
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
/// Redis's error if the other client does not exist.
pub(crate) const NO_REDIRECT: &str = "ERR The client ID you want redirect to does not exist";

impl Wish {
    /// Parses `CLIENT TRACKING ON|OFF [option …]`. `now` is the present state of the client.
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
                    // The number 0 stands for no client.
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
            // The empty prefix may be asked for again.
            tracking.prefixes.dedup();
            tracking.prefix_bytes =
                tracking.prefixes.iter().map(|prefix| size_of::<Box<[u8]>>() + prefix.len()).sum();
        }
        // No client has a negative number.
        let redirect = redirect.map(|id| u64::try_from(id).unwrap_or(0));
        Ok(Wish::On { redirect, tracking })
    }
}

/// Refuses overlapping prefixes: no change may be reported twice.
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

/// The index of the first of `added` that overlaps another of them or one of `existing`. In sorted order, the
/// prefixes that overlap a prefix follow it, so each is compared with only one.
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
    /// Applies CLIENT CACHING.
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

    /// Notes that the client reads. Returns whether the client gets invalidations for the keys.
    pub(crate) fn begin_to_read(&mut self) -> bool {
        self.flushed.clear();
        match self.mode {
            Mode::Read => true,
            Mode::OptIn => self.has_caching_word,
            Mode::OptOut => !self.has_caching_word,
            Mode::Broadcast => false,
        }
    }

    /// Notes that a request is about to run.
    fn begin_request(&mut self) {
        self.before = Some(self.has_caching_word);
    }

    /// Forgets CLIENT CACHING: its command or transaction ends.
    fn use_caching_word(&mut self) {
        self.has_caching_word = false;
    }

    /// Notes that the request has run.
    fn end_request(&mut self) {
        self.before = None;
    }

    /// Restores the state before a request that has not run and will be read again.
    pub(crate) fn postpone(&mut self) {
        self.has_caching_word = self.before.take().unwrap_or(self.has_caching_word);
    }

    /// Takes over the state that outlasts another CLIENT TRACKING ON.
    fn succeed(&mut self, before: &Tracking) {
        self.has_caching_word = before.has_caching_word;
    }

    /// The number of prefixes.
    pub(crate) fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Memory in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.prefix_bytes + self.own.held_bytes()
    }

    /// Counts the memory anew after a change.
    pub(crate) fn recount(&mut self) {
        self.charge.set(self.held_bytes());
    }

    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        (self.charge.bytes(), self.held_bytes())
    }

    /// Notes that all keys of `shard` are gone. Returns whether the client gets an invalidation: once, until it reads
    /// again.
    pub(crate) fn note_flush(&mut self, shard: ShardId) -> bool {
        let is_known = !self.flushed.is_empty() && !self.flushed.contains(&shard);
        if !is_known {
            self.flushed.clear();
        }
        self.flushed.push(shard);
        !is_known
    }

    /// The keys of `keys` with the client's prefixes, grouped by prefix: Redis sends an invalidation for each prefix.
    pub(crate) fn wanted<'a>(&self, keys: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
        let mut wanted = BTreeMap::<usize, Vec<&'a [u8]>>::new();
        for &key in keys {
            for at in self.prefixes_of(key).into_iter().flatten() {
                wanted.entry(at).or_default().push(key);
            }
        }
        wanted.into_values().collect()
    }

    /// The indexes of the prefixes of `key`. Prefixes are sorted and do not overlap, except for the empty one, which
    /// may stand beside others.
    fn prefixes_of(&self, key: &[u8]) -> [Option<usize>; 2] {
        let begins = |at: &usize| key.starts_with(&self.prefixes[*at]);
        let last = self.prefixes.partition_point(|prefix| **prefix <= *key).checked_sub(1).filter(begins);
        let empty = self.prefixes.first().filter(|prefix| prefix.is_empty()).map(|_| 0);
        [empty.filter(|_| last != Some(0)), last]
    }
}

/// Writes the reply to CLIENT TRACKINGINFO, for a client that tracks or not.
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

/// The number of the client that gets the invalidations instead: 0 for none, -1 without tracking.
pub(crate) fn redirect_number(tracking: Option<&Tracking>) -> i64 {
    tracking.map_or(-1, |tracking| tracking.redirect.map_or(0, |redirect| redirect.client as i64))
}

/// Keys, stored one behind the other.
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

/// The keys that a worker's clients have read. The next change of a key invalidates it once.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    keys: BTreeMap<Box<[u8]>, BTreeSet<ConnId>>,
    /// The number of readers of all keys.
    items: usize,
    charge: Charge,
}

/// The cost of a key beside its own bytes, with its place in the table.
const KEY_BYTES: usize = 150;
/// The cost of one reader of a key.
const READER_BYTES: usize = 20;

impl Readers {
    /// An empty table, charged to `charge`.
    pub(crate) fn new(charge: Charge) -> Readers {
        Readers { keys: BTreeMap::new(), charge, items: 0 }
    }

    /// Notes that `conn` reads `key`.
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

    /// Removes `key` and returns its readers.
    pub(crate) fn take(&mut self, key: &[u8]) -> BTreeSet<ConnId> {
        let Some(readers) = self.keys.remove(key) else { return BTreeSet::new() };
        self.items -= readers.len();
        self.charge.take(KEY_BYTES + key.len() + READER_BYTES * readers.len());
        readers
    }

    /// A key to invalidate and forget, if the table exceeds `bytes_max`.
    pub(crate) fn surplus(&self, bytes_max: usize) -> Option<Box<[u8]>> {
        let first = || self.keys.first_key_value().map(|(key, _)| key.clone());
        (self.charge.bytes() > bytes_max).then(first).flatten()
    }

    /// Empties the table: no client caches anything.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.items = 0;
        self.charge.set(0);
    }

    /// The bytes that are charged, and the bytes in use.
    pub(crate) fn account(&self) -> (usize, usize) {
        let bytes =
            self.keys.iter().map(|(key, readers)| KEY_BYTES + key.len() + READER_BYTES * readers.len());
        (self.charge.bytes(), bytes.sum())
    }

    /// The number of keys; 0 once no client tracks.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of pairs of a key and a reader.
    pub(crate) fn items(&self) -> usize {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_of_all_shards_invalidates_once() {
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
    fn a_key_is_wanted_by_its_prefixes() {
        let prefixes = ["", "a", "b:", "b;"].map(|prefix| prefix.as_bytes().into()).to_vec();
        let tracking = Tracking { prefixes, ..Tracking::default() };
        let keys: [&[u8]; 4] = [b"b:1", b"a", b"b", b"b:2"];
        let wanted = tracking.wanted(&keys);
        assert_eq!(wanted, [vec![&b"b:1"[..], b"a", b"b", b"b:2"], vec![b"a"], vec![b"b:1", b"b:2"]]);
    }

    #[test]
    fn readers_are_taken_once_and_their_memory_is_counted() {
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
