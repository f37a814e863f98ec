//! The table against a real Redis 7.0: facts, keys and texts. Without redis-server the tests say so and pass, unless
//! CI=true. `SHARDIS_TEST_SERVER` names another server, of which what changed after 7.0 is known here.

// These tests are the ones that talk to a node; the crate itself knows no sockets.
#![allow(clippy::disallowed_types)]

mod inline;
mod node;
mod value;

use std::collections::BTreeSet;

use command::{Carry, Command, Flags, KeySpec, Resolved, Server, about, learned};
use node::Node;
use stdx::prng::Prng;
use value::{Value, with_request};

/// Places of facts in an entry of `COMMAND INFO`.
const ARITY: usize = 1;
const FLAGS: usize = 2;
const ACL: usize = 6;
const TIPS: usize = 7;
const SPECS: usize = 8;

/// Facts in which later servers differ from Redis 7.0 and from the table. None of them affects routing.
const CHANGED: [(usize, &str); 5] = [
    // Answered here, and as by Redis 7.0.
    (ARITY, "command|getkeys command|getkeysandflags"),
    (
        FLAGS,
        // Flags about scripts, loading, and so on.
        "blmove blpop brpop brpoplpush bzpopmax bzpopmin cluster|info cluster|myid cluster|myshardid cluster|nodes cluster|shards \
         cluster|slots exec memory|malloc-stats memory|purge multi wait watch",
    ),
    (ACL, "wait"),
    (
        TIPS,
        "acl|deluser acl|save acl|setuser client|setname config|resetstat config|rewrite latency|reset msetnx randomkey scan",
    ),
    // The command overwrites its target.
    (SPECS, "sinterstore"),
];

/// Where the table has the number of arguments of servers after 7.0, so that a request reaches those.
const WIDER: [&str; 2] = ["zrank", "zrevrank"];

/// Whether `server` is known to differ from the table in this place of the entry of `name`.
fn is_changed(server: Server, place: usize, name: &str) -> bool {
    if server == Server::Redis(7, 0) {
        return place == ARITY && WIDER.contains(&name);
    }
    CHANGED
        .iter()
        .any(|(changed, names)| *changed == place && names.split(' ').any(|changed| changed == name))
}

/// A node that describes its commands. Before Redis 7.0 the description is incomplete.
fn start() -> Option<Node> {
    let node = Node::start()?;
    if is_older(node.server()) {
        eprintln!("SKIPPED: {} does not tell the facts that are compared here", node.server());
        return None;
    }
    Some(node)
}

fn is_older(server: Server) -> bool {
    matches!(server, Server::Redis(major, _) if major < 7)
}

/// All commands of the table, subcommands included.
fn all_names() -> impl Iterator<Item = &'static Command> {
    command::all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()))
}

/// The commands that `node` has too.
fn common(node: &Node) -> impl Iterator<Item = &'static Command> + use<> {
    let server = node.server();
    all_names().filter(move |command| command.since.is_in(server))
}

#[test]
fn the_table_holds_every_command_of_redis_and_no_other() {
    let Some(mut node) = start() else { return };
    let mut theirs: BTreeSet<String> =
        node.ask("COMMAND LIST").array().iter().map(|name| name.text().to_ascii_lowercase()).collect();
    // A command that is carried where nodes have it. The learnt facts decide.
    theirs.remove("waitaof");
    let ours: BTreeSet<String> = common(&node).map(|command| command.name.to_string()).collect();
    assert_eq!(ours, theirs);
}

