//! Transcripts of a cluster whose slots move. `|` stands for CR LF.

use crate::cross_slot::remedy::Remedy;
use crate::testing::{Rig, crossed, even};
use crate::{ConnId, Event};
use std::ops::RangeInclusive;
use std::time::Duration;
use topology::discovery::Wish;
use topology::{Address, NodeSpec, ShardSpec, Topology};

pub(super) const ASKING: &str = "*1|$6|ASKING|";
pub(super) const MULTI: &str = "*1|$5|MULTI|";
pub(super) const EXEC: &str = "*1|$4|EXEC|";

/// A request as nodes get it.
pub(super) fn request(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let args: Vec<String> = words.iter().map(|word| format!("${}|{word}|", word.len())).collect();
    format!("*{}|{}", words.len(), args.concat())
}

/// The MOVED error for a slot of `node`.
pub(super) fn moved(slot: u32, node: u32) -> String {
    format!("-MOVED {slot} 127.0.0.1:{}|", 7000 + node)
}

pub(super) fn ask(slot: u32, node: u32) -> String {
    format!("-ASK {slot} 127.0.0.1:{}|", 7000 + node)
}

pub(super) fn slot_of(rig: &Rig, key: &str) -> u32 {
    rig.proxy.core.cx.engine.topology.division_of(key.as_bytes()).0
}

/// A client and a key on shard 0, with its slot.
pub(super) fn begin(rig: &mut Rig) -> (ConnId, String, u32) {
    let key = rig.key(0);
    let slot = slot_of(rig, &key);
    (rig.client(), key, slot)
}

pub(super) fn hint(port: u16) -> Option<Wish> {
    Some(Wish::Redirected(Address::Tcp { host: "127.0.0.1".to_owned(), port }))
}

/// A former primary's refusal of a write.
const READ_ONLY: &str = "-READONLY You can't write against a read only replica.|";

/// A worker whose only shard has just got the node 1 as its primary, and a client.
fn promoted() -> (Rig, ConnId) {
    let mut rig = Rig::ready(1);
    rig.promote(0, 1);
    rig.bring_up(1);
    let client = rig.client();
    (rig, client)
}

#[test]
fn a_moved_request_is_sent_on_and_wakes_discovery() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("set {key} 1|get {key}|"));
    let (set, get) = (request(&format!("set {key} 1")), request(&format!("get {key}")));
    assert_eq!(rig.node_got(0), format!("{set}{get}"));
    assert_eq!(rig.proxy.poll_wish(rig.now), None);
    rig.node_sends(0, &moved(slot, 1).repeat(2));
    rig.pass(Duration::from_nanos(1));
    assert_eq!((rig.node_got(1), rig.taken(client).as_str()), (format!("{set}{get}"), ""));
    assert_eq!(rig.proxy.poll_wish(rig.now), hint(7001));
    rig.node_sends(1, "+OK|$1|1|");
    assert_eq!(rig.taken(client), "+OK|$1|1|");
    assert_eq!((rig.proxy.counters().redirects_moved, rig.proxy.held_bytes()), (2, 0));
    // One wish is enough for a while.
    rig.client_sends(client, &format!("get {key}|"));
    rig.node_sends(0, &moved(slot, 1));
    assert_eq!(rig.proxy.poll_wish(rig.now), None);
    rig.pass(Duration::from_millis(20));
    assert_eq!(rig.proxy.poll_wish(rig.now), hint(7001));
}

#[test]
fn a_key_on_its_way_is_asked_for_in_one_piece() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("incr {key}|"));
    rig.node_sends(0, &ask(slot, 1));
    assert_eq!(rig.node_got(1), format!("{ASKING}{}", request(&format!("incr {key}"))));
    rig.node_sends(1, "+OK|:1|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.poll_wish(rig.now)), (":1|", None));
}

#[test]
fn a_key_on_its_way_to_a_node_without_slots_is_asked_for_there() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.remap(&[&even(2)[..], &[(2, Vec::new())]].concat());
    rig.bring_up(2);
    rig.client_sends(client, &format!("incr {key}|dbsize|wait 0 0|"));
    assert_eq!(rig.node_got(2), "*1|$6|dbsize|", "it has keys, though no slot");
    rig.node_sends(0, &ask(slot, 2));
    assert_eq!(rig.node_got(2), format!("{ASKING}{}", request(&format!("incr {key}"))));
}

#[test]
fn a_slot_without_an_owner_is_redirected_five_times() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("get {key}|"));
    for redirect in 0..5 {
        rig.node_sends(redirect % 2, &moved(slot, 1 - redirect % 2));
        assert_eq!(rig.taken(client), "");
    }
    rig.node_sends(1, &moved(slot, 0));
    let expected = "-TRYAGAIN shard s0 unavailable: its slot is migrating, and the request was still redirected at its timeout|";
    assert_eq!(rig.taken(client), expected);
    assert_eq!(rig.proxy.in_flight(), 0);
}

