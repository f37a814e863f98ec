//! The discovery thread: carries out the actions of `topology::discovery`, and gives each new topology to all workers.
//!
//! ```text
//!   worker ── Wish ──► inbox ─► machine ─► Action ─► driver ─► nodes, sentinels
//!   worker ◄─ Topology ─────── view ◄──── machine ◄─ Event ◄──┘
//! ```
//!
//! The thread has a loop and connections of its own, so that a slow node delays no worker.

use crate::dial::{Dials, Next};
use crate::failovers::Failovers;
use crate::resolver::Question;
use crate::transport::NodeTls;
use crate::worker::{Clock, Mailbox, Message, reason};
use crate::zones::Zones;
use anyhow::{Context, Result};
use driver::{Driver, Target};
use proxy::{Board, Discovered};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;
use stdx::{Id, Instant};
use topology::discovery::{Action, Discovery, Event, Greetings, News, Party, View, Wish};
use topology::{Address, Topology};
use tracing::{error, info, warn};

/// A message from another thread.
enum Word {
    Wish(Wish),
    Resolved { conn: Id, addrs: Result<Vec<SocketAddr>, String> },
}

/// Where workers' wishes go, and secrets that are read again.
#[derive(Clone)]
pub(crate) struct Wishes {
    sender: mpsc::SyncSender<Word>,
    secrets: Arc<Mutex<Option<Greetings>>>,
    waker: Arc<driver::Waker>,
}

/// Limit of pending refresh hints. With more, discovery is about to refresh anyway.
const WISHES_MAX: usize = 1024;
/// News that wait for the log; more are dropped.
const NEWS_MAX: usize = 256;
/// Timeout of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest sleep: nothing depends on it, it only bounds the cost of a lost wake-up.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Wishes {
    /// Delivers `wish`, unless there are too many.
    pub(crate) fn send(&self, wish: Wish) {
        if self.sender.try_send(Word::Wish(wish)).is_ok() {
            // Fails only if the descriptor is gone, and with it the thread.
            let _ = self.waker.wake();
        }
    }
}

impl Wishes {
    /// Has the connections to come begin with `greetings`.
    pub(crate) fn renew(&self, greetings: Greetings) {
        *self.secrets.lock().unwrap_or_else(PoisonError::into_inner) = Some(greetings);
        // Fails only if the descriptor is gone, and with it the thread.
        let _ = self.waker.wake();
    }
}

/// Connections to other threads.
pub(crate) struct Surroundings {
    pub clock: Clock,
    pub resolver: mpsc::Sender<Question>,
    pub node_tls: Option<Arc<NodeTls>>,
    /// Sentinels speak TLS as well, as nodes do.
    pub is_sentinel_tls: bool,
    /// Set before the thread is started.
    pub workers: Arc<OnceLock<Vec<Mailbox>>>,
    /// INFO shows there how it goes.
    pub board: Arc<Board>,
    /// Where nodes are.
    pub zones: Zones,
}

/// The thread's state.
pub(crate) struct DiscoveryThread {
    machine: Discovery,
    /// The last that workers were given.
    topology: Arc<Topology>,
    failovers: Failovers,
    driver: Driver,
    inbox: mpsc::Receiver<Word>,
    sender: mpsc::SyncSender<Word>,
    waker: Arc<driver::Waker>,
    /// Secrets that were read again, until they are taken.
    secrets: Arc<Mutex<Option<Greetings>>>,
    surroundings: Surroundings,
    /// Connections whose other side's name is being resolved.
    resolving: HashMap<Id, (Address, Party)>,
    /// Connections that are being made to a name.
    dials: Dials<(Address, Party)>,
    /// Bytes that sockets have not taken yet.
    unsent: HashMap<Id, Vec<u8>>,
    news: mpsc::SyncSender<News>,
}

impl DiscoveryThread {
    /// Parts of the thread: the machine to run, the sender of refresh hints, and the receiver of news.
    pub(crate) fn new(
        machine: Discovery,
        topology: Arc<Topology>,
        surroundings: Surroundings,
    ) -> io::Result<(DiscoveryThread, Wishes, mpsc::Receiver<News>)> {
        let driver = Driver::new()?;
        let waker = Arc::new(driver.waker()?);
        let (sender, inbox) = mpsc::sync_channel(WISHES_MAX);
        let (news_sender, news) = mpsc::sync_channel(NEWS_MAX);
        let secrets = Arc::default();
        let wishes =
            Wishes { sender: sender.clone(), secrets: Arc::clone(&secrets), waker: Arc::clone(&waker) };
        let thread = DiscoveryThread {
            machine,
            failovers: Failovers::default(),
            topology,
            driver,
            inbox,
            sender,
            waker,
            secrets,
            surroundings,
            resolving: HashMap::new(),
            dials: Dials::within(ANSWER_TIMEOUT),
            unsent: HashMap::new(),
            news: news_sender,
        };
        Ok((thread, wishes, news))
    }

