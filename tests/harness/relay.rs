//! A network between the proxy and a node, within the test. Bytes are late, slow, or lost with their connection, without
//! notice.

use super::acceptor::Acceptor;
use super::poll_until;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use stdx::Prng;

/// Properties of a network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// From one end to the other.
    pub(crate) delay: Duration,
    /// The longest extra delay, drawn for each piece. Bytes keep their order.
    pub(crate) jitter: Duration,
    /// One piece in this many is delayed by `stall`, as one that has to be sent again.
    pub(crate) stalls_one_in: u64,
    /// See there.
    pub(crate) stall: Duration,
    /// Bandwidth in each direction.
    pub(crate) bytes_per_s: u64,
}

impl Weather {
    /// Bytes pass at once.
    pub(crate) const FAIR: Weather = Weather {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        stalls_one_in: u64::MAX,
        stall: Duration::ZERO,
        bytes_per_s: u64::MAX,
    };
}

/// A listener before one node. It ends with its value.
pub(crate) struct Relay {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    _acceptor: Acceptor,
}

struct Shared {
    node: u16,
    weather: Weather,
    seed: u64,
    open: Mutex<Vec<Arc<Link>>>,
    accepted: AtomicU64,
    /// Bytes that came from the proxy.
    taken: AtomicU64,
}

/// One connection through it.
struct Link {
    ends: [TcpStream; 2],
    /// Its bytes go nowhere.
    is_forgotten: AtomicBool,
}

impl Relay {
    /// A network like `weather` to the node at `port`.
    pub(crate) fn to(port: u16, weather: Weather, seed: u64) -> Relay {
        let shared = Arc::new(Shared {
            node: port,
            weather,
            seed,
            open: Mutex::default(),
            accepted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        });
        let joining = Arc::clone(&shared);
        let acceptor = Acceptor::start(move |stream| joining.join(stream));
        Relay { port: acceptor.port, shared, _acceptor: acceptor }
    }

    /// From now on no byte passes over the existing connections, in either direction, as when a firewall has forgotten them.
    /// Neither side gets a notice, and new connections work. Returns their number.
    pub(crate) fn forget_all(&self) -> usize {
        let open = self.shared.open.lock().expect("no lock holder panics");
        open.iter().filter(|link| !link.is_forgotten.swap(true, Ordering::SeqCst)).count()
    }

    /// Ends all connections; bytes under way are lost. Returns their number.
    pub(crate) fn end_all(&self) -> usize {
        let open = std::mem::take(&mut *self.shared.open.lock().expect("no lock holder panics"));
        for link in &open {
            link.is_forgotten.store(true, Ordering::SeqCst);
            link.end();
        }
        open.len()
    }

    /// Number of connections so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Number of bytes for the node so far; they may still be under way.
    pub(crate) fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.open.lock().expect("no lock holder panics").iter().for_each(|link| link.end());
    }
}

impl Shared {
    /// Joins a connection of the proxy with one to the node.
    fn join(self: &Arc<Shared>, outer: TcpStream) {
        let number = self.accepted.fetch_add(1, Ordering::SeqCst);
        // A missing node: the proxy sees the end of its connection.
        let Ok(inner) = TcpStream::connect(("127.0.0.1", self.node)) else { return };
        let (Ok(from_outer), Ok(from_inner)) = (outer.try_clone(), inner.try_clone()) else { return };
        for stream in [&outer, &inner] {
            stream.set_nodelay(true).expect("a socket takes options");
        }
        let link = Arc::new(Link { ends: [outer, inner], is_forgotten: AtomicBool::new(false) });
        self.open.lock().expect("no lock holder panics").push(Arc::clone(&link));
        for (from, to, direction) in [(from_outer, 1, 0), (from_inner, 0, 1)] {
            let (line, link, shared) =
                (self.line(number * 2 + direction), Arc::clone(&link), Arc::clone(self));
            let note = move |len: usize| {
                if to == 1 {
                    shared.taken.fetch_add(len as u64, Ordering::SeqCst);
                }
            };
            std::thread::spawn(move || line.carry(from, to, &link, note));
        }
    }

    fn line(&self, number: u64) -> Line {
        let now = Instant::now();
        Line { weather: self.weather, prng: Prng::new(self.seed ^ number << 32), free_at: now, last_at: now }
    }
}

impl Link {
    fn end(&self) {
        // Fails where it has ended already.
        self.ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }
}

/// One direction of a connection.
struct Line {
    weather: Weather,
    prng: Prng,
    /// When the bytes before have all entered the narrow part.
    free_at: Instant,
    /// When the last piece arrives.
    last_at: Instant,
}

impl Line {
    /// Time at which a piece of `len` bytes arrives that is sent now.
    fn arrival(&mut self, len: usize) -> Instant {
        let Weather { delay, jitter, stalls_one_in, stall, bytes_per_s } = self.weather;
        let takes = Duration::from_nanos(len as u64 * 1_000_000_000 / bytes_per_s);
        self.free_at = self.free_at.max(Instant::now()) + takes;
        let jitter = Duration::from_nanos(self.prng.below(jitter.as_nanos() as u64 + 1));
        let stalled = if self.prng.one_in(stalls_one_in) { stall } else { Duration::ZERO };
        self.last_at = self.last_at.max(self.free_at + delay + jitter + stalled);
        self.last_at
    }

    /// Carries bytes until either side ends, and reports their number to `note`.
    fn carry(mut self, mut from: TcpStream, to: usize, link: &Arc<Link>, note: impl Fn(usize)) {
        // A piece is under way while the next is read.
        let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
        let delivering = Arc::clone(link);
        let delivery = std::thread::spawn(move || {
            while let Ok((at, bytes)) = receiver.recv() {
                // tidy: allow(sleep): the delay itself is the purpose
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                let is_forgotten = delivering.is_forgotten.load(Ordering::SeqCst);
                if !is_forgotten && (&delivering.ends[to]).write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let mut chunk = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut chunk) {
            note(len);
            if sender.send((self.arrival(len), chunk[..len].to_vec())).is_err() {
                break;
            }
        }
        drop(sender);
        let _ = delivery.join();
        if !link.is_forgotten.load(Ordering::SeqCst) {
            link.end();
        }
    }
}

/// Waits until `relay` has accepted more than `accepted` connections.
#[track_caller]
pub(crate) fn wait_for_another(relay: &Relay, accepted: u64) {
    poll_until("another connection", || (relay.accepted() > accepted).then_some(()));
}
