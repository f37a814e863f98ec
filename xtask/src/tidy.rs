//! `cargo xtask tidy`: rules of the project that no compiler checks. Each check is a module that takes the files and gives
//! findings; this one runs them all.
//!
//! Formatting, lints and types are cargo's business. Tests beside the generators check that the generated pages are up to date.

mod circles;
mod dependencies;
mod forbidden;
mod help;
mod lengths;
mod links;
mod log_lines;
mod log_page;
mod map;
mod measure;
mod messages;
mod permissions;
mod ratchet;
mod sentences;
mod shape;
mod source;
mod tree;
mod walk;
mod words;

use std::fmt;

use anyhow::{Context, Result, ensure};
use programs::process::root;

use measure::{Measure, Unit};
use ratchet::Ratchet;
use source::Source;
use tree::Tree;
use words::{GLOSSARY_PATH, Glossary};

/// The exceptions to the sizes, relative to the root.
const RATCHET_PATH: &str = "xtask/ratchet.txt";

/// Options of `cargo xtask tidy`.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// New entries in xtask/ratchet.txt, where the code became better, and the names in docs/log.md
    #[arg(long)]
    bless: bool,
}

/// A fault at one place, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    text: String,
}

impl Finding {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Runs all checks on the repository.
pub(crate) fn run(options: &Options) -> Result<()> {
    let tree = Tree::read(root())?;
    let (sources, mut findings) = parse(&tree);
    let mut measures: Vec<Measure> = sources.iter().flat_map(lengths::measure).collect();
    measures.extend(shape::measure(&sources));
    measures.extend(circles::measure(&sources));
    let mut ratchet = Ratchet::parse(tree.text(RATCHET_PATH).unwrap_or_default()).context(RATCHET_PATH)?;
    if options.bless {
        ratchet.tighten(&measures);
        std::fs::write(root().join(RATCHET_PATH), ratchet.to_string())?;
        let page = log_page::fresh(tree.text(log_page::PAGE_PATH).unwrap_or_default(), &sources);
        page.map_or(Ok(()), |page| std::fs::write(root().join(log_page::PAGE_PATH), page))?;
    } else {
        findings.extend(log_page::check_page(&tree, &sources));
    }
    findings.extend(log_page::check(&sources));
    findings.extend(ratchet.check(&measures));
    let glossary = Glossary::parse(tree.text(GLOSSARY_PATH).context(GLOSSARY_PATH)?);
    for source in &sources {
        let suspicions = forbidden::check(source).into_iter().chain(glossary.check(source)).collect();
        findings.extend(permissions::apply(source, suspicions));
        findings.extend(help::check(source));
        findings.extend(words::long_names(source));
        findings.extend(sentences::check(source));
        findings.extend(log_lines::check(source));
        findings.extend(messages::check(source));
    }
    findings.extend(walk::check(&tree));
    findings.extend(map::check(&tree));
    findings.extend(links::check(&tree));
    findings.extend(dependencies::check(&tree));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {}", lengths::distribution(&measures));
    for unit in [Unit::Fields, Unit::Bools, Unit::Methods, Unit::Circle] {
        println!("tidy: {}", measure::largest(&measures, unit));
    }
    ensure!(findings.is_empty(), "tidy found {} things", findings.len());
    Ok(())
}

/// All Rust files, and a finding for each that does not parse.
fn parse(tree: &Tree) -> (Vec<Source<'_>>, Vec<Finding>) {
    let (mut sources, mut findings) = (Vec::new(), Vec::new());
    for (path, text) in tree.with_extension("rs") {
        match Source::parse(path, text) {
            Ok(source) => sources.push(source),
            Err(error) => findings.push(Finding::new(path, 1, format!("does not parse: {error}"))),
        }
    }
    (sources, findings)
}
