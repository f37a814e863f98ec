//! TLS towards clients and towards nodes: redis-cli and rustls as clients, redis-server (OpenSSL) as nodes.

use crate::harness::certificates::{Authority, Dialect, Directory, Identity, identity_flags};
use crate::harness::client::{ReadError, bulk, request};
use crate::harness::processes::{Finished, free_port, free_ports, run, shardis, shardis_binary};
use crate::harness::{Client, Proxy, RedisServer, poll_until, show};
use std::process::Command;

/// Nodes behind a proxy with a port for plain clients and one for TLS.
struct World {
    directory: Directory,
    authority: Authority,
    /// Nodes that live as long as the world does.
    _nodes: Vec<RedisServer>,
    proxy: Proxy,
    tls_port: u16,
}

/// Number of attempts with other ports, if another process has taken one meanwhile.
const ATTEMPTS: usize = 5;

impl World {
    /// Over two plain nodes; `flags` gets the directory and the authority.
    fn with_flags(flags: impl FnOnce(&Directory, &Authority) -> Vec<String>) -> World {
        let (directory, authority) = (Directory::new(), Authority::new());
        let nodes = vec![RedisServer::start(), RedisServer::start()];
        let mut all = flags(&directory, &authority);
        let addrs: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        all.push(format!("--nodes={}", addrs.join(",")));
        let identity = authority.sign(&["127.0.0.1", "localhost"]);
        all.extend(identity_flags(&directory, "", "server", &identity));
        let (proxy, tls_port) = start(&all);
        World { directory, authority, _nodes: nodes, proxy, tls_port }
    }

    fn usual() -> World {
        World::with_flags(|_, _| Vec::new())
    }

    /// A client with TLS that trusts the world's authority.
    fn connect(&self) -> Client {
        Dialect::trusting(&self.authority).connect(self.tls_port).expect("they agree")
    }

    /// A count in the proxy's INFO.
    fn count(&self, field: &str) -> u64 {
        let info = Client::connect(self.proxy.port).command(&[b"INFO", b"stats"]);
        let text = String::from_utf8_lossy(&info).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|count| count.trim().parse().ok()).expect("INFO has it")
    }

    /// Waits for a line of the log.
    fn wait_for_log(&self, words: &str) {
        poll_until(words, || self.proxy.output().contains(words).then_some(()));
    }
}

/// A proxy with both kinds of ports, and that for TLS.
fn start(flags: &[String]) -> (Proxy, u16) {
    for _ in 0..ATTEMPTS {
        let ports = free_ports(2);
        let [plain, tls] = [format!("--port={}", ports[0]), format!("--tls-port={}", ports[1])];
        let mut all: Vec<&str> = flags.iter().map(String::as_str).collect();
        all.extend([plain.as_str(), tls.as_str()]);
        match Proxy::try_start(&all) {
            Ok(proxy) => return (proxy, ports[1]),
            Err(said) => assert!(said.contains("the port is in use"), "{said}"),
        }
    }
    panic!("no free ports in {ATTEMPTS} attempts");
}

/// Runs redis-cli with `args`; it must succeed.
#[track_caller]
fn cli(args: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(args);
    let Finished { code, stdout, stderr } = run(command);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "redis-cli {args:?}: {stdout}");
    stdout
}

#[test]
fn clients_come_plain_by_tls_and_by_unix_socket_side_by_side() {
    let world =
        World::with_flags(|directory, _| vec![format!("--unixsocket={}", directory.path("s").display())]);
    let socket = world.directory.path("s");
    let socket = socket.to_str().expect("it is text");
    let authority = world.directory.write("ca.crt", &world.authority.certificate);
    let (plain, tls) = (world.proxy.port.to_string(), world.tls_port.to_string());
    let by_tls = ["-p", tls.as_str(), "--tls", "--cacert", authority.as_str()];
    assert_eq!(cli(&["-p", &plain, "set", "a", "1"]), "OK\n");
    assert_eq!(cli(&[&by_tls[..], &["mget", "a", "b"]].concat()), "1\n\n");
    assert_eq!(cli(&["-s", socket, "incr", "a"]), "2\n");
    assert_eq!(world.connect().ask("GET a"), "$1\\r\\n2\\r\\n");
    let line = cli(&["-s", socket, "client", "list"]);
    assert!(line.contains(&format!("addr={socket}:0 ")) && line.contains(" flags=U "), "{line}");
    let said = world.proxy.output();
    assert!(said.contains(&format!("127.0.0.1:{plain}, 127.0.0.1:{tls} (TLS), unix:{socket} (")), "{said}");
}

