//! Clients with a cache and CLIENT TRACKING, and the conditions on their caches: once the world is quiet, a cache equals the
//! store.
//!
//! A client drops invalidated keys, or all keys if the invalidation is for all. With NOLOOP it also drops keys that it has
//! written itself. If another connection receives its invalidations, the client follows Redis's documentation: it does not
//! cache a value that was invalidated between request and reply.

use crate::ledger::{Told, text};
use crate::listeners::{INVALIDATIONS, fields_of};
use crate::program::{Expect, Program, Sent, words, words_of};
use resp::reply;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Prng};

/// Keys for which a client gets invalidations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All that it has read.
    Read,
    /// Keys that it has read behind CLIENT CACHING YES.
    OptIn,
    /// Keys that it has not read behind CLIENT CACHING NO.
    OptOut,
    /// Keys with these prefixes.
    Broadcast(Vec<Vec<u8>>),
}

/// The options of a client's CLIENT TRACKING ON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    mode: Mode,
    noloop: bool,
    /// CLIENT ID of the connection that receives the invalidations instead.
    redirect: Option<u64>,
}

impl Wish {
    /// Draws options at random. `ears`: connections that can receive invalidations for others.
    fn draw(clients: usize, ears: &[u64], prng: &mut Prng) -> Wish {
        let mode = match prng.below(5) {
            0 => Mode::OptIn,
            1 => Mode::OptOut,
            2 if prng.one_in(3) => Mode::Broadcast(vec![Vec::new()]),
            2 | 3 => Mode::Broadcast(vec![draw_prefix(clients, prng)]),
            _ => Mode::Read,
        };
        let redirect = if !ears.is_empty() && prng.one_in(2) { Some(*prng.pick(ears)) } else { None };
        Wish { mode, noloop: prng.one_in(2), redirect }
    }

    /// `added`: the prefixes of a broadcast that it does not have yet.
    fn request(&self, added: &[Vec<u8>]) -> Vec<u8> {
        let mut request: Vec<Vec<u8>> =
            ["CLIENT", "TRACKING", "ON"].map(|word| word.as_bytes().to_vec()).into();
        match &self.mode {
            Mode::Read => {}
            Mode::OptIn => request.push(b"OPTIN".to_vec()),
            Mode::OptOut => request.push(b"OPTOUT".to_vec()),
            Mode::Broadcast(_) => {
                request.push(b"BCAST".to_vec());
                for prefix in added.iter().filter(|prefix| !prefix.is_empty()) {
                    request.extend([b"PREFIX".to_vec(), prefix.clone()]);
                }
            }
        }
        if self.noloop {
            request.push(b"NOLOOP".to_vec());
        }
        if let Some(number) = self.redirect {
            request.extend([b"REDIRECT".to_vec(), number.to_string().into_bytes()]);
        }
        words_of(&request)
    }

    /// Whether a client with these options gets invalidations for `key` after it has read it.
    fn covers(&self, key: &[u8]) -> bool {
        match &self.mode {
            Mode::Broadcast(prefixes) => prefixes.iter().any(|prefix| key.starts_with(prefix)),
            Mode::Read | Mode::OptIn | Mode::OptOut => true,
        }
    }
}

const NO_REDIRECT: &[u8] = b"-ERR The client ID you want redirect to does not exist\r\n";

/// Keys that all clients write and tracking clients read.
const SHARED_KEYS: u64 = 4;
const SHARED: &str = "shared";

fn shared_key(number: u64) -> Vec<u8> {
    format!("{SHARED}{number}").into_bytes()
}

/// The names of these keys.
pub(crate) fn shared_names() -> impl Iterator<Item = Vec<u8>> {
    (0..SHARED_KEYS).map(shared_key)
}

/// Whether anybody may write anything to `key`.
pub(crate) fn is_shared(key: &[u8]) -> bool {
    key.starts_with(SHARED.as_bytes())
}

/// The keys of one client, or those of all.
fn draw_prefix(clients: usize, prng: &mut Prng) -> Vec<u8> {
    if prng.one_in(3) {
        return SHARED.as_bytes().to_vec();
    }
    format!("stamped{}k", prng.below(clients as u64)).into_bytes()
}

