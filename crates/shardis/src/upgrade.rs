//! An upgrade: a new process, started from the binary on disk, takes the place of this one. No client is refused or dropped.
//!
//! ```text
//!   old process                                    new process
//!   SIGUSR2 ─► starts it ───── its stdin ────────► reads its configuration
//!   listening sockets, Begin ────────────────────► takes them over, connects to the nodes
//!          ◄──────────────────────────── Ready     (if it ends or takes too long before: nothing has happened)
//!   accepts no more, Go ─────────────────────────► accepts
//!   each client once it is idle ─────────────────► takes it over, or declines it
//!          ◄─────────────────── Taken, Declined
//!   ends with its last client
//! ```
//!
//! - The new process writes `Taken` before it reads from the client. So exactly one process reads from a client at any time.
//!   If the new one ends before it has written that, the client stays with the old one.
//! - `channel.rs` moves messages and descriptors, `message.rs` says what they are. `successor.rs` is the part of the old
//!   process, `predecessor.rs` that of the new one, `leaving.rs` that of a worker of the old one.
//! - The state of a client is made and read by `proxy` (`ClientState`).
//! - `Farewell` of the new process says that it is being upgraded itself and takes no more clients.

pub(crate) mod channel;
pub(crate) mod command;
pub(crate) mod leaving;
pub(crate) mod message;
pub(crate) mod predecessor;
pub(crate) mod program;
pub(crate) mod successor;

/// Clients that are on their way to the new process at once. Their answers fit into the channel's buffer, so that a worker that
/// writes one never waits.
pub(crate) const CLIENTS_UNDER_WAY_MAX: usize = 64;
