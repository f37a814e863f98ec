//! Lines of the log: a stable name of the form `noun state`, and all else as key=value. Operators search for names and parse
//! keys. A sentence permits neither, and changes with every better wording.

use proc_macro2::{Ident, TokenStream, TokenTree};
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

/// A call that logs a line with a proper name.
pub(super) struct Call {
    /// The macro: the level of the line.
    pub(super) level: String,
    pub(super) name: String,
    pub(super) keys: Vec<String>,
    pub(super) line: usize,
}

/// Names that are none.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let faulty = log_lines(source).into_iter().filter_map(|(level, arguments)| {
        Some(Finding::new(source.path, level.span().start().line, fault(&arguments)?))
    });
    faulty.collect()
}

/// The calls whose names are proper, outside of the tests of the file.
pub(super) fn calls(source: &Source<'_>) -> Vec<Call> {
    let call = |(level, arguments): (Ident, Vec<Vec<TokenTree>>)| {
        let name = name_of(&arguments)?;
        let keys = arguments[..arguments.len() - 1].iter().filter_map(|argument| key_of(argument)).collect();
        Some(Call { name, keys, line: level.span().start().line, level: level.to_string() })
    };
    log_lines(source).into_iter().filter_map(call).collect()
}

/// The level and the arguments of each call.
fn log_lines(source: &Source<'_>) -> Vec<(Ident, Vec<Vec<TokenTree>>)> {
    let mut lines = LogLines(Vec::new());
    lines.visit_file(&source.file);
    lines.0
}

struct LogLines(Vec<(Ident, Vec<Vec<TokenTree>>)>);

impl<'ast> Visit<'ast> for LogLines {
    /// Lines of tests are no lines of the product.
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let level = item.path.segments.last().filter(|last| MACROS.iter().any(|name| last.ident == name));
        if let Some(level) = level {
            self.0.push((level.ident.clone(), divided(item.tokens.clone())));
        }
        visit::visit_macro(self, item);
    }
}

/// The arguments of a call: at least one, which may be empty.
fn divided(arguments: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut divided = vec![Vec::new()];
    for tree in arguments {
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == ',' => divided.push(Vec::new()),
            tree => divided.last_mut().expect("it is never empty").push(tree),
        }
    }
    // A comma may follow the last.
    divided.pop_if(|last| last.is_empty());
    divided
}

/// The key of `key`, `%key`, `?key` or `key = value`.
fn key_of(argument: &[TokenTree]) -> Option<String> {
    argument.iter().find_map(|tree| match tree {
        TokenTree::Ident(key) => Some(key.to_string()),
        _ => None,
    })
}

/// The last argument, if it is a string.
fn name_of(arguments: &[Vec<TokenTree>]) -> Option<String> {
    match arguments.last()?.as_slice() {
        [TokenTree::Literal(literal)] => {
            syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|literal| literal.value())
        }
        _ => None,
    }
}

/// The fault of the arguments of a log macro, of which the last is the name.
fn fault(arguments: &[Vec<TokenTree>]) -> Option<String> {
    let Some(name) = name_of(arguments) else {
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
