//! The data of a simulated node: the embedded store with a clock, and commands that only a Redis with a module has.

use crate::cluster;
use crate::ledger::Ledger;
use crate::scripts::{Loaded, Task};
use resp::{Request, Span, encode};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use store::{CallerId, Delivery, Ran, Store, StoreSettings};
use topology::ShardId;

/// One node's keys.
pub(crate) struct Keyspace {
    store: Store,
    /// Its scripts.
    pub scripts: Loaded,
    /// Requests since housekeeping was done.
    idle: u32,
    /// The last reply to each request. Only a sabotaged node keeps it.
    last: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// The value of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dump {
    pub payload: Vec<u8>,
    /// By unix time; negative if it does not.
    expires_at_ms: i64,
}

impl Dump {
    /// Whether it can be stored now. RESTORE accepts nothing that expires at this very moment, and a key exists until the
    /// moment is over. On a real node that is a millisecond, and here half a second.
    pub(crate) fn can_be_put(&self, now: Instant) -> bool {
        self.expires_at_ms != unix_ms(now) as i64
    }
}

/// Requests between two pieces of housekeeping. The number is high, so that look-ups find expired keys too.
const REQUESTS_PER_WORK: u32 = 16;

impl Keyspace {
    /// An empty one. `remembers`: for [`Keyspace::older_reply`].
    pub(crate) fn new(remembers: bool) -> Keyspace {
        Keyspace {
            store: new_store(),
            scripts: Loaded::default(),
            idle: 0,
            last: remembers.then(BTreeMap::new),
        }
    }

    /// Begins a connection.
    pub(crate) fn admit(&mut self) -> CallerId {
        self.store.admit()
    }

    /// A connection has ended.
    pub(crate) fn dismiss(&mut self, caller: CallerId) {
        self.store.dismiss(caller);
    }

    /// Runs `request` as the node of `shard`, appends the reply, and records the execution in the ledger.
    pub(crate) fn run(
        &mut self,
        caller: CallerId,
        request: &Request<'_>,
        shard: ShardId,
        now: Instant,
        ledger: &mut Ledger,
        out: &mut Vec<u8>,
    ) -> Ran {
        ledger.arrived(request, shard);
        let now_ms = unix_ms(now);
        let args: Vec<&[u8]> = request.args().collect();
        let mut ran = Ran::Answered;
        match (request.arg(0).to_ascii_lowercase().as_slice(), &args[1..]) {
            (b"stamp.get", [key]) => ask(&mut self.store, &[b"GET", key], now_ms, out),
            (b"stamp.set", [key, value]) => ask(&mut self.store, &[b"SET", key, value], now_ms, out),
            (b"script" | b"eval" | b"evalsha", _) => match self.scripts.task(&args) {
                Some(Task::Run(words)) => ask(&mut self.store, &words, now_ms, out),
                Some(Task::Say(reply)) => out.extend(reply),
                None => encode::error(out, b"ERR unknown subcommand"),
            },
            (b"command", [_info, name]) => write_command_info(&name.to_ascii_lowercase(), out),
            _ => ran = self.store.run(caller, request, now_ms, out),
        }
        self.idle += 1;
        if self.idle >= REQUESTS_PER_WORK {
            self.idle = 0;
            self.store.work(now_ms);
        }
        ran
    }

    /// A request of `caller` is refused before it is looked at.
    pub(crate) fn refuse(&mut self, caller: CallerId, now: Instant) {
        run(&mut self.store, caller, &[b"nosuchcommand"], unix_ms(now), &mut Vec::new());
    }

    /// The transaction of `caller` is not carried out.
    pub(crate) fn discard(&mut self, caller: CallerId, now: Instant) {
        run(&mut self.store, caller, &[b"DISCARD"], unix_ms(now), &mut Vec::new());
    }

    /// A key of the slot `slot`, if there is one.
    pub(crate) fn key_in(&mut self, slot: u16, now: Instant) -> Option<Vec<u8>> {
        self.keys(now).into_iter().find(|key| cluster::slot(key) == slot)
    }

