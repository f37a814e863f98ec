//! The parts of a run that go into the docs: docs/benchmarks.md with its charts, and the part of README.md between two marks.
//! Pure except for `render`, which writes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use programs::process::root;

use super::contestants::Role;
use super::findings;
use super::pictures::{self, has, unit};
use super::record::{CellRun, Machine, Metric, Run};
use super::report;
use super::statistics::Limit;

const PAGE: &str = "docs/benchmarks.md";
const CHARTS: &str = "docs/benchmarks";
const README: &str = "README.md";

/// The part of README.md that is ours.
const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// Writes everything that is computed from the run in `folder`: its `run.txt`, and its pages in the docs.
pub(super) fn render(folder: &Path) -> Result<()> {
    let run = Run::read(folder)?.with_context(|| format!("{} holds no run.json", folder.display()))?;
    let folder = folder.canonicalize()?;
    std::fs::write(folder.join(report::FILE), report::text(&run))?;
    let name = folder.strip_prefix(root()).unwrap_or(&folder).to_string_lossy().into_owned();
    for (path, text) in files(&run, &name, &std::fs::read_to_string(root().join(README))?)? {
        let path = root().join(path);
        std::fs::create_dir_all(path.parent().context("it is in a folder")?)?;
        std::fs::write(&path, text)?;
        println!("bench: wrote {}", path.display());
    }
    Ok(())
}

/// Paths and texts of all files that show `run`, which is in the folder `name`.
fn files(run: &Run, name: &str, readme: &str) -> Result<Vec<(PathBuf, String)>> {
    let pictures = pictures::all(run);
    let mut files: Vec<(PathBuf, String)> =
        pictures.iter().map(|picture| (Path::new(CHARTS).join(picture.file), picture.chart.svg())).collect();
    files.push((PAGE.into(), page(run, name)));
    files.push((README.into(), replace_between(readme, &summary(run))?));
    Ok(files)
}

/// `text` with the part between the marks replaced.
fn replace_between(text: &str, new: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("{README} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{README} has no line {END}"))?;
    Ok(format!("{before}{BEGIN}\n{new}{END}{after}"))
}

/// The summary in README.md: one chart and a short table.
fn summary(run: &Run) -> String {
    let mut text = String::new();
    if pictures::all(run).iter().any(|picture| picture.file == "cpu.svg") {
        text += &format!("![CPU time of the proxy per request]({CHARTS}/cpu.svg)\n\n");
    }
    let _ = writeln!(
        text,
        "| CPU time per request, µs | shardis | twemproxy | ratio |\n| --- | --- | --- | --- |"
    );
    for (name, cell) in [
        ("GET", "get-p1"),
        ("GET, 10 in a pipeline", "get-p10"),
        ("GET, 100 in a pipeline", "get-p100"),
        ("MGET of 10 keys", "mget-p1"),
        ("MSET of 10 keys, 100 in a pipeline", "mset-p100"),
    ] {
        let Some(cell) = run.cell(cell) else { continue };
        let show = |contestant| figure(cell, contestant, Metric::CpuUsPerRequest);
        let ratio = cell.ratio("shardis", "nutcracker", Metric::CpuUsPerRequest);
        let ratio = ratio.map_or("–".into(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(text, "| {name} | {} | {} | {ratio} |", show("shardis"), show("nutcracker"));
    }
    text
}

/// A section of the page: heading, explanation, chart, cells with their names, figures.
struct Section {
    heading: &'static str,
    text: &'static str,
    chart: Option<&'static str>,
    cells: &'static [(&'static str, &'static str)],
    /// A table for each.
    metrics: &'static [(Metric, &'static str)],
}

const CPU: (Metric, &str) = (Metric::CpuUsPerRequest, "CPU time of the proxy per request, µs");
const RPS: (Metric, &str) = (Metric::RequestsPerSecond, "Requests per second");
const NODES: (Metric, &str) = (Metric::NodesCpuUsPerRequest, "CPU time of all nodes per request, µs");
const PEAK: (Metric, &str) = (Metric::RssPeakBytes, "Most memory resident");
const P50: (Metric, &str) = (Metric::P50Us, "p50, µs");
const P99: (Metric, &str) = (Metric::P99Us, "p99, µs");

