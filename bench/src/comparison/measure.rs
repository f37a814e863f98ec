//! One cell of one contestant, once: starts it, applies the load, and reads its figures.
//!
//! ```text
//!     real, open:   nodes and contestant run for the whole cell;  measure(), measure(), …
//!     saturated:    loadgen with canned nodes ─► contestant ─► its process id into a file ─► loadgen's report
//! ```

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cells::{CLIENTS, KEYS, Load, NODES, Real, Test, VALUE_BYTES};
use super::contestants::{Contestant, PID_FILE, Started};
use super::machine::{self, Place};
use super::record::{Figures, Metric};
use super::running::{Generator, Nodes, free_ports};
use super::usage::{Moment, Usage};
use super::{load, memory, syscalls};

/// Requests of the first run of a contestant: a twentieth of a second for the slowest.
const PROBE_REQUESTS: u64 = 2_000;

/// Share of the wanted time that a probe must take. Its throughput then tells how many requests take all of the time.
const PROBE_SHARE: f64 = 0.2;

/// From this number of clients on, the cost of connecting is subtracted: redis-benchmark needs 4 s for 5,000.
const CONNECTING_COUNTS_FROM: u32 = 500;

/// Number of measurements of that cost.
const CONNECTING_PROBES: usize = 3;

/// Requests of a measurement by those of the run that is taken off it: little is left of noise then.
const MEASURED_BY_CONNECTING: u64 = 6;

/// Seconds before a generator of ours begins to count: connections are made, buffers have grown.
const WARMUP_SECONDS: f64 = 0.3;

/// At a fixed rate a round is shorter by this factor, down to [`PACED_SECONDS_MIN`], and there are more of them. A stall of the
/// whole machine then spoils only one of them.
const PACED_SHORTER: f64 = 4.0;

/// 7,000 requests at the rates that are usual here: 70 of them are above the 99th percentile.
const PACED_SECONDS_MIN: f64 = 0.4;

/// Clients that are measured beside others with deep pipelines.
const BESIDE_CLIENTS: u32 = 10;

/// Their requests per second in all: few beside those of the others.
const BESIDE_RATE: u64 = 2_000;

/// State of all measurements.
pub(super) struct Rig {
    pub(super) nodes: Nodes,
    pub(super) loadgen: PathBuf,
    /// Where configuration files and logs of contestants are.
    pub(super) folder: PathBuf,
    /// Approximate duration of one measurement, except at a fixed rate.
    pub(super) seconds: f64,
}

/// A contestant that is ready for a cell.
pub(super) struct Ready {
    contestant: Contestant,
    /// If it runs for the whole cell.
    started: Option<Started>,
    /// Its commands, as one would type them.
    pub(super) command: String,
    pub(super) load: String,
    plan: Plan,
}

/// The plan for a cell, with the results of its probes.
enum Plan {
    Real { real: Real, requests: u64, connecting: Option<(u64, Usage)> },
    Open { test: Test, rate: u64, place: Place },
    Beside { depth: u32 },
    Saturated { test: Test, depth: u32, place: Place },
    Memory(super::cells::Memory),
}

impl Rig {
    /// About how long one measurement of `load` takes.
    pub(super) fn seconds_of(&self, load: &Load) -> f64 {
        if load.is_paced() { self.paced_seconds() } else { self.seconds }
    }

    fn paced_seconds(&self) -> f64 {
        (self.seconds / PACED_SHORTER).max(PACED_SECONDS_MIN)
    }

    /// Starts `contestant` for `load`, fills its nodes, and measures its throughput.
    pub(super) fn prepare(&self, contestant: &Contestant, load: &Load) -> Result<Ready> {
        let mut ready = Ready {
            contestant: contestant.clone(),
            started: None,
            command: String::new(),
            load: String::new(),
            plan: plan(load),
        };
        if let Some(real) = closed_loop(load) {
            let started = contestant.start(Place::Proxy, &self.nodes.addresses(), &self.folder)?;
            if real.test.reads() {
                load::fill(real, started.port)?;
            }
            ready.command.clone_from(&started.command);
            ready.started = Some(started);
            self.calibrate(&mut ready)?;
        }
        Ok(ready)
    }

