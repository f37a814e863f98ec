//! Transactions over several shards (`--transactions=per-shard`). While no other client writes, the replies are those of one
//! Redis, byte for byte. Watched keys hold, and failures are reported truly.

use crate::harness::oracle::Oracle;
use crate::harness::processes::Proxy;
use crate::harness::{Client, World, show};
use crate::transactions::{SCENES, ask, play};

const PER_SHARD: &str = "--transactions=per-shard";

/// As [`SCENES`]; keys are on several shards.
const SCENES_ACROSS: &[&[&str]] = &[
    &[
        "0 MULTI",
        "0 SET a 1",
        "0 SET b 2",
        "0 SET c 3",
        "0 SET d 4",
        "0 INCR a",
        "0 MGET d c b a nosuch",
        "0 DEL a b x",
        "0 EXISTS a c d c",
        "0 GET c",
        "0 EXEC",
        "1 MGET a b c d",
    ],
    &[
        "0 MULTI",
        "0 MSET a 1 b 2 c 3 d 4 a 5",
        "0 MSET a 1 b",
        "0 LPUSH a x",
        "0 GET a",
        "0 UNLINK a b",
        "0 TOUCH c d",
        "0 PING",
        "0 ECHO x",
        "0 EXEC",
        "0 MGET a b c d",
    ],
    &["0 MULTI", "0 HSET h f 1", "0 SADD s x", "0 ZADD z 1 m", "0 HGETALL h", "0 ZRANGE z 0 -1", "0 EXEC"],
    &["0 MULTI", "0 SET a x", "0 INCR a", "0 SET b 1", "0 INCR b", "0 MGET a b", "0 EXEC"],
    &["0 MULTI", "0 NOSUCH", "0 SET a 1", "0 SET b 1", "0 EXEC", "0 MGET a b"],
    &["0 MULTI", "0 SET a 1", "0 SET b 1", "0 GET", "0 SET c 1", "0 EXEC", "0 MGET a b c"],
    &["0 MULTI", "0 SET a 1", "0 SET b 1", "0 DISCARD", "0 MGET a b", "0 EXEC"],
    &["0 MULTI", "0 SET a 1", "0 SET b 1", "0 RESET", "0 MGET a b"],
    &[
        "0 MULTI",
        "0 CLIENT SETNAME x",
        "0 SET a 1",
        "0 CLIENT GETNAME",
        "0 SET b 1",
        "0 EXEC",
        "0 CLIENT GETNAME",
    ],
    &[
        "0 MULTI",
        "0 EVAL 'return redis.call(\"incr\",KEYS[1])' 1 n",
        "0 SET m 1",
        "0 EVAL 'return 7' 0",
        "0 EXEC",
    ],
    &["0 MULTI", "0 RPUSH q x", "0 BLPOP q 0", "0 BLPOP r 0", "0 BRPOPLPUSH q q 0", "0 SET a 1", "0 EXEC"],
    &["0 SELECT 3", "0 MULTI", "0 SET a 1", "0 SET b 1", "0 EXEC", "1 MGET a b", "1 SELECT 3", "1 MGET a b"],
    &["0 WATCH a b c d", "0 MULTI", "0 SET a 1", "0 SET b 2", "0 EXEC", "0 MGET a b"],
    &["0 WATCH a b c d", "1 SET c 2", "0 MULTI", "0 SET a 3", "0 SET b 3", "0 EXEC", "0 MGET a b c"],
    &["0 WATCH a b c d", "1 SET d 2", "0 MULTI", "0 MSET a 3 b 3 c 3 d 3", "0 EXEC", "0 MGET a b c d"],
    &["0 WATCH a b c d", "0 SET a x", "0 MULTI", "0 SET b 1", "0 SET c 1", "0 EXEC", "0 MGET a b c"],
    &["0 WATCH a", "0 MULTI", "0 SET b 1", "0 SET c 1", "0 SET d 1", "0 EXEC", "0 MGET b c d"],
    &[
        "0 WATCH a",
        "1 SET a 2",
        "0 MULTI",
        "0 SET b 1",
        "0 SET c 1",
        "0 EXEC",
        "0 MGET b c",
        "0 MULTI",
        "0 EXEC",
    ],
    &[
        "0 WATCH a",
        "0 WATCH b",
        "0 WATCH c a",
        "1 DEL nosuch",
        "1 SET b 1",
        "0 MULTI",
        "0 SET d 1",
        "0 EXEC",
        "0 GET d",
    ],
    &["0 WATCH a b c", "1 SET b 1", "0 UNWATCH", "0 MULTI", "0 MSET a 1 d 1", "0 EXEC", "0 MGET a d"],
    &["0 WATCH a b c", "1 SET b 1", "0 MULTI", "0 DISCARD", "0 MULTI", "0 MSET a 1 d 1", "0 EXEC"],
    &["0 WATCH a b c", "1 SET b 1", "0 MULTI", "0 NOSUCH", "0 EXEC", "0 MULTI", "0 MSET a 1 d 1", "0 EXEC"],
    &["0 WATCH a b c d", "0 MULTI", "0 EXEC", "1 SET a 1", "0 MULTI", "0 SET b 1", "0 EXEC"],
    &["0 WATCH a b c d", "1 SET a 1", "0 MULTI", "0 EXEC"],
    &["0 WATCH a b c d", "0 MULTI", "0 PING", "0 EXEC"],
    &["0 WATCH a b c d", "1 FLUSHALL", "0 MULTI", "0 SET a 1", "0 SET b 1", "0 EXEC"],
];

