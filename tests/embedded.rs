//! Without nodes: shards in the proxy's own memory.

use crate::harness::processes::{Proxy, run};
use crate::harness::{Client, RedisServer, poll_until, show};
use crate::transactions::{SCENES, play, wait_for_blocked};
use std::process::Command;
use std::time::{Duration, Instant};

fn embedded(flags: &[&str]) -> (Proxy, Client) {
    let proxy = Proxy::start(&[flags, &["--port=0"]].concat());
    let client = Client::connect(proxy.port);
    (proxy, client)
}

#[test]
fn in_memory_shards_serve_and_announce_volatility() {
    let (proxy, mut client) = embedded(&["--workers=2"]);
    assert_eq!(client.ask("MSET a 1 b 2 c 3 d 4 e 5"), r"+OK\r\n");
    assert_eq!(
        client.ask("MGET e d c b a nosuch"),
        r"*6\r\n$1\r\n5\r\n$1\r\n4\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n1\r\n$-1\r\n"
    );
    // Another worker's client finds the same keys.
    let mut other = Client::connect(proxy.port);
    assert_eq!(other.ask("DBSIZE"), r":5\r\n");
    assert_eq!(other.ask("DEL a b c d e"), r":5\r\n");
    assert_eq!(client.ask("DBSIZE"), r":0\r\n");
    assert!(proxy.output().contains("their data is lost when it ends"), "{}", proxy.output());
}

#[test]
fn replicas_are_waited_for_in_vain() {
    let (proxy, mut client) = embedded(&["--workers=2"]);
    assert_eq!(client.ask("SET a 1"), r"+OK\r\n");
    assert_eq!(client.ask("WAIT 0 0"), r":0\r\n");
    let began = Instant::now();
    assert_eq!(client.ask("WAIT 1 100"), r":0\r\n");
    assert!(began.elapsed() >= Duration::from_millis(100));
    let id = resp::reply::as_integer(&client.command(&[b"CLIENT", b"ID"])).expect("a number");
    client.send(b"WAIT 1 0\r\n");
    let mut other = Client::connect(proxy.port);
    poll_until("a client that waits", || {
        (other.ask(&format!("CLIENT UNBLOCK {id}")) == r":1\r\n").then_some(())
    });
    assert_eq!(client.read_reply(), b":0\r\n");
}

#[test]
fn unsupported_commands_are_refused_by_name() {
    let (_proxy, mut client) = embedded(&[]);
    let refusal = client.command(&[b"VADD", b"s", b"VALUES", b"1", b"1", b"e"]);
    let text =
        "-ERR command 'vadd' is not in the embedded store (start redis-servers and name them with --nodes)";
    assert_eq!(show(&refusal), show(format!("{text}\r\n").as_bytes()));
    assert_eq!(client.ask("PING"), r"+PONG\r\n");
}

#[test]
fn scripts_run_where_their_keys_are() {
    let (_proxy, mut client) = embedded(&["--workers=2"]);
    let script = b"redis.call('SET', KEYS[1], ARGV[1]) return {KEYS[2], redis.call('GET', KEYS[1])}";
    let reply = client.command(&[b"EVAL", script, b"2", b"{job}:a", b"{job}:b", b"v"]);
    assert_eq!(show(&reply), r"*2\r\n$7\r\n{job}:b\r\n$1\r\nv\r\n");
    assert_eq!(client.ask("GET {job}:a"), r"$1\r\nv\r\n");
    let sha = client.command(&[b"SCRIPT", b"LOAD", b"return redis.call('INCR', KEYS[1])"]);
    let sha = resp::reply::as_bulk(&sha).expect("a name").to_vec();
    for key in [&b"a"[..], b"b", b"c", b"d", b"e"] {
        assert_eq!(client.command(&[b"EVALSHA", &sha, b"1", key]), b":1\r\n");
    }
    let library = b"#!lua name=lib\nredis.register_function('set_to', function(k, a) return redis.call('SET', k[1], a[1]) end)";
    assert_eq!(show(&client.command(&[b"FUNCTION", b"LOAD", library])), r"$3\r\nlib\r\n");
    for key in ["f", "g", "h", "i"] {
        assert_eq!(client.ask(&format!("FCALL set_to 1 {key} x")), r"+OK\r\n");
    }
    let refusal = client.command(&[b"EVAL", b"return 1", b"2", b"a", b"b"]);
    assert!(refusal.starts_with(b"-CROSSSLOT"), "{}", show(&refusal));
}

