//! The thread of a mirror, and its connections to the other pool.

use crate::policy::Policy;
use crate::shadow::{Compared, End, Shadow};
use crate::status::Status;
use crate::tap::{EVENT_BYTES, Event, Seen, Tap};
use resp::encode;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stdx::Id;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout};

/// The longest time until a connection to the other pool is made.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// The longest time without progress of the other pool.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time after a failure in which no connection is made.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of one read. Each connection has a buffer of this size.
const READ_BYTES: usize = 4 << 10;

/// The other pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Host and port.
    Tcp(String),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(place) => out.write_str(place),
            Target::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// The receiver of reports: the other pool is reached, or not and why.
pub type Report = Box<dyn Fn(Result<(), &str>) + Send>;

/// Everything that a mirror needs at its start.
pub struct Plan {
    /// The other pool.
    pub target: Target,
    /// User and password at the other pool.
    pub login: Option<(Option<Vec<u8>>, Vec<u8>)>,
    /// Which requests are mirrored.
    pub policy: Policy,
    /// Bytes that the mirror may hold.
    pub bytes_max: usize,
}

/// Starts the mirror of a pool with this number of workers. Returns a tap for each of them. `report` is called when the other
/// pool becomes unreachable, with the reason, and when it is reached.
pub fn start(plan: Plan, workers: usize, status: &Arc<Status>, report: Report) -> io::Result<Vec<Tap>> {
    let (sender, events) = unbounded_channel();
    let tap = |worker| Tap::new(worker, sender.clone(), Arc::clone(status), plan.bytes_max);
    let taps = (0..workers).map(tap).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = Arc::clone(status);
    std::thread::Builder::new().name("mirror".to_owned()).spawn(move || {
        LocalSet::new().block_on(&runtime, dispatch(events, plan, report, status));
    })?;
    Ok(taps)
}

/// The state that all connections of a mirror share.
struct Shared {
    plan: Plan,
    report: Report,
    /// The first request on each connection.
    login: Option<Vec<u8>>,
    status: Arc<Status>,
    not_before: Cell<Option<Instant>>,
    was_reached: Cell<Option<bool>>,
}

impl Shared {
    fn note(&self, outcome: Result<(), &str>) {
        if outcome.is_err() {
            self.status.change(|totals| totals.failures += 1);
            self.not_before.set(Some(Instant::now() + PAUSE));
        }
        if self.was_reached.replace(Some(outcome.is_ok())) != Some(outcome.is_ok()) {
            (self.report)(outcome);
        }
    }
}

/// Gives each client's events to its mirror.
async fn dispatch(mut events: UnboundedReceiver<Event>, plan: Plan, report: Report, status: Arc<Status>) {
    let login = plan.login.as_ref().map(|(user, password)| {
        let mut bytes = Vec::new();
        let words: Vec<&[u8]> =
            [Some(&b"AUTH"[..]), user.as_deref(), Some(password)].into_iter().flatten().collect();
        encode::request(&mut bytes, &words);
        bytes
    });
    let (not_before, was_reached) = (Cell::new(None), Cell::new(None));
    let shared = Rc::new(Shared { plan, report, login, status, not_before, was_reached });
    let mut clients: HashMap<(usize, Id), UnboundedSender<Seen>> = HashMap::new();
    while let Some((worker, conn, seen)) = events.recv().await {
        let key = (worker, conn);
        match seen {
            Seen::Opened => {
                shared.release(EVENT_BYTES);
                let (sender, receiver) = unbounded_channel();
                clients.insert(key, sender);
                tokio::task::spawn_local(follow(receiver, Rc::clone(&shared)));
            }
            Seen::Closed => drop(clients.remove(&key)),
            seen => {
                let len = seen.len();
                // A client that is left alone has no mirror any more.
                if clients.get(&key).is_none_or(|client| client.send(seen).is_err()) {
                    shared.release(len + EVENT_BYTES);
                }
            }
        }
    }
}

impl Seen {
    fn len(&self) -> usize {
        match self {
            Seen::Sent(bytes) | Seen::Got(bytes) => bytes.len(),
            Seen::Opened | Seen::Closed => 0,
        }
    }
}