/// The expected reply to a request of this file.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// OK: it tracks.
    On(Wish),
    /// OK: it does not any more.
    Off,
    /// OK to CLIENT CACHING.
    Caching,
    /// OK: this key, which other clients write as well, has a new value.
    Overwritten(Vec<u8>),
    /// The values of these keys.
    Read {
        keys: Vec<Vec<u8>>,
        own: bool,
        /// Which read it is.
        number: u64,
        /// The client asked for invalidations of these keys.
        is_kept: bool,
        shape: Shape,
    },
}

/// Form of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// By GET.
    One,
    /// By MGET.
    Array,
    /// By GET in a transaction, which stands behind CLIENT CACHING.
    Transaction,
}

/// The state of a tracking client.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// The options of its last request on this connection.
    wish: Option<Wish>,
}

impl Tracker {
    /// Its connection is gone, or as if it had just begun.
    pub(crate) fn reset(&mut self) {
        self.wish = None;
    }
}

impl Program {
    /// A new value for a key that all clients write.
    pub(crate) fn overwrite(&self, prng: &mut Prng) -> Sent {
        overwrite(&shared_key(prng.below(SHARED_KEYS)), prng)
    }

    /// Flushes an empty database: nodes then invalidate all keys of tracking clients.
    pub(crate) fn flush_nothing(&self) -> Sent {
        let home = self.profile.database.to_string();
        let requests: [&[&[u8]]; 3] = [&[b"SELECT", b"9"], &[b"FLUSHDB"], &[b"SELECT", home.as_bytes()]];
        let ok = || b"+OK\r\n".to_vec();
        let expects = vec![Expect::Exactly(ok()), Expect::Reply(ok()), Expect::Exactly(ok())];
        let bytes = requests.iter().flat_map(|request| words(request)).collect();
        Sent { bytes, expect: Some(Expect::Each(expects)) }
    }

    /// The next request of a tracking client; `None` if it behaves as all others do.
    pub(crate) fn track(&mut self, prng: &mut Prng, caches: &mut Caches) -> Option<Sent> {
        let client = self.client;
        let wish = self.tracker.as_mut()?.wish.clone();
        let Some(wish) = wish else { return Some(self.begin_to_track(prng, caches)) };
        let is_broken = wish.redirect.is_some_and(|number| !caches.ears.values().any(|ear| *ear == number));
        match prng.below(16) {
            0 if is_broken || prng.one_in(4) => {
                self.tracker.as_mut()?.reset();
                let bytes = words(&[b"CLIENT", b"TRACKING", b"OFF"]);
                Some(Sent { bytes, expect: Some(Expect::Tracking(Expected::Off)) })
            }
            1 if prng.one_in(3) && caches.is_granted(client, &wish) => {
                Some(self.track_more(wish, prng, caches))
            }
            2..=4 => {
                let keys: Vec<Vec<u8>> =
                    (0..1 + prng.below(2)).map(|_| shared_key(prng.below(SHARED_KEYS))).collect();
                // A transaction is given up when its user's rights change.
                let is_simple = keys.len() == 1 && self.account.is_none();
                let shape = if is_simple && prng.one_in(2) { Some(Shape::Transaction) } else { None };
                Some(caches.read(client, &wish.mode, (keys, false), shape, prng))
            }
            5 => Some(self.overwrite(prng)),
            6..=9 => {
                let own = prng.one_in(3);
                let count = if prng.one_in(3) { 1 + prng.below(4) } else { 1 };
                let keys: Vec<Vec<u8>> = (0..count)
                    .map(|_| if own { self.own_key(prng) } else { self.foreign_key(prng) })
                    .collect();
                Some(caches.read(client, &wish.mode, (keys, own), None, prng))
            }
            10 | 11 => {
                // The read returns its own value, and another client soon overwrites that.
                let key = shared_key(prng.below(SHARED_KEYS));
                let (write, read) =
                    (overwrite(&key, prng), caches.read(client, &wish.mode, (vec![key], false), None, prng));
                let expects = [write.expect, read.expect].into_iter().flatten().collect();
                Some(Sent { bytes: [write.bytes, read.bytes].concat(), expect: Some(Expect::Each(expects)) })
            }
            _ => None,
        }
    }

