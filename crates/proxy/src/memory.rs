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
//!
//! `--memory-max` bounds what the process holds for requests and replies; each worker has its share. docs/memory.md lists the
//! limits. These rules keep the account true:
//!
//! - Buffers grow in powers of two, so that the allocator's memory does not lie idle between sizes. A client that has nothing
//!   pending owns no buffer.
//! - What is queued for a node lies in pieces. The buffers that one buffer leaves behind while it doubles are of no use to others.
//! - An MGET counts with the buffers of its parts from its beginning on. Buffers that finished ones leave for the next have a bound of
//!   their own.
//! - A read brings no more than can be kept if each client sends as much.
//! - What a client leaves behind counts by a `Charge`, which ends with its owner. It does not stop the reading of clients, since it
//!   would not become less by that.
//! - Scripts, libraries and users are there once for all workers, and come off the bound first.

use crate::context::Context;
use crate::event::CloseReason;
use crate::features::Session;
use crate::peers::{Peer, Peers};
use crate::proxy::Proxy;

/// A client for which less is held is not closed to make room: it is not the cause.
const EVICTED_BYTES_MIN: usize = 64 * 1024;

/// Smaller reads would be more calls than it spares memory.
const READ_BYTES_MIN: usize = 4 << 10;

impl Proxy {
    /// The driver holds so many bytes of connections (TLS).
    pub fn handle_held_below(&mut self, bytes: usize) {
        if self.core.cx.engine.memory.below_bytes() != bytes {
            self.core.cx.engine.memory.recount_below(bytes);
            self.watch_memory();
        }
    }

    /// Lets clients go on when there is room again, and makes room if there is none at all.
    pub(crate) fn watch_memory(&mut self) {
        let max = self.core.cx.engine.limits.memory_bytes_max;
        while self.core.cx.engine.memory.held_bytes() > max && self.evict_largest(|_| true) {}
        if self.core.cx.engine.memory.take_news() {
            self.core.cx.stats.counters.memory_full += 1;
            hold_all_up(&mut self.core.cx, &mut self.peers);
        }
        if self.core.cx.engine.memory.is_full() {
            for conn in self.core.cx.engine.memory.relax(max) {
                if let Some(Peer::Client(session)) = self.peers.get_mut(conn) {
                    session.held_up = false;
                    self.core.cx.engine.todo.clients_to_resume.push(conn);
                }
            }
        }
    }

    /// Once a second: nobody waits for ever for a client that does not move.
    pub(crate) fn relieve_memory(&mut self) {
        let (now, patience) = (self.core.cx.engine.now, self.core.cx.engine.limits.memory_patience);
        if self.core.cx.engine.memory.is_full() {
            self.evict_largest(|session| session.is_stuck(now, patience));
        }
    }

    /// Subscribers that take nothing do not stop all others: before reading stops, those for whom the most is held go.
    pub(crate) fn relieve_of_subscribers(&mut self) {
        let half = self.core.cx.engine.limits.memory_bytes_max / 2;
        let is_stuck =
            |session: &Session| session.features.subscribed.is_some() && session.replies.output.blocked;
        while self.core.cx.engine.memory.all_moving_bytes() > half && self.evict_largest(is_stuck) {}
    }

    /// Closes the client for which the most is held among those of whom `may` is true. False if there is none that is
    /// worth it.
    #[cold]
    fn evict_largest(&mut self, may: impl Fn(&Session) -> bool) -> bool {
        let clients = (0..self.peers.places()).filter_map(|index| {
            let conn = self.peers.id_at(index)?;
            match self.peers.get(conn)? {
                Peer::Client(session) if may(session) => {
                    let transaction =
                        session.features.transaction.as_ref().map_or(0, |kept| kept.held_bytes());
                    let transaction = transaction + self.core.execs.mixture_bytes(session);
                    let counted =
                        session.counted.bytes + session.counted.unread_bytes + session.features.left_bytes();
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
            self.core.cx.note_closed(session, CloseReason::MemoryLimit);
        }
        self.close_client(conn);
        true
    }
}

/// How many bytes an event may bring at most: as much as may be kept of each client, if all have sent much at once.
pub(crate) fn read_bytes_max(cx: &Context) -> usize {
    let share = cx.engine.limits.memory_bytes_max / 6 / (cx.stats.counters.clients as usize).max(1);
    share.max(READ_BYTES_MIN)
}

/// Reads from nobody: what comes now would only be held.
#[cold]
fn hold_all_up(cx: &mut Context, peers: &mut Peers) {
    for index in 0..peers.places() {
        if let Some(Peer::Client(session)) = peers.id_at(index).and_then(|id| peers.get_mut(id)) {
            cx.engine.hold_up(session);
        }
    }
}
