//! Tables: rows whose cells have a text and a value to sort by.

use crate::figures::{self, Figures};
use crate::format::{NONE, bytes, clock, memory, number, percent, rate, time};
use crate::sample::{Client, Event, Hot, HotKey, Lists, Slow};
use crate::view::View;
use std::cmp::Ordering;

/// Letters of a state with its reason in a table. The view of one node has all of them.
const STATE_LEN_MAX: usize = 26;

/// The value that a cell is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Key {
    Text(String),
    Number(f64),
}

impl Key {
    fn compare(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Text(one), Key::Text(other)) => one.cmp(other),
            (Key::Number(one), Key::Number(other)) => one.total_cmp(other),
            (Key::Number(_), Key::Text(_)) => Ordering::Less,
            (Key::Text(_), Key::Number(_)) => Ordering::Greater,
        }
    }
}

/// The meaning of a row or line, which its colour shows too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Dim,
    Good,
    Warn,
    Bad,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub text: String,
    key: Key,
}

impl Cell {
    fn text(text: &str) -> Cell {
        Cell { text: text.to_owned(), key: Key::Text(text.to_owned()) }
    }

    fn count(value: u64) -> Cell {
        Cell { text: number(value as f64), key: Key::Number(value as f64) }
    }

    /// `text` stands for `value`, which sorts first if there is none.
    fn figure(text: String, value: Option<f64>) -> Cell {
        Cell { text, key: Key::Number(value.unwrap_or(-1.0)) }
    }

    fn rate(value: Option<f64>) -> Cell {
        Cell::figure(rate(value), value)
    }

    fn time(us: Option<f64>) -> Cell {
        Cell::figure(time(us), us)
    }

    fn bytes(value: u64) -> Cell {
        Cell::figure(bytes(value as f64), Some(value as f64))
    }

    /// A field of CLIENT LIST: a number if it is one.
    fn field(text: &str) -> Cell {
        let key = text.parse().map_or_else(|_| Key::Text(text.to_owned()), Key::Number);
        Cell { text: text.to_owned(), key }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Stays the same over samples.
    pub id: String,
    pub cells: Vec<Cell>,
    pub tone: Tone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub title: &'static str,
    pub is_left: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

/// The column that sorts, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub column: usize,
    pub is_descending: bool,
}

impl Table {
    /// `titles` with a leading `<` are those of columns at the left edge.
    fn new(titles: &[&'static str], rows: Vec<Row>) -> Table {
        let column = |title: &&'static str| match title.strip_prefix('<') {
            Some(title) => Column { title, is_left: true },
            None => Column { title, is_left: false },
        };
        Table { columns: titles.iter().map(column).collect(), rows }
    }

    /// The rows that contain `filter`, whatever the case, in `order`.
    pub(crate) fn arranged(mut self, filter: &str, order: Order) -> Table {
        let filter = filter.to_lowercase();
        self.rows.retain(|row| row.cells.iter().any(|cell| cell.text.to_lowercase().contains(&filter)));
        self.rows.sort_by(|one, other| {
            let (Some(one), Some(other)) = (one.cells.get(order.column), other.cells.get(order.column))
            else {
                return Ordering::Equal;
            };
            let ordering = one.key.compare(&other.key);
            if order.is_descending { ordering.reverse() } else { ordering }
        });
        self
    }

    /// The width of each column.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let len = |text: &str| text.chars().count();
        let width = |(at, column): (usize, &Column)| {
            // A mark of the order stands behind the title.
            let cells = self.rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| len(&cell.text));
            cells.max().unwrap_or_default().max(len(column.title) + 1)
        };
        self.columns.iter().enumerate().map(width).collect()
    }
}

/// The table of `view`.
pub(crate) fn table(view: View, figures: &Figures, lists: &Lists) -> Table {
    let hot = |kind: fn(&Hot) -> &Vec<HotKey>| lists.hot.as_ref().map(kind).map_or(&[][..], Vec::as_slice);
    match view {
        View::Nodes => nodes(&figures.nodes),
        View::Commands => commands(&figures.commands),
        View::HotKeys => hot_keys("<key", "requests/s", hot(|hot| &hot.keys)),
        View::BigKeys => hot_keys("<key", "bytes/s", hot(|hot| &hot.sizes)),
        View::Slots => hot_keys("<slot", "requests/s", hot(|hot| &hot.slots)),
        View::Slow => slow(lists.slow.as_deref().unwrap_or_default()),
        View::Clients => clients(lists.clients.as_deref().unwrap_or_default()),
        View::Events => events(lists.events.as_deref().unwrap_or_default()),
        View::Errors => errors(&figures.errors),
    }
}

