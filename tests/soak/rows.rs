//! The rows of a round. Each row ends with all processes running and all its clients gone.

use super::load::Load;
use super::queues::POPPING;
use super::scene::{Cluster, Scene, field};
use crate::faults::floods::flood;
use crate::faults::storms::Crowd;
use crate::harness::client::{ReadError, bulk, request};
use crate::harness::fault::Fault;
use crate::harness::local::{follows, is_primary, kill_node, order_failover, role};
use crate::harness::stamp::StampedClients;
use crate::harness::{Client, World, poll_for, poll_until, show};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::Prng;

/// A fault, or a kind of client.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Its numbers in `tests/matrix.md`.
    pub(super) matrix: &'static [u8],
    pub(super) happen: fn(&mut Scene, &Load, &mut Prng),
}

pub(super) const ROWS: [Row; 14] = [
    Row { name: "a node is frozen", matrix: &[1, 16, 38], happen: freeze_a_node },
    Row { name: "a node is killed", matrix: &[8, 15, 39], happen: kill_a_node },
    Row { name: "nodes cut their connections", matrix: &[16], happen: cut_connections },
    Row { name: "clients vanish", matrix: &[2, 29], happen: vanish },
    Row { name: "clients do not read", matrix: &[24, 25, 27], happen: do_not_read },
    Row { name: "a hot key", matrix: &[26, 37], happen: flood_a_key },
    Row { name: "large values", matrix: &[48], happen: pass_large_values },
    Row { name: "a storm of reconnections", matrix: &[44], happen: storm },
    Row { name: "waiting clients leave", matrix: &[18], happen: leave_while_waiting },
    Row { name: "half requests", matrix: &[23, 30], happen: send_halves },
    Row { name: "garbage", matrix: &[33, 34], happen: send_garbage },
    Row { name: "the proxy is frozen", matrix: &[54], happen: freeze_the_proxy },
    Row { name: "clients close their half", matrix: &[49], happen: close_halves },
    Row { name: "a failover", matrix: &[11, 22], happen: fail_over },
];

fn freeze_a_node(scene: &mut Scene, load: &Load, prng: &mut Prng) {
    let node = prng.pick(&scene.world.nodes);
    node.freeze();
    load.ledger.wait_for_faults(5);
    node.thaw();
}

fn kill_a_node(scene: &mut Scene, load: &Load, prng: &mut Prng) {
    let node = prng.below(scene.world.nodes.len() as u64) as usize;
    scene.kill(node);
    load.ledger.wait_for_faults(5);
    scene.restart(node);
}

fn cut_connections(scene: &mut Scene, load: &Load, prng: &mut Prng) {
    for _ in 0..5 {
        let mut admin = prng.pick(&scene.world.nodes).connect();
        assert!(admin.ask("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
        load.ledger.wait_for_more(100);
    }
}

/// Clients send a part of a pipeline; some see a reply first. Then they are gone.
fn vanish(scene: &mut Scene, _: &Load, prng: &mut Prng) {
    let keys = set_on_each(&scene.world, "vanish", &vec![b'v'; 20_000]);
    let gets = keys.iter().cycle().take(40);
    let pipeline: Vec<u8> = gets
        .flat_map(|key| {
            [request(&[b"GET", key.as_bytes()]), request(&[b"MGET", b"v1", key.as_bytes()])].concat()
        })
        .collect();
    for _ in 0..100 {
        let mut client = scene.world.connect();
        client.send(&pipeline[..prng.below(pipeline.len() as u64 + 1) as usize]);
        if prng.one_in(2) {
            client.set_patience(Duration::from_millis(5));
            let _ = client.try_read_reply();
        }
        client.reset();
    }
}

/// Clients ask for far more than they read, while others are served.
fn do_not_read(scene: &mut Scene, load: &Load, _: &mut Prng) {
    let keys = set_on_each(&scene.world, "big", &vec![b'x'; 100_000]);
    let pipeline: String = keys.iter().cycle().take(400).map(|key| format!("GET {key}\r\n")).collect();
    let greedy: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = scene.world.connect();
            client.send_if_open(pipeline.as_bytes());
            client
        })
        .collect();
    load.wait_for_more();
    greedy.into_iter().for_each(Client::reset);
}

