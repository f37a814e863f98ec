//! Large transfers, event by event, with limits so small that a dozen bytes are large.

use crate::EngineLimits;
use crate::testing::Rig;
use crate::{CloseReason, Event, Limits, Notice};
use std::time::Duration;

/// Twenty bytes are large.
fn small() -> Limits {
    Limits {
        engine: EngineLimits { large_bytes: 20, relay_bytes_max: 30, ..EngineLimits::default() },
        ..Limits::default()
    }
}

/// A rig over `shards` shards, with a client whose last replies were small.
fn rig(shards: usize, limits: Limits) -> (Rig, crate::ConnId) {
    let mut rig = Rig::ready_with(shards, limits);
    let client = small_client(&mut rig);
    (rig, client)
}

/// A client that has had many small replies, so that its next is not expected to be large.
pub(super) fn small_client(rig: &mut Rig) -> crate::ConnId {
    let client = rig.client();
    let key = rig.key(0);
    let shared = rig.node(0);
    // The first replies go over a link of the client's own. The replies of a new client are expected to be as large
    // as most are.
    for _ in 0..80 {
        rig.client_sends(client, &format!("exists {key}|"));
        if rig.node_got(0).is_empty() {
            let conn = match rig.last_pinned() {
                Some(conn) if rig.has_sent(conn) => conn,
                _ => rig.bring_up_pinned(0),
            };
            rig.taken(conn);
            rig.sends(conn, ":0|");
        } else {
            rig.sends(shared, ":0|");
        }
        assert_eq!(rig.taken(client), ":0|");
    }
    client
}

#[test]
fn a_large_reply_is_asked_for_again_and_delays_no_client() {
    let (mut rig, client) = rig(1, small());
    let other = small_client(&mut rig);
    rig.client_sends(client, "get x|");
    rig.client_sends(other, "incr n|");
    rig.node_got(0);
    rig.node_sends(0, "$40|0123456789");
    let conn = rig.pinned_now();
    assert_eq!(rig.taken(conn), "*2|$3|get|$1|x|");
    rig.node_sends(0, "012345678901234567890123456789|:1|");
    assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), ("", ":1|"));
    rig.sends(conn, "$40|abcdefghij");
    assert_eq!(rig.taken(client), "$40|abcdefghij", "it is passed on while it comes");
    rig.sends(conn, "abcdefghijabcdefghijabcdefghij|");
    assert_eq!(rig.taken(client), "abcdefghijabcdefghijabcdefghij|");
}

#[test]
fn a_slow_client_causes_backpressure_on_its_node() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "get x|");
    rig.node_sends(0, "$90|0123456789");
    let conn = rig.pinned_now();
    rig.stick(client);
    let piece = "0123456789".repeat(3);
    rig.sends(conn, &format!("$90|{piece}"));
    rig.sends(conn, &piece);
    assert!(rig.is_paused(conn), "what is there waits for the client");
    assert!(!rig.is_paused(rig.node(0)));
    rig.pass(Duration::from_secs(20));
    rig.unstick(client);
    assert!(!rig.is_paused(conn), "a slow client is no reason to give the node up");
    rig.sends(conn, &format!("{piece}|"));
    assert_eq!(rig.taken(client), format!("$90|{piece}{piece}{piece}|"));
}

#[test]
fn a_client_that_takes_nothing_loses_its_connections_in_time() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "get x|");
    rig.node_sends(0, "$90|0123456789");
    let conn = rig.pinned_now();
    rig.stick(client);
    rig.sends(conn, "$90|0123456789");
    rig.pass(Duration::from_secs(40));
    assert!(rig.is_closed(client) && rig.is_closed(conn));
}

#[test]
fn values_come_in_the_order_of_the_keys_while_they_come() {
    let (mut rig, client) = rig(2, small());
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mget {b} {a} {b}|"));
    rig.node_sends(1, "*2|$30|0123456789");
    let one = rig.pinned_now();
    assert_eq!(rig.taken(one), format!("*3|$4|mget|$2|{b}|$2|{b}|"));
    rig.sends(one, "*2|$30|012345678901234567890123456789|$3|");
    assert_eq!(rig.taken(client), "", "the other part may yet fail");
    rig.node_sends(0, "*1|$1|x|");
    assert_eq!(rig.taken(client), "*3|$30|012345678901234567890123456789|$1|x|$3|");
    rig.sends(one, "abc|");
    assert_eq!(rig.taken(client), "abc|");
}

