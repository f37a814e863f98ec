//! The embedded in-memory keyspace of one shard, for a proxy that has no nodes: Redis's commands without a Redis.
//!
//! ```text
//! request ─► dispatch: Row ─► arity ─► memory ─► commands::* ─► Keyspace ─► Table ─► Entry ─► Value
//!                                                                  │
//!          work ─► expiry, freeing in steps ───────────────────────┘
//! ```
//!
//! [`Store::admit`] begins a connection, which has a state of its own: its database, its protocol. [`Store::run`] takes
//! one request of one connection and appends one reply, byte for byte what Redis 7.0 says, errors included.
//! What others are to be told, because they wait for a key or are subscribed, lies ready afterwards as [`Delivery`].
//! Nothing here does IO, knows a clock, starts a thread or is kept at exit: time is an argument, randomness comes from
//! the seed. A new command is a line in `dispatch`.

mod args;
mod audience;
mod callers;
mod channels;
mod commands;
mod database;
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
mod waiting;

pub use callers::CallerId;
pub use database::DATABASES;
pub use dispatch::{commands, supports};
pub use limits::{Limit, limits};
pub use policy::{EvictionPolicy, UnknownPolicy};
pub use scratch::Scratch;
pub use store::{Ran, Store, StoreSettings};
pub use waiting::Delivery;
