//! Ejection: a shard whose node fails repeatedly is left out for a while, so that its keys go to other shards. This
//! is twemproxy's `auto_eject_hosts`, for caches.
//!
//! ```text
//!   in ── failure, failure ──► out: others have its keys ── time is up, and its node answers PING ──► returning
//!    ▲                                                                                                    │
//!    └────────────────────────────── one tenth of its keys after another ─────────────────────────────────┘
//! ```
//!
//! While a node is out, the keys go to the same shards as with twemproxy, bit for bit. The return differs. twemproxy
//! takes a node back when its time is up, without an answer and with all keys at once. A cache that comes back is
//! empty or stale. If all its keys returned at once, the database behind the cache would get the misses of all of
//! them at once.
//!
//! Leaving a shard out makes another topology of the same shards ([`Topology::without`]). Each worker makes that
//! topology for itself and adopts it like any other. Each tenth of the keys has a table (`table.rs` in `topology`).
//! Equal tables are shared, so a step builds no new table.

use std::time::Duration;
use stdx::Instant;
use topology::{Returning, ShardId, Topology};

/// Settings of ejection: its condition and its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejecting {
    /// The number of successive failures that ejects a node: lost connections or failed attempts. twemproxy's
    /// `server_failure_limit`.
    pub failures_max: u32,
    /// The shortest time of an ejection: twemproxy's `server_retry_timeout`.
    pub retry_after: Duration,
}

/// The shards that are in and out, as one worker sees them.
#[derive(Debug)]
pub(crate) struct Ejection {
    ejecting: Ejecting,
    /// The time from one tenth of the keys to the next.
    step: Duration,
    /// Standings by shard.
    standings: Vec<Standing>,
    /// Whether the distribution of keys has changed, and the topology has not followed yet.
    pub has_changed: bool,
}

/// The state of one shard's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    /// Successive failures.
    failures: u32,
    /// Whether the node has answered since its last failure.
    answers: bool,
    place: Place,
}

/// The share of its keys that a shard has. At least one shard is `In` at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    In,
    /// The shard has no keys until then at least.
    Out {
        until: Instant,
    },
    /// The shard has this number of tenths of its keys.
    Returning {
        since: Instant,
        tenths: u8,
    },
}

impl Ejection {
    /// All of `shards` shards are in. A shard that returns has all its keys after `slow_start`.
    pub(crate) fn new(ejecting: Ejecting, slow_start: Duration, shards: usize) -> Ejection {
        let standings = vec![Standing { failures: 0, answers: false, place: Place::In }; shards];
        let step = slow_start / u32::from(Returning::ALL_TENTHS);
        Ejection { ejecting, step, standings, has_changed: false }
    }

    /// Notes that a connection to the node of `shard` was lost, or could not be made.
    pub(crate) fn note_failure(&mut self, shard: ShardId, now: Instant) {
        // The last shard stays, since no other could take its keys.
        let is_last = self.standings.iter().filter(|standing| !standing.is_out()).count() == 1;
        let standing = &mut self.standings[shard.0 as usize];
        standing.answers = false;
        standing.failures += 1;
        if standing.failures < self.ejecting.failures_max || standing.is_out() || is_last {
            return;
        }
        standing.failures = 0;
        standing.place = Place::Out { until: now + self.ejecting.retry_after };
        self.has_changed = true;
        if !self.standings.iter().any(|standing| standing.place == Place::In) {
            // With no shard in, no other shard has the missing keys of those that return.
            let returning = self.standings.iter_mut().filter(|standing| !standing.is_out());
            returning.for_each(|standing| standing.place = Place::In);
        }
    }

    /// Notes that the node of `shard` has answered a PING.
    pub(crate) fn note_answer(&mut self, shard: ShardId, now: Instant) {
        let standing = &mut self.standings[shard.0 as usize];
        (standing.failures, standing.answers) = (0, true);
        self.take_back(now);
    }

