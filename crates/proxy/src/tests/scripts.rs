//! Transcripts of scripts, functions and administration. `|` stands for CR LF.

use crate::testing::Rig;
use crate::{Event, Limits, Notice};

/// The name of the script `return 1`.
const SHA: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
const NOSCRIPT: &str = "-NOSCRIPT No matching script. Please use EVAL.|";
const SCRIPT_LOAD: &str = "*3|$6|SCRIPT|$4|LOAD|$8|return 1|";
const LIBRARY: &str = "#!lua name=lib\nredis.register_function('f', f)";

fn evalsha(key: &str) -> String {
    format!("*4|$7|evalsha|$40|{SHA}|$1|1|${}|{key}|", key.len())
}

fn function_load() -> String {
    format!("*3|$8|FUNCTION|$4|LOAD|${}|{LIBRARY}|", LIBRARY.len())
}

/// Restarts the node of `shard`, without scripts.
fn restart(rig: &mut Rig, shard: u32) {
    let conn = rig.node(shard);
    rig.event(Event::Ended { conn });
    rig.pass(std::time::Duration::from_secs(2));
    rig.bring_up(shard);
}

#[test]
fn a_script_that_one_shard_saw_is_brought_to_another() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("*4|$4|eval|$8|return 1|$1|1|${}|{a}|", a.len()));
    rig.node_got(0);
    rig.node_sends(0, ":1|");
    assert_eq!(rig.taken(client), ":1|");
    rig.client_sends(client, &evalsha(&a));
    assert_eq!(rig.node_got(0), evalsha(&a), "the first shard has it");
    rig.node_sends(0, ":1|");
    rig.client_sends(client, &evalsha(&b));
    assert_eq!(rig.node_got(1), format!("{SCRIPT_LOAD}{}", evalsha(&b)));
    rig.node_sends(1, &format!("$40|{SHA}|:1|"));
    assert_eq!(rig.taken(client), ":1|:1|");
    rig.client_sends(client, &evalsha(&b).replace(SHA, &SHA.to_ascii_uppercase()));
    assert!(rig.node_got(1).starts_with("*4|$7|evalsha|"), "it is loaded once");
}

#[test]
fn a_library_that_is_not_kept_is_logged() {
    let mut rig = Rig::ready_with(1, Limits { script_bytes_max: 100, ..Limits::default() });
    let client = rig.client();
    rig.notices();
    rig.client_sends(client, &function_load());
    assert_eq!(rig.node_got(0), function_load());
    rig.node_sends(0, "$3|lib|");
    assert_eq!(rig.taken(client), "$3|lib|");
    assert_eq!(rig.notices(), [Notice::LibraryNotKept { library: "lib".to_owned() }]);
}

#[test]
fn a_script_that_is_brought_along_exists_on_all_shards() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    let a = rig.key(0);
    rig.client_sends(client, &format!("*4|$4|eval|$8|return 1|$1|1|${}|{a}|", a.len()));
    rig.node_sends(0, ":1|");
    rig.taken(client);
    let other = "0".repeat(40);
    let exists = format!("script exists {SHA} {} {other} x|", SHA.to_ascii_uppercase());
    let ask = |rig: &mut Rig, first: &str| {
        rig.client_sends(client, &exists);
        rig.node_sends(0, first);
        rig.node_sends(1, "*4|:0|:0|:1|:0|");
        rig.taken(client)
    };
    assert_eq!(ask(&mut rig, "*4|:1|:1|:0|:0|"), "*4|:1|:1|:0|:0|");
    rig.client_sends(client, "script flush|");
    (0..2).for_each(|shard| rig.node_sends(shard, "+OK|"));
    assert_eq!(rig.taken(client), "+OK|");
    assert_eq!(ask(&mut rig, "*4|:1|:1|:1|:0|"), "*4|:0|:0|:1|:0|", "nobody can load it any more");
}

#[test]
fn a_node_that_came_back_gets_the_script_first() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "*3|$6|script|$4|load|$8|return 1|");
    rig.node_got(0);
    rig.node_sends(0, &format!("$40|{SHA}|"));
    rig.taken(client);
    restart(&mut rig, 0);
    rig.client_sends(client, &evalsha("k"));
    assert_eq!(rig.node_got(0), format!("{SCRIPT_LOAD}{}", evalsha("k")));
}

