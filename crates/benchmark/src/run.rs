//! One run: starts workers, collects their intervals, and waits for their end.

use crate::framing::Resp;
use crate::http::Http;
use crate::plan::{Plan, Protocol, Shared};
use crate::recorder::{Interval, Note, Recorder};
use crate::worker::{Ties, Worker};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use loadgen::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use stdx::Instant;

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Kinds of requests, as reports name them.
    pub(crate) names: Vec<String>,
    pub(crate) total: Interval,
    /// Time of the recorded part.
    pub(crate) elapsed: Duration,
    pub(crate) timeline: Vec<Second>,
    /// Requests that were due and that were not sent, or not answered in time.
    pub(crate) unanswered: u64,
    /// Texts of errors.
    pub(crate) errors: Vec<String>,
    /// When the recorded part began.
    pub(crate) began: SystemTime,
}

impl Outcome {
    /// Answered requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.total.counts.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Requests that went wrong in any way.
    pub(crate) fn failures(&self) -> u64 {
        let counts = &self.total.counts;
        counts.errors + counts.wrong + counts.lost + self.unanswered
    }
}

/// One interval in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Second {
    /// Seconds since the recorded part began, at the end of the interval.
    pub(crate) at: f64,
    pub(crate) rate: f64,
    /// In nanoseconds.
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Second {
    fn new(at: f64, length: f64, all: &Histogram<u64>) -> Second {
        let quantile = |quantile| all.value_at_quantile(quantile);
        let rate = all.len() as f64 / length.max(1e-9);
        Second { at, rate, p50: quantile(0.5), p99: quantile(0.99), max: all.max() }
    }
}

/// The state of a run after an interval.
pub(crate) struct Moment<'a> {
    /// Time since the begin of the recorded part; `None` in the warm-up.
    pub(crate) at: Option<Duration>,
    /// Length of the interval.
    pub(crate) length: Duration,
    pub(crate) interval: &'a Interval,
    pub(crate) total: &'a Interval,
}

/// Workers have handed over their intervals by then.
const GRACE: Duration = Duration::from_millis(10);
/// Intervals that a timeline holds; later ones are only in the totals.
const TIMELINE_MAX: usize = 100_000;

/// A request of the user to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on, SIGINT ends the run, and a second one the process.
    pub(crate) fn watch() -> Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_default(signal_hook::consts::SIGINT, Arc::clone(&flag))?;
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&flag))?;
        Ok(Interrupt(flag))
    }

    /// Whether the user wants the end.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Carries out a run and has `watch` see each interval.
pub(crate) fn execute(
    plan: Plan,
    interrupt: &Interrupt,
    watch: &mut dyn FnMut(&Moment<'_>),
) -> Result<Outcome> {
    let plan = Arc::new(plan);
    let clock = Clock::start();
    let shared = Arc::new(Shared::new(plan.bounds.requests));
    let (notes, received) = channel();
    let mut team = Vec::new();
    for thread in 0..plan.connections.threads {
        team.push(Member::start(&plan, thread, &shared, clock, notes.clone())?);
    }
    drop(notes);
    let mut collector = Collector::new(&plan, clock, interrupt, &shared);
    let outcome = collector.collect(&received, &team, watch);
    // Workers that still wait for the begin end now; those that run are stopped.
    if outcome.is_err() {
        shared.stop();
    }
    for member in team {
        drop(member.begin);
        if member.thread.join().is_err() {
            return Err(anyhow!("a worker has failed"));
        }
    }
    outcome?;
    Ok(collector.end())
}

/// A worker as seen by the collector.
struct Member {
    thread: JoinHandle<()>,
    begin: Sender<Instant>,
    spares: Sender<Box<Interval>>,
}

impl Member {
    fn start(
        plan: &Arc<Plan>,
        thread: u32,
        shared: &Arc<Shared>,
        clock: Clock,
        notes: Sender<(u32, Note)>,
    ) -> Result<Member> {
        let (begin, begin_received) = channel();
        let (spares, spares_received) = channel();
        let recorder = Recorder::new(plan.workload.names().len(), thread, notes.clone(), spares_received);
        let ties = Ties { shared: Arc::clone(shared), clock, recorder, begin: begin_received };
        let plan = Arc::clone(plan);
        let work = move || {
            let outcome = match plan.protocol {
                Protocol::Resp => Worker::<Resp>::run(plan, thread, ties),
                Protocol::Http => Worker::<Http>::run(plan, thread, ties),
            };
            if let Err(error) = outcome {
                // The collector waits for this note, or has gone.
                let _ = notes.send((thread, Note::Failed(error)));
            }
        };
        let thread = std::thread::Builder::new().name(format!("bench-{thread}")).spawn(work)?;
        Ok(Member { thread, begin, spares })
    }
}

/// Sums up the intervals of all workers.
struct Collector<'a> {
    plan: Arc<Plan>,
    clock: Clock,
    interrupt: &'a Interrupt,
    shared: &'a Shared,
    /// When the recorded part begins.
    from: Instant,
    current: Interval,
    current_since: Instant,
    outcome: Outcome,
    ready: usize,
    done: usize,
}

