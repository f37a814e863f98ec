//! Shards whose nodes fail again and again are left out for a while, so that their keys go to the others: twemproxy's
//! `auto_eject_hosts`, for caches.
//!
//! ```text
//!   in ── failure, failure ──► out: its keys are others' ── time is up, and its node answers PING ──► returning
//!    ▲                                                                                                    │
//!    └────────────────────────────── a tenth of its keys after the other ─────────────────────────────────┘
//! ```
//!
//! Which keys go where while a node is out is bit for bit what twemproxy does. When it comes back is not: twemproxy takes it
//! back when its time is up, whether it answers or not, and with all keys at once. A cache that comes back has nothing, or
//! what was true when it left: if all its keys came home at once, what is behind the cache would be asked for all of
//! them at once.
//!
//! A shard that is out is another topology of the same shards ([`Topology::without`]), which each worker makes for itself and adopts as
//! any other. Each tenth of the keys has a table (`table.rs` in `topology`), and equal tables are shared, so a step makes none anew.

use std::time::Duration;
use stdx::Instant;
use topology::{Returning, ShardId, Topology};

/// When a node is left out, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejecting {
    /// So many failures one after another, of connections or of attempts to make one: twemproxy's
    /// `server_failure_limit`.
    pub failures_max: u32,
    /// For so long at least: twemproxy's `server_retry_timeout`.
    pub retry_after: Duration,
}

/// Who is in and who is out, as one worker sees it.
#[derive(Debug)]
pub(crate) struct Ejection {
    ejecting: Ejecting,
    /// From one tenth of the keys to the next it takes so long.
    step: Duration,
    /// By shard.
    standings: Vec<Standing>,
    /// Who has which keys has changed, and the topology has not followed yet.
    pub has_changed: bool,
}

/// How one shard's node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    /// One after another.
    failures: u32,
    /// It has answered since it failed last.
    answers: bool,
    place: Place,
}

/// Whether a shard has its keys. One of them has all of his at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    In,
    /// Without keys at least until then.
    Out {
        until: Instant,
    },
    /// With so many tenths of its keys.
    Returning {
        since: Instant,
        tenths: u8,
    },
}

impl Ejection {
    /// All of `shards` shards are in. One that was out and returns has all its keys after `slow_start`.
    pub(crate) fn new(ejecting: Ejecting, slow_start: Duration, shards: usize) -> Ejection {
        let standings = vec![Standing { failures: 0, answers: false, place: Place::In }; shards];
        let step = slow_start / u32::from(Returning::ALL_TENTHS);
        Ejection { ejecting, step, standings, has_changed: false }
    }

    /// A connection to the node of `shard` was lost, or could not be made.
    pub(crate) fn note_failure(&mut self, shard: ShardId, now: Instant) {
        // Who would be the last does not go: there is nobody to take its keys.
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
            // What those who return have not got yet, nobody else has.
            let returning = self.standings.iter_mut().filter(|standing| !standing.is_out());
            returning.for_each(|standing| standing.place = Place::In);
        }
    }

    /// The node of `shard` has answered a PING.
    pub(crate) fn note_answer(&mut self, shard: ShardId, now: Instant) {
        let standing = &mut self.standings[shard.0 as usize];
        (standing.failures, standing.answers) = (0, true);
        self.take_back(now);
    }

    /// Takes back whose time is up, if they answer, and gives those who return what they are to have by now.
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

    /// When somebody may be taken back, or has more keys.
    pub(crate) fn deadline(&self) -> Instant {
        let due = self.standings.iter().filter_map(|standing| match standing.place {
            Place::Out { until } => standing.answers.then_some(until),
            Place::Returning { since, tenths } => Some(since + self.step * u32::from(tenths)),
            Place::In => None,
        });
        due.min().unwrap_or(Instant::NEVER)
    }

    /// Who is out.
    pub(crate) fn out(&self) -> Vec<ShardId> {
        let all = (0..).map(ShardId).zip(&self.standings);
        all.filter(|(_, standing)| standing.is_out()).map(|(shard, _)| shard).collect()
    }

    /// Who has a part of his keys.
    pub(crate) fn returning(&self) -> Vec<Returning> {
        let all = (0..).map(ShardId).zip(&self.standings);
        let returning = all.filter_map(|(shard, standing)| match standing.place {
            Place::Returning { tenths, .. } => Some(Returning { shard, tenths }),
            Place::In | Place::Out { .. } => None,
        });
        returning.collect()
    }

    /// How much of its keys `shard` has, in percent.
    pub(crate) fn keys_percent(&self, shard: ShardId) -> u32 {
        match self.standings[shard.0 as usize].place {
            Place::In => 100,
            Place::Out { .. } => 0,
            Place::Returning { tenths, .. } => u32::from(tenths) * 100 / u32::from(Returning::ALL_TENTHS),
        }
    }

    /// Who owns which key now, as of `epoch`; `before` is the topology that was made last.
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

    /// Three shards; two failures eject for a second. Who returns has all his keys after `slow_start_ms`.
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
    fn nobody_comes_back_before_his_time_or_without_an_answer() {
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
    fn the_last_one_stays() {
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
        // Whoever looks late finds what there is to be by then.
        fail(&mut ejection, 1, 20_000);
        ejection.note_answer(ShardId(1), at(21_000));
        ejection.take_back(at(24_999));
        assert_eq!((ejection.returning(), ejection.keys_percent(ShardId(1))), (vec![back(1, 4)], 40));
        ejection.take_back(at(99_000));
        assert_eq!(ejection.returning(), []);
    }

    #[test]
    fn who_fails_again_while_it_returns_is_out_again() {
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
    fn if_nobody_else_is_in_who_returns_has_all_at_once() {
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
