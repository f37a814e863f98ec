//! The proxy's own faults: frozen, short of descriptors, flooded with connections, with huge values.

use crate::harness::certificates::{Authority, Directory, identity_flags};
use crate::harness::client::{Client, ReadError, bulk, request};
use crate::harness::processes::{Process, Proxy, free_port, shardis};
use crate::harness::{RedisServer, World, kernel, poll_for, poll_until, shard_of, show};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn unread_replies_are_no_timeouts_after_a_proxy_freeze() {
    const TIMEOUT: Duration = Duration::from_millis(1000);
    let world = World::with_flags(2, &["--request-timeout-ms=1000"]);
    let mut client = world.connect();
    let key = world.key_on(0, "k");
    assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n");
    world.nodes[0].freeze();
    let asked = Instant::now();
    client.send(format!("GET {key}\r\n").as_bytes());
    poll_until("the request to reach the node", || {
        (kernel::unread_bytes_of_all(world.nodes[0].port) > 0).then_some(())
    });
    world.proxy.freeze();
    let stopped_after = asked.elapsed();
    world.nodes[0].thaw();
    poll_until("the reply to wait in the proxy's socket", || {
        (kernel::unread_bytes_from(world.nodes[0].port) > 0).then_some(())
    });
    // Longer than the timeout.
    poll_for(TIMEOUT + Duration::from_millis(300), || None::<()>);
    world.proxy.thaw();
    let reply = client.read_reply();
    // On a machine that stopped for this time, the request had timed out before the proxy was frozen.
    if stopped_after < TIMEOUT / 2 {
        assert_eq!(show(&reply), "$1\\r\\nv\\r\\n");
    }
}