    /// Finds how many requests take the wanted time.
    fn calibrate(&self, ready: &mut Ready) -> Result<()> {
        let Some(started) = &ready.started else { return Ok(()) };
        let Plan::Real { real, requests, connecting } = &mut ready.plan else { return Ok(()) };
        let mut probe = PROBE_REQUESTS.max(u64::from(real.clients) * 2);
        let (used, mut closed) = self.drive(started, *real, probe)?;
        if real.clients >= CONNECTING_COUNTS_FROM {
            let again = (1..CONNECTING_PROBES).map(|_| Ok(self.drive(started, *real, probe)?.0));
            let all = std::iter::once(Ok(used)).chain(again).collect::<Result<_>>()?;
            *connecting = Some((probe, middle(all)));
        }
        while (probe as f64) < closed.requests_per_second * self.seconds * PROBE_SHARE {
            probe *= 4;
            closed = self.drive(started, *real, probe)?.1;
        }
        *requests = 1 + (closed.requests_per_second * self.seconds) as u64;
        if let Some((taken_off, _)) = connecting {
            *requests = (*requests).max(*taken_off * MEASURED_BY_CONNECTING);
        }
        ready.load =
            format!("redis-benchmark {}", load::benchmark_words(*real, started.port, *requests).join(" "));
        Ok(())
    }

    /// The highest measured throughput of `ready` with the usual clients, one request at a time.
    pub(super) fn most(&self, ready: &Ready, test: Test) -> Result<f64> {
        let started = ready.started.as_ref().context("it was not started")?;
        let real = usual(test, 1);
        let requests = (50_000.0 * self.seconds) as u64;
        let mut most = 0.0_f64;
        for _ in 0..2 {
            most = most.max(self.drive(started, real, requests)?.1.requests_per_second);
        }
        Ok(most)
    }

    /// Sets the rate of an open loop.
    pub(super) fn set_rate(&self, ready: &mut Ready, wanted: u64) {
        if let Plan::Open { rate, .. } = &mut ready.plan {
            *rate = wanted;
        }
    }

    /// One measurement.
    pub(super) fn measure(&self, ready: &mut Ready) -> Result<Figures> {
        match (&ready.plan, &ready.started) {
            (Plan::Real { real, requests, connecting }, Some(started)) => {
                self.measure_real(started, *real, *requests, *connecting)
            }
            (&Plan::Open { test, rate, place }, Some(started)) => {
                let words = self.open_words(started, test, rate, CLIENTS);
                ready.load = format!("loadgen {}", words.join(" "));
                self.measure_open(started, &words, place)
            }
            (Plan::Beside { depth }, Some(started)) => {
                let mut words = self.open_words(started, Test::Get, BESIDE_RATE, BESIDE_CLIENTS);
                let noise = format!("--noise-clients {BESIDE_CLIENTS} --noise-pipeline {depth}");
                words.extend(noise.split(' ').map(String::from));
                ready.load = format!("loadgen {}", words.join(" "));
                let mut figures = self.measure_open(started, &words, Place::Load)?;
                // The neighbours' requests are not counted, so there is no cost per request.
                figures.retain(|metric, _| matches!(metric, Metric::P50Us | Metric::P99Us | Metric::P999Us));
                Ok(figures)
            }
            (&Plan::Saturated { test, depth, place }, _) => self.measure_saturated(ready, test, depth, place),
            (&Plan::Memory(kind), _) => {
                let measured = memory::measure(self, &ready.contestant, kind)?;
                (ready.command, ready.load) = (measured.command, measured.load);
                Ok(measured.figures)
            }
            _ => anyhow::bail!("it was not started"),
        }
    }

    fn measure_real(
        &self,
        started: &Started,
        real: Real,
        requests: u64,
        connecting: Option<(u64, Usage)>,
    ) -> Result<Figures> {
        let commands = self.nodes.commands_processed()?;
        let (mut usage, closed) = self.drive(started, real, requests)?;
        load::check_carried_out(requests, self.nodes.commands_processed()? - commands)?;
        let mut counted = requests;
        if let Some((probe, used)) = connecting {
            usage = usage.without(used);
            counted -= probe;
        }
        let mut figures = usage.figures(counted);
        figures.extend(closed.figures());
        figures.extend(resident(started)?);
        Ok(figures)
    }

    /// Has redis-benchmark send `requests`.
    fn drive(&self, started: &Started, real: Real, requests: u64) -> Result<(Usage, load::Closed)> {
        let nodes: Vec<u32> = self.nodes.addresses().iter().map(|&(_, id)| id).collect();
        let before = Moment::now(&started.family, &nodes)?;
        let closed = load::benchmark(real, started.port, requests)?;
        let usage = Moment::now(&started.family, &nodes)?.since(&before);
        Ok((usage, closed))
    }

    /// System calls per request, if a tool here can count them; for cells whose load is redis-benchmark.
    pub(super) fn count_syscalls(&self, ready: &Ready) -> Result<Option<f64>> {
        let (Plan::Real { real, requests, .. }, Some(started)) = (&ready.plan, &ready.started) else {
            return Ok(None);
        };
        if real.clients >= CONNECTING_COUNTS_FROM {
            // Connecting takes calls as well.
            return Ok(None);
        }
        let requests = requests / 2 + 1;
        let words = load::benchmark_words(*real, started.port, requests);
        let words = syscalls::command_words("redis-benchmark", words);
        let count = syscalls::count(&started.family, &words, &self.folder)?;
        Ok(count.map(|count| count as f64 / requests as f64))
    }

