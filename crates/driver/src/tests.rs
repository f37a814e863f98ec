//! The driver against real sockets on the loopback.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

const ID: Id = Id { index: 0, generation: 0 };

/// A driver with one adopted connection, and the other end of it.
fn connected() -> (Driver, TcpStream) {
    let (accepted, other) = pair();
    let mut driver = Driver::new().expect("a poll");
    driver.adopt(ID, accepted).expect("a live socket");
    (driver, other)
}

/// An accepted connection and the other end of it.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let other = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let (accepted, _) = listener.accept().expect("accepts");
    (accepted, other)
}

/// Turns until an event comes that `pick` takes, for ten seconds at most.
fn until<T>(driver: &mut Driver, mut pick: impl FnMut(Event<'_>) -> Option<T>) -> T {
    for _ in 0..1000 {
        driver.wait(Duration::from_millis(10)).expect("polls");
        while let Some(event) = driver.next_event() {
            if let Some(picked) = pick(event) {
                return picked;
            }
        }
    }
    panic!("no such event");
}

#[test]
fn the_end_is_reported_once_after_all_bytes() {
    let (mut driver, mut other) = connected();
    other.write_all(b"hello").expect("writes");
    drop(other);
    let mut seen = Vec::new();
    until(&mut driver, |event| match event {
        Event::Received(ID, bytes) => {
            seen.extend_from_slice(bytes);
            None
        }
        Event::Ended(ID) => Some(()),
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, b"hello");
    driver.wait(Duration::ZERO).expect("polls");
    assert!(driver.next_event().is_none());
}

#[test]
fn a_busy_poll_sees_events_and_the_waker() {
    let hour = Duration::from_secs(3600);
    let (mut driver, mut other) = connected();
    driver.set_busy_poll(hour);
    other.write_all(b"hello").expect("writes");
    driver.wait(hour).expect("polls");
    assert!(matches!(driver.next_event(), Some(Event::Received(ID, b"hello"))));
    let waker = driver.waker().expect("the first");
    waker.wake().expect("the driver is there");
    driver.wait(hour).expect("polls");
    assert!(driver.next_event().is_none());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a wait is measured")]
fn a_busy_poll_is_a_part_of_the_wait() {
    for (busy_poll, timeout) in [(1, 5), (5, 1), (5, 0)] {
        let (busy_poll, timeout) = (Duration::from_millis(busy_poll), Duration::from_millis(timeout));
        let (mut driver, mut other) = connected();
        // Takes the event that the new socket is writable.
        driver.wait(Duration::ZERO).expect("polls");
        assert!(driver.next_event().is_none());
        driver.set_busy_poll(busy_poll);
        let began = Instant::now();
        driver.wait(timeout).expect("polls");
        assert!(began.elapsed() >= timeout && driver.next_event().is_none());
        other.write_all(b"hello").expect("writes");
        until(&mut driver, |event| matches!(event, Event::Received(ID, b"hello")).then_some(()));
    }
}

#[test]
fn received_bytes_are_passed_on_from_the_buffer() {
    let (mut driver, mut other) = connected();
    let target = Id { index: 1, generation: 0 };
    let (accepted, mut sink) = pair();
    driver.adopt(target, accepted).expect("a live socket");
    other.write_all(b"hello").expect("writes");
    until(&mut driver, |event| matches!(event, Event::Received(ID, b"hello")).then_some(()));
    assert_eq!(driver.received(), b"hello");
    assert_eq!(driver.pass_on(target).expect("it takes bytes"), 5);
    let mut seen = [0; 5];
    sink.read_exact(&mut seen).expect("they were sent");
    assert_eq!(&seen, b"hello");
    assert_eq!(driver.pass_on(Id { index: 1, generation: 1 }).expect("there is nobody"), 0);
}

#[test]
fn a_read_brings_no_more_than_its_limit() {
    let (accepted, mut other) = pair();
    let mut driver = Driver::new().expect("a poll");
    driver.set_read_bytes_max(1000);
    driver.adopt(ID, accepted).expect("a live socket");
    other.write_all(&[7; 2500]).expect("writes");
    let mut sizes = Vec::new();
    until(&mut driver, |event| {
        if let Event::Received(ID, bytes) = event {
            sizes.push(bytes.len());
        }
        (sizes.iter().sum::<usize>() == 2500).then_some(())
    });
    assert!(sizes.iter().all(|&size| size <= 1000), "{sizes:?}");
}

#[test]
fn more_than_a_buffer_is_read_over_several_turns() {
    let (mut driver, mut other) = connected();
    let total = BUFFER_BYTES * 5 + 17;
    #[expect(
        clippy::disallowed_methods,
        reason = "the test needs the other side to write while this one reads"
    )]
    let writer = std::thread::spawn(move || other.write_all(&vec![7; total]).map(|()| other));
    let mut received = 0;
    until(&mut driver, |event| {
        if let Event::Received(ID, bytes) = event {
            assert!(bytes.len() <= BUFFER_BYTES);
            received += bytes.len();
        }
        (received == total).then_some(())
    });
    writer.join().expect("no panic").expect("written");
}

#[test]
fn a_busy_client_gets_a_share_while_others_wait() {
    let received = received_beside_another(false);
    assert!(received.iter().all(|&len| len <= SHARE_BYTES), "{received:?}");
    assert!(received_beside_another(true).contains(&(SHARE_BYTES * 3)), "large values are read in one go");
}

/// Lengths of the reads from one client while another client has sent bytes as well.
fn received_beside_another(bulky: bool) -> Vec<usize> {
    let (mut driver, mut deep) = connected();
    driver.set_bulky(ID, bulky);
    let (other, mut shallow) = pair();
    let second = Id { index: 1, generation: 0 };
    driver.adopt(second, other).expect("a live socket");
    // In this order, so that the client with more bytes is read first.
    deep.write_all(&vec![7; SHARE_BYTES * 3]).expect("fits into the socket's buffers");
    shallow.write_all(b"hello").expect("writes");
    let mut before = Vec::new();
    until(&mut driver, |event| match event {
        Event::Received(ID, bytes) => {
            before.push(bytes.len());
            None
        }
        Event::Received(id, b"hello") if id == second => Some(()),
        other => panic!("{other:?}"),
    });
    let mut left = SHARE_BYTES * 3 - before.iter().sum::<usize>();
    while left > 0 {
        until(&mut driver, |event| {
            if let Event::Received(ID, bytes) = event {
                left -= bytes.len();
            }
            (left == 0).then_some(())
        });
    }
    before
}

#[test]
fn a_full_socket_says_when_it_takes_bytes_again() {
    let (mut driver, mut other) = connected();
    let bytes = vec![1; 1 << 20];
    let mut sent = 0;
    loop {
        let count = driver.send(ID, &bytes).expect("open");
        sent += count;
        if count < bytes.len() {
            break;
        }
    }
    let mut read = vec![0; sent];
    other.read_exact(&mut read).expect("what was sent");
    until(&mut driver, |event| matches!(event, Event::Writable(ID)).then_some(()));
    assert_eq!(driver.send(ID, b"more").expect("open"), 4);
}

#[test]
fn a_paused_connection_is_not_read_until_it_is_resumed() {
    let (mut driver, mut other) = connected();
    driver.pause(ID);
    other.write_all(b"hello").expect("writes");
    for _ in 0..3 {
        driver.wait(Duration::from_millis(5)).expect("polls");
        assert!(driver.next_event().is_none());
    }
    driver.resume(ID);
    until(&mut driver, |event| matches!(event, Event::Received(ID, b"hello")).then_some(()));
}

#[test]
fn connecting_ends_in_a_connection_or_in_a_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("bound");
    let mut driver = Driver::new().expect("a poll");
    driver.connect(ID, &Target::Tcp(addr)).expect("begins");
    until(&mut driver, |event| matches!(event, Event::Connected(ID)).then_some(()));
    driver.close(ID);
    drop(listener);
    let next = Id { index: 0, generation: 1 };
    driver.connect(next, &Target::Tcp(addr)).expect("begins");
    let kind = until(&mut driver, |event| match event {
        Event::Closed(id, error) if id == next => Some(error.kind()),
        _ => None,
    });
    assert_eq!(kind, ErrorKind::ConnectionRefused);
}

