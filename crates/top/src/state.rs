//! The state of the screen: which keys lead where.

use crate::detail::{self, Field};
use crate::figures::{Figures, Window};
use crate::sample::{Lists, Sample};
use crate::table::{Order, Table, table};
use crate::view::{VIEWS, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;

/// Letters of a filter.
const FILTER_LEN_MAX: usize = 64;
/// Rates kept for the curve.
pub(crate) const HISTORY_MAX: usize = 240;
/// Rows that a page key moves.
const PAGE: usize = 10;

/// The meaning of keys at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Table,
    /// One row of the table.
    Detail(Detail),
    /// The filter is being typed.
    Filter,
    Help,
}

/// One row alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// The id of the row.
    pub id: String,
    /// As they were last.
    pub fields: Vec<Field>,
    pub is_gone: bool,
    /// Number of fields above the screen.
    pub scrolled: usize,
}

/// The consequence of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Another table is shown, which may need other answers.
    Ask,
    Quit,
}

/// Everything that is shown.
#[derive(Debug)]
pub(crate) struct State {
    pub view: View,
    pub mode: Mode,
    pub filter: String,
    pub is_paused: bool,
    /// The fault of the last attempt to ask.
    pub fault: Option<String>,
    pub figures: Option<Figures>,
    pub lists: Lists,
    /// Requests per second, oldest first.
    pub history: VecDeque<u64>,
    window: Window,
    orders: [Order; VIEWS],
    /// The chosen row of each table, by its id, since rows change places.
    chosen: [Option<String>; VIEWS],
}

impl Default for State {
    fn default() -> State {
        State {
            view: View::Nodes,
            mode: Mode::Table,
            filter: String::new(),
            is_paused: false,
            fault: None,
            figures: None,
            lists: Lists::default(),
            history: VecDeque::new(),
            window: Window::default(),
            orders: View::ALL.map(first_order),
            chosen: [const { None }; VIEWS],
        }
    }
}

impl State {
    /// Takes what the proxy answered, or why there is no answer. The figures stay then, and are old.
    pub(crate) fn handle_sample(&mut self, answer: Result<Sample, String>) {
        match answer {
            Err(fault) => self.fault = Some(fault),
            Ok(sample) => {
                self.fault = None;
                // A pause keeps what is shown, but goes on counting.
                let figures = self.window.take(sample.status);
                if self.is_paused {
                    self.lists.complete(sample.lists);
                    return;
                }
                if let Some(rate) = figures.totals.requests_per_s {
                    self.history.push_back(rate.round() as u64);
                    if self.history.len() > HISTORY_MAX {
                        self.history.pop_front();
                    }
                }
                self.figures = Some(figures);
                self.lists.update(sample.lists);
                self.refresh();
            }
        }
    }

    /// Looks anew at the row that is shown alone. If it is gone, what was known of it stays.
    fn refresh(&mut self) {
        let Mode::Detail(Detail { id, .. }) = &self.mode else { return };
        let found = detail::fields(self, id);
        let Mode::Detail(detail) = &mut self.mode else { return };
        detail.is_gone = found.is_none();
        if let Some(fields) = found {
            detail.fields = fields;
        }
    }

    pub(crate) fn handle_key(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Effect::Quit } else { Effect::None };
        }
        match self.mode {
            Mode::Filter => self.handle_letter(key.code),
            Mode::Help => {
                self.mode = Mode::Table;
                Effect::None
            }
            _ if key.code == KeyCode::Char('q') => Effect::Quit,
            _ => self.handle_command(key.code),
        }
    }

    /// A key while the filter is typed.
    fn handle_letter(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_LEN_MAX => self.filter.push(letter),
            _ => {}
        }
        Effect::None
    }

    fn handle_command(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Tab => return self.show(self.view.next(1)),
            KeyCode::BackTab => return self.show(self.view.next(VIEWS - 1)),
            KeyCode::Char(digit @ '1'..='9') => {
                return View::of_digit(digit).map_or(Effect::None, |view| self.show(view));
            }
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-(PAGE as isize)),
            KeyCode::PageDown => self.move_by(PAGE as isize),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX / 2),
            KeyCode::Enter => self.open(),
            KeyCode::Esc => self.back(),
            KeyCode::Char('s' | '>') | KeyCode::Right => self.sort_by(1),
            KeyCode::Char('<') | KeyCode::Left => self.sort_by(-1),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('?') => self.mode = Mode::Help,
            _ => {}
        }
        Effect::None
    }

    fn show(&mut self, view: View) -> Effect {
        self.view = view;
        self.mode = Mode::Table;
        Effect::Ask
    }

    fn open(&mut self) {
        if let Some(id) = self.chosen_id() {
            let fields = detail::fields(self, &id).unwrap_or_default();
            self.mode = Mode::Detail(Detail { id, fields, is_gone: false, scrolled: 0 });
        }
    }

    /// From one row to the table, from the table to all its rows.
    fn back(&mut self) {
        match self.mode {
            Mode::Table => self.filter.clear(),
            _ => self.mode = Mode::Table,
        }
    }

    /// To another row; in the view of one row, to other fields.
    fn move_by(&mut self, steps: isize) {
        if let Mode::Detail(detail) = &mut self.mode {
            let last = detail.fields.len().saturating_sub(1);
            detail.scrolled = detail.scrolled.saturating_add_signed(steps).min(last);
            return;
        }
        let rows = self.table().rows;
        let at = self.chosen_at(&rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>());
        let to = at.saturating_add_signed(steps).min(rows.len().saturating_sub(1));
        self.chosen[self.view.at()] = rows.get(to).map(|row| row.id.clone());
    }

    /// A step through the columns, round and round.
    fn sort_by(&mut self, steps: isize) {
        let table = self.table();
        let columns = table.columns.len() as isize;
        let column = (self.order().column as isize + steps).rem_euclid(columns) as usize;
        let is_descending = table.columns.get(column).is_some_and(|column| !column.is_left);
        self.orders[self.view.at()] = Order { column, is_descending };
    }

    fn reverse(&mut self) {
        let order = &mut self.orders[self.view.at()];
        order.is_descending = !order.is_descending;
    }

    pub(crate) fn order(&self) -> Order {
        self.orders[self.view.at()]
    }

    /// The rows that are shown, in their order.
    pub(crate) fn table(&self) -> Table {
        let nothing = Figures::default();
        let figures = self.figures.as_ref().unwrap_or(&nothing);
        table(self.view, figures, &self.lists).arranged(&self.filter, self.order())
    }

    /// The place of the chosen row among `ids`: the first one if it is gone.
    pub(crate) fn chosen_at(&self, ids: &[&str]) -> usize {
        let chosen = self.chosen[self.view.at()].as_deref();
        ids.iter().position(|id| Some(*id) == chosen).unwrap_or_default()
    }

    fn chosen_id(&self) -> Option<String> {
        let rows = self.table().rows;
        let at = self.chosen_at(&rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>());
        rows.get(at).map(|row| row.id.clone())
    }
}