    fn begin_to_track(&mut self, prng: &mut Prng, caches: &mut Caches) -> Sent {
        let ears: Vec<u64> = caches.ears.values().copied().collect();
        let wish = Wish::draw(self.clients, &ears, prng);
        if wish.redirect.is_none() && !self.profile.resp3 {
            self.profile.resp3 = true;
            let bytes = words(&[b"HELLO", b"3"]);
            return Sent { bytes, expect: Some(Expect::Greeting { resp3: true }) };
        }
        let added = match &wish.mode {
            Mode::Broadcast(prefixes) => prefixes.clone(),
            _ => Vec::new(),
        };
        self.wish_for(wish, &added, caches)
    }

    fn wish_for(&mut self, wish: Wish, added: &[Vec<u8>], caches: &mut Caches) -> Sent {
        let bytes = wish.request(added);
        if let Some(tracker) = &mut self.tracker {
            tracker.wish = Some(wish.clone());
        }
        caches.by_client.entry(self.client).or_default().asked = Some(wish.clone());
        Sent { bytes, expect: Some(Expect::Tracking(Expected::On(wish))) }
    }

    /// The same once more, or one prefix more.
    fn track_more(&mut self, mut wish: Wish, prng: &mut Prng, caches: &mut Caches) -> Sent {
        let mut added = Vec::new();
        if let Mode::Broadcast(prefixes) = &mut wish.mode {
            let prefix = draw_prefix(self.clients, prng);
            let has_all = prefixes.iter().any(Vec::is_empty);
            added.push(if has_all { Vec::new() } else { prefix });
            added.retain(|prefix| !prefixes.contains(prefix));
            if added.is_empty() {
                // To name a prefix twice is an error. Without one, all keys are tracked.
                return Sent {
                    bytes: words(&[b"PING"]),
                    expect: Some(Expect::Exactly(b"+PONG\r\n".to_vec())),
                };
            }
            prefixes.extend(added.clone());
        }
        self.wish_for(wish, &added, caches)
    }
}

fn overwrite(key: &[u8], prng: &mut Prng) -> Sent {
    let value = format!("w{}", prng.below(1 << 40)).into_bytes();
    let bytes = match prng.below(3) {
        0 => words(&[b"MSET", key, &value]),
        1 => words(&[b"SETEX", key, b"1000", &value]),
        _ => words(&[b"SET", key, &value]),
    };
    Sent { bytes, expect: Some(Expect::Tracking(Expected::Overwritten(key.to_vec()))) }
}

/// The caches of all clients.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    by_client: BTreeMap<usize, Cache>,
    /// Clients that can receive invalidations for others, with their CLIENT ID.
    ears: BTreeMap<usize, u64>,
    reads: u64,
    /// The number of cached values, and of values that an invalidation dropped.
    pub kept: u64,
    pub dropped: u64,
}

/// The cache of one client on its connection.
#[derive(Debug, Default)]
struct Cache {
    /// The confirmed options.
    on: Option<Wish>,
    /// The options of the last request.
    asked: Option<Wish>,
    values: BTreeMap<Vec<u8>, Kept>,
    /// Unanswered reads, each with its keys that were not invalidated since.
    reading: BTreeMap<u64, BTreeSet<Vec<u8>>>,
}

#[derive(Debug)]
struct Kept {
    value: Option<Vec<u8>>,
    /// Time since which the store is known to have another value.
    stale_since: Option<Instant>,
}

impl Cache {
    fn drop_keys(&mut self, keys: Option<&[&[u8]]>) -> u64 {
        let before = self.values.len();
        match keys {
            None => {
                self.values.clear();
                self.reading.values_mut().for_each(BTreeSet::clear);
            }
            Some(keys) => {
                for key in keys {
                    self.values.remove(*key);
                    self.reading.values_mut().for_each(|clean| _ = clean.remove(*key));
                }
            }
        }
        (before - self.values.len()) as u64
    }
}

