//! `loadgen open`: a fixed rate that does not depend on replies. Latency counts from the intended start.

use crate::closed::ClosedLoop;
use crate::measure::{MeasureOptions, Meter};
use crate::open_loop::{self, OpenLoad, OpenLoop, Recorded};
use crate::report::{self, rounded};
use crate::rig::{Party, Rig, resolve};
use crate::saturate::{NodeOptions, duration};
use crate::workload::Workload;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Options of `loadgen open`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Target; the generator waits up to 10 s until it accepts
    #[arg(long, value_name = "HOST:PORT")]
    pub target: String,
    /// Requests per second, of all clients together. Their starts are a Poisson process
    #[arg(long)]
    pub rate: f64,
    /// The requests
    #[command(flatten)]
    pub workload: Workload,
    /// Connections, used in turn, also while an earlier request is not answered
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Requests that start at once, on one connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pipeline: u32,
    /// Seed of the schedule
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Length of the measured part
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Length of the unmeasured part before it
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS")]
    pub warmup: f64,
    /// Connections of a closed loop beside them, whose latency is not recorded
    #[arg(long, default_value_t = 0, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub noise_clients: u32,
    /// Requests that each noise client sends at once
    #[arg(long, default_value_t = 100, value_name = "PIPELINE", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub noise_pipeline: u32,
    /// Nodes in the same thread
    #[command(flatten)]
    pub nodes: NodeOptions,
    /// The measured process
    #[command(flatten)]
    pub measure: MeasureOptions,
}

/// Runs, and reports.
pub fn run(options: &Options) -> Result<Value> {
    ensure!(options.rate > 0.0 && options.rate.is_finite(), "--rate must be above zero");
    let target = resolve(&options.target)?;
    let (warmup, seconds) = (duration(options.warmup)?, duration(options.seconds)?);
    let mut rig = Rig::new(options.nodes.idle())?;
    let (noise_first, node_first) = (options.clients, options.clients + options.noise_clients);
    let mut nodes = options.nodes.start(&rig, options.workload.data, node_first)?;
    rig.await_target(target, &mut [&mut nodes])?;
    options.nodes.load(target, &options.workload)?;
    let process = options.measure.process()?;
    let mut noise = ClosedLoop::start(
        &mut rig.driver,
        target,
        noise_first,
        options.noise_clients,
        options.noise_pipeline as usize,
        &options.workload,
    )?;
    let load = OpenLoad {
        rate: options.rate,
        clients: options.clients,
        pipeline: options.pipeline,
        seed: options.seed,
    };
    let mut clients = OpenLoop::start(&mut rig, target, 0, load, &options.workload)?;
    rig.turn_for(warmup, &mut [&mut clients, &mut noise, &mut nodes])?;

    let (began, busy_before) = (rig.now(), rig.busy());
    clients.begin_part(began);
    clients.end_at(began + seconds);
    let (answered_before, noise_before) = (clients.answered(), noise.requests());
    let meter = Meter::begin(process)?;
    rig.turn_until(began + seconds, &mut [&mut clients, &mut noise, &mut nodes])?;
    let elapsed = rig.now().since(began);
    let answered = clients.answered() - answered_before;
    let noise_requests = noise.requests() - noise_before;
    let figures = meter.end(elapsed, answered + noise_requests)?;
    let busy = rig.busy() - busy_before;
    let others: &mut [&mut dyn Party] = &mut [&mut noise, &mut nodes];
    open_loop::await_replies(&mut rig, &mut clients, others)?;

    let mut report = json!({
        "mode": "open",
        "test": options.workload.test.name(),
        "clients": options.clients,
        "pipeline": options.pipeline,
        "data": options.workload.data,
        "seed": options.seed,
        "rate": options.rate,
        "rps": (answered as f64 / elapsed.as_secs_f64()).round(),
        "seconds": rounded(elapsed.as_secs_f64(), 3),
        "generator_busy": rounded(busy.as_secs_f64() / elapsed.as_secs_f64(), 3),
        "noise_clients": options.noise_clients,
        "noise_rps": (noise_requests as f64 / elapsed.as_secs_f64()).round(),
    });
    clients.into_parts().iter().for_each(|measured| report::extend(&mut report, times(measured)));
    report::extend(&mut report, figures);
    Ok(report)
}

/// The fields of a recorded part.
fn times(recorded: &Recorded) -> Value {
    let sent = recorded.late.len();
    json!({
        "requests": recorded.latencies.len(),
        "latency_us": recorded.latencies.to_json(),
        "late_us": recorded.late.to_json(),
        "late_share": rounded(recorded.late_count as f64 / sent.max(1) as f64, 5),
    })
}
