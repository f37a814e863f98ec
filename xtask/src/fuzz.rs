//! `cargo xtask fuzz`: every fuzz target for a short while.
//!
//! No nightly toolchain is needed: RUSTC_BOOTSTRAP lets the stable compiler take the one flag that is not stable,
//! `-Zsanitizer`.
//!
//! AddressSanitizer is needed, although no fuzzed code is `unsafe`: its hooks show libFuzzer the operands of comparisons of
//! slices. `assert!(!input.starts_with(b"*9$xy"))` was refuted after 358 inputs with it, and not after 65 million without.
//! Debug assertions and overflow checks are on.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use programs::needs;
use programs::process::{self, cargo, command, root, target_dir};

use crate::builds::Built;

/// The compiler's flags for libFuzzer's coverage and comparisons. cargo-fuzz uses the same. It takes longer to build than it
/// would save here.
const INSTRUMENTATION: [&str; 9] = [
    "--cfg=fuzzing",
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];

/// Duration of the fuzzing.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds per target
    #[arg(long, default_value_t = 20)]
    pub(crate) seconds: u32,
}

/// Runs every target. The first finding ends it, with the input that repeats it.
pub(crate) fn run(options: &Options) -> Result<()> {
    needs::install(&[needs::CXX])?;
    let built = Built::by(&mut build()?)?;
    let targets: Vec<(&str, &Path)> = built.all().collect();
    ensure!(!targets.is_empty(), "fuzz/Cargo.toml has no targets");
    // A target uses one core.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    targets.chunks(cores).try_for_each(|targets| run_side_by_side(targets, options.seconds))
}

/// Builds all targets. Build scripts and macros are not instrumented, since the target is named.
fn build() -> Result<Command> {
    let version = process::read(command("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV tells no host")?;
    let mut build = cargo(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", host]);
    build.arg("--target-dir").arg(target_dir().join("fuzz"));
    build.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", INSTRUMENTATION.join(" "));
    Ok(build)
}

fn run_side_by_side(targets: &[(&str, &Path)], seconds: u32) -> Result<()> {
    std::thread::scope(|scope| {
        let run = |&(target, program)| scope.spawn(move || run_target(target, program, seconds));
        let running: Vec<_> = targets.iter().map(run).collect();
        let ended = running.into_iter().map(|target| target.join().expect("no target's thread panics"));
        // All of them are awaited: none may run on when the first error is reported.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Fuzzes `target`. Its new inputs go to fuzz/corpus, which is not committed; inputs that are worth keeping are committed in
/// fuzz/seeds.
fn run_target(target: &str, program: &Path, seconds: u32) -> Result<()> {
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
    let findings = format!("fuzz/artifacts/{target}/");
    std::fs::create_dir_all(root().join(&corpus))?;
    std::fs::create_dir_all(root().join(&findings))?;
    let mut command = command(program);
    command.arg(&corpus);
    if root().join(&seeds).is_dir() {
        command.arg(&seeds);
    }
    // Limits: a minute for one input (it takes milliseconds, but a machine may be slow), and a gigabyte for the process.
    // AddressSanitizer uses a quarter of it. More is a finding.
    command.args([&format!("-max_total_time={seconds}"), "-timeout=60", "-rss_limit_mb=1024"]);
    command.args(["-verbosity=0", "-print_final_stats=1", &format!("-artifact_prefix={findings}")]);
    let inputs = inputs(&process::complaints(&mut command)?)?;
    println!("fuzz: {target}: {inputs} inputs in {seconds} s, nothing found");
    Ok(())
}

/// Number of tried inputs, by libFuzzer's own count.
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
