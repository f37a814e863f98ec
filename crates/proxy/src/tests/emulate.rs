//! Transcripts of commands over several shards that shardis emulates. `|` stands for CR LF.
//!
//! A [`Scratch`] writes and reads the payloads, as a node would.

use crate::EngineLimits;
use crate::cross_slot::remedy::Remedy;
use crate::features::{Link, Ticket};
use crate::testing::{Rig, crossed};
use crate::{ConnId, CrossShard, Event, Limits, Settings};
use command::Evaluator;
use resp::{Request, Span, encode};
use std::time::Duration;
use store::Scratch;

fn rig(shards: usize) -> Rig {
    rig_with(shards, Limits::default())
}

fn rig_with(shards: usize, limits: Limits) -> Rig {
    Rig::ready_as(shards, limits, Settings { cross_shard: CrossShard::Emulate, ..Settings::default() })
}

/// The request of `words`.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::request(&mut bytes, words);
    bytes
}

/// The reply of DUMP to the key that `line` makes.
fn dumped(line: &str) -> Vec<u8> {
    let mut scratch = Scratch::new(1, 1);
    let words: Vec<&str> = line.split(' ').collect();
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    for word in &words {
        encode::bulk(&mut bytes, word.as_bytes());
        spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
    }
    scratch.run(&Request::new(&bytes, &spans), false, &mut Vec::new());
    scratch.dump(words[1].as_bytes()).expect("the line makes the key of its first argument")
}

/// The replies of a node to PTTL and DUMP of a key without expiry.
fn holds(payload: &[u8]) -> Vec<u8> {
    expires(-1, payload)
}

/// The replies of a node to PTTL and DUMP of a key that expires.
fn expires(left_ms: i64, payload: &[u8]) -> Vec<u8> {
    let mut replies = Vec::new();
    encode::integer(&mut replies, left_ms);
    encode::bulk(&mut replies, payload);
    replies
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "|")
}

impl Rig {
    /// The node of `shard` sends `bytes`.
    fn node_replies(&mut self, shard: u32, bytes: &[u8]) {
        let conn = self.node(shard);
        self.event(Event::Received { conn, bytes });
    }

    /// Checks that the node of `shard` got `expected` since the last call, and nothing else.
    #[track_caller]
    fn assert_asked(&mut self, shard: u32, expected: &[&[&[u8]]]) {
        let expected: Vec<u8> = expected.iter().flat_map(|words| request(words)).collect();
        assert_eq!(self.node_got(shard), shown(&expected), "what shard {shard} was asked");
    }

    #[track_caller]
    fn assert_idle(&self) {
        let in_flight = self.proxy.in_flight() * size_of::<Ticket>();
        // Requests are kept until they are answered.
        let kept = |link: &Link| if link.in_flight() > 0 { link.account_of_outbox().1 } else { 0 };
        let kept: usize = self.proxy.core.cx.engine.links.iter().map(kept).sum();
        assert_eq!((self.proxy.pending().emulations, self.proxy.held_bytes()), (0, in_flight + kept));
    }
}

/// A client that sent RENAME of a key on shard 0 to one on shard 1, up to the write.
fn renaming(rig: &mut Rig) -> (ConnId, String, String) {
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("rename {a} {b}|"));
    rig.assert_asked(0, &[&[b"MEMORY", b"USAGE", a.as_bytes()]]);
    rig.assert_asked(1, &[]);
    rig.node_sends(0, ":50|");
    rig.assert_asked(0, &[&[b"PTTL", a.as_bytes()], &[b"DUMP", a.as_bytes()]]);
    rig.assert_asked(1, &[&[b"EXISTS", b.as_bytes()]]);
    rig.node_sends(1, ":0|");
    rig.node_replies(0, &expires(500, b"a payload that nobody reads"));
    (client, a, b)
}

/// A client like that of [`renaming`], up to the removal.
fn removing(rig: &mut Rig) -> (ConnId, String, String) {
    let (client, a, b) = renaming(rig);
    rig.assert_asked(1, &[&[b"RESTORE", b.as_bytes(), b"500", b"a payload that nobody reads", b"REPLACE"]]);
    rig.assert_asked(0, &[]);
    rig.node_sends(1, "+OK|");
    rig.assert_asked(0, &[&[b"UNLINK", a.as_bytes()]]);
    (client, a, b)
}

#[test]
fn a_rename_carries_the_value_and_removes_it_last() {
    let mut rig = rig(2);
    let (client, ..) = removing(&mut rig);
    assert_eq!(rig.taken(client), "");
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(client), "+OK|");
    rig.assert_idle();
}

#[test]
fn a_rename_of_nothing_is_redis_own_error_and_writes_nothing() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("rename {a} {b}|"));
    rig.node_sends(0, "$-1|");
    rig.node_sends(0, ":-2|$-1|");
    rig.node_sends(1, ":1|");
    assert_eq!(rig.taken(client), "-ERR no such key|");
    rig.node_got(0);
    rig.assert_asked(1, &[&[b"EXISTS", b.as_bytes()]]);
    rig.assert_idle();
}

