//! `loadgen slow`: clients that ask for much and do not read for a while. It measures the memory of the target, and
//! checks that every reply arrives in the end.

use crate::closed::connect;
use crate::load::{large_key, write_large};
use crate::measure::{MeasureOptions, Memory};
use crate::pattern::{Pattern, Stream};
use crate::report::rounded;
use crate::rig::{Idle, Party, Rig, resolve};
use crate::saturate::duration;
use anyhow::{Context, Result};
use driver::{Driver, Event};
use serde_json::{Value, json};
use std::net::SocketAddr;
use stdx::{Id, Instant};

/// Options of `loadgen slow`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Target; it must keep values
    #[arg(long, value_name = "HOST:PORT")]
    pub target: String,
    /// Connections
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Keys of the one MGET of each client
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub keys: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 100_000)]
    pub value_bytes: usize,
    /// Time in which no client reads
    #[arg(long, default_value_t = 5.0)]
    pub stall_seconds: f64,
    /// Timeout for reading all replies after it
    #[arg(long, default_value_t = 60.0)]
    pub drain_seconds_max: f64,
    /// The measured process
    #[command(flatten)]
    pub measure: MeasureOptions,
}

/// Runs, and reports.
pub fn run(options: &Options) -> Result<Value> {
    let target = resolve(&options.target)?;
    let (stall, drain_max) = (duration(options.stall_seconds)?, duration(options.drain_seconds_max)?);
    let process = options.measure.process()?.context("--measure-pid is needed: this mode measures memory")?;
    let pattern = Pattern::new(1);
    write_large(target, options.keys, options.value_bytes, &pattern)?;

    let mut memory = Memory::begin(process)?;
    let mut rig = Rig::new(Idle::Yield)?;
    let mut readers = Readers::start(&mut rig.driver, target, options, pattern)?;
    let stalled_until = rig.clock().now() + stall;
    while rig.now() < stalled_until {
        rig.turn(&mut [&mut readers])?;
        memory.look(rig.now())?;
    }
    let stalled = memory.rss_bytes()?;
    readers.read(&mut rig.driver);
    let began = rig.now();
    while rig.now() < began + drain_max && !readers.are_done() {
        rig.turn(&mut [&mut readers])?;
        memory.look(rig.now())?;
    }
    let drained = rig.now().since(began);
    Ok(json!({
        "mode": "slow",
        "clients": options.clients,
        "keys": options.keys,
        "value_bytes": options.value_bytes,
        "stall_seconds": options.stall_seconds,
        "served_whole": readers.count(|state| matches!(state, State::Served)),
        "refused": readers.count(|state| matches!(state, State::Refused)),
        "refusal": readers.refusal,
        "closed": readers.count(|state| matches!(state, State::Closed)),
        "unfinished": readers.count(|state| matches!(state, State::Reading(_))),
        "received_bytes": readers.received_bytes,
        "drain_seconds": rounded(drained.as_secs_f64(), 3),
        "rss_bytes_before": memory.before(),
        "rss_bytes_stalled": stalled,
        "rss_bytes_after": memory.rss_bytes()?,
        "peak_rss_bytes": memory.peak()?,
    }))
}

/// The clients.
struct Readers {
    states: Vec<State>,
    pattern: Pattern,
    received_bytes: u64,
    /// The beginning of the last error that came in place of a reply.
    refusal: String,
}

/// Bytes of it that are shown.
const REFUSAL_BYTES_MAX: usize = 200;

enum State {
    Reading(Stream),
    Served,
    /// The target answered with an error.
    Refused,
    /// The target closed it before its reply was whole.
    Closed,
}

impl Readers {
    /// Connects them and has each ask. They do not read.
    fn start(
        driver: &mut Driver,
        target: SocketAddr,
        options: &Options,
        pattern: Pattern,
    ) -> Result<Readers> {
        let keys: Vec<String> = (0..options.keys).map(large_key).collect();
        let mut args: Vec<&[u8]> = vec![b"MGET"];
        args.extend(keys.iter().map(String::as_bytes));
        let mut request = Vec::new();
        resp::encode::request(&mut request, &args);
        let reply = Stream::array(options.keys, options.value_bytes);
        for index in 0..options.clients {
            let mut conn = connect(target)?;
            // Blocking still: a fresh socket takes it.
            std::io::Write::write_all(&mut conn, &request)?;
            let id = Id { index, generation: 0 };
            driver.adopt(id, conn)?;
            driver.pause(id);
        }
        let states = (0..options.clients).map(|_| State::Reading(reply.clone())).collect();
        Ok(Readers { states, pattern, received_bytes: 0, refusal: String::new() })
    }

    /// From now on they read.
    fn read(&self, driver: &mut Driver) {
        (0..self.states.len() as u32).for_each(|index| driver.resume(Id { index, generation: 0 }));
    }

    fn are_done(&self) -> bool {
        self.count(|state| matches!(state, State::Reading(_))) == 0
    }

    fn count(&self, is: impl Fn(&State) -> bool) -> usize {
        self.states.iter().filter(|state| is(state)).count()
    }
}

impl Party for Readers {
    fn owns(&self, _id: Id) -> bool {
        true
    }

    fn handle(&mut self, event: Event<'_>, _now: Instant) -> Result<Option<Id>> {
        match event {
            Event::Received(id, bytes) => {
                self.received_bytes += bytes.len() as u64;
                let state = &mut self.states[id.index as usize];
                let State::Reading(reply) = state else { anyhow::bail!("bytes behind the reply") };
                if !reply.has_begun() && bytes[0] == b'-' {
                    self.refusal =
                        String::from_utf8_lossy(&bytes[..bytes.len().min(REFUSAL_BYTES_MAX)]).into();
                    *state = State::Refused;
                    return Ok(None);
                }
                reply.check(&self.pattern, bytes)?;
                if reply.is_done() {
                    *state = State::Served;
                }
            }
            Event::Ended(id) | Event::Closed(id, _) => {
                let state = &mut self.states[id.index as usize];
                if matches!(state, State::Reading(_)) {
                    *state = State::Closed;
                }
            }
            Event::Connected(_) | Event::Writable(_) => {}
        }
        Ok(None)
    }

    fn flush(&mut self, _driver: &mut Driver, _id: Id, _now: Instant) -> Result<()> {
        Ok(())
    }
}