#[test]
fn the_time_of_an_mget_of_large_values_counts() {
    let (mut rig, client) = rig(2, small());
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mget {b} {a}|"));
    rig.node_sends(1, "*1|$30|0123456789");
    let one = rig.pinned_now();
    rig.pass(Duration::from_millis(3));
    rig.sends(one, "*1|$30|012345678901234567890123456789|");
    rig.node_sends(0, "*1|$1|x|");
    assert_eq!(rig.taken(client), "*2|$30|012345678901234567890123456789|$1|x|");
    rig.client_sends(client, "info commandstats|");
    let told = rig.taken(client);
    assert!(told.contains("cmdstat_mget:calls=1,usec=3000,"), "{told}");
}

#[test]
fn a_large_reply_behind_info_is_relayed() {
    let (mut rig, client) = rig(2, small());
    let key = rig.key(0);
    rig.client_sends(client, &format!("info keyspace|get {key}|"));
    rig.node_sends(0, "$0||$40|0123456789");
    let conn = rig.pinned_now();
    assert_eq!(rig.taken(conn), format!("*2|$3|get|$2|{key}|"));
    let value = format!("$40|{}|", "0123456789".repeat(4));
    rig.sends(conn, &value);
    assert_eq!(rig.taken(client), "", "a shard has not told its part of INFO");
    rig.node_sends(1, "$0||");
    let told = rig.taken(client);
    assert!(told.starts_with('$') && told.ends_with(&value), "{told}");
}

#[test]
fn a_part_that_fails_before_any_relayed_byte_is_an_error() {
    let (mut rig, client) = rig(2, small());
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mget {b} {a}|"));
    rig.node_sends(1, "*1|$30|0123456789");
    let one = rig.pinned_now();
    rig.sends(one, "*1|$30|0123456789");
    rig.node_sends(0, "-LOADING wait|");
    assert_eq!(rig.taken(client), "-LOADING wait|");
    assert!(rig.is_closed(one), "what it would have brought is of no use");
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn large_part_of_a_failed_reply_is_not_refetched() {
    let (mut rig, client) = rig(2, small());
    let (a, b) = (rig.key(0), rig.key(1));
    // The next request pins the client before it is complete. Then the client gets the error of the lost shard,
    // though a part is to come.
    rig.client_sends(client, &format!("mget {b} {a}|*5|$4|mset|$2|{a}|$60|0123456789"));
    let gone = rig.node(1);
    rig.event(Event::Closed { conn: gone, reason: "reset" });
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|";
    assert_eq!(rig.taken(client), lost);
    rig.node_got(0);
    rig.node_sends(0, "*1|$40|0123456789");
    rig.node_sends(0, "012345678901234567890123456789|");
    let value = "0123456789".repeat(6);
    rig.client_sends(client, &format!("{}|$2|{a}|$1|v|", &value[10..]));
    let own = rig.pinned_now();
    assert!(rig.taken(own).starts_with("*5|$4|mset|"), "nobody wants what was passed over");
    rig.sends(own, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn queued_refetch_of_a_failed_reply_is_dropped() {
    let (mut rig, client) =
        rig(2, Limits { engine: EngineLimits { pinned_clients_max: 1, ..small().engine }, ..small() });
    let other = small_client(&mut rig);
    let (a, b) = (rig.key(0), rig.key(1));
    let value = "0123456789".repeat(4);
    // Another client has the only permit, so that this one waits for it with a part of its request.
    rig.client_sends(other, &format!("get {a}|"));
    rig.node_sends(0, "$40|0123456789");
    let held = rig.pinned_now();
    rig.node_sends(0, &format!("{}|", &value[10..]));
    rig.client_sends(client, &format!("mget {b} {a}|"));
    rig.node_sends(1, "*1|$40|0123456789");
    rig.node_sends(0, "-LOADING wait|");
    assert_eq!(rig.taken(client), "-LOADING wait|");
    rig.node_sends(1, &format!("{}|", &value[10..]));
    rig.sends(held, &format!("$40|{value}|"));
    assert_eq!(rig.taken(other), format!("$40|{value}|"));
    rig.client_sends(client, &format!("get {b}|"));
    rig.node_sends(1, "$1|v|");
    assert_eq!(rig.taken(client), "$1|v|");
}

#[test]
fn link_made_for_a_failed_reply_is_closed() {
    let (mut rig, client) = rig(2, small());
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mget {b} {a}|get {b}|"));
    rig.node_sends(1, "*1|$40|0123456789");
    rig.node_sends(0, "-LOADING wait|");
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|";
    assert_eq!(rig.taken(client), format!("-LOADING wait|{lost}"));
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn node_lost_within_a_reply_closes_the_client() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "get x|");
    rig.node_sends(0, "$40|0123456789");
    let conn = rig.pinned_now();
    rig.sends(conn, "$40|0123456789");
    rig.event(Event::Closed { conn, reason: "reset" });
    assert!(rig.is_closed(client));
    let closed = rig
        .notices()
        .into_iter()
        .any(|notice| matches!(notice, Notice::ClientClosed { reason: CloseReason::HalfReply, .. }));
    assert!(closed);
}

#[test]
fn a_write_is_never_asked_again_however_large_its_reply_is() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "getdel x|");
    rig.node_got(0);
    rig.node_sends(0, "$40|0123456789");
    rig.node_sends(0, "012345678901234567890123456789|");
    assert_eq!(rig.taken(client), "$40|0123456789012345678901234567890123456789|");
}

