//! Measurements of shardis that are kept in bench/runs: `cargo xtask bench` and `cargo xtask failovers`.
//!
//! ```text
//!     xtask ──► comparison ──► contestants, nodes, loadgen ──► run.json ──► run.txt, docs/benchmarks.md, charts, README.md
//!        └────► failovers ───► shardis local, clients ──────────► run.json, run.txt
//! ```
//!
//! Begin with [`comparison::run`], whose [`comparison::Options`] are the command line of `cargo xtask bench`, and
//! [`failovers::run`]. Both start the built programs and talk to them over sockets. No crate of the product but `stdx` is a
//! dependency, so a measurement cannot reach into the measured program.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measurements look at the real clock, start processes and connect to them"
)]

pub mod comparison;
pub mod failovers;
