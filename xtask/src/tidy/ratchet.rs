//! Exceptions to the sizes, which can only shrink: growth is refused, and shrinking must be recorded.

use std::fmt;

use anyhow::{Context, Result};

use super::measure::{Measure, Unit};
use super::{Finding, RATCHET_PATH};

const HEADER: &str = "\
# What is larger than the rules allow: name, unit, amount, reason. `cargo xtask tidy` prints the rules.
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
    unit: Unit,
    amount: usize,
    reason: String,
}

impl Ratchet {
    /// Reads `name unit amount reason`, one entry per line; `#` begins a comment.
    pub(super) fn parse(text: &str) -> Result<Ratchet> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let entry =
            |line| Entry::parse(line).with_context(|| format!("not `name unit amount reason`: {line}"));
        Ok(Ratchet { entries: lines.map(entry).collect::<Result<_>>()? })
    }

    /// Finds sizes above their bound, and entries that differ from the measured size.
    pub(super) fn check(&self, measures: &[Measure]) -> Vec<Finding> {
        let unknown = self.entries.iter().filter(|entry| entry.measure(measures).is_none());
        let unknown = unknown.map(|entry| {
            let text = format!("{} does not exist any more; run `cargo xtask tidy --bless`", entry.name);
            Finding::new(RATCHET_PATH, 1, text)
        });
        unknown.chain(measures.iter().filter_map(|measure| self.judge(measure))).collect()
    }

    /// Lowers entries to the measured sizes, and drops those that are no exceptions any more.
    pub(super) fn tighten(&mut self, measures: &[Measure]) {
        self.entries.retain_mut(|entry| {
            let Some(measure) = entry.measure(measures) else { return false };
            entry.amount = entry.amount.min(measure.amount);
            measure.amount > measure.unit.max()
        });
    }

    fn judge(&self, measure: &Measure) -> Option<Finding> {
        let Measure { name, unit, amount, .. } = measure;
        let entry = self.entries.iter().find(|entry| entry.is_of(measure));
        let text = match entry.map(|entry| entry.amount) {
            None if *amount > unit.max() => {
                format!("{name} has {amount} {unit}, of at most {}; {}", unit.max(), unit.advice())
            }
            Some(allowed) if *amount > allowed => {
                format!("{name} grew from {allowed} to {amount} {unit}, too many already; {}", unit.advice())
            }
            Some(allowed) if *amount < allowed => {
                format!(
                    "{name} shrank from {allowed} to {amount} {unit}; keep that by `cargo xtask tidy --bless`"
                )
            }
            _ => return None,
        };
        Some(Finding::new(&measure.path, measure.line, text))
    }
}

impl Entry {
    fn parse(line: &str) -> Option<Entry> {
        let mut words = line.splitn(4, ' ');
        let (name, unit) = (words.next()?.into(), Unit::named(words.next()?)?);
        Some(Entry { name, unit, amount: words.next()?.parse().ok()?, reason: words.next()?.into() })
    }

    fn measure<'a>(&self, measures: &'a [Measure]) -> Option<&'a Measure> {
        measures.iter().find(|measure| self.is_of(measure))
    }

    fn is_of(&self, measure: &Measure) -> bool {
        self.name == measure.name && self.unit == measure.unit
    }
}

impl fmt::Display for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        self.entries.iter().try_for_each(|entry| {
            writeln!(f, "{} {} {} {}", entry.name, entry.unit, entry.amount, entry.reason)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function `a.rs::f` of `lines` lines, of at most 100.
    fn function(lines: usize) -> Measure {
        Measure {
            name: "a.rs::f".into(),
            path: "a.rs".into(),
            line: 7,
            unit: Unit::FunctionLines,
            amount: lines,
        }
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
        let ratchet = ratchet("# comment\n\na.rs::f lines 120 one table\n");
        assert_eq!(texts(&ratchet, &[function(120)]), [""; 0]);
        let grew =
            "a.rs:7: a.rs::f grew from 120 to 121 lines, too many already; take it apart along its ideas";
        assert_eq!(texts(&ratchet, &[function(121)]), [grew]);
        let shrank = "a.rs:7: a.rs::f shrank from 120 to 110 lines; keep that by `cargo xtask tidy --bless`";
        assert_eq!(texts(&ratchet, &[function(110)]), [shrank]);
        let gone = "xtask/ratchet.txt:1: a.rs::f does not exist any more; run `cargo xtask tidy --bless`";
        assert_eq!(texts(&ratchet, &[]), [gone]);
    }

    #[test]
    fn tightening_lowers_and_drops_and_never_raises() {
        let after = |lines: usize| {
            let mut ratchet = ratchet("a.rs::f lines 120 one table");
            ratchet.tighten(&[function(lines)]);
            ratchet.to_string().replace(HEADER, "")
        };
        assert_eq!(after(110), "a.rs::f lines 110 one table\n");
        assert_eq!(after(130), "a.rs::f lines 120 one table\n");
        assert_eq!(after(100), "");
    }

    #[test]
    fn an_entry_needs_a_reason() {
        assert!(Ratchet::parse("a.rs::f lines 120").is_err());
        assert!(Ratchet::parse("a.rs::f 120 lines long").is_err());
    }
}