/// Scenes that the embedded store supports.
fn is_in_store(scene: &&&[&str]) -> bool {
    !scene.iter().any(|line| line.contains("EVAL") || line.contains("SAVE"))
}

#[test]
fn transactions_over_several_shards_are_answered_as_by_redis() {
    let (oracle, world) = (Oracle::start(), World::with_flags(4, &[PER_SHARD]));
    for scene in SCENES.iter().chain(SCENES_ACROSS) {
        play(scene, [oracle.connect(), oracle.connect()], [world.connect(), world.connect()]);
    }
}

#[test]
fn the_same_transactions_are_answered_so_over_the_store() {
    let oracle = Oracle::start();
    let proxy = Proxy::start(&["--port=0", "--workers=2", "--store-shards=16", PER_SHARD]);
    for scene in SCENES.iter().chain(SCENES_ACROSS).filter(is_in_store) {
        let clients = [Client::connect(proxy.port), Client::connect(proxy.port)];
        play(scene, [oracle.connect(), oracle.connect()], clients);
    }
}

#[test]
fn a_thousand_keys_are_written_and_read_in_one_transaction() {
    let world = World::with_flags(4, &[PER_SHARD]);
    let mut client = world.connect();
    assert_eq!(client.ask("MULTI"), r"+OK\r\n");
    for number in 0..1000 {
        assert_eq!(client.ask(&format!("SET key{number} {number}")), r"+QUEUED\r\n");
        assert_eq!(client.ask(&format!("GET key{number}")), r"+QUEUED\r\n");
    }
    let each = |number: usize| format!("+OK\r\n${}\r\n{number}\r\n", number.to_string().len());
    let expected: String = (0..1000).map(each).collect();
    assert_eq!(show(&client.command(&[b"EXEC"])), show(format!("*2000\r\n{expected}").as_bytes()));
}

#[test]
fn a_node_death_in_a_transaction_is_reported_by_part() {
    let mut world = World::with_flags(2, &[PER_SHARD]);
    let (a, b) = (world.key_on(0, "a"), world.key_on(1, "b"));
    let mut client = world.connect();
    for line in ["MULTI", &format!("SET {a} 1"), &format!("EVAL 'while true do end' 1 {b}")] {
        ask(&mut client, line);
    }
    let (mut first, mut second) = (world.nodes[0].connect(), world.nodes[1].connect());
    assert_eq!(second.ask("CONFIG SET lua-time-limit 1"), r"+OK\r\n");
    client.send(b"EXEC\r\n");
    crate::harness::poll_until("both parts", || {
        let has_run = first.ask(&format!("GET {a}")) == r"$1\r\n1\r\n";
        // The script runs for ever: from now on the second part can only be lost.
        (has_run && second.ask("PING").starts_with("-BUSY")).then_some(())
    });
    world.nodes[1].kill();
    let reply = show(&client.read_reply());
    assert!(reply.starts_with(r"*2\r\n+OK\r\n-ERR node "), "{reply}");
    assert!(reply.contains("outcome unknown (shard "), "{reply}");
    // The node is known to be down: the other one gets nothing.
    crate::harness::poll_until("a refusal", || {
        for line in ["MULTI", &format!("SET {a} 2"), &format!("SET {b} 2")] {
            ask(&mut client, line);
        }
        client.ask("EXEC").starts_with("-EXECABORT ").then_some(())
    });
    assert_eq!(client.ask(&format!("GET {a}")), r"$1\r\n1\r\n");
}
