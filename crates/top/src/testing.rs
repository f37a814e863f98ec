//! States for tests.

use crate::sample::{
    Cause, Client, Command, Event, Hot, HotKey, Lists, Node, Sample, Slow, Status, Times, Totals, Worker,
};

/// Two nodes that are up, two commands and one cause of errors, after `requests`.
pub(crate) fn status(now_s: f64, requests: u64) -> Status {
    let times =
        Times { count: requests, below: (0..29).map(|at| if at < 8 { 0 } else { requests }).collect() };
    let node = |address: &str, share| Node {
        address: address.into(),
        shard: address.into(),
        role: "primary".into(),
        state: "up".into(),
        share,
        times: times.clone(),
        ..Node::default()
    };
    let command =
        |name: &str, calls| Command { name: name.into(), calls, times: times.clone(), ..Command::default() };
    Status {
        version: "0.1.0".into(),
        started_s: 1.0,
        now_s,
        layout: "2 shards, ketama".into(),
        workers: vec![Worker::default()],
        totals: Totals { requests, clients: 2, ..Totals::default() },
        nodes: vec![node("127.0.0.1:7001", 0.6), node("127.0.0.1:7002", 0.4)],
        commands: vec![command("get", requests), command("set", 2 * requests)],
        errors: vec![Cause { cause: "node_timeout".into(), count: requests / 10 }],
        ..Status::default()
    }
}

/// The same with one of each list.
pub(crate) fn sample(now_s: f64, requests: u64) -> Sample {
    let event = Event {
        id: 1,
        time_s: 3661.0,
        level: "WARN".into(),
        name: "node down".into(),
        details: "node=127.0.0.1:7001 reason=refused".into(),
        meaning: "The node cannot be reached.".into(),
        cure: "Start the node.".into(),
    };
    let hot = HotKey { key: "user:1".into(), per_s: 500.0, error: 2.0, writes: 0.25, bytes_max: 4096 };
    let slow = Slow {
        id: 7,
        reason: "slow".into(),
        time_s: 3661.0,
        total_us: 12_000,
        queued_us: 2000,
        node_us: 10_000,
        request: "GET user:1".into(),
        node: "127.0.0.1:7001".into(),
        ..Slow::default()
    };
    let lists = Lists {
        events: Some(vec![event]),
        clients: Some(Client::all("id=3 addr=127.0.0.1:5000 cmd=get\n")),
        hot: Some(Hot { keys: vec![hot.clone()], sizes: vec![hot], slots: Vec::new() }),
        slow: Some(vec![slow]),
    };
    Sample { status: status(now_s, requests), lists }
}
