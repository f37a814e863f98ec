//! The control thread: accepts clients, gives each to the worker with the fewest, hears signals, writes the log.

use super::arguments::TcpArgs;
use super::core::{Core, Notice};
use super::nodes::{Nodes, Verdict};
use super::worker::{Mailbox, Message, READ_BYTES_MAX, Shared, Worker};
use crate::control::{ClientsMax, NOTHING_TO_READ, has_bytes, signal_pipe};
use crate::listeners::{ACCEPTS_PER_TURN_MAX, Listener, Newcomer, Next};
use crate::log_sink::say;
use crate::logging;
use crate::worker::Clock;
use anyhow::{Context, Result, anyhow};
use mio::net::UnixStream;
use mio::{Events, Poll, Token};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{debug, error, info, warn};

const SIGNALS: Token = Token(0);
const LISTENER: Token = Token(1);
const WAKER: Token = Token(2);
const HANGUPS: Token = Token(3);

/// Lines that wait for the log; workers drop more.
const LOG_LINES_MAX: usize = 1024;
/// How long a line may wait for the log.
const LOG_PERIOD: Duration = Duration::from_millis(100);
/// Clients that are refused because there are too many are told of in the log so often.
const REFUSED_LOGGED_EVERY: Duration = Duration::from_secs(1);

/// Runs until it is told to stop.
pub(crate) fn run(args: &TcpArgs) -> Result<()> {
    logging::start(args.log_level).context("the thread that writes the log")?;
    let targets = args.targets().map_err(|error| anyhow!(error))?;
    let listener = Listener::tcp(
        args.listen_addr().map_err(|error| anyhow!(error))?,
        "--listen",
        false,
        args.reuse_port,
    )?;
    let mut control = Control::start(args, listener, targets.into())?;
    control.serve()?;
    control.drain(args.drain_timeout());
    Ok(())
}

/// The control thread's state.
struct Control {
    poll: Poll,
    listener: Option<Listener>,
    signals: UnixStream,
    hangups: UnixStream,
    workers: Vec<Handle>,
    log: mpsc::Receiver<Notice>,
    clients_max: usize,
    /// Clients that were refused since the log told of some.
    refused: usize,
    refused_logged_at: Option<Instant>,
    /// There may be clients that the listener will not tell of again.
    accept_at: Option<Instant>,
}

/// A worker as the control thread sees it.
struct Handle {
    mailbox: Mailbox,
    thread: JoinHandle<()>,
    /// Clients that were ever given to it.
    given: usize,
    /// Clients of it that have gone.
    gone: Arc<AtomicUsize>,
}

impl Handle {
    fn clients(&self) -> usize {
        self.given.saturating_sub(self.gone.load(Ordering::Relaxed))
    }
}

