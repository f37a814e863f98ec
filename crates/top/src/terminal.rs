//! The terminal: a thread asks, this one draws and reads keys. The terminal is as before at the end, whatever the end is.

use crate::ask::Asker;
use crate::draw::draw;
use crate::palette::Palette;
use crate::sample::Sample;
use crate::state::{Effect, State};
use crate::view::View;
use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Time until a sample or a signal is seen while no key comes.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Time for an orderly end after a signal.
const END_WAIT: Duration = Duration::from_secs(1);

type Answer = Result<Sample, String>;

/// Shows the state until a key or a signal ends it.
pub(crate) fn run(asker: Asker, interval: Duration) -> Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    end_by_signal(is_over.clone())?;
    let (wishes, wished) = channel();
    let (answers, answered) = channel();
    thread::spawn(move || ask(&asker, interval, &wished, &answers));
    // This also restores the terminal when the process panics.
    let mut terminal = ratatui::try_init().context("no terminal; use --once for scripts")?;
    let outcome = show(&mut terminal, &is_over, &wishes, &answered);
    ratatui::restore();
    outcome
}

/// A thread ends the process after a signal. Without its terminal the reader of keys never returns, so the flag is not enough.
fn end_by_signal(is_over: Arc<AtomicBool>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            is_over.store(true, Ordering::Relaxed);
            // tidy: allow(sleep): an orderly end ends this thread too
            thread::sleep(END_WAIT);
            ratatui::restore();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Asks for the view that was wished last, once in each interval, and at once after a wish. Ends with the receiver.
fn ask(asker: &Asker, interval: Duration, wished: &Receiver<View>, answers: &Sender<Answer>) {
    let mut view = View::Nodes;
    while answers.send(asker.sample(&[view]).map_err(|error| format!("{error:#}"))).is_ok() {
        match wished.recv_timeout(interval) {
            Ok(wish) => view = wish,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    is_over: &AtomicBool,
    wishes: &Sender<View>,
    answered: &Receiver<Answer>,
) -> Result<()> {
    let palette = Palette { has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let mut state = State::default();
    let mut is_stale = true;
    while !is_over.load(Ordering::Relaxed) {
        while let Ok(answer) = answered.try_recv() {
            state.handle_sample(answer);
            is_stale = true;
        }
        if is_stale {
            terminal.draw(|frame| draw(frame, &state, palette))?;
        }
        is_stale = event::poll(KEY_WAIT)?;
        if !is_stale {
            continue;
        }
        // Anything else, such as another size, is drawn anew.
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match state.handle_key(key) {
            Effect::Quit => return Ok(()),
            // If the asking thread were gone, its panic would have ended the process.
            Effect::Ask => drop(wishes.send(state.view)),
            Effect::None => {}
        }
    }
    Ok(())
}
