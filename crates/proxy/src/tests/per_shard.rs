//! Transcripts of transactions over several shards (`--transactions=per-shard`). `|` stands for CR LF.

use super::redirect::ASKING;
use crate::cross_slot::remedy::Remedy;
use crate::testing::{Rig, crossed};
use crate::{ConnId, Event, Limits, Settings, Transactions};
use std::time::Duration;

const MULTI: &str = "*1|$5|MULTI|";
const EXEC: &str = "*1|$4|EXEC|";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.|";

fn settings() -> Settings {
    Settings { transactions: Transactions::PerShard, ..Settings::default() }
}

fn ready(shards: usize) -> Rig {
    Rig::ready_as(shards, Limits::default(), settings())
}

/// `words` as a request.
fn words(words: &[&str]) -> String {
    let all = words.iter().map(|word| format!("${}|{word}|", word.len()));
    format!("*{}|{}", words.len(), all.collect::<String>())
}

/// The requests of one part of a transaction, as the node gets them.
fn part(requests: &[&[&str]]) -> String {
    let requests: String = requests.iter().map(|request| words(request)).collect();
    format!("{MULTI}{requests}{EXEC}")
}

/// The replies of a node to a transaction of `count` commands.
fn ran(count: usize, results: &str) -> String {
    format!("+OK|{}*{count}|{results}", "+QUEUED|".repeat(count))
}

/// Watches `key` for `client`, on a held link.
fn watch(rig: &mut Rig, client: ConnId, key: &str) -> ConnId {
    rig.client_sends(client, &format!("watch {key}|"));
    let held = rig.pinned_now();
    assert_eq!(rig.taken(held), words(&["watch", key]));
    rig.sends(held, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    held
}

/// Checks that nothing is left of transactions and their links.
fn assert_idle(rig: &Rig) {
    let core = &rig.proxy.core;
    assert_eq!((core.execs.executions.len(), core.execs.replays.len(), core.execs.mixtures.len()), (0, 0, 0));
    assert_eq!((rig.proxy.pending().conns_held, rig.proxy.held_bytes()), (0, 0));
}

#[test]
fn each_shard_gets_a_transaction_and_the_client_its_order() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|get {a}|ping|get {b}|exec|"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|+QUEUED|");
    assert_eq!(rig.node_got(0), part(&[&["set", &a, "1"], &["get", &a], &["ping"]]));
    assert_eq!(rig.node_got(1), part(&[&["set", &b, "2"], &["get", &b]]));
    rig.node_sends(1, &ran(2, "+OK|$1|2|"));
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, &ran(3, "+OK|$1|1|+PONG|"));
    assert_eq!(rig.taken(client), "*5|+OK|+OK|$1|1|+PONG|$1|2|");
    assert_idle(&rig);
}

#[test]
fn keys_of_one_shard_go_the_way_of_one_transaction() {
    let mut rig = ready(2);
    let client = rig.client();
    let b = rig.key(1);
    rig.client_sends(client, &format!("multi|ping|set {b} 2|exec|get {b}|"));
    assert_eq!(rig.node_got(1), part(&[&["ping"], &["set", &b, "2"]]) + &words(&["get", &b]), "no barrier");
    rig.node_sends(1, &ran(2, "+PONG|+OK|"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|*2|+PONG|+OK|");
}

#[test]
fn parts_wait_for_earlier_and_hold_back_later_requests() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {a}|multi|set {a} 1|set {b} 2|exec|get {b}|"));
    assert_eq!(rig.node_got(0), words(&["get", &a]));
    assert_eq!(rig.node_got(1), "", "the GET may have to be asked again, and must not see the SET");
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.node_got(0), part(&[&["set", &a, "1"]]));
    assert_eq!(rig.node_got(1), part(&[&["set", &b, "2"]]));
    rig.node_sends(1, &ran(1, "+OK|"));
    rig.node_sends(0, &ran(1, "+OK|"));
    assert_eq!(rig.taken(client), "$-1|+OK|+QUEUED|+QUEUED|*2|+OK|+OK|");
    assert_eq!(rig.node_got(1), words(&["get", &b]));
}

#[test]
fn commands_over_several_shards_are_split_within_the_parts() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|mset {b} 1 {a} 2|mget {a} {b} {a}|del {a} {b}|get {b}|exec|"));
    assert_eq!(
        rig.node_got(0),
        part(&[&["mset", &a, "2"], &["mget", &a, &a], &["del", &a]]),
        "the first key decides which part is first, and not who gets what"
    );
    assert_eq!(rig.node_got(1), part(&[&["mset", &b, "1"], &["mget", &b], &["del", &b], &["get", &b]]));
    rig.node_sends(0, &ran(3, "+OK|*2|$1|2|$1|2|:1|"));
    rig.node_sends(1, &ran(4, "+OK|*1|$1|1|:1|$-1|"));
    assert_eq!(rig.taken(client).replace("+QUEUED|", ""), "+OK|*4|+OK|*3|$1|2|$1|1|$1|2|:2|$-1|");
    assert_idle(&rig);
}

