//! Pending clients: connections that must send a PROXY header or finish a TLS handshake. They stay here until that is
//! done, refused, or too late. A silent one costs some bytes and a descriptor; the work per turn is bounded.

use crate::credentials::Acceptor;
use crate::header::{self, HEADER_BYTES_MAX};
use crate::socket::{Socket, canonical};
use crate::tls::Account;
use mio::event::Event as Readiness;
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use stdx::{Id, Instant, Slab};

/// Requirements of a listener for its clients, before their first request.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// A PROXY header, first of all.
    pub header: bool,
    /// TLS.
    pub acceptor: Option<Acceptor>,
    /// Which listener that is, by a number that means nothing here.
    pub listener: u16,
}

/// A client that has done, or has yet to do, what its listener asks for.
#[derive(Debug)]
pub struct PendingClient {
    pub(crate) socket: Socket,
    awaits_header: bool,
    peer: SocketAddr,
    /// The load balancer whose header has named `peer`.
    named_by: Option<SocketAddr>,
    local: Option<SocketAddr>,
    listener: u16,
    deadline: Instant,
    /// Listed in the handshakes' `due`.
    listed: bool,
}

impl PendingClient {
    /// Its address; that in the PROXY header if there was one.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address of the load balancer that named [`PendingClient::peer`] in a PROXY header, if there was one.
    pub fn named_by(&self) -> Option<SocketAddr> {
        self.named_by
    }

    /// The address at which it reached us, or the load balancer in front of us.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The number of the listener by which it came: [`Entry::listener`].
    pub fn listener(&self) -> u16 {
        self.listener
    }

