//! Lines of the log: a stable name of the form `noun state`, and all else as key=value. Operators search for names and parse
//! keys. A sentence permits neither, and changes with every better wording.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;

const MACROS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];
const WORDS_MAX: usize = 4;
/// Words of a sentence.
const OF_SENTENCES: &[&str] = &[
    "a", "an", "are", "cannot", "does", "is", "it", "its", "no", "not", "that", "the", "this", "was", "were",
];
/// States that need one of them.
const PERMITTED: &[&str] = &["library not stored"];

/// Names that are none.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut lines = LogLines { path: source.path, findings: Vec::new() };
    lines.visit_file(&source.file);
    lines.findings
}

struct LogLines<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl<'ast> Visit<'ast> for LogLines<'_> {
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let name = item.path.segments.last().filter(|last| MACROS.iter().any(|name| last.ident == name));
        if let Some(name) = name
            && let Some(text) = fault(item.tokens.clone())
        {
            self.findings.push(Finding::new(self.path, name.ident.span().start().line, text));
        }
        visit::visit_macro(self, item);
    }
}

/// The fault of the arguments of a log macro, of which the last is the name.
fn fault(arguments: TokenStream) -> Option<String> {
    let mut last = Vec::new();
    for tree in arguments {
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == ',' => last.clear(),
            tree => last.push(tree),
        }
    }
    let literal = match last.as_slice() {
        [TokenTree::Literal(literal)] => syn::parse_str::<syn::LitStr>(&literal.to_string()).ok(),
        _ => None,
    };
    let Some(name) = literal.map(|literal| literal.value()) else {
        return Some("a line of the log ends with its name, a string, as in `\"node down\"`".to_owned());
    };
    let is_of_words =
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || [' ', '-'].contains(&letter));
    let words: Vec<&str> = name.split(' ').collect();
    let is_sentence = words.iter().any(|word| OF_SENTENCES.contains(word));
    let is_name = is_of_words
        && (2..=WORDS_MAX).contains(&words.len())
        && name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && (!is_sentence || PERMITTED.contains(&name.as_str()));
    (!is_name)
        .then(|| format!("`{name}`: name a line of the log `noun state`, and say the rest as key=value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let source = Source::parse("a.rs", text).expect("it is Rust");
        check(&source).iter().map(|finding| finding.line).collect()
    }

    fn is_found(arguments: &str) -> bool {
        !lines(&format!("fn f() {{ warn!({arguments}); }}")).is_empty()
    }

    #[test]
    fn names_with_keys_are_fine() {
        for arguments in [
            "\"node down\"",
            "shard, %error, reason = \"a, b\", \"slow start finished\"",
            "\"library not stored\"",
        ] {
            assert!(!is_found(arguments), "{arguments}");
        }
    }

    #[test]
    fn sentences_and_formats_are_found() {
        for arguments in [
            "\"all keys are at home\"",
            "\"node down: reset\"",
            "\"down\"",
            "\"Node down\"",
            "\"{warning}\"",
            "\"node {}\", name",
            "name",
            "",
            "\"one two three four five\"",
        ] {
            assert!(is_found(arguments), "{arguments}");
        }
    }

    #[test]
    fn every_level_is_looked_at_and_other_macros_are_not() {
        let text = "fn f() {\n match a {\n b => tracing::error!(\"x\"),\n c => debug!(\"x\"),\n d => panic!(\"x\"),\n }\n}";
        assert_eq!(lines(text), [3, 4]);
    }
}
