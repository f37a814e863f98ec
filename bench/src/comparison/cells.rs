//! The measured cells: a table, pure. How a cell is measured stands in measure.rs.

use std::fmt;

use anyhow::{Context, Result, ensure};
use glob::Pattern;

use super::contestants::Role;

/// Nodes behind every sharding proxy.
pub(super) const NODES: usize = 4;

/// Clients, unless the cell is about them. redis-benchmark's own default.
pub(super) const CLIENTS: u32 = 50;

/// Bytes of a value, unless the cell is about them. redis-benchmark's own default.
pub(super) const VALUE_BYTES: u32 = 3;

/// Keys of one MSET or MGET: what `redis-benchmark -t mset` sends.
pub(super) const KEYS: u32 = 10;

/// Keys that requests draw from: enough that all shards and the nodes' caches take part.
const KEYSPACE_MAX: u32 = 100_000;

/// Bytes of all values together: large ones must not fill the machine, as a pass-through has them all on one node.
const KEYSPACE_BYTES_MAX: u32 = 64 << 20;

/// One thing to measure, of all contestants that it suits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// By which it is chosen, and found in a run.
    pub(super) name: String,
    pub(super) load: Load,
    /// Whether `--short` takes it.
    pub(super) is_short: bool,
}

/// The load of a contestant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Canned nodes and a spinning generator in one thread: the proxy is the limit.
    Saturated { test: Test, depth: u32 },
    /// redis-benchmark over real nodes, with all of them on one core: in most cells they are the limit.
    Real(Real),
    /// Requests at a fixed rate over real nodes, whether replies come or not: the latency of a user. With `across` the
    /// generator is on the proxy's core and not on the nodes'. A contestant without a proxy then has to cross from one core to
    /// the other too.
    Open { test: Test, share_percent: u32, across: bool },
    /// A few clients at a fixed rate beside others that send pipelines of `depth` without pause: the cost of neighbours.
    Beside { depth: u32 },
    /// Two workers on both cores beside one worker on both cores.
    Workers { test: Test, depth: u32 },
    /// The memory of a process.
    Memory(Memory),
}

/// A closed loop: each client sends its next pipeline when it has all replies to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Real {
    pub(super) test: Test,
    /// Requests in one pipeline.
    pub(super) depth: u32,
    pub(super) clients: u32,
    pub(super) value_bytes: u32,
}

/// Ways to ask for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Many clients that were active once.
    Idle,
    /// The usual 50 clients, with `--memory-max=20M`.
    Budget,
    /// 100 clients that each ask for 10 MB and do not read for 5 s.
    Slow,
    /// One large value goes in and out while others ask for small ones.
    Large { mebibytes: u32 },
}

/// The command of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Test {
    Set,
    Get,
    Mset,
    Mget,
}

impl Test {
    pub(super) const ALL: [Test; 4] = [Test::Set, Test::Get, Test::Mset, Test::Mget];

    /// The name in cells and in the generators' arguments.
    pub(super) fn name(self) -> &'static str {
        match self {
            Test::Set => "set",
            Test::Get => "get",
            Test::Mset => "mset",
            Test::Mget => "mget",
        }
    }

    /// Whether keys have to be there before.
    pub(super) fn reads(self) -> bool {
        matches!(self, Test::Get | Test::Mget)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name().to_uppercase())
    }
}

impl Real {
    /// Keys that requests draw from.
    pub(super) fn keyspace(self) -> u32 {
        KEYSPACE_MAX.min(KEYSPACE_BYTES_MAX / self.value_bytes)
    }
}

impl Load {
    /// Whether requests come at a fixed rate, so that their latency is the result.
    pub(super) fn is_paced(&self) -> bool {
        matches!(self, Load::Open { .. } | Load::Beside { .. })
    }

    /// Whether the nodes must leave time of their core to the generator, which has to send in time. (One beside neighbours that
    /// never rest would leave them nothing.)
    pub(super) fn has_patient_nodes(&self) -> bool {
        matches!(self, Load::Open { across: false, .. })
    }
}

impl Cell {
    /// Whether contestants of `role` have a place in it.
    pub(super) fn suits(&self, role: Role) -> bool {
        if role == Role::Polling {
            return self.load.is_paced() || matches!(&self.load, Load::Real(real) if real.clients == 1);
        }
        match &self.load {
            // A canned node alone would show the generator's speed; the echo server is the floor in its stead.
            Load::Saturated { .. } => !matches!(role, Role::Direct | Role::Workers),
            Load::Real(_) | Load::Open { .. } | Load::Beside { .. } => {
                !matches!(role, Role::Floor | Role::Workers)
            }
            Load::Workers { .. } => matches!(role, Role::Ours | Role::Workers),
            Load::Memory(Memory::Budget) => role == Role::Ours,
            Load::Memory(_) => !matches!(role, Role::Floor | Role::Workers | Role::Variant),
        }
    }
}

/// All cells, in the order in which they are run and shown.
pub(super) fn all() -> Vec<Cell> {
    [saturated(), real(), values(), clients(), latency(), workers(), memory()].concat()
}

/// The cells that one of the globs in `globs`, separated by commas, names.
pub(super) fn choose(cells: Vec<Cell>, globs: &str) -> Result<Vec<Cell>> {
    let mut chosen = vec![false; cells.len()];
    for glob in globs.split(',') {
        let pattern = Pattern::new(glob).with_context(|| format!("`{glob}` is no pattern"))?;
        let matching: Vec<usize> = (0..cells.len()).filter(|&at| pattern.matches(&cells[at].name)).collect();
        ensure!(!matching.is_empty(), "no cell is called `{glob}`; --list shows them all");
        matching.into_iter().for_each(|at| chosen[at] = true);
    }
    Ok(cells.into_iter().zip(chosen).filter_map(|(cell, is_chosen)| is_chosen.then_some(cell)).collect())
}

