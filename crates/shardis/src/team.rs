//! The workers of one service, as the control thread sees them.

use crate::watch::{Finding, Pulse, Watch};
use anyhow::{Context, Result};
use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, warn};

/// Threads, each with clients of its own. `M` is where a worker's mail goes.
pub(crate) struct Team<M> {
    members: Vec<Member<M>>,
    watch: Watch,
}

/// The visible state of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signs {
    /// Number of its clients that have left: the control thread balances by it.
    clients_gone: Arc<AtomicUsize>,
    /// By this it sees whether the worker gets on.
    pub(crate) pulse: Pulse,
    /// Time spent in turns, in nanoseconds.
    busy_ns: Arc<AtomicU64>,
    /// Nodes that take its requests.
    nodes_up: Arc<AtomicUsize>,
    /// Its waits for more requests.
    pub(crate) waits: Arc<Waits>,
}

/// A worker's waits for more requests: see `batching.rs`.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    count: AtomicU64,
    sum_ns: AtomicU64,
    /// The wait that the next turns may have, in nanoseconds.
    present_ns: AtomicU64,
}

impl Waits {
    /// Adds a wait of `time`. Only the worker calls it.
    pub(crate) fn add(&self, time: Duration) {
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let sum = self.sum_ns.load(Ordering::Relaxed) + time.as_nanos() as u64;
        self.sum_ns.store(sum, Ordering::Relaxed);
    }

    /// Shows the wait that the next turns may have.
    pub(crate) fn show_present(&self, wait: Duration) {
        // A wait is shorter than a second.
        self.present_ns.store(wait.subsec_nanos().into(), Ordering::Relaxed);
    }

    /// The number of waits.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The sum of all waits.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed))
    }

    /// The wait that the next turns may have; zero if they have none.
    pub(crate) fn present(&self) -> Duration {
        Duration::from_nanos(self.present_ns.load(Ordering::Relaxed))
    }
}

impl Signs {
    /// Shows how many clients have gone since the worker began.
    pub(crate) fn show_clients_gone(&self, clients: usize) {
        self.clients_gone.store(clients, Ordering::Relaxed);
    }

    /// Shows how many nodes take requests of the worker.
    pub(crate) fn show_nodes_up(&self, nodes: usize) {
        self.nodes_up.store(nodes, Ordering::Relaxed);
    }

    /// The number of nodes as last shown.
    pub(crate) fn nodes_up(&self) -> usize {
        self.nodes_up.load(Ordering::Relaxed)
    }

    /// Adds the time of a turn. Only the worker calls it.
    pub(crate) fn add_busy(&self, time: Duration) {
        let sum = self.busy_ns.load(Ordering::Relaxed) + time.as_nanos() as u64;
        self.busy_ns.store(sum, Ordering::Relaxed);
    }

    /// Time in which the worker did not wait for events.
    pub(crate) fn busy_time(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed))
    }
}

struct Member<M> {
    mailbox: M,
    thread: JoinHandle<()>,
    /// Clients that were ever given to it.
    given: usize,
    signs: Signs,
}

impl<M> Team<M> {
    /// Nobody yet.
    pub(crate) fn new() -> Team<M> {
        Team { members: Vec::new(), watch: Watch::new(Instant::now()) }
    }

    /// Starts the next worker, whose thread does `run`. When it ends, the control thread is woken by `waker`.
    pub(crate) fn start(
        &mut self,
        mailbox: M,
        signs: Signs,
        waker: &Arc<Waker>,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let (number, waker) = (self.members.len(), Arc::clone(waker));
        let run = move || {
            if let Err(error) = run() {
                error!(worker = number, %error, "worker failed");
            }
            // Fails only if the control thread is gone.
            let _ = waker.wake();
        };
        let thread = std::thread::Builder::new().name(format!("worker-{number}"));
        let thread = thread.spawn(run).context("starting a worker")?;
        self.members.push(Member { mailbox, thread, given: 0, signs });
        Ok(())
    }

    /// The worker that gets the next client: the one with the fewest.
    pub(crate) fn take_client(&mut self) -> Option<&M> {
        let member = self.members.iter_mut().min_by_key(|member| member.clients())?;
        member.given += 1;
        Some(&member.mailbox)
    }

    /// Worker `number`, for a client that is to come to it.
    pub(crate) fn take_client_at(&mut self, number: usize) -> Option<&M> {
        let member = self.members.get_mut(number)?;
        member.given += 1;
        Some(&member.mailbox)
    }

    /// The number of workers.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The most clients that one worker was ever given.
    pub(crate) fn given_max(&self) -> usize {
        self.members.iter().map(|member| member.given).max().unwrap_or_default()
    }

    /// The number of nodes that take requests of every worker.
    pub(crate) fn nodes_up(&self) -> usize {
        let counts = self.members.iter().map(|member| member.signs.nodes_up());
        counts.min().unwrap_or_default()
    }

    /// Where the mail of all goes, by their numbers.
    pub(crate) fn mailboxes(&self) -> impl Iterator<Item = &M> {
        self.members.iter().map(|member| &member.mailbox)
    }

    /// Where the mail of worker `number` goes.
    pub(crate) fn mailbox(&self, number: usize) -> &M {
        &self.members[number].mailbox
    }

    /// Logs the workers that are stuck, and their listener, if they have one of their own.
    pub(crate) fn watch(&mut self, listener: Option<&str>) {
        let beats = self.members.iter().map(|member| member.signs.pulse.beats());
        for finding in self.watch.look(beats, Instant::now()) {
            match finding {
                Finding::Stuck(worker, time) => {
                    let ms = time.as_millis();
                    warn!(worker, listener, ms, hint = "its clients wait for this turn", "worker stalled");
                }
                Finding::GoesOn(worker, time) => {
                    let ms = time.as_millis();
                    warn!(worker, listener, ms, "worker resumed");
                }
            }
        }
    }
}

/// The workers of a service, for any type of messages.
pub(crate) trait Workers {
    /// Number of clients of all workers.
    fn clients(&self) -> usize;
    /// Whether one has stopped.
    fn have_lost_one(&self) -> bool;
    /// Whether all have stopped.
    fn have_ended(&self) -> bool;
}

impl<M> Workers for Team<M> {
    fn clients(&self) -> usize {
        self.members.iter().map(Member::clients).sum()
    }

    fn have_lost_one(&self) -> bool {
        self.members.iter().any(|member| member.thread.is_finished())
    }

    fn have_ended(&self) -> bool {
        self.members.iter().all(|member| member.thread.is_finished())
    }
}

impl<M> Member<M> {
    fn clients(&self) -> usize {
        self.given.saturating_sub(self.signs.clients_gone.load(Ordering::Relaxed))
    }
}
