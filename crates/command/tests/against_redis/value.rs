//! Replies of a node as values, and arguments as requests.

use resp::reply;
use resp::{Request, Span, encode};

use crate::node::Node;

impl Node {
    /// Sends the words of `line` and returns the reply as a value.
    pub(crate) fn ask(&mut self, line: &str) -> Value {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        Value::of(&self.ask_raw(&words))
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Nil,
    Integer(i64),
    Text(String),
    Error(String),
    Array(Vec<Value>),
}

impl Value {
    pub(crate) fn of(bytes: &[u8]) -> Value {
        let line = || String::from_utf8_lossy(&bytes[1..bytes.len() - 2]).into_owned();
        match bytes[0] {
            b'+' => Value::Text(line()),
            b'-' => Value::Error(line()),
            b':' => Value::Integer(reply::as_integer(bytes).expect("an integer")),
            b'$' => reply::as_bulk(bytes)
                .map_or(Value::Nil, |body| Value::Text(String::from_utf8_lossy(body).into_owned())),
            _ => reply::elements(bytes).map_or(Value::Nil, |all| Value::Array(all.map(Value::of).collect())),
        }
    }

    pub(crate) fn array(&self) -> &[Value] {
        match self {
            Value::Array(elements) => elements,
            other => panic!("{other:?} is no array"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    /// This array with sorted elements, for arrays that Redis means as sets.
    pub(crate) fn sorted(&self) -> Value {
        let mut elements = self.array().to_vec();
        elements.sort();
        Value::Array(elements)
    }
}

/// Calls `test` with the request that `args` are.
pub(crate) fn with_request<Out>(args: &[&[u8]], test: impl FnOnce(&Request<'_>) -> Out) -> Out {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    encode::array_header(&mut bytes, args.len());
    for arg in args {
        encode::bulk(&mut bytes, arg);
        spans.push(Span { start: bytes.len() - 2 - arg.len(), len: arg.len() });
    }
    test(&Request::new(&bytes, &spans))
}
