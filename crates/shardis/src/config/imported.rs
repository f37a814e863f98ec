//! Files of other programs in the place of a shardis.toml. The crate `import` makes a shardis.toml of them, which is read as any
//! other. Faults get the places of the other program's file.

use super::document::Document;
use super::{Depth, Faults, read, said};
use crate::args::Serving;
use crate::control::plural;
use import::{Fault, Files, Import, Kind, Rendered};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The most files that one include with wildcards may name.
const GLOB_MAX: usize = import::FILES_MAX;
/// Flags that name nodes.
const NODES: [&str; 4] = ["nodes", "cluster", "sentinel", "rack"];

/// The services that `document`, the file of `kind` at `path`, describes together with `words` of the command line.
pub(super) fn load(
    kind: Kind,
    path: &Path,
    document: &Document,
    words: &[OsString],
    depth: Depth,
) -> Result<Serving, Faults> {
    let import = meaning(kind, path, document)?;
    let has_nodes = said(words).iter().any(|flag| NODES.contains(&flag.as_str()));
    let refusals = refusals(&import, has_nodes);
    if !refusals.is_empty() {
        return Err(Faults::of_import(path, &refusals));
    }
    let serving = read(path, &toml(import.rendered()), words, depth)?;
    let left_out = import.left_out.iter().map(ToString::to_string).collect();
    Ok(Serving { left_out, only_pool: import.only_pool().map(str::to_owned), ..serving })
}

/// `shardis import`: prints the shardis.toml that the file at `path` means.
pub(crate) fn import(path: &Path) -> ExitCode {
    let (text, faults) = match Document::read(path).and_then(|document| described(path, &document)) {
        Ok((import, faults)) => {
            let count = import.left_out.len();
            let said = match count {
                0 => String::new(),
                _ => {
                    format!("shardis: {count} option{} not carried over, listed at the end\n", plural(count))
                }
            };
            // A closed stderr is no reason to fail, and neither is a closed stdout.
            let _ = write!(std::io::stderr(), "{said}");
            (import.rendered().text, faults)
        }
        Err(faults) => (String::new(), Some(faults)),
    };
    let _ = write!(std::io::stdout(), "{text}");
    for line in faults.iter().flat_map(Faults::lines) {
        let _ = writeln!(std::io::stderr(), "shardis: {line}");
    }
    if faults.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The meaning of a file, and why shardis could not serve it.
fn described(path: &Path, document: &Document) -> Result<(Import, Option<Faults>), Faults> {
    let Some(kind) = import::kind(&document.text) else {
        let names: Vec<String> = Kind::ALL.iter().map(ToString::to_string).collect();
        let text = format!("the content is that of no file of {}", names.join(", "));
        return Err(Faults::of_import(path, &[Fault { place: None, text }]));
    };
    let import = meaning(kind, path, document)?;
    let refusals = refusals(&import, false);
    let faults = match refusals.is_empty() {
        true => read(path, &toml(import.rendered()), &[], Depth::Check).err(),
        false => Some(Faults::of_import(path, &refusals)),
    };
    Ok((import, faults))
}

fn meaning(kind: Kind, path: &Path, document: &Document) -> Result<Import, Faults> {
    let name = path.display().to_string();
    let mut files = Disk { kind, folder: folder(path) };
    import::read(kind, &name, &document.text, &mut files).map_err(|faults| Faults::of_import(path, &faults.0))
}

/// Reasons why the file cannot be served. `has_nodes` says whether the command line names nodes.
fn refusals(import: &Import, has_nodes: bool) -> Vec<Fault> {
    let mut refusals = import.refusals.clone();
    refusals.extend(import.lacks_nodes.clone().filter(|_| !has_nodes));
    refusals
}

fn toml(rendered: Rendered) -> Document {
    Document { text: rendered.text, origins: rendered.places, ..Document::default() }
}

fn folder(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// Files on this machine.
struct Disk {
    kind: Kind,
    /// The folder of the first file.
    folder: PathBuf,
}

impl Files for Disk {
    fn open(&mut self, from: &str, path: &str) -> Result<Vec<(String, String)>, String> {
        // nginx begins at the folder of its first file, predixy at that of the file that includes.
        let base = if self.kind == Kind::Nginx { self.folder.clone() } else { folder(Path::new(from)) };
        let path = base.join(path);
        let paths = match (self.kind, path.to_str()) {
            (Kind::Nginx, Some(pattern)) if pattern.contains(['*', '?', '[']) => matches(pattern)?,
            _ => vec![path],
        };
        paths.iter().map(|path| file(path)).collect()
    }
}

/// The files that `pattern` names, in the order of their names.
fn matches(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let paths = glob::glob(pattern).map_err(|error| format!("the pattern is invalid: {error}"))?;
    let paths: Vec<PathBuf> = paths.filter_map(Result::ok).take(GLOB_MAX + 1).collect();
    if paths.len() > GLOB_MAX {
        return Err(format!("the pattern names more than {GLOB_MAX} files"));
    }
    Ok(paths)
}

fn file(path: &Path) -> Result<(String, String), String> {
    let document = Document::read(path).map_err(|faults| faults.to_string())?;
    Ok((path.display().to_string(), document.text))
}
