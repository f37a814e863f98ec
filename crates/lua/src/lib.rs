//! Lua 5.1 as Redis 7.0 runs scripts, for the embedded store.
//!
//! ```text
//! store ─► Interpreter::run ─► prelude.lua ─► script ─► redis.call ─► ScriptRun ─► store
//!                                               │
//!                          cjson, cmsgpack, struct, bit, string ...
//! ```
//!
//! [`LuaInterpreter`] implements [`store::Interpreter`]. Lua itself comes with the crate `mlua`, built from its C sources.
//! `sandbox.rs` has the globals of scripts, `prelude.lua` their part in Lua, `api.rs` the library `redis`, and `convert.rs`
//! the way between replies and Lua values.
//!
//! A script can be wrong in any way and must not harm the process. Memory has a limit, which the allocator of Lua enforces.
//! Time has a limit: a hook looks at the clock once in some thousand instructions, and so do the native functions that can run
//! long. `limits.rs` has all bounds.
//!
//! **Must not know** sockets, threads or the proxy. The clock is read here, and only to end a script: no value of a script
//! depends on it but `os.clock`.

// Only to end scripts that run too long: see `state.rs`.
#![allow(clippy::disallowed_methods, reason = "the time of a script is bounded by the clock")]

mod api;
mod args;
mod bits;
mod cjson;
mod cmsgpack;
mod convert;
mod functions;
mod interpreter;
mod limits;
mod packing;
mod patterns;
mod raise;
mod random;
mod raw;
mod sandbox;
mod state;
mod text;

pub use interpreter::LuaInterpreter;
pub use limits::MEMORY_BYTES_MAX;