#[test]
fn a_command_that_cannot_be_split_spoils_the_transaction() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    for line in [format!("sunion {a} {b}"), format!("msetnx {a} 1 {b} 2"), format!("eval x 2 {a} {b}")] {
        rig.client_sends(client, &format!("multi|set {a} 1|set {b} 1|{line}|get {a}|exec|"));
        let replies = rig.taken(client);
        assert!(replies.contains(&crossed(Remedy::HashTag)), "{replies}");
        assert!(replies.ends_with(&format!("+QUEUED|{ABORTED}")), "{replies}");
    }
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    assert_idle(&rig);
}

#[test]
fn mset_without_a_value_is_refused_by_one_node() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|set {b} 1|mset {a} 1 {b}|exec|"));
    assert_eq!(rig.node_got(1), part(&[&["set", &b, "1"], &["mset", &a, "1", &b]]));
}

#[test]
fn nothing_is_sent_if_a_shard_is_known_to_be_down() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let conn = rig.node(1);
    rig.event(Event::Closed { conn, reason: "gone" });
    rig.pass(Duration::from_millis(5));
    let conn = rig.node(1);
    rig.event(Event::Closed { conn, reason: "connection refused" });
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|client setname x|exec|client getname|"));
    let replies = rig.taken(client);
    assert!(
        replies.contains(
            "-EXECABORT Transaction discarded because of: node connection lost (shard 127.0.0.1:7001"
        ),
        "{replies}"
    );
    assert!(replies.ends_with("$-1|"), "the name is not set: {replies}");
    assert_eq!(rig.node_got(0), "");
    assert_idle(&rig);
}

#[test]
fn awaited_elements_are_pushed_last() {
    let mut rig = ready(3);
    let client = rig.client();
    let (a, b, c) = (rig.key(0), rig.key(1), rig.key(2));
    for (requests, added) in [
        (format!("lpush {a} id|set {b} data|set {c} data"), ["lpush", &a, "id"].as_slice()),
        (format!("set {b} data|xadd {a} * f v|set {c} data"), &["xadd", &a, "*", "f", "v"]),
        (format!("set {b} data|set {c} data|zadd {a} 1 id"), &["zadd", &a, "1", "id"]),
        (format!("eval code 1 {a}|set {b} data|set {c} data"), &["eval", "code", "1", &a]),
    ] {
        rig.client_sends(client, &format!("multi|{requests}|exec|"));
        rig.taken(client);
        assert_eq!(rig.node_got(1), part(&[&["set", &b, "data"]]));
        assert_eq!(rig.node_got(2), part(&[&["set", &c, "data"]]));
        rig.node_sends(1, &ran(1, "+OK|"));
        assert_eq!(rig.node_got(0), "", "the data may not be there yet");
        rig.node_sends(2, &ran(1, "+OK|"));
        assert_eq!(rig.node_got(0), part(&[added]));
        rig.node_sends(0, &ran(1, ":1|"));
        let replies = rig.taken(client);
        assert!(replies.starts_with("*3|") && replies.contains(":1|"), "{replies}");
    }
    // If only such elements are pushed, all parts are sent together.
    rig.client_sends(client, &format!("multi|rpush {a} id|rpush {b} id|lpop {a}|exec|"));
    rig.taken(client);
    assert_eq!(rig.node_got(0), part(&[&["rpush", &a, "id"], &["lpop", &a]]));
    assert_eq!(rig.node_got(1), part(&[&["rpush", &b, "id"]]));
    rig.node_sends(1, &ran(1, ":1|"));
    rig.node_sends(0, &ran(2, ":1|$2|id|"));
    assert_eq!(rig.taken(client), "*3|:1|:1|$2|id|");
    // A command that only removes elements is not awaited.
    rig.client_sends(client, &format!("multi|lpop {a}|set {b} data|exec|"));
    rig.taken(client);
    assert_eq!(rig.node_got(0), part(&[&["lpop", &a]]));
    assert_eq!(rig.node_got(1), part(&[&["set", &b, "data"]]));
    rig.node_sends(0, &ran(1, "$-1|"));
    rig.node_sends(1, &ran(1, "+OK|"));
    assert_eq!(rig.taken(client), "*2|$-1|+OK|");
    assert_idle(&rig);
}

#[test]
fn wakeup_push_is_not_sent_if_its_data_may_be_missing() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|rpush {a} id|set {b} data|exec|"));
    rig.taken(client);
    let conn = rig.node(1);
    rig.event(Event::Ended { conn });
    assert_eq!(
        rig.taken(client),
        "*2|-ERR not run on shard 127.0.0.1:7000: the transaction ended with an earlier part; commands of this \
         transaction on other shards may have run|-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|"
    );
    assert_eq!(rig.node_got(0), "");
    assert_idle(&rig);
}

