//! Transcripts of the core, event by event. `|` stands for CR LF.

mod accounts;
mod acknowledged;
mod administration;
mod asked;
mod blocking;
mod cork;
mod emulate;
mod emulate_faults;
mod every_command;
mod fan;
mod growth;
mod homes;
mod hot;
mod inlays;
mod inspection;
mod large;
mod large_redirects;
mod left_behind;
mod listeners;
mod lists;
mod logins;
mod many_nodes;
mod namespaces;
mod node_memory;
mod operator;
mod own_answers;
mod passing;
mod per_shard;
mod policy;
mod pops;
mod profiles;
mod proof;
mod pubsub;
mod redirect;
mod redirect_order;
mod replica_worlds;
mod replicas;
mod sampling;
mod scripts;
mod silence;
mod slow;
mod suspect;
mod topology_update;
mod tracking;
mod transactions;
mod unsent;
mod upgrade;
#[cfg(debug_assertions)]
mod walks;

use crate::EngineLimits;
use crate::cross_slot::remedy::Remedy;
use crate::testing::{Rig, crossed};
use crate::{Arrival, Event, Limits, Notice, Settings};
use std::time::Duration;

#[test]
fn request_and_reply_pass_unchanged() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let key = rig.key(1);
    let request = format!("*3|$3|sEt|${}|{key}|$1|v|", key.len());
    rig.client_sends(client, &request);
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1)), ("", request));
    rig.node_sends(1, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn pipelined_replies_keep_the_clients_order_over_shards() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {a}|get {b}|ping|get {a}|"));
    rig.node_sends(1, "$1|b|");
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, "$1|a|$2|a");
    assert_eq!(rig.taken(client), "$1|a|$1|b|+PONG|");
    rig.node_sends(0, "2|");
    assert_eq!(rig.taken(client), "$2|a2|");
}

#[test]
fn two_clients_share_a_connection_and_nothing_else() {
    let mut rig = Rig::ready(1);
    let (one, two) = (rig.client(), rig.client());
    rig.client_sends(one, "get x|");
    rig.client_sends(two, "get y|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|x|*2|$3|get|$1|y|");
    rig.node_sends(0, "$1|x|$1|y|");
    assert_eq!((rig.taken(one).as_str(), rig.taken(two).as_str()), ("$1|x|", "$1|y|"));
}

#[test]
fn mset_over_two_shards_is_answered_once() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mset {b} 1 {a} 2 {b} 3|"));
    assert_eq!(rig.node_got(0), format!("*3|$4|mset|$2|{a}|$1|2|"));
    assert_eq!(rig.node_got(1), format!("*5|$4|mset|$2|{b}|$1|1|$2|{b}|$1|3|"));
    rig.node_sends(0, "+OK|");
    assert_eq!(rig.taken(client), "");
    rig.node_sends(1, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
}

#[test]
fn an_mset_without_its_last_value_is_not_split() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mset {b} 1 {a}|"));
    assert_eq!(rig.node_got(0), format!("*4|$4|mset|$2|{b}|$1|1|$2|{a}|"));
    assert_eq!(rig.node_got(1), "");
}

#[test]
fn unsplittable_command_over_shards_is_refused() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sinter {a} {b}|rename {a} {b}|msetnx {a} 1 {b} 2|"));
    let refusal = crossed(Remedy::Emulation);
    assert_eq!(rig.taken(client), refusal.repeat(3));
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}

#[test]
fn the_first_crossed_request_of_a_client_is_logged() {
    let mut rig = Rig::ready(2);
    let (first, second, a, b) = (rig.client(), rig.client(), rig.key(0), rig.key(1));
    rig.notices();
    rig.client_sends(first, &format!("rename {a} {b}|sinter {a} {b}|"));
    rig.client_sends(second, &format!("eval x 2 {a} {b}|rename {a} {b}|"));
    let told: Vec<_> = rig
        .notices()
        .into_iter()
        .map(|notice| match notice {
            Notice::CrossSlot { command, option, .. } => (command, option),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [("rename", Some("--cross-shard=emulate")), ("eval", None)]);
}

#[test]
fn a_scan_walks_from_shard_to_shard() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "scan 0 count 1|");
    assert_eq!(rig.node_got(0), "*4|$4|scan|$1|0|$5|count|$1|1|");
    rig.node_sends(0, "*2|$1|0|*1|$1|a|");
    assert_eq!(rig.taken(client), "*2|$15|281474976710656|*1|$1|a|");
    rig.client_sends(client, "scan 281474976710656 count 1|");
    assert_eq!(rig.node_got(1), "*4|$4|scan|$1|0|$5|count|$1|1|");
    rig.node_sends(1, "*2|$1|3|*0|");
    assert_eq!(rig.taken(client), "*2|$15|281474976710659|*0|");
    rig.client_sends(client, "scan x|scan 9223372036854775807|");
    assert_eq!(rig.taken(client), "-ERR invalid cursor|*2|$1|0|*0|");
}

