//! Load for a proxy, and the canned nodes behind it. Neither should be the bottleneck of a measurement.
//!
//! ```text
//!     loadgen saturate, open ──► the proxy ──► nodes of loadgen, or real ones
//!            └◄── every byte of every reply is compared ◄──┘      ─► report (JSON)
//! ```
//!
//! Begin with [`workload`], the requests, [`rig`], the sockets and their loop, and [`report`]. Each mode is a module with its
//! `Options` and a `run` that returns a report as JSON:
//!
//! - [`saturate`] keeps the proxy busy all the time (closed loop).
//! - [`mod@open`] sends at a fixed rate that does not depend on replies (open loop).
//! - [`echo`] is the floor: the cost of reading, counting and answering on the driver that the proxy uses.
//! - [`idle`], [`slow`] and [`large`] measure memory.
//!
//! `saturate` and `open` can run the nodes in their own thread, so that a machine of two cores has one for the proxy alone.
//!
//! ```text
//! $ loadgen saturate --target 127.0.0.1:6380 --connections 50 --pipeline 10
//! ```
//!
//! The report shows the bottleneck. `pid_busy` is the share of time in which the measured process ran. `pid_waiting` is the
//! share in which it could have run but other processes had its core.
//!
//! Together near 1, they say that the target was the bottleneck. A large `pid_waiting` says that the machine was not quiet.
//! `generator_busy` near 1 with less than that says that the generator was the bottleneck; the figure is then only a bound.
//!
//! Memory is in bytes, `latency_us` in microseconds. In the closed loop it is the latency of a batch, from its sending to its
//! last reply.
//!
//! **Must not know** the proxy: no crate of it is a dependency, so the measured program cannot help its meter. It trusts no
//! reply: every byte of every reply is compared, and a wrong one ends the run.
//!
//! Figures of the measured process come from /proc, so `--measure-pid` needs Linux; the rest does not.

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
