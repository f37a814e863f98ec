//! Hot and big keys: PROXY HOTKEYS, BIGKEYS and HOTSLOTS.
//!
//! About 128 requests in a second are looked at, and at low load each of them. A sample counts for all requests that it
//! stands for. Its keys go into a sketch of bounded size (`sketch.rs`), whose counts halve once a minute. The sample is
//! picked by its number among all requests of the worker, so a pipeline that repeats a pattern does not mislead.
//!
//! Bytes of a value come from the request (a write) or from a reply (a read). The reply that is looked at is the first
//! of the next read from any node. All transfers that are too large for a shared link are looked at.
//!
//! Once a second a worker publishes its sketches on the board.

pub(crate) mod report;
pub(crate) mod sketch;

use crate::context::Context;
use crate::hot::report::HotKeys;
use crate::hot::sketch::{Seen, Sketch};
use crate::link::LinkIx;
use command::{Flags, Resolved};
use resp::Request;
use resp::request::{RequestLimits, Scanned, Scanner, Span};
use stdx::Prng;

/// Samples of a worker in one second, about.
const SAMPLES_PER_SECOND: u64 = 128;
/// The number of requests that a sample stands for before the load is known.
const FIRST_INTERVAL: u64 = 256;
/// Keys of one request that are looked at.
const KEYS_MAX: usize = 8;
/// Capacities that the scratch buffers keep.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;
const SCRATCH_ARGS_KEPT: usize = 1024;

/// A worker's watch for hot and big keys.
#[derive(Debug)]
pub(crate) struct HotWatch {
    /// The number of requests at which the next one is sampled.
    pub sample_at: u64,
    /// The number of requests that a sample stands for.
    interval: u64,
    /// The number of requests at the beginning of this second.
    counted: u64,
    /// Samples in this second.
    taken: u64,
    /// Whether the next reply is looked at.
    takes_reply: bool,
    /// Distances between samples vary, so that they do not keep step with the load.
    prng: Prng,
    /// Apart, since a request that is no sample touches none of it.
    tables: Box<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    keys: Sketch,
    sizes: Sketch,
    slots: Sketch,
    scratch: Scratch,
}

/// Buffers that all samples use in turn.
#[derive(Debug, Default)]
struct Scratch {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Places of keys.
    keys: Vec<usize>,
}

impl Scratch {
    /// Gives back the memory of a request with many arguments or bytes.
    fn shrink(&mut self) {
        if self.bytes.capacity() > SCRATCH_BYTES_KEPT || self.spans.capacity() > SCRATCH_ARGS_KEPT {
            *self = Scratch::default();
        }
    }
}

impl HotWatch {
    pub(crate) fn new(seed: u64) -> HotWatch {
        HotWatch {
            sample_at: FIRST_INTERVAL,
            interval: FIRST_INTERVAL,
            counted: 0,
            taken: 0,
            takes_reply: false,
            prng: Prng::new(seed),
            tables: Box::default(),
        }
    }

    /// Ends a second in which `requests` were reached: older counts weigh less from now on.
    pub(crate) fn end_second(&mut self, requests: u64) {
        let wanted = requests.saturating_sub(self.counted) / SAMPLES_PER_SECOND;
        // A short pause does not make the next burst dear.
        self.interval = wanted.max(self.interval / 2).max(1);
        (self.counted, self.taken) = (requests, 0);
        self.sample_at = requests + self.prng.below(self.interval);
        let tables = &mut *self.tables;
        [&mut tables.keys, &mut tables.sizes, &mut tables.slots].into_iter().for_each(Sketch::decay);
    }

    /// The present state of the sketches.
    pub(crate) fn report(&self) -> HotKeys {
        let tables = &*self.tables;
        HotKeys { keys: tables.keys.top(), sizes: tables.sizes.top(), slots: tables.slots.top() }
    }

    /// Takes the request `number` as a sample. Returns the number of requests that it stands for. If there are too many
    /// samples in this second, since the load has grown, it takes fewer.
    fn take_sample(&mut self, number: u64) -> f64 {
        let interval = self.interval;
        self.taken += 1;
        if self.taken == 2 * SAMPLES_PER_SECOND {
            (self.interval, self.taken) = (interval * 2, SAMPLES_PER_SECOND);
        }
        self.sample_at = number + 1 + self.prng.below(2 * interval - 1);
        interval as f64
    }

    /// Whether the next reply is looked at. It is asked once for each sample.
    pub(crate) fn take_reply(&mut self) -> bool {
        std::mem::take(&mut self.takes_reply)
    }
}

/// Looks at `request`, the last of `requests`, if its number is due.
pub(crate) fn sample_request(cx: &mut Context, request: &Request<'_>, requests: u64) {
    if requests > cx.hot.sample_at {
        let mut keys = std::mem::take(&mut cx.hot.tables.scratch.keys);
        take_request(cx, request, requests, &mut keys);
        cx.hot.tables.scratch.keys = keys;
    }
}

