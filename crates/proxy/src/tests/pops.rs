//! Transcripts of commands that take an element from the first of several keys on several shards. `|` stands for CR
//! LF.

use crate::cross_slot::remedy::Remedy;
use crate::testing::{Rig, crossed, deliver_mail};
use crate::{ConnId, CrossShard, Event, Limits, Notice, Settings};
use std::time::Duration;

const TRACK: &str = "*4|$6|CLIENT|$8|TRACKING|$2|ON|$5|BCAST|";
const GREETING: &str = "*2|$5|HELLO|$1|3|*1|$4|PING|";

fn settings() -> Settings {
    Settings { cross_shard: CrossShard::Emulate, ..Settings::default() }
}

fn rig(shards: usize) -> Rig {
    Rig::ready_as(shards, Limits::default(), settings())
}

/// The request of `words`, as a node gets it.
fn asked(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}|{word}|", word.len())).collect();
    format!("*{}|{words}", words.matches('$').count())
}

fn changed(key: &str) -> String {
    format!(">2|$10|invalidate|*1|${}|{key}|", key.len())
}

/// Checks that the node of `shard` got a TYPE of `key`, and answers it with `kind`.
#[track_caller]
fn look(rig: &mut Rig, shard: u32, key: &str, kind: &str) {
    assert_eq!(rig.node_got(shard), asked(&["TYPE", key]));
    rig.node_sends(shard, &format!("+{kind}|"));
}

/// The link over which the node of `shard` reports changes, which was just asked for.
fn source(rig: &mut Rig, shard: u32) -> ConnId {
    let source = rig.bring_up_greeted(shard, GREETING, "%0|+PONG|");
    assert_eq!(rig.taken(source), TRACK);
    rig.sends(source, "+OK|");
    source
}

/// A client that waits by `line`, in which `A` and `B` are keys of two shards, and the links of both for changes.
fn waiting(rig: &mut Rig, line: &str) -> (ConnId, String, String, [ConnId; 2]) {
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("{}|", line.replace('A', &a).replace('B', &b)));
    look(rig, 0, &a, "none");
    look(rig, 1, &b, "none");
    let sources = [source(rig, 0), source(rig, 1)];
    look_at_both(rig, &a, &b);
    assert_eq!(rig.taken(client), "");
    (client, a, b, sources)
}

/// Checks that both keys are read, since the nodes report changes from now on.
#[track_caller]
fn look_at_both(rig: &mut Rig, a: &str, b: &str) {
    // Each confirmation of a node causes a look at the keys. The second may come while the first look is under way.
    while rig.has_sent(rig.node(0)) || rig.has_sent(rig.node(1)) {
        look(rig, 0, a, "none");
        look(rig, 1, b, "none");
    }
}

#[track_caller]
fn assert_idle(rig: &Rig) {
    assert_eq!((rig.proxy.pending().emulations, rig.proxy.counters().clients_blocked), (0, 0));
}

#[test]
fn blpop_takes_from_the_first_key_with_an_element() {
    let mut rig = rig(3);
    let (client, a, b, c) = (rig.client(), rig.key(0), rig.key(1), rig.key(2));
    rig.client_sends(client, &format!("blpop {a} {b} {c} 0|"));
    look(&mut rig, 2, &c, "list");
    look(&mut rig, 0, &a, "none");
    assert_eq!(rig.taken(client), "", "another key may come first");
    look(&mut rig, 1, &b, "list");
    assert_eq!(
        (rig.node_got(0).as_str(), rig.node_got(2).as_str()),
        ("", ""),
        "nothing is popped on suspicion"
    );
    assert_eq!(rig.node_got(1), asked(&["LPOP", &b]));
    rig.node_sends(1, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{b}|$1|x|", b.len()));
    assert_idle(&rig);
}

#[test]
fn a_key_that_was_emptied_meanwhile_is_passed_over() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("brpop {a} {b} 0|"));
    look(&mut rig, 0, &a, "list");
    look(&mut rig, 1, &b, "list");
    assert_eq!(rig.node_got(0), asked(&["RPOP", &a]));
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.node_got(1), asked(&["RPOP", &b]));
    rig.node_sends(1, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{b}|$1|x|", b.len()));
    assert_idle(&rig);
}