    /// Starts the thread. It runs as long as the process does: a drain needs the topology to its end.
    pub(crate) fn start(self) -> Result<()> {
        let thread = std::thread::Builder::new().name("discovery".to_owned());
        let run = move || {
            if let Err(error) = self.run() {
                error!(%error, hint = "the topology stays as it is; restart shardis", "discovery failed");
            }
        };
        thread.spawn(run).context("starting the discovery")?;
        Ok(())
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let now = self.surroundings.clock.now();
            self.machine.handle_time(now);
            self.perform(now);
            self.publish(now);
            let before = self.surroundings.clock.now();
            let deadline = self.machine.poll_deadline().min(self.dials.deadline());
            self.driver.wait(deadline.since(before).min(WAIT_MAX))?;
            let now = self.surroundings.clock.now();
            self.handle_events(now);
            while let Some((conn, next)) = self.dials.poll_late(now) {
                self.driver.close(conn);
                self.redial(conn, next, now);
            }
            self.read_inbox(now);
        }
    }

    fn handle_events(&mut self, now: Instant) {
        let mut taking = Vec::new();
        let mut ended = Vec::new();
        while let Some(event) = self.driver.next_event() {
            match event {
                driver::Event::Received(conn, bytes) => {
                    self.machine.handle_event(Event::Received { conn, bytes }, now);
                }
                driver::Event::Connected(conn) => {
                    self.dials.note_connected(conn);
                    self.machine.handle_event(Event::Connected { conn }, now);
                }
                driver::Event::Writable(conn) => taking.push(conn),
                driver::Event::Ended(conn) => ended.push(conn),
                driver::Event::Closed(conn, error) => self.lose(conn, &error, now),
            }
        }
        for conn in taking {
            let bytes = self.unsent.remove(&conn).unwrap_or_default();
            self.send(conn, &bytes, now);
        }
        for conn in ended {
            // The peer has ended its side: no question can be asked any more.
            self.driver.close(conn);
            self.machine.handle_event(Event::Closed { conn, reason: "connection closed" }, now);
        }
    }

    fn read_inbox(&mut self, now: Instant) {
        if let Some(greetings) = self.secrets.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.machine.renew(greetings);
        }
        while let Ok(word) = self.inbox.try_recv() {
            match word {
                Word::Wish(wish) => self.machine.handle_wish(wish, now),
                Word::Resolved { conn, addrs } => self.begin_dial(conn, addrs, now),
            }
        }
    }

    /// Handles the addresses of a name, or the reason why there are none.
    fn begin_dial(&mut self, conn: Id, addrs: Result<Vec<SocketAddr>, String>, now: Instant) {
        let Some((address, party)) = self.resolving.remove(&conn) else { return };
        match (addrs, &address) {
            (Ok(addrs), Address::Tcp { host, .. }) => {
                let addr = self.dials.begin(conn, ((address.clone(), party), host), addrs, now);
                self.connect_tcp(conn, &address, addr, party, now);
            }
            (Ok(_), _) => {}
            (Err(reason), _) => self.machine.handle_event(Event::Closed { conn, reason: &reason }, now),
        }
    }

    /// A connection is gone, or was not made. One to a name may be tried at another address.
    fn lose(&mut self, conn: Id, error: &io::Error, now: Instant) {
        let reason = reason(error);
        match self.dials.note_failed(conn, &reason, now) {
            Some(next) => self.redial(conn, next, now),
            None => self.machine.handle_event(Event::Closed { conn, reason: &reason }, now),
        }
    }

    fn redial(&mut self, conn: Id, next: Next<(Address, Party)>, now: Instant) {
        match next {
            Next::Try((address, party), addr) => self.connect_tcp(conn, &address, addr, party, now),
            Next::GiveUp(reason) => {
                self.machine.handle_event(Event::Closed { conn, reason: &reason }, now);
            }
        }
    }

    /// Carries out the actions of the discovery.
    fn perform(&mut self, now: Instant) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Connect { conn, address, party } => self.connect(conn, address, party, now),
                Action::Send { conn, bytes } => self.send(conn, &bytes, now),
                Action::Close { conn } => {
                    self.resolving.remove(&conn);
                    self.dials.forget(conn);
                    self.unsent.remove(&conn);
                    self.driver.close(conn);
                }
            }
        }
    }

    fn connect(&mut self, conn: Id, address: Address, party: Party, now: Instant) {
        match &address {
            Address::Tcp { host, port } => match host.parse() {
                Ok(ip) => self.connect_tcp(conn, &address, SocketAddr::new(ip, *port), party, now),
                Err(_) => self.resolve(conn, address, party),
            },
            Address::Unix(path) => {
                let begun = self.driver.connect(conn, &Target::Unix(path.clone()));
                self.check_begun(conn, begun, now);
            }
            Address::Embedded(_) | Address::Route { .. } => {
                let reason = "a part of this process is no node to ask";
                self.machine.handle_event(Event::Closed { conn, reason }, now);
            }
        }
    }

    fn resolve(&mut self, conn: Id, address: Address, party: Party) {
        let Address::Tcp { host, port } = address.clone() else { return };
        self.resolving.insert(conn, (address, party));
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        let answer = Box::new(move |addrs| {
            // With a full inbox, the question times out and is asked again.
            if sender.try_send(Word::Resolved { conn, addrs }).is_ok() {
                let _ = waker.wake();
            }
        });
        let asked_at = std::time::Instant::now();
        // The resolver lives as long as this does.
        let _ = self.surroundings.resolver.send(Question { host, port, answer, asked_at });
    }

    fn connect_tcp(&mut self, conn: Id, address: &Address, addr: SocketAddr, party: Party, now: Instant) {
        let is_tls = party == Party::Node || self.surroundings.is_sentinel_tls;
        let begun = match (self.surroundings.node_tls.as_ref().filter(|_| is_tls), address) {
            (Some(tls), Address::Tcp { host, .. }) => {
                self.driver.connect_tls(conn, addr, &tls.connector(), tls.name_of(host))
            }
            _ => self.driver.connect(conn, &Target::Tcp(addr)),
        };
        self.check_begun(conn, begun, now);
    }

    fn check_begun(&mut self, conn: Id, begun: io::Result<()>, now: Instant) {
        if let Err(error) = begun {
            self.lose(conn, &error, now);
        }
    }

    /// Sends `bytes` after those still unsent.
    fn send(&mut self, conn: Id, bytes: &[u8], now: Instant) {
        if let Some(unsent) = self.unsent.get_mut(&conn) {
            unsent.extend_from_slice(bytes);
            return;
        }
        match self.driver.send(conn, bytes) {
            Ok(sent) if sent < bytes.len() => drop(self.unsent.insert(conn, bytes[sent..].to_vec())),
            Ok(_) => {}
            Err(error) => {
                self.driver.close(conn);
                self.machine.handle_event(Event::Closed { conn, reason: &reason(&error) }, now);
            }
        }
    }

    /// Publishes changes: topologies to the workers, news to the log, counts to INFO.
    fn publish(&mut self, now: Instant) {
        if let Some(view) = self.machine.poll_view() {
            self.succeed(&view);
        }
        while let Some(news) = self.machine.poll_news() {
            // A log that does not keep up loses lines; it does not stop us.
            let _ = self.news.try_send(news);
        }
        let tally = self.machine.tally();
        self.surroundings.board.show_discovery(Discovered {
            epoch: self.topology.epoch(),
            answers: tally.answers,
            failures: tally.failures,
            refusals: tally.refusals,
            failovers: self.failovers.count(),
            answered_at: tally.answered_at.map(|at| at.min(now)),
        });
    }

    /// Makes `view` the topology of all workers.
    fn succeed(&mut self, view: &View) {
        let epoch = self.topology.epoch() + 1;
        let shards = self.surroundings.zones.labelled(&view.shards);
        let made = match &self.machine {
            Discovery::Cluster(_) => Topology::of_cluster(Some(&self.topology), epoch, &shards),
            Discovery::Sentinel(_) => self.topology.succeed(epoch, &shards),
        };
        match made {
            Ok(topology) => {
                self.failovers.note(&topology);
                self.topology = Arc::new(topology);
            }
            Err(error) => return error!(reason = %error, "discovered topology rejected"),
        }
        for worker in self.surroundings.workers.get().into_iter().flatten() {
            // A worker that has stopped has no use for it.
            let _ = worker.send(Message::Topology(Arc::clone(&self.topology)));
        }
    }
}

