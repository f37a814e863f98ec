//! The findings as text and as JSON.

use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use serde::Serialize;
use std::fmt::Write;

/// The report for people: each finding with its consequence and its cure, then a summary.
pub fn text(findings: &[Finding], facts: &[Facts]) -> String {
    let mut text = String::new();
    for finding in findings {
        let node = if finding.node.is_empty() { String::new() } else { format!("{}: ", finding.node) };
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "{} [{}] {node}{}\n    effect: {}\n    cure: {}\n",
            finding.severity.name(),
            finding.check,
            finding.found,
            finding.effect,
            finding.cure
        );
    }
    let count = |severity: Severity| {
        let found = findings.iter().filter(|finding| finding.severity == severity).count();
        counted(found, severity.name())
    };
    let keys: usize = facts.iter().map(|node| node.keys.len()).sum();
    let (nodes, sentinels) = members(facts);
    let sentinels =
        if sentinels == 0 { String::new() } else { format!(" and {}", counted(sentinels, "sentinel")) };
    let _ = writeln!(
        text,
        "{}{sentinels} asked, {} sampled: {}, {}, {}",
        counted(nodes, "node"),
        counted(keys, "key"),
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Note)
    );
    text
}

/// The numbers of nodes and of sentinels.
fn members(facts: &[Facts]) -> (usize, usize) {
    let sentinels = facts.iter().filter(|facts| facts.member.is_sentinel()).count();
    (facts.len() - sentinels, sentinels)
}

fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[derive(Serialize)]
struct Report<'a> {
    nodes: usize,
    sentinels: usize,
    keys: usize,
    findings: &'a [Finding],
}

/// The report for programs, in one line.
pub fn json(findings: &[Finding], facts: &[Facts]) -> serde_json::Result<String> {
    let keys = facts.iter().map(|node| node.keys.len()).sum();
    let (nodes, sentinels) = members(facts);
    Ok(serde_json::to_string(&Report { nodes, sentinels, keys, findings })? + "\n")
}