#[test]
fn a_read_with_a_write_behind_it_is_not_asked_again() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "get x|incr x|");
    rig.node_got(0);
    rig.node_sends(0, "$40|0123456789");
    rig.node_sends(0, "012345678901234567890123456789|:1|");
    assert_eq!(rig.taken(client), "$40|0123456789012345678901234567890123456789|:1|");
}

#[test]
fn a_large_request_is_relayed_while_it_comes() {
    let (mut rig, client) = rig(1, small());
    let other = small_client(&mut rig);
    rig.client_sends(client, "*3|$3|set|$1|x|$60|0123456789");
    let conn = rig.pinned_now();
    assert_eq!(rig.taken(conn), "*3|$3|set|$1|x|$60|0123456789");
    rig.client_sends(client, "01234567890123456789");
    assert_eq!(rig.taken(conn), "01234567890123456789");
    rig.client_sends(other, "incr n|");
    assert_eq!(rig.node_got(0), "*2|$4|incr|$1|n|", "nobody waits for it");
    rig.client_sends(client, "012345678901234567890123456789|get x|");
    assert_eq!(rig.taken(conn), "012345678901234567890123456789|");
    rig.sends(conn, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|x|", "what follows it is read then");
}

/// Else many such clients could wait for the memory that their own bytes take.
#[test]
fn a_large_request_takes_no_memory_once_it_is_sent() {
    let (mut rig, client) = rig(1, small());
    for rest in ["01234567890", "0123456789"] {
        let before = rig.proxy.core.cx.engine.memory.all_moving_bytes();
        rig.client_sends(client, &format!("*3|$3|set|$1|x|$40|0123456789{rest}"));
        let conn = rig.pinned_now();
        let left = rig.proxy.core.cx.engine.memory.all_moving_bytes() - before;
        assert!(left <= 40, "{left}: only the ticket");
        rig.client_sends(client, &format!("{}|", &"0123456789".repeat(3)[rest.len()..]));
        rig.sends(conn, "+OK|");
        rig.taken(conn);
    }
}

#[test]
fn a_large_request_comes_to_its_end_while_draining() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "*3|$3|set|$1|x|$60|0123456789");
    let conn = rig.pinned_now();
    rig.taken(conn);
    rig.proxy.drain(rig.now);
    // Half of a line's end waits for the other half.
    rig.event(Event::Received { conn: client, bytes: &[&[b'0'; 50][..], b"\r"].concat() });
    assert!(!rig.is_paused(client));
    rig.event(Event::Received { conn: client, bytes: b"\n" });
    assert_eq!(rig.taken(conn), "0".repeat(50) + "|");
    rig.sends(conn, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    assert!(rig.is_closed(client));
}

