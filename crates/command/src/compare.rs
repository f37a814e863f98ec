//! Comparisons of replies that two servers give to the same request.
//!
//! | command | the replies are the same if |
//! | --- | --- |
//! | most | their bytes are |
//! | of a set or a hash, whose order is open (tip `nondeterministic_output_order`) | their elements are, in any order |
//! | whose reply is open (tip `nondeterministic_output`) | both are errors, or neither is |
//! | any, with an error | the first words of both errors are |

use crate::command::Command;
use crate::sets::Tips;
use resp::reply;

/// The rule for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compare {
    /// All bytes.
    Exact,
    /// The elements in any order.
    Unordered,
    /// The same for fields and their values, which stay together.
    Pairs,
    /// Only whether it is an error.
    Kind,
}

impl Compare {
    /// Whether two complete replies say the same.
    pub fn are_same(self, ours: &[u8], theirs: &[u8]) -> bool {
        match (reply::is_error(ours), reply::is_error(theirs)) {
            (true, true) => first_word(ours) == first_word(theirs),
            (false, false) => match self {
                Compare::Exact => ours == theirs,
                Compare::Unordered => ours == theirs || sorted(ours, 1) == sorted(theirs, 1),
                Compare::Pairs => ours == theirs || sorted(ours, 2) == sorted(theirs, 2),
                Compare::Kind => true,
            },
            _ => false,
        }
    }
}

impl Command {
    /// The rule for its replies.
    pub fn comparison(&self) -> Compare {
        let has = |tip| self.tips.contains(Tips::of(tip));
        match () {
            () if matches!(&*self.name, "spop" | "xadd") => Compare::Exact,
            () if self.name == "hgetall" => Compare::Pairs,
            () if has("nondeterministic_output") => Compare::Kind,
            () if has("nondeterministic_output_order") => Compare::Unordered,
            () => Compare::Exact,
        }
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

    fn judged(compare: Compare, ours: &str, theirs: &str) -> bool {
        compare.are_same(ours.as_bytes(), theirs.as_bytes())
    }

    #[test]
    fn the_order_of_elements_counts_only_where_it_is_defined() {
        let (one, other) = ("*2\r\n:1\r\n:2\r\n", "*2\r\n:2\r\n:1\r\n");
        assert!(judged(Compare::Exact, one, one));
        assert!(!judged(Compare::Exact, one, other));
        assert!(judged(Compare::Unordered, one, other));
        assert!(!judged(Compare::Unordered, one, "*2\r\n:2\r\n:2\r\n"));
        assert!(judged(Compare::Kind, one, "$-1\r\n"));
    }

    #[test]
    fn pairs_of_fields_and_values_stay_together() {
        let one = "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n";
        assert!(judged(Compare::Pairs, one, "*4\r\n+b\r\n:2\r\n+a\r\n:1\r\n"));
        assert!(!judged(Compare::Pairs, one, "*4\r\n+a\r\n:2\r\n+b\r\n:1\r\n"));
        let one = "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n";
        assert!(judged(Compare::Unordered, one, "%2\r\n+b\r\n:2\r\n+a\r\n:1\r\n"));
        assert!(!judged(Compare::Unordered, one, "%2\r\n+a\r\n:2\r\n+b\r\n:1\r\n"));
    }

    #[test]
    fn errors_are_compared_by_their_codes() {
        assert!(judged(Compare::Exact, "-ERR shard a\r\n", "-ERR shard b\r\n"));
        assert!(!judged(Compare::Exact, "-ERR a\r\n", "-WRONGTYPE a\r\n"));
        assert!(judged(Compare::Exact, "-ERR a\r\n", "!5\r\nERR b\r\n"));
        assert!(!judged(Compare::Kind, "-ERR a\r\n", "+OK\r\n"));
    }
}
