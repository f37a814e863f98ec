//! Latencies of one worker by kind of request, in intervals that it hands over. Recording allocates nothing.
//!
//! ```text
//!   worker: record … ─► end of an interval ─► channel ─► collector: adds it to its totals
//!                 ◄──────────── the same memory, empty ◄──────────────┘
//! ```

use hdrhistogram::Histogram;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;
use stdx::Instant;

/// Longer latencies count as this.
const LATENCY_MAX: Duration = Duration::from_secs(100);
/// Relative errors stay below one in a thousand.
const DIGITS: u8 = 3;

/// Empty counts of latencies in nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, DIGITS).expect("1 < 100 s, 3 <= 5 digits")
}

/// Counts over an interval, or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Requests that were answered, with an error or without.
    pub(crate) requests: u64,
    /// Error replies.
    pub(crate) errors: u64,
    /// Replies that `--verify` found wrong.
    pub(crate) wrong: u64,
    /// Requests whose connection broke before their reply.
    pub(crate) lost: u64,
    /// Bytes of replies, and of requests.
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// Connections that were opened.
    pub(crate) connects: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.connects += other.connects;
    }
}

/// All that was recorded in one stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    /// Latencies by kind of request, in the order of the workload.
    pub(crate) kinds: Vec<Histogram<u64>>,
    /// Times from the intended start to the sending, where nothing but this program was in the way: its own error.
    pub(crate) late: Histogram<u64>,
    pub(crate) counts: Counts,
}

impl Interval {
    /// Nothing yet, of `kinds` kinds.
    pub(crate) fn new(kinds: usize) -> Interval {
        Interval { kinds: vec![histogram(); kinds], late: histogram(), counts: Counts::default() }
    }

    /// Adds `other`, which has the same kinds.
    pub(crate) fn add(&mut self, other: &Interval) {
        for (mine, others) in self.kinds.iter_mut().zip(&other.kinds) {
            add(mine, others);
        }
        add(&mut self.late, &other.late);
        self.counts.add(&other.counts);
    }

    /// All kinds together.
    pub(crate) fn all(&self) -> Histogram<u64> {
        let mut all = histogram();
        self.kinds.iter().for_each(|kind| add(&mut all, kind));
        all
    }

    /// As new.
    pub(crate) fn clear(&mut self) {
        self.kinds
            .iter_mut()
            .chain([&mut self.late])
            .filter(|kind| !kind.is_empty())
            .for_each(Histogram::reset);
        self.counts = Counts::default();
    }
}

fn add(sum: &mut Histogram<u64>, other: &Histogram<u64>) {
    if !other.is_empty() {
        sum.add(other).expect("all have the same range");
    }
}

/// Messages of a worker to the collector.
#[derive(Debug)]
pub(crate) enum Note {
    /// All connections are open.
    Ready,
    /// An interval is over.
    Interval(Box<Interval>),
    /// The first error reply, or one of another text.
    Error(String),
    /// The worker has ended. The number of requests whose time had come and that were not sent, or not answered.
    Done(u64),
    /// The worker has failed.
    Failed(anyhow::Error),
}

/// Records the latencies of one worker.
#[derive(Debug)]
pub(crate) struct Recorder {
    current: Box<Interval>,
    spares: Receiver<Box<Interval>>,
    thread: u32,
    notes: Sender<(u32, Note)>,
    /// Requests with an earlier start are warm-up.
    pub(crate) from: Instant,
    kinds: usize,
    /// Errors that were told.
    errors_noted: u32,
}

/// Texts of errors that are told; more are only counted.
const ERRORS_NOTED_MAX: u32 = 5;

impl Recorder {
    /// Records nothing before `from` is set.
    pub(crate) fn new(
        kinds: usize,
        thread: u32,
        notes: Sender<(u32, Note)>,
        spares: Receiver<Box<Interval>>,
    ) -> Recorder {
        let current = Box::new(Interval::new(kinds));
        Recorder { current, spares, thread, notes, from: Instant::NEVER, kinds, errors_noted: 0 }
    }

    /// A request of `kind` with this start was answered at `now`.
    #[inline]
    pub(crate) fn record(&mut self, kind: u16, start: Instant, now: Instant) {
        if start < self.from {
            return;
        }
        self.current.counts.requests += 1;
        self.current.kinds[usize::from(kind)].saturating_record(now.since(start).as_nanos() as u64);
    }

