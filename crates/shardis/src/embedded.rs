//! Shards of our own: without `--nodes`, each shard is a thread of this process with a store in memory.
//!
//! A worker reaches it as it reaches a node: over a connection that speaks RESP, here a pair of unix sockets. So the core sees
//! no difference, and one store serves all workers. All data is lost when the process ends.
//!
//! Each connection has a state of its own in the store. A request may cause replies and pushes for other connections, which
//! wait or are subscribed. They come out of the store as deliveries after it.
//!
//! Tickets, timeouts and limits are the same for stores as for nodes. The pair of sockets costs two system calls more per turn
//! than a direct call of the store would.

use crate::wall_clock::{WallClock, unix_ms};
use anyhow::{Context, Result};
use driver::{Driver, Event};
use lua::LuaInterpreter;
use resp::Request;
use resp::request::{RequestLimits, Scanned, Scanner, Span};
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;
use stdx::{BufferPool, ByteQueue, Id, Slab};
use store::{CallerId, EvictionPolicy, Ran, Store, StoreSettings};
use tracing::error;

/// Settings of the stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmbeddedSettings {
    /// Number of stores.
    pub shards: u32,
    /// Bytes of all together.
    pub memory_max: Option<usize>,
    /// Eviction policy when memory is full.
    pub policy: EvictionPolicy,
    /// Decides how keys are spread inside.
    pub seed: u64,
    /// Longest time of a script.
    pub script_time_max: Duration,
}

/// The shards of this process: stores, or copies in racks.
pub(crate) struct Embedded {
    doors: Vec<Door>,
}

/// The way of connections to one shard.
pub(crate) type Door = Box<dyn Fn(UnixStream) -> io::Result<()> + Send + Sync>;

impl Embedded {
    /// Starts a thread for each shard.
    pub(crate) fn start(settings: &EmbeddedSettings) -> Result<Embedded> {
        let doors = (0..settings.shards).map(|shard| open_door(shard, settings)).collect::<Result<_>>()?;
        Ok(Embedded { doors })
    }

    /// Shards that run already.
    pub(crate) fn of_doors(doors: Vec<Door>) -> Embedded {
        Embedded { doors }
    }

    /// A new connection to the shard of this number.
    pub(crate) fn connect(&self, number: u32) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        (self.doors[number as usize])(theirs)?;
        Ok(ours)
    }
}

/// Starts the thread of one shard.
fn open_door(shard: u32, settings: &EmbeddedSettings) -> Result<Door> {
    let driver = Driver::new()?;
    let waker = driver.waker()?;
    let (sender, inbox) = mpsc::channel();
    let memory_max = settings.memory_max.map(|bytes| bytes / settings.shards as usize);
    let seed = settings.seed.wrapping_add(u64::from(shard));
    let store_settings = StoreSettings { seed, memory_max, policy: settings.policy };
    let script_time_max = settings.script_time_max;
    // The store is made on its thread, which its interpreter of scripts cannot leave.
    let run = move || {
        let mut store = Store::new(store_settings);
        store.set_interpreter(Box::new(LuaInterpreter::new(script_time_max, lua::MEMORY_BYTES_MAX)));
        let thread = StoreThread {
            store,
            driver,
            inbox,
            conns: Slab::default(),
            by_caller: HashMap::new(),
            pool: BufferPool::new(SPARE_BUFFERS_MAX, SPARE_BUFFER_BYTES_MAX),
            args: Vec::new(),
            to_flush: Vec::new(),
        };
        if let Err(error) = thread.run() {
            error!(shard, %error, "store failed");
        }
    };
    let thread = std::thread::Builder::new().name(format!("store-{shard}")).stack_size(STACK_BYTES);
    thread.spawn(run).context("starting a store")?;
    Ok(Box::new(move |stream| {
        sender.send(stream).map_err(|_| io::Error::other("the store has stopped"))?;
        waker.wake()
    }))
}

