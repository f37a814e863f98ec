//! The help of flags: the comment above each field with `#[arg(…)]`. It begins with a noun and takes three lines at most.
//!
//! A program cannot know a noun. It knows the words that do not begin one, and the turns of phrase that we gave up.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;

/// Verbs, questions and conjunctions that help began with.
const NO_NOUNS: &[&str] = &[
    "ask", "answer", "believe", "compare", "do", "give", "how", "keep", "leave", "let", "look", "lower",
    "measure", "never", "print", "put", "run", "said", "say", "show", "speak", "store", "take", "tell",
    "the", "these", "this", "what", "when", "where", "whether", "which", "who", "whoever", "whom", "whose",
    "with", "without", "write",
];
/// Quantities without a name, and clauses without a subject.
const GIVEN_UP: &[&str] = &[
    "so many", "so much", "so long", "so often", "whoever", ", what ", ", who ", "; what ", "; who ",
    ": what ", ": who ",
];
const LINES_MAX: usize = 3;
/// Of 100 columns, clap leaves the first ten blank.
const COLUMNS: usize = 90;
/// The text that clap adds for a default that only the code knows.
const DEFAULT_UNKNOWN: &str = "1000";

/// Flags whose help breaks a rule.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut flags = Flags { path: source.path, findings: Vec::new() };
    flags.visit_file(&source.file);
    flags.findings
}

struct Flags<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl<'ast> Visit<'ast> for Flags<'_> {
    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(arg) = field.attrs.iter().find(|attr| attr.path().is_ident("arg")) {
            let arg = Arg::read(arg);
            let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let line = field.ident.as_ref().map_or(arg.line, |ident| ident.span().start().line);
            for text in arg.faults(&help_of(field)) {
                self.findings.push(Finding::new(self.path, line, format!("help of `{name}`: {text}")));
            }
        }
        visit::visit_field(self, field);
    }
}

/// The relevant parts of `#[arg(…)]`.
struct Arg {
    line: usize,
    /// Its default, as help shows it.
    default: Option<String>,
}

impl Arg {
    fn read(attr: &syn::Attribute) -> Arg {
        let mut default = None;
        // An attribute that this parser does not understand has no default: `range(1..)` and the like.
        let _ = attr.parse_nested_meta(|meta| {
            let is_default = meta.path.is_ident("default_value") || meta.path.is_ident("default_value_t");
            if let Ok(value) = meta.value() {
                let value: syn::Expr = value.parse()?;
                if is_default {
                    default = Some(literal(&value).unwrap_or_else(|| DEFAULT_UNKNOWN.to_owned()));
                }
            }
            Ok(())
        });
        Arg { line: attr.span().start().line, default }
    }

    fn faults(&self, help: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let first = help.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        if help.is_empty() || NO_NOUNS.contains(&first.to_lowercase().as_str()) {
            faults.push(format!("it begins with `{first}`; begin with a noun, as in `Request timeout`"));
        }
        let lower = help.to_lowercase();
        for phrase in GIVEN_UP.iter().filter(|phrase| lower.contains(**phrase)) {
            faults.push(format!("`{}`: name the thing", phrase.trim()));
        }
        let default = self.default.iter().map(|default| format!(" [default: {default}]")).collect::<String>();
        let lines = lines_of(&format!("{help}{default}"));
        if lines > LINES_MAX {
            faults.push(format!("it takes {lines} lines; at most {LINES_MAX}, the rest belongs into docs/"));
        }
        faults
    }
}

fn literal(value: &syn::Expr) -> Option<String> {
    let syn::Expr::Lit(literal) = value else { return None };
    match &literal.lit {
        syn::Lit::Str(text) => Some(text.value()),
        syn::Lit::Int(number) => Some(number.base10_digits().to_owned()),
        syn::Lit::Float(number) => Some(number.base10_digits().to_owned()),
        _ => None,
    }
}

/// The comment above `field`, in one line.
fn help_of(field: &syn::Field) -> String {
    let texts = field.attrs.iter().filter(|attr| attr.path().is_ident("doc")).filter_map(|attr| {
        let syn::Meta::NameValue(meta) = &attr.meta else { return None };
        literal(&meta.value)
    });
    let text = texts.collect::<String>();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Number of lines of [`COLUMNS`] that `text` takes, broken between words.
fn lines_of(text: &str) -> usize {
    let (mut lines, mut used) = (1, 0);
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > COLUMNS {
            (lines, used) = (lines + 1, len);
        } else {
            used += len + usize::from(used > 0);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(help: &str, arg: &str) -> Vec<String> {
        let text = format!("struct Args {{\n    /// {help}\n    #[arg({arg})]\n    port: u16,\n}}");
        let source = Source::parse("a.rs", &text).expect("it is Rust");
        check(&source).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn help_that_begins_with_a_noun_is_fine() {
        assert_eq!(findings("Port to listen on", "long, default_value_t = 0"), [""; 0]);
        assert_eq!(findings("`GET` or `SET`", "long"), [""; 0]);
    }

    #[test]
    fn verbs_questions_and_nothing_at_all_are_found() {
        for help in ["Look for clients", "Whether to listen", "What it is", "With --nodes: more", ""] {
            let found = findings(help, "long");
            assert!(
                found.len() == 1 && found[0].starts_with("a.rs:4: help of `port`: it begins with"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn phrases_that_were_given_up_are_found() {
        for help in ["Timeout of so many seconds", "Users, who may do it", "Memory of whoever asks"] {
            assert_eq!(findings(help, "long").len(), 1, "{help}");
        }
    }

    #[test]
    fn the_fourth_line_is_found_and_counts_the_default() {
        let line = format!("{} ", "a".repeat(COLUMNS));
        assert_eq!(findings(&line.repeat(3), "long"), [""; 0]);
        assert_eq!(findings(&line.repeat(4), "long").len(), 1);
        for default in
            ["default_value_t = 5", "default_value = \"auto\"", "value_name = \"MS\", default_value_t = SOME"]
        {
            assert_eq!(findings(&line.repeat(3), &format!("long, {default}")).len(), 1, "{default}");
        }
    }

    #[test]
    fn fields_that_are_no_flags_have_no_help() {
        let source = Source::parse("a.rs", "struct Port {\n    /// What it is.\n    port: u16,\n}")
            .expect("it is Rust");
        assert_eq!(check(&source), []);
    }
}
