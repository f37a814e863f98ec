//! Nodes whose address must be a mistake: nodes of a Redis Cluster, replicas, shardis itself. The proxy must report them.

use crate::harness::processes::{Process, Proxy, free_port, shardis};
use crate::harness::{Client, RedisServer, poll_until, shard_of};

fn expect_log(proxy: &Proxy, texts: &[&str]) {
    poll_until("the log to tell of it", || {
        let output = proxy.output();
        output.lines().any(|line| texts.iter().all(|text| line.contains(text))).then_some(())
    });
}

#[test]
fn a_node_of_a_cluster_is_refused_under_nodes() {
    let node = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let proxy = Proxy::over_ports(&[node.port], &["--workers=3"]);
    let told = "it is a node of a Redis Cluster; name it with --cluster, not --nodes";
    expect_log(&proxy, &["ERROR", "node refused", told]);
    let reply = Client::connect(proxy.port).ask("SET a 1");
    assert!(reply.starts_with("-TRYAGAIN ") && reply.contains(told), "{reply}");
}

#[test]
fn a_replica_named_as_a_primary_is_reported_and_read_from() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    let mut direct = replica.connect();
    assert_eq!(direct.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port)), "+OK\\r\\n");
    let proxy = Proxy::over_ports(&[replica.port], &["--workers=3"]);
    let of = format!("primary=\"127.0.0.1:{}\"", primary.port);
    expect_log(&proxy, &["WARN", "node read-only", &of]);
    let mut client = Client::connect(proxy.port);
    assert!(client.ask("SET a 1").starts_with("-READONLY "));
    assert_eq!(client.ask("EXISTS a"), ":0\\r\\n");
    // One line, though three workers have connected.
    assert_eq!(proxy.output().matches("node read-only").count(), 1, "{}", proxy.output());

    assert_eq!(direct.ask("CONFIG SET replica-read-only no"), "+OK\\r\\n");
    let proxy = Proxy::over_ports(&[replica.port], &[]);
    expect_log(&proxy, &["ERROR", "node refused", "that takes writes and will lose them"]);
}

#[test]
fn shardis_is_no_node_of_itself() {
    for _ in 0..5 {
        let port = free_port();
        let flags = [format!("--port={port}"), format!("--nodes=127.0.0.1:{port}")];
        let Ok(proxy) = Proxy::try_start(&flags.each_ref().map(String::as_str)) else { continue };
        expect_log(&proxy, &["ERROR", "node refused", "it is this shardis itself"]);
        let reply = Client::connect(proxy.port).ask("GET a");
        assert!(reply.starts_with("-TRYAGAIN ") && reply.contains("it is this shardis itself"), "{reply}");
        return;
    }
    panic!("no free port");
}

#[test]
fn proxies_that_are_each_others_nodes_do_not_loop() {
    let node = RedisServer::start();
    for _ in 0..5 {
        let (first, second) = (free_port(), free_port());
        let nodes = |other: u16| format!("--nodes=127.0.0.1:{},127.0.0.1:{other}", node.port);
        let start = |port: u16, other: u16| {
            Proxy::try_start(&[&format!("--port={port}"), "--workers=1", &nodes(other)]).ok()
        };
        let (Some(one), Some(other)) = (start(first, second), start(second, first)) else { continue };
        // One of them refuses the other; their start times decide which one.
        let told = poll_until("one to find the other behind itself", || {
            let is_told = |proxy: &Proxy| proxy.output().contains("forwards to this one");
            (is_told(&one) || is_told(&other)).then(|| [&one, &other].map(Proxy::output).join("\n"))
        });
        assert!(told.contains("node refused"), "{told}");
        let mut client = Client::connect(one.port);
        let key = (0..).map(|n| format!("k{n}")).find(|key| shard_of(key.as_bytes(), 2) == 1);
        let ask = format!("GET {}", key.expect("some key is there"));
        let reply = poll_until("an answer that names the loop", || {
            let reply = client.ask(&ask);
            reply.contains("forwards to this one").then_some(reply)
        });
        assert!(reply.starts_with("-TRYAGAIN "), "{reply}");
        return;
    }
    panic!("no free ports");
}

#[test]
fn a_node_that_is_down_is_one_line_for_all_workers() {
    let mut node = RedisServer::start();
    let port = node.port;
    let proxy = Proxy::over_ports(&[port], &["--workers=4"]);
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(proxy.port)).collect();
    poll_until("every worker to reach it", || {
        clients.iter_mut().all(|client| client.ask("SET a 1") == "+OK\\r\\n").then_some(())
    });
    node.kill();
    poll_until("every worker to notice", || {
        clients.iter_mut().all(|client| client.ask("SET a 1").contains("connection refused")).then_some(())
    });
    expect_log(&proxy, &["node down"]);
    let _node = poll_until("the port to be free again", || RedisServer::try_start(port, &[]));
    expect_log(&proxy, &["node up"]);
    poll_until("every worker to reach it again", || {
        clients.iter_mut().all(|client| client.ask("SET a 1") == "+OK\\r\\n").then_some(())
    });
    let output = proxy.output();
    let counts = ["node down", "node up"].map(|text| output.matches(text).count());
    assert_eq!(counts, [1, 1], "{output}");
}

#[test]
fn a_node_that_wants_a_password_names_the_option() {
    let node = RedisServer::start();
    assert_eq!(node.connect().ask("CONFIG SET requirepass x"), "+OK\\r\\n");
    let proxy = Proxy::over_ports(&[node.port], &[]);
    expect_log(&proxy, &["node down", "NOAUTH", "--node-auth-file"]);
}

/// A file for /etc/hosts of one process, if that is possible here (a mount namespace needs root).
fn with_hosts(hosts: &str, command: &std::process::Command) -> Option<std::process::Command> {
    let path =
        std::env::temp_dir().join(format!("shardis-test-hosts-{}-{}", std::process::id(), hosts.len()));
    std::fs::write(&path, hosts).expect("the temporary directory can be written to");
    let mut outer = std::process::Command::new("unshare");
    let script = format!("mount --bind {} /etc/hosts && exec \"$@\"", path.display());
    outer.args(["-m", "sh", "-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    let mut attempt = std::process::Command::new("unshare");
    let attempt =
        attempt.args(["-m", "sh", "-c", &format!("mount --bind {} /etc/hosts", path.display())]).status();
    let can = attempt.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: /etc/hosts cannot be exchanged here (unshare needs root)");
    }
    can.then_some(outer)
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let node = RedisServer::start();
    let hosts = "::1 dual.test\n127.0.0.1 dual.test\n127.0.0.1 localhost\n";
    for mode in ["proxy", "tcp"] {
        let port = free_port();
        let nodes = format!("--nodes=dual.test:{}", node.port);
        let mut command = match mode {
            "proxy" => shardis(&[&format!("--port={port}"), &nodes]),
            _ => crate::harness::processes::shardis_binary(),
        };
        if mode == "tcp" {
            command.args(["tcp", &format!("--port={port}"), &nodes]);
        }
        let Some(command) = with_hosts(hosts, &command) else { return };
        let process = Process::spawn(command, "shardis");
        let reply = poll_until("an answer", || {
            let mut client = Client::try_connect(port)?;
            let reply = client.try_command(&[b"SET", b"a", b"1"]).ok()?;
            (reply == b"+OK\r\n").then_some(reply)
        });
        assert_eq!(reply, b"+OK\r\n", "{mode}: {}", process.output());
    }
}
