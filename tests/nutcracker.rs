//! Habits of twemproxy's operators: the stats port and the flags of nutcracker, beside the real nutcracker.

use crate::distribution::Twemproxy;
use crate::harness::certificates::Directory;
use crate::harness::processes::{
    Finished, Process, free_port, free_ports, run, send_signal, shardis, shardis_binary,
};
use crate::harness::{Client, Proxy, RedisServer, poll_until};
use serde_json::Value;
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

/// Requests of shardis itself to one node that a test may see: the questions after a connection, and one every ten seconds.
const OWN_REQUESTS_MAX: u64 = 20;
/// Requests of the traffic to the first pool.
const REQUESTS: u64 = 80;

/// Two pools at `ports`: the first over two nodes, one of them with a name, the second over one node.
fn file(ports: &[u16], nodes: &[RedisServer]) -> String {
    let [a, b, c] = [0, 1, 2].map(|node: usize| nodes[node].port);
    let head = |name: &str, port: u16| {
        format!(
            "{name}:\n  listen: 127.0.0.1:{port}\n  hash: md5\n  redis: true\n  timeout: 20000\n  servers:\n"
        )
    };
    format!(
        "{}   - 127.0.0.1:{a}:1 one\n   - 127.0.0.1:{b}:1\n{}   - 127.0.0.1:{c}:1\n",
        head("orders", ports[0]),
        head("carts", ports[1])
    )
}

/// The text at the stats port `port`, which ends with the connection.
fn stats(port: u16) -> Option<Value> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(serde_json::from_str(&text).expect("it is JSON, without a header"))
}

fn figure(stats: &Value, path: &str) -> u64 {
    stats.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} of {stats}"))
}

/// The paths of all values, and whether each is a number.
fn shape(value: &Value, path: &str) -> Vec<(String, bool)> {
    match value {
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| shape(value, &format!("{path}/{key}"))).collect()
        }
        value => vec![(path.to_owned(), value.is_u64())],
    }
}

/// Writes and reads keys of the pool at `port` over one connection, which is returned.
fn traffic(port: u16) -> Client {
    let mut client = Client::connect(port);
    for number in 0..REQUESTS / 2 {
        assert_eq!(client.ask(&format!("SET key:{number} 1")), r"+OK\r\n");
        assert_eq!(client.ask(&format!("GET key:{number}")), r"$1\r\n1\r\n");
    }
    client
}

/// The stats after the traffic, once all of it is counted.
fn stats_after_traffic(port: u16, nodes: [&str; 2], requests: u64) -> Value {
    poll_until("the figures of the traffic", || {
        let stats = stats(port)?;
        let replies = nodes.map(|node| stats.pointer(&format!("/orders/{node}/responses"))?.as_u64());
        let is_counted = replies.into_iter().flatten().sum::<u64>() >= requests;
        let has_left = stats.pointer("/carts/client_eof")?.as_u64()? >= 1;
        let is_here = stats.pointer("/orders/client_connections")?.as_u64()? == 1;
        (is_counted && has_left && is_here).then_some(stats)
    })
}

/// Whether the connections of the process are its two listeners, and the clients and servers of its pools.
fn is_sum_of_connections(stats: &Value) -> bool {
    let open = figure(stats, "/curr_connections");
    let is_of_pool = |path: &str| path.ends_with("_connections") && path.matches('/').count() > 1;
    let of_pools = shape(stats, "").into_iter().filter(|(path, _)| is_of_pool(path));
    let sum = of_pools.map(|(path, _)| figure(stats, &path)).sum::<u64>();
    open == 2 + sum && figure(stats, "/total_connections") > open
}

