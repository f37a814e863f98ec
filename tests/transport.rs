//! Unix sockets on both sides, and the PROXY protocol.

use crate::harness::certificates::{Authority, Dialect, Directory, identity_flags, text};
use crate::harness::client::ReadError;
use crate::harness::processes::{free_port, run, shardis};
use crate::harness::wire::Wire;
use crate::harness::{Client, Proxy, RedisServer, poll_until, show};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A client at the unix socket at `path`.
fn unix_client(path: &Path) -> Client {
    Client::over(Wire::unix(path))
}

/// The value of `field=` for `client` in CLIENT INFO.
fn client_field(client: &mut Client, field: &str) -> String {
    let info = String::from_utf8_lossy(&client.command(&[b"CLIENT", b"INFO"])).into_owned();
    let value = info.split_whitespace().find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
    value.expect("CLIENT INFO has it").to_owned()
}

#[test]
fn nodes_at_unix_sockets_serve_like_others() {
    let directory = Directory::new();
    let paths = [directory.path("a"), directory.path("b")];
    let nodes: Vec<RedisServer> =
        paths.iter().map(|path| RedisServer::start_with(&["--unixsocket", text(path)])).collect();
    let list = format!("--nodes=unix:{},unix:{}", text(&paths[0]), text(&paths[1]));
    let proxy = Proxy::start(&[&list, "--port=0"]);
    let mut client = Client::connect(proxy.port);
    assert_eq!(client.ask("MSET a 1 b 2 c 3 d 4"), "+OK\\r\\n");
    assert_eq!(client.ask("DBSIZE"), ":4\\r\\n");
    let value = vec![b'x'; 5 << 20];
    assert_eq!(client.command(&[b"SET", b"large", &value]), b"+OK\r\n");
    assert!(client.command(&[b"GET", b"large"]).len() > value.len());
    let at_nodes: Vec<String> = nodes.iter().map(|node| node.connect().ask("DBSIZE")).collect();
    assert!(at_nodes.iter().all(|size| size != ":0\\r\\n"), "{at_nodes:?}");
}

#[test]
fn a_unix_socket_alone_is_enough_and_goes_with_its_process() {
    let directory = Directory::new();
    let path = directory.path("s");
    let flag = format!("--unixsocket={}", text(&path));
    let mut proxy = Proxy::start(&["--port=0", &flag, "--unixsocketperm=700"]);
    let mode = std::fs::metadata(&path).expect("it listens").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut client = unix_client(&path);
    assert_eq!(client.ask("SET a 1"), "+OK\\r\\n");
    assert_eq!(client_field(&mut client, "addr"), format!("{}:0", text(&path)));
    proxy.signal("TERM");
    client.expect_eof();
    assert!(proxy.wait().success());
    assert!(!path.exists());
}

