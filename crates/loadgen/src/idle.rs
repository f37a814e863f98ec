//! `loadgen idle`: memory of an idle client, before and after its first requests.

use crate::load::{expect, patient, write_keys};
use crate::measure::MeasureOptions;
use crate::process::Process;
use crate::report::rounded;
use crate::rig::{self, resolve};
use crate::saturate::duration;
use crate::workload::{Test, Workload};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use stdx::Prng;

/// Options of `loadgen idle`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Target; it must keep values, or be in front of canned nodes
    #[arg(long, value_name = "HOST:PORT")]
    pub target: String,
    /// Connections; those beyond the limit of open files fail
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub clients: u32,
    /// Pause before memory is measured, for memory that is returned late
    #[arg(long, default_value_t = 3.0)]
    pub settle_seconds: f64,
    /// The measured process
    #[command(flatten)]
    pub measure: MeasureOptions,
}

/// Keys that the clients ask for.
const KEYSPACE: u64 = 1000;

/// Runs, and reports.
pub fn run(options: &Options) -> Result<Value> {
    let target = resolve(&options.target)?;
    let process = options.measure.process()?.context("--measure-pid is needed: this mode measures memory")?;
    let settle = duration(options.settle_seconds)?;
    rig::raise_files_limit();
    let workload = Workload { test: Test::Get, data: 3, keys: 1, keyspace: KEYSPACE };
    write_keys(target, KEYSPACE, workload.data)?;

    let mut steps = Steps { process, clients: options.clients, before: 0 };
    steps.before = steps.process.rss_bytes()?;
    let opened: Result<Vec<TcpStream>> = (0..options.clients).map(|_| patient(target)).collect();
    let mut conns = opened?;
    pause(settle);
    let open = steps.step()?;
    ask_at_once(&mut conns, &workload)?;
    let used_at_once = steps.step()?;
    ask_in_turn(&mut conns, &workload)?;
    let used_in_turn = steps.step()?;
    pause(settle);
    let settled = steps.step()?;
    drop(conns);
    pause(settle);
    let closed = steps.step()?;
    Ok(json!({
        "mode": "idle",
        "clients": options.clients,
        "rss_bytes_before": steps.before,
        "open": open,
        "used_at_once": used_at_once,
        "used_in_turn": used_in_turn,
        "settled": settled,
        "closed": closed,
        "peak_rss_bytes": steps.process.rss_peak_bytes()?,
    }))
}

/// The measured process, and how large it was.
struct Steps {
    process: Process,
    clients: u32,
    before: u64,
}

impl Steps {
    /// The present memory, with its growth per client.
    fn step(&self) -> Result<Value> {
        let rss = self.process.rss_bytes()?;
        let per_client = (rss as f64 - self.before as f64) / f64::from(self.clients);
        Ok(json!({ "rss_bytes": rss, "bytes_per_client": rounded(per_client, 0) }))
    }
}

/// One request from everybody before the first reply is read.
fn ask_at_once(conns: &mut [TcpStream], workload: &Workload) -> Result<()> {
    let mut prng = Prng::new(1);
    for conn in &mut *conns {
        send(conn, workload, &mut prng)?;
    }
    conns.iter_mut().try_for_each(|conn| expect(conn, &workload.reply()))
}

/// One request from everybody, after the reply to the last.
fn ask_in_turn(conns: &mut [TcpStream], workload: &Workload) -> Result<()> {
    let mut prng = Prng::new(2);
    for conn in conns {
        send(conn, workload, &mut prng)?;
        expect(conn, &workload.reply())?;
    }
    Ok(())
}

fn send(conn: &mut TcpStream, workload: &Workload, prng: &mut Prng) -> Result<()> {
    let mut request = Vec::new();
    workload.request(prng, &mut request);
    Ok(conn.write_all(&request)?)
}

fn pause(time: Duration) {
    // tidy: allow(sleep): the memory that is returned meanwhile is measured
    std::thread::sleep(time);
}