#[test]
fn later_requests_of_the_client_wait_and_those_of_others_do_not() {
    let mut rig = rig(2);
    let (client, a, b) = renaming(&mut rig);
    rig.node_got(1);
    rig.client_sends(client, &format!("get {b}|ping|"));
    let other = rig.client();
    rig.client_sends(other, &format!("get {a}|"));
    assert_eq!((rig.node_got(1).as_str(), rig.is_paused(client)), ("", true));
    rig.assert_asked(0, &[&[b"get", a.as_bytes()]]);
    rig.node_sends(0, "$1|x|");
    assert_eq!(rig.taken(other), "$1|x|");
    rig.node_sends(1, "+OK|");
    rig.node_sends(0, ":1|");
    assert_eq!((rig.taken(client).as_str(), rig.is_paused(client)), ("+OK|", false));
    rig.assert_asked(1, &[&[b"get", b.as_bytes()]]);
    rig.node_sends(1, "$1|x|");
    assert_eq!(rig.taken(client), "$1|x|+PONG|");
}

#[test]
fn earlier_requests_are_answered_before_it_begins() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {a}|get {b}|sunion {a} {b}|get {a}|"));
    rig.assert_asked(0, &[&[b"get", a.as_bytes()]]);
    rig.node_sends(0, "$1|x|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), ("$1|x|", ""));
    rig.node_got(1);
    rig.node_sends(1, "$1|y|");
    assert_eq!(rig.taken(client), "$1|y|");
    rig.assert_asked(0, &[&[b"MEMORY", b"USAGE", a.as_bytes()]]);
    for shard in [0, 1] {
        rig.node_sends(shard, "$-1|");
    }
    for shard in [0, 1] {
        rig.node_sends(shard, ":-2|$-1|");
    }
    assert_eq!(rig.taken(client), "*0|");
    assert!(rig.node_got(0).ends_with(&shown(&request(&[b"get", a.as_bytes()]))));
}

#[test]
fn a_large_read_before_an_emulation_sees_no_new_value() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {a}|msetnx {a} x {b} y|"));
    rig.node_got(0);
    let large = format!("$200000|{}|", "x".repeat(200_000));
    rig.node_sends(0, &large[..100_000]);
    let pinned = rig.pinned_now();
    assert_eq!(rig.taken(pinned), shown(&request(&[b"get", a.as_bytes()])), "asked again");
    rig.node_sends(0, &large[100_000..]);
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    rig.sends(pinned, &large);
    assert_eq!(rig.taken(client).len(), large.len());
    rig.assert_asked(0, &[&[b"EXISTS", a.as_bytes()]]);
    rig.assert_asked(1, &[&[b"EXISTS", b.as_bytes()]]);
}

#[test]
fn a_large_request_is_carried_out_once_it_is_whole() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    let value = "x".repeat(200_000);
    let len = value.len();
    let msetnx = format!("*5|$6|msetnx|$2|{a}|${len}|{value}|$2|{b}|$1|y|get {a}|");
    rig.client_sends(client, &msetnx[..150_000]);
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    rig.client_sends(client, &msetnx[150_000..]);
    for (shard, key) in [(0, &a), (1, &b)] {
        rig.assert_asked(shard, &[&[b"EXISTS", key.as_bytes()]]);
        rig.node_sends(shard, ":0|");
    }
    for shard in [0, 1] {
        assert!(rig.node_got(shard).contains("|RESTORE|"));
        rig.node_sends(shard, "+OK|");
    }
    assert_eq!(rig.taken(client), ":1|");
    rig.assert_asked(0, &[&[b"get", a.as_bytes()]]);
    assert_eq!(rig.proxy.pending().pins, 0);
}

#[test]
fn a_node_that_is_down_costs_nothing_and_changes_nothing() {
    let mut rig = rig(2);
    rig.event(Event::Ended { conn: rig.node(1) });
    rig.pass(Duration::from_millis(1));
    rig.event(Event::Ended { conn: rig.node(1) });
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("rename {a} {b}|sunion {a} {b}|smove {a} {b} m|"));
    let replies = rig.taken(client);
    assert_eq!(replies.matches("-TRYAGAIN shard ").count(), 3, "{replies}");
    assert_eq!(rig.node_got(0), "");
    rig.assert_idle();
}

#[test]
fn unreadable_value_fails_before_anything_is_written() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sunionstore {a} {a} {b}|"));
    rig.node_sends(0, ":50|");
    rig.event(Event::Ended { conn: rig.node(1) });
    let reply = rig.taken(client);
    assert!(
        reply.starts_with("-TRYAGAIN shard ") && reply.ends_with(" unavailable: connection lost|"),
        "{reply}"
    );
    rig.assert_idle();
    rig.pass(Duration::from_secs(2));
    rig.bring_up(1);
    rig.node_got(0);
    rig.client_sends(client, &format!("sunionstore {a} {a} {b}|"));
    rig.node_sends(0, ":50|");
    rig.node_sends(1, ":50|");
    rig.node_replies(0, &holds(&dumped("SADD s 1 2")));
    rig.node_sends(1, "-LOADING Redis is loading the dataset in memory|-LOADING x|");
    assert_eq!(rig.taken(client), "-LOADING Redis is loading the dataset in memory|");
    assert!(!rig.node_got(0).contains("RESTORE"));
    rig.assert_idle();
}

