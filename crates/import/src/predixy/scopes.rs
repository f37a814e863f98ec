//! Lines of predixy as a tree: `Key value`, `Key value {` … `}`, and included files.

use crate::Files;
use crate::draft::Draft;
use crate::fault::{Place, Word};
use std::sync::Arc;

/// The deepest nesting, as in predixy.
const DEPTH_MAX: usize = 10;

/// A line, and the lines in its scope if it has one.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) key: Word,
    pub(super) value: String,
    /// Column of the value is not kept: a fault names its key.
    pub(super) scope: Option<Vec<Line>>,
}

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
enum Content<'a> {
    Nothing,
    /// A key at its byte, and its value.
    Pair(usize, &'a str, String),
    /// The same, and a scope begins.
    Begin(usize, &'a str, String),
    /// The scope ends.
    End,
    Invalid,
}

/// Reads the file `name`, which has `text`, and all that it includes.
pub(super) fn read(name: &str, text: &str, files: &mut dyn Files, draft: &mut Draft) -> Vec<Line> {
    let mut reader = Reader { files, draft, open: Vec::new(), lines: Vec::new(), stack: Vec::new() };
    reader.file(name, text);
    let Reader { draft, mut lines, stack, .. } = reader;
    for unclosed in stack {
        draft.fault(&unclosed.key.place, format!("{}: the scope has no end; write }}", unclosed.key.text));
        lines.push(unclosed);
    }
    lines
}

struct Reader<'a> {
    files: &'a mut dyn Files,
    draft: &'a mut Draft,
    /// The names of the files that are being read, from the outermost on.
    open: Vec<String>,
    lines: Vec<Line>,
    /// The scopes that have begun.
    stack: Vec<Line>,
}

impl Reader<'_> {
    fn file(&mut self, name: &str, text: &str) {
        self.open.push(name.to_owned());
        let file: Arc<str> = name.into();
        for (number, line) in text.lines().enumerate() {
            let place = |at: usize| Place {
                file: file.clone(),
                line: number + 1,
                column: line.get(..at).map_or(0, |before| before.chars().count()) + 1,
            };
            match content(line) {
                Content::Nothing => {}
                Content::Pair(at, key, value) if key.eq_ignore_ascii_case("Include") => {
                    self.include(name, &Word::new(key, place(at)), &value);
                }
                Content::Pair(at, key, value) => {
                    self.push(Line { key: Word::new(key, place(at)), value, scope: None });
                }
                Content::Begin(at, key, _) if self.stack.len() == DEPTH_MAX => {
                    self.draft
                        .fault(&place(at), format!("{key}: more than {DEPTH_MAX} scopes lie in each other"));
                    break;
                }
                Content::Begin(at, key, value) => {
                    self.stack.push(Line { key: Word::new(key, place(at)), value, scope: Some(Vec::new()) });
                }
                Content::End => match self.stack.pop() {
                    Some(line) => self.push(line),
                    None => self.draft.fault(&place(0), "no scope begins that this } could end"),
                },
                Content::Invalid => self.draft.fault(&place(0), "the line is no key with a value"),
            }
        }
        self.open.pop();
    }

    fn push(&mut self, line: Line) {
        match self.stack.last_mut().and_then(|scope| scope.scope.as_mut()) {
            Some(lines) => lines.push(line),
            None => self.lines.push(line),
        }
    }

    fn include(&mut self, from: &str, key: &Word, path: &str) {
        if !self.draft.include(&key.place) {
            return;
        }
        match self.files.open(from, path) {
            Ok(files) => {
                for (name, text) in files {
                    match self.open.contains(&name) {
                        true => {
                            self.draft.fault(&key.place, format!("Include {path}: the file includes itself"))
                        }
                        false => self.file(&name, &text),
                    }
                }
            }
            Err(why) => self.draft.fault(&key.place, format!("Include {path}: {why}")),
        }
    }
}

/// The content of `line`, by the rules of predixy's ConfParser.
fn content(line: &str) -> Content<'_> {
    const BLANKS: [char; 3] = [' ', '\t', '\r'];
    let body = line.trim_start_matches(BLANKS);
    let at = line.len() - body.len();
    if body.is_empty() || body.starts_with('#') {
        return Content::Nothing;
    }
    let end = body.find(|letter| BLANKS.contains(&letter) || letter == '#').unwrap_or(body.len());
    let (key, rest) = body.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    if rest.is_empty() || rest.starts_with('#') {
        return if key == "}" { Content::End } else { Content::Pair(at, key, String::new()) };
    }
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, behind) = unquoted(quoted);
        let behind = behind.split('#').next().unwrap_or_default().trim_matches(BLANKS);
        return match behind {
            "" => Content::Pair(at, key, value),
            "{" => Content::Begin(at, key, value),
            _ => Content::Invalid,
        };
    }
    let value = rest.split('#').next().unwrap_or_default().trim_end();
    match value.strip_suffix('{') {
        Some(value) => Content::Begin(at, key, value.trim_end().to_owned()),
        None => Content::Pair(at, key, value.to_owned()),
    }
}

/// The text up to the closing quote, and the text behind it. A backslash stands before a quote and a backslash.
fn unquoted(text: &str) -> (String, &str) {
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, letter) in text.char_indices() {
        match letter {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return (value, &text[at + 1..]),
            _ => {
                is_escaped = false;
                value.push(letter);
            }
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_divided_as_predixy_does() {
        let pair = |key, value: &str| Content::Pair(0, key, value.to_owned());
        let cases = [
            ("", Content::Nothing),
            ("  # Bind", Content::Nothing),
            ("Bind 127.0.0.1:1 # here", pair("Bind", "127.0.0.1:1")),
            ("HashTag \"{}\"", pair("HashTag", "{}")),
            ("Password \"a\\\"b#c\" # hush", pair("Password", "a\"b#c")),
            ("KeyPrefix a b c\r", pair("KeyPrefix", "a b c")),
            ("Password", pair("Password", "")),
            ("Auth \"x\" {", Content::Begin(0, "Auth", "x".to_owned())),
            ("Servers {", Content::Begin(0, "Servers", String::new())),
            ("Group a{", Content::Begin(0, "Group", "a".to_owned())),
            ("  }  # end", Content::End),
            ("Auth \"x\" y", Content::Invalid),
        ];
        for (line, expected) in cases {
            assert_eq!(content(line), expected, "{line}");
        }
    }
}
