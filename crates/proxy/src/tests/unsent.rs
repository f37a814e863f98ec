//! Transcripts of requests that wait for a link to a node of a cluster. Before anything is sent on the link, a new
//! map makes it useless. `|` stands for CR LF.

use super::proof::MYID;
use super::redirect::{EXEC, MULTI, ask, moved, request, slot_of};
use crate::ConnId;
use crate::event::Event;
use crate::testing::{Rig, even};
use std::time::Duration;
use topology::{Address, NodeSpec, ShardSpec, Topology};

/// The ports of the nodes of the first shard.
const OLD: u16 = 7000;
const NEW: u16 = 7002;

const REFUSAL: &str = "-TRYAGAIN shard a unavailable: another node has taken over|";
const IDENTITY: &str = "$3|abc|";

/// Makes `primary` the primary of the first shard, if it is given, and the other nodes its replicas.
fn follow(rig: &mut Rig, primary: Option<u16>) {
    let spec =
        |port| NodeSpec { identity: (port == NEW).then(|| "abc".into()), ..NodeSpec::tcp("127.0.0.1", port) };
    let slots = even(2);
    let shard = |name: &str, primary: Option<u16>, nodes: &[u16], place: usize| ShardSpec {
        name: name.to_owned(),
        primary: primary.map(spec),
        replicas: nodes.iter().copied().filter(|port| Some(*port) != primary).map(spec).collect(),
        slots: slots[place].1.clone(),
    };
    let shards = [shard("a", primary, &[OLD, NEW], 0), shard("b", Some(7001), &[7001], 1)];
    let before = rig.proxy.core.cx.engine.topology.clone();
    rig.adopt(Topology::of_cluster(Some(&before), before.epoch() + 1, &shards).expect("valid"));
}

/// The number of the node at `port`.
fn node_at(rig: &Rig, port: u16) -> u32 {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
    rig.proxy.core.cx.engine.topology.node_at(&address).expect("known").0
}

/// A cluster of two shards, the first of which has a replica; a key of that shard, and the MOVED error for it.
fn begin() -> (Rig, String, String) {
    let mut rig = Rig::cluster(2);
    follow(&mut rig, Some(OLD));
    let key = rig.key(0);
    let moved = moved(slot_of(&rig, &key), 2);
    (rig, key, moved)
}

/// Connects the link to the node that takes over. The node is a replica at first and gets the question about its
/// identity.
fn greet_new(rig: &mut Rig) -> ConnId {
    rig.pass(Duration::from_nanos(1));
    let conn = rig.node(node_at(rig, NEW));
    rig.event(Event::Connected { conn });
    let replies = match rig.taken(conn).as_str() {
        "*1|$8|READONLY|*1|$4|PING|" => "+OK|+PONG|",
        "*1|$4|PING|" => "+PONG|",
        other => panic!("{other}"),
    };
    rig.sends(conn, replies);
    assert_eq!(rig.taken(conn), MYID);
    conn
}

/// Connects that link, and lets the node show its identity.
fn bring_up_new(rig: &mut Rig) -> ConnId {
    let conn = greet_new(rig);
    rig.sends(conn, IDENTITY);
    conn
}

#[test]
fn redirect_ahead_of_the_map_is_sent_once_it_knows() {
    let (mut rig, key, moved) = begin();
    let clients = [0; 20].map(|_| rig.client());
    clients.iter().for_each(|client| rig.client_sends(*client, &format!("incr {key}|")));
    let incr = request(&format!("incr {key}"));
    assert_eq!(rig.node_got(0), incr.repeat(20));
    rig.node_sends(0, &moved.repeat(20));
    // The node has not shown its identity yet.
    let first = greet_new(&mut rig);
    follow(&mut rig, None);
    assert!(rig.is_closed(first));
    assert_eq!((rig.taken(first).as_str(), rig.proxy.pending().requests_parked), ("", 20));
    follow(&mut rig, Some(NEW));
    let second = bring_up_new(&mut rig);
    assert_eq!(rig.taken(second), incr.repeat(20));
    let replies: Vec<String> = (1..=20).map(|count| format!(":{count}|")).collect();
    rig.sends(second, &replies.concat());
    for (client, reply) in clients.iter().zip(replies) {
        assert_eq!(rig.taken(*client), reply);
    }
    assert_eq!(
        (rig.proxy.pending().requests_parked, rig.proxy.in_flight(), rig.proxy.held_bytes()),
        (0, 0, 0)
    );
}

