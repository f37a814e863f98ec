//! The admin listener: metrics, health and state of a process over HTTP, for people and programs.
//!
//! ```text
//!   workers ── once a second ──► Board ─┐
//!   log lines ──► events ───────────────┼─► Subject ─► Facts ─► routes ─► server (a thread) ◄─► HTTP
//!   topology, settings ─────────────────┘
//! ```
//!
//! Begin with [`Subject`], the process as this crate sees it, and `routes.rs`, which makes a response of a request. `metrics.rs`
//! is the table of all metrics; docs/metrics.md is made from it. `statsd.rs` sends some of them. `status.rs` has the JSON,
//! `history.rs` the last fifteen minutes. `nutcracker.rs` answers as twemproxy's stats port. `guard.rs` decides who may ask, `tls.rs` shakes hands.
//! `server.rs` moves the bytes, with hyper, on a thread of its own.
//!
//! The thread reads what workers publish and sends them nothing on its own, so no request here can delay a client. Only `/clients`
//! asks the workers, and does not wait for one that is busy.
//!
//! **Must not know** how the process gets its facts: it sees [`Subject`]. The crate relaxes the lints of the root's `clippy.toml`
//! against clocks, threads and sockets, since it serves.

#![expect(clippy::disallowed_methods, reason = "the server has a thread, and times of day go into answers")]
#![expect(clippy::disallowed_types, reason = "the server listens")]

mod facts;
mod guard;
mod history;
mod hot;
mod metrics;
mod mirrored;
mod nutcracker;
mod place;
mod racked;
mod readiness;
mod routes;
mod server;
mod slow;
mod statsd;
mod status;
mod tls;

pub use facts::{Configuration, Descriptors, Event, Facts, Setting, Subject, WorkerFacts};
pub use guard::{Guard, read_token};
pub use metrics::metrics_reference;
pub use nutcracker::{NutcrackerStats, ShownPool};
pub use place::Place;
pub use racked::Racks;
pub use readiness::ReadyShards;
pub use routes::AdminPool;
pub use server::{Listener, Running, serve};
pub use statsd::{PREFIX_BYTES_MAX, Statsd, name_part, send_statsd};
pub use tls::Tls;
