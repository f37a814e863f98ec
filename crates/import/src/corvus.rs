//! `corvus.conf` of corvus 0.2.7: lines of a name and a value. Words behind them and names that it does not know are ignored
//! there, and are listed here.

use crate::address::{Listen, node_of, parse_port};
use crate::draft::{Draft, Origin, Table};
use crate::fault::{Place, Word};
use crate::options::{Fate, Options, fate};
use crate::twemproxy::NO_PASSWORD;
use crate::units::split;
use std::collections::HashMap;

pub(crate) const OPTIONS: Options = &[
    ("bind", Fate::As("port, with host = \"0.0.0.0\"")),
    ("node", Fate::As("cluster")),
    ("thread", Fate::As("workers")),
    ("requirepass", Fate::As("requirepass")),
    (
        "read-strategy",
        Fate::As("read-from: `master` is primary, `read-slave-only` is replica, `both` is any"),
    ),
    ("read-slave", Fate::As("read-from = \"replica\"")),
    ("read-master-slave", Fate::As("read-from = \"any\"")),
    ("client_timeout", Fate::As("timeout")),
    (
        "server_timeout",
        Fate::Partly(
            "request-timeout-ms",
            "0, for ever, is not carried: shardis gives up a silent node after 1000 ms",
        ),
    ),
    ("loglevel", Fate::As("log-level: `crit` is error")),
    ("slowlog-log-slower-than", Fate::As("slowlog-log-slower-than, for PROXY SLOWLOG")),
    ("slowlog-max-len", Fate::Partly("slowlog-max-len", "shardis keeps 1 to 10000 requests")),
    ("slowlog-statsd-enabled", Fate::Not("shardis sends no slow requests to statsd; PROXY SLOWLOG has them")),
    ("statsd", Fate::As("statsd")),
    ("metric_interval", Fate::Partly("metric-interval", "shardis sends every 1 to 3600 seconds")),
    ("cluster", Fate::Partly("statsd-prefix", "words of it are letters, digits, - and _ in shardis")),
    ("syslog", Fate::Not("the log of shardis goes to stderr, from which systemd takes it")),
    ("bufsize", Fate::Not("shardis sizes its buffers itself")),
];

const UNKNOWN: &str = "corvus does not know it, and ignores it too";
/// The longest time of a slow request that shardis can note.
const SLOWER_THAN_US_MAX: u64 = 600_000_000;
/// The longest time between two reports of shardis to statsd.
const METRIC_INTERVAL_S_MAX: u64 = 3600;
/// The most bytes of a name in metrics.
const NAME_BYTES_MAX: usize = 64;
/// The most slow requests that shardis keeps.
const SLOWLOG_LEN_MAX: u64 = 10_000;

pub(crate) fn read(name: &str, text: &str, draft: &mut Draft) {
    let file: std::sync::Arc<str> = name.into();
    let mut pool = Table::default();
    let mut last: HashMap<&str, Word> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let column = line.chars().take_while(|letter| letter.is_whitespace()).count() + 1;
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { continue };
        let place = Place { file: file.clone(), line: number + 1, column };
        let (key, value) = (Word::new(name, place), words.next().unwrap_or_default());
        if words.next().is_some_and(|word| !word.starts_with('#')) {
            draft.leave_out(&key, "words behind the first one: corvus ignores them too");
        }
        if let Some(earlier) = last.insert(name, key.clone()) {
            draft.leave_out(&earlier, format!("line {} sets it again", number + 1));
        }
        read_option(&key, value, &mut pool, draft);
    }
    finish(&mut pool, draft);
    draft.pool(pool);
}

