//! The report at the end of a run, for people and as JSON. Pure.

use crate::expect::{Verdict, time};
use crate::run::Outcome;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Width of names, with the dots behind them.
const NAME_WIDTH: usize = 22;

/// The report in the manner of k6.
pub(crate) fn text(outcome: &Outcome, verdicts: &[Verdict]) -> String {
    let counts = &outcome.total.counts;
    let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
    let rate = |count: u64| format!("{count} {:.2}/s", count as f64 / seconds);
    let bytes = |count: u64| format!("{} {}/s", size(count as f64), size(count as f64 / seconds));
    let mut lines = vec![
        line("duration", &format!("{seconds:.2}s")),
        line("requests", &rate(counts.requests)),
        line("errors", &share(counts.errors, counts.requests)),
    ];
    for (name, count) in
        [("wrong_replies", counts.wrong), ("lost", counts.lost), ("unanswered", outcome.unanswered)]
    {
        if count > 0 {
            lines.push(line(name, &share(count, counts.requests)));
        }
    }
    lines.push(line("connections", &counts.connects.to_string()));
    lines.push(line("data_received", &bytes(counts.received_bytes)));
    lines.push(line("data_sent", &bytes(counts.sent_bytes)));
    lines.push(line("latency", &latencies(&outcome.total.all())));
    if outcome.names.len() > 1 {
        for (name, kind) in outcome.names.iter().zip(&outcome.total.kinds) {
            lines.push(line(&format!("  {name}"), &latencies(kind)));
        }
    }
    if !outcome.total.late.is_empty() {
        lines.push(line("late_starts", &latencies(&outcome.total.late)));
    }
    lines.extend(outcome.errors.iter().map(|error| format!("  error: {error}\n")));
    lines.extend(verdicts.iter().map(|verdict| {
        let mark = if verdict.is_kept { '✓' } else { '✗' };
        format!("  {mark} {} ({})\n", verdict.text, verdict.found)
    }));
    lines.concat()
}

fn line(name: &str, value: &str) -> String {
    format!("  {name:.<NAME_WIDTH$}: {value}\n")
}

fn share(count: u64, all: u64) -> String {
    format!("{count} {:.2}%", count as f64 * 100.0 / (all as f64).max(1.0))
}

fn size(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0}B"),
        ..1e6 => format!("{:.1}kB", bytes / 1e3),
        ..1e9 => format!("{:.1}MB", bytes / 1e6),
        _ => format!("{:.2}GB", bytes / 1e9),
    }
}

/// Quantiles that reports show, with their names.
pub(crate) const QUANTILES: [(&str, f64); 8] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
];

fn latencies(latencies: &Histogram<u64>) -> String {
    let at = |quantile| time(latencies.value_at_quantile(quantile) as f64);
    let shown = [("med", 0.5), ("p(90)", 0.9), ("p(99)", 0.99), ("p(99.9)", 0.999), ("p(99.99)", 0.9999)];
    let shown: Vec<_> = shown.iter().map(|(name, quantile)| format!("{name}={}", at(*quantile))).collect();
    let (mean, min, max) =
        (time(latencies.mean()), time(latencies.min() as f64), time(latencies.max() as f64));
    format!("avg={mean} min={min} {} max={max}", shown.join(" "))
}

/// The report for programs. Times are in microseconds.
pub(crate) fn json(outcome: &Outcome, verdicts: &[Verdict]) -> Value {
    let counts = &outcome.total.counts;
    let kinds =
        outcome.names.iter().zip(&outcome.total.kinds).map(|(name, kind)| (name.clone(), figures(kind)));
    let timeline = outcome.timeline.iter().map(|second| {
        let us = |nanos: u64| nanos as f64 / 1e3;
        json!({ "at_s": second.at, "rate": second.rate, "p50_us": us(second.p50), "p99_us": us(second.p99), "max_us": us(second.max) })
    });
    let kept = verdicts
        .iter()
        .map(|verdict| json!({ "threshold": verdict.text, "found": verdict.found, "kept": verdict.is_kept }));
    json!({
        "seconds": outcome.elapsed.as_secs_f64(),
        "requests": counts.requests,
        "rate": outcome.rate(),
        "errors": counts.errors,
        "wrong_replies": counts.wrong,
        "lost": counts.lost,
        "unanswered": outcome.unanswered,
        "connections": counts.connects,
        "received_bytes": counts.received_bytes,
        "sent_bytes": counts.sent_bytes,
        "latency_us": figures(&outcome.total.all()),
        "latency_us_by_kind": kinds.collect::<serde_json::Map<_, _>>(),
        "late_us": figures(&outcome.total.late),
        "error_texts": outcome.errors,
        "thresholds": kept.collect::<Vec<_>>(),
        "timeline": timeline.collect::<Vec<_>>(),
    })
}

