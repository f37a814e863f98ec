//! The sockets on which clients arrive: TCP, TCP for TLS, and unix sockets, side by side.

use crate::args::listener::Place;
use crate::args::{ProxyArgs, Way};
use crate::passed::{ListeningSocket, PassedSocket, PassedSockets};
use crate::upgrade::message::Inherited;
use driver::canonical;
use gateway::Dialect;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use proxy::ReadFrom;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Clients that the kernel queues for one listener. The kernel's own bound (net.core.somaxconn) holds as well.
const BACKLOG: i32 = 4096;
/// Clients that are accepted in one go before the log and signals have their turn.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 64;
/// Pause after a failure to accept for want of a descriptor or of memory.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The result of one accept.
pub(crate) enum Next {
    /// This client.
    Newcomer(Newcomer),
    /// A client that has left already: there may be others behind it.
    Gone,
    /// No client. The listener reports the next one.
    Nobody,
    /// No client can be accepted for now, for example without a free descriptor. Try again later.
    Later(io::Error),
}

/// One of them.
pub(crate) struct Listener {
    door: Door,
    /// Treatment of clients' bytes there.
    pub mode: Mode,
    /// The way in of the configuration that it serves, by its index.
    pub way: usize,
    /// The option, and the place that was configured.
    configured: (&'static str, Place),
    /// The number of the listener in the old process, in an upgrade, and whether the file of its unix socket becomes ours.
    inherited: Option<(Option<usize>, bool)>,
}

/// Treatment of clients' bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Requests are carried to the shards of their keys.
    Redis {
        /// Whether clients speak TLS.
        is_tls: bool,
        /// The form of HTTP requests, if clients speak HTTP.
        http: Option<Dialect>,
        /// The read policy of the listener, if it has one of its own.
        read_from: Option<ReadFrom>,
    },
    /// Bytes are passed on, unread.
    Tcp,
}

/// Why there is no listener.
#[derive(Debug)]
pub(crate) enum CannotListen {
    /// The address cannot be understood, as the text says.
    Unknown(String),
    /// At this place, which the option says.
    At {
        /// The place.
        place: Place,
        /// The option.
        option: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

impl fmt::Display for CannotListen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, option, error) = match self {
            CannotListen::Unknown(text) => return out.write_str(text),
            CannotListen::At { place, option, error } => (place, option, error),
        };
        write!(out, "cannot listen on {place}: ")?;
        match (place, error.kind()) {
            (Place::Tcp(_), ErrorKind::AddrInUse) => {
                write!(out, "the port is in use; choose another with {option}")
            }
            (Place::Unix(_), ErrorKind::AddrInUse) => {
                write!(out, "the socket is in use; choose another with {option}")
            }
            (Place::Tcp(_), ErrorKind::PermissionDenied) => {
                out.write_str("not permitted; ports from 1024 on need no rights")
            }
            _ => write!(out, "{error}"),
        }
    }
}

/// Its socket.
enum Door {
    /// TCP, and where it listens.
    Tcp { socket: TcpListener, addr: SocketAddr },
    /// A unix socket. Its clients are named by the path, with `:0` as in Redis.
    Unix { socket: UnixListener, peer: Arc<str>, path: PathBuf, file: Option<SocketFile> },
}

impl Door {
    fn unix(socket: std::os::unix::net::UnixListener, path: PathBuf, file: Option<SocketFile>) -> Door {
        let peer = format!("{}:0", path.display()).into();
        Door::Unix { socket: UnixListener::from_std(socket), peer, path, file }
    }
}

/// A connection that was accepted.
pub(crate) enum Newcomer {
    /// Over TCP, with or without TLS.
    Tcp(TcpStream, SocketAddr),
    /// Over a unix socket, with the name for it.
    Unix(UnixStream, Arc<str>),
}

/// The file of a unix socket that this process made; removed with its listener.
struct SocketFile {
    path: PathBuf,
    /// Whether another process removes it.
    is_left: bool,
}