/// An entry of `COMMAND INFO` for comparison: its sets are sorted, and known differences are left out. It keeps those
/// subcommands that the table lists and `server` has.
fn normalized(server: Server, entry: &Value) -> Value {
    let mut fields = entry.array().to_vec();
    let name = fields[0].text().to_ascii_lowercase();
    fields[0] = Value::Text(name.clone());
    for set in [FLAGS, ACL, TIPS] {
        fields[set] = fields[set].sorted();
    }
    for place in [ARITY, FLAGS, ACL, TIPS, SPECS] {
        if is_changed(server, place, &name) {
            fields[place] = Value::Nil;
        }
    }
    let mut subcommands: Vec<_> =
        fields[9].array().iter().map(|subcommand| normalized(server, subcommand)).collect();
    subcommands.retain(|entry| {
        let command = command::find_full(entry.array()[0].text().as_bytes());
        command.is_some_and(|command| !command.is_hidden() && command.since.is_in(server))
    });
    subcommands.sort();
    fields[9] = Value::Array(subcommands);
    Value::Array(fields)
}

#[test]
fn every_command_is_described_as_redis_describes_it() {
    let Some(mut node) = start() else { return };
    let server = node.server();
    for command in common(&node) {
        let theirs = node.ask(&format!("COMMAND INFO {}", command.name));
        let mut ours = Vec::new();
        command::write_info(&mut ours, command, false);
        let ours = normalized(server, &Value::of(&ours));
        assert_eq!(ours, normalized(server, &theirs.array()[0]), "{}", command.name);
    }
}

#[test]
fn learnt_facts_equal_the_table() {
    let Some(mut node) = start() else { return };
    let server = node.server();
    for command in command::all().filter(|command| command.since.is_in(server)) {
        let reply = node.ask_raw(&[b"COMMAND", b"INFO", command.name.as_bytes()]);
        let learnt = learned::parse(&reply).expect("a known command");
        assert_same_facts(server, &learnt, command);
        let arity = if command.subcommands.is_empty() { command.arity } else { -2 };
        assert!(learnt.arity == arity || is_changed(server, ARITY, &command.name), "{}", command.name);
        for subcommand in &*learnt.subcommands {
            let ours = command::find_full(subcommand.name.as_bytes()).expect("in the table");
            assert_same_facts(server, subcommand, ours);
        }
    }
    assert_eq!(learned::parse(&node.ask_raw(&[b"COMMAND", b"INFO", b"nosuch"])), None);
}

/// Checks that learnt facts equal the table's, without known differences.
#[track_caller]
fn assert_same_facts(server: Server, learnt: &Command, ours: &Command) {
    let name = &*ours.name;
    let is_same = |place: usize, same: bool| same || is_changed(server, place, name);
    let specs = |command: &Command| -> Vec<KeySpec> {
        command.keys.specs.iter().map(|spec| KeySpec { note: None, ..*spec }).collect()
    };
    assert_eq!(learnt.name, ours.name);
    assert!(is_same(FLAGS, learnt.flags == ours.flags), "{name}: {:?}", learnt.flags);
    assert!(is_same(ACL, learnt.acl == ours.acl), "{name}: {:?}", learnt.acl);
    assert!(is_same(TIPS, learnt.tips == ours.tips), "{name}: {:?}", learnt.tips);
    assert!(is_same(SPECS, specs(learnt) == specs(ours)), "{name}: {:?}", learnt.keys);
    assert_eq!(learnt.single_key(), ours.single_key(), "{name}");
}

/// Before Redis 7.0 nodes tell the first and the last key only.
#[test]
fn key_specs_of_an_old_node_find_the_keys_of_the_table() {
    let Some(mut node) = Node::start().filter(|node| is_older(node.server())) else {
        return eprintln!("SKIPPED: no node before Redis 7.0; SHARDIS_TEST_SERVER can name one");
    };
    let (mut prng, mut compared) = (seeded_prng(), 0);
    for command in command::all().filter(|command| command.subcommands.is_empty()) {
        let Some(learnt) = learned::parse(&node.ask_raw(&[b"COMMAND", b"INFO", command.name.as_bytes()]))
        else {
            continue;
        };
        if matches!(learnt.carry, Carry::Refused(_)) {
            continue;
        }
        for _ in 0..50 {
            let args = random_request(&mut prng, command);
            with_request(&args, |request| {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                if command.arity_fits(args.len())
                    && command.keys(request, &mut ours).is_ok()
                    && learnt.keys(request, &mut theirs).is_ok()
                {
                    assert_eq!(theirs, ours, "{args:?}");
                    compared += 1;
                }
            });
        }
    }
    assert!(compared > 5_000, "only {compared} requests were compared");
}

