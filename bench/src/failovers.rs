//! `cargo xtask failovers`: latency of clients when primaries die, freeze or hand over, and while slots are moved.
//!
//! `shardis local` starts the topology and the proxy in front of it. Clients count up keys through the proxy and record the
//! outcome of each request ([`ledger`]). One round after the other takes a shard's primary away ([`rounds`]). It looks at the
//! nodes themselves for the moment at which another has taken its place.
//!
//! Time is only reported. A false answer fails the run: a write that was applied twice, or an acknowledged one that is missing
//! although no node died with it.

mod direct;
mod ledger;
mod pooled;
mod report;
mod rounds;
mod scene;
mod strain;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use programs::needs;
use programs::process::{self, cargo, command, root, target_dir};

use crate::comparison::{Machine, machine_folder};
use ledger::Load;
use report::Report;
use rounds::Kind;
use scene::Scene;

/// The faults, their number, and their clients.
#[derive(clap::Args)]
pub struct Options {
    /// Source of failovers
    #[arg(long, value_enum, default_value = "cluster")]
    by: By,
    /// Number of primaries that are killed, frozen and asked to hand over in turn
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Clients, each of one of three shards, and with 500 requests a second
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(3..=1000))]
    clients: u32,
    /// Kind of failover, alone
    #[arg(long, value_enum)]
    only: Option<Kind>,
    /// Silence of a primary until another takes its place [default: 1000, by sentinels 1500]
    #[arg(long, value_parser = clap::value_parser!(u32).range(200..))]
    failover_ms: Option<u32>,
    /// Slots that move at the end of a cluster run, while clients go on; 0 for none
    #[arg(long, default_value_t = 1000)]
    slots: u32,
    /// Rounds for comparison: as many without a failover, and as many with one of nodes apart from the proxy
    #[arg(long, default_value_t = 0)]
    controls: u32,
    /// Storage of the run under bench/runs
    #[arg(long)]
    keep: bool,
}

/// Authority over the roles of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The nodes of a Redis Cluster
    Cluster,
    /// Three sentinels
    Sentinel,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Cluster => "cluster",
            By::Sentinel => "sentinel",
        }
    }

    /// Silence of a primary after which it is replaced, by default: about that of `shardis local`.
    fn failover_ms(self) -> u32 {
        match self {
            By::Cluster => 1000,
            By::Sentinel => 1500,
        }
    }
}

/// Runs it and prints the report.
pub fn run(options: &Options) -> Result<()> {
    needs::install(&[needs::REDIS_SERVER, needs::REDIS_CLI])?;
    process::run(&mut cargo(["build", "--profile", "dist", "--package", "shardis"]))?;
    let data = target_dir().join(format!("failovers-{}", std::process::id()));
    let outcome = measure(options, &data);
    // The nodes are gone by now, so their files are of no use.
    let _ = fs::remove_dir_all(&data);
    let report = outcome?;
    let text = report.to_text();
    print!("{text}");
    if options.keep {
        let folder =
            root().join("bench/runs").join(machine_folder(&format!("failovers-{}", options.by.name()))?);
        keep(&folder, &report, &text)?;
    }
    report.check()
}

fn keep(folder: &PathBuf, report: &Report, text: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("run.txt"), text)?;
    fs::write(folder.join("run.json"), serde_json::to_string_pretty(report)? + "\n")?;
    println!("kept in {}", folder.strip_prefix(root()).unwrap_or(folder).display());
    Ok(())
}

fn measure(options: &Options, data: &std::path::Path) -> Result<Report> {
    let failover_ms = options.failover_ms.unwrap_or(options.by.failover_ms());
    let mut scene = Scene::start(options.by, failover_ms, data)?;
    let load = Load::start(&scene, options.clients)?;
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        let kind = options.only.unwrap_or(Kind::of_round(number));
        let round = rounds::play(&mut scene, &load, number as usize, kind)
            .with_context(|| format!("round {number} ({kind})"))?;
        eprintln!("{}", report::line(&round));
        rounds.push(round);
    }
    for number in 0..options.controls * 2 {
        let kind = if number % 2 == 0 { Kind::Nothing } else { Kind::Elsewhere };
        let round = rounds::control(&scene, &load, kind).with_context(|| format!("control ({kind})"))?;
        eprintln!("{}", report::line(&round));
        rounds.push(round);
    }
    let moved = match options.by {
        By::Cluster if options.slots > 0 => Some(rounds::reshard(&mut scene, &load, options.slots)?),
        By::Cluster | By::Sentinel => None,
    };
    let stats = scene.proxy_stats()?;
    let ledger = load.finish()?;
    ensure!(ledger.acknowledged > 0, "no request was ever answered");
    Ok(Report {
        by: options.by.name().to_owned(),
        failover_ms,
        clients: options.clients,
        machine: Machine::here()?,
        redis: process::read(command("redis-server").arg("--version"))?.trim().to_owned(),
        pools: report::pools(&rounds),
        rounds,
        moved,
        ledger,
        stats,
    })
}
