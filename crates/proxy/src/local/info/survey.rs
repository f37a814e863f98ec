//! The nodes' facts about themselves, combined as they come: one figure per field, whatever the number of nodes.

use crate::login::attempts::is_denial;
use crate::outcome::Outcome;
use resp::reply;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::str::FromStr;
use topology::ShardId;

/// The question, and the answers of the nodes.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(super) wanted: Wanted,
    /// Answers by shard.
    nodes: Vec<Word>,
    /// The fields that it knows.
    combined: &'static Combined,
    /// Values by the fields' indexes.
    told: Vec<Told>,
    /// Counts by database.
    pub(super) keyspace: BTreeMap<u32, KeyCounts>,
    /// By command, the percentiles by name, in the order of the first node that has them.
    pub(super) latencies: BTreeMap<Box<str>, Vec<(Box<str>, f64)>>,
}

/// The sections to show: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted(pub u16);

/// The way in which the nodes' figures become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    /// The sum, for figures that are spread over the nodes.
    Sum,
    /// The same, with two decimals.
    SumOfRates,
    /// A limit of each node. If one node has no limit, neither has the sum.
    SumOfBounds,
    /// The largest figure: common to all, true if true of one node, or the worst.
    Largest,
    /// The same, with two decimals.
    LargestShare,
    /// Seconds, or -1 if there was nothing to measure.
    Longest,
    /// The earliest of several instants.
    Oldest,
    /// `ok`, unless one node has another word.
    Status,
    /// The word of all nodes; `mixed` if they differ, and this one if no node has any.
    Common(&'static str),
}

/// The fields from nodes' figures, by name, with their indexes.
pub(super) type Combined = BTreeMap<&'static str, (usize, Combine)>;

/// The value of one field so far.
#[derive(Clone, Debug, Default, PartialEq)]
enum Told {
    #[default]
    Nothing,
    /// Hundredths, for fields with decimals.
    Number(i64),
    Word(Box<str>),
}

impl Told {
    /// Adds the `value` of one more node.
    fn add(&mut self, combine: Combine, value: &str) {
        match combine {
            Combine::Status | Combine::Common(_) => self.add_word(combine, value),
            Combine::SumOfRates | Combine::LargestShare => {
                self.add_number(combine, (number::<f64>(value) * 100.0).round() as i64);
            }
            _ => self.add_number(combine, number(value)),
        }
    }

    fn add_number(&mut self, combine: Combine, other: i64) {
        *self = match *self {
            Told::Number(number) => Told::Number(combine.join(number, other)),
            _ => Told::Number(other),
        };
    }

    fn add_word(&mut self, combine: Combine, other: &str) {
        match self {
            Told::Word(word) if **word == *other => {}
            // The worst word stays.
            Told::Word(word) if combine == Combine::Status && &**word != "ok" => {}
            Told::Word(word) if combine != Combine::Status => *word = "mixed".into(),
            _ => *self = Told::Word(other.into()),
        }
    }
}

impl Combine {
    fn join(self, one: i64, other: i64) -> i64 {
        match self {
            Combine::SumOfBounds if one == 0 || other == 0 => 0,
            Combine::Sum | Combine::SumOfRates | Combine::SumOfBounds => one.saturating_add(other),
            Combine::Oldest => one.min(other),
            _ => one.max(other),
        }
    }

    /// The value if no node has answered.
    fn unknown(self) -> &'static str {
        match self {
            Combine::Longest => "-1",
            Combine::SumOfRates | Combine::LargestShare => "0.00",
            Combine::Status => "ok",
            Combine::Common(word) => word,
            _ => "0",
        }
    }
}

/// The answer of one node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// The node was not asked, or has not answered.
    None,
    /// The figures.
    Figures(Box<Figures>),
    /// The node's error.
    Refused(String),
    /// No answer, for this reason.
    Down(String),
}

/// The figures that are shown of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    version: String,
    role: String,
    used_memory: u64,
    ops_per_sec: u64,
    /// Of all databases.
    keys: u64,
}

impl fmt::Display for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::None => Ok(()),
            Word::Refused(why) | Word::Down(why) => write!(out, ",reason={why}"),
            Word::Figures(figures) => {
                let Figures { version, role, used_memory, ops_per_sec, keys } = &**figures;
                write!(out, ",version={version},role={role},keys={keys},used_memory={used_memory}")?;
                write!(out, ",ops_per_sec={ops_per_sec}")
            }
        }
    }
}

/// The counts of one node for one database.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct KeyCounts {
    pub keys: u64,
    pub expires: u64,
    pub avg_ttl: u64,
}

impl KeyCounts {
    /// `keys=1,expires=0,avg_ttl=0`
    fn parse(text: &str) -> KeyCounts {
        let mut counts = KeyCounts::default();
        for pair in text.split(',') {
            match pair.split_once('=') {
                Some(("keys", value)) => counts.keys = number(value),
                Some(("expires", value)) => counts.expires = number(value),
                Some(("avg_ttl", value)) => counts.avg_ttl = number(value),
                _ => {}
            }
        }
        counts
    }