const SECTIONS: &[Section] = &[
    Section {
        heading: "When the nodes and the load are the limit",
        text: "redis-benchmark with 50 clients and values of 3 bytes, over real nodes: what most people measure. The \
               nodes and the load have one core together, so that in most cells the proxy waits for them, and its CPU \
               time says more than the throughput. *direct* is one node without a proxy, and its CPU time the node's. \
               How much CPU time the nodes take shows how well a proxy puts requests of several clients into one write.",
        chart: Some("cpu.svg"),
        cells: &[
            ("SET", "set-p1"),
            ("SET -P 10", "set-p10"),
            ("SET -P 100", "set-p100"),
            ("GET", "get-p1"),
            ("GET -P 10", "get-p10"),
            ("GET -P 100", "get-p100"),
            ("MSET", "mset-p1"),
            ("MSET -P 10", "mset-p10"),
            ("MSET -P 100", "mset-p100"),
            ("MGET", "mget-p1"),
            ("MGET -P 10", "mget-p10"),
            ("MGET -P 100", "mget-p100"),
        ],
        metrics: &[CPU, RPS, NODES, (Metric::SyscallsPerRequest, "System calls of the proxy per request")],
    },
    Section {
        heading: "When the proxy is the limit",
        text: "Nodes that store nothing and a generator that never sleeps share one thread on the other core \
               (`loadgen saturate`), so that the proxy has no rest. *echo* reads requests and answers all with the \
               same bytes on the driver that shardis uses: what is above it is routing, two more sockets per \
               request, and order.",
        chart: Some("saturated.svg"),
        cells: &[
            ("SET", "sat-set-p1"),
            ("SET -P 10", "sat-set-p10"),
            ("SET -P 100", "sat-set-p100"),
            ("GET", "sat-get-p1"),
            ("GET -P 10", "sat-get-p10"),
            ("GET -P 100", "sat-get-p100"),
        ],
        metrics: &[CPU, RPS],
    },
    Section {
        heading: "Larger values",
        text: "As above over real nodes, with values of 1 KiB and 16 KiB.",
        chart: None,
        cells: &[
            ("SET 1 KiB", "set-1k-p1"),
            ("SET 1 KiB -P 10", "set-1k-p10"),
            ("SET 1 KiB -P 100", "set-1k-p100"),
            ("GET 1 KiB", "get-1k-p1"),
            ("GET 1 KiB -P 10", "get-1k-p10"),
            ("GET 1 KiB -P 100", "get-1k-p100"),
            ("SET 16 KiB", "set-16k-p1"),
            ("SET 16 KiB -P 10", "set-16k-p10"),
            ("GET 16 KiB", "get-16k-p1"),
            ("GET 16 KiB -P 10", "get-16k-p10"),
        ],
        metrics: &[CPU, RPS, PEAK],
    },
    Section {
        heading: "Many clients, and one",
        text: "One request at a time from each. What connecting costs is taken off from 500 clients on: it is \
               measured by a run with few requests.",
        chart: None,
        cells: &[
            ("SET, 1 client", "set-c1"),
            ("GET, 1 client", "get-c1"),
            ("SET, 50", "set-p1"),
            ("GET, 50", "get-p1"),
            ("SET, 500", "set-c500"),
            ("GET, 500", "get-c500"),
            ("SET, 5000", "set-c5000"),
            ("GET, 5000", "get-c5000"),
        ],
        metrics: &[CPU, RPS, P50, P99, PEAK],
    },
    Section {
        heading: "Latency",
        text: "`loadgen open` sends at a fixed rate, whether replies come or not, over 50 connections; time counts from \
               the moment at which a request should have been sent. The rate is the same for all, so that their figures \
               can be compared: 30 % and 60 % of what the slowest of them carries with 50 clients, measured right \
               before. *direct* shows what the machine, the nodes and the generator take by themselves; without a proxy all \
               of that stays on one core, where nobody has to be woken. So there is one row for which the generator has \
               the proxy's core, not the nodes': there, all go to the other core and back. The nodes let the generator, \
               whose core they share, finish what it does, as nodes on machines of their own would (scheduling policy \
               `SCHED_BATCH`). Who sleeps has to be woken, on a virtual machine by its host: *shardis-poll* shows what \
               that takes. Rounds are short and many here, and medians of them are shown: a stall of the whole machine \
               for some milliseconds is in a few of them, and not in all. (The chart's lines reach over the middle half of the \
               rounds, and those of other charts, which have three rounds, over all.) The last table is how late \
               the generator itself was: what is not well above that says nothing about the proxy.",
        chart: Some("latency.svg"),
        cells: &[
            ("SET, 30 %", "open-set-30"),
            ("GET, 30 %", "open-get-30"),
            ("GET, 60 %", "open-get-60"),
            ("GET, 30 %, from the proxy's core", "across-get-30"),
        ],
        metrics: &[
            (Metric::RateWanted, "Rate, requests per second"),
            P50,
            P99,
            (Metric::P999Us, "p99.9, µs"),
            CPU,
            (Metric::LateUs, "The generator's own lateness, p99, µs"),
        ],
    },
    Section {
        heading: "Neighbours",
        text: "Ten clients send 2,000 GET a second in all, one at a time, beside ten clients that never rest, with pipelines \
               of 10 and of 1000 requests: what the deep pipelines of some cost others.",
        chart: None,
        cells: &[("beside -P 10", "beside-p10"), ("beside -P 1000", "beside-p1000")],
        metrics: &[P50, P99, (Metric::P999Us, "p99.9, µs")],
    },
    Section {
        heading: "Two workers",
        text: "One and two workers under the load of the saturated cells, all of it free to run on both cores. On two \
               cores the generator takes its part of what the second worker would need, so that the throughput of two \
               workers is not twice that of one here. The CPU time per request says whether workers get into each \
               other's way: if it stays, a machine with more cores carries as much more.",
        chart: None,
        cells: &[
            ("GET", "workers-get-p1"),
            ("GET -P 10", "workers-get-p10"),
            ("GET -P 100", "workers-get-p100"),
        ],
        metrics: &[CPU, RPS],
    },
    Section {
        heading: "Memory",
        text: "Of the proxy's processes (for *direct*, of one node), each started anew. Idle clients have been active \
               before they are counted. Slow readers: 100 clients ask for 10 MB each (MGET of 100 values of 100 KB) \
               and do not read for 5 s. A large value is stored and read once, while ten others ask for small ones, 1,000 \
               times a second; of the memory the worse of both ways counts.",
        chart: Some("memory.svg"),
        cells: &[
            ("idle clients", "mem-idle"),
            ("50 clients, 20 MiB allowed", "mem-budget"),
            ("slow readers", "mem-slow"),
            ("a value of 64 MiB", "mem-64m"),
            ("a value of 512 MiB", "mem-512m"),
        ],
        metrics: &[
            (Metric::RssStartBytes, "Resident after the start"),
            PEAK,
            (Metric::BytesPerClient, "Bytes per idle client"),
            (Metric::DrainSeconds, "Seconds until slow readers have everything"),
            (Metric::Unserved, "Clients that did not get all"),
            (Metric::OthersSetP99Us, "What others waited while it was stored, p99, µs"),
            (Metric::OthersSetMaxUs, "The longest that one of them waited then, µs"),
            (Metric::OthersGetP99Us, "What others waited while it was read, p99, µs"),
            (Metric::OthersGetMaxUs, "The longest that one of them waited then, µs"),
        ],
    },
];

