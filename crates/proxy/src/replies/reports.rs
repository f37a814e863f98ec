//! Merges of reports: nodes' replies about themselves, from all shards. People and monitoring ask for them, and not
//! thousands of times a second. So replies are kept until the last one is here. Replies and result have the client's
//! protocol.

use crate::link::profile::Profile;
use command::Report;
use resp::encode;
use resp::integer::parse_i64;
use resp::reply::{as_bulk, as_integer, elements, is_null};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;

/// The replies so far.
#[derive(Debug)]
pub(crate) struct Reports {
    report: Report,
    /// The limit of entries in the result.
    count_max: usize,
    /// Replies by part; empty until the shard has answered.
    replies: Vec<Vec<u8>>,
    /// The names of the shards, by part.
    names: Vec<String>,
}

/// The number of entries that SLOWLOG GET returns without a number.
const SLOWLOG_COUNT_DEFAULT: usize = 10;

impl Reports {
    /// Reports of `parts` parts. `count` is the argument with the number of entries, if the request has one.
    pub(crate) fn new(report: Report, parts: usize, count: Option<&[u8]>) -> Reports {
        let count_max = match count.map(parse_i64) {
            _ if report != Report::SlowlogEntries => usize::MAX,
            None => SLOWLOG_COUNT_DEFAULT,
            // -1 stands for all entries. Nodes refuse an argument that is no number.
            Some(count) => count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX),
        };
        Reports { report, count_max, replies: vec![Vec::new(); parts], names: Vec::new() }
    }

    /// Sets the names of the parts' shards.
    pub(crate) fn set_names(&mut self, names: Vec<String>) {
        self.names = names;
    }

    /// Takes the reply of `part`.
    pub(crate) fn absorb(&mut self, part: u32, reply: &[u8]) {
        self.replies[part as usize] = reply.to_vec();
    }

    /// The merged reply, in the protocol of `profile`. `None` if replies have the wrong type.
    pub(crate) fn merged(&self, profile: Profile) -> Option<Vec<u8>> {
        let resp3 = profile.resp3;
        match self.report {
            Report::SlowlogEntries => self.slowlog(),
            Report::LatencyHistory => self.latency_history(),
            Report::LatencyLatest => self.latency_latest(),
            Report::LatencyHistogram => self.latency_histogram(resp3),
            Report::MemoryStats => self.memory_stats(resp3),
            Report::Texts => self.texts(resp3),
            Report::Config => self.config(resp3),
            Report::Libraries => self.libraries(),
            Report::RunningScript => self.running_script(),
            Report::Digest => self.digest(profile.database),
        }
    }

    /// The elements of all arrays.
    fn all_elements(&self) -> Option<Vec<&[u8]>> {
        let mut all = Vec::new();
        for reply in &self.replies {
            all.extend(elements(reply)?);
        }
        Some(all)
    }

    /// Merges entries, which begin with an id and the second in which they were made.
    fn slowlog(&self) -> Option<Vec<u8>> {
        let mut entries = Vec::new();
        for entry in self.all_elements()? {
            let mut fields = elements(entry)?;
            let id = as_integer(fields.next()?)?;
            entries.push((as_integer(fields.next()?)?, id, entry));
        }
        entries.sort_by_key(|&(at, id, _)| std::cmp::Reverse((at, id)));
        entries.truncate(self.count_max);
        Some(array(entries.iter().map(|(_, _, entry)| *entry)))
    }

    fn latency_history(&self) -> Option<Vec<u8>> {
        let mut events = self.all_elements()?;
        events.sort_by_key(|event| elements(event).and_then(|mut fields| as_integer(fields.next()?)));
        Some(array(events.into_iter()))
    }

    /// Merges entries: name, second of the latest, its milliseconds, the worst milliseconds.
    fn latency_latest(&self) -> Option<Vec<u8>> {
        let mut events: Vec<(&[u8], [i64; 3])> = Vec::new();
        for event in self.all_elements()? {
            let mut fields = elements(event)?;
            let name = fields.next()?;
            let [at, latest, worst] =
                [as_integer(fields.next()?)?, as_integer(fields.next()?)?, as_integer(fields.next()?)?];
            match events.iter_mut().find(|(seen, _)| *seen == name) {
                None => events.push((name, [at, latest, worst])),
                Some((_, seen)) => {
                    if at > seen[0] {
                        (seen[0], seen[1]) = (at, latest);
                    }
                    seen[2] = seen[2].max(worst);
                }
            }
        }
        let mut out = Vec::new();
        encode::array_header(&mut out, events.len());
        for (name, numbers) in events {
            encode::array_header(&mut out, 4);
            out.extend_from_slice(name);
            numbers.into_iter().for_each(|number| encode::integer(&mut out, number));
        }
        Some(out)
    }

    /// Merges, per command, `[calls, n, histogram_usec, [bound, calls up to it, …]]`. Redis leaves out bounds without
    /// calls, so a shard's count at another shard's bound is its count at the bound before.
    fn latency_histogram(&self, resp3: bool) -> Option<Vec<u8>> {
        let commands = by_name(self.pairs()?);
        let mut out = Vec::new();
        encode::map_header(&mut out, commands.len(), resp3);
        for (name, histograms) in commands {
            let mut calls = 0;
            // The calls that each bound adds, over all shards.
            let mut added: BTreeMap<i64, i64> = BTreeMap::new();
            for histogram in histograms {
                let fields: Vec<&[u8]> = elements(histogram)?.collect();
                let [_, count, _, bounds] = fields[..] else { return None };
                calls += as_integer(count)?;
                let mut before = 0;
                for (bound, upto) in in_pairs(elements(bounds)?) {
                    let upto = as_integer(upto)?;
                    *added.entry(as_integer(bound)?).or_default() += upto - before;
                    before = upto;
                }
            }
            out.extend_from_slice(name);
            encode::map_header(&mut out, 2, resp3);
            encode::bulk(&mut out, b"calls");
            encode::integer(&mut out, calls);
            encode::bulk(&mut out, b"histogram_usec");
            encode::map_header(&mut out, added.len(), resp3);
            let mut upto = 0;
            for (bound, more) in added {
                upto += more;
                encode::integer(&mut out, bound);
                encode::integer(&mut out, upto);
            }
        }
        Some(out)
    }

    /// Names and values of all shards, one after the other.
    fn pairs(&self) -> Option<Vec<(&[u8], &[u8])>> {
        let mut pairs = Vec::new();
        for reply in &self.replies {
            pairs.extend(in_pairs(elements(reply)?));
        }
        Some(pairs)
    }

    fn memory_stats(&self, resp3: bool) -> Option<Vec<u8>> {
        let replies: Vec<&[u8]> = self.replies.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        add_stats(&replies, resp3, &mut out)?;
        Some(out)
    }

    fn texts(&self, resp3: bool) -> Option<Vec<u8>> {
        let first = self.replies.first()?;
        if self.replies.iter().all(|reply| reply == first) {
            return Some(first.clone());
        }
        let mut text = Vec::new();
        for (name, reply) in self.names.iter().zip(&self.replies) {
            text.extend_from_slice(format!("# shard {name}\n").as_bytes());
            text.extend_from_slice(as_bulk(reply)?.trim_ascii_end());
            text.push(b'\n');
        }
        let mut out = Vec::new();
        encode::verbatim(&mut out, &text, resp3);
        Some(out)
    }

    fn config(&self, resp3: bool) -> Option<Vec<u8>> {
        let parameters = by_name(self.pairs()?);
        let mut out = Vec::new();
        encode::map_header(&mut out, parameters.len(), resp3);
        for (name, values) in parameters {
            let mut different: Vec<&[u8]> = Vec::new();
            for value in values {
                if !different.contains(&value) {
                    different.push(value);
                }
            }
            out.extend_from_slice(name);
            match different[..] {
                _ if as_bulk(name).is_some_and(|name| SECRETS.contains(&name)) => encode::bulk(&mut out, b""),
                [value] => out.extend_from_slice(value),
                _ => {
                    let values: Option<Vec<&[u8]>> = different.into_iter().map(as_bulk).collect();
                    encode::bulk(&mut out, &values?.join(&b" | "[..]));
                }
            }
        }
        Some(out)
    }

    /// Merges libraries: each is a map, or an array of names and values, and begins with its name.
    fn libraries(&self) -> Option<Vec<u8>> {
        let mut libraries: Vec<(&[u8], &[u8])> = Vec::new();
        for library in self.all_elements()? {
            let name = elements(library)?.nth(1)?;
            if !libraries.iter().any(|(seen, _)| *seen == name) {
                libraries.push((name, library));
            }
        }
        Some(array(libraries.iter().map(|(_, library)| *library)))
    }

    /// Merges the running scripts: `running_script` comes first and is nil where nothing runs.
    fn running_script(&self) -> Option<Vec<u8>> {
        let runs = |reply: &&Vec<u8>| {
            elements(reply).and_then(|mut fields| fields.nth(1)).is_some_and(|script| !is_null(script))
        };
        self.replies.iter().find(runs).or(self.replies.first()).cloned()
    }

    /// Combines digests. Redis begins with a constant for each database with keys, and adds the digest of each key by
    /// XOR. So does shardis, with one constant for all shards together. The result cannot show several databases with
    /// keys: all keys count as those of the client's own database.
    fn digest(&self, database: u16) -> Option<Vec<u8>> {
        let (mut digest, mut shards_with_keys) = ([0u8; 20], 0usize);
        for reply in &self.replies {
            let digits =
                reply.strip_prefix(b"+")?.strip_suffix(b"\r\n").filter(|digits| digits.len() == 40)?;
            for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
                *byte ^= u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            }
            shards_with_keys += usize::from(digits.iter().any(|&digit| digit != b'0'));
        }
        if shards_with_keys > 0 && shards_with_keys.is_multiple_of(2) {
            let of_database: [u8; 20] = Sha1::digest(Sha1::digest(u32::from(database).to_be_bytes())).into();
            digest.iter_mut().zip(of_database).for_each(|(byte, other)| *byte ^= other);
        }
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut out = Vec::new();
        encode::simple(&mut out, digits.as_bytes());
        Some(out)
    }
}

