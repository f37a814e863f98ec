//! Links that end or fall silent though their node is there, event by event.

use crate::EngineLimits;
use crate::testing::Rig;
use crate::{ConnId, Event, Limits, Notice};
use std::time::Duration;

/// A rig over one node whose link has worked for two seconds.
fn rig() -> Rig {
    rig_with(Limits::default())
}

fn rig_with(limits: Limits) -> Rig {
    let mut rig = Rig::ready_with(1, limits);
    rig.pass(Duration::from_secs(2));
    rig
}

fn end(rig: &mut Rig) {
    let conn = rig.node(0);
    rig.event(Event::Closed { conn, reason: "connection reset by peer" });
    rig.pass(Duration::from_millis(1));
}

/// Passes enough silence to make the link suspect.
fn silence(rig: &mut Rig) {
    rig.pass(Duration::from_millis(251));
}

/// Lets the node answer on a fresh link.
fn answer_fresh(rig: &mut Rig) -> ConnId {
    rig.bring_up_pinned(0)
}

const LOST: &str = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|";
const LATE: &str = "-ERR node timeout after 1000 ms, outcome unknown (shard 127.0.0.1:7000)|";

#[test]
fn a_read_whose_connection_ends_is_asked_again_on_the_next() {
    let mut rig = rig();
    let client = rig.client();
    rig.client_sends(client, "get a|get b|");
    rig.node_got(0);
    rig.node_sends(0, "$1|a|");
    end(&mut rig);
    assert_eq!(rig.taken(client), "$1|a|");
    rig.bring_up(0);
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|b|", "and what was answered is not");
    rig.node_sends(0, "$1|b|");
    assert_eq!(rig.taken(client), "$1|b|");
    assert_eq!(rig.proxy.counters().reads_repeated, 1);
}

#[test]
fn a_read_is_asked_again_once() {
    let mut rig = rig_with(Limits {
        engine: EngineLimits { request_timeout: Duration::from_secs(10), ..EngineLimits::default() },
        ..Limits::default()
    });
    let client = rig.client();
    rig.client_sends(client, "get a|");
    end(&mut rig);
    rig.bring_up(0);
    rig.pass(Duration::from_millis(1500));
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
    end(&mut rig);
    assert_eq!(rig.taken(client), LOST);
}

#[test]
fn its_silence_is_that_of_the_next_connection() {
    let mut rig = rig();
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_millis(200));
    end(&mut rig);
    rig.bring_up(0);
    rig.pass(Duration::from_millis(999));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.taken(client), LATE);
}

#[test]
fn a_write_and_the_reads_of_its_client_are_not_asked_again() {
    let mut rig = rig();
    let (writer, reader) = (rig.client(), rig.client());
    rig.client_sends(writer, "get a|set a 1|get a|");
    rig.client_sends(reader, "get a|");
    rig.node_got(0);
    end(&mut rig);
    assert_eq!(rig.taken(writer), LOST.repeat(3), "the first would see what the second may have written");
    rig.bring_up(0);
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
    rig.node_sends(0, "$1|1|");
    assert_eq!(rig.taken(reader), "$1|1|");
}

#[test]
fn a_node_that_is_gone_is_no_reason_to_wait() {
    let mut rig = rig();
    let client = rig.client();
    rig.client_sends(client, "get a|");
    end(&mut rig);
    end(&mut rig);
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: connection reset by peer|";
    assert_eq!(rig.taken(client), refusal);
}

#[test]
fn a_reply_that_breaks_the_protocol_causes_no_retry() {
    let mut rig = rig();
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.node_sends(0, "what?|");
    let error = "-ERR node protocol error, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!(rig.taken(client), error);
}

#[test]
fn each_part_of_a_read_is_asked_again_by_itself() {
    let mut rig = Rig::ready(2);
    rig.pass(Duration::from_secs(2));
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    for (request, replies, reply) in
        [("mget", ["*1|$1|a|", "*1|$1|b|"], "*2|$1|a|$1|b|"), ("exists", [":1|", ":1|"], ":2|")]
    {
        rig.client_sends(client, &format!("{request} {a} {b}|"));
        rig.node_got(0);
        rig.node_got(1);
        rig.node_sends(1, replies[1]);
        end(&mut rig);
        rig.bring_up(0);
        let len = request.len();
        assert_eq!(rig.node_got(0), format!("*2|${len}|{request}|$2|{a}|"));
        rig.node_sends(0, replies[0]);
        assert_eq!(rig.taken(client), reply);
        rig.pass(Duration::from_secs(2));
    }
}

#[test]
fn read_on_a_dead_link_is_answered_over_another() {
    let mut rig = rig();
    let (client, other) = (rig.client(), rig.client());
    let old = rig.node(0);
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_millis(249));
    assert_eq!(rig.last_pinned(), None);
    rig.pass(Duration::from_millis(2));
    let fresh = answer_fresh(&mut rig);
    assert_eq!(rig.taken(fresh), "*2|$3|get|$1|a|");
    rig.sends(fresh, "$1|a|");
    assert_eq!(rig.taken(client), "$1|a|");
    // Later requests of all clients go there as well.
    for who in [other, client] {
        rig.client_sends(who, "incr n|");
        assert_eq!(rig.taken(fresh), "*2|$4|incr|$1|n|");
        rig.sends(fresh, ":1|");
        assert_eq!(rig.taken(who), ":1|");
    }
    rig.pass(Duration::from_secs(1));
    assert!(rig.is_closed(old) && !rig.is_closed(fresh));
    let shard = "127.0.0.1:7000".to_owned();
    assert_eq!(rig.notices(), [Notice::ConnReplaced { shard }], "the node was never down");
    assert_eq!(rig.proxy.counters().nodes_up, 1);
}

