//! The control thread: accepts clients for all services of the process, hears signals, writes the log.
//!
//! ```text
//!     listener ─► control ─► service ─► the worker with the fewest clients
//!     signals ──────┘
//! ```
//!
//! The control thread does not know the services: those are `sharding.rs` (requests of Redis) and `tcp/passing.rs` (bytes).

mod reload;
mod upgrade;

use crate::admin_port::{AdminPort, AdminServer};
use crate::args::serving::Pool;
use crate::args::{Serving, VERSION, route};
use crate::descriptors::{self, ClientsMax, Granted};
use crate::listeners::{ACCEPT_PAUSE, ACCEPTS_PER_TURN_MAX, CannotListen, Listener, Newcomer, Next};
use crate::log_sink::say;
use crate::logging;
use crate::nutcracker::{PidFile, StatsPort, StatsServer};
use crate::passed::PassedSockets;
use crate::reload::desk::{Desk, Order};
use crate::reload::kept::Kept;
use crate::routed::Entrances;
use crate::sharding::ShardingPlan;
use crate::systemd::Systemd;
use crate::tcp::PassingPlan;
use crate::team::Workers;
use crate::upgrade::message::Inherited;
use crate::upgrade::predecessor::{Arrived, Predecessor};
use crate::upgrade::program::Program;
use crate::upgrade::successor::Courier;
use crate::wall_clock;
use admin::{AdminPool, Subject};
use anyhow::{Context, Result, anyhow};
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token, Waker};
use proxy::ReloadOrder;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tracing::{info, warn};
use upgrade::Upgrade;

const SIGNALS: Token = Token(0);
const HANGUPS: Token = Token(1);
const WAKER: Token = Token(2);
const UNUSED: Token = Token(3);
const UPGRADES: Token = Token(4);
/// Of the first listener; the others follow.
const LISTENERS: usize = 5;

/// The longest delay of a log line.
const LOG_PERIOD: Duration = Duration::from_millis(100);

/// Shortest time between two log lines about failed accepts.
const PAUSED_TOLD_EVERY: Duration = Duration::from_secs(10);

/// Advice about a configuration that is not used.
const KEPT: &str = "the old configuration stays in use";

/// A service before it runs.
pub(crate) trait Plan {
    /// Its listeners, which clients can connect to from now on. Sockets of `passed` take the places of their addresses.
    fn open(&mut self, passed: &mut PassedSockets) -> Result<Vec<Listener>, CannotListen>;
    /// The limit of its clients.
    fn clients_max(&self) -> ClientsMax;
    /// Describes the service to the operator.
    fn describe(&self);
    /// Starts its workers, for as many clients as are `granted`. When one ends, the waker of `desk` is woken.
    fn start(self: Box<Self>, granted: Granted, desk: &Desk) -> Result<Box<dyn Service>>;
}

/// A service for clients: its workers.
pub(crate) trait Service {
    /// Takes over a client, which came by its listener `listener`.
    fn give(&mut self, newcomer: Newcomer, listener: usize);
    /// Does periodic work: the log, control jobs of workers. Called ten times a second or more.
    fn turn(&mut self);
    /// Follows `pool`, the configuration of a pool, and reads its files again. False if there are none.
    fn reload(&mut self, pool: Option<&Pool>) -> bool;
    /// Lets workers finish requests in flight, and end.
    fn drain(&self);
    /// Whether its requests go to other services of this process.
    fn leads_to_others(&self) -> bool;
    /// Its workers.
    fn workers(&self) -> &dyn Workers;
    /// The service as operators see it, if they do.
    fn subject(&self) -> Option<Arc<dyn Subject>>;
    /// Opens the admin listener, and begins with reports.
    fn open_to_operators(&mut self) -> Result<()>;
    /// Closes the admin listener.
    fn close_to_operators(&mut self);
    /// The socket of the admin listener for the next process, which knows the service by this name.
    fn admin_socket(&self, service: &str) -> io::Result<Option<(Inherited, OwnedFd)>>;
    /// The service as one whose clients another process can take over; `None` if none can.
    fn movable(&mut self) -> Option<&mut dyn Movable>;
}

