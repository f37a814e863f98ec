//! Sentences of comments: no sentence begins with a clause without a subject, such as "What is left" or "Who waits", and no
//! quantity is "so many".
//!
//! Only crates whose comments were rewritten are looked at. Another is added once its sentences are.

use super::Finding;
use super::source::Source;

const CRATES: &[&str] = &["driver", "local", "resp", "stdx", "tcp", "topology", "users"];
const BEGINNINGS: &[&str] = &["What", "Who", "Whoever", "Whom"];
/// With "So" before them.
const QUANTITIES: &[&str] = &["long", "many", "much", "often"];
/// Characters that end a sentence, or a clause of its own.
const ENDS: &[char] = &['.', ':', ';', '?', '!'];

/// Sentences that name no subject.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let is_looked_at = CRATES.iter().any(|name| source.path.starts_with(&format!("crates/{name}/")));
    if is_looked_at { faults(source) } else { Vec::new() }
}

fn faults(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut begins, mut before, mut is_code) = (true, "", false);
    for (index, line) in source.text.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            (begins, is_code) = (true, false);
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim();
        is_code ^= text.starts_with("```");
        if is_code || text.is_empty() {
            begins = true;
            continue;
        }
        for word in text.split_whitespace() {
            let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
            let is_quantity = before == "So" && QUANTITIES.contains(&bare);
            if is_quantity || (begins && BEGINNINGS.contains(&bare)) {
                let text = format!("a sentence of this comment begins with `{bare}`: name its subject");
                findings.push(Finding::new(source.path, index + 1, text));
            }
            before = if begins { bare } else { "" };
            begins = word.ends_with(ENDS);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let source = Source::parse(path, text).expect("it is Rust");
        check(&source).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn beginnings_without_a_subject_are_found() {
        let text = "//! What it is.\n\n/// A sentence. Who waits\n/// is told. So\n/// many: what\nfn f() {}\n// Whoever asks.";
        assert_eq!(lines("crates/tcp/src/a.rs", text), [1, 3, 5, 7]);
    }

    #[test]
    fn the_same_words_within_a_sentence_and_in_code_are_fine() {
        let text = "//! It says what it is,\n//! who asks, and so many.\n//!\n//! ```text\n//! What?\n//! ```\nfn f() { \"What\"; }";
        assert_eq!(lines("crates/tcp/src/a.rs", text), [0; 0]);
    }

    #[test]
    fn crates_that_are_still_to_be_rewritten_are_left_alone() {
        assert_eq!(lines("crates/proxy/src/a.rs", "//! What it is."), [0; 0]);
    }
}
