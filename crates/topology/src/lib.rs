//! Who owns which key: hash functions, tag rules and distributions, joined in one immutable [`Topology`].
//!
//! ```text
//!     key ─► TagRule::tag ─► HashFunction::hash ─► modulo, ring or slots ─► ShardId
//!            (what counts)   (32 bits)             (a table made once)
//! ```
//!
//! Everything here is bit-exact with the proxies whose data it takes over (redis-sharding, twemproxy, predixy,
//! codis, Redis Cluster): one wrong bit moves keys to nodes that do not have them. So their defects are copied too,
//! each named where it stands. Nothing here does IO, and a lookup allocates nothing.
//!
//! [`discovery`] learns topologies that change from those who know them.

pub mod discovery;
mod distribution;
mod error;
mod hash;
mod ketama;
mod members;
mod modulo;
mod node;
mod slots;
mod table;
mod tag;
mod topology;

pub use distribution::{Distribution, random_shard};
pub use error::TopologyError;
pub use hash::HashFunction;
pub use ketama::ring_points;
pub use members::{Node, NodeId, Shard, ShardId, ShardSpec};
pub use node::{Address, NODES_MAX, NodeSpec, WEIGHT_MAX, parse_nodes};
pub use slots::{SLOTS, slot_of, slot_ranges};
pub use table::Returning;
pub use tag::TagRule;
pub use topology::{Topology, TopologySpec};
