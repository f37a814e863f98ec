//! Copies in racks: a rack that misses writes gets them later, and no level is met by fewer copies than it says.

use crate::harness::certificates::Directory;
use crate::harness::{Client, Proxy, RedisServer, http, number_from_env, poll_until, seed_for};
use serde_json::Value;
use stdx::Prng;

/// Racks of one data centre, each with one node for each shard.
pub(crate) struct Racks {
    /// The nodes of each rack, by the places of their shards.
    pub racks: Vec<Vec<RedisServer>>,
    pub proxy: Proxy,
    log: Directory,
}

impl Racks {
    pub(crate) fn start(racks: usize, shards: usize, flags: &[&str]) -> Racks {
        let nodes = || (0..shards).map(|_| RedisServer::start()).collect();
        let racks: Vec<Vec<RedisServer>> = (0..racks).map(|_| nodes()).collect();
        let log = Directory::new();
        let proxy = Racks::proxy(&racks, &log, flags);
        let all = Racks { racks, proxy, log };
        all.wait_until_up();
        all
    }

    fn proxy(racks: &[Vec<RedisServer>], log: &Directory, flags: &[&str]) -> Proxy {
        let rack = |(number, nodes): (usize, &Vec<RedisServer>)| {
            let nodes: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
            format!("--rack=dc/r{number}={}", nodes.join(","))
        };
        let mut words: Vec<String> = racks.iter().enumerate().map(rack).collect();
        words.push(format!("--hint-log={}", log.path("hints").display()));
        words.extend(["--host=127.0.0.1", "--port=0", "--admin=0"].map(str::to_owned));
        words.extend(flags.iter().map(|&flag| flag.to_owned()));
        Proxy::start(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The proxy ends at once and starts anew.
    fn restart_proxy(&mut self, flags: &[&str]) {
        self.proxy.signal("KILL");
        self.proxy.wait();
        self.proxy = Racks::proxy(&self.racks, &self.log, flags);
    }

    /// The answer to /racks.
    fn status(&self) -> Value {
        let answer = http::get(http::admin_port(&self.proxy), "/racks");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error} in {}", answer.body))
    }

    /// Waits until the copy of shard 0 in `rack` is in `state`.
    #[track_caller]
    fn wait_for(&self, rack: usize, state: &str) {
        poll_until(&format!("rack {rack} is {state}"), || {
            (self.status()["racks"][rack]["states"][0] == state).then_some(())
        });
    }

    /// Waits until all racks are up.
    #[track_caller]
    pub(crate) fn wait_until_up(&self) {
        let is_up =
            |states: &Value| states.as_array().is_some_and(|all| all.iter().all(|state| state == "up"));
        poll_until("all racks are up", || {
            let status = self.status();
            let racks = status["racks"].as_array().cloned().unwrap_or_default();
            (!racks.is_empty() && racks.iter().all(|rack| is_up(&rack["states"]))).then_some(())
        });
    }

    /// Asserts that the nodes of each shard have the same keys with the same values.
    #[track_caller]
    pub(crate) fn assert_equal(&self) {
        for shard in 0..self.racks[0].len() {
            let mut clients: Vec<Client> = self.racks.iter().map(|nodes| nodes[shard].connect()).collect();
            let digests: Vec<String> = clients.iter_mut().map(|client| client.ask("DEBUG DIGEST")).collect();
            assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
        }
    }
}

/// Some keys of all types.
fn fill(client: &mut Client, prefix: &str, count: u64) {
    for number in 0..count {
        for words in [
            format!("SET {prefix}s{number} {number}"),
            format!("RPUSH {prefix}l{number} a b {number}"),
            format!("SADD {prefix}t{number} x y {number} z"),
            format!("HSET {prefix}h{number} f {number} g 2"),
            format!("XADD {prefix}x{number} * f {number}"),
        ] {
            let reply = client.ask(&words);
            assert!(!reply.starts_with('-'), "{words}: {reply}");
        }
        assert!(client.ask(&format!("SPOP {prefix}t{number}")).starts_with('$'));
    }
}

#[test]
fn a_rack_that_was_silent_gets_the_writes_it_missed() {
    let racks = Racks::start(3, 2, &["--write-consistency=DC_QUORUM", "--request-timeout-ms=200"]);
    let mut client = Client::connect(racks.proxy.port);
    fill(&mut client, "before:", 10);
    racks.racks[1].iter().for_each(RedisServer::freeze);
    fill(&mut client, "during:", 10);
    assert_eq!(client.ask("DEL before:s1"), r":1\r\n");
    racks.wait_for(1, "down");
    let status = racks.status();
    assert!(status["racks"][1]["hints"].as_u64() > Some(10), "{status}");
    racks.racks[1].iter().for_each(RedisServer::thaw);
    racks.wait_until_up();
    fill(&mut client, "after:", 5);
    racks.assert_equal();
    let status = racks.status();
    assert_eq!(
        (&status["racks"][1]["hints"], &status["counts"]["stale"]),
        (&0.into(), &0.into()),
        "{status}"
    );
    assert!(status["counts"]["played_back"].as_u64() > Some(10), "{status}");
}

#[test]
fn a_node_that_lost_its_keys_is_repaired_key_by_key() {
    let mut racks = Racks::start(2, 1, &[]);
    let mut client = Client::connect(racks.proxy.port);
    fill(&mut client, "k:", 30);
    assert_eq!(client.ask("SET timed v EX 1000"), r"+OK\r\n");
    let port = racks.racks[1][0].port;
    racks.racks[1][0].kill();
    assert_eq!(client.ask("SET k:s1 changed"), r"+OK\r\n");
    racks.racks[1][0] = poll_until("the port is free again", || RedisServer::try_start(port, &[]));
    racks.wait_until_up();
    racks.assert_equal();
    let mut node = racks.racks[1][0].connect();
    assert_eq!(node.ask("GET k:s1"), r"$7\r\nchanged\r\n");
    let ttl = node.ask("TTL timed");
    assert!([r":1000\r\n", r":999\r\n", r":998\r\n"].contains(&&*ttl) || ttl.starts_with(":9"), "{ttl}");
    assert!(racks.status()["counts"]["stale"].as_u64() >= Some(1));
}

#[test]
fn a_rack_whose_hints_overflow_is_stale_and_repaired() {
    let racks = Racks::start(2, 1, &["--request-timeout-ms=200", "--hint-log-max=2000"]);
    let mut client = Client::connect(racks.proxy.port);
    fill(&mut client, "before:", 5);
    racks.racks[1][0].freeze();
    fill(&mut client, "during:", 20);
    racks.wait_for(1, "stale");
    assert_eq!(client.ask("DEL before:s0"), r":1\r\n");
    racks.racks[1][0].thaw();
    racks.wait_until_up();
    racks.assert_equal();
    assert_eq!(racks.racks[1][0].connect().ask("EXISTS before:s0"), r":0\r\n");
}

#[test]
fn hints_outlive_the_process() {
    let flags = ["--request-timeout-ms=200"];
    let mut racks = Racks::start(2, 1, &flags);
    let mut client = Client::connect(racks.proxy.port);
    racks.racks[1][0].freeze();
    fill(&mut client, "k:", 10);
    racks.wait_for(1, "down");
    racks.restart_proxy(&flags);
    poll_until("the hints are known", || {
        (racks.status()["racks"][1]["hints"].as_u64() > Some(10)).then_some(())
    });
    racks.racks[1][0].thaw();
    racks.wait_until_up();
    racks.assert_equal();
}

#[test]
fn a_level_that_too_few_racks_can_meet_is_an_error() {
    let mut racks =
        Racks::start(2, 1, &["--write-consistency=DC_QUORUM", "--read-consistency=DC_SAFE_QUORUM"]);
    let mut client = Client::connect(racks.proxy.port);
    assert_eq!(client.ask("SET k v"), r"+OK\r\n");
    assert_eq!(client.ask("GET k"), r"$1\r\nv\r\n");
    racks.racks[1][0].kill();
    racks.wait_for(1, "down");
    let down = "too few are up for DC_QUORUM (dc/r1 is down); the command was not run";
    assert_eq!(client.ask("SET k w"), format!(r"-ERR racks: {down}\r\n"));
    assert!(client.ask("GET k").starts_with("-ERR racks: too few are up for DC_SAFE_QUORUM"));
    assert_eq!(racks.racks[0][0].connect().ask("GET k"), r"$1\r\nv\r\n");
    assert_eq!(racks.status()["counts"]["writes_missed"], 1);
}

#[test]
fn a_write_whose_rack_is_lost_on_the_way_may_have_run() {
    let racks = Racks::start(2, 1, &["--write-consistency=DC_QUORUM", "--request-timeout-ms=200"]);
    let mut client = Client::connect(racks.proxy.port);
    racks.racks[1][0].freeze();
    let reply = client.ask("SET k v");
    let lost = "dc/r1 did not answer, and DC_QUORUM needs more; the command may have run";
    assert_eq!(reply, format!(r"-ERR racks: {lost}\r\n"));
    racks.racks[1][0].thaw();
    racks.wait_until_up();
    racks.assert_equal();
    assert_eq!(client.ask("GET k"), r"$1\r\nv\r\n");
}

#[test]
fn a_key_that_was_changed_behind_the_proxy_is_repaired() {
    let racks = Racks::start(3, 1, &["--read-consistency=DC_QUORUM"]);
    let mut client = Client::connect(racks.proxy.port);
    assert_eq!(client.ask("SET k right"), r"+OK\r\n");
    assert_eq!(racks.racks[2][0].connect().ask("SET k wrong"), r"+OK\r\n");
    assert_eq!(client.ask("GET k"), r"$5\r\nright\r\n");
    poll_until("the key is repaired", || (racks.status()["counts"]["repaired"] == 1).then_some(()));
    racks.assert_equal();
    assert_eq!(racks.racks[2][0].connect().ask("GET k"), r"$5\r\nright\r\n");
    assert_eq!(racks.status()["counts"]["different"], 1);
}

#[test]
fn a_new_rack_gets_the_keys_that_are_there() {
    let full = RedisServer::start();
    fill(&mut full.connect(), "k:", 10);
    let log = Directory::new();
    let nodes = vec![vec![full], vec![RedisServer::start()]];
    let proxy = Racks::proxy(&nodes, &log, &[]);
    let racks = Racks { racks: nodes, proxy, log };
    racks.wait_until_up();
    racks.assert_equal();
    assert_eq!(racks.racks[1][0].connect().ask("GET k:s3"), r"$1\r\n3\r\n");
}

#[test]
fn tokens_place_keys_as_in_dynomite() {
    let nodes: Vec<RedisServer> = (0..4).map(|_| RedisServer::start()).collect();
    let log = Directory::new();
    let rack = |name: &str, one: usize, other: usize| {
        let (one, other) = (nodes[one].port, nodes[other].port);
        format!("--rack=dc/{name}=127.0.0.1:{one}@2147483647,127.0.0.1:{other}@4294967295")
    };
    let hint_log = format!("--hint-log={}", log.path("hints").display());
    let flags = ["--host=127.0.0.1", "--port=0"];
    let racks = [rack("a", 0, 1), rack("b", 2, 3), hint_log];
    let racks: Vec<&str> = racks.iter().map(String::as_str).collect();
    let proxy = Proxy::start(&[&racks[..], &flags].concat());
    let mut client = Client::connect(proxy.port);
    for number in 0..50 {
        poll_until("the first rack is up", || {
            (client.ask(&format!("SET key{number} v")) == r"+OK\r\n").then_some(())
        });
    }
    let hash = topology::HashFunction::Murmur;
    for number in 0..50 {
        let key = format!("key{number}");
        let shard = usize::from(hash.hash(key.as_bytes()) > 2_147_483_647);
        assert_eq!(nodes[shard].connect().ask(&format!("EXISTS {key}")), r":1\r\n", "{key}");
    }
}

#[test]
fn racks_are_written_in_a_file_as_a_list() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    let folder = Directory::new();
    let text = format!(
        "rack = ['dc/a=127.0.0.1:{}', 'dc/b=127.0.0.1:{}']\nhint-log = '{}'\nlocal-rack = 'dc/b'\nhost = '127.0.0.1'\nport = 0\n",
        one.port,
        other.port,
        folder.path("hints").display()
    );
    let file = folder.write("shardis.toml", &text);
    let proxy = Proxy::start(&[&format!("--config={file}")]);
    let mut client = Client::connect(proxy.port);
    poll_until("a rack is up", || (client.ask("SET k v") == r"+OK\r\n").then_some(()));
    assert_eq!(other.connect().ask("GET k"), r"$1\r\nv\r\n");
}

