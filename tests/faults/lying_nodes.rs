//! Nodes that violate the protocol: their excess bytes must reach no client.

use super::{assert_lost, assert_not_sent, assert_timed_out};
use crate::harness::client::{Client, ReadError, bulk};
use crate::harness::fake_node::{Answer, FakeNode};
use crate::harness::{Proxy, poll_until, show};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A fake node and a proxy over it alone.
struct Lie {
    node: FakeNode,
    proxy: Proxy,
}

impl Lie {
    /// `evil` answers `GET` of a key that begins with `evil`; any other key gets the key itself.
    fn about(evil: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) -> Lie {
        let node = FakeNode::start(move |args| match args.get(1) {
            Some(key) if key.starts_with(b"evil") => evil(key),
            Some(key) => Answer::Bytes(bulk(key)),
            None => Answer::Bytes(b"-ERR what?\r\n".to_vec()),
        });
        let proxy = Proxy::over_ports(&[node.port], &["--workers=1", "--request-timeout-ms=500"]);
        Lie { node, proxy }
    }

    fn shard(&self) -> String {
        format!("127.0.0.1:{}", self.node.port)
    }

    fn connect(&self) -> Client {
        Client::connect(self.proxy.port)
    }

    /// Asks for an honest key until there is a reply; until then only faults of this shard are permitted.
    #[track_caller]
    fn expect_honest(&self, client: &mut Client) {
        poll_until("an honest answer", || {
            let reply = client.ask("GET honest");
            let fault = reply.starts_with('-') && reply.contains(&self.shard());
            assert!(fault || reply == "$6\\r\\nhonest\\r\\n", "GET honest was answered with {reply}");
            (!fault).then_some(())
        });
    }
}

#[test]
fn bytes_that_are_no_resp_are_a_protocol_error() {
    let garbage: &[&[u8]] = &[
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\r\n",
        b"\0\0\0\0",
        b"$18446744073709551617\r\n",
        b"$-2\r\n",
        b"*-2\r\n",
        b"*4294967297\r\n",
        b"%4611686018427387904\r\n",
        b"$3\r\nabcd\r\n",
        b"+OK\rX",
    ];
    for bytes in garbage {
        let lie = Lie::about(|_| Answer::Bytes(bytes.to_vec()));
        let mut client = lie.connect();
        let text = format!("-ERR node protocol error, outcome unknown (shard {})\r\n", lie.shard());
        assert_eq!(show(&client.command(&[b"GET", b"evil"])), show(text.as_bytes()), "{}", show(bytes));
        lie.expect_honest(&mut client);
    }
}

#[test]
fn unasked_bytes_on_an_idle_link_reach_no_client() {
    let lie = Lie::about(|_| Answer::Silence);
    let mut client = lie.connect();
    for _ in 0..10 {
        lie.expect_honest(&mut client);
        let accepted = lie.node.accepted();
        assert!(lie.node.inject(b"+INJECTED\r\n") > 0, "there is a connection to inject into");
        lie.node.wait_until_closed(accepted);
        lie.expect_honest(&mut client);
    }
}

#[test]
fn an_extra_frame_behind_a_reply_reaches_no_client() {
    let lie = Lie::about(|key| Answer::Bytes([&bulk(key)[..], b"+INJECTED\r\n"].concat()));
    let mut client = lie.connect();
    for _ in 0..10 {
        lie.expect_honest(&mut client);
        let accepted = lie.node.accepted();
        assert_eq!(client.ask("GET evil"), "$4\\r\\nevil\\r\\n");
        lie.node.wait_until_closed(accepted);
        lie.expect_honest(&mut client);
    }
}

#[test]
fn a_reply_cut_short_is_never_completed_with_something_else() {
    const REPLIES: &[&[u8]] =
        &[b"*3\r\n$3\r\nabc\r\n:12\r\n$-1\r\n", b"$10\r\n0123456789\r\n", b"+OK\r\n", b"-ERR x\r\n"];
    for whole in REPLIES {
        for len in 1..whole.len() {
            let lie = Lie::about(move |_| Answer::BytesThenClose(whole[..len].to_vec()));
            let mut client = lie.connect();
            // Without a relayed byte, the request fails as lost. Within a relayed reply, the connection is closed. Nothing else
            // is honest.
            match client.try_command(&[b"GET", b"evil"]) {
                Ok(reply) => {
                    assert_lost(&reply, &lie.shard());
                    lie.expect_honest(&mut client);
                }
                Err(ReadError::Closed { .. } | ReadError::Reset) => lie.expect_honest(&mut lie.connect()),
                Err(error) => panic!("{} cut at {len}: {error:?}", show(whole)),
            }
        }
    }
}

