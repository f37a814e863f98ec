//! Pending clients: connections that must send a PROXY header or finish a TLS handshake. They stay here until they
//! have, are refused, or time out. A silent one costs some bytes and a descriptor. The work per turn is bounded.

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
    /// A PROXY header before all else.
    pub header: bool,
    /// TLS, with this acceptor.
    pub acceptor: Option<Acceptor>,
    /// The listener's number, which has no meaning here.
    pub listener: u16,
}

/// A client that must meet the requirements of its listener, or has met them.
#[derive(Debug)]
pub struct PendingClient {
    pub(crate) socket: Socket,
    awaits_header: bool,
    peer: SocketAddr,
    /// The load balancer whose header named `peer`.
    named_by: Option<SocketAddr>,
    local: Option<SocketAddr>,
    listener: u16,
    deadline: Instant,
    /// Whether it is listed in `due` of [`Handshakes`].
    listed: bool,
}

impl PendingClient {
    /// The client's address, from the PROXY header if there was one.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address of the load balancer that named [`PendingClient::peer`] in a PROXY header, if there was one.
    pub fn named_by(&self) -> Option<SocketAddr> {
        self.named_by
    }

    /// The local address of the connection. With a PROXY header, the address at which the load balancer was reached.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The number of the listener: [`Entry::listener`].
    pub fn listener(&self) -> u16 {
        self.listener
    }

    /// The number of its socket.
    pub fn descriptor(&self) -> i32 {
        self.socket.tcp().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Sends `last` as far as possible, and closes.
    pub fn dismiss(mut self, last: &[u8]) {
        // The connection closes, whether or not this is read.
        let _ = self.socket.write(last);
        self.socket.say_goodbye();
    }

    /// Continues as far as possible. Returns true once all requirements are met.
    fn advance(&mut self) -> io::Result<bool> {
        if self.awaits_header && !self.read_header()? {
            return Ok(false);
        }
        self.socket.handshake()
    }

    /// Reads the PROXY header once it is complete, and not a byte behind it.
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
    /// The client has met all requirements.
    Ready(PendingClient),
    /// The client was closed.
    Refused {
        /// Its address, as far as known.
        peer: SocketAddr,
        /// The reason.
        reason: io::Error,
    },
}

/// The pending clients of one worker.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    pending_clients: Slab<PendingClient>,
    /// In the order of arrival, and so of deadlines. Some may have left.
    order: VecDeque<Id>,
    /// Pending clients with input, or whose sockets take bytes again.
    due: VecDeque<Id>,
    /// Number of steps left in this turn.
    steps: usize,
}

/// Limit of steps per turn. A step may be a signature (RSA: 1 ms), and connected clients must not wait for many of
/// them.
const STEPS_PER_TURN: usize = 4;
/// First token of pending clients: above the tokens of all connections, below the waker's.
const FIRST_TOKEN: usize = usize::MAX / 2;

impl Handshakes {
    /// The number of pending clients.
    pub(crate) fn len(&self) -> usize {
        self.pending_clients.len()
    }

    /// Whether a pending client is due that did not fit into the last turn.
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The instant at which the first pending client times out.
    pub(crate) fn deadline(&self) -> Instant {
        let first = self.order.iter().find_map(|id| self.pending_clients.get(*id));
        first.map_or(Instant::NEVER, |pending_client| pending_client.deadline)
    }

    /// Takes over a client.
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

    /// Notes the kernel's `readiness`.
    pub(crate) fn note(&mut self, readiness: &Readiness) {
        let Some(index) = readiness.token().0.checked_sub(FIRST_TOKEN) else { return };
        let Some(id) = self.pending_clients.id_at(index) else { return };
        // A new socket is writable, but there is nothing to write before the client has sent bytes.
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

    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.steps = STEPS_PER_TURN;
    }

    /// Continues pending clients that are due, as far as this turn allows. Refuses clients that timed out at `now`.
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

    /// Closes the pending client that has waited longest.
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
