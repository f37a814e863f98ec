//! The core of shardis, one [`Proxy`] per worker: bytes and time in, actions out. The core is the [`engine`] with
//! commands and features.
//!
//! ```text
//!      client ─► session ─► route ─► (fragment) ─► link ─► node
//!      client ◄─ session ◄──────────── (merge) ◄── link ◄─ node
//! ```
//!
//! Begin with [`Proxy`], the [`Event`]s that it takes and the [`Action`]s that it returns. Then read `requests.rs`,
//! the way down, and `replies.rs`, the way up. A worker gets its [`Settings`] and [`Limits`] at start.
//!
//! A worker or the simulator drives the core. The driver reports each event with its time ([`Proxy::handle_event`])
//! and asks for the next action ([`Proxy::poll_action`]). The driver comes back at [`Proxy::poll_deadline`] at the
//! latest.
//!
//! ```
//! use proxy::{Action, Board, Limits, Proxy, Settings};
//! use std::sync::Arc;
//! use stdx::Instant;
//! use topology::{Topology, TopologySpec, parse_nodes};
//!
//! let nodes = parse_nodes("127.0.0.1:6379")?;
//! let topology = Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() })?;
//! let board = Arc::new(Board::new(1));
//! let mut proxy = Proxy::new(Limits::default(), Settings::default(), Arc::new(topology), board, Instant::ZERO);
//! proxy.handle_timeouts(Instant::ZERO);
//! assert!(matches!(proxy.poll_action(), Some(Action::Connect { .. })), "it connects to its node");
//! # Ok::<(), topology::TopologyError>(())
//! ```
//!
//! **Must not know** a file descriptor, a clock, a thread or a store. [`Settings::evaluator`] brings the
//! [`command::Evaluator`] that runs commands over several shards. `Cargo.toml` names neither `driver` nor `store`,
//! and the root's `clippy.toml` forbids clocks, threads and sockets.

mod audit;
mod context;
mod core;
mod counters;
mod cross_slot;
pub mod descriptors;
mod emulate;
mod errors;
mod event;
mod features;
mod held;
mod hot;
mod latency;
mod limits;
mod link;
mod local;
mod login;
mod memory;
mod messages;
mod monitor;
mod namespace;
mod node_tally;
mod outcome;
mod pause;
mod peers;
mod policy;
mod proxy;
mod pubsub;
mod questions;
mod reading;
mod redirect;
mod reload;
mod replies;
mod requests;
mod rewritten;
mod sampling;
mod scan;
mod scripts;
mod slow;
mod tally;
mod topology_update;
mod tracking;
mod transaction;
mod upgrade;

pub use ::engine::limits::Limits as EngineLimits;
pub use ::engine::rounds::Rounds;
pub use counters::{Board, Counters, Page, Usage};
pub use errors::Cause;
pub use event::{Action, Arrival, CloseReason, Event, Notice};
pub use hot::report::{HotBoard, HotKey, HotKind};
pub use latency::Latency;
pub use limits::{Access, Authority, CrossShard, Limits, Process, Settings, Slowlog, Transactions};
pub use link::node_memory::NodeMemory;
pub use local::gathered::Mail;
pub use local::info::info_reference;
pub use local::operator::explain::{Explanation, KEYS_SHOWN_MAX, Rules, Target, explain};
pub use login::credentials::Credentials;
pub use login::job::{ControlJob, ReloadOrder, ReloadOutcome, Task};
pub use namespace::route::{Prefix, ROUTES_FROM, RouteKeys};
pub use namespace::{Namespace, Namespaces, Routed};
pub use node_tally::{NodeCounts, NodeReport, NodeReports, NodeState};
pub use policy::{Names, Policies, Policy};
pub use proxy::Proxy;
pub use proxy::face::{Pending, client_lines, end_turn, publish};
pub use reading::{ReadFrom, Reading};
pub use reload::{Reloaded, adopt_settings, end_reload, is_connecting};
pub use sampling::LATENCY_SAMPLE_ONE_IN;
pub use sampling::whole::WholeTimes;
pub use slow::log::{SlowLog, SlowRequest};
pub use tally::{ReadRow, Row, Tally};
pub use topology_update::discovered::Discovered;
pub use topology_update::ejection::Ejecting;
pub use upgrade::{
    ClientState, NotTaken, Readiness, STATE_BYTES_MAX, StateError, clients_from, give_up_client, is_paused,
    listener_of, readiness, take_over_client,
};

pub use ::engine::ConnId;

use ::engine::{session, walk};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
