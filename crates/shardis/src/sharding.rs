//! The service at Redis listeners: workers, their shared state, and its changes at run time.

use crate::access::Source;
use crate::admin_port::{inherited, open_admin};
use crate::args::ProxyArgs;
use crate::args::admin_tls::AdminTls;
use crate::args::listener::Place;
use crate::args::serving::{Pool, of_pool};
use crate::control::{Movable, Plan, Service};
use crate::descriptors::{ClientsMax, Granted};
use crate::discovery::{self, DiscoveryThread, Surroundings, Wishes};
use crate::embedded::Embedded;
use crate::listeners::{CannotListen, Listener, Mode, Newcomer};
use crate::log_layer::pool_span;
use crate::log_sink::say;
use crate::logging;
use crate::merged_log::MergedLog;
use crate::passed::PassedSockets;
use crate::racks::{self, RackStatus};
use crate::refused::Refused;
use crate::reload;
use crate::reload::desk::Desk;
use crate::resolver::{self, Question};
use crate::routed::RoutedClient;
use crate::secrets::Secrets;
use crate::subject::Served;
use crate::team::{Signs, Team, Workers};
use crate::transport::NodeTls;
use crate::upgrade::message::Inherited;
use crate::upgrade::predecessor::Arrived;
use crate::upgrade::successor::Courier;
use crate::usage;
use crate::wall_clock::{self, WallClock};
use crate::worker::{self, Clock, Mailbox, Message, Neighbours, PENDING_CLIENTS_MIN, Worker};
use admin::{AdminPool, Guard, ReadyShards, Setting, Statsd, Subject};
use anyhow::Result;
use driver::{Acceptor, Entry};
use gateway::Dialect;
use mirror::Tap;
use proxy::{Board, ControlJob, Limits, Notice, Process, Proxy, Reading, Reloaded, Settings, Task, Usage};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};
use store::Scratch;
use topology::Topology;
use topology::discovery::{Discovery, News};
use tracing::{Span, error, info, warn};
use users::{Registry, Users};

/// Lines that wait for the log; workers drop more.
const LOG_LINES_MAX: usize = 1024;
/// The highest age of the process's figures in INFO.
const MEASURE_EVERY: Duration = Duration::from_secs(1);
/// Descriptors of each worker for large transfers: 32 clients at once, over several nodes each.
const PINNED_DESCRIPTORS: usize = 256;
/// The least number of nodes for which descriptors are kept free, if the real one is not known yet.
const DISCOVERED_NODES: usize = 64;

/// A listener, as the control thread remembers it.
#[derive(Clone, Copy, Debug)]
struct Listened {
    /// Whether its clients speak TLS.
    is_tls: bool,
    /// The form of HTTP requests, if its clients speak HTTP.
    http: Option<Dialect>,
    /// The way in of the configuration that it serves, by its index.
    way: usize,
}

impl Listened {
    fn of(listener: &Listener) -> Listened {
        let (is_tls, http) = match listener.mode {
            Mode::Redis { is_tls, http, .. } => (is_tls, http),
            Mode::Tcp => (false, None),
        };
        Listened { is_tls, http, way: listener.way }
    }
}

/// The ways in of the configuration that `listeners` serve.
fn ways_of(listeners: &[Listened]) -> impl Iterator<Item = usize> {
    listeners.iter().map(|listener| listener.way)
}

/// The service before it runs: everything known before the first client.
pub(crate) struct ShardingPlan {
    args: ProxyArgs,
    /// The first listener, and its port; 0 if it has none.
    place: String,
    port: u16,
    listeners: Vec<Listened>,
    reading: Reading,
    registry: Arc<Registry>,
    acceptor: Option<Acceptor>,
    node_tls: Option<Arc<NodeTls>>,
    secrets: Secrets,
    topology: Arc<Topology>,
    /// The discovery, if nodes may change; the thread that runs it takes it.
    machine: Option<Discovery>,
    clock: Clock,
    /// Microseconds from 1970 to the clock's origin.
    epoch_us: u64,
    seed: u64,
    /// The admin listener, once it is open.
    admin: Option<admin::Listener>,
    admin_tls: Option<AdminTls>,
    settings: Vec<Setting>,
    /// The mirror, until it is started.
    mirror: Option<mirror::Plan>,
    /// The pool's name, if there are pools.
    name: Option<String>,
}

