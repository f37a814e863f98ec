//! Large values and full memory: large values pass through, slow readers wait in their sockets, and other clients notice
//! neither.

use crate::harness::client::{Client, bulk, request};
use crate::harness::{World, kernel};
use std::io::Read;

/// All figures are in addition to the memory at the start.
const MIB: u64 = 1 << 20;

/// Checks that the process took at most `bytes` more than at `start`.
#[track_caller]
fn assert_peak(world: &World, start: Option<u64>, bytes: u64) {
    if let (Some(start), Some(peak)) = (start, kernel::peak_resident_bytes(world.proxy.pid())) {
        assert!(peak <= start + bytes, "{} MiB above the start", (peak - start) / MIB);
    }
}

/// A value in which no piece looks like another.
fn value(len: usize, salt: usize) -> Vec<u8> {
    (0..len.div_ceil(8))
        .flat_map(|word| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt).to_le_bytes())
        .take(len)
        .collect()
}

#[test]
fn slow_readers_cost_little_and_are_served_in_the_end() {
    const READERS: usize = 30;
    let world = World::with_shards(4);
    let mut writer = world.connect();
    let keys: Vec<String> = (0..40).map(|number| format!("big{number}")).collect();
    let mut expected = format!("*{}\r\n", keys.len()).into_bytes();
    for (number, key) in keys.iter().enumerate() {
        let value = value(100_000, number);
        assert_eq!(writer.command(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n");
        expected.extend(bulk(&value));
    }
    let start = kernel::peak_resident_bytes(world.proxy.pid());
    let mget: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    let mut readers: Vec<Client> = (0..READERS).map(|_| world.connect()).collect();
    readers.iter_mut().for_each(|reader| reader.send(&request(&mget)));
    for round in 0..50 {
        for shard in 0..4 {
            let key = world.key_on(shard, &format!("small{round}-"));
            assert_eq!(writer.command(&[b"SET", key.as_bytes(), b"x"]), b"+OK\r\n", "others are served");
        }
    }
    for reader in &mut readers {
        let mut got = vec![0; expected.len()];
        reader.stream().read_exact(&mut got).expect("everybody is served in the end");
        assert!(got == expected, "and gets what he asked for");
    }
    // 120 MB were asked for.
    assert_peak(&world, start, 48 * MIB);
    assert_eq!(readers[0].command(&mget), expected, "also by who is known to get large replies");
}

#[test]
fn a_large_value_passes_through_without_being_held() {
    let world = World::with_shards(2);
    let (mut client, mut other) = (world.connect(), world.connect());
    let start = kernel::peak_resident_bytes(world.proxy.pid());
    let (key, small) = (world.key_on(0, "large"), world.key_on(0, "small"));
    let value = value(64 << 20, 0);
    assert_eq!(client.command(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n");
    assert_eq!(other.command(&[b"SET", small.as_bytes(), b"1"]), b"+OK\r\n");
    for _ in 0..2 {
        client.send_command(&[b"GET", key.as_bytes()]);
        other.ask(&format!("INCR {small}"));
        assert!(client.read_reply() == bulk(&value), "the value comes back as it was");
    }
    assert_eq!(other.ask(&format!("GET {small}")), "$1\\r\\n3\\r\\n");
    assert_peak(&world, start, 16 * MIB);
}

/// A node that is frozen for a moment has all of it in flight on one link. Requests behind the large value there must not wait
/// until it has arrived.
#[test]
fn reads_behind_a_large_value_are_retried_and_writes_wait() {
    let world = World::with_flags(1, &["--workers=1", "--request-timeout-ms=60000"]);
    let (mut client, mut reader, mut writer) = (world.connect(), world.connect(), world.connect());
    let value = value(64 << 20, 0);
    assert_eq!(client.command(&[b"SET", b"large", &value]), b"+OK\r\n");
    for (round, reads) in [(1, "GET small"), (2, "MGET small none")] {
        // A client that got small values so far is expected to get a small one again.
        for _ in 0..10 {
            assert_eq!(reader.ask(&format!("SET small {round}")), "+OK\\r\\n");
        }
        world.nodes[0].freeze();
        let mut fresh = world.connect();
        for (asking, request) in [(&mut fresh, "GET large"), (&mut reader, reads)] {
            asking.send(format!("{request}\r\n").as_bytes());
            asking.wait_until_read();
        }
        if round == 2 {
            writer.send(b"APPEND log 2\r\n");
            writer.wait_until_read();
        }
        world.nodes[0].thaw();
        // Nobody takes the large value meanwhile.
        let expected = ["$1\r\n1\r\n", "*2\r\n$1\r\n2\r\n$-1\r\n"][round - 1];
        assert_eq!(reader.read_reply(), expected.as_bytes());
        if round == 2 {
            assert_eq!(writer.read_reply(), b":1\r\n", "it was carried out once");
        }
        assert!(fresh.read_reply() == bulk(&value), "the value comes as it is");
        let stats = reader.ask("INFO stats");
        for count in ["total_conns_retired", "total_reads_repeated"] {
            assert!(stats.contains(&format!("{count}:{round}\\r")), "{count} in {stats}");
        }
    }
    assert_eq!(writer.ask("STRLEN log"), ":1\\r\\n");
}

#[test]
fn half_a_large_request_leaves_nothing_behind() {
    let world = World::with_shards(1);
    let whole = request(&[b"SET", b"large", &value(1 << 20, 0)]);
    let mut gone = world.connect();
    gone.send(&whole[..whole.len() / 2]);
    drop(gone);
    let mut cut = world.connect();
    cut.send(&whole[..whole.len() / 2]);
    let mut client = world.connect();
    assert_eq!(client.ask("EXISTS large"), ":0\\r\\n");
    cut.send(&whole[whole.len() / 2..]);
    assert_eq!(cut.read_reply(), b"+OK\r\n", "who goes on is served");
    assert_eq!(client.ask("STRLEN large"), ":1048576\\r\\n");
}

#[test]
fn pipelined_large_and_small_requests_keep_their_order() {
    let world = World::with_shards(3);
    let mut client = world.connect();
    let large = value(300_000, 7);
    let mut sent = Vec::new();
    let mut expected = Vec::new();
    for round in 0..20 {
        let key = format!("key{}", round % 5);
        let body = if round % 3 == 0 { large.clone() } else { format!("small{round}").into_bytes() };
        sent.extend(request(&[b"SET", key.as_bytes(), &body]));
        sent.extend(request(&[b"GET", key.as_bytes()]));
        sent.extend(request(&[b"MGET", b"key0", b"nokey", key.as_bytes()]));
        expected.push(body);
    }
    let mut writer = client.stream().try_clone().expect("a socket can be shared");
    let writing = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &sent));
    let mut key0 = Vec::new();
    for (round, body) in expected.iter().enumerate() {
        if round % 5 == 0 {
            key0.clone_from(body);
        }
        assert_eq!(client.read_reply(), b"+OK\r\n", "round {round}");
        assert!(client.read_reply() == bulk(body), "round {round}: GET");
        let values = [&b"*3\r\n"[..], &bulk(&key0), b"$-1\r\n", &bulk(body)].concat();
        assert!(client.read_reply() == values, "round {round}: MGET");
    }
    writing.join().expect("no panic").expect("all was taken");
}

/// The requests of one client in the tests of `--memory-max`, and their replies.
struct Load {
    requests: Vec<u8>,
    replies: Vec<u8>,
}

/// `count` times `requests`, each time answered with `replies`.
fn load(requests: &[Vec<u8>], replies: &[Vec<u8>], count: usize) -> Load {
    Load { requests: requests.concat().repeat(count), replies: replies.concat().repeat(count) }
}

/// `clients` at once that send all of `load` and read all of it.
fn serve(world: &World, clients: usize, load: &Load) {
    let mut clients: Vec<Client> = (0..clients).map(|_| world.connect()).collect();
    let writing: Vec<_> = clients
        .iter()
        .map(|client| {
            let (mut stream, requests) =
                (client.stream().try_clone().expect("a socket can be shared"), load.requests.clone());
            std::thread::spawn(move || std::io::Write::write_all(&mut stream, &requests))
        })
        .collect();
    for client in &mut clients {
        let mut got = vec![0; load.replies.len()];
        client.stream().read_exact(&mut got).expect("everybody is served");
        assert!(got == load.replies);
    }
    writing.into_iter().for_each(|thread| thread.join().expect("no panic").expect("all was taken"));
}

#[test]
fn memory_stays_within_its_bound_and_requests_wait_instead() {
    const BOUND: u64 = 20_000_000;
    let world = World::with_flags(4, &["--memory-max=20m", "--workers=2"]);
    let body = value(1024, 3);
    // The code that a worker first runs is resident from then on, and is not part of the load. One client of each worker is
    // therefore served before the start is measured.
    for mut client in [world.connect(), world.connect()] {
        assert_eq!(client.command(&[b"SET", b"k", &body]), b"+OK\r\n");
        assert_eq!(client.command(&[b"GET", b"k"]), bulk(&body));
    }
    let start = kernel::peak_resident_bytes(world.proxy.pid());
    let (set, get) = (request(&[b"SET", b"k", &body]), request(&[b"GET", b"k"]));
    serve(&world, 50, &load(&[set, get], &[b"+OK\r\n".to_vec(), bulk(&body)], 200));
    // A build without optimisation is larger at its start than `--memory-max` assumes.
    assert_peak(&world, start, BOUND - 7 * MIB);
}

/// Short requests can need much memory. An MGET of ten small values has a buffer for each shard's reply. An MSET of ten larger
/// ones is queued for four nodes.
#[test]
fn memory_stays_bounded_under_large_values_of_all_shards() {
    const BOUND: u64 = 20_000_000;
    let world = World::with_flags(4, &["--memory-max=20m", "--workers=1"]);
    let keys: Vec<Vec<u8>> = (0..10).map(|key| format!("key{key}").into_bytes()).collect();
    let with_values = |body: &[u8]| {
        let words: Vec<&[u8]> = keys.iter().flat_map(|key| [key.as_slice(), body]).collect();
        request(&[&[&b"MSET"[..]], words.as_slice()].concat())
    };
    let names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mget = request(&[&[&b"MGET"[..]], names.as_slice()].concat());
    let ok = [b"+OK\r\n".to_vec()];
    serve(&world, 1, &load(&[with_values(b"abc")], &ok, 1));
    let start = kernel::peak_resident_bytes(world.proxy.pid());
    let values = [&b"*10\r\n"[..], &bulk(b"abc").repeat(10)].concat();
    serve(&world, 50, &load(&[mget], &[values], 1000));
    serve(&world, 50, &load(&[with_values(&value(1024, 3))], &ok, 100));
    serve(&world, 50, &load(&[with_values(&value(16384, 3))], &ok, 10));
    assert_peak(&world, start, BOUND - 7 * MIB);
}

/// A shard has this many keys in the test below, each of 110 bytes.
const MANY_KEYS: usize = 300_000;

/// Fills the node of each shard with keys that name their shard.
fn fill(world: &World) {
    const SCRIPT: &[u8] = b"local rest = string.rep('k', 100) for i = 0, ARGV[2] - 1 do \
                            redis.call('SET', string.format('%s:%08d', ARGV[1], i) .. rest, '') end return 1";
    for (shard, node) in world.nodes.iter().enumerate() {
        let (shard, count) = (shard.to_string(), MANY_KEYS.to_string());
        let filled = node.connect().command(&[b"EVAL", SCRIPT, b"0", shard.as_bytes(), count.as_bytes()]);
        assert_eq!(filled, b":1\r\n");
    }
}

/// `list` has each key of each of `shards` shards once, and nothing else.
fn assert_all_keys(list: &[u8], shards: usize) {
    let mut seen = vec![false; shards * MANY_KEYS];
    let keys = resp::reply::elements(list).expect("KEYS answers an array");
    assert_eq!(keys.len(), seen.len());
    for key in keys {
        let key = resp::reply::as_bulk(key).expect("keys are bulks");
        let (place, rest) = key.split_at(10);
        let place = std::str::from_utf8(place).expect("digits");
        let (shard, number) = place.split_once(':').expect("a shard and a number");
        let at =
            shard.parse::<usize>().expect("a shard") * MANY_KEYS + number.parse::<usize>().expect("a number");
        assert!(rest == [b'k'; 100] && !std::mem::replace(&mut seen[at], true), "{place}");
    }
}

#[test]
fn keys_of_large_shards_pass_through_little_memory() {
    const BOUND: u64 = 20_000_000;
    let world = World::with_flags(3, &["--memory-max=20m", "--workers=1"]);
    fill(&world);
    let (mut client, mut other) = (world.connect(), world.connect());
    assert_eq!(other.command(&[b"KEYS", b"nothing*"]), b"*0\r\n");
    let start = kernel::peak_resident_bytes(world.proxy.pid());
    client.send_command(&[b"KEYS", b"*:*"]);
    for count in 1..=50 {
        assert_eq!(other.ask("INCR n"), format!(":{count}\\r\\n"), "others are served while nobody reads");
    }
    assert_eq!(other.command(&[b"KEYS", b"n"]), b"*1\r\n$1\r\nn\r\n", "also those who ask for keys");
    let list = client.read_reply();
    // 100 MB came.
    assert_all_keys(&list, 3);
    assert_peak(&world, start, BOUND - 7 * MIB);
}
