//! Sentences of comments, and names of tests: each names its subjects. A sentence has at most 25 words.
//!
//! A program cannot see a subject. It sees question words in its place: at the beginning of a sentence, and behind a
//! preposition or a conjunction. It also sees a few turns of phrase for which the language has a better word.

use proc_macro2::Ident;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;

const WORDS_MAX: usize = 25;
const BEGINNINGS: &[&str] = &["What", "Who", "Whoever", "Whom"];
/// Words that begin no doc: its first sentence begins with a noun or a verb.
const NO_OPENINGS: &[&str] = &["False", "He", "How", "It", "She", "That", "They", "Those", "True"];
/// With "So" before them, at the beginning of a sentence.
const QUANTITIES: &[&str] = &["long", "many", "much", "often"];
const NOBODY: &[&str] = &["whoever", "whomever"];
/// Words behind which `what` and `who` stand for a noun.
const BEFORE_NOUNS: &[&str] = &[
    "and", "as", "but", "by", "for", "from", "in", "into", "like", "nor", "of", "on", "or", "than", "to",
    "with",
];
/// Words that stand for a subject in the name of a test.
const NO_SUBJECTS: &[&str] =
    &["anybody", "everybody", "nobody", "somebody", "told", "what", "whatever", "who", "whoever", "whom"];
const TO_BE: &[&str] = &["are", "be", "been", "is", "was", "were"];
/// Words behind "told" that give it its own meaning: an order, or a difference.
const AFTER_TOLD: &[&str] = &["apart", "from", "to"];
/// Characters that end a sentence, or a clause of its own.
const ENDS: &[char] = &['.', ':', ';', '?', '!'];
const ENDS_OF_SENTENCES: &[&str] = &[".", "?", "!", ".)", ".\"", "?)"];

/// Sentences and names of tests that break a rule.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut faults = faults(source.text);
    faults.extend(faults_of_tests(&source.file));
    faults.into_iter().map(|(line, fault)| Finding::new(source.path, line, fault.text())).collect()
}

/// The faults of all comments, by line.
fn faults(text: &str) -> Vec<(usize, Fault)> {
    let mut faults = Vec::new();
    let (mut sentence, mut is_code) = (Sentence::OPENING, false);
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            (sentence, is_code) = (Sentence::OPENING, false);
            continue;
        };
        sentence.opens_doc &= comment.starts_with(['/', '!']);
        let comment = comment.trim_start_matches(['/', '!']).trim();
        is_code ^= comment.starts_with("```");
        let is_apart = ["```", "|", "* ", "- "].iter().any(|begin| comment.starts_with(begin));
        if is_code || comment.is_empty() || is_apart {
            sentence = Sentence::NEXT;
        }
        let words = comment.split_whitespace().filter(|_| !is_code);
        faults.extend(words.filter_map(|word| sentence.take(word)).map(|fault| (index + 1, fault)));
    }
    faults
}

/// The tests whose names have no subject, by line.
fn faults_of_tests(file: &syn::File) -> Vec<(usize, Fault)> {
    let mut tests = Tests(Vec::new());
    tests.visit_file(file);
    let is_riddle = |name: &Ident| name.to_string().split('_').any(|word| NO_SUBJECTS.contains(&word));
    let riddles = tests.0.into_iter().filter(is_riddle);
    riddles.map(|name| (name.span().start().line, Fault::Test(name.to_string()))).collect()
}

/// The names of all tests of a file.
struct Tests(Vec<Ident>);

impl<'ast> Visit<'ast> for Tests {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.attrs.iter().any(|attr| attr.path().is_ident("test")) {
            self.0.push(item.sig.ident.clone());
        }
        visit::visit_item_fn(self, item);
    }
}

enum Fault {
    Beginning(String),
    Opening(String),
    Nobody(String),
    Quantity(String),
    InsteadOfNoun(String),
    Told,
    Long(usize),
    Test(String),
}

impl Fault {
    fn text(&self) -> String {
        match self {
            Fault::Beginning(word) => {
                format!("a sentence of this comment begins with `{word}`: name its subject")
            }
            Fault::Opening(word) => format!("this doc begins with `{word}`: begin with a noun or a verb"),
            Fault::Nobody(word) => format!("`{word}` in this comment: name the actor"),
            Fault::Quantity(words) => format!("`{words}` in this comment: name the quantity"),
            Fault::InsteadOfNoun(words) => format!("`{words}` in this comment: name the thing"),
            Fault::Test(name) => format!("`{name}` is a riddle: state the behaviour with its subject"),
            Fault::Told => "`told` in this comment: say what the actor receives or knows".to_owned(),
            Fault::Long(words) => {
                format!("a sentence of this comment has {words} words, more than {WORDS_MAX}: divide it")
            }
        }
    }
}