fn flood_a_key(scene: &mut Scene, load: &Load, _: &mut Prng) {
    let (is_over, key) = (&AtomicBool::new(false), &scene.world.key_on(0, "hot"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let client = scene.world.connect();
            scope.spawn(move || {
                flood(client, key, is_over);
            });
        }
        let _end = EndsWith(is_over);
        load.wait_for_more();
    });
}

/// Sets its flag when it is dropped, even if a wait fails: otherwise the scope would wait for threads that run on.
struct EndsWith<'a>(&'a AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pass_large_values(scene: &mut Scene, _: &Load, prng: &mut Prng) {
    let mut client = scene.world.connect();
    for key in scene.world.key_on_each("large") {
        let value = vec![b'a' + prng.below(26) as u8; (1 + prng.below(8) as usize) << 20];
        served(&mut client, &[b"SET", key.as_bytes(), &value]);
        let reply = served(&mut client, &[b"GET", key.as_bytes()]);
        assert!(reply == bulk(&value), "{key} has another value: {}", show(&reply));
    }
}

fn storm(scene: &mut Scene, _: &Load, _: &mut Prng) {
    let mut crowd = Crowd::new(scene.world.proxy.port, 200, "storm");
    for _ in 0..3 {
        poll_until("all to be served", || (crowd.ask() == 200).then_some(()));
        crowd.storm();
    }
}

/// An element that is pushed after they have left stays.
fn leave_while_waiting(scene: &mut Scene, _: &Load, prng: &mut Prng) {
    const LEAVING: u64 = 30;
    let shard = prng.below(scene.world.nodes.len() as u64) as usize;
    let (key, mut node) = (scene.world.key_on(shard, "left"), scene.world.nodes[shard].connect());
    let waiting: Vec<Client> = (0..LEAVING)
        .map(|_| {
            let mut client = scene.world.connect();
            client.send(format!("BLPOP {key} 0\r\n").as_bytes());
            client
        })
        .collect();
    let mut blocked = || {
        let info = node.ask("INFO clients");
        field(&info, "blocked_clients").parse::<u64>().expect("a number")
    };
    poll_until("clients to wait", || (blocked() >= LEAVING).then_some(()));
    waiting.into_iter().for_each(Client::reset);
    // Clients of the load wait as well, now and then.
    poll_until("clients to be gone", || (blocked() <= POPPING as u64).then_some(()));
    let mut client = scene.world.connect();
    let pushed = client.command(&[b"RPUSH", key.as_bytes(), b"element"]);
    if Fault::of(&pushed).is_none() {
        assert_eq!(show(&pushed), ":1\\r\\n");
        assert_eq!(show(&served(&mut client, &[b"LLEN", key.as_bytes()])), ":1\\r\\n");
    }
}

fn send_halves(scene: &mut Scene, load: &Load, prng: &mut Prng) {
    let whole = request(&[b"SET", b"half", &[b'h'; 1000]]);
    let halves: Vec<Client> = (0..50)
        .map(|_| {
            let mut client = scene.world.connect();
            client.send(&whole[..1 + prng.below(whole.len() as u64 - 1) as usize]);
            client
        })
        .collect();
    load.wait_for_more();
    halves.into_iter().for_each(Client::reset);
    assert_eq!(served(&mut scene.world.connect(), &[b"EXISTS", b"half"]), b":0\r\n");
}

