//! From sums since the start to rates and quantiles of the last seconds. `--once --json` prints these figures.

use crate::sample::{self, Shown, Status, Times};
use serde::Serialize;
use std::collections::VecDeque;

/// Rates are those of this time, as on the page: the workers publish their counts once a second.
const WINDOW_S: f64 = 4.0;
/// States kept to compare with. More come only if the interval is tiny; then the window is shorter.
const STATES_MAX: usize = 64;

/// The figures of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub version: Shown,
    pub uptime_s: f64,
    pub is_draining: bool,
    pub layout: Shown,
    pub epoch: u64,
    /// The time of the rates, if there are any.
    pub seconds: Option<f64>,
    pub shards: usize,
    pub shards_up: usize,
    pub totals: Totals,
    pub workers: Vec<Worker>,
    pub nodes: Vec<Node>,
    pub commands: Vec<Command>,
    pub errors: Vec<Cause>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Totals {
    pub requests: u64,
    pub requests_per_s: Option<f64>,
    #[serde(flatten)]
    pub times: Quantiles,
    pub errors_per_s: Option<f64>,
    pub clients: u64,
    pub clients_blocked: u64,
    pub bytes_per_s: Option<f64>,
    pub resident_bytes: u64,
    pub held_bytes: u64,
    /// Of its time, from 0 to 1.
    pub busiest_worker: Option<f64>,
}

