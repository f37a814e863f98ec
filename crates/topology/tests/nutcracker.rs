//! The running nutcracker (twemproxy 0.5.0) as the judge: every key must live where it puts it.
//!
//! ```text
//!     keys ─► nutcracker, one pool for each topology ─► tiny nodes in this process, each answers its own number
//!       └───► Topology::shard_of ──────────────────────────────────────────────────────► must be the same number
//! ```
//!
//! Without a nutcracker the tests say so and pass, except where the environment says `CI=true`. The keys come from a
//! seed that each test prints; `SHARDIS_SEED=… cargo test -p topology --test nutcracker` repeats it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "starts a process, talks to it over sockets and serves it from threads; a deadline ends every wait"
)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, thread};
use stdx::Prng;
use topology::{Distribution, HashFunction, NodeSpec, TagRule, Topology, TopologySpec};

/// twemproxy's hash functions.
const HASHES: [&str; 12] = [
    "one_at_a_time",
    "md5",
    "crc16",
    "crc32",
    "crc32a",
    "fnv1_64",
    "fnv1a_64",
    "fnv1_32",
    "fnv1a_32",
    "hsieh",
    "murmur",
    "jenkins",
];

/// Keys that each pool is asked for.
const KEYS_PER_POOL: usize = 4000;

/// Requests sent before their replies are read: few enough to fit the buffers of a socket.
const KEYS_PER_BATCH: usize = 50;

/// Whether nutcracker takes bytes from 0x80 up for positive here, as C does on ARM except under Apple's systems. We
/// hold with x86, so such keys cannot be compared.
const CHAR_IS_UNSIGNED: bool = cfg!(all(target_arch = "aarch64", not(target_vendor = "apple")));

/// Time within which nutcracker must listen, and answer.
const WAIT: Duration = Duration::from_secs(10);

/// Attempts to find a port for nutcracker's statistics that no other program takes in between.
const STARTS_MAX: usize = 5;

#[test]
fn every_hash_places_keys_as_nutcracker_does() {
    let Some(mut court) = Court::open("hashes") else { return };
    let nodes: Vec<_> = (0..4).map(|_| court.tcp_node("127.0.0.1:0", ":1")).collect();
    for hash in HASHES {
        for distribution in ["ketama", "modula"] {
            court.add_pool(distribution, hash, None, &nodes);
        }
    }
    court.judge();
}

#[test]
fn weights_and_names_place_keys_as_nutcracker_does() {
    let Some(mut court) = Court::open("weights") else { return };
    // Sorted by length and not by the alphabet; the last one is as long as twemproxy's buffer allows.
    let longest = format!(":7 {}", "n".repeat(78));
    let tails = [":1 bbb", ":2 aaaa", ":3 cc", ":10 Zz-9_.x", &longest];
    let nodes: Vec<_> = tails.iter().map(|tail| court.tcp_node("127.0.0.1:0", tail)).collect();
    for hash in HASHES {
        for distribution in ["ketama", "modula"] {
            court.add_pool(distribution, hash, None, &nodes);
        }
    }
    // Weights without names, and one so light that it gets no point of the ring.
    let tails = [":100", ":300000", ":20", ":1"];
    let nodes: Vec<_> = tails.iter().map(|tail| court.tcp_node("127.0.0.1:0", tail)).collect();
    for distribution in ["ketama", "modula"] {
        court.add_pool(distribution, "murmur", None, &nodes);
    }
    court.judge();
}

#[test]
fn hash_tags_place_keys_as_nutcracker_does() {
    let Some(mut court) = Court::open("tags") else { return };
    let nodes: Vec<_> = (0..5).map(|_| court.tcp_node("127.0.0.1:0", ":1")).collect();
    for tag in ["{}", "<>", "||", "}{"] {
        court.add_pool("ketama", "fnv1a_64", Some(tag), &nodes);
        court.add_pool("modula", "crc32a", Some(tag), &nodes);
        court.add_pool("modula", "hsieh", Some(tag), &nodes);
    }
    court.judge();
}

