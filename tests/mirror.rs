//! The mirror: a share of the requests goes to another pool as well, and replies are compared.

use crate::harness::certificates::Directory;
use crate::harness::processes::{Process, free_port, free_ports, run, shardis_binary};
use crate::harness::{Client, Proxy, RedisServer, World, http, poll_until};
use serde_json::Value;
use std::process::Command;

/// The answer to /mirror.
fn mirror(proxy: &Proxy) -> Value {
    let answer = http::get(http::admin_port(proxy), "/mirror");
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error} in {}", answer.body))
}

/// The answer to /mirror, once its figure `name` is `count`.
#[track_caller]
fn mirror_with(proxy: &Proxy, name: &str, count: u64) -> Value {
    poll_until(&format!("{name} {count} in /mirror"), || {
        Some(mirror(proxy)).filter(|answer| answer[name] == count)
    })
}

/// Two nodes behind a proxy whose mirror is a node of its own.
fn mirrored(flags: &[&str]) -> (World, RedisServer) {
    let other = RedisServer::start();
    let target = format!("--mirror=127.0.0.1:{}", other.port);
    let world = World::with_flags(2, &[&["--admin=0", &*target], flags].concat());
    (world, other)
}

#[test]
fn writes_reach_the_mirror_and_replies_are_compared() {
    let (world, other) = mirrored(&[]);
    let mut client = world.connect();
    for words in
        ["MSET a 1 b 2 c 3", "INCR a", "SADD s x y z", "SMEMBERS s", "HSET h f 1 g 2", "HGETALL h", "GET a"]
    {
        client.ask(words);
    }
    let answer = mirror_with(&world.proxy, "same", 7);
    assert_eq!(answer["different"], serde_json::json!({}), "{answer}");
    let mut there = other.connect();
    assert_eq!(there.ask("MGET a b c"), r"*3\r\n$1\r\n2\r\n$1\r\n2\r\n$1\r\n3\r\n");
    assert_eq!(there.ask("SET a 9"), r"+OK\r\n");
    assert_eq!(client.ask("GET a"), r"$1\r\n2\r\n");
    let answer = poll_until("a difference", || {
        Some(mirror(&world.proxy)).filter(|answer| answer["different"]["get"] == 1)
    });
    let difference = &answer["differences"][0];
    assert_eq!((&difference["command"], &difference["key"]), (&"get".into(), &"a".into()));
    assert_eq!(
        (&difference["ours"], &difference["theirs"]),
        (&r"$1\r\n2\r\n".into(), &r"$1\r\n9\r\n".into())
    );
}

#[test]
fn a_transaction_that_did_not_run_is_not_mirrored() {
    let (world, other) = mirrored(&["--mirror-requests=writes"]);
    let (mut client, mut rival) = (world.connect(), world.connect());
    assert_eq!(client.ask("WATCH k"), r"+OK\r\n");
    assert_eq!(rival.ask("SET k rival"), r"+OK\r\n");
    for words in
        ["MULTI", "SET k lost", "EXEC", "MULTI", "INCR n{t}", "SPOP none{t}", "EXEC", "XADD x * f v", "GET k"]
    {
        client.ask(words);
    }
    mirror_with(&world.proxy, "same", 6);
    let mut there = other.connect();
    assert_eq!(there.ask("MGET k n{t}"), r"*2\r\n$5\r\nrival\r\n$1\r\n1\r\n");
    assert_eq!(there.ask("XRANGE x - +"), client.ask("XRANGE x - +"), "the ID is the same");
}

#[test]
fn a_mirror_that_is_down_is_not_noticed_by_clients() {
    let (world, mut other) = mirrored(&[]);
    let mut client = world.connect();
    assert_eq!(client.ask("SET a 1"), r"+OK\r\n");
    mirror_with(&world.proxy, "same", 1);
    other.kill();
    poll_until("requests that are left out", || {
        assert_eq!(client.ask("SET a 2"), r"+OK\r\n");
        (mirror(&world.proxy)["unsent"].as_u64() > Some(0)).then_some(())
    });
    assert!(world.proxy.output().contains("mirror unreachable"), "{}", world.proxy.output());
    let again = poll_until("the port is free again", || RedisServer::try_start(other.port, &[]));
    poll_until("the mirror goes on", || {
        assert_eq!(client.ask("SET b 3"), r"+OK\r\n");
        (again.connect().ask("GET b") == r"$1\r\n3\r\n").then_some(())
    });
}