#[test]
fn vanished_node_is_noticed_sooner_than_a_client() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (mut driver, _other) = connected();
    let node = Id { index: 1, generation: 0 };
    driver.connect(node, &Target::Tcp(listener.local_addr().expect("bound"))).expect("begins");
    let noticed_after = |id: Id| {
        let Some(Conn { socket: socket::Socket::Tcp(stream), .. }) = &driver.conns[id.index as usize] else {
            panic!("it is there");
        };
        let socket = socket2::SockRef::from(stream);
        let probes = socket.tcp_keepalive_retries().expect("an option");
        assert!(socket.keepalive().expect("an option"));
        socket.tcp_keepalive_time().expect("an option")
            + socket.tcp_keepalive_interval().expect("an option") * probes
    };
    assert_eq!([ID, node].map(noticed_after), [Duration::from_secs(120), Duration::from_secs(15)]);
}

/// Closes a connection that is full of unsent bytes, since its peer does not read. Returns the bytes that the peer
/// finds.
fn found_behind_the_close(drops: bool) -> std::io::Result<usize> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut driver = Driver::new().expect("a poll");
    driver.connect(ID, &Target::Tcp(listener.local_addr().expect("bound"))).expect("begins");
    let (mut other, _) = listener.accept().expect("connects");
    until(&mut driver, |event| matches!(event, Event::Connected(ID)).then_some(()));
    if drops {
        driver.drop_unsent_on_close(ID);
    }
    let piece = vec![b'x'; 1 << 20];
    while driver.send(ID, &piece).expect("open") == piece.len() {}
    driver.close(ID);
    other.read_to_end(&mut Vec::new())
}

