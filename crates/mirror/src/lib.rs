//! A mirror: a share of a pool's requests goes to another pool as well, and the replies of both are compared. So an operator
//! sees what a migration would change before it happens.
//!
//! ```text
//!   worker ── bytes of its clients ──► Tap ══► a thread ─┬─► Shadow of client 1 ◄─► a connection to the other pool
//!                                                        └─► Shadow of client 2 ◄─► …
//! ```
//!
//! Begin with `shadow.rs`: one client's requests, sent again in its order over a connection of its own. `policy.rs` decides which
//! requests, and `compare.rs` which replies count as the same. `tap.rs` is all that a worker does: it copies bytes. `run.rs` has the
//! thread and the sockets, `status.rs` what operators see.
//!
//! The first pool waits for nothing. If the mirror's memory is full, or the other pool is slow or down, requests are left out of
//! the mirror and counted.
//!
//! **Must not know** a worker or a topology. Its dependencies are `command`, `resp`, `stdx` and tokio. The crate relaxes the lints of
//! the root's `clippy.toml` against clocks, threads and sockets in `run.rs`; all else is pure.

#![expect(clippy::disallowed_methods, reason = "the mirror has a thread, and differences have a time of day")]

mod compare;
mod policy;
mod replies;
mod run;
mod shadow;
mod status;
mod tap;

pub use policy::{Policy, SHARE_WHOLE};
pub use run::{Plan, Report, Target, start};
pub use status::{Difference, Status, Totals};
pub use tap::Tap;