/// All of docs/benchmarks.md.
fn page(run: &Run, name: &str) -> String {
    let mut text = format!(
        "# Benchmarks\n\n<!-- Generated: cargo xtask bench --render {name} -->\n\n{}\n",
        introduction(run, name)
    );
    text += &rivals_ahead(run);
    let made: Vec<&str> = pictures::all(run).iter().map(|picture| picture.file).collect();
    for section in SECTIONS {
        text += &show(section, run, &made);
    }
    text += &limits(run);
    text += &repeat(run, name);
    text
}

fn introduction(run: &Run, name: &str) -> String {
    let machine = &run.machine;
    let mut text = format!(
        "shardis beside the proxies that Debian has, in one run on one machine: {} ({} cores), {}, on {}. {} cores: {}\n",
        machine.model,
        machine.cores,
        machine.kernel,
        run.date,
        machine.cores,
        machine.pinning.split_once(": ").map_or("", |(_, how)| how),
    );
    text = text.replace(&format!(" {} cores: ", machine.cores), " Pinned: ").replace("\n", ".\n");
    let _ = write!(
        text,
        "\nEvery figure is the median of the rounds; contestants take turns within a round, so that what disturbs the \
         machine disturbs all. The [whole table](../{name}/run.txt) has the least and the greatest of each, all commands \
         and versions; [run.json](../{name}/run.json) has every single measurement. Wall-clock figures of one machine say \
         little about another: ratios within a run say most. The load average before this run was {}{}.\n\n\
         | contestant | what it is | version |\n| --- | --- | --- |\n",
        machine.load_average,
        congestion_control(machine)
    );
    for (contestant, role) in contestants(run) {
        let version = run.versions.get(&contestant).map_or("", |version| short_version(version));
        let _ = writeln!(text, "| {contestant} | {} | {version} |", what_it_is(role));
    }
    for line in &run.missing {
        let _ = writeln!(text, "\nNot on this machine: {line}.");
    }
    text
}

