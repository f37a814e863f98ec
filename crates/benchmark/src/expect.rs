//! Thresholds: `p99<2ms`, `get:max<=10ms`, `rate>9000`, `errors<0.1%`. Pure.

use crate::recorder::histogram;
use crate::run::Outcome;
use crate::units;
use hdrhistogram::Histogram;
use std::str::FromStr;

/// A bound that a run must keep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Threshold {
    /// As the user wrote it.
    pub(crate) text: String,
    /// The kind of request; all if none.
    kind: Option<String>,
    metric: Metric,
    relation: Relation,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// Latency at a quantile, in nanoseconds.
    Quantile(f64),
    Mean,
    Max,
    /// Requests per second.
    Rate,
    /// Requests that went wrong.
    Errors,
    /// Their share.
    ErrorShare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A threshold and the figure that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) text: String,
    pub(crate) found: String,
    pub(crate) is_kept: bool,
}

const FORMS: &str =
    "write a threshold as p99<2ms, get:max<10ms, mean<1ms, rate>9000, errors<1 or errors<0.1%";

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let at = text.find(['<', '>']).ok_or(FORMS)?;
        let (name, rest) = text.split_at(at);
        let (relation, bound) = match rest.as_bytes() {
            [b'<', b'=', ..] => (Relation::LessOrEqual, &rest[2..]),
            [b'>', b'=', ..] => (Relation::GreaterOrEqual, &rest[2..]),
            [b'<', ..] => (Relation::Less, &rest[1..]),
            _ => (Relation::Greater, &rest[1..]),
        };
        let (kind, metric) =
            name.trim().rsplit_once(':').map_or((None, name.trim()), |(kind, rest)| (Some(kind), rest));
        let (metric, bound) = parse(metric, bound.trim())?;
        let kind = kind.map(str::to_uppercase);
        if kind.is_some() && !matches!(metric, Metric::Quantile(_) | Metric::Mean | Metric::Max) {
            return Err(format!("{text}: only latencies are known by kind of request"));
        }
        Ok(Threshold { text: text.to_owned(), kind, metric, relation, bound })
    }
}

fn parse(metric: &str, bound: &str) -> Result<(Metric, f64), String> {
    let time = || units::duration(bound).map(|time| time.as_nanos() as f64);
    let number =
        |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0).ok_or_else(|| FORMS.to_owned());
    match metric {
        "mean" | "avg" => Ok((Metric::Mean, time()?)),
        "max" => Ok((Metric::Max, time()?)),
        "med" => Ok((Metric::Quantile(0.5), time()?)),
        "rate" | "rps" => Ok((Metric::Rate, units::rate(bound)?)),
        "errors" => match bound.strip_suffix('%') {
            Some(percent) => Ok((Metric::ErrorShare, number(percent)? / 100.0)),
            None => Ok((Metric::Errors, number(bound)?)),
        },
        _ => {
            let percent = metric.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok());
            let percent = percent.filter(|percent| (0.0..=100.0).contains(percent)).ok_or(FORMS)?;
            Ok((Metric::Quantile(percent / 100.0), time()?))
        }
    }
}

impl Threshold {
    /// Whether `outcome` keeps it. An unknown kind of request keeps nothing.
    pub(crate) fn judge(&self, outcome: &Outcome) -> Verdict {
        let latencies = self.latencies(outcome);
        let found = latencies.as_ref().map(|latencies| self.figure(outcome, latencies));
        let is_kept = found.is_some_and(|found| match self.relation {
            Relation::Less => found < self.bound,
            Relation::LessOrEqual => found <= self.bound,
            Relation::Greater => found > self.bound,
            Relation::GreaterOrEqual => found >= self.bound,
        });
        // A share of nothing proves nothing.
        let is_kept = is_kept && outcome.total.counts.requests > 0;
        let found = found.map_or_else(|| "no such requests".to_owned(), |found| self.shown(found));
        Verdict { text: self.text.clone(), found, is_kept }
    }

    fn latencies(&self, outcome: &Outcome) -> Option<Histogram<u64>> {
        let Some(kind) = &self.kind else { return Some(outcome.total.all()) };
        let index = outcome.names.iter().position(|name| name.eq_ignore_ascii_case(kind))?;
        let mut latencies = histogram();
        latencies.add(&outcome.total.kinds[index]).ok()?;
        Some(latencies).filter(|latencies| !latencies.is_empty())
    }

    fn figure(&self, outcome: &Outcome, latencies: &Histogram<u64>) -> f64 {
        let failures = outcome.failures() as f64;
        match self.metric {
            Metric::Quantile(quantile) => latencies.value_at_quantile(quantile) as f64,
            Metric::Mean => latencies.mean(),
            Metric::Max => latencies.max() as f64,
            Metric::Rate => outcome.rate(),
            Metric::Errors => failures,
            Metric::ErrorShare => failures / (outcome.total.counts.requests as f64).max(1.0),
        }
    }

    fn shown(&self, found: f64) -> String {
        match self.metric {
            Metric::Quantile(_) | Metric::Mean | Metric::Max => time(found),
            Metric::Rate => format!("{found:.1}/s"),
            Metric::Errors => format!("{found}"),
            Metric::ErrorShare => format!("{:.3}%", found * 100.0),
        }
    }
}

/// Nanoseconds in a unit that leaves one to three digits before the point.
pub(crate) fn time(nanos: f64) -> String {
    match nanos {
        ..1e3 => format!("{nanos:.0}ns"),
        ..1e6 => format!("{:.1}us", nanos / 1e3),
        ..1e9 => format!("{:.2}ms", nanos / 1e6),
        _ => format!("{:.2}s", nanos / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Interval;
    use std::time::{Duration, SystemTime};

    /// 1000 GET of 1 to 1000 µs in a second, and two errors.
    fn outcome() -> Outcome {
        let mut total = Interval::new(2);
        (1..=1000).for_each(|us| total.kinds[0].saturating_record(us * 1000));
        (total.counts.requests, total.counts.errors) = (1000, 2);
        Outcome {
            names: vec!["GET".into(), "SET".into()],
            total,
            elapsed: Duration::from_secs(1),
            timeline: Vec::new(),
            unanswered: 0,
            errors: Vec::new(),
            began: SystemTime::UNIX_EPOCH,
        }
    }

    fn is_kept(text: &str) -> bool {
        text.parse::<Threshold>().expect("valid").judge(&outcome()).is_kept
    }

    #[test]
    fn figures_are_compared_with_bounds() {
        assert!(is_kept("p99<1ms") && !is_kept("p99<900us") && is_kept("p99.9<=1s"));
        assert!(is_kept("get:max<1.1ms") && !is_kept("get:max<999us") && is_kept("avg>400us"));
        assert!(is_kept("rate>999") && !is_kept("rate>1k") && is_kept("rate>=1k"));
        assert!(is_kept("errors<3") && !is_kept("errors<2") && is_kept("errors<0.3%"));
    }

    #[test]
    fn a_kind_without_requests_keeps_nothing() {
        assert!(!is_kept("set:p99<1h") && !is_kept("nosuch:p99<1h"));
    }

    #[test]
    fn wrong_thresholds_are_refused() {
        for text in ["", "p99", "p99<", "p101<1ms", "p99<x", "get:rate>1", "errors<-1", "latency<1ms"] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_a_fitting_unit() {
        assert_eq!([5e2, 1.5e3, 2.5e6, 3e9].map(time), ["500ns", "1.5us", "2.50ms", "3.00s"]);
    }
}
