//! Keys live where redis-sharding and twemproxy put them, so that shardis can replace these without moving data.

use crate::harness::processes::{Process, free_port, free_ports};
use crate::harness::{Client, Proxy, RedisServer, World, poll_until, seed_for, shard_of, show};
use std::path::PathBuf;
use std::process::Command;
use stdx::Prng;

#[test]
fn keys_land_where_redis_sharding_puts_them() {
    let world = World::with_shards(4);
    let mut client = world.connect();
    let mut prng = Prng::new(seed_for("keys_land_where_redis_sharding_puts_them"));
    let edges =
        ["user{42}", "{42}user", "{}", "a{}", "a{b}{c}", "a{b{c}", "{{}", "a{b}\n", "{a\nb}", "x}", "{x", ""];
    let mut keys: Vec<Vec<u8>> = edges.iter().map(|key| key.as_bytes().to_vec()).collect();
    keys.extend((0..500).map(|_| random_key(&mut prng)));
    for key in &keys {
        assert_eq!(client.command(&[b"SET", key, b"v"]), b"+OK\r\n");
    }
    for (shard, node) in world.nodes.iter().enumerate() {
        let mut direct = node.connect();
        for key in &keys {
            let expected = if shard_of(key, 4) == shard { b":1\r\n" } else { b":0\r\n" };
            assert_eq!(direct.command(&[b"EXISTS", key]), expected, "{} on node {shard}", show(key));
        }
    }
}

#[test]
fn nodes_count_in_the_order_in_which_they_are_named() {
    let mut world = World::with_shards(3);
    let key = world.key_on(0, "k");
    world.connect().ask(&format!("SET {key} v"));
    world.nodes.rotate_left(1);
    let turned = Proxy::over(&world.nodes, &[]);
    assert_eq!(Client::connect(turned.port).ask(&format!("GET {key}")), "$-1\\r\\n");
    // The node of the key is the last now; the same name is another shard.
    assert_eq!(world.nodes[2].connect().ask(&format!("EXISTS {key}")), ":1\\r\\n");
}

#[test]
fn the_tag_rule_decides_which_keys_share_a_shard() {
    let nodes: Vec<RedisServer> = (0..4).map(|_| RedisServer::start()).collect();
    for (rule, together, apart) in [
        ("sml", &["*:{tag}", "*{}"][..], &["{tag}*", "*:[tag]"][..]),
        ("perl", &["*:{tag}"], &["{tag}*", "*{}"]),
        ("redis", &["*:{tag}", "{tag}*", "a*{tag}{*}"], &["*{}", "*:[tag]"]),
        ("{}", &["*:{tag}", "{tag}*"], &["*{}", "*:[tag]"]),
        ("[]", &["*:[tag]", "[tag]*"], &["*:{tag}"]),
        ("none", &["same"], &["*:{tag}", "{tag}*"]),
    ] {
        let proxy = Proxy::over(&nodes, &["--tag-rule", rule]);
        let mut client = Client::connect(proxy.port);
        // Ten keys of one pattern: it is no chance that all of them meet on one of four shards.
        let mut union = |pattern: &str| {
            let keys: String =
                (0..10).map(|n| format!(" {}", pattern.replace('*', &n.to_string()))).collect();
            client.ask(&format!("SUNION{keys}"))
        };
        for pattern in together {
            assert_eq!(union(pattern), "*0\\r\\n", "{rule} keeps {pattern} together");
        }
        for pattern in apart {
            assert!(union(pattern).starts_with("-CROSSSLOT "), "{rule} does not keep {pattern} together");
        }
    }
}

/// twemproxy's hash functions.
pub(crate) const HASHES: [&str; 12] = [
    "fnv1a_64",
    "one_at_a_time",
    "md5",
    "crc16",
    "crc32",
    "crc32a",
    "fnv1_64",
    "fnv1_32",
    "fnv1a_32",
    "hsieh",
    "murmur",
    "jenkins",
];
pub(crate) const DISTRIBUTIONS: [&str; 2] = ["ketama", "modula"];

#[test]
fn keys_land_where_twemproxy_puts_them() {
    let nodes: Vec<RedisServer> = (0..5).map(|_| RedisServer::start()).collect();
    let twemproxy = Twemproxy::over(&nodes);
    let mut prng = Prng::new(seed_for("keys_land_where_twemproxy_puts_them"));
    for (pool, distribution, hash) in pools() {
        let flags = ["--distribution", distribution, "--hash", hash, "--tag-rule", "{}"];
        let proxy = Proxy::over(&nodes, &flags);
        let (mut theirs, mut ours) = (Client::connect(twemproxy.ports[pool]), Client::connect(proxy.port));
        let keys: Vec<Vec<u8>> =
            (0..if pool == 0 { 300 } else { 60 }).map(|_| random_key(&mut prng)).collect();
        assert_found(&mut theirs, &mut ours, &keys, &format!("{distribution} {hash}"));
        // The same node, not a copy: a deletion by shardis is visible in all of them.
        for key in &keys {
            ours.command(&[b"DEL", key]);
        }
        let left: Vec<String> = nodes.iter().map(|node| node.connect().ask("DBSIZE")).collect();
        assert_eq!(left, [":0\\r\\n"; 5], "{distribution} {hash}");
    }
}