/// Requests with interesting keys, beside the random ones.
const KEYS_CORPUS: &[&str] = &[
    "GET a",
    "SET a 1 EX 5 GET",
    "SET get 1",
    "SET a get",
    "BITFIELD a GET u8 0",
    "BITFIELD a OVERFLOW WRAP GET u8 0 SET u8 0 1",
    "BITFIELD a GET u8",
    "MSET a 1 b 2",
    "MSET a 1 b",
    "MSETNX a 1 b 2 c 3",
    "MGET a b c",
    "DEL a",
    "BITOP AND dst a b c",
    "OBJECT ENCODING a",
    "OBJECT NOSUCH a",
    "XGROUP CREATE s g $",
    "MEMORY USAGE a SAMPLES 5",
    "SORT a BY nosort GET # STORE dst",
    "SORT a LIMIT 0 STORE STORE dst",
    "SORT a STORE b STORE c",
    "SORT a STORE",
    "SORT_RO a STORE b",
    "GEORADIUS k 1 2 3 m STORE dst",
    "GEORADIUS k 1 2 3 m STORE dst STOREDIST other",
    "GEORADIUS k 1 2 3 m STORE",
    "GEORADIUSBYMEMBER k member 3 m COUNT 1 STOREDIST dst",
    "GEOSEARCHSTORE dst src FROMLONLAT 1 2 BYRADIUS 3 m",
    "XREAD COUNT 1 STREAMS a b 0 0",
    "XREAD COUNT 1 BLOCK 0 streams a 0",
    "XREAD STREAMS a b 0",
    "XREAD COUNT 1 a STREAMS",
    "XREADGROUP GROUP g c STREAMS a b > >",
    "XREADGROUP GROUP STREAMS c STREAMS a >",
    "ZUNION 2 a b WEIGHTS 1 2",
    "ZUNION 3 a b",
    "ZUNION 0 a",
    "ZUNION -1 a",
    "ZUNIONSTORE dst 2 a b",
    "ZUNIONSTORE dst 0 a",
    "ZUNIONSTORE dst x a",
    "ZINTERCARD 2 a b LIMIT 1",
    "LMPOP 2 a b LEFT",
    "BLMPOP 0 2 a b LEFT",
    "BZMPOP 0 1 a MIN",
    "BLPOP a b 0",
    "EVAL s 0",
    "EVAL s 0 arg",
    "EVAL s 2 a b arg",
    "EVAL s 2 a",
    "EVAL s x a",
    "EVALSHA_RO s 1 a",
    "FCALL f 1 a",
    "FCALL_RO f 0",
    "PFMERGE dst a",
    "PFCOUNT a b",
    "LCS a b IDX",
    "RENAME a b",
    "COPY a b DB 1",
    "SMOVE a b m",
    "MIGRATE 127.0.0.1 1 a 0 10",
    "MIGRATE 127.0.0.1 1 a 0 10 COPY KEYS b",
    "RESTORE a 0 x",
    "PUBLISH news hello",
    "SPUBLISH news hello",
    "SUBSCRIBE news sport",
    "WATCH a b",
    "PING x",
    "OBJECT HELP",
    "NOSUCH a",
    "GET a b",
    "SCAN 0",
    "FLUSHALL ASYNC",
    "CONFIG GET x",
];

#[test]
fn keys_are_where_redis_finds_them() {
    let Some(mut node) = start() else { return };
    for line in KEYS_CORPUS {
        let args: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        assert_same_keys(&mut node, &args);
    }
}

