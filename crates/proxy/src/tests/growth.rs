//! The cost of a request grows no faster than its length and than its values. Every command of the table gets its
//! worst arguments at two sizes. The cost includes the client's bytes, the proxy and the stores behind it.
//!
//! Time is CPU time of this thread, the minimum of some tries. The larger size is eight times the smaller and may
//! take [`RATIO_MAX`] times as long. A quadratic command takes 64 times as long.

use crate::testing::Rig;
use crate::{Board, ConnId, CrossShard, Event, Limits, Settings};
use command::{Carry, Command};
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, encode};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{CallerId, Ran, Store, StoreSettings};

/// The smaller number of keys, arguments or elements.
const SMALL: usize = 500;
/// The ratio of the larger size to the smaller.
const FACTOR: usize = 8;
/// A linear command takes [`FACTOR`] times as long; a quadratic one, its square.
const RATIO_MAX: u32 = 30;
/// A shorter time is no concern, however it grows.
const HARMLESS: Duration = Duration::from_millis(10);
/// The number of tries before growth is believed.
const TRIES: usize = 6;

/// Sequences of requests with the largest work for a command. The last request of each is measured; earlier ones make
/// its values.
///
/// `{a#,b#}` stands for `a0 b0 a1 b1 …`, `N` for their number, and `L` for a text of sixteen times as many bytes. A
/// request behind a `*` is sent that many times. `<t>` is a hash tag.
const WORST: &[&[&str]] = &[
    // Keys.
    &["MSET {k#,v}", "DEL {k#}"],
    &["MSET {k#,v}", "UNLINK {k#}"],
    &["MSET {k#,v}", "EXISTS {k#}"],
    &["MSET {k#,v}", "TOUCH {k#}"],
    &["MSET {k#,v}", "MGET {k#}"],
    &["MSET {k#,v}"],
    &["MGET {k}"],
    &["MSETNX {k#,v}"],
    &["MSETNX {<t>k#,v}"],
    &["MSET {k#,v}", "KEYS *"],
    &["MSET {k#,v}", "SCAN 0 COUNT N"],
    &["MSET {k#,v}", "FLUSHALL"],
    &["MSET {k#,v}", "RANDOMKEY"],
    &["WATCH {<t>k#}"],
    &["SADD s {m#}", "DUMP s"],
    &["SADD <t>s {m#}", "COPY <t>s <t>d"],
    &["SADD s {m#}", "COPY s d REPLACE"],
    &["SADD s {m#}", "RENAME s d"],
    &["SADD s {m#}", "RENAMENX s d"],
    &["SADD s {m#}", "MEMORY USAGE s SAMPLES 0"],
    &["SADD s {m#}", "OBJECT ENCODING s"],
    &["SADD s {m#}", "EXPIRE s 100"],
    &["RPUSH l {#}", "SORT l"],
    &["RPUSH l {e#}", "SORT l ALPHA DESC"],
    &["RPUSH <t>l {#}", "SORT <t>l STORE <t>d"],
    &["RPUSH <t>l {#}", "SORT <t>l LIMIT 0 1 {GET,#}"],
    // Strings.
    &["SET s L", "APPEND s L"],
    &["SET s L", "GETRANGE s 0 -1"],
    &["SET s L", "SETRANGE s 5 L"],
    &["SET s L", "GETSET s L"],
    &["SET s L", "STRLEN s"],
    &["SET s L", "BITCOUNT s"],
    &["SET s L", "BITPOS s 0"],
    &["SET s L", "BITOP NOT d s"],
    &["BITOP OR d {k#}"],
    &["BITFIELD b {SET,u8,#,1}"],
    &["BITFIELD_RO b {GET,u8,#}"],
    &["SET <t>s L", "SET <t>o L", "LCS <t>s <t>o LEN"],
    &["SET s L", "PSETEX s 1000 L"],
    // Sets.
    &["SADD s {m#}"],
    &["SADD s {#}"],
    &["SADD s {m#}", "SREM s {m#}"],
    &["SADD s {m#}", "SMISMEMBER s {m#}"],
    &["SADD s {m#}", "SMEMBERS s"],
    &["SADD s {m#}", "SPOP s N"],
    &["SADD s {m#}", "SRANDMEMBER s N"],
    &["SADD s {m#}", "SRANDMEMBER s -N"],
    &["SADD s {m#}", "SSCAN s 0 COUNT N"],
    &["SUNION {k#}"],
    &["SUNION {<t>k#}"],
    // The same value many times. One node takes as long as Redis, which also reads it each time. Over several shards,
    // shardis refuses it.
    &["SADD s {m#}", "SUNION {s} k1 k2 k3 k4 k5"],
    &["SADD <t>s {m#}", "SADD <t>o {m#}", "SINTER <t>s <t>o"],
    &["SADD s {m#}", "SADD o {m#}", "SINTER s o"],
    &["SADD s {m#}", "SADD o {x#}", "SUNIONSTORE d s o"],
    &["SADD s {m#}", "SDIFF {k#} s"],
    &["SDIFFSTORE d {k#}"],
    &["SINTERSTORE d {k#}"],
    &["SINTERCARD N {k#}"],
    &["SADD s {m#}", "SADD o {m#}", "SMOVE s o m1"],
    // Hashes.
    &["HSET h {f#,v}"],
    &["HMSET h {f#,v}"],
    &["HSET h {f#,v}", "HDEL h {f#}"],
    &["HSET h {f#,v}", "HMGET h {f#}"],
    &["HSET h {f#,v}", "HGETALL h"],
    &["HSET h {f#,v}", "HVALS h"],
    &["HSET h {f#,v}", "HKEYS h"],
    &["HSET h {f#,v}", "HRANDFIELD h -N WITHVALUES"],
    &["HSET h {f#,v}", "HRANDFIELD h N"],
    &["HSET h {f#,v}", "HSCAN h 0 COUNT N"],
    // Lists.
    &["LPUSH l {e#}"],
    &["RPUSH l {e#}"],
    &["RPUSH l {e#}", "LPUSHX l {e#}"],
    &["RPUSH l {e#}", "LRANGE l 0 -1"],
    &["RPUSH l {e#}", "LREM l 0 e"],
    &["RPUSH l {e}", "LREM l 0 e"],
    &["RPUSH l {e#}", "LINSERT l BEFORE none x"],
    &["RPUSH l {e}", "LPOS l e COUNT 0"],
    &["RPUSH l {e#}", "LTRIM l 1 1"],
    &["RPUSH l {e#}", "LPOP l N"],
    &["RPUSH l {e#}", "RPOP l N"],
    &["LMPOP N {<t>k#} LEFT COUNT N"],
    &["BLPOP {<t>k#} 1"],
    &["BLMPOP 1 N {<t>k#} LEFT"],
    &["RPUSH l {e#}", "LMOVE l d LEFT LEFT"],
    &["RPUSH l {e#}", "RPOPLPUSH l d"],
    // Sorted sets.
    &["ZADD z {#,m#}"],
    &["ZADD z {1,m#}"],
    &["ZADD z {#,m#}", "ZREM z {m#}"],
    &["ZADD z {#,m#}", "ZMSCORE z {m#}"],
    &["ZADD z {#,m#}", "ZRANGE z 0 -1 WITHSCORES"],
    &["ZADD z {#,m#}", "ZRANGE z -inf +inf BYSCORE"],
    &["ZADD z {#,m#}", "ZRANGEBYSCORE z -inf +inf LIMIT N 1"],
    &["ZADD z {1,m#}", "ZRANGEBYLEX z - +"],
    &["ZADD z {1,m#}", "ZLEXCOUNT z - +"],
    &["ZADD z {#,m#}", "ZCOUNT z -inf +inf"],
    &["ZADD <t>z {#,m#}", "ZRANGESTORE <t>d <t>z 0 -1"],
    &["ZADD z {#,m#}", "ZRANGESTORE d z 0 -1"],
    &["ZADD z {#,m#}", "ZREMRANGEBYRANK z 0 -1"],
    &["ZADD z {#,m#}", "ZREMRANGEBYSCORE z -inf +inf"],
    &["ZADD z {1,m#}", "ZREMRANGEBYLEX z - +"],
    &["ZADD z {#,m#}", "ZPOPMIN z N"],
    &["ZADD z {#,m#}", "ZPOPMAX z N"],
    &["ZADD z {#,m#}", "ZRANDMEMBER z -N WITHSCORES"],
    &["ZADD z {#,m#}", "ZRANDMEMBER z N"],
    &["ZADD z {#,m#}", "ZSCAN z 0 COUNT N"],
    &["ZUNION N {k#} WEIGHTS {1}"],
    &["ZINTER N {k#}"],
    &["ZDIFF N {k#}"],
    &["ZADD z {#,m#}", "ZADD o {#,m#}", "ZINTERSTORE d 2 z o"],
    &["ZADD z {#,m#}", "ZADD o {#,x#}", "ZUNIONSTORE d 2 z o"],
    &["ZADD z {#,m#}", "ZADD o {#,x#}", "ZDIFFSTORE d 2 z o"],
    &["ZINTERCARD N {k#}"],
    &["ZMPOP N {<t>k#} MIN"],
    &["BZPOPMIN {<t>k#} 1"],
    &["BZMPOP 1 N {<t>k#} MIN"],
    // Places.
    &["GEOADD g {1.#,2.#,m#}"],
    &["GEOADD g {1.#,2.#,m#}", "GEOPOS g {m#}"],
    &["GEOADD g {1.#,2.#,m#}", "GEOHASH g {m#}"],
    &["GEOADD g {1.#,2.#,m#}", "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 9999 km ASC"],
    &["GEOADD g {1.#,2.#,m#}", "GEORADIUS g 1 2 9999 km WITHDIST"],
    &["GEOADD g {1.#,2.#,m#}", "GEOSEARCHSTORE d g FROMLONLAT 1 2 BYRADIUS 9999 km"],
    // HyperLogLogs.
    &["PFADD p {m#}"],
    &["PFADD p {m#}", "PFCOUNT p {k#}"],
    &["PFMERGE d {k#}"],
    &["PFADD p {m#}", "PFMERGE k1 {p} k2 k3 k4 k5"],
    // Streams.
    &["XADD x * {f#,v}"],
    &["*XADD x #-1 f v", "XRANGE x - +"],
    &["*XADD x #-1 f v", "XREVRANGE x + -"],
    &["*XADD x #-1 f v", "XDEL x {#-1}"],
    &["*XADD x #-1 f v", "XTRIM x MAXLEN 1"],
    &["*XADD x #-1 f v", "XREAD STREAMS x 0"],
    &["XREAD STREAMS {k#} {0}"],
    &["XREAD BLOCK 1 STREAMS {k#} {0}"],
    &["XREAD STREAMS {<t>k#} {0}"],
    &["*XADD x #-1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >"],
    &["*XADD x #-1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >", "XACK x g {#-1}"],
    &["*XADD x #-1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >", "XPENDING x g - + N"],
    &["*XADD x #-1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >", "XCLAIM x g d 0 {#-1}"],
    &[
        "*XADD x #-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "XAUTOCLAIM x g d 0 0 COUNT N",
    ],
    &[
        "*XADD x #-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "XINFO STREAM x FULL COUNT 0",
    ],
    &[
        "*XADD x #-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "XGROUP DELCONSUMER x g c",
    ],
    &["XADD x 1-1 f v", "*XGROUP CREATE x g# 0", "XINFO GROUPS x"],
    &["XADD x 1-1 f v", "XGROUP CREATE x g 0", "*XGROUP CREATECONSUMER x g c#", "XINFO CONSUMERS x g"],
    // Messages.
    &["HELLO 3", "SUBSCRIBE {c#}"],
    &["HELLO 3", "PSUBSCRIBE {c#*}"],
    &["HELLO 3", "SSUBSCRIBE {c#}"],
    &["HELLO 3", "SUBSCRIBE {c#}", "UNSUBSCRIBE"],
    &["HELLO 3", "SUBSCRIBE {c#}", "UNSUBSCRIBE {c#}"],
    &["HELLO 3", "PSUBSCRIBE {c#*}", "PUNSUBSCRIBE {c#*}"],
    &["HELLO 3", "PSUBSCRIBE {c#*}", "PUBLISH c1 x"],
    &["HELLO 3", "SUBSCRIBE {c#}", "PUBSUB CHANNELS"],
    &["HELLO 3", "SUBSCRIBE {c#}", "PUBSUB NUMSUB {c#}"],
    &["HELLO 3", "SUBSCRIBE {c#}", "RESET"],
    // Of the proxy.
    &["HELLO 3", "CLIENT TRACKING ON BCAST {PREFIX,p#:}"],
    &["HELLO 3", "CLIENT TRACKING ON BCAST {PREFIX,p#:}", "CLIENT TRACKING ON BCAST {PREFIX,q#:}"],
    &["HELLO 3", "CLIENT TRACKING ON BCAST {PREFIX,p#:}", "CLIENT TRACKINGINFO"],
    &["HELLO 3", "CLIENT TRACKING ON BCAST {PREFIX,p#:}", "MSET {p#:,v}"],
    &["HELLO 3", "CLIENT TRACKING ON", "MGET {k#}"],
    &["HELLO 3", "CLIENT TRACKING ON", "MGET {k#}", "MSET {k#,v}"],
    &["CLIENT LIST ID {1}"],
    &["CLIENT LIST ID {#}"],
    &["CLIENT KILL {ID,#1}"],
    &["CLIENT SETNAME L"],
    &["COMMAND INFO {get}"],
    &["COMMAND GETKEYS MSET {k#,v}"],
    &["COMMAND GETKEYSANDFLAGS MSET {k#,v}"],
    &["COMMAND LIST FILTERBY PATTERN L"],
    &["CONFIG GET {p#}"],
    &["CONFIG GET L"],
    &["INFO {s#}"],
    &["ACL SETUSER u {~k#}"],
    &["ACL SETUSER u {&c#}"],
    &["ACL SETUSER u {+get,-get}"],
    &["ACL SETUSER u {+get|a#}"],
    &["ACL SETUSER u {+get|a#,+set}"],
    &["ACL SETUSER u on nopass ~* {+get|a#}", "AUTH u x", "*GET a1"],
    &["ACL SETUSER u {(~k#)}"],
    &["ACL SETUSER u {>password#}"],
    &["ACL SETUSER u +@all {~k#}", "ACL GETUSER u"],
    &["ACL SETUSER u +@all {~k#}", "ACL LIST"],
    &["ACL SETUSER u +@all {~k#}", "ACL DRYRUN u GET none"],
    &["*ACL SETUSER u#", "ACL LIST"],
    &["*ACL SETUSER u#", "ACL DELUSER {u#}"],
    &["LATENCY RESET {e#}"],
    &["SCRIPT EXISTS {0123456789012345678901234567890123456789}"],
    // Many requests in one go.
    &["*GET k#"],
    &["*PING"],
    &["*CLIENT SETNAME n#"],
    &["MULTI", "*GET <t>k#", "EXEC"],
    &["MULTI", "*CLIENT ID", "EXEC"],
    &["MULTI", "GET <t>k", "*CLIENT SETNAME n#", "EXEC"],
    &["MULTI", "*GET <t>k#", "*CLIENT ID", "DISCARD"],
    &["MULTI", "*SET <t>k# L", "EXEC"],
    &["*EVAL none 0"],
    &["*SELECT 1", "*GET k#"],
];

