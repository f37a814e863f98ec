//! Configuration files: the process runs as the file says, and faults are reported with their position.

use crate::harness::certificates::Directory;
use crate::harness::client::{Client, ReadError};
use crate::harness::http;
use crate::harness::local::Local;
use crate::harness::processes::{Finished, Process, Proxy, free_ports, run, shardis, shardis_binary};
use crate::harness::{RedisServer, poll_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// `shardis check` of the file at `path`.
fn check(path: &str) -> Finished {
    let mut command = shardis_binary();
    command.args(["check", path]);
    run(command)
}

/// `shardis proxy` with the invalid file at `path`.
fn refused_start(path: &str, flags: &[&str]) -> Finished {
    run(shardis(&[&[format!("--config={path}").as_str()], flags].concat()))
}

/// A process of the file at `path`, which listens.
pub(crate) fn started(path: &str) -> Process {
    let mut process = Process::spawn(shardis(&[&format!("--config={path}")]), "shardis proxy");
    poll_until("the line that says where it listens", || {
        assert!(process.ended().is_none(), "it ended instead: {}", process.output());
        process.output().contains(" listens on ").then_some(())
    });
    process
}

/// One process with a port of Redis and a listener of mode tcp.
struct Both {
    process: Process,
    nodes: [RedisServer; 3],
    redis: u16,
    tcp: u16,
    path: String,
    _directory: Directory,
}

impl Both {
    /// Two nodes have shards, the third gets bytes. The drain may take its time.
    fn start() -> Both {
        let nodes = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
        let [a, b, c] = nodes.each_ref().map(|node| node.port);
        let ports = free_ports(2);
        let (redis, tcp) = (ports[0], ports[1]);
        let directory = Directory::new();
        let text = format!(
            "nodes = [\"127.0.0.1:{a}\", \"127.0.0.1:{b}\"]\nport = {redis}\nworkers = 2\ndrain-timeout = 600
request-timeout-ms = 10_000\nconnect-timeout-ms = 10_000\n
[[listener]]\naddress = \"127.0.0.1:{tcp}\"\nmode = \"tcp\"\nnodes = [\"127.0.0.1:{c}\"]\nconnect-timeout-ms = 10_000\n"
        );
        let path = directory.write("shardis.toml", &text);
        Both { process: started(&path), nodes, redis, tcp, path, _directory: directory }
    }

    fn expect_log(&self, text: &str) {
        poll_until(text, || self.process.output().contains(text).then_some(()));
    }
}

#[test]
fn file_starts_redis_and_tcp_listeners_in_one_process() {
    let both = Both::start();
    let (redis, tcp) = (both.redis, both.tcp);
    both.expect_log(&format!("listens on 127.0.0.1:{redis}, 127.0.0.1:{tcp} (tcp) (2 workers each)"));
    both.expect_log("shards over 2 nodes");
    both.expect_log(&format!("passes bytes from 127.0.0.1:{tcp} to 1 node"));

    let (mut client, mut passed) = (Client::connect(redis), Client::connect(tcp));
    assert_eq!(client.ask("MSET a 1 b 2 c 3 d 4 e 5 f 6"), "+OK\\r\\n");
    assert_eq!(passed.ask("SET x 1"), "+OK\\r\\n");
    let counts = both.nodes.each_ref().map(|node| node.connect().ask("DBSIZE"));
    assert_eq!(counts[2], ":1\\r\\n", "bytes go to the third node alone: {counts:?}");
    assert_eq!((client.ask("EXISTS x"), client.ask("DBSIZE")), (":0\\r\\n".into(), ":6\\r\\n".into()));
    assert!(counts[..2].iter().all(|count| count != ":0\\r\\n"), "keys are on both others: {counts:?}");

    let said = check(&both.path);
    assert_eq!(said.code, Some(0), "it listens nowhere itself: {said:?}");
    let start = both.process.output();
    let place = start.lines().find_map(|line| line.split_once(" listens on ")).expect("a line").1;
    assert!(said.stdout.contains(place), "{place}\n{said:?}");
    assert!(said.stdout.contains("reads from primary"), "{said:?}");
}

#[test]
fn sigterm_drains_both_modes_and_a_hang_up_ends_neither() {
    let mut both = Both::start();
    let (mut client, mut passed) = (Client::connect(both.redis), Client::connect(both.tcp));
    assert_eq!((client.ask("PING"), passed.ask("PING")), ("+PONG\\r\\n".into(), "+PONG\\r\\n".into()));
    both.process.signal("HUP");
    both.expect_log("reload skipped");
    assert_eq!((client.ask("PING"), passed.ask("PING")), ("+PONG\\r\\n".into(), "+PONG\\r\\n".into()));
    both.process.signal("TERM");
    // No request of it is in flight: shardis closes it. A client of mode tcp may stay until it leaves.
    client.expect_eof();
    assert!(Client::try_connect(both.redis).is_none() && Client::try_connect(both.tcp).is_none());
    assert_eq!(passed.ask("PING"), "+PONG\\r\\n");
    assert!(both.process.ended().is_none(), "somebody is there");
    drop(passed);
    let status = poll_until("its end", || both.process.ended());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_file_of_listeners_of_mode_tcp_opens_no_port_of_redis() {
    let node = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = node.local_addr().expect("bound").port();
    let ports = free_ports(2);
    let listener = |port: u16| {
        format!(
            "[[listener]]\naddress = '127.0.0.1:{port}'\nmode = 'tcp'\nnodes = '127.0.0.1:{target}'\ncheck = 'off'\n"
        )
    };
    let directory = Directory::new();
    let text = format!("workers = 1\n{}{}", listener(ports[0]), listener(ports[1]));
    let path = directory.write("tcp.toml", &text);
    let process = started(&path);
    poll_until("its first line", || {
        let line =
            format!("listens on 127.0.0.1:{} (tcp), 127.0.0.1:{} (tcp) (1 worker each)", ports[0], ports[1]);
        process.output().contains(&line).then_some(())
    });
    for port in ports {
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        client.write_all(b"anything").expect("it is taken");
        let (mut stream, _) = node.accept().expect("it is passed on");
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes).expect("so much comes");
        assert_eq!(&bytes, b"anything");
    }
    let no_use = refused_start(&path, &["--nodes=127.0.0.1:1"]);
    assert_eq!(no_use.code, Some(1), "{no_use:?}");
    assert!(no_use.stderr.contains("--nodes has no effect"), "{no_use:?}");
}

#[test]
fn a_value_may_come_from_the_environment() {
    let directory = Directory::new();
    let port = free_ports(1)[0];
    let text = format!("port = \"{port}\"\nworkers = 1\nrequirepass = \"a-${{SHARDIS_TEST_SECRET}}\"\n");
    let path = directory.write("shardis.toml", &text);
    let unset = check(&path);
    assert_eq!(unset.code, Some(1), "{unset:?}");
    let expected =
        "shardis.toml:3:15: requirepass: the environment variable SHARDIS_TEST_SECRET is not set; ";
    assert!(unset.stderr.contains(expected), "{unset:?}");
    assert!(refused_start(&path, &[]).stderr.contains(expected));

    let mut command = shardis(&[&format!("--config={path}")]);
    command.env("SHARDIS_TEST_SECRET", "xyzzy");
    let process = Process::spawn(command, "shardis proxy");
    let mut client = poll_until("it listens", || Client::try_connect(port));
    assert!(client.ask("AUTH a-${SHARDIS_TEST_SECRET}").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("AUTH a-xyzzy"), "+OK\\r\\n");
    assert!(!process.output().contains("xyzzy"), "{}", process.output());
}

#[test]
fn a_cluster_is_found_by_a_file() {
    let local = Local::start(&["--cluster=3"]);
    let directory = Directory::new();
    let seeds: Vec<String> = local.ports("nodes").iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
    let path = directory.write("cluster.toml", &format!("cluster = [{}]\nport = 1\n", seeds.join(", ")));
    // The port of the command line, which needs no root.
    let proxy = Proxy::start(&[&format!("--config={path}"), "--port=0"]);
    let mut client = Client::connect(proxy.port);
    for key in ["a", "b", "c", "d"] {
        poll_until("an answer", || (client.ask(&format!("SET {key} x")) == "+OK\\r\\n").then_some(()));
    }
    assert_eq!(client.ask("DBSIZE"), ":4\\r\\n");
    assert!(proxy.output().contains("shards as the cluster says"), "{}", proxy.output());
}

#[test]
fn the_command_line_wins_and_conflicts_are_reported() {
    let (node, other) = (RedisServer::start(), RedisServer::start());
    let directory = Directory::new();
    let text = format!("nodes = '127.0.0.1:{}'\nport = 99\ntimeout = 1\nlog-level = 'error'\n", node.port);
    let path = directory.write("shardis.toml", &text);
    let config = format!("--config={path}");
    let proxy =
        Proxy::start(&[&config, &format!("--nodes=127.0.0.1:{}", other.port), "--port=0", "--timeout=0"]);
    assert_eq!(Client::connect(proxy.port).ask("SET a 1"), "+OK\\r\\n");
    assert_eq!(other.connect().ask("DBSIZE"), ":1\\r\\n");
    assert_eq!(node.connect().ask("DBSIZE"), ":0\\r\\n");

    let finished = refused_start(&path, &["--cluster=127.0.0.1:1"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let expected = format!("shardis: {path}:1:1: nodes excludes --cluster of the command line");
    assert!(finished.stderr.starts_with(&expected), "{finished:?}");
    // Faults of the command line itself are reported as without a file.
    for (flags, named) in
        [(&["--port=x"][..], "--port"), (&["--nonsense"], "--nonsense"), (&[&config], "--config")]
    {
        let finished = refused_start(&path, flags);
        assert_eq!((finished.code, finished.stderr.lines().count()), (Some(2), 1), "{finished:?}");
        assert!(finished.stderr.contains(named), "{finished:?}");
    }
}

#[test]
fn check_and_start_say_the_same_of_a_broken_file() {
    let directory = Directory::new();
    let text = "nodes = [\n  '127.0.0.1:6379',\n  '127.0.0.1',\n]\nread_from = 'any'\nport = 99999\n[[listener]]\nmode = 'tcp'\n";
    let path = directory.write("broken.toml", text);
    let expected = [
        "5:1: read_from: there is no such key; did you mean read-from?",
        "6:8: port \"99999\": write a number from 0 to 65535",
        "7:1: this listener needs an address as well, as in address = \"127.0.0.1:6381\"",
    ];
    let expected = expected.map(|line| format!("{path}:{line}\n"));
    let checked = check(&path);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(1), ""), "{checked:?}");
    assert_eq!(checked.stderr, expected.concat());
    let start = refused_start(&path, &[]);
    assert_eq!(start.code, Some(1), "{start:?}");
    assert_eq!(start.stderr, expected.map(|line| format!("shardis: {line}")).concat());
}

#[test]
fn a_busy_address_is_reported_with_its_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let directory = Directory::new();
    let place = format!("cannot listen on 127.0.0.1:{port}: the port is in use; choose another with");
    let cases = [
        (format!("timeout = 1\nport = {port}\n"), "2:8", "port"),
        (format!("port = 0\n[[listener]]\naddress = '127.0.0.1:{port}'\n"), "3:11", "listener"),
        (
            format!(
                "port = 0\n[[listener]]\nmode = 'tcp'\nnodes = '127.0.0.1:1'\naddress = '127.0.0.1:{port}'\n"
            ),
            "5:11",
            "address",
        ),
    ];
    for (text, at, key) in cases {
        let path = directory.write("busy.toml", &text);
        let finished = refused_start(&path, &[]);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert_eq!(finished.stderr, format!("shardis: {path}:{at}: {place} {key}\n"));
        assert_eq!(check(&path).code, Some(0), "check listens nowhere");
    }
}