#[test]
fn a_part_that_is_lost_has_errors_in_its_places() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|incr {b}|mget {a} {b}|del {b} {a}|exec|"));
    rig.taken(client);
    rig.node_sends(0, &ran(3, "+OK|*1|$1|1|:1|"));
    let conn = rig.node(1);
    rig.event(Event::Ended { conn });
    let short = "-ERR outcome unknown (shard 127.0.0.1:7001)";
    assert_eq!(
        rig.taken(client),
        format!(
            "*5|+OK|-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|{short}|{short}|\
             {short}; other parts of this command may have been applied|"
        )
    );
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+PONG|");
    assert_idle(&rig);
}

#[test]
fn a_part_that_a_node_refuses_has_the_reason() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|set {b} 2|set {a} 1|incr {a}|exec|"));
    rig.taken(client);
    rig.node_sends(0, &format!("+OK|-OOM no memory.|+QUEUED|{ABORTED}"));
    rig.node_sends(1, &ran(1, "+OK|"));
    assert_eq!(
        rig.taken(client),
        "*3|+OK|-ERR not run on shard 127.0.0.1:7000: OOM no memory.; commands of this transaction on other shards \
         may have run|-ERR not run (shard 127.0.0.1:7000)|"
    );
    assert_idle(&rig);
}

#[test]
fn a_transaction_of_which_nothing_has_run_is_one_error() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|set {b} 2|set {a} 1|exec|"));
    rig.taken(client);
    rig.node_sends(0, &format!("+OK|-OOM no memory.|{ABORTED}"));
    rig.node_sends(1, &format!("+OK|+QUEUED|{ABORTED}"));
    assert_eq!(rig.taken(client), ABORTED, "that of the first part, in the client's order");
    rig.client_sends(client, &format!("multi|set {a} 2|set {b} 1|exec|"));
    rig.taken(client);
    rig.node_sends(1, &format!("+OK|+QUEUED|{ABORTED}"));
    rig.node_sends(0, &format!("+OK|-OOM no memory.|{ABORTED}"));
    assert_eq!(
        rig.taken(client),
        "-EXECABORT Transaction discarded because of: OOM no memory. (shard 127.0.0.1:7000)|"
    );
    assert_idle(&rig);
}

#[test]
fn the_reply_of_a_late_part_is_dropped() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|exec|"));
    rig.taken(client);
    rig.node_sends(0, &ran(1, "+OK|"));
    rig.pass(Duration::from_secs(1));
    let replies = rig.taken(client);
    assert!(replies.starts_with("*2|+OK|-ERR node timeout after 1000 ms, outcome unknown"), "{replies}");
    rig.client_sends(client, &format!("get {b}|"));
    rig.node_sends(1, &(ran(1, "+OK|") + "$1|2|"));
    assert_eq!(rig.taken(client), "$1|2|");
    assert_idle(&rig);
}

#[test]
fn inlays_stand_between_the_replies_of_parts() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|client setname x|set {a} 1|client getname|set {b} 2|exec|"));
    rig.taken(client);
    rig.node_sends(0, &ran(1, "+OK|"));
    rig.node_sends(1, &ran(1, ":2|"));
    assert_eq!(rig.taken(client), "*4|+OK|+OK|$1|x|:2|");
    rig.client_sends(client, "reset|");
    assert_idle(&rig);
}

#[test]
fn discard_reset_and_quit_leave_nothing() {
    let mut rig = ready(2);
    let (a, b) = (rig.key(0), rig.key(1));
    for (line, reply) in
        [("discard", "+OK|"), ("reset", "+RESET|"), ("quit", "+OK|"), ("exec now", "-EXECABORT")]
    {
        let client = rig.client();
        rig.client_sends(client, &format!("multi|set {a} 1|mset {a} 1 {b} 2|{line}|"));
        let replies = rig.taken(client);
        assert!(
            replies.strip_prefix("+OK|+QUEUED|+QUEUED|").is_some_and(|rest| rest.starts_with(reply)),
            "{replies}"
        );
        assert_idle(&rig);
    }
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}

#[test]
fn a_client_that_leaves_stops_no_part() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let held = watch(&mut rig, client, &a);
    rig.client_sends(client, &format!("multi|set {a} 1|client setname x|set {b} 2|exec|"));
    assert_eq!(rig.taken(held), part(&[&["set", &a, "1"]]));
    rig.event(Event::Closed { conn: client, reason: "gone" });
    assert_eq!(rig.node_got(1), "");
    rig.sends(held, &ran(1, "+OK|"));
    assert_eq!(rig.node_got(1), part(&[&["set", &b, "2"]]), "it was begun, and is brought to its end");
    assert!(!rig.proxy.is_drained());
    rig.node_sends(1, &ran(1, "+OK|"));
    assert!(rig.proxy.is_drained());
    assert_idle(&rig);
}

