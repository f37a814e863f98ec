//! One worker: a thread, a driver, a proxy, and the loop in which they meet.

use crate::allocator::Allocator;
use crate::batching::{Batching, Policy, Turn};
use crate::dial::{Dials, Next};
use crate::discovery::Wishes;
use crate::embedded::Embedded;
use crate::http::{Dialects, HttpClients};
use crate::resolver::Question;
use crate::routed::Exits;
use crate::team::Signs;
use crate::transport::NodeTls;
use crate::upgrade::leaving::Leaving;
use crate::upgrade::predecessor::Arrived;
use crate::upgrade::successor::{Courier, Outcome, Returned};
use driver::{Driver, Entry, PendingClient, SHARE_BYTES, Stream, Target, Verdict, canonical};
use mirror::Tap;
use proxy::{
    Action, Arrival, ClientState, ControlJob, Event, Mail, NotTaken, Notice, Proxy, ReloadOrder,
    ReloadOutcome, Reloaded,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use stdx::{Id, Instant};
use topology::discovery::Wish;
use topology::{Address, NodeId, Topology};
use tracing::debug;
use users::Users;

/// A message of another thread to a worker.
pub(crate) enum Message {
    /// A client was accepted for it.
    Accept {
        /// Its socket.
        stream: TcpStream,
        /// Its address.
        peer: SocketAddr,
        /// The listener by which it came.
        listener: u16,
        /// Its first step: a handshake or a PROXY header.
        entry: Option<Entry>,
    },
    /// The same over a unix socket.
    AcceptUnix {
        /// Its socket.
        stream: UnixStream,
        /// Its address as a name.
        peer: Arc<str>,
        /// The listener by which it came.
        listener: u16,
    },
    /// A name that it asked for.
    Resolved {
        /// For this connection.
        conn: Id,
        /// The addresses in the order in which to try them, or the reason why there are none.
        addrs: Result<Vec<SocketAddr>, String>,
    },
    /// A message of another worker's core to ours.
    Mail(Mail),
    /// The nodes are others, or have other tasks.
    Topology(Arc<Topology>),
    /// There are other users.
    Users(Arc<Users>),
    /// The operator names other nodes. They are followed once the present ones are connected.
    Nodes(Arc<Topology>),
    /// There are other settings.
    Settings(Arc<Reloaded>),
    /// The result of reading the ACL file: the users, or the fault of the file.
    Loaded(ControlJob, Result<Arc<Users>, String>),
    /// The users were written to their file, or not, as a client of this worker requested.
    Saved(ControlJob, bool),
    /// The outcome of an order about the configuration.
    Reloaded(ControlJob, ReloadOrder, ReloadOutcome),
    /// An operator wants a line for each client.
    ListClients(mpsc::Sender<String>),
    /// A client of the process before this one.
    TakeOver {
        /// The client, its socket, and the way to answer.
        arrived: Arrived,
        /// The listener by which it came.
        listener: u16,
    },
    /// Clients leave for the next process as they become idle. Stop when all have left. The first listener has this number.
    Leave(Courier, usize),
    /// The next process has taken a client over, or not.
    HandedOver(Outcome),
    /// Accept nothing new, finish requests in flight, and stop.
    Drain,
}

/// Where messages for one worker go.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: mpsc::Sender<Message>,
    waker: Arc<driver::Waker>,
}

impl Mailbox {
    /// Delivers `message` and wakes the worker. A worker that has stopped gets no messages: this one is returned.
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        self.sender.send(message).map_err(|mpsc::SendError(message)| message)?;
        // Fails only if the descriptor is gone, and with it the worker.
        let _ = self.waker.wake();
        Ok(())
    }
}

/// The clock that all workers share: the origin of their instants.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { origin: std::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    pub(crate) fn origin(&self) -> std::time::Instant {
        self.origin
    }
}

/// Connections of a worker to other threads.
pub(crate) struct Neighbours {
    /// Names are resolved there.
    pub resolver: mpsc::Sender<Question>,
    /// The mail of all workers by their numbers, set before the first of them runs.
    pub workers: Arc<OnceLock<Vec<Mailbox>>>,
    /// The stores of this process, if they are the shards.
    pub embedded: Option<Arc<Embedded>>,
    /// The routes to other pools.
    pub exits: Exits,
    /// The client side of TLS, if links to nodes use it.
    pub node_tls: Option<Arc<NodeTls>>,
    /// The discovery that finds new topologies, if they can change.
    pub discovery: Option<Wishes>,
    /// The ACL file is read there.
    pub jobs: mpsc::Sender<(usize, ControlJob)>,
    /// The sender of log notices; those that do not fit are dropped.
    pub log: mpsc::SyncSender<(usize, Notice)>,
    /// The mirror of the pool, if it has one.
    pub tap: Option<Tap>,
    /// The language of clients at each listener.
    pub dialects: Dialects,
    /// The control thread sees the worker by these.
    pub signs: Signs,
    /// See [`crate::descriptors::Granted::kept_from`].
    pub descriptors_kept_from: u64,
}