#[test]
fn the_stats_port_shows_the_figures_of_nutcracker() {
    let mut nodes: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let (ports, stats_port) = (free_ports(4), free_port());
    let twemproxy = Twemproxy::start(ports[..2].to_vec(), &file(&ports[..2], &nodes));
    let directory = Directory::new();
    let path = directory.write("nutcracker.yml", &file(&ports[2..], &nodes));
    let address = format!("--nutcracker-stats=127.0.0.1:{stats_port}");
    let proxy =
        Process::spawn(shardis(&[&format!("--config={path}"), "--workers=1", &address]), "shardis proxy");
    poll_until("the listeners", || proxy.output().contains("nutcracker's stats at ").then_some(()));

    let _clients = [traffic(ports[0]), traffic(ports[2])];
    drop((Client::connect(ports[1]), Client::connect(ports[3])));
    let servers = ["one".to_owned(), format!("127.0.0.1:{}", nodes[1].port)];
    let names = servers.each_ref().map(String::as_str);
    let theirs = stats_after_traffic(twemproxy.stats, names, REQUESTS);
    // Each node is asked by shardis itself at least once.
    let ours = stats_after_traffic(stats_port, names, REQUESTS + 2);
    let (mut expected, mut found) = (shape(&theirs, ""), shape(&ours, ""));
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{}", proxy.output());
    assert_eq!((&ours["service"], &ours["source"]), (&theirs["service"], &theirs["source"]));
    assert!(figure(&ours, "/timestamp").abs_diff(figure(&theirs, "/timestamp")) < 600, "{ours}");
    assert!(figure(&ours, "/uptime") < 600, "{ours}");

    for server in names {
        let of = |stats: &Value, name: &str| figure(stats, &format!("/orders/{server}/{name}"));
        for name in ["requests", "responses"] {
            let own = of(&ours, name).checked_sub(of(&theirs, name)).expect("at least those of the traffic");
            assert!(own < OWN_REQUESTS_MAX, "{name} of {server}: {ours}\n{theirs}");
        }
        for name in ["request_bytes", "response_bytes"] {
            assert!(of(&ours, name) >= of(&theirs, name), "{name} of {server}: {ours}\n{theirs}");
        }
        // A question of shardis itself may be on its way.
        assert!(of(&ours, "out_queue") <= 1, "{server}: {ours}");
        for name in ["in_queue", "server_err", "server_timedout"] {
            assert_eq!((of(&ours, name), of(&theirs, name)), (0, 0), "{name} of {server}: {ours}");
        }
    }
    // nutcracker counts its connections at once, and those of a pool ten times a second.
    for port in [stats_port, twemproxy.stats] {
        poll_until("the sum of connections", || is_sum_of_connections(&stats(port)?).then_some(()));
    }

    // A node that is gone is an error of its server with both.
    nodes[2].kill();
    let mut clients = [Client::connect(ports[1]), Client::connect(ports[3])];
    let server_err = format!("/carts/127.0.0.1:{}/server_err", nodes[2].port);
    poll_until("errors of the server", || {
        clients.iter_mut().for_each(|client| assert!(client.ask("GET a").starts_with('-')));
        let both = [stats(twemproxy.stats)?, stats(stats_port)?];
        both.iter().all(|stats| figure(stats, &server_err) > 0).then_some(())
    });
    poll_until("a request that could not be sent", || {
        (figure(&stats(stats_port)?, "/carts/forward_error") > 0).then_some(())
    });
}

#[test]
fn the_stats_port_bears_clients_that_read_nothing() {
    let (node, port) = (RedisServer::start(), free_port());
    let proxy = Proxy::over(&[node], &[&format!("--nutcracker-stats=127.0.0.1:{port}")]);
    let silent: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a place")).collect();
    let shown = stats(port).expect("an answer");
    assert_eq!(shown["shardis"]["client_connections"], 0, "{shown}");
    assert_eq!((silent.len(), Client::connect(proxy.port).ask("PING")), (40, r"+PONG\r\n".to_owned()));
    let refused = run({
        let mut command = shardis_binary();
        command.args(["proxy", "--port=0", &format!("--nutcracker-stats=127.0.0.1:{port}")]);
        command
    });
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("which --nutcracker-stats names"), "{refused:?}");
}

fn nutcracker(flags: &[&str]) -> Command {
    let mut command = shardis_binary();
    command.arg("nutcracker").args(flags);
    command
}

/// The text of a file, once it has `part`.
fn text_with(path: &Path, part: &str) -> String {
    poll_until(part, || std::fs::read_to_string(path).ok().filter(|text| text.contains(part)))
}

