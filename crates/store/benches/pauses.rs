//! The longest single call while a million keys come and go, what a big list costs when it is deleted, and what GET and
//! SET take: `cargo bench -p store`. One figure per line; the worst calls are also those in which the machine did
//! something else, so run it on a quiet one.

// A benchmark is made of clock readings.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use resp::{Request, Span, encode};
use store::{Store, StoreSettings};

/// Keys, and elements of the big values.
const KEYS: usize = 1_000_000;

/// Housekeeping after so many requests.
const REQUESTS_PER_WORK: usize = 100;

fn main() {
    let mut meter = Meter::default();
    let mut store = Store::new(StoreSettings { seed: 42, ..StoreSettings::default() });
    meter.measure(&mut store, "SET, a thousand keys", |at| {
        vec!["SET".into(), key(at % 1_000), "0123456789abcdef".into()]
    });
    meter.measure(&mut store, "GET, a thousand keys", |at| vec!["GET".into(), key(at % 1_000)]);
    meter.measure(&mut store, "PING: what the clock and the dispatch take", |_| vec!["PING".into()]);
    meter.once(&mut store, &["FLUSHALL".into()]);
    while meter.work(&mut store) {}
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
    meter.measure(&mut store, "RPUSH, one list", |at| vec!["RPUSH".into(), "list".into(), key(at)]);
    meter.measure(&mut store, "ZADD, one sorted set", |at| {
        vec!["ZADD".into(), "zset".into(), format!("{}", at * 7_919 % KEYS), key(at)]
    });
    meter.measure(&mut store, "HSET, one hash", |at| vec!["HSET".into(), "hash".into(), key(at), key(at)]);
    meter.measure(&mut store, "XADD, one stream", |at| {
        vec!["XADD".into(), "stream".into(), "*".into(), "field".into(), key(at)]
    });
    let bytes = store.memory_used();
    for name in ["list", "zset", "hash", "stream"] {
        meter.once(&mut store, &["DEL".into(), name.into()]);
    }
    let mut steps = 0;
    meter.longest = Duration::ZERO;
    while meter.work(&mut store) {
        steps += 1;
    }
    println!("{:>9.1} us longest of {steps} steps that freed {bytes} bytes", micros(meter.longest));
    println!("{:>9} bytes left by the account", store.memory_used());
}

/// Times calls.
#[derive(Default)]
struct Meter {
    longest: Duration,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    out: Vec<u8>,
}

impl Meter {
    fn measure(&mut self, store: &mut Store, what: &str, words: impl Fn(usize) -> Vec<String>) {
        let (mut longest, mut total) = (Duration::ZERO, Duration::ZERO);
        for at in 0..KEYS {
            let took = self.once(store, &words(at));
            longest = longest.max(took);
            total += took;
            if at % REQUESTS_PER_WORK == 0 {
                self.longest = Duration::ZERO;
                self.work(store);
                longest = longest.max(self.longest);
            }
        }
        let mean = total.as_nanos() as f64 / KEYS as f64;
        println!("{mean:>9.1} ns mean, {:>7.1} us longest: {what}", micros(longest));
    }

    fn once(&mut self, store: &mut Store, words: &[String]) -> Duration {
        self.bytes.clear();
        self.spans.clear();
        self.out.clear();
        encode::array_header(&mut self.bytes, words.len());
        for word in words {
            encode::bulk(&mut self.bytes, word.as_bytes());
            self.spans.push(Span { start: self.bytes.len() - 2 - word.len(), len: word.len() });
        }
        let request = Request::new(&self.bytes, &self.spans);
        let start = Instant::now();
        store.run(&request, 1_000, &mut self.out);
        start.elapsed()
    }

    fn work(&mut self, store: &mut Store) -> bool {
        let start = Instant::now();
        let is_more = store.work(1_000);
        self.longest = self.longest.max(start.elapsed());
        is_more
    }
}

fn key(at: usize) -> String {
    format!("key:{at:012}")
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1_000.0
}

/// What the kernel says that we occupy; 0 where there is no /proc.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * 4_096
}
