//! The ledger: every write is noted with what its client was told, and looked up in the nodes afterwards.
//!
//! ok means there exactly once; never sent means not there; unknown means at most once.

use crate::harness::certificates::Directory;
use crate::harness::processes::free_port;
use crate::harness::{Client, Proxy, RedisServer, World, poll_until};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a client was told of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Ok,
    NotSent,
    Unknown,
}

const CLIENTS: usize = 6;

#[test]
fn no_write_is_lost_or_doubled_while_nodes_cut_their_connections() {
    let world = World::with_shards(3);
    let writing = Writing::start(&world);
    let mut admins: Vec<Client> = world.nodes.iter().map(RedisServer::connect).collect();
    for round in 0..30 {
        assert!(admins[round % 3].ask("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
        writing.wait_for_more(300);
    }
    writing.finish_and_compare(&world);
}

#[test]
fn no_write_is_lost_or_doubled_while_nodes_freeze_and_thaw() {
    let world = World::with_flags(3, &["--request-timeout-ms=100"]);
    let writing = Writing::start(&world);
    for round in 0..6 {
        let node = &world.nodes[round % 3];
        node.freeze();
        writing.wait_for_faults(5);
        node.thaw();
        writing.wait_for_more(500);
    }
    writing.finish_and_compare(&world);
}

/// What a node has acknowledged it has on its disk, and no restart is a reason to write twice.
#[test]
fn no_acknowledged_write_is_missing_when_nodes_that_keep_all_are_killed() {
    let directories: Vec<Directory> = (0..2).map(|_| Directory::new()).collect();
    let folders: Vec<String> =
        directories.iter().map(|folder| folder.path("").display().to_string()).collect();
    let options = |node: usize| ["--appendonly", "yes", "--appendfsync", "always", "--dir", &folders[node]];
    let nodes: Vec<RedisServer> = (0..2).map(|node| RedisServer::start_with(&options(node))).collect();
    let proxy = Proxy::over(&nodes, &[]);
    let mut world = World { nodes, proxy };
    let writing = Writing::start(&world);
    for round in 0..6 {
        writing.wait_for_more(200);
        let node = round % 2;
        let port = world.nodes[node].port;
        world.nodes[node].kill();
        writing.wait_for_faults(5);
        world.nodes[node] = poll_until("the node", || RedisServer::try_start(port, &options(node)));
        writing.wait_for_more(200);
    }
    writing.finish_and_compare(&world);
}

/// Clients that push numbered elements to a list per shard, in pipelines.
struct Writing {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    faults: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<Vec<(String, String, Told)>>>,
}

impl Writing {
    fn start(world: &World) -> Writing {
        let (stop, written, faults) = (Arc::default(), Arc::default(), Arc::default());
        let threads = (0..CLIENTS)
            .map(|id| {
                let (stop, written, faults) = (Arc::clone(&stop), Arc::clone(&written), Arc::clone(&faults));
                let (port, keys) = (world.proxy.port, world.key_on_each("ledger"));
                std::thread::spawn(move || write(port, id, &keys, &stop, &written, &faults))
            })
            .collect();
        Writing { stop, written, faults, threads }
    }

    fn wait_for_more(&self, writes: u64) {
        let before = self.written.load(Ordering::SeqCst);
        poll_until("more writes", || (self.written.load(Ordering::SeqCst) >= before + writes).then_some(()));
    }

    fn wait_for_faults(&self, faults: u64) {
        let before = self.faults.load(Ordering::SeqCst);
        poll_until("failed writes", || (self.faults.load(Ordering::SeqCst) >= before + faults).then_some(()));
    }

    fn finish_and_compare(self, world: &World) {
        self.stop.store(true, Ordering::SeqCst);
        let notes: Vec<_> = self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        // What a node still had in its socket when its connection broke is executed before this is.
        let stored = stored(world);
        let mut told = HashMap::new();
        for (key, element, outcome) in &notes {
            let times = stored.get(&(key.clone(), element.clone())).copied().unwrap_or(0);
            match outcome {
                Told::Ok => assert_eq!(times, 1, "{element} of {key} was acknowledged"),
                Told::NotSent => assert_eq!(times, 0, "{element} of {key} was said not to be sent"),
                Told::Unknown => assert!(times <= 1, "{element} of {key} stands there {times} times"),
            }
            *told.entry(format!("{outcome:?}")).or_insert(0) += 1;
        }
        eprintln!("told: {told:?}");
        assert!(told["Ok"] > 0 && told.len() > 1, "some writes failed, most did not: {told:?}");
    }
}

/// How often each element stands in each list, read from the nodes themselves.
fn stored(world: &World) -> HashMap<(String, String), usize> {
    let mut counts = HashMap::new();
    for (node, key) in world.nodes.iter().zip(world.key_on_each("ledger")) {
        let reply = node.connect().command(&[b"LRANGE", key.as_bytes(), b"0", b"-1"]);
        for element in resp::reply::elements(&reply).expect("LRANGE answers an array") {
            let element = resp::reply::as_bulk(element).expect("elements are bulks");
            *counts.entry((key.clone(), String::from_utf8_lossy(element).into_owned())).or_insert(0) += 1;
        }
    }
    counts
}

/// One client: pipelines of RPUSH to all lists, noted one by one.
fn write(
    port: u16,
    id: usize,
    keys: &[String],
    stop: &AtomicBool,
    written: &AtomicU64,
    faults: &AtomicU64,
) -> Vec<(String, String, Told)> {
    let mut client = Client::connect(port);
    let mut notes = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let mut batch = String::new();
        let first = notes.len();
        for key in keys.iter().cycle().take(keys.len() * 4) {
            number += 1;
            let element = format!("{id}-{number}");
            batch.push_str(&format!("RPUSH {key} {element}\r\n"));
            notes.push((key.clone(), element, Told::Unknown));
        }
        client.send(batch.as_bytes());
        for note in &mut notes[first..] {
            let reply = String::from_utf8_lossy(&client.read_reply()).into_owned();
            note.2 = if reply.starts_with(':') {
                Told::Ok
            } else if reply.starts_with("-TRYAGAIN ") {
                Told::NotSent
            } else {
                assert!(reply.contains("outcome unknown"), "an answer of no class: {reply}");
                Told::Unknown
            };
            let counter = if note.2 == Told::Ok { written } else { faults };
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }
    notes
}

/// What was acknowledged was carried out, whatever becomes of the proxy, and the next one has the same port.
#[test]
fn no_acknowledged_write_is_missing_when_the_proxy_is_killed() {
    const ROUNDS: usize = 5;
    let node = RedisServer::start();
    let (nodes, listen) = (format!("--nodes=127.0.0.1:{}", node.port), format!("--port={}", free_port()));
    let start = || poll_until("the proxy", || Proxy::try_start(&[&nodes, &listen]).ok());
    for round in 0..ROUNDS {
        let proxy = start();
        let mut client = Client::connect(proxy.port);
        let batch: String = (0..5_000).map(|number| format!("RPUSH round-{round} {number}\r\n")).collect();
        client.send_if_open(batch.as_bytes());
        let mut acknowledged = 0;
        while let Ok(reply) = client.try_read_reply() {
            acknowledged += 1;
            assert_eq!(reply, format!(":{acknowledged}\r\n").as_bytes());
            if acknowledged == 500 {
                proxy.signal("KILL");
            }
        }
        assert!(acknowledged >= 500);
        let reply = node.connect().command(&[b"LRANGE", format!("round-{round}").as_bytes(), b"0", b"-1"]);
        let stored = resp::reply::elements(&reply).expect("an array").filter_map(resp::reply::as_bulk);
        let stored: Vec<&[u8]> = stored.collect();
        assert!(stored.len() >= acknowledged, "{} are stored, {acknowledged} acknowledged", stored.len());
        let is_in_place = |(number, element): (usize, &&[u8])| *element == number.to_string().as_bytes();
        assert!(stored.iter().enumerate().all(is_in_place), "each is there once, in order");
    }
}
