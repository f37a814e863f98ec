//! `shardis tcp`: passes bytes to one of several nodes, and reads none of them.
//!
//! ```text
//!     client ─► listener ─► worker ─► one node for all that this client says
//! ```
//!
//! For replicas of one data set, or for anything that speaks TCP: nothing is sharded. `crates/tcp` decides and
//! touches nothing, as crates/proxy does; `worker.rs` is the loop in which it meets the driver.

mod arguments;
mod passing;
mod targets;
mod worker;

pub(crate) use arguments::TcpArgs;
pub(crate) use passing::PassingPlan;
