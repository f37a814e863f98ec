//! Nodes that are up and refuse requests. Clients get their errors unchanged, and a node that loads its data is not used before
//! it has.

use crate::harness::certificates::Directory;
use crate::harness::{Client, Proxy, RedisServer, World, poll_until, show};
use std::time::Instant;

#[test]
fn errors_of_troubled_nodes_reach_clients_verbatim() {
    let directory = Directory::new();
    let folder = directory.path("data");
    std::fs::create_dir(&folder).expect("a folder");
    let options = ["--dir", folder.to_str().expect("it is text"), "--save", "3600 1"];
    let node = RedisServer::start_with(&options);
    let proxy = Proxy::over(std::slice::from_ref(&node), &[]);
    let (mut client, mut direct) = (Client::connect(proxy.port), node.connect());
    assert_eq!(client.ask("SET k v"), "+OK\\r\\n");
    let mut meets = |word: &str| {
        let refusal = direct.ask("SET k w");
        assert!(refusal.starts_with(word), "{refusal}");
        assert_eq!(client.ask("SET k w"), refusal);
        assert_eq!(client.ask("GET k"), "$1\\r\\nv\\r\\n", "what it does not refuse is served");
    };
    let mut admin = node.connect();
    assert_eq!(admin.ask("CONFIG SET min-replicas-to-write 1"), "+OK\\r\\n");
    meets("-NOREPLICAS ");
    assert_eq!(admin.ask("CONFIG SET min-replicas-to-write 0"), "+OK\\r\\n");
    // The node cannot save any more.
    std::fs::remove_dir_all(&folder).expect("it is ours");
    admin.ask("BGSAVE");
    poll_until("a save that has failed", || {
        admin.ask("INFO persistence").contains("rdb_last_bgsave_status:err").then_some(())
    });
    meets("-MISCONF ");
    assert_eq!(admin.ask("CONFIG SET stop-writes-on-bgsave-error no"), "+OK\\r\\n");
    assert_eq!(client.ask("SET k w"), "+OK\\r\\n");
}

/// twemproxy #369: a node that answers its PING while it loads is not ready.
#[test]
fn a_node_that_loads_is_not_used_before_it_has_all() {
    const KEYS: usize = 300;
    let directory = Directory::new();
    let folder = directory.path("data");
    std::fs::create_dir(&folder).expect("a folder");
    let folder = folder.to_str().expect("it is text");
    let options = ["--dir", folder];
    // Long enough that it looks at its sockets every ten keys.
    let value = |number: usize| format!("{number:0>100}");
    let mut node = RedisServer::start_with(&options);
    let proxy = Proxy::over(std::slice::from_ref(&node), &[]);
    let mut client = Client::connect(proxy.port);
    for number in 0..KEYS {
        assert_eq!(client.ask(&format!("SET key{number} {}", value(number))), "+OK\\r\\n");
    }
    assert_eq!(node.connect().ask("SAVE"), "+OK\\r\\n");
    let port = node.port;
    node.kill();
    // Each key takes 20 ms to load, and the node looks at its sockets meanwhile: long enough for several attempts.
    let slow = ["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"];
    let options = [&options[..], &slow].concat();
    // This returns when the node has answered PING, past the proxy, which gets requests all the time.
    let starting = std::thread::spawn({
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        move || {
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            RedisServer::try_start(port, &options)
        }
    });
    let last = format!("GET key{}", KEYS - 1);
    let mut saw_loading = false;
    poll_until("the last key", || {
        let reply = client.ask(&last);
        saw_loading |= reply.contains("LOADING");
        if reply.starts_with('-') {
            assert!(reply.starts_with("-TRYAGAIN ") || reply.contains("outcome unknown"), "{reply}");
            return None;
        }
        assert!(reply.contains(&value(KEYS - 1)), "it was used before it had all: {reply}");
        Some(())
    });
    assert!(saw_loading, "it was seen to load");
    let _node = starting.join().expect("it does not panic").expect("it is there");
    for number in 0..KEYS {
        let reply = client.ask(&format!("GET key{number}"));
        assert!(reply.contains(&value(number)), "{reply}");
    }
}

#[test]
fn a_script_that_does_not_end_is_its_shards_matter_alone() {
    let world = World::with_shards(2);
    let keys = world.key_on_each("k");
    let (mut client, mut other) = (world.connect(), world.connect());
    for key in &keys {
        assert_eq!(client.ask(&format!("SET {key} v")), "+OK\\r\\n");
    }
    let mut admin = world.nodes[0].connect();
    // After that time a node answers others while a script runs, with BUSY.
    assert_eq!(admin.ask("CONFIG SET busy-reply-threshold 100"), "+OK\\r\\n");
    let mut endless = world.connect();
    endless.send_command(&[b"EVAL", b"while true do end", b"1", keys[0].as_bytes()]);
    let begun = Instant::now();
    let busy = poll_until("a busy node", || {
        assert_eq!(other.ask(&format!("GET {}", keys[1])), "$1\\r\\nv\\r\\n");
        let direct = admin.ask("GET k");
        direct.starts_with("-BUSY ").then_some(direct)
    });
    // The request stands behind the script on the shared link: its reply comes when the script has ended.
    client.send_command(&[b"GET", keys[0].as_bytes()]);
    for _ in 0..200 {
        assert_eq!(other.ask(&format!("GET {}", keys[1])), "$1\\r\\nv\\r\\n");
    }
    eprintln!("{busy}: 200 reads of the other shard by {:?}", begun.elapsed());
    assert_eq!(admin.ask("SCRIPT KILL"), "+OK\\r\\n");
    let killed = endless.read_reply();
    assert!(killed.starts_with(b"-ERR "), "{}", show(&killed));
    let reply = client.read_reply();
    assert!(reply == b"$1\r\nv\r\n" || reply.starts_with(b"-BUSY "), "{}", show(&reply));
    poll_until("its shard", || (client.ask(&format!("SET {} w", keys[0])) == "+OK\\r\\n").then_some(()));
}
