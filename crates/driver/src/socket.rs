//! A stream socket with the options that a proxy needs: TCP, with or without TLS, or unix.

use crate::tls::TlsStream;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// A connected, or connecting, stream.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// An open socket of a client, outside of any driver.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// A unix socket.
    Unix(std::os::unix::net::UnixStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    /// The stream that `socket` is. An error for a socket of another kind.
    pub fn of_descriptor(socket: OwnedFd) -> io::Result<Stream> {
        let addr = SockRef::from(&socket).local_addr()?;
        match () {
            () if addr.is_ipv4() || addr.is_ipv6() => Ok(Stream::Tcp(socket.into())),
            () if addr.is_unix() => Ok(Stream::Unix(socket.into())),
            () => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Detects a vanished client after two minutes.
fn client_keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(20))
        .with_retries(3)
}

/// Detects a vanished node after 15 seconds. Requests in flight time out long before, but no reply is due to a blocking
/// command.
fn node_keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(5))
        .with_interval(Duration::from_secs(5))
        .with_retries(2)
}

/// The form in which `addr` is shown. Like Redis, it shows the IPv4 address of an IPv4 client at an IPv6 socket.
pub fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => {
            SocketAddr::new(addr.ip().to_canonical(), addr.port())
        }
        addr => addr,
    }
}

impl Socket {
    /// Takes over an accepted TCP socket.
    pub(crate) fn adopt(stream: std::net::TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream);
        prepare(&stream, &client_keepalive())?;
        Ok(Socket::Tcp(stream))
    }

    /// Takes over a connected unix socket.
    pub(crate) fn adopt_unix(stream: std::os::unix::net::UnixStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        Ok(Socket::Unix(UnixStream::from_std(stream)))
    }

    /// Begins to connect.
    pub(crate) fn connect_tcp(addr: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect(addr)?;
        prepare(&stream, &node_keepalive())?;
        Ok(Socket::Tcp(stream))
    }

    /// Begins to connect.
    pub(crate) fn connect_unix(path: &Path) -> io::Result<Socket> {
        Ok(Socket::Unix(UnixStream::connect(path)?))
    }

    /// Whether a writable socket is connected and its handshake complete. An error if it never will be.
    pub(crate) fn connected(&mut self) -> io::Result<bool> {
        let (error, peer) = match self {
            Socket::Tcp(stream) => (stream.take_error()?, stream.peer_addr().map(|_| ())),
            Socket::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(|_| ())),
            Socket::Tls(tls) => (tls.below().take_error()?, tls.below().peer_addr().map(|_| ())),
        };
        if let Some(error) = error {
            return Err(error);
        }
        match peer {
            Ok(()) => self.handshake(),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
            // Its reads report more than a length: `Conn::advance_tls`.
            Socket::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tls(tls) => tls.write(bytes),
        }
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        self.say_goodbye();
        match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
            Socket::Tls(tls) => tls.below().shutdown(how),
        }
    }
}

/// Has small writes leave at once: Nagle's algorithm and delayed acknowledgements together would cost 40 ms per
/// request. Also has silent peers probed.
fn prepare(stream: &TcpStream, keepalive: &TcpKeepalive) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(keepalive)
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.register(registry, token, interests),
            Socket::Unix(stream) => stream.register(registry, token, interests),
            Socket::Tls(tls) => tls.below_mut().register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.reregister(registry, token, interests),
            Socket::Unix(stream) => stream.reregister(registry, token, interests),
            Socket::Tls(tls) => tls.below_mut().reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.deregister(registry),
            Socket::Unix(stream) => stream.deregister(registry),
            Socket::Tls(tls) => tls.below_mut().deregister(registry),
        }
    }
}
