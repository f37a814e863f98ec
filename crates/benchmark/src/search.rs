//! The search for the highest rate that keeps a bound. Pure: a run is a function of its rate.

use anyhow::Result;

/// One run of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) rate: f64,
    pub(crate) is_kept: bool,
}

/// Runs of a search.
const STEPS_MAX: usize = 40;
/// The search ends when the bounds differ by less than this share.
const PRECISION: f64 = 0.03;

/// Doubles the rate from `first` on until the bound is missed, or halves it until the bound is kept. Then it divides the distance.
/// `None` if no rate kept the bound.
pub(crate) fn highest(
    first: f64,
    mut keeps: impl FnMut(f64) -> Result<bool>,
) -> Result<(Option<f64>, Vec<Step>)> {
    let (mut low, mut high, mut rate) = (None, None, first);
    let mut steps = Vec::new();
    while steps.len() < STEPS_MAX {
        let is_kept = keeps(rate)?;
        steps.push(Step { rate, is_kept });
        if is_kept {
            low = Some(rate);
        } else {
            high = Some(rate);
        }
        rate = match (low, high) {
            (Some(low), None) => low * 2.0,
            (None, Some(high)) if high / 2.0 < 1.0 => break,
            (None, Some(high)) => high / 2.0,
            (Some(low), Some(high)) if high - low <= low * PRECISION => break,
            (Some(low), Some(high)) => (low + high) / 2.0,
            (None, None) => break,
        };
    }
    Ok((low, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bound: f64, first: f64) -> Option<f64> {
        highest(first, |rate| Ok(rate <= bound)).expect("no failure").0
    }

    #[test]
    fn the_highest_rate_is_found_from_below_and_from_above() {
        for (bound, first) in [(12_345.0, 1000.0), (12_345.0, 1e6), (5.0, 1000.0)] {
            let rate = found(bound, first).expect("there is one");
            assert!(rate <= bound && rate >= bound * (1.0 - 1.1 * PRECISION), "{bound}: {rate}");
        }
    }

    #[test]
    fn a_bound_that_no_rate_keeps_ends_the_search() {
        assert_eq!(found(0.0, 1000.0), None);
        let (rate, steps) = highest(1.0, |_| Ok(true)).expect("no failure");
        assert_eq!((steps.len(), rate.is_some()), (STEPS_MAX, true));
    }
}
