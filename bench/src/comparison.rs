//! `cargo xtask bench`: shardis beside other proxies, over the same nodes, in turn, on one machine.
//!
//! ```text
//!     core 0: the contestant            core 1: four nodes and the load
//!
//!     for each cell:   start all contestants
//!                      round 1: A B C …   round 2: A B C …   round 3: A B C …
//!                      count system calls, end them
//! ```
//!
//! A temporary disturbance of the machine so hits all alike. `run.json` in the folder of the run has everything; `run.txt`,
//! docs/benchmarks.md, its charts and the table in README.md are computed from it.

mod cells;
mod chart;
mod contestants;
mod findings;
mod load;
mod machine;
mod measure;
mod memory;
mod page;
mod pictures;
mod record;
mod report;
mod running;
mod statistics;
mod syscalls;
#[cfg(test)]
mod testing;
mod usage;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use cells::{Cell, Load};
use contestants::Contestant;
use measure::{Ready, Rig};
use programs::needs;
use programs::process::{self, command, root, target_dir};
pub(crate) use record::Machine;
use record::{CellRun, Entry, Metric, Run};

/// The cells, their contestants and their duration.
#[derive(clap::Args)]
pub struct Options {
    /// Short run of a few cells, in two rounds: under two minutes
    #[arg(long)]
    short: bool,
    /// Cells to measure, as patterns with commas between them: `get-p*,mem-*`
    #[arg(long, value_name = "GLOB", default_value = "*")]
    cells: String,
    /// Contestants to measure, with commas between them [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    contestants: Vec<String>,
    /// Measurements of each cell and contestant; at fixed rates five times as many, each a quarter as long
    /// [default: 3, short: 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Length of one measurement, about [default: 2, short: 0.5]
    #[arg(long)]
    seconds: Option<f64>,
    /// Folder of the run, to which cells are added [default: bench/runs/DATE-MACHINE for a full run, which is also
    /// rendered; else in target/bench]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Build of shardis to compare with, a contestant by the name of the file; repeatable
    #[arg(long, value_name = "PATH")]
    shardis: Vec<PathBuf>,
    /// List of the cells; nothing is measured
    #[arg(long)]
    list: bool,
    /// Folder of a run to write run.txt, docs/benchmarks.md, its charts and the table in README.md from; nothing is
    /// measured
    #[arg(long, value_name = "FOLDER")]
    render: Option<PathBuf>,
}

/// Rounds at a fixed rate for each round of other cells.
const PACED_ROUNDS: u32 = 5;

impl Options {
    /// Whether everything is measured, as for a run in the docs.
    fn is_full(&self) -> bool {
        !self.short && self.cells == "*" && self.contestants.is_empty()
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.short { 2 } else { 3 })
    }

    /// Each cell about memory is one measurement of a fresh process, because a process may keep memory. Noise in CPU time
    /// hardly affects it. Where requests have a rate, rounds are short and many.
    fn rounds_of(&self, cell: &Cell) -> u32 {
        match &cell.load {
            Load::Memory(_) => 1,
            load if load.is_paced() && !self.short => self.rounds() * PACED_ROUNDS,
            _ => self.rounds(),
        }
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.short { 0.5 } else { 2.0 })
    }

    fn cells(&self) -> Result<Vec<Cell>> {
        let mut cells = cells::choose(cells::all(), &self.cells)?;
        cells.retain(|cell| cell.is_short || !self.short);
        ensure!(!cells.is_empty(), "--short has none of these cells");
        Ok(cells)
    }
}

/// Measures, or does the other action of the options.
pub fn run(options: &Options) -> Result<()> {
    let cells = options.cells()?;
    if options.list {
        cells
            .iter()
            .for_each(|cell| println!("{}{}", cell.name, if cell.is_short { "  (short)" } else { "" }));
        return Ok(());
    }
    if let Some(folder) = &options.render {
        return page::render(folder);
    }
    ensure!(
        options.seconds() > 0.0 && options.seconds() <= 3600.0,
        "--seconds must be above 0 and at most 3600"
    );
    needs::install(&[needs::REDIS_SERVER, needs::REDIS_CLI])?;
    let machine = machine::describe()?;
    println!("bench: {}", machine.pinning);
    let (ours, loadgen) = (contestants::build("shardis")?, contestants::build("loadgen")?);
    let (contestants, missing) = contestants::find(&ours, &options.shardis, &loadgen)?;
    missing.iter().for_each(|line| println!("bench: without {line}"));
    let contestants = choose(contestants, &options.contestants)?;
    let folder = folder(options, &machine.model)?;
    let mut run = match Run::read(&folder)? {
        // A full run owes nothing to an earlier one.
        Some(run) if !options.is_full() => run,
        _ => Run { date: now("%F")?, machine, versions: BTreeMap::new(), missing, cells: Vec::new() },
    };
    run.versions.extend(versions(&contestants)?);
    let scratch = target_dir().join("bench/scratch");
    std::fs::create_dir_all(&scratch)?;
    let nodes = running::Nodes::start(&scratch)?;
    let rig = Rig { nodes, loadgen, folder: scratch, seconds: options.seconds() };
    for cell in &cells {
        run.add(run_cell(&rig, cell, &contestants, options.rounds_of(cell))?);
        // After each cell, so that a later failure loses no results.
        run.write(&folder)?;
        std::fs::write(folder.join(report::FILE), report::text(&run))?;
    }
    println!("\n{}\nbench: this is {}", report::text(&run), folder.join(report::FILE).display());
    if options.is_full() { page::render(&folder) } else { Ok(()) }
}

