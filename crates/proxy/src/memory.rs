//! What a worker holds for its clients and nodes in bytes, and what it does when that nears its limit.
//!
//! Counted are requests that have not come whole, are not read yet or wait for EXEC, replies that wait for their clients or for the
//! other parts of a merge, what waits to be sent to nodes, answers of several workers and what is on its way to them, and what
//! clients leave behind (names, subscriptions, keys that are tracked, copies of requests). What is neither unread nor left
//! behind is what moves. If that is above half of the limit, nothing is read from clients until it has shrunk to a quarter: what
//! they send waits in their sockets. (Unread requests could not shrink while they are not read.) If clients wait for that while
//! others neither take their replies nor finish their requests, the one of those for which the most is held is closed.
//! Above the limit the client for which the most is held is closed whatever it does, as Redis does with
//! `maxmemory-clients`.

use crate::ConnId;
use crate::core::Core;
use crate::event::CloseReason;
use crate::link::LinkIx;
use crate::proxy::{Peer, Proxy};
use crate::session::{Phase, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is held, and whether that is much.
#[derive(Debug, Default)]
pub(crate) struct Memory {
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
pub(crate) struct Charge {
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

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes are held now.
    pub(crate) fn set(&mut self, bytes: usize) {
        if let Some(account) = &self.account {
            account.0.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.set(self.bytes + bytes);
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        self.set(self.bytes - bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A client for which less is held is not closed to make room: it is not the cause.
const EVICTED_BYTES_MIN: usize = 64 * 1024;

/// Smaller reads would be more calls than it spares memory.
const READ_BYTES_MIN: usize = 4 << 10;

impl Memory {
    /// Something that counted for `counted` bytes holds `holds` now.
    #[inline]
    pub(crate) fn recount(&mut self, counted: &mut usize, holds: usize) {
        self.moving_bytes = self.moving_bytes.wrapping_add(holds).wrapping_sub(*counted);
        *counted = holds;
    }

    /// The same for unread requests.
    #[inline]
    pub(crate) fn recount_unread(&mut self, counted: &mut usize, holds: usize) {
        self.unread_bytes = self.unread_bytes.wrapping_add(holds).wrapping_sub(*counted);
        *counted = holds;
    }

    /// Bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.unread_bytes + self.all_moving_bytes() + self.left_bytes()
    }

    /// Bytes of all that becomes less if nothing is read from clients.
    #[inline]
    fn all_moving_bytes(&self) -> usize {
        self.moving_bytes + self.gathered.bytes()
    }

    /// Bytes of what clients leave behind.
    pub(crate) fn left_bytes(&self) -> usize {
        self.left.bytes()
    }

    /// Bytes of answers that are gathered, and of what is on its way to other workers.
    pub(crate) fn gathered_bytes(&self) -> usize {
        self.gathered.bytes()
    }

    /// Counts `bytes` of something that a client leaves behind.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        Charge::to(&self.left, bytes)
    }

    /// Counts `bytes` of an answer that is gathered, or on its way to another worker.
    pub(crate) fn charge_gathered(&self, bytes: usize) -> Charge {
        Charge::to(&self.gathered, bytes)
    }

    /// What is counted for sessions, tasks and connections: of all else, and of unread requests.
    pub(crate) fn counted(&self) -> (usize, usize) {
        (self.moving_bytes, self.unread_bytes - self.below_bytes)
    }

    /// Whether requests have to wait.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

impl Core {
    /// Counts what the session holds.
    #[inline]
    pub(crate) fn recount_client(&mut self, session: &mut Session) {
        let holds = session.held_bytes();
        self.memory.recount(&mut session.counted_bytes, holds);
        self.memory.recount_unread(&mut session.counted_unread_bytes, session.input.len());
    }

    /// Counts what the connection `ix` holds.
    #[inline]
    pub(crate) fn recount_link(&mut self, ix: LinkIx) {
        let link = &mut self.links[ix];
        let holds = link.held_bytes();
        self.memory.recount(&mut link.counted_bytes, holds);
    }

    /// Counts what has just been queued for nodes.
    pub(crate) fn recount_listed_nodes(&mut self) {
        for index in 0..self.links_to_send.len() {
            self.recount_link(self.links_to_send[index]);
        }
    }

    /// Whether a request may be read. If not, the client is resumed when it may.
    #[inline]
    pub(crate) fn has_memory_for(&mut self, session: &mut Session) -> bool {
        let has_memory = self.has_memory();
        if !has_memory {
            self.hold_up(session);
        }
        has_memory
    }

    /// Whether something may be begun that will be held.
    #[inline]
    pub(crate) fn has_memory(&mut self) -> bool {
        if self.memory.all_moving_bytes() > self.limits.memory_bytes_max / 2 {
            self.memory.is_full = true;
        }
        !self.memory.is_full()
    }

    /// The session is not read from until there is room.
    fn hold_up(&mut self, session: &mut Session) {
        if !session.held_up {
            session.held_up = true;
            self.memory.held_up.push(session.conn);
        }
        if !session.paused && session.phase == Phase::Open && !session.is_blocked() {
            session.paused = true;
            self.pace(session.conn, true);
        }
    }
}

impl Proxy {
    /// How many bytes an event may bring at most: as much as may be kept of each client, if all have sent much at once.
    pub fn read_bytes_max(&self) -> usize {
        let share = self.core.limits.memory_bytes_max / 6 / (self.core.counters.clients as usize).max(1);
        share.max(READ_BYTES_MIN)
    }

    /// The driver holds so many bytes of connections (TLS). They count like unread requests: reading from nobody would not
    /// make them fewer.
    pub fn handle_held_below(&mut self, bytes: usize) {
        let memory = &mut self.core.memory;
        let mut counted = memory.below_bytes;
        if counted != bytes {
            memory.recount_unread(&mut counted, bytes);
            memory.below_bytes = counted;
            self.watch_memory();
        }
    }

    /// Lets clients go on when there is room again, and makes room if there is none at all.
    pub(crate) fn watch_memory(&mut self) {
        let max = self.core.limits.memory_bytes_max;
        while self.core.memory.held_bytes() > max && self.evict_largest(|_| true) {}
        let memory = &mut self.core.memory;
        if memory.is_full && !memory.holds_all_up {
            memory.holds_all_up = true;
            self.core.counters.memory_full += 1;
            self.hold_all_up();
        }
        let memory = &mut self.core.memory;
        if memory.is_full() && memory.all_moving_bytes() <= max / 4 {
            (memory.is_full, memory.holds_all_up) = (false, false);
            for conn in std::mem::take(&mut memory.held_up) {
                if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                    session.held_up = false;
                    self.core.clients_to_resume.push(conn);
                }
            }
        }
    }

    /// Reads from nobody: what comes now would only be held.
    fn hold_all_up(&mut self) {
        for index in 0..self.peers.places() {
            if let Some(Peer::Client(session)) = self.peers.id_at(index).and_then(|id| self.peers.get_mut(id))
            {
                self.core.hold_up(session);
            }
        }
    }

    /// Once a second: nobody waits for ever for a client that does not move.
    pub(crate) fn relieve_memory(&mut self) {
        let (now, patience) = (self.core.now, self.core.limits.memory_patience);
        if self.core.memory.is_full() {
            self.evict_largest(|session| session.is_stuck(now, patience));
        }
    }

    /// Subscribers that take nothing do not stop all others: before reading stops, those for whom the most is held go.
    pub(crate) fn relieve_of_subscribers(&mut self) {
        let half = self.core.limits.memory_bytes_max / 2;
        let is_stuck = |session: &Session| session.subscribed.is_some() && session.blocked;
        while self.core.memory.all_moving_bytes() > half && self.evict_largest(is_stuck) {}
    }

    /// Closes the client for which the most is held among those of whom `may` is true. False if there is none that is
    /// worth it.
    fn evict_largest(&mut self, may: impl Fn(&Session) -> bool) -> bool {
        let clients = (0..self.peers.places()).filter_map(|index| {
            let conn = self.peers.id_at(index)?;
            match self.peers.get(conn)? {
                Peer::Client(session) if may(session) => {
                    let transaction = session.transaction.as_ref().map_or(0, |kept| kept.held_bytes());
                    let transaction = transaction + self.core.mixture_bytes(session);
                    let counted = session.counted_bytes + session.counted_unread_bytes + session.left_bytes();
                    Some((counted + transaction, conn))
                }
                Peer::Client(_) | Peer::Link(_) => None,
            }
        });
        let Some((bytes, conn)) = clients.max_by_key(|(bytes, _)| *bytes) else { return false };
        if bytes < EVICTED_BYTES_MIN {
            return false;
        }
        if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
            self.core.note_closed(session, CloseReason::MemoryLimit);
        }
        self.close_client(conn);
        true
    }
}