#[test]
fn scan_continues_on_the_next_shard_until_count_is_met() {
    let mut rig = Rig::ready(3);
    let client = rig.client();
    rig.client_sends(client, "scan 0 match k* count 3|");
    rig.node_sends(0, "*2|$1|0|*1|$1|a|");
    assert_eq!(rig.node_got(1), "*6|$4|scan|$1|0|$5|match|$2|k*|$5|count|$1|3|");
    rig.node_sends(1, "*2|$1|0|*0|");
    assert!(rig.node_got(2).ends_with("*6|$4|scan|$1|0|$5|match|$2|k*|$5|count|$1|3|"));
    rig.node_sends(2, "*2|$1|5|*1|$1|b|");
    assert_eq!(rig.taken(client), "*2|$15|562949953421317|*2|$1|a|$1|b|");
    assert_eq!(rig.proxy.core.scans.slab.len(), 0);
}

#[test]
fn a_scan_returns_its_keys_when_the_next_shard_fails() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "scan 0|");
    rig.node_sends(0, "*2|$1|0|*1|$1|a|");
    let conn = rig.node(1);
    rig.event(Event::Ended { conn });
    assert_eq!(rig.taken(client), "*2|$15|281474976710656|*1|$1|a|");
    rig.client_sends(client, "scan 281474976710656|");
    rig.pass(Duration::from_millis(1));
    rig.event(Event::Ended { conn: rig.node(1) });
    assert!(rig.taken(client).starts_with("-TRYAGAIN shard "));
    assert_eq!(rig.proxy.core.scans.slab.len(), 0);
}

#[test]
fn protocol_error_closes_the_client_after_earlier_replies() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|*1|:4|get b|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "$-1|-ERR Protocol error: expected '$', got ':'|");
    rig.client_sends(client, "get c|");
    assert_eq!(rig.node_got(0), "");
    assert!(!rig.is_closed(client), "it gets time to read the error");
    rig.pass(Duration::from_secs(2));
    assert!(rig.is_closed(client));
}

#[test]
fn quit_answers_and_ignores_the_rest() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|quit|get b|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "$-1|+OK|");
    assert!(rig.is_closed(client));
}

#[test]
fn http_is_closed_without_a_reply() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "POST / HTTP/1.1|Host: x|set a 1|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), ("", ""));
    assert!(rig.is_closed(client));
}

#[test]
fn a_half_closed_client_gets_all_its_replies() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|get b|");
    rig.event(Event::Ended { conn: client });
    assert!(!rig.is_closed(client));
    rig.node_sends(0, "$-1|$-1|");
    assert_eq!(rig.taken(client), "$-1|$-1|");
    assert!(rig.is_closed(client));
}

#[test]
fn replies_for_a_client_that_has_gone_are_dropped() {
    let mut rig = Rig::ready(1);
    let gone = rig.client();
    rig.client_sends(gone, "get secret|");
    rig.event(Event::Closed { conn: gone, reason: "reset" });
    let other = rig.client();
    assert_eq!(other.index, gone.index, "the place is used again");
    rig.client_sends(other, "get mine|");
    rig.node_sends(0, "$6|secret|$4|mine|");
    assert_eq!(rig.taken(other), "$4|mine|");
}

#[test]
fn a_late_reply_is_not_given_to_the_next_request() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_millis(1001));
    assert_eq!(rig.taken(client), "-ERR node timeout after 1000 ms, outcome unknown (shard 127.0.0.1:7000)|");
    rig.client_sends(client, "get b|");
    rig.node_sends(0, "$1|a|");
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, "$1|b|");
    assert_eq!(rig.taken(client), "$1|b|");
}

