//! What a worker counts, and the board on which workers show each other what all must know: counts (INFO answers for
//! all) and scripts.

use crate::monitor::monitors::Monitors;
use crate::pubsub::audience::Audience;
use crate::scripts::known::Scripts;
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
    /// Clients that ever connected.
    clients_total,
    /// Clients refused: there were too many, or protected mode denied them.
    clients_refused,
    /// Those of them that protected mode denied.
    clients_denied,
    /// Clients closed by us for a fault of theirs.
    clients_closed,
    /// Clients that shook hands: TLS, or a PROXY header.
    handshakes,
    /// Those that should have, and did not.
    handshakes_failed,
    /// Requests read.
    requests,
    /// Parts that requests were split into.
    fragments,
    /// Commands over several shards that were carried out here.
    emulations,
    /// Replies that were errors of ours, not of a node.
    errors,
    /// Requests whose reply did not come in time.
    timeouts,
    /// Reads that were asked again on a pinned connection, since their replies were large.
    refetches,
    /// Requests that a node declined (MOVED, ASK and their like) and that were sent elsewhere, or again.
    redirects,
    /// How often requests were not read since too much was held.
    memory_full,
    /// Shared connections that others took the place of, since large replies came on them.
    retirements,
    /// Shared connections that others took the place of, since nothing came on them.
    conns_replaced,
    /// Reads that were asked again, since their connection had ended or was replaced, or a large reply was in front of theirs.
    reads_repeated,
    /// Reads, and parts of reads, that were sent to replicas.
    replica_reads,
    /// Those that were not, since no replica was fit.
    replica_fallbacks,
    /// Those that were not, since no fit replica was known to have what the same client had written.
    own_write_reads,
    /// Reads that were asked of the primary after a replica had failed to answer them.
    replica_retries,
    /// How often the shards that keys go to have changed, since nodes failed or came back.
    remaps,
    /// Bytes received from clients.
    client_bytes_in,
    /// Bytes taken by clients.
    client_bytes_out,
    /// Bytes received from nodes.
    node_bytes_in,
    /// Bytes taken by nodes.
    node_bytes_out,
    /// Connections to nodes that were lost or could not be made.
    node_failures,
    /// Nodes that take requests now.
    nodes_up,
    /// Requests read in the last second.
    requests_per_s,
    /// Bytes received from clients in the last second.
    bytes_in_per_s,
    /// Bytes taken by clients in the last second.
    bytes_out_per_s,
    /// Bytes of memory that count for the bound of the worker's memory now.
    held_bytes,
    /// Clients that are subscribed to something now.
    subscribers,
    /// Clients that track keys now.
    trackers,
    /// Keys of which at least one of them is to be told.
    tracked_keys,
    /// The same, each counted for each client that is to be told.
    tracked_items,
    /// Beginnings of keys of which clients are to be told.
    tracked_prefixes,
    /// Messages passed on to clients: one for each that gets it.
    messages,
    /// How often messages may have been missed, since a connection over which they come was lost.
    message_gaps,
}

impl Counters {
    /// What was counted since these counts were `earlier`. Levels stay as they are.
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