#[test]
fn any_number_of_nodes_places_keys_as_nutcracker_does() {
    let Some(mut court) = Court::open("counts") else { return };
    let nodes: Vec<_> = (0..50).map(|_| court.tcp_node("127.0.0.1:0", ":1")).collect();
    // With 25, 47 and 50 nodes of one weight, single precision costs each of them four points.
    for count in [1, 2, 3, 7, 24, 25, 47, 50] {
        court.add_pool("ketama", "md5", None, &nodes[..count]);
    }
    for count in [1, 2, 25] {
        court.add_pool("modula", "crc16", None, &nodes[..count]);
    }
    court.judge();
}

#[test]
fn other_addresses_place_keys_as_nutcracker_does() {
    let Some(mut court) = Court::open("addresses") else { return };
    let tails = [":1", ":2", ":1", ":1 named"];
    let mut unix: Vec<_> = tails.iter().map(|tail| court.unix_node(tail)).collect();
    court.add_pool_pair(&unix);
    unix.extend((0..2).map(|_| court.tcp_node("127.0.0.1:0", ":2")));
    court.add_pool_pair(&unix);
    if TcpListener::bind("[::1]:0").is_ok() {
        let ipv6: Vec<_> = (0..3).map(|_| court.tcp_node("[::1]:0", ":1")).collect();
        court.add_pool_pair(&ipv6);
    } else {
        eprintln!("no IPv6 here: its names go untested");
    }
    // memcached's port, on loopback addresses of this process's own, which not every system has.
    let pid = std::process::id();
    let hosts = [1, 2, 3].map(|last| format!("127.{}.{}.{last}:11211", pid / 250 % 250 + 1, pid % 250));
    if hosts.iter().all(|host| TcpListener::bind(host).is_ok()) {
        let memcached: Vec<_> = hosts.iter().map(|host| court.tcp_node(host, ":1")).collect();
        court.add_pool_pair(&memcached);
    } else {
        eprintln!("{hosts:?} cannot be bound here: twemproxy's rule for port 11211 goes untested");
    }
    court.judge();
}

/// One node of a pool, in this process.
#[derive(Clone)]
struct Node {
    /// Its reply to every request.
    number: usize,
    /// Its line in nutcracker's configuration.
    line: String,
    /// The same for us.
    spec: NodeSpec,
}

/// One pool of nutcracker and the topology that should be equal to it.
struct Pool {
    /// Its name in the configuration, and of its socket.
    name: String,
    /// Its description for messages.
    title: String,
    /// Its lines in the configuration.
    config: String,
    nodes: Vec<Node>,
    topology: Topology,
}

/// All that one test needs; gone with it.
struct Court {
    nutcracker: PathBuf,
    dir: PathBuf,
    pools: Vec<Pool>,
    nodes: usize,
}

