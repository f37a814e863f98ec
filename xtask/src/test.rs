//! `cargo xtask test`: everything that must hold before a commit, on a machine that has nothing but Rust.
//!
//! It stops at the first step that fails. What takes seconds comes before what takes minutes.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::clients::Language;
use crate::process::{cargo, run as run_command};
use crate::report::Report;
use crate::{clients, fuzz, instructions, needs, sim, suites, tidy, valkey};

/// Simulated worlds per run: enough that each fault meets each kind of request, in 22 s on one core.
const WORLDS: u32 = 1_000;

/// Seconds per fuzz target: finds what is shallow. Long runs are somebody's own `cargo xtask fuzz --seconds 3600`.
const FUZZ_SECONDS: u32 = 10;

/// Runs all steps and prints the table.
pub(crate) fn run() -> ExitCode {
    let mut report = Report::default();
    // `None` means that a step failed, which the report knows.
    let _ = run_steps(&mut report);
    println!("{}", report.summary());
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_steps(report: &mut Report) -> Option<()> {
    report.step("needs", || needs::install(&needs::for_tests()))?;
    report.step("fmt", || run_command(&mut cargo(["fmt", "--all", "--check"])))?;
    report.step("tidy", || tidy::run(&tidy::Options::default()))?;
    report.step("clippy", || {
        run_command(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    let programs = report.step("clients", || clients::prepare(Language::value_variants()))?;
    programs.skipped.into_iter().for_each(|line| report.note(line));
    report.step("tests", || {
        run_command(cargo(["test", "--workspace"]).env(clients::LOCATION, programs.location))
    })?;
    report.step("valkey", valkey::run)?.into_iter().for_each(|line| report.note(line));
    let skipped = report.step("suites", || suites::run_quick(&suites::binary()?))?;
    skipped.into_iter().for_each(|line| report.note(line));
    let counted = report.step("counts", || instructions::run(&instructions::Options::default()))?;
    counted.into_iter().for_each(|line| report.note(line));
    report.step("sim", || sim::run(&sim::Options::worlds(WORLDS)))?;
    report.step("fuzz", || fuzz::run(&fuzz::Options { seconds: FUZZ_SECONDS }))
}
