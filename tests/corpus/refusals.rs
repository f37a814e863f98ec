//! Commands that would stop, leave or take over a shared link: one line of refusal each.

use crate::harness::client::{bulk, request};
use crate::harness::{World, show};

/// Requests that must not reach a node for any client.
const NEVER_FORWARDED: &[&str] = &[
    "SHUTDOWN",
    "SHUTDOWN NOSAVE",
    "DEBUG SLEEP 5",
    "DEBUG SEGFAULT",
    "REPLICAOF 127.0.0.1 1",
    "SLAVEOF 127.0.0.1 1",
    "FAILOVER",
    "SWAPDB 0 1",
    "MODULE LOAD /nosuch.so",
    "MIGRATE 127.0.0.1 1 key 0 1000",
    "SYNC",
    "PSYNC ? -1",
    "REPLCONF listening-port 1",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "CLUSTER RESET",
    "CONFIG SET maxmemory 1",
];

/// Requests that Redis answers with several replies, with none, or by another protocol from then on.
const NOT_ONE_REPLY_IN_REDIS: &[&str] = &["SYNC", "PSYNC ? -1", "REPLCONF ACK 0"];

#[test]
fn dangerous_commands_are_refused_and_reach_no_node() {
    let world = World::with_shards(2);
    let mut client = world.connect();
    for command in NEVER_FORWARDED {
        assert!(client.ask(command).starts_with("-ERR "), "{command}");
        assert_eq!(client.ask("ECHO marker"), "$6\\r\\nmarker\\r\\n", "{command}");
    }
    // Users are ours, and so are protocols: see docs/users.md.
    assert_eq!(client.ask("ACL SETUSER evil on nopass +@all ~*"), "+OK\\r\\n");
    assert!(client.ask("HELLO 3").starts_with("%7"));
    for node in &world.nodes {
        assert!(!node.connect().ask("ACL LIST").contains("evil"));
        let replies = node.connect().command(&[b"INFO", b"commandstats"]);
        let seen = String::from_utf8_lossy(&replies).to_lowercase();
        for command in NEVER_FORWARDED {
            let name = command.split(' ').next().expect("a name").to_lowercase();
            // The proxy itself asks for the nodes' tables; no other of these commands may appear.
            if !matches!(name.as_str(), "client" | "config" | "cluster" | "acl") {
                assert!(!seen.contains(&format!("cmdstat_{name}:")), "{command} reached a node:\n{seen}");
            }
        }
        assert!(node.connect().ask("ROLE").contains("master"));
        assert_eq!(
            node.connect().ask("CONFIG GET maxmemory"),
            "*2\\r\\n$9\\r\\nmaxmemory\\r\\n$1\\r\\n0\\r\\n"
        );
    }
}

#[test]
fn every_command_has_one_reply_and_the_next_has_its_own() {
    let world = World::with_shards(2);
    for command in NOT_ONE_REPLY_IN_REDIS {
        // One connection each: some of these may be carried one day, and change the session.
        let mut client = world.connect();
        let marker = format!("marker behind {command}");
        let mut bytes = request(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        bytes.extend(request(&[b"ECHO", marker.as_bytes()]));
        client.send(&bytes);
        assert!(client.read_reply().starts_with(b"-"), "{command} is refused");
        assert_eq!(show(&client.read_reply()), show(&bulk(marker.as_bytes())), "{command}");
    }
}
