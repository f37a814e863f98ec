//! Users and requests for this crate's tests.

use crate::rules::join_selectors;
use crate::user::User;
use resp::{Request, Span, encode};

/// The user `u` that `rules`, separated by blanks, make.
pub(crate) fn user(rules: &str) -> User {
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let mut user = User::new(b"u");
    for rule in join_selectors(&words).expect("parentheses are closed") {
        user.apply(&rule).unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(&rule)));
    }
    user
}

/// Calls `test` with the request of the blank-separated words of `line`.
pub(crate) fn with_request<Out>(line: &str, test: impl FnOnce(&Request<'_>) -> Out) -> Out {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    let words: Vec<_> = line.split(' ').collect();
    encode::array_header(&mut bytes, words.len());
    for word in words {
        encode::bulk(&mut bytes, word.as_bytes());
        spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
    }
    test(&Request::new(&bytes, &spans))
}
