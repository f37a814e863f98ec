//! Scripts, functions and administration over real nodes: a script that one node has seen works on all of them, even on a
//! restarted one.

use crate::harness::{Client, RedisServer, World, poll_until};

const INCREMENT: &[u8] = b"return redis.call('incrby', KEYS[1], ARGV[1])";
const LIBRARY: &[u8] =
    b"#!lua name=counters\nredis.register_function('add', function(keys, args) return redis.call('incrby', keys[1], args[1]) end)";

/// Kills the node of `shard` and starts it again, empty, and waits until `client` reaches it.
fn restart(world: &mut World, client: &mut Client, shard: usize) {
    let port = world.nodes[shard].port;
    world.nodes[shard].kill();
    world.nodes[shard] = RedisServer::start_on(port);
    let key = world.key_on(shard, "probe");
    poll_until("the node behind the proxy", || {
        (client.ask(&format!("GET {key}")) == r"$-1\r\n").then_some(())
    });
}

/// Loads `script` and gives its name.
fn sha_of(client: &mut Client, script: &[u8]) -> String {
    let reply = client.command(&[b"SCRIPT", b"LOAD", script]);
    let sha = resp::reply::as_bulk(&reply).expect("a name");
    String::from_utf8_lossy(sha).into_owned()
}

#[test]
fn loaded_script_runs_on_every_shard_after_a_restart() {
    let mut world = World::with_shards(4);
    let mut client = world.connect();
    let sha = sha_of(&mut client, INCREMENT);
    restart(&mut world, &mut client, 2);
    for key in world.key_on_each("n") {
        assert_eq!(client.ask(&format!("EVALSHA {sha} 1 {key} 2")), r":2\r\n", "{key}");
    }
    assert_eq!(client.ask("SCRIPT FLUSH"), r"+OK\r\n");
    let key = world.key_on(2, "n");
    assert!(client.ask(&format!("EVALSHA {sha} 1 {key} 2")).starts_with("-NOSCRIPT "));
}

#[test]
fn evaluated_script_runs_by_digest_on_another_shard() {
    let world = World::with_flags(4, &["--workers=2"]);
    let keys = world.key_on_each("n");
    let (mut one, mut other) = (world.connect(), world.connect());
    let reply = one.command(&[b"EVAL", INCREMENT, b"1", keys[0].as_bytes(), b"5"]);
    assert_eq!(reply, b":5\r\n");
    let sha = sha_of(&mut world.nodes[0].connect(), INCREMENT);
    // Nodes forget, the proxy does not: a request that is alone on its link is repeated.
    world.nodes.iter().for_each(|node| assert_eq!(node.connect().ask("SCRIPT FLUSH"), r"+OK\r\n"));
    for key in &keys[1..] {
        assert_eq!(other.ask(&format!("EVALSHA {sha} 1 {key} 1")), r":1\r\n");
    }
}

#[test]
fn functions_are_on_all_shards_also_after_a_restart() {
    let mut world = World::with_shards(4);
    let mut client = world.connect();
    assert_eq!(client.command(&[b"FUNCTION", b"LOAD", LIBRARY]), b"$8\r\ncounters\r\n");
    let again = client.command(&[b"FUNCTION", b"LOAD", LIBRARY]);
    assert_eq!(again, b"-ERR Library 'counters' already exists\r\n");
    restart(&mut world, &mut client, 1);
    for key in world.key_on_each("n") {
        assert_eq!(client.ask(&format!("FCALL add 1 {key} 3")), r":3\r\n", "{key}");
    }
    let direct = world.nodes[0].connect().command(&[b"FUNCTION", b"LIST"]);
    assert_eq!(client.command(&[b"FUNCTION", b"LIST"]), direct, "each library once");
    assert_eq!(client.ask("FUNCTION DELETE counters"), r"+OK\r\n");
    assert_eq!(client.ask("FUNCTION LIST"), r"*0\r\n");
    assert_eq!(client.ask("FCALL add 1 k 1"), r"-ERR Function not found\r\n");
    assert!(client.ask("FUNCTION STATS").starts_with(r"*4\r\n$14\r\nrunning_script\r\n$-1"));
}

#[test]
fn an_operator_configures_all_nodes_at_once() {
    let world = World::with_flags(4, &["--allow-admin"]);
    let mut client = world.connect();
    assert_eq!(client.ask("CONFIG SET slowlog-log-slower-than 0 maxmemory-policy allkeys-lru"), r"+OK\r\n");
    for node in &world.nodes {
        let policy = node.connect().ask("CONFIG GET maxmemory-policy");
        assert_eq!(policy, r"*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lru\r\n");
    }
    let policy = client.ask("CONFIG GET maxmemory-policy");
    assert_eq!(policy, r"*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lru\r\n");
    assert!(client.ask("CONFIG GET port").contains(" | "), "every node has a port of its own");
    assert!(client.ask("CONFIG SET port 1").starts_with("-ERR CONFIG SET port is not allowed"));
    assert!(client.ask("CONFIG SET nonsense 1").starts_with("-ERR Unknown option"));
    assert_eq!(client.ask("DEBUG SLEEP 0"), r"+OK\r\n");
    assert!(client.ask("DEBUG SEGFAULT").contains("is not allowed through shardis: it would stop"));
    assert!(client.ask("SHUTDOWN NOSAVE").contains("is not allowed through shardis: it would stop"));
}

#[test]
fn the_digest_of_all_shards_is_that_of_one_redis_with_all_keys() {
    let world = World::with_flags(4, &["--allow-admin"]);
    let alone = RedisServer::start();
    let (mut client, mut oracle) = (world.connect(), alone.connect());
    for both in [&mut client, &mut oracle] {
        (0..100).for_each(|n| assert_eq!(both.ask(&format!("SET k{n} v{n}")), r"+OK\r\n"));
    }
    assert_eq!(client.ask("DEBUG DIGEST"), oracle.ask("DEBUG DIGEST"));
    assert_eq!(client.ask("DEBUG DIGEST-VALUE k7"), oracle.ask("DEBUG DIGEST-VALUE k7"));
}

#[test]
fn slow_requests_of_all_nodes_are_in_one_log() {
    let world = World::with_flags(4, &["--allow-admin"]);
    let mut client = world.connect();
    assert_eq!(client.ask("CONFIG SET slowlog-log-slower-than 0"), r"+OK\r\n");
    assert_eq!(client.ask("SLOWLOG RESET"), r"+OK\r\n");
    let keys = world.key_on_each("slow");
    keys.iter().for_each(|key| assert_eq!(client.ask(&format!("SET {key} 1")), r"+OK\r\n"));
    let log = client.ask("SLOWLOG GET 128");
    assert!(keys.iter().all(|key| log.contains(key.as_str())), "{log}");
    assert!(client.ask("SLOWLOG GET 2").starts_with(r"*2\r\n*6\r\n"));
    let count: i64 = client.ask("SLOWLOG LEN").trim_matches([':', '\\', 'r', 'n']).parse().expect("a number");
    assert!(count >= 4, "{count}");
    let doctor = client.ask("MEMORY DOCTOR");
    assert!(doctor.contains("Sam"), "{doctor}");
    assert!(client.ask("LATENCY RESET").starts_with(":0"));
    assert_eq!(client.ask("LATENCY LATEST"), r"*0\r\n");
    let histogram = client.ask("LATENCY HISTOGRAM set");
    assert!(histogram.contains(r"$5\r\ncalls\r\n:4\r\n"), "{histogram}");
    assert!(client.ask("MEMORY STATS").starts_with("*"));
}