#[test]
fn a_large_request_that_its_node_does_not_take_is_not_read_on() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "*3|$3|set|$1|x|$600|0123456789");
    let conn = rig.pinned_now();
    rig.stick(conn);
    rig.client_sends(client, &"0123456789".repeat(4));
    assert!(rig.is_paused(client));
    rig.unstick(conn);
    assert!(!rig.is_paused(client));
}

#[test]
fn half_a_large_request_never_runs() {
    let (mut rig, client) = rig(1, small());
    rig.client_sends(client, "*3|$3|set|$1|x|$60|0123456789");
    let conn = rig.pinned_now();
    rig.event(Event::Ended { conn: client });
    assert!(rig.is_closed(client) && rig.is_closed(conn), "the node must not wait for the rest");
    let (mut rig, client) = self::rig(1, small());
    rig.client_sends(client, "*3|$3|set|$1|x|$60|0123456789");
    let conn = rig.pinned_now();
    rig.event(Event::Closed { conn, reason: "reset" });
    assert_eq!(rig.taken(client), "-TRYAGAIN shard 127.0.0.1:7000 unavailable: reset|");
    rig.client_sends(client, "01234567890123456789012345678901234567890123456789|ping|");
    assert_eq!(rig.taken(client), "+PONG|", "its rest is dropped");
}

#[test]
fn permits_are_given_in_turn() {
    let (mut rig, one) =
        rig(1, Limits { engine: EngineLimits { pinned_clients_max: 1, ..small().engine }, ..small() });
    let two = small_client(&mut rig);
    rig.client_sends(one, "*3|$3|set|$1|x|$30|0123456789");
    let conn = rig.pinned_now();
    rig.client_sends(two, "*3|$3|set|$1|y|$30|0123456789");
    assert!(rig.is_paused(two), "it waits for its turn");
    rig.client_sends(one, "01234567890123456789|");
    rig.taken(conn);
    rig.sends(conn, "+OK|");
    assert_eq!(rig.taken(one), "+OK|");
    assert_eq!(rig.taken(conn), "*3|$3|set|$1|y|$30|0123456789", "the connection is used again");
    assert!(!rig.is_paused(two));
}

/// More than a hundred bytes to come clog a shared link.
fn clogging() -> Limits {
    Limits { engine: EngineLimits { pass_over_bytes_max: 100, ..small().engine }, ..small() }
}

#[test]
fn a_clogged_connection_is_replaced_and_order_is_kept() {
    let (mut rig, client) = rig(1, clogging());
    let (behind, fresh) = (small_client(&mut rig), small_client(&mut rig));
    rig.client_sends(client, "get x|");
    rig.client_sends(behind, "incr n|");
    rig.node_got(0);
    let old = rig.node(0);
    rig.node_sends(0, "$1000|0123456789");
    rig.client_sends(fresh, "incr m|");
    let new = rig.idle_or_new(0, old);
    assert_eq!(rig.taken(new), "*2|$4|incr|$1|m|", "new requests do not wait behind the large reply");
    rig.client_sends(behind, "incr n|");
    assert_eq!(rig.taken(new), "", "this one must not overtake the one before it");
    let conns = rig.conns();
    rig.sends(old, &"0".repeat(990));
    rig.pass(Duration::ZERO);
    assert_eq!(rig.conns(), conns, "the value is not asked for again while it keeps others waiting");
    rig.sends(old, "|");
    let large = rig.pinned_now();
    assert_eq!(rig.taken(large), "*2|$3|get|$1|x|", "but as soon as it does not");
    rig.sends(old, ":1|");
    assert_eq!(rig.taken(behind), ":1|");
    assert_eq!(rig.taken(new), "*2|$4|incr|$1|n|");
    assert!(!rig.is_closed(old));
    rig.sends(large, &format!("$1000|{}|", "0".repeat(1000)));
    assert_eq!(rig.taken(client), format!("$1000|{}|", "0".repeat(1000)));
}