#[test]
fn moved_to_an_unknown_node_waits_for_the_map_in_order() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let other = rig.key(1);
    rig.client_sends(client, &format!("set {key} 1|set {key} 2|"));
    rig.node_got(0);
    rig.node_sends(0, &moved(slot, 5).repeat(2));
    rig.client_sends(client, &format!("get {key}|get {other}|"));
    assert_eq!(
        (rig.node_got(0), rig.node_got(1), rig.proxy.pending().requests_parked),
        (String::new(), String::new(), 2)
    );
    assert_eq!(rig.proxy.poll_wish(rig.now), hint(7005));
    let mut map = even(2);
    map[0].1 = vec![0..=slot as u16 - 1, slot as u16 + 1..=8191];
    map.push((5, vec![slot as u16..=slot as u16]));
    rig.remap(&map);
    rig.bring_up(2);
    let sent = ["set {} 1", "set {} 2", "get {}"].map(|words| request(&words.replace("{}", &key)));
    assert_eq!((rig.node_got(2), rig.node_got(1)), (sent.concat(), request(&format!("get {other}"))));
    rig.node_sends(2, "+OK|+OK|$1|2|");
    rig.node_sends(1, "$-1|");
    assert_eq!(rig.taken(client), "+OK|+OK|$1|2|$-1|");
    assert_eq!((rig.proxy.pending().requests_parked, rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn moved_after_a_whole_timeout_still_waits_for_the_map() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let other = rig.client();
    rig.client_sends(other, &format!("get {key}|"));
    rig.client_sends(client, &format!("set {key} 1|"));
    rig.node_got(0);
    // The node is slow but not silent: an earlier reply comes in pieces.
    rig.node_sends(0, "$3000|");
    for _ in 0..3 {
        rig.pass(rig.proxy.core.cx.engine.limits.request_timeout / 2);
        rig.node_sends(0, &"x".repeat(1000));
    }
    rig.node_sends(0, &format!("|{}", moved(slot, 5)));
    rig.pass(Duration::from_millis(1));
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().requests_parked), ("", 1));
    let mut map = even(2);
    map[0].1 = vec![0..=slot as u16 - 1, slot as u16 + 1..=8191];
    map.push((5, vec![slot as u16..=slot as u16]));
    rig.remap(&map);
    rig.bring_up(2);
    assert_eq!(rig.node_got(2), request(&format!("set {key} 1")));
    rig.node_sends(2, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn requests_without_a_new_map_are_refused_in_time() {
    let mut rig = Rig::cluster(1);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("set {key} 1|"));
    rig.node_sends(0, &moved(slot, 5));
    let timeout = rig.proxy.core.cx.engine.limits.request_timeout;
    rig.pass(timeout - Duration::from_millis(1));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_millis(2));
    let expected = "-TRYAGAIN shard s0 unavailable: its slot is migrating, and the request was still redirected at its timeout|";
    assert_eq!(rig.taken(client), expected);
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn keys_that_are_down_for_a_moment_are_tried_again() {
    let loading = "-LOADING Redis is loading the dataset in memory|";
    for declined in [
        "-CLUSTERDOWN The cluster is down|",
        "-TRYAGAIN Multiple keys request during rehashing of slot|",
        loading,
    ] {
        let mut rig = Rig::cluster(1);
        let (client, key, _) = begin(&mut rig);
        rig.client_sends(client, &format!("incr {key}|"));
        let sent = rig.node_got(0);
        for _ in 0..10 {
            rig.node_sends(0, declined);
            assert_eq!(rig.node_got(0), "");
            rig.pass(Duration::from_millis(15));
            assert_eq!(rig.node_got(0), sent, "{declined}");
        }
        rig.node_sends(0, ":1|");
        assert_eq!(rig.taken(client), ":1|");
    }
}

#[test]
fn keys_that_are_down_for_long_are_refused_in_time() {
    let mut rig = Rig::cluster(1);
    let (client, key, _) = begin(&mut rig);
    let timeout = rig.proxy.core.cx.engine.limits.request_timeout;
    rig.client_sends(client, &format!("incr {key}|"));
    let asked_at = rig.now;
    while rig.taken(client).is_empty() {
        if !rig.node_got(0).is_empty() {
            rig.node_sends(0, "-CLUSTERDOWN The cluster is down|");
        }
        rig.pass(Duration::from_millis(1));
        assert!(rig.now.since(asked_at) <= timeout + Duration::from_millis(1));
    }
    assert!(rig.now.since(asked_at) >= timeout);
    assert_eq!((rig.proxy.pending().requests_parked, rig.proxy.in_flight()), (0, 0));
}

#[test]
fn a_request_is_not_tried_again_behind_a_later_one_for_its_slot() {
    let mut rig = Rig::cluster(1);
    let (client, key, _) = begin(&mut rig);
    let other = rig.key(0);
    assert_eq!(key, other);
    rig.client_sends(client, &format!("set {key} 1|set {key} 2|set elsewhere 3|"));
    rig.node_sends(0, "-CLUSTERDOWN The cluster is down|+OK|+OK|");
    let refusal = "-TRYAGAIN shard s0 unavailable: CLUSTERDOWN The cluster is down|";
    assert_eq!(rig.taken(client), format!("{refusal}+OK|+OK|"));
    rig.client_sends(client, &format!("set {key} 1|set elsewhere 3|"));
    rig.node_got(0);
    rig.node_sends(0, "-CLUSTERDOWN The cluster is down|+OK|");
    rig.pass(Duration::from_millis(15));
    assert_eq!(rig.node_got(0), request(&format!("set {key} 1")));
    rig.node_sends(0, "+OK|");
    assert_eq!(rig.taken(client), "+OK|+OK|");
}

