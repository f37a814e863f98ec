//! Transcripts of the order of a client's requests while its slot moves from node to node. `|` stands for CR LF.

use super::redirect::{ASKING, ask, begin, moved, request};
use crate::testing::{Rig, even};
use std::time::Duration;

#[test]
fn slot_moving_on_waits_for_requests_in_flight() {
    let mut rig = Rig::cluster(3);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("set {key} 1|set {key} 2|set {key} 3|get {}|", rig.key(1)));
    let set = |value| request(&format!("set {key} {value}"));
    rig.node_got(0);
    rig.node_got(1);
    rig.node_sends(0, &ask(slot, 1));
    assert_eq!(rig.node_got(1), format!("{ASKING}{}", set(1)));
    // The slot has moved on meanwhile. The node reports that for the first request later than for the others.
    rig.node_sends(0, &moved(slot, 2).repeat(2));
    rig.pass(Duration::from_millis(100));
    assert_eq!((rig.node_got(2), rig.proxy.pending().requests_parked), (String::new(), 2));
    rig.node_sends(1, "$1|x|");
    rig.node_sends(1, &format!("+OK|{}", moved(slot, 2)));
    assert_eq!(rig.node_got(2), set(1));
    let mut map = even(3);
    let low = map[0].1.remove(0);
    map[2].1.push(low);
    rig.remap(&map);
    rig.pass(Duration::from_millis(15));
    assert_eq!(rig.node_got(2), format!("{}{}", set(2), set(3)));
    rig.node_sends(2, &"+OK|".repeat(3));
    assert_eq!(rig.taken(client), "+OK|+OK|+OK|$1|x|");
    assert_eq!(
        (rig.proxy.pending().requests_parked, rig.proxy.in_flight(), rig.proxy.held_bytes()),
        (0, 0, 0)
    );
}

#[test]
fn moved_request_is_refused_if_a_later_one_has_run() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("get {key}|set {key} 1|"));
    rig.node_sends(0, &moved(slot, 1));
    rig.pass(Duration::from_millis(100));
    assert_eq!((rig.node_got(1), rig.proxy.pending().requests_parked), (String::new(), 1));
    // The node has got the slot back.
    rig.node_sends(0, "+OK|");
    rig.pass(Duration::from_millis(100));
    let refused =
        "-TRYAGAIN shard s0 unavailable: it was declined, and a later request of this client has run|";
    assert_eq!(rig.taken(client), format!("{refused}+OK|"));
    assert_eq!((rig.proxy.pending().requests_parked, rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn moved_request_is_sent_on_if_later_ones_fail() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("set {key} 1|mset {key} 1 {key}|set {key} 2|"));
    let error = "-ERR wrong number of arguments for 'mset' command|";
    rig.node_sends(0, &format!("{0}{error}{0}", moved(slot, 1)));
    rig.pass(Duration::from_millis(100));
    assert_eq!(
        rig.node_got(1),
        format!("{}{}", request(&format!("set {key} 1")), request(&format!("set {key} 2")))
    );
    rig.node_sends(1, "+OK|+OK|");
    assert_eq!(rig.taken(client), format!("+OK|{error}+OK|"));
}

#[test]
fn moved_request_does_not_wait_for_other_slots_or_clients() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let other = rig.client();
    rig.client_sends(client, &format!("set {key} 1|dbsize|publish {key} x|"));
    rig.client_sends(other, &format!("get {key}|"));
    rig.node_got(1);
    rig.node_sends(0, &moved(slot, 1));
    assert_eq!(rig.node_got(1), request(&format!("set {key} 1")));
}

#[test]
fn newer_map_does_not_overtake_older_redirects() {
    let mut rig = Rig::cluster(3);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("set {key} 1|"));
    rig.node_got(0);
    rig.node_sends(0, &moved(slot, 1));
    let set = |value| request(&format!("set {key} {value}"));
    assert_eq!(rig.node_got(1), set(1));
    let mut map = even(3);
    let low = map[0].1.remove(0);
    map[2].1.push(low);
    rig.remap(&map);
    rig.client_sends(client, &format!("set {key} 2|"));
    assert_eq!(rig.node_got(2), "");
    rig.node_sends(1, &moved(slot, 2));
    rig.node_sends(2, "+OK|");
    assert_eq!(rig.node_got(2), format!("{}{}", set(1), set(2)));
    rig.node_sends(2, "+OK|");
    assert_eq!(rig.taken(client), "+OK|+OK|");
}
