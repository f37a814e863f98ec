//! The proxy's use of its links to nodes: profiles, pinned links, and proofs that nodes must give.

pub(crate) mod inspected;
pub(crate) mod inspection;
pub(crate) mod node_memory;
pub(crate) mod pinned;
pub(crate) mod pins;
pub(crate) mod profile;
pub(crate) mod profiles;
pub(crate) mod proof;
pub(crate) mod retire;
pub(crate) mod suspect;
pub(crate) mod upload;

pub(crate) use engine::link::kept;
pub(crate) use engine::link::profile::ProfileId;
pub(crate) use engine::link::{Due, LinkIx, Reported, State, Unfinished, Use, greeting};
