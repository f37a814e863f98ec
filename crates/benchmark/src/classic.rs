//! redis-benchmark's tests and its output, to the byte apart from the figures. Pure.
//!
//! The output is that of redis-benchmark 7.0. Latencies here are exact to a thousandth, where it has steps of 8 µs.

use crate::kinds::{Check, Kind};
use crate::recorder::Interval;
use crate::run::Outcome;
use crate::template::{Literal, Template};
use hdrhistogram::Histogram;
use std::fmt::Write;
use std::time::Duration;

/// A test: its title, the names by which `-t` chooses it, and its request. `D` is the value.
struct Test {
    title: &'static str,
    names: &'static [&'static str],
    request: &'static str,
}

const fn test(title: &'static str, names: &'static [&'static str], request: &'static str) -> Test {
    Test { title, names, request }
}

const LRANGES: &[&str] = &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"];

/// The tests in their order. `T` stands for `:{tag}` in a cluster.
const TESTS: &[Test] = &[
    test("PING_INLINE", &["ping_inline", "ping"], ""),
    test("PING_MBULK", &["ping_mbulk", "ping"], "PING"),
    test("SET", &["set"], "SET key%T:__rand_int__ __data__"),
    test("GET", &["get"], "GET key%T:__rand_int__"),
    test("INCR", &["incr"], "INCR counter%T:__rand_int__"),
    test("LPUSH", &["lpush"], "LPUSH mylist%T __data__"),
    test("RPUSH", &["rpush"], "RPUSH mylist%T __data__"),
    test("LPOP", &["lpop"], "LPOP mylist%T"),
    test("RPOP", &["rpop"], "RPOP mylist%T"),
    test("SADD", &["sadd"], "SADD myset%T element:__rand_int__"),
    test("HSET", &["hset"], "HSET myhash%T element:__rand_int__ __data__"),
    test("SPOP", &["spop"], "SPOP myset%T"),
    test("ZADD", &["zadd"], "ZADD myzset%T %S element:__rand_int__"),
    test("ZPOPMIN", &["zpopmin"], "ZPOPMIN myzset%T"),
    test("LPUSH (needed to benchmark LRANGE)", LRANGES, "LPUSH mylist%T __data__"),
    test("LRANGE_100 (first 100 elements)", &["lrange", "lrange_100"], "LRANGE mylist%T 0 99"),
    test("LRANGE_300 (first 300 elements)", &["lrange", "lrange_300"], "LRANGE mylist%T 0 299"),
    test("LRANGE_500 (first 500 elements)", &["lrange", "lrange_500"], "LRANGE mylist%T 0 499"),
    test("LRANGE_600 (first 600 elements)", &["lrange", "lrange_600"], "LRANGE mylist%T 0 599"),
    test("MSET (10 keys)", &["mset"], "MSET"),
];

/// Keys of the test MSET.
const MSET_KEYS: usize = 10;

/// The tests that `chosen` names, all if none. Words that name no test choose none, as in redis-benchmark.
pub(crate) fn tests(chosen: &[String], has_keyspace: bool, is_cluster: bool) -> Vec<Kind> {
    let is_chosen = |test: &&Test| {
        chosen.is_empty() || chosen.iter().any(|name| test.names.contains(&name.to_lowercase().as_str()))
    };
    TESTS.iter().filter(is_chosen).map(|test| test.kind(has_keyspace, is_cluster)).collect()
}

impl Test {
    fn kind(&self, has_keyspace: bool, is_cluster: bool) -> Kind {
        let template = match self.request {
            "" => Template::fixed(b"PING\r\n", 1),
            request => {
                let tag = if is_cluster { ":{tag}" } else { "" };
                let score = if has_keyspace { "__rand_int__" } else { "0" };
                let fill = |word: &str| word.replace("%T", tag).replace("%S", score);
                let mut words: Vec<String> = request.split(' ').map(fill).collect();
                if request == "MSET" {
                    let pair = [format!("key{tag}:__rand_int__"), "__data__".to_owned()];
                    (0..MSET_KEYS).for_each(|_| words.extend(pair.clone()));
                }
                let literal = if has_keyspace { Literal::Nothing } else { Literal::Numbers };
                Template::new(&[words], literal, is_cluster)
            }
        };
        Kind { name: self.title.to_owned(), template, check: Check::Anything }
    }
}

/// Settings that the output shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) clients: u32,
    pub(crate) payload: usize,
    pub(crate) keep_alive: u8,
    pub(crate) threads: Option<u32>,
    pub(crate) precision: u8,
    /// `save` and `appendonly` of each node; of one server if it is no cluster.
    pub(crate) configurations: Vec<Option<[String; 2]>>,
    pub(crate) is_cluster: bool,
}

