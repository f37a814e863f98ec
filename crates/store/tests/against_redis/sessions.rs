//! Many connections in lockstep, to a store and to a real Redis: transactions, waiting, publish and subscribe. After each
//! request every connection must have got the same bytes from both.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use resp::{Request, Span, encode, reply};
use stdx::Prng;
use store::{CallerId, Ran, Store, StoreSettings};

use crate::node::Node;
use crate::{FIRST_SEED, elements, now_ms, number_from, requests, without_id};

/// Requests per run: some seconds.
const REQUESTS: u64 = 60_000;

/// Requests after which connections and databases start anew.
const REQUESTS_PER_ROUND: u64 = 300;

const CONNECTIONS: usize = 5;

/// The last of them hears keyspace notifications.
const LISTENER: usize = CONNECTIONS - 1;

/// Time after which an expected reply counts as missing.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One connection to each.
struct Pair {
    ours: CallerId,
    our_number: i64,
    theirs: TcpStream,
    their_number: i64,
    waits: bool,
    /// Bytes from the store that were not compared yet.
    expected: Vec<u8>,
}

struct World {
    store: Store,
    node: Node,
    port: u16,
    pairs: Vec<Pair>,
}

#[test]
fn waiting_connections_are_served_as_by_redis() {
    let Some(mut world) = World::start() else { return };
    world.begin_anew();
    for line in WAITS.lines().filter(|line| !line.is_empty()) {
        let (at, request) = line.split_once(' ').expect("a connection and its request");
        let words: Vec<Vec<u8>> = request.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let different = world.step(at.parse().expect("a number"), &words, 0);
        assert_eq!(different, None, "{line}");
    }
}

/// A connection and its requests. All waits have ended when another scenario begins.
const WAITS: &str = "
0 BLPOP l 0
1 BRPOP l other 0
2 RPUSH l a b c
2 LRANGE l 0 -1
2 DEL l

0 SELECT 1
0 BLPOP l 0
1 BLPOP l 0
2 SWAPDB 0 1
2 RPUSH l for-database-0
2 SELECT 1
2 RPUSH l for-database-1
2 SELECT 0
0 SELECT 0

0 BLPOP l 0
2 SELECT 1
2 RPUSH l swapped
2 SWAPDB 0 1
2 SELECT 0

0 BLPOP l 0
2 MULTI
2 RPUSH l a
2 DEL l
2 RPUSH l b
2 EXEC

0 BLMOVE l m LEFT RIGHT 0
1 BLMOVE m l LEFT RIGHT 0
3 BLPOP l 0
2 RPUSH l round

2 SET m text
0 BLMOVE l m LEFT RIGHT 0
2 RPUSH l stays
2 LRANGE l 0 -1
2 FLUSHALL

0 BLPOP k 0
1 BZPOPMIN k 0
2 SET k text
2 DEL k
2 ZADD k 1 member
2 RPUSH k element
2 SADD k x
2 ZADD z 1 a
2 RENAME z k
2 FLUSHALL

0 BLMPOP 0 2 l m LEFT COUNT 2
1 BZMPOP 0 1 z MAX COUNT 5
2 RPUSH m a b c
2 ZADD z 1 a 2 b
2 FLUSHALL

2 XGROUP CREATE x g $ MKSTREAM
0 XREADGROUP GROUP g one BLOCK 0 STREAMS x >
1 XREADGROUP GROUP g two BLOCK 0 NOACK STREAMS x >
3 XREAD BLOCK 0 STREAMS x $
2 XADD x 1-1 a b
2 XADD x 1-2 a b
2 XPENDING x g
0 XREADGROUP GROUP g one BLOCK 0 STREAMS x >
3 XREAD BLOCK 0 STREAMS x $
2 XGROUP DESTROY x g
2 XADD x 1-3 c d
2 XGROUP CREATE x g $
0 XREADGROUP GROUP g one BLOCK 0 STREAMS x >
2 DEL x
2 XGROUP CREATE x g $ MKSTREAM
0 XREADGROUP GROUP g one BLOCK 0 STREAMS x >
2 SET x text
2 DEL x
2 XGROUP CREATE x g $ MKSTREAM
0 XREADGROUP GROUP g one BLOCK 0 STREAMS x >
2 FLUSHDB
2 XGROUP CREATE x g $ MKSTREAM
0 XREADGROUP GROUP g one BLOCK 0 STREAMS x >
2 SWAPDB 0 1
2 FLUSHALL
2 XGROUP CREATE x g $ MKSTREAM
0 XREADGROUP GROUP g one BLOCK 0 STREAMS x >
2 RENAME x y
2 FLUSHALL

0 HELLO 3
0 BZPOPMIN z 0
2 ZADD z 1.5 a
0 XREAD BLOCK 0 STREAMS x $
2 XADD x 1-1 a b
0 HELLO 2
";

