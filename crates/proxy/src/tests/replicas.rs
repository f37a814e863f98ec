//! Transcripts of reads that go to replicas. `|` stands for CR LF. Nodes 0 and 1 are the primaries of two shards, 2 and 3
//! their replicas.

use crate::testing::Rig;
use crate::{Board, ConnId, Ejecting, Event, Limits, Notice, ReadFrom, Reading, Settings};
use std::sync::Arc;
use std::time::Duration;
use topology::{NodeSpec, ShardSpec, Topology};

const LIST: &str = "127.0.0.1:7000|127.0.0.1:7002,127.0.0.1:7001|127.0.0.1:7003";
const INFO: &str = "*2|$4|INFO|$11|REPLICATION|";

fn get(key: &str) -> String {
    format!("*2|$3|get|${}|{key}|", key.len())
}

fn set(key: &str) -> String {
    format!("*3|$3|set|${}|{key}|$1|1|", key.len())
}

/// The report of a node with this offset. The node's number shows whether it is a replica.
fn report(node: u32, offset: u64) -> String {
    let history = "a".repeat(40);
    let text = match node {
        0 | 1 => format!("role:master|master_replid:{history}|master_repl_offset:{offset}|"),
        _ => format!("role:slave|master_link_status:up|slave_repl_offset:{offset}|master_replid:{history}|"),
    };
    format!("${}|{text}|", text.replace('|', "\r\n").len())
}

/// A proxy with the settings `reading`, whose nodes have said PONG.
fn rig(reading: Reading) -> Rig {
    let settings = Settings { reading, ..Settings::default() };
    let mut rig = Rig::over(LIST, Limits::default(), settings, &Arc::new(Board::new(1)));
    rig.pass(Duration::from_millis(1));
    let replicas_too = rig.proxy.core.readers.are_watched();
    (0..if replicas_too { 4 } else { 2 }).for_each(|node| rig.bring_up(node));
    rig
}

/// A proxy with the policy `from`, whose nodes have reported the offset 10.
fn told(from: ReadFrom) -> Rig {
    let mut rig = rig(Reading { from, ..Reading::default() });
    poll(&mut rig, [10; 4]);
    rig
}

/// Passes time until the nodes of shard 0 were polled and have answered with their offsets.
fn poll(rig: &mut Rig, offsets: [u64; 4]) {
    let mut asked = [false; 4];
    for _ in 0..200 {
        for (node, offset) in (0..).zip(offsets) {
            let got = rig.node_got(node);
            assert!(got.is_empty() || got == INFO, "node {node} got {got}");
            if got == INFO {
                asked[node as usize] = true;
                rig.node_sends(node, &report(node, offset));
            }
        }
        if asked[0] && asked[2] {
            return;
        }
        rig.pass(Duration::from_millis(10));
    }
    panic!("nobody is asked how far he is: {asked:?}");
}

/// The lag of the replica of shard 0, whether its slow start goes on, and how many have begun.
fn seen(rig: &mut Rig) -> (Option<u64>, bool, u64) {
    rig.proxy.core.publish();
    let nodes = rig.proxy.core.cx.board.page().nodes.nodes;
    (nodes[2].lag_bytes, nodes[2].starts_slowly, nodes[2].counts.slow_starts)
}

#[test]
fn lag_and_slow_starts_of_replicas_are_published() {
    let mut rig = rig(Reading { from: ReadFrom::PreferReplica, ..Reading::default() });
    assert_eq!(seen(&mut rig), (None, false, 0), "it has not reported yet");
    poll(&mut rig, [70, 10, 30, 10]);
    assert_eq!(seen(&mut rig), (Some(40), false, 0));
    let replica = rig.node(2);
    lose(&mut rig, replica);
    assert_eq!(seen(&mut rig), (None, false, 0));
    rig.pass(Duration::from_secs(1));
    rig.bring_up(2);
    poll(&mut rig, [70, 10, 70, 10]);
    assert_eq!(seen(&mut rig), (Some(0), true, 1));
    rig.pass(Limits::default().slow_start);
    assert!(!seen(&mut rig).1, "it is over");
}

fn lose(rig: &mut Rig, conn: ConnId) {
    rig.event(Event::Closed { conn, reason: "connection reset" });
}