impl SocketFile {
    fn new(path: PathBuf) -> SocketFile {
        SocketFile { path, is_left: false }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.is_left {
            // Somebody may have removed it before.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.place(), self.mode)
    }
}

/// As it stands behind the place.
impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Redis { is_tls, http, read_from } => {
                let tls = is_tls.then(|| "TLS".to_owned());
                let http = http.map(|dialect| match dialect {
                    Dialect::Rest => "HTTP".to_owned(),
                    Dialect::Webdis => "HTTP as webdis".to_owned(),
                });
                let reads = read_from.as_ref().map(|from| format!("reads from {from}"));
                let words: Vec<String> = [tls, http, reads].into_iter().flatten().collect();
                if words.is_empty() { Ok(()) } else { write!(out, " ({})", words.join(", ")) }
            }
            Mode::Tcp => write!(out, " (tcp)"),
        }
    }
}

impl Listener {
    /// All at which `args` ask for requests. Sockets of `passed` take the places of their addresses.
    pub(crate) fn open_all(
        args: &ProxyArgs,
        passed: &mut PassedSockets,
    ) -> Result<Vec<Listener>, CannotListen> {
        let mut listeners: Vec<Listener> = Vec::new();
        let ways = args.ways_in().map_err(CannotListen::Unknown)?;
        for (number, Way { option, place, is_tls, http, read_from, .. }) in ways.into_iter().enumerate() {
            let first = listeners.len();
            let mode = Mode::Redis { is_tls, http, read_from };
            let sockets = passed.take(option, &place);
            match place {
                _ if !sockets.is_empty() => {
                    let way = (option, place);
                    let passed = |socket| Listener::passed(socket, way.clone(), mode);
                    listeners.extend(sockets.into_iter().map(passed));
                }
                Place::Tcp(addr) => {
                    listeners.push(Listener::tcp(addr, option, args.service.reuse_port, mode)?);
                }
                Place::Unix(path) => {
                    listeners.push(Listener::unix(&path, option, args.transport.unixsocketperm, mode)?);
                }
            }
            listeners[first..].iter_mut().for_each(|listener| listener.way = number);
        }
        Ok(listeners)
    }