/// One worker.
pub(crate) struct Worker {
    number: usize,
    proxy: Proxy,
    driver: Driver,
    topology: Arc<Topology>,
    /// Nodes that an operator names, until they are followed.
    next_nodes: Option<Arc<Topology>>,
    clock: Clock,
    inbox: mpsc::Receiver<Message>,
    mailbox: Mailbox,
    neighbours: Neighbours,
    batching: Policy,
    http: HttpClients,
    /// Connections whose node's name is being resolved, with that node.
    resolving: HashMap<Id, NodeId>,
    /// Connections that are being made to a name.
    dials: Dials<NodeId>,
    draining: bool,
    /// Clients that leave for the next process, in an upgrade.
    leaving: Option<Box<Leaving>>,
    /// Clients of the process before this one that were not taken over.
    declined: u64,
    /// Requests not answered in time, as of the last report to discovery.
    timeouts: u64,
    allocator: Allocator,
}

/// The longest sleep: nothing depends on it, it only bounds the cost of a lost wake-up.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Timeout of a client's handshake or PROXY header. With much packet loss, a handshake often takes a second.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Handshakes that may run even at the client limit, so that these clients get its error.
pub(crate) const PENDING_CLIENTS_MIN: usize = 4;
/// Mean size from which requests need little work per byte: 128 of them may be read at once.
const BULKY_FROM: u64 = 1024;
/// Delay by which the kernel may end a sleep later than asked for.
#[cfg(target_os = "linux")]
const TIMER_SLACK_NS: u64 = 1000;

impl Worker {
    /// A worker that is ready to run and looks for events for `busy_poll` before it sleeps, and the address for its mail.
    pub(crate) fn new(
        number: usize,
        proxy: Proxy,
        topology: Arc<Topology>,
        clock: Clock,
        batching: Batching,
        busy_poll: Duration,
        neighbours: Neighbours,
    ) -> io::Result<(Worker, Mailbox)> {
        let mut driver = Driver::new()?;
        driver.set_busy_poll(busy_poll);
        let (sender, inbox) = mpsc::channel();
        let mailbox = Mailbox { sender, waker: Arc::new(driver.waker()?) };
        let dials = Dials::within(proxy.connect_timeout());
        let http = HttpClients::new(Arc::clone(&neighbours.dialects));
        let worker = Worker {
            number,
            proxy,
            driver,
            topology,
            next_nodes: None,
            clock,
            inbox,
            mailbox: mailbox.clone(),
            neighbours,
            batching: Policy::new(batching, clock.now()),
            http,
            resolving: HashMap::new(),
            dials,
            draining: false,
            leaving: None,
            declined: 0,
            timeouts: 0,
            allocator: Allocator::new(clock.now()),
        };
        Ok((worker, mailbox))
    }

    /// Turns until it is drained.
    pub(crate) fn run(mut self) -> io::Result<()> {
        // Linux rounds waits of some microseconds up to 50 otherwise. Where this setting is missing, they are longer.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(TIMER_SLACK_NS));
        let mut began = self.clock.now();
        while !self.is_done() {
            let before = self.clock.now();
            proxy::end_turn(&mut self.proxy, before);
            self.neighbours.signs.add_busy(before.since(began));
            let wait = self.wait_max(before);
            self.driver.wait(wait)?;
            let now = self.clock.now();
            self.neighbours.signs.pulse.beat();
            self.batching.note_idle(before, now);
            self.proxy.handle_lateness(before.since(began).max(now.since(before + wait)), now);
            began = now;
            self.turn(now)?;
            self.neighbours.signs.pulse.beat();
        }
        Ok(())
    }

    /// Whether the last client has gone, and no other will come.
    fn is_done(&self) -> bool {
        let is_ending = match &self.leaving {
            Some(leaving) => !leaving.is_under_way() && self.driver.pending_clients() == 0,
            None => self.draining,
        };
        is_ending && self.proxy.is_drained()
    }