#[test]
fn learnt_command_bars_retry_of_earlier_request() {
    let mut rig = Rig::cluster(1);
    let (client, key, _) = begin(&mut rig);
    rig.client_sends(client, &format!("foo.set {key} 1|"));
    rig.node_sends(0, "*1|*6|$7|foo.set|:3|*1|+write|:1|:1|:1|");
    rig.node_sends(0, "+OK|");
    rig.client_sends(client, &format!("get {key}|foo.set {key} 2|"));
    rig.node_got(0);
    rig.node_sends(0, &"-CLUSTERDOWN The cluster is down|".repeat(2));
    rig.pass(Duration::from_millis(15));
    assert_eq!(rig.node_got(0), request(&format!("foo.set {key} 2")));
    rig.node_sends(0, "+OK|");
    let refusal = "-TRYAGAIN shard s0 unavailable: CLUSTERDOWN The cluster is down|";
    assert_eq!(rig.taken(client), format!("+OK|{refusal}+OK|"));
}

#[test]
fn request_for_all_keys_is_not_retried_behind_a_later_one() {
    let mut rig = Rig::cluster(1);
    let (client, key, _) = begin(&mut rig);
    rig.client_sends(client, &format!("flushall|set {key} 1|"));
    rig.node_got(0);
    rig.node_sends(0, "-LOADING Redis is loading the dataset in memory|+OK|");
    rig.pass(Duration::from_millis(15));
    assert_eq!(rig.node_got(0), "");
    let refusal = "-TRYAGAIN shard s0 unavailable: LOADING Redis is loading the dataset in memory|";
    assert_eq!(rig.taken(client), format!("{refusal}+OK|"));
}

