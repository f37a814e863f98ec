//! What needs its keys together is refused when they are not, in the words of Redis Cluster, and nothing is sent.

use crate::harness::World;

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
        assert_eq!(
            client.ask(&command),
            "-CROSSSLOT Keys in request don\\'t hash to the same slot\\r\\n",
            "{command}"
        );
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
    assert_eq!(
        replies,
        [
            "+OK\\r\\n",
            "-CROSSSLOT Keys in request don\\'t hash to the same slot\\r\\n",
            "$1\\r\\n1\\r\\n",
            "$-1\\r\\n"
        ]
    );
}