#[test]
fn a_start_script_of_nutcracker_needs_another_name() {
    let (node, ports, directory) = (RedisServer::start(), free_ports(2), Directory::new());
    let pool = |port: u16| {
        format!(
            "alpha:\n  listen: 127.0.0.1:{port}\n  redis: true\n  servers:\n   - 127.0.0.1:{}:1\n",
            node.port
        )
    };
    let config = directory.write("nutcracker.yml", &pool(ports[0]));
    let (log, pid) = (directory.path("log"), directory.path("pid"));
    let (log_flag, pid_flag) = (log.to_str().expect("text"), pid.to_str().expect("text"));
    let stats_port = ports[1].to_string();
    let flags = ["-c", &config, "-s", &stats_port, "-a", "127.0.0.1", "-i", "100", "-m", "16384"];
    let files = ["-o", log_flag, "-p", pid_flag, "-v", "6"];
    let mut process = Process::spawn(nutcracker(&[&flags[..], &files].concat()), "shardis nutcracker");
    let said = text_with(&log, "nutcracker's stats at ");
    for left_out in ["not carried over: -i 100: ", "not carried over: -m 16384: "] {
        assert!(said.contains(left_out), "{said}");
    }
    assert_eq!(text_with(&pid, ""), process.pid().to_string());
    assert_eq!(Client::connect(ports[0]).ask("SET a 1"), r"+OK\r\n");
    let has_pool = poll_until("a pool", || stats(ports[1])?.pointer("/alpha/client_eof").cloned());
    assert!(has_pool.is_u64());

    let old = directory.path("log.1");
    std::fs::rename(&log, &old).expect("it is there");
    process.signal("HUP");
    text_with(&log, "reload skipped");
    // A log that cannot be opened again goes on in the old file.
    let kept = directory.path("log.2");
    std::fs::rename(&log, &kept).expect("it is there");
    std::fs::create_dir(&log).expect("the name is free");
    process.signal("HUP");
    text_with(&kept, "log reopen failed");
    process.signal("TERM");
    let ended = poll_until("its end", || process.ended());
    assert_eq!((ended.code(), pid.exists()), (Some(0), false));
    assert_eq!(process.output(), "", "all goes to the log");
}

/// A process that is no child of the test. A failed test ends it.
struct Daemon(u32);

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            send_signal(self.0, "KILL");
        }
    }
}

#[test]
fn a_daemon_goes_on_after_its_start() {
    let (node, ports, directory) = (RedisServer::start(), free_ports(2), Directory::new());
    let text = format!(
        "alpha:\n  listen: 127.0.0.1:{}\n  redis: true\n  servers:\n   - 127.0.0.1:{}:1\n",
        ports[0], node.port
    );
    let config = directory.write("nutcracker.yml", &text);
    let (log, pid) = (directory.path("log"), directory.path("pid"));
    let files = ["-o", log.to_str().expect("text"), "-p", pid.to_str().expect("text")];
    let stats_port = ports[1].to_string();
    let flags = ["-d", "-c", &config, "-s", &stats_port, "-a", "127.0.0.1"];
    let started = run(nutcracker(&[&flags[..], &files].concat()));
    assert_eq!(started.code, Some(0), "{started:?}");
    let read_pid = || std::fs::read_to_string(&pid).ok()?.parse().ok();
    let daemon = Daemon(poll_until("the pid file", read_pid));
    let mut client = poll_until("the listener", || Client::try_connect(ports[0]));
    assert_eq!(client.ask("SET a 1"), r"+OK\r\n");

    // A second one tells the log why it ends.
    let second = run(nutcracker(&[&flags[..], &files[..2]].concat()));
    assert_eq!(second.code, Some(0), "{second:?}");
    text_with(&log, "shardis: ");
    drop(client);
    send_signal(daemon.0, "TERM");
    poll_until("the end of the pid file", || (!pid.exists()).then_some(()));
}

#[test]
fn exit_codes_are_those_of_nutcracker() {
    let directory = Directory::new();
    let valid = "p:\n  listen: 127.0.0.1:22121\n  redis: true\n  servers:\n   - 127.0.0.1:6379:1\n";
    let valid_path = directory.write("valid.yml", valid);
    let invalid = directory.write("invalid.yml", &valid.replace(":1\n", ":x\n"));
    let missing = directory.path("missing.yml");
    let missing = missing.to_str().expect("text");
    let result = |finished: &Finished| {
        let said = ["syntax is ok", "syntax is invalid"].map(|words| finished.stderr.contains(words));
        (finished.code, said)
    };
    for flags in [
        &["-t", "-c", &valid_path][..],
        &["--test-conf", "--conf-file", &valid_path, "--verbose=11"],
        &["-t", "-c", &invalid],
        &["-t", "-c", missing],
        &["-t", "-c", &valid_path, "-i", "0", "-m", "512"],
        &["-t", "-c", &valid_path, "-m", "511"],
        &["-t", "-c", &valid_path, "-s", "x"],
        &["-t", "-c", &valid_path, "-s", "99999"],
        &["-t", "-v"],
        &["-V"],
        &["-h"],
        &["-D"],
        &["-z"],
    ] {
        let mut theirs = Command::new("nutcracker");
        theirs.args(flags);
        let (theirs, ours) = (run(theirs), run(nutcracker(flags)));
        assert_eq!(result(&ours), result(&theirs), "{flags:?}\n{ours:?}\n{theirs:?}");
    }
}
