//! Transcripts of transactions with commands that need answers of all shards or all workers. `|` stands for CR LF.

use crate::link::profile::Profile;
use crate::testing::Rig;
use crate::tests::pubsub::{message, said};
use crate::{Event, Limits, Settings, Transactions};

const MULTI: &str = "*1|$5|MULTI|";
const EXEC: &str = "*1|$4|EXEC|";
const DBSIZE: &str = "*1|$6|dbsize|";

/// A client with a transaction that sets a key of the first shard and contains `line`. The node has run the SET.
fn run_with(rig: &mut Rig, line: &str) -> crate::ConnId {
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("multi|set {key} 1|{line}|get {key}|exec|"));
    assert_eq!(rig.taken(client).replace("+QUEUED|", ""), "+OK|");
    let len = key.len();
    assert_eq!(rig.node_got(0), format!("{MULTI}*3|$3|set|${len}|{key}|$1|1|*2|$3|get|${len}|{key}|{EXEC}"));
    rig.node_sends(0, "+OK|+QUEUED|+QUEUED|*2|+OK|$1|1|");
    client
}

#[test]
fn all_shards_are_asked_at_the_place_of_dbsize() {
    let mut rig = Rig::ready(2);
    let client = run_with(&mut rig, "dbsize");
    assert_eq!(rig.taken(client), "*3|+OK|");
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), (DBSIZE, DBSIZE));
    rig.node_sends(1, ":2|");
    rig.node_sends(0, ":5|");
    assert_eq!(rig.taken(client), ":7|$1|1|");
    rig.client_sends(client, "client id|");
    assert_eq!(rig.taken(client), ":1|");
    assert!(rig.proxy.core.execs.mixtures.is_empty());
}

#[test]
fn several_are_asked_one_after_the_other() {
    let mut rig = Rig::ready(2);
    let client = run_with(&mut rig, "dbsize|client id|keys a*|dbsize");
    for node in [0, 1] {
        assert_eq!(rig.node_got(node), DBSIZE);
        rig.node_sends(node, ":1|");
    }
    assert_eq!(rig.taken(client), "*6|+OK|:2|:1|");
    for node in [0, 1] {
        assert_eq!(rig.node_got(node), "*2|$4|keys|$2|a*|");
        rig.node_sends(node, "*1|$1|a|");
    }
    assert_eq!(rig.taken(client), "*2|$1|a|$1|a|");
    for node in [0, 1] {
        assert_eq!(rig.node_got(node), DBSIZE);
        rig.node_sends(node, ":2|");
    }
    assert_eq!(rig.taken(client), ":4|$1|1|");
}

#[test]
fn info_client_list_and_scan_are_answered_in_a_transaction() {
    for shards in [1, 2] {
        let mut rig = Rig::ready(shards);
        let client = rig.client();
        rig.client_sends(client, "multi|info server|client list|exec|");
        let replies = rig.taken(client);
        let begin = "+OK|+QUEUED|+QUEUED|*2|$";
        assert!(replies.starts_with(begin) && replies.contains("redis_version:"), "{replies}");
        assert!(replies.contains("id=1 addr="), "{replies}");
        assert_eq!(rig.node_got(0), "");
    }
    let mut rig = Rig::ready(2);
    let client = run_with(&mut rig, "scan 0 count 1");
    assert_eq!(rig.node_got(0), "*4|$4|scan|$1|0|$5|count|$1|1|");
    rig.node_sends(0, "*2|$1|7|*1|$1|a|");
    assert_eq!(rig.taken(client), "*3|+OK|*2|$1|7|*1|$1|a|$1|1|");
}

#[test]
fn requests_behind_exec_wait_for_its_whole_reply() {
    let mut rig = Rig::ready(2);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("multi|dbsize|exec|get {key}|"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|*1|");
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), (DBSIZE, DBSIZE));
    rig.node_sends(0, ":1|");
    rig.node_sends(1, ":1|");
    assert_eq!(rig.taken(client), ":2|");
    assert_eq!(rig.node_got(0), format!("*2|$3|get|${}|{key}|", key.len()));
}

