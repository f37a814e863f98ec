//! Primaries with replicas: reads reach replicas, a client finds all its writes, and requests are answered while nodes are dead
//! or frozen.

use crate::harness::certificates::{Authority, Dialect, Directory, identity_flags};
use crate::harness::local::{Local, is_primary, kill_node};
use crate::harness::processes::{Process, free_port};
use crate::harness::server::server;
use crate::harness::wire::Wire;
use crate::harness::{Client, Proxy, RedisServer, poll_until, seed_for, shard_of, show};
use command::Server;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stdx::Prng;

/// Shards of a primary and a replica each, behind a proxy of one worker.
struct World {
    primaries: Vec<RedisServer>,
    replicas: Vec<RedisServer>,
    proxy: Proxy,
}

/// A replica begins with the stream of its primary, without a pause or a file in between.
const AT_ONCE: [&str; 6] =
    ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-diskless-load", "swapdb"];

impl World {
    /// `shards` shards; the proxy gets `flags` besides the nodes.
    fn new(shards: usize, flags: &[&str]) -> World {
        let primaries: Vec<RedisServer> = (0..shards).map(|_| RedisServer::start_with(&AT_ONCE)).collect();
        let replicas: Vec<RedisServer> = primaries.iter().map(replica_of).collect();
        let pair = |(primary, replica): (&RedisServer, &RedisServer)| {
            format!("127.0.0.1:{}|127.0.0.1:{}", primary.port, replica.port)
        };
        let nodes: Vec<String> = primaries.iter().zip(&replicas).map(pair).collect();
        let nodes = format!("--nodes={}", nodes.join(","));
        let fixed = ["--host=127.0.0.1", "--port=0", "--workers=1", nodes.as_str()];
        let world = World { proxy: Proxy::start(&[&fixed, flags].concat()), primaries, replicas };
        world.replicas.iter().for_each(wait_for_link);
        world
    }

    fn connect(&self) -> Client {
        Client::connect(self.proxy.port)
    }

    /// A key on `shard`.
    fn key(&self, shard: usize) -> String {
        let mut keys = (0..).map(|number| format!("k{number}"));
        keys.find(|key| shard_of(key.as_bytes(), self.primaries.len()) == shard)
            .expect("every shard has keys")
    }

    /// Reads `key` until the proxy reads it from a replica.
    fn wait_until_replicas_answer(&self, client: &mut Client, key: &str) {
        poll_until("a read from a replica", || {
            let before = self.count("total_replica_reads");
            client.ask(&format!("GET {key}"));
            (self.count("total_replica_reads") > before).then_some(())
        });
    }

    /// Waits until the replica of `shard` has `key`: replicas may be late, and the proxy does not wait for other clients'
    /// writes.
    fn wait_for_copy(&self, shard: usize, key: &str) {
        let mut replica = self.replicas[shard].connect();
        poll_until("the key at the replica", || {
            (replica.ask(&format!("EXISTS {key}")) == ":1\\r\\n").then_some(())
        });
    }

    /// The value of `name` in the proxy's INFO.
    fn count(&self, name: &str) -> u64 {
        let info = self.connect().command(&[b"INFO", b"stats"]);
        field(&String::from_utf8_lossy(&info), name).expect("it is counted").parse().expect("a number")
    }
}

fn replica_of(primary: &RedisServer) -> RedisServer {
    let port = primary.port.to_string();
    RedisServer::start_with(&[&AT_ONCE[..], &["--replicaof", "127.0.0.1", &port]].concat())
}

fn wait_for_link(replica: &RedisServer) {
    let mut client = replica.connect();
    poll_until("the replica to have its primary's data", || {
        let info = client.command(&[b"INFO", b"replication"]);
        String::from_utf8_lossy(&info).contains("master_link_status:up").then_some(())
    });
}

/// The value of `name` in the text of an INFO.
fn field(info: &str, name: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned))
}

/// Number of calls of `command` at `node`.
fn calls(node: &RedisServer, command: &str) -> u64 {
    calls_at(node.port, command)
}

