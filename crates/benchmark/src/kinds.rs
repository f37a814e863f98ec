//! Kinds of requests by name, and the checks of their replies. Pure.

use crate::sizes::{Sizes, is_stamped};
use crate::template::{Literal, Template};
use resp::reply;
use std::collections::VecDeque;

/// One kind of request of a workload.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// As reports name it.
    pub(crate) name: String,
    pub(crate) template: Template,
    pub(crate) check: Check,
}

/// The reply that `--verify` expects. In every case an error is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Anything.
    Anything,
    /// These bytes.
    Bytes(&'static [u8]),
    /// An integer.
    Integer,
    /// Nothing, or the stamped value of the key.
    Value,
    /// An array with the same for each key.
    Values,
}

/// Names, requests (divided by `;`) and checks. `N` in a name is a number, by which the words in brackets are repeated.
const KINDS: &[(&str, &str, Check)] = &[
    ("ping", "PING", Check::Bytes(b"+PONG\r\n")),
    ("get", "GET __key__", Check::Value),
    ("set", "SET __key__ __data__", Check::Bytes(b"+OK\r\n")),
    ("setex", "SET __key__ __data__ EX __expire__", Check::Bytes(b"+OK\r\n")),
    ("setnx", "SETNX __key__ __data__", Check::Integer),
    ("append", "APPEND log:__rand_int__ __data__", Check::Integer),
    ("strlen", "STRLEN __key__", Check::Integer),
    ("incr", "INCR counter:__rand_int__", Check::Integer),
    ("decr", "DECR counter:__rand_int__", Check::Integer),
    ("del", "DEL __key__", Check::Integer),
    ("unlink", "UNLINK __key__", Check::Integer),
    ("exists", "EXISTS __key__", Check::Integer),
    ("expire", "EXPIRE __key__ __expire__", Check::Integer),
    ("ttl", "TTL __key__", Check::Integer),
    ("mgetN", "MGET [__key__]", Check::Values),
    ("msetN", "MSET [__key__ __data__]", Check::Bytes(b"+OK\r\n")),
    ("lpush", "LPUSH list:__rand_int__ __data__", Check::Integer),
    ("rpush", "RPUSH list:__rand_int__ __data__", Check::Integer),
    ("lpop", "LPOP list:__rand_int__", Check::Anything),
    ("rpop", "RPOP list:__rand_int__", Check::Anything),
    ("llen", "LLEN list:__rand_int__", Check::Integer),
    ("lrangeN", "LRANGE list:__rand_int__ 0 N", Check::Anything),
    ("sadd", "SADD set:__rand_int__ element:__rand_int__", Check::Integer),
    ("srem", "SREM set:__rand_int__ element:__rand_int__", Check::Integer),
    ("sismember", "SISMEMBER set:__rand_int__ element:__rand_int__", Check::Integer),
    ("scard", "SCARD set:__rand_int__", Check::Integer),
    ("spop", "SPOP set:__rand_int__", Check::Anything),
    ("hset", "HSET hash:__rand_int__ field:__rand_int__ __data__", Check::Integer),
    ("hget", "HGET hash:__rand_int__ field:__rand_int__", Check::Anything),
    ("hdel", "HDEL hash:__rand_int__ field:__rand_int__", Check::Integer),
    ("hincrby", "HINCRBY numbers:__rand_int__ field:__rand_int__ 1", Check::Integer),
    ("hgetall", "HGETALL hash:__rand_int__", Check::Anything),
    ("zadd", "ZADD zset:__rand_int__ __rand_int__ element:__rand_int__", Check::Integer),
    ("zincrby", "ZINCRBY zset:__rand_int__ 1 element:__rand_int__", Check::Anything),
    ("zscore", "ZSCORE zset:__rand_int__ element:__rand_int__", Check::Anything),
    ("zrangeN", "ZRANGE zset:__rand_int__ 0 N", Check::Anything),
    ("zpopmin", "ZPOPMIN zset:__rand_int__", Check::Anything),
    ("pfadd", "PFADD hll:__rand_int__ __rand_int__", Check::Integer),
    ("pfcount", "PFCOUNT hll:__rand_int__", Check::Integer),
    ("xadd", "XADD stream:__rand_int__ MAXLEN ~ 1000 * field __data__", Check::Anything),
    ("xrangeN", "XRANGE stream:__rand_int__ - + COUNT N", Check::Anything),
    ("xreadN", "XREAD COUNT N STREAMS stream:__rand_int__ 0", Check::Anything),
    ("xlen", "XLEN stream:__rand_int__", Check::Integer),
    ("transaction", "MULTI;SET __key__ __data__;GET key:__again__;EXEC", Check::Anything),
];

/// Repetitions of a name without a number.
const COUNT_DEFAULT: usize = 10;
/// Keys or elements of one request.
const COUNT_MAX: usize = 10_000;

