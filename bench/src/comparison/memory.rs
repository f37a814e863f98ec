//! Cells about memory: the contestant is started anew, since it may keep memory.

use anyhow::{Context, Result};
use serde_json::Value;

use super::cells::{Memory, Test};
use super::contestants::{Contestant, Started};
use super::load;
use super::machine::{self, Place};
use super::measure::{Rig, parse_report, usual};
use super::record::{Figures, Metric};

/// The value of `--memory-max`: the heap that redis-sharding got.
const BUDGET: &str = "--memory-max=20M";

/// Clients that connect, ask once and then wait. Proxies that forward bytes have a connection to the node for each. 10,000
/// would then be more open files than many machines permit.
const IDLE_CLIENTS: u32 = 5_000;

/// A transfer that takes longer has failed; a second is usual.
const TRANSFER_SECONDS_MAX: u32 = 60;

/// A measurement, with how it was made.
pub(super) struct Measured {
    pub(super) figures: Figures,
    pub(super) command: String,
    pub(super) load: String,
}

/// Measures `contestant` under `kind`.
pub(super) fn measure(rig: &Rig, contestant: &Contestant, kind: Memory) -> Result<Measured> {
    rig.nodes.flush()?;
    let contestant = if kind == Memory::Budget { &contestant.with_argument(BUDGET) } else { contestant };
    let started = contestant.start(Place::Proxy, &rig.nodes.addresses(), &rig.folder)?;
    let (load, mut figures) = match kind {
        Memory::Idle => generate(rig, &started, &format!("idle --clients {IDLE_CLIENTS}"), read_idle)?,
        Memory::Budget => budget(rig, &started)?,
        Memory::Slow => generate(rig, &started, "slow", read_slow)?,
        Memory::Large { mebibytes } => {
            let bytes = u64::from(mebibytes) << 20;
            let words = format!("large --value-bytes {bytes} --transfer-seconds-max {TRANSFER_SECONDS_MAX}");
            generate(rig, &started, &words, read_large)?
        }
    };
    figures.insert(Metric::RssStartBytes, started.rss_start_bytes as f64);
    Ok(Measured { figures, command: started.command, load })
}

/// Runs loadgen against `started`, and returns the figures that `read` finds in its report.
fn generate(
    rig: &Rig,
    started: &Started,
    words: &str,
    read: fn(&Value) -> Option<Figures>,
) -> Result<(String, Figures)> {
    let words = format!("{words} --target 127.0.0.1:{} --measure-pid {}", started.port, started.family[0]);
    let mut loadgen = machine::placed(Place::Load, &rig.loadgen);
    let report = parse_report(&load::output(loadgen.args(words.split(' ')))?)?;
    let figures = read(&report).with_context(|| format!("loadgen said: {report}"))?;
    Ok((format!("loadgen {words}"), figures))
}

/// Two loads that fill buffers: many large requests, and many large replies.
fn budget(rig: &Rig, started: &Started) -> Result<(String, Figures)> {
    let mut commands = Vec::new();
    for test in [Test::Mset, Test::Mget] {
        let requests = (50_000.0 * rig.seconds) as u64;
        load::benchmark(usual(test, 100), started.port, requests)?;
        let words = load::benchmark_words(usual(test, 100), started.port, requests);
        commands.push(format!("redis-benchmark {}", words.join(" ")));
    }
    let (now, peak) = machine::resident_bytes(&started.family)?;
    let figures = [(Metric::RssBytes, now as f64), (Metric::RssPeakBytes, peak as f64)];
    Ok((commands.join("; "), Figures::from(figures)))
}

fn number(report: &Value, pointer: &str) -> Option<f64> {
    report.pointer(pointer)?.as_f64()
}

fn read_idle(report: &Value) -> Option<Figures> {
    Some(Figures::from([
        (Metric::BytesPerClient, number(report, "/settled/bytes_per_client")?),
        (Metric::RssBytes, number(report, "/settled/rss_bytes")?),
        (Metric::RssPeakBytes, number(report, "/peak_rss_bytes")?),
    ]))
}

fn read_slow(report: &Value) -> Option<Figures> {
    Some(Figures::from([
        (Metric::RssBytes, number(report, "/rss_bytes_after")?),
        (Metric::RssPeakBytes, number(report, "/peak_rss_bytes")?),
        (Metric::DrainSeconds, number(report, "/drain_seconds")?),
        (Metric::Unserved, number(report, "/clients")? - number(report, "/served_whole")?),
    ]))
}

/// Of memory, the worse of both ways that the value takes.
fn read_large(report: &Value) -> Option<Figures> {
    let in_part = |part: &str, place: &str| number(report, &format!("/{part}/{place}"));
    let worst = |place: &str| Some(in_part("set", place)?.max(in_part("get", place)?));
    Some(Figures::from([
        (Metric::RssBytes, worst("rss_bytes_after")?),
        (Metric::RssPeakBytes, worst("peak_rss_bytes")?),
        (Metric::OthersSetP99Us, in_part("set", "others_latency_us/p99")?),
        (Metric::OthersSetMaxUs, in_part("set", "others_latency_us/max")?),
        (Metric::OthersGetP99Us, in_part("get", "others_latency_us/p99")?),
        (Metric::OthersGetMaxUs, in_part("get", "others_latency_us/max")?),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(read: fn(&Value) -> Option<Figures>, text: &str) -> Option<Figures> {
        read(&serde_json::from_str(text).expect("it is JSON"))
    }

    #[test]
    fn clients_that_were_not_served_whole_are_counted() {
        let text =
            r#"{"clients":100,"served_whole":91,"drain_seconds":2.5,"rss_bytes_after":1,"peak_rss_bytes":2}"#;
        let expected = Figures::from([
            (Metric::RssBytes, 1.0),
            (Metric::RssPeakBytes, 2.0),
            (Metric::DrainSeconds, 2.5),
            (Metric::Unserved, 9.0),
        ]);
        assert_eq!(read(read_slow, text), Some(expected));
        assert_eq!(read(read_slow, "{}"), None);
    }

    #[test]
    fn large_value_figures_take_the_worse_direction() {
        let part = |peak: u32, max: u32| {
            format!(
                r#"{{"rss_bytes_after":1,"peak_rss_bytes":{peak},"others_latency_us":{{"p99":5,"max":{max}}}}}"#
            )
        };
        let text = format!(r#"{{"before":{},"set":{},"get":{}}}"#, part(90, 90), part(7, 20), part(8, 10));
        let figures = read(read_large, &text).expect("it is as loadgen writes it");
        let shown = [Metric::RssPeakBytes, Metric::OthersSetMaxUs, Metric::OthersGetMaxUs];
        assert_eq!(shown.map(|metric| figures[&metric]), [8.0, 20.0, 10.0]);
    }
}
