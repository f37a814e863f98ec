//! The table of a view, or one row of it.

use crate::detail::Field;
use crate::palette::{BOLD, CHOSEN, Palette};
use crate::state::{Detail, State};
use crate::table::{Column, Order, Row, Table, Tone, cut};
use crate::view::View;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

/// Letters of a text that are worth a column, where there is no room for all columns.
const TEXT_LEN_MIN: usize = 20;

pub(crate) fn draw_table(frame: &mut Frame<'_>, area: Rect, state: &State, palette: Palette) {
    let table = state.table();
    if table.rows.is_empty() {
        let text = Paragraph::new(nothing(state)).style(palette.tone(Tone::Dim));
        frame.render_widget(text, area);
        return;
    }
    let ids: Vec<&str> = table.rows.iter().map(|row| row.id.as_str()).collect();
    let (chosen, room) = (state.chosen_at(&ids), usize::from(area.height.saturating_sub(1)).max(1));
    // The chosen row is on the screen: the last one, if the first ones do not reach it.
    let first = (chosen + 1).saturating_sub(room);
    let columns = fitting(&table, state.order(), area.width.into());
    let mut lines = vec![head_line(&table.columns, &columns, state.order(), palette)];
    for (at, row) in table.rows.iter().enumerate().skip(first).take(room) {
        let style = if at == chosen { CHOSEN } else { Style::new() };
        lines.push(row_line(row, &table.columns, &columns, palette).style(style));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Why a table has no rows.
fn nothing(state: &State) -> &'static str {
    let lists = &state.lists;
    match state.view {
        _ if state.figures.is_none() => "",
        _ if !state.filter.is_empty() => "No row has these letters.",
        View::HotKeys | View::BigKeys | View::Slots if lists.hot.is_none() => ASKING,
        View::Slow if lists.slow.is_none() => ASKING,
        View::Clients if lists.clients.is_none() => ASKING,
        View::Events if lists.events.is_none() => ASKING,
        View::Nodes => "There are no nodes.",
        View::Commands => "No client has sent a command yet.",
        View::HotKeys | View::BigKeys => "No key has been seen in the last minutes.",
        View::Slots => "No slot has been seen in the last minutes, or keys do not go by slots.",
        View::Slow => {
            "There has been no slow request. --slowlog-log-slower-than says from when a request is slow."
        }
        View::Clients => "There are no clients.",
        View::Events => "Nothing has happened yet.",
        View::Errors => "No client has got an error from shardis yet.",
    }
}

const ASKING: &str = "Asking …";

/// The columns that fit into `width`, with their widths. The one that sorts is always among them; those at the right are left out.
fn fitting(table: &Table, order: Order, width: usize) -> Vec<(usize, usize)> {
    let mut widths = table.widths();
    let last = widths.len().saturating_sub(1);
    if widths.iter().map(|width| width + 1).sum::<usize>() > width {
        // One long key must not push all figures off the screen.
        let text_max = (width / 2).max(TEXT_LEN_MIN);
        let texts = widths.iter_mut().zip(&table.columns).take(last).filter(|(_, column)| column.is_left);
        texts.for_each(|(width, _)| *width = text_max.min(*width));
    }
    let reserved = widths.get(order.column).map_or(0, |width| width + 1);
    let (mut columns, mut used) = (Vec::new(), 0);
    for (at, &needed) in widths.iter().enumerate() {
        let kept = if at < order.column { reserved } else { 0 };
        if used + needed + kept > width {
            // A long text, or a first column that is wider than the screen, is cut.
            let rest = width.saturating_sub(used + kept);
            let rest_min = if at == last { 1 } else { TEXT_LEN_MIN };
            if at == 0 || table.columns[at].is_left && rest >= rest_min {
                columns.push((at, rest));
            }
            if at < order.column && !columns.iter().any(|&(column, _)| column == order.column) {
                columns.push((order.column, widths[order.column]));
            }
            break;
        }
        columns.push((at, needed));
        used += needed + 1;
    }
    columns
}

fn head_line<'a>(columns: &[Column], shown: &[(usize, usize)], order: Order, palette: Palette) -> Line<'a> {
    let head = |&(at, width): &(usize, usize)| {
        let Column { title, is_left } = columns[at];
        let (mark, style) = match (at == order.column, order.is_descending) {
            (false, _) => ("", palette.tone(Tone::Dim)),
            (true, true) => ("↓", BOLD),
            (true, false) => ("↑", BOLD),
        };
        Span::styled(aligned(&format!("{title}{mark}"), width, is_left) + " ", style)
    };
    Line::from(shown.iter().map(head).collect::<Vec<_>>())
}

fn row_line<'a>(row: &Row, columns: &[Column], shown: &[(usize, usize)], palette: Palette) -> Line<'a> {
    let cell = |&(at, width): &(usize, usize)| {
        let style = match row.tone {
            // Only the state of a node that is well has a colour.
            Tone::Good if columns[at].title != "state" => Style::default(),
            tone => palette.tone(tone),
        };
        Span::styled(aligned(&row.cells[at].text, width, columns[at].is_left) + " ", style)
    };
    Line::from(shown.iter().map(cell).collect::<Vec<_>>())
}

/// `text` in a column.
pub(crate) fn aligned(text: &str, width: usize, is_left: bool) -> String {
    let text = cut(text, width);
    if is_left { format!("{text:<width$}") } else { format!("{text:>width$}") }
}

/// One row alone.
pub(crate) fn draw_detail(frame: &mut Frame<'_>, area: Rect, detail: &Detail, palette: Palette) {
    let mut lines = field_lines(&detail.fields, detail.scrolled, palette);
    if detail.is_gone {
        lines.insert(0, Line::styled("It is gone. This was known last.", palette.tone(Tone::Warn)));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn field_lines<'a>(fields: &'a [Field], scrolled: usize, palette: Palette) -> Vec<Line<'a>> {
    let width = fields.iter().map(|field| field.name.chars().count()).max().unwrap_or_default();
    let line = |field: &'a Field| {
        let name = Span::styled(format!("{:width$}  ", field.name), palette.tone(Tone::Dim));
        Line::from(vec![name, Span::styled(field.value.as_str(), palette.tone(field.tone))])
    };
    fields.iter().skip(scrolled).map(line).collect()
}
