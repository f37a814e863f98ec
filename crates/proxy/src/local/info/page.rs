//! docs/info.md, written from the table.

use super::survey::Combine;
use super::table::{Field, From};
use super::{SECTIONS, Section, Shown};
use std::fmt::Write;

/// The page: each field of INFO, its source, and remarks.
pub fn info_reference() -> String {
    let mut page = String::from(INTRODUCTION);
    SECTIONS.iter().for_each(|section| write_section(&mut page, section));
    page
}

const INTRODUCTION: &str = "\
<!-- Generated from crates/proxy by `SHARDIS_BLESS=1 cargo test -p proxy --test reference`. -->

# INFO

INFO has every field of Redis 7.0, in Redis's sections and order, so that exporters and dashboards for one Redis find what
they look for. A figure of the data is put together of the figures of all nodes, a figure of a process is that of shardis.
Some fields only shardis has.

- shardis asks all nodes at once for the sections that are *asked of the nodes*, the embedded store included. The others are
  answered at once.
- A node that does not answer within `--request-timeout-ms` is left out of all figures; its line in section Nodes says why.
- Times and sizes have Redis's units.
- A figure that no node tells is 0; a time is -1, a status `ok`. So the embedded store has 0 for all that it does not measure.
";

fn write_section(page: &mut String, section: &Section) {
    let shown = match section.shown {
        Shown::ByDefault => "by default",
        Shown::WithAll => "by its name, `all` and `everything`",
        Shown::NotWithAll => "by default; not by `all`",
    };
    let asked = if section.asks_nodes { "asked of the nodes" } else { "answered at once" };
    // Writing to a `String` cannot fail.
    let _ = write!(page, "\n## {}\n\nShown {shown}; {asked}.\n", section.title);
    if section.fields.is_empty() {
        page.push_str("\nIt has no fields: shardis has no modules. `COMMAND` knows those of the nodes.\n");
        return;
    }
    page.push_str("\n| field | is | notes |\n| --- | --- | --- |\n");
    for field in section.fields {
        let _ = writeln!(page, "| `{}` | {} | {} |", field.name, origin(field), field.about);
    }
}

fn origin(field: &Field) -> String {
    match field.from {
        From::Count(_) => "of shardis".to_owned(),
        From::Text(_) if field.about.starts_with('`') => "computed".to_owned(),
        From::Text(_) => "of shardis".to_owned(),
        From::Fixed(value) => format!("always `{value}`"),
        From::Nodes(combine) | From::Adjusted(combine, _) => combination(combine),
        From::SomeNodes(combine) => format!("{}; left out if no node has it", combination(combine)),
        From::Human(of) => format!("`{of}` in units"),
        From::Lines(_) => "any number of lines".to_owned(),
    }
}

fn combination(combine: Combine) -> String {
    match combine {
        Combine::Sum | Combine::SumOfRates => "sum over the nodes".to_owned(),
        Combine::SumOfBounds => "sum over the nodes; 0 (no bound) if one has none".to_owned(),
        Combine::Largest | Combine::LargestShare => "largest of the nodes".to_owned(),
        Combine::Longest => "longest of the nodes".to_owned(),
        Combine::Oldest => "oldest of the nodes".to_owned(),
        Combine::Status => "`ok` if all nodes say so".to_owned(),
        Combine::Common(_) => "common to the nodes, else `mixed`".to_owned(),
    }
}
