//! `run.txt`: a run as text, with everything that is needed to repeat it. Pure.

use std::fmt::Write as _;

use super::record::{CellRun, Entry, Figures, Metric, Run};
use super::statistics::{Limit, Spread};

/// The file in the folder of a run.
pub(super) const FILE: &str = "run.txt";

/// Columns of the table, with the unit of each.
const COLUMNS: [(&str, Metric, Unit); 14] = [
    ("CPU us/req", Metric::CpuUsPerRequest, Unit::Micros),
    ("req/s", Metric::RequestsPerSecond, Unit::Thousands),
    ("nodes us/req", Metric::NodesCpuUsPerRequest, Unit::Micros),
    ("proxy busy", Metric::ProxyBusy, Unit::Percent),
    ("load core", Metric::LoadCoreBusy, Unit::Percent),
    ("p50 us", Metric::P50Us, Unit::Whole),
    ("p99 us", Metric::P99Us, Unit::Whole),
    ("p99.9 us", Metric::P999Us, Unit::Whole),
    ("late us", Metric::LateUs, Unit::Whole),
    ("RSS start", Metric::RssStartBytes, Unit::Mebibytes),
    ("RSS peak", Metric::RssPeakBytes, Unit::Mebibytes),
    ("B/client", Metric::BytesPerClient, Unit::Whole),
    ("unserved", Metric::Unserved, Unit::Whole),
    ("calls/req", Metric::SyscallsPerRequest, Unit::Micros),
];

/// Format of a figure.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Micros,
    Whole,
    Percent,
    Mebibytes,
    Thousands,
}

impl Unit {
    /// Three digits that count, without the unit's name except where it changes the number.
    pub(super) fn write(self, value: f64) -> String {
        match self {
            Unit::Micros => digits(value),
            Unit::Whole => format!("{value:.0}"),
            Unit::Percent => format!("{:.0} %", value * 100.0),
            Unit::Mebibytes if value >= f64::from(1 << 30) => {
                format!("{} GiB", digits(value / f64::from(1 << 30)))
            }
            Unit::Mebibytes => format!("{} MiB", digits(value / f64::from(1 << 20))),
            Unit::Thousands if value >= 1e6 => format!("{}M", digits(value / 1e6)),
            Unit::Thousands if value >= 1e3 => format!("{}k", digits(value / 1e3)),
            Unit::Thousands => format!("{value:.0}"),
        }
    }
}

