//! Commands that need all keys on one shard are refused otherwise, in the words of Redis Cluster, and no node gets them.

use crate::harness::oracle::Oracle;
use crate::harness::{World, server};

/// Requests that Redis refuses before it looks for any key. A and B are keys on two shards.
const WRONG_IN_ITSELF: &[&str] = &[
    "MSETNX A 1 B",
    "MSETNX A 1 B 2 C",
    "MSET A 1 B",
    "EVAL s 3 A B",
    "EVAL s x A B",
    "EVALSHA 0123 -1 A B",
    "FCALL f x A B",
    "ZUNIONSTORE A 0 B",
    "ZUNIONSTORE A x B",
    "ZUNIONSTORE A 2 B",
    "ZUNIONSTORE A 2 B C WEIGHTS 1",
    "ZUNIONSTORE A 2 B C AGGREGATE FOO",
    "ZINTERSTORE A 2 B C FOO",
    "ZDIFFSTORE A 2 B C WEIGHTS 1 2",
    "ZUNION 3 A B",
    "ZUNION 2 A B WITHSCORES FOO",
    "ZINTER 2 A B WEIGHTS 1 x",
    "ZDIFF 2 A B FOO",
    "ZINTERCARD 2 A B LIMIT -1",
    "SINTERCARD 2 A B LIMIT",
    "SINTERCARD 0 A B",
    "SINTERCARD 2 A B FOO",
    "LMPOP 2 A B",
    "LMPOP 2 A B LEFT COUNT 0",
    "LMPOP 3 A B LEFT",
    "LMPOP 0 A B LEFT",
    "ZMPOP 2 A B MIN FOO",
    "ZMPOP 2 A B MIN COUNT x",
    "ZMPOP x A B MIN",
    "BLMPOP 0 2 A B FOO",
    "BLMPOP 0 3 A B LEFT",
    "BLMPOP x 2 A B LEFT",
    "BZMPOP -1 2 A B MIN",
    "BLPOP A B x",
    "BZPOPMIN A B -1",
    "BRPOPLPUSH A B x",
    "BLMOVE A B FOO LEFT 1",
    "LMOVE A B LEFT FOO",
    "BITOP FOO A B C",
    "BITOP NOT A B C",
    "BITOP AND A",
    "GEORADIUS A 0 0 1 m STORE B FOO",
    "GEORADIUS A 0 0 1 x STORE B",
    "GEORADIUS A 0 0 1 m STORE B WITHDIST",
    "GEORADIUSBYMEMBER A m 1 m STORE B FOO",
    "GEOSEARCHSTORE A B BYRADIUS 1 m ASC DESC",
    "SORT A STORE B FOO",
    "ZRANGESTORE A B 0 -1 LIMIT 0 1",
    "COPY A B FOO",
    "LCS A B LEN IDX",
    "XREAD STREAMS A B 0",
    "XREADGROUP GROUP g c COUNT x STREAMS A B > >",
    "XREADGROUP GROUP g c STREAMS A B >",
];

#[test]
fn invalid_requests_over_shards_fail_as_in_redis() {
    if server::is_too_old_for("the words of Redis 7.0") {
        return;
    }
    let oracle = Oracle::start();
    let mut expected = oracle.connect();
    for world in
        [World::with_shards(4), World::with_flags(4, &["--cross-shard=emulate"]), World::with_shards(1)]
    {
        let mut client = world.connect();
        let keys = |index: usize| world.key_on(index % world.nodes.len(), "key");
        for line in WRONG_IN_ITSELF {
            let named = |word: &str| match word {
                "A" => keys(0),
                "B" => keys(1),
                "C" => keys(2),
                _ => word.to_owned(),
            };
            let line = line.split(' ').map(named).collect::<Vec<_>>().join(" ");
            let (got, expected) = (client.ask(&line), expected.ask(&line));
            assert!(expected.contains(&got), "{line}: {got}, redis: {expected:?}");
            assert!(got.starts_with('-') && !got.starts_with("-CROSSSLOT "), "{line}: {got}");
        }
    }
}

#[test]
fn commands_that_cannot_be_split_are_refused_across_shards() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let [a, b] = [world.key_on(0, "a"), world.key_on(1, "b")];
    let commands = [
        format!("RENAME {a} {b}"),
        format!("RENAMENX {a} {b}"),
        format!("COPY {a} {b}"),
        format!("SMOVE {a} {b} m"),
        format!("SINTER {a} {b}"),
        format!("SUNION {a} {b}"),
        format!("SDIFF {a} {b}"),
        format!("SINTERSTORE {a} {a} {b}"),
        format!("SUNIONSTORE {a} {b}"),
        format!("SDIFFSTORE {a} {b}"),
        format!("SINTERCARD 2 {a} {b}"),
        format!("ZUNION 2 {a} {b}"),
        format!("ZINTER 2 {a} {b}"),
        format!("ZDIFF 2 {a} {b}"),
        format!("ZUNIONSTORE {a} 2 {a} {b}"),
        format!("ZINTERSTORE {a} 1 {b}"),
        format!("ZDIFFSTORE {b} 2 {a} {a}"),
        format!("ZINTERCARD 2 {a} {b}"),
        format!("ZRANGESTORE {a} {b} 0 -1"),
        format!("ZMPOP 2 {a} {b} MIN"),
        format!("LMPOP 2 {a} {b} LEFT"),
        format!("LMOVE {a} {b} LEFT LEFT"),
        format!("RPOPLPUSH {a} {b}"),
        format!("BITOP AND {a} {a} {b}"),
        format!("PFMERGE {a} {b}"),
        format!("PFCOUNT {a} {b}"),
        format!("LCS {a} {b}"),
        format!("GEOSEARCHSTORE {a} {b} FROMLONLAT 0 0 BYRADIUS 1 m"),
        format!("GEORADIUS {a} 0 0 1 m STORE {b}"),
        format!("SORT {a} STORE {b}"),
        format!("MSETNX {a} 1 {b} 2"),
        format!("XREADGROUP GROUP g c STREAMS {a} {b} > >"),
        format!("EVAL return 2 {a} {b}"),
        format!("EVAL_RO return 2 {a} {b}"),
    ];
    for command in commands {
        assert_crossed(&client.ask(&command), &command);
    }
    assert_eq!(client.ask("DBSIZE"), ":0\\r\\n");
}

#[test]
fn a_refused_command_in_a_pipeline_keeps_its_place() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let [a, b] = [world.key_on(0, "a"), world.key_on(1, "b")];
    client.send(format!("SET {a} 1\r\nRENAME {a} {b}\r\nGET {a}\r\nGET {b}\r\n").as_bytes());
    let replies: Vec<String> = (0..4).map(|_| client.read_reply().escape_ascii().to_string()).collect();
    assert_crossed(&replies[1], "RENAME");
    assert_eq!([&replies[0], &replies[2], &replies[3]], ["+OK\\r\\n", "$1\\r\\n1\\r\\n", "$-1\\r\\n"]);
}

fn assert_crossed(reply: &str, command: &str) {
    let words = "-CROSSSLOT Keys in request don\\'t hash to the same slot. To make it work, give the keys one hash tag (a{tag}, b{tag})";
    assert!(reply.starts_with(words), "{command}: {reply}");
}
