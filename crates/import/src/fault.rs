//! Places in files, and faults at them.

use std::fmt;
use std::sync::Arc;

/// A place in one of the files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the file, as it was given.
    pub file: Arc<str>,
    /// From 1 on.
    pub line: usize,
    /// From 1 on, in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A fault, and the correct form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its place, if it has one.
    pub place: Option<Place>,
    /// One line.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(out, "{place}: {}", self.text),
            None => out.write_str(&self.text),
        }
    }
}

/// All faults of a file, of which there is one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Faults {}

/// A word of a file, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) place: Place,
}

impl Word {
    pub(crate) fn new(text: impl Into<String>, place: Place) -> Word {
        Word { text: text.into(), place }
    }

    /// The same place with another text.
    pub(crate) fn with(&self, text: impl Into<String>) -> Word {
        Word::new(text, self.place.clone())
    }
}

/// `text` with escapes for control characters, which could end its line or change a terminal.
pub(crate) fn visible(text: &str) -> String {
    let shown = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(shown).collect()
}
