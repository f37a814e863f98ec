//! `include = ["conf.d/*.toml"]`: other files whose keys and tables belong to the configuration.
//!
//! ```text
//!   shardis.toml ─► include ─► conf.d/a.toml ─► include ─► …
//!                          └─► conf.d/b.toml
//! ```
//!
//! A path is relative to the file that names it. A pattern stands for its matches in the order of their names, without names that
//! begin with a dot. The keys of all files together are one configuration, so a key that two of them set is a fault. Tables follow
//! each other in the order of the files.

use super::document::{BYTES_MAX, Document, Included, read_bytes};
use super::environment;
use super::faults::Fault;
use glob::{MatchOptions, Pattern};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The key that names the files.
pub(super) const INCLUDE: &str = "include";

/// The most files of one configuration beside the first.
const FILES_MAX: usize = 64;
/// The longest chain of files that include each other.
const DEPTH_MAX: usize = 8;

/// Names with a leading dot are those of editors and of volumes that Kubernetes mounts.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A file that another names, and where.
struct Wanted {
    pattern: String,
    at: usize,
}

/// The files found so far.
struct Loader {
    document: Document,
    /// All files, by their canonical paths.
    known: Vec<PathBuf>,
    /// The file at hand, and those that led to it.
    chain: Vec<PathBuf>,
    /// Where the next file begins.
    base: usize,
}

/// The document of the file at `path` with the files that it includes.
pub(super) fn followed(path: &Path, document: Document) -> Document {
    let (wanted, faults) = wanted(&document.text, 0);
    if wanted.is_empty() && faults.is_empty() {
        return document;
    }
    let first = canonical(path);
    let base = document.text.len() + 1;
    let document = Document { path: path.to_owned(), include_faults: faults, ..document };
    let mut loader = Loader { document, known: vec![first.clone()], chain: vec![first], base };
    loader.follow(path, wanted);
    loader.document
}

impl Loader {
    /// Reads the files that the file at `path` names.
    fn follow(&mut self, path: &Path, wanted: Vec<Wanted>) {
        for Wanted { pattern, at } in wanted {
            match matches(path, &pattern) {
                Ok(paths) => paths.iter().for_each(|path| self.include(path, at)),
                Err(text) => self.refuse(at, &text),
            }
        }
    }

    /// Reads the file at `path`, which the byte `at` names.
    fn include(&mut self, path: &Path, at: usize) {
        let shown = path.display();
        if self.document.included.len() >= FILES_MAX {
            // The first file too many is reported, and the others are passed over.
            if self.document.included.len() == FILES_MAX {
                self.refuse(at, &format!("{shown}: a configuration includes at most {FILES_MAX} files"));
                self.keep(path, String::new());
            }
            return;
        }
        let canonical = canonical(path);
        if self.chain.contains(&canonical) {
            return self.refuse(at, &format!("{shown}: the file would include itself"));
        }
        if self.known.contains(&canonical) {
            return self.refuse(at, &format!("{shown}: the file is included already; name each file once"));
        }
        if self.chain.len() > DEPTH_MAX {
            return self.refuse(at, &format!("{shown}: at most {DEPTH_MAX} files include each other"));
        }
        let bytes = match read_bytes(path) {
            Ok(bytes) => bytes,
            Err(text) => return self.refuse(at, &format!("{shown}: {text}")),
        };
        if self.base + bytes.len() > BYTES_MAX {
            let text = format!("{shown}: with this file the configuration has more than {BYTES_MAX} bytes");
            return self.refuse(at, &text);
        }
        let base = self.base;
        let (document, fault) = match Document::new(bytes) {
            Ok(document) => (document, None),
            Err(broken) => (broken.0, Some(broken.1)),
        };
        self.known.push(canonical.clone());
        self.keep(path, document.text.clone());
        let faults = fault.map(|fault| Fault { at: fault.at.map(|at| at + base), ..fault });
        let (wanted, more) = wanted(&document.text, base);
        self.document.include_faults.extend(faults.into_iter().chain(more));
        self.chain.push(canonical);
        self.follow(path, wanted);
        self.chain.pop();
    }

    fn keep(&mut self, path: &Path, text: String) {
        let base = self.base;
        self.base += text.len() + 1;
        self.document.included.push(Included { path: path.to_owned(), text, base });
    }

    fn refuse(&mut self, at: usize, text: &str) {
        self.document.include_faults.push(Fault::at(at, format!("{INCLUDE} {text}")));
    }
}

/// The files that `text` names, which begins at the byte `base` of the configuration. A text that is not TOML names none.
fn wanted(text: &str, base: usize) -> (Vec<Wanted>, Vec<Fault>) {
    let (root, errors) = DeTable::parse_recoverable(text);
    let value = root.get_ref().iter().find(|(key, _)| *key.get_ref() == INCLUDE).map(|(_, value)| value);
    let (Some(value), true) = (value, errors.is_empty()) else { return Default::default() };
    let elements = match value.get_ref() {
        DeValue::Array(elements) => elements.iter().collect(),
        _ => vec![value],
    };
    let (mut wanted, mut faults) = (Vec::new(), Vec::new());
    for element in elements {
        let at = base + element.span().start;
        let pattern = match element.get_ref() {
            DeValue::String(text) if !text.is_empty() => environment::expanded(text, environment::of_process),
            _ => Err("write paths in quotes, as in include = [\"conf.d/*.toml\"]".to_owned()),
        };
        match pattern {
            Ok(pattern) => wanted.push(Wanted { pattern, at }),
            Err(why) => faults.push(Fault::at(at, format!("{INCLUDE}: {why}"))),
        }
    }
    (wanted, faults)
}

/// The files that `pattern`, of the file at `path`, stands for.
fn matches(path: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![folder.join(pattern)]);
    }
    let folder = Pattern::escape(folder.to_str().ok_or("the path of this file is not UTF-8")?);
    let whole = Path::new(&folder).join(pattern);
    let whole = whole.to_str().ok_or("the path is not UTF-8")?;
    let paths = glob::glob_with(whole, OPTIONS).map_err(|error| format!("{pattern}: {error}"))?;
    // A folder that cannot be read must not look like an empty one.
    let paths: Result<Vec<PathBuf>, _> = paths.take(FILES_MAX + 1).collect();
    paths.map_err(|error| format!("{pattern}: {error}"))
}

/// The one path of a file that has several. A file that is not there has only its own.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
