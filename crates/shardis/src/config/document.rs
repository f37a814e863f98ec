//! The file: its text, and its keys and values in their order.

use super::faults::{Fault, Faults, position};
use super::include::{self, INCLUDE};
use import::Place;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most bytes of a configuration: a thousand nodes take a tenth of it.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// The key whose tables are listeners.
const LISTENER: &str = "listener";

/// The key whose tables are pools.
const POOL: &str = "pool";

/// Its text, and those of the files that it includes. A place is a byte of all of them, one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    /// The file, if it includes others.
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The files that it includes, in their order.
    pub(super) included: Vec<Included>,
    /// Files that could not be included.
    pub(super) include_faults: Vec<Fault>,
    /// For each line, its origin in the file of another program; empty for a file of ours.
    pub(super) origins: Vec<Option<Place>>,
}

/// A file that another includes.
#[derive(Clone, Debug)]
pub(super) struct Included {
    pub path: PathBuf,
    pub text: String,
    /// The place of its first byte.
    pub base: usize,
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
        let bytes = read_bytes(path).map_err(refusal)?;
        Document::new(bytes).map_err(|broken| Faults::new(path, &broken.0, vec![broken.1]))
    }

    /// The same with the files that it includes, which is the file at `path`.
    pub(super) fn with_included(self, path: &Path) -> Document {
        include::followed(path, self)
    }

    /// A file of `bytes`; or the file up to the first fault, and that fault.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Document, Box<(Document, Fault)>> {
        let ours = |text| Document { text, ..Document::default() };
        if bytes.len() > BYTES_MAX {
            let text = format!("the file has more than {BYTES_MAX} bytes, the limit of a configuration");
            return Err(Box::new((Document::default(), Fault { at: None, text })));
        }
        String::from_utf8(bytes).map(ours).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[valid];
            let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
            let fault = format!("the byte {byte:#04x} is not UTF-8; write the file in UTF-8");
            Box::new((ours(text), Fault::at(valid, fault)))
        })
    }

    /// The content, if it is TOML.
    pub(super) fn root(&self) -> Result<Root<'_>, Vec<Fault>> {
        let (mut root, mut faults) = self.part(&self.text, 0);
        let mut known: BTreeMap<String, usize> =
            root.section.pairs.iter().map(|pair| (pair.key.clone(), pair.at)).collect();
        for Included { text, base, .. } in &self.included {
            let (part, more) = self.part(text, *base);
            faults.extend(more);
            for pair in &part.section.pairs {
                match known.get(&pair.key) {
                    // Listeners follow each other, and the others are faults anyway.
                    Some(_) if [LISTENER, POOL, INCLUDE].contains(&pair.key.as_str()) => {}
                    Some(&before) => {
                        let text =
                            format!("{}: {} has this key already; remove one", pair.key, self.line(before));
                        faults.push(Fault::at(pair.at, text));
                    }
                    None => drop(known.insert(pair.key.clone(), pair.at)),
                }
            }
            root.section.pairs.extend(part.section.pairs);
            root.section.tables.extend(part.section.tables);
            root.pools.extend(part.pools);
        }
        root.section.pairs.retain(|pair| pair.key != INCLUDE);
        faults.extend(self.include_faults.iter().cloned());
        if faults.is_empty() { Ok(root) } else { Err(faults) }
    }

    /// The content of the one file `text`, which begins at the place `base`.
    fn part<'a>(&self, text: &'a str, base: usize) -> (Root<'a>, Vec<Fault>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let faults = self.syntax_faults(text, base, &errors);
        let root = if errors.is_empty() { root.into_inner() } else { DeTable::new() };
        let (own, pools) = split_tables(pairs(moved_table(root, base)), POOL);
        let pools = pools.into_iter().map(|(at, table)| section(at, pairs(table))).collect();
        (Root { section: section(base, own), pools }, faults)
    }

    /// The line of the byte `at`, in the file that the operator wrote.
    pub(super) fn line(&self, at: usize) -> String {
        let (path, text, at) = self.file(at);
        let (line, _) = position(text, at);
        match self.included.is_empty() {
            true => format!("line {}", self.origin(line).map_or(line, |place| place.line)),
            false => format!("{} line {line}", path.unwrap_or(&self.path).display()),
        }
    }

    /// The place of the byte `at` in the file at `path`, in one that it includes, or in that of another program.
    pub(super) fn place(&self, path: &Path, at: usize) -> String {
        let (included, text, at) = self.file(at);
        let (line, column) = position(text, at);
        match self.origin(line) {
            Some(place) => place.to_string(),
            None if !self.origins.is_empty() => path.display().to_string(),
            None => format!("{}:{line}:{column}", included.unwrap_or(path).display()),
        }
    }

    /// The file of the place `at`, `None` for the first, with its text and the byte in it.
    fn file(&self, at: usize) -> (Option<&Path>, &str, usize) {
        match self.included.iter().rfind(|file| file.base <= at) {
            Some(file) => (Some(&file.path), &file.text, at - file.base),
            None => (None, &self.text, at),
        }
    }

    fn origin(&self, line: usize) -> Option<&Place> {
        self.origins.get(line.checked_sub(1)?)?.as_ref()
    }

    /// The parser's errors about `text`: the first of each line, since others follow from it.
    fn syntax_faults(&self, text: &str, base: usize, errors: &[toml::de::Error]) -> Vec<Fault> {
        let at = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
        let mut errors: Vec<&toml::de::Error> = errors.iter().collect();
        errors.sort_by_key(|error| at(error));
        errors.dedup_by_key(|error| position(text, at(error)).0);
        errors.into_iter().map(|error| Fault::at(base + at(error), syntax(text, error, at(error)))).collect()
    }
}