#[test]
fn the_part_that_watches_runs_first_and_alone() {
    let mut rig = ready(3);
    let client = rig.client();
    let (a, b, c) = (rig.key(0), rig.key(1), rig.key(2));
    let held = watch(&mut rig, client, &b);
    rig.client_sends(client, &format!("get {a}|multi|set {a} 1|set {b} 2|set {c} 3|exec|ping|"));
    assert_eq!(rig.taken(held), "", "what was sent before is not overtaken");
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(held), part(&[&["set", &b, "2"]]));
    rig.node_got(0);
    rig.sends(held, &ran(1, "+OK|"));
    assert_eq!(rig.node_got(0), part(&[&["set", &a, "1"]]));
    assert_eq!(rig.node_got(2), part(&[&["set", &c, "3"]]));
    rig.node_sends(2, &ran(1, "+OK|"));
    rig.node_sends(0, &ran(1, "+OK|"));
    assert_eq!(rig.taken(client), "$-1|+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|+OK|+OK|+PONG|");
    assert_idle(&rig);
    // The next client gets the link.
    let other = rig.client();
    rig.client_sends(other, &format!("watch {b}|"));
    assert_eq!(rig.taken(held), words(&["watch", &b]));
}

#[test]
fn nothing_runs_if_a_watched_key_has_changed() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let held = watch(&mut rig, client, &b);
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|exec|"));
    rig.sends(held, "+OK|+QUEUED|*-1|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|*-1|");
    assert_eq!(rig.node_got(0), "");
    assert_idle(&rig);
}

#[test]
fn keys_that_are_only_watched_are_asked_about_first() {
    for (answer, runs) in [("+OK|*0|", true), ("+OK|*-1|", false)] {
        let mut rig = ready(2);
        let client = rig.client();
        let (a, b) = (rig.key(0), rig.key(1));
        let held = watch(&mut rig, client, &b);
        rig.client_sends(client, &format!("multi|set {a} 1|exec|"));
        assert_eq!((rig.taken(held), rig.node_got(0)), (format!("{MULTI}{EXEC}"), String::new()));
        rig.sends(held, answer);
        let expected = if runs { part(&[&["set", &a, "1"]]) } else { String::new() };
        assert_eq!(rig.node_got(0), expected);
        if runs {
            rig.node_sends(0, &ran(1, "+OK|"));
        }
        assert_eq!(rig.taken(client), format!("+OK|+QUEUED|{}", if runs { "*1|+OK|" } else { "*-1|" }));
        assert_idle(&rig);
    }
}

#[test]
fn a_watching_part_of_unknown_outcome_ends_the_transaction() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let held = watch(&mut rig, client, &b);
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|exec|"));
    rig.taken(client);
    rig.event(Event::Ended { conn: held });
    assert_eq!(
        rig.taken(client),
        "*2|-ERR not run on shard 127.0.0.1:7000: the transaction ended with an earlier part; commands of this \
         transaction on other shards may have run|-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|"
    );
    assert_eq!(rig.node_got(0), "");
    assert_idle(&rig);
}

#[test]
fn more_parts_than_the_limit_are_refused() {
    let limits = Limits { transaction_parts_max: 2, ..Limits::default() };
    let mut rig = Rig::ready_as(3, limits, settings());
    let client = rig.client();
    let (a, b, c) = (rig.key(0), rig.key(1), rig.key(2));
    let refused =
        "-ERR the transaction uses more shards or slots than the limit of the proxy. EXEC will discard it|";
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 1|set {c} 1|exec|"));
    assert_eq!(rig.taken(client), format!("+OK|+QUEUED|+QUEUED|{refused}{ABORTED}"));
    rig.client_sends(client, &format!("multi|mget {a} {b} {c}|exec|"));
    assert_eq!(rig.taken(client), format!("+OK|{refused}{ABORTED}"));
}

#[test]
fn retried_watch_does_not_hide_a_lost_one() {
    let (mut rig, client, of_a, of_c) = watching_a_and_c();
    rig.sends(of_c, "-TRYAGAIN Multiple keys request during rehashing of slot|");
    assert_eq!(rig.taken(client), "", "it waits for its slot");
    rig.event(Event::Closed { conn: of_a, reason: "gone" });
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.taken(client), "+OK|");
    rig.client_sends(client, "multi|set c 1|exec|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|*-1|", "nobody knows whether a has changed");
    assert_idle(&rig);
}

#[test]
fn select_and_several_shards_do_not_go_together() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let refused = "-ERR SELECT is not supported in a transaction over several shards; send it before MULTI, or give the keys one hash tag|";
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 1|select 1|exec|"));
    assert_eq!(rig.taken(client), format!("+OK|+QUEUED|+QUEUED|{refused}{ABORTED}"));
    rig.client_sends(client, &format!("multi|set {a} 1|select 1|set {b} 1|exec|"));
    assert_eq!(rig.taken(client), format!("+OK|+QUEUED|+QUEUED|{refused}{ABORTED}"));
    let held = watch(&mut rig, client, &a);
    rig.client_sends(client, &format!("multi|select 1|set {b} 1|exec|"));
    let aborted = "-EXECABORT Transaction discarded because of: SELECT is not supported in a transaction over several shards; send it before MULTI, or give the keys one hash tag|";
    assert_eq!(rig.taken(client), format!("+OK|+QUEUED|+QUEUED|{aborted}"));
    assert_eq!(rig.taken(held), "*1|$7|UNWATCH|");
}

