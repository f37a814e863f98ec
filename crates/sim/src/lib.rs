//! Simulated worlds: the core of shardis between simulated clients and nodes. One seed decides the network and the clock. The
//! same seed gives the same world, byte for byte.
//!
//! ```text
//!   client programs ─► pipes ─► proxy::Proxy ─► pipes ─► nodes (an embedded store each)
//!        │  ▲                    ▲ virtual time            │ log of what ran
//!        ▼  │                    │ faults                  ▼
//!      checker: one reply per request, in order, of its own key; what was acknowledged ran once, what was
//!               called never sent did not run, what is unknown ran at most once
//!      model:   a reference store says what one Redis would have answered, byte for byte
//! ```
//!
//! Begin with [`Plan`], which comes from a seed, [`run`], and its [`Report`] or [`Violation`].
//!
//! ```
//! use sim::{Plan, run};
//!
//! let report = run(&Plan::new(17), None, false).expect("no rule is broken in this world");
//! let again = run(&Plan::new(17), None, false).expect("nor is one the second time");
//! assert_eq!(report.fingerprint, again.fingerprint);
//! ```
//!
//! The nodes of a world have one of three forms. Plain nodes have replicas or not. Nodes of a Redis Cluster move slots and
//! elect primaries (`cluster.rs`). Or sentinels watch primaries and replace them (`sentinels.rs`).
//!
//! The proxy's own discovery works in some of the clusters, and always where there are sentinels (`world/discovery.rs`).
//!
//! **Must not know** anything real: no socket, no thread, no clock. The root's `clippy.toml` forbids them; only the program,
//! which prints its running time, relaxes that.

mod audit;
mod client;
mod cluster;
mod draw;
mod keyspace;
mod ledger;
mod listeners;
mod model;
mod mutes;
mod network;
mod node;
mod plan;
mod program;
mod replication;
mod scripts;
mod sentinels;
mod sessions;
mod tenants;
mod trackers;
mod views;
mod world;

pub use client::Tally;
pub use plan::{Fault, Kind, Plan, Trouble, Watching};
pub use world::{Report, Saboteur, Violation, run};