    /// Moves a key to another node, as MIGRATE does. Returns false if it must wait: see [`Keyspace::put`].
    pub(crate) fn give(&mut self, key: &[u8], to: &mut Keyspace, now: Instant) -> bool {
        let dump = self.dump(key, now);
        let is_given = dump.is_none() || to.put(key, dump.as_ref(), now);
        if is_given {
            self.ask(&[b"DEL", key], now);
        }
        is_given
    }

    /// The value of a key of database 0, if it exists.
    pub(crate) fn dump(&mut self, key: &[u8], now: Instant) -> Option<Dump> {
        let payload = resp::reply::as_bulk(&self.ask(&[b"DUMP", key], now))?.to_vec();
        let expires = self.ask(&[b"PEXPIRETIME", key], now);
        Some(Dump { payload, expires_at_ms: resp::reply::as_integer(&expires).unwrap_or(-1) })
    }

    /// Stores `dump` under `key`. Returns false if it must wait: see [`Dump::can_be_put`].
    pub(crate) fn put(&mut self, key: &[u8], dump: Option<&Dump>, now: Instant) -> bool {
        let Some(dump) = dump else {
            self.ask(&[b"DEL", key], now);
            return true;
        };
        if !dump.can_be_put(now) {
            return false;
        }
        let Dump { payload, expires_at_ms } = dump;
        let at_ms = expires_at_ms.max(&0).to_string();
        let kept = self.ask(&[b"RESTORE", key, at_ms.as_bytes(), payload, b"ABSTTL", b"REPLACE"], now);
        assert_eq!(kept, b"+OK\r\n", "a dump can be restored");
        true
    }

    /// The names of all keys of database 0.
    pub(crate) fn keys(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let keys = self.ask(&[b"KEYS", b"*"], now);
        let keys = resp::reply::elements(&keys).into_iter().flatten().filter_map(resp::reply::as_bulk);
        keys.map(<[u8]>::to_vec).collect()
    }

    /// Somebody has waited long enough.
    pub(crate) fn work(&mut self, now: Instant) {
        self.store.work(unix_ms(now));
    }

    /// The next bytes for a connection other than the one whose request ran.
    pub(crate) fn next_delivery(&mut self) -> Option<Delivery> {
        self.store.next_delivery()
    }

    /// Time at which the next wait ends.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let after_ms = self.store.next_deadline()?.saturating_sub(BEGINNING_MS);
        let at_ms = after_ms.div_ceil(CLOCK_STEP_MS) * CLOCK_STEP_MS;
        Some(Instant::ZERO + Duration::from_millis(at_ms))
    }

    /// Stores `reply`. Returns the previous reply to the same request if it was different.
    pub(crate) fn older_reply(&mut self, request: &Request<'_>, reply: &[u8]) -> Option<Vec<u8>> {
        let words: Vec<&[u8]> = request.args().collect();
        let older = self.last.as_mut()?.insert(words.join(&0), reply.to_vec())?;
        (older != reply).then_some(older)
    }

    /// Asks the store directly, before the world begins and for the checks at its end.
    pub(crate) fn ask(&mut self, words: &[&[u8]], now: Instant) -> Vec<u8> {
        let mut reply = Vec::new();
        ask(&mut self.store, words, unix_ms(now), &mut reply);
        reply
    }

    /// The same for a connection that is there.
    pub(crate) fn ask_as(&mut self, caller: CallerId, words: &[&[u8]], now: Instant) -> Vec<u8> {
        let mut reply = Vec::new();
        run(&mut self.store, caller, words, unix_ms(now), &mut reply);
        reply
    }

    /// All of one key, as [`read_key`] tells it.
    pub(crate) fn read_key(&mut self, database: u8, key: &[u8], now_ms: u64) -> Vec<u8> {
        read_key(&mut self.store, database, key, now_ms)
    }
}

/// All stores have the same seed. A store's replies must not depend on it, and the model uses the same seed to show where they
/// do.
pub(crate) fn new_store() -> Store {
    Store::new(StoreSettings { seed: 42, ..StoreSettings::default() })
}

/// The unix time of all nodes in a world. It advances in large steps, so most requests are sent and answered within one step.
/// The judge then knows the node's time.
pub(crate) fn unix_ms(now: Instant) -> u64 {
    BEGINNING_MS + now.as_nanos() / (CLOCK_STEP_MS * 1_000_000) * CLOCK_STEP_MS
}