    /// The longest sleep at `now`.
    fn wait_max(&self, now: Instant) -> Duration {
        if self.proxy.has_corked() || self.proxy.has_postponed() || self.driver.has_more() {
            return Duration::ZERO;
        }
        let deadline = self.proxy.poll_deadline().min(self.driver.pending_clients_deadline());
        let look_at = self.leaving.as_ref().map_or(Instant::NEVER, |leaving| leaving.deadline());
        deadline.min(self.dials.deadline()).min(look_at).since(now).min(WAIT_MAX)
    }

    /// One turn of driver and proxy: events, due times, actions.
    fn turn(&mut self, now: Instant) -> io::Result<()> {
        self.driver.set_read_bytes_max(self.proxy.read_bytes_max());
        let events = self.handle_events(now);
        self.handle_late_dials(now);
        if let Some(wait) = self.batching.wait(&self.seen(now, events))
            && !self.driver.has_more()
        {
            // Each reply needs a call of its own anyway.
            self.perform_actions(Proxy::poll_reply, now);
            self.wait_to_batch(wait)?;
            self.handle_events(now);
        }
        self.batching.note_turn(self.asked());
        self.neighbours.signs.waits.show_present(self.batching.possible_wait());
        self.proxy.cork(self.batching.is_pressed());
        self.proxy.uncork();
        self.proxy.resume_postponed(now);
        if self.proxy.poll_deadline() <= now {
            // A reply in a socket must not count as late.
            self.driver.unread().for_each(|conn| self.proxy.handle_unread(conn, now));
            self.proxy.handle_timeouts(now);
        }
        self.perform(now);
        // Done before another worker learns of it: a client that knows of free places may count on them.
        self.show_clients_gone();
        // Done only now that the connections are closed which the proxy has given up: their places can go to new clients.
        self.read_mail(now);
        self.proxy.handle_held_below(self.driver.held_bytes() + self.http.held_bytes());
        self.allocator.note_turn(self.proxy.held_bytes(), now);
        self.perform(now);
        self.receive_pending_clients(now);
        // Requests for a node whose link is being made would fail if another took its place now.
        if let Some(topology) = self.next_nodes.take_if(|_| !proxy::is_connecting(&self.proxy, now)) {
            self.follow(topology, now);
        }
        if let Some(leaving) = &mut self.leaving {
            leaving.look(&mut self.proxy, &mut self.driver, &self.http, now);
            self.perform(now);
        }
        self.report(now);
        Ok(())
    }

    /// Routes requests by `topology` from now on.
    fn follow(&mut self, topology: Arc<Topology>, now: Instant) {
        self.topology = Arc::clone(&topology);
        self.proxy.handle_topology(topology, now);
        self.perform(now);
    }

    /// The results of the turn so far.
    fn seen(&self, now: Instant, events: usize) -> Turn {
        Turn {
            now,
            events,
            connected: self.proxy.counters().clients,
            clients: self.proxy.clients_waiting(),
            in_flight: self.proxy.in_flight(),
            asked: self.asked(),
            rounds: self.proxy.rounds(),
        }
    }

    /// Approximate number of requests, or parts of requests, that were sent to nodes: those answered here count as well.
    fn asked(&self) -> u64 {
        let counters = self.proxy.counters();
        counters.requests + counters.fragments
    }

    /// Sleeps for `wait`, then polls for new events.
    fn wait_to_batch(&mut self, wait: Duration) -> io::Result<()> {
        let before = self.clock.now();
        // tidy: allow(sleep): the wait itself is the purpose; it is some microseconds long
        std::thread::sleep(wait);
        let after = self.clock.now();
        self.batching.note_wait(before, after);
        self.neighbours.signs.waits.add(after.since(before));
        self.driver.wait(Duration::ZERO)
    }

    /// Passes the events to the proxy. Returns their number.
    fn handle_events(&mut self, now: Instant) -> usize {
        let mut seen = 0;
        let is_prompt = self.batching.is_prompt();
        while let Some(event) = self.driver.next_event() {
            seen += 1;
            match event {
                driver::Event::Received(conn, bytes) => {
                    let (len, before) = (bytes.len(), self.proxy.counters().requests);
                    if let Some(requests) = self.http.receive(conn, bytes) {
                        self.receive_requests(conn, &requests, now);
                        self.flush_http(conn, now);
                        continue;
                    }
                    if let Some(tap) = &mut self.neighbours.tap {
                        tap.sent(conn, bytes);
                    }
                    self.proxy.handle_event(Event::Received { conn, bytes }, now);
                    if len >= SHARE_BYTES {
                        let requests = self.proxy.counters().requests - before;
                        self.driver.set_bulky(conn, requests * BULKY_FROM < len as u64);
                    }
                }
                driver::Event::Writable(conn) if self.http.has(conn) => self.flush_http(conn, now),
                driver::Event::Writable(conn) => self.proxy.handle_event(Event::Writable { conn }, now),
                driver::Event::Connected(conn) => {
                    self.dials.note_connected(conn);
                    self.proxy.handle_event(Event::Connected { conn }, now);
                }
                driver::Event::Ended(conn) => self.proxy.handle_event(Event::Ended { conn }, now),
                driver::Event::Closed(conn, error) => self.lose(conn, &error, now),
            }
            if is_prompt {
                self.perform_actions(Proxy::poll_reply, now);
            }
        }
        seen
    }

