//! Memory that a worker holds for its clients and nodes, in bytes.

use crate::ConnId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory in use, and whether the limit is reached.
#[derive(Debug, Default)]
pub struct Memory {
    /// Requests that were not read yet, or wait for their EXEC.
    unread_bytes: usize,
    /// All else that is counted. It shrinks while no requests are read.
    moving_bytes: usize,
    /// Whether reading of requests has stopped.
    is_full: bool,
    /// Whether the clients have been stopped for that.
    holds_all_up: bool,
    /// Clients with requests that were not read for lack of memory.
    held_up: Vec<ConnId>,
    /// Memory of the driver, as it was counted last.
    below_bytes: usize,
    /// Memory that clients leave behind.
    left: Arc<Account>,
    /// Memory of answers that this process gathers, and of messages to other workers. It shrinks like `moving_bytes`.
    gathered: Arc<Account>,
}

/// The sum of [`Charge`]s. Another worker may drop a charge.
#[derive(Debug, Default)]
struct Account(AtomicUsize);

/// Bytes that count as in use for the lifetime of the charge. Its owner is the holder of the memory.
#[derive(Debug, Default)]
pub struct Charge {
    /// `None` if the bytes are not counted.
    account: Option<Arc<Account>>,
    bytes: usize,
}

impl Account {
    #[inline]
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Charge {
    fn to(account: &Arc<Account>, bytes: usize) -> Charge {
        let mut charge = Charge { account: Some(Arc::clone(account)), bytes: 0 };
        charge.set(bytes);
        charge
    }

    /// The bytes of the charge.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the charge to `bytes`.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if let Some(account) = &self.account {
            account.0.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Adds `bytes` to the charge.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.set(self.bytes + bytes);
    }

    /// Takes `bytes` off the charge.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        self.set(self.bytes - bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Memory {
    /// Changes a count from `counted` to `holds` bytes.
    #[inline]
    pub fn recount(&mut self, counted: &mut usize, holds: usize) {
        self.moving_bytes = self.moving_bytes.wrapping_add(holds).wrapping_sub(*counted);
        *counted = holds;
    }

    /// The same for unread requests.
    #[inline]
    pub fn recount_unread(&mut self, counted: &mut usize, holds: usize) {
        self.unread_bytes = self.unread_bytes.wrapping_add(holds).wrapping_sub(*counted);
        *counted = holds;
    }

    /// Bytes in use.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.unread_bytes + self.all_moving_bytes() + self.left_bytes()
    }

    /// Bytes that become fewer while nothing is read from clients.
    #[inline]
    pub fn all_moving_bytes(&self) -> usize {
        self.moving_bytes + self.gathered.bytes()
    }

    /// Bytes that clients leave behind.
    #[inline]
    pub fn left_bytes(&self) -> usize {
        self.left.bytes()
    }

    /// Bytes of answers that are gathered, and of messages to other workers.
    #[inline]
    pub fn gathered_bytes(&self) -> usize {
        self.gathered.bytes()
    }

    /// Counts `bytes` that a client leaves behind.
    #[inline]
    pub fn charge(&self, bytes: usize) -> Charge {
        Charge::to(&self.left, bytes)
    }

    /// Counts `bytes` of an answer that is gathered, or of a message to another worker.
    #[inline]
    pub fn charge_gathered(&self, bytes: usize) -> Charge {
        Charge::to(&self.gathered, bytes)
    }

    /// Bytes counted for sessions, tasks and links: first all but unread requests, then unread requests.
    #[inline]
    pub fn counted(&self) -> (usize, usize) {
        (self.moving_bytes, self.unread_bytes - self.below_bytes)
    }

    /// Bytes that the driver holds, as they were counted last.
    pub fn below_bytes(&self) -> usize {
        self.below_bytes
    }

    /// Sets the bytes that the driver holds. They count like unread requests, since they do not shrink while nothing is
    /// read.
    pub fn recount_below(&mut self, bytes: usize) {
        let mut counted = self.below_bytes;
        self.recount_unread(&mut counted, bytes);
        self.below_bytes = counted;
    }

    /// Whether requests have to wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Stops reading of requests if more than half of `max` bytes are moving. Returns whether requests have to wait.
    #[inline]
    pub fn fill(&mut self, max: usize) -> bool {
        self.is_full |= self.all_moving_bytes() > max / 2;
        self.is_full
    }

    /// Lists the client `conn`, whose requests wait for memory.
    pub fn hold_up(&mut self, conn: ConnId) {
        self.held_up.push(conn);
    }

    /// Whether requests have to wait and this was not reported before.
    pub fn take_news(&mut self) -> bool {
        let is_news = self.is_full && !self.holds_all_up;
        self.holds_all_up |= is_news;
        is_news
    }

    /// Whether so few bytes are moving that requests may be read again.
    pub fn has_shrunk(&self, max: usize) -> bool {
        self.all_moving_bytes() <= max / 4
    }

    /// The clients that waited, once at most a quarter of `max` bytes are moving. Requests are then read again.
    #[cold]
    pub fn relax(&mut self, max: usize) -> Vec<ConnId> {
        if !self.is_full || !self.has_shrunk(max) {
            return Vec::new();
        }
        (self.is_full, self.holds_all_up) = (false, false);
        std::mem::take(&mut self.held_up)
    }
}
