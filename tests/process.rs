//! The program as its operator meets it: arguments, start, signals, end, and output.

use crate::harness::client::{Client, ReadError};
use crate::harness::processes::{Finished, Process, free_port, run, shardis, shardis_binary};
use crate::harness::{Proxy, RedisServer, World, kernel, poll_until};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn redis_sharding_flags_work_with_equals_and_blank() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let list = format!("127.0.0.1:{},127.0.0.1:{}", nodes[0].port, nodes[1].port);
    let with_equals = [
        &format!("--nodes={list}"),
        "--host=127.0.0.1",
        "--port=0",
        "--timeout=300",
        "--N=2",
        "--SO_REUSEPORT=1",
    ];
    let with_blanks = [
        "--nodes",
        &list,
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--timeout",
        "300",
        "--N",
        "2",
        "--SO_REUSEPORT",
        "1",
    ];
    let with_names = [
        &format!("--nodes={list}"),
        "--host=127.0.0.1",
        "--port=0",
        "--workers=1",
        "--distribution=modulo",
        "--hash=crc32a",
        "--tag-rule=sml",
        "--drain-timeout=1",
        "--connect-timeout-ms=10000",
        "--request-timeout-ms=10000",
    ];
    for flags in [&with_equals[..], &with_blanks, &with_names] {
        let proxy = Proxy::start(flags);
        let mut client = Client::connect(proxy.port);
        assert_eq!(client.ask("MSET a 1 b 2 c 3 d 4"), "+OK\\r\\n", "{flags:?}");
        assert_eq!(client.ask("DBSIZE"), ":4\\r\\n", "{flags:?}");
    }
}

#[test]
fn bad_arguments_are_refused_in_one_line_that_names_them() {
    let nodes = "--nodes=127.0.0.1:7001,127.0.0.1:7002";
    let cases: &[(&[&str], &str)] = &[
        (&[nodes, "--store-shards=2"], "--store-shards"),
        (&["--store-shards=0"], "--store-shards"),
        (&["--store-memory=lots"], "--store-memory"),
        (&["--nodes="], "--nodes"),
        (&["--nodes=127.0.0.1"], "127.0.0.1"),
        (&["--nodes=127.0.0.1:99999"], "99999"),
        (&["--nodes=127.0.0.1:x"], "127.0.0.1:x"),
        (&["--nodes=127.0.0.1:7001,,127.0.0.1:7002"], "--nodes"),
        (&["--nodes=127.0.0.1:7001,127.0.0.1:7001"], "127.0.0.1:7001"),
        (&["--nodes"], "--nodes"),
        (&[nodes, "--port=99999"], "99999"),
        (&[nodes, "--port=x"], "--port"),
        (&[nodes, "--port"], "--port"),
        (&[nodes, "--workers=many"], "write a number"),
        (&[nodes, "--N=-1"], "-1"),
        (&[nodes, "--reuse-port=yes"], "--reuse-port"),
        (&[nodes, "--timeout=-1"], "--timeout"),
        (&[nodes, "--distribution=rendezvous"], "rendezvous"),
        (&[nodes, "--hash=sha1"], "sha1"),
        (&[nodes, "--tag-rule=abc"], "abc"),
        (&[nodes, "--drain-timeout=soon"], "--drain-timeout"),
        (&[nodes, "--request-timeout-ms=1s"], "--request-timeout-ms"),
        (&[nodes, "--request-timeout-ms=0"], "--request-timeout-ms"),
        (&[nodes, "--connect-timeout-ms=0"], "--connect-timeout-ms"),
        (&[nodes, "--busy-poll=1000001"], "write microseconds up to 1000000"),
        (&[nodes, "--no-such-flag"], "--no-such-flag"),
        (&[nodes, "nonsense"], "nonsense"),
        (&[nodes, "--port=1", "--port=2"], "--port"),
    ];
    for (flags, named) in cases {
        let finished = run(shardis(flags));
        assert_eq!(finished.code, Some(2), "{flags:?}: {finished:?}");
        assert_one_line(&finished, named);
    }
    let mut command = shardis_binary();
    command.arg("prxy");
    let finished = run(command);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert_one_line(&finished, "'prxy'");
    assert!(finished.stderr.contains("(see shardis --help)"), "there is no page for what there is not");
}

