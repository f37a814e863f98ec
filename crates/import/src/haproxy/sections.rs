//! haproxy's syntax: lines of words, in sections.

use crate::draft::Draft;
use crate::fault::{Place, Word};
use std::sync::Arc;

/// A section, and its lines.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// The words of its first line.
    pub(super) head: Line,
    pub(super) lines: Vec<Line>,
}

/// A line with one word at least.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) key: Word,
    pub(super) words: Vec<Word>,
}

impl Line {
    /// The word `number` behind the key, or an empty text.
    pub(super) fn word(&self, number: usize) -> &str {
        self.words.get(number).map_or("", |word| &word.text)
    }

    /// All words behind the key, as a comment shows them.
    pub(super) fn shown(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// Words that begin a section.
pub(crate) const SECTIONS: [&str; 18] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "resolvers",
    "userlist",
    "mailers",
    "program",
    "cache",
    "http-errors",
    "ring",
    "log-forward",
    "log-profile",
    "fcgi-app",
    "crt-store",
    "traces",
];

/// Reads the sections of the file `name`, which has `text`.
pub(super) fn read(name: &str, text: &str, draft: &mut Draft) -> Vec<Section> {
    let file: Arc<str> = name.into();
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = words(&file, number + 1, line, draft).into_iter();
        let Some(key) = words.next() else { continue };
        let line = Line { key, words: words.collect() };
        if SECTIONS.contains(&line.key.text.as_str()) {
            sections.push(Section { head: line, lines: Vec::new() });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        } else {
            draft.fault(&line.key.place, format!("{}: no section begins before it", line.key.text));
        }
    }
    sections
}

/// The words of a line, without quotes, escapes and comments.
fn words(file: &Arc<str>, number: usize, line: &str, draft: &mut Draft) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut quote = None;
    let mut is_word = false;
    let mut letters = line.chars().enumerate();
    while let Some((column, letter)) = letters.next() {
        if quote.is_none() && letter == '#' {
            break;
        }
        if quote.is_none() && letter.is_whitespace() {
            is_word = false;
            continue;
        }
        if !is_word {
            words.push(Word::new("", Place { file: file.clone(), line: number, column: column + 1 }));
            is_word = true;
        }
        let Some(word) = words.last_mut() else { continue };
        match letter {
            '\\' if quote != Some('\'') => word.text.extend(letters.next().map(|(_, letter)| match letter {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                _ => letter,
            })),
            '"' | '\'' if quote == Some(letter) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(letter),
            _ => word.text.push(letter),
        }
    }
    if let (Some(quote), Some(word)) = (quote, words.last()) {
        draft.fault(&word.place, format!("the text does not end; write {quote} behind it"));
    }
    words
}