#[test]
fn reads_behind_a_large_reply_are_retried_elsewhere() {
    let (mut rig, client) = rig(1, clogging());
    let (other, third) = (small_client(&mut rig), small_client(&mut rig));
    rig.client_sends(client, "get x|get w|");
    rig.client_sends(other, "get y|get z|");
    rig.client_sends(third, "get y|");
    rig.node_got(0);
    let old = rig.node(0);
    rig.node_sends(0, "$200|0123456789");
    assert_eq!(rig.taken(client), "$200|0123456789", "it is passed on from here");
    let new = rig.idle_or_new(0, old);
    assert_eq!(rig.taken(new), "*2|$3|get|$1|y|*2|$3|get|$1|z|*2|$3|get|$1|y|");
    rig.sends(new, "$1|y|$1|z|$1|y|");
    assert_eq!((rig.taken(other).as_str(), rig.taken(third).as_str()), ("$1|y|$1|z|", "$1|y|"));
    let rest = format!("{}|", "0".repeat(190));
    rig.sends(old, &format!("{rest}$1|w|$1|y|$1"));
    assert_eq!(rig.taken(client), format!("{rest}$1|w|"));
    assert!(rig.is_closed(old), "what comes for the others is of no use");
    assert_eq!((rig.proxy.counters().reads_repeated, rig.proxy.counters().refetches), (3, 0));
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn unwanted_large_reply_is_cut_short() {
    let (mut rig, client) =
        rig(1, Limits { engine: EngineLimits { pinned_clients_max: 1, ..clogging().engine }, ..clogging() });
    let other = small_client(&mut rig);
    // Another client has the only permit.
    rig.client_sends(other, "*3|$3|set|$1|y|$60|0123456789");
    let own = rig.pinned_now();
    rig.taken(own);
    rig.client_sends(client, "get x|");
    let old = rig.node(0);
    rig.node_sends(0, "$200|0123456789");
    assert_eq!((rig.is_closed(old), rig.taken(client).as_str()), (true, ""));
    rig.client_sends(other, &format!("{}|", "0".repeat(50)));
    rig.taken(own);
    rig.sends(own, "+OK|");
    assert_eq!(rig.taken(other), "+OK|");
    assert_eq!(rig.taken(own), "*2|$3|get|$1|x|");
    rig.sends(own, "$1|v|");
    assert_eq!(rig.taken(client), "$1|v|");
}

#[test]
fn reads_of_unknown_size_stay_behind_a_large_reply() {
    let mut rig = Rig::ready(1);
    let [client, other, fresh] = [(); 3].map(|()| rig.client());
    // New clients have no history of small replies.
    rig.client_sends(client, "get x|");
    rig.client_sends(other, "get y|");
    rig.node_got(0);
    let old = rig.node(0);
    rig.node_sends(0, "$2000000|0123456789");
    rig.client_sends(fresh, "get z|");
    let new = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(new), "*2|$3|get|$1|z|", "only what comes then goes over the other");
    rig.sends(old, &format!("{}|$1|y|", "0".repeat(1_999_990)));
    assert_eq!(rig.taken(other), "$1|y|");
    let own = rig.pinned_now();
    assert_eq!(rig.taken(own), "*2|$3|get|$1|x|");
}

#[test]
fn a_read_behind_large_replies_is_asked_again_once() {
    let (mut rig, one) = rig(1, clogging());
    let (two, three) = (small_client(&mut rig), small_client(&mut rig));
    let value = "0123456789".repeat(20);
    for (client, key) in [(one, "x"), (two, "y"), (three, "z")] {
        rig.client_sends(client, &format!("get {key}|"));
    }
    rig.node_got(0);
    let old = rig.node(0);
    rig.node_sends(0, "$200|0123456789");
    let new = rig.idle_or_new(0, old);
    assert_eq!(rig.taken(new), "*2|$3|get|$1|y|*2|$3|get|$1|z|");
    rig.sends(old, &format!("{}|", &value[10..]));
    assert_eq!(rig.taken(one), format!("$200|{value}|"));
    let conns = rig.conns();
    rig.sends(new, "$200|0123456789");
    assert_eq!((rig.taken(two).as_str(), rig.is_closed(new)), ("", false), "the third is answered here");
    rig.pass(Duration::from_millis(1));
    assert!(rig.conns().len() <= conns.len() + 1, "what is passed over here is not asked for yet");
    rig.sends(new, &format!("{}|$1|z|", &value[10..]));
    assert_eq!(rig.taken(three), "$1|z|");
    let second = rig.pinned_now();
    assert_eq!(rig.taken(second), "*2|$3|get|$1|y|");
    rig.sends(second, &format!("$200|{value}|"));
    assert_eq!(rig.taken(two), format!("$200|{value}|"));
}