/// The unix time at which every world begins.
const BEGINNING_MS: u64 = 1_700_000_000_000;
/// Step of the clock.
pub(crate) const CLOCK_STEP_MS: u64 = 500;

/// Settings of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub database: u8,
    pub resp3: bool,
}

/// Runs a request of these words, in database 0 and in RESP2.
pub(crate) fn ask(store: &mut Store, words: &[&[u8]], now_ms: u64, out: &mut Vec<u8>) {
    ask_in(store, Profile::default(), words, now_ms, out);
}

/// Runs a request of these words.
pub(crate) fn ask_in(store: &mut Store, profile: Profile, words: &[&[u8]], now_ms: u64, out: &mut Vec<u8>) {
    // A connection of its own: nothing that others selected or chose.
    let caller = store.admit();
    if profile.database > 0 {
        let database = profile.database.to_string();
        run(store, caller, &[b"SELECT", database.as_bytes()], now_ms, &mut Vec::new());
    }
    if profile.resp3 {
        run(store, caller, &[b"HELLO", b"3"], now_ms, &mut Vec::new());
    }
    run(store, caller, words, now_ms, out);
    store.dismiss(caller);
}

fn run(store: &mut Store, caller: CallerId, words: &[&[u8]], now_ms: u64, out: &mut Vec<u8>) {
    let (mut bytes, mut spans) = (Vec::new(), Vec::with_capacity(words.len()));
    encode::array_header(&mut bytes, words.len());
    for word in words {
        encode::bulk(&mut bytes, word);
        spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
    }
    store.run(caller, &Request::new(&bytes, &spans), now_ms, out);
}

/// Everything that is visible of a key: type, value and expiry. Equal bytes mean equal keys.
pub(crate) fn read_key(store: &mut Store, database: u8, key: &[u8], now_ms: u64) -> Vec<u8> {
    let profile = Profile { database, ..Profile::default() };
    let mut ask = |words: &[&[u8]], out: &mut Vec<u8>| ask_in(store, profile, words, now_ms, out);
    let mut told = Vec::new();
    ask(&[b"TYPE", key], &mut told);
    let mut value = Vec::new();
    match told.as_slice() {
        b"+string\r\n" => ask(&[b"GET", key], &mut value),
        b"+list\r\n" => ask(&[b"LRANGE", key, b"0", b"-1"], &mut value),
        b"+hash\r\n" => ask(&[b"HGETALL", key], &mut value),
        b"+set\r\n" => ask(&[b"SMEMBERS", key], &mut value),
        b"+zset\r\n" => ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], &mut value),
        _ => {}
    }
    let width = match told.as_slice() {
        b"+hash\r\n" => 2,
        b"+set\r\n" => 1,
        _ => 0,
    };
    told.extend(sorted(&value, width));
    ask(&[b"PEXPIRETIME", key], &mut told);
    told
}

/// A reply whose elements have no order, sorted: elements by `width` (0: unchanged).
pub(crate) fn sorted(reply: &[u8], width: usize) -> Vec<u8> {
    let (Some(elements), true) = (resp::reply::elements(reply), width > 0) else { return reply.to_vec() };
    let elements: Vec<&[u8]> = elements.collect();
    let mut entries: Vec<Vec<u8>> = elements.chunks(width).map(<[&[u8]]>::concat).collect();
    entries.sort_unstable();
    // The unchanged header: an array, a set or a map.
    let header = reply.iter().take_while(|&&byte| byte != b'\n').copied();
    let mut ordered: Vec<u8> = header.collect();
    ordered.extend(entries.concat());
    ordered
}

/// The node has a module with two commands that the proxy's table lacks.
fn write_command_info(name: &[u8], out: &mut Vec<u8>) {
    encode::array_header(out, 1);
    let (arity, flag): (i64, &[u8]) = match name {
        b"stamp.set" => (3, b"write"),
        b"stamp.get" => (2, b"readonly"),
        _ => return out.extend_from_slice(b"*-1\r\n"),
    };
    encode::array_header(out, 6);
    encode::bulk(out, name);
    encode::integer(out, arity);
    encode::array_header(out, 1);
    encode::simple(out, flag);
    [1, 1, 1].iter().for_each(|&place| encode::integer(out, place));
}
