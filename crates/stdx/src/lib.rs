//! What std lacks, without a word of the domain: instants as plain values, a generational slab, byte queues that
//! give their memory back, glob patterns, and a seeded random number generator.

pub mod bytes;
pub mod glob;
pub mod prng;
pub mod slab;
pub mod time;

pub use bytes::{BUFFER_BYTES_MIN, BufferPool, ByteQueue, append, make_room};
pub use prng::Prng;
pub use slab::{Id, Slab};
pub use time::Instant;