/// TCP's congestion control, as the end of a sentence. It matters on loopback, although nothing is congested there.
fn congestion_control(machine: &Machine) -> String {
    match machine.congestion_control.as_str() {
        "" => String::new(),
        "bbr" => {
            ", and TCP's congestion control `bbr`, which lets senders wait: see [why](../bench/README.md)"
                .into()
        }
        other => format!(", and TCP's congestion control `{other}`"),
    }
}

/// All contestants of any cell, in the order of the cells.
fn contestants(run: &Run) -> Vec<(String, Role)> {
    let mut found: Vec<(String, Role)> = Vec::new();
    for entry in run.cells.iter().flat_map(|cell| &cell.entries) {
        if !found.iter().any(|(name, _)| *name == entry.contestant) {
            found.push((entry.contestant.clone(), entry.role));
        }
    }
    found
}

/// The number in the version text of a program.
fn short_version(version: &str) -> &str {
    let is_other = |letter: char| !letter.is_ascii_digit() && letter != '.';
    version.split(is_other).find(|part| part.trim_matches('.').contains('.')).unwrap_or(version)
}

fn what_it_is(role: Role) -> &'static str {
    match role {
        Role::Ours => "as this tree builds it: one worker, defaults",
        Role::Variant => "another build or setting; `-off` is `--batching=off`",
        Role::Polling => "`--busy-poll=1000`: looks for requests for 1 ms before it sleeps",
        Role::Workers => "`--workers=2`",
        Role::Sharding => "twemproxy: shards as shardis does, and is the rival that ratios are of",
        Role::PassThrough => "forwards bytes to one node and reads none of them",
        Role::OursPassThrough => "`shardis tcp`: the same as nginx and haproxy do",
        Role::Direct => "no proxy: one node; CPU time and memory are the node's",
        Role::Floor => "answers everything with the same bytes",
    }
}

fn rivals_ahead(run: &Run) -> String {
    let wins = findings::wins(run);
    let mut text = String::from(
        "## Where a rival is better\n\nBy medians, in any cell; computed from the run, like the rest of this page. The \
         figure in parentheses is the rival's, then ours.\n\n",
    );
    for (role, what) in [
        (Role::Sharding, "Proxies that shard, as shardis does"),
        (
            Role::PassThrough,
            "Proxies that forward bytes to one node, without reading, routing or merging anything",
        ),
    ] {
        let sentences = findings::sentences(&wins, role);
        let _ = match sentences.is_empty() {
            true => writeln!(text, "{what}: in no cell of this run.\n"),
            false => writeln!(text, "{what}:\n\n- {}\n", sentences.join("\n- ")),
        };
    }
    text
}