#[test]
fn demoted_sentinel_primary_is_left_with_the_next_topology() {
    let (mut rig, client) = promoted();
    rig.client_sends(client, "set x 1|");
    let sent = rig.node_got(1);
    rig.node_sends(1, READ_ONLY);
    assert_eq!(rig.proxy.poll_wish(rig.now), Some(Wish::Look));
    rig.promote(0, 2);
    rig.bring_up(2);
    assert_eq!((rig.node_got(2), rig.taken(client)), (sent, String::new()));
    rig.node_sends(2, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn declined_write_is_not_retried_behind_an_answered_read() {
    let (mut rig, client) = promoted();
    rig.client_sends(client, "set x 1|get x|set x 2|del x|");
    rig.node_got(1);
    rig.node_sends(1, &format!("{READ_ONLY}$1|0|{READ_ONLY}{READ_ONLY}"));
    let refusal = format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: {}", &READ_ONLY[1..]);
    assert_eq!(rig.taken(client), format!("{refusal}$1|0|"));
    rig.promote(0, 2);
    rig.bring_up(2);
    assert_eq!(rig.node_got(2), request("set x 2") + &request("del x"));
    rig.node_sends(2, "+OK|:1|");
    assert_eq!(rig.taken(client), "+OK|:1|");
    // A transaction is not repeated either: the read behind it did not see its effect.
    rig.client_sends(client, "multi|set x 1|exec|get x|");
    rig.node_got(2);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.|";
    rig.node_sends(2, &format!("+OK|{READ_ONLY}{aborted}$-1|"));
    let told = rig.taken(client);
    assert!(told.starts_with("+OK|+QUEUED|-EXECABORT ") && told.ends_with("|$-1|"), "{told}");
}

#[test]
fn declined_write_does_not_overtake_a_later_one_that_ran() {
    for (later, again) in [("+OK|", false), (READ_ONLY, true)] {
        let (mut rig, client) = promoted();
        rig.client_sends(client, "set x 1|set x 2|");
        let sent = rig.node_got(1);
        rig.node_sends(1, READ_ONLY);
        rig.pass(Duration::from_millis(40));
        assert_eq!(
            (rig.node_got(1), rig.taken(client)),
            (String::new(), String::new()),
            "the second decides"
        );
        rig.node_sends(1, later);
        rig.pass(Duration::from_millis(40));
        assert_eq!(rig.node_got(1), if again { sent } else { String::new() });
        let refused = "it was declined, and a later request of this client has run|+OK|";
        let refused = format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: {refused}");
        let told = if again { String::new() } else { refused };
        assert_eq!(rig.taken(client), told);
    }
}

#[test]
fn errors_of_plain_nodes_are_not_redirects() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get x|");
    rig.node_sends(0, READ_ONLY);
    assert_eq!(rig.taken(client), READ_ONLY);
    assert_eq!(rig.proxy.poll_wish(rig.now), None);
}

#[test]
fn a_split_request_has_a_part_for_each_slot() {
    let mut rig = Rig::cluster(2);
    let client = rig.client();
    // Slots 15495, 3300 and 15495.
    rig.client_sends(client, "mset {a}1 x b y {a}2 z|");
    assert_eq!((rig.node_got(0), rig.node_got(1)), (request("mset b y"), request("mset {a}1 x {a}2 z")));
    rig.node_sends(0, "+OK|");
    rig.node_sends(1, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    let mut rig = Rig::cluster(1);
    let client = rig.client();
    rig.client_sends(client, "mget {a}1 b {a}2 c|");
    assert_eq!(rig.node_got(0), [request("mget {a}1 {a}2"), request("mget b"), request("mget c")].concat());
    rig.node_sends(0, "*2|$1|x|$1|z|*1|$1|y|*1|$-1|");
    assert_eq!(rig.taken(client), "*4|$1|x|$1|y|$1|z|$-1|");
    assert_eq!(rig.proxy.pending().merges, 0);
}

#[test]
fn a_part_is_redirected_by_itself() {
    let mut rig = Rig::cluster(2);
    let client = rig.client();
    rig.client_sends(client, "del {a}1 b|");
    rig.node_got(0);
    rig.node_got(1);
    rig.node_sends(0, ":1|");
    rig.node_sends(1, &moved(15495, 0));
    assert_eq!(rig.node_got(0), request("del {a}1"));
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(client), ":2|");
}

#[test]
fn keys_of_two_slots_are_of_two_worlds_also_on_one_node() {
    let mut rig = Rig::cluster(1);
    let client = rig.client();
    rig.client_sends(client, "sunion {a}1 b|watch {a}1 b|eval x 2 {a}1 b|blpop {a}1 b 0|");
    let remedies = [Remedy::Emulation, Remedy::PerShard, Remedy::HashTag, Remedy::Emulation];
    assert_eq!(rig.taken(client), remedies.map(crossed).concat());
    rig.client_sends(client, "multi|set {a}1 x|set b y|exec|");
    let abort = "-EXECABORT Transaction discarded because of previous errors.|";
    assert_eq!(rig.taken(client), format!("+OK|+QUEUED|{}{abort}", crossed(Remedy::PerShard)));
    rig.client_sends(client, "sunion {a}1 {a}2|");
    assert_eq!(rig.node_got(0), request("sunion {a}1 {a}2"));
}

#[test]
fn a_transaction_is_sent_whole_where_its_slot_is() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let whole = format!("{MULTI}{}{EXEC}", request(&format!("incr {key}")));
    rig.client_sends(client, &format!("multi|incr {key}|exec|get {key}|"));
    let get = request(&format!("get {key}"));
    assert_eq!(rig.node_got(0), format!("{whole}{get}"));
    let abort = "-EXECABORT Transaction discarded because of previous errors.|";
    rig.node_sends(0, &format!("+OK|{}{abort}{}", ask(slot, 1), moved(slot, 1)));
    assert_eq!(rig.node_got(1), format!("{ASKING}{whole}{get}"));
    // The transaction is declined there too, by EXEC itself.
    rig.node_sends(1, &format!("+OK|+OK|+QUEUED|{}", moved(slot, 0).repeat(2)));
    rig.pass(Duration::from_nanos(1));
    assert_eq!(rig.node_got(0), format!("{whole}{get}"));
    rig.node_sends(0, "+OK|+QUEUED|*1|:1|$1|1|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|*1|:1|$1|1|");
    assert_eq!((rig.proxy.core.execs.replays.len(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn a_transaction_that_fails_by_itself_is_not_sent_again() {
    let mut rig = Rig::cluster(1);
    let (client, key, _) = begin(&mut rig);
    rig.client_sends(client, &format!("multi|incr {key}|exec|"));
    rig.node_got(0);
    let abort = "-EXECABORT Transaction discarded because of previous errors.|";
    rig.node_sends(0, &format!("+OK|-OOM command not allowed|{abort}"));
    assert_eq!((rig.taken(client), rig.node_got(0)), (format!("+OK|+QUEUED|{abort}"), String::new()));
    assert_eq!(rig.proxy.core.execs.replays.len(), 0);
}

#[test]
fn watched_keys_follow_their_slot_for_a_silent_client() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("watch {key}|multi|incr {key}|exec|"));
    let held = rig.bring_up_pinned(0);
    rig.event(crate::Event::Ended { conn: client });
    rig.sends(held, &moved(slot, 1));
    assert_eq!(rig.taken(client), "");
    let held = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(held), request(&format!("watch {key}")));
    rig.sends(held, "+OK|");
    assert_eq!(rig.taken(held), format!("{MULTI}{}{EXEC}", request(&format!("incr {key}"))));
    rig.sends(held, "+OK|+QUEUED|*1|:1|");
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*1|:1|");
    assert!(rig.is_closed(client));
}

#[test]
fn watched_keys_follow_their_slot_and_change_if_it_moves() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("watch {key}|"));
    let held = rig.pinned_now();
    rig.taken(held);
    rig.sends(held, &moved(slot, 1));
    assert_eq!(rig.taken(client), "");
    let held = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(held), request(&format!("watch {key}")));
    rig.sends(held, "+OK|");
    rig.client_sends(client, &format!("multi|incr {key}|exec|"));
    let abort = "-EXECABORT Transaction discarded because of previous errors.|";
    rig.sends(held, &format!("+OK|{}{abort}", moved(slot, 0)));
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*-1|");
    assert_eq!((rig.proxy.core.execs.replays.len(), rig.proxy.pending().conns_held), (0, 0));
}

#[test]
fn a_blocked_client_waits_where_the_slot_goes() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let wait = format!("{}{}", request("CLIENT ID"), request(&format!("blpop {key} 0")));
    rig.client_sends(client, &format!("blpop {key} 0|"));
    let held = rig.pinned_now();
    assert_eq!(rig.taken(held), wait);
    rig.sends(held, ":7|");
    assert_eq!(rig.proxy.counters().clients_blocked, 1);
    rig.sends(held, &moved(slot, 1));
    assert_eq!((rig.taken(client).as_str(), rig.proxy.counters().clients_blocked), ("", 0));
    let held = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(held), wait);
    rig.sends(held, ":8|*2|$1|k|$1|v|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().conns_held), ("*2|$1|k|$1|v|", 0));
}

