//! The core of `shardis tcp`: the choice of a node for a client, and the way of its bytes. It reads none of them.
//!
//! ```text
//!     client ─► pair ─► node          probes ─► nodes: which are usable
//! ```
//!
//! Begin with [`Core`], one for each worker, its [`Action`]s, and [`Nodes`], which all workers share. A worker reports events
//! to the core and carries out the actions of [`Core::poll_action`].
//!
//! `nodes.rs` chooses and judges nodes, `pairs.rs` joins a client with its connection to a node, `probes.rs` checks nodes
//! between clients, and `transcripts.rs` tests them.
//!
//! A worker passes the bytes of a read on from the driver's buffer. The core keeps only bytes that their target does not take,
//! and stops reading from the source meanwhile. So a request costs two reads and two writes, as in nginx.
//!
//! ```
//! use std::time::Duration;
//! use tcp::{Core, Limits};
//!
//! let limits = Limits { connect_timeout: Duration::from_secs(1), idle_timeout: Duration::ZERO };
//! let mut core = Core::new(limits, 64 << 10);
//! assert!(core.poll_action().is_none(), "without a client there is nothing to do");
//! ```
//!
//! **Must not know** Redis, a socket or a clock. Its only dependency is `stdx`, and the root's `clippy.toml` forbids clocks, threads
//! and sockets.

mod core;
mod nodes;
mod pairs;
mod probes;
#[cfg(test)]
mod transcripts;

pub use core::{Action, Core, Limits, Notice, Side};
pub use nodes::{Balance, Nodes, PROBES_FAILED_MAX, PROBES_PASSED_MIN, Patience, Verdict};
pub use probes::{Check, Kind};
