//! `shardis bench`: the shape of its output beside redis-benchmark's, its loads against real servers, and its reports.

use crate::harness::certificates::{Authority, Directory, identity_flags, text};
use crate::harness::fake_node::{Answer, FakeNode};
use crate::harness::http::admin_port;
use crate::harness::local::Local;
use crate::harness::processes::{Finished, Proxy, RedisServer, free_port, run, shardis_binary};
use crate::harness::{World, poll_until};
use serde_json::Value;
use std::process::Command;

/// Runs `shardis bench`.
fn bench(args: &[&str]) -> Finished {
    let mut command = shardis_binary();
    command.arg("bench").args(args);
    run(command)
}

/// The same; it must succeed.
#[track_caller]
fn succeed(args: &[&str]) -> String {
    let Finished { code, stdout, stderr } = bench(args);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}: {stdout}");
    stdout
}

/// The report that a run writes as JSON.
#[track_caller]
fn report(args: &[&str]) -> Value {
    let folder = Directory::new();
    let path = folder.write("report.json", "");
    succeed(&[&["--json", &path], args].concat());
    let text = std::fs::read_to_string(&path).expect("it was written");
    serde_json::from_str(&text).expect("JSON")
}

/// Output without the figures and the progress. Lines that then look alike are one, for their number depends on the figures.
fn shape(output: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in output.lines() {
        let shown = line.rsplit('\r').next().unwrap_or(line);
        let line: String =
            shown.chars().map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect();
        let mut line = line;
        // Numbers are as wide as they happen to be, and blanks stand before them.
        while line.contains("##") || line.contains(" #") {
            line = line.replace("##", "#").replace(" #", "#");
        }
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

#[test]
fn bench_prints_redis_benchmarks_shapes() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let cases: [&[&str]; 9] = [
        &["-n", "1000"],
        &["-n", "1000", "-q"],
        &["-n", "1000", "--csv", "-r", "100"],
        &["-n", "1000", "-t", "ping,set,lrange_100", "-P", "10", "-d", "20", "-q"],
        &["-n", "500", "-c", "7", "--threads", "2", "-t", "get"],
        &["-n", "200", "-k", "0", "-c", "5", "-t", "incr", "--precision", "2"],
        &["-n", "300", "-r", "10", "lpush", "mylist", "__rand_int__"],
        &["-n", "300", "-q", "--dbnum", "3", "eval", "return 1", "0"],
        &["-n", "300", "-q", "-c", "3", "echo", "-q"],
    ];
    for case in cases {
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", &port]).args(case);
        let expected = run(command);
        assert_eq!(expected.code, Some(0), "{case:?}: {expected:?}");
        let found = bench(&[&["-p", &port], case].concat());
        assert_eq!((found.code, &found.stderr), (expected.code, &expected.stderr), "{case:?}");
        assert_eq!(shape(&found.stdout), shape(&expected.stdout), "{case:?}\n{found:?}\n{expected:?}");
    }
}

#[test]
fn bench_sends_exactly_the_requests_that_it_counts() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let counted = report(&["-p", &port, "-n", "1000", "-P", "7", "--threads", "3", "--mix=incr", "-r", "1"]);
    assert_eq!((&counted["requests"], &counted["errors"]), (&Value::from(1000), &Value::from(0)));
    let mut client = crate::harness::Client::connect(server.port);
    assert_eq!(client.ask("GET counter:000000000000"), "$4\\r\\n1000\\r\\n");
}

#[test]
fn bench_verifies_every_reply_through_the_proxy() {
    let world = World::with_shards(4);
    let port = world.proxy.port.to_string();
    let mix = "--mix=get:50,set:30,mget10:10,mset3:10";
    let usual = ["-p", &port, mix, "-r", "500", "-d", "1-300", "-P", "1-16", "--verify", "-n", "20000"];
    let report = report(&[&usual[..], &["--load", "--keys=zipf:0.99", "--reconnect-after=500"]].concat());
    let none = Value::from(0);
    assert_eq!([&report["wrong_replies"], &report["errors"], &report["lost"]], [&none; 3], "{report}");
    let kinds = report["latency_us_by_kind"].as_object().expect("an object");
    let counts: u64 = kinds.values().map(|kind| kind["count"].as_u64().expect("a count")).sum();
    assert_eq!((kinds.len(), counts), (4, 20_000));
}

#[test]
fn bench_finds_wrong_replies() {
    let node = FakeNode::start(|_| Answer::Bytes(b"$3\r\nabc\r\n".to_vec()));
    let port = node.port.to_string();
    let Finished { code, stdout, .. } =
        bench(&["-p", &port, "--mix=get", "--verify", "-n", "100", "-c", "2"]);
    assert_eq!(code, Some(3), "{stdout}");
    assert!(
        stdout.contains("wrong_replies.........: 100 ") && stdout.contains("wrong reply to GET: $3"),
        "{stdout}"
    );
}

