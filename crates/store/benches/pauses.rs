//! Pauses while a million keys come and go, the cost of deleting a big list, and the times of GET and SET. Run `cargo bench -p
//! store`. Each line has one figure: the longest single call for a pause.
//!
//! A pause is measured twice. Wall-clock time includes other work of the machine. The thread's CPU time does not, but includes
//! page faults.

// A benchmark is made of clock readings.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use resp::{Request, Span, encode};
use rustix::time::{ClockId, clock_gettime};
use store::{CallerId, Store, StoreSettings};

/// The binary's allocator.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keys, and elements of the big values.
const KEYS: usize = 1_000_000;

/// Requests between two pieces of housekeeping.
const REQUESTS_PER_WORK: usize = 100;

fn main() {
    if !std::env::args().any(|arg| arg == "huge") {
        keys_and_collections();
    }
    huge_string();
}

/// Operations on half a gigabyte: `cargo bench -p store -- huge` runs only these.
fn huge_string() {
    let mut store = Store::new(StoreSettings { seed: 42, ..StoreSettings::default() });
    let mut meter = Meter::new(store.admit());
    for line in HUGE.lines() {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        println!("{}: {line}", meter.once(&mut store, &words));
    }
}

/// The first BITOP writes to memory that is new, as all commands behind it find it.
const HUGE: &str = "\
SETBIT k 4000000000 1
APPEND k x
BITCOUNT k
BITPOS k 1
BITOP NOT n k
BITCOUNT n
BITPOS n 0
APPEND n x
SETRANGE n 510000000 x
GETRANGE n 510000000 510000010
BITOP AND a n k
BITOP OR a n k
BITOP NOT n n
DEL n";

fn keys_and_collections() {
    let mut store = Store::new(StoreSettings { seed: 42, ..StoreSettings::default() });
    let mut meter = Meter::new(store.admit());
    meter.measure(&mut store, "SET, a thousand keys", |at| {
        vec!["SET".into(), key(at % 1_000), "0123456789abcdef".into()]
    });
    meter.measure(&mut store, "GET, a thousand keys", |at| vec!["GET".into(), key(at % 1_000)]);
    meter.measure(&mut store, "PING: what the clock and the dispatch take", |_| vec!["PING".into()]);
    meter.once(&mut store, &["FLUSHALL".into()]);
    while meter.work(&mut store, NOW_MS) {}
    let before = resident_bytes();
    meter.measure(&mut store, "SET, new keys", |at| vec!["SET".into(), key(at), "0123456789abcdef".into()]);
    let resident = resident_bytes().saturating_sub(before);
    println!("{:>9} bytes per key by the account, {} resident", store.memory_used() / KEYS, resident / KEYS);
    meter.measure(&mut store, "GET", |at| vec!["GET".into(), key(at * 7 % KEYS)]);
    meter.measure(&mut store, "SET, old keys", |at| {
        vec!["SET".into(), key(at * 7 % KEYS), "0123456789abcdef".into()]
    });
    meter.measure(&mut store, "SCAN", |at| vec!["SCAN".into(), format!("{}", at << 28)]);
    meter.measure(&mut store, "PEXPIRE", |at| vec!["PEXPIRE".into(), key(at), "1000".into()]);
    meter.measure(&mut store, "DEL", |at| vec!["DEL".into(), key(at)]);
    meter.measure(&mut store, "SET PX, new keys", |at| {
        vec!["SET".into(), key(at), "0123456789abcdef".into(), "PX".into(), "1000".into()]
    });
    meter.free(&mut store, "expiry", 10_000);
    meter.measure(&mut store, "SET, new keys again", |at| {
        vec!["SET".into(), key(at), "0123456789abcdef".into()]
    });
    meter.longest = Pause::default();
    let flush = meter.once(&mut store, &["FLUSHALL".into()]);
    meter.longest = meter.longest.max(flush);
    meter.free(&mut store, "FLUSHALL", NOW_MS);
    meter.measure(&mut store, "RPUSH, one list", |at| vec!["RPUSH".into(), "list".into(), key(at)]);
    meter.measure(&mut store, "ZADD, one sorted set", |at| {
        vec!["ZADD".into(), "zset".into(), format!("{}", at * 7_919 % KEYS), key(at)]
    });
    meter.measure(&mut store, "HSET, one hash", |at| vec!["HSET".into(), "hash".into(), key(at), key(at)]);
    meter.measure(&mut store, "XADD, one stream", |at| {
        vec!["XADD".into(), "stream".into(), "*".into(), "field".into(), key(at)]
    });
    for name in ["list", "zset", "hash", "stream"] {
        meter.once(&mut store, &["DEL".into(), name.into()]);
    }
    meter.free(&mut store, "four big values", NOW_MS);
    println!("{:>9} bytes left by the account", store.memory_used());
}