fn nodes(nodes: &[figures::Node]) -> Table {
    let titles = [
        "<node",
        "<state",
        "<role",
        "keys",
        "replies/s",
        "p50",
        "p99",
        "p99.9",
        "errors/s",
        "failures",
        "in flight",
        "queued",
        "bytes/s",
        "memory",
        "<shard",
    ];
    let row = |node: &figures::Node| Row {
        id: node.address.to_string(),
        tone: tone(node),
        cells: vec![
            Cell::text(node.address.as_str()),
            Cell::text(&cut(&state(node), STATE_LEN_MAX)),
            Cell::text(node.role.as_str()),
            Cell::figure(share(node), Some(node.share)),
            Cell::rate(node.replies_per_s),
            Cell::time(node.times.p50_us),
            Cell::time(node.times.p99_us),
            Cell::time(node.times.p999_us),
            Cell::rate(node.errors_per_s),
            Cell::count(node.failures),
            Cell::count(node.in_flight),
            Cell::bytes(node.queued_bytes),
            Cell::figure(node.bytes_per_s.map_or_else(|| rate(None), bytes), node.bytes_per_s),
            Cell::figure(memory(node.used_memory_bytes), node.used_memory_bytes.map(|used| used as f64)),
            Cell::text(if node.shard == node.address { "" } else { node.shard.as_str() }),
        ],
    };
    Table::new(&titles, nodes.iter().map(row).collect())
}

/// The state of `node`, with its reason if it is down.
pub(crate) fn state(node: &figures::Node) -> String {
    match node.is_down && !node.reason.as_str().is_empty() {
        true => format!("{}: {}", node.state, node.reason),
        false => node.state.to_string(),
    }
}

/// The share of the keys; replicas have none of their own.
pub(crate) fn share(node: &figures::Node) -> String {
    if node.role.as_str() == "primary" { percent(node.share) } else { String::new() }
}

pub(crate) fn tone(node: &figures::Node) -> Tone {
    match node.state.as_str() {
        _ if node.is_down => Tone::Bad,
        "connecting" => Tone::Warn,
        "up" => Tone::Good,
        _ => Tone::Dim,
    }
}

fn commands(commands: &[figures::Command]) -> Table {
    let titles = ["<command", "calls/s", "calls", "p50", "p99", "p99.9", "refused", "failed"];
    let row = |row: &figures::Command| Row {
        id: row.name.to_string(),
        tone: Tone::Plain,
        cells: vec![
            Cell::text(row.name.as_str()),
            Cell::rate(row.calls_per_s),
            Cell::count(row.calls),
            Cell::time(row.times.p50_us),
            Cell::time(row.times.p99_us),
            Cell::time(row.times.p999_us),
            Cell::count(row.refused),
            Cell::count(row.failed),
        ],
    };
    Table::new(&titles, commands.iter().map(row).collect())
}

/// Keys or slots. Where a rate is one of bytes, so is its error.
fn hot_keys(name: &'static str, per_s: &'static str, keys: &[HotKey]) -> Table {
    let amount = if per_s == "bytes/s" { bytes } else { number };
    let row = |hot: &HotKey| Row {
        id: hot.key.to_string(),
        tone: Tone::Plain,
        cells: vec![
            Cell::text(hot.key.as_str()),
            Cell::figure(amount(hot.per_s), Some(hot.per_s)),
            Cell::figure(amount(hot.error), Some(hot.error)),
            Cell::figure(percent(hot.writes), Some(hot.writes)),
            Cell::figure(largest(hot), Some(hot.bytes_max as f64)),
        ],
    };
    Table::new(&[name, per_s, "error", "writes", "largest"], keys.iter().map(row).collect())
}

/// The largest value seen; there is none if none was looked at.
pub(crate) fn largest(hot: &HotKey) -> String {
    if hot.bytes_max == 0 { NONE.to_owned() } else { bytes(hot.bytes_max as f64) }
}

