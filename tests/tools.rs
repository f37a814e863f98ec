//! Common tools: redis-cli, redis-benchmark, redis_exporter. To them shardis must look like a Redis.

use crate::harness::processes::{Finished, Process, free_port, run};
use crate::harness::{RedisServer, World, poll_until, show};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};

/// Runs redis-cli against the world's proxy; it must succeed.
#[track_caller]
fn cli(world: &World, args: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &world.proxy.port.to_string()]).args(args);
    let Finished { code, stdout, stderr } = run(command);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "redis-cli {args:?}: {stdout}");
    stdout
}

#[test]
fn redis_cli_reads_and_writes() {
    let world = World::with_shards(4);
    assert_eq!(cli(&world, &["set", "a", "1"]), "OK\n");
    assert_eq!(cli(&world, &["get", "a"]), "1\n");
    assert_eq!(cli(&world, &["mset", "b", "2", "c", "3", "d", "4"]), "OK\n");
    assert_eq!(cli(&world, &["mget", "a", "b", "c", "d", "nosuch"]), "1\n2\n3\n4\n\n");
    assert_eq!(cli(&world, &["del", "a", "b", "nosuch"]), "2\n");
    assert_eq!(cli(&world, &["-r", "3", "incr", "n"]), "1\n2\n3\n");
    assert_eq!(cli(&world, &["-n", "0", "get", "c"]), "3\n");
    assert_eq!(cli(&world, &["ping"]), "PONG\n");
    assert_eq!(cli(&world, &["eval", "return {KEYS[1], ARGV[1]}", "1", "k", "v"]), "k\nv\n");
    assert!(cli(&world, &["lpush", "c", "x"]).starts_with("WRONGTYPE "));
    assert!(cli(&world, &["info", "server"]).contains("redis_version:"));
}

#[test]
fn redis_cli_scans_all_keys() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let pipeline: String = (0..500).map(|n| format!("SET scan:{n} v\r\n")).collect();
    client.send(pipeline.as_bytes());
    (0..500).for_each(|_| assert_eq!(client.read_reply(), b"+OK\r\n"));
    let mut expected: Vec<String> = (0..500).map(|n| format!("scan:{n}")).collect();
    let mut scanned: Vec<String> = cli(&world, &["--scan"]).lines().map(str::to_owned).collect();
    expected.sort();
    scanned.sort();
    assert_eq!(scanned, expected);
    assert_eq!(cli(&world, &["--scan", "--pattern", "scan:4?"]).lines().count(), 10);
    assert!(cli(&world, &["--bigkeys"]).contains("Sampled 500 keys"));
}

