//! Whether a request may be sent again, and how often it was sent.

/// Whether and why the bytes of a request are kept until it is answered, and how often it was redirected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept(u8);

impl Kept {
    /// Not kept: the request is never sent again.
    pub const NO: Kept = Kept(0);
    /// Kept in case the node declines the request.
    pub const UNTIL_RUN: Kept = Kept(1);
    /// Kept because the request changes nothing: it may be sent again whatever happened to it.
    pub const READ: Kept = Kept(IS_READ | 1);

    /// [`Kept::READ`] if `reads`.
    #[inline]
    pub fn only_if(reads: bool) -> Kept {
        if reads { Kept::READ } else { Kept::NO }
    }

    /// Whether the bytes are kept.
    #[inline]
    pub fn is_kept(self) -> bool {
        self != Kept::NO
    }

    /// Whether the request changes nothing.
    #[inline]
    pub fn is_read(self) -> bool {
        self.0 & IS_READ != 0
    }

    /// Whether the request may move from its link to another, through no fault of its own.
    #[inline]
    pub(crate) fn may_be_repeated(self) -> bool {
        self.0 & (IS_READ | IS_REPEATED) == IS_READ
    }

    /// Whether the request was sent again for a reason that counts once.
    #[inline]
    pub(crate) fn was_repeated(self) -> bool {
        self.0 & IS_REPEATED != 0
    }

    /// The next value for a request that is sent again because its link failed or was clogged, or since a script was
    /// missing. This happens once.
    #[inline]
    pub(crate) fn repeated(self) -> Kept {
        Kept(self.0 | IS_REPEATED)
    }

    /// Number of nodes that the request was sent to.
    #[inline]
    fn times(self) -> u8 {
        self.0 & !(IS_READ | IS_REPEATED)
    }

    /// Number of times that the request was sent.
    pub fn tries(self) -> u8 {
        self.times().max(1) + u8::from(self.0 & IS_REPEATED != 0)
    }

    /// The next value for a request that is redirected once more; `None` if it was redirected too often.
    #[inline]
    pub(crate) fn redirected(self) -> Option<Kept> {
        let times = self.times().max(Kept::UNTIL_RUN.times());
        (times <= REDIRECTS_MAX).then_some(Kept(self.0 & (IS_READ | IS_REPEATED) | (times + 1)))
    }

    /// Whether a node has named the present place of the request, perhaps against the topology.
    #[inline]
    pub fn was_redirected(self) -> bool {
        self.times() > Kept::UNTIL_RUN.times()
    }
}

/// Flag beside the number: the request changes nothing.
const IS_READ: u8 = 0x80;
/// Flag beside the number: the request was sent again, see [`Kept::repeated`].
const IS_REPEATED: u8 = 0x40;
/// Redirects of one request, as in most clients of Redis Cluster. If each node that was asked names another, so will
/// the next one.
const REDIRECTS_MAX: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_redirected_five_times() {
        for begins in [Kept::READ, Kept::UNTIL_RUN] {
            let (mut kept, mut times) = (begins, 0);
            while let Some(next) = kept.redirected() {
                (kept, times) = (next, times + 1);
                assert_eq!(kept.is_read(), begins.is_read());
            }
            assert_eq!(times, REDIRECTS_MAX);
        }
    }
}
