//! The admin listener: metrics, health and state over HTTP, for real programs.

use crate::harness::certificates::{Authority, Dialect, Directory, identity_flags};
use crate::harness::processes::{Process, free_port, is_there, shardis};
use crate::harness::{Client, Proxy, World, http, poll_until};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const ADMIN: &str = "--admin=0";

/// The value of the sample that begins with `sample`.
fn value(metrics: &str, sample: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(sample))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn requests_and_times_are_counted_by_command_and_node() {
    let world = World::with_flags(2, &[ADMIN]);
    let port = http::admin_port(&world.proxy);
    let (mut client, key) = (world.connect(), world.key_on(1, "k"));
    for _ in 0..5 {
        assert_eq!(client.ask(&format!("SET {key} 1")), r"+OK\r\n");
    }
    assert!(client.ask(&format!("LPUSH {key} 1")).starts_with("-WRONGTYPE"));
    assert!(client.ask("NOSUCH").starts_with("-ERR unknown command"));
    let metrics = poll_until("the counts of the last second", || {
        let metrics = http::get(port, "/metrics").body;
        // The last request is counted there.
        (value(&metrics, "shardis_errors_total{cause=\"refused\"}") == Some(1.0)).then_some(metrics)
    });
    let count = |sample: &str| value(&metrics, sample).unwrap_or_else(|| panic!("{sample} in {metrics}"));
    assert_eq!(count("shardis_requests_total{command=\"set\"}"), 5.0);
    assert_eq!(count("shardis_request_duration_seconds_count{command=\"set\"}"), 5.0);
    assert_eq!(count("shardis_requests_failed_total{command=\"lpush\"}"), 1.0);
    assert_eq!(count("shardis_errors_total{cause=\"node\"}"), 1.0);
    assert_eq!(count("shardis_errors_total{cause=\"refused\"}"), 1.0);
    let labels = |index: usize| {
        let name = world.shard_name(index);
        format!("{{shard=\"{name}\",node=\"{name}\",role=\"primary\"")
    };
    let replies =
        |index: usize| count(&format!("shardis_node_request_duration_seconds_count{}", labels(index)));
    // shardis asks each node for its role besides, as often as time goes by.
    assert!(replies(1) >= 6.0 && replies(1) > replies(0), "{metrics}");
    assert_eq!(count(&format!("shardis_node_errors_total{}", labels(1))), 1.0);
    assert_eq!(count(&format!("shardis_node_up{}", labels(1))), 1.0);
    assert_eq!(count("shardis_clients{state=\"connected\"}"), 1.0);
}

#[test]
fn metrics_say_how_the_process_fares() {
    let world = World::with_flags(1, &[ADMIN, "--requirepass=secret", "--batching=50"]);
    let port = http::admin_port(&world.proxy);
    let mut client = Client::connect(world.proxy.port);
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert!(client.ask("HELLO 2 AUTH default wrong").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("AUTH secret"), r"+OK\r\n");
    assert_eq!(client.ask("SET a 1"), r"+OK\r\n");
    let metrics = poll_until("the counts of the last second", || {
        let metrics = http::get(port, "/metrics").body;
        (value(&metrics, "shardis_requests_total{command=\"set\"}") == Some(1.0)).then_some(metrics)
    });
    let is = |sample: &str| value(&metrics, sample).unwrap_or_else(|| panic!("{sample} in {metrics}"));
    assert_eq!(is("shardis_logins_refused_total{command=\"auth\"}"), 1.0);
    assert_eq!(is("shardis_logins_refused_total{command=\"hello\"}"), 1.0);
    assert_eq!(is("shardis_worker_batching_wait_seconds{worker=\"0\"}"), 0.00005);
    let open = is("process_open_fds");
    assert!((8.0..200.0).contains(&open) && is("process_max_fds") >= open, "{metrics}");
    let name = world.shard_name(0);
    let labels = format!("{{shard=\"{name}\",node=\"{name}\",role=\"primary\"");
    assert!(is(&format!("shardis_node_writes_total{labels}")) >= 2.0, "PING, and then SET");
    assert!(is(&format!("shardis_node_connections_opened_total{labels}")) >= 1.0);
    assert_eq!(is(&format!("shardis_node_slow_start{labels}")), 0.0);
    // The topology has not changed since the start.
    let started = is("process_start_time_seconds");
    assert_eq!(is("shardis_topology_changed_timestamp_seconds"), started);
    let absent = ["shardis_node_replication_lag_bytes{", "shardis_failovers_total ", "shardis_discovery_"];
    for name in absent {
        assert!(!metrics.lines().any(|line| line.starts_with(name)), "{name} in {metrics}");
    }
}

