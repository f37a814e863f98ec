//! The last fifteen minutes: rates and quantiles of the whole process and of each node, one sample every five seconds.
//!
//! A page that is opened during an incident shows from these how it came. A sample has ten numbers of four bytes for each
//! node, so 100 nodes take 720 KB. Nothing here looks at a clock.

use crate::facts::Facts;
use proxy::{Latency, NodeReport, NodeState};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::VecDeque;
use std::time::Duration;

/// Time between two samples.
pub(crate) const EVERY: Duration = Duration::from_secs(5);
/// Samples of fifteen minutes.
const SAMPLES_MAX: usize = 180;
/// Nodes with a history, which then has 3.6 MB. Further nodes have none.
const NODES_MAX: usize = 500;
/// Bounds of the counts that quantiles are made of: powers of two up to 268 s.
const BOUNDS: usize = 29;

/// Numbers about the whole process. The order is that of [`process_point`].
const PROCESS_COLUMNS: [&str; 9] = [
    "requests_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "errors_per_s",
    "clients",
    "bytes_per_s",
    "resident_bytes",
    "busiest_worker",
];
/// Numbers about a node. The order is that of [`node_point`].
const NODE_COLUMNS: [&str; 10] = [
    "up",
    "replies_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "errors_per_s",
    "in_flight",
    "queued_bytes",
    "bytes_per_s",
    "used_memory_bytes",
];

/// One sample of one series. An unknown number is NaN, which JSON shows as null.
type Point<const N: usize> = [f32; N];

/// The state and the sums since the start that a sample is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    requests: u64,
    errors: u64,
    clients: u64,
    bytes: u64,
    resident_bytes: u64,
    /// Of each worker, in seconds.
    busy_s: Vec<f64>,
    nodes: Vec<NodeReading>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct NodeReading {
    address: String,
    is_up: bool,
    in_flight: usize,
    queued_bytes: usize,
    bytes: u64,
    errors: u64,
    times: Times,
    /// `None` if the node does not tell.
    used_memory_bytes: Option<u64>,
}

/// A distribution since the start.
#[derive(Clone, Debug, Default, PartialEq)]
struct Times {
    count: u64,
    /// The counts below 1, 2, 4, … microseconds.
    below: [u64; BOUNDS],
}

impl Reading {
    /// The numbers in `facts`.
    pub(crate) fn of(facts: &Facts) -> Reading {
        let counters = &facts.counters;
        Reading {
            requests: counters.requests,
            errors: facts.tally.causes().map(|(_, count)| count).sum(),
            clients: counters.clients,
            bytes: counters.client_bytes_in + counters.client_bytes_out,
            resident_bytes: facts.usage.resident_bytes,
            busy_s: facts.workers.iter().map(|worker| worker.busy_s).collect(),
            nodes: facts.nodes.iter().take(NODES_MAX).map(NodeReading::of).collect(),
        }
    }
}

impl NodeReading {
    fn of(node: &NodeReport) -> NodeReading {
        NodeReading {
            address: node.address.clone(),
            is_up: node.state == Some(NodeState::Up),
            in_flight: node.in_flight,
            queued_bytes: node.queued_bytes,
            bytes: node.counts.bytes_in + node.counts.bytes_out,
            errors: node.counts.errors,
            times: Times::of(&node.counts.times),
            used_memory_bytes: node.memory.map(|memory| memory.used_bytes),
        }
    }
}

impl Times {
    fn of(times: &Latency) -> Times {
        let bounds: [u64; BOUNDS] = std::array::from_fn(|power| 1 << power);
        let mut below = [0; BOUNDS];
        below.iter_mut().zip(times.counts_below(&bounds)).for_each(|(kept, count)| *kept = count);
        Times { count: times.count_all(), below }
    }

    fn add(&mut self, other: &Times) {
        self.count += other.count;
        self.below.iter_mut().zip(other.below).for_each(|(sum, count)| *sum += count);
    }

