//! Forbidden words of code, and the one line that every file must begin with.

use super::Finding;
use super::permissions::Suspicion;
use super::source::Source;

/// Tokens in a row, the remedy, and the word by which a file can be permitted to have them.
const FORBIDDEN: &[(&[&str], &str, Option<&str>)] = &[
    (&["#", "[", "ignore"], "a test that does not run tests nothing; make it run, or remove it", None),
    (&["todo", "!"], "finish it, or refuse the case with an error", None),
    (&["thread", ":", ":", "sleep"], "wait for the event itself, with a deadline", Some("sleep")),
];

/// Forbidden tokens.
pub(super) fn check(source: &Source<'_>) -> Vec<Suspicion> {
    let suspicion =
        |line, text, permission| Suspicion { finding: Finding::new(source.path, line, text), permission };
    let mut suspicions = Vec::new();
    if !source.text.starts_with("//!") {
        let text = "the first line is not `//!`; say what the file is for, and what it never does";
        suspicions.push(suspicion(1, text.to_string(), None));
    }
    for (at, token) in source.tokens.iter().enumerate() {
        for (words, instead, permission) in FORBIDDEN {
            let here = source.tokens[at..].iter().map(|token| token.text.as_str()).take(words.len());
            if here.eq(words.iter().copied()) {
                suspicions.push(suspicion(
                    token.line,
                    format!("`{}`: {instead}", words.concat()),
                    permission.map(str::to_owned),
                ));
            }
        }
    }
    suspicions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let source = Source::parse("a.rs", text).expect("it is Rust");
        check(&source).iter().map(|suspicion| suspicion.finding.line).collect()
    }

    #[test]
    fn a_file_states_its_purpose() {
        assert_eq!(lines("//! A file.\nfn f() {}"), [0; 0]);
        assert_eq!(lines("fn f() {}"), [1]);
        assert_eq!(lines("#![no_main]\n//! Too late."), [1]);
    }

    #[test]
    fn forbidden_tokens_are_found_everywhere() {
        let text = "\
//! A file.
#[test]
#[ignore = \"slow\"]
fn f() {
    assert!(g(todo!()));
    std::thread::sleep(second);
}";
        assert_eq!(lines(text), [3, 5, 6]);
    }

    #[test]
    fn words_in_strings_and_comments_are_no_code() {
        assert_eq!(
            lines("//! A file.\n// thread::sleep, todo!\nconst TEXT: &str = \"#[ignore] todo!()\";"),
            [0; 0]
        );
    }
}
