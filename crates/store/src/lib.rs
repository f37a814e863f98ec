//! The embedded in-memory keyspace of one shard, for a proxy that has no nodes: Redis's commands without a Redis.
//!
//! ```text
//! request ─► dispatch: Row ─► arity ─► memory ─► strings, lists, … ─► Keyspace ─► Table ─► Entry ─► Value
//!                                                                        │
//!          work ─► expiry, freeing in steps ─────────────────────────────┘
//! ```
//!
//! [`Store::run`] takes one request and appends one RESP2 reply, byte for byte what Redis 7.0 says, errors included.
//! Nothing here does IO, knows a clock, starts a thread or is kept at exit: time is an argument, randomness comes from
//! the seed. A new command is a line in `dispatch`.

mod args;
mod bitfield;
mod bits;
mod connection;
mod dispatch;
mod double;
mod dump;
mod error;
mod expiry;
mod extended;
mod generic;
mod geo;
mod geohash;
mod group;
mod hash;
mod hashes;
mod help;
mod hyperloglog;
mod hyperloglogs;
mod info;
mod keyspace;
mod lcs;
mod limits;
mod list;
mod listpack;
mod lists;
mod lzf;
mod monitor;
mod policy;
mod rdb;
mod rdb_stream;
mod replies;
mod scan;
mod sequence;
mod set;
mod set_algebra;
mod sets;
mod sort;
mod stats;
mod store;
mod stream;
mod stream_groups;
mod stream_info;
mod streams;
mod strings;
mod table;
#[cfg(test)]
mod testing;
mod value;
mod zset;
mod zset_algebra;
mod zset_ranges;
mod zsets;

pub use dispatch::{commands, supports};
pub use limits::{Limit, limits};
pub use policy::{EvictionPolicy, UnknownPolicy};
pub use store::{Store, StoreSettings};
