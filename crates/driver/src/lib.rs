//! The event loop: sockets and readiness (epoll on Linux, kqueue on macOS and the BSDs, through mio) behind one small
//! interface.
//!
//! ```text
//!     epoll, kqueue ─► Driver::wait ─► next_event ─► Event::Received(id, bytes)      send, close ─► sockets
//!                           │
//!                           └─► handshakes: clients that must still send a PROXY header or finish a TLS handshake
//! ```
//!
//! Begin with [`Driver`] and its [`Event`]s. In each turn, its user calls [`Driver::wait`], then [`Driver::next_event`]
//! until there is none, then sends and closes.
//!
//! ```
//! use driver::{Driver, Event};
//! use std::io::Write;
//! use std::os::unix::net::UnixStream;
//! use std::time::Duration;
//! use stdx::Id;
//!
//! let (mut client, ours) = UnixStream::pair()?;
//! ours.set_nonblocking(true)?;
//! let (mut driver, id) = (Driver::new()?, Id::from_u64(0));
//! driver.adopt_unix(id, ours)?;
//! client.write_all(b"PING\r\n")?;
//! driver.wait(Duration::from_secs(60))?;
//! assert!(matches!(driver.next_event(), Some(Event::Received { .. })));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Sockets are registered once, edge-triggered, for both directions. No system call ever changes an interest. In each
//! turn, the driver reads each readable connection once, into one shared buffer. While other connections also have
//! input, a read gets only a share of the buffer. A connection with more input waits for the next turn, behind the
//! others.
//!
//! **TLS and PROXY headers.** The core knows neither. A client of a listener with one of them begins as a pending
//! client (`handshakes.rs`). It must send its header (`header.rs`) and finish the handshake (`tls.rs`). Then its
//! connection gets an id, and its events carry plaintext. For a node, `Connected` is reported after the handshake.
//!
//! Only bytes that left in whole records count as sent. So bytes that the core takes for unsent never reached the node,
//! and a close after all bytes were sent loses nothing.
//!
//! rustls owns no socket. `tls.rs` has none in its tests, which deliver byte by byte. `credentials.rs` makes
//! certificates of PEM; `crates/shardis/src/transport.rs` reads the files.
//!
//! **Must not know** Redis. Its only dependency of ours is `stdx`. Sockets live in this crate: it relaxes the lint of
//! the root's `clippy.toml` that forbids them elsewhere.

#![expect(clippy::disallowed_types, reason = "sockets live here")]

mod credentials;
mod handshakes;
mod header;
mod secure;
mod socket;
mod tls;

pub use credentials::{Acceptor, ClientAuth, Connector, CredentialsError, Identity, Trust};
pub use handshakes::{Entry, PendingClient, Verdict};
pub use header::{HeaderVersion, header};
pub use mio::Waker;
pub use socket::{Stream, canonical};

use handshakes::Handshakes;
use mio::event::Event as Readiness;
use mio::{Events, Interest, Poll, Token};
use socket::Socket;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use stdx::Id;
use tls::Account;

/// An event.
#[derive(Debug)]
pub enum Event<'a> {
    /// A connection that was asked for is open.
    Connected(Id),
    /// Bytes arrived. They are valid until the next call.
    Received(Id, &'a [u8]),
    /// A connection that took fewer bytes than offered takes bytes again.
    Writable(Id),
    /// The other side has closed its sending half.
    Ended(Id),
    /// The connection is gone, and the driver has forgotten it.
    Closed(Id, io::Error),
}

/// The address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A unix socket's path.
    Unix(std::path::PathBuf),
}

/// The sockets of one worker.
#[derive(Debug)]
pub struct Driver {
    poll: Poll,
    events: Events,
    /// By index of their id.
    conns: Vec<Option<Conn>>,
    /// Indexes of connections with events to report in this turn.
    due: VecDeque<usize>,
    /// The same for the next turn: connections that took their share of this one.
    due_next: Vec<usize>,
    buffer: Box<[u8]>,
    /// Bytes of `buffer` that one read may fill.
    read_bytes_max: usize,
    /// Bytes of `buffer` that the last [`Event::Received`] filled.
    received: usize,
    /// Clients whose connections have no id yet.
    handshakes: Handshakes,
    /// Bytes that connections with TLS hold.
    tls: Account,
    /// See [`Driver::set_busy_poll`].
    busy_poll: Duration,
}