#[test]
fn an_endless_script_ends_and_the_shard_serves_on() {
    let (_proxy, mut client) = embedded(&["--lua-time-limit=50", "--store-shards=1"]);
    let reply =
        client.command(&[b"EVAL", b"while true do pcall(redis.call, 'INCR', KEYS[1]) end", b"1", b"n"]);
    assert!(show(&reply).contains("script ran longer than the limit and was ended"), "{}", show(&reply));
    assert!(client.ask("GET n").starts_with('$'));
}

#[test]
fn shards_in_memory_look_like_one_redis() {
    let (_proxy, mut client) = embedded(&["--workers=2"]);
    assert_eq!(client.ask("SADD a 1 2 3"), r":3\r\n");
    assert_eq!(client.ask("SADD b 3 4"), r":2\r\n");
    assert_eq!(client.ask("SINTERSTORE c a b"), r":1\r\n");
    assert_eq!(client.ask("SADD k:{tag}:x 1"), r":1\r\n");
    for line in ["MULTI", "SET a1 1", "SET b1 2", "SET c1 3", "SET d1 4"] {
        client.ask(line);
    }
    assert_eq!(client.ask("EXEC"), r"*4\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    let (_strict, mut strict) = embedded(&["--cross-shard=refuse", "--transactions=one-shard"]);
    strict.ask("SADD a 1 2 3");
    strict.ask("SADD b 3 4");
    let refused = ["a", "b", "c", "d"]
        .iter()
        .any(|key| strict.ask(&format!("SINTERSTORE x{key} {key} a b c d")).contains("CROSSSLOT"));
    assert!(refused, "explicit flags win");
}

#[test]
fn transactions_and_waits_are_answered_as_by_redis() {
    let node = RedisServer::reference();
    let (proxy, _client) = embedded(&["--workers=2"]);
    // Nothing is saved.
    let lacks = |scene: &&[&str]| scene.iter().any(|line| line.contains("SAVE"));
    for scene in SCENES.iter().filter(|scene| !lacks(scene)) {
        let clients = [Client::connect(proxy.port), Client::connect(proxy.port)];
        play(scene, [node.connect().into(), node.connect().into()], clients);
    }
}

#[test]
fn an_element_goes_to_the_longest_waiting_live_client() {
    let (proxy, mut other) = embedded(&["--workers=2"]);
    let mut waiters: Vec<Client> = (0..4).map(|_| Client::connect(proxy.port)).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send_command(&[b"BLPOP", b"queue", b"0"]);
        wait_for_blocked(&mut other, number + 1);
    }
    // The second one leaves, and costs no element.
    waiters.remove(1).reset();
    wait_for_blocked(&mut other, 3);
    for (number, waiter) in waiters.iter_mut().enumerate() {
        assert_eq!(other.ask(&format!("RPUSH queue e{number}")), r":1\r\n");
        let expected = format!(r"*2\r\n$5\r\nqueue\r\n$2\r\ne{number}\r\n");
        assert_eq!(show(&waiter.read_reply()), expected);
        assert_eq!(waiter.ask("PING"), r"+PONG\r\n");
    }
    assert_eq!(other.ask("LLEN queue"), r":0\r\n");
    assert_eq!(other.ask("BLPOP queue 0.01"), r"*-1\r\n");
}

