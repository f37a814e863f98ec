//! `loadgen large`: one value that is larger than any buffer is written and read, while other clients ask for small ones. It
//! measures the memory that this takes, and the latency of the others.

use crate::closed::connect;
use crate::load::{large_key, write_keys};
use crate::measure::{MeasureOptions, Memory};
use crate::open_loop::{OpenLoad, OpenLoop, await_replies};
use crate::pattern::{Pattern, Stream};
use crate::process::Process;
use crate::report::{Latencies, rounded};
use crate::rig::{Idle, Party, Rig, resolve};
use crate::saturate::duration;
use crate::workload::{Test, Workload};
use anyhow::{Context, Result, bail, ensure};
use driver::{Driver, Event};
use serde_json::{Value, json};
use std::time::Duration;
use stdx::{Id, Instant};

/// Options of `loadgen large`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Target; it must keep values
    #[arg(long, value_name = "HOST:PORT")]
    pub target: String,
    /// Bytes of the large value
    #[arg(long, default_value_t = 512 * 1024 * 1024)]
    pub value_bytes: usize,
    /// Speed at which its GET reads
    #[arg(long, value_enum, default_value = "fast")]
    pub readers: Readers,
    /// Requests per second of the others, half of them GET and half SET, over ten connections
    #[arg(long, default_value_t = 1000.0)]
    pub rate: f64,
    /// Length of the part before the transfers
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Timeout of each of the two transfers
    #[arg(long, default_value_t = 120.0)]
    pub transfer_seconds_max: f64,
    /// The measured process
    #[command(flatten)]
    pub measure: MeasureOptions,
}

/// Speed at which the large value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Readers {
    /// As it comes
    Fast,
    /// 32 MiB/s
    Slow,
}

/// The rate of a slow reader: well below what any proxy does, and 512 MiB pass in 16 s.
const SLOW_BYTES_PER_SECOND: f64 = 32.0 * 1024.0 * 1024.0;
/// Keys that the others use: enough for every node to have some.
const KEYSPACE: u64 = 1000;
/// Connections that send GET, and as many that send SET.
const CLIENTS: u32 = 5;
/// Limit of bytes written in one turn, so that the other clients are not delayed.
const WRITTEN_PER_TURN_MAX: usize = 128 * 1024;
/// The id of the connection with the large value; the others' come after it.
const LARGE: Id = Id { index: 0, generation: 0 };

/// Runs, and reports.
pub fn run(options: &Options) -> Result<Value> {
    ensure!(options.rate > 0.0 && options.rate.is_finite(), "--rate must be above zero");
    let process = options.measure.process()?.context("--measure-pid is needed: this mode measures memory")?;
    let target = resolve(&options.target)?;
    let workload = |test| Workload { test, data: 3, keys: 1, keyspace: KEYSPACE };
    write_keys(target, KEYSPACE, 3)?;
    let mut rig = Rig::new(Idle::Yield)?;
    let transfer = Transfer::new(options);
    rig.driver.adopt(LARGE, connect(target)?)?;
    let load = |seed| OpenLoad { rate: options.rate / 2.0, clients: CLIENTS, pipeline: 1, seed };
    let getters = OpenLoop::start(&mut rig, target, 1, load(1), &workload(Test::Get))?;
    let setters = OpenLoop::start(&mut rig, target, 1 + CLIENTS, load(2), &workload(Test::Set))?;
    let mut run = Run { rig, transfer, getters, setters, process };

    let alone = duration(options.seconds)?;
    let within = duration(options.transfer_seconds_max)?;
    let mut parts = vec![run.part("before", 0, |run, began| Ok(run.rig.now() >= began + alone))?];
    for (name, step) in
        [("set", Step::Writing(Stream::set(&large_key(0), 0, options.value_bytes))), ("get", Step::Asking)]
    {
        run.transfer.begin(step, run.rig.now());
        parts.push(run.part(name, options.value_bytes, |run, began| {
            ensure!(run.rig.now() < began + within, "the {name} did not end within {within:?}");
            Ok(run.transfer.is_done())
        })?);
    }
    parts.push(run.part("after", 0, |run, began| Ok(run.rig.now() >= began + alone))?);
    let others = run.finish()?;
    let mut report = json!({
        "mode": "large",
        "value_bytes": options.value_bytes,
        "readers": format!("{:?}", options.readers).to_lowercase(),
        "rate": options.rate,
    });
    for ((name, mut part), [gets, sets]) in parts.into_iter().zip(others) {
        part["others_get_latency_us"] = gets.to_json();
        part["others_set_latency_us"] = sets.to_json();
        let mut all = gets;
        all.add(&sets);
        part["others_latency_us"] = all.to_json();
        report[name] = part;
    }
    Ok(report)
}

/// All parties of the run.
struct Run {
    rig: Rig,
    transfer: Transfer,
    getters: OpenLoop,
    setters: OpenLoop,
    process: Process,
}

impl Run {
    /// Turns until `is_over`. Returns the memory that it took.
    fn part(
        &mut self,
        name: &'static str,
        bytes: usize,
        is_over: impl Fn(&Run, Instant) -> Result<bool>,
    ) -> Result<(&'static str, Value)> {
        let mut memory = Memory::begin(self.process.clone())?;
        let began = self.rig.clock().now();
        self.getters.begin_part(began);
        self.setters.begin_part(began);
        while !is_over(self, began)? {
            self.rig.turn(&mut [&mut self.getters, &mut self.setters, &mut self.transfer])?;
            memory.look(self.rig.now())?;
        }
        let seconds = self.rig.now().since(began).as_secs_f64();
        let part = json!({
            "seconds": rounded(seconds, 3),
            "mib_per_second": rounded(bytes as f64 / 1024.0 / 1024.0 / seconds, 1),
            "rss_bytes_before": memory.before(),
            "rss_bytes_after": memory.rss_bytes()?,
            "peak_rss_bytes": memory.peak()?,
        });
        Ok((name, part))
    }