#[test]
fn bench_counts_errors_and_thresholds_judge_them() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let errors = ["-p", &port, "-n", "100", "--expect", "errors<1%", "--expect", "p99<1h", "nosuch"];
    let Finished { code, stdout, .. } = bench(&errors);
    assert_eq!(code, Some(3), "{stdout}");
    assert!(stdout.contains("✗ errors<1% (100.000%)") && stdout.contains("✓ p99<1h ("), "{stdout}");
    assert!(stdout.contains("error: ERR unknown command"), "{stdout}");
    let Finished { code, stderr, .. } = bench(&["-p", &port, "-n", "100", "-q", "nosuch"]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with(&format!("shardis: 127.0.0.1:{port}: ERR unknown command")), "{stderr}");
}

#[test]
fn bench_starts_requests_at_a_rate_and_reports_its_own_error() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let report = report(&["-p", &port, "--rate=2000", "--arrivals=poisson", "--ramp=100ms", "-n", "300"]);
    assert_eq!((&report["requests"], &report["unanswered"]), (&Value::from(300), &Value::from(0)));
    assert!(report["late_us"]["count"].as_u64().is_some_and(|count| count > 0), "{report}");
}

#[test]
fn bench_measures_deliveries_to_subscribers() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let report = report(&["-p", &port, "--subscribers=6", "--channels=2", "-c", "2", "-n", "100", "-3"]);
    let count = |kind: &str| report["latency_us_by_kind"][kind]["count"].as_u64();
    // Three subscribers have each of the two channels.
    assert_eq!((count("PUBLISH"), report["errors"].as_u64()), (Some(100), Some(0)), "{report}");
    assert!(count("DELIVERY").is_some_and(|count| count > 0 && count <= 300), "{report}");
}

#[test]
fn bench_runs_the_workloads_of_ycsb() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    for name in ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f"] {
        let workload = format!("--workload={name}");
        let report = report(&["-p", &port, &workload, "--load", "-r", "200", "-d", "100", "-n", "500"]);
        assert_eq!((&report["requests"], &report["errors"]), (&Value::from(500), &Value::from(0)), "{name}");
    }
    let mut client = crate::harness::Client::connect(server.port);
    assert_eq!(client.ask("HLEN user:000000000199"), ":10\\r\\n");
}

#[test]
fn bench_speaks_to_each_primary_of_a_cluster() {
    let cluster = Local::start(&["--cluster=3"]);
    let port = cluster.ports("nodes")[0].to_string();
    let mix = report(&["-p", &port, "--cluster", "--mix=get,set,mget5", "-n", "600", "--verify"]);
    assert_eq!((&mix["errors"], &mix["wrong_replies"]), (&Value::from(0), &Value::from(0)), "{mix}");
    // Last, since it writes values without stamps.
    let shown = succeed(&["-p", &port, "--cluster", "-t", "set,mset", "-r", "100", "-n", "600", "-q"]);
    assert!(shown.contains("Cluster has 3 master nodes:") && shown.contains("MSET (10 keys): "), "{shown}");
    cluster.stop();
}

#[test]
fn bench_speaks_tls_and_logs_in() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let identity = authority.sign(&["127.0.0.1"]);
    let flags = identity_flags(&directory, "", "tls", &identity);
    let node = RedisServer::start();
    let nodes = format!("--nodes=127.0.0.1:{}", node.port);
    let [certificate, key] = &flags;
    let port = free_port().to_string();
    let tls_port = format!("--tls-port={port}");
    let _proxy = Proxy::start(&[&nodes, "--port=0", &tls_port, "--requirepass=secret", certificate, key]);
    let ca = directory.write("ca.pem", &authority.certificate);
    let usual = ["-p", &port, "--tls", "--cacert", &ca, "-n", "200", "-q", "-t", "get"];
    assert!(succeed(&[&usual[..], &["-a", "secret"]].concat()).contains("GET: "));
    let uri = format!("rediss://default:secret@127.0.0.1:{port}/0");
    assert!(succeed(&["-u", &uri, "--cacert", &ca, "-n", "200", "-q", "-t", "get"]).contains("GET: "));
    let Finished { code, stderr, .. } = bench(&[&usual[..], &["-a", "wrong"]].concat());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("WRONGPASS") || stderr.contains("invalid"), "{stderr}");
}

#[test]
fn bench_measures_an_http_server() {
    let world = World::with_flags(1, &["--admin=127.0.0.1:0"]);
    let address = format!("http://127.0.0.1:{}/metrics", admin_port(&world.proxy));
    let report = report(&["-c", "3", "-n", "50", "--rate", "1000", &address]);
    assert_eq!((&report["requests"], &report["errors"]), (&Value::from(50), &Value::from(0)), "{report}");
    assert!(report["received_bytes"].as_u64().is_some_and(|bytes| bytes > 50 * 1000), "{report}");
    // Flags may follow the address.
    let missing = address.replace("/metrics", "/nosuch");
    let shown = succeed(&[&missing, "-n", "20", "-c", "2"]);
    assert!(shown.contains("errors................: 20 100.00%"), "{shown}");
}