#[test]
fn a_redirected_wait_has_the_rest_of_its_time() {
    for (line, left) in [
        ("blpop {key} 10", "blpop {key} 5.500"),
        ("blmpop 10 1 {key} left", "blmpop 5.500 1 {key} left"),
        ("xread block 10000 streams {key} $", "xread block 5500 streams {key} $"),
        ("blpop {key} 0", "blpop {key} 0"),
        ("blpop {key} 4.5", "blpop {key} 0.001"),
    ] {
        let mut rig = Rig::cluster(2);
        let (client, key, slot) = begin(&mut rig);
        let of_key = |line: &str| line.replace("{key}", &key);
        rig.client_sends(client, &format!("{}|", of_key(line)));
        let held = rig.pinned_now();
        rig.sends(held, ":7|");
        rig.pass(Duration::from_millis(4_500));
        rig.sends(held, &moved(slot, 1));
        let held = rig.bring_up_pinned(1);
        let expected = format!("{}{}", request("CLIENT ID"), request(&of_key(left)));
        assert_eq!(rig.taken(held), expected, "{line}");
    }
}

#[test]
fn client_unblock_is_no_reason_to_wait_elsewhere() {
    let mut rig = Rig::cluster(2);
    let (client, key, _) = begin(&mut rig);
    rig.client_sends(client, &format!("blpop {key} 0|"));
    let held = rig.pinned_now();
    let error = "-UNBLOCKED client unblocked via CLIENT UNBLOCK|";
    rig.sends(held, &format!(":7|{error}"));
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().requests_parked), (error, 0));
}

#[test]
fn a_script_goes_along_with_the_request_that_names_it() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, "script load hi|");
    let sha = "c22b5f9178342609428d6f51b2c5af4c0bde6a42";
    let loads = request("SCRIPT LOAD hi");
    rig.node_got(0);
    rig.node_got(1);
    rig.node_sends(0, &format!("$40|{sha}|"));
    rig.node_sends(1, &format!("$40|{sha}|"));
    rig.taken(client);
    // A link that has not loaded the script.
    let node = rig.node(1);
    rig.event(crate::Event::Closed { conn: node, reason: "gone" });
    rig.pass(Duration::from_secs(1));
    rig.bring_up(1);
    rig.client_sends(client, &format!("evalsha {sha} 1 {key}|"));
    rig.node_got(0);
    rig.node_sends(0, &ask(slot, 1));
    let runs = request(&format!("evalsha {sha} 1 {key}"));
    assert_eq!(rig.node_got(1), format!("{loads}{ASKING}{runs}"));
    rig.node_sends(1, &format!("$40|{sha}|+OK|$2|hi|"));
    assert_eq!(rig.taken(client), "$2|hi|");
}

#[test]
fn a_script_is_loaded_where_it_was_missed_behind_a_redirect() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, "script load hi|");
    let sha = "c22b5f9178342609428d6f51b2c5af4c0bde6a42";
    for shard in [0, 1] {
        rig.node_got(shard);
        rig.node_sends(shard, &format!("$40|{sha}|"));
    }
    rig.taken(client);
    let (loads, runs) = (request("SCRIPT LOAD hi"), request(&format!("evalsha {sha} 1 {key}")));
    rig.client_sends(client, &runs);
    assert_eq!(rig.node_got(0), runs);
    rig.node_sends(0, &ask(slot, 1));
    assert_eq!(rig.node_got(1), format!("{ASKING}{runs}"), "it has loaded it");
    // The node has lost the script: another client has flushed its scripts.
    rig.node_sends(1, "+OK|-NOSCRIPT No matching script. Please use EVAL.|");
    assert_eq!(rig.node_got(0), format!("{loads}{runs}"), "the slot may be back");
    rig.node_sends(0, &format!("$40|{sha}|{}", ask(slot, 1)));
    assert_eq!(rig.node_got(1), format!("{loads}{ASKING}{runs}"));
    rig.node_sends(1, &format!("$40|{sha}|+OK|$2|hi|"));
    assert_eq!(rig.taken(client), "$2|hi|");
}

#[test]
fn an_error_on_a_connection_for_large_replies_is_read_whole() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let large = "x".repeat(70_000);
    rig.client_sends(client, &request(&format!("set {key} {large}")));
    let pinned = rig.pinned_now();
    let sent = rig.taken(pinned);
    assert_eq!(sent, request(&format!("set {key} {large}")));
    let declined = moved(slot, 1);
    let (first, rest) = declined.split_at(5);
    rig.sends(pinned, first);
    rig.sends(pinned, rest);
    assert_eq!(rig.taken(client), "");
    let pinned = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(pinned), sent);
    rig.sends(pinned, "-ERR no|");
    assert_eq!(rig.taken(client), "-ERR no|");
    assert_eq!((rig.proxy.pending().pins, rig.proxy.held_bytes()), (0, 0));
}

/// Both parts of a client's MGET are at node 0, since node 1 has redirected its own part. Returns the bytes that node
/// 0 got.
fn brought_together() -> (Rig, ConnId, String) {
    let mut rig = Rig::cluster(2);
    let (client, key, _) = begin(&mut rig);
    let other = rig.key(1);
    rig.client_sends(client, &format!("mget {key} {other}|"));
    let parts = [rig.node_got(0), rig.node_got(1)];
    rig.node_sends(1, &moved(slot_of(&rig, &other), 0));
    assert_eq!(rig.node_got(0), parts[1]);
    (rig, client, parts.concat())
}

