//! `shardis tcp`: bytes reach a node and come back, even with faults on either side.

use crate::harness::client::ReadError;
use crate::harness::processes::{Finished, Process, free_port, run, shardis_binary};
use crate::harness::{Client, RedisServer, kernel, poll_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;

/// A `shardis tcp` that listens.
struct Tcp {
    process: Process,
    port: u16,
}

impl Tcp {
    /// In front of the present or future nodes on `ports`.
    fn over(ports: &[u16], flags: &[&str]) -> Tcp {
        let list: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let nodes = format!("--nodes={}", list.join(","));
        let mut process =
            Process::spawn(tcp(&[&["--port=0", nodes.as_str()], flags].concat()), "shardis tcp");
        let port = poll_until("the line that says where it listens", || {
            let said = process.output();
            assert!(process.ended().is_none(), "it ended instead: {said}");
            let (_, rest) = said.split_once(" listens on 127.0.0.1:")?;
            rest.split_once(' ')?.0.parse().ok()
        });
        Tcp { process, port }
    }

    fn connect(&self) -> Client {
        Client::connect(self.port)
    }

    fn expect_log(&self, text: &str) {
        poll_until(text, || self.process.output().contains(text).then_some(()));
    }
}

fn tcp(flags: &[&str]) -> Command {
    let mut command = shardis_binary();
    command.arg("tcp").args(flags);
    command
}

/// A node that does as the test says.
struct Listening {
    listener: TcpListener,
    port: u16,
}

impl Listening {
    fn start() -> Listening {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        Listening { listener, port }
    }

    fn accept(&self) -> TcpStream {
        self.listener.accept().expect("somebody comes").0
    }
}

fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).expect("it listens")
}

fn read_exactly(stream: &mut TcpStream, len: usize) -> String {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).expect("so much comes");
    bytes.escape_ascii().to_string()
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it ends in order");
    bytes
}

#[test]
fn clients_are_spread_over_the_nodes_and_keep_theirs() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let proxy = Tcp::over(&nodes.each_ref().map(|node| node.port), &["--workers=2"]);
    let mut clients: Vec<Client> = (0..8).map(|_| proxy.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("SET client:{number} 1")), "+OK\\r\\n");
    }
    // By the fewest connections: half of the clients on each node, and no key at the other node.
    assert!(nodes.iter().all(|node| node.connect().ask("DBSIZE") == ":4\\r\\n"));
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("GET client:{number}")), "$1\\r\\n1\\r\\n");
    }
}

#[test]
fn weights_count_and_a_source_has_one_node() {
    let nodes = [Listening::start(), Listening::start()];
    let ports = [nodes[0].port, nodes[1].port];
    let flag = format!("--nodes=127.0.0.1:{}:3,127.0.0.1:{}", ports[0], ports[1]);
    for (balance, expected) in [("round-robin", &[6, 2][..]), ("source-hash", &[8, 0])] {
        let mut process = Process::spawn(
            tcp(&["--port=0", &flag, "--check=off", &format!("--balance={balance}")]),
            "shardis tcp",
        );
        let port: u16 = poll_until("its port", || {
            assert!(process.ended().is_none(), "{}", process.output());
            let said = process.output();
            said.split_once("listens on 127.0.0.1:")?.1.split_once(' ')?.0.parse().ok()
        });
        let _clients: Vec<TcpStream> = (0..8).map(|_| connect(port)).collect();
        let mut counts = [0, 0];
        let mut accepted = Vec::new();
        for node in &nodes {
            node.listener.set_nonblocking(true).expect("a socket takes options");
        }
        poll_until("eight connections", || {
            for (node, count) in nodes.iter().zip(&mut counts) {
                if let Ok((stream, _)) = node.listener.accept() {
                    accepted.push(stream);
                    *count += 1;
                }
            }
            (accepted.len() == 8).then_some(())
        });
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(counts, expected, "{balance}");
    }
}

#[test]
fn a_missing_node_costs_no_client_anything() {
    let (node, missing) = (RedisServer::start(), free_port());
    let proxy = Tcp::over(&[missing, node.port], &["--check=off"]);
    for _ in 0..4 {
        assert_eq!(proxy.connect().ask("PING"), "+PONG\\r\\n");
    }
    proxy.expect_log("node down");
    let nobody = Tcp::over(&[missing], &["--check=off"]);
    assert!(nobody.connect().try_command(&[b"PING"]).is_err(), "nobody is there to answer");
    nobody.expect_log("no node accepts it");
}

