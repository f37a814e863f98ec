//! The record of a run: `run.json`. All pages are computed from it, at any later time.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::contestants::Role;

/// The file in the folder of a run.
const FILE: &str = "run.json";

/// One or several calls of `cargo xtask bench` into one folder.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    /// Of the first call, UTC.
    pub(super) date: String,
    pub(super) machine: Machine,
    /// Versions of all programs that took part.
    pub(super) versions: BTreeMap<String, String>,
    /// Missing rivals, with the packages that they need.
    pub(super) missing: Vec<String>,
    pub(super) cells: Vec<CellRun>,
}

/// Where a run was made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) model: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) memory_bytes: u64,
    /// Over the last minute before the run: above 0.2, another program was at work.
    pub(crate) load_average: String,
    pub(crate) open_files_max: u64,
    /// TCP's congestion control; empty in old records. `bbr` paces bytes over loopback as well.
    #[serde(default)]
    pub(crate) congestion_control: String,
    /// Which core has which part.
    pub(crate) pinning: String,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Result<Machine> {
        super::machine::describe()
    }
}

/// One cell, of all contestants, in turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CellRun {
    pub(super) name: String,
    /// Time of its beginning, UTC.
    pub(super) at: String,
    /// About how long one measurement took.
    pub(super) seconds: f64,
    pub(super) entries: Vec<Entry>,
}

/// One contestant in one cell.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) contestant: String,
    pub(super) role: Role,
    /// Its command, with its configuration file below.
    pub(super) command: String,
    /// The command of its load.
    pub(super) load: String,
    /// A measurement per round.
    pub(super) rounds: Vec<Figures>,
    /// The text of the last failure, if a round or all of it failed.
    pub(super) failure: Option<String>,
}

/// Figures of one measurement.
pub(super) type Figures = BTreeMap<Metric, f64>;

/// A figure, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// User and kernel time of the proxy's processes.
    CpuUsPerRequest,
    RequestsPerSecond,
    /// CPU time of all nodes together.
    NodesCpuUsPerRequest,
    /// The part of the time that the proxy's processes ran, of one core.
    ProxyBusy,
    /// The part of the time in which the proxy's core was busy, even with other work.
    ProxyCoreBusy,
    /// The same of the core of the nodes and the load.
    LoadCoreBusy,
    /// Resident right after the start.
    RssStartBytes,
    /// Resident after the load.
    RssBytes,
    /// The most that ever was resident.
    RssPeakBytes,
    SyscallsPerRequest,
    /// The fixed rate of an open loop.
    RateWanted,
    P50Us,
    P90Us,
    P99Us,
    P999Us,
    MaxUs,
    /// The highest delay of the generator itself: latencies below this say nothing.
    LateUs,
    /// Resident bytes per idle client, above the start.
    BytesPerClient,
    /// From the first read of the slow readers to the last byte.
    DrainSeconds,
    /// Clients that did not get all of their reply.
    Unserved,
    /// Latencies of other clients while a large value was written.
    OthersSetP99Us,
    OthersSetMaxUs,
    /// The same while it was read.
    OthersGetP99Us,
    OthersGetMaxUs,
}

impl Run {
    /// The run in `folder`, if there is one.
    pub(super) fn read(folder: &Path) -> Result<Option<Run>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Some(serde_json::from_str(&text).with_context(|| path.display().to_string())?))
    }

    /// Writes the run into `folder`.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join(FILE), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }

    /// Adds `cell`, in place of one of that name.
    pub(super) fn add(&mut self, cell: CellRun) {
        match self.cells.iter_mut().find(|known| known.name == cell.name) {
            Some(known) => *known = cell,
            None => self.cells.push(cell),
        }
    }

    pub(super) fn cell(&self, name: &str) -> Option<&CellRun> {
        self.cells.iter().find(|cell| cell.name == name)
    }
}

impl CellRun {
    pub(super) fn entry(&self, contestant: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.contestant == contestant)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let run = testing::run();
        let text = serde_json::to_string(&run).expect("it can be written");
        assert!(text.contains(r#""cpu_us_per_request":6.5"#), "{text}");
        let again: Run = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(serde_json::to_string(&again).expect("it can be written"), text);
    }

    #[test]
    fn a_cell_that_is_measured_again_takes_the_place_of_the_old_one() {
        let mut run = testing::run();
        let names: Vec<_> = run.cells.iter().map(|cell| cell.name.clone()).collect();
        let again = CellRun { name: names[0].clone(), at: "later".into(), seconds: 1.0, entries: Vec::new() };
        run.add(again);
        assert_eq!(run.cells.iter().map(|cell| cell.name.clone()).collect::<Vec<_>>(), names);
        assert_eq!(run.cell(&names[0]).expect("it is there").at, "later");
    }
}