#[test]
fn redirected_parts_of_one_node_are_retried_together() {
    let (mut rig, client, parts) = brought_together();
    // The first reply turns out to be large.
    let large = "x".repeat(70_000);
    rig.node_sends(0, "*1|$70000|xxx");
    let pinned = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(pinned), parts);
    rig.sends(pinned, &format!("*1|$70000|{large}|"));
    rig.sends(pinned, "*1|$1|y|");
    assert_eq!(rig.taken(client), format!("*2|$70000|{large}|$1|y|"));
    rig.node_sends(0, &format!("{}|*1|$1|y|", &large[3..]));
    assert_eq!((rig.proxy.pending().pins, rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0, 0));
}

#[test]
fn redirected_parts_of_one_node_are_not_relayed_in_turn() {
    let (mut rig, client, parts) = brought_together();
    let old = rig.node(0);
    // The reply is so large that another link takes the place of this one.
    rig.node_sends(0, "*1|$2000000|xxx");
    assert!(
        rig.is_closed(old),
        "the client does not get it: it would wait for the second part, which is behind"
    );
    rig.pass(Duration::from_millis(1));
    let conns: Vec<_> = rig.conns().into_iter().filter(|(shard, _)| *shard == 0).collect();
    for &(_, conn) in &conns {
        rig.event(Event::Connected { conn });
        rig.sends(conn, "+PONG|");
    }
    let pinned = conns.into_iter().map(|(_, conn)| conn).find(|conn| rig.taken(*conn).ends_with(&parts));
    let pinned = pinned.expect("both are asked for again");
    rig.sends(pinned, "*1|$1|x|*1|$1|y|");
    assert_eq!(rig.taken(client), "*2|$1|x|$1|y|");
    assert_eq!((rig.proxy.pending().pins, rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0, 0));
}

#[test]
fn a_large_request_follows_its_key_on_its_way() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let large = "x".repeat(70_000);
    rig.client_sends(client, &request(&format!("set {key} {large}")));
    let pinned = rig.pinned_now();
    let sent = rig.taken(pinned);
    rig.sends(pinned, &ask(slot, 1));
    let pinned = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(pinned), format!("{ASKING}{sent}"));
    // The reply to ASKING does not belong to the client.
    rig.sends(pinned, "+O");
    rig.sends(pinned, "K|+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    assert_eq!((rig.proxy.pending().pins, rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn asking_replies_among_buffered_replies_are_skipped() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("get {key}|get {key}|"));
    let sent = rig.node_got(0);
    // The first reply is large, so that both reads are sent again on a link of their client.
    rig.node_sends(0, "$70000|xxx");
    let pinned = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(pinned), sent);
    rig.sends(pinned, &ask(slot, 1).repeat(2));
    let pinned = rig.bring_up_pinned(1);
    let get = &sent[..sent.len() / 2];
    assert_eq!(rig.taken(pinned), format!("{ASKING}{get}").repeat(2));
    rig.sends(pinned, "+OK|$1|v|+OK|$1|w|");
    assert_eq!(rig.taken(client), "$1|v|$1|w|");
}

/// World 210007684.
#[test]
fn rest_of_an_asking_reply_is_read_though_the_client_is_slow() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    // The client does not even take its PONG.
    rig.stick(client);
    rig.client_sends(client, &format!("ping|get {key}|get {key}|"));
    rig.node_got(0);
    rig.node_sends(0, "$70000|xxx");
    let pinned = rig.bring_up_pinned(0);
    rig.sends(pinned, &ask(slot, 1).repeat(2));
    let pinned = rig.bring_up_pinned(1);
    rig.sends(pinned, "+OK|$1|v|+O");
    assert!(
        !rig.is_paused(pinned),
        "the client takes no part of the answer, so nothing else lets the rest in"
    );
    rig.sends(pinned, "K|$1|w|");
    assert_eq!(rig.proxy.pending().pins, 0, "all is answered");
}

#[test]
fn queued_requests_go_with_their_client() {
    let mut rig = Rig::cluster(1);
    let (client, key, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("multi|incr {key}|exec|"));
    rig.node_got(0);
    rig.node_sends(0, &format!("+OK|+QUEUED|{}", moved(slot, 5)));
    rig.event(crate::Event::Closed { conn: client, reason: "gone" });
    rig.pass(Duration::from_secs(60));
    assert_eq!((rig.proxy.pending().requests_parked, rig.proxy.core.execs.replays.len()), (0, 0));
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.held_bytes()), ("", 0));
}

/// A client that is subscribed to a shard channel of shard 0, the channel and its slot, and the link of its messages.
pub(super) fn listener(rig: &mut Rig) -> (ConnId, String, u32, ConnId) {
    let (client, channel, slot) = begin(rig);
    rig.client_sends(client, &format!("ssubscribe {channel}|"));
    let source = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(source), request(&format!("ssubscribe {channel}")));
    rig.sends(source, &changed("ssubscribe", &channel));
    assert_eq!(rig.taken(client), changed("ssubscribe", &channel));
    let counted = rig.proxy.core.subscriptions.topics.held_bytes();
    assert_eq!(rig.proxy.held_bytes(), counted, "what was asked for is kept as a topic alone");
    (client, channel, slot, source)
}

/// The slots of two nodes: both have the same number, but `slot` of the first belongs to the second.
pub(super) fn even_but(slot: u32) -> Vec<(u32, Vec<RangeInclusive<u16>>)> {
    let slot = slot as u16;
    let mut map = even(2);
    map[0].1 = vec![0..=slot - 1, slot + 1..=8191];
    map[1].1.push(slot..=slot);
    map
}

