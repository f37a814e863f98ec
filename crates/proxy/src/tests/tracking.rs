//! Transcripts of client-side caching. `|` stands for CR LF.

use crate::link::profile::Profile;
use crate::testing::{Rig, deliver_mail, even};
use crate::{ConnId, CrossShard, Event, Limits, Settings};
use std::time::Duration;

const TRACK: &str = "*4|$6|CLIENT|$8|TRACKING|$2|ON|$5|BCAST|";
const GREETING: &str = "*2|$5|HELLO|$1|3|*1|$4|PING|";
/// The name of the script `return 1`.
const SHA: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
const FORGET_ALL: &str = ">2|$10|invalidate|_|";

fn changed(keys: &[&str]) -> String {
    let keys: String = keys.iter().map(|key| format!("${}|{key}|", key.len())).collect();
    let count = keys.matches('$').count();
    format!(">2|$10|invalidate|*{count}|{keys}")
}

/// A client that speaks RESP3, with a link of its profile to the one shard.
fn client_of_resp3(rig: &mut Rig) -> (ConnId, ConnId) {
    let client = rig.client();
    rig.change_profile(client, Profile { resp3: true, ..Profile::default() });
    rig.client_sends(client, "get k|");
    let profile = rig.bring_up_greeted(0, GREETING, "%0|+PONG|");
    rig.sends(profile, "_|");
    assert_eq!((rig.taken(profile).as_str(), rig.taken(client).as_str()), ("*2|$3|get|$1|k|", "_|"));
    (client, profile)
}

/// The link over which the node of shard 0 reports changes, which was just asked for.
fn source(rig: &mut Rig) -> ConnId {
    let source = rig.bring_up_greeted(0, GREETING, "%0|+PONG|");
    assert_eq!(rig.taken(source), TRACK);
    rig.sends(source, "+OK|");
    source
}

/// A client that tracks with `options`, the link of its profile, and the link of changes.
fn tracking(rig: &mut Rig, options: &str) -> (ConnId, ConnId, ConnId) {
    let (client, profile) = client_of_resp3(rig);
    rig.client_sends(client, &format!("client tracking on {options}|"));
    assert_eq!(rig.taken(client), "", "the node has not confirmed");
    let source = source(rig);
    assert_eq!(rig.taken(client), "+OK|");
    (client, profile, source)
}

#[test]
fn a_key_that_a_client_has_read_is_invalidated_once() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    rig.client_sends(client, "mget a b|set c 1|");
    rig.sends(profile, "*2|_|_|+OK|");
    rig.taken(client);
    rig.sends(source, &changed(&["b", "c"]));
    rig.sends(source, &changed(&["b"]));
    assert_eq!(rig.taken(client), changed(&["b"]));
    assert_eq!(rig.proxy.pending().tracked_keys, 1);
    rig.client_sends(client, "client tracking off|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().tracked_keys), ("+OK|", 0));
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), "");
    rig.pass(Duration::from_secs(2));
    assert!(rig.is_closed(source), "nobody wants to know");
}

#[test]
fn tracking_on_does_not_wait_for_a_lost_shard() {
    let mut rig = Rig::cluster(2);
    let (client, _) = client_of_resp3(&mut rig);
    rig.client_sends(client, "client tracking on|ping|");
    let sources = [0, 1].map(|shard| {
        let source = rig.bring_up_greeted(shard, GREETING, "%0|+PONG|");
        assert_eq!(rig.taken(source), TRACK);
        source
    });
    rig.remap(&even(1));
    assert_eq!((rig.is_closed(sources[1]), rig.taken(client).as_str()), (true, ""), "the other is left");
    rig.sends(sources[0], "+OK|");
    assert_eq!(rig.taken(client), "+OK|+PONG|");
    // The same if the lost shard is the last one.
    let mut rig = Rig::cluster(2);
    let (client, _) = client_of_resp3(&mut rig);
    rig.client_sends(client, "client tracking on|ping|");
    let first = rig.bring_up_greeted(0, GREETING, "%0|+PONG|");
    rig.sends(first, "+OK|");
    rig.remap(&even(1));
    assert_eq!(rig.taken(client), "+OK|+PONG|");
}

