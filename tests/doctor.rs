//! `shardis doctor`, with real nodes.

use crate::harness::certificates::Directory;
use crate::harness::processes::{free_port, shardis_binary};
use crate::harness::{Client, RedisServer, World};
use serde_json::Value;

/// Exit code and output of `shardis doctor`.
fn doctor(args: &[&str]) -> (Option<i32>, String) {
    // The limit of files depends on the machine.
    let output =
        shardis_binary().args(["doctor", "--maxclients=100"]).args(args).output().expect("it starts");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The names of the checks that found something worse than a note, at `node` or at several.
fn found(args: &[&str], node: &str) -> Vec<String> {
    let (_, text) = doctor(&[args, &["--json"]].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let findings = report["findings"].as_array().expect("a list");
    let is_meant = |finding: &&Value| finding["severity"] != "note" && finding["node"] == node;
    findings
        .iter()
        .filter(is_meant)
        .map(|finding| finding["check"].as_str().expect("text").to_owned())
        .collect()
}

/// Two nodes with the keys of 400 writes through shardis.
fn filled() -> (World, String) {
    let world = World::with_shards(2);
    let mut client = world.connect();
    (0..400).for_each(|number| drop(client.ask(&format!("SET user:{number} 1"))));
    let nodes = format!("--nodes={},{}", world.shard_name(0), world.shard_name(1));
    (world, nodes)
}

#[test]
fn nodes_that_are_well_give_exit_code_0() {
    let (_world, nodes) = filled();
    let (code, text) = doctor(&[&nodes]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("2 nodes asked") && text.contains("0 errors, 0 warnings"), "{text}");
}

#[test]
fn the_layout_that_finds_the_keys_is_named() {
    let (_world, nodes) = filled();
    let (code, text) = doctor(&[&nodes, "--distribution=ketama", "--hash=md5"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(
        text.contains("error [layout]") && text.contains("--distribution=modulo --hash=crc32a"),
        "{text}"
    );
}

#[test]
fn troubles_of_real_nodes_are_found() {
    let (world, nodes) = filled();
    let (first, second) = (world.shard_name(0), world.shard_name(1));
    let mut node = Client::connect(world.nodes[1].port);
    for words in ["CONFIG SET timeout 300", "CONFIG SET maxmemory 100mb", "CONFIG SET maxclients 50"] {
        assert_eq!(node.ask(words), r"+OK\r\n", "{words}");
    }
    assert_eq!(found(&[&nodes, "--databases=17"], &first), ["databases"]);
    let all = found(&[&nodes, "--databases=17", "--workers=2"], &second);
    assert_eq!(all, ["databases", "idle-timeout", "maxclients"]);
    assert_eq!(found(&[&nodes], ""), ["maxmemory"]);
    let port = world.nodes[0].port;
    assert_eq!(node.ask(&format!("REPLICAOF 127.0.0.1 {port}")), r"+OK\r\n");
    assert!(found(&[&nodes], &second).contains(&"role".to_owned()));
    let twice = format!("--nodes={first},localhost:{port}");
    assert!(found(&[&twice], &format!("localhost:{port}")).contains(&"same-process".to_owned()));
}

#[test]
fn a_node_that_is_down_or_wants_a_password_is_named() {
    let (server, dead) = (RedisServer::start(), free_port());
    assert_eq!(Client::connect(server.port).ask("CONFIG SET requirepass secret"), r"+OK\r\n");
    let address = format!("127.0.0.1:{}", server.port);
    let nodes = format!("--nodes={address},127.0.0.1:{dead}");
    let (code, text) = doctor(&[&nodes]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("NOAUTH") && text.contains("--node-auth-file"), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{dead}: it cannot be asked: connection refused")), "{text}");
    let folder = Directory::new();
    let file = folder.path("password");
    std::fs::write(&file, "secret\n").expect("the folder can be written to");
    let auth = format!("--node-auth-file={}", file.display());
    assert_eq!(found(&[&nodes, &auth], &address), [""; 0]);
}

#[test]
fn rights_that_a_user_lacks_are_named() {
    let server = RedisServer::start();
    let mut client = Client::connect(server.port);
    let set = "ACL SETUSER app on >secret ~* &* +@all -publish -@dangerous +info +acl|dryrun +acl|whoami";
    assert_eq!(client.ask(set), r"+OK\r\n");
    let folder = Directory::new();
    let file = folder.path("password");
    std::fs::write(&file, "secret\n").expect("the folder can be written to");
    let flags = [
        format!("--nodes=127.0.0.1:{}", server.port),
        format!("--node-auth-file={}", file.display()),
        "--node-user=app".to_owned(),
    ];
    let (code, text) = doctor(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, Some(4), "{text}");
    assert!(
        text.contains("user app may not run PUBLISH") && text.contains("ACL SETUSER app +publish"),
        "{text}"
    );
    assert!(text.contains("[config-hidden]"), "{text}");
}

#[test]
fn a_configuration_file_names_the_nodes_too() {
    let (world, _) = filled();
    let folder = Directory::new();
    let file = folder.path("shardis.toml");
    let text = format!("nodes = [{:?}, {:?}]\n", world.shard_name(0), world.shard_name(1));
    std::fs::write(&file, text).expect("the folder can be written to");
    let (code, text) = doctor(&[&format!("--config={}", file.display()), "--json"]);
    assert!(code == Some(0) && text.contains("\"nodes\":2"), "{text}");
}
