//! External formats of numbers, places and whole values: in replies, in scores, in Redis's dumps.

pub(crate) mod double;
pub(crate) mod extended;
pub(crate) mod geohash;
pub(crate) mod listpack;
pub(crate) mod literal;
pub(crate) mod lzf;
pub(crate) mod rdb;
pub(crate) mod rdb_stream;