/// Times of the last seconds, if there were replies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Quantiles {
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Worker {
    pub busy: Option<f64>,
    pub clients: u64,
    pub requests: u64,
    pub held_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Node {
    pub address: Shown,
    pub shard: Shown,
    pub role: Shown,
    pub state: Shown,
    pub reason: Shown,
    /// Its requests fail: it is down, or connecting after a failure.
    pub is_down: bool,
    /// Of the keys, from 0 to 1.
    pub share: f64,
    pub replies_per_s: Option<f64>,
    #[serde(flatten)]
    pub times: Quantiles,
    pub errors_per_s: Option<f64>,
    pub failures: u64,
    pub connections: u64,
    pub in_flight: u64,
    pub queued_bytes: u64,
    /// Its own memory, if known.
    pub used_memory_bytes: Option<u64>,
    /// 0 without a limit.
    pub maxmemory_bytes: Option<u64>,
    pub bytes_per_s: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Command {
    pub name: Shown,
    pub calls: u64,
    pub calls_per_s: Option<f64>,
    #[serde(flatten)]
    pub times: Quantiles,
    pub refused: u64,
    pub failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cause {
    pub cause: Shown,
    pub count: u64,
    pub errors_per_s: Option<f64>,
}

/// The states of the last seconds, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Window {
    past: VecDeque<Status>,
}

impl Window {
    /// The figures of `next`, compared with the oldest state in the window. After a restart there is none.
    pub(crate) fn take(&mut self, next: Status) -> Figures {
        if self.past.front().is_some_and(|past| past.started_s != next.started_s) {
            self.past.clear();
        }
        while self.past.len() > 1 && next.now_s - self.past[1].now_s >= WINDOW_S
            || self.past.len() >= STATES_MAX
        {
            self.past.pop_front();
        }
        let before = self.past.front().filter(|past| next.now_s > past.now_s);
        let figures = Change::new(&next, before).figures();
        self.past.push_back(next);
        figures
    }
}

/// Two states of one process. There is none before the first one.
struct Change<'a> {
    now: &'a Status,
    before: Option<&'a Status>,
    /// The time between them.
    seconds: Option<f64>,
}

impl<'a> Change<'a> {
    fn new(now: &'a Status, before: Option<&'a Status>) -> Change<'a> {
        Change { now, before, seconds: before.map(|before| now.now_s - before.now_s) }
    }

    /// The rate of a count that was `then`. It may have been lower: the counts of a node that has gone are left out.
    fn rate(&self, now: u64, then: Option<u64>) -> Option<f64> {
        Some(now.saturating_sub(then?) as f64 / self.seconds?)
    }

    /// The rate of a count of the process.
    fn rate_of(&self, count: impl Fn(&Status) -> u64) -> Option<f64> {
        self.rate(count(self.now), self.before.map(count))
    }

    fn figures(&self) -> Figures {
        let nodes: Vec<Node> = self.now.nodes.iter().map(|node| self.node(node)).collect();
        let primaries = || nodes.iter().filter(|node| node.role.as_str() == "primary");
        let errors: Vec<Cause> = self.now.errors.iter().map(|row| self.cause(row)).collect();
        let workers: Vec<Worker> =
            self.now.workers.iter().enumerate().map(|(at, worker)| self.worker(at, worker)).collect();
        Figures {
            version: self.now.version.clone(),
            uptime_s: self.now.now_s - self.now.started_s,
            is_draining: self.now.is_draining,
            layout: self.now.layout.clone(),
            epoch: self.now.epoch,
            seconds: self.seconds,
            shards: primaries().count(),
            shards_up: primaries().filter(|node| node.state.as_str() == "up").count(),
            totals: Totals {
                errors_per_s: self.before.map(|_| errors.iter().filter_map(|row| row.errors_per_s).sum()),
                busiest_worker: workers.iter().filter_map(|worker| worker.busy).max_by(f64::total_cmp),
                ..self.totals()
            },
            commands: self.now.commands.iter().map(|row| self.command(row)).collect(),
            workers,
            nodes,
            errors,
        }
    }

    fn totals(&self) -> Totals {
        let times = |status: &Status| sum(status.nodes.iter().map(|node| &node.times));
        let totals = &self.now.totals;
        Totals {
            requests: totals.requests,
            requests_per_s: self.rate_of(|status| status.totals.requests),
            times: quantiles(&times(self.now), self.before.map(times).as_ref()),
            clients: totals.clients,
            clients_blocked: totals.clients_blocked,
            bytes_per_s: self.rate_of(|status| status.totals.bytes_in + status.totals.bytes_out),
            resident_bytes: self.now.memory.resident_bytes,
            held_bytes: self.now.memory.held_bytes,
            ..Totals::default()
        }
    }

    fn worker(&self, at: usize, worker: &sample::Worker) -> Worker {
        let busy = || {
            let spent_s = worker.busy_s - self.before?.workers.get(at)?.busy_s;
            Some((spent_s / self.seconds?).clamp(0.0, 1.0))
        };
        Worker {
            busy: busy(),
            clients: worker.clients,
            requests: worker.requests,
            held_bytes: worker.held_bytes,
        }
    }

    fn node(&self, node: &sample::Node) -> Node {
        let was =
            self.before.and_then(|before| before.nodes.iter().find(|past| past.address == node.address));
        let state = node.state.as_str();
        let bytes = |node: &sample::Node| node.bytes_in + node.bytes_out;
        Node {
            address: node.address.clone(),
            shard: node.shard.clone(),
            role: node.role.clone(),
            state: node.state.clone(),
            reason: node.reason.clone(),
            is_down: state == "down" || state == "connecting" && !node.reason.as_str().is_empty(),
            share: node.share,
            replies_per_s: self.rate(node.times.count, was.map(|was| was.times.count)),
            times: quantiles(&node.times, was.map(|was| &was.times)),
            errors_per_s: self.rate(node.errors, was.map(|was| was.errors)),
            failures: node.failures,
            connections: node.connections,
            in_flight: node.in_flight,
            queued_bytes: node.queued_bytes,
            used_memory_bytes: node.used_memory_bytes,
            maxmemory_bytes: node.maxmemory_bytes,
            bytes_per_s: self.rate(bytes(node), was.map(bytes)),
        }
    }

    /// Commands and causes that have not happened have no row.
    fn command(&self, row: &sample::Command) -> Command {
        let found = |before: &Status| {
            before.commands.iter().find(|past| past.name == row.name).cloned().unwrap_or_default()
        };
        let was = self.before.map(found);
        Command {
            name: row.name.clone(),
            calls: row.calls,
            calls_per_s: self.rate(row.calls, was.as_ref().map(|was| was.calls)),
            times: quantiles(&row.times, was.as_ref().map(|was| &was.times)),
            refused: row.refused,
            failed: row.failed,
        }
    }

    fn cause(&self, row: &sample::Cause) -> Cause {
        let count = |before: &Status| {
            before.errors.iter().find(|past| past.cause == row.cause).map_or(0, |past| past.count)
        };
        Cause {
            cause: row.cause.clone(),
            count: row.count,
            errors_per_s: self.rate(row.count, self.before.map(count)),
        }
    }
}

