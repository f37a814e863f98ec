//! The bar of progress, on a terminal only.

use crate::expect::time;
use crate::plan::Plan;
use crate::run::Moment;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar with the present rate and latencies.
pub(crate) struct Progress {
    bar: ProgressBar,
    measure: Measure,
}

/// The figure that tells how far a run is.
enum Measure {
    Time(Duration),
    Requests,
}

const BAR: &str = "{bar:30} {percent:>3}% {msg}";

impl Progress {
    /// The bar of a run. On another output than a terminal it is not shown.
    pub(crate) fn new(plan: &Plan) -> Progress {
        let (len, measure) = match (plan.bounds.time, plan.bounds.requests) {
            (Some(time), _) => (time.as_millis() as u64, Measure::Time(time)),
            (None, requests) => (requests.unwrap_or(0), Measure::Requests),
        };
        let bar = ProgressBar::new(len);
        bar.set_style(ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, measure }
    }

    /// Shows the state of a run.
    pub(crate) fn show(&self, moment: &Moment<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        let Some(at) = moment.at else { return self.bar.set_message("warm-up") };
        self.bar.set_position(match self.measure {
            Measure::Time(time) => at.min(time).as_millis() as u64,
            Measure::Requests => moment.total.counts.requests,
        });
        let all = moment.interval.all();
        let rate = all.len() as f64 / moment.length.as_secs_f64().max(1e-9);
        let [p50, p99] = [0.5, 0.99].map(|quantile| time(all.value_at_quantile(quantile) as f64));
        self.bar.set_message(format!("{rate:.0}/s p50 {p50} p99 {p99}"));
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