#[test]
fn an_unreadable_file_is_reported_in_one_line() {
    let directory = Directory::new();
    let folder = directory.path("").to_str().expect("text").to_owned();
    let binary = directory.path("binary");
    std::fs::write(&binary, b"port = 1\n\xff").expect("a file");
    let large = directory.write("large", &"# nothing\n".repeat(200_000));
    let cases = [
        (folder.as_str(), "the path is a directory; name a file"),
        ("/nowhere/shardis.toml", "the file does not exist"),
        (binary.to_str().expect("text"), ":2:1: the byte 0xff is not UTF-8"),
        (&large, "more than 1048576 bytes"),
        ("/dev/zero", "more than 1048576 bytes"),
    ];
    for (path, named) in cases {
        for finished in [check(path), refused_start(path, &[])] {
            assert_eq!(finished.code, Some(1), "{finished:?}");
            assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
            assert!(finished.stderr.contains(path) && finished.stderr.contains(named), "{finished:?}");
        }
    }
    let empty = directory.write("empty.toml", "");
    assert_eq!(check(&empty).code, Some(0), "all defaults");
    let proxy = Proxy::start(&[&format!("--config={empty}"), "--port=0"]);
    assert_eq!(Client::connect(proxy.port).ask("SET a 1"), "+OK\\r\\n");
}