    /// Takes back the shards whose time is up and whose nodes answer. Returning shards get the share of keys that is
    /// due.
    pub(crate) fn take_back(&mut self, now: Instant) {
        for standing in &mut self.standings {
            let since = match standing.place {
                Place::Out { until } if standing.answers && until <= now => now,
                Place::Returning { since, .. } => since,
                Place::In | Place::Out { .. } => continue,
            };
            let place = place_after(now.since(since), self.step, since);
            self.has_changed |= standing.place != place;
            standing.place = place;
        }
    }

    /// The instant of the next possible return or step.
    pub(crate) fn deadline(&self) -> Instant {
        let due = self.standings.iter().filter_map(|standing| match standing.place {
            Place::Out { until } => standing.answers.then_some(until),
            Place::Returning { since, tenths } => Some(since + self.step * u32::from(tenths)),
            Place::In => None,
        });
        due.min().unwrap_or(Instant::NEVER)
    }

    /// The shards that are out.
    pub(crate) fn out(&self) -> Vec<ShardId> {
        let all = (0..).map(ShardId).zip(&self.standings);
        all.filter(|(_, standing)| standing.is_out()).map(|(shard, _)| shard).collect()
    }

    /// The shards that have a part of their keys.
    pub(crate) fn returning(&self) -> Vec<Returning> {
        let all = (0..).map(ShardId).zip(&self.standings);
        let returning = all.filter_map(|(shard, standing)| match standing.place {
            Place::Returning { tenths, .. } => Some(Returning { shard, tenths }),
            Place::In | Place::Out { .. } => None,
        });
        returning.collect()
    }

    /// The share of its keys that `shard` has, in percent.
    pub(crate) fn keys_percent(&self, shard: ShardId) -> u32 {
        match self.standings[shard.0 as usize].place {
            Place::In => 100,
            Place::Out { .. } => 0,
            Place::Returning { tenths, .. } => u32::from(tenths) * 100 / u32::from(Returning::ALL_TENTHS),
        }
    }

    /// The topology with the present distribution, with the given `epoch`. `before` is the topology that was made
    /// last.
    pub(crate) fn topology(&mut self, before: &Topology, epoch: u64) -> Topology {
        self.has_changed = false;
        before.without(epoch, &self.out(), &self.returning())
    }
}

impl Standing {
    fn is_out(&self) -> bool {
        matches!(self.place, Place::Out { .. })
    }
}