    /// The sum of both. The mean is weighted by the keys with a time to live.
    fn plus(self, other: KeyCounts) -> KeyCounts {
        let expires = self.expires.saturating_add(other.expires);
        let weigh = |counts: KeyCounts| u128::from(counts.avg_ttl) * u128::from(counts.expires);
        let avg_ttl = (weigh(self) + weigh(other)) / u128::from(expires.max(1));
        KeyCounts { keys: self.keys.saturating_add(other.keys), expires, avg_ttl: avg_ttl as u64 }
    }
}

/// The parsed number, or zero: a figure that is missing is no reason to show none.
fn number<T: FromStr + Default>(text: &str) -> T {
    text.parse().unwrap_or_default()
}

impl Survey {
    /// A survey of `shards` shards without answers.
    pub(super) fn new(wanted: Wanted, combined: &'static Combined, shards: usize) -> Survey {
        Survey {
            wanted,
            nodes: vec![Word::None; shards],
            told: vec![Told::Nothing; combined.len()],
            combined,
            keyspace: BTreeMap::new(),
            latencies: BTreeMap::new(),
        }
    }

    /// Takes the answer of `shard`, or its loss.
    pub(crate) fn absorb(&mut self, shard: ShardId, outcome: &Outcome<'_>) {
        let word = match outcome {
            Outcome::Reply(bytes) => match reply::as_bulk(bytes) {
                Some(text) => Word::Figures(self.absorb_text(&String::from_utf8_lossy(text))),
                None => {
                    Word::Refused(String::from_utf8_lossy(bytes).trim_matches(['-', '\r', '\n']).to_owned())
                }
            },
            Outcome::Lost(lost) => Word::Down(lost.reason()),
        };
        self.set(shard, word);
    }

    /// Notes that `shard` has no answer because of `why`.
    pub(super) fn lose(&mut self, shard: ShardId, why: String) {
        self.set(shard, Word::Down(why));
    }

    fn set(&mut self, shard: ShardId, word: Word) {
        if let Some(node) = self.nodes.get_mut(shard.0 as usize) {
            *node = word;
        }
    }

    /// Takes the answer of one node.
    fn absorb_text(&mut self, text: &str) -> Box<Figures> {
        let mut figures = Box::<Figures>::default();
        for line in text.lines() {
            let Some((field, value)) = line.split_once(':') else { continue };
            match field {
                "redis_version" => figures.version = value.to_owned(),
                "role" => figures.role = value.to_owned(),
                "instantaneous_ops_per_sec" => figures.ops_per_sec = number(value),
                "used_memory" => figures.used_memory = number(value),
                _ => {}
            }
            if let Some(&(at, combine)) = self.combined.get(field) {
                self.told[at].add(combine, value);
            } else if let Some(command) = field.strip_prefix("latency_percentiles_usec_") {
                self.absorb_latency(command, value);
            } else if let Some(database) = field.strip_prefix("db").and_then(|index| index.parse().ok()) {
                let counts = KeyCounts::parse(value);
                figures.keys = figures.keys.saturating_add(counts.keys);
                let sum = self.keyspace.entry(database).or_default();
                *sum = sum.plus(counts);
            }
        }
        figures
    }

    /// Takes `p50=1.003,p99=2.007`: the largest of all nodes counts.
    fn absorb_latency(&mut self, command: &str, value: &str) {
        let percentiles = self.latencies.entry(command.into()).or_default();
        for (name, value) in value.split(',').filter_map(|pair| pair.split_once('=')) {
            let value = number::<f64>(value);
            match percentiles.iter_mut().find(|(known, _)| **known == *name) {
                Some((_, largest)) => *largest = largest.max(value),
                None => percentiles.push((name.into(), value)),
            }
        }
    }

    /// The first refusal of a node.
    pub(super) fn denial(&self) -> Option<&str> {
        let errors = self.nodes.iter().filter_map(|word| match word {
            Word::Refused(error) | Word::Down(error) => Some(error.as_str()),
            Word::None | Word::Figures(_) => None,
        });
        errors.into_iter().find(|error| is_denial(error))
    }

    /// The answer of the node of `shard`.
    pub(super) fn word(&self, shard: ShardId) -> &Word {
        self.nodes.get(shard.0 as usize).unwrap_or(&Word::None)
    }

    fn told(&self, name: &str) -> Option<(Combine, &Told)> {
        let &(at, combine) = self.combined.get(name)?;
        Some((combine, &self.told[at]))
    }

    /// Whether a node has the field `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.told(name).is_some_and(|(_, told)| *told != Told::Nothing)
    }

    /// The combined figure of the field `name`.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        match self.told(name) {
            Some((_, Told::Number(number))) => Some(*number),
            _ => None,
        }
    }

    /// Appends the line of the field `name`.
    pub(super) fn write(&self, name: &str, text: &mut String) {
        let Some((combine, told)) = self.told(name) else { return };
        match (combine, told) {
            (Combine::SumOfRates | Combine::LargestShare, Told::Number(hundredths)) => {
                push(text, format_args!("{name}:{:.2}", *hundredths as f64 / 100.0));
            }
            (_, Told::Number(number)) => push(text, format_args!("{name}:{number}")),
            (_, Told::Word(word)) => push(text, format_args!("{name}:{word}")),
            (_, Told::Nothing) => push(text, format_args!("{name}:{}", combine.unknown())),
        }
    }
}