/// Unix time, in milliseconds, of all requests.
const NOW_MS: u64 = 1_000;

/// Duration of one call.
#[derive(Clone, Copy, Default)]
struct Pause {
    wall: Duration,
    cpu: Duration,
}

impl Pause {
    fn max(self, other: Pause) -> Pause {
        Pause { wall: self.wall.max(other.wall), cpu: self.cpu.max(other.cpu) }
    }
}

impl std::fmt::Display for Pause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "longest {:>8.1} us of CPU, {:>8.1} us on the wall", micros(self.cpu), micros(self.wall))
    }
}

/// Times calls.
struct Meter {
    caller: CallerId,
    longest: Pause,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    out: Vec<u8>,
}

impl Meter {
    fn new(caller: CallerId) -> Meter {
        let (longest, bytes, spans, out) = (Pause::default(), Vec::new(), Vec::new(), Vec::new());
        Meter { caller, longest, bytes, spans, out }
    }

    fn measure(&mut self, store: &mut Store, what: &str, words: impl Fn(usize) -> Vec<String>) {
        let (mut total, mut requests) = (Duration::ZERO, Pause::default());
        self.longest = Pause::default();
        for at in 0..KEYS {
            let took = self.once(store, &words(at));
            requests = requests.max(took);
            total += took.wall;
            if at % REQUESTS_PER_WORK == 0 {
                self.work(store, NOW_MS);
            }
        }
        let mean = total.as_nanos() as f64 / KEYS as f64;
        println!("{mean:>9.1} ns mean, {}: {what}", requests.max(self.longest));
    }

    /// Lets the store free all that is garbage.
    fn free(&mut self, store: &mut Store, what: &str, now_ms: u64) {
        let bytes = store.memory_used();
        self.longest = Pause::default();
        let steps = 1 + (0..).take_while(|_| self.work(store, now_ms)).count();
        println!("{steps:>9} steps,   {}: {bytes} bytes after {what}", self.longest);
    }

    fn once(&mut self, store: &mut Store, words: &[String]) -> Pause {
        self.bytes.clear();
        self.spans.clear();
        self.out.clear();
        encode::array_header(&mut self.bytes, words.len());
        for word in words {
            encode::bulk(&mut self.bytes, word.as_bytes());
            self.spans.push(Span { start: self.bytes.len() - 2 - word.len(), len: word.len() });
        }
        let request = Request::new(&self.bytes, &self.spans);
        let out = &mut self.out;
        let caller = self.caller;
        timed(|| store.run(caller, &request, NOW_MS, out)).1
    }

    fn work(&mut self, store: &mut Store, now_ms: u64) -> bool {
        let (is_more, took) = timed(|| store.work(now_ms));
        self.longest = self.longest.max(took);
        is_more
    }
}

/// The CPU clock is read outside of the span that the wall clock measures, for it costs as much as a request.
fn timed<R>(call: impl FnOnce() -> R) -> (R, Pause) {
    let before = cpu_time();
    let start = Instant::now();
    let result = call();
    let wall = start.elapsed();
    (result, Pause { wall, cpu: wall.min(cpu_time() - before) })
}

/// CPU time of this thread, with its time in the kernel.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn key(at: usize) -> String {
    format!("key:{at:012}")
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1_000.0
}

/// Resident memory by the kernel's account; 0 without /proc.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * 4_096
}