#[test]
fn late_replies_on_the_old_link_are_dropped() {
    let mut rig = rig();
    let client = rig.client();
    let old = rig.node(0);
    rig.client_sends(client, "get a|");
    silence(&mut rig);
    let fresh = answer_fresh(&mut rig);
    rig.sends(old, "$3|old|");
    assert_eq!(rig.taken(client), "");
    assert!(rig.is_closed(old), "nothing is awaited on it any more");
    rig.sends(fresh, "$3|new|");
    assert_eq!(rig.taken(client), "$3|new|");
}

#[test]
fn write_on_a_suspect_link_is_not_overtaken() {
    let mut rig = rig();
    let (writer, reader) = (rig.client(), rig.client());
    let old = rig.node(0);
    // The node holds writes back, as after CLIENT PAUSE.
    rig.client_sends(writer, "get a|set a 1|get a|");
    rig.client_sends(reader, "get a|");
    silence(&mut rig);
    let fresh = answer_fresh(&mut rig);
    assert_eq!(rig.taken(fresh), "*2|$3|get|$1|a|", "the reader's alone");
    rig.sends(fresh, "$1|0|");
    assert_eq!(rig.taken(reader), "$1|0|");
    rig.client_sends(writer, "get b|");
    assert_eq!(rig.taken(fresh), "");
    rig.sends(old, "$1|0|+OK|$1|1|$1|x|");
    assert_eq!(rig.taken(writer), "$1|0|+OK|$1|1|");
    assert_eq!(rig.taken(reader), "");
    assert_eq!(rig.taken(fresh), "*2|$3|get|$1|b|");
}

#[test]
fn write_on_a_dead_link_times_out_as_unknown_with_all_others() {
    let mut rig = rig();
    let (one, two) = (rig.client(), rig.client());
    let old = rig.node(0);
    rig.client_sends(one, "set a 1|");
    rig.pass(Duration::from_millis(100));
    rig.client_sends(two, "set b 1|");
    silence(&mut rig);
    let fresh = answer_fresh(&mut rig);
    rig.pass(Duration::from_millis(600));
    assert_eq!((rig.taken(one).as_str(), rig.taken(two).as_str()), ("", ""));
    rig.pass(Duration::from_millis(100));
    assert_eq!((rig.taken(one).as_str(), rig.taken(two).as_str()), (LATE, LOST));
    assert!(rig.is_closed(old));
    assert_eq!(rig.taken(fresh), "", "what may have been carried out is not sent again");
    rig.client_sends(two, "set b 2|");
    assert_eq!(rig.taken(fresh), "*3|$3|set|$1|b|$1|2|");
}

#[test]
fn a_node_that_was_only_slow_keeps_its_connection() {
    let mut rig = rig();
    let client = rig.client();
    let old = rig.node(0);
    rig.client_sends(client, "get a|");
    silence(&mut rig);
    rig.node_sends(0, "$1|a|");
    let fresh = answer_fresh(&mut rig);
    assert_eq!((rig.taken(client).as_str(), rig.taken(fresh).as_str()), ("$1|a|", ""));
    rig.node_got(0);
    rig.client_sends(client, "get b|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|b|");
    rig.node_sends(0, "$1|b|");
    rig.pass(Duration::from_secs(4));
    assert!(!rig.is_closed(fresh), "it may be of use yet");
    rig.pass(Duration::from_secs(3));
    assert!(rig.is_closed(fresh) && !rig.is_closed(old));
}

#[test]
fn failed_standby_link_changes_nothing() {
    let mut rig = rig();
    let client = rig.client();
    rig.client_sends(client, "get a|");
    silence(&mut rig);
    let fresh = rig.last_pinned().expect("it is asked for");
    rig.event(Event::Closed { conn: fresh, reason: "max number of clients reached" });
    rig.pass(Duration::from_millis(500));
    assert_eq!(rig.last_pinned(), None);
    assert_eq!(rig.notices(), []);
    rig.node_sends(0, "$1|a|");
    assert_eq!(rig.taken(client), "$1|a|");
    // The next standby is a new one.
    rig.client_sends(client, "get a|");
    silence(&mut rig);
    assert!(rig.last_pinned().is_some());
}

#[test]
fn a_frozen_node_costs_one_timeout_as_ever() {
    let mut rig = rig();
    let client = rig.client();
    rig.client_sends(client, "get a|");
    silence(&mut rig);
    let conn = rig.last_pinned().expect("it is asked for");
    rig.event(Event::Connected { conn });
    rig.pass(Duration::from_millis(748));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.taken(client), LATE);
    rig.pass(Duration::from_secs(1));
    assert!(rig.is_closed(rig.node(0)) && rig.is_closed(conn));
}

#[test]
fn dead_idle_link_is_replaced_before_it_is_used() {
    let mut rig = rig();
    rig.pass(Duration::from_secs(4));
    assert_eq!(rig.node_got(0), "*1|$4|PING|");
    let fresh = answer_fresh(&mut rig);
    let client = rig.client();
    rig.client_sends(client, "get a|");
    assert_eq!(rig.taken(fresh), "*2|$3|get|$1|a|");
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn a_fresh_connection_is_not_doubted() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_millis(990));
    assert_eq!(rig.last_pinned(), None, "or a node that holds writes back would see one after the other");
}

#[test]
fn a_client_that_has_gone_is_asked_for_nothing() {
    let mut rig = rig();
    let (gone, client) = (rig.client(), rig.client());
    rig.client_sends(gone, "get a|");
    rig.client_sends(client, "get b|");
    rig.event(Event::Closed { conn: gone, reason: "reset" });
    silence(&mut rig);
    let fresh = answer_fresh(&mut rig);
    assert_eq!(rig.taken(fresh), "*2|$3|get|$1|b|");
}