#[test]
fn reads_do_not_wait_behind_a_large_reply_to_a_write() {
    let (mut rig, writer) = rig(1, clogging());
    let (other, fresh) = (small_client(&mut rig), small_client(&mut rig));
    rig.client_sends(writer, "getdel x|");
    rig.client_sends(other, "get y|");
    rig.node_got(0);
    let old = rig.node(0);
    rig.node_sends(0, "$200|0123456789");
    let new = rig.idle_or_new(0, old);
    assert_eq!(rig.taken(new), "*2|$3|get|$1|y|");
    rig.client_sends(fresh, "incr n|");
    assert_eq!(rig.taken(new), "*2|$4|incr|$1|n|");
    rig.sends(new, "$1|y|:1|");
    assert_eq!((rig.taken(other).as_str(), rig.taken(fresh).as_str()), ("$1|y|", ":1|"));
    let value = "0123456789".repeat(20);
    rig.sends(old, &format!("{}|$1|y|", &value[10..]));
    assert_eq!((rig.taken(writer), rig.taken(other).as_str()), (format!("$200|{value}|"), ""));
    assert!(!rig.is_closed(old), "it serves who asks for large values next");
}

#[test]
fn a_permit_that_is_not_used_is_the_next_clients_at_once() {
    let mut rig = Rig::ready_with(
        1,
        Limits {
            engine: EngineLimits { pinned_clients_max: 1, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    let (first, next) = (rig.client(), rig.client());
    let long = format!("$70000|{}|", "x".repeat(70_000));
    rig.client_sends(first, &format!("get a|*2|$4|echo|{long}"));
    rig.client_sends(next, &format!("get b|*3|$3|set|$1|b|{long}"));
    // A request that shardis answers needs no link. Each step checks that no client waits in vain.
    rig.node_sends(0, "$1|a|");
    assert_eq!(rig.taken(first), format!("$1|a|{long}"));
    rig.node_sends(0, "$1|b|");
    let large = rig.pinned_now();
    assert!(rig.taken(large).contains(&long));
}

#[test]
fn skipped_reply_on_a_lost_link_is_retried_at_once() {
    let (mut rig, client) = rig(1, clogging());
    let behind = small_client(&mut rig);
    rig.client_sends(client, "get x|");
    rig.client_sends(behind, "incr n|");
    let old = rig.node(0);
    rig.node_sends(0, "$200|0123456789");
    rig.event(Event::Closed { conn: old, reason: "reset" });
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!(rig.taken(behind), lost);
    rig.pass(Duration::from_millis(1));
    rig.bring_up(0);
    let large = rig.node(0);
    assert_eq!(rig.taken(large), "*2|$3|get|$1|x|");
}

#[test]
fn full_memory_pauses_reads_and_closes_stuck_clients() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 400_000, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let (slow, other) = (rig.client(), rig.client());
    let value = "v".repeat(60_000);
    rig.stick(slow);
    for _ in 0..4 {
        rig.client_sends(slow, "get x|");
        rig.node_sends(0, &format!("$60000|{value}|"));
    }
    rig.node_got(0);
    rig.client_sends(other, "get y|");
    assert_eq!((rig.node_got(0).as_str(), rig.is_paused(other)), ("", true));
    let closed_after = (1..60).find(|_| {
        rig.pass(Duration::from_millis(100));
        rig.is_closed(slow)
    });
    assert!(closed_after.is_some(), "it has not moved while others waited");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|y|");
    assert!(!rig.is_paused(other));
}

/// No client is the cause alone.
#[test]
fn full_memory_closes_many_stuck_clients_that_hold_little() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 400_000, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let slow: Vec<_> = (0..5).map(|_| rig.client()).collect();
    let other = rig.client();
    let value = "v".repeat(50_000);
    for &slow in &slow {
        rig.stick(slow);
        rig.client_sends(slow, "get x|");
        rig.node_sends(0, &format!("$50000|{value}|"));
    }
    rig.client_sends(other, "ping|");
    assert!(rig.is_paused(other), "the memory is full");
    let read_after = (1..100).find(|_| {
        rig.pass(Duration::from_millis(100));
        !rig.is_paused(other)
    });
    assert!(read_after.is_some(), "the other client goes on");
    assert_eq!(rig.taken(other), "+PONG|");
    assert!(slow.iter().any(|&slow| !rig.is_closed(slow)), "no more than needed are closed");
}

#[test]
fn memory_of_the_driver_counts_but_stops_no_reading_client() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 400_000, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let (slow, other) = (rig.client(), rig.client());
    rig.stick(slow);
    rig.client_sends(slow, "get x|");
    // The whole reply is there at once, so that it is not relayed in pieces.
    let value = "v".repeat(100_000);
    rig.node_sends(0, &format!("$100000|{value}|"));
    rig.node_got(0);
    let before = rig.proxy.held_bytes();
    rig.proxy.handle_held_below(200_000);
    assert_eq!(rig.proxy.held_bytes(), before + 200_000);
    rig.client_sends(other, "get y|");
    assert_eq!((rig.node_got(0).as_str(), rig.is_paused(other)), ("*2|$3|get|$1|y|", false));
    rig.proxy.handle_held_below(399_000);
    rig.perform();
    assert!(rig.is_closed(slow) && !rig.is_closed(other), "above the limit, the largest goes");
    rig.proxy.handle_held_below(0);
    rig.client_sends(other, "ping|");
    assert!(!rig.is_closed(other));
}

