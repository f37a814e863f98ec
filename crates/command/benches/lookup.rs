//! The cost of finding a command and its keys: `cargo bench -p command`. Nanoseconds per request, the best of ten rounds, over
//! a mix of names and over one name.

// A benchmark is made of clock readings.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::Instant;

use resp::{Request, Span, encode};

/// Requests per round.
const REQUESTS: usize = 4_000_000;

fn main() {
    let mixed =
        ["GET", "SET", "MGET", "hset", "ZADD", "zrevrangebyscore", "LPUSH", "Expire", "incrby", "PING"];
    measure("find, ten names in turn", || {
        (0..REQUESTS)
            .filter(|at| command::find(black_box(mixed[at % mixed.len()].as_bytes())).is_some())
            .count()
    });
    measure("find GET", || (0..REQUESTS).filter(|_| command::find(black_box(b"GET")).is_some()).count());
    measure("find nosuch, unknown", || {
        (0..REQUESTS).filter(|_| command::find(black_box(b"nosuch")).is_none()).count()
    });
    measure_routing("GET user:1");
    measure_routing("SET user:1 value");
    measure_routing("OBJECT ENCODING user:1");
    measure_routing("MGET a b c d e f g h");
    measure_routing("ZUNIONSTORE dst 3 a b c");
    measure_routing("XREAD COUNT 1 STREAMS a b 0 0");
}

/// The way of a request up to its keys.
fn measure_routing(line: &str) {
    let (mut bytes, mut spans, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    encode::array_header(&mut bytes, line.split(' ').count());
    for arg in line.split(' ') {
        encode::bulk(&mut bytes, arg.as_bytes());
        spans.push(Span { start: bytes.len() - 2 - arg.len(), len: arg.len() });
    }
    measure(&format!("resolve and keys of {line}"), || {
        let mut keys = 0;
        for _ in 0..REQUESTS {
            let request = black_box(Request::new(&bytes, &spans));
            let command::Resolved::Command(command) = command::resolve(&request) else { continue };
            keys += match command.single_key() {
                Some(at) => black_box(at).min(1),
                None => command.keys(&request, &mut positions).map_or(0, |()| black_box(&positions).len()),
            };
        }
        keys
    });
}

fn measure(what: &str, mut run: impl FnMut() -> usize) {
    let best = (0..10).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_nanos() as f64 / REQUESTS as f64
    });
    println!("{:6.2} ns  {what}", best.fold(f64::INFINITY, f64::min));
}
