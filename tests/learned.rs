//! Commands that the table does not have, as those of modules: learnt from the nodes. Real nodes have commands under unknown
//! names (`rename-command`).

use crate::harness::{Client, Proxy, RedisServer, World, show};

/// Four nodes with commands of a module that does not exist.
fn world() -> World {
    let renamed =
        [("SET", "vault.put"), ("GET", "vault.take"), ("SUNION", "vault.join"), ("BLPOP", "vault.wait")];
    let options: Vec<&str> = renamed.iter().flat_map(|&(old, new)| ["--rename-command", old, new]).collect();
    let nodes: Vec<RedisServer> = (0..4).map(|_| RedisServer::start_with(&options)).collect();
    let proxy = Proxy::over(&nodes, &["--workers=2"]);
    World { nodes, proxy }
}

#[test]
fn a_modules_commands_reach_the_shards_of_their_keys() {
    let world = world();
    let mut client = world.connect();
    for (shard, key) in world.key_on_each("k").into_iter().enumerate() {
        assert_eq!(client.ask(&format!("VAULT.PUT {key} v{shard}")), r"+OK\r\n");
        let stored = world.nodes[shard].connect().ask(&format!("vault.take {key}"));
        assert_eq!(stored, format!(r"$2\r\nv{shard}\r\n"));
        assert_eq!(client.ask(&format!("vault.take {key}")), stored);
    }
    assert!(client.ask("VAULT.TAKE").contains("wrong number of arguments"));
}

#[test]
fn a_modules_command_over_several_shards_is_refused() {
    let world = world();
    let mut client = world.connect();
    let keys = world.key_on_each("k");
    assert!(client.ask(&format!("vault.join {} {}", keys[0], keys[1])).starts_with("-CROSSSLOT "));
    assert_eq!(client.ask("vault.join a{t} b{t}"), r"*0\r\n");
}

#[test]
fn a_waiting_module_command_delays_no_other_client() {
    let world = world();
    let (mut client, mut other) = (world.connect(), world.connect());
    client.send_command(&[b"VAULT.WAIT", b"a{t}", b"0"]);
    assert_eq!(other.ask("RPUSH a{t} x"), r":1\r\n");
    assert_eq!(show(&client.read_reply()), r"*2\r\n$4\r\na{t}\r\n$1\r\nx\r\n");
}

#[test]
fn requests_behind_one_that_is_being_learnt_keep_their_order() {
    let world = world();
    let mut client = world.connect();
    let pipeline = "vault.put a 1\r\nPING\r\nvault.take a\r\nnosuch.command a\r\nPING\r\n";
    client.send(pipeline.as_bytes());
    let replies: Vec<String> =
        (0..5).map(|_| String::from_utf8_lossy(&client.read_reply()).into_owned()).collect();
    assert_eq!(replies[..3], ["+OK\r\n", "+PONG\r\n", "$1\r\n1\r\n"]);
    assert!(replies[3].starts_with("-ERR unknown command 'nosuch.command'"), "{replies:?}");
    assert_eq!(replies[4], "+PONG\r\n");
    let mut direct: Client = world.nodes[0].connect();
    assert!(direct.ask("GET a").contains("unknown command"), "the node has the new name only");
}