/// `COMMAND GETKEYS` and `GETKEYSANDFLAGS` reply as Redis does, and routing uses the same keys.
fn assert_same_keys(node: &mut Node, args: &[&[u8]]) {
    let shown = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ");
    let mut keys = Value::Nil;
    for question in ["GETKEYSANDFLAGS", "GETKEYS"] {
        let asked = [&[&b"COMMAND"[..], question.as_bytes()], args].concat();
        let theirs = Value::of(&node.ask_raw(&asked));
        keys = Value::of(&with_request(&asked, answer));
        assert_eq!(keys, theirs, "COMMAND {question} {shown}");
    }
    let Value::Array(keys) = keys else { return };
    let routed = with_request(args, |request| {
        let Resolved::Command(command) = command::resolve(request) else { panic!("{shown} has keys") };
        let mut positions = Vec::new();
        command.keys(request, &mut positions).expect("keys that Redis finds");
        assert!(command.single_key().is_none_or(|single| positions == [single]), "{shown}");
        positions
            .iter()
            .map(|&at| Value::Text(String::from_utf8_lossy(args[at]).into_owned()))
            .collect::<Vec<_>>()
    });
    assert_eq!(routed, keys, "{shown}");
}

/// The proxy's reply to a COMMAND request.
fn answer(request: &resp::Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let resolved = command::resolve(request);
    match resolved {
        Resolved::Command(Command { carry: Carry::Here(command::Local::Command(question)), .. }) => {
            about::write(*question, request, false, &mut out);
        }
        _ => resolved.write_error(&mut out, request),
    }
    out
}

/// The vocabulary of random requests: names, numbers, and all words that any command knows.
const VOCABULARY: &str = "a b c {t}d  * # 0 1 2 3 -1 01 m $ > w_* STORE store storedist STORE\0x STREAMS streams \
                          BY by GET get LIMIT SET OVERFLOW WRAP u8 KEYS LEFT MIN COUNT GROUP asc DESC WEIGHTS incrby BLOCK \
                          block\0 NOACK";

/// The seed is the same in every run unless the environment names another.
fn seeded_prng() -> Prng {
    let seed =
        std::env::var("SHARDIS_SEED").map_or(0x5eed, |seed| seed.parse().expect("SHARDIS_SEED is a number"));
    // Shown if the test fails.
    println!("again with: SHARDIS_SEED={seed} cargo test -p command --test against_redis");
    Prng::new(seed)
}

/// A random request for `command` with a number of arguments that fits, or nearly.
fn random_request<'a>(prng: &mut Prng, command: &'a Command) -> Vec<&'a [u8]> {
    let mut args: Vec<&[u8]> = command.name.split('|').map(str::as_bytes).collect();
    let len =
        command.arity.unsigned_abs() as usize + if command.arity < 0 { prng.below(7) as usize } else { 0 };
    let words: Vec<_> = VOCABULARY.split(' ').map(str::as_bytes).collect();
    while args.len() < len {
        args.push(*prng.pick(&words));
    }
    args
}

/// Intended differences from `COMMAND GETKEYS`. An empty rest of keys is no error here. Where Redis's specs find an error,
/// Redis goes on with less strict code. That reads numbers with C's `atoi`, finds another STREAMS, and names keys of requests
/// that Redis would refuse.
fn is_known_difference(command: &Command, args: &[&[u8]]) -> bool {
    let has_no_keys = || {
        with_request(args, |request| {
            let mut positions = Vec::new();
            let found = command.keys(request, &mut positions);
            command.arity_fits(args.len()) && (found.is_err() || positions.is_empty())
        })
    };
    let has_code = command.flags.contains(Flags::MOVABLEKEYS);
    // COMMAND GETKEYS wants an argument behind the name.
    args.len() == 1 || (command.name == "pfmerge" && args.len() == 2) || (has_code && has_no_keys())
}

#[test]
fn random_requests_have_the_keys_that_redis_finds() {
    let Some(mut node) = start() else { return };
    let (mut prng, server) = (seeded_prng(), node.server());
    for command in common(&node).filter(|command| command.keys.has_any()) {
        let rounds = if command.single_key().is_some() { 5 } else { 150 };
        for _ in 0..rounds {
            let args = random_request(&mut prng, command);
            let too_many = is_changed(server, ARITY, &command.name)
                && args.len() > command.arity.unsigned_abs() as usize;
            let is_changed = too_many || is_changed(server, SPECS, &command.name);
            if !is_changed && !is_known_difference(command, &args) {
                assert_same_keys(&mut node, &args);
            }
        }
    }
}