#[test]
fn each_command_pops_in_its_own_way() {
    let pop = |line: &str, kind: &str| {
        let mut rig = rig(2);
        let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
        rig.client_sends(client, &format!("{}|", line.replace('A', &a).replace('B', &b)));
        look(&mut rig, 0, &a, kind);
        look(&mut rig, 1, &b, "none");
        rig.node_got(0).replace(&format!("${}|{a}|", a.len()), "A|")
    };
    assert_eq!(pop("blmpop 0 2 A B left", "list"), "*6|$5|LMPOP|$1|1|A|$4|LEFT|$5|COUNT|$1|1|");
    assert_eq!(pop("blmpop 0 2 A B RIGHT count 7", "list"), "*6|$5|LMPOP|$1|1|A|$5|RIGHT|$5|COUNT|$1|7|");
    assert_eq!(pop("lmpop 2 A B left count 2", "list"), "*6|$5|LMPOP|$1|1|A|$4|LEFT|$5|COUNT|$1|2|");
    assert_eq!(pop("bzpopmin A B 0", "zset"), "*2|$7|ZPOPMIN|A|");
    assert_eq!(pop("bzpopmax A B 0", "zset"), "*2|$7|ZPOPMAX|A|");
    assert_eq!(pop("bzmpop 0 2 A B min", "zset"), "*6|$5|ZMPOP|$1|1|A|$3|MIN|$5|COUNT|$1|1|");
    assert_eq!(pop("zmpop 2 A B max count 3", "zset"), "*6|$5|ZMPOP|$1|1|A|$3|MAX|$5|COUNT|$1|3|");
}

#[test]
fn a_member_comes_with_its_key_and_score() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("bzpopmin {a} {b} 0|"));
    look(&mut rig, 0, &a, "zset");
    look(&mut rig, 1, &b, "none");
    rig.node_got(0);
    rig.node_sends(0, "*2|$1|m|$3|1.5|");
    assert_eq!(rig.taken(client), format!("*3|${}|{a}|$1|m|$3|1.5|", a.len()));
}

#[test]
fn a_key_of_another_type_is_refused_as_in_redis() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("blpop {a} {b} 0|blpop {b} {a} 0|"));
    look(&mut rig, 0, &a, "string");
    look(&mut rig, 1, &b, "list");
    assert_eq!(rig.taken(client), "-WRONGTYPE Operation against a key holding the wrong kind of value|");
    // Behind a key with an element, a key of another type does no harm.
    look(&mut rig, 1, &b, "list");
    look(&mut rig, 0, &a, "string");
    assert_eq!(rig.node_got(1), asked(&["LPOP", &b]));
    rig.node_sends(1, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{b}|$1|x|", b.len()));
}

#[test]
fn arguments_that_redis_refuses_are_refused_in_its_words() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("blpop {a} {b} -1|blpop {a} {b} x|blmpop 0 2 {a} {b} up|"));
    let expected = "-ERR timeout is negative|-ERR timeout is not a float or out of range|-ERR syntax error|";
    assert_eq!(rig.taken(client), expected);
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}

#[test]
fn without_emulation_a_pop_over_shards_is_refused() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("blpop {a} {b} 0|"));
    assert_eq!(rig.taken(client), crossed(Remedy::Emulation));
}

#[test]
fn lmpop_without_elements_is_null_and_does_not_wait() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("lmpop 2 {a} {b} left|"));
    look(&mut rig, 0, &a, "none");
    look(&mut rig, 1, &b, "none");
    assert_eq!(rig.taken(client), "*-1|");
    assert_idle(&rig);
}

#[test]
fn a_client_that_waits_gets_a_pushed_element() {
    let mut rig = rig(2);
    let (client, _, b, sources) = waiting(&mut rig, "blpop A B 0");
    assert_eq!(rig.proxy.counters().clients_blocked, 1);
    rig.sends(sources[1], &changed("another key"));
    assert_eq!(rig.node_got(1), "");
    rig.sends(sources[1], &changed(&b));
    assert_eq!(rig.node_got(1), asked(&["LPOP", &b]));
    rig.node_sends(1, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{b}|$1|x|", b.len()));
    assert_idle(&rig);
    rig.pass(Duration::from_secs(2));
    assert!(sources.iter().all(|source| rig.is_closed(*source)), "nobody waits any more");
}

#[test]
fn elements_from_before_the_confirmations_are_found() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("blpop {a} {b} 0|"));
    look(&mut rig, 0, &a, "none");
    look(&mut rig, 1, &b, "none");
    source(&mut rig, 0);
    look(&mut rig, 0, &a, "list");
    look(&mut rig, 1, &b, "none");
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]));
    rig.node_sends(0, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{a}|$1|x|", a.len()));
}