    /// Waits for the last replies. Returns the latencies of the other clients in each part: of GET, and of SET.
    fn finish(mut self) -> Result<Vec<[Latencies; 2]>> {
        let now = self.rig.now();
        self.getters.end_at(now);
        self.setters.end_at(now);
        await_replies(&mut self.rig, &mut self.getters, &mut [&mut self.setters])?;
        await_replies(&mut self.rig, &mut self.setters, &mut [])?;
        let both = self.getters.into_parts().into_iter().zip(self.setters.into_parts());
        Ok(both.map(|(gets, sets)| [gets.latencies, sets.latencies]).collect())
    }
}

/// The connection with the large value.
struct Transfer {
    pattern: Pattern,
    value_bytes: usize,
    step: Step,
    step_began: Instant,
    /// The socket took less than it was offered.
    is_blocked: bool,
    received_bytes: usize,
    bytes_per_second: Option<f64>,
    is_paused: bool,
}

/// Progress of the connection.
#[derive(Debug)]
enum Step {
    /// Sends the SET.
    Writing(Stream),
    /// Waits for its reply; the number counts the bytes received.
    Confirming(usize),
    /// Sends the GET.
    Asking,
    /// Reads its reply.
    Reading(Stream),
    Done,
}

const OK: &[u8] = b"+OK\r\n";

impl Transfer {
    fn new(options: &Options) -> Transfer {
        Transfer {
            pattern: Pattern::new(1),
            value_bytes: options.value_bytes,
            step: Step::Done,
            step_began: Instant::ZERO,
            is_blocked: false,
            received_bytes: 0,
            bytes_per_second: (options.readers == Readers::Slow).then_some(SLOW_BYTES_PER_SECOND),
            is_paused: false,
        }
    }

    fn begin(&mut self, step: Step, now: Instant) {
        (self.step, self.step_began, self.received_bytes) = (step, now, 0);
    }

    fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// Sends at most the bytes of one turn.
    fn write(&mut self, driver: &mut Driver) -> Result<()> {
        let Step::Writing(request) = &mut self.step else { return Ok(()) };
        let mut written = 0;
        while written < WRITTEN_PER_TURN_MAX && !self.is_blocked && !request.is_done() {
            let piece = request.piece(&self.pattern);
            let sent = driver.send(LARGE, piece)?;
            self.is_blocked = sent < piece.len();
            request.advance(sent);
            written += sent;
        }
        if request.is_done() {
            self.step = Step::Confirming(0);
        }
        Ok(())
    }

    /// Asks for the value.
    fn ask(&mut self, driver: &mut Driver) -> Result<()> {
        let mut request = Vec::new();
        resp::encode::request(&mut request, &[b"GET", large_key(0).as_bytes()]);
        ensure!(driver.send(LARGE, &request)? == request.len(), "an idle socket takes a short request");
        self.step = Step::Reading(Stream::bulk(0, self.value_bytes));
        Ok(())
    }

    /// Reads no faster than it may.
    fn hold_back(&mut self, driver: &mut Driver, now: Instant) {
        let Some(rate) = self.bytes_per_second else { return };
        let may_have = now.since(self.step_began).max(Duration::from_millis(1)).as_secs_f64() * rate;
        let is_early = matches!(self.step, Step::Reading(_)) && self.received_bytes as f64 > may_have;
        if is_early != self.is_paused {
            self.is_paused = is_early;
            if is_early { driver.pause(LARGE) } else { driver.resume(LARGE) }
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<()> {
        self.received_bytes += bytes.len();
        match &mut self.step {
            Step::Reading(reply) => {
                reply.check(&self.pattern, bytes)?;
                if reply.is_done() {
                    self.step = Step::Done;
                }
            }
            Step::Confirming(at) => {
                let end = *at + bytes.len();
                if OK.get(*at..end) != Some(bytes) {
                    bail!("the large SET was answered \"{}\"", bytes[..bytes.len().min(200)].escape_ascii());
                }
                *at = end;
                if end == OK.len() {
                    self.step = Step::Done;
                }
            }
            Step::Writing(_) | Step::Asking | Step::Done => {
                let shown = bytes[..bytes.len().min(200)].escape_ascii();
                bail!("a reply without a request: \"{shown}\"");
            }
        }
        Ok(())
    }
}

impl Party for Transfer {
    fn owns(&self, id: Id) -> bool {
        id == LARGE
    }

    fn begin_turn(&mut self, driver: &mut Driver, now: Instant) -> Result<()> {
        self.hold_back(driver, now);
        match self.step {
            Step::Writing(_) => self.write(driver),
            Step::Asking => self.ask(driver),
            Step::Confirming(_) | Step::Reading(_) | Step::Done => Ok(()),
        }
    }

    fn handle(&mut self, event: Event<'_>, _now: Instant) -> Result<Option<Id>> {
        match event {
            Event::Received(_, bytes) => self.receive(bytes)?,
            Event::Writable(_) => self.is_blocked = false,
            Event::Connected(_) => {}
            Event::Ended(_) => bail!("the target ended the connection with the large value"),
            Event::Closed(_, error) => {
                return Err(error).context("the target closed the connection with the large value");
            }
        }
        Ok(None)
    }

    fn flush(&mut self, _driver: &mut Driver, _id: Id, _now: Instant) -> Result<()> {
        Ok(())
    }
}