impl<'a> Collector<'a> {
    fn new(plan: &Arc<Plan>, clock: Clock, interrupt: &'a Interrupt, shared: &'a Shared) -> Collector<'a> {
        let names = plan.workload.names();
        let empty = Interval::new(names.len());
        let outcome = Outcome {
            names,
            total: empty.clone(),
            elapsed: Duration::ZERO,
            timeline: Vec::new(),
            unanswered: 0,
            errors: Vec::new(),
            began: SystemTime::now(),
        };
        Collector {
            plan: Arc::clone(plan),
            clock,
            interrupt,
            shared,
            from: Instant::NEVER,
            current: empty,
            current_since: Instant::ZERO,
            outcome,
            ready: 0,
            done: 0,
        }
    }

    /// Receives notes until all workers have ended.
    fn collect(
        &mut self,
        notes: &Receiver<(u32, Note)>,
        team: &[Member],
        watch: &mut dyn FnMut(&Moment<'_>),
    ) -> Result<()> {
        let mut next = Instant::NEVER;
        while self.done < team.len() {
            let now = self.clock.now();
            if self.interrupt.is_set() {
                self.shared.stop();
            }
            if now >= next {
                next = now + self.plan.interval;
                self.end_interval(now, watch);
            }
            match notes.recv_timeout(next.since(now).min(self.plan.interval)) {
                Ok((thread, note)) => {
                    self.take(thread, note, team)?;
                    if self.ready == team.len() && next == Instant::NEVER {
                        next = self.begin(team);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let now = self.clock.now();
        self.outcome.elapsed = match self.plan.bounds.time {
            Some(time) if now >= self.from + time => time,
            _ => now.since(self.from),
        };
        self.end_interval(now, watch);
        Ok(())
    }

    /// Has all workers begin. Returns the end of the first interval.
    fn begin(&mut self, team: &[Member]) -> Instant {
        let now = self.clock.now();
        self.from = now + self.plan.bounds.warmup;
        self.outcome.began = SystemTime::now() + self.plan.bounds.warmup;
        self.current_since = now;
        for member in team {
            // A worker that has gone has told why.
            let _ = member.begin.send(now);
        }
        now + self.plan.interval + GRACE
    }

    fn take(&mut self, thread: u32, note: Note, team: &[Member]) -> Result<()> {
        match note {
            Note::Ready => self.ready += 1,
            Note::Interval(mut interval) => {
                self.current.add(&interval);
                interval.clear();
                if let Some(member) = team.get(thread as usize) {
                    // A worker that has ended needs none.
                    let _ = member.spares.send(interval);
                }
            }
            Note::Error(text) => {
                if !self.outcome.errors.contains(&text) && self.outcome.errors.len() < ERRORS_MAX {
                    self.outcome.errors.push(text);
                }
            }
            Note::Done(unanswered) => {
                self.done += 1;
                self.outcome.unanswered += unanswered;
            }
            Note::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn end_interval(&mut self, now: Instant, watch: &mut dyn FnMut(&Moment<'_>)) {
        self.outcome.total.add(&self.current);
        let length = now.since(self.current_since.max(self.from));
        let at = (now > self.from).then(|| now.since(self.from));
        if let Some(at) = at
            && self.outcome.timeline.len() < TIMELINE_MAX
            && self.current.counts.requests > 0
        {
            let second = Second::new(at.as_secs_f64(), length.as_secs_f64(), &self.current.all());
            self.outcome.timeline.push(second);
        }
        watch(&Moment { at, length, interval: &self.current, total: &self.outcome.total });
        self.current.clear();
        self.current_since = now;
    }

    fn end(self) -> Outcome {
        self.outcome
    }
}

/// Texts of errors that are kept.
const ERRORS_MAX: usize = 5;