#[test]
fn a_lost_link_fails_sent_and_unsent_requests_differently() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (node, a, b) = (rig.node(1), rig.key(1), rig.key(0));
    rig.client_sends(client, &format!("get {a}|"));
    rig.stick(node);
    rig.client_sends(client, &format!("get {a}|get {b}|"));
    rig.event(Event::Closed { conn: node, reason: "connection reset by peer" });
    rig.node_sends(0, "$-1|");
    assert_eq!(
        rig.taken(client),
        "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|\
         -TRYAGAIN shard 127.0.0.1:7001 unavailable: connection reset by peer|$-1|"
    );
    assert!(!rig.is_closed(client), "a dead node costs its keys and nothing else");
    let shard = "127.0.0.1:7001".to_owned();
    assert_eq!(rig.notices(), [Notice::NodeDown { shard, reason: "connection reset by peer".to_owned() }]);
}

#[test]
fn split_command_with_a_dead_shard_sends_nothing() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let node = rig.node(1);
    rig.event(Event::Closed { conn: node, reason: "connection refused" });
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mset {a} 1 {b} 2|get {a}|"));
    rig.node_sends(0, "$1|x|");
    let refusal = "-TRYAGAIN shard 127.0.0.1:7001 unavailable: connection refused|";
    assert_eq!(rig.taken(client), format!("{refusal}$1|x|"));
}

#[test]
fn requests_wait_for_a_first_link_and_get_its_error() {
    let mut rig = Rig::connecting(1, Limits::default());
    let client = rig.client();
    rig.client_sends(client, "get a|");
    assert_eq!(rig.taken(client), "");
    rig.bring_up(0);
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|");

    let mut rig = Rig::connecting(1, Limits::default());
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_millis(1001));
    assert_eq!(rig.taken(client), "-TRYAGAIN shard 127.0.0.1:7000 unavailable: no connection in time|");
}

