//! `cargo xtask test`: everything that must hold before a commit, on a machine with nothing but Rust.
//!
//! ```text
//!     needs ─► fmt ─► tidy ─┬─► clippy ─► doc ─► build ─► tests ─► valkey ─► packages ─► sim   shown while it runs
//!                           └─► clients ─► counts ─► fuzz ─► suites                           shown when a step ends
//! ```
//!
//! Steps that use the debug build follow each other in the first lane. The second lane fills the cores while tests of the
//! first wait, or while one core links. After a step has failed, no lane begins another.

mod lanes;
mod step;

use std::process::ExitCode;

use lanes::{Lane, Output};
pub(crate) use step::Options as StepOptions;
use step::Step;

/// Which tests.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Choice of steps and tests that needs no network, for use before a commit
    #[arg(long)]
    quick: bool,
}

/// The first steps: they take seconds.
const FIRST: &[Step] = &[Step::Needs, Step::Fmt, Step::Tidy];

/// Steps that share the debug build.
const MAIN: &[Step] =
    &[Step::Clippy, Step::Doc, Step::Build, Step::Tests, Step::Valkey, Step::Packages, Step::Sim];

/// Steps that build elsewhere. The suites, the last, use the debug build as well.
const SIDE: &[Step] = &[Step::Clients, Step::Counts, Step::Fuzz, Step::Suites];

/// All steps of `--quick`.
const QUICK: &[Step] = &[Step::Fmt, Step::Tidy, Step::Clippy, Step::QuickTests, Step::QuickSim];

/// Runs all steps and prints the table.
pub(crate) fn run(options: &Options) -> ExitCode {
    let rounds: &[&[Lane]] = if options.quick {
        &[&[Lane { steps: QUICK, output: Output::Shown }]]
    } else {
        &[
            &[Lane { steps: FIRST, output: Output::Shown }],
            &[Lane { steps: MAIN, output: Output::Shown }, Lane { steps: SIDE, output: Output::Kept }],
        ]
    };
    let report = lanes::run(rounds);
    println!("{}", report.summary());
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one step, in a process of its own.
pub(crate) fn run_step(options: &StepOptions) -> anyhow::Result<()> {
    step::run(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_follows_the_steps_that_it_needs() {
        for steps in [&[FIRST, MAIN].concat(), &[FIRST, SIDE].concat(), &QUICK.to_vec()] {
            for (place, step) in steps.iter().enumerate() {
                let in_its_lane = step.needs().filter(|needed| steps.contains(needed));
                assert!(in_its_lane.is_none_or(|needed| steps[..place].contains(&needed)), "{step:?}");
            }
        }
        let all = [FIRST, MAIN, SIDE].concat();
        assert!(all.iter().filter_map(|step| step.needs()).all(|needed| all.contains(&needed)));
        assert!(QUICK.iter().all(|step| step.needs().is_none()));
    }
}