#[test]
fn redis_benchmark_runs_over_tls() {
    let world = World::usual();
    let authority = world.directory.write("ca.crt", &world.authority.certificate);
    let port = world.tls_port.to_string();
    let mut command = Command::new("redis-benchmark");
    command.args([
        "-p", &port, "--tls", "--cacert", &authority, "-q", "-t", "set,get", "-n", "20000", "-P", "20",
    ]);
    let Finished { code, stdout, stderr } = run(command);
    assert_eq!((code, stdout.matches("requests per second").count()), (Some(0), 2), "{stdout}{stderr}");
}

#[test]
fn tls_1_2_and_1_3_work_and_plain_clients_are_refused() {
    let world = World::usual();
    for version in rustls::ALL_VERSIONS {
        let dialect = Dialect { versions: &[version], ..Dialect::trusting(&world.authority) };
        let mut client = dialect.connect(world.tls_port).expect("they agree");
        assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    }
    poll_until("both are counted", || (world.count("total_handshakes") == 2).then_some(()));
    assert_eq!(world.count("total_handshakes_failed"), 0);
    let mut plain = Client::connect(world.tls_port);
    plain.send(&request(&[b"PING"]));
    let (said, ended) = plain.read_to_end();
    // An alert, and nothing else.
    assert_eq!((said.first(), said.len(), ended), (Some(&21), 7, ReadError::Closed { partial: 0 }));
    world.wait_for_log("TLS: the peer does not speak TLS");
    poll_until("it is counted", || (world.count("total_handshakes_failed") == 1).then_some(()));
    assert_eq!(world.connect().ask("PING"), "+PONG\\r\\n");
}

#[test]
fn client_certificates_are_wanted_and_strangers_refused() {
    let stranger = Authority::new().sign(&["client"]);
    let world = World::with_flags(|directory, authority| {
        vec![format!("--tls-ca-cert-file={}", directory.write("ca.crt", &authority.certificate))]
    });
    let known = world.authority.sign(&["client"]);
    let answered = |identity: Option<&Identity>| {
        let dialect = Dialect { identity, ..Dialect::trusting(&world.authority) };
        dialect.is_answered(world.tls_port)
    };
    assert!(answered(Some(&known)));
    assert!(!answered(None));
    world.wait_for_log("TLS: the client has no certificate");
    assert!(!answered(Some(&stranger)));
    world.wait_for_log("TLS: invalid peer certificate");
}

#[test]
fn optional_client_certificates_must_be_valid_if_sent() {
    let stranger = Authority::new().sign(&["client"]);
    let world = World::with_flags(|directory, authority| {
        let file = directory.write("ca.crt", &authority.certificate);
        vec![format!("--tls-ca-cert-file={file}"), "--tls-auth-clients=optional".to_owned()]
    });
    let answered = |identity: Option<&Identity>| {
        let dialect = Dialect { identity, ..Dialect::trusting(&world.authority) };
        dialect.is_answered(world.tls_port)
    };
    assert!(answered(None) && answered(Some(&world.authority.sign(&["client"]))));
    assert!(!answered(Some(&stranger)));
}