    /// A listener at a socket of the service manager, which also keeps the file of a unix socket, or of the old process. `way`
    /// is the option and the configured place.
    pub(crate) fn passed(passed: PassedSocket, way: (&'static str, Place), mode: Mode) -> Listener {
        let door = match passed.socket {
            ListeningSocket::Tcp(socket, addr) => Door::Tcp { socket: TcpListener::from_std(socket), addr },
            ListeningSocket::Unix(socket, path) => Door::unix(socket, path, None),
        };
        let inherited = passed.inherited.map(|inherited| (inherited.door, inherited.has_file));
        Listener { door, mode, way: 0, configured: way, inherited }
    }

    /// One at `addr`, which `option` says.
    pub(crate) fn tcp(
        addr: SocketAddr,
        option: &'static str,
        reuse_port: bool,
        mode: Mode,
    ) -> Result<Listener, CannotListen> {
        let way = (option, Place::Tcp(addr));
        let bound = bind(addr, reuse_port).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (addr, socket) =
            bound.map_err(|error| CannotListen::At { place: Place::Tcp(addr), option, error })?;
        let door = Door::Tcp { socket: TcpListener::from_std(socket), addr };
        Ok(Listener { door, mode, way: 0, configured: way, inherited: None })
    }

    /// A listener at `path`, which `option` names, with a file of these permissions.
    fn unix(
        path: &Path,
        option: &'static str,
        permissions: Option<u32>,
        mode: Mode,
    ) -> Result<Listener, CannotListen> {
        let cannot = |error| CannotListen::At { place: Place::unix(path), option, error };
        let path = std::path::absolute(path).map_err(cannot)?;
        let socket = bind_unix(&path, permissions).map_err(cannot)?;
        let (way, file) = ((option, Place::Unix(path.clone())), SocketFile::new(path.clone()));
        Ok(Listener {
            door: Door::unix(socket, path, Some(file)),
            mode,
            way: 0,
            configured: way,
            inherited: None,
        })
    }

    /// The socket for the next process, which knows the listener by `number` and `service`.
    pub(crate) fn to_inherit(&self, number: usize, service: &str) -> io::Result<(Inherited, OwnedFd)> {
        let (socket, has_file) = match &self.door {
            Door::Tcp { socket, .. } => (socket.as_fd(), false),
            Door::Unix { socket, file, .. } => (socket.as_fd(), file.is_some()),
        };
        let (option, place) = &self.configured;
        let inherited = Inherited {
            door: Some(number),
            service: service.to_owned(),
            option: (*option).to_owned(),
            place: place.to_string(),
            has_file,
        };
        Ok((inherited, socket.try_clone_to_owned()?))
    }

    /// The number of this listener in the old process.
    pub(crate) fn former_number(&self) -> Option<usize> {
        self.inherited.and_then(|(number, _)| number)
    }

    /// Takes charge of the file of the unix socket, which the old process has left.
    pub(crate) fn take_charge(&mut self) {
        if let (Door::Unix { path, file, .. }, Some((_, true))) = (&mut self.door, self.inherited) {
            *file = Some(SocketFile::new(path.clone()));
        }
    }

    /// Leaves the file of the unix socket to the next process.
    pub(crate) fn leave_file(&mut self) {
        if let Door::Unix { file: Some(file), .. } = &mut self.door {
            file.is_left = true;
        }
    }

    /// Where it listens.
    pub(crate) fn place(&self) -> String {
        match &self.door {
            Door::Tcp { addr, .. } => addr.to_string(),
            Door::Unix { path, .. } => format!("unix:{}", path.display()),
        }
    }

    /// The TCP port that it has.
    pub(crate) fn port(&self) -> Option<u16> {
        match &self.door {
            Door::Tcp { addr, .. } => Some(addr.port()),
            Door::Unix { .. } => None,
        }
    }

    /// Lets `registry` tell of clients by `token`.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.door {
            Door::Tcp { socket, .. } => socket.register(registry, token, Interest::READABLE),
            Door::Unix { socket, .. } => socket.register(registry, token, Interest::READABLE),
        }
    }

    /// The next client.
    pub(crate) fn accept(&self) -> Next {
        match self.take_next() {
            Ok(newcomer) => Next::Newcomer(newcomer),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Next::Nobody,
                ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted => {
                    Next::Gone
                }
                _ => Next::Later(error),
            },
        }
    }

    fn take_next(&self) -> io::Result<Newcomer> {
        match &self.door {
            Door::Tcp { socket, .. } => {
                let (stream, peer) = socket.accept()?;
                Ok(Newcomer::Tcp(stream.into(), canonical(peer)))
            }
            Door::Unix { socket, peer, .. } => {
                let (stream, _) = socket.accept()?;
                Ok(Newcomer::Unix(stream.into(), Arc::clone(peer)))
            }
        }
    }
}

fn bind(addr: SocketAddr, reuse_port: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for old connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// No client can connect before the permissions are set: until it listens, all are refused (CVE-2023-45145 was the other
/// order).
fn bind_unix(path: &Path, mode: Option<u32>) -> io::Result<std::os::unix::net::UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let addr = SockAddr::unix(path)?;
    match socket.bind(&addr) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_over(path) => {
            std::fs::remove_file(path)?;
            socket.bind(&addr)?;
        }
        bound => bound?,
    }
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether `path` is the socket of a process that is gone.
fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    is_socket
        && matches!(UnixStream::connect(path), Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_socket_has_its_permissions_before_clients_connect() {
        // With the permissions set last, one of a hundred was open to all.
        const SOCKETS: usize = 400;
        let folder = std::env::temp_dir().join(format!("shardis-listeners-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the sockets");
        let path = |number: usize| folder.join(number.to_string());
        let entered = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let intruder = scope.spawn(|| {
                let found_open = |number: &usize| {
                    while UnixStream::connect(path(*number)).is_err() {}
                    let file = std::fs::metadata(path(*number));
                    entered.store(number + 1, Ordering::Release);
                    file.is_ok_and(|file| file.permissions().mode() & 0o777 != 0o700)
                };
                (0..SOCKETS).filter(found_open).count()
            });
            for number in 0..SOCKETS {
                let _socket = bind_unix(&path(number), Some(0o700)).expect("a free name");
                while entered.load(Ordering::Acquire) <= number {
                    std::thread::yield_now();
                }
            }
            assert_eq!(intruder.join().expect("it only looks"), 0, "sockets were open to all");
        });
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}