fn calls_at(port: u16, command: &str) -> u64 {
    let info = Client::connect(port).command(&[b"INFO", b"commandstats"]);
    let line = field(&String::from_utf8_lossy(&info), &format!("cmdstat_{command}"));
    line.map_or(0, |line| line.trim_start_matches("calls=").split(',').next().unwrap().parse().unwrap())
}

fn forget_calls(nodes: &[RedisServer]) {
    for node in nodes {
        assert_eq!(node.connect().ask("CONFIG RESETSTAT"), "+OK\\r\\n");
    }
}

#[test]
fn reads_reach_replicas_and_writes_reach_primaries() {
    let world = World::new(2, &["--read-from=prefer-replica"]);
    let (mut writer, mut reader) = (world.connect(), world.connect());
    let keys = [world.key(0), world.key(1)];
    for key in &keys {
        assert_eq!(writer.ask(&format!("SET {key} v")), "+OK\\r\\n");
        world.wait_until_replicas_answer(&mut reader, key);
    }
    (0..2).for_each(|shard| world.wait_for_copy(shard, &keys[shard]));
    forget_calls(&world.primaries);
    forget_calls(&world.replicas);
    for _ in 0..50 {
        for key in &keys {
            assert_eq!(reader.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n");
        }
        assert_eq!(
            reader.ask(&format!("MGET {} {}", keys[0], keys[1])),
            "*2\\r\\n$1\\r\\nv\\r\\n$1\\r\\nv\\r\\n"
        );
        assert_eq!(
            reader.command(&[b"EVAL_RO", b"return redis.call('get', KEYS[1])", b"1", keys[0].as_bytes()]),
            b"$1\r\nv\r\n"
        );
    }
    for (primary, replica) in world.primaries.iter().zip(&world.replicas) {
        assert_eq!((calls(replica, "mget"), calls(primary, "mget")), (50, 0));
        assert_eq!(calls(primary, "get"), 0);
    }
    assert_eq!((calls(&world.replicas[0], "get"), calls(&world.replicas[1], "get")), (100, 50));
    assert_eq!(calls(&world.replicas[0], "eval_ro"), 50);
    // Requests that a replica would refuse never reach it.
    assert_eq!(reader.ask(&format!("SET {} w", keys[0])), "+OK\\r\\n");
    assert_eq!(calls(&world.primaries[0], "set"), 1);
}

#[test]
fn replicas_are_not_contacted_by_default() {
    let world = World::new(1, &[]);
    let (mut client, mut other, key) = (world.connect(), world.connect(), world.key(0));
    client.ask(&format!("SET {key} v"));
    world.wait_for_copy(0, &key);
    for _ in 0..20 {
        assert_eq!(other.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n");
    }
    let ours = |node: &RedisServer| node.connect().ask("CLIENT LIST").matches("cmd=get").count();
    assert_eq!((calls(&world.replicas[0], "get"), ours(&world.replicas[0])), (0, 0));
    assert_eq!(other.ask("READONLY"), "+OK\\r\\n");
    world.wait_until_replicas_answer(&mut other, &key);
    assert_eq!(other.ask("READWRITE"), "+OK\\r\\n");
    let before = world.count("total_replica_reads");
    for reader in [&mut client, &mut other] {
        for _ in 0..20 {
            assert_eq!(reader.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n");
        }
    }
    assert_eq!(world.count("total_replica_reads"), before);
}

#[test]
fn each_listener_has_a_policy_of_its_own() {
    let directory = Directory::new();
    let socket = directory.path("reads");
    let unix = format!("--listener=unix:{} read-from=prefer-replica", socket.display());
    let flags = ["--listener=127.0.0.1:0", "--listener=127.0.0.1:0 read-from=replica", &unix];
    let world = World::new(1, &flags);
    let port = second_port(&world.proxy);
    let (mut fresh, key) = (world.connect(), world.key(0));
    let (mut reads, mut by_socket) = (Client::connect(port), Client::over(Wire::unix(&socket)));
    assert_eq!(fresh.ask(&format!("SET {key} v")), "+OK\\r\\n");
    world.wait_for_copy(0, &key);
    world.wait_until_replicas_answer(&mut reads, &key);
    let get = format!("GET {key}");
    for (client, at_replica) in [(&mut fresh, 0), (&mut reads, 20), (&mut by_socket, 20)] {
        forget_calls(&world.primaries);
        forget_calls(&world.replicas);
        (0..20).for_each(|_| assert_eq!(client.ask(&get), "$1\\r\\nv\\r\\n"));
        let seen = (calls(&world.primaries[0], "get"), calls(&world.replicas[0], "get"));
        assert_eq!(seen, (20 - at_replica, at_replica));
    }
    // Writes go to the primary, and their client reads them back.
    assert_eq!(reads.ask(&format!("SET {key} w")), "+OK\\r\\n");
    assert_eq!(reads.ask(&get), "$1\\r\\nw\\r\\n");
    assert_eq!(calls(&world.primaries[0], "set"), 1);
    let info =
        |client: &mut Client| String::from_utf8_lossy(&client.command(&[b"CLIENT", b"INFO"])).into_owned();
    let [fresh, reads, by_socket] = [&mut fresh, &mut reads, &mut by_socket].map(info);
    assert!(fresh.contains(&format!(" laddr=127.0.0.1:{} ", world.proxy.port)), "{fresh}");
    assert!(reads.contains(&format!(" laddr=127.0.0.1:{port} ")), "{reads}");
    assert!(by_socket.contains(&format!(" laddr={}:0 ", socket.display())), "{by_socket}");
}

/// The port of the second listener that is announced.
fn second_port(proxy: &Proxy) -> u16 {
    let said = proxy.output();
    let (_, rest) = said.split_once(", 127.0.0.1:").unwrap_or_else(|| panic!("a second port: {said}"));
    rest.split(|letter: char| !letter.is_ascii_digit())
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port")
}

#[test]
fn a_listener_with_tls_has_a_policy_too() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let identity = identity_flags(&directory, "", "server", &authority.sign(&["127.0.0.1"]));
    let second = "--listener=127.0.0.1:0 tls read-from=replica";
    let world = World::new(1, &["--listener=127.0.0.1:0", second, &identity[0], &identity[1]]);
    let port = second_port(&world.proxy);
    let (mut fresh, key) = (world.connect(), world.key(0));
    assert_eq!(fresh.ask(&format!("SET {key} v")), "+OK\\r\\n");
    let mut reads = Dialect::trusting(&authority).connect(port).expect("they agree");
    world.wait_for_copy(0, &key);
    world.wait_until_replicas_answer(&mut reads, &key);
    let before = world.count("total_replica_reads");
    for client in [&mut fresh, &mut reads] {
        (0..10).for_each(|_| assert_eq!(client.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n"));
    }
    assert_eq!(world.count("total_replica_reads"), before + 10);
}

#[test]
fn reads_stay_in_the_zone_of_which_the_map_says_that_it_is_ours() {
    let primary = RedisServer::start_with(&AT_ONCE);
    let port = primary.port.to_string();
    let options = ["--replicaof", "127.0.0.1", &port, "--bind", "127.0.0.1", "127.0.0.2"];
    let (far, near) = (replica_of(&primary), RedisServer::start_with(&[&AT_ONCE[..], &options].concat()));
    [&far, &near].into_iter().for_each(wait_for_link);
    let nodes = format!("--nodes=127.0.0.1:{port}|127.0.0.1:{}|127.0.0.2:{}", far.port, near.port);
    let zones = ["--zones=127.0.0.0/8=far,127.0.0.2=near", "--zone=near", "--read-from=zone"];
    let usual = ["--host=127.0.0.1", "--port=0", "--workers=1", nodes.as_str()];
    let proxy = Proxy::start(&[&usual[..], &zones].concat());
    let world = World { primaries: vec![primary], replicas: vec![near], proxy };
    let mut client = world.connect();
    assert_eq!(client.ask("SET k v"), "+OK\\r\\n");
    world.wait_for_copy(0, "k");
    world.wait_until_replicas_answer(&mut client, "k");
    forget_calls(&world.primaries);
    forget_calls(std::slice::from_ref(&far));
    forget_calls(&world.replicas);
    for _ in 0..20 {
        let mut client = world.connect();
        (0..5).for_each(|_| assert_eq!(client.ask("GET k"), "$1\\r\\nv\\r\\n"));
    }
    let seen = [&world.primaries[0], &far, &world.replicas[0]].map(|node| calls(node, "get"));
    assert_eq!(seen, [0, 0, 100]);
    let info = String::from_utf8_lossy(&client.command(&[b"INFO", b"stats"])).into_owned();
    let row = field(&info, "reads_from_zone").expect("it is counted");
    let at_replica = row.strip_prefix("replica=").and_then(|row| row.split(',').next()?.parse::<u64>().ok());
    assert!(at_replica.is_some_and(|reads| reads > 100), "{row}");
}

#[test]
fn a_client_reads_its_writes_despite_late_replicas() {
    const CLIENTS: u64 = 6;
    const ROUNDS: u64 = 10;
    const READS: u64 = 500;
    let world = World::new(2, &["--read-from=prefer-replica"]);
    let (done, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let (port, done, rounds) = (world.proxy.port, Arc::clone(&done), Arc::clone(&rounds));
            std::thread::spawn(move || write_and_read(port, id, &done, &rounds))
        })
        .collect();
    // Replicas stop again and again. When they continue, bytes of their primaries and requests of readers reach them at once,
    // in any order.
    let mut naps: Vec<Client> = world.replicas.iter().map(RedisServer::connect).collect();
    poll_until("many rounds, and many reads from replicas among them", || {
        naps.iter_mut().for_each(|nap| drop(nap.command(&[b"DEBUG", b"SLEEP", b"0.02"])));
        let reads = world.count("total_replica_reads");
        (rounds.load(Ordering::SeqCst) >= CLIENTS * ROUNDS && reads >= READS).then_some(())
    });
    done.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("no client saw an old value"));
    assert!(world.count("total_own_write_reads") > 0);
}

/// One client that writes its keys and reads them until it is stopped, sometimes in one piece.
fn write_and_read(port: u16, id: u64, done: &AtomicBool, rounds: &AtomicU64) {
    let mut client = Client::connect(port);
    let keys: Vec<String> = (0..4).map(|number| format!("own:{id}:{number}")).collect();
    for round in 1.. {
        let expected = format!("${}\\r\\n{round}\\r\\n", round.to_string().len());
        for key in &keys {
            assert_eq!(client.ask(&format!("SET {key} {round}")), "+OK\\r\\n");
        }
        // Long enough for replicas to get the writes, and to be read from.
        for _ in 0..60 {
            for key in &keys {
                assert_eq!(client.ask(&format!("GET {key}")), expected, "round {round}");
            }
        }
        // A pipeline: the first read returns the round's value, the second the next one's.
        let next = round + 1;
        let key = &keys[(round % 4) as usize];
        client.send(format!("GET {key}\r\nSET {key} {next}\r\nGET {key}\r\n").as_bytes());
        let replies = [client.read_reply(), client.read_reply(), client.read_reply()];
        let bulk = |value: u64| format!("${}\\r\\n{value}\\r\\n", value.to_string().len());
        assert_eq!(replies.map(|reply| show(&reply)), [bulk(round), "+OK\\r\\n".to_owned(), bulk(next)]);
        rounds.fetch_add(1, Ordering::SeqCst);
        if done.load(Ordering::SeqCst) {
            return;
        }
    }
}

#[test]
fn a_replica_that_dies_or_freezes_costs_no_read() {
    // Long enough for the primary on a loaded machine.
    let flags = ["--read-from=prefer-replica", "--request-timeout-ms=1000", "--connect-timeout-ms=1000"];
    let mut world = World::new(1, &flags);
    let (mut writer, mut reader, key) = (world.connect(), world.connect(), world.key(0));
    writer.ask(&format!("SET {key} v"));
    world.wait_for_copy(0, &key);
    world.wait_until_replicas_answer(&mut reader, &key);
    let pipeline = format!("GET {key}\r\n").repeat(20);
    let mut read = |times: usize| {
        for _ in 0..times {
            reader.send(pipeline.as_bytes());
            (0..20).for_each(|_| assert_eq!(reader.read_reply(), b"$1\r\nv\r\n"));
        }
    };
    read(5);
    world.replicas[0].freeze();
    read(5);
    assert!(world.count("total_replica_retries") > 0, "what it did not answer, the primary did");
    assert!(world.count("total_replica_fallbacks") > 0);
    world.replicas[0].thaw();
    world.wait_until_replicas_answer(&mut world.connect(), &key);
    read(5);
    world.replicas[0].kill();
    read(5);
    let port = world.replicas[0].port;
    let primary = world.primaries[0].port.to_string();
    let options = [&AT_ONCE[..], &["--replicaof", "127.0.0.1", &primary]].concat();
    world.replicas[0] = RedisServer::try_start(port, &options).expect("it comes back");
    world.wait_until_replicas_answer(&mut world.connect(), &key);
    read(5);
}

#[test]
fn replica_without_primary_is_skipped_and_logged_once() {
    let world = World::new(1, &["--read-from=replica"]);
    let (mut writer, mut reader, key) = (world.connect(), world.connect(), world.key(0));
    writer.ask(&format!("SET {key} v"));
    world.wait_until_replicas_answer(&mut reader, &key);
    let mut replica = world.replicas[0].connect();
    assert_eq!(replica.ask("REPLICAOF 127.0.0.1 1"), "+OK\\r\\n");
    let refused = "no replica is readable: its link to the primary is down";
    let said = || world.proxy.output().matches("replicas unavailable").count();
    let said_before = said();
    poll_until("reads to be refused", || reader.ask(&format!("GET {key}")).contains(refused).then_some(()));
    for _ in 0..20 {
        let reply = reader.ask(&format!("GET {key}"));
        assert!(reply.starts_with("-TRYAGAIN shard ") && reply.contains(refused), "{reply}");
    }
    // After the first second: before, replicas may still be connecting.
    poll_until("the log to say so", || {
        reader.ask(&format!("GET {key}"));
        (said() > said_before).then_some(())
    });
    replica.ask(&format!("REPLICAOF 127.0.0.1 {}", world.primaries[0].port));
    poll_until("reads to be answered again", || {
        (reader.ask(&format!("GET {key}")) == "$1\\r\\nv\\r\\n").then_some(())
    });
    assert_eq!(said(), said_before + 1);
}

#[test]
fn a_replica_that_lacks_too_much_is_passed_over() {
    let world = World::new(1, &["--read-from=prefer-replica", "--replica-lag-max=100kb"]);
    let (mut writer, key) = (world.connect(), world.key(0));
    writer.ask(&format!("SET {key} v"));
    world.wait_until_replicas_answer(&mut world.connect(), &key);
    // The replica gets nothing from its primary any more, but still answers: it believes in its link for a minute.
    let mut primary = world.primaries[0].connect();
    primary.ask("CONFIG SET client-output-buffer-limit 'replica 0 0 0'");
    world.replicas[0].freeze();
    let large = "x".repeat(50_000);
    for round in 0..200 {
        writer.command(&[b"SET", format!("large{round}").as_bytes(), large.as_bytes()]);
    }
    // The known lag is that of the last question to the primary, which must be after the writes. This asks it too.
    let mut reader = world.connect();
    let asked = calls(&world.primaries[0], "info");
    let mut by_us = 1;
    poll_until("the primary to be asked again by the proxy", || {
        by_us += 1;
        reader.ask("EXISTS large199");
        (calls(&world.primaries[0], "info") > asked + by_us + 2).then_some(())
    });
    world.replicas[0].thaw();
    // The replica is read from again once it has caught up, and not before: then it has the last writes.
    poll_until("the replica to be read from again", || {
        let before = world.count("total_replica_reads");
        let reply = reader.ask("EXISTS large199");
        let reads = world.count("total_replica_reads");
        assert_eq!(reply, ":1\\r\\n");
        (reads > before).then_some(())
    });
}

#[test]
fn wait_returns_when_all_shards_have_replicas() {
    let world = World::new(3, &[]);
    let (mut client, mut other) = (world.connect(), world.connect());
    let keys = [0, 1, 2].map(|shard| world.key(shard));
    for round in 0..5 {
        for key in &keys {
            assert_eq!(client.ask(&format!("SET {key} {round}")), "+OK\\r\\n");
        }
        assert_eq!(client.ask("WAIT 1 20000"), ":1\\r\\n");
        for (replica, key) in world.replicas.iter().zip(&keys) {
            assert_eq!(replica.connect().ask(&format!("GET {key}")), format!("$1\\r\\n{round}\\r\\n"));
        }
        // The links are clean for their next clients.
        assert_eq!(other.ask(&format!("BLPOP q{} 0.001", keys[1])), "*-1\\r\\n");
        assert_eq!(other.ask("WAIT 1 20000"), ":1\\r\\n");
    }
}

/// Newer nodes count for WAIT from the last write of a connection. The proxy's own write for that must go to replicas, and
/// change nothing.
#[test]
fn no_functions_added_are_a_write_that_changes_nothing() {
    let world = World::new(1, &[]);
    let mut node = world.primaries[0].connect();
    // As the proxy sends it to all.
    let nothing = b"\x0a\0\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda".to_vec();
    if server() == Server::Redis(7, 0) {
        let dump = node.command(&[b"FUNCTION", b"DUMP"]);
        assert_eq!(resp::reply::as_bulk(&dump), Some(&nothing[..]));
    }
    node.command(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=l\nredis.register_function('f',function()return 1 end)",
    ]);
    let functions = node.command(&[b"FUNCTION", b"DUMP"]);
    let offset = |node: &mut Client| {
        let info = node.command(&[b"INFO", b"replication"]);
        let offset = field(&String::from_utf8_lossy(&info), "master_repl_offset").expect("an offset");
        offset.parse::<u64>().expect("a number")
    };
    let before = offset(&mut node);
    assert_eq!(node.command(&[b"FUNCTION", b"RESTORE", &nothing, b"APPEND"]), b"+OK\r\n");
    assert!(offset(&mut node) > before);
    assert_eq!(node.command(&[b"FUNCTION", b"DUMP"]), functions);
    assert_eq!(world.connect().ask("WAIT 1 20000"), ":1\\r\\n");
    assert_eq!(world.replicas[0].connect().command(&[b"FUNCTION", b"DUMP"]), functions);
}

#[test]
fn a_replica_that_does_not_answer_is_not_counted() {
    let world = World::new(3, &[]);
    let (mut client, mut other, key) = (world.connect(), world.connect(), world.key(1));
    assert_eq!(client.ask("WAIT 1 20000"), ":1\\r\\n");
    world.replicas[1].freeze();
    assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n");
    let began = Instant::now();
    assert_eq!(client.ask("WAIT 1 300"), ":0\\r\\n");
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    // Without end, unless another client ends it.
    let id = resp::reply::as_integer(&client.command(&[b"CLIENT", b"ID"])).expect("a number");
    client.send(b"WAIT 1 0\r\n");
    // The nodes that can answer have done so by then: the client waits at one node alone.
    let mut primaries: Vec<Client> = world.primaries.iter().map(RedisServer::connect).collect();
    let mut has_third_wait = |primary: usize, blocked: &str| {
        let mut info = |section: &[u8]| {
            String::from_utf8_lossy(&primaries[primary].command(&[b"INFO", section])).into_owned()
        };
        let calls =
            field(&info(b"commandstats"), "cmdstat_wait").is_some_and(|calls| calls.starts_with("calls=3,"));
        calls && field(&info(b"clients"), "blocked_clients").is_some_and(|count| count == blocked)
    };
    poll_until("a client that waits at one node alone", || {
        (has_third_wait(0, "0") && has_third_wait(1, "1") && has_third_wait(2, "0")).then_some(())
    });
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), ":1\\r\\n");
    assert_eq!(client.read_reply(), b":0\r\n");
    world.replicas[1].thaw();
    assert_eq!(client.ask("WAIT 1 20000"), ":1\\r\\n");
    assert_eq!(world.replicas[1].connect().ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n");
}

