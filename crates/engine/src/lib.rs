//! Clients, links to nodes, requests in flight and their replies: what every feature of the proxy works with.
//!
//! ```text
//!      client ─► Session ─ input ─► (features: which link?) ─► Link ─ outgoing ─► node
//!      client ◄─ Session ◄ replies ◄──── Ticket, Owner ◄────── Link ◄ incoming ── node
//! ```
//!
//! A [`Session`](session::Session) reserves a place in its client's order for each request, whose number goes into the
//! [`Ticket`](link::Ticket) on the [`Link`](link::Link) that the request is queued on. [`Engine`](engine::Engine) has the links,
//! the memory that is held and the lists of what is to be done. What features keep with sessions and links is left
//! open by [`Features`](features::Features), and filled in by the crate above.
//!
//! Begin with these three types, then read `session/replies.rs` (the order of replies) and `link/outbox.rs` (the bytes of requests).
//!
//! ```
//! use engine::limits::Limits;
//!
//! let limits = Limits::default();
//! assert!(limits.pending_max >= 1, "a client may have a request in flight");
//! ```
//!
//! **Must not know** a command, a feature, a file descriptor, a clock or a thread. `Cargo.toml` names neither `command` nor `proxy`,
//! and the root's `clippy.toml` forbids clocks, threads and sockets.

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

/// Names one connection, of a client or to a node, for as long as it lives.
pub type ConnId = stdx::Id;