#[test]
fn reads_go_to_a_known_replica_and_writes_do_not() {
    let mut rig = rig(Reading { from: ReadFrom::PreferReplica, ..Reading::default() });
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("get {key}|"));
    assert!(rig.node_got(0).ends_with(&get(&key)), "nobody has told yet");
    rig.node_sends(0, "$1|0|");
    poll(&mut rig, [10; 4]);
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!((rig.node_got(0), rig.node_got(2)), (String::new(), get(&key)));
    rig.node_sends(2, "$1|0|");
    rig.client_sends(client, &format!("set {key} 1|"));
    assert_eq!((rig.node_got(0), rig.node_got(2)), (set(&key), String::new()));
    rig.node_sends(0, "+OK|");
    assert_eq!(rig.taken(client), "$1|0|$1|0|+OK|");
    let counters = rig.proxy.counters();
    assert_eq!((counters.replica_reads, counters.replica_fallbacks), (1, 1));
}

#[test]
fn clients_keep_order_and_read_their_own_writes() {
    let mut rig = told(ReadFrom::PreferReplica);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("get {key}|set {key} 1|get {key}|"));
    assert_eq!((rig.node_got(0), rig.node_got(2)), (String::new(), get(&key)), "the write waits");
    rig.node_sends(2, "$-1|");
    assert_eq!((rig.node_got(0), rig.node_got(2)), (set(&key) + &get(&key), String::new()));
    rig.node_sends(0, "+OK|$1|1|");
    assert_eq!(rig.taken(client), "$-1|+OK|$1|1|");
    // The write is not known to be there yet.
    poll(&mut rig, [20, 10, 19, 10]);
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!(rig.node_got(0), get(&key));
    rig.node_sends(0, "$1|1|");
    // Other clients may read there.
    let other = rig.client();
    rig.client_sends(other, &format!("get {key}|"));
    assert_eq!(rig.node_got(2), get(&key));
    rig.node_sends(2, "$-1|");
    poll(&mut rig, [20, 10, 20, 10]);
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!((rig.node_got(0), rig.node_got(2)), (String::new(), get(&key)), "it is there now");
    rig.node_sends(2, "$1|1|");
    assert_eq!(rig.proxy.counters().own_write_reads, 2);
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn a_read_behind_a_write_in_flight_goes_where_the_write_went() {
    let mut rig = told(ReadFrom::Replica);
    let (client, key, other) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("set {key} 1|get {other}|get {key}|"));
    assert_eq!(rig.node_got(0), set(&key) + &get(&key));
    assert_eq!(rig.node_got(3), get(&other), "another shard has no part in it");
    rig.node_sends(3, "$-1|");
    rig.node_sends(0, "+OK|$1|1|");
    assert_eq!(rig.taken(client), "+OK|$-1|$1|1|");
}

/// The requests sent a second later, while a reply of `len` bytes comes from the replica in steps of 50 ms.
fn read_during_large_reply(rig: &mut Rig, step: usize) -> [String; 2] {
    let (slow, client, key) = (rig.client(), rig.client(), rig.key(0));
    rig.client_sends(slow, &format!("get {key}|"));
    assert_eq!(rig.node_got(2), get(&key));
    rig.node_sends(2, &format!("${}|", 20 * 1024));
    for _ in 0..20 {
        if step > 0 {
            rig.node_sends(2, &"x".repeat(step));
        }
        rig.pass(Duration::from_millis(50));
        for node in [0, 1, 3] {
            if rig.node_got(node) == INFO {
                rig.node_sends(node, &report(node, 10));
            }
        }
    }
    rig.node_got(2);
    rig.client_sends(client, &format!("get {key}|"));
    [0, 2].map(|node| rig.node_got(node))
}

#[test]
fn a_replica_is_not_silent_while_a_long_reply_comes() {
    let (mut rig, mut silent) = (told(ReadFrom::PreferReplica), told(ReadFrom::PreferReplica));
    let key = rig.key(0);
    assert_eq!(read_during_large_reply(&mut rig, 1024), [String::new(), get(&key)]);
    assert_eq!(read_during_large_reply(&mut silent, 0), [get(&key), String::new()]);
}