#[test]
fn waiting_for_a_link_does_not_shorten_the_timeout() {
    let limits = Limits {
        engine: EngineLimits { connect_timeout: Duration::from_secs(5), ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::connecting(1, limits);
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.pass(Duration::from_millis(700));
    rig.bring_up(0);
    rig.pass(Duration::from_millis(999));
    assert_eq!(rig.taken(client), "", "what was not sent is not late");
    rig.pass(Duration::from_millis(1));
    let late = "-ERR node timeout after 1000 ms, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!(rig.taken(client), late);
}

#[test]
fn a_loading_node_is_not_used_and_its_error_is_relayed() {
    let mut rig = Rig::connecting(1, Limits::default());
    let client = rig.client();
    rig.client_sends(client, "get a|");
    let conn = rig.node(0);
    rig.event(Event::Connected { conn });
    rig.node_sends(0, "-LOADING Redis is loading the dataset in memory|");
    let reason = "LOADING Redis is loading the dataset in memory";
    assert_eq!(rig.taken(client), format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: {reason}|"));
    rig.client_sends(client, "get a|");
    assert_eq!(rig.taken(client), format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: {reason}|"));
}

#[test]
fn a_node_that_greets_before_it_is_asked_is_not_used() {
    let mut rig = Rig::connecting(1, Limits::default());
    let client = rig.client();
    let conn = rig.node(0);
    rig.stick(conn);
    rig.event(Event::Connected { conn });
    rig.client_sends(client, "get a|");
    rig.node_sends(0, "-ERR max number of clients reached|");
    let reason = "ERR max number of clients reached";
    assert_eq!(rig.taken(client), format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: {reason}|"));
}

/// The times of attempts to connect to a node that refuses all, within a minute, in milliseconds.
fn attempts_of(seed: u64) -> Vec<u64> {
    let settings = Settings { seed, ..Settings::default() };
    let mut rig = Rig::ready_as(1, Limits::default(), settings);
    let (mut attempts, begun) = (Vec::new(), rig.now);
    rig.event(Event::Ended { conn: rig.node(0) });
    while rig.now.since(begun) < Duration::from_secs(60) {
        rig.pass(Duration::from_millis(1));
        if rig.is_connecting(0) {
            attempts.push(rig.now.since(begun).as_millis() as u64);
            rig.event(Event::Closed { conn: rig.node(0), reason: "connection refused" });
        }
    }
    attempts
}

#[test]
fn reconnects_back_off_with_jitter_between_workers() {
    let all: Vec<Vec<u64>> = (1..=8).map(attempts_of).collect();
    for attempts in &all {
        let within = |from: u64, until: u64| attempts.iter().filter(|at| (from..until).contains(at)).count();
        assert!(within(0, 100) >= 2, "soon at first: {attempts:?}");
        // The average is half a second.
        assert!((75..=130).contains(&within(10_000, 60_000)), "{attempts:?}");
    }
    let most = (20..120).map(|half| {
        let is_in = |at: &&u64| **at / 500 == half;
        all.iter().flatten().filter(is_in).count()
    });
    // In step, eight workers would make eight attempts at once. 16 in half a second are far too many.
    assert!(most.max() < Some(16), "{all:?}");
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn unexpected_bytes_close_the_link() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let node = rig.node(0);
    rig.node_sends(0, "$6|foreign|");
    assert!(rig.is_closed(node));
    rig.pass(Duration::from_millis(20));
    rig.bring_up(0);
    rig.client_sends(client, "get a|");
    rig.node_sends(0, "$1|a|");
    assert_eq!(rig.taken(client), "$1|a|");
}

#[test]
fn garbage_in_a_reply_is_not_relayed() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|get b|");
    rig.node_sends(0, "$1|a|HTTP/1.1 400 Bad Request|");
    let expected = "$1|a|-ERR node protocol error, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!(rig.taken(client), expected);
}

#[test]
fn a_client_with_much_pending_is_not_read_until_it_caught_up() {
    let mut rig = Rig::ready_with(
        1,
        Limits { engine: EngineLimits { pending_max: 4, ..EngineLimits::default() }, ..Limits::default() },
    );
    let client = rig.client();
    rig.client_sends(client, &"get a|".repeat(10));
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|".repeat(4));
    assert!(rig.is_paused(client));
    rig.node_sends(0, "$-1|$-1|");
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|a|".repeat(2));
    assert!(rig.is_paused(client));
    rig.node_sends(0, &"$-1|".repeat(4));
    rig.node_sends(0, &"$-1|".repeat(4));
    assert_eq!(rig.taken(client), "$-1|".repeat(10));
    assert!(!rig.is_paused(client));
}

#[test]
fn a_client_that_does_not_read_is_closed_and_others_are_not() {
    let limits = Limits {
        engine: EngineLimits { output_bytes_max: 1000, pending_bytes_max: 4096, ..EngineLimits::default() },
        ..Limits::default()
    };
    let mut rig = Rig::ready_with(1, limits);
    let (slow, other) = (rig.client(), rig.client());
    rig.stick(slow);
    rig.client_sends(slow, "get a|");
    rig.client_sends(other, "get b|");
    let value = format!("$600|{}|", "x".repeat(600));
    rig.node_sends(0, &format!("{value}$-1|"));
    rig.client_sends(slow, "get a|");
    rig.node_sends(0, &value);
    assert!(!rig.is_closed(slow), "one reply above the limit is allowed");
    rig.client_sends(slow, "get a|");
    rig.node_sends(0, &value);
    assert!(rig.is_closed(slow));
    assert_eq!(rig.taken(other), "$-1|");
    assert_eq!(rig.proxy.counters().clients, 1);
}

#[test]
fn unknown_command_is_learnt_once_and_keeps_order() {
    let mut rig = Rig::ready(2);
    let (client, other) = (rig.client(), rig.client());
    let key = rig.key(1);
    rig.client_sends(client, &format!("get {key}|foo.set {key} 1|ping|"));
    rig.client_sends(other, &format!("foo.set {key} 2|"));
    assert_eq!(rig.node_got(0), "*3|$7|COMMAND|$4|INFO|$7|foo.set|");
    rig.node_sends(1, "$1|x|");
    assert_eq!(rig.taken(client), "$1|x|");
    rig.node_got(1);
    rig.node_sends(0, "*1|*6|$7|foo.set|:-3|*1|+write|:1|:1|:1|");
    assert!(rig.node_got(1).contains(&format!("*3|$7|foo.set|$2|{key}|$1|1|")));
    rig.node_sends(1, "+1|+2|");
    let (first, second) = (rig.taken(client), rig.taken(other));
    assert!(
        first.ends_with("|+PONG|") && first.len() + second.len() == "+1|+PONG|+2|".len(),
        "{first} {second}"
    );
}

#[test]
fn unknown_commands_get_the_error_of_redis() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "foo a b|");
    rig.node_sends(0, "*1|*-1|");
    let unknown = "-ERR unknown command 'foo', with args beginning with: 'a' 'b' |";
    assert_eq!(rig.taken(client), unknown);
    rig.node_got(0);
    rig.client_sends(client, "foo a b|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), (unknown, ""));
}

#[test]
fn a_command_that_cannot_be_learnt_gets_the_reason() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "foo a|ping|");
    let node = rig.node(0);
    rig.event(Event::Closed { conn: node, reason: "reset" });
    let lost = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: it did not answer COMMAND INFO|";
    assert_eq!(rig.taken(client), format!("{lost}+PONG|"));
}

#[test]
fn draining_finishes_requests_and_refuses_clients() {
    let mut rig = Rig::ready(1);
    let (busy, idle) = (rig.client(), rig.client());
    rig.client_sends(busy, "get a|");
    rig.proxy.drain(rig.now);
    rig.perform();
    assert!(rig.is_closed(idle) && !rig.is_closed(busy));
    assert_eq!(
        rig.proxy.accept(&Arrival::of("late"), rig.now),
        Err(b"-ERR max number of clients reached\r\n".to_vec())
    );
    rig.node_sends(0, "$1|a|");
    assert_eq!(rig.taken(busy), "$1|a|");
    assert!(rig.is_closed(busy) && rig.proxy.is_drained());
}

/// A pipeline may be cut anywhere, each time.
#[test]
fn a_client_between_two_requests_is_not_late() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "*2|$3|GET|");
    for _ in 0..100 {
        rig.pass(Duration::from_secs(1));
        rig.client_sends(client, "$1|k|*2|$3|GET|");
        rig.node_sends(0, "$-1|");
    }
    assert!(!rig.is_closed(client));
    assert_eq!(rig.taken(client), "$-1|".repeat(100));
    rig.pass(Duration::from_secs(32));
    assert!(rig.is_closed(client), "the last one is");
}

