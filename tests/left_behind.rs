//! Remains of clients in the process: names, prefixes, entries of logs, libraries, users, and the memory of large values. All
//! of it stays within `--memory-max`, or is returned.

use crate::harness::client::{Client, request};
use crate::harness::{World, kernel, poll_until};

const MIB: u64 = 1 << 20;
/// Bytes that each client leaves.
const LARGE_BYTES: usize = 3_000_000;
/// This number of clients leaves several times `--memory-max`.
const TIMES: usize = 60;

/// A proxy of which one client has been served, and its resident bytes at that time.
fn world() -> (World, Option<u64>) {
    let world = World::with_flags(2, &["--memory-max=64mb", "--workers=2"]);
    assert_eq!(world.connect().ask("SET k v"), "+OK\\r\\n");
    let start = kernel::resident_bytes(world.proxy.pid());
    (world, start)
}

/// Checks that the process never took more than `--memory-max` beyond its memory at the start.
#[track_caller]
fn assert_bounded(world: &World, start: Option<u64>) {
    if let (Some(start), Some(peak)) = (start, kernel::peak_resident_bytes(world.proxy.pid())) {
        assert!(peak <= start + 64 * MIB, "{} MiB above the start", (peak - start) / MIB);
    }
}

/// `number`, and as many bytes behind it.
fn large(number: usize) -> Vec<u8> {
    let mut text = format!("{number:05}").into_bytes();
    text.resize(LARGE_BYTES, b'x');
    text
}

#[test]
fn long_names_of_clients_are_not_kept() {
    let (world, start) = world();
    let mut clients: Vec<Client> = (0..TIMES).map(|_| world.connect()).collect();
    for client in &mut clients {
        let refusal = b"-ERR Client names cannot be longer than 1024 bytes\r\n";
        assert_eq!(client.command(&[b"CLIENT", b"SETNAME", &large(0)]), refusal);
    }
    assert_eq!(clients[0].ask("CLIENT GETNAME"), "$-1\\r\\n");
    assert_bounded(&world, start);
}

#[test]
fn long_prefixes_of_tracked_keys_are_not_kept() {
    let (world, start) = world();
    let mut clients: Vec<Client> = (0..TIMES).map(|_| world.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.command(&[b"HELLO", b"3"]);
        let words = [&b"CLIENT"[..], b"TRACKING", b"ON", b"BCAST", b"PREFIX", &large(number)];
        let refusal = b"-ERR the prefixes of this client exceed the limit of the proxy\r\n";
        assert_eq!(client.command(&words), refusal);
    }
    assert_bounded(&world, start);
}

#[test]
fn the_acl_log_keeps_the_beginning_of_a_long_key() {
    let (world, start) = world();
    let mut client = world.connect();
    client.ask("ACL SETUSER bob on nopass ~x +@all");
    client.ask("AUTH bob x");
    for number in 0..TIMES {
        assert!(client.command(&[b"GET", &large(number)]).starts_with(b"-NOPERM "));
    }
    let log = client.ask("ACL LOG 1");
    assert!(log.contains(&format!("00059{}... (2999872 more bytes)", "x".repeat(123))), "{log}");
    assert_bounded(&world, start);
}

#[test]
fn long_rules_of_users_are_refused() {
    let (world, start) = world();
    let mut client = world.connect();
    let users = (0..TIMES).filter(|number| {
        let (name, glob) = (format!("user{number}"), [b"~".as_slice(), &large(0)].concat());
        client.command(&[b"ACL", b"SETUSER", name.as_bytes(), b"on", &glob]) == b"+OK\r\n"
    });
    assert_eq!(users.count(), 0);
    assert_eq!(client.ask("ACL USERS"), "*1\\r\\n$7\\r\\ndefault\\r\\n");
    assert_bounded(&world, start);
}

/// Nodes have them all; shardis keeps as many as its limit permits, for nodes that have lost them.
#[test]
fn libraries_of_functions_are_kept_within_their_limit() {
    let (world, start) = world();
    let mut client = world.connect();
    for number in 0..TIMES {
        let name = format!("lib{number}");
        let code = format!(
            "#!lua name={name}\n--{}\nredis.register_function('f{number}', function() return {number} end)",
            "x".repeat(LARGE_BYTES / 2)
        );
        let loaded = format!("${}\r\n{name}\r\n", name.len());
        assert_eq!(client.command(&[b"FUNCTION", b"LOAD", code.as_bytes()]), loaded.as_bytes());
    }
    assert_eq!(client.ask("FCALL f59 0"), ":59\\r\\n");
    assert_bounded(&world, start);
}

/// Vectors for arguments and keys, the requests themselves, and the allocator's reserve.
#[test]
fn memory_of_requests_with_many_keys_is_given_back() {
    const CLIENTS: usize = 8;
    let (world, start) = world();
    let keys: Vec<String> = (0..300_000).map(|number| format!("k{number:06}")).collect();
    let words: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    let del = request(&words);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| world.connect()).collect();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                client.send_if_open(&del);
                // If memory is full, the client with the most memory is closed instead.
                if let Ok(reply) = client.try_read_reply() {
                    assert_eq!(reply, b":0\r\n");
                }
            });
        }
    });
    assert_eq!(world.connect().ask("GET k"), "$1\\r\\nv\\r\\n");
    poll_until("memory is given back", || {
        let resident = kernel::resident_bytes(world.proxy.pid());
        start.zip(resident).is_none_or(|(start, resident)| resident <= start + 12 * MIB).then_some(())
    });
}
