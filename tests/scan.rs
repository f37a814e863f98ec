//! SCAN, KEYS, RANDOMKEY and DBSIZE over several nodes: every key exactly as with one node.

use crate::harness::{Client, RedisServer, World, show};
use resp::reply::{as_bulk, elements};
use std::collections::BTreeSet;

/// A whole iteration: all returned keys, and the number of calls.
fn scan(client: &mut Client, options: &str) -> (Vec<String>, usize) {
    let (mut keys, mut cursor, mut calls) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let command = format!("SCAN {cursor} {options}");
        let args: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        let reply = client.command(&args);
        let mut parts = elements(&reply).unwrap_or_else(|| panic!("{command}: {}", show(&reply)));
        let (next, page) = (parts.next().expect("a cursor"), parts.next().expect("a page"));
        cursor = text(next);
        let number: i64 = cursor.parse().expect("a cursor fits in a signed 64-bit integer");
        assert!(number >= 0, "{command} gave the cursor {cursor}");
        keys.extend(elements(page).expect("a page is an array").map(text));
        calls += 1;
        assert!(calls < 100_000, "an iteration ends");
        if cursor == "0" {
            return (keys, calls);
        }
    }
}

fn text(bulk: &[u8]) -> String {
    String::from_utf8_lossy(as_bulk(bulk).expect("a bulk")).into_owned()
}

fn as_set(keys: Vec<String>) -> BTreeSet<String> {
    keys.into_iter().collect()
}

/// Four nodes with 1,000 strings `s:…` and 300 lists `l:…`.
fn filled() -> (World, BTreeSet<String>) {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let mut keys = BTreeSet::new();
    let mut pipeline = String::new();
    for number in 0..1000 {
        pipeline.push_str(&format!("SET s:{number} v\r\n"));
        keys.insert(format!("s:{number}"));
    }
    for number in 0..300 {
        pipeline.push_str(&format!("RPUSH l:{number} v\r\n"));
        keys.insert(format!("l:{number}"));
    }
    client.send(pipeline.as_bytes());
    for _ in 0..keys.len() {
        assert_ne!(client.read_reply()[0], b'-');
    }
    (world, keys)
}

#[test]
fn an_iteration_returns_every_key() {
    let (world, keys) = filled();
    let mut client = world.connect();
    for options in ["", "COUNT 1", "COUNT 7", "COUNT 100", "COUNT 100000"] {
        assert_eq!(as_set(scan(&mut client, options).0), keys, "SCAN with {options:?}");
    }
    let (_, calls) = scan(&mut client, "COUNT 100000");
    assert_eq!(calls, 1, "calls with a COUNT above the number of keys");
}

#[test]
fn match_and_type_filter_as_in_redis() {
    let (world, keys) = filled();
    let mut client = world.connect();
    let starting =
        |prefix: &str| keys.iter().filter(|key| key.starts_with(prefix)).cloned().collect::<BTreeSet<_>>();
    for (options, expected) in [
        ("MATCH s:*", starting("s:")),
        ("MATCH l:1*", starting("l:1")),
        ("TYPE list", starting("l:")),
        ("TYPE string COUNT 50", starting("s:")),
        ("TYPE list MATCH l:2*", starting("l:2")),
        ("MATCH nosuch*", BTreeSet::new()),
        ("TYPE zset", BTreeSet::new()),
    ] {
        assert_eq!(as_set(scan(&mut client, options).0), expected, "SCAN with {options:?}");
    }
}

#[test]
fn an_iteration_over_nothing_ends() {
    let world = World::with_shards(4);
    let (keys, calls) = scan(&mut world.connect(), "");
    assert_eq!(keys, Vec::<String>::new());
    assert_eq!(calls, 1, "calls for four empty nodes");
}

