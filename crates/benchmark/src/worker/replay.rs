//! Requests of a trace, each on the connection of its client.

use super::Worker;
use crate::client::{Sent, State};
use crate::framing::Framing;
use crate::plan::{Replay, Speed};
use crate::trace::Entry;
use anyhow::Result;
use stdx::{Id, Instant};

/// Requests in flight on one connection. Above it the server does not keep up, and later requests wait.
const IN_FLIGHT_MAX: usize = 100_000;

/// The place of a worker in its trace.
#[derive(Debug)]
pub(super) struct Position {
    replay: Replay,
    /// Requests of this worker's connections, by index.
    own: Vec<u32>,
    next: usize,
    begin: Instant,
}

impl Position {
    /// The requests of thread `thread` of `threads`, on `connections` connections of all threads.
    pub(super) fn new(
        replay: &Replay,
        thread: u32,
        threads: u32,
        connections: u32,
        begin: Instant,
    ) -> Position {
        let is_own = |entry: &Entry| entry.client % connections % threads == thread;
        let entries = (0..).zip(&replay.trace.entries);
        let own = entries.filter(|(_, entry)| is_own(entry)).map(|(index, _)| index).collect();
        Position { replay: replay.clone(), own, next: 0, begin }
    }

    /// The next request.
    fn entry(&self) -> Option<Entry> {
        self.own.get(self.next).map(|&index| self.replay.trace.entries[index as usize])
    }

    /// The time of the next request; [`Instant::NEVER`] if there is none or replies decide.
    pub(super) fn due(&self) -> Instant {
        match (self.entry(), self.replay.speed) {
            (Some(entry), Speed::Times(factor)) => self.begin + entry.at.div_f64(factor),
            _ => Instant::NEVER,
        }
    }

    /// Whether requests are left.
    pub(super) fn has_more(&self) -> bool {
        self.next < self.own.len()
    }

    /// Number of requests that are left.
    pub(super) fn left(&self) -> u64 {
        (self.own.len() - self.next) as u64
    }
}

impl<F: Framing> Worker<F> {
    /// Sends all requests of the trace whose time has come.
    pub(super) fn send_replayed(&mut self) -> Result<()> {
        while let Some(position) = &mut self.position {
            let now = self.clock.now();
            let Some(entry) = position.entry() else { return Ok(()) };
            let (start, depth) = match position.replay.speed {
                Speed::Times(_) => (position.due(), IN_FLIGHT_MAX),
                Speed::Max => (now, self.plan.workload.depth.1),
            };
            if start > now || now >= self.end || !self.shared.has_more() {
                return Ok(());
            }
            let connections = self.plan.connections.count;
            let index = entry.client % connections / self.plan.connections.threads;
            let client = &mut self.clients[index as usize];
            if client.in_flight.len() >= depth || client.state != State::Open {
                return Ok(());
            }
            self.shared.take(1);
            position.next += 1;
            client.in_flight.push_back(Sent { kind: entry.kind, replies_left: entry.replies, start });
            client.served += 1;
            self.in_flight += 1;
            self.recorder.record_late(start, now);
            let request = position.replay.trace.request(&entry);
            self.recorder.counts().sent_bytes += request.len() as u64;
            let id = Id { index, generation: client.generation };
            // The next event reports an error.
            let sent = if client.unsent.is_empty() { self.driver.send(id, request).unwrap_or(0) } else { 0 };
            client.unsent.extend_from_slice(&request[sent..]);
        }
        Ok(())
    }
}