#[test]
fn slots_of_a_cluster_are_parts_and_a_moved_one_is_sent_again() {
    let mut rig = Rig::cluster_as(2, settings());
    let client = rig.client();
    // Slots 15495, 3300 and 7365: the first belongs to the second node, the others to the first.
    let (a, b, c) = ("a", "b", "c");
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|set {c} 3|exec|"));
    assert_eq!(rig.node_got(0), part(&[&["set", b, "2"]]) + &part(&[&["set", c, "3"]]));
    assert_eq!(rig.node_got(1), part(&[&["set", a, "1"]]));
    rig.node_sends(1, &ran(1, "+OK|"));
    rig.node_sends(0, &format!("{}+OK|-MOVED 7365 127.0.0.1:7001|{ABORTED}", ran(1, "+OK|")));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|+QUEUED|");
    assert_eq!(rig.node_got(1), part(&[&["set", c, "3"]]));
    rig.node_sends(1, &ran(1, ":3|"));
    assert_eq!(rig.taken(client), "*3|+OK|+OK|:3|");
    assert_idle(&rig);
}

#[test]
fn a_part_that_finds_no_node_in_time_was_not_run() {
    let mut rig = Rig::cluster_as(2, settings());
    let client = rig.client();
    rig.client_sends(client, "multi|set a 1|set b 2|exec|");
    rig.taken(client);
    rig.node_sends(1, &ran(1, "+OK|"));
    rig.node_sends(0, &format!("+OK|-CLUSTERDOWN Hash slot not served|{ABORTED}"));
    assert_eq!(rig.taken(client), "");
    for _ in 0..80 {
        rig.pass(Duration::from_millis(15));
        if rig.node_got(0).is_empty() {
            break;
        }
        rig.node_sends(0, &format!("+OK|-CLUSTERDOWN Hash slot not served|{ABORTED}"));
    }
    let replies = rig.taken(client);
    assert!(
        replies.starts_with("*2|+OK|-ERR not run on shard ") && replies.contains("CLUSTERDOWN"),
        "{replies}"
    );
    assert_idle(&rig);
}

#[test]
fn a_watched_slot_that_moved_counts_as_changed() {
    let mut rig = Rig::cluster_as(2, settings());
    let client = rig.client();
    let held = watch(&mut rig, client, "c");
    rig.client_sends(client, "multi|set a 1|set c 3|exec|");
    rig.sends(held, &format!("+OK|-MOVED 7365 127.0.0.1:7001|{ABORTED}"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|*-1|");
    assert_eq!(rig.node_got(1), "");
    assert_idle(&rig);
}

#[test]
fn a_move_found_by_another_request_ends_watches() {
    for (word, replies) in [("MOVED", "+OK|"), ("ASK", "+OK|+OK|")] {
        let mut rig = Rig::cluster_as(2, settings());
        let client = rig.client();
        watch(&mut rig, client, "c");
        rig.client_sends(client, "set c 1|");
        rig.node_sends(0, &format!("-{word} 7365 127.0.0.1:7001|"));
        rig.node_sends(1, replies);
        rig.client_sends(client, "multi|set a 1|set {a}2 2|exec|");
        assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|+QUEUED|*-1|");
        assert_idle(&rig);
    }
}

#[test]
fn the_reply_to_a_failed_part_stays_short() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let many = format!("incr {b}|").repeat(1000);
    rig.client_sends(client, &format!("multi|set {a} 1|{many}exec|"));
    rig.taken(client);
    rig.node_sends(0, &ran(1, "+OK|"));
    let conn = rig.node(1);
    rig.event(Event::Ended { conn });
    let reply = rig.taken(client);
    assert!(reply.len() < 50 * 1000, "{} bytes for requests of 26 bytes each", reply.len());
}

#[test]
fn memory_of_parts_is_counted_and_given_back() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let before = rig.proxy.held_bytes();
    let lines = format!("mset {a} 1 {b} 2|set {a} 1|set {b} 2|").repeat(100);
    rig.client_sends(client, &format!("multi|{lines}"));
    rig.taken(client);
    let held = rig.proxy.held_bytes() - before;
    assert!(held > 300 * 24 + 100 * 64, "{held} bytes are counted for pieces and shares as well");
    rig.client_sends(client, "discard|");
    rig.taken(client);
    assert_idle(&rig);
}

/// A client that watches `a` and `c`, in slots of two nodes, and the links of both. The first WATCH was answered.
fn watching_a_and_c() -> (Rig, ConnId, ConnId, ConnId) {
    let mut rig = Rig::cluster_as(2, settings());
    let client = rig.client();
    rig.client_sends(client, "watch a c|");
    let (of_a, of_c) = (rig.bring_up_pinned(1), rig.bring_up_pinned(0));
    rig.sends(of_a, "+OK|");
    rig.taken(of_c);
    (rig, client, of_a, of_c)
}

