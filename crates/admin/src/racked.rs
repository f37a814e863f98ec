//! Racks, for metrics and the answer to `/racks`.

use racks::{Counts, RackState, RackStatus, Status};
use serde::Serialize;
use std::collections::BTreeMap;

/// The racks of a pool.
#[derive(Clone, Debug, Default)]
pub struct Racks {
    /// Their names, with the data centre: `dc1/a`.
    pub names: Vec<String>,
    /// The state of each shard, which has a copy in each rack.
    pub shards: Vec<Status>,
}

impl Racks {
    /// Each rack by its name, with its copies of all shards.
    fn by_rack(&self) -> impl Iterator<Item = (&str, Vec<&RackStatus>)> {
        let copies = |rack| self.shards.iter().filter_map(move |shard| shard.racks.get(rack)).collect();
        self.names.iter().enumerate().map(move |(rack, name)| (name.as_str(), copies(rack)))
    }

    /// Calls `show` with each rack, each state, and the number of its copies in it.
    pub(crate) fn each_state(&self, mut show: impl FnMut(&str, &str, u64)) {
        for (rack, copies) in self.by_rack() {
            for (state, name) in RackState::NAMES {
                let count = copies.iter().filter(|copy| copy.state == state).count();
                show(rack, name, count as u64);
            }
        }
    }

    /// Calls `show` with each rack, and its hints, their bytes, and seconds since the oldest.
    pub(crate) fn each_lag(&self, mut show: impl FnMut(&str, u64, u64, f64)) {
        for (rack, copies) in self.by_rack() {
            let lag = copies.iter().map(|copy| copy.lag).max().unwrap_or_default();
            let (hints, bytes) = copies
                .iter()
                .fold((0, 0), |(hints, bytes), copy| (hints + copy.hints, bytes + copy.hint_bytes));
            show(rack, hints, bytes, lag.as_secs_f64());
        }
    }

    /// A count of all shards together.
    pub(crate) fn sum(&self, count: impl Fn(&Counts) -> u64) -> u64 {
        self.shards.iter().map(|shard| count(&shard.counts)).sum()
    }
}

/// The answer to `/racks`.
#[derive(Debug, Serialize)]
pub(crate) struct RacksAnswer {
    racks: Vec<RackAnswer>,
    counts: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct RackAnswer {
    name: String,
    /// The state of its copy of each shard.
    states: Vec<&'static str>,
    hints: u64,
    hint_bytes: u64,
    lag_s: f64,
}

impl RacksAnswer {
    pub(crate) fn of(all: &Racks) -> RacksAnswer {
        let mut racks: Vec<RackAnswer> = Vec::new();
        all.each_lag(|name, hints, hint_bytes, lag_s| {
            racks.push(RackAnswer { name: name.to_owned(), states: Vec::new(), hints, hint_bytes, lag_s });
        });
        for (rack, (_, copies)) in racks.iter_mut().zip(all.by_rack()) {
            rack.states = copies.iter().map(|copy| copy.state.name()).collect();
        }
        let counts = COUNTS.iter().map(|(name, count)| (*name, all.sum(count))).collect();
        RacksAnswer { racks, counts }
    }
}

/// One of the counts.
type Count = fn(&Counts) -> u64;

/// The counts by their names.
const COUNTS: [(&str, Count); 11] = [
    ("reads_missed", |counts| counts.reads_missed),
    ("writes_missed", |counts| counts.writes_missed),
    ("losses", |counts| counts.losses),
    ("hints", |counts| counts.hints),
    ("played_back", |counts| counts.played_back),
    ("stale", |counts| counts.outdated),
    ("compared", |counts| counts.compared),
    ("different", |counts| counts.different),
    ("replies_different", |counts| counts.replies_different),
    ("repaired", |counts| counts.repaired),
    ("log_failures", |counts| counts.log_failures),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn racks_are_summed_over_their_shards() {
        let copy = |state, hints, lag_s| RackStatus {
            state,
            hints,
            hint_bytes: hints * 100,
            lag: Duration::from_secs(lag_s),
        };
        let shard = |copy: RackStatus, hints| Status {
            racks: vec![copy],
            counts: Counts { hints, ..Counts::default() },
        };
        let shards = vec![shard(copy(RackState::Up, 0, 0), 3), shard(copy(RackState::CatchingUp, 2, 7), 4)];
        let racks = Racks { names: vec!["d/a".to_owned()], shards };
        let answer = serde_json::to_value(RacksAnswer::of(&racks)).expect("JSON");
        let rack = serde_json::json!({
            "name": "d/a", "states": ["up", "catching-up"], "hints": 2, "hint_bytes": 200, "lag_s": 7.0
        });
        assert_eq!((&answer["racks"][0], &answer["counts"]["hints"]), (&rack, &7.into()));
    }
}
