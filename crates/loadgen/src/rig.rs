//! The loop that all modes with clients share: a driver, a clock, and parties that each own some of the connections.
//!
//! ```text
//!   driver.wait(0) ─► everybody: begin_turn ─► event ─► its owner: handle, flush ─► everybody: between_events ─► event …
//! ```
//!
//! The loop never sleeps, so no wake-up delays its look at a ready socket. Generator and canned nodes on one core never wait
//! for each other's time slice.

use crate::clock::Clock;
use anyhow::{Context, Result};
use driver::{Driver, Event};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use stdx::{Id, Instant};

/// An owner of connections: a set of clients, or the nodes.
pub trait Party {
    /// Whether a connection is its own.
    fn owns(&self, id: Id) -> bool;

    /// A turn begins.
    fn begin_turn(&mut self, _driver: &mut Driver, _now: Instant) -> Result<()> {
        Ok(())
    }

    /// Called after each event. A party that sends by the clock uses it, so that it is not late by a turn.
    fn between_events(&mut self, _driver: &mut Driver) -> Result<()> {
        Ok(())
    }

    /// Handles an event of one of its own connections. Returns the connection if it has bytes to send, or must be closed.
    fn handle(&mut self, event: Event<'_>, now: Instant) -> Result<Option<Id>>;

    /// Sends all waiting bytes.
    fn flush(&mut self, driver: &mut Driver, id: Id, now: Instant) -> Result<()>;
}

/// The loop.
#[derive(Debug)]
pub struct Rig {
    /// All sockets.
    pub driver: Driver,
    clock: Clock,
    /// When the turn before this one ended.
    now: Instant,
    /// Time of the turns in which something happened.
    busy: Duration,
    idle: Idle,
}

/// Behaviour of the loop when nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Looks again: the core is its own.
    Spin,
    /// Lets other processes run first. Otherwise real nodes that share the core would wait for the end of this process's time
    /// slice, which is milliseconds away.
    Yield,
}

/// Time within which a target must accept.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);
/// Time between two attempts to connect, in which the nodes are served.
const ATTEMPT_EVERY: Duration = Duration::from_millis(20);

impl Rig {
    /// A loop without connections.
    pub fn new(idle: Idle) -> Result<Rig> {
        raise_files_limit();
        let clock = Clock::start();
        Ok(Rig { driver: Driver::new()?, clock, now: clock.now(), busy: Duration::ZERO, idle })
    }

    /// Its clock, which all parties share.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The end of the last turn.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time of the loop so far that went to turns in which something happened.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// One turn: each party begins it and receives the events.
    pub fn turn(&mut self, parties: &mut [&mut dyn Party]) -> Result<()> {
        self.driver.wait(Duration::ZERO)?;
        for party in &mut *parties {
            party.begin_turn(&mut self.driver, self.clock.now())?;
        }
        let mut happened = false;
        while let Some(event) = self.driver.next_event() {
            happened = true;
            let id = id_of(&event);
            let now = self.clock.now();
            let Some(party) = parties.iter_mut().find(|party| party.owns(id)) else { continue };
            if let Some(id) = party.handle(event, now)? {
                party.flush(&mut self.driver, id, now)?;
            }
            for party in &mut *parties {
                party.between_events(&mut self.driver)?;
            }
        }
        let now = self.clock.now();
        if happened {
            self.busy += now.since(self.now);
        } else if self.idle == Idle::Yield {
            std::thread::yield_now();
        }
        self.now = now;
        Ok(())
    }

    /// Turns for `time` from now on, without regard to work since the last turn.
    pub fn turn_for(&mut self, time: Duration, parties: &mut [&mut dyn Party]) -> Result<()> {
        self.turn_until(self.clock.now() + time, parties)
    }

    /// Turns until `end`.
    pub fn turn_until(&mut self, end: Instant, parties: &mut [&mut dyn Party]) -> Result<()> {
        while self.now < end {
            self.turn(parties)?;
        }
        Ok(())
    }

    /// Serves `parties` until `target` accepts a connection, which is closed again.
    pub fn await_target(&mut self, target: SocketAddr, parties: &mut [&mut dyn Party]) -> Result<()> {
        let end = self.clock.now() + ACCEPT_WITHIN;
        loop {
            match TcpStream::connect(target) {
                Ok(_) => return Ok(()),
                Err(error) if self.now >= end => {
                    return Err(error).with_context(|| format!("no target at {target}"));
                }
                Err(_) => self.turn_for(ATTEMPT_EVERY, parties)?,
            }
        }
    }
}

/// The connection that `event` is about.
fn id_of(event: &Event<'_>) -> Id {
    match event {
        Event::Connected(id)
        | Event::Received(id, _)
        | Event::Writable(id)
        | Event::Ended(id)
        | Event::Closed(id, _) => *id,
    }
}

/// The address that `text` (host:port) names.
pub fn resolve(text: &str) -> Result<SocketAddr> {
    let mut addrs = text.to_socket_addrs().with_context(|| format!("{text} is no host:port"))?;
    addrs.next().with_context(|| format!("{text} has no address"))
}

/// Raises the limit of open files as far as possible. If that is too low, connecting fails.
pub(crate) fn raise_files_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
