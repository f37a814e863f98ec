//! Shards whose nodes fail again and again are left out for a while, so that their keys go to the others: twemproxy's
//! `auto_eject_hosts`, for caches.
//!
//! ```text
//!   in ── failure, failure ──► out: its keys are others' ── time is up, and its node answers PING ──► in
//! ```
//!
//! Which keys go where while a node is out is bit for bit what twemproxy does. When it comes back is not: twemproxy takes it
//! back when its time is up, whether it answers or not.

use crate::core::Core;
use crate::event::Notice;
use crate::proxy::Proxy;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;
use topology::{ShardId, Topology};

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
    /// With all shards in.
    full: Arc<Topology>,
    /// By shard.
    standings: Vec<Standing>,
    /// Who is in has changed, and the topology has not followed yet.
    pub has_changed: bool,
}

/// How one shard's node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// One after another.
    failures: u32,
    /// It is out at least until then.
    out_until: Option<Instant>,
    /// It has answered since it failed last.
    answers: bool,
}

impl Ejection {
    pub(crate) fn new(ejecting: Ejecting, full: Arc<Topology>) -> Ejection {
        let standings = vec![Standing::default(); full.shard_count()];
        Ejection { ejecting, full, standings, has_changed: false }
    }

    /// A connection to the node of `shard` was lost, or could not be made.
    pub(crate) fn note_failure(&mut self, shard: ShardId, now: Instant) {
        // Who would be the last does not go: there is nobody to take its keys.
        let is_last = self.standings.iter().filter(|standing| standing.out_until.is_none()).count() == 1;
        let standing = &mut self.standings[shard.0 as usize];
        standing.answers = false;
        standing.failures += 1;
        if standing.failures >= self.ejecting.failures_max && standing.out_until.is_none() && !is_last {
            standing.failures = 0;
            standing.out_until = Some(now + self.ejecting.retry_after);
            self.has_changed = true;
        }
    }

    /// The node of `shard` has answered a PING.
    pub(crate) fn note_answer(&mut self, shard: ShardId, now: Instant) {
        let standing = &mut self.standings[shard.0 as usize];
        (standing.failures, standing.answers) = (0, true);
        self.take_back(now);
    }

    /// Takes back whose time is up, if they answer.
    pub(crate) fn take_back(&mut self, now: Instant) {
        for standing in &mut self.standings {
            if standing.answers && standing.out_until.is_some_and(|until| until <= now) {
                standing.out_until = None;
                self.has_changed = true;
            }
        }
    }

    /// When somebody may be taken back.
    pub(crate) fn deadline(&self) -> Instant {
        let back = self.standings.iter().filter(|standing| standing.answers);
        back.filter_map(|standing| standing.out_until).min().unwrap_or(Instant::NEVER)
    }

    /// Who is out.
    pub(crate) fn out(&self) -> Vec<ShardId> {
        let all = (0..).map(ShardId).zip(&self.standings);
        all.filter(|(_, standing)| standing.out_until.is_some()).map(|(shard, _)| shard).collect()
    }

    /// Who owns which key now, as of `epoch`.
    fn topology(&mut self, epoch: u64) -> Topology {
        self.has_changed = false;
        self.full.without(epoch, &self.out())
    }
}

impl Proxy {
    /// Keys go to whoever is in.
    pub(crate) fn remap(&mut self) {
        let epoch = self.core.topology.epoch() + 1;
        let Some(ejection) = self.core.ejection.as_mut().filter(|ejection| ejection.has_changed) else {
            return;
        };
        let topology = Arc::new(ejection.topology(epoch));
        let out = ejection.out().iter().map(|&shard| topology.shard(shard).name.clone()).collect();
        self.core.counters.remaps += 1;
        self.core.notice(Notice::Remapped { out });
        self.handle_topology(topology, self.core.now);
    }
}

impl Core {
    /// When somebody who is out may come back.
    #[inline]
    pub(crate) fn ejection_deadline(&self) -> Instant {
        self.ejection.as_ref().map_or(Instant::NEVER, |ejection| ejection.deadline())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{TopologySpec, parse_nodes};

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Three shards; two failures eject for a second.
    fn ejection() -> Ejection {
        let nodes = parse_nodes("a:1,b:1,c:1").expect("valid");
        let full = Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid");
        Ejection::new(Ejecting { failures_max: 2, retry_after: Duration::from_secs(1) }, Arc::new(full))
    }

    #[test]
    fn only_failures_one_after_another_eject() {
        let mut ejection = ejection();
        for round in 0..3 {
            ejection.note_failure(ShardId(1), at(round));
            ejection.note_answer(ShardId(1), at(round));
        }
        assert_eq!((ejection.out(), ejection.has_changed), (vec![], false));
        ejection.note_failure(ShardId(1), at(10));
        ejection.note_failure(ShardId(1), at(11));
        assert_eq!((ejection.out(), ejection.has_changed), (vec![ShardId(1)], true));
        let topology = ejection.topology(2);
        assert!(!ejection.has_changed);
        let owners: Vec<u32> = (0..100).map(|n| topology.shard_of(format!("{n}").as_bytes()).0).collect();
        assert!(owners.contains(&0) && owners.contains(&2) && !owners.contains(&1));
    }

    #[test]
    fn nobody_comes_back_before_his_time_or_without_an_answer() {
        let mut ejection = ejection();
        ejection.note_failure(ShardId(0), at(0));
        ejection.note_failure(ShardId(0), at(0));
        ejection.take_back(at(5000));
        assert_eq!(ejection.out(), [ShardId(0)], "it has not answered");
        ejection.note_failure(ShardId(2), at(5000));
        ejection.note_failure(ShardId(2), at(5000));
        ejection.note_answer(ShardId(2), at(5100));
        assert_eq!((ejection.out(), ejection.deadline()), (vec![ShardId(0), ShardId(2)], at(6000)));
        ejection.take_back(at(6000));
        assert_eq!(ejection.out(), [ShardId(0)]);
        ejection.note_answer(ShardId(0), at(6001));
        assert_eq!(ejection.out(), []);
        assert_eq!(ejection.deadline(), Instant::NEVER);
    }

    #[test]
    fn the_last_one_stays() {
        let mut ejection = ejection();
        for shard in [0, 1, 2, 2, 1, 0, 0, 0].map(ShardId) {
            ejection.note_failure(shard, at(0));
        }
        assert_eq!(ejection.out(), [ShardId(1), ShardId(2)]);
    }
}
