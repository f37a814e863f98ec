//! Statistics of repeated measurements. Pure.

use super::contestants::Role;
use super::record::{CellRun, Entry, Metric};

/// Several measurements of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` of nothing.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let (below, above) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median: f64::midpoint(below, above), min, max })
    }

    /// Whether a measurement of one lies within those of the other.
    pub(super) fn overlaps(self, other: Spread) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

impl Entry {
    /// The spread of `metric` over its rounds.
    pub(super) fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(self.values(metric))
    }

    /// The same without the highest and the lowest quarter of the rounds: of many, some see the machine stall. Of three, all
    /// count.
    pub(super) fn middle(&self, metric: Metric) -> Option<Spread> {
        let mut values: Vec<f64> = self.values(metric).collect();
        values.sort_by(f64::total_cmp);
        let quarter = values.len() / 4;
        Spread::of(values.drain(quarter..values.len() - quarter))
    }

    fn values(&self, metric: Metric) -> impl Iterator<Item = f64> {
        self.rounds.iter().filter_map(move |figures| figures.get(&metric).copied())
    }

    /// The median of its rounds.
    pub(super) fn median(&self, metric: Metric) -> Option<f64> {
        Some(self.spread(metric)?.median)
    }
}

impl CellRun {
    /// The median of `metric` of `contestant`.
    pub(super) fn median(&self, contestant: &str, metric: Metric) -> Option<f64> {
        self.entry(contestant)?.median(metric)
    }

    /// `metric` of `contestant` by that of `other`.
    pub(super) fn ratio(&self, contestant: &str, other: &str, metric: Metric) -> Option<f64> {
        let ratio = self.median(contestant, metric)? / self.median(other, metric)?;
        ratio.is_finite().then_some(ratio)
    }
}

/// The bottleneck of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Proxy,
    Load,
    Both,
    Neither,
    /// Somebody else had the proxy's core.
    Others,
}

/// A core that is busy for this part of the time is the limit. Not all of it: the load starts and ends within the time.
const SATURATED: f64 = 0.93;

impl Limit {
    /// The bottleneck by the busy parts of both cores.
    pub(super) fn of(entry: &Entry) -> Option<Limit> {
        let is_busy = |metric| entry.median(metric).map(|busy| busy >= SATURATED);
        let (proxy, load) = (is_busy(Metric::ProxyBusy)?, is_busy(Metric::LoadCoreBusy)?);
        // Without a proxy, nodes and load have their core, and the proxy's does not count.
        let is_disturbed = !proxy && entry.role != Role::Direct && is_busy(Metric::ProxyCoreBusy)?;
        Some(match (proxy, load) {
            _ if is_disturbed => Limit::Others,
            (true, false) => Limit::Proxy,
            (false, true) => Limit::Load,
            (true, true) => Limit::Both,
            (false, false) => Limit::Neither,
        })
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Limit::Proxy => "proxy",
            Limit::Load => "nodes+load",
            Limit::Both => "both cores",
            Limit::Neither => "neither",
            Limit::Others => "others at work",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]);
        assert_eq!(spread, Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([7.0]), Some(Spread { median: 7.0, min: 7.0, max: 7.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_middle_of_many_rounds_knows_no_stall() {
        let middle = |values: &[f64]| {
            let rounds: Vec<_> = values.iter().map(|&value| [(Metric::P99Us, value)]).collect();
            let rounds: Vec<&[_]> = rounds.iter().map(|round| &round[..]).collect();
            testing::entry("shardis", &rounds).middle(Metric::P99Us)
        };
        assert_eq!(middle(&[3.0, 9.0, 1.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        let many = [5.0, 900.0, 1.0, 4.0, 6.0, 3.0, 2.0, 800.0];
        assert_eq!(middle(&many), Some(Spread { median: 4.5, min: 3.0, max: 6.0 }));
        assert_eq!(middle(&[]), None);
    }

    #[test]
    fn spreads_overlap_if_they_have_a_value_in_common() {
        let spread = |min, max| Spread { median: min, min, max };
        assert!(spread(1.0, 2.0).overlaps(spread(2.0, 3.0)));
        assert!(spread(1.0, 4.0).overlaps(spread(2.0, 3.0)));
        assert!(!spread(1.0, 2.0).overlaps(spread(2.1, 3.0)));
    }

    #[test]
    fn a_ratio_is_that_of_medians() {
        let run = testing::run();
        let ratio = run.cells[0].ratio("shardis", "nutcracker", Metric::CpuUsPerRequest);
        assert_eq!(ratio, Some(0.65));
        assert_eq!(run.cells[0].ratio("shardis", "nobody", Metric::CpuUsPerRequest), None);
    }

    #[test]
    fn the_limit_is_the_core_that_had_no_rest() {
        let limit = |proxy: f64, load: f64| {
            let figures =
                [(Metric::ProxyBusy, proxy), (Metric::ProxyCoreBusy, proxy), (Metric::LoadCoreBusy, load)];
            Limit::of(&testing::entry("shardis", &[&figures]))
        };
        assert_eq!(limit(0.99, 0.5), Some(Limit::Proxy));
        assert_eq!(limit(0.6, 0.95), Some(Limit::Load));
        assert_eq!(limit(0.99, 0.99), Some(Limit::Both));
        assert_eq!(limit(0.5, 0.5), Some(Limit::Neither));
        assert_eq!(Limit::of(&testing::entry("shardis", &[])), None);
        let figures = [(Metric::ProxyBusy, 0.2), (Metric::ProxyCoreBusy, 1.0), (Metric::LoadCoreBusy, 1.0)];
        assert_eq!(Limit::of(&testing::entry("shardis", &[&figures])), Some(Limit::Others));
        assert_eq!(Limit::of(&testing::entry("direct", &[&figures])), Some(Limit::Load));
    }
}