impl Shared {
    fn release(&self, bytes: usize) {
        self.status.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A stream of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A connection to the other pool.
struct Other {
    input: ReadHalf<Box<dyn Stream>>,
    output: WriteHalf<Box<dyn Stream>>,
    progress_at: Instant,
}

/// The mirror of one client, until the client has gone.
async fn follow(mut seen: UnboundedReceiver<Seen>, shared: Rc<Shared>) {
    let mut mirror = Mirror {
        shadow: Shadow::new(shared.plan.policy),
        other: None,
        compared: Vec::new(),
        counted_bytes: 0,
        shared,
    };
    mirror.shared.status.change(|totals| totals.clients += 1);
    let end = mirror.run(&mut seen).await;
    if end == Some(End::Left) {
        mirror.shared.status.change(|totals| totals.clients_left += 1);
    }
    mirror.shadow.fail(mirror.other.is_some());
    mirror.count();
    mirror.shared.release(mirror.counted_bytes);
    mirror.shared.status.change(|totals| totals.clients -= 1);
    seen.close();
    while let Ok(seen) = seen.try_recv() {
        mirror.shared.release(seen.len() + EVENT_BYTES);
    }
}

struct Mirror {
    shadow: Shadow,
    other: Option<Other>,
    compared: Vec<Compared>,
    /// Bytes of the shadow, as they were counted last.
    counted_bytes: usize,
    shared: Rc<Shared>,
}

/// The next thing that happens to a mirror.
enum Next {
    Seen(Option<Seen>),
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Late,
}

impl Mirror {
    /// Follows the client until it has gone and the other pool has answered. Returns why it is not mirrored any more.
    async fn run(&mut self, seen: &mut UnboundedReceiver<Seen>) -> Option<End> {
        let mut buffer = vec![0; READ_BYTES];
        let (mut has_gone, mut end) = (false, None);
        loop {
            // The last requests of the client reach the other pool too.
            let has_work = self.shadow.is_waiting() || !self.shadow.out.is_empty();
            if (has_gone || end.is_some()) && (self.other.is_none() || !has_work) {
                return end;
            }
            match self.next(seen, has_gone, &mut buffer).await {
                Next::Seen(None) => has_gone = true,
                Next::Seen(Some(seen)) => {
                    if end.is_none() {
                        end = self.handle(&seen).err();
                    }
                    self.shared.release(seen.len() + EVENT_BYTES);
                }
                Next::Read(Ok(len)) if len > 0 => {
                    if let Err(reason) = self.shadow.other_sent(&buffer[..len], &mut self.compared) {
                        self.lose(&reason);
                    }
                    self.other.iter_mut().for_each(|other| other.progress_at = Instant::now());
                }
                Next::Read(Ok(_)) => self.lose("the connection was closed"),
                Next::Written(Ok(len)) => {
                    self.shadow.out.drain(..len);
                    self.other.iter_mut().for_each(|other| other.progress_at = Instant::now());
                }
                Next::Read(Err(error)) | Next::Written(Err(error)) => self.lose(&error.to_string()),
                Next::Late => self.lose("no reply in time"),
            }
            if self.shadow.is_broken() {
                self.other = None;
            } else if self.other.is_none() && !self.shadow.out.is_empty() {
                self.connect().await;
            }
            self.count();
        }
    }

    async fn next(&mut self, seen: &mut UnboundedReceiver<Seen>, has_gone: bool, buffer: &mut [u8]) -> Next {
        let Some(other) = &mut self.other else { return Next::Seen(seen.recv().await) };
        let (is_waiting, writes) = (self.shadow.is_waiting(), !self.shadow.out.is_empty());
        tokio::select! {
            read = other.input.read(buffer) => Next::Read(read),
            written = other.output.write(&self.shadow.out), if writes => Next::Written(written),
            seen = seen.recv(), if !has_gone => Next::Seen(seen),
            () = sleep_until(other.progress_at + ANSWER_WITHIN), if is_waiting || writes => Next::Late,
        }
    }

    fn handle(&mut self, seen: &Seen) -> Result<(), End> {
        if !self.shadow.is_waiting() {
            self.other.iter_mut().for_each(|other| other.progress_at = Instant::now());
        }
        match seen {
            Seen::Sent(bytes) => self.shadow.client_sent(bytes),
            Seen::Got(bytes) => self.shadow.client_got(bytes, &mut self.compared),
            Seen::Opened | Seen::Closed => Ok(()),
        }
    }

    /// Connects to the other pool.
    async fn connect(&mut self) {
        if self.shared.not_before.get().is_some_and(|instant| instant > Instant::now()) {
            return self.shadow.fail(false);
        }
        let stream: io::Result<Box<dyn Stream>> =
            match timeout(CONNECT_WITHIN, dial(&self.shared.plan.target)).await {
                Ok(stream) => stream,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            };
        match stream {
            Ok(stream) => {
                let (input, output) = tokio::io::split(stream);
                self.other = Some(Other { input, output, progress_at: Instant::now() });
                self.shadow.connected(self.shared.login.as_deref());
                self.shared.note(Ok(()));
            }
            Err(error) => self.lose(&error.to_string()),
        }
    }

    /// The other pool failed.
    fn lose(&mut self, reason: &str) {
        self.shadow.fail(self.other.take().is_some());
        self.shared.note(Err(reason));
    }

    /// Counts what has happened.
    fn count(&mut self) {
        self.shared.status.add(self.shadow.take_counts(), &mut self.compared);
        let (held, status) = (self.shadow.held_bytes(), &self.shared.status);
        status.held_bytes.fetch_add(held, Ordering::Relaxed);
        status.held_bytes.fetch_sub(self.counted_bytes, Ordering::Relaxed);
        self.counted_bytes = held;
    }
}

async fn dial(target: &Target) -> io::Result<Box<dyn Stream>> {
    match target {
        Target::Tcp(place) => {
            let stream = TcpStream::connect(place).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Target::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
    }
}
