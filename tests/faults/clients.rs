//! Clients that do not read, vanish, or hang up half-way.

use crate::harness::client::{Client, ReadError, bulk, request};
use crate::harness::stamp::StampedClients;
use crate::harness::{World, kernel, poll_for, poll_until, seed_for, show};
use std::io::Write;
use std::time::{Duration, Instant};
use stdx::Prng;

/// Enough for one client's waiting replies, and far below the replies that it asks for.
const RESIDENT_BYTES_MAX: u64 = 200 << 20;

#[test]
fn client_that_never_reads_does_not_affect_others() {
    const ASKED: usize = 5000;
    let world = World::with_shards(2);
    let (mut greedy, mut honest) = (world.connect(), world.connect());
    let keys = world.key_on_each("big");
    for key in &keys {
        honest.command(&[b"SET", key.as_bytes(), &vec![b'x'; 100_000]]);
    }
    let line = format!("GET {}\r\nGET {}\r\n", keys[0], keys[1]);
    let stream = greedy.stream().try_clone().expect("a socket can be cloned");
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a socket takes options");
    let writer = std::thread::spawn(move || {
        let mut stream = stream;
        // Until the proxy stops reading, closes, or has taken all bytes.
        let _ = stream.write_all(line.repeat(ASKED / 2).as_bytes());
    });
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) || !writer.is_finished() {
        // A client that waited for the other would time out.
        assert_eq!(honest.ask("PING"), "+PONG\\r\\n");
        for key in &keys {
            assert_eq!(honest.ask(&format!("STRLEN {key}")), ":100000\\r\\n");
        }
        if let Some(bytes) = kernel::resident_bytes(world.proxy.pid()) {
            assert!(bytes < RESIDENT_BYTES_MAX, "the proxy holds {bytes} bytes");
        }
    }
    writer.join().expect("the writer does not panic");
    // The bytes that it finally reads are whole replies, then perhaps the end.
    greedy.set_patience(Duration::from_secs(1));
    let expected = bulk(&vec![b'x'; 100_000]);
    for _ in 0..ASKED {
        match greedy.try_read_reply() {
            Ok(reply) => assert!(reply == expected, "not the value: {}", show(&reply)),
            Err(ReadError::Closed { .. } | ReadError::Reset | ReadError::Timeout) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn clients_that_vanish_in_mid_pipeline_leave_nothing_behind() {
    let world = World::with_shards(4);
    let mut prng = Prng::new(seed_for("clients_that_vanish_in_mid_pipeline_leave_nothing_behind"));
    let mut setup = world.connect();
    let keys = world.key_on_each("v");
    for key in &keys {
        setup.command(&[b"SET", key.as_bytes(), &vec![b'v'; 20_000]]);
    }
    let others = StampedClients::start(world.proxy.port, 2, 16);
    let pipeline: Vec<u8> = keys
        .iter()
        .cycle()
        .take(40)
        .flat_map(|key| {
            [request(&[b"GET", key.as_bytes()]), request(&[b"MGET", b"v1", key.as_bytes()])].concat()
        })
        .collect();
    let before = kernel::open_files(world.proxy.pid());
    for _ in 0..400 {
        let mut client = world.connect();
        let cut = prng.below(pipeline.len() as u64 + 1) as usize;
        client.send(&pipeline[..cut]);
        if prng.one_in(2) {
            // Some see a reply first, so that the proxy is in the middle of writing.
            client.set_patience(Duration::from_millis(5));
            let _ = client.try_read_reply();
        }
        client.reset();
    }
    let tally = others.finish();
    assert_eq!((tally.refused(), tally.unknown()), (0, 0), "{tally:?}");
    poll_until("descriptors to be given back", || {
        (kernel::open_files(world.proxy.pid()) <= before.map(|count| count + 4)).then_some(())
    });
    assert_eq!(setup.ask(&format!("STRLEN {}", keys[0])), ":20000\\r\\n");
}

#[test]
fn a_client_that_stops_sending_still_gets_all_its_replies() {
    const REPLIES: usize = 500;
    let world = World::with_shards(2);
    let mut client = world.connect();
    let keys = world.key_on_each("half");
    for key in &keys {
        client.command(&[b"SET", key.as_bytes(), &vec![b'h'; 100_000]]);
    }
    let pipeline: String = keys.iter().cycle().take(REPLIES).map(|key| format!("GET {key}\r\n")).collect();
    client.send(pipeline.as_bytes());
    client.finish_sending();
    let expected = bulk(&vec![b'h'; 100_000]);
    for number in 0..REPLIES {
        assert!(client.read_reply() == expected, "reply {number}");
    }
    client.expect_eof();
}

#[test]
fn a_client_that_ends_mid_request_gets_whole_replies() {
    let world = World::with_shards(2);
    let mut client = world.connect();
    client.send(b"*3\r\n$3\r\nSET\r\n$5\r\nwhole\r\n$1\r\n1\r\n*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$1\r\n1");
    client.finish_sending();
    assert_eq!(client.read_reply(), b"+OK\r\n");
    client.expect_eof();
    let mut other = world.connect();
    assert_eq!(other.ask("EXISTS whole half"), ":1\\r\\n");
}

#[test]
fn a_client_that_reads_late_gets_everything_in_order() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let mut stream = client.stream().try_clone().expect("a socket can be cloned");
    const REQUESTS: usize = 50_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let pipeline: String =
                (0..REQUESTS).map(|n| format!("SET late:{n} {n}\r\nGET late:{n}\r\n")).collect();
            stream.write_all(pipeline.as_bytes()).expect("the proxy takes it, in its own time");
        });
        // The proxy acts only once enough bytes are waiting.
        poll_for(Duration::from_millis(300), || None::<()>);
        for number in 0..REQUESTS {
            assert_eq!(client.read_reply(), b"+OK\r\n");
            assert_eq!(client.read_reply(), bulk(number.to_string().as_bytes()));
        }
    });
}

#[test]
fn only_idle_clients_are_closed_after_the_timeout() {
    let world = World::with_flags(1, &["--timeout=1"]);
    let (mut idle, mut busy) = (world.connect(), world.connect());
    assert_eq!(idle.ask("PING"), "+PONG\\r\\n");
    let since = Instant::now();
    let closed = std::thread::spawn(move || {
        idle.expect_eof();
        since.elapsed()
    });
    poll_until("the idle client to be closed", || {
        assert_eq!(busy.ask("PING"), "+PONG\\r\\n");
        closed.is_finished().then_some(())
    });
    let after = closed.join().expect("it was closed in order");
    assert!(after >= Duration::from_millis(900), "closed after {after:?}");
}

#[test]
fn clients_above_the_limit_get_an_error() {
    let world = World::with_flags(1, &["--maxclients=10", "--workers=1"]);
    let mut clients: Vec<Client> = (0..10).map(|_| world.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    }
    let mut one_more = world.connect();
    assert_eq!(one_more.read_reply(), b"-ERR max number of clients reached\r\n");
    one_more.expect_eof();
    drop(clients.pop());
    poll_until("a place to be free", || {
        let mut client = world.connect();
        client.try_command(&[b"PING"]).is_ok_and(|reply| reply == b"+PONG\r\n").then_some(())
    });
}
