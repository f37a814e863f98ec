//! `shardis ring`: does it name the nodes that keys are really on? its report, its refusals.

use crate::harness::certificates::Directory;
use crate::harness::processes::{Finished, free_port, run, shardis_binary};
use crate::harness::{Client, Proxy, RedisServer};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;
use std::process::Stdio;

/// Exit code and output of `shardis ring`.
fn ring(args: &[&str]) -> Finished {
    let mut command = shardis_binary();
    command.arg("ring").args(args);
    run(command)
}

/// The report for programs.
fn report(args: &[&str]) -> Value {
    let Finished { code, stdout, stderr } = ring(&[args, &["--json"]].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&stdout).expect("JSON")
}

/// The node of each key, as `shardis ring --list` says for keys that come by its standard input.
fn named(flags: &[&str], keys: &[String]) -> HashMap<String, String> {
    let mut child = shardis_binary()
        .args(["ring", "--list", "--keys-file=-"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(keys.join("\n").as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let pairs = text.lines().map(|line| line.split_once('\t').expect("a key and a node"));
    pairs.map(|(key, node)| (key.to_owned(), node.to_owned())).collect()
}

fn address(node: &RedisServer) -> String {
    format!("127.0.0.1:{}", node.port)
}

fn integer(value: &Value) -> u64 {
    value.as_f64().expect("a number").round() as u64
}

#[test]
fn each_key_is_on_the_node_that_ring_names() {
    let nodes: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let list: Vec<String> =
        nodes.iter().zip([1, 3, 2]).map(|(node, weight)| format!("{}:{weight}", address(node))).collect();
    let (weighted, plain) =
        (format!("--nodes={}", list.join(",")), nodes.iter().map(address).collect::<Vec<_>>().join(","));
    let plain = format!("--nodes={plain}");
    let layouts: [&[&str]; 7] = [
        &[&weighted],
        &[&weighted, "--distribution=modula", "--hash=fnv1a_64"],
        &[&weighted, "--distribution=ketama", "--hash=md5"],
        &[&weighted, "--like=twemproxy", "--tag-rule={}"],
        &[&plain, "--distribution=slots"],
        &[&plain, "--like=predixy"],
        &[&plain, "--like=codis"],
    ];
    for (number, flags) in layouts.iter().enumerate() {
        let proxy = Proxy::start(&[flags, &["--host=127.0.0.1", "--port=0"][..]].concat());
        let mut client = Client::connect(proxy.port);
        let keys: Vec<String> = (0..60).map(|key| format!("{number}:{key}{{{}}}", key % 40)).collect();
        let named = named(flags, &keys);
        for key in &keys {
            assert_eq!(client.command(&[b"SET", key.as_bytes(), b"v"]), b"+OK\r\n");
            let node = &named[key];
            let explained = client.ask(&format!("PROXY EXPLAIN GET {key}"));
            assert!(explained.contains(node.as_str()), "{flags:?}: {key} at {node}: {explained}");
            let node = nodes.iter().find(|other| address(other) == *node).expect("one of ours");
            assert_eq!(node.connect().ask(&format!("EXISTS {key}")), r":1\r\n", "{flags:?}: {key}");
        }
    }
}

#[test]
fn a_report_shows_shares_theory_and_moves() {
    let now = "--nodes=10.0.0.1:6379,10.0.0.2:6379";
    let to = "--to=--nodes=10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379";
    let Finished { code, stdout, .. } = ring(&[now, "--distribution=slots", to]);
    assert_eq!(code, Some(0));
    let expected = include_str!("golden/ring.txt");
    assert!(stdout == expected, "{stdout}");
}

#[test]
fn keys_that_move_are_those_with_another_node() {
    let now = ["--nodes=a:1,b:1,c:1", "--keys=k1,k2,k3,k4,k5,k6,k7,k8,k9"];
    let to = "--to=--distribution=ketama --hash=md5 --nodes='c:1,b:1,a:1'";
    let Finished { stdout, .. } = ring(&[&now[..], &[to, "--list"]].concat());
    let lines = stdout.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let moved = lines.filter(|fields| fields[1] != fields[2]).count() as u64;
    let report = report(&[&now[..], &[to]].concat());
    assert!(moved > 0 && integer(&report["to"]["keys"]) == moved, "{stdout} {report}");
    let moves = report["to"]["moves"].as_array().expect("a list");
    assert_eq!(moves.iter().map(|step| integer(&step["keys"])).sum::<u64>(), moved);
}

#[test]
fn a_change_by_files_is_that_by_flags() {
    let folder = Directory::new();
    let now = folder.write("now.toml", "nodes = [\"a:1\", \"b:1\"]\n");
    let then = folder.write("then.toml", "nodes = [\"a:1\", \"b:1\", \"c:1\"]\ndistribution = \"ketama\"\n");
    let config = format!("--config={now}");
    let by_files = report(&[&config, &format!("--to-config={then}")]);
    let by_flags = report(&["--nodes=a:1,b:1", "--to=--distribution=ketama --nodes=a:1,b:1,c:1"]);
    let mixed = report(&[&config, "--to", "--nodes=a:1,b:1,c:1 --distribution=ketama"]);
    assert!(by_files == by_flags && by_files == mixed);
}

#[test]
fn a_scan_counts_the_keys_of_real_nodes() {
    let nodes: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let list = format!("--nodes={},{}", address(&nodes[0]), address(&nodes[1]));
    let proxy = Proxy::start(&[&list, "--host=127.0.0.1", "--port=0"]);
    let mut client = Client::connect(proxy.port);
    for key in 0..1500 {
        assert_eq!(client.ask(&format!("SET user:{key} value")), r"+OK\r\n");
    }
    let all = report(&[&list, "--scan", "--sample=0"]);
    assert_eq!((integer(&all["keys"]), integer(&all["misplaced"])), (1500, 0));
    for (row, node) in all["nodes"].as_array().expect("a list").iter().zip(&nodes) {
        assert_eq!(node.connect().ask("DBSIZE"), format!(r":{}\r\n", integer(&row["keys"])));
        assert!(integer(&row["bytes"]) > 20 * integer(&row["keys"]), "{row}");
    }
    let sampled = report(&[&list, "--scan", "--sample=200"]);
    assert!(integer(&sampled["seen"]) == 400 && integer(&sampled["keys"]) == 1500, "{sampled}");
    let other = report(&[&list, "--scan", "--distribution=ketama", "--hash=md5"]);
    assert!((500..1000).contains(&integer(&other["misplaced"])), "{other}");
    let moved = report(&[&list, "--scan", &format!("--to=--nodes={}", address(&nodes[0]))]);
    assert_eq!(moved["to"]["keys"], all["nodes"][1]["keys"]);
    assert_eq!(moved["to"]["bytes"], all["nodes"][1]["bytes"]);
}

#[test]
fn mistakes_are_named_and_have_exit_codes() {
    let dead = format!("--nodes=127.0.0.1:{}", free_port());
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--nodes=a:1", "--keys-file=/nowhere/keys"], 1, "/nowhere/keys"),
        (&["--cluster=a:1"], 1, "name nodes with --nodes"),
        (&["--scan"], 1, "--scan: there are no nodes to ask"),
        (&[&dead, "--scan"], 1, "connection refused"),
        (&["--nodes=a:1", "--to=--distribution=ring"], 2, "--to: "),
        (&["--nodes=a:1", "--to=--nodes='b:1"], 2, "a quote has no end"),
        (&["--nodes=a:1", "--sample=5"], 2, "--scan"),
        (&["--nodes=a:1", "--to-config=/nowhere/then.toml"], 1, "/nowhere/then.toml"),
    ];
    for (args, code, text) in cases {
        let finished = ring(args);
        assert!(finished.code == Some(code) && finished.stderr.contains(text), "{args:?}: {finished:?}");
    }
}
