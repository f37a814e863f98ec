//! What a worker counts, and the board on which workers show each other what all must know: counts (INFO answers for
//! all) and scripts.

use crate::scripts::Scripts;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One worker's counts since start; `clients` and `nodes_up` are levels.
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
    /// Clients that ever connected.
    clients_total,
    /// Clients refused because there were too many.
    clients_refused,
    /// Clients closed by us for a fault of theirs.
    clients_closed,
    /// Requests read.
    requests,
    /// Parts that requests were split into.
    fragments,
    /// Replies that were errors of ours, not of a node.
    errors,
    /// Requests whose reply did not come in time.
    timeouts,
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
}

/// What all workers of a process share: one row of counts per worker, and the scripts that went through any of them.
#[derive(Debug)]
pub struct Board {
    rows: Vec<[AtomicU64; Counters::LEN]>,
    pub(crate) scripts: Scripts,
}

impl Board {
    /// A board for `workers` workers.
    pub fn new(workers: usize) -> Board {
        let rows = (0..workers).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        Board { rows, scripts: Scripts::default() }
    }

    /// Shows the counts of `worker`.
    pub fn publish(&self, worker: usize, counters: &Counters) {
        for (place, value) in self.rows[worker].iter().zip(counters.to_array()) {
            place.store(value, Ordering::Relaxed);
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
    fn the_board_sums_what_workers_published_last() {
        let board = Board::new(2);
        board.publish(0, &Counters { requests: 5, clients: 1, ..Counters::default() });
        board.publish(1, &Counters { requests: 7, ..Counters::default() });
        board.publish(0, &Counters { requests: 6, clients: 2, ..Counters::default() });
        assert_eq!(board.sum(), Counters { requests: 13, clients: 2, ..Counters::default() });
    }
}