#[test]
fn a_union_is_put_together_and_stored() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sunionstore {b} {a} {b}|"));
    rig.node_sends(0, ":50|");
    rig.node_sends(1, ":50|");
    rig.node_replies(0, &holds(&dumped("SADD s 1 2")));
    rig.node_got(1);
    rig.node_replies(1, &expires(9_000, &dumped("SADD s 2 3")));
    let union = dumped("SADD s 1 2 3");
    // The target does not keep its expiry.
    rig.assert_asked(1, &[&[b"RESTORE", b.as_bytes(), b"0", &union, b"REPLACE"]]);
    rig.node_sends(1, "+OK|");
    assert_eq!(rig.taken(client), ":3|");
    rig.assert_idle();
}

#[test]
fn an_empty_result_removes_the_target() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sinterstore {b} {a} {a}|"));
    rig.assert_asked(0, &[&[b"MEMORY", b"USAGE", a.as_bytes()]]);
    rig.node_sends(0, "$-1|");
    rig.assert_asked(0, &[&[b"PTTL", a.as_bytes()], &[b"DUMP", a.as_bytes()]]);
    rig.node_sends(0, ":-2|$-1|");
    rig.assert_asked(1, &[&[b"UNLINK", b.as_bytes()]]);
    rig.node_sends(1, ":0|");
    assert_eq!(rig.taken(client), ":0|");
}

#[test]
fn a_value_of_the_wrong_kind_is_redis_own_error() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sunionstore {a} {a} {b}|"));
    rig.node_sends(0, ":50|");
    rig.node_sends(1, ":50|");
    rig.node_replies(0, &holds(&dumped("SADD s 1 2")));
    rig.node_replies(1, &holds(&dumped("RPUSH l 1 2")));
    assert_eq!(rig.taken(client), "-WRONGTYPE Operation against a key holding the wrong kind of value|");
    rig.assert_idle();
}

#[test]
fn a_value_that_cannot_be_read_is_an_error() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sunion {a} {b}|"));
    rig.node_sends(0, ":50|");
    rig.node_sends(1, ":50|");
    rig.node_replies(0, &holds(b"of a module"));
    rig.node_replies(1, b":-2\r\n$-1\r\n");
    assert_eq!(rig.taken(client), "-ERR a value has a type that commands over several shards cannot read|");
}

#[test]
fn a_write_that_the_node_refuses_leaves_all_as_it_was() {
    let mut rig = rig(2);
    let (client, ..) = renaming(&mut rig);
    rig.node_got(0);
    rig.node_sends(1, "-OOM command not allowed when used memory > 'maxmemory'.|");
    assert_eq!(rig.taken(client), "-OOM command not allowed when used memory > 'maxmemory'.|");
    assert_eq!(rig.node_got(0), "", "the source stays");
    rig.assert_idle();
}

#[test]
fn a_node_that_is_lost_while_it_writes_leaves_the_source() {
    for loses in [lose_conn, time_out] {
        let mut rig = rig(2);
        let (client, ..) = renaming(&mut rig);
        rig.node_got(0);
        loses(&mut rig, 1);
        let reply = rig.taken(client);
        assert!(reply.starts_with("-ERR node ") && reply.contains("outcome unknown"), "{reply}");
        assert!(!rig.node_got(0).contains("UNLINK"), "the source stays");
        assert_eq!(rig.proxy.pending().emulations, 0);
    }
}

#[test]
fn a_node_that_is_lost_before_the_removal_leaves_both() {
    for loses in [lose_conn, time_out] {
        let mut rig = rig(2);
        let (client, ..) = removing(&mut rig);
        loses(&mut rig, 0);
        let reply = rig.taken(client);
        assert!(reply.starts_with("-ERR node "), "{reply}");
        assert!(reply.ends_with("; the new key is written, and the old one may still be there|"), "{reply}");
    }
}

#[test]
fn node_down_before_the_removal_is_not_tryagain() {
    let mut rig = rig(2);
    let (client, ..) = renaming(&mut rig);
    lose_conn(&mut rig, 0);
    rig.pass(Duration::from_millis(1));
    lose_conn(&mut rig, 0);
    rig.node_sends(1, "+OK|");
    let reply = rig.taken(client);
    assert!(reply.starts_with("-ERR shard ") && reply.contains("the new key is written"), "{reply}");
}

/// Ends the link to the node of `shard`.
fn lose_conn(rig: &mut Rig, shard: u32) {
    let conn = rig.node(shard);
    rig.event(Event::Ended { conn });
}

