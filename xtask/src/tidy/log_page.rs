//! The part of docs/log.md that lists all lines of the log, made from the calls and from the table of their meanings. The page
//! is never behind the code: a stale one is a finding, and `--bless` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use syn::visit::{self, Visit};

use super::Finding;
use super::log_lines::Call;
use super::source::Source;
use super::tree::Tree;

/// The page.
pub(super) const PAGE_PATH: &str = "docs/log.md";
/// The table of the meanings.
const TABLE_PATH: &str = "crates/shardis/src/log_messages.rs";
/// The crates whose calls reach that table's log.
const CRATES: &str = "crates/";
/// The generated part of the page is between these lines.
const BEGIN: &str =
    "<!-- Names: generated from crates/shardis/src/log_messages.rs by `cargo xtask tidy --bless`. -->";
const END: &str = "<!-- End of the names. -->";
/// Keys that every line in JSON has.
const RESERVED: &[&str] = &["level", "message", "name", "timestamp"];
const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// A row of the table.
#[derive(Default)]
struct Row {
    name: String,
    per: Vec<String>,
    meaning: String,
    cure: String,
    line: usize,
}

/// Everything that the calls of one name have in common.
#[derive(Default)]
struct Uses {
    levels: BTreeSet<usize>,
    keys: BTreeSet<String>,
}

/// Calls without a row, rows without a call, keys that cannot be.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let (rows, calls) = (rows(sources), calls(sources));
    let mut findings = Vec::new();
    for (path, call) in &calls {
        let mut find = |text: String| findings.push(Finding::new(path, call.line, text));
        if !rows.iter().any(|row| row.name == call.name) {
            find(format!("`{}` has no row in {TABLE_PATH}", call.name));
        }
        for key in call.keys.iter().filter(|key| RESERVED.contains(&key.as_str())) {
            find(format!("`{key}` is a key of every line: choose another"));
        }
    }
    for row in &rows {
        let of_row: Vec<&Call> =
            calls.iter().filter(|(_, call)| call.name == row.name).map(|(_, call)| call).collect();
        let mut find = |text: String| findings.push(Finding::new(TABLE_PATH, row.line, text));
        if of_row.is_empty() {
            find(format!("no call logs `{}`", row.name));
        }
        for key in row.per.iter().filter(|key| !of_row.iter().any(|call| call.keys.contains(key))) {
            find(format!("no call of `{}` has the key `{key}`", row.name));
        }
        if !row.meaning.ends_with('.') {
            find(format!("`{}` has no meaning", row.name));
        }
    }
    findings
}

/// A finding if the page is stale.
pub(super) fn check_page(tree: &Tree, sources: &[Source<'_>]) -> Option<Finding> {
    let page = tree.text(PAGE_PATH).unwrap_or_default();
    match fresh(page, sources) {
        None => Some(Finding::new(PAGE_PATH, 1, format!("lacks the line `{BEGIN}` or `{END}`"))),
        Some(fresh) if fresh != page => {
            Some(Finding::new(PAGE_PATH, 1, "is stale; write it anew with `cargo xtask tidy --bless`"))
        }
        Some(_) => None,
    }
}

/// `page` with its generated part written anew; `None` if it has no such part.
pub(super) fn fresh(page: &str, sources: &[Source<'_>]) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n{END}{after}", listed(&rows(sources), &calls(sources))))
}

fn listed(rows: &[Row], calls: &[(&str, Call)]) -> String {
    let mut uses: BTreeMap<&str, Uses> = BTreeMap::new();
    for (_, call) in calls {
        let of_name = uses.entry(&call.name).or_default();
        of_name.levels.extend(LEVELS.iter().position(|level| *level == call.level));
        of_name.keys.extend(call.keys.iter().cloned());
    }
    let mut text = "| name | level | keys | meaning | cure |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for Row { name, meaning, cure, .. } in rows {
        let Some(Uses { levels, keys }) = uses.get(name.as_str()) else { continue };
        let levels = levels.iter().map(|level| LEVELS[*level]).collect::<Vec<_>>().join(", ");
        let keys = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| `{name}` | {levels} | {keys} | {} | {} |", linked(meaning), linked(cure));
    }
    text
}

/// `text` for a cell, with its mentions of our pages as links. On a terminal they stay paths.
fn linked(text: &str) -> String {
    let mut parts = text.split("docs/");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(".md") {
            Some((page, rest)) => linked.extend(["[", page, ".md](", page, ".md)", rest]),
            None => linked.extend(["docs/", part]),
        }
    }
    linked.replace('|', "\\|")
}