    /// A message that was sent at `start` has reached a subscriber.
    pub(crate) fn record_delivery(&mut self, kind: u16, start: Instant, now: Instant) {
        if start >= self.from {
            self.current.kinds[usize::from(kind)].saturating_record(now.since(start).as_nanos() as u64);
        }
    }

    /// A request was sent at `now` that should have been sent at `start`.
    #[inline]
    pub(crate) fn record_late(&mut self, start: Instant, now: Instant) {
        if start >= self.from {
            self.current.late.saturating_record(now.since(start).as_nanos() as u64);
        }
    }

    /// The counts of the interval, without regard to warm-up.
    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.current.counts
    }

    /// An error reply to a request with this start.
    pub(crate) fn note_error(&mut self, start: Instant, reply: &[u8]) {
        if start >= self.from {
            self.current.counts.errors += 1;
        }
        if self.errors_noted < ERRORS_NOTED_MAX {
            self.errors_noted += 1;
            self.tell(Note::Error(shown(reply)));
        }
    }

    /// A wrong reply to a request with this start.
    pub(crate) fn note_wrong(&mut self, start: Instant, kind: &str, reply: &[u8]) {
        if start >= self.from {
            self.current.counts.wrong += 1;
        }
        if self.errors_noted < ERRORS_NOTED_MAX {
            self.errors_noted += 1;
            self.tell(Note::Error(format!("wrong reply to {kind}: {}", shown(reply))));
        }
    }

    /// Sends a message to the collector. One that has gone ends this worker soon by other means.
    pub(crate) fn tell(&self, note: Note) {
        let _ = self.notes.send((self.thread, note));
    }

    /// Hands the interval over.
    pub(crate) fn end_interval(&mut self) {
        let spare = self.spares.try_recv().unwrap_or_else(|_| Box::new(Interval::new(self.kinds)));
        let current = std::mem::replace(&mut self.current, spare);
        self.tell(Note::Interval(current));
    }
}

/// The beginning of a reply, for people.
pub(crate) fn shown(reply: &[u8]) -> String {
    const SHOWN_MAX: usize = 120;
    let text = reply.strip_prefix(b"-").unwrap_or(reply);
    let text = &text[..text.len().min(SHOWN_MAX)];
    let line = text.split(|&byte| byte == b'\r').next().unwrap_or(text);
    String::from_utf8_lossy(line).chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn only_requests_behind_the_warm_up_are_recorded() {
        let (notes, received) = channel();
        let (_spares, spares) = channel();
        let mut recorder = Recorder::new(2, 0, notes, spares);
        let at = Instant::from_nanos;
        recorder.record(1, at(5), at(9));
        recorder.from = at(10);
        recorder.record(1, at(9), at(20));
        recorder.record(1, at(10), at(25));
        recorder.end_interval();
        let Ok((0, Note::Interval(interval))) = received.try_recv() else { panic!("an interval") };
        assert_eq!((interval.counts.requests, interval.kinds[0].len(), interval.kinds[1].max()), (1, 0, 15));
        assert_eq!(interval.all().len(), 1);
    }

    #[test]
    fn a_spare_interval_is_used_again() {
        let (notes, received) = channel();
        let (spare, spares) = channel();
        let mut recorder = Recorder::new(1, 0, notes, spares);
        let mut interval = Box::new(Interval::new(1));
        interval.kinds[0].saturating_record(3);
        interval.clear();
        let place = std::ptr::from_ref(&*interval) as usize;
        spare.send(interval).expect("it is read");
        recorder.end_interval();
        recorder.end_interval();
        let notes: Vec<_> = received.try_iter().collect();
        let (_, Note::Interval(second)) = &notes[1] else { panic!("an interval") };
        assert_eq!((std::ptr::from_ref(&**second) as usize, second.kinds[0].len()), (place, 0));
    }

    #[test]
    fn errors_are_shown_in_one_line() {
        assert_eq!(shown(b"-ERR no\r\n"), "ERR no");
        assert_eq!(shown(&[b'x'; 1000]).len(), 120);
    }
}
