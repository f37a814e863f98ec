//! Transcripts of slow nodes: the difference between a slow node and a silent one. `|` stands for CR LF.

use crate::EngineLimits;
use crate::testing::Rig;
use crate::{ConnId, Event, Limits};
use std::time::Duration;

const LATE: &str = "-ERR node timeout after 1000 ms, outcome unknown (shard 127.0.0.1:7000)|";
const TOO_LATE: &str = "-ERR node timeout after 10000 ms, outcome unknown (shard 127.0.0.1:7000)|";
const CLIENT_ID: &str = "*2|$6|CLIENT|$2|ID|";

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Clients, each with a write in flight to the one node.
fn writers(rig: &mut Rig, count: usize) -> Vec<ConnId> {
    let clients: Vec<ConnId> = (0..count).map(|_| rig.client()).collect();
    clients.iter().for_each(|client| rig.client_sends(*client, "incr n|"));
    clients
}

#[test]
fn a_node_that_keeps_sending_is_not_late() {
    let mut rig = Rig::ready(1);
    for client in writers(&mut rig, 9) {
        rig.pass(ms(999));
        rig.node_sends(0, ":1|");
        assert_eq!(rig.taken(client), ":1|");
    }
}

#[test]
fn a_reply_that_comes_in_pieces_is_not_late() {
    let mut rig = Rig::ready(1);
    let clients = writers(&mut rig, 2);
    for piece in ["$", "1", "0", "|", "01234", "56789", "|:1"] {
        rig.pass(ms(999));
        rig.node_sends(0, piece);
    }
    assert_eq!(rig.taken(clients[0]), "$10|0123456789|");
    rig.pass(ms(999));
    assert_eq!(rig.taken(clients[1]), "");
    rig.pass(ms(1));
    assert_eq!(rig.taken(clients[1]), LATE);
}

#[test]
fn each_request_has_a_whole_timeout_of_silence() {
    let mut rig = Rig::ready(1);
    let slow = rig.client();
    rig.client_sends(slow, "eval x 0|");
    rig.pass(ms(900));
    let behind = writers(&mut rig, 1)[0];
    rig.pass(ms(100));
    assert_eq!((rig.taken(slow).as_str(), rig.taken(behind).as_str()), (LATE, ""));
    rig.pass(ms(899));
    rig.node_sends(0, ":0|:1|");
    assert_eq!((rig.taken(slow).as_str(), rig.taken(behind).as_str()), ("", ":1|"));
}

#[test]
fn a_request_behind_two_slow_commands_is_answered() {
    let mut rig = Rig::ready(1);
    let clients = [(); 3].map(|()| rig.client());
    clients.iter().for_each(|client| rig.client_sends(*client, "eval x 0|"));
    for client in clients {
        rig.pass(ms(900));
        rig.node_sends(0, ":0|");
        assert_eq!(rig.taken(client), ":0|");
    }
}

#[test]
fn a_request_is_late_after_ten_timeouts_in_any_case() {
    let mut rig = Rig::ready(1);
    let clients = writers(&mut rig, 2);
    // A reply that comes byte by byte.
    rig.node_sends(0, "$100|");
    for _ in 0..19 {
        rig.pass(ms(500));
        rig.node_sends(0, "x");
    }
    assert_eq!(rig.taken(clients[1]), "");
    // At the smallest permitted rate, the present bytes of the reply would have come a moment later.
    rig.pass(ms(501));
    assert_eq!(rig.taken(clients[1]), TOO_LATE);
}