    /// Carries out the proxy's actions and delivers its messages, until there are no more.
    fn perform(&mut self, now: Instant) {
        loop {
            self.perform_actions(Proxy::poll_action, now);
            let Some((worker, mail)) = self.proxy.poll_mail() else { return };
            self.post(worker, mail, now);
        }
    }

    /// Delivers a core's words to that of another worker.
    fn post(&mut self, worker: usize, mail: Mail, now: Instant) {
        let mailbox = self.neighbours.workers.get().and_then(|workers| workers.get(worker));
        let returned = mailbox.and_then(|mailbox| mailbox.send(Message::Mail(mail)).err());
        if let Some(Message::Mail(mail)) = returned
            && let Some(answer) = mail.undelivered()
        {
            self.proxy.handle_mail(answer, now);
        }
    }

    /// Carries out the proxy's actions that `poll` returns.
    fn perform_actions(&mut self, poll: impl Fn(&mut Proxy) -> Option<Action<'_>>, now: Instant) {
        while let Some(action) = poll(&mut self.proxy) {
            match action {
                Action::Send { conn, bytes } if self.http.has(conn) => {
                    let Some(taken) = self.http.reply(conn, bytes) else { continue };
                    if let Some(tap) = &mut self.neighbours.tap {
                        tap.got(conn, &bytes[..taken.bytes]);
                    }
                    self.proxy.handle_sent(conn, taken.bytes);
                    self.receive_requests(conn, &taken.requests, now);
                    self.flush_http(conn, now);
                }
                Action::Send { conn, bytes } => match self.driver.send(conn, bytes) {
                    Ok(sent) => {
                        if let Some(tap) = &mut self.neighbours.tap {
                            tap.got(conn, &bytes[..sent]);
                        }
                        self.proxy.handle_sent(conn, sent);
                    }
                    Err(error) => self.fail_client(conn, &error, now),
                },
                Action::Connect { conn, node } => self.connect(conn, node, now),
                Action::Pause { conn } => self.driver.pause(conn),
                Action::Resume { conn } => self.driver.resume(conn),
                Action::Finish { conn } => {
                    if !self.http.finish(conn) {
                        self.driver.finish(conn);
                    }
                }
                Action::Close { conn } => {
                    self.resolving.remove(&conn);
                    self.dials.forget(conn);
                    self.driver.close(conn);
                    self.forget(conn);
                }
            }
        }
    }

    /// Passes requests of an HTTP client to its session.
    fn receive_requests(&mut self, conn: Id, requests: &[u8], now: Instant) {
        if requests.is_empty() {
            return;
        }
        if let Some(tap) = &mut self.neighbours.tap {
            tap.sent(conn, requests);
        }
        self.proxy.handle_event(Event::Received { conn, bytes: requests }, now);
    }

    /// Sends an HTTP client what it takes.
    fn flush_http(&mut self, conn: Id, now: Instant) {
        match self.http.flush(conn, &mut self.driver) {
            Ok(flushed) => {
                if flushed.is_writable {
                    self.proxy.handle_event(Event::Writable { conn }, now);
                }
                if flushed.ends {
                    self.driver.finish(conn);
                }
            }
            Err(error) => self.fail_client(conn, &error, now),
        }
    }

    /// Closes a connection that takes no bytes.
    fn fail_client(&mut self, conn: Id, error: &io::Error, now: Instant) {
        self.driver.close(conn);
        self.forget(conn);
        self.proxy.handle_event(Event::Closed { conn, reason: &reason(error) }, now);
    }

    /// Forgets a client that has gone, in the mirror as well.
    fn forget(&mut self, conn: Id) {
        self.http.close(conn);
        if let Some(tap) = &mut self.neighbours.tap {
            tap.closed(conn);
        }
    }

