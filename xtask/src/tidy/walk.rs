//! The walk tables of ARCHITECTURE.md, and the table of faults and tests of tests/matrix.md. Every row names a file and
//! functions in it, which must exist.

use super::Finding;
use super::tree::Tree;

const WALKS: &str = "ARCHITECTURE.md";
const FAULTS: &str = "tests/matrix.md";
/// In place of a file, where there is no test.
const NONE: &str = "none";

/// Rows `| n | file | function | …` whose file or function is missing.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    [WALKS, FAULTS].into_iter().flat_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &Tree, page: &'static str) -> Vec<Finding> {
    let lines = tree.text(page).unwrap_or_default().lines().enumerate();
    let rows: Vec<Row<'_>> = lines.filter_map(|(index, line)| Row::parse(page, index + 1, line)).collect();
    if rows.is_empty() {
        return vec![Finding::new(page, 1, "no walk table; rows are `| 1 | crate/file.rs | function | … |`")];
    }
    let leads_nowhere_on_purpose = |row: &&Row<'_>| page == FAULTS && row.file == NONE;
    rows.iter().filter(|row| !leads_nowhere_on_purpose(row)).flat_map(|row| row.check(tree)).collect()
}

/// One step of a walk.
struct Row<'a> {
    page: &'static str,
    line: usize,
    /// `proxy/route.rs` for crates/proxy/src/route.rs, or a path from the root.
    file: &'a str,
    /// `route`, or several as in `handle_event → handle_requests`.
    functions: &'a str,
}

impl<'a> Row<'a> {
    /// `None` if `line` is not a row that begins with a number.
    fn parse(page: &'static str, line_number: usize, line: &'a str) -> Option<Row<'a>> {
        let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
        cells.next()?.parse::<u32>().ok()?;
        let file = link_target(cells.next()?).trim_matches('`');
        Some(Row { page, line: line_number, file, functions: cells.next()? })
    }

    fn check(&self, tree: &Tree) -> Vec<Finding> {
        let short = self.file.split_once('/').map(|(package, rest)| format!("crates/{package}/src/{rest}"));
        let text = tree.text(self.file).or_else(|| tree.text(short.as_deref()?));
        let Some(text) = text else {
            return vec![Finding::new(
                self.page,
                self.line,
                format!("no file `{}`; name one, as proxy/route.rs", self.file),
            )];
        };
        let absent = names(self.functions).filter(|name| !defines(text, name));
        absent
            .map(|name| {
                Finding::new(
                    self.page,
                    self.line,
                    format!("no `fn {name}` in {}; correct the walk", self.file),
                )
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
            (WALKS, &format!("# Walk\n| # | file | function | takes |\n| --- | --- | --- | --- |\n{row}\n")),
            (FAULTS, "| 1 | none | | of which nothing is shown |\n| 2 | proxy/route.rs | route | x |"),
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
        assert_eq!(findings("| 1 | none | | x |").len(), 1, "a walk has a way");
    }

    #[test]
    fn a_page_without_a_walk_is_a_finding() {
        assert_eq!(findings("| step | file |").len(), 1);
        assert_eq!(check(&Tree::of(&[])).len(), 2);
    }
}
