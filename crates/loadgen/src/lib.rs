//! Load for a proxy, and the canned nodes behind it: made so that neither is the limit of what is measured.
//!
//! ```text
//!     loadgen saturate, open ──► the proxy ──► nodes of loadgen, or real ones
//!            └◄── every byte of every reply is compared ◄──┘      ─► report (JSON)
//! ```
//!
//! Begin with [`workload`], which says what is sent, [`rig`], the sockets and their loop, and [`report`]. Each mode is a module with
//! its `Options` and a `run` that gives a report as JSON:
//!
//! - [`saturate`] keeps the proxy busy all the time (closed loop).
//! - [`mod@open`] sends at a fixed rate whatever comes back (open loop).
//! - [`echo`] is the floor: the cost of reading, counting and answering on the driver that the proxy uses.
//! - [`idle`], [`slow`] and [`large`] look at memory.
//!
//! `saturate` and `open` can run the nodes in their own thread, so that a machine of two cores has one for the proxy alone.
//!
//! ```text
//! $ loadgen saturate --target 127.0.0.1:6380 --connections 50 --pipeline 10
//! ```
//!
//! What was the limit? The report tells: `pid_busy` and `pid_waiting` are the shares of the time in which the measured
//! process ran and in which it could have but others had its core; together near 1 it was the target, and a large
//! `pid_waiting` says that the machine was not quiet. `generator_busy` near 1 with less than that says that it was the
//! generator, and the figure is a bound only. Memory is in bytes, `latency_us` in microseconds; in the closed loop it is
//! that of a batch, from its sending to its last reply.
//!
//! **Must not know** the proxy: no crate of it is a dependency, so what is measured cannot lend it a hand. Never does it believe a
//! reply: every byte of every reply is compared with what it must be, and a wrong one ends the run. Figures of the measured process
//! come from /proc, so `--measure-pid` needs Linux; the rest does not.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a load generator measures real time and connects to real sockets"
)]

pub mod canned;
pub mod clock;
pub mod closed;
pub mod echo;
pub mod frame;
pub mod idle;
pub mod large;
pub mod load;
pub mod measure;
pub mod nodes;
pub mod open;
pub mod open_loop;
pub mod pattern;
pub mod process;
pub mod replies;
pub mod report;
pub mod rig;
pub mod saturate;
pub mod schedule;
pub mod service;
pub mod slow;
pub mod workload;