#[test]
fn bench_writes_its_reports_into_files() {
    let (server, folder) = (RedisServer::start(), Directory::new());
    let path = |name: &str| text(&folder.path(name)).to_owned();
    let (plot, html, log) = (path("a.svg"), path("a.html"), path("a.hlog"));
    let port = server.port.to_string();
    let files = ["--plot", &plot, "--html", &html, "--hdr-log", &log];
    succeed(&[&["-p", &port, "-n", "1000"], &files[..]].concat());
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    assert!(read(&plot).starts_with("<svg ") && read(&html).starts_with("<!doctype html>"));
    let log = read(&log);
    assert!(log.starts_with("#[Histogram log format version 1.3]\n") && log.contains(",HISTFAAA"), "{log}");
}

#[test]
fn bench_compares_two_servers_in_turns() {
    let (first, second) = (RedisServer::start(), RedisServer::start());
    let (port, other) = (first.port.to_string(), format!("127.0.0.1:{}", second.port));
    let turns = ["--against", &other, "--rounds=6", "-w", "0", "-T", "50ms", "-c", "2"];
    let report = report(&[&["-p", &port], &turns[..]].concat());
    assert_eq!(report["rate"]["rounds"].as_array().map(Vec::len), Some(6));
    assert!(report["p99_us"]["p"].as_f64().is_some_and(|p| p > 0.0 && p <= 1.0), "{report}");
}

#[test]
fn bench_searches_the_highest_rate_that_keeps_a_bound() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    // No rate keeps a bound that no reply can meet.
    let search = ["-p", &port, "--find-rate", "p50<1ns", "--rate=64", "-w", "0", "-T", "50ms", "-c", "2"];
    let Finished { code, stdout, .. } = bench(&search);
    assert_eq!(code, Some(3), "{stdout}");
    assert!(stdout.ends_with("no rate keeps p50<1ns\n"), "{stdout}");
}

#[test]
fn bench_goes_on_when_connections_break() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let mut client = crate::harness::Client::connect(server.port);
    let mut command = shardis_binary();
    command.args(["bench", "-p", &port, "--rate=2000", "-n", "5000", "-c", "4", "-T", "60s"]);
    let running = std::thread::spawn(move || run(command));
    poll_until("clients of the benchmark", || client.ask("CLIENT LIST").contains("cmd=get").then_some(()));
    assert_ne!(client.ask("CLIENT KILL TYPE normal SKIPME yes"), ":0\\r\\n");
    let Finished { code, stdout, .. } = running.join().expect("it ends");
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("error: connection lost: "), "{stdout}");
}

#[test]
fn bench_refuses_flags_that_contradict_each_other() {
    for (args, part) in [
        (&["--plot=a.png"][..], "--plot: charts are drawn as SVG"),
        (&["--mix=get:0"], "get:0: write a weight"),
        (&["--mix=nosuch"], "nosuch is no kind of request"),
        (&["--expect=p99"], "write a threshold as"),
        (&["--against=a:1", "--html=x"], "--hdr-log, --plot and --html show one run"),
        (&["http://127.0.0.1:1/", "more"], "nothing is expected behind the address"),
        (&["-d", "x"], "write bytes as"),
        // A mistyped flag is no command.
        (&["--ratee=5"], "unexpected argument '--ratee' found"),
        (&["-e"], "unexpected argument '-e' found"),
    ] {
        let Finished { code, stderr, .. } = bench(args);
        assert!(matches!(code, Some(1 | 2)) && stderr.contains(part), "{args:?}: {code:?} {stderr}");
    }
}

#[test]
fn bench_sends_a_captured_monitor_output_again() {
    let (server, folder) = (RedisServer::start(), Directory::new());
    let lines: String = (0..300)
        .map(|n| {
            format!("17000.{n:06} [{} 10.0.0.{}:9] \"APPEND\" \"a\\x62\" \"{}\"\n", n % 2, n % 2, n % 10)
        })
        .collect();
    let capture = folder.write("capture.txt", &format!("OK\n{lines}17001.0 [0 lua] \"INCR\" \"ab\"\n"));
    let port = server.port.to_string();
    let mut client = crate::harness::Client::connect(server.port);
    for (speed, threads) in [("1", "1"), ("max", "2"), ("20", "2")] {
        client.ask("FLUSHALL");
        let flags = ["--replay", &capture, "--speed", speed, "--threads", threads, "-c", "2"];
        let report = report(&[&["-p", &port], &flags[..]].concat());
        assert_eq!(
            (&report["requests"], &report["errors"]),
            (&Value::from(300), &Value::from(0)),
            "{report}"
        );
        // Each client has its database, and its requests keep their order.
        let expected = |digits: &str| format!("$150\\r\\n{}\\r\\n", digits.repeat(30));
        assert_eq!(client.ask("GET ab"), expected("02468"), "speed {speed}");
        client.ask("SELECT 1");
        assert_eq!(client.ask("GET ab"), expected("13579"), "speed {speed}");
        client.ask("SELECT 0");
    }
}