/// Lets the node of `shard` miss its timeout.
fn time_out(rig: &mut Rig, _shard: u32) {
    rig.pass(Duration::from_millis(1_500));
}

#[test]
fn renamenx_and_copy_never_replace_a_new_value() {
    for (line, removes) in [("renamenx", true), ("copy", false)] {
        let mut rig = rig(2);
        let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
        let run = |rig: &mut Rig, exists: &str| {
            rig.client_sends(client, &format!("{line} {a} {b}|"));
            rig.node_sends(0, ":50|");
            rig.node_replies(0, &holds(b"payload"));
            rig.node_got(1);
            rig.node_sends(1, exists);
        };
        run(&mut rig, ":1|");
        assert_eq!((rig.taken(client).as_str(), rig.node_got(1).as_str()), (":0|", ""));
        run(&mut rig, ":0|");
        rig.assert_asked(1, &[&[b"RESTORE", b.as_bytes(), b"0", b"payload"]]);
        rig.node_sends(1, "-BUSYKEY Target key name already exists.|");
        assert_eq!(rig.taken(client), ":0|");
        run(&mut rig, ":0|");
        rig.node_got(0);
        rig.node_sends(1, "+OK|");
        if removes {
            rig.assert_asked(0, &[&[b"UNLINK", a.as_bytes()]]);
            rig.node_sends(0, ":1|");
        }
        assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), (":1|", ""));
        rig.assert_idle();
    }
}

#[test]
fn copy_to_another_database_uses_its_link() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("copy {a} {b} db 9 DB 3|"));
    rig.node_sends(0, ":50|");
    rig.node_replies(0, &holds(b"payload"));
    let conn = rig.bring_up_greeted(1, "*2|$6|SELECT|$1|3|*1|$4|PING|", "+OK|+PONG|");
    let words = |words: &[&[u8]]| shown(&request(words));
    assert_eq!(rig.taken(conn), words(&[b"EXISTS", b.as_bytes()]));
    rig.sends(conn, ":0|");
    assert_eq!(rig.taken(conn), words(&[b"RESTORE", b.as_bytes(), b"0", b"payload"]));
    rig.sends(conn, "+OK|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(1).as_str()), (":1|", ""));
    rig.assert_idle();
    rig.client_sends(client, &format!("copy {a} {b} db 16|"));
    assert_eq!(rig.taken(client), "-ERR DB index is out of range|");
    rig.node_got(0);
    for (options, error) in [
        ("db -1", "-ERR DB index is out of range|"),
        ("db x", "-ERR value is not an integer or out of range|"),
        ("db 3 nosuch", "-ERR syntax error|"),
        ("db 3 db", "-ERR syntax error|"),
    ] {
        rig.client_sends(client, &format!("copy {a} {b} {options}|"));
        rig.node_sends(0, ":50|");
        rig.node_replies(0, &holds(b"payload"));
        match rig.has_sent(conn) {
            true => rig.sends(conn, ":0|"),
            false => rig.node_sends(1, ":0|"),
        }
        rig.taken(conn);
        assert_eq!(rig.taken(client), error, "{options}");
    }
}

#[test]
fn copy_with_replace_replaces() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("copy {a} {b} replace|"));
    rig.node_sends(0, ":50|");
    rig.node_replies(0, &holds(b"payload"));
    rig.node_got(1);
    rig.node_sends(1, ":1|");
    rig.assert_asked(1, &[&[b"RESTORE", b.as_bytes(), b"0", b"payload", b"REPLACE"]]);
    rig.node_sends(1, "+OK|");
    assert_eq!(rig.taken(client), ":1|");
}

#[test]
fn msetnx_looks_first_and_reports_interference() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    let msetnx = format!("msetnx {a} x {b} y|");
    rig.client_sends(client, &msetnx);
    rig.assert_asked(0, &[&[b"EXISTS", a.as_bytes()]]);
    rig.node_sends(0, ":0|");
    rig.node_sends(1, ":1|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), (":0|", ""));
    let ask = |rig: &mut Rig, first: &str, second: &str| {
        rig.client_sends(client, &msetnx);
        rig.node_sends(0, ":0|");
        rig.node_got(0);
        rig.node_sends(1, ":0|");
        let payload = dumped("SET k x");
        rig.assert_asked(0, &[&[b"RESTORE", a.as_bytes(), b"0", &payload]]);
        rig.node_sends(0, first);
        rig.node_sends(1, second);
        rig.taken(client)
    };
    assert_eq!(ask(&mut rig, "+OK|", "+OK|"), ":1|");
    assert_eq!(ask(&mut rig, "-BUSYKEY x|", "-BUSYKEY x|"), ":0|");
    let partly = "; other parts of this command may have been applied|";
    assert_eq!(ask(&mut rig, "+OK|", "-BUSYKEY x|"), format!("-BUSYKEY x{partly}"));
    assert_eq!(ask(&mut rig, "-OOM x|", "+OK|"), format!("-OOM x{partly}"));
    assert_eq!(ask(&mut rig, "-OOM x|", "-OOM y|"), "-OOM x|");
    rig.assert_idle();
}