impl Court {
    /// A court of its own for the test `label`; `None` if there is no nutcracker to ask.
    fn open(label: &str) -> Option<Court> {
        let nutcracker = find_nutcracker()?;
        let dir = env::temp_dir().join(format!("shardis-{label}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory for sockets and the configuration");
        Some(Court { nutcracker, dir, pools: Vec::new(), nodes: 0 })
    }

    /// Starts a node at `address` (port 0: any), with `tail` for weight and name.
    fn tcp_node(&mut self, address: &str, tail: &str) -> Node {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("bound");
        let number = self.next_number();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_nodelay(true).expect("a TCP stream");
                thread::spawn(move || serve(&stream, &stream, number));
            }
        });
        // nutcracker knows no brackets.
        let line = format!("{}:{}{tail}", address.ip(), address.port());
        Node { number, line, spec: parse(&format!("{address}{tail}")) }
    }

    /// Starts a node at a unix socket.
    fn unix_node(&mut self, tail: &str) -> Node {
        let number = self.next_number();
        let path = self.dir.join(format!("node-{number}"));
        let listener = UnixListener::bind(&path).expect("a socket");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(&stream, &stream, number));
            }
        });
        let line = format!("{}{tail}", path.display());
        Node { number, spec: parse(&line), line }
    }

    /// A number for one more node.
    fn next_number(&mut self) -> usize {
        self.nodes += 1;
        self.nodes
    }

    /// Adds `nodes` as a pool of each distribution.
    fn add_pool_pair(&mut self, nodes: &[Node]) {
        self.add_pool("ketama", "jenkins", None, nodes);
        self.add_pool("modula", "fnv1a_32", None, nodes);
    }

    /// Adds one pool.
    fn add_pool(&mut self, distribution: &str, hash: &str, tag: Option<&str>, nodes: &[Node]) {
        let name = format!("pool-{}", self.pools.len());
        let title = format!("{} nodes, {distribution}, {hash}, hash_tag {tag:?}", nodes.len());
        let listen = self.dir.join(&name);
        let mut config = format!(
            "{name}:\n  listen: {}\n  redis: true\n  distribution: {distribution}\n  hash: {hash}\n",
            listen.display()
        );
        if let Some(tag) = tag {
            writeln!(config, "  hash_tag: \"{tag}\"").expect("a string takes all");
        }
        config.push_str("  servers:\n");
        for node in nodes {
            writeln!(config, "   - {}", node.line).expect("a string takes all");
        }
        let spec = TopologySpec {
            nodes: nodes.iter().map(|node| node.spec.clone()).collect(),
            distribution: distribution.parse::<Distribution>().expect("twemproxy's are ours"),
            hash: Some(hash.parse::<HashFunction>().expect("twemproxy's are ours")),
            // Without hash_tag, what goes for twemproxy's distributions must be twemproxy's rule.
            tag_rule: tag.map(|tag| tag.parse::<TagRule>().expect("two characters")),
        };
        let topology = Topology::new(1, &spec).expect("nutcracker takes it, so do we");
        self.pools.push(Pool { name, title, config, nodes: nodes.to_vec(), topology });
    }

    /// Asks nutcracker for every key of every pool.
    fn judge(&self) {
        let seed = seed();
        eprintln!("SHARDIS_SEED={seed} cargo test -p topology --test nutcracker");
        let nutcracker = Nutcracker::start(&self.nutcracker, &self.dir, &self.pools);
        let mut prng = Prng::new(seed);
        let mut used = 0;
        for pool in &self.pools {
            let keys = keys(&mut prng);
            let numbers = nutcracker.ask(&self.dir.join(&pool.name), &keys);
            for (key, number) in keys.iter().zip(&numbers) {
                let ours = pool.nodes[pool.topology.shard_of(key).0 as usize].number;
                assert_eq!(ours, *number, "{}: key {}", pool.title, key.escape_ascii());
            }
            used += pool.nodes.iter().filter(|node| numbers.contains(&node.number)).count();
        }
        let keys = self.pools.len() * KEYS_PER_POOL;
        eprintln!("{keys} keys in {} pools, answered by {used} nodes of them", self.pools.len());
    }
}

