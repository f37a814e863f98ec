//! One look for scripts and pipes: plain text, or the figures in JSON.

use crate::draw::{readiness, totals};
use crate::figures::Figures;
use crate::format::span;
use crate::rows::aligned;
use crate::sample::Lists;
use crate::state::first_order;
use crate::table::{Table, table};
use crate::view::View;
use serde::Serialize;

/// The tables of the text.
pub(crate) const VIEWS: [View; 5] = [View::Nodes, View::Commands, View::HotKeys, View::Slow, View::Errors];
/// Rows of each table but that of the nodes.
const ROWS_MAX: usize = 10;

/// The figures as text.
pub(crate) fn text(figures: &Figures, lists: &Lists) -> String {
    let (ready, _) = readiness(figures);
    let mut text = format!(
        "shardis {ready}  up {}  {}, epoch {}  {}\n",
        span(figures.uptime_s),
        figures.layout,
        figures.epoch,
        figures.version
    );
    let totals = totals(figures).map(|(name, value)| format!("{name} {value}"));
    text += &format!("{}\n{}\n", totals[..5].join("   "), totals[5..].join("   "));
    for view in VIEWS {
        let mut table = table(view, figures, lists).arranged("", first_order(view));
        if view != View::Nodes {
            table.rows.truncate(ROWS_MAX);
        }
        if !table.rows.is_empty() {
            text += "\n";
            text += &lines(&table);
        }
    }
    text
}

fn lines(table: &Table) -> String {
    let widths = table.widths();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).zip(&table.columns);
        let cells: Vec<String> =
            cells.map(|((cell, &width), column)| aligned(cell, width, column.is_left)).collect();
        cells.join(" ").trim_end().to_owned() + "\n"
    };
    let head = line(table.columns.iter().map(|column| column.title).collect());
    let rows = table.rows.iter().map(|row| line(row.cells.iter().map(|cell| cell.text.as_str()).collect()));
    head + &rows.collect::<String>()
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Everything<'a> {
    #[serde(flatten)]
    figures: &'a Figures,
    #[serde(flatten)]
    lists: &'a Lists,
}

/// All figures and lists in one line of JSON; docs/top.md has the fields.
pub(crate) fn json(figures: &Figures, lists: &Lists) -> serde_json::Result<String> {
    Ok(serde_json::to_string(&Everything { figures, lists })? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Window;
    use crate::testing::{sample, status};

    fn look() -> (Figures, Lists) {
        let mut window = Window::default();
        window.take(status(10.0, 1000));
        let second = sample(11.0, 1100);
        (window.take(second.status), second.lists)
    }

    #[test]
    fn text_has_a_line_for_each_node_and_command() {
        let (figures, lists) = look();
        let text = text(&figures, &lists);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("shardis 2 of 2 shards up"), "{text}");
        for start in ["127.0.0.1:7001 up", "127.0.0.1:7002 up", "get ", "set ", "user:1 ", "node timeout"] {
            assert_eq!(lines.iter().filter(|line| line.starts_with(start)).count(), 1, "{start}: {text}");
        }
    }

    #[test]
    fn fields_of_json_are_documented() {
        let page = include_str!("../../../docs/top.md");
        let (figures, lists) = look();
        let text = json(&figures, &lists).expect("valid");
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid");
        let check = |value: &serde_json::Value| {
            for name in value.as_object().expect("an object").keys() {
                assert!(page.contains(&format!("`{name}`")), "docs/top.md lacks {name}");
            }
        };
        check(&value);
        for object in ["totals", "hot"] {
            check(&value[object]);
        }
        for list in ["workers", "nodes", "commands", "errors", "events", "slow"] {
            check(&value[list][0]);
        }
        check(&value["hot"]["keys"][0]);
        assert_eq!(value["clients"][0]["addr"], "127.0.0.1:5000");
    }
}