/// The requests of the kind `name`, as lists of words, and the check of their replies.
pub(crate) fn named(name: &str) -> Result<(Vec<Vec<String>>, Check), String> {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let digits = &name[stem.len()..];
    let known = |&&(known, ..): &&(&str, &str, Check)| match known.strip_suffix('N') {
        Some(known) => known == stem,
        None => known == name,
    };
    let Some((_, text, check)) = KINDS.iter().find(known) else {
        let names: Vec<_> = KINDS.iter().map(|(name, ..)| name.replace('N', "10")).collect();
        return Err(format!("{name} is no kind of request; write one of {}", names.join(", ")));
    };
    let count = if digits.is_empty() { Some(COUNT_DEFAULT) } else { digits.parse().ok() };
    let count = count.filter(|count| (1..=COUNT_MAX).contains(count));
    let count = count.ok_or_else(|| format!("{name}: write a number from 1 to {COUNT_MAX}"))?;
    Ok((text.split(';').map(|request| words(request, count)).collect(), *check))
}

/// The words of one request, those in brackets repeated.
fn words(request: &str, count: usize) -> Vec<String> {
    let (before, repeated) = match request.split_once('[') {
        Some((before, rest)) => (before, rest.trim_end_matches(']')),
        None => (request, ""),
    };
    let counted = |word: &str| if word == "N" { count.to_string() } else { word.to_owned() };
    let once = before.split_whitespace().map(counted);
    let again = (0..count).flat_map(|_| repeated.split_whitespace().map(str::to_owned));
    once.chain(again).collect()
}

impl Kind {
    /// The kind that `name` names.
    pub(crate) fn named(name: &str, is_cluster: bool) -> Result<Kind, String> {
        let (requests, check) = named(name)?;
        Ok(Kind::of(&name.to_uppercase(), &requests, check, is_cluster))
    }

    /// A kind of these requests. In a cluster all keys of a request get one hash tag.
    pub(crate) fn of(name: &str, requests: &[Vec<String>], check: Check, is_cluster: bool) -> Kind {
        let tagged = |word: &String| word.replace("__key__", "key:__rand_int__").replace(":__", ":{tag}:__");
        let words = |request: &Vec<String>| request.iter().map(tagged).collect();
        let template = match is_cluster {
            true => Template::new(&requests.iter().map(words).collect::<Vec<_>>(), Literal::Nothing, true),
            false => Template::new(requests, Literal::Nothing, false),
        };
        Kind { name: name.to_owned(), template, check }
    }

    /// Whether a reply is right. Takes the numbers of the request's keys from `numbers`.
    pub(crate) fn is_right(&self, reply: &[u8], numbers: &mut VecDeque<u64>, sizes: &Sizes) -> bool {
        let is_value = |value: &[u8], number: u64| match reply::as_bulk(value) {
            Some(value) => sizes.permit(value.len()) && is_stamped(number, value),
            None => reply::is_null(value),
        };
        match self.check {
            Check::Anything => !reply::is_error(reply),
            Check::Bytes(expected) => reply == expected,
            Check::Integer => reply::as_integer(reply).is_some(),
            Check::Value => numbers.front().is_some_and(|&number| is_value(reply, number)),
            Check::Values => {
                let values = reply::elements(reply).filter(|values| values.len() == self.template.numbers());
                values
                    .is_some_and(|values| values.zip(numbers).all(|(value, number)| is_value(value, *number)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(kind: &str, reply: &str, numbers: &[u64]) -> bool {
        let mut numbers: VecDeque<u64> = numbers.iter().copied().collect();
        Kind::named(kind, false).expect("known").is_right(reply.as_bytes(), &mut numbers, &Sizes::Fixed(3))
    }

    #[test]
    fn every_kind_has_a_request() {
        for (name, ..) in KINDS {
            let (requests, _) = named(&name.replace('N', "3")).expect("known");
            assert!(requests.iter().all(|words| !words.is_empty()), "{name}");
        }
        assert_eq!(
            named("mset2").expect("known").0,
            [["MSET", "__key__", "__data__", "__key__", "__data__"]]
        );
        assert_eq!(named("lrange100").expect("known").0, [["LRANGE", "list:__rand_int__", "0", "100"]]);
        assert_eq!(named("mget").expect("known").0[0].len(), 11);
    }

    #[test]
    fn unknown_kinds_are_refused_with_the_known_ones() {
        for name in ["", "gets", "get5", "mget0", "mget10001"] {
            assert!(named(name).is_err(), "{name}");
        }
        assert!(named("gets").expect_err("unknown").contains("ping, get, set"));
    }

    #[test]
    fn wrong_replies_differ_from_right_ones() {
        assert!(is_right("set", "+OK\r\n", &[]) && !is_right("set", "$-1\r\n", &[]));
        assert!(is_right("incr", ":5\r\n", &[]) && !is_right("incr", "-ERR no\r\n", &[]));
        assert!(is_right("lpop", "$-1\r\n", &[]) && !is_right("lpop", "-ERR no\r\n", &[]));
        assert!(is_right("get", "$-1\r\n", &[1]) && is_right("get", "$3\r\n100\r\n", &[1]));
        assert!(!is_right("get", "$4\r\n1000\r\n", &[1]), "another size");
        assert!(!is_right("get", "$3\r\n100\r\n", &[2]), "another key's");
        assert!(is_right("mget2", "*2\r\n$-1\r\n$3\r\n200\r\n", &[1, 2]));
        assert!(!is_right("mget2", "*1\r\n$-1\r\n", &[1, 2]), "too few");
    }
}