#[test]
fn invalidation_does_not_prevent_loading_a_missing_script() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    rig.client_sends(client, "get k|*3|$6|script|$4|load|$8|return 1|");
    rig.sends(profile, &format!("_|$40|{SHA}|"));
    rig.taken(client);
    rig.taken(profile);
    let evalsha = format!("*4|$7|evalsha|$40|{SHA}|$1|1|$1|k|");
    rig.client_sends(client, &evalsha);
    assert_eq!(rig.taken(profile), evalsha);
    rig.sends(source, &changed(&["k"]));
    rig.sends(profile, "-NOSCRIPT No matching script. Please use EVAL.|");
    assert_eq!(rig.taken(client), "");
    assert_eq!(rig.taken(profile), format!("*3|$6|SCRIPT|$4|LOAD|$8|return 1|{evalsha}"));
    rig.sends(profile, &format!("$40|{SHA}|:1|"));
    assert_eq!(rig.taken(client), format!(":1|{}", changed(&["k"])));
}

#[test]
fn a_change_does_not_overtake_the_value_before_it() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    rig.client_sends(client, "get a|");
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), "");
    rig.sends(profile, "$3|old|");
    assert_eq!(rig.taken(client), "$3|old|".to_owned() + &changed(&["a"]));
}

#[test]
fn a_transaction_reads_when_it_is_executed() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    rig.client_sends(client, "multi|get a|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.pending().tracked_keys), ("+OK|+QUEUED|", 0));
    rig.client_sends(client, "exec|");
    rig.sends(profile, "+OK|+QUEUED|*1|$1|v|");
    assert_eq!(rig.taken(client), "*1|$1|v|");
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), changed(&["a"]));
}

#[test]
fn broadcasts_are_of_keys_that_begin_so() {
    let mut rig = Rig::ready(1);
    let (client, _, source) = tracking(&mut rig, "bcast prefix user: prefix item:");
    rig.sends(source, &changed(&["user:1", "other", "item:2"]));
    assert_eq!(rig.taken(client), changed(&["item:2"]) + &changed(&["user:1"]));
    rig.sends(source, &changed(&["other"]));
    assert_eq!(rig.taken(client), "");
    rig.client_sends(client, "client tracking on bcast prefix us|client tracking on bcast prefix x|");
    let overlap = "-ERR Prefix 'us' overlaps with an existing prefix 'user:'. Prefixes for a single client must not \
                   overlap.|";
    assert_eq!(rig.taken(client), overlap);
    assert_eq!(rig.taken(source), TRACK);
    rig.sends(source, &changed(&["x0"]));
    rig.sends(source, "+OK|");
    assert_eq!(rig.taken(client), "+OK|", "what was before need not be known");
    rig.sends(source, &changed(&["x1", "item:3"]));
    assert_eq!(rig.taken(client), changed(&["item:3"]) + &changed(&["x1"]));
}

/// Checks that the node gets the request for the text of `key`, over `profile`, and answers it with `found`.
fn check(rig: &mut Rig, profile: ConnId, (key, len): (&str, usize), found: &str) {
    let asked = format!("*4|$8|GETRANGE|${}|{key}|$1|0|${}|{len}|", key.len(), len.to_string().len());
    assert_eq!(rig.taken(profile), asked);
    rig.sends(profile, found);
}

#[test]
fn noloop_hides_own_writes() {
    for options in ["noloop", "bcast noloop"] {
        let mut rig = Rig::ready(1);
        let (client, profile, source) = tracking(&mut rig, options);
        rig.client_sends(client, "mget a b c|set a 1|set b 1 nx|del c|");
        rig.sends(profile, "*3|_|_|_|+OK|+OK|:0|");
        [client, profile].iter().for_each(|conn| drop(rig.taken(*conn)));
        rig.sends(source, &changed(&["a"]));
        check(&mut rig, profile, ("a", 1), "$1|1|");
        assert_eq!(rig.taken(client), "", "it is as the client has written it");
        rig.sends(source, &changed(&["b"]));
        rig.sends(source, &changed(&["c"]));
        let told = changed(&["b"]) + &changed(&["c"]);
        assert_eq!(rig.taken(client), told, "of what it may not have changed it is told");
        rig.client_sends(client, "get a|");
        rig.sends(profile, "$1|1|");
        [client, profile].iter().for_each(|conn| drop(rig.taken(*conn)));
        rig.sends(source, &changed(&["a"]));
        assert_eq!(
            (rig.taken(client), rig.taken(profile).as_str()),
            (changed(&["a"]), ""),
            "it may have read another's"
        );
        assert!(rig.proxy.core.invalidations.checks.is_empty());
    }
}

