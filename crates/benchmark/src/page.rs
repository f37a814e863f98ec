//! The report as one HTML page that needs nothing else: tables, and charts as SVG. Pure.

use crate::chart;
use crate::expect::{Verdict, time};
use crate::report::{self, QUANTILES};
use crate::run::Outcome;
use anyhow::Result;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:62em;color:#222}\
    table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}\
    td:first-child,th:first-child{text-align:left}pre{background:#f6f6f6;padding:1em;overflow:auto}\
    svg{max-width:100%;height:auto}.missed{color:#b00}.kept{color:#070}";

/// The page of a run that `title` describes.
pub(crate) fn html(title: &str, outcome: &Outcome, verdicts: &[Verdict]) -> Result<String> {
    let title = escaped(title);
    let judged = verdicts.iter().map(|verdict| {
        let (class, word) = if verdict.is_kept { ("kept", "kept") } else { ("missed", "missed") };
        let (text, found) = (escaped(&verdict.text), escaped(&verdict.found));
        format!("<tr class=\"{class}\"><td>{text}</td><td>{found}</td><td>{word}</td></tr>\n")
    });
    let judged: String = judged.collect();
    let thresholds = match verdicts.is_empty() {
        true => String::new(),
        false => format!("<h2>Thresholds</h2>\n<table>{judged}</table>\n"),
    };
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body>\n<h1>shardis bench</h1>\n<p>{title}</p>\n{thresholds}<h2>Latency</h2>\n{}\n{}\n{}\n<h2>Summary</h2>\n<pre>{}</pre>\n</body></html>\n",
        table(outcome),
        chart::by_percentile(outcome)?,
        chart::over_time(outcome)?,
        escaped(&report::text(outcome, verdicts)),
    ))
}

fn table(outcome: &Outcome) -> String {
    let names: String = QUANTILES.iter().map(|(name, _)| format!("<th>{name}</th>")).collect();
    let all = outcome.total.all();
    let kinds = outcome.names.iter().map(String::as_str).zip(&outcome.total.kinds);
    let rows = std::iter::once(("all", &all)).chain(kinds.filter(|_| outcome.names.len() > 1));
    let rows: String = rows
        .map(|(name, latencies)| {
            let cell = |nanos: u64| format!("<td>{}</td>", time(nanos as f64));
            let cells: String =
                QUANTILES.iter().map(|(_, quantile)| cell(latencies.value_at_quantile(*quantile))).collect();
            let count = latencies.len();
            format!("<tr><td>{}</td><td>{count}</td>{cells}{}</tr>\n", escaped(name), cell(latencies.max()))
        })
        .collect();
    format!("<table><tr><th></th><th>requests</th>{names}<th>max</th></tr>\n{rows}</table>")
}

/// Text that is no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Interval;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_page_stands_alone_and_shows_text_as_text() {
        let mut total = Interval::new(1);
        total.kinds[0].saturating_record(1000);
        let outcome = Outcome {
            names: vec!["GET".into()],
            total,
            elapsed: Duration::from_secs(1),
            timeline: Vec::new(),
            unanswered: 0,
            errors: vec!["<script>".into()],
            began: SystemTime::UNIX_EPOCH,
        };
        let verdict = Verdict { text: "p99<1ms".into(), found: "1us".into(), is_kept: true };
        let page = html("a <b>", &outcome, &[verdict]).expect("drawn");
        assert!(page.contains("p99&lt;1ms") && page.contains("a &lt;b&gt;") && page.contains("<svg "));
        let references = ["<script", "src=", "<link", "@import"];
        assert!(references.iter().all(|reference| !page.contains(reference)));
    }
}