/// Adds maps of integers, ratios (bulks or doubles) and maps alike. A name that only some shards have is kept.
fn add_stats(replies: &[&[u8]], resp3: bool, out: &mut Vec<u8>) -> Option<()> {
    let mut pairs = Vec::new();
    for reply in replies {
        pairs.extend(in_pairs(elements(reply)?));
    }
    let stats = by_name(pairs);
    encode::map_header(out, stats.len(), resp3);
    for (name, values) in stats {
        out.extend_from_slice(name);
        match values[0].first()? {
            b':' => {
                let sum =
                    values.iter().try_fold(0i64, |sum, value| Some(sum.wrapping_add(as_integer(value)?)))?;
                encode::integer(out, sum);
            }
            b'*' | b'%' => add_stats(&values, resp3, out)?,
            _ => out.extend_from_slice(
                values.into_iter().max_by(|one, other| number(one).total_cmp(&number(other)))?,
            ),
        }
    }
    Some(())
}

/// The number in a bulk or a double; a value that is no number counts as the smallest.
fn number(reply: &[u8]) -> f64 {
    let double = || reply.strip_prefix(b",")?.strip_suffix(b"\r\n");
    let text = as_bulk(reply).or_else(double).and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(f64::NEG_INFINITY)
}

/// The values of each name. Names keep the order of their first appearance.
fn by_name<'a>(pairs: Vec<(&'a [u8], &'a [u8])>) -> Vec<(&'a [u8], Vec<&'a [u8]>)> {
    let mut names: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
    for (name, value) in pairs {
        match names.iter_mut().find(|(seen, _)| *seen == name) {
            None => names.push((name, vec![value])),
            Some((_, values)) => values.push(value),
        }
    }
    names
}

