//! Profiles, event by event: databases and protocol versions have links of their own.

use crate::EngineLimits;
use crate::testing::Rig;
use crate::{ConnId, Limits, Notice};
use std::time::Duration;

/// The first requests of a link for database 3, and the node's replies.
const TO_3: (&str, &str) = ("*2|$6|SELECT|$1|3|*1|$4|PING|", "+OK|+PONG|");

/// A client that has selected database 3, over one shard, and the idle link of its profile.
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
fn select_is_answered_at_once_and_switches_links() {
    let mut rig = Rig::ready(1);
    let (client, conn) = in_database_3(&mut rig);
    let other = rig.client();
    rig.client_sends(client, "get x|");
    rig.client_sends(other, "get x|");
    assert_eq!((rig.taken(conn).as_str(), rig.node_got(0).as_str()), ("*2|$3|get|$1|x|", "*2|$3|get|$1|x|"));
    // All clients in the profile share its link.
    rig.client_sends(other, "select 3|");
    rig.node_sends(0, "$1|0|");
    rig.client_sends(other, "incr x|");
    assert_eq!(rig.taken(conn), "*2|$4|incr|$1|x|");
    rig.sends(conn, "$1|3|:4|");
    assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), ("$1|3|", "$1|0|+OK|:4|"));
}

#[test]
fn requests_do_not_overtake_those_in_the_old_profile() {
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
fn requests_before_the_end_run_in_their_profiles() {
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
fn muted_requests_before_the_end_run_in_their_profiles() {
    let mut rig = Rig::ready(1);
    let (client, conn) = in_database_3(&mut rig);
    rig.client_sends(client, "client reply off|set x 1|select 0|set x 2|select 3|set x 3|");
    rig.event(crate::Event::Ended { conn: client });
    rig.sends(conn, "+OK|");
    rig.node_sends(0, "+OK|");
    assert_eq!(rig.taken(conn), "*3|$3|set|$1|x|$1|1|*3|$3|set|$1|x|$1|3|");
    assert!(!rig.is_closed(client));
    rig.sends(conn, "+OK|");
    assert_eq!((rig.taken(client).as_str(), rig.is_closed(client)), ("", true));
}

#[test]
fn databases_that_there_are_not_are_refused_in_redis_words() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "select 16|select -1|select x|select 3000000000|select 15|select 0|");
    assert_eq!(
        rig.taken(client),
        "-ERR DB index is out of range|-ERR DB index is out of range|\
         -ERR value is not an integer or out of range|\
         -ERR value is out of range, value must between -2147483648 and 2147483647|+OK|+OK|"
    );
}

#[test]
fn refused_handshake_fails_one_profile_alone() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "select 3|get x|");
    rig.bring_up_greeted(0, TO_3.0, "-ERR DB index is out of range|+PONG|");
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: ERR DB index is out of range|";
    assert_eq!(rig.taken(client), format!("+OK|{refusal}"));
    // After several attempts, the log still has one line.
    rig.pass(Duration::from_millis(30));
    rig.bring_up_greeted(0, TO_3.0, "-ERR DB index is out of range|+PONG|");
    let reason = "ERR DB index is out of range".to_owned();
    let shard = "127.0.0.1:7000".to_owned();
    assert_eq!(rig.notices(), [Notice::KindRefused { shard, database: 3, protocol: 2, reason }]);
    rig.client_sends(client, "get x|");
    assert_eq!(rig.taken(client), refusal);
    rig.client_sends(other, "get x|");
    rig.node_sends(0, "$1|0|");
    assert_eq!(rig.taken(other), "$1|0|");
    assert_eq!((rig.proxy.counters().nodes_up, rig.notices().len()), (1, 0));
}