#[test]
fn words_of_other_programs_and_slips_are_explained() {
    let cases: &[(&[&str], &str)] = &[
        (&["--nodes=a:1"], "--nodes: flags stand behind a subcommand, as in shardis proxy --nodes"),
        (&["--balance=x"], "as in shardis tcp --balance"),
        (&["proxy", "--bind=x"], "--bind: write --host and --port"),
        (&["proxy", "--listen=x"], "--listen: write --host and --port"),
        (&["proxy", "--auto_eject_hosts"], "--auto_eject_hosts: write --on-node-down=remap"),
        (&["proxy", "--nodes=redis://a:1"], "a node is host:port, as in 127.0.0.1:6379, and no URL"),
        (&["reshard"], "'reshard'"),
    ];
    for (words, told) in cases {
        let mut command = shardis_binary();
        command.args(*words);
        let finished = run(command);
        assert_eq!(finished.code, Some(2), "{words:?}: {finished:?}");
        assert_one_line(&finished, told);
        assert!(!finished.stderr.contains("die-with-parent"), "it is no command for people: {finished:?}");
    }
}

#[test]
fn listeners_and_shared_ports_have_the_same_words_everywhere() {
    let listener = format!("--listener=127.0.0.1:{}", free_port());
    let mut command = shardis_binary();
    command.args(["tcp", &listener, "--SO_REUSEPORT=1", "--nodes=127.0.0.1:1", "--check=off"]);
    let passing = Process::spawn(command, "shardis tcp");
    poll_until("it to listen", || passing.output().contains("listens on").then_some(()));
    let proxy = Proxy::start(&["--port=0", "--reuse-port"]);
    assert_eq!(Client::connect(proxy.port).ask("PING"), "+PONG\\r\\n");
}

#[test]
fn help_and_version_are_no_errors() {
    for (word, expected) in [("help", "proxy"), ("--version", "shardis 0.")] {
        let mut command = shardis_binary();
        command.arg(word);
        let finished = run(command);
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
        assert!(finished.stdout.contains(expected), "{finished:?}");
    }
    let mut command = shardis_binary();
    command.arg("--version");
    let version = run(command).stdout;
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short=12", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let head = git.output().ok().filter(|output| output.status.success());
    let has_commit = version.trim_end().ends_with(')') && version.contains(" (");
    assert_eq!(has_commit, head.is_some(), "{version}");
    for (flag, expected) in [("--help", "--nodes"), ("--help", "--distribution"), ("-h", "--port")] {
        let finished = run(shardis(&[flag]));
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(finished.stdout.contains(expected) && finished.stderr.is_empty(), "{finished:?}");
    }
}