#[test]
fn a_certificate_is_exchanged_while_a_connection_lives() {
    let world = World::usual();
    let next = Authority::new();
    let mut living = world.connect();
    assert_eq!(living.ask("SET a 1"), "+OK\\r\\n");
    identity_flags(&world.directory, "", "server", &next.sign(&["127.0.0.1"]));
    world.proxy.signal("HUP");
    world.wait_for_log("certificates reloaded");
    assert_eq!(living.ask("GET a"), "$1\\r\\n1\\r\\n");
    assert!(Dialect::trusting(&next).is_answered(world.tls_port));
    assert!(!Dialect::trusting(&world.authority).is_answered(world.tls_port), "the old one is gone");
    // A half-written file, say.
    world.directory.write("server.crt", "-----BEGIN CERTIFICATE-----\nMIIB");
    world.proxy.signal("HUP");
    world.wait_for_log("certificate reload failed");
    assert!(Dialect::trusting(&next).is_answered(world.tls_port));
    assert_eq!(living.ask("GET a"), "$1\\r\\n1\\r\\n");
}

#[test]
fn an_excess_client_gets_an_error_through_tls() {
    let world = World::with_flags(|_, _| vec!["--maxclients=1".to_owned(), "--workers=1".to_owned()]);
    let mut first = world.connect();
    assert_eq!(first.ask("PING"), "+PONG\\r\\n");
    let mut second = world.connect();
    assert_eq!(second.read_reply(), b"-ERR max number of clients reached\r\n");
    second.expect_eof();
    assert_eq!(first.ask("PING"), "+PONG\\r\\n");
}

#[test]
fn several_names_have_their_own_certificates() {
    let other = Authority::new();
    let world = World::with_flags(|directory, _| {
        identity_flags(directory, "", "other", &other.sign(&["other.test"])).to_vec()
    });
    let asks = |authority, name| Dialect { name, ..Dialect::trusting(authority) }.is_answered(world.tls_port);
    assert!(asks(&other, "other.test") && asks(&world.authority, "localhost"));
    assert!(!asks(&world.authority, "other.test"));
}

#[test]
fn a_half_closed_client_gets_all_replies_and_an_end() {
    let world = World::usual();
    let mut client = world.connect();
    (0..100).for_each(|n| client.send_command(&[b"SET", format!("k{n}").as_bytes(), b"v"]));
    client.finish_sending();
    (0..100).for_each(|_| assert_eq!(client.read_reply(), b"+OK\r\n"));
    // An end without TLS's own closing message would be an error here.
    client.expect_eof();
}

#[test]
fn a_drain_answers_sent_requests_and_ends_in_order() {
    let mut world = World::usual();
    let mut client = world.connect();
    assert_eq!(client.ask("SET a 1"), "+OK\\r\\n");
    world.proxy.signal("TERM");
    client.expect_eof();
    assert!(world.proxy.wait().success());
}

#[test]
fn a_client_that_reads_late_finds_everything() {
    const VALUES: usize = 40;
    let world = World::usual();
    let value = vec![b'x'; 300_000];
    let mut client = world.connect();
    assert_eq!(client.command(&[b"SET", b"large", &value]), b"+OK\r\n");
    (0..VALUES).for_each(|_| client.send_command(&[b"GET", b"large"]));
    // Meanwhile others are served.
    (0..50).for_each(|_| assert_eq!(world.connect().ask("PING"), "+PONG\\r\\n"));
    for number in 0..VALUES {
        let reply = client.read_reply();
        assert!(reply == bulk(&value), "{number}: {}", show(&reply));
    }
}

/// A node that speaks TLS at `tls_port`, as `flags` say, and plainly at another port.
struct TlsNode {
    server: RedisServer,
    tls_port: u16,
}

impl TlsNode {
    fn start(flags: &[String]) -> TlsNode {
        for _ in 0..ATTEMPTS {
            let tls_port = free_port();
            let port = tls_port.to_string();
            let mut all: Vec<&str> = vec!["--tls-port", &port];
            all.extend(flags.iter().map(String::as_str));
            if let Some(server) = RedisServer::try_start(free_port(), &all) {
                return TlsNode { server, tls_port };
            }
        }
        panic!("redis-server with TLS did not start in {ATTEMPTS} attempts");
    }
}