/// The place of a shard that has been returning for `time`, since `since`.
fn place_after(time: Duration, step: Duration, since: Instant) -> Place {
    let steps = time.as_nanos().checked_div(step.as_nanos()).unwrap_or(u128::MAX);
    let tenths = steps.saturating_add(1).min(u128::from(Returning::ALL_TENTHS)) as u8;
    if tenths == Returning::ALL_TENTHS { Place::In } else { Place::Returning { since, tenths } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{TopologySpec, parse_nodes};

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn full() -> Topology {
        let nodes = parse_nodes("a:1,b:1,c:1").expect("valid");
        Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid")
    }

    /// Three shards, where two failures eject for a second. A returning shard has all its keys after `slow_start_ms`.
    fn ejection(slow_start_ms: u64) -> Ejection {
        let ejecting = Ejecting { failures_max: 2, retry_after: Duration::from_secs(1) };
        Ejection::new(ejecting, Duration::from_millis(slow_start_ms), 3)
    }

    fn fail(ejection: &mut Ejection, shard: u32, ms: u64) {
        (0..2).for_each(|_| ejection.note_failure(ShardId(shard), at(ms)));
    }

    fn back(shard: u32, tenths: u8) -> Returning {
        Returning { shard: ShardId(shard), tenths }
    }

    #[test]
    fn only_failures_one_after_another_eject() {
        let mut ejection = ejection(0);
        for round in 0..3 {
            ejection.note_failure(ShardId(1), at(round));
            ejection.note_answer(ShardId(1), at(round));
        }
        assert_eq!((ejection.out(), ejection.has_changed), (vec![], false));
        fail(&mut ejection, 1, 10);
        assert_eq!((ejection.out(), ejection.has_changed), (vec![ShardId(1)], true));
        let topology = ejection.topology(&full(), 2);
        assert!(!ejection.has_changed);
        let owners: Vec<u32> = (0..100).map(|n| topology.shard_of(format!("{n}").as_bytes()).0).collect();
        assert!(owners.contains(&0) && owners.contains(&2) && !owners.contains(&1));
    }

    #[test]
    fn no_shard_returns_early_or_without_an_answer() {
        let mut ejection = ejection(0);
        fail(&mut ejection, 0, 0);
        ejection.take_back(at(5000));
        assert_eq!(ejection.out(), [ShardId(0)], "it has not answered");
        fail(&mut ejection, 2, 5000);
        ejection.note_answer(ShardId(2), at(5100));
        assert_eq!((ejection.out(), ejection.deadline()), (vec![ShardId(0), ShardId(2)], at(6000)));
        ejection.take_back(at(6000));
        assert_eq!(ejection.out(), [ShardId(0)]);
        ejection.note_answer(ShardId(0), at(6001));
        assert_eq!((ejection.out(), ejection.returning()), (vec![], vec![]));
        assert_eq!(ejection.deadline(), Instant::NEVER);
    }

    #[test]
    fn the_last_shard_stays() {
        let mut ejection = ejection(0);
        for shard in [0, 1, 2, 2, 1, 0, 0, 0].map(ShardId) {
            ejection.note_failure(shard, at(0));
        }
        assert_eq!(ejection.out(), [ShardId(1), ShardId(2)]);
    }

    #[test]
    fn returning_shard_regains_a_tenth_with_each_step() {
        let mut ejection = ejection(10_000);
        fail(&mut ejection, 1, 0);
        ejection.note_answer(ShardId(1), at(1500));
        let mut seen = Vec::new();
        while ejection.deadline() < Instant::NEVER {
            ejection.has_changed = false;
            let now = ejection.deadline().max(at(1500));
            seen.push((ejection.returning(), now));
            ejection.take_back(now);
            assert!(ejection.has_changed, "a deadline is never in vain");
        }
        let expected: Vec<_> =
            (1..10).map(|tenths| (vec![back(1, tenths)], at(1500 + 1000 * u64::from(tenths)))).collect();
        assert_eq!(seen, expected);
        assert_eq!((ejection.returning(), ejection.keys_percent(ShardId(1))), (vec![], 100));
        // A late look finds the share that is due by then.
        fail(&mut ejection, 1, 20_000);
        ejection.note_answer(ShardId(1), at(21_000));
        ejection.take_back(at(24_999));
        assert_eq!((ejection.returning(), ejection.keys_percent(ShardId(1))), (vec![back(1, 4)], 40));
        ejection.take_back(at(99_000));
        assert_eq!(ejection.returning(), []);
    }

    #[test]
    fn a_returning_shard_that_fails_is_out_again() {
        let mut ejection = ejection(10_000);
        fail(&mut ejection, 1, 0);
        ejection.note_answer(ShardId(1), at(1000));
        ejection.take_back(at(6000));
        ejection.note_failure(ShardId(1), at(6001));
        assert_eq!(ejection.returning(), [back(1, 6)], "once is not again and again");
        ejection.note_failure(ShardId(1), at(6002));
        assert_eq!((ejection.returning(), ejection.out()), (vec![], vec![ShardId(1)]));
        ejection.note_answer(ShardId(1), at(7002));
        assert_eq!(ejection.returning(), [back(1, 1)], "from the beginning");
    }

    #[test]
    fn the_only_shard_in_gets_all_its_keys_at_once() {
        let mut ejection = ejection(10_000);
        fail(&mut ejection, 0, 0);
        fail(&mut ejection, 1, 0);
        ejection.note_answer(ShardId(0), at(1000));
        assert_eq!(ejection.returning(), [back(0, 1)]);
        fail(&mut ejection, 2, 1500);
        assert_eq!((ejection.returning(), ejection.out()), (vec![], vec![ShardId(1), ShardId(2)]));
        fail(&mut ejection, 0, 1600);
        assert_eq!(ejection.out(), [ShardId(1), ShardId(2)], "it is the last");
    }
}
