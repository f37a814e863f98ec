//! Clients, links to nodes, requests in flight and their replies: the base of every feature of the proxy.
//!
//! ```text
//!      client ─► Session ─ input ─► (features: which link?) ─► Link ─ outgoing ─► node
//!      client ◄─ Session ◄ replies ◄──── Ticket, Owner ◄────── Link ◄ incoming ── node
//! ```
//!
//! A [`Session`](session::Session) reserves a place in its client's order for each request. The number of the place
//! goes into the [`Ticket`](link::Ticket) on the [`Link`](link::Link) on which the request is queued.
//! [`Engine`](engine::Engine) has the links, the memory in use and the lists of this turn's work.
//! [`Features`](features::Features) leaves open the state that features keep with sessions and links; the crate above
//! defines it.
//!
//! Begin with these three types. Then read `session/replies.rs` (the order of replies) and `link/outbox.rs` (the bytes
//! of requests).
//!
//! ```
//! use engine::limits::Limits;
//!
//! let limits = Limits::default();
//! assert!(limits.pending_max >= 1, "a client may have a request in flight");
//! ```
//!
//! **Must not know** a command, a feature, a file descriptor, a clock or a thread. `Cargo.toml` names neither `command`
//! nor `proxy`, and the root's `clippy.toml` forbids clocks, threads and sockets.

pub mod cork;
pub mod engine;
pub mod event;
pub mod features;
pub mod limits;
pub mod link;
pub mod lost;
pub mod memory;
pub mod retry;
pub mod rounds;
pub mod session;
pub mod walk;

/// Names one connection, of a client or to a node, for its lifetime.
pub type ConnId = stdx::Id;
