//! One line for each event, though each worker notices it for itself.

use proxy::Notice;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Interval after which a passing event is logged again.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Events that are remembered. Beyond them, the oldest are logged again.
const EVENTS_MAX: usize = 4096;

/// The logged conditions and events.
#[derive(Debug, Default)]
pub(crate) struct MergedLog {
    /// Logged conditions that are not over, with the workers that have noticed them.
    conditions: BTreeMap<Condition, BTreeSet<usize>>,
    /// Logged moments, with their times.
    moments: BTreeMap<String, Instant>,
    /// The last logged notice about keys that other shards hold.
    remapped: Option<Notice>,
}

/// A condition that begins and ends, and its shard.
type Condition = (&'static str, String);

/// Rule for logging a notice once.
enum Kind {
    Begins(Condition),
    /// All of them.
    Ends(Vec<Condition>),
    Moment(String),
    Remapped,
    /// A notice about one client, which one worker has.
    Own,
}

impl MergedLog {
    /// Whether `notice` of worker `worker` at `now` is to be logged.
    pub(crate) fn admits(&mut self, worker: usize, notice: &Notice, now: Instant) -> bool {
        match kind(notice) {
            Kind::Begins(condition) => {
                let is_new = !self.conditions.contains_key(&condition);
                // A worker that reports it again has seen the end of it.
                let is_again = !self.conditions.entry(condition).or_default().insert(worker);
                is_new || is_again
            }
            // Each is over for all workers, or was never logged.
            Kind::Ends(conditions) => {
                let mut are_over = true;
                for condition in &conditions {
                    are_over &= self.ends(condition, worker);
                }
                are_over
            }
            Kind::Moment(text) => {
                self.moments.retain(|_, told_at| now.duration_since(*told_at) < TOLD_EVERY);
                if self.moments.len() >= EVENTS_MAX {
                    self.moments.clear();
                }
                self.moments.insert(text, now).is_none()
            }
            Kind::Remapped => {
                let is_told = self.remapped.as_ref() == Some(notice);
                self.remapped = Some(notice.clone());
                !is_told
            }
            Kind::Own => true,
        }
    }

    /// Whether `condition` is over for all workers, now that `worker` has seen its end.
    fn ends(&mut self, condition: &Condition, worker: usize) -> bool {
        let Some(workers) = self.conditions.get_mut(condition) else { return true };
        workers.remove(&worker);
        let is_over = workers.is_empty();
        if is_over {
            self.conditions.remove(condition);
        }
        is_over
    }

    /// The nodes have changed: conditions of removed ones have no end.
    pub(crate) fn forget_conditions(&mut self) {
        self.conditions.clear();
    }
}

fn kind(notice: &Notice) -> Kind {
    let condition = |what: &'static str, shard: &String| (what, shard.clone());
    match notice {
        Notice::NodeDown { shard, .. } => Kind::Begins(condition("down", shard)),
        Notice::NodeRefused { shard, .. } => Kind::Begins(condition("refused", shard)),
        Notice::NodeUp { shard } => Kind::Ends(vec![condition("down", shard), condition("refused", shard)]),
        Notice::NodeIsReplica { shard, .. } => Kind::Begins(condition("replica", shard)),
        Notice::NodeIsPrimary { shard } => Kind::Ends(vec![condition("replica", shard)]),
        Notice::NoReplicaFit { shard, .. } => Kind::Begins(condition("no replica", shard)),
        Notice::ReplicaFit { shard } => Kind::Ends(vec![condition("no replica", shard)]),
        Notice::MessagesMissed { shard, .. } => Kind::Begins(condition("messages", shard)),
        Notice::SubscribedAgain { shard, .. } => Kind::Ends(vec![condition("messages", shard)]),
        Notice::ConnReplaced { .. } | Notice::KindRefused { .. } => Kind::Moment(format!("{notice:?}")),
        Notice::CrossSlot { command, option, .. } => Kind::Moment(format!("cross slot {command} {option:?}")),
        Notice::LibraryNotKept { library } => Kind::Moment(format!("library {library}")),
        Notice::Remapped { .. } => Kind::Remapped,
        Notice::HandshakeFailed { .. } | Notice::ClientClosed { .. } | Notice::ElementNotReturned { .. } => {
            Kind::Own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(shard: &str, reason: &str) -> Notice {
        Notice::NodeDown { shard: shard.to_owned(), reason: reason.to_owned() }
    }

    fn up(shard: &str) -> Notice {
        Notice::NodeUp { shard: shard.to_owned() }
    }

    #[test]
    fn a_node_is_down_once_and_back_once() {
        let (mut log, now) = (MergedLog::default(), Instant::now());
        let mut told = |worker, notice: Notice| log.admits(worker, &notice, now);
        assert!(told(0, down("a", "refused")));
        assert!(!told(1, down("a", "no reply in time")), "another worker, another reason");
        assert!(told(1, down("b", "refused")), "another node");
        assert!(!told(0, up("a")), "one worker cannot reach it yet");
        assert!(told(1, up("a")));
        assert!(told(0, down("a", "refused")), "that is the next time");
        assert!(told(0, down("a", "refused")), "the worker has seen it back");
    }

    #[test]
    fn a_node_down_and_then_refused_is_logged_twice() {
        let (mut log, now) = (MergedLog::default(), Instant::now());
        let mut told = |worker, notice: Notice| log.admits(worker, &notice, now);
        let refused = || Notice::NodeRefused { shard: "a".to_owned(), reason: "a sentinel".to_owned() };
        assert!(told(0, down("a", "refused")) && !told(1, down("a", "refused")));
        assert!(told(0, refused()) && !told(1, refused()));
        assert!(!told(0, up("a")) && told(1, up("a")), "back once");
    }

    #[test]
    fn a_forgotten_condition_is_logged_again() {
        let (mut log, now) = (MergedLog::default(), Instant::now());
        assert!(log.admits(0, &down("a", "refused"), now));
        log.forget_conditions();
        assert!(log.admits(1, &down("a", "refused"), now));
        assert!(log.admits(0, &up("a"), now) || log.admits(1, &up("a"), now));
    }

    #[test]
    fn moments_are_logged_once_per_interval() {
        let (mut log, now) = (MergedLog::default(), Instant::now());
        let replaced = Notice::ConnReplaced { shard: "a".to_owned() };
        assert!(log.admits(0, &replaced, now));
        assert!(!log.admits(1, &replaced, now));
        assert!(log.admits(1, &replaced, now + TOLD_EVERY));
    }

    #[test]
    fn each_remapping_is_logged_once() {
        let (mut log, now) = (MergedLog::default(), Instant::now());
        let remapped = |out: &[&str]| Notice::Remapped {
            out: out.iter().map(|name| (*name).to_owned()).collect(),
            returning: Vec::new(),
        };
        let admitted: Vec<bool> =
            [remapped(&["a"]), remapped(&["a"]), remapped(&[]), remapped(&[]), remapped(&["a"])]
                .iter()
                .zip([0, 1, 0, 1, 0])
                .map(|(notice, worker)| log.admits(worker, notice, now))
                .collect();
        assert_eq!(admitted, [true, false, true, false, true]);
    }

    #[test]
    fn each_client_has_its_own_line() {
        let (mut log, now) = (MergedLog::default(), Instant::now());
        let failed = Notice::HandshakeFailed { peer: "a".to_owned(), reason: "b".to_owned() };
        assert!(log.admits(0, &failed, now) && log.admits(1, &failed, now));
    }
}