#[test]
fn descriptor_shortage_spares_connected_clients() {
    let node = RedisServer::start();
    let nodes = std::slice::from_ref(&node);
    let (_process, port) = short_of_descriptors(nodes, 128, &["--workers=1".to_owned()]);
    let mut first = Client::connect(port);
    assert_eq!(first.ask("SET k v"), "+OK\\r\\n");
    let mut crowd: Vec<Client> = (0..300).filter_map(|_| Client::try_connect(port)).collect();
    for _ in 0..50 {
        assert_eq!(first.ask("GET k"), "$1\\r\\nv\\r\\n");
    }
    for client in &mut crowd {
        client.set_patience(Duration::from_millis(20));
        match client.try_command(&[b"PING"]) {
            Ok(reply) => assert!(reply == b"+PONG\r\n" || reply == b"-ERR max number of clients reached\r\n"),
            Err(ReadError::Closed { .. } | ReadError::Reset | ReadError::Timeout) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    drop(crowd);
    poll_until("a newcomer to be served again", || {
        let mut client = Client::try_connect(port)?;
        client.set_patience(Duration::from_secs(1));
        client.try_command(&[b"GET", b"k"]).is_ok_and(|reply| reply == b"$1\r\nv\r\n").then_some(())
    });
}

/// A proxy over `nodes` with this limit of descriptors, and its port.
fn short_of_descriptors(nodes: &[RedisServer], descriptors: usize, flags: &[String]) -> (Process, u16) {
    let port = free_port();
    let addrs: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let own = [format!("--nodes={}", addrs.join(",")), format!("--port={port}")];
    let all: Vec<&str> = own.iter().chain(flags).map(String::as_str).collect();
    let program = shardis(&all);
    let mut command = Command::new("sh");
    // A hard limit: the proxy cannot raise it.
    command
        .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")])
        .arg(program.get_program())
        .args(program.get_args());
    (Process::spawn(command, "shardis"), port)
}

#[test]
fn half_open_handshakes_leave_descriptors_for_nodes() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let mut flags = identity_flags(&directory, "", "server", &authority.sign(&["127.0.0.1"])).to_vec();
    let tls_port = free_port();
    // Each worker alone would take as many as there may be clients.
    flags.extend([format!("--tls-port={tls_port}"), "--workers=4".to_owned()]);
    let mut node = RedisServer::start();
    let (_process, port) = short_of_descriptors(std::slice::from_ref(&node), 256, &flags);
    let mut client = Client::connect(port);
    assert_eq!(client.ask("SET k v"), "+OK\\r\\n");
    let flood: Vec<Client> = (0..600).filter_map(|_| Client::try_connect(tls_port)).collect();
    // The node's links are gone, and there must be descriptors for others.
    let node_port = node.port;
    node.kill();
    drop(node);
    node = RedisServer::start_on(node_port);
    poll_until("the node to be used again", || {
        let reply = client.ask("GET k");
        // Half-open handshakes end after 10 seconds: use of the node then would show nothing.
        assert!(!reply.contains("too many open files"), "{reply}");
        (reply == "$-1\\r\\n").then_some(())
    });
    // The client may come to a worker that has not found the node yet, but has a place.
    poll_until("a newcomer to be served", || {
        let reply = Client::connect(port).ask("GET k");
        assert!(!reply.contains("max number of clients"), "{reply}");
        (reply == "$-1\\r\\n").then_some(())
    });
    drop((flood, node));
}

#[test]
fn lost_shard_returns_under_descriptor_shortage() {
    let mut nodes = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let (_process, port) = short_of_descriptors(&nodes, 128, &["--workers=1".to_owned()]);
    let on = |shard| (0..).map(|n| format!("s{n}")).find(|key| shard_of(key.as_bytes(), 3) == shard);
    let keys: Vec<String> = (0..nodes.len()).filter_map(on).collect();
    let ask = format!("GET {}", keys[2]);
    let mut first = Client::connect(port);
    assert_eq!(first.ask(&ask), "$-1\\r\\n");
    // Each waits at both of the other nodes, with a held link to each.
    let wait = format!("XREAD BLOCK 0 STREAMS {} {} $ $\r\n", keys[0], keys[1]);
    let mut waiting: Vec<Client> = (0..60).filter_map(|_| Client::try_connect(port)).collect();
    for client in &mut waiting {
        client.set_patience(Duration::from_millis(1));
        client.send_if_open(wait.as_bytes());
    }
    // All clients that were refused for want of descriptors ask again.
    let mut press = || {
        let mut refused = 0;
        for client in &mut waiting {
            let reply = client.try_read_reply();
            if reply.is_ok_and(|reply| show(&reply).contains("too many open files")) {
                refused += 1;
                client.send_if_open(wait.as_bytes());
            }
        }
        refused
    };
    poll_until("there to be no descriptor for some who wait", || (press() > 0).then_some(()));
    let node_port = nodes[2].port;
    nodes[2].kill();
    poll_until("the loss of the node to be seen", || (first.ask(&ask) != "$-1\\r\\n").then_some(()));
    poll_until("its descriptor to be taken", || (press() > 0).then_some(()));
    nodes[2] = RedisServer::start_on(node_port);
    poll_until("the node to be used again", || {
        press();
        (first.ask(&ask) == "$-1\\r\\n").then_some(())
    });
}

#[test]
fn a_flood_of_reset_connections_stops_no_client() {
    let world = World::with_shards(2);
    let mut honest = world.connect();
    let port = world.proxy.port;
    let flood: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..500 {
                    if let Some(client) = Client::try_connect(port) {
                        client.reset();
                    }
                }
            })
        })
        .collect();
    while !flood.iter().all(std::thread::JoinHandle::is_finished) {
        assert_eq!(honest.ask("INCR n")[..1], *":");
        assert_eq!(world.connect().ask("PING"), "+PONG\\r\\n");
    }
    flood.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(world.connect().ask("PING"), "+PONG\\r\\n");
}

#[test]
fn a_huge_value_passes_both_ways() {
    const LEN: usize = 64 << 20;
    let world = World::with_shards(2);
    let mut client = world.connect();
    let mut stream = client.stream().try_clone().expect("a socket can be cloned");
    let value: Vec<u8> = (0..LEN).map(|index| (index % 251) as u8).collect();
    let set = request(&[b"SET", b"huge", &value]);
    std::thread::scope(|scope| {
        scope.spawn(move || stream.write_all(&set).expect("the proxy takes it"));
        assert_eq!(client.read_reply(), b"+OK\r\n");
    });
    assert_eq!(client.command(&[b"STRLEN", b"huge"]), format!(":{LEN}\r\n").as_bytes());
    assert!(client.command(&[b"GET", b"huge"]) == bulk(&value), "the value came back changed");
    // The memory of a transfer is returned afterwards: two more must not add up.
    for _ in 0..2 {
        assert!(client.command(&[b"GET", b"huge"]) == bulk(&value), "the value came back changed");
    }
    // The allocator returns it some milliseconds later, while requests arrive.
    poll_until("the memory of the values to be given back", || {
        assert_eq!(client.ask("GET nosuch"), r"$-1\r\n");
        kernel::resident_bytes(world.proxy.pid()).is_none_or(|bytes| bytes < 3 * LEN as u64).then_some(())
    });
}

