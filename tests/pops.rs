//! Elements of keys on several shards, with `--cross-shard=emulate`: waited for over real nodes and over shards in memory.

use crate::harness::processes::Proxy;
use crate::harness::{Client, World, seed_for, show};
use crate::transactions::wait_for_blocked;
use std::collections::BTreeSet;
use stdx::Prng;

const FLAGS: &[&str] = &["--cross-shard=emulate", "--workers=2"];

/// A request of `words`.
fn send(client: &mut Client, words: &[&str]) {
    client.send_command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
}

/// The key and the element of `reply`.
fn element_of(reply: &[u8]) -> (String, String) {
    let parts = resp::reply::elements(reply).expect("an array").filter_map(resp::reply::as_bulk);
    let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    let [key, element] = &parts[..] else { panic!("a key and an element, not {:?}", show(reply)) };
    (key.clone(), element.clone())
}

#[test]
fn a_push_to_any_shard_ends_the_wait() {
    let world = World::with_flags(3, FLAGS);
    let keys: Vec<String> = (0..3).map(|shard| world.key_on(shard, "q")).collect();
    let mut other = world.connect();
    for (round, key) in keys.iter().chain(&keys).enumerate() {
        let mut waiter = world.connect();
        send(&mut waiter, &["BLPOP", &keys[0], &keys[1], &keys[2], "0"]);
        wait_for_blocked(&mut other, 1);
        let element = format!("e{round}");
        assert_eq!(other.ask(&format!("RPUSH {key} {element}")), r":1\r\n");
        assert_eq!(element_of(&waiter.read_reply()), (key.clone(), element));
        wait_for_blocked(&mut other, 0);
    }
}

#[test]
fn a_client_that_ends_while_it_waits_takes_nothing() {
    let world = World::with_flags(2, FLAGS);
    let (a, b) = (world.key_on(0, "q"), world.key_on(1, "q"));
    let mut other = world.connect();
    for words in [["BLPOP", &a, &b, "0"].as_slice(), &["BLMPOP", "0", "2", &b, &a, "LEFT"]] {
        let mut waiter = world.connect();
        send(&mut waiter, words);
        wait_for_blocked(&mut other, 1);
        // As of a killed process: the proxy sees only the end of its sending side.
        waiter.finish_sending();
        wait_for_blocked(&mut other, 0);
        assert_eq!(other.ask(&format!("RPUSH {a} x")), r":1\r\n");
        assert_eq!(other.ask(&format!("LPOP {a}")), r"$1\r\nx\r\n");
        waiter.expect_eof();
    }
}

#[test]
fn a_group_reads_streams_of_several_shards() {
    let world = World::with_flags(2, FLAGS);
    let (a, b) = (world.key_on(0, "s"), world.key_on(1, "s"));
    let (mut waiter, mut other) = (world.connect(), world.connect());
    for key in [&a, &b] {
        assert_eq!(other.ask(&format!("XGROUP CREATE {key} g $ MKSTREAM")), r"+OK\r\n");
    }
    send(&mut waiter, &["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", &a, &b, ">", ">"]);
    wait_for_blocked(&mut other, 1);
    assert_eq!(other.ask(&format!("XADD {b} 1-1 f v")), r"$3\r\n1-1\r\n");
    let entry = r"*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
    let expected = format!(r"*1\r\n*2\r\n${}\r\n{b}\r\n*1\r\n{entry}", b.len());
    assert_eq!(show(&waiter.read_reply()), expected);
    assert_eq!(other.ask(&format!("XLEN {a}")), r":0\r\n");
}

#[test]
fn elements_of_several_shards_are_popped_once_over_nodes() {
    let world = World::with_flags(4, FLAGS);
    let keys: Vec<String> = (0..4).map(|shard| world.key_on(shard, "q")).collect();
    let seed = seed_for("elements_of_several_shards_are_popped_once_over_nodes");
    clients_that_come_and_go(world.proxy.port, &keys, seed);
}

#[test]
fn elements_of_several_shards_are_popped_once_in_memory() {
    let proxy = Proxy::start(&[FLAGS, &["--port=0"]].concat());
    let keys: Vec<String> = (0..8).map(|number| format!("q{number}")).collect();
    let seed = seed_for("elements_of_several_shards_are_popped_once_in_memory");
    clients_that_come_and_go(proxy.port, &keys, seed);
}

/// Clients wait at all of `keys` in any order while others push. Each element is popped once, or still there.
fn clients_that_come_and_go(port: u16, keys: &[String], seed: u64) {
    let (mut prng, mut other) = (Prng::new(seed), Client::connect(port));
    let mut waiters: Vec<Client> = Vec::new();
    let (mut pushed, mut popped) = (BTreeSet::new(), Vec::new());
    let mut push = |prng: &mut Prng| {
        let (key, element) = (prng.pick(keys).clone(), format!("e{}", pushed.len()));
        other.command(&[b"RPUSH", key.as_bytes(), element.as_bytes()]);
        pushed.insert(element);
        pushed.len()
    };
    let mut count = 0;
    for _ in 0..400 {
        match prng.below(2) {
            0 => {
                let mut waiter = Client::connect(port);
                let first = prng.below(keys.len() as u64) as usize;
                let (behind, before) = keys.split_at(first);
                let name = if prng.one_in(2) { "BLPOP" } else { "BRPOP" };
                let words = [name].into_iter().chain(before.iter().chain(behind).map(String::as_str));
                send(&mut waiter, &words.chain(["0"]).collect::<Vec<_>>());
                waiters.push(waiter);
            }
            _ => count = push(&mut prng),
        }
    }
    // All that still wait get one.
    while count < waiters.len() {
        count = push(&mut prng);
    }
    popped.extend(waiters.iter_mut().map(|waiter| element_of(&waiter.read_reply()).1));
    for key in keys {
        let left = other.command(&[b"LRANGE", key.as_bytes(), b"0", b"-1"]);
        let left = resp::reply::elements(&left).expect("an array").filter_map(resp::reply::as_bulk);
        popped.extend(left.map(|element| String::from_utf8_lossy(element).into_owned()));
    }
    assert_eq!(popped.len(), pushed.len(), "nothing is popped twice, and nothing is lost");
    assert_eq!(popped.into_iter().collect::<BTreeSet<_>>(), pushed);
}
