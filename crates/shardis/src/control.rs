//! The control thread: listens, gives each client to the worker with the fewest, hears signals, writes the log.

use crate::access::Source;
use crate::args::ProxyArgs;
use crate::discovery::{self, DiscoveryThread, Surroundings};
use crate::embedded::Embedded;
use crate::listeners::{ACCEPT_PAUSE, ACCEPTS_PER_TURN_MAX, Listener, Newcomer, Next};
use crate::log_sink::say;
use crate::logging;
use crate::pace::Gather;
use crate::resolver;
use crate::transport::{NodeTls, TransportArgs};
use crate::usage;
use crate::worker::{Clock, Mailbox, Message, Neighbours, Worker};
use crate::zones::Zones;
use anyhow::{Context, Result, anyhow};
use driver::Entry;
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token, Waker};
use proxy::{
    Authority, Board, Credentials, CrossShard, Ejecting, Errand, Limits, Notice, Proxy, Reading, Settings,
    Task,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use topology::Topology;
use topology::discovery::{Discovery, News};
use tracing::{error, info, warn};
use users::{Registry, Users};

const SIGNALS: Token = Token(0);
const HANGUPS: Token = Token(1);
/// Said to SIGHUP, which must not end a process that others have told to read its files.
pub(crate) const NOTHING_TO_READ: &str = "SIGHUP: there is no file to be read again (SIGTERM ends shardis)";
const WAKER: Token = Token(2);
/// Of the first listener; the others follow.
const LISTENERS: usize = 3;

/// Lines that wait for the log; workers drop more.
const LOG_LINES_MAX: usize = 1024;
/// How old the figures of the process in INFO may be.
const MEASURE_EVERY: Duration = Duration::from_secs(1);
/// Descriptors that are not for clients: listeners, epoll, log, files, beside those for nodes.
const RESERVED_DESCRIPTORS: u64 = 64;
/// Descriptors of each worker for large transfers: 32 clients at once, over several nodes each.
const PINNED_DESCRIPTORS: usize = 256;
/// Nodes for which descriptors are kept free at least, if it is not known yet how many there are.
const DISCOVERED_NODES: usize = 64;
/// But no more than this part of all descriptors, with those for clients that watch or wait.
const OWN_PART: u64 = 8;

/// Runs the proxy until it is told to stop.
pub(crate) fn run(args: &ProxyArgs) -> Result<()> {
    logging::start(args.log_level).context("the thread that writes the log")?;
    let topology = Arc::new(args.topology().map_err(|error| anyhow!(error))?);
    let access = args.users();
    let registry = access.registry().map_err(|error| anyhow!(error))?;
    if let Some(warning) = access.warning(&registry.users()) {
        warn!("{warning}");
    }
    let certificates = args.transport.load().map_err(|error| anyhow!(error))?;
    let listeners = Listener::open_all(args)?;
    let workers = args.workers();
    let own = workers * (PINNED_DESCRIPTORS + Limits::default().held_conns_max);
    // Of nodes that are to be discovered there may be some more.
    let nodes = match topology.is_discovered() {
        true => DISCOVERED_NODES.max(topology.nodes().len()),
        false => topology.nodes().len(),
    };
    let wanted = ClientsMax { wanted: args.maxclients, sockets_each: 1, nodes: workers * nodes, own };
    let clients_max = wanted.granted();
    let epoch_us = unix_time_us();
    let seed = epoch_us ^ u64::from(std::process::id()) << 32;
    let embedded = args.embedded(seed);
    let credentials = args.credentials().map_err(|error| anyhow!(error))?;
    let machine = args.discovery.machine(&credentials, args.transport.node_tls, seed);
    let machine = machine.map_err(|error| anyhow!(error))?;
    announce(&listeners, workers);
    match args.discovery.is_given() {
        true => say(&args.discovery.describe()),
        false => describe(&topology, embedded.is_some()),
    }
    let own_policies = listeners.iter().zip(0..).filter_map(|(listener, id)| Some((id, listener.read_from?)));
    let mut plan = Plan {
        port: listeners.iter().find_map(Listener::port).unwrap_or(0),
        node_tls: args.transport.node_tls(&certificates).map(Arc::new),
        transport: args.transport.clone(),
        entry: Entry {
            header: args.transport.proxy_protocol,
            acceptor: certificates.acceptor,
            ..Entry::default()
        },
        workers,
        limits: args.limits(clients_max, workers),
        gather: args.gather,
        databases: args.databases(),
        allow_admin: args.allow_admin,
        cross_shard: args.cross_shard,
        reading: args.reading.reading(own_policies.collect()),
        ejecting: args.reading.ejecting(),
        zones: args.reading.zones(),
        access,
        authority: args.auth,
        registry: Arc::new(registry),
        credentials,
        topology,
        machine,
        is_sentinel_tls: args.discovery.sentinel_tls,
        embedded: embedded.map(|settings| Embedded::start(&settings)).transpose()?.map(Arc::new),
        clock: Clock::start(),
        epoch_us,
        seed,
    };
    let mut control = Control::start(listeners, &mut plan)?;
    control.serve()?;
    control.drain(args.drain_timeout());
    Ok(())
}

/// Where it listens, for whoever started it.
fn announce(listeners: &[Listener], workers: usize) {
    let version = env!("CARGO_PKG_VERSION");
    let places: Vec<String> = listeners.iter().map(Listener::to_string).collect();
    say(&format!("shardis {version} listens on {} ({workers} worker{})", places.join(", "), plural(workers)));
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// What it serves.
fn describe(topology: &Topology, embedded: bool) {
    const NAMED_MAX: usize = 8;
    let shards = topology.shards();
    let mut names: Vec<&str> = shards.iter().take(NAMED_MAX).map(|shard| shard.name.as_str()).collect();
    if shards.len() > NAMED_MAX {
        names.push("…");
    }
    let (count, how) = (shards.len(), topology.describe());
    if embedded {
        let plural = plural(count);
        say(&format!(
            "serves {count} shard{plural} of its own memory ({how}); their data is lost when it ends"
        ));
        say("to serve redis-servers instead, name them: --nodes=127.0.0.1:6379,…");
        return;
    }
    say(&format!("shards over {count} node{} ({how}): {}", plural(count), names.join(" ")));
    for shard in topology.shards_without_keys() {
        let name = &topology.shard(shard).name;
        warn!(shard = name, "this node will own no key: it weighs too little beside the others");
    }
}

/// How many clients there are to be, and what they need beside their own sockets.
pub(crate) struct ClientsMax {
    /// As the operator wants it.
    pub wanted: usize,
    /// Descriptors for each client.
    pub sockets_each: u64,
    /// Connections to nodes that clients share.
    pub nodes: usize,
    /// More that single clients have for a while, as far as that leaves clients most of all descriptors.
    pub own: usize,
}

impl ClientsMax {
    /// Raises the limit of descriptors as far as it goes and returns how many clients fit under it.
    pub(crate) fn granted(&self) -> usize {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let own = maximum.map_or(self.own as u64, |maximum| (self.own as u64).min(maximum / OWN_PART));
        let reserved = RESERVED_DESCRIPTORS + self.nodes as u64 + own;
        let needed = self.wanted as u64 * self.sockets_each + reserved;
        if let Some(now) = current.filter(|&now| now < needed) {
            let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
            let granted = match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
                Ok(()) => raised,
                Err(_) => now,
            };
            let fit = (granted.saturating_sub(reserved) / self.sockets_each).max(1) as usize;
            if fit < self.wanted {
                warn!(
                    maxclients = fit,
                    wanted = self.wanted,
                    descriptors = granted,
                    "the limit of file descriptors allows fewer clients"
                );
                return fit;
            }
        }
        self.wanted
    }
}

/// What is to run.
struct Plan {
    /// The first listener's; 0 if it has none.
    port: u16,
    transport: TransportArgs,
    /// What clients with TLS, or with a PROXY header, do first.
    entry: Entry,
    node_tls: Option<Arc<NodeTls>>,
    workers: usize,
    limits: Limits,
    gather: Gather,
    databases: u16,
    allow_admin: bool,
    cross_shard: CrossShard,
    reading: Reading,
    ejecting: Option<Ejecting>,
    zones: Zones,
    access: Source,
    authority: Authority,
    registry: Arc<Registry>,
    credentials: Credentials,
    topology: Arc<Topology>,
    /// What discovers others, if they may change; taken by the one who starts it.
    machine: Option<Discovery>,
    is_sentinel_tls: bool,
    embedded: Option<Arc<Embedded>>,
    clock: Clock,
    /// Microseconds from 1970 to the clock's origin.
    epoch_us: u64,
    seed: u64,
}

impl Plan {
    /// Worker `number`, ready to run, and the address for its mail.
    fn worker(&self, number: usize, board: &Arc<Board>, neighbours: Neighbours) -> Result<(Worker, Mailbox)> {
        let settings = Settings {
            worker: number,
            workers: self.workers,
            seed: self.seed.wrapping_add(number as u64),
            process_seed: self.seed,
            unix_epoch_us: self.epoch_us,
            process_id: std::process::id(),
            port: self.port,
            databases: self.databases,
            allow_admin: self.allow_admin,
            cross_shard: self.cross_shard,
            reading: self.reading.clone(),
            ejecting: self.ejecting,
            authority: self.authority,
            registry: Arc::clone(&self.registry),
            credentials: self.credentials.clone(),
        };
        let (topology, clock) = (Arc::clone(&self.topology), self.clock);
        let proxy =
            Proxy::new(self.limits.clone(), settings, Arc::clone(&topology), Arc::clone(board), clock.now());
        Ok(Worker::new(number, proxy, topology, clock, self.gather, neighbours)?)
    }
}

/// Microseconds since 1970.
fn unix_time_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// The control thread's state.
struct Control {
    poll: Poll,
    listeners: Vec<Listener>,
    signals: UnixStream,
    /// Where SIGHUP shows: what there is to read is read again then.
    hangups: UnixStream,
    access: Source,
    transport: TransportArgs,
    entry: Entry,
    node_tls: Option<Arc<NodeTls>>,
    registry: Arc<Registry>,
    errands: mpsc::Receiver<(usize, Errand)>,
    workers: Vec<Handle>,
    log: mpsc::Receiver<(usize, Notice)>,
    /// What the discovery has to say.
    news: Option<mpsc::Receiver<News>>,
    /// Accepting is tried again then, after there was no descriptor left.
    accept_at: Option<Instant>,
    board: Arc<Board>,
    /// The process is looked at then, for INFO.
    measure_at: Instant,
}

/// A worker as the control thread sees it.
struct Handle {
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
    /// Clients that were ever given to it.
    given: usize,
    /// Clients of it that have gone.
    gone: Arc<AtomicUsize>,
}

impl Control {
    /// Starts the workers and listens for signals.
    fn start(mut listeners: Vec<Listener>, plan: &mut Plan) -> Result<Control> {
        let poll = Poll::new()?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(LISTENERS + index))?;
        }
        let signals = signal_pipe(&poll, &[SIGTERM, SIGINT], SIGNALS)?;
        let hangups = signal_pipe(&poll, &[SIGHUP], HANGUPS)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (log_sender, log) = mpsc::sync_channel(LOG_LINES_MAX);
        let (errand_sender, errands) = mpsc::channel();
        let resolver = resolver::start()?;
        let board = Arc::new(Board::new(plan.workers));
        let mailboxes = Arc::new(OnceLock::new());
        let surroundings = Surroundings {
            clock: plan.clock,
            resolver: resolver.clone(),
            node_tls: plan.node_tls.clone(),
            is_sentinel_tls: plan.is_sentinel_tls,
            workers: Arc::clone(&mailboxes),
            board: Arc::clone(&board),
            zones: plan.zones.clone(),
        };
        let new = |machine| DiscoveryThread::new(machine, Arc::clone(&plan.topology), surroundings);
        let (discovery, wishes, news) = match plan.machine.take().map(new).transpose()? {
            Some((thread, wishes, news)) => (Some(thread), Some(wishes), Some(news)),
            None => (None, None, None),
        };
        let mut workers = Vec::new();
        for number in 0..plan.workers {
            let gone = Arc::new(AtomicUsize::new(0));
            let neighbours = Neighbours {
                resolver: resolver.clone(),
                workers: Arc::clone(&mailboxes),
                embedded: plan.embedded.clone(),
                node_tls: plan.node_tls.clone(),
                discovery: wishes.clone(),
                errands: errand_sender.clone(),
                log: log_sender.clone(),
                clients_gone: Arc::clone(&gone),
            };
            let (worker, mailbox) = plan.worker(number, &board, neighbours)?;
            workers.push((worker, mailbox, gone));
        }
        mailboxes.get_or_init(|| workers.iter().map(|(_, mailbox, _)| mailbox.clone()).collect());
        let mut handles = Vec::new();
        for (number, (worker, mailbox, gone)) in workers.into_iter().enumerate() {
            let thread = spawn(number, worker, Arc::clone(&waker))?;
            handles.push(Handle { mailbox, thread: Some(thread), given: 0, gone });
        }
        discovery.map(DiscoveryThread::start).transpose()?;
        Ok(Control {
            poll,
            listeners,
            signals,
            hangups,
            transport: plan.transport.clone(),
            entry: plan.entry.clone(),
            node_tls: plan.node_tls.clone(),
            access: plan.access.clone(),
            registry: Arc::clone(&plan.registry),
            errands,
            workers: handles,
            log,
            news,
            accept_at: None,
            board,
            measure_at: Instant::now(),
        })
    }

    /// Accepts clients until a signal comes.
    fn serve(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(16);
        loop {
            self.wait(&mut events, LOG_PERIOD)?;
            let retry = self.accept_at.is_some_and(|at| at <= Instant::now());
            if retry || events.iter().any(|event| event.token().0 >= LISTENERS) {
                self.accept();
            }
            self.write_log();
            self.run_errands();
            self.measure();
            if has_bytes(&mut self.hangups) {
                self.reload();
            }
            if has_bytes(&mut self.signals) {
                return Ok(());
            }
            if self.workers.iter().any(Handle::has_stopped) {
                return Err(anyhow!("a worker has stopped; see the log"));
            }
        }
    }

    fn wait(&mut self, events: &mut Events, timeout: Duration) -> Result<()> {
        let timeout = if self.accept_at.is_some() { timeout.min(ACCEPT_PAUSE) } else { timeout };
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error).context("waiting for clients"),
            _ => Ok(()),
        }
    }

    /// Accepts what waits, up to a bound; then others have their turn.
    fn accept(&mut self) {
        self.accept_at = None;
        for index in 0..self.listeners.len() {
            if !self.accept_at_listener(index) {
                // There may be more, and the listener will not say so again.
                self.accept_at.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Accepts at one listener. False if there may be more.
    fn accept_at_listener(&mut self, index: usize) -> bool {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            match self.listeners[index].accept() {
                Next::Newcomer(newcomer) => self.give(newcomer, index),
                Next::Gone => {}
                Next::Nobody => return true,
                Next::Later(at) => {
                    self.accept_at = Some(at);
                    return false;
                }
            }
        }
        false
    }

    /// Gives a client of the listener `index` to the worker that has the fewest.
    fn give(&mut self, newcomer: Newcomer, index: usize) {
        let listener = index as u16;
        let message = match newcomer {
            Newcomer::Unix(stream, peer) => Message::AcceptUnix { stream, peer, listener },
            Newcomer::Tcp(stream, peer) => {
                let (header, is_tls) = (self.entry.header, self.listeners[index].is_tls);
                let acceptor = if is_tls { self.entry.acceptor.clone() } else { None };
                let entry = (header || is_tls).then_some(Entry { header, acceptor, listener });
                Message::Accept { stream, peer, listener, entry }
            }
        };
        if let Some(handle) = self.workers.iter_mut().min_by_key(|handle| handle.clients()) {
            handle.given += 1;
            // A worker that has stopped ends the process: the client finds its connection closed.
            let _ = handle.mailbox.send(message);
        }
    }

    /// Reads again what is in files: users, certificates. What is of no use is refused as a whole, and is as before.
    fn reload(&mut self) {
        if self.access.is_file() {
            self.reload_users();
        }
        if self.transport.has_files() {
            self.reload_certificates();
        }
        if !self.access.is_file() && !self.transport.has_files() {
            info!("{NOTHING_TO_READ}");
        }
    }

    /// Reads the certificates again, for connections to come.
    fn reload_certificates(&mut self) {
        match self.transport.load() {
            Ok(certificates) => {
                if let Some(node_tls) = &self.node_tls {
                    node_tls.exchange(&certificates);
                }
                self.entry.acceptor = certificates.acceptor;
                info!("certificates were read again");
            }
            Err(error) => error!(error, "certificates could not be read again and are as before"),
        }
    }

    /// Once a second: what the process takes of the machine.
    fn measure(&mut self) {
        let now = Instant::now();
        if self.measure_at <= now {
            self.measure_at = now + MEASURE_EVERY;
            self.board.show_usage(usage::measure());
        }
    }

    fn write_log(&mut self) {
        while let Ok((worker, notice)) = self.log.try_recv() {
            logging::log(worker, &notice);
        }
        while let Some(news) = self.news.as_ref().and_then(|news| news.try_recv().ok()) {
            discovery::log(&news);
        }
    }

    /// Reads the users again, for all workers. Clients stay, but for those whose user is gone.
    fn reload_users(&mut self) {
        match self.load_users() {
            Ok(users) => {
                info!(users = users.iter().len(), "users were read again");
                for handle in &self.workers {
                    // A worker that has stopped has no clients.
                    let _ = handle.mailbox.send(Message::Users(Arc::clone(&users)));
                }
            }
            Err(error) => error!(error, "users could not be read again and are as before"),
        }
    }

    /// Reads and writes the file of the users for workers whose clients ask for it.
    fn run_errands(&mut self) {
        while let Ok((worker, errand)) = self.errands.try_recv() {
            let message = match errand.task {
                Task::LoadUsers => {
                    let outcome = self.load_users().map_err(|error| {
                        format!(
                            "ERR {error}. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
                        )
                    });
                    Message::Loaded(errand, outcome)
                }
                Task::SaveUsers => Message::Saved(errand, self.save_users()),
            };
            // A worker that has stopped has nobody to tell.
            let _ = self.workers[worker].mailbox.send(message);
        }
    }

    /// Writes the users to their file. Whether that went well; if not, the log tells.
    fn save_users(&self) -> bool {
        let users = self.registry.users();
        let saved = self.access.save(&users);
        match &saved {
            Ok(()) => info!(users = users.iter().len(), "users were written to the ACL file"),
            Err(error) => error!(error, "users could not be written to the ACL file, which is as before"),
        }
        saved.is_ok()
    }

    fn load_users(&self) -> Result<Arc<Users>, String> {
        let users = self.access.users()?;
        if let Some(warning) = self.access.warning(&users) {
            warn!("{warning}");
        }
        Ok(self.registry.replace(users))
    }

    /// Stops accepting and waits until all workers are done, the time is up, or another signal comes.
    fn drain(mut self, timeout: Duration) {
        info!("draining: no new clients; a second signal ends at once");
        self.listeners.clear();
        for handle in &self.workers {
            // A worker that has stopped has nothing to drain.
            let _ = handle.mailbox.send(Message::Drain);
        }
        let deadline = Instant::now() + timeout;
        let mut events = Events::with_capacity(16);
        while self.workers.iter().any(|handle| !handle.has_stopped()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                warn!("not everything was finished in time");
                return;
            }
            if self.wait(&mut events, left.min(LOG_PERIOD)).is_err() || has_bytes(&mut self.signals) {
                warn!("ended at once");
                return;
            }
            self.write_log();
        }
        for handle in &mut self.workers {
            if let Some(thread) = handle.thread.take() {
                // A worker's panic aborts the process; there is nothing left to hear.
                let _ = thread.join();
            }
        }
        self.write_log();
    }
}