#[test]
fn node_with_a_ping_error_gets_no_clients() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let ports = nodes.each_ref().map(|node| node.port);
    let proxy = Tcp::over(&ports, &["--check=ping", "--check-interval-ms=20"]);
    let mut first = nodes[0].connect();
    // -MASTERDOWN: a replica without its primary that must not serve old data.
    for words in ["CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1"] {
        assert_eq!(first.ask(words), "+OK\\r\\n");
    }
    proxy.expect_log("node down");
    assert!(proxy.process.output().contains("MASTERDOWN"), "{}", proxy.process.output());
    let ids: Vec<String> = (0..4).map(|_| run_id(&mut proxy.connect())).collect();
    assert!(ids.iter().all(|id| *id == run_id(&mut nodes[1].connect())));
    assert_eq!(first.ask("REPLICAOF NO ONE"), "+OK\\r\\n");
    proxy.expect_log("node up");
    poll_until("a client at the first node", || {
        (run_id(&mut proxy.connect()) == run_id(&mut first)).then_some(())
    });
}

fn run_id(client: &mut Client) -> String {
    let info = client.ask("INFO server");
    let (_, rest) = info.split_once("run_id:").expect("INFO has it");
    rest[..40].to_owned()
}

#[test]
fn each_side_may_end_and_still_hear_the_other() {
    let node = Listening::start();
    let proxy = Tcp::over(&[node.port], &["--check=off"]);
    let (mut client, mut at_node) = (connect(proxy.port), node.accept());
    client.write_all(b"all I have to say").expect("it takes bytes");
    client.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(read_all(&mut at_node), b"all I have to say");
    at_node.write_all(b"an answer").expect("it takes bytes");
    drop(at_node);
    assert_eq!(read_all(&mut client), b"an answer");

    let (mut client, mut at_node) = (connect(proxy.port), node.accept());
    at_node.write_all(b"farewell").expect("it takes bytes");
    at_node.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(read_all(&mut client), b"farewell");
    client.write_all(b"one more thing").expect("it takes bytes");
    drop(client);
    assert_eq!(read_all(&mut at_node), b"one more thing");
}

#[test]
fn much_passes_both_ways_at_once_and_comes_out_as_it_went_in() {
    const BYTES: usize = 40 << 20;
    let node = Listening::start();
    let proxy = Tcp::over(&[node.port], &["--check=off", "--workers=1"]);
    let (client, at_node) = (connect(proxy.port), node.accept());
    let pattern = |seed: u8| (0..BYTES).map(move |at| seed.wrapping_add((at % 251) as u8));
    let sides = [(client, 1, 7), (at_node, 7, 1)].map(|(stream, own, other)| {
        let mut writing = stream.try_clone().expect("a socket can be cloned");
        let writer = std::thread::spawn(move || {
            let bytes: Vec<u8> = pattern(own).collect();
            writing.write_all(&bytes).and_then(|()| writing.shutdown(Shutdown::Write))
        });
        let mut reading = stream;
        let reader = std::thread::spawn(move || read_all(&mut reading).into_iter().eq(pattern(other)));
        (writer, reader)
    });
    for (writer, reader) in sides {
        writer.join().expect("no panic").expect("all is taken");
        assert!(reader.join().expect("no panic"), "what came out is not what went in");
    }
}

#[test]
fn a_slow_reader_stops_only_its_source() {
    let node = Listening::start();
    let proxy = Tcp::over(&[node.port], &["--check=off", "--workers=1"]);
    let (slow, at_node) = (connect(proxy.port), node.accept());
    let mut source = at_node.try_clone().expect("a socket can be cloned");
    source.set_nonblocking(true).expect("a socket takes options");
    // Until no bytes are taken for a while: the buffers of both sockets and ours are full.
    let block = vec![7; 1 << 20];
    let (mut taken, mut refusals) = (0, 0);
    poll_until("a full way", || {
        match source.write(&block) {
            Ok(count) => (taken, refusals) = (taken + count, 0),
            Err(_) => refusals += 1,
        }
        (refusals == 200).then_some(())
    });
    let before = kernel::resident_bytes(proxy.process.pid()).unwrap_or_default();
    assert!(before < 40 << 20, "{before} bytes for {taken}");
    let (mut other, mut other_node) = (connect(proxy.port), node.accept());
    other.write_all(b"ping").expect("it takes bytes");
    assert_eq!(read_exactly(&mut other_node, 4), "ping");
    // And it goes on where it stopped.
    let mut slow = slow;
    drop(source);
    at_node.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(read_all(&mut slow).len(), taken);
}

#[test]
fn a_reset_ends_the_other_side() {
    let node = RedisServer::start();
    let proxy = Tcp::over(&[node.port], &["--check=off"]);
    let mut client = proxy.connect();
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    drop(node);
    client.expect_eof();
}

