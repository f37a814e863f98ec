//! When two replies say the same.

use super::table::Compare;
use resp::reply::{as_integer, elements, is_null};

/// The reason why `got` does not agree with `expected`, if it does not.
pub(crate) fn disagreement(compare: Compare, expected: &[u8], got: &[u8]) -> Option<String> {
    if expected == got {
        return None;
    }
    if expected.first() != got.first() {
        return Some("replies are not of the same type".to_owned());
    }
    let agree = match compare {
        Compare::Exact => false,
        Compare::Unordered => multiset(expected, 1).is_some() && multiset(expected, 1) == multiset(got, 1),
        Compare::UnorderedPairs => {
            multiset(expected, 2).is_some() && multiset(expected, 2) == multiset(got, 2)
        }
        Compare::Page => page(expected, 1).is_some() && page(expected, 1) == page(got, 1),
        Compare::PageOfPairs => page(expected, 2).is_some() && page(expected, 2) == page(got, 2),
        Compare::Near(distance) => match (as_integer(expected), as_integer(got)) {
            // A negative value is a code, not a time.
            (Some(expected @ 0..), Some(got @ 0..)) => expected.abs_diff(got) <= distance.unsigned_abs(),
            _ => false,
        },
        Compare::Shape => shape(expected).is_some() && shape(expected) == shape(got),
    };
    (!agree).then(|| format!("replies differ, compared as {compare:?}"))
}

/// Elements of a reply in groups, sorted: equal if the same groups are there, in any order.
type Groups<'a> = Vec<Vec<&'a [u8]>>;

/// The elements of an array reply in groups of `group`.
fn multiset(reply: &[u8], group: usize) -> Option<Groups<'_>> {
    let elements: Vec<&[u8]> = elements(reply)?.collect();
    let mut groups: Groups<'_> = elements.chunks(group).map(<[_]>::to_vec).collect();
    groups.sort_unstable();
    Some(groups)
}

/// The two parts of a reply of the SCAN family.
fn page(reply: &[u8], group: usize) -> Option<(&[u8], Groups<'_>)> {
    let mut parts = elements(reply)?;
    Some((parts.next()?, multiset(parts.next()?, group)?))
}

/// The type of a reply, and its number of elements. An error has no shape of its own.
fn shape(reply: &[u8]) -> Option<(u8, usize, bool)> {
    match reply.first()? {
        b'-' => None,
        kind @ (b'*' | b'%' | b'~') => {
            Some((*kind, elements(reply).map_or(0, |elements| elements.len()), is_null(reply)))
        }
        kind => Some((*kind, 0, is_null(reply))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[u8] = b"*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n";
    const PAIRS_SWAPPED: &[u8] = b"*4\r\n:3\r\n:4\r\n:1\r\n:2\r\n";
    const PAIRS_BROKEN: &[u8] = b"*4\r\n:2\r\n:1\r\n:3\r\n:4\r\n";

    #[test]
    fn order_counts_only_where_redis_has_one() {
        assert!(disagreement(Compare::Exact, ONE, PAIRS_SWAPPED).is_some());
        assert!(disagreement(Compare::Unordered, ONE, PAIRS_BROKEN).is_none());
        assert!(disagreement(Compare::UnorderedPairs, ONE, PAIRS_SWAPPED).is_none());
        assert!(disagreement(Compare::UnorderedPairs, ONE, PAIRS_BROKEN).is_some());
        assert!(disagreement(Compare::Unordered, b"*2\r\n:1\r\n:1\r\n", b"*1\r\n:1\r\n").is_some());
    }

    #[test]
    fn errors_are_compared_byte_for_byte_however_loose_the_rest() {
        for compare in [Compare::Unordered, Compare::Near(5), Compare::Shape, Compare::Page] {
            assert!(disagreement(compare, b"-ERR a\r\n", b"-ERR b\r\n").is_some(), "{compare:?}");
            assert!(disagreement(compare, b":1\r\n", b"-ERR b\r\n").is_some(), "{compare:?}");
        }
    }

    #[test]
    fn times_may_differ_and_signs_may_not() {
        assert!(disagreement(Compare::Near(2), b":100\r\n", b":98\r\n").is_none());
        assert!(disagreement(Compare::Near(2), b":100\r\n", b":97\r\n").is_some());
        assert!(disagreement(Compare::Near(2), b":-1\r\n", b":-2\r\n").is_some());
        assert!(disagreement(Compare::Shape, b"$-1\r\n", b"$1\r\na\r\n").is_some());
    }
}
