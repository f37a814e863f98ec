//! Transcripts of KEYS over several shards. Each shard may return any number of keys. `|` stands for CR LF.

use crate::EngineLimits;
use crate::testing::Rig;
use crate::tests::large::small_client;
use crate::{CloseReason, ConnId, Event, Limits, Notice};
use std::time::Duration;

const KEYS: &str = "*2|$4|keys|$1|*|";

/// A client of a proxy over three shards that has sent KEYS, and the links of the request.
fn asked(limits: Limits) -> (Rig, ConnId, Vec<ConnId>) {
    let mut rig = Rig::ready_with(3, limits);
    let client = rig.client();
    let conns = ask(&mut rig, client);
    (rig, client, conns)
}

fn ask(rig: &mut Rig, client: ConnId) -> Vec<ConnId> {
    rig.client_sends(client, "keys *|");
    let conns = rig.bring_up_all_pinned();
    for &conn in &conns {
        assert_eq!(rig.taken(conn), KEYS);
    }
    conns
}

/// Thirty bytes may wait for the receiver of a large reply.
fn small() -> Limits {
    Limits {
        engine: EngineLimits { large_bytes: 20, relay_bytes_max: 30, ..EngineLimits::default() },
        ..Limits::default()
    }
}

#[test]
fn keys_of_all_shards_come_in_turn_while_they_come() {
    let (mut rig, client, conns) = asked(Limits::default());
    rig.sends(conns[1], "*2|$1|b|$1|");
    rig.sends(conns[2], "*1|$1|d|");
    assert_eq!(rig.taken(client), "", "the first shard may yet fail");
    rig.sends(conns[0], "*1|$1|a|");
    assert_eq!(rig.taken(client), "*4|$1|a|$1|b|$1|");
    rig.sends(conns[1], "c|");
    assert_eq!(rig.taken(client), "c|$1|d|");
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
    assert!(conns.iter().all(|conn| !rig.is_closed(*conn)), "the next who needs them gets them");
    rig.client_sends(client, "keys *|");
    for (conn, list) in conns.into_iter().zip(["*0|", "*1|$1|b|", "*0|"]) {
        assert_eq!(rig.taken(conn), KEYS);
        rig.sends(conn, list);
    }
    assert_eq!(rig.taken(client), "*1|$1|b|");
}

#[test]
fn keys_come_whole_however_their_lists_are_cut() {
    let lists = ["*2|$1|a|$10|0123456789|", "*0|", "*12|$1|b|$2|cc|$0||"];
    let lists = [lists[0].to_owned(), lists[1].to_owned(), format!("{}{}", lists[2], "$1|d|".repeat(9))];
    let merged = format!("*14|{}{}", &lists[0][3..], &lists[2][4..]);
    for piece in 1..20 {
        let (mut rig, client, conns) = asked(small());
        let mut left: Vec<&[u8]> = Vec::new();
        let bytes = lists.clone().map(|list| list.replace('|', "\r\n"));
        left.extend(bytes.iter().map(String::as_bytes));
        let mut told = Vec::new();
        while left.iter().any(|left| !left.is_empty()) {
            for (left, &conn) in left.iter_mut().zip(&conns) {
                let (now, later) = left.split_at(piece.min(left.len()));
                rig.event(Event::Received { conn, bytes: now });
                *left = later;
                told.extend(rig.taken_bytes(client));
            }
        }
        assert_eq!(String::from_utf8_lossy(&told).replace("\r\n", "|"), merged, "in pieces of {piece}");
    }
}

#[test]
fn shards_without_keys_make_an_empty_list() {
    let (mut rig, client, conns) = asked(Limits::default());
    rig.pass(Duration::from_millis(3));
    conns.iter().for_each(|&conn| rig.sends(conn, "*0|"));
    assert_eq!(rig.taken(client), "*0|");
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
    rig.client_sends(client, "info commandstats|");
    let told = rig.taken(client);
    assert!(told.contains("cmdstat_keys:calls=1,usec=3000,"), "{told}");
}

