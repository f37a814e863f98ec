//! Chores of this repository, as a program so that they are the same on every machine: `cargo xtask help` lists them.
//!
//! ```text
//!     cargo xtask test ─► lanes of steps, each a process: fmt, tidy, clippy, doc, tests, sim, fuzz, suites …
//!     cargo xtask bench, failovers ─► the crate bench-suite          other programs ─► the crate programs
//! ```
//!
//! Begin with `Task` below, `test::step::Step`, a step of the tests, and `tidy`, whose modules each hold one rule.
//!
//! **Must not know** how the product works inside: it builds and starts programs. Nothing here is shipped, and no shipped code
//! depends on it. It relaxes the lints of the root's `clippy.toml`, since chores measure real time, start processes and connect
//! to them.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "chores measure real time, start processes and connect to them"
)]

mod apt;
mod builds;
mod clients;
mod demo;
mod fuzz;
mod instructions;
mod packages;
mod report;
mod sim;
mod soak;
mod speed;
mod suites;
mod test;
mod tidy;
mod valkey;

use std::process::ExitCode;

use bench_suite::{comparison, failovers};
use clap::Parser;

/// Chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Run everything that must hold before a commit, installing what is missing
    Test(test::Options),
    /// Run one step of the tests
    #[command(hide = true)]
    Step(test::StepOptions),
    /// Measure shardis beside other proxies
    Bench(comparison::Options),
    /// Run real programs with client libraries of several languages
    Clients(clients::Options),
    /// Build the binary that is shipped, with its debug symbols, man pages, completions and packages
    Dist(packages::DistOptions),
    /// Make a package of the debug build, install it, try it and remove it
    Packages,
    /// Start nodes and a proxy in front of them, to play with
    Demo(demo::Options),
    /// Take primaries away under load and count what clients feel
    Failovers(failovers::Options),
    /// Run simulated worlds
    Sim(sim::Options),
    /// Let faults happen to one shardis for a long time, and look for violations
    Soak(soak::Options),
    /// Check what no compiler checks: lengths, words, links, licences
    Tidy(tidy::Options),
    /// Run every fuzz target for a short while
    Fuzz(fuzz::Options),
    /// Count what a request costs in instructions and compare with the stored counts
    Instructions(instructions::Options),
    /// Run other projects' tests of Redis and its clients against shardis
    Suites(suites::Options),
    /// Run the tests that find differences between servers over a valkey-server, if it can be had
    Valkey,
    /// Stand in for the redis-server that a suite starts
    #[command(hide = true)]
    Relay(suites::relay::Options),
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Test(options) => return test::run(&options),
        Task::Step(options) => test::run_step(&options),
        Task::Bench(options) => comparison::run(&options),
        Task::Clients(options) => clients::run(&options),
        Task::Dist(options) => packages::dist(&options),
        Task::Packages => packages::run().map(|notes| notes.iter().for_each(|note| println!("{note}"))),
        Task::Demo(options) => demo::run(&options),
        Task::Failovers(options) => failovers::run(&options),
        Task::Sim(options) => sim::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Tidy(options) => tidy::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Instructions(options) => instructions::run(&options).map(drop),
        Task::Suites(options) => suites::run(&options).map(drop),
        Task::Valkey => valkey::run().map(drop),
        Task::Relay(options) => suites::relay::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