#[test]
fn memory_of_each_node_is_shown() {
    let world = World::with_flags(2, &[ADMIN, "--workers=2"]);
    let port = http::admin_port(&world.proxy);
    let limit = 512 << 20;
    assert_eq!(world.nodes[1].connect().ask(&format!("CONFIG SET maxmemory {limit}")), r"+OK\r\n");
    let sample = |metrics: &str, name: &str, index: usize| {
        let node = world.shard_name(index);
        value(metrics, &format!("{name}{{shard=\"{node}\",node=\"{node}\",role=\"primary\""))
    };
    let max = "shardis_node_maxmemory_bytes";
    let metrics = poll_until("the limit that was set at the node", || {
        let metrics = http::get(port, "/metrics").body;
        (sample(&metrics, max, 1) == Some(f64::from(limit))).then_some(metrics)
    });
    assert_eq!(sample(&metrics, max, 0), Some(0.0), "{metrics}");
    for index in 0..2 {
        let used = sample(&metrics, "shardis_node_used_memory_bytes", index);
        assert!(used.is_some_and(|used| used > 0.0), "{metrics}");
    }
    let status: serde_json::Value = serde_json::from_str(&http::get(port, "/status").body).expect("JSON");
    assert_eq!(status["nodes"][1]["maxmemory_bytes"], limit);
    assert!(status["nodes"][0]["used_memory_bytes"].as_u64().is_some_and(|used| used > 0), "{status}");
}

#[test]
fn a_dead_node_is_seen_in_metrics_health_state_and_events() {
    let mut world = World::with_flags(2, &[ADMIN, "--ready-shards=all"]);
    let port = http::admin_port(&world.proxy);
    poll_until("both shards", || (http::get(port, "/readyz").status == 200).then_some(()));
    world.nodes[1].kill();
    let reason = poll_until("a shard less", || {
        let answer = http::get(port, "/readyz");
        (answer.status == 503).then_some(answer.body)
    });
    assert_eq!(reason, "1 of 2 shards up, 2 wanted\n");
    assert_eq!(http::get(port, "/healthz").body, "ok\n");
    let metrics = http::get(port, "/metrics").body;
    let down = format!("shardis_node_up{{shard=\"{}\"", world.shard_name(1));
    assert_eq!(value(&metrics, &down), Some(0.0), "{metrics}");
    let status: serde_json::Value = serde_json::from_str(&http::get(port, "/status").body).expect("JSON");
    assert_ne!(status["nodes"][1]["state"], "up");
    assert_eq!(status["nodes"][0]["state"], "up");
    poll_until("the line of the log", || {
        let events = http::get(port, "/events").body;
        let has_line = events.contains("\"name\":\"node down\"");
        (has_line && events.contains("\"cure\":\"Start the node")).then_some(())
    });
}

