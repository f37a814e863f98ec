//! Sockets that the service manager passes: systemd's socket activation (`LISTEN_FDS`, `LISTEN_FDNAMES`).
//!
//! A passed socket takes the place of a listener's address. Its name says which: `port`, `tls-port`, `unixsocket` or `admin`,
//! as `FileDescriptorName=` of the socket unit gives it. Several sockets may have one name. A socket with another name goes to the
//! listener that is configured for its address. A socket that no listener takes is an error: its clients would wait forever.
//!
//! In an upgrade, the old process passes its sockets (`upgrade.rs`). Each goes to the listener of the same service, option and
//! place. One that the configuration does not have any more is closed.

use crate::args::listener::Place;
use crate::upgrade::message::Inherited;
use listenfd::ListenFd;
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use tracing::info;

/// More sockets than this are a mistake: each is a listener.
const SOCKETS_MAX: usize = 1024;

/// Sockets that no listener has taken yet.
#[derive(Debug, Default)]
pub(crate) struct PassedSockets {
    sockets: Vec<PassedSocket>,
    /// The service whose listeners are opened; see [`Inherited::service`].
    service: String,
}

/// A listening socket, its name, and its address.
#[derive(Debug)]
pub(crate) struct PassedSocket {
    name: String,
    /// Its listener in the old process, in an upgrade.
    pub inherited: Option<Inherited>,
    /// The socket, which does not block.
    pub socket: ListeningSocket,
}

/// A socket of either kind, with the address at which it listens.
#[derive(Debug)]
pub(crate) enum ListeningSocket {
    /// TCP.
    Tcp(TcpListener, SocketAddr),
    /// A unix socket.
    Unix(UnixListener, PathBuf),
}

impl PassedSockets {
    /// Takes over the sockets that the environment announces. No other thread may run yet, since the announcement is removed
    /// from the environment.
    pub(crate) fn from_environment() -> Result<PassedSockets, String> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let announced = std::env::var("LISTEN_FDS").ok().and_then(|count| count.parse().ok());
        if announced.is_some_and(|count: usize| count > SOCKETS_MAX) {
            return Err(format!("LISTEN_FDS: at most {SOCKETS_MAX} sockets can be passed"));
        }
        let mut passed = ListenFd::from_env();
        let names: Vec<&str> = names.split(':').collect();
        let sockets = (0..passed.len()).map(|number| {
            let name = names.get(number).copied().unwrap_or_default();
            PassedSocket::take_over(&mut passed, number, name).map_err(|error| {
                format!("socket {number} of those passed by LISTEN_FDS (name {name:?}): {error}")
            })
        });
        Ok(PassedSockets { sockets: sockets.collect::<Result<_, _>>()?, service: String::new() })
    }

    /// The `sockets` of the old process.
    pub(crate) fn inherited(sockets: Vec<(Inherited, OwnedFd)>) -> Result<PassedSockets, String> {
        let sockets = sockets.into_iter().map(|(inherited, socket)| {
            let socket = ListeningSocket::of_descriptor(socket)
                .map_err(|error| format!("{} {}: {error}", inherited.option, inherited.place))?;
            Ok(PassedSocket { name: String::new(), inherited: Some(inherited), socket })
        });
        Ok(PassedSockets { sockets: sockets.collect::<Result<_, String>>()?, service: String::new() })
    }

    /// Notes that listeners of `service` are opened next.
    pub(crate) fn begin(&mut self, service: &str) {
        service.clone_into(&mut self.service);
    }

    /// The sockets for the listener that `option` puts at `place`; none if it is to be opened as configured.
    pub(crate) fn take(&mut self, option: &str, place: &Place) -> Vec<PassedSocket> {
        let service = &self.service;
        let is_upgrade = self.sockets.iter().any(|socket| socket.inherited.is_some());
        let is_free_port = matches!(place, Place::Tcp(addr) if addr.port() == 0);
        // Each listener with port 0 has a port of its own.
        let count_max = if is_upgrade && is_free_port { 1 } else { usize::MAX };
        self.sockets.extract_if(.., |socket| socket.is_for(service, option, place)).take(count_max).collect()
    }

    /// Refuses sockets that no listener has taken, or closes those of an old process.
    pub(crate) fn check_all_taken(&mut self) -> Result<(), String> {
        match self.sockets.first() {
            None => Ok(()),
            Some(PassedSocket { inherited: Some(_), .. }) => {
                for PassedSocket { socket, .. } in self.sockets.drain(..) {
                    let address = socket.place().to_string();
                    info!(address, reason = "the configuration has it no more", "listener closed");
                }
                Ok(())
            }
            Some(PassedSocket { name, socket, .. }) => Err(format!(
                "the passed socket {} (name {name:?}) is that of no listener; in its unit write \
                 FileDescriptorName=port (or tls-port, unixsocket, admin), or configure a listener at its address",
                socket.place()
            )),
        }
    }
}

impl PassedSocket {
    fn take_over(passed: &mut ListenFd, number: usize, name: &str) -> io::Result<PassedSocket> {
        let invalid = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
        let socket = match passed.take_unix_listener(number) {
            Ok(Some(socket)) => {
                socket.set_nonblocking(true)?;
                let addr = socket.local_addr()?;
                let path = addr.as_pathname().ok_or_else(|| invalid("a unix socket without a path"))?;
                let path = path.to_owned();
                ListeningSocket::Unix(socket, path)
            }
            _ => {
                let socket = passed.take_tcp_listener(number)?;
                let socket = socket.ok_or_else(|| invalid("the socket was taken before"))?;
                socket.set_nonblocking(true)?;
                let addr = socket.local_addr()?;
                ListeningSocket::Tcp(socket, addr)
            }
        };
        if !socket.is_listening()? {
            return Err(invalid("the socket does not listen; write ListenStream= and Accept=no"));
        }
        Ok(PassedSocket { name: name.to_owned(), inherited: None, socket })
    }