/// How long a line may wait for the log.
const LOG_PERIOD: Duration = Duration::from_millis(100);

impl Handle {
    /// How many clients it has now.
    fn clients(&self) -> usize {
        self.given.saturating_sub(self.gone.load(Ordering::Relaxed))
    }

    fn has_stopped(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Starts a worker's thread. When it ends, the control thread is woken.
fn spawn(number: usize, worker: Worker, waker: Arc<Waker>) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(format!("worker-{number}"));
    let run = move || {
        if let Err(error) = worker.run() {
            error!(worker = number, %error, "worker failed");
        }
        // Fails only if the control thread is gone.
        let _ = waker.wake();
    };
    thread.spawn(run).context("starting a worker")
}

/// Whether something came on a stream of signals since the last call.
pub(crate) fn has_bytes(stream: &mut UnixStream) -> bool {
    let mut bytes = [0; 16];
    matches!(stream.read(&mut bytes), Ok(count) if count > 0)
}

/// A stream that becomes readable when one of `signals` comes.
pub(crate) fn signal_pipe(poll: &Poll, signals: &[i32], token: Token) -> Result<UnixStream> {
    let (reader, writer) = std::os::unix::net::UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for &signal in signals {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    let mut reader = UnixStream::from_std(reader);
    poll.registry().register(&mut reader, token, Interest::READABLE)?;
    Ok(reader)
}