#[test]
fn the_primary_answers_reads_of_a_lost_replica() {
    let mut rig = told(ReadFrom::PreferReplica);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("get {key}|get {key}|"));
    assert_eq!(rig.node_got(2), get(&key).repeat(2));
    rig.node_sends(2, "$1|0|");
    let node = rig.node(2);
    lose(&mut rig, node);
    assert_eq!(rig.node_got(0), get(&key));
    rig.node_sends(0, "$1|1|");
    assert_eq!(rig.taken(client), "$1|0|$1|1|");
    // The replica may have lost its data meanwhile.
    rig.pass(Duration::from_millis(50));
    rig.bring_up(2);
    rig.client_sends(client, &format!("get {key}|"));
    let got = rig.node_got(0);
    assert!(got.ends_with(&get(&key)), "it is not read from before it has told of itself: {got}");
    assert_eq!(rig.proxy.counters().replica_retries, 1);
}

#[test]
fn primary_answers_reads_that_a_replica_declines() {
    for word in ["LOADING Redis is loading", "MASTERDOWN Link with MASTER is down"] {
        let mut rig = told(ReadFrom::PreferReplica);
        let (client, key) = (rig.client(), rig.key(0));
        rig.client_sends(client, &format!("get {key}|get {key}|"));
        rig.node_got(2);
        rig.node_sends(2, &format!("-{word}|-{word}|"));
        assert_eq!(rig.node_got(0), get(&key).repeat(2));
        rig.node_sends(0, "$1|1|$1|1|");
        assert_eq!(rig.taken(client), "$1|1|$1|1|");
        rig.client_sends(client, &format!("get {key}|"));
        assert_eq!((rig.node_got(0), rig.node_got(2)), (get(&key), String::new()));
        // An error of the request itself is the same from the replica as from the primary.
        let mut rig = told(ReadFrom::PreferReplica);
        let client = rig.client();
        rig.client_sends(client, &format!("get {key}|"));
        rig.node_sends(2, "-WRONGTYPE wrong|");
        assert_eq!(rig.taken(client), "-WRONGTYPE wrong|");
    }
}

#[test]
fn primary_answers_reads_of_a_frozen_replica() {
    let mut rig = told(ReadFrom::PreferReplica);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!(rig.node_got(2), get(&key));
    // No other client is sent to the replica once it is silent.
    rig.pass(Duration::from_millis(500));
    let other = rig.client();
    rig.client_sends(other, &format!("get {key}|"));
    assert!(rig.node_got(0).ends_with(&get(&key)));
    rig.pass(Duration::from_millis(501));
    assert!(rig.node_got(0).ends_with(&get(&key)), "the time of the first is up");
    let late = report(2, 10);
    rig.node_sends(2, &format!("$4|late|{late}"));
    assert_eq!(rig.taken(client), "");
    let first = report(0, 10);
    rig.node_sends(0, &format!("{first}$1|1|$1|1|"));
    assert_eq!((rig.taken(other), rig.taken(client)), ("$1|1|".to_owned(), "$1|1|".to_owned()));
}

#[test]
fn a_client_chooses_whether_replicas_answer() {
    let mut rig = Rig::over(LIST, Limits::default(), Settings::default(), &Arc::new(Board::new(1)));
    (0..2).for_each(|node| rig.bring_up(node));
    let (client, other, key) = (rig.client(), rig.client(), rig.key(0));
    rig.client_sends(client, "readonly|");
    rig.pass(Duration::from_millis(1));
    (2..4).for_each(|node| rig.bring_up(node));
    poll(&mut rig, [10; 4]);
    rig.client_sends(other, &format!("get {key}|"));
    assert_eq!(rig.node_got(0), get(&key), "it has not said so");
    rig.node_sends(0, "$-1|");
    rig.client_sends(client, &format!("get {key}|readwrite|get {key}|"));
    assert_eq!((rig.node_got(0), rig.node_got(2)), (String::new(), get(&key)));
    rig.node_sends(2, "$-1|");
    assert_eq!((rig.node_got(0), rig.node_got(2)), (get(&key), String::new()));
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "+OK|$-1|+OK|$-1|");
}

