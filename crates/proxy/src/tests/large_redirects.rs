//! Transcripts of a cluster whose slots move while large replies arrive. `|` stands for CR LF.

use super::redirect::{ASKING, ask, begin, moved, request};
use crate::ConnId;
use crate::testing::Rig;
use std::time::Duration;

/// A client whose next reply is expected to be large.
fn client_of_large(rig: &mut Rig) -> ConnId {
    let client = rig.client();
    for _ in 0..2 {
        rig.client_sends(client, "eval x 0|");
        rig.node_got(0);
        rig.node_sends(0, &format!("$400000|{}|", "x".repeat(400_000)));
        rig.taken(client);
    }
    client
}

#[test]
fn replies_to_asking_are_read_on_links_for_large_replies() {
    let mut rig = Rig::cluster(2);
    let client = client_of_large(&mut rig);
    rig.client_sends(client, "exists {a}1 b|");
    let first = rig.bring_up_pinned(0);
    let second = rig.bring_up_pinned(1);
    assert_eq!((rig.taken(first), rig.taken(second)), (request("exists b"), request("exists {a}1")));
    rig.sends(second, &ask(15495, 0));
    assert_eq!(rig.taken(first), format!("{ASKING}{}", request("exists {a}1")));
    rig.sends(first, ":1|+O");
    assert!(!rig.is_paused(first), "what is behind it is waited for");
    rig.sends(first, "K|:1|");
    assert_eq!(rig.taken(client), ":2|");
}

#[test]
fn large_parts_on_one_link_are_merged() {
    let mut rig = Rig::cluster(2);
    let client = client_of_large(&mut rig);
    rig.client_sends(client, "mget {a}1 b|");
    let first = rig.bring_up_pinned(0);
    let second = rig.bring_up_pinned(1);
    assert_eq!((rig.taken(first), rig.taken(second)), (request("mget b"), request("mget {a}1")));
    rig.sends(first, "*1|$1|b");
    assert!(rig.is_paused(first), "the other part comes before it");
    rig.sends(second, &moved(15495, 0));
    assert_eq!(rig.taken(first), request("mget {a}1"));
    assert!(!rig.is_paused(first), "the other part comes behind it");
    rig.sends(first, "|*1|$1|a|");
    assert_eq!(rig.taken(client), "*2|$1|a|$1|b|");
    assert_eq!((rig.proxy.pending().pins, rig.proxy.pending().merges), (0, 0));
}

#[test]
fn a_redirected_write_stays_behind_a_read_that_is_sent_again() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("get {key}|set {key} 1|"));
    rig.node_sends(0, &ask(slot, 1));
    assert_eq!(rig.node_got(1), format!("{ASKING}{}", request(&format!("get {key}"))));
    // The reply is large: it is fetched again over a link of its own, which has to be made.
    let large = format!("$1000000|{}|", "x".repeat(1_000_000));
    rig.node_sends(1, &format!("+OK|{}", &large[..200_000]));
    rig.node_sends(0, &moved(slot, 1));
    let sent = rig.node_got(1);
    assert!(!sent.contains("set"), "it would run before the read: {sent}");
    let pinned = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(pinned), request(&format!("get {key}")));
    // The client reads slowly, for longer than a request may take.
    rig.stick(client);
    let (first, second) = large.split_at(large.len() / 2);
    rig.sends(pinned, first);
    for _ in 0..3 {
        rig.pass(rig.proxy.core.cx.engine.limits.request_timeout / 2);
        assert!(!rig.node_got(1).contains("set"), "the read is not answered");
        rig.unstick(client);
        rig.stick(client);
    }
    rig.unstick(client);
    rig.sends(pinned, second);
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.taken(client).len(), large.len());
    assert!(rig.node_got(1).ends_with(&request(&format!("set {key} 1"))));
}

#[test]
fn redirected_writes_keep_their_order_if_a_link_is_replaced() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let (other, theirs) = (rig.client(), rig.key(1));
    rig.client_sends(other, &format!("get {theirs}|"));
    rig.client_sends(client, &format!("set {key} 1|set {key} 2|"));
    rig.node_sends(0, &ask(slot, 1));
    let first = request(&format!("set {key} 1"));
    assert_eq!(rig.node_got(1), format!("{}{ASKING}{first}", request(&format!("get {theirs}"))));
    // A large reply comes before that of the first write: the link is replaced for all others.
    let (large, old) = (format!("$1200000|{}|", "x".repeat(1_200_000)), rig.node(1));
    rig.sends(old, &large[..200_000]);
    let new = rig.bring_up_pinned(1);
    rig.node_got(0);
    rig.node_sends(0, &moved(slot, 1));
    assert_eq!(rig.taken(new), "", "the second write would run first");
    rig.sends(old, &format!("{}+OK|+OK|", &large[200_000..]));
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.taken(new), request(&format!("set {key} 2")), "it goes where MOVED has named");
    rig.sends(new, "+OK|");
    assert_eq!(rig.taken(client), "+OK|+OK|");
}