    /// The number of its socket.
    pub fn descriptor(&self) -> i32 {
        self.socket.tcp().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Sends `last` as far as it goes, and closes.
    pub fn dismiss(mut self, last: &[u8]) {
        // The connection is closed, whether or not this is read.
        let _ = self.socket.write(last);
        self.socket.say_goodbye();
    }

    /// Goes on as far as it can. True once nothing more is asked of it.
    fn advance(&mut self) -> io::Result<bool> {
        if self.awaits_header && !self.read_header()? {
            return Ok(false);
        }
        self.socket.handshake()
    }

    /// Reads the PROXY header, and not a byte behind it, once it is there.
    fn read_header(&mut self) -> io::Result<bool> {
        let Some(mut stream) = self.socket.tcp() else { return Ok(true) };
        let mut bytes = [0; HEADER_BYTES_MAX];
        let len = match stream.peek(&mut bytes) {
            Ok(0) => return Err(refusal("closed before its PROXY header was complete")),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let Some(header) = header::parse(&bytes[..len]).map_err(refusal)? else { return Ok(false) };
        stream.read_exact(&mut bytes[..header.len])?;
        if let Some((peer, local)) = header.addrs {
            self.named_by = Some(std::mem::replace(&mut self.peer, peer));
            self.local = Some(local);
        }
        self.awaits_header = false;
        Ok(true)
    }
}

fn refusal(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// The result of a pending client.
#[derive(Debug)]
pub enum Verdict {
    /// It may come in.
    Ready(PendingClient),
    /// It was closed.
    Refused {
        /// Its address, as far as it is known.
        peer: SocketAddr,
        /// Why.
        reason: io::Error,
    },
}

/// The pending clients of one worker.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    pending_clients: Slab<PendingClient>,
    /// In the order of their arrival, which is that of their deadlines. Some may have left.
    order: VecDeque<Id>,
    /// Those that have sent something, or that take bytes again.
    due: VecDeque<Id>,
    /// How many may go on in this turn.
    steps: usize,
}

/// A step may be a signature (RSA: 1 ms): clients that are in are not to wait for many of them.
const STEPS_PER_TURN: usize = 4;
/// Tokens of pending clients begin here: above those of all connections, below the waker's.
const FIRST_TOKEN: usize = usize::MAX / 2;

impl Handshakes {
    /// How many pending clients there are.
    pub(crate) fn len(&self) -> usize {
        self.pending_clients.len()
    }

    /// Whether somebody has something to say that did not fit into the last turn.
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// When the first pending client has taken too long.
    pub(crate) fn deadline(&self) -> Instant {
        let first = self.order.iter().find_map(|id| self.pending_clients.get(*id));
        first.map_or(Instant::NEVER, |pending_client| pending_client.deadline)
    }

    /// Takes a client in.
    pub(crate) fn receive(
        &mut self,
        registry: &Registry,
        stream: TcpStream,
        peer: SocketAddr,
        entry: &Entry,
        deadline: Instant,
        account: Account,
    ) -> io::Result<()> {
        let local = stream.local_addr().ok().map(canonical);
        let mut socket = Socket::adopt(stream)?;
        if let Some(acceptor) = &entry.acceptor {
            socket = socket.secure(acceptor.begin()?, account);
        }
        let Entry { header: awaits_header, listener, .. } = *entry;
        let pending_client = PendingClient {
            socket,
            awaits_header,
            peer: canonical(peer),
            named_by: None,
            local,
            listener,
            deadline,
            listed: false,
        };
        let id = self.pending_clients.insert(pending_client);
        let pending_client = self.pending_clients.get_mut(id).expect("it was inserted just now");
        let token = Token(FIRST_TOKEN + id.index as usize);
        if let Err(error) =
            registry.register(&mut pending_client.socket, token, Interest::READABLE | Interest::WRITABLE)
        {
            self.pending_clients.remove(id);
            return Err(error);
        }
        self.order.push_back(id);
        if self.order.len() > 2 * self.pending_clients.len() + STEPS_PER_TURN {
            self.order.retain(|id| self.pending_clients.get(*id).is_some());
        }
        Ok(())
    }

    /// Takes over what the kernel says.
    pub(crate) fn note(&mut self, readiness: &Readiness) {
        let Some(index) = readiness.token().0.checked_sub(FIRST_TOKEN) else { return };
        let Some(id) = self.pending_clients.id_at(index) else { return };
        // A fresh socket takes bytes, but nobody has any for it before it has spoken.
        if readiness.is_readable() || readiness.is_read_closed() || readiness.is_error() {
            self.list(id);
        } else if let Some(pending_client) = self.pending_clients.get_mut(id)
            && pending_client.socket.has_sealed()
        {
            self.list(id);
        }
    }

    fn list(&mut self, id: Id) {
        if let Some(pending_client) = self.pending_clients.get_mut(id)
            && !pending_client.listed
        {
            pending_client.listed = true;
            self.due.push_back(id);
        }
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        self.steps = STEPS_PER_TURN;
    }

    /// Goes on with those that can, as far as this turn allows, and ends the waiting of those whose time was over at `now`.
    pub(crate) fn poll(&mut self, registry: &Registry, now: Instant) -> Option<Verdict> {
        while self.steps > 0
            && let Some(id) = self.due.pop_front()
        {
            let Some(pending_client) = self.pending_clients.get_mut(id) else { continue };
            pending_client.listed = false;
            self.steps -= 1;
            match pending_client.advance() {
                Ok(false) => {}
                Ok(true) => return self.pending_clients.remove(id).map(Verdict::Ready),
                Err(reason) => return self.refuse(registry, id, reason),
            }
        }
        if self.deadline() <= now { self.refuse_oldest(registry, "handshake timed out") } else { None }
    }

    /// Closes the pending client that has been here for the longest.
    pub(crate) fn refuse_oldest(&mut self, registry: &Registry, reason: &str) -> Option<Verdict> {
        while let Some(id) = self.order.pop_front() {
            if self.pending_clients.get(id).is_some() {
                return self.refuse(registry, id, io::Error::new(ErrorKind::TimedOut, reason));
            }
        }
        None
    }

    fn refuse(&mut self, registry: &Registry, id: Id, reason: io::Error) -> Option<Verdict> {
        let mut pending_client = self.pending_clients.remove(id)?;
        // Fails only for a socket that is not registered.
        let _ = registry.deregister(&mut pending_client.socket);
        Some(Verdict::Refused { peer: pending_client.peer, reason })
    }
}
