//! Comparisons of replies.
//!
//! | command | the replies are the same if |
//! | --- | --- |
//! | most | their bytes are |
//! | of a set or a hash, whose order is open (tip `nondeterministic_output_order`) | their elements are, in any order |
//! | whose reply is open (tip `nondeterministic_output`) | both are errors, or neither is |
//! | any, with an error | the first words of both errors are |

use crate::replies::Reply;
use resp::reply;

/// The rule for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Compare {
    /// All bytes.
    Exact,
    /// The elements in any order.
    Unordered,
    /// The same for fields and their values, which stay together.
    Pairs,
    /// Only whether it is an error.
    Kind,
}

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

impl Compare {
    /// Compares two replies.
    pub(crate) fn judge(self, ours: &Reply, theirs: &Reply) -> Verdict {
        let (Reply::Whole(ours), Reply::Whole(theirs)) = (ours, theirs) else { return Verdict::Uncompared };
        let is_same = match (reply::is_error(ours), reply::is_error(theirs)) {
            (true, true) => first_word(ours) == first_word(theirs),
            (false, false) => match self {
                Compare::Exact => ours == theirs,
                Compare::Unordered => ours == theirs || sorted(ours, 1) == sorted(theirs, 1),
                Compare::Pairs => ours == theirs || sorted(ours, 2) == sorted(theirs, 2),
                Compare::Kind => true,
            },
            _ => false,
        };
        if is_same { Verdict::Same } else { Verdict::Different }
    }
}

/// The first word of an error: its code.
fn first_word(error: &[u8]) -> &[u8] {
    let text = match error.first() {
        Some(b'!') => error.splitn(2, |&byte| byte == b'\n').nth(1).unwrap_or_default(),
        _ => error.get(1..).unwrap_or_default(),
    };
    text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default()
}

/// The elements of a reply in an order of their own, `size` of them at a time, or two of a map.
fn sorted(reply: &[u8], size: usize) -> Option<Vec<Vec<&[u8]>>> {
    let size = if reply.first() == Some(&b'%') { 2 } else { size };
    let elements: Vec<&[u8]> = reply::elements(reply)?.collect();
    let mut groups: Vec<Vec<&[u8]>> = elements.chunks(size).map(<[&[u8]]>::to_vec).collect();
    groups.sort_unstable();
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(compare: Compare, ours: &str, theirs: &str) -> Verdict {
        let reply = |text: &str| Reply::Whole(text.as_bytes().to_vec());
        compare.judge(&reply(ours), &reply(theirs))
    }

    #[test]
    fn the_order_of_elements_counts_only_where_it_is_defined() {
        let (one, other) = ("*2\r\n:1\r\n:2\r\n", "*2\r\n:2\r\n:1\r\n");
        assert_eq!(judged(Compare::Exact, one, one), Verdict::Same);
        assert_eq!(judged(Compare::Exact, one, other), Verdict::Different);
        assert_eq!(judged(Compare::Unordered, one, other), Verdict::Same);
        assert_eq!(judged(Compare::Unordered, one, "*2\r\n:2\r\n:2\r\n"), Verdict::Different);
        assert_eq!(judged(Compare::Kind, one, "$-1\r\n"), Verdict::Same);
    }

    #[test]
    fn pairs_of_fields_and_values_stay_together() {
        let one = "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n";
        assert_eq!(judged(Compare::Pairs, one, "*4\r\n+b\r\n:2\r\n+a\r\n:1\r\n"), Verdict::Same);
        assert_eq!(judged(Compare::Pairs, one, "*4\r\n+a\r\n:2\r\n+b\r\n:1\r\n"), Verdict::Different);
        let one = "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n";
        assert_eq!(judged(Compare::Unordered, one, "%2\r\n+b\r\n:2\r\n+a\r\n:1\r\n"), Verdict::Same);
        assert_eq!(judged(Compare::Unordered, one, "%2\r\n+a\r\n:2\r\n+b\r\n:1\r\n"), Verdict::Different);
    }

    #[test]
    fn errors_are_compared_by_their_codes() {
        assert_eq!(judged(Compare::Exact, "-ERR shard a\r\n", "-ERR shard b\r\n"), Verdict::Same);
        assert_eq!(judged(Compare::Exact, "-ERR a\r\n", "-WRONGTYPE a\r\n"), Verdict::Different);
        assert_eq!(judged(Compare::Exact, "-ERR a\r\n", "!5\r\nERR b\r\n"), Verdict::Same);
        assert_eq!(judged(Compare::Kind, "-ERR a\r\n", "+OK\r\n"), Verdict::Different);
    }

    #[test]
    fn long_replies_are_not_compared() {
        assert_eq!(Compare::Exact.judge(&Reply::TooLong, &Reply::TooLong), Verdict::Uncompared);
    }
}
