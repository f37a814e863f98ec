//! The screen, from the state.

use crate::figures::Figures;
use crate::format::{NONE, bytes, number, percent, rate, span, time};
use crate::palette::{BOLD, CHOSEN, Palette};
use crate::rows::{draw_detail, draw_table};
use crate::state::{Mode, State};
use crate::table::Tone;
use crate::view::View;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Wrap};

const KEYS: &str = " tab view  enter open  s sort  r reverse  / filter  p pause  ? help  q quit";

const HELP: &[&str] = &[
    "tab, 1 to 9       the next view, or one of them",
    "arrows, j, k      choose a row; page up and down, g and G go further",
    "enter             the chosen row alone, with all that is known of it",
    "esc               back; in a table, show all rows again",
    "s, < and >        sort by the next, the former or the next column",
    "r                 reverse the order",
    "/                 show rows with these letters; enter keeps, esc drops them",
    "p                 pause; again goes on",
    "q, ctrl-c         quit",
    "",
    "Rates and quantiles are those of the last four seconds; those of keys and",
    "slots, of the last minutes. Times are from queued to reply. Wider terminals",
    "show more columns.",
];

/// Lines of the alarm: the reason may be long.
const ALARM_HEIGHT: u16 = 2;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let alarm = if state.fault.is_some() { ALARM_HEIGHT } else { 0 };
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(alarm),
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [title, fault, totals, tabs, body, keys] = areas.areas(frame.area());
    frame.render_widget(title_line(state, palette), title);
    if let Some(text) = &state.fault {
        frame.render_widget(alarm_line(text, state.figures.is_some(), palette), fault);
    }
    if let Some(figures) = &state.figures {
        draw_totals(frame, totals, figures, state, palette);
    }
    frame.render_widget(tab_line(state, palette), tabs);
    match &state.mode {
        Mode::Help => frame.render_widget(Paragraph::new(HELP.join("\n")), body),
        Mode::Detail(detail) => draw_detail(frame, body, detail, palette),
        Mode::Table | Mode::Filter => draw_table(frame, body, state, palette),
    }
    frame.render_widget(key_line(state, palette), keys);
}

fn title_line<'a>(state: &State, palette: Palette) -> Line<'a> {
    let Some(figures) = &state.figures else {
        return Line::from(vec![Span::styled("shardis", BOLD), Span::raw("  no answer yet")]);
    };
    let (ready, tone) = readiness(figures);
    let about = format!(
        "up {}  {}, epoch {}  {}",
        span(figures.uptime_s),
        figures.layout,
        figures.epoch,
        figures.version
    );
    let mut spans = vec![
        Span::styled("shardis", BOLD),
        Span::styled(format!(" {ready}  "), palette.tone(tone)),
        Span::styled(about, palette.tone(Tone::Dim)),
    ];
    if state.is_paused {
        spans.insert(1, Span::styled(" PAUSED", palette.tone(Tone::Warn).patch(BOLD)));
    }
    Line::from(spans)
}

/// Whether all shards can be reached.
pub(crate) fn readiness(figures: &Figures) -> (String, Tone) {
    let Figures { shards, shards_up, .. } = figures;
    match figures.is_draining {
        true => ("draining".to_owned(), Tone::Warn),
        false => {
            let tone = if shards == shards_up { Tone::Good } else { Tone::Bad };
            (format!("{shards_up} of {shards} shards up"), tone)
        }
    }
}

fn alarm_line<'a>(text: &str, has_figures: bool, palette: Palette) -> Paragraph<'a> {
    let old = if has_figures { " The figures below are old." } else { "" };
    Paragraph::new(format!("shardis does not answer.{old} {text}"))
        .style(palette.alarm())
        .wrap(Wrap { trim: false })
}

