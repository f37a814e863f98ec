//! Prometheus' text format and OpenMetrics'.
//!
//! Both have families of samples. They differ in this: an OpenMetrics counter has a family name without `_total`, and the text
//! ends with `# EOF`.

use proxy::Latency;
use std::fmt::{Display, Write};

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format that a client wants by its header `Accept`.
    pub(crate) fn wanted(accept: Option<&str>) -> Format {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// The header `Content-Type` of an answer.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// The bounds of histograms: powers of two, from 32 µs to 67 s. At these the counts are exact.
pub(crate) const BOUNDS_US: [u64; 22] = {
    let mut bounds = [0; 22];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = 32 << at;
        at += 1;
    }
    bounds
};

/// The text while it is written.
pub(crate) struct Text {
    format: Format,
    out: String,
    /// The family of the next samples.
    family: &'static str,
    /// The pool of the next samples, if an answer is about several.
    pool: Option<String>,
}

impl Text {
    pub(crate) fn new(format: Format) -> Text {
        Text { format, out: String::new(), family: "", pool: None }
    }

    /// Begins the family `name`.
    pub(crate) fn begin(&mut self, name: &'static str, kind: Kind, help: &str) {
        self.family = name;
        let shown = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => name.trim_end_matches("_total"),
            _ => name,
        };
        self.write(format_args!("# HELP {shown} {help}\n# TYPE {shown} {}\n", kind.name()));
    }

    /// Has the next samples be those of `pool`.
    pub(crate) fn of_pool(&mut self, pool: Option<&str>) {
        self.pool = pool.map(str::to_owned);
    }

    /// Writes a sample of the present family.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Writes the samples of a histogram of the present family.
    pub(crate) fn histogram(&mut self, labels: &[(&str, &str)], times: &Latency) {
        for (bound, count) in BOUNDS_US.into_iter().zip(times.counts_below(&BOUNDS_US)) {
            // The counts are of whole microseconds below the bound.
            self.line("_bucket", labels, Some(&seconds(bound).to_string()), count);
        }
        let count = times.count_all();
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, seconds(times.sum_us()));
        self.line("_count", labels, None, count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], le: Option<&str>, value: impl Display) {
        let family = self.family;
        self.write(format_args!("{family}{suffix}"));
        let pool = self.pool.take();
        let of_pool = pool.as_deref().map(|pool| ("pool", pool));
        let labels = of_pool.into_iter().chain(labels.iter().copied()).chain(le.map(|le| ("le", le)));
        for (at, (name, value)) in labels.clone().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            self.write(format_args!("{before}{name}=\"{}\"", escaped(value)));
        }
        let end = if labels.count() > 0 { "}" } else { "" };
        self.write(format_args!("{end} {value}\n"));
        self.pool = pool;
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = self.out.write_fmt(text);
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

/// Microseconds as seconds.
pub(crate) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: Format) -> String {
        let mut text = Text::new(format);
        text.begin("a_total", Kind::Counter, "Things.");
        text.sample(&[("shard", "say \"a\\b\"\n")], 3);
        text.sample(&[], 0.5);
        text.finish()
    }

    #[test]
    fn labels_are_escaped_and_formats_differ_in_counters() {
        let samples = "a_total{shard=\"say \\\"a\\\\b\\\"\\n\"} 3\na_total 0.5\n";
        let expected = format!("# HELP a_total Things.\n# TYPE a_total counter\n{samples}");
        assert_eq!(text(Format::Prometheus), expected);
        let expected = format!("# HELP a Things.\n# TYPE a counter\n{samples}# EOF\n");
        assert_eq!(text(Format::OpenMetrics), expected);
    }

    #[test]
    fn the_format_is_as_the_client_accepts_it() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Format::wanted(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::wanted(Some("*/*")), Format::Prometheus);
        assert_eq!(Format::wanted(None), Format::Prometheus);
    }

    #[test]
    fn a_histogram_ends_with_all_its_times() {
        let mut text = Text::new(Format::Prometheus);
        text.begin("t_seconds", Kind::Histogram, "Times.");
        text.histogram(&[("command", "get")], &Latency::default());
        let text = text.finish();
        assert!(text.contains("t_seconds_bucket{command=\"get\",le=\"0.000032\"} 0\n"), "{text}");
        assert!(text.contains("t_seconds_bucket{command=\"get\",le=\"67.108864\"} 0\n"), "{text}");
        assert!(text.ends_with(
            "le=\"+Inf\"} 0\nt_seconds_sum{command=\"get\"} 0\nt_seconds_count{command=\"get\"} 0\n"
        ));
    }
}
