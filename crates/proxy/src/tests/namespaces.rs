//! Transcripts of clients with a namespace, and the treatment of each command. `|` stands for CR LF.

use super::every_command::lines;
use crate::namespace::treatment::{Treatment, treatment};
use crate::testing::{Rig, registry};
use crate::{Access, ConnId, Limits, Namespace, Namespaces, Settings};
use command::{Carry, Command};
use std::collections::BTreeMap;

const USERS: &str =
    "user default on nopass ~* &* +@all\nuser bob on >b ~* &* +@all\nuser eve on >e ~open:* &* +@all";

fn settings(has_scripts: bool) -> Settings {
    let own = |user: &str, prefix: &str| {
        (user.as_bytes().to_vec(), Namespace::new(prefix, has_scripts).expect("the prefix is valid"))
    };
    let namespaces = Namespaces::new([own("bob", "bob/"), own("eve", "eve/")]);
    let access = Access { namespaces, ..Access::default() };
    Settings { access, registry: registry(USERS), ..Settings::default() }
}

/// A rig of `shards`, and a client that is bob.
fn world_of(shards: usize, has_scripts: bool) -> (Rig, ConnId) {
    let mut rig = Rig::ready_as(shards, Limits::default(), settings(has_scripts));
    let client = logged_in(&mut rig, "bob b");
    (rig, client)
}

fn world() -> (Rig, ConnId) {
    world_of(1, false)
}

fn logged_in(rig: &mut Rig, who: &str) -> ConnId {
    let client = rig.client();
    rig.client_sends(client, &format!("auth {who}|"));
    assert_eq!(rig.taken(client), "+OK|");
    client
}

/// The request of these words as a node gets it.
fn request(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let bulks: String = words.iter().map(|word| format!("${}|{word}|", word.len())).collect();
    format!("*{}|{bulks}", words.len())
}

/// Bob's request, and the reply that he gets if the node got `seen` and answers `reply`.
#[track_caller]
fn asked(rig: &mut Rig, client: ConnId, line: &str, seen: &str, reply: &str) -> String {
    rig.client_sends(client, &format!("{line}|"));
    assert_eq!(rig.node_got(0), request(seen), "{line}");
    rig.node_sends(0, reply);
    rig.taken(client)
}

#[test]
fn keys_get_the_prefix_and_lose_it() {
    let (mut rig, bob) = world();
    let cases = [
        ("get a", "get bob/a", "$5|bob/v|", "$5|bob/v|"),
        ("mset a 1 b 2", "mset bob/a 1 bob/b 2", "+OK|", "+OK|"),
        ("get {t}a", "get bob/{t}a", "$-1|", "$-1|"),
        ("object encoding a", "object encoding bob/a", "$3|raw|", "$3|raw|"),
        ("scan 0", "scan 0 MATCH bob/*", "*2|$1|0|*1|$5|bob/a|", "*2|$1|0|*1|$1|a|"),
        ("scan 0 match x* count 5", "scan 0 match bob/x* count 5", "*2|$1|0|*0|", "*2|$1|0|*0|"),
        ("scan 0 match a match b", "scan 0 match bob/a match bob/b", "*2|$1|0|*0|", "*2|$1|0|*0|"),
        ("lmpop 1 l left", "lmpop 1 bob/l left", "*2|$5|bob/l|*1|$1|x|", "*2|$1|l|*1|$1|x|"),
        ("xread streams s 0", "xread streams bob/s 0", "*1|*2|$5|bob/s|*0|", "*1|*2|$1|s|*0|"),
        (
            "sort a by w_* get # get o_* store b",
            "sort bob/a by bob/w_* get # get bob/o_* store bob/b",
            ":1|",
            ":1|",
        ),
        ("sort a store limit store b", "sort bob/a store bob/limit store bob/b", ":1|", ":1|"),
        ("georadius g 1 2 3 km store d", "georadius bob/g 1 2 3 km store bob/d", ":1|", ":1|"),
        ("zunionstore d 2 a b weights 1 2", "zunionstore bob/d 2 bob/a bob/b weights 1 2", ":1|", ":1|"),
        ("xinfo groups s", "xinfo groups bob/s", "-ERR no such key 'bob/s'|", "-ERR no such key 's'|"),
    ];
    for (line, seen, reply, expected) in cases {
        assert_eq!(asked(&mut rig, bob, line, seen, reply), expected, "{line}");
    }
}

