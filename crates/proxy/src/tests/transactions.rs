//! Transcripts of transactions. `|` stands for CR LF.

use crate::EngineLimits;
use crate::cross_slot::remedy::Remedy;
use crate::testing::{Rig, crossed};
use crate::{ConnId, Event, Limits};
use std::time::Duration;

const MULTI: &str = "*1|$5|MULTI|";
const EXEC: &str = "*1|$4|EXEC|";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.|";

#[test]
fn a_transaction_goes_out_in_one_piece_with_exec() {
    let mut rig = Rig::ready(2);
    let (client, other) = (rig.client(), rig.client());
    let key = rig.key(1);
    rig.client_sends(client, &format!("multi|incr {key}|"));
    rig.client_sends(other, &format!("get {key}|"));
    rig.client_sends(client, "ping|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|");
    assert_eq!(rig.node_got(1), format!("*2|$3|get|${}|{key}|", key.len()), "nothing before EXEC");
    rig.client_sends(client, "exec|");
    rig.client_sends(other, &format!("get {key}|"));
    let (len, get) = (key.len(), format!("*2|$3|get|${}|{key}|", key.len()));
    assert_eq!(rig.node_got(1), format!("{MULTI}*2|$4|incr|${len}|{key}|*1|$4|ping|{EXEC}{get}"));
    rig.node_sends(1, "$-1|+OK|+QUEUED|+QUE");
    assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), ("", "$-1|"));
    rig.node_sends(1, "UED|*2|:1|+PONG|$1|1|");
    assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), ("*2|:1|+PONG|", "$1|1|"));
    assert_eq!(rig.proxy.in_flight(), 0);
}

#[test]
fn pipelined_requests_keep_their_order_around_exec() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {a}|multi|get {b}|exec|get {b}|ping|"));
    rig.node_sends(1, "+OK|+QUEUED|*1|$1|b|$1|b|");
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, "$1|a|");
    assert_eq!(rig.taken(client), "$1|a|+OK|+QUEUED|*1|$1|b|$1|b|+PONG|");
}

#[test]
fn keys_on_two_shards_are_refused_when_the_second_comes() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("multi|get {a}|get {b}|get {a}|exec|exec|"));
    let crossed = crossed(Remedy::PerShard);
    assert_eq!(rig.taken(client), format!("+OK|+QUEUED|{crossed}+QUEUED|{ABORTED}-ERR EXEC without MULTI|"));
    rig.client_sends(client, &format!("multi|mget {a} {b}|exec|"));
    assert_eq!(rig.taken(client), format!("+OK|{crossed}{ABORTED}"));
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}

#[test]
fn refused_command_aborts_exec_but_nested_multi_does_not() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    for (line, error) in [
        ("get", "-ERR wrong number of arguments for 'get' command|"),
        ("client nope", "-ERR unknown subcommand 'nope'. Try CLIENT HELP.|"),
        ("save", "-ERR Command not allowed inside a transaction|"),
        ("discard x", "-ERR wrong number of arguments for 'discard' command|"),
    ] {
        rig.client_sends(client, &format!("multi|set a 1|{line}|set a 2|exec|"));
        assert_eq!(rig.taken(client), format!("+OK|+QUEUED|{error}+QUEUED|{ABORTED}"), "{line}");
    }
    rig.client_sends(client, "multi|multi|discard|discard|");
    assert_eq!(rig.taken(client), "+OK|-ERR MULTI calls can not be nested|+OK|-ERR DISCARD without MULTI|");
    assert_eq!(rig.node_got(0), "");
    rig.client_sends(client, "multi|multi|set a 1|exec|");
    assert_eq!(rig.node_got(0), format!("{MULTI}*3|$3|set|$1|a|$1|1|{EXEC}"));
}

#[test]
fn exec_with_arguments_ends_the_transaction() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|set a 1|exec now|exec|");
    assert_eq!(
        rig.taken(client),
        "+OK|+QUEUED|-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' \
         command|-ERR EXEC without MULTI|"
    );
}

#[test]
fn commands_for_all_shards_are_refused_in_transactions() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    for (line, why) in [
        ("flushall", "this needs all"),
        ("script flush", "this needs all"),
        ("client kill id 1", "this concerns all clients"),
        ("auth x", "who its client is"),
        ("subscribe c", "what its client hears of"),
        ("config set save x", "without --allow-admin"),
        ("shutdown", "inside a transaction"),
    ] {
        rig.client_sends(client, &format!("multi|{line}|exec|"));
        let replies = rig.taken(client);
        assert!(replies.starts_with("+OK|-ERR ") && replies.contains(why), "{line}: {replies}");
        assert!(replies.ends_with(ABORTED), "{line}: {replies}");
    }
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}

