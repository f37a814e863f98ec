//! Input at the limits: endless lines, the most arguments, and the error line that must arrive though more bytes were sent.

use crate::harness::client::{Client, request};
use crate::harness::{World, kernel, poll_until};
use std::io::Write;

const LINE_BYTES_MAX: usize = 64 * 1024;

#[test]
fn a_line_may_be_64_kib_long_and_no_longer_however_it_is_cut() {
    let world = World::with_shards(2);
    for (head, what) in [("", "too big inline request"), ("*", "too big mbulk count string")] {
        let filler = if head.is_empty() { "a" } else { "1" };
        let endless = format!("{head}{}", filler.repeat(LINE_BYTES_MAX + 1));
        expect_refusal(&world, &[endless.as_bytes()], what);
        let (one, two) = endless.as_bytes().split_at(LINE_BYTES_MAX / 2);
        expect_refusal(&world, &[one, two], what);
    }
    let bulk_header = format!("*1\r\n${}", "1".repeat(LINE_BYTES_MAX + 1));
    expect_refusal(&world, &[bulk_header.as_bytes()], "too big bulk count string");
    // With its line end: Redis accepts it depending on the network. Here it is never accepted.
    let ended = format!("ECHO {}\r\n", "a".repeat(LINE_BYTES_MAX));
    expect_refusal(&world, &[ended.as_bytes()], "too big inline request");
    let (one, two) = ended.as_bytes().split_at(LINE_BYTES_MAX - 1);
    expect_refusal(&world, &[one, two], "too big inline request");

    let word = "a".repeat(LINE_BYTES_MAX - "ECHO \r\n".len());
    let mut client = world.connect();
    client.send(format!("ECHO {word}\r\n").as_bytes());
    assert_eq!(client.read_reply(), format!("${}\r\n{word}\r\n", word.len()).as_bytes());
}

#[test]
fn a_request_may_have_a_million_arguments() {
    const ARGS_MAX: usize = 1024 * 1024;
    let world = World::with_shards(2);
    let mut client = world.connect();
    let mut bytes = format!("*{ARGS_MAX}\r\n$6\r\nEXISTS\r\n").into_bytes();
    bytes.extend(b"$1\r\na\r\n".repeat(ARGS_MAX - 1));
    client.command(&[b"SET", b"a", b"1"]);
    client.send(&bytes);
    assert_eq!(client.read_reply(), format!(":{}\r\n", ARGS_MAX - 1).as_bytes());
}

#[test]
fn announced_sizes_cost_no_memory() {
    const CONNECTIONS: usize = 200;
    let world = World::with_shards(2);
    let before = kernel::resident_bytes(world.proxy.pid());
    let clients: Vec<Client> = (0..CONNECTIONS)
        .map(|index| {
            let mut client = world.connect();
            client.send(if index % 2 == 0 { b"*1048576\r\n" } else { b"*2\r\n$3\r\nGET\r\n$536870912\r\nx" });
            client
        })
        .collect();
    poll_until("all of it to be read", || (kernel::unread_bytes_of_all(world.proxy.port) == 0).then_some(()));
    let after = kernel::resident_bytes(world.proxy.pid());
    if let (Some(before), Some(after)) = (before, after) {
        let each = after.saturating_sub(before) / CONNECTIONS as u64;
        // 16 KiB is the figure of the test matrix, row 23.
        assert!(each <= 16 * 1024, "{each} bytes for each connection that only announces");
    }
    drop(clients);
}

#[test]
fn the_error_line_arrives_though_the_client_goes_on_sending() {
    let world = World::with_shards(2);
    for _ in 0..20 {
        let mut client = world.connect();
        let mut stream = client.stream().try_clone().expect("a socket can be cloned");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let megabyte = vec![b'x'; 1 << 20];
                // The writing ends when the proxy closes the connection.
                let _ = stream.write_all(b"*2\r\n$4\r\nECHO\r\n$999999999999\r\n");
                while stream.write_all(&megabyte).is_ok() {}
            });
            assert_eq!(client.read_reply(), b"-ERR Protocol error: invalid bulk length\r\n");
            // Closed in order, and not reset: behind a reset the line may be lost.
            client.expect_eof();
            let _ = client.stream().shutdown(std::net::Shutdown::Both);
        });
    }
}

#[test]
fn a_request_of_many_segments_is_one_request() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let value = "v".repeat(300_000);
    let bytes = request(&[b"SET", b"segments", value.as_bytes()]);
    for piece in bytes.chunks(10_000) {
        client.send(piece);
        client.wait_until_read();
    }
    assert_eq!(client.read_reply(), b"+OK\r\n");
    assert_eq!(client.command(&[b"STRLEN", b"segments"]), b":300000\r\n");
}

#[track_caller]
fn expect_refusal(world: &World, pieces: &[&[u8]], what: &str) {
    let mut client = world.connect();
    for piece in pieces {
        client.send_if_open(piece);
        client.wait_until_read();
    }
    let (bytes, _) = client.read_to_end();
    assert_eq!(String::from_utf8_lossy(&bytes), format!("-ERR Protocol error: {what}\r\n"));
}