#[test]
fn values_above_the_limit_are_refused_before_they_are_read() {
    let mut rig = rig_with(2, Limits { cross_shard_bytes_max: 1000, ..Limits::default() });
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    let refusal = "-ERR the values of this command exceed the 1000 bytes of --cross-shard-bytes-max. Nothing was changed. Raise the limit, \
         or give the keys one hash tag|";
    rig.client_sends(client, &format!("sunion {a} {b}|"));
    rig.node_got(0);
    rig.node_sends(0, ":600|");
    rig.node_sends(1, ":401|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), (refusal, ""));
    // A node may report too little, so received values count as well.
    rig.client_sends(client, &format!("sunion {a} {b}|"));
    rig.node_sends(0, ":1|");
    rig.node_sends(1, "-ERR unknown command 'MEMORY'|");
    rig.node_replies(0, &holds(&[b'x'; 600]));
    rig.node_replies(1, &holds(&[b'x'; 600]));
    assert_eq!(rig.taken(client), refusal);
    rig.assert_idle();
}

#[test]
fn a_value_that_is_named_often_counts_as_often() {
    let mut rig = rig_with(2, Limits { cross_shard_bytes_max: 1000, ..Limits::default() });
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    let refusal = "-ERR the values of this command exceed the 1000 bytes of --cross-shard-bytes-max. Nothing was changed. Raise the limit, \
         or give the keys one hash tag|";
    rig.client_sends(client, &format!("sunion {a} {a} {a} {b}|"));
    rig.node_sends(0, ":330|");
    rig.node_sends(1, ":11|");
    assert_eq!(rig.taken(client), refusal);
    rig.client_sends(client, &format!("sunion {a} {a} {a} {b}|"));
    rig.node_sends(0, ":1|");
    rig.node_sends(1, ":1|");
    rig.node_replies(0, &holds(&[b'x'; 400]));
    rig.node_replies(1, &holds(&dumped("SADD s 1")));
    assert_eq!(rig.taken(client), refusal);
    rig.assert_idle();
}

#[test]
fn more_keys_than_the_limit_says_are_not_asked_for() {
    let mut rig = rig_with(2, Limits { cross_shard_keys_max: 3, ..Limits::default() });
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sunion {a} {b} {b} {b}|"));
    let refusal = "-ERR the command names more keys of several shards than the limit of the proxy. Nothing was changed. \
                   Name fewer keys, or give them one hash tag|";
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), (refusal, ""));
    rig.assert_idle();
}

#[test]
fn a_value_that_turns_out_huge_is_passed_over_as_it_comes() {
    let mut rig = rig_with(2, Limits { cross_shard_bytes_max: 100_000, ..Limits::default() });
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sunion {a} {b}|"));
    rig.node_sends(0, ":1|");
    rig.node_sends(1, ":1|");
    rig.node_replies(1, &holds(&dumped("SADD s 1")));
    let huge = expires(-1, &[b'x'; 1_000_000]);
    rig.node_replies(0, &huge[..70_000]);
    let reply = rig.taken(client);
    assert!(reply.starts_with("-ERR the values of this command exceed"), "{reply}");
    for piece in huge[70_000..].chunks(70_000) {
        rig.node_replies(0, piece);
        assert!(rig.proxy.held_bytes() < 80_000);
    }
    rig.client_sends(client, &format!("get {a}|"));
    rig.node_sends(0, "$1|a|");
    assert_eq!(rig.taken(client), "$1|a|");
    rig.assert_idle();
}

#[test]
fn many_at_once_do_not_take_more_memory_than_there_is() {
    let limits = Limits {
        engine: EngineLimits { memory_bytes_max: 10_000, ..EngineLimits::default() },
        cross_shard_bytes_max: 4_000,
        ..Limits::default()
    };
    let mut rig = rig_with(2, limits);
    let (one, two, a, b) = (rig.client(), rig.client(), rig.key(0), rig.key(1));
    for client in [one, two] {
        rig.client_sends(client, &format!("sunion {a} {b}|"));
    }
    rig.node_sends(0, ":2000|:2000|");
    rig.node_sends(1, ":2000|:2000|");
    assert_eq!(rig.taken(one), "");
    assert_eq!(
        rig.taken(two),
        "-TRYAGAIN memory is short (--memory-max): the command over several shards was not run|"
    );
    assert!(rig.proxy.held_bytes() >= 4_000, "what is on its way counts");
    rig.node_replies(0, &holds(&dumped("SADD s 1")));
    rig.node_replies(1, &holds(&dumped("SADD s 1")));
    assert_eq!(rig.taken(one), "*1|$1|1|");
    rig.assert_idle();
}

