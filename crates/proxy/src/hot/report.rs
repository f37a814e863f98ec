//! The hot and big keys of all workers.

use crate::hot::sketch::{Top, Weighed};
use resp::encode;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Keys of a reply without a number.
pub(crate) const SHOWN_BY_DEFAULT: usize = 10;

/// The sketches of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct HotKeys {
    pub keys: Top,
    pub sizes: Top,
    pub slots: Top,
}

/// The kind of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotKind {
    /// Keys by requests in a second.
    Keys,
    /// Keys by bytes in a second.
    Sizes,
    /// Slots by requests in a second.
    Slots,
}

/// One key or slot of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The first 256 bytes of the key, or the number of the slot.
    pub key: Vec<u8>,
    /// Requests or bytes in a second, of about the last minute.
    pub per_second: f64,
    /// The largest amount by which the rate may be too large.
    pub error: f64,
    /// The share of writes, from 0 to 1.
    pub writes: f64,
    /// The largest value that was seen, in bytes of the request or of the reply.
    pub bytes_max: u64,
}

/// The sketches that each worker published last.
#[derive(Debug)]
pub struct HotBoard {
    workers: Vec<Mutex<HotKeys>>,
}

impl HotBoard {
    pub(crate) fn new(workers: usize) -> HotBoard {
        HotBoard { workers: (0..workers).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn publish(&self, worker: usize, keys: HotKeys) {
        *self.workers[worker].lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The first `count` of all workers' lists together.
    pub fn top(&self, kind: HotKind, count: usize) -> Vec<HotKey> {
        let mut sums: HashMap<Box<[u8]>, HotKey> = HashMap::new();
        for worker in &self.workers {
            let keys = worker.lock().unwrap_or_else(PoisonError::into_inner);
            let top = match kind {
                HotKind::Keys => &keys.keys,
                HotKind::Sizes => &keys.sizes,
                HotKind::Slots => &keys.slots,
            };
            for entry in &top.entries {
                sums.entry(entry.key.clone())
                    .or_insert_with(|| HotKey::none(&entry.key))
                    .add(entry, top.per_second);
            }
        }
        let mut all: Vec<HotKey> = sums.into_values().collect();
        all.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then_with(|| a.key.cmp(&b.key)));
        all.truncate(count);
        all
    }
}

impl HotKey {
    fn none(key: &[u8]) -> HotKey {
        HotKey { key: key.to_vec(), per_second: 0.0, error: 0.0, writes: 0.0, bytes_max: 0 }
    }

    fn add(&mut self, entry: &Weighed, per_second: f64) {
        let written = self.writes * self.per_second + entry.written / per_second;
        self.per_second += entry.weight / per_second;
        self.error += entry.error / per_second;
        self.writes = if self.per_second > 0.0 { written / self.per_second } else { 0.0 };
        self.bytes_max = self.bytes_max.max(entry.bytes_max);
    }
}

/// Appends the reply of HOTKEYS, BIGKEYS or HOTSLOTS: for each a map. `shard_of` names the shard of a key.
pub(crate) fn write(
    list: &[HotKey],
    kind: HotKind,
    shard_of: impl Fn(&[u8]) -> String,
    resp3: bool,
    out: &mut Vec<u8>,
) {
    let (name, rate) = match kind {
        HotKind::Keys => ("key", "requests-per-s"),
        HotKind::Sizes => ("key", "bytes-per-s"),
        HotKind::Slots => ("slot", "requests-per-s"),
    };
    encode::array_header(out, list.len());
    for hot in list {
        encode::map_header(out, 6, resp3);
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, &hot.key);
        let [shard, per_second, error] =
            [shard_of(&hot.key), format!("{:.1}", hot.per_second), format!("{:.1}", hot.error)];
        encode::texts(out, &[("shard", &shard), (rate, &per_second), ("error", &error)]);
        let writes_percent = (hot.writes * 100.0).round() as i64;
        encode::integers(out, &[("writes-percent", writes_percent), ("bytes-max", hot.bytes_max as i64)]);
    }
}
