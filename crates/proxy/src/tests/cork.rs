//! Replies that wait for others of the same client, and the limit of that wait.

use crate::testing::Rig;

/// Two shards, and a worker under load.
fn pressed() -> (Rig, crate::ConnId, (String, String)) {
    let mut rig = Rig::ready(2);
    rig.proxy.cork(true);
    let client = rig.client();
    let keys = (rig.key(0), rig.key(1));
    (rig, client, keys)
}

/// Ends the turn.
fn end_turn(rig: &mut Rig) {
    rig.proxy.uncork();
    rig.perform();
}

#[test]
fn a_part_of_the_replies_waits_for_the_others_for_one_turn() {
    let (mut rig, client, (a, b)) = pressed();
    rig.client_sends(client, &format!("get {a}|get {b}|"));
    rig.node_sends(0, "$1|a|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.has_corked()), ("", true));
    rig.node_sends(1, "$1|b|");
    assert_eq!(rig.taken(client), "$1|a|$1|b|", "in one piece");
    end_turn(&mut rig);
    assert_eq!((rig.taken(client).as_str(), rig.proxy.has_corked()), ("", false));
}

#[test]
fn no_reply_waits_for_longer_than_a_turn() {
    let (mut rig, client, (a, b)) = pressed();
    rig.client_sends(client, &format!("get {a}|get {b}|get {a}|get {b}|"));
    rig.node_sends(0, "$1|a|");
    end_turn(&mut rig);
    assert_eq!(rig.taken(client), "$1|a|", "the other shard has not answered");
    // The next reply waits for a turn of its own.
    rig.node_sends(1, "$1|b|");
    assert_eq!(rig.taken(client), "");
    end_turn(&mut rig);
    assert_eq!(rig.taken(client), "$1|b|");
    rig.node_sends(0, "$1|a|");
    rig.node_sends(1, "$1|b|");
    assert_eq!(rig.taken(client), "$1|a|$1|b|");
}

#[test]
fn complete_or_large_replies_do_not_wait() {
    let (mut rig, client, (a, b)) = pressed();
    rig.client_sends(client, &format!("get {a}|"));
    rig.node_sends(0, "$1|a|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.has_corked()), ("$1|a|", false));
    rig.client_sends(client, &format!("get {a}|get {b}|"));
    let value = "x".repeat(17_000);
    rig.node_sends(0, &format!("$17000|{value}|"));
    assert_eq!(rig.taken(client), format!("$17000|{value}|"));
}

#[test]
fn a_client_that_goes_meanwhile_is_forgotten() {
    let (mut rig, client, (a, b)) = pressed();
    rig.client_sends(client, &format!("get {a}|get {b}|"));
    rig.node_sends(0, "$1|a|");
    rig.event(crate::Event::Closed { conn: client, reason: "gone" });
    end_turn(&mut rig);
    assert_eq!((rig.taken(client).as_str(), rig.proxy.has_corked()), ("", false));
}
