//! Slow requests. `|` stands for CR LF.

use super::*;
use crate::limits::Slowlog;
use crate::{Board, Settings, SlowRequest};
use std::num::NonZeroU64;
use std::sync::Arc;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn noted(rig: &Rig) -> Vec<SlowRequest> {
    rig.proxy.core.cx.board.slow.last(usize::MAX)
}

fn rig_with(slowlog: Slowlog) -> Rig {
    let settings = Settings { slowlog, ..Settings::default() };
    let mut rig = Rig::over("127.0.0.1:7000", Limits::default(), settings, &Arc::new(Board::new(1)));
    rig.bring_up(0);
    rig
}

/// The args of an entry as text.
fn args(entry: &SlowRequest) -> String {
    let words: Vec<String> = entry.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    words.join(" ")
}

#[test]
fn a_request_that_takes_long_is_noted_with_its_node() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let key = rig.key(1);
    rig.client_sends(client, &format!("set {key} v|"));
    rig.pass(ms(25));
    rig.node_sends(1, "+OK|");
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!((args(entry), entry.total_us, entry.queued_us), (format!("set {key} v"), 25_000, 0));
    assert_eq!((entry.node.as_str(), entry.reply_bytes, entry.tries), ("127.0.0.1:7001", 5, 1));
    assert_eq!(
        entry.request_bytes,
        Some(format!("*3|$3|set|${}|{key}|$1|v|", key.len()).replace('|', "12").len())
    );
}

/// Else large writes would cost much more.
#[test]
fn arguments_of_much_in_flight_are_not_kept() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, &format!("*3|$3|set|$1|k|$20000|{}|", "v".repeat(20_000)));
    rig.node_got(0);
    assert!(rig.proxy.core.cx.engine.memory.all_moving_bytes() < 1000);
    rig.pass(ms(25));
    rig.node_sends(0, "+OK|");
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!((entry.command, args(entry).as_str(), entry.request_bytes), ("set", "", None));
}

/// A read may be sent again, so it is kept whatever is in flight.
#[test]
fn reads_behind_a_large_write_are_sent_again() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, &format!("*3|$3|set|$1|k|$20000|{}|get a|", "v".repeat(20_000)));
    rig.node_got(0);
    let kept: usize = rig.proxy.core.cx.engine.links.iter().map(|link| link.account_of_outbox().0).sum();
    assert!(kept > 20_000, "{kept}");
}

#[test]
fn fast_requests_are_not_noted() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|get b|");
    rig.pass(ms(9));
    rig.node_sends(0, "$-1|$-1|");
    assert_eq!(noted(&rig), []);
}

#[test]
fn each_part_of_a_split_request_is_noted_for_itself() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("mget {a} {b}|"));
    rig.node_sends(0, "*1|$-1|");
    rig.pass(ms(30));
    rig.node_sends(1, "*1|$-1|");
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!((args(entry).to_lowercase(), entry.shard.as_str()), (format!("mget {b}"), "127.0.0.1:7001"));
    assert_eq!(entry.merge_us, Some(30_000), "the other part waited for this one");
}

/// The stages of an entry beside the time at the node: read, merge, order, client.
fn stages(entry: &SlowRequest) -> [Option<u32>; 4] {
    [entry.read_us, entry.merge_us, entry.order_us, entry.client_us]
}

#[test]
fn time_of_a_request_that_is_held_is_known() {
    let mut limits = Limits::default();
    limits.engine.pending_max = 1;
    let mut rig = Rig::over("127.0.0.1:7000", limits, Settings::default(), &Arc::new(Board::new(1)));
    rig.bring_up(0);
    let client = rig.client();
    rig.client_sends(client, "get a|get b|get c|");
    for time in [25, 30, 35] {
        rig.pass(ms(time));
        rig.node_sends(0, "$-1|");
    }
    let seen: Vec<_> = noted(&rig).iter().map(|entry| (args(entry), entry.total_us, entry.read_us)).collect();
    let expected =
        [("get c", 35_000, Some(55_000)), ("get b", 30_000, Some(25_000)), ("get a", 25_000, Some(0))];
    assert_eq!(seen, expected.map(|(request, total_us, read_us)| (request.to_owned(), total_us, read_us)));
}