impl Control {
    fn start(args: &TcpArgs, mut listener: Listener, targets: Arc<[driver::Target]>) -> Result<Control> {
        let poll = Poll::new()?;
        listener.register(poll.registry(), LISTENER)?;
        let signals = signal_pipe(&poll, &[SIGTERM, SIGINT], SIGNALS)?;
        let hangups = signal_pipe(&poll, &[SIGHUP], HANGUPS)?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKER)?);
        let (log_sender, log) = mpsc::sync_channel(LOG_LINES_MAX);
        let specs = args.node_specs().map_err(|error| anyhow!(error))?;
        let named = specs.iter().map(|node| (node.label(), node.weight));
        let count = args.workers();
        let wanted = ClientsMax { wanted: args.maxclients, sockets_each: 2, nodes: specs.len(), own: 0 };
        let clients_max = wanted.granted();
        announce(&listener, count, &specs);
        let shared = Shared {
            nodes: Arc::new(Mutex::new(Nodes::new(args.balance(), args.patience(), named))),
            targets,
            clock: Clock::start(),
            proxy_protocol: args.proxy_protocol,
            send_proxy: args.send_proxy,
            log: log_sender,
        };
        let mut workers = Vec::new();
        for number in 0..count {
            let mut core = Core::new(args.limits(), READ_BYTES_MAX);
            if number == 0 {
                core.probe(args.probe(), specs.len(), shared.clock.now());
            }
            let gone = Arc::new(AtomicUsize::new(0));
            let (worker, mailbox) = Worker::new(core, shared.clone(), Arc::clone(&gone))?;
            let thread = spawn(number, worker, Arc::clone(&waker))?;
            workers.push(Handle { mailbox, thread, given: 0, gone });
        }
        let listener = Some(listener);
        let (refused, refused_logged_at, accept_at) = (0, None, None);
        Ok(Control {
            poll,
            listener,
            signals,
            hangups,
            workers,
            log,
            clients_max,
            refused,
            refused_logged_at,
            accept_at,
        })
    }

    /// Accepts clients until a signal comes.
    fn serve(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(16);
        loop {
            self.wait(&mut events, LOG_PERIOD)?;
            let retry = self.accept_at.is_some_and(|at| at <= Instant::now());
            if retry || events.iter().any(|event| event.token() == LISTENER) {
                self.accept();
            }
            self.write_log();
            if has_bytes(&mut self.hangups) {
                info!("{NOTHING_TO_READ}");
            }
            if has_bytes(&mut self.signals) {
                return Ok(());
            }
            if self.workers.iter().any(|handle| handle.thread.is_finished()) {
                return Err(anyhow!("a worker has stopped; see the log"));
            }
        }
    }

    fn wait(&mut self, events: &mut Events, timeout: Duration) -> Result<()> {
        let now = Instant::now();
        let timeout = self.accept_at.map_or(timeout, |at| timeout.min(at.saturating_duration_since(now)));
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error).context("waiting for clients"),
            _ => Ok(()),
        }
    }

    /// Accepts what waits, up to a bound; then others have their turn.
    fn accept(&mut self) {
        self.accept_at = None;
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Next::Newcomer(newcomer) => self.give(newcomer),
                Next::Gone => {}
                Next::Nobody => return,
                Next::Later(at) => {
                    self.accept_at = Some(at);
                    return;
                }
            }
        }
        self.accept_at = Some(Instant::now());
    }

    /// Gives a client to the worker that has the fewest, unless there are too many.
    fn give(&mut self, newcomer: Newcomer) {
        let Newcomer::Tcp(stream, peer) = newcomer else { return };
        let clients: usize = self.workers.iter().map(Handle::clients).sum();
        if clients >= self.clients_max {
            self.refused += 1;
            return;
        }
        if let Some(handle) = self.workers.iter_mut().min_by_key(|handle| handle.clients()) {
            handle.given += 1;
            handle.mailbox.send(Message::Accept { stream, peer });
        }
    }

    fn write_log(&mut self) {
        while let Ok(notice) = self.log.try_recv() {
            log(&notice);
        }
        let is_due = self.refused_logged_at.is_none_or(|at| at.elapsed() >= REFUSED_LOGGED_EVERY);
        if self.refused > 0 && is_due {
            warn!(
                clients = self.refused,
                maxclients = self.clients_max,
                "clients refused: there are too many"
            );
            (self.refused, self.refused_logged_at) = (0, Some(Instant::now()));
        }
    }

    /// Stops accepting and waits until all clients have left, the time is up, or another signal comes.
    fn drain(mut self, timeout: Duration) {
        info!("draining: no new clients; a second signal ends at once");
        self.listener = None;
        self.workers.iter().for_each(|handle| handle.mailbox.send(Message::Drain));
        let deadline = Instant::now() + timeout;
        let mut events = Events::with_capacity(16);
        while self.workers.iter().any(|handle| !handle.thread.is_finished()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let clients: usize = self.workers.iter().map(Handle::clients).sum();
                warn!(clients, "not all clients have left in time");
                return;
            }
            if self.wait(&mut events, left.min(LOG_PERIOD)).is_err() || has_bytes(&mut self.signals) {
                warn!("ended at once");
                return;
            }
            self.write_log();
        }
        self.write_log();
    }
}

/// What it does, in two lines, for whoever started it.
fn announce(listener: &Listener, workers: usize, nodes: &[topology::NodeSpec]) {
    let version = env!("CARGO_PKG_VERSION");
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    say(&format!("shardis {version} listens on {listener} ({workers} worker{})", plural(workers)));
    let names: Vec<String> = nodes.iter().map(topology::NodeSpec::label).collect();
    say(&format!("passes bytes to {} node{}: {}", names.len(), plural(names.len()), names.join(" ")));
}

/// Starts a worker's thread. When it ends, the control thread is woken.
fn spawn(number: usize, worker: Worker, waker: Arc<mio::Waker>) -> Result<JoinHandle<()>> {
    let run = move || {
        if let Err(error) = worker.run() {
            error!(worker = number, %error, "worker failed");
        }
        // Fails only if the control thread is gone.
        let _ = waker.wake();
    };
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(run).context("starting a worker")
}

fn log(notice: &Notice) {
    match notice {
        Notice::Node(Verdict::Up { node }) => info!(node, "node is back"),
        Notice::Node(Verdict::Down { node, reason }) => warn!(node, reason, "node is down"),
        Notice::NoNode { client, reason } => warn!(client, reason, "client closed: no node takes it"),
        Notice::Refused { client, reason } => info!(client, reason, "client refused"),
        Notice::Idle { client } => debug!(client, "idle client closed"),
    }
}