    fn is_for(&self, service: &str, option: &str, place: &Place) -> bool {
        if let Some(inherited) = &self.inherited {
            let Inherited { service: own, option: its, place: at, .. } = inherited;
            return own == service && its == option && *at == place.to_string();
        }
        let is_named = option.strip_prefix("--") == Some(self.name.as_str()) && NAMES.contains(&&*self.name);
        let own = self.socket.place();
        let is_of_kind =
            matches!((&own, place), (Place::Tcp(_), Place::Tcp(_)) | (Place::Unix(_), Place::Unix(_)));
        is_of_kind && (is_named || !NAMES.contains(&&*self.name) && own.is_same(place))
    }
}

/// Options whose listener a name can mean.
const NAMES: [&str; 4] = ["port", "tls-port", "unixsocket", "admin"];

impl ListeningSocket {
    /// The listening socket that `socket` is.
    fn of_descriptor(socket: OwnedFd) -> io::Result<ListeningSocket> {
        let addr = SockRef::from(&socket).local_addr()?;
        match (addr.as_socket(), addr.as_pathname()) {
            (Some(addr), _) => Ok(ListeningSocket::Tcp(socket.into(), addr)),
            (None, Some(path)) => Ok(ListeningSocket::Unix(socket.into(), path.to_owned())),
            (None, None) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The address at which it listens.
    pub(crate) fn place(&self) -> Place {
        match self {
            ListeningSocket::Tcp(_, addr) => Place::Tcp(*addr),
            ListeningSocket::Unix(_, path) => Place::unix(path),
        }
    }

    fn is_listening(&self) -> io::Result<bool> {
        match self {
            ListeningSocket::Tcp(socket, _) => SockRef::from(socket).is_listener(),
            ListeningSocket::Unix(socket, _) => SockRef::from(socket).is_listener(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(name: &str) -> PassedSocket {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = socket.local_addr().expect("it listens");
        PassedSocket { name: name.to_owned(), inherited: None, socket: ListeningSocket::Tcp(socket, addr) }
    }

    fn of(sockets: Vec<PassedSocket>) -> PassedSockets {
        PassedSockets { sockets, service: String::new() }
    }

    fn place(text: &str) -> Place {
        Place::Tcp(text.parse().expect("an address"))
    }

    #[test]
    fn a_named_socket_replaces_the_address_of_its_option() {
        let mut sockets = of(vec![passed("port"), passed("tls-port"), passed("port")]);
        let configured = place("10.0.0.1:6380");
        assert_eq!(sockets.take("--port", &configured).len(), 2);
        assert!(sockets.take("--port", &configured).is_empty(), "each socket has one listener");
        assert!(sockets.check_all_taken().is_err_and(|error| error.contains("(name \"tls-port\")")));
        assert_eq!(sockets.take("--tls-port", &configured).len(), 1);
        assert_eq!(sockets.check_all_taken(), Ok(()));
    }

    #[test]
    fn a_socket_with_another_name_needs_the_address_of_a_listener() {
        let socket = passed("shardis.socket");
        let own = socket.socket.place();
        let mut sockets = of(vec![socket]);
        assert!(sockets.take("--port", &place("127.0.0.1:0")).is_empty());
        assert!(sockets.take("--unixsocket", &Place::Unix("/run/a.sock".into())).is_empty());
        assert_eq!(sockets.take("--listener", &own).len(), 1);
    }

    #[test]
    fn a_socket_of_another_kind_is_not_taken_by_name() {
        let mut sockets = of(vec![passed("unixsocket")]);
        assert!(sockets.take("--unixsocket", &Place::Unix("/run/a.sock".into())).is_empty());
        assert!(sockets.check_all_taken().is_err());
    }

    #[test]
    fn an_inherited_socket_goes_to_the_same_listener_of_its_service() {
        let inherited = |service: &str, option: &str, place: &str| {
            let inherited = Inherited {
                door: Some(0),
                service: service.to_owned(),
                option: option.to_owned(),
                place: place.to_owned(),
                has_file: false,
            };
            PassedSocket { inherited: Some(inherited), ..passed("") }
        };
        let free = "127.0.0.1:0";
        let mut sockets = of(vec![
            inherited("a", "--port", free),
            inherited("b", "--port", free),
            inherited("b", "--listener", free),
            inherited("b", "--listener", free),
            inherited("b", "--port", "127.0.0.1:7000"),
        ]);
        sockets.begin("b");
        assert_eq!(sockets.take("--port", &place(free)).len(), 1);
        assert!(sockets.take("--port", &place(free)).is_empty(), "the other is that of another service");
        assert_eq!(sockets.take("--listener", &place(free)).len(), 1, "each has a port of its own");
        assert_eq!(sockets.take("--listener", &place(free)).len(), 1);
        assert!(sockets.take("--port", &place("127.0.0.1:7001")).is_empty());
        assert_eq!((sockets.check_all_taken(), sockets.sockets.len()), (Ok(()), 0), "two are closed");
    }
}