fn show(section: &Section, run: &Run, made: &[&str]) -> String {
    let cells: Vec<(&str, &CellRun)> =
        section.cells.iter().filter_map(|&(name, cell)| Some((name, run.cell(cell)?))).collect();
    if cells.is_empty() {
        return String::new();
    }
    let mut text = format!("## {}\n\n{}\n\n", section.heading, section.text);
    if let Some(chart) = section.chart.filter(|chart| made.contains(chart)) {
        let _ = writeln!(text, "![{}](benchmarks/{chart})\n", section.heading);
    }
    for (metric, name) in section.metrics {
        text += &table(name, *metric, &cells);
    }
    for (name, cell) in cells {
        for entry in &cell.entries {
            if let Some(reason) = &entry.failure {
                let what = if entry.rounds.is_empty() { "not measured" } else { "a round failed" };
                let _ = writeln!(text, "{name}, {}: {what}. {reason}\n", entry.contestant);
            }
        }
    }
    text
}

/// A row for each cell, a column for each contestant that has a figure in one of them.
fn table(name: &str, metric: Metric, cells: &[(&str, &CellRun)]) -> String {
    let cells: Vec<_> = cells.iter().filter(|(_, cell)| has(cell, metric)).collect();
    let mut columns: Vec<&str> = Vec::new();
    for entry in cells.iter().flat_map(|(_, cell)| &cell.entries) {
        if entry.spread(metric).is_some() && !columns.contains(&entry.contestant.as_str()) {
            columns.push(&entry.contestant);
        }
    }
    if columns.is_empty() {
        return String::new();
    }
    let has_ratio = metric == Metric::CpuUsPerRequest && columns.contains(&"nutcracker");
    let mut text = format!("| {name} | {} |", columns.join(" | "));
    text += if has_ratio { " shardis / nutcracker |\n" } else { "\n" };
    text += &format!("|{}\n", " --- |".repeat(columns.len() + 1 + usize::from(has_ratio)));
    for (name, cell) in cells {
        let figures: Vec<String> =
            columns.iter().map(|contestant| figure(cell, contestant, metric)).collect();
        let _ = write!(text, "| {name} | {} |", figures.join(" | "));
        if has_ratio {
            let ratio = cell.ratio("shardis", "nutcracker", metric);
            let _ = write!(text, " {} |", ratio.map_or("–".into(), |ratio| format!("{ratio:.2}")));
        }
        text.push('\n');
    }
    text + "\n"
}

fn figure(cell: &CellRun, contestant: &str, metric: Metric) -> String {
    cell.median(contestant, metric).map_or("–".into(), |value| unit(metric).write(value))
}

/// The bottleneck of each cell.
fn limits(run: &Run) -> String {
    let mut text = String::from(
        "## What the limit was\n\nA core that was busy all the time: the proxy's, that of the nodes and the load, both, \
         or neither; in parentheses, the part of the time in which shardis ran and in which the other core was busy.\n\n\
         | cell | shardis | nutcracker | nginx | direct |\n| --- | --- | --- | --- | --- |\n",
    );
    for cell in run.cells.iter().filter(|cell| has(cell, Metric::LoadCoreBusy)) {
        let _ = write!(text, "| `{}` |", cell.name);
        for contestant in ["shardis", "nutcracker", "nginx", "direct"] {
            let entry = cell.entry(contestant);
            let limit = entry.and_then(Limit::of).map_or("–", Limit::words);
            let busy = |metric| figure(cell, contestant, metric);
            let _ = match contestant {
                "shardis" => {
                    write!(text, " {limit} ({}, {}) |", busy(Metric::ProxyBusy), busy(Metric::LoadCoreBusy))
                }
                _ => write!(text, " {limit} |"),
            };
        }
        text.push('\n');
    }
    text + "\n"
}