fn read_option(key: &Word, value: &str, pool: &mut Table, draft: &mut Draft) {
    let Some(fate) = fate(OPTIONS, &key.text) else { return draft.leave_out(key, UNKNOWN) };
    let origin = Origin::of(key, value);
    match key.text.as_str() {
        "bind" => match parse_port(value) {
            Some(port) => Listen::Tcp("0.0.0.0".to_owned(), port).set(pool, &origin),
            None => draft.fault(&key.place, format!("bind: {value:?}: write a port, as in bind 12345")),
        },
        "node" => read_nodes(key, value, pool, draft),
        "thread" => draft.process().set(
            "workers",
            Some(integer(value)).filter(|count| *count > 0).unwrap_or(4),
            &origin,
        ),
        "requirepass" if !value.is_empty() => pool.set("requirepass", value, &Origin::secret(key)),
        "requirepass" => draft.meet(key, NO_PASSWORD),
        "read-strategy" => {
            let from = match value {
                "read-slave-only" => "replica",
                "both" => "any",
                _ => "primary",
            };
            pool.set("read-from", from, &origin);
        }
        "read-slave" if is_on(value) => pool.set("read-from", "replica", &origin),
        "read-master-slave" if is_on(value) => pool.set("read-from", "any", &origin),
        "read-slave" | "read-master-slave" => draft.meet(key, "reads go to primaries"),
        "client_timeout" => pool.set("timeout", integer(value), &origin),
        "server_timeout" => match integer(value) {
            0 => draft.lose(key, OPTIONS, "server_timeout"),
            seconds => pool.set("request-timeout-ms", seconds.saturating_mul(1000), &origin),
        },
        "loglevel" => {
            let level = match value {
                "debug" | "warn" | "error" => value,
                "crit" => "error",
                _ => "info",
            };
            draft.process().set("log-level", level, &origin);
        }
        "slowlog-log-slower-than" if value.starts_with('-') => {
            pool.set("slowlog-log-slower-than", "-1", &origin)
        }
        "slowlog-log-slower-than" => {
            pool.set("slowlog-log-slower-than", integer(value).min(SLOWER_THAN_US_MAX), &origin);
        }
        "statsd" if !value.is_empty() => pool.set("statsd", value, &origin),
        "metric_interval" => match integer(value) {
            seconds @ 1..=METRIC_INTERVAL_S_MAX => pool.set("metric-interval", seconds, &origin),
            _ => draft.lose(key, OPTIONS, "metric_interval"),
        },
        "cluster" if is_word(value) => pool.set("statsd-prefix", format!("corvus.{value}"), &origin),
        "cluster" => draft.lose(key, OPTIONS, "cluster"),
        "slowlog-max-len" => match integer(value) {
            len @ 1..=SLOWLOG_LEN_MAX => pool.set("slowlog-max-len", len, &origin),
            _ => draft.lose(key, OPTIONS, "slowlog-max-len"),
        },
        _ => {
            draft.settle(key, fate);
        }
    }
}

fn read_nodes(key: &Word, value: &str, pool: &mut Table, draft: &mut Draft) {
    let mut seeds = Vec::new();
    for text in value.split(',').filter(|text| !text.is_empty()) {
        match node_of(text) {
            Some(seed) => seeds.push(key.with(seed)),
            None => draft.fault(&key.place, format!("node: {text:?}: write host:port, as in 127.0.0.1:6379")),
        }
    }
    if seeds.is_empty() {
        return draft.fault(&key.place, "node: there is no address; write host:port, as in 127.0.0.1:6379");
    }
    pool.set("cluster", seeds, &Origin::of(key, value));
}

fn finish(pool: &mut Table, draft: &mut Draft) {
    if !pool.has("cluster") {
        draft.fault_of_all("the file names no node; write node and its address, as in node 127.0.0.1:6379");
    }
    let listen = match pool.get("port") {
        Some(crate::draft::Value::Number(port)) => u16::try_from(*port).ok(),
        _ => None,
    };
    let listen = Listen::Tcp("0.0.0.0".to_owned(), listen.unwrap_or(12345));
    if !pool.has("port") {
        listen.set(pool, &Origin::implied("default of corvus"));
    }
    listen.open(pool, "corvus");
}

/// The number at the beginning of `text`, as `atoi` reads it; 0 if there is none, or less.
fn integer(text: &str) -> u64 {
    split(text).map_or(0, |(number, _)| number).min(i32::MAX as u64)
}

/// Whether `text` can be a part of a name at statsd.
fn is_word(text: &str) -> bool {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_of_word)
}

/// A switch, as corvus reads it.
fn is_on(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || integer(text) != 0
}