#[test]
fn keys_that_stay_are_returned_while_others_come_and_go() {
    let (world, stable) = filled();
    let (mut client, mut other) = (world.connect(), world.connect());
    let (mut seen, mut cursor, mut added) = (BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let reply = client.command(&[b"SCAN", cursor.as_bytes(), b"COUNT", b"20"]);
        let mut parts = elements(&reply).expect("a cursor and a page");
        cursor = text(parts.next().expect("a cursor"));
        seen.extend(elements(parts.next().expect("a page")).expect("an array").map(text));
        // Enough to make the nodes' tables grow in the middle of the iteration, and shrink again.
        let mut changes = Vec::new();
        for _ in 0..60 {
            added += 1;
            changes.push((format!("SET added:{added} v\r\n"), r"+OK\r\n"));
            if added % 3 == 0 {
                changes.push((format!("DEL added:{}\r\n", added - 2), r":1\r\n"));
            }
        }
        other.send(changes.iter().map(|(request, _)| request.as_str()).collect::<String>().as_bytes());
        for (request, reply) in changes {
            assert_eq!(show(&other.read_reply()), reply, "{request}");
        }
        if cursor == "0" {
            break;
        }
    }
    let missed: Vec<_> = stable.difference(&seen).collect();
    assert!(missed.is_empty(), "missed {missed:?}");
    let foreign = seen.iter().find(|key| !stable.contains(*key) && !key.starts_with("added:"));
    assert_eq!(foreign, None);
}

#[test]
fn two_iterations_do_not_mind_each_other() {
    let (world, keys) = filled();
    let (mut one, mut two) = (world.connect(), world.connect());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| as_set(scan(&mut one, "COUNT 10").0));
        let second = scope.spawn(|| as_set(scan(&mut two, "COUNT 3").0));
        assert_eq!(first.join().unwrap(), keys);
        assert_eq!(second.join().unwrap(), keys);
    });
}

#[test]
fn wrong_scans_get_the_errors_of_redis() {
    let (oracle, world) = (RedisServer::reference(), World::with_shards(4));
    let (mut redis, mut client) = (oracle.connect(), world.connect());
    for command in [
        "SCAN",
        "SCAN x",
        "SCAN -1",
        "SCAN 1.5",
        "SCAN 99999999999999999999",
        "SCAN 0 COUNT",
        "SCAN 0 COUNT 0",
        "SCAN 0 COUNT x",
        "SCAN 0 COUNT -1",
        "SCAN 0 MATCH",
        "SCAN 0 NOSUCH 1",
        "SCAN 0 MATCH a COUNT",
    ] {
        assert_eq!(client.ask(command), redis.ask(command), "{command}");
    }
    assert_eq!(client.ask("ECHO still"), "$5\\r\\nstill\\r\\n");
}

#[test]
fn keys_dbsize_and_randomkey_see_all_nodes() {
    let (world, keys) = filled();
    let mut client = world.connect();
    assert_eq!(client.ask("DBSIZE"), format!(":{}\\r\\n", keys.len()));
    let reply = client.command(&[b"KEYS", b"*"]);
    let listed: Vec<String> = elements(&reply).expect("KEYS answers an array").map(text).collect();
    assert_eq!(listed.len(), keys.len(), "each once");
    assert_eq!(as_set(listed), keys);
    let drawn: BTreeSet<String> = (0..200).map(|_| text(&client.command(&[b"RANDOMKEY"]))).collect();
    assert!(drawn.is_subset(&keys), "{drawn:?}");
    // 200 draws from 1,300 keys: fewer than 50 different ones do not happen by chance.
    assert!(drawn.len() > 50, "only {} different keys in 200 draws", drawn.len());
    let shards: BTreeSet<usize> =
        drawn.iter().map(|key| crate::harness::shard_of(key.as_bytes(), 4)).collect();
    assert_eq!(shards.len(), 4, "keys of every node are drawn");
    assert_eq!(client.ask("FLUSHALL"), "+OK\\r\\n");
    assert_eq!(client.ask("RANDOMKEY"), "$-1\\r\\n");
    assert_eq!(client.ask("DBSIZE"), ":0\\r\\n");
}

#[test]
fn randomkey_finds_the_only_key_there_is() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    for _ in 0..8 {
        assert_eq!(client.ask("SET only 1"), "+OK\\r\\n");
        assert_eq!(client.ask("RANDOMKEY"), "$4\\r\\nonly\\r\\n");
    }
}
