//! The server loop of canned nodes and echo, which differ only in their replies.
//!
//! Threads of its own accept, as in the proxy. All connections belong to one thread, which reads requests and answers them in
//! one write per connection and turn.

use crate::frame::Malformed;
use crate::rig::Party;
use anyhow::{Context, Result};
use driver::{Driver, Event, Waker};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use stdx::{Id, Instant, Slab};

/// The source of a service's answers.
pub trait Answer {
    /// State of one connection.
    type Conn: Default;

    /// Takes the next bytes of a connection.
    fn receive(&self, conn: &mut Self::Conn, bytes: &[u8]) -> Result<(), Malformed>;

    /// The next bytes for the connection; empty if there are none.
    fn owed<'a>(&'a self, conn: &'a Self::Conn) -> &'a [u8];

    /// The first `count` of them were sent.
    fn sent(&self, conn: &mut Self::Conn, count: usize);
}

/// Listeners, their connections, and the source of answers.
#[derive(Debug)]
pub struct Service<A: Answer> {
    answer: A,
    /// First index of its ids: lower ones belong to other parties in the same loop.
    first: u32,
    conns: Slab<Place<A::Conn>>,
    arrivals: mpsc::Receiver<TcpStream>,
    ports: Vec<u16>,
}

#[derive(Debug, Default)]
struct Place<C> {
    conn: C,
    paused: bool,
}

/// Bytes that wait for a slow reader, above which its requests are not read.
const OWED_BYTES_MAX: usize = 1024 * 1024;
/// The longest sleep of a loop that may sleep: it only bounds the cost of a lost wake-up.
const WAIT_MAX: Duration = Duration::from_secs(1);

impl<A: Answer> Service<A> {
    /// Listens on `ports` of 127.0.0.1 (0: any free one). Its ids in `driver` begin at `first`.
    pub fn listen(ports: &[u16], answer: A, driver: &Driver, first: u32) -> Result<Service<A>> {
        let (sender, arrivals) = mpsc::channel();
        let waker = Arc::new(driver.waker()?);
        let bound = ports.iter().map(|&port| accept_on(port, sender.clone(), waker.clone()));
        let ports = bound.collect::<Result<_>>()?;
        Ok(Service { answer, first, conns: Slab::default(), arrivals, ports })
    }

    /// The ports on which it listens.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Serves without end. With `spin` it never sleeps.
    pub fn serve(mut self, mut driver: Driver, spin: bool) -> Result<()> {
        let wait = if spin { Duration::ZERO } else { WAIT_MAX };
        loop {
            driver.wait(wait)?;
            self.begin_turn(&mut driver, Instant::ZERO)?;
            while let Some(event) = driver.next_event() {
                if let Some(id) = self.handle(event, Instant::ZERO)? {
                    self.flush(&mut driver, id, Instant::ZERO)?;
                }
            }
        }
    }

    /// The id in `conns` of the driver's `id`.
    fn own(&self, id: Id) -> Id {
        Id { index: id.index - self.first, ..id }
    }

    fn forget(&mut self, driver: &mut Driver, id: Id) {
        driver.close(id);
        self.conns.remove(self.own(id));
    }
}

impl<A: Answer> Party for Service<A> {
    fn owns(&self, id: Id) -> bool {
        id.index >= self.first
    }

    /// Takes over accepted connections.
    fn begin_turn(&mut self, driver: &mut Driver, _now: Instant) -> Result<()> {
        while let Ok(stream) = self.arrivals.try_recv() {
            let id = self.conns.insert(Place::default());
            driver.adopt(Id { index: id.index + self.first, ..id }, stream)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event<'_>, _now: Instant) -> Result<Option<Id>> {
        match event {
            Event::Received(id, bytes) => {
                let own = self.own(id);
                if let Some(place) = self.conns.get_mut(own)
                    && self.answer.receive(&mut place.conn, bytes).is_err()
                {
                    self.conns.remove(own);
                }
                Ok(Some(id))
            }
            Event::Writable(id) | Event::Connected(id) => Ok(Some(id)),
            Event::Ended(id) => {
                self.conns.remove(self.own(id));
                Ok(Some(id))
            }
            Event::Closed(id, _) => {
                self.conns.remove(self.own(id));
                Ok(None)
            }
        }
    }

    /// Sends waiting replies. An unknown connection is closed: it ended, or sent no RESP.
    fn flush(&mut self, driver: &mut Driver, id: Id, _now: Instant) -> Result<()> {
        let own = self.own(id);
        let Some(place) = self.conns.get_mut(own) else {
            driver.close(id);
            return Ok(());
        };
        loop {
            let owed = self.answer.owed(&place.conn);
            if owed.is_empty() {
                break;
            }
            let len = owed.len();
            let Ok(sent) = driver.send(id, owed) else {
                self.forget(driver, id);
                return Ok(());
            };
            self.answer.sent(&mut place.conn, sent);
            if sent < len {
                if len - sent > OWED_BYTES_MAX {
                    place.paused = true;
                    driver.pause(id);
                }
                return Ok(());
            }
        }
        if place.paused {
            place.paused = false;
            driver.resume(id);
        }
        Ok(())
    }
}

/// Listens on `port` and has a thread send accepted connections. Returns the port.
fn accept_on(port: u16, sender: mpsc::Sender<TcpStream>, waker: Arc<Waker>) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("port {port}"))?;
    let port = listener.local_addr()?.port();
    std::thread::Builder::new().name(format!("accept-{port}")).spawn(move || {
        for stream in listener.incoming().flatten() {
            if sender.send(stream).is_err() {
                return;
            }
            // Waking fails only if the descriptor is gone, and with it the loop.
            let _ = waker.wake();
        }
    })?;
    Ok(port)
}
