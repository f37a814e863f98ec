//! The embedded in-memory keyspace of one shard, for a proxy that has no nodes: Redis's commands without a Redis.
//!
//! ```text
//! request ─► dispatch: Row ─► arity ─► memory ─► commands::* ─► Keyspace ─► Table ─► Entry ─► Value
//!                                                                  │
//!          work ─► expiry, freeing in steps ───────────────────────┘
//! ```
//!
//! [`Store::run`] takes one request and appends one RESP2 reply, byte for byte what Redis 7.0 says, errors included.
//! Nothing here does IO, knows a clock, starts a thread or is kept at exit: time is an argument, randomness comes from
//! the seed. A new command is a line in `dispatch`.

mod args;
mod commands;
mod dispatch;
mod error;
mod formats;
mod keyspace;
mod limits;
mod policy;
mod replies;
mod scratch;
mod stats;
mod store;
mod table;
#[cfg(test)]
mod testing;
mod values;

pub use dispatch::{commands, supports};
pub use limits::{Limit, limits};
pub use policy::{EvictionPolicy, UnknownPolicy};
pub use scratch::Scratch;
pub use store::{Store, StoreSettings};