#[test]
fn a_listener_of_mode_tcp_has_limits_of_its_own() {
    let node = RedisServer::start();
    let ports = free_ports(2);
    let directory = Directory::new();
    let text = format!(
        "port = {}\n[[listener]]\naddress = '127.0.0.1:{}'\nmode = 'tcp'\nnodes = '127.0.0.1:{}'\nmaxclients = 1\n",
        ports[0], ports[1], node.port
    );
    let process = started(&directory.write("limits.toml", &text));
    let mut first = Client::connect(ports[1]);
    assert_eq!(first.ask("PING"), "+PONG\\r\\n");
    let mut second = Client::connect(ports[1]);
    assert!(matches!(second.try_read_reply(), Err(ReadError::Closed { .. } | ReadError::Reset)));
    let of_redis: Vec<Client> = (0..4).map(|_| Client::connect(ports[0])).collect();
    for mut client in of_redis {
        assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    }
    let line = format!("listener=\"127.0.0.1:{}\"", ports[1]);
    poll_until("the log to say at which listener", || {
        process
            .output()
            .lines()
            .any(|said| said.contains("clients refused") && said.contains(&line))
            .then_some(())
    });
}

/// One process with two pools of one node each.
struct Pools {
    process: Process,
    nodes: [RedisServer; 2],
    ports: Vec<u16>,
    path: String,
    _directory: Directory,
}