#[test]
fn client_leaving_during_emulation_leaves_nothing() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("sunionstore {a} {a} {b}|"));
    rig.node_sends(0, ":50|");
    rig.event(Event::Closed { conn: client, reason: "gone" });
    rig.assert_idle();
    rig.node_got(0);
    rig.node_sends(1, ":50|");
    assert_eq!((rig.node_got(0).as_str(), rig.proxy.held_bytes()), ("", 0));
}

#[test]
fn an_emulation_that_writes_outlasts_its_client() {
    let mut rig = rig(2);
    let (client, a, _) = renaming(&mut rig);
    rig.event(Event::Closed { conn: client, reason: "gone" });
    assert!(!rig.proxy.is_drained(), "it is waited for");
    rig.node_sends(1, "+OK|");
    rig.assert_asked(0, &[&[b"UNLINK", a.as_bytes()]]);
    rig.node_sends(0, ":1|");
    assert!(rig.proxy.is_drained());
    rig.assert_idle();
}

#[test]
fn a_client_that_does_not_want_to_hear_hears_nothing() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("client reply skip|sunion {a} {b}|ping|"));
    rig.node_sends(0, "$-1|");
    rig.node_sends(1, "$-1|");
    rig.node_sends(0, ":-2|$-1|");
    rig.node_sends(1, ":-2|$-1|");
    assert_eq!(rig.taken(client), "+PONG|");
}

#[test]
fn a_client_in_another_database_with_resp3_is_served_there() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(client, "select 3|hello 3|");
    rig.taken(client);
    rig.client_sends(client, &format!("sunion {a} {b}|lmove {a} {b} left left|"));
    let greeting = "*2|$5|HELLO|$1|3|*2|$6|SELECT|$1|3|*1|$4|PING|";
    let conns = [0, 1].map(|shard| rig.bring_up_greeted(shard, greeting, "%0|+OK|+PONG|"));
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    for conn in conns {
        assert!(rig.taken(conn).contains("|USAGE|"));
        rig.sends(conn, "_|");
    }
    for conn in conns {
        assert!(rig.taken(conn).contains("|DUMP|"));
    }
    rig.sends(conns[0], ":-2|_|");
    let found = holds(&dumped("SADD s 1"));
    rig.event(Event::Received { conn: conns[1], bytes: &found });
    assert_eq!(rig.taken(client), "~1|$1|1|");
    for conn in conns {
        assert!(rig.taken(conn).contains("|TYPE|"));
        rig.sends(conn, "+none|");
    }
    assert_eq!(rig.taken(client), "_|");
}

