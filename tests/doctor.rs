//! `shardis doctor`, with real nodes.

use crate::harness::certificates::Directory;
use crate::harness::local::{Local, kill_node};
use crate::harness::processes::{free_port, shardis_binary};
use crate::harness::{Client, RedisServer, World, poll_until};
use serde_json::Value;

/// Exit code and output of `shardis doctor`.
fn doctor(args: &[&str]) -> (Option<i32>, String) {
    // The limit of files depends on the machine.
    let output =
        shardis_binary().args(["doctor", "--maxclients=100"]).args(args).output().expect("it starts");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The findings worse than a note, without those that depend on the load of this machine. The exit code must fit them all.
fn findings(args: &[&str]) -> Vec<Value> {
    let (code, text) = doctor(&[args, &["--json"]].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let all = report["findings"].as_array().expect("a list");
    let has = |severity: &str| all.iter().any(|finding| finding["severity"] == severity);
    let expected = if has("error") {
        4
    } else if has("warning") {
        3
    } else {
        0
    };
    assert_eq!(code, Some(expected), "{text}");
    let is_meant = |finding: &&Value| finding["severity"] != "note" && finding["check"] != "latency";
    all.iter().filter(is_meant).cloned().collect()
}

/// The names of the checks of [`findings`], at `node` or at several.
fn found(args: &[&str], node: &str) -> Vec<String> {
    let findings = findings(args);
    let at_node = findings.iter().filter(|finding| finding["node"] == node);
    at_node.map(|finding| finding["check"].as_str().expect("text").to_owned()).collect()
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
    assert_eq!(findings(&[&nodes]), [Value::Null; 0]);
    let (_, text) = doctor(&[&nodes]);
    assert!(text.contains("2 nodes asked") && text.contains("0 errors"), "{text}");
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
    let config = format!("--config={}", file.display());
    assert_eq!(findings(&[&config]), [Value::Null; 0]);
    let (_, text) = doctor(&[&config, "--json"]);
    assert!(text.contains("\"nodes\":2"), "{text}");
}

/// Waits until the doctor has no finding worse than a note, and returns its report. Gossip takes its time after a start.
fn until_well(args: &[&str]) -> String {
    poll_until("nodes without trouble", || findings(args).is_empty().then_some(()));
    doctor(args).1
}

/// Waits until the doctor finds `wanted`, all of them, and returns its exit code and its report.
fn until_found(args: &[&str], wanted: &[&str]) -> (Option<i32>, String) {
    let is_found = |text: &str| wanted.iter().all(|check| text.contains(&format!("[{check}]")));
    poll_until("the findings", || Some(doctor(args)).filter(|(_, text)| is_found(text)))
}

#[test]
fn all_nodes_of_a_cluster_are_asked_by_one_seed() {
    let local = Local::start(&["--cluster=6", "--failover-ms=1000"]);
    // By another name than the cluster announces.
    let seed = format!("--cluster=localhost:{}", local.ports("nodes")[4]);
    let text = until_well(&[&seed]);
    assert!(text.contains("6 nodes asked") && text.contains("note [same-host]"), "{text}");
}

#[test]
fn troubles_of_a_cluster_are_found() {
    let local = Local::start(&["--cluster=6", "--failover-ms=1000"]);
    let nodes = local.ports("nodes");
    let seed = format!("--cluster=127.0.0.1:{}", nodes[0]);
    until_well(&[&seed]);
    let mut first = Client::connect(nodes[0]);
    assert_eq!(first.ask("CONFIG SET cluster-announce-ip 127.0.0.77"), r"+OK\r\n");
    let announced = format!("127.0.0.77:{}: it cannot be asked", nodes[0]);
    let (code, text) =
        poll_until("the address", || Some(doctor(&[&seed])).filter(|(_, text)| text.contains(&announced)));
    assert!(code == Some(4) && text.contains("cluster-announce-ip"), "{text}");
    assert_eq!(first.ask("CONFIG SET cluster-announce-ip 127.0.0.1"), r"+OK\r\n");
    assert_eq!(first.ask("CLUSTER DELSLOTS 0 1 2"), r"+OK\r\n");
    assert_eq!(Client::connect(nodes[1]).ask("CONFIG SET cluster-require-full-coverage no"), r"+OK\r\n");
    kill_node(nodes[5]);
    let wanted = ["slots-disputed", "failing-node", "unreachable", "no-replica"];
    let (code, text) = until_found(&[&seed], &wanted);
    assert_eq!(code, Some(4), "{text}");
    let plain = RedisServer::start();
    let (code, text) = doctor(&[&format!("--cluster=127.0.0.1:{}", plain.port)]);
    assert!(code == Some(4) && text.contains("error [cluster-node]"), "{text}");
}

#[test]
fn sentinels_name_each_other_and_their_nodes() {
    let local = Local::start(&["--sets=2", "--sentinel", "--failover-ms=2000"]);
    let sentinels = local.ports("sentinels");
    let one = format!("--sentinel=127.0.0.1:{}", sentinels[0]);
    let text = until_well(&[&one, "--master=set-0,set-1"]);
    assert!(text.contains("4 nodes and 3 sentinels asked"), "{text}");
    assert!(text.contains("note [unnamed-sentinels]"), "{text}");
    let all = format!("--sentinel={}", local.addresses_of("sentinels"));
    let text = until_well(&[&all, "--master=set-0,set-1"]);
    assert!(!text.contains("unnamed-sentinels"), "{text}");
}

#[test]
fn troubles_of_sentinels_are_found() {
    let local = Local::start(&["--sets=1", "--sentinel", "--failover-ms=2000"]);
    let (nodes, sentinels) = (local.ports("nodes"), local.ports("sentinels"));
    let all = format!("--sentinel={}", local.addresses_of("sentinels"));
    until_well(&[&all, "--master=set-0"]);
    for sentinel in &sentinels {
        assert_eq!(Client::connect(*sentinel).ask("SENTINEL SET set-0 quorum 7"), r"+OK\r\n");
    }
    let (code, text) = doctor(&[&all, "--master=set-0,elsewhere"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("error [quorum] the quorum of set-0 is 7, and there are 3 sentinels"), "{text}");
    assert!(text.contains("it watches no primary called elsewhere"), "{text}");
    // With this quorum nobody is promoted.
    kill_node(nodes[0]);
    until_found(&[&all, "--master=set-0"], &["primary-down", "unreachable"]);
    let plain = format!("--sentinel=127.0.0.1:{}", nodes[1]);
    let (_, text) = doctor(&[&plain, "--master=set-0"]);
    assert!(text.contains("error [not-sentinel]"), "{text}");
}
