//! Faults of a file, with their places.

use super::document::Document;
use std::fmt;
use std::path::Path;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The byte of the file at which it is; `None` if it has no single place.
    pub at: Option<usize>,
    /// The fault, and the correct form.
    pub text: String,
}

impl Fault {
    /// At the byte `at` of the file.
    pub(super) fn at(at: usize, text: impl Into<String>) -> Fault {
        Fault { at: Some(at), text: text.into() }
    }
}

/// All faults: lines in the order of the file, each `FILE:LINE:COLUMN: fault, and the correct form`.
#[derive(Debug)]
pub(crate) struct Faults {
    lines: Vec<String>,
}

impl Faults {
    /// Of the file at `path`, whose content is `document`.
    pub(super) fn new(path: &Path, document: &Document, mut faults: Vec<Fault>) -> Faults {
        faults.sort_by_key(|fault| fault.at);
        faults.dedup();
        // One line for each fault, even if the file's text has several.
        let lines = faults
            .iter()
            .map(|fault| {
                let place = fault.at.map_or(path.display().to_string(), |at| document.place(path, at));
                format!("{place}: {}", visible(&fault.text))
            })
            .collect();
        Faults { lines }
    }

    /// Of a file of another program at `path`.
    pub(super) fn of_import<'a>(path: &Path, faults: impl IntoIterator<Item = &'a import::Fault>) -> Faults {
        let line = |fault: &import::Fault| match &fault.place {
            Some(place) => format!("{place}: {}", visible(&fault.text)),
            None => format!("{}: {}", path.display(), visible(&fault.text)),
        };
        Faults { lines: faults.into_iter().map(line).collect() }
    }

    /// Each in a line.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.lines.join("\n"))
    }
}

/// Line and column of the byte `at` of `text`, as editors count them: from 1 on, and characters.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    // A mark of UTF-8 at the begin of a file is no column.
    let line = String::from_utf8_lossy(&before[line_start..]);
    let lines = before.iter().filter(|&&byte| byte == b'\n').count();
    (lines + 1, line.trim_start_matches('\u{feff}').chars().count() + 1)
}

/// Letters at the begin of a long fault that are shown: the key and the begin of its value.
const BEGIN_LEN_MAX: usize = 200;
/// Letters at the end of a long fault that are shown: the correct form.
const END_LEN_MAX: usize = 300;

/// `text` without its middle if it is long: a value can have megabytes.
fn shortened(text: &str) -> String {
    let len = text.chars().count();
    if len <= BEGIN_LEN_MAX + END_LEN_MAX {
        return text.to_owned();
    }
    let begin = text.chars().take(BEGIN_LEN_MAX);
    begin.chain(['…']).chain(text.chars().skip(len - END_LEN_MAX)).collect()
}

/// `text` with escapes for control characters, which could end its line or change a terminal. Its length is bounded.
fn visible(text: &str) -> String {
    let text = shortened(text);
    let shown = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn a_long_value_is_cut_and_its_cure_is_shown() {
        let shown = visible(&format!("timeout: {}: write a number", "é".repeat(100_000)));
        assert_eq!(shown.chars().count(), 501);
        assert!(shown.starts_with("timeout: éé") && shown.ends_with("é: write a number"), "{shown}");
        assert!(shown.contains("é…é"), "{shown}");
        assert_eq!(visible("a\nb"), "a\\nb");
    }
}