#[test]
fn wait_after_a_primary_loss_is_an_error_once() {
    let mut world = World::new(1, &[]);
    let (mut client, key) = (world.connect(), world.key(0));
    assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n");
    let port = world.primaries[0].port;
    world.primaries[0].kill();
    poll_until("the shard to be refused", || client.ask("GET x").starts_with("-TRYAGAIN ").then_some(()));
    // Its data is lost.
    world.primaries[0] = RedisServer::try_start(port, &AT_ONCE).expect("it comes back");
    poll_until("the shard again", || (client.ask("GET x") == "$-1\\r\\n").then_some(()));
    let reply = client.ask("WAIT 0 0");
    assert!(reply.starts_with("-ERR a primary, or the connection to it, was lost since"), "{reply}");
    assert_eq!(client.ask("WAIT 1 20000"), ":1\\r\\n");
    assert_eq!(world.connect().ask("WAIT 1 20000"), ":1\\r\\n");
}

#[test]
fn shard_without_primary_fails_or_reads_its_replica() {
    for mode in ["fail", "replica"] {
        let mut world = World::new(2, &[&format!("--on-node-down={mode}")]);
        let mut client = world.connect();
        let keys = [world.key(0), world.key(1)];
        for key in &keys {
            assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n");
        }
        world.wait_for_copy(0, &keys[0]);
        world.primaries[0].kill();
        let get = format!("GET {}", keys[0]);
        if mode == "replica" {
            poll_until("the replica to answer", || (client.ask(&get) == "$1\\r\\nv\\r\\n").then_some(()));
        } else {
            poll_until("the shard to be refused", || {
                client.ask(&get).starts_with("-TRYAGAIN ").then_some(())
            });
        }
        for _ in 0..20 {
            let reply = client.ask(&get);
            match mode {
                "replica" => assert_eq!(reply, "$1\\r\\nv\\r\\n"),
                _ => assert!(reply.starts_with("-TRYAGAIN shard "), "{reply}"),
            }
            let reply = client.ask(&format!("SET {} w", keys[0]));
            assert!(reply.starts_with("-TRYAGAIN shard "), "{mode}: {reply}");
            assert_eq!(client.ask(&format!("GET {}", keys[1])), "$1\\r\\nv\\r\\n");
        }
    }
}

