//! The survey as text with bars and as JSON.

use crate::layout::Layout;
use crate::survey::{Load, Survey, generated_keys};
use serde::Serialize;
use std::fmt::Write;

/// Columns of the longest bar.
const BAR_COLUMNS: f64 = 30.0;
/// Moves that the text shows; JSON has all.
const MOVES_SHOWN: usize = 30;

/// Origin of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Made at random.
    Generated,
    /// Given by the user.
    List,
    /// Found at the nodes.
    Scan,
}

/// The counts, ready to be shown.
#[derive(Debug, Serialize)]
pub struct Report {
    source: Source,
    /// Keys that were looked at.
    seen: u64,
    /// Keys that these stand for.
    keys: f64,
    /// Their size, if it is known.
    bytes: Option<f64>,
    #[serde(flatten)]
    now: Side,
    /// Keys of nodes that do not own them.
    misplaced: f64,
    to: Option<Target>,
}

/// A layout and its nodes.
#[derive(Debug, Serialize)]
struct Side {
    layout: String,
    nodes: Vec<Row>,
    /// The largest and the smallest share, and the standard deviation, as parts of the mean.
    largest: f64,
    smallest: f64,
    deviation: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    node: String,
    theory: f64,
    keys: f64,
    share: f64,
    bytes: Option<f64>,
}

/// The other layout, and the moves to it.
#[derive(Debug, Serialize)]
struct Target {
    #[serde(flatten)]
    side: Side,
    /// The share of generated keys that would move.
    expected: f64,
    share: f64,
    keys: f64,
    bytes: Option<f64>,
    moves: Vec<Move>,
}

#[derive(Debug, Serialize)]
struct Move {
    from: String,
    to: String,
    keys: f64,
    share: f64,
    bytes: Option<f64>,
}

impl Report {
    /// The report of `survey`, whose keys come from `source`.
    pub fn new(survey: &Survey, source: Source) -> Report {
        let (total, has_bytes) = (survey.total(), survey.has_bytes());
        Report {
            source,
            seen: survey.seen(),
            keys: total.keys,
            bytes: has_bytes.then_some(total.bytes),
            now: Side::new(survey.now(), &survey.by_owner(), has_bytes),
            misplaced: survey.misplaced(),
            to: survey.then().map(|then| Target::new(survey, then)),
        }
    }

    /// The report for programs, in one line.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let source = match self.source {
            Source::Generated => format!("{} generated keys", count(self.keys)),
            Source::List => format!("{} given keys", count(self.keys)),
            Source::Scan => format!("{} of {} keys of the nodes", count(self.seen as f64), count(self.keys)),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{}: {source}\n", self.now.layout);
        self.now.write(&mut text);
        if self.misplaced > 0.0 {
            let _ = writeln!(
                text,
                "\n{} keys ({}) are at a node that does not own them: shardis doctor says which layout fits",
                count(self.misplaced),
                percent(self.misplaced / self.keys)
            );
        }
        if let Some(to) = &self.to {
            to.write(&mut text);
        }
        text
    }
}

impl Side {
    fn new(layout: &Layout, loads: &[Load], has_bytes: bool) -> Side {
        let total: f64 = loads.iter().map(|load| load.keys).sum();
        let rows = layout.nodes().iter().zip(layout.theory()).zip(loads);
        let nodes: Vec<Row> = rows
            .map(|((node, theory), load)| Row {
                node: node.clone(),
                theory,
                keys: load.keys,
                share: share(load.keys, total),
                bytes: has_bytes.then_some(load.bytes),
            })
            .collect();
        let parts: Vec<f64> = nodes.iter().map(|row| row.share * nodes.len() as f64).collect();
        let variance = parts.iter().map(|part| (part - 1.0).powi(2)).sum::<f64>() / parts.len() as f64;
        Side {
            layout: layout.describe(),
            largest: parts.iter().copied().fold(0.0, f64::max),
            smallest: parts.iter().copied().fold(f64::INFINITY, f64::min),
            deviation: variance.sqrt(),
            nodes,
        }
    }

