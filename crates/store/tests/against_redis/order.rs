//! The order of small collections is that of Redis. It is insertion for fields of a hash, value for integers of a set, and
//! score for members of a sorted set. OBJECT ENCODING agrees on which collections are small.

use resp::reply;
use stdx::Prng;

use crate::node::Node;
use crate::{FIRST_SEED, ask, number_from, refs, store};

const ROUNDS: u64 = 60;

/// Commands that return a collection in its stored order.
const SHOWN: [&str; 12] = [
    "HGETALL h",
    "HKEYS h",
    "HVALS h",
    "HSCAN h 0",
    "HSCAN h 5 COUNT 3",
    "HRANDFIELD h 1000 WITHVALUES",
    "SMEMBERS s",
    "SSCAN s 0",
    "SUNION s u",
    "SDIFF s u",
    "ZSCAN z 0",
    "ZRANDMEMBER z 1000",
];

#[test]
fn small_collections_have_the_order_of_redis() {
    let Some(mut node) = Node::start_7_0() else { return };
    let seed = number_from("SHARDIS_SEED").unwrap_or(FIRST_SEED);
    println!("SHARDIS_SEED={seed} cargo test -p store --test against_redis");
    let (mut prng, mut ours) = (Prng::new(seed), store(seed));
    for round in 0..ROUNDS {
        let mut both = |line: &str| {
            let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            (ask(&mut ours, &refs(&words)), node.ask_raw(&refs(&words)), line.to_owned())
        };
        let same = |(got, expected, line): (Vec<u8>, Vec<u8>, String)| {
            assert!(
                got == expected,
                "{line} in round {round} of seed {seed}: {} instead of {}",
                got.escape_ascii(),
                expected.escape_ascii()
            );
            got
        };
        same(both("FLUSHALL"));
        // Some rounds pass a limit, and most come back below it.
        let (names, changes) = *prng.pick(&[(8, 40), (130, 300), (520, 1_400)]);
        for _ in 0..changes {
            same(both(&change(&mut prng, names)));
        }
        for (key, small) in [("h", "listpack"), ("s", "intset"), ("u", "intset"), ("z", "listpack")] {
            let encoding = same(both(&format!("OBJECT ENCODING {key}")));
            if reply::as_bulk(&encoding) != Some(small.as_bytes()) {
                both(&format!("DEL {key}"));
            }
        }
        SHOWN.iter().for_each(|line| _ = same(both(line)));
        same(both("COPY h h2"));
        same(both("HGETALL h2"));
    }
}

/// A request that adds or removes; now and then something that is too long to be small.
fn change(prng: &mut Prng, names: u64) -> String {
    let mut name = || prng.below(names);
    let (one, other) = (name(), name());
    match prng.below(13) {
        0..=2 => format!("HSET h f{one} {other} f{other} {one}"),
        3 => format!("HSETNX h f{one} new"),
        4 => format!("HINCRBY h n{one} 1"),
        5 => format!("HDEL h f{one} f{other}"),
        6..=7 => format!("SADD s -{one} {other}"),
        8 => format!("SREM s -{one} {other}"),
        9 => format!("SADD u {other} {one}"),
        10..=11 => format!("ZADD z {one} m{other} -{other}.5 m{one}"),
        _ if prng.one_in(2_000) => format!("HSET h f{one} {}", "long".repeat(17)),
        _ if prng.one_in(2_000) => format!("SADD s 0{one}"),
        _ => format!("ZREM z m{one}"),
    }
}
