//! The old process, as the new one sees it.

use super::CLIENTS_UNDER_WAY_MAX;
use super::channel::Channel;
use super::message::{self, Begin, Go, Inherited, Message, VERSION};
use driver::Stream;
use mio::Waker;
use proxy::ClientState;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The variable that names the process whose place this one takes. Then stdin is the channel.
pub(crate) const FROM: &str = "SHARDIS_UPGRADE_FROM";
/// Time in which the old process sends all sockets, or lets this one serve. It does nothing else meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
/// Listening sockets at most: each is one of the configuration.
const SOCKETS_MAX: usize = 2048;

/// Listening sockets.
pub(crate) type Sockets = Vec<(Inherited, OwnedFd)>;

/// The old process.
pub(crate) struct Predecessor {
    channel: Arc<Channel>,
    begin: Begin,
}

/// A client that arrives, and the way to answer.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The number of its listener, as the old process counts.
    pub door: usize,
    /// Its socket.
    pub stream: Stream,
    /// Its state.
    pub state: Box<ClientState>,
    /// The answer, which is due before anything is read.
    pub answer: Answer,
}

/// The answer about one client. Without any, the client is declined.
#[derive(Debug)]
pub(crate) struct Answer {
    ticket: u64,
    channel: Arc<Channel>,
    is_given: bool,
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_given {
            self.send(&Message::Declined(self.ticket, "nobody serves it".to_owned()));
        }
    }
}

impl Answer {
    /// Tells the old process that the client was taken over. If that process has ended, the client is ours as well.
    pub(crate) fn take(mut self) {
        self.send(&Message::Taken(self.ticket));
    }

    /// Tells the old process that the client stays there.
    pub(crate) fn decline(mut self, reason: &str) {
        self.send(&Message::Declined(self.ticket, reason.to_owned()));
    }

    fn send(&mut self, message: &Message) {
        self.is_given = true;
        // A process that has ended needs no answer.
        let _ = self.channel.send(&message::encode(message, b""), None);
    }
}

impl Predecessor {
    /// The old process, and its listening sockets; `None` if this is no upgrade.
    pub(crate) fn of_environment() -> Result<Option<(Predecessor, Sockets)>, String> {
        let Ok(from) = std::env::var(FROM) else { return Ok(None) };
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
        // A variable that was inherited further down is about another process.
        if parent.as_deref() != Some(&from) {
            return Ok(None);
        }
        let channel = take_stdin().map_err(|error| format!("{FROM}: {error}"))?;
        let channel = Arc::new(Channel::new(channel));
        let receive = || receive_sockets(&channel);
        let (sockets, begin) = receive()?;
        Ok(Some((Predecessor { channel, begin }, sockets)))
    }

    /// The number of nodes that the old process reaches for `service`, of which this one has `nodes` configured.
    pub(crate) fn nodes_wanted(&self, service: &str, nodes: usize) -> usize {
        let wanted =
            self.begin.nodes_up.iter().find(|(name, _)| name == service).map_or(0, |(_, count)| *count);
        wanted.min(nodes)
    }

    /// Tells the old process that clients can be served, and waits until it has stopped accepting.
    pub(crate) fn wait_to_go(&self) -> Result<Go, String> {
        let wait = || {
            self.channel.send(&message::encode(&Message::Ready, b""), None)?;
            self.channel.set_timeout(Some(PATIENCE))?;
            let frame = self.channel.receive()?;
            self.channel.set_timeout(None)?;
            io::Result::Ok(frame)
        };
        let frame = wait().map_err(|error| error.to_string())?.ok_or("the process to upgrade has ended")?;
        match message::decode(&frame.bytes)? {
            (Message::Go(go), _) => Ok(go),
            (other, _) => Err(format!("the process to upgrade sent {other:?}")),
        }
    }

    /// Receives clients from now on, on a thread of its own. Each wakes `waker`.
    pub(crate) fn receive_clients(&self, waker: &Arc<Waker>) -> io::Result<mpsc::Receiver<Arrived>> {
        let (sender, arrived) = mpsc::sync_channel(CLIENTS_UNDER_WAY_MAX);
        let (channel, waker) = (Arc::clone(&self.channel), Arc::clone(waker));
        let receive = move || {
            while let Ok(Some(frame)) = channel.receive() {
                let Some(client) = arrived_in(&channel, &frame.bytes, frame.descriptor) else { continue };
                // Without a control thread, the process is ending.
                if sender.send(client).is_err() {
                    return;
                }
                let _ = waker.wake();
            }
        };
        std::thread::Builder::new().name("upgrade".to_owned()).spawn(receive)?;
        Ok(arrived)
    }

    /// Tells the old process that this one takes no more clients.
    pub(crate) fn say_farewell(&self) {
        // It may have ended long ago.
        let _ = self.channel.send(&message::encode(&Message::Farewell, b""), None);
    }
}

/// The client in a frame. One that cannot be understood is declined.
fn arrived_in(channel: &Arc<Channel>, bytes: &[u8], socket: Option<OwnedFd>) -> Option<Arrived> {
    let (Message::Client(head), state) = message::decode(bytes).ok()? else { return None };
    let answer = Answer { ticket: head.ticket, channel: Arc::clone(channel), is_given: false };
    let stream = socket
        .ok_or("no socket came")
        .and_then(|socket| Stream::of_descriptor(socket).map_err(|_| "its socket is of another kind"));
    match (ClientState::decode(state), stream) {
        (Ok(state), Ok(stream)) => Some(Arrived { door: head.door, stream, state: Box::new(state), answer }),
        (Err(error), _) => {
            answer.decline(&error.to_string());
            None
        }
        (_, Err(reason)) => {
            answer.decline(reason);
            None
        }
    }
}

/// The socket that is stdin. In its place comes a file that is always empty.
fn take_stdin() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let socket = UnixStream::from(socket);
    socket.local_addr()?;
    Ok(socket)
}

/// The listening sockets, and the message behind them.
fn receive_sockets(channel: &Channel) -> Result<(Sockets, Begin), String> {
    channel.set_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let mut sockets = Vec::new();
    while sockets.len() < SOCKETS_MAX {
        let frame = channel
            .receive()
            .map_err(|error| error.to_string())?
            .ok_or("the process to upgrade has ended")?;
        match (message::decode(&frame.bytes)?.0, frame.descriptor) {
            (Message::Listener(inherited), Some(socket)) => sockets.push((inherited, socket)),
            (Message::Begin(begin), _) if begin.version <= VERSION => return Ok((sockets, begin)),
            (Message::Begin(Begin { version, .. }), _) => {
                return Err(format!(
                    "the process to upgrade sends messages of version {version}; this program knows {VERSION}"
                ));
            }
            (other, _) => return Err(format!("the process to upgrade sent {other:?}")),
        }
    }
    Err(format!("the process to upgrade has more than {SOCKETS_MAX} listeners"))
}
