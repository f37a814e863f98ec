//! `shardis bench`: load for Redis and HTTP servers, and reports on how they bear it.
//!
//! ```text
//!   args ─► Plan: target, workload, pace, bounds ─► run::execute ─► workers, each with connections on the driver
//!                                                        │ ◄── intervals of latencies by kind ◄──┘
//!                                                        └─► Outcome ─► classic (redis-benchmark's output) or report
//! ```
//!
//! Begin with `plan.rs`, a run as workers see it, `worker.rs`, the loop, and `run.rs`, which collects. `template.rs` and `kinds.rs`
//! have the requests, `keys.rs` and `sizes.rs` their distributions. `classic.rs` has redis-benchmark's tests and output.
//! `shaped.rs` is the session for everything else, with its reports in `report.rs`, `chart.rs`, `page.rs` and `hdr_log.rs`.
//!
//! All but `worker.rs`, `run.rs`, `target.rs` and the sessions is pure: time, randomness and bytes are arguments.
//!
//! **Must not know** the proxy: no crate of it is a dependency, so the measured program cannot help its meter.

#![expect(clippy::disallowed_methods, reason = "a load generator measures real time, on threads of its own")]

mod args;
mod chart;
mod classic;
mod client;
mod cluster;
mod compare;
mod expect;
mod framing;
mod hdr_log;
mod http;
mod keys;
mod kinds;
mod mix;
mod page;
mod plan;
mod prepare;
mod progress;
mod random;
mod recorder;
mod report;
mod run;
mod search;
mod session;
mod shaped;
mod sizes;
mod target;
mod template;
mod trace;
mod units;
mod worker;

pub use args::BenchArgs;

use anyhow::Result;
use run::Interrupt;
use std::process::ExitCode;

/// Carries out the runs that `args` ask for.
///
/// # Errors
///
/// A text for the user, if the server cannot be reached or a file cannot be written.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let interrupt = Interrupt::watch()?;
    match args.is_classic() {
        true => session::run(args, &interrupt),
        false => shaped::run(args, &interrupt),
    }
}