#[test]
fn a_key_that_becomes_another_type_is_waited_for_still() {
    let mut rig = rig(2);
    let (client, a, _, sources) = waiting(&mut rig, "blpop A B 0");
    rig.sends(sources[0], &changed(&a));
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]));
    rig.node_sends(0, "-WRONGTYPE Operation against a key holding the wrong kind of value|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().emulations), ("", 1));
}

#[test]
fn the_longest_wait_is_served_first_and_then_the_next() {
    let mut rig = rig(2);
    let (first, a, b, sources) = waiting(&mut rig, "blpop A B 0");
    let second = rig.client();
    rig.client_sends(second, &format!("blpop {b} {a} 0|"));
    look_at_both(&mut rig, &a, &b);
    rig.sends(sources[0], &changed(&a));
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]), "one of them asks");
    rig.node_sends(0, "$1|x|");
    assert_eq!((rig.taken(first), rig.taken(second)), (format!("*2|${}|{a}|$1|x|", a.len()), String::new()));
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]), "the key may have more");
    rig.node_sends(0, "$1|y|");
    assert_eq!(rig.taken(second), format!("*2|${}|{a}|$1|y|", a.len()));
    assert_idle(&rig);
}

#[test]
fn a_change_during_a_pop_is_not_missed() {
    let mut rig = rig(2);
    let (client, a, b, sources) = waiting(&mut rig, "blpop A B 0");
    rig.sends(sources[0], &changed(&a));
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]));
    rig.sends(sources[1], &changed(&b));
    rig.node_sends(0, "$-1|");
    assert_eq!(rig.node_got(1), asked(&["LPOP", &b]));
    rig.node_sends(1, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{b}|$1|x|", b.len()));
}

#[test]
fn a_client_whose_time_is_up_gets_null() {
    let mut rig = rig(2);
    let (client, ..) = waiting(&mut rig, "blpop A B 0.5");
    rig.pass(Duration::from_millis(499));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.taken(client), "*-1|");
    assert_idle(&rig);
}

#[test]
fn an_element_that_comes_with_the_end_of_the_time_is_given() {
    let mut rig = rig(2);
    let (client, a, _, sources) = waiting(&mut rig, "blpop A B 0.5");
    rig.sends(sources[0], &changed(&a));
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]));
    rig.pass(Duration::from_millis(600));
    assert_eq!(rig.taken(client), "", "the pop is in flight");
    rig.node_sends(0, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{a}|$1|x|", a.len()));
    assert_idle(&rig);
}

#[test]
fn a_client_that_leaves_while_it_waits_takes_nothing() {
    let mut rig = rig(2);
    let (client, a, _, sources) = waiting(&mut rig, "blpop A B 0");
    rig.event(Event::Closed { conn: client, reason: "reset" });
    assert_idle(&rig);
    rig.sends(sources[0], &changed(&a));
    assert_eq!(rig.node_got(0), "");
    assert_eq!(rig.proxy.held_bytes(), 0);
}

#[test]
fn half_closed_clients_do_not_go_on_waiting() {
    let mut rig = rig(2);
    let (client, ..) = waiting(&mut rig, "blpop A B 0");
    assert!(!rig.is_paused(client), "its end must be seen");
    rig.event(Event::Ended { conn: client });
    assert!(rig.is_closed(client));
    assert_idle(&rig);
}

#[test]
fn an_element_for_a_client_that_left_is_put_back() {
    let put_back = |line: &str, popped: &str| {
        let mut rig = rig(2);
        let (client, a, _, sources) = waiting(&mut rig, line);
        rig.sends(sources[0], &changed(&a));
        rig.node_got(0);
        rig.event(Event::Closed { conn: client, reason: "reset" });
        rig.node_sends(0, &popped.replace('A', &format!("${}|{a}", a.len())));
        let back = rig.node_got(0).replace(&format!("${}|{a}|", a.len()), "A|");
        rig.node_sends(0, ":1|");
        assert_idle(&rig);
        assert_eq!(rig.notices(), []);
        back
    };
    assert_eq!(put_back("blpop A B 0", "$1|x|"), "*3|$5|LPUSH|A|$1|x|");
    assert_eq!(put_back("brpop A B 0", "$1|x|"), "*3|$5|RPUSH|A|$1|x|");
    assert_eq!(
        put_back("blmpop 0 2 A B left count 2", "*2|A|*2|$1|x|$1|y|"),
        "*4|$5|LPUSH|A|$1|y|$1|x|",
        "so that x comes first again"
    );
    assert_eq!(put_back("bzpopmin A B 0", "*2|$1|m|$1|1|"), "*5|$4|ZADD|A|$2|NX|$1|1|$1|m|");
    assert_eq!(
        put_back("bzmpop 0 2 A B max count 2", "*2|A|*2|*2|$1|m|$1|2|*2|$1|l|,1|"),
        "*7|$4|ZADD|A|$2|NX|$1|2|$1|m|$1|1|$1|l|"
    );
}

