//! Transports of a client: TCP, TLS, or a unix socket.

use super::PATIENCE;
use rustls::{ClientConnection, StreamOwned};
use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connected stream that blocks for a limited time.
pub(crate) enum Wire {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Unix(UnixStream),
}

impl Wire {
    /// Connects to the unix socket at `path`.
    pub(crate) fn unix(path: &Path) -> Wire {
        let stream = UnixStream::connect(path).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes options");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes options");
        Wire::Unix(stream)
    }

    /// The TCP socket, also below TLS.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Wire::Tcp(stream) => stream,
            Wire::Tls(stream) => &stream.sock,
            Wire::Unix(_) => panic!("a unix socket is no TCP socket"),
        }
    }

    /// Tells the other side that no more will be sent.
    pub(crate) fn finish(&mut self) {
        match self {
            Wire::Tcp(stream) => stream.shutdown(Shutdown::Write).expect("the connection is open"),
            Wire::Unix(stream) => stream.shutdown(Shutdown::Write).expect("the connection is open"),
            // The socket below stays as it is: this is TLS's own end of one direction.
            Wire::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush().expect("the connection is open");
            }
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Wire::Tcp(stream) => stream.read(buffer),
            Wire::Tls(stream) => stream.read(buffer),
            Wire::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Wire::Tcp(stream) => stream.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
            Wire::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Wire::Tcp(stream) => stream.flush(),
            Wire::Tls(stream) => stream.flush(),
            Wire::Unix(stream) => stream.flush(),
        }
    }
}