/// redis-server's flags for a certificate of `authority` for 127.0.0.1, and certificates of clients if `auth` says so.
fn node_flags(directory: &Directory, authority: &Authority, auth: &str) -> Vec<String> {
    let ca = directory.write("node-ca.crt", &authority.certificate);
    let [cert, key] = identity_flags(directory, "", "node", &authority.sign(&["127.0.0.1"]));
    let words = [cert, key, format!("--tls-ca-cert-file={ca}"), format!("--tls-auth-clients={auth}")];
    words.iter().flat_map(|flag| flag.split('=').map(str::to_owned)).collect()
}

/// `--nodes` for the TLS ports of `nodes`.
fn node_list(nodes: &[TlsNode]) -> String {
    let addrs: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.tls_port)).collect();
    format!("--nodes={}", addrs.join(","))
}

#[test]
fn pipelines_and_large_values_pass_tls_on_both_sides() {
    const REQUESTS: usize = 10_000;
    let (directory, authority) = (Directory::new(), Authority::new());
    // One node of each version; both want our certificate.
    let flags = node_flags(&directory, &authority, "yes");
    let older = [&flags[..], &["--tls-protocols".to_owned(), "TLSv1.2".to_owned()]].concat();
    let nodes = [TlsNode::start(&flags), TlsNode::start(&older)];
    let mut flags = vec![node_list(&nodes), "--node-tls".to_owned()];
    flags.push(format!("--node-tls-ca-cert-file={}", directory.path("node-ca.crt").display()));
    flags.extend(identity_flags(&directory, "node-", "us", &authority.sign(&["shardis"])));
    flags.extend(identity_flags(&directory, "", "server", &authority.sign(&["127.0.0.1"])));
    let (_proxy, tls_port) = start(&flags);
    let mut client = Dialect::trusting(&authority).connect(tls_port).expect("they agree");

    let large: Vec<u8> = (0..5 << 20).map(|at: usize| (at * 7 + at / 251) as u8).collect();
    for key in ["large:1", "large:2", "large:3", "large:4"] {
        assert_eq!(client.command(&[b"SET", key.as_bytes(), &large]), b"+OK\r\n");
        let reply = client.command(&[b"GET", key.as_bytes()]);
        assert!(reply == bulk(&large), "{}", show(&reply));
    }
    for round in 0..2 {
        let pipeline: Vec<u8> = (0..REQUESTS)
            .flat_map(|n| match round {
                0 => request(&[b"SET", format!("key:{n}").as_bytes(), format!("value:{n}").as_bytes()]),
                _ => request(&[b"GET", format!("key:{n}").as_bytes()]),
            })
            .collect();
        client.send(&pipeline);
        for n in 0..REQUESTS {
            let expected =
                if round == 0 { b"+OK\r\n".to_vec() } else { bulk(format!("value:{n}").as_bytes()) };
            let reply = client.read_reply();
            assert!(reply == expected, "round {round}, {n}: {}", show(&reply));
        }
    }
    let sizes: Vec<Vec<u8>> = nodes.iter().map(|node| node.server.connect().command(&[b"DBSIZE"])).collect();
    assert!(sizes.iter().all(|size| size != b":0\r\n"), "both have keys");
}

#[test]
fn node_with_a_wrong_certificate_is_logged_and_not_used() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let nodes = [TlsNode::start(&node_flags(&directory, &authority, "no"))];
    let ca = directory.write("ca.crt", &authority.certificate);
    let other = directory.write("other.crt", &Authority::new().certificate);
    let cases: [(&[String], &str); 4] = [
        (
            &[format!("--node-tls-ca-cert-file={ca}"), "--node-tls-server-name=else.test".into()],
            "not valid for name",
        ),
        (&[format!("--node-tls-ca-cert-file={other}")], "invalid peer certificate"),
        (&[], "invalid peer certificate"),
        (&["--node-tls-insecure".into()], ""),
    ];
    for (flags, reason) in cases {
        let flags = [flags, &[node_list(&nodes), "--node-tls".to_owned(), "--port=0".to_owned()]].concat();
        let proxy = Proxy::start(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        let mut client = Client::connect(proxy.port);
        let reply = client.ask("SET a 1");
        if reason.is_empty() {
            assert_eq!(reply, "+OK\\r\\n");
        } else {
            assert!(reply.starts_with("-TRYAGAIN "), "{reply}");
            poll_until(reason, || proxy.output().contains(reason).then_some(()));
        }
    }
}

