//! The way up: replies without the prefix. Each command's reply has a shape, which says where keys are.

use crate::namespace::{Namespace, Parts};
use engine::session::filter::Filter;
use resp::reply::{elements, is_error};
use resp::{encode, reply};
use std::sync::Arc;
use stdx::glob;

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
    /// The reply itself (RANDOMKEY).
    Key,
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
    /// The pattern of the names that the client wants, if it gets more.
    pub pattern: Option<Box<[u8]>>,
}

/// The names of keys for clients.
#[derive(Clone, Copy)]
struct Shown<'n> {
    namespace: &'n Namespace,
    pattern: Option<&'n [u8]>,
}

impl Filter for Stripped {
    fn apply(&self, reply: &[u8], out: &mut Vec<u8>) {
        let names = Shown { namespace: &self.namespace, pattern: self.pattern.as_deref() };
        match &self.expected {
            Expected::One(shape) => names.strip(*shape, reply, out),
            Expected::Exec(shapes) => match elements(reply).filter(|replies| replies.len() == shapes.len()) {
                Some(replies) => {
                    out.extend_from_slice(&reply[..reply.len() - replies.rest().len()]);
                    replies.zip(shapes).for_each(|(reply, shape)| names.strip(*shape, reply, out));
                }
                // The transaction has not run: an error, or nil.
                None if elements(reply).is_none() => names.strip(Shape::Errors, reply, out),
                None => encode::error(out, UNSHOWN.as_bytes()),
            },
        }
    }
}

impl Shown<'_> {
    /// Appends `reply` with the client's names where `shape` has keys. A key that the client has no name for is left out.
    fn strip(&self, shape: Shape, reply: &[u8], out: &mut Vec<u8>) {
        if is_error(reply) {
            return self.strip_error(reply, out);
        }
        if shape == Shape::Key {
            return self.strip_one(reply, out);
        }
        let Some(mut all) = elements(reply).filter(|_| !matches!(shape, Shape::Plain | Shape::Errors)) else {
            return out.extend_from_slice(reply);
        };
        let head = &reply[..reply.len() - all.rest().len()];
        match shape {
            Shape::Plain | Shape::Errors | Shape::Key => {}
            Shape::List => self.strip_list(reply, out),
            Shape::First => {
                out.extend_from_slice(head);
                all.next().into_iter().for_each(|key| self.strip_key(key, out));
                out.extend_from_slice(all.rest());
            }
            Shape::Pairs if reply.starts_with(b"%") => {
                out.extend_from_slice(head);
                while let (Some(key), Some(value)) = (all.next(), all.next()) {
                    self.strip_key(key, out);
                    out.extend_from_slice(value);
                }
            }
            Shape::Pairs => {
                out.extend_from_slice(head);
                all.for_each(|pair| self.strip(Shape::First, pair, out));
            }
            Shape::Page => {
                out.extend_from_slice(head);
                out.extend_from_slice(all.next().unwrap_or_default());
                all.for_each(|keys| self.strip_list(keys, out));
            }
        }
    }

    /// The client's name of the key that is `element`, if the client wants it.
    fn name<'k>(&'k self, element: &'k [u8]) -> Option<Parts<'k>> {
        let (head, tail) = self.namespace.of_client(reply::as_bulk(element)?)?;
        let is_wanted = self.pattern.is_none_or(|pattern| glob::matches(pattern, &[head, tail].concat()));
        is_wanted.then_some((head, tail))
    }

    fn strip_list(&self, list: &[u8], out: &mut Vec<u8>) {
        let Some(keys) = elements(list) else { return out.extend_from_slice(list) };
        encode::array_header(out, keys.clone().filter(|key| self.name(key).is_some()).count());
        keys.filter_map(|key| self.name(key)).for_each(|name| push_bulk(name, out));
    }

    /// Appends a key. One without a name becomes empty: its place must stay.
    fn strip_key(&self, key: &[u8], out: &mut Vec<u8>) {
        match reply::as_bulk(key) {
            Some(_) => push_bulk(self.name(key).unwrap_or_default(), out),
            None => out.extend_from_slice(key),
        }
    }

    /// Appends a key that is the whole reply, or nil.
    fn strip_one(&self, key: &[u8], out: &mut Vec<u8>) {
        match (reply::as_bulk(key), self.name(key)) {
            (None, _) => out.extend_from_slice(key),
            (Some(_), Some(name)) => push_bulk(name, out),
            (Some(_), None) => out.extend_from_slice(b"$-1\r\n"),
        }
    }

    /// Appends an error whose text may have keys in quotes.
    fn strip_error(&self, error: &[u8], out: &mut Vec<u8>) {
        // Without a prefix, any word in quotes could be a key. Redis says so of keys.
        let befores: &[&[u8]] =
            if self.namespace.route().is_some() { &[b"key '", b"key name '"] } else { &[b"'"] };
        let begins_key =
            |rest: &[u8]| befores.iter().find(|before| rest.starts_with(before)).map(|it| it.len());
        let mut rest = error;
        while let Some((at, len)) = (0..rest.len()).find_map(|at| Some((at, begins_key(&rest[at..])?))) {
            let (before, key) = rest.split_at(at + len);
            out.extend_from_slice(before);
            let end = key.iter().position(|&byte| byte == b'\'').unwrap_or(key.len());
            let (head, tail) = self.namespace.of_client(&key[..end]).unwrap_or((b"", &key[..end]));
            out.extend_from_slice(head);
            out.extend_from_slice(tail);
            // The quote at the end begins no other word.
            let closed = (end + 1).min(key.len());
            out.extend_from_slice(&key[end..closed]);
            rest = &key[closed..];
        }
        out.extend_from_slice(rest);
    }
}

