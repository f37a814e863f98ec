//! The last lines of the log, kept for the admin listener.

use admin::Event;
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lines kept; older ones are forgotten.
const EVENTS_MAX: usize = 1000;

/// Like the log itself, there is one in a process.
static EVENTS: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());

/// The part of the log that keeps its lines.
#[derive(Debug)]
pub(crate) struct Recorder;

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = match *event.metadata().level() {
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
        events.push_back(Event { id, time_s, level, name: line.name, details: line.details });
    }
}

/// The kept lines, the oldest first.
pub(crate) fn last() -> Vec<Event> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// The fields of a line.
#[derive(Default)]
struct Line {
    name: String,
    details: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.name),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a `String` cannot fail.
        let _ = match field.name() {
            "message" => write!(self.name, "{value:?}"),
            name => {
                let blank = if self.details.is_empty() { "" } else { " " };
                write!(self.details, "{blank}{name}={value:?}")
            }
        };
    }
}