#[test]
fn half_a_request_takes_the_room_of_half_a_request() {
    const CLIENTS: usize = 20;
    let world = World::with_shards(1);
    let before = kernel::resident_bytes(world.proxy.pid());
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let mut client = world.connect();
            client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n");
            client.send(&[b'x'; 100_000]);
            client.wait_until_read();
            client
        })
        .collect();
    if let (Some(before), Some(after)) = (before, kernel::resident_bytes(world.proxy.pid())) {
        let each = after.saturating_sub(before) / CLIENTS as u64;
        assert!(each < 400_000, "{each} bytes for each client that has sent 100,000");
    }
    drop(clients);
    assert_eq!(world.connect().ask("EXISTS k"), ":0\\r\\n");
}

#[test]
fn unread_log_blocks_nothing_and_reports_dropped_lines() {
    let (port, folder) = (free_port(), Directory::new());
    let inner = folder.path("inner");
    std::fs::create_dir(&inner).expect("the folder can be written to");
    let file = inner.join("users");
    std::fs::write(&file, "user default on nopass ~* &* +@all\n").expect("the folder can be written to");
    let program =
        shardis(&[&format!("--port={port}"), "--workers=1", &format!("--acl-file={}", file.display())]);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = Command::new(program.get_program());
    command.args(program.get_args()).stdout(Stdio::null()).stderr(writer);
    let mut proxy = command.spawn().expect("shardis can be started");
    drop(command);
    let first = poll_until("the proxy to listen", || Client::try_connect(port));
    std::fs::remove_dir_all(&inner).expect("it is ours");
    // Each causes a line at level error, which has no bound. Together they exceed a pipe, and then the queue.
    // Many ask at once, since the control thread looks ten times a second.
    const CLIENTS: usize = 400;
    const LINES: usize = 10 * CLIENTS;
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(port)).collect();
    for _ in 0..LINES / CLIENTS {
        clients.iter_mut().for_each(|client| client.send_command(&[b"ACL", b"SAVE"]));
        for client in &mut clients {
            assert!(client.read_reply().starts_with(b"-ERR"));
        }
    }
    drop(clients);
    assert_eq!([first, Client::connect(port)].map(|mut client| client.ask("PING")), ["+PONG\\r\\n"; 2]);
    // A reading client gets the waiting replies, and an error for the rest.
    let taken = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    let told = Command::new("kill").arg(proxy.id().to_string()).status();
    assert!(told.is_ok_and(|status| status.success()));
    let ended = poll_until("the proxy to end", || proxy.try_wait().expect("it is our child"));
    let text = taken.join().expect("it reads").expect("it is text");
    assert!(ended.success(), "{ended:?}");
    let lines = text.lines().filter(|line| line.contains("user save failed")).count();
    assert!(lines > 0 && lines < LINES, "{lines} lines");
    assert!(text.contains("log lines dropped"), "{text}");
}

#[test]
fn a_flood_of_bad_clients_fills_no_log() {
    let proxy = Proxy::start(&["--port=0", "--workers=1"]);
    for _ in 0..100 {
        let mut client = Client::connect(proxy.port);
        client.send(b"*x\r\n");
        assert!(client.read_to_end().0.starts_with(b"-ERR Protocol error"));
    }
    proxy.signal("TERM");
    let text = poll_until("the summary at the end", || {
        Some(proxy.output()).filter(|text| text.contains("lines suppressed"))
    });
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("protocol error, not RESP"), 10, "{text}");
    assert!(text.contains("lines suppressed of=\"client closed\" count=90"), "{text}");
}
