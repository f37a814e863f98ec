//! One thread with its connections, on the driver of the proxy. In the steady state it allocates nothing.
//!
//! ```text
//!   wait ─► [requests that are due] ─► event ─► Client::receive ─► closed loop: the next requests   ─► event …
//!                                                              └─► open loop: ready for what is due
//! ```
//!
//! In the open loop a request counts from its intended start. A connection carries as many requests at once as `-P` permits. While
//! all are full, starts wait, and their latency grows: nothing is left out.

mod replay;

use crate::client::{Client, Role, Sent, State};
use crate::framing::Framing;
use crate::plan::{Pace, Plan, Shared};
use crate::recorder::{Note, Recorder};
use crate::template::{Filler, Occasion, Template};
use anyhow::{Context, Result, anyhow, bail};
use driver::{Driver, Event};
use loadgen::clock::Clock;
use loadgen::schedule::Schedule;
use replay::Position;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use stdx::{Id, Instant};

/// A worker.
pub(crate) struct Worker<F> {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    /// Its number among all workers.
    thread: u32,
    clock: Clock,
    driver: Driver,
    clients: Vec<Client<F>>,
    /// Open loop: connections that can take a request, by index.
    ready: VecDeque<u32>,
    /// There has been one since then.
    ready_since: Instant,
    /// Connections to be opened again, each with its time.
    down: VecDeque<(Instant, u32)>,
    filler: Filler,
    /// Templates of the workload, by kind.
    templates: Vec<Template>,
    recorder: Recorder,
    starts: Option<Starts>,
    /// The place in a trace that is sent again.
    position: Option<Position>,
    /// Nothing starts from here on.
    end: Instant,
    /// The current interval ends here.
    interval_ends: Instant,
    in_flight: u64,
    /// Requests of one write.
    batch: Vec<u8>,
}

/// Intended starts of an open loop.
struct Starts {
    schedule: Schedule,
    origin: Instant,
    next: Instant,
}

impl Starts {
    fn advance(&mut self) {
        self.next = self.origin + self.schedule.next_start();
    }
}

/// Connections of a worker to the rest of its run.
pub(crate) struct Ties {
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    /// Tells the begin of the run, once all workers are ready.
    pub(crate) begin: Receiver<Instant>,
}

/// Time in which all connections must be open.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// Time for the last replies, behind the end of a run.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// A connection that broke is opened again after this time.
const REOPEN_AFTER: Duration = Duration::from_millis(100);
/// The kernel wakes a thread with the precision of a millisecond. Before a start that is closer than this, the worker spins.
const SPIN_WITHIN: Duration = Duration::from_millis(3);
const SLEEP_STEP: Duration = Duration::from_millis(1);
/// Starts that are counted behind the end of a run.
const UNSENT_MAX: u64 = 100_000_000;

/// The step that an event asks for.
enum Then {
    Nothing,
    /// The connection has completed requests, or is open.
    Proceed(u32),
    /// The connection takes bytes again.
    Flush(u32),
    Lost(u32, String),
}

impl<F: Framing> Worker<F> {
    /// Runs to the end. The caller reports a failure.
    pub(crate) fn run(plan: Arc<Plan>, thread: u32, ties: Ties) -> Result<()> {
        let count = |all: u32| {
            let threads = plan.connections.threads;
            all / threads + u32::from(thread < all % threads)
        };
        let subscribers = plan.workload.pubsub.map_or(0, |pubsub| pubsub.subscribers);
        let requesting = (0..count(plan.connections.count)).map(|_| Client::<F>::new(Role::Requests));
        let listening = (0..count(subscribers)).map(|_| Client::<F>::new(Role::Subscriber));
        let filler = plan.filler(thread);
        let kinds = plan.workload.kinds.iter();
        let templates = kinds.map(|kind| kind.template.settled(&filler.sizes, &filler.values)).collect();
        let mut worker = Worker {
            templates,
            shared: ties.shared,
            thread,
            clock: ties.clock,
            driver: Driver::new()?,
            clients: requesting.chain(listening).collect(),
            ready: VecDeque::new(),
            ready_since: Instant::NEVER,
            down: VecDeque::new(),
            filler,
            recorder: ties.recorder,
            starts: None,
            position: None,
            end: Instant::NEVER,
            interval_ends: Instant::NEVER,
            in_flight: 0,
            batch: Vec::new(),
            plan,
        };
        worker.open_all()?;
        worker.recorder.tell(Note::Ready);
        // The collector has given up, for another worker has failed.
        let Ok(begin) = ties.begin.recv() else { return Ok(()) };
        worker.begin(begin)?;
        while !worker.is_over() {
            worker.turn()?;
        }
        let unanswered = worker.unanswered();
        worker.recorder.end_interval();
        worker.recorder.tell(Note::Done(unanswered));
        Ok(())
    }

