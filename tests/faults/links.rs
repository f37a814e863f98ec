//! Networks between the proxy and its nodes that swallow, forget, delay or lose bytes. The time until the proxy notices is
//! printed (`--nocapture`), never judged: machines may be busy.

use crate::harness::network::Network;
use crate::harness::processes::Process;
use crate::harness::relay::{Relay, Weather, wait_for_another};
use crate::harness::stamp::StampedClients;
use crate::harness::{Client, Proxy, RedisServer, poll_until, seed_for, shard_of, show};
use crate::transactions::wait_for_blocked;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The first key that lives on shard `index` of `shards`.
fn key_on(index: usize, shards: usize) -> String {
    let key = (0..).map(|number| format!("k{number}")).find(|key| shard_of(key.as_bytes(), shards) == index);
    key.expect("every shard owns some key")
}

/// Nodes in all namespaces, and a proxy over them that gets `flags`.
fn start(network: &Network, nodes: usize, flags: &[&str]) -> (Vec<Process>, Proxy) {
    let running: Vec<Process> = (0..nodes).map(|number| network.start_node(number, &[])).collect();
    let answers = |number| {
        let mut client = network.try_connect(number)?;
        client.try_command(&[b"PING"]).is_ok_and(|reply| reply == b"+PONG\r\n").then_some(())
    };
    (0..nodes).for_each(|number| poll_until("a node", || answers(number)));
    let list = format!("--nodes={}", network.nodes());
    (running, Proxy::start(&[&[list.as_str(), "--host=127.0.0.1", "--port=0"], flags].concat()))
}

/// A client that reads and writes keys of healthy shards until it is stopped. It returns the longest time of a request.
struct Witness {
    is_over: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    thread: JoinHandle<Duration>,
}

impl Witness {
    fn start(port: u16, keys: Vec<String>) -> Witness {
        let (is_over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&served));
        let thread = std::thread::spawn(move || {
            let (mut client, mut longest) = (Client::connect(port), Duration::ZERO);
            while !over.load(Ordering::SeqCst) {
                for key in &keys {
                    let asked = Instant::now();
                    assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n");
                    assert_eq!(client.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n");
                    longest = longest.max(asked.elapsed());
                }
                count.fetch_add(1, Ordering::SeqCst);
            }
            longest
        });
        Witness { is_over, served, thread }
    }

    /// Waits until the witness was served twice more.
    fn wait_for_more(&self) {
        let before = self.served.load(Ordering::SeqCst);
        poll_until("healthy shards", || (self.served.load(Ordering::SeqCst) > before + 1).then_some(()));
    }

    fn finish(self) -> Duration {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().expect("healthy shards serve on")
    }
}

/// An isolated machine swallows all bytes, and its unanswered requests have an unknown outcome. Then it counts as down, until
/// it can be reached again.
#[test]
fn a_black_hole_is_found_out_and_healthy_shards_serve_on() {
    let Some(network) = Network::new(3) else { return };
    // Long enough for healthy shards on a loaded machine.
    let (_nodes, proxy) = start(&network, 3, &["--request-timeout-ms=400", "--connect-timeout-ms=400"]);
    let mut client = Client::connect(proxy.port);
    let keys: Vec<String> = (0..3).map(|shard| key_on(shard, 3)).collect();
    for key in &keys {
        poll_until("all nodes", || (client.ask(&format!("SET {key} before")) == "+OK\\r\\n").then_some(()));
    }
    let witness = Witness::start(proxy.port, keys[1..].to_vec());
    // One waits for an element there, without a request in flight that could be late.
    let mut waiting = Client::connect(proxy.port);
    waiting.send_command(&[b"BLPOP", format!("list{{{}}}", keys[0]).as_bytes(), b"0"]);
    wait_for_blocked(&mut network.try_connect(0).expect("the node is there"), 1);
    witness.wait_for_more();
    network.cut_off(0);
    let cut_at = Instant::now();
    let first = client.command(&[b"GET", keys[0].as_bytes()]);
    let first_after = cut_at.elapsed();
    assert!(first.starts_with(b"-"), "{}", show(&first));
    let refused = poll_until("refusals", || {
        let reply = client.ask(&format!("SET {} lost", keys[0]));
        assert!(reply.starts_with("-TRYAGAIN ") || reply.contains("outcome unknown"), "{reply}");
        reply.starts_with("-TRYAGAIN ").then(|| cut_at.elapsed())
    });
    witness.wait_for_more();
    let reply = waiting.read_reply();
    assert!(show(&reply).contains("outcome unknown"), "{}", show(&reply));
    eprintln!(
        "cut off: the first answer after {first_after:?}, refused from {refused:?} on; who waited for an element was told after {:?}",
        cut_at.elapsed()
    );
    witness.wait_for_more();
    network.join_again(0);
    let joined_at = Instant::now();
    poll_until("the node to be found again", || {
        (client.ask(&format!("GET {}", keys[0])) == "$6\\r\\nbefore\\r\\n").then_some(())
    });
    eprintln!(
        "served again {:?} after it could be reached; others waited {:?} at most",
        joined_at.elapsed(),
        witness.finish()
    );
}

