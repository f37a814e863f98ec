//! Clients of an open loop: they send by the schedule, without regard to replies, and count time from then.
//!
//! A late reply delays those behind it, and the figures show all of that: nothing here waits for the target ("coordinated
//! omission", Gil Tene).

use crate::clock::Clock;
use crate::closed::{SEED, connect};
use crate::replies::Replies;
use crate::report::Latencies;
use crate::rig::{Party, Rig};
use crate::schedule::Schedule;
use crate::workload::Workload;
use anyhow::{Context, Result, bail};
use driver::{Driver, Event};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use stdx::{Id, Instant};

/// The rate of requests, and the number of connections.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoad {
    /// Requests per second, of all clients together.
    pub rate: f64,
    /// Connections, which take turns.
    pub clients: u32,
    /// Requests that start at once, on one connection.
    pub pipeline: u32,
    /// Names the schedule.
    pub seed: u64,
}

/// A set of such clients.
#[derive(Debug)]
pub struct OpenLoop {
    clock: Clock,
    /// Index of the first client's id; the others follow.
    first: u32,
    clients: Vec<Client>,
    next_client: usize,
    load: OpenLoad,
    schedule: Schedule,
    schedule_began: Instant,
    next_start: Instant,
    /// Nothing starts from here on.
    end: Instant,
    batches: Vec<Vec<u8>>,
    next_batch: usize,
    replies: Replies,
    answered: u64,
    in_flight: usize,
    /// Parts of the run by their beginnings, the last one first.
    parts: VecDeque<(Instant, Recorded)>,
}

/// State of one client.
#[derive(Debug, Default)]
struct Client {
    /// Intended starts of the batches in flight.
    intended: VecDeque<Instant>,
    /// Replies to the first of them that have come.
    replies: u32,
    /// Bytes of the next reply that have come.
    at: usize,
    /// Bytes that the socket has not taken.
    unsent: Vec<u8>,
}

/// Latencies of requests with intended starts in one part of a run.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// From the intended start to the reply.
    pub latencies: Latencies,
    /// Time from the intended start to the sending: the generator's own delay, which is in the latencies too.
    pub late: Latencies,
    /// Number of starts that were later than [`LATE_AFTER`].
    pub late_count: u64,
}

/// Delay from which on the generator has a part in the latency that it reports.
pub const LATE_AFTER: Duration = Duration::from_micros(20);
/// Limit of batches in flight. Above it the target does not carry the rate, and waiting longer would fill the memory.
const IN_FLIGHT_MAX: usize = 1_000_000;
/// Timeout of the last replies.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

impl OpenLoop {
    /// Connects to `target`. Nothing is sent before the next turn. Their ids begin at `first`.
    pub fn start(
        rig: &mut Rig,
        target: SocketAddr,
        first: u32,
        load: OpenLoad,
        workload: &Workload,
    ) -> Result<OpenLoop> {
        for index in first..first + load.clients {
            rig.driver.adopt(Id { index, generation: 0 }, connect(target)?)?;
        }
        let mut schedule = Schedule::new(load.rate / f64::from(load.pipeline), load.seed);
        let began = rig.clock().now();
        Ok(OpenLoop {
            clock: rig.clock(),
            first,
            clients: (0..load.clients).map(|_| Client::default()).collect(),
            next_client: 0,
            load,
            next_start: began + schedule.next_start(),
            schedule,
            schedule_began: began,
            end: Instant::NEVER,
            batches: workload.batches(load.pipeline as usize, SEED),
            next_batch: 0,
            replies: Replies::new(&workload.reply()),
            answered: 0,
            in_flight: 0,
            parts: VecDeque::new(),
        })
    }

    /// A part of the run begins at `from`: requests with an intended start from then on count for it. Before the first
    /// part, nothing is recorded.
    pub fn begin_part(&mut self, from: Instant) {
        self.parts.push_front((from, Recorded::default()));
    }

    /// Nothing starts from `end` on.
    pub fn end_at(&mut self, end: Instant) {
        self.end = end;
    }

    /// The records of all parts.
    pub fn into_parts(self) -> Vec<Recorded> {
        self.parts.into_iter().rev().map(|(_, recorded)| recorded).collect()
    }

    /// Requests answered so far.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Whether requests must still be sent before the end, or replies are missing. A request can be late because the loop was
    /// busy at its time.
    pub fn is_waiting(&self) -> bool {
        self.in_flight > 0 || self.next_start < self.end
    }