#[test]
fn unsent_bytes_are_dropped_on_close_if_asked() {
    assert!(found_behind_the_close(false).is_ok_and(|found| found > 0));
    assert_eq!(found_behind_the_close(true).expect_err("reset").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_stale_id_has_no_effect() {
    let (mut driver, _other) = connected();
    let stale = Id { index: 0, generation: 9 };
    assert_eq!(driver.send(stale, b"x").expect("ignored"), 0);
    driver.close(stale);
    assert_eq!(driver.send(ID, b"x").expect("open"), 1);
}

#[test]
fn all_that_has_happened_is_known_after_one_wait() {
    let mut driver = Driver::new().expect("a poll");
    // Has the driver ask the kernel three times.
    driver.events = Events::with_capacity(2);
    let mut others = Vec::new();
    for index in 0..5 {
        let (accepted, other) = std::os::unix::net::UnixStream::pair().expect("two descriptors");
        driver.adopt_unix(Id { index, generation: 0 }, accepted).expect("a live socket");
        others.push(other);
    }
    driver.wait(Duration::ZERO).expect("polls");
    while driver.next_event().is_some() {}
    others.iter_mut().for_each(|other| other.write_all(b"x").expect("there is room"));
    driver.wait(Duration::ZERO).expect("polls");
    let mut heard = 0;
    while let Some(event) = driver.next_event() {
        heard += usize::from(matches!(event, Event::Received(..)));
    }
    assert_eq!(heard, 5);
}

#[test]
fn a_released_socket_keeps_its_bytes_and_its_connection() {
    let (mut driver, mut other) = connected();
    other.write_all(b"hello").expect("writes");
    assert!(driver.may_release(ID) && !driver.may_release(Id { generation: 1, ..ID }));
    let stream = driver.release(ID).expect("it is open");
    assert!(driver.release(ID).is_none() && !driver.may_release(ID));
    driver.close(ID);
    let socket = stream.as_fd().try_clone_to_owned().expect("a free descriptor");
    drop(stream);
    let stream = Stream::of_descriptor(socket).expect("a stream");
    assert!(matches!(stream, Stream::Tcp(_)));
    let mut next = Driver::new().expect("a poll");
    next.adopt_stream(ID, stream).expect("a live socket");
    until(&mut next, |event| matches!(event, Event::Received(ID, b"hello")).then_some(()));
    next.send(ID, b"there").expect("the other side is there");
    let mut bytes = [0; 5];
    other.read_exact(&mut bytes).expect("reads");
    assert_eq!(&bytes, b"there");
    driver.wait(Duration::ZERO).expect("polls");
    assert!(driver.next_event().is_none(), "the first driver hears nothing of it");
}