    fn open_words(&self, started: &Started, test: Test, rate: u64, clients: u32) -> Vec<String> {
        let words = format!(
            "open --target 127.0.0.1:{} --test {} --rate {rate} --clients {clients} --data {VALUE_BYTES} \
             --keyspace {} --seconds {} --warmup {WARMUP_SECONDS} --measure-pid {} --real-nodes",
            started.port,
            test.name(),
            usual(test, 1).keyspace(),
            self.paced_seconds(),
            started.family[0],
        );
        words.split(' ').map(String::from).collect()
    }

    fn measure_open(&self, started: &Started, words: &[String], place: Place) -> Result<Figures> {
        let nodes: Vec<u32> = self.nodes.addresses().iter().map(|&(_, id)| id).collect();
        let before = Moment::now(&started.family, &nodes)?;
        let mut loadgen = machine::placed(place, &self.loadgen);
        let report = parse_report(&load::output(loadgen.args(words))?)?;
        let usage = Moment::now(&started.family, &nodes)?.since(&before);
        let requests = number(&report, "/rps")? * usage.seconds;
        let mut figures = usage.figures(requests as u64);
        figures.extend(read_report(&report));
        figures.extend(resident(started)?);
        // At a fixed rate no core is the limit, and the generator never rests.
        figures.remove(&Metric::LoadCoreBusy);
        Ok(figures)
    }

    /// Canned nodes have to be there before the contestant, which is started anew.
    fn measure_saturated(&self, ready: &mut Ready, test: Test, depth: u32, place: Place) -> Result<Figures> {
        // In one go: ports of two calls may be the same.
        let [target, ports @ ..] = free_ports::<{ 1 + NODES }>()?;
        let node_ports = ports.map(|port| port.to_string()).join(",");
        let words = format!(
            "saturate --node-ports {node_ports} --target 127.0.0.1:{target} --test {} --clients {CLIENTS} \
             --pipeline {depth} --data {VALUE_BYTES} --keys {KEYS} --seconds {} --warmup {WARMUP_SECONDS} \
             --measure-pid-file {PID_FILE}",
            test.name(),
            self.seconds
        );
        ready.load = format!("loadgen {words}");
        let load_place = if place == Place::Anywhere { place } else { Place::Load };
        let mut loadgen = machine::placed(load_place, &self.loadgen);
        let loadgen = loadgen.args(words.split(' ')).current_dir(&self.folder);
        let loadgen = Generator::start(loadgen)?;
        let contestant = ready.contestant.answering(test, VALUE_BYTES);
        let started = contestant.start_on(target, place, &ports, &self.folder)?;
        ready.command.clone_from(&started.command);
        let cores = Moment::now(&[], &[])?;
        let report = parse_report(&loadgen.finish()?)?;
        let usage = Moment::now(&[], &[])?.since(&cores);
        let mut figures = read_report(&report);
        let cpu_us = figures.get(&Metric::CpuUsPerRequest).copied().unwrap_or_default();
        let rps = figures.get(&Metric::RequestsPerSecond).copied().unwrap_or_default();
        figures.insert(Metric::ProxyBusy, cpu_us * rps / 1e6);
        figures.insert(Metric::ProxyCoreBusy, usage.proxy_core / usage.seconds);
        figures.insert(Metric::RssStartBytes, started.rss_start_bytes as f64);
        Ok(figures)
    }
}

/// The median by the proxy's time: a disturbed one would be subtracted from all rounds.
fn middle(mut usages: Vec<Usage>) -> Usage {
    usages.sort_by(|left, right| left.proxy_ns.total_cmp(&right.proxy_ns));
    usages[usages.len() / 2]
}

fn plan(load: &Load) -> Plan {
    match *load {
        Load::Real(real) => Plan::Real { real, requests: 0, connecting: None },
        Load::Open { test, across, .. } => {
            Plan::Open { test, rate: 0, place: if across { Place::Proxy } else { Place::Load } }
        }
        Load::Beside { depth } => Plan::Beside { depth },
        Load::Saturated { test, depth } => Plan::Saturated { test, depth, place: Place::Proxy },
        Load::Workers { test, depth } => Plan::Saturated { test, depth, place: Place::Anywhere },
        Load::Memory(kind) => Plan::Memory(kind),
    }
}

/// The closed loop whose keys the nodes must hold for `load`, if the contestant runs for the whole cell.
fn closed_loop(load: &Load) -> Option<Real> {
    match *load {
        Load::Real(real) => Some(real),
        Load::Open { test, .. } => Some(usual(test, 1)),
        Load::Beside { .. } => Some(usual(Test::Get, 1)),
        _ => None,
    }
}