#[test]
fn prometheus_reads_both_formats() {
    if !is_there("promtool", "--version") || !is_there("prometheus", "--version") {
        return;
    }
    let world = World::with_flags(2, &[ADMIN]);
    let port = http::admin_port(&world.proxy);
    assert_eq!(world.connect().ask("SET a 1"), r"+OK\r\n");
    let answer = http::get(port, "/metrics");
    assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().expect("it starts");
    std::io::Write::write_all(check.stdin.as_mut().expect("a pipe"), answer.body.as_bytes())
        .expect("it reads");
    let checked = check.wait_with_output().expect("it ends");
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");

    // Prometheus itself asks for OpenMetrics.
    let (folder, own) = (Directory::new(), free_port());
    let config = folder.path("prometheus.yml");
    let targets = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: shardis, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    );
    std::fs::write(&config, targets).expect("the folder can be written to");
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.path("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{own}"));
    let _prometheus = Process::spawn(command, "prometheus");
    poll_until("Prometheus listens", || std::net::TcpStream::connect(("127.0.0.1", own)).ok());
    let found = poll_until("a sample in Prometheus", || {
        let body = http::get(own, "/api/v1/query?query=shardis_requests_total").body;
        body.contains("\"command\":\"set\"").then_some(body)
    });
    assert!(found.contains("\"status\":\"success\""), "{found}");
    let up = http::get(own, "/api/v1/query?query=up").body;
    assert!(up.contains("\"1\"]"), "{up}");
}