pub(super) fn changed(word: &str, channel: &str) -> String {
    let count = u8::from(word == "ssubscribe");
    format!("*3|${}|{word}|${}|{channel}|:{count}|", word.len(), channel.len())
}

pub(super) fn message(word: &str, channel: &str) -> String {
    format!("*3|${}|{word}|${}|{channel}|$2|hi|", word.len(), channel.len())
}

#[test]
fn a_shard_channel_follows_its_slot_when_its_node_drops_it() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot, old) = listener(&mut rig);
    rig.sends(old, &changed("sunsubscribe", &channel));
    assert_eq!(rig.taken(old), request(&format!("ssubscribe {channel}")), "it will say where the slot is");
    rig.sends(old, &moved(slot, 1));
    let new = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(new), request(&format!("ssubscribe {channel}")));
    rig.sends(new, &changed("ssubscribe", &channel));
    rig.sends(new, &message("smessage", &channel));
    assert_eq!(rig.taken(client), message("smessage", &channel), "the client need not know");
    // The map agrees, so nothing is left to do.
    rig.remap(&even_but(slot));
    assert_eq!((rig.taken(old), rig.taken(new)), (String::new(), String::new()));
    rig.client_sends(client, "sunsubscribe|");
    rig.sends(new, &changed("sunsubscribe", &channel));
    assert_eq!((rig.taken(client), rig.proxy.pending().topics), (changed("sunsubscribe", &channel), 0));
}

#[test]
fn a_shard_channel_goes_where_the_map_says() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot, old) = listener(&mut rig);
    rig.remap(&even_but(slot));
    assert_eq!(rig.taken(old), request(&format!("sunsubscribe {channel}")));
    let new = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(new), request(&format!("ssubscribe {channel}")));
    rig.sends(new, &changed("ssubscribe", &channel));
    // The message may come behind the replies from the old node.
    rig.sends(old, &message("smessage", &channel));
    assert_eq!(rig.taken(client), "", "what comes from where it was is late");
    rig.sends(old, &changed("sunsubscribe", &channel));
    rig.sends(new, &message("smessage", &channel));
    assert_eq!(rig.taken(client), message("smessage", &channel));
}

#[test]
fn a_confirmation_belongs_to_the_last_request() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("ssubscribe {channel}|"));
    let source = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(source), request(&format!("ssubscribe {channel}")));
    // The slot moves away, and back before any node has answered.
    rig.remap(&even_but(slot));
    rig.remap(&even(2));
    let asked = ["sunsubscribe", "ssubscribe"].map(|word| request(&format!("{word} {channel}")));
    assert_eq!(rig.taken(source), asked.concat());
    for word in ["ssubscribe", "sunsubscribe"] {
        rig.sends(source, &changed(word, &channel));
        assert_eq!(rig.taken(client), "", "it does not hear yet what is said there");
    }
    rig.sends(source, &changed("ssubscribe", &channel));
    rig.sends(source, &message("smessage", &channel));
    let heard = [changed("ssubscribe", &channel), message("smessage", &channel)];
    assert_eq!(rig.taken(client), heard.concat());
}

#[test]
fn subscriber_stays_when_its_primary_becomes_a_replica() {
    let mut rig = Rig::cluster(2);
    let (client, channel, _, old) = listener(&mut rig);
    let (other, elsewhere) = (rig.client(), rig.key(1));
    rig.client_sends(other, &format!("ssubscribe {elsewhere}|"));
    let source = rig.bring_up_pinned(1);
    rig.taken(source);
    rig.sends(source, &changed("ssubscribe", &elsewhere));
    rig.taken(other);
    // A node that has lost its last slot becomes, by itself, a replica of the node that has got the slot.
    let present = rig.proxy.core.cx.engine.topology.clone();
    let node = |port| NodeSpec::tcp("127.0.0.1", port);
    let (primary, replicas, slots) = (Some(node(7001)), vec![node(7000)], vec![0..=16383]);
    let map = ShardSpec { name: "s1".to_owned(), primary, replicas, slots };
    rig.adopt(Topology::of_cluster(Some(&present), present.epoch() + 1, &[map]).expect("valid"));
    assert_eq!((rig.is_closed(old), rig.is_closed(source)), (true, false));
    assert_eq!(rig.taken(source), request(&format!("ssubscribe {channel}")));
    rig.sends(source, &changed("ssubscribe", &channel));
    rig.sends(source, &message("smessage", &channel));
    rig.sends(source, &message("smessage", &elsewhere));
    let heard = [client, other].map(|client| rig.taken(client));
    assert_eq!(heard, [message("smessage", &channel), message("smessage", &elsewhere)]);
    rig.client_sends(client, &format!("ssubscribe {elsewhere}|"));
    assert_eq!(rig.taken(client), changed("ssubscribe", &elsewhere).replace(":1|", ":2|"), "it is there");
    rig.pass(Duration::from_secs(2));
    assert_eq!(
        rig.conns().iter().filter(|(shard, _)| *shard == 0).count(),
        0,
        "nobody connects there any more"
    );
}

#[test]
fn a_subscription_by_an_old_map_reaches_its_node() {
    let mut rig = Rig::cluster(2);
    let (client, channel, slot) = begin(&mut rig);
    rig.client_sends(client, &format!("ssubscribe {channel}|"));
    let first = rig.bring_up_pinned(0);
    rig.taken(first);
    rig.sends(first, &moved(slot, 1));
    let second = rig.bring_up_pinned(1);
    rig.taken(second);
    rig.sends(second, &changed("ssubscribe", &channel));
    assert_eq!(rig.taken(client), changed("ssubscribe", &channel));
}