#[test]
fn messages_reach_subscribers_of_all_workers() {
    let (proxy, mut publisher) = embedded(&["--workers=2", "--allow-admin"]);
    let mut subscribers: Vec<Client> = (0..4).map(|_| Client::connect(proxy.port)).collect();
    for subscriber in &mut subscribers {
        subscriber.ask("SUBSCRIBE news");
    }
    assert_eq!(publisher.ask("PUBLISH news hello"), r":4\r\n");
    for subscriber in &mut subscribers {
        let expected = r"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n";
        assert_eq!(show(&subscriber.read_reply()), expected);
    }
    assert_eq!(publisher.ask("CONFIG SET notify-keyspace-events KEA"), r"+OK\r\n");
    subscribers[0].ask("SUBSCRIBE __keyevent@0__:set");
    for key in ["a", "b", "c", "d"] {
        assert_eq!(publisher.ask(&format!("SET {key} v")), r"+OK\r\n");
        let event = show(&subscribers[0].read_reply());
        assert!(event.ends_with(&format!(r"__keyevent@0__:set\r\n$1\r\n{key}\r\n")), "{event}");
    }
}

#[test]
fn keys_expire() {
    let (_proxy, mut client) = embedded(&[]);
    assert_eq!(client.ask("SET short 1 PX 20"), r"+OK\r\n");
    poll_until("the key's end", || (client.ask("DBSIZE") == r":0\r\n").then_some(()));
    assert_eq!(client.ask("GET short"), r"$-1\r\n");
}

#[test]
fn memory_is_bounded() {
    let (_proxy, mut client) = embedded(&["--store-shards=1", "--store-memory=1mb"]);
    let value = "x".repeat(1000);
    let refused = (0..2000).find(|number| client.ask(&format!("SET k{number} {value}")) != r"+OK\r\n");
    let stored = refused.expect("two megabytes do not fit into one");
    assert!((500..1100).contains(&stored), "{stored}");
    let refusal = client.ask(&format!("SET more {value}"));
    assert!(refusal.starts_with("-OOM command not allowed when used memory > "), "{refusal}");
    assert_eq!(client.ask("FLUSHALL"), r"+OK\r\n");
    poll_until("room", || (client.ask(&format!("SET more {value}")) == r"+OK\r\n").then_some(()));
}

#[test]
fn redis_benchmark_runs_its_whole_list_on_it() {
    let (proxy, _client) = embedded(&[]);
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &proxy.port.to_string(), "-q", "-n", "2000", "-c", "10"]);
    let finished = run(command);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(!finished.stdout.contains("Error") && !finished.stderr.contains("Error"), "{}", finished.stdout);
    assert_eq!(finished.stdout.matches("requests per second").count(), 20, "{}", finished.stdout);
}

#[test]
fn commands_over_shards_work_with_emulation() {
    let (_proxy, mut client) = embedded(&["--cross-shard=emulate", "--store-shards=16"]);
    client.ask("SADD s1 a b");
    client.ask("SADD s2 b c");
    client.ask("RPUSH l1 x y");
    for (line, reply) in [
        ("SINTER s1 s2", r"*1\r\n$1\r\nb\r\n"),
        ("SUNIONSTORE s3 s1 s2", r":3\r\n"),
        ("SMOVE s1 s2 a", r":1\r\n"),
        ("SCARD s2", r":3\r\n"),
        ("EXPIRE s3 1000", r":1\r\n"),
        ("RENAME s3 s4", r"+OK\r\n"),
        ("TTL s4", r":1000\r\n"),
        ("RENAMENX s4 s1", r":0\r\n"),
        ("LMOVE l1 l2 RIGHT LEFT", r"$1\r\ny\r\n"),
        ("MSETNX k1 a k2 b k3 c", r":1\r\n"),
        ("MSETNX k3 d k4 e", r":0\r\n"),
        ("DBSIZE", r":8\r\n"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
}