#[test]
fn a_shard_that_is_down_is_an_error_at_its_place() {
    let mut rig = Rig::ready(2);
    let conn = rig.node(1);
    rig.event(Event::Closed { conn, reason: "reset" });
    let client = run_with(&mut rig, "dbsize|client id");
    let replies = rig.taken(client);
    assert!(replies.starts_with("*4|+OK|-TRYAGAIN shard 127.0.0.1:7001 unavailable"), "{replies}");
    assert!(replies.ends_with("|:1|$1|1|"), "{replies}");
    let mut rig = Rig::ready(2);
    let client = run_with(&mut rig, "dbsize");
    rig.node_sends(0, ":1|");
    let conn = rig.node(1);
    rig.event(Event::Ended { conn });
    let replies = rig.taken(client);
    assert!(replies.starts_with("*3|+OK|-ERR ") && replies.ends_with("|$1|1|"), "{replies}");
}

#[test]
fn the_database_is_that_of_the_select_before_it() {
    let mut rig = Rig::ready(2);
    let (client, key) = (rig.client(), rig.key(0));
    rig.client_sends(client, &format!("multi|select 3|set {key} 1|dbsize|exec|"));
    let held = rig.pinned_now();
    rig.sends(held, "+OK|+QUEUED|+QUEUED|*2|+OK|+OK|");
    assert!(rig.taken(client).ends_with("*3|+OK|+OK|"));
    for shard in [0, 1] {
        let conn = rig.bring_up_greeted(shard, "*2|$6|SELECT|$1|3|*1|$4|PING|", "+OK|+PONG|");
        assert_eq!(rig.taken(conn), DBSIZE);
        rig.sends(conn, ":1|");
    }
    assert_eq!(rig.taken(client), ":2|");
}

#[test]
fn a_muted_exec_stays_silent_and_later_replies_are_heard() {
    let mut rig = Rig::ready(2);
    let (client, key) = (rig.client(), rig.key(0));
    let muted = format!("multi|set {key} 1|dbsize|client id|dbsize|get {key}|exec");
    rig.client_sends(client, &format!("client reply off|{muted}|client reply on|client id|"));
    rig.node_got(0);
    rig.node_sends(0, "+OK|+QUEUED|+QUEUED|*2|+OK|$1|1|");
    for _ in 0..2 {
        for node in [0, 1] {
            assert_eq!(rig.node_got(node), DBSIZE);
            rig.node_sends(node, ":1|");
        }
    }
    assert_eq!(rig.taken(client), "+OK|:1|");
}

#[test]
fn messages_stay_behind_the_whole_reply_to_exec() {
    let mut rig = Rig::ready(2);
    let (client, channel) = (rig.client(), rig.key(0));
    rig.change_profile(client, Profile { resp3: true, ..Profile::default() });
    rig.client_sends(client, &format!("subscribe {channel}|"));
    let source = rig.bring_up_pinned(0);
    rig.sends(source, &said("subscribe", &channel, Some(1)));
    rig.taken(client);
    rig.client_sends(client, "multi|dbsize|dbsize|exec|");
    let profiles =
        [0, 1].map(|shard| rig.bring_up_greeted(shard, "*2|$5|HELLO|$1|3|*1|$4|PING|", "%0|+PONG|"));
    let mut replies = rig.taken(client);
    for _ in 0..2 {
        rig.sends(source, &message(&channel, "hi"));
        replies += &rig.taken(client);
        profiles.iter().for_each(|profile| rig.sends(*profile, ":1|"));
        replies += &rig.taken(client);
    }
    let told = message(&channel, "hi").replacen('*', ">", 1);
    assert_eq!(replies, format!("+OK|+QUEUED|+QUEUED|*2|:2|:2|{told}{told}"));
}

#[test]
fn a_client_that_leaves_between_the_replies_leaves_nothing() {
    let mut rig = Rig::ready(2);
    let client = run_with(&mut rig, "dbsize");
    rig.node_sends(0, ":1|");
    rig.event(Event::Closed { conn: client, reason: "gone" });
    rig.node_sends(1, ":1|");
    assert_eq!((rig.proxy.core.execs.mixtures.len(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn with_parts_on_several_shards_all_are_asked_too() {
    let settings = Settings { transactions: Transactions::PerShard, ..Settings::default() };
    let mut rig = Rig::ready_as(2, Limits::default(), settings);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|set {a} 1|dbsize|set {b} 2|exec|"));
    for node in [0, 1] {
        rig.node_got(node);
        rig.node_sends(node, "+OK|+QUEUED|*1|+OK|");
    }
    for node in [0, 1] {
        assert_eq!(rig.node_got(node), DBSIZE);
        rig.node_sends(node, ":1|");
    }
    assert_eq!(rig.taken(client).replace("+QUEUED|", ""), "+OK|*3|+OK|:2|+OK|");
}