impl ShardingPlan {
    /// Reads the files. An error names the option and the file.
    pub(crate) fn prepare(pool: &Pool) -> Result<ShardingPlan, String> {
        let Pool { name, args, settings } = pool;
        let args: &ProxyArgs = args;
        args.routes.check_resolved()?;
        let (clock, epoch_us) = (Clock::start(), wall_clock::unix_us());
        let seed = epoch_us ^ u64::from(std::process::id()) << 32;
        let access = args.users();
        let registry = access.registry()?;
        let certificates = args.transport.load()?;
        let secrets = Secrets::read(args)?;
        Ok(ShardingPlan {
            place: String::new(),
            port: 0,
            listeners: Vec::new(),
            reading: Reading::default(),
            node_tls: args.transport.node_tls(&certificates).map(Arc::new),
            acceptor: certificates.acceptor,
            topology: Arc::new(args.topology()?),
            machine: args.discovery.machine(&secrets.node, args.transport.node_tls, seed)?,
            registry: Arc::new(registry),
            secrets,
            clock,
            epoch_us,
            seed,
            admin_tls: AdminTls::of(&args.admin.tls)?,
            admin: None,
            settings: settings.clone(),
            mirror: args.admin.mirror.wanted()?,
            name: name.clone(),
            args: args.clone(),
        })
    }

    /// Worker `number`, ready to run, and the address for its mail.
    fn worker(
        &self,
        number: usize,
        limits: &Limits,
        board: &Arc<Board>,
        neighbours: Neighbours,
    ) -> Result<(Worker, Mailbox)> {
        let args = &self.args;
        let settings = Settings {
            worker: number,
            workers: args.service.workers(),
            seed: self.seed.wrapping_add(number as u64),
            process_seed: self.seed,
            unix_epoch_us: self.epoch_us,
            process: Process {
                id: std::process::id(),
                executable: shown(std::env::current_exe().ok()),
                config_file: shown(args.file.config.clone()),
            },
            port: self.port,
            databases: args.databases(),
            allow_admin: args.allow_admin,
            cross_shard: args.cross_shard(),
            evaluator: Some(Scratch::boxed),
            transactions: args.transactions(),
            slowlog: args.admin.slowlog.slowlog(),
            reading: self.reading.clone(),
            ejecting: args.reading.ejecting(),
            authority: args.auth,
            inspects_nodes: true,
            access: args.access(ways_of(&self.listeners)),
            registry: Arc::clone(&self.registry),
            credentials: self.secrets.node.clone(),
        };
        let (topology, clock) = (Arc::clone(&self.topology), self.clock);
        let proxy =
            Proxy::new(limits.clone(), settings, Arc::clone(&topology), Arc::clone(board), clock.now());
        Ok(Worker::new(number, proxy, topology, clock, args.batching, args.service.busy_poll, neighbours)?)
    }
}

/// Ways by which operators and their programs see a service.
struct Reports {
    /// The service as operators see it.
    served: Arc<Served>,
    /// The admin listener, until it answers.
    listener: Option<admin::Listener>,
    /// A copy of its socket for the next process, with the place that was configured.
    socket: Option<(Place, OwnedFd)>,
    running: Option<admin::Running>,
    guard: Guard,
    ready: ReadyShards,
    statsd: Option<Statsd>,
    span: Span,
}

impl Reports {
    /// The reports of `plan`, which begin with [`Reports::begin`].
    fn of(plan: &mut ShardingPlan, served: Arc<Served>) -> Result<Reports> {
        let host = rustix::system::uname();
        let place = if plan.port > 0 { plan.port.to_string() } else { plan.place.clone() };
        let statsd = plan.args.admin.statsd.statsd(&host.nodename().to_string_lossy(), &place);
        let configured = plan.args.admin.place(!plan.args.has_nodes());
        let listener = plan.admin.take();
        let copy = listener.as_ref().map(admin::Listener::copy).transpose()?;
        Ok(Reports {
            served,
            socket: configured.as_ref().map(Place::of_admin).zip(copy),
            listener,
            running: None,
            guard: plan.secrets.guard.clone(),
            ready: plan.args.admin.ready_shards,
            statsd,
            span: pool_span(plan.name.as_deref()),
        })
    }