#[test]
fn many_connections_get_the_replies_of_redis() {
    let Some(mut world) = World::start() else { return };
    let seed = number_from("SHARDIS_SEED").unwrap_or(FIRST_SEED);
    println!("SHARDIS_SEED={seed} cargo test -p store --test against_redis");
    let mut prng = Prng::new(seed);
    let mut log: Vec<String> = Vec::new();
    for number in 0..number_from("SHARDIS_REQUESTS").unwrap_or(REQUESTS) {
        if number % REQUESTS_PER_ROUND == 0 {
            world.begin_anew();
            log.clear();
        }
        let at = match world.choose(&mut prng) {
            Some(at) => at,
            None => {
                let at = prng.below(LISTENER as u64) as usize;
                world.reconnect(at);
                log.push(format!("{at}: a new connection"));
                at
            }
        };
        let mut words = requests::of_sessions(&mut prng);
        if words[0] == b"SWAPDB" && world.pairs.iter().any(|pair| pair.waits) {
            // Which of several keys is looked at first is chance in Redis.
            words = vec![b"PING".to_vec()];
        }
        log.push(format!(
            "{at}: {}",
            words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
        ));
        let other = prng.below(CONNECTIONS as u64) as usize;
        let different = world.step(at, &words, other);
        if let Some((at, got, expected)) = different {
            panic!(
                "request {number} of seed {seed}: connection {at}\n got: {got:?}\n not: {expected:?}\n{}",
                log.join("\n")
            );
        }
    }
}

impl World {
    fn start() -> Option<World> {
        let mut node = Node::start_7_0()?;
        let port = node.ask_raw(&[b"CONFIG", b"GET", b"port"]);
        let port =
            elements(&port).and_then(|found| reply::as_bulk(found[1]).map(<[u8]>::to_vec)).expect("a port");
        let port = String::from_utf8(port).expect("digits").parse().expect("a port");
        let store = Store::new(StoreSettings { seed: FIRST_SEED, ..StoreSettings::default() });
        Some(World { store, node, port, pairs: Vec::new() })
    }

    fn begin_anew(&mut self) {
        while let Some(pair) = self.pairs.pop() {
            self.disconnect(pair);
        }
        for words in [&[&b"FLUSHALL"[..]][..], &[b"CONFIG", b"SET", b"notify-keyspace-events", b""]] {
            self.node.ask_raw(words);
            let caller = self.store.admit();
            run(&mut self.store, caller, words, &mut Vec::new());
            self.store.dismiss(caller);
        }
        (0..CONNECTIONS).for_each(|_| {
            let pair = self.connect();
            self.pairs.push(pair);
        });
        // The listener does nothing but receive events: in RESP3, Redis 7.0 mixes them into the receiver's replies.
        let different = self.step(LISTENER, &[b"PSUBSCRIBE".to_vec(), b"__key*".to_vec()], LISTENER);
        assert_eq!(different, None);
    }

    fn connect(&mut self) -> Pair {
        let theirs = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("the node listens");
        theirs.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let ours = self.store.admit();
        let mut out = Vec::new();
        run(&mut self.store, ours, &[b"CLIENT", b"ID"], &mut out);
        let our_number = reply::as_integer(&out).expect("a number");
        let mut pair = Pair { ours, our_number, theirs, their_number: 0, waits: false, expected: vec![0; 4] };
        encode::request(&mut out, &[b"CLIENT", b"ID"]);
        send(&mut pair.theirs, &[b"CLIENT", b"ID"]);
        let mut got = Vec::new();
        while !got.ends_with(b"\n") {
            let mut piece = [0; 64];
            let len = pair.theirs.read(&mut piece).expect("a number");
            got.extend_from_slice(&piece[..len]);
        }
        pair.their_number = reply::as_integer(&got).expect("a number");
        pair.expected.clear();
        pair
    }

    /// Ends a connection on both sides, and returns once the node has noticed.
    fn disconnect(&mut self, pair: Pair) {
        self.store.dismiss(pair.ours);
        drop(pair.theirs);
        while self.describe(pair.their_number).is_some() {}
    }

    fn reconnect(&mut self, at: usize) {
        let fresh = self.connect();
        let old = std::mem::replace(&mut self.pairs[at], fresh);
        self.disconnect(old);
    }

    /// The node's description of a connection.
    fn describe(&mut self, number: i64) -> Option<String> {
        let list = self.node.ask_raw(&[b"CLIENT", b"LIST", b"ID", number.to_string().as_bytes()]);
        let text = reply::as_bulk(&list).map(|text| String::from_utf8_lossy(text).into_owned());
        text.filter(|text| !text.is_empty())
    }

    /// A connection that does not wait.
    fn choose(&self, prng: &mut Prng) -> Option<usize> {
        let free: Vec<usize> =
            (0..self.pairs.len()).filter(|&at| at != LISTENER && !self.pairs[at].waits).collect();
        (!free.is_empty()).then(|| *prng.pick(&free[..]))
    }

