//! The workers with clients that monitor.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of clients that monitor, in total and by worker.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    pub total: AtomicUsize,
    pub of_workers: Vec<AtomicUsize>,
}

impl Monitors {
    pub(crate) fn new(workers: usize) -> Monitors {
        Monitors {
            total: AtomicUsize::new(0),
            of_workers: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Whether any client monitors.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.total.load(Ordering::Relaxed) > 0
    }

    /// The workers with clients that monitor.
    pub(crate) fn workers(&self) -> impl Iterator<Item = usize> {
        let counts = self.of_workers.iter().enumerate();
        counts.filter(|(_, count)| count.load(Ordering::Relaxed) > 0).map(|(worker, _)| worker)
    }

    pub(crate) fn add(&self, worker: usize) {
        self.of_workers[worker].fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, worker: usize) {
        self.of_workers[worker].fetch_sub(1, Ordering::Relaxed);
        self.total.fetch_sub(1, Ordering::Relaxed);
    }
}
