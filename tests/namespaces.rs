//! Namespaces of users in front of real nodes: no request reaches a key of others, and replies have no prefix.

use crate::harness::{Client, World, poll_until, show};
use crate::users::File;
use command::{Carry, Command, Local};
use std::collections::BTreeMap;

/// A word in all values and names that no client of the namespace may see.
const SECRET: &str = "secret";

/// Commands after which the client is gone, hears nothing or waits.
const NOT_ASKED: &[&str] =
    &["quit", "reset", "client|reply", "client|pause", "client|kill", "select", "hello"];

/// Keys outside of the namespace, of each type, by names that requests have as arguments.
fn write_keys_of_others(node: &mut Client) {
    node.ask(&format!("SET unseen-{SECRET} {SECRET}"));
    for at in 1..12 {
        let name = format!("name{at}");
        let fill = match at % 6 {
            0 => format!("SET {name} {SECRET}"),
            1 => format!("RPUSH {name} {SECRET} b"),
            2 => format!("SADD {name} {SECRET} b"),
            3 => format!("ZADD {name} 1 {SECRET} 2 b"),
            4 => format!("HSET {name} {SECRET} {SECRET}"),
            _ => format!("XADD {name} 1-1 {SECRET} {SECRET}"),
        };
        assert!(!node.ask(&fill).starts_with('-'), "{fill}");
    }
}

/// All keys outside of the namespace, with their values.
fn keys_of_others(node: &mut Client) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let keys = node.command(&[b"KEYS", b"*"]);
    let keys = resp::reply::elements(&keys).expect("KEYS answers an array");
    let keys = keys.filter_map(resp::reply::as_bulk).filter(|key| !key.starts_with(b"tenant/"));
    keys.map(|key| (key.to_vec(), node.command(&[b"DUMP", key]))).collect()
}

/// Requests of `command` with names and numbers, up to six arguments more than it needs.
fn requests(command: &Command) -> impl Iterator<Item = Vec<String>> + '_ {
    let len = command.arity.unsigned_abs() as usize;
    let lens = len..=if command.arity < 0 { len + 6 } else { len };
    lens.flat_map(move |len| {
        [0, 1, 2].map(|kind| {
            let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
            for at in words.len()..len {
                words.push(match (kind, at % 2) {
                    (1, 1) | (2, 0) => "1".to_owned(),
                    _ => format!("name{at}"),
                });
            }
            words
        })
    })
}

fn is_asked(command: &Command) -> bool {
    let changes_what_comes =
        matches!(command.carry, Carry::Here(Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Monitor));
    command.carry != Carry::Container && !changes_what_comes && !NOT_ASKED.contains(&&*command.name)
}

#[test]
fn no_command_reaches_keys_of_others() {
    let world = World::with_flags(1, &["--user-namespace=default:tenant/", "--allow-admin"]);
    let (mut node, mut client) = (world.nodes[0].connect(), world.connect());
    write_keys_of_others(&mut node);
    let before = keys_of_others(&mut node);
    assert_eq!(before.len(), 12);
    let (mut asked, mut succeeded) = (0, 0);
    let all = command::all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()));
    for command in all.filter(|command| is_asked(command)) {
        for words in requests(command) {
            let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let reply = client.command(&args);
            let shown = show(&reply);
            assert!(!shown.contains(SECRET), "{words:?}: {shown}");
            asked += 1;
            succeeded += u32::from(!reply.starts_with(b"-"));
            if shown.contains("QUEUED") || &*command.name == "multi" {
                client.ask("DISCARD");
            }
        }
        assert_eq!(client.ask("ECHO marker"), "$6\\r\\nmarker\\r\\n", "behind {}", command.name);
    }
    assert!(asked > 2000 && succeeded > 500, "{asked} requests, {succeeded} without an error");
    assert_eq!(keys_of_others(&mut node), before);
    assert!(node.ask("KEYS tenant/*").contains("tenant/name1"), "the client had keys of its own");
}

const USERS: &str =
    "user default on nopass ~* &* +@all\nuser bob on >b ~* &* +@all\nuser eve on >e ~* &* +@all\n";

#[test]
fn users_see_their_own_keys_and_no_prefix() {
    let users = File::new(USERS);
    let flags = [users.flag("acl-file"), "--user-namespace=bob:bob/,eve:eve/".to_owned()];
    let world = World::with_flags(3, &flags.each_ref().map(String::as_str));
    let (mut bob, mut eve, mut all) = (world.connect(), world.connect(), world.connect());
    assert_eq!((bob.ask("AUTH bob b"), eve.ask("AUTH eve e")), ("+OK\\r\\n".into(), "+OK\\r\\n".into()));
    bob.ask("MSET a 1 b 2 c 3");
    eve.ask("SET a 9");
    assert_eq!(bob.ask("MGET a b c"), "*3\\r\\n$1\\r\\n1\\r\\n$1\\r\\n2\\r\\n$1\\r\\n3\\r\\n");
    assert_eq!(eve.ask("KEYS *"), "*1\\r\\n$1\\r\\na\\r\\n");
    assert_eq!(all.ask("DBSIZE"), ":4\\r\\n");
    assert_eq!(all.ask("GET bob/a"), "$1\\r\\n1\\r\\n");
    assert_eq!(bob.ask("DEL a b c"), ":3\\r\\n");

    // A reply that is large, and comes from all shards.
    const KEYS: usize = 40_000;
    let fill: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    for some in fill.chunks(1000) {
        let args = some.iter().flat_map(|key| [key.as_bytes(), b"x"]);
        let args: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(args).collect();
        assert_eq!(bob.command(&args), b"+OK\r\n");
    }
    let keys = bob.command(&[b"KEYS", b"*"]);
    let mut keys: Vec<&[u8]> =
        resp::reply::elements(&keys).expect("an array").filter_map(resp::reply::as_bulk).collect();
    keys.sort_unstable();
    let mut expected: Vec<&[u8]> = fill.iter().map(String::as_bytes).collect();
    expected.sort_unstable();
    assert!(keys == expected, "{} keys", keys.len());

    // A client that waits is woken by one of its user alone, in both protocols.
    let mut other = world.connect();
    other.ask("AUTH bob b");
    assert!(bob.ask("HELLO 3").starts_with('%'));
    for (line, wakes, expected) in [
        ("BLPOP l 0", "RPUSH l x", "*2\\r\\n$1\\r\\nl\\r\\n$1\\r\\nx\\r\\n"),
        ("XREAD BLOCK 0 STREAMS s $", "XADD s 1-1 f v", "%1\\r\\n$1\\r\\ns\\r\\n*1\\r\\n"),
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        bob.send_command(&words);
        poll_until("bob waits", || all.ask("INFO clients").contains("blocked_clients:1\\r").then_some(()));
        eve.ask(wakes);
        other.ask(wakes);
        let got = show(&bob.read_reply());
        assert!(got.starts_with(expected), "{line}: {got}");
    }
}