#[test]
fn own_writes_that_cannot_be_checked_are_invalidated() {
    for found in ["$2|12|", "$0||", "_|", "-WRONGTYPE no|"] {
        let mut rig = Rig::ready(1);
        let (client, profile, source) = tracking(&mut rig, "noloop");
        rig.client_sends(client, "get a|setex a 10 1|");
        rig.sends(profile, "_|+OK|");
        [client, profile].iter().for_each(|conn| drop(rig.taken(*conn)));
        rig.sends(source, &changed(&["a"]));
        check(&mut rig, profile, ("a", 1), found);
        assert_eq!(rig.taken(client), changed(&["a"]), "{found}");
    }
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "noloop");
    rig.client_sends(client, "get a|set a 1|");
    rig.sends(profile, "_|+OK|");
    rig.taken(client);
    rig.sends(source, &changed(&["a"]));
    rig.event(Event::Ended { conn: profile });
    assert_eq!(rig.taken(client), changed(&["a"]), "the connection was lost");
}

#[test]
fn own_writes_of_doubtful_keys_are_invalidated() {
    // Two databases may have a key of the same name. An empty text looks like a missing key. A long text is not read
    // again.
    let long = "x".repeat(20_000);
    for written in ["select 3|set a 1", "set a 1|select 3|get b", "mset a 1 a ''", &format!("set a {long}")] {
        let mut rig = Rig::ready(1);
        let (client, profile, source) = tracking(&mut rig, "noloop");
        rig.client_sends(client, &format!("get a|{written}|"));
        rig.taken(profile);
        rig.sends(profile, "_|");
        rig.taken(client);
        let selected = rig.last_pinned().filter(|conn| *conn != source && *conn != profile);
        rig.sends(source, &changed(&["a"]));
        let asked = rig.taken(profile) + &selected.map(|conn| rig.taken(conn)).unwrap_or_default();
        assert!(!asked.contains("GETRANGE"), "{written}: {asked}");
    }
}

#[test]
fn client_leaving_during_a_noloop_check_is_harmless() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "bcast noloop");
    rig.client_sends(client, "mset a 1 b 2|");
    rig.sends(profile, "+OK|");
    rig.taken(profile);
    rig.sends(source, &changed(&["a"]));
    rig.event(Event::Closed { conn: client, reason: "gone" });
    check(&mut rig, profile, ("a", 1), "$1|9|");
    assert!(rig.proxy.core.invalidations.checks.is_empty());
}

#[test]
fn changed_prefixes_hide_invalidations_being_checked() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "bcast prefix a noloop");
    rig.client_sends(client, "set a 1|");
    rig.sends(profile, "+OK|");
    [client, profile].iter().for_each(|conn| drop(rig.taken(*conn)));
    rig.sends(source, &changed(&["a"]));
    rig.client_sends(client, "client tracking off|client tracking on bcast prefix b|");
    rig.sends(source, "+OK|");
    assert_eq!(rig.taken(client), "+OK|+OK|");
    check(&mut rig, profile, ("a", 1), "$1|9|");
    assert_eq!(rig.taken(client), "");
}

#[test]
fn a_change_to_broadcasts_causes_no_second_invalidation() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    let _other = rig.client();
    rig.client_sends(client, "get a|client tracking off|client tracking on bcast|");
    rig.sends(profile, "_|");
    rig.sends(source, "+OK|");
    assert_eq!(rig.taken(client), "_|+OK|+OK|");
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), changed(&["a"]));
}