/// The distribution of all `times`.
fn sum<'a>(times: impl Iterator<Item = &'a Times>) -> Times {
    times.fold(Times::default(), |mut sum, times| {
        sum.count += times.count;
        sum.below.resize(sum.below.len().max(times.below.len()), 0);
        for (sum, count) in sum.below.iter_mut().zip(&times.below) {
            *sum += count;
        }
        sum
    })
}

fn quantiles(now: &Times, before: Option<&Times>) -> Quantiles {
    let of = |share| before.and_then(|before| quantile(now, before, share));
    Quantiles { p50_us: of(0.5), p99_us: of(0.99), p999_us: of(0.999) }
}

/// The time below which a share of all replies between two states came, evenly spread between two bounds.
fn quantile(now: &Times, before: &Times, share: f64) -> Option<f64> {
    let all = now.count.saturating_sub(before.count);
    if all == 0 {
        return None;
    }
    let wanted = share * all as f64;
    let (mut low, mut start_us) = (0.0, 0.0);
    for (at, count) in now.below.iter().enumerate() {
        let count = count.saturating_sub(before.below.get(at).copied().unwrap_or(0)) as f64;
        let end_us = (1u64 << at.min(62)) as f64;
        if count >= wanted {
            let part = if count > low { (wanted - low) / (count - low) } else { 1.0 };
            return Some(start_us + (end_us - start_us) * part);
        }
        (low, start_us) = (count, end_us);
    }
    Some(start_us * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::status;

    #[test]
    fn rates_are_those_of_the_window() {
        let mut window = Window::default();
        let first = window.take(status(10.0, 1000));
        assert_eq!(
            (first.seconds, first.totals.requests_per_s, first.nodes[0].replies_per_s),
            (None, None, None)
        );
        let rates: Vec<_> = (1..8)
            .map(|second| {
                let figures = window.take(status(10.0 + f64::from(second), 1000 + 100 * second as u64));
                (figures.seconds, figures.totals.requests_per_s)
            })
            .collect();
        assert_eq!(rates[0], (Some(1.0), Some(100.0)));
        assert_eq!(rates[6], (Some(4.0), Some(100.0)));
    }

    #[test]
    fn a_restart_begins_anew() {
        let mut window = Window::default();
        window.take(status(10.0, 1000));
        let restarted = Status { started_s: 11.0, ..status(12.0, 3) };
        assert_eq!(window.take(restarted).totals.requests_per_s, None);
    }

    #[test]
    fn quantiles_are_those_between_two_states() {
        let times = |count, below: &[u64]| Times { count, below: below.to_vec() };
        let (before, now) = (times(4, &[4, 4, 4, 4]), times(14, &[4, 4, 9, 14]));
        assert_eq!(quantile(&now, &before, 0.5), Some(4.0));
        assert_eq!(quantile(&now, &before, 0.75), Some(6.0));
        assert_eq!(quantile(&now, &now, 0.5), None);
        assert_eq!(quantile(&times(1, &[0, 0]), &times(0, &[]), 0.5), Some(4.0));
    }

    #[test]
    fn a_node_that_connects_after_a_failure_is_down() {
        let mut state = status(10.0, 0);
        state.nodes[0].state = "connecting".into();
        assert!(!Change::new(&state, None).figures().nodes[0].is_down);
        state.nodes[0].reason = "connection refused".into();
        let figures = Change::new(&state, None).figures();
        assert!(figures.nodes[0].is_down);
        assert_eq!((figures.shards, figures.shards_up), (2, 1));
    }
}