#[test]
fn flushed_script_is_reloaded_and_its_request_retried() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "*3|$6|script|$4|load|$8|return 1|");
    rig.node_sends(0, &format!("$40|{SHA}|"));
    rig.taken(client);
    rig.client_sends(client, &evalsha("k"));
    rig.node_got(0);
    rig.node_sends(0, NOSCRIPT);
    assert_eq!(rig.taken(client), "");
    assert_eq!(rig.node_got(0), format!("{SCRIPT_LOAD}{}", evalsha("k")));
    rig.node_sends(0, &format!("$40|{SHA}|{NOSCRIPT}"));
    assert_eq!(rig.taken(client), NOSCRIPT, "once, and not for ever");
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn a_request_is_not_repeated_behind_later_requests() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "*3|$6|script|$4|load|$8|return 1|");
    rig.node_sends(0, &format!("$40|{SHA}|"));
    rig.taken(client);
    rig.client_sends(client, &format!("{}get k|", evalsha("k")));
    rig.node_got(0);
    rig.node_sends(0, &format!("{NOSCRIPT}$-1|"));
    assert_eq!(rig.taken(client), format!("{NOSCRIPT}$-1|"));
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn a_flushed_script_stays_away() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "*3|$6|script|$4|load|$8|return 1|script flush|");
    rig.node_got(0);
    rig.node_sends(0, &format!("$40|{SHA}|+OK|"));
    rig.taken(client);
    rig.client_sends(client, &evalsha("k"));
    assert_eq!(rig.node_got(0), evalsha("k"));
    rig.node_sends(0, NOSCRIPT);
    assert_eq!(rig.taken(client), NOSCRIPT);
}

#[test]
fn a_script_is_not_run_for_a_client_that_has_left() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "*3|$6|script|$4|load|$8|return 1|");
    rig.node_sends(0, &format!("$40|{SHA}|"));
    rig.client_sends(client, &evalsha("k"));
    rig.event(Event::Closed { conn: client, reason: "gone" });
    rig.node_got(0);
    rig.node_sends(0, NOSCRIPT);
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn functions_are_loaded_on_all_and_on_returning_shards() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, &function_load());
    assert_eq!((rig.node_got(0), rig.node_got(1)), (function_load(), function_load()));
    rig.node_sends(0, "$3|lib|");
    rig.node_sends(1, "$3|lib|");
    assert_eq!(rig.taken(client), "$3|lib|");
    restart(&mut rig, 1);
    let b = rig.key(1);
    let fcall = format!("*4|$5|fcall|$1|f|$1|1|${}|{b}|", b.len());
    rig.client_sends(client, &fcall);
    assert_eq!(rig.node_got(1), format!("{}{fcall}", function_load()));
    rig.node_sends(1, "$3|lib|:1|");
    rig.client_sends(client, &fcall);
    assert_eq!(rig.node_got(1), fcall);
    // The functions were flushed directly at the node.
    rig.node_sends(1, "-ERR Function not found|");
    assert_eq!(rig.node_got(1), format!("{}{fcall}", function_load()));
    rig.node_sends(1, "$3|lib|:1|");
    assert_eq!(rig.taken(client), ":1|:1|");
}

#[test]
fn a_library_counts_once_all_shards_have_it() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, &function_load());
    rig.node_sends(0, "$3|lib|");
    rig.node_sends(1, "-ERR Library 'lib' already exists|");
    assert_eq!(rig.taken(client), "-ERR Library 'lib' already exists|");
    rig.node_got(0);
    rig.client_sends(client, "fcall f 0|");
    assert_eq!(rig.node_got(0), "*3|$5|fcall|$1|f|$1|0|");
}

#[test]
fn administration_needs_allow_admin() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "config set save x|debug sleep 0|");
    let refusal = "is not allowed through shardis without --allow-admin: it";
    let replies = rig.taken(client);
    assert!(
        replies.starts_with(&format!("-ERR command 'config|set' {refusal} would change a node")),
        "{replies}"
    );
    assert!(replies.contains(&format!("|-ERR command 'debug' {refusal} can stall a node")), "{replies}");
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
}

#[test]
fn administration_that_is_permitted_reaches_every_node() {
    let mut rig = Rig::ready_for_admin(2);
    let client = rig.client();
    rig.client_sends(client, "config set save x|");
    let request = "*4|$6|config|$3|set|$4|save|$1|x|";
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), (request, request));
    rig.node_sends(0, "+OK|");
    rig.node_sends(1, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    rig.client_sends(client, "config get save|");
    rig.node_sends(0, "*2|$4|save|$1|x|");
    rig.node_sends(1, "*2|$4|save|$1|x|");
    assert_eq!(rig.taken(client), "*2|$4|save|$1|x|");
}

#[test]
fn commands_that_cut_off_or_end_nodes_are_refused() {
    let mut rig = Rig::ready_for_admin(1);
    let client = rig.client();
    rig.client_sends(client, "config set save x PORT 1|debug segfault|shutdown|");
    let replies = rig.taken(client);
    let replies: Vec<&str> = replies.split_terminator('|').collect();
    assert_eq!(replies.len(), 3);
    assert!(replies[0].starts_with("-ERR CONFIG SET port is not allowed through shardis"), "{replies:?}");
    assert!(replies.iter().all(|reply| reply.contains("not allowed through shardis")), "{replies:?}");
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn debug_of_a_key_goes_to_its_shard() {
    let mut rig = Rig::ready_for_admin(2);
    let client = rig.client();
    let b = rig.key(1);
    rig.client_sends(client, &format!("debug object {b}|"));
    assert_eq!(
        (rig.node_got(0).as_str(), rig.node_got(1)),
        ("", format!("*3|$5|debug|$6|object|${}|{b}|", b.len()))
    );
}