#[test]
fn half_a_request_is_not_held_by_shardis() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "*2|$3|get|$1");
    rig.pass(ms(500));
    rig.client_sends(client, "|a|");
    rig.pass(ms(25));
    rig.node_sends(0, "$-1|");
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!((entry.total_us, stages(entry)), (25_000, [Some(0), None, Some(0), Some(0)]));
}

#[test]
fn a_reply_that_waits_for_an_earlier_one_says_so() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {a}|get {b}|"));
    rig.pass(ms(20));
    rig.node_sends(1, "$-1|");
    let [waiting] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!(stages(waiting), [Some(0), None, None, None]);
    rig.pass(ms(30));
    rig.node_sends(0, "$-1|");
    let [first, second] = &noted(&rig)[..] else { panic!("two entries") };
    assert_eq!((first.total_us, stages(first)), (50_000, [Some(0), None, Some(0), Some(0)]));
    assert_eq!((second.total_us, stages(second)), (20_000, [Some(0), None, Some(30_000), Some(0)]));
}

#[test]
fn time_of_a_client_that_does_not_read_is_known() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.stick(client);
    rig.client_sends(client, "get a|get b|");
    rig.pass(ms(25));
    rig.node_sends(0, "$1|x|");
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!(stages(entry), [Some(0), None, Some(0), None]);
    rig.pass(ms(40));
    rig.node_sends(0, "$1|y|");
    rig.unstick(client);
    let taken: Vec<_> = noted(&rig).iter().map(|entry| entry.client_us).collect();
    assert_eq!(taken, [Some(0), Some(40_000)]);
}

#[test]
fn the_end_of_a_request_whose_client_has_gone_is_unknown() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.stick(client);
    rig.client_sends(client, "get a|");
    rig.pass(ms(25));
    rig.node_sends(0, "$1|x|");
    rig.event(Event::Closed { conn: client, reason: "reset" });
    rig.pass(ms(25));
    rig.perform();
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!(entry.client_us, None);
    assert!(rig.proxy.core.cx.slow.deliveries.is_empty(), "it is followed no further");
}

#[test]
fn slow_requests_are_counted_by_command() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|get b|set a b|");
    rig.pass(ms(25));
    rig.node_sends(0, "$-1|$-1|+OK|");
    let counts: Vec<_> = rig.proxy.core.cx.board.slow.by_command().into_iter().collect();
    assert_eq!(counts, [("get", 2), ("set", 1)]);
}

#[test]
fn only_the_slow_ones_of_a_pipeline_are_noted() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "get a|");
    rig.pass(ms(8));
    rig.client_sends(client, "get b|");
    rig.pass(ms(8));
    // The reply to the second is not complete.
    rig.node_sends(0, "$1|x|$1|");
    let slow: Vec<String> = noted(&rig).iter().map(args).collect();
    assert_eq!(slow, ["get a"]);
}

#[test]
fn time_of_a_node_that_takes_no_bytes_is_queued_time() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let node = rig.node(0);
    rig.stick(node);
    rig.client_sends(client, "get a|");
    rig.pass(ms(40));
    rig.unstick(node);
    rig.pass(ms(5));
    rig.node_sends(0, "$-1|");
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!((entry.queued_us, entry.node_us()), (40_000, 5_000));
}

#[test]
fn a_wait_for_an_element_is_not_slow() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "blpop q 1|");
    let held = rig.bring_up_pinned(0);
    rig.sends(held, ":77|");
    rig.pass(ms(900));
    rig.sends(held, "*2|$1|q|$1|x|");
    assert_eq!(noted(&rig), []);
}

