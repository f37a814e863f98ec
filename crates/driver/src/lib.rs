//! The event loop: sockets and readiness (epoll on Linux, kqueue on macOS and the BSDs, through mio) behind one small interface.
//!
//! ```text
//!     epoll, kqueue ─► Driver::wait ─► next_event ─► Event::Received(id, bytes)      send, close ─► sockets
//!                           │
//!                           └─► handshakes: clients that still have to show a PROXY header or shake hands (TLS)
//! ```
//!
//! Begin with [`Driver`] and its [`Event`]s. A turn of its user is: [`Driver::wait`], then [`Driver::next_event`] until there is
//! none, then sends and closes.
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
//! Sockets are registered once, edge-triggered, for both directions: no call to change an interest is ever made. The driver reads
//! each readable connection once per turn, up to the size of the one shared buffer, or to a share of it while others have something
//! as well. A connection that had more waits in a list for the next turn, behind the others.
//!
//! **TLS and PROXY headers.** The core knows neither. A client of a listener with one of them is a pending client
//! (`handshakes.rs`) until it has shown its header (`header.rs`) and shaken hands (`tls.rs`). Then it gets its connection's id, and
//! its bytes are those below TLS. Towards a node, `Connected` is told after the handshake. rustls holds no socket, and `tls.rs` none
//! in its tests: they deliver byte by byte. `credentials.rs` makes certificates of PEM; `crates/shardis/src/transport.rs` reads the
//! files. Only bytes that left in whole records count as sent. So what the core believes not to have reached a node has not, and a
//! connection that is closed when all was sent has lost nothing.
//!
//! **Must not know** Redis. Its only dependency of ours is `stdx`. It is the crate in which sockets live: it relaxes the lint of the
//! root's `clippy.toml` that forbids them elsewhere.

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
pub use socket::canonical;

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
    /// A connection that was asked for is there.
    Connected(Id),
    /// Bytes arrived; they are valid until the next call.
    Received(Id, &'a [u8]),
    /// A connection that took less than it was offered takes bytes again.
    Writable(Id),
    /// The other side will send no more.
    Ended(Id),
    /// The connection is gone; it is forgotten here.
    Closed(Id, io::Error),
}

/// Where to connect.
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
    /// By the index of their id.
    conns: Vec<Option<Conn>>,
    /// Indices of connections that something is to be told of in this turn.
    due: VecDeque<usize>,
    /// The same for the next turn: they took as much as they may in this one.
    due_next: Vec<usize>,
    buffer: Box<[u8]>,
    /// Bytes of it that one read may fill.
    read_bytes_max: usize,
    /// How much of it the last [`Event::Received`] filled.
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
///   input    Drained ◄──► Readable ──► HungUp ──► Ended        the kernel says more ──►   ◄── a short read
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
    /// There is nothing to read until the kernel says otherwise.
    Drained,
    /// There may be something.
    Readable,
    /// The other side is done sending, as the kernel says. There may be bytes before the end. No other edge will come.
    HungUp,
    /// The end was read and told.
    Ended,
}

/// The writing side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// The connection was asked for, and is not there yet.
    Connecting,
    /// Bytes are taken, as far as is known.
    Open,
    /// A write came back short.
    Blocked,
    /// Bytes are taken again after that, and [`Event::Writable`] is still to be told.
    Freed,
}