/// Room for the recursion of scripts: nested data and patterns, whose depth is bounded.
const STACK_BYTES: usize = 16 << 20;
/// Keys whose time is over are looked for this often.
const WORK_EVERY: Duration = Duration::from_millis(10);
/// An idle store looks less often.
const IDLE_WORK_EVERY: Duration = Duration::from_millis(100);
/// Limit of unread bytes of a subscriber, which is Redis's hard limit; above it the subscriber is closed. Nothing else
/// bounds messages.
const UNREAD_BYTES_MAX: usize = 32 * 1024 * 1024;
/// One buffer for each worker's connection and a few more.
const SPARE_BUFFERS_MAX: usize = 16;
const SPARE_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// One shard's thread.
struct StoreThread {
    store: Store,
    driver: Driver,
    inbox: mpsc::Receiver<UnixStream>,
    conns: Slab<Conn>,
    /// Which connection is whose.
    by_caller: HashMap<CallerId, Id>,
    pool: BufferPool,
    /// Arguments of the request that is being run.
    args: Vec<Span>,
    /// Connections with replies of this turn.
    to_flush: Vec<Id>,
}

/// One worker's connection.
struct Conn {
    /// Its state in the store.
    caller: CallerId,
    /// Its last request has no reply yet: later requests stay in `input`.
    waits: bool,
    /// The unfinished request.
    input: Vec<u8>,
    scanner: Scanner,
    output: ByteQueue,
}

impl StoreThread {
    /// Serves until the process ends.
    fn run(mut self) -> io::Result<()> {
        let mut more_work = false;
        let mut wall_clock = WallClock::start();
        loop {
            let pause = match (more_work, self.store.is_empty()) {
                (true, _) => Duration::ZERO,
                (false, false) => WORK_EVERY,
                (false, true) => IDLE_WORK_EVERY,
            };
            // Somebody's wait may be over before.
            let deadline = self.store.next_deadline();
            let until = deadline.map(|at| Duration::from_millis(at.saturating_sub(unix_ms())));
            self.driver.wait(until.map_or(pause, |until| until.min(pause)))?;
            let (now_ms, step_ms) = wall_clock.read_ms();
            if step_ms != 0 {
                self.store.shift_waits(step_ms);
            }
            self.handle_events(now_ms);
            while let Ok(stream) = self.inbox.try_recv() {
                let caller = self.store.admit();
                let conn = self.conns.insert(Conn::new(caller));
                self.by_caller.insert(caller, conn);
                self.driver.adopt_unix(conn, stream)?;
            }
            more_work = self.store.work(now_ms);
            self.deliver(now_ms);
            while let Some(conn) = self.to_flush.pop() {
                self.flush(conn);
            }
        }
    }

    fn handle_events(&mut self, now_ms: u64) {
        while self.handle_event(now_ms) {
            self.deliver(now_ms);
        }
    }

    /// Returns false if there was none.
    fn handle_event(&mut self, now_ms: u64) -> bool {
        let StoreThread { store, driver, conns, pool, args, to_flush, by_caller, .. } = self;
        let Some(event) = driver.next_event() else { return false };
        match event {
            Event::Received(id, bytes) => {
                if let Some(conn) = conns.get_mut(id) {
                    conn.receive(bytes, store, now_ms, pool, args);
                    to_flush.push(id);
                }
            }
            Event::Writable(id) => to_flush.push(id),
            Event::Ended(id) => {
                end(conns, by_caller, id, store);
                driver.close(id);
            }
            Event::Closed(id, _) => end(conns, by_caller, id, store),
            Event::Connected(_) => {}
        }
        true
    }

    /// Hands out deliveries to other connections than the one that asked. A connection whose wait ends runs its next requests,
    /// which may cause more deliveries.
    fn deliver(&mut self, now_ms: u64) {
        while let Some(delivery) = self.store.next_delivery() {
            let Some(&id) = self.by_caller.get(&delivery.to) else { continue };
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.output.tail(&mut self.pool).extend_from_slice(&delivery.bytes);
            if conn.output.len() > UNREAD_BYTES_MAX {
                end(&mut self.conns, &mut self.by_caller, id, &mut self.store);
                self.driver.close(id);
                continue;
            }
            self.to_flush.push(id);
            if delivery.ends_wait {
                conn.waits = false;
                conn.receive(&[], &mut self.store, now_ms, &mut self.pool, &mut self.args);
            }
        }
    }