/// Watches `a`, on the first shard, and `b`, on the second, with one WATCH.
fn watch_both(rig: &mut Rig, client: ConnId, a: &str, b: &str) -> (ConnId, ConnId) {
    rig.client_sends(client, &format!("watch {a} {b}|"));
    let first = rig.bring_up_pinned(0);
    let second = rig.bring_up_pinned(1);
    assert_eq!((rig.taken(first), rig.taken(second)), (words(&["watch", a]), words(&["watch", b])));
    rig.sends(second, "+OK|");
    assert_eq!(rig.taken(client), "");
    rig.sends(first, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    (first, second)
}

/// A node's CLIENT INFO of a link.
fn info(flags: &str) -> String {
    let line = format!("id=7 addr=127.0.0.1:1 flags={flags} db=0");
    format!("${}|{line}|", line.len())
}

const INFO: &str = "*2|$6|CLIENT|$4|INFO|";

#[test]
fn keys_of_several_shards_are_checked_and_run_in_turn() {
    let mut rig = ready(3);
    let client = rig.client();
    let (a, b, c) = (rig.key(0), rig.key(1), rig.key(2));
    let (first, second) = watch_both(&mut rig, client, &a, &b);
    rig.client_sends(client, &format!("multi|set {c} 3|set {a} 1|set {b} 2|exec|"));
    assert_eq!((rig.taken(first), rig.taken(second)), (INFO.to_owned(), INFO.to_owned()));
    rig.sends(first, &info("x"));
    assert_eq!(rig.taken(first), "");
    rig.sends(second, &info("x"));
    assert_eq!(rig.taken(first), part(&[&["set", &a, "1"]]));
    rig.sends(first, &ran(1, "+OK|"));
    assert_eq!(rig.taken(second), part(&[&["set", &b, "2"]]));
    assert_eq!(rig.node_got(2), "");
    rig.sends(second, &ran(1, "+OK|"));
    assert_eq!(rig.node_got(2), part(&[&["set", &c, "3"]]));
    rig.node_sends(2, &ran(1, "+OK|"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|+OK|+OK|");
    assert_idle(&rig);
}

/// A client with a transaction over two shards. Each watching link was asked whether its key has changed.
fn checking_both() -> (Rig, ConnId, ConnId, ConnId) {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let (first, second) = watch_both(&mut rig, client, &a, &b);
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|exec|"));
    rig.taken(first);
    rig.taken(second);
    (rig, client, first, second)
}

#[test]
fn a_check_that_finds_a_change_lets_nothing_run() {
    let (mut rig, client, first, second) = checking_both();
    rig.sends(first, &info("N"));
    rig.sends(second, &info("xd"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|*-1|");
    assert_eq!((rig.taken(first).as_str(), rig.taken(second).as_str()), ("*1|$7|UNWATCH|", "*1|$7|UNWATCH|"));
    assert_idle_but_unwatching(&mut rig, &[first, second]);
}

#[test]
fn a_connection_that_is_lost_behind_its_check_is_not_used_again() {
    let (mut rig, client, first, second) = checking_both();
    rig.sends(second, &info("xd"));
    rig.event(Event::Ended { conn: second });
    rig.sends(first, &info("N"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|*-1|");
    assert_eq!(rig.taken(first), "*1|$7|UNWATCH|");
    assert_idle_but_unwatching(&mut rig, &[first]);
}

/// Checks that nothing is left once UNWATCH is answered.
fn assert_idle_but_unwatching(rig: &mut Rig, conns: &[ConnId]) {
    for &conn in conns {
        rig.sends(conn, "+OK|");
        assert!(!rig.is_closed(conn), "it is the next client's");
    }
    assert_idle(rig);
}

/// A client whose transaction of `commands` over three shards has ended with the part of the second, whose watched key
/// changed behind the check. The first part ran.
fn ended_behind_the_check(commands: impl Fn(&str, &str, &str) -> String) -> (Rig, ConnId) {
    let mut rig = ready(3);
    let client = rig.client();
    let (a, b, c) = (rig.key(0), rig.key(1), rig.key(2));
    let (first, second) = watch_both(&mut rig, client, &a, &b);
    rig.client_sends(client, &format!("multi|{}|exec|", commands(&a, &b, &c)));
    // Nodes that do not know CLIENT INFO are not checked.
    rig.sends(first, "-ERR unknown subcommand|");
    rig.sends(second, &info("x"));
    rig.sends(first, &ran(1, ":1|"));
    rig.sends(second, "+OK|+QUEUED|*-1|");
    (rig, client)
}

#[test]
fn a_key_that_changes_behind_the_check_stops_the_rest() {
    let (mut rig, client) = ended_behind_the_check(|a, b, c| format!("incr {a}|incr {b}|incr {c}"));
    assert_eq!(rig.node_got(2), "");
    let others = "commands of this transaction on other shards may have run|";
    assert_eq!(
        rig.taken(client),
        format!(
            "+OK|+QUEUED|+QUEUED|+QUEUED|*3|:1|-ERR not run on shard 127.0.0.1:7001: a watched key has changed; {others}\
             -ERR not run on shard 127.0.0.1:7002: the transaction ended with an earlier part; {others}"
        )
    );
    assert_idle(&rig);
}

#[test]
fn a_split_command_names_the_part_that_ended_the_transaction() {
    let (mut rig, client) = ended_behind_the_check(|a, b, c| format!("incr {a}|incr {c}|mset {c} 1 {b} 2"));
    let told = rig.taken(client);
    assert!(
        told.contains("-ERR not run on shard 127.0.0.1:7002: the transaction ended with an earlier part;"),
        "{told}"
    );
    assert!(told.contains("-ERR not run on shard 127.0.0.1:7001: a watched key has changed;"), "{told}");
    assert_idle(&rig);
}

#[test]
fn shards_that_are_only_watched_are_asked_together() {
    let mut rig = ready(3);
    let client = rig.client();
    let (a, b, c) = (rig.key(0), rig.key(1), rig.key(2));
    let (first, second) = watch_both(&mut rig, client, &a, &b);
    rig.client_sends(client, &format!("multi|incr {c}|exec|"));
    let guard = format!("{MULTI}{EXEC}");
    assert_eq!((rig.taken(first), rig.taken(second)), (guard.clone(), guard));
    rig.sends(first, "+OK|*0|");
    assert_eq!(rig.node_got(2), "");
    rig.sends(second, "+OK|*0|");
    assert_eq!(rig.node_got(2), part(&[&["incr", &c]]));
    rig.node_sends(2, &ran(1, ":1|"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|*1|:1|");
    assert_idle(&rig);
}

#[test]
fn an_empty_transaction_asks_all_shards_that_are_watched() {
    for (line, request, results, reply) in [
        ("multi|exec|", "", "*0|", "*0|"),
        ("multi|ping|exec|", "*1|$4|ping|", "+QUEUED|*1|+PONG|", "*1|+PONG|"),
    ] {
        let mut rig = ready(2);
        let client = rig.client();
        let (a, b) = (rig.key(0), rig.key(1));
        let (first, second) = watch_both(&mut rig, client, &a, &b);
        rig.client_sends(client, line);
        let guard = format!("{MULTI}{EXEC}");
        if !request.is_empty() {
            // The part whose WATCH was answered first watches first.
            assert_eq!((rig.taken(first), rig.taken(second)), (guard, String::new()));
            rig.sends(first, "+OK|*0|");
        }
        assert_eq!(rig.taken(second), format!("{MULTI}{request}{EXEC}"));
        rig.sends(second, &format!("+OK|{results}"));
        if request.is_empty() {
            rig.sends(first, "+OK|*0|");
        }
        assert!(rig.taken(client).ends_with(&format!("|{reply}")), "{line}");
        assert_idle(&rig);
    }
}

#[test]
fn a_lost_connection_among_several_that_watch_fails_exec() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let (first, second) = watch_both(&mut rig, client, &a, &b);
    rig.event(Event::Ended { conn: first });
    assert_eq!(rig.taken(second), "*1|$7|UNWATCH|");
    rig.client_sends(client, &format!("watch {a}|multi|set {b} 1|exec|multi|set {b} 1|exec|"));
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*-1|+OK|+QUEUED|");
    rig.node_sends(1, &ran(1, "+OK|"));
    assert_eq!(rig.taken(client), "*1|+OK|", "and only that EXEC");
    assert_idle_but_unwatching(&mut rig, &[second]);
}

#[test]
fn a_connection_that_is_lost_before_its_part_fails_the_rest() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let (first, second) = watch_both(&mut rig, client, &a, &b);
    rig.client_sends(client, &format!("multi|set {a} 1|set {b} 2|exec|"));
    rig.sends(first, &info("x"));
    rig.sends(second, &info("x"));
    rig.event(Event::Ended { conn: second });
    rig.sends(first, &ran(1, "+OK|"));
    let replies = rig.taken(client);
    assert!(
        replies.contains("*2|+OK|-ERR not run on shard 127.0.0.1:7001: a watched key has changed; "),
        "{replies}"
    );
    assert_idle(&rig);
}

#[test]
fn watch_failing_on_one_shard_still_watches_the_others() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("watch {a} {b}|"));
    let (first, second) = (rig.bring_up_pinned(0), rig.bring_up_pinned(1));
    rig.sends(first, "+OK|");
    rig.event(Event::Ended { conn: second });
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7001)|";
    assert_eq!(rig.taken(client), lost);
    rig.taken(first);
    rig.client_sends(client, &format!("multi|set {b} 1|exec|"));
    assert_eq!(rig.taken(first), format!("{MULTI}{EXEC}"), "what is watched more can only make EXEC fail");
}

#[test]
fn a_watch_whose_connections_are_both_lost_holds_nothing_back() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("watch {a}|"));
    let first = rig.pinned_now();
    rig.sends(first, "+OK|");
    rig.client_sends(client, &format!("watch {a} {b}|get {a}|"));
    let second = rig.bring_up_pinned(1);
    assert_eq!(rig.taken(second), words(&["watch", &b]));
    for conn in [first, second] {
        rig.event(Event::Closed { conn, reason: "reset" });
    }
    assert!(rig.taken(client).starts_with("+OK|-ERR "), "the second WATCH failed");
    assert_eq!(rig.node_got(0), words(&["get", &a]));
    rig.client_sends(client, "multi|exec|");
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.taken(client), "$-1|+OK|*-1|");
    assert_idle(&rig);
}

#[test]
fn every_end_of_a_watch_ends_it_on_all_shards() {
    for line in ["unwatch|", "multi|discard|", "reset|", "multi|get|exec|"] {
        let mut rig = ready(2);
        let client = rig.client();
        let (a, b) = (rig.key(0), rig.key(1));
        let (first, second) = watch_both(&mut rig, client, &a, &b);
        rig.client_sends(client, line);
        assert_eq!(
            (rig.taken(first).as_str(), rig.taken(second).as_str()),
            ("*1|$7|UNWATCH|", "*1|$7|UNWATCH|")
        );
        assert_idle_but_unwatching(&mut rig, &[first, second]);
    }
}

#[test]
fn a_client_that_leaves_has_all_its_watching_connections_closed() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let (first, second) = watch_both(&mut rig, client, &a, &b);
    rig.event(Event::Closed { conn: client, reason: "gone" });
    assert!(rig.is_closed(first) && rig.is_closed(second));
    assert_idle(&rig);
}

