//! What a worker holds for its clients and nodes, in bytes.

use crate::ConnId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is held, and whether that is much.
#[derive(Debug, Default)]
pub struct Memory {
    /// Requests that were not read yet, or wait for their EXEC.
    unread_bytes: usize,
    /// All else that is counted.
    moving_bytes: usize,
    /// No requests are read.
    is_full: bool,
    /// And everybody was told.
    holds_all_up: bool,
    /// Clients with requests that were not read for that reason.
    held_up: Vec<ConnId>,
    /// What the driver holds, as it was counted last.
    below_bytes: usize,
    /// What clients leave behind.
    left: Arc<Account>,
    /// Answers of this process that are gathered, and what is on its way to other workers. It moves, too.
    gathered: Arc<Account>,
}

/// What [`Charge`]s add up to. Another worker may drop a charge.
#[derive(Debug, Default)]
struct Account(AtomicUsize);

/// Bytes that count as held as long as this lives: it is dropped with what it is for.
#[derive(Debug, Default)]
pub struct Charge {
    /// `None` if nobody counts them.
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

    /// How many.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes are held now.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if let Some(account) = &self.account {
            account.0.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// So many more are held.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.set(self.bytes + bytes);
    }

    /// So many less are held.
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
    /// Something that counted for `counted` bytes holds `holds` now.
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

    /// Bytes held.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.unread_bytes + self.all_moving_bytes() + self.left_bytes()
    }

    /// Bytes of all that becomes less if nothing is read from clients.
    #[inline]
    pub fn all_moving_bytes(&self) -> usize {
        self.moving_bytes + self.gathered.bytes()
    }

    /// Bytes of what clients leave behind.
    #[inline]
    pub fn left_bytes(&self) -> usize {
        self.left.bytes()
    }

    /// Bytes of answers that are gathered, and of what is on its way to other workers.
    #[inline]
    pub fn gathered_bytes(&self) -> usize {
        self.gathered.bytes()
    }

    /// Counts `bytes` of something that a client leaves behind.
    #[inline]
    pub fn charge(&self, bytes: usize) -> Charge {
        Charge::to(&self.left, bytes)
    }

    /// Counts `bytes` of an answer that is gathered, or on its way to another worker.
    #[inline]
    pub fn charge_gathered(&self, bytes: usize) -> Charge {
        Charge::to(&self.gathered, bytes)
    }

    /// What is counted for sessions, tasks and connections: of all else, and of unread requests.
    #[inline]
    pub fn counted(&self) -> (usize, usize) {
        (self.moving_bytes, self.unread_bytes - self.below_bytes)
    }

    /// Bytes that the driver holds, as they were counted last.
    pub fn below_bytes(&self) -> usize {
        self.below_bytes
    }

    /// The driver holds so many bytes. They count like unread requests: reading from nobody would not make them fewer.
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

    /// Requests have to wait if more than half of `max` bytes move. Whether they have to.
    #[inline]
    pub fn fill(&mut self, max: usize) -> bool {
        self.is_full |= self.all_moving_bytes() > max / 2;
        self.is_full
    }

    /// Requests of the client `conn` wait for memory.
    pub fn hold_up(&mut self, conn: ConnId) {
        self.held_up.push(conn);
    }

    /// Whether requests have to wait, and nobody was told yet: once each time.
    pub fn take_news(&mut self) -> bool {
        let is_news = self.is_full && !self.holds_all_up;
        self.holds_all_up |= is_news;
        is_news
    }

    /// Who has waited, once no more than a quarter of `max` bytes move: requests are read again.
    #[cold]
    pub fn relax(&mut self, max: usize) -> Vec<ConnId> {
        if !self.is_full || self.all_moving_bytes() > max / 4 {
            return Vec::new();
        }
        (self.is_full, self.holds_all_up) = (false, false);
        std::mem::take(&mut self.held_up)
    }
}