#[test]
fn idle_and_half_finished_clients_time_out() {
    let mut rig = Rig::ready_with(1, Limits { idle_timeout: Duration::from_secs(300), ..Limits::default() });
    let (idle, half) = (rig.client(), rig.client());
    rig.client_sends(half, "*2|$3|GET|$1000|abc");
    rig.pass(Duration::from_secs(29));
    assert!(!rig.is_closed(half));
    rig.pass(Duration::from_secs(4));
    assert!(rig.is_closed(half) && !rig.is_closed(idle));
    rig.pass(Duration::from_secs(270));
    assert!(rig.is_closed(idle));
}

#[test]
fn a_silent_node_is_asked_whether_it_lives() {
    let mut rig = Rig::ready(1);
    rig.pass(Duration::from_millis(5500));
    assert_eq!(rig.node_got(0), "*1|$4|PING|");
    rig.node_sends(0, "+PONG|");
    let node = rig.node(0);
    rig.pass(Duration::from_secs(9));
    assert!(rig.is_closed(node), "no answer to the second one");
}

#[test]
fn a_request_in_the_steady_state_allocates_nothing() {
    let mut rig = Rig::ready(4);
    let client = rig.client();
    let keys: Vec<String> = (0..4).map(|shard| rig.key(shard)).collect();
    let pairs: Vec<String> = keys.iter().map(|key| format!("${}|{key}|$1|v|", key.len())).collect();
    let gets: String = keys.iter().map(|key| format!("*2|$3|GET|${}|{key}|", key.len())).collect();
    let mget: String = keys.iter().map(|key| format!("${}|{key}|", key.len())).collect();
    let requests = format!("{gets}*9|$4|MSET|{}*5|$4|MGET|{mget}", pairs.concat()).replace('|', "\r\n");
    let replies = "$1|v|+OK|*1|$1|v|".replace('|', "\r\n");
    let round = |rig: &mut Rig| {
        rig.proxy.handle_event(Event::Received { conn: client, bytes: requests.as_bytes() }, rig.now);
        rig.drop_sent();
        // The last shard answers first, so that replies have to wait for others.
        for shard in (0..4).rev() {
            let conn = rig.node(shard);
            rig.proxy.handle_event(Event::Received { conn, bytes: replies.as_bytes() }, rig.now);
        }
        let taken = rig.drop_sent();
        crate::end_turn(&mut rig.proxy, rig.now);
        taken
    };
    let expected = "$1||v||".len() * 4 + "+OK||".len() + "*4||".len() + "$1||v||".len() * 4;
    // By then, samples have seen all keys.
    for _ in 0..300 {
        assert_eq!(round(&mut rig), expected);
    }
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            round(&mut rig);
        }
    });
    assert_eq!(counted.count_total, 0);
}