#[test]
fn opt_in_invalidates_only_keys_read_with_caching() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "optin");
    rig.client_sends(client, "get a|client caching yes|get b|get c|");
    rig.sends(profile, "_|_|_|");
    assert_eq!(rig.taken(client), "_|+OK|_|_|");
    rig.sends(source, &changed(&["a", "b", "c"]));
    assert_eq!(rig.taken(client), changed(&["b"]));
    rig.client_sends(client, "client tracking off|client tracking on optout|client caching no|get a|get b|");
    assert_eq!(rig.taken(client), "+OK|");
    rig.sends(source, "+OK|");
    rig.sends(profile, "_|_|");
    assert_eq!(rig.taken(client), "+OK|+OK|_|_|");
    rig.sends(source, &changed(&["a", "b", "c"]));
    assert_eq!(rig.taken(client), changed(&["b"]));
}

/// The keys that are invalidated for a client that tracks with `options`. It sends CLIENT CACHING `word`, `before`,
/// MULTI, `get a`, `behind` and EXEC.
fn told_of_transaction(options: &str, (word, before, behind): (&str, &str, &str)) -> String {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, options);
    rig.client_sends(client, &format!("client caching {word}|{before}multi|get a|{behind}exec|get b|"));
    let queued = if behind.contains("get") { "+OK|+QUEUED|+QUEUED|*2|_|_|_|" } else { "+OK|+QUEUED|*1|_|_|" };
    rig.sends(profile, queued);
    rig.taken(client);
    rig.sends(source, &changed(&["a", "b", "c"]));
    rig.taken(client)
}

#[test]
fn caching_holds_for_the_transaction_behind_it() {
    assert_eq!(told_of_transaction("optin", ("yes", "", "")), changed(&["a"]));
    assert_eq!(told_of_transaction("optout", ("no", "", "")), changed(&["b"]));
    // Subcommands of CLIENT leave CLIENT CACHING to the next command; no others do.
    assert_eq!(told_of_transaction("optin", ("yes", "client setname x|client id|", "")), changed(&["a"]));
    assert_eq!(told_of_transaction("optin", ("yes", "client setname|client help|", "")), changed(&["a"]));
    assert_eq!(told_of_transaction("optin", ("yes", "ping|", "")), "");
    assert_eq!(told_of_transaction("optin", ("yes", "client nosuch|", "")), "");
    // The transaction has an inlay.
    assert_eq!(told_of_transaction("optin", ("yes", "", "client id|")), changed(&["a"]));
    assert_eq!(told_of_transaction("optout", ("no", "", "client id|")), changed(&["b"]));
}

#[test]
fn caching_within_a_transaction_holds_for_the_rest_of_it() {
    let behind = "client caching yes|client trackinginfo|get c|";
    assert_eq!(told_of_transaction("optin", ("yes", "ping|", behind)), changed(&["c"]));
    let mut rig = Rig::ready(1);
    let (client, _, _) = tracking(&mut rig, "optin");
    rig.client_sends(client, "multi|client caching yes|client trackinginfo|exec|client trackinginfo|");
    let info = |flags: &str| format!("%3|$5|flags|{flags}$8|redirect|:0|$8|prefixes|*0|");
    let [within, behind] = ["~3|$2|on|$5|optin|$11|caching-yes|", "~2|$2|on|$5|optin|"].map(info);
    assert_eq!(rig.taken(client), format!("+OK|+QUEUED|+QUEUED|*2|+OK|{within}{behind}"));
}

#[test]
fn caching_is_forgotten_with_a_transaction_that_fails() {
    for ends in ["get|exec|", "discard|", "client id|nosuch|exec|"] {
        let mut rig = Rig::ready(1);
        let (client, profile, source) = tracking(&mut rig, "optin");
        rig.client_sends(client, &format!("client caching yes|multi|get a|{ends}get b|"));
        rig.sends(profile, "_|");
        rig.taken(client);
        rig.sends(source, &changed(&["a", "b"]));
        assert_eq!(rig.taken(client), "", "{ends}");
    }
}