/// A service whose clients another process can take over.
pub(crate) trait Movable {
    /// Why this service cannot be upgraded.
    fn obstacle(&self) -> Option<&'static str>;
    /// The primaries that are configured, or may be discovered.
    fn nodes(&self) -> usize;
    /// The primaries that every worker reaches.
    fn nodes_up(&self) -> usize;
    /// The number of clients that each worker may have numbered.
    fn clients_before(&self) -> u64;
    /// Numbers clients behind those of another process.
    fn begin_numbers_at(&self, clients: u64);
    /// Lets clients leave by `courier`. The service's first listener has the number `first_door`.
    fn leave(&self, courier: &Courier, first_door: usize);
    /// Takes over a client, which came by its listener `listener`.
    fn take_over(&mut self, arrived: Arrived, listener: usize);
}

/// Serves until a signal stops it.
pub(crate) fn run(serving: Serving) -> Result<()> {
    let program = Program::of_this_process()?;
    let (predecessor, mut passed) = match Predecessor::of_environment().map_err(|error| anyhow!(error))? {
        Some((predecessor, sockets)) => {
            let sockets = PassedSockets::inherited(sockets).map_err(|error| anyhow!(error))?;
            (Some(predecessor), sockets)
        }
        None => (None, PassedSockets::from_environment().map_err(|error| anyhow!(error))?),
    };
    logging::start(serving.log.0, serving.log.1, serving.files.log.as_deref()).context("the log")?;
    let mut plans: Vec<Box<dyn Plan>> = Vec::new();
    for pool in &serving.pools {
        plans.push(Box::new(ShardingPlan::prepare(pool).map_err(|error| anyhow!(error))?));
    }
    for args in &serving.tcp {
        plans.push(Box::new(PassingPlan::prepare(args).map_err(|error| anyhow!(error))?));
    }
    let stats = StatsPort::open(serving.nutcracker_stats, &mut passed)?;
    let admin = AdminPort::open(serving.admin.as_deref(), &mut passed)?;
    let doors = open_doors(&serving, &mut plans, &mut passed)?;
    let pid_file = if predecessor.is_some() { None } else { PidFile::write(&serving.files)? };
    let wanted: Vec<ClientsMax> = plans.iter().map(|plan| plan.clients_max()).collect();
    let granted = descriptors::granted(&wanted);
    let places: Vec<String> = doors.iter().map(|door: &Door| door.listener.to_string()).collect();
    // A signal may come as soon as the log says that shardis listens.
    let announcement = serving.announcement(&places);
    let systemd = Systemd::of_environment(announcement.clone(), Instant::now());
    let mut control = Control::new(serving, doors, systemd, program)?;
    control.pid_file = pid_file;
    say(&format!("shardis {VERSION} {announcement}"));
    let left_out = control.serving.left_out.iter();
    left_out.for_each(|option| say(&format!("not carried over: {option}")));
    plans.iter().for_each(|plan| plan.describe());
    stats.describe();
    admin.describe();

    for (plan, granted) in plans.into_iter().zip(granted) {
        control.services.push(plan.start(granted, &control.desk)?);
    }
    if let Some(predecessor) = predecessor {
        control.take_the_place_of(predecessor)?;
    }
    for service in &mut control.services {
        service.open_to_operators()?;
    }
    let subjects: Vec<Arc<dyn Subject>> =
        control.services.iter().filter_map(|service| service.subject()).collect();
    let of_admin = |(pool, subject): (&Pool, &Arc<dyn Subject>)| AdminPool {
        name: pool.name.clone(),
        subject: Arc::clone(subject),
        ready: pool.args.admin.ready_shards,
    };
    control.admin = admin.start(control.serving.pools.iter().zip(&subjects).map(of_admin).collect())?;
    control.stats = stats.start(&control.serving, subjects, control.doors.len())?;
    control.systemd.show_ready();
    match control.serve()? {
        End::Stopped => control.drain(),
        End::Upgraded(courier) => control.let_clients_leave(&courier),
    }
    logging::report_suppressed(Instant::now(), true);
    Ok(())
}

/// Opens all listeners. Sockets that were passed take the places of their addresses.
fn open_doors(
    serving: &Serving,
    plans: &mut [Box<dyn Plan>],
    passed: &mut PassedSockets,
) -> Result<Vec<Door>> {
    let mut doors = Vec::new();
    for (service, (plan, name)) in plans.iter_mut().zip(serving.service_names()).enumerate() {
        passed.begin(&name);
        let listeners = plan.open(passed).map_err(|error| anyhow!(serving.explain(&error)))?;
        let doors_of = listeners.into_iter().enumerate();
        doors.extend(doors_of.map(|(number, listener)| Door { listener, service, number }));
    }
    passed.check_all_taken().map_err(|error| anyhow!(error))?;
    Ok(doors)
}