    fn write(&self, text: &mut String) {
        let has_bytes = self.nodes.iter().any(|row| row.bytes.is_some());
        let width = self.nodes.iter().map(|row| row.node.chars().count()).max().unwrap_or_default().max(4);
        let bytes = if has_bytes { "      bytes" } else { "" };
        let _ = writeln!(text, "{:width$}  theory        keys{bytes}   share", "node");
        let longest = self.nodes.iter().map(|row| row.share).fold(f64::MIN_POSITIVE, f64::max);
        for row in &self.nodes {
            let bytes = row.bytes.map(|bytes| format!("{:>11}", size(bytes))).unwrap_or_default();
            let bar = "█".repeat((row.share / longest * BAR_COLUMNS).round() as usize);
            let line = format!(
                "{:width$} {:>7} {:>11}{bytes} {:>7}  {bar}",
                row.node,
                percent(row.theory),
                count(row.keys),
                percent(row.share)
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let _ = writeln!(
            text,
            "largest {:.2}, smallest {:.2} of the mean; standard deviation {}",
            self.largest,
            self.smallest,
            percent(self.deviation)
        );
    }
}

impl Target {
    fn new(survey: &Survey, then: &Layout) -> Target {
        let (total, has_bytes) = (survey.total(), survey.has_bytes());
        let mut sum = Load::default();
        let moves = survey.moves().into_iter().map(|(from, to, load)| {
            sum.add(load);
            Move {
                from: from.to_owned(),
                to: to.to_owned(),
                keys: load.keys,
                share: share(load.keys, total.keys),
                bytes: has_bytes.then_some(load.bytes),
            }
        });
        let moves = moves.collect();
        Target {
            side: Side::new(then, &survey.by_heir(then), has_bytes),
            expected: expected(survey),
            share: share(sum.keys, total.keys),
            keys: sum.keys,
            bytes: has_bytes.then_some(sum.bytes),
            moves,
        }
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\nto {}\n", self.side.layout);
        self.side.write(text);
        let bytes = self.bytes.map(|bytes| format!(", {}", size(bytes))).unwrap_or_default();
        let _ = writeln!(
            text,
            "\n{} of the keys would move: {} keys{bytes} ({} of {} generated keys)",
            percent(self.share),
            count(self.keys),
            percent(self.expected),
            count(crate::GENERATED_KEYS as f64)
        );
        let shown = &self.moves[..self.moves.len().min(MOVES_SHOWN)];
        let width = |name: fn(&Move) -> &String| {
            shown.iter().map(|step| name(step).chars().count()).max().unwrap_or_default()
        };
        let (from, to) = (width(|step| &step.from), width(|step| &step.to));
        for step in shown {
            let bytes = step.bytes.map(|bytes| format!("{:>11}", size(bytes))).unwrap_or_default();
            let _ = writeln!(
                text,
                "  {:from$} → {:to$} {:>11}{bytes} {:>7}",
                step.from,
                step.to,
                count(step.keys),
                percent(step.share)
            );
        }
        if self.moves.len() > shown.len() {
            let _ = writeln!(text, "  and {} more pairs of nodes (--json)", self.moves.len() - shown.len());
        }
    }
}

/// The share of generated keys that would move.
fn expected(survey: &Survey) -> f64 {
    let mut generated = survey.emptied();
    generated_keys().for_each(|key| generated.add(&key));
    let moved: f64 = generated.moves().iter().map(|(_, _, load)| load.keys).sum();
    share(moved, generated.total().keys)
}

fn share(part: f64, total: f64) -> f64 {
    if total > 0.0 { part / total } else { 0.0 }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A whole number with a comma between thousands.
fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest unit that leaves a digit before the point.
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut left, mut unit) = (bytes, 0);
    while left >= 1024.0 && unit + 1 < units.len() {
        (left, unit) = (left / 1024.0, unit + 1);
    }
    match unit {
        0 => format!("{left:.0} B"),
        _ => format!("{left:.1} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tests::layout;
    use std::sync::Arc;
    use topology::{Distribution, ShardId};

    #[test]
    fn numbers_are_written_for_people() {
        let counts = [0.0, 999.0, 1000.4, 1_234_567.0].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 1023.0, 1536.0, 5e9].map(size), ["0 B", "1023 B", "1.5 KiB", "4.7 GiB"]);
        assert_eq!(percent(0.12345), "12.3 %");
    }

    #[test]
    fn a_report_without_keys_divides_nothing_by_zero() {
        let now = layout("a:1,b:1", Distribution::Modulo);
        let report = Report::new(&Survey::new(Arc::clone(&now), Some(now)), Source::List);
        assert!(!report.text().contains("NaN") && !report.text().contains("inf"), "{}", report.text());
        assert!(report.json().is_ok_and(|json| !json.contains("null,\"misplaced")));
    }

    #[test]
    fn a_report_shows_misplaced_keys_and_sizes() {
        let now = layout("a:1,b:1", Distribution::Slots);
        let mut survey = Survey::new(Arc::clone(&now), None);
        for key in generated_keys().take(10) {
            survey.add_found(ShardId(0), &key, Some(512));
        }
        let text = Report::new(&survey, Source::Scan).text();
        let expected = "\
2 nodes by slots, crc16-redis, tag rule redis: 10 of 10 keys of the nodes

node  theory        keys      bytes   share
a:1   50.0 %          10    5.0 KiB 100.0 %  ██████████████████████████████
b:1   50.0 %           0        0 B   0.0 %
largest 2.00, smallest 0.00 of the mean; standard deviation 100.0 %
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("are at a node that does not own them"), "{text}");
    }
}
