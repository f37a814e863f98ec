//! The slow requests of all workers.

use resp::{Request, encode};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Arguments of a request that are kept, as in Redis.
pub(crate) const ARGS_SHOWN_MAX: usize = 32;
/// Bytes of each argument that are kept, as in Redis.
pub(crate) const ARG_BYTES_SHOWN_MAX: usize = 128;
/// Samples that are kept.
const SAMPLES_MAX: usize = 32;
/// Entries of PROXY SLOWLOG GET without a number, as in Redis.
const SHOWN_BY_DEFAULT: usize = 10;

/// A request that took long, or one that was picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// A number of its own; later ones are larger.
    pub id: u64,
    /// Whether it took long. Else it was picked by its number.
    pub is_slow: bool,
    /// When the reply was read: microseconds since 1970.
    pub unix_us: u64,
    /// Microseconds from queueing to the reply.
    pub total_us: u32,
    /// Microseconds in which the whole request was here and not read yet. `None` if unknown: the client has gone, or later
    /// requests of it have waited since.
    pub read_us: Option<u32>,
    /// Microseconds in which it waited for a connection, or for room on it.
    pub queued_us: u32,
    /// Microseconds from the first reply to a part of the same request to this part's. `None` if the request was not
    /// split.
    pub merge_us: Option<u32>,
    /// Microseconds from this reply until the client's reply was complete and at the front. `None` as long as it is not,
    /// or if unknown.
    pub order_us: Option<u32>,
    /// Microseconds from then until the client's socket took all of it. `None` as long as it has not, or if unknown.
    pub client_us: Option<u32>,
    /// The command of the table.
    pub command: &'static str,
    /// The arguments, shortened and without passwords. Empty if the request was not kept.
    pub args: Vec<Vec<u8>>,
    /// Number of arguments that are left out.
    pub args_left_out: usize,
    /// The client's address; empty if it has gone.
    pub client: String,
    /// The client's name.
    pub name: Vec<u8>,
    /// The shard's name.
    pub shard: String,
    /// The node's address.
    pub node: String,
    /// Bytes of the request; `None` if it was not kept.
    pub request_bytes: Option<usize>,
    /// Bytes of the reply.
    pub reply_bytes: usize,
    /// Number of times that the request was sent.
    pub tries: u8,
}

impl SlowRequest {
    /// Microseconds from sending to the reply.
    pub fn node_us(&self) -> u32 {
        self.total_us - self.queued_us
    }

    /// Why it was noted.
    pub fn reason(&self) -> &'static str {
        if self.is_slow { "slow" } else { "sample" }
    }

    /// Redis's words for the arguments that are left out.
    pub fn rest(&self) -> Option<String> {
        (self.args_left_out > 0).then(|| format!("... ({} more arguments)", self.args_left_out))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The oldest first.
    slow: VecDeque<SlowRequest>,
    samples: VecDeque<SlowRequest>,
    last_id: u64,
    /// Number of slow requests since the start.
    slow_total: u64,
    /// Number of slow requests that were not noted, since there were too many at once.
    left_out: u64,
    /// Slow requests since the start, without those left out, by commands of the table.
    by_command: BTreeMap<&'static str, u64>,
}

impl SlowLog {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `request` and returns its number. Of slow ones, `len_max` are kept.
    pub(crate) fn add(&self, request: SlowRequest, len_max: usize) -> u64 {
        let mut entries = self.entries();
        entries.last_id += 1;
        if request.is_slow {
            entries.slow_total += 1;
            *entries.by_command.entry(request.command).or_default() += 1;
        }
        let request = SlowRequest { id: entries.last_id, ..request };
        let (ring, len_max) = match request.is_slow {
            true => (&mut entries.slow, len_max),
            false => (&mut entries.samples, SAMPLES_MAX),
        };
        ring.push_back(request);
        while ring.len() > len_max {
            ring.pop_front();
        }
        entries.last_id
    }

    /// Fills in the end of the entry `id`, if it is still there.
    pub(crate) fn note_delivered(&self, id: u64, order_us: u32, client_us: Option<u32>) {
        let mut entries = self.entries();
        let Entries { slow, samples, .. } = &mut *entries;
        // Most often, the entry is one of the last.
        let found = slow.iter_mut().rev().chain(samples.iter_mut().rev()).find(|request| request.id == id);
        if let Some(request) = found {
            (request.order_us, request.client_us) = (Some(order_us), client_us);
        }
    }

