//! The way up: replies without the prefix. Each command's reply has a shape, which says where keys are.

use crate::namespace::Namespace;
use engine::session::filter::Filter;
use resp::reply::{elements, is_error};
use resp::{encode, reply};
use std::sync::Arc;

/// The error in place of a transaction's replies whose number is not that of its commands, which cannot be.
const UNSHOWN: &str = "ERR the transaction has run, and its replies cannot be shown in a namespace";

/// Where the keys are in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nowhere.
    Plain,
    /// In the text of an error alone, in quotes.
    Errors,
    /// Each element of a list (KEYS).
    List,
    /// The first element (BLPOP, LMPOP).
    First,
    /// The first element of each element, or the names of a map (XREAD).
    Pairs,
    /// Each element of the second element (SCAN).
    Page,
}

/// The reply that a place waits for.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// Of one command.
    One(Shape),
    /// Of EXEC, with those of the queued commands.
    Exec(Vec<Shape>),
}

impl Expected {
    /// Whether there may be keys in it.
    pub(crate) fn has_keys(&self) -> bool {
        match self {
            Expected::One(shape) => *shape != Shape::Plain,
            Expected::Exec(shapes) => shapes.iter().any(|shape| *shape != Shape::Plain),
        }
    }
}

/// Takes the prefix from the keys of one reply.
#[derive(Debug)]
pub(crate) struct Stripped {
    pub namespace: Arc<Namespace>,
    pub expected: Expected,
}

impl Filter for Stripped {
    fn apply(&self, reply: &[u8], out: &mut Vec<u8>) {
        let prefix = self.namespace.prefix();
        match &self.expected {
            Expected::One(shape) => strip(prefix, *shape, reply, out),
            Expected::Exec(shapes) => match elements(reply).filter(|replies| replies.len() == shapes.len()) {
                Some(replies) => {
                    out.extend_from_slice(&reply[..reply.len() - replies.rest().len()]);
                    replies.zip(shapes).for_each(|(reply, shape)| strip(prefix, *shape, reply, out));
                }
                // The transaction has not run: an error, or nil.
                None if elements(reply).is_none() => strip(prefix, Shape::Errors, reply, out),
                None => encode::error(out, UNSHOWN.as_bytes()),
            },
        }
    }
}

/// Appends `reply` without `prefix` where `shape` has keys. A key without the prefix is not the namespace's, and is left out.
fn strip(prefix: &[u8], shape: Shape, reply: &[u8], out: &mut Vec<u8>) {
    if is_error(reply) {
        return strip_error(prefix, reply, out);
    }
    let Some(mut all) = elements(reply).filter(|_| !matches!(shape, Shape::Plain | Shape::Errors)) else {
        return out.extend_from_slice(reply);
    };
    let head = &reply[..reply.len() - all.rest().len()];
    match shape {
        Shape::Plain | Shape::Errors => {}
        Shape::List => strip_list(prefix, reply, out),
        Shape::First => {
            out.extend_from_slice(head);
            all.next().into_iter().for_each(|key| strip_key(prefix, key, out));
            out.extend_from_slice(all.rest());
        }
        Shape::Pairs if reply.starts_with(b"%") => {
            out.extend_from_slice(head);
            while let (Some(key), Some(value)) = (all.next(), all.next()) {
                strip_key(prefix, key, out);
                out.extend_from_slice(value);
            }
        }
        Shape::Pairs => {
            out.extend_from_slice(head);
            all.for_each(|pair| strip(prefix, Shape::First, pair, out));
        }
        Shape::Page => {
            out.extend_from_slice(head);
            out.extend_from_slice(all.next().unwrap_or_default());
            all.for_each(|keys| strip_list(prefix, keys, out));
        }
    }
}

fn strip_list(prefix: &[u8], list: &[u8], out: &mut Vec<u8>) {
    let own = |element: &[u8]| reply::as_bulk(element).is_some_and(|key| key.starts_with(prefix));
    let Some(keys) = elements(list) else { return out.extend_from_slice(list) };
    encode::array_header(out, keys.clone().filter(|key| own(key)).count());
    keys.filter(|key| own(key)).for_each(|key| strip_key(prefix, key, out));
}

/// Appends a key. One without the prefix becomes empty: its place must stay.
fn strip_key(prefix: &[u8], key: &[u8], out: &mut Vec<u8>) {
    match reply::as_bulk(key) {
        Some(key) => encode::bulk(out, key.strip_prefix(prefix).unwrap_or_default()),
        None => out.extend_from_slice(key),
    }
}

/// Appends an error whose text may have keys in quotes.
fn strip_error(prefix: &[u8], error: &[u8], out: &mut Vec<u8>) {
    let quoted = [b"'", prefix].concat();
    let mut rest = error;
    while let Some(at) = rest.windows(quoted.len()).position(|window| window == quoted) {
        out.extend_from_slice(&rest[..=at]);
        rest = &rest[at + quoted.len()..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `reply`, in which `|` stands for CR LF, without the prefix `n:`.
    fn stripped(expected: Expected, reply: &str) -> String {
        let namespace = Arc::new(Namespace::new("n:", false).expect("valid"));
        let mut out = Vec::new();
        Stripped { namespace, expected }.apply(reply.replace('|', "\r\n").as_bytes(), &mut out);
        String::from_utf8(out).expect("text").replace("\r\n", "|")
    }

    #[test]
    fn keys_lose_the_prefix_where_the_shape_has_them() {
        let cases = [
            (Shape::Plain, "$3|n:a|", "$3|n:a|"),
            (Shape::List, "*2|$3|n:a|$5|n:n:b|", "*2|$1|a|$3|n:b|"),
            (Shape::List, "*2|$3|n:a|$3|x:b|", "*1|$1|a|"),
            (Shape::List, "*0|", "*0|"),
            (Shape::First, "*2|$3|n:a|$3|n:v|", "*2|$1|a|$3|n:v|"),
            (Shape::First, "*2|$3|n:a|*1|*2|$1|m|:1|", "*2|$1|a|*1|*2|$1|m|:1|"),
            (Shape::First, "*-1|", "*-1|"),
            (Shape::First, "_|", "_|"),
            (Shape::Pairs, "*1|*2|$3|n:a|*1|$3|n:x|", "*1|*2|$1|a|*1|$3|n:x|"),
            (Shape::Pairs, "%1|$3|n:a|*1|$3|n:x|", "%1|$1|a|*1|$3|n:x|"),
            (Shape::Page, "*2|$1|0|*1|$3|n:a|", "*2|$1|0|*1|$1|a|"),
            (
                Shape::Errors,
                "-NOGROUP No such key 'n:a' or group 'n:g'|",
                "-NOGROUP No such key 'a' or group 'g'|",
            ),
            (Shape::Page, "-ERR invalid cursor|", "-ERR invalid cursor|"),
        ];
        for (shape, reply, expected) in cases {
            assert_eq!(stripped(Expected::One(shape), reply), expected, "{shape:?}");
        }
    }

    #[test]
    fn replies_of_a_transaction_have_the_shapes_of_its_commands() {
        let exec = || Expected::Exec(vec![Shape::Plain, Shape::First]);
        assert_eq!(stripped(exec(), "*2|$3|n:v|*2|$3|n:a|$1|b|"), "*2|$3|n:v|*2|$1|a|$1|b|");
        assert_eq!(stripped(exec(), "*-1|"), "*-1|");
        assert_eq!(stripped(exec(), "-EXECABORT no|"), "-EXECABORT no|");
        assert_eq!(stripped(exec(), "*1|$3|n:a|"), format!("-{UNSHOWN}|"));
    }
}