#[test]
fn the_alerts_of_the_example_hold_their_tests() {
    if !is_there("promtool", "--version") {
        return;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/monitoring");
    for words in [["test", "rules", "shardis.rules.test.yml"], ["check", "config", "prometheus.yml"]] {
        let checked = Command::new("promtool").args(words).current_dir(folder).output().expect("it starts");
        assert!(checked.status.success(), "{checked:?}");
    }
}

#[test]
fn only_requests_with_the_token_are_answered() {
    let folder = Directory::new();
    let file = folder.path("token");
    std::fs::write(&file, "open sesame\n").expect("the folder can be written to");
    let token = format!("--admin-token-file={}", file.display());
    let proxy = Proxy::start(&["--port=0", "--admin=0.0.0.0:0", &token]);
    let port = http::admin_port(&proxy);
    let with = |header: &str| {
        http::request(
            port,
            &format!("GET /config HTTP/1.1\r\nHost: a.example\r\n{header}Connection: close\r\n\r\n"),
        )
    };
    assert_eq!(with("").status, 401);
    assert_eq!(with("Authorization: Bearer open\r\n").status, 401);
    let answer = with("Authorization: Bearer open sesame\r\n");
    assert_eq!(answer.status, 200);
    assert!(
        answer.body.contains(r#"{"name":"port","value":"0","source":"command line"}"#),
        "{}",
        answer.body
    );
    assert_eq!(http::get(port, "/healthz").status, 200);
    // Another token is asked for after SIGHUP.
    std::fs::write(&file, "close sesame\n").expect("the folder can be written to");
    proxy.signal("HUP");
    let is_taken = || with("Authorization: Bearer close sesame\r\n").status == 200;
    poll_until("the new token", || is_taken().then_some(()));
    assert_eq!(with("Authorization: Bearer open sesame\r\n").status, 401);
    // A file without a token changes nothing.
    std::fs::write(&file, "\n").expect("the folder can be written to");
    proxy.signal("HUP");
    poll_until("the refusal", || proxy.output().contains("secret reload failed").then_some(()));
    assert!(is_taken());
}

#[test]
fn an_open_address_without_a_token_is_refused_at_start() {
    let ended = shardis(&["--port=0", "--admin=0.0.0.0:0"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("--admin-token-file"), "{said}");
}

/// A proxy whose admin listener speaks TLS with a certificate of `authority`, and the flags of the files.
fn tls_proxy(folder: &Directory, authority: &Authority, more: &[&str]) -> Proxy {
    let identity = authority.sign(&["127.0.0.1"]);
    let flags = identity_flags(folder, "admin-", "server", &identity);
    let all = [&["--port=0", flags[0].as_str(), flags[1].as_str()], more].concat();
    Proxy::start(&all)
}

/// The answer to `GET path` of a client that speaks TLS as `dialect` says, if there is one.
fn get_over_tls(dialect: &Dialect<'_>, port: u16, path: &str, header: &str) -> Option<http::Answer> {
    let stream = dialect.connect(port).ok()?.into_wire();
    let text = format!("GET {path} HTTP/1.1\r\nHost: proxy.example\r\n{header}Connection: close\r\n\r\n");
    http::try_over(stream, &text).ok()
}

#[test]
fn only_clients_with_a_certificate_are_answered() {
    let (folder, authority, foreign) = (Directory::new(), Authority::new(), Authority::new());
    let ca = format!("--admin-tls-ca-cert-file={}", folder.write("ca.crt", &authority.certificate));
    let proxy = tls_proxy(&folder, &authority, &["--admin=0.0.0.0:0", &ca]);
    let port = http::admin_port(&proxy);
    assert!(proxy.output().contains("admin at https://0.0.0.0:"), "{}", proxy.output());
    let (own, other) = (authority.sign(&["operator"]), foreign.sign(&["operator"]));
    let plain = Dialect::trusting(&authority);
    let known = Dialect { identity: Some(&own), ..Dialect::trusting(&authority) };
    let answer = get_over_tls(&known, port, "/config", "").expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let stranger = Dialect { identity: Some(&other), versions, ..Dialect::trusting(&authority) };
        assert!(get_over_tls(&stranger, port, "/config", "").is_none(), "{versions:?}");
        let nobody = Dialect { versions, ..Dialect::trusting(&authority) };
        assert!(get_over_tls(&nobody, port, "/healthz", "").is_none(), "{versions:?}");
    }
    // HTTP without TLS ends at once.
    let stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    assert!(http::try_over(stream, "GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n").is_err());

    // A reload takes the other authority; the clients of the first are refused from then on.
    folder.write("ca.crt", &foreign.certificate);
    proxy.signal("HUP");
    let stranger = Dialect { identity: Some(&other), ..Dialect::trusting(&authority) };
    poll_until("the other authority", || get_over_tls(&stranger, port, "/config", ""));
    assert!(get_over_tls(&known, port, "/config", "").is_none());
    assert!(get_over_tls(&plain, port, "/config", "").is_none());
}

#[test]
fn a_token_may_come_over_tls() {
    let (folder, authority) = (Directory::new(), Authority::new());
    let token = format!("--admin-token-file={}", folder.write("token", "open sesame\n"));
    let proxy = tls_proxy(&folder, &authority, &["--admin=0.0.0.0:0", &token]);
    let (port, dialect) = (http::admin_port(&proxy), Dialect::trusting(&authority));
    let status =
        |path: &str, header: &str| get_over_tls(&dialect, port, path, header).expect("an answer").status;
    assert_eq!(status("/config", "Authorization: Bearer open sesame\r\n"), 200);
    assert_eq!((status("/config", ""), status("/healthz", "")), (401, 200));
}

#[test]
fn tls_alone_opens_no_address_to_others() {
    let (folder, authority) = (Directory::new(), Authority::new());
    let flags = identity_flags(&folder, "admin-", "server", &authority.sign(&["127.0.0.1"]));
    let refused = |place: &str| {
        let ended = shardis(&["--port=0", place, &flags[0], &flags[1]]).output().expect("it starts");
        assert!(!ended.status.success());
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let said = refused("--admin=0.0.0.0:0");
    assert!(said.contains("--admin-token-file") && said.contains("--admin-tls-ca-cert-file"), "{said}");
    assert!(refused("--admin=unix:/none/a.sock").contains("a unix socket has no TLS"));
}

#[test]
fn the_history_has_samples_of_the_process_and_its_nodes() {
    let world = World::with_flags(2, &[ADMIN]);
    let (port, mut client) = (http::admin_port(&world.proxy), world.connect());
    let history = |path: &str| -> serde_json::Value {
        serde_json::from_str(&http::get(port, path).body).expect("JSON")
    };
    let found = poll_until("a sample of requests at both nodes", || {
        for index in 0..2 {
            client.ask(&format!("SET {} 1", world.key_on(index, "k")));
        }
        let found = history("/history");
        let last = |name: &str, index: usize| found["nodes"][index][name].as_array()?.last()?.as_f64();
        let has_replies = |index| last("replies_per_s", index).is_some_and(|rate| rate > 0.0);
        (has_replies(0) && has_replies(1)).then_some(found)
    });
    assert_eq!(found["nodes"][1]["address"], world.shard_name(1).as_str());
    let last = |row: &serde_json::Value, name: &str| row[name].as_array().and_then(|all| all.last().cloned());
    assert_eq!(last(&found["nodes"][0], "up"), Some(1.0.into()));
    assert_eq!(last(&found["process"], "clients"), Some(1.0.into()));
    let number = |name: &str| last(&found["process"], name).and_then(|value| value.as_f64());
    assert!(number("requests_per_s") > Some(0.0) && number("p99_us") > Some(0.0), "{found}");
    assert!(number("resident_bytes") > Some(1e6), "{found}");
    let len = |value: &serde_json::Value| value["times_s"].as_array().map_or(0, Vec::len) as u64;
    let (all, newest) = (history("/history"), history(&format!("/history?after={}", found["last"])));
    assert!(len(&all) >= len(&found) && newest["last"].as_u64() >= all["last"].as_u64(), "{newest}");
    assert_eq!(len(&newest), newest["last"].as_u64().unwrap_or_default() - len(&found));
}

#[test]
fn a_page_of_another_name_gets_nothing() {
    let proxy = Proxy::start(&["--port=0", ADMIN]);
    let text = "GET /config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(http::request(http::admin_port(&proxy), text).status, 403);
}

#[test]
fn the_log_level_changes_and_clients_are_listed() {
    let proxy = Proxy::start(&["--port=0", ADMIN]);
    let (port, mut client) = (http::admin_port(&proxy), Client::connect(proxy.port));
    assert_eq!(client.ask("CLIENT SETNAME tired-operator"), r"+OK\r\n");
    assert!(http::get(port, "/clients").body.contains("name=tired-operator"));
    let put = |level: &str| {
        let len = level.len();
        let text = format!(
            "PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{level}"
        );
        http::request(port, &text)
    };
    assert_eq!(http::get(port, "/log-level").body, "info\n");
    assert_eq!(put("debug").body, "debug\n");
    assert_eq!((put("loud").status, http::get(port, "/log-level").body.as_str()), (400, "debug\n"));
    assert_eq!(http::get(port, "/nothing").status, 404);
    assert_eq!(
        http::request(port, "DELETE /config HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").status,
        403
    );
    let text = "DELETE /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(http::request(port, text).status, 405);
}

#[test]
fn a_unix_socket_answers_and_a_draining_proxy_is_not_ready() {
    let folder = Directory::new();
    let path = folder.path("admin.sock");
    let world = World::with_flags(1, &[&format!("--admin=unix:{}", path.display())]);
    let get = |path_of: &str| {
        let stream = UnixStream::connect(&path).expect("it listens");
        http::over(stream, &format!("GET {path_of} HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n"))
    };
    poll_until("ready", || (get("/readyz").status == 200).then_some(()));
    // A request in flight keeps the drain going.
    let mut client = world.connect();
    assert_eq!(client.ask("SET a 1"), r"+OK\r\n");
    world.nodes[0].freeze();
    client.send(b"GET a\r\n");
    poll_until("the request", || get("/clients").body.contains("cmd=get").then_some(()));
    world.proxy.signal("TERM");
    let answer = poll_until("the drain", || Some(get("/readyz")).filter(|answer| answer.status == 503));
    assert_eq!(answer.body, "draining\n");
    world.nodes[0].thaw();
    assert_eq!(crate::harness::show(&client.read_reply()), r"$1\r\n1\r\n");
}

#[test]
fn the_log_can_be_read_by_programs() {
    let mut world = World::with_flags(1, &["--log-format=json"]);
    world.nodes[0].kill();
    let line = poll_until("a line about the node", || {
        world.proxy.output().lines().find(|line| line.contains("node down")).map(str::to_owned)
    });
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((&line["name"], &line["level"]), (&"node down".into(), &"WARN".into()));
    assert_eq!(line["shard"], world.shard_name(0).as_str());
}