#[test]
fn caching_outlasts_another_wish_to_track() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "optin");
    rig.client_sends(client, "client caching yes|client tracking on optin|get a|");
    rig.sends(source, "+OK|");
    rig.sends(profile, "_|");
    rig.taken(client);
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), changed(&["a"]));
}

#[test]
fn an_exec_that_waits_its_turn_reads_when_it_is_sent() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "optin");
    rig.client_sends(client, "watch w|");
    let held = rig.bring_up_greeted(0, GREETING, "%0|+PONG|");
    assert_eq!(rig.taken(held), "*2|$5|watch|$1|w|");
    rig.sends(held, "+OK|");
    rig.client_sends(client, "get b|client caching yes|multi|get a|exec|");
    assert_eq!(rig.taken(client), "+OK|");
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(held), "", "the reply to GET is to come first");
    rig.sends(profile, "_|");
    rig.sends(held, "+OK|+QUEUED|*1|$3|new|");
    rig.taken(client);
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), changed(&["a"]));
}

#[test]
fn caching_is_not_lost_on_a_request_that_is_read_twice() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "optin");
    // shardis asks the node about a command that is not known yet.
    rig.client_sends(client, "get x|client caching yes|foo.get a|");
    rig.sends(profile, "_|");
    let command = "*1|*7|$7|foo.get|:2|*1|+readonly|:1|:1|:1|*0|";
    rig.node_sends(0, command);
    rig.sends(profile, "_|");
    rig.taken(client);
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), changed(&["a"]));
}

#[test]
fn nothing_is_read_before_nodes_tell_of_changes() {
    let mut rig = Rig::ready(1);
    let (client, profile) = client_of_resp3(&mut rig);
    rig.client_sends(client, "client tracking on|get a|");
    assert_eq!(rig.taken(profile), "", "what it finds could change before anybody says so");
    source(&mut rig);
    assert_eq!((rig.taken(client).as_str(), rig.taken(profile).as_str()), ("+OK|", "*2|$3|get|$1|a|"));
}

#[test]
fn off_behind_on_is_off() {
    let mut rig = Rig::ready(1);
    let listener = rig.client();
    rig.client_sends(listener, "hello 3|");
    rig.taken(listener);
    let client = rig.client();
    rig.client_sends(client, "client tracking on redirect 1|client tracking off|client getredir|");
    source(&mut rig);
    assert_eq!(rig.taken(client), "+OK|+OK|:-1|");
}

#[test]
fn tracking_continues_while_more_is_requested() {
    let mut rig = Rig::ready(1);
    let (client, _, lost) = tracking(&mut rig, "bcast prefix user:");
    rig.client_sends(client, "client tracking on bcast prefix item:|");
    rig.sends(lost, &changed(&["user:1", "item:1"]));
    rig.sends(lost, "+OK|");
    assert_eq!(rig.taken(client), "+OK|".to_owned() + &changed(&["user:1"]));

    rig.client_sends(client, "client tracking on bcast prefix x|");
    rig.event(Event::Closed { conn: lost, reason: "reset" });
    assert_eq!(rig.taken(client), format!("-TRYAGAIN shard 127.0.0.1:7000 unavailable: reset|{FORGET_ALL}"));
    rig.pass(Duration::from_millis(20));
    let source = source(&mut rig);
    rig.sends(source, &changed(&["item:2", "x"]));
    assert_eq!(rig.taken(client), FORGET_ALL.to_owned() + &changed(&["item:2"]));
}

#[test]
fn reader_of_its_own_value_hears_of_foreign_changes() {
    for options in ["noloop", "bcast noloop"] {
        let mut rig = Rig::ready(1);
        let (client, profile, source) = tracking(&mut rig, options);
        rig.client_sends(client, "set a 1|get a|");
        rig.sends(profile, "+OK|$1|1|");
        rig.taken(client);
        // The node reports once for the client's change and another's close behind.
        rig.sends(source, &changed(&["a"]));
        assert_eq!(rig.taken(client), changed(&["a"]), "{options}");
    }
}

