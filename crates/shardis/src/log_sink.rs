//! A queue of log lines in front of stderr, so that no thread blocks on it. A terminal may be stopped, and a pipe or a disk
//! full.
//!
//! ```text
//!   any thread ─► lines that wait ─► a thread ─► stderr
//!                        └ full: dropped, counted, reported later
//! ```
//!
//! The queue never blocks the thread that logs, and it keeps the order of lines.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::{error, warn};

/// Limit of waiting lines: some hundred kilobytes. Later lines are dropped, since the first ones tell more about a
/// cause.
const LINES_MAX: usize = 2048;

/// Longest time that the end of the process waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The one of this process.
static SINK: Sink = Sink::new();

/// Whether the log's file is to be opened again.
static REOPENS: AtomicBool = AtomicBool::new(false);

/// Lines on their way.
#[derive(Debug)]
struct Sink {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// Lines that found no room, and that the log has no line about yet.
    dropped: u64,
    /// Some are being written.
    is_writing: bool,
}

/// Takes one line with each write.
#[derive(Debug)]
pub(crate) struct Line;

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        SINK.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the thread that writes to `file`, or else to stderr.
pub(crate) fn start(file: Option<&Path>) -> io::Result<()> {
    let tell = |dropped| warn!(lines = dropped, reason = "stderr was read too slowly", "log lines dropped");
    let mut out = file.map(LogFile::open).transpose()?;
    let write = move || {
        loop {
            match &mut out {
                Some(file) => SINK.write_what_waits(file, tell),
                None => SINK.write_what_waits(&mut io::stderr(), tell),
            }
        }
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(write).map(drop)
}

/// Has the log's file opened again before its next line: it may have been renamed.
pub(crate) fn reopen() {
    REOPENS.store(true, Ordering::Relaxed);
}

/// The log as a file.
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = File::options().append(true).create(true).open(path).map_err(named)?;
        Ok(LogFile { path: path.to_owned(), file })
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if REOPENS.swap(false, Ordering::Relaxed) {
            // While the new file cannot be opened, the old one takes the lines.
            match LogFile::open(&self.path) {
                Ok(file) => *self = file,
                Err(reason) => error!(%reason, hint = "the old file stays in use", "log reopen failed"),
            }
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes `text` as a line without time and level.
pub(crate) fn say(text: &str) {
    SINK.push(format!("{text}\n").as_bytes());
}

/// Returns when all lines were written, or after a while.
pub(crate) fn finish() {
    SINK.wait_until_written(PATIENCE);
}

impl Sink {
    const fn new() -> Sink {
        let waiting = Waiting { lines: VecDeque::new(), dropped: 0, is_writing: false };
        Sink { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.lines.len() < LINES_MAX {
            waiting.lines.push_back(line.to_vec());
        } else {
            waiting.dropped += 1;
        }
        self.changed.notify_all();
    }

    /// Waits for lines and writes them; then lets `tell` add how many were dropped, if any were.
    fn write_what_waits(&self, out: &mut impl Write, tell: impl FnOnce(u64)) {
        let is_idle = |waiting: &mut Waiting| waiting.lines.is_empty() && waiting.dropped == 0;
        let mut waiting =
            self.changed.wait_while(self.waiting(), is_idle).unwrap_or_else(PoisonError::into_inner);
        waiting.is_writing = true;
        let (lines, dropped) = (std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.dropped));
        drop(waiting);
        for line in lines {
            // A log that cannot be written is no reason to stop, and there is no other place for the error.
            let _ = out.write_all(&line);
        }
        if dropped > 0 {
            tell(dropped);
        }
        self.waiting().is_writing = false;
        self.changed.notify_all();
    }

    fn wait_until_written(&self, patience: Duration) {
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        // If it takes too long, lines are lost: there is no other way.
        let _ = self.changed.wait_timeout_while(self.waiting(), patience, is_busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_in_order_and_dropped_ones_are_counted() {
        let sink = Sink::new();
        for number in 0..LINES_MAX + 3 {
            sink.push(format!("{number}\n").as_bytes());
        }
        let mut out = Vec::new();
        sink.write_what_waits(&mut out, |dropped| sink.push(format!("{dropped} are missing\n").as_bytes()));
        let expected: String = (0..LINES_MAX).map(|number| format!("{number}\n")).collect();
        assert!(out == expected.as_bytes());
        sink.push(b"more\n");
        let mut out = Vec::new();
        sink.write_what_waits(&mut out, |dropped| panic!("{dropped} are missing"));
        assert_eq!(String::from_utf8_lossy(&out), "3 are missing\nmore\n");
    }

    #[test]
    fn the_end_waits_for_lines_and_not_for_ever() {
        let sink = Sink::new();
        sink.wait_until_written(Duration::from_secs(3600));
        sink.push(b"a\n");
        sink.wait_until_written(Duration::from_millis(1));
        assert_eq!(sink.waiting().lines.len(), 1, "nobody writes");
        std::thread::scope(|scope| {
            scope.spawn(|| sink.write_what_waits(&mut Vec::new(), |_| ()));
            sink.wait_until_written(Duration::from_secs(3600));
        });
        assert!(sink.waiting().lines.is_empty());
    }

    #[test]
    fn a_log_that_cannot_be_written_to_is_no_reason_to_stop() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::new();
        sink.push(b"a\n");
        sink.write_what_waits(&mut Full, |_| ());
        assert!(sink.waiting().lines.is_empty());
    }
}