/// Three digits, as many of them behind the point as it takes.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// One measurement in a few words, for the line that is shown while it is measured.
pub(super) fn brief(figures: Option<&Figures>) -> String {
    let Some(figures) = figures else { return "failed".into() };
    let show = |metric, unit: Unit, name: &str| {
        figures.get(&metric).map(|&value| format!("{}{name}", unit.write(value)))
    };
    let parts = [
        show(Metric::CpuUsPerRequest, Unit::Micros, "us"),
        show(Metric::RequestsPerSecond, Unit::Thousands, "/s"),
        show(Metric::RateWanted, Unit::Thousands, " wanted"),
        figures.get(&Metric::RateWanted).and_then(|_| show(Metric::P99Us, Unit::Whole, "us p99")),
        show(Metric::BytesPerClient, Unit::Whole, "B/client"),
        show(Metric::Unserved, Unit::Whole, " unserved"),
        match figures.contains_key(&Metric::CpuUsPerRequest) {
            true => None,
            false => show(Metric::RssPeakBytes, Unit::Mebibytes, " peak"),
        },
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The whole of `run.txt`.
pub(super) fn text(run: &Run) -> String {
    let mut text = header(run);
    for cell in &run.cells {
        text += &table(cell);
    }
    text + &commands(run)
}

/// The commands of all processes.
fn commands(run: &Run) -> String {
    let mut text = String::from(
        "\n# How each was started and driven, in the last round of each cell. A configuration is shown where it is used\n\
         # first: but for ports it stays the same.\n",
    );
    let mut configured: Vec<&str> = Vec::new();
    for (cell, entry) in run.cells.iter().flat_map(|cell| cell.entries.iter().map(move |entry| (cell, entry)))
    {
        let _ = writeln!(text, "\n{} {}", cell.name, entry.contestant);
        let (command, config) = entry.command.split_once('\n').unwrap_or((&entry.command, ""));
        let config = if configured.contains(&entry.contestant.as_str()) { "" } else { config };
        let lines = [command, config.trim_start(), &entry.load].into_iter().filter(|line| !line.is_empty());
        lines.for_each(|line| text += &format!("    {line}\n"));
        if !config.is_empty() {
            configured.push(&entry.contestant);
        }
        if let Some(reason) = &entry.failure {
            let _ = writeln!(text, "    failed: {reason}");
        }
    }
    text
}

fn header(run: &Run) -> String {
    let machine = &run.machine;
    let mut text =
        format!("# {} UTC, {} ({} cores), {}\n", run.date, machine.model, machine.cores, machine.kernel);
    let _ = writeln!(text, "# {}", machine.pinning);
    let _ = writeln!(text, "# load average before the run: {}", machine.load_average);
    if !machine.congestion_control.is_empty() {
        let _ = writeln!(text, "# congestion control of TCP: {}", machine.congestion_control);
    }
    for (name, version) in &run.versions {
        let _ = writeln!(text, "# {name}: {version}");
    }
    for line in &run.missing {
        let _ = writeln!(text, "# not on this machine: {line}");
    }
    text += "#\n# Each figure is the median of the rounds, with the least and the greatest in parentheses; \"of\n\
             # nutcracker\" is CPU time per request by nutcracker's. req/s of loads that are not a closed loop\n\
             # are what was answered. The limit: which core was busy all the time.\n";
    text
}

fn table(cell: &CellRun) -> String {
    let has = |metric| cell.entries.iter().any(|entry| entry.spread(metric).is_some());
    let columns: Vec<_> = COLUMNS.into_iter().filter(|&(_, metric, _)| has(metric)).collect();
    let mut head = vec![cell.name.clone()];
    head.extend(columns.iter().map(|(name, ..)| (*name).to_string()));
    head.extend(["of nutcracker".into(), "limit".into()]);
    let mut rows = vec![head];
    for entry in &cell.entries {
        let mut row = vec![entry.contestant.clone()];
        row.extend(columns.iter().map(|&(_, metric, unit)| figure(entry, metric, unit)));
        let ratio = cell.ratio(&entry.contestant, "nutcracker", Metric::CpuUsPerRequest);
        row.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")));
        row.push(Limit::of(entry).map_or("-", Limit::words).into());
        rows.push(row);
    }
    let rounds = cell.entries.iter().map(|entry| entry.rounds.len()).max().unwrap_or(0);
    format!("\n# {}, rounds: {rounds}, of {} s\n{}", cell.at, cell.seconds, align(&rows))
}

fn figure(entry: &Entry, metric: Metric, unit: Unit) -> String {
    match entry.spread(metric) {
        None => "-".into(),
        Some(Spread { median, min, max }) if min == max => unit.write(median),
        Some(Spread { median, min, max }) => {
            format!("{} ({}..{})", unit.write(median), unit.write(min), unit.write(max))
        }
    }
}

/// Columns as wide as their widest field, the first to the left.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let fields = row.iter().zip(&widths).enumerate().map(|(column, (field, &width))| match column {
            0 => format!("{field:<width$}"),
            _ => format!("{field:>width$}"),
        });
        fields.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let written = [0.0591, 6.543, 13.21, 431.7].map(|value| Unit::Micros.write(value));
        assert_eq!(written, ["0.059", "6.54", "13.2", "432"]);
        assert_eq!(Unit::Thousands.write(98_118.0), "98.1k");
        assert_eq!(Unit::Thousands.write(15_120_000.0), "15.1M");
        assert_eq!(Unit::Percent.write(0.994), "99 %");
        assert_eq!(Unit::Mebibytes.write(5_242_880.0), "5.00 MiB");
        assert_eq!(Unit::Mebibytes.write(1.1e9), "1.02 GiB");
    }

    #[test]
    fn a_table_has_medians_spreads_ratios_and_limits() {
        let text = text(&testing::run());
        let line = text.lines().find(|line| line.starts_with("shardis ")).expect("it takes part");
        let fields: Vec<&str> = line.split("  ").map(str::trim).filter(|field| !field.is_empty()).collect();
        let expected = [
            "shardis",
            "6.50 (6.40..6.60)",
            "60.0k (59.0k..61.0k)",
            "3.25 (3.20..3.30)",
            "60 %",
            "99 %",
            "4.77 MiB",
            "0.65",
            "nodes+load",
        ];
        assert_eq!(fields, expected);
        assert!(text.contains("# not on this machine: haproxy: apt-get install haproxy"));
    }

    #[test]
    fn a_configuration_is_shown_once() {
        let mut run = testing::run();
        for entry in run.cells.iter_mut().flat_map(|cell| &mut cell.entries) {
            entry.command = format!("{} -c file\n    | listen\n    | forward", entry.contestant);
        }
        let text = text(&run);
        assert_eq!(text.matches("nutcracker -c file").count(), 2);
        assert_eq!(
            text.matches("nutcracker -c file\n    | listen\n    | forward\n    redis-benchmark").count(),
            1
        );
    }

    #[test]
    fn a_live_line_has_the_figures_of_its_cell() {
        let figures = testing::figures(6.5, 60_000.0).into_iter().collect();
        assert_eq!(brief(Some(&figures)), "6.50us 60.0k/s");
        assert_eq!(brief(Some(&Figures::from([(Metric::RssPeakBytes, 5_242_880.0)]))), "5.00 MiB peak");
        assert_eq!(brief(None), "failed");
    }
}