#[test]
fn a_client_with_its_last_reply_gets_no_invalidation() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    rig.client_sends(client, "get a|");
    rig.sends(profile, "_|");
    rig.client_sends(client, "*1|:1|");
    assert_eq!(rig.taken(client), "_|-ERR Protocol error: expected '$', got ':'|");
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), "");
}

#[test]
fn a_blocked_client_gets_invalidations_at_once() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    rig.client_sends(client, "get a|");
    rig.sends(profile, "_|");
    rig.client_sends(client, "blpop q 0|");
    rig.taken(client);
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), changed(&["a"]), "it may wait for ever");
    rig.event(Event::Ended { conn: client });
    assert!(rig.is_closed(client));
}

#[test]
fn client_caching_applies_to_a_refused_request() {
    let users = "user default on nopass ~* &* +@all\nuser bob on >b ~a &* +@all";
    let mut rig = Rig::ready_with_users(1, users);
    let (client, profile, source) = tracking(&mut rig, "optout");
    rig.client_sends(client, "auth bob b|client caching no|get b|get a|");
    rig.sends(profile, "_|");
    let denied = "-NOPERM this user has no permissions to access one of the keys used as arguments|";
    assert_eq!(rig.taken(client), format!("+OK|+OK|{denied}_|"));
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), changed(&["a"]));
}

#[test]
fn client_caching_applies_to_a_delayed_request() {
    let settings = Settings { cross_shard: CrossShard::Emulate, ..Settings::default() };
    let mut rig = Rig::ready_as(2, Limits::default(), settings);
    let client = rig.client();
    rig.change_profile(client, Profile { resp3: true, ..Profile::default() });
    rig.client_sends(client, "client tracking on optin|");
    let sources = [0, 1].map(|shard| rig.bring_up_greeted(shard, GREETING, "%0|+PONG|"));
    sources.into_iter().for_each(|source| rig.sends(source, "+OK|"));
    let (here, there) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {here}|client caching yes|sunion {here} {there}|"));
    rig.sends(sources[0], &changed(&[&here]));
    rig.sends(sources[1], &changed(&[&there]));
    let profile = rig.bring_up_greeted(0, GREETING, "%0|+PONG|");
    rig.sends(profile, "_|");
    assert_eq!(rig.proxy.pending().tracked_keys, 2, "it is read now");
}

#[test]
fn blocked_client_hears_at_once_of_a_broken_redirect() {
    let mut rig = Rig::ready(1);
    let listener = rig.client();
    rig.client_sends(listener, "hello 3|");
    let (client, profile) = client_of_resp3(&mut rig);
    rig.client_sends(client, "client tracking on redirect 1|");
    let source = source(&mut rig);
    rig.client_sends(client, "get a|");
    rig.sends(profile, "_|");
    rig.client_sends(client, "blpop q 0|");
    rig.taken(client);
    rig.event(Event::Closed { conn: listener, reason: "reset" });
    rig.sends(source, &changed(&["a"]));
    assert_eq!(rig.taken(client), ">2|$21|tracking-redir-broken|:1|");
    rig.event(Event::Ended { conn: client });
    assert!(rig.is_closed(client));
}

#[test]
fn a_node_that_is_lost_may_have_changed_anything() {
    let mut rig = Rig::ready(1);
    let (client, _, lost) = tracking(&mut rig, "");
    rig.event(Event::Closed { conn: lost, reason: "reset" });
    assert_eq!(rig.taken(client), FORGET_ALL);
    assert_eq!(rig.proxy.counters().message_gaps, 1);
    rig.pass(Duration::from_millis(20));
    source(&mut rig);
    assert_eq!(rig.taken(client), FORGET_ALL, "and what it has read since");
}

#[test]
fn a_flush_of_all_nodes_invalidates_present_clients_once() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    let flushed = FORGET_ALL;
    rig.sends(source, flushed);
    rig.sends(source, flushed);
    assert_eq!(rig.taken(client), flushed.repeat(2), "of one node it was twice");
    rig.client_sends(client, "client tracking off|client tracking on|");
    rig.sends(source, flushed);
    rig.sends(source, "+OK|");
    assert_eq!(rig.taken(client), "+OK|+OK|");
    // A client that has read since may have a flushed key again.
    rig.client_sends(client, "client tracking off|client tracking on|get a|");
    rig.sends(source, "+OK|");
    rig.sends(source, flushed);
    rig.sends(profile, "_|");
    assert_eq!(rig.taken(client), format!("+OK|+OK|_|{flushed}"));
}