    /// Begins with them: at the admin listener, and to statsd.
    fn begin(&mut self) -> Result<()> {
        let subject = || Arc::clone(&self.served) as Arc<dyn Subject>;
        if let Some(listener) = self.listener.take() {
            let pool = AdminPool { name: None, subject: subject(), ready: self.ready };
            self.running = Some(admin::serve(listener, vec![pool], self.guard.clone())?);
        }
        if let Some(statsd) = self.statsd.take() {
            let (target, span) = (statsd.target.clone(), self.span.clone());
            admin::send_statsd(statsd, subject(), move |sent| {
                let _in_pool = span.enter();
                match sent {
                    Ok(()) => info!(target, "statsd reached"),
                    Err(error) => warn!(target, reason = worker::reason(error), "statsd unreachable"),
                }
            })?;
        }
        Ok(())
    }

    /// The socket of the admin listener of `service` for the next process.
    fn to_inherit(&self, service: &str) -> io::Result<Option<(Inherited, OwnedFd)>> {
        match &self.socket {
            Some((place, socket)) => inherited(service, place, socket),
            None => Ok(None),
        }
    }

    /// Makes `guard` the condition of requests to come at the admin listener.
    fn renew(&mut self, guard: &Guard) {
        self.guard = guard.clone();
        self.running.iter().for_each(|running| running.renew(guard.clone()));
    }

    /// Closes the admin listener.
    fn end(&mut self) {
        self.socket = None;
        self.running.take().inspect(admin::Running::stop);
    }
}

impl ShardingPlan {
    /// Starts the mirror, if one is wanted, with a tap for each worker.
    fn mirror(&mut self, workers: usize) -> Result<(Option<Arc<mirror::Status>>, Vec<Tap>)> {
        let Some(plan) = self.mirror.take() else { return Ok((None, Vec::new())) };
        let (status, span, at) = (Arc::default(), pool_span(self.name.as_deref()), plan.target.to_string());
        let report = Box::new(move |reached: Result<(), &str>| {
            let _in_pool = span.enter();
            match reached {
                Ok(()) => info!(target = at, "mirror reached"),
                Err(reason) => warn!(target = at, reason, "mirror unreachable"),
            }
        });
        let taps = mirror::start(plan, workers, &status, report)?;
        Ok((Some(status), taps))
    }
}

/// Shards that are threads of this process, and the state of their racks, if they have any.
type ShardsHere = (Option<Arc<Embedded>>, Option<Arc<RackStatus>>);

impl ShardingPlan {
    /// Starts the shards that are threads of this process: stores, or shards over racks.
    fn shards_here(&self, resolver: &mpsc::Sender<Question>) -> Result<ShardsHere> {
        let stores = self.args.embedded(self.seed).map(|settings| Embedded::start(&settings)).transpose()?;
        let (shards, racks) = self.racks(resolver)?.unzip();
        Ok((stores.or(shards).map(Arc::new), racks))
    }

    /// Starts the shards over racks, if there are any.
    fn racks(&self, resolver: &mpsc::Sender<Question>) -> Result<Option<(Embedded, Arc<RackStatus>)>> {
        let pool = self.args.rack_pool(&self.secrets.node).map_err(anyhow::Error::msg)?;
        let surroundings = racks::Surroundings {
            resolver: resolver.clone(),
            node_tls: self.node_tls.clone(),
            span: pool_span(self.name.as_deref()),
        };
        pool.map(|pool| racks::start(&pool, &surroundings)).transpose()
    }
}

/// A path as INFO shows it; empty without one.
fn shown(path: Option<PathBuf>) -> Arc<str> {
    path.map_or_else(String::new, |path| path.display().to_string()).into()
}

