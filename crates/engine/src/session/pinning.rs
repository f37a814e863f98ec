//! Progress of a client's large transfer.

use stdx::Id;

/// Progress of a client's large transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// There is none.
    #[default]
    No,
    /// There is none, but the client has changed its profile ([`crate::link::profile`]). No request is read until all
    /// earlier ones are answered.
    Turning,
    /// The client waits for a permit.
    Waiting(Id),
    /// The next request may use pinned links, once all earlier ones are answered.
    Ready(Id),
    /// The request is in flight on pinned links. No other request is read until it is answered.
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