#[test]
fn a_node_that_cannot_tell_of_changes_is_an_error() {
    let mut rig = Rig::ready(1);
    let (client, _) = client_of_resp3(&mut rig);
    rig.client_sends(client, "client tracking on|");
    let source = rig.bring_up_greeted(0, GREETING, "%0|+PONG|");
    rig.sends(source, "-NOPERM no|");
    assert_eq!(rig.taken(client), "-TRYAGAIN shard 127.0.0.1:7000 unavailable: NOPERM no|");
    rig.client_sends(client, "client trackinginfo|");
    assert_eq!(rig.taken(client), "%3|$5|flags|~1|$3|off|$8|redirect|:-1|$8|prefixes|*0|");
}

#[test]
fn invalidations_are_redirected_between_workers() {
    for worker in [0, 1] {
        let mut rigs = Rig::workers(2, 1);
        let listener = rigs[worker].client();
        let number = worker + 1;
        rigs[worker].client_sends(listener, "subscribe __redis__:invalidate|");
        let messages = rigs[worker].bring_up_pinned(0);
        let channel = "$20|__redis__:invalidate|";
        rigs[worker].sends(messages, &format!("*3|$9|subscribe|{channel}:1|"));
        rigs[worker].taken(listener);

        let client = rigs[0].client();
        rigs[0].client_sends(
            client,
            &format!("client tracking on redirect 99|client tracking on redirect {number}|"),
        );
        deliver_mail(&mut rigs);
        let missing = "-ERR The client ID you want redirect to does not exist|";
        assert_eq!(rigs[0].taken(client), missing);
        let source = source(&mut rigs[0]);
        assert_eq!(rigs[0].taken(client), "+OK|");
        rigs[0].client_sends(client, "get a|client getredir|");
        rigs[0].node_sends(0, "$-1|");
        assert_eq!(rigs[0].taken(client), format!("$-1|:{number}|"));
        rigs[0].sends(source, &changed(&["a"]));
        deliver_mail(&mut rigs);
        assert_eq!(rigs[worker].taken(listener), format!("*3|$7|message|{channel}*1|$1|a|"));

        rigs[worker].event(Event::Closed { conn: listener, reason: "reset" });
        rigs[0].client_sends(client, "get a|");
        rigs[0].node_sends(0, "$-1|");
        rigs[0].sends(source, &changed(&["a"]));
        deliver_mail(&mut rigs);
        rigs[0].client_sends(client, "client trackinginfo|");
        let state = "*6|$5|flags|*2|$2|on|$15|broken_redirect|$8|redirect|";
        assert_eq!(rigs[0].taken(client), format!("$-1|{state}:{number}|$8|prefixes|*0|"));
    }
}

#[test]
fn keys_that_are_too_many_are_forgotten_as_if_they_had_changed() {
    let mut rig = Rig::ready_with(1, Limits { tracked_bytes_max: 400, ..Limits::default() });
    let (client, profile, _) = tracking(&mut rig, "");
    rig.client_sends(client, "mget a b c d|");
    rig.sends(profile, "*4|_|_|_|_|");
    assert_eq!(rig.taken(client), "*4|_|_|_|_|".to_owned() + &changed(&["a"]) + &changed(&["b"]));
}

#[test]
fn a_client_that_goes_is_tracked_no_more() {
    let mut rig = Rig::ready(1);
    let (client, profile, source) = tracking(&mut rig, "");
    rig.client_sends(client, "get a|");
    rig.sends(profile, "_|");
    rig.event(Event::Closed { conn: client, reason: "reset" });
    rig.sends(source, &changed(&["a"]));
    assert_eq!((rig.proxy.pending().tracked_keys, rig.proxy.counters().trackers), (0, 0));
}
