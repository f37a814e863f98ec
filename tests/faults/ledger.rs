//! No write is lost or doubled: `harness/ledger.rs` has the rules.

use crate::harness::certificates::Directory;
use crate::harness::ledger::Ledger;
use crate::harness::processes::free_port;
use crate::harness::{Client, Proxy, RedisServer, World, poll_until};

#[test]
fn no_write_is_lost_or_doubled_by_cut_connections() {
    let world = World::with_shards(3);
    let ledger = Ledger::start(&world);
    let mut admins: Vec<Client> = world.nodes.iter().map(RedisServer::connect).collect();
    for round in 0..30 {
        assert!(admins[round % 3].ask("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
        ledger.wait_for_more(300);
    }
    ledger.finish(&world).assert_some_failed();
}

#[test]
fn no_write_is_lost_or_doubled_while_nodes_freeze_and_thaw() {
    let world = World::with_flags(3, &["--request-timeout-ms=100"]);
    let ledger = Ledger::start(&world);
    for round in 0..6 {
        let node = &world.nodes[round % 3];
        node.freeze();
        ledger.wait_for_faults(5);
        node.thaw();
        ledger.wait_for_more(500);
    }
    ledger.finish(&world).assert_some_failed();
}

/// An acknowledged write is on the node's disk, and no restart is a reason to write twice.
#[test]
fn killed_persistent_nodes_lose_no_acknowledged_write() {
    let directories: Vec<Directory> = (0..2).map(|_| Directory::new()).collect();
    let folders: Vec<String> =
        directories.iter().map(|folder| folder.path("").display().to_string()).collect();
    let options = |node: usize| ["--appendonly", "yes", "--appendfsync", "always", "--dir", &folders[node]];
    let nodes: Vec<RedisServer> = (0..2).map(|node| RedisServer::start_with(&options(node))).collect();
    let proxy = Proxy::over(&nodes, &[]);
    let mut world = World { nodes, proxy };
    let ledger = Ledger::start(&world);
    for round in 0..6 {
        ledger.wait_for_more(200);
        let node = round % 2;
        let port = world.nodes[node].port;
        world.nodes[node].kill();
        ledger.wait_for_faults(5);
        world.nodes[node] = poll_until("the node", || RedisServer::try_start(port, &options(node)));
        ledger.wait_for_more(200);
    }
    ledger.finish(&world).assert_some_failed();
}

/// An acknowledged write was carried out even if the proxy dies. The next proxy has the same port.
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