fn send_garbage(scene: &mut Scene, _: &Load, prng: &mut Prng) {
    for _ in 0..25 {
        let mut client = scene.world.connect();
        client.send_if_open(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        // The first line may be taken for a GET without a key, as by Redis.
        let (said, _) = client.read_to_end();
        assert!(said.is_empty() || said.starts_with(b"-ERR "), "HTTP was answered: {}", show(&said));
        let mut client = scene.world.connect();
        // A length that is no number, behind a valid beginning.
        client.send_if_open(format!("*1\r\n$x{}\r\n", prng.below(1000)).as_bytes());
        let (said, _) = client.read_to_end();
        assert!(said.starts_with(b"-ERR Protocol error"), "{}", show(&said));
    }
}

fn freeze_the_proxy(scene: &mut Scene, _: &Load, _: &mut Prng) {
    scene.world.proxy.freeze();
    // Longer than a request may take.
    poll_for(Duration::from_millis(1200), || None::<()>);
    scene.world.proxy.thaw();
}

fn close_halves(scene: &mut Scene, _: &Load, _: &mut Prng) {
    let keys = set_on_each(&scene.world, "closed", &vec![b'c'; 50_000]);
    for _ in 0..5 {
        let mut client = scene.world.connect();
        let pipeline: String = keys.iter().cycle().take(40).map(|key| format!("GET {key}\r\n")).collect();
        client.send(pipeline.as_bytes());
        client.finish_sending();
        for _ in 0..40 {
            let reply = client.read_reply();
            let is_value = reply == bulk(&vec![b'c'; 50_000]);
            assert!(is_value || Fault::of(&reply).is_some(), "another value: {}", show(&reply));
        }
        assert!(matches!(client.try_read_reply(), Err(ReadError::Closed { partial: 0 })));
    }
}

/// A primary of a cluster is killed, or told to change places with its replica. Both lose writes that only the primary had, as
/// in Redis: values are stamped, and there is no ledger.
fn fail_over(scene: &mut Scene, _: &Load, prng: &mut Prng) {
    let cluster = scene.cluster();
    cluster.failovers += 1;
    let clients = StampedClients::start_from(cluster.failovers * 4, cluster.proxy.port, 4, 16);
    let wait_for_more = || {
        let before = clients.tally.answered();
        poll_until("answers", || (clients.tally.answered() >= before + 2_000).then_some(()));
    };
    wait_for_more();
    let replicas: Vec<u16> =
        cluster.local.ports("nodes").into_iter().filter(|&port| !is_primary(port)).collect();
    let replica = *prng.pick(&replicas);
    follows(replica);
    let primary = primary_of(replica);
    if prng.one_in(2) || primary == spared(cluster) {
        order_failover(replica);
    } else {
        replace_killed_primary(cluster, primary, replica);
    }
    wait_for_more();
    clients.finish();
}

/// `shardis local` ends, and removes the folders of all nodes, when none of its own nodes is left. So one of them is never
/// killed.
fn spared(cluster: &Cluster) -> u16 {
    cluster.local.ports("nodes")[0]
}

fn primary_of(replica: u16) -> u16 {
    let told = role(replica).expect("it answers");
    // *5, slave, host, port, …: the port follows the host as a number.
    let port = told.split("\\r\\n:").nth(1).and_then(|rest| rest.split('\\').next());
    port.and_then(|port| port.parse().ok()).expect("the port of its primary")
}

fn replace_killed_primary(cluster: &mut Cluster, primary: u16, replica: u16) {
    kill_node(primary);
    poll_until("a promotion", || is_primary(replica).then_some(()));
    cluster.revived.push(cluster.local.revive(primary, &[]));
    follows(primary);
}

/// Sets one key on each shard to `value`; returns the keys.
fn set_on_each(world: &World, prefix: &str, value: &[u8]) -> Vec<String> {
    let mut client = world.connect();
    let keys = world.key_on_each(prefix);
    for key in &keys {
        assert_eq!(show(&served(&mut client, &[b"SET", key.as_bytes(), value])), "+OK\\r\\n");
    }
    keys
}

/// The reply to a request that may be sent more than once. On a slow machine, a request can time out without a fault.
fn served(client: &mut Client, args: &[&[u8]]) -> Vec<u8> {
    poll_until("an answer", || Some(client.command(args)).filter(|reply| Fault::of(reply).is_none()))
}