/// The same for the request that was queued last on link `ix`.
pub(crate) fn sample_newest(cx: &mut Context, ix: LinkIx, requests: u64) {
    if requests <= cx.hot.sample_at {
        return;
    }
    let mut scratch = std::mem::take(&mut cx.hot.tables.scratch);
    scratch.bytes.clear();
    cx.engine.links[ix].copy_newest_request(&mut scratch.bytes);
    let (limits, mut inline) = (RequestLimits::default(), Vec::new());
    let scanned = Scanner::default().scan(&scratch.bytes, &limits, &mut scratch.spans, &mut inline);
    if matches!(scanned, Ok(Scanned::Request { .. })) {
        let request = Request::new(&scratch.bytes, &scratch.spans);
        take_request(cx, &request, requests, &mut scratch.keys);
    }
    scratch.shrink();
    cx.hot.tables.scratch = scratch;
}

/// Takes `request`, the last of `requests`, as a sample.
fn take_request(cx: &mut Context, request: &Request<'_>, requests: u64, keys: &mut Vec<usize>) {
    cx.slow.look_soon();
    cx.hot.takes_reply = true;
    let weight = cx.hot.take_sample(requests - 1);
    note_request(cx, request, weight, keys);
}

/// Counts `request`, which stands for `weight` requests.
fn note_request(cx: &mut Context, request: &Request<'_>, weight: f64, keys: &mut Vec<usize>) {
    let Some(is_write) = find_keys(request, keys) else { return };
    let bytes = if is_write { (request.bytes.len() / keys.len()) as u64 } else { 0 };
    for &at in keys.iter().take(KEYS_MAX) {
        let (key, seen) = (request.arg(at), Seen { weight, is_write, bytes });
        cx.hot.tables.keys.add(key, seen);
        if is_write {
            cx.hot.tables.sizes.add(key, Seen { weight: weight * bytes as f64, ..seen });
        }
        if let Some(slot) = cx.engine.topology.slot_of_key(key) {
            cx.hot.tables.slots.add(itoa::Buffer::new().format(slot).as_bytes(), seen);
        }
    }
}

/// Finds the places of the keys of `request`. Returns whether it writes; `None` if it has no key.
fn find_keys(request: &Request<'_>, keys: &mut Vec<usize>) -> Option<bool> {
    let Resolved::Command(command) = command::resolve(request) else { return None };
    let has_keys = command.keys(request, keys).is_ok() && !keys.is_empty();
    has_keys.then(|| command.flags.contains(Flags::WRITE))
}

/// Looks at the reply that comes next on link `ix`, which has `reply_bytes`.
pub(crate) fn sample_reply(cx: &mut Context, ix: LinkIx, reply_bytes: usize) {
    let interval = cx.hot.interval as f64;
    note_reply(cx, ix, reply_bytes, interval);
}

/// Looks at a reply on link `ix` that is too large for it.
#[cold]
pub(crate) fn note_large_reply(cx: &mut Context, ix: LinkIx, reply_bytes: usize) {
    note_reply(cx, ix, reply_bytes, 1.0);
}

fn note_reply(cx: &mut Context, ix: LinkIx, reply_bytes: usize, weight: f64) {
    let mut scratch = std::mem::take(&mut cx.hot.tables.scratch);
    scratch.bytes.clear();
    if cx.engine.links[ix].copy_request(0, &mut scratch.bytes) {
        let mut inline = Vec::new();
        let limits = RequestLimits::default();
        let scanned = Scanner::default().scan(&scratch.bytes, &limits, &mut scratch.spans, &mut inline);
        if matches!(scanned, Ok(Scanned::Request { .. })) {
            let request = Request::new(&scratch.bytes, &scratch.spans);
            note_read(cx, &request, reply_bytes, weight, &mut scratch.keys);
        }
    }
    scratch.shrink();
    cx.hot.tables.scratch = scratch;
}

/// Counts the reply to `request`, if this is a read.
fn note_read(
    cx: &mut Context,
    request: &Request<'_>,
    reply_bytes: usize,
    weight: f64,
    keys: &mut Vec<usize>,
) {
    if find_keys(request, keys) != Some(false) {
        return;
    }
    let bytes = (reply_bytes / keys.len()) as u64;
    for &at in keys.iter().take(KEYS_MAX) {
        let seen = Seen { weight: weight * bytes as f64, is_write: false, bytes };
        cx.hot.tables.sizes.add(request.arg(at), seen);
    }
}

/// Looks at a large request that begins with `known` and has `bytes` in all. Its command has one key.
#[cold]
pub(crate) fn note_large_request(cx: &mut Context, known: &[u8], bytes: usize) {
    let (mut scanner, mut spans) = (Scanner::default(), Vec::new());
    if scanner.scan(known, &RequestLimits::default(), &mut spans, &mut Vec::new()).is_err()
        || spans.is_empty()
    {
        return;
    }
    let come = spans.len();
    // Missing arguments stand as empty, so that their number can be checked.
    spans.resize(scanner.args_announced().max(come), Span { start: known.len(), len: 0 });
    let request = Request::new(known, &spans);
    let Resolved::Command(command) = command::resolve(&request) else { return };
    if let Some(at) = command.single_key().filter(|&at| at < come) {
        let seen = Seen { weight: bytes as f64, is_write: true, bytes: bytes as u64 };
        cx.hot.tables.sizes.add(request.arg(at), seen);
    }
}
