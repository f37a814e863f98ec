//! Clients with TLS and PROXY headers, and nodes with TLS, over real sockets on the loopback. One driver is shardis,
//! another is the other side.

use super::*;
use crate::credentials::{Acceptor, ClientAuth, Identity, Trust};
use crate::{Event, Target};
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

const ID: Id = Id { index: 0, generation: 0 };
const NEVER: Instant = Instant::NEVER;
const NOW: Instant = Instant::ZERO;

/// Both sides' credentials for the name `node.test`.
fn credentials() -> (Acceptor, Connector) {
    let made = rcgen::generate_simple_self_signed(["node.test".to_owned()]).expect("a certificate");
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity::new(certificate.as_bytes(), key.as_bytes()).expect("they fit");
    let acceptor = Acceptor::new(vec![identity], ClientAuth::No, b"").expect("it accepts");
    (acceptor, Connector::new(Trust::Authorities(certificate.as_bytes()), None).expect("it trusts"))
}

/// Two drivers with a connection between them, which both call [`ID`].
struct Ends {
    us: Driver,
    other: Driver,
}

impl Ends {
    /// One turn of each driver. `pick` gets every event.
    fn turn(&mut self, mut pick: impl FnMut(bool, Event<'_>)) {
        for (is_us, driver) in [(true, &mut self.us), (false, &mut self.other)] {
            driver.wait(Duration::from_millis(1)).expect("polls");
            while let Some(event) = driver.next_event() {
                pick(is_us, event);
            }
        }
    }

    /// After the handshake.
    fn connected() -> Ends {
        let (acceptor, connector) = credentials();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut other = Driver::new().expect("a poll");
        let addr = listener.local_addr().expect("bound");
        other.connect_tls(ID, addr, &connector, "node.test").expect("begins");
        let (stream, peer) = listener.accept().expect("accepts");
        let mut us = Driver::new().expect("a poll");
        let entry = Entry { acceptor: Some(acceptor), ..Entry::default() };
        us.receive(stream, peer, &entry, NEVER).expect("a live socket");
        let mut ends = Ends { us, other };
        let (mut is_admitted, mut is_connected) = (false, false);
        for _ in 0..TURNS_MAX {
            ends.turn(|is_us, event| match event {
                Event::Connected(ID) if !is_us => is_connected = true,
                other => panic!("{other:?}"),
            });
            if let Some(Verdict::Ready(pending_client)) = ends.us.poll_pending_client(NOW) {
                assert_eq!((pending_client.peer(), pending_client.local()), (peer, Some(addr)));
                ends.us.admit(ID, pending_client).expect("a live socket");
                is_admitted = true;
            }
            if is_admitted && is_connected {
                return ends;
            }
        }
        panic!("the handshake does not end");
    }
}

/// Ten seconds at least.
const TURNS_MAX: usize = 10_000;

/// Turns until `pick` takes an event.
fn until<T>(driver: &mut Driver, mut pick: impl FnMut(Event<'_>) -> Option<T>) -> T {
    for _ in 0..TURNS_MAX {
        driver.wait(Duration::from_millis(1)).expect("polls");
        while let Some(event) = driver.next_event() {
            if let Some(picked) = pick(event) {
                return picked;
            }
        }
    }
    panic!("no such event");
}

/// Turns until there is a verdict.
fn verdict(driver: &mut Driver, now: Instant) -> Verdict {
    for _ in 0..TURNS_MAX {
        driver.wait(Duration::from_millis(1)).expect("polls");
        assert!(driver.next_event().is_none());
        if let Some(verdict) = driver.poll_pending_client(now) {
            return verdict;
        }
    }
    panic!("no verdict");
}

/// A driver with one pending client, and the other end of it.
fn with_pending_client(entry: &Entry, deadline: Instant) -> (Driver, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let other = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let (stream, peer) = listener.accept().expect("accepts");
    let mut driver = Driver::new().expect("a poll");
    driver.receive(stream, peer, entry, deadline).expect("a live socket");
    (driver, other)
}

#[test]
fn large_transfers_in_both_directions_arrive_whole() {
    const TOTAL: usize = 5 << 20;
    let bytes: Vec<u8> = (0..TOTAL).map(|at| (at * 7 + at / 251) as u8).collect();
    let mut ends = Ends::connected();
    let (mut sent, mut received) = ([0; 2], [Vec::new(), Vec::new()]);
    let mut may_send = [true; 2];
    for _ in 0..TURNS_MAX {
        for (side, driver) in [&mut ends.other, &mut ends.us].into_iter().enumerate() {
            if may_send[side] && sent[side] < TOTAL {
                sent[side] += driver.send(ID, &bytes[sent[side]..]).expect("open");
                may_send[side] = sent[side] == TOTAL;
            }
        }
        ends.turn(|is_us, event| match event {
            Event::Received(ID, bytes) => received[usize::from(is_us)].extend_from_slice(bytes),
            Event::Writable(ID) => may_send[usize::from(is_us)] = true,
            other => panic!("{other:?}"),
        });
        if received.iter().all(|received| received.len() == TOTAL) {
            assert!(received.iter().all(|received| *received == bytes));
            return;
        }
    }
    panic!("sent {sent:?}, received {:?}", received.map(|received| received.len()));
}

#[test]
fn a_paused_connection_keeps_its_input_until_it_is_resumed() {
    let mut ends = Ends::connected();
    ends.us.pause(ID);
    assert_eq!(ends.other.send(ID, b"hello").expect("open"), 5);
    for _ in 0..5 {
        ends.turn(|_, event| panic!("{event:?}"));
    }
    ends.us.resume(ID);
    until(&mut ends.us, |event| matches!(event, Event::Received(ID, b"hello")).then_some(()));
}

#[test]
fn a_pause_in_a_large_transfer_ends_without_new_bytes() {
    let mut ends = Ends::connected();
    let bytes = vec![7; 60_000];
    assert_eq!(ends.other.send(ID, &bytes).expect("the kernel takes it"), bytes.len());
    let mut left = bytes.len();
    // All bytes are in the kernel of this side, or here, before the first read: no further edge will come.
    while left > 0 {
        left -= until(&mut ends.us, |event| match event {
            Event::Received(ID, bytes) => Some(bytes.len()),
            _ => None,
        });
        ends.us.pause(ID);
        ends.us.wait(Duration::ZERO).expect("polls");
        assert!(ends.us.next_event().is_none());
        ends.us.resume(ID);
    }
}

#[test]
fn a_close_is_an_end_for_the_other_side_after_all_that_was_sent() {
    let mut ends = Ends::connected();
    assert_eq!(ends.us.send(ID, b"bye").expect("open"), 3);
    ends.us.close(ID);
    let mut seen = Vec::new();
    until(&mut ends.other, |event| match event {
        Event::Received(ID, bytes) => {
            seen.extend_from_slice(bytes);
            None
        }
        Event::Ended(ID) => Some(()),
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, b"bye");
}

#[test]
fn a_half_closed_connection_still_receives() {
    let mut ends = Ends::connected();
    ends.other.finish(ID);
    until(&mut ends.us, |event| matches!(event, Event::Ended(ID)).then_some(()));
    assert_eq!(ends.us.send(ID, b"late").expect("open"), 4);
    until(&mut ends.other, |event| matches!(event, Event::Received(ID, b"late")).then_some(()));
}

#[test]
fn a_node_that_does_not_speak_tls_is_no_connection() {
    let (_, connector) = credentials();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut driver = Driver::new().expect("a poll");
    driver.connect_tls(ID, listener.local_addr().expect("bound"), &connector, "node.test").expect("begins");
    let (mut stream, _) = listener.accept().expect("accepts");
    stream.write_all(b"-ERR Protocol error: unbalanced quotes in request\r\n").expect("writes");
    let reason = until(&mut driver, |event| match event {
        Event::Closed(ID, error) => Some(error.to_string()),
        other => panic!("{other:?}"),
    });
    assert_eq!(reason, "TLS: the peer does not speak TLS");
}

#[test]
fn a_client_that_says_nothing_is_refused_at_its_deadline() {
    let (acceptor, _) = credentials();
    let deadline = NOW + Duration::from_secs(10);
    let (mut driver, _other) =
        with_pending_client(&Entry { acceptor: Some(acceptor), ..Entry::default() }, deadline);
    driver.wait(Duration::ZERO).expect("polls");
    assert!(driver.poll_pending_client(NOW).is_none());
    assert_eq!((driver.pending_clients(), driver.pending_clients_deadline()), (1, deadline));
    assert!(matches!(driver.poll_pending_client(deadline), Some(Verdict::Refused { .. })));
    assert_eq!((driver.pending_clients(), driver.pending_clients_deadline()), (0, NEVER));
}

#[test]
fn split_proxy_header_loses_no_byte_behind_it() {
    let (mut driver, mut other) = with_pending_client(&Entry { header: true, ..Entry::default() }, NEVER);
    let (first, second) = (b"PROXY TCP4 10.0.0.7 ", b"10.0.0.1 12345 6379\r\nPING\r\n");
    other.write_all(first).expect("writes");
    for _ in 0..5 {
        driver.wait(Duration::from_millis(1)).expect("polls");
        assert!(driver.poll_pending_client(NOW).is_none());
    }
    other.write_all(second).expect("writes");
    let Verdict::Ready(pending_client) = verdict(&mut driver, NOW) else { panic!("it was fine") };
    assert_eq!(pending_client.peer().to_string(), "10.0.0.7:12345");
    assert_eq!(pending_client.local().map(|addr| addr.to_string()).as_deref(), Some("10.0.0.1:6379"));
    driver.admit(ID, pending_client).expect("a live socket");
    until(&mut driver, |event| matches!(event, Event::Received(ID, b"PING\r\n")).then_some(()));
}

#[test]
fn a_client_without_the_header_is_refused_by_name() {
    let (mut driver, mut other) = with_pending_client(&Entry { header: true, ..Entry::default() }, NEVER);
    other.write_all(b"*1\r\n$4\r\nPING\r\n").expect("writes");
    let Verdict::Refused { peer, reason } = verdict(&mut driver, NOW) else { panic!("it said nothing") };
    assert_eq!(peer, other.local_addr().expect("connected"));
    assert_eq!(reason.to_string(), "no PROXY header");
}

#[test]
fn few_pending_clients_proceed_per_turn_and_all_in_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("bound");
    let (mut driver, mut others) = (Driver::new().expect("a poll"), Vec::new());
    for number in 0..20 {
        let mut other = std::net::TcpStream::connect(addr).expect("connects");
        other.write_all(b"PROXY UNKNOWN\r\n").expect("writes");
        let (stream, peer) = listener.accept().expect("accepts");
        let deadline = NOW + Duration::from_secs(1 + number);
        driver.receive(stream, peer, &Entry { header: true, ..Entry::default() }, deadline).expect("live");
        others.push(other);
    }
    let (mut ready, mut turns) = (0, 0);
    while ready < others.len() {
        driver.wait(Duration::from_millis(1)).expect("polls");
        let mut ready_now = 0;
        while let Some(verdict) = driver.poll_pending_client(NOW) {
            match verdict {
                Verdict::Ready(pending_client) => {
                    driver.admit(Id { index: ready as u32, generation: 0 }, pending_client).expect("live");
                    (ready, ready_now) = (ready + 1, ready_now + 1);
                }
                Verdict::Refused { reason, .. } => panic!("{reason}"),
            }
        }
        assert!(ready_now <= 4);
        turns += 1;
        assert!(turns < TURNS_MAX);
    }
}

#[test]
fn the_oldest_pending_client_goes_first_to_make_room() {
    let (mut driver, first) = with_pending_client(&Entry { header: true, ..Entry::default() }, NEVER);
    assert_eq!(driver.pending_clients(), 1);
    let Some(Verdict::Refused { peer, reason }) = driver.refuse_oldest_pending_client("no room") else {
        panic!("there is one")
    };
    assert_eq!((peer, reason.to_string().as_str()), (first.local_addr().expect("connected"), "no room"));
    assert!(driver.refuse_oldest_pending_client("no room").is_none());
}

#[test]
fn a_unix_socket_is_connected_to_and_carries_bytes() {
    let path = std::env::temp_dir().join(format!("shardis-driver-{}.sock", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a fresh path");
    let mut driver = Driver::new().expect("a poll");
    driver.connect(ID, &Target::Unix(path.clone())).expect("begins");
    let (mut stream, _) = listener.accept().expect("accepts");
    std::fs::remove_file(&path).expect("it is ours");
    until(&mut driver, |event| matches!(event, Event::Connected(ID)).then_some(()));
    assert_eq!(driver.send(ID, b"hello").expect("open"), 5);
    let mut came = [0; 5];
    std::io::Read::read_exact(&mut stream, &mut came).expect("it was sent");
    assert_eq!(&came, b"hello");
}