#[test]
fn a_request_behind_keys_waits_and_keys_wait_for_those_before() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|keys *|get b|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
    rig.node_sends(0, "$1|a|");
    let conn = rig.pinned_now();
    assert_eq!((rig.taken(conn).as_str(), rig.node_got(0).as_str()), (KEYS, ""));
    rig.sends(conn, "*1|$1|a|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|b|");
    rig.node_sends(0, "$1|b|");
    assert_eq!(rig.taken(client), "$1|a|*1|$1|a|$1|b|");
    rig.client_sends(client, "info commandstats|");
    let told = rig.taken(client);
    assert!(told.contains("cmdstat_keys:calls=1,"), "{told}");
}

#[test]
fn a_shard_that_fails_before_the_first_key_is_the_answer() {
    let (mut rig, client, conns) = asked(Limits::default());
    rig.sends(conns[0], "*1|$1|a|");
    rig.sends(conns[1], "*0|");
    rig.sends(conns[2], "-LOADING wait|");
    assert_eq!(rig.taken(client), "-LOADING wait|");
    assert!(rig.is_closed(conns[0]), "what it would have brought is of no use");
    rig.client_sends(client, "ping|info commandstats|");
    let told = rig.taken(client);
    assert!(told.starts_with("+PONG|") && told.contains("cmdstat_keys:calls=1,"), "{told}");
    let stats = told.split("cmdstat_keys:").nth(1).expect("told");
    assert!(stats.contains("failed_calls=1"), "{stats}");
}

#[test]
fn a_shard_that_is_lost_before_the_first_key_is_named() {
    let (mut rig, client, conns) = asked(Limits::default());
    rig.sends(conns[0], "*1|$1|a|");
    rig.event(Event::Closed { conn: conns[1], reason: "reset" });
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|";
    assert_eq!(rig.taken(client), lost);
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn a_shard_that_does_not_answer_is_named_in_time() {
    let (mut rig, client, conns) = asked(Limits::default());
    rig.sends(conns[0], "*1|$1|a|");
    rig.sends(conns[2], "*1|$1|c|");
    rig.pass(Duration::from_secs(11));
    let late = "-ERR node timeout after 10000 ms, outcome unknown (shard 127.0.0.1:7001)|";
    assert_eq!(rig.taken(client), late);
    assert!(!rig.is_closed(client));
}

#[test]
fn a_shard_that_is_down_is_named_and_no_node_is_asked() {
    let mut rig = Rig::connecting(2, Limits::default());
    rig.bring_up(0);
    let (conn, client) = (rig.node(1), rig.client());
    rig.event(Event::Closed { conn, reason: "refused" });
    rig.client_sends(client, "keys *|ping|");
    assert_eq!(rig.taken(client), "-TRYAGAIN shard 127.0.0.1:7001 unavailable: refused|+PONG|");
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.in_flight()), ("", 0));
}

#[test]
fn a_shard_lost_behind_the_first_key_costs_the_connection() {
    for gone in [0, 1, 2] {
        let (mut rig, client, conns) = asked(Limits::default());
        for &conn in &conns {
            rig.sends(conn, "*2|$1|a|");
        }
        assert_eq!(rig.taken(client), "*6|$1|a|");
        rig.event(Event::Closed { conn: conns[gone], reason: "reset" });
        assert!(
            rig.is_closed(client) && conns.iter().all(|conn| *conn == conns[gone] || rig.is_closed(*conn))
        );
        let is_told =
            |notice: &Notice| matches!(notice, Notice::ClientClosed { reason: CloseReason::HalfReply, .. });
        assert_eq!(rig.notices().iter().filter(|notice| is_told(notice)).count(), 1);
        assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
    }
}

