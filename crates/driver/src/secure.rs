//! The driver's functions for sockets with TLS, where they differ from those for plain sockets.

use crate::credentials::Connector;
use crate::handshakes::{Entry, PendingClient, Verdict};
use crate::socket::Socket;
use crate::tls::{Account, Then, TlsStream};
use crate::{Advance, Conn, Driver, Input, More, Output};
use mio::net::TcpStream;
use mio::{Interest, Token};
use rustls::Connection;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use stdx::{Id, Instant};

impl Socket {
    /// Puts TLS over a TCP socket; others stay as they are.
    pub(crate) fn secure(self, tls: Connection, account: Account) -> Socket {
        match self {
            Socket::Tcp(stream) => Socket::Tls(Box::new(TlsStream::new(stream, tls, account))),
            other => other,
        }
    }

    /// The TCP socket, also below TLS.
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Tcp(stream) => Some(stream),
            Socket::Tls(tls) => Some(tls.below()),
            Socket::Unix(_) => None,
        }
    }

    /// Continues the handshake. Returns true once it is complete, or if there is none.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        match self {
            Socket::Tls(tls) => tls.handshake(),
            Socket::Tcp(_) | Socket::Unix(_) => Ok(true),
        }
    }

    /// Whether it holds sealed bytes that the kernel did not take.
    pub(crate) fn has_sealed(&self) -> bool {
        matches!(self, Socket::Tls(tls) if tls.has_sealed())
    }

    /// Sends TLS's close_notify, so that the other side knows that nothing was cut off.
    pub(crate) fn say_goodbye(&mut self) {
        if let Socket::Tls(tls) = self {
            tls.say_goodbye();
        }
    }
}

impl Conn {
    /// Like [`Conn::advance`], for a connection with TLS after its handshake.
    pub(crate) fn advance_tls(&mut self, buffer: &mut [u8]) -> Advance {
        match self.try_advance_tls(buffer) {
            Ok(advance) => advance,
            Err(error) => Advance::Failed(error),
        }
    }

    fn try_advance_tls(&mut self, buffer: &mut [u8]) -> io::Result<Advance> {
        let Socket::Tls(tls) = &mut self.socket else { return Ok(Advance::Nothing) };
        if self.output == Output::Freed {
            self.output = if tls.flush()? { Output::Open } else { Output::Blocked };
            if self.output == Output::Open {
                return Ok(Advance::Writable);
            }
        }
        if self.paused || !self.input.may_be_read() {
            return Ok(Advance::Nothing);
        }
        let progress = tls.read(buffer)?;
        // TLS may have bytes of its own to send, even if the user sends nothing.
        if tls.has_sealed() {
            self.output = Output::Blocked;
        }
        let more = match progress.then {
            Then::More => More::NextTurn,
            Then::End => More::Now,
            Then::Wait => self.after_short_read(),
        };
        Ok(match progress.len {
            0 if progress.then == Then::End => {
                self.input = Input::Ended;
                Advance::Ended
            }
            0 => Advance::Nothing,
            len => Advance::Received { len, more },
        })
    }
}

impl Driver {
    /// Like [`Driver::connect`], to a node with TLS and a certificate for `name`. `Connected` comes after the
    /// handshake.
    pub fn connect_tls(
        &mut self,
        id: Id,
        addr: SocketAddr,
        connector: &Connector,
        name: &str,
    ) -> io::Result<()> {
        let tls = connector.begin(name)?;
        self.insert(id, Socket::connect_tcp(addr)?.secure(tls, self.tls.another()), Output::Connecting)
    }

    /// Takes over an accepted client, which must meet the requirements of `entry` until `deadline`.
    /// [`Driver::poll_pending_client`] reports the result.
    pub fn receive(
        &mut self,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        entry: &Entry,
        deadline: Instant,
    ) -> io::Result<()> {
        self.handshakes.receive(self.poll.registry(), stream, peer, entry, deadline, self.tls.another())
    }

    /// Bytes that connections with TLS hold here, without those that their users hold.
    pub fn held_bytes(&self) -> usize {
        self.tls.total()
    }

    /// The number of a connection's socket, if it has one.
    pub fn descriptor(&self, id: Id) -> Option<i32> {
        let conn = self.conns.get(id.index as usize)?.as_ref().filter(|conn| conn.id == id)?;
        conn.socket.tcp().map(AsRawFd::as_raw_fd)
    }

    /// The number of pending clients.
    pub fn pending_clients(&self) -> usize {
        self.handshakes.len()
    }

    /// The latest instant for the next call of [`Driver::poll_pending_client`].
    pub fn pending_clients_deadline(&self) -> Instant {
        self.handshakes.deadline()
    }

    /// The next pending client that is complete or refused. Each turn has a limit of work, so that pending clients do
    /// not delay the others.
    pub fn poll_pending_client(&mut self, now: Instant) -> Option<Verdict> {
        self.handshakes.poll(self.poll.registry(), now)
    }

    /// Closes the client that has waited longest, to make room for another.
    pub fn refuse_oldest_pending_client(&mut self, reason: &str) -> Option<Verdict> {
        self.handshakes.refuse_oldest(self.poll.registry(), reason)
    }

    /// Takes over a complete client as connection `id`.
    pub fn admit(&mut self, id: Id, mut pending_client: PendingClient) -> io::Result<()> {
        let token = Token(id.index as usize);
        self.poll.registry().reregister(
            &mut pending_client.socket,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let mut conn = Conn::new(id, pending_client.socket, Output::Open);
        // Bytes after the handshake may already be here, and the kernel will not report them.
        conn.input = Input::Readable;
        self.place(conn);
        self.list_now(id.index as usize);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