    /// Sends pending bytes, as many as the socket takes.
    fn flush(&mut self, id: Id) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        match self.driver.send(id, conn.output.as_slice()) {
            Ok(sent) => conn.output.consume(sent, &mut self.pool),
            Err(_) => {
                end(&mut self.conns, &mut self.by_caller, id, &mut self.store);
                self.driver.close(id);
            }
        }
    }
}

/// Forgets a connection, and lets the store forget it.
fn end(conns: &mut Slab<Conn>, by_caller: &mut HashMap<CallerId, Id>, id: Id, store: &mut Store) {
    if let Some(conn) = conns.remove(id) {
        by_caller.remove(&conn.caller);
        store.dismiss(conn.caller);
    }
}

impl Conn {
    fn new(caller: CallerId) -> Conn {
        let (scanner, output) = (Scanner::default(), ByteQueue::default());
        Conn { caller, waits: false, input: Vec::new(), scanner, output }
    }

    /// Runs the requests that are complete with `bytes`, up to one that has to wait. They come from our own core, which has checked them.
    fn receive(
        &mut self,
        bytes: &[u8],
        store: &mut Store,
        now_ms: u64,
        pool: &mut BufferPool,
        args: &mut Vec<Span>,
    ) {
        let limits = RequestLimits { args_max: i64::MAX, ..RequestLimits::default() };
        let mut input = std::mem::take(&mut self.input);
        let source = if input.is_empty() {
            bytes
        } else {
            input.extend_from_slice(bytes);
            &input
        };
        let mut inline = Vec::new();
        let mut at = 0;
        while !self.waits
            && let Ok(Scanned::Request { len }) = self.scanner.scan(&source[at..], &limits, args, &mut inline)
        {
            let request = Request::new(&source[at..at + len], args);
            let ran = store.run(self.caller, &request, now_ms, self.output.tail(pool));
            self.waits = ran == Ran::Waits;
            at += len;
        }
        // The rest of `input` stays in place. A large request arrives in hundreds of pieces. To copy all of it for each piece
        // took seconds for 20 MiB.
        if at < source.len() {
            if input.is_empty() {
                input.extend_from_slice(&bytes[at..]);
            } else {
                input.drain(..at);
            }
            self.input = input;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_request_in_pieces_is_not_copied_for_each_piece() {
        let mut store =
            Store::new(StoreSettings { seed: 1, memory_max: None, policy: EvictionPolicy::NoEviction });
        let (mut conn, mut pool) = (Conn::new(store.admit()), BufferPool::new(0, 0));
        let mut request = Vec::new();
        resp::encode::request(&mut request, &[b"SET", b"key", &[b'x'; 1_000_000]]);
        // A whole request before it, and half a one behind it: both must survive the cuts.
        request.splice(0..0, *b"*1\r\n$4\r\nPING\r\n");
        request.extend(b"*2\r\n$3\r\nGET");
        let mut moves = 0;
        for piece in request.chunks(1_000) {
            let room = conn.input.capacity();
            conn.receive(piece, &mut store, 0, &mut pool, &mut Vec::new());
            moves += usize::from(conn.input.capacity() != room);
        }
        // The buffer doubles whenever it is full.
        assert!(moves < 20, "{moves} moves");
        assert_eq!(conn.output.as_slice(), b"+PONG\r\n+OK\r\n");
        assert_eq!(conn.input, b"*2\r\n$3\r\nGET");
        conn.receive(b"\r\n$2\r\nno\r\n", &mut store, 0, &mut pool, &mut Vec::new());
        assert_eq!(conn.output.as_slice(), b"+PONG\r\n+OK\r\n$-1\r\n");
        assert_eq!(conn.input.capacity(), 0, "a buffer that may be large is not kept");
    }
}