/// One socket and its state as of the last event.
///
/// ```text
///   input    Drained ◄──► Readable ──► HungUp ──► Ended        the kernel reports more ──►   ◄── a short read
///   output   Connecting ──► Open ──► Blocked ──► Freed ──► Open
/// ```
#[derive(Debug)]
struct Conn {
    id: Id,
    socket: Socket,
    input: Input,
    output: Output,
    /// See [`Driver::pause`].
    paused: bool,
    /// See [`Driver::set_bulky`].
    bulky: bool,
    /// Listed in `due` or `due_next`.
    listed: bool,
}

/// The reading side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Nothing to read until the kernel reports otherwise.
    Drained,
    /// There may be bytes to read.
    Readable,
    /// The kernel reports that the other side has closed its sending half. Bytes may precede the end. No other edge
    /// will come.
    HungUp,
    /// The end was read and reported.
    Ended,
}

/// The writing side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// The connection was asked for and is not open yet.
    Connecting,
    /// The socket takes bytes, as far as known.
    Open,
    /// A write was short.
    Blocked,
    /// The socket takes bytes again, and [`Event::Writable`] is to be reported.
    Freed,
}

/// Limit of one read. It is large enough to make the system call cheap per byte. It is small enough to stay in the
/// second-level cache together with the output made from it.
const BUFFER_BYTES: usize = 128 * 1024;
/// The same while other connections wait for their turn. It lets others in between the requests of a client that has
/// sent thousands. It still takes a hundred requests of usual size at once.
pub const SHARE_BYTES: usize = 32 * 1024;
/// Readiness events that one call to the kernel returns. If there are more, the driver asks again.
const EVENTS_MAX: usize = 1024;
/// The token of the waker.
const WAKER: Token = Token(usize::MAX);

impl Driver {
    /// A driver without sockets.
    pub fn new() -> io::Result<Driver> {
        Ok(Driver {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_MAX),
            conns: Vec::new(),
            due: VecDeque::new(),
            due_next: Vec::new(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            read_bytes_max: BUFFER_BYTES,
            received: 0,
            handshakes: Handshakes::default(),
            tls: Account::default(),
            busy_poll: Duration::ZERO,
        })
    }