fn in_pairs<'a>(mut elements: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    std::iter::from_fn(move || Some((elements.next()?, elements.next()?)))
}

fn array<'a>(entries: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    encode::array_header(&mut out, entries.len());
    entries.for_each(|entry| out.extend_from_slice(entry));
    out
}

/// Parameters with secrets: anybody who knows their values could reach the nodes without shardis.
const SECRETS: [&[u8]; 4] =
    [b"requirepass", b"masterauth", b"tls-key-file-pass", b"tls-client-key-file-pass"];

#[cfg(test)]
mod tests {
    use super::*;

    /// The merged reply of two shards; `|` stands for CR LF.
    fn merged(report: Report, one: &str, other: &str) -> String {
        merged_in(Profile::default(), report, one, other)
    }

    fn merged_in(profile: Profile, report: Report, one: &str, other: &str) -> String {
        let mut reports = Reports::new(report, 2, None);
        reports.set_names(vec!["a".into(), "b".into()]);
        reports.absorb(1, other.replace('|', "\r\n").as_bytes());
        reports.absorb(0, one.replace('|', "\r\n").as_bytes());
        let reply = reports.merged(profile).unwrap_or_else(|| b"none".to_vec());
        String::from_utf8(reply).expect("text").replace("\r\n", "|")
    }