#[test]
fn commands_that_are_not_emulated_stay_refused() {
    let mut rig = rig(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    rig.client_sends(
        client,
        &format!("blmove {a} {b} left left 0|eval x 2 {a} {b}|sort {a} by w* store {b}|"),
    );
    let replies = rig.taken(client);
    assert_eq!(replies.matches("-CROSSSLOT ").count(), 2, "{replies}");
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}

mod moves {
    use super::*;

    const JOURNAL: &str = "shardis:moving:";

    /// The requests to the node of `shard`, with `journal` for the name of the journal.
    fn asked(rig: &mut Rig, shard: u32) -> String {
        let got = rig.node_got(shard);
        let words: Vec<&str> =
            got.split('|').filter(|word| !word.is_empty() && !word.starts_with(['*', '$'])).collect();
        let name =
            |word: &&str| if word.starts_with(JOURNAL) { "journal".to_owned() } else { word.to_string() };
        words.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// A client that sent `lmove A B right left`, up to the claim.
    fn claiming(rig: &mut Rig) -> (ConnId, String, String) {
        let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
        rig.client_sends(client, &format!("lmove {a} {b} right left|"));
        assert_eq!((asked(rig, 0), asked(rig, 1)), (format!("TYPE {a}"), format!("TYPE {b}")));
        rig.node_sends(0, "+list|");
        rig.node_sends(1, "+none|");
        assert_eq!(asked(rig, 0), format!("LMOVE {a} journal RIGHT LEFT"));
        (client, a, b)
    }

    /// A client like that of [`claiming`], up to the push.
    fn adding(rig: &mut Rig) -> (ConnId, String, String) {
        let (client, a, b) = claiming(rig);
        rig.node_sends(0, "$1|e|");
        assert_eq!(asked(rig, 1), format!("LPUSH {b} e"));
        (client, a, b)
    }

    #[test]
    fn an_element_of_a_list_goes_over_the_journal() {
        let mut rig = rig(2);
        let (client, ..) = adding(&mut rig);
        rig.node_sends(1, ":1|");
        assert_eq!((asked(&mut rig, 0).as_str(), rig.taken(client).as_str()), ("UNLINK journal", ""));
        rig.node_sends(0, ":1|");
        assert_eq!(rig.taken(client), "$1|e|");
        rig.assert_idle();
    }

    #[test]
    fn the_journal_is_in_the_slot_of_the_source_in_a_cluster() {
        let settings = Settings { cross_shard: CrossShard::Emulate, ..Settings::default() };
        let mut rig = Rig::cluster_as(2, settings);
        for source in [&rig.key(0), "{tag}0", "a}0", "{}}0", ""] {
            let (client, target) = (rig.client(), "{elsewhere}");
            rig.client_sends(client, &format!("lmove \"{source}\" {target} right left|"));
            let division = |rig: &Rig, key: &[u8]| rig.proxy.core.cx.engine.topology.division_of(key);
            let (at, to) = (division(&rig, source.as_bytes()), division(&rig, target.as_bytes()));
            rig.node_sends(to.1.0, if at.1 == to.1 { "" } else { "+none|" });
            rig.node_sends(at.1.0, if at.1 == to.1 { "+list|+none|" } else { "+list|" });
            let got = rig.node_got(at.1.0);
            let claim = got.split('|').find(|word| word.starts_with("shardis:moving:"));
            assert_eq!(division(&rig, claim.expect("it is claimed").as_bytes()), at, "{source:?}: {got}");
            rig.node_sends(at.1.0, "$-1|");
            assert_eq!(rig.taken(client), "$-1|");
        }
    }

    #[test]
    fn rpoplpush_takes_from_the_right_and_adds_at_the_left() {
        let mut rig = rig(2);
        let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
        rig.client_sends(client, &format!("rpoplpush {a} {b}|"));
        rig.node_sends(0, "+list|");
        rig.node_got(0);
        rig.node_sends(1, "+list|");
        assert_eq!(asked(&mut rig, 0), format!("LMOVE {a} journal RIGHT LEFT"));
        asked(&mut rig, 1);
        rig.node_sends(0, "$1|e|");
        assert_eq!(asked(&mut rig, 1), format!("LPUSH {b} e"));
    }

    #[test]
    fn a_member_of_a_set_goes_over_the_journal() {
        let mut rig = rig(2);
        let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
        rig.client_sends(client, &format!("smove {a} {b} m|"));
        rig.node_got(0);
        rig.node_sends(0, "+set|");
        rig.node_got(1);
        rig.node_sends(1, "+set|");
        assert_eq!(asked(&mut rig, 0), format!("SMOVE {a} journal m"));
        rig.node_sends(0, ":1|");
        assert_eq!(asked(&mut rig, 1), format!("SADD {b} m"));
        rig.node_sends(1, ":0|");
        assert_eq!(asked(&mut rig, 0), "UNLINK journal");
        rig.node_sends(0, ":1|");
        assert_eq!(rig.taken(client), ":1|", "it was in both");
        rig.client_sends(client, &format!("smove {a} {b} m|"));
        rig.node_sends(0, "+set|");
        rig.node_sends(1, "+set|");
        rig.node_sends(0, ":0|");
        assert_eq!(rig.taken(client), ":0|", "it is in none");
        rig.assert_idle();
    }

    #[test]
    fn kinds_are_checked_in_redis_order_before_anything_is_taken() {
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
        let mut rig = rig(2);
        let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
        for (line, source, target, reply) in [
            ("lmove A B left right", "none", "string", "$-1|"),
            ("lmove A B left right", "list", "string", wrong),
            ("lmove A B left right", "set", "list", wrong),
            ("lmove A B left up", "", "", "-ERR syntax error|"),
            ("smove A B m", "none", "string", ":0|"),
            ("smove A B m", "set", "list", wrong),
        ] {
            rig.client_sends(client, &format!("{}|", line.replace('A', &a).replace('B', &b)));
            if !source.is_empty() {
                rig.node_sends(0, &format!("+{source}|"));
                rig.node_sends(1, &format!("+{target}|"));
            }
            assert_eq!(rig.taken(client), reply, "{line} {source} {target}");
        }
        assert!(!rig.node_got(0).contains(JOURNAL));
        rig.assert_idle();
    }

    #[test]
    fn an_element_that_the_target_refuses_goes_back() {
        let mut rig = rig(2);
        let (client, a, _) = adding(&mut rig);
        rig.node_sends(1, "-OOM command not allowed when used memory > 'maxmemory'.|");
        assert_eq!(asked(&mut rig, 0), format!("LMOVE journal {a} LEFT RIGHT"));
        rig.node_sends(0, "$1|e|");
        assert_eq!(rig.taken(client), "-OOM command not allowed when used memory > 'maxmemory'.|");
        rig.assert_idle();
    }

    #[test]
    fn an_element_that_a_dead_target_never_got_goes_back() {
        let mut rig = rig(2);
        let (client, a, _) = claiming(&mut rig);
        lose_conn(&mut rig, 1);
        rig.pass(Duration::from_millis(1));
        lose_conn(&mut rig, 1);
        rig.node_sends(0, "$1|e|");
        assert_eq!(asked(&mut rig, 0), format!("LMOVE journal {a} LEFT RIGHT"));
        rig.node_sends(0, "$1|e|");
        assert!(rig.taken(client).starts_with("-TRYAGAIN shard "));
    }

    #[test]
    fn possibly_moved_element_stays_in_the_named_journal() {
        for loses in [lose_conn, time_out] {
            let mut rig = rig(2);
            let (client, ..) = adding(&mut rig);
            loses(&mut rig, 1);
            let reply = rig.taken(client);
            assert!(reply.starts_with("-ERR node "), "{reply}");
            assert!(
                reply.contains("; the element taken from the source may be in key shardis:moving:"),
                "{reply}"
            );
            assert_eq!(asked(&mut rig, 0), "", "it is not dropped");
            rig.assert_idle();
        }
    }

    #[test]
    fn a_claim_without_an_answer_is_taken_back() {
        let mut rig = rig(2);
        let (client, a, _) = claiming(&mut rig);
        rig.pass(Duration::from_millis(1_050));
        assert_eq!(asked(&mut rig, 0), format!("LMOVE journal {a} LEFT RIGHT"), "behind the claim");
        rig.node_sends(0, "$1|e|$1|e|");
        let reply = rig.taken(client);
        assert!(reply.starts_with("-ERR node timeout") && !reply.contains(JOURNAL), "{reply}");
        let (client, ..) = claiming(&mut rig);
        lose_conn(&mut rig, 0);
        rig.pass(Duration::from_millis(1));
        lose_conn(&mut rig, 0);
        let reply = rig.taken(client);
        assert!(reply.starts_with("-ERR node connection lost") && reply.contains(JOURNAL), "{reply}");
        rig.assert_idle();
    }

    #[test]
    fn element_is_moved_despite_journal_errors() {
        let mut rig = rig(2);
        let (client, ..) = adding(&mut rig);
        rig.node_sends(1, ":1|");
        lose_conn(&mut rig, 0);
        assert_eq!(rig.taken(client), "$1|e|");
    }

    #[test]
    fn a_move_is_finished_for_a_client_that_has_left() {
        let mut rig = rig(2);
        let (client, ..) = claiming(&mut rig);
        rig.event(Event::Closed { conn: client, reason: "gone" });
        rig.node_sends(0, "$1|e|");
        rig.node_sends(1, ":1|");
        assert_eq!(asked(&mut rig, 0), "UNLINK journal");
        rig.node_sends(0, ":1|");
        rig.assert_idle();
    }

    #[test]
    fn an_element_that_is_too_large_goes_back() {
        let mut rig = rig_with(2, Limits { cross_shard_bytes_max: 100, ..Limits::default() });
        let (client, a, _) = claiming(&mut rig);
        rig.node_sends(0, &format!("$200|{}|", "x".repeat(200)));
        assert_eq!(asked(&mut rig, 0), format!("LMOVE journal {a} LEFT RIGHT"));
        rig.node_sends(0, &format!("$200|{}|", "x".repeat(200)));
        assert!(rig.taken(client).starts_with("-ERR the element exceeds"));
        rig.assert_idle();
    }
}

#[test]
fn wrong_arguments_are_refused_before_crossed_keys() {
    let mut rig = Rig::ready(2);
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    let (emulation, tag) = (&*crossed(Remedy::Emulation), &*crossed(Remedy::HashTag));
    let long = "v".repeat(8 << 10);
    for (line, expected) in [
        (format!("msetnx {a} 1 {b}"), "-ERR wrong number of arguments for 'msetnx' command|"),
        (format!("lmpop 2 {a} {b}"), "-ERR syntax error|"),
        (format!("blpop {a} {b} x"), "-ERR timeout is not a float or out of range|"),
        // No node is asked about errors that depend on the values of keys.
        (format!("msetnx {a} 1 {b} 2"), emulation),
        (format!("rename {a} {b}"), emulation),
        (format!("blpop {a} {b} 0"), emulation),
        (format!("xreadgroup group g c streams {a} {b} > >"), emulation),
        (format!("eval (( 2 {a} {b}"), tag),
        // Nor does shardis check arguments that would take long.
        (format!("msetnx {a} 1 {b} {long} {a}"), emulation),
    ] {
        rig.client_sends(client, &format!("{line}|"));
        assert_eq!(rig.taken(client), expected, "{line}");
    }
    assert_eq!((rig.node_got(0), rig.node_got(1)), (String::new(), String::new()));
}

#[test]
fn without_an_evaluator_nothing_runs_over_several_shards() {
    let mut rig = rig(2);
    rig.proxy.core.cx.settings.evaluator = None;
    let (client, a, b) = (rig.client(), rig.key(0), rig.key(1));
    for line in [
        format!("sunion {a} {b}"),
        format!("rename {a} {b}"),
        format!("lmove {a} {b} left right"),
        format!("msetnx {a} 1 {b} 2"),
        format!("blpop {a} {b} 0"),
    ] {
        rig.client_sends(client, &format!("{line}|"));
        let reply = rig.taken(client);
        assert!(reply.starts_with("-CROSSSLOT "), "{line}: {reply}");
    }
    assert_eq!((rig.node_got(0), rig.node_got(1)), (String::new(), String::new()));
    rig.assert_idle();
}