    /// These counts, and what is so now from `other`.
    fn with_levels_of(self, other: Counters) -> Counters {
        Counters {
            clients: other.clients,
            clients_blocked: other.clients_blocked,
            nodes_up: other.nodes_up,
            requests_per_s: other.requests_per_s,
            bytes_in_per_s: other.bytes_in_per_s,
            bytes_out_per_s: other.bytes_out_per_s,
            held_bytes: other.held_bytes,
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

/// What the process takes of the machine, as whoever drives the workers finds out; 0 where it cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory in use, in bytes.
    pub resident_bytes: u64,
    /// Time of the processor in our own code, in microseconds.
    pub cpu_user_us: u64,
    /// The same in the kernel on our behalf.
    pub cpu_system_us: u64,
    /// Memory in use before the first request, in bytes.
    pub resident_bytes_at_start: u64,
    /// Memory that the machine has, in bytes.
    pub machine_bytes: u64,
}

/// What all workers of a process share: one row of counts per worker, and the scripts that went through any of them.
#[derive(Debug)]
pub struct Board {
    rows: Vec<[AtomicU64; Counters::LEN]>,
    pub(crate) scripts: Scripts,
    pub(crate) audience: Audience,
    pub(crate) monitors: Monitors,
    /// By worker. Locked once a second by its worker, and by whoever asks.
    tallies: Vec<Mutex<Tally>>,
    usage: Mutex<Usage>,
    /// Clients of all workers.
    seats_taken: AtomicUsize,
    /// By worker: who has a descriptor and is no client yet.
    pending_clients: Vec<AtomicUsize>,
    /// See [`Board::show_clock_step`].
    clock_step_us: AtomicI64,
    pub(crate) discovery: DiscoveryBoard,
}

impl Board {
    /// A board for `workers` workers.
    pub fn new(workers: usize) -> Board {
        Board {
            rows: (0..workers).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
            tallies: (0..workers).map(|_| Mutex::default()).collect(),
            usage: Mutex::default(),
            seats_taken: AtomicUsize::new(0),
            pending_clients: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            clock_step_us: AtomicI64::new(0),
            discovery: DiscoveryBoard::default(),
            scripts: Scripts::default(),
            audience: Audience::default(),
            monitors: Monitors::new(workers),
        }
    }

    /// Takes the place of one client, if all workers together have fewer than `max`.
    pub(crate) fn take_seat(&self, max: usize) -> bool {
        let more = |taken| (taken < max).then_some(taken + 1);
        self.seats_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A client has gone.
    pub(crate) fn leave_seat(&self) {
        self.seats_taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many more clients there may be, of `max`, if all who want to become one do.
    pub(crate) fn seats_left(&self, max: usize) -> usize {
        let pending_clients: usize =
            self.pending_clients.iter().map(|pending_clients| pending_clients.load(Ordering::Relaxed)).sum();
        max.saturating_sub(self.seats_taken.load(Ordering::Relaxed) + pending_clients)
    }

    /// So many at `worker` have yet to shake hands.
    pub(crate) fn show_pending_clients(&self, worker: usize, pending_clients: usize) {
        self.pending_clients[worker].store(pending_clients, Ordering::Relaxed);
    }

    /// Shows by how much the wall clock was set since the process began. What the proxy says of the time of day follows it;
    /// no deadline does.
    pub fn show_clock_step(&self, step_us: i64) {
        self.clock_step_us.store(step_us, Ordering::Relaxed);
    }

    pub(crate) fn clock_step_us(&self) -> i64 {
        self.clock_step_us.load(Ordering::Relaxed)
    }

    /// Shows how the discovery of the topology goes.
    pub fn show_discovery(&self, discovered: Discovered) {
        self.discovery.show(discovered);
    }

    /// Shows what the process takes.
    pub fn show_usage(&self, usage: Usage) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }

    /// What the process takes, as it was shown last.
    pub(crate) fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what `worker` counted for each command.
    pub(crate) fn publish_tally(&self, worker: usize, tally: &Tally) {
        self.tallies[worker].lock().unwrap_or_else(PoisonError::into_inner).copy_from(tally);
    }

    /// The sum of what workers counted for each command.
    pub(crate) fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in &self.tallies {
            sum.add(&tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// Shows the counts of `worker`.
    pub fn publish(&self, worker: usize, counters: &Counters) {
        for (place, value) in self.rows[worker].iter().zip(counters.to_array()) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Shows how many clients `worker` has, and how many of them wait: at once, for whoever kills or unblocks clients
    /// looks whether they have gone.
    pub(crate) fn publish_clients(&self, worker: usize, counters: &Counters) {
        // The first two of the counts.
        for (place, count) in self.rows[worker].iter().zip([counters.clients, counters.clients_blocked]) {
            place.store(count, Ordering::Relaxed);
        }
    }

    /// The sum over all workers of what they published last (at most a second ago).
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
    fn counts_begin_anew_and_levels_do_not() {
        let counters = Counters { requests: 5, clients: 2, nodes_up: 1, ..Counters::default() };
        let later = Counters { requests: 9, clients: 1, ..counters };
        let expected = Counters { requests: 4, clients: 1, nodes_up: 1, ..Counters::default() };
        assert_eq!(later.since(&counters.baseline()), expected);
    }

    #[test]
    fn the_board_sums_what_workers_published_last() {
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