impl Plan for ShardingPlan {
    fn open(&mut self, passed: &mut PassedSockets) -> Result<Vec<Listener>, CannotListen> {
        let listeners = Listener::open_all(&self.args, passed)?;
        let admin = self.args.admin.place(!self.args.has_nodes());
        let condition = (&self.secrets.guard, self.admin_tls.as_ref());
        self.admin = admin.map(|place| open_admin(&place, condition, passed)).transpose()?;
        self.place = listeners.first().map(Listener::place).unwrap_or_default();
        self.port = listeners.iter().find_map(Listener::port).unwrap_or(0);
        self.listeners = listeners.iter().map(Listened::of).collect();
        let own_policy = |(listener, id): (&Listener, u16)| match listener.mode {
            Mode::Redis { read_from, .. } => Some((id, read_from?)),
            Mode::Tcp => None,
        };
        self.reading = self.args.reading.reading(listeners.iter().zip(0..).filter_map(own_policy).collect());
        Ok(listeners)
    }

    fn clients_max(&self) -> ClientsMax {
        let workers = self.args.service.workers();
        let own = workers * (PINNED_DESCRIPTORS + PENDING_CLIENTS_MIN + Limits::default().held_conns_max);
        // Discovered nodes may become a few more.
        let nodes = match self.topology.is_discovered() {
            true => DISCOVERED_NODES.max(self.topology.nodes().len()),
            false => self.topology.nodes().len(),
        };
        let (at, wanted) = (self.place.clone(), self.args.service.maxclients);
        ClientsMax { at, wanted, sockets_each: 1, nodes: workers * nodes, own }
    }

    fn describe(&self) {
        let span = pool_span(self.name.as_deref());
        let _in_pool = span.enter();
        if let Some(warning) = self.args.users().warning(&self.registry.users()) {
            warn!(reason = warning, "access open");
        }
        let name = self.name.as_deref();
        self.args.describe(&self.topology).iter().for_each(|line| say(&of_pool(name, line)));
        if let Some(listener) = &self.admin {
            say(&of_pool(name, &format!("admin at {}", listener.url())));
        }
        for remark in self.args.remarks(&self.topology) {
            warn!(reason = %remark, "option doubtful");
        }
        for shard in self.topology.shards_without_keys() {
            let name = &self.topology.shard(shard).name;
            warn!(shard = name, reason = "its weight is too small", "shard without keys");
        }
    }

