//! Whole times of sampled requests. `|` stands for CR LF.

use super::*;
use crate::sampling::take;
use crate::{Latency, WholeTimes};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The whole times of `command`.
fn times_of(rig: &Rig, command: &str) -> WholeTimes {
    let tally = &rig.proxy.core.cx.stats.tally;
    let row = tally.commands().find(|(name, _)| *name == command).map(|(_, row)| row.whole.clone());
    row.flatten().map_or_else(WholeTimes::default, |times| *times)
}

fn count_and_sum(times: &Latency) -> (u64, u64) {
    (times.count_all(), times.sum_us())
}

#[test]
fn about_one_request_in_64_is_measured() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    for _ in 0..640 {
        rig.client_sends(client, "get a|get b|");
        rig.pass(ms(5));
        rig.node_sends(0, "$1|x|$1|y|");
    }
    let times = times_of(&rig, "get");
    let (count, sum_us) = count_and_sum(&times.whole);
    assert!((10..=30).contains(&count), "{count}");
    assert_eq!(sum_us, count * 5000);
    assert_eq!(count_and_sum(&times.proxy), (count, 0), "all of it was at the node");
    rig.proxy.core.publish();
    let nodes = rig.proxy.core.cx.board.page().nodes.nodes;
    let of_node = nodes[0].counts.whole.as_ref().expect("it was measured");
    assert_eq!(count_and_sum(&of_node.whole), (count, sum_us));
}

#[test]
fn the_wait_for_an_earlier_reply_is_in_the_proxy() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    for _ in 0..640 {
        rig.client_sends(client, &format!("get {a}|strlen {b}|"));
        rig.pass(ms(20));
        rig.node_sends(1, ":1|");
        rig.pass(ms(30));
        rig.node_sends(0, "$1|x|");
    }
    let (first, second) = (times_of(&rig, "get"), times_of(&rig, "strlen"));
    let count = second.whole.count_all();
    assert!(count > 0 && first.whole.count_all() > 0);
    assert_eq!(first.proxy.sum_us(), 0);
    assert_eq!((second.whole.sum_us(), second.proxy.sum_us()), (count * 50_000, count * 30_000));
}

#[test]
fn the_wait_for_a_client_that_reads_late_is_in_the_proxy() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    for _ in 0..320 {
        rig.stick(client);
        rig.client_sends(client, "get a|");
        rig.pass(ms(1));
        rig.node_sends(0, "$1|x|");
        rig.pass(ms(2));
        rig.unstick(client);
    }
    let times = times_of(&rig, "get");
    let count = times.whole.count_all();
    assert!(count > 0);
    assert_eq!((times.whole.sum_us(), times.proxy.sum_us()), (count * 3000, count * 2000));
}

#[test]
fn a_split_request_is_at_the_nodes_until_the_last_part() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    for _ in 0..320 {
        rig.client_sends(client, &format!("mget {a} {b}|"));
        rig.node_sends(0, "*1|$-1|");
        rig.pass(ms(7));
        rig.node_sends(1, "*1|$-1|");
    }
    let times = times_of(&rig, "mget");
    let count = times.whole.count_all();
    assert!(count > 0);
    assert_eq!((times.whole.sum_us(), times.proxy.sum_us()), (count * 7000, 0));
}

#[test]
fn requests_that_are_answered_here_are_in_the_proxy() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    (0..320).for_each(|_| rig.client_sends(client, "ping|"));
    let times = times_of(&rig, "ping");
    assert!(times.whole.count_all() > 0);
    assert_eq!(times.whole.count_all(), times.proxy.count_all());
}

#[test]
fn requests_that_wait_on_purpose_are_not_measured() {
    let mut rig = Rig::ready(1);
    let clients: Vec<_> = (0..320).map(|_| rig.client()).collect();
    clients.iter().for_each(|&client| rig.client_sends(client, "blpop a 0|"));
    assert!(rig.proxy.core.cx.stats.sampling.followed.is_empty());
    assert_eq!(times_of(&rig, "blpop").whole.count_all(), 0);
}

#[test]
fn a_request_is_followed_for_a_minute() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.stick(client);
    let place = rig.proxy.core.cx.stats.sampling.followed.len() as u32;
    rig.client_sends(client, "ping|");
    take::follow(&mut rig.proxy.core.cx, client, place, None);
    rig.now += Duration::from_secs(61);
    crate::end_turn(&mut rig.proxy, rig.now);
    assert!(rig.proxy.core.cx.stats.sampling.followed.is_empty());
}

#[test]
fn a_bounded_number_of_requests_is_followed() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    for _ in 0..300 {
        take::follow(&mut rig.proxy.core.cx, client, 0, None);
    }
    assert_eq!(rig.proxy.core.cx.stats.sampling.followed.len(), 256);
    assert_eq!(rig.proxy.counters().latency_samples_left_out, 44);
}