#[test]
fn waiting_requests_go_to_a_replica_made_primary() {
    let (mut rig, key, moved) = begin();
    let client = rig.client();
    rig.client_sends(client, &format!("incr {key}|"));
    rig.node_sends(0, &moved);
    greet_new(&mut rig);
    follow(&mut rig, Some(NEW));
    let conn = bring_up_new(&mut rig);
    assert_eq!(rig.taken(conn), request(&format!("incr {key}")));
    rig.sends(conn, ":1|");
    assert_eq!(rig.taken(client), ":1|");
}

#[test]
fn stale_map_costs_one_more_redirect() {
    let (mut rig, key, moved) = begin();
    let client = rig.client();
    rig.client_sends(client, &format!("incr {key}|"));
    let incr = rig.node_got(0);
    rig.node_sends(0, &moved);
    follow(&mut rig, Some(OLD));
    assert_eq!((rig.node_got(0), rig.proxy.pending().requests_parked), (incr.clone(), 0));
    rig.node_sends(0, &moved);
    let conn = bring_up_new(&mut rig);
    assert_eq!(rig.taken(conn), incr);
    rig.sends(conn, ":1|");
    assert_eq!(rig.taken(client), ":1|");
}

#[test]
fn waiting_writes_stay_in_order_and_are_not_overtaken() {
    let (mut rig, key, moved) = begin();
    let (client, other) = (rig.client(), rig.key(1));
    rig.client_sends(client, &format!("set {key} 1|append {key} 2|get {key}|"));
    let first = rig.node_got(0);
    rig.node_sends(0, &moved.repeat(3));
    follow(&mut rig, None);
    rig.client_sends(client, &format!("set {key} 3|get {other}|"));
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    follow(&mut rig, Some(NEW));
    let conn = bring_up_new(&mut rig);
    assert_eq!(rig.taken(conn), format!("{first}{}", request(&format!("set {key} 3"))));
    assert_eq!(rig.node_got(1), request(&format!("get {other}")));
    rig.node_sends(1, "$-1|");
    rig.sends(conn, "+OK|:2|$2|12|+OK|");
    assert_eq!(rig.taken(client), "+OK|:2|$2|12|+OK|$-1|");
}

#[test]
fn a_request_that_would_be_overtaken_on_its_way_back_is_refused() {
    let (mut rig, key, moved) = begin();
    let client = rig.client();
    rig.client_sends(client, &format!("set {key} 1|"));
    rig.client_sends(client, &format!("set {key} 2|"));
    rig.node_got(0);
    // The answer to the second is still to come.
    let slot = slot_of(&rig, &key);
    rig.node_sends(0, &ask(slot, 2));
    follow(&mut rig, None);
    rig.node_sends(0, &moved);
    follow(&mut rig, Some(NEW));
    let conn = bring_up_new(&mut rig);
    assert_eq!(rig.taken(conn), request(&format!("set {key} 2")));
    rig.sends(conn, "+OK|");
    assert_eq!(rig.taken(client), format!("{REFUSAL}+OK|"));
}

