//! A small run, for tests of the computed pages.

use std::collections::BTreeMap;

use super::contestants::Role;
use super::record::{CellRun, Entry, Machine, Metric, Run};

/// One contestant with these rounds.
pub(super) fn entry(contestant: &str, rounds: &[&[(Metric, f64)]]) -> Entry {
    let role = match contestant {
        "nutcracker" => Role::Sharding,
        "nginx" => Role::PassThrough,
        "direct" => Role::Direct,
        _ => Role::Ours,
    };
    Entry {
        contestant: contestant.into(),
        role,
        command: format!("{contestant} --port 1"),
        load: "redis-benchmark -n 1".into(),
        rounds: rounds.iter().map(|figures| figures.iter().copied().collect()).collect(),
        failure: None,
    }
}

/// CPU time and throughput, with the load's core as the limit.
pub(super) fn figures(cpu_us: f64, rps: f64) -> Vec<(Metric, f64)> {
    vec![
        (Metric::CpuUsPerRequest, cpu_us),
        (Metric::RequestsPerSecond, rps),
        (Metric::NodesCpuUsPerRequest, cpu_us / 2.0),
        (Metric::ProxyBusy, 0.6),
        (Metric::ProxyCoreBusy, 0.65),
        (Metric::LoadCoreBusy, 0.99),
        (Metric::RssPeakBytes, 5e6),
    ]
}

/// Two cells: in the first shardis is ahead, in the second nginx and, within the spread, nutcracker.
pub(super) fn run() -> Run {
    let first = vec![
        entry("shardis", &[&figures(6.5, 60_000.0), &figures(6.4, 61_000.0), &figures(6.6, 59_000.0)]),
        entry("nutcracker", &[&figures(10.0, 50_000.0)]),
        entry("direct", &[&figures(7.0, 90_000.0)]),
    ];
    let second = vec![
        entry("shardis", &[&figures(1.0, 400_000.0), &figures(1.4, 410_000.0)]),
        entry("nutcracker", &[&figures(1.1, 420_000.0), &figures(1.2, 405_000.0)]),
        entry("nginx", &[&figures(0.9, 420_000.0), &figures(0.8, 430_000.0)]),
    ];
    let cell = |name: &str, entries| CellRun {
        name: name.into(),
        at: "2026-11-21T12:00:00Z".into(),
        seconds: 2.0,
        entries,
    };
    Run {
        date: "2026-11-21".into(),
        machine: Machine {
            model: "Some(R) Processor".into(),
            cores: 2,
            kernel: "Linux 6.1".into(),
            memory_bytes: 8 << 30,
            congestion_control: "cubic".into(),
            load_average: "0.05".into(),
            open_files_max: 20_000,
            pinning: "2 cores: the proxy on core 0, nodes and load on core 1".into(),
        },
        versions: BTreeMap::from([("shardis".into(), "shardis 0.1.0".into())]),
        missing: vec!["haproxy: apt-get install haproxy".into()],
        cells: vec![cell("get-p1", first), cell("get-p10", second)],
    }
}