/// In the words of the page.
fn slow(requests: &[Slow]) -> Table {
    let titles =
        ["<UTC", "time", "before", "at the node", "<request", "<node", "reply", "tries", "<why", "<client"];
    let row = |slow: &Slow| Row {
        id: slow.id.to_string(),
        tone: if slow.reason.as_str() == "slow" { Tone::Plain } else { Tone::Dim },
        cells: vec![
            Cell { text: clock(slow.time_s), key: Key::Number(slow.time_s) },
            Cell::time(Some(slow.total_us as f64)),
            Cell::time(Some(slow.queued_us as f64)),
            Cell::time(Some(slow.node_us as f64)),
            Cell::text(slow.request.as_str()),
            Cell::text(slow.node.as_str()),
            Cell::bytes(slow.reply_bytes),
            Cell::count(slow.tries),
            Cell::text(slow.reason.as_str()),
            Cell::text(if slow.name.as_str().is_empty() { &slow.client } else { &slow.name }.as_str()),
        ],
    };
    Table::new(&titles, requests.iter().map(row).collect())
}

fn clients(clients: &[Client]) -> Table {
    const FIELDS: [&str; 9] = ["id", "addr", "name", "user", "db", "age", "idle", "cmd", "tot-mem"];
    let titles = ["id", "<addr", "<name", "<user", "db", "age", "idle", "<cmd", "tot-mem"];
    let row = |client: &Client| Row {
        id: client.field("id").to_owned(),
        tone: Tone::Plain,
        cells: FIELDS.iter().map(|field| Cell::field(client.field(field))).collect(),
    };
    Table::new(&titles, clients.iter().map(row).collect())
}

/// Newest first, since several may have one time.
fn events(events: &[Event]) -> Table {
    let row = |event: &Event| Row {
        id: event.id.to_string(),
        tone: match event.level.as_str() {
            "ERROR" => Tone::Bad,
            "WARN" => Tone::Warn,
            _ => Tone::Plain,
        },
        cells: vec![
            Cell { text: clock(event.time_s), key: Key::Number(event.time_s) },
            Cell::text(event.level.as_str()),
            Cell::text(event.name.as_str()),
            Cell::text(event.details.as_str()),
        ],
    };
    Table::new(&["<UTC", "<level", "<event", "<details"], events.iter().rev().map(row).collect())
}

fn errors(errors: &[figures::Cause]) -> Table {
    let row = |row: &figures::Cause| Row {
        id: row.cause.to_string(),
        tone: if row.errors_per_s > Some(0.0) { Tone::Bad } else { Tone::Plain },
        cells: vec![
            Cell::text(&row.cause.as_str().replace('_', " ")),
            Cell::rate(row.errors_per_s),
            Cell::count(row.count),
        ],
    };
    Table::new(&["<cause", "errors/s", "errors"], errors.iter().map(row).collect())
}

/// The first `len_max` letters, with a mark if there are more.
pub(crate) fn cut(text: &str, len_max: usize) -> String {
    if text.chars().count() <= len_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(len_max.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Window;
    use crate::testing::status;

    fn ids(table: &Table) -> Vec<&str> {
        table.rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn rows_are_filtered_and_sorted() {
        let mut window = Window::default();
        window.take(status(10.0, 100));
        let figures = window.take(status(11.0, 200));
        let commands = |filter, column, is_descending| {
            let table = table(View::Commands, &figures, &Lists::default());
            table.arranged(filter, Order { column, is_descending })
        };
        assert_eq!(ids(&commands("", 1, true)), ["set", "get"]);
        assert_eq!(ids(&commands("", 0, false)), ["get", "set"]);
        assert_eq!(ids(&commands("SE", 0, false)), ["set"]);
    }

    #[test]
    fn clients_sort_by_number_where_there_is_one() {
        let clients = Client::all("id=10 age=9\nid=9 age=80\n");
        let lists = Lists { clients: Some(clients), ..Lists::default() };
        let arranged = |column| {
            let table = table(View::Clients, &Figures::default(), &lists);
            let table = table.arranged("", Order { column, is_descending: false });
            table.rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
        };
        assert_eq!(arranged(0), ["9", "10"]);
        assert_eq!(arranged(5), ["10", "9"]);
    }
}
