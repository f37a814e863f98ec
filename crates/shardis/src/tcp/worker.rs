//! One worker: a thread, a driver, a core, and the loop in which they meet.

use super::targets::{Addresses, Targets};
use crate::dial::{Dials, Next};
use crate::resolver::Question;
use crate::team::Signs;
use crate::worker::{Clock, reason};
use ::tcp::Nodes;
use ::tcp::{Action, Core, Notice};
use driver::{Driver, Entry, Event, HeaderVersion, PendingClient, Target, Verdict, Waker, header};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use stdx::{Id, Instant};

/// A message of the control thread to a worker.
pub(super) enum Message {
    /// A client was accepted for it.
    Accept { stream: TcpStream, peer: SocketAddr },
    /// Stop when all clients have left.
    Drain,
}

/// Where messages for one worker go.
pub(super) struct Mailbox {
    sender: mpsc::Sender<Message>,
    waker: Waker,
}

impl Mailbox {
    /// Delivers `message` and wakes the worker. A worker that has stopped gets no messages.
    pub(super) fn send(&self, message: Message) {
        if self.sender.send(message).is_ok() {
            // Fails only if the descriptor is gone, and with it the worker.
            let _ = self.waker.wake();
        }
    }
}

/// State that all workers share.
#[derive(Clone)]
pub(super) struct Shared {
    /// Locked when a client comes or leaves, never for its bytes.
    pub(super) nodes: Arc<Mutex<Nodes>>,
    /// Where they are.
    pub(super) targets: Targets,
    /// Names are looked up there.
    pub(super) resolver: mpsc::Sender<Question>,
    pub(super) clock: Clock,
    /// Whether clients begin with a PROXY header.
    pub(super) proxy_protocol: bool,
    /// The PROXY header for nodes.
    pub(super) send_proxy: Option<HeaderVersion>,
    /// Notices that do not fit are dropped.
    pub(super) log: mpsc::SyncSender<Notice>,
}

/// One worker.
pub(super) struct Worker {
    core: Core,
    driver: Driver,
    shared: Shared,
    inbox: mpsc::Receiver<Message>,
    /// The control thread sees it by these.
    signs: Signs,
    /// Clients that never got past their PROXY header.
    pending_clients_gone: usize,
    draining: bool,
    /// Connections that are being made to a name.
    dials: Dials<()>,
}

/// Limit of one read, and so of the bytes kept for one direction of one client. System calls are cheap beside this
/// size, and ten thousand clients that do not read cost 640 MB.
pub(super) const READ_BYTES_MAX: usize = 64 * 1024;
/// The longest sleep: nothing depends on it, it only bounds the cost of a lost wake-up.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Timeout of a client's PROXY header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

impl Worker {
    /// A worker that is ready to run and looks for events for `busy_poll` before it sleeps, and the address for its mail.
    pub(super) fn new(
        core: Core,
        busy_poll: Duration,
        shared: Shared,
        signs: Signs,
    ) -> io::Result<(Worker, Mailbox)> {
        let mut driver = Driver::new()?;
        driver.set_read_bytes_max(READ_BYTES_MAX);
        driver.set_busy_poll(busy_poll);
        let (sender, inbox) = mpsc::channel();
        let mailbox = Mailbox { sender, waker: driver.waker()? };
        let dials = Dials::within(core.connect_timeout());
        Ok((
            Worker { core, driver, shared, inbox, signs, pending_clients_gone: 0, draining: false, dials },
            mailbox,
        ))
    }