    fn start(mut self: Box<Self>, granted: Granted, desk: &Desk) -> Result<Box<dyn Service>> {
        let Granted { clients_max, kept_from } = granted;
        let count = self.args.service.workers();
        let limits = self.args.limits(clients_max, count);
        let (log_sender, log) = mpsc::sync_channel(LOG_LINES_MAX);
        let (job_sender, jobs) = mpsc::channel();
        let resolver = resolver::start()?;
        let (embedded, racks) = self.shards_here(&resolver)?;
        let board = Arc::new(Board::new(count));
        let mailboxes = Arc::new(OnceLock::new());
        let surroundings = Surroundings {
            clock: self.clock,
            resolver: resolver.clone(),
            node_tls: self.node_tls.clone(),
            is_sentinel_tls: self.args.discovery.sentinel_tls,
            workers: Arc::clone(&mailboxes),
            board: Arc::clone(&board),
            zones: self.args.reading.zones(),
        };
        let new = |machine| DiscoveryThread::new(machine, Arc::clone(&self.topology), surroundings);
        let (discovery, wishes, news) = match self.machine.take().map(new).transpose()? {
            Some((thread, wishes, news)) => (Some(thread), Some(wishes), Some(news)),
            None => (None, None, None),
        };
        let exits = desk.entrances().exits(self.name.as_deref(), desk.waker());
        let (mirror, taps) = self.mirror(count)?;
        let mut taps = taps.into_iter();
        let mut workers = Vec::new();
        for number in 0..count {
            let signs = Signs::default();
            let neighbours = Neighbours {
                resolver: resolver.clone(),
                workers: Arc::clone(&mailboxes),
                embedded: embedded.clone(),
                exits: exits.clone(),
                node_tls: self.node_tls.clone(),
                discovery: wishes.clone(),
                jobs: job_sender.clone(),
                log: log_sender.clone(),
                descriptors_kept_from: kept_from,
                tap: taps.next(),
                dialects: self.listeners.iter().map(|listener| listener.http).collect(),
                signs: signs.clone(),
            };
            let (worker, mailbox) = self.worker(number, &limits, &board, neighbours)?;
            workers.push((worker, mailbox, signs));
        }
        let signs = workers.iter().map(|(_, _, signs)| signs.clone()).collect();
        mailboxes.get_or_init(|| workers.iter().map(|(_, mailbox, _)| mailbox.clone()).collect());
        let mut team = Team::new();
        for (worker, mailbox, signs) in workers {
            team.start(mailbox, signs, desk.waker(), move || worker.run())?;
        }
        discovery.map(DiscoveryThread::start).transpose()?;
        let is_draining = Arc::new(AtomicBool::new(false));
        let shown_settings = Arc::new(RwLock::new(self.settings.clone()));
        let served = Arc::new(Served {
            board: Arc::clone(&board),
            mailboxes: mailboxes.get().cloned().unwrap_or_default(),
            signs,
            settings: Arc::clone(&shown_settings),
            started_us: self.epoch_us,
            is_draining: Arc::clone(&is_draining),
            mirror,
            racks,
            desk: desk.clone(),
        });
        let reports = Reports::of(&mut self, served)?;
        let routed = desk.entrances().inbox(self.name.as_deref());
        let header = self.args.service.proxy_protocol;
        Ok(Box::new(Sharding {
            followed: Followed {
                pool: Pool { name: self.name.clone(), args: Box::new(self.args), settings: self.settings },
                settings: shown_settings,
                topology: self.topology,
                granted_max: clients_max,
                secrets: self.secrets,
            },
            admin_tls: self.admin_tls,
            entry: Entry { header, acceptor: self.acceptor, ..Entry::default() },
            listeners: self.listeners,
            routed,
            node_tls: self.node_tls,
            registry: self.registry,
            jobs,
            team,
            log,
            merged_log: MergedLog::default(),
            discovery: wishes.zip(news),
            board,
            reports,
            turned_away: TurnedAway::default(),
            measure_at: Instant::now(),
            wall_clock: WallClock::new(self.clock.origin(), self.epoch_us),
            resident_bytes_at_start: None,
            is_draining,
            span: pool_span(self.name.as_deref()),
        }))
    }
}

/// Workers that serve, as the control thread sees them.
pub(crate) struct Sharding {
    followed: Followed,
    admin_tls: Option<AdminTls>,
    /// The first steps of clients with TLS or with a PROXY header.
    entry: Entry,
    listeners: Vec<Listened>,
    /// Links of other pools whose routes lead here.
    routed: Option<mpsc::Receiver<RoutedClient>>,
    node_tls: Option<Arc<NodeTls>>,
    registry: Arc<Registry>,
    jobs: mpsc::Receiver<(usize, ControlJob)>,
    team: Team<Mailbox>,
    log: mpsc::Receiver<(usize, Notice)>,
    merged_log: MergedLog,
    /// The ways to the discovery and from it, if nodes may change.
    discovery: Option<(Wishes, mpsc::Receiver<News>)>,
    board: Arc<Board>,
    reports: Reports,
    turned_away: TurnedAway,
    /// Time of the next look at the process, for INFO, and at the wall clock.
    measure_at: Instant,
    wall_clock: WallClock,
    /// Memory of the process before any client could connect.
    resident_bytes_at_start: Option<u64>,
    is_draining: Arc<AtomicBool>,
    /// The pool in lines of the log.
    span: Span,
}

/// Clients that did not get in.
#[derive(Default)]
struct TurnedAway {
    /// Without a place.
    refused: Refused,
    /// By protected mode.
    denied: Refused,
}

/// The configuration that the workers follow.
struct Followed {
    pool: Pool,
    /// As the admin listener shows them.
    settings: Arc<RwLock<Vec<Setting>>>,
    /// The nodes of the configuration, unless they are discovered.
    topology: Arc<Topology>,
    /// Clients for which there are descriptors.
    granted_max: usize,
    /// The present secrets.
    secrets: Secrets,
}

impl Followed {
    /// Takes `pool` over, and returns its predecessor.
    fn adopt(&mut self, pool: &Pool) -> Pool {
        pool.settings.clone_into(&mut self.settings.write().unwrap_or_else(PoisonError::into_inner));
        std::mem::replace(&mut self.pool, pool.clone())
    }