#[test]
fn proxy_headers_are_read_and_written() {
    let node = Listening::start();
    let inner = Tcp::over(&[node.port], &["--check=off", "--proxy-protocol", "--send-proxy=v1"]);
    let outer = Tcp::over(&[inner.port], &["--check=off", "--send-proxy=v2"]);
    let (mut client, mut at_node) = (connect(outer.port), node.accept());
    client.write_all(b"ping").expect("it takes bytes");
    let own = client.local_addr().expect("connected").port();
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {}\\r\\nping", outer.port);
    // The escapes take one byte each on the wire.
    assert_eq!(read_exactly(&mut at_node, expected.len() - 2), expected);

    let mut stranger = connect(inner.port);
    stranger.write_all(b"*1\r\n$4\r\nPING\r\n").expect("it takes bytes");
    let mut bytes = Vec::new();
    // A reset, since it was not read.
    let _ = stranger.read_to_end(&mut bytes);
    assert!(bytes.is_empty());
    inner.expect_log("no PROXY header");
}

#[test]
fn idle_and_excess_clients_are_closed() {
    let node = RedisServer::start();
    let proxy = Tcp::over(&[node.port], &["--timeout=1", "--check=off"]);
    let mut idle = proxy.connect();
    assert_eq!(idle.ask("PING"), "+PONG\\r\\n");
    idle.expect_eof();

    let proxy = Tcp::over(&[node.port], &["--maxclients=2", "--check=off"]);
    let mut clients = [proxy.connect(), proxy.connect()];
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "+PONG\\r\\n"));
    let mut third = proxy.connect();
    assert!(third.try_command(&[b"PING"]).is_err());
    proxy.expect_log("clients refused");
    drop(clients);
    poll_until("room for another", || {
        proxy.connect().try_command(&[b"PING"]).is_ok_and(|reply| reply == b"+PONG\r\n").then_some(())
    });
}

#[test]
fn busy_polling_passes_bytes_and_sleeps_when_idle() {
    let node = RedisServer::start();
    let proxy = Tcp::over(&[node.port], &["--busy-poll=2000"]);
    for _ in 0..2 {
        assert_eq!(proxy.connect().ask("PING"), "+PONG\\r\\n");
        poll_until("sleep", || kernel::is_asleep(proxy.process.pid()).then_some(()));
    }
}

#[test]
fn a_drain_waits_for_clients_and_takes_no_new_ones() {
    let node = RedisServer::start();
    let mut proxy = Tcp::over(&[node.port], &["--drain-timeout=1000"]);
    let mut client = proxy.connect();
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    proxy.process.signal("TERM");
    proxy.expect_log("drain started");
    poll_until("a refusal", || TcpStream::connect(("127.0.0.1", proxy.port)).is_err().then_some(()));
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    drop(client);
    assert!(poll_until("its end", || proxy.process.ended()).success());

    let mut proxy = Tcp::over(&[node.port], &["--drain-timeout=0"]);
    let mut client = proxy.connect();
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    proxy.process.signal("TERM");
    assert!(poll_until("its end", || proxy.process.ended()).success());
    let (_, ended) = client.read_to_end();
    assert!(matches!(ended, ReadError::Closed { .. } | ReadError::Reset), "{ended:?}");
}

#[test]
fn arguments_that_make_no_sense_are_refused_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let busy = format!("--port={}", taken.local_addr().expect("bound").port());
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "--nodes"),
        (&["--nodes=127.0.0.1"], 2, "127.0.0.1"),
        (&["--nodes=a:1|b:1"], 2, "write a comma"),
        (&["--nodes=a:1", "--balance=random"], 2, "write least-conn"),
        (&["--nodes=a:1", "--check=http"], 2, "write off, tcp or ping"),
        (&["--nodes=a:1", "--send-proxy=v3"], 2, "write v1 or v2"),
        (&["--nodes=a:1", "--listen=here"], 2, "--listen here"),
        (&["--nodes=a:1", "--host=999.1.1.1"], 2, "--host 999.1.1.1"),
        (&["--nodes=a:1", "--busy-poll=auto"], 2, "write microseconds up to 1000000"),
        (&["--nodes=a:1", "--maxclients=0"], 2, "--maxclients 0"),
        (&["--nodes=a:1", "--workers=2000"], 2, "--workers 2000"),
        (&["--nodes=no-such-host.invalid:1"], 1, "no-such-host.invalid has no address"),
        (&["--nodes=127.0.0.1:1", &busy], 1, "--port"),
    ];
    for (flags, code, named) in cases {
        let finished: Finished = run(tcp(flags));
        assert_eq!(finished.code, Some(*code), "{flags:?}: {finished:?}");
        assert!(finished.stderr.contains(named), "{flags:?}: {finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{flags:?}: {finished:?}");
    }
}
