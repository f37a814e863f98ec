//! Lanes, event by event: databases and versions of the protocol on connections of their own.

use crate::testing::Rig;
use crate::{ConnId, Limits};
use std::time::Duration;

/// How a connection for database 3 begins, and what its node answers.
const TO_3: (&str, &str) = ("*2|$6|SELECT|$1|3|*1|$4|PING|", "+OK|+PONG|");

/// A client that has selected database 3, over one shard, and the connection of its lane, on which nothing waits.
fn in_database_3(rig: &mut Rig) -> (ConnId, ConnId) {
    let client = rig.client();
    rig.client_sends(client, "select 3|get x|");
    let conn = rig.bring_up_greeted(0, TO_3.0, TO_3.1);
    assert_eq!(rig.taken(conn), "*2|$3|get|$1|x|");
    rig.sends(conn, "$-1|");
    assert_eq!(rig.taken(client), "+OK|$-1|");
    (client, conn)
}

#[test]
fn select_is_answered_at_once_and_requests_take_another_connection() {
    let mut rig = Rig::ready(1);
    let (client, conn) = in_database_3(&mut rig);
    let other = rig.client();
    rig.client_sends(client, "get x|");
    rig.client_sends(other, "get x|");
    assert_eq!((rig.taken(conn).as_str(), rig.node_got(0).as_str()), ("*2|$3|get|$1|x|", "*2|$3|get|$1|x|"));
    // All who are in the lane share its connection.
    rig.client_sends(other, "select 3|");
    rig.node_sends(0, "$1|0|");
    rig.client_sends(other, "incr x|");
    assert_eq!(rig.taken(conn), "*2|$4|incr|$1|x|");
    rig.sends(conn, "$1|3|:4|");
    assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), ("$1|3|", "$1|0|+OK|:4|"));
}

#[test]
fn nothing_overtakes_what_is_in_flight_in_the_lane_before() {
    let mut rig = Rig::ready(1);
    let (client, conn) = in_database_3(&mut rig);
    rig.client_sends(client, "set x 3|select 0|set x 0|select 3|get x|");
    assert_eq!((rig.taken(conn).as_str(), rig.node_got(0).as_str()), ("*3|$3|set|$1|x|$1|3|", ""));
    rig.sends(conn, "+OK|");
    assert_eq!((rig.taken(client).as_str(), rig.taken(conn).as_str()), ("+OK|+OK|", ""));
    assert_eq!(rig.node_got(0), "*3|$3|set|$1|x|$1|0|");
    rig.node_sends(0, "+OK|");
    assert_eq!(rig.taken(conn), "*2|$3|get|$1|x|");
    rig.sends(conn, "$1|3|");
    assert_eq!(rig.taken(client), "+OK|+OK|$1|3|");
}

#[test]
fn what_a_client_sent_before_it_ended_is_carried_out_in_its_lanes() {
    let mut rig = Rig::ready(1);
    let (client, conn) = in_database_3(&mut rig);
    rig.client_sends(client, "get x|select 0|get x|select 3|get x|");
    rig.event(crate::Event::Ended { conn: client });
    rig.sends(conn, "$1|1|");
    rig.node_sends(0, "$1|2|");
    rig.sends(conn, "$1|3|");
    assert_eq!(rig.taken(client), "$1|1|+OK|$1|2|+OK|$1|3|");
    assert!(rig.is_closed(client));
}

#[test]
fn databases_that_there_are_not_are_refused_in_redis_words() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "select 16|select -1|select x|select 3000000000|select 15|select 0|");
    assert_eq!(
        rig.taken(client),
        "-ERR DB index is out of range|-ERR DB index is out of range|\
         -ERR value is not an integer or out of range|-ERR value is not an integer or out of range|+OK|+OK|"
    );
}

#[test]
fn a_node_that_refuses_the_greeting_is_down_for_that_lane_alone() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "select 3|get x|");
    rig.bring_up_greeted(0, TO_3.0, "-ERR DB index is out of range|+PONG|");
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: ERR DB index is out of range|";
    assert_eq!(rig.taken(client), format!("+OK|{refusal}"));
    rig.client_sends(client, "get x|");
    assert_eq!(rig.taken(client), refusal);
    rig.client_sends(other, "get x|");
    rig.node_sends(0, "$1|0|");
    assert_eq!(rig.taken(other), "$1|0|");
    assert_eq!((rig.proxy.counters().nodes_up, rig.notices().len()), (1, 0));
}

