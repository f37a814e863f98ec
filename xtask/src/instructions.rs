//! `cargo xtask instructions`: the instructions of each part of a request, compared with `bench/instructions.txt`.
//!
//! valgrind runs each part that `crates/proxy/benches/instructions` names. The same binary gives the same counts, even on a
//! busy machine. Another compiler or another kind of processor gives others, which are not compared. No library does it:
//! gungraun and its runner cost three minutes of processor time without earlier builds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use programs::needs;
use programs::process::{self, command, root, target_dir};

use crate::builds;

/// File of the stored counts, relative to the root.
const BASELINE_PATH: &str = "bench/instructions.txt";

/// Per mille that a count may be above the stored one. Two builds of the same source have equal counts. The tolerance is for
/// unrelated changes that move the compiler's choices of inlining by a few per cent (without LTO: 5).
const TOLERANCE_PER_MILLE: u64 = 30;

/// Options of `cargo xtask instructions`.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Storage of the new counts
    #[arg(long)]
    bless: bool,
}

/// Counts by name, and the conditions for which they are valid.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Compiler and kind of machine.
    made_with: String,
    counts: BTreeMap<String, u64>,
}

/// Counts and compares. Returns a line for each remark that is no failure.
pub(crate) fn run(options: &Options) -> Result<Vec<String>> {
    let made_with = compiler(&process::read(command("rustc").arg("-vV"))?)?;
    let path = root().join(BASELINE_PATH);
    if options.bless {
        let counted = Counts { made_with, counts: count()? };
        // Stored counts are only compared if the file is readable.
        let stored = std::fs::read_to_string(&path).ok().and_then(|text| Counts::parse(&text).ok());
        print!("{}", table(&stored.unwrap_or_default(), &counted));
        std::fs::write(path, counted.to_text())?;
        return Ok(Vec::new());
    }
    let stored = std::fs::read_to_string(path).context(BASELINE_PATH)?;
    let stored = Counts::parse(&stored).context(BASELINE_PATH)?;
    if stored.made_with != made_with {
        let of = &stored.made_with;
        let note = format!("instructions: not counted: {BASELINE_PATH} is of {of}, this is {made_with}");
        println!("{note}");
        return Ok(vec![note]);
    }
    let counted = Counts { made_with, counts: count()? };
    print!("{}", table(&stored, &counted));
    let notes = judge(&stored, &counted)?;
    notes.iter().for_each(|note| println!("{note}"));
    Ok(notes)
}

/// Counts everything once.
fn count() -> Result<BTreeMap<String, u64>> {
    needs::install(&[needs::VALGRIND])?;
    let program = builds::benchmark("proxy", "instructions")?;
    let names = process::read(&mut command(&program))?;
    std::fs::create_dir_all(profiles())?;
    names.lines().map(|name| Ok((name.to_owned(), count_part(&program, name)?))).collect()
}

/// The folder of callgrind's profiles.
fn profiles() -> PathBuf {
    target_dir().join("instructions")
}

/// Counts the part `name` of the benchmark `program`.
fn count_part(program: &Path, name: &str) -> Result<u64> {
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(profiles().join(name).with_added_extension("out"));
    let mut valgrind = command("valgrind");
    // Instructions count from where a function of this name begins to where it returns.
    valgrind.args(["--tool=callgrind", "--toggle-collect=*::counted*"]).arg(out).arg(program).arg(name);
    collected(&process::complaints(&mut valgrind)?).with_context(|| format!("callgrind on {name}"))
}

/// The count in callgrind's output.
fn collected(said: &str) -> Result<u64> {
    let count = said.lines().find_map(|line| line.split_once("Collected :"));
    let count = count.context("it tells no count")?.1.trim().parse()?;
    ensure!(count > 0, "it counted nothing");
    Ok(count)
}

/// Release and target in the output of `rustc -vV`.
fn compiler(version: &str) -> Result<String> {
    let field = |name: &str| {
        let found = version.lines().find_map(|line| line.strip_prefix(name));
        found.with_context(|| format!("rustc -vV tells no {name}"))
    };
    Ok(format!("rustc {} for {}", field("release: ")?, field("host: ")?))
}

/// A count that is too high, or not comparable, is an error; one that became lower is a note.
fn judge(stored: &Counts, counted: &Counts) -> Result<Vec<String>> {
    let names = |verdict: Verdict| -> Vec<&str> {
        let rows = rows(stored, counted).into_iter();
        rows.filter(|row| row.verdict == verdict).map(|row| row.name).collect()
    };
    let (dearer, strange) = (names(Verdict::Dearer), names(Verdict::Strange));
    ensure!(
        dearer.is_empty(),
        "more instructions than {BASELINE_PATH} allows: {}; make them fewer, or, if they are worth it, say in the commit \
         why and run `cargo xtask instructions --bless`",
        dearer.join(", ")
    );
    ensure!(
        strange.is_empty(),
        "only measured or only stored: {}; run `cargo xtask instructions --bless`",
        strange.join(", ")
    );
    let cheaper = names(Verdict::Cheaper);
    let note = format!(
        "instructions: fewer than stored: {}; keep it so with `cargo xtask instructions --bless`",
        cheaper.join(", ")
    );
    Ok(if cheaper.is_empty() { Vec::new() } else { vec![note] })
}

/// Result of comparing a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Dearer,
    Cheaper,
    /// The count has no counterpart.
    Strange,
}