/// Bounds of redis-benchmark's histogram, in microseconds.
const LOW_US: u64 = 10;
const HIGH_US: u64 = 3_000_000;

/// Latencies in microseconds, as redis-benchmark counts them.
struct Micros(Histogram<u64>);

impl Micros {
    fn new(latencies: &Histogram<u64>, precision: u8) -> Micros {
        let mut micros = Histogram::new_with_bounds(LOW_US, HIGH_US, precision.max(1))
            .expect("10 < 3 s, 5 digits at most");
        for value in latencies.iter_recorded() {
            let us = (value.value_iterated_to() / 1000).min(HIGH_US);
            micros.saturating_record_n(us, value.count_at_value());
        }
        Micros(micros)
    }

    fn ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// Average, minimum, median, 95th, 99th percentile and maximum, in milliseconds.
    fn summary(&self) -> [f64; 6] {
        let ends = [self.0.min() as f64 / 1000.0, self.0.max() as f64 / 1000.0];
        [self.0.mean() / 1000.0, ends[0], self.ms(0.5), self.ms(0.95), self.ms(0.99), ends[1]]
    }
}

/// The line that takes turns with itself on a terminal, without its end.
pub(crate) fn progress(title: &str, rates: [f64; 2], interval: &Interval, total: &Interval) -> String {
    let average = |interval: &Interval| interval.all().mean() / 1e6;
    let (now, overall) = (average(interval), average(total));
    format!(
        "{title}: rps={:.1} (overall: {:.1}) avg_msec={now:.3} (overall: {overall:.3})",
        rates[0], rates[1]
    )
}

/// The bytes that make room behind a progress line of `len` bytes.
pub(crate) fn clean_line(len: usize) -> String {
    format!("{:>len$}\r", " ")
}

pub(crate) const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n";

/// A line of the CSV.
pub(crate) fn csv(title: &str, outcome: &Outcome, precision: u8) -> String {
    let figures = Micros::new(&outcome.total.all(), precision).summary();
    let mut line = format!("\"{title}\",\"{:.2}\"", outcome.rate());
    figures.iter().for_each(|figure| write!(line, ",\"{figure:.3}\"").expect("a text takes all"));
    line + "\n"
}

/// The line of `-q`.
pub(crate) fn quiet(title: &str, outcome: &Outcome, precision: u8) -> String {
    let median = Micros::new(&outcome.total.all(), precision).ms(0.5);
    format!("{title}: {:.2} requests per second, p50={median:.3} msec\n", outcome.rate())
}

/// The whole report of a test.
pub(crate) fn report(title: &str, outcome: &Outcome, settings: &Settings) -> String {
    let micros = Micros::new(&outcome.total.all(), settings.precision);
    let mut text = head(title, outcome, settings);
    text += "Latency by percentile distribution:\n";
    text += &by_percentile(&micros.0);
    text += "\nCumulative distribution of latencies:\n";
    text += &cumulative(&micros.0);
    text += "\nSummary:\n";
    let [average, min, p50, p95, p99, max] = micros.summary();
    let rate = outcome.rate();
    text += &format!(
        "  throughput summary: {rate:.2} requests per second\n  latency summary (msec):\n    \
         {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n    \
         {average:9.3} {min:9.3} {p50:9.3} {p95:9.3} {p99:9.3} {max:9.3}\n",
        "avg", "min", "p50", "p95", "p99", "max"
    );
    text
}

