//! The thread that sends reports.

use super::{Statsd, datagrams, lines};
use crate::facts::{Facts, Subject};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;

/// Sends reports about `subject` on a thread of its own until the process ends. `note` gets the fault when sending begins to
/// fail, and `Ok` when it works again.
pub fn send_statsd(
    statsd: Statsd,
    subject: Arc<dyn Subject>,
    note: impl Fn(Result<(), &io::Error>) + Send + 'static,
) -> io::Result<()> {
    let mut sender = Sender { statsd, counts: BTreeMap::new(), socket: None, is_failing: false };
    let run = move || {
        loop {
            // tidy: allow(sleep): the interval itself is the purpose
            std::thread::sleep(sender.statsd.every);
            sender.report(&*subject, &note);
        }
    };
    std::thread::Builder::new().name("statsd".to_owned()).spawn(run)?;
    Ok(())
}

/// The thread's state.
struct Sender {
    statsd: Statsd,
    /// The counts of the last report.
    counts: BTreeMap<String, u64>,
    /// The connected socket, and its other side.
    socket: Option<(UdpSocket, SocketAddr)>,
    is_failing: bool,
}

impl Sender {
    fn report(&mut self, subject: &dyn Subject, note: impl Fn(Result<(), &io::Error>)) {
        let sent = self.send(subject);
        if sent.is_err() != self.is_failing {
            note(sent.as_ref().map(drop));
        }
        self.is_failing = sent.is_err();
    }

    /// Sends one report. The error is the last of its datagrams'.
    fn send(&mut self, subject: &dyn Subject) -> io::Result<()> {
        let addrs: Vec<SocketAddr> = self.statsd.target.to_socket_addrs()?.collect();
        let socket = match &self.socket {
            Some((socket, addr)) if addrs.contains(addr) => socket,
            _ => &self.socket.insert(connected(&addrs)?).0,
        };
        let lines = lines(&Facts::of(subject), &self.statsd.prefix, &mut self.counts);
        let mut outcome = Ok(());
        for datagram in datagrams(&lines) {
            let sent = socket.send(datagram.as_bytes());
            if let Err(error) = sent {
                // The error is the answer to an earlier datagram, and this one was not sent.
                if error.kind() == ErrorKind::ConnectionRefused {
                    let _ = socket.send(datagram.as_bytes());
                }
                outcome = Err(error);
            }
        }
        outcome
    }
}

/// A socket that is connected to the first of `addrs`. So a closed port is an error of a later datagram.
fn connected(addrs: &[SocketAddr]) -> io::Result<(UdpSocket, SocketAddr)> {
    let none = || io::Error::new(ErrorKind::NotFound, "the name has no address");
    let addr = *addrs.first().ok_or_else(none)?;
    let socket = match addr {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
    };
    socket.connect(addr)?;
    Ok((socket, addr))
}
