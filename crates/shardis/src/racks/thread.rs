//! The thread of one shard with racks: the machine between workers and nodes.

use super::Surroundings;
use super::hint_log::Batch;
use crate::embedded::Door;
use crate::resolver::Question;
use crate::transport::NodeTls;
use crate::wall_clock::unix_us;
use crate::worker::reason;
use anyhow::{Context, Result};
use driver::{Driver, Event, Target, Waker};
use racks::{Action, Machine, Notice, Record, Status};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use stdx::{BufferPool, ByteQueue, Id, Instant, Slab};
use topology::Address;
use tracing::{Span, error, info, warn};

/// The longest time without a look at the clock.
const TURN_MAX: Duration = Duration::from_millis(500);
/// Spare buffers.
const SPARE_BUFFERS_MAX: usize = 16;
const SPARE_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Time since 1970 that never goes back.
pub(super) struct Clock {
    origin: std::time::Instant,
    epoch: Duration,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { origin: std::time::Instant::now(), epoch: Duration::from_micros(unix_us()) }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.epoch + self.origin.elapsed()
    }
}

/// One shard.
pub(super) struct Shard {
    pub number: usize,
    /// The nodes, one in each rack.
    pub nodes: Vec<Address>,
    /// The names of the racks.
    pub racks: Vec<String>,
    pub log: mpsc::Sender<Batch>,
    pub status: Arc<Mutex<Status>>,
}

/// A message of another thread.
enum Mail {
    Worker(UnixStream),
    Resolved { conn: Id, addrs: Result<Vec<SocketAddr>, String> },
    Logged { batch: u64, is_durable: bool },
}

/// A way to send mail.
#[derive(Clone)]
struct Mailbox {
    sender: mpsc::Sender<Mail>,
    waker: Arc<Waker>,
}

impl Mailbox {
    fn send(&self, mail: Mail) -> io::Result<()> {
        self.sender.send(mail).map_err(|_| io::Error::other("the shard has stopped"))?;
        self.waker.wake()
    }
}

/// Starts the thread of `shard`. Returns the way to it.
pub(super) fn start(
    shard: Shard,
    machine: Machine,
    clock: Clock,
    surroundings: &Surroundings,
) -> Result<Door> {
    let driver = Driver::new()?;
    let (sender, inbox) = mpsc::channel();
    let mailbox = Mailbox { sender, waker: Arc::new(driver.waker()?) };
    let number = shard.number;
    let span = surroundings.span.clone();
    let thread = Thread {
        to_racks: vec![None; shard.nodes.len()],
        tries: vec![0; shard.nodes.len()],
        shard,
        machine,
        clock,
        driver,
        inbox,
        mailbox: mailbox.clone(),
        resolver: surroundings.resolver.clone(),
        node_tls: surroundings.node_tls.clone(),
        conns: Slab::default(),
        pool: BufferPool::new(SPARE_BUFFERS_MAX, SPARE_BUFFER_BYTES_MAX),
        to_flush: Vec::new(),
        span: span.clone(),
    };
    let run = move || {
        if let Err(error) = thread.run() {
            let _in_pool = span.enter();
            error!(shard = number, %error, "store failed");
        }
    };
    std::thread::Builder::new().name(format!("racks-{number}")).spawn(run).context("starting a shard")?;
    Ok(Box::new(move |stream| mailbox.send(Mail::Worker(stream))))
}

struct Thread {
    shard: Shard,
    machine: Machine,
    clock: Clock,
    driver: Driver,
    inbox: mpsc::Receiver<Mail>,
    mailbox: Mailbox,
    resolver: mpsc::Sender<Question>,
    node_tls: Option<Arc<NodeTls>>,
    conns: Slab<Conn>,
    /// The connection to the node of each rack.
    to_racks: Vec<Option<Id>>,
    /// Attempts to connect, by which the addresses of a name take turns.
    tries: Vec<usize>,
    pool: BufferPool,
    /// Connections with bytes to send.
    to_flush: Vec<Id>,
    span: Span,
}

/// A connection.
struct Conn {
    /// The rack of the node; a worker's has none.
    rack: Option<usize>,
    output: ByteQueue,
    is_paused: bool,
}