#[test]
fn a_socket_that_was_left_over_is_taken_and_one_in_use_is_not() {
    let directory = Directory::new();
    let path = directory.path("s");
    let flag = format!("--unixsocket={}", text(&path));
    let proxy = Proxy::start(&["--port=0", &flag]);
    let finished = run(shardis(&["--port=0", &flag]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("in use; choose another with --unixsocket"), "{finished:?}");
    assert_eq!(unix_client(&path).ask("PING"), "+PONG\\r\\n");
    // After SIGKILL, no process removes the file.
    drop(proxy);
    assert!(path.exists());
    let _next = Proxy::start(&["--port=0", &flag]);
    assert_eq!(unix_client(&path).ask("PING"), "+PONG\\r\\n");
    let file = directory.write("file", "not a socket");
    let finished = run(shardis(&["--port=0", &format!("--unixsocket={file}")]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(Path::new(&file).exists(), "what is no socket of ours stays");
}

#[test]
fn the_address_in_a_proxy_header_is_the_clients() {
    let proxy = Proxy::start(&["--port=0", "--proxy-protocol", "--protected-mode=no"]);
    let mut first = Client::connect(proxy.port);
    // In two writes, and with a request in the second.
    first.send(b"PROXY TCP4 203.0.113.7 ");
    first.send(b"10.0.0.1 12345 6379\r\n*1\r\n$4\r\nPING\r\n");
    assert_eq!(first.read_reply(), b"+PONG\r\n");
    assert_eq!(client_field(&mut first, "addr"), "203.0.113.7:12345");
    assert_eq!(client_field(&mut first, "laddr"), "10.0.0.1:6379");

    let mut second = Client::connect(proxy.port);
    let addrs = [203, 0, 113, 8, 10, 0, 0, 1, 0x30, 0x39, 0x18, 0xeb];
    second.send(&[b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(), &addrs].concat());
    assert_eq!(client_field(&mut second, "addr"), "203.0.113.8:12345");

    // A load balancer that sees whether we live.
    let mut third = Client::connect(proxy.port);
    third.send(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    let own = third.stream().local_addr().expect("connected").to_string();
    assert_eq!(client_field(&mut third, "addr"), own);
}

#[test]
fn protected_mode_denies_clients_of_other_machines() {
    let proxy = Proxy::start(&["--port=0", "--proxy-protocol"]);
    let mut far = Client::connect(proxy.port);
    far.send(b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 6379\r\n");
    let reply = far.read_reply();
    assert!(reply.starts_with(b"-DENIED Redis is running in protected mode because "), "{}", show(&reply));
    far.expect_eof();
    poll_until("the log to tell of it", || proxy.output().contains("clients denied").then_some(()));
    let mut near = Client::connect(proxy.port);
    near.send(b"PROXY TCP6 ::1 ::1 12345 6379\r\n");
    assert_eq!(
        near.ask("CONFIG GET protected-mode"),
        "*2\\r\\n$14\\r\\nprotected-mode\\r\\n$3\\r\\nyes\\r\\n"
    );

    let proxy = Proxy::start(&["--port=0", "--proxy-protocol", "--requirepass=x"]);
    let mut far = Client::connect(proxy.port);
    far.send(b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 6379\r\n");
    assert_eq!(far.ask("AUTH x"), "+OK\\r\\n");
}

#[test]
fn a_client_of_ipv4_at_an_ipv6_socket_has_its_own_address() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("this machine has no IPv6");
        return;
    }
    // In brackets, as in a list of nodes.
    let proxy = Proxy::start(&["--host=[::]", "--port=0"]);
    let mut client = Client::connect(proxy.port);
    let own = client.stream().local_addr().expect("connected").to_string();
    assert_eq!(client_field(&mut client, "addr"), own);
    assert_eq!(client_field(&mut client, "laddr"), format!("127.0.0.1:{}", proxy.port));
    let stream = std::net::TcpStream::connect(("::1", proxy.port)).expect("it listens");
    let own = stream.local_addr().expect("connected").to_string();
    let mut of_ipv6 = Client::of_stream(stream);
    assert_eq!(client_field(&mut of_ipv6, "addr"), own);
    assert_eq!(client.ask(&format!("CLIENT KILL ADDR {own}")), ":1\\r\\n");
    of_ipv6.expect_eof();
}

#[test]
fn a_client_without_proxy_header_is_closed_and_logged() {
    let proxy = Proxy::start(&["--port=0", "--proxy-protocol"]);
    for (bytes, reason) in [
        (b"*1\r\n$4\r\nPING\r\n".as_slice(), "no PROXY header"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 99999 1\r\n", "the PROXY header is malformed"),
        (b"PROXY TCP4 1.2.3.4\r\n", "the PROXY header is malformed"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", "the PROXY header is too long"),
    ] {
        let mut client = Client::connect(proxy.port);
        let own = client.stream().local_addr().expect("connected").to_string();
        client.send(bytes);
        let (said, ended) = client.read_to_end();
        // Unread bytes may make it a reset.
        assert!(said.is_empty() && matches!(ended, ReadError::Closed { .. } | ReadError::Reset), "{ended:?}");
        poll_until(reason, || {
            let output = proxy.output();
            output.lines().any(|line| line.contains(reason) && line.contains(&own)).then_some(())
        });
    }
}

#[test]
fn a_proxy_header_stands_before_tls() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let identity = identity_flags(&directory, "", "server", &authority.sign(&["127.0.0.1"]));
    for _ in 0..5 {
        let port = free_port();
        let tls_port = format!("--tls-port={port}");
        let flags =
            ["--port=0", &tls_port, &identity[0], &identity[1], "--proxy-protocol", "--protected-mode=no"];
        let Ok(proxy) = Proxy::try_start(&flags) else { continue };
        assert_eq!(proxy.port, port, "there is no other");
        let header = b"PROXY TCP6 2001:db8::7 2001:db8::1 12345 6379\r\n";
        let client = Dialect::trusting(&authority).connect_behind(port, header);
        assert_eq!(client_field(&mut client.expect("they agree"), "addr"), "[2001:db8::7]:12345");
        return;
    }
    panic!("no free port");
}