/// Half of the machines are cut off at once, as by a switch that fails.
#[test]
fn black_hole_of_half_the_nodes_spares_the_others() {
    const NODES: usize = 4;
    let Some(network) = Network::new(NODES) else { return };
    let (_nodes, proxy) =
        start(&network, NODES, &["--request-timeout-ms=400", "--connect-timeout-ms=400", "--workers=2"]);
    let mut client = Client::connect(proxy.port);
    let keys: Vec<String> = (0..NODES).map(|shard| key_on(shard, NODES)).collect();
    for key in &keys {
        poll_until("all nodes", || (client.ask(&format!("SET {key} before")) == "+OK\\r\\n").then_some(()));
    }
    let witness = Witness::start(proxy.port, keys[NODES / 2..].to_vec());
    witness.wait_for_more();
    (0..NODES / 2).for_each(|number| network.cut_off(number));
    for key in &keys[..NODES / 2] {
        poll_until("refusals of what cannot be reached", || {
            let reply = client.ask(&format!("SET {key} lost"));
            assert!(reply.starts_with("-TRYAGAIN ") || reply.contains("outcome unknown"), "{reply}");
            reply.starts_with("-TRYAGAIN ").then_some(())
        });
    }
    let all = format!("MGET {}", keys.join(" "));
    assert!(client.ask(&all).starts_with("-TRYAGAIN "), "a part of it has nobody to answer");
    witness.wait_for_more();
    (0..NODES / 2).for_each(|number| network.join_again(number));
    for key in &keys[..NODES / 2] {
        let ask = format!("GET {key}");
        poll_until("the nodes to be found again", || {
            (client.ask(&ask) == "$6\\r\\nbefore\\r\\n").then_some(())
        });
    }
    eprintln!("others waited {:?} at most", witness.finish());
}

/// Connections that are never made.
#[test]
fn a_node_that_cannot_be_reached_is_no_reason_to_hang() {
    let Some(network) = Network::new(2) else { return };
    network.cut_off(0);
    let _node = network.start_node(1, &[]);
    let nodes = format!("--nodes={}", network.nodes());
    let proxy = Proxy::start(&[nodes.as_str(), "--host=127.0.0.1", "--port=0", "--connect-timeout-ms=300"]);
    let mut client = Client::connect(proxy.port);
    let asked = Instant::now();
    let reply = client.ask(&format!("GET {}", key_on(0, 2)));
    assert!(reply.starts_with("-TRYAGAIN "), "{reply}");
    eprintln!("told after {:?}", asked.elapsed());
    let key = key_on(1, 2);
    poll_until("the other node", || (client.ask(&format!("SET {key} v")) == "+OK\\r\\n").then_some(()));
}

/// Two nodes, each behind a network like `weather`, and a proxy over these.
fn behind(weather: Weather, seed: u64, flags: &[&str]) -> (Vec<RedisServer>, Vec<Relay>, Proxy) {
    let nodes: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let relays: Vec<Relay> = nodes.iter().map(|node| Relay::to(node.port, weather, seed)).collect();
    let ports: Vec<u16> = relays.iter().map(|relay| relay.port).collect();
    let proxy = Proxy::over_ports(&ports, flags);
    (nodes, relays, proxy)
}

/// The link between proxy and node is dead, and neither side knows it.
#[test]
fn a_connection_that_was_forgotten_on_its_way_costs_no_read() {
    // A generous timeout, so that a busy machine makes no request time out.
    let flags = ["--request-timeout-ms=5000", "--connect-timeout-ms=5000", "--workers=1"];
    let (_nodes, relays, proxy) = behind(Weather::FAIR, 0, &flags);
    let (mut reader, mut writer) = (Client::connect(proxy.port), Client::connect(proxy.port));
    let keys = [key_on(0, 2), key_on(1, 2)];
    let all = keys.join(" ");
    for key in &keys {
        poll_until("the nodes", || (reader.ask(&format!("SET {key} v")) == "+OK\\r\\n").then_some(()));
    }
    for round in 0..3 {
        let accepted = relays[0].accepted();
        assert!(relays[0].forget_all() > 0);
        let asked = Instant::now();
        // In turn: one key, several shards, and a read behind a write of another client with unknown outcome.
        match round {
            0 => assert_eq!(reader.ask(&format!("GET {}", keys[0])), "$1\\r\\nv\\r\\n"),
            1 => assert_eq!(reader.ask(&format!("MGET {all}")), "*2\\r\\n$1\\r\\nv\\r\\n$1\\r\\nv\\r\\n"),
            _ => {
                writer.send_command(&[b"SET", keys[0].as_bytes(), b"v"]);
                assert_eq!(reader.ask(&format!("EXISTS {all}")), ":2\\r\\n");
            }
        }
        eprintln!("round {round}: answered after {:?}", asked.elapsed());
        wait_for_another(&relays[0], accepted);
        // All later requests use the new link. While that is younger than a second, nothing is retried.
        let proved = Instant::now() + Duration::from_millis(1200);
        poll_until("a connection that has proved itself", || {
            assert_eq!(reader.ask(&format!("INCR count{{{}}}", keys[0])).get(..1), Some(":"));
            (Instant::now() > proved).then_some(())
        });
    }
    let unknown = show(&writer.read_reply());
    assert!(unknown.contains("outcome unknown"), "{unknown}");
    assert_eq!(writer.ask(&format!("SET {} w", keys[0])), "+OK\\r\\n");
    poll_until("the count of connections that were replaced", || {
        reader.ask("INFO stats").contains("total_conns_replaced:3\\").then_some(())
    });
}

