//! Two targets in turns: the ratio of a figure, and whether it is more than noise. Pure.
//!
//! The test is a paired permutation test. If both targets were alike, each round's two figures could as well be exchanged. The test
//! looks at all such exchanges (2^rounds) of the logarithms of the ratios. The share whose mean is at least as far from zero as the
//! measured one is the probability that noise alone explains the difference.

/// A figure of both targets over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// Medians over the rounds.
    pub(crate) medians: [f64; 2],
    /// The second by the first, as the geometric mean over the rounds.
    pub(crate) ratio: f64,
    /// Probability that noise alone explains such a ratio.
    pub(crate) p: f64,
}

/// Below this probability a difference is called one.
pub(crate) const NOISE_BELOW: f64 = 0.05;
/// With fewer rounds, no difference could be told from noise: the smallest probability is 2 in 2^rounds.
pub(crate) const ROUNDS_MIN: u32 = 6;
/// With more, the exchanges would be too many to look at.
pub(crate) const ROUNDS_MAX: u32 = 20;
/// Sums of the same numbers in another order differ by this at most.
const ROUNDING: f64 = 1e-12;

/// Compares `pairs` of figures above zero, one for each round.
pub(crate) fn compare(pairs: &[[f64; 2]]) -> Comparison {
    let logs: Vec<f64> = pairs.iter().map(|[first, second]| (second / first).ln()).collect();
    let sum: f64 = logs.iter().sum();
    let exchanges = 1u64 << logs.len();
    let signed = |mask: u64| -> f64 {
        logs.iter().enumerate().map(|(at, log)| if mask >> at & 1 == 1 { -log } else { *log }).sum()
    };
    let extreme = (0..exchanges).filter(|&mask| signed(mask).abs() >= sum.abs() - ROUNDING).count();
    let median = |side: usize| {
        let mut figures: Vec<f64> = pairs.iter().map(|pair| pair[side]).collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        if figures.len().is_multiple_of(2) {
            (figures[middle - 1] + figures[middle]) / 2.0
        } else {
            figures[middle]
        }
    };
    Comparison {
        medians: [median(0), median(1)],
        ratio: (sum / logs.len() as f64).exp(),
        p: extreme as f64 / exchanges as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_difference_is_more_than_noise() {
        let pairs: Vec<[f64; 2]> =
            (0..8).map(|round| [100.0 + f64::from(round), (100.0 + f64::from(round)) * 1.1]).collect();
        let comparison = compare(&pairs);
        assert!((comparison.ratio - 1.1).abs() < 1e-9);
        assert!((comparison.p - 2.0 / 256.0).abs() < 1e-12, "only both extremes: {}", comparison.p);
        assert!((comparison.medians[0] - 103.5).abs() < 1e-9);
    }

    #[test]
    fn figures_that_go_up_and_down_are_noise() {
        let pairs = [[1.0, 1.1], [1.1, 1.0], [1.0, 1.2], [1.2, 1.0], [1.0, 1.05], [1.05, 1.0]];
        let comparison = compare(&pairs);
        assert!((comparison.ratio - 1.0).abs() < 1e-9 && comparison.p > 0.9, "{comparison:?}");
    }

    #[test]
    fn equal_figures_are_no_difference() {
        assert_eq!(compare(&[[2.0, 2.0]; 6]), Comparison { medians: [2.0, 2.0], ratio: 1.0, p: 1.0 });
    }
}