impl Pools {
    fn start() -> Pools {
        let nodes = [RedisServer::start(), RedisServer::start()];
        let [a, b] = nodes.each_ref().map(|node| node.port);
        let (ports, directory) = (free_ports(2), Directory::new());
        let text = format!(
            "workers = 1\nrequest-timeout-ms = 10_000\nconnect-timeout-ms = 10_000\n
[[pool]]\nname = \"orders\"\nnodes = [\"127.0.0.1:{a}\"]\nport = {}\nrequirepass = \"hush\"\n
[[pool]]\nname = \"carts\"\nnodes = [\"127.0.0.1:{b}\"]\nport = 0\n[[pool.listener]]\naddress = \"127.0.0.1:{}\"\n",
            ports[0], ports[1]
        );
        let path = directory.write("shardis.toml", &text);
        Pools { process: started(&path), nodes, ports, path, _directory: directory }
    }

    fn expect_log(&self, text: &str) {
        poll_until(text, || self.process.output().contains(text).then_some(()));
    }
}

#[test]
fn pools_of_one_process_share_neither_keys_nor_users() {
    let pools = Pools::start();
    let (mut orders, mut carts) = (Client::connect(pools.ports[0]), Client::connect(pools.ports[1]));
    assert_eq!(orders.ask("GET k"), "-NOAUTH Authentication required.\\r\\n");
    assert_eq!(orders.ask("AUTH hush"), "+OK\\r\\n");
    assert_eq!((orders.ask("SET k 1"), carts.ask("SET k 2")), ("+OK\\r\\n".into(), "+OK\\r\\n".into()));
    assert_eq!(
        (orders.ask("GET k"), carts.ask("GET k")),
        ("$1\\r\\n1\\r\\n".into(), "$1\\r\\n2\\r\\n".into())
    );
    let of_nodes = pools.nodes.each_ref().map(|node| node.connect().ask("GET k"));
    assert_eq!(of_nodes, ["$1\\r\\n1\\r\\n", "$1\\r\\n2\\r\\n"]);
    assert_eq!(carts.ask("CLIENT LIST").matches(" addr=").count(), 1, "the clients of a pool are its own");
}

#[test]
fn log_lines_name_the_pool_and_its_dead_node_harms_no_other() {
    let mut pools = Pools::start();
    let mut carts = Client::connect(pools.ports[1]);
    assert_eq!(carts.ask("SET k 2"), "+OK\\r\\n");
    pools.nodes[0].kill();
    poll_until("the node of the pool orders is down", || {
        let output = pools.process.output();
        output.lines().any(|line| line.contains("orders") && line.contains("node down")).then_some(())
    });
    assert_eq!(carts.ask("GET k"), "$1\\r\\n2\\r\\n");
    pools.expect_log("pool carts: shards over 1 node");
}