/// Why the control thread accepts no more clients.
enum End {
    /// A signal came.
    Stopped,
    /// The next process accepts them. The present ones leave by this way.
    Upgraded(Courier),
}

/// The ending of a noun after `count`.
pub(crate) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A listener, and the service of its clients.
struct Door {
    listener: Listener,
    /// By its place among the services.
    service: usize,
    /// By which of its listeners they came.
    number: usize,
}

/// The control thread's state.
struct Control {
    /// The configuration that holds.
    serving: Serving,
    poll: Poll,
    /// Woken by workers that end.
    waker: Arc<Waker>,
    /// Where other threads give orders, and these.
    desk: Desk,
    orders: mpsc::Receiver<Order>,
    /// The last configurations.
    kept: Kept,
    doors: Vec<Door>,
    services: Vec<Box<dyn Service>>,
    systemd: Systemd,
    signals: UnixStream,
    /// Receives SIGHUP: files are read again then.
    hangups: UnixStream,
    /// Receives signals that would end a process without a handler, and that mean nothing here.
    unused: UnixStream,
    /// Receives SIGUSR2, which begins an upgrade.
    upgrades: UnixStream,
    upgrade: Upgrade,
    stats: StatsServer,
    admin: AdminServer,
    pid_file: Option<PidFile>,
    /// Time of the next attempt to accept: no descriptor was left, or clients beyond one turn may wait.
    accept_at: Option<Instant>,
    /// Time of the last log line about a pause.
    paused_told_at: Option<Instant>,
}

impl Control {
    /// Listens for clients and signals, without accepting any yet.
    fn new(serving: Serving, mut doors: Vec<Door>, systemd: Systemd, program: Program) -> Result<Control> {
        let poll = Poll::new()?;
        for (index, door) in doors.iter_mut().enumerate() {
            door.listener.register(poll.registry(), Token(LISTENERS + index))?;
        }
        let signals = signal_pipe(&poll, &[SIGTERM, SIGINT], SIGNALS)?;
        let hangups = signal_pipe(&poll, &[SIGHUP], HANGUPS)?;
        let unused = signal_pipe(&poll, &[SIGUSR1], UNUSED)?;
        let upgrades = signal_pipe(&poll, &[SIGUSR2], UPGRADES)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (desk, orders) = Desk::new(&waker);
        let desk = desk.with_entrances(entrances(&serving.pools));
        let kept = Kept::new(&serving, wall_clock::unix_us() as f64 / 1e6);
        desk.show(kept.shown());
        Ok(Control {
            serving,
            poll,
            waker,
            desk,
            orders,
            kept,
            doors,
            services: Vec::new(),
            systemd,
            signals,
            hangups,
            unused,
            upgrades,
            upgrade: Upgrade::new(program),
            stats: StatsServer::default(),
            admin: AdminServer::default(),
            pid_file: None,
            accept_at: None,
            paused_told_at: None,
        })
    }

    /// Accepts clients until a signal comes, or the next process accepts them.
    fn serve(&mut self) -> Result<End> {
        let mut events = Events::with_capacity(16);
        loop {
            self.wait(&mut events, LOG_PERIOD)?;
            let retry = self.accept_at.is_some_and(|at| at <= Instant::now());
            if retry || events.iter().any(|event| event.token().0 >= LISTENERS) {
                self.accept();
            }
            self.services.iter_mut().for_each(|service| service.turn());
            logging::report_suppressed(Instant::now(), false);
            if has_bytes(&mut self.hangups) {
                self.carry_out(ReloadOrder::Follow);
            }
            self.carry_out_orders();
            if has_bytes(&mut self.unused) {
                info!(
                    signal = "SIGUSR1",
                    hint = "SIGTERM drains and ends, SIGHUP reloads files, SIGUSR2 upgrades",
                    "signal ignored"
                );
            }
            if has_bytes(&mut self.signals) {
                return Ok(End::Stopped);
            }
            self.receive_clients();
            if has_bytes(&mut self.upgrades) {
                // The log says what speaks against it.
                let _ = self.begin_upgrade();
            }
            if let Some(courier) = self.go_on_with_upgrade() {
                return Ok(End::Upgraded(courier));
            }
            if self.services.iter().any(|service| service.workers().have_lost_one()) {
                return Err(anyhow!("a worker has stopped; see the log"));
            }
        }
    }