fn head(title: &str, outcome: &Outcome, settings: &Settings) -> String {
    let Settings { clients, payload, keep_alive, threads, configurations, is_cluster, .. } = settings;
    let (requests, seconds) = (outcome.total.counts.requests, rounded_seconds(outcome.elapsed));
    let mut text = format!(
        "====== {title} ======\n  {requests} requests completed in {seconds:.2} seconds\n  {clients} parallel clients\n  \
         {payload} bytes payload\n  keep alive: {keep_alive}\n"
    );
    if *is_cluster {
        text += &format!("  cluster mode: yes ({} masters)\n", configurations.len());
    }
    for (index, configuration) in configurations.iter().enumerate() {
        let Some([save, appendonly]) = configuration else { continue };
        text += &match is_cluster {
            true => {
                let save = if save.is_empty() { "NONE" } else { save };
                format!("  node [{index}] configuration:\n    save: {save}\n    appendonly: {appendonly}\n")
            }
            false => format!(
                "  host configuration \"save\": {save}\n  host configuration \"appendonly\": {appendonly}\n"
            ),
        };
    }
    match threads {
        Some(threads) => text += &format!("  multi-thread: yes\n  threads: {threads}\n\n"),
        None => text += "  multi-thread: no\n\n",
    }
    text
}

fn rounded_seconds(elapsed: Duration) -> f64 {
    elapsed.as_millis() as f64 / 1000.0
}

fn by_percentile(micros: &Histogram<u64>) -> String {
    let (mut text, mut before, all) = (String::new(), None, micros.len());
    for step in micros.iter_quantiles(1) {
        let count = micros.count_between(0, step.value_iterated_to());
        if before != Some(count) || count == all {
            text += &line(step.quantile_iterated_to() * 100.0, step.value_iterated_to(), count);
        }
        before = Some(count);
    }
    text
}

/// Steps of 100 µs, and behind 2 ms of 1 ms.
fn cumulative(micros: &Histogram<u64>) -> String {
    let (mut text, mut before, all) = (String::new(), None, micros.len());
    let (mut level, mut step) = (100, 100);
    loop {
        let value = micros.highest_equivalent(level);
        let count = micros.count_between(0, value);
        if before != Some(count) || count == all {
            text += &line(count as f64 / all.max(1) as f64 * 100.0, value, count);
        }
        before = Some(count);
        if count >= all || level > HIGH_US {
            return text;
        }
        level += step;
        step = if value > 2000 { 1000 } else { step };
    }
}

fn line(percent: f64, us: u64, count: u64) -> String {
    format!("{percent:.3}% <= {:.3} milliseconds (cumulative count {count})\n", us as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_chosen_by_their_names() {
        let titles = |chosen: &[&str]| {
            let chosen: Vec<String> = chosen.iter().map(|&name| name.to_owned()).collect();
            tests(&chosen, false, false).into_iter().map(|kind| kind.name).collect::<Vec<_>>()
        };
        assert_eq!(titles(&[]).len(), 20);
        assert_eq!(titles(&["ping", "set"]), ["PING_INLINE", "PING_MBULK", "SET"]);
        assert_eq!(
            titles(&["lrange_300"]),
            ["LPUSH (needed to benchmark LRANGE)", "LRANGE_300 (first 300 elements)"]
        );
        assert_eq!(titles(&["nosuch"]), [""; 0]);
    }

    #[test]
    fn keys_are_drawn_only_from_a_keyspace() {
        let has_places =
            |has_keyspace| tests(&["get".to_owned()], has_keyspace, false)[0].template.has_places();
        assert!(has_places(true) && !has_places(false));
    }

    #[test]
    fn the_cumulative_distribution_has_redis_benchmarks_steps() {
        let mut micros = Histogram::new_with_bounds(LOW_US, HIGH_US, 3).expect("valid");
        [50, 50, 150, 2500].iter().for_each(|us| micros.saturating_record(*us));
        let expected = "50.000% <= 0.103 milliseconds (cumulative count 2)\n\
                        75.000% <= 0.207 milliseconds (cumulative count 3)\n\
                        100.000% <= 3.103 milliseconds (cumulative count 4)\n";
        assert_eq!(cumulative(&micros), expected);
    }
}
