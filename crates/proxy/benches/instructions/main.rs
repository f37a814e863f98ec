//! The number of instructions of a request, part by part. `cargo xtask instructions` runs each part under valgrind
//! and compares the counts with `bench/instructions.txt`.
//!
//! A count does not depend on the machine's load, so it shows a change of a few per cent. It shows neither cache
//! misses nor system calls; `bench/README.md` describes the measurements of time.
//!
//! With the name of a part as its argument, the program runs that part; otherwise it prints all names. Callgrind
//! counts within [`counted`] alone, without making the part's input and dropping its output.

mod world;

use std::hint::black_box;

use command::Resolved;
use resp::request::{RequestLimits, Scanned};
use resp::{Request, Span, reply, request};
use topology::Topology;

use world::{Round, by_slots, cluster, request_of, topology};

/// All parts: their names, and a function that runs each once. A process runs only one of them, because the
/// allocator's state after another would change the count.
const PARTS: &[(&str, fn())] = &[
    ("parse_requests.get", || drop(counted(parse_requests, requests("GET key:000001", 1)))),
    ("parse_requests.get_100", || drop(counted(parse_requests, requests("GET key:000001", 100)))),
    ("parse_requests.set", || drop(counted(parse_requests, requests("SET key:000001 xxx", 1)))),
    ("parse_requests.mset", || {
        drop(counted(parse_requests, requests("MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10", 1)))
    }),
    ("parse_replies.bulk", || drop(counted(parse_replies, b"$3\r\nxxx\r\n".to_vec()))),
    ("parse_replies.ok", || drop(counted(parse_replies, b"+OK\r\n".to_vec()))),
    ("parse_replies.bulk_100", || drop(counted(parse_replies, b"$3\r\nxxx\r\n".repeat(100)))),
    ("parse_replies.array_of_10", || {
        drop(counted(parse_replies, [&b"*10\r\n"[..], &b"$3\r\nxxx\r\n".repeat(10)].concat()))
    }),
    ("route.get", || drop(counted(route, scanned("GET key:000001")))),
    ("route.get_tagged", || drop(counted(route, scanned("GET user{42}")))),
    ("route.set", || drop(counted(route, scanned("SET key:000001 xxx")))),
    ("route.object", || drop(counted(route, scanned("OBJECT ENCODING key:000001")))),
    ("route.mget", || {
        drop(counted(
            route,
            scanned("MGET key:01 key:02 key:03 key:04 key:05 key:06 key:07 key:08 key:09 key:10"),
        ))
    }),
    ("split.mget", || assert_split(counted(split, Round::mget(10)))),
    ("split.mset", || assert_split(counted(split, Round::mset(10)))),
    ("merge.mget", || assert_answered(counted(merge, Round::mget(10).asked()))),
    ("merge.mset", || assert_answered(counted(merge, Round::mset(10).asked()))),
    ("settle.in_order", || assert_answered(counted(settle, Round::get(4).asked()))),
    ("settle_out_of_order.backwards", || {
        assert_answered(counted(settle_out_of_order, Round::get(4).asked()))
    }),
    ("whole.get", || assert_answered(counted(whole, Round::get(1)))),
    ("whole.get_16", || assert_answered(counted(whole, Round::get(16)))),
    ("whole.get_100", || assert_answered(counted(whole, Round::get(100)))),
    ("whole.miss_100", || assert_answered(counted(whole, Round::miss(100)))),
    ("whole.get_100_by_slots", || assert_answered(counted(whole, Round::get_in(by_slots(), 100)))),
    ("whole.get_100_in_cluster", || assert_answered(counted(whole, Round::get_in(cluster(), 100)))),
    ("whole.set_1024_bytes", || assert_answered(counted(whole, Round::set(1, 1024)))),
    ("whole.set_16", || assert_answered(counted(whole, Round::set(16, 3)))),
    ("whole.set_16_by_slots", || assert_answered(counted(whole, Round::set_in(by_slots(), 16, 3)))),
    ("whole.set_16_in_cluster", || assert_answered(counted(whole, Round::set_in(cluster(), 16, 3)))),
    ("redirect.moved_100", || assert_answered(counted(redirect, Round::moved(100)))),
    ("redirect.moved_1000", || assert_answered(counted(redirect, Round::moved(1000)))),
    ("whole.mget_of_10", || assert_answered(counted(whole, Round::mget(10)))),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = PARTS.iter().filter(|(name, _)| arguments.iter().any(|argument| argument == name));
    let mut runs = 0;
    for (_, run) in wanted {
        run();
        runs += 1;
    }
    if runs == 0 {
        PARTS.iter().for_each(|(name, _)| println!("{name}"));
    }
}