/// The usual clients and values.
pub(super) fn usual(test: Test, depth: u32) -> Real {
    Real { test, depth, clients: CLIENTS, value_bytes: VALUE_BYTES }
}

fn resident(started: &Started) -> Result<Figures> {
    let (now, peak) = machine::resident_bytes(&started.family)?;
    Ok(Figures::from([
        (Metric::RssStartBytes, started.rss_start_bytes as f64),
        (Metric::RssBytes, now as f64),
        (Metric::RssPeakBytes, peak as f64),
    ]))
}

/// The last line that loadgen prints.
pub(super) fn parse_report(text: &str) -> Result<Value> {
    let line = text.lines().last().context("loadgen printed nothing")?;
    serde_json::from_str(line).with_context(|| format!("loadgen said: {line}"))
}

fn number(report: &Value, pointer: &str) -> Result<f64> {
    report.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer} in {report}"))
}

/// The contestant's figures in loadgen's report, and the lateness of loadgen itself.
fn read_report(report: &Value) -> Figures {
    const PLACES: [(&str, Metric); 11] = [
        ("/rps", Metric::RequestsPerSecond),
        ("/rate", Metric::RateWanted),
        ("/cpu_us_per_request", Metric::CpuUsPerRequest),
        ("/rss_bytes", Metric::RssBytes),
        ("/peak_rss_bytes", Metric::RssPeakBytes),
        ("/generator_busy", Metric::LoadCoreBusy),
        ("/latency_us/p50", Metric::P50Us),
        ("/latency_us/p90", Metric::P90Us),
        ("/latency_us/p99", Metric::P99Us),
        ("/latency_us/p999", Metric::P999Us),
        ("/latency_us/max", Metric::MaxUs),
    ];
    let found = |(pointer, metric)| Some((metric, report.pointer(pointer)?.as_f64()?));
    let mut figures: Figures = PLACES.into_iter().filter_map(found).collect();
    // A number, or percentiles.
    let late = report.pointer("/late_us/p99").or(report.get("late_us")).and_then(Value::as_f64);
    figures.extend(late.map(|late| (Metric::LateUs, late)));
    figures
}

#[cfg(test)]
mod tests {
    use super::super::contestants::{self, Role};
    use super::*;

    /// The way of every cell over real nodes, with the one contestant that needs no build.
    #[test]
    fn a_node_is_filled_driven_and_measured() {
        let folder = std::env::temp_dir().join(format!("bench-suite-{}-measure", std::process::id()));
        std::fs::create_dir_all(&folder).expect("it can be made");
        let nodes = Nodes::start(&folder).expect("redis-server is there");
        let rig = Rig { nodes, loadgen: "loadgen".into(), folder: folder.clone(), seconds: 0.05 };
        let (contestants, _) =
            contestants::find("shardis".as_ref(), &[], "loadgen".as_ref()).expect("no builds");
        let direct = contestants
            .iter()
            .find(|contestant| contestant.role() == Role::Direct)
            .expect("it is always there");
        let mut ready = rig.prepare(direct, &Load::Real(usual(Test::Get, 10))).expect("it answers");
        let figures = rig.measure(&mut ready).expect("it answers");
        for metric in [Metric::RequestsPerSecond, Metric::CpuUsPerRequest, Metric::RssBytes] {
            assert!(figures[&metric] > 0.0, "{figures:?}");
        }
        drop(rig);
        std::fs::remove_dir_all(folder).expect("it was made");
    }

    #[test]
    fn a_disturbed_probe_is_not_taken_off() {
        let probe = |proxy_ns: f64| Usage { proxy_ns, ..Usage::default() };
        assert_eq!(middle(vec![probe(2e8), probe(9e8), probe(1e8)]), probe(2e8));
    }

    #[test]
    fn the_last_line_of_loadgen_is_its_report() {
        let text = r#"{"ports":[1,2]}
{"rps":1000.0,"cpu_us_per_request":5.5,"latency_us":{"p50":40.5,"max":9},"late_us":{"p99":2.0}}
"#;
        let expected = Figures::from([
            (Metric::RequestsPerSecond, 1000.0),
            (Metric::CpuUsPerRequest, 5.5),
            (Metric::P50Us, 40.5),
            (Metric::MaxUs, 9.0),
            (Metric::LateUs, 2.0),
        ]);
        assert_eq!(read_report(&parse_report(text).expect("it is JSON")), expected);
        assert!(parse_report("").is_err());
        assert!(
            parse_report(
                "loadgen: no
"
            )
            .is_err()
        );
    }
}
