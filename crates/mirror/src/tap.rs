//! The mirror's end at a worker: it copies the bytes of clients. A worker never waits for the mirror.

use crate::status::Status;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::Id;
use tokio::sync::mpsc::UnboundedSender;

/// An event of one client.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The client has connected.
    Opened,
    /// The client sent these bytes.
    Sent(Vec<u8>),
    /// The client got these bytes.
    Got(Vec<u8>),
    /// The client has gone, or cannot be mirrored any more.
    Closed,
}

/// A client's event, with the worker and the connection.
pub(crate) type Event = (usize, Id, Seen);

/// Bytes of memory that an event takes beside its own.
pub(crate) const EVENT_BYTES: usize = 64;

/// The mirror's end at a worker.
#[derive(Debug)]
pub struct Tap {
    worker: usize,
    events: UnboundedSender<Event>,
    status: Arc<Status>,
    bytes_max: usize,
    clients: HashSet<Id>,
}

impl Tap {
    /// The tap of `worker`. Events that are not handled yet take at most `bytes_max`, with those of other workers.
    pub(crate) fn new(
        worker: usize,
        events: UnboundedSender<Event>,
        status: Arc<Status>,
        bytes_max: usize,
    ) -> Tap {
        Tap { worker, events, status, bytes_max, clients: HashSet::new() }
    }

    /// A client has connected.
    pub fn opened(&mut self, conn: Id) {
        if self.send(conn, Seen::Opened, 0) {
            self.clients.insert(conn);
        }
    }

    /// The client `conn` sent `bytes`. Other connections are passed over.
    pub fn sent(&mut self, conn: Id, bytes: &[u8]) {
        self.tell(conn, bytes, Seen::Sent);
    }

    /// The client `conn` got `bytes`. Other connections are passed over.
    pub fn got(&mut self, conn: Id, bytes: &[u8]) {
        self.tell(conn, bytes, Seen::Got);
    }

    /// The client `conn` has gone.
    pub fn closed(&mut self, conn: Id) {
        if self.clients.remove(&conn) {
            // A mirror that has ended has nothing to close.
            let _ = self.events.send((self.worker, conn, Seen::Closed));
        }
    }

    fn tell(&mut self, conn: Id, bytes: &[u8], seen: fn(Vec<u8>) -> Seen) {
        if bytes.is_empty() || !self.clients.contains(&conn) {
            return;
        }
        if !self.send(conn, seen(bytes.to_vec()), bytes.len()) {
            self.status.clients_lost.fetch_add(1, Ordering::Relaxed);
            self.closed(conn);
        }
    }

    /// Sends an event of `len` bytes, unless the memory is full.
    fn send(&self, conn: Id, seen: Seen, len: usize) -> bool {
        let held = &self.status.held_bytes;
        if held.load(Ordering::Relaxed) + len + EVENT_BYTES > self.bytes_max {
            return false;
        }
        held.fetch_add(len + EVENT_BYTES, Ordering::Relaxed);
        self.events.send((self.worker, conn, seen)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    const CLIENT: Id = Id { index: 1, generation: 1 };
    const NODE: Id = Id { index: 2, generation: 1 };

    #[test]
    fn other_connections_are_ignored_and_memory_is_bounded() {
        let (events, mut seen) = mpsc::unbounded_channel();
        let status = Arc::new(Status::default());
        let mut tap = Tap::new(0, events, Arc::clone(&status), 1000);
        tap.opened(CLIENT);
        tap.sent(NODE, b"x");
        tap.sent(CLIENT, b"x");
        assert!(matches!(seen.try_recv(), Ok((0, CLIENT, Seen::Opened))));
        assert!(matches!(seen.try_recv(), Ok((0, CLIENT, Seen::Sent(bytes))) if bytes == b"x"));
        tap.got(CLIENT, &[0; 2000]);
        assert!(matches!(seen.try_recv(), Ok((0, CLIENT, Seen::Closed))), "there is no room");
        tap.sent(CLIENT, b"x");
        assert!(seen.try_recv().is_err());
        assert_eq!(status.totals().clients_lost, 1);
    }
}
