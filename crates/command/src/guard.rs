//! What the arguments of a command that is forwarded must not hold.
//!
//! The options are walked exactly as Redis walks them (sort.c of Redis 7.0): who takes a word for an
//! option where Redis takes it for an argument, or the other way round, lets through what must not pass. Where Redis
//! would stop with a syntax error the walk stops too: the node says it better.

use resp::Request;

use crate::carry::{Guard, Refusal};
use crate::keys::is_word;

impl Guard {
    /// Whether `request`, whose number of arguments fits, can be forwarded.
    pub fn check(self, request: &Request<'_>) -> Result<(), Refusal> {
        match self {
            Guard::Patterns if names_other_keys(request) => {
                Err(Refusal::Never("the keys that its BY or GET pattern names may live on other shards"))
            }
            Guard::Patterns => Ok(()),
        }
    }
}

/// Whether SORT or SORT_RO has a pattern that stands for keys: one with a `*`. `BY nosort` and `GET #` name none.
fn names_other_keys(request: &Request<'_>) -> bool {
    let mut at = 2;
    while let Some(word) = request.get(at) {
        at += match () {
            () if is_word(word, b"by") || is_word(word, b"get") => {
                if request.get(at + 1).is_some_and(|pattern| pattern.contains(&b'*')) {
                    return true;
                }
                2
            }
            () if is_word(word, b"asc") || is_word(word, b"desc") || is_word(word, b"alpha") => 1,
            () if is_word(word, b"limit") => 3,
            () if is_word(word, b"store") => 2,
            () => return false,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;

    fn passes(guard: Guard, line: &str) -> bool {
        with_request(line, |request| guard.check(request).is_ok())
    }

    #[test]
    fn a_sort_by_other_keys_is_held_back() {
        for line in [
            "SORT a BY w_*",
            "SORT a LIMIT 0 1 ALPHA get *->field",
            "SORT a GET # GET x*",
            "SORT a STORE BY BY w_*",
            "SORT_RO a BY nosort GET *",
            "SORT a BY\0 w_*",
        ] {
            assert!(!passes(Guard::Patterns, line), "{line}");
        }
        for line in [
            "SORT a",
            "SORT BY",
            "SORT * ASC",
            "SORT a BY nosort GET # DESC",
            "SORT a STORE w_*",
            "SORT a LIMIT BY w_*",
        ] {
            assert!(passes(Guard::Patterns, line), "{line}");
        }
    }
}
