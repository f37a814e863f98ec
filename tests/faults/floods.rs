//! Nearly all requests are for one key, or one shard: service for the others meanwhile, and memory for the flood. Speed is
//! never judged.

use crate::harness::fault::Fault;
use crate::harness::{Client, World, kernel};
use resp::reply::as_integer;
use std::sync::atomic::{AtomicBool, Ordering};

const FLOODING: usize = 12;
/// Requests of one client in one go: some hundred KiB.
const AT_ONCE: usize = 5_000;
/// Allowed growth of the proxy: a MiB for each client that floods, and as much for the test's own clients and the allocator's
/// reserve.
const GROWTH_MAX: u64 = 32 << 20;

/// Replies to a client of a flood.
#[derive(Default)]
pub(crate) struct Flooded {
    served: u64,
    faults: u64,
}

/// Counts `key` up until `is_over`, many at once.
pub(crate) fn flood(mut client: Client, key: &str, is_over: &AtomicBool) -> Flooded {
    let requests = format!("INCR {key}\r\n").repeat(AT_ONCE);
    let (mut flooded, mut last) = (Flooded::default(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let mut writer = Client::of_stream(client.stream().try_clone().expect("a second handle"));
        std::thread::scope(|scope| {
            scope.spawn(|| writer.send(requests.as_bytes()));
            for _ in 0..AT_ONCE {
                let reply = client.read_reply();
                if Fault::of(&reply).is_some() {
                    flooded.faults += 1;
                    continue;
                }
                let count = as_integer(&reply).expect("INCR answers a number");
                assert!(count > last, "{count} behind {last}");
                last = count;
                flooded.served += 1;
            }
        });
    }
    flooded
}

/// All keys of the flood, which are all on the first of two shards.
fn others_are_served_beside_a_flood_of(world: &World, keys: &[String]) {
    let mut other = world.connect();
    let (mine, pid) = (world.key_on(1, "mine"), world.proxy.pid());
    assert_eq!(other.ask(&format!("SET {mine} 0")), "+OK\\r\\n");
    let before = kernel::resident_bytes(pid);
    let is_over = AtomicBool::new(false);
    let flooded: u64 = std::thread::scope(|scope| {
        let is_over = &is_over;
        let flooding: Vec<_> = (0..FLOODING)
            .map(|number| {
                let (client, key) = (world.connect(), &keys[number % keys.len()]);
                scope.spawn(move || flood(client, key, is_over))
            })
            .collect();
        // The flood goes on until the last of these was answered.
        for count in 1..=500 {
            assert_eq!(other.ask(&format!("INCR {mine}")), format!(":{count}\\r\\n"));
        }
        is_over.store(true, Ordering::Relaxed);
        let flooded = flooding.into_iter().map(|flooding| flooding.join().expect("no client panics"));
        flooded.inspect(|flooded| assert_eq!(flooded.faults, 0)).map(|flooded| flooded.served).sum()
    });
    let counted: i64 = keys.iter().filter_map(|key| as_integer(&count_of(&mut other, key))).sum();
    assert_eq!(counted as u64, flooded);
    if let (Some(before), Some(peak)) = (before, kernel::peak_resident_bytes(pid)) {
        assert!(peak < before + GROWTH_MAX, "{} KiB more than before", (peak - before) >> 10);
    }
}

/// The number at `key`, read by an increment of nothing.
fn count_of(client: &mut Client, key: &str) -> Vec<u8> {
    client.command(&[b"INCRBY", key.as_bytes(), b"0"])
}

#[test]
fn hot_key_does_not_starve_other_shards() {
    let world = World::with_flags(2, &["--workers=1"]);
    others_are_served_beside_a_flood_of(&world, &[world.key_on(0, "hot")]);
}

#[test]
fn flood_for_one_shard_does_not_starve_others() {
    let world = World::with_flags(2, &["--workers=1"]);
    let keys: Vec<String> = world.keys_on(0, "flood").take(FLOODING).collect();
    others_are_served_beside_a_flood_of(&world, &keys);
}

/// A worker that always has more to read than a turn takes must still look at the clock. Otherwise it would make no
/// connections, and would find no node silent.
#[test]
fn a_wait_begins_and_ends_while_its_worker_is_flooded() {
    let world = World::with_flags(1, &["--workers=1"]);
    let mut waiting = world.connect();
    let is_over = AtomicBool::new(false);
    let reply = std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut client = world.connect();
            let is_over = &is_over;
            scope.spawn(move || {
                client.send(b"CLIENT REPLY OFF\r\n");
                while !is_over.load(Ordering::Relaxed) {
                    client.send(&b"PING\r\n".repeat(10_000));
                }
            });
        }
        // Waits until the flood has begun.
        while requests(&mut waiting) < 100_000 {}
        waiting.send(b"BLPOP none 0.01\r\n");
        let reply = waiting.try_read_reply();
        is_over.store(true, Ordering::Relaxed);
        reply
    });
    assert_eq!(reply.as_deref(), Ok(&b"*-1\r\n"[..]));
}

/// Number of requests that the proxy has got.
fn requests(client: &mut Client) -> u64 {
    let info = client.command(&[b"INFO", b"stats"]);
    let info = String::from_utf8_lossy(&info);
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|count| count.parse().ok()).expect("INFO tells it")
}