    /// A connection is gone, or was not made. One to a name may be tried at another address.
    fn lose(&mut self, conn: Id, error: &io::Error, now: Instant) {
        let reason = reason(error);
        self.forget(conn);
        match self.dials.note_failed(conn, &reason, now) {
            Some(next) => self.redial(conn, next, now),
            None => self.proxy.handle_event(Event::Closed { conn, reason: &reason }, now),
        }
    }

    fn redial(&mut self, conn: Id, next: Next<NodeId>, now: Instant) {
        match next {
            Next::Try(node, addr) => self.connect_tcp(conn, node, addr, now),
            Next::GiveUp(reason) => {
                self.proxy.handle_event(Event::Closed { conn, reason: &reason }, now);
            }
        }
    }

    /// Replaces addresses that are silent for too long with the next ones of their names.
    fn handle_late_dials(&mut self, now: Instant) {
        if self.dials.deadline() > now {
            return;
        }
        while let Some((conn, next)) = self.dials.poll_late(now) {
            self.driver.close(conn);
            self.redial(conn, next, now);
        }
    }

    /// Connects to a node, at once or after its name was resolved.
    fn connect(&mut self, conn: Id, node: NodeId, now: Instant) {
        let target = match &self.topology.node(node).address {
            Address::Embedded(number) => return self.connect_to_store(conn, *number, now),
            Address::Route { number, .. } => return self.connect_to_pool(conn, *number, now),
            Address::Unix(path) => Target::Unix(path.clone()),
            Address::Tcp { host, port } => match host.parse() {
                Ok(ip) => return self.connect_tcp(conn, node, SocketAddr::new(ip, *port), now),
                Err(_) => {
                    let (host, port, mailbox) = (host.clone(), *port, self.mailbox.clone());
                    let asked_at = std::time::Instant::now();
                    self.resolving.insert(conn, node);
                    // A worker that has stopped does not wait for it.
                    let answer = Box::new(move |addrs| drop(mailbox.send(Message::Resolved { conn, addrs })));
                    // The resolver lives as long as any worker does.
                    let _ = self.neighbours.resolver.send(Question { host, port, answer, asked_at });
                    return;
                }
            },
        };
        let begun = self.driver.connect(conn, &target);
        self.check_dialled(conn, begun, now);
    }

    /// Connects to `node`, which is at `addr`.
    fn connect_tcp(&mut self, conn: Id, node: NodeId, addr: SocketAddr, now: Instant) {
        let begun = match (&self.neighbours.node_tls, &self.topology.node(node).address) {
            (Some(tls), Address::Tcp { host, .. }) => {
                self.driver.connect_tls(conn, addr, &tls.connector(), tls.name_of(host))
            }
            _ => self.driver.connect(conn, &Target::Tcp(addr)),
        };
        // A write of unknown outcome must not come behind later ones, when the network is back.
        self.driver.drop_unsent_on_close(conn);
        self.check_dialled(conn, begun, now);
    }

    /// Connects to a store of this process.
    fn connect_to_store(&mut self, conn: Id, number: u32, now: Instant) {
        let embedded = self.neighbours.embedded.as_ref().expect("an embedded shard has a store");
        let stream = embedded.connect(number);
        self.adopt_link(conn, stream, now);
    }

    /// Connects to another pool of this process.
    fn connect_to_pool(&mut self, conn: Id, route: u32, now: Instant) {
        let stream = self.neighbours.exits.connect(route);
        self.adopt_link(conn, stream, now);
    }

    /// Takes `stream` for the link `conn`, which is there at once.
    fn adopt_link(&mut self, conn: Id, stream: io::Result<UnixStream>, now: Instant) {
        match stream.and_then(|stream| self.driver.adopt_unix(conn, stream)) {
            Ok(()) => self.proxy.handle_event(Event::Connected { conn }, now),
            Err(error) => self.proxy.handle_event(Event::Closed { conn, reason: &reason(&error) }, now),
        }
    }

    /// Handles the addresses of a node's name, or the reason why there are none.
    fn begin_dial(&mut self, conn: Id, addrs: Result<Vec<SocketAddr>, String>, now: Instant) {
        let Some(node) = self.resolving.remove(&conn) else { return };
        match (addrs, &self.topology.node(node).address) {
            (Ok(addrs), Address::Tcp { host, .. }) => {
                let addr = self.dials.begin(conn, (node, host), addrs, now);
                self.connect_tcp(conn, node, addr, now);
            }
            (Ok(_), _) => {}
            (Err(reason), _) => self.proxy.handle_event(Event::Closed { conn, reason: &reason }, now),
        }
    }

