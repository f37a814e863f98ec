//! One step of `cargo xtask test`. It is a process of its own, so that its processor time can be measured and its output kept.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use programs::needs;
use programs::process::{self, cargo, run as run_command};
use serde::{Deserialize, Serialize};

use crate::clients::{self, Language};
use crate::{builds, fuzz, instructions, packages, speed, suites, tidy, valkey};

/// Simulated worlds per run: enough that each fault meets each kind of request, in 22 s on one core.
const WORLDS: u32 = 1_000;

/// The same for `--quick`.
const QUICK_WORLDS: u32 = 100;

/// Seconds per fuzz target, which find shallow faults. Long runs are started by hand: `cargo xtask fuzz --seconds 3600`.
const FUZZ_SECONDS: u32 = 10;

/// The variable that tells test binaries how many tests run at the same time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Whole-process tests of `--quick`: every path of a request, without tests that wait for timeouts.
const QUICK_MODULES: [&str; 8] = [
    "administration::",
    "configuration::",
    "distribution::",
    "embedded::",
    "process::",
    "scan::",
    "scripts::",
    "sessions::",
];

/// A step, as it is called in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Installs missing programs.
    Needs,
    Fmt,
    Tidy,
    Clippy,
    /// Writes the pages of all crates, private items included.
    Doc,
    /// Builds all tests.
    Build,
    /// Makes the programs with client libraries.
    Clients,
    Tests,
    Valkey,
    /// Makes a package, installs it and tries it.
    Packages,
    Suites,
    Counts,
    Sim,
    Fuzz,
    /// Unit tests, and some tests of whole processes.
    QuickTests,
    QuickSim,
}

/// Which step.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Step to run
    #[arg(value_enum)]
    pub(super) step: Step,
    /// File for the result
    #[arg(long)]
    pub(super) result: PathBuf,
}

/// The outcome of a step, for the process that started it.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Outcome {
    /// Lines for the end of the report.
    pub(super) notes: Vec<String>,
    /// Why the step failed.
    pub(super) error: Option<String>,
    /// Processor time of the step and its children, where the system tells it.
    pub(super) cpu_seconds: Option<f64>,
}

/// Performs a step and writes its outcome.
pub(super) fn run(options: &Options) -> Result<()> {
    let performed = options.step.perform();
    std::fs::write(&options.result, serde_json::to_string(&Outcome::of(&performed))?)?;
    performed.map(drop)
}

impl Outcome {
    fn of(performed: &Result<Vec<String>>) -> Outcome {
        let notes = performed.as_ref().map_or(Vec::new(), Vec::clone);
        let error = performed.as_ref().err().map(|error| format!("{error:#}"));
        Outcome { notes, error, cpu_seconds: process::cpu_used().map(|used| used.as_secs_f64()) }
    }
}

impl Step {
    /// Its name on the command line and in the table.
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("no step is left out").get_name().to_owned()
    }

    /// A step that must have ended before this one begins.
    pub(super) fn needs(self) -> Option<Step> {
        match self {
            Step::Tests => Some(Step::Clients),
            Step::Packages => Some(Step::Build),
            Step::Suites => Some(Step::Build),
            _ => None,
        }
    }

    fn perform(self) -> Result<Vec<String>> {
        match self {
            Step::Needs => needs::install(&needs::for_tests())?,
            Step::Fmt => run_command(&mut cargo(["fmt", "--all", "--check"]))?,
            Step::Tidy => tidy::run(&tidy::Options::default())?,
            Step::Clippy => {
                run_command(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?
            }
            Step::Doc => {
                let mut doc = cargo(["doc", "--workspace", "--no-deps", "--document-private-items"]);
                run_command(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
            }
            Step::Build => builds::tests().map(drop)?,
            Step::Clients => return Ok(clients::prepare(Language::value_variants())?.skipped),
            Step::Tests => {
                let mut tests = cargo(["test", "--workspace"]);
                tests.env(clients::LOCATION, clients::location()).env(TEST_THREADS, test_threads());
                run_command(&mut tests)?;
            }
            Step::Valkey => return Ok(valkey::run()?.into_iter().collect()),
            Step::Packages => return packages::run(),
            Step::Suites => return suites::run_quick(&builds::tests()?.program("shardis")?),
            Step::Counts => return instructions::run(&instructions::Options::default()),
            Step::Sim => worlds(WORLDS)?,
            Step::Fuzz => fuzz::run(&fuzz::Options { seconds: FUZZ_SECONDS })?,
            Step::QuickTests => quick_tests()?,
            Step::QuickSim => worlds(QUICK_WORLDS)?,
        }
        Ok(Vec::new())
    }
}

/// The user's number, or else more than there are cores, since tests of whole processes wait half of their time.
fn test_threads() -> OsString {
    std::env::var_os(TEST_THREADS).unwrap_or_else(|| speed::threads().to_string().into())
}

/// Runs worlds with the simulator that is built with the tests. `cargo run --package sim` would build it once more, since its
/// dependencies would have other features.
fn worlds(count: u32) -> Result<()> {
    let simulator = builds::tests()?.program("sim")?;
    run_command(process::command(simulator).args(["--worlds", &count.to_string()]))
}

fn quick_tests() -> Result<()> {
    let missing = needs::missing(&[needs::REDIS_SERVER, needs::REDIS_CLI, needs::NUTCRACKER]);
    ensure!(missing.is_empty(), "not on this machine: {}; `cargo xtask test` installs it", missing.join(" "));
    let tests = builds::tests()?;
    run_command(&mut cargo(["test", "--workspace", "--lib", "--bins", "--quiet"]))?;
    run_command(tests.test("shardis", "whole")?.arg("--quiet").args(QUICK_MODULES))
        .context("some whole-process tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_a_step_reach_the_process_that_started_it() {
        let written = serde_json::to_string(&Outcome::of(&Ok(vec!["valkey skipped".into()])));
        let read: Outcome =
            serde_json::from_str(&written.expect("it can be written")).expect("it can be read");
        assert_eq!(read.notes, ["valkey skipped"]);
        assert_eq!(read.cpu_seconds.is_some(), cfg!(target_os = "linux"));
    }

    #[test]
    fn a_failed_step_tells_its_error_and_its_processor_time() {
        let outcome = Outcome::of(&Err(anyhow::anyhow!("as expected")));
        assert!(outcome.notes.is_empty());
        assert_eq!(outcome.error.as_deref(), Some("as expected"));
        assert_eq!(outcome.cpu_seconds.is_some(), cfg!(target_os = "linux"));
    }
}