/// Contestants with these names, or all.
fn choose(contestants: Vec<Contestant>, names: &[String]) -> Result<Vec<Contestant>> {
    let known: Vec<String> = contestants.iter().map(|contestant| contestant.name.clone()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        anyhow::bail!("no contestant is called {name}; here are {}", known.join(" "));
    }
    let is_chosen = |contestant: &Contestant| names.is_empty() || names.contains(&contestant.name);
    Ok(contestants.into_iter().filter(is_chosen).collect())
}

/// Where the run is kept.
fn folder(options: &Options, model: &str) -> Result<PathBuf> {
    if let Some(folder) = &options.out {
        return Ok(folder.clone());
    }
    let name = format!("{}-{}", now("%F")?, machine::short_name(model));
    let parent = if options.is_full() { root().join("bench/runs") } else { target_dir().join("bench") };
    Ok(parent.join(name))
}

/// The name of a folder for runs on this machine, of today.
pub(crate) fn machine_folder(suffix: &str) -> Result<String> {
    let model = machine::short_name(&machine::describe()?.model);
    Ok(format!("{}-{model}-{suffix}", now("%F")?))
}

/// The time in UTC.
fn now(format: &str) -> Result<String> {
    Ok(process::read(command("date").args(["-u", &format!("+{format}")]))?.trim().into())
}

fn versions(contestants: &[Contestant]) -> Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    for contestant in contestants {
        versions.extend(contestant.version().map(|version| (contestant.name.clone(), version)));
    }
    versions.insert("rustc".into(), process::read(command("rustc").arg("--version"))?.trim().into());
    versions.insert(
        "redis-benchmark".into(),
        process::read(command("redis-benchmark").arg("--version"))?.trim().into(),
    );
    // Where there is no git, as in a tarball, the version that shardis prints has to do.
    if let Ok(commit) = process::read(command("git").args(["describe", "--always", "--dirty"])) {
        versions.insert("commit".into(), commit.trim().into());
    }
    Ok(versions)
}

/// All contestants in one cell, in turn.
fn run_cell(rig: &Rig, cell: &Cell, contestants: &[Contestant], rounds: u32) -> Result<CellRun> {
    let at = now("%FT%TZ")?;
    rig.nodes.flush()?;
    let suited: Vec<&Contestant> =
        contestants.iter().filter(|contestant| cell.suits(contestant.role())).collect();
    let mut entries: Vec<Entry> = suited.iter().map(|contestant| Entry::new(contestant)).collect();
    let mut ready: Vec<Option<Ready>> = Vec::new();
    for (contestant, entry) in suited.iter().zip(&mut entries) {
        ready.push(entry.note(rig.prepare(contestant, &cell.load)));
    }
    if let Load::Open { test, share_percent, .. } = cell.load {
        set_rates(rig, &mut ready, test, share_percent)?;
    }
    rig.nodes.set_interrupting(!cell.load.has_patient_nodes())?;
    for round in 1..=rounds {
        print!("{:<16} {round}/{rounds} ", cell.name);
        std::io::stdout().flush()?;
        // Each is the first at times. Effects of the previous one, such as a core that has cooled down, then do not always hit
        // the same one.
        let (behind, first) = ready.split_at_mut(round as usize % suited.len().max(1));
        let (entries_behind, entries_first) = entries.split_at_mut(behind.len());
        let in_turn = first.iter_mut().zip(entries_first).chain(behind.iter_mut().zip(entries_behind));
        for (ready, entry) in in_turn {
            let Some(ready) = ready else { continue };
            let figures = entry.note(rig.measure(ready));
            print!("  {} {}", entry.contestant, report::brief(figures.as_ref()));
            std::io::stdout().flush()?;
            entry.rounds.extend(figures);
        }
        println!();
    }
    rig.nodes.set_interrupting(true)?;
    for (ready, entry) in ready.iter().zip(&mut entries) {
        let Some(ready) = ready else { continue };
        (entry.command, entry.load) = (ready.command.clone(), ready.load.clone());
        if let (Some(Some(count)), Some(last)) =
            (entry.note(rig.count_syscalls(ready)), entry.rounds.last_mut())
        {
            last.insert(Metric::SyscallsPerRequest, count);
        }
    }
    Ok(CellRun { name: cell.name.clone(), at, seconds: rig.seconds_of(&cell.load), entries })
}

/// One rate for all, so that their latencies can be compared. It is a share of the slowest one's throughput, so that none is
/// measured nearer to its limit than the cell's name says.
fn set_rates(rig: &Rig, ready: &mut [Option<Ready>], test: cells::Test, share_percent: u32) -> Result<()> {
    let mut least = f64::INFINITY;
    for ready in ready.iter().flatten() {
        least = least.min(rig.most(ready, test)?);
    }
    let rate = (least * f64::from(share_percent) / 100.0 / 1000.0).floor().max(1.0) as u64 * 1000;
    ready.iter_mut().flatten().for_each(|ready| rig.set_rate(ready, rate));
    Ok(())
}

impl Entry {
    fn new(contestant: &Contestant) -> Entry {
        Entry {
            contestant: contestant.name.clone(),
            role: contestant.role(),
            command: String::new(),
            load: String::new(),
            rounds: Vec::new(),
            failure: None,
        }
    }

    /// The value of `outcome`, or `None`: then the entry has the reason, and other contestants continue.
    fn note<T>(&mut self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let reason = format!("{error:#}");
                println!("\nbench: {}: {reason}", self.contestant);
                self.failure = Some(reason);
                None
            }
        }
    }
}