#[test]
fn cut_long_reply_is_never_completed_by_other_bytes() {
    const LEN: usize = 1 << 20;
    for len in [100, 16 * 1024, 64 * 1024, LEN / 2, LEN + 9] {
        let lie = Lie::about(move |_| {
            let mut bytes = bulk(&vec![b'x'; LEN]);
            bytes.truncate(len);
            Answer::BytesThenClose(bytes)
        });
        let mut client = lie.connect();
        match client.try_command(&[b"GET", b"evil"]) {
            Ok(reply) => assert_lost(&reply, &lie.shard()),
            Err(ReadError::Closed { .. } | ReadError::Reset) => {}
            Err(error) => panic!("cut at {len}: {error:?}"),
        }
        lie.expect_honest(&mut lie.connect());
    }
}

#[test]
fn a_greeting_at_connect_is_no_reply_to_a_client() {
    let lie = Lie::about(|_| Answer::Silence);
    for greeting in
        [&b"-ERR max number of clients reached\r\n"[..], b"-DENIED Redis is running in protected mode\r\n"]
    {
        let mut client = lie.connect();
        lie.expect_honest(&mut client);
        lie.node.set_greeting(Some(greeting));
        lie.node.cut_all();
        let mut refused = 0;
        poll_until("the shard to be refused a few times", || {
            let reply = client.command(&[b"GET", b"honest"]);
            // The first may have been under way when the link broke.
            if reply.starts_with(b"-ERR ") {
                assert_lost(&reply, &lie.shard());
            } else {
                assert_not_sent(&reply, &lie.shard());
                refused += 1;
            }
            (refused >= 5).then_some(())
        });
        lie.node.set_greeting(None);
        lie.expect_honest(&mut client);
    }
}

#[test]
fn a_connection_without_progress_is_given_up_after_the_timeout() {
    // From the first evil request on, a connection is silent, as with a hung node.
    let hung = Arc::new(AtomicBool::new(false));
    let is_hung = Arc::clone(&hung);
    let node = FakeNode::start(move |args| {
        if is_hung.load(Ordering::SeqCst) { Answer::Silence } else { Answer::Bytes(bulk(&args[1])) }
    });
    let proxy = Proxy::over_ports(&[node.port], &["--workers=1", "--request-timeout-ms=300"]);
    let lie = Lie { node, proxy };
    let mut client = lie.connect();
    lie.expect_honest(&mut client);
    let accepted = lie.node.accepted();
    hung.store(true, Ordering::SeqCst);
    assert_timed_out(&client.command(&[b"GET", b"honest"]), &lie.shard(), 300);
    lie.node.wait_until_closed(accepted);
    hung.store(false, Ordering::SeqCst);
    lie.expect_honest(&mut client);
}

#[test]
fn deep_and_odd_replies_pass_as_they_are() {
    let replies = [
        [b"*1\r\n".repeat(5000), b":1\r\n".to_vec()].concat(),
        b"*2\r\n*0\r\n*-1\r\n".to_vec(),
        b"-WEIRD error of a module\r\n".to_vec(),
        b"$-1\r\n".to_vec(),
        b"+\r\n".to_vec(),
        b":-9223372036854775808\r\n".to_vec(),
    ];
    for reply in replies {
        let answer = reply.clone();
        let lie = Lie::about(move |_| Answer::Bytes(answer.clone()));
        let mut client = lie.connect();
        assert_eq!(show(&client.command(&[b"GET", b"evil"])), show(&reply));
        lie.expect_honest(&mut client);
    }
}

#[test]
fn early_reply_is_not_given_to_the_next_request() {
    use std::io::{Read, Write};
    // Answers PING, does not know INFO, and answers any other bytes with an error at once, long before the value has arrived.
    // Then it reads on.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
    let port = listener.local_addr().expect("a bound socket has an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut chunk, mut answered) = (vec![0; 1 << 20], false);
                while let Ok(count @ 1..) = stream.read(&mut chunk) {
                    let asked = chunk[..count]
                        .windows(4)
                        .filter(|window| window.eq_ignore_ascii_case(b"info"))
                        .count();
                    if asked > 0 {
                        if stream.write_all(&b"-ERR unknown command\r\n".repeat(asked)).is_err() {
                            return;
                        }
                        continue;
                    }
                    let ping = chunk[..count].windows(4).any(|window| window.eq_ignore_ascii_case(b"ping"));
                    if ping && stream.write_all(b"+PONG\r\n").is_err() {
                        return;
                    }
                    if !ping
                        && !std::mem::replace(&mut answered, true)
                        && stream.write_all(b"-ERR early\r\n").is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    let proxy = Proxy::over_ports(&[port], &["--workers=1", "--request-timeout-ms=500"]);
    let mut client = Client::connect(proxy.port);
    client.send_command(&[b"SET", b"k", &vec![b'x'; 16 << 20]]);
    let reply = client.read_reply();
    assert!(reply == b"-ERR early\r\n" || reply.starts_with(b"-ERR node "), "{}", show(&reply));
    assert_eq!(client.ask("ECHO own"), "$3\\r\\nown\\r\\n");
    let reply = client.command(&[b"GET", b"k"]);
    assert!(reply[0] == b'-', "{}", show(&reply));
}
