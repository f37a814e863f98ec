//! Transcripts of topologies that follow each other. `|` stands for CR LF.

use crate::Notice;
use crate::testing::Rig;

const PING: &str = "*1|$4|PING|";

/// `get key` as nodes get it.
fn get(key: &str) -> String {
    format!("*2|$3|get|${}|{key}|", key.len())
}

#[test]
fn in_flight_requests_stay_and_are_not_overtaken() {
    let mut rig = Rig::ready(2);
    let (client, other) = (rig.client(), rig.client());
    let (here, there) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {there}|"));
    assert_eq!(rig.node_got(1), get(&there));
    rig.promote(1, 2);
    let old = rig.node(1);
    assert!(!rig.is_closed(old));
    rig.bring_up(2);
    // Requests of the same client to another shard wait as well.
    rig.client_sends(client, &format!("get {there}|get {here}|"));
    rig.client_sends(other, &format!("get {there}|"));
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(2)), ("", get(&there)));
    rig.sends(old, "$1|x|");
    assert_eq!(rig.taken(client), "$1|x|");
    assert!(rig.is_closed(old));
    assert_eq!((rig.node_got(0), rig.node_got(2)), (get(&here), get(&there)));
    rig.node_sends(2, "$1|y|$1|z|");
    rig.node_sends(0, "$1|h|");
    assert_eq!((rig.taken(other).as_str(), rig.taken(client).as_str()), ("$1|y|", "$1|z|$1|h|"));
    assert_eq!(rig.proxy.counters().nodes_up, 2);
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn an_older_topology_changes_nothing() {
    let mut rig = Rig::ready(1);
    let old = rig.proxy.core.cx.engine.topology.clone();
    rig.promote(0, 1);
    rig.bring_up(1);
    rig.adopt((*old).clone());
    let client = rig.client();
    rig.client_sends(client, "get x|");
    assert_eq!((rig.node_got(1), rig.is_closed(rig.node(0))), (get("x"), true));
}

#[test]
fn waiting_requests_fail_when_a_silent_node_is_replaced() {
    let mut rig = Rig::connecting(1, crate::Limits::default());
    let client = rig.client();
    rig.client_sends(client, "set x 1|");
    rig.promote(0, 1);
    let reason = "another node has taken over";
    assert_eq!(rig.taken(client), format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: {reason}|"));
    assert!(rig.is_closed(rig.node(0)));
    rig.client_sends(client, "set x 2|");
    rig.bring_up(1);
    rig.node_sends(1, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn every_profile_follows() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "select 3|get x|");
    let profile = rig.bring_up_greeted(0, &format!("*2|$6|SELECT|$1|3|{PING}"), "+OK|+PONG|");
    rig.sends(profile, "$1|a|");
    assert_eq!(rig.taken(client), "+OK|$1|a|");
    rig.promote(0, 1);
    assert!(rig.is_closed(profile));
    rig.bring_up(1);
    rig.client_sends(client, "get x|");
    let profile = rig.bring_up_greeted(1, &format!("*2|$6|SELECT|$1|3|{PING}"), "+OK|+PONG|");
    assert!(rig.taken(profile).ends_with(&get("x")));
}

#[test]
fn keys_that_were_watched_on_a_demoted_node_count_as_changed() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "watch x|");
    let held = rig.pinned_now();
    rig.taken(held);
    rig.sends(held, "+OK|");
    rig.promote(0, 1);
    assert!(rig.is_closed(held));
    rig.bring_up(1);
    rig.client_sends(client, "multi|set x 1|exec|");
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*-1|");
    assert_eq!((rig.node_got(1).as_str(), rig.proxy.pending().conns_held), ("", 0));
}

#[test]
fn demotion_of_a_node_changes_keys_being_watched() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "watch x|");
    let held = rig.pinned_now();
    rig.taken(held);
    rig.promote(0, 1);
    rig.bring_up(1);
    rig.sends(held, "+OK|");
    rig.client_sends(client, "multi|set x 1|exec|");
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*-1|");
    assert!(rig.is_closed(held));
    assert_eq!((rig.node_got(1).as_str(), rig.proxy.pending().conns_held), ("", 0));
}

#[test]
fn messages_come_from_the_node_that_took_over() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "subscribe news|");
    let source = rig.bring_up_pinned(0);
    let (asked, said) = ("*2|$9|subscribe|$4|news|", "*3|$9|subscribe|$4|news|:1|");
    assert_eq!(rig.taken(source), asked);
    rig.sends(source, said);
    rig.promote(0, 1);
    assert!(rig.is_closed(source));
    // The link for messages is asked for first, so its place among the links is the earlier one.
    rig.bring_up(1);
    let source = rig.node(1);
    assert_eq!(rig.taken(source), asked);
    rig.sends(source, said);
    let message = "*3|$7|message|$4|news|$2|hi|";
    rig.sends(source, message);
    assert_eq!(rig.taken(client), format!("{said}{message}"));
    let notices = rig.notices();
    assert!(notices.iter().any(|notice| matches!(notice, Notice::MessagesMissed { topics: 1, .. })));
}