#[test]
fn with_one_shard_it_answers_for_all() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|dbsize|scan 0|exec|");
    assert_eq!(rig.node_got(0), format!("{MULTI}*1|$6|dbsize|*2|$4|scan|$1|0|{EXEC}"));
}

#[test]
fn an_empty_transaction_and_one_without_keys() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "multi|exec|");
    assert_eq!(rig.taken(client), "+OK|*0|");
    rig.client_sends(client, "multi|echo x|exec|");
    assert_eq!(rig.node_got(0), format!("{MULTI}*2|$4|echo|$1|x|{EXEC}"));
    // The shard is that of the first key, even behind commands without a key.
    let key = rig.key(1);
    rig.client_sends(client, &format!("multi|time|get {key}|exec|"));
    assert!(rig.node_got(1).starts_with(&format!("{MULTI}*1|$4|time|*2|$3|get|")));
}

#[test]
fn quit_and_reset_end_it() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|set a 1|reset|exec|multi|quit|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+RESET|-ERR EXEC without MULTI|+OK|+OK|");
    assert!(rig.is_closed(client));
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.held_bytes()), ("", 0));
}

#[test]
fn a_node_that_refuses_a_command_says_so_with_exec() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|set a 1|set b 1|exec|");
    rig.node_sends(0, "+OK|-OOM command not allowed when used memory > 'maxmemory'.|+QUEUED|");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+QUEUED|");
    rig.node_sends(0, ABORTED);
    assert_eq!(rig.taken(client), ABORTED);
}

#[test]
fn a_transaction_of_which_exec_was_not_sent_did_not_run() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let node = rig.node(0);
    rig.client_sends(client, "multi|set a 1|");
    rig.taken(client);
    rig.stick(node);
    rig.client_sends(client, "exec|");
    rig.event(Event::Ended { conn: node });
    assert_eq!(
        rig.taken(client),
        "-EXECABORT Transaction discarded because of: node connection lost (shard 127.0.0.1:7000: connection \
         closed by the node)|"
    );
    rig.client_sends(client, "exec|");
    assert_eq!(rig.taken(client), "-ERR EXEC without MULTI|");
}

#[test]
fn half_of_a_transaction_never_runs_and_a_whole_one_may_have() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let node = rig.node(0);
    let sent = |rig: &mut Rig, bytes: usize| {
        rig.client_sends(client, "multi|set a 1|");
        rig.taken(client);
        rig.proxy.handle_event(Event::Received { conn: client, bytes: b"exec\r\n" }, rig.now);
        rig.send_partly(bytes);
        rig.event(Event::Ended { conn: rig.node(0) });
        rig.taken(client)
    };
    let before_exec = MULTI.replace('|', "..").len() + "*3..$3..set..$1..a..$1..1..".len();
    let text = sent(&mut rig, before_exec);
    assert!(text.starts_with("-EXECABORT Transaction discarded because of: node connection lost"), "{text}");
    rig.pass(Duration::from_secs(2));
    assert!(rig.is_closed(node));
    rig.bring_up(0);
    let text = sent(&mut rig, before_exec + 1);
    assert_eq!(text, "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|");
}

#[test]
fn a_node_that_is_down_discards_the_transaction_at_exec() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let conn = rig.node(0);
    rig.event(Event::Ended { conn });
    let conn = rig.node(0);
    rig.event(Event::Closed { conn, reason: "connection refused" });
    rig.client_sends(client, "multi|set a 1|exec|");
    let replies = rig.taken(client);
    assert!(replies.starts_with("+OK|+QUEUED|-EXECABORT Transaction discarded because of: "), "{replies}");
}

#[test]
fn a_late_reply_to_a_transaction_reaches_no_other_client() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "multi|incr a|incr a|exec|");
    rig.taken(client);
    rig.pass(Duration::from_millis(1500));
    let text = rig.taken(client);
    assert_eq!(text, "-ERR node timeout after 1000 ms, outcome unknown (shard 127.0.0.1:7000)|");
    rig.client_sends(other, "get a|");
    rig.client_sends(client, "get b|");
    rig.node_sends(0, "+OK|+QUEUED|+QUEUED|*2|:1|:2|$1|2|$1|b|");
    assert_eq!((rig.taken(other).as_str(), rig.taken(client).as_str()), ("$1|2|", "$1|b|"));
}