#[test]
fn a_frozen_primary_is_covered_for_too() {
    // Long enough for the replica on a loaded machine.
    let flags = ["--on-node-down=replica", "--request-timeout-ms=1000", "--connect-timeout-ms=1000"];
    let world = World::new(1, &flags);
    let (mut client, key) = (world.connect(), world.key(0));
    client.ask(&format!("SET {key} v"));
    world.wait_for_copy(0, &key);
    world.primaries[0].freeze();
    let get = format!("GET {key}");
    poll_until("the replica to answer", || (client.ask(&get) == "$1\\r\\nv\\r\\n").then_some(()));
    for _ in 0..20 {
        assert_eq!(client.ask(&get), "$1\\r\\nv\\r\\n");
    }
    world.primaries[0].thaw();
    poll_until("the primary to be written to again", || {
        (client.ask(&format!("SET {key} w")) == "+OK\\r\\n").then_some(())
    });
}

#[test]
fn keys_of_a_dead_node_go_where_twemproxy_puts_them() {
    const KEYS: usize = 300;
    let mut prng = Prng::new(seed_for("keys_of_a_dead_node_go_where_twemproxy_puts_them"));
    let mut nodes: Vec<RedisServer> = (0..4).map(|_| RedisServer::start()).collect();
    let ports: Vec<u16> = nodes.iter().map(|node| node.port).collect();
    let list: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}:1")).collect();
    let directory = crate::harness::certificates::Directory::new();
    for distribution in ["ketama", "modula"] {
        let port = free_port();
        let nodes_of_pool = list.iter().map(|node| format!("   - {node}\n")).collect::<String>();
        let config = directory.write(
            &format!("{distribution}.yml"),
            &format!(
                "pool:\n  listen: 127.0.0.1:{port}\n  hash: fnv1a_64\n  distribution: {distribution}\n  redis: true\n  \
                 auto_eject_hosts: true\n  server_retry_timeout: 600000\n  server_failure_limit: 1\n  timeout: 2000\n  \
                 servers:\n{nodes_of_pool}"
            ),
        );
        let mut command = Command::new("nutcracker");
        command.args(["-c", &config, "-a", "127.0.0.1", "-s", &free_port().to_string()]);
        let _twemproxy = Process::spawn(command, "nutcracker");
        let flags = [
            format!("--distribution={distribution}"),
            "--hash=fnv1a_64".to_owned(),
            "--tag-rule=none".to_owned(),
            "--on-node-down=remap".to_owned(),
            "--node-failure-limit=1".to_owned(),
            "--node-retry-timeout-ms=0".to_owned(),
            "--slow-start-ms=500".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let proxy = Proxy::over_ports(&ports, &[&["--workers=1"], &flags[..]].concat());
        let (mut theirs, mut ours) = (Client::connect(port), Client::connect(proxy.port));
        // Consecutive numbers would be near each other on the ring.
        let keys: Vec<String> = (0..KEYS).map(|_| format!("{:x}", prng.next_u64())).collect();
        let counted = calls(&nodes[1], "set");
        keys.iter().for_each(|key| drop(ours.ask(&format!("SET {key} t"))));
        let at_home = calls(&nodes[1], "set") - counted;
        nodes[1].kill();
        // The first requests show each of them that the node is dead.
        for client in [&mut theirs, &mut ours] {
            let mut takes = |key: &String| client.ask(&format!("SET {key} u")) == "+OK\\r\\n";
            poll_until("all keys to be taken", || keys.iter().all(&mut takes).then_some(()));
        }
        for key in &keys {
            assert_eq!(theirs.ask(&format!("SET {key} v")), "+OK\\r\\n");
            assert_eq!(ours.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n", "{key}");
        }
        // The node comes back once it has answered, and its keys with it, step by step and to the last.
        nodes[1] = RedisServer::start_on(ports[1]);
        let mut before = 0;
        poll_until("the node to get its keys back", || {
            let counted = calls(&nodes[1], "set");
            keys.iter().for_each(|key| assert_eq!(ours.ask(&format!("SET {key} w")), "+OK\\r\\n"));
            let now = calls(&nodes[1], "set") - counted;
            assert!(now >= before, "{now} of its keys are at home, and {before} were before");
            before = now;
            (now == at_home).then_some(())
        });
    }
}

#[test]
fn replicas_of_a_cluster_are_read_from_and_take_over() {
    let local = Local::start(&["--cluster=6", "--failover-ms=1000"]);
    let nodes = local.ports("nodes");
    let seed = format!("--cluster=127.0.0.1:{}", nodes[0]);
    let usual = ["--host=127.0.0.1", "--port=0", "--workers=1"];
    let zones = ["--zones=127.0.0.0/8=here", "--zone=here"];
    let proxy = Proxy::start(&[&usual[..], &zones, &[&seed, "--read-from=prefer-replica"]].concat());
    let (mut writer, mut reader) = (Client::connect(proxy.port), Client::connect(proxy.port));
    let keys: Vec<String> = (0..60).map(|number| format!("key{number}")).collect();
    for key in &keys {
        poll_until("a write", || (writer.ask(&format!("SET {key} 0")) == "+OK\\r\\n").then_some(()));
    }
    let replicas: Vec<u16> = nodes.into_iter().filter(|&port| !is_primary(port)).collect();
    assert_eq!(replicas.len(), 3);
    let info = String::from_utf8_lossy(&reader.command(&[b"INFO", b"nodes"])).into_owned();
    let in_our_zone =
        info.lines().filter(|line| line.contains("_replica1:") && line.contains(",in_our_zone=yes,"));
    assert_eq!(in_our_zone.count(), 3, "{info}");
    poll_until("reads at each replica", || {
        for key in &keys {
            let reply = reader.ask(&format!("GET {key}"));
            assert!(!reply.starts_with('-'), "{reply}");
        }
        replicas.iter().all(|&port| calls_at(port, "get") > 20).then_some(())
    });
    // Until a primary fails, and after another has taken over, every client reads its own writes.
    for round in 1..=40 {
        for key in &keys {
            assert_eq!(writer.ask(&format!("SET {key} {round}")), "+OK\\r\\n");
        }
        for key in &keys {
            let expected = format!("${}\\r\\n{round}\\r\\n", round.to_string().len());
            assert_eq!(writer.ask(&format!("GET {key}")), expected);
        }
        if round == 20 {
            let primary = local.ports("nodes").into_iter().find(|&port| is_primary(port));
            kill_node(primary.expect("there are three"));
            for key in &keys {
                let set = format!("SET {key} {round}");
                poll_until("a write after the failover", || (writer.ask(&set) == "+OK\\r\\n").then_some(()));
            }
        }
    }
}
