//! Exceptions to the lengths, which can only shrink: what grew is refused, what shrank must be written down.

use std::fmt;

use anyhow::{Context, Result};

use super::lengths::Measure;
use super::{Finding, RATCHET_PATH};

const HEADER: &str = "\
# Files and functions that are longer than the rules allow: name, lines, reason.
# An entry can only shrink: `cargo xtask tidy --bless` lowers it. Add none if there is another way.
";

/// The entries of xtask/ratchet.txt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ratchet {
    entries: Vec<Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    lines: usize,
    reason: String,
}

impl Ratchet {
    /// Reads `name lines reason`, one entry per line; `#` begins a comment.
    pub(super) fn parse(text: &str) -> Result<Ratchet> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let entry = |line| Entry::parse(line).with_context(|| format!("not `name lines reason`: {line}"));
        Ok(Ratchet { entries: lines.map(entry).collect::<Result<_>>()? })
    }

    /// What is too long, or not as long as its entry says.
    pub(super) fn check(&self, measures: &[Measure]) -> Vec<Finding> {
        let unknown = self.entries.iter().filter(|entry| entry.measure(measures).is_none());
        let unknown = unknown.map(|entry| {
            let text = format!("{} does not exist any more; run `cargo xtask tidy --bless`", entry.name);
            Finding::new(RATCHET_PATH, 1, text)
        });
        unknown.chain(measures.iter().filter_map(|measure| self.judge(measure))).collect()
    }

    /// Lowers entries to what they became, and drops those that are no exceptions any more.
    pub(super) fn tighten(&mut self, measures: &[Measure]) {
        self.entries.retain_mut(|entry| {
            let Some(measure) = entry.measure(measures) else { return false };
            entry.lines = entry.lines.min(measure.lines);
            measure.lines > measure.lines_max
        });
    }

    fn judge(&self, measure: &Measure) -> Option<Finding> {
        let Measure { name, lines, lines_max, .. } = measure;
        let entry = self.entries.iter().find(|entry| entry.name == *name);
        let text = match entry.map(|entry| entry.lines) {
            None if lines > lines_max => {
                format!("{name} has {lines} lines, of at most {lines_max}; take it apart along its ideas")
            }
            Some(allowed) if *lines > allowed => {
                format!("{name} grew from {allowed} to {lines} lines, and is too long already; take it apart")
            }
            Some(allowed) if *lines < allowed => {
                format!(
                    "{name} shrank from {allowed} to {lines} lines; keep that by `cargo xtask tidy --bless`"
                )
            }
            _ => return None,
        };
        Some(Finding::new(&measure.path, measure.line, text))
    }
}

impl Entry {
    fn parse(line: &str) -> Option<Entry> {
        let mut words = line.splitn(3, ' ');
        let (name, lines, reason) = (words.next()?, words.next()?, words.next()?);
        Some(Entry { name: name.into(), lines: lines.parse().ok()?, reason: reason.into() })
    }

    fn measure<'a>(&self, measures: &'a [Measure]) -> Option<&'a Measure> {
        measures.iter().find(|measure| measure.name == self.name)
    }
}

impl fmt::Display for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        self.entries
            .iter()
            .try_for_each(|entry| writeln!(f, "{} {} {}", entry.name, entry.lines, entry.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function `a.rs::f` of `lines` lines, of at most 100.
    fn function(lines: usize) -> Measure {
        Measure { name: "a.rs::f".into(), path: "a.rs".into(), line: 7, lines, lines_max: 100 }
    }

    fn ratchet(text: &str) -> Ratchet {
        Ratchet::parse(text).expect("well formed")
    }

    fn texts(ratchet: &Ratchet, measures: &[Measure]) -> Vec<String> {
        ratchet.check(measures).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn without_an_entry_the_rule_holds() {
        assert_eq!(texts(&ratchet(""), &[function(100)]), [""; 0]);
        let expected = "a.rs:7: a.rs::f has 101 lines, of at most 100; take it apart along its ideas";
        assert_eq!(texts(&ratchet(""), &[function(101)]), [expected]);
    }

    #[test]
    fn an_entry_can_neither_grow_nor_be_out_of_date() {
        let ratchet = ratchet("# comment\n\na.rs::f 120 one table\n");
        assert_eq!(texts(&ratchet, &[function(120)]), [""; 0]);
        let grew = "a.rs:7: a.rs::f grew from 120 to 121 lines, and is too long already; take it apart";
        assert_eq!(texts(&ratchet, &[function(121)]), [grew]);
        let shrank = "a.rs:7: a.rs::f shrank from 120 to 110 lines; keep that by `cargo xtask tidy --bless`";
        assert_eq!(texts(&ratchet, &[function(110)]), [shrank]);
        let gone = "xtask/ratchet.txt:1: a.rs::f does not exist any more; run `cargo xtask tidy --bless`";
        assert_eq!(texts(&ratchet, &[]), [gone]);
    }

    #[test]
    fn tightening_lowers_and_drops_and_never_raises() {
        let after = |lines: usize| {
            let mut ratchet = ratchet("a.rs::f 120 one table");
            ratchet.tighten(&[function(lines)]);
            ratchet.to_string().replace(HEADER, "")
        };
        assert_eq!(after(110), "a.rs::f 110 one table\n");
        assert_eq!(after(130), "a.rs::f 120 one table\n");
        assert_eq!(after(100), "");
    }

    #[test]
    fn an_entry_needs_a_reason() {
        assert!(Ratchet::parse("a.rs::f 120").is_err());
        assert!(Ratchet::parse("a.rs::f many lines").is_err());
    }
}