#[test]
fn read_policy_follows_the_clients_listener() {
    let of_listeners = [(1, ReadFrom::PreferReplica), (2, ReadFrom::Replica)].into_iter().collect();
    let mut rig = rig(Reading { of_listeners, ..Reading::default() });
    let (at_primary, at_replica) = (rig.client_at(0), rig.client_at(1));
    let key = rig.key(0);
    let reads_at = |rig: &mut Rig, client, node| {
        rig.client_sends(client, &format!("get {key}|"));
        let got = [0, 2].map(|node| rig.node_got(node).ends_with(&get(&key)));
        assert_eq!(got, [node == 0, node == 2]);
        rig.node_sends(node, "$-1|");
    };
    poll(&mut rig, [10; 4]);
    reads_at(&mut rig, at_primary, 0);
    reads_at(&mut rig, at_replica, 2);
    // A client's own choice lasts until it takes the choice back, or resets.
    for (ask, node) in [("readonly", 2), ("readwrite", 0), ("readonly", 2), ("reset", 0)] {
        rig.client_sends(at_primary, &format!("{ask}|"));
        reads_at(&mut rig, at_primary, node);
    }
    for ask in ["readwrite", "reset"] {
        rig.client_sends(at_replica, &format!("{ask}|"));
        reads_at(&mut rig, at_replica, 2);
    }
    let only_replica = rig.client_at(2);
    let node = rig.node(2);
    lose(&mut rig, node);
    rig.client_sends(only_replica, &format!("get {key}|"));
    assert!(rig.taken(only_replica).starts_with("-TRYAGAIN "), "its policy knows no other way");
    reads_at(&mut rig, at_replica, 0);
}

#[test]
fn a_node_of_unknown_zone_is_asked_once() {
    let zone = Some("b".to_owned());
    let mut rig = rig(Reading { from: ReadFrom::Zone, zone, ..Reading::default() });
    rig.pass(Duration::from_millis(1));
    let all = "*1|$4|INFO|";
    assert_eq!([0, 1, 2, 3].map(|node| rig.node_got(node)), [all; 4]);
    for (node, zone) in [(0, "b"), (1, "a"), (2, "a"), (3, "b")] {
        let told = report(node, 10).replace('|', "\r\n");
        let (_, told) = told.split_once("\r\n").expect("a length");
        let text = format!("redis_version:7.2.4\r\navailability_zone:{zone}\r\n{}", told.trim_end());
        rig.node_sends(node, &format!("${}|{text}|", text.len()));
    }
    let (client, keys) = (rig.client(), [rig.key(0), rig.key(1)]);
    // In the first shard only the primary is near; in the second, the replica.
    for (key, node) in keys.iter().zip([0, 3]) {
        rig.client_sends(client, &format!("get {key}|"));
        assert_eq!(rig.node_got(node), get(key));
        rig.node_sends(node, "$-1|");
    }
    poll(&mut rig, [10; 4]);
    rig.client_sends(client, "info nodes|");
    rig.node_got(0);
    rig.node_got(1);
    (0..2).for_each(|node| rig.node_sends(node, "$0||"));
    let said = rig.taken(client);
    let line = "|node1_replica1:address=127.0.0.1:7003,state=up,lag=0,rtt_us=";
    assert!(said.contains(line) && said.contains(",in_our_zone=yes,share=100%|"), "{said}");
    rig.client_sends(client, "info stats|");
    rig.node_got(0);
    rig.node_got(1);
    (0..2).for_each(|node| rig.node_sends(node, "$0||"));
    let said = rig.taken(client);
    assert!(said.contains("|reads_from_zone:replica=1,primary=1,own_write=0,fallback=0|"), "{said}");
}