    /// Counts slow requests that are not noted.
    pub(crate) fn leave_out(&self, count: u64) {
        let mut entries = self.entries();
        entries.slow_total += count;
        entries.left_out += count;
    }

    /// The last `count` entries, the newest first.
    pub fn last(&self, count: usize) -> Vec<SlowRequest> {
        let entries = self.entries();
        let mut all: Vec<&SlowRequest> = entries.slow.iter().chain(&entries.samples).collect();
        all.sort_by_key(|request| std::cmp::Reverse(request.id));
        all.into_iter().take(count).cloned().collect()
    }

    /// Number of slow requests since the start, and how many of them were not noted.
    pub fn totals(&self) -> (u64, u64) {
        let entries = self.entries();
        (entries.slow_total, entries.left_out)
    }

    /// Slow requests since the start by their commands, without those that were left out.
    pub fn by_command(&self) -> BTreeMap<&'static str, u64> {
        self.entries().by_command.clone()
    }

    /// Number of entries.
    fn len(&self) -> usize {
        let entries = self.entries();
        entries.slow.len() + entries.samples.len()
    }

    fn reset(&self) {
        let mut entries = self.entries();
        entries.slow.clear();
        entries.samples.clear();
    }

    /// Answers PROXY SLOWLOG. False if there is no such subcommand.
    pub(crate) fn answer(&self, request: &Request<'_>, resp3: bool, out: &mut Vec<u8>) -> bool {
        let is = |word: &[u8], len: usize| request.arg(2).eq_ignore_ascii_case(word) && request.len() <= len;
        match () {
            () if is(b"GET", 4) => {
                let count = request.get(3).map(resp::integer::parse_i64);
                let Some(count) = count.unwrap_or(Some(SHOWN_BY_DEFAULT as i64)) else { return false };
                // Redis: -1 is all.
                let entries = self.last(usize::try_from(count).unwrap_or(usize::MAX));
                encode::array_header(out, entries.len());
                entries.iter().for_each(|entry| entry.write(resp3, out));
            }
            () if is(b"LEN", 3) => encode::integer(out, self.len() as i64),
            () if is(b"RESET", 3) => {
                self.reset();
                encode::simple(out, b"OK");
            }
            () => return false,
        }
        true
    }
}

impl SlowRequest {
    /// Appends the six elements of Redis's entry, and a map with ours.
    fn write(&self, resp3: bool, out: &mut Vec<u8>) {
        encode::array_header(out, 7);
        encode::integer(out, self.id as i64);
        encode::integer(out, (self.unix_us / 1_000_000) as i64);
        encode::integer(out, self.total_us.into());
        self.write_args(out);
        encode::bulk(out, self.client.as_bytes());
        encode::bulk(out, &self.name);
        encode::map_header(out, 12, resp3);
        encode::texts(out, &[("reason", self.reason()), ("shard", &self.shard), ("node", &self.node)]);
        let request_bytes = self.request_bytes.map_or(-1, |bytes| bytes as i64);
        let known = |us: Option<u32>| us.map_or(-1, i64::from);
        let numbers = [
            ("read-us", known(self.read_us)),
            ("queued-us", self.queued_us.into()),
            ("node-us", self.node_us().into()),
            ("merge-us", known(self.merge_us)),
            ("order-us", known(self.order_us)),
            ("client-us", known(self.client_us)),
            ("request-bytes", request_bytes),
            ("reply-bytes", self.reply_bytes as i64),
            ("tries", self.tries.into()),
        ];
        encode::integers(out, &numbers);
    }

    fn write_args(&self, out: &mut Vec<u8>) {
        if self.args.is_empty() {
            encode::array_header(out, 1);
            return encode::bulk(out, self.command.as_bytes());
        }
        let rest = self.rest();
        encode::array_header(out, self.args.len() + usize::from(rest.is_some()));
        self.args.iter().for_each(|arg| encode::bulk(out, arg));
        rest.iter().for_each(|rest| encode::bulk(out, rest.as_bytes()));
    }
}
