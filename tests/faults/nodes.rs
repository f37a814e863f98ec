//! Nodes that die, come back, freeze and thaw.

use super::{assert_not_sent, assert_timed_out, assert_unavailable};
use crate::harness::stamp::StampedClients;
use crate::harness::{Client, PATIENCE, Proxy, RedisServer, World, kernel, poll_until, show};
use std::time::{Duration, Instant};

#[test]
fn a_killed_node_takes_only_its_own_keys_with_it() {
    let mut world = World::with_shards(4);
    let mut client = world.connect();
    let keys = world.key_on_each("k");
    for key in &keys {
        assert_eq!(client.ask(&format!("SET {key} before")), "+OK\\r\\n");
    }
    world.nodes[1].kill();
    for _ in 0..50 {
        for (shard, key) in keys.iter().enumerate() {
            let reply = client.command(&[b"GET", key.as_bytes()]);
            match shard {
                1 => assert_unavailable(&reply, &world.shard_name(1)),
                _ => assert_eq!(show(&reply), "$6\\r\\nbefore\\r\\n", "shard {shard}"),
            }
        }
    }
}

#[test]
fn the_same_holds_within_one_pipeline() {
    let mut world = World::with_shards(4);
    let mut client = world.connect();
    let keys = world.key_on_each("k");
    client.command(&[b"PING"]);
    world.nodes[2].kill();
    let line = keys.iter().map(|key| format!("INCR {key}\r\n")).collect::<String>();
    client.send(line.repeat(20).as_bytes());
    for round in 1..=20 {
        for shard in 0..4 {
            let reply = client.read_reply();
            match shard {
                2 => assert_unavailable(&reply, &world.shard_name(2)),
                _ => assert_eq!(show(&reply), format!(":{round}\\r\\n"), "shard {shard}"),
            }
        }
    }
}

#[test]
fn a_node_that_comes_back_serves_again() {
    let mut world = World::with_shards(2);
    let mut client = world.connect();
    let key = world.key_on(0, "k");
    for round in 0..3 {
        assert_eq!(client.ask(&format!("SET {key} {round}")), "+OK\\r\\n");
        let port = world.nodes[0].port;
        world.nodes[0].kill();
        assert_unavailable(&client.command(&[b"GET", key.as_bytes()]), &world.shard_name(0));
        world.nodes[0] = RedisServer::start_on(port);
        poll_until("the first answer of the node that came back", || {
            (client.ask(&format!("GET {key}")) == "$-1\\r\\n").then_some(())
        });
    }
}

#[test]
fn nodes_that_are_down_at_the_start_are_no_reason_not_to_start() {
    let ports = crate::harness::processes::free_ports(2);
    let proxy = Proxy::over_ports(&ports, &[]);
    let mut client = Client::connect(proxy.port);
    assert_eq!(client.ask("PING"), "+PONG\\r\\n");
    let shard = |port: u16| format!("127.0.0.1:{port}");
    let key = (0..).map(|n| format!("k{n}")).find(|key| crate::harness::shard_of(key.as_bytes(), 2) == 1);
    let key = key.expect("every shard owns some key");
    assert_not_sent(&client.command(&[b"GET", key.as_bytes()]), &shard(ports[1]));
    let _node = RedisServer::start_on(ports[1]);
    poll_until("the node to be found", || (client.ask(&format!("GET {key}")) == "$-1\\r\\n").then_some(()));
}

