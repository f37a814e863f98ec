//! The last lines of the log, kept for the admin listener.

use crate::log_messages::Message;
use admin::Event;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::Level;

/// Lines kept; older ones are forgotten.
const EVENTS_MAX: usize = 1000;

/// Like the log itself, there is one in a process.
static EVENTS: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());

/// Keeps a line: its row in the table, its level, and its `details` as key=value.
pub(crate) fn keep(message: &Message, level: Level, details: String) {
    let level = match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        _ => "INFO",
    };
    let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let id = events.back().map_or(1, |last| last.id + 1);
    if events.len() == EVENTS_MAX {
        events.pop_front();
    }
    let Message { name, meaning, cure, .. } = *message;
    events.push_back(Event { id, time_s, level, name, details, meaning, cure });
}

/// The kept lines, the oldest first.
pub(crate) fn last() -> Vec<Event> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}
