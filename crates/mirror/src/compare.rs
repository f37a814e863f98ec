//! Comparisons of the replies of both pools, by the rules of crate `command`.

use crate::replies::Reply;
use command::Compare;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The replies say the same.
    Same,
    /// The replies differ.
    Different,
    /// A reply is too long to compare.
    Uncompared,
}

/// Compares two replies by `rule`.
pub(crate) fn judge(rule: Compare, ours: &Reply, theirs: &Reply) -> Verdict {
    let (Reply::Whole(ours), Reply::Whole(theirs)) = (ours, theirs) else { return Verdict::Uncompared };
    if rule.are_same(ours, theirs) { Verdict::Same } else { Verdict::Different }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_replies_are_not_compared() {
        let short = |text: &str| Reply::Whole(text.as_bytes().to_vec());
        assert_eq!(judge(Compare::Exact, &Reply::TooLong, &Reply::TooLong), Verdict::Uncompared);
        assert_eq!(judge(Compare::Exact, &short(":1\r\n"), &short(":1\r\n")), Verdict::Same);
        assert_eq!(judge(Compare::Exact, &short(":1\r\n"), &short(":2\r\n")), Verdict::Different);
    }
}