impl Conn {
    fn new(rack: Option<usize>) -> Conn {
        Conn { rack, output: ByteQueue::default(), is_paused: false }
    }
}

impl Thread {
    /// Serves until the process ends.
    fn run(mut self) -> io::Result<()> {
        self.machine.handle_time(self.clock.now());
        loop {
            self.act();
            while self.flush() {
                self.machine.handle_time(self.clock.now());
                self.act();
            }
            self.pace();
            *self.shard.status.lock().unwrap_or_else(PoisonError::into_inner) = self.machine.status();
            let until = self.machine.poll_deadline().since(self.clock.now());
            self.driver.wait(until.min(TURN_MAX))?;
            while self.handle_event() {}
            while let Ok(mail) = self.inbox.try_recv() {
                self.handle_mail(mail)?;
            }
            self.machine.handle_time(self.clock.now());
        }
    }

    /// Returns false if there was none.
    fn handle_event(&mut self) -> bool {
        let now = self.clock.now();
        let Thread { driver, machine, conns, to_flush, to_racks, .. } = self;
        let Some(event) = driver.next_event() else { return false };
        let rack_of = |id: Id| conns.get(id).and_then(|conn| conn.rack);
        match event {
            Event::Received(id, bytes) => match rack_of(id) {
                Some(rack) => machine.handle_rack_bytes(rack, bytes, now),
                None => machine.handle_client_bytes(id, bytes, now),
            },
            Event::Connected(id) => {
                if let Some(rack) = rack_of(id) {
                    machine.handle_connected(rack, now);
                }
            }
            Event::Writable(id) => to_flush.push(id),
            Event::Ended(id) => {
                driver.close(id);
                lose(conns, to_racks, machine, id, "the connection was closed", now);
            }
            Event::Closed(id, error) => lose(conns, to_racks, machine, id, &reason(&error), now),
        }
        true
    }

    fn handle_mail(&mut self, mail: Mail) -> io::Result<()> {
        let now = self.clock.now();
        match mail {
            Mail::Worker(stream) => {
                let id = self.conns.insert(Conn::new(None));
                self.driver.adopt_unix(id, stream)?;
                self.machine.handle_client_opened(id);
            }
            Mail::Logged { batch, is_durable } => self.machine.handle_logged(batch, is_durable, now),
            Mail::Resolved { conn, addrs } => {
                let Some(rack) = self.conns.get(conn).and_then(|conn| conn.rack) else { return Ok(()) };
                let tried = self.tries[rack];
                match addrs {
                    Ok(addrs) => match addrs.get(tried % addrs.len().max(1)) {
                        Some(addr) => self.connect_tcp(rack, conn, *addr),
                        None => self.lose(conn, "the name has no address"),
                    },
                    Err(error) => self.lose(conn, &error),
                }
            }
        }
        Ok(())
    }