#[test]
fn a_profile_without_clients_is_closed_after_a_while() {
    let mut rig = Rig::ready(1);
    let (client, conn) = in_database_3(&mut rig);
    let stays_for = |rig: &mut Rig, seconds| {
        rig.pass(Duration::from_secs(seconds));
        // A node that was silent for some seconds gets a health check on the link of each profile.
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
    // The place of the link is used again.
    let connections = rig.proxy.core.cx.engine.links.iter().len();
    in_database_3(&mut rig);
    assert_eq!(rig.proxy.core.cx.engine.links.iter().len(), connections);
}

#[test]
fn connections_of_profiles_are_bounded() {
    let mut rig = Rig::ready_with(2, Limits { profile_nodes_max: 1, ..Limits::default() });
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
fn split_and_broadcast_requests_keep_their_profile() {
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
fn a_scan_and_a_script_keep_to_the_profile() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let a = rig.key(0);
    rig.client_sends(client, &format!("select 3|scan 0|select 0|get {a}|"));
    let first = rig.bring_up_greeted(0, TO_3.0, TO_3.1);
    assert_eq!(rig.taken(first), "*2|$4|scan|$1|0|");
    // The next shard gets the scan over the profile in which it began, though the client has left that profile.
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
fn large_reply_is_refetched_in_its_profile() {
    let mut rig = Rig::ready_with(
        1,
        Limits {
            engine: EngineLimits { large_bytes: 20, relay_bytes_max: 30, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    // A new client's replies are expected to be as large as most are, so the first ones come over a link of its own.
    // That link is free when the profile needs one to share, and is taken for it.
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

/// The first requests of a link with RESP3 for database 0, and the node's replies.
const TO_RESP3: (&str, &str) = ("*2|$5|HELLO|$1|3|*1|$4|PING|", "%1|$5|proto|:3|+PONG|");

/// The reply of HELLO to the first client in a protocol.
fn hello(header: &str, proto: u8) -> String {
    format!(
        "{header}|$6|server|$5|redis|$7|version|$6|7.0.15|$5|proto|:{proto}|$2|id|:1|$4|mode|$10|standalone|\
         $4|role|$6|master|$7|modules|*0|"
    )
}

#[test]
fn hello_chooses_the_protocol_and_reset_goes_back() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "hello|hello 3 setname me|get x|");
    assert_eq!(rig.taken(client), hello("*14", 2) + &hello("%7", 3));
    let conn = rig.bring_up_greeted(0, TO_RESP3.0, TO_RESP3.1);
    assert_eq!(rig.taken(conn), "*2|$3|get|$1|x|");
    rig.sends(conn, "_|");
    rig.client_sends(client, "hello|client getname|config get save|hello 2|client getname|");
    let answers = format!("_|{}$2|me|%1|$4|save|$0||{}$2|me|", hello("%7", 3), hello("*14", 2));
    assert_eq!(rig.taken(client), answers);
    rig.client_sends(client, "get x|hello 3|reset|client getname|get x|");
    assert_eq!((rig.node_got(0).as_str(), rig.taken(conn).as_str()), ("*2|$3|get|$1|x|", ""));
    rig.node_sends(0, "$1|2|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|x|");
    assert_eq!(rig.taken(client), format!("$1|2|{}+RESET|$-1|", hello("%7", 3)));
}

#[test]
fn a_hello_that_fails_changes_nothing() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(
        client,
        "hello 4|hello x|hello 3 foo|hello 3 setname|hello 3 setname a\u{7f}b|client getname|",
    );
    assert_eq!(
        rig.taken(client),
        "-NOPROTO unsupported protocol version|-ERR Protocol version is not an integer or out of range|\
         -ERR Syntax error in HELLO option 'foo'|-ERR Syntax error in HELLO option 'setname'|\
         -ERR Client names cannot contain spaces, newlines or special characters.|$-1|"
    );
}

#[test]
fn merged_replies_are_of_the_protocol_in_which_was_asked() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("hello 3|mget {a} {b}|randomkey|keys *|scan 0 count 1|hello 2|"));
    let conns = [0, 1].map(|shard| rig.bring_up_greeted(shard, TO_RESP3.0, TO_RESP3.1));
    rig.taken(client);
    rig.sends(conns[0], "*1|_|_|");
    rig.sends(conns[1], "*1|$1|v|_|");
    let pinned = [0, 1].map(|shard| rig.bring_up_greeted(shard, TO_RESP3.0, TO_RESP3.1));
    rig.sends(pinned[0], "*1|$1|k|");
    rig.sends(pinned[1], "*0|");
    rig.sends(conns[0], "*2|$1|0|*1|$1|k|");
    assert!(rig.taken(client).starts_with("*2|_|$1|v|_|*1|$1|k|*2|"));
}

#[test]
fn every_type_of_resp3_passes_untouched() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, &format!("hello 3|{}", "get x|".repeat(11)));
    let conn = rig.bring_up_greeted(0, TO_RESP3.0, TO_RESP3.1);
    rig.taken(client);
    let replies = "%1|$1|a|,1.5|~2|:1|:2|_|#t|(12345678901234567890|=6|txt:hi|!5|ERR x|\
                   |1|$3|ttl|:3|$1|v|,inf|*2|%0|~0|+OK|";
    let replies = replies.replace("||1|", "|\u{1}1|");
    // In this test, the byte of an attribute's type is the one that stands for CR LF.
    let bytes = replies.replace('|', "\r\n").replace('\u{1}', "|");
    rig.event(crate::Event::Received { conn, bytes: bytes.as_bytes() });
    assert_eq!(rig.taken(client), bytes.replace("\r\n", "|"));
}