    /// The limit of clients of all workers.
    fn clients_max(&self) -> usize {
        self.granted_max.min(self.pool.args.service.maxclients)
    }
}

impl Service for Sharding {
    fn subject(&self) -> Option<Arc<dyn Subject>> {
        Some(Arc::clone(&self.reports.served) as Arc<dyn Subject>)
    }

    fn give(&mut self, newcomer: Newcomer, listener: usize) {
        let is_tls = self.listeners[listener].is_tls;
        let listener = listener as u16;
        let message = match newcomer {
            Newcomer::Unix(stream, peer) => Message::AcceptUnix { stream, peer, listener },
            Newcomer::Tcp(stream, peer) => {
                let header = self.entry.header;
                let acceptor = if is_tls { self.entry.acceptor.clone() } else { None };
                let entry = (header || is_tls).then_some(Entry { header, acceptor, listener });
                Message::Accept { stream, peer, listener, entry }
            }
        };
        if let Some(mailbox) = self.team.take_client() {
            // A worker that has stopped ends the process: its clients find their connections closed.
            let _ = mailbox.send(message);
        }
    }

    fn turn(&mut self) {
        let span = self.span.clone();
        let _in_pool = span.enter();
        self.write_log();
        self.admit_routed();
        self.run_jobs();
        self.measure();
        self.team.watch(None);
    }

    /// Settings, nodes, users and certificates. An invalid file changes nothing.
    fn reload(&mut self, pool: Option<&Pool>) -> bool {
        let span = self.span.clone();
        let _in_pool = span.enter();
        if let Some(pool) = pool {
            self.follow(pool);
        }
        let (is_file, has_files) = (self.access().is_file(), self.followed.pool.args.transport.has_files());
        if is_file {
            self.reload_users();
        }
        let has_secrets = self.reload_secrets();
        let has_certificates = has_files || self.admin_tls.is_some();
        if has_certificates {
            self.reload_certificates();
        }
        is_file || has_certificates || has_secrets
    }

    fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.tell_workers(|| Message::Drain);
    }

    fn leads_to_others(&self) -> bool {
        self.followed.pool.args.routes.are_given()
    }

    fn workers(&self) -> &dyn Workers {
        &self.team
    }

    fn open_to_operators(&mut self) -> Result<()> {
        self.reports.begin()
    }

    fn close_to_operators(&mut self) {
        self.reports.end();
    }

    fn admin_socket(&self, service: &str) -> io::Result<Option<(Inherited, OwnedFd)>> {
        self.reports.to_inherit(service)
    }

    fn movable(&mut self) -> Option<&mut dyn Movable> {
        Some(self)
    }
}

impl Movable for Sharding {
    fn obstacle(&self) -> Option<&'static str> {
        let args = &self.followed.pool.args;
        match () {
            () if args.store.racks.is_given() => Some("the hint log of racks has one owner"),
            () if args.has_nodes() => None,
            () => Some("the keys are in the memory of this process"),
        }
    }

    fn nodes(&self) -> usize {
        match self.followed.topology.is_discovered() {
            true => usize::MAX,
            false => self.followed.topology.shard_count(),
        }
    }

    fn nodes_up(&self) -> usize {
        self.team.nodes_up()
    }

    fn clients_before(&self) -> u64 {
        self.board.clients_before() + self.team.given_max() as u64
    }

    fn begin_numbers_at(&self, clients: u64) {
        self.board.begin_numbers_at(clients);
    }

    fn leave(&self, courier: &Courier, first_door: usize) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.tell_workers(|| Message::Leave(courier.clone(), first_door));
    }

    fn take_over(&mut self, arrived: Arrived, listener: usize) {
        // At the worker of the same number it keeps its own.
        let number = arrived.state.client.wrapping_sub(1) % self.team.len().max(1) as u64;
        if let Some(mailbox) = self.team.take_client_at(number as usize) {
            // A worker that has stopped declines it.
            let _ = mailbox.send(Message::TakeOver { arrived, listener: listener as u16 });
        }
    }
}

