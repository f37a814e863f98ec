//! Whole copies of a shard, one in each rack. All get the same writes in the same order. A consistency level says how many of
//! them decide about a reply.
//!
//! ```text
//!   workers ─► requests ─► class ─┬─► read: one copy, or a quorum
//!                                 ├─► write: all copies, in one order    ┐
//!                                 ├─► effect: one copy ─► look ─► others ├─► replies ─► workers
//!                                 └─► refused                            ┘
//!   a copy misses a write ─► hint (journal, durable) ─► catches up by looks ─► up again
//!                            too many ─► stale ─► repaired key by key ─► up again
//! ```
//!
//! Begin with [`Machine`]: events in, [`Action`]s out. `requests.rs` is the way down, `replies.rs` the way up, `task.rs` decides by
//! the [`Level`]. `looks.rs` copies a key from one copy to others; `upkeep.rs` does so for racks that have missed something.
//! `class.rs` says which commands are treated how, and which are refused since no treatment keeps copies equal.
//!
//! Rules:
//!
//! 1. A write is acknowledged if its level is met, and no other copy can miss it unnoticed. Each other copy has answered, or a
//!    durable hint has the keys, or the copy is durably stale.
//! 2. A copy with hints, or a stale one, is not read from and does not count.
//! 3. A hint names a key and no command. To play it back is to copy the key from a copy that has not missed it.
//! 4. A request whose key is being copied waits. So nothing is written between the reading and the writing of a copied value.
//! 5. Before requests go over a new connection, the node ends the one before, so that none of its bytes arrive later.
//!
//! **Must not know** a socket, a file, a clock or a thread: bytes and the time come in, actions go out. Its dependencies are
//! `command`, `resp` and `stdx`.

mod class;
mod client;
mod copy;
mod errors;
mod hints;
mod journal;
mod layout;
mod level;
mod link;
mod looks;
mod machine;
mod replies;
mod requests;
mod settings;
mod status;
mod task;
#[cfg(test)]
mod testing;
mod upkeep;
mod value;

pub use journal::{Kept, KeptHint, Record, Session, Stale};
pub use layout::{Overlap, TokenShard, token_shards};
pub use level::{Level, RACKS_MAX};
pub use machine::{Action, Machine, Notice};
pub use settings::{Login, Rack, Settings};
pub use status::{Counts, RackState, RackStatus, Status};