#[test]
fn the_doctor_asks_nodes_over_tls() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let nodes = [TlsNode::start(&node_flags(&directory, &authority, "yes"))];
    let ours = identity_flags(&directory, "node-", "us", &authority.sign(&["shardis"]));
    let doctor = |ca: &Authority| {
        let ca = format!("--node-tls-ca-cert-file={}", directory.write("ca.crt", &ca.certificate));
        let mut command = shardis_binary();
        command.args(["doctor", "--maxclients=100", "--node-tls", &node_list(&nodes), &ca]).args(&ours);
        let Finished { code, stdout, .. } = run(command);
        (code, stdout)
    };
    let (code, text) = doctor(&authority);
    // A busy machine may delay a PING, which is a warning.
    assert!(code != Some(4) && text.contains("1 node asked") && text.contains("0 errors"), "{text}");
    let (code, text) = doctor(&Authority::new());
    assert!(code == Some(4) && text.contains("invalid peer certificate"), "{text}");
}

#[test]
fn a_new_authority_for_nodes_is_trusted_after_a_reload() {
    let (directory, authority, next) = (Directory::new(), Authority::new(), Authority::new());
    let mut node = TlsNode::start(&node_flags(&directory, &authority, "no"));
    let ca = directory.write("ca.crt", &authority.certificate);
    let list = node_list(std::slice::from_ref(&node));
    let proxy = Proxy::start(&[&list, "--node-tls", &format!("--node-tls-ca-cert-file={ca}"), "--port=0"]);
    let mut client = Client::connect(proxy.port);
    assert_eq!(client.ask("SET a 1"), "+OK\\r\\n");
    node.server.kill();
    let (port, tls_port) = (node.server.port, node.tls_port.to_string());
    let flags = node_flags(&directory, &next, "no");
    let all = ["--tls-port", &tls_port].into_iter().chain(flags.iter().map(String::as_str));
    node.server = RedisServer::try_start(port, &all.collect::<Vec<_>>()).expect("its ports are free again");
    let refused = "TLS: invalid peer certificate";
    poll_until(refused, || client.ask("GET a").contains(refused).then_some(()));
    directory.write("ca.crt", &next.certificate);
    proxy.signal("HUP");
    poll_until("the node is used again", || (client.ask("GET a") == "$-1\\r\\n").then_some(()));
}

#[test]
fn a_node_that_wants_a_certificate_of_ours_is_named_as_such() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let nodes = [TlsNode::start(&node_flags(&directory, &authority, "yes"))];
    let ca = format!("--node-tls-ca-cert-file={}", directory.path("node-ca.crt").display());
    let proxy = Proxy::start(&[&node_list(&nodes), "--node-tls", &ca, "--port=0"]);
    let reply = Client::connect(proxy.port).ask("SET a 1");
    assert!(reply.starts_with("-TRYAGAIN "), "{reply}");
    let reason = "TLS: the peer requires a client certificate";
    poll_until(reason, || proxy.output().contains(reason).then_some(()));
}

#[test]
fn files_that_are_of_no_use_are_one_line_and_exit_code_1() {
    let directory = Directory::new();
    let (one, other) = (Authority::new().sign(&["a.test"]), Authority::new().sign(&["b.test"]));
    let cert = directory.write("a.crt", &one.certificate);
    let (key, wrong) = (directory.write("a.key", &one.key), directory.write("b.key", &other.key));
    let cases = [
        (directory.path("none").display().to_string(), key.clone(), "--tls-cert-file"),
        (key, wrong.clone(), "BEGIN CERTIFICATE"),
        (cert, wrong, "do not fit"),
    ];
    for (cert, key, named) in cases {
        let flags = [format!("--tls-cert-file={cert}"), format!("--tls-key-file={key}")];
        let finished = run(shardis(&["--port=0", "--tls-port=1", &flags[0], &flags[1]]));
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains(named) && finished.stderr.lines().count() == 1, "{finished:?}");
    }
}
