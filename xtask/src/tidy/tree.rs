//! The files of the repository, read once.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use programs::process;

/// Paths from the root, with the text of those files that a check reads.
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Files that git tracks, and those that it would track. Generated and ignored files are not checked.
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let paths = process::read(process::command("git").args(args))?;
        let mut files = BTreeMap::new();
        for path in paths.split_terminator('\0') {
            // A tracked file that was deleted is listed, but missing. A file that is not UTF-8 is not prose.
            if let Ok(bytes) = std::fs::read(root.join(path)) {
                files.insert(path.into(), String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Tree { files })
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|&(path, text)| (path.into(), text.into())).collect() }
    }

    /// Paths and texts of the files that end in `.extension`, in order.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        let is_wanted = move |path: &str| Path::new(path).extension().is_some_and(|found| found == extension);
        self.files
            .iter()
            .filter(move |(path, _)| is_wanted(path))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of the file at `path`.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether `path` is a file or a folder.
    pub(super) fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        let is_folder =
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder));
        path.is_empty() || self.files.contains_key(path) || is_folder()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_held_because_of_their_files() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-of-others.md", "")]);
        assert_eq!(
            ["", "docs", "docs/a.md", "doc", "docs/b.md"].map(|path| tree.holds(path)),
            [true, true, true, false, false]
        );
    }

    #[test]
    fn the_repository_is_read_with_its_texts() {
        let tree = Tree::read(process::root()).expect("git can list it");
        assert!(tree.text("Cargo.toml").is_some_and(|text| text.contains("[workspace]")));
        assert!(tree.with_extension("rs").any(|(path, _)| path == "xtask/src/tidy/tree.rs"));
        assert!(!tree.holds("target"));
    }
}
