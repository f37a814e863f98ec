//! `loadgen saturate`: as much as the target takes. A closed loop that spins, so that the target is the limit.

use crate::closed::ClosedLoop;
use crate::load::write_keys;
use crate::measure::{MeasureOptions, Meter};
use crate::nodes::Nodes;
use crate::report::{self, rounded};
use crate::rig::{Idle, Party, Rig, resolve};
use crate::service::Service;
use crate::workload::Workload;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Options of `loadgen saturate`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Target; the generator waits up to 10 s until it accepts
    #[arg(long, value_name = "HOST:PORT")]
    pub target: String,
    /// The requests
    #[command(flatten)]
    pub workload: Workload,
    /// Connections
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Requests that each client sends at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pipeline: u32,
    /// Length of the measured part
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Length of the unmeasured part before it
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS")]
    pub warmup: f64,
    /// Nodes in the same thread
    #[command(flatten)]
    pub nodes: NodeOptions,
    /// The measured process
    #[command(flatten)]
    pub measure: MeasureOptions,
}

/// The nodes behind the target: canned nodes in the generator's own thread, real ones, or neither.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NodeOptions {
    /// Ports of canned nodes in this thread, 0 for a free one; printed as the first line. They listen before the target
    /// is tried
    #[arg(long, value_delimiter = ',', value_name = "PORTS")]
    pub node_ports: Vec<u16>,
    /// Number of canned nodes at free ports
    #[arg(long, value_name = "COUNT", conflicts_with = "node_ports")]
    pub nodes: Option<usize>,
    /// Real nodes behind the target: every key is written before, and the generator yields its core when idle
    #[arg(long, conflicts_with_all = ["nodes", "node_ports"])]
    pub real_nodes: bool,
}

impl NodeOptions {
    /// Behaviour of a loop beside these nodes when nothing happened.
    pub fn idle(&self) -> Idle {
        if self.real_nodes { Idle::Yield } else { Idle::Spin }
    }

    /// Writes the keys of `workload`, if nodes keep them.
    pub fn load(&self, target: SocketAddr, workload: &Workload) -> Result<()> {
        if self.real_nodes { write_keys(target, workload.keyspace, workload.data) } else { Ok(()) }
    }

    /// Starts the nodes, if any, and prints their addresses. Their ids begin at `first`.
    pub fn start(&self, rig: &Rig, value_bytes: usize, first: u32) -> Result<Service<Nodes>> {
        let free = vec![0; self.nodes.unwrap_or(0)];
        let ports = if self.node_ports.is_empty() { &free } else { &self.node_ports };
        let nodes = Service::listen(ports, Nodes::new(value_bytes), &rig.driver, first)?;
        if !ports.is_empty() {
            report::print_ports(nodes.ports());
        }
        Ok(nodes)
    }
}

/// Longest extension of the measured part, if no reply came in it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Runs, and reports.
pub fn run(options: &Options) -> Result<Value> {
    let target = resolve(&options.target)?;
    let (warmup, seconds) = (duration(options.warmup)?, duration(options.seconds)?);
    let mut rig = Rig::new(options.nodes.idle())?;
    let mut nodes = options.nodes.start(&rig, options.workload.data, options.clients)?;
    rig.await_target(target, &mut [&mut nodes])?;
    options.nodes.load(target, &options.workload)?;
    let process = options.measure.process()?;
    let pipeline = options.pipeline as usize;
    let mut clients =
        ClosedLoop::start(&mut rig.driver, target, 0, options.clients, pipeline, &options.workload)?;
    let parties: &mut [&mut dyn Party] = &mut [&mut clients, &mut nodes];
    rig.turn_for(warmup, parties)?;

    clients.take_latencies();
    let (began, busy_before, requests_before) = (rig.now(), rig.busy(), clients.requests());
    let meter = Meter::begin(process)?;
    rig.turn_until(began + seconds, &mut [&mut clients, &mut nodes])?;
    while clients.requests() == requests_before {
        ensure!(
            rig.now() < began + seconds + ANSWERED_WITHIN,
            "nothing was answered within {ANSWERED_WITHIN:?}"
        );
        rig.turn(&mut [&mut clients, &mut nodes])?;
    }
    let (elapsed, requests) = (rig.now().since(began), clients.requests() - requests_before);
    let figures = meter.end(elapsed, requests)?;

    let mut report = json!({
        "mode": "saturate",
        "test": options.workload.test.name(),
        "clients": options.clients,
        "pipeline": options.pipeline,
        "data": options.workload.data,
        "requests": requests,
        "seconds": rounded(elapsed.as_secs_f64(), 3),
        "rps": (requests as f64 / elapsed.as_secs_f64()).round(),
        "generator_busy": rounded((rig.busy() - busy_before).as_secs_f64() / elapsed.as_secs_f64(), 3),
        "latency_us": clients.take_latencies().to_json(),
    });
    report::extend(&mut report, figures);
    Ok(report)
}

/// Seconds from the command line.
pub(crate) fn duration(seconds: f64) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds)?)
}