fn figures(latencies: &Histogram<u64>) -> Value {
    let us = |nanos: f64| (nanos / 100.0).round() / 10.0;
    let mut figures = serde_json::Map::new();
    figures.insert("count".to_owned(), json!(latencies.len()));
    figures.insert("mean".to_owned(), json!(us(latencies.mean())));
    figures.insert("min".to_owned(), json!(us(latencies.min() as f64)));
    for (name, quantile) in QUANTILES {
        figures.insert(name.to_owned(), json!(us(latencies.value_at_quantile(quantile) as f64)));
    }
    figures.insert("max".to_owned(), json!(us(latencies.max() as f64)));
    Value::Object(figures)
}

/// The figures of a run in one line.
pub(crate) fn line_of_all(title: &str, outcome: &Outcome) -> String {
    let (all, failures) = (outcome.total.all(), outcome.failures());
    let at = |quantile| time(all.value_at_quantile(quantile) as f64);
    let (rate, max) = (outcome.rate(), time(all.max() as f64));
    format!(
        "{title}: {rate:.2}/s p50={} p99={} p99.9={} max={max} failures={failures}\n",
        at(0.5),
        at(0.99),
        at(0.999)
    )
}

/// A table of figures as CSV: all requests, then each kind. Times are in microseconds.
pub(crate) fn csv(outcome: &Outcome) -> String {
    let names = QUANTILES.map(|(name, _)| format!("\"{name}_us\"")).join(",");
    let mut text = format!("\"kind\",\"requests\",\"rate\",\"mean_us\",\"min_us\",{names},\"max_us\"\n");
    let all = outcome.total.all();
    let rows = std::iter::once(("all", &all))
        .chain(outcome.names.iter().map(String::as_str).zip(&outcome.total.kinds));
    for (name, latencies) in rows {
        let us = |nanos: f64| format!("{:.1}", nanos / 1e3);
        let rate = latencies.len() as f64 / outcome.elapsed.as_secs_f64().max(1e-9);
        let quantiles =
            QUANTILES.map(|(_, quantile)| us(latencies.value_at_quantile(quantile) as f64)).join(",");
        let (mean, min, max) = (us(latencies.mean()), us(latencies.min() as f64), us(latencies.max() as f64));
        text += &format!("\"{name}\",{},{rate:.1},{mean},{min},{quantiles},{max}\n", latencies.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Interval;
    use std::time::{Duration, SystemTime};

    fn outcome() -> Outcome {
        let mut total = Interval::new(1);
        (1..=100).for_each(|us| total.kinds[0].saturating_record(us * 1000));
        (total.counts.requests, total.counts.received_bytes) = (100, 2_500_000);
        Outcome {
            names: vec!["GET".into()],
            total,
            elapsed: Duration::from_secs(2),
            timeline: Vec::new(),
            unanswered: 3,
            errors: vec!["ERR no".into()],
            began: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn failures_and_thresholds_stand_in_the_report() {
        let verdict = Verdict { text: "p99<1us".into(), found: "99.0us".into(), is_kept: false };
        let text = text(&outcome(), &[verdict]);
        for part in [
            "  requests..............: 100 50.00/s\n",
            "  unanswered............: 3 3.00%\n",
            "  data_received.........: 2.5MB 1.2MB/s\n",
            "  latency...............: avg=50.5us min=1.0us med=50.0us p(90)=90.0us",
            "  error: ERR no\n",
            "  ✗ p99<1us (99.0us)\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("lost"), "zeros are left out: {text}");
    }

    #[test]
    fn figures_for_programs_are_in_microseconds() {
        let report = json(&outcome(), &[]);
        assert_eq!((&report["rate"], &report["latency_us"]["count"]), (&json!(50.0), &json!(100)));
        assert_eq!(report["latency_us_by_kind"]["GET"]["p99"], report["latency_us"]["p99"]);
        let table = csv(&outcome());
        assert_eq!(table.lines().count(), 3);
        assert!(
            table.lines().nth(1).is_some_and(|line| line.starts_with("\"all\",100,50.0,50.5,1.0,50.0,")),
            "{table}"
        );
    }
}