    fn open_all(&mut self) -> Result<()> {
        for index in 0..self.clients.len() as u32 {
            self.open(index)?;
        }
        let deadline = self.clock.now() + OPEN_WITHIN;
        while self.clients.iter().any(|client| client.state == State::Opening) {
            if self.clock.now() >= deadline {
                bail!("connections are not open after {OPEN_WITHIN:?}");
            }
            self.driver.wait(SLEEP_STEP)?;
            while let Some(then) = self.next_step(self.clock.now()) {
                match then {
                    Then::Lost(index, reason) => return Err(self.refusal(index, &reason)),
                    Then::Flush(index) => self.flush(index)?,
                    Then::Nothing | Then::Proceed(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The server that a connection leads to.
    fn node(&self, index: u32) -> usize {
        (self.thread as usize + index as usize * self.plan.connections.threads as usize)
            % self.plan.target.nodes.len()
    }

    fn refusal(&self, index: u32, reason: &str) -> anyhow::Error {
        let at = match &self.plan.target.nodes[self.node(index)].address {
            driver::Target::Tcp(addr) => addr.to_string(),
            driver::Target::Unix(path) => path.display().to_string(),
        };
        anyhow!("{at}: {reason}")
    }

    fn open(&mut self, index: u32) -> Result<()> {
        let node = self.node(index);
        let plan = &self.plan;
        let client = &mut self.clients[index as usize];
        let listens = u32::from(client.role == Role::Subscriber);
        client.begin(plan.connections.opening_replies + listens);
        let id = Id { index, generation: client.generation };
        let address = &plan.target.nodes[node].address;
        let opened = match (&plan.target.tls, address) {
            (Some((connector, name)), driver::Target::Tcp(addr)) => {
                self.driver.connect_tls(id, *addr, connector, name)
            }
            _ => self.driver.connect(id, address),
        };
        self.recorder.counts().connects += 1;
        opened.map_err(|error| self.refusal(index, &error.to_string()))
    }

    fn begin(&mut self, begin: Instant) -> Result<()> {
        let bounds = self.plan.bounds;
        self.recorder.from = begin + bounds.warmup;
        self.end = bounds.time.map_or(Instant::NEVER, |time| self.recorder.from + time);
        self.interval_ends = begin + self.plan.interval;
        self.starts = self.plan.schedule(self.thread).map(|mut schedule| {
            let next = begin + schedule.next_start();
            Starts { schedule, origin: begin, next }
        });
        let connections = &self.plan.connections;
        self.position =
            self.plan.replay.as_ref().map(|replay| {
                Position::new(replay, self.thread, connections.threads, connections.count, begin)
            });
        (0..self.clients.len() as u32).try_for_each(|index| self.proceed(index, begin))
    }

    fn turn(&mut self) -> Result<()> {
        let now = self.clock.now();
        let timeout = self.timeout(now);
        self.driver.wait(timeout)?;
        self.send_due()?;
        let mut happened = false;
        loop {
            // Read after the wait, so that the time of a reply includes the way through this loop.
            let now = self.clock.now();
            let Some(then) = self.next_step(now) else { break };
            happened = true;
            match then {
                Then::Nothing => {}
                Then::Proceed(index) => self.proceed(index, now)?,
                Then::Flush(index) => self.flush(index)?,
                Then::Lost(index, reason) => self.lose(index, &reason, now)?,
            }
            self.send_due()?;
        }
        self.reopen(now)?;
        if now >= self.interval_ends {
            self.interval_ends = now + self.plan.interval;
            self.recorder.end_interval();
        }
        if !happened && timeout.is_zero() {
            // On a shared core the server can go on.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Time for which the worker may sleep.
    fn timeout(&self, now: Instant) -> Duration {
        let end = if self.end <= now { self.end + ANSWERED_WITHIN } else { self.end };
        let reopen = self.down.front().map_or(Instant::NEVER, |(at, _)| *at);
        let start = self
            .starts
            .as_ref()
            .filter(|_| !self.ready.is_empty())
            .map_or(Instant::NEVER, |starts| starts.next);
        let traced = self.position.as_ref().map_or(Instant::NEVER, Position::due);
        let until_start = start.min(traced).since(now);
        if until_start < SPIN_WITHIN {
            return Duration::ZERO;
        }
        let others = self.interval_ends.min(end).min(reopen).since(now);
        others.min(until_start - SPIN_WITHIN + SLEEP_STEP)
    }

    /// Takes the next event and has its connection note it.
    #[inline]
    fn next_step(&mut self, now: Instant) -> Option<Then> {
        let event = self.driver.next_event()?;
        let (Event::Connected(id)
        | Event::Received(id, _)
        | Event::Writable(id)
        | Event::Ended(id)
        | Event::Closed(id, _)) = &event;
        let id = *id;
        let client = &mut self.clients[id.index as usize];
        if client.generation != id.generation {
            return Some(Then::Nothing);
        }
        Some(match event {
            Event::Received(_, bytes) => match client.receive(bytes, now, &self.plan, &mut self.recorder) {
                Ok(completed) => {
                    self.in_flight -= completed;
                    Then::Proceed(id.index)
                }
                Err(reason) => Then::Lost(id.index, reason),
            },
            Event::Connected(_) => {
                client.unsent.extend_from_slice(&self.plan.connections.opening);
                if let (Role::Subscriber, Some(pubsub)) = (client.role, self.plan.workload.pubsub) {
                    let channel = format!("channel:{:012}", id.index % pubsub.channels);
                    resp::encode::request(&mut client.unsent, &[b"SUBSCRIBE", channel.as_bytes()]);
                }
                client.note_open();
                Then::Flush(id.index)
            }
            Event::Writable(_) => Then::Flush(id.index),
            Event::Ended(_) => {
                self.in_flight -= u64::from(client.end_of_input(now, &mut self.recorder));
                Then::Lost(id.index, "the server closed the connection".to_owned())
            }
            Event::Closed(_, error) => Then::Lost(id.index, error.to_string()),
        })
    }

    fn flush(&mut self, index: u32) -> Result<()> {
        let client = &mut self.clients[index as usize];
        let id = Id { index, generation: client.generation };
        if !client.unsent.is_empty() {
            // The next event tells an error.
            let sent = self.driver.send(id, &client.unsent).unwrap_or(0);
            client.unsent.drain(..sent);
        }
        let now = self.clock.now();
        self.proceed(index, now)
    }

    /// Goes on with a connection that is open, or has got replies.
    #[inline]
    fn proceed(&mut self, index: u32, now: Instant) -> Result<()> {
        let plan = &self.plan;
        let client = &mut self.clients[index as usize];
        if client.role == Role::Subscriber || self.interval_ends == Instant::NEVER {
            return Ok(());
        }
        let is_worn = plan.connections.reconnect_after.is_some_and(|after| client.served >= after);
        let is_renewed = client.state == State::Leaving
            || (is_worn && client.state == State::Open && self.shared.has_more());
        if is_renewed && client.in_flight.is_empty() {
            self.close(index);
            return self.open(index);
        }
        if client.state != State::Open {
            return Ok(());
        }
        match plan.pace {
            Pace::Idle | Pace::Traced => Ok(()),
            Pace::Closed => {
                if client.in_flight.is_empty() {
                    self.send_batch(index, now);
                }
                Ok(())
            }
            Pace::Open { .. } => {
                if !client.is_listed && client.in_flight.len() < plan.workload.depth.1 {
                    client.is_listed = true;
                    if self.ready.is_empty() {
                        self.ready_since = now;
                    }
                    self.ready.push_back(index);
                }
                Ok(())
            }
        }
    }

    fn close(&mut self, index: u32) {
        let client = &mut self.clients[index as usize];
        self.driver.close(Id { index, generation: client.generation });
        client.state = State::Closed;
    }

    /// Closed loop: the next requests of a connection, unless the end has come.
    fn send_batch(&mut self, index: u32, now: Instant) {
        if now >= self.end || !self.shared.has_more() {
            return;
        }
        let (min, max) = self.plan.workload.depth;
        let depth =
            if min == max { max } else { min + self.filler.random.below((max - min) as u64 + 1) as usize };
        let count = if now < self.recorder.from { depth as u64 } else { self.shared.take(depth as u64) };
        self.batch.clear();
        (0..count).for_each(|_| self.add(index, now, now));
        if count > 0 {
            self.write_batch(index, now);
        }
    }

    /// Open loop: starts all requests whose time has come, as far as connections can take them. Requests that are due at once leave in
    /// one write, as many as one connection can take.
    #[inline]
    fn send_due(&mut self) -> Result<()> {
        if self.position.is_some() {
            return self.send_replayed();
        }
        while self.starts.is_some() && !self.ready.is_empty() {
            // The time is read anew: the last send took a while, and the next may be due by now.
            let now = self.clock.now();
            if !self.is_due(now) {
                return Ok(());
            }
            let Some(index) = self.ready.pop_front() else { return Ok(()) };
            let client = &mut self.clients[index as usize];
            client.is_listed = false;
            if client.state != State::Open {
                continue;
            }
            let mut room = self.plan.workload.depth.1 - client.in_flight.len();
            self.batch.clear();
            while room > 0 && self.is_due(now) {
                room -= 1;
                self.start_one(index, now);
            }
            self.write_batch(index, now);
            self.proceed(index, now)?;
        }
        Ok(())
    }

    /// Whether the next start of the schedule has come.
    #[inline]
    fn is_due(&self, now: Instant) -> bool {
        let next = self.starts.as_ref().map_or(Instant::NEVER, |starts| starts.next);
        next <= now && next < self.end && self.shared.has_more()
    }

    /// Adds the request of the next start to the batch.
    #[inline]
    fn start_one(&mut self, index: u32, now: Instant) {
        let Some(starts) = &mut self.starts else { return };
        let start = starts.next;
        starts.advance();
        if start >= self.recorder.from && self.shared.take(1) == 0 {
            return;
        }
        if start >= self.ready_since {
            self.recorder.record_late(start, now);
        }
        self.add(index, start, now);
    }

    /// Adds a request to the batch, whose latency counts from `start`.
    #[inline]
    fn add(&mut self, index: u32, start: Instant, now: Instant) {
        let node = if self.plan.target.nodes.len() > 1 { self.node(index) } else { 0 };
        let tags = &self.plan.target.nodes[node].tags;
        let client = &mut self.clients[index as usize];
        let kind = self.plan.workload.pick(&mut self.filler.random);
        let template = &self.templates[kind];
        let tag: &[u8] = match tags.len() as u64 {
            0 => &[],
            count => &tags[self.filler.random.below(count) as usize],
        };
        let numbers = self.plan.verify.then_some(&mut client.numbers);
        template.write(&mut self.filler, Occasion { now, tag }, numbers, &mut self.batch);
        client.in_flight.push_back(Sent { kind: kind as u16, replies_left: template.replies, start });
        client.served += 1;
        self.in_flight += 1;
    }

    /// Sends the batch.
    #[inline]
    fn write_batch(&mut self, index: u32, now: Instant) {
        if now >= self.recorder.from {
            self.recorder.counts().sent_bytes += self.batch.len() as u64;
        }
        let client = &mut self.clients[index as usize];
        let id = Id { index, generation: client.generation };
        // The next event reports an error.
        let sent = if client.unsent.is_empty() { self.driver.send(id, &self.batch).unwrap_or(0) } else { 0 };
        if sent < self.batch.len() {
            client.unsent.extend_from_slice(&self.batch[sent..]);
        }
    }

    /// A connection broke.
    fn lose(&mut self, index: u32, reason: &str, now: Instant) -> Result<()> {
        let client = &mut self.clients[index as usize];
        let was_leaving = client.state == State::Leaving;
        self.driver.close(Id { index, generation: client.generation });
        let (mut lost, from) = (0, self.recorder.from);
        for sent in client.end() {
            self.in_flight -= 1;
            lost += u64::from(sent.start >= from);
        }
        if was_leaving || (lost == 0 && self.plan.connections.reconnect_after.is_some()) {
            return self.open(index);
        }
        if self.plan.stops_at_error {
            return Err(self.refusal(index, reason));
        }
        self.recorder.counts().lost += lost;
        self.recorder.tell(Note::Error(format!("connection lost: {reason}")));
        self.down.push_back((now + REOPEN_AFTER, index));
        Ok(())
    }

    fn reopen(&mut self, now: Instant) -> Result<()> {
        while let Some((_, index)) = self.down.pop_front_if(|(at, _)| *at <= now) {
            self.open(index).context("cannot open a connection again")?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let now = self.clock.now();
        if now >= self.end + ANSWERED_WITHIN {
            return true;
        }
        if self.plan.pace == Pace::Idle {
            return !self.shared.has_more();
        }
        let has_starts = match (&self.starts, &self.position) {
            (Some(starts), _) => starts.next < self.end,
            (None, Some(position)) => now < self.end && position.has_more(),
            (None, None) => now < self.end,
        };
        self.in_flight == 0 && !(has_starts && self.shared.has_more())
    }

    /// Requests that should have been sent or answered by now.
    fn unanswered(&mut self) -> u64 {
        let left = self.position.as_ref().map_or(0, Position::left);
        let mut count = self.in_flight + if self.end == Instant::NEVER { 0 } else { left };
        if self.end == Instant::NEVER || !self.shared.has_more() {
            return count;
        }
        while let Some(starts) = &mut self.starts
            && starts.next < self.end
            && count < UNSENT_MAX
        {
            starts.advance();
            count += 1;
        }
        count
    }
}
