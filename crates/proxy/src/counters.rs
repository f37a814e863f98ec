//! The counts of a worker, and the board on which workers share state: counts (INFO covers all workers) and scripts.

use crate::hot::report::HotBoard;
use crate::monitor::monitors::Monitors;
use crate::node_tally::{self, NodeReports};
use crate::pubsub::audience::Audience;
use crate::scripts::known::Scripts;
use crate::slow::log::SlowLog;
use crate::tally::Tally;
use crate::topology_update::discovered::{Discovered, DiscoveryBoard};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use stdx::Instant;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One worker's counts since start; some are levels ([`Counters::with_levels_of`]).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            const LEN: usize = [$(stringify!($name)),*].len();

            fn to_array(self) -> [u64; Self::LEN] {
                [$(self.$name),*]
            }

            fn from_array([$($name),*]: [u64; Self::LEN]) -> Counters {
                Counters { $($name),* }
            }
        }
    };
}

counters! {
    /// Clients connected now.
    clients,
    /// Clients that wait for an element now.
    clients_blocked,
    /// Clients that wait for a reply now.
    clients_waiting,
    /// Clients that ever connected.
    clients_total,
    /// Clients refused: there were too many, or protected mode denied them.
    clients_refused,
    /// Refused clients that protected mode denied.
    clients_denied,
    /// Clients closed by us for a fault of the client.
    clients_closed,
    /// Clients that completed a TLS handshake or sent a PROXY header.
    handshakes,
    /// Clients that failed to do so.
    handshakes_failed,
    /// Requests read.
    requests,
    /// Fragments of split requests.
    fragments,
    /// Commands over several shards that were carried out here.
    emulations,
    /// Error replies of shardis, not of a node.
    errors,
    /// Requests that timed out.
    timeouts,
    /// Reads that were sent again on a pinned link because their replies were large.
    refetches,
    /// Requests that a node declined (MOVED, ASK and similar) and that were sent again.
    redirects,
    /// Redirects by the error MOVED.
    redirects_moved,
    /// Redirects by the error ASK.
    redirects_ask,
    /// Redirects whose keys could not be reached at that time: LOADING, TRYAGAIN, CLUSTERDOWN.
    redirects_later,
    /// Logins by AUTH that were refused.
    logins_refused_auth,
    /// Logins by HELLO that were refused.
    logins_refused_hello,
    /// Times that reading of requests stopped for lack of memory.
    memory_full,
    /// Shared links that were replaced because large replies came on them.
    retirements,
    /// Shared links that were replaced because nothing came on them.
    conns_replaced,
    /// Reads that were sent again because their link was lost or replaced, or was behind a large reply.
    reads_repeated,
    /// Reads and fragments of reads that were sent to replicas.
    replica_reads,
    /// Reads that were not, because no replica was fit.
    replica_fallbacks,
    /// Reads that were not, because no fit replica was known to have the client's own writes.
    own_write_reads,
    /// Reads that were sent to the primary after a replica had failed to answer.
    replica_retries,
    /// Changes of the shards of keys because nodes failed or came back.
    remaps,
    /// Shards that lost their keys because their nodes failed.
    ejections,
    /// Requests whose whole times were not measured though they were picked: too many were measured at once.
    latency_samples_left_out,
    /// Bytes received from clients.
    client_bytes_in,
    /// Bytes taken by clients.
    client_bytes_out,
    /// Bytes received from nodes.
    node_bytes_in,
    /// Bytes taken by nodes.
    node_bytes_out,
    /// Connections to nodes that were lost or could not be opened.
    node_failures,
    /// Nodes that take requests now.
    nodes_up,
    /// Requests read in the last second.
    requests_per_s,
    /// Bytes received from clients in the last second.
    bytes_in_per_s,
    /// Bytes taken by clients in the last second.
    bytes_out_per_s,
    /// Bytes of memory that count towards the worker's limit now.
    held_bytes,
    /// The part of it for requests that were not read yet, or wait for their EXEC.
    unread_bytes,
    /// The part of it for answers that are gathered, and for messages to other workers.
    gathered_bytes,
    /// The part of it that clients leave behind: names, topics, tracked keys, scripts.
    left_bytes,
    /// Clients with a subscription now.
    subscribers,
    /// Clients that track keys now.
    trackers,
    /// Keys that at least one client tracks.
    tracked_keys,
    /// The same, where each key counts once for each client that tracks it.
    tracked_items,
    /// Prefixes of keys that clients track.
    tracked_prefixes,
    /// Messages passed on to clients. Each receiver counts.
    messages,
    /// Times that messages may have been missed because their link was lost.
    message_gaps,
}

impl Counters {
    /// The counts since `earlier`. Levels stay as they are.
    pub(crate) fn since(self, earlier: &Counters) -> Counters {
        let mut counts = self.to_array();
        for (count, earlier) in counts.iter_mut().zip(earlier.to_array()) {
            *count -= earlier;
        }
        Counters::from_array(counts).with_levels_of(self)
    }

    /// The counts from which [`Counters::since`] begins.
    pub(crate) fn baseline(self) -> Counters {
        self.with_levels_of(Counters::default())
    }