#[test]
fn one_pool_of_a_file_is_served_alone() {
    let pools = Pools::start();
    let port = free_ports(1)[0];
    let flags = [format!("--config={}", pools.path), "--pool=carts".to_owned(), format!("--port={port}")];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let refusal = run(shardis(&flags));
    assert!(refusal.stderr.contains("the port is in use"), "its listener is in use: {}", refusal.stderr);
    let listener = format!("--listener=127.0.0.1:{port}");
    let mut process = Process::spawn(shardis(&[flags[0], flags[1], &listener]), "shardis proxy");
    poll_until("the line that says where it listens", || {
        assert!(process.ended().is_none(), "it ended instead: {}", process.output());
        process.output().contains(&format!(" listens on 127.0.0.1:{port} (1 worker)")).then_some(())
    });
    assert_eq!(Client::connect(port).ask("SET x 1"), "+OK\\r\\n");
    assert_eq!(pools.nodes[1].connect().ask("EXISTS x"), ":1\\r\\n");
}

#[test]
fn explain_asks_for_the_pool_of_a_file_with_several() {
    let pools = Pools::start();
    let explain = |flags: &[&str]| {
        let mut command = shardis_binary();
        let config = format!("--config={}", pools.path);
        command.args(["explain", &config]).args(flags).args(["--", "GET", "k"]);
        run(command)
    };
    let refusal = explain(&[]);
    assert!(refusal.stderr.contains("name one with --pool=NAME: orders, carts"), "{}", refusal.stderr);
    let explained = explain(&["--pool=carts"]);
    assert!(explained.stdout.contains(&pools.nodes[1].port.to_string()), "{}", explained.stdout);
}

#[test]
fn one_admin_listener_shows_all_pools() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let (ports, directory) = (free_ports(3), Directory::new());
    let text = format!(
        "admin = {}
[[pool]]\nname = \"orders\"\nnodes = [\"127.0.0.1:{}\"]\nport = {}
[[pool]]\nname = \"carts\"\nnodes = [\"127.0.0.1:{}\"]\nport = {}\nadmin = 0\n",
        ports[0], nodes[0].port, ports[1], nodes[1].port, ports[2]
    );
    let path = directory.write("shardis.toml", &text);
    let mut process = started(&path);
    poll_until("both listeners", || {
        assert!(process.ended().is_none(), "it ended instead: {}", process.output());
        let said = process.output();
        (said.contains("admin of all pools at ") && said.contains("pool carts: admin at ")).then_some(())
    });
    let mut client = poll_until("the pool carts", || Client::try_connect(ports[2]));
    for _ in 0..7 {
        client.ask("GET k");
    }
    let get = |path: &str| http::get(ports[0], path);
    assert_eq!(get("/pools").body, "[\"orders\",\"carts\"]");
    poll_until("the requests of carts in its metrics", || {
        let metrics = get("/metrics").body;
        assert_eq!(metrics.matches("# TYPE shardis_requests_total ").count(), 1, "{metrics}");
        let has = |line: &str| metrics.lines().any(|other| other == line);
        let of = |pool: &str| format!("shardis_requests_total{{pool=\"{pool}\",command=\"get\"}}");
        (has(&format!("{} 7", of("carts"))) && !metrics.contains(&of("orders"))).then_some(())
    });
    let name_in = |path: &str| get(path).body.contains(&nodes[1].port.to_string());
    assert!(name_in("/topology?pool=carts") && !name_in("/topology?pool=orders") && !name_in("/topology"));
    assert!(get("/history?after=0&pool=carts").status == 200 && get("/status?pool=none").status == 404);
    poll_until("all pools are ready", || (get("/readyz").status == 200).then_some(()));
    let mut top = shardis_binary();
    top.args(["top", &ports[0].to_string(), "--once", "--json", "--pool=carts"]);
    let top = run(top);
    assert!(top.stdout.contains(&nodes[1].port.to_string()), "{} {}", top.stdout, top.stderr);
    let [mut first, _second] = nodes;
    first.kill();
    poll_until("a pool is not ready", || {
        let answer = get("/readyz");
        (answer.status == 503 && answer.body.starts_with("pool orders: ")).then_some(())
    });
}