    /// The times since `earlier`.
    fn since(&self, earlier: &Times) -> Times {
        let below = std::array::from_fn(|power| self.below[power].saturating_sub(earlier.below[power]));
        Times { count: self.count.saturating_sub(earlier.count), below }
    }

    /// The time below which `share` of all lie, in microseconds, by a straight line between two bounds.
    fn quantile_us(&self, share: f64) -> f32 {
        let wanted = share * self.count as f64;
        if self.count == 0 {
            return f32::NAN;
        }
        let Some(power) = self.below.iter().position(|&count| count as f64 >= wanted) else {
            return (1_u64 << BOUNDS) as f32;
        };
        let (low, start) =
            if power == 0 { (0, 0.0) } else { (self.below[power - 1], (1_u64 << (power - 1)) as f64) };
        let end = (1_u64 << power) as f64;
        let within = self.below[power].saturating_sub(low).max(1) as f64;
        (start + (end - start) * ((wanted - low as f64) / within).min(1.0)) as f32
    }
}

/// The samples of one thing.
#[derive(Clone, Debug)]
struct Series<const N: usize> {
    points: VecDeque<Point<N>>,
}

impl<const N: usize> Series<N> {
    /// Without a point yet, beside others that have `len`.
    fn beside(len: usize) -> Series<N> {
        Series { points: std::iter::repeat_n([f32::NAN; N], len).collect() }
    }

    fn push(&mut self, point: Point<N>) {
        if self.points.len() == SAMPLES_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    fn is_empty(&self) -> bool {
        self.points.iter().flatten().all(|number| number.is_nan())
    }
}

/// The ring of all samples.
#[derive(Debug)]
pub(crate) struct History {
    /// The number of the last sample; the first one is 1.
    last: u64,
    /// Seconds from 1970 to each sample.
    times_s: VecDeque<f64>,
    process: Series<9>,
    /// By address; each has as many points as there are samples.
    nodes: Vec<(String, Series<10>)>,
    /// The reading to which the next one is compared.
    before: Option<Reading>,
}

impl Default for History {
    fn default() -> History {
        History {
            last: 0,
            times_s: VecDeque::new(),
            process: Series::beside(0),
            nodes: Vec::new(),
            before: None,
        }
    }
}

impl History {
    /// Adds the sample of the `elapsed_s` seconds since the last reading. The first reading only begins the comparison.
    pub(crate) fn take(&mut self, reading: Reading, now_s: f64, elapsed_s: f64) {
        let Some(before) = self.before.replace(reading.clone()) else { return };
        let seconds = elapsed_s.max(f64::MIN_POSITIVE);
        self.process.push(process_point(&reading, &before, seconds));
        for (address, series) in &mut self.nodes {
            let found = |reading: &'_ Reading| reading.nodes.iter().position(|node| node.address == *address);
            let point = match (found(&reading), found(&before)) {
                (Some(now), Some(then)) => node_point(&reading.nodes[now], &before.nodes[then], seconds),
                _ => [f32::NAN; 10],
            };
            series.push(point);
        }
        if self.times_s.len() == SAMPLES_MAX {
            self.times_s.pop_front();
        }
        self.times_s.push_back(now_s);
        self.last += 1;
        self.follow(&reading);
    }

    /// Forgets nodes that left fifteen minutes ago and begins with those that are new.
    fn follow(&mut self, reading: &Reading) {
        let is_there = |address: &str| reading.nodes.iter().any(|node| node.address == address);
        self.nodes.retain(|(address, series)| is_there(address) || !series.is_empty());
        for node in &reading.nodes {
            let is_known = self.nodes.iter().any(|(address, _)| *address == node.address);
            if !is_known && self.nodes.len() < NODES_MAX {
                self.nodes.push((node.address.clone(), Series::beside(self.times_s.len())));
            }
        }
    }

