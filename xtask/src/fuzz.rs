//! `cargo xtask fuzz`: every fuzz target for a short while.
//!
//! It needs no nightly toolchain: RUSTC_BOOTSTRAP lets the stable compiler take the one flag that is not stable,
//! `-Zsanitizer`. To do without AddressSanitizer does not work, although nothing that is fuzzed is `unsafe`: its hooks
//! show libFuzzer what slices are compared with. `assert!(!input.starts_with(b"*9$xy"))` was refuted after 358 inputs
//! with it, and not after 65 million without. Debug assertions and overflow checks are on.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::{self, command, root};
use crate::{needs, tools};

/// It does nothing but call cargo and the targets: unoptimised, it is built in half of the time, once.
const CARGO_FUZZ_VERSION: &str = "0.13.2";

/// How long to look.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds per target
    #[arg(long, default_value_t = 20)]
    pub(crate) seconds: u32,
}

/// Runs every target; the first finding ends it, with the input that repeats it.
pub(crate) fn run(options: &Options) -> Result<()> {
    needs::install(&[needs::CXX])?;
    let cargo_fuzz = tools::install("cargo-fuzz", CARGO_FUZZ_VERSION, "dev")?;
    let targets = process::read(command(&cargo_fuzz).arg("list"))?;
    ensure!(!targets.trim().is_empty(), "fuzz/Cargo.toml has no targets");
    let mut build = command(&cargo_fuzz);
    process::complaints(build.env("RUSTC_BOOTSTRAP", "1").args(["build", "--sanitizer", "address"]))?;
    // A target uses one core.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let targets: Vec<&str> = targets.lines().collect();
    targets.chunks(cores).try_for_each(|targets| run_side_by_side(&cargo_fuzz, targets, options.seconds))
}

fn run_side_by_side(cargo_fuzz: &Path, targets: &[&str], seconds: u32) -> Result<()> {
    let run = |target| move || run_target(cargo_fuzz, target, seconds);
    std::thread::scope(|scope| {
        let running: Vec<_> = targets.iter().map(|target| scope.spawn(run(target))).collect();
        let ended = running.into_iter().map(|target| target.join().expect("no target's thread panics"));
        // All of them are awaited: none may run on when the first error is told.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Fuzzes `target`. What it learns goes to fuzz/corpus, which is not committed; inputs that are worth keeping are
/// committed in fuzz/seeds.
fn run_target(cargo_fuzz: &Path, target: &str, seconds: u32) -> Result<()> {
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
    std::fs::create_dir_all(root().join(&corpus))?;
    let mut command = command(cargo_fuzz);
    command.env("RUSTC_BOOTSTRAP", "1").args(["run", "--sanitizer", "address", target, &corpus]);
    if root().join(&seeds).is_dir() {
        command.arg(&seeds);
    }
    // One input may take a minute (it takes milliseconds, but a machine may be slow), and all of it a gigabyte, of which
    // AddressSanitizer keeps a quarter: what needs more is a finding.
    command.args(["--", &format!("-max_total_time={seconds}"), "-timeout=60", "-rss_limit_mb=1024"]);
    command.args(["-verbosity=0", "-print_final_stats=1"]);
    let inputs = inputs(&process::complaints(&mut command)?)?;
    println!("fuzz: {target}: {inputs} inputs in {seconds} s, nothing found");
    Ok(())
}

/// How many inputs were tried, by libFuzzer's own count.
fn inputs(log: &str) -> Result<u64> {
    let count = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count.context("libFuzzer does not say what it did")?.trim().parse().context("libFuzzer's count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_says_nothing_has_tried_nothing() {
        let log = "Done\nstat::number_of_executed_units: 1818093\nstat::peak_rss_mb: 29";
        assert_eq!(inputs(log).ok(), Some(1_818_093));
        assert!(inputs("Done").is_err());
    }
}
