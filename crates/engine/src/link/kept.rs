//! Whether a request may be sent again, and how often it was.

/// Whether the bytes of a request are kept until it is answered, why, and how often it was redirected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept(u8);

impl Kept {
    /// They are not: nobody will ask again.
    pub const NO: Kept = Kept(0);
    /// They are, in case its node declines it.
    pub const UNTIL_RUN: Kept = Kept(1);
    /// They are: it changes nothing, so that it may be asked again whatever became of it.
    pub const READ: Kept = Kept(IS_READ | 1);

    /// [`Kept::READ`] if `reads`.
    #[inline]
    pub fn only_if(reads: bool) -> Kept {
        if reads { Kept::READ } else { Kept::NO }
    }

    /// Whether they are kept.
    #[inline]
    pub fn is_kept(self) -> bool {
        self != Kept::NO
    }

    /// Whether it changes nothing.
    #[inline]
    pub fn is_read(self) -> bool {
        self.0 & IS_READ != 0
    }

    /// Whether it may be asked on another connection than the one that it is in flight on, for no fault of its own.
    #[inline]
    pub(crate) fn may_be_repeated(self) -> bool {
        self.0 & (IS_READ | IS_REPEATED) == IS_READ
    }

    /// The same for a read that is asked again since its connection failed or was clogged: that is done once.
    #[inline]
    pub(crate) fn repeated(self) -> Kept {
        Kept(self.0 | IS_REPEATED)
    }

    /// How often it was sent.
    #[inline]
    fn times(self) -> u8 {
        self.0 & !(IS_READ | IS_REPEATED)
    }

    /// The same, redirected once more; `None` if that was done too often.
    #[inline]
    pub(crate) fn redirected(self) -> Option<Kept> {
        let times = self.times().max(Kept::UNTIL_RUN.times());
        (times <= REDIRECTS_MAX).then_some(Kept(self.0 & (IS_READ | IS_REPEATED) | (times + 1)))
    }

    /// Whether it is where a node has said that it belongs, and perhaps not where the topology says.
    #[inline]
    pub fn was_redirected(self) -> bool {
        self.times() > Kept::UNTIL_RUN.times()
    }
}

/// Beside the number of times that it was sent: it changes nothing.
const IS_READ: u8 = 0x80;
/// Beside that: it was asked again, on another connection.
const IS_REPEATED: u8 = 0x40;
/// A request is sent to so many other nodes at most, as by most clients of Redis Cluster: a slot that is reported
/// elsewhere by each node that is asked will be so by the next.
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