    fn wait(&mut self, events: &mut Events, timeout: Duration) -> Result<()> {
        let timeout = if self.accept_at.is_some() { timeout.min(ACCEPT_PAUSE) } else { timeout };
        let now = Instant::now();
        self.systemd.poll(now);
        let timeout = self.systemd.within(timeout, now);
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error).context("waiting for clients"),
            _ => Ok(()),
        }
    }

    /// Accepts waiting clients, up to a bound; then other work has its turn.
    fn accept(&mut self) {
        self.accept_at = None;
        for index in 0..self.doors.len() {
            if !self.accept_at_door(index) {
                // More clients may wait, and the listener will not report them again.
                self.accept_at.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Accepts at one listener. False if there may be more.
    fn accept_at_door(&mut self, index: usize) -> bool {
        let Door { listener, service, number } = &self.doors[index];
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            match listener.accept() {
                Next::Newcomer(newcomer) => self.services[*service].give(newcomer, *number),
                Next::Gone => {}
                Next::Nobody => return true,
                Next::Later(error) => {
                    self.pause(&error);
                    return false;
                }
            }
        }
        false
    }

    /// Stops accepting clients for a while, for this reason. The log gets one line for a hundred attempts.
    fn pause(&mut self, error: &std::io::Error) {
        let now = Instant::now();
        self.accept_at = Some(now + ACCEPT_PAUSE);
        if self.paused_told_at.is_none_or(|at| now.duration_since(at) >= PAUSED_TOLD_EVERY) {
            self.paused_told_at = Some(now);
            warn!(%error, "accept failed");
        }
    }

    /// Stops accepting and waits until all workers are done, the time is up, or another signal comes.
    fn drain(mut self) {
        let timeout = self.serving.drain_timeout;
        info!(hint = "a second signal ends at once", "drain started");
        self.systemd.show_stopping();
        self.doors.clear();
        let deadline = Instant::now() + timeout;
        let mut events = Events::with_capacity(16);
        self.drain_services(true);
        let mut are_all_draining = false;
        while !self.services.iter().all(|service| service.workers().have_ended()) {
            let mut leading = self.services.iter().filter(|service| service.leads_to_others());
            if !are_all_draining && leading.all(|service| service.workers().have_ended()) {
                self.drain_services(false);
                are_all_draining = true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let clients: usize = self.services.iter().map(|service| service.workers().clients()).sum();
                warn!(clients, "drain timed out");
                return;
            }
            if self.wait(&mut events, left.min(LOG_PERIOD)).is_err() || has_bytes(&mut self.signals) {
                warn!(reason = "second signal", "drain aborted");
                return;
            }
            self.services.iter_mut().for_each(|service| service.turn());
        }
        self.services.iter_mut().for_each(|service| service.turn());
    }

    /// Has those services drain that lead to others, or the others, which serve the first until they have ended.
    fn drain_services(&self, lead_to_others: bool) {
        let chosen = self.services.iter().filter(|service| service.leads_to_others() == lead_to_others);
        chosen.for_each(|service| service.drain());
    }
}

/// The ways into `pools`, for routes of others.
fn entrances(pools: &[Pool]) -> Entrances {
    let named: Vec<_> = pools.iter().map(|pool| (pool.name.as_deref().unwrap_or(""), &*pool.args)).collect();
    let targets = route::targets(&named);
    Entrances::of(pools.iter().map(|pool| pool.name.clone()).zip(targets))
}

/// Whether a signal arrived on a stream since the last call.
fn has_bytes(stream: &mut UnixStream) -> bool {
    let mut bytes = [0; 16];
    matches!(stream.read(&mut bytes), Ok(count) if count > 0)
}

/// A stream that becomes readable when one of `signals` comes.
fn signal_pipe(poll: &Poll, signals: &[i32], token: Token) -> Result<UnixStream> {
    let (reader, writer) = std::os::unix::net::UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for &signal in signals {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    let mut reader = UnixStream::from_std(reader);
    poll.registry().register(&mut reader, token, Interest::READABLE)?;
    Ok(reader)
}