#[test]
fn parts_of_split_requests_wait_as_whole_ones_do() {
    let (mut rig, key, _) = begin();
    let (client, other) = (rig.client(), rig.key(1));
    let second = (0..)
        .map(|number| format!("m{number}"))
        .find(|name| rig.shard_of(name) == 0 && slot_of(&rig, name) != slot_of(&rig, &key));
    let second = second.expect("found");
    rig.client_sends(client, &format!("mget {key} {other} {second}|mset {key} 1 {second} 2|"));
    let sent = rig.node_got(0);
    rig.node_got(1);
    rig.node_sends(1, "*1|$1|b|");
    let slots = [&key, &second].map(|name| moved(slot_of(&rig, name), 2));
    rig.node_sends(0, &slots.concat().repeat(2));
    follow(&mut rig, None);
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().requests_parked), ("", 4));
    follow(&mut rig, Some(NEW));
    let conn = bring_up_new(&mut rig);
    assert_eq!(rig.taken(conn), sent);
    rig.sends(conn, "*1|$1|a|*1|$1|c|+OK|+OK|");
    assert_eq!(rig.taken(client), "*3|$1|a|$1|b|$1|c|+OK|");
    assert_eq!((rig.proxy.pending().merges, rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn a_transaction_that_waits_is_sent_whole() {
    let (mut rig, key, moved) = begin();
    let client = rig.client();
    rig.client_sends(client, &format!("multi|incr {key}|exec|get {key}|"));
    let sent = rig.node_got(0);
    assert_eq!(
        sent,
        format!("{MULTI}{}{EXEC}{}", request(&format!("incr {key}")), request(&format!("get {key}")))
    );
    let abort = "-EXECABORT Transaction discarded because of previous errors.|";
    rig.node_sends(0, &format!("+OK|{moved}{abort}{moved}"));
    follow(&mut rig, None);
    follow(&mut rig, Some(NEW));
    let conn = bring_up_new(&mut rig);
    assert_eq!(rig.taken(conn), sent);
    rig.sends(conn, "+OK|+QUEUED|*1|:1|$1|1|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|*1|:1|$1|1|");
    assert_eq!((rig.proxy.core.execs.replays.len(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn blocking_pop_waits_where_it_was_sent() {
    let (mut rig, key, moved) = begin();
    let client = rig.client();
    rig.client_sends(client, &format!("blpop {key} 0|"));
    let held = rig.pinned_now();
    let wait = rig.taken(held);
    rig.sends(held, &format!(":7|{moved}"));
    follow(&mut rig, None);
    let conn = bring_up_new(&mut rig);
    assert_eq!(rig.taken(conn), wait);
    rig.sends(conn, ":8|*2|$1|k|$1|v|");
    assert_eq!(rig.taken(client), "*2|$1|k|$1|v|");
}

#[test]
fn requests_for_a_lost_node_go_to_its_successor() {
    let (mut rig, key, _) = begin();
    let client = rig.client();
    rig.pass(Duration::from_secs(2));
    let conn = rig.node(0);
    rig.event(Event::Closed { conn, reason: "gone" });
    rig.client_sends(client, &format!("incr {key}|get {key}|"));
    assert_eq!(rig.taken(client), "");
    follow(&mut rig, Some(NEW));
    let conn = bring_up_new(&mut rig);
    assert_eq!(
        rig.taken(conn),
        format!("{}{}", request(&format!("incr {key}")), request(&format!("get {key}")))
    );
    rig.sends(conn, ":1|$1|1|");
    assert_eq!(rig.taken(client), ":1|$1|1|");
}

#[test]
fn unsent_requests_go_with_their_client() {
    for leaves_parked in [false, true] {
        let (mut rig, key, moved) = begin();
        let client = rig.client();
        rig.client_sends(client, &format!("set {key} 1|get {key}|"));
        rig.node_got(0);
        rig.node_sends(0, &moved.repeat(2));
        if leaves_parked {
            follow(&mut rig, None);
            assert_eq!(rig.proxy.pending().requests_parked, 2);
        }
        rig.event(Event::Closed { conn: client, reason: "gone" });
        follow(&mut rig, Some(NEW));
        let conn = bring_up_new(&mut rig);
        assert_eq!(rig.taken(conn), "", "{leaves_parked}");
        assert_eq!((rig.proxy.pending().requests_parked, rig.proxy.held_bytes()), (0, 0));
    }
}

#[test]
fn waiting_requests_have_the_usual_time() {
    let (mut rig, key, moved) = begin();
    let client = rig.client();
    let timeout = rig.proxy.core.cx.engine.limits.request_timeout;
    rig.client_sends(client, &format!("incr {key}|"));
    rig.pass(timeout / 2);
    rig.node_sends(0, &moved);
    follow(&mut rig, None);
    rig.pass(timeout / 2 - Duration::from_millis(1));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_millis(2));
    assert_eq!(rig.taken(client), REFUSAL);
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn requests_that_maps_send_to_and_fro_are_refused_at_last() {
    let (mut rig, key, moved) = begin();
    let client = rig.client();
    rig.client_sends(client, &format!("incr {key}|"));
    rig.node_sends(0, &moved);
    for _ in 0..2 {
        follow(&mut rig, Some(NEW));
        follow(&mut rig, Some(OLD));
        assert_eq!(rig.taken(client), "");
    }
    follow(&mut rig, Some(NEW));
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().requests_parked), (REFUSAL, 0));
}

#[test]
fn requests_in_the_retry_queue_are_bounded() {
    let (mut rig, key, _) = begin();
    rig.pass(Duration::from_secs(2));
    let conn = rig.node(0);
    rig.event(Event::Closed { conn, reason: "gone" });
    // 1 MiB each; 32 of them fit into the retry queue.
    let value = "x".repeat(60_000);
    let clients = [0; 40].map(|_| rig.client());
    for client in clients {
        rig.client_sends(client, &format!("set {key} {value}|").repeat(17));
    }
    assert!(rig.proxy.held_bytes() > 40_000_000);
    follow(&mut rig, None);
    let parked = rig.proxy.pending().requests_parked;
    assert_eq!(parked, (32 << 20) / request(&format!("set {key} {value}")).replace('|', "||").len());
    // The last requests have the most time, since many others were sent before them.
    rig.pass(Duration::from_secs(5));
    let replies = clients.map(|client| rig.taken(client));
    assert!(replies.iter().all(|text| *text == REFUSAL.repeat(17)));
    assert_eq!(
        (rig.proxy.pending().requests_parked, rig.proxy.in_flight(), rig.proxy.held_bytes()),
        (0, 0, 0)
    );
}
