//! The walk tables of ARCHITECTURE.md: every row names a file and functions in it, which must exist.

use super::Finding;
use super::tree::Tree;

const PATH: &str = "ARCHITECTURE.md";

/// Rows `| n | file | function | …` that lead nowhere.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rows = tree
        .text(PATH)
        .unwrap_or_default()
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Row::parse(index + 1, line));
    let rows: Vec<Row<'_>> = rows.collect();
    if rows.is_empty() {
        return vec![Finding::new(PATH, 1, "no walk table; rows are `| 1 | crate/file.rs | function | … |`")];
    }
    rows.iter().flat_map(|row| row.check(tree)).collect()
}

/// One step of a walk.
struct Row<'a> {
    line: usize,
    /// `proxy/route.rs` for crates/proxy/src/route.rs, or a path from the root.
    file: &'a str,
    /// `route`, or several as in `handle_event → handle_requests`.
    functions: &'a str,
}

impl<'a> Row<'a> {
    /// `None` if `line` is not a row that begins with a number.
    fn parse(line_number: usize, line: &'a str) -> Option<Row<'a>> {
        let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
        cells.next()?.parse::<u32>().ok()?;
        let file = link_target(cells.next()?).trim_matches('`');
        Some(Row { line: line_number, file, functions: cells.next()? })
    }

    fn check(&self, tree: &Tree) -> Vec<Finding> {
        let short = self.file.split_once('/').map(|(package, rest)| format!("crates/{package}/src/{rest}"));
        let text = tree.text(self.file).or_else(|| tree.text(short.as_deref()?));
        let Some(text) = text else {
            return vec![Finding::new(
                PATH,
                self.line,
                format!("no file `{}`; name one, as proxy/route.rs", self.file),
            )];
        };
        let absent = names(self.functions).filter(|name| !defines(text, name));
        absent
            .map(|name| {
                Finding::new(PATH, self.line, format!("no `fn {name}` in {}; correct the walk", self.file))
            })
            .collect()
    }
}

/// The target if `cell` is a link, otherwise `cell`.
fn link_target(cell: &str) -> &str {
    let target = cell.split_once("](").and_then(|(_, rest)| rest.split_once(')'));
    target.map_or(cell, |(target, _)| target)
}

/// `a` and `b` of `` `a` → `Type::b()` ``.
fn names(functions: &str) -> impl Iterator<Item = &str> {
    let is_separator = |letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':');
    functions.split(is_separator).filter_map(|word| word.rsplit(':').next()).filter(|name| !name.is_empty())
}

/// Whether `text` has a function `name`.
fn defines(text: &str, name: &str) -> bool {
    let ends_here = |rest: &str| rest.starts_with(['(', '<']);
    text.split(&format!("fn {name}")).skip(1).any(ends_here)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(row: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (PATH, &format!("# Walk\n| # | file | function | takes |\n| --- | --- | --- | --- |\n{row}\n")),
            ("crates/proxy/src/route.rs", "pub fn route(r: &R) {}\nfn choose<T>() {}\nfn shorter_route() {}"),
        ]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn rows_that_lead_somewhere_are_fine() {
        for row in [
            "| 1 | proxy/route.rs | route | x |",
            "| 1 | crates/proxy/src/route.rs | `route` → `Router::choose()` | x |",
            "| 1 | [`proxy/route.rs`](crates/proxy/src/route.rs) | route, choose | x |",
        ] {
            assert_eq!(findings(row), [""; 0], "{row}");
        }
    }

    #[test]
    fn rows_that_lead_nowhere_are_found() {
        let no_file = "ARCHITECTURE.md:4: no file `proxy/gone.rs`; name one, as proxy/route.rs";
        assert_eq!(findings("| 1 | proxy/gone.rs | route | x |"), [no_file]);
        let no_function = "ARCHITECTURE.md:4: no `fn shorter` in proxy/route.rs; correct the walk";
        assert_eq!(findings("| 1 | proxy/route.rs | route → shorter | x |"), [no_function]);
        assert_eq!(findings("| 1 | driver | wait | x |").len(), 1);
    }

    #[test]
    fn a_page_without_a_walk_is_a_finding() {
        assert_eq!(findings("| step | file |").len(), 1);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
