//! Texts of errors name their subject: none begins with "it", at its start or behind the key that it is about.

use super::Finding;
use super::source::{Source, Token};

/// Crates whose errors operators read.
const FOLDERS: &[&str] = &[
    "crates/local/src/",
    "crates/shardis/src/",
    "crates/tcp/src/",
    "crates/topology/src/",
    "crates/users/src/",
];
/// Words whose texts only programmers read: calls, and the attribute that is a doc.
const INVARIANTS: &[&str] = &["assert", "debug_assert", "doc", "expect", "panic", "unreachable"];
const TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// Texts without a subject, outside of tests.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let is_product =
        FOLDERS.iter().any(|folder| source.path.starts_with(folder)) && !source.path.contains("test");
    let tokens = if is_product { before_tests(&source.tokens) } else { &[] };
    let faulty = tokens
        .iter()
        .enumerate()
        .filter(|(at, token)| is_faulty(&token.text) && !is_invariant(&tokens[..*at]));
    let text = "this text begins with `it`: say which key, file or node";
    faulty.map(|(_, token)| Finding::new(source.path, token.line, text)).collect()
}

fn before_tests(tokens: &[Token]) -> &[Token] {
    let begins = |window: &[Token]| window.iter().map(|token| token.text.as_str()).eq(TESTS);
    let end = tokens.windows(TESTS.len()).position(begins).unwrap_or(tokens.len());
    &tokens[..end]
}

fn is_faulty(token: &str) -> bool {
    token.starts_with("\"it ") || (token.starts_with('"') && token.contains(": it "))
}

/// Whether a text behind `before` belongs to such a word.
fn is_invariant(before: &[Token]) -> bool {
    let mut words = before
        .iter()
        .rev()
        .map(|token| token.text.as_str())
        .skip_while(|word| ["(", "!", "="].contains(word));
    words.next().is_some_and(|word| INVARIANTS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let source = Source::parse(path, text).expect("the text is Rust");
        check(&source).iter().map(|finding| finding.line).collect()
    }

    const TEXT: &str = "/// A key: it is documented.\nfn f() {\n    Err(\"it fails\");\n    format!(\"{key}: it fails\");\n    \
                        x.expect(\"it is\");\n    panic!(\"it was\");\n    Err(\"key fails: bit 1\");\n}\n\
                        #[cfg(test)]\nmod tests {\n    const A: &str = \"it is\";\n}";

    #[test]
    fn texts_that_begin_with_it_are_found() {
        assert_eq!(lines("crates/shardis/src/a.rs", TEXT), [3, 4]);
    }

    #[test]
    fn tests_and_tools_are_left_alone() {
        assert_eq!(lines("crates/shardis/src/config/tests.rs", TEXT), [0; 0]);
        assert_eq!(lines("xtask/src/a.rs", TEXT), [0; 0]);
    }
}