fn cell(name: String, load: Load) -> Cell {
    Cell { name, load, is_short: false }
}

/// `cells`, of which `--short` takes those called `names`.
fn with_short(mut cells: Vec<Cell>, names: &[&str]) -> Vec<Cell> {
    cells.iter_mut().for_each(|cell| cell.is_short = names.contains(&cell.name.as_str()));
    cells
}

const DEPTHS: [u32; 3] = [1, 10, 100];

fn saturated() -> Vec<Cell> {
    let cells = [Test::Set, Test::Get].iter().flat_map(|&test| {
        DEPTHS.map(|depth| cell(format!("sat-{}-p{depth}", test.name()), Load::Saturated { test, depth }))
    });
    with_short(cells.collect(), &["sat-get-p1", "sat-get-p100"])
}

fn real() -> Vec<Cell> {
    let cells = Test::ALL.iter().flat_map(|&test| {
        DEPTHS.map(|depth| {
            let real = Real { test, depth, clients: CLIENTS, value_bytes: VALUE_BYTES };
            cell(format!("{}-p{depth}", test.name()), Load::Real(real))
        })
    });
    with_short(cells.collect(), &["get-p1", "get-p10", "get-p100", "mget-p10"])
}

fn values() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (value_bytes, size, depths) in [(1024, "1k", &DEPTHS[..]), (16_384, "16k", &DEPTHS[..2])] {
        for test in [Test::Set, Test::Get] {
            cells.extend(depths.iter().map(|&depth| {
                let real = Real { test, depth, clients: CLIENTS, value_bytes };
                cell(format!("{}-{size}-p{depth}", test.name()), Load::Real(real))
            }));
        }
    }
    cells
}

/// Many clients, and one alone.
fn clients() -> Vec<Cell> {
    let mut cells = Vec::new();
    for clients in [500, 5000, 1] {
        cells.extend([Test::Set, Test::Get].map(|test| {
            let real = Real { test, depth: 1, clients, value_bytes: VALUE_BYTES };
            cell(format!("{}-c{clients}", test.name()), Load::Real(real))
        }));
    }
    cells
}

fn latency() -> Vec<Cell> {
    let cells =
        [(Test::Set, 30, false), (Test::Get, 30, false), (Test::Get, 60, false), (Test::Get, 30, true)];
    let cells = cells.map(|(test, share_percent, across)| {
        let kind = if across { "across" } else { "open" };
        cell(format!("{kind}-{}-{share_percent}", test.name()), Load::Open { test, share_percent, across })
    });
    let beside = [10, 1000].map(|depth| cell(format!("beside-p{depth}"), Load::Beside { depth }));
    with_short([&cells[..], &beside].concat(), &["open-get-30"])
}

fn workers() -> Vec<Cell> {
    let cells = [1, 10, 100].map(|depth| {
        let load = Load::Workers { test: Test::Get, depth };
        cell(format!("workers-get-p{depth}"), load)
    });
    cells.into()
}

fn memory() -> Vec<Cell> {
    let cells = [
        ("mem-idle", Memory::Idle),
        ("mem-budget", Memory::Budget),
        ("mem-slow", Memory::Slow),
        ("mem-64m", Memory::Large { mebibytes: 64 }),
        ("mem-512m", Memory::Large { mebibytes: 512 }),
    ];
    cells.map(|(name, memory)| cell(name.into(), Load::Memory(memory))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(globs: &str) -> Vec<String> {
        choose(all(), globs).expect("they name cells").into_iter().map(|cell| cell.name).collect()
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().into_iter().map(|cell| cell.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn cells_are_chosen_by_globs_in_the_order_of_the_table() {
        assert_eq!(names("mget-*,set-p1"), ["set-p1", "mget-p1", "mget-p10", "mget-p100"]);
        assert_eq!(names("*").len(), all().len());
        let error = choose(all(), "set-p1,nothing").expect_err("no cell is called so").to_string();
        assert_eq!(error, "no cell is called `nothing`; --list shows them all");
    }

    #[test]
    fn large_values_have_fewer_keys() {
        let real = |value_bytes| Real { test: Test::Set, depth: 1, clients: 1, value_bytes };
        assert_eq!([3, 1024, 16_384].map(|bytes| real(bytes).keyspace()), [100_000, 65_536, 4_096]);
    }

    #[test]
    fn busy_polling_is_measured_where_latency_is() {
        let cells = all().into_iter().filter(|cell| cell.suits(Role::Polling)).map(|cell| cell.name);
        let expected = [
            "set-c1",
            "get-c1",
            "open-set-30",
            "open-get-30",
            "open-get-60",
            "across-get-30",
            "beside-p10",
            "beside-p1000",
        ];
        assert_eq!(cells.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn floor_is_shown_only_where_proxies_are_the_limit() {
        let floor: Vec<_> = all().into_iter().filter(|cell| cell.suits(Role::Floor)).collect();
        assert!(floor.iter().all(|cell| matches!(cell.load, Load::Saturated { .. })));
        assert_eq!(floor.len(), 6);
    }

    #[test]
    fn the_short_form_has_cells_of_each_kind_that_takes_little_time() {
        let short: Vec<_> = all().into_iter().filter(|cell| cell.is_short).map(|cell| cell.name).collect();
        let expected =
            ["sat-get-p1", "sat-get-p100", "get-p1", "get-p10", "get-p100", "mget-p10", "open-get-30"];
        assert_eq!(short, expected);
    }
}
