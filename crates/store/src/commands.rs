//! The commands, in one file for each family. Each function reads a request, works on the keyspace and appends the reply.
//! `dispatch` maps names to functions.

pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod blocking;
pub(crate) mod compiled;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod dump;
pub(crate) mod expiry;
pub(crate) mod functions;
pub(crate) mod generic;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod help;
pub(crate) mod hyperloglogs;
pub(crate) mod info;
pub(crate) mod lcs;
pub(crate) mod lists;
pub(crate) mod monitor;
pub(crate) mod pubsub;
pub(crate) mod scan;
pub(crate) mod scripting;
pub(crate) mod scripts;
pub(crate) mod set_algebra;
pub(crate) mod sets;
pub(crate) mod sort;
pub(crate) mod stream_groups;
pub(crate) mod stream_info;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod transactions;
pub(crate) mod wanted;
pub(crate) mod zset_algebra;
pub(crate) mod zset_ranges;
pub(crate) mod zsets;