#[test]
fn no_list_at_all_is_an_error_and_rubbish_a_lost_shard() {
    let garbled = "-ERR node protocol error, outcome unknown (shard 127.0.0.1:7001)|";
    let failed = format!("-{}|", crate::errors::MERGE_FAILED);
    let cases = [
        (":1|", failed.as_str()),
        ("*-1|", garbled),
        ("*99999999999|", garbled),
        ("*99999999999999999999999|", garbled),
        ("x", garbled),
    ];
    for (reply, error) in cases {
        let (mut rig, client, conns) = asked(Limits::default());
        rig.sends(conns[0], "*1|$1|a|");
        rig.sends(conns[1], reply);
        assert_eq!(rig.taken(client), error, "{reply}");
    }
}

#[test]
fn shards_that_wait_for_their_turn_are_not_read_and_not_late() {
    let (mut rig, client, conns) = asked(small());
    rig.stick(client);
    let list = "$10|0123456789|".repeat(4);
    rig.sends(conns[0], "*0|");
    for conn in [conns[1], conns[2]] {
        rig.sends(conn, &format!("*5|{list}"));
    }
    assert!(rig.is_paused(conns[2]), "it has to wait for its turn");
    rig.sends(conns[1], "$10|0123456789|");
    assert!(!rig.is_paused(conns[0]));
    // This is longer than a node may be silent. The first has sent all, and the last is not read.
    rig.pass(Duration::from_secs(20));
    assert!(!rig.is_closed(client));
    rig.unstick(client);
    rig.sends(conns[2], "$10|0123456789|");
    assert_eq!(rig.taken(client), format!("*10|{}", "$10|0123456789|".repeat(10)));
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn a_client_that_never_reads_its_keys_loses_its_connections() {
    let (mut rig, client, conns) = asked(small());
    rig.stick(client);
    for &conn in &conns {
        rig.sends(conn, &format!("*9|{}", "$10|0123456789|".repeat(8)));
    }
    rig.pass(Duration::from_secs(40));
    assert!(rig.is_closed(client) && conns.iter().all(|conn| rig.is_closed(*conn)));
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn a_client_that_leaves_amid_its_keys_leaves_nothing() {
    let (mut rig, client, conns) = asked(Limits::default());
    for &conn in &conns {
        rig.sends(conn, "*2|$1|a|");
    }
    rig.event(Event::Closed { conn: client, reason: "reset" });
    assert!(conns.iter().all(|conn| rig.is_closed(*conn)));
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn keys_that_the_client_does_not_want_are_read_and_dropped() {
    let mut rig = Rig::ready(3);
    let client = rig.client();
    rig.client_sends(client, "client reply skip|keys *|ping|");
    let conns = rig.bring_up_all_pinned();
    for &conn in &conns {
        assert_eq!(rig.taken(conn), KEYS);
        rig.sends(conn, "*2|$1|a|");
    }
    conns.iter().for_each(|&conn| rig.sends(conn, "$1|b|"));
    assert_eq!(rig.taken(client), "+PONG|");
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn keys_larger_than_the_memory_pass_through_it() {
    let (mut rig, client, conns) = asked(Limits {
        engine: EngineLimits { memory_bytes_max: 400_000, ..EngineLimits::default() },
        ..Limits::default()
    });
    let piece = "$990|".to_owned() + &"k".repeat(990) + "|";
    let (count, pieces) = (1000, piece.repeat(50));
    let mut told = 0;
    conns.iter().for_each(|&conn| rig.sends(conn, &format!("*{count}|")));
    for &conn in &conns {
        for _ in 0..count / 50 {
            rig.sends(conn, &pieces);
            assert!(rig.proxy.held_bytes() < 200_000, "{}", rig.proxy.held_bytes());
            told += rig.taken_bytes(client).len();
        }
    }
    assert_eq!(told, "*3000|".len() + 1 + 3000 * (piece.len() + 2));
    assert!(!rig.is_closed(client));
}

/// A rig over two shards. One client has sent KEYS and got the only permit; the links of its request; and another
/// client.
fn with_all_permits_given() -> (Rig, ConnId, [ConnId; 2], ConnId) {
    let mut rig = Rig::ready_with(
        2,
        Limits { engine: EngineLimits { pinned_clients_max: 1, ..small().engine }, ..small() },
    );
    let (slow, client) = (small_client(&mut rig), small_client(&mut rig));
    let idle = rig.last_pinned().expect("the first requests went over it");
    rig.client_sends(slow, "keys *|");
    let conns = [idle, rig.bring_up_pinned(1)];
    assert_eq!(conns.map(|conn| rig.taken(conn)), [KEYS, KEYS]);
    (rig, slow, conns, client)
}

/// Clients that read large replies slowly do not keep others from small ones.
#[test]
fn keys_go_over_shared_connections_while_no_permit_is_free() {
    let (mut rig, _, _, client) = with_all_permits_given();
    rig.client_sends(client, "keys *|ping|");
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), (KEYS, KEYS));
    rig.node_sends(1, "*1|$1|b|");
    rig.node_sends(0, "*1|$1|a|");
    assert_eq!(rig.taken(client), "*2|$1|b|$1|a|+PONG|");
}

#[test]
fn keys_that_prove_large_are_asked_for_again_with_a_permit() {
    let (mut rig, slow, conns, client) = with_all_permits_given();
    rig.client_sends(client, "keys *|ping|");
    (0..2).for_each(|shard| assert_eq!(rig.node_got(shard), KEYS));
    rig.node_sends(0, "*2|$1|b|$40|0123456789");
    rig.node_sends(1, "*1|$1|c|");
    rig.node_sends(0, "012345678901234567890123456789|");
    assert_eq!(rig.taken(client), "", "it waits for its turn");
    conns.iter().for_each(|&conn| rig.sends(conn, "*1|$1|a|"));
    assert_eq!(rig.taken(slow), "*2|$1|a|$1|a|");
    let conn = rig.pinned_now();
    assert_eq!(rig.taken(conn), KEYS);
    rig.sends(conn, "*3|$1|b|");
    assert_eq!(rig.taken(client), "*4|$1|c|$1|b|", "what was here comes first");
    rig.sends(conn, "$1|d|$1|e|");
    assert_eq!(rig.taken(client), "$1|d|$1|e|+PONG|");
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn keys_within_a_transaction_are_taken_whole() {
    let mut rig = Rig::ready_with(2, small());
    let (client, key) = (small_client(&mut rig), rig.key(0));
    rig.client_sends(client, &format!("multi|set {key} 1|keys *|exec|"));
    rig.taken(client);
    rig.node_got(0);
    rig.node_sends(0, "+OK|+QUEUED|*1|+OK|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), ("*2|+OK|", KEYS));
    rig.node_sends(0, "*1|$40|0123456789");
    rig.node_sends(1, "*1|$1|b|");
    rig.node_sends(0, "012345678901234567890123456789|");
    assert_eq!(rig.taken(client), "*2|$1|b|$40|0123456789012345678901234567890123456789|");
}

#[test]
fn keys_of_a_shard_that_moves_come_from_where_they_were_asked() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let conns = ask(&mut rig, client);
    conns.iter().for_each(|&conn| rig.sends(conn, "*2|$1|a|"));
    assert_eq!(rig.taken(client), "*4|$1|a|");
    rig.promote(1, 2);
    rig.bring_up(2);
    rig.client_sends(client, "ping|");
    conns.iter().for_each(|&conn| rig.sends(conn, "$1|b|"));
    assert_eq!(rig.taken(client), "$1|b|$1|a|$1|b|+PONG|");
    assert!(rig.is_closed(conns[1]), "its node is no primary any more");
    assert_eq!((rig.proxy.in_flight(), rig.proxy.held_bytes()), (0, 0));
}
