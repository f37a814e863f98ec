//! How many instructions a request costs, part by part: `cargo xtask instructions` runs this under valgrind and compares
//! the counts with `bench/instructions.txt`.
//!
//! A count does not depend on how busy the machine is, so a change of a few per cent shows. It says nothing about
//! cache misses and system calls: `bench/README.md` tells how time is measured.
//!
//! What stands before `setup` functions return is not counted, nor what happens to the returned values.

#![allow(missing_docs, reason = "the macros of gungraun make public items")]

mod world;

use std::hint::black_box;

use command::Resolved;
use gungraun::Callgrind;
use gungraun::prelude::*;
use resp::request::{RequestLimits, Scanned};
use resp::{Request, Span, reply, request};
use topology::Topology;

use world::{Round, by_slots, cluster, request_of, topology};

/// Bytes that are scanned, with room for what is found in them.
struct Bytes {
    bytes: Vec<u8>,
    args: Vec<Span>,
}

/// `count` requests of `words`, one behind the other.
fn requests(words: &str, count: usize) -> Bytes {
    Bytes { bytes: request_of(words).repeat(count), args: Vec::with_capacity(16) }
}

// Scans all of it as a session does. Returns how many requests there were.
#[library_benchmark]
#[bench::get(requests("GET key:000001", 1))]
#[bench::get_100(requests("GET key:000001", 100))]
#[bench::set(requests("SET key:000001 xxx", 1))]
#[bench::mset(requests("MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10", 1))]
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

// Scans all of it as a backend does.
#[library_benchmark]
#[bench::bulk(b"$3\r\nxxx\r\n".to_vec())]
#[bench::ok(b"+OK\r\n".to_vec())]
#[bench::bulk_100(b"$3\r\nxxx\r\n".repeat(100))]
#[bench::array_of_10([&b"*10\r\n"[..], &b"$3\r\nxxx\r\n".repeat(10)].concat())]
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

/// One scanned request and those who own its keys. It is boxed: how many instructions a move of it takes depends on how the
/// stack is aligned, and that on the length of the path that the benchmark lies at.
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
    // The first hash of a process asks what the processor can do.
    topology.shard_of(b"first");
    Box::new(Scannable { bytes, args, positions: Vec::with_capacity(16), topology })
}

// From the bytes of a request to its shard: name, arity, keys, hash.
#[library_benchmark]
#[bench::get(scanned("GET key:000001"))]
#[bench::get_tagged(scanned("GET user{42}"))]
#[bench::set(scanned("SET key:000001 xxx"))]
#[bench::object(scanned("OBJECT ENCODING key:000001"))]
#[bench::mget(scanned("MGET key:01 key:02 key:03 key:04 key:05 key:06 key:07 key:08 key:09 key:10"))]
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

/// A round in which the proxy refused costs little; it must not pass for one that works.
fn assert_answered(round: Round) {
    round.assert_answered();
}

/// As [`assert_answered`].
fn assert_split(round: Round) {
    round.assert_split();
}

// From a client's bytes to the fragments that are offered to the nodes.
#[library_benchmark(teardown = assert_split)]
#[bench::mget(Round::mget(10))]
#[bench::mset(Round::mset(10))]
fn split(mut round: Round) -> Round {
    round.ask();
    round
}

// From the nodes' replies to fragments to the reply that is offered to the client.
#[library_benchmark(teardown = assert_answered)]
#[bench::mget(Round::mget(10).asked())]
#[bench::mset(Round::mset(10).asked())]
fn merge(mut round: Round) -> Round {
    round.answer();
    round
}

// From the nodes' replies to a client's output: four requests of one client, one to each node.
#[library_benchmark(teardown = assert_answered)]
#[bench::in_order(Round::get(4).asked())]
fn settle(mut round: Round) -> Round {
    round.answer();
    round
}

// As `settle`; the first reply comes last, and all others wait for it.
#[library_benchmark(teardown = assert_answered)]
#[bench::backwards(Round::get(4).asked())]
fn settle_out_of_order(mut round: Round) -> Round {
    round.answer_backwards();
    round
}

// The whole way there and back, of so many requests that a client sends at once.
#[library_benchmark(teardown = assert_answered)]
#[bench::get(Round::get(1))]
#[bench::get_16(Round::get(16))]
#[bench::get_100(Round::get(100))]
#[bench::miss_100(Round::miss(100))]
#[bench::get_100_by_slots(Round::get_in(by_slots(), 100))]
#[bench::get_100_in_cluster(Round::get_in(cluster(), 100))]
#[bench::set_1024_bytes(Round::set(1, 1024))]
#[bench::set_16(Round::set(16, 3))]
#[bench::set_16_by_slots(Round::set_in(by_slots(), 16, 3))]
#[bench::set_16_in_cluster(Round::set_in(cluster(), 16, 3))]
#[bench::mget_of_10(Round::mget(10))]
fn whole(mut round: Round) -> Round {
    round.ask();
    round.answer();
    round
}

library_benchmark_group!(name = parse, benchmarks = [parse_requests, parse_replies]);
library_benchmark_group!(name = routes, benchmarks = [route]);
library_benchmark_group!(name = proxy, benchmarks = [split, merge, settle, settle_out_of_order, whole]);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = [parse, routes, proxy]
);