#[test]
fn a_client_that_leaves_takes_its_transaction_along() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "multi|set a 1|");
    assert!(rig.proxy.held_bytes() > 0);
    rig.event(Event::Closed { conn: client, reason: "gone" });
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.held_bytes()), ("", 0));
}

#[test]
fn a_transaction_has_a_limit() {
    let mut rig = Rig::ready_with(1, Limits { transaction_bytes_max: 100, ..Limits::default() });
    let client = rig.client();
    let value = "x".repeat(80);
    rig.client_sends(client, &format!("multi|set a 1|set a {value}|exec|"));
    assert_eq!(
        rig.taken(client),
        format!(
            "+OK|+QUEUED|-ERR the transaction has more bytes than the limit of the proxy. EXEC will discard it|{ABORTED}"
        )
    );
    assert_eq!(rig.proxy.held_bytes(), 0);
}

#[test]
fn a_script_that_a_transaction_names_is_brought_along_before_it() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let evalsha = format!("*4|$7|evalsha|$40|{sha}|$1|1|$1|k|");
    rig.client_sends(client, &format!("multi|*3|$4|eval|$8|return 1|$1|0|discard|multi|{evalsha}exec|"));
    let load = "*3|$6|SCRIPT|$4|LOAD|$8|return 1|";
    assert_eq!(rig.node_got(0), format!("{load}{MULTI}{evalsha}{EXEC}"));
    rig.node_sends(0, &format!("$40|{sha}|+OK|+QUEUED|*1|:1|"));
    assert_eq!(rig.taken(client), "+OK|+QUEUED|+OK|+OK|+QUEUED|*1|:1|");
}

#[test]
fn a_large_reply_of_a_transaction_is_held_until_it_is_whole() {
    let mut rig = Rig::ready_with(
        1,
        Limits {
            engine: EngineLimits { large_bytes: 20, relay_bytes_max: 30, ..EngineLimits::default() },
            ..Limits::default()
        },
    );
    let client = rig.client();
    rig.client_sends(client, "multi|get a|");
    rig.client_sends(client, "exec|");
    assert_eq!(rig.node_got(0), format!("{MULTI}*2|$3|get|$1|a|{EXEC}"));
    rig.node_sends(0, "+OK|+QUEUED|*1|$40|0123456789");
    assert_eq!(rig.taken(client), "+OK|+QUEUED|");
    rig.node_sends(0, "012345678901234567890123456789|");
    assert_eq!(rig.taken(client), "*1|$40|0123456789012345678901234567890123456789|");
}

#[test]
fn replies_that_are_not_wanted_are_not_sent() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "client reply off|multi|incr a|exec|client reply on|get a|");
    rig.node_sends(0, "+OK|+QUEUED|*1|:1|$1|1|");
    assert_eq!(rig.taken(client), "+OK|$1|1|");
}

#[test]
fn client_list_shows_an_open_transaction() {
    let mut rig = Rig::ready(1);
    let (client, other) = (rig.client(), rig.client());
    rig.client_sends(client, "multi|get a|get a|");
    rig.client_sends(other, "client list id 1|");
    let list = rig.taken(other);
    assert!(list.contains(" flags=x ") && list.contains(" multi=2 "), "{list}");
}

/// Watches `key` of shard `shard` for `client`, on a new link.
fn watch(rig: &mut Rig, client: ConnId, shard: u32, key: &str) -> ConnId {
    rig.client_sends(client, &format!("watch {key}|"));
    let held = rig.pinned_now();
    assert_eq!(rig.taken(held), format!("*2|$5|watch|${}|{key}|", key.len()), "on shard {shard}");
    rig.sends(held, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    held
}

#[test]
fn a_watched_transaction_goes_over_the_connection_that_watches() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let key = rig.key(1);
    let held = watch(&mut rig, client, 1, &key);
    rig.client_sends(client, &format!("get {key}|"));
    assert_eq!(rig.node_got(1), format!("*2|$3|get|${}|{key}|", key.len()));
    rig.client_sends(client, &format!("multi|set {key} 1|exec|get {key}|"));
    assert_eq!(rig.taken(held), "", "what was sent before is not overtaken");
    rig.node_sends(1, "$-1|");
    assert_eq!(rig.taken(client), "$-1|+OK|+QUEUED|");
    assert_eq!(rig.taken(held), format!("{MULTI}*3|$3|set|${}|{key}|$1|1|{EXEC}", key.len()));
    assert_eq!(rig.node_got(1), "", "what is sent behind does not overtake");
    rig.sends(held, "+OK|+QUEUED|*-1|");
    assert_eq!(rig.taken(client), "*-1|");
    assert_eq!(rig.node_got(1), format!("*2|$3|get|${}|{key}|", key.len()));
    assert_eq!(rig.proxy.pending().conns_held, 0);
    // The next client gets the link.
    let other = rig.client();
    let key = rig.key(1);
    rig.client_sends(other, &format!("watch {key}|"));
    assert!(rig.taken(held).starts_with("*2|$5|watch|"));
}