#[test]
fn a_busy_port_is_one_line_and_exit_code_1() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
    let port = taken.local_addr().expect("a bound socket has an address").port();
    let finished = run(shardis(&["--nodes=127.0.0.1:7001", "--host=127.0.0.1", &format!("--port={port}")]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_one_line(&finished, &port.to_string());
}

#[test]
fn a_host_that_is_not_ours_is_one_line_and_exit_code_1() {
    let finished = run(shardis(&["--nodes=127.0.0.1:7001", "--host=192.0.2.1", "--port=0"]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_one_line(&finished, "192.0.2.1");
}

#[test]
fn the_start_names_its_listeners_and_nodes() {
    let world = World::with_shards(3);
    poll_until("all nodes to be named", || {
        let output = world.proxy.output();
        (0..3).all(|shard| output.contains(&world.shard_name(shard))).then_some(())
    });
    let output = world.proxy.output();
    let first = output.lines().next().expect("it said something");
    assert!(first.starts_with("shardis ") && first.contains(" listens on 127.0.0.1:"), "{output}");
    assert!(output.contains("modulo") && output.contains("crc32a") && output.contains("sml"), "{output}");
    assert!(output.lines().count() <= 4, "a start is a few lines:\n{output}");
}

#[test]
fn sigterm_answers_requests_in_flight_and_exits_with_0() {
    for signal in ["TERM", "INT"] {
        let mut world = World::with_shards(2);
        let (mut waiting, mut idle) = (world.connect(), world.connect());
        let key = world.key_on(0, "k");
        assert_eq!(waiting.ask(&format!("SET {key} held")), "+OK\\r\\n");
        assert_eq!(idle.ask("PING"), "+PONG\\r\\n");
        world.nodes[0].freeze();
        waiting.send(format!("GET {key}\r\nSTRLEN {key}\r\n").as_bytes());
        wait_for_request_at(&world.nodes[0]);
        world.proxy.signal(signal);
        idle.expect_eof();
        assert!(Client::try_connect(world.proxy.port).is_none(), "a draining proxy takes no new clients");
        assert!(world.proxy.ended().is_none(), "something is in flight");
        world.nodes[0].thaw();
        assert_eq!(waiting.read_reply(), b"$4\r\nheld\r\n");
        assert_eq!(waiting.read_reply(), b":4\r\n");
        waiting.expect_eof();
        assert_eq!(world.proxy.wait().code(), Some(0), "after SIG{signal}");
    }
}

#[test]
fn sigterm_of_an_idle_proxy_ends_it_at_once() {
    let mut world = World::with_flags(2, &["--drain-timeout=600"]);
    let mut client = world.connect();
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    world.proxy.signal("TERM");
    client.expect_eof();
    // The proxy waits for nothing: tests do not wait for ten minutes.
    assert_eq!(world.proxy.wait().code(), Some(0));
}

#[test]
fn sigusr1_ends_nothing() {
    let world = World::with_shards(1);
    let mut client = world.connect();
    for lines in 1..=2 {
        world.proxy.signal("USR1");
        poll_until("the log to tell of it", || {
            (world.proxy.output().matches("signal ignored").count() == lines).then_some(())
        });
        assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    }
}

#[test]
fn maxclients_holds_over_all_workers_and_the_log_tells() {
    let proxy = Proxy::start(&["--port=0", "--workers=3", "--maxclients=5"]);
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(proxy.port)).collect();
    let answered = |clients: &mut Vec<Client>| {
        clients.retain_mut(|client| client.try_command(&[b"PING"]).is_ok_and(|reply| reply == b"+PONG\r\n"));
        clients.len()
    };
    assert_eq!(answered(&mut clients), 5);
    poll_until("the log to tell of them", || {
        let output = proxy.output();
        let is_told = |line: &str| line.contains("clients refused") && line.contains("maxclients=5");
        output.lines().any(is_told).then_some(())
    });
    // Their places are free for others, of whichever worker.
    clients.truncate(2);
    let mut more = poll_until("three places", || {
        let mut more: Vec<Client> = (0..3).map(|_| Client::connect(proxy.port)).collect();
        (answered(&mut more) == 3).then_some(more)
    });
    assert_eq!((answered(&mut clients), answered(&mut more)), (2, 3));
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut world = World::with_flags(1, &["--request-timeout-ms=600000", "--drain-timeout=600"]);
    let mut client = hold_a_request(&world);
    world.proxy.signal("TERM");
    wait_until_draining(&world.proxy);
    assert!(world.proxy.ended().is_none(), "the first signal waits");
    world.proxy.signal("TERM");
    // Tests do not wait for ten minutes.
    world.proxy.wait();
    assert!(matches!(client.try_read_reply(), Err(ReadError::Closed { .. } | ReadError::Reset)));
}

#[test]
fn a_drain_ends_when_its_time_is_over() {
    let mut world = World::with_flags(1, &["--request-timeout-ms=600000", "--drain-timeout=1"]);
    let _client = hold_a_request(&world);
    let asked = Instant::now();
    world.proxy.signal("TERM");
    world.proxy.wait();
    let took = asked.elapsed();
    assert!(took >= Duration::from_millis(900), "it took {took:?}");
}

#[test]
fn a_drain_under_load_fails_no_request_that_was_read() {
    let mut world = World::with_shards(4);
    let threads: Vec<_> = (0..4)
        .map(|id| {
            let mut client = world.connect();
            std::thread::spawn(move || {
                let mut acknowledged = 0;
                // One request at a time: each gets its reply, or the connection ends before it is read.
                while let Ok(reply) = client.try_command(&[b"INCR", format!("load:{id}").as_bytes()]) {
                    acknowledged += 1;
                    assert_eq!(reply, format!(":{acknowledged}\r\n").as_bytes(), "client {id}");
                }
                acknowledged
            })
        })
        .collect();
    let mut onlooker = world.connect();
    poll_until("some load", || {
        onlooker.ask("EXISTS load:0 load:1 load:2 load:3").starts_with(":4").then_some(())
    });
    world.proxy.signal("TERM");
    let counts: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(world.proxy.wait().code(), Some(0));
    let mut stored = 0;
    for node in &world.nodes {
        let mut direct = node.connect();
        for id in 0..4 {
            let reply = direct.command(&[b"GET", format!("load:{id}").as_bytes()]);
            let count = resp::reply::as_bulk(&reply)
                .map(|text| String::from_utf8_lossy(text).parse::<u64>().unwrap());
            stored += count.unwrap_or(0);
        }
    }
    // Requests that were read got their replies. A request under way when the connection ended was not run.
    assert_eq!(stored, counts.iter().sum::<u64>());
}

#[test]
fn quit_is_answered_and_nothing_behind_it_runs() {
    let world = World::with_shards(2);
    let mut client = world.connect();
    client.send(b"SET before 1\r\nQUIT\r\nSET behind 1\r\n");
    assert_eq!(client.read_reply(), b"+OK\r\n");
    assert_eq!(client.read_reply(), b"+OK\r\n");
    client.expect_eof();
    assert_eq!(world.connect().ask("EXISTS before behind"), ":1\\r\\n");
}

#[test]
fn the_log_shows_no_data_of_clients() {
    let mut world = World::with_flags(2, &["--request-timeout-ms=200"]);
    let mut client = world.connect();
    let key = world.key_on(0, "topsecretkey");
    client.ask(&format!("SET {key} topsecretvalue"));
    client.ask(&format!("LPUSH {key} topsecretvalue"));
    client.ask("TOPSECRETCOMMAND topsecretvalue");
    client.ask("AUTH topsecretpassword");
    client.ask("AUTH topsecretuser topsecretpassword");
    client.ask("CLIENT SETNAME topsecretname");
    client.ask(&format!("EVAL topsecretscript 1 {key}"));
    client.send(b"*2\r\n$3\r\nGET\r\n$topsecret\r\n");
    client.read_reply();
    world.connect().send(b"topsecret \"unbalanced\r\n");
    world.connect().send_if_open(b"POST /topsecret HTTP/1.1\r\nHost: topsecret\r\n\r\n");
    let mut client = world.connect();
    world.nodes[0].freeze();
    client.ask(&format!("GET {key}"));
    world.nodes[0].thaw();
    world.nodes[0].kill();
    client.ask(&format!("SET {key} topsecretvalue"));
    world.proxy.signal("TERM");
    world.proxy.wait();
    let output = world.proxy.output().to_lowercase();
    assert!(!output.contains("topsecret"), "{output}");
}

#[test]
fn two_workers_serve_many_clients() {
    serve_many_clients(&World::with_flags(4, &["--workers=2"]));
}

#[test]
fn busy_polling_workers_serve_and_sleep_when_idle() {
    let world = World::with_flags(4, &["--workers=2", "--busy-poll=2000"]);
    serve_many_clients(&world);
    poll_until("sleep", || kernel::is_asleep(world.proxy.pid()).then_some(()));
    serve_many_clients(&world);
}

fn serve_many_clients(world: &World) {
    let mut clients: Vec<Client> = (0..200).map(|_| world.connect()).collect();
    for round in 0..5 {
        for (id, client) in clients.iter_mut().enumerate() {
            client.send(
                format!("SET many:{id} {round}\r\nGET many:{id}\r\nMGET many:{id} nosuch\r\n").as_bytes(),
            );
        }
        for client in &mut clients {
            assert_eq!(client.read_reply(), b"+OK\r\n");
            assert_eq!(client.read_reply(), format!("$1\r\n{round}\r\n").as_bytes());
            assert_eq!(client.read_reply(), format!("*2\r\n$1\r\n{round}\r\n$-1\r\n").as_bytes());
        }
    }
    assert_eq!(clients[0].ask("DBSIZE"), ":200\\r\\n");
    let connections: usize = world
        .nodes
        .iter()
        .map(|node| node.connect().ask("CLIENT LIST TYPE normal").matches("id=").count() - 1)
        .sum();
    assert!(connections <= 2 * world.nodes.len(), "{connections} connections of two workers to four nodes");
}

#[test]
fn several_processes_share_a_port_with_reuse_port() {
    let node = RedisServer::start();
    let port = free_port();
    let (nodes, port_flag) = (format!("--nodes=127.0.0.1:{}", node.port), format!("--port={port}"));
    let flags = [&nodes, "--host=127.0.0.1", &port_flag, "--SO_REUSEPORT=1"];
    let proxies = [Proxy::start(&flags), Proxy::start(&flags)];
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(port)).collect();
    for client in &mut clients {
        assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    }
    drop(proxies);
}

/// A client whose request waits at the first node, which is frozen.
fn hold_a_request(world: &World) -> Client {
    let mut client = world.connect();
    assert_eq!(client.ask("SET k v"), "+OK\\r\\n");
    world.nodes[0].freeze();
    client.send(b"GET k\r\n");
    wait_for_request_at(&world.nodes[0]);
    client
}

/// Waits until bytes of a request lie in the socket of a frozen node: it is in flight.
fn wait_for_request_at(node: &RedisServer) {
    poll_until("the request to arrive at the frozen node", || {
        (kernel::unread_bytes_of_all(node.port) > 0).then_some(())
    });
}

fn wait_until_draining(proxy: &Proxy) {
    poll_until("the proxy to take no new clients", || {
        Client::try_connect(proxy.port).is_none().then_some(())
    });
}

#[track_caller]
fn assert_one_line(finished: &Finished, named: &str) {
    let Finished { stdout, stderr, .. } = finished;
    assert_eq!(stderr.lines().count(), 1, "one line on stderr, not: {stderr}");
    assert!(stderr.contains(named), "the line names {named:?}: {stderr}");
    assert!(stdout.is_empty(), "nothing on stdout: {stdout}");
}

#[test]
fn a_hang_up_ends_nothing() {
    let proxy = Proxy::start(&["--port=0"]);
    let nodes = [RedisServer::start()];
    let over_nodes = Proxy::over(&nodes, &[]);
    for proxy in [proxy, over_nodes] {
        proxy.signal("HUP");
        poll_until("the log to say so", || proxy.output().contains("reload skipped").then_some(()));
        assert_eq!(Client::connect(proxy.port).ask("PING"), "+PONG\\r\\n");
    }
}

#[test]
fn a_closed_stderr_ends_nothing() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let port = free_port();
    let program = shardis(&[&format!("--port={port}"), "--log-level=debug"]);
    let mut command = Command::new(program.get_program());
    let mut proxy = command.args(program.get_args()).stderr(writer).spawn().expect("shardis can be started");
    let mut client = poll_until("the proxy to listen", || Client::try_connect(port));
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    let told = Command::new("kill").arg(proxy.id().to_string()).status();
    assert!(told.is_ok_and(|status| status.success()));
    let ended = poll_until("the proxy to end", || proxy.try_wait().expect("it is our child"));
    assert!(ended.success(), "{ended:?}");
}
