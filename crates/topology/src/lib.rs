//! The owner of each key: hash functions, tag rules and distributions, joined in one immutable [`Topology`].
//!
//! ```text
//!     key ─► TagRule::tag ─► HashFunction::hash ─► modulo, ring or slots ─► ShardId
//!            (what counts)   (32 bits)             (a table made once)
//! ```
//!
//! Begin with [`TopologySpec`], the [`Topology`] that it makes, and [`ShardId`]. [`discovery`] learns topologies that change from
//! the nodes of a Redis Cluster or from sentinels.
//!
//! ```
//! use topology::{Topology, TopologySpec, parse_nodes};
//!
//! let nodes = parse_nodes("127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381")?;
//! let topology = Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() })?;
//! assert_eq!(topology.shard_of(b"cart{42}"), topology.shard_of(b"user{42}"));
//! # Ok::<(), topology::TopologyError>(())
//! ```
//!
//! Everything here is bit-exact with the proxies whose data it takes over (redis-sharding, twemproxy, predixy, codis, Redis
//! Cluster). One wrong bit moves keys to nodes that do not have them. So their defects are copied too, each named where it
//! stands.
//!
//! **Must not know** a command, a client or a socket. Of our crates it depends on `resp` and `stdx`, to parse the replies of
//! nodes to discovery. The root's `clippy.toml` forbids clocks, threads and sockets. A lookup allocates nothing.

pub mod discovery;
mod distribution;
mod error;
mod hash;
mod ketama;
mod members;
mod modulo;
mod node;
mod routes;
mod shares;
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
pub use routes::{ROUTES_MAX, Routes, begins_with};
pub use slots::{SLOTS, slot_of, slot_ranges};
pub use table::Returning;
pub use tag::TagRule;
pub use topology::{Topology, TopologySpec};