#[test]
fn a_mirror_that_is_frozen_does_not_delay_clients() {
    let (world, other) = mirrored(&["--mirror-memory=1mb"]);
    let (mut client, value) = (world.connect(), "v".repeat(10_000));
    other.freeze();
    for _ in 0..2_000 {
        assert_eq!(client.ask(&format!("SET k {value}")), r"+OK\r\n");
    }
    let answer = poll_until("clients that the mirror has lost", || {
        Some(mirror(&world.proxy))
            .filter(|answer| answer["clients_lost"] == 1 || answer["unsent"].as_u64() > Some(0))
    });
    assert!(answer["held_bytes"].as_u64() < Some(2_000_000), "{answer}");
    other.thaw();
    let mut fresh = world.connect();
    poll_until("another client is mirrored", || {
        fresh.ask("SET fresh 1");
        (other.connect().ask("GET fresh") == r"$1\r\n1\r\n").then_some(())
    });
}

#[test]
fn the_last_requests_of_a_client_reach_the_mirror() {
    let (world, other) = mirrored(&[]);
    other.freeze();
    let mut client = world.connect();
    for number in 0..100 {
        assert_eq!(client.ask(&format!("SET k{number} 1")), r"+OK\r\n");
    }
    drop(client);
    poll_until("the client has gone", || {
        world.connect().ask("INFO clients").contains("connected_clients:1").then_some(())
    });
    other.thaw();
    poll_until("all keys at the mirror", || (other.connect().ask("DBSIZE") == r":100\r\n").then_some(()));
}

#[test]
fn a_pool_of_the_file_is_the_mirror_by_its_name() {
    let (one, two) = (RedisServer::start(), RedisServer::start());
    let ports = free_ports(2);
    let text = format!(
        "[[pool]]\nname = \"old\"\nport = {}\nnodes = [\"127.0.0.1:{}\"]\nmirror = \"new\"\n[[pool]]\nname = \"new\"\nport = {}\nnodes = [\"127.0.0.1:{}\"]\n",
        ports[0], one.port, ports[1], two.port
    );
    let directory = Directory::new();
    let path = directory.write("shardis.toml", &text);
    let mut command = shardis_binary();
    command.args(["proxy", "--config"]).arg(&path);
    let proxy = Process::spawn(command, "shardis");
    let mut client = poll_until("the old pool", || Client::try_connect(ports[0]));
    assert_eq!(client.ask("SET k 1"), r"+OK\r\n", "{}", proxy.output());
    poll_until("the key in the other pool", || (two.connect().ask("GET k") == r"$1\r\n1\r\n").then_some(()));
}

#[test]
fn a_pool_cannot_mirror_itself() {
    let port = free_port();
    let refused = |config: &str, text: &str| {
        let directory = Directory::new();
        let path = directory.write("shardis.toml", config);
        let mut command: Command = shardis_binary();
        command.args(["proxy", "--config"]).arg(&path);
        let finished = run(command);
        assert_ne!(finished.code, Some(0));
        assert!(finished.stderr.contains(text), "{}", finished.stderr);
    };
    refused(&format!("port = {port}\nmirror = \"127.0.0.1:{port}\"\n"), "this is the pool itself");
    refused(
        "[[pool]]\nname = \"a\"\nport = 7001\nmirror = \"b\"\n[[pool]]\nname = \"b\"\nport = 7002\nmirror = \"a\"\n",
        "leads back to this pool",
    );
    refused("[[pool]]\nname = \"a\"\nport = 7001\nmirror = \"c\"\n", "no pool has this name");
    refused("mirror = \"c\"\n", "no pool has this name");
}
