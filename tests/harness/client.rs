//! A blocking RESP2 client that returns raw bytes: exactly the received ones, or how the connection ended.

use super::wire::Wire;
use super::{PATIENCE, kernel, poll_for, poll_until, show};
use resp::reply::{ReplyError, ReplyLimits, Scanner};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One connection to a proxy or a node.
pub(crate) struct Client {
    wire: Wire,
    /// Bytes behind the last reply.
    unread: Vec<u8>,
    scanner: Scanner,
}

/// Why there is no reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The other side closed in order, after this number of bytes of an unfinished reply.
    Closed { partial: usize },
    /// The connection was reset.
    Reset,
    /// Nothing for as long as a test waits.
    Timeout,
    /// The received bytes are no RESP.
    NotResp(ReplyError),
}

impl Client {
    /// Connects to `port` on the loopback.
    #[track_caller]
    pub(crate) fn connect(port: u16) -> Client {
        poll_until("a connection", || Client::try_connect(port))
    }

    /// Connects, unless it is refused.
    pub(crate) fn try_connect(port: u16) -> Option<Client> {
        Some(Client::of_stream(TcpStream::connect(("127.0.0.1", port)).ok()?))
    }

    /// Speaks over `stream`.
    pub(crate) fn of_stream(stream: TcpStream) -> Client {
        stream.set_nodelay(true).expect("a socket takes options");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes options");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes options");
        Client::over(Wire::Tcp(stream))
    }

    /// Speaks over `wire`, which is connected.
    pub(crate) fn over(wire: Wire) -> Client {
        Client { wire, unread: Vec::new(), scanner: Scanner::default() }
    }

    /// Its transport, with nothing read ahead.
    pub(crate) fn into_wire(self) -> Wire {
        assert!(self.unread.is_empty(), "what was read is not on the wire any more");
        self.wire
    }

    /// Time after which a read is a [`ReadError::Timeout`].
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.stream().set_read_timeout(Some(patience)).expect("a socket takes options");
    }

    /// The socket itself, for a second thread that writes, or for options.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.wire.tcp()
    }

    /// Writes all of `bytes`; the other side must take them.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.wire.write_all(bytes).expect("the other side takes what we send");
    }

    /// Writes `bytes` if the other side still takes them. For input behind which the connection may end.
    pub(crate) fn send_if_open(&mut self, bytes: &[u8]) {
        let _ = self.wire.write_all(bytes);
    }

    /// Waits until the other side has read all sent bytes (or is gone), so that the next bytes arrive apart from them.
    pub(crate) fn wait_until_read(&self) {
        let (Ok(local), Ok(peer)) = (self.stream().local_addr(), self.stream().peer_addr()) else { return };
        // Bounded: a server that leaves bytes unread is not this function's concern.
        poll_for(Duration::from_secs(2), || {
            (kernel::unread_bytes(peer.port(), local.port()) == 0).then_some(())
        });
    }

    /// Writes one request.
    #[track_caller]
    pub(crate) fn send_command(&mut self, args: &[&[u8]]) {
        self.send(&request(args));
    }

    /// Reads one reply, as its wire bytes.
    pub(crate) fn try_read_reply(&mut self) -> Result<Vec<u8>, ReadError> {
        loop {
            if !self.unread.is_empty() {
                match self.scanner.scan(&self.unread, &ReplyLimits::default()) {
                    Ok(Some(len)) => {
                        let rest = self.unread.split_off(len);
                        return Ok(std::mem::replace(&mut self.unread, rest));
                    }
                    Ok(None) => {}
                    Err(error) => return Err(ReadError::NotResp(error)),
                }
            }
            if self.read_some()? == 0 {
                return Err(ReadError::Closed { partial: self.unread.len() });
            }
        }
    }

    /// Reads one reply, as its wire bytes; there must be one.
    #[track_caller]
    pub(crate) fn read_reply(&mut self) -> Vec<u8> {
        match self.try_read_reply() {
            Ok(reply) => reply,
            Err(error) => panic!("no reply: {error:?}; unread: {}", show(&self.unread)),
        }
    }

    /// Sends one request and reads its reply.
    #[track_caller]
    pub(crate) fn command(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.send_command(args);
        self.read_reply()
    }

    /// Sends a request of words, and returns the reply as text with escapes: `+OK\r\n`.
    #[track_caller]
    pub(crate) fn ask(&mut self, words: &str) -> String {
        let args: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
        self.command(&args).escape_ascii().to_string()
    }

    /// Like [`Client::command`] where the connection may end instead.
    pub(crate) fn try_command(&mut self, args: &[&[u8]]) -> Result<Vec<u8>, ReadError> {
        self.wire.write_all(&request(args)).map_err(|_| ReadError::Reset)?;
        self.try_read_reply()
    }

    /// Checks that the other side closes in order, without further bytes.
    #[track_caller]
    pub(crate) fn expect_eof(&mut self) {
        match self.try_read_reply() {
            Err(ReadError::Closed { partial: 0 }) => {}
            Ok(reply) => panic!("expected the end of the connection, got {}", show(&reply)),
            Err(error) => panic!("expected the end of the connection, got {error:?}, {}", show(&self.unread)),
        }
    }

    /// All bytes until the connection ends, and how it ended.
    pub(crate) fn read_to_end(&mut self) -> (Vec<u8>, ReadError) {
        loop {
            match self.read_some() {
                Ok(0) => return (std::mem::take(&mut self.unread), ReadError::Closed { partial: 0 }),
                Ok(_) => {}
                Err(error) => return (std::mem::take(&mut self.unread), error),
            }
        }
    }

    /// All bytes before `marker`, or up to the connection's end.
    pub(crate) fn read_until(&mut self, marker: &[u8]) -> (Vec<u8>, Ended) {
        loop {
            if let Some(at) = self.unread.windows(marker.len()).position(|window| window == marker) {
                let rest = self.unread.split_off(at + marker.len());
                let mut before = std::mem::replace(&mut self.unread, rest);
                before.truncate(at);
                return (before, Ended::Marker);
            }
            match self.read_some() {
                Ok(1..) => {}
                Ok(0) => return (std::mem::take(&mut self.unread), Ended::Closed),
                Err(ReadError::Timeout) => return (std::mem::take(&mut self.unread), Ended::Silent),
                Err(_) => return (std::mem::take(&mut self.unread), Ended::Reset),
            }
        }
    }

    /// Tells the other side that no more will be sent.
    pub(crate) fn finish_sending(&mut self) {
        self.wire.finish();
    }

    /// Ends the connection with RST instead of FIN, as after a crashed machine or a killed container.
    pub(crate) fn reset(self) {
        let socket = socket2::SockRef::from(self.stream());
        socket.set_linger(Some(Duration::ZERO)).expect("a socket takes options");
    }

    fn read_some(&mut self) -> Result<usize, ReadError> {
        let mut chunk = [0; 64 * 1024];
        loop {
            match self.wire.read(&mut chunk) {
                Ok(count) => {
                    self.unread.extend_from_slice(&chunk[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(ReadError::Timeout);
                }
                Err(_) => return Err(ReadError::Reset),
            }
        }
    }
}

/// End of a read up to a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The marker came.
    Marker,
    /// The connection was closed in order.
    Closed,
    /// The connection was reset.
    Reset,
    /// Neither came.
    Silent,
}

/// One request in RESP form.
pub(crate) fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode::request(&mut bytes, args);
    bytes
}

/// `body` as a bulk reply.
pub(crate) fn bulk(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode::bulk(&mut bytes, body);
    bytes
}