    /// Does what the machine wants.
    fn act(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Connect(rack) => self.connect(rack),
                Action::Disconnect(rack) => {
                    if let Some(id) = self.to_racks[rack].take() {
                        self.driver.close(id);
                        self.conns.remove(id);
                    }
                }
                Action::ToRack(rack, bytes) => {
                    if let Some(id) = self.to_racks[rack] {
                        self.queue(id, &bytes);
                    }
                }
                Action::ToClient(id, bytes) => self.queue(id, &bytes),
                Action::CloseClient(id) => {
                    self.driver.close(id);
                    self.conns.remove(id);
                }
                Action::Log(batch, records) => self.log(batch, records),
                Action::Notice(notice) => self.tell(&notice),
            }
        }
    }

    fn queue(&mut self, id: Id, bytes: &[u8]) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.output.push(bytes, &mut self.pool);
            self.to_flush.push(id);
        }
    }

    fn log(&mut self, batch: u64, records: Vec<Record>) {
        let mailbox = self.mailbox.clone();
        // A shard that has stopped waits for nothing.
        let done = Box::new(move |is_durable| drop(mailbox.send(Mail::Logged { batch, is_durable })));
        if self.shard.log.send(Batch { shard: self.shard.number, records, done }).is_err() {
            self.machine.handle_logged(batch, false, self.clock.now());
        }
    }

    /// Begins a connection to the node in `rack`.
    fn connect(&mut self, rack: usize) {
        let id = self.conns.insert(Conn::new(Some(rack)));
        self.to_racks[rack] = Some(id);
        self.tries[rack] += 1;
        match self.shard.nodes[rack].clone() {
            Address::Unix(path) => {
                let begun = self.driver.connect(id, &Target::Unix(path));
                self.check(id, begun);
            }
            Address::Tcp { host, port } => match host.parse() {
                Ok(ip) => self.connect_tcp(rack, id, SocketAddr::new(ip, port)),
                Err(_) => {
                    let mailbox = self.mailbox.clone();
                    // A shard that has stopped does not wait for it.
                    let answer =
                        Box::new(move |addrs| drop(mailbox.send(Mail::Resolved { conn: id, addrs })));
                    let asked_at = std::time::Instant::now();
                    // The resolver lives as long as the process.
                    let _ = self.resolver.send(Question { host, port, answer, asked_at });
                }
            },
            Address::Embedded(_) | Address::Route { .. } => {
                self.lose(id, "a node of a rack is a process of its own");
            }
        }
    }

    fn connect_tcp(&mut self, rack: usize, id: Id, addr: SocketAddr) {
        let begun = match (&self.node_tls, &self.shard.nodes[rack]) {
            (Some(tls), Address::Tcp { host, .. }) => {
                self.driver.connect_tls(id, addr, &tls.connector(), tls.name_of(host))
            }
            _ => self.driver.connect(id, &Target::Tcp(addr)),
        };
        // A write of unknown outcome must not come behind later ones, when the network is back.
        self.driver.drop_unsent_on_close(id);
        self.check(id, begun);
    }

    fn check(&mut self, id: Id, begun: io::Result<()>) {
        if let Err(error) = begun {
            self.lose(id, &reason(&error));
        }
    }

    fn lose(&mut self, id: Id, reason: &str) {
        let now = self.clock.now();
        lose(&mut self.conns, &mut self.to_racks, &mut self.machine, id, reason, now);
    }

    /// Sends pending bytes, as many as the sockets take. Returns whether a connection was lost.
    fn flush(&mut self) -> bool {
        let mut is_lost = false;
        while let Some(id) = self.to_flush.pop() {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            match self.driver.send(id, conn.output.as_slice()) {
                Ok(sent) => conn.output.consume(sent, &mut self.pool),
                Err(error) => {
                    self.driver.close(id);
                    self.lose(id, &reason(&error));
                    is_lost = true;
                }
            }
        }
        is_lost
    }

    /// Stops reading from workers whose requests wait, and resumes.
    fn pace(&mut self) {
        let ids: Vec<Id> =
            self.conns.iter().filter(|(_, conn)| conn.rack.is_none()).map(|(id, _)| id).collect();
        for id in ids {
            let is_paused = !self.machine.may_read(id);
            let Some(conn) = self.conns.get_mut(id) else { continue };
            match (conn.is_paused, is_paused) {
                (false, true) => self.driver.pause(id),
                (true, false) => self.driver.resume(id),
                _ => {}
            }
            conn.is_paused = is_paused;
        }
    }

    fn tell(&self, notice: &Notice) {
        let _in_pool = self.span.enter();
        let shard = self.shard.number;
        let name = |rack: &usize| self.shard.racks[*rack].clone();
        match notice {
            Notice::Up(rack) => info!(rack = name(rack), shard, "rack up"),
            Notice::Down(rack, reason) => warn!(rack = name(rack), shard, reason, "rack down"),
            Notice::Stale(rack, reason) => warn!(rack = name(rack), shard, reason, "rack stale"),
            Notice::Trusted(rack) => warn!(rack = name(rack), shard, "rack trusted"),
            Notice::Different(key) => {
                warn!(shard, key = %key.escape_ascii(), "racks different");
            }
        }
    }
}

/// A connection is gone.
fn lose(
    conns: &mut Slab<Conn>,
    to_racks: &mut [Option<Id>],
    machine: &mut Machine,
    id: Id,
    reason: &str,
    now: Instant,
) {
    match conns.remove(id).map(|conn| conn.rack) {
        Some(Some(rack)) => {
            to_racks[rack].take_if(|known| *known == id);
            machine.handle_rack_closed(rack, reason, now);
        }
        Some(None) => machine.handle_client_closed(id),
        None => {}
    }
}
