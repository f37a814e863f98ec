//! Clients of one worker that speak HTTP. Each has a [`Gateway`] between its connection and its session.

use driver::Driver;
use gateway::{Dialect, Gateway};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use stdx::Id;

/// The dialect of each listener, by its number. `None`: clients speak RESP.
pub(crate) type Dialects = Arc<[Option<Dialect>]>;

/// The clients.
pub(crate) struct HttpClients {
    dialects: Dialects,
    clients: HashMap<Id, Client>,
    held_bytes: usize,
}

struct Client {
    gateway: Gateway,
    /// Whether the session has more bytes than the gateway takes.
    is_full: bool,
    /// Whether the session has said its last.
    is_finishing: bool,
    /// The bytes that count in [`HttpClients::held_bytes`].
    counted: usize,
}

/// The effect of bytes of a session.
pub(crate) struct Taken {
    /// The number of bytes that were taken.
    pub bytes: usize,
    /// More requests for the session.
    pub requests: Vec<u8>,
}

/// The next steps once all bytes for a client were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// The session may send more.
    pub is_writable: bool,
    /// The sending half of the connection ends.
    pub ends: bool,
}

impl HttpClients {
    pub(crate) fn new(dialects: Dialects) -> HttpClients {
        HttpClients { dialects, clients: HashMap::new(), held_bytes: 0 }
    }

    /// Begins with a client of this listener, if HTTP is spoken there.
    pub(crate) fn open(&mut self, conn: Id, listener: u16) {
        if let Some(dialect) = self.dialect(listener) {
            let gateway = Gateway::new(dialect);
            self.clients.insert(conn, Client { gateway, is_full: false, is_finishing: false, counted: 0 });
        }
    }

    /// The refusal of a client in the language of its listener.
    pub(crate) fn refusal(&self, listener: u16, refusal: Vec<u8>) -> Vec<u8> {
        let Some(dialect) = self.dialect(listener) else { return refusal };
        let mut gateway = Gateway::new(dialect);
        gateway.reply(&refusal);
        std::mem::take(gateway.output())
    }

    pub(crate) fn has(&self, conn: Id) -> bool {
        self.clients.contains_key(&conn)
    }

    /// Bytes that are held for all clients.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes bytes of the client `conn`. Returns requests for its session, or `None` if the client speaks RESP.
    pub(crate) fn receive(&mut self, conn: Id, bytes: &[u8]) -> Option<Vec<u8>> {
        let client = self.client(conn)?;
        client.gateway.receive(bytes);
        let requests = std::mem::take(client.gateway.requests());
        self.recount(conn);
        Some(requests)
    }

    /// Takes bytes of the session of `conn`, or returns `None` if its client speaks RESP.
    pub(crate) fn reply(&mut self, conn: Id, bytes: &[u8]) -> Option<Taken> {
        let client = self.client(conn)?;
        let taken = client.gateway.reply(bytes);
        client.is_full = taken < bytes.len();
        let requests = std::mem::take(client.gateway.requests());
        self.recount(conn);
        Some(Taken { bytes: taken, requests })
    }

    /// The session of `conn` has said its last. Returns whether the client must get bytes before that.
    pub(crate) fn finish(&mut self, conn: Id) -> bool {
        self.client(conn).is_some_and(|client| {
            client.is_finishing = true;
            !client.gateway.output().is_empty()
        })
    }

    /// Sends what `conn` takes.
    pub(crate) fn flush(&mut self, conn: Id, driver: &mut Driver) -> io::Result<Flushed> {
        let Some(client) = self.client(conn) else { return Ok(Flushed::default()) };
        let output = client.gateway.output();
        if !output.is_empty() {
            let sent = driver.send(conn, output)?;
            output.drain(..sent);
        }
        let is_empty = output.is_empty();
        let flushed = Flushed {
            is_writable: is_empty && std::mem::take(&mut client.is_full),
            ends: is_empty && client.is_finishing,
        };
        self.recount(conn);
        Ok(flushed)
    }

    /// Forgets a client that has gone.
    pub(crate) fn close(&mut self, conn: Id) {
        if !self.clients.is_empty()
            && let Some(client) = self.clients.remove(&conn)
        {
            self.held_bytes -= client.counted;
        }
    }

    fn dialect(&self, listener: u16) -> Option<Dialect> {
        self.dialects.get(usize::from(listener)).copied().flatten()
    }

    fn client(&mut self, conn: Id) -> Option<&mut Client> {
        // Most processes have none.
        if self.clients.is_empty() { None } else { self.clients.get_mut(&conn) }
    }

    fn recount(&mut self, conn: Id) {
        if let Some(client) = self.clients.get_mut(&conn) {
            let holds = client.gateway.held_bytes();
            self.held_bytes = self.held_bytes + holds - client.counted;
            client.counted = holds;
        }
    }
}