    #[test]
    fn the_newest_slow_requests_of_all_shards_come_first() {
        let entry = |id, at| format!("*6|:{id}|:{at}|:9|*1|$4|ping|$1|c|$0||");
        let one = format!("*2|{}{}", entry(1, 30), entry(0, 10));
        let other = format!("*1|{}", entry(0, 20));
        let expected = format!("*3|{}{}{}", entry(1, 30), entry(0, 20), entry(0, 10));
        assert_eq!(merged(Report::SlowlogEntries, &one, &other), expected);
        let many: String = (0..9).map(|id| entry(id, id)).collect();
        let ten = merged(Report::SlowlogEntries, &format!("*9|{many}"), &format!("*9|{many}"));
        assert!(ten.starts_with("*10|*6|:8|:8|"), "{ten}");
    }

    #[test]
    fn latencies_are_merged_by_event_and_time() {
        let history = merged(Report::LatencyHistory, "*2|*2|:5|:1|*2|:9|:2|", "*1|*2|:7|:3|");
        assert_eq!(history, "*3|*2|:5|:1|*2|:7|:3|*2|:9|:2|");
        let latest = merged(
            Report::LatencyLatest,
            "*1|*4|$7|command|:5|:10|:90|",
            "*2|*4|$7|command|:6|:20|:30|*4|$4|fork|:1|:1|:1|",
        );
        assert_eq!(latest, "*2|*4|$7|command|:6|:20|:90|*4|$4|fork|:1|:1|:1|");
    }

    #[test]
    fn histograms_add_up_bound_by_bound() {
        let one = "*2|$3|get|*4|$5|calls|:5|$14|histogram_usec|*4|:1|:2|:4|:5|";
        let other = "*2|$3|get|*4|$5|calls|:3|$14|histogram_usec|*4|:2|:1|:4|:3|";
        let both = "*2|$3|get|*4|$5|calls|:8|$14|histogram_usec|*6|:1|:2|:2|:3|:4|:8|";
        assert_eq!(merged(Report::LatencyHistogram, one, other), both);
    }

    #[test]
    fn memory_is_summed_and_of_ratios_the_largest_counts() {
        let one = "*6|$4|peak|:10|$5|ratio|$3|1.5|$4|db.0|*2|$8|overhead|:1|";
        let other = "*6|$4|peak|:20|$5|ratio|$4|12.5|$4|db.0|*2|$8|overhead|:2|";
        let both = "*6|$4|peak|:30|$5|ratio|$4|12.5|$4|db.0|*2|$8|overhead|:3|";
        assert_eq!(merged(Report::MemoryStats, one, other), both);
    }

    #[test]
    fn texts_that_differ_stand_under_their_shards_names() {
        assert_eq!(merged(Report::Texts, "$2|hi|", "$2|hi|"), "$2|hi|");
        assert_eq!(merged(Report::Texts, "$3|hi\n|", "$3|ho!|"), "$27|# shard a\nhi\n# shard b\nho!\n|");
    }

