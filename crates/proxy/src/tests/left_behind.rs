//! Memory that clients leave behind. Each command of the table gets a huge argument at each place, and many
//! arguments, at two sizes. The memory afterwards, by the allocator's count, may grow with the size only as far as
//! the accounts grow.

use crate::link::State;
use crate::testing::Rig;
use crate::tests::every_command::lines;
use crate::{CrossShard, Event, Limits, Settings};
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, encode};
use std::time::Duration;

/// Sizes above the capacity that buffers may keep.
const SIZES: [usize; 2] = [300_000, 900_000];
/// The size of the first request.
const SIZE_OF_FIRST: usize = 1000;
/// The growth that is permitted: tables of the test itself grow, too.
const SLACK_BYTES: usize = 40_000;
/// The time after which an idle client has given back its spare memory.
const IDLE: Duration = Duration::from_secs(3);
/// Places for a huge argument behind a command's name.
const PLACES: usize = 4;

/// The reply of a node to a request.
fn reply_to(request: &Request<'_>) -> Vec<u8> {
    let words: Vec<Vec<u8>> = request.args().take(2).map(<[u8]>::to_ascii_lowercase).collect();
    let (name, second) = (words[0].as_slice(), words.get(1).map_or(&[][..], Vec::as_slice));
    match (name, second) {
        (b"ping", _) => b"+PONG\r\n".to_vec(),
        (b"role", _) => b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_vec(),
        (b"client", b"id") => b":7\r\n".to_vec(),
        (b"command", b"info") => b"*1\r\n*-1\r\n".to_vec(),
        (b"info", _) => b"$0\r\n\r\n".to_vec(),
        _ if name.ends_with(b"subscribe") => {
            let mut reply = b"*3\r\n".to_vec();
            encode::bulk(&mut reply, name);
            encode::bulk(&mut reply, request.arg(1));
            [&reply[..], b":1\r\n"].concat()
        }
        _ => b"+OK\r\n".to_vec(),
    }
}

/// The replies of a node to all requests in `bytes`.
fn replies_to(bytes: &[u8]) -> Vec<u8> {
    let (mut scanner, mut args, mut inline) = (Scanner::default(), Vec::new(), Vec::new());
    let (mut replies, mut at) = (Vec::new(), 0);
    while let Ok(Scanned::Request { len }) =
        scanner.scan(&bytes[at..], &RequestLimits::default(), &mut args, &mut inline)
    {
        replies.extend(reply_to(&Request::new(&bytes[at..at + len], &args)));
        at += len;
    }
    replies
}

/// Connects all links that the core asks for, and lets nodes answer until there are no requests.
fn serve(rig: &mut Rig) {
    loop {
        rig.proxy.handle_timeouts(rig.now);
        rig.perform();
        let connecting = rig.proxy.core.cx.engine.links.iter().find_map(|link| match link.state {
            State::Connecting { conn, .. } => Some(conn),
            _ => None,
        });
        if let Some(conn) = connecting {
            rig.event(Event::Connected { conn });
            continue;
        }
        let asked = rig.conns().into_iter().map(|(_, conn)| conn).find(|&conn| rig.has_sent(conn));
        let Some(conn) = asked else { return };
        let replies = replies_to(&rig.taken_bytes(conn));
        rig.event(Event::Received { conn, bytes: &replies });
    }
}

/// The memory in the accounts of the worker and of the process.
fn held(rig: &Rig) -> i64 {
    let core = &rig.proxy.core;
    (rig.proxy.held_bytes() + core.cx.board.scripts.account().0 + core.cx.logins.users.held_bytes()) as i64
}

/// Bytes that are in no account, after a new client has sent `request` and is idle.
fn left_by(rig: &mut Rig, request: &[u8]) -> i64 {
    let before = held(rig);
    let mut client = None;
    let counted = allocation_counter::measure(|| {
        let conn = rig.client();
        client = Some(conn);
        rig.event(Event::Received { conn, bytes: request });
        serve(rig);
        rig.pass(IDLE);
        serve(rig);
        rig.taken_bytes(conn);
        rig.forget_closed();
    });
    let left = counted.bytes_current - (held(rig) - before);
    let conn = client.expect("it has come");
    rig.event(Event::Closed { conn, reason: "done" });
    serve(rig);
    left
}

/// Notes in `found` if the memory that `request` of a size leaves behind grows with the size.
fn check(rig: &mut Rig, found: &mut Vec<String>, line: &str, request: impl Fn(usize) -> Vec<u8>) {
    // Links that are made for the first request of a kind stay.
    left_by(rig, &request(SIZE_OF_FIRST));
    let [after_small, after_large] = SIZES.map(|size| left_by(rig, &request(size)));
    // The difference is negative where an earlier buffer was freed meanwhile.
    if after_large - after_small.max(0) > SLACK_BYTES as i64 {
        let [small, large] = SIZES;
        found
            .push(format!("{line}: {after_small} bytes are left after {small}, {after_large} after {large}"));
    }
}

