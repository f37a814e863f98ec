//! Checks of clocks and of the time of a PING.

use super::{Setup, about, answered};
use crate::facts::Facts;
use crate::finding::{Finding, Severity};

/// Clocks may differ by this much. The answer itself takes some milliseconds.
const APART_US_MAX: i64 = 1_000_000;
/// A PING within a data centre takes less.
const P99_US_MAX: u64 = 20_000;
/// A tail that is this many times the median is jitter, if it is long enough to matter.
const JITTER: u64 = 20;
const JITTER_US_MIN: u64 = 5_000;

pub(super) fn clock(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let ahead_us = node.clock_ahead_us.filter(|ahead_us| ahead_us.abs() > APART_US_MAX)?;
        let way = if ahead_us > 0 { "ahead" } else { "behind" };
        let found = format!("its clock is {:.1} s {way} of this machine's", ahead_us.abs() as f64 / 1e6);
        let effect = "EXPIREAT, TIME in scripts and stream ids mean other moments at each node";
        Some(about(node, Severity::Warning, found, effect, "run an NTP service on all machines"))
    };
    answered(facts).filter_map(finding).collect()
}

pub(super) fn latency(_: &Setup, facts: &[Facts]) -> Vec<Finding> {
    let finding = |node: &Facts| {
        let (p50, p99) = (node.ping_us(0.5), node.ping_us(0.99));
        let is_jitter = p99 >= JITTER_US_MIN && p99 > JITTER * p50.max(1);
        if p99 <= P99_US_MAX && !is_jitter {
            return None;
        }
        let found = format!("100 PINGs took {} in the median, {} at p99", ms(p50), ms(p99));
        let cure =
            "run shardis near the nodes; look at SLOWLOG, LATENCY DOCTOR and the load of the node's machine";
        Some(about(node, Severity::Warning, found, "each request waits for that", cure))
    };
    answered(facts).filter_map(finding).collect()
}

fn ms(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}