    /// These counts with the levels of `other`.
    fn with_levels_of(self, other: Counters) -> Counters {
        Counters {
            clients: other.clients,
            clients_blocked: other.clients_blocked,
            clients_waiting: other.clients_waiting,
            nodes_up: other.nodes_up,
            requests_per_s: other.requests_per_s,
            bytes_in_per_s: other.bytes_in_per_s,
            bytes_out_per_s: other.bytes_out_per_s,
            held_bytes: other.held_bytes,
            unread_bytes: other.unread_bytes,
            gathered_bytes: other.gathered_bytes,
            left_bytes: other.left_bytes,
            subscribers: other.subscribers,
            trackers: other.trackers,
            tracked_keys: other.tracked_keys,
            tracked_items: other.tracked_items,
            tracked_prefixes: other.tracked_prefixes,
            ..self
        }
    }
}

/// The counts of one sweep, from which the next one computes rates.
#[derive(Debug)]
pub(crate) struct Rates {
    measured_at: Instant,
    earlier: Counters,
}

impl Rates {
    /// Rates that begin at `now`, with nothing counted.
    pub(crate) fn new(now: Instant) -> Rates {
        Rates { measured_at: now, earlier: Counters::default() }
    }

    /// Writes the rates since the last call into `counters`.
    pub(crate) fn measure(&mut self, counters: &mut Counters, now: Instant) {
        let nanos = now.since(self.measured_at).as_nanos().max(1);
        let rate = |count: u64, earlier: u64| (u128::from(count - earlier) * 1_000_000_000 / nanos) as u64;
        counters.requests_per_s = rate(counters.requests, self.earlier.requests);
        counters.bytes_in_per_s = rate(counters.client_bytes_in, self.earlier.client_bytes_in);
        counters.bytes_out_per_s = rate(counters.client_bytes_out, self.earlier.client_bytes_out);
        (self.measured_at, self.earlier) = (now, *counters);
    }
}

/// The machine resources that the process uses, as measured by the user of the workers; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory in use, in bytes.
    pub resident_bytes: u64,
    /// CPU time in our own code, in microseconds.
    pub cpu_user_us: u64,
    /// CPU time in the kernel on our behalf, in microseconds.
    pub cpu_system_us: u64,
    /// Memory in use before the first request, in bytes.
    pub resident_bytes_at_start: u64,
    /// Memory of the machine, in bytes.
    pub machine_bytes: u64,
}

/// The counts that do not fit into atomics.
#[derive(Debug, Default)]
pub struct Page {
    /// By command and by error.
    pub tally: Tally,
    /// By node.
    pub nodes: NodeReports,
}

/// State that all workers of a process share: one row of counts per worker, and the scripts that went through any of
/// them.
#[derive(Debug)]
pub struct Board {
    rows: Vec<[AtomicU64; Counters::LEN]>,
    pub(crate) scripts: Scripts,
    pub(crate) audience: Audience,
    pub(crate) monitors: Monitors,
    /// By worker. Locked once a second by its worker, and by each reader.
    pages: Vec<Mutex<Page>>,
    usage: Mutex<Usage>,
    /// Number of clients of all workers.
    seats_taken: AtomicUsize,
    /// See [`Board::begin_numbers_at`].
    clients_before: AtomicU64,
    /// By worker, the number of pending clients, which have a descriptor.
    pending_clients: Vec<AtomicUsize>,
    /// See [`Board::show_clock_step`].
    clock_step_us: AtomicI64,
    /// The instant of the last change of the topology, in nanoseconds; 0 before the first.
    topology_changed_ns: AtomicU64,
    pub(crate) discovery: DiscoveryBoard,
    /// Slow requests of all workers.
    pub slow: SlowLog,
    /// Hot and big keys of all workers.
    pub hot: HotBoard,
}

impl Board {
    /// A board for `workers` workers.
    pub fn new(workers: usize) -> Board {
        Board {
            rows: (0..workers).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
            pages: (0..workers).map(|_| Mutex::default()).collect(),
            usage: Mutex::default(),
            seats_taken: AtomicUsize::new(0),
            clients_before: AtomicU64::new(0),
            pending_clients: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            clock_step_us: AtomicI64::new(0),
            topology_changed_ns: AtomicU64::new(0),
            discovery: DiscoveryBoard::default(),
            slow: SlowLog::default(),
            hot: HotBoard::new(workers),
            scripts: Scripts::default(),
            audience: Audience::default(),
            monitors: Monitors::new(workers),
        }
    }

    /// Numbers the clients of each worker from `clients` on: another process has given out the numbers before.
    pub fn begin_numbers_at(&self, clients: u64) {
        self.clients_before.store(clients, Ordering::Relaxed);
    }

    /// The number of clients before the first one, for each worker.
    pub fn clients_before(&self) -> u64 {
        self.clients_before.load(Ordering::Relaxed)
    }

