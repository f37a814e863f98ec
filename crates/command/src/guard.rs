//! Arguments that forbid to forward a command.
//!
//! The options are parsed exactly as Redis does it (sort.c of Redis 7.0). A parser that confuses options with arguments would
//! forward forbidden requests. Where Redis would stop with a syntax error the parser stops too: the node's error is better.

use resp::Request;

use crate::carry::{Guard, Naming, Refusal};
use crate::keys::is_word;
use resp::integer::parse_i64;

impl Guard {
    /// Whether `request`, whose number of arguments fits, can be forwarded.
    pub fn check(self, request: &Request<'_>) -> Result<(), Refusal> {
        match self {
            Guard::Patterns if names_other_keys(request) => {
                Err(Refusal::Never("the keys that its BY or GET pattern names may live on other shards"))
            }
            Guard::Patterns | Guard::Database(_) => Ok(()),
        }
    }
}

impl Naming {
    /// The databases in `request`, up to the first argument that Redis refuses before it reads on.
    pub fn databases(self, request: &Request<'_>) -> Vec<i64> {
        match self {
            Naming::Both => request.args().skip(1).filter_map(parse_i64).collect(),
            Naming::Last => request.get(request.len() - 1).and_then(parse_i64).into_iter().collect(),
            Naming::Option => {
                let (mut found, mut at) = (Vec::new(), 3);
                while let Some(word) = request.get(at) {
                    let database = || parse_i64(request.get(at + 1)?);
                    match () {
                        () if is_word(word, b"replace") => at += 1,
                        () if is_word(word, b"db")
                            && let Some(database) = database() =>
                        {
                            found.push(database);
                            at += 2;
                        }
                        () => break,
                    }
                }
                found
            }
        }
    }
}

/// Whether SORT or SORT_RO has a pattern that stands for keys: one with a `*`. `BY nosort` and `GET #` name none.
fn names_other_keys(request: &Request<'_>) -> bool {
    sort_option(request, |_, pattern| pattern.contains(&b'*')).is_some()
}

/// The first `BY` or `GET` of SORT or SORT_RO that Redis permits only to users who may read all keys. It is a BY with a
/// pattern, or any GET.
pub fn sort_option_of_all_keys(request: &Request<'_>) -> Option<&'static str> {
    sort_option(request, |option, pattern| option == "GET" || pattern.contains(&b'*'))
}

/// Calls `found` with the place of each argument of SORT or SORT_RO that names keys: the key, targets, and patterns that
/// stand for keys. Unlike the keys of [`Command::each_key`](crate::Command::each_key), these are all that Redis reads.
pub fn each_name_of_sort(request: &Request<'_>, found: &mut impl FnMut(usize)) {
    found(1);
    let mut at = 2;
    while let Some(word) = request.get(at) {
        let is = |option: &[u8]| is_word(word, option);
        let value = request.get(at + 1);
        at += match () {
            () if is(b"asc") || is(b"desc") || is(b"alpha") => 1,
            () if is(b"limit") => 3,
            () if is(b"by") || is(b"get") => {
                if value.is_some_and(|pattern| pattern.contains(&b'*')) {
                    found(at + 1);
                }
                2
            }
            () if is(b"store") => {
                found(at + 1);
                2
            }
            () => return,
        };
    }
}

/// The first BY or GET of SORT or SORT_RO, with its pattern, that `fits`.
fn sort_option(request: &Request<'_>, fits: impl Fn(&'static str, &[u8]) -> bool) -> Option<&'static str> {
    let mut at = 2;
    while let Some(word) = request.get(at) {
        at += match () {
            () if is_word(word, b"by") || is_word(word, b"get") => {
                let option = if is_word(word, b"by") { "BY" } else { "GET" };
                if request.get(at + 1).is_some_and(|pattern| fits(option, pattern)) {
                    return Some(option);
                }
                2
            }
            () if is_word(word, b"asc") || is_word(word, b"desc") || is_word(word, b"alpha") => 1,
            () if is_word(word, b"limit") => 3,
            () if is_word(word, b"store") => 2,
            () => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;

    fn passes(guard: Guard, line: &str) -> bool {
        with_request(line, |request| guard.check(request).is_ok())
    }

    #[test]
    fn databases_are_found_where_redis_finds_them() {
        let databases = |naming: Naming, line| with_request(line, |request| naming.databases(request));
        assert_eq!(databases(Naming::Last, "MOVE 3 16"), [16]);
        assert_eq!(databases(Naming::Last, "MOVE 3 x"), [0; 0]);
        assert_eq!(databases(Naming::Both, "SWAPDB 3 16"), [3, 16]);
        for (line, expected) in [
            ("COPY a b", &[][..]),
            ("COPY DB 1 db 2 REPLACE DB 3", &[2, 3]),
            ("COPY a b replace DB", &[]),
            ("COPY a b nosuch DB 2", &[]),
            ("COPY a b DB x DB 2", &[]),
        ] {
            assert_eq!(databases(Naming::Option, line), expected, "{line}");
        }
    }

    #[test]
    fn all_names_of_a_sort_are_found() {
        for (line, expected) in [
            ("SORT a", &[1][..]),
            ("SORT a BY w_* GET # GET o_*->f LIMIT 0 1 DESC STORE b", &[1, 3, 7, 13]),
            ("SORT a BY nosort STORE b STORE c", &[1, 5, 7]),
            ("SORT a STORE LIMIT STORE b", &[1, 3, 5]),
            ("SORT a nosuch STORE b", &[1]),
        ] {
            let mut found = Vec::new();
            with_request(line, |request| each_name_of_sort(request, &mut |at| found.push(at)));
            assert_eq!(found, expected, "{line}");
        }
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