impl Sharding {
    /// Follows the configuration `pool`, of which no change needs a restart.
    fn follow(&mut self, pool: &Pool) {
        let before = self.followed.adopt(pool);
        let (maxclients, wanted) = (self.followed.clients_max(), pool.args.service.maxclients);
        if maxclients < wanted && wanted != before.args.service.maxclients {
            let reason = "file descriptors are set aside at the start";
            warn!(maxclients, wanted, reason, "client limit lowered");
        }
        self.tell_settings();
        let nodes = |pool: &Pool| pool.args.spec().map(|spec| spec.nodes);
        if nodes(&before) != nodes(pool) {
            self.follow_nodes();
        }
        let access = self.access();
        if before.args.users() != access && !access.is_file() {
            self.reload_users();
        }
    }

    /// Reads the secrets again, for connections to come. Returns whether files have them.
    fn reload_secrets(&mut self) -> bool {
        let args = &self.followed.pool.args;
        let has_files = args.has_secret_files();
        let secrets = match Secrets::read(args) {
            Ok(secrets) => secrets,
            Err(error) => {
                error!(error, hint = "the old ones stay in use", "secret reload failed");
                return has_files;
            }
        };
        if secrets != self.followed.secrets {
            self.reports.renew(&secrets.guard);
            self.discovery.iter().for_each(|(wishes, _)| wishes.renew(secrets.greetings()));
            self.followed.secrets = secrets;
            self.tell_settings();
        }
        if has_files {
            info!("secrets reloaded");
        }
        has_files
    }

    /// Gives all workers the settings of the configuration, and the present secrets.
    fn tell_settings(&self) {
        let args = &self.followed.pool.args;
        let settings = Arc::new(Reloaded {
            limits: args.limits(self.followed.clients_max(), args.service.workers()),
            allow_admin: args.allow_admin,
            cross_shard: args.cross_shard(),
            slowlog: args.admin.slowlog.slowlog(),
            credentials: self.followed.secrets.node.clone(),
            access: args.access(ways_of(&self.listeners)),
        });
        self.tell_workers(|| Message::Settings(Arc::clone(&settings)));
    }

    /// Gives all workers the nodes of the configuration.
    fn follow_nodes(&mut self) {
        match reload::with_nodes_of(&self.followed.pool, &self.followed.topology) {
            Ok(topology) => {
                self.followed.topology = Arc::new(topology);
                let topology = Arc::clone(&self.followed.topology);
                let nodes = topology.nodes().iter().filter(|node| node.shard.is_some()).count();
                info!(epoch = topology.epoch(), nodes, "nodes reloaded");
                self.tell_workers(|| Message::Nodes(Arc::clone(&topology)));
            }
            Err(error) => error!(error, hint = "the old ones stay in use", "node reload failed"),
        }
    }

    fn tell_workers(&self, message: impl Fn() -> Message) {
        for mailbox in self.team.mailboxes() {
            // A worker that has stopped takes no messages.
            let _ = mailbox.send(message());
        }
    }

    fn access(&self) -> Source {
        self.followed.pool.args.users()
    }

    /// Reads the certificates again, for connections to come.
    fn reload_certificates(&mut self) {
        let transport = &self.followed.pool.args.transport;
        let admin = self.admin_tls.as_ref().map_or(Ok(None), AdminTls::load);
        match admin.and_then(|admin| Ok((admin, transport.load()?))) {
            Ok((admin, certificates)) => {
                if let (Some(admin_tls), Some(acceptor)) = (&self.admin_tls, admin) {
                    admin_tls.exchange(&acceptor);
                }
                if let Some(node_tls) = &self.node_tls {
                    node_tls.exchange(&certificates);
                }
                self.entry.acceptor = certificates.acceptor;
                info!("certificates reloaded");
            }
            Err(error) => error!(error, hint = "the old ones stay in use", "certificate reload failed"),
        }
    }

    /// Measures the process and reads the wall clock once a second.
    fn measure(&mut self) {
        let now = Instant::now();
        if self.measure_at <= now {
            self.measure_at = now + MEASURE_EVERY;
            let usage = usage::measure();
            let resident_bytes_at_start = *self.resident_bytes_at_start.get_or_insert(usage.resident_bytes);
            self.board.show_usage(Usage { resident_bytes_at_start, ..usage });
            self.tell_of_refused(now);
            self.look_at_wall_clock();
        }
    }