    fn send_due(&mut self, driver: &mut Driver) -> Result<()> {
        loop {
            // The time is read anew: the last send took a while, and the next may be due by now.
            let now = self.clock.now();
            if self.next_start > now || self.next_start >= self.end {
                return Ok(());
            }
            let intended = self.next_start;
            self.next_start = self.schedule_began + self.schedule.next_start();
            if let Some(recorded) = part_of(&mut self.parts, intended) {
                let late = now.since(intended);
                recorded.late.record(late);
                recorded.late_count += u64::from(late > LATE_AFTER);
            }
            self.send(driver, intended)?;
        }
    }

    /// Sends a batch on the connection whose turn it is.
    fn send(&mut self, driver: &mut Driver, intended: Instant) -> Result<()> {
        self.in_flight += 1;
        if self.in_flight > IN_FLIGHT_MAX {
            bail!("the target does not carry the rate: {IN_FLIGHT_MAX} requests wait for their replies");
        }
        let id = Id { index: self.first + self.next_client as u32, generation: 0 };
        let clients = self.clients.len();
        let client = &mut self.clients[self.next_client];
        let batch = &self.batches[self.next_batch];
        self.next_client = (self.next_client + 1) % clients;
        self.next_batch = (self.next_batch + 1) % self.batches.len();
        client.intended.push_back(intended);
        let sent = if client.unsent.is_empty() { driver.send(id, batch)? } else { 0 };
        client.unsent.extend_from_slice(&batch[sent..]);
        Ok(())
    }

    /// Notes the replies that `bytes` complete.
    fn receive(&mut self, id: Id, bytes: &[u8], now: Instant) -> Result<()> {
        let client = &mut self.clients[(id.index - self.first) as usize];
        let replies = (client.at + bytes.len()) / self.replies.reply_bytes();
        client.at = self.replies.check(client.at, bytes)?;
        for _ in 0..replies {
            let intended = *client.intended.front().context("more replies than requests")?;
            if let Some(recorded) = part_of(&mut self.parts, intended) {
                recorded.latencies.record(now.since(intended));
            }
            client.replies += 1;
            if client.replies == self.load.pipeline {
                client.replies = 0;
                client.intended.pop_front();
                self.in_flight -= 1;
            }
        }
        self.answered += replies as u64;
        Ok(())
    }
}

/// The part of a request whose intended start is `intended`.
fn part_of(parts: &mut VecDeque<(Instant, Recorded)>, intended: Instant) -> Option<&mut Recorded> {
    parts.iter_mut().find(|(from, _)| intended >= *from).map(|(_, recorded)| recorded)
}

impl Party for OpenLoop {
    fn owns(&self, id: Id) -> bool {
        (self.first..self.first + self.clients.len() as u32).contains(&id.index)
    }

    fn begin_turn(&mut self, driver: &mut Driver, _now: Instant) -> Result<()> {
        self.send_due(driver)
    }

    fn between_events(&mut self, driver: &mut Driver) -> Result<()> {
        self.send_due(driver)
    }

    fn handle(&mut self, event: Event<'_>, now: Instant) -> Result<Option<Id>> {
        match event {
            Event::Received(id, bytes) => self.receive(id, bytes, now).map(|()| None),
            Event::Writable(id) | Event::Connected(id) => Ok(Some(id)),
            Event::Ended(_) => bail!("the target ended a connection"),
            Event::Closed(_, error) => Err(error).context("the target closed a connection"),
        }
    }

    fn flush(&mut self, driver: &mut Driver, id: Id, _now: Instant) -> Result<()> {
        let client = &mut self.clients[(id.index - self.first) as usize];
        if !client.unsent.is_empty() {
            let sent = driver.send(id, &client.unsent)?;
            client.unsent.drain(..sent);
        }
        Ok(())
    }
}

/// Turns until every request of `clients` is answered; an error if one is not, for percentiles without it would lie.
pub fn await_replies(rig: &mut Rig, clients: &mut OpenLoop, others: &mut [&mut dyn Party]) -> Result<()> {
    let end = rig.now() + ANSWERED_WITHIN;
    while clients.is_waiting() {
        if rig.now() >= end {
            bail!("{} batches were not answered within {ANSWERED_WITHIN:?}", clients.in_flight);
        }
        let mut parties: Vec<&mut dyn Party> = vec![clients];
        for other in &mut *others {
            parties.push(*other);
        }
        rig.turn(&mut parties)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_for_the_part_of_their_intended_start() {
        let at = Instant::from_nanos;
        let mut parts = VecDeque::from([(at(20), Recorded::default()), (at(10), Recorded::default())]);
        for intended in [9, 10, 19, 20, 1000] {
            if let Some(recorded) = part_of(&mut parts, at(intended)) {
                recorded.late_count += intended;
            }
        }
        assert_eq!(parts.iter().map(|(_, recorded)| recorded.late_count).collect::<Vec<_>>(), [1020, 29]);
    }
}
