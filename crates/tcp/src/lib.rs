//! The core of `shardis tcp`: which node a client gets, and what becomes of its bytes. It reads none of them.
//!
//! ```text
//!     client ─► pair ─► node          probes ─► nodes: who is well
//! ```
//!
//! It touches no socket and no clock: a worker of shardis tells it what happened and does what it asks for.

mod core;
mod nodes;
mod pairs;
mod probes;
#[cfg(test)]
mod transcripts;

pub use core::{Action, Core, Limits, Notice, Side};
pub use nodes::{Balance, Nodes, PROBES_FAILED_MAX, PROBES_PASSED_MIN, Patience, Verdict};
pub use probes::{Check, Kind};