    /// Takes a seat for one client, if all workers together have fewer than `max` clients.
    pub(crate) fn take_seat(&self, max: usize) -> bool {
        let more = |taken| (taken < max).then_some(taken + 1);
        self.seats_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Frees the seat of a client that has gone.
    pub(crate) fn leave_seat(&self) {
        self.seats_taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of seats left of `max` if all pending clients become clients.
    pub(crate) fn seats_left(&self, max: usize) -> usize {
        max.saturating_sub(self.seats_taken.load(Ordering::Relaxed) + self.clients_pending())
    }

    /// Sets the number of pending clients of `worker`.
    pub(crate) fn show_pending_clients(&self, worker: usize, pending_clients: usize) {
        self.pending_clients[worker].store(pending_clients, Ordering::Relaxed);
    }

    /// Sets the step of the wall clock since the process began. The time of day in replies follows it; deadlines do
    /// not.
    pub fn show_clock_step(&self, step_us: i64) {
        self.clock_step_us.store(step_us, Ordering::Relaxed);
    }

    /// See [`Board::show_clock_step`].
    pub fn clock_step_us(&self) -> i64 {
        self.clock_step_us.load(Ordering::Relaxed)
    }

    /// Notes that a worker goes by another topology from `now` on.
    pub(crate) fn note_topology_change(&self, now: Instant) {
        self.topology_changed_ns.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// The instant of the last change of the topology; [`Instant::ZERO`] before the first.
    pub fn topology_changed_at(&self) -> Instant {
        Instant::from_nanos(self.topology_changed_ns.load(Ordering::Relaxed))
    }

    /// Clients that are shaking hands, of all workers.
    pub fn clients_pending(&self) -> usize {
        self.pending_clients.iter().map(|pending_clients| pending_clients.load(Ordering::Relaxed)).sum()
    }

    /// The state of the discovery; `None` without discovery.
    pub fn discovered(&self) -> Option<Discovered> {
        self.discovery.shown()
    }

    /// Sets the state of the discovery.
    pub fn show_discovery(&self, discovered: Discovered) {
        self.discovery.show(discovered);
    }

    /// Sets the resources that the process uses.
    pub fn show_usage(&self, usage: Usage) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }

    /// The resources that the process uses, as set last.
    pub fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the counts of `worker` by command, and its view of the nodes.
    pub(crate) fn publish_page(&self, worker: usize, tally: &Tally, nodes: NodeReports) {
        let mut page = self.pages[worker].lock().unwrap_or_else(PoisonError::into_inner);
        page.tally.copy_from(tally);
        page.nodes = nodes;
    }

    /// The sum of all workers' counts by command, and the nodes of the newest topology with the sums of all workers.
    /// Both are of the same moment.
    pub fn page(&self) -> Page {
        let mut tally = Tally::default();
        let mut views = Vec::with_capacity(self.pages.len());
        for page in &self.pages {
            let page = page.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(&page.tally);
            views.push(page.nodes.clone());
        }
        Page { tally, nodes: node_tally::combine(views.iter()) }
    }

    /// The counts that `worker` published last, at most a second ago.
    pub fn of_worker(&self, worker: usize) -> Counters {
        Counters::from_array(std::array::from_fn(|at| self.rows[worker][at].load(Ordering::Relaxed)))
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.rows.len()
    }

    /// The sum of all workers' counts by command.
    pub(crate) fn tally(&self) -> Tally {
        self.page().tally
    }

    /// Publishes the counts of `worker`.
    pub fn publish(&self, worker: usize, counters: &Counters) {
        for (place, value) in self.rows[worker].iter().zip(counters.to_array()) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Publishes at once how many clients `worker` has and how many of them wait. A command that kills or unblocks
    /// clients checks whether they have gone.
    pub(crate) fn publish_clients(&self, worker: usize, counters: &Counters) {
        // The first two counts.
        for (place, count) in self.rows[worker].iter().zip([counters.clients, counters.clients_blocked]) {
            place.store(count, Ordering::Relaxed);
        }
    }

    /// The sum of the counts that all workers published last, at most a second ago.
    pub fn sum(&self) -> Counters {
        let mut sum = [0u64; Counters::LEN];
        for row in &self.rows {
            for (total, place) in sum.iter_mut().zip(row) {
                *total = total.wrapping_add(place.load(Ordering::Relaxed));
            }
        }
        Counters::from_array(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_sets_counts_back_but_not_levels() {
        let counters = Counters { requests: 5, clients: 2, nodes_up: 1, ..Counters::default() };
        let later = Counters { requests: 9, clients: 1, ..counters };
        let expected = Counters { requests: 4, clients: 1, nodes_up: 1, ..Counters::default() };
        assert_eq!(later.since(&counters.baseline()), expected);
    }

    #[test]
    fn the_board_sums_the_last_published_counts() {
        let board = Board::new(2);
        board.publish(0, &Counters { requests: 5, clients: 1, ..Counters::default() });
        board.publish(1, &Counters { requests: 7, ..Counters::default() });
        board.publish_clients(1, &Counters { clients: 3, clients_blocked: 2, ..Counters::default() });
        board.publish(0, &Counters { requests: 6, clients: 2, ..Counters::default() });
        assert_eq!(
            board.sum(),
            Counters { requests: 13, clients: 5, clients_blocked: 2, ..Counters::default() }
        );
    }
}
