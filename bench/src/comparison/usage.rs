//! Use of the machine by the processes and cores of a measurement within some time.

use std::time::Instant;

use anyhow::Result;

use super::machine::{self, CoreTimes};
use super::record::{Figures, Metric};

/// The counters of the kernel at one moment.
pub(super) struct Moment {
    at: Instant,
    proxy_ns: u64,
    nodes_ns: u64,
    cores: Vec<CoreTimes>,
}

/// Use between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) seconds: f64,
    pub(super) proxy_ns: f64,
    pub(super) nodes_ns: f64,
    /// Seconds in which the proxy's core was busy.
    pub(super) proxy_core: f64,
    /// The same of the core of the nodes and the load.
    pub(super) load_core: f64,
}

impl Moment {
    pub(super) fn now(proxy: &[u32], nodes: &[u32]) -> Result<Moment> {
        Ok(Moment {
            at: Instant::now(),
            proxy_ns: machine::cpu_ns(proxy)?,
            nodes_ns: machine::cpu_ns(nodes)?,
            cores: (0..machine::cores().min(2)).map(machine::core_times).collect::<Result<_>>()?,
        })
    }

    /// Use since `earlier`.
    pub(super) fn since(&self, earlier: &Moment) -> Usage {
        let seconds = (self.at - earlier.at).as_secs_f64();
        let busy = |core: usize| match (self.cores.get(core), earlier.cores.get(core)) {
            (Some(now), Some(then)) if now.total > then.total => {
                seconds * (now.busy - then.busy) as f64 / (now.total - then.total) as f64
            }
            _ => 0.0,
        };
        Usage {
            seconds,
            proxy_ns: (self.proxy_ns - earlier.proxy_ns) as f64,
            nodes_ns: (self.nodes_ns - earlier.nodes_ns) as f64,
            proxy_core: busy(0),
            load_core: busy(1),
        }
    }
}

impl Usage {
    /// This without `part`, which is not to count.
    pub(super) fn without(self, part: Usage) -> Usage {
        Usage {
            seconds: self.seconds - part.seconds,
            proxy_ns: self.proxy_ns - part.proxy_ns,
            nodes_ns: self.nodes_ns - part.nodes_ns,
            proxy_core: self.proxy_core - part.proxy_core,
            load_core: self.load_core - part.load_core,
        }
    }

    /// Per request, and as parts of the time.
    pub(super) fn figures(self, requests: u64) -> Figures {
        let us_per_request = |ns: f64| ns / 1e3 / requests as f64;
        let share = |seconds: f64| (seconds / self.seconds).clamp(0.0, 1.0);
        Figures::from([
            (Metric::CpuUsPerRequest, us_per_request(self.proxy_ns)),
            (Metric::NodesCpuUsPerRequest, us_per_request(self.nodes_ns)),
            (Metric::ProxyBusy, self.proxy_ns / 1e9 / self.seconds),
            (Metric::ProxyCoreBusy, share(self.proxy_core)),
            (Metric::LoadCoreBusy, share(self.load_core)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(factor: f64) -> Usage {
        Usage {
            seconds: factor,
            proxy_ns: 5e8 * factor,
            nodes_ns: 2.5e8 * factor,
            proxy_core: 0.75 * factor,
            load_core: factor,
        }
    }

    #[test]
    fn usage_is_shown_per_request_and_as_a_share_of_time() {
        let expected = Figures::from([
            (Metric::CpuUsPerRequest, 5.0),
            (Metric::NodesCpuUsPerRequest, 2.5),
            (Metric::ProxyBusy, 0.5),
            (Metric::ProxyCoreBusy, 0.75),
            (Metric::LoadCoreBusy, 1.0),
        ]);
        assert_eq!(usage(2.0).figures(200_000), expected);
        assert_eq!(usage(3.0).without(usage(1.0)).figures(200_000), expected);
    }

    #[test]
    fn time_passes_between_two_moments() {
        let us = [std::process::id()];
        let first = Moment::now(&us, &us).expect("we run");
        let usage = Moment::now(&us, &us).expect("we run").since(&first);
        assert!(usage.seconds > 0.0 && usage.proxy_ns >= 0.0);
    }
}
