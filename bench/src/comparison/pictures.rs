//! Which charts a run gives. Pure.

use super::chart::{Bar, Chart, Colour, Panel};
use super::contestants::Role;
use super::record::{CellRun, Entry, Metric, Run};
use super::report::Unit;

/// A chart and the name of its file, without the folder.
pub(super) struct Picture {
    pub(super) file: &'static str,
    pub(super) chart: Chart,
}

/// One panel: title, cell, and metric.
type Wanted = (&'static str, &'static str, Metric);

const CPU: [Wanted; 6] = [
    ("GET, one at a time", "get-p1", Metric::CpuUsPerRequest),
    ("GET, 10 in a pipeline", "get-p10", Metric::CpuUsPerRequest),
    ("GET, 100 in a pipeline", "get-p100", Metric::CpuUsPerRequest),
    ("MGET of 10 keys, one at a time", "mget-p1", Metric::CpuUsPerRequest),
    ("MGET, 10 in a pipeline", "mget-p10", Metric::CpuUsPerRequest),
    ("MGET, 100 in a pipeline", "mget-p100", Metric::CpuUsPerRequest),
];

const SATURATED: [Wanted; 3] = [
    ("GET, one at a time", "sat-get-p1", Metric::CpuUsPerRequest),
    ("GET, 10 in a pipeline", "sat-get-p10", Metric::CpuUsPerRequest),
    ("GET, 100 in a pipeline", "sat-get-p100", Metric::CpuUsPerRequest),
];

const THROUGHPUT: [Wanted; 6] = [
    ("GET, one at a time", "get-p1", Metric::RequestsPerSecond),
    ("GET, 10 in a pipeline", "get-p10", Metric::RequestsPerSecond),
    ("GET, 100 in a pipeline", "get-p100", Metric::RequestsPerSecond),
    ("MGET of 10 keys, one at a time", "mget-p1", Metric::RequestsPerSecond),
    ("MGET, 10 in a pipeline", "mget-p10", Metric::RequestsPerSecond),
    ("MGET, 100 in a pipeline", "mget-p100", Metric::RequestsPerSecond),
];

const LATENCY: [Wanted; 6] = [
    ("30 %: p50", "open-get-30", Metric::P50Us),
    ("30 %: p99", "open-get-30", Metric::P99Us),
    ("30 %: p99.9", "open-get-30", Metric::P999Us),
    ("60 %: p50", "open-get-60", Metric::P50Us),
    ("60 %: p99", "open-get-60", Metric::P99Us),
    ("60 %: p99.9", "open-get-60", Metric::P999Us),
];

const MEMORY: [Wanted; 3] = [
    ("after the start", "mem-idle", Metric::RssStartBytes),
    ("per idle client, in bytes", "mem-idle", Metric::BytesPerClient),
    ("peak, 100 slow readers of 10 MB", "mem-slow", Metric::RssPeakBytes),
];

/// The charts for which `run` has figures.
pub(super) fn all(run: &Run) -> Vec<Picture> {
    let picture = |file, title: &str, subtitle: &str, wanted: &[Wanted]| {
        let panels: Vec<Panel> = wanted.iter().filter_map(|wanted| panel(run, wanted)).collect();
        let chart = Chart { title: title.into(), subtitle: subtitle.into(), panels };
        (!chart.panels.is_empty()).then_some(Picture { file, chart })
    };
    let pictures = [
        picture(
            "cpu.svg",
            "CPU time of the proxy per request",
            "µs, less is better; 50 clients, values of 3 bytes, real nodes. nginx and haproxy forward bytes to one node.",
            &CPU,
        ),
        picture(
            "saturated.svg",
            "CPU time per request when the proxy is the limit",
            "µs, less is better; canned nodes. echo answers everything with the same bytes: the floor.",
            &SATURATED,
        ),
        picture(
            "throughput.svg",
            "Requests per second",
            "More is better; 50 clients, values of 3 bytes. The nodes and the load share one core, which is the limit in most.",
            &THROUGHPUT,
        ),
        picture(
            "latency.svg",
            "Latency of GET at a fixed rate",
            "µs from the intended start, less is better; the rate is a share of what the slowest contestant carries.",
            &LATENCY,
        ),
        picture(
            "memory.svg",
            "Memory of the proxy",
            "Resident, less is better. (!): not all of the slow readers got what they had asked for.",
            &MEMORY,
        ),
    ];
    pictures.into_iter().flatten().collect()
}

fn panel(run: &Run, &(title, cell, metric): &Wanted) -> Option<Panel> {
    let bars: Vec<Bar> = run.cell(cell)?.entries.iter().filter_map(|entry| bar(entry, metric)).collect();
    (!bars.is_empty()).then(|| Panel { title: title.into(), bars })
}

fn bar(entry: &Entry, metric: Metric) -> Option<Bar> {
    let spread = entry.middle(metric)?;
    let colour = match entry.role {
        Role::Ours => Colour::Ours,
        Role::Variant | Role::Polling | Role::Workers | Role::OursPassThrough => Colour::Variant,
        Role::Sharding => Colour::Sharding,
        Role::PassThrough => Colour::PassThrough,
        Role::Direct | Role::Floor => Colour::Reference,
    };
    let mut text = unit(metric).write(spread.median);
    if entry.median(Metric::Unserved).is_some_and(|count| count > 0.0) {
        // A contestant that gives up needs little memory: the bar alone would praise that.
        text += " (!)";
    }
    Some(Bar { label: label(entry), value: spread.median, min: spread.min, max: spread.max, text, colour })
}

fn label(entry: &Entry) -> String {
    match entry.role {
        Role::Direct => "node, no proxy".into(),
        _ => entry.contestant.clone(),
    }
}

/// Format of a figure beside its bar, and in tables.
pub(super) fn unit(metric: Metric) -> Unit {
    match metric {
        Metric::RequestsPerSecond | Metric::RateWanted => Unit::Thousands,
        Metric::RssStartBytes | Metric::RssBytes | Metric::RssPeakBytes => Unit::Mebibytes,
        Metric::ProxyBusy | Metric::ProxyCoreBusy | Metric::LoadCoreBusy => Unit::Percent,
        Metric::CpuUsPerRequest
        | Metric::NodesCpuUsPerRequest
        | Metric::SyscallsPerRequest
        | Metric::DrainSeconds => Unit::Micros,
        _ => Unit::Whole,
    }
}

/// Whether a cell of `run` has `metric` at all.
pub(super) fn has(cell: &CellRun, metric: Metric) -> bool {
    cell.entries.iter().any(|entry| entry.spread(metric).is_some())
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn a_proxy_that_served_only_some_clients_is_marked() {
        let figures = [(Metric::RssPeakBytes, 5_242_880.0), (Metric::Unserved, 3.0)];
        let entry = testing::entry("shardis", &[&figures]);
        let bar = bar(&entry, Metric::RssPeakBytes).expect("it has the figure");
        assert_eq!(bar.text, "5.00 MiB (!)");
    }

    #[test]
    fn charts_are_made_of_the_cells_that_were_measured() {
        let pictures = all(&testing::run());
        let made: Vec<_> =
            pictures.iter().map(|picture| (picture.file, picture.chart.panels.len())).collect();
        assert_eq!(made, [("cpu.svg", 2), ("throughput.svg", 2)]);
        let bars: Vec<_> =
            pictures[0].chart.panels[0].bars.iter().map(|bar| (&*bar.label, &*bar.text)).collect();
        assert_eq!(bars, [("shardis", "6.50"), ("nutcracker", "10.0"), ("node, no proxy", "7.00")]);
    }
}
