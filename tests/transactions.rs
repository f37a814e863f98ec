//! Transactions and commands that wait, through the proxy and directly at a Redis. Requests of clients in the same order get
//! the same replies, byte for byte, and no state of one client reaches another.

use crate::harness::oracle::{Oracle, OracleClient};
use crate::harness::{Client, PATIENCE, RedisServer, World, poll_until, seed_for, show};
use stdx::Prng;

/// Requests of two clients in turn: the client's number, then its request. Keys share a shard unless they say otherwise.
pub(crate) const SCENES: &[&[&str]] = &[
    &["0 MULTI", "0 SET a{t} 1", "0 INCR a{t}", "0 GET a{t}", "0 EXEC", "0 GET a{t}"],
    &["0 MULTI", "0 EXEC", "0 EXEC", "0 DISCARD", "0 MULTI", "0 MULTI", "0 SET a{t} 1", "0 EXEC"],
    &["0 MULTI", "0 NOSUCH", "0 SET a{t} 1", "0 EXEC", "0 GET a{t}"],
    &["0 MULTI", "0 GET", "0 SET a{t} 1", "0 DISCARD", "0 GET a{t}", "0 EXEC"],
    &["0 MULTI", "0 SET a{t} x", "0 INCR a{t}", "0 LPUSH a{t} 1", "0 SET b{t} 1", "0 EXEC", "0 GET b{t}"],
    &["0 MULTI", "0 EXEC now", "0 SET a{t} 1", "0 EXEC"],
    &["0 MULTI", "0 DISCARD now", "0 EXEC"],
    &["0 MULTI", "0 SAVE", "0 EXEC"],
    // Commands that shardis answers itself stand at their place, and run with EXEC.
    &[
        "0 MULTI",
        "0 CLIENT SETNAME x",
        "0 CLIENT GETNAME",
        "0 SET a{t} 1",
        "0 CLIENT SETNAME y",
        "0 CLIENT NO-EVICT ON",
        "0 CLIENT NO-EVICT x",
        "0 CLIENT GETNAME",
        "0 ACL WHOAMI",
        "0 ACL CAT nosuch",
        "0 ACL DRYRUN default GET a",
        "0 COMMAND GETKEYS MSET a 1 b 2",
        "0 GET a{t}",
        "0 CLIENT GETREDIR",
        "0 PUBSUB NUMSUB c",
        "0 EXEC",
        "0 CLIENT GETNAME",
    ],
    // All shards are asked, behind the transaction's writes.
    &["0 SET a{t} 1", "0 SET b 1", "0 MULTI", "0 SET c 1", "0 DBSIZE", "0 EXEC", "0 DBSIZE"],
    &[
        "0 MULTI",
        "0 SET a{t} 1",
        "0 KEYS *",
        "0 RANDOMKEY",
        "0 DBSIZE",
        "0 SELECT 3",
        "0 DBSIZE",
        "0 EXEC",
        "0 DBSIZE",
    ],
    &["0 MULTI", "0 CLIENT SETNAME x", "0 NOSUCH", "0 EXEC", "0 CLIENT GETNAME"],
    &["0 MULTI", "0 CLIENT SETNAME x", "0 DISCARD", "0 CLIENT GETNAME"],
    &["0 MULTI", "0 CLIENT GETNAME", "0 CLIENT SETNAME x", "0 CLIENT GETNAME", "0 EXEC", "0 CLIENT GETNAME"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 MULTI", "0 CLIENT SETNAME x", "0 EXEC", "0 CLIENT GETNAME"],
    &["0 WATCH a{t}", "0 MULTI", "0 CLIENT SETNAME x", "0 GET a{t}", "0 EXEC", "0 CLIENT GETNAME"],
    &[
        "0 MULTI",
        "0 SET a{t} zero",
        "0 SELECT 3",
        "0 SET a{t} three",
        "0 SELECT 99",
        "0 SELECT x",
        "0 GET a{t}",
        "0 SELECT 0",
        "0 GET a{t}",
        "0 SELECT 3",
        "0 EXEC",
        "0 GET a{t}",
        "1 GET a{t}",
        "1 SELECT 3",
        "1 GET a{t}",
    ],
    &["0 MULTI", "0 SELECT 3", "0 NOSUCH", "0 EXEC", "0 SET a{t} zero", "1 GET a{t}"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 MULTI", "0 SELECT 3", "0 EXEC", "0 GET a{t}"],
    &[
        "0 WATCH a{t}",
        "0 MULTI",
        "0 SELECT 3",
        "0 SET a{t} 3",
        "0 EXEC",
        "0 GET a{t}",
        "0 WATCH a{t}",
        "0 MULTI",
        "0 EXEC",
    ],
    &["0 MULTI", "0 WATCH a{t}", "0 SET a{t} 1", "0 EXEC"],
    &["0 MULTI", "0 UNWATCH", "0 PING", "0 ECHO x", "0 PING x", "0 EXEC"],
    &["0 MULTI", "0 SET a{t} 1", "0 RESET", "0 GET a{t}", "0 EXEC"],
    &[
        "0 MULTI",
        "0 BLPOP q{t} 0",
        "0 BLMOVE q{t} r{t} LEFT LEFT 0",
        "0 XREAD BLOCK 0 STREAMS s{t} 0",
        "0 EXEC",
    ],
    &["0 MULTI", "0 EVAL 'return redis.call(\"incr\",KEYS[1])' 1 n{t}", "0 EVAL 'return 7' 0", "0 EXEC"],
    &["0 SET a{t} 1", "0 WATCH a{t}", "0 MULTI", "0 GET a{t}", "0 EXEC", "0 MULTI", "0 GET a{t}", "0 EXEC"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 MULTI", "0 SET a{t} 3", "0 EXEC", "0 GET a{t}", "0 MULTI", "0 EXEC"],
    &["0 WATCH a{t}", "0 SET a{t} 2", "0 MULTI", "0 SET a{t} 3", "0 EXEC", "0 GET a{t}"],
    &["0 WATCH a{t} b{t}", "1 SET c{t} 2", "0 MULTI", "0 SET a{t} 3", "0 EXEC", "0 GET a{t}"],
    &["0 WATCH a{t}", "0 WATCH b{t}", "1 SET b{t} 2", "0 MULTI", "0 EXEC", "0 MULTI", "0 EXEC"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 UNWATCH", "0 MULTI", "0 SET a{t} 3", "0 EXEC"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 MULTI", "0 DISCARD", "0 MULTI", "0 SET a{t} 3", "0 EXEC"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 RESET", "0 MULTI", "0 SET a{t} 3", "0 EXEC"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 MULTI", "0 NOSUCH", "0 EXEC", "0 MULTI", "0 EXEC"],
    &["0 WATCH a{t}", "1 SET a{t} 2", "0 MULTI", "0 EXEC now", "0 MULTI", "0 EXEC"],
    &["0 WATCH a{t}", "1 FLUSHALL", "0 MULTI", "0 EXEC"],
    &["0 SET a{t} 1", "0 WATCH a{t}", "1 FLUSHALL", "0 MULTI", "0 EXEC"],
    &["0 RPUSH q{t} x y", "0 BLPOP q{t} 0", "1 BRPOP p{t} q{t} 0", "0 BLPOP q{t} 0.01", "0 LLEN q{t}"],
    &["0 RPUSH q{t} x", "0 BLMOVE q{t} r{t} LEFT RIGHT 0", "0 BRPOPLPUSH r{t} q{t} 0", "0 LRANGE q{t} 0 -1"],
    &["0 RPUSH q{t} x y z", "0 BLMPOP 0 2 p{t} q{t} RIGHT COUNT 2", "0 BLMPOP 0.01 1 p{t} LEFT"],
    &[
        "0 ZADD z{t} 1 a 2 b 3 c",
        "0 BZPOPMIN z{t} 0",
        "0 BZPOPMAX z{t} 0",
        "0 BZMPOP 0 1 z{t} MIN",
        "0 BZPOPMIN z{t} 0.01",
    ],
    &[
        "0 BLPOP q{t} -1",
        "0 BLPOP q{t} x",
        "0 BLPOP q{t}",
        "0 BLMPOP x 1 q{t} LEFT",
        "0 BZMPOP 0 x z{t} MIN",
        "0 PING",
    ],
    &["0 SET q{t} x", "0 BLPOP q{t} 0", "0 BZPOPMIN q{t} 0", "0 BLMOVE q{t} r{t} LEFT LEFT 0", "0 PING"],
    &[
        "0 XADD s{t} 1-1 a 1",
        "0 XREAD BLOCK 0 STREAMS s{t} 0",
        "0 XREAD BLOCK 5 STREAMS s{t} $",
        "0 XREAD BLOCK x STREAMS s{t} 0",
    ],
    &[
        "0 XADD s{t} 1-1 a 1",
        "0 XGROUP CREATE s{t} g 0",
        "0 XREADGROUP GROUP g c BLOCK 0 STREAMS s{t} >",
        "1 XREADGROUP GROUP g d BLOCK 5 STREAMS s{t} >",
        "0 XREADGROUP GROUP nope c BLOCK 0 STREAMS s{t} >",
        "0 XACK s{t} g 1-1",
    ],
    // Streams on several shards.
    &[
        "0 XREAD STREAMS sa sb sc sd se 0 0 0 0 0",
        "0 XADD sa 1-1 f v",
        "0 XADD sb 1-1 f v",
        "0 XADD sc 1-1 f v",
        "1 XADD sd 1-1 f v g w",
        "1 XADD sd 1-2 f v",
        "0 XREAD STREAMS se sd sc sb sa 0 0 0 0 0",
        "0 XREAD COUNT 1 STREAMS sa sb nosuch sd 1-1 0 0 0",
        "0 XREAD STREAMS sa sb sc sd $ $ $ $",
        "0 XREAD STREAMS sa sb sc sd 0 0 x 0",
        "0 XREAD STREAMS sa sb sc sd 0 0 0",
        "0 XREAD COUNT x STREAMS sa sb 0 0",
        "0 XREAD GROUP g c STREAMS sa sb 0 0",
        "0 XREAD BLOCK 0 COUNT 1 STREAMS se sd sc sb sa 0 0 0 0 0",
        "1 XREAD BLOCK 5 STREAMS sa sb sc sd $ $ $ $",
        "1 XREAD BLOCK x STREAMS sa sb sc sd 0 0 0 0",
        "1 XREAD BLOCK -1 STREAMS sa sb sc sd 0 0 0 0",
        "1 XREAD BLOCK 0 STREAMS sa sb sc sd 0 0 0",
        "0 SET sb x",
        "0 XREAD STREAMS sa sb sc sd 0 0 0 0",
        "0 XREAD BLOCK 0 STREAMS sa sb sc sd 0 0 0 0",
        "1 SELECT 3",
        "1 XADD sa 1-1 f v",
        "1 XADD sb 1-1 f v",
        "1 XADD sc 1-1 f v",
        "1 XREAD BLOCK 0 STREAMS sa sb sc 0 0 0",
        "1 PING",
    ],
    &["0 WATCH a{t}", "0 BLPOP q{t} 0.01", "1 SET a{t} 1", "0 MULTI", "0 EXEC", "0 PING"],
    &["0 SELECT 3", "0 SET a{t} three", "1 WATCH a{t}", "0 SET a{t} 3", "1 MULTI", "1 GET a{t}", "1 EXEC"],
    &[
        "0 SELECT 3",
        "0 WATCH a{t}",
        "1 SELECT 3",
        "1 SET a{t} 3",
        "0 MULTI",
        "0 GET a{t}",
        "0 EXEC",
        "0 GET a{t}",
    ],
    &["0 CLIENT UNBLOCK 999999", "0 CLIENT UNBLOCK x", "0 CLIENT UNBLOCK 1 x", "0 CLIENT UNBLOCK 1 ERROR x"],
];

/// The words of a line; text between single quotes is one word.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut parts = line.split('\'');
    let mut words: Vec<Vec<u8>> = Vec::new();
    while let Some(plain) = parts.next() {
        words.extend(plain.split_whitespace().map(|word| word.as_bytes().to_vec()));
        words.extend(parts.next().map(|quoted| quoted.as_bytes().to_vec()));
    }
    words
}

/// An oracle's replies to such a line.
fn ask_oracle(oracle: &mut OracleClient, line: &str) -> Vec<String> {
    let words = words(line);
    let replies = oracle.command(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    replies.iter().map(|reply| show(reply)).collect()
}

/// Sends a line, in which quotes hold words together, and returns the reply.
pub(crate) fn ask(client: &mut Client, line: &str) -> String {
    let words = words(line);
    show(&client.command(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// Lets two clients of each side play `scene`, with equal replies, and removes all keys.
pub(crate) fn play(scene: &[&str], mut oracle: [OracleClient; 2], mut shardis: [Client; 2]) {
    for line in scene {
        let (who, line) = line.split_once(' ').expect("a client and its request");
        let who: usize = who.parse().expect("a number");
        let (expected, got) = (ask_oracle(&mut oracle[who], line), ask(&mut shardis[who], line));
        assert!(expected.contains(&got), "client {who}: {line}, in {scene:?}\n{got}\nredis: {expected:?}");
    }
    assert_eq!(ask(&mut shardis[1], "RESET"), r"+RESET\r\n");
    assert_eq!(ask(&mut shardis[1], "FLUSHALL"), r"+OK\r\n");
    // Before Redis 6.2 there is no RESET, and a transaction may be open.
    ask_oracle(&mut oracle[1], "RESET");
    ask_oracle(&mut oracle[1], "DISCARD");
    assert!(ask_oracle(&mut oracle[1], "FLUSHALL").iter().all(|reply| reply == r"+OK\r\n"));
}

#[test]
fn two_clients_in_turn_get_the_replies_of_redis() {
    let (oracle, world) = (Oracle::start(), World::with_shards(4));
    for scene in SCENES {
        play(scene, [oracle.connect(), oracle.connect()], [world.connect(), world.connect()]);
    }
}

/// Requests that change a client's session, or depend on another client's state.
const TENANT: &[&str] = &[
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH k{t}",
    "WATCH j{t} k{t}",
    "UNWATCH",
    "RESET",
    "SELECT 0",
    "SELECT 1",
    "GET k{t}",
    "SET k{t} V",
    "INCR n{t}",
    "RPUSH q{t} V",
    "LPOP q{t}",
    "BLPOP q{t} 0.001",
    "BLMOVE q{t} r{t} LEFT RIGHT 0.001",
    "LLEN r{t}",
    "DEL k{t} q{t}",
    "NOSUCH",
    "GET",
    "PING V",
    "EVAL 'return redis.call(\"get\",KEYS[1])' 1 k{t}",
    "XADD s{t} * f V",
    "XLEN s{t}",
];

#[test]
fn tenants_whose_sessions_differ_never_meet() {
    let mut prng = Prng::new(seed_for("tenants_whose_sessions_differ_never_meet"));
    let (node, world) = (RedisServer::reference(), World::with_flags(2, &["--workers=2"]));
    let connect = || (node.connect(), world.connect());
    // Whether one has a transaction begun, and watches keys.
    type Begun = (bool, bool);
    let mut tenants: Vec<(Client, Client, Begun)> =
        (0..6).map(|_| connect()).map(|(redis, shardis)| (redis, shardis, Begun::default())).collect();
    let mut compared = 0;
    for step in 0..4000 {
        let at = prng.below(tenants.len() as u64) as usize;
        if prng.one_in(40) {
            // One client leaves with all its state, and another comes: perhaps on the same links.
            let (redis, shardis) = connect();
            tenants[at] = (redis, shardis, Begun::default());
            continue;
        }
        let (redis, shardis, (in_transaction, watches)) = &mut tenants[at];
        let line = prng.pick(TENANT).replace('V', &format!("v{step}"));
        // The keys that are watched for a transaction are all in one database.
        if *watches && !*in_transaction && line.starts_with("SELECT") {
            continue;
        }
        let expected = ask(redis, &line);
        let got = ask(shardis, &line);
        match line.as_str() {
            // Without MULTI they leave the watched keys watched.
            "EXEC" | "DISCARD" if expected.starts_with("-ERR") => {}
            "EXEC" | "DISCARD" | "RESET" => (*in_transaction, *watches) = Begun::default(),
            line => {
                *in_transaction |= line == "MULTI";
                *watches |= line.starts_with("WATCH") && !*in_transaction;
            }
        }
        let is_of_chance = line.starts_with("XADD") || expected.contains('-') && line == "EXEC";
        if got != expected && is_of_chance {
            assert_eq!(kinds(&got), kinds(&expected), "step {step}, tenant {at}: {line}");
        } else {
            assert_eq!(got, expected, "step {step}, tenant {at}: {line}");
        }
        compared += 1;
    }
    assert!(compared > 3000);
}

/// A reply without its digits: the ids of stream entries are each server's own.
fn kinds(reply: &str) -> String {
    reply.chars().filter(|symbol| !symbol.is_ascii_digit()).collect()
}

/// Number of waiting clients, by the server or the proxy at `client`.
pub(crate) fn waiting(client: &mut Client) -> usize {
    let info = String::from_utf8(client.command(&[b"INFO", b"clients"])).expect("text");
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("the field");
    line.trim().parse().expect("a number")
}

pub(crate) fn wait_for_blocked(client: &mut Client, count: usize) {
    poll_until("clients that wait", || (waiting(client) == count).then_some(()));
}

#[test]
fn an_element_reaches_the_first_waiting_client() {
    let world = World::with_flags(2, &["--workers=2"]);
    let mut other = world.connect();
    let queue = world.key_on(1, "q");
    let mut waiters: Vec<Client> = (0..5).map(|_| world.connect()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send_command(&[b"BLPOP", queue.as_bytes(), b"0"]);
        wait_for_blocked(&mut world.nodes[1].connect(), number + 1);
    }
    wait_for_blocked(&mut other, 5);
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let element = format!("e{number}");
        assert_eq!(other.ask(&format!("RPUSH {queue} {element}")), r":1\r\n");
        let expected = format!("*2\r\n${}\r\n{queue}\r\n$2\r\n{element}\r\n", queue.len());
        assert_eq!(show(&waiter.read_reply()), show(expected.as_bytes()));
    }
    wait_for_blocked(&mut other, 0);
}

#[test]
fn a_waiting_client_that_left_costs_no_element() {
    let world = World::with_flags(2, &["--workers=2"]);
    let mut other = world.connect();
    let mut node = world.nodes[0].connect();
    let queue = world.key_on(0, "q");
    for round in 0..100 {
        let mut waiter = world.connect();
        match round % 3 {
            0 => waiter.send_command(&[b"BLPOP", queue.as_bytes(), b"0"]),
            1 => waiter.send_command(&[b"BRPOPLPUSH", queue.as_bytes(), queue.as_bytes(), b"0"]),
            _ => waiter.send_command(&[b"BLMPOP", b"0", b"1", queue.as_bytes(), b"LEFT", b"COUNT", b"9"]),
        }
        wait_for_blocked(&mut node, 1);
        match round % 2 {
            0 => waiter.reset(),
            _ => drop(waiter),
        }
        wait_for_blocked(&mut node, 0);
        let element = format!("e{round}");
        assert_eq!(other.ask(&format!("RPUSH {queue} {element}")), r":1\r\n");
        assert_eq!(other.ask(&format!("LPOP {queue}")), format!(r"${}\r\n{element}\r\n", element.len()));
    }
}

#[test]
fn pushed_elements_are_popped_once_or_still_there() {
    let seed = seed_for("pushed_elements_are_popped_once_or_still_there");
    let world = World::with_flags(2, &["--workers=2"]);
    let queue = world.key_on(1, "q");
    let (mut prng, mut other) = (Prng::new(seed), world.connect());
    let mut waiters: Vec<Client> = Vec::new();
    let (mut pushed, mut popped) = (0, Vec::new());
    for _ in 0..600 {
        match prng.below(3) {
            0 => {
                let mut waiter = world.connect();
                waiter.send_command(&[b"BLPOP", queue.as_bytes(), b"0"]);
                waiters.push(waiter);
            }
            1 => {
                pushed += 1;
                other.command(&[b"RPUSH", queue.as_bytes(), pushed.to_string().as_bytes()]);
            }
            // The oldest was served by now or will be next.
            _ if waiters.len() > pushed - popped.len() => {}
            _ if !waiters.is_empty() => {
                popped.push(element_of(&waiters.remove(0).read_reply()));
            }
            _ => {}
        }
    }
    // All waiting clients get one, so that the elements under way are known.
    while pushed - popped.len() < waiters.len() {
        pushed += 1;
        other.command(&[b"RPUSH", queue.as_bytes(), pushed.to_string().as_bytes()]);
    }
    popped.extend(waiters.iter_mut().map(|waiter| element_of(&waiter.read_reply())));
    let left = other.command(&[b"LLEN", queue.as_bytes()]);
    let left = resp::reply::as_integer(&left).expect("a number") as usize;
    let count = popped.len();
    popped.sort();
    popped.dedup();
    assert_eq!(popped.len(), count, "nothing is popped twice");
    assert_eq!(count + left, pushed, "nothing is lost");
}

/// The element that BLPOP popped.
fn element_of(reply: &[u8]) -> String {
    let element = resp::reply::elements(reply).expect("an array").last().expect("two elements");
    String::from_utf8_lossy(element).into_owned()
}

#[test]
fn client_unblock_ends_a_wait_wherever_it_is() {
    let world = World::with_flags(2, &["--workers=2"]);
    let queue = world.key_on(1, "q");
    let mut other = world.connect();
    for (reason, expected) in [
        ("", r"*-1\r\n"),
        (" TIMEOUT", r"*-1\r\n"),
        (" ERROR", r"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ] {
        for _ in 0..4 {
            let mut waiter = world.connect();
            let id = waiter.command(&[b"CLIENT", b"ID"]);
            let id = resp::reply::as_integer(&id).expect("a number");
            waiter.send_command(&[b"BLPOP", queue.as_bytes(), b"0"]);
            wait_for_blocked(&mut world.nodes[1].connect(), 1);
            let unblocked = other.ask(&format!("CLIENT UNBLOCK {id}{reason}"));
            assert_eq!(unblocked, r":1\r\n");
            assert_eq!(show(&waiter.read_reply()), expected);
            assert_eq!(waiter.ask("PING"), r"+PONG\r\n");
            assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), r":0\r\n");
        }
    }
}

#[test]
fn node_death_in_exec_or_wait_is_outcome_unknown() {
    let mut world = World::with_flags(1, &["--workers=1"]);
    let (mut holder, mut waiter) = (world.connect(), world.connect());
    assert_eq!(holder.ask("WATCH a"), r"+OK\r\n");
    assert_eq!(holder.ask("MULTI"), r"+OK\r\n");
    assert_eq!(holder.ask("SET a 1"), r"+QUEUED\r\n");
    waiter.send_command(&[b"BLPOP", b"q", b"0"]);
    wait_for_blocked(&mut world.nodes[0].connect(), 1);
    world.nodes[0].kill();
    let unknown = format!("-ERR node connection lost, outcome unknown (shard {})\\r\\n", world.shard_name(0));
    assert_eq!(show(&waiter.read_reply()), unknown);
    // Whether the proxy knows of the lost link with the WATCH is open.
    let exec = holder.ask("EXEC");
    let expected = [r"*-1\r\n", &unknown].contains(&exec.as_str()) || exec.starts_with("-EXECABORT ");
    assert!(expected, "{exec}");
    assert_eq!(holder.ask("PING"), r"+PONG\r\n");
}

#[test]
fn sigterm_ends_waits() {
    let mut world = World::with_flags(1, &["--workers=2"]);
    let mut waiters: Vec<Client> = (0..4).map(|_| world.connect()).collect();
    waiters.iter_mut().for_each(|waiter| waiter.send_command(&[b"BLPOP", b"q", b"0"]));
    wait_for_blocked(&mut world.nodes[0].connect(), 4);
    world.proxy.signal("TERM");
    for waiter in &mut waiters {
        waiter.set_patience(PATIENCE);
        assert_eq!(show(&waiter.read_reply()), r"*-1\r\n");
        waiter.expect_eof();
    }
    assert!(world.proxy.wait().success());
}
