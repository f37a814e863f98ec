//! The memory that a worker holds for its clients and nodes, and its actions near the limit.
//!
//! The worker counts:
//!
//! - requests that are incomplete, not read yet, or waiting for EXEC;
//! - replies that wait for their clients or for other parts of a merge;
//! - bytes that wait to be sent to nodes;
//! - answers of several workers, and messages to them;
//! - data that clients leave behind: names, subscriptions, tracked keys, copies of requests.
//!
//! All bytes that are neither unread nor left behind are moving. If they exceed half of the limit, the worker reads
//! from no client until they have shrunk to a quarter. Requests wait in the clients' sockets meanwhile. (Unread
//! requests do not count, since they could not shrink while they are not read.)
//!
//! Some clients may wait for memory while others neither take their replies nor finish their requests. Of the latter,
//! the client that holds the most is then closed, or as many as needed if each holds little. Above the limit, the
//! client that holds the most is closed in any case, as by Redis's `maxmemory-clients`.
//!
//! `--memory-max` limits the memory of the process for requests and replies; each worker has its share. docs/memory.md
//! lists the limits. These rules keep the accounts right:
//!
//! - Buffers grow in powers of two, so that no memory of the allocator lies idle between sizes. A client without
//!   pending requests owns no buffer.
//! - Requests for a node are queued in pieces. The old memory of a buffer that doubles would be of no use to others.
//! - An MGET counts with the buffers of all its parts from its beginning. Buffers that finished MGETs leave for later
//!   ones have a limit of their own.
//! - A read brings no more than can be kept if each client sends as much.
//! - Data that a client leaves behind counts by a `Charge`, which ends with its owner. It does not stop reading, since
//!   it would not shrink by that.
//! - Scripts, libraries and users exist once for all workers, and are taken off the limit first.

use crate::ConnId;
use crate::context::Context;
use crate::event::CloseReason;
use crate::features::Session;
use crate::peers::{Peer, Peers, sessions};
use crate::proxy::Proxy;
use std::cmp::Reverse;

/// A client that holds less is not closed to make room, since it is not the cause.
const EVICTED_BYTES_MIN: usize = 64 * 1024;

/// Smaller reads would cost more system calls than they save memory.
const READ_BYTES_MIN: usize = 4 << 10;

impl Proxy {
    /// Sets the bytes that the driver holds for connections with TLS.
    pub fn handle_held_below(&mut self, bytes: usize) {
        if self.core.cx.engine.memory.below_bytes() != bytes {
            self.core.cx.engine.memory.recount_below(bytes);
            self.watch_memory();
        }
    }

    /// Resumes clients when memory is free, and makes room if there is none.
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

    /// Closes clients that do not move, so that no other client waits for ever. To be called once a second.
    pub(crate) fn relieve_memory(&mut self) {
        let (now, patience) = (self.core.cx.engine.now, self.core.cx.engine.limits.memory_patience);
        let is_stuck = |session: &Session| session.is_stuck(now, patience);
        if self.core.cx.engine.memory.is_full() && !self.evict_largest(is_stuck) {
            // Requests that are not read are not what others wait for.
            evict_small(self, |session| is_stuck(session) && session.counted.bytes > 0);
        }
    }

    /// Closes the subscribers that hold the most before reading has to stop: slow subscribers must not stop all
    /// clients.
    pub(crate) fn relieve_of_subscribers(&mut self) {
        let half = self.core.cx.engine.limits.memory_bytes_max / 2;
        let is_stuck =
            |session: &Session| session.features.subscribed.is_some() && session.replies.output.blocked;
        while self.core.cx.engine.memory.all_moving_bytes() > half && self.evict_largest(is_stuck) {}
    }

    /// Closes the client that holds the most among those that `may` accepts. Returns false if none holds enough.
    #[cold]
    fn evict_largest(&mut self, may: impl Fn(&Session) -> bool) -> bool {
        let largest = weigh_clients(self, may).max_by_key(|(bytes, _)| *bytes);
        let Some((_, conn)) = largest.filter(|&(bytes, _)| bytes >= EVICTED_BYTES_MIN) else { return false };
        evict(self, conn);
        true
    }
}

/// Closes clients among those that `may` accepts, from the one that holds the most on, until requests are read again.
#[cold]
fn evict_small(proxy: &mut Proxy, may: impl Fn(&Session) -> bool) {
    let max = proxy.core.cx.engine.limits.memory_bytes_max;
    let mut clients: Vec<(usize, ConnId)> = weigh_clients(proxy, may).collect();
    clients.sort_unstable_by_key(|&(bytes, _)| Reverse(bytes));
    for (_, conn) in clients {
        if proxy.core.cx.engine.memory.has_shrunk(max) {
            return;
        }
        evict(proxy, conn);
    }
}

/// The clients that `may` accepts, with the bytes that each holds.
fn weigh_clients(proxy: &Proxy, may: impl Fn(&Session) -> bool) -> impl Iterator<Item = (usize, ConnId)> {
    sessions(&proxy.peers).filter(move |session| may(session)).map(|session| {
        let transaction = session.features.transaction.as_ref().map_or(0, |kept| kept.held_bytes());
        let counted = session.counted.bytes + session.counted.unread_bytes + session.features.left_bytes();
        (counted + transaction + proxy.core.execs.mixture_bytes(session), session.conn)
    })
}

fn evict(proxy: &mut Proxy, conn: ConnId) {
    if let Some(Peer::Client(session)) = proxy.peers.get_mut(conn) {
        proxy.core.cx.note_closed(session, CloseReason::MemoryLimit);
    }
    proxy.close_client(conn);
}

/// The bytes that one event may bring: as much as can be kept of each client, if all send much at once.
pub(crate) fn read_bytes_max(cx: &Context) -> usize {
    let share = cx.engine.limits.memory_bytes_max / 6 / (cx.stats.counters.clients as usize).max(1);
    share.max(READ_BYTES_MIN)
}

/// Stops reading from all clients, since their bytes would only be held.
#[cold]
fn hold_all_up(cx: &mut Context, peers: &mut Peers) {
    for index in 0..peers.places() {
        if let Some(Peer::Client(session)) = peers.id_at(index).and_then(|id| peers.get_mut(id)) {
            cx.engine.hold_up(session);
        }
    }
}