/// Appends to lists while nodes freeze and come back; nothing that was acknowledged is lost.
#[test]
fn acknowledged_writes_survive_frozen_racks() {
    let mut prng = Prng::new(seed_for("acknowledged_writes_survive_frozen_racks"));
    let racks = Racks::start(3, 1, &["--write-consistency=DC_QUORUM", "--request-timeout-ms=100"]);
    let mut client = Client::connect(racks.proxy.port);
    let mut acknowledged = Vec::new();
    let rounds = number_from_env("SHARDIS_RACK_ROUNDS", 4);
    for number in 0..rounds * 200 {
        if number % 200 == 50 {
            racks.racks[prng.below(3) as usize][0].freeze();
        }
        if client.ask(&format!("RPUSH list {number}")).starts_with(':') {
            acknowledged.push(number.to_string());
        }
        if number % 200 == 199 {
            racks.racks.iter().for_each(|nodes| nodes[0].thaw());
            racks.wait_until_up();
        }
    }
    racks.assert_equal();
    let list = client.command(&[b"LRANGE", b"list", b"0", b"-1"]);
    let found: Vec<String> = resp::reply::elements(&list)
        .expect("LRANGE answers an array")
        .map(|element| {
            String::from_utf8_lossy(resp::reply::as_bulk(element).unwrap_or_default()).into_owned()
        })
        .collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|number| !found.contains(number)).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", acknowledged.len());
    assert!(acknowledged.len() as u64 > rounds * 100, "{} were acknowledged", acknowledged.len());
}
