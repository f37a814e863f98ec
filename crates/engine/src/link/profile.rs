//! Names connection profiles.

/// Names a profile of this worker for as long as it lives, and nothing afterwards: what comes late must not go over the
/// connections of somebody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProfileId {
    /// Its place.
    pub index: u16,
    /// How often the place was given away before. A profile lives for some seconds at least: until this wraps, days pass.
    pub generation: u16,
}

impl ProfileId {
    /// That of database 0 and RESP2, in which every client begins.
    pub const FIRST: ProfileId = ProfileId { index: 0, generation: 0 };
    /// There is no such profile, and nothing goes over it.
    pub const NONE: ProfileId = ProfileId { index: u16::MAX, generation: u16::MAX };
}