fn rig() -> Rig {
    let settings = Settings { cross_shard: CrossShard::Emulate, ..Settings::default() };
    let mut rig = Rig::ready_as(2, Limits::default(), settings);
    serve(&mut rig);
    rig
}

fn encoded(words: &[&[u8]]) -> Vec<u8> {
    let mut request = Vec::new();
    encode::request(&mut request, words);
    request
}

#[test]
fn a_huge_argument_of_any_command_leaves_nothing_uncounted() {
    let (mut rig, mut found) = (rig(), Vec::new());
    let mut seen = 0;
    for (_, line) in lines() {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let name_len = words.iter().take_while(|word| **word != b"1").count();
        for place in name_len..name_len + PLACES {
            check(&mut rig, &mut found, &format!("{line}, at {place}"), |size| {
                let huge = vec![b'x'; size];
                let mut words = words.clone();
                words.resize(words.len().max(place + 1), b"1");
                words[place] = &huge;
                encoded(&words)
            });
            seen += 1;
        }
    }
    assert!(seen > 1000, "{seen}");
    assert_eq!(found, [""; 0]);
}

/// Options whose value is kept.
#[test]
fn a_huge_option_leaves_nothing_uncounted() {
    let (mut rig, mut found) = (rig(), Vec::new());
    for line in [
        "client tracking on bcast prefix ?",
        "hello 3 setname ?",
        "hello 3 auth ? 1",
        "hello 3 auth default ?",
        "client kill addr ?",
        "client setinfo lib-name ?",
        "acl setuser bob reset ~?",
        "acl setuser bob reset &?",
        "acl setuser bob reset +select|?",
        "acl setuser bob reset (~?)",
        "function load replace ?",
        "eval return 1 ?",
        "set k ? px 1",
        "scan 0 match ?",
        "xread block 1 streams ? k 1 1",
    ] {
        check(&mut rig, &mut found, line, |size| {
            let huge = [b"#!lua name=".as_slice(), &vec![b'x'; size]].concat();
            let words = line.split(' ').map(|word| if word == "?" { &huge[..] } else { word.as_bytes() });
            encoded(&words.collect::<Vec<_>>())
        });
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn many_arguments_of_any_command_leave_nothing_uncounted() {
    let (mut rig, mut found) = (rig(), Vec::new());
    for (command, line) in lines().filter(|(command, _)| command.arity < 0) {
        check(&mut rig, &mut found, &format!("{}, many", command.name), |size| {
            let mut words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            words.resize(size / 8, b"1");
            encoded(&words)
        });
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn memory_of_transaction_keys_and_tracked_writes_is_counted() {
    let (mut rig, mut found) = (rig(), Vec::new());
    let begun: [(&[u8], &[&str]); 2] = [
        (b"getdel", &["hello 3", "client tracking on noloop"]),
        (b"get", &["hello 3", "client tracking on noloop", "multi"]),
    ];
    for (name, begin) in begun {
        check(&mut rig, &mut found, &String::from_utf8_lossy(name), |size| {
            let begin = begin.iter().map(|line| line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            let begin: Vec<u8> = begin.flat_map(|words| encoded(&words)).collect();
            let huge = vec![b'x'; size];
            [begin, encoded(&[b"set", &huge, b"1"]), encoded(&[name, &huge])].concat()
        });
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn long_names_of_clients_are_refused_and_others_are_counted() {
    let mut rig = rig();
    let client = rig.client();
    let name = "n".repeat(1024);
    rig.client_sends(
        client,
        &format!("client setname {name}|client setname {name}n|hello 2 setname {name}n|"),
    );
    let refusal = "-ERR Client names cannot be longer than 1024 bytes|";
    assert_eq!(rig.taken(client), format!("+OK|{}", refusal.repeat(2)));
    rig.client_sends(client, "client getname|");
    assert_eq!(rig.taken(client), format!("$1024|{name}|"));
    assert_eq!(rig.proxy.held_bytes(), 1024);
    rig.client_sends(client, "reset|client getname|");
    assert_eq!((rig.taken(client).as_str(), rig.proxy.held_bytes()), ("+RESET|$-1|", 0));
}

#[test]
fn prefixes_of_a_client_are_bounded_and_end_with_it() {
    let mut rig = rig();
    let client = rig.client();
    let prefixes = |count| (0..count).map(|number| format!(" prefix {number:05}{}", "p".repeat(60_000)));
    for prefix in prefixes(17) {
        rig.client_sends(client, &format!("client tracking on bcast{prefix}|"));
        serve(&mut rig);
    }
    assert_eq!(rig.taken(client), "+OK|".repeat(17));
    rig.client_sends(client, &format!("client tracking on bcast prefix q{}|", "p".repeat(60_000)));
    assert_eq!(rig.taken(client), "-ERR the prefixes of this client exceed the limit of the proxy|");
    assert!(rig.proxy.held_bytes() > 17 * 60_000);
    rig.event(Event::Closed { conn: client, reason: "gone" });
    assert_eq!(rig.proxy.held_bytes(), 0);
}
