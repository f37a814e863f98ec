//! Clients in a closed loop: each sends a batch, waits for all its replies, and sends the next.

use crate::replies::Replies;
use crate::report::Latencies;
use crate::rig::Party;
use crate::workload::Workload;
use anyhow::{Context, Result, bail};
use driver::{Driver, Event};
use std::net::{SocketAddr, TcpStream};
use stdx::{Id, Instant};

/// A set of such clients.
#[derive(Debug)]
pub struct ClosedLoop {
    /// Index of the first client's id; the others follow.
    first: u32,
    clients: Vec<Client>,
    batches: Vec<Vec<u8>>,
    /// The next batch of all clients.
    next_batch: usize,
    /// Bytes of replies to one batch.
    due_bytes: usize,
    replies: Replies,
    received_bytes: u64,
    latencies: Latencies,
}

/// State of one client.
#[derive(Clone, Debug, Default)]
struct Client {
    batch: usize,
    /// Bytes of the batch that were sent.
    sent: usize,
    sent_at: Instant,
    /// Bytes of replies that are still to come.
    due_bytes: usize,
    /// Bytes of the current reply that have come.
    at: usize,
}

impl ClosedLoop {
    /// Connects `count` clients to `target`; they begin at once. Their ids begin at `first`.
    pub fn start(
        driver: &mut Driver,
        target: SocketAddr,
        first: u32,
        count: u32,
        pipeline: usize,
        workload: &Workload,
    ) -> Result<ClosedLoop> {
        let replies = Replies::new(&workload.reply());
        let mut clients = ClosedLoop {
            first,
            clients: vec![Client::default(); count as usize],
            batches: workload.batches(pipeline, SEED),
            next_batch: 0,
            due_bytes: pipeline * replies.reply_bytes(),
            replies,
            received_bytes: 0,
            latencies: Latencies::new(),
        };
        for index in first..first + count {
            let id = Id { index, generation: 0 };
            driver.adopt(id, connect(target)?)?;
            clients.flush(driver, id, Instant::ZERO)?;
        }
        Ok(clients)
    }

    /// Requests answered so far.
    pub fn requests(&self) -> u64 {
        self.received_bytes / self.replies.reply_bytes() as u64
    }

    /// Takes out the times from the sending of a batch to its last reply, and begins anew.
    pub fn take_latencies(&mut self) -> Latencies {
        std::mem::take(&mut self.latencies)
    }

    fn client(&mut self, id: Id) -> &mut Client {
        &mut self.clients[(id.index - self.first) as usize]
    }
}

/// Keys are the same in every run.
pub(crate) const SEED: u64 = 1;

/// Connects; the error names the target.
pub(crate) fn connect(target: SocketAddr) -> Result<TcpStream> {
    TcpStream::connect(target).with_context(|| format!("cannot connect to {target}"))
}

impl Party for ClosedLoop {
    fn owns(&self, id: Id) -> bool {
        (self.first..self.first + self.clients.len() as u32).contains(&id.index)
    }

    fn handle(&mut self, event: Event<'_>, now: Instant) -> Result<Option<Id>> {
        match event {
            Event::Received(id, bytes) => {
                let client = &mut self.clients[(id.index - self.first) as usize];
                client.at = self.replies.check(client.at, bytes)?;
                if bytes.len() > client.due_bytes {
                    bail!("more replies than requests");
                }
                client.due_bytes -= bytes.len();
                self.received_bytes += bytes.len() as u64;
                if client.due_bytes > 0 {
                    return Ok(None);
                }
                self.latencies.record(now.since(client.sent_at));
                Ok(Some(id))
            }
            Event::Writable(id) | Event::Connected(id) => Ok(Some(id)),
            Event::Ended(_) => bail!("the target ended a connection"),
            Event::Closed(_, error) => Err(error).context("the target closed a connection"),
        }
    }

    fn flush(&mut self, driver: &mut Driver, id: Id, now: Instant) -> Result<()> {
        let (next_batch, due_bytes) = (self.next_batch, self.due_bytes);
        let client = self.client(id);
        if client.due_bytes == 0 {
            *client = Client { batch: next_batch, sent: 0, sent_at: now, due_bytes, at: 0 };
            self.next_batch = (next_batch + 1) % self.batches.len();
        }
        let client = &mut self.clients[(id.index - self.first) as usize];
        let rest = &self.batches[client.batch][client.sent..];
        if !rest.is_empty() {
            client.sent += driver.send(id, rest)?;
        }
        Ok(())
    }
}
