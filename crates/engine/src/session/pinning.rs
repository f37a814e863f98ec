//! How far a client has come with a large transfer.

use stdx::Id;

/// How far a client has come with a large transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// It has none.
    #[default]
    No,
    /// It has none, and has changed its profile ([`crate::link::profile`]): no request is read until all earlier ones were answered.
    Turning,
    /// It waits for a permit.
    Waiting(Id),
    /// Its next request may be carried out on pinned connections, once all earlier ones were answered.
    Ready(Id),
    /// That was done; no other request is read until it was answered.
    Busy(Id),
}

impl Pinning {
    /// The pin's name.
    #[inline]
    pub fn id(self) -> Option<Id> {
        match self {
            Pinning::No | Pinning::Turning => None,
            Pinning::Waiting(id) | Pinning::Ready(id) | Pinning::Busy(id) => Some(id),
        }
    }

    /// Whether it has a permit.
    #[inline]
    pub fn has_permit(self) -> bool {
        matches!(self, Pinning::Ready(_) | Pinning::Busy(_))
    }
}
