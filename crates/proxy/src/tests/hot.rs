//! Hot and big keys. `|` stands for CR LF.

use super::*;
use crate::{HotKey, HotKind};

fn top(rig: &mut Rig, kind: HotKind) -> Vec<HotKey> {
    rig.proxy.core.end_second();
    rig.proxy.core.cx.board.hot.top(kind, 5)
}

/// A rig with little load, so that each request is looked at.
fn quiet() -> Rig {
    let mut rig = Rig::ready(1);
    (0..9).for_each(|_| rig.proxy.core.end_second());
    rig
}

fn names(list: &[HotKey]) -> Vec<String> {
    list.iter().map(|hot| String::from_utf8_lossy(&hot.key).into_owned()).collect()
}

#[test]
fn each_request_counts_while_there_are_few() {
    let mut rig = quiet();
    let client = rig.client();
    for number in 0..30 {
        rig.client_sends(client, "get often|");
        rig.client_sends(client, if number % 3 == 0 { "set seldom x|" } else { "ping|" });
        rig.node_sends(0, if number % 3 == 0 { "$1|x|+OK|" } else { "$1|x|" });
    }
    let list = top(&mut rig, HotKind::Keys);
    assert_eq!(names(&list), ["often", "seldom"], "in ten seconds");
    assert_eq!((list[0].per_second.round(), list[0].writes, list[0].error), (3.0, 0.0, 0.0));
    assert_eq!((list[1].per_second.round(), list[1].writes), (1.0, 1.0));
}

#[test]
fn all_keys_of_a_request_count() {
    let mut rig = quiet();
    let client = rig.client();
    rig.client_sends(client, "mset a 1 b 2|");
    let mut found = names(&top(&mut rig, HotKind::Keys));
    found.sort();
    assert_eq!(found, ["a", "b"]);
}

/// Each pipeline asks as often for the key at its end as for the one at its beginning. A sample of the first request of
/// each read would not find it.
#[test]
fn a_pipeline_of_a_pattern_does_not_mislead() {
    let mut rig = quiet();
    let client = rig.client();
    let pipeline = format!("{}{}", "get first|".repeat(5), "get last|".repeat(5));
    for _ in 0..2 {
        for _ in 0..2000 {
            rig.client_sends(client, &pipeline);
            rig.node_sends(0, &"$-1|".repeat(10));
            rig.taken(client);
        }
        // From now on one request in 150 is looked at.
        rig.proxy.core.end_second();
    }
    let list = top(&mut rig, HotKind::Keys);
    let ratio = list[0].per_second / list[1].per_second;
    assert!(ratio < 1.6, "{list:?}");
    let rate = list[0].per_second + list[1].per_second;
    // In eleven seconds.
    let truth = 40_000.0 / 11.0;
    assert!((rate - truth).abs() < truth / 5.0, "{rate}");
}

#[test]
fn values_are_weighed_whichever_way_they_go() {
    let mut rig = quiet();
    let client = rig.client();
    for _ in 0..3 {
        rig.client_sends(client, &format!("set written {}|", "x".repeat(3000)));
        rig.node_sends(0, "+OK|");
        rig.client_sends(client, "get read|");
        rig.node_sends(0, &format!("$5000|{}|", "x".repeat(5000)));
    }
    let list = top(&mut rig, HotKind::Sizes);
    assert_eq!(names(&list), ["read", "written"]);
    assert_eq!((list[0].bytes_max, list[0].writes, list[1].writes), (5009, 0.0, 1.0));
    assert!(list[1].bytes_max > 3000 && list[1].bytes_max < 3100, "{list:?}");
}

#[test]
fn each_large_transfer_is_weighed() {
    let limits =
        Limits { engine: EngineLimits { large_bytes: 50, ..EngineLimits::default() }, ..Limits::default() };
    let mut rig = Rig::ready_with(1, limits);
    let client = rig.client();
    rig.client_sends(client, "*3|$3|set|$3|big|$600|0123456789");
    let mut list = top(&mut rig, HotKind::Sizes);
    assert_eq!((names(&list), list[0].writes), (vec!["big".to_owned()], 1.0));
    let reader = rig.client();
    rig.client_sends(reader, "get large|");
    let conn = rig.pinned_now();
    rig.sends(conn, "$900|0123456789");
    list = top(&mut rig, HotKind::Sizes);
    assert!(names(&list).contains(&"large".to_owned()), "{list:?}");
}

#[test]
fn an_operator_reads_the_lists() {
    let mut rig = quiet();
    let client = rig.client();
    rig.client_sends(client, "set a b|");
    rig.node_sends(0, "+OK|");
    rig.taken(client);
    rig.proxy.core.end_second();
    rig.client_sends(client, "proxy hotkeys|");
    let reply = rig.taken(client);
    let expected = "*1|*12|$3|key|$1|a|$5|shard|$14|127.0.0.1:7000|$14|requests-per-s|$3|0.1|$5|error|$3|0.0|$14|writes-percent|:100|";
    assert!(reply.starts_with(expected), "{reply}");
    rig.client_sends(client, "proxy bigkeys 3|proxy hotslots|proxy hotkeys x|");
    let reply = rig.taken(client);
    assert!(reply.starts_with("*1|*12|$3|key|$1|a|") && reply.contains("|*0|-ERR "), "{reply}");
}