/// The order at the start: the newest, or the most, first.
pub(crate) fn first_order(view: View) -> Order {
    match view {
        View::Nodes | View::Clients => Order { column: 0, is_descending: false },
        View::Slow | View::Events => Order { column: 0, is_descending: true },
        _ => Order { column: 1, is_descending: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;

    fn state() -> State {
        let mut state = State::default();
        state.handle_sample(Ok(sample(10.0, 1000)));
        state.handle_sample(Ok(sample(11.0, 1100)));
        state
    }

    fn press(state: &mut State, keys: &str) {
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            state.handle_key(code.into());
        }
    }

    /// The row that is shown alone: its id, the number of fields above the screen, and whether it is gone.
    fn alone(state: &State) -> (&str, usize, bool) {
        let Mode::Detail(detail) = &state.mode else { panic!("{:?}", state.mode) };
        (&detail.id, detail.scrolled, detail.is_gone)
    }

    #[test]
    fn a_row_that_goes_stays_while_it_is_shown_alone() {
        let mut state = state();
        press(&mut state, "6\n");
        let mut later = sample(12.0, 1200);
        later.lists.slow = Some(Vec::new());
        state.handle_sample(Ok(later));
        assert_eq!(alone(&state), ("7", 0, true));
        let Mode::Detail(Detail { fields, .. }) = &state.mode else { panic!("{:?}", state.mode) };
        assert_eq!(fields[0].value, "GET user:1");
        state.handle_sample(Ok(sample(13.0, 1300)));
        assert_eq!(alone(&state), ("7", 0, false));
    }

    #[test]
    fn keys_lead_through_the_views() {
        let mut state = state();
        press(&mut state, "\t");
        assert_eq!(state.view, View::Commands);
        press(&mut state, "91");
        assert_eq!((state.view, state.mode.clone()), (View::Nodes, Mode::Table));
        press(&mut state, "j\n");
        assert_eq!(alone(&state), ("127.0.0.1:7002", 0, false));
        press(&mut state, "jjk");
        assert_eq!(alone(&state), ("127.0.0.1:7002", 1, false));
        press(&mut state, "\x1b?");
        assert_eq!(state.mode, Mode::Help);
        press(&mut state, "x");
        assert_eq!(state.mode, Mode::Table);
    }

    #[test]
    fn the_filter_takes_letters_that_are_keys_elsewhere() {
        let mut state = state();
        press(&mut state, "/q7002");
        assert_eq!((state.filter.as_str(), state.table().rows.len()), ("q7002", 0));
        press(&mut state, "\x1b/7002\n");
        assert_eq!((state.mode.clone(), state.table().rows.len()), (Mode::Table, 1));
        press(&mut state, "\x1b");
        assert_eq!(state.table().rows.len(), 2);
    }

    #[test]
    fn a_chosen_row_stays_chosen_when_rows_change_places() {
        let mut state = state();
        press(&mut state, "jr\n");
        assert_eq!(alone(&state), ("127.0.0.1:7002", 0, false));
    }

    #[test]
    fn columns_sort_round_and_round() {
        let mut state = state();
        press(&mut state, "<");
        assert_eq!(state.order(), Order { column: 14, is_descending: false });
        press(&mut state, "ssss");
        assert_eq!(state.order(), Order { column: 3, is_descending: true });
        press(&mut state, "r");
        assert_eq!(state.order(), Order { column: 3, is_descending: false });
    }

    #[test]
    fn a_pause_keeps_the_figures() {
        let mut state = state();
        press(&mut state, "p");
        let shown = state.figures.clone();
        state.handle_sample(Ok(sample(12.0, 9000)));
        assert_eq!(state.figures, shown);
        press(&mut state, "p");
        state.handle_sample(Ok(sample(13.0, 9000)));
        assert_ne!(state.figures, shown);
    }

    #[test]
    fn a_fault_keeps_the_figures_until_there_is_an_answer() {
        let mut state = state();
        state.handle_sample(Err("refused".into()));
        assert!(state.fault.is_some() && state.figures.is_some());
        state.handle_sample(Ok(sample(13.0, 9000)));
        assert_eq!(state.fault, None);
    }

    #[test]
    fn q_and_ctrl_c_quit() {
        let mut state = state();
        assert_eq!(state.handle_key(KeyCode::Char('q').into()), Effect::Quit);
        press(&mut state, "/");
        assert_eq!(state.handle_key(KeyCode::Char('q').into()), Effect::None);
        assert_eq!(state.handle_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Effect::Quit);
    }
}