/// The words of `template` at size `count`. `at` is the number of the request if it is sent many times.
fn words(template: &str, count: usize, at: usize) -> Vec<Vec<u8>> {
    let long = "a".repeat(16 * count);
    let mut words = Vec::new();
    let plain = |word: &str, at: usize| {
        let word = word.replace('#', &at.to_string()).replace('<', "{").replace('>', "}");
        word.into_bytes()
    };
    for word in template.split(' ') {
        match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
            Some(each) => {
                words.extend((0..count).flat_map(|at| each.split(',').map(move |word| plain(word, at))))
            }
            None if word == "N" => words.push(count.to_string().into_bytes()),
            None if word == "-N" => words.push(format!("-{count}").into_bytes()),
            None if word == "L" => words.push(long.clone().into_bytes()),
            None => words.push(plain(word, at)),
        }
    }
    words
}

/// The bytes of `template` at size `count`.
fn bytes(template: &str, count: usize) -> Vec<u8> {
    let (template, times) = match template.strip_prefix('*') {
        Some(template) => (template, count),
        None => (template, 1),
    };
    let mut bytes = Vec::new();
    for at in 0..times {
        let words = words(template, count, at);
        encode::request(&mut bytes, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    bytes
}

/// A connection to a node.
struct Link {
    node: usize,
    caller: CallerId,
    input: Vec<u8>,
}

/// A proxy over stores.
struct Service {
    rig: Rig,
    stores: Vec<Store>,
    links: BTreeMap<ConnId, Link>,
}

impl Service {
    fn new() -> Service {
        let settings =
            Settings { cross_shard: CrossShard::Emulate, allow_admin: true, ..Settings::default() };
        let board = Arc::new(Board::new(1));
        let rig = Rig::over("127.0.0.1:7000,127.0.0.1:7001", Limits::default(), settings, &board);
        let stores =
            (0..2).map(|seed| Store::new(StoreSettings { seed, ..StoreSettings::default() })).collect();
        let mut service = Service { rig, stores, links: BTreeMap::new() };
        service.settle();
        service
    }

    /// Lets nodes answer until there is nothing more to send.
    fn settle(&mut self) {
        loop {
            self.rig.proxy.handle_timeouts(self.rig.now);
            self.rig.perform();
            let is_idle = self.rig.conns().into_iter().all(|(node, conn)| self.serve(node, conn));
            if is_idle && !self.deliver() {
                return;
            }
        }
    }

    /// Answers the output of the proxy on `conn`. Returns true if there was none.
    fn serve(&mut self, node: u32, conn: ConnId) -> bool {
        let node = node as usize;
        let mut is_idle = true;
        if !self.links.contains_key(&conn) {
            let caller = self.stores[node].admit();
            self.links.insert(conn, Link { node, caller, input: Vec::new() });
            self.rig.event(Event::Connected { conn });
            is_idle = false;
        }
        let asked = self.rig.taken_bytes(conn);
        let Some(link) = self.links.get_mut(&conn).filter(|_| !asked.is_empty()) else { return is_idle };
        link.input.extend_from_slice(&asked);
        let (mut replies, mut at, mut spans) = (Vec::new(), 0, Vec::new());
        while let Ok(Scanned::Request { len }) =
            Scanner::default().scan(&link.input[at..], &RequestLimits::default(), &mut spans, &mut Vec::new())
        {
            let request = Request::new(&link.input[at..at + len], &spans);
            let ran = self.stores[node].run(link.caller, &request, 1_000_000, &mut replies);
            at += len;
            if ran == Ran::Waits {
                break;
            }
        }
        link.input.drain(..at);
        if !replies.is_empty() {
            self.rig.event(Event::Received { conn, bytes: &replies });
        }
        false
    }

    /// Sends the output of stores for connections that did not ask. Returns true if there was any.
    fn deliver(&mut self) -> bool {
        let mut any = false;
        for node in 0..self.stores.len() {
            while let Some(delivery) = self.stores[node].next_delivery() {
                any = true;
                let to = |link: &&Link| link.node == node && link.caller == delivery.to;
                let conn = self.links.iter().find(|(_, link)| to(link)).map(|(conn, _)| *conn);
                if let Some(conn) = conn {
                    self.rig.event(Event::Received { conn, bytes: &delivery.bytes });
                }
            }
        }
        any
    }

    fn ask(&mut self, client: ConnId, bytes: &[u8]) {
        self.rig.event(Event::Received { conn: client, bytes });
        self.settle();
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time that the last of `lines` takes at size `count`, and the beginning of its reply.
fn measure(lines: &[&str], count: usize) -> (Duration, String) {
    let mut service = Service::new();
    let client = service.rig.client();
    let (last, before) = lines.split_last().expect("there is a request");
    for line in before {
        service.ask(client, &bytes(line, count));
    }
    service.rig.taken_bytes(client);
    let bytes = bytes(last, count);
    let begun = cpu_time();
    service.ask(client, &bytes);
    let taken = cpu_time() - begun;
    let reply = service.rig.taken(client);
    (taken, reply.chars().take(70).collect())
}

/// The complaint if `lines` grow too fast.
fn growth(lines: &[&str]) -> Option<String> {
    let (mut small, mut large) = (Duration::MAX, Duration::MAX);
    let mut reply = String::new();
    for _ in 0..TRIES {
        let (taken, told) = measure(lines, SMALL * FACTOR);
        (large, reply) = (large.min(taken), told);
        if large < HARMLESS {
            return None;
        }
        small = small.min(measure(lines, SMALL).0);
        if large < small * RATIO_MAX {
            return None;
        }
    }
    Some(format!("{lines:?}: {small:?} and {large:?} at {FACTOR} times the size ({reply})"))
}

/// Shapes of requests that any command may get, valid or not.
fn shapes(command: &Command) -> [String; 3] {
    let name = command.name.replace('|', " ");
    let fixed = "1 ".repeat((command.arity.unsigned_abs() as usize).saturating_sub(2));
    [format!("{name} {{a#}}"), format!("{name} {fixed}L"), format!("{name} k {{#,a#}}")]
}

#[test]
fn no_command_costs_more_than_in_proportion_to_its_arguments() {
    let all = command::all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()));
    let mut too_fast = Vec::new();
    for command in all.filter(|command| command.carry != Carry::Container) {
        too_fast.extend(shapes(command).iter().filter_map(|line| growth(&[line])));
    }
    assert!(too_fast.is_empty(), "{too_fast:#?}");
}

#[test]
fn no_command_costs_more_than_in_proportion_to_its_values() {
    let too_fast: Vec<String> = WORST.iter().filter_map(|lines| growth(lines)).collect();
    assert!(too_fast.is_empty(), "{too_fast:#?}");
}
