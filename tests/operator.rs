//! PROXY and `shardis explain`, with a real process.

use crate::harness::processes::shardis_binary;
use crate::harness::{World, http, poll_until};

/// Exit code and output of `shardis explain`.
fn explain(args: &[&str]) -> (Option<i32>, String) {
    let output = shardis_binary().arg("explain").args(args).output().expect("shardis starts");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn an_explanation_needs_no_node() {
    let nodes = "--nodes=10.255.0.1:6379,10.255.0.2:6379";
    let (code, text) = explain(&[nodes, "--", "GET", "user:1"]);
    assert!(code == Some(0) && text.contains("whole to one shard") && text.contains("10.255.0."), "{text}");
    let (code, text) = explain(&[nodes, "--", "SHUTDOWN"]);
    assert!(code == Some(1) && text.contains("is not allowed through shardis"), "{text}");
}

#[test]
fn an_explanation_names_the_node_that_gets_the_request() {
    let world = World::with_flags(3, &[]);
    let mut client = world.connect();
    for index in 0..3 {
        let key = world.key_on(index, "k");
        let reply = client.ask(&format!("PROXY EXPLAIN GET {key}"));
        assert!(reply.contains(&world.shard_name(index)), "{key}: {reply}");
    }
}

#[test]
fn a_slow_request_and_its_key_are_seen() {
    let world = World::with_flags(2, &["--admin=0", "--slowlog-log-slower-than=0"]);
    let (mut client, key) = (world.connect(), world.key_on(1, "k"));
    for _ in 0..20 {
        client.ask(&format!("SET {key} 1"));
    }
    let reply = client.ask("PROXY SLOWLOG GET 1");
    assert!(reply.contains(&key) && reply.contains(&world.shard_name(1)), "{reply}");
    let port = http::admin_port(&world.proxy);
    assert!(http::get(port, "/slow").body.contains(&key));
    // Samples are rare in the first seconds, until the load is known.
    poll_until("the key among the hot ones", || {
        (0..20).for_each(|_| drop(client.ask(&format!("SET {key} 1"))));
        http::get(port, "/hot").body.contains(&key).then_some(())
    });
}
