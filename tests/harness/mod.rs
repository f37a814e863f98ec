//! The base of every test: nodes, the proxy in front of them, clients, and waiting with a deadline.

pub(crate) mod acceptor;
pub(crate) mod browser;
pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod fake_node;
pub(crate) mod fault;
pub(crate) mod http;
pub(crate) mod kernel;
pub(crate) mod ledger;
pub(crate) mod local;
pub(crate) mod network;
pub(crate) mod oracle;
pub(crate) mod processes;
pub(crate) mod relay;
pub(crate) mod screen;
pub(crate) mod server;
pub(crate) mod stamp;
pub(crate) mod wire;

pub(crate) use client::Client;
pub(crate) use processes::{Proxy, RedisServer};

use std::time::{Duration, Instant};

/// The longest time of anything here before a test counts as hung. It is generous: two cores are shared, and a frozen machine
/// is no bug of the proxy. Successful steps never wait for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Some nodes and one proxy over them.
pub(crate) struct World {
    pub(crate) nodes: Vec<RedisServer>,
    pub(crate) proxy: Proxy,
}

impl World {
    /// `shards` fresh nodes behind a proxy with default settings.
    pub(crate) fn with_shards(shards: usize) -> World {
        World::with_flags(shards, &[])
    }

    /// `shards` fresh nodes behind a proxy that gets `flags` besides the address and the nodes.
    pub(crate) fn with_flags(shards: usize, flags: &[&str]) -> World {
        let nodes: Vec<RedisServer> = (0..shards).map(|_| RedisServer::start()).collect();
        let proxy = Proxy::over(&nodes, flags);
        World { nodes, proxy }
    }

    /// A new client of the proxy.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.proxy.port)
    }

    /// Name of shard `index` in the proxy's errors: its node's address.
    pub(crate) fn shard_name(&self, index: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[index].port)
    }

    /// The first keys `prefix0`, `prefix1`, … that live on shard `index` by default settings.
    pub(crate) fn keys_on(&self, index: usize, prefix: &str) -> impl Iterator<Item = String> + use<> {
        let shards = self.nodes.len();
        let prefix = prefix.to_owned();
        (0..)
            .map(move |n| format!("{prefix}{n}"))
            .filter(move |key| shard_of(key.as_bytes(), shards) == index)
    }

    /// One key on shard `index`.
    pub(crate) fn key_on(&self, index: usize, prefix: &str) -> String {
        self.keys_on(index, prefix).next().expect("every shard owns some key")
    }

    /// One key on each shard, in the order of the shards.
    pub(crate) fn key_on_each(&self, prefix: &str) -> Vec<String> {
        (0..self.nodes.len()).map(|index| self.key_on(index, prefix)).collect()
    }
}

/// The shard of `key` in redis-sharding (the SML version, our default). It is zlib's CRC-32 of the tag at the key's end, or of
/// the whole key, modulo the number of nodes. It is written again here, independently of the topology crate.
pub(crate) fn shard_of(key: &[u8], shards: usize) -> usize {
    let hashed = match (key.last(), key.iter().rposition(|&byte| byte == b'{')) {
        (Some(b'}'), Some(open)) => &key[open + 1..key.len() - 1],
        _ => key,
    };
    crc32fast::hash(hashed) as usize % shards
}

/// Calls `probe` again and again until it returns a value, at most for [`PATIENCE`]; `what` names that value.
#[track_caller]
pub(crate) fn poll_until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    poll_for(PATIENCE, probe).unwrap_or_else(|| panic!("waited {PATIENCE:?} for: {what}"))
}

/// Calls `probe` again and again until it returns a value or `patience` is over.
pub(crate) fn poll_for<T>(patience: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = probe() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        // tidy: allow(sleep): the pause between two looks, not a wait; it keeps the poller from taking a core.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The seed of a random test: `SHARDIS_SEED`, or the clock. Prints it with the command that repeats the run.
pub(crate) fn seed_for(test: &str) -> u64 {
    let seed = match std::env::var("SHARDIS_SEED") {
        Ok(text) => text.parse().expect("SHARDIS_SEED is a number"),
        Err(_) => {
            std::time::UNIX_EPOCH.elapsed().expect("the clock is past 1970").as_nanos() as u64 % 1_000_000_007
        }
    };
    eprintln!(
        "seed {seed}; to repeat: SHARDIS_SEED={seed} cargo test -p shardis --test whole {test} -- --nocapture"
    );
    seed
}

/// A number from the environment, or `default`.
pub(crate) fn number_from_env(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// `bytes` in readable form: escaped, and cut in the middle when long.
pub(crate) fn show(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 400;
    if bytes.len() <= SHOWN_MAX {
        return bytes.escape_ascii().to_string();
    }
    let (head, tail) = (&bytes[..SHOWN_MAX / 2], &bytes[bytes.len() - SHOWN_MAX / 4..]);
    format!("{} … {} bytes … {}", head.escape_ascii(), bytes.len(), tail.escape_ascii())
}