#[test]
fn mget_is_charged_with_the_memory_that_it_holds() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 400_000, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(2, limits);
    let clients: Vec<_> = (0..20).map(|_| rig.client()).collect();
    // Each client has a key on either node; the first node answers each with a few bytes.
    let mget = format!("mget {} {}|", rig.key(0), rig.key(1));
    let mut asked = vec![0; clients.len()];
    for at in (0..clients.len()).cycle() {
        rig.client_sends(clients[at], &mget);
        asked[at] += 1;
        assert!(asked[at] < 40, "half a KiB each: 400 of them are half of the memory");
        if rig.is_paused(clients[at]) {
            break;
        }
        rig.node_sends(0, "*1|$1|v|");
    }
    assert!(rig.proxy.held_bytes() > 200_000, "{}", rig.proxy.held_bytes());
    (1..asked.iter().sum()).for_each(|_| rig.node_sends(1, "*1|$1|w|"));
    // Now the first node answers the last request.
    rig.node_sends(0, "*1|$1|v|");
    rig.node_sends(1, "*1|$1|w|");
    for (client, count) in clients.into_iter().zip(asked) {
        assert_eq!(rig.taken(client), "*2|$1|v|$1|w|".repeat(count));
        assert!(!rig.is_paused(client));
    }
    assert_eq!(rig.proxy.held_bytes(), 0);
}

/// A node that takes no bytes causes no further write. The output that waits for it meanwhile must be counted without
/// a write.
#[test]
fn output_for_a_node_that_takes_nothing_is_counted() {
    let limits = Limits {
        engine: EngineLimits {
            memory_bytes_max: 400_000,
            link_output_bytes_max: 400_000,
            ..EngineLimits::default()
        },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let node = rig.node(0);
    rig.stick(node);
    let clients: Vec<_> = (0..20).map(|_| rig.client()).collect();
    let set = format!("*3|$3|SET|$1|k|$3000|{}|", "v".repeat(3000));
    let mut asked = vec![0; clients.len()];
    for at in (0..clients.len()).cycle() {
        rig.client_sends(clients[at], &set);
        asked[at] += 1;
        let total: usize = asked.iter().sum();
        assert!(total < 70, "3 KB each: 66 of them are half of the memory");
        if rig.is_paused(clients[at]) {
            break;
        }
        assert_eq!(rig.taken(clients[at]), "", "nothing is refused");
    }
    rig.unstick(node);
    for _ in 0..asked.iter().sum() {
        rig.node_sends(0, "+OK|");
    }
    for (client, count) in clients.into_iter().zip(asked) {
        assert_eq!(rig.taken(client), "+OK|".repeat(count));
        assert!(!rig.is_paused(client));
    }
    assert_eq!(rig.proxy.held_bytes(), 0);
}