#[test]
fn an_element_that_cannot_be_put_back_is_logged() {
    let mut rig = rig(2);
    let (client, a, _, sources) = waiting(&mut rig, "blpop A B 0");
    rig.sends(sources[0], &changed(&a));
    rig.event(Event::Closed { conn: client, reason: "reset" });
    rig.node_sends(0, "$1|x|");
    rig.node_sends(0, "-OOM command not allowed when used memory > 'maxmemory'.|");
    let shard = "127.0.0.1:7000".to_owned();
    assert_eq!(rig.notices(), [Notice::ElementNotReturned { shard }]);
    assert_idle(&rig);
}

#[test]
fn client_unblock_ends_the_wait_over_shards() {
    let mut rigs = [rig(2)];
    for (how, expected) in [("", "*-1|"), (" error", "-UNBLOCKED client unblocked via CLIENT UNBLOCK|")] {
        let [rig] = &mut rigs;
        let (client, other, a, b) = (rig.client(), rig.client(), rig.key(0), rig.key(1));
        rig.client_sends(client, "client id|");
        let id = rig.taken(client).trim_matches([':', '|']).to_owned();
        rig.client_sends(client, &format!("blpop {a} {b} 0|"));
        look(rig, 0, &a, "none");
        look(rig, 1, &b, "none");
        if how.is_empty() {
            source(rig, 0);
            source(rig, 1);
        }
        look_at_both(rig, &a, &b);
        rig.client_sends(other, &format!("client unblock {id}{how}|"));
        deliver_mail(&mut rigs);
        let [rig] = &mut rigs;
        assert_eq!((rig.taken(client).as_str(), rig.taken(other).as_str()), (expected, ":1|"));
        assert_idle(rig);
        rig.client_sends(other, &format!("client unblock {id}|"));
        assert_eq!(rig.taken(other), ":0|");
    }
}

#[test]
fn while_clients_are_paused_nothing_is_popped() {
    let mut rig = rig(2);
    let (client, a, _, sources) = waiting(&mut rig, "blpop A B 0");
    let other = rig.client();
    rig.client_sends(other, "client pause 100|");
    rig.sends(sources[0], &changed(&a));
    assert_eq!(rig.node_got(0), "");
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]));
    rig.node_sends(0, "$1|x|");
    assert_eq!(rig.taken(client), format!("*2|${}|{a}|$1|x|", a.len()));
}

#[test]
fn a_pop_that_is_lost_with_its_link_is_of_unknown_outcome() {
    let mut rig = rig(2);
    let (client, a, _, sources) = waiting(&mut rig, "blpop A B 0");
    rig.sends(sources[0], &changed(&a));
    let node = rig.node(0);
    rig.event(Event::Closed { conn: node, reason: "reset" });
    let expected = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!(rig.taken(client), expected);
    assert_idle(&rig);
}

#[test]
fn a_lost_source_of_changes_is_made_up_for() {
    let mut rig = rig(2);
    let (client, a, b, sources) = waiting(&mut rig, "blpop A B 0");
    rig.event(Event::Closed { conn: sources[0], reason: "reset" });
    assert_eq!(rig.taken(client), "", "it goes on waiting");
    rig.pass(Duration::from_millis(20));
    source(&mut rig, 0);
    look(&mut rig, 0, &a, "list");
    look(&mut rig, 1, &b, "none");
    assert_eq!(rig.node_got(0), asked(&["LPOP", &a]));
}

#[test]
fn a_node_that_cannot_tell_of_changes_ends_the_wait() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("blpop {a} {b} 0|"));
    look(&mut rig, 0, &a, "none");
    look(&mut rig, 1, &b, "none");
    let source = rig.bring_up_greeted(0, GREETING, "%0|+PONG|");
    rig.sends(source, "-ERR unknown subcommand 'TRACKING'|");
    let expected = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: ERR unknown subcommand 'TRACKING'|";
    assert_eq!(rig.taken(client), expected);
    assert_idle(&rig);
}

