//! Slots of a real Redis Cluster move under load. No request fails, no write is lost or runs twice, and no client sees MOVED or
//! ASK.
//!
//! `SHARDIS_RESHARD_SLOTS=1000` moves more slots than usual.

use crate::harness::local::Local;
use crate::harness::processes::Proxy;
use crate::harness::{Client, number_from_env, poll_until};
use std::process::{Command, Stdio};

/// Keys of each kind.
const KEYS: usize = 400;
/// Shard channels with subscribers.
const CHANNELS: usize = 16;

/// A client and the expected values of its own counters.
struct Load {
    client: Client,
    counted: Vec<u64>,
    turn: usize,
}

impl Load {
    /// One request of each kind. Each counter returns its last value, and one more.
    fn turn(&mut self) {
        self.turn += 1;
        let keys: Vec<usize> = (0..20).map(|step| (self.turn * 7 + step * 13) % KEYS).collect();
        // Some in one pipeline, some of them for the same slot.
        for key in &keys {
            self.client.send_command(&[b"INCR", format!("counter{key}").as_bytes()]);
        }
        for &key in &keys {
            self.counted[key] += 1;
            let reply = self.client.read_reply();
            assert_eq!(reply, format!(":{}\r\n", self.counted[key]).into_bytes(), "counter{key}");
        }
        let key = keys[0];
        let names: Vec<String> = keys.iter().map(|key| format!("value{key}")).collect();
        let value = self.turn.to_string();
        let (mut writes, mut reads): (Vec<&[u8]>, Vec<&[u8]>) = (vec![b"MSET"], vec![b"MGET"]);
        writes.extend(names.iter().flat_map(|name| [name.as_bytes(), value.as_bytes()]));
        reads.extend(names.iter().map(String::as_bytes));
        assert_eq!(self.client.command(&writes), b"+OK\r\n");
        let values = self.client.command(&reads);
        let bulk = format!("${}\r\n{value}\r\n", value.len());
        assert_eq!(String::from_utf8_lossy(&values), format!("*20\r\n{}", bulk.repeat(20)));
        // Two keys of one slot, of which one may have moved already.
        self.counted[key] += 1;
        let counter = format!("counter{key}");
        self.client.send_command(&[b"MULTI"]);
        self.client.send_command(&[b"INCR", counter.as_bytes()]);
        self.client.send_command(&[b"EXEC"]);
        let replies: Vec<Vec<u8>> = (0..3).map(|_| self.client.read_reply()).collect();
        let expected = format!("+OK\r\n+QUEUED\r\n*1\r\n:{}\r\n", self.counted[key]);
        assert_eq!(String::from_utf8_lossy(&replies.concat()), expected);
        self.counted[key] += 1;
        let script = b"return redis.call('incr', KEYS[1])";
        let reply = self.client.command(&[b"EVAL", script, b"1", counter.as_bytes()]);
        assert_eq!(reply, format!(":{}\r\n", self.counted[key]).into_bytes());
        let pair = [format!("{{pair{key}}}a"), format!("{{pair{key}}}b")];
        let both = self.client.command(&[b"MSET", pair[0].as_bytes(), b"1", pair[1].as_bytes(), b"2"]);
        assert_eq!(both, b"+OK\r\n");
        let queue = format!("queue{key}");
        assert_eq!(self.client.command(&[b"RPUSH", queue.as_bytes(), b"x"]), b":1\r\n");
        let popped = self.client.command(&[b"BLPOP", queue.as_bytes(), b"0"]);
        assert!(popped.ends_with(b"$1\r\nx\r\n"), "{:?}", String::from_utf8_lossy(&popped));
    }
}

/// The cluster's name for the node at `port`.
fn id(port: u16) -> String {
    let id = Client::connect(port).ask("CLUSTER MYID");
    id.split("\\r\\n").nth(1).expect("40 letters").to_owned()
}

#[test]
fn no_request_fails_while_slots_move() {
    let local = Local::start(&["--cluster=6", "--failover-ms=5000"]);
    let nodes = local.ports("nodes");
    let seeds = format!("--cluster=127.0.0.1:{}", nodes[0]);
    let proxy = Proxy::start(&[&seeds, "--host=127.0.0.1", "--port=0", "--workers=1"]);
    let mut client = Client::connect(proxy.port);
    poll_until("an answer", || (client.ask("SET first x") == "+OK\\r\\n").then_some(()));
    let mut load = Load { client, counted: vec![0; KEYS], turn: 0 };
    (0..20).for_each(|_| load.turn());
    let channels: Vec<String> = (0..CHANNELS).map(|number| format!("channel{number}")).collect();
    let mut listener = Client::connect(proxy.port);
    for channel in &channels {
        assert!(listener.ask(&format!("SSUBSCRIBE {channel}")).contains("ssubscribe"));
    }

    let slots = number_from_env("SHARDIS_RESHARD_SLOTS", 200).to_string();
    let mut reshard = Command::new("redis-cli");
    let at = format!("127.0.0.1:{}", nodes[0]);
    reshard.args(["--cluster", "reshard", &at, "--cluster-from", "all", "--cluster-to", &id(nodes[2])]);
    reshard.args(["--cluster-slots", &slots, "--cluster-yes"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut reshard = reshard.spawn().expect("redis-cli is installed");
    let mut turns = 0;
    let status = loop {
        load.turn();
        turns += 1;
        if let Some(status) = reshard.try_wait().expect("it is our child") {
            break status;
        }
    };
    assert!(status.success(), "redis-cli has moved {slots} slots: {status}");
    (0..20).for_each(|_| load.turn());
    let info = load.client.ask("INFO stats");
    eprintln!("{turns} turns while {slots} slots moved; {}", field(&info, "total_redirects"));

    // The subscriber of a shard channel keeps its subscription, wherever the slot is now.
    for channel in &channels {
        poll_until("a listener", || {
            (load.client.ask(&format!("SPUBLISH {channel} hi")) == ":1\\r\\n").then_some(())
        });
    }
    let mut heard = 0;
    while heard < CHANNELS {
        let message = listener.read_reply();
        assert!(message.starts_with(b"*3\r\n$8\r\nsmessage\r\n"), "{:?}", String::from_utf8_lossy(&message));
        heard += 1;
    }
}

/// The line of `info` that begins with `name`.
fn field<'a>(info: &'a str, name: &str) -> &'a str {
    info.split("\\r\\n").find(|line| line.starts_with(name)).unwrap_or_default()
}