    /// The samples after number `after`; all of them for 0.
    pub(crate) fn answer(&self, after: u64) -> HistoryAnswer<'_> {
        let count = self.last.saturating_sub(after).min(self.times_s.len() as u64) as usize;
        let first = self.times_s.len() - count;
        HistoryAnswer {
            every_s: EVERY.as_secs_f64(),
            last: self.last,
            times_s: self.times_s.range(first..).copied().collect(),
            process: Columns { names: &PROCESS_COLUMNS, series: &self.process, first },
            nodes: self
                .nodes
                .iter()
                .map(|(address, series)| NodeHistory {
                    address,
                    columns: Columns { names: &NODE_COLUMNS, series, first },
                })
                .collect(),
        }
    }
}

fn process_point(now: &Reading, before: &Reading, seconds: f64) -> Point<9> {
    let mut times = Times::default();
    for node in &now.nodes {
        let then = before.nodes.iter().find(|then| then.address == node.address);
        times.add(&node.times.since(then.map_or(&Times::default(), |then| &then.times)));
    }
    let busy = now.busy_s.iter().zip(&before.busy_s).map(|(now, then)| (now - then) / seconds);
    [
        rate(now.requests, before.requests, seconds),
        times.quantile_us(0.5),
        times.quantile_us(0.99),
        times.quantile_us(0.999),
        rate(now.errors, before.errors, seconds),
        now.clients as f32,
        rate(now.bytes, before.bytes, seconds),
        now.resident_bytes as f32,
        busy.fold(0.0, f64::max).min(1.0) as f32,
    ]
}

fn node_point(now: &NodeReading, before: &NodeReading, seconds: f64) -> Point<10> {
    let times = now.times.since(&before.times);
    [
        f32::from(u8::from(now.is_up)),
        rate(now.times.count, before.times.count, seconds),
        times.quantile_us(0.5),
        times.quantile_us(0.99),
        times.quantile_us(0.999),
        rate(now.errors, before.errors, seconds),
        now.in_flight as f32,
        now.queued_bytes as f32,
        rate(now.bytes, before.bytes, seconds),
        now.used_memory_bytes.map_or(f32::NAN, |bytes| bytes as f32),
    ]
}

/// A count begins anew if its node left and came back.
fn rate(now: u64, before: u64, seconds: f64) -> f32 {
    (now.saturating_sub(before) as f64 / seconds) as f32
}

/// The answer to `/history`.
#[derive(Serialize)]
pub(crate) struct HistoryAnswer<'a> {
    /// Seconds between two samples.
    every_s: f64,
    /// The number of the last sample, for `after` of the next question.
    last: u64,
    /// Seconds from 1970 to each sample.
    times_s: Vec<f64>,
    process: Columns<'a, 9>,
    nodes: Vec<NodeHistory<'a>>,
}

#[derive(Serialize)]
struct NodeHistory<'a> {
    address: &'a str,
    #[serde(flatten)]
    columns: Columns<'a, 10>,
}

/// A series by columns.
struct Columns<'a, const N: usize> {
    names: &'static [&'static str; N],
    series: &'a Series<N>,
    /// The index of the first point that is asked for.
    first: usize,
}

impl<const N: usize> Serialize for Columns<'_, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.names.len()))?;
        for (column, name) in self.names.iter().enumerate() {
            let points = self.series.points.range(self.first..);
            let numbers: Vec<f32> = points.map(|point| shortened(point[column])).collect();
            map.serialize_entry(name, &numbers)?;
        }
        map.end()
    }
}

