//! Bounds of scripts, and behaviour at each.

use mlua::Error;

use crate::raise::{OUT_OF_MEMORY, Raised};

/// Memory of all scripts of a store together, in bytes. An allocation beyond it fails with `not enough memory`.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Bytes that one call of a library builds outside of Lua's memory. More fail with `not enough memory`.
pub(crate) const BYTES_AT_ONCE_MAX: usize = 64 << 20;

/// Values that one call returns, and words of a command. References of native code to Lua values have a limit of 8,000.
pub(crate) const VALUES_AT_ONCE_MAX: usize = 4_000;

/// Nested tables of a reply.
pub(crate) const REPLY_DEPTH_MAX: usize = 1_000;

/// Instructions between two looks at the clock.
pub(crate) const INSTRUCTIONS_PER_LOOK: u32 = 10_000;

/// Text that ends a script whose time is over.
pub(crate) const TIME_OVER: &str = "script ran longer than the limit and was ended; its writes so far remain";

pub(crate) fn out_of_memory() -> Error {
    Raised::Text(OUT_OF_MEMORY.into()).error()
}