/// A sentence up to its last word. Words of code are empty here, and so are those before a punctuation mark.
struct Sentence<'t> {
    len: usize,
    begins: bool,
    /// Whether it is the first of a comment that may be a doc.
    opens_doc: bool,
    /// The last word and the one before.
    last: [&'t str; 2],
}

impl<'t> Sentence<'t> {
    const NEXT: Sentence<'static> = Sentence { len: 0, begins: true, opens_doc: false, last: [""; 2] };
    const OPENING: Sentence<'static> = Sentence { opens_doc: true, ..Sentence::NEXT };

    /// Appends a word and returns its fault.
    fn take(&mut self, word: &'t str) -> Option<Fault> {
        self.len += 1;
        let bare =
            if word.contains('`') { "" } else { word.trim_matches(|letter: char| !letter.is_alphanumeric()) };
        let fault = self.fault_of(bare);
        let is_end = ENDS_OF_SENTENCES.iter().any(|end| word.ends_with(end));
        let fault = fault.or_else(|| (is_end && self.len > WORDS_MAX).then_some(Fault::Long(self.len)));
        let is_separated = word.ends_with(|letter: char| !letter.is_alphanumeric());
        self.last = if is_separated { [""; 2] } else { [bare, self.last[0]] };
        (self.begins, self.opens_doc) = (word.ends_with(ENDS), false);
        self.len = if is_end { 0 } else { self.len };
        fault
    }

    fn fault_of(&self, bare: &str) -> Option<Fault> {
        let [last, before] = self.last;
        let lower = bare.to_lowercase();
        let is_after = |words: &[&str]| words.contains(&&*last.to_lowercase());
        match &*lower {
            _ if self.begins && BEGINNINGS.contains(&bare) => Some(Fault::Beginning(bare.to_owned())),
            _ if self.opens_doc && NO_OPENINGS.contains(&bare) => Some(Fault::Opening(bare.to_owned())),
            _ if last == "So" && QUANTITIES.contains(&bare) => Some(Fault::Beginning(format!("So {bare}"))),
            word if NOBODY.contains(&word) => Some(Fault::Nobody(bare.to_owned())),
            "many" | "much" if is_after(&["so"]) => Some(Fault::Quantity(format!("so {lower}"))),
            "what" | "who" if is_after(BEFORE_NOUNS) => Some(Fault::InsteadOfNoun(format!("{last} {bare}"))),
            word if last == "told" && TO_BE.contains(&before) && !AFTER_TOLD.contains(&word) => {
                Some(Fault::Told)
            }
            _ => None,
        }
    }
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
    fn docs_begin_with_a_noun_or_a_verb() {
        let text = "//! How it works. It does.\n\n/// It is one.\n///\n/// It may stand here.\nfn f() {\n    // It too.\n}";
        assert_eq!(lines("crates/tcp/src/a.rs", text), [1, 3]);
    }

    #[test]
    fn question_words_instead_of_nouns_are_found() {
        let text = "// The rest of what came,\n// and the end: or who\n// sent it. As\n// whoever likes.";
        assert_eq!(lines("xtask/src/a.rs", text), [1, 2, 4]);
    }

    #[test]
    fn paraphrases_are_found() {
        let text = "// It waits so many turns.\n// A client is told of it.\n// It is told\n// what it is.";
        assert_eq!(lines("tests/a.rs", text), [1, 2, 4]);
    }

    #[test]
    fn long_sentences_are_found_at_their_end() {
        let long = "word ".repeat(WORDS_MAX);
        let text = format!("/// {long}.\n///\n/// {long}\n/// end. Short.\nfn f() {{}}");
        assert_eq!(lines("tests/a.rs", &text), [1, 4]);
        let list = format!("//! {long}end:\n//!\n//! * {long}\n//! * {long}\n//! | {long} |");
        assert_eq!(lines("tests/a.rs", &list), [0; 0]);
    }

    #[test]
    fn names_of_tests_without_a_subject_are_found() {
        let text = "mod tests {\n    #[test]\n    fn who_waits_is_told() {}\n    fn who() {}\n    #[test]\n    fn whole() {}\n}";
        assert_eq!(lines("tests/a.rs", text), [3]);
    }

    #[test]
    fn the_same_words_within_a_sentence_and_in_code_are_fine() {
        let text = "//! Text says what it is, who asks of `who`, and is told to end, or from others.\n//!\n//! ```text\n//! What?\n//! ```\nfn f() { \"What\"; }";
        assert_eq!(lines("crates/tcp/src/a.rs", text), [0; 0]);
    }
}