    /// Runs a request on both sides. Returns the connection whose bytes differ, with those of each side.
    fn step(
        &mut self,
        at: usize,
        words: &[Vec<u8>],
        other: usize,
    ) -> Option<(usize, Vec<String>, Vec<String>)> {
        let numbers = (self.pairs[other].our_number, self.pairs[other].their_number);
        let fill = |number: i64| -> Vec<Vec<u8>> {
            let fill = |word: &Vec<u8>| match word.as_slice() {
                b"CLIENT" if words.len() > 2 => number.to_string().into_bytes(),
                _ => word.clone(),
            };
            let (first, rest) = words.split_first().expect("a name");
            std::iter::once(first.clone()).chain(rest.iter().map(fill)).collect()
        };
        let (ours, theirs) = (fill(numbers.0), fill(numbers.1));
        let mut out = Vec::new();
        let ours: Vec<&[u8]> = ours.iter().map(Vec::as_slice).collect();
        let ran = run(&mut self.store, self.pairs[at].ours, &ours, &mut out);
        self.pairs[at].expected.extend(out);
        self.pairs[at].waits = ran == Ran::Waits;
        while let Some(delivery) = self.store.next_delivery() {
            let pair = self.pairs.iter_mut().find(|pair| pair.ours == delivery.to).expect("it is there");
            pair.expected.extend(delivery.bytes);
            pair.waits &= !delivery.ends_wait;
        }
        send(&mut self.pairs[at].theirs, &theirs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        if self.pairs[at].waits {
            // Nothing comes that would tell that the node has got so far.
            let number = self.pairs[at].their_number;
            while !self.describe(number).is_some_and(|text| has_flag(&text, 'b')) {
                if let Some(got) = peek(&mut self.pairs[at].theirs) {
                    return Some((at, vec!["it waits".to_owned()], vec![got.escape_ascii().to_string()]));
                }
            }
        }
        let got: Vec<Vec<u8>> = self.pairs.iter_mut().map(read_expected).collect();
        // After this reply, all bytes that the request caused have been sent.
        self.node.ask_raw(&[b"PING"]);
        for (at, (pair, mut got)) in self.pairs.iter_mut().zip(got).enumerate() {
            got.extend(peek(&mut pair.theirs).unwrap_or_default());
            let expected = std::mem::take(&mut pair.expected);
            let (ours, theirs) = (normal(&expected), normal(&got));
            if ours != theirs {
                return Some((at, ours, theirs));
            }
        }
        None
    }
}

/// Whether CLIENT LIST shows a connection with a flag.
fn has_flag(text: &str, flag: char) -> bool {
    let mut fields = text.split(' ').filter_map(|field| field.strip_prefix("flags="));
    fields.any(|flags| flags.contains(flag))
}

fn run(store: &mut Store, caller: CallerId, words: &[&[u8]], out: &mut Vec<u8>) -> Ran {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    encode::array_header(&mut bytes, words.len());
    for word in words {
        encode::bulk(&mut bytes, word);
        spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
    }
    store.run(caller, &Request::new(&bytes, &spans), now_ms(), out)
}

fn send(stream: &mut TcpStream, words: &[&[u8]]) {
    let mut request = Vec::new();
    encode::request(&mut request, words);
    stream.write_all(&request).expect("the node takes the request");
}

/// As many replies as the store gave, or those that come at all.
fn read_expected(pair: &mut Pair) -> Vec<u8> {
    let (mut got, mut piece) = (Vec::new(), vec![0; 65_536]);
    let wanted = replies(&pair.expected).len();
    while replies(&got).len() < wanted {
        match pair.theirs.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&piece[..count]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => break,
            Err(error) => panic!("{error}"),
        }
    }
    got
}

/// Whole replies, and the rest.
fn replies(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut replies, mut rest) = (Vec::new(), bytes);
    while let Some(len) = Some(reply::first_len(rest)).filter(|len| *len > 0) {
        let (one, behind) = rest.split_at(len);
        replies.push(one);
        rest = behind;
    }
    replies
}

/// Bytes that arrived without being expected.
fn peek(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 65_536];
    stream.set_nonblocking(true).expect("a socket");
    let got = stream.read(&mut bytes);
    stream.set_nonblocking(false).expect("a socket");
    bytes.truncate(got.unwrap_or_default());
    (!bytes.is_empty()).then_some(bytes)
}

/// The bytes of one connection, reply by reply. Parts without an order in Redis are sorted.
fn normal(bytes: &[u8]) -> Vec<String> {
    let shown = |one: &[u8]| {
        let text = without_id(one);
        let is_unknown =
            text.starts_with("-ERR unknown command") || text.contains("not in the embedded store");
        if is_unknown { "unknown".to_owned() } else { text }
    };
    let mut replies: Vec<String> = replies(bytes).into_iter().map(shown).collect();
    let is_push = |text: &String| text.contains("message");
    if replies.iter().any(|text| text.contains("unsubscribe")) {
        // From everything, it is in an order that is chance; the counts go with the places.
        let mut lines: Vec<String> =
            replies.iter().flat_map(|reply| reply.split("\\r\\n")).map(str::to_owned).collect();
        lines.sort();
        return lines;
    }
    if replies.iter().any(is_push) {
        replies.sort();
    }
    replies
}