#[test]
fn each_part_of_a_split_read_follows_its_shards_policy() {
    let mut rig = told(ReadFrom::PreferReplica);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("set {a} 1|"));
    rig.node_got(0);
    rig.node_sends(0, "+OK|");
    rig.client_sends(client, &format!("mget {a} {b}|"));
    assert!(rig.node_got(0).starts_with("*2|$4|mget|"), "its own write");
    assert!(rig.node_got(3).starts_with("*2|$4|mget|"));
    let node = rig.node(3);
    lose(&mut rig, node);
    assert!(rig.node_got(1).starts_with("*2|$4|mget|"));
    rig.node_sends(1, "*1|$1|b|");
    rig.node_sends(0, "*1|$1|1|");
    assert_eq!(rig.taken(client), "+OK|*2|$1|1|$1|b|");
    assert_eq!((rig.proxy.pending().merges, rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn reads_for_replicas_only_are_refused_without_one() {
    let mut rig = rig(Reading { from: ReadFrom::Replica, lag_bytes_max: Some(5), ..Reading::default() });
    poll(&mut rig, [10; 4]);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!(rig.node_got(2), get(&key));
    rig.node_sends(2, "$-1|");
    rig.pass(Duration::from_secs(1));
    rig.notices();
    poll(&mut rig, [20, 10, 14, 10]);
    rig.client_sends(client, &format!("get {key}|get {key}|"));
    let why = "it lags too far";
    let refusal = format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: no replica is readable: {why}|");
    assert_eq!(rig.taken(client), format!("$-1|{refusal}{refusal}"));
    let (shard, reason) = ("127.0.0.1:7000".to_owned(), why.to_owned());
    assert_eq!(rig.notices(), [Notice::NoReplicaFit { shard: shard.clone(), reason }]);
    poll(&mut rig, [20, 10, 15, 10]);
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!(rig.node_got(2), get(&key));
    assert_eq!(rig.notices(), [Notice::ReplicaFit { shard }]);
}

#[test]
fn a_lag_is_unknown_while_the_primary_owes_an_answer() {
    let mut rig =
        rig(Reading { from: ReadFrom::PreferReplica, lag_bytes_max: Some(5), ..Reading::default() });
    poll(&mut rig, [10; 4]);
    let (client, other, key, primary) = (rig.client(), rig.client(), rig.key(0), rig.node(0));
    rig.client_sends(other, &format!("getdel {key}|"));
    rig.node_sends(0, "$50000|");
    let read = |rig: &mut Rig, bytes: &str| {
        for _ in 0..220 {
            rig.pass(Duration::from_millis(10));
            while rig.node_got(2) == INFO {
                rig.node_sends(2, &report(2, 10));
            }
            rig.node_sends(0, bytes);
        }
        rig.node_got(0);
        rig.client_sends(client, &format!("get {key}|"));
        [0, 2].map(|node| rig.node_got(node) == get(&key))
    };
    assert_eq!(read(&mut rig, "x"), [true, false], "its answer is behind a long reply");
    lose(&mut rig, primary);
    assert_eq!(read(&mut rig, ""), [false, true], "it cannot be asked: its last answer counts");
}

#[test]
fn watched_and_tracked_reads_go_to_the_primary() {
    let mut rig = told(ReadFrom::PreferReplica);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("watch {key}|"));
    let held = rig.bring_up_greeted(0, "*1|$4|PING|", "+PONG|");
    rig.sends(held, "+OK|");
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!((rig.node_got(0), rig.node_got(2)), (get(&key), String::new()));
    rig.node_sends(0, "$-1|");
    rig.client_sends(client, &format!("multi|get {key}|exec|get {key}|"));
    let sent = rig.taken(held);
    assert!(sent.ends_with("*1|$4|EXEC|") || sent.ends_with("*1|$4|exec|"), "{sent}");
    rig.sends(held, "+OK|+QUEUED|*1|$-1|");
    assert_eq!(rig.node_got(2), "", "what EXEC may have written is read from the primary");
    assert_eq!(rig.node_got(0), get(&key));
}

#[test]
fn links_to_replicas_of_a_cluster_begin_with_readonly() {
    let mut rig = told(ReadFrom::PreferReplica);
    let spec = |node: u16| NodeSpec::tcp("127.0.0.1", 7000 + node);
    let shard = |name: &str, primary: u16, replica: u16, slots| ShardSpec {
        name: name.to_owned(),
        primary: Some(spec(primary)),
        replicas: vec![spec(replica)],
        slots: vec![slots],
    };
    let shards = [shard("a", 0, 4, 0..=8191), shard("b", 1, 5, 8192..=16383)];
    let before = Arc::clone(&rig.proxy.core.cx.engine.topology);
    rig.adopt(Topology::of_cluster(Some(&before), 2, &shards).expect("valid"));
    rig.pass(Duration::from_millis(100));
    let node = rig.node(4);
    rig.event(Event::Connected { conn: node });
    assert_eq!(rig.taken(node), "*1|$8|READONLY|*1|$4|PING|");
    rig.sends(node, "+OK|+PONG|");
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.taken(node), INFO, "it is asked at once");
}