impl Drop for Court {
    fn drop(&mut self) {
        // Nothing depends on it: the next process takes another directory.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A running nutcracker; killed with this value, also in a panic.
struct Nutcracker {
    child: Child,
}

impl Nutcracker {
    /// Starts it with `pools` and waits until it listens.
    fn start(program: &Path, dir: &Path, pools: &[Pool]) -> Nutcracker {
        let config = dir.join("nutcracker.yml");
        let text: String = pools.iter().map(|pool| pool.config.as_str()).collect();
        fs::write(&config, text).expect("the directory is ours");
        let log = dir.join("log");
        let socket = dir.join(&pools[0].name);
        for _ in 0..STARTS_MAX {
            let stats = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = stats.expect("a free port").port().to_string();
            let child = Command::new(program)
                .args(["-a", "127.0.0.1", "-s", &port, "-c"])
                .arg(&config)
                .arg("-o")
                .arg(&log)
                .spawn()
                .expect("nutcracker starts");
            let mut nutcracker = Nutcracker { child };
            if nutcracker.listens(&socket) {
                return nutcracker;
            }
        }
        panic!("nutcracker does not listen: {}", fs::read_to_string(&log).unwrap_or_default());
    }

    /// Whether it takes connections before it ends or time is up.
    fn listens(&mut self, socket: &Path) -> bool {
        let deadline = Instant::now() + WAIT;
        while Instant::now() < deadline {
            if UnixStream::connect(socket).is_ok() {
                return true;
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            thread::yield_now();
        }
        false
    }

    /// The numbers of the nodes that answer for `keys` in the pool at `socket`.
    fn ask(&self, socket: &Path, keys: &[Vec<u8>]) -> Vec<usize> {
        let stream = UnixStream::connect(socket).expect("the pool listens");
        stream.set_read_timeout(Some(WAIT)).expect("not zero");
        let mut replies = BufReader::new(&stream);
        let mut numbers = Vec::new();
        for batch in keys.chunks(KEYS_PER_BATCH) {
            let mut requests = Vec::new();
            for key in batch {
                requests.extend(format!("*2\r\n$3\r\nGET\r\n${}\r\n", key.len()).bytes());
                requests.extend(key);
                requests.extend(b"\r\n");
            }
            (&stream).write_all(&requests).expect("nutcracker lives");
            numbers.extend(batch.iter().map(|key| read_number(&mut replies, key)));
        }
        numbers
    }
}

impl Drop for Nutcracker {
    fn drop(&mut self) {
        // The process may have ended by itself, which is noticed elsewhere.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the bulk string with the number of the node that answers for `key`.
fn read_number(replies: &mut impl BufRead, key: &[u8]) -> usize {
    let mut reply = String::new();
    replies.read_line(&mut reply).expect("an answer in time");
    assert!(reply.starts_with('$'), "key {}: nutcracker says {reply:?}", key.escape_ascii());
    reply.clear();
    replies.read_line(&mut reply).expect("the number follows");
    reply.trim().parse().expect("a number")
}

/// A node: answers `number` to every request, until the other side closes.
fn serve(input: impl Read, output: impl Write, number: usize) {
    let mut input = BufReader::new(input);
    let mut output = BufWriter::new(output);
    let number = number.to_string();
    while let Some(args) = read_header(&mut input, '*') {
        for _ in 0..args {
            let Some(len) = read_header(&mut input, '$') else { return };
            let mut body = vec![0; len + 2];
            if input.read_exact(&mut body).is_err() {
                return;
            }
        }
        let mut written = write!(output, "${}\r\n{number}\r\n", number.len());
        if input.buffer().is_empty() {
            written = written.and_then(|()| output.flush());
        }
        if written.is_err() {
            return;
        }
    }
}

/// Reads a line such as `*2`; `None` at the end of the stream.
fn read_header(input: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    line.strip_prefix(kind)?.trim_end().parse().ok()
}

/// Usual and unusual keys: the empty one, numbers, tags in every disorder, bytes from 0x80 up, and up to 300 random bytes.
fn keys(prng: &mut Prng) -> Vec<Vec<u8>> {
    let mut keys = vec![Vec::new()];
    while keys.len() < KEYS_PER_POOL {
        let mut key = match prng.below(6) {
            0 => format!("user:{}", prng.below(1_000_000)).into_bytes(),
            1 => format!("a{{{}}}b<{}>|{}|", prng.below(100), prng.below(100), prng.below(100)).into_bytes(),
            2 => bytes(prng, 5, |prng| 0x80 | prng.next_u64() as u8),
            3 => bytes(prng, 12, |prng| *prng.pick(b"{}<>|a\xe4")),
            4 => bytes(prng, 30, |prng| prng.next_u64() as u8),
            _ => bytes(prng, 301, |prng| prng.next_u64() as u8),
        };
        if CHAR_IS_UNSIGNED {
            key.iter_mut().for_each(|byte| *byte &= 0x7f);
        }
        keys.push(key);
    }
    keys
}

/// Fewer than `bound` bytes, each drawn by `draw`.
fn bytes(prng: &mut Prng, bound: u64, draw: fn(&mut Prng) -> u8) -> Vec<u8> {
    (0..prng.below(bound)).map(|_| draw(prng)).collect()
}

/// The seed of this run: the one asked for, or a new one.
fn seed() -> u64 {
    match env::var("SHARDIS_SEED") {
        Ok(seed) => seed.parse().expect("SHARDIS_SEED is a number"),
        Err(_) => SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64),
    }
}

/// `text` as a node.
fn parse(text: &str) -> NodeSpec {
    text.parse().expect("nutcracker takes it, so do we")
}

/// Where nutcracker is; if nowhere, says how to get it.
fn find_nutcracker() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|dir| dir.join("nutcracker"))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("skipped: no nutcracker on PATH or in /usr/sbin; `apt-get install nutcracker` installs it");
        assert!(
            env::var("CI").as_deref() != Ok("true"),
            "CI must compare with nutcracker, so install it there"
        );
    }
    found
}
