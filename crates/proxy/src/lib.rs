//! The core of shardis, one [`Proxy`] per worker: bytes and time in, actions out.
//!
//! ```text
//!      client ─► session ─► route ─► (fragment) ─► link ─► node
//!      client ◄─ session ◄──────────── (merge) ◄── link ◄─ node
//! ```
//!
//! Nothing here knows a file descriptor, a clock or a thread. Whoever drives it, a worker or the simulator, tells it
//! what happened ([`Proxy::handle_event`], with the time), asks it what to do ([`Proxy::poll_action`]) and when to
//! come back at the latest ([`Proxy::poll_deadline`]).

mod audit;
mod core;
mod counters;
mod cross_slot;
pub mod descriptors;
mod emulate;
mod errors;
mod event;
mod held;
mod limits;
mod link;
mod local;
mod login;
mod memory;
mod monitor;
mod pause;
mod proxy;
mod pubsub;
mod reading;
mod redirect;
mod replies;
mod requests;
mod rounds;
mod scan;
mod scripts;
mod session;
mod tally;
mod topology_update;
mod tracking;
mod transaction;
mod walk;

pub use counters::{Board, Counters, Usage};
pub use event::{Action, Arrival, CloseReason, Event, Notice};
pub use limits::{Authority, CrossShard, Limits, Process, Settings, Transactions};
pub use local::info::info_reference;
pub use local::inquiry::Mail;
pub use login::credentials::Credentials;
pub use login::{ControlJob, Task};
pub use proxy::Proxy;
pub use reading::{ReadFrom, Reading};
pub use rounds::Rounds;
pub use topology_update::discovered::Discovered;
pub use topology_update::ejection::Ejecting;

/// Names one connection, of a client or to a node, for as long as it lives.
pub type ConnId = stdx::Id;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
