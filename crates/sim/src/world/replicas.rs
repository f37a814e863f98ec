//! Replicas in a world: they follow their primaries with delay, lose their links, and replace them.

use super::{What, World};
use crate::ledger::{text, token_of};
use crate::node::Node;
use crate::replication::{Follower, Log};
use proxy::Reading;
use std::time::Duration;
use stdx::Instant;

/// While the clock stands still, a key that expires at that moment cannot be written anew.
const MOMENT: Duration = Duration::from_millis(500);

/// Time after which a replica retries a primary that it cannot reach, or that follows another node itself.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Time after which a replica that returned with data has caught up. It is linked at once.
const CATCHES_UP_AFTER: Duration = Duration::from_millis(800);

/// Time after which the proxy knows of a replica's fault and none of its earlier requests is under way.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

impl World<'_> {
    /// The primary that `node` follows.
    fn primary_of(&self, node: usize) -> Option<usize> {
        self.nodes[node].follower.as_ref()?;
        match &self.cluster {
            Some(cluster) => cluster.primary_of(node),
            None => self.nodes[node].follows,
        }
    }

    /// Nodes that follow `node`.
    fn followers_of(&self, node: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|follower| self.primary_of(*follower) == Some(node)).collect()
    }

    /// The log of `node` may have grown, or the node is back: its replicas continue some time later.
    pub(super) fn plan_followers(&mut self, node: usize) {
        for follower in self.followers_of(node) {
            let log = &self.nodes[node].log;
            let lags =
                self.nodes[follower].follower.as_ref().is_some_and(|is| is.lags(log) || !is.is_linked());
            if lags {
                self.plan_replication(follower);
            }
        }
    }

    pub(super) fn plan_replication(&mut self, node: usize) {
        let Some(follower) = &mut self.nodes[node].follower else { return };
        if !std::mem::replace(&mut follower.is_planned, true) {
            let lag_max = *self.prng.pick(&self.plan.lags);
            self.plan_in_up_to(lag_max, What::Replicate(node));
        }
    }

    /// A node was gone, and is back.
    pub(super) fn revive(&mut self, node: usize) {
        self.nodes[node].down = false;
        self.nodes[node].full = false;
        self.plan_replication(node);
        self.plan_followers(node);
        if let (Some(cluster), Some(_)) = (&mut self.cluster, &self.scout) {
            // Before it has heard the others, it takes no requests.
            cluster.isolated.insert(node);
            self.plan_in_up_to(Duration::from_millis(300), What::Gossip(node));
        }
    }

    /// The process of `node` has died: its connections and those of its replicas are gone.
    pub(super) fn unlink(&mut self, node: usize) {
        let followers = self.followers_of(node);
        for follower in followers.into_iter().chain([node]) {
            if let Some(follower) = &mut self.nodes[follower].follower {
                follower.link(false, self.now);
            }
        }
    }

    /// The process of `node` has died. A replica returns with its saved data, or with none.
    pub(super) fn forget_as_replica(&mut self, node: usize) {
        let Some(primary) = self.primary_of(node) else { return };
        let (written_down, now) = (self.prng.below(4), self.now);
        let [replica, primary] = self.nodes.get_disjoint_mut([node, primary]).expect("two nodes");
        let Some(follower) = &mut replica.follower else { return };
        match written_down {
            0 => {}
            1 if follower.follows(&primary.log) => {
                let lost = *self.prng.pick(&[3, 30, 300]);
                follower.fall_back(&primary.log, &mut replica.keyspace, lost, now);
                follower.held_until = now + CATCHES_UP_AFTER;
            }
            _ => {
                *follower = Follower::new(now);
                replica.keyspace.ask(&[b"FLUSHALL"], now);
            }
        }
    }

    /// Breaks the link between `node`, if it is a replica, and its primary.
    pub(super) fn break_link(&mut self, node: usize, lasts: Duration) {
        let until = self.now + lasts;
        if let Some(follower) = &mut self.nodes[node].follower {
            follower.link(false, self.now);
            follower.unlinked_until = until;
            self.plan_replication(node);
        }
    }

    /// Whether `node` of a cluster does not know that another has replaced it.
    fn takes_itself_for_primary(&self, node: usize) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.believes_to_be_primary(node))
    }

    /// Replicas of `node` apply nothing for a while, though their links are up.
    pub(super) fn hold_followers(&mut self, node: usize, lasts: Duration) {
        for follower in self.followers_of(node) {
            if let Some(follower) = &mut self.nodes[follower].follower {
                follower.held_until = self.now + lasts;
            }
        }
    }

    /// The replica `node` applies some of the pending changes.
    pub(super) fn replicate(&mut self, node: usize) {
        let Some(primary) = self.primary_of(node) else { return };
        let now = self.now;
        let count = *self.prng.pick(&[1, 3, 10, usize::MAX]);
        let frozen_until = self.nodes[node].frozen_until.max(self.nodes[primary].frozen_until);
        let primary_number = primary;
        let is_cut = self.is_apart(node, primary)
            || self.watch.is_some() && self.nodes[primary].follower.is_some()
            || self.scout.is_some() && self.takes_itself_for_primary(node);
        let [replica, primary] = self.nodes.get_disjoint_mut([node, primary]).expect("two nodes");
        let Some(follower) = &mut replica.follower else { return };
        follower.is_planned = false;
        if replica.down || primary.down {
            // Planned again when it is back.
            follower.link(false, now);
            return;
        }
        if is_cut {
            follower.link(false, now);
            follower.is_planned = true;
            return self.plan_at(now + LOOKS_AGAIN_AFTER, What::Replicate(node));
        }
        let wait_until = frozen_until.max(follower.unlinked_until).max(follower.held_until);
        if wait_until > now {
            follower.is_planned = true;
            if frozen_until.max(follower.unlinked_until) <= now && follower.follows(&primary.log) {
                follower.link(true, now);
            }
            return self.plan_at(wait_until, What::Replicate(node));
        }
        let has_gone_on = match follower.follows(&primary.log) {
            true => follower.go_on(&primary.log, &mut replica.keyspace, count, now),
            false => follower.begin_anew(&primary.log, &mut primary.keyspace, &mut replica.keyspace, now),
        };
        if !has_gone_on {
            follower.is_planned = true;
            return self.plan_at(now + MOMENT, What::Replicate(node));
        }
        follower.link(true, now);
        let lags = follower.lags(&primary.log);
        if lags {
            self.plan_replication(node);
        }
        self.acknowledge(primary_number);
    }

    /// Answers waits for replicas on `node`, if there are enough or the time is up.
    pub(super) fn acknowledge(&mut self, node: usize) {
        if self.nodes[node].waiting.is_empty() {
            return;
        }
        let offsets = self.followers_of(node).into_iter().filter_map(|follower| {
            let follower = self.nodes[follower].follower.as_ref()?;
            let counts = follower.is_linked() && follower.follows(&self.nodes[node].log);
            counts.then_some(follower.offset)
        });
        let offsets: Vec<u64> = offsets.collect();
        while let Some((conn, count)) = self.nodes[node].next_acknowledged(&offsets, self.now) {
            self.say_to_proxy(conn, format!(":{count}\r\n").as_bytes());
            self.plan_in_up_to(self.plan.delay_max, What::Run(conn));
        }
        if let Some(at) = self.nodes[node].wakes_at() {
            self.plan_at(at, What::Due(node));
        }
    }

    /// The reason why no client may read from `node`, a replica; `None` if the proxy may not know of it yet.
    pub(super) fn unfit(&self, node: usize) -> Option<&'static str> {
        let Reading { covers_for_primary, lag_bytes_max, .. } = self.plan.reading;
        // While it is paused, the worker learns nothing.
        let then = self.has_run_since(KNOWN_WITHIN);
        let is_steady = |node: &Node| !node.down && node.frozen_until <= then && node.loading_until <= then;
        let replica = &self.nodes[node];
        let follower = replica.follower.as_ref().filter(|_| !covers_for_primary && is_steady(replica))?;
        if self.watch.is_some() && !self.ledger.is_demoted_since(node, then) {
            // The node was told to follow another node, and is still asked as the primary that it was.
            return None;
        }
        if follower.is_unlinked_since(then) {
            return Some("is not connected to its primary");
        }
        let primary = &self.nodes[self.primary_of(node)?];
        let lag = primary.log.offset_at(then).saturating_sub(follower.offset);
        let lags = follower.follows(&primary.log) && lag_bytes_max.is_some_and(|max| lag > max);
        // A primary that takes no connections may not be asked: its last answer counts.
        (lags && is_steady(primary) && !primary.full).then_some("lags too far")
    }

    /// Checks that replicas have the writes that WAIT reported for them.
    pub(super) fn check_acknowledged(&mut self) {
        let now = self.now;
        for (key, token, count) in std::mem::take(&mut self.ledger.acknowledged) {
            let primary = self.node_of(&key);
            let followers = self.followers_of(primary);
            let mut has_it = |node: usize| {
                let value = self.nodes[node].keyspace.ask(&[b"GET", &key], now);
                resp::reply::as_bulk(&value).and_then(token_of) == Some(token)
            };
            // Later changes cannot be told from missing writes.
            if !has_it(primary) {
                continue;
            }
            let mut lacking: Vec<usize> =
                followers.iter().copied().filter(|replica| !has_it(*replica)).collect();
            lacking.retain(|replica| {
                let follower = self.nodes[*replica].follower.as_ref();
                // A replica that died meanwhile had the write.
                follower.is_some_and(|it| it.follows(&self.nodes[primary].log) && !it.has_fallen_back())
            });
            // A node that became a primary meanwhile, or another's replica, had the write.
            if self.plan.replicas() - lacking.len() < count {
                let what = format!("nodes {lacking:?} do not have write {token} of {:?}", text(&key));
                self.ledger.violate(format!("a client was told that {count} replicas have all, and {what}"));
            }
        }
    }

    /// The node `new`, a replica of `old`, becomes a primary. Returns the keys whose last changes it lacks; `None` if it has no
    /// valid data, so that it gets no votes.
    pub(super) fn take_over(&mut self, new: usize, old: usize) -> Option<Vec<Vec<u8>>> {
        let catches_up = self.prng.one_in(2);
        self.histories += 1;
        let history = self.histories;
        let [heir, gone] = self.nodes.get_disjoint_mut([new, old]).expect("two nodes");
        let follower = heir.follower.as_mut().filter(|follower| follower.follows(&gone.log))?;
        if catches_up {
            follower.go_on(&gone.log, &mut heir.keyspace, usize::MAX, self.now);
        }
        let lost = gone.log.tail(follower);
        heir.log = Log::new(history, follower.offset);
        heir.follower = None;
        gone.follower = Some(Follower::new(self.now));
        Some(lost)
    }

    /// Everybody has all, and nothing is planned: faults are over.
    pub(super) fn settle_replicas(&mut self) {
        for node in 0..self.nodes.len() {
            self.plan_replication(node);
        }
    }
}

/// Copies the data of `primary` to `replica` before the world begins.
pub(super) fn pair(primary: &mut Node, replica: &mut Node, now: Instant) {
    let mut follower = Follower::new(now);
    follower.link(true, now);
    follower.begin_anew(&primary.log, &mut primary.keyspace, &mut replica.keyspace, now);
    replica.follower = Some(follower);
}