#[test]
fn missing_keys_are_an_error_on_any_shard() {
    let Some(mut node) = start() else { return };
    let mut prng = seeded_prng();
    let forwarded = common(&node).filter(|command| {
        matches!(
            command.carry,
            Carry::Shard | Carry::ShardIf(_) | Carry::Script(_) | Carry::Split(_) | Carry::Blocking(_)
        ) && command.keys.has_any()
            && !command.flags.contains(Flags::NO_MANDATORY_KEYS)
    });
    for command in forwarded {
        for _ in 0..100 {
            let args = random_request(&mut prng, command);
            let finds_keys = with_request(&args, |request| {
                let mut positions = Vec::new();
                command.keys(request, &mut positions).is_ok() && !positions.is_empty()
            });
            if !finds_keys {
                let reply = Value::of(&node.ask_raw(&args));
                assert!(matches!(reply, Value::Error(_)), "{args:?}: {reply:?}");
            }
        }
    }
}

#[test]
fn a_forwarded_command_gets_one_reply_at_once() {
    let Some(mut node) = start() else { return };
    let mut prng = seeded_prng();
    for command in common(&node) {
        if matches!(
            command.carry,
            Carry::Refused(_) | Carry::Admin(..) | Carry::Here(_) | Carry::Transaction(_) | Carry::Container
        ) {
            continue;
        }
        for _ in 0..20 {
            let args = random_request(&mut prng, command);
            if answers_at_once(command, &args) {
                node.ask_raw(&args);
                assert_eq!(node.ask("ECHO marker"), Value::Text("marker".into()), "behind {args:?}");
            }
        }
    }
}

#[test]
fn no_read_that_is_said_not_to_wait_blocks() {
    let Some(mut node) = start() else { return };
    let mut prng = seeded_prng();
    // A group to read from, and an empty stream, on which a read would block.
    node.ask("XGROUP CREATE a b $ MKSTREAM");
    let words: &[&[u8]] =
        &[b"BLOCK", b"block\0", b"0", b"1", b"COUNT", b"GROUP", b"b", b"NOACK", b"STREAMS", b"a"];
    let (mut passed, mut held_back) = (0, 0);
    for _ in 0..5000 {
        let start: &[&[u8]] =
            if prng.one_in(2) { &[b"XREAD"] } else { &[b"XREADGROUP", b"GROUP", b"b", b"consumer"] };
        let options = prng.below(5);
        let options = (0..options).map(|_| *prng.pick(words)).collect::<Vec<_>>();
        let end: &[u8] = if start.len() == 1 { b"$" } else { b">" };
        let args = [start, &options, &[b"STREAMS", b"a", end]].concat();
        match answers_at_once(command::find(args[0]).expect("in the table"), &args) {
            true => passed += usize::from(!matches!(Value::of(&node.ask_raw(&args)), Value::Error(_))),
            false => held_back += 1,
        }
    }
    assert!(passed > 300 && held_back > 300, "{passed} reads that make sense, {held_back} held back");
}

fn answers_at_once(command: &Command, args: &[&[u8]]) -> bool {
    match command.carry {
        Carry::ShardIf(guard) => with_request(args, |request| guard.check(request).is_ok()),
        Carry::Blocking(wait) => with_request(args, |request| wait.patience(request).is_none()),
        _ => true,
    }
}

#[test]
fn pfmerge_of_nothing_goes_where_its_key_lives() {
    let Some(mut node) = start() else { return };
    assert_eq!(node.ask("PFMERGE dst"), Value::Text("OK".into()));
    with_request(&[b"PFMERGE", b"dst"], |request| {
        let mut positions = Vec::new();
        command::find(b"pfmerge").expect("in the table").keys(request, &mut positions).expect("a key");
        assert_eq!(positions, [1]);
    });
}

