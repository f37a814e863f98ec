//! Twenty upgrades under load: each reply is counted.

use super::Generations;
use crate::harness::client::request;
use crate::harness::{Client, RedisServer, kernel};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const UPGRADES: usize = 20;
const CLIENTS: usize = 16;
const PIPELINE: u64 = 100;
/// Requests that the client without pauses may have sent before their replies.
const STREAM_MAX: u64 = 20_000;

/// Sends pipelines of INCR until `is_over`. Each reply must be the next number. Returns the requests, and the longest time
/// of a pipeline.
fn count_up(port: u16, key: &str, is_over: &AtomicBool) -> (u64, Duration) {
    let mut client = Client::connect(port);
    let (mut count, mut longest) = (0, Duration::ZERO);
    let pipeline = request(&[b"INCR", key.as_bytes()]).repeat(PIPELINE as usize);
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        client.send(&pipeline);
        for _ in 0..PIPELINE {
            count += 1;
            assert_eq!(client.read_reply(), format!(":{count}\r\n").into_bytes(), "{key}");
        }
        longest = longest.max(began.elapsed());
    }
    (count, longest)
}

/// Sends requests without ever waiting for all replies. Each reply must be that of its request.
fn stream(port: u16, is_over: &AtomicBool) -> u64 {
    let mut reader = Client::connect(port);
    let mut writer = Client::of_stream(reader.stream().try_clone().expect("a descriptor"));
    let (sent, read, is_done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let next = sent.load(Ordering::Relaxed);
                if next - read.load(Ordering::Relaxed) > STREAM_MAX {
                    std::thread::yield_now();
                    continue;
                }
                writer.send(&request(&[b"ECHO", next.to_string().as_bytes()]));
                sent.store(next + 1, Ordering::Release);
            }
            is_done.store(true, Ordering::Release);
        });
        loop {
            let next = read.load(Ordering::Relaxed);
            if next < sent.load(Ordering::Acquire) {
                let text = next.to_string();
                let reply = format!("${}\r\n{text}\r\n", text.len());
                assert_eq!(reader.read_reply(), reply.into_bytes());
                read.store(next + 1, Ordering::Relaxed);
            } else if is_done.load(Ordering::Acquire) && next == sent.load(Ordering::Acquire) {
                return next;
            } else {
                std::thread::yield_now();
            }
        }
    })
}

/// Connects, asks and leaves, again and again. No connection may fail.
fn come_and_go(port: u16, is_over: &AtomicBool) -> u64 {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut client = Client::try_connect(port).expect("the listener refuses nobody");
        assert_eq!(client.ask("PING"), r"+PONG\r\n");
        count += 1;
    }
    count
}

#[test]
fn twenty_upgrades_under_load_lose_no_reply() {
    let nodes = [RedisServer::start(), RedisServer::start()];
    let mut shardis = Generations::over(&nodes, &[]);
    let (port, is_over) = (shardis.port, AtomicBool::new(false));
    let mut idle: Vec<Client> = (0..CLIENTS).map(|_| shardis.connect()).collect();
    let began = Instant::now();
    let mut memory = Vec::new();
    let (requests, longest, streamed, visits) = std::thread::scope(|scope| {
        let keys = (0..CLIENTS).map(|number| format!("counter{number}"));
        let is_over = &is_over;
        let counting: Vec<_> = keys.map(|key| scope.spawn(move || count_up(port, &key, is_over))).collect();
        let streaming = scope.spawn(|| stream(port, is_over));
        let visiting = scope.spawn(|| come_and_go(port, is_over));
        for number in 1..=UPGRADES {
            let (old, new) = shardis.upgrade();
            memory.push((kernel::resident_bytes(old), kernel::resident_bytes(new)));
            // All clients follow, though none pauses for long, and the old process ends.
            shardis.expect_lines("upgrade finished", number);
            shardis.expect_end_of(old);
        }
        is_over.store(true, Ordering::Relaxed);
        let counted: Vec<_> =
            counting.into_iter().map(|thread| thread.join().expect("no reply is lost")).collect();
        let requests: u64 = counted.iter().map(|(count, _)| count).sum();
        let longest = counted.iter().map(|(_, longest)| *longest).max().expect("there are clients");
        let streamed = streaming.join().expect("no reply is lost");
        (requests, longest, streamed, visiting.join().expect("nobody is refused"))
    });
    let took = began.elapsed();
    let moved: u64 = shardis
        .lines("upgrade finished")
        .iter()
        .filter_map(|line| line.split_once("moved=")?.1.trim().parse::<u64>().ok())
        .sum();
    // A visitor may be among those that move.
    assert!(moved >= (UPGRADES * (2 * CLIENTS + 1)) as u64, "{moved} clients moved");
    for client in &mut idle {
        assert_eq!(client.ask("PING"), r"+PONG\r\n");
    }
    assert!(requests >= PIPELINE * CLIENTS as u64 && streamed > 0 && visits > 0);
    for trouble in ["upgrade failed", "ERROR", "WARN", "panicked"] {
        assert_eq!(shardis.lines(trouble), Vec::<String>::new());
    }
    eprintln!(
        "{UPGRADES} upgrades in {took:?}: {moved} clients moved, {requests} + {streamed} requests, {visits} visits, the longest \
         pipeline {longest:?}, memory of old and new {:?}",
        memory.last()
    );
}