/// Appends a line.
pub(super) fn push(text: &mut String, line: fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = write!(text, "{line}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::info::table::COMBINED;

    fn survey_of(nodes: &[&str]) -> Survey {
        let mut survey = Survey::new(Wanted::of([].into_iter()), &COMBINED, nodes.len());
        nodes.iter().for_each(|text| drop(survey.absorb_text(text)));
        survey
    }

    #[track_caller]
    fn assert_line(nodes: &[&str], name: &str, expected: &str) {
        let mut line = String::new();
        survey_of(nodes).write(name, &mut line);
        assert_eq!(line, format!("{name}:{expected}\r\n"));
    }

    #[test]
    fn figures_of_nodes_are_combined_as_the_table_says() {
        assert_line(&["used_memory:100", "used_memory:x", "used_memory:7"], "used_memory", "107");
        assert_line(&["maxmemory:100", "maxmemory:0", "maxmemory:7"], "maxmemory", "0");
        assert_line(&["maxmemory:100", "maxmemory:7"], "maxmemory", "107");
        assert_line(&["latest_fork_usec:3", "latest_fork_usec:9"], "latest_fork_usec", "9");
        assert_line(
            &["rdb_last_bgsave_time_sec:-1", "rdb_last_bgsave_time_sec:0"],
            "rdb_last_bgsave_time_sec",
            "0",
        );
        assert_line(&[], "rdb_last_bgsave_time_sec", "-1");
        assert_line(&["rdb_last_save_time:9", "rdb_last_save_time:5"], "rdb_last_save_time", "5");
        assert_line(&["expired_stale_perc:1.25", "expired_stale_perc:0.50"], "expired_stale_perc", "1.25");
        let rates = ["instantaneous_input_repl_kbps:1.25", "instantaneous_input_repl_kbps:0.50"];
        assert_line(&rates, "instantaneous_input_repl_kbps", "1.75");
        assert_line(&["rss_overhead_bytes:-5", "rss_overhead_bytes:2"], "rss_overhead_bytes", "-3");
    }

    #[test]
    fn a_failed_save_of_one_node_is_shown() {
        let (good, bad) = ("rdb_last_bgsave_status:ok", "rdb_last_bgsave_status:err");
        assert_line(&[good, good], "rdb_last_bgsave_status", "ok");
        assert_line(&[good, bad, good], "rdb_last_bgsave_status", "err");
        assert_line(&[bad, good], "rdb_last_bgsave_status", "err");
        assert_line(&[], "rdb_last_bgsave_status", "ok");
    }

    #[test]
    fn words_that_differ_are_mixed() {
        let [lru, lfu] = ["maxmemory_policy:allkeys-lru", "maxmemory_policy:allkeys-lfu"];
        assert_line(&[lru, lru], "maxmemory_policy", "allkeys-lru");
        assert_line(&[lru, lfu, lru], "maxmemory_policy", "mixed");
        assert_line(&[], "maxmemory_policy", "noeviction");
    }

    #[test]
    fn the_largest_percentile_of_all_nodes_is_shown() {
        let survey = survey_of(&[
            "latency_percentiles_usec_get:p50=1.003,p99=9.023",
            "latency_percentiles_usec_get:p50=2.007,p99=8.031,p99.9=70.143",
        ]);
        let expected = [("p50", 2.007), ("p99", 9.023), ("p99.9", 70.143)];
        assert_eq!(survey.latencies["get"], expected.map(|(name, value)| (name.into(), value)));
    }

    #[test]
    fn keys_of_nodes_are_added_up_and_their_ttl_weighed() {
        let survey =
            survey_of(&["db0:keys=5,expires=1,avg_ttl=300", "db0:keys=7,expires=3,avg_ttl=100\r\ndb2:x"]);
        let expected = KeyCounts { keys: 12, expires: 4, avg_ttl: 150 };
        assert_eq!(survey.keyspace, BTreeMap::from([(0, expected), (2, KeyCounts::default())]));
    }

    #[test]
    fn the_figures_of_a_node_are_kept_for_its_line() {
        let mut survey = Survey::new(Wanted::of([].into_iter()), &COMBINED, 2);
        let text = "redis_version:7.0.15\r\nrole:master\r\nused_memory:5\r\ndb0:keys=2\r\ndb1:keys=3";
        let word = Word::Figures(survey.absorb_text(text));
        survey.set(ShardId(0), word);
        survey.lose(ShardId(1), "gone".to_owned());
        let shown = [0, 1].map(|shard| survey.word(ShardId(shard)).to_string());
        let figures = ",version=7.0.15,role=master,keys=5,used_memory=5,ops_per_sec=0";
        assert_eq!(shown, [figures, ",reason=gone"]);
    }
}