#[test]
fn a_lane_that_nobody_is_in_is_closed_after_a_while() {
    let mut rig = Rig::ready(1);
    let (client, conn) = in_database_3(&mut rig);
    let stays_for = |rig: &mut Rig, seconds| {
        rig.pass(Duration::from_secs(seconds));
        // A node that was silent for some seconds is asked whether it lives, over each lane.
        if rig.taken(conn) == "*1|$4|PING|" {
            rig.sends(conn, "+PONG|");
            rig.node_sends(0, "+PONG|");
        }
        !rig.is_closed(conn)
    };
    assert!((0..20).all(|_| stays_for(&mut rig, 1)), "its client is still there");
    rig.client_sends(client, "reset|");
    assert!((0..4).all(|_| stays_for(&mut rig, 1)), "it may come back");
    assert!(!(0..2).all(|_| stays_for(&mut rig, 1)));
    // The place that it had is used again.
    let connections = rig.proxy.core.backends.len();
    in_database_3(&mut rig);
    assert_eq!(rig.proxy.core.backends.len(), connections);
}

#[test]
fn connections_of_lanes_are_bounded() {
    let mut rig = Rig::ready_with(2, Limits { lane_nodes_max: 1, ..Limits::default() });
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("select 3|get {a}|"));
    let conn = rig.bring_up_greeted(0, TO_3.0, TO_3.1);
    rig.sends(conn, "$-1|");
    rig.client_sends(client, &format!("get {b}|"));
    let refusal = "-TRYAGAIN shard 127.0.0.1:7001 unavailable: too many databases are in use at once|";
    assert_eq!(rig.taken(client), format!("+OK|$-1|{refusal}"));
}

#[test]
fn what_goes_to_all_shards_and_what_is_split_keeps_to_the_lane() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("select 3|mget {a} {b}|dbsize|"));
    let conns = [0, 1].map(|shard| rig.bring_up_greeted(shard, TO_3.0, TO_3.1));
    for (conn, key, value) in [(conns[0], &a, "x"), (conns[1], &b, "y")] {
        assert_eq!(rig.taken(conn), format!("*2|$4|mget|$2|{key}|*1|$6|dbsize|"));
        rig.sends(conn, &format!("*1|$1|{value}|:2|"));
    }
    assert_eq!(rig.taken(client), "+OK|*2|$1|x|$1|y|:4|");
}

#[test]
fn a_scan_and_a_script_keep_to_the_lane() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let a = rig.key(0);
    rig.client_sends(client, &format!("select 3|scan 0|select 0|get {a}|"));
    let first = rig.bring_up_greeted(0, TO_3.0, TO_3.1);
    assert_eq!(rig.taken(first), "*2|$4|scan|$1|0|");
    // The next shard is asked over the lane in which the scan began, though its client has left it.
    rig.sends(first, "*2|$1|0|*1|$1|k|");
    let second = rig.bring_up_greeted(1, TO_3.0, TO_3.1);
    assert_eq!(rig.taken(second), "*2|$4|scan|$1|0|");
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    rig.sends(second, "*2|$1|0|*0|");
    rig.node_sends(0, "$1|v|");
    assert_eq!(rig.taken(client), "+OK|*2|$1|0|*1|$1|k|+OK|$1|v|");

    rig.node_got(0);
    rig.client_sends(client, &format!("eval return 1 {a}|select 3|"));
    assert_eq!(rig.node_got(0), format!("*3|$4|eval|$6|return|$1|1|$2|{a}|").replace("*3", "*4"));
}

#[test]
fn a_large_reply_is_asked_for_again_in_the_lane_that_it_came_in() {
    let mut rig = Rig::ready_with(1, Limits { large_bytes: 20, relay_bytes_max: 30, ..Limits::default() });
    // A new client's replies are expected to be as large as most are: the first ones come over a connection of its own.
    // That is free again when the lane needs one to share, and is taken for it.
    let (client, conn) = in_database_3(&mut rig);
    for _ in 0..80 {
        rig.client_sends(client, "exists y|");
        assert_eq!(rig.taken(conn), "*2|$6|exists|$1|y|");
        rig.sends(conn, ":0|");
    }
    rig.taken(client);
    rig.client_sends(client, "get x|select 0|get x|");
    assert_eq!(rig.taken(conn), "*2|$3|get|$1|x|");
    rig.sends(conn, "$40|0123456789");
    let pinned = rig.bring_up_greeted(0, TO_3.0, TO_3.1);
    assert_eq!((rig.taken(pinned).as_str(), rig.node_got(0).as_str()), ("*2|$3|get|$1|x|", ""));
    let value = "0123456789".repeat(4);
    rig.sends(pinned, &format!("$40|{value}|"));
    assert_eq!(rig.taken(client), format!("$40|{value}|+OK|"));
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|x|");
    rig.node_sends(0, "$1|0|");
    assert_eq!(rig.taken(client), "$1|0|");
}

#[test]
fn client_list_shows_the_database() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "select 7|client list|");
    let lines = rig.taken(client);
    assert!(lines.contains(" db=7 ") && lines.contains(" resp=2"), "{lines}");
}
