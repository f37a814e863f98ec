//! ARCHITECTURE.md is a map: it stays short, and the modules in its last table exist. Rules of behaviour belong to the docs of
//! modules.

use super::Finding;
use super::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";
const LINES_MAX: usize = 250;
/// Columns of a line that is no row of a table.
const COLUMNS_MAX: usize = 160;
/// The heading of the table of modules: `| about | modules | for users |`.
const MODULES: &str = "## Where to read on";

/// Checks the length of the map, and finds names in it that do not exist.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(MAP).unwrap_or_default();
    let mut findings = too_long(text);
    let table = text.lines().enumerate().skip_while(|(_, line)| *line != MODULES);
    for (index, line) in table {
        let modules = line.split('|').nth(2).unwrap_or_default().split(',').map(str::trim);
        let absent = modules.filter(|name| name.ends_with(".rs") && !is_module(tree, name));
        findings.extend(absent.map(|name| Finding::new(MAP, index + 1, format!("no module `{name}`"))));
    }
    findings
}

fn too_long(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        let advice = format!(
            "{lines} lines; at most {LINES_MAX}: move rules of behaviour to the docs of their module"
        );
        findings.push(Finding::new(MAP, lines, advice));
    }
    for (index, line) in text.lines().enumerate() {
        if !line.starts_with('|') && line.chars().count() > COLUMNS_MAX {
            findings.push(Finding::new(MAP, index + 1, format!("more than {COLUMNS_MAX} columns")));
        }
    }
    findings
}

/// Whether `name` is a file, from the root or from the `src` of a crate.
fn is_module(tree: &Tree, name: &str) -> bool {
    let suffix = format!("/src/{name}");
    let is_it = |path: &str| path == name || (path.starts_with("crates/") && path.ends_with(&suffix));
    tree.with_extension("rs").any(|(path, _)| is_it(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(map: &str) -> Vec<String> {
        let tree = Tree::of(&[(MAP, map), ("crates/a/src/x/y.rs", ""), ("crates/b/src/lib.rs", "")]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_map_has_at_most_250_lines() {
        assert_eq!(findings(&"x\n".repeat(LINES_MAX)), [""; 0]);
        let long = "ARCHITECTURE.md:251: 251 lines; at most 250: move rules of behaviour to the docs of their module";
        assert_eq!(findings(&"x\n".repeat(LINES_MAX + 1)), [long]);
    }

    #[test]
    fn only_rows_of_tables_may_be_wide() {
        let wide = "x".repeat(COLUMNS_MAX + 1);
        assert_eq!(findings(&format!("| {wide} |\n{}\n", &wide[1..])), [""; 0]);
        assert_eq!(findings(&format!("a\n{wide}\n")), ["ARCHITECTURE.md:2: more than 160 columns"]);
    }

    #[test]
    fn modules_of_the_last_table_exist() {
        let table = |cell: &str| format!("{MODULES}\n| about | rules | for users |\n| x | {cell} | |\n");
        assert_eq!(findings(&table("x/y.rs, crates/b/src/lib.rs")), [""; 0]);
        assert_eq!(findings(&table("x/y.rs, y.rs, lib")), ["ARCHITECTURE.md:3: no module `y.rs`"]);
        assert_eq!(findings("| x | y.rs | |"), [""; 0]);
    }
}
