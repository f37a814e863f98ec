//! Requests for this crate's tests.

use resp::{Request, Span, encode};

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

/// The error that the request of `line` gets before it is carried anywhere.
pub(crate) fn error_of(line: &str) -> String {
    with_request(line, |request| {
        let mut out = Vec::new();
        crate::resolve(request).write_error(&mut out, request);
        String::from_utf8(out).expect("text")
    })
}