#[test]
fn frozen_node_costs_only_its_clients_one_timeout() {
    // One request times out within the test, the other does not. With one worker each, all links exist.
    let world = World::with_flags(4, &["--workers=1", "--request-timeout-ms=1000"]);
    let patience = ["--workers=1", "--request-timeout-ms=600000", "--connect-timeout-ms=600000"];
    let patient = Proxy::over(&world.nodes, &patience);
    let keys = world.key_on_each("k");
    for proxy in [&world.proxy, &patient] {
        let mut client = Client::connect(proxy.port);
        keys.iter().for_each(|key| assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n"));
    }
    let mut client = world.connect();
    let (mut waiting, mut other) = (Client::connect(patient.port), Client::connect(patient.port));
    world.nodes[3].freeze();
    let asked = Instant::now();
    client.send_command(&[b"GET", keys[3].as_bytes()]);
    waiting.send_command(&[b"GET", keys[3].as_bytes()]);
    for _ in 0..100 {
        for key in &keys[..3] {
            assert_eq!(other.ask(&format!("GET {key}")), "$1\\r\\nv\\r\\n");
        }
    }
    assert_timed_out(&client.read_reply(), &world.shard_name(3), 1000);
    assert!(asked.elapsed() >= Duration::from_millis(990), "the timeout took {:?}", asked.elapsed());
    world.nodes[3].thaw();
    assert_eq!(show(&waiting.read_reply()), "$1\\r\\nv\\r\\n");
    poll_until("the thawed node to answer", || {
        (client.ask(&format!("GET {}", keys[3])) == "$1\\r\\nv\\r\\n").then_some(())
    });
}

#[test]
fn a_late_reply_is_nobodys_answer() {
    let world = World::with_flags(2, &["--request-timeout-ms=150"]);
    let mut client = world.connect();
    let key = world.key_on(0, "k");
    wait_for_shard(&world, 0, &mut client);
    for round in 0..10 {
        world.nodes[0].freeze();
        client.send_command(&[b"SET", key.as_bytes(), format!("late {round}").as_bytes()]);
        assert_timed_out(&client.read_reply(), &world.shard_name(0), 150);
        // Sent before the late reply, answered after it.
        client.send_command(&[b"STRLEN", key.as_bytes()]);
        world.nodes[0].thaw();
        let reply = client.read_reply();
        assert!(reply.starts_with(b":") || reply.starts_with(b"-"), "STRLEN got {}", show(&reply));
        poll_until("the shard to answer again", || {
            let reply = client.command(&[b"GET", key.as_bytes()]);
            assert!(reply.starts_with(b"$") || reply.starts_with(b"-"), "GET got {}", show(&reply));
            reply.starts_with(b"$").then_some(())
        });
    }
}

#[test]
fn no_reply_goes_to_a_wrong_request_while_nodes_freeze_and_thaw() {
    let world = World::with_flags(4, &["--request-timeout-ms=100"]);
    let clients = StampedClients::start(world.proxy.port, 8, 16);
    let mut witness = world.connect();
    for round in 0..6 {
        wait_for_shard(&world, round % 4, &mut witness);
        let answered = clients.tally.answered();
        let enough = || clients.tally.answered() >= answered + 5000;
        poll_until("many requests to be answered", || enough().then_some(()));
        let unknown = clients.tally.unknown();
        world.nodes[round % 4].freeze();
        poll_until("some requests to time out", || (clients.tally.unknown() > unknown).then_some(()));
        world.nodes[round % 4].thaw();
    }
    clients.finish();
}

/// Waits until a shard answers again.
fn wait_for_shard(world: &World, shard: usize, witness: &mut Client) {
    let key = world.key_on(shard, "witness");
    poll_until("the shard to answer again", || {
        (witness.ask(&format!("EXISTS {key}")) == ":0\\r\\n").then_some(())
    });
}

#[test]
fn replies_match_requests_while_nodes_cut_connections() {
    let world = World::with_shards(4);
    let clients = StampedClients::start(world.proxy.port, 8, 16);
    let mut admins: Vec<Client> = world.nodes.iter().map(RedisServer::connect).collect();
    for round in 0..40 {
        assert!(admins[round % 4].ask("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
        let answered = clients.tally.answered();
        poll_until("many requests to be answered", || {
            (clients.tally.answered() >= answered + 1000).then_some(())
        });
    }
    let tally = clients.finish();
    assert!(tally.unknown() + tally.refused() > 0, "the cuts were noticed: {tally:?}");
}

#[test]
fn replies_match_requests_while_nodes_are_killed() {
    let mut world = World::with_shards(4);
    let clients = StampedClients::start(world.proxy.port, 4, 16);
    for round in 0..4 {
        let port = world.nodes[round].port;
        world.nodes[round].kill();
        let faults = clients.tally.refused() + clients.tally.unknown();
        poll_until("some requests to fail", || {
            (clients.tally.refused() + clients.tally.unknown() >= faults + 10).then_some(())
        });
        world.nodes[round] = RedisServer::start_on(port);
        let answered = clients.tally.answered();
        poll_until("many requests to be answered", || {
            (clients.tally.answered() >= answered + 2000).then_some(())
        });
    }
    clients.finish();
}

#[test]
fn split_command_with_a_dead_shard_is_one_named_error() {
    let mut world = World::with_shards(4);
    let mut client = world.connect();
    let keys = world.key_on_each("k");
    let all = keys.join(" ");
    let pairs = keys.iter().map(|key| format!("{key} {key}")).collect::<Vec<_>>().join(" ");
    assert_eq!(client.ask(&format!("MSET {pairs}")), "+OK\\r\\n");
    let port = world.nodes[2].port;
    world.nodes[2].kill();
    for command in
        [format!("MGET {all}"), format!("MSET {pairs}"), format!("EXISTS {all}"), "DBSIZE".to_owned()]
    {
        let reply = client.ask(&command);
        assert!(reply.starts_with('-') && reply.contains(&world.shard_name(2)), "{command}: {reply}");
        assert_eq!(reply.matches("\\r\\n").count(), 1, "{command}: {reply}");
        assert_eq!(client.ask("ECHO next"), "$4\\r\\nnext\\r\\n", "{command}");
    }
    world.nodes[2] = RedisServer::start_on(port);
    poll_until("the shard to be back", || {
        client.ask(&format!("MSET {pairs}")).starts_with('+').then_some(())
    });
    let expected: String = keys.iter().map(|key| format!("${}\\r\\n{key}\\r\\n", key.len())).collect();
    assert_eq!(client.ask(&format!("MGET {all}")), format!("*4\\r\\n{expected}"));
}

#[test]
fn split_command_with_a_frozen_shard_drops_late_parts() {
    // Long enough for the other shards on a loaded machine.
    let world = World::with_flags(4, &["--request-timeout-ms=500"]);
    let mut client = world.connect();
    let keys = world.key_on_each("k");
    let all = keys.join(" ");
    for _ in 0..5 {
        world.nodes[1].freeze();
        let reply = client.ask(&format!("MGET {all}"));
        assert!(reply.starts_with('-') && reply.contains(&world.shard_name(1)), "{reply}");
        world.nodes[1].thaw();
        assert_eq!(client.ask("ECHO next"), "$4\\r\\nnext\\r\\n");
        poll_until("a whole answer", || {
            let reply = client.ask(&format!("MGET {all}"));
            assert!(
                reply == "*4\\r\\n$-1\\r\\n$-1\\r\\n$-1\\r\\n$-1\\r\\n" || reply.starts_with('-'),
                "{reply}"
            );
            reply.starts_with('*').then_some(())
        });
    }
}

#[test]
fn an_error_of_a_node_reaches_the_client_as_it_is() {
    let world = World::with_shards(2);
    let mut client = world.connect();
    let key = world.key_on(0, "k");
    let mut node = world.nodes[0].connect();
    assert_eq!(node.ask("CONFIG SET maxmemory 1"), "+OK\\r\\n");
    let direct = node.ask(&format!("SET {key} v"));
    assert!(direct.starts_with("-OOM "), "{direct}");
    assert_eq!(client.ask(&format!("SET {key} v")), direct);
    assert_eq!(node.ask("CONFIG SET maxmemory 0"), "+OK\\r\\n");
    assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n");
}

#[test]
fn a_frozen_node_with_many_waiting_clients_leaks_nothing() {
    let world = World::with_flags(2, &["--request-timeout-ms=200"]);
    let key = world.key_on(0, "k");
    let mut client = world.connect();
    client.ask(&format!("GET {key}"));
    let before = kernel::open_files(world.proxy.pid());
    for _ in 0..5 {
        world.nodes[0].freeze();
        let mut clients: Vec<Client> = (0..50).map(|_| world.connect()).collect();
        for client in &mut clients {
            client.send_command(&[b"GET", key.as_bytes()]);
        }
        for client in &mut clients {
            assert!(client.read_reply().starts_with(b"-"));
        }
        world.nodes[0].thaw();
    }
    poll_until("the shard to answer again", || {
        (client.ask(&format!("GET {key}")) == "$-1\\r\\n").then_some(())
    });
    // A small difference is for links that are being made or closed.
    let settled = || kernel::open_files(world.proxy.pid()) <= before.map(|count| count + 4);
    assert!(
        crate::harness::poll_for(PATIENCE, || settled().then_some(())).is_some(),
        "descriptors were leaked"
    );
}