#[test]
fn draining_ends_the_wait_over_shards() {
    let mut rig = rig(2);
    let (client, ..) = waiting(&mut rig, "blpop A B 0");
    rig.proxy.drain(rig.now);
    rig.perform();
    assert_eq!(rig.taken(client), "*-1|");
    assert!(rig.is_closed(client) && rig.proxy.is_drained());
}

/// A client that reads streams of two shards for a group. Both shards have confirmed the group.
fn reading(rig: &mut Rig, options: &str) -> (ConnId, String, String) {
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("xreadgroup group g c {options} streams {a} {b} > >|"));
    for (shard, key) in [(0, &a), (1, &b)] {
        assert_eq!(rig.node_got(shard), asked(&["XPENDING", key, "g"]));
        rig.node_sends(shard, "*4|:0|$-1|$-1|*-1|");
    }
    (client, a, b)
}

#[track_caller]
fn assert_reads(rig: &mut Rig, shard: u32, key: &str, reply: &str) {
    assert_eq!(rig.node_got(shard), asked(&["xreadgroup", "group", "g", "c", "STREAMS", key, ">"]));
    rig.node_sends(shard, reply);
}

#[test]
fn xreadgroup_reads_streams_of_all_shards() {
    let mut rig = rig(2);
    let (client, a, b) = reading(&mut rig, "");
    let entries = |key: &str| format!("*2|${}|{key}|*1|*2|$3|1-0|*2|$1|f|$1|v|", key.len());
    assert_reads(&mut rig, 1, &b, &format!("*1|{}", entries(&b)));
    assert_reads(&mut rig, 0, &a, &format!("*1|{}", entries(&a)));
    assert_eq!(rig.taken(client), format!("*2|{}{}", entries(&a), entries(&b)));
    assert_idle(&rig);
}

#[test]
fn xreadgroup_without_the_group_reads_nothing() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("xreadgroup group g c streams {a} {b} > >|"));
    rig.node_got(0);
    rig.node_sends(0, "*4|:0|$-1|$-1|*-1|");
    let error = format!("-NOGROUP No such key '{b}' or consumer group 'g'");
    rig.node_sends(1, &format!("{error}|"));
    assert_eq!(rig.taken(client), format!("{error} in XREADGROUP with GROUP option|"));
    assert_eq!(rig.node_got(0), "", "nothing is given to the consumer");
    assert_idle(&rig);
}

#[test]
fn xreadgroup_waits_and_reads_the_stream_that_has_changed() {
    let mut rig = rig(2);
    let (client, a, b) = reading(&mut rig, "count 5 block 0 noack");
    let read =
        |key: &str| asked(&["xreadgroup", "group", "g", "c", "count", "5", "noack", "STREAMS", key, ">"]);
    let nothing = |rig: &mut Rig| {
        for (shard, key) in [(0, &a), (1, &b)] {
            assert_eq!(rig.node_got(shard), read(key));
            rig.node_sends(shard, "*-1|");
        }
    };
    nothing(&mut rig);
    let [_, of_b] = [0, 1].map(|shard| source(&mut rig, shard));
    nothing(&mut rig);
    // Both nodes have confirmed.
    nothing(&mut rig);
    assert_eq!((rig.taken(client).as_str(), rig.proxy.counters().clients_blocked), ("", 1));
    rig.sends(of_b, &changed(&b));
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1)), ("", read(&b)));
    let entries = format!("*1|*2|${}|{b}|*1|*2|$3|1-0|*2|$1|f|$1|v|", b.len());
    rig.node_sends(1, &entries);
    assert_eq!(rig.taken(client), entries);
    assert_idle(&rig);
}

#[test]
fn a_stream_that_is_deleted_ends_the_wait_of_a_group() {
    let mut rig = rig(2);
    let (client, a, b) = reading(&mut rig, "block 0");
    let nothing =
        |rig: &mut Rig| [(0, &a), (1, &b)].map(|(shard, key)| assert_reads(rig, shard, key, "*-1|"));
    nothing(&mut rig);
    let [_, of_b] = [0, 1].map(|shard| source(&mut rig, shard));
    nothing(&mut rig);
    nothing(&mut rig);
    rig.sends(of_b, &changed(&b));
    assert_reads(
        &mut rig,
        1,
        &b,
        &format!("-NOGROUP No such key '{b}' or consumer group 'g' in XREADGROUP|"),
    );
    assert_eq!(rig.taken(client), "-UNBLOCKED the stream key no longer exists|");
    assert_idle(&rig);
}
