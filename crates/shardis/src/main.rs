//! `shardis`: many Redis nodes behind one endpoint. The binary only connects: arguments to settings, sockets to the core, the
//! core's notices to the log.
//!
//! ```text
//!     file, command line ─► args ─► Serving ─► Plan (nobody can connect yet) ─► listeners ─► Service (workers run)
//!
//!     listener ─► control thread ─► worker: driver ─► proxy ─► driver        discovery thread ─► Topology ─► all workers
//!                 signals, log ────┘
//! ```
//!
//! Begin with `worker::Worker`, whose `turn` is the loop in which driver and core meet, `control.rs`, the control thread, and
//! `args.rs`. `control.rs` is one loop over any number of services: `sharding.rs` serves Redis, `tcp/passing.rs` each listener of
//! mode tcp, each with workers of its own (`team.rs`).
//!
//! ```text
//! $ shardis proxy --nodes 10.0.0.1:6379,10.0.0.2:6379 --port 6380
//! ```
//!
//! **Must not know** how a request is carried out: it sees events, actions and notices of `proxy` and reads no request. Threads and
//! clocks begin here and nowhere below: this crate relaxes the lints of the root's `clippy.toml` that forbid them elsewhere.

#![expect(clippy::disallowed_methods, reason = "threads and clocks begin here and nowhere below")]
#![expect(clippy::disallowed_types, reason = "the control thread accepts")]

mod access;
mod admin_port;
mod allocator;
mod args;
mod asking;
mod batching;
mod check;
mod config;
mod control;
mod descriptors;
mod dial;
mod discovery;
mod doctor;
mod embedded;
mod events;
mod explain;
mod failovers;
mod http;
mod listeners;
mod log_bounds;
mod log_json;
mod log_layer;
mod log_messages;
mod log_sink;
mod logging;
mod merged_log;
mod nutcracker;
mod passed;
mod racks;
mod reading;
mod refused;
mod reload;
mod resolver;
mod ring;
mod routed;
mod secrets;
mod sharding;
mod subject;
mod systemd;
mod tcp;
mod team;
mod transport;
mod upgrade;
mod usage;
mod wall_clock;
mod watch;
mod worker;
mod zones;

use anyhow::Context;
use args::Task;
use std::io::Write;
use std::process::ExitCode;

/// mimalloc, for the embedded store. While a million keys come and go, glibc's malloc makes single calls much longer than the
/// usual ten microseconds. They take 8 ms (DEL), 14 ms (FLUSHALL), 37 ms (three big values) and 116 ms (expiry), because glibc
/// consolidates freed memory all at once. With mimalloc the worst is about 2 ms. It needs nothing but a C compiler to build,
/// where jemalloc needs make.
///
/// Its version is 2 because version 3 returns freed memory in one piece: 10 ms. It does without huge pages (`no_thp`) because
/// the kernel clears each when it is first touched: 5 ms.
///
/// The figures are those of bench/runs/2026-11-21-store-allocators.txt. Other systems were not measured and keep their
/// allocator.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let task = match args::parse() {
        Ok(task) => task,
        Err(exit) => return exit,
    };
    let outcome = match task {
        Task::Serve(serving) => control::run(*serving).map(|()| ExitCode::SUCCESS),
        Task::Check(file, against) => Ok(check::run(&file, against.as_deref())),
        Task::Import(file) => Ok(config::import(&file)),
        Task::Explain(args, request) => explain::run(&args, &request),
        Task::Doctor(args, as_json) => doctor::run(&args, as_json),
        Task::Ring(ring) => ring::run(&ring),
        Task::Local(args) => local::run(&args),
        Task::Top(args) => top::run(&args),
        Task::Bench(args) => benchmark::run(&args),
        Task::Upgrade(args) => upgrade::command::run(&args),
        Task::Generate(args) => args::generate(&args.folder)
            .map(|()| ExitCode::SUCCESS)
            .with_context(|| args.folder.display().to_string()),
        Task::DieWithParent(args) => local::die_with_parent::run(&args).map(|()| ExitCode::SUCCESS),
    };
    log_sink::finish();
    match outcome {
        Ok(exit) => exit,
        Err(error) => {
            // If stderr is closed, the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "shardis: {error:#}");
            ExitCode::FAILURE
        }
    }
}