#[test]
fn redis_cli_inserts_in_bulk() {
    const REQUESTS: usize = 20_000;
    let world = World::with_shards(4);
    let mut command = Command::new("redis-cli");
    command.args(["-p", &world.proxy.port.to_string(), "--pipe"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("redis-cli starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let requests: Vec<u8> = (0..REQUESTS)
        .flat_map(|n| crate::harness::client::request(&[b"SET", format!("pipe:{n}").as_bytes(), b"value"]))
        .collect();
    stdin.write_all(&requests).expect("redis-cli reads its input");
    drop(stdin);
    let output = child.wait_with_output().expect("redis-cli ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(&format!("errors: 0, replies: {REQUESTS}")), "{said}");
    assert_eq!(world.connect().ask("DBSIZE"), format!(":{REQUESTS}\\r\\n"));
}

/// Runs redis-benchmark against a fresh proxy over four nodes; it must report only rates.
#[track_caller]
fn benchmark(flags: &[&str], tests_min: usize) {
    let world = World::with_shards(4);
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &world.proxy.port.to_string(), "-q"]).args(flags);
    let Finished { code, stdout, stderr } = run(command);
    assert_eq!(code, Some(0), "redis-benchmark {flags:?}: {stdout}{stderr}");
    let said = format!("{stdout}\n{stderr}");
    let complaint = said.lines().find(|line| {
        let line = line.to_lowercase();
        line.contains("err")
            || line.contains("warn")
            || line.contains("could not")
            || line.contains("crossslot")
    });
    assert_eq!(complaint, None, "redis-benchmark {flags:?}");
    let rates = said.matches("requests per second").count();
    assert!(rates >= tests_min, "redis-benchmark {flags:?} reported {rates} rates: {said}");
}

#[test]
fn redis_benchmark_runs_its_whole_list() {
    // PING twice, SET, GET, INCR, pushes and pops, SADD, HSET, SPOP, ZADD, ZPOPMIN, LRANGE four times, MSET.
    benchmark(&["-n", "2000"], 19);
}

#[test]
fn redis_benchmark_runs_with_and_without_pipelines() {
    benchmark(&["-n", "2000", "-P", "1", "-t", "set,get,mset"], 3);
    benchmark(&["-n", "50000", "-P", "100", "-c", "10", "-t", "set,get,mset"], 3);
    benchmark(&["-n", "20000", "-P", "16", "-r", "1000", "-d", "2000", "-t", "set,get"], 2);
}

#[test]
fn redis_benchmark_runs_a_command_of_ones_own() {
    benchmark(&["-n", "5000", "-P", "10", "-r", "1000", "incr", "counter:__rand_int__"], 1);
}

#[test]
fn a_monitoring_tool_finds_its_fields() {
    let world = World::with_shards(2);
    let mut client = world.connect();
    for section in ["", "server", "clients", "memory", "stats"] {
        let reply = client.ask(&format!("INFO {section}"));
        assert!(reply.starts_with('$'), "INFO {section}: {reply}");
    }
    let info = client.ask("INFO");
    for field in ["redis_version:", "connected_clients:", "uptime_in_seconds:", "total_commands_processed:"] {
        assert!(info.contains(field), "{field} in {info}");
    }
    for question in ["CONFIG GET save", "CONFIG GET appendonly", "COMMAND COUNT", "CLIENT ID", "TIME"] {
        let reply = client.command(&question.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert_ne!(reply[0], b'-', "{question}: {}", show(&reply));
    }
}

#[test]
fn redis_exporter_finds_the_metrics_of_one_redis() {
    const EXPORTER: &str = "prometheus-redis-exporter";
    if Command::new(EXPORTER).arg("-version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "no {EXPORTER} in PATH");
        return eprintln!("SKIPPED: no {EXPORTER} in PATH");
    }
    let (world, redis) = (World::with_shards(4), RedisServer::reference());
    for mut client in [world.connect(), redis.connect()] {
        (0..100).for_each(|n| assert_eq!(client.ask(&format!("SET metric:{n} x")), "+OK\\r\\n"));
        (0..30).for_each(|n| assert_eq!(client.ask(&format!("GET metric:{n}")), "$1\\r\\nx\\r\\n"));
        assert_eq!(client.ask("GET metric:none"), "$-1\\r\\n");
    }
    let port = free_port();
    let mut command = Command::new(EXPORTER);
    command.args(["-web.listen-address", &format!("127.0.0.1:{port}"), "-redis.addr="]);
    command.args(["-include-system-metrics", "-export-client-list"]);
    let _exporter = Process::spawn(command, EXPORTER);
    let (ours, expected) = (scrape(port, world.proxy.port), scrape(port, redis.port));

    let missing: Vec<_> = expected.keys().filter(|name| !ours.contains_key(*name)).collect();
    assert_eq!(missing, Vec::<&String>::new());
    for (name, samples) in [
        ("redis_up", "redis_up 1"),
        ("redis_exporter_last_scrape_error", "redis_exporter_last_scrape_error{err=\"\"} 0"),
        ("redis_db_keys", "redis_db_keys{db=\"db0\"} 100"),
        ("redis_keyspace_hits_total", "redis_keyspace_hits_total 30"),
        ("redis_keyspace_misses_total", "redis_keyspace_misses_total 1"),
    ] {
        assert!(ours[name].contains(samples), "{}", ours[name]);
        assert!(expected[name].contains(samples), "a redis-server has {}", expected[name]);
    }
}

/// The samples of the exporter on `port` for the Redis on `target`, by metric.
fn scrape(port: u16, target: u16) -> BTreeMap<String, String> {
    let mut stream =
        poll_until("the exporter listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
    let request = format!("GET /scrape?target=redis://127.0.0.1:{target} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the exporter reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("the exporter answers");
    assert!(page.starts_with("HTTP/1.0 200 "), "{page}");
    let mut metrics: BTreeMap<String, String> = BTreeMap::new();
    for sample in page.lines().filter(|line| line.starts_with("redis_")) {
        let name = sample.split(['{', ' ']).next().expect("a line has a first word");
        *metrics.entry(name.to_owned()).or_default() += &format!("{sample}\n");
    }
    metrics
}
