//! Cells in which a rival is better than shardis, by the figures of a run. Pure.

use super::contestants::Role;
use super::record::{CellRun, Entry, Metric, Run};
use super::report::Unit;

/// One figure of one cell in which a rival is better.
#[derive(Debug, PartialEq)]
pub(super) struct Win {
    pub(super) cell: String,
    pub(super) rival: String,
    pub(super) role: Role,
    pub(super) metric: Metric,
    pub(super) ours: f64,
    pub(super) theirs: f64,
    /// The rounds of both overlap: another run may say the opposite.
    pub(super) is_close: bool,
}

/// Figures that are compared, their names, their format, and whether less is better.
const COMPARED: [(Metric, &str, Unit, bool); 8] = [
    (Metric::CpuUsPerRequest, "CPU time in µs per request", Unit::Micros, true),
    (Metric::RequestsPerSecond, "requests per second", Unit::Thousands, false),
    (Metric::P50Us, "p50 in µs", Unit::Whole, true),
    (Metric::P99Us, "p99 in µs", Unit::Whole, true),
    (Metric::P999Us, "p99.9 in µs", Unit::Whole, true),
    (Metric::RssPeakBytes, "peak resident memory", Unit::Mebibytes, true),
    (Metric::Unserved, "clients that did not get all of their reply", Unit::Whole, true),
    (Metric::BytesPerClient, "bytes per idle client", Unit::Whole, true),
];

/// All of them, in the order of the cells.
pub(super) fn wins(run: &Run) -> Vec<Win> {
    run.cells.iter().flat_map(wins_in).collect()
}

fn wins_in(cell: &CellRun) -> Vec<Win> {
    let Some(ours) = cell.entry("shardis") else { return Vec::new() };
    let rivals = cell.entries.iter().filter(|entry| matches!(entry.role, Role::Sharding | Role::PassThrough));
    rivals.flat_map(|rival| COMPARED.iter().filter_map(|compared| win(cell, ours, rival, compared))).collect()
}

fn win(cell: &CellRun, ours: &Entry, rival: &Entry, compared: &(Metric, &str, Unit, bool)) -> Option<Win> {
    let &(metric, _, _, less_is_better) = compared;
    if !is_about(cell, ours, metric) {
        return None;
    }
    let (our, their) = (ours.spread(metric)?, rival.spread(metric)?);
    let is_better = if less_is_better { their.median < our.median } else { their.median > our.median };
    is_better.then(|| Win {
        cell: cell.name.clone(),
        rival: rival.contestant.clone(),
        role: rival.role,
        metric,
        ours: our.median,
        theirs: their.median,
        is_close: our.overlaps(their),
    })
}

/// Whether `cell` is there to show `metric`. At a fixed rate, throughput is given. In a closed loop, latency follows from
/// throughput, except for one client.
fn is_about(cell: &CellRun, ours: &Entry, metric: Metric) -> bool {
    let is_open = ours.median(Metric::RateWanted).is_some() || cell.name.starts_with("beside-");
    let is_memory = cell.name.starts_with("mem-");
    match metric {
        Metric::RequestsPerSecond => !is_open && !is_memory,
        Metric::P50Us | Metric::P99Us => is_open || cell.name.ends_with("-c1"),
        Metric::P999Us => is_open,
        Metric::RssPeakBytes => is_memory,
        _ => true,
    }
}

/// A sentence for each rival of `role` and figure, with its cells.
pub(super) fn sentences(wins: &[Win], role: Role) -> Vec<String> {
    let mut groups: Vec<(&str, Metric, bool, Vec<String>)> = Vec::new();
    for win in wins.iter().filter(|win| win.role == role) {
        let (_, _, unit, _) =
            COMPARED.iter().find(|(metric, ..)| *metric == win.metric).expect("it was compared");
        let cell = format!("`{}` ({}, {})", win.cell, unit.write(win.theirs), unit.write(win.ours));
        let is_same = |group: &&mut (&str, Metric, bool, Vec<String>)| {
            (group.0, group.1, group.2) == (win.rival.as_str(), win.metric, win.is_close)
        };
        match groups.iter_mut().find(is_same) {
            Some((.., cells)) => cells.push(cell),
            None => groups.push((&win.rival, win.metric, win.is_close, vec![cell])),
        }
    }
    // Certain findings come first.
    groups.sort_by_key(|(.., is_close, _)| *is_close);
    groups
        .into_iter()
        .map(|(rival, metric, is_close, cells)| sentence(rival, metric, is_close, &cells))
        .collect()
}

fn sentence(rival: &str, metric: Metric, is_close: bool, cells: &[String]) -> String {
    let (_, name, ..) = COMPARED.iter().find(|(compared, ..)| *compared == metric).expect("it was compared");
    let how = if is_close { " in the median, though the rounds of both overlap" } else { "" };
    format!("**{rival}** is better in {name}{how}: {}.", cells.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn rivals_that_are_better_are_named_with_both_figures() {
        let wins = wins(&testing::run());
        let close = "in the median, though the rounds of both overlap";
        let expected = [
            format!(
                "**nutcracker** is better in CPU time in µs per request {close}: `get-p10` (1.15, 1.20)."
            ),
            format!("**nutcracker** is better in requests per second {close}: `get-p10` (412k, 405k)."),
        ];
        assert_eq!(sentences(&wins, Role::Sharding), expected);
        let expected = [
            "**nginx** is better in CPU time in µs per request: `get-p10` (0.850, 1.20).",
            "**nginx** is better in requests per second: `get-p10` (425k, 405k).",
        ];
        assert_eq!(sentences(&wins, Role::PassThrough), expected);
    }

    #[test]
    fn a_node_without_a_proxy_is_no_rival() {
        let wins = wins(&testing::run());
        assert!(wins.iter().all(|win| win.rival != "direct"), "{wins:?}");
    }

    #[test]
    fn certain_findings_come_first() {
        let win = |cell: &str, is_close| Win {
            cell: cell.into(),
            rival: "nutcracker".into(),
            role: Role::Sharding,
            metric: Metric::CpuUsPerRequest,
            ours: 2.0,
            theirs: 1.0,
            is_close,
        };
        let sentences = sentences(&[win("a", true), win("b", false), win("c", false)], Role::Sharding);
        assert_eq!(
            sentences[0],
            "**nutcracker** is better in CPU time in µs per request: `b` (1.00, 2.00), `c` (1.00, 2.00)."
        );
        assert!(sentences[1].contains("overlap: `a`"), "{sentences:?}");
    }
}
