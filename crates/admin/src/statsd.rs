//! statsd: counts and levels over UDP, with corvus's names.
//!
//! ```text
//!   Subject ─► Facts ─► lines (names, differences) ─► datagrams ─► UDP
//!   each interval, on a thread of its own (`statsd/sender.rs`)
//! ```
//!
//! Names are corvus's where it has the same figure, so that its dashboards need another prefix only. Counters are differences
//! (`|c`), where corvus sends all figures as gauges.
//!
//! The format is a line for each figure. The library for it, cadence, sends to an address without connecting, so that it cannot
//! tell of a closed port. Its threads and queues have no use here.

mod sender;

use crate::facts::Facts;
use proxy::NodeState;
pub use sender::send_statsd;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

/// The most bytes of a datagram: what an Ethernet frame takes, as statsd's own documentation advises.
const DATAGRAM_BYTES_MAX: usize = 1432;
/// The longest prefix. A name has a node's host besides, so that a line always fits into a datagram.
pub const PREFIX_BYTES_MAX: usize = 255;
/// Bytes of a node's address that are shown.
const ADDRESS_BYTES_MAX: usize = 255;

/// Where figures go, and how often.
#[derive(Clone, Debug)]
pub struct Statsd {
    /// Host and port.
    pub target: String,
    /// The beginning of all names, without the dot behind it.
    pub prefix: String,
    /// The time from one report to the next.
    pub every: Duration,
}

/// `text` as a part of a name: corvus and statsd take a dot for a level, and a colon for the end.
pub fn name_part(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    text.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).take(ADDRESS_BYTES_MAX).collect()
}

/// The lines of one report.
#[derive(Debug)]
struct Report<'a> {
    prefix: &'a str,
    lines: Vec<String>,
    /// The counts of the report before, by name.
    before: BTreeMap<String, u64>,
    /// The counts of this one.
    counts: BTreeMap<String, u64>,
}

impl Report<'_> {
    fn gauge(&mut self, name: &str, value: impl Display) {
        self.lines.push(format!("{}.{name}:{value}|g", self.prefix));
    }

    /// Adds the difference to the last report. A count that has become smaller began anew.
    fn count(&mut self, name: &str, count: u64) {
        let before = self.before.get(name).copied().filter(|&before| before <= count).unwrap_or_default();
        self.lines.push(format!("{}.{name}:{}|c", self.prefix, count - before));
        self.counts.insert(name.to_owned(), count);
    }
}

/// The lines about `facts`. `counts` are those of the report before, and become those of this one.
fn lines(facts: &Facts, prefix: &str, counts: &mut BTreeMap<String, u64>) -> Vec<String> {
    let before = std::mem::take(counts);
    let mut report = Report { prefix, lines: Vec::new(), before, counts: BTreeMap::new() };
    let counters = &facts.counters;
    report.gauge("connected_clients", counters.clients);
    report.gauge("used_cpu_sys", facts.usage.cpu_system_us as f64 / 1e6);
    report.gauge("used_cpu_user", facts.usage.cpu_user_us as f64 / 1e6);
    report.count("completed_commands", counters.requests);
    report.count("latency", facts.tally.commands().map(|(_, row)| row.usec()).sum());
    report.count("slot_update_jobs", facts.discovered.map_or(0, |discovered| discovered.answers));
    report.count("recv_bytes", counters.client_bytes_in);
    report.count("send_bytes", counters.client_bytes_out);
    report.count("errors", facts.tally.errors_total());
    report.count("timeouts", counters.timeouts);
    report.count("redirects", counters.redirects);
    for (command, count) in &facts.slow {
        report.count(&format!("slow_query.{}", name_part(command)), *count);
    }
    for node in &facts.nodes {
        let name = |figure: &str| format!("redis-node.{}.{figure}", name_part(&node.address));
        report.gauge(&name("up"), u64::from(node.state == Some(NodeState::Up)));
        report.count(&name("bytes.send"), node.counts.bytes_out);
        report.count(&name("bytes.recv"), node.counts.bytes_in);
        report.count(&name("commands.completed"), node.counts.times.count_all());
    }
    *counts = report.counts;
    report.lines
}

/// The lines in datagrams.
fn datagrams(lines: &[String]) -> Vec<String> {
    let mut datagrams: Vec<String> = Vec::new();
    for line in lines {
        match datagrams.last_mut() {
            Some(last) if last.len() + 1 + line.len() <= DATAGRAM_BYTES_MAX => {
                // Writing to a `String` cannot fail.
                let _ = write!(last, "\n{line}");
            }
            _ => datagrams.push(line.clone()),
        }
    }
    datagrams
}

/// A table of all names, for docs/metrics.md.
pub(crate) const NAMES: &str = include_str!("statsd/names.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_differences_and_begin_anew() {
        let report = |before: u64, count: u64| {
            let before = BTreeMap::from([("a".to_owned(), before)]);
            let mut report = Report { prefix: "p.h-1", lines: Vec::new(), before, counts: BTreeMap::new() };
            report.count("a", count);
            report.count("new", count);
            report.gauge("level", 0.5);
            report.lines.join(" ")
        };
        assert_eq!(report(3, 10), "p.h-1.a:7|c p.h-1.new:10|c p.h-1.level:0.5|g");
        assert_eq!(report(10, 4), "p.h-1.a:4|c p.h-1.new:4|c p.h-1.level:0.5|g");
    }

    #[test]
    fn a_datagram_fits_into_a_frame() {
        let lines: Vec<String> =
            (0..200).map(|number| format!("prefix.figure-{number}:{number}|c")).collect();
        let datagrams = datagrams(&lines);
        assert!(datagrams.len() > 1);
        assert!(datagrams.iter().all(|datagram| datagram.len() <= DATAGRAM_BYTES_MAX));
        let all: Vec<&str> = datagrams.iter().flat_map(|datagram| datagram.split('\n')).collect();
        assert_eq!(all, lines);
    }

    #[test]
    fn an_address_is_one_part_of_a_name() {
        assert_eq!(name_part("10.0.0.1:6379"), "10-0-0-1-6379");
        assert_eq!(name_part("[::1]:7000|c\n"), "---1--7000-c-");
        assert_eq!(name_part(&"x".repeat(1000)).len(), 255);
    }
}
