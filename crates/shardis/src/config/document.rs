//! The file: its text, and its keys and values in their order.

use super::faults::{Fault, Faults, position};
use import::Place;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most bytes of a configuration: a thousand nodes take a tenth of it.
const BYTES_MAX: usize = 1 << 20;

/// The key whose tables are listeners.
const LISTENER: &str = "listener";

/// The key whose tables are pools.
const POOL: &str = "pool";

/// Its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    pub(super) text: String,
    /// For each line, its origin in the file of another program; empty for a file of ours.
    pub(super) origins: Vec<Option<Place>>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Pair<'a> {
    /// As it is written.
    pub key: String,
    /// Where.
    pub at: usize,
    /// Its value.
    pub value: DeValue<'a>,
    /// Where that begins.
    pub value_at: usize,
}

/// One table `[[listener]]`.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    /// Where it begins.
    pub at: usize,
    /// Its pairs.
    pub pairs: Vec<Pair<'a>>,
}

/// The content of a file.
#[derive(Debug)]
pub(super) struct Root<'a> {
    /// All but the pools.
    pub section: Section<'a>,
    /// The tables `[[pool]]`.
    pub pools: Vec<Section<'a>>,
}

/// The content of a file without pools, or of a pool.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// Where it begins.
    pub at: usize,
    /// Above all tables.
    pub pairs: Vec<Pair<'a>>,
    /// The tables of listeners.
    pub tables: Vec<Table<'a>>,
}

