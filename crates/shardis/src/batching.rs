//! Adaptive batching (`--batching`): under load a worker waits some microseconds, so that one write to a node carries the
//! requests of several clients.
//!
//! [`policy`] decides for each turn whether to wait and how long; [`experiment`] measures whether waiting pays.

mod experiment;
mod policy;

pub(crate) use policy::{Batching, Policy, Turn};
