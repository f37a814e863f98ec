//! The embedded in-memory keyspace of one shard, for a proxy that has no nodes: Redis's commands without a Redis.
//!
//! ```text
//! request ─► dispatch: Row ─► arity ─► memory ─► commands::* ─► Keyspace ─► Table ─► Entry ─► Value
//!                                                                  │
//!          work ─► expiry, freeing in steps ───────────────────────┘
//! ```
//!
//! Begin with [`Store`], its [`StoreSettings`], and [`Scratch`], a keyspace for one command. [`Store::admit`] begins a
//! connection, which has a database, a protocol and a transaction of its own. [`Store::run`] takes one request of one
//! connection and appends one reply. Replies and errors equal those of Redis 7.0 byte for byte.
//!
//! ```
//! use resp::{Request, Span};
//! use store::{Store, StoreSettings};
//!
//! let mut store = Store::new(StoreSettings::default());
//! let client = store.admit();
//! let bytes = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
//! let spans = [Span { start: 8, len: 4 }, Span { start: 18, len: 1 }];
//! let mut reply = Vec::new();
//! store.run(client, &Request::new(bytes, &spans), 1_000, &mut reply);
//! assert_eq!(reply, b":1\r\n");
//! ```
//!
//! A new command is a line in `dispatch.rs`, which names the function that runs it. `commands/` has a file for each family of
//! commands, `values/` one for each kind of value. `formats/` has the external formats of values (Redis's dumps). `keyspace.rs`
//! has expiry, eviction and the account of memory.
//!
//! Every command that changes a key reports it once, to `audience.rs`: for clients that watch the key, wait for it, or listen
//! to notifications. `waiting.rs` collects their replies and pushes. After the request they are ready as [`Delivery`].
//!
//! **Must not know** the proxy, IO, a clock or a thread. Time is an argument, randomness comes from the seed, and the store
//! saves nothing. It knows no language of scripts but the trait [`Interpreter`]. Of our crates it depends on `command` (for the trait [`command::Evaluator`]), `resp` and `stdx`. The root's
//! `clippy.toml` forbids clocks, threads and sockets.

mod args;
mod audience;
mod caller_id;
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
mod requests;
mod rows;
mod scratch;
mod stats;
mod store;
mod table;
#[cfg(test)]
mod testing;
mod values;
mod waiting;

pub use caller_id::CallerId;
pub use commands::scripting::{
    Allowed, Entry, Interpreter, LibraryFunction, ScriptFlags, ScriptRun, is_function_name,
};
pub use database::DATABASES;
pub use dispatch::{commands, supports};
pub use limits::{Limit, limits};
pub use policy::{EvictionPolicy, UnknownPolicy};
pub use scratch::Scratch;
pub use store::{Ran, Store, StoreSettings};
pub use waiting::Delivery;