#[test]
fn like_twemproxy_has_twemproxys_defaults() {
    let nodes: Vec<RedisServer> = (0..5).map(|_| RedisServer::start()).collect();
    let twemproxy = Twemproxy::over(&nodes);
    let mut theirs = Client::connect(*twemproxy.ports.last().expect("the pool of defaults"));
    let tagged = (0..200).map(|number| format!("cart:{number}{{user:{}}}", number % 7).into_bytes());
    let keys: Vec<Vec<u8>> = tagged.collect();
    for flags in [&["--like=twemproxy"][..], &["--distribution=ketama", "--hash=fnv1a_64"]] {
        let proxy = Proxy::over(&nodes, flags);
        assert_found(&mut theirs, &mut Client::connect(proxy.port), &keys, &flags.join(" "));
    }
}

/// Checks that `ours` finds all values that `theirs` has written under `keys`.
fn assert_found(theirs: &mut Client, ours: &mut Client, keys: &[Vec<u8>], how: &str) {
    for (number, key) in keys.iter().enumerate() {
        let value = number.to_string();
        let reply = theirs.command(&[b"SET", key, value.as_bytes()]);
        assert_eq!(show(&reply), "+OK\\r\\n", "twemproxy, {how}, {}", show(key));
    }
    for key in keys {
        let (expected, got) = (theirs.command(&[b"GET", key]), ours.command(&[b"GET", key]));
        assert_eq!(show(&got), show(&expected), "{how}, {}", show(key));
    }
}

/// Every distribution with every hash, numbered.
fn pools() -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let all = DISTRIBUTIONS.into_iter().flat_map(|distribution| HASHES.map(|hash| (distribution, hash)));
    all.enumerate().map(|(pool, (distribution, hash))| (pool, distribution, hash))
}

/// A key as programs make them, or any bytes; some with a tag.
pub(crate) fn random_key(prng: &mut Prng) -> Vec<u8> {
    let mut key = match prng.below(3) {
        0 => format!("user:{}:profile", prng.below(1_000_000)).into_bytes(),
        1 => (0..1 + prng.below(40)).map(|_| prng.below(256) as u8).collect(),
        _ => (0..1 + prng.below(12)).map(|_| *prng.pick(b"ab{}:0")).collect(),
    };
    if prng.one_in(4) {
        key.extend(format!("{{{}}}", prng.below(100)).into_bytes());
    }
    key
}

/// A real `nutcracker`.
pub(crate) struct Twemproxy {
    pub(crate) ports: Vec<u16>,
    /// Its file.
    pub(crate) config: PathBuf,
    /// The port of its stats, which it computes ten times a second.
    pub(crate) stats: u16,
    _process: Process,
}

impl Twemproxy {
    /// One with a pool for each distribution and hash, and a last one with the defaults.
    fn over(nodes: &[RedisServer]) -> Twemproxy {
        let ports = free_ports(pools().count() + 1);
        let mut text = String::new();
        let lines = pools().map(|(_, distribution, hash)| {
            format!("  hash: {hash}\n  distribution: {distribution}\n  hash_tag: \"{{}}\"\n")
        });
        for (port, line) in ports.iter().zip(lines.chain([String::new()])) {
            text.push_str(&format!("pool{port}:\n  listen: 127.0.0.1:{port}\n{line}"));
            text.push_str("  redis: true\n  servers:\n");
            for node in nodes {
                text.push_str(&format!("   - 127.0.0.1:{}:1\n", node.port));
            }
        }
        Twemproxy::start(ports, &text)
    }

    /// One whose file has `text` and listens at `ports`.
    pub(crate) fn start(ports: Vec<u16>, text: &str) -> Twemproxy {
        let config = std::env::temp_dir().join(format!("shardis-test-nutcracker-{}.yml", ports[0]));
        std::fs::write(&config, text).expect("the temporary directory can be written to");
        let mut command = Command::new("nutcracker");
        let stats = free_port();
        command.arg("-c").arg(&config).args(["-a", "127.0.0.1", "-s", &stats.to_string(), "-i", "100"]);
        let process = Process::spawn(command, "nutcracker");
        for &port in &ports {
            poll_until("nutcracker to listen", || Client::try_connect(port));
        }
        Twemproxy { ports, config, stats, _process: process }
    }
}

impl Drop for Twemproxy {
    fn drop(&mut self) {
        // Best effort: it is in the temporary directory.
        let _ = std::fs::remove_file(&self.config);
    }
}