#[test]
fn errors_are_redis_own() {
    let Some(mut node) = start() else { return };
    let long = [b'a'; 300];
    let odd = b"fo\r\no\0\x01'\"\xff";
    // A name with a NUL byte is not among them. Redis 7.0 hashes all of it and compares up to the NUL. So it takes `get\0` for
    // `get` whenever both fall into one chain of its hash table, which depends on its random seed.
    let requests: &[&[&[u8]]] = &[
        &[b"nosuch"],
        &[b"nosuch", b"a", b"b c", b""],
        &[b"GeT"],
        &[b"get", b"a", b"b"],
        &[&long],
        &[&long, &long, b"c"],
        &[b"nosuch", &long[..120], b"b", b"cccc", b"d"],
        &[b"nosuch", &long[..125], b"b"],
        &[b"nosuch", &long[..124], b"bcd"],
        &[odd, odd, b"\r\n", b"e\r\n"],
        &[b"\0"],
        &[b""],
        &[b"object|encoding", b"a"],
        &[b"client|id"],
        &[b"OBJECT"],
        &[b"object", b"NoSuch"],
        &[b"object", b""],
        &[b"object", &long],
        &[b"object", odd],
        &[b"Object", b"ENCODING"],
        &[b"OBJECT", b"help", b"extra"],
        &[b"CLIENT", b"SETNAME"],
        &[b"COMMAND", b"nosuch"],
        &[b"COMMAND", b"COUNT", b"x"],
        &[b"CONFIG"],
    ];
    for args in requests {
        let ours = with_request(args, |request| {
            let mut out = Vec::new();
            command::resolve(request).write_error(&mut out, request);
            out
        });
        let theirs = node.ask_raw(args);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs), "{args:?}");
    }
}

#[test]
fn lists_are_filtered_as_redis_filters_them() {
    let Some(mut node) = start() else { return };
    let server = node.server();
    let mut lines: Vec<String> = [
        "COMMAND LIST",
        "COMMAND LIST FILTERBY ACLCAT String",
        "COMMAND LIST FILTERBY ACLCAT @string",
        "COMMAND LIST FILTERBY ACLCAT nosuch",
        "COMMAND LIST FILTERBY MODULE nosuch",
        "COMMAND LIST FILTERBY NOSUCH x",
        "COMMAND LIST FILTERBY",
        "COMMAND LIST x",
        "COMMAND LIST filterby pattern XINFO|S*",
    ]
    .map(str::to_owned)
    .into();
    let mut prng = seeded_prng();
    let pieces =
        ["*", "**", "?", "[a-m]", "[^s]", "[z-a", "\\g", "\\", "g", "e", "s", "|", "-", "]", "[", "^"];
    for _ in 0..500 {
        let pattern: String = (0..1 + prng.below(6)).map(|_| *prng.pick(&pieces)).collect();
        lines.push(format!("COMMAND LIST FILTERBY PATTERN {pattern}"));
    }
    for line in lines {
        let args: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        let is_listed = |name: &Value| {
            command::find_full(name.text().as_bytes()).is_some_and(|command| !command.is_hidden())
        };
        let is_newer = |name: &Value| {
            command::find_full(name.text().as_bytes()).is_some_and(|command| !command.since.is_in(server))
        };
        let only = |value: Value, passes: &dyn Fn(&Value) -> bool| match value {
            Value::Array(names) => {
                let names = names.into_iter().filter(passes);
                // The vector sets of Redis are a module, which writes its names in capitals.
                Value::Array(names.map(|name| Value::Text(name.text().to_ascii_lowercase())).collect())
                    .sorted()
            }
            other => other,
        };
        let ours = only(Value::of(&with_request(&args, answer)), &|name| !is_newer(name));
        let theirs = only(node.ask(&line), &is_listed);
        assert_eq!(ours, theirs, "{line}");
    }
}
