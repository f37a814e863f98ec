//! Types that std lacks, without a word of the domain: instants as plain values, a generational slab, and byte queues that
//! return their memory. There are also glob patterns, and a seeded random number generator.
//!
//! ```text
//!     socket ─► ByteQueue ─► parser          buffers: BufferPool::take ─► ByteQueue ─► BufferPool::give
//!     Slab::insert ─► Id ─► Slab::get        an Id outlives its entry, and then finds nothing
//! ```
//!
//! Begin with [`Slab`] and its [`Id`], [`ByteQueue`] with [`BufferPool`], and [`Instant`].
//!
//! ```
//! use stdx::Slab;
//!
//! let mut sessions = Slab::default();
//! let id = sessions.insert("alice");
//! assert_eq!(sessions.remove(id), Some("alice"));
//! sessions.insert("bob");
//! assert_eq!(sessions.get(id), None, "an old id never finds a later entry");
//! ```
//!
//! **Must not know** anything of Redis or of this project. `Cargo.toml` has no dependency, and the root's `clippy.toml` forbids
//! clocks, threads and sockets: an [`Instant`] is a number that the caller brings.

pub mod bytes;
pub mod glob;
pub mod prng;
pub mod slab;
pub mod time;

pub use bytes::{BUFFER_BYTES_MIN, BufferPool, ByteQueue, append, make_room};
pub use prng::Prng;
pub use slab::{Id, Slab};
pub use time::Instant;