impl Caches {
    /// Requests that read keys, own ones or not, which the client wants to cache.
    fn read(
        &mut self,
        client: usize,
        mode: &Mode,
        (keys, own): (Vec<Vec<u8>>, bool),
        shape: Option<Shape>,
        prng: &mut Prng,
    ) -> Sent {
        let says = prng.one_in(2);
        let (word, is_kept): (Option<&[u8]>, bool) = match mode {
            Mode::OptIn if says => (Some(b"YES"), true),
            Mode::OptIn => (None, false),
            Mode::OptOut if says => (Some(b"NO"), false),
            _ => (None, true),
        };
        let (mut bytes, mut expects) = (Vec::new(), Vec::new());
        if let Some(word) = word {
            bytes.extend(words(&[b"CLIENT", b"CACHING", word]));
            expects.push(Expect::Tracking(Expected::Caching));
        }
        let shape = shape.unwrap_or_else(|| match keys.len() > 1 || prng.one_in(4) {
            true => Shape::Array,
            false => Shape::One,
        });
        let name = if shape == Shape::Array { b"MGET".to_vec() } else { b"GET".to_vec() };
        let request: Vec<Vec<u8>> = std::iter::once(name).chain(keys.iter().cloned()).collect();
        if shape == Shape::Transaction {
            bytes.extend([words(&[b"MULTI"]), words_of(&request), words(&[b"EXEC"])].concat());
            expects.extend(["+OK\r\n", "+QUEUED\r\n"].map(|reply| Expect::Exactly(reply.into())));
        } else {
            bytes.extend(words_of(&request));
        }
        self.reads += 1;
        let number = self.reads;
        let clean = keys.iter().cloned().collect();
        self.by_client.entry(client).or_default().reading.insert(number, clean);
        expects.push(Expect::Tracking(Expected::Read { keys, own, number, is_kept, shape }));
        Sent { bytes, expect: Some(Expect::Each(expects)) }
    }

    /// Whether `client` tracks as it wished last.
    fn is_granted(&self, client: usize, wish: &Wish) -> bool {
        self.by_client.get(&client).is_some_and(|cache| cache.on.as_ref() == Some(wish))
    }

    /// Records the reply to `expected`, which is no error of the contract. Returns false if `reply` does not fit.
    pub(crate) fn answered(&mut self, client: usize, expected: &Expected, reply: &[u8]) -> bool {
        let is_there = |number: u64| self.ears.values().any(|ear| *ear == number);
        match expected {
            // The connection that should receive the invalidations has closed, or is about to.
            Expected::On(Wish { redirect: Some(_), .. }) if reply == NO_REDIRECT => {
                self.turn_off(client);
                true
            }
            Expected::On(Wish { redirect: Some(number), .. }) if !is_there(*number) => {
                self.turn_off(client);
                reply == b"+OK\r\n"
            }
            Expected::On(wish) => {
                self.by_client.entry(client).or_default().on = Some(wish.clone());
                reply == b"+OK\r\n"
            }
            Expected::Off => {
                self.turn_off(client);
                reply == b"+OK\r\n"
            }
            Expected::Caching => {
                let cache = self.by_client.entry(client).or_default();
                reply == b"+OK\r\n" || (cache.on.is_none() && reply::is_error(reply))
            }
            Expected::Overwritten(key) => {
                self.overwritten(client, key);
                reply == b"+OK\r\n"
            }
            Expected::Read { .. } => true,
        }
    }

    /// The client found these values, which were checked.
    pub(crate) fn found(&mut self, client: usize, expected: &Expected, values: &[Option<&[u8]>]) {
        let Expected::Read { keys, number, is_kept, .. } = expected else { return };
        let cache = self.by_client.entry(client).or_default();
        let clean = cache.reading.remove(number).unwrap_or_default();
        let Some(wish) = cache.on.as_ref().filter(|_| *is_kept) else { return };
        for (key, value) in keys.iter().zip(values).filter(|(key, _)| wish.covers(key)) {
            // Bytes of one connection arrive in order; those of another connection may overtake them.
            if wish.redirect.is_none() || clean.contains(key) {
                let value = value.map(<[u8]>::to_vec);
                cache.values.insert(key.clone(), Kept { value, stale_since: None });
                self.kept += 1;
            }
        }
    }

    /// A request got no answer from its node.
    pub(crate) fn lost(&mut self, client: usize, expected: &Expected, told: Told) {
        match expected {
            Expected::Read { number, .. } => {
                _ = self.by_client.entry(client).or_default().reading.remove(number);
            }
            Expected::Overwritten(key) if told == Told::Unknown => self.overwritten(client, key),
            _ => {}
        }
    }

    /// `client` does not track any more.
    pub(crate) fn turn_off(&mut self, client: usize) {
        let cache = self.by_client.entry(client).or_default();
        cache.on = None;
        cache.values.clear();
    }

    /// The connection of `client` is gone.
    pub(crate) fn left(&mut self, client: usize) {
        self.by_client.remove(&client);
        let Some(number) = self.ears.remove(&client) else { return };
        let told_by_it =
            |cache: &&mut Cache| cache.on.as_ref().is_some_and(|wish| wish.redirect == Some(number));
        for cache in self.by_client.values_mut().filter(told_by_it) {
            cache.on = None;
            cache.values.clear();
        }
    }