    /// Adjusts all times of day to the wall clock if that was set.
    fn look_at_wall_clock(&mut self) {
        let (_, step_ms) = self.wall_clock.read_ms();
        if step_ms != 0 {
            self.board.show_clock_step(self.wall_clock.step_us());
            warn!(step_ms, "wall clock set");
        }
    }

    /// Tells the log how many clients were refused.
    fn tell_of_refused(&mut self, now: Instant) {
        let counters = self.board.sum();
        self.turned_away.denied.note_total(counters.clients_denied);
        self.turned_away.refused.note_total(counters.clients_refused - counters.clients_denied);
        if let Some(clients) = self.turned_away.refused.poll(now) {
            warn!(clients, maxclients = self.followed.clients_max(), "clients refused");
        }
        if let Some(clients) = self.turned_away.denied.poll(now) {
            let reason = "protected mode: clients of other machines need a password";
            warn!(clients, reason, hint = "see --requirepass-file, --acl-file", "clients denied");
        }
    }

    fn write_log(&mut self) {
        let (now, is_tls) = (Instant::now(), self.node_tls.is_some());
        while let Ok((worker, notice)) = self.log.try_recv() {
            if self.merged_log.admits(worker, &notice, now) {
                logging::log(worker, &notice, is_tls);
            }
        }
        while let Some(news) = self.discovery.as_ref().and_then(|(_, news)| news.try_recv().ok()) {
            self.merged_log.forget_conditions();
            discovery::log(&news);
        }
    }

    /// Reads the users again, for all workers. Clients stay, except those of removed users.
    fn reload_users(&mut self) {
        match self.load_users() {
            Ok(users) => {
                info!(users = users.iter().len(), "users reloaded");
                self.tell_workers(|| Message::Users(Arc::clone(&users)));
            }
            Err(error) => error!(error, hint = "the old ones stay in use", "user reload failed"),
        }
    }

    /// Gives the links of other pools to workers.
    fn admit_routed(&mut self) {
        for RoutedClient { stream, peer, listener } in self.routed.iter().flat_map(mpsc::Receiver::try_iter) {
            if let Some(mailbox) = self.team.take_client() {
                // A worker that has stopped ends the process.
                let _ = mailbox.send(Message::AcceptUnix { stream, peer, listener });
            }
        }
    }

    /// Does what clients of workers ask of the control thread: with the file of the users, or the configuration.
    fn run_jobs(&mut self) {
        while let Ok((worker, job)) = self.jobs.try_recv() {
            let message = match job.task {
                Task::LoadUsers => {
                    let outcome = self.load_users().map_err(|error| {
                        format!(
                            "ERR {error}. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
                        )
                    });
                    Message::Loaded(job, outcome)
                }
                Task::SaveUsers => Message::Saved(job, self.save_users()),
                Task::Reload(order) => {
                    let mailbox = self.team.mailbox(worker).clone();
                    self.reports.served.desk.give(order, move |outcome| {
                        // A worker that has stopped takes no messages.
                        let _ = mailbox.send(Message::Reloaded(job, order, outcome));
                    });
                    continue;
                }
            };
            // A worker that has stopped takes no messages.
            let _ = self.team.mailbox(worker).send(message);
        }
    }

    /// Writes the users to their file. Returns whether that succeeded; the log has the error.
    fn save_users(&self) -> bool {
        let users = self.registry.users();
        let saved = self.access().save(&users);
        match &saved {
            Ok(()) => info!(users = users.iter().len(), "users saved"),
            Err(error) => error!(error, hint = "the ACL file is unchanged", "user save failed"),
        }
        saved.is_ok()
    }

    fn load_users(&self) -> Result<Arc<Users>, String> {
        let access = self.access();
        let users = access.users()?;
        if let Some(warning) = access.warning(&users) {
            warn!(reason = warning, "access open");
        }
        self.registry.set_has_file(access.is_acl_file());
        Ok(self.registry.replace(users))
    }
}