#[test]
fn command_getkeys_knows_no_prefix() {
    let (mut rig, bob) = world();
    rig.client_sends(bob, "command getkeys get a|");
    assert_eq!(rig.taken(bob), "*1|$1|a|");
}

#[test]
fn a_blocking_pop_names_its_key_without_the_prefix() {
    let (mut rig, bob) = world();
    rig.client_sends(bob, "blpop a b 0|");
    let held = rig.pinned_now();
    assert_eq!(rig.taken(held), request("CLIENT ID") + &request("blpop bob/a bob/b 0"));
    rig.sends(held, ":7|*2|$5|bob/b|$1|x|");
    assert_eq!(rig.taken(bob), "*2|$1|b|$1|x|");
}

#[test]
fn exec_strips_the_reply_of_each_command() {
    let (mut rig, bob) = world();
    rig.client_sends(bob, "multi|get a|client id|lmpop 1 l left|xinfo groups s|exec|");
    let multi =
        ["multi", "get bob/a", "lmpop 1 bob/l left", "xinfo groups bob/s", "exec"].map(request).concat();
    assert_eq!(rig.node_got(0).to_lowercase(), multi);
    rig.node_sends(0, "+OK|+QUEUED|+QUEUED|+QUEUED|*3|$1|v|*2|$5|bob/l|*1|$1|x|-ERR no such key 'bob/s'|");
    let queued = "+QUEUED|".repeat(4);
    let taken = rig.taken(bob);
    let (before, after) = taken.split_once("*4|$1|v|:").expect(&taken);
    assert_eq!(before, format!("+OK|{queued}"));
    let (_, after) = after.split_once('|').expect("the client's number");
    assert_eq!(after, "*2|$1|l|*1|$1|x|-ERR no such key 's'|");
    rig.client_sends(bob, "multi|keys *|exec|");
    let taken = rig.taken(bob);
    assert!(taken.starts_with("+OK|-ERR 'keys' is not available in a namespace: "), "{taken}");
    assert!(taken.ends_with("-EXECABORT Transaction discarded because of previous errors.|"), "{taken}");
}

#[test]
fn permissions_are_about_names_without_the_prefix() {
    let (mut rig, _) = world();
    let eve = logged_in(&mut rig, "eve e");
    rig.client_sends(eve, "get a|");
    assert_eq!(
        rig.taken(eve),
        "-NOPERM this user has no permissions to access one of the keys used as arguments|"
    );
    assert_eq!(asked(&mut rig, eve, "get open:a", "get eve/open:a", "$-1|"), "$-1|");
}

#[test]
fn namespace_is_that_of_the_present_user() {
    let (mut rig, bob) = world();
    let other = rig.client();
    for _ in 0..2 {
        // The second time the prefix of the request is known.
        assert_eq!(asked(&mut rig, other, "get a", "get a", "$-1|"), "$-1|");
        assert_eq!(asked(&mut rig, bob, "get a", "get bob/a", "$-1|"), "$-1|");
    }
    // Replies in flight are those of the user that asked.
    rig.client_sends(bob, "lmpop 1 l left|auth eve e|lmpop 1 open:l left|");
    assert_eq!(rig.node_got(0), request("lmpop 1 bob/l left") + &request("lmpop 1 eve/open:l left"));
    rig.node_sends(0, "*2|$5|bob/l|*0|*2|$10|eve/open:l|*0|");
    assert_eq!(rig.taken(bob), "*2|$1|l|*0|+OK|*2|$6|open:l|*0|");
    rig.client_sends(bob, "reset|get a|");
    assert_eq!(rig.node_got(0), request("get a"));
}

#[test]
fn keys_of_several_shards_lose_the_prefix() {
    let (mut rig, bob) = world_of(2, false);
    rig.client_sends(bob, "keys *|");
    for link in rig.bring_up_all_pinned() {
        assert_eq!(rig.taken(link), request("keys bob/*"));
        rig.sends(link, "*1|$5|bob/a|");
    }
    assert_eq!(rig.taken(bob), "*2|$1|a|$1|a|");
}