    /// Ends a [`Driver::wait`] from another thread. At most one per driver.
    pub fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    /// Waits for an event, the waker or the end of `timeout`. Does not wait while a connection has more to read.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let is_idle = self.due_next.is_empty() && self.due.is_empty() && !self.handshakes.is_due();
        let timeout = if is_idle { timeout } else { Duration::ZERO };
        self.handshakes.begin_turn();
        self.due.extend(self.due_next.drain(..));
        if !self.poll_busily(timeout)? {
            self.poll_once(timeout.saturating_sub(self.busy_poll))?;
        }
        // All events must be known before the clock is read. Each edge is reported once, so the loop ends.
        while self.take_over() == self.events.capacity() {
            self.poll_once(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Takes over the kernel's events. Returns the number of connections with events.
    fn take_over(&mut self) -> usize {
        let mut count = 0;
        for readiness in &self.events {
            count += 1;
            let Token(index) = readiness.token();
            if let Some(Some(conn)) = self.conns.get_mut(index) {
                conn.note(readiness);
                if !conn.listed {
                    conn.listed = true;
                    self.due.push_back(index);
                }
            } else {
                self.handshakes.note(readiness);
            }
        }
        count
    }

    /// Limits a read to `bytes_max` from now on, but at most to the buffer. For users that must keep bytes until a slow
    /// receiver takes them.
    pub fn set_read_bytes_max(&mut self, bytes_max: usize) {
        self.read_bytes_max = bytes_max.clamp(1, BUFFER_BYTES);
    }

    /// Makes [`Driver::wait`] poll for this time before it sleeps. To wake a sleeping thread takes 20 to 50 µs on
    /// virtual machines. A polling thread uses a whole core.
    pub fn set_busy_poll(&mut self, busy_poll: Duration) {
        self.busy_poll = busy_poll;
    }

    /// Polls for events for at most `timeout`. Returns whether there are any.
    #[expect(clippy::disallowed_methods, reason = "nothing that is decided hangs on this clock")]
    fn poll_busily(&mut self, timeout: Duration) -> io::Result<bool> {
        let length = self.busy_poll.min(timeout);
        if length.is_zero() {
            return Ok(false);
        }
        let began = Instant::now();
        loop {
            self.poll_once(Duration::ZERO)?;
            if !self.events.is_empty() {
                return Ok(true);
            }
            if began.elapsed() >= length {
                return Ok(false);
            }
            // Lets other processes on this core run first, such as nodes.
            std::thread::yield_now();
        }
    }

    fn poll_once(&mut self, timeout: Duration) -> io::Result<()> {
        let mut polled = self.poll.poll(&mut self.events, Some(timeout));
        // After a signal such as SIGCONT, the driver must see arrived bytes before it reads the clock. Bytes that wait
        // are not late.
        while matches!(&polled, Err(error) if error.kind() == ErrorKind::Interrupted) {
            polled = self.poll.poll(&mut self.events, Some(Duration::ZERO));
        }
        polled
    }

    /// Whether a connection had more to read than one turn takes.
    pub fn has_more(&self) -> bool {
        !self.due_next.is_empty()
    }

    /// Connections that had more to read than one turn takes.
    pub fn unread(&self) -> impl Iterator<Item = Id> {
        self.due_next.iter().filter_map(|&index| self.conns.get(index)?.as_ref().map(|conn| conn.id))
    }

    /// The next event of this turn.
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        while let Some(index) = self.due.pop_front() {
            let Some(Some(conn)) = self.conns.get_mut(index) else { continue };
            conn.listed = false;
            let id = conn.id;
            let is_alone = self.due.is_empty() && self.due_next.is_empty();
            let bytes_max = self.read_bytes_max;
            let bytes_max = if is_alone || conn.bulky { bytes_max } else { bytes_max.min(SHARE_BYTES) };
            match conn.advance(&mut self.buffer[..bytes_max]) {
                Advance::Nothing => {}
                Advance::Connected => {
                    self.list_now(index);
                    return Some(Event::Connected(id));
                }
                Advance::Writable => {
                    self.list_now(index);
                    return Some(Event::Writable(id));
                }
                Advance::Received { len, more } => {
                    match more {
                        More::Now => self.list_now(index),
                        More::NextTurn => {
                            conn.listed = true;
                            self.due_next.push(index);
                        }
                        More::Nothing => {}
                    }
                    self.received = len;
                    return Some(Event::Received(id, &self.buffer[..len]));
                }
                Advance::Ended => return Some(Event::Ended(id)),
                Advance::Failed(error) => {
                    self.close(id);
                    return Some(Event::Closed(id, error));
                }
            }
        }
        None
    }

    /// Puts a connection back on this turn's list.
    fn list_now(&mut self, index: usize) {
        if let Some(Some(conn)) = self.conns.get_mut(index)
            && !conn.listed
        {
            conn.listed = true;
            self.due.push_back(index);
        }
    }

    /// Takes over a socket that was accepted elsewhere as connection `id`.
    pub fn adopt(&mut self, id: Id, stream: std::net::TcpStream) -> io::Result<()> {
        self.insert(id, Socket::adopt(stream)?, Output::Open)
    }

    /// The same for one end of a pair of unix sockets.
    pub fn adopt_unix(&mut self, id: Id, stream: std::os::unix::net::UnixStream) -> io::Result<()> {
        self.insert(id, Socket::adopt_unix(stream)?, Output::Open)
    }

    /// Begins to connect to `target` as connection `id`. `Connected` or `Closed` follows, unless this fails at once.
    pub fn connect(&mut self, id: Id, target: &Target) -> io::Result<()> {
        let socket = match target {
            Target::Tcp(addr) => Socket::connect_tcp(*addr)?,
            Target::Unix(path) => Socket::connect_unix(Path::new(path))?,
        };
        self.insert(id, socket, Output::Connecting)
    }

    fn insert(&mut self, id: Id, mut socket: Socket, output: Output) -> io::Result<()> {
        let index = id.index as usize;
        self.poll.registry().register(&mut socket, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        self.place(Conn::new(id, socket, output));
        Ok(())
    }

    fn place(&mut self, conn: Conn) {
        let index = conn.id.index as usize;
        if self.conns.len() <= index {
            self.conns.resize_with(index + 1, || None);
        }
        debug_assert!(self.conns[index].is_none(), "an id is given away once its last owner was closed");
        self.conns[index] = Some(conn);
    }

    fn conn(&mut self, id: Id) -> Option<&mut Conn> {
        self.conns.get_mut(id.index as usize)?.as_mut().filter(|conn| conn.id == id)
    }

    /// Sends as many of `bytes` as the socket takes now. If it does not take all, a `Writable` follows.
    pub fn send(&mut self, id: Id, bytes: &[u8]) -> io::Result<usize> {
        self.conn(id).map_or(Ok(0), |conn| conn.send(bytes))
    }

    /// Sends the bytes of the last [`Event::Received`] to `id` without a copy, otherwise like [`Driver::send`].
    pub fn pass_on(&mut self, id: Id) -> io::Result<usize> {
        let conn = self.conns.get_mut(id.index as usize).and_then(Option::as_mut);
        let conn = conn.filter(|conn| conn.id == id);
        conn.map_or(Ok(0), |conn| conn.send(&self.buffer[..self.received]))
    }

    /// The bytes of the last [`Event::Received`].
    pub fn received(&self) -> &[u8] {
        &self.buffer[..self.received]
    }

    /// Closes the sending half of a connection.
    pub fn finish(&mut self, id: Id) {
        if let Some(conn) = self.conn(id) {
            // Fails only if the other side has gone, which the next read reports.
            let _ = conn.socket.shutdown(Shutdown::Write);
        }
    }

    /// Stops reading from a connection.
    pub fn pause(&mut self, id: Id) {
        if let Some(conn) = self.conn(id) {
            conn.paused = true;
        }
    }

    /// Resumes reading from a connection.
    pub fn resume(&mut self, id: Id) {
        if let Some(conn) = self.conn(id)
            && conn.paused
        {
            conn.paused = false;
            self.list_now(id.index as usize);
        }
    }

    /// Has unsent bytes dropped when the connection is closed. Otherwise the kernel goes on to send them for minutes.
    /// After a network failure, they could arrive after the bytes of a later connection.
    pub fn drop_unsent_on_close(&mut self, id: Id) {
        if let Some(stream) = self.conn(id).and_then(|conn| conn.socket.tcp()) {
            // Fails only for a socket that has ended and sends nothing any more.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Whether the input of `id` is little work for its size, like large values. Such input may fill the whole buffer,
    /// also while others wait. Small shares of large values are copied once more, since each share ends within a value.
    pub fn set_bulky(&mut self, id: Id, bulky: bool) {
        if let Some(conn) = self.conn(id) {
            conn.bulky = bulky;
        }
    }

    /// Whether [`Driver::release`] can return the socket of `id`: the connection is open and has no TLS.
    pub fn may_release(&self, id: Id) -> bool {
        let conn = self.conns.get(id.index as usize).and_then(Option::as_ref).filter(|conn| conn.id == id);
        conn.is_some_and(|conn| {
            conn.output != Output::Connecting && matches!(conn.socket, Socket::Tcp(_) | Socket::Unix(_))
        })
    }

    /// Gives the socket of `id` back, open. Bytes that were not read stay in it. No event of the connection follows. `None`
    /// if [`Driver::may_release`] is false.
    pub fn release(&mut self, id: Id) -> Option<Stream> {
        if !self.may_release(id) {
            return None;
        }
        let mut conn = self.conns.get_mut(id.index as usize)?.take()?;
        // Fails only for a socket that is not registered.
        let _ = self.poll.registry().deregister(&mut conn.socket);
        match conn.socket {
            Socket::Tcp(stream) => Some(Stream::Tcp(stream.into())),
            Socket::Unix(stream) => Some(Stream::Unix(stream.into())),
            Socket::Tls(_) => None,
        }
    }

    /// Takes over a socket of either kind as connection `id`.
    pub fn adopt_stream(&mut self, id: Id, stream: Stream) -> io::Result<()> {
        match stream {
            Stream::Tcp(stream) => self.adopt(id, stream),
            Stream::Unix(stream) => self.adopt_unix(id, stream),
        }
    }

    /// Closes a connection. No event of it follows.
    pub fn close(&mut self, id: Id) {
        if let Some(place) = self.conns.get_mut(id.index as usize)
            && let Some(conn) = place
            && conn.id == id
        {
            conn.socket.say_goodbye();
            // Fails only for a socket that is not registered.
            let _ = self.poll.registry().deregister(&mut conn.socket);
            *place = None;
        }
    }
}

/// The result of a step of one connection.
enum Advance {
    Nothing,
    Connected,
    Writable,
    Received { len: usize, more: More },
    Ended,
    Failed(io::Error),
}

/// Whether there is more to read.
enum More {
    Nothing,
    /// Probably the end.
    Now,
    /// The connection took its share; others come first.
    NextTurn,
}

impl Input {
    /// The state after the kernel's `readiness`.
    fn noted(self, readiness: &Readiness) -> Input {
        match self {
            Input::Ended => Input::Ended,
            _ if readiness.is_read_closed() || readiness.is_error() => Input::HungUp,
            Input::Drained if readiness.is_readable() => Input::Readable,
            same => same,
        }
    }

    /// The state after a read has emptied the socket. Later bytes cause a new edge, but not after a hang-up.
    fn drained(self) -> Input {
        if self == Input::HungUp { Input::HungUp } else { Input::Drained }
    }

    fn may_be_read(self) -> bool {
        matches!(self, Input::Readable | Input::HungUp)
    }
}

impl Output {
    /// The state after the kernel's `readiness`, if the connection waits for it.
    fn noted(self, readiness: &Readiness) -> Output {
        match self {
            Output::Blocked if readiness.is_writable() || readiness.is_error() => Output::Freed,
            same => same,
        }
    }

    /// The state after a write that was complete or short.
    fn written(self, is_all: bool) -> Output {
        match self {
            Output::Open | Output::Blocked if is_all => Output::Open,
            Output::Open | Output::Blocked => Output::Blocked,
            same => same,
        }
    }
}

impl Conn {
    fn new(id: Id, socket: Socket, output: Output) -> Conn {
        Conn { id, socket, input: Input::Drained, output, paused: false, bulky: false, listed: false }
    }

    /// See [`Driver::send`].
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = match self.socket.write(bytes) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        self.output = self.output.written(sent == bytes.len());
        Ok(sent)
    }

    /// Notes the kernel's `readiness`.
    fn note(&mut self, readiness: &Readiness) {
        self.input = self.input.noted(readiness);
        self.output = self.output.noted(readiness);
    }

    /// Takes the first step that is due.
    fn advance(&mut self, buffer: &mut [u8]) -> Advance {
        if self.output == Output::Connecting {
            return self.advance_connect();
        }
        if let Socket::Tls(_) = self.socket {
            return self.advance_tls(buffer);
        }
        if self.output == Output::Freed {
            self.output = Output::Open;
            return Advance::Writable;
        }
        if self.paused || !self.input.may_be_read() {
            return Advance::Nothing;
        }
        match self.socket.read(buffer) {
            Ok(0) => {
                self.input = Input::Ended;
                Advance::Ended
            }
            Ok(len) if len == buffer.len() => Advance::Received { len, more: More::NextTurn },
            Ok(len) => Advance::Received { len, more: self.after_short_read() },
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.input = self.input.drained();
                Advance::Nothing
            }
            Err(error) => Advance::Failed(error),
        }
    }

    /// The next step after a read that was shorter than its buffer: the socket is empty, or has only its end left.
    fn after_short_read(&mut self) -> More {
        self.input = self.input.drained();
        if self.input == Input::HungUp { More::Now } else { More::Nothing }
    }

    /// Whether the connection is open, and its handshake complete.
    fn advance_connect(&mut self) -> Advance {
        match self.socket.connected() {
            Ok(true) => {
                self.output = Output::Open;
                Advance::Connected
            }
            Ok(false) => Advance::Nothing,
            Err(error) => Advance::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests;
