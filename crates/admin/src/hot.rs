//! Hot and big keys as JSON.

use proxy::{HotBoard, HotKey, HotKind};
use serde::Serialize;

/// Entries of each list.
const SHOWN_MAX: usize = 50;

/// The answer to `/hot`.
#[derive(Debug, Serialize)]
pub(crate) struct HotAnswer {
    /// Keys by requests in a second.
    keys: Vec<Entry>,
    /// Keys by bytes in a second.
    sizes: Vec<Entry>,
    /// Slots by requests in a second; empty if keys do not go by slots.
    slots: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    /// Unprintable bytes are escaped.
    key: String,
    per_s: f64,
    /// The largest amount by which the rate may be too large.
    error: f64,
    /// The share of writes.
    writes: f64,
    bytes_max: u64,
}

impl HotAnswer {
    pub(crate) fn of(board: &HotBoard) -> HotAnswer {
        let list = |kind| board.top(kind, SHOWN_MAX).iter().map(Entry::of).collect();
        HotAnswer { keys: list(HotKind::Keys), sizes: list(HotKind::Sizes), slots: list(HotKind::Slots) }
    }
}

impl Entry {
    fn of(hot: &HotKey) -> Entry {
        Entry {
            key: hot.key.escape_ascii().to_string(),
            per_s: (hot.per_second * 10.0).round() / 10.0,
            error: (hot.error * 10.0).round() / 10.0,
            writes: hot.writes,
            bytes_max: hot.bytes_max,
        }
    }
}