    /// Turns until it is drained.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.draining || self.core.has_clients() {
            let before = self.shared.clock.now();
            let deadline = self.core.poll_deadline().min(self.driver.pending_clients_deadline());
            let deadline = deadline.min(self.dials.deadline());
            self.driver.wait(deadline.since(before).min(WAIT_MAX))?;
            self.signs.pulse.beat();
            self.turn(self.shared.clock.now());
            self.signs.pulse.beat();
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) {
        while let Some(event) = self.driver.next_event() {
            match event {
                Event::Received(conn, _) => self.pass_on(conn, now),
                Event::Writable(conn) => self.core.handle_writable(conn),
                Event::Connected(conn) => {
                    self.dials.note_connected(conn);
                    let nodes = &mut lock(&self.shared.nodes);
                    self.core.handle_connected(conn, nodes, now);
                }
                Event::Ended(conn) => {
                    let nodes = &mut lock(&self.shared.nodes);
                    self.core.handle_ended(conn, nodes, now);
                }
                Event::Closed(conn, error) => self.lose(conn, &error, now),
            }
            // Done at once: a paused connection must not be read in this turn either.
            self.perform(now);
        }
        while let Some((conn, next)) = self.dials.poll_late(now) {
            self.driver.close(conn);
            self.redial(conn, next, now);
            self.perform(now);
        }
        if self.core.poll_deadline() <= now {
            self.core.handle_timeouts(&mut lock(&self.shared.nodes), now);
            self.perform(now);
        }
        // Done after all closed connections: their places are free for new clients.
        self.read_mail(now);
        self.receive_pending_clients(now);
        self.report();
    }

    /// Passes on the new bytes of `conn`.
    fn pass_on(&mut self, conn: Id, now: Instant) {
        let mut sent = 0;
        if let Some(target) = self.core.target_of(conn, now) {
            match self.driver.pass_on(target) {
                Ok(taken) => sent = taken,
                Err(error) => {
                    self.driver.close(target);
                    return self.lose(target, &error, now);
                }
            }
        }
        let rest = &self.driver.received()[sent..];
        if !rest.is_empty() {
            self.core.keep(conn, rest, &mut lock(&self.shared.nodes), now);
        }
    }

    /// A connection is gone, or was not made. One to a name may be tried at another address.
    fn lose(&mut self, conn: Id, error: &io::Error, now: Instant) {
        let reason = reason(error);
        match self.dials.note_failed(conn, &reason, now) {
            Some(next) => self.redial(conn, next, now),
            None => self.core.handle_closed(conn, &reason, &mut lock(&self.shared.nodes), now),
        }
    }

    fn redial(&mut self, conn: Id, next: Next<()>, now: Instant) {
        match next {
            Next::Try((), addr) => self.connect(conn, &Target::Tcp(addr), now),
            Next::GiveUp(reason) => {
                self.core.handle_closed(conn, &reason, &mut lock(&self.shared.nodes), now);
            }
        }
    }

    fn connect(&mut self, conn: Id, target: &Target, now: Instant) {
        if let Err(error) = self.driver.connect(conn, target) {
            self.lose(conn, &error, now);
        }
    }

    fn connect_to_node(&mut self, conn: Id, node: usize, now: Instant) {
        let target = match self.shared.targets.addresses(node, &self.shared.resolver) {
            Addresses::One(target) => target,
            Addresses::Any(host, addrs) => Target::Tcp(self.dials.begin(conn, ((), &host), addrs, now)),
        };
        self.connect(conn, &target, now);
    }

    /// Carries out the actions of the core.
    fn perform(&mut self, now: Instant) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Connect { conn, node } => self.connect_to_node(conn, node, now),
                Action::Send { conn } => match self.driver.send(conn, self.core.waiting(conn)) {
                    Ok(sent) => self.core.handle_sent(conn, sent, &mut lock(&self.shared.nodes), now),
                    Err(error) => {
                        self.driver.close(conn);
                        self.lose(conn, &error, now);
                    }
                },
                Action::Pause { conn } => self.driver.pause(conn),
                Action::Resume { conn } => self.driver.resume(conn),
                Action::Finish { conn } => self.driver.finish(conn),
                Action::Close { conn } => {
                    self.dials.forget(conn);
                    self.driver.close(conn);
                }
            }
        }
    }

    fn read_mail(&mut self, now: Instant) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Accept { stream, peer } if self.shared.proxy_protocol => {
                    let entry = Entry { header: true, ..Entry::default() };
                    if self.driver.receive(stream, peer, &entry, now + HEADER_TIMEOUT).is_err() {
                        self.pending_clients_gone += 1;
                    }
                }
                Message::Accept { stream, peer } => {
                    let local = stream.local_addr().ok().map(driver::canonical);
                    self.accept(peer, local, now, |driver, conn| driver.adopt(conn, stream));
                }
                Message::Drain => {
                    self.draining = true;
                    while self.driver.refuse_oldest_pending_client("draining").is_some() {
                        self.pending_clients_gone += 1;
                    }
                }
            }
        }
    }

    /// Goes on with PROXY headers.
    fn receive_pending_clients(&mut self, now: Instant) {
        while let Some(verdict) = self.driver.poll_pending_client(now) {
            match verdict {
                Verdict::Ready(pending_client) => self.admit(pending_client, now),
                Verdict::Refused { peer, reason } => {
                    self.pending_clients_gone += 1;
                    let (client, reason) = (peer.to_string(), self::reason(&reason));
                    self.log(Notice::Refused { client, reason });
                }
            }
        }
    }

    fn admit(&mut self, pending_client: PendingClient, now: Instant) {
        let (peer, local) = (pending_client.peer(), pending_client.local());
        self.accept(peer, local, now, |driver, conn| driver.admit(conn, pending_client));
    }

    /// Takes a client over, whose socket `adopt` brings.
    fn accept(
        &mut self,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        now: Instant,
        adopt: impl FnOnce(&mut Driver, Id) -> io::Result<()>,
    ) {
        let header = match self.shared.send_proxy {
            Some(version) => header(version, local.map(|local| (peer, local))),
            None => Vec::new(),
        };
        let conn = self.core.accept(peer, &header, &mut lock(&self.shared.nodes), now);
        if let Err(error) = adopt(&mut self.driver, conn) {
            self.lose(conn, &error, now);
        }
        self.perform(now);
    }

    /// Sends the control thread notices and the count of closed clients.
    fn report(&mut self) {
        while let Some(notice) = self.core.poll_notice() {
            self.log(notice);
        }
        self.signs.show_clients_gone(self.core.clients_gone() + self.pending_clients_gone);
    }

    fn log(&self, notice: Notice) {
        // A log that does not keep up loses lines; it does not stop the worker.
        let _ = self.shared.log.try_send(notice);
    }
}

/// A worker that panics ends the process, so no other thread sees its state.
fn lock(nodes: &Mutex<Nodes>) -> MutexGuard<'_, Nodes> {
    nodes.lock().unwrap_or_else(PoisonError::into_inner)
}