    /// `client`, whose CLIENT ID is `number`, can receive invalidations for others from now on.
    pub(crate) fn lend_ear(&mut self, client: usize, number: u64) {
        self.ears.insert(client, number);
    }

    /// Records a frame for `client` and returns whether it was an invalidation. The error says why it must not have arrived.
    pub(crate) fn hear(&mut self, client: usize, frame: &[u8]) -> Result<bool, String> {
        if frame.starts_with(b">2\r\n$21\r\ntracking-redir-broken\r\n") {
            return Ok(true);
        }
        let Some(keys) = changes_of(frame) else { return Ok(false) };
        let Some(number) = self.ears.get(&client) else {
            let Some(cache) = self.by_client.get_mut(&client).filter(|cache| cache.on.is_some()) else {
                return Err(format!("client {client}, which does not track, was told of {:?}", text(frame)));
            };
            let told: Option<&[&[u8]]> = keys.as_deref();
            let wishes = || cache.on.iter().chain(&cache.asked);
            let is_covered = |key: &&&[u8]| wishes().any(|wish| wish.covers(key));
            if let Some(key) = told.into_iter().flatten().find(|key| !is_covered(key)) {
                return Err(format!("client {client} was told of {:?}", text(key)));
            }
            self.dropped += cache.drop_keys(told);
            return Ok(true);
        };
        let told = self.by_client.values_mut();
        let told = told.filter(|cache| {
            // Options without a reply yet may or may not be in force. Values that are read meanwhile are not cached.
            let redirects = |wish: &Wish| wish.redirect == Some(*number);
            cache.on.as_ref().is_none_or(redirects) || cache.asked.as_ref().is_some_and(redirects)
        });
        self.dropped += told.map(|cache| cache.drop_keys(keys.as_deref())).sum::<u64>();
        Ok(true)
    }

    /// The client `writer` has written `key`, or may have.
    pub(crate) fn overwritten(&mut self, writer: usize, key: &[u8]) {
        let cache = self.by_client.get_mut(&writer);
        if let Some(cache) = cache.filter(|cache| cache.on.as_ref().is_some_and(|wish| wish.noloop)) {
            cache.values.remove(key);
        }
    }

    /// Compares caches with the store. It skips clients for which `may_wait` holds, and keys for which `is_writing` does: with
    /// NOLOOP, a value read before the own write gets no invalidation. The error names a value that has been out of date for
    /// `patience`.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        patience: Duration,
        may_wait: impl Fn(usize) -> bool,
        is_writing: impl Fn(usize, &[u8]) -> bool,
        mut stored: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<(), String> {
        for (client, cache) in &mut self.by_client {
            let ear = cache.on.as_ref().and_then(|wish| wish.redirect);
            let ear = self.ears.iter().find(|(_, number)| Some(**number) == ear).map(|(ear, _)| *ear);
            let waits = may_wait(*client) || ear.is_some_and(&may_wait);
            for (key, kept) in &mut cache.values {
                let value = stored(key);
                if value == kept.value || waits || is_writing(*client, key) {
                    kept.stale_since = None;
                    continue;
                }
                let since = *kept.stale_since.get_or_insert(now);
                if now.since(since) >= patience {
                    let [has, is] = [&kept.value, &value].map(|value| value.as_deref().map(text));
                    let (key, wish) = (text(key), &cache.on);
                    return Err(format!(
                        "client {client} ({wish:?}) keeps {has:?} as {key:?}, which is {is:?}, and was not told"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The invalidated keys in `frame`, or all; `None` if it is no invalidation.
fn changes_of(frame: &[u8]) -> Option<Option<Vec<&[u8]>>> {
    let fields = fields_of(frame)?;
    let words: Vec<Option<&[u8]>> = fields.iter().map(|field| reply::as_bulk(field)).collect();
    match (frame[0], words.as_slice()) {
        (b'>', [Some(b"invalidate"), _]) | (b'*', [Some(b"message"), Some(INVALIDATIONS), _]) => {}
        _ => return None,
    }
    let keys = reply::elements(fields[fields.len() - 1]);
    Some(keys.map(|keys| keys.filter_map(reply::as_bulk).collect()))
}
