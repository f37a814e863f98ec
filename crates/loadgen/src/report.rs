//! The result of a run: one line of JSON.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

/// Times from one event to another.
#[derive(Clone, Debug)]
pub struct Latencies {
    nanos: Histogram<u64>,
}

/// Longer latencies count as this.
const LATENCY_MAX: Duration = Duration::from_secs(100);

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

impl Latencies {
    /// None yet. Relative errors stay below one in a thousand.
    pub fn new() -> Latencies {
        let nanos = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, 3)
            .expect("1 < 100 s, 3 <= 5 digits");
        Latencies { nanos }
    }

    /// One more.
    pub fn record(&mut self, latency: Duration) {
        self.nanos.saturating_record(latency.as_nanos() as u64);
    }

    /// Adds the latencies of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.nanos.add(&other.nanos).expect("both have the same range");
    }

    /// Number of latencies.
    pub fn len(&self) -> u64 {
        self.nanos.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// Percentiles in microseconds.
    pub fn to_json(&self) -> Value {
        let at = |quantile: f64| micros(self.nanos.value_at_quantile(quantile));
        json!({
            "count": self.len(),
            "p50": at(0.5),
            "p90": at(0.9),
            "p99": at(0.99),
            "p999": at(0.999),
            "max": micros(self.nanos.max()),
        })
    }
}

/// Nanoseconds as microseconds, with one digit behind the point.
fn micros(nanos: u64) -> f64 {
    (nanos as f64 / 100.0).round() / 10.0
}

/// Rounds to `digits` behind the point: more would only look precise.
pub fn rounded(number: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (number * unit).round() / unit
}

/// Adds the fields of `more` to the object `report`.
pub fn extend(report: &mut Value, more: Value) {
    if let (Some(report), Value::Object(more)) = (report.as_object_mut(), more) {
        report.extend(more);
    }
}

/// Prints the addresses of nodes as the first line, so that a proxy can be started in front of them.
pub fn print_ports(ports: &[u16]) {
    println!("{}", json!({ "ports": ports }));
    // A reader that has gone will not miss it.
    let _ = std::io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_microseconds_and_within_a_thousandth() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        let report = latencies.to_json();
        assert_eq!(report["count"], 1000);
        for (field, expected) in
            [("p50", 500.0), ("p90", 900.0), ("p99", 990.0), ("p999", 999.0), ("max", 1000.0)]
        {
            let found = report[field].as_f64().expect("a number");
            assert!((found / expected - 1.0).abs() <= 0.001, "{field}: {found}");
        }
    }

    #[test]
    fn values_beyond_the_range_count_as_its_end() {
        let mut latencies = Latencies::new();
        latencies.record(LATENCY_MAX * 2);
        assert_eq!(latencies.len(), 1);
    }
}
