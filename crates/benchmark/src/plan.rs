//! One run as workers see it: the target, the requests, the pace and the end. Nothing here changes during a run.

use crate::keys::{Keys, Sampler};
use crate::kinds::Kind;
use crate::random::Random;
use crate::sizes::{Sizes, Values};
use crate::template::Filler;
use crate::trace::Trace;
use driver::Connector;
use loadgen::schedule::{Arrivals, Schedule};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) protocol: Protocol,
    pub(crate) target: Target,
    pub(crate) workload: Workload,
    pub(crate) connections: Connections,
    pub(crate) pace: Pace,
    pub(crate) replay: Option<Replay>,
    pub(crate) bounds: Bounds,
    /// Whether each reply is checked.
    pub(crate) verify: bool,
    /// Whether an error ends the run, as in redis-benchmark.
    pub(crate) stops_at_error: bool,
    /// Length of the intervals in which latencies are handed over.
    pub(crate) interval: Duration,
    pub(crate) seed: u64,
}

/// The language of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp,
    Http,
}

/// The servers that connections lead to, in turn.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) nodes: Vec<Node>,
    /// TLS, and the name that the certificate must be for.
    pub(crate) tls: Option<(Connector, String)>,
}

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) address: driver::Target,
    /// In a cluster, hash tags that lead to this node.
    pub(crate) tags: Vec<[u8; 3]>,
}

/// The requests and their parts.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) kinds: Vec<Kind>,
    /// Weights of the kinds, each with those before it.
    pub(crate) weights: Vec<u64>,
    pub(crate) keys: Keys,
    pub(crate) keyspace: u64,
    pub(crate) sizes: Sizes,
    /// Seconds until keys expire, from the first to the second.
    pub(crate) expire: (u64, u64),
    /// Requests that are sent at once, from the first to the second.
    pub(crate) depth: (usize, usize),
    /// Subscribers of the channels that requests publish to.
    pub(crate) pubsub: Option<PubSub>,
}

/// Subscribers beside the connections that publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PubSub {
    pub(crate) subscribers: u32,
    pub(crate) channels: u32,
}

/// The connections of a run.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pub(crate) count: u32,
    pub(crate) threads: u32,
    /// Requests after which a connection is closed and opened again.
    pub(crate) reconnect_after: Option<u64>,
    /// Requests at the beginning of each connection, as bytes, and the number of their replies.
    pub(crate) opening: Vec<u8>,
    pub(crate) opening_replies: u32,
}

/// The rule by which requests start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// Each connection sends its next requests when the last ones were answered.
    Closed,
    /// By a schedule, whatever comes back.
    Open {
        /// Requests per second of all threads together.
        rate: f64,
        arrivals: Arrivals,
        /// Time in which the rate grows from zero.
        growth: Duration,
    },
    /// As in a trace.
    Traced,
    /// Never.
    Idle,
}

/// A trace that is sent again.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) trace: Arc<Trace>,
    pub(crate) speed: Speed,
}

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// The speed of the capture, times this.
    Times(f64),
    /// In the order of the capture, as fast as replies come.
    Max,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Requests, without those of the warm-up.
    pub(crate) requests: Option<u64>,
    /// Time at the beginning that is not recorded.
    pub(crate) warmup: Duration,
    /// Time of the recorded part.
    pub(crate) time: Option<Duration>,
}

impl Workload {
    /// One kind of request.
    pub(crate) fn of(kind: Kind) -> Workload {
        Workload {
            kinds: vec![kind],
            weights: vec![1],
            keys: Keys::Uniform,
            keyspace: 1,
            sizes: Sizes::Fixed(3),
            expire: (60, 60),
            depth: (1, 1),
            pubsub: None,
        }
    }

    /// The kinds as reports name them. Deliveries to subscribers come last.
    pub(crate) fn names(&self) -> Vec<String> {
        let delivery = self.pubsub.map(|_| "DELIVERY".to_owned());
        self.kinds.iter().map(|kind| kind.name.clone()).chain(delivery).collect()
    }

    /// The index of the next kind.
    #[inline]
    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        if self.kinds.len() == 1 {
            return 0;
        }
        let at = random.below(self.weights.last().copied().unwrap_or(1));
        self.weights.partition_point(|&sum| sum <= at)
    }
}

impl Plan {
    /// The filler of thread `thread`.
    pub(crate) fn filler(&self, thread: u32) -> Filler {
        let workload = &self.workload;
        let mut random = Random::new(self.seed);
        // All threads have the same values, as all their keys may be the same.
        let values = match self.verify {
            true => Values::Stamped,
            false => Values::random(workload.sizes.max(), &mut random),
        };
        let (thread, threads) = (u64::from(thread), u64::from(self.connections.threads));
        Filler {
            random: Random::new(self.seed.wrapping_add(1 + thread)),
            sampler: Sampler::new(workload.keys, workload.keyspace, thread, threads),
            sizes: workload.sizes.clone(),
            values,
            expire: workload.expire,
            last: 0,
        }
    }

    /// The schedule of thread `thread`, which has its share of the rate.
    pub(crate) fn schedule(&self, thread: u32) -> Option<Schedule> {
        let Pace::Open { rate, arrivals, growth } = self.pace else { return None };
        let threads = f64::from(self.connections.threads);
        let rate = rate / threads;
        let schedule = match arrivals {
            Arrivals::Even => Schedule::even(rate, f64::from(thread) / threads),
            Arrivals::Poisson => Schedule::new(rate, self.seed.wrapping_add(u64::from(thread))),
        };
        Some(schedule.growing_for(growth))
    }
}

/// State that all workers of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Requests that may still be sent.
    left: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    pub(crate) fn new(requests: Option<u64>) -> Shared {
        Shared { left: AtomicU64::new(requests.unwrap_or(u64::MAX)), stop: AtomicBool::new(false) }
    }

    /// Takes up to `count` requests of those that may be sent.
    #[inline]
    pub(crate) fn take(&self, count: u64) -> u64 {
        let before = self.left.load(Ordering::Relaxed);
        if before == u64::MAX {
            return count;
        }
        let taken = |left: u64| Some(left.saturating_sub(count));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).map_or(0, |left| left.min(count))
    }

    /// Whether requests may still be sent.
    pub(crate) fn has_more(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0 && !self.stop.load(Ordering::Relaxed)
    }

    /// Ends the run early.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_picked_by_weight() {
        let mut workload = Workload::of(Kind::named("get", false).expect("known"));
        workload.kinds = ["get", "set", "ping"].map(|name| Kind::named(name, false).expect("known")).to_vec();
        workload.weights = vec![80, 95, 100];
        let (mut random, mut counts) = (Random::new(1), [0i32; 3]);
        (0..10_000).for_each(|_| counts[workload.pick(&mut random)] += 1);
        assert!(
            counts.iter().zip([8000, 1500, 500]).all(|(&count, share)| (count - share).abs() < 200),
            "{counts:?}"
        );
    }

    #[test]
    fn no_more_requests_are_taken_than_there_are() {
        let shared = Shared::new(Some(5));
        assert_eq!([shared.take(3), shared.take(3), shared.take(3)], [3, 2, 0]);
        assert!(!shared.has_more());
        let endless = Shared::new(None);
        assert_eq!((endless.take(7), endless.has_more()), (7, true));
        endless.stop();
        assert!(!endless.has_more());
    }
}