/// The same where both sides see the end.
#[test]
fn a_connection_that_ends_under_reads_costs_none_of_them() {
    let flags = ["--request-timeout-ms=8000", "--connect-timeout-ms=8000", "--workers=1"];
    let slow = Weather { delay: Duration::from_millis(30), ..Weather::FAIR };
    let (_nodes, relays, proxy) = behind(slow, 0, &flags);
    let mut client = Client::connect(proxy.port);
    let (key, other) = (key_on(0, 2), key_on(1, 2));
    poll_until("the node", || (client.ask(&format!("SET {key} v")) == "+OK\\r\\n").then_some(()));
    // Only a link that has worked for a second is trusted to be made again at once.
    let proved = Instant::now() + Duration::from_millis(1200);
    poll_until("a connection that has proved itself", || {
        assert_eq!(client.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n");
        (Instant::now() > proved).then_some(())
    });
    let taken = relays[0].taken();
    client.send(format!("GET {key}\r\n").repeat(50).as_bytes());
    client.send(format!("GET {other}\r\nMGET {key} {other}\r\n").as_bytes());
    poll_until("reads on their way", || (relays[0].taken() > taken).then_some(()));
    assert!(relays[0].end_all() > 0);
    for _ in 0..50 {
        assert_eq!(show(&client.read_reply()), "$1\\r\\nv\\r\\n");
    }
    assert_eq!(show(&client.read_reply()), "$-1\\r\\n");
    assert_eq!(show(&client.read_reply()), "*2\\r\\n$1\\r\\nv\\r\\n$-1\\r\\n");
    poll_until("the count of reads that were asked again", || {
        (!client.ask("INFO stats").contains("total_reads_repeated:0\\")).then_some(())
    });
}

/// Runs stamped clients for this number of requests, and until `is_enough`. No reply belongs to another client, and no request
/// fails.
#[track_caller]
fn nothing_fails(what: &str, port: u16, requests: u64, is_enough: impl Fn() -> bool) {
    let begun = Instant::now();
    let clients = StampedClients::start(port, 4, 16);
    poll_until("many requests", || (clients.tally.answered() >= requests && is_enough()).then_some(()));
    let tally = clients.finish();
    assert_eq!((tally.refused(), tally.unknown()), (0, 0), "{what}: {tally:?}");
    eprintln!("{what}: {} requests in {:?}", tally.answered(), begun.elapsed());
}

/// As between two towns.
#[test]
fn delay_and_jitter_cost_time_and_nothing_else() {
    let seed = seed_for("delay_and_jitter_cost_time_and_nothing_else");
    let ms = Duration::from_millis;
    let weathers = [
        ("20 ms, jitter 40 ms", Weather { delay: ms(20), jitter: ms(40), ..Weather::FAIR }),
        // The cost of a lost packet: the kernel sends it again after 200 ms at the earliest.
        ("stalls of 300 ms", Weather { jitter: ms(2), stalls_one_in: 20, stall: ms(300), ..Weather::FAIR }),
        ("1 Mbit/s", Weather { bytes_per_s: 125_000, delay: ms(5), ..Weather::FAIR }),
    ];
    std::thread::scope(|scope| {
        for (what, weather) in weathers {
            scope.spawn(move || {
                let (_nodes, _relays, proxy) = behind(weather, seed, &[]);
                nothing_fails(what, proxy.port, 1000, || true);
            });
        }
    });
}

/// The same with packets of a real network.
#[test]
fn lost_packets_and_narrow_links_cost_time_and_nothing_else() {
    let Some(network) = Network::new(2) else { return };
    let flags = ["--request-timeout-ms=15000", "--connect-timeout-ms=15000"];
    let (_nodes, proxy) = start(&network, 2, &flags);
    for percent in [1, 5] {
        if !network.lose(0, percent) {
            break;
        }
        let is_enough = || network.lost(0) >= 30;
        nothing_fails(&format!("{percent} % of all packets lost"), proxy.port, 600, is_enough);
    }
    if network.lose(0, 0) && network.narrow(1, "1mbit") {
        // More traffic than passes in two seconds.
        nothing_fails("1 Mbit/s", proxy.port, 8000, || true);
    }
}