    #[test]
    fn parameters_that_differ_show_all_values() {
        let both = merged(Report::Config, "*4|$4|port|$1|1|$4|save|$0||", "*4|$4|port|$1|2|$4|save|$0||");
        assert_eq!(both, "*4|$4|port|$5|1 | 2|$4|save|$0||");
        let secret = "*2|$11|requirepass|$6|secret|";
        assert_eq!(merged(Report::Config, secret, secret), "*2|$11|requirepass|$0||");
    }

    #[test]
    fn libraries_come_once_and_a_running_script_is_found() {
        let lib = |name: &str| format!("*2|$12|library_name|${}|{name}|", name.len());
        let (a, b) = (lib("a"), lib("bb"));
        assert_eq!(
            merged(Report::Libraries, &format!("*1|{a}"), &format!("*2|{a}{b}")),
            format!("*2|{a}{b}")
        );
        let idle = "*4|$14|running_script|$-1|$7|engines|*0|";
        let busy = "*4|$14|running_script|*2|$4|name|$1|f|$7|engines|*0|";
        assert_eq!(merged(Report::RunningScript, idle, busy), busy);
        assert_eq!(merged(Report::RunningScript, idle, idle), idle);
    }

    #[test]
    fn digests_combine_by_exclusive_or() {
        let (ones, none) = ("1".repeat(40), "0".repeat(40));
        assert_eq!(merged(Report::Digest, &format!("+{ones}|"), &format!("+{none}|")), format!("+{ones}|"));
        // The constant of a database with keys is in both digests, and must be in the result once.
        let twice = merged(Report::Digest, &format!("+{ones}|"), &format!("+{ones}|"));
        assert_eq!(twice, "+aa3098f3aae94baac14e3b8b8dcae989af93f6a2|");
        assert_eq!(merged(Report::Digest, "+OK|", "+OK|"), "none");
    }

    #[test]
    fn reports_in_resp3_keep_their_types() {
        let resp3 = Profile { resp3: true, ..Profile::default() };
        let one = "%3|$4|peak|:10|$5|ratio|,1.5|$4|db.0|%1|$8|overhead|:1|";
        let other = "%3|$4|peak|:20|$5|ratio|,12.5|$4|db.0|%1|$8|overhead|:2|";
        let both = "%3|$4|peak|:30|$5|ratio|,12.5|$4|db.0|%1|$8|overhead|:3|";
        assert_eq!(merged_in(resp3, Report::MemoryStats, one, other), both);
        let one = "%1|$3|get|%2|$5|calls|:5|$14|histogram_usec|%2|:1|:2|:4|:5|";
        let other = "%1|$3|get|%2|$5|calls|:3|$14|histogram_usec|%2|:2|:1|:4|:3|";
        let both = "%1|$3|get|%2|$5|calls|:8|$14|histogram_usec|%3|:1|:2|:2|:3|:4|:8|";
        assert_eq!(merged_in(resp3, Report::LatencyHistogram, one, other), both);
        let texts = merged_in(resp3, Report::Texts, "=7|txt:hi\n|", "=7|txt:ho!|");
        assert_eq!(texts, "=31|txt:# shard a\nhi\n# shard b\nho!\n|");
        let both = merged_in(resp3, Report::Config, "%1|$4|port|$1|1|", "%1|$4|port|$1|2|");
        assert_eq!(both, "%1|$4|port|$5|1 | 2|");
        let lib = "%2|$12|library_name|$1|a|$6|engine|$3|LUA|";
        let libraries = merged_in(resp3, Report::Libraries, &format!("*1|{lib}"), &format!("*1|{lib}"));
        assert_eq!(libraries, format!("*1|{lib}"));
        let idle = "%2|$14|running_script|_|$7|engines|%0|";
        let busy = "%2|$14|running_script|%1|$4|name|$1|f|$7|engines|%0|";
        assert_eq!(merged_in(resp3, Report::RunningScript, idle, busy), busy);
    }
}