/// The figures of the page's tiles: names and values.
pub(crate) fn totals(figures: &Figures) -> [(&'static str, String); 9] {
    let totals = &figures.totals;
    [
        ("requests/s", rate(totals.requests_per_s)),
        ("p50", time(totals.times.p50_us)),
        ("p99", time(totals.times.p99_us)),
        ("p99.9", time(totals.times.p999_us)),
        ("errors/s", rate(totals.errors_per_s)),
        ("clients", format!("{} ({} blocked)", number(totals.clients as f64), totals.clients_blocked)),
        ("bytes/s", totals.bytes_per_s.map_or_else(|| NONE.to_owned(), bytes)),
        ("memory", bytes(totals.resident_bytes as f64)),
        ("busiest worker", totals.busiest_worker.map_or_else(|| NONE.to_owned(), percent)),
    ]
}

fn draw_totals(frame: &mut Frame<'_>, area: Rect, figures: &Figures, state: &State, palette: Palette) {
    let shown = totals(figures);
    let line = |some: &[(&'static str, String)]| {
        let pair = |(name, value): &(&'static str, String)| {
            let is_bad = *name == "errors/s" && figures.totals.errors_per_s > Some(0.0);
            let value_style = if is_bad { palette.tone(Tone::Bad) } else { BOLD };
            [
                Span::styled(format!("{name} "), palette.tone(Tone::Dim)),
                Span::styled(format!("{value}   "), value_style),
            ]
        };
        Line::from(some.iter().flat_map(pair).collect::<Vec<_>>())
    };
    let text = vec![line(&shown[..5]), line(&shown[5..])];
    // The curve of requests per second takes what is left at the right.
    let width = text.iter().map(Line::width).max().unwrap_or_default() as u16;
    let [left, right] = Layout::horizontal([Constraint::Length(width), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(text), left);
    let from = state.history.len().saturating_sub(right.width.into());
    let style = if palette.has_colours { Style::default().fg(Color::Blue) } else { Style::default() };
    frame.render_widget(
        Sparkline::default().data(state.history.iter().skip(from).copied()).style(style),
        right,
    );
}

fn tab_line<'a>(state: &State, palette: Palette) -> Line<'a> {
    let tab = |(at, view): (usize, View)| {
        let style = match view == state.view {
            true => CHOSEN.patch(BOLD),
            false => palette.tone(Tone::Dim),
        };
        Span::styled(format!("{} {} ", at + 1, view.title()), style)
    };
    Line::from(View::ALL.into_iter().enumerate().map(tab).collect::<Vec<_>>())
}

fn key_line<'a>(state: &State, palette: Palette) -> Line<'a> {
    match &state.mode {
        Mode::Filter => Line::raw(format!(" rows with: {}▏ (enter keeps, esc drops)", state.filter)),
        Mode::Help => Line::styled(" any key: back", palette.tone(Tone::Dim)),
        Mode::Detail(_) => Line::styled(" esc back  arrows scroll  q quit", palette.tone(Tone::Dim)),
        Mode::Table if !state.filter.is_empty() => {
            Line::styled(format!(" rows with {:?}; esc shows all", state.filter), palette.tone(Tone::Warn))
        }
        Mode::Table => Line::styled(KEYS, palette.tone(Tone::Dim)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    const PLAIN: Palette = Palette { has_colours: false };

    fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a buffer");
        terminal.draw(|frame| draw(frame, state, PLAIN)).expect("a buffer");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn state() -> State {
        let mut state = State::default();
        state.handle_sample(Ok(sample(10.0, 1000)));
        state.handle_sample(Ok(sample(11.0, 1100)));
        state
    }

    #[test]
    fn a_small_terminal_shows_states_and_times() {
        let lines = screen(&state(), 80, 24);
        assert_eq!(lines[0], "shardis 2 of 2 shards up  up 10 s  2 shards, ketama, epoch 0  0.1.0");
        assert!(
            lines[1].starts_with("requests/s 100   p50 192 µs   p99 255 µs   p99.9 256 µs   errors/s 10"),
            "{}",
            lines[1]
        );
        assert!(lines[4].starts_with("node↑          state"), "{}", lines[4]);
        assert!(lines[5].starts_with("127.0.0.1:7001 up     primary"), "{}", lines[5]);
        for title in ["keys", "replies/s", "p50", "p99", "p99.9", "errors/s"] {
            assert!(lines[4].contains(title), "{title}: {}", lines[4]);
        }
        assert_eq!(lines[23], KEYS);
    }

    #[test]
    fn a_node_that_is_down_says_why() {
        let mut state = State::default();
        let mut down = sample(10.0, 0);
        (down.status.nodes[1].state, down.status.nodes[1].reason) =
            ("down".into(), "connection refused".into());
        state.handle_sample(Ok(down));
        let lines = screen(&state, 80, 24);
        assert!(
            lines[0].contains("1 of 2 shards up") && lines[6].contains("down: connection refused"),
            "{lines:?}"
        );
    }

    #[test]
    fn no_answer_is_said_loudly() {
        let mut state = State::default();
        state.handle_sample(Err("http://127.0.0.1:9121: connection refused".into()));
        let lines = screen(&state, 80, 24);
        assert!(
            lines[1].contains("shardis does not answer. http://127.0.0.1:9121: connection refused"),
            "{lines:?}"
        );
        state.handle_sample(Ok(sample(10.0, 0)));
        state.handle_sample(Err("timeout".into()));
        assert!(screen(&state, 80, 24)[1].contains("The figures below are old. timeout"));
    }

    #[test]
    fn the_column_that_sorts_is_always_shown() {
        let mut state = state();
        for _ in 0..12 {
            state.handle_key(KeyCode::Char('s').into());
        }
        let lines = screen(&state, 60, 24);
        assert!(lines[4].starts_with("node ") && lines[4].ends_with("bytes/s↓"), "{}", lines[4]);
    }

    #[test]
    fn no_size_is_too_small() {
        let mut state = state();
        for key in [
            KeyCode::Tab,
            KeyCode::Tab,
            KeyCode::Tab,
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::Char('?'),
        ] {
            for (width, height) in [(1, 1), (5, 3), (20, 6), (300, 80)] {
                screen(&state, width, height);
            }
            state.handle_key(key.into());
        }
    }

    #[test]
    fn the_view_of_one_node_has_its_events() {
        let mut state = state();
        state.handle_key(KeyCode::Enter.into());
        let text = screen(&state, 80, 26).join("\n");
        assert!(
            text.contains("address      127.0.0.1:7001") && text.contains("01:01:01     node down"),
            "{text}"
        );
    }
}