#[test]
fn a_pattern_hears_each_message_of_a_cluster_once() {
    let mut rig = Rig::cluster(2);
    let client = rig.client();
    rig.client_sends(client, "psubscribe *|");
    let sources = [0, 1].map(|shard| rig.bring_up_pinned(shard));
    for source in sources {
        rig.sends(source, "*3|$10|psubscribe|$1|*|:1|");
    }
    assert_eq!(rig.taken(client), "*3|$10|psubscribe|$1|*|:1|");
    let message = |channel: &str| format!("*4|$8|pmessage|$1|*|${}|{channel}|$2|hi|", channel.len());
    // A message that is published to any node comes from all.
    sources.iter().for_each(|source| rig.sends(*source, &message("news")));
    assert_eq!(rig.taken(client), message("news"));
    // Only the key's own node reports a keyspace event.
    let event = "__keyevent@0__:del";
    sources.iter().for_each(|source| rig.sends(*source, &message(event)));
    assert_eq!(rig.taken(client), message(event).repeat(2));
}

#[test]
fn a_pattern_hears_each_message_once_while_slots_move() {
    let mut rig = Rig::cluster(2);
    let client = rig.client();
    rig.client_sends(client, "psubscribe *|");
    let sources = [0, 1].map(|shard| rig.bring_up_pinned(shard));
    for source in sources {
        rig.sends(source, "*3|$10|psubscribe|$1|*|:1|");
    }
    rig.taken(client);
    let message = "*4|$8|pmessage|$1|*|$4|news|$2|hi|";
    let [speaker, echo] = match slot_of(&rig, "*") < 8192 {
        true => sources,
        false => [sources[1], sources[0]],
    };
    rig.sends(speaker, message);
    // Now the slot that the pattern would have as a key belongs to the other node, which has sent the same message
    // later.
    rig.remap(&[(0, vec![8192..=16383]), (1, vec![0..=8191])]);
    rig.sends(echo, message);
    assert_eq!(rig.taken(client), message);
}

#[test]
fn a_write_behind_a_large_reply_is_not_sent_again() {
    let mut rig = Rig::cluster(1);
    let (client, key, _) = begin(&mut rig);
    rig.client_sends(client, &format!("get {key}|incr {key}|"));
    rig.node_got(0);
    let large = "x".repeat(100_000);
    rig.node_sends(0, &format!("${}|{}", large.len(), &large[..70_000]));
    rig.pass(Duration::ZERO);
    assert_eq!((rig.last_pinned(), rig.node_got(0)), (None, String::new()));
    rig.node_sends(0, &format!("{}|:1|", &large[70_000..]));
    assert_eq!(rig.taken(client), format!("$100000|{large}|:1|"));
}

#[test]
fn retry_that_may_be_declined_is_not_behind_later_requests() {
    let mut rig = Rig::cluster(2);
    let (client, key, slot) = begin(&mut rig);
    let (first, second) = (format!("{{{key}}}1"), format!("{{{key}}}2"));
    rig.client_sends(client, &format!("sdiff {first} {second}|sadd {first} x|"));
    rig.node_got(0);
    rig.node_sends(0, &ask(slot, 1));
    assert_eq!(rig.node_got(1), format!("{ASKING}{}", request(&format!("sdiff {first} {second}"))));
    // SADD is still on its way to the old node, and would be at the new one before SDIFF could be sent again.
    rig.node_sends(1, "+OK|-TRYAGAIN Multiple keys request during rehashing of slot|");
    assert!(rig.taken(client).starts_with("-TRYAGAIN "), "it is not asked again");
    rig.node_sends(0, &ask(slot, 1));
    assert_eq!(rig.node_got(1), format!("{ASKING}{}", request(&format!("sadd {first} x"))));
    rig.node_sends(1, "+OK|:1|");
    assert_eq!(rig.taken(client), ":1|");
}

#[test]
fn large_reply_does_not_block_an_earlier_reply() {
    let mut rig = Rig::cluster(2);
    let (client, moving, slot) = begin(&mut rig);
    let there = rig.key(1);
    rig.client_sends(client, &format!("get {moving}|get {there}|"));
    rig.node_sends(0, &moved(slot, 1));
    let (first, second) = (request(&format!("get {moving}")), request(&format!("get {there}")));
    assert_eq!(
        rig.node_got(1),
        format!("{second}{first}"),
        "what has moved comes behind what was sent later"
    );
    let large = "x".repeat(200_000);
    rig.node_sends(1, &format!("$200000|{}", &large[..70_000]));
    // Both reads are sent again, each on a link of its own. On one link, the large reply would wait for the reply
    // ahead of it.
    let conns = rig.bring_up_all_pinned();
    let sent: Vec<String> = conns.iter().map(|&conn| rig.taken(conn)).collect();
    assert_eq!(sent, [second, first]);
    rig.sends(conns[0], &format!("$200000|{large}|"));
    assert_eq!(rig.taken(client), "");
    rig.sends(conns[1], "$1|a|");
    let mut got = rig.taken(client);
    rig.pass(Duration::ZERO);
    got += &rig.taken(client);
    assert_eq!(got, format!("$1|a|$200000|{large}|"));
}