#[test]
fn node_that_reads_a_large_request_slowly_is_not_silent() {
    let mut rig = Rig::ready(1);
    let (client, node) = (rig.client(), rig.node(0));
    rig.client_sends(client, &format!("set a {}|", "x".repeat(100)));
    rig.node_got(0);
    rig.node_sends(0, "+OK|");
    rig.taken(client);
    rig.stick(node);
    rig.client_sends(client, "set a 1|");
    for _ in 0..5 {
        rig.pass(ms(999));
        rig.event(Event::Writable { conn: node });
    }
    assert_eq!(rig.taken(client), "");
    rig.unstick(node);
    rig.node_sends(0, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn a_request_that_a_node_took_nothing_of_was_not_sent() {
    let mut rig = Rig::ready(1);
    let (client, node) = (rig.client(), rig.node(0));
    rig.stick(node);
    rig.client_sends(client, "set a 1|");
    rig.pass(ms(999));
    assert_eq!(rig.taken(client), "");
    rig.pass(ms(1));
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: the node does not read|";
    assert_eq!(rig.taken(client), refusal);
}

#[test]
fn a_node_that_stops_taking_a_bulk_request_is_given_up() {
    let mut rig = Rig::ready_with(
        1,
        Limits {
            engine: EngineLimits { relay_bytes_max: 10, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    let client = rig.client();
    rig.client_sends(client, "*3|$3|set|$1|a|$100000|x");
    let pinned = rig.bring_up_pinned(0);
    rig.taken(pinned);
    // The client is slow, and not the node.
    rig.pass(Duration::from_secs(29));
    rig.stick(pinned);
    rig.client_sends(client, &"x".repeat(1000));
    rig.pass(ms(9_999));
    assert_eq!(rig.taken(client), "");
    rig.pass(ms(1));
    assert!(rig.is_closed(pinned));
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: the node does not read|";
    assert_eq!(rig.taken(client), refusal);
}

#[test]
fn a_connection_that_is_long_in_making_leaves_a_wait_its_time() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "blpop q 0.1|");
    rig.pass(ms(999));
    let held = rig.bring_up_pinned(0);
    assert_eq!(rig.taken(held), format!("{CLIENT_ID}*3|$5|blpop|$1|q|$3|0.1|"));
    rig.pass(ms(999));
    rig.sends(held, ":77|");
    rig.pass(ms(999));
    rig.sends(held, "*-1|");
    assert_eq!((rig.taken(client).as_str(), rig.is_closed(held)), ("*-1|", false));
}

#[test]
fn a_worker_that_was_stopped_calls_no_node_silent() {
    let mut rig = Rig::ready(1);
    let client = writers(&mut rig, 1)[0];
    rig.now += ms(3000);
    rig.proxy.handle_lateness(ms(3000), rig.now);
    rig.pass(ms(999));
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(client), ":1|");
}

#[test]
fn a_stop_of_the_worker_does_not_count_for_a_blocking_pop() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "blpop q 1|");
    let held = rig.bring_up_pinned(0);
    rig.now += ms(3000);
    rig.proxy.handle_lateness(ms(3000), rig.now);
    rig.sends(held, ":77|");
    rig.pass(ms(1100));
    rig.sends(held, "*-1|");
    assert_eq!(rig.taken(client), "*-1|");
}

#[test]
fn a_worker_that_was_stopped_gives_no_attempt_to_connect_up() {
    let mut rig = Rig::connecting(1, Limits::default());
    let client = writers(&mut rig, 1)[0];
    rig.now += ms(3000);
    rig.proxy.handle_lateness(ms(3000), rig.now);
    rig.pass(ms(999));
    rig.bring_up(0);
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(client), ":1|");
}

#[test]
fn a_worker_that_is_a_little_late_still_finds_a_silent_node() {
    let mut rig = Rig::ready(1);
    let client = writers(&mut rig, 1)[0];
    for _ in 0..11 {
        rig.pass(ms(99));
        rig.proxy.handle_lateness(ms(99), rig.now);
    }
    assert_eq!(rig.taken(client), LATE);
}

#[test]
fn bytes_that_wait_to_be_read_are_no_silence() {
    let mut rig = Rig::ready(1);
    let (client, node) = (writers(&mut rig, 1)[0], rig.node(0));
    rig.pass(ms(999));
    rig.proxy.handle_unread(node, rig.now);
    rig.pass(ms(999));
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(client), ":1|");
}