#[test]
fn write_redirected_to_a_replica_is_redirected_onward() {
    let mut rig = Rig::over(LIST, Limits::default(), Settings::default(), &Arc::new(Board::new(1)));
    let spec = |node: u16| NodeSpec::tcp("127.0.0.1", 7000 + node);
    let (name, replicas) = ("a".to_owned(), vec![spec(4)]);
    let shard = ShardSpec { name, primary: Some(spec(0)), replicas, slots: vec![0..=16383] };
    let before = Arc::clone(&rig.proxy.core.cx.engine.topology);
    rig.bring_up(0);
    rig.adopt(Topology::of_cluster(Some(&before), 2, &[shard]).expect("valid"));
    let client = rig.client();
    rig.client_sends(client, "set k 1|");
    assert_eq!(rig.node_got(0), set("k"));
    // Gossip is ahead of the present map, and of the node itself.
    rig.node_sends(0, "-MOVED 7629 127.0.0.1:7004|");
    rig.pass(Duration::from_millis(1));
    let node = rig.node(4);
    rig.event(Event::Connected { conn: node });
    assert_eq!(rig.taken(node), "*1|$8|READONLY|*1|$4|PING|");
    rig.sends(node, "+OK|+PONG|");
    assert_eq!(rig.taken(node), set("k"));
    rig.sends(node, "-MOVED 7629 127.0.0.1:7000|");
    assert_eq!(rig.node_got(0), set("k"));
    rig.node_sends(0, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn promoted_replica_gets_a_new_link_and_writes() {
    let mut rig = told(ReadFrom::PreferReplica);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("get {key}|"));
    let reader = rig.node(2);
    assert_eq!(rig.taken(reader), get(&key));
    rig.promote(0, 2);
    rig.client_sends(client, &format!("set {key} 1|"));
    rig.sends(reader, "$1|0|");
    assert_eq!(rig.taken(client), "$1|0|");
    assert!(rig.is_closed(reader));
    let writer = rig.bring_up_pinned(2);
    assert_eq!(rig.taken(writer), set(&key));
}

#[test]
fn replica_answers_reads_while_its_primary_is_down() {
    for covers_for_primary in [false, true] {
        let mut rig = rig(Reading { covers_for_primary, ..Reading::default() });
        poll_if(&mut rig, covers_for_primary);
        let (client, key) = (rig.client(), rig.key(0));
        rig.client_sends(client, &format!("get {key}|"));
        assert_eq!(rig.node_got(0), get(&key));
        rig.node_sends(0, "$1|0|");
        for _ in 0..2 {
            let node = rig.node(0);
            lose(&mut rig, node);
            rig.pass(Duration::from_millis(20));
        }
        rig.client_sends(client, &format!("get {key}|set {key} 1|"));
        let refused = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: connection reset|";
        if covers_for_primary {
            let got = rig.node_got(2);
            assert!(got.ends_with(&get(&key)), "{got}");
            let told = report(2, 10).repeat(got.matches(INFO).count());
            rig.node_sends(2, &(told + "$1|1|"));
            assert_eq!(rig.taken(client), format!("$1|0|$1|1|{refused}"));
        } else {
            assert_eq!(rig.taken(client), format!("$1|0|{refused}{refused}"));
        }
    }
}

fn poll_if(rig: &mut Rig, watched: bool) {
    if watched {
        poll(rig, [10; 4]);
    }
}

#[test]
fn failed_nodes_keys_move_to_the_others_until_it_returns() {
    let ejecting = Ejecting { failures_max: 2, retry_after: Duration::from_secs(5) };
    let settings = Settings { ejecting: Some(ejecting), ..Settings::default() };
    let limits = Limits { slow_start: Duration::ZERO, ..Limits::default() };
    let mut rig = Rig::ready_as(2, limits, settings);
    let (client, key) = (rig.client(), rig.key(0));
    for _ in 0..2 {
        let node = rig.node(0);
        lose(&mut rig, node);
        rig.pass(Duration::from_millis(20));
    }
    let out = vec!["127.0.0.1:7000".to_owned()];
    assert!(rig.notices().contains(&Notice::Remapped { out, returning: vec![] }));
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!(rig.node_got(1), get(&key));
    rig.node_sends(1, "$-1|");
    rig.pass(Duration::from_millis(20));
    rig.bring_up(0);
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!(rig.node_got(1), get(&key), "its time is not up");
    rig.node_sends(1, "$-1|");
    rig.pass(Duration::from_millis(4_500));
    rig.client_sends(client, &format!("get {key}|"));
    rig.pass(Duration::from_millis(500));
    assert!(rig.notices().contains(&Notice::Remapped { out: vec![], returning: vec![] }));
    // Requests in flight elsewhere are not overtaken.
    rig.client_sends(client, &format!("set {key} 1|"));
    assert_eq!((rig.node_got(0), rig.node_got(1)), (String::new(), get(&key)));
    rig.node_sends(1, "$-1|");
    assert_eq!(rig.node_got(0), set(&key));
}

#[test]
fn returning_node_regains_keys_stepwise_each_once() {
    const KEYS: usize = 200;
    let ejecting = Ejecting { failures_max: 1, retry_after: Duration::ZERO };
    let settings = Settings { ejecting: Some(ejecting), ..Settings::default() };
    let mut rig = Rig::ready_as(2, Limits::default(), settings);
    let client = rig.client();
    let topology = Arc::clone(&rig.proxy.core.cx.engine.topology);
    let is_of_first = |key: &String| topology.shard_of(key.as_bytes()).0 == 0;
    let keys: Vec<String> = (0..).map(|n| format!("k{n}")).filter(is_of_first).take(KEYS).collect();
    let node = rig.node(0);
    lose(&mut rig, node);
    // The keys, of all that belong to the first node, that are sent there.
    let at_home = |rig: &mut Rig| -> Vec<usize> {
        let is_asked = |number: &usize| {
            rig.client_sends(client, &format!("get {}|", keys[*number]));
            let got = [0, 1].map(|node| rig.node_got(node).ends_with(&get(&keys[*number])));
            assert!(got[0] != got[1]);
            (0..2).filter(|&node| got[node as usize]).for_each(|node| rig.node_sends(node, "$-1|"));
            got[0]
        };
        (0..KEYS).filter(is_asked).collect()
    };
    assert_eq!(at_home(&mut rig), []);
    rig.notices();
    rig.pass(Duration::from_millis(20));
    rig.bring_up(0);
    let returning = vec!["127.0.0.1:7000".to_owned()];
    assert!(rig.notices().contains(&Notice::Remapped { out: vec![], returning }));
    let mut before = Vec::new();
    for step in 1..10 {
        let now = at_home(&mut rig);
        assert!(before.iter().all(|key| now.contains(key)), "a key has left its home again");
        assert!(now.len().abs_diff(KEYS * step / 10) < KEYS / 10, "{} after {step} steps", now.len());
        before = now;
        assert_eq!(rig.notices(), [], "a step is no news");
        rig.pass(Duration::from_secs(1));
    }
    assert_eq!(at_home(&mut rig).len(), KEYS);
    assert_eq!(rig.notices(), [Notice::Remapped { out: vec![], returning: vec![] }]);
    assert_eq!((rig.proxy.counters().remaps, rig.proxy.counters().ejections), (3, 1));
}

#[test]
fn reads_behind_a_replicas_large_reply_go_to_the_primary() {
    let mut rig = told(ReadFrom::Replica);
    let (client, other) = (rig.client(), rig.client());
    let large = rig.key(0);
    for _ in 0..10 {
        rig.client_sends(other, &format!("get {large}|"));
        assert_eq!(rig.node_got(2), get(&large));
        rig.node_sends(2, "$1|v|");
        assert_eq!(rig.taken(other), "$1|v|");
    }
    rig.client_sends(client, &format!("get {large}|"));
    rig.client_sends(other, &format!("get {large}|"));
    assert_eq!((rig.node_got(2), rig.node_got(0).as_str()), (get(&large).repeat(2), ""));
    let old = rig.node(2);
    rig.node_sends(2, "$20000000|0123456789");
    assert_eq!(rig.taken(client), "$20000000|0123456789");
    // When the replica takes another connection, it may have lost its data.
    assert_eq!(rig.node_got(0), get(&large));
    rig.node_sends(0, "$1|v|");
    assert_eq!(rig.taken(other), "$1|v|");
    let new = rig.bring_up_pinned(2);
    assert_eq!(rig.taken(new), "");
    rig.sends(old, "0123456789");
    assert_eq!(rig.taken(client), "0123456789");
}