/// Appends a bulk of two parts.
fn push_bulk((head, tail): Parts<'_>, out: &mut Vec<u8>) {
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(head.len() + tail.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::route::routed;

    /// `reply`, in which `|` stands for CR LF, without the prefix `n:`.
    fn stripped(expected: Expected, reply: &str) -> String {
        let namespace = Arc::new(Namespace::new("n:", false).expect("valid"));
        let mut out = Vec::new();
        Stripped { namespace, expected, pattern: None }
            .apply(reply.replace('|', "\r\n").as_bytes(), &mut out);
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
    fn replies_over_a_route_have_the_names_of_its_clients() {
        let shown = |on_nodes: &str, pattern: Option<&str>, shape, reply: &str| {
            let namespace = Arc::new(routed(&[("a:", Some(on_nodes)), ("a:b", None)], false));
            let pattern = pattern.map(|pattern| pattern.as_bytes().into());
            let mut out = Vec::new();
            let stripped = Stripped { namespace, expected: Expected::One(shape), pattern };
            stripped.apply(reply.replace('|', "\r\n").as_bytes(), &mut out);
            String::from_utf8(out).expect("text").replace("\r\n", "|")
        };
        let list = "*3|$1|1|$1|b|$1|2|";
        assert_eq!(shown("", None, Shape::List, list), "*2|$3|a:1|$3|a:2|");
        assert_eq!(shown("", Some("*:2"), Shape::List, list), "*1|$3|a:2|");
        assert_eq!(shown("a:", None, Shape::List, "*2|$3|a:1|$1|1|"), "*1|$3|a:1|");
        assert_eq!(shown("c:", None, Shape::Key, "$3|c:1|"), "$3|a:1|");
        assert_eq!(shown("c:", None, Shape::Key, "$3|x:1|"), "$-1|");
        assert_eq!(shown("c:", None, Shape::Key, "$-1|"), "$-1|");
        let error = "-NOGROUP No such key 's' or consumer group 'g'|";
        assert_eq!(shown("", None, Shape::Errors, error), error.replace("'s'", "'a:s'"));
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