impl Document {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Document, Faults> {
        let refusal = |text: String| Faults::new(path, &Document::default(), vec![Fault { at: None, text }]);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| refusal(unreadable(&error)))?;
        let read = file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| refusal(unreadable(&error)))?;
        Document::new(bytes).map_err(|(document, fault)| Faults::new(path, &document, vec![fault]))
    }

    /// A file of `bytes`; or the file up to the first fault, and that fault.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Document, (Document, Fault)> {
        let ours = |text| Document { text, origins: Vec::new() };
        if bytes.len() > BYTES_MAX {
            let text = format!("the file has more than {BYTES_MAX} bytes, the limit of a configuration");
            return Err((Document::default(), Fault { at: None, text }));
        }
        String::from_utf8(bytes).map(ours).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[valid];
            let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
            let fault = format!("the byte {byte:#04x} is not UTF-8; write the file in UTF-8");
            (ours(text), Fault::at(valid, fault))
        })
    }

    /// The content, if it is TOML.
    pub(super) fn root(&self) -> Result<Root<'_>, Vec<Fault>> {
        let (root, errors) = DeTable::parse_recoverable(&self.text);
        if !errors.is_empty() {
            return Err(self.syntax_faults(&errors));
        }
        let (pairs, pools) = split_tables(self.pairs(root.into_inner()), POOL);
        let pools = pools.into_iter().map(|(at, table)| self.section(at, self.pairs(table))).collect();
        Ok(Root { section: self.section(0, pairs), pools })
    }

    /// The section that begins at `at` and has `pairs`.
    fn section<'a>(&self, at: usize, pairs: Vec<Pair<'a>>) -> Section<'a> {
        let (pairs, tables) = split_tables(pairs, LISTENER);
        let tables = tables.into_iter().map(|(at, table)| Table { at, pairs: self.pairs(table) }).collect();
        Section { at, pairs, tables }
    }

    /// The line of the byte `at`, in the file that the operator wrote.
    pub(super) fn line(&self, at: usize) -> usize {
        let (line, _) = position(&self.text, at);
        self.origin(line).map_or(line, |place| place.line)
    }

    /// The place of the byte `at` in the file at `path`, or in that of another program.
    pub(super) fn place(&self, path: &Path, at: usize) -> String {
        let (line, column) = position(&self.text, at);
        match self.origin(line) {
            Some(place) => place.to_string(),
            None if !self.origins.is_empty() => path.display().to_string(),
            None => format!("{}:{line}:{column}", path.display()),
        }
    }

    fn origin(&self, line: usize) -> Option<&Place> {
        self.origins.get(line.checked_sub(1)?)?.as_ref()
    }

    /// The pairs of a table in the order of the file.
    fn pairs<'a>(&self, table: DeTable<'a>) -> Vec<Pair<'a>> {
        let pair = |(key, value): (Spanned<_>, Spanned<DeValue<'a>>)| {
            let (at, value_at) = (key.span().start, value.span().start);
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            Pair { key: key.into_owned(), at, value: value.into_inner(), value_at }
        };
        let mut pairs: Vec<Pair<'a>> = table.into_iter().map(pair).collect();
        pairs.sort_by_key(|pair| pair.at);
        pairs
    }

    /// The parser's errors: the first of each line, since others follow from it.
    fn syntax_faults(&self, errors: &[toml::de::Error]) -> Vec<Fault> {
        let at = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
        let mut errors: Vec<&toml::de::Error> = errors.iter().collect();
        errors.sort_by_key(|error| at(error));
        errors.dedup_by_key(|error| self.line(at(error)));
        errors.into_iter().map(|error| Fault::at(at(error), self.syntax(error, at(error)))).collect()
    }

    /// The fault at the byte `at`, in our words where the parser's require knowledge of the grammar.
    fn syntax(&self, error: &toml::de::Error, at: usize) -> String {
        let line = self.text.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let is_at_end = line.trim().is_empty();
        let (said, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
        let why = match said {
            "duplicate key" => {
                let key = error.span().and_then(|span| self.text.get(span)).unwrap_or_default();
                return format!("{key}: the key is set twice; remove one");
            }
            "string values must be quoted" if is_at_end => "there is no value behind the =",
            "string values must be quoted" => {
                "this is no value; a text stands in quotes, and the next key in a line of its own"
            }
            "invalid float" | "invalid integer" => {
                "this is no number; a text, such as an address, stands in quotes"
            }
            "unexpected key or value" => "here the line should end; write the next key in a line of its own",
            "key with no value" => "there is no = behind the key",
            "unquoted keys cannot be empty" => "there is no key before the =",
            "missing comma between array elements" => "there is no comma between two values of the list",
            "unclosed array" => "the list is not closed; write ] at its end",
            "unclosed array table" => "write ]] behind the name of the table",
            "unexpected leading zero" => "a number does not begin with 0",
            "missing escaped value" => {
                "there is no such escape; write \\\\ for a backslash, or take single quotes"
            }
            "invalid basic string" if expected == "`\"`" => "the text does not end; write \" behind it",
            "invalid literal string" if expected == "`'`" => "the text does not end; write ' behind it",
            "invalid basic string" | "invalid literal string" => {
                "a control character does not stand in a text; write \\t, \\n, \\u0000 in double quotes"
            }
            _ => {
                return format!(
                    "this is not TOML: {}",
                    error.message().trim_end_matches(", expected nothing")
                );
            }
        };
        format!("this is not TOML: {why}")
    }
}

/// The tables of the array `name`, by their places, and all other pairs. An element that is no table becomes a pair of its
/// own.
fn split_tables<'a>(all: Vec<Pair<'a>>, name: &str) -> (Vec<Pair<'a>>, Vec<(usize, DeTable<'a>)>) {
    let (mut pairs, mut tables) = (Vec::new(), Vec::new());
    for pair in all {
        let Pair { key, at, value, value_at } = pair;
        match value {
            DeValue::Array(elements) if key == name && !elements.is_empty() => {
                for element in elements {
                    let value_at = element.span().start;
                    match element.into_inner() {
                        DeValue::Table(table) => tables.push((value_at, table)),
                        value => pairs.push(Pair { key: key.clone(), at, value, value_at }),
                    }
                }
            }
            value => pairs.push(Pair { key, at, value, value_at }),
        }
    }
    tables.sort_by_key(|(at, _)| *at);
    (pairs, tables)
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "the file does not exist".to_owned(),
        ErrorKind::IsADirectory => "the path is a directory; name a file".to_owned(),
        ErrorKind::PermissionDenied => "this user may not read the file".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    }
}