fn calls<'a>(sources: &'a [Source<'_>]) -> Vec<(&'a str, Call)> {
    let of_product = sources.iter().filter(|source| source.path.starts_with(CRATES));
    of_product
        .flat_map(|source| super::log_lines::calls(source).into_iter().map(|call| (source.path, call)))
        .collect()
}

fn rows(sources: &[Source<'_>]) -> Vec<Row> {
    let mut table = Table(Vec::new());
    if let Some(source) = sources.iter().find(|source| source.path == TABLE_PATH) {
        table.visit_file(&source.file);
    }
    table.0
}

/// The rows of the constant `MESSAGES`.
struct Table(Vec<Row>);

impl<'ast> Visit<'ast> for Table {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if item.ident == "MESSAGES" {
            visit::visit_item_const(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_expr_struct(&mut self, item: &'ast syn::ExprStruct) {
        let line = item.path.segments.first().map_or(1, |first| first.ident.span().start().line);
        let mut row = Row { line, ..Row::default() };
        for field in &item.fields {
            let syn::Member::Named(name) = &field.member else { continue };
            let mut texts = Texts(Vec::new());
            texts.visit_expr(&field.expr);
            match name.to_string().as_str() {
                "name" => row.name = texts.0.concat(),
                "meaning" => row.meaning = texts.0.concat(),
                "cure" => row.cure = texts.0.concat(),
                _ => row.per = texts.0,
            }
        }
        self.0.push(row);
    }
}

/// The strings of an expression.
struct Texts(Vec<String>);

impl<'ast> Visit<'ast> for Texts {
    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.push(text.value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "const MESSAGES: &[Message] = &[\n\
        Message { name: \"node down\", per: &[\"shard\", \"node\"], meaning: \"It is \\\n            gone.\", cure: \"Start a|b (docs/a.md).\" },\n\
        Message { name: \"users saved\", per: &[], meaning: \"Saved.\", cure: \"\" },\n];";

    fn sources(calls: &'static str) -> Vec<Source<'static>> {
        let parse = |path, text| Source::parse(path, text).expect("it is Rust");
        vec![
            parse(TABLE_PATH, ROWS),
            parse("crates/a/src/a.rs", calls),
            parse("tests/a.rs", "fn f() { warn!(\"x y\"); }"),
        ]
    }

    fn texts(calls: &'static str) -> Vec<String> {
        check(&sources(calls)).into_iter().map(|finding| finding.text).collect()
    }

    const WELL: &str = "fn f() { warn!(shard, \"node down\"); error!(%node, a = b, \"node down\"); info!(\"users saved\"); }";

    #[test]
    fn calls_and_rows_that_fit_are_listed() {
        assert_eq!(texts(WELL), [""; 0]);
        let page =
            fresh(&format!("# Log\n{BEGIN}\nold\n{END}\nend"), &sources(WELL)).expect("it has the part");
        let expected = "| `node down` | error, warn | `a`, `node`, `shard` | It is gone. | Start a\\|b ([a.md](a.md)). |\n\
                        | `users saved` | info |  | Saved. |  |\n\n<!-- End";
        assert!(
            page.starts_with("# Log\n<!--") && page.contains(expected) && page.ends_with("\nend"),
            "{page}"
        );
        let tree = Tree::of(&[(PAGE_PATH, &page)]);
        assert_eq!(check_page(&tree, &sources(WELL)), None);
        let tree = Tree::of(&[(PAGE_PATH, &page.replace("gone", "there"))]);
        assert!(check_page(&tree, &sources(WELL)).is_some_and(|finding| finding.text.contains("stale")));
        let tree = Tree::of(&[(PAGE_PATH, "# Log")]);
        assert!(check_page(&tree, &sources(WELL)).is_some_and(|finding| finding.text.contains("lacks")));
    }

    #[test]
    fn calls_and_rows_that_do_not_fit_are_found() {
        let found = texts("fn f() { warn!(shard, \"node down\"); info!(level, \"node up\"); }");
        assert_eq!(
            found,
            [
                format!("`node up` has no row in {TABLE_PATH}"),
                "`level` is a key of every line: choose another".to_owned(),
                "no call of `node down` has the key `node`".to_owned(),
                "no call logs `users saved`".to_owned(),
            ]
        );
    }
}