struct Row<'a> {
    name: &'a str,
    stored: Option<u64>,
    counted: Option<u64>,
    verdict: Verdict,
}

fn rows<'a>(stored: &'a Counts, counted: &'a Counts) -> Vec<Row<'a>> {
    let only_stored = stored.counts.keys().filter(|name| !counted.counts.contains_key(*name));
    let row = |name: &'a String| {
        let (stored, counted) = (stored.counts.get(name).copied(), counted.counts.get(name).copied());
        Row { name, stored, counted, verdict: verdict(stored, counted) }
    };
    counted.counts.keys().chain(only_stored).map(row).collect()
}

fn verdict(stored: Option<u64>, counted: Option<u64>) -> Verdict {
    let (Some(stored), Some(counted)) = (stored, counted) else { return Verdict::Strange };
    let slack = stored * TOLERANCE_PER_MILLE / 1000;
    match counted {
        _ if counted > stored + slack => Verdict::Dearer,
        _ if counted + slack < stored => Verdict::Cheaper,
        _ => Verdict::Same,
    }
}

/// All counts beside the stored ones.
fn table(stored: &Counts, counted: &Counts) -> String {
    let mut text = format!("{:<30} {:>9} {:>9}\n", "instructions", "stored", "now");
    let number = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
    for Row { name, stored, counted, verdict } in rows(stored, counted) {
        let change = match (stored, counted) {
            (Some(stored), Some(counted)) => {
                format!("{:+.1} %", (counted as f64 / stored as f64 - 1.0) * 100.0)
            }
            _ => String::new(),
        };
        let mark = match verdict {
            Verdict::Same => "",
            Verdict::Dearer => "  DEARER",
            Verdict::Cheaper => "  cheaper",
            Verdict::Strange => "  nothing to compare with",
        };
        let (stored, counted) = (number(stored), number(counted));
        let _ = writeln!(text, "{name:<30} {stored:>9} {counted:>9} {change:>9}{mark}");
    }
    text
}

/// Beginning of the file's line with the conditions.
const MADE_WITH: &str = "made with ";

impl Counts {
    /// Reads what [`Counts::to_text`] wrote.
    fn parse(text: &str) -> Result<Counts> {
        let mut parsed = Counts::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            match line.strip_prefix(MADE_WITH) {
                Some(made_with) => parsed.made_with = made_with.into(),
                None => {
                    let (name, count) = line.split_once(' ').context("a line without a count")?;
                    let count = count.trim().parse().with_context(|| format!("the count of {name}"))?;
                    ensure!(parsed.counts.insert(name.into(), count).is_none(), "{name} stands there twice");
                }
            }
        }
        ensure!(!parsed.made_with.is_empty(), "no line says what the counts were made with");
        Ok(parsed)
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "# Instructions of each part of a request. `cargo xtask instructions --bless` writes this file.\n\
             {MADE_WITH}{}\n",
            self.made_with
        );
        for (name, count) in &self.counts {
            let _ = writeln!(text, "{name:<30} {count:>9}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> Counts {
        let counts = counts.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        Counts { made_with: "rustc 1.95.0 for x86_64-unknown-linux-gnu".into(), counts }
    }

    #[test]
    fn three_per_cent_more_pass_and_another_instruction_does_not() {
        let stored = counts(&[("whole.get", 1000)]);
        assert_eq!(judge(&stored, &counts(&[("whole.get", 1030)])).ok(), Some(Vec::new()));
        let error = judge(&stored, &counts(&[("whole.get", 1031)])).expect_err("too many").to_string();
        assert!(
            error.starts_with("more instructions than bench/instructions.txt allows: whole.get; "),
            "{error}"
        );
        assert!(table(&stored, &counts(&[("whole.get", 1031)])).ends_with("1031    +3.1 %  DEARER\n"));
    }

    #[test]
    fn a_lower_count_is_a_note_and_no_failure() {
        let (stored, counted) = (counts(&[("a", 1000), ("b", 1000)]), counts(&[("a", 969), ("b", 970)]));
        let note = "instructions: fewer than stored: a; keep it so with `cargo xtask instructions --bless`";
        assert_eq!(judge(&stored, &counted).ok(), Some(vec![note.into()]));
    }

    #[test]
    fn a_count_on_one_side_only_fails() {
        let error = judge(&counts(&[("old", 1)]), &counts(&[("new", 1)])).expect_err("nothing to compare");
        assert!(error.to_string().starts_with("only measured or only stored: new, old; "), "{error}");
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let written = counts(&[("parse_requests.get", 535), ("whole.get", 3071)]);
        assert_eq!(Counts::parse(&written.to_text()).ok(), Some(written));
        assert!(Counts::parse("made with x\na 1\na 1").is_err());
        assert!(Counts::parse("made with x\na x").is_err());
        assert!(Counts::parse("a 1").is_err());
    }

    #[test]
    fn compiler_and_machine_are_read_from_rustc() {
        let printed = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(compiler(printed).ok(), Some(counts(&[]).made_with));
        assert!(compiler("").is_err());
    }

    #[test]
    fn callgrind_is_believed_only_with_a_count() {
        let said = |count: &str| format!("==7== Events    : Ir\n==7== Collected :{count}\n==7==\n");
        assert_eq!(collected(&said(" 3479")).ok(), Some(3479));
        for count in [" 0", "", " many"] {
            assert!(collected(&said(count)).is_err(), "{count}");
        }
        assert!(collected("==7== Events    : Ir").is_err());
    }
}