/// Three decimals below 1, one below 1,000, none above: an answer for 100 nodes has about a megabyte.
fn shortened(number: f32) -> f32 {
    let decimals = if number < 1.0 {
        1000.0
    } else if number < 1000.0 {
        10.0
    } else {
        1.0
    };
    (number * decimals).round() / decimals
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A node with `count` replies, each in 64 to 128 µs.
    fn node(address: &str, count: u64) -> NodeReading {
        let mut below = [0; BOUNDS];
        below[7..].fill(count);
        let times = Times { count, below };
        NodeReading {
            address: address.to_owned(),
            is_up: true,
            bytes: 100 * count,
            times,
            ..NodeReading::default()
        }
    }

    fn reading(nodes: &[(&str, u64)]) -> Reading {
        let nodes: Vec<_> = nodes.iter().map(|(address, count)| node(address, *count)).collect();
        Reading {
            requests: nodes.iter().map(|node| node.times.count).sum(),
            busy_s: vec![0.0],
            nodes,
            ..Reading::default()
        }
    }

    fn answer(history: &History, after: u64) -> Value {
        serde_json::to_value(history.answer(after)).expect("JSON")
    }

    #[test]
    fn samples_are_rates_and_quantiles_since_the_last() {
        let mut history = History::default();
        history.take(reading(&[("a:1", 100)]), 10.0, 0.0);
        assert_eq!(answer(&history, 0)["times_s"], json!([]));
        history.take(reading(&[("a:1", 200)]), 15.0, 5.0);
        history.take(reading(&[("a:1", 400)]), 20.0, 5.0);
        let all = answer(&history, 0);
        assert_eq!((&all["times_s"], &all["last"]), (&json!([15.0, 20.0]), &json!(2)));
        assert_eq!(all["process"]["requests_per_s"], json!([20.0, 40.0]));
        assert_eq!(all["process"]["p50_us"], json!([96.0, 96.0]));
        // The node is known from its first sample on.
        assert_eq!(all["nodes"][0]["address"], "a:1");
        assert_eq!(all["nodes"][0]["replies_per_s"], json!([null, 40.0]));
        assert_eq!(all["nodes"][0]["bytes_per_s"], json!([null, 4000.0]));
        assert_eq!(all["nodes"][0]["up"], json!([null, 1.0]));
        let newest = answer(&history, 1);
        assert_eq!(newest["nodes"][0]["replies_per_s"], json!([40.0]));
        assert_eq!(
            (answer(&history, 2)["times_s"].clone(), answer(&history, 99)["times_s"].clone()),
            (json!([]), json!([]))
        );
    }

    #[test]
    fn fifteen_minutes_are_kept_and_no_more() {
        let mut history = History::default();
        for sample in 0..1000 {
            history.take(reading(&[("a:1", sample)]), sample as f64, 5.0);
        }
        let all = answer(&history, 0);
        let len = |column: &Value| column.as_array().map(Vec::len);
        assert_eq!(len(&all["times_s"]), Some(SAMPLES_MAX));
        assert_eq!(len(&all["nodes"][0]["p99_us"]), Some(SAMPLES_MAX));
        assert_eq!(all["times_s"][SAMPLES_MAX - 1], 999.0);
        assert_eq!(all["process"]["requests_per_s"][0], json!(0.2_f32));
    }

    #[test]
    fn a_node_that_left_is_kept_as_long_as_its_samples() {
        let mut history = History::default();
        for count in 0..3 {
            history.take(reading(&[("a:1", count), ("b:1", count)]), count as f64, 5.0);
        }
        for count in 3..3 + SAMPLES_MAX as u64 {
            assert_eq!(history.nodes.len(), 2, "{count}");
            history.take(reading(&[("a:1", count)]), count as f64, 5.0);
        }
        assert_eq!(history.nodes.len(), 1);
        assert_eq!(answer(&history, 0)["nodes"][0]["address"], "a:1");
    }

    #[test]
    fn more_nodes_than_the_limit_have_no_history() {
        let names: Vec<String> = (0..NODES_MAX + 3).map(|number| format!("n{number}:1")).collect();
        let nodes: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let mut history = History::default();
        history.take(reading(&nodes), 0.0, 0.0);
        history.take(reading(&nodes), 5.0, 5.0);
        assert_eq!(history.nodes.len(), NODES_MAX);
    }

    #[test]
    fn quantiles_are_unknown_without_replies() {
        let mut times = Times::default();
        assert!(times.quantile_us(0.5).is_nan());
        times.count = 1;
        assert_eq!(times.quantile_us(0.5), (1_u64 << BOUNDS) as f32);
        times.below.fill(1);
        assert_eq!(times.quantile_us(1.0), 1.0);
    }
}