#[test]
fn a_push_without_a_subscription_is_dropped() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "hello 3|get x|");
    let conn = rig.bring_up_greeted(0, TO_RESP3.0, TO_RESP3.1);
    rig.client_sends(other, "hello 3|get y|");
    rig.taken(client);
    rig.taken(other);
    // The push may be meant as the reply to the first request. Then all others would get the reply of another.
    rig.sends(conn, ">2|$10|invalidate|*1|$1|x|$1|x|$1|y|");
    let lost = "-ERR node protocol error, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), (lost, lost));
    assert!(rig.is_closed(conn));
}

#[test]
fn a_large_push_is_not_taken_for_a_large_reply() {
    let lost = "-ERR node protocol error, outcome unknown (shard 127.0.0.1:7000)|";
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get x|");
    rig.node_sends(0, ">1|$100000|x");
    assert_eq!(rig.taken(client), lost);
    // The same on a link of the client's own.
    let mut rig = Rig::ready_with(
        1,
        Limits { engine: EngineLimits { large_bytes: 20, ..EngineLimits::default() }, ..Limits::default() },
    );
    let client = rig.client();
    rig.client_sends(client, "get x|");
    let pinned = rig.bring_up_pinned(0);
    rig.sends(pinned, ">1|$100|x");
    assert_eq!(rig.taken(client), lost);
}

#[test]
fn swapdb_works_over_one_shard() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "swapdb 0 3|swapdb 0 16|swapdb x 0|multi|swapdb 1 2|exec|");
    assert_eq!(
        rig.node_got(0),
        "*3|$6|swapdb|$1|0|$1|3|*3|$6|swapdb|$1|x|$1|0|*1|$5|MULTI|*3|$6|swapdb|$1|1|$1|2|*1|$4|EXEC|"
    );
    rig.node_sends(0, "+OK|-ERR invalid first DB index|+OK|+QUEUED|*1|+OK|");
    let replies = "+OK|-ERR DB index is out of range|-ERR invalid first DB index|+OK|+QUEUED|*1|+OK|";
    assert_eq!(rig.taken(client), replies);
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let why = "clients would see some shards swapped and others not yet";
    let refusal = format!("-ERR command 'swapdb' is not allowed through shardis: {why}|");
    rig.client_sends(client, "swapdb 0 1|multi|swapdb 0 1|");
    assert_eq!(rig.taken(client), format!("{refusal}+OK|{refusal}"));
}

#[test]
fn reports_on_clients_and_commands_have_resp3_types() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(
        client,
        "hello 3|client list|command info get|client trackinginfo|lolwut|cluster slots|",
    );
    let mut replies = rig.taken(client);
    rig.client_sends(client, "cluster shards|cluster info|");
    replies += &rig.taken(client);
    for part in [
        "|txt:id=1 ",
        " resp=3\n|*1|*10|$3|get|:2|~2|+readonly|+fast|:1|:1|:1|~3|+@read|+@string|+@fast|~0|~1|%3|$5|flags|",
        "|%3|$5|flags|~1|$3|off|$8|redirect|:-1|$8|prefixes|*0|=22|txt:Redis ver. 7.0.15\n|",
        "|%0|",
        "|*1|%2|$5|slots|*2|:0|:16383|$5|nodes|*1|%7|$2|id|",
        "|=316|txt:cluster_state:ok|",
    ] {
        assert!(replies.contains(part), "{part} in {replies}");
    }
}

#[test]
fn move_and_copy_to_a_forbidden_database_are_refused() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "move x 16|copy x y replace db 16|move x 15|copy x y db -1|");
    assert_eq!(rig.taken(client), "-ERR DB index is out of range|-ERR DB index is out of range|");
    let forwarded = "*3|$4|move|$1|x|$2|15|*5|$4|copy|$1|x|$1|y|$2|db|$2|-1|";
    assert_eq!(rig.node_got(0), forwarded);
}

#[test]
fn handshake_reply_is_not_taken_for_a_large_reply() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "hello 3|get x|");
    rig.taken(client);
    // The reply comes in two pieces, while a request waits behind it.
    let conn = rig.bring_up_greeted(0, TO_RESP3.0, "%2|$5|proto|:3|$100000|x");
    rig.sends(conn, &format!("{}|:1|+PONG|", "x".repeat(99_999)));
    assert_eq!(rig.taken(conn), "*2|$3|get|$1|x|");
    rig.sends(conn, "$1|v|");
    assert_eq!(rig.taken(client), "$1|v|");
}
