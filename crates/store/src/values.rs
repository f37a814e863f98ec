//! Values of keys: data without names, times or replies.

pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod hyperloglog;
pub(crate) mod list;
pub(crate) mod sequence;
pub(crate) mod set;
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod value;
pub(crate) mod zset;