#[test]
fn watched_keys_are_on_as_many_shards_as_the_limit_permits() {
    let limits = Limits { watched_parts_max: 1, ..Limits::default() };
    let mut rig = Rig::ready_as(2, limits, settings());
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let refused =
        "-ERR the watched keys use more shards or slots than the limit of the proxy. Watch fewer keys|";
    rig.client_sends(client, &format!("watch {a} {b}|"));
    assert_eq!(rig.taken(client), refused);
    watch(&mut rig, client, &a);
    rig.client_sends(client, &format!("watch {b}|"));
    assert_eq!(rig.taken(client), refused);
}

#[test]
fn a_shard_that_is_down_keeps_no_connection_of_the_others() {
    let mut rig = ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    for reason in ["gone", "connection refused"] {
        let conn = rig.node(1);
        rig.event(Event::Closed { conn, reason });
        rig.pass(Duration::from_millis(5));
    }
    rig.client_sends(client, &format!("watch {a} {b}|"));
    assert!(rig.taken(client).starts_with("-TRYAGAIN shard 127.0.0.1:7001 unavailable"));
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn slots_of_one_node_are_watched_on_connections_of_their_own() {
    let mut rig = Rig::cluster_as(2, settings());
    let client = rig.client();
    // Slots 3300 and 7365, both of the first node.
    rig.client_sends(client, "watch b c|");
    let conns = rig.bring_up_all_pinned();
    let got: Vec<String> = conns.iter().map(|&conn| rig.taken(conn)).collect();
    assert_eq!(got, [words(&["watch", "b"]), words(&["watch", "c"])]);
    conns.iter().for_each(|&conn| rig.sends(conn, "+OK|"));
    rig.client_sends(client, "multi|set b 1|exec|");
    assert_eq!((rig.taken(conns[0]), rig.taken(conns[1])), (String::new(), format!("{MULTI}{EXEC}")));
    rig.sends(conns[1], "+OK|*0|");
    assert_eq!(rig.taken(conns[0]), part(&[&["set", "b", "1"]]));
    rig.sends(conns[0], &ran(1, "+OK|"));
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*1|+OK|");
    assert_idle(&rig);
}

#[test]
fn a_watch_of_a_slot_that_moved_follows_it() {
    let (mut rig, client, of_a, of_c) = watching_a_and_c();
    rig.sends(of_c, "-MOVED 7365 127.0.0.1:7001|");
    let moved = rig.idle_or_new(1, of_a);
    assert_eq!(rig.taken(moved), words(&["watch", "c"]));
    rig.sends(moved, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    rig.client_sends(client, "discard|unwatch|");
    assert_eq!((rig.taken(of_c).as_str(), rig.taken(moved).as_str()), ("", "*1|$7|UNWATCH|"));
}

#[test]
fn a_watch_that_was_asked_elsewhere_may_be_lost_meanwhile() {
    let (mut rig, client, of_a, of_c) = watching_a_and_c();
    rig.sends(of_c, "-ASK 7365 127.0.0.1:7001|");
    let asked = rig.bring_up_pinned(1);
    rig.event(crate::Event::Closed { conn: of_a, reason: "gone" });
    assert_eq!(rig.taken(asked), format!("{ASKING}{}*1|$7|UNWATCH|", words(&["watch", "c"])));
    rig.sends(asked, "+OK|");
    assert_eq!((rig.is_closed(asked), rig.taken(client).as_str()), (false, ""));
    rig.sends(asked, "+OK|+OK|");
    rig.client_sends(client, "multi|set c 1|exec|");
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*-1|");
    assert_idle(&rig);
}