/// Runs `part`, which the compiler cannot inline here. Callgrind looks for the name of this function.
#[inline(never)]
fn counted<I, O>(part: fn(I) -> O, input: I) -> O {
    black_box(part)(input)
}

/// Bytes to scan, with room for the arguments found in them.
struct Bytes {
    bytes: Vec<u8>,
    args: Vec<Span>,
}

/// `count` requests of `words`, one behind the other.
fn requests(words: &str, count: usize) -> Bytes {
    Bytes { bytes: request_of(words).repeat(count), args: Vec::with_capacity(16) }
}

/// Scans all requests as a session does. Returns the number of requests.
fn parse_requests(mut input: Bytes) -> (usize, Bytes) {
    let (mut scanner, mut inline) = (request::Scanner::default(), Vec::new());
    let limits = black_box(RequestLimits::default());
    let (mut at, mut found) = (0, 0);
    while let Ok(Scanned::Request { len }) =
        scanner.scan(black_box(&input.bytes[at..]), &limits, &mut input.args, &mut inline)
    {
        at += len;
        found += 1;
    }
    assert_eq!(at, input.bytes.len());
    (found, input)
}

/// Scans all replies as a link does.
fn parse_replies(input: Vec<u8>) -> Vec<u8> {
    let mut scanner = reply::Scanner::default();
    let limits = black_box(reply::ReplyLimits::default());
    let mut at = 0;
    while let Ok(Some(len)) = scanner.scan(black_box(&input[at..]), &limits) {
        at += len;
    }
    assert_eq!(at, input.len());
    input
}

/// One scanned request and the owners of its keys. The value is boxed: the cost of a move depends on the stack's
/// alignment, and this depends on the length of the benchmark's path.
struct Scannable {
    bytes: Vec<u8>,
    args: Vec<Span>,
    positions: Vec<usize>,
    topology: Topology,
}

fn scanned(words: &str) -> Box<Scannable> {
    let (bytes, mut args) = (request_of(words), Vec::new());
    let scanned =
        request::Scanner::default().scan(&bytes, &RequestLimits::default(), &mut args, &mut Vec::new());
    assert_eq!(scanned, Ok(Scanned::Request { len: bytes.len() }));
    let topology = topology();
    // The first hash of a process asks for the processor's features.
    topology.shard_of(b"first");
    Box::new(Scannable { bytes, args, positions: Vec::with_capacity(16), topology })
}

/// From the bytes of a request to its shard: name, arity, keys, hash.
fn route(mut input: Box<Scannable>) -> (u32, Box<Scannable>) {
    let request = black_box(Request::new(&input.bytes, &input.args));
    let (resolved, _) = command::resolve_numbered(&request);
    let Resolved::Command(command) = resolved else { panic!("a command of the table") };
    let mut sum = 0;
    match command.single_key() {
        Some(at) => sum = input.topology.shard_of(request.arg(at)).0,
        None => {
            command.keys(&request, &mut input.positions).expect("has keys");
            for &at in &input.positions {
                sum += input.topology.shard_of(request.arg(at)).0;
            }
        }
    }
    (black_box(sum), input)
}

/// Checks that the client got its replies. A round with refusals costs little and must not pass.
fn assert_answered(round: Round) {
    round.assert_answered();
}

/// Checks that each node got a fragment.
fn assert_split(round: Round) {
    round.assert_split();
}

/// From a client's bytes to the fragments that are offered to the nodes.
fn split(mut round: Round) -> Round {
    round.ask();
    round
}

/// From the nodes' replies to fragments, to the reply that is offered to the client.
fn merge(mut round: Round) -> Round {
    round.answer();
    round
}

/// From the nodes' replies to a client's output: four requests of one client, one to each node.
fn settle(mut round: Round) -> Round {
    round.answer();
    round
}

/// Like `settle`, but the first reply comes last, and all others wait for it.
fn settle_out_of_order(mut round: Round) -> Round {
    round.answer_backwards();
    round
}

/// The way of requests that their nodes decline, from the errors on.
fn redirect(mut round: Round) -> Round {
    round.follow();
    round
}

/// The whole way down and up, for several requests that a client sends at once.
fn whole(mut round: Round) -> Round {
    round.ask();
    round.answer();
    round
}