    /// Whether `descriptor` is one of the last, which are for links that clients share.
    fn is_kept(&self, descriptor: i32) -> bool {
        u64::try_from(descriptor).is_ok_and(|number| number >= self.neighbours.descriptors_kept_from)
    }

    /// Reports a link to the proxy that could not be begun, or that took a descriptor which is kept for others.
    fn check_dialled(&mut self, conn: Id, begun: io::Result<()>, now: Instant) {
        let is_kept = self.driver.descriptor(conn).is_some_and(|number| self.is_kept(number));
        if is_kept && !proxy::descriptors::may_have_last(&self.proxy, conn) {
            self.driver.close(conn);
            return self.lose(conn, &io::Error::from(Errno::MFILE), now);
        }
        self.check_begun(conn, begun, now);
    }

    /// Reports a link to the proxy that could not be begun.
    fn check_begun(&mut self, conn: Id, begun: io::Result<()>, now: Instant) {
        if let Err(error) = begun {
            self.lose(conn, &error, now);
        }
    }

    /// Takes the messages of other threads.
    fn read_mail(&mut self, now: Instant) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Accept { stream, peer, listener, entry: None } => {
                    self.accept(stream, peer, listener, now);
                }
                Message::Accept { stream, peer, entry: Some(entry), .. } => {
                    self.receive(stream, peer, &entry, now);
                }
                Message::AcceptUnix { stream, peer, listener } => {
                    self.accept_unix(stream, &peer, listener, now);
                }
                Message::Resolved { conn, addrs } => self.begin_dial(conn, addrs, now),
                Message::Mail(mail) => {
                    self.proxy.handle_mail(mail, now);
                    // A client that it killed must be closed before the next message brings a new one to its place.
                    self.perform(now);
                }
                Message::Topology(topology) => self.follow(topology, now),
                Message::Nodes(topology) => self.next_nodes = Some(topology),
                Message::Users(users) => {
                    self.proxy.handle_users(&users, now);
                    // As above: clients may have been closed.
                    self.perform(now);
                }
                Message::Settings(settings) => {
                    proxy::adopt_settings(&mut self.proxy, &settings, now);
                    self.perform(now);
                }
                Message::Loaded(job, outcome) => self.proxy.handle_loaded(job, outcome, now),
                Message::Saved(job, is_saved) => self.proxy.handle_saved(job, is_saved, now),
                Message::Reloaded(job, order, outcome) => {
                    proxy::end_reload(&mut self.proxy, job, order, &outcome, now);
                }
                Message::ListClients(lines) => {
                    // The admin listener may wait no longer.
                    let _ = lines.send(proxy::client_lines(&self.proxy));
                }
                Message::TakeOver { arrived, listener } => self.take_over(arrived, listener, now),
                Message::Leave(courier, first_door) => {
                    let mailbox = self.mailbox.clone();
                    // A worker that has stopped has closed all its clients.
                    let sender = move |outcome| drop(mailbox.send(Message::HandedOver(outcome)));
                    let leaving = Leaving::new(courier, Arc::new(sender), first_door, now);
                    self.leaving = Some(Box::new(leaving));
                }
                Message::HandedOver(Outcome::Taken) => {
                    self.leaving.as_mut().into_iter().for_each(|leaving| leaving.note_taken());
                }
                Message::HandedOver(Outcome::Returned(returned)) => self.take_back(*returned, now),
                Message::Drain => {
                    self.draining = true;
                    self.proxy.drain(now);
                    while self.driver.refuse_oldest_pending_client("draining").is_some() {}
                }
            }
        }
    }

    /// Accepts a client, or sends it the error about too many clients.
    fn accept(&mut self, stream: TcpStream, peer: SocketAddr, listener: u16, now: Instant) {
        self.make_room(now);
        // A socket whose other side has gone already may not know its address.
        let local = stream.local_addr().map(|addr| canonical(addr).to_string()).unwrap_or_default();
        let descriptor = stream.as_raw_fd();
        let arrival = Arrival { peer: &peer.to_string(), named_by: "", local: &local, descriptor, listener };
        match self.try_accept(&arrival, now) {
            Ok(conn) => {
                let adopted = self.driver.adopt(conn, stream);
                self.check_begun(conn, adopted, now);
            }
            Err(refusal) => {
                // The socket is fresh and its buffer empty: it takes the line, or the client has gone.
                let _ = stream.set_nonblocking(true);
                let _ = io::Write::write(&mut &stream, &refusal);
            }
        }
    }

    /// Accepts a client's connection, or returns the bytes of its refusal.
    fn try_accept(&mut self, arrival: &Arrival<'_>, now: Instant) -> Result<Id, Vec<u8>> {
        let accepted = match self.is_kept(arrival.descriptor) {
            true => Err(proxy::descriptors::refuse_client(&mut self.proxy)),
            false => self.proxy.accept(arrival, now),
        };
        if let (Ok(conn), Some(tap)) = (&accepted, &mut self.neighbours.tap) {
            tap.opened(*conn);
        }
        if let Ok(conn) = accepted {
            self.http.open(conn, arrival.listener);
        }
        accepted.map_err(|refusal| self.http.refusal(arrival.listener, refusal))
    }

    /// The same for a client of a unix socket: both ends have its path as their name, as in Redis.
    fn accept_unix(&mut self, stream: UnixStream, peer: &str, listener: u16, now: Instant) {
        self.make_room(now);
        let arrival = Arrival { peer, named_by: "", local: peer, descriptor: stream.as_raw_fd(), listener };
        match self.try_accept(&arrival, now) {
            Ok(conn) => {
                let adopted = self.driver.adopt_unix(conn, stream);
                self.check_begun(conn, adopted, now);
            }
            Err(refusal) => {
                let _ = stream.set_nonblocking(true);
                let _ = io::Write::write(&mut &stream, &refusal);
            }
        }
    }

    /// Takes over a client of the process before this one, or declines it. The answer goes out before anything is read.
    fn take_over(&mut self, arrived: Arrived, listener: u16, now: Instant) {
        let Arrived { stream, state, answer, .. } = arrived;
        self.make_room(now);
        if self.is_kept(stream.as_fd().as_raw_fd()) {
            self.declined += 1;
            return answer.decline("no file descriptor is left");
        }
        match proxy::take_over_client(&mut self.proxy, &state, &arrival_of(&stream, &state, listener), now) {
            Ok(conn) => {
                answer.take();
                self.go_on_with(conn, stream, &state, now);
            }
            Err(error) => {
                // The proxy counts clients that it does not admit.
                self.declined += u64::from(error != NotTaken::NotAdmitted);
                answer.decline(&error.to_string());
            }
        }
        self.perform(now);
    }

    /// Goes on with a client that the next process has not taken.
    fn take_back(&mut self, returned: Returned, now: Instant) {
        let Returned { stream, state, listener, reason } = returned;
        debug!(peer = state.peer, reason, "client kept");
        let arrival = arrival_of(&stream, &state, listener);
        let conn = proxy::take_over_client(&mut self.proxy, &state, &arrival, now).ok();
        if let Some(conn) = conn {
            self.go_on_with(conn, stream, &state, now);
        }
        if let Some(leaving) = &mut self.leaving {
            leaving.note_returned(conn);
        }
        self.perform(now);
    }

    /// Reads from the client `conn`, which has sent a part of a request already.
    fn go_on_with(&mut self, conn: Id, stream: Stream, state: &ClientState, now: Instant) {
        let adopted = self.driver.adopt_stream(conn, stream);
        self.check_begun(conn, adopted, now);
        if let Some(tap) = &mut self.neighbours.tap {
            // The mirror learns the state as if the client had just asked for it.
            tap.opened(conn);
            for (request, reply) in state.requests() {
                tap.sent(conn, &request);
                tap.got(conn, reply);
            }
            tap.sent(conn, &state.unread);
        }
        if !state.unread.is_empty() {
            self.proxy.handle_event(Event::Received { conn, bytes: &state.unread }, now);
        }
    }

    /// Starts the handshake of a pending client. Pending clients count as clients: above the limit, the oldest of them
    /// is closed.
    fn receive(&mut self, stream: TcpStream, peer: SocketAddr, entry: &Entry, now: Instant) {
        if self.driver.pending_clients() >= PENDING_CLIENTS_MIN {
            self.make_room(now);
        }
        if let Err(reason) = self.driver.receive(stream, peer, entry, now + HANDSHAKE_TIMEOUT) {
            self.conclude(Verdict::Refused { peer, reason }, now);
        }
        self.proxy.handle_pending_clients(self.driver.pending_clients());
    }

    /// Without a free place, the oldest pending client is closed.
    fn make_room(&mut self, now: Instant) {
        if self.proxy.clients_left() == 0
            && let Some(verdict) = self.driver.refuse_oldest_pending_client("displaced by newer handshakes")
        {
            self.conclude(verdict, now);
        }
    }

    /// Goes on with handshakes.
    fn receive_pending_clients(&mut self, now: Instant) {
        while let Some(verdict) = self.driver.poll_pending_client(now) {
            self.conclude(verdict, now);
        }
    }

    /// A pending client has left the handshakes.
    fn conclude(&mut self, verdict: Verdict, now: Instant) {
        self.proxy.handle_pending_clients(self.driver.pending_clients());
        match verdict {
            Verdict::Ready(pending_client) => self.admit(pending_client, now),
            Verdict::Refused { peer, reason } => {
                self.proxy.handle_handshake(Err((peer.to_string(), self::reason(&reason))));
            }
        }
    }

    /// A client has shaken hands.
    fn admit(&mut self, pending_client: PendingClient, now: Instant) {
        self.proxy.handle_handshake(Ok(()));
        let local = pending_client.local().map(|addr| addr.to_string()).unwrap_or_default();
        let named_by = pending_client.named_by().map(|addr| addr.to_string()).unwrap_or_default();
        let (descriptor, listener) = (pending_client.descriptor(), pending_client.listener());
        let peer = pending_client.peer().to_string();
        let arrival = Arrival { peer: &peer, named_by: &named_by, local: &local, descriptor, listener };
        match self.try_accept(&arrival, now) {
            Ok(conn) => {
                let admitted = self.driver.admit(conn, pending_client);
                self.check_begun(conn, admitted, now);
            }
            Err(refusal) => pending_client.dismiss(&refusal),
        }
    }

    /// Requests that timed out may have gone to a node that is isolated from its cluster.
    fn note_timeouts(&mut self) {
        let timeouts = self.proxy.counters().timeouts;
        if timeouts != self.timeouts
            && let Some(discovery) = &self.neighbours.discovery
        {
            self.timeouts = timeouts;
            discovery.send(Wish::Look);
        }
    }

    /// A primary that comes or goes may mean that there is another.
    fn tell_discovery(&self, notice: &Notice) {
        let Some(discovery) = &self.neighbours.discovery else { return };
        let address = |name: &str| {
            let shards = self.topology.all_shards();
            let shard = shards.into_iter().find(|&id| self.topology.shard(id).name == name)?;
            self.topology.primary_address(shard).cloned()
        };
        let wish = match notice {
            Notice::NodeDown { shard, .. } => address(shard).map(Wish::Down),
            Notice::NodeUp { shard } => address(shard).map(Wish::Up),
            _ => None,
        };
        wish.into_iter().for_each(|wish| discovery.send(wish));
    }

    /// Sends the control thread notices and the count of closed clients.
    fn report(&mut self, now: Instant) {
        self.note_timeouts();
        if let (Some(wish), Some(discovery)) = (self.proxy.poll_wish(now), &self.neighbours.discovery) {
            discovery.send(wish);
        }
        while let Some(notice) = self.proxy.poll_notice() {
            self.tell_discovery(&notice);
            // A log that does not keep up loses lines; it does not stop the worker.
            let _ = self.neighbours.log.try_send((self.number, notice));
        }
        while let Some(job) = self.proxy.poll_job() {
            // The control thread outlives its workers.
            let _ = self.neighbours.jobs.send((self.number, job));
        }
        self.show_clients_gone();
        self.show_nodes_up();
    }

    /// Tells the control thread, which balances by it.
    fn show_clients_gone(&self) {
        let counters = self.proxy.counters();
        let refused = counters.clients_refused + counters.handshakes_failed + self.declined;
        let gone = counters.clients_total - counters.clients + refused;
        self.neighbours.signs.show_clients_gone(gone as usize);
    }

    /// Shows nodes that came or went, to operators as well: a load balancer may ask.
    fn show_nodes_up(&mut self) {
        let nodes_up = self.proxy.counters().nodes_up as usize;
        if nodes_up != self.neighbours.signs.nodes_up() {
            proxy::publish(&mut self.proxy);
            self.neighbours.signs.show_nodes_up(nodes_up);
        }
    }
}

/// A client with this `state`, as it arrives.
fn arrival_of<'a>(stream: &Stream, state: &'a ClientState, listener: u16) -> Arrival<'a> {
    let descriptor = stream.as_fd().as_raw_fd();
    Arrival { peer: &state.peer, named_by: "", local: &state.local, descriptor, listener }
}

/// An error as a reason in logs and replies: without the operating system's number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    if error.raw_os_error().is_none() {
        return text;
    }
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_lowercase()
}