#[test]
fn a_connection_that_watched_comes_back_clean() {
    for (lines, replies) in
        [("unwatch|", "+OK|"), ("multi|discard|", "+OK|+OK|"), ("reset|", "+RESET|"), ("multi|get|exec|", "")]
    {
        let mut rig = Rig::ready(1);
        let client = rig.client();
        let held = watch(&mut rig, client, 0, "a");
        rig.client_sends(client, lines);
        let got = rig.taken(client);
        assert!(replies.is_empty() || got == replies, "{lines}: {got}");
        assert_eq!(rig.taken(held), "*1|$7|UNWATCH|", "{lines}");
        let other = rig.client();
        rig.client_sends(other, "watch b|");
        let fresh = rig.pinned_now();
        assert_ne!(fresh, held, "{lines}: it is not given away before it is clean");
        rig.sends(held, "+OK|");
        rig.client_sends(client, "watch c|");
        assert_eq!(rig.taken(held), "*2|$5|watch|$1|c|", "{lines}");
    }
}

#[test]
fn keys_of_two_shards_cannot_be_watched_nor_changed_together() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    let crossed = crossed(Remedy::PerShard);
    rig.client_sends(client, &format!("watch {a} {b}|"));
    assert_eq!(rig.taken(client), crossed);
    watch(&mut rig, client, 0, &a);
    rig.client_sends(client, &format!("watch {b}|multi|set {b} 1|exec|"));
    assert_eq!(rig.taken(client), format!("{crossed}+OK|{crossed}{ABORTED}"));
}

#[test]
fn exec_fails_if_the_connection_that_watched_is_lost() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let held = watch(&mut rig, client, 0, "a");
    rig.event(Event::Ended { conn: held });
    rig.client_sends(client, "watch b|multi|set a 1|exec|multi|exec|");
    assert_eq!(rig.taken(client), "+OK|+OK|+QUEUED|*-1|+OK|*0|", "and only that EXEC");
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.pending().conns_held), ("", 0));
}

#[test]
fn a_watch_that_failed_spoils_nothing() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "watch a|");
    rig.bring_up_pinned(0);
    let held = rig.last_pinned().expect("made");
    rig.event(Event::Ended { conn: held });
    assert_eq!(rig.taken(client), "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|");
    rig.client_sends(client, "multi|set a 1|exec|");
    assert_eq!(rig.node_got(0), format!("{MULTI}*3|$3|set|$1|a|$1|1|{EXEC}"));
}

#[test]
fn an_empty_transaction_asks_whether_the_keys_have_changed() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let held = watch(&mut rig, client, 0, "a");
    rig.client_sends(client, "multi|exec|");
    assert_eq!(rig.taken(held), format!("{MULTI}{EXEC}"));
    rig.sends(held, "+OK|*0|");
    assert_eq!(rig.taken(client), "+OK|*0|");
}

#[test]
fn a_watching_client_that_leaves_has_its_connection_closed() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let held = watch(&mut rig, client, 0, "a");
    rig.event(Event::Closed { conn: client, reason: "gone" });
    assert!(rig.is_closed(held));
    assert_eq!(rig.proxy.pending().conns_held, 0);
}

#[test]
fn a_lost_exec_of_a_watched_transaction_has_its_own_error() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let held = watch(&mut rig, client, 0, "a");
    rig.client_sends(client, "multi|set a 1|exec|");
    rig.event(Event::Ended { conn: held });
    assert_eq!(
        rig.taken(client),
        "+OK|+QUEUED|-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|"
    );
    rig.client_sends(client, "ping|multi|exec|");
    assert_eq!(rig.taken(client), "+PONG|+OK|*0|");
}

#[test]
fn a_late_part_of_a_question_to_all_shards_takes_no_other_reply() {
    let mut rig = Rig::ready(3);
    let (client, other) = (rig.client(), rig.client());
    let key = rig.key(2);
    rig.client_sends(client, "info keyspace|");
    rig.pass(Duration::from_millis(1500));
    rig.client_sends(other, &format!("get {key}|get {key}|"));
    let report = "# Keyspace||";
    rig.node_sends(2, &format!("${}|{report}|$1|a|$1|b|", report.replace('|', "..").len()));
    assert_eq!(rig.taken(other), "$1|a|$1|b|");
}
