//! Keys whose time is over: every command leaves as many keys behind as in Redis, and expires as many.
//!
//! Neither side removes such keys actively here. A key expires after one millisecond, and both clocks are read until that has
//! passed. Nothing else in a run depends on time.

use resp::reply;
use stdx::Prng;

use crate::node::Node;
use crate::{FIRST_SEED, is_left_to_chance, normal, now_ms, number_from, refs, requests, run, store};

const REQUESTS: u64 = 4_000;

/// A key expires after this many requests.
const REQUESTS_PER_EXPIRY: u64 = 4;

/// Requests after which both sides start with empty keyspaces.
const REQUESTS_PER_ROUND: u64 = 500;

#[test]
fn expired_keys_are_noticed_when_redis_notices_them() {
    let Some(mut node) = Node::start_7_0_with(&["--enable-debug-command", "yes"]) else { return };
    let seed = number_from("SHARDIS_SEED").unwrap_or(FIRST_SEED);
    println!("SHARDIS_SEED={seed} cargo test -p store --test against_redis");
    let (mut prng, mut ours) = (Prng::new(seed), store(seed));
    assert_eq!(node.ask_raw(&[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"]), b"+OK\r\n");
    for number in 0..number_from("SHARDIS_REQUESTS").unwrap_or(REQUESTS) {
        let ends = prng.one_in(REQUESTS_PER_EXPIRY);
        let words = match number % REQUESTS_PER_ROUND {
            0 => vec![b"FLUSHALL".to_vec()],
            _ if ends => requests::ending(&mut prng),
            _ => requests::random(&mut prng),
        };
        let args = refs(&words);
        // Payloads are another test's.
        if args[0] == b"RESTORE" {
            continue;
        }
        if args[0].starts_with(b"SORT") {
            // See the test of random requests.
            node.ask_raw(&[b"ZADD", b"z", b"1", b"a", b"x", b"b"]);
            if is_left_to_chance(&args, &mut node, &mut ours) {
                continue;
            }
        }
        let shown = args.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        let keys = node.ask_raw(&[b"DBSIZE"]);
        let expected = node.ask_raw(&args);
        let is_fewer = ends && node.ask_raw(&[b"DBSIZE"]) != keys;
        let got = run(&mut ours, &refs(&if is_fewer { over_at_once(&words) } else { words.clone() }));
        if ends {
            wait_for_the_next_but_one_millisecond(&mut node);
        }
        let place = format!("request {number} of seed {seed}: {shown}");
        assert_eq!(normal(&args, &got), normal(&args, &expected), "{place}");
        for question in [&[&b"DBSIZE"[..]][..], &[b"INFO", b"stats"]] {
            let (got, expected) = (run(&mut ours, question), node.ask_raw(question));
            assert_eq!(counts(&got), counts(&expected), "after {place}");
        }
    }
}

/// The same commands with an expiry in the past: the effect of one millisecond on a slow node.
fn over_at_once(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let over = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
    match &*words[0] {
        b"PEXPIRE" => over(&[b"PEXPIREAT", &words[1], b"1"]),
        b"GETEX" => over(&[b"GETEX", &words[1], b"PXAT", b"1"]),
        _ => words.to_vec(),
    }
}

/// Waits until a key with an expiry of one millisecond has expired by both clocks.
fn wait_for_the_next_but_one_millisecond(node: &mut Node) {
    let until = now_ms().max(node_ms(node)) + 2;
    while now_ms() < until || node_ms(node) < until {}
}

fn node_ms(node: &mut Node) -> u64 {
    let time = node.ask_raw(&[b"TIME"]);
    let mut parts = reply::elements(&time).expect("seconds and microseconds").map(|part| {
        let digits = reply::as_bulk(part).expect("a number");
        std::str::from_utf8(digits).expect("digits").parse::<u64>().expect("a number")
    });
    let mut next = || parts.next().expect("two numbers");
    next() * 1_000 + next() / 1_000
}

/// The count of DBSIZE, or of expired keys in INFO.
fn counts(reply: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(reply).into_owned();
    let is_count = |line: &&str| line.starts_with(':') || line.starts_with("expired_keys:");
    text.lines().filter(is_count).map(str::to_owned).collect()
}