/// Limit of one read: large enough to make the system call cheap per byte, small enough to stay in the second-level
/// cache together with the output made from it.
const BUFFER_BYTES: usize = 128 * 1024;
/// The same while other connections wait for their turn: so that a client that has sent thousands of requests lets the
/// others in between, and still enough for a hundred requests of usual size at once.
pub const SHARE_BYTES: usize = 32 * 1024;
/// Readiness that one call to the kernel tells; with more, it is asked again.
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

    /// Waits until something happens, somebody wakes us, or `timeout` is over. Does not wait while a connection has
    /// more to read.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let is_idle = self.due_next.is_empty() && self.due.is_empty() && !self.handshakes.is_due();
        let timeout = if is_idle { timeout } else { Duration::ZERO };
        self.handshakes.begin_turn();
        self.due.extend(self.due_next.drain(..));
        if !self.poll_busily(timeout)? {
            self.poll_once(timeout.saturating_sub(self.busy_poll))?;
        }
        // All that has happened must be known before anybody looks at the clock. Each edge is told once: this ends.
        while self.take_over() == self.events.capacity() {
            self.poll_once(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Takes over what the kernel has told, for how many connections that is returned.
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

    /// Limits a read to `bytes_max` from now on, or to the buffer. For users that must keep bytes which their targets
    /// do not take.
    pub fn set_read_bytes_max(&mut self, bytes_max: usize) {
        self.read_bytes_max = bytes_max.clamp(1, BUFFER_BYTES);
    }

    /// Makes [`Driver::wait`] poll for this time before it sleeps. A sleeping thread must be woken, which takes 20 to
    /// 50 µs on virtual machines; a polling one takes a core.
    pub fn set_busy_poll(&mut self, busy_poll: Duration) {
        self.busy_poll = busy_poll;
    }

    /// Looks for events again and again, for no longer than `timeout`. Returns whether there are any.
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
            // Other processes on this core, such as nodes, go first.
            std::thread::yield_now();
        }
    }

    fn poll_once(&mut self, timeout: Duration) -> io::Result<()> {
        let mut polled = self.poll.poll(&mut self.events, Some(timeout));
        // After a signal (such as SIGCONT), arrived bytes must be known before the clock is read: bytes that wait are
        // not late.
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

    /// The next thing that happened in this turn.
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

    /// Puts a connection back into this turn's list.
    fn list_now(&mut self, index: usize) {
        if let Some(Some(conn)) = self.conns.get_mut(index)
            && !conn.listed
        {
            conn.listed = true;
            self.due.push_back(index);
        }
    }

    /// Takes over a socket that was accepted elsewhere and calls it `id`.
    pub fn adopt(&mut self, id: Id, stream: std::net::TcpStream) -> io::Result<()> {
        self.insert(id, Socket::adopt(stream)?, Output::Open)
    }

    /// The same for one end of a pair of unix sockets.
    pub fn adopt_unix(&mut self, id: Id, stream: std::os::unix::net::UnixStream) -> io::Result<()> {
        self.insert(id, Socket::adopt_unix(stream)?, Output::Open)
    }

    /// Begins to connect to `target` and calls the connection `id`. `Connected` or `Closed` follows, unless this
    /// fails at once.
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

    /// Sends as many of `bytes` as the socket takes now. After less than all, a `Writable` follows in time.
    pub fn send(&mut self, id: Id, bytes: &[u8]) -> io::Result<usize> {
        self.conn(id).map_or(Ok(0), |conn| conn.send(bytes))
    }

    /// Sends what the last [`Event::Received`] brought to `id`, from where it is; otherwise as [`Driver::send`].
    pub fn pass_on(&mut self, id: Id) -> io::Result<usize> {
        let conn = self.conns.get_mut(id.index as usize).and_then(Option::as_mut);
        let conn = conn.filter(|conn| conn.id == id);
        conn.map_or(Ok(0), |conn| conn.send(&self.buffer[..self.received]))
    }

    /// The bytes of the last [`Event::Received`].
    pub fn received(&self) -> &[u8] {
        &self.buffer[..self.received]
    }

    /// Tells the other side that nothing more will come.
    pub fn finish(&mut self, id: Id) {
        if let Some(conn) = self.conn(id) {
            // Fails only if the other side has gone, which the next read tells.
            let _ = conn.socket.shutdown(Shutdown::Write);
        }
    }

    /// Stops reading from a connection.
    pub fn pause(&mut self, id: Id) {
        if let Some(conn) = self.conn(id) {
            conn.paused = true;
        }
    }

    /// Reads again.
    pub fn resume(&mut self, id: Id) {
        if let Some(conn) = self.conn(id)
            && conn.paused
        {
            conn.paused = false;
            self.list_now(id.index as usize);
        }
    }

    /// Drops unsent bytes when the connection is closed. Else the kernel goes on to send them for minutes: after the
    /// bytes of a later connection, if the network was down meanwhile.
    pub fn drop_unsent_on_close(&mut self, id: Id) {
        if let Some(stream) = self.conn(id).and_then(|conn| conn.socket.tcp()) {
            // Fails only for a socket that has ended, which sends nothing any more.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Whether what `id` brings is little work for its size, as large values are: then it may fill the whole buffer, also
    /// while others wait. Small shares of large values are copied once more, since each ends within a value.
    pub fn set_bulky(&mut self, id: Id, bulky: bool) {
        if let Some(conn) = self.conn(id) {
            conn.bulky = bulky;
        }
    }

    /// Closes a connection; nothing more is told of it.
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

/// The result of a look at one connection.
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
    /// The end, most likely.
    Now,
    /// It took as much as it may; others come first.
    NextTurn,
}

impl Input {
    /// Takes over what the kernel says.
    fn noted(self, readiness: &Readiness) -> Input {
        match self {
            Input::Ended => Input::Ended,
            _ if readiness.is_read_closed() || readiness.is_error() => Input::HungUp,
            Input::Drained if readiness.is_readable() => Input::Readable,
            same => same,
        }
    }

    /// A read has emptied the socket. Later bytes cause a new edge, but not behind a hang-up.
    fn drained(self) -> Input {
        if self == Input::HungUp { Input::HungUp } else { Input::Drained }
    }

    fn may_be_read(self) -> bool {
        matches!(self, Input::Readable | Input::HungUp)
    }
}

impl Output {
    /// Takes over what the kernel says, if the connection waits for it.
    fn noted(self, readiness: &Readiness) -> Output {
        match self {
            Output::Blocked if readiness.is_writable() || readiness.is_error() => Output::Freed,
            same => same,
        }
    }

    /// A write took all that it was given, or less.
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

    /// Takes over what the kernel says.
    fn note(&mut self, readiness: &Readiness) {
        self.input = self.input.noted(readiness);
        self.output = self.output.noted(readiness);
    }

    /// Does the one thing that is due first.
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

    /// The socket had less than was asked for: it is empty, or has only its end left.
    fn after_short_read(&mut self) -> More {
        self.input = self.input.drained();
        if self.input == Input::HungUp { More::Now } else { More::Nothing }
    }

    /// Whether the connection was made, or its handshake has come to its end.
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
