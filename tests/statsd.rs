//! Reports to statsd: datagrams of the real process.

use crate::harness::{World, poll_until};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

/// Names and figures of all datagrams that have come to `socket` so far: the last gauge, and the sum of a counter.
fn take(socket: &UdpSocket, figures: &mut BTreeMap<String, f64>) {
    let mut bytes = [0; 65536];
    while let Ok(len) = socket.recv(&mut bytes) {
        assert!(len <= 1432, "{len} bytes");
        let text = std::str::from_utf8(&bytes[..len]).expect("text");
        for line in text.split('\n') {
            let (name, rest) = line.split_once(':').expect("a name");
            let (value, kind) = rest.split_once('|').expect("a type");
            let value: f64 = value.parse().expect("a number");
            let figure = figures.entry(name.to_owned()).or_default();
            match kind {
                "c" => *figure += value,
                "g" => *figure = value,
                _ => panic!("type of {line}"),
            }
        }
    }
}

#[test]
fn statsd_gets_counts_and_levels_by_corvus_names() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    let target = format!("--statsd={}", socket.local_addr().expect("an address"));
    let flags =
        [&*target, "--metric-interval=1", "--statsd-prefix=corvus.cache", "--slowlog-log-slower-than=0"];
    let world = World::with_flags(2, &flags);
    let (mut client, key) = (world.connect(), world.key_on(1, "k"));
    for _ in 0..5 {
        assert_eq!(client.ask(&format!("SET {key} 1")), r"+OK\r\n");
    }
    let end = format!("-{}.", world.proxy.port);
    let mut figures = BTreeMap::new();
    let all = poll_until("five requests at statsd", || {
        take(&socket, &mut figures);
        let figure = |name: &str| {
            let is_it = |found: &&String| {
                found.starts_with("corvus.cache.") && found.ends_with(&format!("{end}{name}"))
            };
            figures.get(figures.keys().find(is_it)?).copied()
        };
        let node = world.shard_name(1).replace(['.', ':'], "-");
        let of_node = |name: &str| figure(&format!("redis-node.{node}.{name}"));
        let sent = figure("slow_query.set")?;
        let all = [figure("connected_clients")?, figure("completed_commands")?, sent, of_node("up")?];
        let rest = [figure("used_cpu_sys")?, figure("used_cpu_user")?, figure("slot_update_jobs")?];
        let more = [
            of_node("bytes.send")?,
            of_node("bytes.recv")?,
            of_node("commands.completed")?,
            figure("latency")?,
        ];
        // Counts are published once a second, and slow requests at once.
        (sent >= 5.0 && all[1] >= 5.0 && more.iter().all(|figure| *figure > 0.0)).then_some((all, rest))
    });
    let (all, rest) = all;
    assert_eq!(all, [1.0, 5.0, 5.0, 1.0]);
    assert!(rest[0] >= 0.0 && rest[1] >= 0.0 && rest[2] == 0.0, "{rest:?}");
}

#[test]
fn a_closed_port_of_statsd_is_one_line_in_the_log() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let addr = socket.local_addr().expect("an address");
    drop(socket);
    let world = World::with_flags(1, &[&format!("--statsd={addr}"), "--metric-interval=1"]);
    poll_until("the line", || world.proxy.output().contains("statsd unreachable").then_some(()));
    // It goes on trying.
    let socket = UdpSocket::bind(addr).expect("the port is still free");
    poll_until("the end of it", || world.proxy.output().contains("statsd reached").then_some(()));
    let mut figures = BTreeMap::new();
    socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    poll_until("a report", || {
        take(&socket, &mut figures);
        (!figures.is_empty()).then_some(())
    });
    assert!(figures.keys().all(|name| name.starts_with("shardis.default.")), "{figures:?}");
    assert_eq!(world.proxy.output().matches("statsd unreachable").count(), 1, "{}", world.proxy.output());
    assert_eq!(world.connect().ask("SET a 1"), r"+OK\r\n");
}

#[test]
fn a_name_without_an_address_does_not_stop_the_proxy() {
    let world = World::with_flags(1, &["--statsd=no.such.host.invalid:8125", "--metric-interval=1"]);
    poll_until("the line", || world.proxy.output().contains("statsd unreachable").then_some(()));
    assert_eq!(world.connect().ask("SET a 1"), r"+OK\r\n");
}