/// The section that begins at `at` and has `pairs`.
fn section(at: usize, all: Vec<Pair<'_>>) -> Section<'_> {
    let (own, tables) = split_tables(all, LISTENER);
    let tables = tables.into_iter().map(|(at, table)| Table { at, pairs: pairs(table) }).collect();
    Section { at, pairs: own, tables }
}

/// The pairs of a table in the order of the file.
fn pairs<'a>(table: DeTable<'a>) -> Vec<Pair<'a>> {
    let pair = |(key, value): (Spanned<_>, Spanned<DeValue<'a>>)| {
        let (at, value_at) = (key.span().start, value.span().start);
        let key: std::borrow::Cow<'_, str> = key.into_inner();
        Pair { key: key.into_owned(), at, value: value.into_inner(), value_at }
    };
    let mut pairs: Vec<Pair<'a>> = table.into_iter().map(pair).collect();
    pairs.sort_by_key(|pair| pair.at);
    pairs
}

/// `table` of a file that begins at the place `base`, with places of the whole configuration.
fn moved_table(table: DeTable<'_>, base: usize) -> DeTable<'_> {
    match base {
        0 => table,
        _ => table.into_iter().map(|(key, value)| (moved(key, base), moved_value(value, base))).collect(),
    }
}

fn moved<T>(spanned: Spanned<T>, base: usize) -> Spanned<T> {
    let span = spanned.span();
    Spanned::new(span.start + base..span.end + base, spanned.into_inner())
}

fn moved_value(value: Spanned<DeValue<'_>>, base: usize) -> Spanned<DeValue<'_>> {
    let span = value.span();
    let inner = match value.into_inner() {
        DeValue::Array(elements) => {
            DeValue::Array(elements.into_iter().map(|element| moved_value(element, base)).collect())
        }
        DeValue::Table(table) => DeValue::Table(moved_table(table, base)),
        other => other,
    };
    Spanned::new(span.start + base..span.end + base, inner)
}

/// The fault at the byte `at`, in our words where the parser's require knowledge of the grammar.
fn syntax(text: &str, error: &toml::de::Error, at: usize) -> String {
    let line = text.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let is_at_end = line.trim().is_empty();
    let (said, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
    let why = match said {
        "duplicate key" => {
            let key = error.span().and_then(|span| text.get(span)).unwrap_or_default();
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
            return format!("this is not TOML: {}", error.message().trim_end_matches(", expected nothing"));
        }
    };
    format!("this is not TOML: {why}")
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

/// The bytes of the file at `path`, and one more than a configuration has if there are too many.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    let read = file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(&error))?;
    Ok(bytes)
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "the file does not exist".to_owned(),
        ErrorKind::IsADirectory => "the path is a directory; name a file".to_owned(),
        ErrorKind::PermissionDenied => "this user may not read the file".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    }
}