#[test]
fn long_arguments_are_cut_as_in_redis() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, &format!("rpush l {}{}|", "x".repeat(130), " y".repeat(40)));
    rig.pass(ms(25));
    rig.node_sends(0, ":41|");
    let [entry] = &noted(&rig)[..] else { panic!("one entry") };
    assert_eq!(entry.args[2], [&b"x".repeat(128)[..], b"... (2 more bytes)"].concat());
    assert_eq!((entry.args.len(), entry.args_left_out), (32, 11));
}

#[test]
fn a_password_that_an_operator_sets_is_not_noted() {
    let mut rig = Rig::ready_for_admin(1);
    let client = rig.client();
    rig.client_sends(client, "config set requirepass secret|config set masterauth secret|");
    rig.pass(ms(25));
    rig.node_sends(0, "+OK|+OK|");
    let entries = noted(&rig);
    assert!(!entries.is_empty());
    assert!(entries.iter().all(|entry| !args(entry).contains("secret")), "{entries:?}");
}

#[test]
fn one_in_so_many_is_a_sample() {
    let one_in = NonZeroU64::new(10);
    let mut rig = rig_with(Slowlog { one_in, ..Slowlog::default() });
    let client = rig.client();
    for _ in 0..35 {
        rig.client_sends(client, "get a|");
        rig.pass(ms(1));
        rig.node_sends(0, "$-1|");
    }
    let samples: Vec<_> = noted(&rig).iter().map(|entry| (entry.is_slow, entry.total_us)).collect();
    assert_eq!(samples, [(false, 1000); 3]);
}

#[test]
fn a_flood_of_slow_requests_is_bounded() {
    let mut rig = Rig::ready(1);
    for _ in 0..10 {
        let client = rig.client();
        rig.client_sends(client, &"get a|".repeat(20));
    }
    rig.pass(ms(25));
    rig.node_sends(0, &"$-1|".repeat(200));
    assert_eq!((noted(&rig).len(), rig.proxy.core.cx.board.slow.totals()), (128, (200, 72)));
}

#[test]
fn a_sample_that_is_left_out_is_no_slow_request() {
    let one_in = NonZeroU64::new(1);
    let mut rig = rig_with(Slowlog { one_in, slower_than_us: None, ..Slowlog::default() });
    let client = rig.client();
    for _ in 0..400 {
        rig.client_sends(client, "get a|");
        rig.node_sends(0, "$-1|");
    }
    assert_eq!(rig.proxy.core.cx.board.slow.totals(), (0, 0));
}

#[test]
fn the_slow_log_can_be_switched_off() {
    let mut rig = rig_with(Slowlog { slower_than_us: None, ..Slowlog::default() });
    let client = rig.client();
    rig.client_sends(client, "set a b|");
    rig.pass(ms(900));
    rig.node_sends(0, "+OK|");
    assert_eq!(noted(&rig), []);
}

#[test]
fn an_operator_reads_the_slow_log() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "set a b|");
    rig.pass(ms(25));
    rig.node_sends(0, "+OK|");
    rig.taken(client);
    rig.client_sends(client, "proxy slowlog len|proxy slowlog get 1|");
    let reply = rig.taken(client);
    assert!(reply.starts_with(":1|*1|*7|:1|"), "{reply}");
    for part in [
        "|*3|$3|set|$1|a|$1|b|",
        "|$6|reason|$4|slow|",
        "|$7|node-us|:25000|",
        "|$7|read-us|:0|",
        "|$8|merge-us|:-1|",
        "|$8|order-us|:0|",
        "|$9|client-us|:0|",
        "|$5|shard|$14|127.0.0.1:7000|",
    ] {
        assert!(reply.contains(part), "{part} in {reply}");
    }
    rig.client_sends(client, "proxy slowlog reset|proxy slowlog get|proxy slowlog nosuch|");
    let reply = rig.taken(client);
    assert!(reply.starts_with("+OK|*0|-ERR "), "{reply}");
}