/// Writes a line to the log.
pub(crate) fn log(news: &News) {
    match news {
        News::Found { by, shards, nodes } => {
            info!(%by, shards, nodes, "topology discovered");
        }
        News::Changed(change) => info!(change, "topology changed"),
        News::NoAnswer { address, reason } => {
            warn!(%address, reason, "discovery unanswered");
        }
        News::NoCluster { address } => {
            let reason = "not a node of a Redis Cluster (cluster-enabled no)";
            error!(%address, reason, hint = "name plain nodes with --nodes", "seed rejected");
        }
        News::NoSentinel { address } => {
            let hint = "name plain nodes with --nodes, nodes of a Redis Cluster with --cluster";
            error!(%address, reason = "not a sentinel", hint, "sentinel rejected");
        }
        News::Stranger { address } => {
            let reason = "node of another cluster";
            let hint = "if the whole cluster was created anew, restart shardis";
            error!(%address, reason, hint, "foreign cluster rejected");
        }
        News::UnknownName { address, name } => {
            let hint = "compare --master with SENTINEL MASTERS";
            error!(%address, shard = name, hint, "primary unknown to sentinel");
        }
        News::NotPrimary { name, address, reason } => {
            let hint = "sentinels call it primary; it gets requests once ROLE agrees";
            warn!(shard = name, %address, reason, hint, "primary unconfirmed");
        }
    }
}