#[test]
fn channels_that_tell_of_keys_are_refused() {
    let (mut rig, bob) = world();
    for line in [
        "subscribe __keyspace@0__:a",
        "ssubscribe __keyevent@0__:set",
        "psubscribe *",
        "psubscribe __key*",
        "psubscribe news __keyspace@0__:*",
        "psubscribe _?keyspace*",
        "psubscribe [_]*",
        "psubscribe \\_*",
        "pubsub channels",
    ] {
        rig.client_sends(bob, &format!("{line}|"));
        let taken = rig.taken(bob);
        assert!(taken.contains("' is not available in a namespace: "), "{line}: {taken}");
    }
    rig.client_sends(bob, "psubscribe news.* __other*|");
    let source = rig.pinned_now();
    assert!(rig.taken(source).starts_with("*2|$10|psubscribe|$6|news.*|"));
}

#[test]
fn scripts_need_the_permission_of_the_operator() {
    let (mut rig, bob) = world();
    rig.client_sends(bob, "eval x 1 a|script load x|");
    let taken = rig.taken(bob);
    assert!(
        taken.starts_with("-ERR 'eval' is not available in a namespace: a script can name any key"),
        "{taken}"
    );
    assert_eq!(rig.node_got(0), "");
    let (mut rig, bob) = world_of(1, true);
    assert_eq!(asked(&mut rig, bob, "eval x 1 a b", "eval x 1 bob/a b", ":1|"), ":1|");
}

/// Commands that are refused in a namespace, apart from those that shardis refuses to all.
const REFUSED: &[&str] = &[
    "dbsize",
    "randomkey",
    "flushall",
    "flushdb",
    "swapdb",
    "migrate",
    "monitor",
    "debug",
    "client|tracking",
];

#[test]
fn each_command_is_rewritten_free_or_refused() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (command, _) in lines() {
        let (treatment, has_keys) = (treatment(command), command.keys.has_any());
        let kind = match treatment {
            Treatment::Free => "free",
            Treatment::Refused(_) => "refused",
            Treatment::Script => "script",
            _ => "rewritten",
        };
        *counts.entry(kind).or_default() += 1;
        let is_never_carried = matches!(command.carry, Carry::Refused(_));
        assert!(treatment != Treatment::Free || !has_keys || is_never_carried, "{} names keys", command.name);
        if REFUSED.contains(&&*command.name) && !is_never_carried {
            assert!(matches!(treatment, Treatment::Refused(_)), "{}", command.name);
        }
        if command.name.starts_with("proxy|") || command.name.starts_with("commandlog|") {
            assert!(is_never_carried || kind == "refused", "{} shows keys", command.name);
        }
    }
    assert!(counts["rewritten"] > 200 && counts["refused"] > 40 && counts["free"] > 60, "{counts:?}");
}

/// Words that could be keys, one for each place.
fn with_names(command: &Command, more: usize) -> String {
    let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
    let len = command.arity.unsigned_abs() as usize + if command.arity < 0 { more } else { 0 };
    for at in words.len()..len {
        // In odd places, a count of keys.
        words.push(if at % 2 == 1 && more % 2 == 1 { "1".to_owned() } else { format!("name{at}") });
    }
    words.join(" ")
}

#[test]
fn no_node_sees_a_key_without_the_prefix() {
    let mut seen = 0;
    for (command, _) in lines() {
        for more in 0..6 {
            let (mut rig, bob) = world_of(1, true);
            let line = with_names(command, more);
            rig.client_sends(bob, &format!("{line}|"));
            let got = rig.node_got(0) + &rig.last_pinned().map(|link| rig.taken(link)).unwrap_or_default();
            if got.is_empty() || !got.contains("name") {
                continue;
            }
            // The table says where the keys are in the request that the node got.
            let words: Vec<&str> = got.split('|').skip(2).step_by(2).collect();
            let line = words.join(" ");
            let (mut bytes, mut args) = (Vec::new(), Vec::new());
            let parsed = resp::inline::to_request(line.as_bytes(), &mut bytes, &mut args);
            parsed.expect("the words are plain");
            let request = resp::Request::new(&bytes, &args);
            let mut keys = Vec::new();
            let found = command.each_key(&request, &mut |at, _| keys.push(request.arg(at)));
            if found.is_ok() {
                assert!(keys.iter().all(|key| key.starts_with(b"bob/")), "{line}");
                seen += keys.len();
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}
