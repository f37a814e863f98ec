//! Names connection profiles.

/// Names a profile of this worker for its lifetime only. A late event must not use the links of another profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProfileId {
    /// The index of the profile.
    pub index: u16,
    /// The number of earlier uses of the index. A profile lives for some seconds at least, so days pass until this
    /// wraps.
    pub generation: u16,
}

impl ProfileId {
    /// The profile of database 0 and RESP2, with which every client begins.
    pub const FIRST: ProfileId = ProfileId { index: 0, generation: 0 };
    /// No profile, over which no request goes.
    pub const NONE: ProfileId = ProfileId { index: u16::MAX, generation: u16::MAX };
}
