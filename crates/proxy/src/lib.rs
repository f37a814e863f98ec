//! The core of shardis, one [`Proxy`] per worker: bytes and time in, actions out.
//!
//! ```text
//!      client ─► session ─► route ─► (fragment) ─► backend ─► node
//!      client ◄─ session ◄──────────── (merge) ◄── backend ◄─ node
//! ```
//!
//! Nothing here knows a file descriptor, a clock or a thread. Whoever drives it, a worker or the simulator, tells it
//! what happened ([`Proxy::handle_event`], with the time), asks it what to do ([`Proxy::poll_action`]) and when to
//! come back at the latest ([`Proxy::poll_deadline`]).

mod acknowledged;
mod acl;
mod admin;
mod audience;
mod backend;
mod clients;
mod cluster;
mod core;
mod counters;
mod credentials;
mod cursor;
mod discovered;
mod doubt;
mod ejection;
mod emulate;
mod errors;
mod event;
mod fan;
mod fragment;
mod halves;
mod heads;
mod held;
mod help;
mod homes;
mod identities;
mod info;
mod inlays;
mod inquiry;
mod invalidations;
mod kept;
mod lanes;
mod learn;
mod limits;
mod local;
mod login;
mod memory;
mod merge;
mod monitor;
mod noloop;
mod passing;
mod pause;
mod pinned;
mod proof;
mod proxy;
mod pubsub;
mod reading;
mod redirect;
mod relay;
mod replicas;
mod replies;
mod reports;
mod requests;
mod retire;
mod route;
mod scan;
mod scripts;
mod session;
mod streams;
mod subscriptions;
mod succession;
mod tally;
mod tracking;
mod transaction;
mod upload;

pub use counters::{Board, Counters, Usage};
pub use credentials::Credentials;
pub use discovered::Discovered;
pub use ejection::Ejecting;
pub use event::{Action, Arrival, CloseReason, Event, Notice};
pub use inquiry::Mail;
pub use limits::{Authority, CrossShard, Limits, Settings};
pub use login::{Errand, Task};
pub use proxy::Proxy;
pub use reading::{ReadFrom, Reading};

/// Names one connection, of a client or to a node, for as long as it lives.
pub type ConnId = stdx::Id;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