fn repeat(run: &Run, name: &str) -> String {
    let cells = run.cells.len();
    let contestants = contestants(run).len();
    format!(
        "## Repeat it\n\n```sh\ncargo xtask bench                     # all of it: {cells} cells, up to {contestants} \
         contestants\ncargo xtask bench --short             # under two minutes\ncargo xtask bench --list              # \
         names of cells\ncargo xtask bench --cells 'get-p*' --contestants shardis,nutcracker\ncargo xtask bench \
         --shardis /elsewhere/shardis-before    # two builds beside each other\ncargo xtask bench --render {name}    # this \
         page again\n```\n\nThe rivals are Debian's `nutcracker`, `nginx` with `libnginx-mod-stream`, and `haproxy`; what is \
         missing is said and left out. One core of two has the proxy, the other the nodes and the load \
         (`taskset`); CPU time comes from `/proc/PID/task/*/schedstat`, memory from `/proc/PID/status`, system calls \
         from `perf stat` or else `strace -c` in a pass of their own. How each program was started, and with which \
         configuration, stands in `run.txt` and in `bench/src/comparison/contestants.rs`.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn the_page_shows_only_measured_figures() {
        let page = page(&testing::run(), "bench/runs/x");
        let expected = "\
| CPU time of the proxy per request, µs | shardis | nutcracker | direct | nginx | shardis / nutcracker |
| --- | --- | --- | --- | --- | --- |
| GET | 6.50 | 10.0 | 7.00 | – | 0.65 |
| GET -P 10 | 1.20 | 1.15 | – | 0.850 | 1.04 |
";
        assert!(page.contains(expected), "{page}");
        assert!(page.contains("![When the nodes and the load are the limit](benchmarks/cpu.svg)"));
        assert!(!page.contains("## Memory") && !page.contains("NaN"));
        assert!(page.contains("Not on this machine: haproxy: apt-get install haproxy."));
        assert!(page.contains("| `get-p1` | nodes+load (60 %, 99 %) | nodes+load | – | nodes+load |"));
    }

    #[test]
    fn a_version_is_shown_as_its_number() {
        let versions =
            ["This is nutcracker-0.5.0", "nginx version: nginx/1.22.1", "Redis server v=7.0.15 sha=0:0", "?"];
        assert_eq!(versions.map(short_version), ["0.5.0", "1.22.1", "7.0.15", "?"]);
    }

    #[test]
    fn the_readme_keeps_the_text_around_the_marks() {
        let readme = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let new = replace_between(&readme, "new\n").expect("it has the marks");
        assert_eq!(new, format!("above\n{BEGIN}\nnew\n{END}\nbelow\n"));
        assert_eq!(replace_between(&new, "new\n").expect("it has them still"), new);
        assert!(replace_between("no marks", "new").is_err());
    }

    #[test]
    fn cells_of_the_page_exist() {
        let known: Vec<String> = super::super::cells::all().into_iter().map(|cell| cell.name).collect();
        let shown: Vec<&str> =
            SECTIONS.iter().flat_map(|section| section.cells.iter().map(|(_, cell)| *cell)).collect();
        assert!(shown.iter().all(|cell| known.iter().any(|name| name == cell)), "{shown:?}");
        assert!(known.iter().all(|cell| shown.contains(&cell.as_str())), "a cell is in no section");
    }

    /// A failure means that a generated file was edited, or that the generator changed: `cargo xtask bench --render FOLDER`.
    #[test]
    fn the_docs_agree_with_their_run() {
        let read = |path: &Path| std::fs::read_to_string(root().join(path)).unwrap_or_default();
        let page = read(Path::new(PAGE));
        let marker = "cargo xtask bench --render ";
        let (_, rest) = page.split_once(marker).expect("the page names its run");
        let name = rest.split_whitespace().next().expect("the page names its run");
        let run = Run::read(&root().join(name)).expect("it can be read").expect("it was kept");
        for (path, text) in files(&run, name, &read(Path::new(README))).expect("README.md has the marks") {
            assert!(read(&path) == text, "{} is out of date: {marker}{name}", path.display());
        }
    }
}
